"""The process engineer's classics: how much does each feature contribute to a quadratic index?

For an index q(x) = x^T M x of centred rows, with r = M x and S the covariance of normal rows:

| name | contribution of feature j | after |
| --- | --- | --- |
| cdc, complete decomposition | (M^1/2 x)_j^2; for SPE the squared residual | Miller, Swanson and Heckler (1998) |
| pdc, partial decomposition | x_j r_j | Nomikos (1996) |
| dc, diagonal | M_jj x_j^2 | Qin, Valle and Piovoso (2001) |
| rbc, reconstruction-based | r_j^2 / M_jj: what the index loses when x_j is chosen best | Alcala and Qin (2009) |
| relative | r_j^2 / Var r_j: in units of what normal rows show | Westerhuis, Gurden and Smilde (2000) |
| z-score | abs(x_j) / standard deviation; no index needed | |
| leave-one-out | rbc of the Mahalanobis distance: what it loses without feature j | Penny and Jolliffe (1999) |
| mahalanobis-shapley | pdc of the Mahalanobis distance | Mayrhofer and Filzmoser (2023) |
| fault-odds | log-odds that feature j is at fault, see `culpa.ranking.fault_odds` | Box and Tiao (1968) |
| propagated | log-odds that a fault which travels on entered at j, see `culpa.ranking.propagation` | Li and others (2024) |

Alcala and Qin (2011) analyse the first five together. Their angle-based contributions (abc) rank as rbc does. cdc and pdc
add up to the index. pdc is a Shapley value: of the game in which absent features sit at their mean; up to the base line
also of the interventional game, which takes the formula from here. Contributions are large for suspects; only pdc and
log-odds can be negative.

An index is handed over as a root F with M = F^T F, because squares of residuals keep digits that M x would lose.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from culpa._core.choices import CRITERIA, one_of
from culpa._core.missing import patterns, warn_about_empty_rows
from culpa._core.types import Floats
from culpa._core.validation import same_kind
from culpa.models import FittedModel, as_fitted_model
from culpa.ranking.fault_odds import fault_log_odds
from culpa.ranking.propagation import entry_log_odds, shared_entry_log_odds
from culpa.scores import QuadraticScore, Score, named_score, score_by_name

# Columns of a root that are shorter than this, relative to the longest, are rounding errors of an index that does not
# see the feature at all.
_UNSEEN = 1e-12

# Criteria that belong to the Mahalanobis distance.
OF_MAHALANOBIS = {
    "leave-one-out": "rbc",
    "mahalanobis-shapley": "pdc",
    "fault-odds": "fault-odds",
    "propagated": "propagated",
}


def cdc(X: Floats, root: Floats) -> Floats:
    """Complete decomposition: squares of what the index adds up."""
    _, s, axes = np.linalg.svd(root, full_matrices=False)
    return np.asarray((X @ axes.T * s @ axes) ** 2)


def pdc(X: Floats, root: Floats) -> Floats:
    """Partial decomposition x_j (M x)_j."""
    return X * response(X, root)


def dc(X: Floats, root: Floats) -> Floats:
    """Diagonal contributions: each feature as if the others were at their mean."""
    return X**2 * _diagonal(root)


def rbc(X: Floats, root: Floats) -> Floats:
    """Reconstruction-based: how far the index falls when the feature is set to whatever suits the index best."""
    return _ratio(response(X, root) ** 2, _diagonal(root))


def relative(X: Floats, root: Floats, covariance: Floats) -> Floats:
    """Squared response over its mean for rows with this covariance."""
    seen = _diagonal(root) > 0
    seen_response = np.where(seen, response(X, root), 0.0)
    variance = np.einsum("ij,ij->j", root, root @ covariance @ root.T @ root)
    return _ratio(seen_response**2, np.where(seen, np.maximum(variance, 0.0), 0.0))


def z_scores(X: Floats, covariance: Floats) -> Floats:
    """Distance from the mean in standard deviations."""
    return _ratio(np.abs(X), np.sqrt(np.diag(covariance)))


_BY_INDEX: dict[str, Callable[[Floats, Floats], Floats]] = {"cdc": cdc, "pdc": pdc, "dc": dc, "rbc": rbc}


def root_of(matrix: ArrayLike) -> Floats:
    """A root of an index that is given by its matrix.

    >>> rbc(np.array([[1.0, 0.0]]), root_of([[2.0, -1.0], [-1.0, 2.0]]))
    array([[2. , 0.5]])
    """
    values, axes = np.linalg.eigh(np.asarray(matrix, dtype=np.float64))
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * axes.T)


def contributions(X: Floats, criterion: str, root: Floats, covariance: Floats) -> Floats:
    """Contributions by name, of centred, complete rows; `OF_MAHALANOBIS` expect the Mahalanobis distance's root."""
    criterion = OF_MAHALANOBIS.get(one_of(criterion, CRITERIA, "criterion"), criterion)
    if criterion == "z-score":
        return z_scores(X, covariance)
    if criterion == "relative":
        return relative(X, root, covariance)
    if criterion == "fault-odds":
        return fault_log_odds(X, root.T @ root, np.sqrt(np.diag(covariance)))
    if criterion == "propagated":
        return entry_log_odds(X, root)
    return _BY_INDEX[criterion](X, root)


