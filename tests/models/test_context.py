"""Detectors whose rows are judged given other columns."""

import numpy as np
import pandas as pd
import pytest
import witness
from hypothesis import given as hypothesis_given
from hypothesis import settings
from hypothesis import strategies as st

import culpa
from culpa import PCADetector
from culpa.models import Moments
from culpa.models.context import Context


def plant(n, seed=0, load=None):
    """Load and grade drive eight sensors, linearly; what is left follows two hidden factors."""
    rng = np.random.default_rng(seed)
    fixed = np.random.default_rng(99)
    effect, loadings = fixed.normal(size=(2, 8)) * 3, fixed.normal(size=(2, 8))
    context = rng.normal(size=(n, 2)) if load is None else load(rng, n)
    sensors = context @ effect + rng.normal(size=(n, 2)) @ loadings + 0.5 * rng.normal(size=(n, 8))
    table = pd.DataFrame(np.hstack([context[:, :1], sensors, context[:, 1:]]))
    table.columns = ["load", *(f"s{i}" for i in range(8)), "grade"]
    return table


@pytest.fixture(scope="module")
def detector():
    return PCADetector(given=["load", "grade"]).fit(plant(1000))


def joint(model, statistic):
    """Covariance of whole rows and matrix of the score in the user's units, from the model and its context."""
    context, d = model.context, len(model.context.given) + len(model.context.others)
    left = np.zeros((len(context.others), d))
    left[np.arange(len(left)), context.others] = 1.0
    left[:, context.given] = -context.coefficients
    left /= model.scale[:, None]
    A = left.T @ witness.score_matrix(model.gaussian, statistic) @ left
    rest = model.gaussian.covariance * np.outer(model.scale, model.scale)
    C = np.zeros((d, d))
    C[np.ix_(context.given, context.given)] = context.covariance
    across = context.coefficients @ context.covariance
    C[np.ix_(context.others, context.given)] = across
    C[np.ix_(context.given, context.others)] = across.T
    C[np.ix_(context.others, context.others)] = rest + across @ context.coefficients.T
    return C, A


@pytest.mark.parametrize("statistic", ["mahalanobis", "spe", "t2"])
def test_equals_brute_force_over_coalitions_with_the_given_columns(statistic):
    table = plant(300)[["load", "s0", "s1", "s2", "s3", "grade"]]
    detector = PCADetector(2, given=["load", "grade"], statistic=statistic).fit(table)
    new = plant(3, seed=5)[table.columns] + 2.0
    why, model = detector.explain(new), detector.fitted.deciding_model
    C, A = joint(model, statistic)
    given, others = model.context.given.tolist(), model.context.others.tolist()
    for row, x in enumerate(new.to_numpy() - model.context.row(model.centre)):
        values = {
            S: witness.conditional_value(C, A, x, sorted([others[k] for k in S] + given))
            for S in witness.coalitions(len(others))
        }
        np.testing.assert_allclose(why.values[row], witness.shapley(values, len(others)), atol=1e-10)
        assert why.score[row] == pytest.approx(values[tuple(range(len(others)))], rel=1e-10)
        assert why.base_value == pytest.approx(values[()], rel=1e-10)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-12)
    assert why.feature_names == ("s0", "s1", "s2", "s3")


def test_mahalanobis_is_that_of_the_row_less_that_of_the_context(detector):
    model, rows = detector.fitted.deciding_model, plant(5, seed=3)
    C, _ = joint(model, "mahalanobis")
    x, given = rows.to_numpy() - model.context.row(model.centre), model.context.given
    whole = np.einsum("ni,ij,nj->n", x, np.linalg.inv(C), x)
    context = np.einsum("ni,ij,nj->n", x[:, given], np.linalg.inv(C[np.ix_(given, given)]), x[:, given])
    np.testing.assert_allclose(-detector.score_samples(rows), whole - context, rtol=1e-9)


