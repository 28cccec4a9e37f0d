"""Sampled values: unbiased, honest about their error, and the same whatever else is computed."""

import contextlib
import pickle
import warnings

import array_api_strict
import numpy as np
import pytest
from scipy import linalg, stats

import culpa
from culpa import PPCA, Explainer, LatentGaussian, scores, shapley
from culpa._kernels.missing_cells import MISSING_CELLS
from culpa.games import Conditional, Game, Minimal
from culpa.shapley import coalitions, rules
from culpa.shapley.extensions import extension_rule
from culpa.shapley.rules import CoalitionRule
from culpa.shapley.shares import summarise


def singles(d):
    return [[i] for i in range(d)]


def model_and_rows(d, p, seed, noise="alike", tails=np.inf):
    rng = np.random.default_rng([d, p, seed])
    psi = rng.uniform(0.2, 0.9, d) if noise == "differs" else 0.05 + rng.random()
    model = LatentGaussian(np.zeros(d), rng.normal(size=(d, p)), psi, degrees_of_freedom=tails)
    rows = model.sample(3, rng)
    return model, rows + 3 * rng.normal(size=(3, d)) * (rng.random((3, d)) < np.array([[0], [1 / d], [0.2]]))


def clusters(sizes, seed):
    """Clusters of features that imply each other, and features that nothing implies."""
    rng = np.random.default_rng(seed)
    loadings = linalg.block_diag(*(rng.normal(size=(n, 2)) if n > 1 else np.zeros((1, 0)) for n in sizes))
    d = sum(sizes)
    model = LatentGaussian(np.zeros(d), loadings, 0.1 + rng.random())
    return model, model.sample(3, rng) + 3 * rng.normal(size=(3, d)) * (rng.random((3, d)) < 0.2)


def errors(make, n_models, n_seeds, truth=None, compiled=False, **options):
    """Errors in standard errors of all values that have any, (values,), and their degrees of freedom."""
    found, freedom = [], 0
    shared = {
        name: options[name] for name in ("score", "game", "groups", "given", "features", "upstream") & options.keys()
    }
    for seed in range(n_models):
        model, rows = make(seed)
        exact = Explainer(model, method="exact", **shared).explain(rows).values if truth is None else truth(model, rows)
        for rule_seed in range(n_seeds):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                explainer = Explainer(model, method="permutation", seed=rule_seed, **options)
            why = (explainer.compile() if compiled else explainer).explain(rows)
            assert why.n_replicates == 6
            sure = why.std_error <= 1e-9 * np.abs(why.values).max()
            np.testing.assert_allclose(why.values[sure], exact[sure], rtol=0, atol=1e-7 * np.abs(exact).max())
            found.append(((why.values - exact)[~sure] / why.std_error[~sure]).ravel())
            freedom = why.n_replicates - 1
    return np.concatenate(found), freedom


def shares_covered(found, freedom):
    return [float(np.mean(np.abs(found) <= stats.t.ppf((1 + level) / 2, freedom))) for level in (0.95, 0.99)]


ALIKE = {
    "spe": {"score": "spe"},
    "mahalanobis": {"score": "mahalanobis"},
    "t2": {"score": "t2"},
    "some features": {"features": [0, 3, 4, 9]},
    "groups": {"groups": {"large": range(6), "small": [6, 7, 8]}},
    "given": {"given": [2, 5]},
    "minimal": {"game": "minimal"},
}


@pytest.mark.parametrize("noise", ["alike", "differs"])
@pytest.mark.parametrize("way", ALIKE)
def test_intervals_are_honest(way, noise):
    """95% intervals contain about 95% of exact values, and 99% intervals about 99%."""
    found = errors(lambda seed: model_and_rows(14, 4, seed, noise), 8, 6, n_orders=180, **ALIKE[way])
    share95, share99 = shares_covered(*found)
    assert 0.92 <= share95 <= 0.98
    assert 0.975 <= share99 <= 0.998
    assert abs(found[0].mean()) < 0.25  # no bias


@pytest.mark.parametrize("n_components", [2, 5, 12])
def test_intervals_are_honest_with_any_number_of_components(n_components):
    share95, share99 = shares_covered(
        *errors(lambda seed: model_and_rows(18, n_components, seed), 12, 8, tolerance=0.02)
    )
    assert 0.93 <= share95 <= 0.97
    assert 0.98 <= share99 <= 0.996


