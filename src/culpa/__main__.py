"""The command ``culpa``, which is also ``python -m culpa``.

Importing the commands takes longer than anything else that happens before a command begins. So signals are listened for
first, and Ctrl-C in that time ends the command as it does later.
"""

import sys
from importlib.util import find_spec

from culpa._core.interrupts import run_interruptible
from culpa._core.output import make_streams_whole


def main() -> None:
    """Entry point of the command."""
    make_streams_whole()
    run_interruptible(_run)


def _run() -> None:
    for package in ("typer", "rich", "pyarrow", "pandas"):
        if find_spec(package) is None:
            sys.exit(f"culpa: the command line needs {package}: pip install 'culpa[app]'")
    from culpa.cli import app, console

    console.run_to_end(app)


if __name__ == "__main__":
    main()
