"""Draw every plot of docs/plots.md for the simulated plant.

python examples/plots.py docs/plots    # folder to write to, ./plots by default
"""

import sys
from pathlib import Path

import matplotlib
import pandas as pd

from culpa import PCADetector
from culpa.datasets import make_plant

matplotlib.use("Agg")

plant = make_plant()
names = list(plant.feature_names)
times = pd.date_range("2024-03-01", periods=len(plant.new), freq="10min")
normal = pd.DataFrame(plant.normal, columns=names)
new = pd.DataFrame(plant.new, columns=names, index=times)

detector = PCADetector(n_components=3).fit(normal)
why = detector.explain(new)

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "plots")
folder.mkdir(parents=True, exist_ok=True)
for name, axes in {
    "waterfall": why.plot.waterfall(60, limit=detector.limit_),
    "bar": why[310:340].plot.bar(max_features=6),
    "heatmap": why.plot.heatmap(),
    "scatter": why.plot.scatter(60, normal=normal),
    "control_chart": detector.plot.control_chart(new, incidents=detector.incidents(new, gap=3))[0],
    "distance": detector.plot.distance(new),
    "loadings": detector.plot.loadings(),
    "components": PCADetector().fit(normal).plot.components(),
}.items():
    axes.figure.savefig(folder / f"{name}.png", dpi=72, metadata={"Software": None})
    print(f"wrote {folder / name}.png")
