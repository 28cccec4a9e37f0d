"""Which setting is chosen, by which rule, and what the calibrated detector keeps of the one given."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import culpa
from culpa import PCADetector
from culpa.calibration import Setting, settings
from culpa.calibration.choice import RULE, choose, complexity, ordered
from culpa.calibration.comparison import Outcome, Scores, own_setting
from culpa.calibration.evaluation import Estimate, Estimator
from culpa.calibration.plan import Plan
from culpa.datasets import make_plant
from culpa.scores.held_out import Rate

OWN = Setting("auto", 1.0, 0.0, "mahalanobis")
SPE, T2 = Setting(4, 1.0, 0.0, "spe"), Setting(4, 1.0, 0.0, "t2")


def outcome(setting, detection, hits1, width=0.02):
    shares = [Estimate(value, value - width, value + width) for value in (detection, hits1)]
    return Outcome(setting, shares[0], Rate(0.01, 0.0, 0.02), shares[1], shares[1], Estimate(2.0, 1.9, 2.1))


def standings(*outcomes, own=OWN):
    return {entry.setting: entry.standing for entry in ordered(outcomes, own)}


class TestRule:
    noisy = OWN._replace(noise=3.0)
    odds = OWN._replace(ranking="fault-odds")
    shrunk = Setting(11, 1.0, 0.01, "mahalanobis", ranking="fault-odds")

    def test_the_simplest_of_the_tied_wins(self):
        found = standings(outcome(self.shrunk, 0.9, 0.82), outcome(self.odds, 0.9, 0.81), outcome(OWN, 0.9, 0.79))
        assert found == {self.shrunk: "tied", self.odds: "tied", OWN: "chosen"}

    def test_what_is_clearly_better_wins_however_complex(self):
        found = standings(outcome(self.shrunk, 0.9, 0.9), outcome(OWN, 0.9, 0.8))
        assert found == {self.shrunk: "chosen", OWN: "fewer hits"}

    def test_shapley_values_come_first_among_equally_simple_ones(self):
        other_game = OWN._replace(game="interventional")
        found = standings(outcome(self.odds, 0.9, 0.82), outcome(other_game, 0.9, 0.80))
        assert found == {other_game: "chosen", self.odds: "tied"}

    def test_flagged_rows_stay_as_they_are_if_one_change_is_as_good_as_another(self):
        found = standings(outcome(self.noisy, 0.9, 0.82), outcome(self.odds, 0.9, 0.80))
        assert found == {self.odds: "chosen", self.noisy: "tied"}

    def test_hits_do_not_make_up_for_missed_faults(self):
        blind = OWN._replace(statistic="t2")
        found = standings(outcome(blind, 0.5, 1.0), outcome(OWN, 0.9, 0.6))
        assert found == {OWN: "chosen", blind: "detects less"}

    def test_simple_means_like_the_detector_given(self):
        pair = outcome(OWN, 0.9, 0.8), outcome(self.odds, 0.9, 0.8)
        assert standings(*pair)[OWN] == "chosen"
        assert standings(*pair, own=self.odds)[self.odds] == "chosen"
        assert [complexity(s, OWN)[0] for s in (OWN, self.odds, self.shrunk)] == [0, 1, 3]


def test_a_setting_cannot_win_by_flagging_everything():
    """Both are judged at the same rate of false alarms, whatever the size of the scores."""
    rng = np.random.default_rng(0)
    far = 1e6  # above any limit of the other
    informed = Scores.of((rng.normal(size=200), rng.normal(3.5, 1, size=100)) for _ in range(5))
    blind = Scores.of((rng.normal(far, 1, size=200), rng.normal(far, 1, size=100)) for _ in range(5))
    estimate = Estimator(np.arange(500))
    (seen, seen_alarms), (missed, missed_alarms) = (found.at_rate(0.01, estimate) for found in (informed, blind))
    assert seen_alarms.value == missed_alarms.value == pytest.approx(0.01, abs=0.002)
    assert seen.value > 0.8
    assert missed.value < 0.05


def test_an_artificially_low_limit_changes_neither_detection_nor_choice(plant):
    plan = Plan([SPE, T2], n_trials=200)
    usual, low = (
        choose(plant.normal, PCADetector(4, confidence=0.95, limit=limit), plan) for limit in ("auto", "empirical")
    )
    assert (usual.best, usual.entries) == (low.best, low.entries)
    assert usual.changes != low.changes  # which show what the detector's own limit does


@pytest.fixture(scope="module")
def calibrated(plant):
    names = list(plant.feature_names)
    return culpa.calibrate(pd.DataFrame(plant.normal, columns=names), PCADetector(confidence=0.95), n_trials=300)


def test_calibration_returns_the_detector_it_promises(calibrated, plant, tmp_path):
    calibration = calibrated.calibration_
    assert calibration.rule == RULE
    assert calibration.best == own_setting(calibrated, 12)
    assert calibration.entries[0].setting == calibration.best
    assert calibration.entries[0].hits1.value > 0.9
    new = pd.DataFrame(make_plant(400, 400).new, columns=list(plant.feature_names))
    flagged = new[calibrated.predict(new) == -1]
    top = calibrated.explain(flagged).top(1)
    # rows 50 to 80 have a biased flow_reflux, which this plant tells from all others
    assert (top[top["row"].between(50, 79)]["feature"] == "flow_reflux").all()
    calibrated.save(tmp_path / "m.culpa")
    again = culpa.load(tmp_path / "m.culpa").explain(flagged).top(1)
    pd.testing.assert_frame_equal(again, top)


def test_false_alarms_stay_as_asked(calibrated):
    assert calibrated.limit_kind_ == "held-out"
    rate = calibrated.false_alarm_rate_
    assert rate.low <= 0.05 <= rate.high
    later = make_plant(1, 2000, seed=1, faults=()).new
    assert 0.015 <= (calibrated.predict(pd.DataFrame(later, columns=calibrated.feature_names_in_)) == -1).mean() <= 0.1


def test_calibration_as_a_table(calibrated, plant):
    table = calibrated.calibration_.to_frame()
    assert len(table) == len(settings(12))
    assert table["chosen"].sum() == 1
    assert table["standing"][0] == "chosen"
    assert table[table["standing"] == "tied"]["hits1"].is_monotonic_decreasing
    for name in ("detection", "false_alarms", "hits1", "hits3", "rank"):
        assert ((table[f"{name}_low"] <= table[name]) & (table[name] <= table[f"{name}_high"])).all()
    assert table["false_alarms"].nunique() == 1
    assert table["false_alarms"][0] == pytest.approx(0.05, abs=0.005)
    frame = pl.DataFrame(plant.normal, schema=list(plant.feature_names))
    other = culpa.calibrate(frame, chosen=[SPE, SPE._replace(noise=10.0)], n_trials=100).calibration_
    assert isinstance(other.to_frame(), pl.DataFrame)
    assert isinstance(other.changes_to_frame(), pl.DataFrame)
    assert other.best in (SPE, SPE._replace(noise=10.0))


def test_the_table_of_changes_compares_both_detectors(plant):
    given = PCADetector(4, statistic="t2", limit="f", confidence=0.95)
    chosen = [Setting(6, 3.0, 0.0, "mahalanobis", ranking="rbc")]
    detector = culpa.calibrate(plant.normal, given, chosen=chosen, n_trials=200)
    calibration = detector.calibration_
    lines = {line.what: (line.before, line.after) for line in calibration.changes}
    assert {name: lines[name] for name in ("components", "statistic", "noise", "ranking", "limit")} == {
        "components": ("4", "6"),
        "statistic": ("t2", "mahalanobis"),
        "noise": ("1", "3"),
        "ranking": ("shapley", "rbc"),
        "limit": ("f", "auto"),
    }
    assert "shrinkage" not in lines
    assert "game" not in lines
    entry = calibration.entries[0]
    after = lines["detection at 5% false alarms"][1]
    assert after.startswith(f"{entry.detection.value:.1%} ({100 * entry.detection.low:.1f}")
    before = choose(plant.normal, given, Plan([own_setting(given, 12)], n_trials=200))
    assert lines["Hits@1"][0].startswith(f"{before.entries[0].hits1.value:.1%}")
    assert lines["Hits@3"][1].startswith(f"{entry.hits3.value:.1%}")
    assert calibration.changes_to_frame()["what"].tolist() == list(lines)


def test_false_alarms_in_the_table_are_those_of_the_own_limit(plant):
    """Per fold, the detector is fitted to the others and counts its alarms in this one."""
    given = PCADetector(4, statistic="spe", limit="formula", confidence=0.9)
    calibration = choose(plant.normal, given, Plan([SPE], n_trials=60))
    flagged = 0
    for held_out in np.array_split(np.arange(400), 5):
        detector = given.fit(np.delete(plant.normal, held_out, axis=0))
        flagged += (detector.predict(plant.normal[held_out]) == -1).sum()
    lines = {line.what: line.after for line in calibration.changes}
    assert lines["false alarms with its own limit"].startswith(f"{flagged / 400:.1%} ")


def test_what_is_not_calibrated_is_kept(plant):
    given = PCADetector(
        5, limit="empirical", trim=0.05, scale=False, confidence=0.9, noun="sensor", holdout=0.3, statistic="combined"
    )
    detector = culpa.calibrate(plant.normal, given, n_trials=60)
    kept = ("n_components", "limit", "trim", "scale", "confidence", "noun", "holdout", "lags")
    assert {name: detector.get_params()[name] for name in kept} == {name: given.get_params()[name] for name in kept}
    assert {entry.setting.n_components for entry in detector.calibration_.entries} == {5}
    assert own_setting(given, 12) in {entry.setting for entry in detector.calibration_.entries}
    assert not hasattr(given, "model_")


def test_where_nothing_is_better_the_detector_stays_as_it_is(plant):
    given = PCADetector(noun="sensor")
    detector = culpa.calibrate(plant.normal, given, chosen=[OWN], n_trials=60)
    assert detector.get_params() == given.get_params()  # "auto" stays "auto"
    assert not {"components", "statistic"} & {line.what for line in detector.calibration_.changes}


def test_calibration_takes_detectors_as_they_come(plant):
    for chosen, limit in ((T2, "f"), (SPE, "auto")):
        detector = culpa.calibrate(plant.normal, PCADetector(statistic="t2", limit="f"), chosen=[chosen], n_trials=60)
        assert detector.limit == limit
    # 120 held-out rows are enough for 99%, though those of a fold are not
    many = make_plant(600, 1, faults=()).normal
    detector = culpa.calibrate(many, PCADetector(limit="conformal"), chosen=[SPE, T2], n_trials=100)
    assert detector.limit_kind_ == "conformal"
    lines = {line.what: line.after for line in detector.calibration_.changes}
    assert lines["false alarms with its own limit"] == "unknown"


def test_calibration_tells_progress_and_repeats_itself(plant):
    few = [SPE, SPE._replace(ranking="rbc")]
    seen = []
    first = choose(plant.normal, plan=Plan(few, n_trials=100, progress=lambda share, doing: seen.append(share)))
    assert seen == sorted(seen)
    assert seen[-1] == 1
    assert first == choose(plant.normal, plan=Plan(few, n_trials=100))
    assert first != choose(plant.normal, plan=Plan(few, n_trials=100, seed=1))


def test_missing_cells_take_part_in_the_fit_only(plant):
    X = plant.normal.copy()
    X[::7, 2] = np.nan
    few = [SPE, SPE._replace(noise=3.0)]
    complete = X[~np.isnan(X).any(axis=1)]
    detector = culpa.calibrate(X, chosen=few, n_trials=100)
    assert detector.calibration_ == choose(complete, plan=Plan(few, n_trials=100))
    assert detector.model_.n_samples_ == len(X)


def test_too_little_to_calibrate_with():
    X = np.random.default_rng(0).normal(size=(30, 4))
    with pytest.raises(ValueError, match="minimum of 20"):
        culpa.calibrate(X[:10])
    with pytest.raises(ValueError, match="with 6 complete rows before them are needed to calibrate, got 24"):
        culpa.calibrate(X, PCADetector(lags=2))
    with pytest.raises(ValueError, match="n_folds must be a whole number of at least 2"):
        culpa.calibrate(X, n_folds=1)
    with pytest.raises(ValueError, match="n_folds=16 leaves fewer than two rows"):
        culpa.calibrate(X, n_folds=16)
    with pytest.raises(ValueError, match="chosen is empty"):
        culpa.calibrate(X, chosen=[])
    with pytest.raises(ValueError, match='the fault "drift" needs a detector with lags'):
        culpa.calibrate(X, kinds=["drift"])
    X[:15, 0] = np.nan
    with pytest.raises(ValueError, match="20 complete rows are needed to calibrate, got 15"):
        culpa.calibrate(X)


@pytest.fixture(scope="module")
def process():
    """Five sensors of two slow factors: what a sensor should read follows from its past, too."""
    rng = np.random.default_rng(0)
    factors = np.zeros((600, 2))
    for t in range(1, 600):
        factors[t] = 0.9 * factors[t - 1] + rng.normal(size=2)
    return factors @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(600, 5))


def test_calibration_supports_lags(process):
    few = [OWN, OWN._replace(ranking="rbc"), OWN._replace(statistic="t2")]
    detector, again = (culpa.calibrate(process, PCADetector(lags=2), chosen=few, n_trials=200) for _ in range(2))
    assert detector.lags == 2
    assert detector.limit_kind_ == "held-out"
    entry = detector.calibration_.entries[0]
    assert entry.detection.value > 0.5
    assert entry.hits1.value > 0.6  # of five columns, not of fifteen features
    assert 1 <= entry.rank.value <= 3
    assert detector.calibration_ == again.calibration_


def test_all_settings_work_with_lags(process):
    found = culpa.calibrate(process[:200], PCADetector(lags=1), n_trials=33).calibration_
    assert np.isfinite(found.to_frame()[["detection", "hits1", "rank"]].to_numpy()).all()
    assert {entry.setting.n_components for entry in found.entries} == {"auto", 9}
    assert not any(entry.setting.game == "retraining" for entry in found.entries)


def test_groups_are_kept_and_play_no_part_in_the_choice(plant):
    normal = pd.DataFrame(plant.normal, columns=[f"s{i}" for i in range(plant.normal.shape[1])])
    plain, grouped = (
        culpa.calibrate(normal, PCADetector(groups=groups), chosen=[OWN, OWN._replace(ranking="rbc")], n_trials=100)
        for groups in (None, {"pair": ["s0", "s1"]})
    )
    assert grouped.calibration_.to_frame().equals(plain.calibration_.to_frame())
    assert grouped.groups == {"pair": ["s0", "s1"]}
    assert grouped.explain(normal[:3]).player_names[0] == "pair"
