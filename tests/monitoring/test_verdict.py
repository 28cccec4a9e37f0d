"""Sensor or process, on rows where the answer is known."""

from dataclasses import replace

import numpy as np
import pytest

from culpa import PCADetector
from culpa.datasets import make_plant
from culpa.datasets.plant import _SENSORS
from culpa.monitoring.unit_changes import CONVERSIONS, changed_unit
from culpa.monitoring.verdict import ROWS, Verdicts
from culpa.scores.consistency import LENGTHS, Consistency

GAINS = np.array([gains for _, gains, _ in _SENSORS.values()])


@pytest.fixture(scope="module")
def plant():
    return make_plant(n_new=300, faults=())


@pytest.fixture(scope="module")
def fitted(plant):
    return PCADetector().fit(plant.normal).fitted


def judged(fitted, new, outputs=(), **options):
    rows = fitted.model.standardise(new)
    return Verdicts(fitted.model.gaussian, fitted.consistency, outputs).judge(rows, **options)


def biased(plant, column, size, n=60):
    new = plant.new[:n].copy()
    new[:, column] += size * plant.normal[:, column].std()
    return new


@pytest.mark.parametrize("column", range(12))
def test_biased_sensor(plant, fitted, column):
    verdict = judged(fitted, biased(plant, column, 3.0))
    assert (verdict.kind, verdict.why, verdict.columns) == ("sensor", "alone", (column,))
    rows = fitted.model.standardise(plant.normal)
    others = np.delete(rows, column, axis=1)
    residual = rows[:, column] - others @ np.linalg.lstsq(others, rows[:, column], rcond=None)[0]
    assert verdict.explained == pytest.approx(1 - residual.var() / rows[:, column].var(), abs=0.02)


@pytest.mark.parametrize("seed", range(6))
def test_process_that_moved(plant, fitted, seed):
    rng = np.random.default_rng(seed)
    shift = rng.normal(size=3)
    shift *= 6 / np.linalg.norm(shift)
    verdict = judged(fitted, plant.new + GAINS @ shift)
    assert (verdict.kind, verdict.columns) == ("process", ())


def test_normal_rows_are_undecided(plant, fitted):
    verdict = judged(fitted, plant.new)
    assert (verdict.kind, verdict.why, verdict.columns) == ("undecided", "unclear", ())


def test_too_early_until_the_rows_are_there_or_over(plant, fitted):
    new = biased(plant, 2, 3.0)
    assert judged(fitted, new[: ROWS - 1]).why == "early"
    assert judged(fitted, new[:ROWS]).why == "alone"
    assert judged(fitted, new[:8], over=True).why == "alone"


def test_only_the_first_rows_count(plant, fitted):
    new = biased(plant, 2, 3.0)
    again = new.copy()
    again[ROWS:] *= 2
    assert judged(fitted, again) == judged(fitted, new)


def test_output_of_a_controller_is_no_wrong_sensor(plant, fitted):
    verdict = judged(fitted, biased(plant, 2, 3.0), outputs=[2])
    assert (verdict.kind, verdict.why, verdict.columns) == ("undecided", "output", (2,))
    assert judged(fitted, biased(plant, 3, 3.0), outputs=[2]).kind == "sensor"


def test_few_rows_just_beyond_the_limit_are_undecided(plant, fitted):
    new = plant.new + GAINS @ np.array([4.0, 0.0, 0.0])
    verdicts = {judged(fitted, new[at : at + 5], over=True).why for at in range(50)}
    assert "brief" in verdicts
    assert judged(fitted, new).kind == "process"


def twins(n=1200):
    """A column and its copy, beside others."""
    rng = np.random.default_rng(0)
    level = rng.normal(size=n)
    return np.column_stack([level, level + 1e-3 * rng.normal(size=n), rng.normal(size=(n, 4))])


def test_columns_that_imply_each_other_are_both_named():
    rows = twins()
    fitted = PCADetector().fit(rows[:1000]).fitted
    new = rows[1000:].copy()
    new[:, 0] += 0.1
    verdict = judged(fitted, new)
    assert verdict.kind == "sensor"
    assert {*verdict.columns, *verdict.instead} == {0, 1}


def test_two_wrong_sensors_are_undecided_and_both_named(plant, fitted):
    new = biased(plant, 2, 3.0)
    new[:, 8] += 3 * plant.normal[:, 8].std()
    verdict = judged(fitted, new)
    assert (verdict.kind, verdict.why) == ("undecided", "pair")
    assert set(verdict.columns) == {2, 8}


def test_one_row_that_is_not_far_off_is_no_wrong_sensor(plant, fitted):
    """A sensor that is wrong is so in more than one row, unless that row is beyond doubt."""
    new = plant.new[:20].copy()
    new[4, 2] += 3 * plant.normal[:, 2].std()
    few = judged(fitted, new, over=True)
    assert (few.kind, few.why, few.columns) == ("undecided", "brief", (2,))
    new[4, 2] += 60 * plant.normal[:, 2].std()
    assert judged(fitted, new, over=True).kind == "sensor"


