"""Where floating point hurts: tiny noise, copies of columns, constant columns, wild scales; checked in high precision."""

import itertools
import math
import warnings

import cuda_on_cpu
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import culpa._core.threads
from culpa import PPCA, Explainer, LatentGaussian, PCADetector, scores, shapley
from culpa._kernels.cuda import device as gpu
from culpa.games import Conditional, Game, conditional
from culpa.games.game import Axes
from culpa.shapley import QuadraticForms, on_gpu

NAMES = ["spe", "t2", "mahalanobis", "features"]


def build(gaussian, name):
    return scores.of_features(gaussian, [0, 2]) if name == "features" else getattr(scores, name)(gaussian)


def high_precision(gaussian, name, x):
    """Shapley values of E[q | x_S] in 60 digits, from the loadings and the noise as given."""
    with mpmath.workdps(60):
        d, p = gaussian.loadings.shape
        W = mpmath.matrix(gaussian.loadings.tolist())
        noise = mpmath.diag([mpmath.mpf(float(v)) for v in np.broadcast_to(gaussian.noise_variance, (d,))])
        C, eye = W * W.T + noise, mpmath.eye(d)
        if np.ndim(gaussian.noise_variance):
            M = W * W.T * C**-1
            Z = W.T * C**-1
            T2 = Z.T * (Z * C * Z.T) ** -1 * Z
        else:
            s2 = noise[0, 0]
            M = W * (W.T * W) ** -1 * W.T
            # T2 = U diag(1/l) U^T with l = eigenvalues of W^T W + s2
            T2 = W * ((W.T * W) * (W.T * W + s2 * mpmath.eye(p))) ** -1 * W.T
        E = mpmath.diag([1 if name != "features" or i in (0, 2) else 0 for i in range(d)])
        A = {"t2": T2, "mahalanobis": C**-1}.get(name, (eye - M).T * E * (eye - M))
        row = mpmath.matrix([mpmath.mpf(float(v)) for v in x])
        value = {}
        for k in range(d + 1):
            for S in itertools.combinations(range(d), k):
                m, V = mpmath.zeros(d, 1), C.copy()
                if S:
                    CSS = mpmath.matrix(k, k)
                    CDS, xS = mpmath.matrix(d, k), mpmath.matrix(k, 1)
                    for a, i in enumerate(S):
                        xS[a] = row[i]
                        for b, j in enumerate(S):
                            CSS[a, b] = C[i, j]
                        for j in range(d):
                            CDS[j, a] = C[j, i]
                    gain = CDS * CSS**-1
                    m, V = gain * xS, C - gain * CDS.T
                AV = A * V
                value[S] = (m.T * A * m)[0] + sum(AV[i, i] for i in range(d))
        phi = []
        for i in range(d):
            others = [j for j in range(d) if j != i]
            total = mpmath.mpf(0)
            for k in range(d):
                weight = mpmath.mpf(math.factorial(k) * math.factorial(d - 1 - k)) / math.factorial(d)
                for S in itertools.combinations(others, k):
                    total += weight * (value[tuple(sorted((*S, i)))] - value[S])
            phi.append(float(total))
        return np.array(phi), float(value[tuple(range(d))]), float(value[()])


def all_orders(d):
    return shapley.OrderRule(np.stack([np.array(list(itertools.permutations(range(d))))]))


def by_gpu(game, x, players, else_):
    """Values by the kernels of a GPU, which the processor plays; of games that they do not walk, ``else_``."""
    if cuda_on_cpu.COMPILER is None or not on_gpu.serves(game):
        return else_
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu.LOADING, "_device", cuda_on_cpu.OnCpu(cuda_on_cpu.SMALL))
        one, several = (shapley.exact(game, np.tile(x, (n, 1)), players, device="gpu").values for n in (1, 3))
    np.testing.assert_allclose(several[2], one[0], rtol=0, atol=1e-8 * np.abs(one).max())
    return one[0]


