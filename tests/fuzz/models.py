"""Model files that were damaged, or changed by somebody who also knows how to make a checksum.

Damage must be refused. A forged file is refused or gives a detector that works: it answers in finite numbers, or says in
one sentence why it does not.
"""

import copy
import functools
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from forgery import forge

import culpa
from culpa import PCADetector
from culpa.io.model_file import ModelFileError
from fuzz.damage import damaged
from fuzz.finding import Finding, must

NAMES = list("abcde")
SETTINGS = (
    {},
    {"n_components": 2, "statistic": "combined", "limit": "empirical"},
    {"n_components": 2, "statistic": "t2", "limit": "formula"},
    {"n_components": 2, "statistic": "mahalanobis", "groups": {"feed": ["a", "b"]}},
    {"n_components": 2, "model": "student", "limit": "formula"},
    {"n_components": 2, "model": "copula", "limit": "formula"},
    {"n_components": 1, "modes": 2},
    {"n_components": 2, "lags": 1},
    {"n_components": 1, "given": ["e"], "smooth": 0.5},
    {"n_components": 2, "robust": "cells"},
)
VALUES = (0.0, -0.0, -1.0, 1.0, 1e-300, 1e300, -1e300, np.nan, np.inf, 1e16, 5.0)
FIELDS = (None, True, False, 0, -1, 1, 2, 3, 10**30, 0.5, -0.5, 1e308, "", "x", "spe", [], [1], ["a"], {}, {"a": 1})


def rows(n, seed):
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(0).normal(size=(2, 5))
    X = rng.normal(size=(n, 2)) @ mixing + 0.3 * rng.normal(size=(n, 5)) + 5
    return pd.DataFrame(X, columns=NAMES)


@functools.cache
def originals():
    """Bytes of a model file for each of the settings."""
    contents = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for settings in SETTINGS:
            normal = rows(80, 1)
            if "modes" in settings:
                normal[40:] += [8, -5, 3, 9, 1]
            detector = PCADetector(**settings).fit(normal)
            if settings.get("model") != "copula" and "modes" not in settings and "given" not in settings:
                detector.explainer().compile()
            detector.save(Path(folder, "m"))
            contents.append(Path(folder, "m").read_bytes())
    return contents


def try_model(rng, folder):
    """One random model file; returns what became of it."""
    which = int(rng.integers(len(SETTINGS)))
    original, path = originals()[which], folder / "m.culpa"
    forged = rng.random() < 0.7
    path.write_bytes(original if forged else damaged(original, rng))
    if forged:
        forge(path, lambda arrays, header: tamper(arrays, header, rng))
    elif path.read_bytes() == original:
        return "unchanged"
    try:
        detector = culpa.load(path)
    except ModelFileError as error:
        must(str(error).startswith(str(path)) and "\n" not in str(error), f"an odd message: {error}")
        return "refused"
    must(forged, "a damaged file was loaded")
    return use(detector, folder)


def tamper(arrays, header, rng):
    for _ in range(rng.choice([1, 1, 2, 3])):
        if rng.random() < 0.6:
            change_array(arrays, rng)
        else:
            change_field(header, rng)


def change_array(arrays, rng):
    name = sorted(arrays)[rng.integers(len(arrays))]
    array = arrays[name].copy()
    how = rng.integers(8)
    if how < 4 and array.size:
        value = VALUES[rng.integers(len(VALUES))]
        if array.dtype.kind == "i":
            value = int(value) if abs(value) < 1e18 else 10**18  # NaN compares as False, too
        array.flat[rng.integers(array.size)] = value
    elif how == 4:
        array = array * (2 if array.dtype.kind == "i" else rng.choice([-1.0, 0.0, 1e-8, 3.0, 1e200, 1e-200]))
    elif how == 5:
        array = array.T.copy() if array.ndim > 1 else array[::-1].copy()
    elif how == 6:
        array = array[: int(rng.integers(len(array) + 1))] if array.ndim else array
    else:
        array = rng.normal(size=array.shape) if array.dtype.kind == "f" else array
    arrays[name] = np.ascontiguousarray(array)
    if rng.random() < 0.05:
        del arrays[name]


def change_field(header, rng):
    """Change a random field at a random depth."""
    at, key = header, None
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            break
        key = keys[rng.integers(len(keys))]
        if isinstance(at[key], (dict, list)) and at[key] and rng.random() < 0.8:
            at = at[key]
        else:
            break
    how = rng.integers(10)
    if how == 0 and key is not None:
        del at[key]
    elif how == 1 and isinstance(at, dict):
        at["odd"] = copy.deepcopy(FIELDS[rng.integers(len(FIELDS))])
    elif key is not None:
        value = at[key]
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        at[key] = -value if is_number and how < 4 else copy.deepcopy(FIELDS[rng.integers(len(FIELDS))])


def use(detector, folder):
    """Everything that people do with a detector."""
    names = detector.fitted.columns.known_inputs or NAMES
    new = rows(12, 2)
    if len(names) != 5:
        return "loaded with other features"
    new.columns = list(names)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answers(detector, new)
            detector.save(folder / "again.culpa")
            culpa.load(folder / "again.culpa")
        except ModelFileError as error:
            raise Finding(f"a loaded model cannot be saved and loaded again: {error}") from None
        except ValueError as error:
            must("\n" not in str(error), f"an odd message: {error}")
            return f"error in use: {str(error)[:60]}"
    return "loaded"


def answers(detector, new):
    lags = detector.fitted.settings.lags
    scores = detector.score_samples(new)
    must(np.isfinite(scores[lags:]).all(), "a score is not finite")
    must(np.isin(detector.predict(new), (-1, 1)).all(), "a prediction is neither -1 nor 1")
    must(np.isfinite(detector.control_limits().select_dtypes("number").to_numpy()).all(), "a limit is not finite")
    why = detector.explain(new[:4])
    must(np.isfinite(why.values[lags:]).all(), "a Shapley value is not finite")
    total, score = (why.values.sum(axis=1) + why.base_value)[lags:], why.score[lags:]
    must(
        np.allclose(total, score, rtol=1e-4, atol=1e-6 * np.abs(why.values).max()), "values do not add up to the score"
    )
    must(len(why.top(2)) > 0, "nothing is blamed")
    detector.statistics(new)
    detector.incidents(new)
    repr(detector)
