"""Eleven models by the command, from whose files R, Python and the command predict the same: python3 r/same.py.

MOE_BINARY names the command, R finds the package moe, and PYTHONPATH has python/src. What each computes are sums of some
ten terms in double precision: 1e-12 of 1 and the value's size is hundreds of roundings. Ends of intervals, with the
parameters' uncertainty, are found to 14 digits: 1e-9.
"""

import csv
import os
import subprocess
import sys
import tempfile

import numpy as np

from moe_regression import Model

MODELS = {
    "plain": ["--target", "y", "--features", "x,z", "--k", "2", "--intercept"],
    "factors": ["--formula", "y ~ x + site | x + site", "--k", "2"],
    "interactions": ["--formula", "y ~ poly(x, 2) + x:site | z", "--k", "2", "--noise", "per-expert"],
    "logarithm": ["--formula", "log(size) ~ x + z | x", "--k", "2"],
    "heavy tails": ["--formula", "y ~ x + z | x", "--family", "student-t", "--dof", "4", "--k", "2"],
    "counts": ["--formula", "visits ~ x + site + offset(log(hours)) | z", "--family", "poisson", "--k", "2"],
    "spread counts": ["--formula", "visits ~ x + site | z", "--family", "negative-binomial", "--k", "2"],
    "zeros": ["--formula", "calls ~ x + site | z", "--family", "negative-binomial", "--zero-expert", "--k", "2"],
    "successes": ["--formula", "cbind(yes, no) ~ x + site | z", "--family", "binomial", "--k", "2"],
    "groups": ["--formula", "y ~ x + site | 1 | id", "--k", "2"],
    "counts in groups": ["--formula", "visits ~ x + site + offset(log(hours)) | 1 | id", "--family", "poisson", "--k", "2"],
}

READ = """
library(moe)
of <- commandArgs(TRUE)
fit <- read_moe(of[1])
d <- read.csv(of[2])
ends <- predict(fit, d, interval = "prediction", level = 0.9)[, c("lwr", "upr")]
write.csv(format(data.frame(mean = unname(predict(fit, d)), unname(predict(fit, d, "prob")), unname(ends)), digits = 17),
          of[3], row.names = FALSE, quote = FALSE)
"""


def draw(n=400):
    """Rows of two linear experts, by groups of four, with an offset, trials and a factor of three levels."""
    r = np.random.RandomState(3)
    x, z, hours = r.standard_normal(n), r.standard_normal(n), r.uniform(1, 5, n)
    site, ids = np.array(["north", "south", "west"])[r.randint(0, 3, n)], np.arange(n) // 4
    first = np.repeat(r.random_sample(n // 4) < 0.4, 4)
    mean = np.where(first, 1 + 0.8 * x, 0.2 - 0.5 * x + 0.4 * (site == "west"))
    y = mean + 0.3 * r.standard_normal(n)
    trials = r.randint(1, 9, n)
    yes = r.binomial(trials, 1 / (1 + np.exp(-mean)))
    visits = r.poisson(hours * np.exp(mean / 2))
    calls = np.where(r.random_sample(n) < 1 / (1 + np.exp(1 - z)), 0, visits)
    return {"x": x, "z": z, "site": site, "id": [f"group {i}" for i in ids], "hours": hours, "y": y, "size": np.exp(y),
            "visits": visits, "calls": calls, "yes": yes, "no": trials - yes}


def write(path, columns, rows):
    with open(path, "w", newline="") as out:
        table = csv.writer(out)
        table.writerow(columns)
        table.writerows(zip(*([repr(v) if isinstance(v, float) else v for v in np.asarray(c)[rows].tolist()] for c in columns.values())))


def read(path):
    with open(path, newline="") as table:
        rows = list(csv.DictReader(table))
    return {name: [row[name] for row in rows] for name in rows[0]}


def by_python(path, columns):
    model = Model.read(path)
    x = model.matrix({name: np.array(v) if name == "site" else np.array(v, dtype=float) for name, v in columns.items() if name != "id"})
    known = {}
    if model.offset_of:
        known["offset"] = np.log(np.array(columns["hours"], dtype=float))
    groups = {"groups": np.array(columns["id"], dtype=object)} if model.groups else {}
    ends = [model.quantile(x, q, **known, **groups) for q in (0.05, 0.95)]
    return np.column_stack([model.mean(x, **known, **groups), model.gate(x, **groups), *ends])


def main():
    worst = ends = 0.0
    with tempfile.TemporaryDirectory() as place:
        def at(name):
            return os.path.join(place, name)
        whole, features = draw(), ("x", "z", "site", "id", "hours")
        write(at("fit.csv"), whole, slice(None))
        new = {name: list(whole[name][:40]) for name in features}
        new["id"][30:] = ["another"] * 10  # groups that were seen, and one that was not
        write(at("new.csv"), new, slice(None))
        with open(at("read.R"), "w") as script:
            script.write(READ)
        for name, flags in MODELS.items():
            moe = os.environ["MOE_BINARY"]
            subprocess.run([moe, "fit", at("fit.csv"), *flags, "--seed", "1", "--quiet", "--accept", "any", "-o", at("model.json")],
                           check=True, stdout=subprocess.DEVNULL)
            subprocess.run([moe, "predict", at("model.json"), at("new.csv"), "--interval", "0.9", "--quiet", "-o", at("command.csv")], check=True,
                           stdout=subprocess.DEVNULL)
            subprocess.run(["Rscript", at("read.R"), at("model.json"), at("new.csv"), at("r.csv")], check=True)
            table = read(at("command.csv"))
            gate = [name for name in table if name in ("p1", "p2", "p_zero")]
            want = np.array([table[name] for name in [next(iter(table)), *gate, "lower", "upper"]], dtype=float).T
            said = {"R": np.array(list(read(at("r.csv")).values()), dtype=float).T, "Python": by_python(at("model.json"), read(at("new.csv")))}
            for who, got in said.items():
                off = np.max(np.abs(got - want) / (1 + np.abs(want)), axis=0)
                worst, ends = max(worst, off[:-2].max()), max(ends, off[-2:].max())
                if not (off[:-2].max() < 1e-12 and off[-2:].max() < 1e-9):
                    sys.exit(f"{name}: {who} and the command differ by {off.max():.2g}")
    print(f"{len(MODELS)} models: R, Python and the command differ by at most {worst:.2g}, in ends of intervals {ends:.2g}")


if __name__ == "__main__":
    main()
