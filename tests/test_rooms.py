"""The picture of the rooms and the way of one row, as the architecture page has them: both are those of the code."""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import rooms

import culpa
from culpa import PCADetector
from culpa.datasets import make_plant

PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
SOURCE = Path(culpa.__file__).parent


def test_the_picture_has_the_rooms_where_they_are_and_about_as_large():
    drawn, sizes, users = rooms.in_picture(), rooms.sizes(), rooms.users()
    layers = {room: k + 1 for k, layer in enumerate(rooms.layers()) for room in layer}
    again = "if this is meant, run: python tests/rooms.py"
    assert {room: layer for room, (layer, *_) in drawn.items()} == layers, again
    for room, (_, lines, others) in drawn.items():
        assert lines == pytest.approx(sizes[room], rel=0.25, abs=40), f"{room}: {again}"
        assert abs(others - users[room]) <= 2, f"{room}: {again}"
    assert "figures/rooms.svg" in PAGE.split("## ")[0]


def test_the_users_of_a_room_are_counted():
    """Against what the text of the modules says."""
    text = {room: "\n".join(path.read_text(encoding="utf-8") for path in rooms.files(room)) for room in rooms.sizes()}
    for room, counted in rooms.users().items():
        imports = rf"^\s*(?:from culpa\.{room}\b|import culpa\.{room}\b|from culpa import .*\b{room}\b)"
        assert counted == sum(bool(re.search(imports, text[other], re.M)) for other in text if other != room), room


def way(heading):
    """Functions and their files, as a table of the page lists them."""
    table = PAGE.partition("## The way of one row")[2].partition(heading)[2].partition("\n\n`")[0].partition("\n\nA")[0]
    return re.findall(r"\| `([\w.]+)` \| `([\w./]+)` \|", table)


def followed(work):
    """Functions of the package with their files, in the order of their first calls."""
    calls = {}

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and SOURCE in path.parents:
            calls.setdefault((frame.f_code.co_qualname, path.relative_to(SOURCE).as_posix()))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return list(calls)


@pytest.fixture(scope="module")
def plant():
    plant = make_plant()
    normal, new = (pd.DataFrame(rows, columns=plant.feature_names) for rows in (plant.normal, plant.new[60:61]))
    return PCADetector().fit(normal), new


def is_the_way(listed, calls):
    assert len(listed) > 10
    assert [step for step in listed if step not in calls] == []
    places = [calls.index(step) for step in listed]
    assert places == sorted(places), np.array(listed)[np.argsort(places)]


def test_the_way_of_a_row_in_python(plant):
    detector, new = plant
    is_the_way(way("in Python:"), followed(lambda: detector.explain(new)))


def test_the_way_of_a_row_on_the_command_line(plant, tmp_path, monkeypatch):
    from culpa.cli import app

    detector, new = plant
    detector.save(tmp_path / "plant.culpa")
    new.to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.chdir(tmp_path)
    words = ["explain", "new.csv", "-m", "plant.culpa", "-o", "why.csv", "-q"]
    calls = followed(lambda: app(words, standalone_mode=False))
    assert (tmp_path / "why.csv").read_text().count("\n") == 2
    is_the_way(way("on the command line:"), calls)
