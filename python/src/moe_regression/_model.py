"""What a model's file says of rows, in numpy and scipy: no process is started.

With regressors a_i, gating w_i and the activation g the model of y given x is

    P(z=i|x) = softmax_i(<w_i, x> + v_i),   y | x, z=i ~ N(c_i + s_i*g(<a_i, x> + b_i), sigma_i^2)

or that of h(y), where the target has a scale h, or another family's law of mean g(<a_i, x> + b_i + offset). Matrices of
rows are n x k. Rows are told by their features x, n x d, and what else is known of them: `offset` and `trials`, of shape
(n,), where the model has them, and `groups`, n ids as text, where all rows of a group have one expert. A zero expert is one
class more of gate and posterior, the last.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path

import numpy as np
from scipy import special

from . import _activation, _command, _family, _terms

FORMATS = ("moe-model/v1", "moe-model/v2", "moe-model/v3", "moe-model/v4", "moe-model/v5",
           "moe-model/v6")
_PARAMETERS = ("regressors", "gating", "regressor_intercepts", "gating_intercepts", "output_scale", "sigma", "proportions",
               "own", "standard_errors", "covariance")
_BLOCK = 4096  # rows of which quantiles are found at a time


class Model:
    """A model as its file has it.

    Parameters
    ----------
    file : dict
        The members of the file.
    gate : str
        "maximum" or "penalised": of a fit whose gate separates rows, which of the file's models; "" is the penalised one
        where the file has it, as of the command.

    Raises
    ------
    ValueError
        The file is of a format, or a family, that is not known here, or has no such gate.
    """

    def __init__(self, file: dict, gate: str = ""):
        family = file.get("family") or ""
        if file.get("format") not in FORMATS or family and family not in _family.FAMILIES:
            what = family or file.get("format")
            raise ValueError(f"not a model that is known here: {what}, want one of {', '.join(FORMATS)}")
        self.file, self._which = file, gate
        self.used = file = _for_rows(file, gate)
        self.k, self.d = file["k"], file["d"]
        self.classes = self.k + bool(file.get("zero_expert"))  # of the gate
        self.features = list(file["features"])
        self.target = file["target"]
        self.scale = file.get("target_scale", "")
        self.regressors = np.array(file["regressors"], dtype=float).reshape(self.k, self.d)
        self.gating = np.array(file["gating"], dtype=float).reshape(self.classes - 1, self.d)
        self.intercepts = _or_zeros(file["regressor_intercepts"], self.k)
        self.gating_intercepts = _or_zeros(file["gating_intercepts"], self.classes - 1)
        output = file.get("output_scale") or {"offset": [0.0], "scale": [1.0]}
        self.offset = np.resize(output["offset"], self.k)
        self.output_scale = np.resize(output["scale"], self.k)
        self.family = _family.FAMILIES.get(family)  # None is normal noise
        self.sigma = _of_each(file["sigma"], self.k)
        self.own = {name: _of_each(value, self.k) for name, value in (file.get("own") or {}).items()}
        roles = file.get("roles") or {}
        self.offset_of, self.trials_of = roles.get("offset"), roles.get("trials")
        self.groups = file.get("groups") or None
        self.proportions = np.array(file["proportions"], dtype=float)
        self.design = _terms.Design(file["design"]) if file.get("design") else None
        self._gates = _gates(file.get("hierarchy", ""), self.k)
        try:
            leaves = file.get("leaves") or [file["activation"]]
            self._g = [_activation.activation(leaf, file.get("approximation")) for leaf in leaves]
        except _activation.UnknownActivationError:
            self._g = None
        self._uncertainty = _Uncertainty(self) if file.get("covariance") else None
        arrangements = file.get("arrangements") or {}
        self._alone = self._g is not None and arrangements.get("weight") is None

    def __getstate__(self):
        return self.file, self._which

    def __setstate__(self, state):
        self.__init__(*state)

    @classmethod
    def read(cls, path: str | os.PathLike) -> Model:
        """Read a model's file."""
        with open(path, encoding="utf-8") as f:
            return cls(json.load(f))

    def write(self, path: str | os.PathLike) -> None:
        """Write the model's file, which the command reads as well."""
        path = Path(path)
        beside = tempfile.NamedTemporaryFile("w", dir=path.parent or ".", delete=False, encoding="utf-8")
        try:
            with beside:
                json.dump(self.file, beside, indent=2)
                beside.write("\n")
            os.replace(beside.name, path)
        except BaseException:
            os.unlink(beside.name)
            raise

    @property
    def columns(self) -> list[str]:
        """The raw columns that the model reads."""
        return self.design.columns if self.design else self.features

    def matrix(self, columns: dict[str, np.ndarray]) -> np.ndarray:
        """Return the features, n x d, of raw columns by name."""
        missing = [name for name in self.columns if name not in columns]
        if missing:
            raise ValueError(f"no column {missing[0]!r}; there are {', '.join(map(repr, columns))}")
        if self.design:
            return self.design.matrix(columns)
        return np.column_stack([np.asarray(columns[name], dtype=float) for name in self.features])

    @property
    def names(self) -> list[str]:
        """What the classes of the gate are called."""
        return [f"expert{i + 1}" for i in range(self.k)] + ["zero"] * (self.classes - self.k)

    def experts(self, x: np.ndarray, offset=None) -> np.ndarray:
        """The experts' means of h(y), n x k, for features x, n x d; of binomial families their probabilities."""
        return self._means(x, offset)[:, :self.k]

    def _means(self, x, offset=None):
        """Means of all classes: that of a zero expert is 0, at which the laws of counts have no other value."""
        means = self._experts(x, offset)[0]
        return means if self.classes == self.k else np.column_stack([means, np.zeros(len(x))])

    def _experts(self, x, offset=None):
        """Means, s*g' and g."""
        if self._g is None:
            name = self.file["activation"]["name"]
            raise _activation.UnknownActivationError(f"the activation {name} is not in the model's file")
        g, dg = self._at(self._predictors(x, offset))
        return self.offset + self.output_scale * g, self.output_scale * dg, g

    def _predictors(self, x, offset=None):
        z = x @ self.regressors.T + self.intercepts
        if self.offset_of is None:
            return z
        if offset is None:
            raise ValueError(f"the model has an offset, {self.offset_of}: want it for these rows")
        return z + np.asarray(offset, dtype=float)[:, None]

    def _at(self, z, known=False):
        """g and g' at predictors, n x k; where not all of g is known at the nearest that is known, if that will do."""
        g, dg = np.empty_like(z), np.empty_like(z)
        for i in range(self.k):
            of = self._g[i % len(self._g)]
            lo, hi = getattr(of, "range", (-np.inf, np.inf)) if known else (-np.inf, np.inf)
            g[:, i], dg[:, i] = of(np.clip(z[:, i], lo, hi))
        return g, dg

    def logits(self, x: np.ndarray) -> np.ndarray:
        """The gate's predictors, n x classes, the last of them 0. They have all digits, however large the gate is."""
        out = np.zeros((len(x), self.classes))
        for j in range(self.classes - 1):
            out[:, j] = _exact_dot(x, self.gating[j], self.gating_intercepts[j])
        return out

    def scores(self, logits: np.ndarray) -> np.ndarray:
        """log P(z=i|x) of the gate's predictors, but for a constant of each row."""
        if self._gates is None:
            return logits
        out = logits.copy()
        out[:, -1] = 0
        for node, ends in self._gates:  # parents first: a node's own score stands at its last leaf
            z = np.concatenate([out[:, [end - 1 for end in ends[:-1]]], np.zeros((len(out), 1))], axis=1)
            z -= z.max(axis=1, keepdims=True)  # exact but for one rounding, before a sum could take digits of it
            rest = np.exp(np.sort(z, axis=1)[:, :-1]).sum(axis=1, keepdims=True)
            branch = out[:, [node - 1]] + z - np.log1p(rest)
            for column, end in enumerate(ends):
                out[:, end - 1] = branch[:, column]
        return out

    def gate(self, x: np.ndarray, groups=None) -> np.ndarray:
        """P(z=i|x), n x k; of a row in a group that the fit has seen P(z=i|all rows of it)."""
        out = _softmax(self.scores(self.logits(x)))
        for row, known in self._known(groups):
            out[row] = known
        return out

    def _known(self, groups):
        """Rows of groups that the fit has seen, with what the file knows of them."""
        posteriors = (self.groups or {}).get("posteriors") or {}
        if groups is not None and posteriors:
            yield from ((row, posteriors[g]) for row, g in enumerate(groups) if g in posteriors)

    def mean(self, x: np.ndarray, offset=None, trials=None, groups=None) -> np.ndarray:
        """E[y|x], or the median of y where it has no mean, that is where 1/y is normal."""
        gate, experts = self.gate(x, groups), self._means(x, offset)
        if self.scale == "reciprocal":
            return self._back(_quantile(gate, experts, np.broadcast_to(self.sigma, gate.shape), 0.5))
        mean = _finite((gate * _mean_of(self.scale, experts, self.sigma)).sum(axis=1))
        return mean if trials is None else mean * np.asarray(trials, dtype=float)

    def posterior(self, x: np.ndarray, y: np.ndarray, offset=None, trials=None, groups=None) -> np.ndarray:
        """P(z=i|x,y), n x k. Rows in groups have that of their group: where the fit has seen it what the file knows, else
        of all its rows here."""
        joint, _ = self._log_joint(x, y, offset, trials)
        if groups is None:
            return _softmax(joint)
        of, first = self._of_groups(groups)
        out = _softmax(self._joint_of_groups(x, joint, of, first))[of]
        for row, known in self._known(groups):
            out[row] = known
        return out

    def log_density(self, x: np.ndarray, y: np.ndarray, offset=None, trials=None) -> np.ndarray:
        """log p(y|x) of every row."""
        joint, constant = self._log_joint(x, y, offset, trials)
        return special.logsumexp(joint, axis=1) + constant

    def log_density_of_groups(self, x: np.ndarray, y: np.ndarray, groups, offset=None, trials=None) -> np.ndarray:
        """log p of all targets of a group given their features, in the order in which groups come."""
        joint, constant = self._log_joint(x, y, offset, trials)
        of, first = self._of_groups(groups)
        together = special.logsumexp(self._joint_of_groups(x, joint, of, first), axis=1)
        return together + np.bincount(of, weights=np.broadcast_to(constant, len(of)), minlength=len(first))

    @staticmethod
    def _of_groups(groups):
        """Which group each row has, numbered as they come, and where each has its first row."""
        place, of, first = {}, np.empty(len(groups), dtype=int), []
        for row, g in enumerate(groups):
            if g not in place:
                place[g] = len(place)
                first.append(row)
            of[row] = place[g]
        return of, np.array(first, dtype=int)

    def _joint_of_groups(self, x, joint, of, first):
        """log P(z=i|x) of each group and the sum over its rows of log f_i, but for constants of rows."""
        prior = self.scores(self.logits(x))
        prior = prior - special.logsumexp(prior, axis=1, keepdims=True)
        out = prior[first]
        for i in range(self.classes):
            out[:, i] += np.bincount(of, weights=joint[:, i] - prior[:, i], minlength=len(first))
        return out

    def _log_joint(self, x, y, offset=None, trials=None):
        """log P(z=i|x)*f_i(y), n x k, and what each row lacks of it, the same of all experts."""
        v = self._forth(y)
        scores = self.scores(self.logits(x))
        scores = scores - scores.max(axis=1, keepdims=True)
        scores = scores - special.logsumexp(scores, axis=1, keepdims=True)
        means = self._means(x, offset)
        if self.family is None:
            standard = (v[:, None] - means) / self.sigma
            return (scores - 0.5 * standard * standard - np.log(self.sigma),
                    -0.5 * np.log(2 * np.pi) + _log_slope(self.scale, v))
        own = self._own(means.shape, trials, needed=True)
        _family.refuse_outside(self.family, v, own[-1] if own else None)
        return scores + self.family.log_density(v[:, None], means, *own), 0.0

    def _own(self, shape, trials=None, needed=False):
        """The family's own parameters and trials, n x k each."""
        own = [np.broadcast_to(np.resize(v, self.classes) if self.classes > self.k else v, shape)
               for v in ([self.sigma] if self.used["sigma"] else []) + list(self.own.values())]
        if isinstance(self.family, _family.Binomial):
            if trials is None and needed and self.trials_of is not None:
                raise ValueError(f"the model's target is of {self.trials_of} trials: want them for these rows")
            trials = np.ones(shape[0]) if trials is None else np.asarray(trials, dtype=float)
            own.append(np.broadcast_to(trials[:, None], shape))
        return own

    def quantile(self, x: np.ndarray, q: float, offset=None, trials=None, groups=None) -> np.ndarray:
        """The q-quantile of y given x, of counts the least y with P(Y <= y) >= q. The parameters' covariance is in it, where
        the file has one."""
        if not 0 < q < 1:
            raise ValueError(f"quantile {q}: want a probability between 0 and 1")
        if self.scale == "reciprocal":
            q = 1 - q
        out = np.empty(len(x))
        for at in range(0, len(x), _BLOCK):
            part = slice(at, at + _BLOCK)
            known = [None if v is None else v[part] for v in (offset, trials, groups)]
            out[part] = self._quantile_of(x[part], q, *known)
        return self._back(out)

    def _quantile_of(self, x, q, offset, trials, groups):
        if self.family is None:
            return _quantile(*self._components(x, groups), q)
        means = self._means(x, offset)
        if self._uncertainty is None:
            return _family.quantile(self.family, self.gate(x, groups), means, self._own(means.shape, trials), q)
        out = np.empty(len(x))
        for rows, weights, m, own in self._uncertainty.laws(x, self._predictors(x, offset), means,
                                                            self._own(means.shape, trials), self._turn(x, groups)):
            out[rows] = _family.quantile(self.family, weights, m, own, q)
        return out

    def _components(self, x, groups=None):
        """Weights, means and deviations of the normal distributions that y given x is a mixture of."""
        means, slope, g = self._experts(x)
        if self._uncertainty is None:
            return self.gate(x, groups), means, np.broadcast_to(self.sigma, means.shape)
        return self._uncertainty.components(x, means, slope, g, self._turn(x, groups))

    def _turn(self, x, groups):
        """What is added to the gate's scores for what is known of the rows' groups."""
        turn = np.zeros((len(x), self.classes))
        for row, known in self._known(groups):
            with np.errstate(divide="ignore"):
                turn[row] = np.maximum(np.log(known), -700) - np.maximum(np.log(self.gate(x[[row]])[0]), -700)
        return turn

    def below(self, x: np.ndarray, y: np.ndarray, offset=None, trials=None, groups=None) -> np.ndarray:
        """P(Y <= y|x) of the parameters as they are, of whole numbers to the middle of their step."""
        v, gate, means = self._forth(y)[:, None], self.gate(x, groups), self._means(x, offset)
        if self.family is None:
            return (gate * special.ndtr((v - means) / self.sigma)).sum(axis=1)
        own = self._own(means.shape, trials, needed=True)
        each = self.family.below(v, means, *own)
        if self.family.whole:
            each = (each + self.family.below(v - 1, means, *own)) / 2
        return (gate * each).sum(axis=1)

    def sample(self, x: np.ndarray, random: np.random.RandomState, offset=None, trials=None, groups=None) -> np.ndarray:
        """One y for every row, of the parameters as they are. Rows are drawn one by one, those of a group too."""
        gate = self.gate(x, groups)
        z = (random.random_sample((len(x), 1)) > np.cumsum(gate, axis=1)).sum(axis=1).clip(max=self.classes - 1)
        rows = np.arange(len(x))
        means = self._means(x, offset)
        if self.family is None:
            return self._back(means[rows, z] + self.sigma[z] * random.standard_normal(len(x)))
        return self.family.draw(random, means[rows, z], *(p[rows, z] for p in self._own(means.shape, trials)))

    def _forth(self, y):
        y = np.asarray(y, dtype=float)
        if self.scale and not (y > 0).all():
            raise ValueError(f"{self.scale} of the target: want values above 0")
        return {"": lambda v: v, "log": np.log, "sqrt": np.sqrt, "reciprocal": lambda v: 1 / v}[self.scale](y)

    def _back(self, v):
        if self.scale == "log":
            return np.exp(v)
        if self.scale == "sqrt":
            return np.maximum(v, 0) ** 2
        if self.scale == "reciprocal":
            return np.where(v > 0, 1 / np.where(v > 0, v, 1), np.nan)
        return v