def check(gaussian, name, x, rtol=1e-8):
    """Exact values and all orders, with arrays, with kernels and with those of a GPU, against high precision."""
    game, players = Conditional(build(gaussian, name)), [[i] for i in range(len(x))]
    expected, score, base = high_precision(gaussian, name, x)
    for pays in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(culpa._kernels.kernel.Kernel, "pays", lambda self, operations, pays=pays: pays)
            exact = shapley.exact(game, x[None], players).values[0]
            orders = shapley.permutation(game, x[None], players, all_orders(len(x))).values[0]
        for values in (exact, orders, by_gpu(game, x, players, exact)):
            assert np.isfinite(values).all()
            np.testing.assert_allclose(values, expected, rtol=0, atol=rtol * np.abs(expected).max())
            assert values.sum() + game.base_value == pytest.approx(game.score(x[None])[0], rel=rtol)
    assert game.base_value == pytest.approx(base, rel=1e-8)
    assert game.score(x[None])[0] == pytest.approx(score, rel=1e-8)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ratio", [1.1e-3, 1.1e-4, 1.1e-5, 1e-6, 1e-8, 1e-12])
@pytest.mark.parametrize("anomalous", [False, True])
def test_tiny_noise(name, ratio, anomalous):
    rng = np.random.default_rng(0)
    W = np.linalg.qr(rng.normal(size=(5, 3)))[0] * np.sqrt([1.0, 0.5, 0.1])
    gaussian = LatentGaussian(np.zeros(5), W, ratio)
    x = gaussian.sample(1, 1)[0]
    if anomalous:
        x[2] += 1.0
    check(gaussian, name, x)


@pytest.mark.parametrize("name", ["spe", "t2", "mahalanobis"])
@pytest.mark.parametrize("weakest", [1e-10, 1e-6, 2e-4, 0.1])
def test_a_component_that_hardly_rises_above_tiny_noise(name, weakest):
    rng = np.random.default_rng(4)
    directions = np.linalg.qr(rng.normal(size=(6, 3)))[0]
    W = directions * np.sqrt([1.0, 1e-4, 1e-10 * weakest])
    check(LatentGaussian(np.zeros(6), W, 1e-10), name, rng.normal(size=6))


@pytest.mark.parametrize("name", ["spe", "t2"])
def test_components_made_of_rounding_errors(name):
    """Five components of features that say only four things."""
    rng = np.random.default_rng(5)
    W = rng.normal(size=(6, 5))
    W[2], W[5] = 0.0, 1e-4 * W[4]
    check(LatentGaussian(np.zeros(6), W, 1e-9), name, rng.normal(size=6))


def test_weak_components_keep_their_digits_beside_strong_ones(monkeypatch):
    rng = np.random.default_rng(2412)
    directions = np.linalg.svd(rng.normal(size=(6, 3)) * 10.0 ** rng.uniform(-4, 0, size=(6, 1)), full_matrices=False)[
        0
    ]
    gaussian = LatentGaussian(np.zeros(6), directions * np.sqrt([1.0, 1e-18, 1e-3]), 1e-9)
    x = gaussian.sample(1, 2412)[0]
    check(gaussian, "spe", x, rtol=1e-10)
    sort = np.argsort
    as_they_came = lambda values, **options: np.arange(len(values)) if np.ndim(values) == 1 else sort(values, **options)  # noqa: E731
    monkeypatch.setattr(np, "argsort", as_they_came)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check(gaussian, "spe", x)


