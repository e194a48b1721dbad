"""Prints the tables of docs/cases.md: python3 docs/peers/cases.py TABLES, with MOE_BINARY and PYTHONPATH set.

TABLES is the directory that cases.R has written to. Three quarters of each table, drawn by seed 1, are fitted, the rest is
judged. Peers have factors as 0/1 columns. Forests and boosted trees predict means alone: their density is normal around
these with the standard deviation of residuals that fivefold crossvalidation leaves, or, of counts, the negative binomial
law whose dispersion is the most likely for the means of that crossvalidation.
"""

import sys
import time
import warnings

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import optimize, stats
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import GridSearchCV, cross_val_predict

from moe_regression import MoERegressor

warnings.filterwarnings("ignore")

CASES = {
    "wages": dict(
        file="cps1988.csv", y="logwage", family="gaussian", noise="per-expert", k=(1, 4),
        terms="education + experience + ethnicity + smsa + region + parttime"),
    "visits": dict(
        file="nmes1988.csv", y="visits", family="negative-binomial", noise="per-expert", k=(1, 3),
        terms="hospital + health + chronic + adl + age + gender + school + income + insurance + medicaid"),
    "diamonds": dict(
        file="diamonds.csv", y="logprice", family="gaussian", noise="per-expert", k=(1, 4),
        terms="logcarat + cut + color + clarity"),
}


def split(rows):
    """Three quarters of the rows, and the others."""
    order = np.random.RandomState(1).permutation(len(rows))
    at = len(rows) * 3 // 4
    return rows.iloc[order[:at]].reset_index(drop=True), rows.iloc[order[at:]].reset_index(drop=True)


def matrix(rows, y):
    """Features as numbers, factors as 0/1 columns without the first."""
    return pd.get_dummies(rows.drop(columns=y), drop_first=True).astype(float)


def normal(y, mean, sd):
    return stats.norm(mean, sd).logpdf(y)


def negative_binomial(y, mean, theta):
    return stats.nbinom(theta, theta / (theta + mean)).logpmf(y)


def trees(case, x, y, xt, yt):
    """Boosted trees and a forest, each the best of a small grid by crossvalidation, with densities around their means."""
    counts = case["family"] != "gaussian"
    boosted = GridSearchCV(
        HistGradientBoostingRegressor(loss="poisson" if counts else "squared_error", max_iter=400, early_stopping=True, random_state=1),
        {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [7, 15, 31]}, cv=3)
    forest = GridSearchCV(RandomForestRegressor(200, random_state=1), {"min_samples_leaf": [2, 5, 15]}, cv=3)
    for name, search in ("boosted trees", boosted), ("random forest", forest):
        begin = time.time()
        model = search.fit(x, y).best_estimator_
        left = cross_val_predict(model, x, y, cv=5)
        mean = model.predict(xt)
        if counts:
            left, mean = np.maximum(left, 1e-3), np.maximum(mean, 1e-3)
            found = optimize.minimize_scalar(lambda t: -negative_binomial(y, left, np.exp(t)).sum(), bounds=(-5, 8), method="bounded")
            density = negative_binomial(yt, mean, np.exp(found.x))
        else:
            density = normal(yt, mean, np.sqrt(np.mean((y - left) ** 2)))
        yield name, density, mean, time.time() - begin


def regression(case, train, test):
    """Least squares, or a negative binomial regression, of statsmodels."""
    y = case["y"]
    x, xt = sm.add_constant(matrix(train, y)), sm.add_constant(matrix(test, y))
    begin = time.time()
    if case["family"] != "gaussian":
        fit = sm.NegativeBinomial(train[y], x).fit(disp=0, maxiter=200)
        mean = np.asarray(fit.predict(xt))
        return "negative binomial", negative_binomial(test[y], mean, 1 / fit.params["alpha"]), mean, time.time() - begin
    if "experience" in x:  # a quartic, as labour economists have it
        for power in 2, 3, 4:
            x[f"e{power}"], xt[f"e{power}"] = (x["experience"] / 10) ** power, (xt["experience"] / 10) ** power
    fit = sm.OLS(train[y], x).fit()
    mean = np.asarray(fit.predict(xt))
    return "least squares", normal(test[y], mean, np.sqrt(fit.scale)), mean, time.time() - begin


def mixture(case, train, test):
    y = case["y"]
    model = MoERegressor(case["k"], formula=f"{y} ~ {case['terms']}", family=case["family"], noise=case["noise"],
                         random_state=1, n_jobs=-1)
    begin = time.time()
    model.fit(train.drop(columns=y), train[y])
    took = time.time() - begin
    x = test.drop(columns=y)
    return model, (f"moe, {model.n_experts_} experts", model.log_density(x, test[y]), model.predict(x), took)


def main(tables):
    for name, case in CASES.items():
        train, test = split(pd.read_csv(f"{tables}/{case['file']}"))
        y, yt = train[case["y"]].to_numpy(float), test[case["y"]].to_numpy(float)
        model, ours = mixture(case, train, test)
        rows = [ours, regression(case, train, test)]
        rows += trees(case, matrix(train, case["y"]), y, matrix(test, case["y"]), yt)
        print(f"\n{name}: {len(train)} rows fitted, {len(test)} judged\n")
        print("| model | log-likelihood a row | less than moe's | RMSE | s |\n|---|--:|--:|--:|--:|")
        for label, dens, mean, took in rows:
            off = ours[1] - dens
            print(f"| {label} | {np.mean(dens):.4f} | {np.mean(off):.4f} ± {np.std(off) / np.sqrt(len(off)):.4f} | "
                  f"{np.sqrt(np.mean((yt - mean) ** 2)):.4f} | {took:.1f} |", flush=True)
        say(model, train, case["y"])


def say(model, train, y):
    """What the experts are: verdicts, coefficients, and what rows each of them has, by the means of the columns."""
    verdicts = {name: model.certificate_[name] for name in ("optimum", "model")}
    print(f"\n{verdicts}; k {model.k_set_}, at least {model.k_at_least_['k']}\n")
    table = pd.DataFrame(model.coef_.T, index=model.feature_names_out_)
    table.loc["(intercept)"], table.loc["proportion"], table.loc["sigma"] = model.intercept_, model.proportions_, model.sigma_
    for name, values in model.own_.items():
        table.loc[name] = values
    table.columns = [f"expert {i + 1}" for i in range(model.n_experts_)]
    x = train.drop(columns=y)
    weight = model.posterior(x, train[y]).to_numpy()
    columns = matrix(train, y).assign(**{y: train[y]})
    means = pd.DataFrame(columns.to_numpy().T @ weight / weight.sum(axis=0), index=columns.columns, columns=table.columns)
    print(pd.concat([table, means], keys=["coefficients", "means of its rows"]).round(3).to_string())


if __name__ == "__main__":
    main(sys.argv[1])
