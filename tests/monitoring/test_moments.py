"""Who is to blame at a moment, and what is said about them: relations that broke, and upsets that are not by chance."""

import numpy as np
import pandas as pd
import pytest

from culpa import PCADetector


def wandering(n, remember, d=24):
    """Independent features with a variance of 1, each of which remembers its last value."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    for t in range(1, n):
        X[t] = remember * X[t - 1] + np.sqrt(1 - remember**2) * X[t]
    return X


@pytest.mark.parametrize(("remember", "kind"), [(0.0, "upset"), (0.9, "unclear")])
def test_rows_that_resemble_each_other_say_less_about_an_upset(remember, kind):
    """Ten rows with all 24 features at 1.2: their squares exceed those of normal rows by 240 * 0.44 = 106.

    That is more than two standard deviations of a sum of 240 squares, 2 * sqrt(480) = 44. Where nine rows are worth one
    row, it is 2 * sqrt(480 * 9) = 131, and 106 is nothing unusual.
    """
    detector = PCADetector(4, statistic="mahalanobis").fit(wandering(6000, remember))
    signs = np.where(np.arange(24) % 2, 1.2, -1.2)
    (incident,) = detector.incidents(np.tile(signs, (10, 1)), stretches=[(0, 9)])
    assert incident.explained < 0.75
    assert incident.extent == kind


def test_normal_rows_of_a_model_of_few_independent_rows_are_no_upset():
    """2,000 rows of which nineteen are worth one, for 200 features: new normal rows are farther out than the model says."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(10, 200))

    def rows(n):
        z, u = rng.normal(size=(n, 10)), rng.normal(size=(n, 200))
        for t in range(1, n):
            z[t], u[t] = (0.9 * each[t - 1] + np.sqrt(0.19) * each[t] for each in (z, u))
        return z @ W + 0.5 * u

    detector = PCADetector(10, statistic="mahalanobis").fit(rows(2000))
    stretches = [(k, k + 19) for k in range(0, 1200, 30)]
    kinds = [one.extent for one in detector.incidents(rows(1200), stretches=stretches)]
    assert kinds.count("upset") <= 2
    moved = rows(20) + 3 * rng.normal(size=200)
    assert detector.incidents(moved, stretches=[(0, 19)])[0].extent == "upset"


def related(n, seed):
    """Features a, b and c: a has a correlation of 0.6 with b and of -0.6 with c; d, e and f keep them company."""
    rng = np.random.default_rng(seed)
    correlation = np.eye(6)
    correlation[0, 1] = correlation[1, 0] = 0.6
    correlation[0, 2] = correlation[2, 0] = -0.6
    rows = rng.normal(size=(n, 6)) @ np.linalg.cholesky(correlation).T
    return pd.DataFrame(rows, columns=list("abcdef"))


@pytest.mark.parametrize(("b", "named"), [(0.0, ["b", "c"]), (3.0, ["c"])])
def test_only_those_disagree_that_make_a_reading_stranger_than_it_is_alone(b, named):
    """a reads 8, so it is 8 standard deviations from normal.

    Where b is 0, it is (8 - 0) / 0.8 = 10 from what b implies, and b disagrees. Where b is 3 and implies 1.8, it is
    (8 - 1.8) / 0.8 = 7.75 from that: less than from normal, so b agrees that a should be high.
    """
    train = related(3000, 0)
    detector = PCADetector(5, statistic="mahalanobis").fit(train)
    row = pd.DataFrame([[8.0, b, 0.0, 0.0, 0.0, 0.0]], columns=list("abcdef"))
    (incident,) = detector.incidents(row)
    (culprit,) = incident.onset.culprits
    assert culprit.feature == "a"
    assert sorted(one.feature for one in culprit.disagrees_with) == named
    own = abs(8 - train["a"].mean()) / train["a"].std()
    assert all(abs(one.deviation) > own for one in culprit.disagrees_with)
