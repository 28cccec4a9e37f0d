"""How others would explain the same rows. Each function explains one row and returns its Shapley values (SPE scale)."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.problems import Problem
from culpa import shapley

Explain = Callable[[np.ndarray], np.ndarray]


def algorithm1(problem: Problem, n_orders: int = 1000) -> Explain:
    """The paper's algorithm as printed, a linear solve per coalition."""

    def explain(x: np.ndarray) -> np.ndarray:
        return shapley.algorithm1(problem.game, x[None], problem.players, n_orders=n_orders).values[0]

    return explain


def closed_form_game(problem: Problem, x: np.ndarray) -> Callable[[Any], np.ndarray]:
    """The conditional value of SPE by hand, coalition by coalition: what a careful user would feed to shapiq."""
    C, G, base = problem.game.covariance, problem.game.sandwich, problem.game.base_value

    def value(mask: np.ndarray) -> float:
        S = np.flatnonzero(mask)
        if not len(S):
            return base
        block = np.ix_(S, S)
        solved = np.linalg.solve(C[block], np.column_stack([x[S], G[block]]))
        r = solved[:, 0]
        return float(base + r @ G[block] @ r - np.trace(solved[:, 1:]))

    return lambda masks: np.array([value(mask) for mask in np.atleast_2d(masks)])


def shapiq_exact(problem: Problem) -> Explain:
    """shapiq's exact computer on the closed-form game."""
    from shapiq.game_theory.exact import ExactComputer

    def explain(x: np.ndarray) -> np.ndarray:
        computer = ExactComputer(game=closed_form_game(problem, x), n_players=problem.d)
        return np.asarray(computer("SV").get_n_order_values(1))

    return explain


def shapiq_approximator(problem: Problem, kind: str, budget: int) -> Explain:
    """shapiq's approximators on the closed-form game."""
    import shapiq

    def explain(x: np.ndarray) -> np.ndarray:
        approximators = {
            "KernelSHAP, paired": lambda: shapiq.KernelSHAP(n=problem.d, pairing_trick=True, random_state=0),
            "kADD-SHAP 2": lambda: shapiq.kADDSHAP(n=problem.d, max_order=2, random_state=0),
            "SVARM": lambda: shapiq.SVARM(n=problem.d, random_state=0),
        }
        result = approximators[kind]().approximate(budget=budget, game=closed_form_game(problem, x))
        return np.array([result[(i,)] for i in range(problem.d)])

    return explain


def shapiq_gaussian(problem: Problem, budget: int) -> Explain:
    """shapiq's Gaussian imputer (100 conditional samples per coalition) with KernelSHAP.

    It is given rows drawn from our model, so that it sees the same Gaussian; it refuses some real columns as categorical.
    """
    import shapiq
    from shapiq.imputer import GaussianImputer

    score = problem.explainer.score
    data = score.gaussian.sample(2000, 0)

    def explain(x: np.ndarray) -> np.ndarray:
        game = GaussianImputer(model=score, data=data, x=x, sample_size=100, random_state=0)
        result = shapiq.KernelSHAP(n=problem.d, pairing_trick=True, random_state=0).approximate(budget, game)
        return np.array([result[(i,)] for i in range(problem.d)])

    return explain


def shap_permutation(problem: Problem) -> Explain:
    """shap with 100 background rows. It breaks correlations apart: another quantity, here for its speed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shap

    rng = np.random.default_rng(0)
    background = problem.train[rng.choice(len(problem.train), min(100, len(problem.train)), replace=False)]
    explainer = shap.PermutationExplainer(problem.explainer.score, background, seed=0)

    def explain(x: np.ndarray) -> np.ndarray:
        return np.asarray(explainer(x[None], max_evals=10 * (2 * problem.d + 1), silent=True).values[0])

    return explain
