"""Which parameters of a detector go together."""

from collections.abc import Mapping
from typing import Any

from culpa import games
from culpa.fitting.modes import has_modes

Parameters = Mapping[str, Any]


def is_smoothed(parameters: Parameters) -> bool:
    """Whether rows are averaged; a weight of 1 is no smoothing."""
    return parameters["smooth"] not in (None, 1)


def check_combinations(parameters: Parameters) -> None:
    """Refuse parameters that are valid one by one, but not together."""
    statistic, limit = parameters["statistic"], parameters["limit"]
    if limit == "f" and statistic != "t2":
        raise ValueError(f"limit='f' is for statistic='t2', not {statistic!r}: use 'auto'.")
    if parameters["game"] == "retraining" and statistic not in ("auto", *games.RETRAINABLE):
        raise ValueError(
            f"game='retraining' explains reconstruction errors: use statistic='spe' or 'mse', not {statistic!r}."
        )
    if parameters["lags"] and is_smoothed(parameters):
        raise ValueError(
            f"lags={parameters['lags']} and smooth={parameters['smooth']:g} both look back in time and cannot be "
            "combined: choose one."
        )
    if parameters["contamination"] is not None and not isinstance(limit, str):
        raise ValueError(
            f"limit={limit!r} and contamination={parameters['contamination']:g} both set the limit: give one of them."
        )
    _check_model(parameters)
    if has_modes(parameters):
        _check_modes(parameters)


def check_weighted(parameters: Parameters) -> None:
    """Refuse weights where rows are not only counted."""
    if parameters["model"] != "ppca":
        raise ValueError(f"sample_weight cannot be combined with model={parameters['model']!r}: use 'ppca'.")
    for name in ("modes", "trim", "robust", "contamination"):
        if parameters[name]:
            raise ValueError(f"sample_weight cannot be combined with {name}: leave one of them out.")
    if is_smoothed(parameters):
        raise ValueError("sample_weight cannot be combined with smooth: leave one of them out.")
    if parameters["limit"] == "conformal":
        raise ValueError("sample_weight cannot be combined with limit='conformal': use 'auto' or 'formula'.")


def _check_model(parameters: Parameters) -> None:
    """Refuse what does not go with the distribution of normal rows."""
    model, limit = parameters["model"], parameters["limit"]
    if model == "ppca":
        return
    own = f"model={model!r}"
    if parameters["modes"] is not None:
        raise ValueError(f"modes={parameters['modes']!r} are a mixture of PPCA, and do not go with {own}: choose one.")
    if is_smoothed(parameters):
        raise ValueError(f"smooth averages rows, and averages do not follow {own}: use one without the other.")
    if parameters["n_components"] == "mle":
        raise ValueError(f"n_components='mle' is for Gaussian rows, not for {own}: use 'auto'.")
    if model == "student" and parameters["game"] == "retraining":
        raise ValueError(
            "game='retraining' retrains a PCA, and model='student' is none: use game='conditional' or "
            "'interventional', or model='ppca'."
        )
    if model == "student" and limit in ("jackson-mudholkar", "f"):
        raise ValueError(f"limit={limit!r} assumes Gaussian rows: with {own}, use 'auto' or 'formula'.")


def _check_modes(parameters: Parameters) -> None:
    """Refuse what has no meaning with several modes."""
    refused = {
        "game": (parameters["game"] != "conditional", "use 'conditional'"),
        "statistic": (parameters["statistic"] == "combined", "use 'mahalanobis'"),
        "n_components": (parameters["n_components"] == "mle", "use 'auto'"),
        "limit": (parameters["limit"] not in ("auto", "empirical", "conformal"), "use 'auto'"),
        "smooth": (is_smoothed(parameters), "averages would mix rows of different modes"),
    }
    for name, (wrong, advice) in refused.items():
        if wrong:
            own = f"modes={parameters['modes']!r}"
            raise ValueError(f"{name}={parameters[name]!r} is not available with {own}: {advice}.")
