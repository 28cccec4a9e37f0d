"""Columns that number or date the rows are recognised; features are not taken for them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from command_line import run

from culpa import PCADetector
from culpa._core.warning import FitWarning
from culpa.columns.row_numbers import row_number, row_numbers
from culpa.datasets import ODDS_NAMES, DataFileError, load_cars04, load_odds
from studies.recorded import SERVERS, load_server, load_tennessee_eastman

N = 200
DAYS = pd.date_range("2024-02-01", periods=N, freq="D")
RNG = np.random.default_rng(0)
NUMBERS = {
    "": np.arange(N),
    "Unnamed: 0": RNG.permutation(N),
    "__index_level_0__": np.arange(0, 3 * N, 3),
    "id": np.cumsum(RNG.integers(1, 9, N)),
    "sample_id": 10**6 + np.arange(N),
    "n": np.arange(N) + 17,
    "day": DAYS.strftime("%Y%m%d").astype(int),
    "stamp": pd.date_range("2024-02-01", periods=N, freq="7min").strftime("%Y%m%d%H%M").astype(float),
    "Datum": (DAYS - pd.Timestamp("1899-12-30")).days + 0.5,
    "serial": 45323 + np.round(np.arange(N) / 1440, 6),
    "time": np.cumsum(RNG.random(N) + 0.1),
}
FEATURES = {
    "produced": np.cumsum(RNG.integers(0, 5, N)),  # a counter that is a feature
    "total": np.cumsum(RNG.random(N)),
    "cycle": np.arange(N) % 50,
    "id": RNG.integers(0, 3, N),
    "constant": np.full(N, 20240101),
    "T": 20 + RNG.normal(size=N).cumsum(),
    "level": 45000 + 10 * RNG.random(N),
    "rounded": np.round(RNG.normal(size=N)),
    "load": 20_240_000 + RNG.integers(0, 9999, N),
    "missing": np.where(np.arange(N) == 7, np.nan, np.arange(N)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_row_numbers_and_dates(name):
    assert row_number(name, np.asarray(NUMBERS[name], dtype=float))


@pytest.mark.parametrize("name", FEATURES)
def test_features(name):
    assert not row_number(name, np.asarray(FEATURES[name], dtype=float))


@pytest.mark.parametrize("seed", range(20))
def test_random_sensors_are_features(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 400))
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 30))
    X[:, :10] = X[:, :10].cumsum(axis=0)
    X[:, 10:20] = np.round(X[:, 10:20], int(rng.integers(0, 3)))
    assert row_numbers(tuple(f"t{j}" for j in range(30)), X) == {}


def recorded():
    plant = load_tennessee_eastman()
    yield plant.feature_names, plant.normal
    yield from ((None, load_server(name).normal) for name in SERVERS)
    cars = load_cars04()
    yield cars.feature_names, np.asarray(cars.X, dtype=float)
    yield from ((None, np.asarray(load_odds(name).X, dtype=float)) for name in ODDS_NAMES)


def test_columns_of_the_paper_are_features():
    try:
        for names, rows in recorded():
            assert row_numbers(tuple(names or (f"x{j}" for j in range(rows.shape[1]))), rows) == {}
    except DataFileError as error:
        pytest.skip(str(error))


def sensors(n=400):
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        rng.normal(size=(n, 2)) @ rng.normal(size=(2, 4)) + 0.3 * rng.normal(size=(n, 4)), columns=list("abcd")
    )


def test_the_library_warns():
    frame = sensors()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", FitWarning)
        PCADetector().fit(frame.assign(id=np.arange(400)))
        PCADetector().fit(np.column_stack([np.arange(400), frame]))
    assert [("'id' rises by 1" in str(one.message), "'x0' rises by 1" in str(one.message)) for one in told] == [
        (True, False),
        (False, True),
    ]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", FitWarning)
        PCADetector().fit(frame)
        PCADetector(given=["id"]).fit(frame.assign(id=np.arange(400)))
    assert not told


@pytest.mark.parametrize("kind", ["csv", "parquet", "two files"])
def test_the_command_line_leaves_them_out(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("culpa.io.tables.csv_cells._BLOCK", 3000)
    frame = sensors()
    frame.insert(0, "day", pd.date_range("2024-02-01", periods=400, freq="h").strftime("%Y%m%d").astype(int))
    frame["ramp"] = np.r_[np.arange(150.0), frame["a"][150:]]  # like a number of rows at first
    parts = [frame[:200], frame[200:].reset_index(drop=True)]
    if kind == "parquet":
        parts[0].to_parquet("0.parquet", index=True)
        parts[0].assign(number=np.arange(200)).to_parquet("0.parquet")
    else:
        parts[0].to_csv("0.csv")
        parts[1].to_csv("1.csv")
    tables = {"csv": ["0.csv"], "parquet": ["0.parquet"], "two files": ["0.csv", "1.csv"]}[kind]
    told = run("fit", *tables, "-o", "m.culpa").stderr
    index = "number" if kind == "parquet" else ""
    assert told.count("is left out") == 2
    assert f"column {index!r} " in told
    assert "column 'day' holds dates such as 20240201" in told
    assert "5 features" in told
    (frame[200:].to_parquet if kind == "parquet" else frame[200:].to_csv)(
        "new.csv" if kind != "parquet" else "new.parquet"
    )
    new = "new.parquet" if kind == "parquet" else "new.csv"
    flagged = int(run("score", new, "-m", "m.culpa", "-o", "s.csv").stderr.split(" flagged")[0].split()[-1])
    assert flagged < 30
    told = run("fit", *tables, "-o", "m2.culpa", "--columns", "day,a,b,c").stderr
    assert "is left out" not in told
    assert "4 features" in told
    told = run("fit", *tables, "-o", "m3.culpa", "--given", "day").stderr
    assert told.count("is left out") == 1
    assert "6 features" in told


def test_every_file_counts(tmp_path, monkeypatch):
    """A date may be the same in all rows of a file, and a column that counts in one of the files only is a feature."""
    monkeypatch.chdir(tmp_path)
    frame = sensors()
    for part in range(2):
        rows = frame[200 * part : 200 * part + 200]
        rows.assign(day=20240201 + part, half=np.arange(200) if part else rows["a"]).to_csv(f"{part}.csv", index=False)
    for tables in (["0.csv", "1.csv"], ["1.csv", "0.csv"]):
        told = run("fit", *tables, "-o", "m.culpa", "-f").stderr
        assert told.count("is left out") == 1
        assert "column 'day' holds dates" in told
        assert "5 features" in told
