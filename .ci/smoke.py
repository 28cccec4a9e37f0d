"""Use an installed culpa from Python and from the command line, in an empty folder."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import culpa


def main() -> None:
    """Fit, explain, save, load, report; then the same by the command that was installed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(200, 6))
    table = pd.DataFrame(X, columns=list("abcdef"))
    detector = culpa.PCADetector().fit(table)
    why = detector.explain(table[:3])
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-9)
    detector.save("plant.culpa")
    np.testing.assert_allclose(culpa.load("plant.culpa").explain(table[:3]).values, why.values, rtol=1e-9)
    detector.report(table).save("report.html")
    table.to_csv("new.csv", index=False)
    table.to_parquet("new.parquet")
    command = str(Path(sys.executable).with_name("culpa"))
    for words in (
        ["--version"],
        ["fit", "new.csv", "-o", "again.culpa", "--quiet"],
        ["explain", "new.parquet", "-m", "again.culpa", "-o", "blame.csv", "--all", "--quiet"],
    ):
        subprocess.run([command, *words], check=True)
    assert len(pd.read_csv("blame.csv")) == len(table)
    print(f"{culpa.__file__}: works with NumPy {np.__version__} and pandas {pd.__version__}")


if __name__ == "__main__":
    main()
