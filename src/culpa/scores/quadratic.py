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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from culpa._core import memory
from culpa._core.choices import GameName
from culpa._core.missing import any_missing, kinds_of_rows
from culpa._core.threads import interruptible
from culpa._core.types import Array, Floats, Mask, Positions
from culpa.games import RETRAINABLE, Conditional, ConditionalForm, Game, Interventional, Minimal, Retraining
from culpa.models import FittedModel, LatentGaussian
from culpa.models.latent import inverse, shrunk
from culpa.models.linear_maps import LinearMap
from culpa.models.scatter import Scatter
from culpa.scores.change import moved, unit_rows
from culpa.scores.score import CELLS_PER_CHUNK, GameSettings, InPlace, Score

_ROUNDING = 1e-12  # of what normal rows vary: an offset below it is one
_LEFT_OF = 1e-4  # a score: what a fix leaves below that is computed without the difference from it
_CANCELLED = 1e-3  # share of its terms below which a difference is computed otherwise, to keep its digits
_FEW_MISSING = 32  # cells of a row, whose pairs are looked up rather than multiplied with all others


@dataclass(frozen=True, eq=False)
class QuadraticScore(Score):
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
        """Distribution of centred normal rows."""
        return self.gaussian

    def game(self, name: GameName, settings: GameSettings) -> Game:
        """A game by its name; a quadratic score has all of them."""
        if name == "conditional":
            return Conditional(self)
        if name == "interventional":
            return Interventional(self)
        if name == "minimal":
            return Minimal(self, settings.locality)
        return self._retraining(settings)

    def _retraining(self, settings: GameSettings) -> Game:
        """The game in which the model is retrained, if it is a PCA whose reconstruction error this is."""
        model, weights = settings.model, self.residual_weights
        if self.name not in RETRAINABLE or (weights != weights[0]).any():
            raise ValueError(
                "game='retraining' explains reconstruction errors of all features: "
                "use score='spe' or 'mse' without features."
            )
        if model.mode_units:  # in which the score is measured, unlike that of a PCA
            raise ValueError("game='retraining' is not available for a detector with modes: use game='conditional'.")
        if self.gaussian.tail:
            raise ValueError(
                "game='retraining' retrains a PCA, which a Student model is not: use game='conditional' or "
                "'interventional'."
            )
        if model.sample is None:
            raise ValueError(
                "game='retraining' needs the sample covariance, which this model does not keep: "
                "fit culpa.PPCA or culpa.PCADetector instead."
            )
        # a submatrix of the shrunk covariance is the shrunk submatrix: models are retrained as the whole one was trained
        return Retraining(
            shrunk(model.sample.matrix, model.shrinkage),
            self.gaussian.n_components,
            mean=self.name == "mse",
            rank=settings.retraining_rank,
            gaussian=self.gaussian,
        )

    @property
    def is_quadratic(self) -> bool:
        """Whether the score is a quadratic form of the row: it is."""
        return True

    @property
    def as_quadratic(self) -> "QuadraticScore":
        """The score as a quadratic form, which it is itself."""
        return self

    def in_place(self, model: FittedModel, X: Floats) -> Iterator[InPlace]:
        """The score itself, whatever mode a row is in."""
        yield InPlace(np.arange(len(X)), model, X, self)

    def divided_by(self, unit: float) -> "QuadraticScore":
        """The same score in other units."""
        return replace(self, residual_weights=self.residual_weights / unit, latent_weights=self.latent_weights / unit)

    def __call__(self, X: Floats) -> Floats:
        """Score of each row; a row with missing cells gets its expected score given the observed ones."""
        if not any_missing(X):
            return self.complete(X)
        missing = np.isnan(X)
        result = self.complete(self.gaussian.impute(X))
        factor = self.gaussian.spread_factor(X)
        kinds, kind_of_row = kinds_of_rows(missing)
        result += factor * self._uncertainty(kinds)[kind_of_row]
        result[missing.all(axis=1)] = np.nan
        return result

    def _uncertainty(self, missing: Mask) -> Floats:
        """What the uncertainty of missing cells (patterns, d) adds to the expected score of Gaussian rows, (patterns,)."""
        model = self.gaussian
        result = missing @ (np.diag(self.matrix) * model.noise)
        # the missing features of each row, and then others, whose loadings count as 0; all features if many are missing
        most = int(missing.sum(axis=1).max(initial=0))
        features = np.argsort(~missing, axis=1, kind="stable")[:, :most]
        if most > _FEW_MISSING:
            features = np.broadcast_to(np.arange(missing.shape[1]), missing.shape)
        counts = np.take_along_axis(missing, features, axis=1)[:, :, None]
        for rows, _, root in model.posteriors.of_many(~missing):
            some = features[rows]
            spread = (counts[rows] * model.loadings[some]) @ root
            pairs = self.matrix[some[:, :, None], some[:, None, :]] if most <= _FEW_MISSING else self.matrix
            result[rows] += ((pairs @ spread) * spread).sum(axis=(1, 2))
        return np.asarray(result)

    def complete(self, X: Floats) -> Floats:
        """Score of rows without missing cells, (n,)."""
        return complete_scores((self,), X)[0]

    @cached_property
    def weighs(self) -> tuple[bool, bool]:
        """Whether residuals count, and latent variables."""
        return bool(self.residual_weights.any()), bool(self.latent_weights.any())

    @cached_property
    def root(self) -> Floats:
        """(d + p, d) matrix F with q(x) = |F x|^2."""
        return np.vstack(
            [
                np.sqrt(self.residual_weights)[:, None] * _residual_map(self.gaussian),
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
        """The matrix A of the score, (d, d)."""
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
        step = max(1, CELLS_PER_CHUNK // g.n_features)
        for at in (rounded[start : start + step] for start in range(0, len(rounded), step)):
            result[at] = (self.parts(unit_rows(at, g.n_features)) ** 2).sum(axis=1)
        return result

    def root_given(self, observed: Positions, gain: Floats | None = None) -> Floats:
        """The root of the score as a function of the observed features, the others at their conditional mean.

        (d + p, d) with zeros for features that were not observed. ``gain`` is that of the latent variables, if it is known.
        """
        g = self.gaussian
        if len(observed) == g.n_features:
            return self.root
        hidden = np.setdiff1d(np.arange(g.n_features), observed)
        gain = g.posteriors.of(observed)[0] if gain is None else gain
        result = np.zeros_like(self.root)
        result[:, observed] = self.root[:, observed] + (self.root[:, hidden] @ g.loadings[hidden]) @ gain
        return result

    def whole_root_given(self, observed: Positions) -> Floats:
        """The same, with what the observed features of Student-t rows tell about the spread of the others."""
        g, root = self.gaussian, self.root_given(observed)
        if not g.tail or len(observed) in (0, g.n_features):
            return root
        weight = g.tail / (1 + g.tail * len(observed)) * self._added(observed)
        return np.vstack([root, np.sqrt(weight) * mahalanobis(g).root_given(observed)])

    def _added(self, observed: Positions) -> float:
        """What the uncertainty of the other features adds."""
        return float(self._uncertainty(~np.isin(np.arange(self.gaussian.n_features), observed)[None])[0])

    def given_observed(self, observed: Positions) -> "QuadraticForm":
        """The score of rows that have these features only, as a function of them: E[q(x) given x_observed].

        F is zero for the other features. What their uncertainty adds to the score is a component of r of its own.
        """
        root, added = self.whole_root_given(observed), self._added(observed) / (1 + self.gaussian.tail * len(observed))
        zeros = np.zeros_like(self.residual_weights), np.zeros_like(self.latent_weights)
        r = np.zeros(len(root) + 1)
        r[: len(self.root)], r[-1] = self.offset, np.sqrt(max(added, 0.0))
        return QuadraticForm(self.name, self.gaussian, *zeros, np.vstack([root, np.zeros_like(root[:1])]), r)

    @cached_property
    def expectation(self) -> float:
        """Mean score of normal rows, Tr(A C): the base value of every game."""
        g = self.gaussian
        return float(self.residual_weights @ _residual_variance(g) + self.latent_weights @ g.latent_variance)

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
        result = moved(self, X, score, expected, blocks)
        # what is left of a much larger score is what rounding left of it: these rows are scored as they would be
        small = result < _LEFT_OF * score[:, None]
        if small.any():
            row, k = np.nonzero(small)
            result[row, k] = self.rescored(X, expected, blocks, row, k)
        return result


@dataclass(frozen=True, eq=False)
class QuadraticForm(QuadraticScore):
    """q(x) = |F x + r|^2 of centred rows. F is ``form_root``, (k, d), and r ``form_offset``, (k,)."""

    form_root: Floats
    form_offset: Floats

    @cached_property
    def root(self) -> Floats:
        """The factor F of the matrix A = F^T F."""
        return self.form_root

    @property
    def offset(self) -> Floats:
        """Value r of the linear map at the origin, (k,)."""
        return self.form_offset

    @cached_property
    def slope(self) -> Floats:
        """F^T r, half the gradient at the mean of normal rows, (d,)."""
        return np.asarray(self.form_root.T @ self.form_offset)

    @cached_property
    def expectation(self) -> float:
        """Mean score of normal rows, Tr(F C F^T) + |r|^2."""
        g = self.gaussian
        spread = ((self.root @ g.loadings) ** 2).sum() + (self.root**2).sum(axis=0) @ g.noise
        return float(spread + self.form_offset @ self.form_offset)

    def spectrum(self, covariance: Scatter) -> Floats:
        """Eigenvalues of A S. There are none that describe a score with an offset."""
        if self.form_offset.any():
            raise ValueError("the score is not smallest at the mean of normal rows, so it is no sum of chi-squares.")
        if covariance.is_thin:
            return super().spectrum(covariance)
        eigenvalues = np.linalg.eigvalsh(self.root @ covariance.matrix @ self.root.T)
        return np.asarray(np.maximum(eigenvalues, 0.0), dtype=np.float64)

    def parts(self, X: Floats) -> Floats:
        """F x of each row."""
        return X @ self.root.T

    def response(self, X: Array, convert: Callable[[Floats], Array] = np.asarray) -> Array:
        """A x of each row."""
        root = convert(self.root)
        return X @ root.T @ root

    @cached_property
    def diagonal(self) -> Floats:
        """Diagonal of the matrix A, (d,)."""
        return np.asarray((self.root**2).sum(axis=0))

    def game(self, name: GameName, settings: GameSettings) -> Game:
        """The conditional game; others for scores that are smallest at the mean."""
        if name == "retraining":
            raise ValueError("game='retraining' retrains a PCA: use game='conditional' for the score of another model.")
        if name != "conditional" and not self.is_quadratic:
            raise ValueError(f"game={name!r} needs a score that is smallest at the mean of normal rows.")
        return ConditionalForm(self) if name == "conditional" else super().game(name, settings)

    @property
    def is_quadratic(self) -> bool:
        """Unless it has an offset."""
        return not self.form_offset.any()

    def complete(self, X: Floats) -> Floats:
        """Score of rows without missing cells, (n,)."""
        return np.asarray(((X @ self.root.T + self.form_offset) ** 2).sum(axis=1))


def _residual_map(g: LatentGaussian) -> Floats:
    """(d, d): maps a centred row to its residual x - x_hat."""
    memory.claim_square(g.n_features, "the map of residuals", copies=4)
    return np.eye(g.n_features) - g.decoder @ g.encoder


def _residual_variance(g: LatentGaussian) -> Floats:
    """Variance of each feature's residual over normal rows, (d,)."""
    divisor = g.signal if g.reconstruction == "least-squares" else 1 + g.signal
    return np.asarray(np.maximum(g.noise - g.loadings**2 @ inverse(divisor), 0.0))


def complete_scores(scores: Sequence[QuadraticScore], X: Floats) -> list[Floats]:
    """Scores of complete rows that weigh the residuals and latent variables of one Gaussian, which are computed once."""
    gaussian, results = scores[0].gaussian, [np.zeros(len(X)) for _ in scores]
    z = X @ gaussian.encoder.T
    of_residuals, of_latent = ([k for k, score in enumerate(scores) if score.weighs[part]] for part in (0, 1))
    if of_residuals:
        residuals = z @ gaussian.decoder.T
        np.subtract(X, residuals, out=residuals)
        np.square(residuals, out=residuals)
        for k in of_residuals:
            results[k] += residuals @ scores[k].residual_weights
    if of_latent:
        np.square(z, out=z)
        for k in of_latent:
            results[k] += z @ scores[k].latent_weights
    return results


def scores_of(scores: Mapping[str, Score], X: Floats) -> dict[str, Floats]:
    """Several scores of the same rows, by name."""
    quadratic = [score for score in scores.values() if type(score) is QuadraticScore]
    alike = len(quadratic) == len(scores) and len({id(score.gaussian) for score in quadratic}) == 1
    if not alike or any_missing(X):
        return {name: score(X) for name, score in scores.items()}
    return dict(zip(scores, complete_scores(quadratic, X), strict=True))


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


def reconstruction_error(
    model: FittedModel, encoder: LinearMap, features: Sequence[int] | None = None, *, mean: bool = False
) -> QuadraticForm:
    """Squared error of a linear reconstruction in its own units, of all features or of some."""
    gaussian, d = model.gaussian, model.gaussian.n_features
    if len(encoder.matrix) != d:
        raise ValueError(f"the model reconstructs {len(encoder.matrix)} features, but normal has {d}.")
    kept = np.arange(d) if features is None else np.array(features, dtype=np.intp)
    if not len(kept):
        raise ValueError("features must name at least one feature.")
    root = ((np.eye(d) - encoder.matrix) * model.scale)[kept]
    offset = encoder.residual_of(model.centre)[kept]
    # what rounding leaves of an offset would keep the forms from being compiled
    size = float(np.abs(root).max() * np.sqrt(np.diag(gaussian.covariance)).max())
    if np.abs(offset).max() <= _ROUNDING * max(size, float(np.abs(model.centre).max())):
        offset = np.zeros_like(offset)
    weight = np.sqrt(1 / len(kept)) if mean else 1.0
    zeros = np.zeros(d), np.zeros(gaussian.n_components)
    return QuadraticForm("mse" if mean else "spe", gaussian, *zeros, weight * root, weight * offset)
