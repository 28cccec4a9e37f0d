"""Log-odds of faults against densities summed over explicit sets."""

from itertools import combinations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from culpa import PCADetector
from culpa.ranking import fault_odds
from culpa.ranking.fault_odds import FAULT_SIZE, PRIOR_ODDS, fault_log_odds


def by_definition(X, C, most):
    d = len(C)
    sets = [F for k in range(most + 1) for F in combinations(range(d), k)]
    logs = []
    for F in sets:
        faulty = np.isin(np.arange(d), F)
        spoiled = C + np.diag(FAULT_SIZE**2 * np.diag(C) * faulty)
        logs.append(multivariate_normal(np.zeros(d), spoiled).logpdf(X) + len(F) * np.log(PRIOR_ODDS))
    logs = np.stack(logs, axis=1)
    member = np.array([[j in F for j in range(d)] for F in sets])
    return np.stack(
        [logsumexp(logs[:, member[:, j]], axis=1) - logsumexp(logs[:, ~member[:, j]], axis=1) for j in range(d)], axis=1
    )


@pytest.fixture
def covariance():
    root = np.random.default_rng(0).normal(size=(6, 6))
    return root @ root.T + 0.1 * np.eye(6)


def test_adds_up_all_sets_of_up_to_three_features(covariance):
    X = np.random.default_rng(1).normal(size=(40, 6)) * 3
    found = fault_log_odds(X, np.linalg.inv(covariance), np.sqrt(np.diag(covariance)))
    np.testing.assert_allclose(found, by_definition(X, covariance, 3), atol=1e-10)


@pytest.mark.parametrize("most", [1, 2])
def test_many_features_allow_fewer_faults_at_once(covariance, most, monkeypatch):
    monkeypatch.setattr(fault_odds, "_MOST_SETS", {1: 6, 2: 21}[most])
    fault_odds._sets.cache_clear()
    X = np.random.default_rng(1).normal(size=(40, 6)) * 3
    found = fault_log_odds(X, np.linalg.inv(covariance), np.sqrt(np.diag(covariance)))
    fault_odds._sets.cache_clear()
    np.testing.assert_allclose(found, by_definition(X, covariance, most), atol=1e-10)


def test_extreme_rows_neither_overflow_nor_tie(covariance):
    X = np.random.default_rng(1).normal(size=(40, 6)) * 1e5
    found = fault_log_odds(X, np.linalg.inv(covariance), np.sqrt(np.diag(covariance)))
    assert np.isfinite(found).all()
    assert all(len(np.unique(row)) == 6 for row in found)


def test_chunks_do_not_matter(covariance, monkeypatch):
    X = np.random.default_rng(1).normal(size=(40, 6)) * 3
    arguments = X, np.linalg.inv(covariance), np.sqrt(np.diag(covariance))
    whole = fault_log_odds(*arguments)
    monkeypatch.setattr(fault_odds, "_CELLS_PER_CHUNK", 100)
    np.testing.assert_allclose(fault_log_odds(*arguments), whole, atol=1e-12)
    assert fault_log_odds(X[:0], *arguments[1:]).shape == (0, 6)


def test_a_second_fault_is_not_hidden_by_the_first():
    """Two of five sensors of one quantity are off together: leaving one out at a time blames the others."""
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(500, 1)) + 0.1 * rng.normal(size=(500, 5))
    detector = PCADetector(4, statistic="mahalanobis", shrinkage=0.01).fit(normal)
    row = np.zeros((1, 5))
    row[0, :2] = 2.0
    assert sorted(np.argsort(-detector.contributions(row, "fault-odds")[0])[:2].tolist()) == [0, 1]
    assert (detector.contributions(row, "fault-odds")[0] > 0).tolist() == [True, True, False, False, False]


def test_what_is_missing_is_no_suspect():
    """The odds of the observed features are those in a world that has no others."""
    root = np.random.default_rng(3).normal(size=(2, 5))
    X = np.random.default_rng(0).normal(size=(200, 2)) @ root + 0.3 * np.random.default_rng(1).normal(size=(200, 5))
    detector = PCADetector(2, scale=False).fit(X)
    row = np.array([[3.0, 0.0, np.nan, 1.0, np.nan]])
    seen = [0, 1, 3]
    normal = detector.fitted.deciding_model
    C, spread = normal.gaussian.covariance[np.ix_(seen, seen)], np.sqrt(np.diag(normal.sample_covariance))[seen]
    wanted = fault_log_odds(normal.standardise(row)[:, seen], np.linalg.inv(C), spread)
    np.testing.assert_allclose(detector.contributions(row, "fault-odds")[:, seen], wanted, rtol=1e-9)


def test_who_reads_what_it_always_does_is_no_suspect():
    """A column that never changes is known by no other, and yet not to be listed before those that others vouch for."""
    covariance = 0.05 * np.eye(5) + 0.95
    covariance[4, :4] = covariance[:4, 4] = 0.0
    covariance[4, 4] = 1e-9
    precision, spread = np.linalg.inv(covariance), np.sqrt(np.diag(covariance))
    odds = fault_log_odds(np.array([[4.0, 0.3, 0.2, 0.25, 0.0], [0.1, 0.2, 0.1, 0.1, 1e-3]]), precision, spread)
    assert odds[0].argmax() == 0
    assert odds[0, 4] <= odds[0, 1:4].min()
    assert odds[1].argmax() == 4  # but when it does change, it is
