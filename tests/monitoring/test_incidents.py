"""Incidents: which rows belong together, when they were, whose fault they are, and how they are told."""

import datetime as dt
import json
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from culpa import PCADetector
from culpa.datasets import make_plant
from culpa.monitoring import Incident, Incidents
from culpa.monitoring.digits import compared
from culpa.monitoring.times import GapCheck


@pytest.fixture(scope="module")
def plant():
    return make_plant()


@pytest.fixture(scope="module")
def detector(plant):
    return PCADetector(0.95, statistic="spe", limit="formula").fit(
        pd.DataFrame(plant.normal, columns=list(plant.feature_names))
    )


@pytest.fixture
def new(plant):
    return pd.DataFrame(plant.new.copy(), columns=list(plant.feature_names))


def minutes(n, start="2024-03-05 10:00"):
    return pd.date_range(start, periods=n, freq="1min")


def runs(flags, gap):
    """Witness: (first, last, number of flagged rows) of every incident, by walking row by row."""
    found = []
    for row in np.flatnonzero(flags).tolist():
        if found and row - found[-1][1] - 1 <= gap:
            found[-1] = (found[-1][0], row, found[-1][2] + 1)
        else:
            found.append((row, row, 1))
    return found


@pytest.mark.parametrize("gap", [0, 1, 5, 1000])
@pytest.mark.parametrize("min_length", [1, 2, 10])
def test_incidents_are_runs_of_flagged_rows(detector, new, gap, min_length):
    found = detector.incidents(new, gap=gap, min_length=min_length)
    flags = detector.predict(new) == -1
    assert [(i.first, i.last, i.n_flagged) for i in found] == [run for run in runs(flags, gap) if run[2] >= min_length]
    assert found.n_rows == 400
    assert found.n_flagged == flags.sum()


def test_numbers_of_an_incident_are_those_of_its_rows(detector, new):
    incident = detector.incidents(new, gap=3, min_length=5)[0]
    rows = np.flatnonzero(detector.predict(new) == -1)
    rows = rows[(rows >= incident.first) & (rows <= incident.last)]
    why = detector.explain(new.iloc[rows])
    worst = int(np.argmax(why.score))
    assert (incident.peak, incident.score) == (rows[worst], pytest.approx(why.score.max()))
    assert incident.limit == detector.limit_
    assert [moment.row for moment in (incident.onset, incident.worst)] == [rows[np.argmax(why.score[:5])], rows[worst]]
    for moment in (incident.onset, incident.worst):
        k = int(np.flatnonzero(rows == moment.row)[0])
        assert moment.score == pytest.approx(why.score[k])
        names = [culprit.feature for culprit in moment.culprits]
        jointly = detector.fix(new.iloc[[moment.row]], names)
        for culprit, expected in zip(moment.culprits, jointly.expected[0], strict=True):
            i = why.feature_names.index(culprit.feature)
            assert culprit.value == pytest.approx(why.values[k, i])
            assert culprit.share == pytest.approx(why.values[k, i] / why.score[k])
            assert culprit.actual == new.iloc[moment.row, i]
            assert culprit.expected == pytest.approx(expected)
            assert culprit.score_if_fixed == pytest.approx(why.score_if_fixed[k, i])
            assert culprit.deviation == pytest.approx((culprit.actual - culprit.expected) / culprit.expected_sd)


def test_spread_of_the_expected_value_is_the_conditional_one(detector, new, plant):
    """By the textbook formula, for several features that are fixed jointly, times what held-out rows need."""
    incident = detector.incidents(new, gap=3)[-1]
    names = [culprit.feature for culprit in incident.onset.culprits]
    assert len(names) > 1
    C = detector.model_.get_covariance()
    block = [plant.feature_names.index(name) for name in names]
    rest = [i for i in range(12) if i not in block]
    left = C[np.ix_(block, block)] - C[np.ix_(block, rest)] @ np.linalg.solve(
        C[np.ix_(rest, rest)], C[np.ix_(rest, block)]
    )
    sd = np.sqrt(np.diag(left)) * detector.scale_[block] * detector.fitted.usual_errors[block]
    assert [culprit.expected_sd for culprit in incident.onset.culprits] == pytest.approx(sd.tolist())


def test_batches_do_not_matter(detector, new, monkeypatch):
    whole = detector.incidents(new, gap=3).to_dict()
    for size in (1, 2, 7, 64):
        monkeypatch.setattr("culpa.monitoring.incidents._ROWS_PER_CHUNK", size)
        assert_close(detector.incidents(new, gap=3).to_dict(), whole)


