"""Rows with missing cells get the same values with forms of their patterns as without."""

import numpy as np
import pytest

from culpa import Explainer, PCADetector
from culpa._core.missing import kinds_of_rows, patterns
from culpa.shapley import pattern_forms
from culpa.shapley.pattern_forms import PatternCost, PatternForms

D = 7
WAYS = {
    "exact": {},
    "sampled": {"method": "permutation", "n_orders": 48},
    "groups": {"groups": {"a": [0, 1], "b": [2, 3, 4]}},
    "given": {"given": [0]},
    "minimal": {"game": "minimal"},
    "retraining": {"game": "retraining"},
    "interventional": {"game": "interventional"},
    "sampled retraining": {"game": "retraining", "method": "permutation", "n_orders": 12},
}


@pytest.fixture(scope="module")
def detector_and_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 3)) @ rng.normal(size=(3, D)) + 0.5 * rng.normal(size=(500, D))
    detector = PCADetector(n_components=3).fit(rows)
    new = rows.copy()
    new[:200, 2] = new[200:380, 1] = new[200:380, 4] = new[380:490, 0] = np.nan
    new[490:, 3] = np.nan
    return detector, new


@pytest.mark.parametrize("way", WAYS)
def test_values_are_the_same(way, detector_and_rows, monkeypatch):
    detector, new = detector_and_rows
    found = []
    keep = PatternForms.keep
    monkeypatch.setattr(PatternForms, "keep", lambda self, *rest: (found.append(rest[0]), keep(self, *rest)))
    walked = Explainer(detector, **WAYS[way]).explain(new)
    assert not found
    explainer = Explainer(detector, **WAYS[way])
    explainer = explainer if way == "interventional" else explainer.compile()
    why = explainer.explain(new)
    # the fourth pattern has too few rows, and a closed form needs no others
    assert len({mask.tobytes() for mask in found}) == (0 if way == "interventional" else 3)
    size = np.abs(walked.values).max()
    np.testing.assert_allclose(why.values, walked.values, rtol=0, atol=1e-10 * size)
    np.testing.assert_allclose(why.std_error, walked.std_error, rtol=0, atol=1e-10 * size)
    assert why.n_replicates == walked.n_replicates


def test_a_pattern_is_compiled_when_its_rows_have_cost_as_much(detector_and_rows, monkeypatch):
    detector, new = detector_and_rows
    made = []
    original = pattern_forms.PatternForms.keep
    monkeypatch.setattr(PatternForms, "keep", lambda self, *rest: (made.append(1), original(self, *rest)))
    explainer = Explainer(detector).compile()
    one_by_one = [explainer.explain(new[[row]]).values[0] for row in range(40)]
    assert len(made) == 1  # after (6 x 7) / 2 rows
    np.testing.assert_allclose(one_by_one, Explainer(detector).explain(new[:40]).values, rtol=0, atol=1e-12)


def test_forms_that_were_used_last_stay_within_memory():
    forms, cost = PatternForms(), PatternCost(prepare=10.0, together=0.0, each=6.0)
    masks = [np.arange(4) != hole for hole in range(4)]
    assert not forms.are_due(masks[0], cost, 1)
    assert forms.are_due(masks[0], cost, 1)
    assert not forms.are_due(masks[1], cost, 1)

    class Form:
        n_bytes = 10

    forms.keep(masks[0], Form(), memory=25)
    forms.keep(masks[1], Form(), memory=25)
    assert forms.get(masks[0]) is not None
    forms.keep(masks[2], Form(), memory=25)
    assert [forms.get(mask) is not None for mask in masks] == [True, False, True, False]


@pytest.mark.parametrize("d", [3, 8, 20, 64, 65, 130])
def test_kinds_of_rows(d):
    missing = np.random.default_rng(d).random((50, d)) < 0.05
    expected, of_row = np.unique(missing, axis=0, return_inverse=True)
    kinds, kind_of_row = kinds_of_rows(missing)
    np.testing.assert_array_equal(kinds, expected)
    np.testing.assert_array_equal(kind_of_row, of_row.ravel())
    together = [rows for rows, _ in patterns(np.where(missing, np.nan, 0.0))]
    assert sorted(np.concatenate(together).tolist()) == list(range(50))
