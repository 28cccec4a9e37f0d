"""Recent levels against running averages row by row, and against themselves in pieces."""

import json

import numpy as np
import pytest

from culpa.models.normal_range import NormalRange
from culpa.monitoring.states import from_plain, to_plain
from culpa.ranking.recent import Recent, evidence


def rows(n=1500, d=4, holes=False, seed=0):
    rng = np.random.default_rng(seed)
    Z = np.cumsum(rng.normal(size=(n, d)), axis=0) / 20 + rng.normal(size=(n, d))
    if holes:
        Z[rng.random(Z.shape) < 0.1] = np.nan
        Z[:, 3] = np.nan
    return Z


def brute_force(Z):
    """Averages and largest distances, cell by cell."""
    averages, farthest = np.zeros((2, Z.shape[1])), np.zeros((2, Z.shape[1]))
    for n, row in enumerate(Z):
        if n % 300 == 0:
            farthest = np.stack([farthest[1], np.zeros(len(row))])
        for j, cell in enumerate(row):
            if np.isnan(cell):
                continue
            farthest[1, j] = max(farthest[1, j], abs(cell - averages[1, j]))
            for k, window in enumerate((30, 300)):
                averages[k, j] += 2 / (window + 1) * (cell - averages[k, j])
    return averages, farthest


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("n", [1, 299, 300, 301, 1500])
def test_levels_are_those_of_the_definition(n, holes):
    found = Recent.none(4).then(rows(n, holes=holes))
    for mine, theirs in zip((found.averages, found.farthest), brute_force(rows(n, holes=holes)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("holes", [False, True])
def test_pieces_and_restarts_change_nothing(holes):
    Z = rows(holes=holes)
    whole, pieces = Recent.none(4).then(Z), Recent.none(4)
    for piece in np.split(Z, [0, 1, 2, 250, 299, 300, 301, 650, 651, 1400]):
        pieces = from_plain(json.loads(json.dumps(to_plain(pieces.then(piece)))))
        pieces = Recent.from_arrays(pieces.to_arrays())
    assert (pieces.averages == whole.averages).all()
    assert (pieces.farthest == whole.farthest).all()
    assert pieces.n_rows == whole.n_rows == len(Z)


def test_movement_by_hand():
    normal = NormalRange(-np.ones(3), np.ones(3), np.array([1.0, 0.0, 0.0]), n=99)
    recent = Recent(np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]), np.array([[4.0, 0.0, 0.0], [2.0, 0.0, 0.0]]))
    moved = recent.movement(np.array([[7.0, 0.5, 0.0], [np.nan, 0.0, 0.0]]), normal)
    np.testing.assert_allclose(moved[0, 0], [6 / np.sqrt(1 + 4 + 0.36), 10, 0])
    np.testing.assert_allclose(moved[1, 0], [5 / np.sqrt(1 + 4 + 0.25), 10, 0])
    assert np.isnan(moved[:, 1, 0]).all()
    np.testing.assert_allclose(evidence(moved[:, 0]), [np.sqrt(moved[0, 0, 0] * moved[1, 0, 0]), 10, 0])


def test_nothing_before_means_the_mean_of_the_training_rows():
    Z = rows(50)
    normal = NormalRange(-np.ones(4), np.ones(4), np.full(4, 2.0), n=1000)
    moved = Recent.none(4).movement(Z, normal)
    np.testing.assert_allclose(moved, np.stack([normal.movement(Z)] * 2))
