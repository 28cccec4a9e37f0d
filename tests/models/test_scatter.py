"""Covariances of few rows: a factor instead of a matrix gives the same numbers, and no d x d array."""

import tracemalloc

import numpy as np
import pytest

from culpa import PCADetector
from culpa.datasets import make_plant
from culpa.models import Moments
from culpa.models.blocks import BlockMoments
from culpa.models.components import choose_components
from culpa.models.scatter import Scatter

pytestmark = pytest.mark.filterwarnings("ignore::culpa.FitWarning")


def wide_rows(n=40, d=90, seed=0):
    rng = np.random.default_rng(seed)
    return 3.0 + rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + 0.4 * rng.normal(size=(n, d))


def thick(moments):
    """The same moments with a matrix instead of a factor."""
    return Moments(moments.n, moments.reference, moments.offset, Scatter.of_matrix(moments.scatter))


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def test_a_factor_equals_its_matrix():
    F = wide_rows(12, 30)
    thin, matrix = Scatter.of_factor(F), Scatter.of_matrix(F.T @ F)
    assert thin.is_thin
    assert not matrix.is_thin
    assert not Scatter.of_factor(F.T).is_thin
    other, step, scale = Scatter.of_factor(wide_rows(5, 30, 1)), np.arange(30.0), np.linspace(1, 2, 30)
    assert thin.plus(other, step, 2.0).is_thin
    for found, expected in (
        (thin, matrix),
        (thin.times(3.0), matrix.times(3.0)),
        (thin.times(-1.0), matrix.times(-1.0)),
        (thin.over(scale), matrix.over(scale)),
        (thin.plus(other, step, 2.0), matrix.plus(other, step, 2.0)),
        (thin.plus(other, step, -2.0), matrix.plus(other, step, -2.0)),
    ):
        close(found.matrix, expected.matrix)
        close(found.diagonal, expected.diagonal)
        close(found.eigenvalues(), expected.eigenvalues())
        close(found.along(F), expected.along(F))
        seen = np.zeros((30, 30))
        for start, strip in found.strips():
            seen[start : start + len(strip), start:] = strip
        close(np.triu(seen), np.triu(expected.matrix))
    axes, values = thin.eigen()
    other_axes, other_values = matrix.eigen()
    close(values, other_values)
    close(axes[:5], other_axes[:5])
    close(axes @ axes.T, np.eye(12))


@pytest.mark.parametrize("n", [40, 95])
def test_moments_of_few_rows_equal_those_of_the_matrix(n):
    X = wide_rows(n)
    blocks = BlockMoments.of(X)
    thicker = BlockMoments(tuple(map(thick, blocks.blocks)))
    assert blocks.total.about_mean.is_thin == (n < 90)
    close(blocks.total.covariance, np.cov(X.T))
    close(blocks.without(2).covariance, thicker.without(2).covariance)
    close(blocks.total.variances, X.var(axis=0, ddof=1))
    found, expected = (choose_components(each) for each in (blocks, thicker))
    assert found.n_components == expected.n_components
    close(found.log_likelihood, expected.log_likelihood)


def test_a_detector_of_few_rows_equals_that_of_the_matrix(monkeypatch):
    X = wide_rows()
    thin = PCADetector(statistic="mahalanobis").fit(X)
    assert thin.model_.sample_.is_thin
    monkeypatch.setattr(Scatter, "of_factor", classmethod(lambda cls, factor: cls.of_matrix(factor.T @ factor)))
    full = PCADetector(statistic="mahalanobis").fit(X)
    assert not full.model_.sample_.is_thin
    close(thin.model_.covariance_, full.model_.covariance_)
    close(thin.model_.explained_variance_, full.model_.explained_variance_)
    close(thin.limit_, full.limit_)
    close(thin.control_limits()["limit"], full.control_limits()["limit"])
    close(thin.control_limits(training=True)["limit"], full.control_limits(training=True)["limit"])
    close(thin.abnormal_training_rows_["times_limit"], full.abnormal_training_rows_["times_limit"])
    close(thin.score_samples(X + 1), full.score_samples(X + 1))


def test_learning_piece_by_piece_equals_fitting_all():
    X = wide_rows(60)
    whole, pieces = PCADetector(3).fit(X), PCADetector(3).partial_fit(X[:35]).partial_fit(X[35:])
    close(pieces.model_.covariance_, whole.model_.covariance_)
    close(pieces.score_samples(X), whole.score_samples(X))


def test_model_files_of_few_rows_keep_the_factor(tmp_path):
    import culpa

    X, path = wide_rows(20, 1000), tmp_path / "wide.culpa"
    detector = PCADetector(3).fit(X)
    detector.save(path)
    again = culpa.load(path)
    assert again.model_.sample_.is_thin
    assert path.stat().st_size < 1000 * 1000 * 8 / 4
    close(again.model_.covariance_, detector.model_.covariance_)
    np.testing.assert_array_equal(again.score_samples(X), detector.score_samples(X))


def test_no_square_matrix_is_made_of_few_rows(monkeypatch):
    """From the fit to the explanation; the peak is that of small chunks and of some copies of the table."""
    n, d = 40, 3000
    X = wide_rows(n, d)
    for module in ("culpa.models.scatter._CELLS_PER_STRIP", "culpa.scores.quadratic.CELLS_PER_CHUNK"):
        monkeypatch.setattr(module, 1 << 16)
    tracemalloc.start()
    detector = PCADetector().fit(X)
    detector.predict(X)
    detector.suggested_groups()
    detector.control_limits()
    why = detector.explain(X[:1] + 5 * (np.arange(d) == 7), game="interventional")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert why.top(1)["feature"].tolist() == ["x7"]
    assert peak < 0.75 * 8 * d * d
    assert not {"covariance", "residual_map"} & set(vars(detector.model_.gaussian_))


def test_narrow_tables_keep_the_matrix():
    assert not PCADetector().fit(make_plant().normal).model_.sample_.is_thin
