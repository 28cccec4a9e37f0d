"""Exact values and compiled rows on a GPU (torch) and on the CPU: `python -m benchmarks.gpu [--cpu]`, prints JSON.

Run it with and without --cpu, on one machine or two, and compare; the models and rows are the same.
"""

import argparse
import json
import platform
import time
from typing import Any

import numpy as np

from culpa import Explainer, LatentGaussian, shapley
from culpa._kernels.elimination_steps import ELIMINATION


def model(d: int, p: int) -> LatentGaussian:
    rng = np.random.default_rng(0)
    return LatentGaussian(np.zeros(d), rng.normal(size=(d, p)), 0.3)


def timed(run: Any, synchronise: Any, repeat: int = 3) -> tuple[float, Any]:
    result = run()
    best = float("inf")
    for _ in range(repeat):
        synchronise()
        start = time.perf_counter()
        result = run()
        synchronise()
        best = min(best, time.perf_counter() - start)
    return best, result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true", help="NumPy and compiled kernels instead of torch on the GPU")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--most", type=int, default=30, help="largest number of features for exact values")
    options = parser.parse_args()
    if options.cpu:
        ELIMINATION.kernel.worth = 0.0  # always the compiled walk
        results: dict[str, Any] = {"device": f"CPU, {platform.processor() or platform.machine()}"}

        def send(X: np.ndarray) -> Any:
            return X

        def synchronise() -> None:
            return None
    else:
        import torch

        results = {"device": torch.cuda.get_device_name(0), "torch": torch.__version__}

        def send(X: np.ndarray) -> Any:
            return torch.asarray(X, device="cuda")

        synchronise = torch.cuda.synchronize

    for d, p, n in ((11, 8, 1), (20, 12, 1), (24, 14, 1), (24, 14, 100), (28, 16, 1), (30, 12, 1)):
        if d > options.most:
            continue
        explainer = Explainer(model(d, p), method="exact")
        X = model(d, p).sample(n, 1) + 1.0
        there = send(X)
        seconds, shares = timed(
            lambda explainer=explainer, there=there: shapley.exact(explainer.game, there, explainer.players),
            synchronise,
            1 if d >= 28 else 3,
        )
        values = np.asarray(shares.values.tolist())
        gap = float(np.abs((values.sum(axis=1) + explainer.game.base_value) / explainer.score(X) - 1).max())
        results[f"exact d={d} p={p}, {n} row(s)"] = {
            "seconds": seconds,
            "efficiency gap": gap,
            "values": values[0].tolist(),
        }

    explainer = Explainer(model(21, 13), method="exact")
    forms = shapley.compile_exact(explainer.game, explainer.players)
    X = np.random.default_rng(2).normal(size=(options.rows, 21))
    there = send(X)
    seconds, shares = timed(lambda: forms(there), synchronise)
    few = np.asarray(shares.values[:1000].tolist())
    total = few.sum(axis=1) + explainer.game.base_value
    results[f"compiled d=21, {options.rows} rows"] = {
        "seconds": seconds,
        "efficiency gap": float(np.abs(total / explainer.score(X[:1000]) - 1).max()),
        "checksum": float(np.abs(few).sum()),
    }
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
