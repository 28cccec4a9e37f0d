"""What commands say to people: messages on standard error, one-sentence errors, progress on a terminal."""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn, cast

import typer

from culpa._core.progress import ProgressBar
from culpa._core.warning import warnings_told_to
from culpa._core.words import count as count

if TYPE_CHECKING:
    from culpa.io.tables import Source
    from culpa.io.tables.problems import TableProblems
    from culpa.jobs.batches import Listener

_MOST_PROBLEMS = 20  # shown
_ALMOST = 0.999  # the share at which a bar stays until it is taken away
words: list[str] = []  # of the command line, for messages that suggest another one
_bar = ProgressBar()  # a process has one at most
owned: list[bool] = []  # not empty where nothing but a command runs in this process


def say(text: str) -> None:
    """One line for a person, on standard error. If it cannot be written, the result of the command stays the same."""
    with suppress(OSError):
        _bar.clear()
        typer.echo(plain(text), err=True)


def plain(text: str) -> str:
    r"""A text without characters that would steer the terminal; names of columns may contain anything.

    >>> plain("temp\x1b[31m")
    'temp\\x1b[31m'
    """
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def warn(text: str) -> None:
    """A problem that does not stop the command."""
    say(f"Warning: {text}")


def tell_reading(source: "Source", *, quiet: bool) -> None:
    """How a table is read, on one line, where that was not given."""
    if not quiet and (decisions := source.decisions):
        say(f"{source.name}: {'; '.join(decisions)}.")


def tell_missing(source: "Source", *, quiet: bool) -> None:
    """How many cells said why they are missing, on one line."""
    if not quiet and (found := source.missing_found):
        listed = ", ".join(f"{text!r} ({number:,})" for text, number in found.most_common(8))
        say(f"{source.name}: read as missing: {listed}{', ...' if len(found) > 8 else ''}.")


def fail(text: str) -> NoReturn:
    """A user error: one sentence, exit code 2."""
    from culpa.cli.project import with_origin

    say(f"Error: {with_origin(' '.join(text.split()))}")
    raise typer.Exit(2)


def fail_with(error: "TableProblems") -> NoReturn:
    """Several problems of a table: one line each, and a command line that solves them; exit code 2."""
    say(f"Error: {error.table} has {len(error.problems)} problems:")
    for problem in error.problems[:_MOST_PROBLEMS]:
        say(f"- {problem.text}")
    if len(error.problems) > _MOST_PROBLEMS:
        say(f"- and {len(error.problems) - _MOST_PROBLEMS} more")
    if command := error.command(words):
        open_ones = sum(not problem.options for problem in error.problems)
        say(f"This solves {'them' if not open_ones else f'all but {open_ones}'}: {command}")
    raise typer.Exit(2)


@contextmanager
def _warnings_of_others_told() -> Iterator[None]:
    """Show warnings of other packages as one line, except about styles and extensions of Excel files."""

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any, **__: Any) -> None:
        if "openpyxl" not in filename:
            warn(str(message))

    before = warnings.showwarning
    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


@contextmanager
def guarded() -> Iterator[None]:
    """Turn errors into one sentence, warnings into one line, an interrupt into its exit code; stop when a pipe closes."""
    import signal

    from culpa._core.interrupts import say_interrupted, signal_received

    try:
        with warnings_told_to(warn), _warnings_of_others_told():
            yield
    except (KeyboardInterrupt, Exception) as error:
        if isinstance(error, KeyboardInterrupt) or signal_received():
            say_interrupted()
            raise typer.Exit(128 + (signal_received() or signal.SIGINT)) from None
        if isinstance(error, BrokenPipeError):
            _close_quietly()
            raise typer.Exit(0) from None
        if hasattr(error, "problems"):  # of a table, whose module need not be loaded for this
            fail_with(cast("TableProblems", error))
        if isinstance(error, OSError):
            fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
        if isinstance(error, ValueError | ImportError | MemoryError | NotImplementedError):
            fail(str(error) or "not enough memory.")
        raise


def run_to_end(app: Callable[[], None]) -> None:
    """Run the whole command line. Its answer is complete, or the exit code says that it is not."""
    from culpa._core.output import problem_of_output

    owned.append(True)
    ended = SystemExit(0)
    try:
        with guarded():  # for help and version, which are no commands
            try:
                app()
            except SystemExit as end:
                ended = end
            sys.stdout.flush()
            problem = problem_of_output()  # of which a library may have made something else
            if problem is not None and (not ended.code or (isinstance(problem, BrokenPipeError) and ended.code == 1)):
                raise problem
    except typer.Exit as end:
        raise SystemExit(end.exit_code) from None
    raise ended


@contextmanager
def progress_bar(source: "Source", *, quiet: bool) -> Iterator["Listener"]:
    """Who is told how a job gets on: a bar on a terminal; elsewhere, only warnings are shown."""
    from culpa.jobs.batches import Listener

    if not _has_bar(quiet=quiet or source.live):
        yield Listener(warning=warn)
        return
    step, began = [""], time.monotonic()

    def draw(rows: int) -> None:
        share, seconds = source.share() or 0.0, max(time.monotonic() - began, 1e-3)
        left = f"{seconds * (1 - share) / share:,.0f} s left" if share else ""
        bar(share, ", ".join(filter(None, (count(rows, "row"), f"{rows / seconds:,.0f}/s", left, *step))))

    def note(text: str) -> None:
        step[0] = text

    with work_bar() as bar:
        yield Listener(draw, warn, note)


@contextmanager
def work_bar(*, quiet: bool = False) -> Iterator[Callable[[float, str], None]]:
    """A function that reports the share of the work done and the current step: a bar on a terminal, nothing elsewhere."""
    try:
        yield (lambda share, doing: _bar(min(share, _ALMOST), doing)) if _has_bar(quiet=quiet) else (lambda *_: None)
    finally:
        _bar.clear()


def _has_bar(*, quiet: bool) -> bool:
    return not quiet and sys.stderr is not None and sys.stderr.isatty()


def _close_quietly() -> None:
    """The reader of our output is gone: keep Python from complaining about it at exit."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
