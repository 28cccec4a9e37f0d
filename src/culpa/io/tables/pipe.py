"""Standard input whose beginning can be looked at before it is read. Every reader of a pipe reads through this object."""

import io
import json
import os
import select
import sys
from collections.abc import Callable
from typing import Any

from culpa.io.tables.table import TableError

_MOST = 1 << 18  # bytes looked at
_LARGEST_CHUNK = 1 << 24


class Pipe(io.RawIOBase):
    """Standard input; what was looked at comes once more."""

    def __init__(self) -> None:
        if sys.stdin is None or getattr(sys.stdin, "closed", False):
            raise TableError("standard input is closed. Pass a file, or pipe a table into the command.")
        self._input: Any = sys.stdin.buffer
        self._rest, self._ended = b"", False

    def look(self, enough: Callable[[bytes], bool], most: int = _MOST) -> tuple[bytes, bool]:
        """What has arrived as soon as it is enough, and whether that is all."""
        while not self._ended and len(self._rest) < most and not enough(self._rest):
            chunk = self._arrived(_MOST)
            self._ended = not chunk
            self._rest += chunk
        return self._rest, self._ended

    def read1(self, size: int = _MOST) -> bytes:
        """What has arrived, at most ``size`` bytes; nothing at the end."""
        if self._rest:
            chunk, self._rest = self._rest[:size], self._rest[size:]
            return chunk
        return b"" if self._ended else self._arrived(size)

    def read(self, size: int | None = -1) -> bytes:
        """So many bytes, or all; fewer only at the end. Readers of binary formats take a short answer for the end."""
        parts, left = [], sys.maxsize if size is None or size < 0 else size
        while left and (chunk := self.read1(min(left, _LARGEST_CHUNK))):
            parts.append(chunk)
            left -= len(chunk)
        return b"".join(parts)

    def _arrived(self, size: int) -> bytes:
        """What arrives next; nothing at the end. Input that does not block may have nothing yet, which is not the end."""
        chunk: bytes | None = self._input.read1(size)
        raw = getattr(self._input, "raw", None)
        while not chunk and raw is not None and not os.get_blocking(raw.fileno()):
            chunk = raw.read(size)
            if chunk is not None:
                break
            select.select([raw], [], [])
        return bytes(chunk or b"")

    def readable(self) -> bool:
        """Whether bytes can be read: a pipe always can."""
        return True

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