@pytest.mark.parametrize("sizes", [(6, *[1] * 10), (8, 4, *[1] * 4), (10, 4, 2)])
def test_intervals_are_honest_where_players_differ(sizes):
    share95, share99 = shares_covered(*errors(lambda seed: clusters(sizes, seed), 10, 8, tolerance=0.02))
    assert 0.93 <= share95 <= 0.98
    assert 0.98 <= share99 <= 0.998


def test_intervals_are_honest_for_correlated_features_beside_many_independent_ones():
    """The values of independent features are known, and those of the others follow from a model of these alone."""

    def truth(model, rows):
        some = LatentGaussian(np.zeros(18), model.loadings[:18], model.noise_variance)
        values = model.noise_variance * (rows**2 / model.noise_variance - 1)
        values[:, :18] = Explainer(some, method="exact").explain(rows[:, :18]).values
        return values

    found, freedom = errors(lambda seed: clusters((18, *[1] * 132), seed), 8, 6, truth, tolerance=0.01)
    assert len(found) == 8 * 6 * 3 * 18  # the others are exact
    share95, share99 = shares_covered(found, freedom)
    assert 0.92 <= share95 <= 0.98
    assert 0.975 <= share99 <= 0.998


@pytest.mark.parametrize("missing", [[1], [0, 4, 9], [0, 1, 2, 3, 6]])
def test_intervals_are_honest_with_missing_cells(missing):
    def make(seed):
        model, rows = model_and_rows(14, 4, seed)
        rows[:, missing] = np.nan
        return model, rows

    share95, share99 = shares_covered(*errors(make, 8, 6, n_orders=180))
    assert 0.92 <= share95 <= 0.98
    assert 0.975 <= share99 <= 0.998


@pytest.mark.parametrize(
    "options",
    [{"upstream": [range(4), range(4, 8)]}, {"game": "interventional", "score": "t2"}],
    ids=["chains beside free features", "another game"],
)
def test_intervals_of_orders_are_honest(options):
    found = errors(lambda seed: model_and_rows(12, 3, seed), 8, 6, n_orders=96, **options)
    share95, share99 = shares_covered(*found)
    assert 0.92 <= share95 <= 0.98
    assert 0.975 <= share99 <= 0.998


def test_intervals_of_heavy_tails_are_honest():
    found = errors(lambda seed: model_and_rows(9, 2, seed, tails=5.0), 8, 6, n_orders=96)
    assert 0.92 <= shares_covered(*found)[0] <= 0.98


def values_of_alike_features(rows, noise):
    """T2 under x_i = z + noise: a coalition is worth as much as its size and the sum of its cells say."""
    d = rows.shape[1]
    scale = 1 / (d * (d + noise))
    sizes = np.arange(d)  # of coalitions without a player

    def worth(size, first, second):  # from the mean of the sum of cells, and of its square
        known = 1 + (d - size) / (noise + size)  # the sum of all cells that each cell implies
        open_ = (d - size) * noise * (1 + (d - size) / (noise + size))
        return scale * (known**2 * second + open_), first

    values = np.empty_like(rows)
    for n, row in enumerate(rows):
        for i, x in enumerate(row):
            others = np.delete(row, i)
            first = sizes * others.mean()
            second = first**2 + sizes * others.var() * (d - 1 - sizes) / (d - 2)
            joined = worth(sizes + 1, first + x, second + 2 * x * first + x**2)[0]
            values[n, i] = (joined - worth(sizes, first, second)[0]).mean()
    return values


@pytest.mark.parametrize(("d", "noise"), [(40, 0.01), (400, 0.01), (400, 1.0)])
def test_no_bias_where_the_first_features_tell_everything(d, noise):
    """Contributions then differ from 0 in the smallest coalitions only, which are a tiny part of all."""
    model, covered = LatentGaussian(np.zeros(d), np.ones((d, 1)), noise), []
    rows = model.sample(2, 0) + np.sqrt(noise) * np.random.default_rng(0).normal(size=(2, d)) * 3
    truth = values_of_alike_features(rows, noise)
    for seed in range(4):
        why = Explainer(model, "t2", method="permutation", tolerance=0.02, seed=seed).explain(rows)
        low, high = why.interval(0.99)
        covered.append((low <= truth) & (truth <= high))
        assert np.linalg.norm(why.values - truth) <= 0.1 * np.linalg.norm(truth)
    assert np.mean(covered) >= 0.85  # errors of all features are nearly the same one


