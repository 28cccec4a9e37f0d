"""An explanation as lines of a table: the worst culprits of each row, in data frames and in notebooks."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from culpa._core import markup
from culpa._core.choices import PART_NAMES
from culpa._core.comparing import ranked
from culpa._core.native import column_labels
from culpa._core.words import count

if TYPE_CHECKING:
    from culpa.explaining.explanation import Explanation

_ROWS_SHOWN, _CULPRITS_SHOWN = 10, 3  # on a terminal and in a notebook


def top_columns(why: "Explanation", k: int = 3) -> dict[str, Any]:
    """The columns of `Explanation.top` by name; a table of one row would take longer than its answer."""
    if not isinstance(k, (int, np.integer)) or k < 1:
        raise ValueError(f"top(k) needs a whole number of at least 1, got {k!r}.")
    present = why.observed
    ranking = ranked(np.where(present, why.blame, -np.inf))[:, :k]
    chosen = present[np.arange(len(why))[:, None], ranking] & ~np.isnan(why.score)[:, None]
    row, rank = chosen.nonzero()
    player = ranking[row, rank]
    values = why.values[row, player]
    # actual and expected are numbers of one feature: of a group, the one that is furthest off
    single = (
        np.array([members[0] for members in why.players])[player] if why.furthest is None else why.furthest[row, player]
    )
    # what people act on comes first and last, because a wide table is printed without its middle
    columns: dict[str, Any] = {"row": why.row_labels[row], "feature": labels_of(why)[player]}
    if why.furthest is not None:
        several = np.array([len(members) > 1 for members in why.players])[player]
        columns["member"] = np.where(several, np.array(why.feature_names)[single], "")
    with np.errstate(divide="ignore", invalid="ignore"):
        columns["share"] = values / why.score[row]
    columns |= {"rank": rank + 1, "score": why.score[row], "value": values}
    if why.suspicion is not None:
        columns["suspicion"] = why.suspicion[row, player]
    if not why.exact:
        columns["std_error"] = why.std_error[row, player]
    columns |= {"actual": _readable(why.data[row, single]), "expected": _readable(why.expected[row, single])}
    return columns | {"score_if_fixed": why.score_if_fixed[row, player]}


def labels_of(why: "Explanation") -> NDArray[Any]:
    """What the table calls the players: text, but a number or a tuple where that is the name of a pandas column."""
    labels = column_labels(why.native, why.player_names)
    if all(isinstance(label, str) for label in labels):
        return np.array(labels, dtype=np.str_)
    result = np.empty(len(labels), dtype=object)
    result[:] = labels
    return result


def _readable(cells: NDArray[Any]) -> Any:
    """Numbers as they are; texts and numbers together as texts, since a column of a table holds one kind."""
    if cells.dtype.kind == "f":
        return cells
    return [
        None if cell is None or cell != cell else f"{cell:.6g}" if isinstance(cell, float) else str(cell)
        for cell in cells
    ]


def size_of(why: "Explanation") -> str:
    """Numbers of rows and players."""
    return f"{count(len(why), 'row')} x {count(len(why.player_names), 'player')}"


def how_exact(why: "Explanation") -> str:
    """How the values were computed, in a few words."""
    if why.exact:
        return "asymmetric, exact" if why.method == "asymmetric" else "exact"
    return f"{why.method}, {count(why.n_evaluations, 'evaluation')}"


def as_text(why: "Explanation") -> str:
    """The culprits of the first rows, for terminals."""
    title = f"Explanation of {why.score_name}: {size_of(why)}, {how_exact(why)}"
    if set(why.parts) < set(PART_NAMES):
        return f"{title}; only {', '.join(why.parts)}"
    lines = [("row", "score", "culprits and their part of the score")]
    for row in why[:_ROWS_SHOWN]:
        found = top_columns(row, _CULPRITS_SHOWN)
        parts = [
            f"{name} {value:.4g}" for name, value in zip(found["feature"], found["value"], strict=True) if value > 0
        ]
        lines.append((str(row.row_labels[0]), f"{row.score[0]:.4g}", ", ".join(parts) or "none"))
    widths = [max(len(line[at]) for line in lines) for at in (0, 1)]
    table = [f"{label:>{widths[0]}}  {score:>{widths[1]}}  {rest}" for label, score, rest in lines]
    rest = len(why) - _ROWS_SHOWN
    return "\n".join([title, *table, *([f"{count(rest, 'more row')}: see top(k)"] if rest > 0 else [])])


def as_html(why: "Explanation") -> str:
    """The first rows, for notebooks."""
    if set(why.parts) < set(PART_NAMES):
        return markup.block(f"Explanation of {why.score_name}: {size_of(why)}", markup.note(", ".join(why.parts)))
    shown = why[:_ROWS_SHOWN]
    lines = top_columns(shown, _CULPRITS_SHOWN)
    longest = float(np.nanmax(np.abs(lines["value"]))) if len(lines["value"]) else 1.0
    first = [bool(rank == 1) for rank in lines["rank"]]
    names = ("row", "score", "feature", "value", "actual", "expected", "score_if_fixed")
    rows = [
        (
            label if begins else "",
            score if begins else "",
            feature,
            markup.bar(abs(value) / (longest or 1.0), markup.RAISES if value > 0 else markup.LOWERS),
            value,
            *others,
        )
        for begins, label, score, feature, value, *others in zip(first, *(lines[name] for name in names), strict=True)
    ]
    headers = ("row", why.score_name, "culprit", "", "blame", "actual", "expected", f"{why.score_name} if fixed")
    rest = len(why) - len(shown)
    more = f"{count(rest, 'more row')}. " if rest else ""
    k = min(_CULPRITS_SHOWN, len(why.player_names))
    return markup.block(
        f"Explanation of {why.score_name}: {size_of(why)}",
        markup.table(headers, rows, new=first),
        markup.note(f"{more}The {count(k, 'player')} with the most blame in each row. {how_exact(why).capitalize()}."),
    )
