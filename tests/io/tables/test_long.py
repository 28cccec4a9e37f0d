"""Long tables of historians become wide ones: the same means as pandas, whatever the order and the portions."""

import warnings

import numpy as np
import pandas as pd
import pytest

from culpa.io.tables import Options, TableError, open_table

ROLES = ("tag", "time", "value", "quality")


def long_frame(n=3000, tags=("A", "B", "C"), seed=0):
    rng = np.random.default_rng(seed)
    seconds = np.sort(rng.integers(0, 7200, n))
    frame = pd.DataFrame(
        {
            "tag": rng.choice(tags, n),
            "time": pd.Timestamp("2024-02-29 22:30") + pd.to_timedelta(seconds, unit="s"),
            "value": rng.normal(size=n).round(6),
            "quality": np.where(rng.random(n) < 0.1, "Bad", "Good"),
        }
    )
    return frame


def expected(frame, every):
    good = frame[frame["quality"] == "Good"].assign(value=lambda f: pd.to_numeric(f["value"], errors="coerce")).dropna()
    wide = good.assign(time=good["time"].dt.floor(every)).pivot_table(index="time", columns="tag", values="value")
    return wide.sort_index()


def read(paths, tags, **options):
    paths = paths if isinstance(paths, list) else [paths]
    options = {"long": ROLES, "every": "1min"} | options
    table = open_table([str(path) for path in paths], Options(**options), print)
    batches = list(table.batches(tags, ["time"]))
    index = batches[0].times().append([batch.times() for batch in batches[1:]])
    assert np.concatenate([batch.rows for batch in batches]).tolist() == list(range(len(index)))
    return table, pd.DataFrame(np.concatenate([batch.X for batch in batches]), index=index, columns=tags)


@pytest.mark.parametrize("order", ["time", "tag", "mixed"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "german"])
def test_means_of_intervals(tmp_path, order, kind, monkeypatch):
    monkeypatch.setattr("culpa.io.tables.csv_cells._BLOCK", 5000)
    monkeypatch.setattr("culpa.io.tables.columnar.ROWS", 333)
    frame = long_frame()
    if order == "tag":
        frame = frame.sort_values(["tag", "time"])
    elif order == "mixed":  # late by less than some intervals
        frame = frame.iloc[np.argsort(np.arange(len(frame)) + np.random.default_rng(1).integers(0, 30, len(frame)))]
    path = tmp_path / ("t.parquet" if kind == "parquet" else "t.csv")
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind == "csv":
        frame.to_csv(path, index=False)
    else:
        written = frame.assign(time=frame["time"].dt.strftime("%d.%m.%Y %H:%M:%S"))
        written.to_csv(path, index=False, sep=";", decimal=",")
    table, found = read(path, ["C", "A"])
    pd.testing.assert_frame_equal(
        found,
        expected(frame, "1min")[["C", "A"]].dropna(how="all"),
        check_names=False,
        check_index_type=False,
        check_freq=False,
    )
    assert set(table.columns()) == {"time", "A", "B", "C"}
    assert table.missing_found["quality Bad"] == ((frame["quality"] == "Bad") & (frame["tag"] != "B")).sum()
    assert any("in memory" in text for text in table.decisions) == (order == "tag")


def test_texts_of_historians(tmp_path):
    frame = long_frame(400).astype({"value": object})
    frame.loc[::7, "value"] = "Bad Input"
    frame.loc[::11, "value"] = "I/O Timeout"
    valve = pd.DataFrame({"tag": "valve", "time": frame["time"][:50], "value": "OPEN", "quality": "Good"})
    whole = pd.concat([frame, valve]).sort_values("time", kind="stable")
    whole.to_csv(tmp_path / "t.csv", index=False)
    table, found = read(tmp_path / "t.csv", ["A", "B", "C"])
    pd.testing.assert_frame_equal(
        found, expected(frame, "1min"), check_names=False, check_index_type=False, check_freq=False
    )
    assert table.missing_found["Bad Input"] == (frame["value"] == "Bad Input").sum()
    assert "valve" not in table.columns()  # it has no numbers
    with pytest.raises(
        TableError, match=r"tag 'valve' contains 'OPEN' in row \d+, which is not a number.*--missing OPEN"
    ):
        read(tmp_path / "t.csv", ["A", "valve"])


def test_one_row_per_time(tmp_path):
    (tmp_path / "t.csv").write_text("n,at,x\nA,29-Feb-24 23:00:00,1\nB,29-Feb-24 23:00:00,2\nA,29-Feb-24 23:00:05,3\n")
    _, found = read_short(tmp_path / "t.csv", ["A", "B"])
    np.testing.assert_array_equal(found, [[1, 2], [3, np.nan]])


