"""What a detector knows, and when it changes: the caller's memory, settings after a fit, calls that fail, threads."""

import copy
import threading
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import culpa
from culpa import PCADetector
from culpa._core.warning import FitWarning
from culpa.columns import Lags
from culpa.detecting.pieces import fit_moments, of_fitted
from culpa.fitted import FittedDetector
from culpa.models import Moments
from culpa.models.blocks import BlockMoments


def plant(n=200, seed=0, d=6, p=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) @ np.random.default_rng(42).normal(size=(p, d)) + 0.4 * rng.normal(size=(n, d))


def faulty(n=60, seed=9):
    X = plant(n, seed)
    X[20:30, 2] += 30
    return X


def reloaded(detector, folder):
    detector.save(folder / "m.culpa")
    return culpa.load(folder / "m.culpa")


def state(detector):
    names = sorted(set(vars(detector)) - {"_fitted"})
    core = getattr(detector, "_fitted", None)
    return names, core and (core.limit, core.ppca.n_samples_, core.ppca.n_components_, core.units, core.settings)


class TestMemoryOfTheCaller:
    def test_a_buffer_may_be_used_again(self):
        buffer, X = np.empty((40, 6)), plant(400)
        again, fresh = PCADetector(), PCADetector()
        for start in range(0, 400, 40):
            buffer[:] = X[start : start + 40]
            again.partial_fit(buffer)
            fresh.partial_fit(X[start : start + 40].copy())
        assert again.limit_ == fresh.limit_ == PCADetector().fit(X).limit_

    def test_options_of_an_explanation(self):
        detector, new, groups = PCADetector().fit(plant()), faulty(), {"g": ["x0", "x1"]}
        before = detector.explain(new, groups=groups).values
        groups["g"].append("x2")
        np.testing.assert_array_equal(detector.explain(new, groups={"g": ["x0", "x1"]}).values, before)
        assert detector.explain(new, groups=groups).player_names == ("g", "x3", "x4", "x5")
        given = ["x0"]
        before = detector.explain(new, given=given).values
        given[0] = "x1"
        np.testing.assert_array_equal(detector.explain(new, given=["x0"]).values, before)

    def test_parameters(self, tmp_path):
        given, groups = ["x0"], {"g": ["x1", "x2"]}
        detector = PCADetector(given=given, groups=groups).fit(plant())
        given.append("x3")
        assert detector.fitted.settings.given == ["x0"]
        again = reloaded(detector, tmp_path)
        np.testing.assert_allclose(again.score_samples(faulty()), detector.score_samples(faulty()))

    def test_columns_without_lags_are_a_copy(self):
        X = plant()
        out = Lags(0).fit(X).transform(X)
        out[:] = 0
        assert X.any()

    def test_a_mode_keeps_nothing_of_the_whole(self):
        rows = np.concatenate([plant(300), plant(300, 1) + 20])
        whole = PCADetector(modes=2).fit(rows).fitted
        alone = PCADetector(modes=2).fit(rows).fitted.in_mode(0)
        whole.explain(rows[:5], score="t2")
        found = whole.in_mode(0).explain(rows[:5], score="t2").score
        np.testing.assert_allclose(found, alone.explain(rows[:5], score="t2").score)


class TestSettings:
    @pytest.mark.parametrize(
        "change",
        [{"n_components": 4}, {"confidence": 0.9}, {"noise": 10.0}, {"lags": 1}, {"scale": False}, {"given": [0]}],
    )
    def test_updates_with_others_are_refused(self, change):
        detector = PCADetector(1, statistic="combined").fit(plant())
        before = state(detector)
        with pytest.raises(ValueError, match=f"learned with {next(iter(change))}="):
            detector.set_params(**change).partial_fit(plant(100, 1))
        assert state(detector) == before
        assert detector.drift(plant(100, 1)) is not None

    def test_what_needs_no_fit(self):
        detector = PCADetector().fit(plant()).set_params(groups={"g": [0, 1]}, noun="tag", ranking="rbc")
        assert detector.partial_fit(plant(100, 1)).fitted.settings.noun == "tag"

    def test_a_statistic_with_other_components(self):
        detector = PCADetector().fit(plant()).set_params(statistic="spe").calibrate_limit(plant(200, 1))
        with pytest.raises(ValueError, match="components for another statistic"):
            detector.partial_fit(plant(100, 2))

    def test_moments_have_as_many_components_as_asked(self):
        detector = PCADetector(1).fit(plant())
        moments = Moments.of(plant())
        assert fit_moments(detector.set_params(n_components=3), moments).model_.n_components_ == 3
        one = fit_moments(PCADetector(0.9, limit="formula"), Moments.of(plant(200, p=1)))
        assert one.model_.n_components_ < 3
        wide = plant(4000, 1, p=5) * 30
        one.partial_fit(wide)
        together = np.concatenate([plant(200, p=1), wide])
        assert one.model_.n_components_ == PCADetector(0.9).fit(together).model_.n_components_ > 3

    def test_moments_do_not_depend_on_an_earlier_fit(self):
        moments = Moments.of(plant())
        fresh = fit_moments(PCADetector(), moments)
        assert fit_moments(PCADetector().fit(plant(300, 5, p=4)), moments).limit_ == fresh.limit_

    def test_a_single_block_with_its_rows(self):
        X = plant()
        assert fit_moments(PCADetector(), Moments.of(X), batches=[X]).limit_kind_ == "box"

    def test_a_fit_begins_anew(self):
        detector = PCADetector().fit(plant())
        detector.calibration_ = "of other rows"
        assert not hasattr(detector.fit(plant(seed=1)), "calibration_")


