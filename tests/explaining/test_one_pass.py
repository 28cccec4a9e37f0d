"""One pass over rows: every part equals its definition, however rows are cut into chunks, and only what is asked for."""

import cProfile
import pickle
import pstats

import numpy as np
import pandas as pd
import pytest

import culpa.explaining.one_pass
from culpa import PPCA, Explainer, Explanation, PCADetector
from culpa._core.choices import PART_NAMES
from culpa.shapley import on_gpu

D, P = 6, 3
RNG = np.random.default_rng(0)
MIXED = RNG.normal(size=(P, D))
NORMAL = RNG.normal(size=(120, P)) @ MIXED + 0.4 * RNG.normal(size=(120, D)) + 5
NEW = NORMAL[:40] + (RNG.random((40, D)) < 0.2) * 3.0
HOLES = np.where(RNG.random(NEW.shape) < 0.15, np.nan, NEW)
GROUPS = {"pair": [0, 4]}

SCORES = {
    "spe": lambda: Explainer(PPCA(P).fit(NORMAL), score="spe"),
    "t2": lambda: Explainer(PPCA(P).fit(NORMAL), score="t2"),
    "combined": lambda: Explainer(PPCA(P).fit(NORMAL), score="combined"),
    "groups": lambda: Explainer(PPCA(P).fit(NORMAL), score="mahalanobis", groups=GROUPS),
    "given": lambda: Explainer(PPCA(P).fit(NORMAL), given=[1]),
    "retraining": lambda: Explainer(PPCA(P).fit(NORMAL), game="retraining"),
    "offset": lambda: Explainer(reconstruct_matrix=0.5 * np.eye(D), normal=PPCA(P).fit(NORMAL)),
    "modes": lambda: PCADetector(P, modes=2).fit(np.vstack([NORMAL, NORMAL + 9])).explainer(),
    "fault odds": lambda: Explainer(PPCA(P).fit(NORMAL), ranking="fault-odds"),
    "function": lambda: Explainer(score=lambda X: (X**2).sum(axis=1), normal=NORMAL, n_orders=4),
}
FIELDS = ("values", "std_error", "score", "expected", "score_if_fixed")


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(culpa.explaining.one_pass, "_CELLS_IN_CACHE", 1)
    monkeypatch.setattr(culpa.explaining.one_pass, "_FEWEST_ROWS", 3)
    monkeypatch.setattr(culpa.explaining.one_pass, "_ROWS_TOGETHER", 16)


@pytest.mark.parametrize("name", sorted(SCORES))
@pytest.mark.parametrize("rows", [NEW, HOLES], ids=["complete", "holes"])
def test_chunks_change_nothing(name, rows, request):
    whole = SCORES[name]().explain(rows)
    request.getfixturevalue("small_chunks")
    cut, again = SCORES[name]().explain(rows), SCORES[name]().explain(np.asfortranarray(rows))
    for field in (*FIELDS, "base_value", "blame"):
        expected = getattr(whole, field)
        size = np.nanmax(np.abs(expected), initial=1.0)
        np.testing.assert_allclose(getattr(cut, field), expected, rtol=0, atol=1e-12 * size)
        np.testing.assert_allclose(getattr(again, field), expected, rtol=0, atol=1e-12 * size)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["spe", "t2", "combined", "groups", "offset"])
def test_every_part_is_what_it_is_defined_to_be(name, compiled, small_chunks):
    """By dense linear algebra, feature by feature, on standardised rows."""
    explainer = SCORES[name]()
    if compiled:
        explainer.compile()
    why = explainer.explain(NEW)
    X, score = explainer.model.standardise(NEW), explainer.score
    C = score.distribution.covariance
    q = ((X @ score.root.T + score.offset) ** 2).sum(axis=1)
    np.testing.assert_allclose(why.score, q, rtol=1e-11)
    expected = X.copy()
    for k, player in enumerate(explainer.players):
        rest = np.setdiff1d(np.arange(D), player)
        expected[:, player] = X[:, rest] @ np.linalg.solve(C[np.ix_(rest, rest)], C[np.ix_(rest, player)])
        fixed = X.copy()
        fixed[:, player] = expected[:, player]
        q_fixed = ((fixed @ score.root.T + score.offset) ** 2).sum(axis=1)
        np.testing.assert_allclose(why.score_if_fixed[:, k], q_fixed, rtol=1e-9, atol=1e-10 * q.max())
    np.testing.assert_allclose(why.expected, explainer.model.to_user_units(expected), rtol=1e-10)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, q, rtol=1e-9)
    one_by_one = np.vstack([SCORES[name]().explain(row[None]).values for row in NEW[:5]])
    np.testing.assert_allclose(why.values[:5], one_by_one, rtol=0, atol=1e-9 * np.abs(one_by_one).max())


@pytest.fixture(scope="module")
def detector():
    return PCADetector(P).fit(pd.DataFrame(NORMAL, columns=list("abcdef")))


@pytest.fixture(scope="module")
def table():
    return pd.DataFrame(HOLES, columns=list("abcdef"))