def read_short(path, tags, **options):
    table = open_table([str(path)], Options(long=("n", "at", "x"), **options), print)
    return table, np.concatenate([batch.X for batch in table.batches(tags, [])])


def test_readings_that_stay_valid(tmp_path):
    times = ["23:00:00", "23:01:00", "23:02:00", "23:05:00"]
    lines = [f"A,2024-02-29 {time},{i}" for i, time in enumerate(times)]
    (tmp_path / "t.csv").write_text("n,at,x\nB,2024-02-29 23:00:00,7\n" + "\n".join(lines) + "\n")
    _, found = read_short(tmp_path / "t.csv", ["A", "B"], every="1min", hold="2min")
    np.testing.assert_array_equal(found, [[0, 7], [1, 7], [2, 7], [2, np.nan], [2, np.nan], [3, np.nan]])


def test_the_last_reading_is_held_and_not_the_mean_of_its_interval(tmp_path):
    lines = [
        "A,2024-02-29 10:00:10,10",
        "A,2024-02-29 10:00:50,20",
        "B,2024-02-29 10:00:55,1",
        "B,2024-02-29 10:04:05,2",
    ]
    (tmp_path / "t.csv").write_text("n,at,x\n" + "\n".join(lines) + "\n")
    _, found = read_short(tmp_path / "t.csv", ["A", "B"], every="1min", hold="1h")
    np.testing.assert_array_equal(found, [[15, 1], [20, 1], [20, 1], [20, 1], [20, 2]])
    _, found = read_short(tmp_path / "t.csv", ["A", "B"], every="1min", hold="2min")
    np.testing.assert_array_equal(found, [[15, 1], [20, 1], [20, 1], [np.nan, 2]])  # nothing is held at 10:03


