"""What fitting warns of, in Python."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

from culpa import FitWarning, PCADetector
from culpa.detecting.pieces import fit_moments
from culpa.fitting.diagnostics import groups_to_suggest, ties_in_words
from culpa.models.blocks import BlockMoments


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ np.random.default_rng(42).normal(size=(2, 5)) + 0.3 * rng.normal(size=(n, 5))
    return pd.DataFrame(5 + X, columns=list("abcde"))


def told(X, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        PCADetector(**options).fit(X)
    assert all(warning.category is FitWarning for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)  # the line that called fit
    return [str(warning.message) for warning in caught]


def test_nothing_to_say():
    assert told(rows()) == []
    assert told(rows(), limit="formula") == []
    assert told(rows(), n_components=2, statistic="t2") == []


def test_it_can_be_silenced_and_is_a_user_warning():
    assert issubclass(FitWarning, UserWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FitWarning)
        PCADetector().fit(rows(20))


class TestTheLimit:
    def test_too_few_rows_to_check_it(self):
        [text] = told(rows(29))
        assert text == (
            "the limit is a formula and may be too low, because 29 rows are too few to check it on held-out rows. "
            "Pass at least 30."
        )
        assert not any("formula" in text for text in told(rows(30)))

    def test_beyond_all_rows(self):
        [text] = told(rows(98))
        assert text.startswith(
            "98 rows are few for a limit at confidence 0.99. The limit is extrapolated and higher than all their scores, "
            "and only a rate of at most 3.7% can be promised."
        )
        assert text.endswith("Pass more rows, or choose a lower confidence (confidence=).")
        assert told(rows(98), confidence=0.95) == []
        assert told(rows(99)) == []

    def test_stretches_that_differ(self):
        X = rows(1000)
        X.iloc[700:] = 5 + (X.iloc[700:] - 5) * 2
        [text] = told(X)
        assert text.startswith(
            "the training rows differ from one stretch of rows to the next, so the limit was raised."
        )
        assert re.search(r"The stretch from (70|80|90)% to \d+% of the rows has the largest share of high scores", text)
        assert told(X.sample(frac=1, random_state=0)) == []

    def test_shuffled_rows_are_alike(self):
        """Of rows that could have come in any order, few tables are warned about."""
        warned, tried = 0, 0
        for seed in range(20):
            rng = np.random.default_rng(seed)
            for n in (60, 119, 300):
                X = rng.standard_t(4, size=(n, 2)) @ rng.normal(size=(2, 6)) + 0.5 * rng.normal(size=(n, 6))
                tried += 1
                warned += any(
                    "differ from one stretch" in text for text in told(pd.DataFrame(X, columns=list("abcdef")))
                )
        assert warned <= 0.05 * tried

    def test_mostly_empty_rows_do_not_count(self):
        X = rows(60)
        X.iloc[20:, 1:] = np.nan
        text = next(text for text in told(X, n_components=1) if "formula" in text)
        assert "fewer than 30 rows have at least half of their cells" in text

    def test_few_rows_with_lags(self):
        text = next(text for text in told(rows(60), lags=3) if "formula" in text)
        assert "57 rows are too few to check it on held-out rows with 3 lags" in text

    def test_rows_read_once(self):
        with pytest.warns(FitWarning, match="read only once cannot be held out"):
            fit_moments(PCADetector(), BlockMoments.of(rows().to_numpy()))

    def test_once_is_enough_for_pieces(self):
        detector = PCADetector()
        with pytest.warns(FitWarning, match="too few to check it"):
            detector.partial_fit(rows(10))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            detector.partial_fit(rows(10, seed=1))

    def test_a_formula_and_few_rows_per_feature(self):
        [text] = told(rows(24), limit="formula", n_components=2)
        assert text.startswith("24 rows are few for 5 features, and the limit is not checked on held-out rows")
        assert told(rows(25), limit="formula", n_components=2) == []


class TestColumns:
    def test_constant(self):
        [text] = told(rows().assign(valve=3.0))
        assert text.startswith("column 'valve' did not vary in training")
        assert "drop it" in text

    def test_constant_with_missing_cells(self):
        X = rows().assign(valve=3.0)
        X.iloc[4, 0] = X.iloc[10:20, 5] = np.nan
        [text] = told(X)
        assert text.startswith("column 'valve' did not vary in training")

    @pytest.mark.parametrize("factor", [1.0, -7.5])
    def test_duplicated(self, factor):
        X = rows()
        [text] = told(X.assign(twin=factor * X["b"] + 3))
        assert text.startswith("columns 'b' and 'twin' always move together")

    def test_nearly_duplicated_is_fine(self):
        X = rows()
        assert told(X.assign(twin=X["b"] + 1e-3 * np.random.default_rng(0).normal(size=300))) == []


class TestFillCodes:
    @pytest.mark.parametrize("missing", [False, True])
    @pytest.mark.parametrize("code", [-9999.0, 999.9, 65535.0])
    def test_told(self, code, missing):
        X = rows()
        X.iloc[[17, 40], 2] = code
        if missing:
            X.iloc[[3, 99], [2, 4]] = X.iloc[100, 0] = np.nan
        text, *others = told(X)
        assert text.startswith(f"X: column 'c' contains {code:g} 2 times, first in row 17, ")
        assert "If it means a missing cell, replace it by NaN" in text
        assert "--" not in text  # options are for the command line
        assert not any("holds" in other for other in others)

    @pytest.mark.parametrize("missing", [False, True])
    def test_their_advice_helps(self, missing):
        X = rows()
        if missing:
            X.iloc[5, 1] = np.nan
        X.iloc[[17, 40], 2] = -9999.0
        assert told(X)
        assert told(X.replace(-9999.0, np.nan)) == []

    @pytest.mark.parametrize("readings", [[99.94, 100.2, 99.99], [99.99], [99.9, 99.9, 99.9], [100.0, 99.9]])
    @pytest.mark.parametrize("missing", [False, True])
    def test_a_saturated_valve_is_none(self, readings, missing):
        X = rows().assign(valve=np.random.default_rng(3).uniform(30, 60, size=300))
        X.iloc[100 : 100 + len(readings), 5] = readings
        if missing:
            X.iloc[5, 1] = np.nan
        assert not any("holds" in text for text in told(X))

    def test_a_valve_that_hardly_moved_before(self):
        """Far away in widths of the others, and yet percents."""
        X = rows().assign(valve=np.random.default_rng(3).uniform(97, 98, size=300))
        X.iloc[100:103, 5] = [99.94, 100.2, 99.99]
        assert not any("holds" in text for text in told(X))


def test_ties_in_words():
    X = np.random.default_rng(0).normal(size=(300, 8))
    X[:, 3] = X[:, 0] + 0.1 * X[:, 3]
    X[:, 6] = X[:, 1] + X[:, 2] + 0.01 * X[:, 6]
    names = ["p [bar]", "flow [m3/h]", "b", "it's", "c", "d", "e", "f"]
    fitted = PCADetector().fit(pd.DataFrame(X, columns=names)).fitted
    strong, weak = (group.strength for group in groups_to_suggest(fitted))
    assert ties_in_words(fitted) == [
        f"flow, b and e imply each other (partial correlations of {strong:.2f} or more): faults in one cannot be "
        "distinguished from faults in another. Consider --group 'flow/b/e=flow [m3/h],b,e'",
        f"p and it's imply each other (partial correlation {weak:.2f}): faults in one cannot be "
        "distinguished from faults in the other. Consider --group 'p/it'\"'\"'s=p [bar],it'\"'\"'s'",
    ]


@pytest.mark.filterwarnings("ignore::culpa.FitWarning")
def test_many_ties_are_not_all_told():
    X = np.random.default_rng(0).normal(size=(400, 14))
    fitted = PCADetector().fit(np.hstack([X, X + 0.01])).fitted
    told = ties_in_words(fitted)
    assert len(told) == 11
    assert told[-1] == "4 more such groups: see suggested_groups in 'culpa info --json'."
