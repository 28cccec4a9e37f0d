"""`python -m benchmarks.tables`: the command line on a large Parquet file, beside reading and rewriting it with pyarrow.

Every job is a process of its own; time is wall time including start-up, memory the process's peak.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REWRITE = """
import sys, pyarrow.parquet as pq
with pq.ParquetFile(sys.argv[1]) as file, pq.ParquetWriter(sys.argv[2], file.schema_arrow) as out:
    for batch in file.iter_batches():
        out.write_batch(batch)
"""
REWRITE_FAST = REWRITE.replace("file.schema_arrow)", "file.schema_arrow, use_dictionary=False)")
REWRITE_WHOLE = "import sys, pyarrow.parquet as pq; pq.write_table(pq.read_table(sys.argv[1]), sys.argv[2])"


def make(path: Path, n_rows: int, n_features: int = 10) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(4, n_features))
    schema = pa.schema([("time", pa.int64())] + [(f"x{i}", pa.float64()) for i in range(n_features)])
    with pq.ParquetWriter(path, schema) as out:
        for start in range(0, n_rows, 1 << 20):
            n = min(1 << 20, n_rows - start)
            X = rng.normal(size=(n, 4)) @ loadings + 0.3 * rng.normal(size=(n, n_features))
            columns = [pa.array(np.arange(start, start + n)), *(pa.array(np.ascontiguousarray(x)) for x in X.T)]
            out.write_table(pa.table(columns, schema=schema))


def run(name: str, command: list[str], n_rows: int) -> dict[str, Any]:
    start = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    assert os.waitstatus_to_exitcode(status) == 0, command
    return {"job": name, "seconds": seconds, "rows/s": n_rows / seconds, "peak MB": usage.ru_maxrss / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="where to put the files; a temporary folder by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        table, model = folder / "table.parquet", folder / "model.culpa"
        # in a process of its own, because the memory of this one would be counted to the processes it starts
        make_it = f"from benchmarks.tables import make, Path; make(Path({str(table)!r}), {options.rows})"
        subprocess.run([sys.executable, "-c", make_it], check=True)
        culpa = [sys.executable, "-m", "culpa"]

        def rewrite(code: str) -> list[str]:
            return [sys.executable, "-c", code, str(table), str(folder / "rewritten")]

        def answer(command: str, output: str, *options: str) -> list[str]:
            return [*culpa, command, str(table), "-m", str(model), "-o", str(folder / output), *options]

        jobs = {
            "rewrite, batches": rewrite(REWRITE),
            "rewrite, batches, no dictionaries": rewrite(REWRITE_FAST),
            "rewrite, whole table": rewrite(REWRITE_WHOLE),
            "fit": [*culpa, "fit", str(table), "-o", str(model), "--id", "time"],
            "score": answer("score", "scores.parquet", "--id", "time"),
            "explain": answer("explain", "flagged.parquet", "--id", "time"),
            "explain --all": answer("explain", "why.parquet", "--id", "time", "--all"),
        }
        rewriting = {}
        for job, command in jobs.items():
            repeat = 2 if job.startswith("rewrite") else 1  # the first one also warms the file cache
            result = min((run(job, command, options.rows) for _ in range(repeat)), key=lambda line: line["seconds"])
            if repeat > 1:
                rewriting[job] = result["seconds"]
            else:
                result |= {f"speed of {name}": seconds / result["seconds"] for name, seconds in rewriting.items()}
            print(json.dumps(result))


if __name__ == "__main__":
    main()
