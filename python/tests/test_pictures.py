"""Pictures: what is drawn is what the model says, and a file comes of it. MOE_PICTURES names a directory to look at them."""

import os
import pickle

import numpy as np
import pytest
from conftest import mixture

from moe_regression import MoERegressor

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
pytestmark = [pytest.mark.filterwarnings(f"ignore::moe_regression.{w}") for w in ("ModelSuspectWarning", "OptimumNotPassedWarning")]


def save(figure, name, tmp_path):
    """Write a picture and return its colours, n x 3."""
    path = os.path.join(os.environ.get("MOE_PICTURES") or tmp_path, name + ".png")
    figure.savefig(path, dpi=110)
    matplotlib.pyplot.close(figure)
    return matplotlib.image.imread(path)[..., :3]


def axes_of(figure):
    return {axis.get_title().partition(":")[0]: axis for axis in figure.axes}


@pytest.mark.parametrize("how", [{}, {"n_experts": 5, "noise": "per-expert"}, {"n_experts": 1},
                                 {"formula": "log(y) ~ x1 + x2 | x1"}], ids=["two", "five", "one", "log"])
def test_plot(how, tmp_path):
    x, y = mixture()
    if "formula" in how:
        y = np.exp(y / 3)
    fit = MoERegressor(**{"n_experts": 2, "random_state": 1, **how}).fit(x, y)
    figure = fit.plot()
    axes = axes_of(figure)
    assert set(axes) == {*(f"expert {i + 1}" for i in range(fit.n_experts_)), "gate", "residuals", "starts"}
    model, rows = fit.model_, x[:, :len(fit.feature_names_out_)]
    for i in range(fit.n_experts_):
        points = axes[f"expert {i + 1}"].collections[0]
        index = rows @ fit.coef_[i] + fit.intercept_[i]
        np.testing.assert_allclose(points.get_offsets(), np.column_stack([index, model._forth(y)]), rtol=1e-9)
        alpha = np.clip(fit.posterior(x, y)[:, i], 0.08, 1)
        np.testing.assert_allclose(points.get_alpha(), alpha, rtol=1e-9)
    if fit.n_experts_ > 1:
        strongest = np.argmax(np.abs(fit.gate_coef_).max(axis=0) * rows.std(axis=0))
        assert axes["gate"].get_xlabel() == fit.feature_names_out_[strongest]
        total = sum(line.get_ydata() for line in axes["gate"].lines)
        np.testing.assert_allclose(total, 1, rtol=1e-12)
    assert len(axes["starts"].lines[0].get_ydata()) == len(fit.starts_) and axes["starts"].lines[0].get_ydata()[0] == 0
    picture = save(figure, "plot-" + "-".join(map(str, how.values())).replace(" ", "").replace("|", ""), tmp_path)
    assert picture.shape[0] > 500 and (picture < 0.5).any(axis=2).mean() > 0.002  # something is on it


def test_residuals_of_the_true_noise_are_normal():
    """Of 400 quantile residuals of the model that made them the largest gap between ranks is that of Kolmogorov."""
    x, y = mixture()
    line = axes_of(MoERegressor(2, random_state=1).fit(x, y).plot())["residuals"].lines[1]
    from scipy import special
    gap = np.abs(special.ndtr(line.get_ydata()) - special.ndtr(line.get_xdata())).max()
    assert gap < 1.95 / np.sqrt(400)  # 0.1 % for a model that is not fitted


def test_axis_of_shares():
    """Of trials the points are shares of successes, and the axis says so."""
    pd = pytest.importorskip("pandas")
    r = np.random.RandomState(0)
    frame = pd.DataFrame({"x": r.standard_normal(300), "m": r.randint(1, 9, 300)})
    frame["bi"] = r.binomial(frame.m, 1 / (1 + np.exp(-frame.x)))
    fit = MoERegressor(1, family="binomial", random_state=1)
    for trials, label in ((frame.m, "bi / m"), (frame.m.to_numpy(), "bi / trials")):
        axis = fit.fit(frame[["x"]], frame.bi, trials=trials).plot().axes[0]
        np.testing.assert_allclose(axis.collections[0].get_offsets()[:, 1], frame.bi / frame.m, rtol=1e-12)
        assert axis.get_ylabel() == label
    assert fit.fit(frame[["x"]], (frame.bi > 0).astype(float)).plot().axes[0].get_ylabel() == "bi"


def test_plot_k(tmp_path):
    fit = MoERegressor((1, 3), random_state=1).fit(*mixture())
    figure = fit.plot_k()
    bic = figure.axes[0].lines[0]
    assert bic.get_xdata().tolist() == [1, 2, 3] and np.argmin(bic.get_ydata()) + 1 == fit.n_experts_
    assert save(figure, "plot_k", tmp_path).shape[0] > 300
    with pytest.raises(ValueError, match="one number of experts was fitted"):
        MoERegressor(2, random_state=1).fit(*mixture()).plot_k()


def test_many_rows_are_some(tmp_path):
    x, y = mixture(3000)
    fit = pickle.loads(pickle.dumps(MoERegressor(2, random_state=1).fit(x, y)))
    points = axes_of(fit.plot())["expert 1"].collections[0].get_offsets()
    assert len(points) == 2000
    np.testing.assert_allclose(points[[0, -1], 1], y[[0, -1]], rtol=1e-12)
