"""The project file: commands without options do what the same options would do."""

import csv
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import run
from forgery import forge

import culpa
from culpa.io.model_file import save


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
        ("[groups]\na = [[1]]", "'a' must be a text or a list of texts"),
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
    run("report", "--json", "-q", "-o", "page.html")  # the name that the project file has, but typed
    assert json.loads((folder / "page.html").read_text())


def test_names_with_commas_stay_whole(folder):
    frame = pd.read_csv("normal.csv").rename(columns={"a": "a,x", "b": 'b"'}).drop(columns="site")
    frame.to_csv("normal.csv", index=False)
    (folder / "culpa.toml").write_text(
        """
        tables = "normal.csv"
        model = "m.culpa"
        [groups]
        feed = ["a,x", "c"]
        [context]
        given = ['b"']
        [detector]
        no_scale = true
        """
    )
    run("fit")
    detector = culpa.load("m.culpa")
    assert detector.groups == {"feed": ["a,x", "c"]}
    assert list(detector.given) == ['b"']
    assert detector.scale is False
    (folder / "culpa.toml").unlink()
    run("fit", "normal.csv", "-o", "m.culpa", "-f", "--group", 'feed="a,x",c', "--given", 'b"', "--no-scale")
    assert culpa.load("m.culpa").groups == detector.groups


REFUSED = [  # the section, the key, and a value that the command line refuses
    *(("reading", key, "ab") for key in ("delimiter", "decimal", "thousands", "encoding")),
    ("reading", "header_rows", -1),
    ("reading", "header_rows", "two"),
    ("reading", "long", ["a", "b"]),
    ("reading", "every", "1min"),
    ("limits", "confidence", 2),
    ("limits", "confidence", "high"),
    ("limits", "limit", "magic"),
    ("detector", "components", -3),
    ("detector", "components", "many"),
    ("detector", "lags", 1.5),
    ("detector", "no_scale", "yes"),
    ("detector", "scale", 3),
    ("detector", "noun", ["a"]),
    ("groups", "x=y", ["a", "b"]),
    ("units", "a", "x=y"),
    ("units", "a", ["bar"]),
    ("columns", "drop", [["a"]]),
    ("context", "given", [True]),
    *(
        ("reading", key, [["x"]])
        for key in ("time", "missing", "names", "good", "exclude", "every", "hold", "sheet", "from")
    ),
    *(("reading", key, {"x": 1}) for key in ("time", "missing", "names", "exclude_file", "long", "to")),
    *((None, key, {"x": 1}) for key in ("tables", "model")),
    (None, "model", ["m.culpa"]),
]


def toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


@pytest.mark.parametrize(("section", "key", "value"), REFUSED)
def test_what_the_command_line_refuses_is_refused_in_the_file(folder, section, key, value):
    top = {} if section is None else {"tables": "normal.csv", "model": "m.culpa"}
    lines = [f"{name} = {toml(item)}" for name, item in top.items()]
    lines += [f"[{section}]"] if section else []
    (folder / "culpa.toml").write_text("\n".join([*lines, f"{json.dumps(key)} = {toml(value)}", ""]))
    given = () if section else ("normal.csv",) if key == "model" else ("-o", "m.culpa")
    told = run("fit", *given, "--drop", "site", code=2).stderr
    assert len(told.strip().splitlines()) == 1 or "Invalid value" in told
    assert not list(folder.glob("*m.culpa*"))


@pytest.mark.parametrize("key", ["use", "drop", "id"])
@pytest.mark.parametrize("name", ["p,q", 'p"q', '5" pipe, cold'])
def test_a_name_with_a_comma_stays_whole(folder, key, name):
    text = f"tables = 'normal.csv'\nmodel = 'm.culpa'\n[columns]\n{key} = {json.dumps(['site', name])}"
    (folder / "culpa.toml").write_text(text)
    assert f"no column {name!r}" in run("fit", code=2).stderr
    frame = pd.read_csv("normal.csv").rename(columns={"e": name})
    frame.to_csv("normal.csv", index=False)
    frame.to_csv("new.csv", index=False)
    (folder / "culpa.toml").write_text(text.replace("'site', ", "").replace('"site", ', "") if key == "use" else text)
    if key == "use":
        assert "at least 2 numeric columns are needed, got 1" in run("fit", code=2).stderr
        return
    run("fit")
    assert name not in culpa.load("m.culpa").fitted.columns.inputs
    if key == "id":
        header = run("score", "new.csv", "-q").stdout.splitlines()[0]
        assert next(csv.reader([header]))[:2] == ["site", name]


def test_deep_nesting_is_one_sentence(folder):
    (folder / "culpa.toml").write_text("tables = " + "[" * 5000 + "]" * 5000)
    assert "nested too deeply" in run("fit", code=2).stderr


@pytest.mark.parametrize(
    ("name", "value"), [("delimiter", "ab"), ("encoding", "no"), ("long", ["a"]), ("decimal", "..")]
)
def test_reading_options_of_a_model_file_are_checked(folder, name, value):
    run("fit", "normal.csv", "-o", "m.culpa", "--drop", "site")
    fitted = culpa.load("m.culpa").fitted
    with pytest.raises(ValueError, match=name):
        save(replace(fitted, reading={**fitted.reading, name: value}), "n.culpa")
    forge(folder / "m.culpa", lambda arrays, header: header["reading"].update({name: value}))
    told = run("score", "new.csv", "-m", "m.culpa", code=2).stderr
    assert name in told
    assert len(told.strip().splitlines()) == 1


def test_errors_name_the_file_that_sets_the_option(folder):
    run("fit", "normal.csv", "-o", "m.culpa", "--drop", "site")
    start = "tables = 'normal.csv'\nnew = 'new.csv'\nmodel = 'm.culpa'\ncolumns = {drop = 'site'}\n"
    for section, words, name in (
        ("[limits]\nconfidence = 5", ["fit", "--force"], "confidence"),
        ("[limits]\nlimit = 'f'", ["fit", "--force"], "limit"),
        ("[incidents]\nmin_length = 'x'", ["report"], "min_length"),
    ):
        (folder / "culpa.toml").write_text(start + section)
        said = " ".join(run(*words, code=2).stderr.replace("│", " ").split())
        assert f"culpa.toml sets {name}." in said
        assert "sets" not in run("fit", "--confidence", "7", "--force", code=2).stderr  # typed, not from the file


def test_a_scheduled_report_replaces_only_reports(folder):
    (folder / "culpa.toml").write_text(
        "tables = 'normal.csv'\nnew = 'new.csv'\nmodel = 'm.culpa'\ncolumns.drop = 'site'"
    )
    run("fit")
    for name in ("report.html", "report.json"):
        run("report", "-o", name)
        first = (folder / name).stat().st_ino
        run("report", "-o", name)
        assert (folder / name).stat().st_ino != first
        (folder / name).write_text('{"overview": 1}')
        assert "already exists" in run("report", "-o", name, code=2).stderr
        assert (folder / name).read_text() == '{"overview": 1}'
        run("report", "-o", name, "--force")
