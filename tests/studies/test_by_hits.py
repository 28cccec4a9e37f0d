"""The choice by hits alone, behind the comparison of ranking criteria."""

import numpy as np

from culpa.calibration import Setting
from culpa.calibration.plan import Plan
from culpa.datasets import make_plant
from studies.by_hits import most_hits, preferred


def test_shapley_values_are_preferred_when_as_good():
    shapley, other = Setting(4, 1.0, 0.0, "spe"), Setting(4, 1.0, 0.0, "spe", ranking="rbc")
    source = np.arange(400)
    rng = np.random.default_rng(0)
    hits = (rng.random(400) < 0.7).astype(float)
    slightly = np.where(np.arange(400) < 3, 1.0, hits)
    slightly[-2:] = 0.0
    clearly = np.where(np.arange(400) < 80, 1.0, hits)
    assert preferred([other, shapley], {other: slightly, shapley: hits}, source) == shapley
    assert preferred([other, shapley], {other: clearly, shapley: hits}, source) == other
    assert preferred([other], {other: hits}, source) == other


def test_entries_are_sorted_by_hits():
    plant = make_plant(300, 100, faults=())
    few = [Setting(4, 1.0, 0.0, "spe", ranking="z-score"), Setting(4, 1.0, 0.0, "mahalanobis", ranking="fault-odds")]
    found = most_hits(plant.normal, 4, Plan(few, n_trials=200))
    assert found.best == few[1]
    assert [entry.setting for entry in found.entries] == few[::-1]
    assert found.n_trials > 190
