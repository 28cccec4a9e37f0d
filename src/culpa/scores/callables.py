"""Functions of rows made of whatever the user has: a plain function, a network, an ONNX session, a fitted detector."""

from collections.abc import Callable, Sequence
from functools import partial
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
        return partial(_of_torch, thing)
    if hasattr(thing, "get_inputs") and hasattr(thing, "run"):
        return partial(_of_onnx, thing)
    if callable(thing):
        return partial(_plain, thing)
    if argument == "reconstruct" and hasattr(thing, "predict"):
        return partial(_plain, thing.predict)
    raise TypeError(f"{argument} must be a function of rows, a torch module or an ONNX session, got a {kind.__name__}.")


def detector_score(model: Any) -> tuple[str, Function] | None:
    """Name and function of a fitted detector's own score, larger for more abnormal rows; ``None`` if it has none.

    PyOD's detectors have ``decision_function``, which is larger for more abnormal rows. Those of scikit-learn have
    ``score_samples``, which is smaller, so its sign is changed.
    """
    name = type(model).__name__
    if hasattr(model, "decision_scores_"):
        return f"{name} decision_function", partial(_named, model, "decision_function", 1.0)
    if hasattr(model, "score_samples"):
        return f"{name} -score_samples", partial(_named, model, "score_samples", -1.0)
    return None


def squared_error(reconstruct: Function, features: Sequence[int] | None = None, *, mean: bool = False) -> Function:
    """Squared reconstruction error of rows: its sum over features, or its mean."""
    return partial(_squared_error, reconstruct, slice(None) if features is None else list(features), mean)


# partial functions of a module, because functions that are defined in functions cannot be pickled


def _squared_error(reconstruct: Function, features: list[int] | slice, mean: bool, rows: Floats) -> Floats:
    rebuilt = np.asarray(reconstruct(rows.copy()), dtype=np.float64)  # which may work in place
    if rebuilt.shape != rows.shape:
        raise ValueError(
            f"reconstruct must return rows of the same shape: it got {rows.shape} and returned {rebuilt.shape}."
        )
    squares = (rows - rebuilt)[:, features] ** 2
    return np.asarray(squares.mean(axis=1) if mean else squares.sum(axis=1))


def _plain(function: Function, rows: Floats) -> Any:
    """A function whose result may be a tensor of a library."""
    return _as_numpy(function(rows))


def _named(model: Any, method: str, sign: float, rows: Any) -> Any:
    """A method of a fitted estimator, which gets a data frame if it was fitted to one."""
    return sign * np.asarray(getattr(model, method)(with_names(model, rows)))


def _of_torch(module: Any, rows: Floats) -> Any:
    """A torch module, without gradients, in the type and on the device of its parameters."""
    import torch

    like = next(iter(module.parameters()), torch.zeros(0, dtype=torch.float64))
    with torch.no_grad():
        return _as_numpy(module(torch.as_tensor(rows, dtype=like.dtype, device=like.device)))


def _of_onnx(session: Any, rows: Floats) -> Any:
    """The first output of an ONNX session with one input."""
    node = session.get_inputs()[0]
    kind = np.float64 if "double" in node.type else np.float32
    return session.run(None, {node.name: rows.astype(kind)})[0]


def _as_numpy(result: Any) -> Any:
    for step in ("detach", "cpu"):  # of torch tensors
        if hasattr(result, step):
            result = getattr(result, step)()
    return np.asarray(result)


def _is_torch_module(kind: type) -> bool:
    return any(base.__module__ == "torch.nn.modules.module" for base in kind.__mro__)
