"""Functions of rows made of whatever the user has: a plain function, a network, an ONNX session, a fitted detector."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from culpa._core.native import with_names
from culpa._core.types import Floats

Function = Callable[[Floats], Any]


def as_function(thing: Any, argument: str) -> Function:
    """A function of NumPy rows: torch modules and ONNX sessions are called in their own way.

    ``argument`` is what the user calls it.
    """
    kind = type(thing)
    if _is_torch_module(kind):
        return _TorchFunction(thing)
    if hasattr(thing, "get_inputs") and hasattr(thing, "run"):
        return _OnnxFunction(thing)
    if callable(thing):
        return _Plain(thing)
    if argument == "reconstruct" and hasattr(thing, "predict"):
        return _Plain(thing.predict)
    raise TypeError(f"{argument} must be a function of rows, a torch module or an ONNX session, got a {kind.__name__}.")


def detector_score(model: Any) -> tuple[str, Function] | None:
    """Name and function of a fitted detector's own score, larger for more abnormal rows; ``None`` if it has none.

    PyOD's detectors have ``decision_function``, which is larger for more abnormal rows. Those of scikit-learn have
    ``score_samples``, which is smaller, so its sign is changed.
    """
    name = type(model).__name__
    if hasattr(model, "decision_scores_"):
        return f"{name} decision_function", _Named(model, "decision_function", 1.0)
    if hasattr(model, "score_samples"):
        return f"{name} -score_samples", _Named(model, "score_samples", -1.0)
    return None


class SquaredError:
    """Squared reconstruction error of rows: its sum over features, or its mean."""

    def __init__(self, reconstruct: Function, features: Sequence[int] | None = None, *, mean: bool = False) -> None:
        self.reconstruct, self.mean = reconstruct, mean
        self.features = slice(None) if features is None else np.array(features, dtype=np.intp)

    def __call__(self, rows: Floats) -> Floats:
        """Of each row."""
        rebuilt = np.asarray(self.reconstruct(rows.copy()), dtype=np.float64)  # which may work in place
        if rebuilt.shape != rows.shape:
            raise ValueError(
                f"reconstruct must return rows of the same shape: it got {rows.shape} and returned {rebuilt.shape}."
            )
        squares = (rows - rebuilt)[:, self.features] ** 2
        return np.asarray(squares.mean(axis=1) if self.mean else squares.sum(axis=1))


class _Plain:
    """A function whose result may be a tensor of a library."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def __call__(self, rows: Floats) -> Any:
        return _as_numpy(self.function(rows))


class _Named:
    """A method of a fitted estimator, which gets a data frame if it was fitted to one."""

    def __init__(self, model: Any, method: str, sign: float) -> None:
        self.model, self.method, self.sign = model, method, sign

    def __call__(self, rows: Any) -> Any:
        return self.sign * np.asarray(getattr(self.model, self.method)(with_names(self.model, rows)))


class _TorchFunction:
    """A torch module, without gradients, in the type and on the device of its parameters."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __call__(self, rows: Floats) -> Any:
        import torch

        like = next(iter(self.module.parameters()), torch.zeros(0, dtype=torch.float64))
        with torch.no_grad():
            return _as_numpy(self.module(torch.as_tensor(rows, dtype=like.dtype, device=like.device)))


class _OnnxFunction:
    """The first output of an ONNX session with one input."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def __call__(self, rows: Floats) -> Any:
        node = self.session.get_inputs()[0]
        kind = np.float64 if "double" in node.type else np.float32
        return self.session.run(None, {node.name: rows.astype(kind)})[0]


def _as_numpy(result: Any) -> Any:
    for step in ("detach", "cpu"):  # of torch tensors
        if hasattr(result, step):
            result = getattr(result, step)()
    return np.asarray(result)


def _is_torch_module(kind: type) -> bool:
    return any(base.__module__ == "torch.nn.modules.module" for base in kind.__mro__)
