"""A user's script that a strict type checker must accept."""

import numpy as np
import polars as pl

import culpa
from culpa import PPCA, Explainer, Explanation, Lags, LatentGaussian, PCADetector
from culpa.calibration import Setting, inject
from culpa.monitoring import Incidents
from culpa.report import Report

normal = np.random.default_rng(0).normal(size=(100, 4))
new = normal[:10] + 3

detector = PCADetector(0.9, statistic="t2", limit="conformal", confidence=0.95, noun="sensor").fit(normal)
detector = culpa.calibrate(normal, detector, kinds=["stuck"], at_once=[1], chosen=[Setting(2, 1.0, 0.0, "spe")])
why: Explanation = detector.explain(new, statistic="spe", game="interventional", groups={"both": ["x0", 1]})
explainer: Explainer = detector.explainer(method="permutation", n_orders=100, random_state=1)
why = Explainer(PPCA(2).fit(normal), "mse", ranking="fault-odds", retraining_rank="share").explain(new, rows=[0])

table = why.top(3)
n_lines: int = len(table)
first: str = table["feature"][0]
table.to_csv("top.csv")
flags = detector.statistics(new)["anomaly"]
limits = detector.control_limits(0.99)
n_rows, n_columns = why.to_frame().shape

# the answer is a table of the kind that was given
frame = pl.DataFrame(new)
tables: list[pl.DataFrame] = [detector.statistics(frame), detector.residuals(frame), detector.reconstruct(frame)]
tables += [detector.explain(frame).top(1), explainer(frame)[:2].to_frame(), detector.incidents(frame).to_frame()]
tables += [detector.drift(frame).to_frame(), detector.compare(frame, frame).to_frame()]
proline: float = why[0, "x0"] + why.base_values[0]

incidents: Incidents = detector.incidents(new, gap="5min", min_length=2, n_jobs=1)
sentence: str = incidents[0].sentence
report: Report = detector.report(new, title="Line 3", gap=2, seed=1)
report.save("report.html")

why.plot.waterfall(0, max_features=5).set_title("row 0")
why.plot.scatter(feature="x0", normal=normal)
detector.plot.control_chart(new, confidences=[0.99])[0].set_ylim(0, 1)
detector.plot.loadings(n_components=2)

detector.save("plant.culpa")
again: PCADetector = culpa.load("plant.culpa")
model: type[LatentGaussian] = LatentGaussian
lagged = Lags(2)
trials = inject(new, normal, kinds=["bias 3 sd"])
version: str = culpa.__version__
