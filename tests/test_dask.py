"""The Dask recipe gives the numbers of the library, however the rows are spread over partitions."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from culpa import PCADetector
from culpa.datasets import make_plant

dask = pytest.importorskip("dask", reason="Dask is not installed; it is optional")
dd = pytest.importorskip("dask.dataframe", reason="Dask is not installed; it is optional")

EXAMPLE = Path(__file__).parents[1] / "examples" / "dask_partitions.py"


@pytest.fixture(scope="module")
def recipe():
    return runpy.run_path(str(EXAMPLE))


@pytest.fixture(scope="module")
def rows():
    normal = make_plant().normal[:400]
    return pd.DataFrame(normal, columns=[f"sensor {i}" for i in range(normal.shape[1])])


@pytest.fixture(autouse=True)
def one_process():
    with dask.config.set(scheduler="synchronous"):
        yield


def test_fit_does_not_depend_on_partitions(recipe, rows):
    shuffled = rows.sample(frac=1, random_state=0)
    one = recipe["fit"](dd.from_pandas(rows, npartitions=1))
    five = recipe["fit"](dd.from_pandas(shuffled, npartitions=5, sort=False))
    np.testing.assert_allclose(five.score_samples(rows), one.score_samples(rows), rtol=1e-9)
    assert five.limit_ == pytest.approx(one.limit_, rel=1e-9)


def test_the_model_is_the_library_s(recipe, rows):
    detector = recipe["fit"](dd.from_pandas(rows, npartitions=4), n_components=3)
    library = PCADetector(n_components=3).fit(rows)
    np.testing.assert_allclose(detector.score_samples(rows), library.score_samples(rows), rtol=1e-9)


def test_scores_and_explanations(recipe, rows):
    detector = PCADetector().fit(rows)
    new = rows.head(20).copy()
    new.index = new.index + 1000
    new.iloc[4, 2] += 9
    new.iloc[5, 3] = np.nan
    table = dd.from_pandas(new.assign(batch="A7"), npartitions=3)
    scored = recipe["score"](table, detector).compute()
    why, same = recipe["explain"](table, detector).compute(), detector.explain(new)
    assert list(scored.index) == list(new.index)
    assert set(scored["batch"]) == {"A7"}
    np.testing.assert_allclose(scored["score"], same.score, rtol=1e-12)
    np.testing.assert_allclose(why[list(new)], same.values, rtol=1e-10, atol=1e-10)
