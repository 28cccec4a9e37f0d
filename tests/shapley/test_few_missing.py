"""Sampled values of rows with a few missing players: right on average, with intervals that cover, and nobody else's."""

from itertools import combinations, permutations, product
from math import comb

import numpy as np
import pytest

from culpa import Explainer, LatentGaussian, PCADetector, scores
from culpa._kernels.contrasts import CONTRASTS
from culpa.games import Conditional
from culpa.games.marginals import Marginals
from culpa.shapley import exact, few_missing, missing_coalitions, missing_orders
from culpa.shapley.few_missing import FewMissing, tasks_of
from culpa.shapley.missing_coalitions import Drawn, MissingCoalitions
from culpa.shapley.missing_orders import contrast
from culpa.shapley.rules import N_NETS
from culpa.shapley.shares import Served

D = 24


@pytest.fixture(scope="module")
def detector_and_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(536, 3)) @ rng.normal(size=(3, D)) + 0.5 * rng.normal(size=(536, D))
    new = rows[500:].copy()
    new[::3, 2] += 5.0
    for row, n_missing in zip(new, [0, 1, 2, 3] * 9, strict=True):
        row[rng.choice(D, n_missing, replace=False)] = np.nan
    return PCADetector(n_components=3).fit(rows[:500]), new


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("n_missing", [1, 2, 3])
def test_all_orders_give_exact_values(n_missing, groups, monkeypatch):
    """Each order of those present comes with each order of the missing, so nothing is left to chance."""
    players = [[0, 6], [1], [2], [3], [4, 7], [5]] if groups else [[i] for i in range(n_missing + 3)]
    d = sum(len(player) for player in players)
    game = Conditional(
        scores.combined(LatentGaussian(np.zeros(d), np.random.default_rng(0).normal(size=(d, 2)), 0.4), 2, 3)
    )
    n_present = len(players) - n_missing
    every = np.repeat(np.array(list(permutations(range(n_present)))), len(list(permutations(range(n_missing)))), axis=0)
    monkeypatch.setattr(missing_orders, "sobol_nets", lambda *_: [every] * 2)
    monkeypatch.setattr(few_missing, "_FEWEST_PRESENT", 3)
    contrast.cache_clear()
    X = np.random.default_rng(1).normal(size=(5, d))
    X[:, [feature for player in players[:n_missing] for feature in player]] = np.nan
    filled = game.filled_in(X)
    values = exact(game, filled, players).values
    serving = FewMissing(game, players, lambda rows: np.stack([values] * 2), 4, 0, 1)
    assert not serving.share_out(X, lambda n: n == n_missing).rows.any()
    shares, served = serving.share_out(X)
    contrast.cache_clear()
    assert served.all()
    assert (shares.values[:, :n_missing] == 0).all()
    expected = exact(game, filled, players[n_missing:]).values
    np.testing.assert_allclose(shares.values[:, n_missing:], expected, rtol=0, atol=1e-11 * np.abs(expected).max())
    np.testing.assert_allclose(shares.std_error, 0.0, atol=1e-11 * np.abs(expected).max())


def every_coalition(d, n_times):
    """So many times with the probability that its members are those who come before some player in a random order."""
    members = np.array(list(product([False, True], repeat=d)))
    weights = np.array([1 / ((d + 1) * comb(d, size) * n_times) for size in members.sum(axis=1)])
    return Drawn(np.tile(members, (N_NETS * n_times, 1)), np.tile(weights, N_NETS * n_times))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("n_missing", [1, 2, 3, 4])