def test_points_are_spread_evenly_in_every_stratum():
    rule, low = CoalitionRule(20, (64,) * 10, 3), 0.0
    for stratum, width in enumerate(rule.weights):
        pieces = [piece for piece in rule.pieces(64) if piece.start == 64 * stratum]
        assert len(pieces) == 6
        means = [rule.members(piece)[0].mean(axis=0) for piece in pieces]
        assert np.abs(np.array(means) - (low + width / 2)).max() <= 3 / 64
        assert len({mean.tobytes() for mean in means}) > 1
        low += width
    assert low == pytest.approx(1.0)


@pytest.mark.parametrize("sizes", [(1, 2, 4), (4, 4, 4)])
def test_every_coalition_is_as_likely_as_it_should_be(sizes):
    """In a random order, the players before the last one are each coalition of a size with the same probability."""
    n_seeds, counts = 3000, np.zeros(32)
    for seed in range(n_seeds):
        rule = CoalitionRule(5, sizes, seed, n_replicates=1)
        for piece in rule.pieces(3):
            members, weights = rule.members(piece)
            np.add.at(counts, members @ (1 << np.arange(5)), weights / n_seeds)
    size = (np.arange(32)[:, None] >> np.arange(5) & 1).sum(axis=1)
    expected = 1 / 6 / np.array([1, 5, 10, 10, 5, 1])[size]
    np.testing.assert_allclose(counts, expected, atol=5 * np.sqrt(expected.max() / n_seeds) / 2)


def test_sizes_are_powers_of_two_in_proportion_to_what_strata_need():
    rule = CoalitionRule.first(40, 0).allocated(np.arange(12.0), 5000)
    assert 5000 <= rule.n_coalitions <= 10_000
    assert all(size & (size - 1) == 0 for size in rule.sizes)
    assert list(rule.sizes) == sorted(rule.sizes)
    assert rule.within(3000).n_coalitions <= 3000
    assert rule.within(1).n_coalitions == rule.least == 72


def test_more_players_than_sobol_has_dimensions(monkeypatch):
    monkeypatch.setattr(rules, "_MOST_SOBOL", 30)
    orders = shapley.order_rule(40, 3, 0).orders
    np.testing.assert_array_equal(np.sort(orders, axis=2), np.broadcast_to(np.arange(40), orders.shape))
    assert len(np.unique(orders.reshape(-1, 40), axis=0)) == 48
    rule = CoalitionRule(40, (8,), 0)
    assert rule.members(rule.pieces(100)[0])[0].shape == (8, 40)


def test_orders_are_spread_evenly():
    orders = shapley.order_rule(8, 3, 0).orders
    assert orders.shape == (6, 8, 8)
    np.testing.assert_array_equal(np.sort(orders, axis=2), np.broadcast_to(np.arange(8), orders.shape))
    among = shapley.order_rule(8, 3, 0).among([1, 4, 6]).orders
    positions = np.argsort(orders[2, 3])[[1, 4, 6]]
    np.testing.assert_array_equal(np.argsort(among[2, 3]), np.argsort(np.argsort(positions)))


def test_orders_that_a_flow_sheet_admits_are_equally_likely_among_those_present():
    """Without the feature that keeps them apart, orders of the others are not those of complete rows with a gap."""
    model, rows = model_and_rows(8, 2, 0)
    rows[:, 3] = np.nan
    how = {"upstream": [(0, 3), (3, 5), (1, 3), (3, 6)]}
    exact = Explainer(model, method="exact", **how).explain(rows).values
    why = Explainer(model, method="permutation", n_orders=6 << 9, **how).explain(rows)
    assert (np.abs(why.values - exact) <= 8 * why.std_error + 1e-9).all()
    assert np.abs(why.values - exact).max() < 0.1 * np.abs(exact).max()


