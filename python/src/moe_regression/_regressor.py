"""The estimator."""

from __future__ import annotations

import json
import os
import re
import tempfile
import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from . import _advice, _command, _compat, _pictures, _tables, _terms
from ._function import TabulatedFunction, write_curve
from ._model import Model, by_command
from ._results import Result


class OptimumNotPassedWarning(UserWarning):
    """The certificate does not say that the best optimum was found: there may be a better one."""


class ModelSuspectWarning(UserWarning):
    """The certificate finds that the model does not describe the data."""


class FitWarning(UserWarning):
    """What the command warns of: of a fit one warning, with the weightiest of `warnings_`."""


class TinyTableWarning(UserWarning):
    """The table is of at most 20 rows, or a line without noise, and too small for the experts asked for: there are fewer."""


_FEW_ROWS = 20  # up to so many are fitted with fewer experts: scikit-learn's checks of estimators have such tables
_FEW = re.compile("rows cannot determine the|; choose a smaller k")  # what the command says of too many experts
_REGULAR = re.compile("in every row")  # and of columns that are constant, or equal to the target


class MoERegressor(RegressorMixin, BaseEstimator):
    """Mixture of regressions with a gate, by maximum likelihood.

    The target of a row x comes from expert i with probability softmax_i(<w_i, x> + v_i), and is then
    g(<a_i, x> + b_i) plus normal noise of level sigma_i, or of another family's law with that mean. The fit is that of the
    command ``moe fit``.

    Parameters
    ----------
    n_experts : int, (int, int) or range, default=2
        Number of experts, or the least and the most of a range in which `choose` chooses.
    activation : str, callable or None, default=None
        The nonlinearity g: a built-in (``identity``, ``relu``, ``leakyrelu``, ``sigmoid``, ``tanh``, ``exp``,
        ``softplus``, ``probit``), an expression such as ``"expr: z*tanh(softplus(z))"``, a path to a WebAssembly file,
        ``"table:FILE"``, or a function of arrays, which becomes a table. None is the family's own: the identity, of
        counts and gamma ``exp``, of binomial ``sigmoid``.
    activation_params : dict or None, default=None
        Parameters of the activation, such as ``{"slope": 0.1}``.
    family : str, default="gaussian"
        The distribution of the target around the experts' means: ``gaussian``, ``student-t``, ``lognormal``, ``gamma``,
        ``poisson``, ``negative-binomial`` or ``binomial``.
    dof : float or None, default=None
        Degrees of freedom of ``student-t``, where they are known; None estimates them.
    shared : list of str or None, default=None
        Columns of one coefficient for all experts; ``"(intercept)"`` is theirs.
    fit_intercept, gate_intercept : bool, default=True
        Whether experts and gate have intercepts; a formula says that itself.
    gate : {"softmax", "constant"}, default="softmax"
        Whether the gate depends on the features.
    gate_features : list of str or None, default=None
        Columns that the gate sees; None is those of the experts.
    formula : str or None, default=None
        ``"y ~ experts | gate"``, or what is right of ``~``. Columns of arrays are x1 ... xd.
    noise : {"shared", "per-expert"}, default="shared"
        Level of the noise.
    output_scale : {"shared", "per-expert"} or None, default=None
        Means c + s*g in the place of g.
    choose : {"bicc", "bic", "icl", "set", "heldout"}, default="bicc"
        How a range of numbers of experts is chosen from; ``bicc`` is BIC corrected for few rows, ``set`` takes the least of `k_set_`, ``heldout`` crossvalidates.
    zero_expert : bool, default=False
        One class more of the gate, of rows that are 0 whatever the features; of counts.
    method : str, default="auto"
        Method of fitting, as ``moe help methods`` has them.
    starts : int or None, default=None
        At most so many starts of the search; None is as many as the method takes.
    missing : {"refuse", "drop"}, default="refuse"
        What becomes of rows with missing cells; dropped ones have predictions that are NaN.
    errors : list of str or None, default=None
        Kinds of standard errors: ``observed`` or ``robust``, and ``hac``.
    random_state : int, RandomState or None, default=None
        Seed of everything random.
    n_jobs : int or None, default=1
        Threads; -1 is all processors. The result is the same.
    verbose : bool, default=False
        Whether the command shows its progress: as a bar on a terminal, by lines in a notebook.

    Attributes
    ----------
    coef_ : ndarray of shape (n_experts_, d)
        Regressors a_i, of the features as `feature_names_out_` has them. Where a gate separates rows, these and all
        that follow are of the penalised model, which predicts.
    intercept_ : ndarray of shape (n_experts_,)
        Intercepts b_i; 0 where there are none.
    gate_coef_ : ndarray of shape (n_experts_ - 1, d)
        Gating w_i, relative to the last expert.
    gate_intercept_ : ndarray of shape (n_experts_ - 1,)
        Intercepts v_i.
    sigma_ : ndarray of shape (n_experts_,)
        Levels of the noise, in the units of the target; NaN of families that have none.
    own_ : dict of str to ndarray of shape (n_experts_,)
        The family's own parameters beside sigma: ``dof``, ``shape`` of gamma, ``theta`` of negative-binomial.
    groups_ : dict of str to ndarray of shape (n_experts_,)
        What is known of the groups of a fit that had them: P(z=i|all rows of it) by id. Empty of others.
    n_experts_ : int
        Number of experts.
    proportions_ : ndarray of shape (n_experts_,)
        Means of P(z=i|x) over the rows.
    log_likelihood_, bic_, aic_ : float
        Of the fit; the log-likelihood is summed over rows.
    nobs_ : float
        Number of rows, or the sum of their weights.
    certificate_ : dict or None
        What the certificate says of optimum and model.
    starts_ : list of dict
        Where the starts of the search ended.
    selection_ : list of dict
        What every number of experts of a range came to; empty where one was asked for.
    k_set_ : list of int
        The numbers of experts of a range that the data leave; empty where one was asked for.
    k_at_least_ : dict or None
        A lower confidence bound for the number of experts, ``k`` at ``level``.
    warnings_ : list of str
        Why standard errors are missing or criteria are not to be trusted, and what else is doubtful; the weightiest first.
    notes_ : list of str
        Remarks of the fit.
    activation_error_ : float or None
        Of a function as activation: the largest difference of its curve from it, relative to max(1, abs(g)).
    result_ : Result
        Coefficients with their errors, in the manner of statsmodels.
    feature_names_out_ : list of str
        Names of the features that experts and gate see.
    feature_names_in_, n_features_in_ : as in scikit-learn
    model_ : Model
        The model's file and what it says of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from moe_regression import MoERegressor
    >>> x = np.linspace(-2, 2, 200).reshape(-1, 1)
    >>> y = np.where(x[:, 0] > 0, 1 + 2 * x[:, 0], -x[:, 0]) + 0.1 * np.sin(40 * x[:, 0])
    >>> fit = MoERegressor(2, random_state=1).fit(x, y)
    >>> sorted(fit.coef_[:, 0].round(1).tolist())
    [-1.0, 2.0]
    """

    def __init__(self, n_experts=2, *, activation=None, activation_params=None, family="gaussian", dof=None,
                 fit_intercept=True, gate_intercept=True, gate="softmax", gate_features=None, formula=None, shared=None,
                 noise="shared", output_scale=None, choose="bicc", zero_expert=False, method="auto", starts=None, missing="refuse", errors=None, random_state=None, n_jobs=1, verbose=False):
        self.n_experts = n_experts
        self.activation = activation
        self.activation_params = activation_params
        self.family = family
        self.dof = dof
        self.fit_intercept = fit_intercept
        self.gate_intercept = gate_intercept
        self.gate = gate
        self.gate_features = gate_features
        self.formula = formula
        self.shared = shared
        self.noise = noise
        self.output_scale = output_scale
        self.choose = choose
        self.zero_expert = zero_expert
        self.method = method
        self.starts = starts
        self.missing = missing
        self.errors = errors
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X, y=None, sample_weight=None, groups=None, offset=None, trials=None, clusters=None):
        """Fit the mixture.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            Features. Of a frame, words and categories are factors.
        y : array of shape (n,), optional
            Target; may be left out where a formula names a column of X.
        sample_weight : array of shape (n,), optional
            Counts: a row of weight w counts as w rows, and one of weight 0 is left out.
        groups : array of shape (n,), optional
            Ids, words or numbers: all rows of one id have one expert. The gate sees the columns that are constant in
            groups.
        offset : array of shape (n,), optional
            Added to every expert's <a_i, x> + b_i, of other families than gaussian and lognormal.
        trials : array of shape (n,), optional
            Of which the target is the successes, of family binomial.
        clusters : array of shape (n,), optional
            Ids, words or numbers: standard errors hold where rows of one id depend on each other.

        Returns
        -------
        self : MoERegressor

        Raises
        ------
        CommandError
            The command refused; the text is its line.
        """
        columns, levels, target, names = self._columns_to_fit(X, y)
        weights, keep = None, slice(None)
        known = self._known_of(len(columns[target]), groups, offset, trials)
        self._name_of_trials = str(getattr(trials, "name", None) or "trials")
        if clusters is not None:
            clusters = np.unique(_tables.ids(clusters, "clusters"), return_inverse=True)[1].astype(float)
            check_consistent_length(columns[target], clusters)
        if sample_weight is not None:
            weights = _weights_of(sample_weight, columns[target])
            keep = weights > 0
            columns, weights = {name: v[keep] for name, v in columns.items()}, weights[keep]
            known = {name: v[keep] for name, v in known.items()}
            clusters = None if clusters is None else clusters[keep]
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(2**31 - 1)
        if not 0 <= seed < 2**64:
            raise ValueError(f"random_state = {seed}: want a whole number from 0 on, below 2**64")
        config = self._config(target, names, levels, int(seed))
        roles, ids = {}, None
        if weights is not None:
            roles["weights"] = weights
        if clusters is not None:
            roles["cluster"] = clusters
        for role, values in known.items():
            if role == "groups":
                ids, values = np.unique(values, return_inverse=True)
            roles["group" if role == "groups" else role] = np.asarray(values, dtype=float)
        name = target if _left_side(self.formula) else str(getattr(y, "name", None) or "y")
        file = self._run(config, columns, target, roles, name)
        self._keep(_terms.relabel(_terms.relabel_groups(file, ids), levels))
        index = X.index if _tables.is_frame(X) else None
        if index is not None and weights is not None:
            index = index[keep]
        known = self._with_offset(known, columns)
        self._fitted = self._fitted_values(columns, levels, columns[target], known), columns[target], index
        self._warn()
        return self

    # What is fitted.

    def _columns_to_fit(self, X, y):
        """Columns of numbers with the target, the words of factors' codes, the target's name and the features'."""
        target = _left_side(self.formula)
        if y is None and target is not None and _tables.is_frame(X) and target in X.columns:
            X, y = X.drop(columns=[target]), X[target]
        how = dict(dtype=np.float64, ensure_min_samples=2, **_compat.all_finite(self.missing == "drop"))
        _tables.refuse_twice(X)
        if _tables.is_frame(X) and y is not None and not _tables.is_plain(X):
            _compat.check_feature_names(self, X, reset=True)
            y_values = column_or_1d(check_array(_numbers(y), ensure_2d=False, **how), warn=True)
            check_consistent_length(X, y_values)
            columns, levels = {}, {}
            for name in self._named(X.columns):
                columns[name], words = _tables.column(X[name])
                if words is not None:
                    levels[name] = words
                self._refuse_missing(name, columns[name])
        else:
            matrix, y_values = _compat.validate_data(self, X, y, y_numeric=True, **how)
            names = list(getattr(self, "feature_names_in_", _names(matrix.shape[1])))
            columns, levels = {name: matrix[:, names.index(name)] for name in self._named(names)}, {}
        if target is None:
            target = _tables.free_name(str(getattr(y, "name", None) or "y"), columns)
        names = list(columns)
        if "(intercept)" in names:
            raise ValueError("a column is called '(intercept)', as intercepts are: want another name")
        if "" in names:
            raise ValueError("a column is called '': want a name")
        columns[target] = np.asarray(y_values, dtype=float)
        return columns, levels, target, names

    def _refuse_missing(self, name, values):
        if self.missing != "drop" and np.isnan(values).any():
            raise ValueError(f"column {name!r}: row {int(np.argmax(np.isnan(values)))} is missing (NaN); "
                             "missing='drop' leaves such rows out")

    def _named(self, names):
        """The columns that are read: with a formula those that it names."""
        names = list(names)
        if self.formula is None or re.search(r"(^|[~|+\s(])\.($|[|+\s)*-])", self.formula):
            return names
        named = [name for name in names if re.search(r"(?<![\w.])" + re.escape(str(name)) + r"(?![\w.])", self.formula)]
        right = self.formula.partition("~")[2] if "~" in self.formula else self.formula
        words = re.findall(r"`([^`]+)`|(?<![\w.])([A-Za-z_][\w.]*)(?![\w.]*\s*\()", right)
        absent = [quoted or name for quoted, name in words]
        if absent and not named:
            there = ", ".join(map(repr, names))
            raise ValueError(f"formula {self.formula!r}: no column {absent[0]!r}; there are {there}")
        return named

    def _config(self, target, names, levels, seed):
        config = {"format": "moe-fit/v1", "target": target, "noise": self.noise, "method": {"name": self.method},
                  "missing": self.missing, "seed": seed, **_number_of(self.n_experts)}
        if self.formula is not None:
            config["formula"] = self.formula if "~" in self.formula else f"{target} ~ {self.formula}"
            if self.formula.lstrip().startswith("~"):
                config["formula"] = target + " " + self.formula
        else:
            config |= {"features": names, "gate": self.gate}
            both = {(True, True): "both", (True, False): "experts", (False, True): "gate"}
            config["intercepts"] = both.get((bool(self.fit_intercept), bool(self.gate_intercept)))
            config["gate_features"] = None if self.gate_features is None else list(self.gate_features)
        if self.starts is not None:
            if not isinstance(self.starts, Integral) or self.starts < 1:
                raise ValueError(f"starts = {self.starts!r}: want a whole number from 1 on")
            config["method"]["starts"] = int(self.starts)
        config |= {"family": self.family, "choose": self.choose if "k_to" in config else None}
        config["dof"] = None if self.dof is None else float(self.dof)
        config["shared"] = None if self.shared is None else list(self.shared)
        config["output_scale"] = self.output_scale
        config["zero_expert"] = True if self.zero_expert else None
        config["errors"] = None if self.errors is None else list(self.errors)
        if levels:
            config |= {"categorical": list(levels), "reference": {name: "0" for name in levels}}
        return {key: value for key, value in config.items() if value is not None}

    def _run(self, config, columns, target, roles, name_of_target):
        """Fit, on a table that is too small with fewer experts. The target may have another name in the table."""
        with tempfile.TemporaryDirectory(prefix="moe-") as place:
            columns = dict(columns)
            for role, values in roles.items():
                name = _tables.free_name(role, columns)
                columns[name] = values
                config = {**config, "roles": {**config.get("roles", {}), role: name}}
            config = {**config, "data": _tables.write(place, columns), **self._activation(place)}
            try:
                return self._ask(config)
            except _command.CommandError as err:
                line = _by_the_user(str(err), config["data"], target, name_of_target)
                refused = _command.CommandError(line, err.code)
            file = self._of_few_rows(config, columns, target, refused)
        if file is None:
            raise refused
        self._say_tiny(file["k"], refused)
        return file

    def _of_few_rows(self, config, columns, target, refused):
        """The file of a table that the command refuses for its size, or for what is linear in it: of the most experts below
        those asked for that the rows determine, or by least squares. All else is as it was asked for. None of others."""
        n, said = len(columns[target]), str(refused)
        if _FEW.search(said) and n <= _FEW_ROWS:
            less = {key: value for key, value in config.items() if key not in ("k_to", "choose")}
            # k experts have 2k parameters or more: k intercepts, k - 1 of the gate, and the noise.
            for k in range(min(max(config["k"], config.get("k_to", 0)) - 1, n // 2), 0, -1):
                try:
                    return self._ask({**less, "k": k})
                except _command.CommandError as err:
                    if not _FEW.search(str(err)):
                        return None
        elif not _REGULAR.search(said) or not _exact(config, columns, target):
            return None
        return self._least_squares(config, columns, target)

    def _ask(self, config):
        threads = ["--threads", str(1 if self.n_jobs is None else self.n_jobs)]
        if self.n_jobs is not None and self.n_jobs < 0:
            threads = []
        embed = ["--embed"] if config.get("activation", {}).get("name", "").endswith(".wasm") else []
        out = _command.run(["fit", "--config", "-", "--json", *threads, *embed], stdin=json.dumps(config), accept=(0, 1),
                           verbose=bool(self.verbose))
        file = json.loads(out)
        file.pop("seconds", None)
        return file

    def _activation(self, place):
        self.activation_error_ = None
        if callable(self.activation) or isinstance(self.activation, TabulatedFunction):
            curve = os.path.join(place, "curve.csv")
            self.activation_error_ = write_curve(self.activation, curve, 4).error
            return {"activation": {"name": "table:" + curve}}
        if self.activation is None and self.family != "gaussian":
            return {}
        name = "identity" if self.activation is None else os.fspath(self.activation)
        return {"activation": {"name": name} | ({"params": dict(self.activation_params)} if self.activation_params else {})}

    @staticmethod
    def _say_tiny(k, refused):
        warnings.warn(f"{k} expert{'s' * (k > 1)}, for the command refuses more: {refused}", TinyTableWarning, stacklevel=4)

    def _least_squares(self, config, columns, target):
        """The file of one linear expert by least squares: of what has no noise, or fewer rows than parameters."""
        plain = self.formula is None and self.family == "gaussian" and not config.get("shared")
        if not plain or "categorical" in config or config["activation"]["name"] != "identity":
            return None
        if set(config.get("roles", {})) - {"weights"}:
            return None
        names = config["features"]
        x, y = np.column_stack([columns[name] for name in names]), columns[target]
        root = np.sqrt(columns[config["roles"]["weights"]]) if "roles" in config else np.ones(len(y))
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            return None
        ones = np.full(len(y), float(bool(self.fit_intercept)))
        a = np.linalg.lstsq(np.column_stack([x, ones]) * root[:, None], y * root, rcond=None)[0]
        residuals = (y - np.column_stack([x, ones]) @ a) * root
        n, size = (root**2).sum(), max(1.0, np.abs(y).max())
        sigma = max(np.sqrt((residuals**2).sum() / n), 1e-8 * size)
        llf = -0.5 * n * np.log(2 * np.pi * sigma**2) - 0.5 * (residuals**2).sum() / sigma**2
        p = len(names) + 1 + bool(self.fit_intercept)
        return {
            "format": "moe-model/v1", "activation": {"name": "identity", "params": {}, "version": "1"},
            "d": len(names), "k": 1, "features": names, "target": target, "regressors": [a[:-1].tolist()], "gating": [],
            "regressor_intercepts": [float(a[-1])] if self.fit_intercept else None, "gating_intercepts": None,
            "sigma": float(sigma), "proportions": [1.0], "standard_errors": None, "covariance": None,
            "fit": {"method": "least-squares", "seed": config["seed"], "n": len(y), "log_likelihood": float(llf),
                    "bic": float(p * np.log(n) - 2 * llf), "aic": float(2 * p - 2 * llf), "converged": True,
                    "status": "converged", "iterations": 0, "starts": [], "certificate": None, "moments_estimate": None,
                    "notes": ["one linear expert by least squares"]}}

    def _fitted_values(self, columns, levels, y, known):
        """E[y|x] of the rows of the fit, NaN where a cell is missing or only the command has the activation. Some of the
        rows are kept for pictures."""
        self._shown = None
        if not self.model_._alone:
            return np.full(len(next(iter(columns.values()))), np.nan)
        columns = {name: columns[name] for name in self.model_.columns}
        whole = ~np.any([np.isnan(v) for v in columns.values()], axis=0)
        columns = {name: values[whole] for name, values in columns.items()}
        for name in levels.keys() & columns.keys():
            columns[name] = np.array(levels[name], dtype=object)[columns[name].astype(int)]
        out = np.full(len(whole), np.nan)
        x = self.model_.matrix(columns)
        known = {name: values[whole] for name, values in known.items()}
        out[whole] = self.model_.mean(x, **known)
        some = np.linspace(0, len(x) - 1, min(len(x), _pictures.ROWS)).round().astype(int)
        self._shown = x[some], np.asarray(y)[whole][some], {name: values[some] for name, values in known.items()}
        return out

    def _keep(self, file):
        model, fit = Model(file), file["fit"]
        self.model_ = model
        self.coef_, self.intercept_ = model.regressors, model.intercepts
        self.gate_coef_, self.gate_intercept_ = model.gating, model.gating_intercepts
        self.sigma_, self.n_experts_, self.proportions_ = model.sigma, model.k, model.proportions
        self.own_ = model.own
        self.groups_ = {id: np.array(p) for id, p in ((model.groups or {}).get("posteriors") or {}).items()}
        self.log_likelihood_, self.bic_, self.aic_ = fit["log_likelihood"], fit["bic"], fit["aic"]
        self.nobs_ = fit.get("weight") or fit["n"]
        self.certificate_, self.starts_ = fit.get("certificate"), fit["starts"]
        self.warnings_ = _advice.weighed(fit)
        self.selection_, self.notes_ = fit.get("selection") or [], fit.get("notes") or []
        self.k_set_, self.k_at_least_ = fit.get("k_set") or [], fit.get("k_at_least")
        self.feature_names_out_ = model.features

    def _warn(self):
        fit, certificate = self.model_.file["fit"], self.certificate_
        if not fit["converged"]:
            warnings.warn(f"the fit did not converge: {fit['status']}", ConvergenceWarning, stacklevel=3)
        if self.warnings_:
            shown, more = self.warnings_[:_advice.SHOWN], len(self.warnings_) - _advice.SHOWN
            said = shown + [f"{more} more: warnings_"] * (more > 0)
            warnings.warn(". ".join(said), FitWarning, stacklevel=3)
        if certificate is None:
            return
        if certificate["optimum"] != "pass":
            hint = f"; try {_advice.arguments(certificate['optimum_try'])}" if certificate.get("optimum_try") else ""
            warnings.warn(f"optimum: {certificate['optimum']}; {certificate['reason']}{hint}", OptimumNotPassedWarning,
                          stacklevel=3)
        if certificate["model"] == "suspect":
            hint = f"; try {_advice.arguments(certificate['try'])}" if certificate.get("try") else ""
            warnings.warn(f"model: suspect; p = {certificate['p_value']:.2g}, which suggests {certificate.get('cause')}{hint}",
                          ModelSuspectWarning, stacklevel=3)

    @property
    def result_(self):
        """Coefficients with their errors, in the manner of statsmodels."""
        check_is_fitted(self, "model_")
        return Result(self.model_, *self._fitted)

    def plot(self):
        """Draw the fit: each expert along its index with rows, the gate against its strongest feature, residuals, starts.

        Of many rows some are shown, evenly from the first to the last.

        Returns
        -------
        matplotlib.figure.Figure
        """
        check_is_fitted(self, "model_")
        if self._shown is None:
            raise ValueError("the activation is not in the model's file, and pictures need its values")
        x, y, known = self._shown
        return _pictures.plot(self.model_, x, y, self.feature_names_out_, known, self._name_of_trials)

    def plot_k(self):
        """Draw BIC, ICL and AIC against the numbers of experts of a range.

        Returns
        -------
        matplotlib.figure.Figure
        """
        check_is_fitted(self, "model_")
        return _pictures.plot_k(self.selection_, self.n_experts_)

    # What the model says of rows.

    def _rows(self, X):
        """Raw columns of X by name, and which rows lack no cell."""
        _tables.refuse_twice(X)
        if _tables.is_frame(X) and (self.formula is not None or not _tables.is_plain(X)):
            if self.formula is None:
                _compat.check_feature_names(self, X, reset=False)
            missing = [name for name in self.model_.columns if name not in X.columns]
            if missing:
                raise ValueError(f"no column {missing[0]!r}; there are {', '.join(map(repr, X.columns))}")
            columns = {name: _tables.words(X[name]) for name in self.model_.columns}
        else:
            how = dict(dtype=np.float64, ensure_min_samples=0, **_compat.all_finite(self.missing == "drop"))
            matrix = _compat.validate_data(self, X, reset=False, **how)
            names = list(getattr(self, "feature_names_in_", _names(matrix.shape[1])))
            columns = {name: matrix[:, names.index(name)] for name in self.model_.columns}
        whole = np.ones(len(next(iter(columns.values()))), dtype=bool)
        for name, values in columns.items():
            absent = np.isnan(values) if values.dtype != object else np.array([v is None or v != v for v in values], bool)
            if self.missing != "drop" and absent.any():
                raise ValueError(f"column {name!r}: row {int(np.argmax(absent))} is missing (NaN)")
            whole &= ~absent
        return columns, whole

    def _known_of(self, n, groups, offset, trials):
        """What else is known of rows, as the model's methods take it."""
        known = {}
        for name, values in (("offset", offset), ("trials", trials)):
            if values is not None:
                known[name] = _column(values)
        if groups is not None:
            known["groups"] = _tables.ids(groups)
        for name, values in known.items():
            if len(values) != n:
                raise ValueError(f"{name} has {len(values)} values for {n} rows")
        return known

    def _with_offset(self, known, columns):
        """What is known of rows with the offset that a formula takes from a column of theirs."""
        role = self.model_.offset_of
        if role is None or "offset" in known or self.formula is None:
            return known
        name = re.fullmatch(r"log\((.*)\)|(.*)", role)
        column = name.group(1) or name.group(2)
        if column not in columns:
            raise ValueError(f"no column {column!r}, which the offset {role} is of")
        values = np.asarray(columns[column], dtype=float)
        return {**known, "offset": np.log(values) if name.group(1) else values}

    def _of_rows(self, X, say, by_command=None, y=None, groups=None, offset=None, trials=None):
        """What say returns for the features, and by_command for a table of records where only the command can; NaN for rows
        that lack a cell."""
        columns, whole = self._rows(X)
        known = self._known_of(len(whole), groups, offset, trials)
        self._check_known(known)
        if _tables.is_frame(X):
            known = self._with_offset(known, X)
        if y is not None:
            y = _column(y, self.missing == "drop")
            check_consistent_length(whole, y)
            whole &= ~np.isnan(y)
            y = y[whole]
        columns = {name: values[whole] for name, values in columns.items()}
        known = {name: values[whole] for name, values in known.items()}
        if self.model_._alone:
            x = self.model_.matrix(columns)
            values = say(x, **known) if y is None else say(x, y, **known)
        elif by_command is None:
            raise ValueError("the activation is not in the model's file, and the command predicts no more of it")
        elif known or self.model_.family is not None:
            raise ValueError("the activation is not in the model's file: moe predict has its predictions")
        else:
            if any(values.dtype == object for values in columns.values()):
                raise ValueError("the command takes words only from a CSV file: moe predict")
            table = columns if y is None else {**columns, self.model_.target: y}
            values = by_command(_tables.records(table))
        if whole.all():
            return values
        out = np.full((len(whole), *values.shape[1:]), np.nan)
        out[whole] = values
        return out

    def _check_known(self, known):
        """Refuse what the model does not have, which would have no effect."""
        model = self.model_
        has = {"offset": model.offset_of is not None, "trials": model.trials_of is not None, "groups": bool(model.groups)}
        for name in known:
            if not has[name]:
                raise ValueError(f"{name}: the model was fitted without {name}")

    def _command_columns(self, pattern, level=0.0, width=1):
        def ask(table):
            if not len(table):
                return np.empty((0, width))
            found = by_command(self.model_, table, level)
            return np.column_stack([values for name, values in found.items() if re.fullmatch(pattern, name)])
        return ask

    def predict(self, X, groups=None, offset=None, trials=None):
        """Predict the mean of y, of shape (n,).

        Parameters
        ----------
        X : array or frame of shape (n, d)
        groups, offset, trials : array of shape (n,), optional
            As `fit` had them. Of ids that the fit has seen the group's posterior is used, of others the gate. Without
            trials a binomial model gives probabilities, with them mean counts.
        """
        check_is_fitted(self, "model_")
        column = "median" if self.model_.scale == "reciprocal" else "mean"
        return self._of_rows(X, self.model_.mean, lambda table: self._command_columns(column)(table)[:, 0], groups=groups,
                             offset=offset, trials=trials)

    def expert_proba(self, X, groups=None):
        """P(z=i|x), of shape (n, n_experts_), with a column more of a zero expert; of a row in a group that the fit has seen its posterior."""
        check_is_fitted(self, "model_")
        return self._of_rows(X, self.model_.gate, self._command_columns(r"p(\d+|_zero)", width=self.model_.classes),
                             groups=groups)

    def posterior(self, X, y, groups=None, offset=None, trials=None):
        """P(z=i|x,y), of shape (n, n_experts_); for a frame X a frame with its index. Rows in groups have that of their
        group: of those that the fit has seen what is known of them, of others that of all their rows in X."""
        check_is_fitted(self, "model_")
        ask = self._command_columns(r"posterior(\d+|_zero)", width=self.model_.classes)
        out = self._of_rows(X, self.model_.posterior, ask, y, groups=groups, offset=offset, trials=trials)
        if not _tables.is_frame(X):
            return out
        import pandas as pd
        return pd.DataFrame(out, index=X.index, columns=self.model_.names)

    def predict_quantile(self, X, q, groups=None, offset=None, trials=None):
        """Quantiles of y given x, of counts the least y with P(Y <= y) >= q.

        Parameters
        ----------
        X : array or frame of shape (n, d)
        q : float or array of shape (m,)
            Probabilities between 0 and 1.
        groups, offset, trials : array of shape (n,), optional
            As of `predict`.

        Returns
        -------
        ndarray of shape (n,) or (n, m)
            The parameters' covariance is in them where the model has one, as in ``moe predict --interval``.
        """
        check_is_fitted(self, "model_")

        def one(p):
            if not isinstance(p, Real) or not 0 < p < 1:
                raise ValueError(f"quantile {p!r}: want a probability between 0 and 1")
            p = float(p)
            end = self._command_columns("lower" if p < 0.5 else "upper", max(abs(1 - 2 * p), 1e-12))
            return self._of_rows(X, lambda x, **known: self.model_.quantile(x, p, **known), lambda table: end(table)[:, 0],
                                 groups=groups, offset=offset, trials=trials)
        return one(q) if np.ndim(q) == 0 else np.column_stack([one(p) for p in q])

    def predict_interval(self, X, level=0.9, groups=None, offset=None, trials=None):
        """Ends of the central prediction interval of y given x, of shape (n, 2)."""
        if not isinstance(level, Real) or not 0 < level < 1:
            raise ValueError(f"level {level!r}: want a probability between 0 and 1")
        return self.predict_quantile(X, [(1 - level) / 2, (1 + level) / 2], groups, offset, trials)

    def sample(self, X, n_samples=1, random_state=None, groups=None, offset=None, trials=None):
        """Draw targets given x, of shape (n, n_samples), with the parameters as they are."""
        check_is_fitted(self, "model_")
        random = check_random_state(random_state)
        return self._of_rows(X, lambda x, **known: np.column_stack([self.model_.sample(x, random, **known)
                                                                    for _ in range(n_samples)]),
                             groups=groups, offset=offset, trials=trials)

    def log_density(self, X, y, offset=None, trials=None):
        """log p(y|x) of each row, its expert not known; ndarray of shape (n,), NaN of rows that were dropped."""
        check_is_fitted(self, "model_")
        return self._of_rows(X, self.model_.log_density, None, y, offset=offset, trials=trials)

    def log_score(self, X, y, sample_weight=None, groups=None, offset=None, trials=None):
        """The mean of :meth:`log_density` over the rows; of rows in groups that of all targets of each, added up, over the rows."""
        check_is_fitted(self, "model_")
        if sample_weight is not None:
            sample_weight = _weights_of(sample_weight, _numbers(y))
        if groups is None:
            of_rows = self.log_density(X, y, offset, trials)
            whole = ~np.isnan(of_rows)
            return float(np.average(of_rows[whole], weights=None if sample_weight is None else sample_weight[whole]))
        if sample_weight is not None:
            raise ValueError("sample_weight: a score of rows in groups has none")

        def together(x, y, groups, **known):
            total = self.model_.log_density_of_groups(x, y, groups, **known).sum()
            return np.full(len(x), total / max(len(x), 1))
        return float(np.nanmean(self._of_rows(X, together, None, y, groups=groups, offset=offset, trials=trials)))

    def score(self, X, y, sample_weight=None):
        """R2 of :meth:`predict`, without the rows that were dropped."""
        predicted, y = self.predict(X), _column(y, self.missing == "drop")
        check_consistent_length(predicted, y)
        whole = ~np.isnan(predicted + y)
        if sample_weight is not None:
            sample_weight = _weights_of(sample_weight, y)[whole]
        return r2_score(y[whole], predicted[whole], sample_weight=sample_weight)


def _names(d):
    return [f"x{j + 1}" for j in range(d)]


def _column(values, missing=False):
    """Finite numbers of shape (n,), of no rows too, and NaN where some may be missing."""
    return column_or_1d(check_array(_numbers(values), ensure_2d=False, dtype=np.float64, ensure_min_samples=0,
                                    **_compat.all_finite(missing)))


def _numbers(y):
    return y.to_numpy() if hasattr(y, "to_numpy") else y


def _weights_of(sample_weight, y):
    """The weights of the rows of y, none of them below 0 and one of them above."""
    try:
        given = np.atleast_1d(np.asarray(_numbers(sample_weight), dtype=float))
    except (TypeError, ValueError):
        given = np.zeros(0)  # what no number is made of is refused below
    bad = ~(np.isfinite(given) & (given >= 0))
    if bad.any():
        row = np.argwhere(bad)[0][0]
        raise ValueError(f"sample_weight: row {row} has {given[bad][0]}; want finite weights of 0 or more")
    weights = _check_sample_weight(sample_weight, y, dtype=float)
    if not weights.any():
        raise ValueError("sample_weight: all weights are 0, and no row is left")
    return weights


def _by_the_user(line, path, target, name):
    """The command's line on a table that the user has not seen: without its path, and with the target's own name."""
    line = line.replace(path, "the data")
    return line if target == name else re.sub(r"(?<![\w.])" + re.escape(target) + r"(?![\w.])", lambda _: name, line)


def _left_side(formula):
    """The column of the target that a formula names; None where it names none."""
    match = re.match(r"\s*(?:(?:log|sqrt)\s*\(|1\s*/)?\s*(?:`([^`]+)`|([A-Za-z_.][\w.]*))\s*\)?\s*~", formula or "")
    return match and (match.group(1) or match.group(2))


def _number_of(n_experts):
    """The number of experts, or the range, as the command's description has it."""
    if isinstance(n_experts, Integral) and not isinstance(n_experts, bool):
        if n_experts < 1:
            raise ValueError(f"n_experts = {n_experts}: want a number from 1 on, or (least, most) of a range")
        return {"k": int(n_experts)}
    if isinstance(n_experts, range) and n_experts.step == 1 and len(n_experts) > 0:
        return {"k": n_experts[0], "k_to": n_experts[-1]}
    if isinstance(n_experts, (tuple, list)) and len(n_experts) == 2 and all(isinstance(k, Integral) for k in n_experts):
        return {"k": int(n_experts[0]), "k_to": int(n_experts[1])}
    raise ValueError(f"n_experts = {n_experts!r}: want a number, (least, most) or a range in steps of 1")


def _exact(config, columns, target):
    """Whether the target is a linear function of the features, but for rounding."""
    y = columns[target]
    x = np.column_stack([np.ones(len(y)), *(columns[name] for name in config.get("features", []))])
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return False
    residuals = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    return bool(np.abs(residuals).max() <= 1e-8 * max(1e-300, np.abs(y).max()))
