"""What a fitted detector says about stretches of rows: incidents, drift, comparisons of periods, reports and charts."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack

from culpa._core.border import entered_as_held
from culpa._core.native import emptied
from culpa._core.optional import require
from culpa._core.parameters import BlameOptions, ExplainerOptions, ReportOptions
from culpa._core.types import TableT
from culpa.columns import Reading
from culpa.detecting.judging import JudgesRows
from culpa.monitoring import Incidents, Search, find_incidents, split_time
from culpa.monitoring.comparison import Comparison, compare
from culpa.monitoring.drift import Drift
from culpa.monitoring.drift_measures import DriftGatherer
from culpa.monitoring.times import in_order

if TYPE_CHECKING:
    from culpa.plots import DetectorPlots
    from culpa.report import Report


@entered_as_held
class WatchesRows(JudgesRows):
    """The methods of a detector that look at rows in the order of time."""

    @abstractmethod
    def _unsmoothed(self, X: Any) -> Reading:
        """Rows as features, before any smoothing."""

    def incidents(
        self,
        X: TableT,
        *,
        time: Any = None,
        gap: Any = None,
        min_length: int | None = None,
        false_incidents: str | None = None,
        units: Mapping[str, str] | None = None,
        baseline: int = 0,
        stretches: Sequence[tuple[int, int]] | None = None,
        **options: Unpack[BlameOptions],
    ) -> Incidents[TableT]:
        """Flagged rows that follow each other, as incidents: how they began and spread, whose fault, what was expected.

        Parameters
        ----------
        X
            New rows in the order of time.
        time
            Name of the column of ``X`` that holds the rows' times (it is not a feature then), or the times themselves:
            dates, durations, ISO 8601 texts or numbers, ascending. The index of a pandas table is used by itself if it
            holds times. Without times, sentences name row labels.
        gap, min_length
            Your own definition of an incident, instead of the learned one: the maximum gap between flagged rows, which is
            a number of rows that are not flagged (0 if you only pass ``min_length``) or a time span such as ``"5min"``,
            and the minimum number of flagged rows (1 if you only pass ``gap``).
        false_incidents
            How many false incidents you accept, such as ``"1 per week"`` or ``"1 per 1,000 rows"``. The default is 0.15
            per flagged normal row: 1.5 per 1,000 rows for a confidence of 0.99.
        units
            Units of features for the sentences, such as ``{"flow_3": "m3/h"}``; those of a model file are known.
        baseline
            Where normal operation drifts: judge how far features moved against the mean of this many normal rows before
            the incident (100 to 500 are sensible) instead of the mean of the training rows. 0 for the training rows.
        stretches
            Incidents that you know, as positions of their first and last rows: these are explained, flagged or not,
            instead of those that the detector finds.
        options
            Those of `Explainer`; only flagged rows are explained. A detector with ``groups`` blames these, and
            ``groups=None`` blames single features. Culprits of incidents are found by evidence over their rows, so
            ``ranking`` does not apply.

        Returns
        -------
        Incidents
            A sequence of `culpa.monitoring.incident.Incident` with ``to_frame``, ``to_dict`` and ``to_json``, and
            ``unconfirmed``: flagged rows with too little evidence for an incident.

        Examples
        --------
        >>> from culpa import PCADetector
        >>> from culpa.datasets import make_plant
        >>> plant = make_plant()
        >>> detector = PCADetector().fit(plant.normal)
        >>> incidents = detector.incidents(plant.new)
        >>> len(incidents)  # six faults, and a sensor that stood still in one of them
        7
        >>> incidents[0].culprits[0].feature, list(incidents[0].onset.to_fix)
        ('x2', ['x2'])
        """
        if "ranking" in options:
            raise TypeError(
                "incidents always rank features by the evidence of all their rows, so you cannot pass 'ranking'."
            )
        features, times, name = split_time(X, time)
        search = Search(times, name, gap, min_length, false_incidents, units, baseline, stretches)
        table = in_order(self._read(features, min_rows=0), times, self.fitted.columns.step)
        return find_incidents(self.fitted, table, search, **options)

    def drift(self, X: TableT) -> Drift[TableT]:
        """Whether recent rows still look like the training rows: directions, variances, mean and score, with p-values.

        Blocks of training rows are compared with each other, to see how much rows differ if nothing has changed.

        Parameters
        ----------
        X
            Recent rows in the order of time; rows with missing cells are left out.

        Returns
        -------
        Drift
            With ``drifted``, ``p_value``, ``sentence``, the measures ``angle``, ``variance``, ``mean`` and ``score``,
            ``features``, ``to_frame()``, ``features_to_frame()`` and ``to_json()``.

        Examples
        --------
        >>> from culpa import PCADetector
        >>> from culpa.datasets import make_plant
        >>> plant = make_plant()
        >>> PCADetector().fit(plant.normal).drift(plant.new).drifted  # eight faults in 400 rows
        True
        """
        if self.fitted.n_modes is not None:
            raise ValueError("drift is not available with modes: it compares rows with one mean and one covariance.")
        reading = self._unsmoothed(X)
        return DriftGatherer.of(self.fitted).add(reading.features).finish(emptied(reading.native))

    def compare(self, before: TableT, after: Any, **options: Unpack[ExplainerOptions]) -> Comparison[TableT]:
        """Which features account for the change of the mean score between two periods, and which correlations changed.

        The parts of the features are the differences of their mean Shapley values: exact, and they add up to the change.
        Their 95% intervals allow for rows that depend on each other (means of consecutive stretches of rows).

        Parameters
        ----------
        before, after
            Rows of the two periods, each in the order of time.
        options
            Those of `Explainer`, such as ``groups``.

        Returns
        -------
        Comparison
            With ``sentence``, ``features``, ``correlations``, ``to_frame()``, ``correlations_to_frame()`` and
            ``to_json()``.

        Examples
        --------
        >>> from culpa import PCADetector
        >>> from culpa.datasets import make_plant
        >>> plant = make_plant()
        >>> comparison = PCADetector().fit(plant.normal).compare(plant.normal, plant.new)
        >>> change = sum(each.change.value for each in comparison.features)
        >>> bool(abs(change - comparison.score.value) < 1e-9)
        True
        """
        periods = (self.fitted.read(self._read(X)) for X in (before, after))
        return compare(self.fitted, *periods, **options)

    def report(self, X: Any, *, time: Any = None, **options: Unpack[ReportOptions]) -> "Report":
        """A report on new rows in one HTML file that opens offline: charts, incidents, culprits, model.

        Parameters
        ----------
        X, time
            As for `incidents`.
        options
            ``title`` of the page; ``source``, a name for the data; ``gap``, ``min_length``, ``false_incidents`` and
            ``units``, as for `incidents`; and those of `Explainer`, such as ``groups``.

        Returns
        -------
        Report
            With ``save(path)``, ``to_html()``, ``to_json()`` and ``to_dict()``, all with the same content.
        """
        for package in ("pandas", "pyarrow", "jinja2", "plotly"):
            require(package, "A report")
        features, times, name = split_time(X, time)
        table = in_order(self._read(features), times, self.fitted.columns.step)
        report: Report = import_module("culpa.report").make_report(self.fitted, table, times, name, **options)
        return report

    @property
    def plot(self) -> "DetectorPlots":
        """Plots with matplotlib: ``control_chart(X)``, ``distance(X)``, ``loadings()`` and ``components()``."""
        plots: DetectorPlots = import_module("culpa.plots").DetectorPlots(self)
        return plots
