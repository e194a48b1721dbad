"""Coefficients with their errors, in the manner of statsmodels."""

from __future__ import annotations

import html
import json
import os
import tempfile

import numpy as np
from scipy import special

from . import _advice, _command


class Result:
    """Coefficients of a fit with what the command says of their errors.

    Labels are those of the covariance in the model's file, such as ``expert1:age``, ``gate1:(intercept)`` and ``sigma``.

    Attributes
    ----------
    params, bse, tvalues, pvalues : Series
        Estimates, standard errors, their ratio and its two-sided normal probability; sigma has no test. What
        has no standard error, as the gate where it separates rows, is NaN.
    llf, aic, bic, nobs : float
        Log-likelihood, criteria, and number of rows or sum of weights.
    df_model : int
        Number of parameters.
    fittedvalues, resid : Series
        E[y|x] of the rows of the fit and the target less that, with the frame's index.
    """

    def __init__(self, model, fitted, y, index=None):
        import pandas as pd

        self.model = model
        file = model.file
        fit = file["fit"]
        names, values, errors = [], [], []
        for name, value, error in _parameters(model):
            names.append(name), values.append(value), errors.append(np.nan if error is None else error)
        self.params = pd.Series(values, index=names, dtype=float, name="coef")
        self.bse = pd.Series(errors, index=names, dtype=float, name="std err")
        self.tvalues = (self.params / self.bse).rename("z")
        self._of_noise = [name for name in names if _is_of_noise(name, model)]
        self.tvalues[self._of_noise] = np.nan
        clusters, below = self._clusters(), -np.abs(self.tvalues)
        below = special.stdtr(clusters - 1, below) if clusters else special.ndtr(below)
        self.pvalues = pd.Series(2 * below, index=names, name="P>|z|")
        self.llf, self.aic, self.bic = fit["log_likelihood"], fit["aic"], fit["bic"]
        self.nobs = float(fit.get("weight") or fit["n"])
        self.df_model = round((self.aic + 2 * self.llf) / 2)
        self.fittedvalues = pd.Series(fitted, index=index, name="fitted")
        self.resid = (pd.Series(y, index=index) - self.fittedvalues).rename("resid")

    def _clusters(self):
        """How many clusters the standard errors are of; 0 where they are of rows."""
        errors = self.model.used.get("standard_errors") or {}
        return (errors.get("clusters") or {}).get("count", 0)

    def conf_int(self, alpha: float = 0.05):
        """Intervals of level 1 - alpha: normal, or of a t law for errors by clusters; of sigma, and of what else the noise has, in its logarithm, around sigma corrected for degrees of freedom."""
        import pandas as pd

        level, clusters = 1 - alpha / 2, self._clusters()
        z = special.stdtrit(clusters - 1, level) if clusters else special.ndtri(level)
        out = pd.DataFrame({0: self.params - z * self.bse, 1: self.params + z * self.bse})
        corrected = (self.model.used.get("standard_errors") or {}).get("sigma_corrected")
        centres = self.params[self._of_noise].copy()
        if corrected is not None:
            centres[[name for name in self._of_noise if name.startswith("sigma")]] = np.atleast_1d(corrected)
        for name, centre in centres.items():
            wide = np.exp(z * self.bse[name] / self.params[name])
            out.loc[name] = centre / wide, centre * wide
        return out

    def cov_params(self):
        """The covariance of the parameters that have one; NaN for those of experts that may be one, which have no standard errors.

        Raises
        ------
        ValueError
            The file has none; its notes say why.
        """
        import pandas as pd

        covariance = self.model.used.get("covariance")
        if not covariance:
            fit = self.model.file["fit"]
            why = [n for n in (fit.get("notes") or []) + (fit.get("warnings") or []) if "no standard errors" in n or "covariance" in n]
            raise ValueError(": ".join(["the model's file has no covariance", *(["; ".join(why)] if why else [])]))
        names = covariance["parameters"]
        out = pd.DataFrame(covariance["matrix"], index=names, columns=names, dtype=float)
        without = [name for name in names if np.isnan(self.bse[name])]
        out.loc[without, :] = out.loc[:, without] = np.nan
        return out

    def table(self):
        """Estimates, errors, tests and 95 % intervals, a row for each parameter."""
        import pandas as pd

        ends = self.conf_int().rename(columns={0: "[0.025", 1: "0.975]"})
        return pd.concat([self.params, self.bse, self.tvalues, self.pvalues, ends], axis=1)

    def summary(self) -> Summary:
        """The fit on a page, as text and as HTML."""
        return Summary(self._head(), self.table(), self._certificate() + self._warnings())

    def _head(self):
        file = self.model.used
        kind = (file.get("standard_errors") or {}).get("kind", "none")
        family = [("Family", file["family"])] if file.get("family") else []
        return [("Target", _title(self.model)), *family, ("Experts", f"{self.model.k} ({file['activation']['name']})"),
                ("Observations", f"{self.nobs:g}"), ("Parameters", str(self.df_model)),
                ("Log-likelihood", f"{self.llf:.4f}"), ("AIC", f"{self.aic:.4f}"), ("BIC", f"{self.bic:.4f}"),
                ("Standard errors", kind), ("Proportions", ", ".join(f"{p:.4f}" for p in self.model.proportions))]

    def _certificate(self):
        certificate = self.model.file["fit"].get("certificate")
        if not certificate:
            return []
        why = certificate.get("model_reason")
        model = f"Model: {certificate['model']}{f'; {why}' if why else ''}; p = {certificate['p_value']:.2g}"
        if certificate.get("cause"):
            model += f", which suggests {certificate['cause']}"
        return [f"Optimum: {certificate['optimum']}; {certificate['reason']}.", model + "."]

    def _warnings(self):
        return [f"Warning: {text}." for text in _advice.weighed(self.model.file["fit"])]

    def __repr__(self):
        return str(self.summary())

    def _repr_html_(self):
        return self.summary().as_html()


