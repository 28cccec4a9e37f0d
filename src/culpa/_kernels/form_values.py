"""Quadratic forms of many rows, compiled: six forms of eight rows at a time.

BLAS needs all products x_a x_b of a row in memory, which takes as long as what is done with them. Here sums stay in
registers. For each form F, and two vectors of rows,

    y_a = sum over b >= a of F_ab x_b,   x^T F x = sum over a of x_a y_a

| symbol | code | meaning |
| --- | --- | --- |
| F | ``form`` | coefficients of six forms, one after the other for each a <= b |
| x | ``cells`` | eight rows, feature by feature |
| y | ``y``, ``y_too`` | of the first four rows, and of the other four |
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from typing import NamedTuple, Self

import numpy as np

from culpa._core.types import Floats
from culpa._kernels.kernel import Kernel
from culpa._kernels.vectors import LANES, lanes_of_zero, load, store

_FORMS = 6  # at a time: six sums for each of two vectors of rows fit into the registers
_ROWS = 2 * LANES
_MOST_COEFFICIENTS = 1 << 19  # which stay in the cache; BLAS is faster beyond


class FormValues(NamedTuple):
    """Quadratic forms as the kernel takes them."""

    forms: Floats  # (blocks, coefficients of six forms)
    constants: Floats  # (n_forms,)

    @classmethod
    def if_worth(cls, coefficients: Floats, constants: Floats, n_rows: int) -> Self | None:
        """Of coefficients (forms, products of features); ``None`` if array code should evaluate so many rows."""
        operations = float(n_rows) * coefficients.size
        if coefficients.size > _MOST_COEFFICIENTS:
            return None
        if not FORM_VALUES.pays(operations):
            FORM_VALUES.note_work_without(operations)
            return None
        n_forms, n_products = coefficients.shape
        n_blocks = -(-n_forms // _FORMS)
        padded = np.zeros((n_blocks * _FORMS, n_products))
        padded[:n_forms] = coefficients
        blocks = padded.reshape(n_blocks, _FORMS, n_products).transpose(0, 2, 1)
        return cls(np.ascontiguousarray(blocks.reshape(n_blocks, -1)), np.ascontiguousarray(constants))

    def evaluate(self, X: Floats, result: Floats) -> None:
        """Write the values of rows (n, d) to an array (n, forms)."""
        FORM_VALUES(self.forms, self.constants, np.ascontiguousarray(X), result)


def _plus(pair, left, right, factor):
    """Both sums, of four rows each, with products added."""
    return pair[0] + left * factor, pair[1] + right * factor


def _plus_each(pair, left, right, y):
    """The same with a factor of its own for each."""
    return pair[0] + left * y[0], pair[1] + right * y[1]


def _store_pair(found, offset, pair):
    store(found, offset, pair[0])
    store(found, offset + LANES, pair[1])


def _six_forms(form, cells, d, found):
    """x^T F x of eight rows, form by form."""
    zero = lanes_of_zero()
    none = (zero, zero)
    t_0, t_1, t_2, t_3, t_4, t_5 = none, none, none, none, none, none
    at = 0
    for a in range(d):
        y_0, y_1, y_2, y_3, y_4, y_5 = none, none, none, none, none, none
        for b in range(a, d):
            left, right = load(cells, _ROWS * b, zero), load(cells, _ROWS * b + LANES, zero)
            y_0 = _plus(y_0, left, right, load(form, at, 0.0))
            y_1 = _plus(y_1, left, right, load(form, at + 1, 0.0))
            y_2 = _plus(y_2, left, right, load(form, at + 2, 0.0))
            y_3 = _plus(y_3, left, right, load(form, at + 3, 0.0))
            y_4 = _plus(y_4, left, right, load(form, at + 4, 0.0))
            y_5 = _plus(y_5, left, right, load(form, at + 5, 0.0))
            at += _FORMS
        left, right = load(cells, _ROWS * a, zero), load(cells, _ROWS * a + LANES, zero)
        t_0, t_1 = _plus_each(t_0, left, right, y_0), _plus_each(t_1, left, right, y_1)
        t_2, t_3 = _plus_each(t_2, left, right, y_2), _plus_each(t_3, left, right, y_3)
        t_4, t_5 = _plus_each(t_4, left, right, y_4), _plus_each(t_5, left, right, y_5)
    _store_pair(found, 0, t_0)
    _store_pair(found, _ROWS, t_1)
    _store_pair(found, 2 * _ROWS, t_2)
    _store_pair(found, 3 * _ROWS, t_3)
    _store_pair(found, 4 * _ROWS, t_4)
    _store_pair(found, 5 * _ROWS, t_5)


def form_values(forms, constants, X, result):
    """Values of all forms for all rows."""
    n, d = X.shape
    cells, found = np.zeros(_ROWS * d), np.zeros(_ROWS * _FORMS)
    for start in range(0, n, _ROWS):
        n_here = min(_ROWS, n - start)
        for r in range(n_here):
            row = X[start + r]
            for i in range(d):
                store(cells, _ROWS * i + r, load(row, i, 0.0))
        for block in range(len(forms)):
            _six_forms(forms[block], cells, d, found)
            first = block * _FORMS
            for r in range(n_here):
                row = result[start + r]
                for k in range(min(_FORMS, len(constants) - first)):
                    store(row, first + k, load(found, _ROWS * k + r, 0.0) + load(constants, first + k, 0.0))


FORM_VALUES = Kernel(form_values, worth=3e10, calls=(_plus, _plus_each, _store_pair, _six_forms))
