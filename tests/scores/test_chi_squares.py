"""The exact distribution of sums of chi-squares against tables, closed forms, simulation and itself."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from culpa.scores import chi_squares as _chi_squares
from culpa.scores.limits import imhof

CONFIDENCES = (0.5, 0.9, 0.95, 0.99, 0.999, 0.99999)


def tail(weights, x):
    """P(Q > x), weights in any unit."""
    weights = np.asarray(weights, dtype=float)
    return math.exp(_chi_squares.log_tail(weights / weights.max(), x / weights.max()))


def tail_of_pairs(weights):
    """The function P(Q > x) where each weight stands twice: a sum of exponential variables, in closed form.

    Its terms cancel, hence the many digits.
    """
    with mpmath.workdps(400):
        weights = [mpmath.mpf(float(weight)) for weight in weights]
        factors = [mpmath.fprod(a / (a - b) for b in weights if b is not a) for a in weights]

    def tail(x):
        with mpmath.workdps(400):
            return float(mpmath.fdot(factors, [mpmath.exp(-x / (2 * a)) for a in weights]))

    return tail


@pytest.mark.parametrize(
    ("degrees", "values"),
    [
        ((1, 1, 1), ((0.1, 0.9458), (0.7, 0.5064), (2.0, 0.1240))),
        ((2, 2, 2), ((2.0, 0.3998), (6.0, 0.0161))),
        ((6, 4, 2), ((1.0, 0.9973), (5.0, 0.4353), (12.0, 0.0088))),
        ((2, 4, 6), ((1.0, 0.9666), (3.0, 0.4196), (8.0, 0.0087))),
    ],
)
def test_imhofs_table(degrees, values):
    """Imhof (1961), Table 1: 0.6, 0.3 and 0.1 times chi-squares with these degrees of freedom."""
    for x, probability in values:
        assert tail(np.repeat([0.6, 0.3, 0.1], degrees), x) == pytest.approx(probability, abs=5.1e-5)


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("n", [1, 2, 3, 10, 100, 700])
def test_equal_weights_are_chi_square(n, confidence):
    assert imhof(np.full(n, 0.3), confidence) == pytest.approx(0.3 * stats.chi2.ppf(confidence, n), rel=1e-8)


@pytest.mark.parametrize(
    "weights",
    [
        np.array([1.0, 0.3]),
        np.logspace(3, -9, 7),
        np.logspace(0, -12, 150),
        np.linspace(1, 0.01, 100),
        np.r_[1.0, np.linspace(1e-3, 2e-3, 100)],
        np.r_[1e6, np.linspace(1e-6, 2e-6, 100)],
        np.r_[1.0, 0.999999, 1e-12],
    ],
    ids=lambda weights: f"{len(weights)} from {weights.max():g} to {weights.min():g}",
)
def test_pairs_in_closed_form(weights):
    closed_form, doubled = tail_of_pairs(weights), np.repeat(weights, 2)
    for confidence in CONFIDENCES:
        limit = imhof(doubled, confidence)
        assert closed_form(limit) == pytest.approx(1 - confidence, rel=1e-8)
    for beyond in (2, 10, 50):  # down to 1e-100 and less
        assert tail(doubled, beyond * limit) == pytest.approx(closed_form(beyond * limit), rel=1e-8)


@pytest.mark.parametrize(
    "weights",
    [
        [1.0, 0.02, 0.02, 0.02, 0.02],
        [3.0, 2.0, 1.0],
        [1.0, *[1e-2] * 30],
        0.9 ** np.arange(20),
        [1e5, 1.0, 1e-7],
    ],
)
def test_simulated(weights):
    """A million draws; odd numbers of weights have no closed form."""
    n, rng = 1_000_000, np.random.default_rng(0)
    draws = sum(weight * rng.standard_normal(n) ** 2 for weight in weights)
    for confidence in (0.5, 0.95, 0.99, 0.999):
        four_errors = 4 * math.sqrt(confidence * (1 - confidence) / n)
        above = (draws > imhof(np.asarray(weights), confidence)).mean()
        assert above == pytest.approx(1 - confidence, abs=four_errors)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 100), st.floats(0, 12), st.integers(0, 10**6), st.floats(0.5, 0.99999))
def test_any_spectrum(n, orders, seed, confidence):
    """Between what is certainly less and more; the same in any unit; larger if a weight is."""
    rng = np.random.default_rng(seed)
    weights = 10 ** (-orders * rng.random(n))
    limit = imhof(weights, confidence)
    assert limit >= (1 - 1e-8) * weights.max() * stats.chi2.ppf(confidence, 1)
    assert limit <= (1 + 1e-8) * weights.max() * stats.chi2.ppf(confidence, n)
    assert imhof(1e-60 * weights, confidence) == pytest.approx(1e-60 * limit, rel=1e-8)
    assert imhof(weights * (1 + rng.random(n)), confidence) > limit
    assert imhof(weights, (1 + confidence) / 2) > limit


def test_nothing_and_rounding_errors_do_not_count():
    assert imhof(np.zeros(3), 0.99) == imhof(np.empty(0), 0.99) == 0.0
    assert imhof(np.array([2.0, 1e-17, 0.0]), 0.99) == imhof(np.array([2.0]), 0.99)


@pytest.mark.parametrize(("name", "few"), [("_POINTS", (32,)), ("_STEPS", 2)])
def test_what_does_not_converge_is_an_error(name, few, monkeypatch):
    monkeypatch.setattr(_chi_squares, name, few)
    with pytest.raises(ValueError, match=r"sum of 501 chi-squares did not converge .*\. Use another limit"):
        imhof(np.r_[1.0, np.full(500, 1.5e-3)], 0.99)
