"""Rows picked by positions, masks, slices and labels."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from culpa import PCADetector

NAMES = ["flow", "pressure", "power"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(48, 2)) @ rng.normal(size=(2, 3)) + 0.2 * rng.normal(size=(48, 3))
    return pd.DataFrame(X, columns=NAMES, index=pd.date_range("2024-05-01", periods=48, freq="h"))


@pytest.fixture(scope="module")
def detector(frame):
    return PCADetector(1).fit(frame)


@pytest.mark.parametrize(
    ("rows", "positions"),
    [
        (slice(3, 6), [3, 4, 5]),
        (slice(None, None, 20), [0, 20, 40]),
        (slice(-2, None), [46, 47]),
        (slice("2024-05-02 22:00", None), [46, 47]),
        (slice("2024-05-01 01:00", "2024-05-01 03:00"), [1, 2, 3]),
        (pd.Timestamp("2024-05-01 05:00"), [5]),
        ("2024-05-01 05:00", [5]),
        ("2024-05-02", list(range(24, 48))),
        (["2024-05-01 05:00", "2024-05-01 01:00"], [5, 1]),
        (np.array(["2024-05-01T05:00"], dtype="datetime64[s]"), [5]),
        (pd.date_range("2024-05-01 01:00", periods=2, freq="h"), [1, 2]),
        ([4, -1], [4, 47]),
        (7, [7]),
        (pd.array([True] + [False] * 47, dtype="boolean"), [0]),
        (pl.Series([False] * 47 + [True]), [47]),
        ([], []),
    ],
    ids=str,
)
def test_rows_of_times(detector, frame, rows, positions):
    found = detector.explain(frame, rows=rows)
    np.testing.assert_array_equal(found.data, frame.to_numpy()[positions])
    np.testing.assert_allclose(found.values, detector.explain(frame).values[positions])
    labels, expected = found.to_frame().index, frame.index[positions]
    assert (labels.dtype, labels.tolist()) == (expected.dtype, expected.tolist())


def test_numbers_are_positions_and_an_index_holds_labels(detector, frame):
    numbered = frame.set_axis(np.arange(48)[::-1])
    assert detector.explain(numbered, rows=[0, 1]).row_labels.tolist() == [47, 46]
    assert detector.explain(numbered, rows=pd.Index([0, 1])).row_labels.tolist() == [0, 1]
    flagged = numbered.index[[3, 8]]
    np.testing.assert_array_equal(detector.explain(numbered, rows=flagged).data, numbered.loc[flagged].to_numpy())


def test_a_mask_with_an_index_belongs_to_the_rows_with_the_same_labels(detector, frame):
    flagged = pd.Series(np.arange(48) % 7 == 3, frame.index)
    expected = detector.explain(frame, rows=np.flatnonzero(flagged))
    rng = np.random.default_rng(1)
    for mask in (
        flagged,
        flagged.sort_values(),
        flagged[::-1],
        flagged.astype("boolean").sample(frac=1, random_state=0),
    ):
        np.testing.assert_array_equal(detector.explain(frame, rows=mask).data, expected.data)
        np.testing.assert_array_equal(
            detector.explain(frame, rows=mask).data, frame[mask.astype(bool).reindex(frame.index)]
        )
    shuffled = frame.iloc[rng.permutation(48)]
    labels = pd.Index(detector.explain(shuffled, rows=flagged).row_labels)
    assert labels.tolist() == shuffled.index[flagged[shuffled.index]].tolist()
    levels = frame.set_axis(pd.MultiIndex.from_product([["a", "b"], range(24)]))
    several = flagged.set_axis(levels.index)
    np.testing.assert_array_equal(detector.explain(levels, rows=several[::-1]).data, expected.data)
    twice = frame.set_axis(
        np.arange(48) // 2
    )  # labels that do not tell rows apart are those of X, in its order, or refused
    same = flagged.set_axis(twice.index)
    np.testing.assert_array_equal(detector.explain(twice, rows=same).data, expected.data)
    for wrong in (same[::-1], flagged.reset_index(drop=True), flagged.shift(freq="h")):
        with pytest.raises(ValueError, match="a mask whose index is not that of X"):
            detector.explain(twice if wrong.index[0] == 23 else frame, rows=wrong)
    np.testing.assert_array_equal(
        PCADetector(1).fit(frame.to_numpy()).explain(frame.to_numpy(), rows=flagged).data, expected.data
    )


def test_labels_of_several_levels(detector, frame):
    levels = frame.set_axis(pd.MultiIndex.from_product([["a", "b"], range(24)]))
    for rows, positions in ((("b", 2), [26]), ([("b", 2), ("a", 0)], [26, 0]), ("b", range(24, 48))):
        np.testing.assert_array_equal(detector.explain(levels, rows=rows).data, levels.to_numpy()[list(positions)])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("2023-01-01", "rows contains '2023-01-01', which is not in the index of X"),
        (["noon"], "rows contains 'noon', which is not in the index of X"),
        (slice("noon", None), "which is not in the index of X"),
        ([0.5], "rows contains 0.5, which is not in the index of X"),
        ([[0, 1]], "rows must be positions, a mask or labels of rows"),
        ([48], "rows contains position 48, but X has 48 rows"),
        ([True], "rows is a mask of 1 row, but X has 48 rows"),
    ],
)
def test_rows_that_are_not_there(detector, frame, rows, message):
    with pytest.raises(ValueError, match=message):
        detector.explain(frame, rows=rows)


def test_tables_without_labels(detector, frame):
    with pytest.raises(ValueError, match="rows contains 'noon', but X has no row labels"):
        detector.explain(pl.from_pandas(frame), rows="noon")
