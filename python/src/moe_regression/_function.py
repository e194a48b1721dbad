"""A function of one's own as an activation: a curve through its values.

Between its points the curve is a cubic with the function's values and slopes (a Hermite cubic), beyond them a line. On an
interval of width h its error is at most h^4/384 of the largest fourth derivative; points are put where it is large.
"""

from __future__ import annotations

import heapq
import json
import os
import tempfile
from dataclasses import dataclass
from typing import Callable, Optional

import numpy as np

from . import _command
from ._activation import Curve

POINTS = 4000  # of the 4096 that a curve may have
REACH = 40.0  # beyond it, up or down, the curve is a line


@dataclass(frozen=True)
class TabulatedFunction:
    """A function as a curve through its values.

    Attributes
    ----------
    z, g, slopes : ndarray
        The points, the values and the slopes there.
    error : float
        The largest difference from the function within ±`reach`, found between the points, relative to max(1, |g|).
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
        h = 1e-3 * np.maximum(1, np.abs(z)) / 4  # differences of fourth order: an error of h^4 and of rounding/h
        near, far = values(f, z + h) - values(f, z - h), values(f, z + 2 * h) - values(f, z - 2 * h)
        return (8 * near - far) / (12 * h)

    def worst(left, right, points):
        """The error between neighbours, at three places."""
        (z0, g0, m0), (z1, g1, m1) = points[left], points[right]
        z = z0 + (z1 - z0) * np.array([0.25, 0.5, 0.75])
        g = values(f, z)
        return float(np.max(np.abs(Curve([z0, z1], [g0, g1], [m0, m1])(z)[0] - g) / np.maximum(1, np.abs(g))))

    start = np.linspace(-reach, reach, 161)
    points = dict(zip(start.tolist(), zip(start.tolist(), values(f, start).tolist(), slopes(start).tolist())))
    heap = [(-worst(a, b, points), a, b) for a, b in zip(start[:-1].tolist(), start[1:].tolist())]
    heapq.heapify(heap)
    while len(points) < POINTS and -heap[0][0] > tolerance:
        error, a, b = heapq.heappop(heap)
        if b - a < 1e-8 * max(1, abs(a), abs(b)):  # a kink, as near as points may lie
            heapq.heappush(heap, (0.0, a, b))
            continue
        middle = np.array([(a + b) / 2])
        m = float(middle[0])
        points[m] = (m, float(values(f, middle)[0]), float(slopes(middle)[0]))
        for pair in ((a, m), (m, b)):
            heapq.heappush(heap, (-worst(*pair, points), *pair))
    z, g, dg = (np.array(column) for column in zip(*(points[key] for key in sorted(points))))
    between = np.random.RandomState(0).uniform(-reach, reach, 20000)
    exact = values(f, between)
    error = np.abs(Curve(z, g, dg)(between)[0] - exact) / np.maximum(1, np.abs(exact))
    return TabulatedFunction(z, g, dg, float(error.max()), float(reach))


def write_curve(f: Callable, path: str) -> TabulatedFunction:
    """Tabulate f, write the table, and return it."""
    curve = f if isinstance(f, TabulatedFunction) else tabulate(f)
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
            extra["curve_error"] = write_curve(f, path).error
            name = "table:" + path
        args = ["validate-activation", os.fspath(name), "--json"]
        args += [part for key, value in (params or {}).items() for part in ("--param", f"{key}={value!r}")]
        args += [] if sigma is None else ["--sigma", repr(float(sigma))]
        return {**json.loads(_command.run(args, accept=(0, 1))), **extra}