def test_who_decides_last_matters_where_rows_break_what_columns_have_in_common(monkeypatch):
    """Columns that follow from others, of which one row makes an exception: T2 moves far for tiny reasons."""
    rng = np.random.default_rng(3)
    errors = []
    for order in (Conditional.deciding_order, Game.deciding_order):
        monkeypatch.setattr(Conditional, "deciding_order", order)
        monkeypatch.setattr(culpa._kernels.kernel.Kernel, "pays", lambda self, operations: True)
        worst = 0.0
        for seed in range(3):
            rng = np.random.default_rng(seed)
            z, small = rng.normal(size=(300, 3)), 1e-5 * rng.normal(size=300)
            X = np.column_stack([z, z[:, 0], z[:, 0] + z[:, 1], 2 * z[:, 2], z[:, 1] - z[:, 2] + small])
            X = (X - X.mean(axis=0)) / X.std(axis=0)
            gaussian, x = PPCA(3).fit(X).gaussian_, X[0] + 5 * (np.arange(7) == 3)
            values = shapley.exact(Conditional(scores.t2(gaussian)), x[None], [[i] for i in range(7)]).values[0]
            expected = high_precision(gaussian, "t2", x)[0]
            worst = max(worst, np.abs(values - expected).max() / np.abs(expected).max())
        errors.append(worst)
    assert errors[0] < 2e-10 < 1e-9 < errors[1]


def collinear(ratio):
    """A model with a copy and a sum among its columns, and rows as they should be."""
    W = np.random.default_rng(6).normal(size=(7, 3))
    W[3], W[5] = W[0], W[0] + W[1]
    gaussian = LatentGaussian(np.zeros(7), W / np.linalg.norm(W, 2), ratio)
    return gaussian, gaussian.sample(300, 7)


def by_row(actual, expected):
    return (np.abs(actual - expected).max(axis=1) / np.abs(expected).max(axis=1)).max()


LEAST = conditional._FORMS_KEEP_DIGITS
SINGLES = [[i] for i in range(7)]


def largest_difference(actual, expected, base):
    """Relative to the largest value of each row, or to an equal share of the base value."""
    size = np.abs(expected).max(axis=1) + abs(base) / expected.shape[1]
    return (np.abs(actual - expected).max(axis=1) / size).max()


@pytest.mark.parametrize("ratio", [1.01 * LEAST, 0.99 * LEAST, 1e-8, 1e-10, 1e-12])
@pytest.mark.parametrize("name", ["spe", "t2", "mahalanobis", "combined", "features"])
@pytest.mark.parametrize("broken", [0.0, 3.0])
def test_forms_are_as_good_as_walks(name, ratio, broken):
    gaussian, X = collinear(ratio)
    X = X + broken * (np.random.default_rng(8).random(X.shape) < 0.15)
    score = scores.combined(gaussian, 10 * ratio, 10.0) if name == "combined" else build(gaussian, name)
    game = Conditional(score)
    assert game.forms_keep_digits
    assert (game.axes is None) == (ratio > LEAST)
    game.__dict__["_well_conditioned"] = False  # the walk with most digits
    # rows tell where they are between the model's planes to 2e-16 / sqrt(ratio), which walks and forms round differently
    least = max(1e-10, 10 * np.finfo(float).eps / np.sqrt(ratio))
    walked = shapley.exact(game, X, SINGLES).values
    forms = shapley.compile_exact(game, SINGLES)
    assert largest_difference(forms(X).values, walked, game.base_value) < least
    again = QuadraticForms.from_arrays(forms.to_arrays())
    np.testing.assert_array_equal(again(X).values, forms(X).values)


@pytest.mark.parametrize(("name", "ratio"), [("spe", 1e-12), ("t2", 1e-12)])
def test_forms_are_as_close_to_sixty_digits_as_walks(name, ratio):
    gaussian, X = collinear(ratio)
    X = (X + 3.0 * (np.random.default_rng(8).random(X.shape) < 0.15))[:2]
    game = Conditional(build(gaussian, name))
    exact = np.array([high_precision(gaussian, name, x)[0] for x in X])
    error = by_row(shapley.compile_exact(game, SINGLES)(X).values, exact)
    assert error < 1e-11 + 3 * by_row(shapley.exact(game, X, SINGLES).values, exact)