class TestMle:
    @pytest.mark.parametrize("options", [{}, {"trim": 0.05}, {"lags": 1}, {"limit": "formula"}, {"statistic": "t2"}])
    def test_it_fits(self, options):
        detector = PCADetector("mle", **options).fit(plant())
        assert (detector.predict(plant(500, 1)) == -1).mean() < 0.06

    def test_missing_cells_weights_and_pieces(self, tmp_path):
        X = plant()
        whole, gaps = PCADetector("mle").fit(X), X.copy()
        gaps[::9, 1] = np.nan
        assert (PCADetector("mle").fit(gaps).predict(plant(500, 1)) == -1).mean() < 0.06
        weighted = PCADetector("mle").fit(X, sample_weight=np.ones(200))
        pieces = reloaded(PCADetector("mle").partial_fit(X[:90]), tmp_path).partial_fit(X[90:])
        for other in (weighted, pieces, fit_moments(PCADetector("mle"), BlockMoments.of(X), batches=[X])):
            assert other.limit_ == pytest.approx(whole.limit_)
            assert other.model_.n_components_ == whole.model_.n_components_

    def test_rows_as_many_as_columns(self):
        assert PCADetector("mle").fit(plant(31, d=30)).model_.n_components_ < 30


class TestCallsThatFail:
    def test_they_change_nothing(self):
        bad = plant(50, 1)
        bad[3, 2] = np.nan
        for detector in (PCADetector(), PCADetector().fit(plant()), PCADetector().partial_fit(plant())):
            before = state(detector)
            for call in (
                lambda detector: detector.partial_fit(bad),
                lambda detector: detector.partial_fit(np.ones((40, 6))) if not hasattr(detector, "model_") else 1 / 0,
                lambda detector: detector.fit(np.ones((40, 9))),
                lambda detector: fit_moments(detector, Moments.of(np.ones((40, 9)))),
                lambda detector: detector.calibrate_limit(plant(5)),
                lambda detector: detector.fit(plant(), sample_weight=[1, 2]),
            ):
                with pytest.raises((ValueError, ZeroDivisionError)):
                    call(detector)
                assert state(detector) == before

    def test_a_failed_update_is_not_learned_later(self, monkeypatch):
        detector = PCADetector().partial_fit(plant())
        monkeypatch.setattr("culpa.fitting.updating.Recipe.fit_blocks", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            detector.partial_fit(plant(100, 1) + 50)
        monkeypatch.undo()
        assert detector.partial_fit(plant(50, 2)).model_.n_samples_ == 250

    def test_warnings_as_errors(self):
        detector = PCADetector()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(FitWarning):
                detector.partial_fit(plant(20))
        assert not hasattr(detector, "model_")
        assert not hasattr(detector, "n_features_in_")

    def test_copies_learn_alone(self):
        first = PCADetector().partial_fit(plant())
        second = copy.copy(first)
        second.partial_fit(plant(100, 1))
        assert first.partial_fit(plant(50, 2)).model_.n_samples_ == 250
        assert second.partial_fit(plant(50, 3)).model_.n_samples_ == 350


class TestThreads:
    def test_scores_and_limit_belong_together(self, monkeypatch):
        """Another thread refits between the score and the limit; the answer is that of the detector before."""
        detector, new, score = PCADetector(scale=False).fit(plant()), faulty(), FittedDetector.score
        expected = detector.decision_function(new)

        def interrupted(fitted, X):
            thread = threading.Thread(target=detector.fit, args=(1e4 * plant(100, 1, d=6),))
            thread.start()
            thread.join()
            return score(fitted, X)

        monkeypatch.setattr(FittedDetector, "score", interrupted)
        np.testing.assert_array_equal(detector.decision_function(new), expected)
        assert detector.model_.n_samples_ == 100

    def test_nobody_sees_half_a_fit(self, monkeypatch):
        detector, widths = PCADetector().fit(plant()), []
        monkeypatch.setattr(
            "culpa.fitting.learning.Recipe.fit_rows", lambda *_: (widths.append(detector.n_features_in_), 1 / 0)
        )
        with pytest.raises(ZeroDivisionError):
            detector.fit(plant(d=9))
        assert widths == [6]


class TestFiles:
    @pytest.mark.parametrize("units", [{"tmep": "K"}, {"x0": 3}])
    def test_units_that_no_file_holds(self, units):
        detector = PCADetector().fit(plant())
        with pytest.raises(ValueError, match="units_"):
            detector.units_ = units

    @pytest.mark.parametrize("asked", [{"statistic": "nll"}, {"confidence": 1}, {"confidence": 1.5}])
    def test_limits_that_no_file_holds(self, asked):
        detector = PCADetector().fit(plant())
        with pytest.raises(ValueError, match=next(iter(asked))):
            detector.set_params(**asked).calibrate_limit(plant(200, 1))

    def test_what_nobody_could_load_is_not_written(self, tmp_path):
        detector = PCADetector().fit(plant()).set_params(noun="")
        with pytest.raises(ValueError, match=r"cannot be saved.*noun"):
            detector.save(tmp_path / "m.culpa")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("options", [{}, {"lags": 1}, {"given": [0]}, {"n_components": 2}])
    @pytest.mark.parametrize("n", [40, 900])
    def test_learning_goes_on_after_loading(self, tmp_path, options, n):
        here, there = PCADetector(**options), PCADetector(**options)
        for seed in range(6):
            here.partial_fit(plant(n, seed))
            there = reloaded(there.partial_fit(plant(n, seed)), tmp_path)
        assert there.limit_ == pytest.approx(here.limit_)
        assert there.model_.n_components_ == here.model_.n_components_

    def test_an_update_keeps_how_the_table_was_read(self):
        core = PCADetector().fit(plant()).fitted
        detector = of_fitted(copy.copy(core))
        object.__setattr__(detector.fitted, "reading", {"delimiter": ";"})
        assert detector.partial_fit(plant(50, 1)).fitted.reading == {"delimiter": ";"}


class TestForgetting:
    @pytest.mark.parametrize("forget", [0.0, 0.002, 0.05])
    @pytest.mark.parametrize("start", [0, 300])
    def test_blocks_do_not_depend_on_the_calls(self, forget, start):
        X, rng = plant(900), np.random.default_rng(1)
        before = BlockMoments.of(X[:start])
        whole = before.then(X[start:], forget)
        for cuts in ([start, start + 2, 900], sorted({start, 900, *rng.integers(start, 900, 40).tolist()})):
            pieces = before
            for a, b in pairwise(cuts):
                pieces = pieces.then(X[a:b], forget)
            np.testing.assert_allclose([b.n for b in pieces.blocks], [b.n for b in whole.blocks], rtol=1e-6)
            np.testing.assert_allclose(
                [b.mean for b in pieces.blocks], [b.mean for b in whole.blocks], rtol=1e-6, atol=1e-9
            )

    def test_components_do_not_depend_on_the_calls(self):
        X = plant(300, 3, d=12, p=5)
        found = set()
        for size in (300, 50, 20):
            detector = PCADetector()
            for at in range(0, 300, size):
                detector.partial_fit(X[at : at + size], forget=0.01)
            found.add(detector.model_.n_components_)
        assert len(found) == 1

    def test_the_range_of_rows_is_forgotten(self):
        wide, narrow = 10 * plant(300), plant(3000, 1)
        detector = PCADetector(scale=False).fit(wide)
        for at in range(0, 3000, 300):
            detector.partial_fit(narrow[at : at + 300], forget=0.005)
        fresh = PCADetector(scale=False).fit(narrow).fitted.normal_range
        found = detector.fitted.normal_range
        assert (found.high < 2 * fresh.high).all()
        assert (found.low > 2 * fresh.low).all()
        assert found.n < 1000


class TestOdds:
    def test_the_callers_floating_point_errors(self):
        new = faulty()
        for options in ({}, {"modes": 2}, {"model": "student"}, {"lags": 1}):
            detector = PCADetector(**options).fit(plant(300))
            expected = detector.incidents(new).to_json()
            with np.errstate(all="raise"):
                assert detector.incidents(new).to_json() == expected
                detector.explain(new).top()
                detector.reconstruct(new)
                for criterion in ("fault-odds", "propagated"):
                    detector.contributions(new, criterion)

    def test_statistics_without_a_limit(self):
        detector = PCADetector(limit="conformal", contamination=0.1).fit(plant(200))
        table = detector.statistics(faulty())
        assert table["spe_limit"].isna().all()
        assert not table["spe_flag"].any()
        assert table["anomaly"].sum() >= 10

    def test_a_view_has_the_groups_of_now(self):
        detector = PCADetector().fit(pd.DataFrame(plant(), columns=list("abcdef")))
        detector.set_params(groups={"g": ["a", "b"]})
        assert detector.explain(pd.DataFrame(faulty(), columns=list("abcdef"))).player_names[0] == "g"
        assert detector.explainer() is detector.explainer()
        assert clone(detector).groups == {"g": ["a", "b"]}
