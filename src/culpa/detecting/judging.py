"""What a fitted detector says about rows: scores, flags, statistics, explanations, fixes and reconstructions."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from culpa._core.border import entered_as_held, on_what_is_held
from culpa._core.choices import Criterion, Parts, ScoreName
from culpa._core.native import same_kind
from culpa._core.parameters import ExplainerOptions
from culpa._core.types import DataFrame, Floats, FrameT, TableT
from culpa._core.validation import Table
from culpa.columns import Reading
from culpa.explaining.explainer import Explainer
from culpa.explaining.explanation import Explanation
from culpa.explaining.joint_fix import JointFix, fix_jointly
from culpa.fitted import FittedDetector, operating_modes
from culpa.fitting.diagnostics import groups_to_suggest
from culpa.models.ties import SuggestedGroup
from culpa.monitoring.statistics import limits_table, statistics_table
from culpa.ranking import contributions

if TYPE_CHECKING:
    import pandas as pd


@entered_as_held
class JudgesRows:
    """The methods of a detector that judge and explain rows one by one; ``fitted`` does the work."""

    @property
    @abstractmethod
    def fitted(self) -> FittedDetector:
        """The fitted core: what judges and explains rows, as one immutable object."""

    @abstractmethod
    def _read(self, X: Any, min_rows: int = 1) -> Table:
        """Check a table against the columns that the detector was fitted on."""

    def _held(self) -> Self:
        """This detector as it is now, whatever another thread makes of it meanwhile."""
        return self

    @on_what_is_held
    def _checked(self, X: Any) -> tuple[FittedDetector, Table]:
        """The fitted core and a table checked against its columns, both of the same moment."""
        return self.fitted, self._read(X)

    def score_samples(self, X: Any) -> Floats:
        """Negative score of each row: higher is more normal."""
        return -self.fitted.score(self._read(X))

    def decision_function(self, X: Any) -> Floats:
        """Limit minus score: negative for anomalies. It is 0 where a score exceeds the limit by no more than rounding."""
        limit, score = self.fitted.limit, self.fitted.score(self._read(X))
        return np.where(self.fitted.is_flagged(score), limit - score, np.maximum(limit - score, 0.0))

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for anomalies, +1 for normal rows; a row without any observed feature is not flagged."""
        fitted = self.fitted
        return np.where(fitted.is_flagged(fitted.score(self._read(X))), -1, 1)

    def operating_modes(self, X: Any) -> NDArray[np.int64]:
        """The operating mode of each row, counted from 1; the mode of the most training rows is 1.

        It needs a detector with ``modes``. A row without any observed feature gets the most frequent mode.
        """
        fitted = self.fitted
        if fitted.n_modes is None:
            raise ValueError("the detector does not tell modes apart: fit it with modes='auto' or a number of modes.")
        return operating_modes(fitted, fitted.read(self._read(X)))

    @overload
    def statistics(self, X: FrameT, *, fdr: float | None = None) -> FrameT: ...

    @overload
    def statistics(self, X: Any, *, fdr: float | None = None) -> DataFrame: ...

    def statistics(self, X: Any, *, fdr: float | None = None) -> Any:
        """Table of statistics: SPE, T2 and the detector's own, with limits and flags.

        Parameters
        ----------
        X
            Rows.
        fdr
            False discovery rate: the column ``discovery`` then marks as many rows as can be reported so that the
            expected share of false alarms among them is at most this (Benjamini and Hochberg).

        Returns
        -------
        data frame
            Of the kind of ``X``. ``p_value`` says how often a normal row has a score as high as this one or higher,
            from held-out training rows; it is missing if the limit is a formula. ``anomaly`` is what `predict` says: it
            follows the detector's own statistic alone. Limits are at the detector's ``confidence``; `control_limits`
            has others.
        """
        return statistics_table(self.fitted, self._read(X), fdr)

    def control_limits(
        self, confidences: float | Sequence[float] = (0.95, 0.99), *, training: bool = False
    ) -> "pd.DataFrame":
        """Table of limits for control charts.

        Parameters
        ----------
        confidences
            Of the limits; the detector's own is always among them. A confidence that held-out rows are too few for is
            left out.
        training
            Limits for charts of the training rows themselves: the Beta limit for T2.

        Returns
        -------
        data frame
            One line for SPE, T2 and the detector's own statistic at every confidence: statistic, confidence, kind,
            limit. `limit_`, which `predict` uses, is one of them.
        """
        table: pd.DataFrame = limits_table(self.fitted, confidences, training=training)
        return table

    def explain(
        self, X: TableT, rows: Any = None, *, parts: Parts = None, **options: Unpack[ExplainerOptions]
    ) -> Explanation[TableT]:
        """Explain the score of every row, or of those that ``rows`` picks.

        Parameters
        ----------
        X
            Rows. No rows give an empty explanation. With lags, give whole stretches of consecutive rows, and pick
            with ``rows=flags == -1``.
        rows
            Which rows to explain: positions, a mask, a slice, or labels of a pandas index. Whole numbers are positions,
            and a pandas Index holds labels.
        parts
            Fields of the explanation to compute, one or several of "values", "score", "expected" and "score_if_fixed";
            by default all of them.
        options
            Those of `Explainer`. A detector with ``groups`` blames these; ``groups=None`` opens them and blames single
            features.

        Returns
        -------
        Explanation
            With a Shapley value for each row and player.
        """
        return self.fitted.explain(self._read(X, min_rows=0), rows, parts=parts, **options)

    def contributions(self, X: Any, criterion: Criterion = "rbc", *, statistic: ScoreName | None = None) -> Any:
        """Classical contributions of every feature to a statistic.

        They only rank suspects: `explain` gives Shapley values, which respect correlations.

        Parameters
        ----------
        X
            Rows.
        criterion
            One of those that ``ranking`` takes.
        statistic
            By default the detector's own, and the Mahalanobis distance for "leave-one-out", "mahalanobis-shapley",
            "fault-odds" and "propagated".

        Returns
        -------
        ndarray or data frame
            In the shape and kind of ``X``.
        """
        table, fitted = self._read(X, min_rows=0), self.fitted
        name = statistic or (None if criterion in contributions.OF_MAHALANOBIS else fitted.statistic.name)
        return contributions.of_model(self, table, criterion, name and fitted.named(name))

    def explainer(self, **options: Unpack[ExplainerOptions]) -> Explainer:
        """The `Explainer` behind `explain`. It is kept until the next ``fit``, with the forms that it has compiled."""
        return self.fitted.explainer(**options)

    def fix(self, X: Any, features: Sequence[str | int] | int = 2) -> JointFix:
        """Fix several features of each row at once: what the remaining ones imply for all of them, and the score then.

        Parameters
        ----------
        X
            Rows.
        features
            Names of the features, or the number of each row's worst culprits to fix. The name of a group stands for its
            features; worst culprits are single features.

        Returns
        -------
        JointFix
            With actual and expected values, and the score before and after.
        """
        fitted = self.fitted
        explainer = fitted.explainer(groups=None)
        reading = explainer.columns.read(self._read(X, min_rows=0))
        return fix_jointly(explainer, reading, fitted.limit, features, fitted.groups)

    def suggested_groups(self) -> list[SuggestedGroup]:
        """Columns that imply each other, so that faults in one cannot be told from faults in the other, strongest first.

        Two columns imply each other where their partial correlation in the training rows, given all other columns, is at
        least 0.85 in absolute value; with lags, that of present values. (With fewer than 5 rows per column, it is that in
        the model.) Columns that share a partner are joined. What is in a group of the detector is not suggested again.

        Examples
        --------
        >>> import numpy as np
        >>> from culpa import PCADetector
        >>> rng = np.random.default_rng(0)
        >>> flow, others = rng.normal(size=500), rng.normal(size=(500, 3))
        >>> X = np.column_stack([flow, flow + 0.01 * rng.normal(size=500), others])
        >>> [group.features for group in PCADetector().fit(X).suggested_groups()]
        [('x0', 'x1')]
        """
        return groups_to_suggest(self.fitted)

    @overload
    def reconstruct(self, X: FrameT) -> FrameT: ...

    @overload
    def reconstruct(self, X: Any) -> Floats: ...

    def reconstruct(self, X: Any) -> Any:
        """The reconstruction of each row by the model, in the user's units and kind of table; missing cells are filled in.

        Given columns stay as they are, and smoothed rows are reconstructed as averages.
        """
        table = self._read(X)
        return same_kind(table.native, self._reconstructed(table, self.fitted.read(table)), table.names)

    def _reconstructed(self, table: Table, reading: Reading) -> Floats:
        model = self.fitted.model
        rows = model.standard.reconstruct(model.standardise(reading.features))
        result = table.array.copy()
        result[:, model.columns.positions] = model.to_cells(rows, reading, model.columns)
        return result

    @overload
    def residuals(self, X: FrameT) -> FrameT: ...

    @overload
    def residuals(self, X: Any) -> Floats: ...

    def residuals(self, X: Any) -> Any:
        """Row minus reconstruction, in the user's units and kind of table."""
        table = self._read(X)
        reading = self.fitted.read(table)
        residuals = table.array - self._reconstructed(table, reading)
        at = self.fitted.columns.positions
        residuals[:, at] += reading.cells - table.array[:, at]  # smoothed cells are averages
        return same_kind(table.native, residuals, table.names)
