"""progress=True: a bar on standard error."""

import pickle

import numpy as np

from culpa import Explainer, PCADetector
from culpa._core import progress
from culpa._core.progress import ProgressBar, as_progress


def test_bar(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS", 0.0)
    draw = ProgressBar()
    draw(0.5, 0.01)
    draw(1.0, "spe")
    draw(0.25)
    lines = capsys.readouterr().err.split("\r")
    assert lines[1].rstrip() == f"[{'#' * 15}{' ' * 15}]  50%, 0 s, error 1.00%"
    assert lines[2].rstrip(" ").rstrip() == f"[{'#' * 30}] 100%, 0 s, spe"
    assert lines[2].endswith("\n")
    assert lines[3].startswith("[########  ")


def test_it_can_be_taken_away(capsys):
    draw = ProgressBar()
    draw.clear()
    draw(0.5)
    draw.clear()
    lines = capsys.readouterr().err.split("\r")
    assert lines[0] == lines[3] == ""
    assert lines[2] == " " * len(lines[1])


def test_it_is_drawn_only_so_often(capsys):
    draw = ProgressBar()
    for done in range(1000):
        draw((done + 1) / 1000)
    assert capsys.readouterr().err.count("\r") < 20


def test_explaining(capsys):
    X = np.random.default_rng(0).normal(size=(50, 12))
    detector = PCADetector(2).fit(X)
    plain = detector.explain(X, method="permutation", n_orders=240)
    assert not capsys.readouterr().err
    shown = detector.explain(X, method="permutation", n_orders=240, progress=True)
    assert "100%" in capsys.readouterr().err
    np.testing.assert_array_equal(shown.values, plain.values)
    quiet = Explainer(detector, progress=False)
    assert quiet.progress is None
    assert pickle.loads(pickle.dumps(Explainer(detector, progress=True))).progress is not None


def test_what_it_may_be():
    seen = []
    assert as_progress(None) is None
    as_progress(lambda share, error: seen.append(share))(0.5, None)
    assert seen == [0.5]
