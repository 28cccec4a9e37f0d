"""Pipelines are explained by the columns that went in, whatever their steps made of them."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    SplineTransformer,
    StandardScaler,
)
from witness import by_hand

from culpa import PPCA, Explainer, Explanation, Lags, PCADetector
from culpa.columns.tracing import positions
from culpa.models import as_fitted_model

needs_other_tables = pytest.mark.skipif(
    tuple(int(part) for part in sklearn.__version__.split(".")[:2]) < (1, 9),
    reason=f"scikit-learn {sklearn.__version__} chooses columns of pandas tables only",
)
NUMBERS = ["flow", "power", "temperature"]
TEXTS = ["grade", "line"]


def table(n=200, seed=0):
    """Grade follows the flow, line follows nothing."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2))
    return pd.DataFrame(
        {
            "flow": 100 + 8 * z[:, 0] + rng.normal(size=n),
            "grade": np.array(["coarse", "fine", "extra fine"])[(z[:, 0] > -0.5).astype(int) + (z[:, 0] > 0.7)],
            "power": np.exp(1 + 0.2 * z[:, 0] + 0.1 * z[:, 1]),
            "line": rng.choice(["north", "south"], n),
            "temperature": 20 - z[:, 1] + 0.2 * rng.normal(size=n),
        }
    )


def pipeline(*steps, encoder=None, last=None, **options):
    columns = ColumnTransformer(
        [("scale", StandardScaler(), NUMBERS), ("encode", encoder or OneHotEncoder(), TEXTS)], **options
    )
    return make_pipeline(columns, *steps, PCA(4) if last is None else last)


class TestValues:
    @pytest.mark.parametrize("score", ["spe", "t2"])
    @pytest.mark.parametrize("drop", [None, "first"])
    def test_equal_the_definition_with_groups(self, score, drop):
        X = table()
        model = pipeline(encoder=OneHotEncoder(drop=drop)).fit(X)
        why = Explainer(model, score=score).explain(X[:6])
        assert why.feature_names == tuple(X.columns)
        assert why.groups is None
        encoded = model[:-1].transform(X[:6])
        wide = 2 if drop else 3
        grade, line = [3 + i for i in range(wide)], list(range(3 + wide, encoded.shape[1]))
        players = [[0], grade, [1], line, [2]]
        np.testing.assert_allclose(why.values, by_hand(as_fitted_model(model[-1]), encoded, players, score), atol=1e-9)
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)
        groups = dict(zip(X.columns, players, strict=True))
        plain = Explainer(model[-1], score=score, groups=groups).explain(encoded)
        order = [plain.player_names.index(name) for name in X.columns]
        np.testing.assert_allclose(why.values, plain.values[:, order], atol=1e-12)
        np.testing.assert_allclose(why.score_if_fixed, plain.score_if_fixed[:, order], atol=1e-12)

    def test_do_not_depend_on_the_order_of_transformers_or_columns(self):
        X = table()
        first = Explainer(pipeline().fit(X)).explain(X[:8])
        parts = [("a", OneHotEncoder(), ["line"]), ("b", OneHotEncoder(), ["grade"])]
        parts += [(name, StandardScaler(), [name]) for name in reversed(NUMBERS)]
        shuffled = X[["line", "temperature", "grade", "flow", "power"]]
        second = Explainer(make_pipeline(ColumnTransformer(parts), PCA(4)).fit(shuffled)).explain(shuffled[:8])
        assert second.feature_names == tuple(shuffled.columns)
        order = [second.feature_names.index(name) for name in first.feature_names]
        np.testing.assert_allclose(first.values, second.values[:, order], atol=1e-9)
        np.testing.assert_array_equal(first.data, second.data[:, order])

    def test_a_column_that_never_varies_is_no_culprit(self):
        X = table().assign(constant="same")
        model = pipeline().set_params(columntransformer__encode=OneHotEncoder())
        model.steps[0][1].transformers[1] = ("encode", OneHotEncoder(), [*TEXTS, "constant"])
        why = Explainer(model.fit(X)).explain(X[:5])
        assert why.feature_names[-1] == "constant"
        np.testing.assert_allclose(why.values[:, -1], why.values[0, -1], atol=1e-9)
        assert (why.values[:, -1] < 0).all()  # it is as it should be, every time

    @pytest.mark.parametrize("components", [4, 5, 6])
    def test_collinear_one_hot_columns(self, components):
        """Indicators of one column add up to 1; with 6 of 8 components nothing but these two constraints is left over."""
        X = table()
        model = pipeline(last=PCA(components)).fit(X)
        new = X[:6].copy()
        new.loc[0, "grade"] = "extra fine" if X.grade[0] == "coarse" else "coarse"
        new.loc[1, "flow"] += 40
        why = Explainer(model, score="t2").explain(new)
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-6)
        encoded = model[:-1].transform(new)
        if components < 6:
            players = [[0], [3, 4, 5], [1], [6, 7], [2]]
            np.testing.assert_allclose(
                why.values, by_hand(as_fitted_model(model[-1]), encoded, players, "t2"), rtol=1e-6, atol=1e-9
            )
        assert why.values[1].argmax() == 0

    def test_axioms_for_twins(self):
        """Two columns that say the same share the blame equally."""
        X = table()
        X["grade_2"] = X["grade"]
        model = make_pipeline(
            ColumnTransformer([("s", StandardScaler(), NUMBERS), ("o", OneHotEncoder(), ["grade", "grade_2"])]), PCA(3)
        )
        why = Explainer(model.fit(X)).explain(X[:5])
        np.testing.assert_allclose(why.values[:, 1], why.values[:, -1], atol=1e-9)


