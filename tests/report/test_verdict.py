"""The verdict: what it calls normal, what it calls unusual, and since when."""

import numpy as np
import pytest

from culpa.report.verdict import began, verdict


def said(flagged, scored=None, n_incidents=1, worst=None):
    flagged = np.array(flagged, dtype=bool)
    scored = np.ones(len(flagged), dtype=bool) if scored is None else np.array(scored, dtype=bool)
    return verdict(flagged, scored, n_incidents, 0.99, worst, lambda row: f"row {row}")


def test_says_from_when_on_rows_are_flagged():
    text, mood = said([False] * 160 + [True] * 800)
    assert text == (
        "From row 160 on, all 800 rows are above the 99% limit, in 1 incident; of the 160 rows before, none is."
    )
    assert mood == "alarm"
    assert "as a whole" not in text


def test_a_stray_flag_before_and_a_gap_after_change_nothing_but_the_counts():
    flagged = np.repeat([False, True], [160, 800])
    flagged[[50, 60]] = True
    flagged[[170, 400, 401]] = False
    text = said(flagged, n_incidents=4).text
    assert text.startswith("From row 160 on, 797 of 800 rows (99.62%) are above the 99% limit, in 4 incidents; of the")
    assert text.endswith("of the 160 rows before, 2 are.")


def test_rows_without_a_score_do_not_count():
    scored = np.ones(960, dtype=bool)
    scored[:100] = scored[500:600] = False
    text = said(np.repeat([False, True], [160, 800]) & scored, scored).text
    assert text.startswith("From row 160 on, all 700 rows with a score are above")
    assert "of the 60 rows before, none is" in text


@pytest.mark.parametrize(
    "flagged",
    [
        [True] * 100,
        [False] * 9 + [True] * 91,  # too few to tell that the data were normal once
        [True] * 300 + [False] * 14,  # too few of all rows
        np.random.default_rng(0).random(1000) < 0.7,  # now and then, all over the table
    ],
)
def test_data_as_a_whole(flagged):
    assert "these data as a whole are not what the model learned" in said(flagged).text


@pytest.mark.parametrize(("before", "after"), [(600, 0), (300, 300)])
def test_a_long_normal_stretch_is_named(before, after):
    text = said([True] * before + [False] * 200 + [True] * after, n_incidents=2).text
    assert "as a whole" not in text
    assert f"The 200 rows from row {before} to row {before + 199} are normal." in text


def test_the_worst_of_one_incident_is_the_incident():
    assert said([False] * 99 + [True], worst="It broke.").text.endswith("by chance alone. It broke.")
    assert said([False] * 99 + [True], n_incidents=2, worst="It broke.").text.endswith(" The worst: It broke.")


def test_the_beginning_is_where_the_balance_of_flags_turns():
    rng = np.random.default_rng(1)
    for start in (20, 77, 300):
        flagged = np.concatenate([rng.random(start) < 0.03, rng.random(600) < 0.97])
        assert abs(began(flagged) - start) <= 2
    assert began(np.zeros(50, dtype=bool)) is None