def test_standard_errors_are_those_of_each_player():
    replicates = np.random.default_rng(0).normal(size=(6, 4, 30))
    shares = summarise(replicates, 1)
    assert shares.n_replicates == 6
    np.testing.assert_allclose(shares.std_error, replicates.std(axis=0, ddof=1) / np.sqrt(6))


WAYS = {
    "spe": {},
    "noise differs": {"noise": "differs"},
    "groups": {"groups": {"a": [0, 1, 2], "b": [5, 9]}},
    "given": {"given": [3]},
    "minimal": {"game": "minimal"},
}


@pytest.mark.parametrize("way", WAYS)
def test_the_same_numbers_whatever_the_threads_and_the_rows_beside(way, monkeypatch):
    options = dict(WAYS[way])
    model, _ = model_and_rows(12, 3, 0, options.pop("noise", "alike"))
    rows = model.sample(200, 1)
    rows[50:60, 2] = np.nan
    how = {"method": "permutation", "n_orders": 144} | options
    expected = Explainer(model, n_jobs=1, **how).explain(rows)
    monkeypatch.setattr(coalitions, "_CELLS_PER_CHUNK", 1)  # 64 rows
    again = Explainer(model, n_jobs=2, **how).explain(rows)
    some = Explainer(model, n_jobs=2, **how).explain(rows[45:55])
    size = np.abs(expected.values).max()
    for name in ("values", "std_error"):
        np.testing.assert_allclose(getattr(again, name), getattr(expected, name), rtol=0, atol=1e-11 * size)
        np.testing.assert_allclose(getattr(some, name), getattr(expected, name)[45:55], rtol=0, atol=1e-11 * size)
    np.testing.assert_array_equal(Explainer(model, n_jobs=2, **how).explain(rows).values, again.values)
    assert np.abs(Explainer(model, seed=1, **how).explain(rows).values - expected.values).max() > 1e-3 * size


@pytest.mark.parametrize("way", WAYS)
def test_forms_have_the_numbers_of_rows(way):
    options = dict(WAYS[way])
    model, rows = model_and_rows(12, 3, 0, options.pop("noise", "alike"))
    explainer = Explainer(model, method="permutation", n_orders=144, **options)
    expected = explainer.explain(rows)
    assert explainer.forms is None
    why = explainer.compile().explain(rows)
    assert explainer.forms.constants.shape[0] == 6
    size = np.abs(expected.values).max()
    for name in ("values", "std_error"):
        np.testing.assert_allclose(getattr(why, name), getattr(expected, name), rtol=0, atol=1e-10 * size)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-9)


@pytest.mark.parametrize("score", ["spe", "mahalanobis"])
def test_the_kernel_has_the_numbers_of_arrays(score, monkeypatch):
    model, _ = model_and_rows(12, 3, 0)
    rows, found = model.sample(20, 1), []
    rows[10:, 4] = np.nan
    for pays in (False, True):
        monkeypatch.setattr(culpa._kernels.kernel.Kernel, "pays", lambda self, operations, pays=pays: pays)
        found.append(Explainer(model, score, method="permutation", given=[7], n_orders=144).explain(rows).values)
    np.testing.assert_allclose(*found, rtol=0, atol=1e-11 * np.abs(found[0]).max())


@pytest.mark.parametrize("way", ["spe", "noise differs", "groups", "minimal"])
def test_other_array_libraries(way):
    options = dict(WAYS[way])
    model, rows = model_and_rows(12, 3, 0, options.pop("noise", "alike"))
    explainer = Explainer(model, method="permutation", n_orders=144, **options)
    expected, shares = explainer.explain(rows), explainer.shares(array_api_strict.asarray(rows))
    assert isinstance(shares.values, type(array_api_strict.asarray(rows)))
    np.testing.assert_allclose(np.asarray(shares.values), expected.values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.asarray(shares.std_error), expected.std_error, rtol=1e-6, atol=1e-12)


def test_tiny_noise_keeps_digits_or_is_sampled_by_orders():
    """Members of a coalition lose as many digits as the noise is small."""
    rng = np.random.default_rng(0)
    loadings, x = rng.normal(size=(10, 3)), rng.normal(size=(3, 3))
    for noise, kind in ((1e-3, "coalitions"), (1e-4, "coalitions"), (1e-7, "orders"), (1e-11, "orders")):
        model = LatentGaussian(np.zeros(10), loadings, noise)
        rows = x @ loadings.T + np.sqrt(noise) * rng.normal(size=(3, 10))
        explainer = Explainer(model, method="permutation", n_orders=6 << 8)
        assert kind in explainer.chosen
        exact, why = Explainer(model, method="exact").explain(rows).values, explainer.explain(rows)
        assert (np.abs(why.values - exact) <= 8 * why.std_error + 1e-6 * np.abs(exact).max()).all()


