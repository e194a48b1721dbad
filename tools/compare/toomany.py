#!/usr/bin/env python3
"""Compares what two builds of moe make of fits with one or two experts too many, or with the right number:

    tools/compare/toomany.py OLD NEW [FIRST LAST [right]]

Each table from FIRST to LAST (8001 to 8040) has a design that its number draws: identity, ReLU, tanh or sigmoid, one to
three experts, 2 to 10 features, 600 to 20,000 rows, with or without intercepts, shared noise or one level for each
expert. NEW draws the rows. For each table it prints the processor time, the verdict and the log-likelihood of both,
then how long NEW takes beside OLD, and how many passes of each the other has a better optimum to.
"""

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile


def design(table, right):
    r = random.Random(table)
    activation, k, more = r.choice(["identity", "relu", "tanh", "sigmoid"]), r.choice([1, 1, 2, 2, 3]), r.choice([1, 1, 2])
    d, n = r.randint(2, 10), int(600 * (20000 / 600) ** r.random())
    flags = ["--activation", activation, "--k", str(k + more)]
    flags += ["--intercept"] if r.random() < 0.5 else []
    flags += ["--noise", "per-expert"] if r.random() < 0.5 else []
    sample = ["--activation", activation, "--k", str(k), "--d", str(d), "--n", str(n), "--seed", str(table),
              "--sigma", r.choice([".1", ".3", ".5"])]
    if right:
        flags[flags.index("--k") + 1] = str(k)
    return sample, flags


def fit(build, flags):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    out = subprocess.run([build, "fit", "rows.csv", *flags, "--json", "--threads", "1"], capture_output=True, text=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    model = json.loads(out.stdout)["fit"]
    return seconds, model["certificate"]["optimum"], model["log_likelihood"]


def main(old, new, work, first=8001, last=8040, right=None):
    old, new, ratios, passes, worse = os.path.abspath(old), os.path.abspath(new), [], [0, 0], [[], []]
    os.chdir(work)
    for table in range(int(first), int(last) + 1):
        sample, flags = design(table, right)
        if subprocess.run([new, "sample", *sample, "--quiet", "-o", "rows.csv"], capture_output=True).returncode:
            continue  # more experts than features
        both = fit(old, flags), fit(new, flags)
        if max(both)[0] < 1:  # short ones in turn, and the medians
            more = [(fit(old, flags)[0], fit(new, flags)[0]) for _ in range(8)]
            both = [(statistics.median([b[0], *seconds]), *b[1:]) for b, seconds in zip(both, zip(*more))]
        print(table, *sample, *flags, *both, flush=True)
        ratios.append(both[1][0] / both[0][0])
        for i, (_, verdict, value) in enumerate(both):
            if verdict == "pass":
                passes[i] += 1
                if both[1 - i][2] > value + 0.5:
                    worse[i].append(both[1 - i][2] - value)
    print(f"{len(ratios)} tables; processor, NEW over OLD: median {statistics.median(ratios):.2f}, "
          f"quartiles {statistics.quantiles(ratios)}")
    for name, n, of in zip(("OLD", "NEW"), passes, worse):
        print(f"{name}: {n} pass, to {len(of)} of which the other has a better optimum by more than .5:", of)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 5, 6):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as work:
        main(*sys.argv[1:3], work, *sys.argv[3:])
