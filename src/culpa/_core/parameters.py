"""Every parameter of the detector, the model, the explainer and the calibration, described once.

The same description serves the checks of constructors and model files, the options of the command line and their help,
the docstrings, and the page `docs/parameters.md`. This module imports neither NumPy nor scikit-learn, so that
``culpa --help`` stays fast.
"""

from dataclasses import replace

from culpa._core.choices import (
    DEVICES,
    FIT_METHODS,
    GAME_NAMES,
    LASTING_FAULT_KINDS,
    LIMIT_KINDS,
    METHODS,
    RANKINGS,
    RETRAINING_RANKS,
    ROBUSTNESS,
    SCORE_NAMES,
    STATISTIC_NAMES,
)
from culpa._core.kinds import (
    CHAINS,
    FEATURES,
    FRACTION,
    FUNCTION,
    GROUPS,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    AnyOf,
    Choice,
    Flag,
    Number,
    Text,
    Whole,
    list_of,
)
from culpa._core.parameter import Parameter, Parameters

EXACT_OPERATIONS = 1.3e9  # per row: a few hundredths of a second, or some ten seconds to compile for any number of rows


_COUNT_OR_SHARE = Whole(1), Number(above=0, below=1, note="a share of the variance")
_COMPONENTS = Parameter(
    "n_components",
    AnyOf((*_COUNT_OR_SHARE, Choice(("mle",)))),
    0.95,
    "Number of components, or the share of variance that they must explain.",
    'A share takes the smallest number of components that explains it, at most d - 1 for d features. "mle" is Minka\'s '
    "estimate.",
    option="components",
)
_NOISE = Parameter(
    "noise",
    POSITIVE,
    1.0,
    "Noise variance of the model, as a multiple of its maximum-likelihood estimate.",
    "The reconstruction error does not depend on it. Above 1, explanations rely less on the components; below 1, more.",
)
_SHRINKAGE = Parameter(
    "shrinkage",
    SHARE,
    0.0,
    "How far the training covariance is shrunk towards its diagonal: 0 not at all, 1 completely.",
    "With n_components = d - 1 the model is the shrunk covariance itself.",
)
_GAME = Parameter(
    "game",
    Choice(GAME_NAMES),
    "conditional",
    "Coalition game whose Shapley values explain a score.",
    'The game says how the score is computed if only some features are known. "conditional": the others follow from the '
    'known ones. "retraining": the model is retrained without the others. "interventional": the others are drawn at '
    'random, independently of the known ones. "minimal": the others take the values near the row that make the score '
    "smallest.",
)
_RANKING = Parameter(
    "ranking",
    Choice(RANKINGS),
    "shapley",
    "Criterion that ranks the features of a row (see docs/localisation.md).",
    '"shapley" ranks by Shapley value; the others are the criteria of `culpa.ranking`. "leave-one-out" finds a single '
    'wrong feature more often than Shapley values, and "fault-odds" finds one or several wrong features more often. '
    '"propagated" finds where a fault entered that then moved other features.',
)
_GROUPS = Parameter(
    "groups",
    GROUPS,
    None,
    "Features that are blamed together, such as those of one subsystem.",
    "Features in no group stay on their own.",
    optional=True,
)
_SEED = Parameter(
    "seed",
    Whole(0),
    0,
    "Seed of the random numbers: the same seed gives the same result.",
)

FORGET = Parameter(
    "forget",
    Number(at_least=0, below=1),
    0.0,
    "Share of its weight that every earlier row loses with each new row.",
    "With 0.001, a row has half of its weight after 693 more rows, and all weights add up to about 1,000 rows. 0 forgets "
    "nothing.",
)

UPDATE = Parameters("update", [FORGET])

