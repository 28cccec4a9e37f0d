"""Controls of sampling rules: what the compiled ones say is what the array of controls says."""

import numpy as np
import pytest

from culpa._kernels.controls import SUMS_BEFORE
from culpa._kernels.kernel import Kernel, kernels_in_python
from culpa.shapley import rules
from culpa.shapley.controls import CompiledControls, Controls, compiling_pays, position_curves


@pytest.mark.parametrize("in_python", [False, True])
@pytest.mark.parametrize(("n_players", "n_orders", "player"), [(3, 6, 0), (4, 12, 3), (9, 72, 4), (12, 138, 11)])
def test_compiled_controls_are_those_of_the_array(n_players, n_orders, player, in_python):
    """Also with orders that do not fill a word of 64 bits, and fewer positions than degrees of the polynomial."""
    rng = np.random.default_rng(n_orders)
    orders = np.argsort(rng.random((n_orders, n_players)), axis=1)
    positions, curves, slopes = np.argsort(orders, axis=1), position_curves(n_players), rng.normal(size=(7, 40))
    places = np.ascontiguousarray(positions[:, player])
    expected = Controls(positions, player, curves)
    if in_python:
        with kernels_in_python():
            found = CompiledControls(orders, places, player, curves, 6)
            combined = found.combined(slopes[:, : expected.array.shape[1]])
    else:
        found = CompiledControls(orders, places, player, curves, 6)
        combined = found.combined(slopes[:, : expected.array.shape[1]])
    np.testing.assert_allclose(found.means(6), expected.means(6), atol=1e-13)
    np.testing.assert_allclose(found.squares(), expected.squares(), atol=1e-13)
    np.testing.assert_allclose(combined, expected.combined(slopes[:, : expected.array.shape[1]]), atol=1e-13)


def test_a_rule_is_the_same_if_it_is_compiled(monkeypatch):
    made = []
    for pays in (True, False):
        monkeypatch.setattr(Kernel, "pays", lambda self, operations, pays=pays: pays)
        assert compiling_pays(20, 384, 6) is pays
        made.append(rules.default_rule.__wrapped__(20, 6, 0))
    compiled, plain = made
    np.testing.assert_array_equal(compiled.orders, plain.orders)
    np.testing.assert_allclose(compiled.weights, plain.weights, atol=1e-10 / 384)


def test_small_rules_do_not_wait_for_the_compiler():
    SUMS_BEFORE.forget()
    assert not compiling_pays(33, 1536, 6)
    assert not compiling_pays(1000, 10**9, 6)  # too many players for controls by who comes before
    assert not compiling_pays(300, 10**9, 8)  # and more nets than the kernel has room for
    assert compiling_pays(300, 10**6, 6)
