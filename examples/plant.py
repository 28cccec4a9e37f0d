"""Explain known faults in a simulated plant: which rows are flagged, and which sensors are blamed.

python examples/plant.py
"""

import numpy as np
import pandas as pd

from culpa import PCADetector
from culpa.datasets import make_plant

plant = make_plant(seed=1)
names = list(plant.feature_names)
detector = PCADetector(n_components=3).fit(pd.DataFrame(plant.normal, columns=names))
new = pd.DataFrame(plant.new, columns=names)

several = plant.culprits.sum(axis=1) > 1
for fault in plant.faults:
    if several[fault.start]:
        continue
    rows = new.iloc[fault.start : fault.stop]
    flagged = rows[detector.predict(rows) == -1]
    blame = pd.Series(detector.explain(flagged).values.mean(axis=0), index=names).sort_values(ascending=False)
    print(
        f"{fault.kind:17} of {fault.feature:19} {len(flagged):2} of {len(rows):2} rows flagged, "
        f"most blamed: {blame.index[0]}, then {blame.index[1]} with {blame.iloc[1] / blame.iloc[0]:.0%} of its blame"
    )

first, last = np.flatnonzero(several)[[0, -1]]
print(f"\nRows {first} to {last} have faults in three sensors at once. The first of them:")
print(detector.explain(new.iloc[[first]]).top(4).to_string(index=False))
