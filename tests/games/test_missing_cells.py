"""Rows with missing cells: every game explains the score that is shown, and its values add up to it."""

import numpy as np
import pytest
import witness
from hypothesis import given, settings
from hypothesis import strategies as st

from culpa import Explainer, LatentGaussian, PCADetector, scores, shapley
from culpa.games import Interventional, Minimal, Retraining

GAMES = ("conditional", "interventional", "minimal", "retraining")


def gaussian(d=5, p=2, seed=0):
    rng = np.random.default_rng(seed)
    return LatentGaussian(np.zeros(d), rng.normal(size=(d, p)), 0.4)


def values_of(game, X, observed):
    seen = np.isin(np.arange(X.shape[1]), observed)
    return shapley.exact(game.where(seen), np.where(seen, X, 0.0), [[i] for i in observed]).values


def brute_force(value, k):
    table = {S: value(list(S)) for S in witness.coalitions(k)}
    return witness.shapley(table, k), table[()], table[tuple(range(k))]


def retrained_error(model, x, S, missing, *, mean):
    """E[error of a PCA of the columns S and those that are missing], given x_S."""
    if not S:
        return 0.0
    columns, C = sorted([*S, *missing]), model.covariance
    _, axes = np.linalg.eigh(C[np.ix_(columns, columns)])
    U = axes[:, ::-1][:, : min(model.n_components, len(columns))]
    A = np.zeros_like(C)
    A[np.ix_(columns, columns)] = np.eye(len(columns)) - U @ U.T
    return witness.conditional_value(C, A, x, S) / (len(columns) if mean else 1)


@pytest.mark.parametrize("missing", [[1], [0, 4], [0, 1, 3]])
@pytest.mark.parametrize("name", ["spe", "t2", "mahalanobis"])
def test_interventional_and_minimal_games_are_those_of_the_expected_score(name, missing):
    model, X = gaussian(), 2 * np.random.default_rng(1).normal(size=(3, 5))
    score = getattr(scores, name)(model)
    observed = [i for i in range(5) if i not in missing]
    A, added = witness.observed_score(model.covariance, score.matrix, observed)
    C, minimal = model.covariance[np.ix_(observed, observed)], Minimal(score, 0.01)
    found = {
        "interventional": values_of(Interventional(score), X, observed),
        "minimal": values_of(minimal, X, observed),
    }
    for row, x in enumerate(X[:, observed]):
        worth = {
            "interventional": lambda S, x=x: added + witness.interventional_value(C, A, x, S),
            "minimal": lambda S, x=x: added + witness.minimal_value(A, x, S, minimal.gamma),
        }
        for game, value in worth.items():
            values, base, whole = brute_force(value, len(observed))
            np.testing.assert_allclose(found[game][row], values, rtol=1e-8, atol=1e-10)
            holed = np.full((1, 5), np.nan)
            holed[0, observed] = x
            assert whole == pytest.approx(score(holed)[0], rel=1e-9)
            if game == "interventional":
                assert base == pytest.approx(score.expectation, rel=1e-9)


@pytest.mark.parametrize("missing", [[1], [0, 4], [0, 1, 3]])
@pytest.mark.parametrize("mean", [True, False])
def test_missing_columns_belong_to_every_retrained_model(mean, missing):
    model, X = gaussian(), 2 * np.random.default_rng(1).normal(size=(3, 5))
    game = Retraining(model.covariance, 2, mean=mean)
    observed = [i for i in range(5) if i not in missing]
    found = values_of(game, X, observed)
    for row, x in enumerate(X):
        values, _, whole = brute_force(
            lambda S, x=x: retrained_error(model, x, [observed[k] for k in S], missing, mean=mean), len(observed)
        )
        np.testing.assert_allclose(found[row], values, rtol=1e-8, atol=1e-10)
        holed = np.where(np.isin(np.arange(5), observed), x, np.nan)[None]
        assert game.total(holed, np.array(observed))[0] == pytest.approx(whole, rel=1e-9)


def trained(kind, d, p, rng):
    rows = rng.normal(size=(60, p)) @ rng.normal(size=(p, d)) + rng.normal(size=(60, d)) + 5
    options = {"student": {"model": "student"}}.get(kind, {})
    if kind == "holes in training":
        rows[rng.random(rows.shape) < 0.05] = np.nan
    if kind == "shrunk":
        options = {"shrinkage": 0.1}
    return PCADetector(n_components=p, **options).fit(rows), rows


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(3, 6),
    st.sampled_from(GAMES),
    st.sampled_from(["spe", "mse", "t2", "mahalanobis", "combined"]),
    st.sampled_from(["plain", "shrunk", "student", "holes in training"]),
    st.sampled_from(["alone", "groups", "given", "sampled"]),
)
def test_blame_adds_up_to_the_score_that_is_shown(seed, d, game, name, kind, players):
    rng = np.random.default_rng(seed)
    if game == "retraining" and (name not in ("spe", "mse") or kind == "student"):
        name, kind = "spe", "plain"
    detector, rows = trained(kind, d, int(rng.integers(1, d)), rng)
    options = {
        "groups": {"groups": {"pair": [0, 1]}},
        "given": {"given": [0]},
        "sampled": {"method": "permutation", "n_orders": 24},
    }.get(players, {})
    new = rows[:8] + 3 * rng.normal(size=(8, d))
    new[rng.random(new.shape) < 0.3] = np.nan
    new[:, 1] = 5 + rng.normal(size=8)  # no row is empty
    explainer = Explainer(detector, score=name, game=game, **options)
    why = explainer.explain(new)
    shown = explainer.score(explainer.model.standardise(new))
    size = np.abs(shown) + np.abs(why.values).sum(axis=1)
    assert (np.abs(why.values.sum(axis=1) + why.base_value - why.score) <= 1e-9 * size).all()
    # a model with holes in its training rows is where expectation-maximisation stopped
    tolerance = 1e-3 if kind == "holes in training" and game == "retraining" else 1e-9
    assert (np.abs(shown - why.score) <= tolerance * size).all()
