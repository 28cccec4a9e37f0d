"""A plant with three operating modes: faults that one PCA misses, found by a model of each mode.

python examples/modes.py docs/figures    # folder for the picture, ./plots by default
"""

import sys
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from culpa import PCADetector
from culpa.datasets import make_modes_plant

matplotlib.use("Agg")

plant = make_modes_plant()
names = list(plant.feature_names)
normal, new = (pd.DataFrame(rows, columns=names) for rows in (plant.normal, plant.new))
faulty = plant.culprits.any(axis=1)

detectors = {
    "one model": PCADetector(noun="sensor").fit(normal),
    "modes": PCADetector(modes="auto", noun="sensor").fit(normal),
}
print(f"{'fault':22}{'size':>6}   rows found and blamed on the faulty sensor")
for fault in plant.faults:
    rows = new.iloc[fault.start : fault.stop]
    line = f"{fault.feature:22}{fault.size:>6g}"
    for name, detector in detectors.items():
        right = (detector.predict(rows) == -1) & (detector.explain(rows).top(1)["feature"] == fault.feature).to_numpy()
        line += f"   {name}: {right.sum():2} of {len(rows)}"
    print(line)
for name, detector in detectors.items():
    print(f"false alarms of {name}: {(detector.predict(new[~faulty]) == -1).sum()} of {(~faulty).sum()} rows")

print(f"\n{detectors['modes'].incidents(new, gap=3, min_length=5)}")

figure = plt.figure(figsize=(10, 4.2), layout="constrained")
grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.4))
scatter = figure.add_subplot(grid[:, 0])
modes = detectors["modes"].operating_modes(normal)
for mode, colour in zip(range(1, modes.max() + 1), ("#4c72b0", "#55a868", "#8172b3"), strict=False):
    own = normal[modes == mode]
    scatter.scatter(own["power"], own["temperature_reactor"], s=3, color=colour, alpha=0.3, label=f"mode {mode}")
first = plant.faults[0]
rows = new.iloc[first.start : first.stop]
scatter.scatter(rows["power"], rows["temperature_reactor"], s=14, color="#c44e52", marker="x", label="first fault")
scatter.set(xlabel="power", ylabel="temperature_reactor", title="Three modes, three correlations")
for handle in scatter.legend(fontsize=8, markerscale=1.5).legend_handles:
    handle.set_alpha(1)
for place, (name, detector) in enumerate(detectors.items()):
    chart = figure.add_subplot(grid[place, 1])
    score = -detector.score_samples(new) / detector.limit_
    for fault in plant.faults:
        chart.axvspan(fault.start, fault.stop, color="#c44e52", alpha=0.15, linewidth=0)
    chart.semilogy(np.maximum(score, 1e-2), linewidth=0.8, color="#333333")
    chart.axhline(1, color="#c44e52", linewidth=1)
    chart.set(title=f"{name}: score / limit", xlim=(0, len(new)))
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "plots")
folder.mkdir(parents=True, exist_ok=True)
figure.savefig(folder / "modes.png", dpi=90, metadata={"Software": None})