def assert_close(a, b, where=""):
    """Nested lists, dictionaries, texts and numbers are the same, but for rounding."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_close(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), where
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_close(x, y, f"{where}[{k}]")
    elif isinstance(a, float):
        assert a == pytest.approx(b, rel=1e-6, abs=1e-9), where
    else:
        assert a == b, where


def test_sampled_values_keep_their_sampling_error(detector, new):
    one = detector.incidents(new.iloc[229:232], method="permutation", n_orders=64)[0]
    why = detector.explain(new.iloc[230:231], method="permutation", n_orders=64)
    assert one.n_flagged == 1
    top = int(np.argmax(why.values[0]))
    assert one.culprits[0].std_error == pytest.approx(why.std_error[0, top])
    assert one.culprits[0].std_error > 0


class TestFixingSeveral:
    def test_joint_expectation_by_hand(self, detector, new, plant):
        """Conditional mean by the textbook formula with explicit blocks of the covariance."""
        C = detector.model_.get_covariance()
        z = (new.to_numpy() - detector.mean_) / detector.scale_
        block = [plant.feature_names.index(name) for name in ("flow_product", "temperature_top", "pressure_inlet")]
        rest = [i for i in range(12) if i not in block]
        implied = z[:, rest] @ np.linalg.solve(C[np.ix_(rest, rest)], C[np.ix_(rest, block)])
        fixed = z.copy()
        fixed[:, block] = implied
        residual = fixed - fixed @ detector.model_.components_.T @ detector.model_.components_
        together = detector.fix(new, ["flow_product", "temperature_top", "pressure_inlet"])
        np.testing.assert_allclose(together.expected, detector.mean_[block] + detector.scale_[block] * implied)
        np.testing.assert_allclose(together.score_if_fixed, (residual**2).sum(axis=1))
        np.testing.assert_allclose(together.score, -detector.score_samples(new))
        np.testing.assert_array_equal(together.actual, new.iloc[:, block])

    def test_two_broken_sensors_vouch_for_each_other(self, detector, new):
        """The simulated truth: jointly expected values are closer to it than those of one sensor at a time."""
        healthy = pd.DataFrame(make_plant(faults=()).new, columns=new.columns)
        names = ["flow_product", "temperature_top", "pressure_inlet"]
        rows = slice(325, 340)
        together = detector.fix(new[rows], names)
        alone = detector.explain(new[rows]).expected[:, [new.columns.get_loc(name) for name in names]]
        truth = healthy[names][rows].to_numpy()
        assert np.abs(together.expected - truth).mean(axis=0).tolist() < np.abs(alone - truth).mean(axis=0).tolist()
        assert together.clears.mean() > 0.9

    def test_fixing_fewer_does_not_clear_the_alarm(self, detector, new, plant):
        found = detector.incidents(new, gap=3)
        assert {len(i.worst.to_fix) for i in found} == {1, 3}
        for moment in (moment for incident in found for moment in (incident.onset, incident.worst)):
            row, names = new.iloc[[moment.row]], list(moment.to_fix)
            together = detector.fix(row, names)
            assert together.clears[0]
            assert moment.score_if_fixed == pytest.approx(together.score_if_fixed[0])
            assert moment.to_fix == pytest.approx(dict(zip(together.features[0], together.expected[0], strict=True)))
            for left_out in names if len(names) > 1 else []:
                assert not detector.fix(row, [name for name in names if name != left_out]).clears[0]

    def test_healthy_sensors_are_not_added_up_when_two_broken_ones_will_do(self, plant):
        """T2 blames many for two cells of -9999; from the top of its Shapley values it would take nine."""
        detector = PCADetector(0.95, statistic="t2", limit="formula").fit(plant.normal)
        row = plant.normal[10:11].copy()
        row[0, [6, 10]] = -9999
        found = detector.incidents(row)[0]
        assert set(found.onset.to_fix) == {"x6", "x10"}
        assert {culprit.feature for culprit in found.culprits} == {"x6", "x10"}
        assert detector.fix(row, ["x6", "x10"]).clears[0]

    def test_one_sensor_far_off_in_a_row_that_is_above_the_limit_anyway(self, detector, plant):
        """Fixing that one leaves the chance; more must be fixed to clear the alarm."""
        score = -detector.score_samples(pd.DataFrame(plant.normal, columns=plant.feature_names))
        chance = np.flatnonzero((score > 1.1 * detector.limit_) & (score < 1.24 * detector.limit_))
        assert len(chance) >= 2
        for at in chance:
            row = pd.DataFrame(plant.normal[at : at + 1], columns=plant.feature_names)
            row.iloc[0, 3] += 20 * plant.normal[:, 3].std()
            found = detector.incidents(row)[0]
            assert found.onset.score_if_fixed <= found.limit
            assert found.culprits[0].feature == plant.feature_names[3]

    def test_worst_culprits_of_each_row(self, detector, new):
        together = detector.fix(new[300:320], 2)
        top = detector.explain(new[300:320]).top(2)
        assert together.features.ravel().tolist() == top["feature"].tolist()
        frame = together.to_frame()
        assert list(frame.columns) == ["row", "score", "score_if_fixed", "clears", "feature", "actual", "expected"]
        assert frame["row"].tolist() == top["row"].tolist()
        alone = detector.fix(new[300:320], 1)
        first = top[top["rank"] == 1]
        np.testing.assert_allclose(alone.expected.ravel(), first["expected"])
        np.testing.assert_allclose(alone.score_if_fixed, first["score_if_fixed"])

    def test_missing_cells(self, detector, new):
        new.iloc[0, 0] = np.nan
        together = detector.fix(new[:3], ["flow_feed", "flow_product"])
        assert np.isnan(together.actual[0, 0])
        assert np.isfinite(together.expected).all()
        assert np.isfinite(together.score_if_fixed).all()

    def test_mistakes(self, detector, new):
        with pytest.raises(ValueError, match="did you mean 'flow_feed'"):
            detector.fix(new, ["flow_fed"])
        with pytest.raises(ValueError, match="Use 1 to 12"):
            detector.fix(new, 13)
        with pytest.raises(ValueError, match="at least one"):
            detector.fix(new, [])

    def test_no_rows(self, detector, new):
        assert len(detector.fix(new[:0], 2)) == 0
        assert len(detector.fix(new[:0], ["flow_feed"]).to_frame()) == 0


class TestTime:
    def test_every_way_to_give_times(self, detector, new):
        times = minutes(400)
        by_index = detector.incidents(new.set_index(times), gap=3)
        with_column = new.assign(when=times)
        texts = [str(time) for time in times]
        ways = {
            "column": detector.incidents(with_column, time="when", gap=3),
            "array": detector.incidents(new, time=times.to_numpy(), gap=3),
            "series": detector.incidents(new, time=with_column["when"], gap=3),
            "list": detector.incidents(new, time=list(times.to_pydatetime()), gap=3),
            "texts": detector.incidents(new, time=texts, gap=3),
            "text column": detector.incidents(new.assign(when=texts), time="when", gap=3),
            "period": detector.incidents(new.set_index(times.to_period("min")), gap=3),
            "polars": detector.incidents(pl.from_pandas(with_column), time="when", gap=3),
            "arrow": detector.incidents(pa.Table.from_pandas(with_column), time="when", gap=3),
        }
        for name, found in ways.items():
            assert str(found) == str(by_index), name
        assert by_index[0].start == times[by_index[0].first]
        assert by_index[0].peak_label == times[by_index[0].peak]

    def test_frames_come_back_in_kind(self, detector, new):
        with_column = new.assign(when=minutes(400, "2024-03-05 10:00+01:00"))
        frame = detector.incidents(with_column, time="when", gap=3).to_frame()
        assert frame["start"].iloc[0] == pd.Timestamp("2024-03-05 10:31+01:00")
        polars = detector.incidents(pl.from_pandas(with_column), time="when", gap=3).to_frame()
        assert isinstance(polars, pl.DataFrame)
        assert polars["start"][0] == dt.datetime.fromisoformat("2024-03-05 10:31+01:00")
        arrow = detector.incidents(pa.Table.from_pandas(with_column), time="when", gap=3).to_frame()
        assert arrow.column("sentence").to_pylist() == polars["sentence"].to_list() == frame["sentence"].tolist()

    def test_a_gap_in_time(self, detector, new):
        times = minutes(400)
        rows = detector.incidents(new.set_index(times), gap=4)
        for gap in ("5min", dt.timedelta(minutes=5), np.timedelta64(5, "m"), pd.Timedelta("5min")):
            found = detector.incidents(new.set_index(times), gap=gap)
            assert [(i.first, i.last) for i in found] == [(i.first, i.last) for i in rows]
        # a hole in the data ends an incident, though no row lies in it
        late = times.where(np.arange(400) < 60, times + pd.Timedelta("2h"))
        broken = detector.incidents(new.set_index(late), gap="5min")
        assert (59 in [i.last for i in broken], 60 in [i.first for i in broken]) == (True, True)

    @pytest.mark.parametrize(
        ("frequency", "gap", "message"),
        [
            (
                "10min",
                "5min",
                "rows are 10 min apart, so a gap of 5 min ends an incident after every row. Use a longer",
            ),
            ("10min", dt.timedelta(0), "rows are 10 min apart, so a gap of 0 s ends an incident after every row"),
            ("D", "1h", "rows are 1 day apart, so a gap of 1 h ends"),
            ("250ms", "100ms", "rows are 250 ms apart, so a gap of 100 ms ends"),
            ("300.06s", "5min", "rows are 5.001 min apart, so a gap of 5 min ends"),
        ],
    )
    def test_a_gap_shorter_than_the_time_between_rows(self, detector, new, frequency, gap, message):
        """It would end an incident after every row, whatever happened."""
        times = pd.date_range("2024-03-05", periods=400, freq=frequency)
        with pytest.warns(UserWarning, match=message):
            found = detector.incidents(new, time=times, gap=gap)
        assert len(found) == found.n_flagged
        with pytest.warns(UserWarning, match=message):
            detector.report(new[:60], time=times[:60], gap=gap)

    def test_a_gap_that_is_long_enough_or_not_known_to_be_short(self, detector, new):
        times = minutes(400)
        detector.incidents(new, time=times, gap="1min")
        detector.incidents(new[50:51], time=times[50:51], gap="1s")  # a single row
        detector.incidents(new, time=times, gap="1s", stretches=[(50, 60)])  # no gap is used
        detector.incidents(new, time=times.repeat(2)[:400], gap="1s")  # two rows a minute, together
        uneven = times[0] + pd.to_timedelta(np.cumsum(np.tile([1, 1, 30], 134))[:400], "min")
        detector.incidents(new, time=uneven, gap="5min")
        with pytest.warns(
            UserWarning, match="rows are usually 1 min apart, so a gap of 30 s ends an incident after most"
        ):
            detector.incidents(
                new, time=times[0] + (uneven - times[0]).where(np.arange(400) > 2, dt.timedelta(0)), gap="30s"
            )

    def test_a_short_gap_is_known_after_a_few_rows(self):
        times, check = minutes(30), GapCheck(pd.Timedelta("30s"))
        said = [check.add(times[k : k + 1]) for k in range(30)]
        assert [k for k, text in enumerate(said) if text] == [10]
        assert check.finish() is None

    def test_times_of_day_durations_and_numbers(self, detector, new):
        new = new[:100]
        clock = [time.strftime("%H:%M:%S") for time in minutes(100)]
        began = "flow_reflux stood out first, at 10:50, and at 10:53 read 58"
        assert began in str(detector.incidents(new, time=clock, gap=3))
        assert str(detector.incidents(new, time=[c[:5] for c in clock], gap="5min")).count("\n") == 1
        objects = [dt.time.fromisoformat(text) for text in clock]
        assert "At 10:31, flow_reflux" in str(detector.incidents(new, time=objects, gap=3))
        elapsed = pd.timedelta_range("30h", periods=100, freq="30s")
        began = "flow_reflux stood out first, on day 1 at 06:25:00, and at"
        assert began in str(detector.incidents(new.set_index(elapsed), gap="5min"))
        past_midnight = pd.timedelta_range("23h35min10s", periods=100, freq="30s")
        assert "flow_reflux stood out first, on day 0 at 23:59:40, and on" in str(
            detector.incidents(new.set_index(past_midnight - pd.Timedelta("30s")), gap="5min")
        )
        assert "Over since seconds 7.9." in str(
            detector.incidents(new, time=pd.Series(np.arange(100) / 10, name="seconds"), gap=3)
        )

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                lambda t: t[::-1],
                "goes backwards: row 1 is at 2024-03-05 16:38:00, the row before at 2024-03-05 16:39:00",
            ),
            (lambda t: t.where(np.arange(400) != 7), "no time in row 7"),
            (lambda t: t[:-1], "time has 399 values, but X has 400 rows"),
            (lambda t: ["A12"] * 400, "contains 'A12' in row 0, which is not a time"),
            (lambda t: np.zeros((400, 2)), "2 dimensions"),
            (lambda t: "when", "no column|unknown time column 'when'"),
        ],
    )
    def test_times_that_cannot_be_used(self, detector, new, change, message):
        with pytest.raises(ValueError, match=message):
            detector.incidents(new, time=change(minutes(400)))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"gap": -1}, "must not be negative"),
            ({"gap": 1.5}, "whole number of rows or a time span"),
            ({"gap": "soon"}, "whole number of rows or a time span"),
            ({"gap": "5"}, "whole number of rows or a time span"),
            ({"gap": "-1.5 "}, "whole number of rows or a time span"),
            ({"gap": "5min"}, "rows need times"),
            ({"min_length": 0}, "at least 1"),
            ({"units": {"flow": "m"}}, "unknown feature in units: 'flow'"),
        ],
    )
    def test_other_mistakes(self, detector, new, options, message):
        with pytest.raises(ValueError, match=message):
            detector.incidents(new, **options)

    def test_numbers_have_no_spans(self, detector, new):
        with pytest.raises(ValueError, match="rows need times"):
            detector.incidents(new, time=np.arange(400.0), gap="5min")

    def test_the_score_is_the_detectors(self, detector, new):
        with pytest.raises(TypeError, match="detector's own score"):
            detector.incidents(new, score="t2")

    def test_an_array_has_no_columns(self, plant):
        with pytest.raises(ValueError, match="no column names"):
            PCADetector().fit(plant.normal).incidents(plant.new, time="when")


class TestSentences:
    def test_as_an_operator_would_say_it(self, detector, new):
        found = detector.incidents(new.set_index(minutes(400)), gap=3, units={"flow_reflux": "m3/h"})
        assert found[1].sentence == (
            "flow_reflux stood out first, at 10:50, and at 10:53 read 58.30 m3/h where the other features imply "
            "45.89 ± 0.52 (24 sd). It accounts for 61% of the error. It stayed off. Over since 11:19. "
            "Check this feature and its wiring: without it, the other features are normal. "
            "It was worst at 11:10, 38.3 times the limit, when 1 of 12 features was far outside its training range."
        )
        assert found[0].sentence == (
            "At 10:31, flow_reflux read 43.85 m3/h where the other features imply 45.60 ± 0.52 (3.4 sd). "
            "These rows do not tell whether a sensor or the process is at fault: they are few and not far off."
        )

    @pytest.mark.parametrize(
        ("times", "began", "ended", "worst"),
        [
            (pd.date_range("2024-03-05", periods=400, freq="D"), "on 2024-04-24", "2024-05-23", "on 2024-05-14"),
            (
                pd.date_range("2024-03-05", periods=400, freq="h"),
                "on 2024-03-07 at 02:00",
                "2024-03-08 07:00",
                "on 2024-03-07 at 22:00",
            ),
            (
                pd.date_range("2024-03-05 22:00", periods=400, freq="min"),
                "on 2024-03-05 at 22:50",
                "23:19",
                "at 23:10",
            ),
            (pd.date_range("2024-03-05", periods=400, freq="s"), "at 00:00:50", "00:01:19", "at 00:01:10"),
            (
                pd.date_range("2024-03-05", periods=400, freq="250ms"),
                "at 00:00:12.500",
                "00:00:19.750",
                "at 00:00:17.500",
            ),
            (pd.date_range("2024-03-05", periods=400, freq="min", tz="Europe/Berlin"), "at 00:50", "01:19", "at 01:10"),
            (  # clocks go back at 03:00
                pd.date_range("2024-10-27", periods=400, freq="min", tz="UTC").tz_convert("Europe/Berlin"),
                "at 02:50 CEST",
                "02:19 CET",
                "at 02:10 CET",
            ),
            (pd.RangeIndex(1000, 1400), "in row 1050", "row 1079", "in row 1070"),
            (pd.Index([f"batch {k}" for k in range(400)]), "in row batch 50", "row batch 79", "in row batch 70"),
        ],
    )
    def test_when(self, detector, new, times, began, ended, worst):
        told = detector.incidents(new.set_index(times), gap=3)[1].sentence
        assert told.startswith(f"flow_reflux stood out first, {began}, and ")
        assert f" Over since {ended}. " in told
        assert re.search(rf" It was worst {worst}, [\d.]+ times the limit, when 1 of 12 ", told)

    def test_groups(self, detector, new):
        found = detector.incidents(new, gap=3, min_length=5, groups={"flows": [0, 1, 2, 3]})
        assert found[0].sentence.startswith(
            "flows (flow_reflux) stood out first, in row 50, and in row 53 read 58.30 where"
        )
        culprit = found[0].culprits[0]
        assert (culprit.feature, culprit.member, culprit.actual) == ("flows", "flow_reflux", new.iloc[53, 2])
        assert set(found[0].onset.to_fix) == {"flow_feed", "flow_product", "flow_reflux", "flow_steam"}

    def test_groups_of_one_are_told_like_their_feature(self, detector, new):
        units = {"flow_product": "t/h", "flow_reflux": "m3/h"}
        alone = detector.incidents(new, gap=3, units=units)
        named = detector.incidents(new, gap=3, units=units, groups={name.upper(): [name] for name in new.columns})
        assert max(len(incident.culprits) for incident in alone) > 1
        for one, other in zip(alone, named, strict=True):
            told = re.split(r" It |(?<=\.) [^.]*(?:stayed off|came back)", one.sentence)[0]
            for culprit in one.culprits:
                told = told.replace(culprit.feature, culprit.feature.upper())
            assert other.sentence.startswith(told)
            assert [culprit.unit for culprit in other.culprits] == [culprit.unit for culprit in one.culprits]

    def test_the_noun_is_the_users(self, plant):
        detector = PCADetector(noun="sensor").fit(plant.normal)
        incidents = detector.incidents(plant.new, gap=3, min_length=5)
        assert "the other sensors imply" in str(incidents)
        assert "feature" not in str(incidents)
        detector.set_params(noun="metric")  # needs no new fit
        assert "the other metrics imply" in str(detector.incidents(plant.new, gap=3, min_length=5))

    @pytest.mark.filterwarnings("ignore:X has feature names", "ignore:X does not have valid feature names")
    def test_names_that_only_new_rows_have(self, detector, plant, new):
        nameless = PCADetector(0.95, statistic="spe", limit="formula").fit(plant.normal)
        units = {"flow_reflux": "m3/h"}
        named = detector.incidents(new, units=units)
        assert str(nameless.incidents(new, units=units)) == str(named)
        assert [list(one.onset.to_fix) for one in nameless.incidents(new)] == [list(one.onset.to_fix) for one in named]
        detector.units_ = units
        try:
            assert str(detector.incidents(plant.new)) == str(named)
        finally:
            detector.units_ = {}

    def test_a_past_value_has_the_unit_of_its_sensor(self, new, plant):
        detector = PCADetector(lags=1).fit(pd.DataFrame(plant.normal, columns=new.columns))
        groups = {"past": ["flow_reflux (t-1)"]}
        found = detector.incidents(new[60:62], groups=groups, units={"flow_reflux": "m3/h"})
        assert {one.unit for one in found[0].culprits if one.feature in ("past", "flow_reflux")} == {"m3/h"}

    def test_long_names_are_cut(self):
        normal = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=["a" * 80 + "b", "c", "d"])
        odd = (normal[:1] + np.array([90, 0, 0])).set_index(pd.Index(["x" * 200]))
        told = str(PCADetector(1).fit(normal).incidents(odd))
        assert sorted(map(len, re.sub("[,.]", "", told).split()))[-3:] == [40, 40, 60]
        assert "a" * 36 + "…" + "a" * 22 + "b read 90.1 where the other features imply -0.2 ± 1.1 (79 sd)." in told

    def test_many_culprits(self):
        """More than three features cannot be told one by one; what would clear the alarm may be as many as eight."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(500, 2)) @ rng.normal(size=(2, 16)) + 0.3 * rng.normal(size=(500, 16))
        detector = PCADetector(2).fit(X)
        bad = X[:1] + 2 * X.std(axis=0) * np.sign(rng.normal(size=16)) * (np.arange(16) < 7)
        told = detector.incidents(bad)[0]
        assert told.extent == "upset"
        assert told.why == "early" or told.kind in ("process", "undecided")
        assert 0 < len(told.onset.to_fix) <= 8
        assert detector.fix(bad, list(told.onset.to_fix)).clears[0]

    @pytest.mark.parametrize("statistic", ["t2", "mahalanobis", "combined", "mse"])
    def test_other_scores(self, plant, statistic):
        detector = PCADetector(statistic=statistic, confidence=0.95).fit(plant.normal)
        new = plant.new.copy()
        new[50:80] *= 1.5
        found = detector.incidents(new, gap=5)
        scores = -detector.score_samples(new)
        assert all(i.score == pytest.approx(scores[i.peak]) for i in found)
        what = {"t2": "T2", "mahalanobis": "the distance", "combined": "the score", "mse": "the error"}[statistic]
        others = {"T2", "the distance", "the score", "the error"} - {what}
        assert any(f" of {what}." in i.sentence or f"{what} was" in i.sentence for i in found)
        assert not any(f" of {other}." in i.sentence or f"{other} was" in i.sentence for i in found for other in others)

    @pytest.mark.parametrize(
        ("numbers", "texts"),
        [
            ((0.0, 1.0, 0.3, 2), ("0", "1.00 ± 0.30")),
            ((-3.14159, -2.0, 0.3, 2), ("-3.14", "-2.00 ± 0.30")),
            ((-3.14159, -2.0, 12.0, 2), ("-3.14", "-2.0 ± 12")),
            ((5.0, 5.0, 1.0, 1), ("5", "5.0 ± 1.0")),
            ((5.0, 5.0, 0.0, 1), ("5", "5.0 ± 0")),
            ((123456.0, 98765.4, 1234.5, -2), ("123456", "98765 ± 1234")),
            ((1.2345678e9, 1.3e9, 3e6, -5), ("1.2346e+09", "1.3000e+09 ± 3000000")),
            ((1e90, 5.0, 0.4, 2), ("1.0000e+90", "5.00 ± 0.40")),
            ((1e-9, 0.0, 1e-10, 11), ("1.00e-09", "0.00e+00 ± 1e-10")),
            ((100.0001, 100.0, 0.00001, 6), ("100.0001", "100.000000 ± 1e-05")),
            ((100.0001, 100.0, 0.00001, 2), ("100.0001", "100.00000 ± 1e-05")),  # as many as tell them apart
        ],
    )
    def test_numbers(self, numbers, texts):
        assert compared(*numbers) == texts


