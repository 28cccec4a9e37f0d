"""Interactions against the definition."""

import itertools
import math

import numpy as np
import pytest
import witness

from culpa import PPCA, Explainer, Explanation, LatentGaussian
from culpa.explaining import interactions

GAUSSIAN = LatentGaussian(np.zeros(5), np.random.default_rng(0).normal(size=(5, 2)), 0.3)
X = 2 * np.random.default_rng(1).normal(size=(3, 5))


def index(values, d, i, j):
    """The Shapley interaction index from a dict of coalition -> value."""
    others = [k for k in range(d) if k not in (i, j)]
    total = 0.0
    for size in range(d - 1):
        weight = math.factorial(size) * math.factorial(d - size - 2) / math.factorial(d - 1)
        for S in itertools.combinations(others, size):
            with_i, with_j, both = (tuple(sorted((*S, *more))) for more in ((i,), (j,), (i, j)))
            total += weight * (values[both] - values[with_i] - values[with_j] + values[S])
    return total


def brute_force(values, d):
    matrix = np.zeros((d, d))
    for i, j in itertools.permutations(range(d), 2):
        matrix[i, j] = index(values, d, i, j) / 2
    return matrix + np.diag(witness.shapley(values, d) - matrix.sum(axis=1))


@pytest.mark.parametrize("score", ["spe", "mahalanobis"])
@pytest.mark.parametrize("game", ["conditional", "interventional", "minimal"])
def test_equal_brute_force(game, score):
    A, C = witness.score_matrix(GAUSSIAN, score), GAUSSIAN.covariance
    value = {
        "conditional": lambda x, S: witness.conditional_value(C, A, x, S),
        "interventional": lambda x, S: witness.interventional_value(C, A, x, S),
        "minimal": lambda x, S: witness.minimal_value(A, x, S, 0.01 * np.trace(A) / 5),
    }[game]
    why = Explainer(GAUSSIAN, score, game).explain(X)
    found = why.interactions()
    for row, x in enumerate(X):
        expected = brute_force(witness.all_values(value, x), 5)
        np.testing.assert_allclose(found.values[row], expected, atol=1e-9)
    np.testing.assert_allclose(found.values.sum(axis=2), why.values, atol=1e-10)
    np.testing.assert_allclose(found.values, found.values.transpose(0, 2, 1), atol=1e-12)
    np.testing.assert_allclose(found.main_effects + found.indices.sum(axis=2) / 2, why.values, atol=1e-10)


def test_the_interventional_game_has_no_interactions_in_its_base_line():
    """Its interactions are 2 A_ij x_i x_j less their mean."""
    A, C = witness.score_matrix(GAUSSIAN, "spe"), GAUSSIAN.covariance
    found = Explainer(GAUSSIAN, game="interventional").explain(X).interactions()
    for row, x in enumerate(X):
        expected = 2 * A * (np.outer(x, x) + C)
        np.fill_diagonal(expected, 0.0)
        np.testing.assert_allclose(found.indices[row], expected, atol=1e-9)


def test_many_rows_go_through_forms(monkeypatch):
    rows = np.random.default_rng(2).normal(size=(50, 5))
    why = Explainer(GAUSSIAN).explain(rows)
    by_forms = why.interactions().values
    one_by_one = np.concatenate([one.interactions().values for one in why])
    np.testing.assert_allclose(by_forms, one_by_one, atol=1e-10)
    calls = []
    monkeypatch.setattr(interactions, "forms_from_probes", lambda *args: calls.append(args) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        why.interactions()


def test_missing_cells_groups_and_slices():
    holes = X.copy()
    holes[0, 2] = np.nan
    why = Explainer(GAUSSIAN).explain(holes)
    found = why.interactions()
    np.testing.assert_allclose(found.values.sum(axis=2), why.values, atol=1e-10)
    assert (found.values[0, 2] == 0).all()
    np.testing.assert_allclose(why[1:].interactions().values, found.values[1:], atol=1e-12)
    grouped = Explainer(GAUSSIAN, groups={"pair": [0, 1]}).explain(holes)
    np.testing.assert_allclose(grouped.interactions().values.sum(axis=2), grouped.values, atol=1e-10)
    given = Explainer(GAUSSIAN, given=[0]).explain(holes)
    np.testing.assert_allclose(given.interactions().values.sum(axis=2), given.values, atol=1e-10)
    alone = Explainer(GAUSSIAN, groups={"all": list(range(5))}).explain(X)
    np.testing.assert_allclose(alone.interactions().values[:, :, 0], alone.values, atol=1e-10)


def test_concatenated_explanations_still_know():
    explainer = Explainer(GAUSSIAN)
    parts = [explainer.explain(X[:1]), explainer.explain(X[1:])]
    np.testing.assert_allclose(
        Explanation.concatenate(parts).interactions().values, explainer.explain(X).interactions().values, atol=1e-12
    )


def test_retraining_game():
    table = np.random.default_rng(0).normal(size=(50, 5))
    why = Explainer(PPCA(2).fit(table), game="retraining").explain(table[:2])
    np.testing.assert_allclose(why.interactions().values.sum(axis=2), why.values, atol=1e-10)


def test_tables_and_errors():
    why = Explainer(GAUSSIAN).explain(X)
    found = why.interactions()
    table = found.top(2)
    assert list(table.columns) == ["row", "rank", "feature", "other", "interaction"]
    assert len(table) == 6
    assert abs(table["interaction"][0]) == pytest.approx(np.abs(found.indices[0]).max())
    assert repr(found).startswith("<Interactions: 3 rows x 5 players; strongest in row 0>\n  x")
    with pytest.raises(ValueError, match=r"interactions\(\) needs the explainer"):
        Explanation.from_dict(why.to_dict()).interactions()
    with pytest.raises(ValueError, match="upstream"):
        Explainer(GAUSSIAN, upstream=[(0, 1)]).explain(X).interactions()
    many = LatentGaussian(np.zeros(21), np.ones((21, 1)), 1.0)
    with pytest.raises(ValueError, match="up to 20"):
        Explainer(many, method="permutation", n_orders=6).explain(np.ones((1, 21))).interactions()
