"""One HTML file that tells everything about new rows: overview, charts, incidents, culprits, model. It opens offline."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from culpa._files import write_whole
from culpa.detector import PCADetector
from culpa.report.content import Content, content
from culpa.report.page import to_page

__all__ = ["Content", "Report", "make_report"]


class Report:
    """A report on new rows, as a page and as data."""

    def __init__(self, content: Content) -> None:
        self.content = content

    def __repr__(self) -> str:
        return f"<Report: {self.content.overview.verdict}>"

    def to_dict(self) -> dict[str, Any]:
        """Everything that the page shows, as plain lists, numbers and texts."""
        return asdict(self.content)

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False)

    def to_html(self) -> str:
        """The page: one file that needs no network."""
        return to_page(self.to_dict())

    def save(self, path: str | Path, *, force: bool = True) -> Path:
        """Write the page, or the data if the name ends in ``.json``; the file appears only when it is complete."""
        path = Path(path)
        text = self.to_json() if path.suffix.lower() == ".json" else self.to_html()
        with write_whole(path, force=force) as file:
            file.write(text.encode("utf-8", errors="replace"))
        return path


def make_report(detector: PCADetector, X: Any, **options: Any) -> Report:
    """What `PCADetector.report` does; see there."""
    return Report(content(detector, X, **options))
