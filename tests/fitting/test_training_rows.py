"""What every way of fitting learns about single columns is what the normal rows show."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import culpa
from culpa import PCADetector
from culpa.datasets import make_plant
from culpa.detecting.pieces import fit_moments
from culpa.detecting.piping import PipelineDetector
from culpa.fitting import training_rows
from culpa.fitting.limits import InOrder
from culpa.models.blocks import BlockMoments
from culpa.models.normal_signals import NormalSignals
from culpa.ranking.recent import Recent

ROWS = make_plant(seed=1).normal


def lagged(rows):
    return np.hstack([rows[1:], rows[:-1]])


@pytest.mark.parametrize(
    ("detector", "rows"),
    [
        (PCADetector().fit(ROWS), ROWS),
        (PCADetector(smooth=0.2).fit(ROWS), ROWS),
        (PCADetector(lags=1).fit(ROWS), ROWS[1:]),
        (PCADetector(given=[3]).fit(ROWS), ROWS),
        (PCADetector().partial_fit(ROWS), ROWS),
        (PCADetector.from_pca(PCA(3).fit(ROWS), ROWS), ROWS),
        (fit_moments(PCADetector(), BlockMoments.of(ROWS), None, np.split(ROWS, [300, 301])), ROWS),
        (fit_moments(PCADetector(lags=1), BlockMoments.of(lagged(ROWS)), None, [lagged(ROWS)]), ROWS[1:]),
    ],
)
def test_learned_from_the_cells_of_the_rows(detector, rows, tmp_path):
    expected = NormalSignals.of(rows).to_array()
    assert (detector.fitted.signals.to_array() == expected).all()
    detector.save(tmp_path / "model.culpa")
    assert (culpa.load(tmp_path / "model.culpa").fitted.signals.to_array() == expected).all()


def test_without_rows_nothing_is_known():
    assert fit_moments(PCADetector(limit="formula"), BlockMoments.of(ROWS)).fitted.signals is None


def test_updates_join():
    held = PCADetector().partial_fit(ROWS[:400]).partial_fit(ROWS[400:])
    assert (held.fitted.signals.to_array() == NormalSignals.of(ROWS).to_array()).all()
    detector = PCADetector().fit(ROWS[:400]).partial_fit(ROWS[400:])
    expected = NormalSignals.of(ROWS[:400]).then(NormalSignals.of(ROWS[400:]))
    assert (detector.fitted.signals.to_array() == expected.to_array()).all()


def test_pipelines_know_the_columns_in_their_own_units():
    rows = ROWS.round(1)
    rows[:, 2] = np.maximum(rows[:, 2], np.median(rows[:, 2]))  # rests at its minimum
    core = PipelineDetector(make_pipeline(StandardScaler(), PCADetector()).fit(rows)).fitted
    expected = NormalSignals.of(rows)
    np.testing.assert_allclose(core.signals.to_array(), expected.to_array(), rtol=1e-12)
    at = np.array([2])
    assert core.signals.rests_at(at, expected.low[at]).all()
    assert not core.signals.rests_at(at, expected.high[at]).any()


def test_damaged_counts_are_refused(tmp_path, monkeypatch):
    detector = PCADetector().fit(ROWS)
    monkeypatch.setattr(NormalSignals, "to_array", lambda self: -np.ones((7, 12)))
    with pytest.raises(ValueError, match="'signals' contains a number that is negative"):
        detector.save(tmp_path / "model.culpa")


@pytest.mark.parametrize("n_rows", [7, 150, 399, 2100, 9000])
@pytest.mark.parametrize("cuts", [[], [1, 2, 90, 91, 1500]])
def test_kept_stretches_follow_each_other(n_rows, cuts, monkeypatch):
    table = np.random.default_rng(0).normal(size=(200, 2))
    seen, fitted = [], PCADetector().fit(table).fitted
    monkeypatch.setattr(
        training_rows, "consistency_of", lambda model, pieces: seen.extend(piece.rows for piece in pieces)
    )
    rows = np.arange(2.0 * n_rows).reshape(-1, 2)
    gathered = training_rows.TrainingRows(n_rows, 2)
    assert [len(part) for part in gathered.watch(np.split(rows, cuts))] == [len(part) for part in np.split(rows, cuts)]
    gathered.taught(fitted)
    assert all((np.diff(piece[:, 0]) == 2).all() for piece in seen)
    assert len(seen) >= 4
    assert len({len(piece) for piece in seen[:-1]}) == 1  # however the rows come
    kept = sum(map(len, seen))
    assert kept == n_rows if n_rows <= 8000 else 7000 < kept <= 8000
    assert seen[0][0, 0] == 0
    assert seen[-1][-1, 0] >= 2 * n_rows - 900


def test_consistency_is_kept_in_files_and_by_updates(tmp_path):
    detector = PCADetector().fit(ROWS)
    detector.save(tmp_path / "model.culpa")
    for again in (culpa.load(tmp_path / "model.culpa"), PCADetector().fit(ROWS).partial_fit(ROWS[:50])):
        for name, part in vars(detector.fitted.consistency).items():
            assert np.array_equal(part, getattr(again.fitted.consistency, name))


@pytest.mark.parametrize("options", [{}, {"smooth": 0.1}, {"lags": 2}])
def test_recent_levels_are_those_of_the_last_rows(options, tmp_path):
    rows = make_plant(n_normal=5000).normal
    detector = PCADetector(**options).fit(rows)
    model, last = detector.fitted.model, rows[-2000 - options.get("lags", 0) :]
    Z = model.standardise(detector.fitted.columns.read(last).features)[-2000:]
    normal = ~detector.fitted.is_flagged(detector.fitted.statistic(Z))
    expected = Recent.none(len(model.scale)).then(Z[normal])
    detector.save(tmp_path / "model.culpa")
    for one in (detector, culpa.load(tmp_path / "model.culpa")):
        assert (one.fitted.recent.averages == expected.averages).all()
        assert (one.fitted.recent.farthest == expected.farthest).all()
        assert one.fitted.recent.n_rows == normal.sum()


def test_recent_levels_do_not_depend_on_batches(monkeypatch):
    rows = make_plant(n_normal=5000).normal
    fitted = PCADetector().fit(rows).fitted
    gathered = training_rows.TrainingRows(5000, 12)
    for piece in np.split(rows, [1, 2500, 2600, 2601, 4000, 4999]):
        gathered.add(InOrder(piece))
    assert (gathered.taught(fitted).recent.averages == fitted.recent.averages).all()


def test_batches_may_come_in_one_buffer():
    rows, buffer = make_plant(n_normal=2000).normal, np.empty((400, 12))

    def batches():
        for piece in np.split(rows, 5):
            buffer[:] = piece
            yield buffer

    blocks = BlockMoments.of(rows)
    one, other = (fit_moments(PCADetector(), blocks, batches=these).fitted for these in (batches(), [rows]))
    for name in ("consistency", "recent"):
        own, expected = getattr(one, name).to_arrays(), getattr(other, name).to_arrays()
        for key, array in expected.items():
            np.testing.assert_allclose(own[key], array, rtol=1e-9)


def test_updates_go_on_from_recent_levels():
    """However few rows the last of them has."""
    rows = make_plant(n_normal=6000).normal
    rows[3000:] += rows.std(axis=0)
    detector = PCADetector().fit(rows[:5900])
    for piece in np.split(rows[5900:], [60, 99]):
        detector.partial_fit(piece)
    Z = detector.fitted.model.standardise(rows)
    expected = Recent.none(12).then(Z[~detector.fitted.is_flagged(detector.fitted.score(rows))])
    np.testing.assert_allclose(detector.fitted.recent.averages, expected.averages, atol=0.02)


@pytest.mark.parametrize("options", [{"trim": 0.01}, {"limit": "conformal"}])
def test_an_abnormal_training_row_does_not_hide_what_moves_soon_after(options):
    plant = make_plant(n_normal=2000, n_new=60, faults=())
    rows, new = plant.normal.copy(), plant.new.copy()
    rows[-50, 2] += 1000 * rows[:, 2].std()
    new[20:24, 2] += 10 * plant.normal[:, 2].std()
    found = PCADetector(**options).fit(rows).incidents(new)
    assert next(one for one in found if one.first == 20).ranking[0].feature == "x2"


def test_a_student_model_learns_nothing_about_normal_rows_from_a_gross_one():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1000, 3)) @ rng.normal(size=(3, 8)) + 0.5 * rng.normal(size=(1000, 8))
    rows /= np.sqrt(rng.chisquare(8, size=1000) / 8)[:, None]
    spoiled = rows.copy()
    spoiled[500, 2] = 1000.0
    clean, found = (PCADetector(model="student").fit(X).fitted for X in (rows, spoiled))
    for name in ("low", "high", "reach"):
        np.testing.assert_allclose(getattr(found.normal_range, name), getattr(clean.normal_range, name), rtol=0.15)
    np.testing.assert_allclose(found.consistency.own[:, 2], clean.consistency.own[:, 2], rtol=0.25)
    # a Gaussian model takes all its rows as normal
    clean, found = (PCADetector().fit(X).fitted for X in (rows, spoiled))
    reach = [one.normal_range.reach[2] * one.model.scale[2] for one in (clean, found)]
    assert reach[1] > 2 * reach[0]
