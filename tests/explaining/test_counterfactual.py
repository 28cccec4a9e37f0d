"""Counterfactuals against trying all sets of features with a numerical minimiser."""

import copy
import itertools

import numpy as np
import pandas as pd
import pytest
import witness

from culpa import Explainer, LatentGaussian, PCADetector
from culpa.explaining import counterfactual


def smallest_score(A, x, free):
    """By least squares, with these features free."""
    return witness.minimal_value(A, x, [i for i in range(len(x)) if i not in free], 0.0) if free else x @ A @ x


def fewest(A, x, limit, players):
    """Smallest number of players that clears the row, and the lowest score with that many."""
    for k in range(len(players) + 1):
        lowest = min(
            smallest_score(A, x, [i for player in chosen for i in player])
            for chosen in itertools.combinations(players, k)
        )
        if lowest <= limit * (1 + 1e-9):
            return k, lowest
    raise AssertionError


@pytest.mark.parametrize("groups", [None, {"pair": [0, 3], "three": [1, 2, 4]}])
@pytest.mark.parametrize("score", ["spe", "t2", "mahalanobis"])
@pytest.mark.parametrize(("d", "p"), [(5, 2), (8, 3)])
def test_equal_brute_force(d, p, score, groups):
    model = LatentGaussian(np.zeros(d), np.random.default_rng(0).normal(size=(d, p)), 0.3)
    A = witness.score_matrix(model, score)
    X = 3 * np.random.default_rng(1).normal(size=(12, d))
    explainer = Explainer(model, score, groups=groups)
    limit = 0.3 * float(np.median(explainer.score(X)))
    found = explainer.explain(X).counterfactual(limit=limit)
    counts = set()
    for row, x in enumerate(X):
        count, lowest = fewest(A, x, limit, explainer.players)
        assert len(found.players[row]) == count
        assert found.score_if_changed[row] == pytest.approx(lowest, rel=1e-7, abs=1e-9)
        assert found.score_if_changed[row] <= limit * (1 + 1e-9)
        there = found.changed[row]
        assert there @ A @ there == pytest.approx(lowest, rel=1e-7, abs=1e-9)
        np.testing.assert_array_equal(np.flatnonzero(there != x), [i for i in found.features[row] if there[i] != x[i]])
        counts.add(count)
    assert found.exact.all()
    assert found.possible.all()
    assert len(counts) > 1


def test_mahalanobis_moves_to_what_the_others_imply():
    model = LatentGaussian(np.zeros(6), np.random.default_rng(0).normal(size=(6, 2)), 0.3)
    X = model.sample(1, np.random.default_rng(2))
    X[0, 3] += 9
    found = Explainer(model, "mahalanobis").explain(X).counterfactual(limit=15)
    assert found.players == [("x3",)]
    C, rest = model.covariance, [0, 1, 2, 4, 5]
    assert found.changed[0, 3] == pytest.approx(C[3, rest] @ np.linalg.solve(C[np.ix_(rest, rest)], X[0, rest]))


def test_missing_cells():
    model = LatentGaussian(np.zeros(6), np.random.default_rng(0).normal(size=(6, 2)), 0.3)
    score = Explainer(model, "mahalanobis").score
    X = 4 * np.random.default_rng(3).normal(size=(6, 6))
    X[:, 1] = np.nan
    limit = 9.0
    found = Explainer(model, "mahalanobis").explain(X).counterfactual(limit=limit)
    for row in range(6):
        assert score(X[row : row + 1])[0] == pytest.approx(found.score[row])
        changed = found.changed[row]
        assert np.isnan(changed[1])
        assert score(changed[None])[0] == pytest.approx(found.score_if_changed[row])
        assert found.score_if_changed[row] <= limit
        for k in range(len(found.players[row])):  # no smaller set does, whatever the values
            for free in itertools.combinations([0, 2, 3, 4, 5], k):
                assert best_of(score, X[row], list(free)) > limit


def best_of(score, x, free):
    """Lowest expected score with some cells free, by fitting the quadratic function along them."""
    if not free:
        return score(x[None])[0]
    start = x.copy()
    start[free] = 0.0
    k = len(free)

    def at(step):
        there = start.copy()
        there[free] = step
        return score(there[None])[0]

    unit = np.eye(k)
    base = at(np.zeros(k))
    slope = np.array([(at(e) - at(-e)) / 2 for e in unit])
    bend = np.array([[at(a + b) - at(a) - at(b) + base for b in unit] for a in unit])
    return at(-np.linalg.solve(bend, slope))


