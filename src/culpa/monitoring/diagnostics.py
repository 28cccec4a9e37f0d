"""What a user should know before trusting a fitted detector."""

import numpy as np

from culpa._core.types import Mask
from culpa.columns import lagged_names
from culpa.fitted import FittedDetector
from culpa.models import PPCA
from culpa.models.latent import RELATIVE_FLOOR


class FitWarning(UserWarning):
    """Something that a user should know before trusting a fitted detector."""


_ROWS_PER_FEATURE = 5  # fewer training rows than this lie closer to the model than new ones will
_SAME = 1 - 1e-9  # correlation of two columns that are one and the same


def unfinished(model: PPCA) -> list[str]:
    """What fitting warned of."""
    if model.converged_:
        return []
    return [f"expectation-maximisation stopped after {model.n_iter_} steps without converging."]


def _did_not_vary(fitted: FittedDetector) -> Mask:
    variance = np.diag(fitted.ppca.covariance_)
    if fitted.parameters["scale"]:  # then others have a variance of 1, and these one that missing cells lend them
        return np.asarray((fitted.model.scale == 1.0) & (variance < 0.5))
    return np.asarray(variance <= RELATIVE_FLOOR * variance.max())


def _weighed(fitted: FittedDetector) -> str:
    """How changes of a column count that did not vary."""
    if fitted.statistic.name == "t2":
        return "t2 does not see them."
    if fitted.statistic.name == "mahalanobis":
        return "small ones may be flagged. Leave it out with --drop if it may change."
    return f"they are weighed {'as if its standard deviation were 1' if fitted.parameters['scale'] else 'as they are'}."


def oddities(fitted: FittedDetector) -> list[str]:
    """What a user should know before trusting a model."""
    model, names = fitted.ppca, lagged_names(fitted.columns.names, fitted.columns.lags)
    d, found = len(names), []
    if model.n_samples_ < _ROWS_PER_FEATURE * d:
        found.append(
            f"{model.n_samples_:,} rows are few for {d:,} features: new rows will lie further from the model than these "
            f"do, and more than asked for will be flagged. {_ROWS_PER_FEATURE} rows per feature or more are better."
        )
    variance = np.diag(model.covariance_)
    constant = [name for name, still in zip(names, _did_not_vary(fitted), strict=True) if still]
    if constant:
        found.append(
            f"column {constant[0]!r} did not vary in training, so nothing tells which changes of it are unusual: "
            + _weighed(fitted)
        )
    std = np.sqrt(np.where(variance > 0, variance, 1.0))
    n = len(fitted.columns.names)  # of the present only: nobody can drop the past of a column
    correlation = np.triu(np.abs(model.covariance_ / np.outer(std, std)), 1)[:n, :n]
    for a, b in np.argwhere(correlation > _SAME):
        if not {names[a], names[b]} & set(constant):
            found.append(
                f"columns {names[a]!r} and {names[b]!r} always move together: if one is computed from the other, drop it; "
                "if both are measured, keep them, for that shows which one fails."
            )
            break
    everything = model.noise_variance_ <= 10 * RELATIVE_FLOOR * model.explained_variance_.max()
    if everything and fitted.statistic.name in ("spe", "mse"):
        found.append("the components explain everything: the smallest deviation will be flagged; use fewer components.")
    if fitted.limit == 0:
        found.append("the limit is 0, so every row is flagged.")
    return found
