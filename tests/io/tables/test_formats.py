"""Several files as one table, and tables in other units than those of a model."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from command_line import run

from culpa import PCADetector, load
from culpa.columns.units import conversion, same_unit
from culpa.io.tables import Options, TableError, open_table
from culpa.io.tables.formats import expand
from culpa.io.tables.selection import select


@pytest.fixture
def folder(tmp_path):
    for day in (1, 2, 10):
        times = pd.date_range(f"2024-02-{day:02}", periods=24, freq="1h")
        frame = pd.DataFrame({"time": times, "a": np.arange(24.0) + 100 * day, "b": 1.0})
        frame.to_parquet(tmp_path / f"day{day}.parquet")
    return tmp_path


def read(folder, *names, carried=(), **options):
    table = open_table([str(folder / name) for name in names], Options(**options), print)
    batches = list(table.batches(["a"], carried))
    return table, np.concatenate([batch.X.ravel() for batch in batches]), batches


def test_files_in_the_order_of_their_numbers(folder):
    table, a, batches = read(folder, "day*.parquet")
    assert a.tolist() == [100.0 * day + hour for day in (1, 2, 10) for hour in range(24)]
    assert np.concatenate([batch.rows for batch in batches]).tolist() == list(range(72))
    assert "and 2 more" in table.name
    assert read(folder, "day10.parquet", "day1.parquet")[1][0] == 1000


def test_formats_may_differ(folder):
    pd.read_parquet(folder / "day2.parquet").to_csv(folder / "two.csv", index=False)
    _, a, _ = read(folder, "day1.parquet", "two.csv", since="2024-02-01T23:00", until="2024-02-02T01:00")
    assert a.tolist() == [123, 200]


def test_parts_by_time(folder):
    stops = folder / "stops.csv"
    stops.write_text("begin,end,why\n10.02.2024 04:00,10.02.2024 06:00,cleaning\n")
    chosen = {"since": "2024-02-02", "until": "2024-02-10", "exclude": ("2024-02-02T08:00/2024-02-10T02:00",)}
    table, a, batches = read(folder, "day*.parquet", carried=["time"], **chosen, exclude_file=str(stops))
    hours = [(2, h) for h in range(8)] + [(10, h) for h in range(2, 24) if h not in (4, 5)]
    assert a.tolist() == [100.0 * day + hour for day, hour in hours]
    assert table.left_out == 72 - len(hours)
    times = batches[0].times().append([batch.times() for batch in batches[1:]])
    assert [(time.day, time.hour) for time in times] == hours
    rows = np.concatenate([batch.rows for batch in batches])
    assert rows[0] == 24  # counted in the whole table


@pytest.mark.parametrize("kind", ["csv", "ndjson", "xlsx", "parquet"])
def test_a_day_is_included_as_the_end_of_a_listed_period(folder, kind):
    stops, day = folder / f"stops.{kind}", dt.date(2024, 2, 2)
    frame = pd.DataFrame({"begin": [day], "end": [day]})
    if kind == "parquet":
        frame.to_parquet(stops)
    elif kind == "xlsx":
        frame.to_excel(stops, index=False)
    elif kind == "csv":
        frame.to_csv(stops, index=False)
    else:
        frame.astype(str).to_json(stops, orient="records", lines=True)
    assert len(read(folder, "day*.parquet", exclude_file=str(stops))[1]) == 48


def test_listed_numbers_since_1970_are_in_utc(tmp_path):
    (tmp_path / "stops.csv").write_text("start_time,end_time\n1706745600,1706752800\n")  # two hours from 00:00 UTC on
    times = [f"2024-02-01T{hour:02}:00:00+02:00" for hour in range(8)]
    pd.DataFrame({"time": times, "a": range(8)}).to_csv(tmp_path / "t.csv", index=False)
    assert read(tmp_path, "t.csv", exclude_file=str(tmp_path / "stops.csv"))[1].tolist() == [0, 1, 4, 5, 6, 7]


def test_parts_of_tables_without_features(folder):
    table = open_table([str(folder / "day*.parquet")], Options(exclude=("2024-02-02",)), print)
    batches = list(table.batches([], ["time"]))
    assert [batch.X.shape for batch in batches] == [(24, 0), (24, 0)]


def test_a_day_is_included_as_an_end(folder):
    assert len(read(folder, "day*.parquet", since="2024-02-01", until="2024-02-02")[1]) == 48
    assert len(read(folder, "day*.parquet", until="2024-02-02T00:00")[1]) == 24
    assert len(read(folder, "day*.parquet", exclude=("2024-02-02",))[1]) == 48


def test_times_with_zones(folder):
    frame = pd.read_parquet(folder / "day1.parquet")
    frame.assign(time=frame["time"].dt.tz_localize("Europe/Berlin")).to_parquet(folder / "zone.parquet")
    assert len(read(folder, "zone.parquet", since="2024-02-01T20:00")[1]) == 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("soon", None, []), "--from must be a time"),
        (("2024-02-03", "2024-02-01", []), "is not before --to"),
        ((None, None, ["a/b/c"]), "--exclude must be START/END"),
        ((None, None, ["2024-02-03/2024-02-01"]), "ends before it begins"),
        (("02/03/2024", None, []), "--from must be a time"),
    ],
)
def test_mistakes(given, message):
    with pytest.raises(TableError, match=message):
        select(*given)


def test_what_cannot_be_combined(folder):
    with pytest.raises(TableError, match="no file matches"):
        expand([str(folder / "x*.csv")])
    with pytest.raises(TableError, match="standard input cannot be combined"):
        expand(["-", "a.csv"])
    (folder / "plain.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match="no column of times was found"):
        read(folder, "plain.csv", since="2024-02-01")
    with pytest.raises(TableError, match="needs two columns of times"):
        read(folder, "day*.parquet", exclude_file=str(folder / "plain.csv"))


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_files_with_few_rows_do_not_make_features_of_row_numbers(tmp_path, order):
    frame = pd.DataFrame({"id": range(100), "a": np.random.default_rng(0).normal(size=100)})
    for k, part in enumerate((frame[:0], frame[:95], frame[95:])):
        part.to_csv(tmp_path / f"{k}.csv", index=False)
    table = open_table([str(tmp_path / f"{k}.csv") for k in order], Options(), print)
    assert table.leave_out_row_numbers(["id", "a"]) == ["a"]


UNITS = {"T1": "°C", "T2": "K", "p": "bar", "f": "m3/h"}
SAME = {"T1": "degC", "T2": "K", "p": "bar", "f": "m³/h"}
OTHER = {"T1": "°F", "T2": "degC", "p": "kPa", "f": "m3/h"}


def plant(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, 4)) + 0.2 * rng.normal(size=(n, 4))
    return pd.DataFrame(X * [5, 3, 0.5, 2] + [120, 390, 12, 40], columns=list(UNITS)).round(9)


def write(path, frame, units):
    lines = frame.to_csv(index=False).splitlines()
    path.write_text("\n".join([lines[0], ",".join(units[name] for name in frame), *lines[1:]]) + "\n")


def in_other_units(frame):
    return frame.assign(T1=frame["T1"] * 9 / 5 + 32, T2=frame["T2"] - 273.15, p=frame["p"] * 100)


@pytest.fixture
def plant_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    new = plant(50, 1)
    new.loc[20:22, "T1"] += 40
    write(tmp_path / "normal.csv", plant(), UNITS)
    write(tmp_path / "new.csv", new, UNITS)
    write(tmp_path / "same.csv", new, SAME)
    write(tmp_path / "other.csv", in_other_units(new), OTHER)
    write(tmp_path / "strange.csv", new, UNITS | {"f": "furlong"})
    return tmp_path


def scores(*arguments):
    run("score", *arguments, "-o", "s.csv", "-f", "-q")
    return pd.read_csv("s.csv")["score"]


def test_new_rows_in_other_units(plant_folder):
    run("fit", "normal.csv", "-o", "m.culpa", "-q")
    wanted = scores("new.csv", "-m", "m.culpa")
    np.testing.assert_allclose(scores("same.csv", "-m", "m.culpa"), wanted)
    np.testing.assert_allclose(scores("other.csv", "-m", "m.culpa"), wanted, rtol=1e-6)
    told = run("incidents", "other.csv", "-m", "m.culpa", "--text")
    assert told.stderr.count("is converted from") == 3
    assert "column 'T1' is converted from °F to °C" in told.stderr
    assert told.stdout == run("incidents", "new.csv", "-m", "m.culpa", "--text").stdout
    for command in (["score"], ["incidents"], ["report", "-o", "r.html"], ["explain"]):
        told = run(command[0], "strange.csv", "-m", "m.culpa", *command[1:], code=2).stderr
        assert "column 'f' is in 'furlong', but it was in 'm3/h' before" in told


def test_training_files_in_several_units(plant_folder):
    write(plant_folder / "a.csv", plant()[:150], UNITS)
    write(plant_folder / "b.csv", in_other_units(plant()[150:]), OTHER)
    run("fit", "normal.csv", "-o", "one.culpa", "-q")
    run("fit", "a.csv", "b.csv", "-o", "two.culpa", "-q")
    np.testing.assert_allclose(scores("new.csv", "-m", "two.culpa"), scores("new.csv", "-m", "one.culpa"), rtol=1e-6)
    assert "'f' is in 'furlong'" in run("fit", "a.csv", "strange.csv", "-o", "x.culpa", code=2).stderr
    run("fit", "a.csv", "strange.csv", "-o", "x.culpa", "--drop", "f", "-q")


def test_a_unit_that_the_user_corrected(plant_folder):
    run("fit", "normal.csv", "-o", "m.culpa", "--unit", "T1=°F", "-q")  # the row of units is wrong
    assert load("m.culpa").units_["T1"] == "°F"
    told = run("score", "new.csv", "-m", "m.culpa", "-o", "s.csv").stderr
    assert "converted" not in told


@pytest.mark.parametrize("seed", range(30))
def test_there_and_back(seed):
    rng = np.random.default_rng(seed)
    groups = [
        ["°C", "°F", "K", "mK"],
        ["Pa", "mbar", "psi", "atm", "kPa"],
        ["m", "ft", "mm", "km"],
        ["g", "kg", "lb", "t"],
    ]
    units = groups[seed % len(groups)]
    for _ in range(20):
        a, b, c = rng.choice(units, 3)
        (f, s), (g, t), (h, u) = conversion(a, b), conversion(b, c), conversion(a, c)
        x = rng.normal()
        np.testing.assert_allclose((x * f + s) * g + t, x * h + u, rtol=1e-9, atol=1e-9 * max(1, abs(u), abs(s * g)))
    assert conversion(units[0], groups[(seed + 1) % len(groups)][0]) is None
    assert not same_unit("mm", "Mm")


def test_columns_of_nothing_are_missing_cells():
    pl = pytest.importorskip("polars")
    frame = plant()
    detector = PCADetector().fit(frame)
    few = frame[:5].assign(p=np.nan)
    wanted = detector.score_samples(few)
    for other in (
        pl.DataFrame({name: [None] * 5 if name == "p" else few[name].tolist() for name in few}),
        few.assign(p=[None] * 5),
        few.assign(p=pd.Series([None] * 5, dtype="str")),
    ):
        np.testing.assert_allclose(detector.score_samples(other), wanted)


def test_null_in_the_first_line_of_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = plant().assign(time=pd.date_range("2024-01-01", periods=300, freq="min").astype(str), site="north")
    frame.loc[0, ["time", "site"]] = None
    frame = frame.astype({"p": object})
    frame.loc[:2, "p"] = None
    frame.loc[0, "time"] = "2023-12-31 23:00:00"
    frame.to_json("t.ndjson", orient="records", lines=True)
    told = run("fit", "t.ndjson", "-o", "m.culpa", code=2).stderr
    assert "column 'site' contains text" in told
    assert "300 rows, 4 features" in run("fit", "t.ndjson", "-o", "m.culpa", "--drop", "site").stderr


def test_values_of_long_tables_are_not_converted(tmp_path):
    times = pd.date_range("2024-01-01", periods=300, freq="1min", name="time")
    frame = plant().set_index(times).reset_index().melt("time", var_name="tag")
    for name, unit, part in (("a", "bar", frame[::2]), ("b", "bar", frame[1::2]), ("c", "mbar", frame[1::2])):
        text = part.to_csv(index=False, columns=["tag", "time", "value"])
        (tmp_path / f"{name}.csv").write_text(text.replace("value\n", f"value\n,,{unit}\n", 1))
    a, b, c, model = (tmp_path / name for name in ("a.csv", "b.csv", "c.csv", "m.culpa"))
    options = "--long", "tag,time,value", "--force", "-o"
    assert "'value' is in 'mbar', but it was in 'bar'" in run("fit", a, c, *options, model, code=2).stderr
    run("fit", a, b, *options, model)
    run("score", b, "-m", model)
    assert "'value' is in 'mbar', but it was in 'bar'" in run("score", c, "-m", model, code=2).stderr
