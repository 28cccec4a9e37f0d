"""Files of the current format that earlier versions wrote are read, and give the numbers that these versions gave.

To add a file for a new format or a release, save `detector`, and write down its scores, limit and values.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import culpa
from culpa import PCADetector
from culpa.io.model_container import FORMAT, read, unpack

FOLDER = Path(__file__).parent / "formats"
FILES = sorted(FOLDER.glob("*.culpa"))


def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 4)) + 0.3 * rng.normal(size=(40, 4)) + 5
    return pd.DataFrame(np.round(X, 3), columns=list("abcd"))


def detector():
    fitted = PCADetector(2).fit(rows())
    fitted.explainer().compile()
    return fitted


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_of_earlier_versions(path, tmp_path):
    known = json.loads(path.with_suffix(".json").read_text())
    loaded = culpa.load(path)
    assert loaded.explainer().forms is not None
    loaded.save(tmp_path / "again.culpa")
    for one in (loaded, culpa.load(tmp_path / "again.culpa")):
        np.testing.assert_allclose(-one.score_samples(rows()[:3]), known["scores"], rtol=1e-9)
        np.testing.assert_allclose(one.limit_, known["limit"], rtol=1e-9)
        np.testing.assert_allclose(one.explain(rows()[:3]).values, known["values"], rtol=1e-7, atol=1e-9)


def test_the_format_is_there(tmp_path):
    formats = {unpack(read(path))[1]["format"] for path in FILES}
    assert formats == {FORMAT}
    detector().save(tmp_path / "new.culpa")
    assert unpack(read(tmp_path / "new.culpa"))[1]["format"] == FORMAT