def test_rows_without_any_number_are_not_flagged(detector, new):
    new.iloc[[0, 60, 399]] = np.nan
    with pytest.warns(UserWarning, match="3 row"):
        found = detector.incidents(new, gap=0)
    assert not any(i.first <= row <= i.last for i in found for row in (0, 60, 399))
    with pytest.warns(UserWarning, match="3 row"):
        across = detector.incidents(new, gap=1)
    assert any(i.first < 60 < i.last for i in across)


def test_rows_without_any_number_have_no_score_beside_a_limit_that_follows(plant):
    new = plant.new.copy()
    new[[0, 60, 399]] = np.nan
    fitted = PCADetector().fit(plant.normal)
    assert fitted.fitted.views is not None
    with pytest.warns(UserWarning, match="3 row"):
        course = fitted.incidents(new).course
    assert np.flatnonzero(np.isnan(course.score)).tolist() == [0, 60, 399]
    assert fitted.report(new).content["overview"]["empty_rows"] == 3


@pytest.mark.parametrize("parameters", [{}, {"n_components": 3}])
def test_who_is_given_is_not_to_blame(parameters):
    """Even if nothing but its fault explains the rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3)) @ rng.normal(size=(3, 6)) + 0.5 * rng.normal(size=(1500, 6))
    X[1200:1220, 3] += 30
    found = PCADetector(**parameters).fit(X[:1000]).incidents(X[1000:], given=[3])
    assert max(incident.n_flagged for incident in found) >= 20
    assert "x3" not in [one.feature for incident in found for one in incident.culprits]


def test_missing_cells_of_the_worst_row(detector, new):
    new.iloc[50:80, 2] = np.nan
    new.iloc[50:80, 1] += 40
    new.iloc[70, 1] = np.nan
    found = detector.incidents(new, gap=3, min_length=5)
    assert found[0].culprits[0].feature == "flow_product"
    assert all(np.isfinite(i.score) for i in found)
    json.loads(found.to_json())


def test_no_incidents(detector, new, plant):
    found = detector.incidents(new[:0])
    assert (len(found), len(found.unconfirmed)) == (0, 0)
    assert str(found) == f"No incidents.\n{found.expected}"
    assert str(detector.incidents(new[:0], gap=3)) == "No incidents."
    assert list(found.to_frame().columns) == list(detector.incidents(new).to_frame().columns)
    plain = {"n_rows": 0, "n_flagged": 0, "expected": found.expected, "incidents": [], "unconfirmed": []}
    assert found.to_dict() == plain


def test_no_stretches_are_no_incidents(detector, new):
    assert len(detector.incidents(new, stretches=[])) == 0


def test_a_sequence_with_plain_forms(detector, new):
    found = detector.incidents(new.set_index(minutes(400)), gap=3)
    assert isinstance(found, Incidents)
    assert isinstance(found[0], Incident)
    assert len(found[1:3]) == 2
    assert found[1:3].course is found.course
    assert list(found)[-1] == found[-1]
    assert str(found[0]) == found[0].sentence
    assert repr(found) == "<Incidents: 10 in 400 rows, 155 of them flagged>"
    frame = found.to_frame()
    assert len(frame) == len(found)
    assert frame["culprit"].tolist() == [i.culprits[0].feature for i in found]
    plain = json.loads(found.to_json())
    assert plain == found.to_dict()
    assert plain["incidents"][0]["start"] == "2024-03-05T10:31:00"
    assert plain["incidents"][0]["onset"]["culprits"][0]["feature"] == "flow_reflux"


def test_many_rows_with_many_flagged_ones(detector, plant):
    """Memory: rows are scored and explained a piece at a time, so little is needed beyond the table."""
    import tracemalloc

    X = np.tile(plant.new, (60, 1))  # 24,000 rows, 39% flagged
    table = pd.DataFrame(X, columns=list(plant.feature_names))
    detector.incidents(table[:1000])
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = detector.incidents(table, gap=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.n_flagged == 60 * 155
    assert peak < 8 * X.nbytes


@pytest.mark.parametrize("game", ["retraining", "interventional"])
def test_incidents_go_by_the_score_that_raises_the_alarm(game):
    """Where cells are missing, what the values of these games add up to is another number."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(2, 5))
    normal, new = (rng.normal(size=(n, 2)) @ W + 0.3 * rng.normal(size=(n, 5)) for n in (300, 20))
    new[10] = [60, -60, np.nan, np.nan, np.nan]
    new[11] = new[9] + [0, 0, 9, 0, 0]
    detector = PCADetector(2, game=game).fit(normal)
    score = -detector.score_samples(new)
    assert score[10] > score[11] > detector.limit_
    incident = next(one for one in detector.incidents(new, gap=0) if one.first == 10)
    assert incident.peak == 10
    assert incident.score == pytest.approx(score[10])
    assert all(abs(culprit.share) < 10 for culprit in incident.culprits)


