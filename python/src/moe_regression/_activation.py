"""Activations in numpy: g and its derivative, from what a model's file has of them."""

from __future__ import annotations

import ast
import math

import numpy as np
from scipy import special


class UnknownActivationError(ValueError):
    """Nothing here evaluates that activation."""


class OutsideError(ValueError):
    """An argument lies outside of the range of an approximation."""


def activation(entry: dict, approximation: dict | None = None):
    """Return the function z -> (g(z), g'(z)) of an activation in a model's file.

    Parameters
    ----------
    entry : dict
        The member `activation` of the file, or one of its `leaves`.
    approximation : dict, optional
        The member `approximation` of the file.
    """
    name, params = entry["name"], entry.get("params") or {}
    if name in BUILTINS:
        return BUILTINS[name](**params)
    if name.startswith("expr:"):
        return Expression(name.removeprefix("expr:"), params)
    if entry.get("table"):
        return Curve(**{key: entry["table"][key] for key in ("z", "g", "slopes")})
    if approximation:
        return Approximation(approximation)
    raise UnknownActivationError(f"the activation {name} is not in the model's file")


def _relu(slope=0.0):
    return lambda z: (np.where(z > 0, z, slope * z), np.where(z > 0, 1.0, slope))


def _sigmoid():
    def at(z):
        p = special.expit(z)
        return p, p * special.expit(-z)
    return at


def _tanh():
    def at(z):
        g = np.tanh(z)
        return g, (1 - g) * (1 + g)
    return at


def _exp():
    def at(z):
        dg = np.exp(np.minimum(z, 600))
        return np.where(z > 600, 1 + (z - 600), 1) * dg, dg
    return at


def _softplus(beta=1.0):
    return lambda z: (np.logaddexp(0, beta * z) / beta, special.expit(beta * z))


def _probit():
    return lambda z: (special.ndtr(z), np.exp(-z * z / 2) / math.sqrt(2 * math.pi))


BUILTINS = {
    "identity": lambda: lambda z: (z, np.ones_like(z)),
    "relu": _relu,
    "leakyrelu": lambda slope=0.01: _relu(slope),
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "exp": _exp,
    "softplus": _softplus,
    "probit": _probit,
}

_SQRT_2PI = math.sqrt(2 * math.pi)

# Of functions of one argument: the value and the derivative.
_FUNCTIONS = {
    "exp": lambda v: (np.exp(v), np.exp(v)),
    "log": lambda v: (np.log(v), 1 / v),
    "log1p": lambda v: (np.log1p(v), 1 / (1 + v)),
    "expm1": lambda v: (np.expm1(v), np.exp(v)),
    "sqrt": lambda v: (np.sqrt(v), 0.5 / np.sqrt(v)),
    "cbrt": lambda v: (np.cbrt(v), 1 / (3 * np.cbrt(v) ** 2)),
    "abs": lambda v: (np.abs(v), np.sign(v)),
    "tanh": lambda v: _tanh()(v),
    "sinh": lambda v: (np.sinh(v), np.cosh(v)),
    "cosh": lambda v: (np.cosh(v), np.sinh(v)),
    "atan": lambda v: (np.arctan(v), 1 / (1 + v * v)),
    "erf": lambda v: (special.erf(v), 2 / math.sqrt(math.pi) * np.exp(-v * v)),
    "erfc": lambda v: (special.erfc(v), -2 / math.sqrt(math.pi) * np.exp(-v * v)),
    "Phi": lambda v: (special.ndtr(v), np.exp(-v * v / 2) / _SQRT_2PI),
    "softplus": lambda v: (np.logaddexp(0, v), special.expit(v)),
    "sigmoid": lambda v: _sigmoid()(v),
    "sign": lambda v: (np.sign(v), np.zeros_like(v)),
}

_COMPARE = {ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal, ast.Eq: np.equal}


