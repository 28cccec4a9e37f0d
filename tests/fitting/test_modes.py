"""PCADetector(modes=...): limits per mode, false alarms, incidents, report, model files, command line, refusals."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from command_line import run

import culpa as package
from culpa import MixturePPCA, PCADetector
from culpa.datasets import make_modes_plant
from culpa.detecting.pieces import fit_moments
from culpa.fitting.diagnostics import modes_in_words
from culpa.fitting.modes import blocks_within
from culpa.io.model_file import ModelFileError
from culpa.models import Moments


@pytest.fixture(scope="module")
def plant():
    return make_modes_plant()


@pytest.fixture(scope="module")
def names(plant):
    return list(plant.feature_names)


@pytest.fixture(scope="module")
def detector(plant, names):
    return PCADetector(modes="auto").fit(pd.DataFrame(plant.normal, columns=names))


@pytest.fixture(scope="module")
def new(plant, names):
    return pd.DataFrame(plant.new, columns=names)


def test_modes_are_found(plant, names, detector):
    assert isinstance(detector.model_, MixturePPCA)
    assert detector.model_.n_modes_ == 3
    found = detector.operating_modes(pd.DataFrame(plant.normal, columns=names))
    for mode in range(3):
        assert len(set(found[plant.normal_modes == mode])) == 1


def test_faults_that_one_model_misses_are_found_and_blamed(plant, new, detector, names):
    one = PCADetector().fit(pd.DataFrame(plant.normal, columns=names))
    for fault in plant.faults:
        rows = new.iloc[fault.start : fault.stop]
        flagged = detector.predict(rows) == -1
        assert flagged.mean() > 0.9
        assert (detector.explain(rows[flagged]).top(1)["feature"] == fault.feature).mean() > 0.9
    temperature = plant.faults[0]
    rows = new.iloc[temperature.start : temperature.stop]
    assert (one.predict(rows) == -1).mean() < 0.1


@pytest.mark.parametrize("statistic", ["auto", "spe", "t2"])
def test_false_alarms_are_as_many_as_asked_for_in_every_mode(statistic):
    """Rows of the same plant that the detector has not seen."""
    normal = make_modes_plant(4000, seed=1)
    later = make_modes_plant(12_000, seed=2)
    detector = PCADetector(modes=3, statistic=statistic).fit(normal.normal)
    flagged = detector.predict(later.normal) == -1
    assert 0.004 < flagged.mean() < 0.02
    for mode in range(3):
        assert 0.002 < flagged[later.normal_modes == mode].mean() < 0.03
    assert detector.limit_kind_ == "held-out"
    assert detector.false_alarm_rate_.low <= 0.01 <= detector.false_alarm_rate_.high
    assert 0.8 < detector.limit_ < 1.3


def test_limits_differ_by_mode():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 1)) * [1.0, 2.0, -1.0, 0.5] + 0.1 * rng.normal(size=(1200, 4))
    X[600:] = X[600:] + 50 + 1.0 * rng.normal(size=(600, 4))
    detector = PCADetector(1, modes=2, scale=False).fit(X)
    quiet, noisy = np.sort(detector.mode_limits_)
    assert noisy > 20 * quiet
    assert (detector.predict(X[:600]) == -1).mean() < 0.03
    assert (detector.predict(X[600:]) == -1).mean() < 0.03
    off = X[:50].copy()
    off[:, 0] += 1.0
    assert (detector.predict(off) == -1).mean() > 0.9  # which the noisy mode would not notice


def test_a_mode_that_comes_once_raises_no_limit():
    """Consecutive tenths would hold out all rows of the second mode at once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 1)) * [1.0, 2.0, -1.0, 0.5] + 0.1 * rng.normal(size=(1000, 4))
    X[420:500] += 30
    detector = PCADetector(1, modes=2).fit(X)
    assert detector.limit_ < 1.5
    assert detector.false_alarm_rate_.value < 0.03


def test_blocks_are_consecutive_within_modes():
    modes = np.array([0] * 20 + [1] * 10 + [0] * 20)
    block = blocks_within(modes)
    assert (np.diff(block[modes == 0]) >= 0).all()
    assert np.bincount(block[modes == 0]).tolist() == [4] * 10
    assert np.bincount(block[modes == 1]).tolist() == [1] * 10


def test_scores_add_up(new, detector):
    why = detector.explain(new.iloc[50:100])
    np.testing.assert_allclose(why.base_value + why.values.sum(axis=1), why.score, rtol=1e-9)
    np.testing.assert_allclose(why.score, -detector.score_samples(new.iloc[50:100]))
    assert detector.explain(new.iloc[60:62], score="nll").score_name == "nll"


