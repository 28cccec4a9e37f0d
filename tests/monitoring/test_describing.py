"""Sentence, heat map and rows say the same: over random incidents, and over every run of a chemical plant."""

import os
import re
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from culpa import PCADetector
from culpa.monitoring.judged import Blamer, RowJudge

FOLDER = Path(os.environ.get("CULPA_DATA", "nowhere")) / "tep"


def check(detector, rows, incident):
    """What an incident says, against Shapley values and readings of its rows."""
    names, sentence = list(rows.columns), incident.sentence
    first = sentence.split(". ")[0]
    assert len(first.split()) <= 30
    judge = RowJudge(detector.fitted)
    seen = judge.judge(detector.fitted.rows(rows)).seen
    values = (
        Blamer(judge, lambda explainer: partial(explainer._one_pass.explain_scored, parts="values")).blame(seen).values
    )
    at = np.flatnonzero((seen.rows.reading.labels >= incident.first) & (seen.rows.reading.labels <= incident.last))[:3]
    values, score = values[at] / seen.scale[at, None], seen.rows.score[at] / seen.scale[at]
    shares = values.sum(axis=0) / score.sum()
    for k in np.flatnonzero(shares > 0.25):
        assert names[k] in first
        assert incident.blamed_first[names[k]] >= shares[k] - 1e-6
    for name in incident.blamed_first:
        k = names.index(name)
        assert max(shares[k], (values[:, k] / score).max()) > 0.25
        assert name in first
    blamed = list(incident.blamed_first) or [culprit.feature for culprit in incident.onset.culprits]
    assert any(name in first for name in blamed) == bool(blamed)
    normal = detector.mean_, np.sqrt(np.diag(detector.model_.get_covariance())) * detector.scale_
    inside = rows[incident.first : incident.last + 1].to_numpy()
    away = np.abs((inside - normal[0]) / normal[1])
    tenth, part = max(len(inside) // 10, 1), len(inside) // 32 + 1  # averages are kept for parts of an incident
    for name in incident.stayed_off:
        k = names.index(name)
        assert away[-tenth - part :, k].mean() > 1.5
        assert np.mean(away[-tenth - part :, k] >= 2) >= 0.3
        assert np.mean(away[:, k] >= 2) >= 0.5
        assert incident.n_flagged >= 2
    for name in incident.came_back:
        k = names.index(name)
        assert away[: len(inside) // 2 + part, k].max() > 3
        assert np.median(away[-tenth:, k]) < 2
        assert name not in incident.stayed_off
    told = sentence.partition("stayed off")[0].rsplit(". ", 1)[-1]
    assert ("stayed off" in sentence) == bool(incident.stayed_off)
    assert all(
        name in incident.stayed_off for name in names if re.search(rf"\b{name}\b", told) and "off" in sentence
    ) or not (incident.stayed_off)
    for one in incident.spread:
        low, high = detector.fitted.normal_range.low, detector.fitted.normal_range.high
        k = names.index(one.feature)
        z = (inside[:, k] - detector.mean_[k]) / detector.scale_[k]
        beyond = np.maximum(low[k] - z, z - high[k]) / (high[k] - low[k])
        assert beyond[one.row - incident.first] > 0.25
        assert (beyond[: one.row - incident.first] <= 0.5).all()
    assert ("Still open" in sentence) == (incident.status == "open")


def simulated(seed):
    """A detector, and rows with a lasting or passing fault in some features."""
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(5, 15)), 160
    mix = rng.normal(size=(d // 3, d))
    names = [f"tag_{chr(97 + k)}" for k in range(d)]
    rows = lambda m: rng.normal(size=(m, d // 3)) @ mix + 0.5 * rng.normal(size=(m, d))  # noqa: E731
    detector = PCADetector().fit(pd.DataFrame(rows(400), columns=names))
    new, start = rows(n), int(rng.integers(10, 80))
    for k in rng.permutation(d)[: rng.integers(1, 4)]:
        stop = int(rng.integers(start + 1, n + 1))
        new[start:stop, k] += rng.choice([-1, 1]) * rng.uniform(3, 12) * np.linspace(rng.integers(2), 1, stop - start)
    return detector, pd.DataFrame(new, columns=names)


@pytest.mark.parametrize("seed", range(25))
def test_random_incidents(seed):
    detector, rows = simulated(seed)
    found = detector.incidents(rows)
    for incident in (*found, *found.unconfirmed):
        check(detector, rows, incident)


@pytest.fixture(scope="module")
def plant():
    if not (FOLDER / "tep.npz").exists():
        pytest.skip("no data")
    with np.load(FOLDER / "tep.npz") as file:
        runs = {name: file[name] for name in file.files}
    names = [str(name) for name in runs.pop("names")]
    tables = {name: pd.DataFrame(rows, columns=names) for name, rows in runs.items()}
    return PCADetector().fit(tables.pop("normal")), tables


def test_every_run_of_the_plant(plant):
    detector, tables = plant
    for rows in tables.values():
        for incident in detector.incidents(rows):
            check(detector, rows, incident)


def test_one_spike_is_not_staying_off():
    """A feature with a single far reading in the last tenth was off for one row, whatever the mean of its distances."""
    rng = np.random.default_rng(1)
    rows = lambda n: rng.normal(size=(n, 6))  # noqa: E731
    detector = PCADetector().fit(pd.DataFrame(rows(600), columns=list("abcdef")))
    new = pd.DataFrame(rows(120), columns=list("abcdef"))
    new.loc[20:79, "a"] += 8
    new.loc[[22, 77], "b"] += 300
    (incident,) = [one for one in detector.incidents(new) if one.first == 20]
    assert incident.stayed_off == ("a",)


def test_a_normal_run_as_a_known_stretch_spreads_to_hardly_anything(plant):
    """960 normal rows are a longer stretch than the training rows: they go farther, and that is no news."""
    detector, tables = plant
    (whole,) = detector.incidents(tables["normal_later"], stretches=[(0, 959)])
    assert not whole.spread
    assert not whole.stayed_off


def test_a_pressure_that_came_back_is_not_said_to_have_stayed_off(plant):
    """A stream was lost: it is named, its valve stays open, and the pressures that moved with it come back."""
    detector, tables = plant
    incident = detector.incidents(tables["fault07"])[0]
    assert incident.sentence.startswith("XMEAS04 stood out first, in row 160.")
    assert incident.stayed_off == ("XMV04",)
    assert {"XMEAS07", "XMEAS13", "XMEAS16"} <= set(incident.came_back)
