"""Encoders and decoders that are linear together: x_hat = M x + c, written as x_hat = image + M (x - point).

Both points are usually the mean of the training rows. Written so, data with a large mean keep their digits.
"""

from typing import Any, NamedTuple

import numpy as np

from culpa._core.types import Floats


class LinearMap(NamedTuple):
    """x_hat = image + M (x - point). With neither, the mean of normal rows is reconstructed perfectly."""

    matrix: Floats  # M, (d, d)
    point: Floats | None = None  # (d,)
    image: Floats | None = None  # (d,)

    def residual_of(self, row: Floats) -> Floats:
        """Row minus reconstruction, for the mean of normal rows, (d,)."""
        if self.point is None or self.image is None:
            return np.zeros_like(row)
        return np.asarray((row - self.image) - self.matrix @ (row - self.point))

    @classmethod
    def given(cls, matrix: Any) -> "LinearMap":
        """M, or a pair (M, c), as the user gives it."""
        offset = None
        if isinstance(matrix, tuple):
            if len(matrix) != 2:
                raise ValueError(f"reconstruct_matrix must be M or (M, c), got {len(matrix)} parts.")
            matrix, offset = matrix
            offset = np.asarray(offset, dtype=np.float64)
        matrix = np.asarray(matrix, dtype=np.float64)
        d = len(matrix) if matrix.ndim else 0
        if matrix.shape != (d, d) or (offset is not None and offset.shape != (d,)):
            shape = matrix.shape if offset is None else f"{matrix.shape} and {offset.shape}"
            raise ValueError(f"reconstruct_matrix must be a square matrix M or a pair (M, c), got shape {shape}.")
        if not np.isfinite(matrix).all() or (offset is not None and not np.isfinite(offset).all()):
            raise ValueError("reconstruct_matrix must be finite.")
        return cls(matrix) if offset is None else cls(matrix, np.zeros(d), offset)


def linear_map(model: Any) -> LinearMap | None:
    """What a fitted SparsePCA, MiniBatchSparsePCA or TruncatedSVD makes of a row; ``None`` for any other model."""
    from sklearn.decomposition import MiniBatchSparsePCA, SparsePCA, TruncatedSVD
    from sklearn.utils.validation import check_is_fitted

    if isinstance(model, (SparsePCA, MiniBatchSparsePCA)):
        check_is_fitted(model)
        U = np.asarray(model.components_, dtype=np.float64)
        # its transform is a ridge regression on the components
        matrix = U.T @ np.linalg.solve(U @ U.T + model.ridge_alpha * np.eye(len(U)), U)
        return LinearMap(matrix, model.mean_, model.mean_)
    if isinstance(model, TruncatedSVD):
        check_is_fitted(model)
        V = np.asarray(model.components_, dtype=np.float64)
        zero = np.zeros(V.shape[1])
        return LinearMap(V.T @ V, zero, zero)
    return None