class TestCulprits:
    def test_a_wrong_category_is_blamed_and_the_right_one_named(self):
        X = table()
        new = X[X.grade == "extra fine"][:5].copy()
        new["grade"] = "coarse"
        why = Explainer(pipeline(last=PCA(3)).fit(X)).explain(new)
        top = why.top(1)
        assert set(top["feature"]) == {"grade"}
        assert set(top["actual"]) == {"coarse"}
        assert (top["expected"] == "extra fine").mean() >= 0.6

    def test_numbers_in_the_users_units(self):
        X = table()
        new = X[:4].copy()
        new.loc[0, "flow"] += 60
        why = Explainer(pipeline(MinMaxScaler()).fit(X)).explain(new)
        flow = why.feature_names.index("flow")
        assert why.top(1)["feature"][0] == "flow"
        np.testing.assert_allclose(why.data[:, flow].astype(float), new["flow"])
        assert abs(why.expected[0, flow] - X["flow"][0]) < 10

    def test_expected_is_the_conditional_mean_sent_back(self):
        X = table()
        model = pipeline(encoder=OneHotEncoder(drop="first")).fit(X)
        why = Explainer(model).explain(X)
        normal, encoded = as_fitted_model(model[-1]), model[:-1].transform(X)
        others = [1, 2, 3, 4, 5]
        centred = encoded - normal.centre
        mean = normal.centre[0] + normal.gaussian.conditional(centred, others)[0][:, 0]
        scaler = model[0].named_transformers_["scale"]
        np.testing.assert_allclose(why.expected[:, 0].astype(float), scaler.mean_[0] + scaler.scale_[0] * mean)
        # given everything but the grade
        grade = normal.centre[3:5] + normal.gaussian.conditional(centred, [0, 1, 2, 5])[0][:, 3:5]
        indicators = np.column_stack([1 - grade.sum(axis=1), grade])  # "coarse" was dropped
        categories = model[0].named_transformers_["encode"].categories_[0]
        np.testing.assert_array_equal(why.expected[:, 1], categories[indicators.argmax(axis=1)])

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"drop": "first"},
            {"drop": "if_binary"},
            {"min_frequency": 60},
            {"sparse_output": False},
            {"max_categories": 2, "drop": "first"},
            {"handle_unknown": "infrequent_if_exist", "min_frequency": 60},
        ],
    )
    def test_the_way_back_from_one_hot_columns(self, options):
        """Encoded rows sent back give the categories that went in, rare ones by the name of them all."""
        X = table()
        model = pipeline(encoder=OneHotEncoder(**options)).fit(X)
        columns = as_fitted_model(model).columns
        reading = columns.read(X)
        back = columns.decode(reading.features)
        encoder = model[0].named_transformers_["encode"]
        expected = encoder.inverse_transform(encoder.transform(X[TEXTS]))
        np.testing.assert_array_equal(back[:, [1, 3]], expected)
        np.testing.assert_allclose(back[:, [0, 2, 4]].astype(float), X[NUMBERS])

    def test_categories_that_are_numbers_stay_numbers(self):
        X = table()
        X["cylinders"] = np.where(X["flow"] > 100, 8, 4)
        parts = [("s", StandardScaler(), NUMBERS), ("o", OneHotEncoder(), ["cylinders"])]
        why = Explainer(make_pipeline(ColumnTransformer(parts), PCA(3)).fit(X)).explain(X[:5])
        assert why.data.dtype == why.expected.dtype == np.float64
        assert set(why.expected[:, -1]) <= {4.0, 8.0}
        assert why.top(1)["actual"].dtype == np.float64

    def test_ordinal_codes_become_categories(self):
        X = table()
        order = OrdinalEncoder(categories=[["coarse", "fine", "extra fine"]])
        parts = [("s", StandardScaler(), NUMBERS), ("o", make_pipeline(order, StandardScaler()), ["grade"])]
        why = Explainer(make_pipeline(ColumnTransformer(parts), PCA(2)).fit(X)).explain(X[:50])
        assert (why.expected[:, 1] == why.data[:, 1]).mean() > 0.6

    @needs_other_tables
    def test_text_in_every_kind_of_table(self):
        X = table()
        model = pipeline().fit(X)
        why = Explainer(model).explain(X[:5])
        assert why.top(2)["actual"].map(type).eq(str).all()
        for kind in (pl.from_pandas, pa.Table.from_pandas):
            other = Explainer(model).explain(kind(X[:5]))
            np.testing.assert_allclose(other.values, why.values)
            top = other.top(5)
            assert type(top) is type(kind(X))
            assert top["actual"].to_numpy().tolist() == why.top(5)["actual"].tolist()
        again = Explanation.from_dict(json.loads(why.to_json()))
        np.testing.assert_array_equal(again.data, why.data)
        pd.testing.assert_frame_equal(again.top(3), why.top(3).reset_index(drop=True))
        both = Explanation.concatenate([why[:2], why[2:]])
        np.testing.assert_array_equal(both.expected, why.expected)
        assert len(Explainer(model).explain(X[:0])) == 0

    def test_pictures(self):
        from culpa.plots.content import Scatter, Waterfall

        X = table()
        new = X[:20].copy()
        new.loc[1, "grade"] = "extra fine" if X["grade"][1] == "coarse" else "coarse"
        new.loc[2, "flow"] = 200.0
        why = Explainer(pipeline(encoder=OneHotEncoder(handle_unknown="ignore")).fit(X)).explain(new)
        content = Waterfall.of(why, 1)
        assert content.actual[content.names.index("grade")] == new["grade"][1]
        assert content.actual[content.names.index("flow")] == new["flow"][1]
        assert Scatter.of(why, 2).feature == "flow"
        assert Scatter.of(why, 2).against in NUMBERS
        with pytest.raises(ValueError, match=r"'grade' contains text\. Choose other"):
            Scatter.of(why, 2, feature="grade")

    @needs_other_tables
    def test_fitted_on_polars(self):
        X = pl.from_pandas(table())
        why = Explainer(pipeline().fit(X)).explain(X[:4])
        np.testing.assert_allclose(
            why.values, Explainer(pipeline().fit(table())).explain(table()[:4]).values, atol=1e-9
        )
        assert isinstance(why.top(1), pl.DataFrame)


