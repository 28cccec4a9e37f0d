"""Several files and parts of them by time."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

from culpa.io.tables import Options, TableError, open_table
from culpa.io.tables.selection import select
from culpa.io.tables.several import expand


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
