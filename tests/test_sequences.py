"""Detectors used in random sequences of calls, compared with fresh ones that saw only the calls that succeeded."""

import copy
import hashlib
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import culpa
from culpa import PCADetector
from culpa.detecting.pieces import fit_moments
from culpa.models import Moments

NAMES = ["a", "b", "c", "d", "e"]
SETTINGS = [
    {},
    {"n_components": 2},
    {"n_components": 0.8, "confidence": 0.9},
    {"n_components": "mle"},
    {"lags": 1},
    {"smooth": 0.3},
    {"given": ["a"]},
    {"groups": {"g": ["b", "c"]}},
    {"statistic": "combined", "noise": 2.0},
    {"limit": "formula"},
    {"modes": 2},
    {"model": "student"},
    {"trim": 0.05},
]
CHANGES = [
    {"n_components": 1},
    {"n_components": "auto"},
    {"confidence": 0.95},
    {"lags": 0},
    {"groups": {"h": ["d", "e"]}},
    {"groups": None},
    {"noun": "tag"},
    {"noise": 1.5},
]


def table(rng, n, *, named, fault=20):
    X = rng.normal(size=(n, 2)) @ np.random.default_rng(7).normal(size=(2, 5)) + 0.4 * rng.normal(size=(n, 5))
    X[n // 2, rng.integers(5)] += fault
    return pd.DataFrame(X, columns=NAMES) if named else X


def digest(X):
    return hashlib.sha256(np.ascontiguousarray(X).tobytes()).hexdigest()


def applied(detector, call, folder):
    """A call that changes a detector; the detector to go on with."""
    name, *arguments = call
    if name == "reload":
        detector.save(folder / "m.culpa")
        return culpa.load(folder / "m.culpa")
    if name == "units":
        detector.units_ = arguments[0]
        return detector
    options = copy.deepcopy(arguments[-1]) if name == "set_params" else {}
    return getattr(detector, name)(**options) if options else getattr(detector, name)(*arguments)


def answers(detector, new):
    """Whatever can be compared; an error is an answer, too."""
    if not hasattr(detector, "model_"):
        return [sorted(set(vars(detector)) - set(detector.get_params()))]
    found = [detector.limit_, detector.mean_, detector.model_.n_components_, detector.model_.n_samples_]
    for ask in (
        lambda: detector.score_samples(new),
        lambda: detector.decision_function(new),
        lambda: detector.explain(new, rows=slice(0, 6)).values,
        lambda: detector.explain(new, rows=slice(0, 6), score="t2").values,
        lambda: detector.control_limits()["limit"].to_numpy(),
        lambda: [str(detector.units_), str(detector.fitted.settings)],
    ):
        try:
            found.append(ask())
        except ValueError as error:
            found.append(str(error))
    return found


def check_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if isinstance(one, (str, list)) or isinstance(other, str):
            assert one == other
        else:
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


def duplicated(detector, rng):
    how = (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)))
    return how[rng.integers(3)](detector)


def next_call(rng, tables):
    X = tables[rng.integers(len(tables))]
    weights = rng.integers(0, 3, len(X))
    bad = np.full((9, 5), np.inf)
    few = X[:4]
    calls = [("fit", X), ("fit", X, None, weights), ("partial_fit", X), ("partial_fit", X), ("calibrate_limit", X)]
    calls += [("fit", bad), ("partial_fit", bad), ("partial_fit", X[:, :3] if isinstance(X, np.ndarray) else X[["a"]])]
    calls += [("calibrate_limit", few), ("fit", X, None, weights[:3]), ("units", {"nobody": "K"}), ("reload",)]
    calls += [("set_params", CHANGES[rng.integers(len(CHANGES))]), ("set_params", CHANGES[rng.integers(len(CHANGES))])]
    return calls[rng.integers(len(calls))]


