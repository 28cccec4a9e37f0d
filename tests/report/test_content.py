"""The report as data: its numbers are the library's, nothing flagged gets lost, files stay small, text stays text."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from report_cases import NAMES, NASTY, PLANT, content_of, nasty_report
from typer.testing import CliRunner

from culpa import PCADetector
from culpa._core.words import in_percent
from culpa.cli import app
from culpa.detecting.pieces import of_fitted
from culpa.report import page
from culpa.report.chart import marks
from culpa.report.size_limits import Caps


def normal():
    return pd.DataFrame(PLANT.normal.copy(), columns=NAMES)


def new(index=None):
    return pd.DataFrame(PLANT.new.copy(), columns=NAMES, index=index)


@pytest.fixture(scope="module")
def detector():
    return PCADetector(0.95, statistic="spe", limit="formula").fit(normal())


@pytest.fixture(scope="module")
def report(detector):
    return detector.report(new())


def many_rows(n, share=0.01, d=12, seed=0):
    """A detector and a large table with single spoiled cells all over it."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(3, d))
    rows = rng.normal(size=(n + 2000, 3)) @ W + 0.3 * rng.normal(size=(n + 2000, d))
    spoiled = 2000 + np.flatnonzero(rng.random(n) < share)
    rows[spoiled, rng.integers(0, d, len(spoiled))] += 5
    columns = [f"sensor_{i}" for i in range(d)]
    times = pd.date_range("2024-01-01", periods=n, freq="1s")
    return PCADetector(3).fit(pd.DataFrame(rows[:2000], columns=columns)), pd.DataFrame(
        rows[2000:], columns=columns, index=times
    )


# ---- numbers equal the library's ----


def test_details_equal_explain(detector, report):
    why = detector.explain(new())
    details = report.to_dict()["details"]
    assert details["base_value"] == why.base_value
    assert details["limit"] == detector.limit_
    for detail in details["rows"]:
        row, players = detail["row"], detail["player"]
        assert sorted(players) == list(range(12))
        assert np.abs(detail["value"]).tolist() == sorted(np.abs(detail["value"]), reverse=True)
        np.testing.assert_allclose(detail["value"], why.values[row, players], rtol=1e-9)
        np.testing.assert_allclose(detail["expected"], why.expected[row, players], rtol=1e-9)
        np.testing.assert_allclose(detail["score_if_fixed"], why.score_if_fixed[row, players], rtol=1e-8)
        np.testing.assert_allclose(detail["actual"], PLANT.new[row, players], rtol=1e-9)
        np.testing.assert_allclose(sum(detail["value"]) + details["base_value"], detail["score"], rtol=1e-9)


def test_incidents_and_chart_equal_the_detector(detector, report):
    content = report.to_dict()
    found = detector.incidents(new())
    assert [story["sentence"] for story in content["incidents"]] == [incident.sentence for incident in found]
    for story, incident in zip(content["incidents"], found, strict=True):
        assert (story["first"], story["last"], story["peak"]) == (incident.first, incident.last, incident.peak)
        assert story["score"] == incident.score
        assert story["p_value"] is None  # the limit is a formula
        blamed = story["onset"]["culprits"] or (story["worst"] or {"culprits": []})["culprits"]
        assert [content["players"][one["feature"]] for one in blamed] == [one.feature for one in incident.culprits]
    statistics = detector.statistics(new())
    for curve in content["chart"]["statistics"]:
        np.testing.assert_allclose(curve["value"], statistics[curve["name"]], rtol=1e-5)
    limits = {(line["name"], line["confidence"]): line["value"] for line in content["model"]["limits"]}
    for line in detector.control_limits().itertuples():
        assert limits[line.statistic, line.confidence] == pytest.approx(line.limit)
    assert content["chart"]["row"] == list(range(400))
    assert np.flatnonzero(content["chart"]["marks"]).tolist() == np.flatnonzero(detector.predict(new()) == -1).tolist()
    assert [name for name in content["overview"] if content["overview"][name] == 155] == ["flagged"]


def test_history_of_a_single_culprit_is_what_explain_expects(detector, report):
    why = detector.explain(new())
    single = 0
    for story in content_of(report).incidents:
        if story.history is None:
            assert not story.onset.culprits
            continue
        assert story.history.row[0] <= story.first <= story.last <= story.history.row[-1]
        assert {story.peak, story.onset.row} <= set(story.history.row)
        for series in story.history.series:
            np.testing.assert_allclose(series.actual, PLANT.new[story.history.row, series.feature], rtol=1e-4)
            if len(story.onset.culprits) == 1 and story.history.against == "others":
                single += 1
                np.testing.assert_allclose(series.expected, why.expected[story.history.row, series.feature], rtol=1e-4)
    assert single


