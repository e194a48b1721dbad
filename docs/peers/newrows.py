"""Fits tables without some of their rows, and judges models by these: the tables of docs/heldout.md.

    python3 docs/peers/newrows.py diabetes TABLES
    python3 docs/peers/newrows.py run TABLES OUT [--uci DIR] [--only NAME,…] [--models NAME,…] [--splits 10]
    python3 docs/peers/newrows.py print OUT

TABLES is the directory that heldout.R has written to, and the first command scikit-learn's table of diabetes: the target is the
last column. Three quarters of the rows, drawn by the number of the split, are fitted. DIR has tables with published splits:
NAME.csv.gz, and NAME.test.txt.gz with a line of row numbers for each. A line of JSON for every table, split and model is added
to OUT; those that it has are left out, so that a run may be ended and taken up again. MOE_BINARY is the command moe; flexmix
needs R. Seconds are of the processor, all cores together, up to the fitted model of moe and with the judging of the others.

Peers have factors as 0/1 columns. Where a peer predicts a mean its density is normal around it, with the standard deviation
of the residuals that fivefold crossvalidation leaves; its interval is between quantiles of its own: of boosted trees fitted
to them, of a forest by the training rows of its leaves (Meinshausen 2006).
"""

import argparse
import csv
import gzip
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import warnings

import numpy as np

warnings.filterwarnings("ignore")

LEVEL = 0.9
MOST_GAUSSIAN_PROCESS = 1500
FLEXMIX_SECONDS = 600
Z = 1.6448536269514722  # the normal quantile of 0.95


class Table:
    """A table as text, as moe reads it, and as numbers."""

    def __init__(self, path):
        opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path)
        with opened as file:
            self.names, *self.rows = list(csv.reader(file))
        columns, self.factors = [], []
        for name, cells in list(zip(self.names, zip(*self.rows)))[:-1]:
            try:
                columns.append([float(c) for c in cells])
            except ValueError:
                self.factors.append(name)
                for level in sorted(set(cells))[1:]:
                    columns.append([float(c == level) for c in cells])
        self.x = np.array(columns).T
        self.y = np.array([float(r[-1]) for r in self.rows])

    def write(self, path, rows):
        with open(path, "w", newline="") as file:
            out = csv.writer(file)
            out.writerow(self.names)
            out.writerows(self.rows[i] for i in rows)


