"""Injected faults, the ranking of suspects, and what calibration makes of them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import culpa
from culpa import PCADetector
from culpa.calibration.choice import Plan, _preferred, choose, thinned
from culpa.calibration.evaluation import (
    Setting,
    Verdict,
    blame,
    judge,
    leaderboard,
    ranked,
    settings,
    standard_error,
    verdicts,
)
from culpa.calibration.injection import FAULT_KINDS, inject
from culpa.cli import app
from culpa.datasets import make_plant
from culpa.io.tables.table import Batch


@pytest.fixture(scope="module")
def plant():
    return make_plant(400, 200, faults=())


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


def test_calibration_holds_out_what_it_spoils(plant, monkeypatch):
    seen = []

    def spy(chosen, training, trials, **options):
        seen.append((training, trials))
        return verdicts(chosen, training, trials, **options)

    monkeypatch.setattr("culpa.calibration.choice.verdicts", spy)
    choose(plant.normal, plan=Plan([Setting(4, 1.0, 0.0, "spe")], ["bias 1 sd"], [1], n_trials=500))
    assert len(seen) == 5
    for fold, (training, trials) in enumerate(seen):
        held_out = plant.normal[80 * fold : 80 * (fold + 1)]
        assert len(training) == 320
        assert not (training[:, None] == held_out).all(axis=2).any()
        np.testing.assert_array_equal(trials.rows[~trials.culprits], held_out[trials.source][~trials.culprits])


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


@pytest.fixture(scope="module")
def calibrated(plant):
    names = list(plant.feature_names)
    return culpa.calibrate(pd.DataFrame(plant.normal, columns=names), PCADetector(confidence=0.95), n_trials=300)


def test_calibration_returns_the_detector_it_promises(calibrated, plant, tmp_path):
    calibration = calibrated.calibration_
    assert calibrated.get_params() == calibration.best.applied_to(PCADetector(confidence=0.95)).get_params()
    assert calibration.entries[0].hits1.value > 0.9
    new = pd.DataFrame(make_plant(400, 400).new, columns=list(plant.feature_names))
    flagged = new[calibrated.predict(new) == -1]
    top = calibrated.explain(flagged).top(1)
    # rows 50 to 80 have a biased flow_reflux, which this plant tells from all others
    assert (top[top["row"].between(50, 79)]["feature"] == "flow_reflux").all()
    calibrated.save(tmp_path / "m.culpa")
    again = culpa.load(tmp_path / "m.culpa").explain(flagged).top(1)
    pd.testing.assert_frame_equal(again, top)


def test_calibration_as_a_table(calibrated, plant):
    table = calibrated.calibration_.to_frame()
    assert len(table) == len(settings(12))
    assert table["chosen"].sum() == 1
    assert table["hits1"].is_monotonic_decreasing
    assert ((table["hits1_low"] <= table["hits1"]) & (table["hits1"] <= table["hits1_high"])).all()
    few = [Setting(4, 1.0, 0.0, "spe"), Setting(4, 10.0, 0.0, "spe")]
    frame = pl.DataFrame(plant.normal, schema=list(plant.feature_names))
    other = culpa.calibrate(frame, chosen=few, n_trials=100)
    assert isinstance(other.calibration_.to_frame(), pl.DataFrame)
    assert other.calibration_.best in few


def test_calibration_tells_progress_and_repeats_itself(plant):
    few = [Setting(4, 1.0, 0.0, "spe"), Setting(4, 1.0, 0.0, "spe", ranking="rbc")]
    seen = []
    first = choose(plant.normal, plan=Plan(few, n_trials=100, progress=lambda share, doing: seen.append(share)))
    assert seen == sorted(seen)
    assert seen[-1] == 1
    assert first == choose(plant.normal, plan=Plan(few, n_trials=100))


def test_missing_cells_take_part_in_the_fit_only(plant):
    X = plant.normal.copy()
    X[::7, 2] = np.nan
    few = [Setting(4, 1.0, 0.0, "spe"), Setting(4, 3.0, 0.0, "spe")]
    complete = X[~np.isnan(X).any(axis=1)]
    assert choose(X, plan=Plan(few, n_trials=100)) == choose(complete, plan=Plan(few, n_trials=100))
    assert culpa.calibrate(X, chosen=few, n_trials=100).model_.n_samples_ == len(X)


def test_shapley_values_are_preferred_when_as_good():
    shapley, other = Setting(4, 1.0, 0.0, "spe"), Setting(4, 1.0, 0.0, "spe", ranking="rbc")
    source = np.arange(400)
    rng = np.random.default_rng(0)
    hits = (rng.random(400) < 0.7).astype(float)
    slightly = np.where(np.arange(400) < 3, 1.0, hits)
    slightly[-2:] = 0.0
    clearly = np.where(np.arange(400) < 80, 1.0, hits)
    assert _preferred([other, shapley], {other: slightly, shapley: hits}, source) == shapley
    assert _preferred([other, shapley], {other: clearly, shapley: hits}, source) == other
    assert _preferred([other], {other: hits}, source) == other


def test_too_little_to_calibrate_with():
    X = np.random.default_rng(0).normal(size=(30, 4))
    with pytest.raises(ValueError, match="minimum of 20"):
        culpa.calibrate(X[:10])
    X[:15, 0] = np.nan
    with pytest.raises(ValueError, match="15 complete row"):
        culpa.calibrate(X)
    with pytest.raises(ValueError, match="lags=2 cannot be calibrated"):
        culpa.calibrate(np.random.default_rng(0).normal(size=(30, 4)), PCADetector(lags=2))
    with pytest.raises(ValueError, match="n_folds must be a whole number of at least 2"):
        culpa.calibrate(np.random.default_rng(0).normal(size=(30, 4)), n_folds=1)


def test_thinning():
    assert len(thinned(np.arange(10)[:, None], 4)) == 4
    assert len(thinned(np.arange(10)[:, None], 10)) == 10
    np.testing.assert_array_equal(thinned(np.arange(9)[:, None], 3).ravel(), [0, 3, 6])


@pytest.fixture
def normal_csv(plant, tmp_path):
    path = tmp_path / "normal.csv"
    frame = pd.DataFrame(plant.normal, columns=list(plant.feature_names))
    frame.insert(0, "time", np.arange(len(frame)))
    frame.to_csv(path, index=False)
    return path


def command(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_command_shows_candidates_and_writes_the_best(normal_csv, tmp_path):
    model = tmp_path / "plant.culpa"
    result = command("calibrate", normal_csv, "-o", model, "--id", "time", "--trials", 200, "--top", 5)
    assert result.exit_code == 0, result.stderr
    assert "injected faults" in result.stdout
    assert "Hits@1" in result.stdout
    chosen = culpa.load(model)
    assert chosen.n_features_in_ == 12
    assert f"wrote {model}" in result.stderr
    label = result.stderr.strip().rsplit(": ", 1)[1]
    assert label in result.stdout
    repeated = command("calibrate", normal_csv, "-o", model, "--id", "time", "--trials", 200)
    assert repeated.exit_code == 2
    assert "--force" in repeated.stderr
    explained = command("explain", normal_csv, "-m", model, "--all", "--top", 1)
    assert explained.exit_code == 0


def test_command_refuses_in_one_sentence(normal_csv, tmp_path):
    wrong = command("calibrate", normal_csv, "--id", "time", "--fault", "stuk")
    assert wrong.exit_code == 2
    assert "did you mean 'stuck'" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    piped = CliRunner().invoke(app, ["calibrate", "-", "--input-format", "csv"], input=normal_csv.read_text())
    assert piped.exit_code == 2
    assert "give a file" in piped.stderr


def test_command_expects_the_faults_it_is_told(plant, normal_csv, tmp_path):
    expected = {"kinds": ["stuck", "bias 2 sd"], "at_once": [1, 4]}
    told = ["--kinds", "stuck,bias 2 sd", "--at-once", "1", "--at-once", "4"]
    usual = command("calibrate", normal_csv, "--id", "time", "--trials", 200)
    result = command("calibrate", normal_csv, "--id", "time", "--trials", 200, *told)
    assert result.exit_code == 0, result.stderr
    calibration = choose(plant.normal, plan=Plan(n_trials=200, **expected))
    lines = [line.split() for line in result.stdout.splitlines()]
    for entry in calibration.entries[:15]:
        interval = f"{entry.hits1.low:.3f}-{entry.hits1.high:.3f}"
        numbers = [f"{entry.hits1.value:.3f}", interval, f"{entry.hits3.value:.3f}", f"{entry.rank.value:.2f}"]
        assert [*entry.setting.label.split(), *numbers] in lines
    assert result.stdout != usual.stdout
    assert (
        command("calibrate", normal_csv, "--id", "time", "--trials", 200, "--at-once", "1,2,3").stdout == usual.stdout
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kinds", "stuck,bias 9 sd"], "unknown kind of fault 'bias 9 sd': choose one of 'bias 1 sd', "),
        (["--at-once", "0"], "--at-once must be whole numbers of at least 1, such as 1 or '1,2', got '0'"),
        (["--at-once", "1,two"], "got 'two'"),
        (["--at-once", "12"], "--at-once 12 leaves no column normal: with 12 columns, at most 11 can be faulty"),
    ],
)
def test_command_refuses_faults_that_cannot_be(normal_csv, options, message):
    wrong = command("calibrate", normal_csv, "--id", "time", *options)
    assert wrong.exit_code == 2
    assert message in wrong.stderr
    assert wrong.stdout == ""


def test_large_tables_are_thinned_evenly():
    from culpa.jobs import sample

    class Pieces:
        """A table that comes in pieces of uneven length, every fifth row incomplete."""

        def batches(self, features, carried):
            X = np.column_stack([np.arange(5000.0), np.where(np.arange(5000) % 5 == 0, np.nan, 1.0)])
            for piece in np.split(X, [37, 41, 704, 1117, 3999]):
                yield Batch(piece[:, 0].astype(np.int64), piece)

    complete = np.flatnonzero(np.arange(5000) % 5)
    drawn = sample(Pieces(), ["a", "b"], 100)
    assert 50 <= len(drawn) <= 100
    steps = np.diff(np.searchsorted(complete, drawn[:, 0]))
    assert len(set(steps)) == 1
    assert len(sample(Pieces(), ["a", "b"], 10_000)) == 4000


def test_calibration_takes_detectors_as_they_come(plant):
    few = [Setting(4, 1.0, 0.0, "spe"), Setting(4, 1.0, 0.0, "t2")]
    for statistic in ("spe", "t2"):
        chosen = [setting for setting in few if setting.statistic == statistic]
        detector = culpa.calibrate(plant.normal, PCADetector(statistic="t2", limit="f"), chosen=chosen, n_trials=100)
        assert detector.limit == ("f" if statistic == "t2" else "auto")
    # 120 held-out rows are enough for 99%, though those of a fold are not
    many = make_plant(600, 1, faults=()).normal
    detector = culpa.calibrate(many, PCADetector(limit="conformal"), chosen=few, n_trials=100)
    assert detector.limit_kind_ == "conformal"
