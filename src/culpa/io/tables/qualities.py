"""Which qualities of readings are good: texts such as "Good", and the numbers of OPC DA and OPC UA."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from culpa.io.tables.table import TableError

_GOOD = re.compile(r"good\b.*|ok|g|true|valid|gut", re.IGNORECASE)


@dataclass(frozen=True)
class Judge:
    """Tells good qualities of readings from bad ones."""

    texts: frozenset[str]  # given
    least: float | None = None  # numbers from here on are good: OPC DA
    zero: bool = False  # 0 is good: OPC UA

    @classmethod
    def of(cls, cells: Sequence[str], given: frozenset[str], column: str, table: str) -> "Judge":
        """The rule that the first qualities suggest."""
        if given:
            return cls(given)
        numbers = {float(cell) for cell in cells if re.fullmatch(r"\d+(\.0*)?", cell)}
        if any(192 <= number < 256 for number in numbers):
            return cls(given, least=192)
        if any(number >= 1 << 16 for number in numbers):
            return cls(given, zero=True)
        if numbers:
            shown = ", ".join(f"{number:g}" for number in sorted(numbers)[:5])
            raise TableError(
                f"{table}: column {column!r} holds the qualities {shown}. Which of them are good? Say so with --good, for "
                "example --good 0."
            )
        return cls(given)

    def is_good(self, text: str) -> bool:
        """Whether a quality is good."""
        text = text.strip()
        if self.texts:
            return text in self.texts
        if re.fullmatch(r"\d+(\.0*)?", text):
            number = float(text)
            return number == 0 if self.zero else self.least is not None and number >= self.least
        return _GOOD.fullmatch(text) is not None
