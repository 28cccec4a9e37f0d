"""Ties: columns that imply each other so closely that faults in one cannot be told from faults in the other."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from culpa._core.types import Floats
from culpa.models.latent import RELATIVE_FLOOR, LatentGaussian
from culpa.models.scatter import Scatter

_WIDE = 512  # features from which on the d x d matrix is avoided
TIED = 0.85  # absolute partial correlation from which on two columns are taken to imply each other


class Tie(NamedTuple):
    """Two features, by position, and their absolute partial correlation."""

    a: int
    b: int
    strength: float


class SuggestedGroup(NamedTuple):
    """Columns to put into one group; ``strength`` is the smallest absolute partial correlation that joins them."""

    features: tuple[str, ...]
    strength: float


def partial_correlations(covariance: Floats) -> Floats:
    """Correlation of every two features given all others, (d, d), from their covariance, which may be singular.

    >>> partial_correlations(np.array([[1.0, 0.8], [0.8, 1.0]])).round(3)
    array([[1. , 0.8],
           [0.8, 1. ]])
    """
    std = np.sqrt(np.diag(covariance))
    std[std == 0] = 1.0  # of constant columns
    variances, axes = np.linalg.eigh(covariance / np.outer(std, std))
    # directions without any variance get one and the same tiny variance, so that they do not mix
    floor = RELATIVE_FLOOR * max(float(variances[-1]), RELATIVE_FLOOR)
    root = axes / np.sqrt(np.maximum(variances, 0.0) + floor)
    precision = root @ root.T
    size = np.sqrt(np.diag(precision))
    result: Floats = -precision / np.outer(size, size)
    np.fill_diagonal(result, 1.0)
    return result


def ties_of(covariance: Floats) -> list[Tie]:
    """Features that imply each other, from their covariance."""
    strength = np.triu(np.abs(partial_correlations(covariance)), 1)
    return [Tie(a, b, float(strength[a, b])) for a, b in np.argwhere(strength >= TIED).tolist()]


def ties_in_model(model: LatentGaussian) -> list[Tie]:
    """Features that imply each other in a model.

    By Woodbury's formula, C^-1 = Psi^-1/2 (I - U U^T) Psi^-1/2 with U = Psi^-1/2 W (1 + g)^-1/2, (d, p), so that two
    features have the partial correlation u_a . u_b / sqrt((1 - |u_a|^2) (1 - |u_b|^2)).
    """
    if model.n_features <= _WIDE:
        return ties_of(model.covariance)
    U = model.loadings / np.sqrt(model.noise)[:, None] / np.sqrt(1 + model.signal)
    alone = np.maximum(1 - (U**2).sum(axis=1), RELATIVE_FLOOR)
    found = []
    for start, strip in Scatter.of_factor((U / np.sqrt(alone)[:, None]).T).strips():
        strip[np.tril_indices(len(strip))] = 0.0
        np.abs(strip, out=strip)
        found += [Tie(start + a, start + b, float(strip[a, b])) for a, b in np.argwhere(strip >= TIED).tolist()]
    return found


def suggested_groups(
    ties: Iterable[Tie], names: Sequence[str], known: Iterable[Sequence[int]] = ()
) -> list[SuggestedGroup]:
    """Features that imply each other, the strongest ties first; ``known`` are the positions of groups that there are.

    A tie is a partial correlation of at least `TIED` in absolute value. Features that are tied to a common one are joined,
    and a known group is joined as a whole. A group of all features would leave nothing to tell apart and is left out.
    """
    owner = np.arange(len(names))
    for members in known:
        owner[list(members)] = members[0]
    new = [tie for tie in ties if owner[tie.a] != owner[tie.b]]
    for a, b, _ in new:
        owner[owner == owner[b]] = owner[a]
    weakest: dict[int, float] = {}
    for a, _, strength in new:
        weakest[owner[a]] = min(strength, weakest.get(owner[a], 1.0))
    found = [
        SuggestedGroup(tuple(names[i] for i in np.flatnonzero(owner == label).tolist()), value)
        for label, value in weakest.items()
    ]
    return sorted((group for group in found if len(group.features) < len(names)), key=lambda group: -group.strength)
