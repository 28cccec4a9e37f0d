"""Keyword options that methods pass on to others, as types: a type checker knows their names and values."""

from collections.abc import Mapping
from typing import Any

from culpa._core.parameters import BlameOptions, ExplainerOptions

__all__ = ["BlameOptions", "ExplainerOptions", "ReportOptions"]


class ReportOptions(BlameOptions, total=False):
    """Options of a report: its title, the name of the data, and how incidents are found and explained."""

    title: str
    source: str
    gap: Any
    min_length: int | None
    false_incidents: str | None
    baseline: int
    units: Mapping[str, str] | None
