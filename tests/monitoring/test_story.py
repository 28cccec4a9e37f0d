"""No sentence contradicts its table: every number in it is a number of the incident, as JSON has it."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culpa import PCADetector
from culpa.monitoring.digits import compared

NUMBER = r"[-+]?[\d,]*\.?\d+(?:e[-+]\d+)?"


def simulated(seed, d, n_faults, size, lasting, length):
    """A detector, and rows with faults of a size in some features, in one row or lasting."""
    rng = np.random.default_rng(seed)
    p = max(1, d // 3)
    mix = rng.normal(size=(p, d))
    scale, centre = 10.0 ** rng.uniform(-3, 4, d), 10.0 ** rng.uniform(-2, 3, d)
    rows = lambda n: (rng.normal(size=(n, p)) @ mix + 0.5 * rng.normal(size=(n, d))) * scale + centre  # noqa: E731
    names = [f"tag_{chr(97 + k)}" for k in range(d)]
    detector = PCADetector(p, limit="formula").fit(pd.DataFrame(rows(300), columns=names))
    new = rows(60)
    at = slice(20, 20 + (length if lasting else 1))
    blamed = rng.permutation(d)[:n_faults]
    new[at, blamed] += size * scale[blamed] * rng.choice([-1, 1], n_faults)
    index = pd.date_range("2024-05-01 08:00", periods=60, freq="7min")
    return detector, pd.DataFrame(new, columns=names, index=index)


cases = st.builds(
    simulated,
    seed=st.integers(0, 10**6),
    d=st.integers(4, 12),
    n_faults=st.integers(1, 4),
    size=st.sampled_from([1.0, 3.0, 8.0, 1000.0]),
    lasting=st.booleans(),
    length=st.integers(2, 30),
)


@given(case=cases)
@settings(max_examples=60, deadline=None)
def test_every_number_in_a_sentence_is_one_of_the_incident(case):
    detector, new = case
    found = detector.incidents(new, gap=2)
    for incident in json.loads(found.to_json())["incidents"]:
        left = without_times(incident["sentence"])
        onset = incident["onset"]
        told = re.findall(
            rf"(tag_\w) read ({NUMBER}) where (?:the other features|they) imply ({NUMBER}) ± ({NUMBER})", left
        )
        short = rf"(tag_\w) [\w ]+, [\w ]+, and (?:[\w ]+ )?read ({NUMBER}) where"
        told += re.findall(rf"{short} the other features imply ({NUMBER}) ± ({NUMBER})", left)
        told += re.findall(rf"{short} ({NUMBER}) ± ({NUMBER}) is normal", left)
        told += re.findall(rf"(tag_\w) read ({NUMBER}) where ({NUMBER}) ± ({NUMBER}) is normal", left)
        later, known = [], [culprit["feature"] for culprit in onset["culprits"]]
        if " By then, " in left:
            later = [one for one in incident["worst"]["culprits"] if one["feature"] not in known]
        culprits = onset["culprits"] + later
        told = sorted(told, key=lambda one: left.index(f"{one[1]} where"))
        assert [name for name, *_ in told] == [culprit["feature"] for culprit in culprits]
        for (_, actual, expected, sd), culprit in zip(told, culprits, strict=True):
            numbers = (culprit[name] for name in ("actual", "expected", "expected_sd", "decimals"))
            assert (actual, f"{expected} ± {sd}") == compared(*numbers)
            assert float(sd) == pytest.approx(culprit["expected_sd"], rel=0.05)
            # who computes the deviation from the sentence finds that of the sentence, but for rounding
            computed, size = (float(actual) - float(expected)) / float(sd), culprit["deviation"]
            assert computed == pytest.approx(size, rel=0.06 if abs(size) <= 1000 else 0.5, abs=0.15)
        deviations = re.findall(rf"\((more than )?({NUMBER}) sd", left)
        for (more, text), culprit in zip(deviations, culprits, strict=True):
            size = abs(culprit["deviation"])
            assert size > 1000 if more else float(text) == pytest.approx(size, abs=0.51 if size > 10 else 0.051)
            assert size >= 2
        for share in re.findall(r"account(?:s)? for (\d+)%", left):
            total = sum(culprit["share"] for culprit in onset["culprits"])
            assert int(share) == pytest.approx(100 * total, abs=0.51)
            assert total >= 0.5
        for n, of in re.findall(r"when (\d+) of (\d+) features", left):
            assert (int(n), int(of)) == (incident["worst"]["n_outside"], new.shape[1])
        for was, times in re.findall(rf"(was|worst [^,]*,) ({NUMBER}) times the limit", left):
            score = onset["score"] if was == "was" else incident["score"]
            assert float(times.replace(",", "")) == pytest.approx(score / incident["limit"], rel=0.006)
            assert float(times.replace(",", "")) >= 1.05
        if incident["extent"] == "upset":
            assert " the limit" in left
        for more in re.findall(r"Later also off: .* and (\d+) more\.", left):
            later = [one for one in incident["spread"] if one["row"] > onset["row"]]
            assert int(more) <= len(later)
        known = (
            r"predict only|flagged last|more have|read|imply|±|sd|for \d+%|when \d+ of|was .* times|and \d+ more|where"
        )
        assert all(re.search(known, part) for part in re.split(r"(?<=[.)])\s", left) if re.search(r"\d", part)), left


def without_times(sentence):
    assert not re.search(r"\bnan\b|\binf\b", sentence)
    return re.sub(r"(on )?\d{4}-\d\d-\d\d|\d\d:\d\d", "", sentence)


@given(case=cases)
@settings(max_examples=30, deadline=None)
def test_numbers_are_those_of_the_rows(case):
    """What JSON says of a culprit is what the table has, and what fixing all culprits jointly gives."""
    detector, new = case
    for incident in detector.incidents(new, gap=2):
        for moment in (incident.onset, incident.worst):
            joint = [culprit for culprit in moment.culprits if culprit.against == "others"]
            if joint:
                fix = detector.fix(new.iloc[[moment.row]], [culprit.feature for culprit in joint])
                assert [c.expected for c in joint] == pytest.approx(fix.expected[0].tolist(), rel=1e-6, abs=1e-9)
            for culprit in moment.culprits:
                assert culprit.actual == new.iloc[moment.row][culprit.feature]
                if culprit.against == "normal":
                    assert culprit.expected == pytest.approx(detector.mean_[new.columns.get_loc(culprit.feature)])
        times = list(new.index)
        assert [one.label for one in incident.spread] == [times[one.row] for one in incident.spread]
        assert [stage.start for stage in incident.timeline] == [times[stage.first] for stage in incident.timeline]
        assert sum(stage.n_flagged for stage in incident.timeline) == incident.n_flagged


def upset(n_rows, times):
    """A detector, and rows of which the last ones have moved with all their features, to so many times the limit."""
    rng = np.random.default_rng(3)
    mix = rng.normal(size=(3, 12))
    normal = rng.normal(size=(600, 3)) @ mix + 0.5 * rng.normal(size=(600, 12))
    detector = PCADetector(3, statistic="mahalanobis", limit="formula").fit(normal)
    step = np.array([[1.0, -1.0, 1.0]]) @ mix
    size = np.sqrt(times * detector.limit_ / -detector.score_samples(normal.mean(axis=0) + step)[0])
    new = np.tile(normal.mean(axis=0), (n_rows + 5, 1))
    new[5:] += size * step
    return detector, new


@pytest.mark.parametrize(
    ("n_rows", "times", "told"),
    [
        (3, 1.3, "they are few and not far off. It was worst in row 5, 1.3 times the limit"),
        (1, 1.03, "The distance was just above the limit."),
        (1, 8, "The distance was 8 times the limit."),
        (12, 1.3, " and x4 moved early, beginning in row 5. In row 5, x"),
        (12, 1.3, "The process moved: the features are far from normal and agree with each other."),
    ],
)
def test_an_upset_is_told_as_strongly_as_its_rows_show(n_rows, times, told):
    detector, new = upset(n_rows, times)
    (incident,) = detector.incidents(np.concatenate([new, new[:1]]), gap=0)
    assert incident.extent == "upset"
    assert told in incident.sentence
    assert ("process moved" in incident.sentence.lower()) == (incident.kind == "process")


def test_a_stuck_sensor_reads_the_same_in_every_sentence():
    """Whatever is expected of it, and whether or not other features are blamed beside it."""
    rng = np.random.default_rng(0)
    latent, mix = rng.normal(size=(900, 2)), rng.normal(size=(2, 6))
    rows = (latent @ mix + 0.4 * rng.normal(size=(900, 6))) * 2.05 + 140
    detector = PCADetector(2).fit(rows[:500])
    new = rows[500:].copy()
    new[:, 4] = 147.7812
    new[::7, 1] += 5
    new[::11] += 7 * rng.choice([-1, 1], 6) * (np.arange(6) != 4)
    found = detector.incidents(new, gap=0)
    told = re.findall(
        rf"x4 read ({NUMBER}) where (?:the other features imply |they imply |)({NUMBER}) ± ({NUMBER})", str(found)
    )
    assert {len(sd.partition(".")[2]) for *_, sd in told} == {1, 2}  # both below and above one unit
    assert {actual for actual, *_ in told} == {"147.78"}
    assert all(len(expected.partition(".")[2]) == len(sd.partition(".")[2]) for _, expected, sd in told)
    page = "".join(incident._repr_html_() for incident in found)
    assert ">147.78<" in page
    assert ">147.8<" not in page


def test_a_feature_may_be_called_like_a_word_of_the_sentence():
    """Its numbers are told all the same."""
    rng = np.random.default_rng(0)
    detector = PCADetector().fit(pd.DataFrame(rng.normal(size=(500, 4)), columns=["read", "b", "c", "d"]))
    new = pd.DataFrame(rng.normal(size=(40, 4)), columns=["read", "b", "c", "d"])
    new.loc[10:30, ["read", "b"]] += 12
    (incident,) = detector.incidents(new)
    assert re.search(r"read read 1[\d.]+ where", incident.sentence)


def test_a_reading_that_stands_still_far_outside_is_not_said_to_be_at_the_end_of_its_range():
    rng = np.random.default_rng(0)
    detector = PCADetector().fit(rng.normal(size=(500, 4)))
    new = rng.normal(size=(60, 4))
    new[20:50, 1] = -50
    (told,) = [one.sentence for one in detector.incidents(new) if one.kind == "limit"]
    assert told.startswith("x1 stood still at or beyond an end of its normal range in row 20: it reads -50,")