def test_games_without_contributions_at_once_are_sampled_by_orders():
    class Largest(Game):
        n_features, base_value = 3, 0.0

        def value(self, X, members):
            return X[:, members].max(axis=1, initial=0.0)

    X = np.array([[6.0, 3.0, 1.0]])
    sampled = shapley.permutation(Largest(), X, singles(3), shapley.order_rule(3, 7, 0))
    exact = shapley.exact(Largest(), X, singles(3)).values
    assert (np.abs(sampled.values - exact) <= 6 * sampled.std_error + 1e-12).all()


def test_minimal_games_of_incomplete_rows():
    model, rows = model_and_rows(12, 3, 0)
    rows[:, 4] = np.nan
    assert Minimal(scores.spe(model)).marginals is not None
    exact = Explainer(model, game="minimal", method="exact").explain(rows).values
    why = Explainer(model, game="minimal", method="permutation", n_orders=3000).explain(rows)
    assert (np.abs(why.values - exact) <= 8 * why.std_error + 1e-9).all()


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return rng.normal(size=(400, 5)) @ rng.normal(size=(5, 12)) + 0.4 * rng.normal(size=(400, 12))


@pytest.mark.parametrize("game", ["conditional", "interventional"])
@pytest.mark.parametrize("tolerance", [0.05, 0.01])
def test_tolerance_is_met(table, tolerance, game):
    model = PPCA(5).fit(table)
    new = table[:60].copy()
    new[np.arange(60), np.arange(60) % 12] += 4
    exact = Explainer(model, game=game).explain(new).values
    sampled = Explainer(model, game=game, method="permutation", tolerance=tolerance).explain(new)
    error = np.linalg.norm(sampled.values - exact, axis=1) / np.linalg.norm(exact, axis=1)
    claimed = np.linalg.norm(sampled.std_error, axis=1) / np.linalg.norm(sampled.values, axis=1)
    assert np.median(error) <= tolerance
    assert np.median(claimed) <= 1.2 * tolerance  # it is met on rows drawn from the model
    assert np.median(error) >= tolerance / 10  # and not by doing far more than was asked


def test_budget_is_kept(table):
    explainer = Explainer(PPCA(5).fit(table), method="permutation", tolerance=1e-6, max_coalitions=5000)
    assert 2500 <= explainer.explain(table[:2]).n_evaluations <= 5000


@pytest.mark.parametrize("upstream", [None, [(0, 1)]])
@pytest.mark.parametrize("n_players", [3, 8, 12])
@pytest.mark.parametrize("tolerance", [1e-6, "top1"])
def test_a_budget_of_coalitions_is_kept_or_refused(n_players, tolerance, upstream):
    table = np.random.default_rng(0).normal(size=(60, n_players)) * np.arange(1, n_players + 1)
    kept = []
    for budget in (1, 5, 30, 100, 200, 1000):
        how = {"method": "permutation", "tolerance": tolerance, "max_coalitions": budget, "upstream": upstream}
        explainer = Explainer(PPCA(2).fit(table), **how)
        with warnings.catch_warnings(), contextlib.suppress(ValueError):
            warnings.simplefilter("ignore", UserWarning)  # that ranks are not certain yet
            assert explainer.explain(table[:2]).n_evaluations <= budget
            kept.append(budget)
    assert 1000 in kept
    assert 5 not in kept
    with pytest.raises(ValueError, match=f"max_coalitions=5 is too few for {n_players} players"):
        Explainer(PPCA(2).fit(table), **how | {"max_coalitions": 5}).explain(table[:2])


