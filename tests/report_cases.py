"""Tables that several tests of the report share: the plant, and one whose names try to break out."""

import json

import pandas as pd

from culpa import PCADetector
from culpa.datasets import make_plant

PLANT = make_plant()
NAMES = list(PLANT.feature_names)
NASTY = (
    "<script>window.ran = true; alert(1)</script>",
    "<img src=x onerror=\"window.ran = true; alert('quote')\">",
    "emoji 🔥 & &lt;b&gt;bold&lt;/b&gt; \u2028 end",
    "</script><b onmouseover=alert(1)>long " + "name " * 40,
    "<b>b</b><a href='//x.y'>z</a>",  # markup that plotly would understand
    "حرارة المفاعل (أعلى)",
    "%{y} $x^2$ {{ 7 * 7 }} {% raw %} ' \" `",
)


def nasty_report(title="Whose fault is it?"):
    columns = [*NASTY, *NAMES[len(NASTY) :]]
    detector = PCADetector().fit(pd.DataFrame(PLANT.normal, columns=columns))
    detector.units_ = {NASTY[0]: "<b>m3/h</b>"}
    labels = [f"<script>alert({i})</script>" for i in range(400)]
    return detector.report(
        pd.DataFrame(PLANT.new.copy(), columns=columns, index=labels), title=title, source="<u>a.csv</u>", min_length=1
    )


class Data(dict):
    """A dictionary whose items are attributes, too."""

    __getattr__ = dict.__getitem__


def content_of(report):
    """What the JSON of a report says."""
    return json.loads(report.to_json(), object_hook=Data)
