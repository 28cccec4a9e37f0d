"""Standard output and standard error of a command: everything is written, or the command fails.

Python loses output in several cases. An unbuffered stream (``PYTHONUNBUFFERED``) may write a part of what it gets, and only
its return value says so. A stream that does not block may write nothing. A stream that is closed is ``None``, and many
libraries then write nothing. So a command replaces its streams before it begins.
"""

import io
import os
import select
import sys
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, TextIO

_WAIT = 0.05  # seconds, for files that cannot be waited for


def write_all(file: Any, data: Any) -> None:
    """Write all bytes, also to a raw file that takes a part at a time, or nothing until its reader has caught up."""
    rest = memoryview(data).cast("B")
    while len(rest):
        try:
            written = file.write(rest)
        except BlockingIOError as error:
            written = error.characters_written if hasattr(error, "characters_written") else None
        if written is None:
            _wait_for(file)
        rest = rest[written or 0 :]


def _wait_for(file: Any) -> None:
    try:
        select.select([], [file], [])
    except (OSError, ValueError, TypeError):  # not a file of the system
        time.sleep(_WAIT)


class _Whole(io.FileIO):
    """A descriptor that writes all it gets. After an error, it takes the rest and drops it: half a line is not repeated."""

    def __init__(self, descriptor: int, name: str) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self.name = name
        self.problem: BaseException | None = None

    def write(self, data: Any, /) -> int:
        if self.problem is None:
            try:
                write_all(SimpleNamespace(write=super().write, fileno=self.fileno), data)
            except BaseException as error:  # an interrupt, too: it is not known how much was written
                self.problem = error
                self._report(error)
        return memoryview(data).nbytes

    def _report(self, error: BaseException) -> None:
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, self.name) from None
        raise error


class _Messages(_Whole):
    """Standard error: a message that cannot be written changes nothing."""

    def _report(self, error: BaseException) -> None:
        if not isinstance(error, OSError):
            raise error


class _Closed(io.RawIOBase):
    """Standard output that the caller has closed."""

    def writable(self) -> bool:
        return True  # otherwise, Python would have the last word

    def write(self, data: Any, /) -> int:
        raise OSError("standard output is closed. Redirect it to a file.")


def make_streams_whole() -> None:
    """Replace standard output and standard error by streams that lose nothing."""
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_Closed(), "utf-8", write_through=True)
    elif os.name == "posix":  # elsewhere, consoles are not files
        sys.stdout = _whole(sys.stdout, _Whole, "standard output")
    if sys.stderr is None:  # libraries expect it
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    elif os.name == "posix":
        sys.stderr = _whole(sys.stderr, _Messages, "standard error")


def _whole(stream: Any, kind: type[_Whole], name: str) -> TextIO:
    with suppress(OSError):
        stream.flush()
    raw = kind(stream.fileno(), name)
    binary: Any = raw if isinstance(stream.buffer, io.RawIOBase) else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        binary,
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def is_closed() -> bool:
    """Whether nothing can be written to standard output."""
    return sys.stdout is None or isinstance(getattr(sys.stdout, "buffer", None), _Closed)


def problem_of_output() -> BaseException | None:
    """Why standard output could not be written, if that happened."""
    binary = getattr(sys.stdout, "buffer", None)
    return getattr(getattr(binary, "raw", binary), "problem", None)
