"""Draw the picture of the README: a sensor that drifts leaves what the others imply before it leaves its own range.

python examples/leaving.py leaving.png
"""

import sys

import matplotlib
import numpy as np
import pandas as pd

from culpa import PCADetector
from culpa.datasets import Fault, make_plant

matplotlib.use("Agg")
import matplotlib.pyplot as plt

plant = make_plant(n_new=150, faults=[Fault("drift", "temperature_bottom", 60, 150, 3.0)], seed=4)
names, sensor = list(plant.feature_names), "temperature_bottom"
normal = pd.DataFrame(plant.normal, columns=names)
new = pd.DataFrame(plant.new, columns=names, index=pd.date_range("2026-03-02 08:00", periods=150, freq="2min"))

detector = PCADetector().fit(normal)
expected = detector.explain(new).expected[:, names.index(sensor)]
error = normal[sensor] - detector.explain(normal).expected[:, names.index(sensor)]
low, high = normal[sensor].min(), normal[sensor].max()
incidents = detector.incidents(new)
first = next(one.start for one in incidents if sensor in [culprit.feature for culprit in one.culprits])
outside = new.index[np.flatnonzero(new[sensor] > high)[0]]

figure, axes = plt.subplots(figsize=(8.4, 3.5), layout="constrained")
axes.axhspan(low, high, color="0.93", label="its range in normal operation")
axes.fill_between(new.index, expected - 2 * error.std(), expected + 2 * error.std(), color="#0072b2", alpha=0.3, lw=0)
axes.plot(new.index, expected, color="#0072b2", lw=1.3, label="what the other 11 sensors imply, ±2 sd")
axes.plot(new.index, new[sensor], color="#d55e00", lw=1.3, label=f"{sensor} reads")
for when, text in (
    (first, f"{first:%H:%M} culpa names\n{sensor}"),
    (outside, f"{outside:%H:%M} the reading\nleaves its range"),
):
    axes.axvline(when, color="0.3", lw=0.9, ls="--")
    axes.annotate(text, (when, high + 7.2), (4, 0), textcoords="offset points", va="top", fontsize=9, color="0.2")
axes.set_ylim(low - 1, high + 7.5)
axes.set_xlim(new.index[0], new.index[-1])
axes.xaxis.set_major_formatter(matplotlib.dates.DateFormatter("%H:%M"))
axes.set_ylabel("°C")
axes.spines[["top", "right"]].set_visible(False)
figure.legend(loc="outside lower center", frameon=False, fontsize=9, ncols=3)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "leaving.png", dpi=160, metadata={"Software": None})
print(f"named at {first:%H:%M}, outside its own range at {outside:%H:%M}")
print(incidents)
