"""Evidence of a stretch of rows: shared faults against all sets, and what a few players explain."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from culpa import LatentGaussian
from culpa.ranking.fault_odds import FAULT_SIZE, PRIOR_ODDS, FaultEvidence, fault_log_odds
from culpa.ranking.incident_evidence import explained_by_few, stayed, weights_since_onset
from culpa.scores import mahalanobis


def covariance_of(seed, d):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d))
    return A @ A.T + 0.1 * np.eye(d)


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 5), st.sampled_from([1.0, 2.5]))
@settings(max_examples=40, deadline=None)
def test_shared_faults_by_brute_force(seed, d, n, dependence):
    """Log-densities of Gaussian rows with and without errors, for every set of up to three features."""
    C = covariance_of(seed, d)
    X = np.random.default_rng(seed + 1).multivariate_normal(np.zeros(d), C, size=n)
    X[:, 0] += 5 * np.sqrt(C[0, 0])
    spread = np.sqrt(np.diag(C))
    sets = [()] + [F for k in range(1, min(3, d) + 1) for F in combinations(range(d), k)]
    evidence = {}
    for F in sets:
        E = np.zeros(d)
        E[list(F)] = (FAULT_SIZE * spread[list(F)]) ** 2
        ratio = stats.multivariate_normal(np.zeros(d), C + np.diag(E)).logpdf(X) - stats.multivariate_normal(
            np.zeros(d), C
        ).logpdf(X)
        evidence[F] = np.sum(ratio) / dependence + len(F) * np.log(PRIOR_ODDS)
    faults = FaultEvidence(np.linalg.inv(C), spread).shared(X, dependence)
    assert faults.likeliest == max(evidence, key=evidence.get)
    for j in range(d):
        inside = np.logaddexp.reduce([value for F, value in evidence.items() if j in F])
        outside = np.logaddexp.reduce([value for F, value in evidence.items() if j not in F])
        assert faults.log_odds[j] == pytest.approx(inside - outside, rel=1e-6, abs=1e-6)
    best = faults.likeliest
    for i in best:
        for j in set(range(d)) - set(best):
            swapped = tuple(sorted({*best} - {i} | {j}))
            assert faults.loss_if_swapped(i, j) == pytest.approx(evidence[best] - evidence[swapped], abs=1e-6)


def test_one_row_is_a_row():
    C = covariance_of(0, 5)
    X = np.random.default_rng(1).normal(size=(3, 5)) * 4
    evidence = FaultEvidence(np.linalg.inv(C), np.sqrt(np.diag(C)))
    rows = fault_log_odds(X, np.linalg.inv(C), np.sqrt(np.diag(C)))
    for row, odds in zip(X, rows, strict=True):
        np.testing.assert_allclose(evidence.shared(row[None]).log_odds, odds)


def test_rows_add_up():
    """A bias too small for one row is found in thirty."""
    rng = np.random.default_rng(0)
    C = covariance_of(3, 8)
    X = rng.multivariate_normal(np.zeros(8), C, size=30)
    X[:, 5] += np.sqrt(C[5, 5])
    evidence = FaultEvidence(np.linalg.inv(C), np.sqrt(np.diag(C)))
    assert evidence.shared(X).likeliest == (5,)
    assert evidence.shared(X).probability[5] > 0.95
    assert evidence.shared(X, dependence=30.0).probability[5] < evidence.shared(X).probability[5]


@given(st.integers(0, 10**6), st.integers(4, 7))
@settings(max_examples=30, deadline=None)
def test_what_players_explain_is_what_the_distance_loses(seed, d):
    """By the Mahalanobis distance of the other features, which is what is left when some are chosen best."""
    C = covariance_of(seed, d)
    X = 3 * np.random.default_rng(seed).normal(size=(4, d))
    found = explained_by_few(X, np.linalg.inv(np.linalg.cholesky(C)), [[j] for j in range(d)])
    rest = [j for j in range(d) if j not in found.players]
    whole = np.einsum("ij,ij->", X @ np.linalg.inv(C), X)
    left = np.einsum("ij,ij->", X[:, rest] @ np.linalg.inv(C[np.ix_(rest, rest)]), X[:, rest])
    assert found.excess == pytest.approx(whole - 4 * d)
    if found.excess > 0:
        assert found.share == pytest.approx(min((whole - left) / found.excess, 1.0))


@pytest.mark.parametrize("noise", [1e-2, 1e-8, 1e-11])
def test_what_groups_explain_of_collinear_rows(noise):
    """Rows that are far out where they are normal, by the distance of the other features."""
    blocks = [[0, 1, 2, 3], [4], [5]]
    for seed in range(5):
        rng = np.random.default_rng(seed)
        loadings = rng.normal(size=(6, 2))
        loadings[4:] = [[1e-3, 0], [0, 0]]
        model = LatentGaussian(np.zeros(6), loadings, noise)
        X = model.sample(3, rng) + 30 * model.loadings[:, 0]
        found = explained_by_few(X, mahalanobis(model).root, blocks)
        without = X.copy()
        without[:, [j for k in found.players for j in blocks[k]]] = np.nan
        whole, left = model.squared_distance(X).sum(), model.squared_distance(without).sum()
        assert found.share == pytest.approx(min((whole - left) / (whole - 18), 1.0), rel=1e-9)


def test_late_rows_count_less():
    weights = weights_since_onset(np.array([0, 50, 100]))
    np.testing.assert_allclose(weights, np.exp([0, -1, -2]))
    movement = np.array([[3.0, 0.0], [3.0, 4.0], [3.0, np.nan]])
    np.testing.assert_allclose(stayed(movement, weights), [np.log(10) * weights.sum(), np.log(17) * weights[1]])