def _for_rows(file, gate):
    """The members of a file with the parameters by which rows are predicted."""
    penalised = file.get("penalised")
    if gate not in ("", "maximum", "penalised") or gate == "penalised" and not penalised:
        raise ValueError(f"gate {gate!r}: the file has no such gate")
    if not penalised or gate == "maximum":
        return file
    return {**file, "arrangements": None, **{name: value for name, value in penalised.items() if name in _PARAMETERS}}


def _of_each(value, k):
    """A value, or one of each expert, of every expert; NaN where there is none."""
    value = np.atleast_1d(np.array(value, dtype=float))
    return np.resize(value, k) if value.size else np.full(k, np.nan)


def _or_zeros(values, n):
    return np.zeros(n) if values is None else np.array(values, dtype=float)


def _finite(mean):
    if not np.isfinite(mean).all():
        row = int(np.argmin(np.isfinite(mean)))
        raise ValueError(f"the prediction for row {row} is {mean[row]}: its values are too large")
    return mean


def _softmax(scores):
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _mean_of(scale, m, sigma):
    if scale == "log":
        return np.exp(m + sigma * sigma / 2)
    if scale == "sqrt":
        return m * m + sigma * sigma
    return m


def _log_slope(scale, v):
    if scale == "log":
        return -v
    if scale == "sqrt":
        return -np.log(2 * v)
    if scale == "reciprocal":
        return 2 * np.log(v)
    return 0.0