def test_rows_that_no_change_clears():
    """With nearly everything missing, the uncertainty of the missing cells alone exceeds the limit."""
    model = LatentGaussian(np.zeros(4), np.ones((4, 1)), 0.5)
    found = Explainer(model, "spe").explain(np.array([[1.0, np.nan, np.nan, np.nan]])).counterfactual(limit=0.1)
    assert not found.possible[0]
    assert found.players == [()]
    assert "no change of the observed features clears it" in repr(found)


def test_greedy_beyond_the_budget(monkeypatch):
    model = LatentGaussian(np.zeros(8), np.random.default_rng(0).normal(size=(8, 3)), 0.3)
    X = 3 * np.random.default_rng(1).normal(size=(12, 8))
    why = Explainer(model, "mahalanobis").explain(X)
    exact = why.counterfactual(limit=6.0)
    monkeypatch.setattr(counterfactual, "_OPERATIONS", 0.0)
    greedy = why.counterfactual(limit=6.0)
    assert (greedy.score_if_changed <= 6.0 * (1 + 1e-9)).all()
    for row in range(12):
        assert len(greedy.players[row]) >= len(exact.players[row])
        if greedy.exact[row]:
            assert len(greedy.players[row]) == len(exact.players[row])
    assert not greedy.exact.all()
    assert "fewer may do" in repr(greedy)


@pytest.fixture(scope="module")
def detector():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(300, 2)) @ rng.normal(size=(2, 6)) + 0.2 * rng.normal(size=(300, 6)) + 50)
    table.columns = list("abcdef")
    return PCADetector().fit(table), table


def test_detectors_know_their_limit(detector):
    detector, table = detector
    rows = table[:4].copy()
    rows.loc[1, "c"] += 8
    rows.loc[2, ["a", "e"]] += [9, -7]
    why = detector.explain(rows)
    found = why.counterfactual()
    assert found.limit == detector.fitted.limit
    assert found.players[0] == ()
    assert found.players[1] == ("c",)
    changed = pd.DataFrame(found.changed, columns=list("abcdef"))
    assert (detector.predict(rows) == [1, -1, -1, 1]).all()
    assert (detector.predict(changed) == 1).all()
    np.testing.assert_allclose(detector.score_samples(changed), -found.score_if_changed, rtol=1e-9)
    frame = found.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["row", "score", "score_if_changed", "exact", "feature", "actual", "change_to"]
    assert len(frame) == sum(map(len, found.players))
    assert "  row 0: not flagged" in repr(found)
    assert "c 58." in repr(found) or "c 5" in repr(found)
    one = why[1].counterfactual()
    assert one.players == [("c",)]
    assert len(why[[True, False, False, True]].counterfactual()) == 2


def test_errors(detector):
    detector, table = detector
    with pytest.raises(ValueError, match="needs a limit"):
        detector.explain(table[:1], score="t2").counterfactual()
    assert detector.explain(table[:1], score="t2").counterfactual(limit=1e9).players == [()]
    with pytest.raises(ValueError, match="needs the explainer"):
        copy.deepcopy(detector.explain(table[:1])).counterfactual()


