"""Suspicious cells of dirty training rows: single cells that the other cells of their row contradict.

Cells that are suspicious become missing, the model is fitted to the others by expectation-maximisation, and all cells are
judged again, until nothing changes.

| symbol | code | meaning |
| --- | --- | --- |
| x | ``Z`` | a row in robust units: minus location, divided by scale of its column |
| O | ``used`` | cells that the row's latent variables are computed from |
| W, s2, b | ``model`` | PPCA of the cells in use |
| G | ``spread`` | (s2 I + W_O^T W_O)^-1 |
| h_j | ``leverage`` | w_j^T G w_j |
| f | ``fit`` | b + W G W_O^T (x - b)_O |

A cell in use is judged given the *other* cells in use: its standardised residual is (x_j - f_j) / sqrt(s2 (1 - h_j)). A
cell that is not in use has (x_j - f_j) / sqrt(s2 (1 + h_j)).
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from culpa._core import probability as stats
from culpa._core.types import Floats, Mask
from culpa.models.em import em, expected, pairs_of, posterior
from culpa.models.latent import LatentGaussian
from culpa.models.univariate import location_and_scale, wrap

_EXPECTED_PER_ROW = 0.005  # suspicious cells that a clean row has on average
_MOST_OF_A_COLUMN = 0.4
_MOST_ROUNDS = 30
_SETTLED = 0.0005  # share of cells whose flags may still change
_LEAST_NOISE = 1e-6  # of a column's variance: residuals below a thousandth of its spread are never suspicious
_EXPLAINED = 0.8  # share of the variance that the model should explain
_CHUNK = 1 << 22  # numbers held at once for the rows' p x p matrices
LEAST_ROWS = 10


class _Rules(NamedTuple):
    """What a cell must not exceed to be used."""

    far: float  # distance from the mean in standard deviations, whatever the other cells say
    cut: float  # standardised residual given the other cells
    least_factor: float = 1.0  # how much narrower than the model's noise a column's residuals may be


# Wrong cells inflate the noise of the first models and so hide behind it. The first rounds therefore measure noise by the
# median residual and are strict; cells that they drop for nothing come back later. The model settles with 99.9% of clean
# cells. What it flags in the end must be rarer in wide tables, where each row has many cells that can be flagged.
_STRICT_ROUNDS = 3
_STRICT = _Rules(far=2.5, cut=2.58, least_factor=0.1)
_SETTLING = _Rules(far=4.0, cut=3.29)


@dataclass(frozen=True, eq=False)
class CellFlags:
    """Which cells are suspicious, and what was expected instead.

    ``mask`` (n, d) is True for suspicious cells. ``expected`` and ``residual`` (n, d) are the conditional mean of each
    cell given the cells in use of its row, in the units of the table, and the standardised residual; both are NaN for
    missing cells and for columns that are not judged. ``n_components`` is that of the model behind them.
    """

    mask: Mask
    expected: Floats = field(repr=False)
    residual: Floats = field(repr=False)
    n_components: int
    n_rounds: int
    converged: bool


def flag_cells(X: Floats, n_components: int | None = None) -> CellFlags:
    """Find the suspicious cells of training rows; NaN cells are missing, and never suspicious.

    ``n_components`` is that of the model that judges the cells; by default it follows from a robust correlation.
    Columns whose cells are nearly all equal are not judged.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(200, 6))
    >>> X[7, 3] += 5
    >>> flags = flag_cells(X)
    >>> bool(flags.mask[7, 3]), bool(flags.mask.mean() < 0.01)
    (True, True)

    References
    ----------
    Rousseeuw and Van den Bossche (2018), "Detecting deviating data cells"; Hubert, Rousseeuw and Van den Bossche (2019),
    "MacroPCA"; Raymaekers and Rousseeuw (2021), "Fast robust correlation for high-dimensional data".
    """
    n, d = X.shape
    if n < LEAST_ROWS:
        raise ValueError(f"{n} rows are too few to find suspicious cells: at least {LEAST_ROWS} are needed.")
    location, scale = location_and_scale(X)
    judged = np.flatnonzero(scale > 0)
    mask, expected, residual = np.zeros((n, d), dtype=bool), np.full((n, d), np.nan), np.full((n, d), np.nan)
    if len(judged) < 2:
        return CellFlags(mask, expected, residual, 0, 0, True)
    Z = (X[:, judged] - location[judged]) / scale[judged]
    found = _Search(Z, n_components).run()
    mask[:, judged] = found.observed & ~found.used
    fit, standardised = found.judge(found.used)
    missing = ~found.observed
    expected[:, judged] = np.where(missing, np.nan, location[judged] + scale[judged] * fit)
    residual[:, judged] = np.where(missing, np.nan, standardised)
    return CellFlags(mask, expected, residual, found.model.n_components, found.n_rounds, found.converged)


class _Search:
    """The search in robust units: which cells are in use, and the model of these."""

    def __init__(self, Z: Floats, n_components: int | None) -> None:
        d = Z.shape[1]
        self.observed = ~np.isnan(Z)
        self.Z = np.where(self.observed, Z, 0.0)
        self.n_components = n_components
        self.model = self._model_of(_correlation(np.cov(wrap(Z), rowvar=False)))
        self.used = self.observed & (np.abs(self.Z) <= 3)
        self.factor = np.ones(d)  # how much wider than the model's noise each column's residuals are
        self.most_of_a_row = max(1, d // 2)
        self.n_rounds, self.converged = 0, False

    def run(self) -> Self:
        """Judge all cells and fit the model to those that pass, until the same ones pass."""
        while self.n_rounds < _MOST_ROUNDS and not self.converged:
            self.n_rounds += 1
            strict = self.n_rounds <= _STRICT_ROUNDS
            rules = _STRICT if strict else _SETTLING
            self.factor = np.maximum(rules.least_factor, self._relative_noise())
            used = self._accepted(rules)
            changed = int((used != self.used).sum())
            self.used = used
            # while flags still change a lot, a model that has not converged will do
            steps = 3 if self.n_rounds <= 2 * _STRICT_ROUNDS else 20
            rows = np.where(used, self.Z, np.nan)
            self.model = _floored(em(rows, self.model, max_iter=steps, tol=1e-6).model)
            if strict:  # wrong cells hide components, too: count them again without
                self.model = self._model_of(expected(rows, self.model).covariance, self.model.mean)
            self.converged = self.n_rounds > _STRICT_ROUNDS + 1 and changed <= _SETTLED * used.size
        last = stats.norm.isf(_EXPECTED_PER_ROW / self.Z.shape[1] / 2)
        self.used = self._accepted(_SETTLING._replace(cut=float(last)))
        return self

    def _model_of(self, covariance: Floats, mean: Floats | None = None) -> LatentGaussian:
        n, d = self.Z.shape
        p = self.n_components or _n_components(_correlation(covariance), n, clean=mean is not None)
        return _floored(LatentGaussian.from_covariance(covariance, max(1, min(p, d - 1, n - 2)), mean))

    def judge(self, used: Mask) -> tuple[Floats, Floats]:
        """Conditional mean of every cell given the row's cells in use other than itself, and standardised residual."""
        noise = float(self.model.noise_variance)
        fit, residual = np.empty_like(self.Z), np.empty_like(self.Z)
        for rows in self._chunks():
            Z, own = self.Z[rows], used[rows]
            _, latent, leverage = _posterior(Z, own, self.model)
            off = Z - self.model.mean - latent @ self.model.loadings.T
            fit[rows] = Z - np.where(own, off / (1 - leverage), off)
            residual[rows] = off / np.sqrt(noise * np.where(own, 1 - leverage, 1 + leverage)) / self.factor
        return fit, residual

    def _relative_noise(self) -> Floats:
        """Noise of every column relative to the model's, by the median: it need not be the same everywhere."""
        size = np.where(self.used, np.abs(self.judge(self.used)[1]) * self.factor, np.nan)
        return np.asarray(np.nan_to_num(_nanmedian(size) / stats.norm.ppf(0.75), nan=1.0))

    def _accepted(self, rules: _Rules) -> Mask:
        """Cells that fit the others under the present model."""
        spread = np.sqrt((self.model.loadings**2).sum(axis=1) + self.model.noise_variance)
        used = self.observed & (np.abs(self.Z - self.model.mean) <= rules.far * spread)
        for rows in self._chunks():
            used[rows] = self.without_worst(self.Z[rows], used[rows], self.observed[rows], rules.cut)
        size = np.where(self.observed, np.abs(self.judge(used)[1]), 0.0)
        used |= self.observed & (size <= rules.cut)
        most = int(_MOST_OF_A_COLUMN * len(used))
        for j in np.flatnonzero((self.observed & ~used).sum(axis=0) > most):
            used[:, j] = self.observed[:, j]
            used[np.argsort(-size[:, j], kind="stable")[:most], j] = False
        return np.asarray(used & self.observed)

    def without_worst(self, Z: Floats, used: Mask, observed: Mask, cut: float) -> Mask:
        """Drop the worst cell of every row, judge its other cells again, and so on, until none is beyond the cut."""
        W, noise = self.model.loadings, float(self.model.noise_variance)
        centred, used, at = Z - self.model.mean, used.copy(), np.arange(len(Z))
        room = self.most_of_a_row - (observed & ~used).sum(axis=1)
        spread, latent, leverage = _posterior(Z, used, self.model)
        while len(at):
            off, own = centred[at] - latent @ W.T, used[at]
            size = np.where(own, np.abs(off) / np.sqrt(noise * np.where(own, 1 - leverage, 1.0)) / self.factor, 0.0)
            worst = size.argmax(axis=1)
            bad = np.flatnonzero((size.max(axis=1) > cut) & (room[at] > 0))
            at, worst = at[bad], worst[bad]
            used[at, worst] = False
            room[at] -= 1
            # rank-one downdate of G, and of what follows from it
            spread, latent, leverage = spread[bad], latent[bad], leverage[bad]
            left = 1 - np.take_along_axis(leverage, worst[:, None], axis=1)
            step = np.einsum("npq,nq->np", spread, W[worst])
            latent = latent - step * np.take_along_axis(off[bad], worst[:, None], axis=1) / left
            spread = spread + step[:, :, None] * (step / left)[:, None, :]
            leverage = leverage + (step @ W.T) ** 2 / left
        return used

    def _chunks(self) -> list[slice]:
        d, p = self.model.loadings.shape
        step = max(1, _CHUNK // max(p * p, d))
        return [slice(at, at + step) for at in range(0, len(self.Z), step)]


def _posterior(Z: Floats, used: Mask, model: LatentGaussian) -> tuple[Floats, Floats, Floats]:
    """What the cells in use say about each row: G (n, p, p), latent variables (n, p), leverages (n, d)."""
    latent, spread = posterior(np.where(used, Z - model.mean, 0.0), used, model)
    spread /= float(model.noise_variance)
    return spread, latent, spread.reshape(len(Z), -1) @ pairs_of(model.loadings).T


def _floored(model: LatentGaussian) -> LatentGaussian:
    """The model with some noise: exact relations between columns must not turn rounding into suspicion."""
    noise = max(float(model.noise_variance), _LEAST_NOISE)
    return LatentGaussian(model.mean, model.loadings, noise)


def _correlation(covariance: Floats) -> Floats:
    spread = np.sqrt(np.maximum(np.diag(covariance), np.finfo(np.float64).tiny))
    return np.asarray(covariance / np.outer(spread, spread))


def _n_components(correlation: Floats, n: int, *, clean: bool) -> int:
    """Number of eigenvalues above the largest that independent columns have (Marchenko and Pastur, 1967).

    Without wrong cells (``clean``) the model also explains a share of the variance, if a quarter of the columns and a tenth
    of the rows are enough components for that.
    """
    d = len(correlation)
    variances = np.linalg.eigvalsh(correlation)[::-1]
    p = int((variances > (1 + np.sqrt(d / n)) ** 2).sum())
    if not clean:
        return p
    enough = int(np.searchsorted(np.cumsum(variances), _EXPLAINED * variances.sum())) + 1
    return max(p, min(enough, d // 4, n // 10))


def _nanmedian(size: Floats) -> Floats:
    """Median of every column's numbers; NaN where a column has none."""
    ordered = np.sort(size, axis=0)  # NaN last
    count = (~np.isnan(size)).sum(axis=0)
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, len(size) - 1)
    each = np.arange(size.shape[1])
    return np.asarray((ordered[low, each] + ordered[high, each]) / 2)
