import numpy as np
import pytest
from partitions import NAMES, Partitions, plant

from culpa import PCADetector
from culpa.detecting.pieces import fit_moments
from culpa.jobs import HashedPlaces, OrderedPlaces, fit_partitions, partitioned
from culpa.jobs.partitioned import calibrate_partitions
from culpa.models import Moments
from culpa.models.blocks import BlockMoments

SIZES = (1, 0, 350)  # skewed, and one is empty


def by_hash(frame, **options):
    """The library's fit with the same blocks."""
    X = frame[list(NAMES)].to_numpy()
    block = HashedPlaces().find(X, None)[0]
    blocks = BlockMoments(tuple(Moments.of(X[block == k]) for k in range(10)))
    return fit_moments(PCADetector(**options), blocks, NAMES, [X[np.argsort(block, kind="stable")]])


def ordered(frame):
    return OrderedPlaces.of("order", len(frame), lambda ranks: frame["order"].to_numpy()[list(ranks)].tolist())


def assert_same(found, expected, X):
    assert found.limit_kind_ == expected.limit_kind_
    assert found.limit_ == pytest.approx(expected.limit_, rel=1e-12)
    np.testing.assert_allclose(found.mean_, expected.mean_, rtol=1e-12)
    np.testing.assert_allclose(found.model_.covariance_, expected.model_.covariance_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.fitted.score(X), expected.fitted.score(X), rtol=1e-9)
    assert found.false_alarm_rate_ == expected.false_alarm_rate_
    if expected.limit_kind_ == "box" and expected.abnormal_training_rows_ is None:
        return  # without a second pass, `fit_moments` does not know the range
    for name in ("low", "high", "n", "inflation"):
        seen, wanted = (getattr(one.fitted.normal_range, name) for one in (found, expected))
        np.testing.assert_allclose(seen, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "options", [{}, {"limit": "empirical"}, {"n_components": 2}, {"limit": "box"}, {"given": ["flow"]}, {"limit": 9.0}]
)
def test_fits_equal_the_librarys(options):
    frame = plant(607, centre=100.0)
    frame["order"] = np.arange(607.0)
    shuffled = frame.sample(frac=1, random_state=1)
    run = Partitions(shuffled, SIZES)
    X = frame[list(NAMES)]
    if "given" in options:  # least squares loses digits to the mean, by any way of adding up
        X = frame[list(NAMES)] = X - 100.0
        run = Partitions(frame.sample(frac=1, random_state=1), SIZES)
    assert_same(fit_partitions(PCADetector(**options), NAMES, run, HashedPlaces()), by_hash(frame, **options), X)
    found = fit_partitions(PCADetector(**options), NAMES, run, ordered(frame))
    expected = PCADetector(**options).fit(X)
    assert_same(found, expected, X)
    np.testing.assert_allclose(found.fitted.normal_range.reach, expected.fitted.normal_range.reach, rtol=1e-9)


def test_neighbours_in_a_batch_tell_how_alike_successive_rows_are():
    random = np.random.default_rng(0)
    frame = plant(600)
    slow = np.convolve(random.normal(size=700), np.ones(20) / 20, mode="same")[:600]
    frame[list(NAMES)] = slow[:, None] + 0.01 * random.normal(size=(600, 4))
    frame["order"] = np.arange(600.0)
    found = fit_partitions(PCADetector(), NAMES, Partitions(frame, (200, 200)), ordered(frame))
    assert found.fitted.normal_range.dependence == pytest.approx(
        PCADetector().fit(frame[list(NAMES)]).fitted.normal_range.dependence, rel=0.2
    )


