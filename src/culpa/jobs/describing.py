"""What a model file holds, for people: the facts, and what looks odd about them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from culpa._core.version import __version__
from culpa.columns import lagged_names
from culpa.detector import PCADetector
from culpa.io.model_file import FORMAT, open_model
from culpa.models import PPCA
from culpa.models.latent import RELATIVE_FLOOR

_ROWS_PER_FEATURE = 5  # fewer training rows than this lie closer to the model than new ones will
_SAME = 1 - 1e-9  # correlation of two columns that are one and the same


@dataclass(frozen=True)
class Description:
    """A model in plain numbers and texts."""

    format: int
    culpa: str
    rows: int
    features: list[dict[str, Any]]
    components: int
    explained_variance: float
    noise_variance: float
    scaled: bool
    lags: int
    statistic: str
    limit: float
    limit_kind: str
    confidence: float
    noise: float
    shrinkage: float
    game: str
    ranking: str
    explainer: str
    warnings: list[str]


def describe(path: Path) -> Description:
    """Read a model file and say what it is."""
    detector, header = open_model(path)
    return describe_detector(detector, header["format"], header["culpa"])


def describe_detector(detector: PCADetector, format: int = FORMAT, culpa: str = __version__) -> Description:
    """Say what a detector is; ``format`` and ``culpa`` are those of its file."""
    model = detector.model_
    units = getattr(detector, "units_", {})
    forms = detector.explainer().forms
    std = np.sqrt(np.diag(model.covariance_)) * detector.scale_
    return Description(
        format=format,
        culpa=culpa,
        rows=model.n_samples_,
        features=[
            {"name": name, "mean": float(mean), "std": float(spread), "unit": units.get(name, "")}
            for name, mean, spread in zip(_names(detector), detector.mean_, std, strict=False)  # present values
        ],
        components=model.n_components_,
        explained_variance=float(model.explained_variance_ratio_.sum()),
        noise_variance=model.noise_variance_,
        scaled=detector.scale,
        lags=detector.lags,
        statistic=detector.statistic,
        limit=detector.limit_,
        limit_kind=detector.limit_kind_,
        confidence=detector.confidence,
        noise=detector.noise,
        shrinkage=detector.shrinkage,
        game=detector.game,
        ranking=detector.ranking,
        explainer="not compiled" if forms is None else f"compiled, {forms.n_evaluations:,} coalitions",
        warnings=[*_unfinished(model), *oddities(detector)],
    )


def _names(detector: PCADetector) -> tuple[str, ...]:
    from culpa.jobs.scoring import feature_names

    return feature_names(detector)


def _unfinished(model: PPCA) -> list[str]:
    """What fitting warned of."""
    if model.converged_:
        return []
    return [f"expectation-maximisation stopped after {model.n_iter_} steps without converging."]


def _did_not_vary(detector: PCADetector) -> Any:
    variance = np.diag(detector.model_.covariance_)
    if detector.scale:  # then others have a variance of 1, and these one that missing cells lend them
        return (detector.scale_ == 1.0) & (variance < 0.5)
    return variance <= RELATIVE_FLOOR * variance.max()


def _weighed(detector: PCADetector) -> str:
    """How changes of a column count that did not vary."""
    if detector.statistic == "t2":
        return "t2 does not see them."
    if detector.statistic == "mahalanobis":
        return "small ones may be flagged. Leave it out with --drop if it may change."
    return f"they are weighed {'as if its standard deviation were 1' if detector.scale else 'as they are'}."


def oddities(detector: PCADetector) -> list[str]:
    """What a user should know before trusting a model."""
    model, names = detector.model_, lagged_names(_names(detector), detector.lags)
    d, found = len(names), []
    if model.n_samples_ < _ROWS_PER_FEATURE * d:
        found.append(
            f"{model.n_samples_:,} rows are few for {d:,} features: new rows will lie further from the model than these "
            f"do, and more than asked for will be flagged. {_ROWS_PER_FEATURE} rows per feature or more are better."
        )
    variance = np.diag(model.covariance_)
    constant = [name for name, still in zip(names, _did_not_vary(detector), strict=True) if still]
    if constant:
        found.append(
            f"column {constant[0]!r} did not vary in training, so nothing tells which changes of it are unusual: "
            + _weighed(detector)
        )
    std = np.sqrt(np.where(variance > 0, variance, 1.0))
    n = len(_names(detector))  # of the present only: nobody can drop the past of a column
    correlation = np.triu(np.abs(model.covariance_ / np.outer(std, std)), 1)[:n, :n]
    for a, b in np.argwhere(correlation > _SAME):
        if not {names[a], names[b]} & set(constant):
            found.append(
                f"columns {names[a]!r} and {names[b]!r} always move together: if one is computed from the other, drop it; "
                "if both are measured, keep them, for that shows which one fails."
            )
            break
    everything = model.noise_variance_ <= 10 * RELATIVE_FLOOR * model.explained_variance_.max()
    if everything and detector.statistic in ("spe", "mse"):
        found.append("the components explain everything: the smallest deviation will be flagged; use fewer components.")
    if detector.limit_ == 0:
        found.append("the limit is 0, so every row is flagged.")
    return found
