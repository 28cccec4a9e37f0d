"""Scores that are functions: calls, expectations, and what happens to holes."""

from dataclasses import replace

import numpy as np
import pytest

from culpa import LatentGaussian
from culpa.models.draws import NormalRows
from culpa.scores import FunctionScore
from culpa.scores import function as function_module

GAUSSIAN = LatentGaussian([1.0, 2.0, 3.0], [[2.0], [1.0], [0.5]], [0.5, 0.4, 0.3])


def squares(rows):
    return (rows**2).sum(axis=1)


def test_given_is_the_conditional_expectation():
    score = FunctionScore("squares", NormalRows(GAUSSIAN), squares)
    X = np.array([[3.0, 1.0, 2.0], [-1.0, 0.0, 5.0]])
    for observed in ([0], [1, 2], [0, 2]):
        mean, spread = GAUSSIAN.conditional(X, observed)
        exact = squares(mean) + np.trace(spread)
        found = score.given(X, np.array(observed))
        assert (np.abs(found.value - exact) <= 4 * found.std_error).all()
        assert (found.std_error > 0).all()
        independent = replace(score, independent=True).given(X, np.array(observed))
        hidden = [i for i in range(3) if i not in observed]
        marginal = (GAUSSIAN.mean[hidden] ** 2 + np.diag(GAUSSIAN.covariance)[hidden]).sum()
        exact = squares(X[:, observed]) + marginal
        assert (np.abs(independent.value - exact) <= 4 * independent.std_error).all()
    base, error = score.base
    assert abs(base - squares(GAUSSIAN.mean[None])[0] - np.trace(GAUSSIAN.covariance)) <= 4 * error


def test_the_function_never_sees_a_hole_and_known_cells_are_as_they_were(monkeypatch):
    monkeypatch.setattr(function_module, "_CELLS_PER_CALL", 30)  # many small calls
    X = np.array([[0.1, np.nan, 0.3], [np.nan, 0.7, np.nan], [0.1, 0.2, 0.3]])
    seen = []

    def record(rows):
        seen.append(rows)
        return rows[:, 0]

    score = FunctionScore("first", NormalRows(GAUSSIAN), record)
    value = score(X)
    assert not np.isnan(np.concatenate(seen)).any()
    assert max(map(len, seen)) <= 10
    assert value[0] == pytest.approx(0.1)
    assert value[2] == 0.1  # not even rounded
    assert np.isnan(score(np.full((1, 3), np.nan)))[0]


def test_what_functions_may_return():
    X = np.ones((2, 3))
    assert FunctionScore("f", NormalRows(GAUSSIAN), lambda rows: rows[:, :1])(X).tolist() == [1.0, 1.0]
    for function, message in [
        (lambda rows: rows, "score must return one number per row"),
        (lambda rows: 1.0, "score must return one number per row"),
        (lambda rows: np.full(len(rows), np.nan), "score returned NaN or infinity"),
    ]:
        with pytest.raises(ValueError, match=message):
            FunctionScore("f", NormalRows(GAUSSIAN), function)(X)


def test_fixed():
    score = FunctionScore("squares", NormalRows(GAUSSIAN), squares)
    X = np.array([[5.0, 1.0, 2.0], [5.0, np.nan, 2.0]])
    expected = GAUSSIAN.expected(X)
    found = score.if_fixed(X, score(X), expected, [[0], [1, 2]])
    assert found[0, 0] == pytest.approx(squares(np.array([[expected[0, 0], 1.0, 2.0]]))[0])
    moved = np.array([[expected[1, 0], np.nan, 2.0]])
    assert found[1, 0] == pytest.approx(score(moved)[0])
    value, left = score.fix(X, [0])
    np.testing.assert_allclose(left, found[:, 0])
    np.testing.assert_allclose(value[:, 0], expected[:, 0])
    assert np.isnan(score.if_fixed(X[1:], score(X[1:]), expected[1:], [[1]])).all()
