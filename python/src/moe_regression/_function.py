"""A function of one's own as an activation: a curve through its values.

Between its points the curve is a cubic with the function's values and slopes (a Hermite cubic), beyond them a line. On an
interval of width h its error is at most h^4/384 of the largest fourth derivative; points are put where it is large.
"""

from __future__ import annotations

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
        h = np.minimum(1e-3 * np.maximum(1, np.abs(z)), np.minimum(gap[:-1], gap[1:])) / 4
        near, far = values(f, z + h) - values(f, z - h), values(f, z + 2 * h) - values(f, z - 2 * h)
        return (8 * near - far) / (12 * h)

    def errors(z):
        exact = values(f, z)
        return np.abs(curve(z)[0] - exact) / np.maximum(1, np.abs(exact))

    z = np.linspace(-reach, reach, 161)
    while True:
        curve = Curve(z, values(f, z), slopes(z))
        width = np.diff(z)
        error = np.max([errors(z[:-1] + part * width) for part in (0.25, 0.5, 0.75)], axis=0)
        # Narrower than this is a kink, or a jump. The worst are halved first.
        wide = np.where(width > 1e-8 * np.maximum(1, np.abs(z[1:])), error, 0)
        worst = np.argsort(-wide, kind="stable")[:POINTS - len(z)]
        worst = np.sort(worst[wide[worst] > max(tolerance, wide.max() / 16)])
        if not worst.size:
            break
        z = np.insert(z, worst + 1, z[worst] + width[worst] / 2)
    between = errors(np.random.RandomState(0).uniform(-reach, reach, 20000))
    return TabulatedFunction(curve.z, curve.g, curve.slopes, float(max(error.max(), between.max())), float(reach))


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