@pytest.mark.parametrize("bad", ["99,Bad", "Bad Input,Good", ",Good"])
def test_a_bad_reading_ends_the_hold(tmp_path, bad):
    lines = ["A,2024-02-29 10:00,7,Good", f"A,2024-02-29 10:02,{bad}", "A,2024-02-29 10:04,8,Good"]
    lines = [lines[min(i // 2, 2)] if i % 2 == 0 and i < 5 else "" for i in range(5)]
    b = [f"B,2024-02-29 10:0{i},{i},Good" for i in range(6)]
    (tmp_path / "t.csv").write_text(
        "tag,time,value,quality\n"
        + "\n".join(line for pair in zip([*lines, ""], b, strict=True) for line in pair if line)
        + "\n"
    )
    for every in ("1min", None):
        _, found = read(tmp_path / "t.csv", ["A", "B"], every=every, hold="1h")
        np.testing.assert_array_equal(found["A"], [7, 7, np.nan, np.nan, 8, 8])


def resampled(frame, tags, every, hold, zone):
    """One row per interval in which a tag has a value, reading by reading."""
    frame = frame.assign(good=frame["value"].notna() & (frame["quality"] == "Good")).sort_values("time", kind="stable")
    clocks = frame["time"].dt.tz_localize(None) if zone else frame["time"]
    starts = clocks.dt.floor(every)
    rows = {}
    for start in pd.date_range(starts.min(), starts.max(), freq=every):
        row = []
        for tag in tags:
            mine = frame[frame["tag"] == tag]
            here, before = mine[starts[mine.index] == start], mine[starts[mine.index] < start]
            value = np.nan
            if here["good"].any():
                value = here["value"][here["good"]].mean()
            elif not len(here) and len(before) and before["good"].iloc[-1]:
                age = start - clocks[before.index[-1]]
                value = before["value"].iloc[-1] if age <= pd.Timedelta(hold) else np.nan
            row.append(value)
        if not np.isnan(row).all():
            rows[start] = row
    return pd.DataFrame.from_dict(rows, orient="index", columns=tags)


@pytest.mark.parametrize("seed", range(24))
def test_intervals_and_held_readings_are_those_of_a_loop(tmp_path, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    monkeypatch.setattr("culpa.io.tables.csv_cells._BLOCK", int(rng.integers(200, 3000)))
    monkeypatch.setattr("culpa.io.tables.long._ROWS", int(rng.integers(2, 40)))
    n, every = 80, str(rng.choice(["1min", "15min", "1h", "6h", "1D"]))
    hold = pd.Timedelta(every) * float(rng.choice([0.5, 1.0, 2.5, 20.0]))
    zone = [None, "+05:30", "+05:45", "-03:30"][rng.integers(4)]
    span = int(pd.Timedelta(every).total_seconds() * rng.integers(3, 60))
    times = pd.Timestamp("2024-03-01") + pd.to_timedelta(np.sort(rng.integers(0, span, n)), unit="s")
    frame = pd.DataFrame(
        {
            "tag": rng.choice(["A", "B"], n),
            "time": times
            if zone is None
            else times.tz_localize("UTC").tz_convert(pd.Timestamp(f"2024-03-01T00:00{zone}").tz),
            "value": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n).round(6)),
            "quality": np.where(rng.random(n) < 0.15, "Bad", "Good"),
        }
    )
    frame = frame.sort_values(["tag", "time"]) if rng.random() < 0.3 else frame
    frame = frame.reset_index(drop=True)
    frame.assign(time=frame["time"].map(lambda time: time.isoformat())).to_csv(tmp_path / "t.csv", index=False)
    _, found = read(tmp_path / "t.csv", ["A", "B"], every=every, hold=f"{hold.total_seconds():.0f}s")
    wanted = resampled(frame, ["A", "B"], every, hold, zone)
    np.testing.assert_allclose(found, wanted)
    assert found.index.tz_localize(None).tolist() == wanted.index.tolist()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Beirut", "America/St_Johns", "Australia/Lord_Howe"])
@pytest.mark.parametrize("every", ["1D", "12h", "1h", "15min"])
def test_intervals_are_those_of_local_clocks(tmp_path, kind, zone, every):
    """Days may have 23 or 25 hours; an hour that comes twice is two intervals of an hour."""
    moments = pd.date_range("2023-10-01", "2023-11-10", freq="15min", tz="UTC").append(
        pd.date_range("2024-03-01", "2024-04-10", freq="15min", tz="UTC")
    )
    local = moments.tz_convert(zone)
    values = np.arange(len(moments), dtype=float)
    frame = pd.DataFrame({"tag": np.tile(["A", "B"], len(moments)), "time": local.repeat(2), "value": values.repeat(2)})
    if kind == "csv":
        frame["time"] = frame["time"].map(lambda time: time.isoformat())
        frame.to_csv(tmp_path / "t.csv", index=False)
    else:
        frame.to_parquet(tmp_path / "t.parquet")
    options = Options(long=("tag", "time", "value"), every=every)
    table = open_table([str(tmp_path / f"t.{kind}")], options, print)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the offset changes
        batches = list(table.inner.batches(["A"], ["time"]))
    clocks = local.tz_localize(None).floor(every)
    keys = clocks if pd.Timedelta(every) > pd.Timedelta("1h") else moments - (local.tz_localize(None) - clocks)
    wanted = pd.Series(values).groupby(keys).mean()
    np.testing.assert_allclose(np.concatenate([batch.X[:, 0] for batch in batches]), wanted)
    if keys.tz is None:
        labels = np.concatenate([batch.clocks for batch in batches])
    else:
        labels = np.concatenate([batch.carried["time"].to_numpy(zero_copy_only=False) for batch in batches])
    np.testing.assert_array_equal(labels, wanted.index.tz_localize(None) if keys.tz else wanted.index)


def test_a_file_per_tag(tmp_path):
    frame = long_frame()
    for tag, part in frame.groupby("tag"):
        part.to_csv(tmp_path / f"{tag}.csv", index=False)
    _, found = read([tmp_path / f"{tag}.csv" for tag in "ABC"], ["A", "B", "C"])
    pd.testing.assert_frame_equal(
        found, expected(frame, "1min"), check_names=False, check_index_type=False, check_freq=False
    )


def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    """Lines in the order of time leave intervals behind; only the last ones are kept."""
    from culpa.io.tables import long

    monkeypatch.setattr("culpa.io.tables.csv_cells._BLOCK", 20_000)
    sizes = []
    add = long._Grid.add
    monkeypatch.setattr(
        long._Grid, "add", lambda grid, *given: (add(grid, *given), sizes.append(len(grid.open.keys)))[0]
    )
    frame = long_frame(60_000)
    frame.to_csv(tmp_path / "t.csv", index=False)
    _, found = read(tmp_path / "t.csv", ["A", "B", "C"], every="1s")
    assert len(found) > 5000
    assert max(sizes) < 500


def test_times_that_go_far_back(tmp_path, monkeypatch):
    monkeypatch.setattr("culpa.io.tables.csv_cells._BLOCK", 5000)
    frame = long_frame(20_000)
    pd.concat([frame, frame[:5]]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(TableError, match="go far back in time"):
        read(tmp_path / "t.csv", ["A"])


@pytest.mark.parametrize(("good", "bad"), [("192", "0"), ("0", "2147483648"), ("Good (local override)", "Uncertain")])
def test_qualities_of_systems(tmp_path, good, bad):
    (tmp_path / "t.csv").write_text(
        f"tag,time,value,quality\nA,2024-01-01 00:00:00,1,{good}\nB,2024-01-01 00:00:01,5,{good}\n"
        f"A,2024-01-01 00:00:02,9,{bad}\n"
    )
    _, found = read(tmp_path / "t.csv", ["A", "B"])
    assert found.to_numpy().tolist() == [[1, 5]]


def test_qualities_that_must_be_asked_about(tmp_path):
    (tmp_path / "t.csv").write_text("tag,time,value,quality\nA,2024-01-01,1,0\nB,2024-01-01,2,0\n")
    with pytest.raises(TableError, match=r"holds the qualities 0\. Which of them are good\?.*--good 0"):
        read(tmp_path / "t.csv", ["A"])
    assert read(tmp_path / "t.csv", ["A", "B"], good=("0",))[1].to_numpy().tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"long": ("tag", "time")}, "--long needs the columns"),
        ({"long": ("tga", "time", "value")}, "did you mean 'tag'"),
        ({"every": "5"}, "--every must be a time span"),
        ({"every": "-1min"}, "--every must be a time span"),
        ({"hold": "long"}, "--hold must be a time span"),
    ],
)
def test_mistakes(tmp_path, options, message):
    long_frame(20).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(TableError, match=message):
        read(tmp_path / "t.csv", ["A"], **options)


