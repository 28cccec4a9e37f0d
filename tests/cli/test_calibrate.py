"""`culpa calibrate`: what it shows, what it writes, what it keeps and refuses."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import culpa
from culpa import PCADetector
from culpa.calibration import components_by_detection
from culpa.calibration.choice import choose
from culpa.calibration.plan import Plan, windows_of
from culpa.cli import app
from culpa.datasets import make_plant
from culpa.io.tables.table import Batch
from culpa.jobs.fitting import sample


@pytest.fixture(scope="module")
def plant():
    return make_plant(400, 200, faults=())


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
    label = result.stderr.split(f"wrote {model}: ")[1].split("; held-out rows: ")[0]
    assert label in result.stdout
    repeated = command("calibrate", normal_csv, "-o", model, "--id", "time", "--trials", 200)
    assert repeated.exit_code == 2
    assert "--force" in repeated.stderr
    explained = command("explain", normal_csv, "-m", model, "--all", "--top", 1)
    assert explained.exit_code == 0


def test_command_refuses_in_one_sentence(normal_csv, tmp_path):
    wrong = command("calibrate", normal_csv, "--id", "time", "--kinds", "stuk")
    assert wrong.exit_code == 2
    assert "did you mean 'stuck'" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    piped = CliRunner().invoke(app, ["calibrate", "-", "--input-format", "csv"], input=normal_csv.read_text())
    assert piped.exit_code == 2
    assert "Pass a file" in piped.stderr


def test_command_expects_the_faults_it_is_told(plant, normal_csv, tmp_path):
    expected = {"kinds": ["stuck", "bias 2 sd"], "at_once": [1, 4]}
    told = ["--kinds", "stuck,bias 2 sd", "--at-once", "1", "--at-once", "4"]
    usual = command("calibrate", normal_csv, "--id", "time", "--trials", 60)
    result = command("calibrate", normal_csv, "--id", "time", "--trials", 60, *told)
    assert result.exit_code == 0, result.stderr
    calibration = choose(plant.normal, plan=Plan(n_trials=60, **expected))
    for entry in calibration.entries[:15]:
        detection, alarms, hits1 = entry.detection, entry.false_alarms, entry.hits1
        numbers = [f"{detection.value:.3f}", f"{detection.low:.3f}-{detection.high:.3f}"]
        numbers += [f"{alarms.value:.2%}", f"({100 * alarms.low:.1f}-{100 * alarms.high:.1f})"]
        numbers += [f"{hits1.value:.3f}", f"{hits1.low:.3f}-{hits1.high:.3f}", f"{entry.hits3.value:.3f}"]
        numbers += [f"{entry.rank.value:.2f}", *entry.standing.split()]
        assert [*entry.setting.label.split(), *numbers] in lines_of(result)
    assert result.stdout != usual.stdout
    assert command("calibrate", normal_csv, "--id", "time", "--trials", 60, "--at-once", "1,2,3").stdout == usual.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kinds", "stuck,bias 9 sd"], "unknown --kinds 'bias 9 sd': choose one of 'bias 1 sd', "),
        (["--at-once", "0"], "--at-once must be a whole number of at least 1, got 0"),
        (["--at-once", "1,two"], "got 'two'"),
        (["--at-once", "12"], "--at-once 12 is too large: at most 11 of the 12 columns can be faulty"),
    ],
)
def test_command_refuses_faults_that_cannot_be(normal_csv, options, message):
    wrong = command("calibrate", normal_csv, "--id", "time", *options)
    assert wrong.exit_code == 2
    assert message in wrong.stderr
    assert wrong.stdout == ""


def test_large_tables_are_thinned_evenly():
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


def lines_of(result):
    return [line.split() for line in result.stdout.splitlines()]


def test_command_keeps_the_options_of_the_model(plant, normal_csv, tmp_path):
    model = tmp_path / "m.culpa"
    told = ["--components", 5, "--limit", "empirical", "--trim", 0.05, "--lags", 1, "--noun", "sensor", "--no-scale"]
    result = command("calibrate", normal_csv, "-o", model, "--id", "time", "--trials", 33, "--confidence", 0.9, *told)
    assert result.exit_code == 0, result.stderr
    kept = culpa.load(model).get_params()
    expected = {"n_components": 5, "limit": "empirical", "trim": 0.05, "lags": 1, "noun": "sensor", "scale": False}
    assert {name: kept[name] for name in expected} == expected
    given = PCADetector(confidence=0.9, **expected)
    calibration = choose(windows_of(plant.normal, 1), given, Plan(n_trials=33))
    for line in calibration.changes:
        assert [*line.what.split(), *line.before.split(), *line.after.split()] in lines_of(result)


def test_command_chooses_a_number_of_components(plant, normal_csv, tmp_path):
    model = tmp_path / "m.culpa"
    result = command("calibrate", normal_csv, "-o", model, "--id", "time", "--trials", 100, "--choose", "components")
    assert result.exit_code == 0, result.stderr
    found = components_by_detection(plant.normal, n_trials=100)
    assert culpa.load(model).n_components == found.best
    assert culpa.load(model).statistic == "mahalanobis"
    for entry in found.entries:
        shown = f"{entry.detection.value:.3f}", f"{entry.detection.low:.3f}-{entry.detection.high:.3f}"
        assert any(line[:3] == [str(entry.n_components), *shown] for line in lines_of(result))


def test_samples_bring_their_past():
    class Table:
        def batches(self, features, carried):
            X = np.arange(200.0).reshape(100, 2)
            X[40, 0] = np.nan
            for rows in np.split(np.arange(100), [3, 50]):
                yield Batch(rows, X[rows])

    drawn = sample(Table(), ["a", "b"], 1000, past=4)
    assert drawn.shape == (100 - 4 - 5, 10)
    np.testing.assert_array_equal(drawn[0], [8, 9, 6, 7, 4, 5, 2, 3, 0, 1])
