"""Faults injected into normal rows, so that the faulty features are known.

| kind | value of a faulty feature |
| --- | --- |
| bias 1 sd ... bias 5 sd | its value plus or minus that many standard deviations |
| maximum, minimum | its largest or smallest training value |
| stuck | the same value in every row, taken from one of the rows |
| sign flip | its value mirrored at the training mean |
| lost correlation | its value in another row: normal by itself, but not with the other features |
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from culpa._core.choices import FAULT_KINDS, FaultKind, one_of
from culpa._core.types import Floats
from culpa.models.moments import mean_and_spread

Positions = NDArray[np.intp]

UNCHANGED = 1e-9  # in standard deviations: a smaller difference does not count as a change


@dataclass(frozen=True, eq=False)
class Trials:
    """Faulty rows, which of their cells are faulty, the position of the normal row behind each, and the kind of fault."""

    rows: Floats
    culprits: NDArray[np.bool_]
    source: Positions
    kind: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class _Scene:
    """What faults are made from: the normal rows, and mean, spread and range of the training rows."""

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
SIMULTANEOUS_FAULTS = (1, 2, 3)  # numbers of features that are faulty at once, by default


def inject(
    rows: Floats,
    training: Floats,
    *,
    kinds: Sequence[FaultKind] = FAULT_KINDS,
    at_once: Sequence[int] = SIMULTANEOUS_FAULTS,
    n_trials: int = 1800,
    seed: int = 0,
    spared: Sequence[int] = (),
) -> Trials:
    """Inject faults into complete normal rows that the model was not fitted to.

    The ``training`` rows give the spread of the features. Every kind of fault is combined with every number of features
    equally often, and all rows are used equally often, in random order. Trials without a change, such as a maximum replaced
    by itself, are left out. Features at the positions ``spared`` stay as they are.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> trials = inject(X[50:], X[:50], kinds=["bias 3 sd"], at_once=[2], n_trials=4)
    >>> trials.culprits.sum(axis=1)
    array([2, 2, 2, 2])
    """
    for kind in kinds:
        one_of(kind, FAULT_KINDS, "kind of fault")
    rng = np.random.default_rng(seed)
    scene = _Scene(
        rows,
        *mean_and_spread(training),
        np.nanmax(training, axis=0),
        np.nanmin(training, axis=0),
    )
    faults = take_turns(rows, kinds, at_once, n_trials, rng, spared)
    parts = [_spoiled(scene, chosen, kind, k, rng, spared) for kind, k, chosen in faults]
    return Trials(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))


def take_turns(
    rows: Floats,
    kinds: Sequence[FaultKind],
    at_once: Sequence[int],
    n_trials: int,
    rng: np.random.Generator,
    spared: Sequence[int] = (),
) -> list[tuple[FaultKind, int, Positions]]:
    """Every kind of fault with every number of features, and the rows that it goes into: all of them equally often."""
    most = rows.shape[1] - len(spared) - 1
    sizes = [k for k in at_once if 0 < k <= most]
    if not (len(kinds) and sizes and len(rows)):
        raise ValueError(
            f"no faults can be injected. Pass rows and kinds of faults, and choose at_once between 1 and {most}."
        )
    each = -(-n_trials // (len(kinds) * len(sizes)))
    turns = np.concatenate([rng.permutation(len(rows)) for _ in range(-(-each * len(kinds) * len(sizes) // len(rows)))])
    faults = [(kind, k) for kind in kinds for k in sizes]
    return [(kind, k, turns[i * each : (i + 1) * each]) for i, (kind, k) in enumerate(faults)]


def draw_features(n: int, d: int, k: int, rng: np.random.Generator, spared: Sequence[int] = ()) -> Positions:
    """For each of n rows, k different features of d, none of them spared."""
    order = rng.random((n, d))
    order[:, list(spared)] = 2.0
    return np.asarray(np.argsort(order, axis=1)[:, :k])


def _spoiled(
    scene: _Scene, chosen: Positions, kind: str, k: int, rng: np.random.Generator, spared: Sequence[int]
) -> tuple[Floats, NDArray[np.bool_], Positions, NDArray[np.str_]]:
    """The fields of `Trials` for one kind of fault in k features of each chosen row."""
    n, d = len(chosen), scene.rows.shape[1]
    features = draw_features(n, d, k, rng, spared)
    spoiled = scene.rows[chosen].copy()
    spoiled[np.arange(n)[:, None], features] = _SPOIL[kind](scene, chosen[:, None], features, rng)
    culprits = np.abs(spoiled - scene.rows[chosen]) > UNCHANGED * scene.spread
    kept = culprits.any(axis=1)
    return spoiled[kept], culprits[kept], chosen[kept], np.full(kept.sum(), kind)
