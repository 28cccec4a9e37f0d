"""The page `docs/parameters.md`, written from the description of the parameters.

``python tests/parameters_page.py`` writes it; a test says when it is out of date.
"""

from collections.abc import Iterator
from pathlib import Path

from culpa._core.parameter import Parameter, Parameters
from culpa._core.parameters import (
    CALIBRATION,
    DETECTOR,
    EXPLAINER,
    MIXTURE_PARAMETERS,
    PPCA_PARAMETERS,
    STUDENT_PARAMETERS,
)
from culpa.io.reading import READING

_EXPLAINERS = "`detector.explain(X, ...)`, `detector.explainer(...)`, `Explainer(model, ...)`"
_HEAD = f"""# Parameters

This page lists every parameter of the detector, the explainer, the calibration and the models, and every option for reading
tables. It is generated from `src/culpa/_core/parameters.py` and `src/culpa/io/reading.py`. The checks of parameters and the
options of the command line use the same files.

| what | in Python | on the command line |
| --- | --- | --- |
| [detector](#pcadetector) | `PCADetector(...)` | `culpa fit` |
| [explainer](#explainer) | {_EXPLAINERS} | `culpa explain`; `culpa incidents` and `report` (`upstream` only) |
| [calibration](#calibrate) | `culpa.calibrate(X, detector, ...)` | `culpa calibrate` |
| [model](#ppca) | `PPCA(...)` | |
| [model with several modes](#mixtureppca) | `MixturePPCA(...)` | |
| [robust model](#studentppca) | `StudentPPCA(...)` | |
| [reading tables](#reading) | | all commands that read tables, and the section `reading` of `culpa.toml` |

If you pass an unknown name or a value out of range, the error message says what is allowed.
"""
_ABOUT = {
    "PCADetector": "On the command line, `n_components` is `--components`, `scale=False` is `--no-scale`, "
    "`given=['a', 'b']` is `--given a,b`, and `groups={'name': ['a', 'b']}` is `--group name=a,b`.",
    "Explainer": "`explain`, `explainer`, `incidents` and `report` of a detector take these parameters as keywords. There, "
    "`score`, `game`, `ranking` and `groups` default to those of the detector. `incidents` and `report` always explain "
    "the score of the detector, so they take neither `score` nor `features`. On the command line, `culpa explain` has "
    "`--upstream feed:reactor:product` and `--tolerance`.",
    "calibrate": "On the command line, `n_trials` is `--trials` and `at_once` is `--at-once`.",
    "reading": "These are options of the command line: `time_format` is `--time-format`. In `culpa.toml`, keys have "
    "underscores, and several texts are a list. [plant-tables.md](plant-tables.md) explains them.",
    "PPCA": "The detector passes `n_components`, `noise` and `shrinkage` on to this model.",
    "MixturePPCA": "The detector uses this model if `modes` is set, and passes `n_components`, `noise` and `shrinkage` on.",
    "StudentPPCA": 'With `model="student"`, the detector passes `n_components`, `noise` and `shrinkage` on to this model.',
}


def page() -> str:
    """The whole page."""
    listed = (DETECTOR, EXPLAINER, CALIBRATION, PPCA_PARAMETERS, STUDENT_PARAMETERS, MIXTURE_PARAMETERS, READING)
    parts = [_section(parameters) for parameters in listed]
    return "\n".join([_HEAD, *parts])


def _section(parameters: Parameters) -> str:
    lines = [f"## {parameters.owner}", "", _ABOUT[parameters.owner], ""]
    lines += ["| parameter | default | meaning |", "| --- | --- | --- |"]
    lines += [f"| {_names(each)} | {_default(each)} | {each.help} |" for each in parameters.values()]
    lines += ["", *_details(parameters)]
    return "\n".join(lines)


def _names(parameter: Parameter) -> str:
    alias = f" (also `{parameter.alias}`)" if parameter.alias else ""
    return f"`{_own_name(parameter)}`{alias}"


def _own_name(parameter: Parameter) -> str:
    """Options of readers have no names in Python."""
    return parameter.variable.rstrip("_") if parameter.name in READING else parameter.name


def _default(parameter: Parameter) -> str:
    if isinstance(parameter.default, tuple) and len(parameter.default) > 3:
        return "all"
    if parameter.name in READING and parameter.default in (None, ()):
        return parameter.shown or "none"
    return "`" + (f"{parameter.default:g}" if isinstance(parameter.default, float) else f"{parameter.default!r}") + "`"


def _details(parameters: Parameters) -> Iterator[str]:
    for each in parameters.values():
        values = each.values
        if each.kind.names and not each.kind.parts:
            values = ", ".join(f"`{name!r}`" for name in each.kind.names) + " or `None`" * each.optional
        more = f" {each.more}" if each.more else ""
        yield f"- `{_own_name(each)}`: {values}.{more}"
    yield ""


if __name__ == "__main__":
    (Path(__file__).parent.parent / "docs" / "parameters.md").write_text(page(), encoding="utf-8")
