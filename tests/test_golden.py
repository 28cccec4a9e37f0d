"""Explanations are the numbers that they were: all models, scores, games, methods, missing cells and groups together.

If numbers change on purpose, ``python tests/golden/write.py`` writes them anew.
"""

import pytest
from golden import cases, stored


@pytest.fixture(scope="module")
def expected():
    return stored.read()


def test_all_cases_are_stored(expected):
    assert list(expected) == cases.names()
    assert sum(isinstance(answer, dict) for answer in expected.values()) > 3000
    assert stored.PATH.stat().st_size < 1_000_000


@pytest.mark.parametrize("game", cases.GAMES)
@pytest.mark.parametrize("model", cases.MODELS)
def test_numbers_are_those_of_before(expected, model, game):
    mine = [case for case in cases.names() if case.startswith(f"{model}/{game}/")]
    different = {case: stored.difference(cases.answer(case), expected[case]) for case in mine}
    assert {case: text for case, text in different.items() if text} == {}
