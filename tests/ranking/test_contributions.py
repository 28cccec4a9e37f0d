"""Contributions against their definitions, none of which uses the formulas of the module."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import witness
from scipy.optimize import minimize_scalar
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA, FactorAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from culpa import LatentGaussian, PCADetector, scores
from culpa.games import Interventional
from culpa.models import as_fitted_model
from culpa.ranking import contributions
from culpa.scores import named_score
from culpa.shapley import exact

D = 5
INDICES = ("spe", "mse", "t2", "mahalanobis", "combined")


def rows(n, seed):
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(7).normal(size=(2, D))
    return rng.normal(size=(n, 2)) @ mixing + 0.4 * rng.normal(size=(n, D))


@pytest.fixture(scope="module")
def detector():
    return PCADetector(2).fit(rows(80, 0))


@pytest.fixture(scope="module")
def new(detector):
    return detector.fitted.deciding_model.standardise(rows(6, 1) + np.eye(6, D) * 3)


def roots_of(detector):
    return {name: named_score(name, detector.fitted.deciding_model).root for name in INDICES}


def fallen_by(value, x, j):
    """What a function of the row loses when feature j is chosen best, by numerical search."""

    def with_cell(cell):
        moved = x.copy()
        moved[j] = cell
        return value(moved)

    best = minimize_scalar(with_cell, bracket=(-5.0, 5.0), tol=1e-10)
    return value(x) - best.fun


@pytest.mark.parametrize("name", INDICES)
def test_rbc_is_what_the_best_reconstruction_saves(detector, new, name):
    root = roots_of(detector)[name]
    score = named_score(name, detector.fitted.deciding_model)
    found = contributions.rbc(new, root)
    for x, row in zip(new, found, strict=True):
        wanted = [fallen_by(lambda cells: score(cells[None])[0], x, j) for j in range(D)]
        np.testing.assert_allclose(row, wanted, rtol=1e-6, atol=1e-8)


def test_leave_one_out_is_the_distance_with_and_without_the_feature(detector, new):
    C = detector.fitted.deciding_model.gaussian.covariance
    found = contributions.of_model(as_fitted_model(LatentGaussian(np.zeros(D), *parts(detector))), new, "leave-one-out")
    for x, row in zip(new, found, strict=True):
        for j in range(D):
            kept = np.delete(np.arange(D), j)
            less = x[kept] @ np.linalg.solve(C[np.ix_(kept, kept)], x[kept])
            assert row[j] == pytest.approx(x @ np.linalg.solve(C, x) - less)


def parts(detector):
    gaussian = detector.fitted.deciding_model.gaussian
    return gaussian.loadings, gaussian.noise_variance


@pytest.mark.parametrize("name", INDICES)
def test_pdc_is_the_shapley_value_with_absent_features_at_their_mean(detector, new, name):
    A = roots_of(detector)[name].T @ roots_of(detector)[name]
    found = contributions.pdc(new, roots_of(detector)[name])
    for x, row in zip(new, found, strict=True):
        values = {S: x[list(S)] @ A[np.ix_(S, S)] @ x[list(S)] for S in witness.coalitions(D)}
        np.testing.assert_allclose(row, witness.shapley(values, D), atol=1e-10)


@pytest.mark.parametrize("name", INDICES)
def test_pdc_is_the_interventional_shapley_value_up_to_its_base_line(detector, new, name):
    score, C = named_score(name, detector.fitted.deciding_model), detector.fitted.deciding_model.gaussian.covariance
    found = contributions.pdc(new, score.root)
    base = (score.matrix * C).sum(axis=1)
    for x, row in zip(new, found, strict=True):
        values = witness.all_values(lambda x, S: witness.interventional_value(C, score.matrix, x, S), x)
        np.testing.assert_allclose(row - base, witness.shapley(values, D), atol=1e-10)
    players = [[j] for j in range(D)]
    np.testing.assert_allclose(exact(Interventional(score), new, players).values, found - base, atol=1e-10)


def test_mahalanobis_shapley_is_the_interventional_game_plus_one(detector):
    X = rows(6, 1)
    found = detector.contributions(X, "mahalanobis-shapley")
    np.testing.assert_allclose(found - 1, detector.explain(X, score="mahalanobis", game="interventional").values)


@pytest.mark.parametrize("name", INDICES)
def test_complete_and_partial_decompositions_add_up(detector, name):
    X = rows(6, 1)
    for criterion in ("cdc", "pdc"):
        total = detector.contributions(X, criterion, statistic=name).sum(axis=1)
        np.testing.assert_allclose(total, detector.explain(X, score=name, game="interventional").score)


def test_cdc_of_spe_is_the_squared_residual(detector):
    X = rows(6, 1)
    np.testing.assert_allclose(detector.contributions(X, "cdc"), (detector.residuals(X) / detector.scale_) ** 2)


def test_cdc_takes_the_symmetric_root(detector, new):
    from scipy.linalg import sqrtm

    root = roots_of(detector)["combined"]
    np.testing.assert_allclose(contributions.cdc(new, root), (new @ sqrtm(root.T @ root).real) ** 2, atol=1e-8)


def test_dc_is_the_index_of_the_feature_alone(detector, new):
    score = named_score("combined", detector.fitted.deciding_model)
    alone = np.stack([score(np.where(np.arange(D) == j, new, 0.0)) for j in range(D)], axis=1)
    np.testing.assert_allclose(contributions.dc(new, score.root), alone, atol=1e-12)


def test_relative_contributions_average_one_over_normal_rows(detector):
    X = rows(80, 0)
    for name in INDICES:
        mean = detector.contributions(X, "relative", statistic=name).mean(axis=0)
        np.testing.assert_allclose(mean, (len(X) - 1) / len(X), rtol=1e-9)


def test_z_scores(detector):
    X, train = rows(6, 1), rows(80, 0)
    z = np.abs(X - train.mean(axis=0)) / train.std(axis=0, ddof=1)
    np.testing.assert_allclose(detector.contributions(X, "z-score"), z)


def test_a_matrix_serves_as_well_as_a_model(detector, new):
    matrix = scores.t2(detector.fitted.deciding_model.gaussian).matrix
    np.testing.assert_allclose(
        contributions.rbc(new, contributions.root_of(matrix)),
        contributions.rbc(new, roots_of(detector)["t2"]),
        rtol=1e-9,
    )


@pytest.mark.parametrize("criterion", contributions.CRITERIA)
def test_a_feature_that_the_index_does_not_see_contributes_nothing(criterion):
    X = np.column_stack([rows(50, 0), np.zeros(50)])  # a constant column lies outside all components
    detector = PCADetector(2).fit(X)
    found = detector.contributions(X, criterion)
    assert np.isfinite(found).all()
    if criterion not in ("fault-odds", "propagated"):  # odds are never 0
        assert (found[:, -1] == 0).all()
    t2 = named_score("t2", detector.fitted.deciding_model).root
    np.testing.assert_array_equal(contributions.rbc(X + 1, t2)[:, -1], 0)


@pytest.mark.parametrize("criterion", contributions.CRITERIA)
def test_missing_cells_leave_the_index_of_the_observed_features(detector, criterion):
    X = rows(6, 1)
    X[2, 3] = np.nan
    found = detector.contributions(X, criterion)
    assert np.argwhere(np.isnan(found)).tolist() == [[2, 3]]
    complete = np.delete(np.arange(6), 2)
    np.testing.assert_allclose(found[complete], detector.contributions(X[complete], criterion))
    if criterion == "leave-one-out":
        C, seen = detector.fitted.deciding_model.gaussian.covariance, [0, 1, 2, 4]
        x = detector.fitted.deciding_model.standardise(X)[2, seen]
        P = np.linalg.inv(C[np.ix_(seen, seen)])
        np.testing.assert_allclose(found[2, seen], (P @ x) ** 2 / np.diag(P))
    if criterion == "rbc":
        score, x = named_score("spe", detector.fitted.deciding_model), detector.fitted.deciding_model.standardise(X)[2]
        wanted = [fallen_by(lambda cells: score(cells[None])[0], x, j) for j in (0, 1, 2, 4)]
        np.testing.assert_allclose(found[2, [0, 1, 2, 4]], wanted, rtol=1e-6)


def test_rows_without_any_cell_are_warned_about(detector):
    X = rows(3, 1)
    X[1] = np.nan
    with pytest.warns(UserWarning, match="1 row"):
        assert np.isnan(detector.contributions(X)[1]).all()


def test_tables_come_back_in_kind():
    frame = pd.DataFrame(rows(20, 0), columns=list("abcde"), index=range(100, 120))
    detector = PCADetector(2).fit(frame)
    found = detector.contributions(frame)
    assert list(found.columns) == list("abcde")
    assert found.index.equals(frame.index)
    other = detector.contributions(pl.from_pandas(frame))
    assert isinstance(other, pl.DataFrame)
    np.testing.assert_array_equal(other.to_numpy(), found.to_numpy())
    assert isinstance(PCADetector(2).fit(rows(20, 0)).contributions(rows(3, 1)), np.ndarray)
    assert len(detector.contributions(frame[:0])) == 0


def test_other_peoples_models():
    X = rows(60, 0)
    for model in (PCA(2).fit(X), FactorAnalysis(2).fit(X)):
        for criterion in contributions.CRITERIA:
            assert np.isfinite(contributions.of_model(model, X, criterion)).all()


def test_clear_refusals(detector):
    X = rows(3, 1)
    with pytest.raises(ValueError, match="did you mean 'rbc'"):
        detector.contributions(X, "rbcc")
    with pytest.raises(ValueError, match="Do not pass a score"):
        detector.contributions(X, "leave-one-out", statistic="t2")
    with pytest.raises(ValueError, match="unknown score"):
        detector.contributions(X, "rbc", statistic="q")
    with pytest.raises(ValueError, match="features"):
        contributions.of_model(detector, X[:, :3])


def test_columns_of_a_pipeline_keep_their_own_contributions():
    """Whatever the order of the table's columns, and whether or not the pipeline uses all of them."""
    frame = pd.DataFrame(rows(60, 0), columns=list("abcde"))
    frame["k"] = np.where(np.arange(60) % 2, "on", "off")
    scaled, encoded = (StandardScaler(), list("abcde")), (OneHotEncoder(sparse_output=False), ["k"])
    model = make_pipeline(make_column_transformer(scaled, encoded), PCA(2)).fit(frame)
    found = contributions.of_model(model, frame)
    other = contributions.of_model(model, frame[list("kedcba")])
    assert set(found.columns) == set("abcdek")
    pd.testing.assert_frame_equal(other[found.columns], found)
    without = make_pipeline(make_column_transformer(scaled), PCA(2)).fit(frame)
    assert list(contributions.of_model(without, frame).columns) == list("abcde")
    numbered = frame[list("abcde")].set_axis([3, 1, 4, 15, 9], axis=1)
    assert list(PCADetector(2).fit(numbered).contributions(numbered).columns) == [3, 1, 4, 15, 9]


@pytest.mark.parametrize("model", ["ppca", "student"])
@pytest.mark.parametrize("statistic", ["spe", "t2"])
def test_contributions_of_incomplete_rows_add_up_to_their_score(model, statistic):
    """But for what missing cells add whatever the others are."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(3, 7))
    X, new = (rng.standard_t(5, size=(n, 3)) @ W + 0.4 * rng.standard_t(5, size=(n, 7)) for n in (600, 20))
    new[:, [1, 4]] = np.nan
    detector = PCADetector(3, model=model).fit(X)
    score = detector.statistics(new)[statistic]
    for criterion in ("cdc", "pdc"):
        rest = score - np.nansum(detector.contributions(new, criterion, statistic=statistic), axis=1)
        np.testing.assert_allclose(rest, rest[0], rtol=1e-9)
