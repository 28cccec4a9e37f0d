"""Orders in which players join: all of them, or a well-spread sample."""

import itertools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc


def all_orders(n_players: int) -> NDArray[np.intp]:
    """Every order once, (n_players!, n_players)."""
    return np.array(list(itertools.permutations(range(n_players))), dtype=np.intp)


def sobol_orders(n_players: int, n_orders: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Orders from sorting the coordinates of scrambled Sobol points, each followed by its reverse."""
    half = max(1, math.ceil(n_orders / 2))
    points = qmc.Sobol(n_players, scramble=True, rng=rng).random_base2(max(0, math.ceil(math.log2(half))))
    forward = np.argsort(points, axis=1)
    return np.stack([forward, forward[:, ::-1]], axis=1).reshape(-1, n_players)[:n_orders]
