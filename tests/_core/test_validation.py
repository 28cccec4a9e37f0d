"""What users hand in: any kind of table, and every kind of mistake, answered in one sentence with a remedy."""

import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from culpa import PPCA, Explainer, Explanation, PCADetector
from culpa._core.validation import read_table

NAMES = ["flow", "pressure", "temperature", "power"]


@pytest.fixture
def normal():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 2)) @ rng.normal(size=(2, 4)) + 0.2 * rng.normal(size=(60, 4))


@pytest.fixture
def detector(normal):
    return PCADetector(2).fit(pd.DataFrame(normal, columns=NAMES))


FRAMES = {
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES, orient="row"),
    "pyarrow": lambda X: pa.table(dict(zip(NAMES, X.T, strict=True))),
}


@pytest.mark.parametrize("kind", sorted(FRAMES))
def test_frames_in_same_kind_out(kind, normal):
    frame = FRAMES[kind](normal)
    detector = PCADetector(2).fit(frame)
    why = detector.explain(frame)
    assert why.feature_names == tuple(NAMES)
    for table in (why.top(2), why.to_frame(), detector.statistics(frame)):
        assert type(table) is type(frame)
    plain = PCADetector(2).fit(normal).explain(normal)
    np.testing.assert_allclose(why.values, plain.values)
    assert isinstance(plain.top(1), pd.DataFrame)


def test_column_types():
    frame = pl.DataFrame(
        {
            "integer": [1, 2, None],
            "boolean": [True, False, None],
            "decimal": [decimal.Decimal("1.5"), None, decimal.Decimal("-2")],
            "float32": pl.Series([1.0, 2.0, 3.0], dtype=pl.Float32),
        }
    )
    expected = [[1, 1, 1.5, 1], [2, 0, np.nan, 2], [np.nan, np.nan, -2, 3]]
    np.testing.assert_array_equal(read_table(frame).array, expected)
    objects = pd.DataFrame({"a": pd.Series([1, 2.5, None], dtype=object), "b": pd.array([1, None, 3], dtype="Int64")})
    np.testing.assert_array_equal(read_table(objects).array, [[1, 1], [2.5, np.nan], [np.nan, 3]])


def test_column_names_that_are_numbers(normal):
    frame = pd.DataFrame(normal)
    assert PCADetector(2).fit(frame).explain(frame).feature_names == ("x0", "x1", "x2", "x3")


def test_row_labels_are_the_users(detector, normal):
    frame = pd.DataFrame(normal[:3], columns=NAMES, index=["mon", "tue", "wed"])
    assert detector.explain(frame).top(1)["row"].tolist() == ["mon", "tue", "wed"]


def bad_tables(X):
    good = pd.DataFrame(X, columns=NAMES)
    return {
        "empty": (good[:0], ValueError, "X has 0 sample"),
        "no columns": (good[[]], ValueError, "X has 0 feature"),
        "wrong columns": (good.rename(columns={"flow": "flux"}), ValueError, r"flux(.|\n)*flow(.|\n)*Pass the columns"),
        "missing column": (good[NAMES[:3]], ValueError, r"now missing:\n- power(.|\n)*Pass the columns"),
        "reordered": (good[NAMES[::-1]], ValueError, r"same order(.|\n)*feature_names_in_"),
        "text": (good.assign(power="high"), ValueError, "column 'power' of X contains String, for example 'high'"),
        "infinity": (
            good.mask(good == X[3, 2], np.inf),
            ValueError,
            "column 'temperature' of X contains infinity in row 3",
        ),
        "minus infinity": (
            good.mask(good == X[0, 0], -np.inf),
            ValueError,
            "column 'flow' of X contains infinity in row 0",
        ),
        "too wide": (X[:, [0, 1, 2, 3, 0]], ValueError, "X has 5 features, but PCADetector is expecting 4"),
        "one row": (X[0], ValueError, "Expected 2D array, got 1D array"),
        "text array": (X.astype(str).astype(object) + "?", ValueError, "in column 0, row 0. Drop that column"),
    }


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("case", sorted(bad_tables(np.arange(240.0).reshape(60, 4))))
@pytest.mark.parametrize("method", ["predict", "explain", "statistics", "residuals"])
def test_bad_new_rows(detector, normal, case, method):
    table, error, message = bad_tables(normal)[case]
    if (case, method) == ("empty", "explain"):  # nothing flagged is nothing to explain, not a mistake
        assert detector.explain(table).top().shape == (0, 9)
        return
    with pytest.raises(error, match=message):
        getattr(detector, method)(table)


@pytest.mark.parametrize("case", ["empty", "no columns", "text", "infinity", "one row", "text array"])
@pytest.mark.parametrize("estimator", [PPCA(2), PCADetector(2)])
def test_bad_training_tables(normal, case, estimator):
    table, error, message = bad_tables(normal)[case]
    with pytest.raises(error, match=message):
        estimator.fit(table)


