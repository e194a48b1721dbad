"""What `result_` and `compare` say: against the command's file, least squares by numpy, and formulas of the criteria."""

import json
import xml.etree.ElementTree as tree

import numpy as np
import pytest
from conftest import mixture
from scipy import stats

from moe_regression import CommandError, MoERegressor, compare

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore::moe_regression.ModelSuspectWarning")


@pytest.mark.parametrize("how", [{}, {"noise": "per-expert"}, {"activation": "relu"},
                                 {"formula": "y ~ x1 + x2 | x1 + x3"}, {"gate": "constant"}, {"errors": ["robust"]}],
                         ids=lambda how: "-".join(how) or "linear")
def test_is_the_file_of_the_command(how, moe, tmp_path):
    x, y = mixture()
    flags = {"noise": ["--noise", "per-expert"], "activation": ["--activation", "relu"], "gate": ["--gate", "constant"],
             "errors": ["--robust"],
             "formula": ["--formula", "y ~ x1 + x2 | x1 + x3"]}
    np.save(tmp_path / "d.npy", np.column_stack([x, y]))
    file = json.loads(moe("fit", "d.npy", "--k", "2", "--seed", "1", "--json", *([] if "formula" in how else ["--intercept"]),
                          *(f for part in how for f in flags[part]), cwd=tmp_path))
    result = MoERegressor(2, random_state=1, **how).fit(x, y).result_
    errors = file["standard_errors"]
    assert (result.llf, result.aic, result.bic, result.nobs) == (
        *(file["fit"][name] for name in ("log_likelihood", "aic", "bic")), file["fit"]["n"])
    # Every parameter is in the table once, so that the criteria can be made again.
    p = len(result.params)
    assert result.df_model == p and result.params.index.is_unique
    np.testing.assert_allclose([result.aic, result.bic], [2 * p - 2 * result.llf, p * np.log(400) - 2 * result.llf], rtol=1e-13)
    for part, key in (("expert", "regressors"), ("gate", "gating")):
        for (i, j) in np.argwhere(np.array(file[key]) != 0):
            label = f"{part}{i + 1}:{file['features'][j]}"
            assert (result.params[label], result.bse[label]) == (file[key][i][j], errors[key][i][j])
    covariance = result.cov_params()
    assert set(covariance.index) == set(result.params.index[result.bse.notna()])
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), result.bse[covariance.index], rtol=1e-12)
    tested = [name for name in result.params.index if not name.startswith("sigma")]
    np.testing.assert_allclose(result.tvalues[tested], result.params[tested] / result.bse[tested], rtol=1e-15)
    np.testing.assert_allclose(result.pvalues[tested], 2 * stats.norm.sf(abs(result.tvalues[tested])), rtol=1e-12)
    assert result.pvalues.drop(tested).isna().all()
    ends = result.conf_int()
    np.testing.assert_allclose(ends.drop(tested), errors["sigma_interval"], rtol=1e-12)
    np.testing.assert_allclose(ends.loc[tested].mean(axis=1), result.params[tested], rtol=1e-9, atol=1e-12)
    assert (result.conf_int(0.5)[0] >= ends[0]).all() and (result.conf_int(0.5)[1] <= ends[1]).all()


