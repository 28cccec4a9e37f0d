"""A small simulated plant without faults."""

import pytest

from culpa.datasets import make_plant


@pytest.fixture(scope="session")
def plant():
    return make_plant(400, 200, faults=())
