"""Families, offsets, trials and groups: the package against the command, against R, and against laws written out.

Both sum some ten terms of size 1 to 100 in double precision, in other orders: 1e-12 of the values' size is a hundred
roundings and more. Quantiles are the same whole numbers, or 1e-9 of each other.
"""

import csv
import io
import json
import os

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from moe_regression import CommandError, Model, MoERegressor

TABLES = os.path.join(os.path.dirname(__file__), "..", "..", "host", "testdata")


def rows(n=400, seed=5):
    """Rows of two features in groups of four, with targets of every family, an offset and trials."""
    r = np.random.RandomState(seed)
    x = r.standard_normal((n, 2))
    first = r.random_sample(n) < 1 / (1 + np.exp(-x[:, 0]))
    z = np.where(first, 0.5 + 0.6 * x[:, 1], 1.5 - 0.4 * x[:, 0])
    offset, trials = 0.3 * r.standard_normal(n), r.randint(1, 9, n).astype(float)
    p = 1 / (1 + np.exp(2 - 2 * z))
    return x, offset, trials, np.arange(n) // 4, {
        "poisson": r.poisson(np.exp(z)), "poisson-offset": r.poisson(np.exp(z + offset)),
        "negative-binomial": r.negative_binomial(2, 2 / (2 + np.exp(z))), "gamma": r.gamma(3, np.exp(z) / 3),
        "student-t": z + 0.3 * r.standard_t(3, n), "lognormal": np.exp(z + 0.3 * r.standard_normal(n)),
        "binomial": (r.random_sample(n) < p).astype(float), "binomial-trials": r.binomial(trials.astype(int), p),
        "gaussian": z + 0.3 * r.standard_normal(n)}


CASES = {
    "poisson": (), "poisson-offset": ("--offset", "o"), "negative-binomial": (), "gamma": (),
    "student-t": ("--noise", "per-expert"), "lognormal": (), "binomial": ("--k", "1"), "binomial-trials": ("--trials", "t"),
    "poisson grouped": ("--group", "id"), "gaussian grouped": ("--group", "id"), "student-t of dof 4": ("--dof", "4"),
    "poisson with zeros": ("--zero-expert", "--k", "1"), "negative-binomial per expert": ("--noise", "per-expert"),
    "gamma per expert": ("--noise", "per-expert"),
}


@pytest.mark.parametrize("name", CASES)
def test_equal_to_the_command(name, moe, tmp_path):
    x, offset, trials, ids, targets = rows()
    kind = name.split()[0]
    y = targets[kind]
    family = kind.replace("-offset", "").replace("-trials", "")
    columns = {"a": x[:, 0], "b": x[:, 1], "o": offset, "t": trials, "id": ids, "y": y}
    np.save(tmp_path / "fit.npy", np.array(list(zip(*columns.values())), dtype=[(c, "<f8") for c in columns]))
    flags = CASES[name]
    k = () if "--k" in flags else ("--k", "2")
    moe("fit", "fit.npy", "--target", "y", "--features", "a,b", "--family", family, *k, *flags, "--intercept", "-o",
        "model.json", "--gate-penalty", "none", cwd=tmp_path)
    model = Model.read(tmp_path / "model.json")
    some = slice(0, 60)
    known = {}
    if "offset" in name:
        known["offset"] = offset[some]
    if "trials" in name:
        known["trials"] = trials[some]
    if "grouped" in name:
        known["groups"] = np.array([str(i) for i in ids[some]], dtype=object)
    without = {c: v[some] for c, v in columns.items() if c != "y"}
    np.save(tmp_path / "new.npy", np.array(list(zip(*without.values())), dtype=[(c, "<f8") for c in without]))
    np.save(tmp_path / "rows.npy", np.load(tmp_path / "fit.npy")[some])
    moe("predict", "model.json", "new.npy", "--interval", "0.9", "-o", "new.csv", cwd=tmp_path)
    moe("predict", "model.json", "rows.npy", "-o", "rows.csv", cwd=tmp_path)
    new, old = (pd.read_csv(tmp_path / f) for f in ("new.csv", "rows.csv"))
    features = x[some]

    def near(got, want, within=1e-12):
        np.testing.assert_allclose(got, want, rtol=within, atol=within)
    near(model.mean(features, **known), new["mean"])
    gates = [c for c in new if c[0] == "p" and c[1:].isdigit()]
    groups = {"groups": known["groups"]} if "groups" in known else {}
    if gates:
        gates += [c for c in new if c == "p_zero"]
        near(model.gate(features, **groups), new[gates])
        near(model.posterior(features, y[some], **known), old[[c for c in old if c.startswith("posterior")]])
    assert model._uncertainty is not None
    # Beyond the rows of the fit the parameters say less of a mean than its law tells, and rules have more nodes.
    without["a"], without["b"] = 3 * without["a"], 3 * without["b"]
    np.save(tmp_path / "far.npy", np.array(list(zip(*without.values())), dtype=[(c, "<f8") for c in without]))
    moe("predict", "model.json", "far.npy", "--interval", "0.9", "-o", "far.csv", cwd=tmp_path)
    far = pd.read_csv(tmp_path / "far.csv")
    near(model.quantile(3 * features, 0.05, **known), far["lower"], 1e-9)
    near(model.quantile(3 * features, 0.95, **known), far["upper"], 1e-9)
    near(model.quantile(features, 0.05, **known), new["lower"], 1e-9)
    near(model.quantile(features, 0.95, **known), new["upper"], 1e-9)
    scored = json.loads(moe("evaluate", "model.json", "rows.npy", "--json", cwd=tmp_path))
    if "groups" in known:
        total = model.log_density_of_groups(features, y[some], **known).sum()
    else:
        total = model.log_density(features, y[some], **known).sum()
    near(total, scored["log_likelihood"], 1e-11)


