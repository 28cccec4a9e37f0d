"""Rows with missing cells get the same values with forms of their patterns as without."""

import numpy as np
import pytest

from culpa import Explainer, LatentGaussian, PCADetector, scores
from culpa._core.missing import kinds_of_rows, patterns
from culpa.games import Conditional
from culpa.shapley import QuadraticForms, exact, form_evaluation, plan
from culpa.shapley.form_cache import CoalitionForms, Finding, FormCache
from culpa.shapley.form_evaluation import evaluate_each

D = 7
WAYS = {
    "exact": {},
    "sampled": {"method": "permutation", "n_orders": 48},
    "groups": {"groups": {"a": [0, 1], "b": [2, 3, 4]}},
    "given": {"given": [0]},
    "minimal": {"game": "minimal"},
    "retraining": {"game": "retraining"},
    "interventional": {"game": "interventional"},
    "sampled retraining": {"game": "retraining", "method": "permutation", "n_orders": 12},
}


@pytest.fixture(scope="module")
def detector_and_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 3)) @ rng.normal(size=(3, D)) + 0.5 * rng.normal(size=(500, D))
    detector = PCADetector(n_components=3).fit(rows)
    new = rows.copy()
    new[:200, 2] = new[200:380, 1] = new[200:380, 4] = new[380:490, 0] = np.nan
    new[490:, 3] = np.nan
    return detector, new


def watch(monkeypatch):
    """Patterns and forms that caches keep from now on."""
    found, keep = [], FormCache._keep
    monkeypatch.setattr(FormCache, "_keep", lambda self, *what: (found.append(what), keep(self, *what))[1])
    return found


@pytest.mark.parametrize("way", WAYS)
def test_values_are_the_same(way, detector_and_rows, monkeypatch):
    detector, new = detector_and_rows
    found = watch(monkeypatch)
    walked = Explainer(detector, **WAYS[way]).explain(new)
    assert not found
    explainer = Explainer(detector, **WAYS[way])
    explainer = explainer if way == "interventional" else explainer.compile()
    why = explainer.explain(new)
    # the fourth pattern has too few rows, unless all coalitions have forms; a closed form needs no others
    assert len({key for key, _ in found}) == {"exact": 4, "interventional": 0}.get(way, 3)
    size = np.abs(walked.values).max()
    np.testing.assert_allclose(why.values, walked.values, rtol=0, atol=1e-10 * size)
    np.testing.assert_allclose(why.std_error, walked.std_error, rtol=0, atol=1e-10 * size)
    assert why.n_replicates == walked.n_replicates


def test_a_pattern_is_compiled_when_its_rows_have_cost_as_much(detector_and_rows, monkeypatch):
    detector, new = detector_and_rows
    made = watch(monkeypatch)
    explainer = Explainer(detector).compile()
    one_by_one = [explainer.explain(new[[0]]).values[0]]
    assert not made
    one_by_one += [explainer.explain(new[[row]]).values[0] for row in range(1, 40)]
    assert len(made) == 1
    np.testing.assert_allclose(one_by_one, Explainer(detector).explain(new[:40]).values, rtol=0, atol=1e-12)


def test_exact_patterns_of_sampled_rows_are_compiled(detector_and_rows, monkeypatch):
    """So few players are left that their values are exact, and so many rows that forms pay."""
    detector, new = detector_and_rows
    made = watch(monkeypatch)
    rows = np.where(np.arange(D) < 4, new, np.nan)[200:380]
    options = {"exact_operations": 38.0 * 2**5, "n_orders": 24}
    explainer = Explainer(detector, **options).compile()
    assert explainer.chosen.startswith("permutation")
    why = explainer.explain(rows)
    assert [len(forms.constants) for _, forms in made] == [1]  # replicates
    expected = Explainer(detector, method="exact").explain(rows)
    np.testing.assert_allclose(why.values, expected.values, rtol=0, atol=1e-12)


def test_operations_of_rows_and_calls_add_up():
    game = Conditional(scores.spe(LatentGaussian(np.zeros(15), np.ones((15, 1)), 0.5)))
    cache, cost = FormCache(game, [[i] for i in range(15)], 1e9), plan.exact_cost(game, 14, 14)
    assert not cache._are_due(b"pattern", cost, 90)
    assert cache._are_due(b"pattern", cost, 15)  # as many rows as determine a quadratic function, 14 x 15 / 2
    # a call costs more than its row
    assert 10 < next(calls for calls in range(100) if cache._are_due(b"pattern", cost, 1)) < 20


