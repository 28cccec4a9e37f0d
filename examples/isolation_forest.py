"""Explain an isolation forest, which says that a row is abnormal, but not which sensor.

Eight sensors measure two quantities. One sensor of each new row is wrong. Its reading is inside its own range, and does
not fit the other sensors.

python examples/isolation_forest.py
"""

import numpy as np
import pandas as pd
from sklearn.ensemble import IsolationForest

from culpa import Explainer

SENSORS = ["heater", "inlet", "wall", "outlet", "pump", "valve", "feed", "drain"]
LOADINGS = np.array([[1.0, 0.9, 0.8, 0.7, 0.0, 0.0, 0.0, 0.3], [0.0, 0.3, 0.0, 0.4, 1.0, 0.9, 0.8, 0.7]])
N_FAULTS = 48


def measure(n, rng):
    """Rows of eight sensors."""
    return pd.DataFrame(rng.normal(size=(n, 2)) @ LOADINGS + 0.25 * rng.normal(size=(n, 8)), columns=SENSORS)


rng = np.random.default_rng(2)
normal, faulty = measure(600, rng), measure(N_FAULTS, rng)
culprits = np.arange(N_FAULTS) % 8
for row, column in enumerate(culprits):
    faulty.iloc[row, column] += rng.choice([-2.0, 2.0])

forest = IsolationForest(random_state=0).fit(normal)
explainer = Explainer(forest, normal=normal)
why = explainer.explain(faulty)
print(explainer.chosen)
print(why[:2].top(2).round(3).to_string(index=False))


hits = (why.values.argmax(axis=1) == culprits).mean()
print(f"largest Shapley value at the faulty sensor: {hits:.0%} of {N_FAULTS} rows")

# the model of normal rows ranks features, too; the forest then only says which rows are abnormal
odds = Explainer(forest, normal=normal, ranking="fault-odds", n_orders=16).explain(faulty)
hits = (odds.suspicion.argmax(axis=1) == culprits).mean()
print(f"highest fault odds at the faulty sensor: {hits:.0%} of {N_FAULTS} rows")
