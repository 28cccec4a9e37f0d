"""One HTML file that tells everything about new rows: overview, charts, incidents, culprits, model. It opens offline."""

import copy
import json
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from culpa._core.files import write_whole
from culpa._core.markup import frame
from culpa._core.parameters import ReportOptions
from culpa._core.validation import Table
from culpa.fitted import FittedDetector
from culpa.io.tables import Batch, Source, TableError
from culpa.jobs.batches import NOBODY, Listener, Summary, in_memory, judged_batches
from culpa.jobs.following import Following, advice_on_order, time_of
from culpa.monitoring.incidents import Search
from culpa.monitoring.times import Times, read_times, saying_utc
from culpa.report.content import content
from culpa.report.page import to_json, to_page

__all__ = ["Report", "make_report", "report_on"]


class Report:
    """A report on new rows, as a page and as data.

    Attributes
    ----------
    content : dict
        Everything that the page shows.

    Examples
    --------
    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> detector = PCADetector().fit(plant.normal)
    >>> report = detector.report(plant.new, title="Line 3")
    >>> report.to_dict()["title"], "<html" in report.to_html()
    ('Line 3', True)
    """

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content

    def __repr__(self) -> str:
        return f"<Report: {self.content['overview']['verdict']}>"

    def _repr_html_(self) -> str:
        return frame(self.to_html(), self.content["title"])

    def to_dict(self) -> dict[str, Any]:
        """Everything that the page shows, as plain lists, numbers and texts."""
        return copy.deepcopy(self.content)

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return to_json(self.content)

    def to_html(self) -> str:
        """The page: one file that needs no network."""
        return to_page(self.content)

    def save(self, path: str | Path, *, json: bool | None = None, force: bool = True) -> Path:
        """Write the page, or the data as JSON.

        Parameters
        ----------
        path
            File to write, which appears under its name only when it is complete. Extensions such as ``.pdf`` are refused.
        json
            Whether to write JSON; by default if the name ends in ``.json``.
        force
            Whether a file of this name is replaced.

        Returns
        -------
        Path
            The file.
        """
        path = Path(path)
        as_json = is_json(path) if json is None else json
        with write_whole(path, force=force) as file:
            text = self.to_json() if as_json else self.to_html()
            file.write(text.encode("utf-8", errors="replace"))
        return path

    @property
    def summary(self) -> Summary:
        """How many rows, flagged rows, rows without a score and incidents there are."""
        overview = self.content["overview"]
        return Summary(*(overview[name] for name in ("rows", "flagged", "empty_rows", "incidents")))


def is_own(path: Path) -> bool:
    """Whether a file is a report that culpa has written, which a later one may replace."""
    if not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        head = file.read(4096)
        if '<meta name="generator" content="culpa ' in head:
            return True
        try:
            return {"overview", "incidents", "model"} <= set(json.loads(head + file.read()))
        except (ValueError, TypeError):
            return False


def is_json(path: Path) -> bool:
    """Whether a report is written as JSON and not as a page, by the file extension."""
    extension = path.suffix.lower()
    if extension not in (".html", ".htm", ".json", ""):
        raise ValueError(
            f"{path}: a report is an HTML page or JSON, so the file extension must be .html or .json, got {extension!r}."
        )
    return extension == ".json"


def make_report(
    fitted: FittedDetector,
    table: Table,
    times: Times | None = None,
    time_name: str = "time",
    **options: Unpack[ReportOptions],
) -> Report:
    """What `PCADetector.report` does; see there."""
    how: dict[str, Any] = dict(options)
    search = Search.taken_from(how, times, time_name)
    return Report(content(fitted, table, search, **how))


def report_on(
    fitted: FittedDetector,
    source: Source,
    *,
    time: str | None = None,
    id: str | None = None,
    told: Listener = NOBODY,
    **options: Any,
) -> Report:
    """A report on all rows of a table in a file or a pipe; ``time`` and ``id`` are columns with their times and names."""
    carried = list(dict.fromkeys(name for name in (time, id) if name is not None))
    columns, timed = fitted.columns, time is not None
    ordered = Following(source, time or time_of(source, columns), timed, report=told.warning, step=columns.step)
    batches, n = list[Batch](), 0
    for batch in judged_batches(fitted, ordered, carried, told.warning):
        batches.append(batch)
        told.rows(n := n + len(batch.rows))
    if text := ordered.about_steps():
        told.warning(text)
    if not n:
        raise TableError(f"{source.name}: there are no rows to report on.")
    X, order = in_memory(batches, len(columns.inputs))
    joined = {
        name: pd.concat([pd.Series(batch.carried[name]) for batch in batches], ignore_index=True) for name in carried
    }
    index = pd.Index(order.places if id is None else joined[id])
    table = Table(X, columns.known_inputs, pd.DataFrame(index=index), order)
    times = [batch.times() for batch in batches if timed and batch.times is not None]
    told.step("explaining")
    try:
        if len({str(getattr(piece, "tz", None)) for piece in times}) > 1:  # the UTC offset changed
            times = [piece.tz_convert("UTC") for piece in times]
        known = times[0].append(times[1:]) if times else None
        when = known if known is not None or time is None else read_times(joined[time], time)
        when = saying_utc(when, joined[time]) if time is not None else when
        search = Search.taken_from(options, when, time or "time")
        return Report(content(fitted, table, search, source=source.name, **options))
    except ValueError as error:
        raise TableError(f"{source.name}: {error}{advice_on_order(error)}") from None
