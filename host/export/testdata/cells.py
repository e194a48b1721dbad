"""Says which cells a statement in SQLite takes for missing, and what the module says of columns of other lengths."""

import os
import sqlite3
import sys

import numpy as np

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import cells
import failures
import trials

with open(os.path.join(sys.argv[1], "cells.sql"), encoding="utf-8") as f:
    statement = f.read()
base = sqlite3.connect(":memory:")
base.execute("CREATE TABLE data (id INTEGER, x1 TEXT, x2 TEXT, y TEXT)")
base.executemany("INSERT INTO data VALUES (?, ?, ?, ?)", [
    (1, "0.5", "1", "2"), (2, "", "1", "2"), (3, "0.5", "NA", "2"), (4, " ", "1", "2"), (5, "0.5", "1", ""),
    (6, "0.5", "1", "NaN"), (7, " 0.5", "-1e-3", "0")])
for row in sorted(base.execute(f"SELECT id, mean IS NOT NULL, posterior1 IS NOT NULL FROM ({statement.rstrip(';' + chr(10))})")):
    print(list(row))
two = np.array([0.5, 1.5])
for columns, y in [({"x1": two, "x2": np.ones(3)}, None), ({"x1": two, "x2": [1.0]}, None), ({"x1": two, "x2": 1.0}, None),
                   ({"x1": two, "x2": two}, [1.0]), ({"x1": two, "x2": two}, two[:, None])]:
    try:
        print(cells.predict(columns, y))
    except ValueError as e:
        print(e)
for module in trials, failures:
    columns = {"x1": two, "x2": two}
    mean = module.predict(columns)["mean"]
    same = np.array_equal(mean, module.predict({**columns, "n": np.ones(2)})["mean"])
    try:
        module.predict(columns, [1.0, 1.0])
        fault = None
    except KeyError as e:
        fault = e
    print(f"{module.__name__}: {same}, a probability: {((0 < mean) & (mean < 1)).all()}, with y: {fault!r}")
