"""Long tables of historians become wide ones: the same means as pandas, whatever the order and the portions."""

import numpy as np
import pandas as pd
import pytest

from culpa.io.tables import Options, Selection, TableError, open_table

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
    table = open_table([str(path) for path in paths], Options(**options), Selection(), print)
    batches = list(table.batches(tags, ["time"]))
    index = batches[0].times().append([batch.times() for batch in batches[1:]])
    assert np.concatenate([batch.rows for batch in batches]).tolist() == list(range(len(index)))
    return table, pd.DataFrame(np.concatenate([batch.X for batch in batches]), index=index, columns=tags)


@pytest.mark.parametrize("order", ["time", "tag", "mixed"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "german"])
def test_means_of_intervals(tmp_path, order, kind, monkeypatch):
    monkeypatch.setattr("culpa.io.tables.csv_table._BLOCK", 5000)
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
    table = open_table([str(path)], Options(long=("n", "at", "x"), **options), Selection(), print)
    return table, np.concatenate([batch.X for batch in table.batches(tags, [])])


def test_readings_that_stay_valid(tmp_path):
    times = ["23:00:00", "23:01:00", "23:02:00", "23:05:00"]
    lines = [f"A,2024-02-29 {time},{i}" for i, time in enumerate(times)]
    (tmp_path / "t.csv").write_text("n,at,x\nB,2024-02-29 23:00:00,7\n" + "\n".join(lines) + "\n")
    _, found = read_short(tmp_path / "t.csv", ["A", "B"], every="1min", hold="2min")
    np.testing.assert_array_equal(found, [[0, 7], [1, 7], [2, 7], [3, np.nan]])


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

    monkeypatch.setattr("culpa.io.tables.csv_table._BLOCK", 20_000)
    sizes = []
    add = long._Grid.add
    monkeypatch.setattr(long._Grid, "add", lambda grid, *given: (add(grid, *given), sizes.append(len(grid.keys)))[0])
    frame = long_frame(60_000)
    frame.to_csv(tmp_path / "t.csv", index=False)
    _, found = read(tmp_path / "t.csv", ["A", "B", "C"], every="1s")
    assert len(found) > 5000
    assert max(sizes) < 500


def test_times_that_go_far_back(tmp_path, monkeypatch):
    monkeypatch.setattr("culpa.io.tables.csv_table._BLOCK", 5000)
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
    table = open_table([str(path)], Options(long=("tag", "time", "value")), Selection(), print)
    with pytest.raises(TableError, match=r"column 'value', row 56000: '1\.234' may mean 1\.234 or 1234"):
        list(table.batches(["a", "b"], []))