def test_statistics_and_limits(new, detector):
    table = detector.statistics(new, fdr=0.05)
    assert set(table["mode"]) == {1, 2, 3}
    assert (table["anomaly"] == (detector.predict(new) == -1)).all()
    assert set(detector.control_limits()["statistic"]) == {"spe", "t2", "mahalanobis"}
    assert detector.control_limits(training=True)["kind"].eq("held-out").all()
    assert np.isfinite(detector.residuals(new).to_numpy()).all()
    assert detector.contributions(new, "leave-one-out").shape == new.shape
    assert detector.fix(new.iloc[60:70]).clears.mean() > 0.9
    assert len(detector.abnormal_training_rows_) < 0.06 * 3000
    assert detector.compare(new.iloc[:50], new.iloc[60:90]).features[0].feature == "temperature_reactor"


def test_incidents_name_the_mode(plant, new, detector):
    incidents = detector.incidents(new, gap=3, min_length=5)
    assert [incident.culprits[0].feature for incident in incidents] == [fault.feature for fault in plant.faults]
    modes = detector.operating_modes(new)
    for incident, fault in zip(incidents, plant.faults, strict=True):
        assert incident.mode == modes[fault.start]
        assert f"(operating in mode {incident.mode})" in incident.sentence
        culprit = incident.culprits[0]
        assert culprit.actual - culprit.expected == pytest.approx(fault.size, rel=0.3)
        assert culprit.feature in incident.onset.to_fix
        assert incident.onset.score_if_fixed <= detector.limit_
        moved = incident.ranking[0]
        at = list(new).index(moved.feature)
        mean = detector.mean_ + detector.scale_ * detector.model_.means_[incident.mode - 1]
        assert moved.expected == pytest.approx(mean[at], rel=1e-9)
    assert incidents.to_frame()["mode"].tolist() == [incident.mode for incident in incidents]
    assert len(detector.incidents(new, gap=3, min_length=5, baseline=50)) >= 3


def test_incidents_of_one_model_have_no_mode(plant, names):
    detector = PCADetector().fit(plant.normal)
    incidents = detector.incidents(plant.new, gap=3)
    assert all(incident.mode is None and "mode" not in incident.sentence for incident in incidents)


def test_report(new, detector, tmp_path):
    report = detector.report(new, gap=3)
    page = report.to_html()
    assert "operating in mode" in page
    assert "% of the rows, " in page  # of each mode
    assert json.loads(report.to_json())["model"]["n_components"] == detector.fitted.n_components


def test_model_files(new, detector, tmp_path):
    detector.save(tmp_path / "plant.culpa")
    again = package.load(tmp_path / "plant.culpa")
    np.testing.assert_allclose(again.score_samples(new), detector.score_samples(new), rtol=1e-12)
    np.testing.assert_array_equal(again.operating_modes(new), detector.operating_modes(new))
    np.testing.assert_array_equal(again.mode_limits_, detector.mode_limits_)
    assert again.limit_ == detector.limit_
    assert str(again.incidents(new, gap=3)) == str(detector.incidents(new, gap=3))
    assert again.model_.weights_.tolist() == detector.model_.weights_.tolist()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("modes.weights", lambda a: a * 2, "modes.weights"),
        ("modes.noise", lambda a: -a, "modes.noise"),
        ("modes.noise", lambda a: 1e-200 * a, "modes.noise"),
        ("modes.components", lambda a: a + 50, "modes.components"),
        ("modes.mean", lambda a: a[:, :-1], "shape|fit|not valid|missing"),
        ("modes.loadings", lambda a: a[0], "modes.loadings"),
        ("modes.units.spe", lambda a: 0 * a, "modes.units.spe"),
        ("modes.covariance", lambda a: a * np.nan, "not finite"),
        ("modes.range.rows", None, "modes.range.rows"),
    ],
)
def test_forged_files_are_refused(detector, tmp_path, name, change, message):
    from forgery import forge

    path = tmp_path / "plant.culpa"
    detector.save(path)

    def edit(arrays, header):
        if change is None:
            del arrays[name]
        else:
            arrays[name] = np.ascontiguousarray(change(arrays[name]))

    forge(path, edit)
    with pytest.raises(ModelFileError, match=message):
        package.load(path)


