"""Injected faults, the ranking of suspects, and what calibration makes of them."""

import numpy as np
import pytest

from culpa import PCADetector
from culpa.calibration.evaluation import (
    Setting,
    Verdict,
    judge,
    settings,
)
from culpa.calibration.injection import FAULT_KINDS, inject
from studies.by_hits import blame, leaderboard, ranked, standard_error


def only(trials, kind):
    where = trials.kind == kind
    return trials.rows[where], trials.culprits[where], trials.source[where]


def test_every_kind_of_fault_does_what_it_says(plant):
    rows, training = plant.new, plant.normal
    trials = inject(rows, training, n_trials=3000)
    spread, mean = training.std(axis=0, ddof=1), training.mean(axis=0)
    for kind in FAULT_KINDS:
        spoiled, culprits, source = only(trials, kind)
        assert len(spoiled) > 250
        np.testing.assert_array_equal(spoiled[~culprits], rows[source][~culprits])
        assert set(culprits.sum(axis=1)) == {1, 2, 3}
        change = ((spoiled - rows[source]) / spread)[culprits]
        shown = np.where(culprits, spoiled, np.nan)
        if kind.startswith("bias"):
            np.testing.assert_allclose(np.abs(change), int(kind.split()[1]))
            assert 0.4 < (change > 0).mean() < 0.6
        if kind in ("maximum", "minimum"):
            extreme = training.max(axis=0) if kind == "maximum" else training.min(axis=0)
            np.testing.assert_array_equal(shown[culprits], np.broadcast_to(extreme, shown.shape)[culprits])
        if kind == "stuck":  # one value per feature; several for the three numbers of features
            assert max(len(np.unique(column[~np.isnan(column)])) for column in shown.T) <= 3
        if kind == "sign flip":
            np.testing.assert_allclose(
                ((spoiled + rows[source]) / 2)[culprits], np.broadcast_to(mean, shown.shape)[culprits]
            )
        if kind == "lost correlation":
            assert all(np.isin(column[~np.isnan(column)], rows[:, j]).all() for j, column in enumerate(shown.T))
            assert len(np.unique(shown[~np.isnan(shown)])) > 100


def test_rows_take_turns_and_seeds_repeat(plant):
    trials = inject(plant.new, plant.normal, n_trials=600)
    counts = np.bincount(trials.source, minlength=200)
    assert counts.max() - counts.min() <= 1
    again, other = (inject(plant.new, plant.normal, n_trials=600, seed=seed) for seed in (0, 1))
    np.testing.assert_array_equal(again.rows, trials.rows)
    assert not np.array_equal(other.rows, trials.rows)


def test_what_does_not_change_is_no_fault():
    rows = np.array([[1.0, 0.0, 3.0], [2.0, 0.0, 4.0]] * 10)
    trials = inject(rows, rows, kinds=["maximum"], at_once=[1], n_trials=300)
    assert (trials.rows != rows[trials.source]).any(axis=1).all()
    np.testing.assert_array_equal(trials.culprits, trials.rows != rows[trials.source])
    assert not trials.culprits[:, 1].any()  # a constant is its own maximum
    biased = inject(rows, rows, kinds=["bias 2 sd"], at_once=[1], n_trials=300)
    assert set(np.abs(biased.rows[:, 1])) == {0.0, 2.0}  # but it can be biased, with scale 1


def test_faults_that_cannot_be():
    X = np.random.default_rng(0).normal(size=(30, 2))
    assert set(inject(X, X, n_trials=60).culprits.sum(axis=1)) == {1}  # of two features one stays sound
    with pytest.raises(ValueError, match="did you mean 'stuck'"):
        inject(X, X, kinds=["stuk"])
    for options in ({"at_once": [2]}, {"kinds": []}):
        with pytest.raises(ValueError, match="no faults can be injected"):
            inject(X, X, **options)


def by_lot(row, culprits, n, draws, rng):
    """Share of culprits among the n most blamed when ties are broken by lot, over many draws."""
    found = []
    for _ in range(draws):
        order = np.lexsort((rng.random(len(row)), -row))
        found.append([np.flatnonzero(order == c)[0] + 1 for c in culprits])
    places = np.array(found)
    return (places <= n).mean(axis=0), places.mean(axis=0)


def test_ties_are_shared_fairly():
    rng = np.random.default_rng(0)
    blame = rng.integers(0, 3, size=(12, 6)).astype(float)
    culprits = np.zeros((12, 6), dtype=bool)
    for row in culprits:
        row[rng.choice(6, rng.integers(1, 4), replace=False)] = True
    verdict = judge(blame, culprits)
    for row, guilty, hits1, hits3, rank in zip(blame, culprits, *verdict, strict=True):
        first, places = by_lot(row, np.flatnonzero(guilty), 1, 4000, rng)
        three, _ = by_lot(row, np.flatnonzero(guilty), 3, 4000, rng)
        assert hits1 == pytest.approx(first.sum(), abs=0.04)
        assert hits3 == pytest.approx(three.mean(), abs=0.04)
        assert rank == pytest.approx(places.mean(), abs=0.12)


