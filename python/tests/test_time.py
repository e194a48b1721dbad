"""What the package costs beside the command that it runs."""

import subprocess
import time

import numpy as np
from conftest import mixture
from sklearn.model_selection import GridSearchCV, KFold

from moe_regression import MoERegressor, _command

SEARCHED = {"n_experts": [1, 2], "noise": ["shared", "per-expert"]}


def test_a_fit_costs_at_most_50_ms_over_the_command(monkeypatch):
    """Of the quickest of five fits of 1,000 rows the time that is not the command's."""
    own, run = [], _command.run

    def timed(*args, **how):
        began = time.perf_counter()
        try:
            return run(*args, **how)
        finally:
            own.append(time.perf_counter() - began)
    monkeypatch.setattr(_command, "run", timed)
    x, y = mixture(1000)
    over = []
    for _ in range(5):
        own.clear()
        began = time.perf_counter()
        MoERegressor(2, random_state=1).fit(x, y)
        over.append(time.perf_counter() - began - sum(own))
    print(f"a fit of 1,000 rows: {min(over) * 1e3:.1f} ms beside the command")
    assert min(over) <= 0.05


def test_a_search_of_20_fits_costs_at_most_half_more(moe, tmp_path):
    """GridSearchCV over 4 settings and 5 folds of 1,000 rows, against the command on the same rows."""
    x, y = mixture(1250)
    folds = KFold(5)
    began = time.perf_counter()
    search = GridSearchCV(MoERegressor(random_state=1), SEARCHED, cv=folds, refit=False).fit(x, y)
    ours = time.perf_counter() - began
    assert len(search.cv_results_["params"]) == 4
    path = _command.find()
    began = time.perf_counter()
    for train, test in folds.split(x):
        np.save(tmp_path / "d.npy", np.column_stack([x, y])[train])
        assert len(train) == 1000
        for settings in search.cv_results_["params"]:
            subprocess.run([path, "fit", "d.npy", "--k", str(settings["n_experts"]), "--noise", settings["noise"],
                            "--intercept", "--seed", "1", "--threads", "1", "--quiet", "--json"], cwd=tmp_path,
                           stdout=subprocess.DEVNULL)
    command = time.perf_counter() - began
    print(f"20 fits of 1,000 rows: {ours:.1f} s, and {command:.1f} s by the command")
    assert ours <= 1.5 * command + 3
