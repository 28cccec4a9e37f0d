"""Pipelines that end in a detector: incidents, reports, charts and calibration by original column."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, PowerTransformer, RobustScaler, StandardScaler

from culpa import Explainer, PCADetector, PipelineDetector, calibrate
from culpa.datasets import make_plant

mpl.use("Agg")


@pytest.fixture(scope="module")
def plant():
    made = make_plant()
    names = [f"tag {i}" for i in range(12)]
    return [pd.DataFrame(np.asarray(X), columns=names) for X in (made.normal, made.new)]


@pytest.fixture(scope="module")
def plain(plant):
    return PCADetector(4).fit(plant[0])


SCALED = {
    "nothing": lambda: (),
    "scaler": lambda: (StandardScaler(),),
    "imputer and scaler": lambda: (SimpleImputer(), StandardScaler()),
    "neighbours and scalers": lambda: (KNNImputer(), MinMaxScaler(), StandardScaler()),
    "transformer": lambda: (make_column_transformer((MinMaxScaler(), slice(0, 5)), remainder="passthrough"),),
    "frozen": lambda: (SimpleImputer(), "frozen"),
    "union": lambda: (make_union(make_column_transformer((StandardScaler(), slice(0, 12)))),),
}


def pipeline_of(kind, normal, detector):
    steps = [
        FrozenEstimator(StandardScaler().fit(normal.to_numpy() + 5)) if step == "frozen" else step
        for step in SCALED[kind]()
    ]
    return make_pipeline(*steps, detector).fit(normal)


@pytest.mark.parametrize("kind", sorted(SCALED))
def test_steps_that_scale_change_nothing(kind, plant, plain):
    """A detector divides by standard deviations itself, so everything must come out as without the steps."""
    normal, new = plant
    detector = PipelineDetector(pipeline_of(kind, normal, PCADetector(4)))
    assert detector.fitted.limit == pytest.approx(plain.limit_)
    np.testing.assert_allclose(detector.score_samples(new), plain.score_samples(new), rtol=1e-7)
    np.testing.assert_array_equal(detector.predict(new), plain.predict(new))
    incidents, expected = (each.incidents(new, gap=3, min_length=5) for each in (detector, plain))
    assert str(incidents) == str(expected)
    columns = ["start", "end", "culprit", "actual", "expected", "expected_sd", "score"]
    pd.testing.assert_frame_equal(incidents.to_frame()[columns], expected.to_frame()[columns], rtol=1e-6)
    pd.testing.assert_frame_equal(detector.explain(new[50:60]).top(3), plain.explain(new[50:60]).top(3), rtol=1e-6)
    pd.testing.assert_frame_equal(detector.statistics(new), plain.statistics(new), rtol=1e-6)
    pd.testing.assert_frame_equal(detector.reconstruct(new), plain.reconstruct(new), rtol=1e-6)
    pd.testing.assert_frame_equal(detector.contributions(new), plain.contributions(new), rtol=1e-6)
    assert detector.drift(new).sentence == plain.drift(new).sentence
    assert detector.compare(normal, new).sentence == plain.compare(normal, new).sentence


@pytest.mark.parametrize("drift", [0.0, 60.0])
def test_rows_in_order_of_time_are_judged_as_without_a_scaler(plant, drift):
    """By default, where the limit follows."""
    normal, new = (10 * rows + 100 for rows in plant)
    normal = normal + np.linspace(-drift, 0.0, len(normal))[:, None]
    detector = PipelineDetector(make_pipeline(StandardScaler(), PCADetector()).fit(normal))
    plain = PCADetector().fit(normal)
    assert detector.fitted.views is not None
    incidents, expected = (each.incidents(new) for each in (detector, plain))
    assert len(expected) > 3
    assert {"level" if drift == 0 else "departure"} <= {one.culprits[0].view for one in expected if one.culprits}
    assert [each.sentence for each in incidents] == [each.sentence for each in expected]


def test_report_and_charts(plant, plain):
    normal, new = plant
    detector = PipelineDetector(pipeline_of("imputer and scaler", normal, PCADetector(4)))
    ours, theirs = (each.report(new, gap=3, min_length=5) for each in (detector, plain))
    assert ours.content["overview"] == theirs.content["overview"]
    assert [one["name"] for one in ours.to_dict()["features"]] == [one["name"] for one in theirs.to_dict()["features"]]
    for ax in detector.plot.control_chart(new):
        assert ax.lines
    assert detector.plot.distance(new).collections
    mpl.pyplot.close("all")
    timed = new.assign(time=pd.date_range("2024-01-01", periods=400, freq="min"))
    assert detector.incidents(timed, time="time", gap="3min", min_length=5)[0].start == pd.Timestamp("2024-01-01 00:50")


def test_an_imputer_does_not_merge_columns(plant):
    normal, new = plant
    holes = normal.mask(np.random.default_rng(0).random(normal.shape) < 0.0005)
    for imputer in (SimpleImputer(), SimpleImputer(add_indicator=True), KNNImputer(), iterative()):
        pipeline = make_pipeline(imputer, PCADetector(4)).fit(holes)
        why = Explainer(pipeline).explain(new[50:55])
        assert why.player_names == tuple(normal.columns)
        assert set(why.top(1)["feature"]) == {"tag 2"}
        if isinstance(imputer, SimpleImputer) and imputer.add_indicator:
            continue  # columns that are almost constant raise the limit, and nothing is flagged
        found = PipelineDetector(pipeline).incidents(new, gap=3, min_length=5)
        assert found[0].culprits[0].feature == "tag 2"


def iterative():
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    return IterativeImputer(max_iter=2, random_state=0, tol=1.0)


def mixed_tables(plant):
    rng = np.random.default_rng(0)
    tables = []
    for frame in plant:
        grade = np.where(
            frame["tag 1"] > frame["tag 1"].median(), "soft", np.where(rng.random(len(frame)) < 0.5, "a", "b")
        )
        tables.append(frame.assign(grade=grade))
    return tables


@pytest.mark.parametrize("kind", [lambda frame: frame, pl.from_pandas], ids=["pandas", "polars"])
def test_text_and_powers(plant, kind):
    """Columns that become several features are one culprit; those that bend keep their names."""
    normal, new = map(kind, mixed_tables(plant))
    steps = make_column_transformer(
        (OneHotEncoder(), ["grade"]), (PowerTransformer(), ["tag 0"]), remainder=StandardScaler()
    )
    pipeline = make_pipeline(steps, PCADetector(5)).fit(normal)
    detector = PipelineDetector(pipeline)
    why = detector.explain(new)
    assert set(why.player_names) == {"grade", *(f"tag {i}" for i in range(12))}
    whole = Explainer(pipeline, score=detector.fitted.statistic.name).explain(new)
    order = [why.player_names.index(name) for name in whole.player_names]
    np.testing.assert_allclose(why.values[:, order], whole.values, rtol=1e-6, atol=1e-8)
    found = detector.incidents(new, gap=3, min_length=5)
    first = next(one for one in found if one.first in range(45, 60))
    assert first.culprits[0].feature == "tag 2"
    assert first.culprits[0].actual == pytest.approx(float(new["tag 2"][first.onset.row]), rel=1e-6)
    assert "tag 2" in detector.report(new).to_html()


def test_steps_that_mix_all_columns(plant):
    pipeline = make_pipeline(PCA(6), PCADetector(3)).fit(plant[0])
    why = PipelineDetector(pipeline).explain(plant[1][:3])
    assert why.player_names == ("+".join(f"tag {i}" for i in range(12)),)


def test_lags_and_given_columns(plant):
    normal, new = plant
    for options in ({"lags": 1}, {"given": [0]}, {"smooth": 0.3}):
        plain = PCADetector(3, **options).fit(normal)
        pipeline = make_pipeline(SimpleImputer(), StandardScaler(), PCADetector(3, **options)).fit(normal)
        detector = PipelineDetector(pipeline)
        np.testing.assert_allclose(detector.score_samples(new), plain.score_samples(new), rtol=1e-6)
        mine, theirs = (each.incidents(new, gap=3, min_length=5) for each in (detector, plain))
        assert [one.culprits[0].feature for one in mine] == [one.culprits[0].feature for one in theirs]


def test_calibrate(plant):
    normal = plant[0][:300]
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), PCADetector(limit="formula"))
    best = calibrate(normal, pipeline, n_trials=60, n_folds=2)
    alone = calibrate(normal, PCADetector(limit="formula"), n_trials=60, n_folds=2)
    assert best[-1].get_params() == alone.get_params()
    assert best[-1].calibration_.best == alone.calibration_.best
    assert not hasattr(pipeline[-1], "model_")
    assert PipelineDetector(best).fitted.limit == pytest.approx(alone.limit_)


def test_what_is_refused(plant):
    normal = plant[0]
    with pytest.raises(TypeError, match="a Pipeline whose last step is a PCADetector, but got a PCA of sklearn"):
        PipelineDetector(make_pipeline(StandardScaler(), PCA(2)).fit(normal))
    with pytest.raises(TypeError, match="but got a PCADetector of culpa"):
        PipelineDetector(PCADetector().fit(normal))
    with pytest.raises(ValueError, match="X has 0 rows, but at least 1 are needed"):
        PipelineDetector(make_pipeline(StandardScaler(), PCADetector()).fit(normal)).predict(normal[:0])
    assert repr(PipelineDetector(make_pipeline(StandardScaler(), PCADetector()).fit(normal))) == (
        "<PipelineDetector: 1 step before a PCADetector>"
    )


STEPS = [
    (),
    (StandardScaler(),),
    (MinMaxScaler((-3, 1)),),
    (MinMaxScaler(clip=True),),
    (SimpleImputer(), RobustScaler()),
    (StandardScaler(copy=False),),
    (PowerTransformer(),),
    (StandardScaler(), PCA(5)),
]
OPTIONS = [
    {},
    {"model": "copula"},
    {"model": "copula", "lags": 1},
    {"model": "student"},
    {"modes": 2},
    {"given": [1]},
    {"smooth": 0.4},
    {"statistic": "combined", "confidence": 0.9},
    {"limit": "empirical"},
]


def check_against_the_pipeline(detector, pipeline, new):
    given = new.copy()
    np.testing.assert_allclose(detector.score_samples(given), pipeline.score_samples(new.copy()), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(detector.predict(given), pipeline.predict(new.copy()))
    assert detector.fitted.limit == pipeline[-1].limit_
    np.testing.assert_allclose(-detector.explain(given[:6]).score, pipeline.score_samples(new[:6].copy()), rtol=1e-6)
    np.testing.assert_array_equal(given, new)


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_pipeline_whatever_happens_to_that(plant, seed):
    """Fits, updates of the limit and new settings in between: scores and alarms are those of the Pipeline, always."""
    rng = np.random.default_rng(seed)
    tables = [table.to_numpy()[:, :6] for table in plant]
    tables[1] = np.concatenate([tables[1][:60], tables[1][:10] * 3])
    options = OPTIONS[rng.integers(len(OPTIONS))]
    pipeline = make_pipeline(*STEPS[rng.integers(len(STEPS))], PCADetector(2, **options)).fit(tables[0][:300].copy())
    detector = PipelineDetector(pipeline)
    check_against_the_pipeline(detector, pipeline, tables[1])
    pipeline.fit(tables[0][300:600] * 2 + 1)
    check_against_the_pipeline(detector, pipeline, tables[1])
    seen = tables[0][600:900].copy()
    for step in (step for _, step in pipeline.steps[:-1]):
        seen = step.transform(seen)
    pipeline[-1].calibrate_limit(seen)
    check_against_the_pipeline(detector, pipeline, tables[1])
    pipeline[-1].set_params(noun="tag")
    assert detector.fitted.settings.noun == "tag"


@pytest.mark.parametrize("options", [{"model": "copula"}, {"model": "copula", "lags": 1}], ids=str)
def test_a_copula_is_in_the_units_of_the_columns(plant, options):
    normal, new = (table.iloc[:, :6].assign(still=2.5) for table in plant)
    new.loc[3, "still"] = 4.0
    steps = [FrozenEstimator(StandardScaler().fit(normal * 3 + np.arange(len(normal))[:, None]))]
    detector = PipelineDetector(make_pipeline(*steps, PCADetector(2, **options)).fit(normal))
    rows = new[:50]
    np.testing.assert_allclose(detector.score_samples(rows), detector.pipeline.score_samples(rows), rtol=1e-6)
    why = detector.explain(rows)
    np.testing.assert_allclose(why.data, rows, rtol=1e-9)
    plain = PCADetector(2, **options).fit(normal.drop(columns="still")).explain(rows.drop(columns="still"))
    np.testing.assert_allclose(why.expected[:, :6].mean(axis=0), plain.expected.mean(axis=0), rtol=0.05)