def law(family, m, own, trials=None):
    """The law of a family in scipy.stats."""
    if family == "poisson":
        return stats.poisson(m)
    if family == "negative-binomial":
        return stats.nbinom(own["theta"], own["theta"] / (own["theta"] + m))
    if family == "gamma":
        return stats.gamma(own["shape"], scale=m / own["shape"])
    if family == "binomial":
        return stats.binom(trials[:, None], m)
    return stats.t(own["dof"], loc=m, scale=own["sigma"])


@pytest.mark.parametrize("family", ["poisson", "negative-binomial", "gamma", "student-t", "binomial"])
def test_laws_of_scipy(family):
    x, _, trials, _, targets = rows()
    of = family if family != "binomial" else "binomial-trials"
    y = targets[of].astype(float)
    known = {"trials": trials} if family == "binomial" else {}
    fit = MoERegressor(2, family=family, random_state=1).fit(x, y, **known)
    model = fit.model_
    z = x @ fit.coef_.T + fit.intercept_
    m = {"student-t": z, "binomial": 1 / (1 + np.exp(-z))}.get(family, np.exp(z))
    own = {**fit.own_, "sigma": fit.sigma_}
    p = fit.expert_proba(x)
    f = law(family, m, own, trials)
    each = f.logpdf(y[:, None]) if family in ("gamma", "student-t") else f.logpmf(y[:, None])
    np.testing.assert_allclose(fit.log_score(x, y, **known), np.log((p * np.exp(each)).sum(axis=1)).mean(), rtol=1e-9)
    assert fit.log_score(x, y, **known) * len(y) == pytest.approx(fit.log_likelihood_, rel=1e-9)
    wide = fit.predict_quantile(x, 0.99, **known) - fit.predict_quantile(x, 0.01, **known)
    model._uncertainty = None  # from here on the parameters are as they are
    assert (wide - fit.predict_quantile(x, 0.99, **known) + fit.predict_quantile(x, 0.01, **known)).sum() > 0
    for q in (0.05, 0.5, 0.99):
        at = fit.predict_quantile(x, q, **known)
        reached = (p * f.cdf(at[:, None])).sum(axis=1)
        if model.family.whole:
            assert (reached >= q - 1e-12).all()
            assert ((p * f.cdf(at[:, None] - 1)).sum(axis=1) < q + 1e-12).all()
        else:
            np.testing.assert_allclose(reached, q, atol=1e-9)
    # Of 400 means of 400 draws one is 5 standard errors off with a probability of 2e-4.
    drawn = fit.sample(x, 400, random_state=3, **known)
    mean = fit.predict(x, **known)
    if family != "student-t":
        assert np.abs((drawn.mean(axis=1) - mean) / (drawn.std(axis=1) / 20 + 1e-9)).max() < 6
    table = fit.result_.table()
    assert {"theta", "shape", "dof", "sigma"} & set(table.index) == set(own if family == "student-t" else fit.own_)
    ends = fit.result_.conf_int()
    inside = fit.result_.bse.notna()
    assert (ends.loc[inside, 0] < fit.result_.params[inside]).all()
    assert family in str(fit.result_.summary())