@pytest.mark.parametrize(
    ("module", "game", "what"), [("coalitions", "conditional", "coalitions"), ("permutation", "retraining", "orders")]
)
def test_unreachable_tolerance_is_said(table, monkeypatch, module, game, what):
    import importlib

    importing = importlib.import_module(f"culpa.shapley.{module}")
    monkeypatch.setattr(importing, "_MOST" if what == "coalitions" else "_LARGEST", 600 if what == "coalitions" else 4)
    explainer = Explainer(PPCA(5).fit(table), game=game, method="permutation", tolerance=1e-6)
    with pytest.warns(UserWarning, match=f"tolerance 1e-06 was not reached with [0-9]+ {what}"):
        explainer.explain(table[:2])


def test_progress_tells_the_error(table):
    seen = []
    explainer = Explainer(PPCA(5).fit(table), method="permutation", progress=lambda *at: seen.append(at))
    explainer.explain(table[:2])
    errors = [error for _, error in seen if error is not None]
    assert errors
    assert errors == sorted(errors, reverse=True)
    assert seen[0] == (0.0, None)
    assert seen[-1][0] == 1.0


def test_exact_samples_report_their_progress():
    """Contributions to independent features leave no error to divide by."""
    model, seen = LatentGaussian(np.zeros(3), np.zeros((3, 0)), 0.5), []
    why = Explainer(model, method="permutation", progress=lambda *at: seen.append(at)).explain(np.ones((3, 3)))
    assert any(share == 1.0 and error is not None and error < 1e-12 for share, error in seen)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)
    np.testing.assert_allclose(why.std_error, 0.0, atol=1e-12)
    nothing = Explainer(LatentGaussian(np.zeros(5), np.zeros((5, 0)), 0.5), "t2", method="permutation")
    np.testing.assert_array_equal(nothing.explain(np.ones((2, 5))).values, 0.0)


def test_nothing_is_prepared_for_no_rows(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(60, 40))
    detector = culpa.PCADetector(3).fit(rows)
    monkeypatch.setattr(coalitions.SampledCoalitions, "_try", None)  # would be called
    assert len(detector.explain(rows[:0])) == 0
    assert not Explainer(model_and_rows(40, 4, 0)[0], "spe")._one_pass.compiling_is_due


def test_forms_that_do_not_fit_are_ruled_out_before_sampling(monkeypatch):
    explainer = Explainer(model_and_rows(40, 4, 0)[0], "spe", memory_bytes=1000)
    explainer._one_pass.count_rows(np.zeros((10**6, 40)))
    monkeypatch.setattr(coalitions.SampledCoalitions, "_try", None)  # would be called
    assert not explainer._one_pass.compiling_is_due


