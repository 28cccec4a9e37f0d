"""PCADetector(robust="cells"): from dirty training rows to a model, limits and a list of the dirty cells."""

import numpy as np
import pandas as pd
import pytest

from culpa import PCADetector, load
from culpa.detecting.pieces import fit_moments
from culpa.models import Moments


def plant(n=400, d=12, p=3, seed=0):
    rng = np.random.default_rng(seed)
    W = np.random.default_rng(99).normal(size=(p, d))
    return rng.normal(size=(n, p)) @ W + 0.4 * rng.normal(size=(n, d)) + 10


def dirtied(X, share=0.1, seed=1):
    rng = np.random.default_rng(seed)
    wrong = rng.random(X.shape) < share
    return np.where(wrong, X + 6 * X.std(axis=0) * rng.choice([-1, 1], X.shape), X), wrong


def subspace(detector):
    return np.linalg.qr(detector.scale_[:, None] * detector.model_.components_.T)[0]


def distance(a, b):
    return np.linalg.norm(subspace(a) @ subspace(a).T - subspace(b) @ subspace(b).T) / np.sqrt(2)


@pytest.mark.parametrize("n_components", [3, 0.85])
def test_the_model_is_nearly_that_of_clean_rows(n_components):
    clean = PCADetector(3).fit(plant())
    X, _ = dirtied(plant())
    robust = PCADetector(n_components, robust="cells").fit(X)
    assert robust.model_.n_components_ == 3
    assert distance(robust, clean) < 0.5 * distance(PCADetector(3).fit(X), clean)
    assert distance(robust, clean) < 0.5 * distance(PCADetector(3, trim=0.4).fit(X), clean)
    np.testing.assert_allclose(robust.scale_, clean.scale_, rtol=0.1)
    assert robust.limit_ == pytest.approx(clean.limit_, rel=0.15)
    new = plant(5000, seed=7)
    assert (robust.predict(new) == -1).mean() < 0.03


def test_suspicious_cells_are_listed():
    table = pd.DataFrame(plant(), columns=[f"s{i}" for i in range(12)], index=[f"t{i}" for i in range(400)])
    table.loc["t17", "s4"] += 40
    table.loc["t30", "s2"] -= 20
    detector = PCADetector(3, robust="cells").fit(table)
    cells = detector.suspicious_cells_
    assert list(cells) == ["row", "position", "feature", "value", "expected", "residual"]
    assert cells[["row", "position", "feature"]].to_numpy().tolist()[:2] == [["t17", 17, "s4"], ["t30", 30, "s2"]]
    assert cells["value"][0] == table.loc["t17", "s4"]
    assert cells["expected"][0] == pytest.approx(cells["value"][0] - 40, abs=2)
    assert cells["residual"][0] > 10 > -10 > cells["residual"][1]
    assert np.all(np.diff(cells["residual"].abs()) <= 0)
    assert len(cells) < 20
    assert PCADetector(3).fit(table).suspicious_cells_ is None


def test_missing_cells_constant_columns_and_trimming_go_together():
    X, wrong = dirtied(plant())
    X[:, 3] = 5.0
    X[::7, 1] = np.nan
    X[40:48] += 25  # rows that are wrong as a whole
    detector = PCADetector(3, robust="cells", trim=0.05).fit(X)
    found = np.zeros(X.shape, dtype=bool)
    cells = detector.suspicious_cells_
    found[cells["position"], [int(name[1:]) for name in cells["feature"]]] = True
    judged = wrong & ~np.isnan(X)
    judged[:, 3] = judged[40:48] = False
    assert found[judged].mean() > 0.97
    assert not found[:, 3].any()


def test_with_lags_a_suspicious_cell_is_missing_wherever_it_appears():
    X = plant()
    X[100, 2] += 40
    detector = PCADetector(6, robust="cells", lags=1).fit(X)
    cells = detector.suspicious_cells_
    assert cells["position"][0] == 100
    assert cells["feature"][0] == "x2"
    by_hand = X.copy()
    by_hand[cells["position"], [int(name[1:]) for name in cells["feature"]]] = np.nan
    again = PCADetector(6, lags=1).fit(by_hand)
    np.testing.assert_allclose(detector.model_.covariance_, again.model_.covariance_)
    assert detector.limit_ == pytest.approx(again.limit_)


@pytest.mark.parametrize(
    "more", [{}, {"lags": 1}, {"smooth": 0.3}, {"model": "copula"}, {"given": [0]}, {"modes": 2}], ids=str
)
def test_contamination_is_a_share_of_the_rows_as_given(more):
    X, _ = dirtied(plant(), 0.01)
    detector = PCADetector(3, robust="cells", contamination=0.05, **more).fit(X)
    assert (detector.predict(X) == -1).sum() == 20


def test_rows_are_needed():
    detector = PCADetector(3, robust="cells")
    with pytest.raises(ValueError, match=r"robust='cells' needs all training rows at once\. Use fit\."):
        fit_moments(detector, Moments.of(plant()))
    with pytest.raises(AttributeError) as refused:
        detector.partial_fit(plant())
    assert "robust='cells' needs all training rows at once. Use fit." in str(refused.value.__cause__)
    with pytest.raises(ValueError, match=r"unknown robust .rows.: choose one of .cells."):
        PCADetector(robust="rows").fit(plant())
    with pytest.raises(ValueError, match="8 rows are too few to find suspicious cells"):
        PCADetector(2, robust="cells").fit(plant(8))


def test_model_files_keep_the_list(tmp_path):
    X, _ = dirtied(plant(), 0.02)
    detector = PCADetector(3, robust="cells").fit(X)
    detector.save(tmp_path / "plant.culpa")
    again = load(tmp_path / "plant.culpa")
    assert again.robust == "cells"
    pd.testing.assert_frame_equal(again.suspicious_cells_, detector.suspicious_cells_, check_dtype=False)


def test_command_line(tmp_path):
    from command_line import run

    X = plant()
    X[17, 4] += 40
    pd.DataFrame(X, columns=[f"s{i}" for i in range(12)]).to_csv(tmp_path / "rows.csv", index=False)
    done = run("fit", tmp_path / "rows.csv", "-o", tmp_path / "plant.culpa", "--components", 3, "--robust", "cells")
    assert "treated as missing, the worst: s4 in row 17 is" in " ".join(done.output.split())
    assert load(tmp_path / "plant.culpa").suspicious_cells_["feature"][0] == "s4"
