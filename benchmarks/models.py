"""What other distributions cost: fitting and explaining with Student-t models and copulas, beside PPCA."""

from typing import Any

import numpy as np

from benchmarks.timing import once
from culpa import PCADetector
from culpa._core.choices import MODEL_NAMES

_ROWS = 100
_REPEAT = 3


def model_costs(quick: bool = False) -> list[dict[str, Any]]:
    """One line per model and number of features; the shortest times."""
    return [_line(model, d) for d in ((8, 12, 16) if quick else (8, 12, 16, 20)) for model in MODEL_NAMES]


def _line(model: str, d: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    W = rng.normal(size=(d // 3, d))
    train, new = (rng.normal(size=(n, d // 3)) @ W + 0.5 * rng.normal(size=(n, d)) for n in (2000, _ROWS))
    n_components = d // 3
    fit = min(once(lambda: PCADetector(n_components, model=model).fit(train))[0] for _ in range(_REPEAT))
    detector = PCADetector(n_components, model=model).fit(train)
    explainer = detector.explainer()
    rows = detector.fitted.rows(new)
    walk = min(once(lambda: explainer._one_pass.values_of_scored(rows))[0] for _ in range(_REPEAT))
    compile_, _ = once(explainer.compile)
    compiled = min(once(lambda: explainer._one_pass.values_of_scored(rows))[0] for _ in range(_REPEAT))
    return {
        "model": model,
        "features": d,
        "fit with limit, s": fit,
        "exact, us a row": 1e6 * walk / _ROWS,
        "ns a row and coalition": 1e9 * walk / _ROWS / 2.0**d,
        "compile, s": compile_,
        "compiled, us a row": 1e6 * compiled / _ROWS,
    }
