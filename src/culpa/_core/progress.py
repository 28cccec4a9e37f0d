"""A progress bar on standard error, for ``progress=True``."""

import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

_WIDTH = 30
_SECONDS = 0.1  # between two drawings, at least


class ProgressBar:
    """Draws how much of the work is done, in one line; the line ends when all is done."""

    def __init__(self) -> None:
        self._start = self._drawn = 0.0
        self._longest = 0

    def __call__(self, share: float, detail: object = None) -> None:
        """``detail`` is the current relative error, or what is being done."""
        now = time.monotonic()
        if not self._start:
            self._start = now
        if share < 1 and now - self._drawn < _SECONDS:
            return
        self._drawn = now
        text = f"[{'#' * round(_WIDTH * share):{_WIDTH}}] {share:4.0%}, {now - self._start:.0f} s{_words(detail)}"
        text = text[: shutil.get_terminal_size().columns - 1]
        self._longest = max(self._longest, len(text))
        sys.stderr.write(f"\r{text:{self._longest}}" + "\n" * (share >= 1))
        sys.stderr.flush()
        if share >= 1:
            self.__init__()  # type: ignore[misc]  # the next piece of work starts anew

    def clear(self) -> None:
        """Take the bar away, for a message or because the work is done."""
        if self._longest:
            sys.stderr.write(f"\r{'':{self._longest}}\r")
            sys.stderr.flush()
            self._longest = 0


def as_progress(progress: Any) -> Callable[..., None] | None:
    """What is called with the share of the work done: the user's function, a bar for True, or nothing."""
    if progress is True:
        return ProgressBar()
    return None if progress is None or progress is False else progress


def _words(detail: object) -> str:
    if isinstance(detail, float):
        return f", error {detail:.2%}"
    return f", {detail}" if detail else ""
