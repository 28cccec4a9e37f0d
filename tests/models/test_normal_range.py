"""What training rows showed: range, reach, and how alike successive rows are."""

import numpy as np
import pytest

from culpa import PCADetector, load
from culpa.models.normal_range import NormalRange, RangeGatherer


def gathered(Z, score=None, size=None):
    gatherer = RangeGatherer(len(Z), Z.shape[1])
    for start in range(0, len(Z), size or len(Z)):
        at = slice(start, start + (size or len(Z)))
        gatherer.add(Z[at], None if score is None else score[at])
    return gatherer.finish()


def test_reach_by_hand():
    Z = np.random.default_rng(0).normal(size=(1000, 3))
    found = gathered(Z)
    by_hand = np.mean([np.abs(part).max(axis=0) for part in np.array_split(Z, 50)], axis=0)
    np.testing.assert_allclose(found.reach, by_hand)
    np.testing.assert_array_equal([found.low, found.high], [Z.min(axis=0), Z.max(axis=0)])


@pytest.mark.parametrize("size", [1, 7, 333])
def test_batches_do_not_matter(size):
    Z = np.random.default_rng(0).normal(size=(1003, 3))
    Z[::50, 1] = np.nan
    score = np.random.default_rng(1).gamma(2, size=1003)
    whole, parts = gathered(Z, score), gathered(Z, score, size)
    for name, array in whole.to_arrays().items():
        np.testing.assert_allclose(parts.to_arrays()[name], array)


def test_dependence_of_an_autoregression():
    rng = np.random.default_rng(0)
    logs = np.zeros(20_000)
    for t in range(1, len(logs)):
        logs[t] = 0.6 * logs[t - 1] + rng.normal()
    Z = np.zeros((len(logs), 1))
    assert gathered(Z, np.exp(logs)).dependence == pytest.approx(1.6 / 0.4, rel=0.1)
    assert gathered(Z, np.exp(rng.permutation(logs))).dependence == pytest.approx(1, abs=0.05)


def test_a_column_that_never_changed():
    seen = gathered(np.zeros((99, 1)))
    assert seen.movement(np.array([[1e-3], [5.0], [0.0]])).ravel().tolist() == pytest.approx([10, 10, 0])
    assert seen.is_outside(np.array([[1e-3], [1e-9]])).ravel().tolist() == [True, False]


def test_outside_needs_a_quarter_of_the_range():
    seen = NormalRange(np.array([-1.0]), np.array([3.0]), np.ones(1), 100)
    assert seen.is_outside(np.array([[4.1], [3.9], [-1.9], [-2.1], [np.nan]])).ravel().tolist() == [
        True,
        False,
        False,
        True,
        False,
    ]


def test_from_a_model_alone():
    """Where nobody looked at the rows, the range is that of Gaussian rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(2000, 5))
    fitted = PCADetector(2).fit(X).fitted
    guessed = NormalRange.of_model(fitted.model)
    np.testing.assert_allclose(guessed.reach, fitted.normal_range.reach, rtol=0.15)
    np.testing.assert_allclose(guessed.high, fitted.normal_range.high, rtol=0.3)


def test_a_model_file_keeps_it(tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 4))
    detector = PCADetector(2).fit(X)
    detector.save(tmp_path / "a.culpa")
    again = load(tmp_path / "a.culpa").fitted.normal_range
    for name, array in detector.fitted.normal_range.to_arrays().items():
        np.testing.assert_array_equal(again.to_arrays()[name], array)


def test_another_scaling_and_more_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) * [1, 5, 0.2] + [3, 0, 1]
    before, after = PCADetector(2).fit(X).fitted, PCADetector(2).fit(2 * X + 1).fitted
    moved = before.normal_range.rescaled(before.model, after.model)
    raw = after.model.to_user_units(np.stack([moved.low, moved.high]))
    np.testing.assert_allclose(raw, [X.min(axis=0), X.max(axis=0)])
    both = before.normal_range.joined(before.normal_range)
    np.testing.assert_allclose(both.reach, before.normal_range.reach)
    assert both.n == 800