@st.composite
def models_with_little_noise(draw):
    """Copies, sums, near copies, tiny components and features without loadings, in models with very little noise."""
    d = draw(st.integers(3, 6))
    p = draw(st.integers(1, d - 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    W = rng.normal(size=(d, p)) * 10.0 ** -rng.uniform(0, draw(st.sampled_from([0, 5])), size=p)
    for kind in draw(st.lists(st.sampled_from(["copy", "sum", "near copy", "nothing"]), max_size=2)):
        i, j, k = rng.integers(0, d, size=3)
        W[i] = {"copy": W[j], "sum": W[j] + W[k], "near copy": W[j] + 1e-5 * W[k], "nothing": 0 * W[j]}[kind]
    noise = 10.0 ** -draw(st.integers(5, 12))
    if draw(st.booleans()):
        noise = noise * 10.0 ** rng.uniform(0, 2, size=d)
    return LatentGaussian(np.zeros(d), W / max(np.linalg.norm(W, 2), 1e-3), noise), rng


@settings(deadline=None, max_examples=60)
@given(models_with_little_noise(), st.sampled_from(["spe", "t2", "mahalanobis"]))
def test_compiled_values_are_accurate_or_refused(case, name):
    gaussian, rng = case
    explainer = Explainer(gaussian, score=name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        explainer.compile()
    if explainer.forms is not None:
        rows = gaussian.sample(30, rng)
        rows += 3 * (rng.random(rows.shape) < 0.15)
        walked = shapley.exact(explainer.game, rows, explainer.players).values
        found = explainer.explain(rows).values
        assert largest_difference(found, walked, explainer.game.base_value) < 1e-8


def test_forms_that_lose_digits_are_refused(monkeypatch):
    gaussian, X = collinear(1e-10)
    explainer = Explainer(gaussian, score="t2")
    monkeypatch.setattr(conditional, "axes_of", short_axes)
    with pytest.warns(UserWarning, match="compiled values would lose digits. Each row is computed separately"):
        assert explainer.compile().forms is None
    many = explainer.explain(np.tile(X, (20, 1))).values[: len(X)]
    assert explainer.forms is None
    assert by_row(many, Explainer(gaussian, score="t2").explain(X).values) < 1e-9


def short_axes(score):
    """As long as standard deviations, which is too short for T2."""
    directions, sizes, _ = np.linalg.svd(score.gaussian.loadings)
    length = np.sqrt(np.pad(sizes**2, (0, len(directions) - len(sizes))) + score.gaussian.noise)
    return Axes((directions * length).T, directions / length)


def test_less_noise_than_models_have_is_not_compiled():
    gaussian, X = collinear(1e-14)
    explainer = Explainer(gaussian, score="spe")
    explainer.explain(np.tile(X, (20, 1)))
    assert explainer.forms is None
    with pytest.warns(UserWarning, match="Each row is computed separately"):
        assert explainer.compile().forms is None


def test_how_many_digits_forms_would_lose_in_the_rows_own_coordinates(monkeypatch):
    gaussian, X = collinear(1e-10)
    game = Conditional(build(gaussian, "spe"))
    walked = shapley.exact(game, X, SINGLES).values
    game.__dict__["axes"] = None
    assert by_row(shapley.compile_exact(game, SINGLES)(X).values, walked) > 1e-7


@pytest.mark.parametrize("name", ["spe", "t2", "mahalanobis"])
def test_elimination_has_ten_digits_where_it_is_used(name):
    """Just above the switch to factors, rows as they should be and rows that break what columns have in common."""
    weighed = "residuals" if name == "spe" else "latent variables"
    gaussian, X = collinear(1.01 * conditional._WELL_CONDITIONED[weighed])
    X = np.concatenate([X, X + 3.0 * (np.random.default_rng(8).random(X.shape) < 0.15)])
    game = Conditional(build(gaussian, name))
    assert game._well_conditioned
    by_elimination = shapley.exact(game, X, SINGLES).values
    game.__dict__["_well_conditioned"] = False
    assert 0 < by_row(by_elimination, shapley.exact(game, X, SINGLES).values) < 1e-10


@pytest.mark.parametrize("name", NAMES)
def test_tiny_noise_of_some_features(name):
    rng = np.random.default_rng(1)
    gaussian = LatentGaussian(np.zeros(5), rng.normal(size=(5, 2)), np.array([1e-12, 0.3, 0.1, 1e-10, 0.2]))
    check(gaussian, name, rng.normal(size=5))


def training_table(case):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(60, 5))
    if case == "duplicated columns":
        X[:, 3] = X[:, 1]
        X[:, 4] = X[:, 0]
    elif case == "constant column":
        X[:, 2] = 7.0
    elif case == "fewer rows than features":
        X = X[:4]
    elif case == "two features":
        X = X[:, :2]
    elif case == "wild scales":
        X = X * [1.0, 1e6, 1.0, 1.0, 1.0]
    elif case == "far from zero":
        X = X + 1e8
    return X


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize(
    "case",
    [
        "duplicated columns",
        "constant column",
        "fewer rows than features",
        "two features",
        "wild scales",
        "far from zero",
        "all but one component",
    ],
)
def test_awkward_tables(case, scale):
    X = training_table(case)
    p = {"two features": 1, "all but one component": 4, "fewer rows than features": 2}.get(case, 3)
    detector = PCADetector(p, scale=scale).fit(X)
    new = X[:2].copy()
    new[1] += np.where(np.arange(X.shape[1]) == 1, 3.0, 0.0)
    normal = detector.fitted.deciding_model
    for name in ("spe", "t2", "mahalanobis", "combined"):
        why = Explainer(detector, score=name).explain(new)
        assert np.isfinite(why.values).all()
        assert np.isfinite(why.expected).all()
        assert (why.score_if_fixed >= 0).all()
        gap = np.abs(why.values.sum(axis=1) + why.base_value - why.score)
        assert (gap <= 1e-9 * np.maximum(why.score, why.base_value)).all()
    for name in ("spe", "mahalanobis"):
        check(normal.gaussian, name, normal.standardise(new)[1])


def test_a_constant_column_can_be_blamed():
    X = training_table("constant column")
    new = X[:1].copy()
    new[0, 2] = 9.0
    top = PCADetector(3).fit(X).explain(new).top(1)
    assert top["feature"][0] == "x2"
    assert top["expected"][0] == pytest.approx(7.0)


def test_expected_values_with_tiny_noise():
    """A feature that nothing else explains is expected at its mean, without losing digits to 1 - 1."""
    W = np.zeros((4, 2))
    W[:3, 0], W[3, 1] = [1.0, 0.8, 0.6], 1.0
    gaussian = LatentGaussian(np.zeros(4), W, 1e-12)
    expected = gaussian.expected(np.array([[1.0, 0.8, 0.6, 2.0]]))
    np.testing.assert_allclose(expected, [[1.0, 0.8, 0.6, 0.0]], atol=1e-9)


def test_noise_variance_does_not_depend_on_the_solver():
    """A mean of 1e8 times the spread must not be squared, and n < d must not shrink the divisor."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 2)) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(100, 6))
    assert PPCA(2).fit(X + 1e8).noise_variance_ == pytest.approx(PPCA(2).fit(X).noise_variance_, rel=1e-6)
    few = X[:5]
    eigenvalues = np.sort(np.linalg.eigvalsh(np.cov(few, rowvar=False)))
    assert PPCA(2).fit(few).noise_variance_ == pytest.approx(eigenvalues[:4].sum() / 4, rel=1e-9)


def test_a_score_with_a_feature_fixed_is_not_below_zero():
    z = np.random.default_rng(0).normal(size=(500, 3))
    X = np.column_stack([z, z[:, 0] + z[:, 1], 1.8 * z[:, 2] + 32])
    new = X[:20] + 3.0 * (np.arange(5) == 3)
    assert (PCADetector(3).fit(X).explain(new).score_if_fixed >= 0).all()