class TestTracing:
    """Which column is behind which feature."""

    def members(self, transformers, X=None, **options):
        X = table() if X is None else X
        model = make_pipeline(ColumnTransformer(transformers, **options), PPCA(2)).fit(X)
        columns = as_fitted_model(model).columns
        return {name: len(own) for name, own in zip(columns.names, columns.members, strict=True)}

    @pytest.mark.parametrize("verbose", [True, False])
    @pytest.mark.parametrize("remainder", ["drop", "passthrough", MinMaxScaler()])
    def test_remainders_and_names(self, verbose, remainder):
        parts = [("s", StandardScaler(), ["flow"]), ("o", OneHotEncoder(), TEXTS)]
        found = self.members(parts, remainder=remainder, verbose_feature_names_out=verbose)
        rest = {} if remainder == "drop" else {"power": 1, "temperature": 1}
        assert found == {"flow": 1, "grade": 3, "line": 2, **rest}
        model = make_pipeline(ColumnTransformer(parts, remainder=remainder, verbose_feature_names_out=verbose), PPCA(2))
        normal = as_fitted_model(model.fit(table()))
        assert ("o__grade_fine" in normal.feature_names) == verbose

    def test_names_do_not_matter(self):
        """Underscores and equal beginnings would mislead whoever took names apart."""
        X = table().rename(columns={"grade": "a", "line": "a_b", "flow": "a_b_c", "power": "é %$ {x}"})
        X["a"] = X["a"].replace({"fine": "b_north"})
        parts = [("o", OneHotEncoder(), ["a", "a_b"]), ("s", StandardScaler(), ["a_b_c", "é %$ {x}", "temperature"])]
        assert self.members(parts, X) == {"a_b_c": 1, "a": 3, "é %$ {x}": 1, "a_b": 2, "temperature": 1}

    def test_columns_by_position_slice_mask_and_function(self):
        by_hand = {"flow": 1, "grade": 3, "power": 1, "line": 2}
        parts = [("s", StandardScaler(), [0, -3]), ("o", OneHotEncoder(), lambda X: [1, 3])]
        assert self.members(parts) == by_hand
        names = list(table().columns)
        for given, expected in [
            ("power", [2]),
            (2, [2]),
            (-1, [4]),
            (slice(1, 3), [1, 2]),
            (slice("grade", "line"), [1, 2, 3]),
            (slice(None, "power"), [0, 1, 2]),
        ]:
            assert positions(given, names, 5) == expected
        assert positions(["line", "flow"], names, 5) == [3, 0]
        assert positions([True, False, False, True, False], names, 5) == [0, 3]
        assert positions(np.array([4, 1]), None, 5) == [4, 1]
        assert positions([], names, 5) == []

    def test_arrays(self):
        X = table().to_numpy(dtype=object)
        parts = [("s", StandardScaler(), [0, 2, 4]), ("o", OneHotEncoder(), [1, 3])]
        model = make_pipeline(ColumnTransformer(parts), PCA(3)).fit(X)
        why = Explainer(model).explain(X[:4])
        assert why.feature_names == ("x0", "x1", "x2", "x3", "x4")
        assert why.data[0, 1] == X[0, 1]
        frame = pd.DataFrame(X[:4])
        np.testing.assert_allclose(Explainer(model).explain(frame).values, why.values)

    def test_nested_pipelines_imputers_and_bins(self):
        X = table()
        X.loc[3, "power"] = np.nan
        X.loc[5, "grade"] = np.nan
        parts = [
            ("n", make_pipeline(SimpleImputer(add_indicator=True), PowerTransformer()), NUMBERS),
            ("c", make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), TEXTS),
            ("b", KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"), ["flow", "temperature"]),
            ("w", SplineTransformer(4), ["flow", "temperature"]),
        ]
        assert self.members(parts, X) == {"flow": 10, "grade": 3, "power": 2, "line": 2, "temperature": 10}
        model = make_pipeline(ColumnTransformer(parts), VarianceThreshold(0.05), PPCA(2)).fit(X)
        why = Explainer(model).explain(X[:6])
        assert why.feature_names == tuple(X.columns)
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)
        assert np.isnan(why.data[3, 2])

    def test_nonlinear_columns_come_back_in_their_units(self):
        X = table()
        parts = [
            (
                "log",
                make_pipeline(FunctionTransformer(np.log, inverse_func=np.exp), StandardScaler()),
                ["power", "flow"],
            ),
            ("power", PowerTransformer(), ["temperature"]),
        ]
        columns = as_fitted_model(make_pipeline(ColumnTransformer(parts), PCA(2)).fit(X)).columns
        back = columns.decode(columns.read(X).features)
        np.testing.assert_allclose(back, X[NUMBERS], rtol=1e-9)
        parts[0] = ("log", FunctionTransformer(np.log), ["power", "flow"])  # nobody said how to undo it
        columns = as_fitted_model(make_pipeline(ColumnTransformer(parts), PCA(2)).fit(X)).columns
        assert columns.names == tuple(NUMBERS)
        assert np.isnan(columns.decode(columns.read(X).features)[:, :2]).all()

    def test_what_mixes_columns_is_blamed_together(self):
        X = table()
        ratio = FunctionTransformer(lambda X: X.assign(ratio=X["flow"] / X["power"]))
        parts = [
            ("ratio", ratio, ["flow", "power"]),
            ("s", StandardScaler(), ["temperature"]),
            ("o", OneHotEncoder(), TEXTS),
        ]
        assert self.members(parts) == {"flow+power": 3, "grade": 3, "line": 2, "temperature": 1}
        parts.append(("again", StandardScaler(), ["flow"]))
        assert self.members(parts) == {"flow": 1, "flow+power": 3, "grade": 3, "line": 2, "temperature": 1}
        named = X.rename(columns={"line": "flow+power"})
        parts[2] = ("o", OneHotEncoder(), ["grade", "flow+power"])
        assert "flow+power (2)" in self.members(parts, named)
        model = make_pipeline(ColumnTransformer(parts[:2]), PPCA(2)).fit(X)
        why = Explainer(model).explain(X[:3])
        assert why.top(2)["actual"].isna().sum() == 3
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)

    def test_one_column_is_itself_whatever_is_done_to_it(self):
        wave = FunctionTransformer(lambda X: np.column_stack([np.sin(X), np.cos(X)]))
        parts = [("w", wave, ["flow"]), ("s", StandardScaler(), ["power", "temperature"])]
        assert self.members(parts) == {"flow": 2, "power": 1, "temperature": 1}

    def test_a_feature_of_a_column_can_be_given(self):
        X = table()
        why = Explainer(pipeline().fit(X), given=["encode__grade_fine"]).explain(X[:3])
        assert why.feature_names == (
            "flow",
            "encode__grade_coarse",
            "encode__grade_extra fine",
            "power",
            "line",
            "temperature",
        )
        np.testing.assert_array_equal(why.data[:, 0], X["flow"][:3])
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)

    def test_groups_override(self):
        X = table()
        model = pipeline(last=PPCA(3)).fit(X)
        groups = {"machine": ["flow", "power"], "product": ["grade", "temperature"]}
        why = Explainer(model, groups=groups).explain(X[:3])
        assert why.player_names == ("machine", "product", "line")
        encoded = model[:-1].transform(X[:3])
        players = [[0, 1], [2, 3, 4, 5], [6, 7]]
        np.testing.assert_allclose(why.values, by_hand(as_fitted_model(model[-1]), encoded, players), atol=1e-9)
        assert why.feature_names == tuple(X.columns)
        # a feature by its own name takes its column apart
        why = Explainer(model, groups={"not coarse": ["encode__grade_fine", "encode__grade_extra fine"]}).explain(X[:3])
        assert "encode__grade_coarse" in why.player_names
        assert why.values.shape == (3, 6)
        np.testing.assert_allclose(
            why.data[:, why.feature_names.index("encode__grade_fine")].astype(float), encoded[:, 5]
        )

    def test_groups_rescue_what_mixes_everything(self):
        X = table()[NUMBERS]
        twice = FunctionTransformer(
            lambda X: pd.concat([X, X.shift(1).bfill().add_prefix("last ")], axis=1),
            feature_names_out=lambda self, names: [*names, *(f"last {name}" for name in names)],
        )
        model = make_pipeline(twice, PCA(3)).fit(X)
        with pytest.raises(TypeError, match="'functiontransformer' of the Pipeline \\(FunctionTransformer\\) may mix"):
            Explainer(model)
        groups = {f"the {name}": [name, f"last {name}"] for name in NUMBERS}
        why = Explainer(model, groups=groups).explain(X)
        assert why.player_names == tuple(groups)

    def test_the_error_of_one_column(self):
        X = table()
        model = pipeline(last=PPCA(3)).fit(X)
        why = Explainer(model, features=["grade"]).explain(X[:3])
        encoded = model[:-1].transform(X[:3])
        np.testing.assert_allclose(why.score, (model[-1].residuals(encoded)[:, 3:6] ** 2).sum(axis=1))

    def test_a_transformer_nobody_knows(self):
        class Odd(TransformerMixin, BaseEstimator):
            def fit(self, X, y=None):
                return self

            def transform(self, X):
                return np.asarray(X)[:, ::-1]

        parts = [
            ("odd", make_pipeline(StandardScaler(), Odd(), Odd()), ["flow", "power"]),
            ("s", StandardScaler(), ["temperature"]),
        ]
        assert self.members(parts) == {"flow+power": 2, "temperature": 1}
        parts[0] = ("norm", Normalizer(), ["flow", "power"])  # keeps names and number, mixes all the same
        assert self.members(parts) == {"flow+power": 2, "temperature": 1}

    def test_lags_in_a_column_transformer(self):
        X = table()
        parts = [("l", make_pipeline(StandardScaler(), Lags(2)), NUMBERS), ("o", OneHotEncoder(), ["grade"])]
        assert self.members(parts) == {"flow": 3, "grade": 3, "power": 3, "temperature": 3}
        model = make_pipeline(ColumnTransformer(parts), PCA(5)).fit(X)
        assert "l__flow (t-2)" in as_fitted_model(model).feature_names
        why = Explainer(model).explain(X, rows=[7, 50])
        assert why.row_labels.tolist() == [7, 50]
        np.testing.assert_allclose(why.values, Explainer(model).explain(X).values[[7, 50]])
        np.testing.assert_allclose(why.data[:, 0].astype(float), X["flow"][[7, 50]])


