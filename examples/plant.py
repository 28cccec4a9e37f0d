"""A plant with faults of known kind and sensor: what a detector sees, and whom culpa blames.

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

for fault in plant.faults:
    rows = new.iloc[fault.start : fault.stop]
    flagged = rows[detector.predict(rows) == -1]
    line = f"{fault.kind:17} of {fault.feature:20} {len(flagged):3} of {len(rows):3} rows flagged"
    if len(flagged):
        why = detector.explain(flagged)
        blame = pd.Series(why.values.mean(axis=0), index=names).sort_values(ascending=False)
        raw = pd.Series(((detector.residuals(flagged) / detector.scale_) ** 2).mean(axis=0), index=names)
        line += f"; most blamed: {blame.index[0]}, largest raw error: {raw.idxmax()}"
    print(line)

at_once = np.flatnonzero(plant.culprits.sum(axis=1) > 1)
print(f"\nrows {at_once[0]} to {at_once[-1]} have several faults at once; the first of them:")
print(detector.explain(new.iloc[at_once[:1]]).top(4).to_string(index=False))
