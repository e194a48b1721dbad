"""A function of one's own as an activation: a curve through its values.

Between its points the curve is a cubic with the function's values and slopes (a Hermite cubic), beyond them a line. On an
interval of width h its error is at most h^4/384 of the largest fourth derivative; points are put where it is large.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from dataclasses import dataclass
from typing import Callable, Optional

import numpy as np

from . import _command
from ._activation import BUILTINS, Curve

POINTS = 4000  # of the 4096 that a curve may have
REACH = 40.0  # beyond it, up or down, the curve is a line
LARGEST = 1e12  # of the values and slopes of a table that the command takes
# Smooth functions have errors of 1e-9, kinks of 1e-6. What is off by more is what the points cannot follow.
SUSPECT = 0.01  # of g's range, or of 1 where that is less
# g' at an end, times the step, from the five values next to it inside: exact for polynomials of degree four.
INSIDE = np.array([-77, 214, -234, 122, -25]) / 12


class CurveWarning(UserWarning):
    """A function's curve is far from it somewhere, as at jumps."""


@dataclass(frozen=True)
class TabulatedFunction:
    """A function as a curve through its values.

    Attributes
    ----------
    z, g, slopes : ndarray
        The points, the values and the slopes there.
    error : float
        The largest difference from the function within ±`reach`, relative to max(1, abs(g)): of three places between any two
        points, and of 20,000 drawn ones.
    reach : float
        Beyond it the curve is a line.
    """

    z: np.ndarray
    g: np.ndarray
    slopes: np.ndarray
    error: float
    reach: float

    def write(self, path: str | os.PathLike) -> None:
        """Write the curve as a table that ``--activation table:FILE`` takes."""
        rows = zip(self.z.tolist(), self.g.tolist(), self.slopes.tolist())
        with open(path, "w", encoding="utf-8") as f:
            f.write("z,g,dg\n" + "".join(f"{z!r},{g!r},{dg!r}\n" for z, g, dg in rows))


def tabulate(f: Callable, derivative: Optional[Callable] = None, *, reach: float = REACH, tolerance: float = 1e-9
             ) -> TabulatedFunction:
    """Tabulate a function of arrays.

    Parameters
    ----------
    f : callable
        g of an array of z, of the same shape.
    derivative : callable, optional
        g' likewise; without it slopes come from differences of f.
    reach : float
        Largest |z| at which the curve follows f.
    tolerance : float
        The error at which no further points are added.

    Raises
    ------
    ValueError
        f is not finite within the reach, or its values have another shape.

    Notes
    -----
    A function that computes with float32 is taken as it is: points are added until the error is some of its roundings.

    Examples
    --------
    >>> import numpy as np
    >>> curve = tabulate(np.sin, np.cos)
    >>> curve.error < 1e-8
    True
    """
    derivative = derivative or getattr(f, "derivative", None)

    def values(of, z):
        out = np.asarray(of(z), dtype=float)
        if out.shape != z.shape:
            raise ValueError(f"the activation returns an array of shape {out.shape} for one of shape {z.shape}")
        if not np.isfinite(out).all():
            raise ValueError(f"the activation is {out[~np.isfinite(out)][0]} at z = {z[~np.isfinite(out)][0]}: want numbers "
                             f"for |z| <= {reach:g}")
        return out

    def slopes(z):
        if derivative is not None:
            return values(derivative, z)
        # Differences of fourth order, within half of the way to the neighbours.
        gap = np.diff(z, prepend=-np.inf, append=np.inf)
        step = max(1e-3, rounding ** 0.2)
        h = np.minimum(step * np.maximum(1, np.abs(z)), np.minimum(gap[:-1], gap[1:])) / 4
        out, (at, d) = np.empty_like(z), (z[1:-1], h[1:-1])
        near, far = values(f, at + d) - values(f, at - d), values(f, at + 2 * d) - values(f, at - 2 * d)
        out[1:-1] = (8 * near - far) / (12 * d)
        # Of the ends from inside: beyond them the curve goes on as it came, and a jump there is not its way.
        for end, d in ((0, h[0] / 4), (-1, -h[-1] / 4)):
            within = values(f, z[end] + d * np.arange(1, 6))
            out[end] = (within - within[0]) @ INSIDE / d  # of a constant it is 0 exactly
        return out

    def errors(z):
        exact = values(f, z)
        return np.abs(curve(z)[0] - exact) / np.maximum(1, np.abs(exact))

    z = np.linspace(-reach, reach, 161)
    values(f, z)
    thirds = z[:-1] + np.diff(z) / 3
    rounding = _rounding(f(thirds), values(f, thirds))
    while True:
        curve = Curve(z, values(f, z), slopes(z))
        width = np.diff(z)
        error = np.max([errors(z[:-1] + part * width) for part in (0.25, 0.5, 0.75)], axis=0)
        enough = np.maximum(tolerance, 4 * rounding * np.maximum(1, np.abs(z[1:])))
        # Narrower than this is a kink, or a jump. The worst are halved first.
        wide = np.where(width > 1e-8 * np.maximum(1, np.abs(z[1:])), error, 0)
        worst = np.argsort(-wide, kind="stable")[:POINTS - len(z)]
        worst = np.sort(worst[wide[worst] > np.maximum(enough[worst], wide.max() / 16)])
        if not worst.size:
            break
        z = np.insert(z, worst + 1, z[worst] + width[worst] / 2)
    between = errors(np.random.RandomState(0).uniform(-reach, reach, 20000))
    return TabulatedFunction(curve.z, curve.g, curve.slopes, float(max(error.max(), between.max())), float(reach))


