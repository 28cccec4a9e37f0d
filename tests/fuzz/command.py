"""Commands in this process, several thousand of them in a minute."""

import contextlib
import functools
import io
import sys
import warnings
from dataclasses import dataclass

import numpy as np
from typer.main import get_command

from culpa.cli import app


@dataclass
class Result:
    exit_code: int
    stdout: str
    stderr: str


@functools.cache
def program():
    return get_command(app)  # once: it has several hundred options


def run(arguments, stdin=b""):
    """What a command would print, and its exit code; exceptions that would be tracebacks are raised."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    code = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with np.errstate(all="ignore"):
                program().main([str(word) for word in arguments], prog_name="culpa")
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.stdin = before
    return Result(code, *(_text(stream) for stream in (out, err)))


def _text(stream):
    stream.flush()
    return stream.buffer.getvalue().decode(errors="replace")
