"""Functions as activations: curves whose error is stated, and fits that are those of the functions' names."""

import numpy as np
import pytest
from conftest import mixture

from moe_regression import CurveWarning, Model, MoERegressor, TabulatedFunction, tabulate, validate_activation
from moe_regression._activation import Curve


pytestmark = pytest.mark.filterwarnings("ignore::moe_regression.ModelSuspectWarning")


def swish(z):
    return z / (1 + np.exp(-z))


def ramp(z):
    return np.maximum(z, 0.3)


@pytest.mark.parametrize("f", [np.tanh, np.sin, np.exp, swish, np.abs, ramp, np.floor], ids=lambda f: f.__name__)
def test_error_of_the_curve(f):
    """At most twice what is stated, on other points, half of them close to whole numbers and 0.3."""
    curve = tabulate(f)
    r = np.random.RandomState(1)
    near = r.choice(np.append(np.arange(-39, 40), 0.3), 50000) + 10 ** r.uniform(-10, -3, 50000) * r.choice([-1, 1], 50000)
    z = np.concatenate([np.linspace(-40, 40, 50001), near])
    error = np.abs(Curve(curve.z, curve.g, curve.slopes)(z)[0] - f(z)) / np.maximum(1, np.abs(f(z)))
    assert error.max() <= 2 * curve.error
    assert len(curve.z) <= 4000 and (curve.error < 2e-9 if f is not np.floor else 0.1 < curve.error <= 1)


def test_derivative():
    curve = tabulate(np.sin, np.cos, reach=5)
    np.testing.assert_array_equal(curve.slopes, np.cos(curve.z))
    # Differences of fourth order find the same slopes to 1e-10.
    own = tabulate(np.sin, reach=5)
    np.testing.assert_allclose(own.slopes, np.cos(own.z), atol=1e-10)
    z = np.array([-7.0, 6.0])  # lines beyond
    want = np.sin([-5, 5]) + np.cos([-5, 5]) * (z - [-5, 5])
    np.testing.assert_allclose(Curve(curve.z, curve.g, curve.slopes)(z)[0], want, rtol=1e-14)


@pytest.mark.parametrize("f, said", [(np.sqrt, "nan at z = -40"), (lambda z: 1.0, r"returns an array of shape \(\) for one of shape"),
                                     (lambda z: z[:1], "returns an array of shape")])
def test_no_function_of_numbers(f, said):
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=said):
        MoERegressor(activation=f).fit(*mixture())


def test_lines_beyond_the_ends():
    """They go on with the slope inside: also where the function jumps at the end, or is defined no further."""
    far = np.array([-100.0, 100.0])
    steps = tabulate(np.floor)
    np.testing.assert_allclose(Curve(steps.z, steps.g, steps.slopes)(far)[0], [-40, 40], atol=1e-9)
    saw = tabulate(lambda z: z - 10 * np.floor(z / 10))  # slope 1; jumps at every ten, both ends among them
    np.testing.assert_allclose(Curve(saw.z, saw.g, saw.slopes)(far)[0], [-60, 60], rtol=1e-5)  # by a jump cells are 4e-7 wide
    inside = tabulate(lambda z: np.sqrt(9 - z * z / 2), reach=3)
    np.testing.assert_allclose(inside.slopes[[0, -1]], np.array([1.5, -1.5]) / np.sqrt(4.5), rtol=1e-9)


@pytest.mark.parametrize("f, off", [(np.floor, 0.5), (lambda z: np.sin(100 * z), 0.1), (lambda z: 1e-3 * np.sign(z), 1e-4)])
def test_a_curve_that_does_not_follow_is_said(f, off):
    with pytest.warns(CurveWarning, match="is off by up to") as said:
        assert validate_activation(f)["curve_error"] > off
    assert [w.filename for w in said] == [__file__]
    x = np.linspace(0, 30, 100)[:, None]
    with pytest.warns(CurveWarning) as said:
        MoERegressor(1, activation=f).fit(x, f(x[:, 0]) + 0.1 * np.cos(1e3 * x[:, 0]))
    assert __file__ in [w.filename for w in said if w.category is CurveWarning]


