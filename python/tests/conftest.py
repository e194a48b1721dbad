"""The command that the tests run: $MOE_BINARY, or the package's own."""

import json
import os
import subprocess

import numpy as np
import pytest

from moe_regression import _command


@pytest.fixture(scope="session")
def moe():
    """Run the command in a directory: the oracle of what the package computes by itself."""
    path = _command.find()

    def run(*args, cwd, codes=(0, 1)):
        done = subprocess.run([path, *args], cwd=cwd, capture_output=True, text=True, timeout=300)
        assert done.returncode in codes, done.stderr
        return done.stdout
    return run


def mixture(n=400, seed=0, noise=0.3):
    """Rows of three features from two linear experts under a soft gate."""
    r = np.random.RandomState(seed)
    x = r.standard_normal((n, 3))
    first = r.random_sample(n) < 1 / (1 + np.exp(-2 * x[:, 0] - 0.5))
    y = np.where(first, 1 + x @ [2, 0, 1], x @ [-1, 1, 0]) + noise * r.standard_normal(n)
    return x, y
