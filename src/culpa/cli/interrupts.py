"""Ctrl-C and SIGTERM: the command cleans up, says so, and ends with 128 plus the number of the signal.

A signal can arrive anywhere. Libraries may turn the `KeyboardInterrupt` into an exception of their own, and it may be
raised outside the code of a command, so what counts is that the signal came, not which exception arrives.
"""

import signal
import sys
from collections.abc import Callable
from types import FrameType

_received: list[int] = []


def signal_received() -> int | None:
    """The signal that interrupted this command, if one did."""
    return _received[0] if _received else None


def run_interruptible(run: Callable[[], None]) -> None:
    """Run a whole program so that it ends with exit code 130 on Ctrl-C and 143 on SIGTERM."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _interrupt)
    try:
        run()
    except (SystemExit, Exception, KeyboardInterrupt) as end:
        number = signal_received()
        if number is None or (isinstance(end, SystemExit) and not end.code):
            raise
        sys.exit(128 + number)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    raise KeyboardInterrupt
