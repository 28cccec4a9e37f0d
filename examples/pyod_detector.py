"""Explain detectors of PyOD: one exactly, and one by sampling.

python examples/pyod_detector.py
"""

import numpy as np

from culpa import Explainer

try:
    from pyod.models.knn import KNN
    from pyod.models.mcd import MCD
except ImportError:
    print("skipped: pip install pyod")
    raise SystemExit from None

rng = np.random.default_rng(0)
normal = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(400, 5))
faulty = normal[:5].copy()
faulty[np.arange(5), np.arange(5)] += 3  # sensor k of row k is wrong

mcd = MCD(random_state=0).fit(normal)
exact = Explainer(mcd).explain(faulty)  # its score is a squared Mahalanobis distance, so values are exact
difference = abs(exact.values.sum(axis=1) + exact.base_value - mcd.decision_function(faulty)).max()
print(f"MCD: {exact.top(1)['feature'].tolist()}, values add up to its score within {difference:.0e}")

knn = KNN().fit(normal)
explainer = Explainer(knn, normal=normal)
sampled = explainer.explain(faulty)
print(f"KNN: {sampled.top(1)['feature'].tolist()}, {explainer.chosen}")
