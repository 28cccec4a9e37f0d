"""Whatever the user has, as a function of NumPy rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import IsolationForest
from sklearn.neural_network import MLPRegressor

from culpa.scores.callables import as_function, detector_score, squared_error

X = np.random.default_rng(0).normal(size=(40, 3))


def test_sign_of_scikit_learn_and_names_of_columns():
    frame = pd.DataFrame(X, columns=list("abc"))
    forest = IsolationForest(random_state=0).fit(frame)
    name, function = detector_score(forest)
    assert name == "IsolationForest -score_samples"
    np.testing.assert_array_equal(function(X), -forest.score_samples(frame))  # without a warning about names
    assert detector_score(MLPRegressor()) is None


def test_sign_of_pyod():
    knn = pytest.importorskip("pyod.models.knn").KNN().fit(X)
    name, function = detector_score(knn)
    assert name == "KNN decision_function"
    np.testing.assert_array_equal(function(X), knn.decision_function(X))
    far = np.full((1, 3), 50.0)
    assert function(far) > function(X).max()


def test_reconstructions():
    mlp = MLPRegressor(hidden_layer_sizes=(2,), max_iter=20, random_state=0)
    with pytest.warns(UserWarning, match="iterations"):
        mlp.fit(X, X)
    residual = X - mlp.predict(X)
    for thing in (mlp, mlp.predict):
        function = as_function(thing, "reconstruct")
        np.testing.assert_allclose(squared_error(function)(X), (residual**2).sum(axis=1))
        np.testing.assert_allclose(
            squared_error(function, [0, 2], mean=True)(X), (residual[:, [0, 2]] ** 2).mean(axis=1)
        )
    with pytest.raises(ValueError, match=r"reconstruct must return rows of the same shape: it got \(40, 3\)"):
        squared_error(lambda rows: rows[:, :2])(X)
    with pytest.raises(TypeError, match="score must be a function of rows"):
        as_function(3, "score")


def test_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed; it is optional")
    module = torch.nn.Linear(3, 3)
    expected = module(torch.as_tensor(X, dtype=torch.float32)).detach().numpy()
    np.testing.assert_allclose(as_function(module, "reconstruct")(X), expected)
    np.testing.assert_allclose(as_function(lambda rows: torch.as_tensor(rows).sum(dim=1), "score")(X), X.sum(axis=1))


def test_onnx_sessions_are_called_by_the_name_of_their_input():
    class Node:
        name, type = "rows", "tensor(float)"

    class Session:
        def get_inputs(self):
            return [Node]

        def run(self, outputs, feeds):
            assert outputs is None
            assert feeds["rows"].dtype == np.float32
            return [feeds["rows"].sum(axis=1)]

    np.testing.assert_allclose(as_function(Session(), "score")(X), X.sum(axis=1), rtol=1e-5, atol=1e-6)