@pytest.mark.parametrize("parts", [*PART_NAMES, ("values", "score"), ["expected", "score_if_fixed"]])
def test_parts_are_those_of_the_whole(detector, table, parts):
    whole, why = detector.explain(table), detector.explain(table, parts=parts)
    named = {parts} if isinstance(parts, str) else set(parts)
    assert set(why.parts) == named
    assert len(why) == len(whole)
    for name in PART_NAMES:
        if name in named:
            np.testing.assert_allclose(getattr(why, name), getattr(whole, name), rtol=0, atol=1e-12)
            continue
        with pytest.raises(AttributeError) as error:
            getattr(why, name)
        assert str(error.value) == f"{name} was not computed: call explain without parts, or add {name!r} to them."
    assert hasattr(why, "std_error") == ("values" in named)


def test_parts_that_were_not_asked_for_cost_nothing(detector, table, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("this was not asked for")

    explainer = detector.explainer()
    monkeypatch.setattr(type(explainer._engine), "share_out", refuse)
    explainer.explain(table, parts=("score", "expected", "score_if_fixed"))
    monkeypatch.undo()
    monkeypatch.setattr(type(explainer.score), "if_fixed", refuse)
    monkeypatch.setattr(type(explainer.score.distribution), "expected", refuse)
    explainer.explain(table, parts=("values", "score"))
    with pytest.raises(AssertionError):
        explainer.explain(table)


def test_unknown_parts(detector, table):
    with pytest.raises(ValueError, match="unknown part 'value': choose one of 'values', 'score'"):
        detector.explain(table, parts="value")
    with pytest.raises(ValueError, match="parts names nothing to compute: choose from 'values', 'score'"):
        detector.explain(table, parts=())


def test_an_explanation_of_parts_can_be_cut_joined_and_stored(detector, table):
    why = detector.explain(table, parts="values")
    for again in (
        Explanation.concatenate([why[:3], why[3:]]),
        pickle.loads(pickle.dumps(why)),
        Explanation.from_dict(why.to_dict()),
    ):
        assert again.parts == ("values",)
        np.testing.assert_array_equal(again.values, why.values)
    assert "values" in why._repr_html_()
    assert "40 rows x 6 players" in repr(why)
    with pytest.raises(AttributeError, match="score_if_fixed was not computed"):
        why.top(1)
    with pytest.raises(AttributeError, match="has no attribute 'valuess'"):
        _ = why.valuess


def test_a_base_value_of_each_row_belongs_to_the_values():
    explainer = SCORES["given"]()
    assert not hasattr(explainer.explain(NEW, parts="score"), "base_value")
    assert explainer.explain(NEW, parts="values").base_value.shape == (len(NEW),)


def test_counterfactuals_need_no_values(detector, table):
    some, whole = detector.explain(table, parts="score").counterfactual(), detector.explain(table).counterfactual()
    np.testing.assert_array_equal(some.score_if_changed, whole.score_if_changed)


def test_rows_without_any_cell_are_named_once(small_chunks):
    empty = NEW.copy()
    empty[[2, 30]] = np.nan
    with pytest.warns(UserWarning, match="2 rows have no observed feature, so they get no score: 2, 30") as caught:
        why = SCORES["spe"]().explain(empty)
    assert len(caught) == 1
    assert np.isnan(why.values[[2, 30]]).all()
    assert np.isnan(why.score[[2, 30]]).all()


def test_one_row_takes_few_calls():
    """Time depends on the machine, but calls do not: what depends on the model alone is not done for every row."""
    d = 21
    X = np.random.default_rng(0).normal(size=(200, 4)) @ np.random.default_rng(1).normal(size=(4, d))
    detector = PCADetector(4, limit=9.0).fit(X + 0.3 * np.random.default_rng(2).normal(size=X.shape))
    explainer = detector.explainer(groups={f"g{i}": [3 * i, 3 * i + 1, 3 * i + 2] for i in range(7)})
    explainer.compile()
    single = detector.explainer(method="permutation", n_orders=10).compile()
    for explain, most in ((explainer.explain, 900), (single.explain, 600)):
        explain(X[:1])
        profile = cProfile.Profile()
        profile.runcall(explain, X[:1])
        assert pstats.Stats(profile).total_calls < most
    detector.explain(X[:1])
    profile = cProfile.Profile()
    profile.runcall(detector._read, X[:1])
    assert pstats.Stats(profile).total_calls < 100


def test_a_gpu_gets_many_rows_at_once(monkeypatch, small_chunks):
    explainer = SCORES["spe"]().compile()
    expected, seen = explainer.explain(NEW), []
    monkeypatch.setattr(on_gpu, "forms_pay", lambda n_rows, n_coefficients, device: True)
    monkeypatch.setattr(on_gpu, "rows_there", lambda X, operations, device: seen.append(len(X)))
    np.testing.assert_allclose(explainer.explain(NEW).values, expected.values, rtol=1e-12, atol=1e-12)
    assert seen == [16, 16, 8]  # as many as are together, not as many as fit the cache