def test_heat_map_has_the_shares_of_the_worst_rows(detector, report):
    heat = content_of(report).heatmap
    why = detector.explain(new())
    for column, incident in enumerate(heat.incidents):
        peak = content_of(report).incidents[incident].peak
        for line, name in zip(heat.share, heat.players, strict=True):
            share = why.values[peak, NAMES.index(name)] / why.score[peak]
            assert line[column] == pytest.approx(share, rel=1e-3, abs=1e-12)


def test_page_json_and_dict_say_the_same(report):
    embedded = re.search(r'<script type="application/json" id="content">(.*?)</script>', report.to_html(), re.DOTALL)
    assert json.loads(embedded[1]) == json.loads(report.to_json())
    assert json.loads(report.to_json()) == json.loads(json.dumps(report.to_dict()))


def test_sampled_values_have_error_bars():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 40)) + 0.3 * rng.normal(size=(300, 40))
    detector = PCADetector(3).fit(X)
    X[:3, 7] += 6
    content = content_of(detector.report(X[:20], n_orders=192))
    why = detector.explain(X[:20], n_orders=192)
    half = why.interval()[1] - why.values
    assert not content.details.exact
    for detail in content.details.rows:
        assert len(detail.player) == 21
        assert detail.player[-1] == "20 others"
        np.testing.assert_allclose(detail.error[:-1], half[detail.row, detail.player[:-1]], rtol=1e-6)
        assert min(detail.error[:-1]) > 0
        assert sum(detail.value) + content.details.base_value == pytest.approx(detail.score)


# ---- nothing flagged gets lost ----