def test_neither_rounding_nor_the_order_of_columns_decides():
    blame = np.array([[1.0, 1.0 + 1e-13, 0.5]])
    for guilty in ([True, False, False], [False, True, False]):
        verdict = judge(blame, np.array([guilty]))
        assert (verdict.hits1[0], verdict.rank[0]) == (0.5, 1.5)
    everything_equal = judge(np.zeros((1, 4)), np.array([[False, False, False, True]]))
    assert [cells[0] for cells in everything_equal] == [0.25, 0.75, 2.5]


def test_intervals_resample_rows_not_trials():
    rng = np.random.default_rng(0)
    source = np.repeat(np.arange(40), 25)
    alike = np.repeat(rng.random(40) < 0.5, 25).astype(float)  # all trials of a row agree
    independent = (rng.random(1000) < 0.5).astype(float)
    one, two = (
        ranked([setting], [Verdict(*[cells] * 3)], source)[0].hits1
        for setting, cells in ((settings(5)[0], alike), (settings(5)[1], independent))
    )
    assert one.high - one.low > 3 * (two.high - two.low)
    binomial = 2 * 1.96 * np.sqrt(0.25 / 40)
    assert one.high - one.low == pytest.approx(binomial, rel=0.15)
    assert standard_error(alike, source) == pytest.approx(binomial / 3.92, rel=0.1)


def test_intervals_weigh_rows_by_their_trials():
    """Rows with many trials count more, in every resample: against a loop over resampled rows."""
    rng = np.random.default_rng(0)
    source = np.repeat(np.arange(30), rng.integers(1, 40, size=30))
    cells = (rng.random(len(source)) < np.linspace(0.1, 0.9, 30)[source]).astype(float)
    means = []
    for _ in range(2000):
        drawn = np.concatenate([cells[source == row] for row in rng.integers(30, size=30)])
        means.append(drawn.mean())
    found = ranked([settings(5)[0]], [Verdict(cells, cells, cells)], source)[0].hits1
    assert found.value == cells.mean()
    np.testing.assert_allclose([found.low, found.high], np.quantile(means, [0.025, 0.975]), atol=0.015)


def test_settings_blame_as_the_detectors_they_describe(plant):
    rows = inject(plant.new, plant.normal, n_trials=60).rows[:10]
    for setting in settings(12, 4):
        detector = setting.applied_to(PCADetector(confidence=0.9)).fit(plant.normal)
        assert detector.confidence == 0.9
        why = detector.explain(rows)
        shown = why.values if why.suspicion is None else why.suspicion
        np.testing.assert_allclose(blame(setting, detector, rows), shown, rtol=1e-6, atol=1e-8)
    assert len({setting.label for setting in settings(12, 4)}) == len(settings(12, 4))
    assert any(setting.game == "retraining" for setting in settings(13))
    assert not any(setting.game == "retraining" for setting in settings(14))


@pytest.mark.parametrize(("game", "exact"), [("conditional", False), ("interventional", True)])
def test_many_features_are_sampled_unless_there_is_a_closed_form(plant, monkeypatch, game, exact):
    monkeypatch.setattr("culpa.calibration.evaluation._EXACT_UP_TO", 11)  # the plant has 12
    setting = Setting(4, 1.0, 0.0, "mahalanobis", game)
    detector = setting.applied_to(PCADetector()).fit(plant.normal)
    found = [blame(setting, detector, plant.new[:5], seed) for seed in (0, 1)]
    assert (found[0] == found[1]).all() == exact


def test_leaderboard_prefers_what_is_better(plant):
    chosen = [Setting(4, 1.0, 0.0, "spe", ranking="z-score"), Setting(4, 1.0, 0.0, "mahalanobis", ranking="fault-odds")]
    best, worst = leaderboard(plant.normal, plant.new, chosen, n_trials=300)
    assert best.setting == chosen[1]
    assert best.hits1.low > worst.hits1.high
    assert best.rank.value < worst.rank.value
    assert best == leaderboard(plant.normal, plant.new, chosen, n_trials=300)[0]


def test_singular_and_constant_columns_do_not_stop_anything():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2)) @ rng.normal(size=(2, 3)) + 0.1 * rng.normal(size=(120, 3))
    X = np.column_stack([X, X[:, 0], np.full(120, 7.0)])  # a copy and a constant
    entries = leaderboard(X[:80], X[80:], n_trials=300)
    assert all(np.isfinite([*entry.hits1, *entry.hits3, *entry.rank]).all() for entry in entries)