def read(name):
    with open(os.path.join(TABLES, name)) as f:
        return pd.DataFrame([{k: (float(v) if v.replace(".", "", 1).isdigit() else v) for k, v in row.items()}
                             for row in csv.DictReader(f)])


def test_glm_of_r():
    """glm(cbind(ncases, ncontrols) ~ age + alc + tob, binomial, esoph)."""
    esoph = read("esoph.csv")
    fit = MoERegressor(1, family="binomial").fit(esoph[["age", "alc", "tob"]], esoph["ncases"],
                                                 trials=esoph["ncases"] + esoph["ncontrols"])
    assert fit.log_likelihood_ == pytest.approx(-111.91672945106, abs=1e-6)
    np.testing.assert_allclose(fit.coef_[0], [0.74375136, 1.10255472, 0.43085076], rtol=1e-5)
    np.testing.assert_allclose(fit.intercept_, [-7.16395276], rtol=1e-5)
    np.testing.assert_allclose(fit.result_.bse[["expert1:age", "expert1:alc", "expert1:tob", "expert1:(intercept)"]],
                               [0.0817868, 0.1031689, 0.0939367, 0.5093146], rtol=1e-3)


def test_groups_by_words():
    """Groups whose ids are words: known ones have their posterior, others the gate."""
    x, _, _, ids, targets = rows()
    names = np.array([f"clinic {i}" for i in ids], dtype=object)
    fit = MoERegressor(2, random_state=1).fit(x, targets["gaussian"], groups=names)
    assert set(fit.groups_) == set(names)
    known = fit.expert_proba(x, groups=names)
    np.testing.assert_array_equal(known[0], fit.groups_["clinic 0"])
    new = np.array(["another"] * len(x), dtype=object)
    np.testing.assert_array_equal(fit.expert_proba(x, groups=new), fit.expert_proba(x))
    joint = fit.posterior(x[:4], targets["gaussian"][:4], groups=new[:4])
    assert (joint == joint[0]).all()
    np.testing.assert_allclose(joint[0], fit.groups_["clinic 0"], rtol=1e-9)
    score = fit.log_score(x, targets["gaussian"], groups=names)
    assert score * len(x) == pytest.approx(fit.log_likelihood_, rel=1e-9)
    assert len(fit.result_.fittedvalues) == len(x)


def test_formula_with_offset():
    x, offset, _, _, targets = rows()
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "hours": np.exp(offset), "y": targets["poisson-offset"]})
    by_formula = MoERegressor(2, family="poisson", formula="y ~ a + b + offset(log(hours))", random_state=1).fit(frame)
    by_array = MoERegressor(2, family="poisson", random_state=1).fit(x, frame["y"], offset=offset)
    assert by_formula.log_likelihood_ == pytest.approx(by_array.log_likelihood_, abs=1e-6)
    np.testing.assert_allclose(by_formula.predict(frame), by_array.predict(x, offset=offset), rtol=1e-5)


def test_choose_and_shared():
    x, _, _, _, targets = rows()
    fit = MoERegressor((1, 2), choose="icl", random_state=1).fit(x, targets["gaussian"])
    assert [c["k"] for c in fit.selection_] == [1, 2]
    fit = MoERegressor(2, shared=["x2"], random_state=1).fit(x, targets["gaussian"])
    assert fit.coef_[0, 1] == fit.coef_[1, 1]