class Expression:
    """An expression of z, such as ``z*tanh(softplus(z))``, with its derivative by forward differentiation.

    >>> import numpy as np
    >>> g, dg = Expression("where(z < 0, 0, z^3)", {})(np.array([-1.0, 2.0]))
    >>> g.tolist(), dg.tolist()
    ([0.0, 8.0], [0.0, 12.0])
    """

    def __init__(self, text: str, params: dict[str, float]):
        # The language has the operations of Python and binds them as Python does, but for the sign of powers.
        self.tree = ast.parse(text.strip().replace("^", "**"), mode="eval").body
        self.params = params

    def __call__(self, z):
        with np.errstate(all="ignore"):
            g, dg = self._of(self.tree, np.asarray(z, dtype=float))
            return np.broadcast_to(g, z.shape).copy(), np.broadcast_to(dg, z.shape).copy()

    def _condition(self, node, z):
        if isinstance(node, ast.BoolOp):
            every = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            return every.reduce([np.broadcast_to(self._condition(v, z), z.shape) for v in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return np.logical_not(self._condition(node.operand, z))
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
            return _COMPARE[type(node.ops[0])](self._of(node.left, z)[0], self._of(node.comparators[0], z)[0])
        raise UnknownActivationError(f"a condition that is not of the language: {ast.unparse(node)}")

    def _of(self, node, z):
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return float(node.value), 0.0
        if isinstance(node, ast.Name):
            return (z, 1.0) if node.id == "z" else (float(self.params[node.id]), 0.0)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            v, d = self._of(node.operand, z)
            return (-v, -d) if isinstance(node.op, ast.USub) else (v, d)
        if isinstance(node, ast.BinOp):
            return self._binary(node, *self._of(node.left, z), *self._of(node.right, z))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._call(node.func.id, node.args, z)
        raise UnknownActivationError(f"not of the language: {ast.unparse(node)}")

    @staticmethod
    def _binary(node, a, da, b, db):
        if isinstance(node.op, ast.Add):
            return a + b, da + db
        if isinstance(node.op, ast.Sub):
            return a - b, da - db
        if isinstance(node.op, ast.Mult):
            return a * b, _times(da, b) + _times(db, a)
        if isinstance(node.op, ast.Div):
            return np.divide(a, b), np.divide(da, b) - _times(db, np.divide(a, np.multiply(b, b)))
        if isinstance(node.op, ast.Pow):
            g = np.power(np.asarray(a, dtype=float), b)
            slope = _times(da, b * np.power(np.asarray(a, dtype=float), np.subtract(b, 1)))
            return g, slope if np.all(db == 0) else slope + _times(db, g * np.log(a))
        raise UnknownActivationError(f"not of the language: {ast.unparse(node)}")

    def _call(self, name, args, z):
        if name == "where":
            at = self._condition(args[0], z)
            (a, da), (b, db) = self._of(args[1], z), self._of(args[2], z)
            return np.where(at, a, b), np.where(at, da, db)
        values = [self._of(a, z) for a in args]
        if name in ("min", "max"):
            (a, da), (b, db) = values
            at = np.less(a, b) if name == "min" else np.greater(a, b)
            return np.where(at, a, b), np.where(at, da, db)
        g, dg = _FUNCTIONS[name](np.asarray(values[0][0], dtype=float))
        return g, _times(values[0][1], dg)


def _times(d, v):
    """d*v, 0 where d is, whatever v is."""
    return np.where(np.equal(d, 0), 0.0, np.multiply(d, v))


class Curve:
    """The curve through points with slopes: a cubic on each interval, lines beyond."""

    def __init__(self, z, g, slopes):
        self.z, self.g, self.slopes = (np.asarray(v, dtype=float) for v in (z, g, slopes))

    def __call__(self, z):
        x, g, m = self.z, self.g, self.slopes
        i = np.clip(np.searchsorted(x, z, side="right") - 1, 0, len(x) - 2)
        h = x[i + 1] - x[i]
        chord = (g[i + 1] - g[i]) / h
        t = z - x[i]
        second = (3 * chord - 2 * m[i] - m[i + 1]) / h
        third = (m[i] + m[i + 1] - 2 * chord) / (h * h)
        value = g[i] + t * (m[i] + t * (second + t * third))
        slope = m[i] + t * (2 * second + 3 * t * third)
        for beyond, end in ((z < x[0], 0), (z > x[-1], -1)):
            value = np.where(beyond, g[end] + m[end] * (z - x[end]), value)
            slope = np.where(beyond, m[end], slope)
        return value, slope


class Approximation:
    """g and g' as the piecewise polynomials of a file; beyond their range there is nothing."""

    def __init__(self, member: dict):
        if member["version"] != 1:
            raise UnknownActivationError(f"an approximation of version {member['version']}, want 1")
        self.tables = [self._table(member[part]) for part in ("value", "derivative")]
        edges = [table[0] for table in self.tables]
        self.range = max(e[0] for e in edges), np.nextafter(min(e[-1] for e in edges), -np.inf)

    @staticmethod
    def _table(part):
        edges, terms = np.asarray(part["edges"]), np.asarray(part["terms"])
        coefficients, at = np.zeros((len(terms), 8)), 0
        for i, n in enumerate(terms):
            coefficients[i, :n] = part["coefficients"][at:at + n]
            at += n
        left, right = edges[:-1], edges[1:]
        centre = np.where(terms > 2, (left + right) / 2, 0)
        slope = np.where(terms > 2, 2 / (right - left), 1)
        return edges, centre, slope, coefficients

    def __call__(self, z):
        return tuple(self._at(z, *table) for table in self.tables)

    @staticmethod
    def _at(z, edges, centre, slope, coefficients):
        inside = (z >= edges[0]) & (z < edges[-1])
        if not inside.all():
            raise OutsideError(
                f"g({z[~inside].flat[0]}): the model's file has the activation from {edges[0]} to {edges[-1]}")
        i = np.clip(np.searchsorted(edges, z, side="right") - 1, 0, len(centre) - 1)
        t = (z - centre[i]) * slope[i]
        value = np.zeros_like(t)
        for j in reversed(range(coefficients.shape[1])):
            value = value * t + coefficients[i, j]
        return value