def test_limits_of_huge_tables_rest_on_a_sample_of_the_rows(monkeypatch):
    frame = plant(3000)
    exact = fit_partitions(PCADetector(), NAMES, Partitions(frame, SIZES), HashedPlaces())
    monkeypatch.setattr(partitioned, "MOST_ROWS", 1000)
    thinned = fit_partitions(PCADetector(), NAMES, Partitions(frame, SIZES), HashedPlaces())
    again = fit_partitions(PCADetector(), NAMES, Partitions(frame, (1000, 1000)), HashedPlaces())
    held_out, other = (one.fitted.limits.held_out(one.fitted.statistic) for one in (thinned, again))
    np.testing.assert_allclose(held_out.largest, other.largest, rtol=1e-9)  # the same rows, however they are spread
    assert 900 < held_out.n < 1100
    assert thinned.limit_ == pytest.approx(exact.limit_, rel=0.2)
    np.testing.assert_allclose(thinned.model_.covariance_, exact.model_.covariance_, rtol=1e-9)  # of all rows


def test_sampled_rows_bring_their_neighbours(monkeypatch):
    random = np.random.default_rng(0)
    frame = plant(6000)
    walk = np.cumsum(random.normal(size=(6010, 4)), axis=0)
    frame[list(NAMES)] = walk[10:] - walk[:-10]
    frame["order"] = np.arange(6000.0)
    exact = PCADetector().fit(frame[list(NAMES)]).fitted.normal_range.dependence
    monkeypatch.setattr(partitioned, "MOST_ROWS", 1500)
    found = fit_partitions(PCADetector(), NAMES, Partitions(frame, (2000, 2000)), ordered(frame))
    assert exact > 3
    assert found.fitted.normal_range.dependence == pytest.approx(exact, rel=0.3)
    assert (
        fit_partitions(PCADetector(), NAMES, Partitions(frame, ()), HashedPlaces()).fitted.normal_range.dependence == 1
    )


def test_too_few_rows_for_held_out_scores():
    found = fit_partitions(PCADetector(), NAMES, Partitions(plant(20), (5,)), HashedPlaces())
    assert found.limit_kind_ == "box"


def test_missing_cells():
    frame = plant(300)
    frame.loc[::10, "power"] = np.nan
    with pytest.raises(ValueError, match="30 rows of 300 have missing cells, most of them in column 'power'"):
        fit_partitions(PCADetector(), NAMES, Partitions(frame, SIZES), HashedPlaces())
    found = fit_partitions(PCADetector(), NAMES, Partitions(frame, SIZES), HashedPlaces(), complete_only=True)
    assert_same(found, by_hash(frame.dropna()), frame.dropna()[list(NAMES)])
    frame["power"] = np.nan
    with pytest.raises(ValueError, match="all cells of column 'power' are missing"):
        fit_partitions(PCADetector(), NAMES, Partitions(frame, SIZES), HashedPlaces(), complete_only=True)
    with pytest.raises(ValueError, match="at least 2 complete rows are needed to learn from, got 0"):
        fit_partitions(PCADetector(), NAMES, Partitions(frame[:0], ()), HashedPlaces())


@pytest.mark.parametrize("options", [{"lags": 1}, {"smooth": 0.2}, {"trim": 0.1}, {"limit": "conformal"}, {"modes": 2}])
def test_what_needs_rows_in_one_place_is_refused(options):
    [name] = options
    with pytest.raises(ValueError, match=f"{name}.*needs"):
        fit_partitions(PCADetector(**options), NAMES, Partitions(plant(100), ()), HashedPlaces())


def test_rows_without_an_order_are_refused():
    frame = plant(100)
    frame["order"] = np.arange(100.0)
    places = ordered(frame)
    frame.loc[4, "order"] = np.nan
    with pytest.raises(ValueError, match="column 'order' orders the rows, but some of its cells are missing"):
        fit_partitions(PCADetector(), NAMES, Partitions(frame, ()), places)


def test_conformal_limits_equal_the_librarys():
    detector = PCADetector().fit(plant(300)[list(NAMES)])
    new = plant(500, seed=0)[200:]
    found = calibrate_partitions(detector, Partitions(new, (3, 0, 100)), len(new))
    assert found.limit_kind_ == "conformal"
    assert found.limit_ == detector.calibrate_limit(new[list(NAMES)]).limit_
