"""What culpa's estimators take from scikit-learn, which takes longer to load than a small table to score.

A process that only judges rows by a model file, such as ``culpa score``, gets stand-ins: its models are never fitted,
cloned or asked for parameters. Everybody else gets scikit-learn's own classes.
"""

import sys
from importlib import import_module
from typing import Any

_HOMES = {
    "BaseEstimator": "sklearn.base",
    "ClassNamePrefixFeaturesOutMixin": "sklearn.base",
    "ConvergenceWarning": "sklearn.exceptions",
    "DensityMixin": "sklearn.base",
    "TransformerMixin": "sklearn.base",
    "available_if": "sklearn.utils.metaestimators",
}
_only_judges: list[bool] = []


def only_judge_rows() -> None:
    """Say that this process will judge rows and do nothing else, unless it has loaded scikit-learn already."""
    if "sklearn" not in sys.modules:
        _only_judges.append(True)


def check_is_fitted(estimator: Any, attribute: str | None = None) -> None:
    """Raise scikit-learn's error if an estimator is not fitted."""
    held = vars(estimator)
    if attribute not in held if attribute else not any(name.endswith("_") and name[:2] != "__" for name in held):
        from sklearn.utils.validation import check_is_fitted as check

        check(estimator, attribute)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(name)
    if not _only_judges:
        return getattr(import_module(_HOMES[name]), name)
    return (lambda check: lambda method: method) if name == "available_if" else type(name, (UserWarning,), {})


__all__ = [*_HOMES, "check_is_fitted", "only_judge_rows"]
