"""The project file: commands without options do what the same options would do."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import run

import culpa


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(300, 5))
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame.insert(0, "site", "north")
    frame.insert(0, "when", pd.date_range("2024-02-01", periods=300, freq="1min").strftime("%d.%m.%Y %H:%M"))
    frame.to_csv(tmp_path / "normal.csv", index=False)
    frame.loc[250, "c"] += 30
    frame.to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_from_a_table_to_a_report_without_options(folder):
    run("init", "normal.csv", "--new", "new.csv")
    run("fit")
    told = run("report").stderr
    assert "300 rows, " in told
    assert "report.html" in told
    assert "2024-02-01 at 04:10" in run("incidents", "--text", "-q").stdout
    assert '"01.02.2024 04:10",' in run("score", "--flagged", "-q").stdout
    assert "features" in run("info").stdout
    assert "already exists" in run("init", "normal.csv", code=2).stderr


def test_every_section_is_an_option(folder):
    (folder / "culpa.toml").write_text(
        """
        tables = "normal.csv"
        new = ["new.csv"]
        model = "m.culpa"
        [reading]
        time = "when"
        missing = [-9999, "off"]
        from = "2024-02-01T01:00"
        [columns]
        drop = ["site"]
        [units]
        a = "bar"
        [groups]
        feed = ["b", "c"]
        [context]
        given = ["e"]
        [limits]
        confidence = 0.95
        limit = "formula"
        [detector]
        components = 2
        noun = "sensor"
        [incidents]
        gap = "5min"
        [report]
        title = "Line 3"
        """
    )
    run("fit")
    by_file = culpa.load("m.culpa")
    run(
        *("fit", "normal.csv", "-o", "o.culpa", "--time", "when", "--missing", "-9999", "--missing", "off"),
        *("--from", "2024-02-01T01:00", "--drop", "site", "--unit", "a=bar", "--group", "feed=b,c", "--given", "e"),
        *("--confidence", "0.95", "--limit", "formula", "--components", "2", "--noun", "sensor"),
    )
    by_options = culpa.load("o.culpa")
    assert by_file.limit_ == by_options.limit_
    assert by_file.get_params() == by_options.get_params()
    assert by_file.units_ == by_options.units_ == {"a": "bar"}
    assert by_file.fitted.reading == by_options.fitted.reading
    assert by_file.model_.n_samples_ == 240
    run("fit", "--confidence", "0.9", "-o", "p.culpa")  # options override the file
    assert culpa.load("p.culpa").confidence == 0.9
    assert "Line 3" in (run("report") and (folder / "report.html").read_text())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tabels = 'a.csv'", "culpa.toml: unknown key 'tabels'; did you mean 'tables'?"),
        ("[reading]\ntimes = 'a'", "section 'reading': unknown key 'times'; did you mean 'time'?"),
        ("[detector]\nconfidenze = 1", "unknown key 'confidenze'; did you mean 'confidence'?"),
        ("tables = ", "culpa.toml: this is not TOML"),
        ("groups = 3", "culpa.toml: 'groups' does not hold what it should"),
        ("[groups]\na = [[1]]", "a must be a text or a list of texts"),
    ],
)
def test_mistakes_are_one_sentence(folder, text, message):
    (folder / "culpa.toml").write_text(text)
    told = run("fit", code=2).stderr
    assert message in told
    assert told.count("\n") == 1


def test_a_project_elsewhere(folder, tmp_path_factory, monkeypatch):
    run("init", "normal.csv", "--new", "new.csv")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    run("--project", folder / "culpa.toml", "fit")
    assert (folder / "plant.culpa").exists()
    assert "No such file" in run("--project", "absent.toml", "fit", code=2).stderr


def test_the_training_period_does_not_cut_new_rows(folder):
    (folder / "culpa.toml").write_text(
        """
        tables = "normal.csv"
        new = "new.csv"
        model = "plant.culpa"
        [reading]
        from = "2024-02-01T00:00"
        to = "2024-02-01T03:00"
        [columns]
        drop = ["site"]
        """
    )
    assert "180 rows, 120 rows left out" in run("fit").stderr
    assert "300 rows, " in run("score", "-o", "scores.csv").stderr
    run("incidents", "--fail-on-anomaly", code=3)
    assert "60 rows, " in run("score", "--from", "2024-02-01T04:00", "-o", "some.csv").stderr


def test_json_of_a_report_goes_to_standard_output_not_into_the_page(folder):
    (folder / "culpa.toml").write_text("new = 'new.csv'\nmodel = 'm.culpa'\n[report]\noutput = 'page.html'\n")
    run("fit", "normal.csv", "-o", "m.culpa", "--drop", "site")
    assert json.loads(run("report", "--json", "-q").stdout)["overview"]["rows"] == 300
    assert not (folder / "page.html").exists()
    run("report", "-q")
    assert (folder / "page.html").read_text().startswith("<!")
    run("report", "--json", "-q", "-o", "page.json")
    assert json.loads((folder / "page.json").read_text())
