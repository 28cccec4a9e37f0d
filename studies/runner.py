"""Run a study and write its numbers; write its page from these numbers, so that no result is typed by hand."""

import json
import re
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from culpa._core.warning import FitWarning
from culpa.paper.pages import render
from culpa.paper.published import Progress, silent
from culpa.paper.run import write

STUDIES = ("localisation", "culprits", "false-alarms", "limits", "flow-sheets", "slow-faults")
FOLDER = Path(__file__).parent
DOCS = FOLDER.parent / "docs"


def study(name: str) -> Any:
    """The module of a study."""
    return import_module(f"studies.{name.replace('-', '_')}")


def measure(
    name: str, data: Path | None = None, output: Path = DOCS, progress: Progress = silent, part: str | None = None
) -> Path:
    """Run a study, and keep its numbers; or one ``part`` of it, beside the numbers that are there already."""
    output.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # about the data, which are what they are
        if part is None:
            found = study(name).run(data, progress=progress)
        else:
            found = json.loads((output / f"{name}.json").read_text(encoding="utf-8"))
            found[part] = study(name).PARTS[part](data)
    return write(output / f"{name}.json", to_json(found).encode())


def parts(name: str) -> tuple[str, ...]:
    """Parts of a study that can be measured alone."""
    return tuple(getattr(study(name), "PARTS", ()))


def write_page(name: str, output: Path = DOCS) -> Path:
    """Write the page of a study from the numbers beside it."""
    found = json.loads((output / f"{name}.json").read_text(encoding="utf-8"))
    return write(output / f"{name}.md", page(name, found).encode())


def page(name: str, found: dict[str, Any]) -> str:
    """The page of a study; its template also knows the numbers as ``found``."""
    template = (FOLDER / f"{name}.md.jinja").read_text(encoding="utf-8")
    return render(template, {"found": found, **study(name).shown(found)})


def to_json(found: dict[str, Any]) -> str:
    """JSON with each innermost list or dictionary on one line, so that a difference can be read."""
    text = json.dumps(found, indent=1, ensure_ascii=False)
    for innermost in (r"\[\n[^\[\]{}]*\]", r"\{\n[^{}]*\}"):
        text = re.sub(innermost, lambda match: re.sub(r"\n *", " ", match.group()), text)
    return text + "\n"
