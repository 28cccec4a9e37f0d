"""Numbers that stand for missing cells: noticed in training, not where there are none, and taken as missing."""

import json
import os
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import sklearn.datasets
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import culpa
from culpa import PCADetector
from culpa._core.json_values import as_typed
from culpa._core.warning import FitWarning
from culpa.cli import app
from culpa.datasets import ODDS_NAMES, load_cars04, load_odds, load_wine_outliers, make_plant
from culpa.io.tables import Batch, Options, open_source
from culpa.io.tables.numbers import Missing
from culpa.jobs import fitting
from culpa.jobs.batches import Listener
from culpa.jobs.fitting import fit
from culpa.models import Moments
from culpa.monitoring.fill_values import Codes, Ends, is_code

NAMES = ["temp", "flow", "level", "power"]


def measured(n=2000, seed=0):
    """Columns of quite different places and spreads."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ np.random.default_rng(7).normal(size=(2, 4)) + 0.3 * rng.normal(size=(n, 4))
    return X * [3.0, 0.1, 50.0, 1.0] + [22.0, 1.0, 500.0, 0.0]


class Pieces:
    """A table in memory that comes in pieces, numbered from 100."""

    name, again, live, skipped = "pieces", True, False, 0

    def __init__(self, X, size=300):
        self.X, self.size = X, size

    def batches(self, features, carried):
        for start in range(0, len(self.X), self.size):
            part = self.X[start : start + self.size]
            yield Batch(np.arange(100 + start, 100 + start + len(part)), np.asfortranarray(part))


def told(X, detector=None, names=NAMES, **options):
    """What is said about a table."""
    said = []
    fit(detector or PCADetector(2), Pieces(X), names, told=Listener(warning=said.append), **options)
    return [text for text in said if text.startswith("pieces: ")]  # others are about the model


def run(*arguments, code=0, stdin=None):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    assert result.exit_code == code, result.output
    return result


def write(X, path, dtype=np.float64):
    table = pa.table(
        {name: pa.array(np.asarray(x, dtype), from_pandas=True) for name, x in zip(NAMES, X.T, strict=True)}
    )
    if path.suffix == ".ndjson":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        {".csv": pa_csv.write_csv, ".parquet": pq.write_table, ".feather": feather.write_feather}[path.suffix](
            table, path
        )
    return path


cells = st.sampled_from([np.nan, -2.0, -1.0, -0.0, 0.0, 1.0, 1.5, 7.0])


@given(st.lists(st.lists(st.tuples(cells, cells), max_size=6), max_size=6))
def test_ends_are_those_of_all_cells_however_they_are_cut(pieces):
    ends, start = Ends(2), 10
    for piece in pieces:
        ends.add(np.arange(start, start + len(piece)), np.array(piece, dtype=float).reshape(-1, 2))
        start += len(piece)
    X = np.array([row for piece in pieces for row in piece], dtype=float).reshape(-1, 2)
    for column in (0, 1):
        for side, sign in enumerate((-1, 1)):
            signed = sign * X[:, column]
            values = np.unique(signed[~np.isnan(signed)])
            assert ends.value[side, column] == (values[-1] if len(values) else -np.inf)
            assert ends.next[side, column] == (values[-2] if len(values) > 1 else -np.inf)
            if len(values):
                at = np.flatnonzero(signed == values[-1])
                assert (ends.count[side, column], ends.first[side, column]) == (len(at), 10 + at[0])


def test_moments_without_some_rows():
    X = measured(500)
    rest, gone = X[:450], X[450:]
    left = Moments.of(X).without(Moments.of(gone))
    assert left.n == 450
    np.testing.assert_allclose(left.mean, rest.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(left.covariance, np.cov(rest.T), rtol=1e-9)
    np.testing.assert_allclose(left.column(2).covariance, [[rest[:, 2].var(ddof=1)]], rtol=1e-9)


WHOLE = {
    "one pass": {},
    "lags": {"lags": 2},
    "trim": {"trim": 0.2},
    "conformal": {"limit": "conformal"},
}


@pytest.mark.parametrize("how", WHOLE.values(), ids=WHOLE)
@pytest.mark.parametrize("value", [-9999.0, -999.0, 999.0, 9999.9, 65535.0, -32768.0, 1e6, -1e5])
@pytest.mark.parametrize("count", [1, 40])
def test_a_fill_value_is_told_with_its_place_and_distance(how, value, count):
    X = measured()
    at = np.sort(np.random.default_rng(1).choice(np.arange(5, len(X)), count, replace=False))
    X[at, 0] = value
    [text] = told(X, PCADetector(2, **how))
    seen = X[how.get("lags", 0) :, 0]
    rest = seen[seen != value]
    place = f"in row {100 + at[0]}" if count == 1 else f"40 times, first in row {100 + at[0]}"
    deviations = abs(value - rest.mean()) / rest.std(ddof=1)
    assert f"pieces: column 'temp' contains {as_typed(value)} {place}, " in text
    assert f"--missing {as_typed(value)}" in text
    assert f"between {rest.min():.6g} and {rest.max():.6g}" in text
    assert float(re.search(r"([\d,.e+]+) standard deviations", text)[1].replace(",", "")) == pytest.approx(
        deviations, rel=0.05 if deviations > 1e6 else 1e-3, abs=0.5
    )


def test_incomplete_rows_are_looked_at_where_they_are_learned_from():
    X = measured()
    X[::7, 1] = np.nan
    X[7, 0] = X[14, 0] = X[50, 0] = -9999
    assert "contains -9999 3 times, first in row 107," in told(X)[0]
    assert "contains -9999 in row 150," in told(X, complete_only=True)[0]


def test_a_number_that_drowns_the_others_has_a_lower_bound():
    X = measured()
    X[3, 1] = 1e30
    [text] = told(X)
    bound = float(re.search(r"more than ([\d.e+]+) standard deviations", text)[1])
    rest = np.delete(X[:, 1], 3)
    assert 1e29 < bound < (1e30 - rest.mean()) / rest.std(ddof=1)


def test_both_ends_and_the_worst_columns():
    X = measured()
    X[5:30, 0], X[40:60, 0] = -9999, 9999
    lower, upper = told(X)
    assert "contains -9999 25 times" in lower
    assert "contains 9999 20 times" in upper
    rest = X[np.abs(X[:, 0]) != 9999, 0]
    for text in (lower, upper):
        assert float(re.search(r"([\d,]+) standard", text)[1].replace(",", "")) > 9000 / rest.std(ddof=1)
    X[7] = [-9999, 1e6, -1e7, 65535]
    *worst, last = told(X)
    assert [re.search(r"column '(\w+)'", text)[1] for text in worst] == ["flow", "level", "power"]
    assert last == "pieces: 1 more column contains such numbers."


def test_a_code_in_a_column_that_does_not_vary_otherwise():
    X = measured()
    X[:, 1], X[12, 1] = 20.0, -9999.0
    [text] = told(X)
    assert "column 'flow' contains -9999 in row 112; its other cells are all 20. " in text
    X[:, 1], X[12, 1] = 9999.0, -9999.0  # at least one of them is a measurement
    [text] = told(X)
    assert "contains -9999 in row 112; its other cells are all 9999. " in text
    X[:, 1], X[12, 1], X[13, 1] = 0.0, -9999.0, 9999.0
    assert len(told(X)) == 2


def test_noticing_changes_nothing(monkeypatch):
    X = measured()
    X[5:30, 0] = -9999
    looked = fit(PCADetector(2), Pieces(X), NAMES)
    monkeypatch.setattr(fitting.Ends, "add", lambda self, rows, X: None)
    blind = fit(PCADetector(2), Pieces(X), NAMES)
    np.testing.assert_array_equal(looked.model_.covariance_, blind.model_.covariance_)
    assert looked.limit_ == blind.limit_


CLEAN = {
    "normal": lambda rng, n: rng.normal(size=n),
    "far from 0": lambda rng, n: 1e9 + rng.normal(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "lognormal": lambda rng, n: rng.lognormal(0, 1, n),
    "lognormal, heavy": lambda rng, n: rng.lognormal(0, 1.5, n),
    "Student t, 3": lambda rng, n: rng.standard_t(3, n),
    "counts": lambda rng, n: rng.poisson(3, n),
    "rare counts": lambda rng, n: rng.poisson(0.01, n),
    "bursts": lambda rng, n: rng.negative_binomial(0.1, 0.05, n),
    "mostly zero": lambda rng, n: np.where(rng.random(n) < 0.98, 0, rng.normal(20, 0.1, n)),
    "0 and 1": lambda rng, n: rng.random(n) < 0.5,
    "hardly ever 1": lambda rng, n: np.arange(n) == n // 2,
    "0 and 255": lambda rng, n: 255 * (rng.random(n) < 0.01),
    "99 and 100": lambda rng, n: 99 + (rng.random(n) < 0.9),
    "98 and more": lambda rng, n: np.where(np.arange(n) == 5, 99, np.round(rng.normal(100.5, 0.05, n), 1)),
    "three states": lambda rng, n: rng.choice([0, 1, 2], n, p=[0.98, 0.01, 0.01]),
    "constant": lambda rng, n: np.full(n, 3.7),
    "zero": lambda rng, n: np.zeros(n),
    "rounding": lambda rng, n: 0.1 + np.where(np.arange(n) == 7, 1e-12, rng.choice([0, 1e-16, 2e-17], n)),
    "percent": lambda rng, n: np.clip(np.round(rng.normal(90, 10, n)), 0, 100),
    "saturated": lambda rng, n: np.minimum(rng.normal(60000, 4000, n), 65535),
    "shutdown": lambda rng, n: np.where(np.arange(n) < n // 10, 0, rng.normal(50, 3, n)),
    "clock": lambda rng, n: 1.7e9 + 60 * np.arange(n),
}


@pytest.mark.parametrize("draw", CLEAN.values(), ids=CLEAN)
@pytest.mark.parametrize("n", [30, 200, 3000])
def test_no_false_alarms(draw, n):
    rng = np.random.default_rng(n)
    columns = np.column_stack([np.asarray(draw(rng, n), dtype=float) for _ in range(60)])
    ends = Ends(60)
    ends.add(np.arange(n), columns)
    assert ends.alone(n) == []


@pytest.mark.parametrize("name", ["wine", "breast_cancer", "diabetes", "iris", "digits", "linnerud"])
def test_no_false_alarms_on_data_of_scikit_learn(name):
    X = np.asarray(getattr(sklearn.datasets, f"load_{name}")().data, dtype=float)
    assert told(X, names=[str(i) for i in range(X.shape[1])]) == []


def test_no_false_alarms_on_our_own_data():
    wine, plant = load_wine_outliers(), make_plant()
    for X in (wine.X, wine.X[wine.y == 0], plant.normal):
        assert told(np.asarray(X), names=[str(i) for i in range(X.shape[1])]) == []


@pytest.mark.skipif("CULPA_DATA" not in os.environ, reason="the folder of data files is not named by CULPA_DATA")
@pytest.mark.parametrize("name", ["cars04", *ODDS_NAMES])
def test_no_false_alarms_on_public_data(name):
    X = np.asarray((load_cars04() if name == "cars04" else load_odds(name)).X, dtype=float)
    ends = Ends(X.shape[1])
    ends.add(np.arange(len(X)), X)
    assert ends.alone(len(X)) == []


def test_what_means_missing():
    missing = Missing(["-9999.9", "-", "Bad Input", "1e300", "1e-60", "nan"])
    assert [missing.has(cell) for cell in ("-", -9999.9, float(np.float32(-9999.9)), 1e300)] == [True] * 4
    assert not any(missing.has(cell) for cell in ("x", -9999, np.inf, 0.0, None, [1], 10**400))
    assert Missing(["-9,5"], decimal=",").has(-9.5)
    assert all(float(as_typed(number)) == number for number in (1 / 3, -1e300, 5e-324, 2.0**63, 123456789.0))


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "ndjson"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_missing_numbers_in_every_format(tmp_path, kind, dtype):
    X = measured(50)
    X[3, 0] = X[9, 2] = -9999.9
    X[4, 1] = 65535
    source = open_source(write(X, tmp_path / f"t.{kind}", dtype), Options(missing=("-9999.9", "65535.0")), print)
    read = np.concatenate([batch.X for batch in source.batches(NAMES, ["flow"])])
    assert np.argwhere(np.isnan(read)).tolist() == [[3, 0], [4, 1], [9, 2]]
    [carried] = [batch.carried["flow"] for batch in source.batches(NAMES, ["flow"])]
    assert float(carried[4] if kind == "ndjson" else carried[4].as_py()) == 65535  # carried cells stay as they are


def test_texts_and_infinity_in_ndjson_and_parquet(tmp_path):
    lines = tmp_path / "t.ndjson"
    lines.write_text('{"a": "off", "b": 1}\n{"a": 2, "b": 1e999}\n')
    source = open_source(lines, Options(missing=("off", "inf")), pytest.fail)
    assert source.columns()["a"].kind == "number"
    [batch] = source.batches(["a", "b"], [])
    np.testing.assert_array_equal(batch.X, [[np.nan, 1], [2, np.nan]])
    pq.write_table(pa.table({"a": [1.0, np.inf], "b": [1.0, -1e300]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="--missing inf"):
        list(open_source(tmp_path / "t.parquet", Options(), print).batches(["a"], []))
    [batch] = open_source(tmp_path / "t.parquet", Options(missing=("inf", "-1e300")), print).batches(["a", "b"], [])
    np.testing.assert_array_equal(batch.X, [[1, 1], [np.nan, np.nan]])


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "ndjson"])
def test_the_command_tells_and_its_advice_helps(tmp_path, kind):
    X = measured()
    X[[17, 40], 0] = -9999
    dirty = write(X, tmp_path / f"dirty.{kind}")
    result = run("fit", dirty, "-o", tmp_path / "dirty.culpa", "--quiet")
    assert result.stdout == ""
    assert f"Warning: {dirty}: column 'temp' contains -9999 2 times, first in row 17," in result.stderr
    [advice] = re.findall(r"add (--missing \S+)\.", result.stderr)
    options = advice.split()
    result = run("fit", dirty, "-o", tmp_path / "clean.culpa", *options)
    assert "Warning" not in result.stderr
    X[[17, 40], 0] = np.nan
    expected = PCADetector().fit(pd.DataFrame(X, columns=NAMES))
    np.testing.assert_allclose(culpa.load(tmp_path / "clean.culpa").mean_, expected.mean_, rtol=1e-9)


def test_every_command_takes_missing_numbers(tmp_path):
    X = measured(300)
    model, blank = tmp_path / "m.culpa", tmp_path / "blank.csv"
    run("fit", write(X, tmp_path / "normal.csv"), "-o", model)
    new = measured(60, seed=1)
    new[20:23, 2] += 900
    coded = new.copy()
    new[4, 0], coded[4, 0] = np.nan, -9999
    write(new, blank)
    write(coded, tmp_path / "coded.parquet")
    for command in (["score"], ["explain", "--all"], ["incidents"], ["report", "--json"]):
        one = run(*command, blank, "-m", model).stdout.replace("blank.csv", "")
        other = run(*command, tmp_path / "coded.parquet", "-m", model, "--missing", "-9999").stdout
        assert one == other.replace("coded.parquet", "")
        assert one != run(*command, tmp_path / "coded.parquet", "-m", model).stdout.replace("coded.parquet", "")
    X[5, 0] = -9999
    write(X, tmp_path / "coded.csv")
    result = run("calibrate", tmp_path / "coded.csv", "--trials", 100, "-o", tmp_path / "c.culpa")
    assert "Warning: " in result.stderr
    assert "contains -9999 in row 5" in result.stderr
    result = run("calibrate", tmp_path / "coded.csv", "--trials", 100, "-o", model, "-f", "--missing", "-9999")
    assert "Warning" not in result.stderr


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize(
    "command", [["score"], ["explain"], ["explain", "--top", "3"], ["incidents"], ["report", "--json"]]
)
def test_codes_in_rows_to_be_judged_are_told(tmp_path, command, scale):
    model, new = tmp_path / "m.culpa", measured(300, seed=1)
    run("fit", write(measured(), tmp_path / "normal.csv"), "-o", model, *([] if scale else ["--no-scale"]))
    new[[7, 80, 81], 0], new[[7, 9], 3], new[100, 2] = -9999, 65535, 5000.0  # the last is far, but no code
    table = write(new, tmp_path / "new.csv")
    result = run(*command, table, "-m", model)
    warnings = [line for line in result.stderr.splitlines() if line.startswith("Warning")]
    assert len(warnings) == 2
    assert f"{table}: column 'temp' contains -9999 3 times, first in row 7, far from the training rows" in result.stderr
    assert "column 'power' contains 65535 2 times, first in row 7" in result.stderr
    options = [part for advice in re.findall(r"(--missing \S+)\.", result.stderr) for part in advice.split()]
    assert "Warning" not in run(*command, table, "-m", model, *options).stderr


@pytest.mark.parametrize("command", [["score"], ["explain"], ["incidents"], ["report", "--json"]])
def test_codes_are_told_in_rows_that_are_not_flagged(tmp_path, command):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 1)) * [3.0, 2.0, 1.0, 0.0] + 0.1 * rng.normal(size=(500, 4))
    model = tmp_path / "m.culpa"
    run("fit", write(X, tmp_path / "normal.csv"), "-o", model, "--statistic", "t2", "--components", 1, "--no-scale")
    X[7, 3] = -99.0  # t2 looks at the other three
    result = run(*command, write(X, tmp_path / "new.csv"), "-m", model)
    assert "column 'power' contains -99 in row 7, far from" in result.stderr
    if command == ["score"]:
        assert ",false," in result.stdout.splitlines()[8]


def test_codes_within_what_the_model_knows_are_readings(tmp_path):
    X, model = measured(), tmp_path / "m.culpa"
    X[:, 2] = 950 + 60 * np.random.default_rng(3).normal(size=len(X))
    run("fit", write(X, tmp_path / "normal.csv"), "-o", model)
    new = measured(50, seed=1)
    new[:, 2] = 950.0
    new[3, 2], new[5, 1] = 999.0, 40.0
    assert "Warning" not in run("score", write(new, tmp_path / "new.csv"), "-m", model).stderr


def codes_in(X, mean, std, names="abcdefg"):
    codes = Codes(np.array(mean, dtype=float), np.array(std, dtype=float))
    for start in range(0, len(X), 2):  # in pieces
        codes.add(np.arange(10 + start, 10 + start + len(X[start : start + 2])), X[start : start + 2])
    return codes.sentences(names, "t")


def test_what_lies_just_beside_a_column_is_no_code():
    X = np.array([[99.0, 99.9, 999.0, -99.0, 65535.0], [100.0, 99.0, 1000.0, 0.0, 65534.0]])
    assert codes_in(X, [100, 99.995, 1000, -100, 65534], [0, 0.001, 0.02, 0, 0]) == []
    assert len(codes_in(X, [20, 20, 20, 20, 20], [0, 0.001, 0.02, 0, 0])) == 4


def test_a_column_is_told_once_by_its_most_frequent_code():
    X = np.zeros((5, 5))
    X[:, 0] = [-9999, 9999, 999, -999, 9999]
    X[3, 1:4] = 999.9
    first, *others = codes_in(X, [0] * 5, [1] * 5)
    assert first.startswith("t: column 'a' contains 9999 2 times, first in row 11, far from")
    assert [text[:12] for text in others] == ["t: column 'b", "t: column 'c", "t: 1 more co"]
    assert others[0].startswith("t: column 'b' contains 999.9 in row 13, far")


@given(
    st.lists(st.floats(-1e12, 1e12) | st.sampled_from([99.0, -999.9, 65535.0, 99999.0, 2.0**63, -32768.0]), min_size=1)
)
def test_the_quick_look_misses_no_code(numbers):
    told = codes_in(np.array(numbers)[:, None], [0.5], [0.0])
    expected = {number for number in numbers if is_code(number) and abs(number - 0.5) > 0.25}
    assert bool(told) == bool(expected)


def test_partial_fit_warns_as_fit_does():
    X, dirty = measured(), measured(300, 1)
    dirty[[7, 70, 170], 0] = -9999.0
    said = "column 'temp' contains -9999 3 times, first in row 7"
    remedy = r"If it means a missing cell or is a fault, leave out such rows\."
    with pytest.warns(FitWarning, match=f"{said}, .*{remedy}"):
        detector = PCADetector(2).partial_fit(pd.DataFrame(dirty, columns=NAMES))
    detector = PCADetector(2).partial_fit(pd.DataFrame(X, columns=NAMES))
    with pytest.warns(FitWarning, match=f"{said}, far from the training rows. {remedy}"):
        detector.partial_fit(pd.DataFrame(dirty, columns=NAMES))


def test_small_calls_of_partial_fit_do_not_warn_about_normal_cells():
    """Three rows may contain a number that stands alone, but it is close to the earlier rows."""
    X = measured(2000)
    detector = PCADetector(2).partial_fit(X)
    for start in range(0, 60, 3):
        detector.partial_fit(measured(60, 2)[start : start + 3])  # warnings are errors
