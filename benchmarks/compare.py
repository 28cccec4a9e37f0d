"""Two versions of culpa side by side: `python -m benchmarks.compare BEFORE_SRC AFTER_SRC [--rounds N] [--only TEXT]`.

Each version runs in a process of its own and measures when it is told to. The two take turns, so that a busy machine
slows both down alike, and the shortest time of each counts. A ratio above 1 means that AFTER is slower. Kernels are
compiled beforehand; `--first-use` measures instead what a new installation, a new process and a second call take, and
`--pipes` lines on a pipe.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

WORKER = Path(__file__).with_name("compare_worker.py")


class Version:
    """One version of culpa in a process of its own."""

    def __init__(self, source: Path) -> None:
        command = [sys.executable, str(WORKER)]
        # modules of this folder must not stand in for packages of the same name, such as coverage
        environment = os.environ | {"PYTHONPATH": str(source), "PYTHONSAFEPATH": "1"}
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, question: str) -> object:
        """Send one line, read one line of JSON."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def alternate(sources: list[Path], rounds: int, only: str) -> dict[str, list[float]]:
    """Shortest seconds of each job, for both versions."""
    versions = [Version(source) for source in sources]
    jobs = versions[0].ask("jobs")
    assert isinstance(jobs, list)
    best: dict[str, list[float]] = {}
    try:
        for job in jobs:
            if only not in job:
                continue
            times: list[list[float]] = [[], []]
            for turn in range(2 * rounds):
                which = turn % 2 if turn // 2 % 2 else 1 - turn % 2  # nobody always goes first
                seconds = versions[which].ask(job)
                assert isinstance(seconds, float)
                times[which].append(seconds)
            best[job] = [min(own) for own in times]
            report(job, best[job])
    finally:
        for version in versions:
            version.stop()
    return best


def first_use(sources: list[Path], rounds: int) -> dict[str, list[float]]:
    """Shortest seconds of the first explanation: nothing compiled yet; in a new process; again in the same process."""
    from benchmarks.engine import FIRST_USE, FIRST_USE_SIZES

    best: dict[str, list[float]] = {}
    for d, p, n in FIRST_USE_SIZES:
        found: dict[str, list[float]] = {name: [float("inf")] * 2 for name in ("first", "new process", "same process")}
        for _ in range(rounds):
            for which, source in enumerate(sources):
                with tempfile.TemporaryDirectory() as fresh:
                    environment = os.environ | {"NUMBA_CACHE_DIR": fresh, "PYTHONPATH": str(source)}
                    command = [sys.executable, "-c", FIRST_USE, *map(str, (d, p, n))]
                    runs = [
                        subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                        for _ in range(2)
                    ]
                cold, warm = ([float(seconds) for seconds in run.stdout.split()] for run in runs)
                for name, seconds in zip(found, (cold[0], *warm), strict=True):
                    found[name][which] = min(found[name][which], seconds)
        for name, times in found.items():
            best[f"d={d}, {n} rows: {name}"] = times
            report(f"d={d}, {n} rows: {name}", times)
    return best


def pipes(sources: list[Path], rounds: int) -> dict[str, list[float]]:
    """Shortest seconds from a line on a pipe to its answer, after the first lines."""
    from benchmarks.whole import pipes as run_pipes

    best: dict[str, list[float]] = {}
    for _ in range(rounds):
        for which, source in enumerate(sources):
            for line in run_pipes(source):
                times = best.setdefault(f"a line of {line['format']}, d={line['d']}", [float("inf")] * 2)
                times[which] = min(times[which], line["shortest, ms"] / 1e3)
    for name, times in best.items():
        report(name, times)
    return best


def report(job: str, times: list[float]) -> None:
    before, after = times
    print(f"{job:55s} {before:10.5f} s {after:10.5f} s   ratio {after / before:5.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="source folder of one version, such as /old/src")
    parser.add_argument("after", type=Path, help="source folder of the other version")
    parser.add_argument("--rounds", type=int, default=10, help="turns that each version takes (default 10)")
    parser.add_argument("--only", default="", help="only jobs whose name contains this")
    parser.add_argument("--first-use", action="store_true", help="measure the first explanation instead")
    parser.add_argument("--pipes", action="store_true", help="measure lines on a pipe instead")
    options = parser.parse_args()
    sources = [options.before.resolve(), options.after.resolve()]
    print(f"{'':55s} {'before':>12s} {'after':>12s}")
    if options.first_use:
        ratios = first_use(sources, options.rounds)
    elif options.pipes:
        ratios = pipes(sources, options.rounds)
    else:
        ratios = alternate(sources, options.rounds, options.only)
    worst = max(ratios, key=lambda job: ratios[job][1] / ratios[job][0])
    print(f"worst: {worst}, ratio {ratios[worst][1] / ratios[worst][0]:.3f}")


if __name__ == "__main__":
    main()