class TestEnds:
    """What a Pipeline may end in."""

    @pytest.mark.parametrize("last", [PCA(3), PPCA(3), PCADetector(3), PCADetector(3, scale=False)])
    def test_models(self, last):
        X = table()
        model = pipeline(last=last).fit(X)
        why = Explainer(model).explain(X[:4])
        plain = Explainer(model[-1]).explain(model[:-1].transform(X[:4]))
        np.testing.assert_allclose(why.score, plain.score)
        assert why.feature_names == tuple(X.columns)

    def test_missing_cells(self):
        """A missing number is nobody's fault; a missing category is one of its own if it was there in training."""
        X = table()
        X.loc[X.index % 10 == 0, "line"] = None
        new = X[:10].copy()
        new.loc[2, "flow"] = np.nan
        model = pipeline().fit(X)
        why = Explainer(model).explain(new)
        assert why.values[2, 0] == 0
        assert "flow" not in set(why[2].top(5)["feature"])
        assert "line" in set(why[0].top(5)["feature"])
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)

    def test_unknown_categories(self):
        X = table()
        new = X[:3].copy()
        new.loc[1, "grade"] = "powder"
        with pytest.raises(ValueError, match=r"unknown categories \['powder'\]"):
            Explainer(pipeline().fit(X)).explain(new)
        model = pipeline(encoder=OneHotEncoder(handle_unknown="ignore")).fit(X)
        top = Explainer(model).explain(new)[1].top(1)
        assert top["feature"].iloc[0] == "grade"
        assert top["actual"].iloc[0] == "powder"
        assert top["expected"].iloc[0] in set(X["grade"])

    def test_infinity(self):
        X = table()
        parts = [
            ("log", FunctionTransformer(np.log, feature_names_out="one-to-one"), ["flow", "power"]),
            ("s", StandardScaler(), ["temperature"]),
        ]
        model = make_pipeline(ColumnTransformer(parts), PCA(2)).fit(X)
        new = X[:2].copy()
        new.loc[1, "flow"] = 0.0
        with np.errstate(divide="ignore"), pytest.raises(ValueError, match=r"'log__flow'.* contains infinity in row 1"):
            Explainer(model).explain(new)

    def test_scalers_alone_are_folded_in_as_before(self):
        X = table()[NUMBERS]
        model = make_pipeline(StandardScaler(), "passthrough", PCA(2)).fit(X)
        normal = as_fitted_model(model)
        assert normal.encoding is None
        np.testing.assert_allclose(normal.centre, X.mean())

    def test_other_tables_than_the_one_it_was_fitted_on(self):
        X = table()
        model = pipeline().fit(X)
        more = X.assign(operator="Kim")[["operator", *reversed(X.columns)]]  # scikit-learn finds columns by name
        np.testing.assert_allclose(Explainer(model).explain(more[:3]).values, Explainer(model).explain(X[:3]).values)
        with pytest.raises(ValueError, match="columns are missing"):
            Explainer(model).explain(X.drop(columns="flow"))

    def test_sparse_output(self):
        X = table()
        parts = [("s", StandardScaler(), ["flow"]), ("o", OneHotEncoder(), TEXTS)]
        model = Pipeline([("c", ColumnTransformer(parts, sparse_threshold=1.0)), ("pca", PCA(2, svd_solver="arpack"))])
        why = Explainer(model.fit(X)).explain(X[:4])
        dense = Explainer(model.set_params(c__sparse_threshold=0, pca__svd_solver="full").fit(X)).explain(X[:4])
        np.testing.assert_allclose(why.values, dense.values, atol=1e-6)
