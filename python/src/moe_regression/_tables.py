"""Arrays and frames as columns of numbers, and as files that the command reads."""

from __future__ import annotations

import os

import numpy as np


def is_frame(X) -> bool:
    """Whether X is a frame of pandas."""
    return hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "iloc")


def is_plain(X) -> bool:
    """Whether every column of a frame has a number type of numpy's."""
    return all(isinstance(t, np.dtype) and t.kind in "fiu" for t in X.dtypes)


def refuse_twice(X) -> None:
    """Refuse a frame with two columns of one name, of which one would stand for both."""
    if is_frame(X) and not X.columns.is_unique:
        raise ValueError(f"column {X.columns[X.columns.duplicated()][0]!r} is there more than once: want different names")


def column(series) -> tuple[np.ndarray, list[str] | None]:
    """A column of a frame as numbers, and the words of the codes where it is a factor.

    The first level of categories, and the first in order of words, has code 0: it is the reference. Levels that do
    not occur are left out. What is missing is NaN.
    """
    import pandas as pd

    kind = series.dtype
    if isinstance(kind, pd.SparseDtype):
        raise TypeError(f"column {series.name!r} is sparse: want it dense, as by .sparse.to_dense()")
    if kind.kind in "mMc" or isinstance(kind, (pd.PeriodDtype, pd.IntervalDtype)):
        raise TypeError(f"column {series.name!r} has values of type {kind}: want numbers, words or categories")
    if isinstance(kind, pd.CategoricalDtype):
        return _codes(series.cat.remove_unused_categories())
    if kind.kind in "OUS" or isinstance(kind, pd.StringDtype):
        present = series.dropna()
        if all(isinstance(v, (bool, int, float, np.number, np.bool_)) for v in present):
            return pd.to_numeric(series).to_numpy(dtype=float, na_value=np.nan), None
        if not all(isinstance(v, str) for v in present):
            raise TypeError(f"column {series.name!r} has other values than numbers and words: want one of them")
        return _codes(series.astype("category"))
    return series.astype("Float64").to_numpy(dtype=float, na_value=np.nan) if kind.kind == "b" or not isinstance(
        kind, np.dtype) else series.to_numpy(dtype=float), None


def _codes(series):
    codes = series.cat.codes.to_numpy().astype(float)
    codes[codes < 0] = np.nan
    return codes, [str(level) for level in series.cat.categories]


def words(series) -> np.ndarray:
    """A column of a frame as a model's design takes it: words of what is no number, else numbers."""
    values, levels = column(series)
    if levels is None:
        return values
    out = np.full(len(values), None, dtype=object)
    known = ~np.isnan(values)
    out[known] = np.array(levels, dtype=object)[values[known].astype(int)]
    return out


def ids(values, what="groups") -> np.ndarray:
    """Ids of groups, or clusters, as text: words as they are, whole numbers without a point."""
    values = np.asarray(values, dtype=object)
    if values.ndim != 1:
        raise ValueError(f"{what} of shape {values.shape}: want one id for every row")
    out = []
    for row, v in enumerate(values):
        if v is None or v != v:
            raise ValueError(f"{what}: row {row} is missing")
        if not isinstance(v, str) and isinstance(v, (int, float, np.number)) and float(v) == int(v):
            v = int(v)
        out.append(str(v))
    return np.array(out, dtype=object)


def free_name(name: str, taken) -> str:
    """The name, with underscores behind it until no column has it."""
    while name in taken:
        name += "_"
    return name


def records(columns: dict[str, np.ndarray]) -> np.ndarray:
    """Columns as an array of records of float64, as the command reads names from."""
    if any("\\" in name or "\n" in name for name in columns):
        raise ValueError("a column's name has a backslash or a line's end: want another")
    n = len(next(iter(columns.values())))
    table = np.empty(n, dtype=[(name, "<f8") for name in columns])
    for name, values in columns.items():
        table[name] = values
    return table


def write(place: str, columns: dict[str, np.ndarray]) -> str:
    """Write columns to a file in a directory, and return its path."""
    path = os.path.join(place, "data.npy")
    np.save(path, records(columns))
    return path