def test_all_coalitions_give_exact_values(n_missing, compiled, monkeypatch):
    """Each coalition comes with each order of the missing features, so nothing is left to chance."""
    d, turns = 8, np.array(list(permutations(range(n_missing))))
    game = Conditional(
        scores.combined(LatentGaussian(np.zeros(d), np.random.default_rng(0).normal(size=(d, 2)), 0.4), 2, 3)
    )
    players = [[i] for i in range(d)]
    every, every_turn = every_coalition(d, len(turns)), np.tile(np.repeat(turns, 2**d, axis=0), (N_NETS, 1))
    monkeypatch.setattr(missing_coalitions, "draw_coalitions", lambda *_: every)
    monkeypatch.setattr(missing_coalitions, "draw_turns", lambda *_: every_turn)
    monkeypatch.setattr(few_missing, "_FEWEST_PRESENT", 3)
    monkeypatch.setattr(CONTRASTS, "pays", lambda operations: compiled)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5, d))
    for row in X:
        row[rng.choice(d, n_missing, replace=False)] = np.nan
    complete = lambda rows: np.stack([exact(game, rows, players).values] * N_NETS)  # noqa: E731
    serving = FewMissing(game, players, complete, 4, 0, 1, MissingCoalitions(game.marginals, 0))
    shares, served = serving.share_out(X)
    assert served.all()
    for row, found, error in zip(X, shares.values, shares.std_error, strict=True):
        present = np.flatnonzero(~np.isnan(row))
        expected = np.zeros(d)
        expected[present] = exact(game, game.filled_in(row[None]), [[i] for i in present]).values[0]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * np.abs(expected).max())
        np.testing.assert_allclose(error, 0.0, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize(("d", "p"), [(21, 1), (24, 0), (27, 9), (33, 20)])
@pytest.mark.parametrize("n_missing", [1, 3, 4, 8])
def test_the_kernel_does_what_arrays_do(d, p, n_missing, monkeypatch):
    """With numbers of features and of components that do not fill vectors, and more coalitions than are held at a time."""
    rng = np.random.default_rng(d)
    estimate = MissingCoalitions(Marginals(rng.normal(size=(d, p)), 0.3, 0.7, rng.normal(size=p)), 0)
    rows = rng.normal(size=(70, d))
    missing = np.array([rng.choice(d, n_missing, replace=False) for _ in rows])
    found = []
    for compiled in (False, True):
        monkeypatch.setattr(CONTRASTS, "pays", lambda operations, compiled=compiled: compiled)
        found.append(estimate.differences(rows, missing, 3, 2))
        monkeypatch.setattr(missing_coalitions, "_COALITIONS_TOGETHER", 7 * d * max(p, 1))
    present = np.ones(rows.shape, dtype=bool)
    np.put_along_axis(present, missing, False, axis=1)
    size = np.abs(found[0][:, present]).max() + 1e-3  # without components there is no difference
    np.testing.assert_allclose(found[0][:, present], found[1][:, present], rtol=0, atol=1e-11 * size)


def test_what_is_drawn():
    """Weights make up for drawing some sizes more often, and no missing feature comes first more often than others."""
    drawn = missing_coalitions.draw_coalitions(40, 512, 0)
    for net in range(N_NETS):
        weights, members = drawn.weights[drawn.nets == net], drawn.members[drawn.nets == net]
        assert weights.sum() == pytest.approx(1, abs=0.01)
        assert weights.max() < 10 / 512
        np.testing.assert_allclose(weights @ members, 0.5, atol=0.03)
        np.testing.assert_allclose(weights @ (members[:, :20] & members[:, 20:]), 1 / 3, atol=0.06)
    smaller = missing_coalitions.draw_coalitions(40, 8, 0)
    np.testing.assert_array_equal(smaller.members, drawn.members[: N_NETS * 8])
    turns = missing_coalitions.draw_turns(3000, 5, 0)
    np.testing.assert_array_equal(np.sort(turns, axis=1), np.tile(np.arange(5), (3000, 1)))
    np.testing.assert_allclose(np.bincount(turns[:, 0]) / 3000, 1 / 5, atol=0.03)


@pytest.mark.parametrize("n_missing", [2, 3, 5, 8])
def test_differences_are_sums_over_sets_of_missing_features(n_missing):
    """Against the contributions to each coalition itself, one by one."""
    rng, d, k = np.random.default_rng(n_missing), 14, n_missing
    marginals = Marginals(rng.normal(size=(d, 3)), 0.3, 0.7, rng.normal(size=3))
    row, absent = rng.normal(size=(1, d)), rng.choice(d, k, replace=False)
    drawn, turns = missing_coalitions.draw_coalitions(d, 2, 0), missing_coalitions.draw_turns(2 * N_NETS, k, 0)
    expected = np.zeros((N_NETS, d))
    for members, weight, net, turn in zip(drawn.members, drawn.weights, drawn.nets, turns, strict=True):
        chain = [turn[:r] for r in range(k + 1)]
        every = [list(which) for r in range(k + 1) for which in combinations(range(k), r)]
        for which in every if k <= 3 else chain:
            with_some = members.copy()
            with_some[absent] = False
            others = with_some.sum() - with_some
            with_some[absent[which]] = True
            r, n_sets = len(which), comb(k, len(which)) if k <= 3 else 1
            share = missing_orders.share_before(r, d - k, k)[np.clip(others, 0, d - k - 1)]
            expected[net] += weight * ((r == 0) - share / n_sets) * marginals.of(row, with_some[None])[0, 0]
    found = MissingCoalitions(marginals, 0).differences(row, absent[None], 2, 1)[:, 0]
    present = ~np.isin(np.arange(d), absent)
    np.testing.assert_allclose(found[:, present], expected[:, present], rtol=1e-9, atol=1e-12)


def test_patterns_that_occur_often_are_compiled_to_the_same_numbers(detector_and_rows, monkeypatch):
    """As with some sensors that are dead all the time."""
    detector, new = detector_and_rows
    rows = np.tile(np.nan_to_num(new), (40, 1))
    rows[:, [3, 9]] = np.nan
    one_by_one = Explainer(detector, method="permutation", n_orders=192).explain(rows[:36])
    often = Explainer(detector, method="permutation", n_orders=192).compile()
    often.explain(rows)
    # with forms, nothing is left to estimate
    monkeypatch.setattr(MissingCoalitions, "differences", None)
    why = often.explain(rows[:36])
    size = np.abs(why.values).max()
    for name in ("values", "std_error"):
        np.testing.assert_allclose(getattr(why, name), getattr(one_by_one, name), rtol=0, atol=1e-10 * size)
    assert why.n_evaluations == one_by_one.n_evaluations


@pytest.mark.parametrize(
    ("options", "by_coalitions"),
    [({}, True), ({"groups": {"both": ["x0", "x1"]}}, False), ({"given": ["x0"]}, False), ({"score": "t2"}, True)],
)
def test_which_games_share_coalitions(options, by_coalitions, detector_and_rows, monkeypatch):
    detector, new = detector_and_rows
    calls = []
    estimate = MissingCoalitions.differences
    monkeypatch.setattr(MissingCoalitions, "differences", lambda self, *args: calls.append(1) or estimate(self, *args))
    Explainer(detector, method="permutation", n_orders=192, **options).explain(new)
    assert bool(calls) is by_coalitions


def test_groups_with_compiled_forms(detector_and_rows):
    """Differences come from orders, also if complete rows are compiled and one pattern has many rows."""
    detector, new = detector_and_rows
    rows = np.nan_to_num(new)
    rows[:, 4] = np.nan
    options = {"method": "permutation", "n_orders": 192, "groups": {"both": ["x0", "x1"]}}
    compiled, plain = (
        Explainer(detector, **options).compile().explain(rows),
        Explainer(detector, **options).explain(rows),
    )
    size = np.abs(plain.values).max()
    np.testing.assert_allclose(compiled.values, plain.values, rtol=0, atol=1e-10 * size)


def test_features_that_are_exactly_determined_give_no_warning():
    """The contribution of a missing feature, which nobody reads, is infinite in some coalitions."""
    gaussian = LatentGaussian(np.zeros(28), np.ones((28, 1)), 1.0)
    X = gaussian.sample(2, 0)
    rng = np.random.default_rng(0)
    for row in X:
        row[rng.choice(28, 8, replace=False)] = np.nan
    why = Explainer(gaussian, score="spe", method="permutation", n_orders=1536).explain(X)
    assert np.isfinite(why.values).all()


def test_values_are_right_on_average_and_intervals_cover(detector_and_rows):
    detector, new = detector_and_rows
    exactly, observed = Explainer(detector, method="exact").explain(new), ~np.isnan(new)
    inside, off, claimed = [], [], []
    for seed in range(30):
        why = Explainer(detector, method="permutation", n_orders=192, seed=seed).explain(new)
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-10)
        assert (why.values[~observed] == 0).all()
        assert (why.std_error[~observed] == 0).all()
        low, high = why.interval(0.95)
        inside.append(((low <= exactly.values) & (exactly.values <= high))[observed].mean())
        off.append(why.values - exactly.values)
        claimed.append(why.std_error)
    assert 0.93 < np.mean(inside) < 0.98
    # the mean of 30 estimates, in units of its own standard error
    bias = np.mean(off, axis=0)[observed] / (np.sqrt(np.mean(np.square(claimed), axis=0)[observed] / 30))
    assert np.mean(bias**2) < 1.6
    assert np.abs(bias).max() < 5


