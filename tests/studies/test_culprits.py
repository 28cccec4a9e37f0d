"""Rankings on recorded incidents: the numbers are what the page must show, and are measured again."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from studies import culprits

DOCS = Path(__file__).parents[2] / "docs"
recorded = pytest.mark.skipif(
    not Path(os.environ.get("CULPA_DATA", ""), "asd").is_dir() or not os.environ.get("CULPA_DATA"),
    reason="the recorded incidents are not in the folder that CULPA_DATA names",
)


def kept():
    return json.loads((DOCS / "culprits.json").read_text(encoding="utf-8"))


def of(found, ranking, by="incident"):
    (one,) = (each for each in found["hits"] if (each["ranking"], each["by"]) == (ranking, by))
    return np.array([one[measure] for measure in culprits.MEASURES])


def test_the_default_beats_z_scores_and_finds_the_disturbances():
    found = kept()
    assert (of(found, "moved (default)") > of(found, "z-scores")).all()
    assert (of(found, "moved (default)") > of(found, "robust z-scores (median and IQR)")).all()
    assert [culprits.is_found(fault) for fault in found["plant"]] == [
        False,
        True,
        True,
        True,
        True,
        True,
        True,
        None,
        True,
    ]
    assert {fault["fault"]: fault["kind"] for fault in found["plant"]}["13"] == "process"


def test_what_the_page_says_was_reached():
    """Figures may get better; what was reached stays reached."""
    reached = {figure["what"]: figure["reached"] for figure in kept()["figures"]}
    assert all(reached[name] for name in reached if "frozen" in name or "unit" in name)
    assert reached["fault 13: kind"]


def test_hit_rates_by_hand():
    culprit = np.array([True, True, False, False, False])
    blame = np.array([5.0, 1.0, 4.0, 3.0, 2.0])
    assert culprits.hit_rate(blame, culprit, 1.0) == 0.5
    assert culprits.hit_rate(blame, culprit, 2.5) == 1.0
    assert culprits.hits_first(blame, culprit) == 1.0
    assert culprits.hits_first(-blame, culprit) == 1.0
    assert culprits.hits_first(np.array([0.0, 1.0, 1.0, 0.0, 0.0]), culprit) == 0.5


@recorded
def test_measured_again():
    """One server and the plant, as on the page."""
    found = culprits.run(servers=("05",))
    again = {fault["fault"]: fault["culprits"] for fault in found["plant"]}
    assert again == {fault["fault"]: fault["culprits"] for fault in kept()["plant"]}
    assert (of(found, "moved (default)") > of(found, "z-scores")).all()
    assert of(found, "moved (default)") == pytest.approx([0.867, 0.967, 1.0], abs=0.08)
