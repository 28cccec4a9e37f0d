"""Ctrl-C, SIGTERM and SIGHUP: the command cleans up, says so, and ends with 128 plus the number of the signal.

A signal can arrive anywhere. Libraries may turn the `KeyboardInterrupt` into an exception of their own, and it may be
raised outside the code of a command, so what counts is that the signal came, not which exception arrives.

Python raises `KeyboardInterrupt` between two of its own instructions. A call of LAPACK or of a compiler is one instruction
and may take many seconds. So a thread waits for signals too. If the command has not ended soon after one, the thread
removes unfinished files and ends the process.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from os import _exit as end_process
from types import FrameType
from typing import NoReturn

from culpa._core.files import remove_unfinished

_SECONDS_TO_END = 0.3  # after a signal
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

_received: list[int] = []
_ending: list[BaseException] = []  # what the program ends with; later signals change nothing
_said = threading.Event()
_done = threading.Event()  # the program has done all its work


def signal_received() -> int | None:
    """The signal that interrupted this command, if one did."""
    return _received[0] if _received else None


def say_interrupted() -> None:
    """Tell the user that the command was interrupted, once."""
    if not _said.is_set() and sys.stderr is not None:
        _said.set()
        with suppress(OSError, ValueError):  # nobody is listening any more
            # not by sys.stderr, which may be locked by the code that was interrupted
            os.write(sys.stderr.fileno(), b"Interrupted.\n")


def run_interruptible(run: Callable[[], None]) -> None:
    """Run a whole program so that it ends with exit code 130 on Ctrl-C, 143 on SIGTERM and 129 when the terminal closes."""
    sys.unraisablehook = _report_unraisable
    _watch_signals()  # first, because a signal while the thread starts would raise an exception that nobody expects
    try:
        for each in _SIGNALS:
            # nohup, and shells for jobs in the background, ignore some
            if signal.getsignal(each) is not signal.SIG_IGN:
                signal.signal(each, _interrupt)
        run()
    except (SystemExit, Exception, KeyboardInterrupt) as end:
        _ending.append(end)
        number = signal_received()
        if isinstance(end, SystemExit) and not end.code:
            _done.set()
        if number is None or _done.is_set():
            raise
        with suppress(OSError, ValueError):  # nobody reads it any more
            sys.stdout.flush()
        _end(number)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _ending:  # raised outside all code of the program, it would end in a traceback
        return
    _received.append(number)
    raise KeyboardInterrupt


def _report_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    """Report an exception that Python cannot raise, except for an interrupt, which the waiting thread answers."""
    if not (_received and isinstance(unraisable.exc_value, KeyboardInterrupt)):
        sys.__unraisablehook__(unraisable)


def _watch_signals() -> None:
    """Start the thread that ends the process if Python does not."""
    arrived, note = os.pipe()
    os.set_blocking(note, False)
    signal.set_wakeup_fd(note, warn_on_full_buffer=False)  # where the system writes the numbers of signals at once
    threading.Thread(target=_end_after_signal, args=(arrived,), daemon=True, name="culpa-signals").start()


def _end_after_signal(arrived: int) -> None:
    number = 0
    while number not in _SIGNALS:
        number = os.read(arrived, 1)[0]
    if not _done.wait(_SECONDS_TO_END):
        _end(number)


def _end(number: int) -> NoReturn:
    """End the process at once: Python would wait for threads, and forget the code if the signal came during an import."""
    remove_unfinished()
    say_interrupted()
    end_process(128 + number)