DETECTOR = Parameters(
    "PCADetector",
    [
        replace(
            _COMPONENTS,
            kind=AnyOf((*_COUNT_OR_SHARE, Choice(("auto", "mle")))),
            default="auto",
            more=f'{_COMPONENTS.more} "auto" takes the number with the highest held-out likelihood. For the statistics '
            '"spe" and "mse", it takes as many components as explain 95% of the variance. '
            "`culpa.calibration.components_by_detection` finds the number that detects most injected faults.",
        ),
        Parameter(
            "scale",
            Flag(),
            True,
            "Divide each column by its standard deviation in the training rows.",
            "The divisor is n - 1; scikit-learn's StandardScaler uses n. A constant column keeps scale 1.",
        ),
        Parameter(
            "statistic",
            Choice(STATISTIC_NAMES),
            "auto",
            "Score that is compared with the limit and explained.",
            '"auto" is the Mahalanobis distance if the number of components is also "auto". Otherwise it is the '
            'reconstruction error "spe".',
        ),
        Parameter(
            "confidence",
            FRACTION,
            0.99,
            "Share of normal rows that should stay below the limit.",
        ),
        Parameter(
            "limit",
            Choice(LIMIT_KINDS),
            "auto",
            "How the control limit is computed.",
            '"auto" cuts the training rows into ten consecutive blocks, scores each block with a model fitted to the other '
            'nine, and takes a quantile of these held-out scores. "formula" is Jackson-Mudholkar for reconstruction '
            'errors, F for T2 and Box for the others. These and "imhof" assume many Gaussian rows; "f" is for '
            'statistic="t2". "empirical" is a quantile of the training rows\' own scores. "conformal" holds out the last '
            "rows and takes a quantile of their scores.",
        ),
        Parameter(
            "holdout",
            Number(above=0, below=1, note="0.2 means 20%"),
            0.2,
            "Share of the rows, taken from the end, that the conformal limit holds out.",
        ),
        Parameter(
            "trim",
            Number(at_least=0, below=0.5),
            0.0,
            "Share of the training rows to leave out: the most abnormal ones, which may be faulty.",
        ),
        Parameter(
            "robust",
            Choice(ROBUSTNESS),
            None,
            "Protect the fit from wrong values in the training rows.",
            '"cells" finds suspicious cells, treats them as missing, and lists them in ``suspicious_cells_``. The other '
            "cells of their rows are used.",
            optional=True,
        ),
        Parameter(
            "lags",
            Whole(0),
            0,
            "Number of preceding rows that are judged together with each row (dynamic PCA).",
            "Rows must be consecutive. Each feature is blamed for its present and past values together.",
        ),
        Parameter(
            "given",
            FEATURES,
            None,
            "Columns that describe the context, such as load or grade. Rows are judged by what their context implies.",
            "Given columns are never flagged and never blamed. Their effect on the other columns is learned by linear "
            "regression.",
            optional=True,
        ),
        replace(
            _GROUPS,
            more=f"{_GROUPS.more} `explain(X, groups=None)` blames single features. `suggested_groups` lists columns that "
            "imply each other.",
            option="group",
        ),
        Parameter(
            "smooth",
            Number(above=0, at_most=1),
            None,
            "Judge a moving average of the rows, to find small, persistent faults (MEWMA). The value is the weight of the "
            "present row.",
            "Rows must be consecutive. 0.2 is a usual choice. None and 1 judge each row alone.",
            optional=True,
        ),
        _NOISE,
        replace(_SHRINKAGE, more=f"{_SHRINKAGE.more} `culpa.calibrate` can choose the value."),
        _GAME,
        _RANKING,
        Parameter(
            "noun",
            Text(30),
            "feature",
            "Word for a column in sentences and in the report, such as 'sensor' or 'metric'.",
        ),
    ],
)

PPCA_PARAMETERS = Parameters(
    "PPCA",
    [
        _COMPONENTS,
        _NOISE,
        _SHRINKAGE,
        Parameter(
            "method",
            Choice(FIT_METHODS),
            "auto",
            "How the model is fitted.",
            '"auto" uses the closed form if all rows are complete, and expectation-maximisation ("em") if cells are '
            "missing.",
        ),
        Parameter("max_iter", Whole(1), 1000, "Maximum number of steps of expectation-maximisation."),
        Parameter(
            "tol",
            NOT_NEGATIVE,
            1e-8,
            "Expectation-maximisation stops when a step changes the model by less than this, relative to its size.",
        ),
    ],
)

