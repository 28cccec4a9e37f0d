"""How abnormal is a row? Quadratic scores, each a weighing of two things a model knows about a row.

A row has residuals x - x_hat (what the model cannot rebuild) and latent variables z(x) (where the row sits inside the
model). Every score here is  sum_i a_i residual_i^2 + sum_j b_j z_j^2  with its own weights a and b:

| score | a (residuals) | b (latent variables) |
| --- | --- | --- |
| spe (Q, reconstruction error) | 1 | 0 |
| mse | 1 / d | 0 |
| t2 (Hotelling) | 0 | 1 / Var z_j |
| mahalanobis, x^T C^-1 x | 1 / noise | 1 / Var z_j (least squares), 1 (posterior) |
| combined | 1 / SPE limit | 1 / (Var z_j * T2 limit) |
| error of some features | 1 for those, else 0 | 0 |
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from culpa._core.missing import kinds_of_rows, patterns
from culpa._core.threads import interruptible
from culpa._core.types import Array, Floats, Mask
from culpa.models import LatentGaussian
from culpa.models.incomplete import Incomplete
from culpa.models.scatter import Scatter
from culpa.scores.fixing import Fixing

_WIDE = 512  # features from which on a d x d matrix is avoided at the price of a few digits
_LEFT_OF = 1e-4  # a score: what a fix leaves below that is computed without the difference from it
_CANCELLED = 1e-3  # share of its terms below which a difference is computed otherwise, to keep its digits
_CELLS_PER_CHUNK = 1 << 22  # numbers held at a time
_FEW_MISSING = 32  # cells of a row, whose pairs are looked up rather than multiplied with all others


@dataclass(frozen=True, eq=False)
class QuadraticScore(Fixing):
    """A quadratic score q(x) = x^T A x of centred rows; larger is more abnormal.

    >>> import numpy as np
    >>> model = LatentGaussian([0.0, 0.0], [[2.0], [0.0]], 0.5)
    >>> spe(model)(np.array([[1.0, 3.0]]))
    array([9.])
    """

    name: str
    gaussian: LatentGaussian
    residual_weights: Floats
    latent_weights: Floats

    @property
    def distribution(self) -> LatentGaussian:
        """Of centred normal rows."""
        return self.gaussian

    def divided_by(self, unit: float) -> "QuadraticScore":
        """The same score in other units."""
        return replace(self, residual_weights=self.residual_weights / unit, latent_weights=self.latent_weights / unit)

    def __call__(self, X: Floats) -> Floats:
        """Score of each row; a row with missing cells gets its expected score given the observed ones."""
        missing = np.isnan(X)
        if not missing.any():
            return self.complete(X)
        result = self.complete(self.gaussian.impute(X))
        factor = self.gaussian.spread_factor(X)
        kinds, kind_of_row = kinds_of_rows(missing)
        result += factor * self._from_missing(kinds)[kind_of_row]
        result[missing.all(axis=1)] = np.nan
        return result

    def _uncertainty(self, observed: NDArray[np.intp]) -> float:
        """What the uncertainty of the other features adds to the expected score of Gaussian rows."""
        _, spread = self.gaussian.conditional(np.zeros((0, self.gaussian.n_features)), observed)
        return float((self.matrix * spread).sum())

    def _from_missing(self, missing: Mask) -> Floats:
        """What the uncertainty of missing cells adds to each row's expected score."""
        model = self.gaussian
        result = missing @ (np.diag(self.matrix) * model.noise)
        # the missing features of each row, and then others, whose loadings count as 0; all features if many are missing
        most = int(missing.sum(axis=1).max(initial=0))
        features = np.argsort(~missing, axis=1, kind="stable")[:, :most]
        if most > _FEW_MISSING:
            features = np.broadcast_to(np.arange(missing.shape[1]), missing.shape)
        counts = np.take_along_axis(missing, features, axis=1)[:, :, None]
        for rows, _, root in model.posteriors(~missing):
            some = features[rows]
            spread = (counts[rows] * model.loadings[some]) @ root
            pairs = self.matrix[some[:, :, None], some[:, None, :]] if most <= _FEW_MISSING else self.matrix
            result[rows] += ((pairs @ spread) * spread).sum(axis=(1, 2))
        return np.asarray(result)

    def complete(self, X: Floats) -> Floats:
        """Score of complete rows."""
        z = X @ self.gaussian.encoder.T
        result = np.zeros(len(X))
        if self.residual_weights.any():
            residuals = z @ self.gaussian.decoder.T
            np.subtract(X, residuals, out=residuals)
            result += np.square(residuals, out=residuals) @ self.residual_weights
        if self.latent_weights.any():
            result += np.square(z, out=z) @ self.latent_weights
        return result

    @cached_property
    def root(self) -> Floats:
        """(d + p, d) matrix F with q(x) = |F x|^2."""
        return np.vstack(
            [
                np.sqrt(self.residual_weights)[:, None] * self.gaussian.residual_map,
                np.sqrt(self.latent_weights)[:, None] * self.gaussian.encoder,
            ]
        )

    @property
    def offset(self) -> Floats | float:
        """r of scores q(x) = |F x + r|^2; 0 for those that are smallest at the mean of normal rows."""
        return 0.0

    @property
    def slope(self) -> Floats | float:
        """F^T r, half the gradient at the mean of normal rows."""
        return 0.0

    @cached_property
    def matrix(self) -> Floats:
        """A, (d, d)."""
        return self.root.T @ self.root

    def parts(self, X: Floats) -> Floats:
        """F x of each row, (n, d + p), without forming F."""
        z = X @ self.gaussian.encoder.T
        residuals = X - z @ self.gaussian.decoder.T
        return np.hstack([np.sqrt(self.residual_weights) * residuals, np.sqrt(self.latent_weights) * z])

    def response(self, X: Array, convert: Callable[[Floats], Array] = np.asarray) -> Array:
        """A x of each row, without forming A; ``convert`` makes arrays of the same kind as ``X``."""
        g, weights = self.gaussian, (self.residual_weights, self.latent_weights)
        encoder, decoder, a, b = (convert(array) for array in (g.encoder, g.decoder, *weights))
        z = X @ encoder.T
        weighted = a * (X - z @ decoder.T)
        return weighted + (b * z - weighted @ decoder) @ encoder

    @cached_property
    def diagonal(self) -> Floats:
        """Of A, (d,), without forming A."""
        g, a = self.gaussian, self.residual_weights
        inner = (g.decoder.T * a) @ g.decoder + np.diag(self.latent_weights)
        from_latent = np.einsum("pi,pi->i", inner @ g.encoder, g.encoder)
        result = np.asarray(a + from_latent - 2 * a * np.einsum("ip,pi->i", g.decoder, g.encoder))
        # a feature that the others explain almost entirely: what is left of it is a difference of large numbers
        rounded = np.flatnonzero(result < _CANCELLED * (a + from_latent))
        step = max(1, _CELLS_PER_CHUNK // g.n_features)
        for at in (rounded[start : start + step] for start in range(0, len(rounded), step)):
            result[at] = (self.parts(_unit_rows(at, g.n_features)) ** 2).sum(axis=1)
        return result

    def root_given(self, observed: NDArray[np.intp]) -> Floats:
        """The root of the score as a function of the observed features, the others at their conditional mean.

        (d + p, d) with zeros for features that were not observed.
        """
        if len(observed) == self.gaussian.n_features:
            return self.root
        seen = np.isin(np.arange(self.gaussian.n_features), observed)
        # how the whole row's conditional mean moves with each observed cell
        moves = self.gaussian.conditional(np.diag(seen.astype(np.float64)), observed)[0]
        return np.asarray(self.root @ moves.T)

    def _whole_root_given(self, observed: NDArray[np.intp]) -> Floats:
        """The same, with what the observed features of Student-t rows tell about the spread of the others."""
        g, root = self.gaussian, self.root_given(observed)
        if not g.tail or len(observed) in (0, g.n_features):
            return root
        weight = g.tail / (1 + g.tail * len(observed)) * self._uncertainty(observed)
        return np.vstack([root, np.sqrt(weight) * mahalanobis(g).root_given(observed)])

    def _roots_given(self, X: Floats) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], Floats]]:
        """Rows that share a pattern of NaN, the features they have, and their `_whole_root_given`; all patterns at once."""
        missing, model = np.isnan(X), self.gaussian
        if model.tail or not missing.any():
            yield from ((rows, observed, self._whole_root_given(observed)) for rows, observed in patterns(X))
            return
        for part in model.incomplete(X):
            for rows, observed, gain, _ in part.one_by_one():
                seen = np.isin(np.arange(X.shape[1]), observed)
                moves = (self.root[:, ~seen] @ model.loadings[~seen]) @ gain
                yield rows, observed, np.where(seen, self.root + moves, 0.0)

    def given(self, observed: NDArray[np.intp]) -> tuple[Floats, float]:
        """The score of rows that have these features only, as a function of them.

        Returns a root G with zeros for the other features and a constant: E[q(x) given x_observed] = |G x|^2 + constant,
        or |G x + r|^2 + constant with an `offset` r.
        """
        added = self._uncertainty(observed) / (1 + self.gaussian.tail * len(observed))
        return self._whole_root_given(observed), max(added, 0.0)

    @cached_property
    def expectation(self) -> float:
        """Mean score of normal rows, Tr(A C): the base value of every game."""
        g = self.gaussian
        return float(self.residual_weights @ g.residual_variance + self.latent_weights @ g.latent_variance)

    def spectrum(self, covariance: Scatter) -> Floats:
        """Eigenvalues of A S but for zeros: the score of N(0, S) rows is a sum of chi-squares with these weights."""
        if covariance.factor is not None:
            parts = self.parts(covariance.factor)
            return np.asarray(np.maximum(interruptible(np.linalg.eigvalsh, parts @ parts.T), 0.0), dtype=np.float64)
        root = self.root[np.concatenate([self.residual_weights, self.latent_weights]) > 0]
        eigenvalues = interruptible(np.linalg.eigvalsh, root @ covariance.matrix @ root.T)
        return np.asarray(np.maximum(eigenvalues, 0.0), dtype=np.float64)

    def if_fixed(self, X: Floats, score: Floats, expected: Floats, blocks: Sequence[Sequence[int]]) -> Floats:
        """Score of each row with one block of features moved to its expected values, (n, blocks).

        ``score`` is what the rows have now. NaN where nothing of the block was observed.
        """
        result = self._moved(X, score, expected, blocks)
        # what is left of a much larger score is what rounding left of it: these rows are scored as they would be
        row, k = np.nonzero(result < _LEFT_OF * score[:, None])
        if not len(row):
            return result
        step, members = max(1, _CELLS_PER_CHUNK // X.shape[1]), _memberships(blocks, X.shape[1])
        for some in (slice(start, start + step) for start in range(0, len(row), step)):
            fixed = X[row[some]]
            moves = members[k[some]] & ~np.isnan(fixed)
            result[row[some], k[some]] = self(np.where(moves, expected[row[some]], fixed))
        return result

    def _moved(self, X: Floats, score: Floats, expected: Floats, blocks: Sequence[Sequence[int]]) -> Floats:
        """`if_fixed` by the change of the score, of which rounding leaves nothing if the score is far larger."""
        if not np.isnan(X).any():
            if X.shape[1] > _WIDE:
                return self._fixed_wide(X, score, expected - X, blocks)
            return self._fixed(X, score, expected - X, self._bending, blocks)
        result = np.empty((len(X), len(blocks)))
        if not self.gaussian.tail and all(len(block) == 1 for block in blocks):
            at = [block[0] for block in blocks]
            for part in self.gaussian.incomplete(X):
                rows = part.rows
                result[rows] = self._fixed_incomplete(X[rows], score[rows], expected[rows], part)[:, at]
            return result
        for rows, observed, root in self._roots_given(X):
            seen = np.isin(np.arange(X.shape[1]), observed)
            steps = np.where(seen, expected[rows] - X[rows], 0.0)
            bending = _Bending.of(root, self.offset)
            result[rows] = self._fixed(np.where(seen, X[rows], 0.0), score[rows], steps, bending, blocks)
            result[rows[:, None], [k for k, block in enumerate(blocks) if not seen[list(block)].any()]] = np.nan
        return result

    def _fixed_incomplete(self, X: Floats, score: Floats, expected: Floats, part: Incomplete) -> Floats:
        """Score of rows with missing cells with each feature alone moved to its expected value, (n, d)."""
        W, missing, root = self.gaussian.loadings, part.missing[part.pattern], self._bending.root
        observed = np.where(missing, 0.0, X)
        imputed = np.where(missing, part.latent(observed) @ W.T, X)
        by_cell = self._bending.slope(imputed)
        # a cell also moves the conditional means of the missing ones
        by_cell += part.by_cells((missing * by_cell) @ W)
        steps = expected - X  # NaN where nothing was observed
        result = steps * self._curvatures(root, part)[part.pattern]
        result += by_cell
        result *= steps
        result += score[:, None]
        return result

    def _curvatures(self, root: Floats, part: Incomplete) -> Floats:
        """Half the second derivative of the score by each observed cell alone, (patterns, d)."""
        W, result = self.gaussian.loadings, np.empty(part.missing.shape)
        step = max(1, _CELLS_PER_CHUNK // max(1, root.size))
        for some in (slice(start, start + step) for start in range(0, len(result), step)):
            moves = (root @ (part.missing[some, :, None] * W)) @ part.gains[some]
            moves += root
            result[some] = np.square(moves, out=moves).sum(axis=1)  # squares, so that it cannot cancel
        return result

    def _fixed_wide(self, X: Floats, score: Floats, steps: Floats, blocks: Sequence[Sequence[int]]) -> Floats:
        """The same as `_fixed`, for complete rows, without forming A."""
        change = steps * 2 * (self.response(X) + self.slope)
        alone = change + steps**2 * self.diagonal
        result = np.empty((len(X), len(blocks)))
        for k, block in enumerate(blocks):
            if len(block) == 1:
                result[:, k] = alone[:, block[0]]
                continue
            parts = self.parts(_unit_rows(block, X.shape[1]))
            result[:, k] = change[:, block].sum(axis=1) + ((steps[:, block] @ parts) ** 2).sum(axis=1)
        return np.asarray(score[:, None] + result)

    @cached_property
    def _bending(self) -> "_Bending":
        return _Bending.of(self.root, self.offset)

    @staticmethod
    def _fixed(X: Floats, score: Floats, steps: Floats, bending: "_Bending", blocks: Sequence[Sequence[int]]) -> Floats:
        """Score of each row with one block of features moved by its steps, (n, blocks)."""
        slope = bending.slope(X)
        if all(len(block) == 1 for block in blocks):
            at = [block[0] for block in blocks]
            if at != list(range(X.shape[1])):
                steps, slope = steps[:, at], slope[:, at]
            result = steps * bending.curvature.diagonal()[at]
            result += slope
            result *= steps
        else:
            result = np.empty((len(X), len(blocks)))
            for k, block in enumerate(blocks):
                part = steps[:, block]
                bend = part @ bending.curvature[np.ix_(block, block)] + slope[:, block]
                result[:, k] = (bend * part).sum(axis=1)
        result += score[:, None]
        return result


class _Bending(NamedTuple):
    """How a score |F x + r|^2 changes as features move: q(x + s) = q(x) + slope . s + s^T curvature s."""

    root: Floats  # F, without rows that are 0
    offset: Floats | float  # r
    curvature: Floats  # F^T F

    @classmethod
    def of(cls, root: Floats, offset: Floats | float) -> Self:
        kept = root.any(axis=1)
        return cls(root[kept], offset if isinstance(offset, float) else offset[kept], root.T @ root)

    def slope(self, X: Floats) -> Floats:
        """Of each row, (n, d)."""
        if isinstance(self.offset, float) and not self.offset:
            return np.asarray(X @ (2 * self.curvature))
        result = X @ self.root.T
        result += self.offset
        slope = result @ self.root
        slope *= 2
        return np.asarray(slope)


def spe(gaussian: LatentGaussian) -> QuadraticScore:
    """Squared prediction error |x - x_hat|^2, the paper's reconstruction error."""
    return _score("spe", gaussian, 1.0, 0.0)


def mse(gaussian: LatentGaussian) -> QuadraticScore:
    """Mean squared error SPE / d: the scale of the paper's value function."""
    return _score("mse", gaussian, 1 / gaussian.n_features, 0.0)


def t2(gaussian: LatentGaussian) -> QuadraticScore:
    """Hotelling's T2: how far out a row is inside the model."""
    return _score("t2", gaussian, 0.0, _precision(gaussian))


def mahalanobis(gaussian: LatentGaussian) -> QuadraticScore:
    """Squared Mahalanobis distance x^T C^-1 x under the model's covariance."""
    inside = _precision(gaussian) if gaussian.reconstruction == "least-squares" else 1.0
    return _score("mahalanobis", gaussian, 1 / gaussian.noise, inside)


def combined(gaussian: LatentGaussian, spe_limit: float, t2_limit: float) -> QuadraticScore:
    """SPE and T2, each in units of its limit, added up (Yue and Qin, 2001)."""
    return _score("combined", gaussian, 1 / spe_limit, _precision(gaussian) / t2_limit)


def of_features(gaussian: LatentGaussian, features: Sequence[int], *, mean: bool = False) -> QuadraticScore:
    """Reconstruction error of some of the features: their sum of squares, or its mean."""
    weights = np.zeros(gaussian.n_features)
    weights[list(features)] = 1 / len(features) if mean else 1.0
    return _score("mse" if mean else "spe", gaussian, weights, 0.0)


def _precision(gaussian: LatentGaussian) -> Floats:
    variance = gaussian.latent_variance
    return np.divide(1.0, variance, out=np.zeros_like(variance), where=variance > 0)


def _score(
    name: str, gaussian: LatentGaussian, residual_weights: Floats | float, latent_weights: Floats | float
) -> QuadraticScore:
    d, p = gaussian.loadings.shape
    return QuadraticScore(
        name,
        gaussian,
        np.broadcast_to(np.asarray(residual_weights, dtype=np.float64), (d,)),
        np.broadcast_to(np.asarray(latent_weights, dtype=np.float64), (p,)),
    )


def _unit_rows(at: Sequence[int] | NDArray[np.intp], n_features: int) -> Floats:
    """Rows that are 1 at one feature each, and 0 elsewhere."""
    rows = np.zeros((len(at), n_features))
    rows[np.arange(len(at)), at] = 1.0
    return rows


def _memberships(blocks: Sequence[Sequence[int]], n_features: int) -> Mask:
    """Which features belong to each block, (blocks, d)."""
    result = np.zeros((len(blocks), n_features), dtype=bool)
    for k, block in enumerate(blocks):
        result[k, list(block)] = True
    return result


def response(X: Floats, root: Floats) -> Floats:
    """A x of each row, for a score given by a root F with A = F^T F."""
    return np.asarray(X @ root.T @ root)