def processor():
    """Seconds of the processor of this process and those that it has run."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def random_split(table, number):
    order = np.random.RandomState(number).permutation(len(table.y))
    at = len(order) * 3 // 4
    return order[:at], order[at:]


def published_splits(path, rows):
    with gzip.open(path, "rt") as file:
        for line in file:
            test = np.array([int(i) for i in line.split()])
            yield np.setdiff1d(np.arange(rows), test), test


def scores(density, mean, lower, upper, y):
    return dict(log_likelihood=float(np.sum(density)), rmse=float(np.sqrt(np.mean((y - mean) ** 2))),
                coverage=float(np.mean((lower <= y) & (y <= upper))), width=float(np.mean(upper - lower)))


def normal(y, mean, sd):
    return -0.5 * ((y - mean) / sd) ** 2 - np.log(sd) - 0.5 * math.log(2 * math.pi)


def line(x, y, xt, yt):
    """Least squares; columns that depend on others count for nothing."""
    a, at = np.column_stack([np.ones(len(x)), x]), np.column_stack([np.ones(len(xt)), xt])
    coefficients, _, rank, _ = np.linalg.lstsq(a, y, rcond=None)
    sd = math.sqrt(np.sum((y - a @ coefficients) ** 2) / max(1, len(y) - rank))
    mean = at @ coefficients
    return scores(normal(yt, mean, sd), mean, mean - Z * sd, mean + Z * sd, yt)


def left_out(model, x, y):
    from sklearn.model_selection import cross_val_predict
    return float(np.sqrt(np.mean((y - cross_val_predict(model, x, y, cv=min(5, len(y)))) ** 2)))


def boosted(x, y, xt, yt):
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import GridSearchCV
    grid = {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [7, 15, 31]}
    search = GridSearchCV(HistGradientBoostingRegressor(max_iter=400, early_stopping=True, random_state=1), grid, cv=3)
    best = search.fit(x, y).best_estimator_
    ends = []
    for q in (1 - LEVEL) / 2, (1 + LEVEL) / 2:
        quantile = HistGradientBoostingRegressor(loss="quantile", quantile=q, max_iter=400, early_stopping=True,
                                                 random_state=1, **search.best_params_)
        ends.append(quantile.fit(x, y).predict(xt))
    mean = best.predict(xt)
    return scores(normal(yt, mean, left_out(best, x, y)), mean, ends[0], ends[1], yt)


def forest(x, y, xt, yt):
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.model_selection import GridSearchCV
    search = GridSearchCV(RandomForestRegressor(200, random_state=1), {"min_samples_leaf": [2, 5, 15]}, cv=3)
    best = search.fit(x, y).best_estimator_
    mean, weights = best.predict(xt), np.zeros((len(xt), len(x)))
    for own, new in zip(best.apply(x).T, best.apply(xt).T):
        same = new[:, None] == own[None, :]
        weights += same / same.sum(axis=1, keepdims=True)
    order = np.argsort(y)
    share = np.cumsum(weights[:, order], axis=1) / len(best.estimators_)
    ends = [y[order][np.minimum((share < q).sum(axis=1), len(y) - 1)] for q in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)]
    return scores(normal(yt, mean, left_out(best, x, y)), mean, ends[0], ends[1], yt)


def gaussian_process(x, y, xt, yt):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    if len(x) > MOST_GAUSSIAN_PROCESS:
        return None
    centre, scale = x.mean(axis=0), x.std(axis=0)
    scale[scale == 0] = 1
    x, xt = (x - centre) / scale, (xt - centre) / scale
    kernel = ConstantKernel() * RBF(np.ones(x.shape[1])) + WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2, random_state=1).fit(x, y)
    mean, sd = model.predict(xt, return_std=True)
    return scores(normal(yt, mean, sd), mean, mean - Z * sd, mean + Z * sd, yt)


def moe(flags):
    def run(train, test, factors):
        binary = os.environ.get("MOE_BINARY", "moe")
        with tempfile.TemporaryDirectory() as work:
            model = os.path.join(work, "model.json")
            levels = [word for name in factors for word in ("--categorical", name)]
            subprocess.run([binary, "fit", train, "--k", "1:4", "--intercept", "--quiet", "--accept", "any", "-o", model,
                            *levels, *flags], check=True, stdout=subprocess.DEVNULL)
            fitted = processor()
            said = subprocess.run([binary, "evaluate", model, test, "--json", "--quiet", "--unseen", "reference"],
                                  check=True, capture_output=True, text=True).stdout
            rows = subprocess.run([binary, "predict", model, test, "--interval", str(LEVEL), "--quiet", "--unseen", "reference"],
                                  check=True, capture_output=True, text=True).stdout
            with open(model) as file:
                fit = json.load(file)
        judged, read = json.loads(said), list(csv.DictReader(rows.splitlines()))
        coverage = [c["coverage"] for c in judged["calibration"] if c["level"] == LEVEL][0]
        width = float(np.mean([float(r["upper"]) - float(r["lower"]) for r in read]))
        return dict(log_likelihood=judged["log_likelihood"], predictive=judged.get("predictive_log_likelihood"),
                    rmse=judged["rmse"], coverage=coverage, width=width, k=fit["k"], judging=processor() - fitted)
    return run


def flexmix(train, test, factors):
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        said = subprocess.run(["Rscript", os.path.join(here, "newrows.R"), train, test], check=True, capture_output=True,
                              text=True, timeout=FLEXMIX_SECONDS).stdout
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    return json.loads(said.splitlines()[-1])


# Of numbers, and of files.
NUMBERS = {"line": line, "forest": forest, "boosted trees": boosted, "Gaussian process": gaussian_process}
FILES = {"moe": moe([]), "moe per expert": moe(["--noise", "per-expert"]),
         "moe chosen": moe(["--choose", "heldout", "--expert-lasso", "auto"]),
         "moe chosen noise": moe(["--choose", "heldout", "--noise", "shared,per-expert"]), "flexmix": flexmix}


def judge(name, table, train, test):
    if name in NUMBERS:
        return NUMBERS[name](table.x[train], table.y[train], table.x[test], table.y[test])
    with tempfile.TemporaryDirectory() as work:
        a, b = os.path.join(work, "train.csv"), os.path.join(work, "test.csv")
        table.write(a, train)
        table.write(b, test)
        return FILES[name](a, b, table.factors)


def tables(args):
    """Name, table and splits of each."""
    only = args.only.split(",") if args.only else None
    for file in sorted(os.listdir(args.tables)) if args.tables != "-" else []:
        name, kind = os.path.splitext(file)
        if kind == ".csv" and (only is None or name in only):
            table = Table(os.path.join(args.tables, file))
            yield name, table, (random_split(table, s + 1) for s in range(args.splits))
    for file in sorted(os.listdir(args.uci)) if args.uci else []:
        name = file.removesuffix(".csv.gz")
        if name != file and (only is None or name in only):
            table = Table(os.path.join(args.uci, file))
            splits = list(published_splits(os.path.join(args.uci, name + ".test.txt.gz"), len(table.y)))
            yield name, table, splits[:args.splits]


def read(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(row) for row in file]


def run(args):
    had = {(r["table"], r["split"], r["model"]) for r in read(args.out)}
    models = args.models.split(",") if args.models else list(NUMBERS) + list(FILES)
    for name, table, splits in tables(args):
        for number, (train, test) in enumerate(splits, 1):
            for model in models:
                if (name, number, model) in had:
                    continue
                begun = processor()
                found = judge(model, table, train, test)
                row = dict(table=name, split=number, model=model, rows=len(train), judged=len(test), result=found)
                if found is not None:
                    row["seconds"] = processor() - begun - found.pop("judging", 0)
                with open(args.out, "a") as file:
                    file.write(json.dumps(row) + "\n")


def write_diabetes(args):
    from sklearn.datasets import load_diabetes
    table = load_diabetes(scaled=False)
    with open(os.path.join(args.tables, "diabetes.csv"), "w", newline="") as file:
        out = csv.writer(file)
        out.writerow([*table.feature_names, "progression"])
        out.writerows([*map(float, x), float(y)] for x, y in zip(table.data, table.target))


def show(args):
    """A row for each table and model: means over splits, and the difference to the line, with its standard error. Predictive
    densities are those of the law that intervals are of, with the uncertainty of the parameters where a file has it."""
    rows = read(args.out)
    for r in list(rows):
        if r["result"] and "predictive" in r["result"]:
            likelihood = r["result"]["predictive"] or r["result"]["log_likelihood"]
            result = dict(r["result"], log_likelihood=likelihood)
            rows.append(dict(r, model=r["model"] + ", predictive", result=result))
    of = {(r["table"], r["model"], r["split"]): r for r in rows if r["result"]}
    names = sorted({r["table"] for r in rows})
    models = [m for m in [*NUMBERS, *FILES, *(f + ", predictive" for f in FILES)] if any(r["model"] == m for r in rows)]
    print("| table | model | splits | log-likelihood a row | to the line | RMSE | coverage | width | s |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for name in names:
        for model in models:
            own = {s: r for (t, m, s), r in of.items() if t == name and m == model}
            if not own:
                print(f"| {name} | {model} | – | | | | | | |")
                continue
            a_row = {s: r["result"]["log_likelihood"] / r["judged"] for s, r in own.items()}
            lines = {s: of[name, "line", s]["result"]["log_likelihood"] / of[name, "line", s]["judged"]
                     for s in own if (name, "line", s) in of}
            off = np.array([a_row[s] - lines[s] for s in lines])
            beside = "" if len(off) < 2 or model == "line" else f"{off.mean():+.3f} ± {off.std(ddof=1) / math.sqrt(len(off)):.3f}"
            mean = {k: np.mean([r["result"][k] for r in own.values()]) for k in ("rmse", "coverage", "width")}
            print(f"| {name} | {model} | {len(own)} | {np.mean(list(a_row.values())):.3f} | {beside} | {mean['rmse']:.4g} "
                  f"| {mean['coverage']:.3f} | {mean['width']:.4g} | {np.mean([r['seconds'] for r in own.values()]):.3g} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    diabetes = commands.add_parser("diabetes")
    diabetes.add_argument("tables")
    diabetes.set_defaults(do=write_diabetes)
    runs = commands.add_parser("run")
    runs.add_argument("tables")
    runs.add_argument("out")
    runs.add_argument("--uci")
    runs.add_argument("--only")
    runs.add_argument("--models")
    runs.add_argument("--splits", type=int, default=10)
    runs.set_defaults(do=run)
    prints = commands.add_parser("print")
    prints.add_argument("out")
    prints.set_defaults(do=show)
    args = parser.parse_args()
    args.do(args)


if __name__ == "__main__":
    sys.exit(main())