def _exact_dot(x, w, constant):
    """<x, w> + constant with the roundings of products and sums added (Ogita, Rump & Oishi 2005)."""
    total = np.full(len(x), float(constant))
    lost = np.zeros(len(x))
    for j in np.flatnonzero(w):
        a, b = x[:, j], w[j]
        product = a * b
        (a1, a2), (b1, b2) = _split(a), _split(b)
        error = a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)
        with np.errstate(invalid="ignore"):
            after = total + product
            other = after - total
            rounding = (total - (after - other)) + (product - other) + error
        lost += np.where(np.isfinite(rounding), rounding, 0)
        total = after
    return total + lost


def _split(a):
    c = 134217729.0 * a  # 2^27 + 1
    high = c - (c - a)
    return high, a - high


def _gates(shape: str, k: int):
    """The gates of a hierarchy, parents first: the end of the leaves of each, and the ends of its branches."""
    if not re.search("x", shape):
        return None
    at, gates = 0, []

    def number():
        nonlocal at
        match = re.compile(r"\d+").match(shape, at)
        at = match.end()
        return int(match.group())

    def read(first):
        """Read a shape whose leaves begin at first; return where they end."""
        nonlocal at
        n = number()
        mine = len(gates)
        gates.append(None)
        ends, last = [], first
        if not shape.startswith("x", at):
            ends = list(range(first + 1, first + n + 1))
            last = first + n
        elif shape.startswith("x(", at):
            at += 2
            for _ in range(n):
                last = read(last)
                ends.append(last)
                at += 1  # the comma or the parenthesis
        else:
            at += 1
            begin = at
            for _ in range(n):
                at = begin
                last = read(last)
                ends.append(last)
        gates[mine] = (last, ends)
        return last

    if read(0) != k:
        raise ValueError(f"the hierarchy {shape} has not {k} leaves")
    return [gate for gate in gates if len(gate[1]) > 1]


