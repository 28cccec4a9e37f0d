"""fit, score, explain and info from outside: same numbers as the library, clear errors, whole outputs, exit codes."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from command_line import run, write

import culpa
from culpa import PPCA, PCADetector
from culpa._core.words import in_percent
from culpa.detecting.pieces import fit_moments
from culpa.models import Moments, ppca
from culpa.models.blocks import BlockGatherer
from culpa.models.em import em

CULPA = [sys.executable, "-m", "culpa"]


def frame(n=300, d=5, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    W = np.random.default_rng(7).normal(size=(2, d))
    X = rng.normal(size=(n, 2)) @ W + 0.3 * rng.normal(size=(n, d)) + shift
    return pd.DataFrame(X, columns=[f"temp_{i}" for i in range(d)])


def new_rows():
    new = frame(40, seed=1)
    new.loc[3, "temp_1"] += 9
    new.loc[5, "temp_2"] = np.nan
    new.loc[7] = np.nan
    new.loc[[8, 9], ["temp_0", "temp_3"]] = [[np.nan, 20.0], [np.nan, -30.0]]
    new.insert(0, "time", [f"t{i:02}" for i in range(40)])
    return new


@pytest.fixture
def folder(tmp_path):
    write(frame(), tmp_path / "normal.csv")
    write(new_rows(), tmp_path / "new.csv")
    run("fit", tmp_path / "normal.csv", "-o", tmp_path / "plant.culpa")
    return tmp_path


@pytest.fixture
def library():
    return PCADetector().fit(frame())


@pytest.mark.parametrize("shift", [0.0, 1e8])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("components", [0.95, 2])
def test_streamed_fit_equals_fit_in_memory(shift, scale, components):
    X = frame(3000, shift=shift).to_numpy()
    moments = Moments.of(X[:0])
    for start in range(0, len(X), 170):
        part = X[start : start + 170]
        moments = moments.merge(Moments.of(part, moments.reference if moments.n else None))
    memory = PCADetector(components, scale=scale, limit="formula").fit(X)
    streamed = fit_moments(PCADetector(components, scale=scale, limit="formula"), moments)
    for name in ("mean_", "scale_", "limit_"):
        np.testing.assert_allclose(getattr(streamed, name), getattr(memory, name), rtol=1e-9)
    for name in ("components_", "covariance_", "explained_variance_", "noise_variance_"):
        np.testing.assert_allclose(getattr(streamed.model_, name), getattr(memory.model_, name), rtol=1e-9, atol=1e-9)
    new = frame(50, seed=3, shift=shift).to_numpy().copy()
    new[:, 0] += 3
    np.testing.assert_allclose(streamed.score_samples(new), memory.score_samples(new), rtol=1e-9)
    np.testing.assert_allclose(streamed.explain(new).values, memory.explain(new).values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("n", [300, 9000])  # blocks of a large table are not exact tenths
def test_streamed_held_out_scores_equal_those_in_memory(n, scale):
    X = frame(n, shift=1e6).to_numpy()
    parts = [X[start : start + 170] for start in range(0, n, 170)]
    gatherer = BlockGatherer(X.shape[1])
    for part in parts:
        gatherer.add(part)
    streamed = fit_moments(PCADetector(scale=scale), gatherer.finish(), batches=parts)
    memory = PCADetector(scale=scale).fit(X)
    assert streamed.limit_kind_ == memory.limit_kind_ == "held-out"
    assert streamed.limit_ == pytest.approx(memory.limit_, rel=1e-9)
    assert streamed.false_alarm_rate_ == pytest.approx(memory.false_alarm_rate_, rel=1e-9)
    curves = [detector.fitted.components.log_likelihood for detector in (streamed, memory)]
    np.testing.assert_allclose(*curves, rtol=1e-9)
    new = frame(50, seed=3, shift=1e6).to_numpy()
    np.testing.assert_allclose(streamed.statistics(new)["p_value"], memory.statistics(new)["p_value"], rtol=1e-12)


def test_one_is_not_many(folder):
    new = frame(40, seed=1)
    new.loc[3, "temp_1"] += 9
    model = ["-m", folder / "plant.culpa", "-o"]
    told = run("incidents", write(new.iloc[3:4], folder / "one.csv"), *model, folder / "out.csv").stderr
    assert told.startswith("1 row, 1 flagged, 1 incident; wrote")
    told = run("report", folder / "one.csv", *model, folder / "report.html").stderr
    assert told.startswith("1 row, 1 flagged, 1 incident; wrote")
    one = run("fit", folder / "normal.csv", "-o", folder / "m.culpa", "--components", "1", "--lags", "1").stderr
    assert "features with 1 lag, 1 component explains" in one


def test_fit_tells_what_is_odd_about_the_model(folder):
    odd = frame(100)
    odd["still"], odd["same"], odd["clock"] = 3.0, odd["temp_0"], np.arange(100.0)
    odd.insert(0, "quiet", 2.0)  # before the others, but two that do not move do not move together
    write(odd, folder / "odd.csv")
    told = " ".join(run("fit", folder / "odd.csv", "-o", folder / "odd.culpa", "--components", "3").stderr.split())
    assert "Warning: column 'quiet' did not vary in training" in told
    assert "Warning: columns 'temp_0' and 'same' always move together. If one is computed from the other" in told
    told = " ".join(
        run("fit", folder / "odd.csv", "-o", folder / "odd.culpa", "-f", "--lags", "1", "--drop", "same").stderr.split()
    )
    assert "move together" not in told  # a clock and its own past
    odd.iloc[::9, [1, -3, -2]] = np.nan
    odd = odd.drop(columns="quiet")
    write(odd, folder / "holes.csv")
    told = " ".join(run("fit", folder / "holes.csv", "-o", folder / "odd.culpa", "-f").stderr.split())
    assert "column 'still' did not vary in training" in told
    assert "If the column may change, leave it out with --drop" in told


def test_fit_says_when_it_did_not_converge(folder, monkeypatch):
    holes = frame(100)
    holes[np.random.default_rng(0).random(holes.shape) < 0.3] = np.nan
    write(holes, folder / "holes.csv")
    assert "Warning" not in run("fit", folder / "holes.csv", "-o", folder / "m.culpa").stderr
    monkeypatch.setattr(ppca, "em", lambda *given, max_iter, **others: em(*given, max_iter=2, **others))
    told = run("fit", folder / "holes.csv", "-o", folder / "m.culpa", "--force").stderr.splitlines()
    assert len(told) == 2
    assert told[0].startswith("Warning: expectation-maximisation stopped after 2 steps without converging. Use fewer")


def fitted_to(n, folder, *options):
    told = run("fit", write(frame()[:n], folder / "few.csv"), "-o", folder / "few.culpa", "-f", *options).stderr
    return " ".join(told.split())


def test_fit_warns_of_few_rows(folder):
    """A formula wants five rows per feature; held-out scores want 30 rows, and 99 to reach a limit of 99%."""
    formula = ("--limit", "formula")
    assert "Warning: 24 rows are few for 5 features, and the limit is not checked" in fitted_to(24, folder, *formula)
    assert "Warning" not in fitted_to(25, folder, *formula)
    told = fitted_to(29, folder)
    assert "Warning: the limit is a formula and may be too low, because 29 rows are too few to check it" in told
    assert "held-out rows:" not in told
    told = fitted_to(30, folder)
    assert "Warning: 30 rows are few for a limit at confidence 0.99. The limit is extrapolated" in told
    assert "held-out rows: 0% above the 99% limit" in told  # it lies beyond all of them
    assert "extrapolated" in fitted_to(98, folder)
    assert "extrapolated" not in fitted_to(98, folder, "--confidence", "0.95")
    assert "extrapolated" not in fitted_to(300, folder)


def test_fit_says_how_many_held_out_rows_exceed_the_limit(folder):
    told = run("fit", folder / "normal.csv", "-o", folder / "m.culpa").stderr
    rate = culpa.load(folder / "m.culpa").false_alarm_rate_
    assert rate.value in (0 / 300, 1 / 300, 2 / 300, 3 / 300)  # the limit is one of the four largest held-out scores
    assert rate.low <= rate.value <= rate.high
    value, low, high = in_percent(rate)
    assert len({len(number.partition(".")[2]) for number in (value, low, high)}) == 1
    sentence = f"held-out rows: {value}% above the 99% limit, 95% interval {low} to {high}%"
    assert f"; {sentence}; about " in told
    assert sentence in run("info", folder / "m.culpa").stdout
    assert json.loads(run("info", folder / "m.culpa", "--json").stdout)["false_alarm_rate"]["value"] == rate.value


def test_csv_on_a_pipe_is_recognised(folder, library):
    library.save(folder / "plant.culpa")
    found = run("score", "-", "-m", folder / "plant.culpa", "-q", stdin=(folder / "new.csv").read_bytes()).stdout
    run("score", folder / "new.csv", "-m", folder / "plant.culpa", "-o", folder / "o.csv")
    assert found == (folder / "o.csv").read_text()
    told = run(
        "score", "-", "-m", folder / "plant.culpa", "--input-format", "ndjson", stdin="a,b\n1,2\n", code=2
    ).stderr
    assert "If the table has another format, specify it with --input-format" in " ".join(told.split())


def test_fit_names_the_worst_training_row(folder):
    dirty = frame()
    dirty.iloc[:3, 0] = np.nan
    clean = run("fit", write(dirty, folder / "holes.csv"), "-o", folder / "m.culpa").stderr
    assert re.search(
        r"\d training rows above the limit of SPE or T2, the worst \(row \d+\) by a factor of [12]\.\d; wrote", clean
    )
    dirty.iloc[207, 2] = -9999
    for options in (
        [],
        ["--complete-only", "--limit", "conformal", "--confidence", "0.9"],
    ):  # rows left out do not shift the others
        told = run("fit", write(dirty, folder / "dirty.csv"), "-o", folder / "m.culpa", "--force", *options).stderr
        worst = r"the worst \(row 207\) by a factor of \d+: check it before you rely on the model"
        assert re.search(worst, told)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_fit_names_the_time_of_the_worst_training_row(folder, suffix):
    dirty = frame()
    dirty.iloc[:3, 0] = np.nan
    dirty.iloc[207, 2] = -9999
    dirty.insert(0, "time", pd.date_range("2024-05-01", periods=len(dirty), freq="min"))
    table = write(dirty, folder / f"dirty{suffix}")
    told = run("fit", table, "-o", folder / "m.culpa").stderr
    assert "the worst (2024-05-01 03:27:00) by a factor of " in told
    told = run("fit", table, "-o", folder / "m.culpa", "--force", "--time", "none", "--drop", "time").stderr
    assert "the worst (row 207) by a factor of " in told
    told = run("fit", table, "-o", folder / "m.culpa", "--force", "--robust", "cells").stderr
    assert "at 2024-05-01 03:27:00 is -9999, expected " in told


@pytest.mark.parametrize("options", [["--trim", "0.05"], ["--limit", "conformal", "--holdout", "0.4"]])
def test_trimming_and_conformal_limits(folder, options):
    result = run("fit", folder / "normal.csv", "-o", folder / "m.culpa", *options)
    keywords = {"trim": 0.05} if "--trim" in options else {"limit": "conformal", "holdout": 0.4}
    wanted = PCADetector(**keywords).fit(frame())
    again = culpa.load(folder / "m.culpa")
    assert again.limit_ == pytest.approx(wanted.limit_, rel=1e-9)
    trimmed = int(wanted.abnormal_training_rows_["trimmed"].sum())
    others = len(wanted.abnormal_training_rows_) - trimmed
    told = f"; {trimmed} rows trimmed, {others} others" if trimmed else f"; {others} training rows"
    assert f"{told} above the limit of SPE or T2" in result.stderr
    assert len(again.abnormal_training_rows_) == len(wanted.abnormal_training_rows_)
    kind = json.loads(run("info", folder / "m.culpa", "--json").stdout)["limit_kind"]
    assert kind == wanted.limit_kind_
    incomplete = frame()
    incomplete.iloc[:30, 0] = np.nan
    write(incomplete, folder / "holes.csv")
    run("fit", folder / "holes.csv", "-o", folder / "n.culpa", "--complete-only", *options)
    # with lags every row is the past of others, so none can be left out of what must be held whole
    lagged = run(
        "fit", folder / "holes.csv", "-o", folder / "l.culpa", "--complete-only", "--lags", 1, *options, code=2
    )
    assert "--complete-only cannot be combined with --trim" in lagged.stderr
    run("fit", folder / "holes.csv", "-o", folder / "l.culpa", "--complete-only", "--lags", 1)
    assert culpa.load(folder / "n.culpa").limit_ == pytest.approx(PCADetector(**keywords).fit(frame()[30:]).limit_)


def test_too_few_rows_for_a_conformal_limit(folder):
    result = run("fit", folder / "normal.csv", "-o", folder / "m.culpa", "--limit", "conformal", code=2)
    assert "needs at least 99 held-out rows, got 60" in result.stderr


def test_moments_merge_in_any_order_and_know_their_limits():
    X = frame(100, shift=1e8).to_numpy()
    parts = [Moments.of(X[a:b]) for a, b in ((0, 1), (1, 1), (1, 60), (60, 100))]
    forwards = parts[0].merge(parts[1]).merge(parts[2]).merge(parts[3])
    backwards = parts[3].merge(parts[2]).merge(parts[1]).merge(parts[0])
    for whole in (forwards, backwards):
        assert whole.n == 100
        np.testing.assert_allclose(whole.mean, X.mean(axis=0), rtol=1e-15)
        np.testing.assert_allclose(whole.covariance, np.cov((X - 1e8).T), rtol=1e-12)
    with pytest.raises(ValueError, match="too few"):
        fit_moments(PCADetector(), parts[0])
    assert (
        fit_moments(PCADetector("mle", scale=False), forwards).model_.n_components_ == PPCA("mle").fit(X).n_components_
    )
    with pytest.raises(ValueError, match="scores of the training rows"):
        fit_moments(PCADetector(limit="empirical"), forwards)


def same_as_library(path, library, kind):
    new = new_rows()
    complete = new[library.feature_names_in_]
    with pytest.warns(UserWarning, match="no observed feature"):
        expected, why = -library.score_samples(complete), library.explain(complete)
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "arrow": pd.read_feather}
    table = pd.read_json(path, lines=True) if kind == "ndjson" else read[kind](path)
    assert table["time"].tolist() == new["time"].tolist()
    np.testing.assert_allclose(table["score"].astype(float), expected, rtol=1e-10)
    assert table["anomaly"].tolist() == (expected > library.limit_).tolist()
    assert ("p_value" in table) != ("temp_0" in table)  # scores have one, explanations have culprits
    if "p_value" in table:
        with pytest.warns(UserWarning, match="no observed feature"):
            p_value = library.statistics(complete)["p_value"]
        np.testing.assert_allclose(table["p_value"].astype(float), p_value, rtol=1e-10)
        assert table["p_value"].isna().sum() == 1
    assert (table["limit"] == library.limit_).all() or np.allclose(table["limit"], library.limit_, rtol=1e-10)
    if "temp_0" in table:
        values = table[list(library.feature_names_in_)].astype(float).to_numpy()
        np.testing.assert_allclose(values, why.values, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("source", ["csv", "parquet", "feather", "ndjson"])
@pytest.mark.parametrize("target", ["csv", "parquet", "arrow", "ndjson"])
@pytest.mark.parametrize("command", [["score"], ["explain", "--all"]])
def test_library_and_command_line_agree(folder, library, source, target, command):
    path = write(new_rows(), folder / f"table.{source}")
    out = folder / f"out.{target}"
    run(*command, path, "-m", folder / "plant.culpa", "-o", out, "--id", "time")
    same_as_library(out, library, target)


def test_the_pipe_agrees_too(folder, library):
    write(new_rows(), folder / "new.ndjson")
    result = run(
        "explain",
        "-",
        "-m",
        folder / "plant.culpa",
        "--id",
        "time",
        "--top",
        9,
        stdin=(folder / "new.ndjson").read_bytes(),
    )
    complete = new_rows()[library.feature_names_in_]
    with pytest.warns(UserWarning, match="no observed feature"):
        scores, why = -library.score_samples(complete), library.explain(complete)
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["time"] for answer in answers] == new_rows()["time"].tolist()
    for row, (answer, score) in enumerate(zip(answers, scores, strict=True)):
        assert answer["score"] == (None if np.isnan(score) else pytest.approx(score, rel=1e-10))
        assert answer["anomaly"] == (score > library.limit_)
        assert ("culprits" in answer) == answer["anomaly"]
        for culprit in answer.get("culprits", []):
            player = library.feature_names_in_.tolist().index(culprit["feature"])
            assert culprit["value"] == pytest.approx(why.values[row, player], rel=1e-10, abs=1e-10)
            assert culprit["expected"] == pytest.approx(why.expected[row, player], rel=1e-10)
    assert sum(answer["anomaly"] for answer in answers) >= 3
    assert "1 row has no observed feature, so it gets no score" in result.stderr


def test_long_table_of_culprits(folder, library):
    run("explain", folder / "new.csv", "-m", folder / "plant.culpa", "--top", 2, "-o", folder / "why.csv")
    table = pd.read_csv(folder / "why.csv")
    new = new_rows()[library.feature_names_in_]
    with pytest.warns(UserWarning, match="no observed feature"):
        flagged = np.flatnonzero(library.predict(new) == -1)
    why = library.explain(new.iloc[flagged])
    expected = why.top(2)
    assert table["row"].tolist() == expected["row"].tolist()
    for name in ("rank", "value", "share", "actual", "expected", "score_if_fixed"):
        np.testing.assert_allclose(table[name], expected[name], rtol=1e-10)
    assert table["feature"].tolist() == expected["feature"].tolist()


def test_flagged_rows_only_and_row_numbers(folder, library):
    run("score", folder / "new.csv", "-m", folder / "plant.culpa", "--flagged", "-o", folder / "s.csv")
    run("explain", folder / "new.csv", "-m", folder / "plant.culpa", "-o", folder / "w.csv")
    with pytest.warns(UserWarning, match="no observed feature"):
        flagged = np.flatnonzero(library.predict(new_rows()[library.feature_names_in_]) == -1)
    for name in ("s.csv", "w.csv"):
        assert pd.read_csv(folder / name)["row"].tolist() == flagged.tolist()


def test_p_values_are_missing_where_the_limit_is_a_formula(folder):
    run("fit", folder / "normal.csv", "-o", folder / "m.culpa", "--limit", "formula")
    for target in ("csv", "ndjson"):
        run("score", folder / "new.csv", "-m", folder / "m.culpa", "-o", folder / f"o.{target}")
    assert pd.read_csv(folder / "o.csv")["p_value"].isna().all()
    first = json.loads((folder / "o.ndjson").read_text().splitlines()[0])
    assert first["p_value"] is None
    assert first["score"] > 0


def test_columns_in_any_order_with_others_between(folder):
    new = new_rows()
    new["site"] = "north"
    write(new[["site", "temp_4", "temp_0", "time", "temp_2", "temp_1", "temp_3"]], folder / "mixed.csv")
    for name in ("new", "mixed"):
        run("score", folder / f"{name}.csv", "-m", folder / "plant.culpa", "-o", folder / f"{name}-scores.csv")
    assert (folder / "new-scores.csv").read_bytes() == (folder / "mixed-scores.csv").read_bytes()


def test_names_that_clash(tmp_path):
    table = frame().set_axis(["score", "row", "limit", "anomaly", "a b"], axis=1)
    write(table, tmp_path / "t.csv")
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m")
    run("explain", tmp_path / "t.csv", "-m", tmp_path / "m", "--all", "-o", tmp_path / "w.csv")
    columns = pd.read_csv(tmp_path / "w.csv").columns.tolist()
    assert columns == ["row_", "score_", "limit_", "anomaly_", "score", "row", "limit", "anomaly", "a b"]
    values = pd.read_csv(tmp_path / "w.csv")
    total = values[table.columns].sum(axis=1) + PCADetector().fit(table).explain(table[:1]).base_value
    np.testing.assert_allclose(total, values["score_"], rtol=1e-9)


def test_compiled_explainers_are_stored(folder, library):
    run("fit", folder / "normal.csv", "-o", folder / "fast.culpa", "--compile")
    assert culpa.load(folder / "fast.culpa").explainer().forms is not None
    write(new_rows(), folder / "t.csv")
    run("explain", "--all", folder / "t.csv", "-m", folder / "fast.culpa", "-o", folder / "o.csv", "--id", "time")
    same_as_library(folder / "o.csv", library, "csv")


@pytest.mark.parametrize("limit", ["auto", "box", "empirical"])
def test_fit_with_missing_cells_equals_the_library(folder, limit):
    table = frame()
    table[np.random.default_rng(0).random(table.shape) < 0.05] = np.nan
    write(table, folder / "holes.parquet")
    run("fit", folder / "holes.parquet", "-o", folder / "holes.culpa", "--limit", limit)
    assert culpa.load(folder / "holes.culpa").limit_ == pytest.approx(
        PCADetector(limit=limit).fit(table).limit_, rel=1e-9
    )
    run("fit", folder / "holes.parquet", "-o", folder / "some.culpa", "--limit", limit, "--complete-only")
    expected = PCADetector(limit=limit).fit(table.dropna())
    assert culpa.load(folder / "some.culpa").limit_ == pytest.approx(expected.limit_, rel=1e-9)


def test_fit_from_a_pipe(folder):
    library = PCADetector(limit="formula").fit(frame())  # rows that cannot be read again are not held out
    write(frame(), folder / "normal.ndjson")
    lines = (folder / "normal.ndjson").read_bytes()
    told = run("fit", "-", "-o", folder / "piped.culpa", stdin=lines).stderr
    assert "rows that are read only once cannot be held out. Use a file, which can be read twice." in " ".join(
        told.split()
    )
    assert culpa.load(folder / "piped.culpa").limit_ == pytest.approx(library.limit_, rel=1e-9)
    run("fit", "-", "-o", folder / "csv.culpa", "--input-format", "csv", stdin=(folder / "normal.csv").read_bytes())
    assert culpa.load(folder / "csv.culpa").limit_ == pytest.approx(library.limit_, rel=1e-9)
    holes = b'{"temp_0": null, "temp_1": 1, "temp_2": 1, "temp_3": 1, "temp_4": 1}\n'
    assert "Pass a file" in run("fit", "-", "-o", folder / "x", stdin=lines + holes, code=2).stderr
    assert "Pass a file" in run("fit", "-", "-o", folder / "x", "--limit", "empirical", stdin=lines, code=2).stderr
    assert not (folder / "x").exists()


def test_choice_of_columns(folder):
    table = frame()
    table["time"], table["site"] = "2024-01-01", "north"
    write(table, folder / "t.csv")
    out = folder / "m.culpa"
    assert "column 'site' contains text" in run("fit", folder / "t.csv", "-o", out, code=2).stderr  # the time is found
    assert "contains times" not in run("fit", folder / "t.csv", "-o", out, "--time", "none", code=2).stderr
    told = run("fit", folder / "t.csv", "-o", out, "--columns", "time,site,temp_1,temp_2", code=2).stderr
    assert "- column 'time' contains times, for example '2024-01-01'" in told
    assert told.endswith("--columns time,site,temp_1,temp_2 --drop time --drop site\n")
    run("fit", folder / "t.csv", "-o", out, "--id", "time", "--drop", "site,temp_4")
    assert list(culpa.load(out).feature_names_in_) == ["temp_0", "temp_1", "temp_2", "temp_3"]
    run("fit", folder / "t.csv", "-o", out, "--columns", "temp_3,temp_1", "--components", "1", "--force")
    assert list(culpa.load(out).feature_names_in_) == ["temp_3", "temp_1"]


def test_german_csv(folder, library):
    new_rows().to_csv(folder / "messwerte.csv", index=False, sep=";", decimal=",", encoding="latin-1")
    run("score", folder / "messwerte.csv", "-m", folder / "plant.culpa", "--id", "time", "-o", folder / "o.csv")
    same_as_library(folder / "o.csv", library, "csv")


def test_info(folder):
    run("fit", folder / "normal.csv", "-o", folder / "m", "--unit", "temp_1=°C")
    text = run("info", folder / "m").stdout
    for part in (
        "300 rows, 5 features",
        "4, which explain",
        "mahalanobis, flagged above",
        "°C",
        "temp_4",
        "not compiled",
    ):
        assert part in text
    about = json.loads(run("info", folder / "m", "--json").stdout)
    assert about["rows"] == 300
    assert about["warnings"] == []
    assert about["features"][1]["name"] == "temp_1"
    assert about["features"][1]["std"] == pytest.approx(frame()["temp_1"].std())
    odd = frame(12)
    odd["same"], odd["still"] = odd["temp_0"], 3.0
    write(odd, folder / "odd.csv")
    run("fit", folder / "odd.csv", "-o", folder / "odd")
    text = run("info", folder / "odd").stdout
    for part in ("12 rows are too few", "'temp_0' and 'same'", "'still' did not vary", "not known, because the limit"):
        assert part in text


USER_ERRORS = {
    "no input": (["score", "absent.csv", "-m", "plant.culpa"], "absent.csv: No such file or directory"),
    "no model": (["score", "new.csv", "-m", "absent.culpa"], "absent.culpa: No such file or directory"),
    "model is a table": (["score", "new.csv", "-m", "new.csv"], "new.csv: this is not a culpa model file"),
    "table is a model": (["score", "plant.culpa", "-m", "plant.culpa"], "the file extension is not known"),
    "folder": (["score", ".", "-m", "plant.culpa", "--input-format", "csv"], "is a folder"),
    "exists": (["score", "new.csv", "-m", "plant.culpa", "-o", "normal.csv"], "--force"),
    "no folder": (["score", "new.csv", "-m", "plant.culpa", "-o", "no/o.csv"], "does not exist"),
    "output format": (["score", "new.csv", "-m", "plant.culpa", "-o", "o.xlsx"], "the file extension is not known"),
    "id": (["score", "new.csv", "-m", "plant.culpa", "--id", "tim", "-o", "o.csv"], "did you mean 'time'"),
    "columns": (["fit", "normal.csv", "-o", "o", "--columns", "temp_00"], "did you mean"),
    "one column": (
        ["fit", "normal.csv", "-o", "o", "--columns", "temp_0"],
        "at least 2 numeric columns are needed, got 1",
    ),
    "components": (["fit", "normal.csv", "-o", "o", "--components", "many"], "--components"),
    "too many components": (["fit", "normal.csv", "-o", "o", "--components", "5"], "less than the number of features"),
    "statistic": (["fit", "normal.csv", "-o", "o", "--statistic", "sep"], "did you mean 'spe'"),
    "confidence": (["fit", "normal.csv", "-o", "o", "--confidence", "99"], "above 0 and below 1"),
    "unit": (["fit", "normal.csv", "-o", "o", "--unit", "x=m"], "--unit"),
    "delimiter": (["fit", "normal.csv", "-o", "o", "--delimiter", "ab"], "single ASCII character"),
    "decimal": (["fit", "normal.csv", "-o", "o", "--decimal", ","], "cannot be both"),
    "encoding": (["fit", "normal.csv", "-o", "o", "--encoding", "x"], "a text encoding such as utf-8"),
    "parquet pipe": (["score", "-", "-m", "plant.culpa", "--input-format", "parquet"], "Pass a file"),
    "info": (["info", "normal.csv"], "not a culpa model file"),
    "lines": (["score", "-", "-m", "plant.culpa", "--strict", "--input-format", "ndjson"], "line 1: not JSON"),
}


@pytest.mark.parametrize(("arguments", "message"), USER_ERRORS.values(), ids=USER_ERRORS)
def test_user_errors_are_one_sentence(folder, monkeypatch, arguments, message):
    monkeypatch.chdir(folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    result = run(*arguments, code=2, stdin=b"nonsense\n")
    assert message in result.stderr
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert not result.stdout
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_missing_column_lists_near_misses(folder):
    write(new_rows().rename(columns={"temp_3": "temp3"}), folder / "t.csv")
    result = run("score", folder / "t.csv", "-m", folder / "plant.culpa", "-o", folder / "o.csv", code=2)
    assert "t.csv: there is no column 'temp_3'; did you mean 'temp3'" in result.stderr
    assert not (folder / "o.csv").exists()


def test_a_row_that_overflows_does_not_pass_for_normal(folder):
    tiny = frame() * 1e-90
    write(tiny, folder / "tiny.parquet")
    run("fit", folder / "tiny.parquet", "-o", folder / "tiny.culpa")
    tiny.loc[2, "temp_1"] = 1e99
    write(tiny, folder / "tiny.parquet")
    for command in ("score", "explain"):
        result = run(command, folder / "tiny.parquet", "-m", folder / "tiny.culpa", "-o", folder / "o.csv", code=2)
        assert "row 2 contains a number that is too large to score" in result.stderr
    assert not (folder / "o.csv").exists()


def test_exit_codes(folder):
    arguments = ["score", folder / "new.csv", "-m", folder / "plant.culpa", "-o", folder / "o.csv", "-f", "-q"]
    run(*arguments)
    run(*arguments, "--fail-on-anomaly", code=3)
    assert (folder / "o.csv").exists()
    write(frame(5), folder / "new.csv")
    run("score", folder / "new.csv", "-m", folder / "plant.culpa", "--fail-on-anomaly")
    run("score", "--nonsense", code=2)


def test_tables_without_rows(folder):
    (folder / "none.csv").write_text("time,temp_0,temp_1,temp_2,temp_3,temp_4\n")
    for out in ("o.csv", "o.parquet"):
        run("score", folder / "none.csv", "-m", folder / "plant.culpa", "-o", folder / out, "--id", "time")
    assert (folder / "o.csv").read_text() == '"time","score","limit","anomaly","p_value"\n'
    assert len(pd.read_parquet(folder / "o.parquet")) == 0
    assert "got 0" in run("fit", folder / "none.csv", "-o", folder / "m", "--id", "time", code=2).stderr
    run("explain", "-", "-m", folder / "plant.culpa", stdin=b"")


def test_bad_lines_do_not_stop_a_stream(folder):
    good = '{"temp_0": 1, "temp_1": 1, "temp_2": 1, "temp_3": 1, "temp_4": 1}\n'
    lines = (good + "oops\n" + good + '{"temp_0": 1}\n' + good).encode()
    result = run("score", "-", "-m", folder / "plant.culpa", stdin=lines)
    assert [json.loads(line)["row"] for line in result.stdout.splitlines()] == [0, 2, 4]
    assert "line 2: not JSON" in result.stderr
    assert "line 4: there is no field 'temp_1'" in result.stderr
    assert "3 rows, " in result.stderr
    assert "2 lines skipped" in result.stderr
    result = run("score", "-", "-m", folder / "plant.culpa", "--sparse", stdin=lines)
    assert len(result.stdout.splitlines()) == 4


def start(*arguments, **options):
    return subprocess.Popen(
        [*CULPA, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


def records(n):
    return [json.dumps(record).encode() + b"\n" for record in frame(n).to_dict("records")]


def test_each_line_is_answered_as_it_arrives(folder):
    process = start("explain", "-", "-m", folder / "plant.culpa", "-q")
    for row, line in enumerate(records(3)):
        process.stdin.write(line)
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["row"] == row  # would wait for ever if answers were held back
    out, err = process.communicate()
    assert (process.returncode, out, err) == (0, b"", b"")


def test_each_line_of_csv_is_answered_as_it_arrives_and_like_a_file(folder):
    table = frame(4)
    write(table, folder / "whole.csv")
    header, *lines = (folder / "whole.csv").read_bytes().splitlines(keepends=True)
    whole = run("explain", folder / "whole.csv", "-m", folder / "plant.culpa", "--all", "-q").stdout.splitlines()
    process = start("explain", "-", "-m", folder / "plant.culpa", "--all", "-q")
    process.stdin.write(header)
    answers = []
    for row, line in enumerate(lines):
        process.stdin.write(line)
        process.stdin.flush()
        answers += [process.stdout.readline() for _ in range(1 if row else 2)]  # the first comes with a header
    out, err = process.communicate()
    assert (process.returncode, out, err) == (0, b"", b"")
    assert answers[0].decode().strip() == whole[0]
    for answer, expected in zip(answers[1:], whole[1:], strict=True):
        pairs = zip(answer.decode().strip().split(","), expected.split(","), strict=True)
        for own, other in pairs:
            assert own == other or float(own) == pytest.approx(float(other), rel=1e-9)


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
@pytest.mark.parametrize("output", ["o.csv", "o.parquet", "o.ndjson"])
def test_a_killed_run_leaves_no_output(folder, how, code, output):
    process = start("score", "-", "-m", folder / "plant.culpa", "-o", folder / output)
    process.stdin.writelines(records(500))
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not any(path.suffix == ".part" and path.stat().st_size for path in folder.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(how)
    _, err = process.communicate()
    assert process.returncode == code
    assert b"Traceback" not in err
    assert not (folder / output).exists()
    if how != signal.SIGKILL:
        assert not list(folder.glob(".*"))
    assert all(path.name.startswith(".") for path in folder.glob("*.part"))


def test_a_closed_pipe_is_the_end(folder):
    process = start("score", "-", "-m", folder / "plant.culpa")
    process.stdin.writelines(records(1))
    process.stdin.flush()
    process.stdout.readline()
    process.stdout.close()
    process.stdin.writelines(records(50))
    process.stdin.close()
    with process.stderr:
        err = process.stderr.read()
    assert process.wait() == 0
    assert b"Traceback" not in err
    assert b"Broken" not in err


def test_progress_on_a_terminal_only(folder):
    ours, theirs = pty.openpty()
    subprocess.run(
        [*CULPA, "score", folder / "new.csv", "-m", folder / "plant.culpa", "-o", folder / "o.csv"],
        stderr=theirs,
        check=True,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            chunk = os.read(ours, 1 << 16)
        except OSError:  # the terminal is gone: everything has been read
            break
        if not chunk:
            break
        shown += chunk
    os.close(ours)
    assert b"40 rows, " in shown
    assert b"/s" in shown
    quiet = subprocess.run(
        [*CULPA, "score", folder / "new.csv", "-m", folder / "plant.culpa", "-o", folder / "p.csv", "-q"],
        capture_output=True,
        check=True,
    )
    assert quiet.stdout == b""
    assert quiet.stderr == b"Warning: 1 row has no observed feature, so it gets no score.\n"


def test_help_teaches_by_examples():
    for command in ("fit", "score", "explain", "info"):
        text = run(command, "--help").stdout
        assert f"culpa {command} " in text
        assert "-m plant.culpa" in text or "plant.culpa" in text
        assert "\b" not in text


@pytest.mark.parametrize("given", [["temp_0:temp_1:temp_2,temp_4:temp_1"], ["temp_0:temp_1:temp_2", "temp_4 : temp_1"]])
def test_a_flow_sheet_on_the_command_line(folder, library, given):
    """Chains by commas or one by one; the values are those of the library."""
    options = [word for text in given for word in ("--upstream", text)]
    run("explain", folder / "new.csv", "-m", folder / "plant.culpa", "--all", "-o", folder / "why.csv", *options)
    new = new_rows().drop(columns="time")
    chains = [["temp_0", "temp_1", "temp_2"], ["temp_4", "temp_1"]]
    with pytest.warns(UserWarning, match="no observed feature"):
        wanted = library.explain(new, upstream=chains).values
    found = pd.read_csv(folder / "why.csv")[list(new.columns)].to_numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
    assert np.abs(wanted[:3] - library.explain(new[:3]).values).max() > 0.1


def test_incidents_and_reports_take_a_flow_sheet_with_a_loop(folder, library):
    """As in the library: features of a loop, each upstream of the others, share their blame as without a flow sheet."""
    chains = [["temp_0", "temp_1", "temp_2"], ["temp_2", "temp_1"]]
    options = [
        folder / "new.csv",
        "-m",
        folder / "plant.culpa",
        "--gap",
        "2",
        "--upstream",
        "temp_0:temp_1:temp_2:temp_1",
    ]
    new = new_rows().drop(columns="time")
    with pytest.warns(UserWarning, match="no observed feature"):
        wanted, plain = (library.incidents(new, gap=2, **more) for more in ({"upstream": chains}, {}))
    shares = [[one.onset.culprits[0].share for one in found if one.onset.culprits] for found in (wanted, plain)]
    assert shares[0] != shares[1]
    text = run("incidents", *options, "--format", "ndjson", "--time", "none").stdout
    found = [json.loads(line)["share"] for line in text.splitlines()]
    assert [share for share in found if share is not None] == pytest.approx(shares[0])
    page = json.loads(run("report", *options, "--json", "--time", "none").stdout)
    told = [one["onset"]["culprits"][0]["share"] for one in page["incidents"] if one["onset"]["culprits"]]
    assert told == pytest.approx(shares[0])


@pytest.mark.parametrize(
    ("upstream", "error"),
    [
        ("temp_0", "at least two names joined by a colon"),
        ("temp_0:tmp_1", "did you mean 'temp_1'"),
    ],
)
def test_flow_sheets_that_make_no_sense(folder, upstream, error):
    result = run("explain", folder / "new.csv", "-m", folder / "plant.culpa", "--upstream", upstream, code=2)
    assert error in " ".join(result.output.split())


def test_a_tolerance_on_the_command_line(tmp_path):
    """With 30 features values are sampled: as few orders as the most blamed feature takes."""
    rng = np.random.default_rng(0)
    names = [f"f{k}" for k in range(30)]
    X = pd.DataFrame(rng.normal(size=(300, 3)) @ rng.normal(size=(3, 30)) + rng.normal(size=(300, 30)), columns=names)
    new = X[:3].copy()
    new.iloc[0, 4] = 9.0
    new.to_csv(tmp_path / "new.csv", index=False)
    detector = PCADetector(3).fit(X)
    detector.save(tmp_path / "wide.culpa")
    place = (tmp_path / "new.csv", "-m", tmp_path / "wide.culpa", "-o", tmp_path / "why.csv")
    run("explain", *place, "--tolerance", "top1")
    found = pd.read_csv(tmp_path / "why.csv")[names].to_numpy()
    flagged = new[detector.predict(new) == -1]
    np.testing.assert_allclose(found, detector.explain(flagged, tolerance="top1").values, rtol=1e-6, atol=1e-9)
    assert np.abs(found - detector.explain(flagged).values).max() > 1e-6
    refused = run("explain", *place, "--force", "--tolerance", "top0", code=2)
    assert "--tolerance must be a number above 0" in " ".join(refused.output.split())


def test_short_explanations_and_counterfactuals(folder, library):
    """The lines are those of the library."""
    new = new_rows().drop(columns="time")
    flagged = np.flatnonzero(library.predict(new.drop(index=7)) == -1)
    new = new.drop(index=7).iloc[flagged]
    why = library.explain(new)
    given = ("explain", folder / "new.csv", "-m", folder / "plant.culpa", "--id", "time")
    run(*given, "--shortest", "0.8", "-o", folder / "short.csv")
    short, wanted = pd.read_csv(folder / "short.csv"), why.shortest(0.8).to_frame()
    assert list(short["feature"]) == list(wanted["feature"])
    np.testing.assert_allclose(short["value"], wanted["value"], rtol=1e-6)
    assert set(short["time"]) == {f"t{row:02}" for row in new.index}
    run(*given, "--counterfactual", "-o", folder / "change.csv")
    change, wanted = pd.read_csv(folder / "change.csv"), why.counterfactual().to_frame()
    assert list(change["feature"]) == list(wanted["feature"])
    np.testing.assert_allclose(change["change_to"], wanted["change_to"], rtol=1e-6)
    assert (change["score_if_changed"] <= change["limit"]).all()
    assert change["exact"].all()


def test_short_explanations_of_batches_without_flagged_rows(folder, monkeypatch):
    """Lines do not depend on how many batches have nothing to explain."""
    given = ("explain", folder / "new.csv", "-m", folder / "plant.culpa", "--id", "time", "--shortest", "0.8", "-o")
    run(*given, folder / "whole.csv")
    monkeypatch.setattr("culpa.io.tables.csv_cells._BLOCK", 100)
    run(*given, folder / "parts.csv")
    pd.testing.assert_frame_equal(pd.read_csv(folder / "parts.csv"), pd.read_csv(folder / "whole.csv"), rtol=1e-9)
    header, *lines = (folder / "new.csv").read_text().splitlines()
    flagged = set(pd.read_csv(folder / "whole.csv")["time"])
    normal = [line for line in lines if not flagged & set(line.split(","))]
    (folder / "normal.csv").write_text("\n".join([header, *normal[:5]]) + "\n")
    run("explain", folder / "normal.csv", *given[2:], folder / "none.csv")
    assert not len(pd.read_csv(folder / "none.csv"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--shortest", "0.9", "--top", "3"), "choose one of --top, --shortest and --counterfactual"),
        (("--shortest", "1.5"), "a share above 0 and up to 1"),
    ],
)
def test_short_explanations_that_make_no_sense(folder, options, error):
    result = run("explain", folder / "new.csv", "-m", folder / "plant.culpa", *options, code=2)
    assert error in " ".join(result.output.split())


def test_names_with_colons_and_commas_in_a_flow_sheet(folder):
    names = ["T1: inlet", "a,b", "T1", "x", "y"]
    write(frame().set_axis(names, axis=1), folder / "odd.csv")
    run("fit", folder / "odd.csv", "-o", folder / "odd.culpa")
    run(
        *("explain", folder / "odd.csv", "-m", folder / "odd.culpa", "--all", "-o", folder / "odd-why.csv"),
        *("--upstream", "T1: inlet:a,b:x,T1:y"),
    )
    detector = PCADetector().fit(frame().set_axis(names, axis=1))
    wanted = detector.explain(frame().set_axis(names, axis=1), upstream=[("T1: inlet", "a,b", "x"), ("T1", "y")])
    np.testing.assert_allclose(pd.read_csv(folder / "odd-why.csv")[names], wanted.values, rtol=1e-6, atol=1e-9)


def test_uncertain_ranks_are_summed_up_once(tmp_path):
    """However many patterns of missing cells there are, and with a remedy that the command line has."""
    normal = frame(d=28)
    normal["temp_27"] = normal["temp_26"] = normal["temp_26"] + 0.01 * normal["temp_25"]
    normal[["temp_26", "temp_27"]] += np.random.default_rng(3).normal(size=(300, 2))
    new = frame(5, d=28, seed=1)
    new[["temp_26", "temp_27"]] = 30.0
    new.loc[1, "temp_3"] = new.loc[2, "temp_4"] = new.loc[3, "temp_5"] = np.nan
    write(normal, tmp_path / "normal.csv")
    write(new, tmp_path / "new.csv")
    run("fit", tmp_path / "normal.csv", "-o", tmp_path / "m.culpa")
    place = (tmp_path / "new.csv", "-m", tmp_path / "m.culpa")
    told = run("explain", *place, "--tolerance", "top28").stderr
    assert len(re.findall("is not certain in . of 5 rows after", told)) == 1
    assert "equally to blame, or ask for fewer ranks, such as --tolerance top1." in told
    assert "certain_ranks" not in told
    refused = run("explain", *place, "--tolerance", "top50", code=2).output
    assert "asks for the order of 50 features, but there are only 28 to blame." in " ".join(refused.split())
