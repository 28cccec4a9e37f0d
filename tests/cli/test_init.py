"""Project files that `culpa init` writes can be read, whatever columns are called."""

import tomllib

import numpy as np
import pandas as pd
import pytest
from command_line import run, write

from culpa.cli.init import _toml

ODD = [
    "esc\x1b[31m",
    "del\x7f",
    "quote\"'",
    "back\\slash",
    "line\nbreak",
    "return\r",
    "next\x85line",
    "nul\x00",
    "\u2028",
]


def test_every_character_comes_back():
    signs = [chr(number) for number in range(0x110000) if not 0xD800 <= number < 0xE000]
    text = "".join(signs)
    assert tomllib.loads(f"text = {_toml(text)}\n")["text"] == text
    for sign in signs[:0x300]:
        assert tomllib.loads(f"{_toml(sign)} = [{_toml(sign)}]\n") == {sign: [sign]}


def test_what_toml_cannot_store_is_refused():
    with pytest.raises(ValueError, match=r"'a\\ud800' is not valid Unicode"):
        _toml(["a\ud800"])


def test_columns_with_odd_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, len(ODD))) + 0.3 * rng.normal(size=(200, len(ODD)))
    table = pd.DataFrame(X, columns=ODD)
    table["text\x1b"] = "north"
    write(table, tmp_path / "normal.parquet")
    run("init", "normal.parquet")
    content = tomllib.loads((tmp_path / "culpa.toml").read_text(encoding="utf-8"))
    assert content["columns"]["drop"] == ["text\x1b"]
    run("fit")
    assert f"{len(ODD)} features" in run("info").stdout
