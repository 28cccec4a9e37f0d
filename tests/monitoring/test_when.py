"""Sentences write times with the digits that they have, and say which of two equal clocks they mean."""

import datetime as dt
import re
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest

from culpa import PCADetector
from culpa.monitoring.when import Clock
from culpa.plots.content.rows import RowAxis
from culpa.plots.text import row_label
from culpa.report.phrases import Labels, place


@pytest.mark.parametrize("seed", range(5))
def test_numbers_keep_their_digits(seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        time = round(float(rng.uniform(0, 10 ** rng.integers(1, 10))), int(rng.integers(0, 6)))
        assert float(Clock("time").until(time, [time]).removeprefix("time ")) == time
        since_1970 = 1709634000 + int(rng.integers(10**6)) / 10**6
        assert Clock("time").until(since_1970, [since_1970]) == f"time {since_1970!r}".removesuffix(".0")
    assert Clock("time").span(45356.125, 45356.25) == "From time 45356.125 to 45356.25"
    assert (
        Clock("time").span(1709634000000001.0, 1709634000000003.0) == "From time 1709634000000001 to 1709634000000003"
    )


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_keep_their_digits(unit):
    rng = np.random.default_rng(len(unit))
    start = np.datetime64("2024-03-05T10:00", "ns")
    steps = np.sort(rng.choice(10**6, 50, replace=False)).astype(f"timedelta64[{unit}]")
    times = start + steps
    for time in times:
        told = Clock("time", dated=True).at(pd.Timestamp(time), [], first=True)
        assert pd.Timestamp(told.removeprefix("on ").replace(" at ", " ")) == time
        assert np.datetime64(row_label(time)) == time
    axis = RowAxis.of(times)
    assert (np.array([place(x) for x in axis.x], dtype="datetime64[ns]") == times).all()
    labels = Labels(axis)
    assert len({labels.text(row) for row in range(len(times))}) == len(times)
    assert [np.datetime64(text) for text in labels.places(np.arange(50))] == list(times)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Beirut", "Australia/Lord_Howe"])
def test_clocks_that_come_twice_name_their_zone(zone):
    moments = pd.date_range("2023-01-01", "2023-12-31", freq="1h", tz="UTC")
    for moment in moments:
        local = moment.to_pydatetime().astimezone(ZoneInfo(zone))
        other = local.replace(fold=1 - local.fold).utcoffset()
        there = local.replace(tzinfo=ZoneInfo(zone), fold=0).astimezone(dt.UTC).astimezone(ZoneInfo(zone))
        twice = other != local.utcoffset() and there.replace(tzinfo=None) == local.replace(tzinfo=None)
        told = Clock("time").at(moment.tz_convert(zone), [])
        assert (re.fullmatch(r"at \d\d:\d\d", told) is None) == twice


def test_labels_of_clocks_that_come_twice_differ():
    """In the report's tables and in pictures, as in sentences."""
    times = pd.date_range("2024-10-26 22:00", periods=60, freq="5min", tz="UTC").tz_convert("Europe/Berlin")
    for given in (times, times.to_numpy(dtype=object)):
        labels = Labels(RowAxis.of(given))
        texts = [labels.text(row) for row in range(60)]
        assert len(set(texts)) == 60
        assert texts[23:25] == ["2024-10-27 01:55", "2024-10-27 02:00 CEST"]
        assert texts[36:38] == ["2024-10-27 02:00 CET", "2024-10-27 02:05 CET"]
        assert texts[-1] == "2024-10-27 03:55"
        assert [row_label(time, daily=False) for time in times] == texts
    plain = Labels(RowAxis.of(times.tz_convert("UTC")))
    assert plain.text(24) == "2024-10-27 00:00"


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pl.Series], ids=["list", "array", "pandas", "polars"])
def test_times_whose_offset_changes_say_that_they_are_in_utc(kind):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3))
    detector = PCADetector(1).fit(rng.normal(size=(300, 3)))
    rows[30:33] += 20
    times = pd.date_range("2024-10-26 22:00", periods=60, freq="5min", tz="UTC")
    local = [time.isoformat() for time in times.tz_convert("Europe/Berlin")]
    found = detector.incidents(rows, time=kind(local))[0]
    assert "00:30 UTC" in found.sentence
    assert found.start == times[30]
    page = detector.report(rows, time=kind(local)).to_dict()
    assert page["incidents"][0]["start"] == "2024-10-27 00:30 UTC"
    constant = [time.isoformat() for time in times]
    assert "UTC" not in detector.incidents(rows, time=kind(constant))[0].sentence
