"""Where a fault entered: whitened entries against their definition, and simulated processes with one shock."""

import numpy as np
import pytest

from culpa import PCADetector
from culpa.models import as_fitted_model
from culpa.ranking import contributions, propagated_together, propagation
from culpa.ranking.propagation import entry_log_odds


def whitened(C, x, order):
    """Each feature minus what those after it in the order imply, in standard deviations: from conditional Gaussians."""
    result = np.empty(len(x))
    for k, j in enumerate(order):
        known = order[k + 1 :]
        gain = np.linalg.solve(C[np.ix_(known, known)], C[known, j])
        result[j] = (x[j] - gain @ x[known]) / np.sqrt(C[j, j] - gain @ C[known, j])
    return result


def log_odds(squares):
    """From the definition: squared entries (orders, d)."""
    evidence = np.append(np.exp(squares / 2).mean(axis=0), 1.0)
    return np.log(evidence / (evidence.sum() - evidence))[:-1]


def some_covariance(rng, d):
    mixing = rng.normal(size=(d, d))
    return mixing @ mixing.T + 0.5 * np.eye(d)


def root_of(C):
    return np.linalg.cholesky(np.linalg.inv(C)).T


def test_log_odds_equal_their_definition(monkeypatch):
    monkeypatch.setattr(propagation, "_CELLS_PER_CHUNK", 100)
    rng = np.random.default_rng(0)
    C, X = some_covariance(rng, 5), 2 * rng.normal(size=(4, 5))
    found = entry_log_odds(X, root_of(C))
    for x, row in zip(X, found, strict=True):
        squares = np.array([whitened(C, x, order) ** 2 for order in propagation._orders(5)])
        np.testing.assert_allclose(squares.sum(axis=1), x @ np.linalg.solve(C, x))  # the same for every order
        np.testing.assert_allclose(row, log_odds(squares), rtol=1e-9, atol=1e-12)


def test_rows_of_an_incident_add_up_before_orders_are_compared():
    rng = np.random.default_rng(1)
    C, X = some_covariance(rng, 4), rng.normal(size=(3, 4))
    orders = propagation._orders(4)
    wanted = log_odds(sum(np.array([whitened(C, x, order) ** 2 for order in orders]) for x in X))
    everything = np.arange(4)
    found = propagation.shared_entry_log_odds([(X, root_of(C), everything)], 4)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    by_row = propagation.shared_entry_log_odds([(x[None], root_of(C), everything) for x in X], 4)
    np.testing.assert_allclose(by_row, found, rtol=1e-9)


def test_missing_cells_of_an_incident():
    """A row without a feature says nothing about it; orders of the others are the same as in complete rows."""
    rng = np.random.default_rng(2)
    C, X = some_covariance(rng, 4), rng.normal(size=(2, 4))
    left = np.array([0, 1, 3])
    inner = C[np.ix_(left, left)]
    squares = []
    for order in propagation._orders(4):
        shorter = [left.tolist().index(j) for j in order if j != 2]
        second = np.zeros(4)
        second[left] = whitened(inner, X[1, left], np.array(shorter)) ** 2
        squares.append(whitened(C, X[0], order) ** 2 + second)
    parts = [(X[:1], root_of(C), np.arange(4)), (X[1:, left], root_of(inner), left)]
    found = propagation.shared_entry_log_odds(parts, 4)
    np.testing.assert_allclose(found, log_odds(np.array(squares)), rtol=1e-9, atol=1e-12)
    assert np.isnan(propagation.shared_entry_log_odds(parts[1:], 4)[2])


def process(d, rng, density=0.3):
    """Effects of a random linear process: errors times this are rows."""
    order = rng.permutation(d)
    effects = np.zeros((d, d))
    for a in range(d):
        for b in range(a):
            if rng.random() < density:
                effects[order[a], order[b]] = rng.choice([-1, 1]) * rng.uniform(0.4, 1.2)
    return np.linalg.inv(np.eye(d) - effects).T


@pytest.fixture(scope="module")
def found_first():
    """How often each criterion finds where a shock of 8 standard deviations entered, in 60 processes."""
    rng = np.random.default_rng(3)
    hits = {"propagated": 0, "z-score": 0, "leave-one-out": 0, "together": 0, "first row": 0}
    for _ in range(60):
        mixing, root = process(10, rng), int(rng.integers(10))
        detector = PCADetector(9, statistic="mahalanobis", limit="formula").fit(rng.normal(size=(500, 10)) @ mixing)
        errors = rng.normal(size=(7, 10))
        errors[0, root] += 8
        errors[1:, root] += 3
        rows = errors @ mixing
        for criterion in ("propagated", "z-score", "leave-one-out"):
            hits[criterion] += detector.contributions(rows[:1], criterion)[0].argmax() == root
        hits["together"] += propagated_together(detector, rows[1:]).argmax() == root
        hits["first row"] += detector.contributions(rows[1:2], "propagated")[0].argmax() == root
    return {name: n / 60 for name, n in hits.items()}


def test_it_finds_where_a_shock_entered(found_first):
    assert found_first["propagated"] >= 0.95
    assert found_first["propagated"] > max(found_first["z-score"], found_first["leave-one-out"])


def test_more_rows_find_it_more_often(found_first):
    assert found_first["together"] > found_first["first row"] + 0.1


def test_huge_shocks_and_many_features_stay_finite():
    rng = np.random.default_rng(4)
    mixing = process(150, rng, 0.02)
    C = mixing.T @ mixing
    X = rng.normal(size=(2, 150)) @ mixing
    X[1] += 1e4 * mixing[17]
    found = entry_log_odds(X, root_of(C))
    assert np.isfinite(found).all()
    assert found[1].argmax() == 17
    assert len(np.unique(found[1])) == 150  # nothing is lost in the tail
    assert np.isfinite(entry_log_odds(np.array([[3.0]]), np.eye(1))).all()


def test_a_column_that_never_varied():
    rng = np.random.default_rng(5)
    normal = np.column_stack([rng.normal(size=(80, 3)), np.full(80, 7.0)])
    detector = PCADetector(2).fit(normal)
    new = normal[:2].copy()
    new[1, 3] = 8.0
    found = detector.contributions(new, "propagated")
    assert np.isfinite(found).all()
    assert found[0].argmax() != 3
    assert found[1].argmax() == 3


def test_columns_answer_for_their_features():
    rng = np.random.default_rng(6)
    detector = PCADetector(2, lags=1).fit(rng.normal(size=(100, 3)))
    rows = rng.normal(size=(6, 3))
    rows[2, 1] = np.nan
    found = propagated_together(detector, rows)
    assert found.shape == (3,)
    assert np.isfinite(found).all()
    model = as_fitted_model(detector)
    assert model.gaussian.n_features == 6
    why = detector.explain(rows, ranking="propagated")
    np.testing.assert_allclose(why.suspicion, contributions.of_model(detector, rows, "propagated"), equal_nan=True)
