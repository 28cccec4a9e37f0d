"""Which parameters of a detector go together: one table for each way to learn."""

from collections.abc import Callable
from typing import Any

from culpa import games
from culpa._core.parameters import DetectorSettings
from culpa.scores.limits import FROM_ROWS

Clashes = dict[str, dict[str, Callable[[Any], bool]]]  # what to say of the parameters, where all these tests are true


def _is(*values: Any) -> Callable[[Any], bool]:
    return lambda value: value in values


def _not(*values: Any) -> Callable[[Any], bool]:
    return lambda value: value not in values


_OTHER_MODEL, _STUDENT, _SMOOTHED = {"model": _not("ppca")}, {"model": _is("student")}, {"smooth": _not(None, 1)}
_ALWAYS: Clashes = {
    "limit='f' is for statistic='t2', not {statistic!r}: use 'auto'.": {"limit": _is("f"), "statistic": _not("t2")},
    "game='retraining' explains reconstruction errors: use statistic='spe' or 'mse', not {statistic!r}.": {
        "game": _is("retraining"),
        "statistic": _not("auto", *games.RETRAINABLE),
    },
    "lags={lags} and smooth={smooth:g} both look back in time and cannot be combined: choose one.": {
        "lags": _not(0),
        **_SMOOTHED,
    },
    "limit={limit!r} and contamination={contamination:g} both set the limit: give one of them.": {
        "contamination": _not(None),
        "limit": lambda limit: not isinstance(limit, str),
    },
    "modes={modes!r} are a mixture of PPCA, and do not go with model={model!r}: choose one.": {
        "modes": _not(None),
        **_OTHER_MODEL,
    },
    "smooth averages rows, and averages do not follow model={model!r}: use one without the other.": {
        **_SMOOTHED,
        **_OTHER_MODEL,
    },
    "n_components='mle' is for Gaussian rows, not for model={model!r}: use 'auto'.": {
        "n_components": _is("mle"),
        **_OTHER_MODEL,
    },
    "game='retraining' retrains a PCA, and model='student' is none: use game='conditional' or 'interventional', or "
    "model='ppca'.": {"game": _is("retraining"), **_STUDENT},
    "limit={limit!r} assumes Gaussian rows: with model='student', use 'auto' or 'formula'.": {
        "limit": _is("jackson-mudholkar", "f"),
        **_STUDENT,
    },
} | {
    f"{name}={{{name}!r}} is not available with modes={{modes!r}}: {advice}.": {name: test, "modes": _not(None)}
    for name, test, advice in (
        ("game", _not("conditional"), "use 'conditional'"),
        ("statistic", _is("combined"), "use 'mahalanobis'"),
        ("n_components", _is("mle"), "use 'auto'"),
        ("limit", _not("auto", "empirical", "conformal"), "use 'auto'"),
        ("smooth", _SMOOTHED["smooth"], "averages would mix rows of different modes"),
    )
}
_OF_ROWS = {
    "model": _not("ppca"),
    "modes": _not(None),
    "robust": _not(None),
    "trim": _not(0),
    "contamination": _not(None),
    "limit": _is("conformal"),
    **_SMOOTHED,
}
_WITH_WEIGHTS: Clashes = {
    f"sample_weight cannot be combined with {name}={{{name}!r}}: leave one of them out.": {name: test}
    for name, test in _OF_ROWS.items()
}
# what a mean and a covariance do not tell, however often the rows are read
_FROM_MOMENTS: Clashes = {
    f"{name}={{{name}!r}} needs all training rows at once. Use fit.": {name: test} for name, test in _OF_ROWS.items()
}
_IN_PIECES: Clashes = _FROM_MOMENTS | {
    "limit={limit!r} needs all training rows at once. Use fit, or set the limit with calibrate_limit later.": {
        "limit": _is(*FROM_ROWS)
    }
}


def check_combinations(settings: DetectorSettings) -> None:
    """Refuse parameters that are valid one by one, but not together."""
    _refuse(_ALWAYS, settings)


def check_weighted(settings: DetectorSettings) -> None:
    """Refuse weights where rows are not only counted."""
    _refuse(_WITH_WEIGHTS, settings)


def check_moments(settings: DetectorSettings, *, in_pieces: bool) -> None:
    """Refuse what needs the rows where only moments are known; ``in_pieces``, if nobody reads the rows again."""
    _refuse(_IN_PIECES if in_pieces else _FROM_MOMENTS, settings)


def _refuse(clashes: Clashes, settings: DetectorSettings) -> None:
    for sentence, tests in clashes.items():
        if all(test(getattr(settings, name)) for name, test in tests.items()):
            raise ValueError(sentence.format(**vars(settings)))
