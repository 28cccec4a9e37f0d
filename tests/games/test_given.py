"""Features that are in every coalition, for any model and game."""

import numpy as np
import pytest
import witness

from culpa import PPCA, Explainer, Explanation, LatentGaussian, games, scores
from culpa.plots.content import Waterfall

GIVEN = [1, 4]
OTHERS = [0, 2, 3, 5, 6]


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    return LatentGaussian(np.zeros(7), rng.normal(size=(7, 3)), 0.3)


@pytest.fixture(scope="module")
def rows():
    return 2 * np.random.default_rng(1).normal(size=(5, 7))


def brute_force(value, x, known=GIVEN):
    """Shapley values of the others, and what the given features alone are worth."""
    others = [i for i in OTHERS if not np.isnan(x[i])]
    values = {S: value(x, sorted([others[k] for k in S] + known)) for S in witness.coalitions(len(others))}
    return witness.shapley(values, len(others)), values[()]


@pytest.mark.parametrize("score", ["spe", "mse", "t2", "mahalanobis"])
def test_equals_brute_force(model, rows, score):
    C, A = model.covariance, witness.score_matrix(model, score)
    explainer = Explainer(model, score, given=GIVEN)
    why, compiled = explainer.explain(rows), Explainer(model, score, given=GIVEN).compile().explain(rows)
    for row, x in enumerate(rows):
        values, base = brute_force(lambda x, S: witness.conditional_value(C, A, x, S), x)
        np.testing.assert_allclose(why.values[row], values, atol=1e-10)
        np.testing.assert_allclose(compiled.values[row], values, atol=1e-10)
        assert why.base_value[row] == pytest.approx(base, abs=1e-10)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, atol=1e-10)
    assert why.feature_names == ("x0", "x2", "x3", "x5", "x6")
    np.testing.assert_array_equal(why.data, rows[:, OTHERS])
    assert not {"x1", "x4"} & set(why.top(7)["feature"])


@pytest.mark.parametrize("game", ["interventional", "retraining"])
def test_other_games(model, rows, game):
    fitted = PPCA(3).fit(model.sample(300, 0))
    C, A = fitted.gaussian_.covariance, witness.score_matrix(fitted.gaussian_, "spe")
    why = Explainer(fitted, "spe", game, given=GIVEN).explain(rows)

    def value(x, S):
        if game == "interventional":
            return witness.interventional_value(C, A, x, S)
        return witness.retraining_value(fitted.covariance_, x, S, 3, mean=False)

    for row, x in enumerate(rows - fitted.mean_):
        values, base = brute_force(value, x)
        np.testing.assert_allclose(why.values[row], values, atol=1e-9)
        assert why.base_value[row] == pytest.approx(base, abs=1e-9)


def test_sampled_values_come_close_and_add_up(model, rows):
    exact = Explainer(model, given=GIVEN).explain(rows)
    for explainer in (
        Explainer(model, given=GIVEN, method="permutation", n_orders=3000),
        Explainer(model, given=GIVEN, method="permutation", n_orders=3000).compile(),
    ):
        why = explainer.explain(rows)
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-10)
        assert np.abs(why.values - exact.values).max() < 6 * max(why.std_error.max(), 1e-3)


def test_given_features_that_are_missing_are_not_known(model, rows):
    holes = rows.copy()
    holes[0, 1] = holes[1, 0] = np.nan
    holes[2, OTHERS] = np.nan  # nothing but context
    why = Explainer(model, given=GIVEN).explain(holes)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, atol=1e-10)
    C, A = model.covariance, witness.score_matrix(model, "spe")
    values, base = brute_force(lambda x, S: witness.conditional_value(C, A, x, S), holes[0], known=[4])
    np.testing.assert_allclose(why.values[0], values, atol=1e-10)
    assert why.base_value[0] == pytest.approx(base)
    assert not why.values[2].any()
    assert why.score[2] == pytest.approx(why.base_value[2])


def test_groups_of_the_others(model, rows):
    why = Explainer(model, given=["x1", "x4"], groups={"pair": ["x0", "x2"]}).explain(rows)
    assert why.player_names == ("pair", "x3", "x5", "x6")
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-10)
    with pytest.raises(ValueError, match="x1"):
        Explainer(model, given=["x1"], groups={"pair": ["x0", "x1"]})
    with pytest.raises(ValueError, match="at least one must be left"):
        Explainer(model, given=list(range(7)))


def test_base_values_of_rows_travel_with_them(model, rows):
    why = Explainer(model, given=GIVEN).explain(rows)
    assert why[1:3].base_value.tolist() == why.base_value[1:3].tolist()
    assert Explanation.concatenate([why[:2], why[2:]]).base_value.tolist() == why.base_value.tolist()
    again = Explanation.from_dict(why.to_dict())
    np.testing.assert_array_equal(again.base_value, why.base_value)
    fall = Waterfall.of(why, 3)
    assert fall.base_value == why.base_value[3]
    assert fall.base_value + fall.values.sum() == pytest.approx(why.score[3])


def test_values_are_counted_from_what_is_known(model, rows):
    whole = games.Conditional(scores.spe(model))
    game = games.Given(whole, np.array(GIVEN))
    assert game.base_value == 0
    np.testing.assert_allclose(game.base_values(rows), whole.value(rows, np.array(GIVEN)))
    np.testing.assert_allclose(game.value(rows, np.array(OTHERS)) + game.base_values(rows), scores.spe(model)(rows))