def test_tags_that_are_not_there(tmp_path):
    long_frame(200).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(TableError, match="no column 'D'"):
        read(tmp_path / "t.csv", ["A", "D"])


def test_an_unclear_mark_far_down_is_asked_about(tmp_path):
    path = tmp_path / "long.csv"
    lines = [f"{tag};2024-01-01 {i // 60:02d}:{i % 60:02d};{i}" for i in range(1400) for tag in "ab"]
    path.write_text("tag;time;value\n" + "\n".join([*lines * 20, "a;2024-01-02 00:00;1.234"]) + "\n")
    table = open_table([str(path)], Options(long=("tag", "time", "value")), print)
    with pytest.raises(TableError, match=r"column 'value', row 56000: '1\.234' may mean 1\.234 or 1234"):
        list(table.batches(["a", "b"], []))


@pytest.mark.parametrize("text", ["7,5", "1.234,5"])
def test_numbers_of_a_sheet_beside_texts_with_decimal_commas(tmp_path, text):
    """Cells that are numbers mean what they are, however the texts among them are written."""
    pytest.importorskip("openpyxl")
    times = pd.date_range("2024-03-01", periods=5, freq="min")
    cells = [
        (tag, time, value) for k, time in enumerate(times) for tag, value in (("A", 1.234 + k), ("B", k), ("C", text))
    ]
    frame = pd.DataFrame(
        {name: list(column) for name, column in zip(ROLES, zip(*cells, strict=True), strict=False)}, dtype=object
    )
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    for options in ({}, {"decimal": ",", "thousands": "."}):
        table, found = read(tmp_path / "t.xlsx", ["A", "B", "C"], long=ROLES[:3], **options)
        assert list(table.columns()) == ["time", "A", "B", "C"]
        number = float(text.replace(".", "").replace(",", "."))
        np.testing.assert_array_equal(found, [[1.234 + k, k, number] for k in range(5)])


@pytest.mark.parametrize("first", [0, 1])
def test_files_may_write_numbers_in_different_ways(tmp_path, first):
    """Texts among the numbers of a sheet, beside a file with decimal commas and points that group thousands."""
    pytest.importorskip("openpyxl")
    times = pd.date_range("2024-03-01", periods=6, freq="min")
    sheet = [(tag, times[k], "Bad" if k == 1 else k + 1.234) for k in range(3) for tag in "AB"]
    pd.DataFrame(sheet, columns=list(ROLES[:3])).astype({"value": object}).to_excel(tmp_path / "a.xlsx", index=False)
    lines = [f"{tag};{times[k]};1.00{k},5" for k in range(3, 6) for tag in "AB"]
    (tmp_path / "b.csv").write_text("\n".join(["tag;time;value", *lines]))
    paths = [tmp_path / "a.xlsx", tmp_path / "b.csv"]
    table, found = read(paths[first:] + paths[:first], ["A", "B"], long=ROLES[:3])
    assert list(table.columns()) == ["time", "A", "B"]
    expected = [[k + 1.234] * 2 if k < 3 else [1000.5 + k] * 2 for k in (0, 2, 3, 4, 5)]
    np.testing.assert_array_equal(found.sort_index(), expected)