def _quantile(weights, means, deviations, q):
    """y with sum_i w_i*Phi((y - m_i)/s_i) = q of every row, to the last digits but a few: Newton's steps within a bracket."""
    if q > 0.5:  # of -y, for as many digits in the tail
        return -_quantile(weights, -means, deviations, 1 - q)
    own = means + special.ndtri(q) * deviations
    lo = np.where(weights > 0, own, np.inf).min(axis=1)
    hi = np.where(weights > 0, own, -np.inf).max(axis=1)
    y = lo / 2 + hi / 2
    active = np.flatnonzero(lo < hi)
    for _ in range(2200):  # bisection alone crosses all numbers in fewer
        if not active.size:
            break
        w, m, s, v = weights[active], means[active], deviations[active], y[active]
        standard = (v[:, None] - m) / s
        excess = (w * special.ndtr(standard)).sum(axis=1) - q
        slope = (w * np.exp(-0.5 * standard * standard) / (s * np.sqrt(2 * np.pi))).sum(axis=1)
        lo[active] = np.where(excess < 0, v, lo[active])
        hi[active] = np.where(excess < 0, hi[active], v)
        middle = lo[active] / 2 + hi[active] / 2
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = v - excess / slope
        inside = (newton > lo[active]) & (newton < hi[active])
        after = np.where(excess == 0, v, np.where(inside, newton, middle))
        y[active] = after
        small = np.abs(after - v) <= 4e-16 * np.maximum(np.abs(v), np.abs(after))
        closed = hi[active] - lo[active] <= 4e-16 * np.abs(middle)
        active = active[~(small | closed | (excess == 0))]
    return y