def test_the_command_line(plant, names, new, tmp_path):
    pd.DataFrame(plant.normal[:1500], columns=names).to_csv(tmp_path / "normal.csv", index=False)
    new.to_csv(tmp_path / "new.csv", index=False)
    told = run("fit", tmp_path / "normal.csv", "-o", tmp_path / "plant.culpa", "--modes", "auto")
    assert "3 operating modes" in told.output
    assert (
        "operating in mode"
        in run("incidents", tmp_path / "new.csv", "-m", tmp_path / "plant.culpa", "--gap", "3").output
    )
    assert "modes" in run("info", tmp_path / "plant.culpa").output
    run("score", tmp_path / "new.csv", "-m", tmp_path / "plant.culpa", "-o", tmp_path / "scores.csv")
    scores = pd.read_csv(tmp_path / "scores.csv")
    assert scores["mode"].tolist() == package.load(tmp_path / "plant.culpa").operating_modes(new).tolist()
    run("fit", tmp_path / "normal.csv", "-o", tmp_path / "one.culpa")
    assert package.load(tmp_path / "one.culpa").modes is None


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"game": "retraining"}, "game='retraining' is not available with modes"),
        ({"statistic": "combined"}, "statistic='combined' is not available with modes"),
        ({"game": "interventional"}, "game='interventional' is not available with modes"),
        ({"game": "minimal"}, "game='minimal' is not available with modes"),
        ({"limit": "formula"}, "limit='formula' is not available with modes"),
        ({"limit": 3.0}, "limit=3.0 is not available with modes"),
        ({"smooth": 0.2}, "smooth=0.2 is not available with modes"),
        ({"n_components": "mle"}, "n_components='mle' is not available with modes"),
        ({"model": "student"}, "do not go with model='student'"),
        ({"model": "mixture"}, "unknown model 'mixture'"),
        ({"modes": 0}, "modes must be"),
        ({"modes": "many"}, "modes must be"),
    ],
)
def test_what_modes_exclude(plant, parameters, message):
    with pytest.raises(ValueError, match=message):
        PCADetector(**({"modes": 2} | parameters)).fit(plant.normal[:200])


def test_what_a_fitted_detector_refuses(plant, detector, new):
    with pytest.raises(ValueError, match="drift is not available with modes"):
        detector.drift(plant.new)
    with pytest.raises(AttributeError, match="partial_fit") as error:
        detector.partial_fit(plant.new)
    assert "needs all training rows at once" in str(error.value.__cause__)
    with pytest.raises(ValueError, match="several modes"):
        detector.plot.loadings()
    with pytest.raises(ValueError, match="does not tell modes apart"):
        PCADetector().fit(plant.normal[:100]).operating_modes(plant.new)
    with pytest.raises(ValueError, match="several modes"):
        detector.explain(new[:2], features=new.columns[:1].tolist())
    with pytest.raises(ValueError, match="cannot be compiled"):
        detector.explainer().compile()
    with pytest.raises(ValueError, match="counterfactual"):
        detector.explain(new[:2]).counterfactual()
    with pytest.raises(ValueError, match="sample_weight cannot be combined with modes"):
        PCADetector(modes=2).fit(plant.normal, sample_weight=np.ones(len(plant.normal)))
    with pytest.raises(ValueError, match="needs all training rows at once"):
        fit_moments(PCADetector(modes=2), Moments.of(plant.normal))


def test_calibration_is_refused(plant):
    with pytest.raises(ValueError, match="calibration is not available with modes=3"):
        package.calibrate(plant.normal[:200], PCADetector(modes=3))


def test_missing_cells(plant, detector, new):
    rng = np.random.default_rng(0)
    normal = plant.normal[:1200].copy()
    normal[rng.random(normal.shape) < 0.05] = np.nan
    holes = new.where(rng.random(new.shape) > 0.1)
    fitted = PCADetector(modes=3).fit(normal)
    assert fitted.model_.n_modes_ == 3
    score = -fitted.score_samples(holes.to_numpy())
    assert np.isfinite(score).all()
    assert (score[60:90] > fitted.limit_).mean() > 0.7
    why = detector.explain(holes.iloc[60:64])
    assert (why.values[holes.iloc[60:64].isna().to_numpy()] == 0).all()


def test_limits_of_other_kinds_and_trimming(plant):
    rows = plant.normal[:900]
    for limit in ("empirical", "conformal"):
        fitted = PCADetector(modes=3, limit=limit).fit(rows)
        assert fitted.limit_kind_ == limit
        assert (fitted.predict(plant.normal[900:]) == -1).mean() < 0.05
    spoiled = rows.copy()
    spoiled[::30, 6] += 40
    fitted = PCADetector(modes=3, trim=0.05).fit(spoiled)
    assert (fitted.predict(spoiled[::30]) == -1).mean() > 0.9
    calibrated = PCADetector(modes=3).fit(rows).calibrate_limit(plant.normal[900:1500])
    assert calibrated.limit_kind_ == "conformal"


