"""Rows are chosen on the clocks of the table: days are local days, whatever the zone and however times are written."""

import datetime as dt
from dataclasses import replace
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from culpa.io.tables import Options, TableError, open_table

ZONES = [
    *("Europe/Berlin", "America/New_York", "America/St_Johns", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Beirut"),
    *("America/Havana", "Australia/Lord_Howe", "Pacific/Auckland", "UTC"),
]


def write(path, local, kind):
    frame = pd.DataFrame({"t": local, "a": np.arange(len(local), dtype=float), "b": 0.0})
    if kind == "typed":
        frame.to_parquet(path / "t.parquet")
        return str(path / "t.parquet"), Options()
    if kind == "long":
        frame = frame.melt(id_vars="t", var_name="tag").sort_values("t", kind="stable")
    style = "%d.%m.%Y %H:%M:%S %z" if kind == "dmy" else "%Y-%m-%dT%H:%M:%S%z"
    frame.assign(t=[time.strftime(style) for time in frame["t"]]).to_csv(path / "t.csv", index=False)
    options = {"long": {"long": ("tag", "t", "value"), "every": "30min"}, "pattern": {"time_format": style}}
    return str(path / "t.csv"), Options(**options.get(kind, {}))


def kept(path, options, since, until, exclude):
    options = replace(options, since=since, until=until, exclude=tuple(exclude))
    table = open_table([path], options, print)
    return [int(value) for batch in table.batches(["a", "b"], []) for value in batch.X[:, 0]]


@pytest.mark.filterwarnings("ignore:.*the UTC offset of the times")
@pytest.mark.parametrize("kind", ["iso", "dmy", "typed", "long"])
@pytest.mark.parametrize("zone", ZONES)
def test_days_are_local_days(tmp_path, monkeypatch, zone, kind):
    rng = np.random.default_rng(ZONES.index(zone))
    monkeypatch.setattr("culpa.io.tables.csv_cells._BLOCK", int(rng.integers(500, 20_000)))
    year = int(rng.integers(2021, 2024))
    starts = [f"{year}-03-08", f"{year}-09-20", f"{year}-10-20"]
    moments = pd.DatetimeIndex([]).tz_localize("UTC")
    for start in starts:
        moments = moments.append(pd.date_range(start, periods=20 * 48, freq="30min", tz="UTC"))
    path, options = write(tmp_path, moments.tz_convert(zone), kind)
    days = [moment.to_pydatetime().astimezone(ZoneInfo(zone)).date() for moment in moments]
    since, until, *out = (
        days[i] for i in np.sort(rng.integers(0, len(days), 2)).tolist() + rng.integers(0, len(days), 3).tolist()
    )
    wanted = [row for row, day in enumerate(days) if since <= day <= until and day not in out]
    assert kept(path, options, str(since), str(until), [str(day) for day in out]) == wanted
    first, last = sorted((out[0], out[1]))
    wanted = [row for row, day in enumerate(days) if not first <= day <= last]
    assert kept(path, options, None, None, [f"{first}/{last}"]) == wanted


@pytest.mark.parametrize("kind", ["iso", "typed", "pattern"])
def test_a_moment_with_an_offset_is_the_same_everywhere(tmp_path, kind):
    zone = "Asia/Kathmandu" if kind == "pattern" else "America/New_York"  # a pattern takes one offset
    moments = pd.date_range("2024-11-01", periods=400, freq="30min", tz="UTC")
    path, options = write(tmp_path, moments.tz_convert(zone), kind)
    since = pd.Timestamp("2024-11-03T05:30:00Z")
    wanted = np.flatnonzero(moments >= since).tolist()
    for told in ("2024-11-03T05:30Z", "2024-11-03T11:00+05:30", "2024-11-03T00:30-05:00"):
        assert kept(path, options, told, None, []) == wanted
    first = moments[0].tz_convert(zone).tz_localize(None)
    assert kept(path, options, f"{first + pd.Timedelta('90min')}", None, [])[0] == 3


def test_an_offset_needs_times_with_offsets(tmp_path):
    local = pd.date_range("2024-11-01", periods=100, freq="30min")
    path, options = write(tmp_path, local, "iso")
    for chosen in (("2024-11-01T05:30+01:00", None, []), (None, None, ["2024-11-01T05:30Z/2024-11-01T07:30Z"])):
        with pytest.raises(TableError, match=r"t\.csv: the times have no UTC offset"):
            kept(path, options, *chosen)
    seconds = pd.DataFrame({"time": local.as_unit("s").asi8, "a": np.arange(100.0), "b": 0.0})  # which are in UTC
    seconds.to_csv(tmp_path / "s.csv", index=False)
    assert kept(str(tmp_path / "s.csv"), Options(), "2024-11-01T05:30+01:00", None, [])[0] == 9
    assert kept(str(tmp_path / "s.csv"), Options(), "2024-11-01T05:30", None, [])[0] == 11


def test_from_and_to_may_differ_in_their_offsets(tmp_path):
    moments = pd.date_range("2024-11-01", periods=100, freq="30min", tz="UTC").tz_convert("Asia/Kolkata")
    path, options = write(tmp_path, moments, "iso")
    assert kept(path, options, "2024-11-01", "2024-11-01T05:00Z", []) == list(range(10))


@pytest.mark.filterwarnings("ignore:.*the UTC offset of the times")
@pytest.mark.parametrize("kind", ["iso", "typed"])
@pytest.mark.parametrize("block", [700, 1 << 22])
def test_a_moment_that_comes_twice_is_asked_about(tmp_path, monkeypatch, kind, block):
    monkeypatch.setattr("culpa.io.tables.csv_cells._BLOCK", block)
    monkeypatch.setattr("culpa.io.tables.columnar.ROWS", 7)
    moments = pd.date_range("2024-10-26", periods=200, freq="10min", tz="UTC")
    path, options = write(tmp_path, moments.tz_convert("Europe/Berlin"), kind)
    for chosen in (
        ("2024-10-27T02:30", None, []),
        (None, "2024-10-27T02:30", []),
        (None, None, ["2024-10-27T02:30/2024-10-28"]),
    ):
        with pytest.raises(TableError, match=r"2024-10-27 02:30:00 comes twice"):
            kept(path, options, *chosen)
    wanted = np.flatnonzero(moments >= pd.Timestamp("2024-10-27T01:30Z")).tolist()
    assert kept(path, options, "2024-10-27T02:30+01:00", None, []) == wanted
    clocks = [moment.to_pydatetime().astimezone(ZoneInfo("Europe/Berlin")).replace(tzinfo=None) for moment in moments]
    wanted = [row for row, clock in enumerate(clocks) if clock >= dt.datetime(2024, 10, 27, 3)]
    assert kept(path, options, "2024-10-27T03:00", None, []) == wanted