@pytest.mark.parametrize("seed", range(24))
def test_a_detector_is_what_its_calls_made_of_it(seed, tmp_path):
    rng = np.random.default_rng(seed)
    named = bool(rng.random() < 0.5)
    settings = SETTINGS[seed % len(SETTINGS)]
    if not named:
        settings = {key: value for key, value in settings.items() if key not in ("given", "groups")}
    tables = [table(rng, int(rng.integers(60, 160)), named=named) for _ in range(3)]
    new, digests = table(rng, 12, named=named), [digest(X) for X in tables]
    detector, log, left = PCADetector(**copy.deepcopy(settings)), [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(9):
            call, before = next_call(rng, tables), answers(detector, new)
            parameters = detector.get_params()
            try:
                detector = applied(detector, call, tmp_path)
                log.append(call)
            except (ValueError, AttributeError):  # refused, or a way to learn that these parameters do not have
                check_same(answers(detector, new), before)
                assert detector.get_params() == parameters
            if rng.random() < 0.3:
                left.append((detector, answers(detector, new)))
                detector = duplicated(detector, rng)
        fresh = PCADetector(**copy.deepcopy(settings))
        for call in log:
            fresh = applied(fresh, call, tmp_path)
        check_same(answers(detector, new), answers(fresh, new))
        for other, first in left:  # the original does not learn what its copy learns
            check_same(answers(other, new), first)
    assert [digest(X) for X in tables] == digests


@pytest.mark.parametrize("options", [*SETTINGS[:5], {"given": [0]}, {"groups": {"g": [1, 2]}}, *SETTINGS[8:10]])
def test_rows_in_reused_memory_and_settings_in_reused_lists(options):
    """Everything that was handed over is overwritten afterwards."""
    rng = np.random.default_rng(0)
    parts, new = [table(rng, 50, named=False) for _ in range(4)], table(rng, 12, named=False)
    mine, theirs = PCADetector(**copy.deepcopy(options)), copy.deepcopy(options)
    other, buffer = PCADetector(**theirs), np.empty((50, 5))
    for part in parts:
        buffer[:] = part
        mine.partial_fit(part)
        other.partial_fit(buffer)
    buffer[:] = 1e6
    asked = {"k": [3]}
    for detector, groups in ((mine, {"k": [3]}), (other, asked)):
        detector.explain(new, groups=groups)
    asked["k"].append(4)
    theirs.get("given", []).append(4)
    for ask in ("score_samples", "explain"):
        one, two = (getattr(each, ask)(new) for each in (mine, other))
        np.testing.assert_allclose(getattr(one, "values", one), getattr(two, "values", two))
    assert mine.limit_ == pytest.approx(other.limit_)
    assert mine.fitted.settings == other.fitted.settings
    one, two = (each.explain(new, groups={"k": [3]}).values for each in (mine, other))
    np.testing.assert_allclose(one, two)


@pytest.mark.parametrize("seed", range(12))
def test_updates_are_a_fit_on_all_rows(seed, tmp_path):
    """Whatever was set in between: the update has the settings of now on all rows, or it is refused."""
    rng = np.random.default_rng(seed)
    options = ({}, {"n_components": 1}, {"n_components": 0.7}, {"statistic": "combined"})[seed % 4]
    rows = [table(rng, 90, named=False, fault=0)]
    detector = PCADetector(**options)
    detector = detector.fit(rows[0]) if seed % 2 else fit_moments(detector, Moments.of(rows[0]))
    for _ in range(4):
        before = detector.get_params()
        if rng.random() < 0.6:
            detector.set_params(**CHANGES[rng.integers(4)])
        if rng.random() < 0.3:
            detector = applied(detector, ("reload",), tmp_path)
        X = table(rng, 60, named=False, fault=0)
        try:
            detector.partial_fit(X)
        except ValueError:
            detector.set_params(**before)
            continue
        rows.append(X)
        whole = PCADetector(**detector.get_params()).fit(np.concatenate(rows))
        np.testing.assert_allclose(detector.mean_, whole.mean_)
        if detector.n_components != "auto":
            assert detector.model_.n_components_ == whole.model_.n_components_
            assert 0.5 < detector.limit_ / whole.limit_ < 2
