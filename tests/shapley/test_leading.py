"""Which ranks are certain, and sampling until they are."""

import warnings

import numpy as np
import pytest

from culpa import Explainer, LatentGaussian
from culpa.shapley.leading import certain_ranks


@pytest.mark.parametrize(
    ("values", "error", "wanted"),
    [
        ([9.0, 5.0, 2.0, 0.0], 0.1, 3),
        ([9.0, 5.0, 4.9, 0.0], 0.1, 1),
        ([9.0, 5.0, 2.0, 1.9], 0.1, 2),
        ([9.0, 8.9, 2.0, 0.0], 0.1, 0),
        ([0.0, 2.0, 9.0, 5.0], 0.1, 3),  # in whatever order the features are
        ([9.0, 5.0, 2.0, 0.0], 0.0, 3),
        ([9.0, 5.0, 5.0, 0.0], 0.0, 1),  # equal, without any error
    ],
)
def test_ranks_are_certain_up_to_the_first_doubt(values, error, wanted):
    errors = np.full((1, 4), error)
    assert certain_ranks(np.array([values]), errors, 12, 3).tolist() == [wanted]


def test_no_more_ranks_than_players():
    assert certain_ranks(np.array([[2.0, 1.0]]), np.zeros((1, 2)), 12, 5).tolist() == [2]


def test_what_rounding_leaves_of_equal_values_is_no_rank():
    values = np.array([[3.0, 3.0 * (1 + 1e-14), 1.0, -np.inf], [3.0, 2.0, 2.0 - 1e-13, 1.0]])
    assert certain_ranks(values, np.zeros((2, 4)), 5, 2).tolist() == [0, 1]


def test_doubts_add_up():
    """One rival ten times out of reach at 95% is none, but forty rivals at about 0.4% each are."""
    values, error = np.zeros((1, 41)), np.ones((1, 41))
    values[0, 0] = 6.4  # 3.2 standard errors of the difference, which are the sum of both
    assert certain_ranks(values[:, :2], error[:, :2], 12, 1).tolist() == [1]
    assert certain_ranks(values, error, 12, 1).tolist() == [0]


def test_a_stricter_confidence_needs_more():
    values, error = np.array([[4.4, 0.0]]), np.ones((1, 2))
    assert certain_ranks(values, error, 12, 1, confidence=0.95).tolist() == [1]
    assert certain_ranks(values, error, 12, 1, confidence=0.99).tolist() == [0]


def model_and_rows(d, seed):
    rng = np.random.default_rng([d, seed])
    model = LatentGaussian(np.zeros(d), rng.normal(size=(d, int(rng.integers(2, 8)))), 0.1 + rng.random())
    return model, model.sample(12, rng) + 3 * rng.normal(size=(12, d)) * (rng.random((12, d)) < 0.2)