def test_enormous_cells(detector, new):
    new.iloc[5:8, 2] = [1e90, -1e90, 2e90]
    incident = next(one for one in detector.incidents(new) if one.last == 7)
    [culprit] = incident.culprits
    assert culprit.feature == new.columns[2]
    assert culprit.actual == 2e90
    new.iloc[7, 2] = 50.0  # the expected value does not depend on it
    assert culprit.expected == pytest.approx(detector.explain(new).expected[7, 2])
    assert "more than 1,000 sd" in incident.sentence
    assert list(incident.onset.to_fix) == [new.columns[2]]


def test_a_healthy_sensor_that_is_blamed_most_need_not_be_fixed():
    """Two sensors that see the same thing fail together and vouch for each other, so a third one looks guilty."""
    rng = np.random.default_rng(3)

    def rows(n):
        z = rng.normal(size=(n, 3))
        pressure = z[:, 0] + 0.6 * z[:, 1]
        parts = [pressure, pressure, 0.5 * pressure + 0.8 * z[:, 2], z[:, 0], z[:, 1], z[:, 2], z[:, 0] - z[:, 2]]
        return pd.DataFrame(np.column_stack(parts) + 0.1 * rng.normal(size=(n, 7)), columns=[*"abcdefg"])

    detector = PCADetector(3).fit(rows(2000))
    new = rows(60)
    new.loc[20:39, ["a", "b"]] += 2.5
    (incident,) = detector.incidents(new, gap=3, min_length=5)
    assert {culprit.feature for culprit in incident.culprits} == {"a", "b"}
    assert set(incident.worst.to_fix) == {"a", "b"}
    assert " a read " in incident.sentence
    assert " b read " in incident.sentence
    # Shapley values put another one among the first two; one of the two alone would not clear the alarm
    blame = detector.explain(new[20:40]).values.mean(axis=0)
    assert set(np.argsort(-blame)[:2]) != {0, 1}
    assert not detector.fix(new.iloc[[incident.peak]], ["a"]).clears[0]
    assert detector.fix(new.iloc[[incident.peak]], ["a", "b"]).score_if_fixed[0] == pytest.approx(
        incident.worst.score_if_fixed
    )


