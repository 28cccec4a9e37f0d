"""Drift of recent rows: rarely seen where there is none, found where there is, and said in words."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import culpa
from culpa import PCADetector
from culpa.models import Moments
from culpa.monitoring.drift_measures import DriftGatherer

SETTINGS = {"n_components": 2, "statistic": "mahalanobis", "limit": "box"}


def loadings(seed=3):
    return np.random.default_rng(seed).normal(size=(2, 6))


def rows(n, rng, W=None, remember=0.0):
    z = rng.normal(size=(n, 2))
    for t in range(1, n):
        z[t] = remember * z[t - 1] + np.sqrt(1 - remember**2) * z[t]
    return z @ (loadings() if W is None else W) + 0.5 * rng.normal(size=(n, 6))


def blocks_of(X, k=10):
    return [Moments.of(part) for part in np.array_split(X, k)]


def drift_of(fitted, recent, blocks, native=None):
    return DriftGatherer(fitted, blocks).add(recent).finish(native)


def drift(seed, change=None, n=50, remember=0.0):
    rng = np.random.default_rng(seed)
    X = rows(400, rng, remember=remember)
    W = loadings()
    if change == "rotated":
        W[:, 0] = -W[:, 0]
    recent = rows(n, rng, W, remember)
    if change == "shifted":
        recent[:, 2] += 1.2
    if change == "noisier":
        recent += 0.5 * np.sqrt(3) * rng.normal(size=recent.shape)  # twice the noise
    return drift_of(PCADetector(**SETTINGS).fit(X).fitted, recent, blocks_of(X))


@pytest.mark.parametrize(("n", "remember"), [(40, 0.0), (40, 0.7), (200, 0.0)])
def test_size_where_nothing_has_changed(n, remember):
    runs, level = 200, 0.05
    p_values = np.array([drift(seed, n=n, remember=remember).p_value for seed in range(runs)])
    most = stats.binom.ppf(0.999, runs, level)
    assert (p_values < level).sum() <= most
    assert p_values.min() > 0
    assert (p_values < 0.5).any()  # it is no constant


@pytest.mark.parametrize(
    ("change", "measure"), [("rotated", "angle"), ("shifted", "mean"), ("noisier", "score")], ids=lambda x: x
)
def test_power(change, measure):
    found = [drift(seed, change, n=40) for seed in range(20)]
    assert np.mean([each.drifted for each in found]) >= 0.9
    assert np.mean([{m.name: m for m in each.measures}[measure].p_value < 0.05 for each in found]) >= 0.9


def test_longer_periods_are_surer():
    def power(n):
        return np.mean([drift(seed, "shifted", n=n).mean.p_value for seed in range(8)])

    assert power(160) < power(10)


def test_short_periods_are_not_called_drift_for_being_short():
    p_values = np.array([drift(seed, n=12).p_value for seed in range(100)])
    assert (p_values < 0.05).sum() <= stats.binom.ppf(0.999, 100, 0.05)
    assert "not certain" in drift(0, n=12).sentence
    assert "not certain" not in drift(0, n=40).sentence


def test_batches_do_not_matter():
    rng = np.random.default_rng(0)
    X, recent = rows(400, rng), rows(215, rng)
    recent[7, 3] = np.nan
    fitted, found = PCADetector(**SETTINGS).fit(X).fitted, []
    for size in (1, 33, 215):
        gatherer = DriftGatherer(fitted, blocks_of(X))
        for start in range(0, len(recent), size):
            gatherer.add(recent[start : start + size])
        found.append(gatherer.finish())
    assert found[0].n_rows == 214
    assert found[0].n_incomplete == 1
    for other in found[1:]:
        for name in ("value", "p_value"):
            numbers = [[getattr(m, name) for m in each.measures] for each in (found[0], other)]
            np.testing.assert_allclose(*numbers, rtol=1e-6)


def test_what_it_says():
    rng = np.random.default_rng(1)
    names = ["flow", "level", "pressure", "speed", "power", "heat"]
    X = pd.DataFrame(rows(600, rng), columns=names)
    recent = X.iloc[:120] + 0.0
    recent["pressure"] += 3 * X["pressure"].std()
    detector = PCADetector(**SETTINGS).fit(X)
    found = drift_of(detector.fitted, recent.to_numpy(), blocks_of(X.to_numpy()), native=recent)
    assert found.drifted
    assert found.sentence.startswith("Drift: ")
    assert "the mean moved by" in found.sentence
    assert f"pressure moved by {found.features[2].shift:+.3g} of its standard deviations" in found.sentence
    assert "<Drift of 120 rows" in repr(found)
    pressure = found.features[2]
    assert pressure.shift == pytest.approx((recent["pressure"].mean() - X["pressure"].mean()) / X["pressure"].std())
    assert pressure.variance_ratio == pytest.approx(recent["pressure"].var() / X["pressure"].var())
    assert pressure.shift_p_value < 0.05 < found.features[0].variance_p_value
    frame = found.to_frame()
    assert list(frame["name"]) == ["angle", "variance", "mean", "score"]
    assert (frame["usual"] < frame["limit"]).all()
    assert list(found.features_to_frame()["feature"]) == names
    content = json.loads(found.to_json())
    assert content["p_value"] == found.p_value
    assert len(content["features"]) == 6
    calm = drift_of(detector.fitted, X.to_numpy()[:60], blocks_of(X.to_numpy()))
    assert calm.sentence.startswith("No drift: the 60 rows")


def test_angle_of_known_subspaces():
    """Two planes that share one direction and are at right angles otherwise: the mean squared sine is one half."""
    rng = np.random.default_rng(0)
    noise = 0.01 * rng.normal(size=(3000, 4))
    X, recent = noise.copy(), noise[:1000].copy()
    X[:, :2] += rng.normal(size=(3000, 2)) * [3.0, 3.0]
    recent[:, [0, 2]] += rng.normal(size=(1000, 2)) * [3.0, 3.0]
    fitted = PCADetector(2, scale=False, statistic="spe", limit="box").fit(X).fitted
    found = drift_of(fitted, recent, blocks_of(X))
    assert found.n_components == 2
    assert found.angle.value == pytest.approx(45, abs=0.5)


@pytest.mark.parametrize(
    "settings", [{"n_components": 5}, {"statistic": "t2"}, {"scale": False}, {"statistic": "combined"}]
)
def test_settings(settings):
    rng = np.random.default_rng(0)
    X = rows(300, rng)
    X[:, 4] = 7.0  # a constant column says nothing
    recent = rows(60, rng)
    recent[:, 4] = 7.0
    found = drift_of(PCADetector(**SETTINGS | settings).fit(X).fitted, recent, blocks_of(X))
    assert np.isfinite([(m.value, m.usual, m.limit, m.p_value) for m in found.measures]).all()
    assert found.p_value > 1e-4


def test_too_few_rows():
    rng = np.random.default_rng(0)
    X = rows(23, rng)
    fitted = PCADetector(**SETTINGS).fit(X).fitted
    with pytest.raises(ValueError, match="23 training rows are too few"):
        drift_of(fitted, X, blocks_of(X))
    X = rows(30, rng)
    fitted = PCADetector(**SETTINGS).fit(X).fitted
    assert drift_of(fitted, rows(30, rng), blocks_of(X)).block_rows == 10
    with pytest.raises(ValueError, match="5 complete row"):
        drift_of(fitted, X[:5], blocks_of(X))


def test_of_a_detector(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rows(600, rng)).add_prefix("s")
    recent = pd.DataFrame(rows(120, rng)).add_prefix("s")
    recent.loc[5, "s1"] = np.nan
    detector = PCADetector(**SETTINGS).fit(frame)
    found = detector.drift(recent)
    assert (found.n_rows, found.n_incomplete, found.block_rows) == (119, 1, 60)
    expected = drift_of(detector.fitted, recent.to_numpy(), blocks_of(frame.to_numpy()))
    assert found.p_value == pytest.approx(expected.p_value, rel=1e-6)
    assert isinstance(found.to_frame(), pd.DataFrame)
    detector.save(tmp_path / "m.culpa")
    assert culpa.load(tmp_path / "m.culpa").drift(recent).p_value == pytest.approx(found.p_value, rel=1e-6)
    detector.partial_fit(recent.dropna(), forget=0.01)
    assert detector.drift(recent + 5).drifted


def test_with_lags():
    rng = np.random.default_rng(0)
    detector = PCADetector(**SETTINGS | {"lags": 1}).fit(rows(400, rng))
    found = detector.drift(rows(80, rng))
    assert (found.n_rows, found.n_incomplete) == (79, 1)  # the first row has no past
    assert len(found.features) == 6


def test_needs_blocks():
    rng = np.random.default_rng(0)
    X = rows(200, rng)
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="drift needs a model that was fitted to complete rows"):
        PCADetector(**SETTINGS).fit(X).drift(rows(50, rng))


@pytest.mark.parametrize("settings", [{"given": [0]}, {"given": [0, 3], "lags": 1}, {"smooth": 0.2}], ids=str)
def test_context_and_smoothing(settings):
    rng = np.random.default_rng(0)
    X, recent = rows(500, rng), rows(100, rng)
    detector = PCADetector(**SETTINGS | settings).fit(X)
    calm = detector.drift(recent)
    assert not calm.drifted
    assert len(calm.features) == 6 - len(settings.get("given", []))
    recent[:, 2] += 1.5
    assert detector.drift(recent).drifted


@pytest.mark.parametrize(
    "settings", [{}, {"statistic": "spe"}, {"given": [0]}, {"model": "student", "limit": "auto"}], ids=str
)
def test_mean_score_is_that_of_other_methods(settings):
    """Also where a few rows decide it, which hardly change the score of a typical stretch."""
    rng = np.random.default_rng(0)
    X, recent = rows(500, rng), rows(400, rng) + 0.5
    recent[120:123, 1] = -9999
    detector = PCADetector(**SETTINGS | settings).fit(X)
    found, scores = detector.drift(recent), -detector.score_samples(recent)
    assert found.mean_score == pytest.approx(scores.mean(), rel=1e-9)
    assert found.mean_score == pytest.approx(detector.compare(X, recent).score_after, rel=1e-9)
    assert found.score.value < found.mean_score / 10
    assert found.n_stretches == 8
    stretches = [part.mean() for part in np.array_split(scores, 8)]
    if not settings:
        assert found.score.value == pytest.approx(stats.gmean(stretches), rel=1e-3)
    typical, overall = found.sentence.split(" Over all 400 rows, ")
    assert typical.startswith("Drift: in a typical stretch of 50 rows, ")
    assert f"the mean score is {found.score.value:.4g} (usual {found.score.usual:.4g}," in typical
    assert f"the mean score is {found.mean_score:.4g}." in overall
    assert json.loads(found.to_json())["mean_score"] == found.mean_score
    assert f"{found.score.value:.4g}" in repr(found).split("score  ")[1]


def test_mean_score_is_unknown_where_rows_are_smoothed():
    rng = np.random.default_rng(0)
    found = PCADetector(**SETTINGS | {"smooth": 0.2}).fit(rows(500, rng)).drift(rows(200, rng) + 1.5)
    assert found.mean_score is None
    assert f"the mean score of rows before smoothing is {found.score.value:.4g} (" in found.sentence


def test_incomplete_rows_are_not_in_the_mean_score():
    rng = np.random.default_rng(0)
    X, recent = rows(500, rng), rows(400, rng) + 1.5
    recent[3, 2] = np.nan
    found = PCADetector(**SETTINGS).fit(X).drift(recent)
    assert "Over all 399 complete rows, " in found.sentence


def test_distances_of_the_mean_and_of_features_have_different_names():
    """A single stretch with a large shift: the typical distance is small, and the mean of all rows far away."""
    rng = np.random.default_rng(0)
    X, recent = rows(500, rng), rows(400, rng) + 0.5
    recent[120:140, 1] = -300
    found = PCADetector(**SETTINGS).fit(X).drift(recent)
    assert f"the mean moved by a Mahalanobis distance of {found.mean.value:.3g} (usual" in found.sentence
    assert " sd" not in found.sentence


def test_columns_that_were_constant():
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(2, 4))

    def table(n, moved, wobble):
        X = rng.normal(size=(n, 2)) @ mix + 0.1 * rng.normal(size=(n, 4))
        return np.column_stack([X, np.full(n, 7.0 + moved), 3.0 + wobble * rng.normal(size=n), np.full(n, 1e6 / 7)])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detector = PCADetector(2).fit(table(400, 0.0, 0.0))
    drift = detector.drift(table(400, 0.3, 0.1))
    moved, began, still = drift.features[4:]
    assert (moved.shift, moved.variance_ratio) == (np.inf, 1.0)
    assert (began.variance_ratio, began.variance_p_value) == (np.inf, 0.0)
    assert (still.shift, still.variance_ratio) == (0.0, 1.0)
    assert "x4 was constant and moved by +0.3" in drift.sentence
    assert json.loads(drift.to_json())["features"][4]["shift"] is None
    only_varies = detector.drift(table(400, 0.0, 1.0)).sentence
    assert "x5 was constant and now varies" in only_varies
    assert "moved by" not in only_varies.partition("Over all")[2]


@pytest.mark.parametrize(
    ("moved", "wobble", "told"),
    [
        (0.01, 0.0, "over all 300 rows, x4 was constant and moved by +0.01."),
        (0.0, 1e-3, "over all 300 rows, x5 was constant and now varies."),
    ],
)
def test_the_sentence_says_what_the_table_says_of_columns_that_were_constant(moved, wobble, told):
    rng = np.random.default_rng(0)

    def table(n, moved, wobble):
        return np.column_stack([rows(n, rng)[:, :4], np.full(n, 5.0 + moved), 5.0 + wobble * rng.normal(size=n)])

    detector = PCADetector(**SETTINGS).fit(table(400, 0.0, 0.0))
    drift, same = detector.drift(table(300, moved, wobble)), detector.drift(table(300, 0.0, 0.0))
    assert drift.drifted
    assert drift.p_value < 1e-9
    assert drift.sentence == f"Drift: {told}"
    assert not same.drifted
    assert min(each.shift_p_value for each in same.features[4:]) == 1.0


@pytest.mark.parametrize("fill", [1e15, 3.4e38])
def test_a_column_that_varied_was_not_constant_whatever_it_reads_now(fill):
    rng = np.random.default_rng(0)
    X, recent = rows(500, rng), rows(400, rng)
    recent[:, 1] = fill
    found = PCADetector(**SETTINGS).fit(X).drift(recent)
    assert "constant" not in found.sentence
    assert found.features[1].shift == pytest.approx(fill / X[:, 1].std(ddof=1), rel=1e-3)
    assert found.features[1].variance_ratio == pytest.approx(0.0, abs=1e-3)


def test_a_short_stretch_is_reduced_by_what_chance_adds_to_it():
    """Distances of means of n rows fall with sqrt(n): ten rows are twice as far as a block of forty."""
    rng = np.random.default_rng(0)
    X, recent = rows(400, rng), rows(10, rng)
    detector = PCADetector(**SETTINGS).fit(X)
    z = (recent.mean(axis=0) - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    distance = np.sqrt(z @ np.linalg.solve(detector.model_.get_covariance(), z))
    assert detector.drift(recent).mean.value == pytest.approx(distance / 2, rel=1e-6)
    log_ratio = np.log(recent.var(axis=0, ddof=1) / X.var(axis=0, ddof=1))
    factor = np.exp(np.sqrt((log_ratio**2).mean()) / 2)
    assert detector.drift(recent).variance.value == pytest.approx(factor, rel=1e-6)
    whole = rows(40, rng)
    z = (whole.mean(axis=0) - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    distance = np.sqrt(z @ np.linalg.solve(detector.model_.get_covariance(), z))
    assert detector.drift(whole).mean.value == pytest.approx(distance, rel=1e-6)


def test_few_rows_are_less_than_half_a_block():
    found = drift(0, n=40)
    assert found.block_rows == 40
    assert "not certain" in replace(found, n_rows=19).sentence
    assert "not certain" not in replace(found, n_rows=20).sentence


def test_measures_are_named_that_are_clear_among_four():
    """Each of four measures must be below 0.05 / 4."""
    found = drift(0, "shifted")
    mean, angle = replace(found.mean, p_value=1e-5), found.angle
    assert "turned" in replace(found, mean=mean, angle=replace(angle, p_value=0.012)).sentence
    assert "turned" not in replace(found, mean=mean, angle=replace(angle, p_value=0.013)).sentence
