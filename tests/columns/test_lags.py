"""Dynamic PCA: rows judged with the rows before them, sensors blamed for their present and past together."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import run, write
from forgery import forge, set_parameter
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from witness import by_hand

import culpa
from culpa import PPCA, Explainer, Lags, PCADetector
from culpa.columns import History
from culpa.models import as_fitted_model
from culpa.models.latent import marginal

NAMES = ["feed", "product", "reflux", "steam", "duty", "level"]
SPREAD = np.array([8, 2, 1, 3, 0.5, 10])


def plant(n, seed):
    """Sensors that follow two slow states with different delays."""
    rng = np.random.default_rng(seed)
    u = np.zeros((n + 20, 2))
    for t in range(1, len(u)):
        u[t] = 0.8 * u[t - 1] + 0.6 * rng.normal(size=2)
    now, last, older = u[20:], u[19:-1], u[18:-2]
    X = [now[:, 0], last[:, 0], 0.7 * (older[:, 0] + now[:, 1]), last[:, 1], now[:, 1], (last[:, 0] + older[:, 1]) / 2]
    X = np.column_stack(X) + 0.08 * rng.normal(size=(n, 6))
    return pd.DataFrame(X * SPREAD + [100, 20, 5, 60, 3, 0], columns=NAMES)


def lag_matrix(X, k):
    """Cell by cell."""
    n, d = X.shape
    return np.array(
        [[X[t - lag, i] if t >= lag else np.nan for lag in range(k + 1) for i in range(d)] for t in range(n)]
    )


@pytest.fixture(scope="module")
def normal():
    return plant(1200, 0)


@pytest.fixture(scope="module")
def new():
    return plant(300, 1)


@pytest.fixture(scope="module")
def detector(normal):
    return PCADetector(6, lags=2, limit="formula").fit(normal)


@pytest.mark.parametrize("lags", [0, 1, 3])
@pytest.mark.parametrize("cuts", [[], [1], [2, 3, 50], [0, 0, 99]])
def test_history_in_pieces(lags, cuts):
    X = plant(100, 2).to_numpy()
    history = History(lags, 6)
    pieces = [history.join(part) for part in np.split(X, cuts)]
    np.testing.assert_array_equal(np.concatenate(pieces), lag_matrix(X, lags))


class TestDetector:
    def test_is_a_detector_of_the_lag_matrix(self, detector, normal, new):
        rows = lag_matrix(normal.to_numpy(), 2)[2:]
        plain = PCADetector(6, limit="formula").fit(rows)
        past = lag_matrix(new.to_numpy(), 2)
        assert detector.limit_ == plain.limit_
        np.testing.assert_array_equal(detector.predict(new), plain.predict(past))
        np.testing.assert_allclose(detector.score_samples(new), plain.score_samples(past), rtol=1e-12)
        np.testing.assert_allclose(detector.reconstruct(new), plain.reconstruct(past)[:, :6])
        np.testing.assert_allclose(detector.residuals(new), (past - plain.reconstruct(past))[:, :6], atol=1e-12)
        pd.testing.assert_frame_equal(detector.statistics(new), plain.statistics(past))
        groups = {name: [i, i + 6, i + 12] for i, name in enumerate(NAMES)}
        why, grouped = detector.explain(new[:40]), plain.explain(past[:40], groups=groups)
        np.testing.assert_allclose(why.values, grouped.values, atol=1e-9)
        np.testing.assert_allclose(why.score_if_fixed, grouped.score_if_fixed)
        np.testing.assert_allclose(why.expected, grouped.expected[:, :6])

    def test_values_equal_the_definition(self, detector, new):
        why = detector.explain(new, rows=[2, 50, 299])
        past = lag_matrix(new.to_numpy(), 2)[[2, 50, 299]]
        players = [[i, i + 6, i + 12] for i in range(6)]
        np.testing.assert_allclose(why.values, by_hand(as_fitted_model(detector), past, players), atol=1e-8)
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)
        assert why.feature_names == tuple(NAMES)
        assert why.groups is None

    def test_expected_is_the_present_value_the_other_sensors_imply(self, detector, new):
        why = detector.explain(new, rows=[100])
        normal = as_fitted_model(detector)
        x = normal.standardise(lag_matrix(new.to_numpy(), 2)[[100]])
        C = normal.gaussian.covariance
        for i in range(6):
            others = [j for j in range(18) if j % 6 != i]
            mean = C[i, others] @ np.linalg.solve(C[np.ix_(others, others)], x[0, others])
            np.testing.assert_allclose(why.expected[0, i], normal.centre[i] + normal.scale[i] * mean, rtol=1e-6)
        np.testing.assert_array_equal(why.data, new.to_numpy()[[100]])

    def test_the_first_rows_are_judged_by_what_is_there(self, detector, new):
        scores = -detector.score_samples(new)
        assert len(scores) == len(new)
        assert np.isfinite(scores).all()
        why = detector.explain(new[:3])
        np.testing.assert_allclose(why.score, scores[:3])
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)
        assert (detector.predict(new[:1]) == 1).all()

    @pytest.mark.parametrize("fault", ["stuck", "late"])
    def test_faults_in_time_are_found_and_blamed_on_the_right_sensor(self, normal, fault):
        """On tables that had no part in choosing how many components to keep."""
        detectors = {lags: PCADetector(11 if lags else 4, lags=lags).fit(normal) for lags in (0, 3)}
        hits, right, others = {0: 0, 3: 0}, [], 0
        for seed in range(50, 56):
            new = plant(300, seed)
            bad, at = new.copy(), new.index[100:160]
            bad.loc[at, "product"] = bad["product"][99] if fault == "stuck" else new["product"].shift(3)[at]
            for lags, detector in detectors.items():
                flagged = np.flatnonzero(detector.predict(bad) == -1)
                inside = flagged[(flagged >= 100) & (flagged < 160)]
                hits[lags] += len(inside)
                if lags:
                    others += ((flagged < 100) | (flagged >= 170)).sum()
                    right += list(detector.explain(bad, rows=inside).top(1)["feature"] == "product")
        assert hits[3] > 2 * hits[0]
        assert np.mean(right) > 0.9
        assert others < 0.03 * 6 * 230

    def test_axioms(self, normal):
        """Twins share equally; the order of the columns does not matter."""
        twin = normal.assign(feed_2=normal["feed"])
        why = PCADetector(6, lags=1).fit(twin).explain(twin[:20])
        np.testing.assert_allclose(why.values[:, 0], why.values[:, -1], atol=1e-7)
        back = PCADetector(6, lags=1).fit(twin[twin.columns[::-1]]).explain(twin[twin.columns[::-1]][:20])
        np.testing.assert_allclose(back.values[:, ::-1], why.values, atol=1e-7)

    def test_missing_cells(self, normal, new):
        holes = normal[:300].mask(np.random.default_rng(3).random((300, 6)) < 0.02)
        detector = PCADetector(6, lags=1).fit(holes)
        gap = new[:20].copy()
        gap.loc[5, "steam"] = np.nan
        gap.loc[[8, 9], "feed"] = np.nan
        gap.loc[12] = np.nan
        why = detector.explain(gap)
        assert np.isfinite(why.score).all()  # row 12 has at least its past
        assert np.isnan(why.data[5, 3])
        assert why.values[9, 0] == 0  # neither present nor past
        assert "feed" not in set(why[9].top(6)["feature"])
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)

    def test_rows_are_chosen_after_looking_back(self, detector, new):
        flags = detector.predict(new.assign(steam=new["steam"].where(new.index != 77, 90.0))) == -1
        why = detector.explain(new, rows=flags)
        assert why.row_labels.tolist() == np.flatnonzero(flags).tolist()
        whole = detector.explain(new)
        np.testing.assert_allclose(why.values, whole.values[flags])
        assert len(detector.explain(new, rows=np.zeros(len(new), dtype=bool))) == 0
        assert len(detector.explain(new, rows=[])) == 0
        with pytest.raises(ValueError, match="rows is a mask of 3 rows, but X has 300 rows"):
            detector.explain(new, rows=[True, False, True])

    def test_rows_picked_out_before_are_warned_about(self, detector, new, normal):
        with pytest.warns(UserWarning, match=r"the row labels have gaps.*explain\(X, rows=...\)"):
            detector.explain(new.iloc[[3, 50, 51, 52]])
        with pytest.warns(UserWarning, match="the row labels have gaps"):
            PCADetector(lags=1).fit(normal.sample(frac=1, random_state=0))
        with pytest.warns(UserWarning, match="the row labels have gaps"):
            detector.predict(new[::3])
        times = new.set_index(
            pd.date_range("2026-01-01", periods=300, freq="min") + pd.to_timedelta(0.1 * (np.arange(300) % 2), "s")
        )
        detector.predict(times)  # a little jitter is no jump
        with pytest.warns(UserWarning, match="the row labels have gaps"):
            detector.predict(times.drop(times.index[100:120]))

    @pytest.mark.parametrize(
        "labels",
        [
            lambda n, step: pd.RangeIndex(0, n * step, step),
            lambda n, step: pd.Index(list(range(0, n * step, step))),
            lambda n, step: pd.date_range("2026-01-01", periods=n, freq=f"{step}min"),
            lambda n, step: pd.to_timedelta(np.arange(n) * step, "min"),
            lambda n, step: pd.Index(np.arange(n) * step / 4),
        ],
        ids=["range", "integers", "times", "spans", "decimals"],
    )
    def test_rows_that_are_evenly_too_far_apart(self, normal, new, labels, tmp_path):
        """However rows are labelled, their past is that of rows as far apart as the training rows, or unknown."""
        detector = PCADetector(6, lags=2).fit(normal.set_axis(labels(len(normal), 1)))
        detector.save(tmp_path / "plant.culpa")
        alone = np.concatenate(
            [detector.score_samples(new[k : k + 1].reset_index(drop=True)) for k in range(0, 300, 3)]
        )
        apart = new[::3].set_axis(labels(100, 3))
        for each in (detector, culpa.load(tmp_path / "plant.culpa"), detector.calibrate_limit(normal)):
            with pytest.warns(UserWarning, match="row labels have gaps"):
                np.testing.assert_allclose(each.score_samples(apart), alone)
            np.testing.assert_allclose(each.score_samples(new.set_axis(labels(300, 1))), detector.score_samples(new))
        slow = PCADetector(6, lags=2).fit(normal[::3].set_axis(labels(len(normal[::3]), 3)))  # as far as it knows
        np.testing.assert_allclose(
            slow.score_samples(apart), slow.score_samples(apart.set_axis(list(map(str, range(100)))))
        )
        twice = new.set_axis(labels(300, 1))
        if twice.index.dtype.kind == "i":  # rows that are numbered one by one may be any time apart
            slow.predict(twice)
            return
        with pytest.warns(UserWarning, match="the rows are closer to each other than the training rows were"):
            slow.predict(twice)

    def test_parameters_changed_after_fitting_wait_for_the_next_fit(self, normal, new, tmp_path):
        detector = PCADetector(4, lags=1).fit(normal)
        before = detector.score_samples(new)
        detector.set_params(lags=4)
        np.testing.assert_array_equal(detector.score_samples(new), before)
        detector.save(tmp_path / "plant.culpa")
        # BLAS may round products of arrays differently where they begin at another address
        np.testing.assert_allclose(culpa.load(tmp_path / "plant.culpa").score_samples(new), before, rtol=1e-12)

    @pytest.mark.parametrize("lags", [-1, 1.5, True, "2", None])
    def test_what_is_no_number_of_lags(self, normal, lags):
        with pytest.raises(ValueError, match="lags must be a whole number of at least 0"):
            PCADetector(lags=lags).fit(normal)
        with pytest.raises(ValueError, match="lags must be a whole number of at least 0"):
            Lags(lags).fit(normal)

    def test_a_column_with_the_name_of_a_past_value(self, normal):
        table = normal.rename(columns={"level": "feed (t-1)"})
        with pytest.raises(ValueError, match=r"'feed \(t-1\)' is the name that culpa gives to a past value\. Rename"):
            PCADetector(lags=1).fit(table)

    def test_too_few_rows(self, normal):
        with pytest.raises(ValueError, match=r"4 sample.* minimum of 5 is required"):
            PCADetector(lags=3).fit(normal[:4])

    def test_arrays_have_default_names(self, normal, new):
        why = PCADetector(6, lags=1).fit(normal.to_numpy()).explain(new.to_numpy()[:5])
        assert why.feature_names == ("x0", "x1", "x2", "x3", "x4", "x5")

    def test_groups_of_sensors_and_single_lags(self, detector, new):
        why = detector.explain(new[:5], groups={"column": ["reflux", "steam"]})
        assert why.player_names == ("feed", "product", "column", "duty", "level")
        why = detector.explain(new[:5], groups={"past": ["feed (t-1)", "feed (t-2)"]})
        assert why.player_names == ("feed", "past", *NAMES[1:])
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)


class TestMonitoring:
    @pytest.fixture
    def broken(self, new):
        broken = new.copy()
        broken.loc[100:130, "duty"] += 4.0
        return broken

    def test_incidents_name_sensors(self, detector, broken):
        incidents = detector.incidents(broken, gap=3, min_length=5)
        (incident,) = incidents
        assert incident.culprits[0].feature == "duty"
        assert 98 <= incident.first <= 101
        why = detector.explain(broken, rows=[incident.peak])
        duty, worst = NAMES.index("duty"), incident.worst
        assert incident.score == pytest.approx(why.score[0], rel=1e-10)
        assert worst.culprits[0].actual == broken["duty"][incident.peak]
        assert worst.culprits[0].expected == pytest.approx(why.expected[0, duty], rel=1e-10)
        # fixing one sensor means its present and past: what the others imply for it
        assert worst.to_fix == {"duty": pytest.approx(why.expected[0, duty], rel=1e-10)}
        assert worst.score_if_fixed == pytest.approx(why.score_if_fixed[0, duty], rel=1e-8)

    def test_incidents_in_batches(self, detector, broken, normal, tmp_path, monkeypatch):
        write(normal, tmp_path / "normal.csv")
        write(broken, tmp_path / "new.csv")
        for home in ("columnar", "ndjson"):
            monkeypatch.setattr(f"culpa.io.tables.{home}.ROWS", 7, raising=False)
        run("fit", tmp_path / "normal.csv", "-o", tmp_path / "m.culpa", "--lags", 2)
        run("incidents", tmp_path / "new.csv", "-m", tmp_path / "m.culpa", "-o", tmp_path / "incidents.csv", "--gap", 3)
        table = pd.read_csv(tmp_path / "incidents.csv")
        expected = culpa.load(tmp_path / "m.culpa").incidents(broken, gap=3).to_frame()
        assert list(table["culprit"].fillna("")) == list(expected["culprit"])
        np.testing.assert_allclose(table["score"], expected["score"], rtol=1e-9)

    def test_several_sensors_at_once(self, detector, broken):
        both = broken.copy()
        both.loc[100:130, "steam"] -= 20.0
        fixed = detector.fix(both.iloc[:120], ["duty", "steam"])
        why = detector.explain(both.iloc[:120], groups={"both": ["duty", "steam"]}, rows=[115])
        places = [why.player_names.index("both"), NAMES.index("duty"), NAMES.index("steam")]
        assert fixed.score_if_fixed[115] == pytest.approx(why.score_if_fixed[0, places[0]], rel=1e-8)
        np.testing.assert_allclose(fixed.expected[115], why.expected[0, places[1:]], rtol=1e-8)
        assert not detector.fix(both.iloc[:120], ["duty"]).clears[115]
        assert fixed.clears[115]

    def test_pieces_of_training_rows(self, normal, new):
        piecewise = PCADetector(6, lags=2, limit="formula").partial_fit(normal[:500]).partial_fit(normal[500:])
        rows = lag_matrix(normal.to_numpy(), 2)
        rows = np.vstack([rows[2:500], rows[502:]])  # the first rows of a piece have no past
        at_once = PCADetector(6, limit="formula").fit(rows)
        np.testing.assert_allclose(piecewise.mean_, at_once.mean_, rtol=1e-9)
        np.testing.assert_allclose(piecewise.limit_, at_once.limit_, rtol=1e-9)
        scores = at_once.score_samples(lag_matrix(new.to_numpy(), 2)[2:])
        np.testing.assert_allclose(piecewise.score_samples(new)[2:], scores, rtol=1e-8)

    def test_abnormal_training_rows_and_trimming(self, normal):
        dirty = normal.copy()
        dirty.loc[300:330, "duty"] += 4.0
        listed = PCADetector(6, lags=2, trim=0.05).fit(dirty).abnormal_training_rows_
        assert set(range(300, 331)) <= set(listed["row"][listed["trimmed"]])

    @pytest.fixture
    def bad(self, new):
        bad = new.copy()
        bad.loc[100:140, "product"] = bad.loc[99, "product"]
        bad.loc[250:255, ["steam", "duty"]] += [30, -4]
        return bad

    @pytest.fixture
    def watcher(self, normal):
        return PCADetector(11, lags=3).fit(normal)

    def test_incidents_of_one_and_two_sensors(self, watcher, bad, tmp_path):
        found = watcher.incidents(bad, gap=5, min_length=3)
        assert [incident.culprits[0].feature for incident in found] == ["product", "steam"]
        assert {"steam", "duty"} <= set(found[1].worst.to_fix)
        assert set(found[1].worst.to_fix) <= set(NAMES)
        why = watcher.explain(bad, rows=[found[0].peak])
        worst = found[0].worst.culprits[0]
        assert worst.actual == bad["product"][found[0].peak]
        assert worst.expected == pytest.approx(why.expected[0, 1])
        assert worst.value == pytest.approx(why.values[0, 1])
        # the same from the command line
        watcher.save(tmp_path / "plant.culpa")
        write(bad, tmp_path / "bad.csv")
        run(
            "incidents",
            tmp_path / "bad.csv",
            "-m",
            tmp_path / "plant.culpa",
            "--gap",
            5,
            "--min-length",
            3,
            "-o",
            tmp_path / "i.csv",
        )
        told = pd.read_csv(tmp_path / "i.csv")
        assert told["culprit"].tolist() == ["product", "steam"]
        np.testing.assert_allclose(told["share"], [incident.culprits[0].share for incident in found], rtol=1e-6)

    def test_several_sensors_fixed_at_once(self, watcher, bad):
        both = watcher.fix(bad, ["steam", "duty"])
        assert both.actual.shape == both.expected.shape == (300, 2)
        normal = as_fitted_model(watcher)
        x = normal.standardise(lag_matrix(bad.to_numpy(), 3))
        hidden = [j for j in range(24) if j % 6 in (3, 4)]
        kept = [j for j in range(24) if j not in hidden]
        filled = marginal(normal.gaussian, np.arange(24)).conditional(x[[254]], kept)[0]
        np.testing.assert_allclose(both.expected[254], normal.to_user_units(filled)[0, [3, 4]], rtol=1e-6)
        np.testing.assert_allclose(both.actual[254], bad.loc[254, ["steam", "duty"]])
        assert set(watcher.fix(bad, 2).features[254]) == {"steam", "duty"}

    def test_dirty_training_rows_go_by_their_own_labels(self, normal):
        dirty = normal[:400].set_index(np.arange(5000, 5400))
        dirty.iloc[200, 3] += 60
        detector = PCADetector(9, lags=2).fit(dirty)
        worst = detector.abnormal_training_rows_
        assert set(worst["row"][:3]) == {5200, 5201, 5202}
        assert (worst["row"] - 5000 == worst["position"]).all()
        trimmed = PCADetector(9, lags=2, trim=0.02).fit(dirty)
        assert {5200, 5201, 5202} <= set(trimmed.abnormal_training_rows_.query("trimmed")["row"])

    def test_conformal_limits(self, normal, new):
        detector = PCADetector(6, lags=2).fit(normal).calibrate_limit(new)
        scores = np.sort(-detector.score_samples(new)[2:])
        assert detector.limit_ == scores[int(np.ceil(0.99 * (len(scores) + 1))) - 1]
        held_out = PCADetector(6, lags=2, limit="conformal").fit(normal)
        assert np.isfinite(held_out.limit_)


class TestFiles:
    @pytest.mark.parametrize("named", [True, False])
    def test_model_files(self, normal, new, tmp_path, named):
        table, rows = (normal, new) if named else (normal.to_numpy(), new.to_numpy())
        detector = PCADetector(5, lags=2, statistic="t2").fit(table)
        detector.explainer().compile()
        detector.save(tmp_path / "plant.culpa")
        again = culpa.load(tmp_path / "plant.culpa")
        assert again.lags == 2
        assert again.n_features_in_ == 6
        np.testing.assert_array_equal(again.predict(rows), detector.predict(rows))
        np.testing.assert_allclose(again.explain(rows).values, detector.explain(rows).values, rtol=1e-9)
        assert again.explain(rows[:2]).feature_names == detector.explain(rows[:2]).feature_names

    @pytest.mark.parametrize("ending", [".parquet", ".csv", ".ndjson"])
    def test_command_line_in_batches(self, normal, new, tmp_path, monkeypatch, ending):
        for home in ("columnar", "ndjson"):
            monkeypatch.setattr(f"culpa.io.tables.{home}.ROWS", 7, raising=False)
        bad = new.copy()
        bad.loc[100:140, "product"] = bad.loc[99, "product"]
        bad.loc[200, "steam"] = np.nan
        write(normal, tmp_path / f"normal{ending}")
        write(bad, tmp_path / f"new{ending}")
        said = run("fit", tmp_path / f"normal{ending}", "-o", tmp_path / "plant.culpa", "--lags", 3, "--components", 11)
        assert "1,197 rows, 6 features with 3 lags" in said.output
        memory = PCADetector(11, lags=3).fit(normal)
        loaded = culpa.load(tmp_path / "plant.culpa")
        np.testing.assert_allclose(loaded.limit_, memory.limit_)
        run("score", tmp_path / f"new{ending}", "-m", tmp_path / "plant.culpa", "-o", tmp_path / "scores.csv")
        scores = pd.read_csv(tmp_path / "scores.csv")
        np.testing.assert_allclose(scores["score"], -memory.score_samples(bad), rtol=1e-6)
        run("explain", tmp_path / f"new{ending}", "-m", tmp_path / "plant.culpa", "-o", tmp_path / "why.csv")
        why = pd.read_csv(tmp_path / "why.csv")
        flagged = memory.predict(bad) == -1
        assert why["row"].tolist() == np.flatnonzero(flagged).tolist()
        np.testing.assert_allclose(why[NAMES], memory.explain(bad, rows=flagged).values, rtol=1e-5, atol=1e-7)
        run(
            "explain", tmp_path / f"new{ending}", "-m", tmp_path / "plant.culpa", "--top", 1, "-o", tmp_path / "top.csv"
        )
        top = pd.read_csv(tmp_path / "top.csv")
        assert (top["feature"] == "product").mean() > 0.8
        np.testing.assert_allclose(top["actual"], bad.to_numpy()[top["row"], [NAMES.index(f) for f in top["feature"]]])

    def test_pipes_remember(self, normal, new, tmp_path):
        write(normal, tmp_path / "normal.csv")
        write(new[:30], tmp_path / "new.ndjson")
        run("fit", tmp_path / "normal.csv", "-o", tmp_path / "plant.culpa", "--lags", 2, "--components", 6)
        lines = run(
            "score", "-", "-m", tmp_path / "plant.culpa", "-q", stdin=(tmp_path / "new.ndjson").read_text()
        ).stdout
        scores = [json.loads(line)["score"] for line in lines.splitlines()]
        np.testing.assert_allclose(scores, -PCADetector(6, lags=2).fit(normal).score_samples(new[:30]), rtol=1e-6)

    def test_fit_from_a_pipe_needs_one_pass(self, normal, tmp_path):
        """The first rows, which have no whole history, are left out; they do not count as incomplete.

        Nobody can score them a second time, so the limit is a formula.
        """
        run(
            "fit",
            "-",
            "--input-format",
            "csv",
            "-o",
            tmp_path / "p.culpa",
            "--lags",
            2,
            stdin=normal.to_csv(index=False),
        )
        piped = culpa.load(tmp_path / "p.culpa")
        np.testing.assert_allclose(piped.limit_, PCADetector(lags=2, limit="formula").fit(normal).limit_)
        assert (piped.limit_kind_, piped.limit) == ("box", "auto")

    def test_training_rows_with_missing_cells_and_empirical_limits(self, normal, tmp_path):
        holes = normal[:300].mask(np.random.default_rng(3).random((300, 6)) < 0.02)
        write(holes, tmp_path / "holes.csv")
        run("fit", tmp_path / "holes.csv", "-o", tmp_path / "holes.culpa", "--lags", 1, "--components", 5)
        memory = PCADetector(5, lags=1).fit(holes)
        np.testing.assert_allclose(culpa.load(tmp_path / "holes.culpa").limit_, memory.limit_, rtol=1e-6)
        write(normal, tmp_path / "normal.csv")
        run("fit", tmp_path / "normal.csv", "-o", tmp_path / "e.culpa", "--lags", 2, "--limit", "empirical")
        memory = PCADetector(lags=2, limit="empirical").fit(normal)
        np.testing.assert_allclose(culpa.load(tmp_path / "e.culpa").limit_, memory.limit_, rtol=1e-9)

    def test_info(self, normal, tmp_path):
        PCADetector(6, lags=2).fit(normal).save(tmp_path / "plant.culpa")
        about = json.loads(run("info", tmp_path / "plant.culpa", "--json").stdout)
        assert about["lags"] == 2
        assert [feature["name"] for feature in about["features"]] == NAMES
        np.testing.assert_allclose(about["features"][0]["std"], normal["feed"][2:].std())
        assert "6 features with 2 lags" in run("info", tmp_path / "plant.culpa").stdout

    def test_forged_lags(self, normal, tmp_path):
        for lags in (-1, 4, "1", 10**30):
            PCADetector(6, lags=2).fit(normal).save(tmp_path / "plant.culpa")
            forge(tmp_path / "plant.culpa", set_parameter(lags=lags))
            with pytest.raises(ValueError, match="'parameters'"):
                culpa.load(tmp_path / "plant.culpa")


class TestTransformer:
    def test_shows_each_row_with_those_before(self, normal):
        X = normal[:10]
        lags = Lags(2, start="missing").fit(X)
        np.testing.assert_array_equal(lags.transform(X), lag_matrix(X.to_numpy(), 2))
        assert list(lags.get_feature_names_out()[[0, 6, 17]]) == ["feed", "feed (t-1)", "level (t-2)"]
        first = Lags(2).fit_transform(X)
        assert not np.isnan(first).any()
        np.testing.assert_array_equal(first[2:], lags.transform(X)[2:])
        np.testing.assert_array_equal(first[0].reshape(3, 6), np.tile(X.to_numpy()[0], (3, 1)))
        with pytest.raises(ValueError, match="unknown start 'zero'"):
            Lags(start="zero").fit(X)
        with pytest.raises(ValueError, match="input_features"):
            lags.get_feature_names_out(["a"])

    def test_in_a_pipeline_equals_the_detector_with_lags(self, normal, new):
        """Both ways to the same model, away from the first rows."""
        pipeline = make_pipeline(StandardScaler(), Lags(2, start="missing"), PPCA(6)).fit(normal[:400])
        why = Explainer(pipeline).explain(new)
        assert why.feature_names == tuple(NAMES)
        groups = {name: [i, i + 6, i + 12] for i, name in enumerate(NAMES)}
        rows = pipeline[:-1].transform(new)
        np.testing.assert_allclose(why.values, Explainer(pipeline[-1], groups=groups).explain(rows).values, atol=1e-9)
        np.testing.assert_allclose(why.data, new)
        scaler = pipeline[0]
        reference = Explainer(pipeline[-1], groups=groups).explain(rows).expected[:, :6]
        np.testing.assert_allclose(why.expected, scaler.mean_ + scaler.scale_ * reference)

    def test_a_detector_with_lags_at_the_end_of_a_pipeline(self, normal, new):
        table, rows = (X.assign(mode=np.where(X["feed"] > 100, "high", "low")) for X in (normal, new))
        columns = ColumnTransformer([("n", StandardScaler(), NAMES), ("c", OneHotEncoder(), ["mode"])])
        pipeline = make_pipeline(columns, PCADetector(7, lags=1)).fit(table)
        why = Explainer(pipeline).explain(rows)
        assert why.feature_names == (*NAMES, "mode")
        assert why.expected[50, -1] in ("high", "low")
        np.testing.assert_allclose(why.score, -pipeline.score_samples(rows))
        past = Explainer(pipeline).columns
        assert past.members[-1] == (6, 7, 14, 15)


# They pass the same rows in another order, repeated, or a few at a time, and expect the same answers. Lags look at the rows
# before.
LOOK_BACK = dict.fromkeys(
    [
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_sample_weight_equivalence_on_dense_data",
    ],
    "rows depend on the rows before them",
)


@parametrize_with_checks(
    [Lags(2), Lags(1, start="missing"), PCADetector(limit="empirical", lags=1)],
    expected_failed_checks=lambda estimator: LOOK_BACK,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_learning_needs_rows_that_follow_each_other(normal):
    apart = normal[:4].set_axis(pd.to_datetime(["2024-01-01", "2024-01-02", "2024-03-01", "2024-03-02"]))
    detector = PCADetector(3, lags=1).fit(normal)
    before = detector.model_.n_samples_
    with pytest.warns(UserWarning, match="row labels have gaps"):
        detector.partial_fit(apart)
    assert detector.model_.n_samples_ == before + 2
    with (
        pytest.warns(UserWarning, match="row labels have gaps"),
        pytest.raises(ValueError, match="follows 1 other row"),
    ):
        detector.partial_fit(apart.iloc[::-1])
    assert detector.model_.n_samples_ == before + 2


@pytest.mark.parametrize("start", ["repeat", "missing"])
def test_the_step_of_a_pipeline_remembers_nothing_from_before_a_hole(normal, start):
    lags, times = Lags(2, start=start), pd.date_range("2026-01-01", periods=len(normal), freq="min")
    table = normal.set_axis(times).drop(times[[*range(50, 60), 70, 71]])
    with pytest.warns(UserWarning, match="row labels have gaps"):
        found = lags.fit(normal.set_axis(times)).transform(table)
    stretches = [table[:50], table[50:60], table[60:]]
    np.testing.assert_array_equal(found, np.vstack([lags.fit_transform(each) for each in stretches]))
    np.testing.assert_array_equal(
        lags.transform(table.set_axis(table.index.astype(str))), lags.transform(table.reset_index(drop=True))
    )
    with pytest.warns(UserWarning, match="row labels have gaps"):
        apart = lags.transform(normal.set_axis(times)[::3])
    np.testing.assert_array_equal(apart[:, 6:12], np.nan if start == "missing" else normal[::3])


@pytest.mark.parametrize("header", [{"size": -1.0, "timed": True}, {"size": 1.0}, {"size": "1", "timed": True}, 60.0])
def test_forged_steps_of_a_model_file(detector, tmp_path, header):
    detector.save(tmp_path / "plant.culpa")
    forge(tmp_path / "plant.culpa", lambda arrays, known: known.update(step=header))
    with pytest.raises(ValueError, match="'step' is missing or not valid"):
        culpa.load(tmp_path / "plant.culpa")
