"""Times as plants write them: recognised where only one reading fits all cells, asked about otherwise."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culpa.columns.row_numbers import is_called_time
from culpa.io.tables import Options, TableError, open_table
from culpa.io.tables.selection import select
from culpa.io.tables.times import TimeFormat, epoch_unit, readings

MOMENT = pd.Timestamp("2024-02-29 23:00:00")


@pytest.mark.parametrize(
    ("cell", "format"),
    [
        ("29.02.2024 23:00", "dmy"),
        ("29.2.24 23:00:00", "dmy"),
        ("02/29/2024 11:00:00 PM", "mdy"),
        ("29/02/2024 23:00", "dmy"),
        ("29-Feb-24 23:00:00", "dmy"),
        ("29-FEB-2024 23:00:00.000", "dmy"),
        ("29 Feb 2024 23:00", "dmy"),
        ("2024-02-29T23:00:00", "iso"),
        ("2024/02/29 23:00", "ymd"),
        ("2024-2-29 23:00", "ymd"),
    ],
)
def test_formats_of_plants(cell, format):
    assert readings([cell]) == [format]
    assert TimeFormat(format).read([cell], "t")[0] == MOMENT


@pytest.mark.parametrize(
    "cells",
    [
        ["north"],
        ["31.02.2024"],
        ["29.02.2023"],
        ["13/13/2024"],
        ["2024-13-01"],
        ["25.12.2024 25:00"],
        ["1.5"],
        [5],
        [None],
        [[1]],
        [{}, "29.02.2024"],
        [],
    ],
)
def test_what_is_no_time(cells):
    assert readings(cells) == []


def test_an_open_order_of_day_and_month():
    assert readings(["02/03/2024", "11/12/2024"]) == ["dmy", "mdy"]
    assert readings(["02/03/2024", "13/12/2024"]) == ["dmy"]
    assert readings(["02/03/2024", "11/13/2024"]) == ["mdy"]
    assert readings(["02/02/2024"]) == ["dmy", "mdy"]  # the same time, but other cells may not be
    assert readings(["13/12/2024", "12/13/2024"]) == []


@given(st.datetimes(dt.datetime(1980, 1, 1), dt.datetime(2068, 1, 1)))
def test_every_moment_is_read_back(moment):
    moment = moment.replace(microsecond=0)
    for pattern, order in (
        ("%d.%m.%Y %H:%M:%S", "dmy"),
        ("%m/%d/%Y %I:%M:%S %p", "mdy"),
        ("%d-%b-%y %H:%M:%S", "dmy"),
        ("%Y/%m/%d %H:%M:%S", "ymd"),
    ):
        text = moment.strftime(pattern)
        assert readings([text])
        assert TimeFormat(order).read([text], "t")[0] == moment


def test_german_months_and_times_that_lose_their_midnight():
    assert TimeFormat("dmy").read(["01-Mrz-24 12:00", "01-Okt-24", "31-Dez-24"], "t").month.tolist() == [3, 10, 12]
    assert TimeFormat("dmy").read(["29.02.2024 23:59", "01.03.2024"], "t")[1] == pd.Timestamp("2024-03-01")


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_numbers_since_1970(unit, factor):
    number = int(MOMENT.timestamp()) * factor
    assert epoch_unit(np.array([number])) == unit
    assert TimeFormat(unit).read([number, number], "t")[1] == MOMENT
    assert TimeFormat(unit).read([str(number)], "t")[0] == MOMENT


def test_fractions_of_seconds_since_1970():
    assert TimeFormat("s").read(["1709247600.25"], "t")[0] == MOMENT + pd.Timedelta("250ms")
    assert epoch_unit(np.array([1.7e9, 1.7e12])) is None
    assert epoch_unit(np.array([np.nan])) is None


def test_a_pattern_for_the_rest():
    assert TimeFormat("%Y%m%d%H%M").read(["202402292300"], "t")[0] == MOMENT
    assert TimeFormat("%Y%m%d%H%M").read([202402292300], "t")[0] == MOMENT
    with pytest.raises(TableError, match="--time-format must be a pattern"):
        TimeFormat("dd.mm.yyyy")
    with pytest.raises(ValueError, match=r"'t' contains 'x' in row 7, which is not a time written as day, month, year"):
        TimeFormat("dmy").read(["01.01.2024", "01.01.2024", "x"], "t", 5)


@pytest.mark.parametrize("name", ["temperature", "estimate", "rate", "dates_ok", "Timer"])
def test_names_that_only_sound_like_times(name):
    assert not is_called_time(name)


def table(tmp_path, text, **options):
    (tmp_path / "t.csv").write_text(text)
    return open_table([str(tmp_path / "t.csv")], Options(**options), print)


def test_the_column_is_found(tmp_path):
    assert table(tmp_path, "a,when,b\n1,29.02.2024 23:00,2\n").time == "when"
    assert table(tmp_path, "a,time,b\n1,1709247600,2\n").time == "time"
    assert table(tmp_path, "a,count,b\n1,1709247600,2\n").time is None  # numbers need a name that says so
    assert table(tmp_path, "a,when,b\n1,29.02.2024 23:00,2\n", time="none").time is None
    with pytest.raises(TableError, match="did you mean 'when'"):
        table(tmp_path, "a,when,b\n1,29.02.2024 23:00,2\n", time="wenn").time  # noqa: B018


def test_an_order_that_only_a_late_row_settles(tmp_path):
    rows = ["02/03/2024 10:00,1,2"] * 30_000
    text = "t,a,b\n" + "\n".join(rows)
    with pytest.raises(TableError, match=r"2024-03-02 10:00:00 \(day, month, year\) or 2024-02-03 10:00:00") as error:
        table(tmp_path, text).time_format  # noqa: B018
    assert "--time-format dmy or --time-format mdy" in str(error.value)
    assert table(tmp_path, text + "\n02/14/2024 10:00,1,2\n").time_format.name == "mdy"
    assert table(tmp_path, text, hints={"time_format": "dmy"}).time_format.name == "dmy"
    assert table(tmp_path, text, time_format="mdy").time_format.name == "mdy"


EQUAL = "t,a,b\n" + "\n".join(["01/01/2024 10:00,1,2", "02/02/2024 10:00,3,4"] * 10_000)  # more than a sample


def test_an_order_that_does_not_matter_is_not_remembered(tmp_path):
    found = table(tmp_path, EQUAL)
    assert found.time == "t"
    assert not found.time_format.settled
    assert found.detected() == {"time": "t"}
    assert found.decisions == [
        "times in column 't', written as days and months, in an order that these rows leave open"
    ]
    times = [time for batch in found.batches(["a"], ["t"]) for time in batch.times()]
    assert times[:2] == [pd.Timestamp("2024-01-01 10:00"), pd.Timestamp("2024-02-02 10:00")]
    assert table(tmp_path, EQUAL, time_format="mdy").detected() == {"time": "t", "time_format": "mdy"}
    assert table(tmp_path, EQUAL, hints={"time_format": "mdy"}).time_format == TimeFormat("mdy")
    assert table(tmp_path, EQUAL + "\n01/13/2024 10:00,1,2\n").time_format == TimeFormat("mdy")
    assert table(tmp_path, EQUAL + "\n13/01/2024 10:00,1,2\n").time_format == TimeFormat("dmy")
    with pytest.raises(TableError, match=r"'01/02/2024 10:00' in column 't' may mean 2024-02-01"):
        table(tmp_path, EQUAL + "\n01/02/2024 10:00,1,2\n").time_format  # noqa: B018
    with pytest.raises(TableError, match=r"neither order of day and month fits all times in column 't'"):
        table(tmp_path, EQUAL + "\n01/13/2024,1,2\n13/01/2024,1,2\n").time_format  # noqa: B018


def test_cells_that_are_no_times_settle_no_order(tmp_path):
    assert not table(tmp_path, EQUAL + "\nBad Input,1,2\n").time_format.settled
    with pytest.raises(TableError, match="may mean"):
        table(tmp_path, EQUAL + "\nend of file,1,2\n01/02/2024,1,2\n").time_format  # noqa: B018


def test_an_open_order_of_a_stream_is_asked_about_when_it_matters():
    open_format = TimeFormat("dmy", settled=False)
    assert open_format.read(["01/01/2024", "02/02/2024"], "t").day.tolist() == [1, 2]
    assert open_format.read(["01/01/2024", "01/13/2024"], "t").month.tolist() == [1, 1]
    with pytest.raises(ValueError, match=r"'01/02/2024' in column 't' may mean .* Choose with --time-format dmy or"):
        open_format.read(["01/01/2024", "01/02/2024"], "t")
    with pytest.raises(ValueError, match="'t' contains 'x' in row 1, which is not a time"):
        open_format.read(["01/01/2024", "x"], "t")


def test_long_tables_remember_no_open_order(tmp_path):
    lines = [f"{day}/{day}/2024,{tag},{day}" for day in (1, 2, 3) for tag in "ab"]
    text = "t,tag,v\n" + "\n".join(lines)
    assert table(tmp_path, text, long=("tag", "t", "v")).detected() == {"time": "t"}
    assert table(tmp_path, text + "\n4/13/2024,a,1\n", long=("tag", "t", "v")).detected()["time_format"] == "mdy"


def test_times_typed_by_a_user(tmp_path):
    assert select("02/02/2024", None, []).start == pd.Timestamp("2024-02-02")
    with pytest.raises(TableError, match="--from must be a time such as"):
        select("02/03/2024", None, [])


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx"])
def test_days_and_times_of_day_in_two_columns(tmp_path, kind):
    times = pd.date_range("2024-02-29 23:58", periods=4, freq="1min")
    frame = pd.DataFrame({"Datum": times.date, "Uhrzeit": times.time, "a": 1.5, "b": 2.5})
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        frame.assign(Datum=times.strftime("%d.%m.%Y")).to_csv(path, index=False, sep=";", decimal=",")
    elif kind == "parquet":
        frame.to_parquet(path)
    else:
        pytest.importorskip("openpyxl")
        frame.to_excel(path, index=False)
    for column in (None, "Datum,Uhrzeit"):
        found = open_table([str(path)], Options(time=column), print)
        assert found.time_columns == ["Datum", "Uhrzeit"]
        (batch,) = found.batches(["a", "b"], ["Datum"])
        assert batch.times().tolist() == times.tolist()
        assert batch.carried["Datum"][3].as_py() in ("01.03.2024 00:01:00", "2024-03-01 00:01:00")
        memory = found.detected()
        assert memory["time"] == "Datum,Uhrzeit"
    again = open_table([str(path)], Options(hints=memory), print)
    assert again.time_columns == ["Datum", "Uhrzeit"]
    alone = open_table([str(path)], Options(time="Datum"), print)
    assert alone.time_columns == ["Datum"]


@pytest.mark.parametrize(
    ("number", "format", "message"),
    [
        (1_700_000_000_000, "s", r"'1700000000000' in row 8, .* seconds since 1970\. If times are milliseconds"),
        (1_700_000_000_000_000_000, "ms", r"in row 8, .* nanoseconds since 1970, use --time-format ns\."),
        (1e18, "s", r"in row 8, which is not between the years 1678 and 2261"),
        (-1e15, "s", r"Correct the cell, or name another format with --time-format"),
    ],
)
def test_numbers_since_1970_that_are_out_of_range(number, format, message):
    for cells in ([5, number], [str(number), str(number)], pd.array([5.5, number])):
        text = message.replace("row 8", "row 7") if isinstance(cells[0], str) else message
        with pytest.raises(ValueError, match=text):
            TimeFormat(format).read(cells, "t", 7)
    assert TimeFormat("s").read([-9.1e9, 9.1e9], "t").year.tolist() == [1681, 2258]


@pytest.mark.parametrize("bad", ["2024-01-01 24:00", "24:00", "A12"])
def test_the_cell_that_is_no_time_is_named(bad):
    cells = ["2024-01-01 21:00", None, "2024-01-01 22:00", bad, "x"]
    with pytest.raises(ValueError, match=rf"'t' contains {bad!r} in row 13, which is not a time\..*--time-format"):
        TimeFormat("iso").read(cells, "t", 10)
    with pytest.raises(ValueError, match="'t' contains '10:x' in row 2, which is not a time"):
        TimeFormat("iso").read(["10:00", "10:01", "10:x"], "t")


def read_times_of(source):
    return [times for batch in source.batches(["a"], ["t"]) if (times := batch.times()) is not None]


def test_several_utc_offsets_are_stated(tmp_path):
    text = "t,a,b\n2024-10-27 02:30+02:00,1,2\n2024-10-27 02:30+01:00,1,2\n"
    source = table(tmp_path, text)
    assert source.time == "t"
    assert source.decisions[-1] == "times with the UTC offsets +01:00 and +02:00 are shown in UTC"
    (times,) = read_times_of(source)
    assert times.astype(str).tolist() == ["2024-10-27 00:30:00+00:00", "2024-10-27 01:30:00+00:00"]
    one = table(tmp_path, text.replace("+01", "+02"))
    assert one.time == "t"
    assert len(one.decisions) == 1
    assert str(read_times_of(one)[0][0]) == "2024-10-27 02:30:00+02:00"


def test_a_utc_offset_that_changes_far_down_is_stated(tmp_path):
    summer, winter = "2024-10-27 02:30+02:00,1,2\n" * 20_000, "2024-10-27 02:30+01:00,1,2\n" * 200_000
    source = table(tmp_path, f"t,a,b\n{summer}{winter}")
    with pytest.warns(
        UserWarning, match=r"t\.csv: the UTC offset of the times in column 't' changes\. .* from row 0 on"
    ):
        assert {str(times.tz) for times in read_times_of(source)} == {"UTC"}
    assert {str(times.tz) for times in read_times_of(source)} == {"UTC"}  # told once
    source = table(tmp_path, f"t,a,b\n{summer * 10}{winter}")
    with pytest.warns(UserWarning, match="from row [1-9]"):
        assert [str(times.tz) for times in read_times_of(source)][::100] == ["UTC+02:00"]


@pytest.mark.parametrize("n", [1, 300_000])
@pytest.mark.parametrize(
    ("first", "then"), [("2024-10-27 02:30", "Z"), ("2024-10-27 02:30Z", ""), ("27.10.2024", " 1:00Z")]
)
def test_times_with_and_without_utc_offsets_are_refused(tmp_path, n, first, then):
    other = first.removesuffix("Z") + then
    source = table(tmp_path, "t,a,b\n" + f"{first},1,2\n" * n + f"{other},1,2\n" * n)
    with pytest.raises(
        TableError, match=r"t\.csv: 't' contains '.*' in row \d+ with.* offset, .* Write all times with"
    ):
        read_times_of(source)
