"""Standard input whose beginning can be looked at before it is read."""

import io
import json
import sys
from collections.abc import Callable
from typing import Any

from culpa.io.tables.table import TableError

_MOST = 1 << 18  # bytes looked at


class Pipe(io.RawIOBase):
    """Standard input; what was looked at comes once more."""

    def __init__(self) -> None:
        if sys.stdin is None or getattr(sys.stdin, "closed", False):
            raise TableError("standard input is closed. Pass a file, or pipe a table into the command.")
        self._input: Any = sys.stdin.buffer
        self._rest, self._ended = b"", False

    def look(self, enough: Callable[[bytes], bool]) -> tuple[bytes, bool]:
        """What has arrived as soon as it is enough, and whether that is all."""
        while not self._ended and len(self._rest) < _MOST and not enough(self._rest):
            chunk = self._input.read1(_MOST)
            self._ended = not chunk
            self._rest += chunk
        return self._rest, self._ended

    def read1(self, size: int = _MOST) -> bytes:
        """What has arrived, at most ``size`` bytes; nothing at the end."""
        if self._rest:
            chunk, self._rest = self._rest[:size], self._rest[size:]
            return chunk
        return b"" if self._ended else bytes(self._input.read1(size))

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """For readers of binary formats."""
        chunk = self.read1(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def format(self) -> str:
        """The format, by the first line: NDJSON, Arrow or CSV."""
        start, _ = self.look(lambda seen: b"\n" in seen.lstrip() or len(seen.lstrip()) >= 8)
        start = start.lstrip().removeprefix(b"\xef\xbb\xbf").lstrip()
        if start.startswith((b"\xff\xff\xff\xff", b"ARROW1")):
            return "arrow"
        if start.startswith(b"PAR1"):
            return "parquet"
        if start.startswith(b"PK\x03\x04"):
            return "excel"
        if not start or start.startswith(b"{"):
            return "ndjson"
        first, _ = self.look(lambda seen: b"\n" in seen.lstrip())
        return "ndjson" if any(map(_is_object, first.split(b"\n"))) else "csv"


def _is_object(line: bytes) -> bool:
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
