"""How settings are compared: which rows are held out in turn, and which faults go into them.

Rows come as windows: each row, followed by the rows before it, as in a lag matrix. Without lags a window is a row. Folds
are consecutive, because neighbouring rows resemble each other and held-out rows should be new.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from culpa._core.choices import FAULT_KINDS, LASTING_FAULT_KINDS, FaultKind
from culpa._core.parameters import CALIBRATION
from culpa._core.types import Floats
from culpa._core.validation import read_table
from culpa.calibration.evaluation import Progress, Setting, settings
from culpa.calibration.injection import SIMULTANEOUS_FAULTS, Trials, inject, past_of
from culpa.columns import Lagged
from culpa.detecting.detector import PCADetector

FEWEST_ROWS = 20
MOST_ROWS = 20_000  # that are used for the choice


class Fold(NamedTuple):
    """Features to learn from, held-out features, and held-out rows with faults."""

    training: Floats
    held_out: Floats
    trials: Trials


class PlanOptions(TypedDict, total=False):
    """The fields of `Plan` that users choose by keyword, for type checkers."""

    kinds: Sequence[FaultKind] | None
    at_once: Sequence[int]
    n_folds: int
    n_trials: int
    seed: int
    progress: Progress | bool | None


@dataclass(frozen=True)
class Plan:
    """How settings are compared: which ones, with which faults, in how many folds and trials."""

    chosen: Sequence[Setting] | None = None
    kinds: Sequence[FaultKind] | None = None
    at_once: Sequence[int] = SIMULTANEOUS_FAULTS
    n_folds: int = 5
    n_trials: int = 1800
    seed: int = 0
    progress: Progress | bool | None = None

    def __post_init__(self) -> None:
        CALIBRATION.check({name: value for name, value in vars(self).items() if name in CALIBRATION})

    def settings(self, n_features: int, detector: PCADetector) -> list[Setting]:
        """The settings to compare, which must be at least one; ``n_features`` counts past values, too.

        A number of components that the detector was given is kept, also where the default would be all of them.
        """
        if self.chosen is not None:
            if not self.chosen:
                raise ValueError("chosen is empty. Pass at least one setting, or None for all.")
            return list(self.chosen)
        found = settings(n_features, detector.n_components)
        if detector.n_components != "auto":
            found = [setting._replace(n_components=detector.n_components) for setting in found]
        retrainable = not detector.lags and detector.model != "student"
        return [setting for setting in found if setting.game != "retraining" or retrainable]

    def faults(self, lags: int) -> Sequence[FaultKind]:
        """The kinds of faults, by default all of them."""
        if self.kinds is None:
            return LASTING_FAULT_KINDS if lags else FAULT_KINDS
        if "drift" in self.kinds and not lags:
            raise ValueError('the fault "drift" needs a detector with lags. Leave it out of kinds, or set lags.')
        return self.kinds

    def folds(self, windows: Floats, lags: int, given: Sequence[int] = ()) -> Iterator[Fold]:
        """Every fold in turn; with lags, training rows next to the held-out ones are left out, as they share values.

        Faults go into columns that are not given, and culprits are among these.
        """
        past = past_of(lags)
        n_seen = windows.shape[1] // (past + 1) * (lags + 1)
        for fold, held_out in enumerate(self.parts(len(windows))):
            others = np.concatenate([np.arange(held_out[0] - past), np.arange(held_out[-1] + 1 + past, len(windows))])
            training = windows[others]
            trials = inject(
                windows[held_out].reshape(len(held_out), past + 1, -1),
                training[:, : windows.shape[1] // (past + 1)],
                lags,
                kinds=self.faults(lags),
                at_once=self.at_once,
                n_trials=-(-self.n_trials // self.n_folds),
                seed=self.seed + fold,
                spared=given,
            )
            culprits = np.delete(trials.culprits, list(given), axis=1)
            trials = Trials(trials.rows, culprits, held_out[trials.source], trials.kind)
            yield Fold(training[:, :n_seen], windows[held_out, :n_seen], trials)

    def parts(self, n_rows: int) -> list[NDArray[np.intp]]:
        """Positions of the rows of each fold."""
        return np.array_split(np.arange(n_rows), self.n_folds)

    def check_detector(self, detector: PCADetector) -> None:
        """Raise an error if settings of this detector cannot be compared."""
        if detector.modes is not None:
            raise ValueError(f"calibration is not available with modes={detector.modes!r}. Use modes=None.")

    def check(self, n_rows: int, lags: int = 0) -> None:
        """Raise a ValueError where so few rows, or windows, cannot be split as planned."""
        fewest = FEWEST_ROWS + 4 * past_of(lags)
        if n_rows < fewest:
            what = f" with {past_of(lags)} complete rows before them" if lags else ""
            raise ValueError(f"at least {fewest} complete rows{what} are needed to calibrate, got {n_rows}.")
        if self.n_folds > n_rows // 2:
            raise ValueError(
                f"n_folds={self.n_folds} leaves fewer than two rows in a fold. Use at most {n_rows // 2} folds."
            )


def windows_of(X: Any, lags: int) -> Floats:
    """Complete rows with the complete rows before them that faults need, at most `MOST_ROWS`, evenly spaced."""
    table = read_table(X, min_rows=0)
    columns = Lagged(table.names, table.array.shape[1], past_of(lags), step=table.usual_step())
    windows = columns.read(table).features
    return thinned(windows[~np.isnan(windows).any(axis=1)], MOST_ROWS)


def thinned(rows: Floats, most: int) -> Floats:
    """At most ``most`` rows, evenly spaced."""
    return rows[:: -(-len(rows) // most)] if len(rows) else rows
