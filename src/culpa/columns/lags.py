"""Lagged columns: each row together with the rows before it, for processes with memory.

References
----------
Ku, Storer and Georgakis (1995), "Disturbance detection and isolation by dynamic principal component analysis".
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from culpa._core.choices import one_of
from culpa._core.continuity import Step, closer
from culpa._core.estimators import BaseEstimator, TransformerMixin, check_is_fitted
from culpa._core.parameters import DETECTOR
from culpa._core.types import Floats, Mask
from culpa._core.validation import Table, check_estimator_input, check_width, default_names, read_table
from culpa._core.warning import warn
from culpa.columns.columns import Arrange, Arranged, Columns, Reading
from culpa.columns.smoothing import Smoother


class History:
    """Lag matrices [x_t, x_(t-1), ..., x_(t-k)] of a table that comes in pieces.

    What lies before the first row is missing (NaN), unless ``before`` says what it was. ``memory`` holds the rows before
    the next one, and how many of them follow each other.

    >>> import numpy as np
    >>> history = History(1, 2)
    >>> history.join(np.array([[1.0, 10.0], [2.0, 20.0]]))
    array([[ 1., 10., nan, nan],
           [ 2., 20.,  1., 10.]])
    >>> history.join(np.array([[3.0, 30.0]]))
    array([[ 3., 30.,  2., 20.]])
    """

    def __init__(self, lags: int, n_columns: int, before: Floats | None = None) -> None:
        self.lags = lags
        self.memory: tuple[Floats, int] = (np.full((lags, n_columns), np.nan), 0) if before is None else (before, lags)

    def join(self, X: Floats, missing: Floats | None = None) -> Floats:
        """The next rows, each followed by the ``lags`` rows before it, latest first; NaN beyond ``missing`` rows."""
        return self.join_whole(X, missing)[0]

    def join_whole(self, X: Floats, missing: Floats | None = None) -> tuple[Floats, Mask]:
        """The same, and for which rows all of these ``lags`` rows are known."""
        if not self.lags or not len(X):
            return np.hstack([X] * (self.lags + 1)) if self.lags else X, np.ones(len(X), dtype=bool)
        rows, (before, n_before) = np.arange(len(X)), self.memory
        restart = np.where(np.zeros(len(X), dtype=bool) if missing is None else missing > 0, rows, -n_before)
        known = rows - np.maximum.accumulate(restart)
        whole = np.concatenate([before, X])
        self.memory = whole[len(whole) - self.lags :], int(known[-1]) + 1
        parts = [whole[self.lags - lag : len(whole) - lag] for lag in range(self.lags + 1)]
        joined = np.hstack(parts)
        if (known < self.lags).any():
            far = np.repeat(np.arange(self.lags + 1), X.shape[1])
            joined[known[:, None] < far] = np.nan
        return joined, known >= self.lags


def lagged_names(names: Sequence[str], lags: int) -> tuple[str, ...]:
    """Names of the columns of a lag matrix.

    >>> lagged_names(["flow", "power"], 1)
    ('flow', 'power', 'flow (t-1)', 'power (t-1)')
    """
    result = tuple(f"{name} (t-{lag})" if lag else name for lag in range(lags + 1) for name in names)
    if taken := set(names) & set(result[len(names) :]):
        raise ValueError(
            f"with lags={lags}, {min(taken)!r} is the name that culpa gives to a past value. Rename your column."
        )
    return result


class Lagged(Columns):
    """Columns of a detector, each with its present value and its last ``lags`` ones.

    Columns at the positions ``given`` are features, too, but they are read and not shown. The features of a `Reading`
    include them; `members` and `decode` are about the features of the other columns.

    With ``smooth``, deviations from ``reference``, a row of features, are smoothed. Without a reference nothing is
    smoothed. ``step`` is how far apart the rows were that the lags were learned from.
    """

    def __init__(
        self,
        names: tuple[str, ...] | None,
        n_columns: int,
        lags: int,
        given: Sequence[int] = (),
        smooth: float | None = None,
        reference: Floats | None = None,
        step: Step | None = None,
    ) -> None:
        self.step = step if lags else None
        self.given, self.lags, self.smooth, self.reference = tuple(given), lags, smooth, reference
        inputs = names or default_names(n_columns)
        shown = [i for i in range(n_columns) if i not in self.given]
        members = tuple(tuple(range(i, len(shown) * (lags + 1), len(shown))) for i in range(len(shown)))
        super().__init__(
            tuple(inputs[i] for i in shown), members, known=names is not None, inputs=inputs, positions=shown
        )

    @property
    def given_features(self) -> NDArray[np.intp]:
        """Positions, among all features, of the given columns and their past values."""
        n = len(self.inputs)
        return np.array([lag * n + i for lag in range(self.lags + 1) for i in sorted(self.given)], dtype=np.intp)

    def around(self, reference: Floats) -> "Lagged":
        """The same columns, smoothed around a reference."""
        return Lagged(self.known_inputs, len(self.inputs), self.lags, self.given, self.smooth, reference, self.step)

    def read(self, X: Any) -> Reading:
        """A table of consecutive rows; the values before its first row are missing cells."""
        table = read_table(X, min_rows=0)
        check_width(table, len(self.inputs), self.known_inputs)
        missing = self.missing(table)
        if table.order is None and missing is not None:
            _warn_about_jumps(missing, self.lags, self.smooth)
        self._warn_if_closer(table.usual_step())
        names = None if table.names is None else tuple(table.names[i] for i in self.positions)
        features, cells, shrink = self.stream()(table.array, missing)
        return Reading(features, cells, table.row_labels(), names, table.native, shrink)

    def whole(self, X: Any) -> Mask:
        """Which rows of a table have their whole past in it."""
        table = read_table(X, min_rows=0)
        return History(self.lags, 0).join_whole(table.array[:, :0], self.missing(table))[1]

    def missing(self, table: Table) -> Floats | None:
        """The missing rows before each row, where rows are remembered."""
        if not self.lags and not self.smooth:
            return None
        return table.missing_rows(self.step)

    def _warn_if_closer(self, now: Step | None) -> None:
        """Rows that are closer than those that the model knows do not follow each other as these did."""
        if closer(now, self.step):
            warn(
                f"the rows are closer to each other than the training rows were, so lags={self.lags} looks back less far "
                "than the model has learned. Pass rows that are as far apart.",
                UserWarning,
            )

    def stream(self) -> Arrange:
        """Remembers the last rows, or their smoothed average."""
        if self.smooth is None or self.reference is None:
            history = History(self.lags, len(self.inputs))
            return Arrange(
                lambda X, missing: Arranged(history.join(X, missing), X[:, self.positions] if self.given else X),
                history,
            )
        smoother, reference = Smoother(self.smooth, self.reference), self.reference

        def arrange(X: Floats, missing: Floats | None) -> Arranged:
            rows, shrink = smoother.join(X, missing)
            return Arranged(rows, (reference + shrink * (rows - reference))[:, self.positions], shrink)

        return Arrange(arrange, smoother)

    def decode(self, features: Floats) -> Floats:
        """The cells of the present row, without its past values."""
        return features[:, : len(self.names)]

    def show(self, features: Floats, reading: Reading) -> Floats:
        """Present values; of smoothed rows, averages."""
        if reading.shrink is None or self.reference is None:
            return np.asarray(super().show(features, reading))
        reference = self.reference[self.positions]
        return reference + reading.shrink[:, self.positions] * (features - reference)


class Lags(TransformerMixin, BaseEstimator):
    """Adds past values to every column: a step for a Pipeline or a ColumnTransformer.

    Rows must be consecutive. Nothing is remembered from before a hole in the index of a pandas table; other tables, and
    what a step before returns without an index, are taken as consecutive. `culpa.Explainer` of a Pipeline knows this step
    and blames the original columns.

    Parameters
    ----------
    lags : int
        How many rows to look back.
    start : {"repeat", "missing"}
        What precedes the first row of a table: copies of the first row, or missing cells (NaN). culpa's models accept
        missing cells, scikit-learn's PCA does not.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"flow": [1.0, 2.0, 3.0]})
    >>> Lags(2).set_output(transform="pandas").fit_transform(table)
       flow  flow (t-1)  flow (t-2)
    0   1.0         1.0         1.0
    1   2.0         1.0         1.0
    2   3.0         2.0         1.0
    """

    def __init__(self, lags: int = 1, *, start: Literal["repeat", "missing"] = "repeat") -> None:
        self.lags = lags
        self.start = start

    def fit(self, X: Any, y: None = None) -> Self:
        """Note the columns; there is nothing else to learn.

        Parameters
        ----------
        X
            Consecutive rows.
        y
            Not used, as in scikit-learn.

        Returns
        -------
        self
            The fitted step.
        """
        DETECTOR["lags"].check(self.lags)
        one_of(self.start, ("repeat", "missing"), "start")
        self._step = check_estimator_input(self, X, reset=True, min_features=1).usual_step()
        return self

    def transform(self, X: Any) -> Floats:
        """As many rows as there were, with ``lags`` + 1 columns for each."""
        check_is_fitted(self, "n_features_in_")
        table = check_estimator_input(self, X, reset=False)
        rows, missing = table.array, table.missing_rows(self._step)
        if missing is not None and self.lags:
            _warn_about_jumps(missing, self.lags, None)
        if self.start == "missing":
            return History(self.lags, rows.shape[1]).join(rows, missing).copy()
        at = np.arange(len(rows))
        first = np.maximum.accumulate(at * 0 if missing is None else np.where(missing > 0, at, 0))
        return np.hstack([rows[np.maximum(at - lag, first)] for lag in range(self.lags + 1)])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """``flow``, ``power``, ``flow (t-1)``, ``power (t-1)`` and so on."""
        check_is_fitted(self, "n_features_in_")
        known = getattr(self, "feature_names_in_", None)
        names = known if input_features is None else np.asarray(input_features, dtype=object)
        if names is None:
            names = default_names(self.n_features_in_)
        elif len(names) != self.n_features_in_ or (known is not None and not np.array_equal(names, known)):
            raise ValueError("input_features is not equal to feature_names_in_: leave it out.")
        return np.array(lagged_names(list(names), self.lags), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _warn_about_jumps(missing: Floats, lags: int, smooth: float | None) -> None:
    """Rows that were selected from a table do not follow each other, so the row above is not their past."""
    if missing.any():
        what = f"lags={lags} remembers no rows from before a gap" if lags else _about_averages(smooth or 1.0)
        warn(
            f"the row labels have gaps, and {what}. Pass whole stretches of consecutive rows, and choose the rows to "
            "explain with explain(X, rows=...).",
            UserWarning,
        )


def _about_averages(smooth: float) -> str:
    return f"smooth={smooth:g} starts anew where {math.ceil(2 / smooth)} rows or more are missing"
