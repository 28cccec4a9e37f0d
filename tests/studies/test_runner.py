"""The runner: pages are what their numbers say, and the command writes both."""

import json

import pytest

from studies import __main__, runner


@pytest.mark.parametrize("name", runner.STUDIES)
def test_pages_are_what_their_numbers_say(name):
    kept = (runner.DOCS / f"{name}.json").read_text(encoding="utf-8")
    found = json.loads(kept)
    assert runner.to_json(found) == kept
    text = (runner.DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert runner.page(name, found) == text
    # tables, pictures and code cannot be wrapped
    assert max(len(line) for line in text.splitlines() if not line.startswith(("|", "!", "    "))) <= 120


def test_every_study_has_a_template_and_a_module():
    assert {path.name for path in runner.FOLDER.glob("*.jinja")} == {f"{name}.md.jinja" for name in runner.STUDIES}
    for name in runner.STUDIES:
        assert callable(runner.study(name).run)


def test_numbers_survive_their_file():
    found = {"a": [1.5, None], "b": {"c": [{"d": "x  y [z]"}, {"d": "ß"}]}, "e": []}
    assert json.loads(runner.to_json(found)) == found
    assert '"a": [ 1.5, null ]' in runner.to_json(found)


def test_the_command_measures_and_writes(monkeypatch, tmp_path, capsys):
    kept = json.loads((runner.DOCS / "slow-faults.json").read_text(encoding="utf-8"))
    asked = []

    def run(data, *, progress):
        asked.append(data)
        progress(1.0, "done")
        return kept | {"models": 3}

    monkeypatch.setattr(runner.study("slow-faults"), "run", run)
    __main__.main(["slow-faults", "-o", str(tmp_path), "--data", "folder"])
    assert [str(each) for each in asked] == ["folder"]
    assert str(tmp_path / "slow-faults.md") in capsys.readouterr().out
    assert "for 3 models" in (tmp_path / "slow-faults.md").read_text(encoding="utf-8").replace("\n", " ")
    (tmp_path / "slow-faults.json").write_text(json.dumps(kept | {"models": 4}))
    __main__.main(["slow-faults", "-o", str(tmp_path), "--page"])
    assert len(asked) == 1
    assert "for 4 models" in (tmp_path / "slow-faults.md").read_text(encoding="utf-8").replace("\n", " ")


def test_a_part_is_measured_alone(monkeypatch, tmp_path, capsys):
    kept = json.loads((runner.DOCS / "false-alarms.json").read_text(encoding="utf-8"))
    again = [line | {"n": 2 * line["n"]} for line in kept["in_order"]]
    monkeypatch.setitem(runner.study("false-alarms").PARTS, "in_order", lambda data: again)
    (tmp_path / "false-alarms.json").write_text(json.dumps(kept))
    __main__.main(["false-alarms", "-o", str(tmp_path), "--part", "in_order"])
    found = json.loads((tmp_path / "false-alarms.json").read_text(encoding="utf-8"))
    assert found == kept | {"in_order": again}
    with pytest.raises(SystemExit):
        __main__.main(["limits", "-o", str(tmp_path), "--part", "in_order"])
    assert "limits cannot measure 'in_order' alone" in capsys.readouterr().err


def test_an_unknown_study_is_refused(capsys):
    with pytest.raises(SystemExit):
        __main__.main(["propagation"])
    assert "flow-sheets" in capsys.readouterr().err
