"""False alarms of the default detector: the page says what the numbers say, and a few sets are measured again."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

from culpa import FitWarning, PCADetector
from culpa.datasets import DataFileError, load_tennessee_eastman
from culpa.experiments import alarms, alarms_page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_written_from_its_numbers():
    result = alarms_page.from_json((DOCS / "false-alarms.json").read_text(encoding="utf-8"))
    assert (DOCS / "false-alarms.md").read_text(encoding="utf-8") == alarms_page.page(result)
    assert alarms_page.from_json(alarms_page.to_json(result)) == result


def test_every_rate_on_the_page_holds():
    result = alarms_page.from_json((DOCS / "false-alarms.json").read_text(encoding="utf-8"))
    assert len(result.real) == 58
    assert not [line for line in (*result.real, *result.simulated) if not line.holds]
    by_formula = [alarms.holds(line.by_formula, line.n, 1 - line.confidence) for line in result.real]
    assert np.mean(by_formula) < 0.3  # the verdict can be no


def test_the_automatic_choice_detects_as_much_as_the_best():
    result = alarms_page.from_json((DOCS / "false-alarms.json").read_text(encoding="utf-8"))
    means = {
        name: np.mean([getattr(line, name) for line in result.detection])
        for name in ("spe", "t2", "mahalanobis", "default")
    }
    assert means["default"] >= max(means.values()) - 0.02


@pytest.mark.parametrize("name", ["diabetes", "breast cancer"])
def test_real_rows_measured_again(name):
    data = load_diabetes().data if name == "diabetes" else load_breast_cancer().data[load_breast_cancer().target == 1]
    lines = alarms.real_alarms(name, data)
    assert len(lines) == 4
    assert all(line.holds for line in lines)
    assert not all(alarms.holds(line.by_formula, line.n, 1 - line.confidence) for line in lines)


@pytest.mark.parametrize(("kind", "n", "d"), [("t4", 60, 10), ("independent", 60, 100)])
def test_simulated_rows_measured_again(kind, n, d):
    flagged = total = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        for seed in range(25):
            X = alarms.simulate(kind, n + 1000, d, seed)
            flagged += int((PCADetector(confidence=0.95).fit(X[:n]).predict(X[n:]) == -1).sum())
            total += 1000
    assert alarms.holds(flagged, total, 0.05)


def test_tennessee_eastman():
    try:
        tep = load_tennessee_eastman()
    except DataFileError as error:
        pytest.skip(str(error))
    detector = PCADetector().fit(tep.normal)
    later = (detector.predict(tep.normal_later) == -1).sum()
    assert alarms.holds(int(later), len(tep.normal_later), 0.01)
    assert detector.false_alarm_rate_.low <= 0.01 <= detector.false_alarm_rate_.high