class Summary:
    """A page of text, or of HTML, about a fit."""

    def __init__(self, head, table, tail):
        self.head, self.table, self.tail = head, table, tail

    def as_text(self) -> str:
        """The page as text."""
        width = max(len(name) for name, _ in self.head)
        head = "\n".join(f"{name + ':':<{width + 2}}{value}" for name, value in self.head)
        table = self.table.to_string(float_format=lambda v: f"{v:.4g}", na_rep="-")
        return "\n\n".join(part for part in (head, table, "\n".join(self.tail)) if part)

    def as_html(self) -> str:
        """The page as HTML."""
        head = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in self.head)
        table = self.table.to_html(float_format=lambda v: f"{v:.4g}", na_rep="-")
        return f"<table>{head}</table>{table}" + "".join(f"<p>{html.escape(line)}</p>" for line in self.tail)

    __str__ = __repr__ = as_text
    _repr_html_ = as_html


def _title(model):
    return {"": "{}", "log": "log({})", "sqrt": "sqrt({})", "reciprocal": "1/{}"}[model.scale].format(model.target)


def _parameters(model):
    """Label, estimate and standard error of every parameter: experts, gate, noise, offset and scale."""
    file, errors = model.used, model.used.get("standard_errors") or {}
    seen = set((file.get("covariance") or {}).get("parameters", []))

    def of(part, matrix, intercepts, key, intercept_key):
        rows, own = errors.get(key), errors.get(intercept_key)
        for i, row in enumerate(matrix):
            for j, value in enumerate(row):
                name = f"{part}{i + 1}:{model.features[j]}"
                error = rows[i][j] if rows else None
                if value != 0 or error or name in seen:  # else 0 by the formula, or by a constant gate
                    yield name, value, error
            if intercepts is not None:
                yield f"{part}{i + 1}:(intercept)", intercepts[i], own[i] if own else None

    yield from of("expert", file["regressors"], file["regressor_intercepts"], "regressors", "regressor_intercepts")
    yield from of("gate", file["gating"], file["gating_intercepts"], "gating", "gating_intercepts")

    def several(part, values, errors):
        values, errors = np.atleast_1d(values), np.atleast_1d(errors)
        for i, value in enumerate(values):
            yield part + (str(i + 1) if len(values) > 1 else ""), float(value), errors[i] if i < len(errors) else None

    if not file["fit"].get("sigma_given") and file["sigma"]:
        yield from several("sigma", file["sigma"], errors.get("sigma"))
    for name, value in (file.get("own") or {}).items():
        yield from several(name, value, (errors.get("own") or {}).get(name, []))
    output, of_output = file.get("output_scale") or {}, errors.get("output_scale") or {}
    for part in ("offset", "scale"):
        if part in output and (of_output.get(part) is not None or not of_output):
            yield from several(part, output[part], of_output.get(part))


def _is_of_noise(label, model):
    """Whether a label is of the noise: sigma, or an own parameter of the family."""
    return ":" not in label and label.rstrip("0123456789") in {"sigma", *model.own}


class Comparison(dict):
    """What the command says of two fits of the same rows: the members of ``moe compare --json``."""

    def table(self):
        """The two fits side by side."""
        import pandas as pd
        return pd.DataFrame([self["a"], self["b"]]).set_index("model")

    def __repr__(self):
        verdict = self.get("untested") or ""
        if self.get("nested"):
            verdict = f"likelihood ratio: {json.dumps(self['nested'])}"
        return f"{self.table().to_string()}\n{verdict}".rstrip()


def compare(a, b) -> Comparison:
    """Set two fits of the same rows side by side, and test the smaller where the larger contains it.

    Parameters
    ----------
    a, b : MoERegressor
        Fitted, to the same targets and weights in the same order.

    Returns
    -------
    Comparison
        The members of what ``moe compare`` prints with ``--json``; a is "a" and b "b".

    Raises
    ------
    CommandError
        The fits are not of the same rows.
    """
    with tempfile.TemporaryDirectory(prefix="moe-") as place:
        paths = [os.path.join(place, name) for name in ("a.json", "b.json")]
        for path, fit in zip(paths, (a, b)):
            fit.model_.write(path)
        found = Comparison(json.loads(_command.run(["compare", *paths, "--json"], accept=(0, 1))))
    for name in ("a", "b"):
        found[name] = {**found[name], "model": name}
    return found
