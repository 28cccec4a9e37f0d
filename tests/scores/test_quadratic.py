"""Quadratic scores of wide tables: what does without the d x d matrix equals what forms it."""

import numpy as np
import pytest

from culpa import LatentGaussian, scores
from culpa.games import Interventional
from culpa.scores import change
from culpa.scores.quadratic import scores_of
from culpa.shapley import exact


def loadings(d, p=4, seed=0):
    return np.random.default_rng(seed).normal(size=(d, p)) * np.linspace(1, 0.4, p)


@pytest.mark.parametrize("build", [scores.spe, scores.mahalanobis, scores.t2])
@pytest.mark.parametrize("noise", [0.7, 1e-9])
@pytest.mark.parametrize("rule", ["least-squares", "posterior"])
def test_fixes_without_the_matrix_equal_those_with_it(monkeypatch, build, noise, rule):
    gaussian = LatentGaussian(np.zeros(20), loadings(20), noise, rule)
    score, rng = build(gaussian), np.random.default_rng(2)
    X = gaussian.sample(7, 3) + (rng.random((7, 20)) < 0.1) * 3 * np.sqrt(noise)
    scale = float(np.abs(score.matrix).max())
    np.testing.assert_allclose(score.diagonal, np.diag(score.matrix), rtol=1e-10, atol=1e-14 * scale)
    np.testing.assert_allclose(score.parts(X), X @ score.root.T, atol=1e-12 * np.abs(X @ score.root.T).max())
    np.testing.assert_allclose(score.response(X), X @ score.root.T @ score.root, rtol=0, atol=1e-10 * scale)
    for blocks in ([[i] for i in range(20)], [[0, 4, 7], [2], list(range(8, 20))]):
        expected = gaussian.expected(X, blocks)
        usual = score.if_fixed(X, score(X), expected, blocks)
        with monkeypatch.context() as patch:
            patch.setattr("culpa.scores.change.WIDE", 1)
            wide = score.if_fixed(X, score(X), expected, blocks)
        np.testing.assert_allclose(wide, usual, rtol=1e-8, atol=1e-9 * score(X).max())


@pytest.mark.parametrize("build", [scores.spe, scores.mahalanobis])
@pytest.mark.parametrize("players", [[[i] for i in range(9)], [[0, 4], [1], [2, 3, 8], [5, 6, 7]], [[0], [3, 4], [8]]])
def test_the_closed_form_equals_all_coalitions(monkeypatch, build, players):
    """Also for features with noise of their own, for groups, and where some features are nobody's."""
    noise = 0.3 if build is scores.spe else np.linspace(0.2, 0.9, 9)
    game = Interventional(build(LatentGaussian(np.zeros(9), loadings(9, 3), noise)))
    X = np.random.default_rng(1).normal(size=(5, 9))
    found = game.closed_form(X, players)
    assert "_mixed" not in vars(game)
    monkeypatch.setattr(Interventional, "closed_form", lambda self, X, players: None)
    np.testing.assert_allclose(found, exact(game, X, players).values, rtol=1e-10, atol=1e-12)


def test_the_diagonal_keeps_its_digits_where_a_feature_is_a_component_of_its_own():
    """What is left of such a feature is a difference of numbers that agree in ten digits."""
    W = loadings(20)
    W[0], W[0, 3] = 0.0, 1e5
    score = scores.spe(LatentGaussian(np.zeros(20), W, 0.7))
    assert score.diagonal[0] < 1e-8
    np.testing.assert_allclose(score.diagonal, np.diag(score.matrix), rtol=1e-9)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("degrees_of_freedom", [np.inf, 5.0])
@pytest.mark.parametrize("build", [scores.spe, scores.t2, scores.mahalanobis])
def test_what_is_left_of_gross_readings_is_what_the_fixed_row_scores(monkeypatch, build, degrees_of_freedom, wide):
    if wide:
        monkeypatch.setattr(change, "WIDE", 0)
    for noise in (0.3, 1e-4, 1e-8):
        model = LatentGaussian(np.zeros(7), loadings(7, 2), noise, degrees_of_freedom=degrees_of_freedom)
        score = build(model)
        for size in 10.0 ** np.arange(0, 13, 3):
            X = model.sample(6, 1)
            X[:, 2] += size
            X[1, 4] += 3
            X[3, [2, 5]] = -size, size
            for missing in ([], [5, 6]):
                X[:2, missing] = np.nan
                for blocks in ([[j] for j in range(7)], [[0], [2, 3], [5, 4, 6]]):
                    expected = model.expected(X, blocks)
                    found = score.if_fixed(X, score(X), expected, blocks)
                    for k, block in enumerate(blocks):
                        fixed = X.copy()
                        fixed[:, block] = np.where(np.isnan(X[:, block]), np.nan, expected[:, block])
                        rescored = np.where(np.isnan(X[:, block]).all(axis=1), np.nan, score(fixed))
                        np.testing.assert_allclose(found[:, k], rescored, rtol=1e-9)


@pytest.mark.parametrize("d", [30, 600])
def test_fixes_of_a_score_that_is_not_smallest_at_the_mean(d):
    """As a linear autoencoder's error, in tables with few and with many columns: what the fixed row scores."""
    rng = np.random.default_rng(4)
    gaussian = LatentGaussian(np.zeros(d), loadings(d), 0.5)
    offset = 2 + rng.random(12)
    score = scores.QuadraticForm("spe", gaussian, np.zeros(d), np.zeros(4), rng.normal(size=(12, d)), offset)
    X, blocks = gaussian.sample(3, 5), [[0], [7], [1, 4, 9], list(range(10, 30))]
    expected = gaussian.expected(X, blocks)
    found = score.if_fixed(X, score(X), expected, blocks)
    for k, block in enumerate(blocks):
        fixed = X.copy()
        fixed[:, block] = expected[:, block]
        np.testing.assert_allclose(found[:, k], score(fixed), rtol=1e-9)


def test_several_scores_of_the_same_rows_are_those_of_each():
    rng = np.random.default_rng(0)
    model, other = (LatentGaussian(np.zeros(5), rng.normal(size=(5, 2)), noise) for noise in (0.3, 0.7))
    X = rng.normal(size=(20, 5))
    holes = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    together = {"spe": scores.spe(model), "t2": scores.t2(model), "both": scores.mahalanobis(model)}
    for named in (together, {"t2": scores.t2(model)}, together | {"other": scores.spe(other)}):
        for rows in (X, holes):
            found = scores_of(named, rows)
            assert list(found) == list(named)
            for name, score in named.items():
                own = (score.parts(rows) ** 2).sum(axis=1) if rows is X else score(rows)
                np.testing.assert_allclose(found[name], own, rtol=1e-12)