def test_columns_numbered_out_of_order_are_not_taken_for_others(normal):
    detector = PCADetector(2).fit(pd.DataFrame(normal))
    with pytest.raises(ValueError, match=r"in another order\. Pass them in this order: 0, 1, 2, 3"):
        detector.predict(pd.DataFrame(normal)[[3, 2, 1, 0]])
    named = pd.DataFrame(normal, columns=[10, 20, "c", "d"])
    assert PCADetector(2).fit(named).explain(named).feature_names == ("10", "20", "c", "d")
    with pytest.raises(ValueError, match="same order"):
        PCADetector(2).fit(named).predict(named[["d", 20, "c", 10]])


def test_tables_that_are_not_tables_yet(normal):
    with pytest.raises(TypeError, match=r"X is a polars table that is not in memory. Load it first: X.collect\(\)"):
        PCADetector(2).fit(FRAMES["polars"](normal).lazy())
    twice = pd.DataFrame(normal, columns=["a", "b", "a", "c"])
    with pytest.raises(ValueError, match="several columns of the same name"):
        PCADetector(2).fit(twice)
    dated = pd.DataFrame(normal, columns=NAMES).assign(power=pd.Timestamp("2026-01-01"))
    with pytest.raises(ValueError, match=r"column 'power' of X contains Datetime.*make it the index"):
        PCADetector(2).fit(dated)
    german = pd.DataFrame(normal, columns=NAMES).assign(power="1,5")
    with pytest.raises(ValueError, match=r"for example '1,5', not numbers\. Convert it to numbers"):
        PCADetector(2).fit(german)


def test_rows_that_never_vary(normal):
    with pytest.raises(ValueError, match="no column of X varies"):
        PCADetector().fit(np.ones_like(normal))


def test_parameters_changed_after_fitting_wait_for_the_next_fit(detector, normal):
    frame = pd.DataFrame(normal, columns=NAMES)
    before = detector.explain(frame).score
    detector.set_params(statistic="t2")
    np.testing.assert_allclose(-detector.score_samples(frame), before)
    np.testing.assert_allclose(detector.explain(frame).score, before)


def test_empty_and_full_tables_fit_together(normal):
    frame = FRAMES["polars"](normal)
    why = PCADetector(2).fit(frame).explain(frame)
    assert pl.concat([why[:0].top(1), why.top(1)]).shape == (60, 9)


def test_infinity_next_to_nan(normal):
    normal[2, 1], normal[5, 3] = np.nan, np.inf
    with pytest.raises(ValueError, match="column 'x3' of X contains infinity in row 5"):
        PCADetector(2).fit(normal)


def test_numbers_too_large_to_be_squared(detector, normal):
    normal[4, 2], normal[1, 0] = -1e200, np.nan
    with pytest.raises(ValueError, match=r"column 'temperature' of X contains -1e\+200 in row 4, which is too large"):
        detector.predict(pd.DataFrame(normal, columns=NAMES))


def test_all_nan_column(normal):
    normal[:, 1] = np.nan
    with pytest.raises(ValueError, match="column 'pressure' of X contains only NaN, so nothing can be learned"):
        PCADetector(2).fit(pd.DataFrame(normal, columns=NAMES))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": "spf"}, "unknown score 'spf'.*did you mean 'spe'"),
        ({"game": "condtional"}, "unknown game 'condtional'.*did you mean 'conditional'"),
        ({"method": "magic"}, "unknown method 'magic': choose one of 'auto', 'exact'"),
        ({"features": ["flov"]}, "unknown feature in features: 'flov'.*did you mean 'flow'"),
        ({"features": [7]}, "features contains position 7, but features have positions 0 to 3"),
        ({"features": []}, "at least one feature"),
        ({"features": ["flow"], "score": "t2"}, "needs score='spe' or 'mse', not 't2'"),
        ({"game": "retraining", "score": "t2"}, "use score='spe' or 'mse'"),
        ({"game": "retraining", "retraining_rank": "full"}, "unknown retraining_rank 'full'"),
        ({"max_coalitions": 0}, "max_coalitions must be a whole number of at least 1, or None, got 0"),
        ({"max_coalitions": "many"}, "max_coalitions must be a whole number of at least 1"),
        ({"n_orders": 0}, "n_orders must be a whole number of at least 1"),
        ({"n_orders": 2.5}, "n_orders must be a whole number of at least 1"),
        ({"memory_bytes": None}, "memory_bytes must be a number of at least 0, got None"),
        ({"memory_bytes": -1}, "memory_bytes must be a number of at least 0"),
        ({"exact_operations": float("nan")}, "exact_operations must be a number of at least 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"seed": "a"}, "seed must be a whole number of at least 0"),
        ({"random_state": -1}, "seed must be a whole number of at least 0"),
        ({"seed": 0, "random_state": 1}, "seed=0 and random_state=1 are two names for the same parameter"),
        ({"score": "spe", "statistic": "t2"}, "score='spe' and statistic='t2' are two names for the same parameter"),
        ({"n_jobs": 0}, "n_jobs must be a whole number other than 0 .-1 means all cores., or None, got 0"),
        ({"progress": "yes"}, "progress must be True or False or a function, or None, got 'yes'"),
        ({"features": 3}, "features must be a list of names or positions of features, or None, got 3"),
        ({"groups": ["flow"]}, 'groups must be a dict of group name to list of features or "own", or None, got'),
        ({"groups": {"a": None}}, "groups must be a dict of group name to list of features"),
        ({"rows": "first"}, "rows contains 'first', which is not in the index of X"),
        ({"rows": [0.5]}, "rows contains 0.5, which is not in the index of X"),
        ({"rows": [[0, 1]]}, "rows must be positions, a mask or labels of rows, got"),
        ({"rows": [10_000]}, "rows contains position 10000, but X has 60 rows"),
        ({"groups": {"a": ["flow"], "b": ["flow", "power"]}}, "'flow' is in the groups 'a' and 'b'"),
        ({"groups": {"a": "zz"}}, "unknown feature in group 'a': 'zz'"),
        ({"groups": {"a": []}}, "group 'a' is empty"),
        ({"groups": {"power": ["flow"]}}, "has the name of a feature that is not in the group"),
    ],
)
def test_bad_options(detector, normal, options, message):
    with pytest.raises(ValueError, match=message):
        detector.explain(pd.DataFrame(normal, columns=NAMES), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistic": "q"}, "unknown statistic 'q'"),
        ({"limit": "3 sigma"}, "limit must be a number above 0 or one of .*, got '3 sigma'"),
        ({"limit": "f"}, "limit='f' is for statistic='t2'"),
        ({"confidence": 99}, "confidence must be a number above 0 and below 1"),
        ({"n_components": 4}, "n_components=4 must be less than the number of features, 4"),
    ],
)
def test_bad_detector_options(normal, options, message):
    with pytest.raises(ValueError, match=message):
        PCADetector(**options).fit(normal)


