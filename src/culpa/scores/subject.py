"""What is explained: a model of normal rows together with a score of rows.

| the user gives | model of normal rows | score |
| --- | --- | --- |
| a model that culpa reads | the model itself | by name; the model's own by default |
| a linear encoder and decoder, and ``normal`` | ``normal`` | its error, a quadratic form: exact |
| ``reconstruct_matrix`` and ``normal`` | ``normal`` | the same |
| a fitted detector of another kind, and ``normal`` | ``normal`` | its own, a function: sampled |
| ``score`` or ``reconstruct`` as a function, and ``normal`` | ``normal`` | the function: sampled |
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from culpa.columns import Columns, Plain
from culpa.models import FittedModel, as_fitted_model
from culpa.models.draws import NormalRows
from culpa.models.linear_maps import LinearMap, linear_map
from culpa.models.normal_argument import in_user_units, model_of
from culpa.scores.agreement import Learned, Unchanged, Witness, witness_of
from culpa.scores.by_name import score_by_name
from culpa.scores.callables import Function, as_function, detector_score, squared_error
from culpa.scores.function import FunctionScore
from culpa.scores.quadratic import reconstruction_error
from culpa.scores.score import Score


class Subject(NamedTuple):
    """A model of normal rows, and a function that makes the score: of all features, or the error of some."""

    model: FittedModel
    score: Callable[[Sequence[int] | None], Score]
    witness: Learned | Witness | Unchanged | None = None  # whether the model still is what the user gave


def subject_of(model: Any, score: Any, normal: Any, reconstruct: Any, reconstruct_matrix: Any, seed: int) -> Subject:
    """Find out what is explained from what the user gave; see the parameters of `culpa.Explainer`."""
    is_function = score is not None and not isinstance(score, (str, Score))
    named = {
        "model": model,
        "score": score if is_function else None,
        "reconstruct": reconstruct,
        "reconstruct_matrix": reconstruct_matrix,
    }
    given = [name for name, value in named.items() if value is not None]
    if len(given) != 1:
        raise TypeError(
            f"nothing to explain: {_NEEDED}." if not given else f"got {' and '.join(given)} to explain: {_NEEDED}."
        )
    if model is not None:
        return _of_model(model, score, normal, seed)
    if normal is None:
        raise TypeError(
            f"{given[0]}=... also needs normal=..., the normal rows or a culpa model of them. Features that are left out "
            "are drawn from it."
        )
    if is_function:
        return _of_function(model_of(normal), _name_of(score), as_function(score, "score"), seed)
    if reconstruct is not None:
        return _of_reconstruction(model_of(normal), as_function(reconstruct, "reconstruct"), _error(score), seed)
    return _of_linear_map(model_of(normal), LinearMap.given(reconstruct_matrix), _error(score))


_NEEDED = "pass a model, a function as score, a function as reconstruct, or a reconstruct_matrix"


def _of_model(model: Any, score: Any, normal: Any, seed: int) -> Subject:
    if normal is None:
        fitted = as_fitted_model(model)
        name = fitted.own.score if score is None else score
        return Subject(
            fitted,
            lambda features: score_by_name(name, fitted, features, fitted.own.confidence),
            witness_of(model, fitted),
        )
    columns, last = _split(model)
    encoder = linear_map(last)
    if encoder is not None:
        subject = _of_linear_map(_named(model_of(normal, columns), model), encoder, _error(score))
        error = reconstruction_error(subject.model, encoder, None, mean=False)
        return subject._replace(witness=Witness.of(last, subject.model, error))
    own = detector_score(last)
    if _is_readable(last):
        raise ValueError(f"{type(last).__name__} is a model of normal rows itself: leave out normal.")
    if own is None:
        raise TypeError(
            f"{type(last).__name__} has neither score_samples nor decision_function: pass score=... or reconstruct=... as "
            "a function instead."
        )
    if score is not None:
        raise ValueError(f"{type(last).__name__} has a score of its own: leave out score={score!r}.")
    subject = _of_function(_named(model_of(normal, columns), model), *own, seed)
    return subject._replace(witness=Learned.of(last))


def _of_function(normal: FittedModel, name: str, function: Function, seed: int) -> Subject:
    model = in_user_units(normal)

    def score(features: Sequence[int] | None) -> Score:
        if features is not None:
            raise ValueError("features=... selects reconstruction errors, so it does not go with a function as score.")
        return FunctionScore(name, NormalRows.of(normal), function, seed, model=normal)

    return Subject(model, score)


def _of_reconstruction(normal: FittedModel, reconstruct: Function, name: str, seed: int) -> Subject:
    model = in_user_units(normal)

    def score(features: Sequence[int] | None) -> Score:
        error = squared_error(reconstruct, features, mean=name == "mse")
        return FunctionScore(name, NormalRows.of(normal), error, seed, model=normal)

    return Subject(model, score)


def _of_linear_map(normal: FittedModel, encoder: LinearMap, name: str) -> Subject:
    if normal.margins is not None or normal.n_modes > 1 or normal.gaussian.tail:
        raise ValueError(
            "the error of a linear reconstruction needs Gaussian normal rows: as normal, pass a Gaussian model "
            "such as PPCA, or the rows themselves. Or pass the reconstruction as a function (reconstruct=...)."
        )
    return Subject(normal, lambda features: reconstruction_error(normal, encoder, features, mean=name == "mse"))


def _error(score: Any) -> str:
    """Name of a reconstruction error."""
    if score not in (None, "spe", "mse"):
        raise ValueError(f"score={score!r} is not a reconstruction error: use 'spe' or 'mse'.")
    return score or "spe"


def _split(model: Any) -> tuple[Columns | None, Any]:
    """The columns that go into a Pipeline, if it is one with steps, and its last step."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(model, Pipeline):
        check_is_fitted(model)
        return None, model
    last = model[-1]
    check_is_fitted(last)
    if len(model.steps) == 1:
        return None, last
    n_features = getattr(last, "n_features_in_", None)
    if n_features is None:
        raise TypeError(f"{type(last).__name__} does not say how many features it was fitted to: explain it alone.")
    from culpa.columns.pipelines import Traced  # loads many transformers

    return Traced(model, Plain(None, n_features)), last


def _is_readable(model: Any) -> bool:
    """Whether culpa explains the model exactly, without normal rows."""
    try:
        as_fitted_model(model)
    except (TypeError, ValueError):
        return False
    return True


def _named(normal: FittedModel, model: Any) -> FittedModel:
    """The model of normal rows; its names must be those that the detector was fitted to."""
    names, width = getattr(model, "feature_names_in_", None), getattr(model, "n_features_in_", None)
    found = len(normal.columns.inputs)
    if normal.encoding is None and width is not None and width != found:
        raise ValueError(f"normal has {found} features, but {type(model).__name__} was fitted to {width}.")
    if normal.encoding is None and names is not None and normal.feature_names not in (None, tuple(map(str, names))):
        raise ValueError(f"normal has other columns than {type(model).__name__} was fitted to.")
    return normal


def _name_of(function: Any) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return "score" if name == "<lambda>" else str(name)
