"""Equal numbers that rounding tells apart decide nothing: neither flags nor ranks."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from culpa import Explainer, LatentGaussian, PCADetector
from culpa._core.comparing import exceeds, ranked
from culpa.detecting.pieces import of_fitted


def test_exceeds():
    assert exceeds([1.0, 1.0 + 1e-12, 1.0 + 1e-8, np.nan], 1.0).tolist() == [False, False, True, False]
    assert exceeds([-1.0, -1.0 + 1e-12, -0.9], -1.0).tolist() == [False, False, True]
    assert exceeds(2.0, 0.0)
    assert not exceeds(0.0, 0.0)


def test_ranked():
    values = np.array([[1.0, 3.0, 3.0 + 1e-14, 2.0], [-np.inf, 5.0, np.nan, 6.0], [0.0, 0.0, 0.0, 0.0]])
    assert ranked(values).tolist() == [[1, 2, 3, 0], [3, 1, 0, 2], [0, 1, 2, 3]]
    assert ranked(np.empty((0, 3))).shape == (0, 3)
    assert ranked(np.empty((2, 0))).shape == (2, 0)


@pytest.mark.parametrize("seed", range(20))
def test_ranks_do_not_depend_on_rounding(seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(-3, 4, size=(50, 8)) * 10.0 ** rng.integers(-3, 4)
    jittered = values * (1 + 1e-13 * rng.normal(size=values.shape))
    np.testing.assert_array_equal(ranked(jittered), np.argsort(-values, axis=1, kind="stable"))


@pytest.mark.parametrize("seed", range(12))
def test_flags_of_rows_at_the_limit_do_not_depend_on_the_batch(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(5, 40))
    rows = rng.normal(size=(300, 3)) @ rng.normal(size=(3, d)) + 0.4 * rng.normal(size=(300, d))
    detector = PCADetector(n_components=3).fit(rows)
    for row in range(0, 300, 25):  # scores of single rows, as limits
        limited = of_fitted(replace(detector.fitted, limit=-detector.score_samples(rows[[row]])[0]))
        for judge in (limited, pickle.loads(pickle.dumps(limited))):
            flags = judge.predict(rows)
            assert flags[row] == judge.predict(rows[[row]])[0] == 1
            assert judge.predict(rows[max(0, row - 3) : row + 1])[-1] == 1
            np.testing.assert_array_equal(flags == -1, judge.decision_function(rows) < 0)
            np.testing.assert_array_equal(flags == -1, judge.statistics(rows)["anomaly"])


@pytest.mark.parametrize("seed", range(10))
def test_ties_stay_as_they_are_after_compiling(seed):
    """Columns that the model cannot tell apart share the blame equally, and the first one is named first."""
    rng = np.random.default_rng(seed)
    loadings = np.repeat(rng.normal(size=(3, 2)), 3, axis=0)
    model = LatentGaussian(np.zeros(9), loadings, 0.3)
    X = np.repeat(3 * rng.normal(size=(20, 3)), 3, axis=1)
    explainer = Explainer(model, "spe")
    before = explainer.explain(X)
    explainer.compile()
    after = explainer.explain(X)
    assert before.top(9)["feature"].tolist() == after.top(9)["feature"].tolist()
    assert before.shortest().players == after.shortest().players
    ranks = ranked(before.values)
    assert (ranks % 3 == np.tile([0, 1, 2], 3)).all()
