"""The page: content poured into an autoescaped template, with styles and scripts inlined, sealed against the network."""

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

from culpa._core.words import share

_ASSETS = files("culpa.report") / "assets"
_SCRIPTS = ("words", "drawing", "chart", "incidents", "story", "rows", "trends", "grids", "start")  # in this order

# JSON inside a script element: nothing in it may look like markup, and JavaScript's odd line ends are escaped
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def to_page(content: dict[str, Any]) -> str:
    """One HTML file that needs nothing else."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    plotly, script = get_plotlyjs(), _script()
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["share"] = share
    return environment.from_string(_asset("template.html")).render(
        report=content,
        policy=_policy(plotly, script),
        style=Markup(_asset("report.css")),
        data=Markup(to_json(content).translate(_ESCAPES)),
        plotly=Markup(plotly),
        script=Markup(script),
    )


def to_json(content: dict[str, Any]) -> str:
    """The same content as data."""
    return json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _script() -> str:
    """The report's own script: its parts share one scope, and nothing of it is visible outside."""
    return "\n".join(['"use strict";', "(() => {", *(_asset(f"script/{name}.js") for name in _SCRIPTS), "})();"])


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    """Only these scripts run, and nothing is fetched from anywhere."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