@pytest.mark.filterwarnings("error::moe_regression.CurveWarning")
@pytest.mark.parametrize("f", [np.tanh, np.abs, lambda z: np.maximum(0, 10 * z - 5), lambda z: 0 * z + 0.1, np.cbrt])
def test_kinks_and_constants_are_not(f):
    validate_activation(f)


def test_values_too_large_for_a_table():
    with pytest.raises(ValueError, match=r'activation exp is .* at z = 27\.\d: .* \|z\| <= 40, .* within ±1e\+12; take activation="exp"'):
        MoERegressor(activation=np.exp).fit(*mixture())
    with pytest.raises(ValueError, match=r"has slope -\S+e\+1\d at z = -39.*activation=\"expr: .*reach=39\)"):
        validate_activation(lambda z: np.where(z < -39, -1e13 * (z + 39), 0.0))


@pytest.mark.filterwarnings("ignore::moe_regression.FitWarning")
@pytest.mark.parametrize("f", [lambda z: np.tanh(z).astype(np.float32), lambda z: np.tanh(z.astype(np.float32)).astype(float),
                               lambda z: np.tanh(z).astype(np.float16)], ids=["single", "inside", "half"])
def test_rounded_functions(f):
    """The fit is that of tanh, to what the function is rounded to."""
    x, y = mixture()
    y = y / 8
    eps = 1e-3 if f(np.zeros(1)).dtype == np.float16 else 1.2e-7
    own, exact = (MoERegressor(2, activation=g, random_state=1).fit(x, y) for g in (f, np.tanh))
    assert own.activation_error_ < 40 * eps
    np.testing.assert_allclose(own.coef_, exact.coef_, atol=40 * eps)


def test_fit_is_that_of_the_name(moe, tmp_path):
    x, y = mixture()
    y = y / 8
    own, named = (MoERegressor(2, activation=f, random_state=1).fit(x, y) for f in (np.tanh, "tanh"))
    assert named.activation_error_ is None and own.activation_error_ < 1e-9
    np.testing.assert_allclose(own.coef_, named.coef_, rtol=1e-6)
    np.testing.assert_allclose(own.result_.bse, named.result_.bse, rtol=1e-5)
    np.testing.assert_allclose(own.log_likelihood_, named.log_likelihood_, atol=1e-5)
    # The model's file has the curve: neither package nor command need the function.
    own.model_.write(tmp_path / "m.json")
    again = Model.read(tmp_path / "m.json")
    np.testing.assert_array_equal(again.mean(x), own.predict(x))
    np.save(tmp_path / "x.npy", x)
    moe("predict", "m.json", "x.npy", "-o", "p.csv", cwd=tmp_path)
    mean = np.genfromtxt(tmp_path / "p.csv", delimiter=",", names=True)["mean"]
    np.testing.assert_allclose(own.predict(x), mean, rtol=1e-12, atol=1e-12)
    curve = tabulate(np.tanh)
    assert isinstance(curve, TabulatedFunction)
    np.testing.assert_array_equal(MoERegressor(2, activation=curve, random_state=1).fit(x, y).coef_, own.coef_)


def test_validate_activation():
    own, named = validate_activation(np.tanh), validate_activation("tanh")
    assert own["valid"] and named["valid"] and own["curve_error"] < 1e-9 and "curve_error" not in named
    for part, value in named["transform"].items():
        np.testing.assert_allclose(own["transform"][part], value, atol=1e-8)
    # Of a parabola the coefficients are not identified: a and -a are the same expert.
    assert validate_activation(lambda z: z * z)["signs_identifiable"] is False
    assert validate_activation("leakyrelu", params={"slope": 0.2}, sigma=0.3)["sigma"] == 0.3
    constant = validate_activation(lambda z: np.ones_like(z))
    assert not constant["valid"] and constant["reasons"]