class _Uncertainty:
    """The parameters' uncertainty in quantiles.

    (m, eta, log sigma)(x) is normal around the estimates with covariance J C J', to first order; the mean over the gate's
    predictors and log sigma is a cubature of the third degree (Julier & Uhlmann 1997), and given those the experts' means
    are normal, with variances as sigma squared. The covariance is taken from sigma of the maximum to sigma as it is
    corrected, and (estimate / sigma)^(2/3) is what is normal of sigma (Wilson & Hilferty 1931). Of other families than normal noise the predictors are, in the place of the means, and the law of y is a mean over them too.
    """

    def __init__(self, model: Model):
        self.model = model
        file = model.used
        covariance = file["covariance"]
        self.c = np.array(covariance["matrix"], dtype=float)
        corrected = (file.get("standard_errors") or {}).get("sigma_corrected")
        sigma = file["sigma"] if corrected is None else corrected
        self.sigma = _of_each(sigma, model.k)
        self.estimates = {**({"sigma": model.sigma} if file["sigma"] else {}), **model.own}
        self.centres = self.estimates  # the first corrected for the coefficients beside it
        dispersion = (file.get("standard_errors") or {}).get("dispersion_corrected")
        if dispersion is not None:
            self.centres = {**self.estimates, next(iter(self.estimates)): _of_each(dispersion, model.k)}
        self.means = [[] for _ in range(model.k)]  # of each expert: the row of C, and the kind or feature
        self.gates = [[] for _ in range(model.classes - 1)]
        self.levels = []  # the row of C, the expert, -1 for all, and the name of the own parameter
        for at, name in enumerate(covariance["parameters"]):
            self._place(at, name)
        self.spread = np.zeros(len(self.levels))  # the variance of log sigma of normal noise; 0 of other own parameters
        if model.family is None:
            self._correct()

    def _correct(self):
        ratio, by = self.sigma / self.model.sigma, np.ones(len(self.c))
        for i, parts in enumerate(self.means):
            for at, _ in parts:
                by[at] = max(by[at], ratio[i])
        for at, expert, _ in self.levels:
            by[at] = ratio[expert]
        self.c = self.c * np.outer(by, by)
        for j, (at, expert, _) in enumerate(self.levels):
            self.spread[j] = self.c[at, at] / self.model.sigma[max(expert, 0)] ** 2

    def _place(self, at, name):
        whose, _, column = name.partition(":")
        part, number = re.fullmatch(r"([a-z]+)(\d*)", whose).groups()
        index = int(number) - 1 if number else -1
        feature = self.model.features.index(column) if column in self.model.features else "intercept"
        if part == "expert":
            self.means[index].append((at, feature))
        elif part == "gate":
            self.gates[index].append((at, feature))
        elif part in self.estimates:
            self.levels.append((at, index, part))
        else:
            for i in range(self.model.k) if index < 0 else [index]:
                self.means[i].append((at, part))

    def components(self, x, means, slope, g, turn):
        root, shift, deviation = self._around(x, slope, g)
        weights, centres, deviations = [], [], []
        for weight, moved, own in self._points(self.model.logits(x), root, shift, turn, {"sigma": self.sigma}):
            weights.append(weight)
            centres.append(means + moved)
            deviations.append(own["sigma"] / self.sigma * np.hypot(self.sigma, deviation))
        return tuple(np.concatenate(part, axis=1) for part in (weights, centres, deviations))

    def laws(self, x, z, means, own, turn):
        """Of rows with rules of one size: which, and the laws that y is a mixture of, their weights, means and own parameters."""
        model, k, n = self.model, self.model.k, len(x)
        root, shift, deviation = self._around(x, np.ones_like(z), None)
        trials = own[len(self.estimates):]
        if self.centres is not self.estimates:  # the covariance is of the maximum's
            of = [self.model.family.information(means[:, :k], *(np.broadcast_to(v, z.shape) for v in psi.values()))
                  for psi in (self.estimates, self.centres)]
            ratio = of[0] / of[1]
            deviation = deviation * np.sqrt(np.where((ratio > 0) & np.isfinite(ratio), ratio, 1))
        halves = self._halves(z, deviation, [*(np.broadcast_to(v, z.shape) for v in self.centres.values()), *(v[:, :k] for v in trials)])
        least, largest = model.family.domain
        most = np.exp(20.0) * np.maximum(np.abs(means[:, :k]), 1)
        for half in np.unique(halves):
            rows = np.flatnonzero(halves == half)
            nodes, of = _rule(half)
            weights, centres, owns = [], [], [[] for _ in own]
            of_rows = self._points(model.logits(x[rows]), root[rows], shift[rows], turn[rows], self.centres)
            for weight, moved, psi in of_rows:
                psi = [np.broadcast_to(v, (len(rows), k)) for v in psi.values()]
                for t, share in zip(nodes, of):
                    m = model._at(z[rows] + moved + t * deviation[rows], known=True)[0]
                    m = np.where(np.isnan(m), means[rows, :k], m)
                    centres.append(np.clip(np.clip(m, -most[rows], most[rows]), least, largest))
                    weights.append(share * weight[:, :k])
                    for to, v in zip(owns, psi + [v[rows, :k] for v in trials]):
                        to.append(v)
                if model.classes > k:  # what is always 0
                    centres.append(np.zeros((len(rows), 1)))
                    weights.append(weight[:, k:])
                    for to in owns:
                        to.append(to[-1][:, :1])
            yield rows, *(np.concatenate(part, axis=1) for part in (weights, centres)), [np.concatenate(v, axis=1) for v in owns]

    def _halves(self, z, deviation, own):
        """How many nodes the rules of the rows want to either side: by what the law of y tells of z beside what is known."""
        ratio2 = np.zeros(len(z))
        least, most = self.model.family.domain
        for t in (-np.sqrt(3), 0, np.sqrt(3)):
            m, slope = self.model._at(z + t * deviation, known=True)
            with np.errstate(all="ignore"):
                told = (slope * deviation) ** 2 * self.model.family.information(m, *own)
            ratio2 = np.maximum(ratio2, np.where((m > least) & (m < most) & ~np.isnan(told), told, 0).max(axis=1))
        return np.where(ratio2 > 0.25, np.minimum(np.ceil(4 * np.sqrt(1 + ratio2)), 40), 1).astype(int)

    def _around(self, x, slope, g):
        """Of every row the factor of the covariance of what is hidden, what the means move with it, and their deviations."""
        n, k, h = len(x), self.model.k, len(self.gates) + len(self.levels)
        p = len(self.c)
        hidden, of_mean = np.zeros((n, h, p)), np.zeros((n, k, p))  # derivatives by the parameters
        for j, parts in enumerate(self.gates):
            for at, feature in parts:
                hidden[:, j, at] = 1 if feature == "intercept" else x[:, feature]
        for j, (at, expert, name) in enumerate(self.levels, len(self.gates)):
            psi = self.estimates[name][max(expert, 0)]
            hidden[:, j, at] = -1 / (psi * psi) if _family.OWN[name][2] else 1 / psi
        for i, parts in enumerate(self.means):
            for at, kind in parts:
                if kind == "offset":
                    of_mean[:, i, at] = 1
                elif kind == "scale":
                    of_mean[:, i, at] = g[:, i] if self.model.output_scale[i] else 0
                else:
                    of_mean[:, i, at] = slope[:, i] * (1 if kind == "intercept" else x[:, kind])
        turned = hidden @ self.c
        root = _factor(turned @ hidden.transpose(0, 2, 1))
        shift = _forward(root, turned @ of_mean.transpose(0, 2, 1))  # n x h x k
        variance = ((of_mean @ self.c) * of_mean).sum(axis=2) - (shift ** 2).sum(axis=1)
        return root, shift, np.sqrt(np.maximum(variance, 0))

    def _points(self, logits, root, shift, turn, own):
        """Of every point of the cubature the classes' probabilities, times its weight, how means move, and own parameters."""
        h, gates = root.shape[1], len(self.gates)
        t = max(3, h)
        for point in range(1 + 2 * h):
            along, by = (point - 1) // 2, 0.0 if point == 0 else np.sqrt(t) * (1 if point % 2 else -1)
            off = by * root[:, :, along] if point else np.zeros(root.shape[:2])
            moved = logits.copy()
            moved[:, :gates] += off[:, :gates]
            psi = {name: np.tile(v, (len(logits), 1)) for name, v in own.items()}
            for j, (_, expert, name) in enumerate(self.levels):
                of = slice(None) if expert < 0 else slice(expert, expert + 1)
                psi[name][:, of] = _moved(name, psi[name][:, of], off[:, [gates + j]], self.spread[j])
            yield ((1 - h / t if point == 0 else 1 / (2 * t)) * _softmax(self.model.scores(moved) + turn),
                   by * shift[:, along] if point else 0.0, psi)


