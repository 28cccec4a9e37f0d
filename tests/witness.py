"""Independent witnesses: Shapley values straight from the definitions, with explicit submatrices and no shortcuts."""

import itertools
import math

import numpy as np


def coalitions(d):
    return [S for k in range(d + 1) for S in itertools.combinations(range(d), k)]


def shapley(values, d):
    """Eq. (8) of the paper from a dict of coalition -> value."""
    phi = []
    for i in range(d):
        others = [j for j in range(d) if j != i]
        total = 0.0
        for k in range(d):
            weight = math.factorial(k) * math.factorial(d - 1 - k) / math.factorial(d)
            for S in itertools.combinations(others, k):
                total += weight * (values[tuple(sorted((*S, i)))] - values[S])
        phi.append(total)
    return np.array(phi)


def conditional_value(C, A, x, S):
    """E[x^T A x | x_S] under N(0, C)."""
    S = list(S)
    m, V = np.zeros(len(x)), C.copy()
    if S:
        gain = C[:, S] @ np.linalg.inv(C[np.ix_(S, S)])
        m, V = gain @ x[S], C - gain @ C[S, :]
    return m @ A @ m + np.trace(A @ V)


def interventional_value(C, A, x, S):
    """E[q(x_S, X_T)] with X_T from its marginal."""
    T = [j for j in range(len(x)) if j not in S]
    S = list(S)
    return x[S] @ A[np.ix_(S, S)] @ x[S] + np.trace(A[np.ix_(T, T)] @ C[np.ix_(T, T)])


def retraining_value(covariance, x, S, p, *, mean, share=False):
    """Error of a PCA of the columns S, from the eigenvectors of their covariance."""
    if not S:
        return 0.0
    S = list(S)
    variances, axes = np.linalg.eigh(covariance[np.ix_(S, S)])
    variances, axes = variances[::-1], axes[:, ::-1]
    rank = min(p, len(S))
    if share:
        everything = np.sort(np.linalg.eigvalsh(covariance))[::-1]
        wanted = everything[:p].sum() / everything.sum()
        rank = next(r for r in range(1, len(S) + 1) if variances[:r].sum() >= (wanted - 1e-12) * variances.sum())
    U = axes[:, :rank]
    error = ((x[S] - U @ (U.T @ x[S])) ** 2).sum()
    return error / len(S) if mean else error


def minimal_value(A, x, S, gamma):
    """Smallest x^T A x + gamma |move|^2 by least squares."""
    d = len(x)
    variances, axes = np.linalg.eigh(A)
    root = (axes * np.sqrt(np.maximum(variances, 0))).T
    free = [i for i in range(d) if i not in S]
    system = np.vstack([root[:, free], np.sqrt(gamma) * np.eye(len(free))])
    aim = np.concatenate([-root @ x, np.zeros(len(free))])
    moves = np.linalg.lstsq(system, aim, rcond=1e-12)[0] if free else np.zeros(0)
    return ((system @ moves - aim) ** 2).sum()


def observed_score(C, A, observed):
    """Matrix and constant of E[x^T A x given the observed features of a Gaussian row], with dense matrices."""
    hidden = [i for i in range(len(C)) if i not in observed]
    gain = np.linalg.solve(C[np.ix_(observed, observed)], C[np.ix_(observed, hidden)])
    moves = np.zeros((len(C), len(observed)))
    moves[observed, np.arange(len(observed))] = 1.0
    moves[hidden] = gain.T
    spread = C[np.ix_(hidden, hidden)] - C[np.ix_(hidden, observed)] @ gain
    return moves.T @ A @ moves, (A[np.ix_(hidden, hidden)] * spread).sum()


def all_values(value, x):
    """Table of a value function over all coalitions."""
    return {S: value(x, S) for S in coalitions(len(x))}


def score_matrix(model, name, features=None, limits=None):
    """A of each score, from its textbook definition with dense matrices."""
    W, d = model.loadings, model.n_features
    noise = np.diag(np.broadcast_to(model.noise_variance, (d,)))
    C = W @ W.T + noise
    if np.ndim(model.noise_variance):
        M = W @ np.linalg.inv(np.eye(W.shape[1]) + W.T @ np.linalg.inv(noise) @ W) @ W.T @ np.linalg.inv(noise)
        Z = W.T @ np.linalg.inv(C)
        T2 = Z.T @ np.linalg.inv(Z @ C @ Z.T) @ Z
    else:
        U, s, _ = np.linalg.svd(W, full_matrices=False)
        M = U @ U.T
        T2 = U @ np.diag(1 / (s**2 + model.noise_variance)) @ U.T
    residual = np.eye(d) - M
    if name == "spe":
        E = np.eye(d) if features is None else np.diag([float(i in features) for i in range(d)])
        return residual.T @ E @ residual
    if name == "mse":
        return residual.T @ residual / d
    if name == "t2":
        return T2
    if name == "mahalanobis":
        return np.linalg.inv(C)
    return residual.T @ residual / limits[0] + T2 / limits[1]


def by_hand(normal, features, players, score="spe"):
    """Shapley values of groups of features, straight from the definition."""
    C, A = normal.gaussian.covariance, score_matrix(normal.gaussian, score)
    result = []
    for x in normal.standardise(features):

        def value(S, x=x):
            return conditional_value(C, A, x, sorted(i for k in S for i in players[k]))

        values = {S: value(S) for S in coalitions(len(players))}
        result.append(shapley(values, len(players)))
    return np.array(result)


def assert_sampled_agrees(why, exact):
    """A sampled explanation agrees with an exact one of the same rows, within its stated errors."""
    assert (np.abs(why.values - exact.values) <= 5 * why.std_error + 1e-12).all()
    assert abs(why.base_value - exact.base_value) <= 0.1 * exact.base_value
    np.testing.assert_allclose(why.score, exact.score)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)
    np.testing.assert_allclose(why.expected, exact.expected)
    np.testing.assert_allclose(why.score_if_fixed, exact.score_if_fixed, atol=1e-9)
