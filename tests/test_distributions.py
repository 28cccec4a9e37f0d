"""Detectors with Student-t rows and Gaussian copulas: fits, limits, values, files, incidents, reports, the command line."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
import witness
from command_line import run
from forgery import forge
from scipy import stats

import culpa
from culpa import FitWarning, PCADetector, StudentPPCA
from culpa.detecting.pieces import fit_moments, learn_features
from culpa.models import FittedModel, LatentGaussian
from culpa.models.margins import Margins
from culpa.scores import named_score

W = np.random.default_rng(42).normal(size=(3, 7))
OTHERS = ["student", "copula"]


def normal_rows(n, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) @ W + 0.5 * rng.normal(size=(n, 7)) + 10 * np.arange(7)


def skewed_rows(n, seed):
    """Rows of a Gaussian copula with log-normal, bounded, exponential and heavy-tailed columns, and a rare flag."""
    z = normal_rows(n, seed) - 10 * np.arange(7)
    z /= np.sqrt((W**2).sum(axis=0) + 0.25)
    u = stats.norm.cdf(z)
    columns = [
        np.exp(2 * z[:, 0]),
        u[:, 1],
        stats.expon.ppf(u[:, 2]),
        stats.t(3).ppf(u[:, 3]),
        z[:, 4],
        np.round(4 * u[:, 5]),
        z[:, 6] ** 3,
    ]
    return np.column_stack(columns)


def dirty_rows(n, seed):
    """One row in ten is a gross fault."""
    X, rng = normal_rows(n, seed), np.random.default_rng(seed + 1)
    X[rng.permutation(n)[: n // 10]] += 50 * rng.normal(size=7) + 20 * rng.normal(size=(n // 10, 7))
    return X


def frame(X):
    return pd.DataFrame(X, columns=[f"s{k}" for k in range(X.shape[1])])


def roc_area(detector, normal, faulty):
    """How often a faulty row scores higher than a normal one."""
    ranks = stats.rankdata(np.concatenate([-detector.score_samples(normal), -detector.score_samples(faulty)]))
    n, m = len(normal), len(faulty)
    return (ranks[n:].sum() - m * (m + 1) / 2) / (n * m)


class Exactly:
    """The margins of Gaussian columns, known beforehand."""

    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def to_normal(self, X):
        return (X - self.mean) / self.std

    def to_user(self, Z):
        return self.mean + self.std * Z


class TestCopula:
    @pytest.mark.parametrize("statistic", ["spe", "t2", "mahalanobis"])
    def test_gaussian_margins_equal_a_gaussian(self, statistic):
        """With the exact margins, all values are those of the Gaussian, in the user's units, too."""
        X = normal_rows(400, 0)
        detector = PCADetector(3, statistic=statistic).fit(X)
        usual = detector.fitted.deciding_model
        margins = Exactly(usual.centre, usual.scale)
        copula = FittedModel(usual.gaussian, np.zeros(7), np.ones(7), usual.sample_covariance, 400, margins=margins)
        rows = normal_rows(6, 1)
        rows[0, 2], rows[1, 4], rows[2, [0, 5]] = 60.0, np.nan, np.nan
        first, second = (culpa.Explainer(model, score=statistic).explain(rows) for model in (usual, copula))
        for name in ("values", "score", "expected", "score_if_fixed"):
            np.testing.assert_allclose(getattr(second, name), getattr(first, name), rtol=1e-9, atol=1e-9)

    def test_empirical_margins_of_gaussian_columns_are_nearly_gaussian(self):
        X, new = normal_rows(20_000, 0), normal_rows(300, 1)
        usual, copula = (PCADetector(3, model=model).fit(X) for model in ("ppca", "copula"))
        first, second = (detector.explain(new, score="mahalanobis") for detector in (usual, copula))
        assert np.corrcoef(first.score, second.score)[0, 1] > 0.99
        assert np.median(np.abs(first.values - second.values).max(axis=1) / np.abs(first.values).max(axis=1)) < 0.1

    @pytest.mark.parametrize("statistic", ["spe", "mahalanobis"])
    def test_values_equal_brute_force(self, statistic):
        X = skewed_rows(400, 0)
        detector = PCADetector(3, model="copula", statistic=statistic).fit(X)
        new = skewed_rows(3, 1)
        new[0, 1] = 4.0  # outside what can be
        scores = Margins.of(X).to_normal(X)
        mean, std = scores.mean(axis=0), scores.std(axis=0, ddof=1)
        eigen, axes = np.linalg.eigh(np.cov(((scores - mean) / std).T))
        noise = eigen[:4].mean()
        loadings = axes[:, 4:] * np.sqrt(eigen[4:] - noise)
        g = LatentGaussian(np.zeros(7), loadings, noise)
        C, A = loadings @ loadings.T + noise * np.eye(7), witness.score_matrix(g, statistic)
        why = detector.explain(new)
        for x, values in zip((Margins.of(X).to_normal(new) - mean) / std, why.values, strict=True):
            table = witness.all_values(lambda row, S: witness.conditional_value(C, A, row, S), x)
            np.testing.assert_allclose(values, witness.shapley(table, 7), atol=1e-9 * np.abs(values).max())

    def test_expected_values_are_in_user_units_and_possible(self):
        X, new = skewed_rows(2000, 0), skewed_rows(200, 1)
        detector = PCADetector(model="copula").fit(X)
        expected = detector.explain(new).expected
        assert (expected[:, 0] > 0).all()
        assert ((expected[:, 1] > -0.01) & (expected[:, 1] < 1.01)).all()
        np.testing.assert_allclose(np.median(expected, axis=0), np.median(X, axis=0), atol=0.6)
        assert stats.spearmanr(expected[:, 0], new[:, 0]).statistic > 0.5

    def test_skewed_columns_raise_fewer_missed_faults(self):
        """A fault that breaks the correlations in the body of a skewed column: the Gaussian does not see it."""
        X, new = skewed_rows(3000, 0), skewed_rows(1000, 1)
        faulty = new.copy()
        faulty[:, 0] = np.random.default_rng(2).permutation(new[:, 0])
        caught = {}
        for model in ("ppca", "copula"):
            detector = PCADetector(model=model).fit(X)
            assert (detector.predict(new) == -1).mean() < 0.03
            caught[model] = (detector.predict(faulty) == -1).mean()
        assert caught["copula"] > 2 * caught["ppca"]

    def test_constant_and_rare_columns_do_no_harm(self):
        X = np.column_stack([skewed_rows(500, 0), np.full(500, 3.0), np.random.default_rng(0).random(500) < 0.01])
        with pytest.warns(FitWarning, match="did not vary"):
            detector = PCADetector(model="copula").fit(X)
        row = X[:1].copy()
        row[0, 7] = 50.0
        why = detector.explain(row)
        assert np.isfinite(why.values).all()
        assert why.values[0].argmax() == 7
        assert why.expected[0, 7] == pytest.approx(3.0, abs=0.5)

    def test_lags_and_context(self):
        X = frame(skewed_rows(600, 0))
        lagged = PCADetector(model="copula", lags=1).fit(X)
        why = lagged.explain(X[:50])
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-9)
        given = PCADetector(model="copula", given=["s0"]).fit(X)
        why = given.explain(X[:50])
        assert why.feature_names == ("s1", "s2", "s3", "s4", "s5", "s6")
        inside = why.expected[:, 0]
        assert ((inside > -0.05) & (inside < 1.05)).all()
        rows = given.fitted.deciding_model
        features = given.fitted.read(X[:50]).features
        back = rows.to_user_units(rows.standardise(features), features)
        np.testing.assert_allclose(back, features[:, 1:], atol=1e-8)


