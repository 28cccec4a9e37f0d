"""A number of random cases, each in a worker process that may die.

Every case has its own random numbers, made of the seed of the campaign and the number of the case, so that a finding can be
repeated alone: ``python -m tests.fuzz --seed SEED --tables 1 --first NUMBER``.
"""

import argparse
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE = 300  # seconds that a case may take


@dataclass
class Tally:
    """What became of the cases of one kind."""

    what: str
    outcomes: Counter = field(default_factory=Counter)
    findings: list = field(default_factory=list)
    seconds: float = 0.0

    def lines(self):
        yield f"{self.what}: {sum(self.outcomes.values()):,} in {self.seconds:,.0f} s, {len(self.findings)} findings"
        for outcome, count in self.outcomes.most_common(20):
            yield f"  {count:>9,} {outcome}"
        yield from (f"  FINDING {text}" for text in self.findings[:50])


def main():
    arguments = _arguments()
    if arguments.work:
        work(arguments.work, arguments.seed, arguments.first, arguments.count)
        return
    seed = secrets.randbelow(10**9) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)  # noqa: T201
    found = 0
    for what in ("tables", "models", "kills"):
        tally = campaign(what, seed, arguments.first, getattr(arguments, what))
        print("\n".join(tally.lines()), flush=True)  # noqa: T201
        found += len(tally.findings)
    sys.exit(1 if found else 0)


def _arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--tables", type=int, default=0, help="number of random tables")
    parser.add_argument("--models", type=int, default=0, help="number of random model files")
    parser.add_argument("--kills", type=int, default=0, help="number of commands to kill")
    parser.add_argument("--seed", type=int, help="default: a fresh one, which is printed")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--work", choices=["tables", "models", "kills"], help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def campaign(what, seed, first, count):
    """Run cases in worker processes; a case that ends its worker is a finding, and the next worker goes on after it."""
    tally, began, done = Tally(what), time.monotonic(), 0
    while done < count:
        words = ["--work", what, "--seed", str(seed), "--first", str(first + done), "--count", str(count - done)]
        command = [sys.executable, str(Path(__file__).parent), *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as worker:
            for line in worker.stdout:
                outcome = line.rstrip("\n").removeprefix("case ")
                if outcome != line.rstrip("\n"):
                    _note(tally, outcome, f"seed {seed}, {what} {first + done}")
                    done += 1
        if worker.returncode and done < count:
            _note(tally, f"FINDING the process ended with {worker.returncode}", f"seed {seed}, {what} {first + done}")
            done += 1
    tally.seconds = time.monotonic() - began
    return tally


def _note(tally, outcome, place):
    text = outcome.removeprefix("FINDING ")
    if text != outcome:
        tally.findings.append(f"({place}) {text}")
        outcome = "finding"
    tally.outcomes[outcome] += 1


def work(what, seed, first, count):
    """Cases in this process, one line of standard output for each."""
    import faulthandler

    import numpy as np

    if what == "tables":
        from fuzz.tables import try_table as attempt
    elif what == "models":
        from fuzz.models import try_model as attempt
    else:
        from fuzz.kills import try_kill as attempt
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, first + count):
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            if os.environ.get("CULPA_FUZZ_DIE_AT") == str(number):  # so that tests see what becomes of it
                os.kill(os.getpid(), signal.SIGSEGV)
            print("case", _outcome(attempt, np.random.default_rng([seed, number]), Path(folder)), flush=True)  # noqa: T201


def _outcome(attempt, rng, folder):
    from fuzz.finding import Finding

    try:
        return attempt(rng, folder)
    except Finding as finding:
        return f"FINDING {' '.join(str(finding).split())}"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return f"FINDING {text} ({Path(where.filename).name}, line {where.lineno})"
