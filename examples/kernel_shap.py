"""Compare with kernel SHAP, which draws absent features independently of the known ones.

The features are correlated, and one of them is wrong in each row, so the right answer is known.

python examples/kernel_shap.py [number of data sets]
"""

import sys
import warnings

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.neural_network import MLPRegressor

from culpa import Explainer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    try:
        import shap
    except ImportError:
        print("skipped: pip install shap")
        raise SystemExit from None

# sensors that measure the same two quantities; an autoencoder follows those with the largest range
UNEQUAL = np.array([[3.0, 1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 3.0, 1.0, 1.0]])
EQUAL = np.array([[1.0, 0.9, 0.8, 0.7, 0.0, 0.0, 0.0, 0.3], [0.0, 0.3, 0.0, 0.4, 1.0, 0.9, 0.8, 0.7]])
N_FAULTS = 48


def rows(n, loadings, rng):
    """Normal rows."""
    return rng.normal(size=(n, 2)) @ loadings + 0.3 * rng.normal(size=(n, loadings.shape[1]))


def autoencoder(normal):
    """Squared error of an autoencoder."""
    network = MLPRegressor(hidden_layer_sizes=(16, 2, 16), activation="tanh", max_iter=3000, random_state=0)
    network.fit(normal, normal)
    return lambda X: ((X - network.predict(X)) ** 2).sum(axis=1)


def forest(normal):
    """Score of an isolation forest."""
    fitted = IsolationForest(random_state=0).fit(normal)
    return lambda X: -fitted.score_samples(X)


def compare(name, detector, loadings, sensors, size, seed):
    """Print how often the faulty sensor has the largest Shapley value."""
    rng = np.random.default_rng(seed)
    normal, faulty = rows(600, loadings, rng), rows(N_FAULTS, loadings, rng)
    culprits = np.array(sensors)[np.arange(N_FAULTS) % len(sensors)]
    faulty[np.arange(N_FAULTS), culprits] += rng.choice([-size, size], size=N_FAULTS)
    score = detector(normal)
    conditional = Explainer(score=score, normal=normal).explain(faulty).values
    independent = Explainer(score=score, normal=normal, game="interventional").explain(faulty).values
    kernel = shap.KernelExplainer(score, shap.sample(normal, 50, random_state=0))
    kernel_shap = kernel.shap_values(faulty, nsamples=256, silent=True)
    hits = [f"{(v.argmax(axis=1) == culprits).mean():4.0%}" for v in (conditional, independent, kernel_shap)]
    print(f"{name:17} seed {seed}: culpa {hits[0]}, culpa without correlations {hits[1]}, kernel SHAP {hits[2]}")


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
        compare("autoencoder", autoencoder, UNEQUAL, [0, 3], 2.5, seed)
        compare("isolation forest", forest, EQUAL, range(8), 2.0, seed)
