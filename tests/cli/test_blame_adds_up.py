"""Wherever a score stands beside blame, in any game and with missing cells, the blame adds up to the score."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import run, write

from culpa import PCADetector

NAMES = ["a", "b", "c", "d", "e"]


@pytest.fixture(scope="module", params=["conditional", "interventional", "minimal", "retraining"])
def case(request, tmp_path_factory):
    """A detector that plays this game, rows with missing cells, most of them flagged, their base values, and a folder."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("adds_up")
    rows = rng.normal(size=(320, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(320, 5))
    detector = PCADetector(n_components=2, statistic="spe", game=request.param).fit(
        pd.DataFrame(rows[:300], columns=NAMES)
    )
    new = rows[300:].copy()
    new[:, 1] += 4
    new[::2, 0] = new[::3, 2] = new[1::4, 4] = np.nan
    new = pd.DataFrame(new, columns=NAMES)
    detector.save(folder / "model.culpa")
    write(new, folder / "new.csv")
    why = detector.explain(new)
    return detector, new, np.broadcast_to(why.base_value, len(new)), folder


def test_explanations(case):
    detector, new, base, _ = case
    why = detector.explain(new)
    np.testing.assert_allclose(why.score, -detector.score_samples(new), rtol=1e-9)
    np.testing.assert_allclose(why.values.sum(axis=1) + base, why.score, rtol=1e-9)
    whole = why.top(5).assign(whole=lambda lines: lines["share"] * lines["score"])
    np.testing.assert_allclose(whole["whole"], whole["value"], rtol=1e-9)
    np.testing.assert_allclose(whole.groupby("row")["value"].sum() + base, why.score, rtol=1e-9)


def test_outputs_of_culpa_explain(case):
    _, new, base, folder = case
    wide = ("explain", folder / "new.csv", "-m", folder / "model.culpa", "--all", "-q", "--force", "-o")
    run(*wide, folder / "why.csv")
    why = pd.read_csv(folder / "why.csv")
    np.testing.assert_allclose(why[NAMES].sum(axis=1) + base, why["score"], rtol=1e-9)
    run(*wide, folder / "top.csv", "--top", 5)
    lines = pd.read_csv(folder / "top.csv")
    by_row = lines.groupby("row").agg({"value": "sum", "score": "first"})
    np.testing.assert_allclose(by_row["value"] + base, by_row["score"], rtol=1e-9)
    write(new, folder / "new.jsonl")
    run("explain", folder / "new.jsonl", *wide[2:], folder / "why.jsonl", "--top", 5)
    answers = [json.loads(line) for line in (folder / "why.jsonl").read_text().splitlines()]
    by_row = pd.DataFrame(answers).groupby("row").agg({"value": "sum", "score": "first"})
    np.testing.assert_allclose(by_row["value"] + base, by_row["score"], rtol=1e-9)


def test_incidents_and_report(case):
    detector, new, base, _ = case
    why, seen = detector.explain(new), 0
    for incident in detector.incidents(new):
        for moment in (incident.onset, incident.worst):
            assert why.score[moment.row] == pytest.approx(moment.score, rel=1e-9)
            for culprit in moment.culprits:
                value = why.values[moment.row, NAMES.index(culprit.feature)]
                assert culprit.value == pytest.approx(value, rel=1e-9)
                assert culprit.share == pytest.approx(value / moment.score, rel=1e-9)
                seen += 1
        for stage in incident.timeline:
            rows = np.arange(stage.first, stage.last + 1)
            rows = rows[-detector.score_samples(new.iloc[rows]) > detector.limit_]
            unblamed = base[rows].sum() / why.score[rows].sum()
            assert sum(stage.shares.values()) + unblamed == pytest.approx(1, abs=0.05)  # small shares are left out
    assert seen
    for detail in detector.report(new).content["details"]["rows"]:
        shown = sum(value for value in detail["value"] if value is not None)
        assert detail["base_value"] + shown == pytest.approx(detail["score"], rel=1e-5)
        assert detail["score"] == pytest.approx(why.score[detail["row"]], rel=1e-5)
