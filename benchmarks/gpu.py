"""Exact values and compiled rows on a GPU and on the CPU: `python -m benchmarks.gpu [--cpu]`, prints JSON.

Exact values on the GPU use culpa's CUDA kernels (CuPy), and compiled rows torch tensors. Run it with and without --cpu, on
one machine or two, and compare; the models and rows are the same.
"""

import argparse
import json
import platform
import time
from typing import Any

import numpy as np

from culpa import Explainer, LatentGaussian, shapley
from culpa._kernels import gpu
from culpa._kernels.elimination_steps import ELIMINATION

EXACT = ((24, 14, 1), (24, 14, 100), (28, 16, 1), (30, 12, 1), (30, 12, 100), (33, 12, 1), (36, 12, 1), (40, 13, 1))
_MOST_ON_CPU = 30  # features
_MULTIPLY_ADDS_PER_CLOCK = 64  # float64, of a multiprocessor of an A100, H100 or H200


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


def multiply_adds(d: int, n: int) -> float:
    """Float64 operations of the walk: what n rows share, and their own; a multiply-add counts once."""
    total = 0.0
    for m in range(1, d + 1):
        j = m - 1
        shared, own = 4 + 2 * j + 3 * j * (j + 1) / 2, 7 + 3 * j
        total += 2.0 ** (d - m) * (shared + n * own)
    return total


def share_of_peak(d: int, n: int, seconds: float) -> float:
    import cupy

    attributes = cupy.cuda.Device().attributes
    peak = attributes["MultiProcessorCount"] * _MULTIPLY_ADDS_PER_CLOCK * attributes["ClockRate"] * 1e3
    return float(multiply_adds(d, n) / seconds / peak)


def kernels() -> dict[str, Any]:
    """Registers of each thread, and bytes of local memory, which hold states and spilled registers."""
    device = gpu.Cuda()
    found = {}
    for name in ("walk", "tabulate", "walk_rows", "expand_pairs", "expand_rows"):
        kernel = device.module.get_function(name)
        found[name] = {"registers": kernel.num_regs, "local bytes": kernel.local_size_bytes}
    return found


def exact_case(d: int, p: int, n: int, device: Any, synchronise: Any) -> dict[str, Any]:
    explainer = Explainer(model(d, p), method="exact", device=device)
    X = model(d, p).sample(n, 1) + 1.0
    seconds, shares = timed(
        lambda: shapley.exact(explainer.game, X, explainer.players, device=device), synchronise, 1 if d >= 33 else 3
    )
    gap = float(np.abs((shares.values.sum(axis=1) + explainer.game.base_value) / explainer.score(X) - 1).max())
    found = {"seconds": seconds, "efficiency gap": gap, "values": shares.values[0].tolist()}
    return found if device == "cpu" else found | {"share of peak": share_of_peak(d, n, seconds)}


def compiled_rows(n: int, send: Any, synchronise: Any) -> dict[str, float]:
    explainer = Explainer(model(21, 13), method="exact")
    forms = shapley.compile_exact(explainer.game, explainer.players)
    X = np.random.default_rng(2).normal(size=(n, 21))
    there = send(X)
    seconds, shares = timed(lambda: forms(there), synchronise)
    few = np.asarray(shares.values[:1000].tolist())
    total = few.sum(axis=1) + explainer.game.base_value
    return {
        "seconds": seconds,
        "efficiency gap": float(np.abs(total / explainer.score(X[:1000]) - 1).max()),
        "checksum": float(np.abs(few).sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true", help="NumPy and compiled kernels instead of the GPU")
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of a compiled explainer; 0 leaves it out")
    parser.add_argument("--most", type=int, default=40, help="largest number of features for exact values")
    options = parser.parse_args()
    send: Any = np.asarray
    if options.cpu:
        ELIMINATION.kernel.worth = 0.0  # always the compiled walk
        results: dict[str, Any] = {"device": f"CPU, {platform.processor() or platform.machine()}"}

        def synchronise() -> None:
            return None
    else:
        import cupy

        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        results = {"device": name, "cupy": cupy.__version__, "kernels": kernels()}
        synchronise = cupy.cuda.Device().synchronize

    most = min(options.most, _MOST_ON_CPU) if options.cpu else options.most
    for d, p, n in EXACT:
        if d <= most:
            case = exact_case(d, p, n, "cpu" if options.cpu else "gpu", synchronise)
            results[f"exact d={d} p={p}, {n} row(s)"] = case
    if options.rows:
        if not options.cpu:
            import torch

            def send(X: np.ndarray) -> Any:
                return torch.asarray(X, device="cuda")

        results[f"compiled d=21, {options.rows} rows"] = compiled_rows(options.rows, send, synchronise)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
