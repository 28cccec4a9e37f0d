"""Faults with a past, for detectors that judge a row together with the rows before it (``lags``).

A fault starts some rows before the judged row and lasts. How long is drawn at random, up to twice the rows that a detector
sees, so that about half of the faults begin before the first of them.

| kind | readings of a faulty feature since the fault began |
| --- | --- |
| bias 1 sd ... bias 5 sd | plus or minus that many standard deviations |
| drift | moves away evenly, up to 3 standard deviations in the judged row |
| stuck | the last reading before the fault, again and again |
| maximum, minimum | its largest or smallest training value |
| sign flip | mirrored at the training mean |
| lost correlation | its readings of another stretch of time |

Rows come as windows (n, rows, features), the judged row first, then the row before it, and so on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from culpa._core.choices import LASTING_FAULT_KINDS, FaultKind, one_of
from culpa._core.types import Floats, Mask
from culpa.calibration.injection import SIMULTANEOUS_FAULTS, UNCHANGED, Positions, Trials, draw_features, take_turns
from culpa.models.moments import mean_and_spread

_DRIFT = 3.0  # standard deviations that a drift has moved when its row is judged


def past_of(lags: int) -> int:
    """How many rows before the judged row are needed to inject faults; none without lags."""
    return 2 * (lags + 1) if lags else 0


@dataclass(frozen=True, eq=False)
class _Fault:
    """What is known where a fault is made: the readings of the faulty features, (n, features, rows), and their normal."""

    readings: Floats
    duration: Positions  # (n, 1, 1), in rows
    mean: Floats  # (n, features, 1), as are the following
    spread: Floats
    largest: Floats
    smallest: Floats
    elsewhere: Floats  # readings of the same features at another time, as readings


Spoil = Callable[[_Fault, np.random.Generator], Floats]


def _bias(fault: _Fault, rng: np.random.Generator, *, size: float) -> Floats:
    return np.asarray(fault.readings + rng.choice([-1.0, 1.0], size=fault.spread.shape) * size * fault.spread)


def _drift(fault: _Fault, rng: np.random.Generator) -> Floats:
    moved = 1 - np.arange(fault.readings.shape[2]) / fault.duration
    return np.asarray(fault.readings + rng.choice([-_DRIFT, _DRIFT], size=fault.spread.shape) * fault.spread * moved)


def _stuck(fault: _Fault, rng: np.random.Generator) -> Floats:
    before = np.broadcast_to(fault.duration, (*fault.readings.shape[:2], 1))
    return np.take_along_axis(fault.readings, before, axis=2)


_SPOIL: dict[str, Spoil] = {
    **{f"bias {size} sd": partial(_bias, size=float(size)) for size in range(1, 6)},
    "maximum": lambda fault, rng: fault.largest,
    "minimum": lambda fault, rng: fault.smallest,
    "stuck": _stuck,
    "sign flip": lambda fault, rng: 2 * fault.mean - fault.readings,
    "lost correlation": lambda fault, rng: fault.elsewhere,
    "drift": _drift,
}


def inject_lasting(
    windows: Floats,
    training: Floats,
    lags: int,
    *,
    kinds: Sequence[FaultKind] = LASTING_FAULT_KINDS,
    at_once: Sequence[int] = SIMULTANEOUS_FAULTS,
    n_trials: int = 1800,
    seed: int = 0,
    spared: Sequence[int] = (),
) -> Trials:
    """Inject faults into windows of `past_of` (lags) + 1 rows; trials have the features of a detector with these lags.

    The ``training`` rows, without past, give the spread of the features. Culprits are columns. Those at the positions
    ``spared`` stay as they are.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 5, 3))
    >>> trials = inject_lasting(X, X[:, 0], 1, kinds=["drift"], at_once=[1], n_trials=4)
    >>> trials.rows.shape, trials.culprits.sum(axis=1)
    ((4, 6), array([1, 1, 1, 1]))
    """
    for kind in kinds:
        one_of(kind, LASTING_FAULT_KINDS, "kind of fault")
    rng = np.random.default_rng(seed)
    normal = (*mean_and_spread(training), np.nanmax(training, axis=0), np.nanmin(training, axis=0))
    parts = [
        _spoiled(windows, chosen, normal, lags, kind, draw_features(len(chosen), windows.shape[2], k, rng, spared), rng)
        for kind, k, chosen in take_turns(windows[:, 0], kinds, at_once, n_trials, rng, spared)
    ]
    return Trials(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))


def _spoiled(
    windows: Floats,
    chosen: Positions,
    normal: tuple[Floats, ...],
    lags: int,
    kind: str,
    features: Positions,
    rng: np.random.Generator,
) -> tuple[Floats, NDArray[np.bool_], Positions, NDArray[np.str_]]:
    """The fields of `Trials` for one kind of fault in some features of each chosen window."""
    n, n_rows, d = len(chosen), windows.shape[1], windows.shape[2]
    duration = rng.integers(1, past_of(lags) + 1, size=(n, 1, 1))
    other = rng.integers(len(windows), size=(n, 1))
    rows = np.arange(n_rows)
    at = np.arange(n)[:, None, None], rows, features[:, :, None]
    spoiled = windows[chosen]
    mean, spread, largest, smallest = (values[features][:, :, None] for values in normal)
    elsewhere = windows[other[:, :, None], rows, features[:, :, None]]
    fault = _Fault(spoiled[at], duration, mean, spread, largest, smallest, elsewhere)
    spoiled[at] = np.where(rows < duration, _SPOIL[kind](fault, rng), fault.readings)
    seen = slice(0, lags + 1)  # what the detector looks at
    changed: Mask = np.abs(spoiled - windows[chosen])[:, seen] > UNCHANGED * normal[1]
    culprits: Mask = np.asarray(changed.any(axis=1))
    kept: Mask = np.asarray(culprits.any(axis=1))
    return (
        spoiled[kept][:, seen].reshape(kept.sum(), (lags + 1) * d),
        culprits[kept],
        chosen[kept],
        np.full(kept.sum(), kind),
    )