@pytest.mark.parametrize("noise", ["alike", "differs"])
@pytest.mark.parametrize("score", ["mahalanobis", "spe", "t2"])
def test_rows_of_many_patterns_together_get_the_values_of_each_pattern(noise, score, monkeypatch):
    model, rows = model_and_rows(14, 4, 3, noise)
    rows = np.repeat(rows, -(-50 // len(rows)), axis=0)[:50]
    rows[np.random.default_rng(4).random(rows.shape) < 0.25] = np.nan
    rows[1, 1:], rows[2], rows[:2, 0] = np.nan, np.arange(14.0), 1.0
    how = {"method": "permutation", "seed": 5}
    monkeypatch.setattr(MISSING_CELLS, "worth", 0.0)
    together = Explainer(model, score, **how).explain(rows)
    few = Explainer(model, score, **how).explain(rows[10:13])
    monkeypatch.setattr(coalitions.SampledCoalitions, "serves", lambda self, game, rows: np.zeros(len(rows), bool))
    alone = Explainer(model, score, **how).explain(rows)
    for name in ("values", "std_error"):
        np.testing.assert_allclose(getattr(together, name), getattr(alone, name), rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(getattr(few, name), getattr(together, name)[10:13], rtol=1e-9, atol=1e-11)
    assert together.n_evaluations == alone.n_evaluations
    assert MISSING_CELLS.is_ready


def test_what_coalitions_know_is_found_once(monkeypatch):
    """It follows from the model, so that further rows only take products with it; copies find their own."""
    model, rows = model_and_rows(40, 4, 0)
    explainer = Explainer(model, "spe", tolerance=0.05)
    first = explainer.explain(rows)
    copied = pickle.loads(pickle.dumps(explainer))
    assert len(pickle.dumps(explainer)) < 300_000
    with monkeypatch.context() as patch:
        patch.setattr(coalitions._Players, "known", None)  # would be called
        np.testing.assert_allclose(explainer.explain(rows).values, first.values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(copied.explain(rows).values, first.values, rtol=1e-9, atol=1e-12)


def test_what_coalitions_know_takes_bounded_memory(monkeypatch):
    """Of large groups, each coalition knows a matrix; the values are the same, whatever is kept."""
    model, rows = model_and_rows(120, 3, 0)
    how = {"groups": {f"g{k}": list(range(10 * k, 10 * k + 10)) for k in range(12)}, "method": "permutation"}
    before = Explainer(model, **how).explain(rows).values
    monkeypatch.setattr(coalitions, "_MOST_NUMBERS", 1 << 15)
    monkeypatch.setattr(coalitions, "_MOST_KEPT", 1 << 16)
    explainer = Explainer(model, **how)
    np.testing.assert_allclose(explainer.explain(rows).values, before, rtol=1e-9, atol=1e-12)
    arrays = [
        array
        for known, _ in explainer._engine._sampling._kept.values()
        for array in [*known, *(matrices for block in known.blocks for matrices in block[1:])]
        if isinstance(array, np.ndarray)
    ]
    assert 0 < sum(array.size for array in arrays) <= 1 << 16


def test_rows_that_come_one_by_one_are_compiled_too():
    model, rows = model_and_rows(30, 3, 0)
    explainer = Explainer(model, "spe", tolerance=0.05)
    values = explainer.shares(rows[:1]).values
    for _ in range(1200):
        again = explainer.shares(rows[:1]).values
    assert explainer.forms is not None
    np.testing.assert_allclose(again, values, rtol=0, atol=1e-10 * np.abs(values).max())


def test_says_what_it_chose(table):
    model = PPCA(5).fit(table)
    assert Explainer(model).chosen == "exact: 4,096 coalitions of 12 players"
    sampled = Explainer(model, exact_operations=1e4, n_orders=400)
    assert (
        sampled.chosen
        == f"permutation: {sampled.explain(table[:1]).n_evaluations:,} coalitions in 6 replicates, 12 players"
    )
    assert 200 <= sampled.explain(table[:1]).n_evaluations <= 800
    by_orders = Explainer(model, game="retraining", method="permutation", n_orders=100)
    assert by_orders.chosen == "permutation: 96 orders in 6 replicates, 12 players"
    assert Explainer(model, game="interventional").chosen == "exact: closed form"
    assert Explainer(model, method="algorithm1").chosen == "algorithm1: 1,000 orders for each of 12 players"
    with pytest.raises(ValueError, match="tolerance must be a number above 0"):
        Explainer(model, tolerance=0)


def test_twenty_groups_are_exact_whatever_the_number_of_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 60)) + 0.4 * rng.normal(size=(300, 60))
    explainer = Explainer(PPCA(5).fit(X), groups={f"g{k}": range(3 * k, 3 * k + 3) for k in range(20)})
    assert explainer.chosen == "exact: 1,048,576 coalitions of 20 players"
    why = explainer.explain(X[:2])
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-10)
    sampled = Explainer(
        explainer.model, groups=dict(zip(why.player_names, why.players, strict=True)), method="permutation"
    ).explain(X[:2])
    assert (np.abs(sampled.values - why.values) <= 8 * sampled.std_error).all()


def test_random_admissible_orders_have_replicates():
    from culpa.shapley.partial_order import PartialOrder

    order = PartialOrder.from_chains([(0, 1)], ["a", "b", "c"])
    assert extension_rule(order, 4, 0).orders.shape == (6, 16, 3)


def test_rows_with_few_observed_features_are_exact_beside_sampled_ones(monkeypatch):
    """Whether values are exact follows from a row's own players, also where rows of many patterns are sampled together."""
    monkeypatch.setattr(type(MISSING_CELLS), "pays", lambda self, operations: True)
    model, rows = model_and_rows(14, 3, 0)
    rows = np.array(rows)[:2]
    rows[0, :7], rows[1, 0] = np.nan, np.nan
    within = shapley.plan.exact_operations(Conditional(scores.spe(model)), 10)
    why = Explainer(model, "spe", exact_operations=within).explain(rows)
    assert not why.std_error[0][7:].any()
    assert why.std_error[1][1:].all()