def test_expected_values_follow_from_all_other_columns_of_the_joint_gaussian(detector):
    model, rows = detector.fitted.deciding_model, plant(4, seed=3)
    C, _ = joint(model, "mahalanobis")
    x = rows.to_numpy() - model.context.row(model.centre)
    for k, j in enumerate(model.context.others.tolist()):
        rest = [i for i in range(len(C)) if i != j]
        implied = x[:, rest] @ np.linalg.solve(C[np.ix_(rest, rest)], C[rest, j]) + model.context.row(model.centre)[j]
        np.testing.assert_allclose(detector.explain(rows).expected[:, k], implied, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("statistic", ["auto", "spe", "t2"])
def test_context_alone_raises_no_alarms(statistic):
    detector = PCADetector(given=["load", "grade"], statistic=statistic).fit(plant(1000))
    within = (detector.predict(plant(4000, seed=1)) == -1).mean()
    # six standard deviations out: the effect of the context is learned with an error that grows with the distance
    far = (detector.predict(plant(4000, seed=2, load=lambda rng, n: 6 + rng.normal(size=(n, 2)))) == -1).mean()
    without = PCADetector(statistic=statistic).fit(plant(1000)[[f"s{i}" for i in range(8)]])
    far_table = plant(4000, seed=2, load=lambda rng, n: 6 + rng.normal(size=(n, 2)))
    assert within < 0.02
    assert far < 0.06
    if statistic != "spe":
        assert (without.predict(far_table[[f"s{i}" for i in range(8)]]) == -1).mean() > 0.5


def test_given_columns_are_never_blamed(detector):
    rows = plant(50, seed=4)
    rows["load"] += 1e3  # a broken load sensor spoils the judgement of the others, but is not blamed
    assert not {"load", "grade"} & set(detector.explain(rows).top(8)["feature"])
    faulty = plant(50, seed=4)
    faulty["s3"] += 8
    assert (detector.explain(faulty).top(1)["feature"] == "s3").mean() > 0.8
    incidents = detector.incidents(faulty)
    assert {culprit.feature for one in incidents for culprit in one.culprits} <= {f"s{i}" for i in range(8)}
    worst = incidents[0].worst
    assert set(worst.to_fix) == {"s3"}
    assert worst.to_fix["s3"] == pytest.approx(faulty["s3"][worst.row] - 8, abs=3)


def test_rows_that_lack_a_given_cell_are_not_judged(detector):
    rows = plant(4, seed=4)
    rows.loc[1, "load"] = np.nan
    rows.loc[2, "s3"] = np.nan
    with pytest.warns(UserWarning, match="or a given feature is missing, so it gets no score: 1"):
        score = detector.score_samples(rows)
    assert np.isnan(score).tolist() == [False, True, False, False]
    with pytest.warns(UserWarning, match="or a given feature is missing"):
        why = detector.explain(rows)
    np.testing.assert_allclose((why.values.sum(axis=1) + why.base_value)[[0, 2, 3]], why.score[[0, 2, 3]])


def test_learns_from_rows_with_missing_cells():
    table, rng = plant(800), np.random.default_rng(0)
    holes = table.mask(rng.random(table.shape) < 0.05)
    full, partly = (PCADetector(3, given=["load", "grade"]).fit(rows) for rows in (table, holes))
    ours, theirs = (d.fitted.deciding_model.context.coefficients for d in (partly, full))
    np.testing.assert_allclose(ours, theirs, atol=0.3)
    assert (partly.predict(plant(2000, seed=1)) == -1).mean() < 0.03


@hypothesis_given(
    n=st.integers(8, 40), d=st.integers(3, 6), k=st.integers(1, 2), seed=st.integers(0, 1000), mean=st.floats(-1e4, 1e4)
)
@settings(max_examples=30, deadline=None)
def test_moments_and_rows_agree(n, d, k, seed, mean):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + mean
    given = np.sort(rng.choice(d, k, replace=False))
    by_rows, by_moments = Context.of_rows(X, given), Context.of_moments(Moments.of(X), given)
    np.testing.assert_allclose(by_rows.coefficients, by_moments.coefficients, rtol=1e-6, atol=1e-8)
    adjusted = by_moments.adjust_moments(Moments.of(X))
    np.testing.assert_allclose(adjusted.covariance, np.cov(by_rows.adjust(X).T), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(adjusted.mean, by_rows.adjust(X).mean(axis=0), rtol=1e-8, atol=1e-8)
    # what is left has nothing to do with the context
    left = by_moments.adjust(X)
    left = left - left.mean(axis=0)
    np.testing.assert_allclose((X[:, given] - X[:, given].mean(axis=0)).T @ left / n, 0, atol=1e-6)
    joined = by_moments.joint_moments(adjusted)
    np.testing.assert_allclose(joined.covariance, np.cov(X.T), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(joined.mean, X.mean(axis=0), rtol=1e-8, atol=1e-8)


def test_learning_in_pieces_and_from_a_file_goes_on(detector, tmp_path):
    first, second = plant(600), plant(400, seed=8)
    pieces = PCADetector(3, given=[0, 9], limit="formula").partial_fit(first).partial_fit(second)
    whole = PCADetector(3, given=[0, 9], limit="formula").fit(pd.concat([first, second], ignore_index=True))
    assert pieces.limit_ == pytest.approx(whole.limit_, rel=1e-8)
    loaded = PCADetector(3, given=["load", "grade"], limit="formula").fit(first)
    loaded.save(tmp_path / "m.culpa")
    again = culpa.load(tmp_path / "m.culpa").partial_fit(second)
    assert again.limit_ == pytest.approx(whole.limit_, rel=1e-8)
    detector.save(tmp_path / "m.culpa")
    again, rows = culpa.load(tmp_path / "m.culpa"), plant(20, seed=4)
    np.testing.assert_array_equal(again.score_samples(rows), detector.score_samples(rows))
    np.testing.assert_array_equal(again.explain(rows).expected, detector.explain(rows).expected)


def test_columns_that_follow_from_the_context_or_repeat_it():
    table = plant(500)
    table["twice"], table["copy of load"] = 2 * table["load"] + 1, table["load"]
    detector = PCADetector(given=["load", "grade", "copy of load"]).fit(table)
    new = plant(1000, seed=1)
    new["twice"], new["copy of load"] = 2 * new["load"] + 1, new["load"]
    assert (detector.predict(new) == -1).mean() < 0.03


def test_refuses_what_it_cannot_do():
    table = plant(100)
    with pytest.raises(ValueError, match="lode"):
        PCADetector(given=["lode"]).fit(table)
    with pytest.raises(ValueError, match="at least 2 are needed"):
        PCADetector(given=list(table.columns[:-1])).fit(table)
    with pytest.raises(ValueError, match="too few to learn the effect"):
        PCADetector(given=["load", "grade"]).fit(table[:3])


def test_lags_of_the_context_are_given_too():
    table = plant(600)
    detector = PCADetector(given=["load"], lags=1).fit(table)
    context = detector.fitted.deciding_model.context
    assert context.given.tolist() == [0, 10]
    with pytest.warns(UserWarning, match="or a given feature is missing"):
        why = detector.explain(table[:20])
    assert why.feature_names == tuple(table.columns[1:])
    np.testing.assert_allclose((why.values.sum(axis=1) + why.base_value)[1:], why.score[1:])


def test_reconstruction_leaves_given_columns_alone(detector):
    rows = plant(10, seed=4)
    np.testing.assert_array_equal(detector.reconstruct(rows)[["load", "grade"]], rows[["load", "grade"]])
    residuals = detector.residuals(rows).to_numpy()
    assert not residuals[:, [0, 9]].any()
    assert np.abs(residuals[:, 1:9]).max() < 4


def test_report_and_plots(detector):
    rows = plant(60, seed=4)
    rows.loc[20:30, "s3"] += 8
    content = detector.report(rows).to_dict()
    assert content["players"] == [f"s{i}" for i in range(8)]
    per_row = detector.report(rows, given=["s0"]).to_dict()["details"]
    assert per_row["base_value"] is None
    for detail in per_row["rows"]:
        assert sum(detail["value"]) + detail["base_value"] == pytest.approx(detail["score"], rel=1e-6)
