"""Memory of a long stream: ``python -m benchmarks.incident_stream`` pipes rows with many incidents to `culpa incidents`."""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from culpa import PCADetector

FEATURES, BATCH = 10, 50_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--incidents", type=int, default=1000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(3, FEATURES))
    names = [f"x{k}" for k in range(FEATURES)]

    def rows(n: int) -> np.ndarray:
        return rng.normal(size=(n, 3)) @ loadings + 0.5 * rng.normal(size=(n, FEATURES))

    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "m.culpa")
        import pandas as pd

        PCADetector(confidence=0.999999).fit(pd.DataFrame(rows(20_000), columns=names)).save(model)
        command = [sys.executable, "-m", "culpa", "incidents", "-", "-m", str(model), "--input-format", "arrow", "-q"]
        command += ["--gap", "50", "-o", str(Path(folder, "out.csv"))]
        process = subprocess.Popen(command, stdin=subprocess.PIPE)
        assert process.stdin is not None
        schema = pa.schema([(name, pa.float64()) for name in names])
        every, started = options.rows // options.incidents, time.perf_counter()
        with pa.ipc.new_stream(process.stdin, schema) as writer:
            for start in range(0, options.rows, BATCH):
                X = rows(min(BATCH, options.rows - start))
                at = np.arange(start, start + len(X)) % every
                X[at < every // 10, (start // every) % FEATURES] += 12  # a tenth of the rows belongs to incidents
                writer.write_batch(pa.record_batch([pa.array(column) for column in X.T], schema=schema))
        process.stdin.close()
        code, seconds = process.wait(), time.perf_counter() - started
        found = len(Path(folder, "out.csv").read_text().splitlines()) - 1
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{options.rows:,} rows, {found:,} incidents, exit {code}: {seconds:.0f} s, peak memory {peak:.0f} MB")


if __name__ == "__main__":
    main()
