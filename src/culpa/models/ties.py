"""Ties: columns that imply each other so closely that faults in one cannot be told from faults in the other."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from culpa._core.types import Floats
from culpa.models.latent import RELATIVE_FLOOR

TIED = 0.85  # absolute partial correlation from which on two columns are taken to imply each other


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


def suggested_groups(
    covariance: Floats, names: Sequence[str], known: Iterable[Sequence[int]] = ()
) -> list[SuggestedGroup]:
    """Features that imply each other, the strongest ties first; ``known`` are the positions of groups that there are.

    A tie is a partial correlation of at least `TIED` in absolute value. Features that are tied to a common one are joined,
    and a known group is joined as a whole. A group of all features would leave nothing to tell apart and is left out.
    """
    strength = np.triu(np.abs(partial_correlations(covariance)), 1)
    owner = np.arange(len(names))
    for members in known:
        owner[list(members)] = members[0]
    ties = [(a, b) for a, b in np.argwhere(strength >= TIED).tolist() if owner[a] != owner[b]]
    for a, b in ties:
        owner[owner == owner[b]] = owner[a]
    weakest: dict[int, float] = {}
    for a, b in ties:
        weakest[owner[a]] = min(float(strength[a, b]), weakest.get(owner[a], 1.0))
    found = [
        SuggestedGroup(tuple(names[i] for i in np.flatnonzero(owner == label).tolist()), value)
        for label, value in weakest.items()
    ]
    return sorted((group for group in found if len(group.features) < len(names)), key=lambda group: -group.strength)
