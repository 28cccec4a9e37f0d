"""Quadratic forms: if a game's values are quadratic in the row, so are its Shapley values.

phi_i(x) = x^T F_i x + c_i, where F and c depend only on the model. They are computed once, by the exact engine or by
sampling (with one F per replicate, for standard errors). After that, a million rows are one matrix product. F_i is
stored as the coefficients of the products x_a x_b, a <= b.

Every pattern of missing features is a game of its own. Its forms are those of the ``features`` that are observed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from culpa._core.choices import DeviceName
from culpa._core.types import Array, Floats, Positions
from culpa.games import Game
from culpa.shapley import on_gpu
from culpa.shapley.asymmetric import asymmetric
from culpa.shapley.down_sets import DownSets
from culpa.shapley.exact import exact
from culpa.shapley.form_evaluation import evaluate_elsewhere, evaluate_threaded, n_products, upper
from culpa.shapley.shares import Players, Progress, Shares, summarise


@dataclass(frozen=True, eq=False)
class QuadraticForms:
    """Shapley values as quadratic forms.

    Coefficients have shape (replicates, players, d (d + 1) / 2), constants (replicates, players), with d the number of
    features that rows have. One replicate means exact values. If there are ``coordinates``, the forms apply to
    X @ coordinates.
    """

    coefficients: Floats
    constants: Floats
    n_features: int
    n_evaluations: int
    coordinates: Floats | None = None

    def __call__(self, X: Array, *, n_jobs: int | None = -1, device: DeviceName = "auto") -> Shares:
        """Shapley values of rows, with standard errors where they were sampled."""
        there = on_gpu.rows_there(X, float(X.shape[0]) * self.coefficients.size, device)
        if there is not None:
            shares = self._evaluate(there, n_jobs)
            return shares._replace(values=on_gpu.to_numpy(shares.values), std_error=on_gpu.to_numpy(shares.std_error))
        return self._evaluate(X, n_jobs)

    def _evaluate(self, X: Array, n_jobs: int | None) -> Shares:
        if len(self.constants) > 1:
            return summarise(self.by_replicate(X, n_jobs), self.n_evaluations)
        values = self._flat(X, n_jobs)
        nothing = np.zeros(values.shape) if isinstance(X, np.ndarray) else array_namespace(X).zeros_like(values)
        return Shares(values, nothing, self.n_evaluations, 0)

    def by_replicate(self, X: Array, n_jobs: int | None = -1) -> Array:
        """Values of rows by each replicate, (replicates, n, players)."""
        xp, values = array_namespace(X), self._flat(X, n_jobs)
        return xp.permute_dims(xp.reshape(values, (X.shape[0], *self.constants.shape)), (1, 0, 2))

    def _flat(self, X: Array, n_jobs: int | None) -> Array:
        """The same, (n, replicates * players)."""
        flat = self.coefficients.reshape(self.constants.size, -1)
        evaluate = evaluate_threaded if isinstance(X, np.ndarray) else evaluate_elsewhere
        return evaluate(flat, self.constants.reshape(-1), X, self.coordinates, n_jobs)

    @property
    def n_bytes(self) -> int:
        """Size of the forms in bytes."""
        return int(self.coefficients.nbytes + self.constants.nbytes)

    def among(self, n_players: int, present: Positions, n_features: int, observed: Positions) -> "QuadraticForms":
        """The same for rows with other features and players, too: these cells do not matter, and these players get 0."""
        first, second = np.triu_indices(n_features)
        seen = np.isin(first, observed) & np.isin(second, observed)
        constants = np.zeros((len(self.constants), n_players))
        constants[:, present] = self.constants
        coefficients = np.zeros((*constants.shape, len(first)))
        coefficients[:, present[:, None], np.flatnonzero(seen)] = self.coefficients
        return QuadraticForms(coefficients, constants, n_features, self.n_evaluations)

    def mean(self, second: Floats) -> Floats:
        """Mean Shapley values over any number of complete rows, from the mean of x x^T alone: (replicates, players)."""
        if self.coordinates is not None:
            second = self.coordinates.T @ second @ self.coordinates
        return np.asarray(self.coefficients @ second[np.triu_indices(self.n_features)] + self.constants)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, for saving."""
        sizes = np.array([self.n_features, self.n_evaluations])
        arrays = {"coefficients": self.coefficients, "constants": self.constants, "sizes": sizes}
        return arrays if self.coordinates is None else arrays | {"coordinates": self.coordinates}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Inverse of `to_arrays`."""
        n_features, n_evaluations = (int(size) for size in arrays["sizes"])
        coefficients, constants = np.asarray(arrays["coefficients"]), np.asarray(arrays["constants"])
        if coefficients.shape != (*constants.shape, n_products(n_features)):
            raise ValueError(
                f"coefficients {coefficients.shape} and constants {constants.shape} do not fit {n_features} features."
            )
        coordinates = arrays.get("coordinates")
        if coordinates is not None and coordinates.shape != (n_features, n_features):
            raise ValueError(f"coordinates {coordinates.shape} do not fit {n_features} features.")
        return cls(coefficients, constants, n_features, n_evaluations, coordinates)


def compile_exact(
    game: Game,
    players: Players,
    down_sets: DownSets | None = None,
    *,
    features: Positions | None = None,
    n_jobs: int | None = -1,
    progress: Progress | None = None,
    device: DeviceName = "auto",
) -> QuadraticForms:
    """Exact forms, from the exact values of the 1 + d (d + 1) / 2 rows that determine a quadratic function.

    With ``down_sets``, forms of asymmetric values. ``features`` are those that rows have, if not all.
    """
    axes = _axes(game, features)
    if down_sets is None:
        shares = exact(game, _probes(axes), players, n_jobs=n_jobs, progress=progress, device=device)
    else:
        shares = asymmetric(game, _probes(axes), players, down_sets, progress=progress)
    return _from_probes(game, axes, shares.values[None], shares.n_evaluations)


def packed(matrices: Floats) -> Floats:
    """Coefficients of the products x_a x_b, a <= b, in x^T M x, for matrices (..., d, d)."""
    first, second = np.triu_indices(matrices.shape[-1])
    return np.asarray(matrices[..., first, second] + np.where(first < second, matrices[..., second, first], 0.0))


def coordinates_of(game: Game) -> Floats | None:
    """Coordinates that the forms of a game apply to, if they are not the features."""
    return None if game.axes is None else game.axes.coordinates


def forms_from_probes(
    game: Game, evaluate: Callable[[Floats], Floats], features: Positions | None = None, n_evaluations: int = 0
) -> QuadraticForms:
    """Forms of any quadratic functions of the row, (replicates, n, functions), found like those of Shapley values."""
    axes = _axes(game, features)
    return _from_probes(game, axes, evaluate(_probes(axes)), n_evaluations)


def unit_of(game: Game, features: Positions | None) -> Floats:
    """Rows that are 1 in one coordinate each, (coordinates, d)."""
    if game.axes is not None:
        return game.axes.directions
    return np.eye(game.n_features)[slice(None) if features is None else features]


def _axes(game: Game, features: Positions | None = None) -> Floats:
    """Rows that span all rows: the game's axes, or each feature, or some of them, at its natural scale."""
    if game.axes is not None:
        return game.axes.directions
    return np.diag(game.scale)[slice(None) if features is None else features]


def _probes(axes: Floats) -> Floats:
    """A row of zeros, each axis alone, and each pair of axes."""
    first, second = upper(len(axes))
    apart = first < second
    return np.vstack([np.zeros_like(axes[:1]), axes, axes[first[apart]] + axes[second[apart]]])


def _from_probes(game: Game, axes: Floats, values: Floats, n_evaluations: int) -> QuadraticForms:
    """Forms from values (replicates, probes, players)."""
    d = len(axes)
    constants, alone, pairs = values[:, 0], values[:, 1 : d + 1], values[:, d + 1 :]
    first, second = upper(d)
    apart = first < second
    products = np.empty((len(values), n_products(d), values.shape[2]))
    products[:, ~apart] = alone - constants[:, None]
    products[:, apart] = pairs - alone[:, first[apart]] - alone[:, second[apart]] + constants[:, None]
    if game.axes is None:
        scale = axes.sum(axis=1)
        products /= (scale[first] * scale[second])[:, None]
    coefficients = np.ascontiguousarray(np.moveaxis(products, 1, 2))
    return QuadraticForms(coefficients, constants.copy(), d, n_evaluations, coordinates_of(game))
