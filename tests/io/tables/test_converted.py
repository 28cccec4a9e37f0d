"""A row of units that names other units: columns are converted, or refused if nobody knows how."""

import numpy as np
import pandas as pd
import pytest
from command_line import run

from culpa import PCADetector, load
from culpa.columns.units import conversion, same_unit

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
def folder(tmp_path, monkeypatch):
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


def test_new_rows_in_other_units(folder):
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


def test_training_files_in_several_units(folder):
    write(folder / "a.csv", plant()[:150], UNITS)
    write(folder / "b.csv", in_other_units(plant()[150:]), OTHER)
    run("fit", "normal.csv", "-o", "one.culpa", "-q")
    run("fit", "a.csv", "b.csv", "-o", "two.culpa", "-q")
    np.testing.assert_allclose(scores("new.csv", "-m", "two.culpa"), scores("new.csv", "-m", "one.culpa"), rtol=1e-6)
    assert "'f' is in 'furlong'" in run("fit", "a.csv", "strange.csv", "-o", "x.culpa", code=2).stderr
    run("fit", "a.csv", "strange.csv", "-o", "x.culpa", "--drop", "f", "-q")


def test_a_unit_that_the_user_corrected(folder):
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
