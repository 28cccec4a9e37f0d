"""Faults injected into normal rows, so that the faulty features are known.

| kind | value of a faulty feature |
| --- | --- |
| bias 1 sd ... bias 5 sd | its value plus or minus that many standard deviations |
| maximum, minimum | its largest or smallest training value |
| stuck | the same value in every row, taken from one of the rows; with lags, the last reading before the fault |
| sign flip | its value mirrored at the training mean |
| lost correlation | its value in another row: normal by itself, but not with the other features |
| drift | with lags only: it moves away evenly, up to 3 standard deviations in the judged row |

A detector with lags judges a row together with the rows before it. A fault then starts some rows before the judged row and
lasts. How long is drawn at random, up to twice the rows that the detector sees, so that about half of the faults begin
before the first of them. Without lags, a row is a window of one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from culpa._core.choices import FAULT_KINDS, LASTING_FAULT_KINDS, FaultKind, one_of
from culpa._core.types import Floats, Mask
from culpa.models.moments import mean_and_spread

Positions = NDArray[np.intp]

_UNCHANGED = 1e-9  # in standard deviations: a smaller difference does not count as a change
_DRIFT = 3.0  # standard deviations that a drift has moved when its row is judged
SIMULTANEOUS_FAULTS = (1, 2, 3)  # numbers of features that are faulty at once, by default


def past_of(lags: int) -> int:
    """How many rows before the judged row are needed to inject faults; none without lags."""
    return 2 * (lags + 1) if lags else 0


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
class _Fault:
    """What is known where a fault is made: the readings of the faulty features, (n, features, rows), and their normal."""

    windows: Floats  # of all rows, (rows, rows of a window, features)
    feature: Positions  # (n, features)
    readings: Floats
    duration: Positions  # (n, 1, 1), in rows
    mean: Floats  # (n, features, 1), as are the following
    spread: Floats
    largest: Floats
    smallest: Floats


def _bias(fault: _Fault, rng: np.random.Generator, *, size: float) -> Floats:
    return np.asarray(fault.readings + rng.choice([-1.0, 1.0], size=fault.spread.shape) * size * fault.spread)


def _drift(fault: _Fault, rng: np.random.Generator) -> Floats:
    moved = 1 - np.arange(fault.readings.shape[2]) / fault.duration
    return np.asarray(fault.readings + rng.choice([-_DRIFT, _DRIFT], size=fault.spread.shape) * fault.spread * moved)


def _stuck(fault: _Fault, rng: np.random.Generator) -> Floats:
    n, n_rows, d = fault.windows.shape
    if n_rows == 1:
        value = fault.windows[rng.integers(n, size=d), 0, np.arange(d)]
        return np.asarray(value[fault.feature])[:, :, None]
    before = np.broadcast_to(fault.duration, (*fault.feature.shape, 1))
    return np.take_along_axis(fault.readings, before, axis=2)


def _lost(fault: _Fault, rng: np.random.Generator) -> Floats:
    other = rng.integers(len(fault.windows), size=fault.feature.shape)[:, :, None]
    return fault.windows[other, np.arange(fault.windows.shape[1]), fault.feature[:, :, None]]


_SPOIL: dict[str, Callable[[_Fault, np.random.Generator], Floats]] = {
    **{f"bias {size} sd": partial(_bias, size=float(size)) for size in range(1, 6)},
    "maximum": lambda fault, rng: fault.largest,
    "minimum": lambda fault, rng: fault.smallest,
    "stuck": _stuck,
    "sign flip": lambda fault, rng: 2 * fault.mean - fault.readings,
    "lost correlation": _lost,
    "drift": _drift,
}


def inject(
    rows: Floats,
    training: Floats,
    lags: int = 0,
    *,
    kinds: Sequence[FaultKind] | None = None,
    at_once: Sequence[int] = SIMULTANEOUS_FAULTS,
    n_trials: int = 1800,
    seed: int = 0,
    spared: Sequence[int] = (),
) -> Trials:
    """Inject faults into complete normal rows that the model was not fitted to.

    Every kind of fault is combined with every number of features equally often, and all rows are used equally often, in
    random order. Trials without a change, such as a maximum replaced by itself, are left out.

    Parameters
    ----------
    rows
        Normal rows, (n, features). With ``lags``, windows of `past_of` (lags) + 1 rows, (n, rows, features), the judged row
        first.
    training
        Rows that give the spread of the features.
    lags
        Of the detector; trials then have its features, and culprits are columns.
    kinds
        Kinds of faults; by default all that this number of lags allows.
    at_once
        How many features a fault changes at once.
    n_trials
        Number of faults.
    seed
        The same seed gives the same faults.
    spared
        Positions of features that stay as they are.

    Returns
    -------
    Trials
        Rows with faults, and which of their features are faulty.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> trials = inject(X[50:], X[:50], kinds=["bias 3 sd"], at_once=[2], n_trials=4)
    >>> trials.culprits.sum(axis=1)
    array([2, 2, 2, 2])
    """
    known = LASTING_FAULT_KINDS if lags else FAULT_KINDS
    for kind in kinds or ():
        one_of(kind, known, "kind of fault")
    windows, rng = rows if rows.ndim == 3 else rows[:, None], np.random.default_rng(seed)
    normal = (*mean_and_spread(training), np.nanmax(training, axis=0), np.nanmin(training, axis=0))
    parts = []
    for kind, k, chosen in _take_turns(
        windows[:, 0], known if kinds is None else kinds, at_once, n_trials, rng, spared
    ):
        features = _draw_features(len(chosen), windows.shape[2], k, rng, spared)
        spoiled = _spoiled(windows, chosen, features, normal, lags, kind, rng)
        changed = np.abs(spoiled - windows[chosen, : lags + 1]) > _UNCHANGED * normal[1]
        culprits: Mask = np.asarray(changed.any(axis=1))
        kept: Mask = np.asarray(culprits.any(axis=1))
        seen = spoiled[kept].reshape(kept.sum(), (lags + 1) * windows.shape[2])
        parts.append((seen, culprits[kept], chosen[kept], np.full(kept.sum(), kind)))
    return Trials(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))


def _take_turns(
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


def _draw_features(n: int, d: int, k: int, rng: np.random.Generator, spared: Sequence[int] = ()) -> Positions:
    """For each of n rows, k different features of d, none of them spared."""
    order = rng.random((n, d))
    order[:, list(spared)] = 2.0
    return np.asarray(np.argsort(order, axis=1)[:, :k])


def _spoiled(
    windows: Floats,
    chosen: Positions,
    features: Positions,
    normal: tuple[Floats, ...],
    lags: int,
    kind: str,
    rng: np.random.Generator,
) -> Floats:
    """What a detector sees of chosen windows with one kind of fault in some features of each."""
    n, at = len(chosen), np.arange(windows.shape[1])
    duration = rng.integers(1, past_of(lags) + 1, size=(n, 1, 1)) if lags else np.ones((n, 1, 1), dtype=np.intp)
    where = np.arange(n)[:, None, None], at, features[:, :, None]
    spoiled = windows[chosen]
    fault = _Fault(windows, features, spoiled[where], duration, *(part[features][:, :, None] for part in normal))
    spoiled[where] = np.where(at < duration, _SPOIL[kind](fault, rng), fault.readings)
    return spoiled[:, : lags + 1]