def test_lags_groups_and_given_columns(plant):
    rows = plant.normal[:900]
    lagged = PCADetector(modes=3, lags=1).fit(rows)
    assert lagged.explain(plant.new[50:70]).values.shape == (20, 8)
    grouped = PCADetector(modes=3, groups={"flows": [0, 1, 2]}).fit(rows)
    assert grouped.explain(plant.new[60:62]).values.shape == (2, 6)
    given = PCADetector(modes=3, given=[7]).fit(rows)
    assert given.explain(plant.new[60:62]).values.shape == (2, 7)


def test_few_rows(plant):
    some = np.vstack([plant.normal[plant.normal_modes == mode][:9] for mode in range(3)])
    with pytest.warns(UserWarning, match="too few to check the limits of the modes"):
        detector = PCADetector(2, modes=3).fit(some)
    assert detector.limit_kind_ == "empirical"


def test_one_mode_is_one_model(plant):
    rows = plant.normal[plant.normal_modes == 0][:500]
    one, modes = PCADetector(2).fit(rows), PCADetector(2, modes=1).fit(rows)
    score, same = (-fitted.score_samples(rows) for fitted in (one, modes))
    np.testing.assert_allclose(score / same, score[0] / same[0], rtol=1e-8)
    assert modes.operating_modes(rows).max() == 1


def test_fits_are_deterministic(plant):
    first, again = (PCADetector(modes="auto").fit(plant.normal[:900]) for _ in range(2))
    assert first.limit_ == again.limit_
    np.testing.assert_array_equal(first.score_samples(plant.new), again.score_samples(plant.new))


def test_one_mode_is_not_explained_by_retraining():
    """Its score is measured in units of the mode's limit, and values of retrained PCAs would not add up to it."""
    X = np.random.default_rng(0).normal(size=(300, 1)) + 0.3 * np.random.default_rng(1).normal(size=(300, 4))
    detector = PCADetector(modes=1, statistic="spe").fit(X)
    with pytest.raises(ValueError, match="game='retraining' is not available for a detector with modes"):
        detector.explain(X[:2], game="retraining")
    for game in ("conditional", "interventional", "minimal"):
        why = detector.explain(X[:2], game=game)
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, detector.fitted.score(X[:2]))


def grades(n, seed, shift=12.0):
    """Two grades in campaigns of unequal length, within which successive rows resemble each other."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    for t in range(1, n):
        z[t] = 0.9 * z[t - 1] + np.sqrt(1 - 0.81) * z[t]
    mix = np.random.default_rng(5).normal(size=(3, 16))
    grade = (np.arange(n) % 500 >= 400).astype(int)
    moved = np.zeros(16)
    moved[:6] = shift * np.sqrt((mix**2).sum(axis=0) + 0.25)[:6]
    return z @ mix + 0.5 * rng.normal(size=(n, 16)) + grade[:, None] * moved, grade


def test_grades_that_change_seldom_are_found_and_told():
    X, grade = grades(1500, 0)
    names = [f"tag{k}" for k in range(16)]
    table = pd.DataFrame(X, columns=names)
    detector = PCADetector(modes="auto").fit(table)
    assert detector.model_.weights_ == pytest.approx([0.8, 0.2])
    assert detector.operating_modes(table).tolist() == (grade + 1).tolist()
    [told] = modes_in_words(detector.fitted)
    assert told.startswith("mode 2 (20% of the rows) differs from mode 1 in tag")
    assert told.endswith(" and 3 more columns")
    named = re.findall(r"(tag\d+) \((\S+) instead of (\S+), (\S+) sd\)", told)
    assert len(named) == 3
    for name, here, usual, apart in named:
        column = X[:, names.index(name)]
        assert float(here) == pytest.approx(column[grade == 1].mean(), rel=1e-3)
        assert float(usual) == pytest.approx(column[grade == 0].mean(), rel=1e-3, abs=1e-3)
        assert float(apart) == pytest.approx(12, abs=2)


def test_slow_changes_within_one_grade_are_no_modes():
    detector = PCADetector(modes="auto").fit(grades(1500, 0, shift=0.0)[0])
    assert detector.model_.n_modes_ == 1
    assert modes_in_words(detector.fitted) == []
