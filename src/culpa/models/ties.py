"""Ties: columns that imply each other so closely that faults in one cannot be told from faults in the other."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from culpa.models.latent import LatentGaussian

TIED = 0.85  # absolute partial correlation from which on two columns are taken to imply each other


class SuggestedGroup(NamedTuple):
    """Columns to put into one group; ``strength`` is the smallest absolute partial correlation that joins them."""

    features: tuple[str, ...]
    strength: float


def suggested_groups(
    gaussian: LatentGaussian, names: Sequence[str], known: Iterable[Sequence[int]] = ()
) -> list[SuggestedGroup]:
    """Features that imply each other, the strongest ties first; ``known`` are the positions of groups that there are.

    A tie is a partial correlation of at least `TIED` in absolute value: the correlation of two features given all others.
    Features that are tied to a common one are joined, and a known group is joined as a whole.
    """
    strength = np.triu(np.abs(gaussian.partial_correlations), 1)
    owner = np.arange(len(names))
    for members in known:
        owner[list(members)] = members[0]
    ties = [(int(a), int(b)) for a, b in np.argwhere(strength >= TIED) if owner[a] != owner[b]]
    for a, b in ties:
        owner[owner == owner[b]] = owner[a]
    weakest: dict[int, float] = {}
    for a, b in ties:
        weakest[int(owner[a])] = min(float(strength[a, b]), weakest.get(int(owner[a]), 1.0))
    found = [
        SuggestedGroup(tuple(names[i] for i in np.flatnonzero(owner == label).tolist()), value)
        for label, value in weakest.items()
    ]
    return sorted(found, key=lambda group: -group.strength)
