"""Clocks."""

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np


def best_of(run: Callable[[], Any], repeat: int = 5, at_least: float = 0.0) -> float:
    """Shortest time of several runs, after one to warm up; runs on until ``at_least`` seconds have been spent."""
    run()
    times: list[float] = []
    while len(times) < repeat or sum(times) < at_least:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def once(run: Callable[[], Any]) -> tuple[float, Any]:
    """Time and result of a single run."""
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def product_rate(size: int = 2000) -> float:
    """Operations per second of a float64 matrix product on all cores."""
    A = np.random.default_rng(0).normal(size=(size, size))
    return 2 * size**3 / best_of(lambda: A @ A)


def peak_memory(run: Callable[[], Any]) -> int:
    """Most bytes held at a time while running, beyond what was held before; after one run to warm up."""
    run()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