class TestStudent:
    def test_gross_faults_among_the_training_rows(self):
        X, clean, new = dirty_rows(800, 0), normal_rows(800, 0), normal_rows(2000, 5)
        faulty = new.copy()
        faulty[:, 3] += 8 * 0.7
        faults = np.flatnonzero(np.abs(X - clean).max(axis=1) > 0)
        with pytest.warns(FitWarning, match=r"10.0% of the training rows .* If they are faults, pass trim=0.1\."):
            robust = PCADetector(model="student").fit(X)
        usual, ideal = PCADetector().fit(X), PCADetector().fit(clean)
        assert isinstance(robust.model_, StudentPPCA)
        # faulty and normal rows are told apart as well as by a model of clean rows
        apart = [roc_area(det, new, faulty) for det in (robust, usual, ideal)]
        assert apart[0] > apart[2] - 0.01 > 0.95
        assert apart[1] < 0.92
        assert set(faults) == set(robust.abnormal_training_rows_["position"][:80])
        trimmed = PCADetector(model="student", trim=0.1).fit(X)  # as the warning says
        assert (trimmed.predict(new) == -1).mean() < 0.02
        assert (trimmed.predict(faulty) == -1).mean() > 0.9 * (ideal.predict(faulty) == -1).mean()

    def test_the_scale_is_robust(self):
        X = normal_rows(400, 0)
        dirty = X.copy()
        dirty[:40, 2] += 1000.0
        usual, robust = PCADetector(model="student").fit(X), PCADetector(model="student").fit(dirty)
        assert robust.scale_[2] == pytest.approx(usual.scale_[2], rel=0.2)

    def test_limits_by_formula_hold_for_student_rows(self):
        model = LatentGaussian(np.zeros(7), W.T, 0.25, degrees_of_freedom=5.0)
        X, new = model.sample(4000, seed=0), model.sample(50_000, seed=1)
        for statistic in ("mahalanobis", "spe", "t2"):
            detector = PCADetector(3, model="student", limit="formula", statistic=statistic).fit(X)
            assert detector.limit_kind_ == "box"
            assert 0.006 < (detector.predict(new) == -1).mean() < 0.016

    def test_missing_cells(self):
        X = dirty_rows(400, 0)
        X[np.random.default_rng(3).random(X.shape) < 0.1] = np.nan
        detector = PCADetector(model="student").fit(X)
        assert detector.limit_kind_ == "held-out"
        why = detector.explain(X[:40])
        seen = ~np.isnan(why.score)
        np.testing.assert_allclose((why.values.sum(axis=1) + why.base_value)[seen], why.score[seen], rtol=1e-9)
        assert (detector.predict(normal_rows(1000, 8)) == -1).mean() < 0.03