@pytest.mark.parametrize("family", ["poisson", "negative-binomial"])
def test_zero_expert(family, moe, tmp_path):
    """A class of the gate that is always 0: all that is said of rows is what the command says, and the law written out."""
    x, _, _, _, targets = rows()
    y = np.where(np.random.RandomState(8).random_sample(len(x)) < 1 / (1 + np.exp(1 - x[:, 1])), 0, targets[family])
    fit = MoERegressor(1, family=family, zero_expert=True, random_state=1).fit(x, y)
    assert fit.expert_proba(x).shape == (len(x), 2) and fit.coef_.shape == (1, 2) and fit.gate_coef_.shape == (1, 2)
    pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "y": y}).to_csv(tmp_path / "rows.csv", index=False)
    fit.model_.write(tmp_path / "model.json")
    table = pd.read_csv(io.StringIO(moe("predict", "model.json", "rows.csv", "--interval", "0.9", cwd=tmp_path)))
    np.testing.assert_allclose(fit.predict(x), table["mean"], rtol=1e-12)
    np.testing.assert_allclose(fit.expert_proba(x), table[["p1", "p_zero"]], rtol=1e-12)
    np.testing.assert_allclose(fit.posterior(x, y), table[["posterior1", "posterior_zero"]], rtol=1e-12, atol=1e-300)
    np.testing.assert_array_equal(fit.predict_interval(x, 0.9), table[["lower", "upper"]])
    p, mean = fit.expert_proba(x), fit.model_.experts(x)[:, 0]
    theta = fit.own_.get("theta", [np.inf])[0]
    law = stats.poisson(mean) if family == "poisson" else stats.nbinom(theta, theta / (theta + mean))
    np.testing.assert_allclose(fit.log_density(x, y), np.log(p[:, 0] * law.pmf(y) + p[:, 1] * (y == 0)), rtol=1e-9)
    assert fit.log_density(x, y).sum() == pytest.approx(fit.log_likelihood_, rel=1e-9)
    drawn = fit.sample(x, 200, random_state=1)
    assert abs((drawn == 0).mean() - (p[:, 0] * law.pmf(0) + p[:, 1]).mean()) < 0.01  # 80,000 draws: six standard errors
    assert list(fit.posterior(pd.DataFrame(x, columns=["x1", "x2"]), y).columns) == ["expert1", "zero"]
    assert "expert1:x1" in fit.result_.params.index and np.isfinite(fit.result_.bse).all()
    with pytest.raises(CommandError, match="only counts"):
        MoERegressor(1, zero_expert=True).fit(x, targets["gaussian"])


def test_clusters(moe, tmp_path):
    """Standard errors by clusters are the command's, of words as of numbers, and intervals go by its t law."""
    x, _, _, ids, targets = rows()
    frame = pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "id": ids, "y": targets["gaussian"]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    moe("fit", "rows.csv", "--target", "y", "--k", "2", "--intercept", "--cluster", "id", "-o", "model.json", cwd=tmp_path)
    file = json.loads((tmp_path / "model.json").read_text())
    fit = MoERegressor(2, random_state=1).fit(x, frame["y"], clusters=[f"clinic {i}" for i in ids])
    np.testing.assert_allclose(fit.result_.cov_params(), file["covariance"]["matrix"], rtol=1e-9, atol=1e-14)
    clusters = file["standard_errors"]["clusters"]
    assert clusters["count"] == 100 and fit.model_.file["standard_errors"]["clusters"]["count"] == 100
    wide = (fit.result_.conf_int()[1] - fit.result_.params)["expert1:x1"] / fit.result_.bse["expert1:x1"]
    assert wide == pytest.approx(clusters["critical_value"], rel=1e-9)
    with pytest.raises(ValueError, match="clusters: row 3 is missing"):
        MoERegressor(2).fit(x, frame["y"], clusters=[0, 0, 1, None] + [2] * (len(x) - 4))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        MoERegressor(2).fit(x, frame["y"], clusters=[0, 1])


def test_refusals():
    x, offset, trials, ids, targets = rows()
    y = targets["poisson"].astype(float)
    plain = MoERegressor(2, family="poisson", random_state=1).fit(x, y)
    with pytest.raises(ValueError, match="fitted without offset"):
        plain.predict(x, offset=offset)
    with pytest.raises(ValueError, match="fitted without groups"):
        plain.predict(x, groups=ids)
    with pytest.raises(ValueError, match="row 3: the target is 0.5, want a count"):
        plain.log_score(x[:5], [1, 2, 3, 0.5, 1])
    with pytest.raises(ValueError, match="offset has 3 values for 400 rows"):
        MoERegressor(2, family="poisson").fit(x, y, offset=[1, 2, 3])
    offsets = MoERegressor(2, family="poisson", random_state=1).fit(x, targets["poisson-offset"], offset=offset)
    with pytest.raises(ValueError, match="the model has an offset"):
        offsets.predict(x)
    with pytest.raises(ValueError, match="groups: row 1 is missing"):
        MoERegressor(2).fit(x[:3], y[:3], groups=["a", None, "b"])
    counts = MoERegressor(1, family="binomial").fit(x, targets["binomial-trials"], trials=trials)
    with pytest.raises(ValueError, match="want them for these rows"):
        counts.log_score(x, targets["binomial-trials"])
    assert (counts.predict(x) <= 1).all()
