"""False alarms of the default detector: what the page must show, and a few sets measured again."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

from culpa import FitWarning, PCADetector
from culpa.datasets import DataFileError
from studies import false_alarms
from studies.recorded import load_tennessee_eastman

DOCS = Path(__file__).parents[2] / "docs"


def kept():
    return json.loads((DOCS / "false-alarms.json").read_text(encoding="utf-8"))


def by_formula_holds(line):
    return false_alarms.holds(line["by_formula"], line["n"], 1 - line["confidence"])


def test_every_rate_on_the_page_holds():
    result = kept()
    assert len(result["real"]) == 58
    assert all(map(false_alarms.in_tolerance, result["real"] + result["simulated"]))
    by_formula = [by_formula_holds(line) for line in result["real"]]
    assert np.mean(by_formula) < 0.3  # the verdict can be no


def test_stated_intervals_on_the_page_contain_what_came():
    stated = kept()["stated"]
    assert sum(map(false_alarms.covers, stated["machines"])) >= len(stated["machines"]) - 2
    assert len(stated["autoregressive"]) == 16
    for line in stated["autoregressive"]:
        assert line["covered"] + line["fits"] - line["promised"] >= 0.85 * line["fits"]
        assert (line["promised"] > 0) == (line["n"] / ((1 + line["phi"] ** 2) / (1 - line["phi"] ** 2)) > 30)


def test_the_limit_that_follows_flags_what_was_asked_for_and_finds_more_events_on_the_page():
    tep, *servers = kept()["in_order"]
    rates = np.array([[false_alarms.realised(line, limit) for limit in false_alarms.LIMITS] for line in servers])
    fixed, follows = ((rates >= 0.3) & (rates <= 2)).sum(axis=0)
    assert fixed <= 5
    assert follows >= 14
    assert ((rates[:, 1] >= 0.2) & (rates[:, 1] <= 3)).all()
    assert tep["follows"]["found"] == tep["events"]
    for folder, least in (("smd", 0.95), ("asd", 0.82)):
        some = [line for line in servers if line["name"].startswith(folder)]
        found, fixed = (sum(line[limit]["found"] for line in some) for limit in ("follows", "fixed"))
        assert fixed < found
        assert found >= least * sum(line["events"] for line in some)


def test_stretches_of_flagged_rows_count_if_no_row_between_is_faulty():
    flagged = np.isin(np.arange(100), [3, 5, 15, 26, 50, 58, 90])
    faulty = np.isin(np.arange(100), [54, 90])
    assert false_alarms._flagged_normal(flagged, faulty) == {"flagged": 6, "stretches": 2}  # 3 to 15, and 26
    assert false_alarms._flagged_normal(np.zeros(9, dtype=bool), faulty[:9]) == {"flagged": 0, "stretches": 0}


def test_the_automatic_choice_detects_as_much_as_the_best():
    result = kept()
    means = {name: np.mean([line[name] for line in result["detection"]]) for name in false_alarms.DETECTORS}
    assert means["default"] >= max(means.values()) - 0.02


@pytest.mark.parametrize("name", ["diabetes", "breast cancer"])
def test_real_rows_measured_again(name):
    data = load_diabetes().data if name == "diabetes" else load_breast_cancer().data[load_breast_cancer().target == 1]
    lines = false_alarms.real_alarms(name, data)
    assert len(lines) == 4
    assert all(map(false_alarms.in_tolerance, lines))
    assert not all(map(by_formula_holds, lines))


@pytest.mark.parametrize(("kind", "n", "d"), [("t4", 60, 10), ("independent", 60, 100)])
def test_simulated_rows_measured_again(kind, n, d):
    flagged = total = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        for seed in range(25):
            X = false_alarms.simulate(kind, n + 1000, d, seed)
            flagged += int((PCADetector(confidence=0.95).fit(X[:n]).predict(X[n:]) == -1).sum())
            total += 1000
    assert false_alarms.holds(flagged, total, 0.05)


def test_tennessee_eastman():
    try:
        tep = load_tennessee_eastman()
    except DataFileError as error:
        pytest.skip(str(error))
    detector = PCADetector().fit(tep.normal)
    later = (detector.predict(tep.normal_later) == -1).sum()
    assert false_alarms.holds(int(later), len(tep.normal_later), 0.01)
    assert detector.false_alarm_rate_.low <= 0.01 <= detector.false_alarm_rate_.high
