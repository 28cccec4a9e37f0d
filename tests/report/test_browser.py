"""The report in a real browser: offline, by mouse and keyboard, narrow, on paper, dark, with hostile names."""

import os
import re
import shutil
import time
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from report_cases import NAMES, NASTY, PLANT, content_of, nasty_report

from culpa import Explanation, PCADetector
from culpa._core.words import ordinal
from culpa.report import Report, size_limits

CHROMIUM = os.environ.get("CULPA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
if CHROMIUM is None:
    pytest.skip("chromium is not installed", allow_module_level=True)

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
DOUBLE_CLICK = 350  # ms; two clicks within plotly's 300 are one double click, which opens no row


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, headless=True, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reports")


class Case(NamedTuple):
    path: Path
    report: Report
    new: pd.DataFrame
    flagged: np.ndarray
    why: Explanation

    def label(self, row):
        return self.new.index[row].strftime("%Y-%m-%d %H:%M")


def by_error(**options):
    """A detector whose flags do not depend on what the defaults are."""
    return PCADetector(0.95, statistic="spe", limit="formula", **options)


@pytest.fixture(scope="module")
def plant(folder):
    """A report on the plant in time, with a missing cell and an empty row."""
    new = pd.DataFrame(
        PLANT.new.copy(), columns=NAMES, index=pd.date_range("2024-03-05 08:00", periods=400, freq="1min")
    )
    new.iloc[20] = np.nan
    new.iloc[60, 3] = np.nan
    detector = by_error().fit(pd.DataFrame(PLANT.normal, columns=NAMES))
    report = detector.report(new, min_length=1)  # stretches of flagged rows: a long list
    with pytest.warns(UserWarning, match="no observed feature"):
        flagged, why = np.flatnonzero(detector.predict(new) == -1), detector.explain(new)
    return Case(report.save(folder / "plant.html"), report, new, flagged, why)


@pytest.fixture
def visit(browser):
    """Open a file with the network off; afterwards nothing may have gone wrong."""
    contexts, complaints = [], []

    def open_page(path, **options):
        context = browser.new_context(offline=True, viewport={"width": 1280, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: complaints.append(request.url) if request.url != path.as_uri() else None)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def seen(page, selector):
    """Texts of the visible elements, one each."""
    return page.locator(selector).evaluate_all(
        "nodes => nodes.filter(n => n.getClientRects().length).map(n => n.textContent)"
    )


def worst_of(report):
    return max(content_of(report).incidents, key=lambda story: story.score)


def wait_until(page, condition, seconds=15):
    """Wait for the effect of an action, which takes longer on a busy machine."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing has changed"
        page.wait_for_timeout(20)


def fits(page):
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def click_mark(page, number):
    """Click a flagged point of the first chart."""
    page.wait_for_timeout(DOUBLE_CLICK)
    marks = page.locator("#chart .scatterlayer .trace").nth(1).locator("path.point")
    page.locator("#charts").scroll_into_view_if_needed()
    box = marks.nth(number).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def colours(page):
    """Of the page and of a chart's text; in one go, since a chart that is drawn anew takes its old texts away."""
    return tuple(
        page.evaluate(
            "[getComputedStyle(document.body).backgroundColor, "
            "getComputedStyle(document.querySelector('#chart .ytick text')).fill]"
        )
    )


def shown_cells(page):
    """The visible table of the details: feature -> (actual, expected, blame) with all digits."""
    lines = page.locator(".cells tbody tr").evaluate_all(
        "rows => rows.map(r => [r.cells[0].textContent, ...[...r.querySelectorAll('data')].slice(0, 3).map(d => d.value)])"
    )
    return {name: [float(text) for text in numbers] for name, *numbers in lines}


def test_opens_offline_with_everything_in_place(visit, plant):
    report = plant.report
    page = visit(plant.path)
    assert page.title() == "Whose fault is it?"
    assert page.locator("#verdict").inner_text() == content_of(report).overview.verdict
    assert seen(page, "main h2")[:3] == ["Overview", "Control charts", "Incidents"]
    assert page.locator(".incidents tbody tr").count() == len(content_of(report).incidents) == 18
    for plot in ("chart", "waterfall", "blame", "history", "trend", "heatmap", "variance", "loadings"):
        assert page.locator(f"#{plot} .main-svg").first.is_visible(), plot
    assert (
        page.locator("#chart .scatterlayer .trace").nth(1).locator("path.point").count()
        == content_of(report).overview.flagged
    )
    worst = max(content_of(report).incidents, key=lambda story: story.score)
    assert page.locator("#details-sentence").inner_text() == worst.sentence  # the worst is open at the start


def test_the_default_detector_shows_how_many_components_are_likely(visit, folder):
    detector = PCADetector().fit(pd.DataFrame(PLANT.normal, columns=NAMES))
    page = visit(detector.report(pd.DataFrame(PLANT.new.copy(), columns=NAMES)).save(folder / "default.html"))
    assert page.locator("#likelihood .main-svg").first.is_visible()
    lines = page.locator("#likelihood .scatterlayer .trace")
    assert lines.nth(0).locator("path.point").count() == len(NAMES) - 1
    assert lines.nth(1).locator("path.point").count() == 1  # the chosen number
    assert (
        f"The model has {detector.model_.n_components_}, the most likely number" in page.locator("#model").inner_text()
    )
    assert "held-out rows:" in page.locator("#model").inner_text()


def test_click_on_a_point_opens_its_waterfall(visit, plant):
    new, why = plant.new, plant.why
    page = visit(plant.path)
    gaps = np.diff(plant.flagged, prepend=-9, append=999)
    alone = np.flatnonzero((gaps[:-1] > 4) & (gaps[1:] > 4))  # marks that no other mark covers
    for number in alone[[0, -1]].tolist():
        click_mark(page, number)
        row = int(plant.flagged[number])
        assert f"score of {plant.label(row)}" in seen(page, "#waterfall .ytick text")
        assert seen(page, "#waterfall .ytick text")[0] == "base value"  # not the mean of normal rows in every game
        cells = shown_cells(page)
        for name, numbers in cells.items():
            i = NAMES.index(name)
            np.testing.assert_allclose(numbers, [new.iloc[row, i], why.expected[row, i], why.values[row, i]], rtol=1e-9)
        texts = seen(page, "#waterfall .bartext")
        assert len(texts) == len(cells) + 2
        assert float(texts[-1]) == pytest.approx(why.score[row], rel=1e-4)


def test_rows_above_a_limit_that_does_not_flag_have_hollow_marks(visit, plant):
    page = visit(plant.path)
    curve = content_of(plant.report).chart.statistics[1]
    assert (curve.name, curve.own) == ("t2", False)
    row, value = np.array(content_of(plant.report).chart.row), np.array(curve.value, dtype=float)
    expected = np.setdiff1d(row[value > curve.alarm], plant.flagged)
    marks = page.locator("#chart .scatterlayer .trace")
    assert marks.count() == 5  # two lines, two sets of flagged rows, and these
    assert marks.nth(4).locator("path.point").count() == len(expected) > 3


def test_missing_cells_are_named(visit, plant):
    page = visit(plant.path)
    click_mark(page, int(np.flatnonzero(plant.flagged == 60)[0]))
    assert "Missing in this row, so not to blame: flow_steam." in page.locator("#cells-hint").inner_text()
    assert "flow_steam" not in shown_cells(page)


def test_sampled_rows_say_so_and_exact_ones_do_not(visit, plant, folder):
    detector = by_error().fit(pd.DataFrame(PLANT.normal, columns=NAMES))
    new = plant.new.iloc[55:75]  # row 60 lacks a cell, so it has one player less, and that decides
    page = visit(detector.report(new, exact_operations=38 * 2.0**11, n_orders=96).save(folder / "both.html"))
    flagged = np.flatnonzero(detector.predict(new) == -1)
    for row, sampled in ((5, False), (int(flagged[-1]), True)):
        click_mark(page, int(np.flatnonzero(flagged == row)[0]))
        assert ("blame was sampled" in page.locator("#cells-hint").inner_text()) == sampled


def test_zoom_and_logarithm(visit, plant):
    page = visit(plant.path)
    before = seen(page, "#chart .xtick text")
    box = page.locator("#chart .nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 42, steps=5)
    page.mouse.up()
    wait_until(page, lambda: seen(page, "#chart .xtick text") != before)
    starts = sorted(text[:5] for text in before)

    def zoomed_out():  # on a busy machine, two clicks may be too far apart to count as one double click
        page.mouse.dblclick(box["x"] + 300, box["y"] + 60)
        page.wait_for_timeout(500)
        return sorted(text[:5] for text in seen(page, "#chart .xtick text")) == starts

    wait_until(page, zoomed_out)
    was = seen(page, "#chart .ytick text")
    page.locator("#log").click()
    wait_until(page, lambda: seen(page, "#chart .ytick text") != was)


def test_sorting(visit, plant):
    report = plant.report
    page = visit(plant.path)
    stories = content_of(report).incidents

    def order():
        return [
            int(text)
            for text in page.locator(".incidents tbody tr").evaluate_all("rows => rows.map(r => r.dataset.incident)")
        ]

    def head(name):
        return page.locator(".incidents th", has_text=name)

    falling = sorted(range(len(stories)), key=lambda i: -stories[i].score)
    assert order() == falling
    assert head("Score").get_attribute("aria-sort") == "descending"
    head("Score").get_by_role("button").click()
    assert order() == falling[::-1]
    assert head("Score").get_attribute("aria-sort") == "ascending"
    head("When").get_by_role("button").click()
    assert order() == list(range(len(stories)))
    head("Rows").get_by_role("button").click()
    counts = [stories[i].n_flagged for i in order()]
    assert counts == sorted(counts, reverse=True)
    head("Culprit").get_by_role("button").click()
    players = content_of(report).players

    def culprit(i):
        story = stories[i]
        blamed = story.onset.culprits or (story.worst.culprits if story.worst else [])
        return players[blamed[0].feature] if blamed else ""

    culprits = [culprit(i) for i in order()]
    assert culprits == sorted(culprits)


def test_keyboard_alone(visit, plant):
    report, flagged = plant.report, plant.flagged
    page = visit(plant.path)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(60):  # Tab leads to the charts, ...
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "chart":
            break
    assert page.evaluate("document.activeElement.id") == "chart"
    worst = max(content_of(report).incidents, key=lambda story: story.score)
    page.keyboard.press("ArrowLeft")
    before = flagged[np.flatnonzero(flagged == worst.onset.row)[0] - 1]
    assert f"score of {plant.label(before)}" in seen(page, "#waterfall .ytick text")
    for _ in range(60):  # ... and on to the incidents, of which only one is a stop
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "open":
            break
    sentences = [story.sentence for story in sorted(content_of(report).incidents, key=lambda story: -story.score)]
    assert page.evaluate("document.activeElement.closest('tr').rowIndex") == 1
    for key, place in (("Enter", 0), ("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("End", 17), ("Home", 0)):
        page.keyboard.press(key)
        assert page.locator("#details-sentence").inner_text() == sentences[place], key
        assert page.evaluate("document.activeElement.closest('tr').getAttribute('aria-current')") == "true"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.incidents')") is None


def test_histories_and_heat_map_lead_on(visit, plant):
    report = plant.report
    page = visit(plant.path)
    names = [NAMES[series.feature] for series in worst_of(report).history.series]
    assert len(names) > 1
    assert page.locator("#history-title").inner_text() == f"History of {names[0]}"
    page.locator("#history-choices button", has_text=names[1]).click()
    assert page.locator("#history-title").inner_text() == f"History of {names[1]}"
    page.locator("#heatmap").scroll_into_view_if_needed()
    box = page.locator("#heatmap .nsewdrag").bounding_box()
    page.mouse.click(box["x"] + 5, box["y"] + 5)
    first = content_of(report).incidents[content_of(report).heatmap.incidents[0]]
    assert page.locator("#details-sentence").inner_text() == first.sentence


def test_rows_without_details_say_so(visit, folder):
    new = pd.DataFrame(np.tile(PLANT.new[:40], (30, 1)), columns=NAMES)
    detector = by_error().fit(pd.DataFrame(PLANT.normal, columns=NAMES))
    report = detector.report(new)
    detailed = {detail.row for detail in content_of(report).details.rows}
    bare = next(row for row in range(len(new)) if row not in detailed)
    page = visit(report.save(folder / "calm.html"))
    mark = page.locator("#chart .scatterlayer .trace").first.locator("path.point").nth(bare)
    mark.scroll_into_view_if_needed()  # a mouse clicks only what can be seen
    point = mark.bounding_box()
    page.mouse.click(point["x"] + 2, point["y"] + 2)
    assert "No details are kept for this row" in page.locator("#details-sentence").inner_text()
    assert page.locator("#row-part").is_hidden()


def few_details(monkeypatch, cells=480):
    """Room for the details of fewer rows than are flagged."""
    monkeypatch.setattr(size_limits, "_SMALL", size_limits._SMALL._replace(cells=cells))


def test_a_flagged_row_without_details_shows_the_nearest_that_has(visit, folder, plant, monkeypatch):
    few_details(monkeypatch)
    report = by_error().fit(pd.DataFrame(PLANT.normal, columns=NAMES)).report(plant.new)
    content = content_of(report)
    assert content.details.spacing > 1
    detailed = np.array([detail.row for detail in content.details.rows])
    page = visit(report.save(folder / "few.html"))
    longest = max(content.incidents, key=lambda story: story.last - story.first)
    inside = detailed[(detailed >= longest.first) & (detailed <= longest.last)]
    away = [(np.abs(inside - row).min(), row) for row in plant.flagged.tolist() if longest.first <= row <= longest.last]
    row = max(away)[1]
    assert row not in detailed
    click_mark(page, int(np.flatnonzero(plant.flagged == row)[0]))
    said = re.fullmatch(r"(.*) has no details; showing (.*), the nearest that has\.", seen(page, "#row-note")[0])
    clicked, shown = (plant.new.index.get_loc(label) for label in said.groups())
    assert abs(clicked - row) <= 2  # a neighbour may lie under the pointer
    assert shown in inside
    assert abs(shown - clicked) == np.abs(inside - clicked).min() > 0
    assert f"score of {plant.label(shown)}" in seen(page, "#waterfall .ytick text")
    assert page.locator("#details-sentence").inner_text() == longest.sentence
    assert f"every {ordinal(content.details.spacing)} flagged row" in page.locator("#row-hint").inner_text()
    page.locator("#row-choices button", has_text="Onset").click()
    assert page.locator("#row-note").is_hidden()
    assert f"score of {plant.label(longest.onset.row)}" in seen(page, "#waterfall .ytick text")


@pytest.mark.parametrize("width", [420, 1280])
def test_the_page_scrolls_to_what_was_clicked(visit, plant, width):
    page = visit(plant.path)
    page.set_viewport_size({"width": width, "height": 800})
    page.reload()
    page.wait_for_selector("html[data-ready]")
    click_mark(page, 3)
    page.wait_for_timeout(2 * DOUBLE_CLICK)
    top = page.locator("#row-part").evaluate("node => node.getBoundingClientRect().top")
    assert page.locator("nav").evaluate("node => node.getBoundingClientRect().bottom") <= top < 400
    page.locator(".incidents tbody tr").nth(1).scroll_into_view_if_needed()
    page.locator(".incidents tbody tr").nth(1).click()
    assert 0 <= page.locator("#details-title").evaluate("node => node.getBoundingClientRect().top") < 400


def test_rows_of_an_incident_one_after_the_other(visit, plant):
    page = visit(plant.path)
    story = worst_of(plant.report)
    rows = [detail.row for detail in content_of(plant.report).details.rows if story.first <= detail.row <= story.last]

    def shown():
        return page.locator("#row-title").inner_text().removeprefix("Row by row: ")

    assert shown() == plant.label(story.onset.row)
    page.locator("#row-choices button", has_text="Worst").click()
    assert shown() == plant.label(story.peak)
    page.locator("#row-choices button", has_text="Earlier").click()
    assert shown() == plant.label(rows[rows.index(story.peak) - 1])
    page.locator("#blame").scroll_into_view_if_needed()
    box = page.locator("#blame .nsewdrag").bounding_box()
    page.mouse.click(box["x"] + 3, box["y"] + 5)  # the first part of the incident
    first = story.timeline[0]
    assert plant.label(first.first) <= shown() <= plant.label(first.last)


def test_culprits_are_shown_with_the_numbers_of_the_sentence(visit, plant):
    page = visit(plant.path)
    story = next(s for s in content_of(plant.report).incidents if len(s.onset.culprits) > 1)
    line = page.locator(f'.incidents tr[data-incident="{content_of(plant.report).incidents.index(story)}"]')
    line.scroll_into_view_if_needed()
    line.click()
    cells = page.locator("#onset .culprits tbody tr:not(.remark)").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )
    assert len(cells) == len(story.onset.culprits)
    for (name, _, actual, expected, off, against), told in zip(cells, story.onset.culprits, strict=True):
        assert name == NAMES[told.feature]
        assert expected.startswith(told.shown[1])
        assert ("never seen in training" in expected) == (not told.expected_was_seen)
        assert (actual, off, against) == (told.shown[0], told.shown[2], "other features")
        assert f"{name} read {actual} where" in story.sentence
    text = page.locator("#onset").inner_text()
    assert f"imply for these {len(cells)} jointly" in text
    assert "cleared the alarm" in text
    for told in story.onset.culprits:
        for other in told.disagrees_with:
            assert f"{NAMES[other.feature]} (which alone implies {other.shown})" in text


def test_p_values_are_shown(visit, folder):
    detector = PCADetector(statistic="spe").fit(pd.DataFrame(PLANT.normal, columns=NAMES))
    page = visit(detector.report(pd.DataFrame(PLANT.new.copy(), columns=NAMES)).save(folder / "p.html"))
    said = "p-value 0.001, the least that 1,000 held-out normal rows can show."
    assert page.locator("#details-facts").inner_text().endswith(said)


def test_any_feature_has_a_trend(visit, plant):
    page = visit(plant.path)
    first = worst_of(plant.report).onset.culprits[0].feature
    assert page.locator("#trend-feature").input_value() == str(first)  # the culprit of the open incident
    assert page.locator("#trend-feature option").all_inner_texts() == NAMES
    page.locator("#trend-feature").select_option(label="flow_steam")
    assert "flow_steam" in page.locator("#trend .ytitle").text_content()
    assert page.locator("#trend .y2title").text_content() == "sd from normal"
    page.locator("#trend").scroll_into_view_if_needed()
    box = page.locator("#trend .nsewdrag").first.bounding_box()
    texts = set()
    for share in np.linspace(0.2, 0.8, 7):
        page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * share)
        page.wait_for_timeout(80)
        texts |= set(seen(page, "#trend .hovertext text"))
    assert any(" sd" in text for text in texts)
    page.locator(".incidents tbody tr").nth(3).click()
    assert page.locator("#trend-feature").input_value() == str(NAMES.index("flow_steam"))  # the choice stands
    page.locator("#onset .culprits button").first.click()
    assert (
        page.locator("#trend-feature option:checked").inner_text()
        == page.locator("#onset .culprits tbody th").first.inner_text()
    )
    assert -1 <= page.locator("#trends").evaluate("node => node.getBoundingClientRect().top") < 800


def test_details_and_filtered_list_agree(visit, plant):
    page = visit(plant.path)
    stories = content_of(plant.report).incidents

    def listed():
        return page.locator(".incidents tbody tr td:last-child").all_inner_texts()

    page.locator("#filter").fill("flow_steam")
    assert 0 < len(listed()) < len(stories)
    assert all("flow_steam" in sentence for sentence in listed())
    assert page.locator("#details-sentence").inner_text() == listed()[0]
    page.locator("#filter").fill("no such name")
    assert listed() == []
    assert page.locator("#filter-none").is_visible()
    assert page.locator("#details-sentence").inner_text().startswith("No incident is listed")
    assert page.locator("#story").is_hidden()
    assert page.locator("#row-part").is_hidden()
    page.locator("#filter").fill("flow_steam")
    assert page.locator("#details-sentence").inner_text() == listed()[0]
    other = next(story for story in stories if "flow_steam" not in story.sentence)
    click_mark(page, int(np.flatnonzero(plant.flagged == other.peak)[0]))  # somebody points at what is not listed
    assert page.locator("#filter").input_value() == ""
    assert len(listed()) == len(stories)
    assert (
        page.locator("#details-sentence").inner_text()
        == page.locator('.incidents tr[aria-current="true"] td:last-child').inner_text()
    )


def test_marks_stay_solid_when_dense(visit, plant):
    page = visit(plant.path)
    marks = page.locator("#chart .scatterlayer .trace").nth(1).locator("path.point")
    assert marks.count() > 80
    styles = marks.first.evaluate("node => [node.style.fillOpacity || '1', node.style.opacity, node.style.strokeWidth]")
    assert styles[:2] == ["1", "1"]
    assert styles[2] in ("0", "0px", "")


CUT_OFF = """() => {
  const bad = [];
  const shown = (node) => node.getClientRects().length && getComputedStyle(node).visibility !== "hidden";
  for (const node of document.querySelectorAll("header *, nav *, main *, footer *")) {
    if (node.closest("svg, .skip, thead, script, select") || !shown(node)) continue;
    if (![...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim())) continue;
    const box = node.getBoundingClientRect();
    const spills = node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).display !== "inline";
    if (box.left < -0.5 || box.right > window.innerWidth + 0.5 || spills) bad.push([node.textContent, box.right]);
  }
  for (const text of document.querySelectorAll(".plot svg text")) {
    if (!shown(text) || !text.textContent.trim()) continue;
    const box = text.getBoundingClientRect(), plot = text.closest(".plot").getBoundingClientRect();
    const beside = box.left < plot.left - 1.5 || box.right > plot.right + 1.5;
    const above = box.top < plot.top - 1.5 || box.bottom > plot.bottom + 1.5;
    if (beside || above) bad.push([text.closest(".plot").id, text.textContent, box.left, box.right]);
  }
  return bad;
}"""


@pytest.mark.parametrize("width", [420, 1280])
def test_nothing_is_cut_off(visit, plant, folder, width):
    sampled = by_error().fit(pd.DataFrame(PLANT.normal, columns=NAMES))
    paths = [plant.path, sampled.report(plant.new, method="permutation", n_orders=96, gap=5).save(folder / "wide.html")]
    for path in paths:
        page = visit(path)
        page.set_viewport_size({"width": width, "height": 900})
        page.reload()
        page.wait_for_selector("html[data-ready]")
        assert fits(page)
        assert page.evaluate(CUT_OFF) == []
        page.locator("#row-choices button", has_text="Worst").click()
        assert page.evaluate(CUT_OFF) == []


def test_no_incidents(visit, folder):
    detector = by_error().fit(pd.DataFrame(PLANT.normal, columns=NAMES))
    page = visit(detector.report(pd.DataFrame(PLANT.new[:20], columns=NAMES)).save(folder / "nothing.html"))
    assert page.locator("#verdict").inner_text().startswith("Nothing unusual")
    assert page.locator(".incidents").is_hidden()
    assert page.locator("#heat").is_hidden()
    assert "There are none: no row is above the limit." in page.locator("#incident-hint").inner_text()
    assert page.locator("#details-sentence").inner_text() == "Choose a point of the charts."
    assert not page.locator("nav a", has_text="Heat map").is_visible()


@pytest.mark.parametrize("width", [360, 768])
def test_narrow_window(visit, plant, width):
    page = visit(plant.path)
    page.set_viewport_size({"width": width, "height": 700})
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert fits(page)
    page.locator(".incidents tbody tr").nth(2).click()
    assert fits(page)
    assert page.locator("#details-title").evaluate("node => node.getBoundingClientRect().top") < 700
    for plot in ("chart", "waterfall", "blame", "history", "trend", "heatmap"):
        box = page.locator(f"#{plot} .main-svg").first.bounding_box()
        assert box["x"] >= 0, plot
        assert box["x"] + box["width"] <= width, plot


def test_paper(visit, plant):
    page = visit(plant.path, color_scheme="dark")
    pdf = page.pdf(format="A4", print_background=True)
    assert pdf.startswith(b"%PDF")
    assert 3 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type /Page/") <= 14
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": 700, "height": 900})
    assert page.locator("nav").is_hidden()
    assert colours(page) == ("rgb(255, 255, 255)", "rgb(27, 31, 36)")
    assert page.locator("#model details").get_attribute("open") is not None
    page.emulate_media(media="screen", color_scheme="dark")
    assert page.locator("nav").is_visible()


def test_light_and_dark(visit, plant):
    page = visit(plant.path, color_scheme="dark")
    dark = colours(page)
    assert dark == ("rgb(20, 23, 27)", "rgb(231, 234, 238)")
    page.locator("#theme").click()
    assert colours(page) == ("rgb(255, 255, 255)", "rgb(27, 31, 36)")
    page.locator("#theme").click()
    assert colours(page) == dark
    page.emulate_media(color_scheme="light")  # the choice stands
    assert colours(page) == dark


def test_hostile_names_are_shown_and_never_run(visit, folder):
    title = "<script>window.ran = true; alert(0)</script>"
    report = nasty_report(title)
    page = visit(report.save(folder / "nasty.html"))
    assert page.locator("h1").inner_text() == title
    assert page.title() == title
    names = seen(page, ".cells tbody th")
    for name in NASTY:
        assert name in names
    # in charts as well: cut where long, and as text
    ticks = seen(page, "#waterfall .ytick text")
    assert "<img src=x onerror" in " ".join(ticks)
    assert "حرارة المفاعل (أعلى)" in ticks
    assert any(tick.startswith("<script>window.ra") for tick in ticks)
    assert "<b>b</b><a href='//x.y'>z</a>" in ticks
    assert any("emoji 🔥 & &lt;b" in tick for tick in ticks)
    page.locator("#model summary").click()
    assert set(NASTY) <= set(seen(page, "#model details th"))
    click_mark(page, 5)
    assert "<script>alert(" in page.locator("#row-title").inner_text()
    assert "<script>alert(" in " ".join(seen(page, "#chart .hovertext text"))
    for plot, shape in (
        ("waterfall", ".barlayer .point path"),
        ("blame", ".nsewdrag"),
        ("heatmap", ".nsewdrag"),
        ("loadings", ".nsewdrag"),
    ):
        page.locator(f"#{plot}").scroll_into_view_if_needed()
        texts = set()
        for step in range(12):
            shapes = page.locator(f"#{plot} {shape}")
            box = shapes.nth(min(step + 1, shapes.count() - 1)).bounding_box()
            down = 0.5 if plot == "waterfall" else (step + 0.5) / 12
            page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * down)
            page.wait_for_timeout(80)
            texts |= set(seen(page, f"#{plot} .hovertext text"))
        assert any("<script>window.ran" in text for text in texts), (plot, texts)
        assert any("%{y} $x^2$ {{ 7 * 7 }}" in text for text in texts), (plot, texts)
    page.locator("#filter").fill(NASTY[0][:20])
    assert page.evaluate("window.ran") is None
    assert page.evaluate("document.querySelectorAll('main b, main img, svg a, main script').length") == 0
    page.set_viewport_size({"width": 360, "height": 700})
    assert fits(page)


def test_thousands_of_marks(visit, folder):
    rng = np.random.default_rng(0)
    new = PLANT.new[rng.integers(0, 400, 5000)]
    detector = by_error().fit(PLANT.normal)
    report = detector.report(new, min_length=1)  # stretches of flagged rows: a long list
    page = visit(report.save(folder / "many.html"))
    path = page.locator("#chart .shapelayer path").evaluate_all("nodes => nodes.map(n => n.getAttribute('d'))")
    longest = max(path, key=len)
    assert longest.count("M") == sum(count > 0 for count in content_of(report).chart.marks) > 1500
    assert sum(content_of(report).chart.marks) == (detector.predict(new) == -1).sum()
    assert page.locator(".pager").is_visible()
    page.locator(".pager button", has_text="More").click()
    assert "51 to 100 of 250" in page.locator(".pager").inner_text()
    page.locator("#chart").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.locator("#waterfall .main-svg").first.is_visible()
    if page.locator("#story").is_visible():  # the list turns to the page of an incident that is listed
        current = page.locator('.incidents tr[aria-current="true"] td:last-child').inner_text()
        assert current == page.locator("#details-sentence").inner_text()


def test_numbers_are_not_rounded_to_the_whole_and_parts_share_decimals(visit, folder):
    detector = by_error(confidence=0.9997).fit(pd.DataFrame(PLANT.normal, columns=NAMES))
    page = visit(detector.report(pd.DataFrame(PLANT.new[60:61], columns=NAMES)).save(folder / "surest.html"))
    assert "99.97% limit" in page.locator("#chart").text_content()
    parts = page.locator(".cells td:nth-child(4)").all_inner_texts()
    assert {len(part.split(".")[1]) for part in parts} == {2}
    assert page.locator(".cells td:nth-child(6)").first.inner_text().count(".") == 1


def test_only_empty_rows(visit, folder):
    detector = by_error().fit(pd.DataFrame(PLANT.normal, columns=NAMES))
    page = visit(detector.report(pd.DataFrame(PLANT.new[:3] * np.nan, columns=NAMES)).save(folder / "empty.html"))
    assert "no row has a score" in page.locator("#incident-hint").inner_text()
    assert page.locator("#details-sentence").inner_text() == "There is nothing to look at closely."


def test_huge_deviations_are_said_to_be_beyond_a_bound(visit, plant):
    page = visit(plant.path)
    words = (files("culpa") / "report/assets/script/words.js").read_text()
    in_sd = re.search(r"const inSd = (.*?);\nconst plural", words, re.DOTALL)[1]
    shown = page.evaluate(f"[-2.345, 18.4, 1000, 1001, -1e5].map({in_sd})")
    assert shown == ["−2.3 sd", "+18 sd", "+1000 sd", "beyond +1,000 sd", "beyond −1,000 sd"]
