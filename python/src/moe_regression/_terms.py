"""Raw columns into features: factors and the terms of formulas, as a model's file has them."""

from __future__ import annotations

import ast
import csv
import re

import numpy as np


class Design:
    """How features are made of raw columns: the member `design` of a model's file."""

    def __init__(self, member: dict):
        self.columns = list(member["columns"])
        self.factors = {f["name"]: f for f in member["factors"]}
        self.terms = member["terms"]

    def matrix(self, columns: dict[str, np.ndarray]) -> np.ndarray:
        """The features, n x d; a column of a factor has words or numbers as the factor's levels are."""
        of = {f["name"]: self._levels(f, columns[f["column"]]) for f in self.factors.values()}
        out = []
        for term in self.terms:
            value = 1.0
            for part in term["product"]:
                value = value * self._value(part, columns, of)
            out.append(np.broadcast_to(value, len(next(iter(columns.values())))))
        matrix = np.column_stack(out).astype(float)
        if not np.isfinite(matrix).all():
            row, column = np.argwhere(~np.isfinite(matrix))[0]
            raise ValueError(f"row {row}: {self.terms[column]['name']} is {matrix[row, column]}")
        return matrix

    @staticmethod
    def _levels(factor, values):
        """The places of the rows' levels."""
        known = factor.get("numbers")
        if known is None:
            known, values = factor["levels"], np.array([str(v) for v in values], dtype=object)
        places = {level: at for at, level in enumerate(known)}
        try:
            return np.array([places[v] for v in np.asarray(values).tolist()])
        except KeyError as err:
            raise ValueError(f"column {factor['column']!r}: the model has no level {err.args[0]!r}; "
                             f"it has {', '.join(factor['levels'])}") from None

    def _value(self, part, columns, of):
        if part.get("level") is not None:
            factor = self.factors[part["factor"]]
            return (of[part["factor"]] == factor["levels"].index(part["level"])).astype(float)
        if part.get("polynomial"):
            return _polynomial(part["polynomial"], columns)
        if part.get("expression"):
            return arithmetic(part["expression"], columns)
        return np.asarray(columns[part["column"]], dtype=float)


def _polynomial(p, columns):
    x = arithmetic(p["expression"], columns)
    before, v = 0.0, np.ones_like(x)
    for j, alpha in enumerate(p["alpha"]):
        after = (x - alpha) * v
        if j > 0:
            after = after - p["norms"][j] / p["norms"][j - 1] * before
        before, v = v, after
    return v / np.sqrt(p["norms"][-1])


_OPERATIONS = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.Pow: np.power}
_FUNCTIONS = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt, "I": lambda v: v}


def arithmetic(text: str, columns: dict[str, np.ndarray]) -> np.ndarray:
    """An expression of columns as formulas write it; a name in backticks is one as it is."""
    quoted = re.findall("`([^`]*)`", text)
    for at, name in enumerate(quoted):
        text = text.replace(f"`{name}`", f"_quoted{at}_", 1)
    # A name may have a dot within it.
    dotted = {name.replace(".", "_dot_"): name for name in re.findall(r"[A-Za-z_][\w]*(?:\.\w+)+", text)}
    for spelt, name in dotted.items():
        text = text.replace(name, spelt)
    names = {**dotted, **{f"_quoted{at}_": name for at, name in enumerate(quoted)}}

    def of(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return float(node.value)
        if isinstance(node, ast.Name):
            return np.asarray(columns[names.get(node.id, node.id)], dtype=float)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            return _OPERATIONS[type(node.op)](of(node.left), of(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
            return of(node.operand) if isinstance(node.op, ast.UAdd) else -of(node.operand)
        if isinstance(node, ast.Call) and node.func.id in _FUNCTIONS and len(node.args) == 1:
            return _FUNCTIONS[node.func.id](of(node.args[0]))
        raise ValueError(f"not of the language of formulas: {ast.unparse(node)}")

    with np.errstate(all="ignore"):
        return of(ast.parse(text.replace("^", "**"), mode="eval").body)


def relabel_groups(file: dict, ids) -> dict:
    """The model's file with ids in the place of the numbers 0, 1, ... of groups that were fitted; ids may be None."""
    groups = file.get("groups")
    if ids is None or not groups or not groups.get("posteriors"):
        return file
    return {**file, "groups": {**groups, "posteriors": {ids[int(n)]: p for n, p in groups["posteriors"].items()}}}


def relabel(file: dict, levels: dict[str, list[str]]) -> dict:
    """The model's file with the levels' words in the place of the codes 0, 1, ... that were fitted.

    Parameters
    ----------
    file : dict
        The members of the file.
    levels : dict
        The words by column.
    """
    design = file.get("design")
    if not design or not levels:
        return file
    words = {f["name"]: dict(zip(map(str, range(len(levels[f["column"]]))), levels[f["column"]]))
             for f in design["factors"] if f["column"] in levels}
    factors = []
    for f in design["factors"]:
        if f["name"] in words:
            f = {**f, "levels": [words[f["name"]][level] for level in f["levels"]],
                 "reference": words[f["name"]][f["reference"]]}
            f.pop("numbers", None)
        factors.append(f)
    renamed, terms = {}, []
    for term in design["terms"]:
        parts, before, after = [], [], []
        for part in term["product"]:
            if part.get("level") is not None and part["factor"] in words:
                before.append(part["factor"] + part["level"])
                part = {**part, "level": words[part["factor"]][part["level"]]}
                after.append(part["factor"] + part["level"])
            parts.append(part)
        name = term["name"]
        for old, new in zip(before, after):
            pieces = name.split(":")
            pieces[pieces.index(old)] = new
            name = ":".join(pieces)
        renamed[term["name"]] = name
        terms.append({"name": name, "product": parts})
    out = {**file, "design": {**design, "factors": factors, "terms": terms},
           "features": [renamed[name] for name in file["features"]]}

    def labelled(of):
        if not of.get("covariance"):
            return of
        labels = []
        for label in of["covariance"]["parameters"]:
            whose, colon, column = label.partition(":")
            labels.append(whose + colon + renamed.get(column, column))
        return {**of, "covariance": {**of["covariance"], "parameters": labels}}

    if file.get("penalised"):
        out["penalised"] = labelled(file["penalised"])
    return labelled(out)


def read_csv(path: str) -> dict[str, np.ndarray]:
    """A table of numbers by column; an empty cell is NaN."""
    with open(path, newline="", encoding="utf-8") as f:
        names, *rows = csv.reader(f)
    return {name: np.array([float(row[j] or "nan") for row in rows]) for j, name in enumerate(names)}