def _moved(name, psi, by, spread):
    """An own parameter of which the reciprocal, or the logarithm, is moved; of normal noise, of that variance of log sigma, (1/sigma)^(2/3)."""
    least, most, reciprocal = _family.OWN[name]
    if spread > 0:
        moved = psi * np.maximum(1 - 4 * spread / 9 - 2 * by / 3, 0.14) ** -1.5
    else:
        moved = 1 / np.maximum(1 / psi + by, 1 / most) if reciprocal else psi * np.exp(np.minimum(by, 20))
    return np.clip(moved, least, most)


def _rule(half):
    """Nodes and weights for N(0, 1): Gauss and Hermite's three, or the trapezoidal rule from -5 to 5."""
    if half == 1:
        return np.sqrt(3) * np.array([-1.0, 0, 1]), np.array([1, 4, 1]) / 6
    nodes = 5 * np.arange(-half, half + 1) / half
    weights = np.exp(-nodes * nodes / 2)
    return nodes, weights / weights.sum()


def _factor(c):
    """Cholesky's factor of every row's matrix; what depends on the others has 0 on the diagonal."""
    root = np.zeros_like(c)
    for i in range(c.shape[1]):
        for j in range(i + 1):
            own = c[:, i, j]
            v = own - (root[:, i, :j] * root[:, j, :j]).sum(axis=1)
            if i == j:
                root[:, i, i] = np.sqrt(np.where(v > 1e-12 * own, v, 0))
            else:
                root[:, i, j] = _over(v, root[:, j, j])
    return root


def _forward(root, b):
    """root^-1 b of every row, 0 where the diagonal is."""
    out = np.zeros_like(b)
    for j in range(root.shape[1]):
        rest = b[:, j] - (root[:, j, :j, None] * out[:, :j]).sum(axis=1)
        out[:, j] = _over(rest, root[:, j, j][:, None])
    return out


def _over(a, b):
    return np.where(b > 0, a / np.where(b > 0, b, 1), 0)


def by_command(model: Model, table: np.ndarray, level: float = 0.0) -> dict[str, np.ndarray]:
    """What the command predicts for a table of records: of activations that only it evaluates.

    Returns
    -------
    dict
        Columns by name: mean, p1 ..., posterior1 ... where the table has the target, lower and upper for a level.
    """
    with tempfile.TemporaryDirectory(prefix="moe-") as place:
        file, data, out = (os.path.join(place, name) for name in ("model.json", "data.npy", "out.csv"))
        model.write(file)
        np.save(data, table)
        options = ["--interval", repr(level)] if level else []
        if model.file.get("penalised"):
            options += ["--gate", "maximum" if model.used is model.file else "penalised"]
        _command.run(["predict", file, data, "-o", out, *options])
        return _terms.read_csv(out)