def test_a_second_column_that_disagrees_clearly_makes_it_the_process(fitted):
    """Even where the rest of the distance is as in normal rows, because many columns share in it."""
    gaussian, normal = fitted.model.gaussian, fitted.consistency
    one = Verdicts(gaussian, normal)
    calm = replace(normal, rest=normal.rest * 1e3, highest=normal.highest * 1e3)
    rows = np.zeros((ROWS, 12))
    rows[:, 2], rows[:, 8] = 3.0, 3.0
    assert one.judge(rows).why == "pair"
    verdict = Verdicts(gaussian, calm).judge(rows)
    assert (verdict.kind, verdict.why) == ("process", "several")
    rows[:, 8] = 0.0
    assert Verdicts(gaussian, calm).judge(rows).kind == "sensor"


def by_definition(gaussian, normal, Z):
    """The rule with inverses of parts of the covariance: kind and columns."""
    C, at, d = gaussian.covariance, int(np.argmin([abs(m - len(Z)) for m in LENGTHS])), Z.shape[1]

    def without(gone):
        stay = [k for k in range(d) if k not in gone]
        P = np.linalg.inv(C[np.ix_(stay, stay)])
        R = Z[:, stay] @ P
        squares = np.zeros(Z.shape)
        squares[:, stay] = R**2 / np.diag(P)
        return np.einsum("ni,ni->n", R, Z[:, stay]), squares

    D, squares = without([])
    j = int(squares.mean(axis=0).argmax())
    own = squares.mean(axis=0)[j] / normal.own[at, j]
    rest, others = without([j])
    both = without([j, k := int(others.mean(axis=0).argmax())])[0]
    Q, Q2 = (max(x.mean() / normal.rest[at, j], x.max() / normal.highest[at, j]) for x in (rest, both))
    B = (others.mean(axis=0) / (normal.own[at] * normal.spread[at])).max()
    P = np.linalg.inv(C)
    if own >= 4 and (Q <= 1.25 or (Q < 1.4 and B <= 1)):
        if (others.mean(axis=0) / np.maximum(normal.own[at] * normal.spread[at], 1)).max() >= 4:
            return "process", ()
        alone = own < 20 and (normal.limit < D).sum() <= 1
        return "undecided" if alone else "sensor", (j,)
    if Q < 1.4:
        return "undecided", (j,) if own >= 4 else ()
    if (normal.limit < D).sum() < 10 and D.max() < 2 * normal.limit:
        return "undecided", ()
    if own < 4:
        return "process", ()
    if B <= 1.25:
        return "undecided", (j,)
    if abs(P[j, k]) < 0.3 * np.sqrt(P[j, j] * P[k, k]) and Q2 <= 1.25:
        return "undecided", (j, k)
    return "process", ()


def test_rule_is_that_of_the_definition(plant, fitted):
    rng = np.random.default_rng(0)
    gaussian, seen = fitted.model.gaussian, set()
    for _ in range(300):
        n, at = rng.integers(3, ROWS + 1), rng.integers(0, 200)
        new = plant.new[at : at + n] + rng.uniform(0, 2) * GAINS @ rng.normal(size=3) * (rng.random() < 0.5)
        for column in rng.choice(12, rng.integers(0, 4), replace=False):
            new[:, column] += rng.uniform(0, 3) * plant.normal[:, column].std()
        rows = fitted.model.standardise(new)
        verdict = Verdicts(gaussian, fitted.consistency).judge(rows, over=True)
        assert (verdict.kind, verdict.columns) == by_definition(gaussian, fitted.consistency, rows)
        seen.add((verdict.kind, len(verdict.columns)))
    assert len(seen) >= 4


def test_known_only_where_rows_tell(plant):
    assert PCADetector().fit(plant.normal[:90]).fitted.consistency is None
    assert PCADetector(modes=2).fit(plant.normal).fitted.consistency is None
    lagged = PCADetector(lags=2).fit(plant.normal).fitted
    assert lagged.consistency.own.shape == (len(LENGTHS), 12)
    assert isinstance(PCADetector(smooth=0.3).fit(plant.normal).fitted.consistency, Consistency)


@pytest.mark.parametrize("conversion", CONVERSIONS, ids=lambda one: f"{one.one} to {one.other}")
def test_changed_unit_is_recognised(plant, fitted, conversion):
    for column in range(12):
        new = plant.new[:ROWS].copy()
        new[:, column] = conversion.factor * new[:, column] + conversion.offset
        rows = fitted.model.standardise(new)
        verdicts = Verdicts(fitted.model.gaussian, fitted.consistency)
        assert verdicts.judge(rows).columns == (column,)
        implied, sd = verdicts.implied(rows, column)
        centre, scale = fitted.model.centre[column], fitted.model.scale[column]
        assert changed_unit(new[:, column], centre + scale * implied, scale * sd) == conversion


def test_readings_that_two_conversions_explain_or_that_stand_still_are_of_no_other_unit():
    implied = 100 + np.random.default_rng(0).normal(size=20) * 1e-3
    fahrenheit = 1.8 * implied + 32
    assert changed_unit(fahrenheit, implied, 2e-3).other == "°F"
    assert changed_unit(fahrenheit, implied, 1e3) is None  # so would any other factor near 2
    assert changed_unit(np.full(20, 212.0), implied, 2e-3) is None
