"""`python -m benchmarks.spark`: rows per second of the library, the command line and Spark, and a fleet of models.

Spark makes the rows itself, so that no disk is measured. Rates are per second of processor time, of all processes
together, because a machine that is shared with others has no wall clock worth reading; the wall clock is shown, too.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from culpa import PCADetector
from culpa import spark as on_spark
from culpa._core.validation import Table

FEATURES, LATENT = 10, 3
NAMES = tuple(f"x{k}" for k in range(FEATURES))
_TICK = os.sysconf("SC_CLK_TCK")


def loadings() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(LATENT, FEATURES))


def rows_in_memory(n: int, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(size=(n, LATENT)) @ loadings() + 0.5 * random.normal(size=(n, FEATURES))


def session(partitions: int) -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "3g")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def rows_in_spark(spark: Any, n: int, partitions: int, machines: int = 0) -> Any:
    """Rows with the same distribution, made where they are needed; rows of a machine follow each other."""
    from pyspark.sql import functions as F

    rows = spark.range(0, n, 1, partitions)
    latent = [F.randn(seed=k).alias(f"z{k}") for k in range(LATENT)]
    noise = [F.randn(seed=100 + k).alias(f"e{k}") for k in range(FEATURES)]
    weights = loadings()
    features = [
        sum((float(weights[j, k]) * F.col(f"z{j}") for j in range(LATENT)), 0.5 * F.col(f"e{k}")).alias(name)
        for k, name in enumerate(NAMES)
    ]
    key = [(F.col("id") % machines).alias("machine")] if machines else ["id"]
    return rows.select("id", *latent, *noise).select(*key, *features)


class Processes:
    """Processor time and peak memory of this process and all below it."""

    def __init__(self) -> None:
        self.times: dict[int, float] = {}
        self.peaks: dict[int, tuple[str, float]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "Processes":
        self.look()
        self._before = dict(self.times)
        self._started = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.look()
        self.wall = time.perf_counter() - self._started
        self.seconds = sum(self.times.values()) - sum(self._before.values())

    def _watch(self) -> None:
        while not self._stop.wait(1.0):
            self.look()

    def look(self) -> None:
        parents = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                name, fields = _status(folder)
            except (OSError, IndexError):
                continue
            parents[int(folder.name)] = (int(fields[1]), name, (int(fields[11]) + int(fields[12])) / _TICK, folder)
        for pid, (_, name, seconds, folder) in parents.items():
            if _is_below(pid, parents):
                self.times[pid] = seconds
                self.peaks[pid] = (name, _peak(folder))

    def worker_peak(self) -> float:
        """Of the Python processes of Spark, in MB."""
        return max(
            (mb for pid, (name, mb) in self.peaks.items() if "python" in name and pid != os.getpid()), default=0.0
        )


def _status(folder: Path) -> tuple[str, list[str]]:
    text = (folder / "stat").read_text()
    return text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()


def _is_below(pid: int, parents: dict[int, Any]) -> bool:
    while pid in parents and pid != os.getpid():
        pid = parents[pid][0]
    return pid == os.getpid()


def _peak(folder: Path) -> float:
    try:
        lines = (folder / "status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def line(what: str, n: int, processes: Processes, **more: Any) -> dict[str, Any]:
    return {
        "what": what,
        "rows": n,
        "rows per second of processor time": round(n / processes.seconds),
        "processor seconds": round(processes.seconds, 1),
        "wall seconds": round(processes.wall, 1),
        **more,
    }


def measured(what: str, n: int, job: Callable[[], Any]) -> dict[str, Any]:
    with Processes() as processes:
        job()
    return line(what, n, processes, **{"peak MB of a Python worker": round(processes.worker_peak())})


def to_nowhere(df: Any) -> None:
    df.write.format("noop").mode("overwrite").save()


def in_library(detector: PCADetector, n: int, chunk: int = 1 << 16) -> list[dict[str, Any]]:
    X = rows_in_memory(chunk)
    explainer, fitted = detector.explainer(), detector.fitted
    jobs = {
        "library, score": lambda: fitted.score(Table(X, NAMES)),
        "library, explain": lambda: explainer._one_pass.values_of_scored(fitted.rows(Table(X, NAMES))),
    }
    lines = []
    for what, job in jobs.items():
        with Processes() as processes:
            for _ in range(n // chunk):
                job()
        lines.append(line(what, n // chunk * chunk, processes))
    return lines


def on_command_line(detector: PCADetector, n: int) -> list[dict[str, Any]]:
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        pd.DataFrame(rows_in_memory(n), columns=list(NAMES)).to_parquet(Path(folder, "rows.parquet"))
        detector.save(Path(folder, "m.culpa"))
        for command, more in (("score", []), ("explain", ["--all"])):
            arguments = [command, "rows.parquet", "-m", "m.culpa", "-o", f"{command}.parquet", "-q", *more]
            before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run([sys.executable, "-m", "culpa", *arguments], cwd=folder, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            processes = Processes()
            processes.seconds, processes.wall = seconds, time.perf_counter() - started
            lines.append(line(f"command line, {command}", n, processes))
    return lines


def on_workers(spark: Any, detector: PCADetector, n: int) -> list[dict[str, Any]]:
    rows = rows_in_spark(spark, n, 16)
    on_spark.score(rows.limit(1000), detector).count()  # starts the Python workers
    return [
        measured("Spark, make the rows", n, lambda: to_nowhere(rows)),
        measured(
            "Spark, pass the rows through Python", n, lambda: to_nowhere(rows.mapInArrow(_unchanged, rows.schema))
        ),
        measured("Spark, score", n, lambda: to_nowhere(on_spark.score(rows, detector))),
        measured("Spark, explain", n, lambda: to_nowhere(on_spark.explain(rows, detector))),
        measured("Spark, fit", n, lambda: on_spark.fit(rows, NAMES)),
    ]


def _unchanged(batches: Any) -> Any:
    yield from batches


def fleet(spark: Any, machines: int, per_machine: int) -> list[dict[str, Any]]:
    n = machines * per_machine
    rows = rows_in_spark(spark, n, 16, machines)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "models"))
        fits = measured(
            f"Spark, fit_many: {machines:,} machines",
            n,
            lambda: on_spark.fit_many(rows, "machine", NAMES).write.parquet(path),
        )
        models = spark.read.parquet(path)
        assert models.where("model is not null").count() == machines
        scores = measured("Spark, score_many", n, lambda: to_nowhere(on_spark.score_many(rows, models, "machine")))
    return [fits, scores]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--machines", type=int, default=10_000)
    parser.add_argument("--per-machine", type=int, default=1000)
    parser.add_argument("--only", choices=("library", "command", "spark", "fleet"))
    options = parser.parse_args()
    detector = PCADetector().fit(pd.DataFrame(rows_in_memory(20_000), columns=list(NAMES)))
    detector.explainer().compile()
    wanted = [options.only] if options.only else ["library", "command", "spark", "fleet"]
    spark = session(32) if {"spark", "fleet"} & set(wanted) else None
    parts = {
        "library": lambda: in_library(detector, options.rows),
        "command": lambda: on_command_line(detector, options.rows),
        "spark": lambda: on_workers(spark, detector, options.rows),
        "fleet": lambda: fleet(spark, options.machines, options.per_machine),
    }
    for part in wanted:
        for result in parts[part]():
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