@given(
    npst.arrays(np.float64, st.integers(1, 200), elements=st.floats(0, 10)),
    st.floats(0, 10),
    st.integers(1, 50),
)
def test_marks_stand_for_every_flagged_row(severity, limit, most):
    flagged = severity > limit
    rows, counts = marks(flagged, severity, most)
    assert counts.sum() == flagged.sum()
    assert flagged[rows].all()
    assert (np.diff(rows) > 0).all()
    if flagged.sum() <= most:
        assert rows.tolist() == np.flatnonzero(flagged).tolist()
    else:
        assert len(rows) <= most
    width = -(-len(flagged) // most) if flagged.sum() > most else 1
    for row in np.flatnonzero(flagged):  # everybody's mark is close by, and not for a lesser one
        near = rows[np.abs(rows - row) < width]
        assert (severity[near] >= severity[row]).any()


def check_everything_flagged_is_there(detector, X, content):
    caps = Caps.of(len(X))
    flags = detector.predict(X) == -1
    counts = np.array(content.chart.marks)
    assert counts.sum() == flags.sum() == content.overview.flagged
    rows = np.array(content.chart.row)
    if flags.sum() <= caps.marks:
        assert rows[counts > 0].tolist() == np.flatnonzero(flags).tolist()
    detailed = {detail.row for detail in content.details.rows}
    assert {row for story in content.incidents for row in (story.peak, story.onset.row)} <= detailed
    assert len(content.incidents) == min(caps.incidents, content.overview.incidents)
    own = content.chart.statistics[0].value
    assert max(value for value in own if value is not None) == pytest.approx(-detector.score_samples(X).min(), rel=1e-5)


@pytest.mark.parametrize(("share", "d"), [(0.01, 12), (0.15, 12), (0.15, 30)])
def test_ten_thousand_rows_stay_below_6_MB(share, d):
    detector, X = many_rows(10_000, share, d)
    report = detector.report(X)
    check_everything_flagged_is_there(detector, X, content_of(report))
    assert len(report.to_html().encode()) < 6e6
    if share > 0.1:
        assert len(content_of(report).incidents) == 250
        assert any("worst of" in note for note in content_of(report).overview.notes)


def test_long_names_do_not_count_many_times():
    detector, X = many_rows(10_000, 0.12, 30)
    columns = [f"{name} of {'the uppermost part of the plant ' * 7}" for name in X.columns]
    core = detector.fitted
    renamed = replace(core, model=replace(core.model, feature_names=tuple(columns)))
    report = of_fitted(renamed).report(
        pd.DataFrame(X.to_numpy(), columns=columns, index=[f"batch {'x' * 200} {i}" for i in range(10_000)])
    )
    assert len(report.to_html().encode()) < 6e6
    assert len(content_of(report).incidents) == 250


def test_a_long_table_stays_below_12_MB():
    detector, X = many_rows(250_000, 0.01, d=5)
    report = detector.report(X)
    check_everything_flagged_is_there(detector, X, content_of(report))
    assert len(report.to_html().encode()) < 12e6
    assert len(content_of(report).details.rows) >= 2000


# ---- what a detector with default settings shows ----


@pytest.fixture(scope="module")
def default():
    return PCADetector().fit(normal())


def test_charts_of_the_default_detector(default):
    content = content_of(default.report(new()))
    assert [(curve.name, curve.own) for curve in content.chart.statistics] == [
        ("following", True),
        ("spe", False),
        ("t2", False),
        ("mahalanobis", False),
    ]
    found = default.incidents(new())
    assert np.flatnonzero(content.chart.marks).tolist() == np.flatnonzero(found.course.flagged).tolist()
    own = content.chart.statistics[0]
    assert [value > own.alarm for value in own.value] == found.course.flagged.tolist()
    assert [(one.score, content.details.limit) for one in content.incidents] == [
        (pytest.approx(one.score, rel=1e-6), one.limit) for one in found
    ]
    assert content.details.title.startswith("Mahalanobis")


def test_false_alarms_on_held_out_rows_are_told(default, detector):
    rate = default.false_alarm_rate_
    content = content_of(default.report(new()))
    fact = next(fact for fact in content.overview.facts if fact.name == "False alarms")
    value, low, high = in_percent(rate)
    assert fact.value == f"{value}%"
    which = "held-out normal rows above the fixed limit of Mahalanobis distance²"  # incidents have one that follows
    assert fact.note == f"of {which}, 95% interval {low} to {high}%"
    settings = {fact.name: fact.value for fact in content.model.settings}
    assert settings["false alarms"].startswith(f"held-out rows: {fact.value} above the 99% limit, 95% interval")
    formula = content_of(detector.report(new()))
    assert "False alarms" not in [fact.name for fact in formula.overview.facts]
    settings = {fact.name: fact.value for fact in formula.model.settings}
    assert settings["false alarms"] == "not known, because the limit is a formula"


def test_the_likelihood_of_each_number_of_components_is_told(default, detector):
    report = default.report(new())
    curve = default.fitted.components.log_likelihood
    assert len(curve) == len(NAMES) - 1
    np.testing.assert_allclose(content_of(report).model.likelihood, curve - curve.max(), rtol=1e-5, atol=1e-9)
    assert content_of(report).model.likelihood[content_of(report).model.n_components - 1] == 0
    assert 'id="likelihood"' in report.to_html()
    plain = detector.report(new())
    assert content_of(plain).model.likelihood == []
    assert 'id="likelihood"' not in plain.to_html()


# ---- unusual tables ----


def verdict(detector, X, **options):
    report = detector.report(X, **options)
    assert page.to_page(content_of(report)).startswith("<!doctype html>")
    json.loads(report.to_json())
    return content_of(report).overview


def test_nothing_flagged(detector):
    overview = verdict(detector, new().iloc[:20])
    assert overview.verdict == "Nothing unusual: none of the 20 rows is above the 99% limit."
    assert (overview.mood, overview.flagged, overview.incidents) == ("calm", 0, 0)


def test_as_many_as_by_chance(detector):
    rows = normal().iloc[:600]
    overview = verdict(detector, rows)
    assert 0 < overview.flagged < 12
    assert overview.verdict.startswith("Hardly unusual")
    assert "about 6 would be flagged by chance alone" in overview.verdict


def test_everything_flagged(detector):
    overview = verdict(detector, new() + 100)
    assert overview.verdict.startswith("Every row is above the 99% limit")
    assert overview.mood == "alarm"


@pytest.mark.parametrize("row", [0, 60])
def test_one_row(detector, row):
    overview = verdict(detector, new().iloc[[row]])
    said = (
        "The row is above the 99% limit. In row 60, " if row else "Nothing unusual: the row is not above the 99% limit."
    )
    assert overview.verdict.startswith(said)


def test_missing_cells_and_empty_rows(detector):
    X = new()
    X.iloc[60, 6:] = np.nan
    X.iloc[61] = np.nan
    X.iloc[[0, -1]] = np.nan
    report = detector.report(X)
    assert content_of(report).overview.empty_rows == 3
    assert "3 rows without any observed feature: no score, not flagged." in content_of(report).overview.notes
    assert content_of(report).chart.statistics[0].value[61] is None
    detail = next(detail for detail in content_of(report).details.rows if detail.row == 60)
    assert detail.missing == list(range(6, 12))
    assert 61 not in {detail.row for detail in content_of(report).details.rows}
    why = detector.explain(X.iloc[[60]])
    np.testing.assert_allclose(detail.value, why.values[0, detail.player])


def test_only_empty_rows(detector):
    overview = verdict(detector, new().iloc[:3] * np.nan)
    assert (overview.empty_rows, overview.flagged, overview.mood) == (3, 0, "unsure")
    assert overview.verdict == "No verdict: none of the 3 rows has an observed feature."
    assert verdict(detector, new().iloc[:1] * np.nan).verdict == "No verdict: the row has no observed feature."


def test_rows_without_a_score_are_not_normal_ones(detector):
    X = new().iloc[:60]
    X.iloc[2:50] = np.nan
    assert (
        verdict(detector, X[:50]).verdict == "Nothing unusual: none of the 2 rows with a score is above the 99% limit."
    )
    assert verdict(detector, X[1:50]).verdict.startswith("Nothing unusual: the row with a score is not above the 99%")
    assert verdict(detector, X[49:]).verdict.startswith("Every row with a score is above the 99% limit")
    assert verdict(detector, X[1:]).verdict.startswith(
        "Most rows, 10 of 11 rows with a score (90.9%), are above the 99%"
    )


def test_groups(detector):
    groups = {"flows": NAMES[:4], "temperatures": NAMES[8:]}
    report = detector.report(new(), groups=groups)
    content = content_of(report)
    assert content.players == ["flows", *NAMES[4:8], "temperatures"]
    assert content.members[0] == [0, 1, 2, 3]
    why = detector.explain(new(), groups=groups)
    detail = next(detail for detail in content.details.rows if detail.row == 60)
    np.testing.assert_allclose(detail.value, why.values[60, detail.player])
    worst = detail.cells["0"][0]
    assert worst[0] == NAMES.index("flow_reflux")
    assert worst[1:] == pytest.approx((PLANT.new[60, 2], why.expected[60, 2]))


def test_groups_of_past_values():
    detector = PCADetector(lags=1).fit(normal())
    detector.units_ = {NAMES[2]: "m3/h"}
    groups = {"past": [f"{NAMES[0]} (t-1)", f"{NAMES[2]} (t-1)"]}
    content = content_of(detector.report(new(), groups=groups))
    why = detector.explain(new(), groups=groups)
    names = [feature.name for feature in content.features]
    at = names.index(f"{NAMES[2]} (t-1)")
    assert (content.players, names) == (list(why.player_names), list(why.feature_names))
    assert content.members == [list(members) for members in why.players]
    assert {feature.name for feature in content.features if feature.unit} == {NAMES[2], f"{NAMES[2]} (t-1)"}
    past = next(trend for trend in content.trends.features if trend.feature == at)
    np.testing.assert_allclose(np.array(past.low[1:], dtype=float), PLANT.new[:-1, 2], rtol=1e-5)
    for detail in content.details.rows:
        cells = np.array(detail.cells[str(content.players.index("past"))], dtype=float)
        np.testing.assert_allclose(cells[:, 1], why.data[detail.row, cells[:, 0].astype(int)])
        off = (
            np.abs(cells[:, 1] - cells[:, 2])
            / np.std(PLANT.normal, axis=0)[[NAMES.index(names[int(i)][:-6]) for i in cells[:, 0]]]
        )
        assert (np.diff(off) <= 1e-2).all()


@pytest.mark.parametrize("statistic", ["t2", "mse", "mahalanobis", "combined"])
def test_other_statistics(statistic):
    detector = PCADetector(statistic=statistic).fit(normal())
    content = content_of(detector.report(new()))
    assert content.chart.statistics[0].name == statistic
    assert {curve.name for curve in content.chart.statistics} == {"spe", "t2", statistic}
    assert content.overview.flagged == (detector.predict(new()) == -1).sum() > 0


def test_lags():
    detector = PCADetector(lags=1).fit(normal())
    content = content_of(detector.report(new()))
    assert content.players == NAMES
    why = detector.explain(new())
    for detail in content.details.rows:
        np.testing.assert_allclose(detail.value, why.values[detail.row, detail.player], rtol=1e-7, atol=1e-9)


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_names_that_only_the_new_rows_have():
    content = content_of(PCADetector().fit(PLANT.normal).report(new()))
    assert content.players == NAMES
    assert all("flow_" in story.sentence or "ure_" in story.sentence for story in content.incidents)


def test_almost_everything_is_not_everything():
    detector = PCADetector(statistic="mahalanobis", confidence=0.9997).fit(normal())
    report = detector.report(pd.concat([new() + 100, new().iloc[:1]], ignore_index=True))
    overview = content_of(report).overview
    assert overview.verdict.startswith("Most rows, 400 of 401 rows (99.75%), are above the 99.97% limit")
    assert "100%" not in overview.facts[1].note
    assert "<td>99.97%</td>" in report.to_html()


def test_times(detector):
    times = pd.date_range("2024-03-05 10:00", periods=400, freq="1min")
    chart = content_of(detector.report(new(times))).chart
    assert (chart.time, chart.axis, chart.x[61], chart.label) == (True, "time", "2024-03-05 11:01", None)
    named = new().assign(when=times)
    again = content_of(detector.report(named, time="when"))
    assert (again.chart.x, again.chart.axis) == (chart.x, "when")
    assert again.incidents[0].start == chart.x[again.incidents[0].first]
    zoned = content_of(detector.report(new(times.tz_localize("Europe/Paris")))).chart
    assert zoned.x == chart.x
    numbers = content_of(detector.report(new(), time=np.arange(400) * 0.5)).chart
    assert (numbers.time, numbers.x[3], numbers.word) == (False, 1.5, "time ")
    spans = content_of(detector.report(new(), time=pd.to_timedelta(np.arange(400), unit="min")))
    assert (spans.chart.label[61], spans.chart.word, spans.chart.axis) == ("01:01:00", "time ", "position in the table")


def test_labels(detector):
    names = [f"batch {i}" for i in range(400)]
    content = content_of(detector.report(new(names)))
    assert content.chart.x is None
    assert content.chart.label == names
    assert content.incidents[0].start == names[content.incidents[0].first]
    plain = content_of(detector.report(new())).chart
    assert (plain.x, plain.label) == (None, None)
    shuffled = content_of(detector.report(new().iloc[::-1]))
    assert shuffled.chart.x is None
    assert shuffled.chart.label[0] == 399
    arrays = content_of(PCADetector().fit(PLANT.normal).report(PLANT.new))
    assert arrays.players[3] == "x3"


# ---- text stays text ----


class Elements(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.handlers, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.handlers += [name for name, _ in attributes if name.startswith("on")]

    def handle_data(self, data):
        self.text.append(data)


def test_names_cannot_become_markup():
    report = nasty_report(title="<script>alert(0)</script>")
    html = report.to_html()
    parsed = Elements()
    parsed.feed(html)
    assert parsed.tags.count("script") == 3  # data, plotly, our own
    assert not {"img", "b", "u", "iframe"} & set(parsed.tags)
    assert parsed.tags.count("a") == 8  # of the page itself
    assert not parsed.handlers
    text = "".join(parsed.text)
    for name in NASTY:
        assert name in text
    data = html[html.index('id="content">') :].split(">", 1)[1].split("</script>")[0]
    assert not set("<>&\u2028\u2029") & set(data)
    assert json.loads(data)["players"][: len(NASTY)] == list(NASTY)


def test_page_names_its_scripts_and_nothing_else(report):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', report.to_html())[1]
    assert policy.startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    script = policy.split(";")[2]
    assert "unsafe" not in policy.split("style-src")[0], script


# ---- files and the command line ----


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def folder(tmp_path, detector):
    detector.save(tmp_path / "plant.culpa")
    times = pd.date_range("2024-03-05 10:00", periods=400, freq="1min")
    new().assign(when=times, batch=[f"b{i}" for i in range(400)]).to_csv(tmp_path / "new.csv", index=False)
    return tmp_path


def test_save_is_all_or_nothing(report, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    assert report.save(path) == path
    before = path.read_bytes()
    monkeypatch.setattr(page, "_asset", lambda name: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert json.loads(report.save(tmp_path / "report.json").read_text()) == json.loads(report.to_json())
    with pytest.raises(ValueError, match="already exists"):
        report.save(path, force=False)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_a_report_is_not_written_into_a_file_of_another_format(report, folder):
    for name in ("out.pdf", "out.docx", "out.csv"):
        with pytest.raises(ValueError, match=r"must be \.html or \.json, got '\.(pdf|docx|csv)'"):
            report.save(folder / name)
    result = run("report", folder / "new.csv", "-m", folder / "plant.culpa", "-o", folder / "out.PDF", code=2)
    assert "the file extension must be .html or .json, got '.pdf'" in result.stderr
    assert not list(folder.glob("out.*"))
    for name in ("a.htm", "b"):
        assert report.save(folder / name).read_text().startswith("<!doctype html>")
    assert json.loads(report.save(folder / "c.txt", json=True).read_text())


def without_time_of_making(text):
    content = json.loads(text)
    assert content.pop("created").endswith("UTC")
    return content


def test_command_line(folder, detector):
    result = run("report", folder / "new.csv", "-m", folder / "plant.culpa", "--time", "when", "-o", folder / "r.html")
    assert "400 rows, 155 flagged, 7 incidents; wrote" in result.stderr
    html = (folder / "r.html").read_text()
    embedded = re.search(r'id="content">(.*?)</script>', html, re.DOTALL)[1]
    printed = run("report", folder / "new.csv", "-m", folder / "plant.culpa", "--time", "when", "--json", "-q").stdout
    assert without_time_of_making(embedded) == without_time_of_making(printed)
    times = pd.date_range("2024-03-05 10:00", periods=400, freq="1min", name="when")
    library = detector.report(new(times), source=str(folder / "new.csv"))
    ours, theirs = without_time_of_making(printed), without_time_of_making(library.to_json())
    assert ours["incidents"] == theirs["incidents"]
    assert ours["chart"] == theirs["chart"]
    both = run(
        "report", folder / "new.csv", "-m", folder / "plant.culpa", "--time", "when", "--id", "when", "--json", "-q"
    ).stdout
    assert without_time_of_making(both) == ours
    labelled = run("report", folder / "new.csv", "-m", folder / "plant.culpa", "--id", "batch", "--json", "-q").stdout
    assert json.loads(labelled)["chart"]["label"][3] == "b3"


@pytest.mark.parametrize("table", [normal(), PLANT.normal])
def test_command_line_with_lags(folder, table):
    detector = PCADetector(lags=2).fit(table)
    detector.save(folder / "lags.culpa")
    rows = new() if isinstance(table, pd.DataFrame) else new().set_axis([f"x{i}" for i in range(12)], axis=1)
    rows.to_csv(folder / "rows.csv", index=False)
    printed = run("report", folder / "rows.csv", "-m", folder / "lags.culpa", "--json", "-q").stdout
    library = detector.report(rows if isinstance(table, pd.DataFrame) else PLANT.new).to_json()
    assert without_time_of_making(printed)["incidents"] == without_time_of_making(library)["incidents"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{}/new.csv", "-m", "{}/plant.culpa", "--time", "wehn"], "there is no column 'wehn'; did you mean 'when'?"),
        (["{}/new.csv", "-m", "{}/plant.culpa", "--time", "batch"], "which is not a time"),
        (["{}/new.csv", "-m", "{}/plant.culpa", "--gap", "5min", "--time", "none"], "so the rows need"),
        (["{}/new.csv", "-m", "{}/plant.culpa", "-o", "{}/there.html"], "already exists"),
        (["{}/new.csv", "-m", "{}/plant.culpa", "-o", "{}/no/r.html"], "does not exist"),
        (["{}/none.csv", "-m", "{}/plant.culpa"], "No such file"),
        (["{}/empty.csv", "-m", "{}/plant.culpa"], "there are no rows to report on"),
        (["{}/new.csv", "-m", "{}/new.csv"], "not a culpa model file"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing(folder, monkeypatch, arguments, message):
    monkeypatch.chdir(folder)
    (folder / "there.html").write_text("mine")
    (folder / "empty.csv").write_text(",".join(NAMES) + "\n")
    before = sorted(entry.name for entry in folder.iterdir())
    result = run("report", *[argument.format(folder) for argument in arguments], code=2)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert sorted(entry.name for entry in folder.iterdir()) == before
    assert (folder / "there.html").read_text() == "mine"


def test_fail_on_anomaly_and_default_name(folder, monkeypatch):
    monkeypatch.chdir(folder)
    run("report", "new.csv", "-m", "plant.culpa", "--fail-on-anomaly", code=3)
    assert (folder / "report.html").stat().st_size > 4e6
    run("report", "new.csv", "-m", "plant.culpa")  # replaces a report, and nothing else
    (folder / "report.html").write_text("mine")
    assert "already exists" in run("report", "new.csv", "-m", "plant.culpa", code=2).stderr
    run("report", "new.csv", "-m", "plant.culpa", "--force")
