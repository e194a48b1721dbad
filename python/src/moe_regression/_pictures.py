"""Pictures of a fit, by matplotlib."""

from __future__ import annotations

import numpy as np
from scipy import special

ROWS = 2000  # that a picture shows at most
_WIDE = 4  # experts side by side
_PALE = 0.08  # of a row that is of another expert


def _pyplot():
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("pictures need matplotlib") from None
    return pyplot


def plot(model, x, y, feature_names, known, name_of_trials="trials"):
    """Draw a fit: each expert along its index, the gate, residuals, and where the starts ended.

    Parameters
    ----------
    model : Model
    x : ndarray of shape (n, d)
        Features of rows.
    y : ndarray of shape (n,)
        Their targets.
    feature_names : list of str
    known : dict
        What else is known of the rows: `offset`, `trials`, `groups`.
    name_of_trials : str
        What the trials are called beside an axis.

    Returns
    -------
    matplotlib.figure.Figure
    """
    pyplot = _pyplot()
    across = min(model.k, _WIDE)
    up = -(-model.k // _WIDE)
    figure = pyplot.figure(figsize=(max(9.0, 3.2 * across), 3.2 * up + 3.2), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[up, 1])
    axes = np.atleast_1d(above.subplots(up, across, sharey=True, squeeze=False)).ravel()
    for axis in axes[model.k:]:
        axis.remove()
    _experts(axes[:model.k], model, x, y, known)
    axes[0].set_ylabel(_scaled(model) + (f" / {_plain(name_of_trials)}" if known.get("trials") is not None else ""))
    gate, residuals, starts = below.subplots(1, 3)
    _gate(gate, model, x, feature_names)
    _residuals(residuals, model, x, y, known)
    _starts(starts, model.file["fit"]["starts"])
    return figure


def colour(i):
    """Of expert i, the same in every picture."""
    return f"C{i % 10}"


def _experts(axes, model, x, y, known):
    """The target on its scale against the index <a_i, x> + b_i; a row is as strong as its posterior probability. Successes
    are shares of their trials, and what an offset adds to the index stands with it."""
    posterior, v = model.posterior(x, y, **known), model._forth(y)
    if known.get("trials") is not None:
        v = v / known["trials"]
    index = x @ model.regressors.T + model.intercepts
    if known.get("offset") is not None:
        index = index + np.asarray(known["offset"])[:, None]
    for i, axis in enumerate(axes):
        z = index[:, i]
        strength = np.clip(posterior[:, i], _PALE, 1)
        axis.scatter(z, v, s=9, color=colour(i), alpha=strength, linewidths=0)
        own = z[posterior[:, i] >= 0.5] if (posterior[:, i] >= 0.5).any() else z
        line = np.linspace(own.min(), own.max(), 200)
        axis.plot(line, model.offset[i] + model.output_scale[i] * model._g[i % len(model._g)](line)[0], color="black",
                  linewidth=1.5)
        axis.set_title(f"expert {i + 1}: {model.proportions[i]:.0%} of rows", fontsize=10)
        axis.set_xlabel("index")


def _scaled(model):
    return {"": "{}", "log": "log({})", "sqrt": "sqrt({})", "reciprocal": "1/{}"}[model.scale].format(_plain(model.target))


def _plain(name):
    """A name in which nothing is read as mathematics."""
    return str(name).replace("$", r"\$")


def _gate(axis, model, x, feature_names):
    """P(z=i|x) against the feature that moves it most over the rows; the others are at their medians."""
    strength = np.abs(model.gating).max(axis=0, initial=0) * x.std(axis=0)
    j = int(np.argmax(strength))
    line = np.tile(np.median(x, axis=0), (200, 1))
    line[:, j] = np.linspace(x[:, j].min(), x[:, j].max(), 200)
    for i, p in enumerate(model.gate(line).T):
        axis.plot(line[:, j], p, color=colour(i), label=f"expert {i + 1}")
    axis.set(ylim=(-0.03, 1.03), xlabel=_plain(feature_names[j]), ylabel="probability", title="gate")
    axis.legend(fontsize=8)


def _residuals(axis, model, x, y, known):
    """Quantile residuals, normal where the model is right, against the normal quantiles of their ranks; of counts those of
    the middle of their steps."""
    below = model.below(x, y, **known)
    found = np.sort(special.ndtri(np.clip(below, 1e-12, 1 - 1e-12)))
    want = special.ndtri((np.arange(len(found)) + 0.5) / len(found))
    axis.plot(want, want, color="black", linewidth=1)
    axis.plot(want, found, ".", markersize=3, color="0.35")
    axis.set(xlabel="normal quantile", ylabel="residual", title="residuals")


def _starts(axis, starts):
    """How far below the best each start ended, the best first."""
    ended = np.array([s["log_likelihood"] for s in starts if s["log_likelihood"] is not None], dtype=float)
    axis.set(xlabel="start, the best first", ylabel="log-likelihood below the best", title="starts")
    if not len(ended):
        axis.text(0.5, 0.5, "no starts", ha="center", transform=axis.transAxes)
        return
    short = np.sort(ended.max() - ended)
    axis.plot(np.arange(1, len(short) + 1), short, ".", color="0.35")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set_yscale("symlog", linthresh=0.01)
    axis.set_ylim(-0.002, max(0.1, 2 * short[-1]))


def plot_k(selection, chosen):
    """Draw the criteria of a range of numbers of experts.

    Parameters
    ----------
    selection : list of dict
        Members `k`, `bic`, `aic` and `icl` of every number.
    chosen : int
        The number of the model.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if not selection:
        raise ValueError("one number of experts was fitted: n_experts=(1, 4) fits a range")
    figure, axis = _pyplot().subplots(figsize=(5, 3.4), layout="constrained")
    k = [c["k"] for c in selection]
    for name in ("bic", "icl", "aic"):
        axis.plot(k, [c[name] for c in selection], "o-", markersize=4, label=name.upper())
    axis.axvline(chosen, color="0.6", linewidth=1, linestyle=":")
    axis.set(xticks=k, xlabel="experts", ylabel="criterion, less is better", title=f"{chosen} chosen")
    axis.legend(fontsize=8)
    return figure
