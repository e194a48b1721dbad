"""A wheel with the command inside, in an environment that has nothing else of it."""

import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from moe_regression import _command

ROOT = Path(__file__).parents[1]
for needed in ("hatchling", "ensurepip"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"no {needed} for python3", allow_module_level=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    place = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, str(ROOT / "wheels.py"), str(place), "--binary", _command.find()], check=True,
                   stdout=subprocess.DEVNULL)
    (found,) = place.iterdir()
    return found


def test_what_is_in_it(wheel):
    assert wheel.name.startswith("moe_regression-") and "-py3-none-" in wheel.name and "-any." not in wheel.name
    with zipfile.ZipFile(wheel) as z:
        names = z.namelist()
        binary = z.getinfo("moe_regression/bin/moe")
        entry = z.read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
    assert binary.external_attr >> 16 & 0o111 and "moe_regression/py.typed" in names
    assert "moe = moe_regression.__main__:main" in entry
    sources = {f"moe_regression/{p.name}" for p in (ROOT / "src" / "moe_regression").glob("*.py")}
    assert sources <= set(names) and not any(n.startswith("tests/") for n in names)


def test_in_an_environment_of_its_own(wheel, tmp_path):
    """numpy and its like are the system's; the package and the command come from the wheel alone."""
    place = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", str(place)], check=True)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    python = str(place / "bin" / "python")

    def run(*command):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout
    run(python, "-m", "pip", "install", "--quiet", "--no-index", str(wheel))
    assert json.loads(run(str(place / "bin" / "moe"), "version", "--json"))["version"]
    assert json.loads(run(python, "-m", "moe_regression", "version", "--json"))["version"]
    said = run(python, "-c", "import numpy as np, moe_regression as m\n"
               "x = np.linspace(-2, 2, 200).reshape(-1, 1)\n"
               "fit = m.MoERegressor(2, random_state=1).fit(x, np.abs(x[:, 0]) + 0.1 * np.sin(40 * x[:, 0]))\n"
               "print(m.__file__); print(m._command.find()); print(sorted(fit.coef_[:, 0].round(1).tolist()))")
    package, command, coefficients = said.splitlines()
    assert package.startswith(str(place)) and command.startswith(str(place)) and coefficients == "[-1.0, 1.0]"


def test_an_unknown_system_is_refused(tmp_path):
    done = subprocess.run([sys.executable, str(ROOT / "wheels.py"), str(tmp_path), "plan9/amd64"], capture_output=True, text=True)
    assert done.returncode == 2 and "no system plan9/amd64: want linux/amd64, " in done.stderr
    assert not os.listdir(tmp_path)