def test_the_same_numbers_whatever_else_is_explained(detector_and_rows):
    detector, new = detector_and_rows
    options = {"method": "permutation", "n_orders": 192}
    together = Explainer(detector, **options).explain(new)
    compiled = Explainer(detector, **options).compile().explain(new)
    size = np.abs(together.values).max()
    for other in (compiled, Explainer(detector, **options).compile().explain(new[::-1])[::-1]):
        np.testing.assert_allclose(other.values, together.values, rtol=0, atol=1e-11 * size)
        np.testing.assert_allclose(other.std_error, together.std_error, rtol=0, atol=1e-11 * size)
    for row in (1, 2, 3, 7):
        alone = Explainer(detector, **options).explain(new[[row]])
        np.testing.assert_allclose(alone.values[0], together.values[row], rtol=0, atol=1e-11 * size)
        np.testing.assert_allclose(alone.std_error[0], together.std_error[row], rtol=0, atol=1e-11 * size)
    assert together.n_replicates == compiled.n_replicates > 0


def test_exact_forms_serve_as_well(detector_and_rows):
    """For example forms that were compiled on a GPU, and read where values would be sampled."""
    detector, new = detector_and_rows
    exactly = Explainer(detector, method="exact").compile()
    explainer = Explainer(detector, method="permutation", n_orders=192)
    explainer.forms = exactly.forms
    why, expected = explainer.explain(new), exactly.explain(new)
    complete = ~np.isnan(new).any(axis=1)
    np.testing.assert_allclose(why.values[complete], expected.values[complete], rtol=0, atol=1e-12)
    off = np.abs(why.values - expected.values)[~complete]
    assert 0 < off.max() < 6 * why.std_error[~complete].max()