def explained(model, rows, **options):
    """By sampling, whether or not some ranks stay uncertain."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the (order of the|most blamed)")
        return Explainer(model, method="permutation", **options).explain(rows)


@pytest.mark.parametrize("k", [1, 3])
def test_certain_ranks_are_right(k):
    """Of 96 rows of 8 models, the first k agree with the exact values in at least 95%, and few rows stay uncertain."""
    right, certain = [], []
    for seed in range(8):
        model, rows = model_and_rows(14 + seed // 2, seed)
        exact = Explainer(model).explain(rows)
        assert exact.exact
        why = explained(model, rows, tolerance=f"top{k}", seed=seed)
        order, wanted = (np.argsort(-each.values, axis=1)[:, :k] for each in (why, exact))
        sure = why.certain_ranks(k) == k
        right.extend((order == wanted).all(axis=1)[sure])
        certain.extend(sure)
    assert np.mean(right) >= 0.95
    assert np.mean(certain) >= 0.7


def test_rows_stop_one_by_one_and_each_by_itself():
    model, rows = model_and_rows(14, 3)
    together = explained(model, rows, tolerance="top2")
    evaluations = set()
    for row in range(4):
        alone = explained(model, rows[row : row + 1], tolerance="top2")
        np.testing.assert_allclose(alone.values, together.values[row : row + 1], rtol=1e-10)
        evaluations.add(alone.n_evaluations)
    assert len(evaluations) > 1


def test_equal_features_stop_at_the_budget_and_say_so():
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(14, 3))
    loadings[1] = loadings[0]
    rows = np.zeros((1, 14))
    rows[0, :2] = 6.0
    explainer = Explainer(
        LatentGaussian(np.zeros(14), loadings, 0.3), method="permutation", tolerance="top3", max_coalitions=40_000
    )
    with pytest.warns(UserWarning, match=r"3 most blamed features is not certain in 1 of 1 row .* certain_ranks\(3\)"):
        why = explainer.explain(rows)
    assert 20_000 < why.n_evaluations <= 40_000
    assert why.certain_ranks(3).tolist() == [0]
    np.testing.assert_allclose(why.values[0, 0], why.values[0, 1], rtol=0.2)
    assert why.values[0, :2].min() > why.values[0, 2:].max()


def equal_pairs():
    """An explainer, and rows of which four have two features with equal values, in three patterns of missing cells."""
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(14, 3))
    loadings[1] = loadings[0]
    rows = np.zeros((6, 14))
    rows[:, :2] = 6.0
    rows[4:, 0] = 60.0
    rows[1, 8], rows[2, 9], rows[4, 10] = np.nan, np.nan, np.nan
    return LatentGaussian(np.zeros(14), loadings, 0.3), rows


def test_one_warning_for_all_rows():
    model, rows = equal_pairs()
    how = {"method": "permutation", "max_coalitions": 40_000}
    with pytest.warns(UserWarning, match="the most blamed feature is not certain in 4 of 6 rows after") as caught:
        Explainer(model, tolerance="top1", **how).explain(rows)
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="not certain in 1 of 1 row") as caught:
        Explainer(model, tolerance="top1", **how).shares(rows[:1])
    assert len(caught) == 1


def test_missing_cells_have_no_rank():
    model, rows = model_and_rows(14, 3)
    rows[0, :12] = np.nan
    why = explained(model, rows[:1], tolerance="top5")
    assert why.certain_ranks(5)[0] <= 2


def test_exact_values_are_certain():
    model, rows = model_and_rows(14, 3)
    explainer = Explainer(model, tolerance="top3")
    assert explainer.chosen == "exact: 16,384 coalitions of 14 players"
    assert (explainer.explain(rows).certain_ranks(3) == 3).all()
    explainer.compile()


def test_orders_that_are_asked_for_come_first():
    model, _ = model_and_rows(14, 3)
    explainer = Explainer(model, method="permutation", tolerance="top3", n_orders=384)
    assert explainer.chosen.endswith("coalitions in 6 replicates, 14 players")
    asymmetric = Explainer(model, method="permutation", tolerance="top3", n_orders=384, upstream=[(0, 1)])
    assert asymmetric.chosen == "asymmetric: 384 random orders in 6 replicates, 14 players"


def test_says_what_it_will_do():
    model, _ = model_and_rows(14, 3)
    until = "until the 2 highest values of each row are certain"
    explainer = Explainer(model, method="permutation", tolerance="top2")
    most = int(explainer.chosen.split()[3].replace(",", ""))
    assert 1 << 14 < most <= 1 << 15
    assert explainer.chosen == f"permutation: at most {most:,} coalitions, {until}, 14 players"
    asymmetric = Explainer(model, method="permutation", tolerance="top2", upstream=[(0, 1)])
    assert asymmetric.chosen == f"asymmetric: at most 12,288 random orders, {until}, 14 players"
    with pytest.raises(ValueError, match="cannot be compiled"):
        explainer.compile()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": "top0"}, 'tolerance must be a number above 0 or "top1"'),
        ({"tolerance": "best"}, "tolerance must be"),
        ({"tolerance": "top3", "method": "kernel"}, "needs sampled values"),
        (
            {"tolerance": "top15"},
            "tolerance='top15' asks for the order of 15 features, but there are only 14 to blame.",
        ),
        ({"tolerance": "top3", "groups": {"a": list(range(13))}}, "but there are only 2 to blame"),
    ],
)
def test_refused(options, message):
    model, _ = model_and_rows(14, 3)
    with pytest.raises(ValueError, match=message):
        Explainer(model, **options)


def test_functions_have_no_certain_ranks_to_wait_for():
    _, rows = model_and_rows(14, 3)
    with pytest.raises(ValueError, match="use n_orders"):
        Explainer(score=lambda X: X.sum(axis=1), normal=np.tile(rows, (3, 1)), tolerance="top3")
