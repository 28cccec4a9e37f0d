"""The command ``culpa``, which is also ``python -m culpa``.

Importing the commands takes longer than anything else that happens before a command begins. So signals are listened for
first, and Ctrl-C in that time ends the command as it does later.
"""

import os
import sys

from culpa._core.interrupts import run_interruptible


def main() -> None:
    """Entry point of the command."""
    if sys.stderr is None:  # it is closed, but libraries expect it
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    run_interruptible(_run)


def _run() -> None:
    from culpa.cli import app

    app()


if __name__ == "__main__":
    main()