def test_features_that_differ_in_noise():
    """No kernel serves them."""
    gaussian = LatentGaussian(np.zeros(D), np.random.default_rng(2).normal(size=(D, 2)), np.full(D, 0.5))
    X = gaussian.sample(6, 3)
    X[:, 4] = X[3:, 7] = np.nan
    by_arrays = Explainer(gaussian, method="permutation", n_orders=96).explain(X)
    exactly = Explainer(gaussian, method="exact").explain(X)
    seen = ~np.isnan(X)
    assert np.abs((by_arrays.values - exactly.values) / np.where(seen, by_arrays.std_error, 1.0)).max() < 12


def test_players_that_miss_a_part_and_many_missing_players_are_walked_directly():
    players = [[0, 1], [2], [3], [4], [5], [6]]
    missing = np.zeros((6, 7), dtype=bool)
    missing[0, [0, 1]] = missing[1, 0] = missing[2, [2, 3]] = missing[3, 2:6] = missing[5, [0, 1, 2, 3]] = True
    tasks = tasks_of(missing, players, 3)
    assert {n: [task.rows.tolist() for task in tasks[n]] for n in tasks} == {1: [[0]], 2: [[2]], 3: [[5]]}


@pytest.mark.parametrize("noise", [1e-2, 1e-4, 1e-6])
def test_filled_in_rows_that_contradict_themselves_do_no_harm(noise, monkeypatch):
    """A missing cell that follows from three others, one of which is wrong, makes a filled-in row that is far off."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(340, 3)) @ rng.normal(size=(3, D)) + noise * rng.normal(size=(340, D))
    new = rows[300:].copy()
    new[np.arange(40), rng.integers(0, D, 40)] += 3
    for row, n_missing in zip(new, [1, 2, 3, 1] * 10, strict=True):
        row[rng.choice(D, n_missing, replace=False)] = np.nan
    detector = PCADetector(n_components=3).fit(rows[:300])
    exactly = Explainer(detector, score="t2", method="exact").explain(new).values

    def error():
        sampled = Explainer(detector, score="t2", method="permutation", n_orders=3000).explain(new).values
        return np.linalg.norm(sampled - exactly, axis=1) / np.linalg.norm(exactly, axis=1)

    found = error()
    monkeypatch.setattr(FewMissing, "share_out", lambda self, rows, otherwise: Served.none(len(rows), D))
    by_all_orders = error()
    assert found.max() < 1.5 * by_all_orders.max()
    assert np.median(found) < 1.5 * np.median(by_all_orders)


def test_rows_of_few_players_are_walked_directly():
    """Orders of few players tell the values almost exactly, and a row without observed features has none."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3))
    detector = PCADetector(n_components=1).fit(rows)
    new = rows[:3].copy()
    new[0], new[1, 0] = np.nan, np.nan
    with pytest.warns(UserWarning, match="1 row has no observed feature"):
        sampled = Explainer(detector, method="permutation", n_orders=3000).explain(new)
    with pytest.warns(UserWarning, match="1 row has no observed feature"):
        exactly = Explainer(detector, method="exact").explain(new)
    assert np.isnan(sampled.values[0]).all()
    np.testing.assert_allclose(sampled.values[1], exactly.values[1], rtol=1e-9)