def test_columns_of_several_features():
    """With lags, a column stands for its past values, too."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(200, 4))
    detector = PCADetector(lags=1).fit(table)
    rows = table[:10].copy()
    rows[5, 2] += 12
    found = detector.explain(rows, rows=[5]).counterfactual()
    assert found.players == [("x2",)]
    assert found.changed[0, 2] != rows[5, 2]


def lowest_by_leaving_out(model, x, sets):
    """Mahalanobis distances of the features outside each set, which no value inside it changes."""
    rows = np.tile(x, (len(sets), 1))
    for row, free in zip(rows, sets, strict=True):
        row[list(free)] = np.nan
    return model.squared_distance(rows)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", [0.3, 1e-4, 1e-8])
def test_rows_alone_are_as_in_any_table(noise, seed):
    """Collinear plants and gross readings: claims are what the changed rows score, and no smaller set would do."""
    rng = np.random.default_rng(seed)
    d = 7
    model = LatentGaussian(np.zeros(d), rng.normal(size=(d, 2)), noise)
    explainer = Explainer(model, "mahalanobis")
    X = model.sample(8, rng)
    for row in range(6):
        X[row, rng.choice(d, 1 + row % 3, replace=False)] += 9 * rng.normal(size=1 + row % 3)
    X[6, 2], X[7, [0, 4]] = 10 ** rng.uniform(3, 7), [9999.0, -1e5]
    limit = 25.0
    together = explainer.explain(X).counterfactual(limit=limit)
    alone = [explainer.explain(X[[row]]).counterfactual(limit=limit) for row in range(len(X))]
    assert together.players == [one.players[0] for one in alone]
    np.testing.assert_allclose(together.score_if_changed, [one.score_if_changed[0] for one in alone], rtol=1e-6)
    assert together.possible.all()
    assert (together.score_if_changed <= limit * (1 + 1e-9)).all()
    np.testing.assert_allclose(model.squared_distance(together.changed), together.score_if_changed, rtol=1e-6)
    for row, x in enumerate(X):
        k = len(together.players[row])
        for smaller in range(k):
            sets = list(itertools.combinations(range(d), smaller))
            assert (lowest_by_leaving_out(model, x, sets) > limit).all()
        same_size = list(itertools.combinations(range(d), k))
        assert together.score_if_changed[row] == pytest.approx(
            lowest_by_leaving_out(model, x, same_size).min(), rel=1e-4
        )


def test_gross_neighbours_change_nothing():
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(500, 2)) @ rng.normal(size=(2, 8)) + 0.3 * rng.normal(size=(500, 8))
    detector = PCADetector(statistic="mahalanobis").fit(normal)
    rows = np.vstack([normal[:2], normal[1]])
    rows[0, 1] += 6
    rows[1, [2, 3]] += 5
    rows[2, 0] = 1e7
    found = detector.explain(rows).counterfactual()
    assert found.players[:2] == [("x1",), ("x2", "x3")]
    assert found.players[2][0] == "x0"
    assert (detector.predict(found.changed) == 1).all()


def test_many_rows_do_not_shorten_the_search(monkeypatch):
    """Whether an answer is exact is a matter of the row."""
    model = LatentGaussian(np.zeros(8), np.random.default_rng(0).normal(size=(8, 3)), 0.3)
    X = 3 * np.random.default_rng(1).normal(size=(200, 8))
    explainer = Explainer(model, "mahalanobis")
    for budget in (0.0, 200.0, 3000.0):
        monkeypatch.setattr(counterfactual, "_OPERATIONS_PER_ROW", budget)
        together = explainer.explain(X).counterfactual(limit=6.0)
        alone = [explainer.explain(X[[row]]).counterfactual(limit=6.0) for row in range(0, 200, 20)]
        assert [together.players[row] for row in range(0, 200, 20)] == [one.players[0] for one in alone]
        assert together.exact[::20].tolist() == [one.exact[0] for one in alone]


@pytest.mark.parametrize("score", ["spe", "t2", "mahalanobis"])
def test_student_rows_with_missing_cells(score):
    """Observed cells also tell how uncertain the missing ones are, and changing them clears what that adds."""
    model = LatentGaussian(np.zeros(6), np.random.default_rng(0).normal(size=(6, 2)), 0.3, degrees_of_freedom=5)
    explainer = Explainer(model, score)
    X = 5 * np.random.default_rng(3).normal(size=(8, 6))
    X[:, 1] = X[::2, 4] = np.nan
    limit = 1.5 * explainer.score.expectation
    found = explainer.explain(X).counterfactual(limit=limit)
    assert found.possible.all()
    assert (found.score > limit).sum() > 3
    np.testing.assert_allclose(explainer.score(found.changed), found.score_if_changed, rtol=1e-9)
    for row in range(len(X)):
        observed = np.flatnonzero(~np.isnan(X[row])).tolist()
        lowest = [
            min(best_of(explainer.score, X[row], list(free)) for free in itertools.combinations(observed, k))
            for k in range(len(found.players[row]) + 1)
        ]
        assert all(value > limit for value in lowest[:-1])
        assert found.score_if_changed[row] == pytest.approx(lowest[-1])


@pytest.mark.parametrize("score", ["spe", "t2", "mahalanobis"])
def test_student_rows_have_a_lowest_score(score):
    """What the observed cells say about the spread of the others falls with them: the lowest score is that of the mean."""
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(5, 2))
    model = LatentGaussian(np.zeros(5), loadings, 0.3, degrees_of_freedom=4.0)
    explainer = Explainer(model, score)
    X = 4 * rng.normal(size=(6, 5))
    X[:, 1] = np.nan
    lowest = explainer.explain(np.where(np.isnan(X), np.nan, 0.0)[:1]).score[0]
    for limit in (lowest * 1.001, lowest * 2, lowest * 20):
        found = explainer.explain(X).counterfactual(limit=limit)
        assert found.possible.all()
        assert (found.score_if_changed <= limit * (1 + 1e-9)).all()
    assert not explainer.explain(X).counterfactual(limit=lowest * 0.999).possible.any()