@pytest.mark.parametrize("kind", ["observed", "robust", "counts"])
def test_one_linear_expert_is_least_squares(kind):
    """At the optimum the observed information is X'X/s^2, with s^2 the mean of squares; robust is White's sandwich."""
    x, y = mixture()
    w = np.random.RandomState(2).randint(1, 4, len(y)) if kind == "counts" else np.ones(len(y))
    fit = MoERegressor(1, random_state=1, errors=["robust"] if kind == "robust" else None)
    result = fit.fit(x, y, sample_weight=w if kind == "counts" else None).result_
    a, root, n = np.column_stack([x, np.ones(len(y))]), np.sqrt(w), w.sum()
    beta = np.linalg.lstsq(a * root[:, None], y * root, rcond=None)[0]
    residuals = y - a @ beta
    s2, inverse = (w * residuals**2).sum() / n, np.linalg.inv((a.T * w) @ a)
    c = inverse @ (a.T * residuals**2) @ a @ inverse if kind == "robust" else s2 * inverse
    np.testing.assert_allclose(result.params, [*beta, np.sqrt(s2)], rtol=1e-9)
    np.testing.assert_allclose(result.cov_params().to_numpy()[:4, :4], c, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(result.bse[:4], np.sqrt(np.diag(c)), rtol=1e-8)
    if kind != "robust":
        np.testing.assert_allclose(result.bse["sigma"], np.sqrt(s2 / (2 * n)), rtol=1e-8)
    assert result.nobs == n
    np.testing.assert_allclose(result.llf, (w * stats.norm.logpdf(residuals, scale=np.sqrt(s2))).sum(), rtol=1e-12)
    np.testing.assert_allclose(result.resid, residuals, rtol=1e-7, atol=1e-9)


def test_experts_that_may_be_one_have_no_errors():
    r = np.random.RandomState(1)
    x = r.standard_normal((300, 2))
    y = np.where(r.random_sample(300) < 0.5, 1 + x[:, 0], -1 - x[:, 1]) + 0.3 * r.standard_normal(300)
    fit = MoERegressor(3, noise="per-expert", gate="constant", random_state=1).fit(x, y)
    assert any("expert 3 has no standard errors" in w for w in fit.result_.model.file["fit"]["warnings"])
    without = fit.result_.params.index.str.match("expert3|gate|sigma3")
    assert (fit.result_.bse.isna() == without).all()
    assert (np.isnan(np.diag(fit.result_.cov_params())) == without).all()


def test_index_and_missing_rows():
    x, y = mixture()
    frame = pd.DataFrame(x, columns=["a", "b", "c"], index=[f"r{i}" for i in range(400)])
    frame.iloc[7, 1] = np.nan
    fit = MoERegressor(2, random_state=1, missing="drop").fit(frame, pd.Series(y, index=frame.index))
    result = fit.result_
    assert list(result.resid.index) == list(frame.index) == list(result.fittedvalues.index)
    np.testing.assert_array_equal(result.fittedvalues, fit.predict(frame))
    assert result.resid.isna().to_numpy().nonzero()[0].tolist() == [7] and result.nobs == 399


def test_summary():
    x, y = mixture()
    frame = pd.DataFrame(x, columns=["a", "b<i>", "c & d"])
    result = MoERegressor(2, random_state=1).fit(frame, y).result_
    text = str(result.summary())
    rows = [line for line in text.splitlines() if line.startswith(("expert", "gate", "sigma"))]
    assert len(rows) == len(result.params) and all(map(str.startswith, rows, result.params.index))
    assert float(dict(zip(result.params.index, rows))["gate1:a"].split()[1]) == float(f"{result.params['gate1:a']:.4g}")
    assert f"Log-likelihood:  {result.llf:.4f}" in text and "Optimum: pass" in text and "Model: " in text
    page = tree.fromstring("<page>" + result._repr_html_() + "</page>")  # well formed, names escaped
    cells = ["".join(cell.itertext()) for cell in page.iter() if cell.tag in ("td", "th")]
    assert set(result.params.index) <= set(cells) and f"{result.llf:.4f}" in cells


def test_compare():
    """At k = 1 the statistic is n log of the residual sums' ratio."""
    x, y = mixture()
    small, large = (MoERegressor(1, formula=f, random_state=1).fit(x, y) for f in ("y ~ x1", "y ~ x1 + x2 + x3"))
    found = compare(small, large)
    rss = [np.linalg.lstsq(np.column_stack([np.ones(400), part]), y, rcond=None)[1][0] for part in (x[:, :1], x)]
    nested = found["nested"]
    assert (nested["smaller"], nested["df"]) == ("a", 2) and compare(large, small)["nested"]["smaller"] == "b"
    np.testing.assert_allclose(nested["statistic"], 400 * np.log(rss[0] / rss[1]), rtol=1e-9)
    np.testing.assert_allclose(nested["p_value"], stats.chi2.sf(nested["statistic"], 2), rtol=1e-9)
    assert found.table().loc["b", "log_likelihood"] == large.log_likelihood_
    assert 'likelihood ratio: {"smaller": "a"' in repr(found)
    two = compare(small, MoERegressor(2, random_state=1).fit(x, y))
    assert not two.get("nested") and "compare BIC" in repr(two)
    with pytest.raises(CommandError, match="the fits are of different rows"):
        compare(small, MoERegressor(1, random_state=1).fit(x[::-1], y[::-1]))
