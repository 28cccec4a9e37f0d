"""What an explanation has under the names that shap uses for it."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.border import entered
from culpa._core.choices import unknown
from culpa._core.types import Floats
from culpa.explaining.stored import Stored


@entered
class LikeShap(Stored):
    """Attributes and conversions for users of shap."""

    if TYPE_CHECKING:
        values: Floats
        base_value: float | Floats
        data: NDArray[Any]
        groups: tuple[tuple[str, tuple[int, ...]], ...] | None

    @property
    @abstractmethod
    def player_names(self) -> tuple[str, ...]:
        """Names of the columns of ``values``."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    def base_values(self) -> Floats:
        """``base_value`` for each row, as shap has it, (rows,)."""
        return np.array(np.broadcast_to(self.base_value, len(self)))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and players: the shape of ``values``."""
        return len(self), len(self.player_names)

    def _values_of(self, rows: Any, players: Any) -> Any:
        """Values of players by name or position: ``why[:, "proline"]``."""
        names = self.player_names
        several = isinstance(players, (list, tuple, np.ndarray))
        for name in players if several else [players]:
            if isinstance(name, str) and name not in names:
                unknown(name, names, "feature or group:")
        if several:
            players = [names.index(name) if isinstance(name, str) else name for name in players]
        elif isinstance(players, str):
            players = names.index(players)
        return self.values[rows][..., players]

    def to_shap(self) -> Any:
        """The same as a ``shap.Explanation``, for shap's plots."""
        try:
            import shap
        except ImportError:
            raise ImportError("to_shap() needs the package shap: pip install shap") from None
        return shap.Explanation(
            values=self.values,
            base_values=self.base_values,
            data=self.data if self.groups is None else None,
            feature_names=list(self.player_names),
        )
