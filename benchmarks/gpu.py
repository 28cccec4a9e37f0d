"""Exact values, sampled orders and compiled rows on a GPU and on the CPU: `python -m benchmarks.gpu [--cpu]`, prints JSON.

Run it with and without --cpu, on one machine or two, and compare; the models and rows are the same.
"""

import argparse
import json
import platform
import time
from typing import Any

import numpy as np

from culpa import Explainer, LatentGaussian, shapley
from culpa._core.threads import n_threads
from culpa._kernels.contributions import CONTRIBUTIONS
from culpa._kernels.cuda import device as gpu
from culpa._kernels.elimination_steps import ELIMINATION
from culpa._kernels.factored_steps import FACTORED

EXACT = ((24, 14, 1), (24, 14, 100), (28, 16, 1), (30, 12, 1), (30, 12, 100), (33, 12, 1), (36, 12, 1), (40, 13, 1))
TINY, EXACT_TINY = 1e-8, ((26, 12, 1), (26, 12, 100), (30, 12, 1), (30, 12, 100), (36, 12, 1))  # noise variance
SAMPLED = ((166, 33, 1), (166, 33, 100), (166, 33, 256), (1000, 100, 100))  # features, components, rows
COMPILED = ((21, 1, 1_000_000), (166, 6, 2_000), (166, 6, 100_000))  # features, replicates, rows
_MOST_ON_CPU = 30  # features
_MOST_PRODUCTS_ON_CPU = 5e10
_MULTIPLY_ADDS_PER_CLOCK = 64  # float64, of a multiprocessor of an A100, H100 or H200


def model(d: int, p: int, noise: float = 0.3) -> LatentGaussian:
    rng = np.random.default_rng(0)
    return LatentGaussian(np.zeros(d), rng.normal(size=(d, p)), noise)


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


def multiply_adds(d: int, n: int, *, factors: bool) -> float:
    """Float64 operations of the walk: what n rows share, and their own; a multiply-add counts once."""
    total = 0.0
    for m in range(1, d + 1):
        j = m - 1
        cells = j * (j + 1) / 2
        shared, own = (14 * m + 2 * j + 7 * cells, 9 + 4 * j) if factors else (4 + 2 * j + 3 * cells, 6 + 3 * j)
        if n > 1:  # shared weights and constants; fewer steps for each row
            shared += 7 + j
            own = (8 + 4 * j - 3 * (j == 0)) if factors else (6 + 3 * j - 2 * (j == 0))
        total += 2.0 ** (d - m) * (shared + n * own)
    return total


def share_of_peak(d: int, n: int, seconds: float, *, factors: bool) -> float:
    import cupy

    attributes = cupy.cuda.Device().attributes
    peak = attributes["MultiProcessorCount"] * _MULTIPLY_ADDS_PER_CLOCK * attributes["ClockRate"] * 1e3
    return float(multiply_adds(d, n, factors=factors) / seconds / peak)


def kernels() -> dict[str, Any]:
    """Registers of each thread, and bytes of local memory, which hold states and spilled registers."""
    device = gpu.Cuda()
    walks = ("walk", "tabulate", "walk_rows", "expand_pairs", "expand_rows")
    programs: dict[gpu.ProgramName, tuple[str, ...]] = {
        "elimination": walks,
        "factors": walks,
        "orders": ("follow_orders", "pay_orders"),
    }
    found = {}
    for program, names in programs.items():
        for name in names:
            kernel = device.program(program).module.get_function(name)
            found[f"{program} {name}"] = {"registers": kernel.num_regs, "local bytes": kernel.local_size_bytes}
    return found


def exact_case(d: int, p: int, n: int, noise: float, device: Any, synchronise: Any) -> dict[str, Any]:
    explainer = Explainer(model(d, p, noise), method="exact", device=device)
    X = model(d, p, noise).sample(n, 1) + 1.0
    seconds, shares = timed(
        lambda: shapley.exact(explainer.game, X, explainer.players, device=device), synchronise, 1 if d >= 33 else 3
    )
    gap = float(np.abs((shares.values.sum(axis=1) + explainer.game.base_value) / explainer.score(X) - 1).max())
    found = {"seconds": seconds, "efficiency gap": gap, "values": shares.values[0].tolist()}
    return found if device == "cpu" else found | {"share of peak": share_of_peak(d, n, seconds, factors=noise == TINY)}


def sampled_case(d: int, p: int, n: int, device: Any, synchronise: Any) -> dict[str, Any]:
    explainer = Explainer(model(d, p), "spe", method="permutation", n_orders=6000, device=device)
    X = model(d, p).sample(n, 1) + 1.0
    seconds, shares = timed(lambda: explainer.shares(X), synchronise)
    return {"seconds": seconds, "coalitions": shares.n_evaluations, "values": shares.values[0, :5].tolist()}


def form_case(d: int, n_replicates: int, n: int, send: Any, device: Any, synchronise: Any) -> dict[str, float]:
    rng = np.random.default_rng(2)
    sizes = n_replicates, d
    forms = shapley.QuadraticForms(rng.normal(size=(*sizes, d * (d + 1) // 2)), rng.normal(size=sizes), d, 1)
    X = rng.normal(size=(n, d))
    if device == "cpu":
        X = X[: int(_MOST_PRODUCTS_ON_CPU / forms.coefficients.size)]
    there = send(X)
    seconds, shares = timed(lambda: forms(there, device=device), synchronise)
    return {
        "seconds": seconds,
        "rows": len(X),
        "checksum": float(np.abs(np.asarray(shares.values[:1000].tolist())).sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true", help="NumPy and compiled kernels instead of the GPU")
    parser.add_argument("--most", type=int, default=40, help="largest number of features for exact values")
    options = parser.parse_args()
    senders: dict[str, Any] = {"numpy": np.asarray}
    device = "cpu" if options.cpu else "gpu"
    if options.cpu:
        ELIMINATION.kernel.worth = FACTORED.kernel.worth = CONTRIBUTIONS.worth = 0.0  # always the compiled walk
        results: dict[str, Any] = {
            "device": f"CPU, {platform.processor() or platform.machine()}, {n_threads(-1)} threads"
        }

        def synchronise() -> None:
            return None
    else:
        import cupy
        import torch

        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        results = {"device": name, "cupy": cupy.__version__, "kernels": kernels()}
        synchronise = cupy.cuda.Device().synchronize
        senders |= {"cupy": cupy.asarray, "torch": lambda X: torch.asarray(X, device="cuda")}

    def note(what: str, case: dict[str, Any]) -> None:
        results[what] = case
        print(what, json.dumps(case)[:200], flush=True)

    for noise, cases in ((0.3, EXACT), (TINY, EXACT_TINY)):
        for d, p, n in cases:
            if d <= (min(options.most, _MOST_ON_CPU) if options.cpu else options.most):
                case = exact_case(d, p, n, noise, device, synchronise)
                note(f"exact d={d} p={p} noise={noise}, {n} row(s)", case)
    for d, p, n in SAMPLED:
        note(f"sampled d={d} p={p}, {n} row(s)", sampled_case(d, p, n, device, synchronise))
    for d, n_replicates, n in COMPILED:
        for library, send in senders.items():
            case = form_case(d, n_replicates, n, send, device, synchronise)
            note(f"forms d={d}, {n_replicates} replicate(s), {n} rows of {library}", case)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
