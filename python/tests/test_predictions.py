"""Predictions in numpy against those of the command, from the same file.

Both sum some ten terms of size 1 to 100 in double precision, in other orders: 1e-12 of the values' size is a hundred
roundings and more. The command finds quantiles to 14 digits: 1e-9.
"""

import json
import pickle

import numpy as np
import pytest
from conftest import mixture

from moe_regression import Model, _terms


def targets():
    """Fits by name: flags of the command, and what is done to the target."""
    tree = ("--hierarchy", "2x(1,2)", "--intercept")
    both = ("--k", "2", "--intercept")
    return {
        "linear": (both, None),
        "three-per-expert": (("--k", "3", "--intercept", "--noise", "per-expert"), None),
        "no-intercepts": (("--k", "2"), None),
        "constant-gate": (("--k", "2", "--intercept", "--gate", "constant"), None),
        "one": (("--k", "1", "--intercept"), None),
        "relu": ((*both, "--activation", "relu"), None),
        "leakyrelu": ((*both, "--activation", "leakyrelu", "--param", "slope=0.3"), None),
        "softplus-scaled": ((*both, "--activation", "softplus", "--param", "beta=2", "--output-scale", "shared"), None),
        "probit-scaled": ((*both, "--activation", "probit", "--output-scale", "shared"), None),
        "tanh-scaled": ((*both, "--activation", "tanh", "--output-scale", "shared"), None),
        "sigmoid-scaled": ((*both, "--activation", "sigmoid", "--output-scale", "per-expert"), None),
        "swish": ((*both, "--activation", "expr: z*sigmoid(beta*z)", "--param", "beta=1.5"), None),
        "words": ((*both, "--activation", "expr: where(z < 0 or not z <= 9, -0.1*abs(z)^1.5, max(z, z^2/9) - erf(-z)/3)"), None),
        "table": ((*both, "--activation", "table:curve.csv"), None),
        "tree": (tree, None),
        "tree-leaves": ((*tree, "--leaves", "identity,relu,tanh"), None),
        "log": (("--formula", "log(y) ~ x1*x2 + poly(x3, 2) | x1 + exp(x2/3)", "--k", "2"), np.exp),
        "sqrt": (("--formula", "sqrt(y) ~ x1 + I(x2^2)", "--k", "2"), lambda y: (y + 9) ** 2),
        "reciprocal": (("--formula", "1/y ~ x1 + x2", "--k", "2"), lambda y: 1 / (np.abs(y) + 3)),
        "robust": ((*both, "--robust"), None),
        "penalised": ((*both, "--gate-penalty", "auto"), None),
        "l2": (("--k", "2", "--method", "l2", "--epochs", "20"), None),
    }


@pytest.mark.parametrize("name", targets())
def test_equal_to_the_command(name, moe, tmp_path):
    flags, of = targets()[name]
    x, y = mixture()
    y = y if of is None else of(y)
    np.save(tmp_path / "fit.npy", np.column_stack([x, y]))
    rows = np.column_stack([3 * x[:60], y[:60]])  # beyond the rows of the fit too
    np.save(tmp_path / "rows.npy", rows)
    z = np.linspace(-3, 3, 40)
    (tmp_path / "curve.csv").write_text("z,g\n" + "".join(f"{a!r},{b!r}\n" for a, b in zip(z.tolist(), (z + np.sin(z)).tolist())))
    moe("fit", "fit.npy", *flags, "-o", "model.json", "--threads", "1", cwd=tmp_path)
    model = Model.read(tmp_path / "model.json")
    # The columns of an array are named in the file as in the command.
    x = model.matrix({f"x{j + 1}": rows[:, j] for j in range(3)})
    levels = (0.5, 0.9, 0.999)
    assert ("penalised" in model.file) == (name in ("penalised", "tree", "tree-leaves"))  # gates of the trees separate
    want = {}
    for level in levels:
        moe("predict", "model.json", "rows.npy", "--interval", str(level), "--experts", "-o", "out.csv", cwd=tmp_path)
        want[level] = _terms.read_csv(tmp_path / "out.csv")
    first = want[levels[0]]

    def close(got, columns, tolerance, size=1.0):
        expected = np.column_stack([first[c] for c in columns])
        np.testing.assert_allclose(got, expected.reshape(got.shape), rtol=tolerance, atol=tolerance * size)

    k = model.k
    close(model.mean(x), ["mean" if "mean" in first else "median"], 1e-12)
    close(model.gate(x), [f"p{i + 1}" for i in range(k)], 1e-12)
    close(model.posterior(x, rows[:, 3]), [f"posterior{i + 1}" for i in range(k)], 1e-12)
    size = np.abs(rows[:, 3]).max()
    for level in levels:
        for end, q in (("lower", (1 - level) / 2), ("upper", (1 + level) / 2)):
            np.testing.assert_allclose(model.quantile(x, q), want[level][end], rtol=1e-9, atol=1e-9 * size)
    evaluated = json.loads(moe("evaluate", "model.json", "rows.npy", "--json", cwd=tmp_path))
    np.testing.assert_allclose(model.log_density(x, rows[:, 3]).sum(), evaluated["log_likelihood"], rtol=1e-11)


