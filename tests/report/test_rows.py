"""Which rows have details: onsets and worst rows always, the others evenly, while there is room."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from culpa.report.rows import rows_to_explain


def table(seed, n=400):
    """Scores, flags, and incidents with their onset and worst row."""
    rng = np.random.default_rng(seed)
    score = rng.random(n) + 5 * (np.sin(np.arange(n) / rng.integers(5, 40)) > 0.5)
    flagged = score > 1
    steps = np.flatnonzero(np.diff(flagged.astype(int), prepend=0, append=0))
    incidents = [
        SimpleNamespace(
            first=int(a),
            last=int(b) - 1,
            peak=int(a + score[a:b].argmax()),
            onset=SimpleNamespace(row=int(a + score[a : min(a + 5, b)].argmax())),
        )
        for a, b in zip(steps[::2], steps[1::2], strict=True)
    ]
    return score, flagged, incidents


@given(st.integers(0, 10_000), st.integers(1, 500))
@settings(deadline=None)
def test_onset_and_worst_row_always_and_a_spacing_that_just_fits(seed, most):
    score, flagged, incidents = table(seed)
    rows, spacing = rows_to_explain(incidents, score, flagged, most)
    must = {row for one in incidents for row in (one.onset.row, one.peak)}
    assert must <= set(rows.tolist())
    assert len(rows) <= max(most, len(must))
    assert (np.diff(rows) > 0).all()

    def with_spacing(step):
        inside = [np.flatnonzero(flagged[one.first : one.last + 1])[::step] + one.first for one in incidents]
        return must | {int(row) for part in inside for row in part}

    if spacing is None:
        assert len(must) >= most or len(with_spacing(len(score))) > most
    else:
        assert with_spacing(spacing) <= set(rows.tolist())
        assert spacing == 1 or len(with_spacing(spacing - 1)) > most
    if len(rows) > len(must) and spacing == 1:  # then the worst of the other rows
        others = np.setdiff1d(np.arange(len(score)), sorted(with_spacing(1)))
        chosen = np.setdiff1d(rows, sorted(with_spacing(1)))
        assert set(chosen.tolist()) == set(others[np.argsort(-score[others], kind="stable")][: len(chosen)].tolist())


def test_rows_without_a_score_have_no_details():
    score = np.array([np.nan, 1.0, np.nan, 2.0])
    assert rows_to_explain([], score, np.zeros(4, dtype=bool), 10).rows.tolist() == [1, 3]
