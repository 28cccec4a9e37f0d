"""Quadratic forms of many rows: the kernel, compiled and in plain Python, against the formula."""

import numpy as np
import pytest

from culpa._kernels import form_values
from culpa._kernels.form_values import FORM_VALUES, FormValues
from culpa._kernels.kernel import kernels_in_python
from culpa.shapley import QuadraticForms


def some_forms(d, n_forms, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_forms, d * (d + 1) // 2)), rng.normal(size=n_forms)


def by_definition(coefficients, constants, X):
    """x^T F x + c, with F an upper triangle of coefficients."""
    d = X.shape[1]
    values = []
    for form, constant in zip(coefficients, constants, strict=True):
        F = np.zeros((d, d))
        F[np.triu_indices(d)] = form
        values.append(np.einsum("na,ab,nb->n", X, F, X) + constant)
    return np.stack(values, axis=1)


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setattr(FORM_VALUES, "worth", 0.0)


@pytest.mark.parametrize("n", [1, 8, 13])
@pytest.mark.parametrize(("d", "n_forms"), [(1, 1), (4, 6), (5, 7)])
def test_in_plain_python(d, n_forms, n, always):
    coefficients, constants = some_forms(d, n_forms)
    X, result = np.random.default_rng(1).normal(size=(n, d)), np.full((n, n_forms), np.nan)
    compiled = FormValues.if_worth(coefficients, constants, n)
    with kernels_in_python():
        compiled.evaluate(X, result)
    np.testing.assert_allclose(result, by_definition(coefficients, constants, X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("with_coordinates", [False, True])
def test_compiled_forms_of_rows(with_coordinates, always):
    """All of `QuadraticForms`, in threads, with rows that lie in memory column by column."""
    d, n = 9, 3000
    coefficients, constants = some_forms(d, d)
    rng = np.random.default_rng(2)
    X = np.asfortranarray(rng.normal(size=(n, d)))
    coordinates = rng.normal(size=(d, d)) if with_coordinates else None
    forms = QuadraticForms(coefficients[None], constants[None], d, 0, coordinates)
    expected = by_definition(coefficients, constants, X if coordinates is None else X @ coordinates)
    np.testing.assert_allclose(forms(X).values, expected, rtol=1e-11, atol=1e-11)
    assert FORM_VALUES.is_ready


def test_what_the_kernel_leaves_to_arrays(monkeypatch):
    coefficients, constants = some_forms(4, 4)
    kernel = form_values.Kernel(FORM_VALUES.function, 1e9)
    monkeypatch.setattr(form_values, "FORM_VALUES", kernel)
    assert FormValues.if_worth(coefficients, constants, 10) is None
    assert FormValues.if_worth(coefficients, constants, 10**9) is not None
    monkeypatch.setattr(form_values, "_MOST_COEFFICIENTS", 39)
    assert FormValues.if_worth(coefficients, constants, 10**9) is None


@pytest.mark.parametrize("n", [1, 3, 4, 5])
def test_few_rows_and_many_have_the_same_values(n):
    coefficients, constants = some_forms(6, 3)
    X = np.random.default_rng(3).normal(size=(n, 6))
    forms = QuadraticForms(coefficients[None], constants[None], 6, 0)
    np.testing.assert_allclose(forms(X).values, by_definition(coefficients, constants, X), rtol=1e-12, atol=1e-12)