@pytest.mark.parametrize(
    ("frequency", "when", "label"),
    [("1min", "at 00:00. ", "2024-02-01 00:00"), ("1D", "on 2024-02-01. ", "2024-02-01")],
)
def test_midnight_is_told_unless_rows_are_days(frequency, when, label):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 6)) + 0.2 * rng.normal(size=(300, 6))
    new = pd.DataFrame(X[:60].copy(), index=pd.date_range("2024-02-01", periods=60, freq=frequency))
    new.columns = list("abcdef")
    new.iloc[0, 2] += 8
    detector = PCADetector(2).fit(pd.DataFrame(X, columns=new.columns))
    assert detector.incidents(new)[0].sentence.startswith(f"c and e stood out first, {when}")
    report = detector.report(new).content
    assert report["incidents"][0]["sentence"].startswith(f"c and e stood out first, {when}")
    assert report["incidents"][0]["start"] == label


@pytest.mark.parametrize("seed", range(8))
def test_known_stretches_are_told_as_they_are(detector, plant, seed):
    """Random stretches in any order, overlapping or not: sentences and shares agree with scores."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(plant.normal[:300].copy(), columns=list(plant.feature_names))
    table.iloc[60:80, rng.choice(table.shape[1], 2, replace=False)] += (
        rng.normal(size=2) * 6 * np.asarray(table.std())[0]
    )
    begins = rng.permutation([5, 40, 58, 66, 150, 220])
    asked = [(int(begin), int(begin + rng.integers(0, 25))) for begin in begins]
    found = detector.incidents(table, stretches=asked)
    scores, limit = -detector.score_samples(table), detector.limit_
    assert [(incident.first, incident.last) for incident in found] == asked
    rows_told = 0
    for incident, (first, last) in zip(found, asked, strict=True):
        worst = scores[first : last + 1].max()
        assert incident.score == pytest.approx(worst)
        assert np.isnan(incident.explained) or 0 <= incident.explained <= 1
        if worst < limit:
            assert "above the limit" not in incident.sentence
        told = re.findall(r"[Ii]n row (\d+), (?:the error was )?([\d,.]+?) times the limit", incident.sentence)
        for row, times in told:  # of that row
            assert float(times.replace(",", "")) == pytest.approx(scores[int(row)] / limit, rel=0.01)
        rows_told += len(told)
    assert rows_told
