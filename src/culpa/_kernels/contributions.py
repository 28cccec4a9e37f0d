"""Contributions of all features to coalitions, added up, compiled.

This is the part of `culpa.games.marginals` that has to be done for every row, for players of one feature where b' serves:
a few matrix products with the loadings for each coalition, and one pass over all features and rows. Arrays would take
several passes, which takes longer than the products.

| symbol | code | meaning |
| --- | --- | --- |
| W, V, b' | ``W``, ``V``, ``b`` | (d, p), (coalitions, p, p) and (p,) |
| | ``who`` | features that are players, (k,) |
| x | ``columns`` | rows by feature, (d, n) |
| z | ``z`` | latent variables given the coalition, (p, n) |
| z and V b' z | ``both`` | (p, 2 n); z alone if b' is 0 |
| W z and m | ``found_both`` | (k, 2 n) |
| | ``of_m``, ``of_r`` | weights of m and r in the slope, (coalitions, k) |
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np

from culpa._kernels.kernel import Kernel


def contributions(W, who, weights, V, b, of_m, of_r, columns, found):
    """Add r slope of all coalitions to ``found``, (k, n).

    ``weights`` (coalitions, d) are 1 / noise of the features inside, and 0 outside.
    """
    (d, p), k, n = W.shape, len(who), columns.shape[1]
    bends = False
    for e in range(p):
        bends = bends or b[e] != 0.0
    inside, seen = np.empty((d, p)), np.empty((d, n))
    width = 2 * n if bends else n
    of_players, both, found_both = W[who], np.empty((p, width)), np.empty((k, width))
    for c in range(len(V)):
        size = 0
        for i in range(d):
            weight = weights[c, i]
            if weight > 0.0:
                for e in range(p):
                    inside[size, e] = weight * W[i, e]
                for at in range(n):
                    seen[size, at] = columns[i, at]
                size += 1
        z = np.dot(V[c], np.dot(inside[:size].T, seen[:size]))
        both[:, :n] = z
        if bends:
            for e in range(p):
                for at in range(n):
                    z[e, at] *= b[e]
            both[:, n:] = np.dot(V[c], z)
        np.dot(of_players, both, found_both)
        for i in range(k):
            own, bend, curve = who[i], of_m[c, i], of_r[c, i]
            if bends:
                for at in range(n):
                    left = columns[own, at] - found_both[i, at]
                    found[i, at] += left * (bend * found_both[i, n + at] + curve * left)
            else:
                for at in range(n):
                    left = columns[own, at] - found_both[i, at]
                    found[i, at] += curve * left * left


CONTRIBUTIONS = Kernel(contributions, worth=2e9)
