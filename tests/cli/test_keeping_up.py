"""update and compare from outside: the library's numbers, clear errors, whole outputs."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import run, write

import culpa
from culpa import PCADetector


def frame(n=300, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ np.random.default_rng(7).normal(size=(2, 5)) + 0.3 * rng.normal(size=(n, 5))
    X[:, 1] += shift
    return pd.DataFrame(X, columns=[f"temp_{i}" for i in range(5)])


@pytest.fixture
def folder(tmp_path):
    write(frame(), tmp_path / "normal.csv")
    write(frame(200, 1), tmp_path / "more.csv")
    write(frame(200, 2, shift=1.0), tmp_path / "later.parquet")
    run("fit", tmp_path / "normal.csv", "-o", tmp_path / "plant.culpa", "--components", 2, "--limit", "box")
    return tmp_path


@pytest.mark.parametrize("forget", [0.0, 0.01])
def test_update_equals_partial_fit(folder, forget):
    target = folder / "plant2.culpa"
    told = run("update", folder / "plant.culpa", folder / "more.csv", "-o", target, "--forget", forget).stderr
    updated = culpa.load(target)
    expected = PCADetector(2, limit="box").fit(frame()).partial_fit(frame(200, 1), forget=forget)
    np.testing.assert_allclose(updated.mean_, expected.mean_, atol=1e-10)
    np.testing.assert_allclose(updated.model_.covariance_, expected.model_.covariance_, atol=1e-10)
    assert updated.limit_ == pytest.approx(expected.limit_)
    assert updated.model_.n_samples_ == pytest.approx(expected.model_.n_samples_)
    assert "200 new rows; effective number of training rows: " in told
    assert f"wrote {target}" in told
    if not forget:
        assert "training rows: 500" in told


def test_update_keeps_a_limit_from_held_out_scores(folder):
    """As partial_fit does, and without a warning that it is a formula."""
    run("fit", folder / "normal.csv", "-o", folder / "h.culpa")
    told = run("update", folder / "h.culpa", folder / "more.csv", "-o", folder / "h2.culpa", "--forget", 0.001).stderr
    assert "formula" not in told
    updated, expected = (
        culpa.load(folder / "h2.culpa"),
        PCADetector().fit(frame()).partial_fit(frame(200, 1), forget=0.001),
    )
    assert updated.limit_kind_ == "held-out"
    assert updated.limit_ == pytest.approx(expected.limit_)
    assert updated.false_alarm_rate_ == pytest.approx(expected.false_alarm_rate_)
    assert (updated.predict(frame(5000, 3)) == -1).mean() < 0.02


def test_update_tells_about_drift(folder):
    model = folder / "plant.culpa"
    told = run("update", model, folder / "more.csv", "-o", folder / "a.culpa").stderr
    assert "No drift: the 200 rows" in told
    told = run("update", model, folder / "later.parquet", "-o", folder / "b.culpa").stderr
    assert "Drift: " in told
    assert "temp_1 moved by +" in told
    assert "training rows" not in run("update", model, folder / "more.csv", "-o", folder / "c.culpa", "-q").stderr


def test_update_keeps_units_and_compiled_explainers(folder):
    options = ["-o", folder / "u.culpa", "--unit", "temp_0=C", "--compile", "--limit", "box"]
    run("fit", folder / "normal.csv", *options)
    run("update", folder / "u.culpa", folder / "more.csv", "-o", folder / "u2.culpa")
    updated = culpa.load(folder / "u2.culpa")
    assert updated.units_ == {"temp_0": "C"}
    assert updated.explainer().forms is not None


def test_update_with_lags(folder):
    run("fit", folder / "normal.csv", "-o", folder / "l.culpa", "--lags", 2, "--components", 4, "--limit", "box")
    run("update", folder / "l.culpa", folder / "more.csv", "-o", folder / "l2.culpa")
    expected = PCADetector(4, lags=2, limit="box").fit(frame()).partial_fit(frame(200, 1))
    updated = culpa.load(folder / "l2.culpa")
    assert updated.model_.n_samples_ == expected.model_.n_samples_ == 298 + 198
    np.testing.assert_allclose(updated.model_.covariance_, expected.model_.covariance_, atol=1e-10)


def test_update_with_missing_cells(folder):
    holes = frame(200, 1)
    holes.loc[3, "temp_2"] = np.nan
    table = write(holes, folder / "holes.csv")
    refused = run("update", folder / "plant.culpa", table, "-o", folder / "p.culpa", code=2).stderr
    assert "only be updated with complete rows" in refused
    assert not (folder / "p.culpa").exists()
    told = run("update", folder / "plant.culpa", table, "-o", folder / "p.culpa", "--complete-only").stderr
    assert "199 new rows, 1 incomplete row left out; effective number of training rows: 499" in told


def test_update_refuses(folder):
    model, more = folder / "plant.culpa", folder / "more.csv"
    assert "exists" in run("update", model, more, "-o", model, code=2).stderr
    assert "--forget must be" in run("update", model, more, "-o", folder / "x", "--forget", 1, code=2).stderr
    run("fit", folder / "normal.csv", "-o", folder / "e.culpa", "--limit", "empirical")
    refused = run("update", folder / "e.culpa", more, "-o", folder / "x", code=2).stderr
    assert "limit='empirical' needs" in refused
    narrow = write(frame(50, 1).drop(columns="temp_3"), folder / "narrow.csv")
    assert "no column 'temp_3'" in run("update", model, narrow, "-o", folder / "x", code=2).stderr
    run("update", model, more, "-o", model, "--force")


def test_compare_says_what_the_library_says(folder):
    arguments = ("compare", folder / "normal.csv", folder / "later.parquet", "-m", folder / "plant.culpa")
    content = json.loads(run(*arguments, "--json").stdout)
    expected = culpa.load(folder / "plant.culpa").compare(frame(), frame(200, 2, shift=1.0))
    assert content["sentence"] == expected.sentence
    assert (content["n_before"], content["n_after"]) == (300, 200)
    for told, known in zip(content["features"], expected.features, strict=True):
        assert told["feature"] == known.feature
        assert told["change"]["value"] == pytest.approx(known.change.value, abs=1e-10)
        assert told["change"]["low"] == pytest.approx(known.change.low, abs=1e-9)
    text = run(*arguments, "--top", 2).stdout
    assert "temp_1" in text
    assert "95% interval" in text
    assert "The mean score went from" in text


def test_compare_refuses(folder):
    model = folder / "plant.culpa"
    empty = write(frame(0), folder / "empty.csv")
    refused = run("compare", folder / "normal.csv", empty, "-m", model, code=2).stderr
    assert "no row has a score" in refused
    assert "gone.csv" in run("compare", folder / "normal.csv", folder / "gone.csv", "-m", model, code=2).stderr


def with_fill_values(n=200, seed=1, every=20):
    X = frame(n, seed)
    X.loc[3::every, "temp_2"] = -9999.0
    return X


def test_update_warns_about_fill_values_and_a_changed_limit(folder):
    dirty = write(with_fill_values(), folder / "dirty.csv")
    run("fit", folder / "normal.csv", "-o", folder / "plant.culpa", "--force")
    told = run("update", folder / "plant.culpa", dirty, "-o", folder / "d.culpa").stderr
    assert (
        f"Warning: {dirty}: column 'temp_2' contains -9999 10 times, first in row 3, far from the training rows. "
        "If it means a missing cell, add --missing -9999 --complete-only. If it is a fault, leave out such rows."
    ) in " ".join(told.split())
    old, new = (culpa.load(folder / name).limit_ for name in ("plant.culpa", "d.culpa"))
    assert new > 3 * old
    assert f"limit rose from {old:.4g} to {new:.4g}. Check that all new rows" in told
    cured = run(
        "update", folder / "plant.culpa", dirty, "-o", folder / "c.culpa", "--missing", "-9999", "--complete-only"
    ).stderr
    assert "Warning" not in cured
    assert "190 new rows, 10 incomplete rows left out" in cured


def test_update_warns_about_numbers_that_stand_alone(folder):
    """As fit does: also where a number is no code, if it occurs often and the other rows are elsewhere."""
    X = frame(200, 1)
    X.loc[[5, 50, 150], "temp_0"] = 5000.0
    told = run("update", folder / "plant.culpa", write(X, folder / "x.csv"), "-o", folder / "x.culpa").stderr
    assert "column 'temp_0' contains 5000 3 times, first in row 5, far from the training rows" in " ".join(told.split())
    told = run("update", folder / "plant.culpa", folder / "more.csv", "-o", folder / "y.culpa").stderr
    assert "Warning" not in told


def test_update_counts_components(folder):
    run("fit", folder / "normal.csv", "-o", folder / "one.culpa", "--components", 1, "--limit", "box")
    told = run("update", folder / "one.culpa", folder / "more.csv", "-o", folder / "one2.culpa").stderr
    assert "1 component; " in told
    assert "1, which explains " in run("info", folder / "one.culpa").stdout


def test_compare_warns_about_fill_values(folder):
    dirty = write(with_fill_values(), folder / "dirty.csv")
    for before, after in ((folder / "normal.csv", dirty), (dirty, folder / "normal.csv")):
        told = run("compare", before, after, "-m", folder / "plant.culpa").stderr
        assert " ".join(told.split()).count(f"{dirty}: column 'temp_2' contains -9999 10 times, first in row 3") == 1
        assert "If it means a missing cell, add --missing -9999." in told
    assert not run("compare", folder / "normal.csv", dirty, "-m", folder / "plant.culpa", "--missing", "-9999").stderr


def test_models_of_rows_with_missing_cells_cannot_be_updated(folder):
    holes = frame()
    holes.iloc[::30, 2] = np.nan
    table, target = write(holes, folder / "holes.csv"), folder / "m2.culpa"
    run("fit", table, "-o", folder / "m.culpa")
    refused = run("update", folder / "m.culpa", folder / "more.csv", "-o", target, code=2).stderr
    assert "Fit it to complete rows with 'culpa fit --complete-only'" in " ".join(refused.split())
    run("fit", table, "-o", folder / "m.culpa", "--complete-only", "--force")
    assert "200 new rows" in run("update", folder / "m.culpa", folder / "more.csv", "-o", target).stderr


def test_the_model_is_an_argument_of_update_and_info(folder):
    model, more = folder / "plant.culpa", folder / "more.csv"
    for words in (("update", more, "-m", model, "-o", folder / "x"), ("info", "-m", model), ("info", "--model", model)):
        told = " ".join(run(*words, code=2).stderr.split())
        assert f"'culpa {words[0]}' takes the model file as its first argument, without -m" in told
        assert "No such option" not in told
    assert "--model" not in run("info", "--help").stdout
    for words in (("update", model, more, "-o", folder / "x", "-q"), ("info", model)):
        run(*words)


def test_compare_shows_names_as_they_are_and_no_share_of_nothing(folder):
    names = ["a\x1b[31m", "[bold]b", "c\x7f", "d", "e\x9b2J"]
    table = write(frame().set_axis(names, axis=1), folder / "odd.parquet")
    run("fit", table, "-o", folder / "odd.culpa", "--noun", "[red]tag")
    shown = run("compare", table, table, "-m", folder / "odd.culpa").stdout
    assert all(sign.isprintable() or sign == "\n" for sign in shown)
    for name in (r"a\x1b[31m", "[bold]b", r"c\x7f", r"e\x9b2J", "[red]tag"):
        assert name in shown
    assert "nan" not in shown