def _rounding(out, values) -> float:
    """What the numbers of a function are rounded to, relative to 1, where that is coarser than float64, else 0."""
    kind = np.asarray(out).dtype
    if kind in (np.float16, np.float32):
        return float(np.finfo(kind).eps)
    # Whole numbers and short fractions say nothing.
    short = np.array_equal(values * 1024, np.round(values * 1024))
    with np.errstate(over="ignore"):
        return 0.0 if short or not np.array_equal(values, values.astype(np.float32)) else float(np.finfo(np.float32).eps)


def write_curve(f: Callable, path: str, depth: int) -> TabulatedFunction:
    """Tabulate f, write the table, and return it; warn, in the name of so many calls above, where it is no good one.

    Raises
    ------
    ValueError
        The command takes no table with such values.
    """
    curve = f if isinstance(f, TabulatedFunction) else tabulate(f)
    name = getattr(f, "__name__", "").replace("<lambda>", "")
    large = np.maximum(np.abs(curve.g), np.abs(curve.slopes)) > LARGEST
    if large.any():
        at = np.flatnonzero(large)[np.argmin(np.abs(curve.z[large]))]
        what, value = ("is", curve.g[at]) if abs(curve.g[at]) > LARGEST else ("has slope", curve.slopes[at])
        instead = f'activation="{name}"' if name in BUILTINS else 'an expression, such as activation="expr: z^9"'
        raise ValueError(f"the activation {name + ' ' if name else ''}{what} {value:.3g} at z = {curve.z[at]:.3g}: a function becomes "
                         f"a table for |z| <= {curve.reach:g}, with values and slopes within ±{LARGEST:g}; take {instead}, "
                         f"or tabulate(f, reach={np.floor(abs(curve.z[at])):g})")
    if curve.error > max(1e-9, SUSPECT * min(1, np.ptp(curve.g))):
        warnings.warn(f"the curve of the activation {name + ' ' if name else ''}is off by up to {curve.error:.2g} of max(1, |g|): it "
                      "jumps, or wiggles faster than a table's points follow; predictions near such z are off by as much",
                      CurveWarning, stacklevel=depth + 1)
    curve.write(path)
    return curve


def validate_activation(f, *, params: Optional[dict] = None, sigma: Optional[float] = None) -> dict:
    """Say whether the guarantees of the moment estimates hold for an activation.

    Parameters
    ----------
    f : str, callable or TabulatedFunction
        As `activation` of `MoERegressor`.
    params : dict, optional
        Parameters of a named activation.
    sigma : float, optional
        Level of the noise; 0.05.

    Returns
    -------
    dict
        What ``moe validate-activation --json`` prints, with `curve_error` of a function.
    """
    with tempfile.TemporaryDirectory(prefix="moe-") as place:
        extra = {}
        name = f
        if not isinstance(f, (str, os.PathLike)):
            path = os.path.join(place, "curve.csv")
            extra["curve_error"] = write_curve(f, path, 2).error
            name = "table:" + path
        args = ["validate-activation", os.fspath(name), "--json"]
        args += [part for key, value in (params or {}).items() for part in ("--param", f"{key}={value!r}")]
        args += [] if sigma is None else ["--sigma", repr(float(sigma))]
        return {**json.loads(_command.run(args, accept=(0, 1))), **extra}
