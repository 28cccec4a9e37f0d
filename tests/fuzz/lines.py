"""NDJSON: objects, and lines that are none."""

import json
import math

import numpy as np

from fuzz.case import NAMES, Case, Reading

ODD = ("", " ", "{", "[]", "null", '"a"', "1,2,3", "{}", '{"a": 1}', '{"a": [1], "b": 2, "c": 3}', "\ufeff{}", "\x00")


def draw(rng):
    texts = [_line(rng) for _ in range(int(rng.integers(1, 15)))]
    case = Case("t.ndjson", "\n".join(texts).encode(), lambda: None, may_be_piped=True)
    case.witness = lambda: _read(case.content)
    case.witness_of_damage = case.witness
    return case


def _line(rng):
    if rng.random() < 0.1:
        return ODD[rng.integers(len(ODD))]
    record = {name: _cell(rng) for name in rng.permutation(NAMES)}
    if rng.random() < 0.3:
        record["id"] = ["x", None, 'a"b', "\n", 5][rng.integers(5)]
    if rng.random() < 0.05:
        record.pop("b")
    return json.dumps(record)


def _cell(rng):
    kind = rng.random()
    if kind < 0.7:
        return float(np.round(rng.normal(scale=10.0 ** rng.integers(-3, 6)), int(rng.integers(0, 9))))
    if kind < 0.8:
        return int(rng.integers(-1000, 1000))
    return [None, True, False, "text", "1.5", [1], {}, 1e15, 1e-300][rng.integers(9)]


def _read(content):
    """Lines are separated by line feeds; a blank line is nothing, and a line that is not a row is skipped."""
    rows, kept = [], []
    for number, line in enumerate(line for line in content.split(b"\n") if line.strip()):
        row = _row(line)
        if row is not None:
            rows.append(row)
            kept.append(number)
    return Reading(np.array(rows, dtype=float).reshape(-1, 3), rows=kept)


def _object(pairs):
    """Nobody knows the value of a field that occurs twice."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError(pairs)
    return dict(pairs)


def _row(line):
    try:
        record = json.loads(line.decode(), object_pairs_hook=_object)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not set(NAMES) <= set(record):
        return None
    cells = [record[name] for name in NAMES]
    if not all(cell is None or isinstance(cell, (int, float)) for cell in cells):
        return None
    try:
        numbers = [math.nan if cell is None else float(cell) for cell in cells]
    except OverflowError:
        return None
    return None if any(math.isinf(x) or abs(x) > 1e100 for x in numbers) else numbers
