"""What every public call does first: NumPy's treatment of underflow, and one state of the object from start to end."""

import inspect
import threading
import warnings

import numpy as np
import pytest

import culpa
from culpa import MixturePPCA, PCADetector, StudentPPCA
from culpa.fitted import FittedDetector

CLASSES = [
    *(one for one in (getattr(culpa, name) for name in culpa.__all__) if inspect.isclass(one)),
    FittedDetector,
]
PLAIN = {culpa.FitWarning, culpa.Lags}  # which do not calculate
RESULTS = "Calibration Comparison Counterfactual Drift Incidents Interactions JointFix Report Shortest"
PLAIN |= {getattr(culpa, name) for name in RESULTS.split()}  # what entrances have calculated


def plant(n=300, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(n, 2)) @ np.random.default_rng(42).normal(size=(2, 6)) + 0.4 * rng.normal(size=(n, 6)) + shift
    )


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if cls not in PLAIN], ids=lambda cls: cls.__name__)
def test_every_public_method_is_an_entrance(cls):
    own = [one for one in cls.__mro__ if one.__module__.startswith("culpa.")]
    methods = {name: method for one in reversed(own) for name, method in vars(one).items() if not name.startswith("_")}
    functions = {name: getattr(method, "__func__", method) for name, method in methods.items()}
    open_ones = [name for name, one in functions.items() if inspect.isfunction(one) and not hasattr(one, "__wrapped__")]
    assert [name for name in open_ones if not isinstance(inspect.getattr_static(cls, name), staticmethod)] == []


@pytest.mark.parametrize(
    "call",
    [
        lambda X: PCADetector(modes=2).fit(X).predict(1e3 * X),
        lambda X: MixturePPCA(2).fit(X).score_samples(1e3 * X),
        lambda X: StudentPPCA(2).fit(X).score_samples(1e3 * X),
        lambda X: PCADetector(modes=2).fit(X).plot.control_chart(X[:5])[0].get_ylabel() == "",
        lambda X: culpa.Explainer(MixturePPCA(2).fit(X), "nll").explain(X[::100]).top(2)["value"].to_numpy(),
    ],
)
def test_a_caller_who_wants_errors_of_arithmetic_gets_none_of_ours(call):
    X = np.concatenate([plant(), plant(seed=1, shift=30.0)])
    expected = call(X)
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(call(X), expected)


def test_a_picture_is_of_one_fit(monkeypatch):
    """Another thread refits between reading the rows and scoring them."""
    detector, new, read = PCADetector(scale=False).fit(plant()), plant(40, 2), PCADetector._read
    expected = detector.plot.control_chart(new)[0].lines[0].get_ydata()

    def interrupted(self, X, min_rows=1):
        table = read(self, X, min_rows)
        thread = threading.Thread(target=detector.fit, args=(1e4 * plant(100, 1),))
        thread.start()
        thread.join()
        return table

    monkeypatch.setattr(PCADetector, "_read", interrupted)
    np.testing.assert_array_equal(detector.plot.control_chart(new)[0].lines[0].get_ydata(), expected)
    assert detector.model_.n_samples_ == 100


CALLS = {
    "predict": lambda detector, new: detector.predict(new),
    "statistics": lambda detector, new: detector.statistics(new),
    "control_limits": lambda detector, new: detector.control_limits((0.9, 0.999)),
    "explain": lambda detector, new: (lambda why: (why.top(2), why.to_frame(), why.shortest()))(detector.explain(new)),
    "contributions": lambda detector, new: [detector.contributions(new, name) for name in ("rbc", "propagated")],
    "fix": lambda detector, new: detector.fix(new),
    "suggested_groups": lambda detector, new: detector.suggested_groups(),
    "residuals": lambda detector, new: detector.residuals(new),
    "incidents": lambda detector, new: detector.incidents(new, gap=2),
    "report": lambda detector, new: detector.report(new).to_html(),
    "drift": lambda detector, new: detector.drift(new[:40]),
    "compare": lambda detector, new: detector.compare(plant(60, 2), new),
    "calibrate_limit": lambda detector, new: detector.calibrate_limit(plant(300, 3)),
    "partial_fit": lambda detector, new: PCADetector().fit(plant()).partial_fit(plant(60, 2)),
}


@pytest.mark.parametrize(
    "settings",
    [{}, {"modes": 2}, {"model": "student"}, {"model": "copula"}, {"lags": 1}, {"smooth": 0.2}, {"robust": "cells"}],
    ids=str,
)
def test_no_call_lets_errors_of_arithmetic_out(settings):
    """Far rows, lost cells and constant columns bring numbers too small for float64, and zeros."""
    normal, new = plant(), plant(60, 1)
    normal[:, 5] = new[:, 5] = 2.0
    new[20:24, 1] += 9
    new[30, 2], new[40:43, 3], new[50] = 1e8, np.nan, np.nan
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, call in CALLS.items():
            detector = PCADetector(**settings).fit(normal)
            try:
                call(detector, new)
            except ValueError:
                assert name in ("drift", "suggested_groups")
