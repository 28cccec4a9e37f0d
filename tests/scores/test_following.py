"""The limit that follows, against a re-implementation that takes one row at a time and whitens by explicit inverses."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from culpa import PCADetector
from culpa._core.types import Floats
from culpa.fitting.limits import InOrder
from culpa.fitting.views import learn_views
from culpa.scores import following
from culpa.scores.following import DEPARTURE, JUMP, LEVEL, Follower, Views

HALF_LIFE, QUICK, GAP, LONGEST, SETTLING = 120, 15, 10, 500, 50


class Witness:
    """The rule of MATH.md, row by row."""

    def __init__(self, views: Views) -> None:
        self.views, self.theta, self.average = views, views.theta, views.average.copy()
        self.compared = self.average  # with the last row
        self.last: Floats | None = None
        self.old: Floats | None = None
        self.stride, self.step = views.stride, 0.0175 / views.stride
        self.age = self.quiet = self.off = self.level_quiet = self.settling = 0

    def out(self, number: int, residual: Floats) -> float:
        """How far a residual is out, by the observed cells and what these imply for the others."""
        view = self.views.all[number]
        z = residual / view.model.scale
        seen = ~np.isnan(z)
        if not seen.any():
            return -np.inf
        covariance = view.model.scatter.matrix
        # what is expected of the squared distance: that of the observed cells, and 1 for each missing one
        score = z[seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)]) @ z[seen] + (~seen).sum()
        return float((np.log(max(score, 1e-12)) - view.quantile) / view.unit)

    def update(self, x: Floats, missing: float) -> tuple[bool, bool, int]:
        """Whether a row is flagged, whether the level is shifted, and the view that explains the flag."""
        views, theta, alpha = self.views, self.theta, self.views.alpha
        if missing >= HALF_LIFE * self.stride:
            self.average = np.where(np.isnan(x), self.average, x)
            self.old, self.settling, self.age, self.off = None, SETTLING * self.stride, 0, 0
        jump = -np.inf if self.last is None or missing > 0 else self.out(JUMP, x - self.last)
        departure = -np.inf if self.settling else self.out(DEPARTURE, x - self.average)
        level = -np.inf if views.level is None else self.out(LEVEL, x - views.level.model.centre)
        if self.old is not None and not self.settling and self.out(DEPARTURE, self.average - self.old) <= -1:
            self.old, self.age = None, 0
        if self.old is not None and departure > theta:
            back = self.out(DEPARTURE, x - self.old)
            if back <= theta:
                self.average, self.old, self.age, departure = self.old, None, 0, back
        self.compared = self.average
        self.level_quiet = 0 if level > theta else self.level_quiet + 1
        self.off = self.off + (level > theta) if self.level_quiet <= GAP * self.stride else 0
        if self.off > LONGEST * self.stride:
            level = -np.inf
        flagged = max(level, departure, jump) > theta
        if flagged:
            self.age, self.quiet = self.age + 1, 0
            ten = 10 * self.stride
            self.theta += self.step * (1 - alpha) * (1 if self.age <= ten else -ten if self.age == 2.5 * ten else 0)
        else:
            self.quiet += 1
            self.theta -= self.step * alpha
            self.age *= self.quiet <= GAP * self.stride
        weight = 1 - 0.5 ** (1 / HALF_LIFE / self.stride)
        if self.settling:
            weight, self.settling = 1 - 0.5 ** (1 / QUICK / self.stride), self.settling - 1
        elif departure > theta and self.age > LONGEST * self.stride:
            self.old = self.average.copy() if self.old is None else self.old
            weight, self.settling = 1.0, SETTLING * self.stride
        elif departure > theta + 0.2:
            weight = 0.0
        self.average = np.where(np.isnan(x), self.average, self.average + weight * (x - self.average))
        self.last = x
        view = LEVEL if level > theta else DEPARTURE if departure > theta else JUMP
        return flagged, self.old is not None or self.off > LONGEST * self.stride, view if flagged else -1


def _rows(rng: np.random.Generator, n: int, *, drift: float) -> Floats:
    """Three hidden states that follow each other slowly, seen by six sensors, and random walks."""
    hidden = np.zeros((n, 3))
    for t in range(1, n):
        hidden[t] = 0.9 * hidden[t - 1] + rng.normal(size=3)
    walk = np.cumsum(drift * rng.normal(size=(n, 6)), axis=0)
    return np.asarray(hidden @ rng.normal(size=(3, 6)) + 0.5 * rng.normal(size=(n, 6)) + walk + 100.0)


def _case(seed: int, *, drift: float, gaps: bool = False, missing: bool = False) -> tuple[Views, Floats, Floats]:
    """Views of training rows, and new rows with short and long faults, holes and missing cells."""
    rng = np.random.default_rng(seed)
    X = _rows(rng, 6500, drift=drift)
    normal, new = X[:1500], X[1500:]
    for start, length, size in ((300, 20, 6.0), (700, 3, 12.0), (1200, 1500, 25.0), (3500, 900, 40.0)):
        new[start : start + length, rng.integers(6)] += size
    new[4800:, 2] += np.linspace(0, 30, 200)
    before = np.zeros(len(new))
    if gaps:
        before[[50, 400, 1400, 1401, 2600, 3600, 4400]] = 3, 500, 119, 120, np.inf, 5, 200
    if missing:
        new[rng.random(new.shape) < 0.05] = np.nan
        new[2000:2003] = np.nan
    found = learn_views(PCADetector().fit(normal).fitted, InOrder(normal))
    assert found is not None
    return found[0], new, before


@pytest.mark.parametrize(
    ("seed", "kind"), [(0, {}), (1, {"gaps": True}), (2, {"missing": True}), (3, {"gaps": True, "missing": True})]
)
@pytest.mark.parametrize("drift", [0.0, 0.3])
def test_flags_are_those_of_a_rule_that_takes_row_by_row(
    seed: int, kind: dict[str, Any], drift: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_CELLS", 6 * (100 if seed % 2 else 2000))  # rows at a time, of six columns
    views, new, missing = _case(seed, drift=drift, **kind)
    assert (views.level is not None) == (drift == 0)
    views = replace(views, stride=1 + seed % 2)
    course, compared, witness = np.empty(new.shape), np.empty(new.shape), Witness(views)
    judged, expected = Follower(views).add(new, missing, course), []
    for k, (x, gone) in enumerate(zip(new, missing, strict=True)):
        expected.append(witness.update(x, gone))
        compared[k] = witness.compared
    flagged, shifted, view = (np.array(each) for each in zip(*expected, strict=True))
    assert flagged.sum() > 100
    assert shifted.sum() > 100
    np.testing.assert_array_equal(judged.flagged, flagged)
    np.testing.assert_array_equal(judged.shifted, shifted)
    np.testing.assert_array_equal(judged.view, view)
    np.testing.assert_array_equal(course[flagged], judged.average)
    np.testing.assert_allclose(course, compared, rtol=1e-9)


def test_a_level_that_wanders_back_is_not_another_one_any_more() -> None:
    """Even if no row departs on the way."""
    rng = np.random.default_rng(9)
    rows = rng.normal(size=(11_000, 3)) @ rng.normal(size=(3, 6)) + 0.5 * rng.normal(size=(11_000, 6))
    normal, new = rows[:3000] + np.cumsum(0.3 * rng.normal(size=(3000, 6)), axis=0), rows[3000:].copy()
    found = learn_views(PCADetector().fit(normal).fitted, InOrder(normal))
    assert found is not None
    views = found[0]
    new[:, 3] += np.interp(np.arange(len(new)), [1000, 1001, 2500, 5500], [0, 60, 60, 0])
    new += normal[-100:].mean(axis=0)
    judged, witness = Follower(views).add(new), Witness(views)
    shifted = np.array([witness.update(x, 0.0)[1] for x in new])
    np.testing.assert_array_equal(judged.shifted, shifted)
    assert views.level is None
    assert shifted[1600:2500].all()
    assert judged.flagged[2500:].mean() < 0.02
    assert not shifted[6000:].any()


def test_a_stream_that_is_cut_and_resumed_has_the_flags_of_one_pass() -> None:
    for seed in range(4):
        views, new, missing = _case(seed, drift=0.3 * (seed % 2), gaps=seed > 1, missing=seed > 1)
        whole = Follower(views).add(new, missing)
        cuts = [0, *np.sort(np.random.default_rng(seed).choice(np.arange(1, len(new)), 10, replace=False)), len(new)]
        parts, memory = [], None
        for start, end in pairwise(cuts):
            follower = Follower(views)  # nothing but the memory is kept
            if memory is not None:
                follower.memory = memory
            parts.append(follower.add(new[start:end], missing[start:end]))
            memory = follower.memory
        for name in ("flagged", "view", "theta", "shifted", "average", "before"):
            np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))


def test_no_row_before_means_no_jump_and_nothing_observed_is_not_out() -> None:
    views, new, _ = _case(0, drift=0.0)
    new[1] = np.nan
    judged = Follower(views).add(new[:3])
    assert not judged.flagged[:2].any()
    assert Follower(views).add(new[:0]).flagged.shape == (0,)


def test_a_share_of_normal_rows_is_flagged_while_the_process_drifts() -> None:
    rng = np.random.default_rng(5)
    X = _rows(rng, 12_000, drift=0.1)
    detector = PCADetector().fit(X[:2000])
    found = learn_views(detector.fitted, InOrder(X[:2000]))
    assert found is not None
    assert detector.fitted.is_flagged(detector.fitted.score(X[2000:])).mean() > 0.5
    assert 0.003 < Follower(found[0]).add(X[2000:]).flagged.mean() < 0.02


def test_lengths_follow_from_how_closely_rows_follow_each_other() -> None:
    rng = np.random.default_rng(6)
    for closeness, stride in ((0.9, 1), (0.998, 8)):
        rows = rng.normal(size=(20_000, 4))
        for t in range(1, len(rows)):
            rows[t] += closeness * rows[t - 1]
        views = PCADetector().fit(rows).fitted.views
        assert views is not None
        assert views.stride == stride
        assert views.lengths.half_life == 120 * stride


@pytest.mark.parametrize("begins", [0, 60])
def test_a_column_without_cells_after_a_hole_keeps_its_level(begins: int) -> None:
    """The average of nothing is no level: rows are not far from it."""
    X = _rows(np.random.default_rng(7), 4000, drift=0.0)
    normal, new, missing = X[:3000].copy(), X[3000:], np.zeros(3000)
    normal[:begins, 1] = np.nan
    normal[2500:, 2], missing[2500] = np.nan, 200
    found = learn_views(PCADetector().fit(X[:3000]).fitted, InOrder(normal, missing))
    assert found is not None
    views = found[0]
    np.testing.assert_allclose(views.average, 100, atol=5)
    np.testing.assert_allclose(views.departure.model.scale, np.nanstd(normal, axis=0), rtol=0.1)
    assert Follower(views).add(new).flagged.mean() < 0.05
