"""Faults injected into normal rows, so that it is known which features are to blame.

| kind | what a faulty feature shows |
| --- | --- |
| bias 1 sd ... bias 5 sd | its value plus or minus so many standard deviations |
| maximum, minimum | the largest or smallest value it ever had in training |
| stuck | one and the same value, taken from some row |
| sign flip | the mean, missed on the other side |
| lost correlation | its value in some other row: a usual one, but not what the other features imply |
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa._core.validation import one_of
from culpa.models.moments import mean_and_spread

Positions = NDArray[np.intp]

_UNCHANGED = 1e-9  # standard deviations that do not count as a change


@dataclass(frozen=True, eq=False)
class Trials:
    """Spoiled rows; which of their cells are spoiled; the normal row behind each, and the kind of fault."""

    rows: Floats
    culprits: NDArray[np.bool_]
    source: Positions
    kind: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class _Scene:
    """What faults need to know: the normal rows that are spoiled, and how training rows are spread."""

    rows: Floats
    mean: Floats
    spread: Floats
    largest: Floats
    smallest: Floats


Spoil = Callable[[_Scene, Positions, Positions, np.random.Generator], Floats]


def _bias(scene: _Scene, row: Positions, feature: Positions, rng: np.random.Generator, *, size: float) -> Floats:
    sign = rng.choice([-1.0, 1.0], size=feature.shape)
    return np.asarray(scene.rows[row, feature] + sign * size * scene.spread[feature])


def _stuck(scene: _Scene, row: Positions, feature: Positions, rng: np.random.Generator) -> Floats:
    at = np.asarray(rng.integers(len(scene.rows), size=scene.rows.shape[1]))
    return np.asarray(scene.rows[at[feature], feature])


def _lost(scene: _Scene, row: Positions, feature: Positions, rng: np.random.Generator) -> Floats:
    return np.asarray(scene.rows[rng.integers(len(scene.rows), size=feature.shape), feature])


_SPOIL: dict[str, Spoil] = {
    **{f"bias {size} sd": partial(_bias, size=float(size)) for size in range(1, 6)},
    "maximum": lambda scene, row, feature, rng: scene.largest[feature],
    "minimum": lambda scene, row, feature, rng: scene.smallest[feature],
    "stuck": _stuck,
    "sign flip": lambda scene, row, feature, rng: 2 * scene.mean[feature] - scene.rows[row, feature],
    "lost correlation": _lost,
}
FAULT_KINDS = tuple(_SPOIL)
SIMULTANEOUS_FAULTS = (1, 2, 3)  # how many features fail together, if nobody knows better


def inject(
    rows: Floats,
    training: Floats,
    *,
    kinds: Sequence[str] = FAULT_KINDS,
    at_once: Sequence[int] = SIMULTANEOUS_FAULTS,
    n_trials: int = 1800,
    seed: int = 0,
) -> Trials:
    """Spoil complete normal rows that were not trained on.

    ``training`` rows tell how the features are spread. Every kind of fault befalls every number of features equally
    often; rows take turns in random order. Trials in which nothing changed, such as a maximum replaced by itself, are
    left out.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> trials = inject(X[50:], X[:50], kinds=["bias 3 sd"], at_once=[2], n_trials=4)
    >>> trials.culprits.sum(axis=1)
    array([2, 2, 2, 2])
    """
    sizes = [k for k in at_once if 0 < k < rows.shape[1]]
    if not (len(kinds) and sizes and len(rows)):
        raise ValueError("faults need rows, kinds, and numbers of features that leave one feature sound.")
    for kind in kinds:
        one_of(kind, FAULT_KINDS, "kind of fault")
    rng = np.random.default_rng(seed)
    scene = _Scene(
        rows,
        *mean_and_spread(training),
        np.nanmax(training, axis=0),
        np.nanmin(training, axis=0),
    )
    each = -(-n_trials // (len(kinds) * len(sizes)))
    turns = np.concatenate([rng.permutation(len(rows)) for _ in range(-(-each * len(kinds) * len(sizes) // len(rows)))])
    faults = [(kind, k) for kind in kinds for k in sizes]
    parts = [_spoiled(scene, turns[i * each : (i + 1) * each], *fault, rng) for i, fault in enumerate(faults)]
    return Trials(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))


def _spoiled(
    scene: _Scene, chosen: Positions, kind: str, k: int, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_], Positions, NDArray[np.str_]]:
    """The fields of `Trials` for one kind of fault that befalls k features of each chosen row."""
    n, d = len(chosen), scene.rows.shape[1]
    features = np.argsort(rng.random((n, d)), axis=1)[:, :k]
    spoiled = scene.rows[chosen].copy()
    spoiled[np.arange(n)[:, None], features] = _SPOIL[kind](scene, chosen[:, None], features, rng)
    culprits = np.abs(spoiled - scene.rows[chosen]) > _UNCHANGED * scene.spread
    kept = culprits.any(axis=1)
    return spoiled[kept], culprits[kept], chosen[kept], np.full(kept.sum(), kind)
