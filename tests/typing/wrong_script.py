"""A user's script with a mistake in every line that has a comment: the error code that a type checker must report."""

import polars as pl

import culpa
from culpa import Explainer, PCADetector

detector = PCADetector(statistic="sp")  # arg-type
detector = PCADetector(statstic="spe")  # call-arg
detector = PCADetector(limit="conformal ")  # arg-type
X = [[0.0, 1.0]]
why = detector.explain(X, gmae="x")  # call-arg
why = detector.explain(X, game="x")  # arg-type
why = detector.explain(X, n_orders="many")  # arg-type
why.plot.waterfal(0)  # attr-defined
why.plot.control_chart(X)  # attr-defined
why.plot.waterfall(0, max_feature=3)  # call-arg
detector.plot.heatmap()  # attr-defined
explainer = detector.explainer(budget=5)  # call-arg
explainer = Explainer(detector, ranking="shaply")  # arg-type
incidents = detector.incidents(X, score="t2")  # call-arg
incidents.to_table()  # attr-defined
report = detector.report(X, titel="Line 3")  # call-arg
report.safe("report.html")  # attr-defined
why.top(3) + 1  # operator
detector.contributions(X, "rcb")  # arg-type
culpa.calibrate(X, kinds=["stuk"])  # list-item
culpa.calibrat(X)  # attr-defined
detector.explain(pl.DataFrame(X)).top(1).iloc[0]  # attr-defined
pl.DataFrame(X).hstack(detector.statistics(X))  # arg-type