def of_model(model: Any, X: Any, criterion: str = "rbc", score: str | Score | None = None) -> Any:
    """Contributions of every feature to a score of a fitted model.

    Parameters
    ----------
    model
        Whatever `culpa.Explainer` takes.
    X
        Rows. A missing cell stays missing, and the others contribute to the index of the observed features.
    criterion
        One of those that ``ranking`` takes.
    score
        The score; by default "spe", or "mahalanobis" for "leave-one-out", "mahalanobis-shapley", "fault-odds" and
        "propagated", which belong to it.

    Returns
    -------
    ndarray or data frame
        In the shape and kind of ``X``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.decomposition import PCA
    >>> X = load_iris().data
    >>> of_model(PCA(2).fit(X), X, "rbc").shape
    (150, 4)
    """
    name = score if score is None or isinstance(score, str) else score.name
    if criterion in OF_MAHALANOBIS and name not in (None, "mahalanobis"):
        raise ValueError(
            f"criterion={criterion!r} always uses the Mahalanobis distance, not {name!r}. Do not pass a score."
        )
    model = as_fitted_model(model)
    reading = model.columns.read(X)
    rows = model.standardise(reading.features)
    empty = np.isnan(rows).all(axis=1)
    if empty.any():
        warn_about_empty_rows(reading.labels[empty], context=model.context is not None)
    found = of_rows(model, rows, criterion, score_by_name(score or "spe", model))
    names = model.columns.known_names or reading.names
    return same_kind(reading.native, of_players(found, model.columns.members), names)


def propagated_together(model: Any, X: Any) -> Floats:
    """Log-odds that the fault of an incident entered at each column, from all its rows together.

    Parameters
    ----------
    model
        Whatever `culpa.Explainer` takes.
    X
        The rows of the incident.

    Returns
    -------
    ndarray of shape (columns,)
        NaN for a column that no row has.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.decomposition import PCA
    >>> X = load_iris().data
    >>> propagated_together(PCA(2).fit(X), X[:5]).shape
    (4,)
    """
    model = as_fitted_model(model)
    rows = model.standardise(model.columns.read(X).features)
    score = named_score("mahalanobis", model)
    parts = (
        (rows[np.ix_(at, observed)], score.root_given(observed)[:, observed], observed)
        for at, observed in patterns(rows)
        if len(observed)
    )
    found = shared_entry_log_odds(parts, rows.shape[1])
    return np.asarray(of_players(found[None], model.columns.members)[0])


def of_players(found: Floats, players: Sequence[Sequence[int]]) -> Floats:
    """Contributions of features, (n, d), for players made of several: each is as suspect as its worst member."""
    return np.column_stack([np.fmax.reduce(found[:, list(player)], axis=1) for player in players])


def of_rows(model: FittedModel, rows: Floats, criterion: str, score: Score) -> Floats:
    """The same for standardised rows; ``score`` does not matter to `OF_MAHALANOBIS`.

    Where normal rows have several modes, each row is judged by its most probable mode.
    """
    one_of(criterion, CRITERIA, "criterion")
    result = np.empty_like(rows)
    for own in score.in_place(model, rows):
        quadratic = named_score("mahalanobis", own.model) if criterion in OF_MAHALANOBIS else own.score
        result[own.at] = _of_quadratic(own.model, own.rows, criterion, quadratic)
    return result


def _of_quadratic(model: FittedModel, rows: Floats, criterion: str, score: QuadraticScore) -> Floats:
    covariance = _covariance(model)
    # the index of incomplete Student-t rows depends on what is observed in two ways; log-odds need a precision matrix
    root_of_index = score.root_given if criterion in OF_MAHALANOBIS else score.whole_root_given
    result = np.full_like(rows, np.nan)
    for at, observed in patterns(rows):
        if len(observed):
            seen, root = np.ix_(at, observed), root_of_index(observed)[:, observed]
            result[seen] = contributions(rows[seen], criterion, root, covariance[np.ix_(observed, observed)])
    return result


def _covariance(model: FittedModel) -> Floats:
    """What normal rows show: the sample's covariance where it is known; a column that never varied has the model's."""
    modelled = model.gaussian.covariance
    if model.sample_covariance is None:
        return modelled
    constant = np.diag(model.sample_covariance) <= 0
    return np.asarray(model.sample_covariance + np.diag(np.where(constant, np.diag(modelled), 0.0)))


def response(X: Floats, root: Floats) -> Floats:
    """M x of each row."""
    return np.asarray(X @ root.T @ root)


def _diagonal(root: Floats) -> Floats:
    """M_jj, and a clean 0 for features that the index does not see."""
    length = np.linalg.norm(root, axis=0)
    return np.where(length > _UNSEEN * length.max(initial=0.0), length**2, 0.0)


def _ratio(above: Floats, below: Floats) -> Floats:
    """Quotients, and 0 where there is nothing below."""
    above, below = np.broadcast_arrays(above, below)
    return np.divide(above, below, out=np.zeros(above.shape), where=below > 0)
