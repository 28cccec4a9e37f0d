"""A detector survives MLflow: logged, loaded, served, with the numbers it had before."""

import os
import re
import sys

import numpy as np
import pandas as pd
import pytest

import culpa
from culpa import PCADetector
from culpa.datasets import make_plant

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # read when MLflow is imported
pytest.importorskip("mlflow", reason="MLflow is not installed; it is optional")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # MLflow warns about its own type hints and examples


@pytest.fixture(scope="module")
def rows():
    plant = make_plant()
    names = [f"sensor {i}" for i in range(plant.normal.shape[1])]
    return pd.DataFrame(plant.normal, columns=names)


@pytest.fixture(scope="module")
def detector(rows):
    return PCADetector().fit(rows)


@pytest.fixture
def new(rows):
    new = rows.tail(5).copy()
    new.iloc[0, 2] += 9
    new.iloc[1, 3] = np.nan
    return new


@pytest.fixture(scope="module")
def saved(detector, tmp_path_factory):
    import culpa.mlflow

    folder = tmp_path_factory.mktemp("mlflow") / "plant"
    culpa.mlflow.save_model(detector, folder)
    return str(folder)


@pytest.fixture(scope="module")
def served(saved):
    import mlflow

    return mlflow.pyfunc.load_model(saved)


def test_loads_the_detector(saved, detector, new):
    import culpa.mlflow

    again = culpa.mlflow.load_model(saved)
    np.testing.assert_array_equal(again.score_samples(new), detector.score_samples(new))


def test_predicts_what_the_detector_says(served, detector, new):
    answer = served.predict(new)
    assert list(answer) == ["score", "limit", "anomaly", "p_value"]
    assert list(answer.index) == list(new.index)
    why = detector.explain(new)
    np.testing.assert_allclose(answer["score"], why.score, rtol=1e-12)
    np.testing.assert_array_equal(answer["anomaly"], detector.predict(new) == -1)


def test_explains(served, detector, new):
    answer = served.predict(new, params={"explain": True})
    why = detector.explain(new)
    np.testing.assert_allclose(answer[list(new)], why.values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(answer[list(new)].sum(axis=1) + why.base_value, answer["score"], rtol=1e-10)


def test_other_columns_change_nothing(served, new):
    answer = served.predict(new.assign(batch="A7")[["batch", *reversed(list(new))]])
    pd.testing.assert_frame_equal(answer, served.predict(new))


def test_registries_know_what_goes_in_and_comes_out(served, new):
    schema = served.metadata.signature
    assert schema.inputs.input_names() == list(new)
    assert schema.outputs.input_names() == list(served.predict(new))


def test_a_missing_column_is_named(served, new):
    with pytest.raises(Exception, match="sensor 4"):
        served.predict(new.drop(columns="sensor 4"))


def test_a_run_keeps_the_model(detector, new, tmp_path, monkeypatch):
    import mlflow

    import culpa.mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run():
        logged = culpa.mlflow.log_model(detector, "plant")
    served = mlflow.pyfunc.load_model(logged.model_uri)
    np.testing.assert_allclose(served.predict(new)["score"], detector.explain(new).score, rtol=1e-12)
    np.testing.assert_array_equal(
        culpa.mlflow.load_model(logged.model_uri).score_samples(new), detector.score_samples(new)
    )


def test_nothing_is_pickled(saved):
    files = [file for _, _, names in os.walk(saved) for file in names]
    assert "detector.culpa" in files
    assert not [name for name in files if name.endswith((".pkl", ".pickle"))]


def test_says_how_to_install_it(detector, monkeypatch, tmp_path):
    import culpa.mlflow

    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match=re.escape("culpa.mlflow needs mlflow: pip install 'culpa[mlflow]'")):
        culpa.mlflow.save_model(detector, tmp_path / "plant")


@pytest.mark.parametrize("options", [{"lags": 1}, {"smooth": 0.5}])
def test_detectors_that_need_earlier_rows_are_refused_with_advice_that_works(tmp_path, options):
    from culpa.mlflow import save_model

    detector = PCADetector(**options).fit(np.random.default_rng(0).normal(size=(100, 3)))
    with pytest.raises(ValueError, match=r"Save it with detector\.save"):
        save_model(detector, tmp_path / "plant")
    detector.save(tmp_path / "plant.culpa")
    assert culpa.load(tmp_path / "plant.culpa").limit_ == detector.limit_
