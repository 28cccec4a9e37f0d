"""Every parameter of the detector, the model, the explainer and the calibration, described once.

The attributes of a class below are parameters with the values that they take and their defaults. Its docstring explains
them. The same description serves the checks of constructors and model files, the options of the command line and their
help, the docstrings, and the page `docs/parameters.md`. This module imports neither NumPy nor scikit-learn, so that
``culpa --help`` stays fast.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, TypedDict

from culpa._core import choices
from culpa._core import kinds as k
from culpa._core.parameter import Parameters, value

EXACT_OPERATIONS = 1.3e9  # per row: a few hundredths of a second, or some ten seconds to compile for any number of rows

_COUNT_OR_SHARE = k.whole(1), k.number(above=0, below=1, note="a share of the variance")
_SCORES = k.any_of(k.choice(choices.SCORE_NAMES), k.FUNCTION).words
_FAULTS = k.list_of(
    k.choice(choices.LASTING_FAULT_KINDS),
    f"a list of kinds of faults among {', '.join(choices.LASTING_FAULT_KINDS)}",
)


class _Update:
    """Parameters of `update`.

    forget
        Forgetting rate: with each new row, all earlier rows lose this share of their weight.

        With 0.001, a row has half of its weight after 693 more rows, and all weights add up to about 1,000 rows. 0
        forgets nothing.
    """

    forget: float = value(k.number(below=1, at_least=0), 0.0)


@dataclass(frozen=True)
class _OfModels:
    """Parameters that all models have.

    noise
        Noise variance of the model, as a multiple of its maximum-likelihood estimate.

        The reconstruction error does not depend on it. Above 1, explanations rely less on the components. Below 1, they
        rely more on them.
    shrinkage
        How far the training covariance is shrunk towards its diagonal: 0 not at all, 1 completely.

        With n_components = d - 1 the model is the shrunk covariance itself. `culpa.calibrate` can choose the value of a
        detector.
    """

    _: KW_ONLY
    noise: float = value(k.POSITIVE, 1.0)
    shrinkage: float = value(k.SHARE, 0.0)


@dataclass(frozen=True)
class _OfPPCA(_OfModels):
    """Parameters of `PPCA` and `StudentPPCA`.

    max_iter
        Maximum number of steps of expectation-maximisation.
    tol
        Expectation-maximisation stops when a step changes the model by less than this, relative to its size.
    """

    _: KW_ONLY
    max_iter: int = value(k.whole(1), 1000)
    tol: float = value(k.NOT_NEGATIVE, 1e-08)


@dataclass(frozen=True)
class DetectorSettings(_OfModels):
    """Parameters of `PCADetector`.

    n_components
        Number of components, or the share of variance that they must explain.

        For a share, culpa uses the smallest number of components that explains it, at most d - 1 for d features. "mle"
        is Minka's estimate. "auto" takes the number with the highest held-out likelihood. For the statistics "spe" and
        "mse", it takes as many components as explain 95% of the variance. `culpa.calibration.components_by_detection`
        finds the number with the highest detection rate of injected faults.
    model
        Distribution of normal rows.

        "ppca" is Gaussian. "student" has Student-t tails, so outliers among the training rows count little. "copula"
        turns each column into normal scores first, for skewed, bounded and heavy-tailed columns. See
        docs/distributions.md.
    modes
        Number of operating modes of the process, each with a model and a limit of its own (a mixture of PPCA).

        "auto" takes the number with the lowest BIC (Bayesian information criterion). In the BIC, rows that resemble the
        row before them count less. With modes, the score of a row is divided by the limit of its mode. None fits one
        model to all rows.
    scale
        Divide each column by its standard deviation in the training rows.

        The standard deviation has the divisor n - 1; scikit-learn's StandardScaler uses n. A constant column keeps
        scale 1.
    statistic
        Score that is compared with the limit and explained.

        "auto" is the Mahalanobis distance if the number of components is also "auto". Otherwise it is the
        reconstruction error "spe".
    confidence
        Share of normal rows that should stay below the limit.
    limit
        How the control limit is computed, or the limit itself as a number.

        "auto" cuts the training rows into ten consecutive blocks, scores each block with a model fitted to the other
        nine, and takes a quantile of these held-out scores. "formula" is Jackson-Mudholkar for reconstruction errors, F
        for T2 and Box for the others. These formulas assume many Gaussian rows. "f" is only for
        statistic="t2". "empirical" is a quantile of the training rows' own scores. "conformal" holds out the last rows
        and takes a quantile of their scores.
    contamination
        Share of the training rows that are abnormal.

        The limit is set so that this share of the training rows is flagged, as in scikit-learn's detectors. Without it,
        the limit follows from ``confidence``.
    holdout
        Conformal limit: share of the rows to hold out, taken from the end.
    trim
        Share of the training rows to leave out. The most abnormal rows are left out, because they may be faulty.
    robust
        Protect the fit from wrong values in the training rows.

        "cells" finds suspicious cells, treats them as missing, and lists them in ``suspicious_cells_``. The other cells
        of their rows are still used.
    lags
        Number of preceding rows that are judged together with each row (dynamic PCA).

        Rows must be consecutive. The blame of a feature covers its present and its past values.
    given
        Columns that describe the context, such as load or grade. Rows are compared with what is normal in their
        context.

        Given columns are never flagged and never blamed. Their effect on the other columns is learned by linear
        regression.
    groups
        Features that are blamed together, such as those of one subsystem.

        Features that are in no group are blamed individually. `explain(X, groups=None)` blames single features.
        `suggested_groups` lists columns that imply each other.
    smooth
        Judge a moving average of the rows, to find small, persistent faults (MEWMA). The value is the weight of the
        current row.

        Rows must be consecutive. 0.2 is a usual choice. None and 1 judge each row alone.
    game
        Coalition game whose Shapley values explain a score.

        The game says how the score is computed if only some features are known. "conditional": the others follow from
        the known ones. "retraining": the model is retrained without the others. "interventional": the others are drawn
        at random, independently of the known ones. "minimal": the others take the values near the row that make the
        score smallest.
    ranking
        Criterion that ranks the features of a row (see docs/localisation.md).

        "shapley" ranks by Shapley value. The others are the criteria of `culpa.ranking`. "leave-one-out" is good at
        finding a single wrong feature, and "fault-odds" at finding one or several. "propagated" is for faults that
        spread. It looks for the feature at which the fault entered.
    noun
        Word for a column in sentences and in the report, such as 'sensor' or 'metric'.
    """

    n_components: int | float | Literal["auto", "mle"] = value(
        k.any_of(*_COUNT_OR_SHARE, k.choice(("auto", "mle"))), "auto", option="components"
    )
    _: KW_ONLY
    model: choices.ModelName = value(default="ppca")
    modes: int | Literal["auto"] | None = value(k.any_of(k.whole(1), k.choice(["auto"])))
    scale: bool = value(default=True)
    statistic: choices.StatisticName = value(default="auto")
    confidence: float = value(k.FRACTION, 0.99)
    limit: choices.LimitKind | float = value(k.any_of(k.POSITIVE, k.choice(choices.LIMIT_KINDS)), "auto")
    contamination: float | None = value(k.number(above=0, at_most=0.5, note="0.05 means 5%"))
    holdout: float = value(k.number(above=0, below=1, note="0.2 means 20%"), 0.2)
    trim: float = value(k.number(below=0.5, at_least=0), 0.0)
    robust: choices.Robustness | None = value()
    lags: int = value(k.whole(0), 0)
    given: Sequence[str | int] | None = value(k.FEATURES)
    groups: Mapping[str, Sequence[str | int]] | None = value(k.GROUPS, option="group")
    smooth: float | None = value(k.number(above=0, at_most=1))
    game: choices.GameName = value(default="conditional")
    ranking: choices.Ranking = value(default="shapley")
    noun: str = value(k.text(30), "feature")


@dataclass(frozen=True)
class PPCASettings(_OfPPCA):
    """Parameters of `PPCA`.

    n_components
        Number of components, or the share of variance that they must explain.

        For a share, culpa uses the smallest number of components that explains it, at most d - 1 for d features. "mle"
        is Minka's estimate.
    method
        How the model is fitted.

        "auto" uses the closed form if all rows are complete, and expectation-maximisation ("em") if cells are missing.
    """

    n_components: int | float | Literal["mle"] = value(
        k.any_of(*_COUNT_OR_SHARE, k.choice(["mle"])), 0.95, option="components"
    )
    _: KW_ONLY
    method: choices.FitMethod = value(default="auto")


@dataclass(frozen=True)
class StudentSettings(_OfPPCA):
    """Parameters of `StudentPPCA`.

    n_components
        Number of components, or the share of variance that they must explain.

        For a share, culpa uses the smallest number of components that explains it, at most d - 1 for d features.
    degrees_of_freedom
        Degrees of freedom of the Student-t distribution. The fewer, the heavier the tails.

        "auto" estimates them, between 3 and 1000.
    """

    n_components: int | float = value(k.any_of(*_COUNT_OR_SHARE), 0.95, option="components")
    _: KW_ONLY
    degrees_of_freedom: float | Literal["auto"] = value(k.any_of(k.number(above=2), k.choice(["auto"])), "auto")


@dataclass(frozen=True)
class MixtureSettings(_OfModels):
    """Parameters of `MixturePPCA`.

    n_modes
        Number of operating modes, each with a PPCA of its own.

        "auto" takes the number with the lowest BIC (Bayesian information criterion). In the BIC, rows that resemble the
        row before them count less.
    n_components
        Number of components of each mode, or the share of its variance that they must explain.

        A list needs a fixed number of modes.
    max_modes
        Largest number of modes that n_modes="auto" tries.
    n_init
        Number of starts (k-means++); the one with the highest likelihood is kept.
    max_iter
        Maximum number of steps of expectation-maximisation.
    tol
        Expectation-maximisation stops when a step raises the log-likelihood per row by less than this.
    seed
        Seed of the random numbers: the same seed gives the same result.
    """

    n_modes: int | Literal["auto"] = value(k.any_of(k.whole(1), k.choice(["auto"])), "auto")
    n_components: int | float | Sequence[int] = value(
        k.any_of(*_COUNT_OR_SHARE, k.list_of(k.whole(1), "a list with one whole number per mode")), 0.95
    )
    _: KW_ONLY
    max_modes: int = value(k.whole(1), 8)
    n_init: int = value(k.whole(1), 5)
    max_iter: int = value(k.whole(1), 200)
    tol: float = value(k.NOT_NEGATIVE, 1e-06)
    seed: int = value(k.whole(0), 0)


class _Shared(TypedDict, total=False):
    """What `Explainer` takes as keywords, and all methods that explain."""

    ranking: Annotated[choices.Ranking | None, value()]
    groups: Annotated[
        Mapping[str, Sequence[str | int]] | Literal["own"] | None,
        value(k.any_of(k.GROUPS, k.choice(["own"])), "own"),
    ]
    upstream: Annotated[Sequence[Sequence[str | int]] | None, value(k.CHAINS)]
    tolerance: Annotated[float | str, value(k.any_of(k.POSITIVE, k.TOP), 0.01)]
    max_coalitions: Annotated[int | None, value(k.whole(1))]
    n_orders: Annotated[int | None, value(k.whole(1))]
    exact_operations: Annotated[float, value(k.NOT_NEGATIVE, EXACT_OPERATIONS)]
    device: Annotated[choices.DeviceName, value(default="auto")]
    memory_bytes: Annotated[float, value(k.NOT_NEGATIVE, 500000000.0)]
    retraining_rank: Annotated[choices.RetrainingRank, value(default="components")]
    locality: Annotated[float, value(k.POSITIVE, 0.01)]
    seed: Annotated[int | None, value(k.whole(0), 0, alias="random_state", optional=False)]
    random_state: int | None
    n_jobs: Annotated[int | None, value(k.whole(None, note="-1 means all cores"), -1)]
    progress: Annotated[Callable[[float, float | None], None] | bool | None, value(k.any_of(k.FLAG, k.FUNCTION))]


class BlameOptions(_Shared, total=False):
    """Options of `Explainer` that leave the score to the detector."""

    game: Annotated[choices.GameName | None, value()]
    method: Annotated[choices.Method, value(default="auto")]


class ReportOptions(BlameOptions, total=False):
    """Options of a report: its title, the name of the data, and how incidents are found and explained."""

    title: str
    source: str
    gap: Any
    min_length: int | None
    false_incidents: str | None
    baseline: int
    units: Mapping[str, str] | None


class ExplainerOptions(BlameOptions, total=False):
    """Options of `Explainer` about the score of a detector."""

    score: Annotated[choices.ScoreName | Callable[[Any], Any] | None, value(k.anything(_SCORES), alias="statistic")]
    statistic: choices.ScoreName | None
    features: Annotated[Sequence[str | int] | None, value(k.FEATURES)]


class ExplainerKeywords(_Shared, total=False):
    """Parameters of `Explainer`.

    score
        Score that is explained.

        None means the model's own score. For a PCADetector this is its statistic, for a covariance estimator the
        Mahalanobis distance, and for a PCA "spe". "mse" is "spe" divided by the number of features, or in the
        retraining game by the number of features in the coalition. If score is a function of rows, pass normal and no
        model.
    game
        Coalition game whose Shapley values explain a score.

        None means the model's own, usually conditional. The game says how the score is computed if only some features
        are known. "conditional": the others follow from the known ones. "retraining": the model is retrained without
        the others. "interventional": the others are drawn at random, independently of the known ones. "minimal": the
        others take the values near the row that make the score smallest.
    method
        How Shapley values are computed.

        "auto" computes exact values if exact_operations allows it, and samples otherwise. `Explainer.chosen` shows the
        choice. "permutation" always samples: coalitions if the game is the conditional or minimal one of a quadratic score
        of a Gaussian model, and orders (permutations) of the features otherwise. "kernel" samples coalitions and computes
        values by regression. It needs fewer coalitions but more time for each, so use it only if coalition values are
        expensive to compute (see docs/sampling.md). "algorithm1" is the Monte Carlo method of the paper.
    normal
        Normal rows, or a culpa model of them. Needed if the score says nothing about normal rows.

        Unknown features are drawn from this model, given the known ones. If you pass rows, culpa fits probabilistic PCA
        to them. A model may also be Student-t, a copula or a mixture. See docs/any-detector.md.
    reconstruct
        Function that returns the reconstruction of rows, to explain its squared error.

        Needs normal.
    reconstruct_matrix
        Matrix M, or a pair (M, c), of a linear reconstruction M x + c, to explain its squared error exactly.

        Without c, the mean of normal rows is reconstructed perfectly. Needs normal.
    max_evaluations
        Maximum number of evaluations per row, if the score is a function.

        None means 256 orders, about 512 times the number of players. All calls for a row count, also for its score and
        score_if_fixed. Standard errors fall with the square root of this number.
    ranking
        Criterion that ranks the features of a row (see docs/localisation.md).

        None means the model's own, usually shapley. "shapley" ranks by Shapley value. The others are the criteria of
        `culpa.ranking`. "leave-one-out" is good at finding a single wrong feature, and "fault-odds" at finding one or
        several. "propagated" is for faults that spread. It looks for the feature at which the fault entered.
    features
        Explain the reconstruction error of these features only.

        Needs score="spe" or "mse". A column of a Pipeline stands for all features made from it.
    groups
        Features that are blamed together, such as those of one subsystem.

        Features that are in no group are blamed individually. "own" means the groups of a PCADetector. None blames
        single features.
    given
        Features that belong to every coalition, so they are never blamed.

        The base value of a row is then the expected score given the values of these features.
    upstream
        Flow sheet: chains of features or groups, causes before effects, such as [('feed', 'reactor', 'product')].

        Values are then asymmetric Shapley values. They only use orders in which causes join before their effects, so a
        cause is also blamed for what it implies about its effects. A wrong flow sheet gives misleading values.
    tolerance
        Sampled values: relative standard error to reach, or top3 to sample until the 3 highest values are certain.

        The relative standard error of a row is the norm of its standard errors divided by the norm of its values. culpa
        draws some rows from the model, and samples until the median of their relative standard errors is at most the
        tolerance. With "top3" (or another number), each row is sampled until the order of its 3 highest Shapley values
        is certain at 95%, or until max_coalitions (by default 32,768, or 12,288 orders) is reached. A warning then says so,
        and why.certain_ranks(3) shows how many ranks are certain.
    max_coalitions
        Sampled values: maximum number of coalitions to evaluate, even if the tolerance is not reached.
    n_orders
        Sampled values: number of coalitions or orders to draw, instead of a tolerance.

        The number is rounded to 6, 12, 24 and so on, or for a score that is a function up to an even number of at least
        16; explainer.chosen says how many orders are used. For method="algorithm1", it is the number of orders per
        feature, and None means 1000. For method="kernel", culpa samples as many coalitions as these orders contain, or
        values all of them if there are at most four times as many.
    exact_operations
        Maximum number of operations per row for which method="auto" is exact.

        The default allows up to 25 features, or 24 if the noise is below 1e-5 of the largest eigenvalue. With a GPU, 64
        times as many operations are allowed, which is enough for 31 features.
    device
        Where Shapley values are computed.

        "auto" uses an NVIDIA GPU if there is one, CuPy is installed (culpa[gpu]) and the job is large enough. "gpu"
        raises an error if there is none. See docs/gpu.md.
    memory_bytes
        Maximum size of compiled quadratic forms, in bytes.
    retraining_rank
        Retraining game: what a retrained PCA keeps, the number of components or their share of the variance.
    locality
        Minimal game: what it costs to move a feature that is not known, relative to the mean curvature of the score.

        Moving a standardised feature by delta costs locality * Tr(A) / d * delta^2, with A the matrix of the score and
        d the number of features. With a small value, unknown features may move far. With a large value, they stay near
        the row.
    seed
        Seed of the random numbers: the same seed gives the same result.
    n_jobs
        Number of threads, as in scikit-learn; None means 1.
    progress
        True for a progress bar, or a function that is called with the share of the work done and the current relative
        error.

        The error is None if values are exact.
    """

    normal: Annotated[Any, value(k.anything("a table of rows or a culpa model"), optional=True)]
    reconstruct: Annotated[
        Any,
        value(k.anything("a function, a torch module, an ONNX session or an estimator with `predict`"), optional=True),
    ]
    reconstruct_matrix: Annotated[Any, value(k.anything("a matrix or a pair of a matrix and a vector"), optional=True)]
    max_evaluations: Annotated[int | None, value(k.whole(1))]
    features: Annotated[Sequence[str | int] | None, value(k.FEATURES)]
    given: Annotated[Sequence[str | int] | None, value(k.FEATURES)]
    statistic: choices.ScoreName | None


class _Calibration:
    """Parameters of `calibrate`.

    kinds
        Kinds of faults to inject.

        None means all of them. With lags, a fault begins some rows before the row that is judged. "drift" needs lags.
    at_once
        How many columns a fault changes at once.
    n_folds
        Number of consecutive folds; each is held out once.
    n_trials
        Number of faults to inject, over all folds.
    seed
        Seed of the random numbers: the same seed gives the same result.
    progress
        True for a progress bar, or a function that is called with the share of the work done and the name of the
        current step.
    """

    kinds: Any = value(_FAULTS, optional=True, shown="all")
    at_once: Sequence[int] = value(k.list_of(k.whole(1), "a list of whole numbers of at least 1"), (1, 2, 3))
    n_folds: int = value(k.whole(2), 5)
    n_trials: int = value(k.whole(1), 1800, option="trials")
    seed: int = value(k.whole(0), 0)
    progress: Any = value(k.any_of(k.FLAG, k.FUNCTION), optional=True)


UPDATE = Parameters.of("update", _Update)
FORGET = UPDATE["forget"]
DETECTOR = Parameters.of("PCADetector", DetectorSettings)
PPCA_PARAMETERS = Parameters.of("PPCA", PPCASettings)
STUDENT_PARAMETERS = Parameters.of("StudentPPCA", StudentSettings)
MIXTURE_PARAMETERS = Parameters.of("MixturePPCA", MixtureSettings)
EXPLAINER = Parameters.of("Explainer", ExplainerOptions, ExplainerKeywords)
CALIBRATION = Parameters.of("calibrate", _Calibration)
