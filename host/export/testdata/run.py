"""Runs models in numpy and SQLite, and has ONNX check graphs: run.py DIR, as run.js."""

import importlib.util
import json
import math
import os
import sqlite3
import sys

import numpy as np

directory = sys.argv[1]
try:
    import onnx
except ImportError:
    onnx = None


def number(v):
    return float(v) if v is not None and math.isfinite(v) else None


def plain(values):
    return [plain(v) if isinstance(v, np.ndarray) else number(v) for v in values]


with open(os.path.join(directory, "data.json"), encoding="utf-8") as f:
    data = json.load(f)
for name, rows in data.items():
    at = os.path.join(directory, name)
    if os.path.exists(at + ".py"):
        spec = importlib.util.spec_from_file_location("exported", at + ".py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        columns = {c: v if any(isinstance(x, str) for x in v) else np.array(v, dtype=float)
                   for c, v in rows["columns"].items()}
        said = module.predict(columns, np.array(rows["y"], dtype=float))
        out = {"gate": plain(said["gate"]), "posterior": plain(said["posterior"])}
        out["mean"] = plain(said["mean"] if "mean" in said else module.quantile(columns, 0.5))
        if hasattr(module, "quantile"):  # of normal noise
            out |= {"lower": plain(module.quantile(columns, (1 - rows["level"]) / 2)),
                    "upper": plain(module.quantile(columns, (1 + rows["level"]) / 2))}
        with open(at + ".python.json", "w", encoding="utf-8") as f:
            json.dump(out, f)
    if os.path.exists(at + ".sql"):
        connection = sqlite3.connect(":memory:")
        with open(at + ".load.sql", encoding="utf-8") as f:
            connection.executescript(f.read())
        with open(at + ".sql", encoding="utf-8") as f:
            cursor = connection.execute(f.read())
        with open(at + ".sqlite.json", "w", encoding="utf-8") as f:
            json.dump({"names": [c[0] for c in cursor.description], "rows": cursor.fetchall()}, f)
    if os.path.exists(at + ".onnx") and onnx:
        model = onnx.load(at + ".onnx")
        onnx.checker.check_model(model, full_check=True)
        print("checked", name)
