"""The numbers that the paper printed, and those that an independent prototype found."""

import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

Progress = Callable[[float, str], None]  # share of the work done, and what is being worked on


def silent(share: float, doing: str) -> None:
    """Take note of no progress."""


@cache
def paper() -> dict[str, Any]:
    """Tables and figures as printed."""
    return _load("paper.json")


@cache
def expected() -> dict[str, Any]:
    """Numbers that the experiments must reproduce."""
    return _load("expected.json")


def _load(name: str) -> dict[str, Any]:
    return json.loads(files("culpa.paper").joinpath(name).read_text(encoding="utf-8"))  # type: ignore[no-any-return]
