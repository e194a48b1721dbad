"""Laws of the target given its mean, as the command's families have them.

Matrices of rows are n x k, of means m and own parameters; y is of shape (n, 1). `information` is Fisher's of the mean,
and `domain` has the least and the largest one.
"""

from __future__ import annotations

import numpy as np
from scipy import special

_STIRLING = 30.0  # from where the series of log Gamma has all digits
_LEAST = np.finfo(float).tiny  # what stands for a mean of 0


class StudentT:
    """log f = log Gamma((v+1)/2) - log Gamma(v/2) - log(v*pi)/2 - log s - (v+1)/2*log(1 + e^2/v), e = (y - m)/s."""

    whole = False
    domain = -np.inf, np.inf

    def information(self, m, s, dof):
        return (dof + 1) / ((dof + 3) * s * s) * np.ones_like(m)

    def log_density(self, y, m, s, dof):
        e = (y - m) / s
        return (special.gammaln((dof + 1) / 2) - special.gammaln(dof / 2) - np.log(dof * np.pi) / 2 - np.log(s)
                - (dof + 1) / 2 * np.log1p(e * e / dof))

    def below(self, y, m, s, dof):
        return special.stdtr(dof, (y - m) / s)

    def own_quantile(self, q, m, s, dof):
        return m + s * special.stdtrit(dof, q)

    def draw(self, random, m, s, dof):
        return m + s * random.standard_t(dof)


class Gamma:
    """log f = v*log(v/m) - log Gamma(v) + (v-1)*log y - v*y/m, of shape v."""

    whole = False
    domain = _LEAST, np.inf

    def information(self, m, shape):
        return shape / m / m

    def log_density(self, y, m, shape):
        ratio = y / m
        return shape * (np.log(ratio) - ratio + 1) - np.log(y) + _gamma_constant(shape)

    def below(self, y, m, shape):
        return special.gammainc(shape, np.maximum(shape * y / m, 0))

    def own_quantile(self, q, m, shape):
        return special.gammaincinv(shape, q) * m / shape

    def draw(self, random, m, shape):
        return random.standard_gamma(shape) * m / shape


class Poisson:
    """log f = y*log m - m - log y!."""

    whole = True
    domain = _LEAST, np.inf

    def information(self, m):
        return 1 / m

    def log_density(self, y, m):
        return special.xlogy(y, m) - m - special.gammaln(y + 1)

    def below(self, y, m):
        return np.where(y < 0, 0, special.gammaincc(np.maximum(np.floor(y), 0) + 1, m))

    def draw(self, random, m):
        return random.poisson(m).astype(float)


class NegativeBinomial:
    """log f = log Gamma(y+t)/(Gamma(t)*y!) + t*log(t/(t+m)) + y*log(m/(t+m)), of theta t: variance m + m^2/t."""

    whole = True
    domain = _LEAST, np.inf

    def information(self, m, theta):
        return theta / (m + theta) / m

    def log_density(self, y, m, theta):
        return (-np.log(y + theta) - special.betaln(theta, y + 1) - theta * np.log1p(m / theta)
                + special.xlogy(y, m / (theta + m)))

    def below(self, y, m, theta):
        return np.where(y < 0, 0, special.betainc(theta, np.maximum(np.floor(y), 0) + 1, theta / (theta + m)))

    def draw(self, random, m, theta):
        return random.poisson(random.standard_gamma(theta) * m / theta).astype(float)


class Binomial:
    """log f = log C(n, y) + y*log m + (n-y)*log(1-m), of n trials."""

    whole = True
    domain = _LEAST, 1 - 2.0 ** -53

    def information(self, m, trials):
        return trials / (m * (1 - m))

    def log_density(self, y, m, trials):
        return (special.gammaln(trials + 1) - special.gammaln(y + 1) - special.gammaln(trials - y + 1)
                + special.xlogy(y, m) + special.xlog1py(trials - y, -m))

    def below(self, y, m, trials):
        inside = np.clip(np.floor(y), 0, trials - 1)
        return np.where(y < 0, 0, np.where(y >= trials, 1, special.betainc(trials - inside, inside + 1, 1 - m)))

    def draw(self, random, m, trials):
        return random.binomial(np.asarray(trials, dtype=int), m).astype(float)


# What own parameters may be, and whether it is their reciprocals that are nearly normal, and not their logarithms.
OWN = {"sigma": (0, np.inf, False), "dof": (1, 1000, True), "shape": (1e-4, 1e12, False), "theta": (1e-6, 1e8, True)}

FAMILIES = {"student-t": StudentT(), "gamma": Gamma(), "poisson": Poisson(), "negative-binomial": NegativeBinomial(),
            "binomial": Binomial()}


def _gamma_constant(v):
    """v*log v - v - log Gamma(v), without a cancellation of large terms."""
    v = np.asarray(v, dtype=float)
    large = np.maximum(v, _STIRLING)
    inverse = 1 / large
    series = inverse / 12 - inverse**3 / 360 + inverse**5 / 1260 - inverse**7 / 1680
    small = np.minimum(v, _STIRLING)
    return np.where(v < _STIRLING, small * np.log(small) - small - special.gammaln(small),
                    0.5 * np.log(large / (2 * np.pi)) - series)


def refuse_outside(family, y, trials):
    """Refuse targets that the family does not take, with the first such row."""
    wrong, want = np.zeros(len(y), dtype=bool), "a number"
    if family.whole:
        wrong, want = (y < 0) | (y != np.floor(y)), "a count"
        if isinstance(family, Binomial):
            wrong, want = wrong | (y > trials[:, 0]), "a count of at most the trials"
    elif isinstance(family, Gamma):
        wrong, want = ~(y > 0), "a number above 0"
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"row {row}: the target is {y[row]:g}, want {want}")


def quantile(family, weights, means, own, q):
    """The least y with sum_i w_i*F_i(y) >= q of every row, to the last digits but a few, or the next whole number."""
    def below(y, rows):
        return (weights[rows] * family.below(y[:, None], means[rows], *(p[rows] for p in own))).sum(axis=1)

    n = len(means)
    if family.whole:
        lo, hi = np.full(n, -1.0), np.ones(n)
        rows = np.arange(n)
        while rows.size:  # F(hi) >= q
            rows = rows[below(hi[rows], rows) < q]
            lo[rows], hi[rows] = hi[rows], 2 * hi[rows]
    else:
        ends = family.own_quantile(q, means, *own)
        lo = np.where(weights > 0, ends, np.inf).min(axis=1)
        hi = np.where(weights > 0, ends, -np.inf).max(axis=1)
    rows = np.arange(n)
    for _ in range(2200):
        y = lo[rows] / 2 + hi[rows] / 2
        if family.whole:
            y = np.floor(y)
        inside = (y > lo[rows]) & (y < hi[rows])
        if not family.whole:
            inside &= hi[rows] - lo[rows] > 4e-16 * np.maximum(np.abs(lo[rows]), np.abs(hi[rows]))
        rows, y = rows[inside], y[inside]
        if not rows.size:
            break
        reached = below(y, rows) >= q
        hi[rows] = np.where(reached, y, hi[rows])
        lo[rows] = np.where(reached, lo[rows], y)
    return hi
