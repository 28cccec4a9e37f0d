"""Samples values with one version of culpa: see `benchmarks.sampling`.

Reads a model and rows from a file of arrays, and writes processor seconds and values to another. Uses one thread.

    python sampling_worker.py MODEL.npz SCORE WAY SIZE SEEDS OUT.npz

WAY is "default" (SIZE is a tolerance), or "independent" (SIZE is a number of orders), which older versions have.
"""

import sys
import time
import warnings

import numpy as np

from culpa import Explainer, LatentGaussian, scores, shapley
from culpa.games import Conditional


def explained(model, score, rows, tolerance, seed):
    """Values of rows; everything included but compiling."""
    warnings.simplefilter("ignore")
    explainer = Explainer(model, score, method="permutation", tolerance=tolerance, seed=seed, n_jobs=1)
    return explainer.shares(rows).values


def by_orders(model, score, rows, rule):
    game = Conditional(getattr(scores, score)(model))
    return shapley.permutation(game, rows, [[i] for i in range(rows.shape[1])], rule, n_jobs=1).values


def main() -> None:
    source, score, way, size, seeds, target = sys.argv[1:]
    arrays = np.load(source)
    rows, d = arrays["rows"], arrays["rows"].shape[1]
    model = LatentGaussian(np.zeros(d), arrays["loadings"], float(arrays["noise"]))
    seconds, values = [], []
    for seed in range(-1, int(seeds)):  # the first one compiles
        start = time.process_time()
        if way == "default":
            found = explained(model, score, rows, 0.05 if seed < 0 else float(size), max(seed, 0))
        else:
            n_orders = 48 if seed < 0 else int(size)
            rule = shapley.independent_rule(d, n_orders, max(seed, 0))
            start = time.process_time()
            found = by_orders(model, score, rows, rule)
        if seed >= 0:
            seconds.append(time.process_time() - start)
            values.append(found)
    np.savez(target, seconds=seconds, values=values)


if __name__ == "__main__":
    main()
