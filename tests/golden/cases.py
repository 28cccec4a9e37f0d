"""Explanations of every kind of model, score, game, method, rows and players, for tiny tables made from a seed.

Each case has a name such as "student/conditional/t2/exact/missing/groups". Its answer is a dict of arrays, or the name of
an error if the combination is refused.
"""

import warnings
from functools import cache
from itertools import product

import numpy as np

from culpa import Explainer, LatentGaussian, LatentMixture, PCADetector

D, WIDE, N_ROWS = 5, 10, 3
FIELDS = ("values", "std_error", "score", "base_value", "expected", "score_if_fixed")
SCORES = ("spe", "mse", "t2", "mahalanobis", "combined", "nll", "features")
GAMES = ("conditional", "retraining", "interventional", "minimal")
METHODS = {
    "exact": {"method": "exact"},
    "compiled": {"method": "exact"},
    "permutation": {"method": "permutation", "n_orders": 24},
    "kernel": {"method": "kernel", "n_orders": 8},
    "algorithm1": {"method": "algorithm1", "n_orders": 4},
}
SAMPLED = ("permutation", "kernel", "algorithm1")
ROWS = ("complete", "missing")
PLAYERS = {
    "single": {},
    "groups": {"groups": {"pair": ["x1", "x3"]}},
    "upstream": {"upstream": [("x0", "x2", "x3")]},
    "context": {"given": ["x2"]},
}


def table(n, d=D, seed=0):
    """Rows with two components."""
    rng = np.random.default_rng(seed)
    loadings = np.random.default_rng(d).normal(size=(2, d))
    return rng.normal(size=(n, 2)) @ loadings + 0.5 * rng.normal(size=(n, d)) + np.arange(d)


def named(rows):
    import pandas as pd

    return pd.DataFrame(rows, columns=[f"x{j}" for j in range(rows.shape[1])])


def two_modes():
    rng = np.random.default_rng(5)
    modes = [LatentGaussian(rng.normal(size=D), rng.normal(size=(D, 2)), noise) for noise in (0.3, 0.5)]
    return LatentMixture([0.6, 0.4], modes)


def noise_per_feature():
    rng = np.random.default_rng(4)
    return LatentGaussian(rng.normal(size=D), rng.normal(size=(D, 2)), rng.uniform(0.2, 0.8, D))


def squares(rows):
    """A score that is a function of rows."""
    rows = np.asarray(rows)
    return (rows[:, :2] ** 2).sum(axis=1) + np.abs(rows[:, 2] * rows[:, -1])


def detector(width=D, **options):
    return {"model": PCADetector(2, **options).fit(named(table(60, width)))}


# the arguments of an explainer
MODELS = {
    "ppca": detector,
    "unscaled": lambda: detector(scale=False, shrinkage=0.1),
    "noise per feature": lambda: {"model": noise_per_feature()},
    "student": lambda: detector(model="student"),
    "copula": lambda: detector(model="copula"),
    "mixture": lambda: {"model": two_modes()},
    "modes": lambda: {"model": PCADetector(2, modes=2).fit(named(np.concatenate([table(30), 4 + table(30, seed=1)])))},
    "given": lambda: detector(D + 1, given=["x5"]),
    "lags": lambda: detector(lags=1),
    "smooth": lambda: detector(smooth=0.4),
    "wide": lambda: detector(WIDE),
    "linear map": lambda: {"normal": named(table(60)), "reconstruct_matrix": np.full((D, D), 1 / D)},
    "function": lambda: {"normal": named(table(60)), "score": squares},
}
WIDTHS = {"given": D + 1, "wide": WIDE}
EXACT_ONLY = ("unscaled", "smooth", "linear map")
NAMELESS = ("noise per feature", "mixture")


@cache
def model(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MODELS[name]()


def new_rows(name, kind):
    rows = table(N_ROWS, WIDTHS.get(name, D), seed=9)
    rows[0, 1] += 4
    rows[1, 3] -= 3
    if kind == "missing":
        rows[0, [0, 4]] = np.nan
        rows[2, 1] = np.nan
    return rows if name in NAMELESS else named(rows)


def is_wanted(which, game, score, method, kind, players):
    """Not everything with everything: sampled values are the same code for all scores."""
    if which == "function":
        return score == "spe" and method == "permutation"
    if which == "wide":
        return score in ("spe", "mahalanobis") and players != "context" and method != "algorithm1"
    if method in SAMPLED:
        return which not in EXACT_ONLY and score in ("spe", "mahalanobis", "nll") and players in ("single", "groups")
    return True


def names():
    """All cases; those of one model and game follow each other."""
    return ["/".join(case) for case in product(MODELS, GAMES, SCORES, METHODS, ROWS, PLAYERS) if is_wanted(*case)]


def answer(case):
    """What culpa says: arrays by field, or the kind of error."""
    which, game, score, method, kind, players = case.split("/")
    options = METHODS[method] | PLAYERS[players] | {"game": game, "seed": 1, "n_jobs": 1}
    options |= {"score": "spe", "features": ["x0", "x3"]} if score == "features" else {"score": score}
    options |= model(which)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            explainer = Explainer(**options)
            why = (explainer.compile() if method == "compiled" else explainer).explain(new_rows(which, kind))
        except (ValueError, TypeError, NotImplementedError) as error:
            return type(error).__name__
    found = {name: np.atleast_1d(np.asarray(getattr(why, name), dtype=np.float64)) for name in FIELDS}
    if why.exact:
        del found["std_error"]
    return found