EXPLAINER = Parameters(
    "Explainer",
    [
        Parameter(
            "score",
            Choice(SCORE_NAMES),
            "spe",
            "Score that is explained.",
            '"mse" is "spe" divided by the number of features. In the retraining game it is divided by the number of '
            "features "
            "in the coalition.",
            alias="statistic",
        ),
        _GAME,
        Parameter(
            "method",
            Choice(METHODS),
            "auto",
            "How Shapley values are computed.",
            '"auto" computes exact values if exact_operations allows it, and samples orders otherwise. "kernel" samples '
            "coalitions and computes values by regression: it needs fewer coalitions than orders do, but more time for "
            "each, so it pays where values of coalitions are expensive (see docs/sampling.md). `Explainer.chosen` shows "
            "the choice.",
        ),
        _RANKING,
        Parameter(
            "features",
            FEATURES,
            None,
            "Explain the reconstruction error of these features only.",
            'Needs score="spe" or "mse". A column of a Pipeline stands for all features made from it.',
            optional=True,
        ),
        _GROUPS,
        Parameter(
            "given",
            FEATURES,
            None,
            "Features that belong to every coalition, so they are never blamed.",
            "The base value of a row is then the expected score given the values of these features.",
            optional=True,
        ),
        Parameter(
            "upstream",
            CHAINS,
            None,
            "Flow sheet: chains of features or groups, causes before effects, such as [('feed', 'reactor', 'product')].",
            "Values are then asymmetric Shapley values: only orders in which causes join before their effects count, so a "
            "cause is also credited with what it implies about its effects. A flow sheet that is wrong misleads.",
            optional=True,
        ),
        Parameter(
            "tolerance",
            POSITIVE,
            0.01,
            "Sampled values: relative standard error to reach.",
            "The relative standard error of a row is the norm of its standard errors divided by the norm of its values. "
            "culpa samples until the median over some rows drawn from the model is at most this.",
        ),
        Parameter(
            "max_coalitions",
            Whole(1),
            None,
            "Sampled values: maximum number of coalitions to evaluate, even if the tolerance is not reached.",
            optional=True,
        ),
        Parameter(
            "n_orders",
            Whole(1),
            None,
            "Sampled values: number of orders, instead of a tolerance.",
            'For method="algorithm1" it is the number of orders per feature, and None means 1000. For method="kernel" it '
            "stands for as many coalitions as these orders have.",
            optional=True,
        ),
        Parameter(
            "exact_operations",
            NOT_NEGATIVE,
            EXACT_OPERATIONS,
            'Maximum number of operations per row for which method="auto" is exact.',
            "The default allows up to 25 features, or 24 if the noise is below 1e-5 of the largest eigenvalue. With a GPU, "
            "64 times as many operations are allowed, which is enough for 31 features.",
        ),
        Parameter(
            "device",
            Choice(DEVICES),
            "auto",
            "Where exact values are computed.",
            '"auto" uses an NVIDIA GPU if there is one, CuPy is installed (culpa[gpu]) and the job is large enough. "gpu" '
            "raises an error if there is none. See docs/gpu.md.",
        ),
        Parameter(
            "memory_bytes",
            NOT_NEGATIVE,
            5e8,
            "Maximum size of compiled quadratic forms, in bytes.",
        ),
        Parameter(
            "retraining_rank",
            Choice(RETRAINING_RANKS),
            "components",
            "Retraining game: a retrained PCA keeps the number of components, or their share of the variance.",
        ),
        Parameter(
            "locality",
            POSITIVE,
            0.01,
            "Minimal game: what it costs to move a feature that is not known, relative to the mean curvature of the score.",
            "Moving a standardised feature by delta costs locality * Tr(A) / d * delta^2, with A the matrix of the score "
            "and d the number of features. A small value asks what the score could be anywhere, a large one what it could "
            "be next to the row.",
        ),
        replace(_SEED, alias="random_state"),
        Parameter(
            "n_jobs",
            Whole(None, note="-1 means all cores"),
            -1,
            "Number of threads, as in scikit-learn; None means 1.",
            optional=True,
        ),
        Parameter(
            "progress",
            FUNCTION,
            None,
            "Function that is called with the share of the work done and the current relative error.",
            "The error is None if values are exact.",
            optional=True,
        ),
    ],
)

CALIBRATION = Parameters(
    "calibrate",
    [
        Parameter(
            "kinds",
            list_of(Choice(LASTING_FAULT_KINDS), f"a list of kinds of faults among {', '.join(LASTING_FAULT_KINDS)}"),
            None,
            "Kinds of faults to inject.",
            'None means all of them. With lags, a fault begins some rows before the row that is judged. "drift" needs '
            "lags.",
            optional=True,
        ),
        Parameter(
            "at_once",
            list_of(Whole(1), "a list of whole numbers of at least 1"),
            (1, 2, 3),
            "Numbers of columns that a fault changes at once.",
        ),
        Parameter("n_folds", Whole(2), 5, "Number of consecutive folds; each is held out once."),
        Parameter("n_trials", Whole(1), 1800, "Number of faults to inject, over all folds.", option="trials"),
        _SEED,
        Parameter(
            "progress",
            FUNCTION,
            None,
            "Function that is called with the share of the work done and what is being done.",
            optional=True,
        ),
    ],
)
