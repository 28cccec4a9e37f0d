"""Non-negative values and short explanations against their definitions."""

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from culpa import Explainer, LatentGaussian, PCADetector
from culpa.explaining.shortest import fewest, nonnegative


@pytest.fixture(scope="module")
def why():
    model = LatentGaussian(np.zeros(6), np.random.default_rng(0).normal(size=(6, 2)), 0.3)
    rows = 2 * np.random.default_rng(1).normal(size=(30, 6))
    rows[::3] /= 10  # with a score below the mean
    return Explainer(model).explain(rows)


def rows_of_values():
    numbers = st.floats(-5, 5, allow_nan=False).map(lambda x: round(x, 3))
    return st.lists(numbers, min_size=1, max_size=6).map(np.array)


@settings(deadline=None, max_examples=100)
@given(rows_of_values())
def test_nonnegative_is_the_closest_such_vector(values):
    """Against a projection by trying all sets of players that keep some blame."""
    found = nonnegative(values[None], np.ones((1, len(values)), dtype=bool))[0]
    assert (found >= 0).all()
    if values.sum() <= 0:
        assert (found == 0).all()
        return
    assert found.sum() == pytest.approx(values.sum(), abs=1e-9)
    candidates = []
    for k in range(1, len(values) + 1):
        for kept in itertools.combinations(range(len(values)), k):
            candidate = np.zeros(len(values))
            candidate[list(kept)] = values[list(kept)] - (values[list(kept)].sum() - values.sum()) / k
            if (candidate >= -1e-12).all():
                candidates.append(((candidate - values) ** 2).sum())
    assert ((found - values) ** 2).sum() == pytest.approx(min(candidates), abs=1e-9)


def test_nonnegative_by_a_general_solver():
    values = np.array([3.0, 1.0, 0.2, -0.5, -1.0])
    solved = optimize.minimize(
        lambda v: ((v - values) ** 2).sum(),
        np.full(5, values.sum() / 5),
        bounds=[(0, None)] * 5,
        constraints={"type": "eq", "fun": lambda v: v.sum() - values.sum()},
    ).x
    np.testing.assert_allclose(nonnegative(values[None], np.ones((1, 5), dtype=bool))[0], solved, atol=1e-5)


def test_nonnegative_explanations_add_up_and_keep_the_order(why):
    simple = why.nonnegative()
    assert (why.values < 0).any()
    assert (simple.values >= 0).all()
    np.testing.assert_allclose(simple.values.sum(axis=1) + simple.base_value, why.score, rtol=1e-12)
    for before, after in zip(why.values, simple.values, strict=True):
        assert (np.diff(after[np.argsort(before)]) >= 0).all()
    below = why.score < why.base_value
    assert below.any()
    assert (simple.values[below] == 0).all()
    assert (simple.base_value[~below] == why.base_value).all()


def test_nonnegative_leaves_missing_players_and_empty_rows_alone():
    model = LatentGaussian(np.zeros(4), np.ones((4, 1)), 0.3)
    X = np.array([[5.0, np.nan, -5.0, 1.0], [np.nan] * 4])
    with pytest.warns(UserWarning, match="no observed"):
        simple = Explainer(model).explain(X).nonnegative()
    assert simple.values[0, 1] == 0
    assert np.isnan(simple.values[1]).all()
    assert simple.values[0].sum() + simple.base_value[0] == pytest.approx(simple.score[0])


@settings(deadline=None, max_examples=100)
@given(rows_of_values(), st.floats(0.05, 1.0))
def test_no_smaller_set_accounts_for_the_share(values, share):
    wanted = share * values.sum()
    count = fewest(values[None], np.array([wanted]))[0]
    if wanted <= 0:
        assert count == 0
        return
    enough = [
        k
        for k in range(1, len(values) + 1)
        for chosen in itertools.combinations(values, k)
        if sum(chosen) >= wanted * (1 - 1e-12)
    ]
    assert count == min(enough)


def test_shortest(why):
    short = why.shortest(0.8)
    excess = why.score - why.base_value
    for row, names in enumerate(short.players):
        reached = sum(why.values[row, why.player_names.index(name)] for name in names)
        if excess[row] <= 0:
            assert not names
            assert np.isnan(short.accounts_for[row])
        else:
            assert reached >= 0.8 * excess[row]
            assert short.accounts_for[row] == pytest.approx(reached / excess[row])
    table = short.to_frame()
    assert len(table) == short.counts.sum()
    assert [tuple(table[table["row"] == row]["feature"]) for row in range(len(why))] == short.players
    assert repr(short).startswith("<Shortest explanations of spe, 80% of the excess>\n  row 0: ")
    assert "and 20 more rows" in repr(short)
    assert "nothing to explain" in repr(short)


def test_shortest_answers_in_kind_and_ranks_by_value():
    rng = np.random.default_rng(0)
    table = pl.DataFrame({name: rng.normal(size=60) for name in "abcd"})
    detector = PCADetector(2, ranking="leave-one-out").fit(table)
    short = detector.explain(table[:5]).shortest()
    frame = short.to_frame()
    assert isinstance(frame, pl.DataFrame)
    assert len(frame) == short.counts.sum()
    assert "suspicion" not in frame.columns


@pytest.mark.parametrize("seed", range(20))
def test_nobody_accounts_for_what_is_given(seed):
    """Rounding between a score and its base value is nobody's, and missing features account for nothing."""
    rng = np.random.default_rng(seed)
    model = LatentGaussian(np.zeros(4), rng.normal(size=(4, 2)), 0.3)
    X = 3 * rng.normal(size=(8, 4))
    X[:4, 1:] = X[4:, 1] = np.nan
    why = Explainer(model, given=[0]).explain(X)
    short = why.shortest(1.0)
    assert short.players[:4] == [()] * 4
    assert np.isnan(short.accounts_for[:4]).all()
    assert all("x1" not in names for names in short.players)
    assert len(short.to_frame()) == short.counts.sum()


@pytest.mark.parametrize("share", [0, 1.1, -1])
def test_bad_shares(why, share):
    with pytest.raises(ValueError, match="share"):
        why.shortest(share)
