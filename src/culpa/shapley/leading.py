"""Which ranks of the most blamed players are certain, and sampling until they are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from culpa._core import probability as stats
from culpa._core.comparing import ROUNDING
from culpa._core.types import Floats
from culpa._core.warning import warn
from culpa._core.words import count
from culpa.shapley.shares import Progress, Shares

CONFIDENCE = 0.95

Size = TypeVar("Size")


def certain_ranks(
    values: Floats, std_error: Floats, degrees_of_freedom: int, k: int, confidence: float = CONFIDENCE
) -> NDArray[np.intp]:
    """How many of the first ``k`` ranks of each row are certain together, (n,).

    The first r ranks are certain if each of these players has more than the next one, and the last of them has more than
    all the others. The probabilities that a comparison is wrong may add up to 1 - confidence. Errors of two values may be
    correlated, so the standard error of a difference is taken to be the sum of both, which is the most it can be.
    """
    k = min(k, values.shape[1])
    ranked = np.argsort(-values, axis=1, kind="stable")
    value, error = (np.take_along_axis(array, ranked, axis=1) for array in (values, std_error))
    rounding = ROUNDING * np.abs(np.where(np.isfinite(values), values, 0.0)).max(axis=1, keepdims=True, initial=0.0)
    wrong, result = np.zeros(len(values)), np.zeros(len(values), dtype=np.intp)
    for rank in range(k):
        with np.errstate(divide="ignore", invalid="ignore"):  # equal values without error are as likely either way
            gaps = value[:, rank, None] - value[:, rank + 1 :]
            apart = np.where(gaps > rounding, gaps, 0.0) / (error[:, rank, None] + error[:, rank + 1 :])
        later = stats.t.sf(np.nan_to_num(apart, nan=0.0, posinf=np.inf), degrees_of_freedom)
        result[wrong + later.sum(axis=1) <= 1 - confidence] = rank + 1
        wrong += later[:, 0] if later.shape[1] else 0.0
    return result


def until_certain(
    sample: Callable[[Floats, Size], Shares],
    rows: Floats,
    k: int,
    sizes: Sequence[Size],
    progress: Progress | None = None,
) -> Shares:
    """Values of each row from the smallest sample after which its ``k`` most blamed players are certain.

    ``sample`` explains rows with a sample of one of the ``sizes``, which grow. A row that is not certain after the last one
    keeps the values of that. All sizes together may be wrong with probability 5%, which they share equally.
    """
    if not isinstance(rows, np.ndarray):
        raise TypeError(f"tolerance='top{k}' needs rows in a NumPy array.")
    waiting, confidence = np.arange(len(rows)), 1 - (1 - CONFIDENCE) / len(sizes)
    result = sample(rows[:0], sizes[0])
    values, std_error = (np.empty((len(rows), result.values.shape[1])) for _ in range(2))
    for size in sizes if len(rows) else ():
        result = sample(rows[waiting], size)
        values[waiting], std_error[waiting] = result.values, result.std_error
        sure = certain_ranks(result.values, result.std_error, result.n_replicates - 1, k, confidence)
        waiting = waiting[sure < min(k, values.shape[1])]
        if progress is not None:
            progress(1 - len(waiting) / len(rows), None)
        if not len(waiting):
            break
    return Shares(values, std_error, result.n_evaluations, result.n_replicates, len(waiting))


@dataclass
class Doubts:
    """How many of the explained rows were sampled until their ranks are certain, and are not."""

    n_rows: int = 0
    n_uncertain: int = 0
    n_evaluations: int = 0

    def add(self, n_rows: int, n_uncertain: int, n_evaluations: int) -> None:
        """Count rows, of which some may be uncertain after so many coalitions."""
        self.n_rows += n_rows
        self.n_uncertain += n_uncertain
        self.n_evaluations = max(self.n_evaluations, n_evaluations)

    def sentence(self, k: int | None) -> str | None:
        """What to say about them, where the first ``k`` ranks were asked for; ``None`` if there is nothing to say.

        >>> Doubts(29, 2, 479_232).sentence(3)
        'the order of the 3 most blamed features is not certain in 2 of 29 rows after 479,232 coalitions, because ...'
        """
        if not self.n_uncertain or k is None:
            return None
        what = "the most blamed feature" if k == 1 else f"the order of the {k} most blamed features"
        return (
            f"{what} is not certain in {self.n_uncertain:,} of {count(self.n_rows, 'row')} after "
            f"{count(self.n_evaluations, 'coalition')}, because some features have nearly the same value."
        )


def warn_about_doubts(doubts: Doubts, k: int | None) -> None:
    """Say once what is uncertain, and what to do about it in Python."""
    if text := doubts.sentence(k):
        remedy = f"certain_ranks({k}) of the explanation shows how many ranks of each row are certain."
        warn(f"{text} {remedy} Raise max_coalitions to sample more.")


def on_command_line(k: int | None) -> str:
    """What to do about doubts on the command line."""
    fewer = ", or ask for fewer ranks, such as --tolerance top1" if k != 1 else ""
    return f"Treat features with nearly the same value as equally to blame{fewer}."