class TestBoth:
    @pytest.mark.parametrize("model", OTHERS)
    def test_held_out_limits_are_scores_by_models_of_the_other_blocks(self, model):
        """The definition: each tenth, judged by a detector that was fitted to the others."""
        X = normal_rows(200, 0) if model == "student" else skewed_rows(200, 0)
        detector = PCADetector(3, statistic="mahalanobis", model=model).fit(X)
        found = np.sort(detector.fitted.limits.tails["mahalanobis"].largest)
        by_hand = []
        for k in range(10):
            block = slice(20 * k, 20 * k + 20)
            others = PCADetector(3, statistic="mahalanobis", model=model, limit="formula").fit(np.delete(X, block, 0))
            by_hand.append(-others.score_samples(X[block]))
        np.testing.assert_allclose(found, np.sort(np.concatenate(by_hand)), rtol=1e-9 if model == "copula" else 0.01)

    @pytest.mark.parametrize("model", OTHERS)
    def test_new_rows_exceed_the_limit_as_often_as_asked(self, model):
        rates = []
        for seed in range(5):
            detector = PCADetector(model=model, confidence=0.95).fit(skewed_rows(500, seed))
            rates.append((detector.predict(skewed_rows(2000, 100 + seed)) == -1).mean())
        assert 0.03 < np.mean(rates) < 0.075

    @pytest.mark.parametrize("model", OTHERS)
    def test_model_files(self, model, tmp_path):
        X = frame(skewed_rows(300, 0))
        detector = PCADetector(model=model, groups={"pair": ["s0", "s1"]}).fit(X)
        detector.explainer().compile()
        detector.save(tmp_path / "a.culpa")
        again = culpa.load(tmp_path / "a.culpa")
        new = frame(skewed_rows(20, 1))
        new.iloc[3, 2] = np.nan
        assert again.get_params() == detector.get_params()
        assert again.limit_ == detector.limit_
        np.testing.assert_array_equal(again.score_samples(new), detector.score_samples(new))
        first, second = detector.explain(new), again.explain(new)
        np.testing.assert_allclose(second.values, first.values, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(second.expected, first.expected)
        assert type(again.model_) is type(detector.model_)

    def test_forged_files_are_refused(self, tmp_path):
        X = skewed_rows(300, 0)
        for model in OTHERS:
            PCADetector(model=model).fit(X).save(tmp_path / f"{model}.culpa")

        def refused(model, change, match):
            content = (tmp_path / f"{model}.culpa").read_bytes()
            path = tmp_path / "forged.culpa"
            path.write_bytes(content)
            with pytest.raises(ValueError, match=match):
                culpa.load(forge(path, change))

        for wrong in (None, 2.0, "many"):
            refused(
                "student", lambda _, header, wrong=wrong: header.update(degrees_of_freedom=wrong), "degrees_of_free"
            )
        refused("copula", lambda arrays, _: arrays.pop("margins.tails"), "margins.tails")
        refused("copula", lambda arrays, _: arrays.update({"margins.values": arrays["margins.values"][:-1]}), "shape")
        refused(
            "copula",
            lambda arrays, _: arrays.update({"margins.values": np.ascontiguousarray(arrays["margins.values"][::-1])}),
            "do not increase",
        )
        refused(
            "copula", lambda arrays, _: arrays.update({"margins.sizes": arrays["margins.sizes"] + 0.5}), "not whole"
        )
        refused("copula", lambda _, header: header["parameters"].update(model="student"), "degrees_of_freedom")
        refused("student", lambda _, header: header["parameters"].update(model="copula"), "margins")

    @pytest.mark.parametrize("model", OTHERS)
    def test_incidents_and_report(self, model):
        X, new = frame(skewed_rows(600, 0)), frame(skewed_rows(120, 1))
        new.loc[50:60, "s2"] += 25.0
        detector = PCADetector(model=model).fit(X)
        incidents = detector.incidents(new, gap=2, min_length=3)
        assert len(incidents) == 1
        culprit = incidents[0].culprits[0]
        assert culprit.feature == "s2"
        assert -1 < culprit.expected < 8  # in the user's units
        moved = next(one for one in incidents[0].ranking if one.feature == "s2")
        assert moved.expected == pytest.approx(np.median(X["s2"]), abs=0.4)
        report = detector.report(new).to_dict()
        facts = {fact["name"]: fact["value"] for fact in report["model"]["settings"]}
        assert facts["model"].startswith(model)
        json.dumps(report["model"]["features"])
        fixed = detector.fix(new[50:52], ["s2"])
        assert (fixed.score_if_fixed < fixed.score).all()

    @pytest.mark.parametrize(
        ("options", "match"),
        [
            ({"model": "student", "game": "retraining"}, "retrains a PCA, and model='student' is none"),
            ({"model": "student", "limit": "jackson-mudholkar"}, "assumes Gaussian rows"),
            ({"model": "student", "smooth": 0.2}, "averages do not follow model='student'"),
            ({"model": "copula", "smooth": 0.2}, "averages do not follow model='copula'"),
            ({"model": "student", "n_components": "mle"}, "'mle' is for Gaussian rows"),
            ({"model": "gaussian"}, "unknown model 'gaussian'"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, options, match):
        with pytest.raises(ValueError, match=match):
            PCADetector(**options).fit(normal_rows(50, 0))

    @pytest.mark.parametrize("model", OTHERS)
    def test_learning_piece_by_piece_is_refused(self, model):
        X = normal_rows(100, 0)
        detector = PCADetector(model=model)
        assert not hasattr(detector, "partial_fit")
        with pytest.raises(ValueError, match=f"model='{model}' needs all training rows at once"):
            fit_moments(detector, culpa.models.Moments.of(X))
        detector.fit(X)
        with pytest.raises(ValueError, match="needs all training rows at once"):
            learn_features(detector, X)

    def test_drift_and_shares_of_a_copula_are_refused(self):
        X = normal_rows(100, 0)
        detector = PCADetector(model="copula").fit(X)
        with pytest.raises(ValueError, match="which a copula does not describe"):
            detector.drift(X)
        with pytest.raises(ValueError, match="margins"):
            detector.explainer().shares(X)
        assert PCADetector(model="student").fit(X).drift(normal_rows(60, 4)).p_value > 0

    @pytest.mark.parametrize("model", OTHERS)
    def test_trimming_cells_and_periods(self, model):
        X = dirty_rows(300, 0)
        detector = PCADetector(model=model, trim=0.1, robust="cells").fit(X)
        assert detector.suspicious_cells_ is not None
        comparison = detector.compare(X[:150], normal_rows(100, 3))
        change = sum(each.change.value for each in comparison.features)
        assert change == pytest.approx(comparison.score.value, abs=1e-8)

    def test_contributions_and_rankings(self):
        X = skewed_rows(300, 0)
        X[0, 2] = 40.0
        for model in OTHERS:
            detector = PCADetector(model=model).fit(X[1:])
            for criterion in ("rbc", "fault-odds", "propagated"):
                assert detector.contributions(X[:1], criterion)[0].argmax() == 2

    def test_a_pipeline_around_a_copula(self):
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        X = skewed_rows(300, 0)
        pipeline = make_pipeline(StandardScaler(), PCADetector(3, model="copula")).fit(X)
        plain = PCADetector(3, model="copula").fit(X)
        first, second = (culpa.Explainer(model, score="spe").explain(X[:5]) for model in (pipeline, plain))
        np.testing.assert_allclose(first.values, second.values, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(first.expected, second.expected, rtol=1e-6, atol=1e-6)

    def test_calibration_leaves_the_model_alone(self):
        X = skewed_rows(250, 0)[:, :4]
        best = culpa.calibrate(X, PCADetector(model="student"), n_trials=60, n_folds=2)
        assert best.model == "student"
        assert best.game != "retraining"


class TestCommandLine:
    @pytest.mark.parametrize("model", OTHERS)
    def test_fit_info_score_explain_incidents_report(self, model, tmp_path):
        normal, new = tmp_path / "normal.csv", tmp_path / "new.csv"
        table = frame(skewed_rows(400, 0))
        table.to_csv(normal, index=False)
        later = frame(skewed_rows(60, 1))
        later.loc[20:25, "s2"] += 75.0
        later.to_csv(new, index=False)
        path = tmp_path / "plant.culpa"
        run("fit", normal, "-o", path, "--model", model)
        assert culpa.load(path).limit_ == pytest.approx(PCADetector(model=model).fit(table).limit_, rel=1e-9)
        shown = run("info", path).output
        assert f"\nmodel         {model}" in shown
        about = json.loads(run("info", path, "--json").output)
        assert about["model"] == model
        assert (about["degrees_of_freedom"] is None) == (model == "copula")
        means = {feature["name"]: feature["mean"] for feature in about["features"]}
        assert means["s2"] == pytest.approx(table["s2"].median(), abs=0.5)
        scored = tmp_path / "scored.csv"
        run("score", new, "-m", path, "-o", scored)
        assert pd.read_csv(scored)["anomaly"][20:26].all()
        assert "s2" in run("incidents", new, "-m", path).output
        run("report", new, "-m", path, "-o", tmp_path / "report.html")
        result = run("update", path, new, "-o", tmp_path / "updated.culpa", code=2)
        assert "needs all training rows at once" in result.output

    def test_an_unknown_model_is_refused(self, tmp_path):
        frame(normal_rows(50, 0)).to_csv(tmp_path / "a.csv", index=False)
        result = run("fit", tmp_path / "a.csv", "-o", tmp_path / "b.culpa", "--model", "studnet", code=2)
        assert "did you mean 'student'?" in result.output


def test_the_score_of_a_fitted_model_knows_its_tails():
    X = normal_rows(200, 0)
    model = StudentPPCA(3, degrees_of_freedom=4.0).fit(X)
    fitted = culpa.models.as_fitted_model(model)
    assert fitted.gaussian.degrees_of_freedom == 4.0
    assert named_score("combined", fitted).gaussian.tail == 0.5
    assert dataclasses.replace(fitted.gaussian, mean=np.zeros(7)).tail == 0.5
