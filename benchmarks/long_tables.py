"""A long historian file as a wide table, beside reading a wide CSV with the same cells.

Every job is a process of its own. Seconds are those of the processor, which reads with one thread, so that other work on
the machine does not matter. Memory is the peak of the process.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TAGS = 50

READ = """
import json, sys, time
from culpa.io.tables import Options, open_table
path, options, tags = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
options = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
def read():
    start = time.process_time()
    table = open_table([path], Options(**options), print)
    rows = sum(len(batch.X) for batch in table.batches(tags, []))
    return rows, time.process_time() - start
runs = [read() for _ in range(3)]  # the first one also imports and warms the file cache
print(json.dumps({"rows": runs[0][0], "seconds": min(seconds for _, seconds in runs)}))
"""


def make(folder: Path, n_lines: int) -> None:
    """The same cells as a wide and as a long CSV; a reading of every tag each minute."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    n_rows = n_lines // TAGS
    times = pd.date_range("2024-01-01", periods=n_rows, freq="1min")
    wide = pd.DataFrame(rng.normal(size=(n_rows, TAGS)).round(6), columns=tags(), index=times.rename("time"))
    wide.to_csv(folder / "wide.csv")
    long = wide.stack().rename("value").rename_axis(["time", "tag"]).reset_index()
    long["quality"] = "Good"
    long[["tag", "time", "value", "quality"]].to_csv(folder / "long.csv", index=False)


def tags() -> list[str]:
    return [f"FI{100 + i}.PV" for i in range(TAGS)]


def read(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-c", READ, str(path), json.dumps(options), json.dumps(tags())]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    found = json.loads(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, command
    return {**found, "peak MB": usage.ru_maxrss / 1024}


def long_tables(quick: bool) -> list[dict[str, Any]]:
    """Cells per second of both, and the ratio, for two sizes, so that memory can be compared."""
    lines = []
    for n_lines in (1_000_000,) if quick else (1_000_000, 4_000_000):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            # in a process of its own, because the memory of this one would be counted to the processes it starts
            make_it = f"from benchmarks.long_tables import make, Path; make(Path({name!r}), {n_lines})"
            subprocess.run([sys.executable, "-c", make_it], check=True)
            wide = read(folder / "wide.csv", {})
            long = read(folder / "long.csv", {"long": ["tag", "time", "value", "quality"], "every": "1min"})
        assert wide["rows"] == long["rows"] == n_lines // TAGS
        lines.append(
            {
                "cells": n_lines,
                "wide, cells/s": n_lines / wide["seconds"],
                "long, cells/s": n_lines / long["seconds"],
                "ratio": wide["seconds"] / long["seconds"],
                "wide, peak MB": wide["peak MB"],
                "long, peak MB": long["peak MB"],
            }
        )
    return lines
