"""Detectors as MLflow models: log one, load it again, or let MLflow serve it.

MLflow stores the model file that ``detector.save`` writes. Nothing is pickled, and loading runs no code from the model.

    with mlflow.start_run():
        logged = culpa.mlflow.log_model(detector, "plant")
    served = mlflow.pyfunc.load_model(logged.model_uri)
    served.predict(rows)
    served.predict(rows, params={"explain": True})
"""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from culpa._core.optional import require
from culpa._core.version import __version__
from culpa.detecting.detector import PCADetector
from culpa.fitted import FittedDetector
from culpa.io.model_file import load, save
from culpa.jobs.record_batches import RecordBatchExplainer, RecordBatchScorer

if TYPE_CHECKING:
    from mlflow.models import ModelSignature
    from mlflow.models.model import ModelInfo
    from mlflow.types import Schema

_FILE = "detector.culpa"


def log_model(detector: PCADetector, name: str, **options: Any) -> "ModelInfo":
    """Log a fitted detector to the active run; ``options`` are those of ``mlflow.pyfunc.log_model``.

    ``model_uri`` of the result is what `load_model` and ``mlflow.pyfunc.load_model`` take.
    """
    with TemporaryDirectory() as folder:
        logged: ModelInfo = _mlflow().pyfunc.log_model(name=name, **_stored(detector.fitted, folder), **options)
        return logged


def save_model(detector: PCADetector, path: str | Path, **options: Any) -> None:
    """Write a fitted detector as an MLflow model to a new folder, without a tracking server."""
    with TemporaryDirectory() as folder:
        _mlflow().pyfunc.save_model(path=str(path), **_stored(detector.fitted, folder), **options)


def load_model(model_uri: str) -> PCADetector:
    """The detector of a logged or saved model."""
    return load(_model_file(Path(_mlflow().artifacts.download_artifacts(model_uri))))


def _mlflow() -> Any:
    """MLflow takes seconds to import, so it is imported when it is used."""
    mlflow = require("mlflow", "culpa.mlflow", "mlflow")
    require("mlflow.pyfunc", "culpa.mlflow", "mlflow")
    return mlflow


def _stored(fitted: FittedDetector, folder: str) -> dict[str, Any]:
    """What MLflow needs to store a detector: the model file, and the columns that go in and come out."""
    if fitted.columns.lags or fitted.columns.smooth is not None:
        raise ValueError(
            "MLflow scores each row separately, but a detector with lags or smooth judges rows by earlier rows. Save it "
            "with detector.save, or fit without lags and smooth."
        )
    path = Path(folder, _FILE)
    save(fitted, path)
    return {
        "loader_module": __name__,
        "data_path": str(path),
        "signature": _signature(fitted),
        "pip_requirements": [f"culpa[mlflow]=={__version__}"],
    }


def _signature(fitted: FittedDetector) -> "ModelSignature":
    """The columns that go in and come out; registries refuse models that do not declare both."""
    from mlflow.models import ModelSignature
    from mlflow.types import DataType, ParamSchema, ParamSpec

    rows = pa.schema([(name, pa.float64()) for name in fitted.columns.inputs])
    answer = RecordBatchScorer(fitted, rows).added
    return ModelSignature(
        inputs=_schema(rows),
        outputs=_schema(answer),
        params=ParamSchema([ParamSpec("explain", DataType.boolean, False)]),
    )


def _schema(fields: Iterable[pa.Field]) -> "Schema":
    from mlflow.types import ColSpec, DataType, Schema

    types = {pa.float64(): DataType.double, pa.bool_(): DataType.boolean}
    return Schema([ColSpec(types.get(field.type, DataType.long), field.name) for field in fields])


def _model_file(model: Path) -> Path:
    return model / "data" / _FILE


class _Served:
    """What ``mlflow.pyfunc.load_model`` calls with the rows of a request."""

    def __init__(self, fitted: FittedDetector) -> None:
        self.fitted = fitted

    def predict(self, rows: Any, params: dict[str, Any] | None = None) -> Any:
        """Score, limit, flag and p-value of each row; with ``explain``, its Shapley values instead of the p-value."""
        batch = pa.RecordBatch.from_pandas(rows, preserve_index=False)
        answers = RecordBatchExplainer if (params or {}).get("explain") else RecordBatchScorer
        answer = answers(self.fitted, batch.schema)
        new = [field.name for field in answer.added]
        return answer(batch).select(new).to_pandas().set_axis(rows.index)


def _load_pyfunc(data_path: str) -> _Served:
    """The name that MLflow calls in a loader module."""
    return _Served(load(data_path).fitted)
