"""Where an explanation comes from: the explainer, the rows as it read them, and the limit of the detector, if any."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from culpa._core.types import Positions
from culpa.columns import Reading

if TYPE_CHECKING:
    from culpa.explaining.explanation import Explanation
    from culpa.explaining.one_pass import OnePass


@dataclass(frozen=True, eq=False)
class Origin:
    """What further questions about an explanation need. ``at`` are the positions of its rows in the reading."""

    explainer: "OnePass"
    reading: Reading
    at: Positions
    limit: float | None = None

    @property
    def rows(self) -> Reading:
        """The rows of the explanation."""
        return self.reading.choose(self.at)

    def choose(self, key: Any) -> Self:
        """Some of the rows, by anything that an array can be indexed with."""
        return replace(self, at=self.at[key])

    @staticmethod
    def joined(parts: "Sequence[Origin | None]") -> "Origin | None":
        """Of rows that the same explainer explained in several tables; ``None`` if it is not known of all."""
        first = parts[0]
        known = [part for part in parts if part is not None]
        if first is None or len(known) < len(parts) or any(part.explainer is not first.explainer for part in known):
            return None
        if len(known) == 1:
            return first
        reading = Reading.joined([part.rows for part in known])
        return replace(first, reading=reading, at=np.arange(len(reading.labels)))


def origin_of(why: "Explanation", asked: str) -> Origin:
    """What made an explanation; an error if that is not known."""
    if why.origin is None:
        raise ValueError(
            f"{asked} needs the explainer, which stored and copied explanations do not keep: explain again."
        )
    return why.origin