def test_exact_with_too_many_features_says_how_long_and_what_instead():
    X = np.random.default_rng(0).normal(size=(200, 60))
    with pytest.raises(
        ValueError, match=r"2\^60 coalitions of the 60 features, which takes about 93 years. Use method='auto'"
    ):
        Explainer(PPCA(5).fit(X), method="exact")
    groups = {f"g{k}": range(10 * k, 10 * k + 10) for k in range(6)}
    why = Explainer(PPCA(5).fit(X), method="exact", groups=groups).explain(X[:2])
    assert why.exact
    assert why.n_evaluations == 64


def test_other_bad_arguments(detector, normal):
    frame = pd.DataFrame(normal, columns=NAMES)
    with pytest.raises(
        ValueError, match='groups must be a dict of group name to list of features or "own", or None, got'
    ):
        detector.explain(frame, groups=[["flow"]])
    for k in (0, -1, 2.5):
        with pytest.raises(ValueError, match="whole number of at least 1"):
            detector.explain(frame).top(k)


def test_unfitted(normal):
    from sklearn.exceptions import NotFittedError

    for call in (PCADetector().predict, PCADetector().explain, PPCA().transform, PPCA().reconstruct):
        with pytest.raises(NotFittedError, match="not fitted"):
            call(normal)
    with pytest.raises(NotFittedError):
        Explainer(PCADetector())


def test_explanations_of_the_wrong_width(normal):
    with pytest.raises(ValueError, match=r"X has 3 features, but the model has 4\. Pass the columns"):
        Explainer(PPCA(2).fit(normal)).explain(normal[:, :3])
    frame = pd.DataFrame(normal, columns=NAMES)
    with pytest.raises(ValueError, match="another order"):
        Explainer(PPCA(2).fit(frame)).explain(frame[NAMES[::-1]])
    with pytest.raises(ValueError, match="has no column 'flow'"):
        Explainer(PPCA(2).fit(frame)).explain(frame.rename(columns={"flow": "flux"}))
    with pytest.raises(ValueError, match="not an explanation: 'base_value' is missing"):
        Explanation.from_dict(dict.fromkeys(["score"]))


def test_columns_with_numbers_for_names_in_another_order():
    """pandas numbers columns that have no names: they have an order all the same."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(60, 5)))
    turned = X[[2, 0, 1, 4, 3]]
    for fit, other, order in ((X, turned, "0, 1, 2, 3, 4"), (turned, X, "2, 0, 1, 4, 3")):
        for model in (PCADetector(2).fit(fit), Explainer(PCADetector(2).fit(fit)), Explainer(PPCA(2).fit(fit))):
            model.explain(fit[:2])
            with pytest.raises(ValueError, match=f"in another order. Pass them in this order: {order}"):
                model.explain(other[:2])
        with pytest.raises(ValueError, match="in another order"):
            PCADetector(2).fit(fit).predict(other)
    assert len(Explainer(PPCA(2).fit(X)).explain(X[:2].to_numpy())) == 2
