"""Given columns and smoothing on the command line: the same numbers as in memory, whatever the batches."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import run

import culpa
from culpa import PCADetector


def table(n, seed=0):
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(7)
    load = rng.normal(size=(n, 1))
    X = load @ (3 * fixed.normal(size=(1, 5))) + rng.normal(size=(n, 2)) @ fixed.normal(size=(2, 5))
    X += 0.5 * rng.normal(size=(n, 5))
    return pd.DataFrame(np.hstack([X[:, :2], load, X[:, 2:]]), columns=["a", "b", "load", "c", "d", "e"])


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        (["--given", "load"], {"given": ["load"]}),
        (["--smooth", "0.2"], {"smooth": 0.2}),
        (["--given", "load,e", "--smooth", "0.3"], {"given": ["load", "e"], "smooth": 0.3}),
        (["--given", "load", "--lags", "1"], {"given": ["load"], "lags": 1}),
    ],
)
@pytest.mark.filterwarnings("ignore:.*or a given feature is missing")
def test_equals_the_library(tmp_path, options, parameters):
    normal, new = table(400), table(60, seed=1)
    new.loc[30:45, "c"] += 5
    normal.to_parquet(tmp_path / "normal.parquet", row_group_size=64)
    new.to_parquet(tmp_path / "new.parquet", row_group_size=7)
    model, out = tmp_path / "m.culpa", tmp_path / "out.parquet"
    run("fit", tmp_path / "normal.parquet", "-o", model, *options, "--quiet")
    detector = PCADetector(**parameters).fit(normal)
    assert culpa.load(model).limit_ == pytest.approx(detector.limit_, rel=1e-7)
    run("score", tmp_path / "new.parquet", "-m", model, "-o", out, "--quiet")
    score = pd.read_parquet(out)["score"].to_numpy(float)
    np.testing.assert_allclose(score, -detector.score_samples(new), rtol=1e-7)
    run("explain", tmp_path / "new.parquet", "-m", model, "-o", out, "--quiet", "--force", "--all")
    why, found = detector.explain(new), pd.read_parquet(out)
    np.testing.assert_allclose(found[list(why.feature_names)], why.values, rtol=1e-6, atol=1e-8)
    assert not set(parameters.get("given", [])) & set(found.columns)
    run("incidents", tmp_path / "new.parquet", "-m", model, "-o", out, "--quiet", "--force", "--gap", "3")
    sentences = pd.read_parquet(out)["sentence"].tolist()
    assert sentences == [incident.sentence for incident in detector.incidents(new, gap=3)]
    run("report", tmp_path / "new.parquet", "-m", model, "-o", tmp_path / "page.html", "--quiet")


def test_info_tells(tmp_path):
    table(200).to_csv(tmp_path / "normal.csv", index=False)
    run("fit", tmp_path / "normal.csv", "-o", tmp_path / "m.culpa", "--given", "load", "--smooth", "0.2", "--quiet")
    about = json.loads(run("info", tmp_path / "m.culpa", "--json").stdout)
    assert about["given"] == ["load"]
    assert about["smooth"] == 0.2
    assert [feature["name"] for feature in about["features"]] == ["a", "b", "c", "d", "e"]
    assert "given load; rows smoothed with weight 0.2" in run("info", tmp_path / "m.culpa").stdout


def test_wrong_values_are_told_in_one_sentence(tmp_path):
    table(50).to_csv(tmp_path / "normal.csv", index=False)
    fit = ["fit", tmp_path / "normal.csv", "-o", tmp_path / "m.culpa"]
    assert "lode" in run(*fit, "--given", "lode", code=2).output
    assert "--smooth" in run(*fit, "--smooth", "3", code=2).output


def test_calibrate_does_not_offer_what_it_cannot_do(tmp_path):
    option = "--smooth=0.2"
    table(50).to_csv(tmp_path / "normal.csv", index=False)
    assert option.split("=")[0] not in run("calibrate", "--help").output
    assert "No such option" in run("calibrate", tmp_path / "normal.csv", option, code=2).output
