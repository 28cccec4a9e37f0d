"""Explain an autoencoder: faults in one sensor that raise the error of another.

Two quantities are each measured by three sensors. The first sensor of each three has the largest range, so the autoencoder
follows it. If it fails, the autoencoder reproduces its wrong reading, and the error appears at the other two.

python examples/autoencoder.py
"""

import numpy as np
from sklearn.neural_network import MLPRegressor

from culpa import Explainer

LOADINGS = np.array([[3.0, 1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 3.0, 1.0, 1.0]])
N_FAULTS = 40


def measure(n, rng):
    """Rows of six sensors."""
    return rng.normal(size=(n, 2)) @ LOADINGS + 0.3 * rng.normal(size=(n, 6))


def mlp_autoencoder(rows):
    """A network with two units in the middle, as a function that reconstructs rows."""
    network = MLPRegressor(hidden_layer_sizes=(16, 2, 16), activation="tanh", max_iter=3000, random_state=0)
    return network.fit(rows, rows).predict


def torch_autoencoder(rows):
    """The same network in torch."""
    import torch

    torch.manual_seed(0)
    layers = [torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2), torch.nn.Tanh()]
    layers += [torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 6)]
    network = torch.nn.Sequential(*layers)
    target = torch.as_tensor(rows, dtype=torch.float32)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(500):
        optimiser.zero_grad()
        torch.nn.functional.mse_loss(network(target), target).backward()
        optimiser.step()
    return network.eval()  # culpa calls torch modules itself


def compare(name, reconstruct, normal, faulty, culprits):
    """Print how often the faulty sensor comes first, by Shapley values and by squared errors."""
    explainer = Explainer(reconstruct=reconstruct, normal=normal)
    why = explainer.explain(faulty)
    error = np.linalg.norm(why.std_error) / np.linalg.norm(why.values)
    print(f"{name}: {explainer.chosen}, relative standard error {error:.1%}")
    errors = np.column_stack(
        [Explainer(reconstruct=reconstruct, normal=normal, features=[sensor]).score(faulty) for sensor in range(6)]
    )
    for how, values in (("Shapley value", why.values), ("squared error", errors)):
        hits = (values.argmax(axis=1) == culprits).mean()
        print(f"  largest {how} at the faulty sensor: {hits:.0%} of {len(faulty)} rows")


rng = np.random.default_rng(0)
normal, faulty = measure(600, rng), measure(N_FAULTS, rng)
culprits = np.where(np.arange(N_FAULTS) % 2, 0, 3)
faulty[np.arange(N_FAULTS), culprits] += rng.choice([-2.5, 2.5], size=N_FAULTS)

compare("MLPRegressor", mlp_autoencoder(normal), normal, faulty, culprits)
try:
    network = torch_autoencoder(normal)
except ImportError:
    print("torch: pip install torch to see the same with a torch module")
else:
    compare("torch", network, normal, faulty, culprits)
