"""Which parameters of a detector go together."""

from culpa import games
from culpa._core.parameters import DetectorSettings


def is_smoothed(settings: DetectorSettings) -> bool:
    """Whether rows are averaged; a weight of 1 is no smoothing."""
    return settings.smooth not in (None, 1)


def check_combinations(settings: DetectorSettings) -> None:
    """Refuse parameters that are valid one by one, but not together."""
    statistic, limit = settings.statistic, settings.limit
    if limit == "f" and statistic != "t2":
        raise ValueError(f"limit='f' is for statistic='t2', not {statistic!r}: use 'auto'.")
    if settings.game == "retraining" and statistic not in ("auto", *games.RETRAINABLE):
        raise ValueError(
            f"game='retraining' explains reconstruction errors: use statistic='spe' or 'mse', not {statistic!r}."
        )
    if settings.lags and is_smoothed(settings):
        raise ValueError(
            f"lags={settings.lags} and smooth={settings.smooth:g} both look back in time and cannot be "
            "combined: choose one."
        )
    if settings.contamination is not None and not isinstance(limit, str):
        raise ValueError(
            f"limit={limit!r} and contamination={settings.contamination:g} both set the limit: give one of them."
        )
    _check_model(settings)
    if settings.modes is not None:
        _check_modes(settings)


def check_weighted(settings: DetectorSettings) -> None:
    """Refuse weights where rows are not only counted."""
    if settings.model != "ppca":
        raise ValueError(f"sample_weight cannot be combined with model={settings.model!r}: use 'ppca'.")
    for name in ("modes", "trim", "robust", "contamination"):
        if getattr(settings, name):
            raise ValueError(f"sample_weight cannot be combined with {name}: leave one of them out.")
    if is_smoothed(settings):
        raise ValueError("sample_weight cannot be combined with smooth: leave one of them out.")
    if settings.limit == "conformal":
        raise ValueError("sample_weight cannot be combined with limit='conformal': use 'auto' or 'formula'.")


def _check_model(settings: DetectorSettings) -> None:
    """Refuse what does not go with the distribution of normal rows."""
    model, limit = settings.model, settings.limit
    if model == "ppca":
        return
    own = f"model={model!r}"
    if settings.modes is not None:
        raise ValueError(f"modes={settings.modes!r} are a mixture of PPCA, and do not go with {own}: choose one.")
    if is_smoothed(settings):
        raise ValueError(f"smooth averages rows, and averages do not follow {own}: use one without the other.")
    if settings.n_components == "mle":
        raise ValueError(f"n_components='mle' is for Gaussian rows, not for {own}: use 'auto'.")
    if model == "student" and settings.game == "retraining":
        raise ValueError(
            "game='retraining' retrains a PCA, and model='student' is none: use game='conditional' or "
            "'interventional', or model='ppca'."
        )
    if model == "student" and limit in ("jackson-mudholkar", "f"):
        raise ValueError(f"limit={limit!r} assumes Gaussian rows: with {own}, use 'auto' or 'formula'.")


def _check_modes(settings: DetectorSettings) -> None:
    """Refuse what has no meaning with several modes."""
    refused = {
        "game": (settings.game != "conditional", "use 'conditional'"),
        "statistic": (settings.statistic == "combined", "use 'mahalanobis'"),
        "n_components": (settings.n_components == "mle", "use 'auto'"),
        "limit": (settings.limit not in ("auto", "empirical", "conformal"), "use 'auto'"),
        "smooth": (is_smoothed(settings), "averages would mix rows of different modes"),
    }
    for name, (wrong, advice) in refused.items():
        if wrong:
            own = f"modes={settings.modes!r}"
            raise ValueError(f"{name}={getattr(settings, name)!r} is not available with {own}: {advice}.")