def test_both_gates_of_a_file(moe, tmp_path):
    """By default the penalised one, as of the command; by name either."""
    x, y = mixture()
    np.save(tmp_path / "fit.npy", np.column_stack([x, y]))
    moe("fit", "fit.npy", "--k", "2", "--intercept", "--gate-penalty", "10", "-o", "model.json", cwd=tmp_path)
    for gate in ("maximum", "penalised"):
        moe("predict", "model.json", "fit.npy", "--gate", gate, "-o", gate + ".csv", cwd=tmp_path)
        of = Model({**Model.read(tmp_path / "model.json").file}, gate)
        for same in (of, pickle.loads(pickle.dumps(of))):
            np.testing.assert_allclose(same.mean(x), _terms.read_csv(tmp_path / (gate + ".csv"))["mean"], rtol=1e-12, atol=1e-12)
    first, second = (_terms.read_csv(tmp_path / (gate + ".csv"))["mean"] for gate in ("maximum", "penalised"))
    assert np.abs(first - second).max() > 1e-3
    with pytest.raises(ValueError):
        Model({**of.file, "penalised": None}, "penalised")


def test_quantile_is_one():
    """F at the quantile is the probability: without the command, of many mixtures."""
    from scipy import special

    from moe_regression._model import _quantile
    r = np.random.RandomState(1)
    w = r.dirichlet([0.3, 1, 3], 2000)
    m, s = 100 * r.standard_normal((2000, 3)), np.exp(3 * r.standard_normal((2000, 3)))
    for q in (1e-9, 0.01, 0.5, 0.97):
        y = _quantile(w, m, s, q)
        f = (w * special.ndtr((y[:, None] - m) / s)).sum(axis=1)
        slope = (w * np.exp(-0.5 * ((y[:, None] - m) / s) ** 2) / s).sum(axis=1)
        # The rounding of y moves F by its density times 2^-52 of y.
        assert (np.abs(f - q) <= 1e-12 * q + 8 * 2.0**-52 * (slope * np.abs(y) + 1e-4)).all()


def test_gates_of_a_tree_that_saturate():
    """log P of every leaf against 60 digits, where predictors are so large that a sum with them takes digits."""
    from decimal import Decimal, localcontext

    from moe_regression._model import _gates
    model = Model.__new__(Model)
    model._gates = _gates("2x2", 4)
    logits = np.array([[1e9, 1e9 + 0.5, -3e8, 0], [0.3, 2e8 + 0.7, 1e-3, 0], [-40.0, 5e8, 700.0, 0], [30.0, -1e9, -1e-9, 0]])

    def split(z):
        p = 1 / (1 + (-Decimal(z)).exp())
        return p.ln(), p.ln() - Decimal(z)
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -10**15, 10**15
        for got, row in zip(model.scores(logits), logits):
            (left, right), (first, second), (third, fourth) = split(row[1]), split(row[0]), split(row[2])
            want = [float(v) for v in (left + first, left + second, right + third, right + fourth)]
            np.testing.assert_allclose(got, want, rtol=1e-15, atol=1e-18)

    # Of three branches two are level at 1e9: their shares are those of predictors 0 and 0.5.
    model._gates = _gates("3x2", 6)
    got = model.scores(np.array([[0, 1e9, 0, 1e9 + 0.5, 0, 0.0]]))[0]
    first = -np.log1p(np.exp(0.5)) - np.log(2)
    np.testing.assert_allclose(got[:4], [first, first, first + 0.5, first + 0.5], rtol=1e-15)
