"""What stretches of normal rows show, against the definition."""

import numpy as np
import pytest

from culpa.models.latent import LatentGaussian
from culpa.scores.consistency import LENGTHS, Consistency, Residuals
from culpa.scores.quadratic import mahalanobis


def rows(n, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.3 * rng.normal(size=(n, d))


def test_residuals_are_those_of_the_inverse():
    Z = rows(30)
    gaussian = LatentGaussian.from_covariance(np.cov(rows(500).T), 2)
    seen = Residuals.of(mahalanobis(gaussian), Z)
    C = gaussian.covariance
    np.testing.assert_allclose(seen.distance, np.einsum("ni,ij,nj->n", Z, np.linalg.inv(C), Z))
    for j in range(5):
        others = [k for k in range(5) if k != j]
        inverse = np.linalg.inv(C[np.ix_(others, others)])
        rest = np.einsum("ni,ij,nj->n", Z[:, others], inverse, Z[:, others])
        np.testing.assert_allclose(seen.rest[:, j], rest)
        implied = Z[:, others] @ inverse @ C[others, j]
        left = C[j, j] - C[j, others] @ inverse @ C[others, j]
        np.testing.assert_allclose(seen.squares[:, j], (Z[:, j] - implied) ** 2 / left)


def test_quantiles_of_held_out_stretches():
    pieces = np.array_split(rows(400), 5)
    found = Consistency.of(pieces, 2)
    distances = []
    for length, *expected in zip(LENGTHS, found.own, found.rest, found.highest, found.spread, strict=True):
        own, rest, highest = [], [], []
        for k, piece in enumerate(pieces):
            others = np.concatenate([each for at, each in enumerate(pieces) if at != k])
            score = mahalanobis(LatentGaussian.from_covariance(np.cov(others.T), 2))
            width = min(length, len(piece) // 3)
            for at in range(0, len(piece) - width + 1, max(1, width // 4)):
                seen = Residuals.of(score, piece[at : at + width] - others.mean(axis=0))
                own.append(seen.squares.mean(axis=0))
                rest.append(seen.rest.mean(axis=0))
                highest.append(seen.rest.max(axis=0))
            if length == LENGTHS[0]:
                distances.append(Residuals.of(score, piece - others.mean(axis=0)).distance)
        quantiles = [np.quantile(each, 0.95, axis=0) for each in (own, rest, highest)]
        spread = np.quantile((np.array(own) / quantiles[0]).max(axis=1), 0.95)
        for mine, theirs in zip(expected, [*quantiles, spread], strict=True):
            np.testing.assert_allclose(mine, theirs)
    assert found.limit == pytest.approx(np.quantile(np.concatenate(distances), 0.99))


def test_arrays_and_back():
    found = Consistency.of(np.array_split(rows(300), 5), 2)
    again = Consistency.from_arrays(found.to_arrays())
    for name, part in vars(found).items():
        assert np.array_equal(part, getattr(again, name))


@pytest.mark.parametrize(("n_rows", "length"), [(1, 4), (7, 4), (8, 10), (30, 20), (31, 40), (500, 40)])
def test_nearest_length(n_rows, length):
    assert LENGTHS[Consistency.at(n_rows)] == length