@pytest.mark.parametrize("players", [[[i] for i in range(6)], [[0, 4], [1], [2, 3, 5]]])
def test_values_of_all_coalitions_tell_the_forms_of_every_pattern(players):
    gaussian = LatentGaussian(np.zeros(6), np.random.default_rng(0).normal(size=(6, 2)), 0.4)
    game = Conditional(scores.mahalanobis(gaussian))
    all_coalitions, X = CoalitionForms(game, players), gaussian.sample(9, 1)
    for present in (np.flatnonzero(mask) for mask in np.ndindex(*[2] * len(players)) if any(mask)):
        expected = exact(game, X, [players[k] for k in present]).values
        rows = np.where(np.isin(np.arange(6), np.concatenate([players[k] for k in present])), X, 0.0)
        found = all_coalitions.among(present)(rows).values
        np.testing.assert_allclose(found[:, present], expected, rtol=0, atol=1e-12 * np.abs(expected).max())
        assert (np.delete(found, present, axis=1) == 0).all()


def test_all_coalitions_are_tabulated_for_few_players_only():
    def game(d):
        return Conditional(scores.spe(LatentGaussian(np.zeros(d), np.ones((d, 1)), 0.5)))

    assert CoalitionForms.fit(game(11), 11)
    assert CoalitionForms.fit(game(40), 5)
    assert not CoalitionForms.fit(game(16), 16)
    assert not CoalitionForms.fit(game(3000), 3000)


def test_rows_go_through_their_own_forms_in_any_number_of_chunks(monkeypatch):
    rng = np.random.default_rng(0)
    each = [QuadraticForms(rng.normal(size=(1, 2, 10)), rng.normal(size=(1, 2)), 4, 1) for _ in range(4)]
    X, starts = rng.normal(size=(900, 4)), np.array([0, 1, 300, 310, 900])
    monkeypatch.setattr(form_evaluation, "_CHUNK", 1)  # 256 rows
    expected = np.concatenate([f(X[a:b]).values for f, a, b in zip(each, starts, starts[1:], strict=False)])
    np.testing.assert_allclose(
        evaluate_each(*zip(*((f.coefficients[0], f.constants[0]) for f in each), strict=True), X, starts),
        expected,
        rtol=1e-12,
    )


def test_forms_that_were_used_last_stay_within_memory():
    game = Conditional(scores.spe(LatentGaussian(np.zeros(4), np.ones((4, 1)), 0.5)))
    forms, made = QuadraticForms(np.zeros((1, 4, 10)), np.zeros((1, 4)), 4, 1), []
    due = plan.FormsCost(0.0, 0.0, 0.0, 1.0)
    how = Finding(lambda pattern: due, lambda pattern: made.append(pattern.observed.tolist()) or small, exact=False)
    small = QuadraticForms(np.zeros((1, 3, 6)), np.zeros((1, 3)), 3, 1)
    cache = FormCache(game, [[i] for i in range(4)], 2.5 * forms.n_bytes)
    rows = np.where(np.eye(4, dtype=bool), np.nan, 1.0)  # each misses another cell
    for at in (0, 1, 0, 2):  # the second pattern is forgotten for the third
        assert cache.share_out(rows[[at]], how, 1).rows.all()
    assert len(made) == 3
    cache.share_out(rows[[0, 2]], how, 1)
    assert len(made) == 3
    cache.share_out(rows[[1]], how, 1)
    assert len(made) == 4


@pytest.mark.parametrize("d", [3, 8, 20, 64, 65, 130])
def test_kinds_of_rows(d):
    missing = np.random.default_rng(d).random((50, d)) < 0.05
    expected, of_row = np.unique(missing, axis=0, return_inverse=True)
    kinds, kind_of_row = kinds_of_rows(missing)
    np.testing.assert_array_equal(kinds, expected)
    np.testing.assert_array_equal(kind_of_row, of_row.ravel())
    together = [rows for rows, _ in patterns(np.where(missing, np.nan, 0.0))]
    assert sorted(np.concatenate(together).tolist()) == list(range(50))
