"""The estimator: what it fits is what the command fits, and how it says what is wrong."""

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import pytest
from conftest import mixture
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from moe_regression import (CommandError, CommandNotFoundError, FitWarning, ModelSuspectWarning, MoERegressor,
                            OptimumNotPassedWarning, TinyTableWarning, _advice, _command)

pd = pytest.importorskip("pandas")


def trial(n=300, seed=0):
    """A frame with numbers, words and categories, and its target."""
    r = np.random.RandomState(seed)
    frame = pd.DataFrame({"age": r.uniform(-2, 2, n), "sex": r.choice(["male", "female"], n),
                          "site": pd.Categorical(r.choice(["b", "a"], n), categories=["b", "a", "unused"]),
                          "smokes": r.random_sample(n) < 0.3}, index=[f"row{i}" for i in range(n)])
    y = np.where(frame.age > 0, 2 * frame.age, -frame.age + (frame.sex == "male")) + (frame.site == "a") + 0.5 * frame.smokes
    return frame, pd.Series(y + 0.2 * r.standard_normal(n), index=frame.index, name="dose")


def test_is_the_fit_of_the_command(moe, tmp_path):
    x, y = mixture()
    np.save(tmp_path / "d.npy", np.column_stack([x, y]))
    moe("fit", "d.npy", "--k", "2", "--intercept", "--seed", "7", "-o", "m.json", cwd=tmp_path)
    want = json.loads((tmp_path / "m.json").read_text())
    fit = MoERegressor(2, random_state=7).fit(x, y)
    assert fit.model_.file == want
    np.testing.assert_array_equal(fit.coef_, want["regressors"])
    np.testing.assert_array_equal(fit.gate_intercept_, want["gating_intercepts"])
    assert (fit.n_experts_, fit.log_likelihood_, fit.nobs_) == (2, want["fit"]["log_likelihood"], 400)
    assert fit.certificate_["optimum"] == "pass" and fit.starts_


def test_words_are_those_of_a_csv_file(moe, tmp_path):
    """The command reads the same table as CSV, and the package's file predicts it."""
    frame, y = trial()
    table = frame.astype({"smokes": int}).assign(dose=y)
    table.to_csv(tmp_path / "d.csv", index=False)
    moe("fit", "d.csv", "--k", "2", "--intercept", "--seed", "3", "--reference", "sex=female", "--reference", "site=b",
        "-o", "m.json", cwd=tmp_path)
    want = json.loads((tmp_path / "m.json").read_text())
    fit = MoERegressor(2, random_state=3).fit(frame, y)
    assert fit.feature_names_out_ == ["age", "sexmale", "sitea", "smokes"] == want["features"]
    assert fit.model_.file["covariance"]["parameters"] == want["covariance"]["parameters"]
    np.testing.assert_allclose(fit.coef_, want.get("penalised", want)["regressors"], rtol=1e-9)
    fit.model_.write(tmp_path / "own.json")
    moe("predict", "own.json", "d.csv", "-o", "p.csv", cwd=tmp_path)
    np.testing.assert_allclose(fit.predict(frame), pd.read_csv(tmp_path / "p.csv")["mean"], rtol=1e-12, atol=1e-12)


def test_frames():
    frame, y = trial()
    fit = MoERegressor(2, random_state=1).fit(frame, y)
    posterior = fit.posterior(frame, y)
    assert list(posterior.index) == list(frame.index) and isinstance(fit.predict(frame), np.ndarray)
    np.testing.assert_allclose(posterior.sum(axis=1), 1, rtol=1e-12)
    nullable = frame.assign(age=frame.age.astype("Float64"), smokes=frame.smokes.astype("boolean"), sex=frame.sex.astype("string"))
    np.testing.assert_array_equal(MoERegressor(2, random_state=1).fit(nullable, y).coef_, fit.coef_)
    with pytest.raises(ValueError, match="column 'sex': the model has no level 'other'; it has female, male"):
        fit.predict(frame.assign(sex="other"))
    with pytest.raises(ValueError, match="[Ff]eature names"):
        fit.predict(frame.drop(columns=["age"]))
    for bad, said in ((pd.Timestamp("2020-01-01"), "column 'bad' has values of type datetime64"), (object(), "column 'bad' has other"),
                      (pd.arrays.SparseArray(np.zeros(len(frame))), "column 'bad' is sparse")):
        with pytest.raises(TypeError, match=said):
            MoERegressor().fit(frame.assign(bad=bad), y)


def test_missing():
    frame, y = trial()
    frame.iloc[3, 0], frame.iloc[5, 1] = np.nan, None
    with pytest.raises(ValueError, match="column 'age': row 3 is missing"):
        MoERegressor().fit(frame, y)
    fit = MoERegressor(missing="drop", random_state=1).fit(frame, y)
    assert fit.nobs_ == len(frame) - 2
    assert np.flatnonzero(np.isnan(fit.predict(frame))).tolist() == [3, 5]


def test_missing_target():
    """A row without a target lacks what is said of it, and the scores are those of the other rows."""
    x, y = mixture(200)
    fit = MoERegressor(2, missing="drop", random_state=1).fit(x, y)
    gap, other = y.copy(), np.arange(200) != 7
    gap[7] = np.nan
    weights = 1.0 + np.arange(200) % 3
    for ask in (fit.posterior, fit.log_density):
        want = ask(x, y)
        want[7] = np.nan
        np.testing.assert_array_equal(ask(x, gap), want)
    for ask in (fit.score, fit.log_score):
        assert ask(x, gap) == pytest.approx(ask(x[other], y[other]), rel=1e-12)
        assert ask(x, gap, weights) == pytest.approx(ask(x[other], y[other], weights[other]), rel=1e-12)
    with pytest.raises(ValueError, match="NaN"):
        MoERegressor(1, random_state=1).fit(x, y).posterior(x, gap)


def test_no_row_that_is_whole():
    """Rows that all lack a cell have NaN, as such rows beside others, and no rows have no predictions."""
    x, y = mixture(200)
    frame, dose = trial(200)
    counts = np.random.RandomState(0).poisson(np.exp(x[:, 0] / 2))
    known = dict(offset=np.full(200, 0.1), groups=np.repeat(np.arange(40), 5))
    fits = [(MoERegressor(2, missing="drop", random_state=1).fit(x, y), x, y, {}),
            (MoERegressor(2, missing="drop", formula="dose ~ age * sex | age", random_state=1).fit(frame, dose), frame, dose, {}),
            (MoERegressor(2, missing="drop", family="poisson", random_state=1).fit(x, counts, **known), x, counts, known)]
    for fit, rows, target, known in fits + [(fits[0][0], x, y, {})]:
        asks = {"predict": (), "expert_proba": (2,), "posterior": (2,), "predict_quantile": (), "predict_interval": (2,),
                "sample": (4,), "log_density": ()}
        for n in (0, 1, 3):
            some = rows[:n].copy()
            if rows is frame:
                some = some.assign(age=np.nan, sex=None)
            else:
                some[:, 1] = np.nan
            for ask, more in asks.items():
                args = {"posterior": (target[:n],), "log_density": (target[:n],), "predict_quantile": (0.3,),
                        "sample": (), "predict_interval": ()}.get(ask, ())
                names = {"expert_proba": ("groups",), "log_density": ("offset",)}.get(ask, tuple(known))
                with_them = {name: values[:n] for name, values in known.items() if name in names}
                if ask == "sample":
                    with_them["n_samples"] = 4
                if not fit.model_._alone and ask in ("sample", "log_density"):
                    continue
                got = np.asarray(getattr(fit, ask)(some, *args, **with_them))
                assert got.shape == (n, *more) and np.isnan(got).all(), (ask, n)
        fits[0][0].model_._alone = False  # the last time round it is the command that would be asked
    fit, x, y, _ = fits[0]
    x = np.vstack([x[:2], np.full(3, np.nan)])
    np.testing.assert_array_equal(np.isnan(fit.predict(x)), [False, False, True])
    with pytest.raises(ValueError, match="NaN"):
        MoERegressor(1, random_state=1).fit(*mixture(100)).predict(x[2:])


def test_formula():
    frame, y = trial()
    whole = frame.assign(dose=y, when=pd.Timestamp("2020-01-01"))
    formula = "dose ~ age * sex + site | age"
    fit = MoERegressor(2, formula=formula, random_state=1).fit(whole)
    assert fit.feature_names_out_ == ["age", "sexmale", "sitea", "age:sexmale"]
    right = MoERegressor(2, formula="age * sex + site | age", random_state=1).fit(frame, y)
    np.testing.assert_array_equal(fit.coef_, right.coef_)
    np.testing.assert_array_equal(fit.predict(whole), fit.predict(frame[["site", "sex", "age"]]))
    x, target = mixture()
    assert MoERegressor(2, formula="y ~ x1 + log(x2^2 + 1) | x1", random_state=1).fit(x, target).coef_.shape == (2, 2)


def test_weights_are_counts():
    x, y = mixture(120)
    w = np.random.RandomState(5).randint(0, 4, len(y))
    counted = MoERegressor(2, random_state=1).fit(x, y, sample_weight=w)
    repeated = MoERegressor(2, random_state=1).fit(np.repeat(x, w, axis=0), np.repeat(y, w))
    assert counted.nobs_ == w.sum() == repeated.nobs_
    # Both end at the same optimum, to the tolerance of the search.
    np.testing.assert_allclose(counted.log_likelihood_, repeated.log_likelihood_, rtol=1e-8)


def test_weights_are_none_below_0():
    x, y = mixture(120)
    fit = MoERegressor(1, random_state=1).fit(x, y)
    for bad in (-3.0, np.nan, np.inf, -np.inf):
        w = np.ones(len(y))
        w[7:50] = bad
        for given in (w, list(w), pd.Series(w)):
            with pytest.raises(ValueError, match=f"sample_weight: row 7 has {bad}; want finite weights of 0 or more"):
                MoERegressor(1).fit(x, y, sample_weight=given)
        with pytest.raises(ValueError, match="sample_weight: row 7 has"):
            fit.log_score(x, y, sample_weight=w)
    with pytest.raises(ValueError, match="sample_weight: row 0 has -1.0"):
        MoERegressor(1).fit(x, y, sample_weight=-1)
    with pytest.raises(ValueError, match="all weights are 0"):
        MoERegressor(1).fit(x, y, sample_weight=np.zeros(len(y)))


def test_range_of_experts():
    x, y = mixture()
    chosen = [MoERegressor(n, random_state=1).fit(x, y) for n in ((1, 3), range(1, 4))]
    assert [f.n_experts_ for f in chosen] == [2, 2] and [s["k"] for s in chosen[0].selection_] == [1, 2, 3]
    assert chosen[0].k_set_ == [2] and chosen[0].k_at_least_["k"] == 2
    for bad in (2.0, range(1, 6, 2), "2"):
        with pytest.raises(ValueError, match="n_experts"):
            MoERegressor(bad).fit(x, y)


def test_densities_and_samples():
    """The shares of draws below the quantiles are the probabilities: 40,000 draws, four standard errors (1 in 16,000)."""
    x, y = mixture()
    fit = MoERegressor(2, random_state=1).fit(x, y)
    rows = x[:4]
    fit.model_._uncertainty = None  # draws are of the parameters as they are
    draws = fit.sample(rows, 40000, random_state=3)
    for q in (0.1, 0.5, 0.8):
        share = (draws < fit.predict_quantile(rows, q)[:, None]).mean(axis=1)
        np.testing.assert_allclose(share, q, atol=4 * np.sqrt(q * (1 - q) / 40000))
    # The density is one: trapezia over twelve sigma beyond all means.
    grid = np.linspace(-30, 30, 20001)
    for row in rows:
        density = np.exp(fit.model_.log_density(np.tile(row, (len(grid), 1)), grid))
        np.testing.assert_allclose(density.sum() * (grid[1] - grid[0]), 1, rtol=1e-9)
    assert fit.predict_interval(rows, 0.9).shape == (4, 2)
    np.testing.assert_allclose(fit.log_score(x, y), fit.log_likelihood_ / len(y), rtol=1e-10)


def test_ecosystem():
    frame, y = trial()
    pipeline = make_pipeline(
        ColumnTransformer([("words", OneHotEncoder(drop="first"), ["sex", "site"])], remainder=StandardScaler()),
        MoERegressor(random_state=1))
    assert cross_val_score(pipeline, frame, y, cv=3).min() > 0.5
    search = GridSearchCV(pipeline, {"moeregressor__n_experts": [1, 2]}, cv=3, n_jobs=2).fit(frame, y)
    assert search.best_params_ == {"moeregressor__n_experts": 2}
    fit = search.best_estimator_[-1]
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(frame), search.predict(frame))
    assert clone(fit).get_params() == fit.get_params() and not hasattr(clone(fit), "model_")


def test_same_fit_at_any_number_of_threads():
    x, y = mixture(2000)
    files = [MoERegressor(2, random_state=1, n_jobs=n).fit(x, y).model_.file for n in (1, 2, -1, None)]
    assert all(f == files[0] for f in files)


def test_warnings():
    r = np.random.RandomState(0)
    x = r.standard_normal((600, 1))
    with pytest.warns(ModelSuspectWarning, match="model: suspect; p = "):
        MoERegressor(1, random_state=1).fit(x, x[:, 0] ** 2 + 0.05 * r.standard_normal(600))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MoERegressor(2, random_state=1).fit(*mixture())
    # What the certificate says of an optimum is the command's: here it is put in the place of a fit's.
    fit = MoERegressor(2, random_state=1).fit(*mixture())
    fit.certificate_ = {**fit.certificate_, "optimum": "suspect", "reason": "a start found more"}
    with pytest.warns(OptimumNotPassedWarning, match="optimum: suspect; a start found more"):
        fit._warn()
    with pytest.warns(TinyTableWarning, match="1 expert, for the command refuses more"):
        assert MoERegressor().fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0]).coef_.round(9).tolist() == [[2.0]]


def test_warnings_of_the_fit_are_those_of_the_command_s_screen(moe, tmp_path):
    """The table of stopping distances that R has: eight rows are too few for an expert."""
    speed = [4, 4, 7, 7, 8, 9, 10, 10, 10, 11, 11, 12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15, 15, 16, 16, 17, 17, 17,
             18, 18, 18, 18, 19, 19, 19, 20, 20, 20, 20, 20, 22, 23, 24, 24, 24, 24, 25]
    dist = [2, 10, 4, 22, 16, 10, 18, 26, 34, 17, 28, 14, 20, 24, 28, 26, 34, 34, 46, 26, 36, 60, 80, 20, 26, 54, 32, 40, 32, 40,
            50, 42, 56, 76, 84, 36, 46, 68, 32, 48, 52, 56, 64, 66, 54, 70, 92, 93, 120, 85]
    cars = pd.DataFrame({"speed": speed, "dist": dist}, dtype=float)
    cars.to_csv(tmp_path / "cars.csv", index=False)
    screen = moe("fit", "cars.csv", "--k", "2", "--intercept", "--target", "dist", "--seed", "1", cwd=tmp_path)
    want = [line[9:-1] for line in screen.splitlines() if line.startswith("Warning: ")]
    with pytest.warns(FitWarning) as caught:
        fit = MoERegressor(2, random_state=1).fit(cars[["speed"]], cars.dist)
    assert [w.category for w in caught] == [FitWarning]  # one of each fit
    assert "expert 2 has no standard errors" in want[0] and len(want) == 2
    assert fit.warnings_ == [text.replace("--choose heldout", 'choose="heldout"') for text in want]
    assert str(caught[0].message) == ". ".join(fit.warnings_)
    assert all(f"Warning: {text}." in str(fit.result_.summary()) for text in fit.warnings_)
    assert "no standard errors" in fit.result_.summary().as_html()
    assert MoERegressor(2, random_state=1).fit(*mixture()).warnings_ == []


def test_warnings_in_the_order_of_their_weight():
    fit = {"warnings": ["a", "b", "c", "d", "e"], "warning_kinds": ["larger k", "new rows", "new rows", "gate", "starts"]}
    assert _advice.weighed(fit) == ["e", "b", "d", "a", "c"]
    assert _advice.weighed({**fit, "warning_kinds": ["larger k", "k too large", "gate", "", "target"]}) == ["e", "b", "c", "d"]
    assert _advice.weighed({"warnings": ["b", "a"], "separation": [1]})[:2] == ["b", "a"]
    assert "separates" in _advice.weighed({"separation": [1]})[0] and _advice.weighed({}) == []


def test_advice_is_of_arguments():
    for said, want in (("--robust", 'errors=["robust"]'), ("--k 1:6", "n_experts=(1, 6)"), ("--k 2", "n_experts=2"),
                       ("--noise per-expert", 'noise="per-expert"'), ("try --starts 1000", "try starts=1000"),
                       ("see --starts", "see starts"), ("--formula 'y ~ x | x + I(x^2)'", 'formula="y ~ x | x + I(x^2)"'),
                       ("--choose heldout of a range of k, goes by", 'choose="heldout" of a range of k, goes by'),
                       ("told apart; --drop x1.", "told apart; a table without x1."), ("another --activation", "another activation"),
                       ("--zero-expert", "zero_expert=True"), ("--hierarchy auto", "--hierarchy auto"),
                       ("--output-scale shared fits", 'output_scale="shared" fits')):
        assert _advice.arguments(said) == want
        for name in _advice._NAMES.values():
            assert name in MoERegressor().get_params()
    r = np.random.RandomState(0)
    x = r.standard_normal((600, 1))
    with pytest.warns(ModelSuspectWarning, match='try (?!.*--)'):
        MoERegressor(1, random_state=1).fit(x, x[:, 0] ** 2 + 0.05 * r.standard_normal(600))


def test_starts():
    x, y = mixture(100)
    counts = [len(MoERegressor(2, starts=n, random_state=1).fit(x, y).starts_) for n in (3, 6)]
    assert counts[0] < counts[1] <= 6
    for bad in (0, -1, 2.5, "3"):
        with pytest.raises(ValueError, match="starts = .*: want a whole number from 1 on"):
            MoERegressor(2, starts=bad).fit(x, y)


def test_two_columns_of_one_name():
    x, y = mixture(100)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    twice = frame.set_axis(["a", "b", "a"], axis=1)
    fits = [MoERegressor(1, random_state=1).fit(frame, y), MoERegressor(1, formula="a + b + c", random_state=1).fit(frame, y)]
    for rows in (twice, twice.assign(b="word"), twice.assign(y=y)):
        with pytest.raises(ValueError, match="column 'a' is there more than once"):
            MoERegressor(1, formula="y ~ a" if "y" in rows else None).fit(rows, None if "y" in rows else y)
        for fit in fits:
            with pytest.raises(ValueError, match="column 'a' is there more than once"):
                fit.predict(rows)


def test_a_small_table_has_fewer_experts_and_nothing_else_is_changed(monkeypatch):
    asked, ask = [], MoERegressor._ask
    monkeypatch.setattr(MoERegressor, "_ask", lambda self, config: asked.append(config) or ask(self, config))
    x, y = mixture(25)
    with pytest.raises(CommandError, match="25 rows cannot determine the .* parameters of k = 20 experts"):
        MoERegressor(20, random_state=1).fit(x, y)
    assert len(asked) == 1
    x, y = mixture(400)
    with pytest.raises(CommandError, match="k = 500 experts for 400 rows; choose a smaller k"):
        MoERegressor(500, random_state=1).fit(x[:, :2], y)
    assert len(asked) == 2
    asked.clear()
    with pytest.warns(TinyTableWarning, match="4 experts, for the command refuses more: k = 400 experts for 20 rows"):
        fit = MoERegressor(400, gate_features=["x2"], random_state=1).fit(x[:20, :2], y[:20])
    assert fit.n_experts_ == 4 and len(asked) <= 11
    np.testing.assert_array_equal(fit.gate_coef_[:, 0], 0)
    for config in asked[1:]:
        assert {**config, "k": 400} == asked[0]
    # What is wrong whatever the rows is refused of few rows too.
    for bad, said in (({"noise": "bad"}, 'unknown noise "bad"'), ({"method": "bad"}, 'unknown method "bad"'),
                      ({"gate_features": ["nosuch"]}, 'no column "nosuch"')):
        with pytest.raises(CommandError, match=said):
            MoERegressor(2, **bad).fit(x[:10], y[:10])
    with pytest.raises(CommandError, match="output scale shared"):
        MoERegressor(2, output_scale="shared").fit(x[:10], np.ones(10))


def test_errors_have_the_command_s_line():
    x, y = mixture()
    with pytest.raises(CommandError, match='"nosuch"') as err:
        MoERegressor(activation="nosuch").fit(x, y)
    assert err.value.code in (64, 69, 77) and "\n" not in str(err.value)
    assert pickle.loads(pickle.dumps(err.value)).code == err.value.code
    with pytest.raises(CommandError, match="want a number, z, a parameter or a function"):
        MoERegressor(activation="expr: z +").fit(x, y)
    with pytest.raises(CommandError, match="row 1: the target is 5.435053698698364, and the family poisson takes"):
        MoERegressor(family="poisson").fit(x, y)
    with pytest.raises(CommandError, match="weibull"):
        MoERegressor(family="weibull").fit(x, y)


def test_errors_speak_of_what_the_user_has():
    x, y = mixture(100)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    for X, formula, said in ((frame, "y ~ nope", "no column 'nope'; there are 'a', 'b', 'c'"),
                             (x, "log(nope + 1) | other", "no column 'nope'; there are 'x1', 'x2', 'x3'"),
                             (frame, "y ~ `no pe`", "no column 'no pe'")):
        with pytest.raises(ValueError, match=said):
            MoERegressor(1, formula=formula).fit(X, y)
    with pytest.raises(ValueError, match=r"a column is called '\(intercept\)'"):
        MoERegressor(1).fit(frame.rename(columns={"b": "(intercept)"}), y)
    with pytest.raises(ValueError, match="a column is called '': want a name"):
        MoERegressor(1).fit(frame.rename(columns={"b": ""}), y)
    for seed in (-1, 2**64):
        with pytest.raises(ValueError, match=f"random_state = {seed}: want a whole number from 0 on"):
            MoERegressor(1, random_state=seed).fit(x, y)
    for k in (0, -2):
        with pytest.raises(ValueError, match=f"n_experts = {k}: want a number from 1 on"):
            MoERegressor(k).fit(x, y)
    fit = MoERegressor(1, random_state=1).fit(x, y)
    for bad in ("0.9", None, 2, float("nan")):
        with pytest.raises(ValueError, match=f"level {bad!r}: want a probability"):
            fit.predict_interval(x, bad)
        with pytest.raises(ValueError, match=f"quantile {bad!r}: want a probability"):
            fit.predict_quantile(x, bad)
    with pytest.raises(CommandError, match='^the data: column "b" is 7 in every row'):
        MoERegressor(1).fit(frame.assign(b=7.0), y)
    with pytest.raises(CommandError, match=r'^the data: row \d+: column "a" is -.*, and log\(a\) needs'):
        MoERegressor(1, family="lognormal").fit(frame, pd.Series(y, name="a"))


def test_the_binary_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("MOE_BINARY", str(tmp_path / "none"))
    with pytest.raises(CommandNotFoundError, match="none: No such file"):
        _command.find()
    for script, said in (("echo other", "is no command moe"), ("echo '{\"version\": \"v9.1.0\"}'", "version 9.1.0, want 0.x")):
        other = tmp_path / "other"
        other.write_text(f"#!/bin/sh\n{script}\n")
        other.chmod(0o755)
        os.utime(other, ns=(len(script), len(script)))
        monkeypatch.setenv("MOE_BINARY", str(other))
        with pytest.raises(CommandNotFoundError, match=said):
            _command.find()
    monkeypatch.delenv("MOE_BINARY")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandNotFoundError, match=r"want it in \$MOE_BINARY or on PATH"):
        _command.find()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_interrupt_leaves_nothing(tmp_path):
    """Only the interpreter gets the signal, as from a notebook."""
    program = ("import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored behind a shell's &
               "import numpy as np; from moe_regression import MoERegressor\n"
               "r = np.random.RandomState(0); x = r.standard_normal((200000, 10)); print('go', flush=True)\n"
               "MoERegressor(6, random_state=1).fit(x, np.abs(x).sum(axis=1) + r.standard_normal(len(x)))")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, start_new_session=True)
    assert child.stdout.readline() == "go\n"

    def fits():
        """The fits that the interpreter has started, and not what asks the command for its version."""
        found = subprocess.run(["ps", "-o", "pid=,ppid=,args=", "-e"], capture_output=True, text=True, check=True).stdout
        rows = [line.split() for line in found.splitlines()]
        return [row[0] for row in rows if row[1] == str(child.pid) and "fit" in row]
    deadline = time.monotonic() + 60
    while not (pids := fits()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert pids and list(temporary.iterdir())
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    assert not list(temporary.iterdir())
    alive = subprocess.run(["ps", "-o", "pid=", "-p", ",".join(pids)], capture_output=True, text=True).stdout
    assert not alive.strip()


def test_progress_in_a_notebook(monkeypatch, tmp_path):
    """Where standard error is no terminal the command's lines are passed on, and an error is still its last line."""
    class Cell(list):
        isatty, flush = staticmethod(lambda: False), staticmethod(lambda: None)
        write = list.append
    command = tmp_path / "moe"
    command.write_text('#!/bin/sh\n[ "$1" = version ] && echo \'{"version": "(devel)"}\' && exit\n'
                       'echo "moe: after 5s: starts" >&2\n[ "$1" = fail ] && echo "moe: no such thing" >&2 && exit 65\n'
                       'cat; echo "$*"\n')
    command.chmod(0o755)
    monkeypatch.setenv("MOE_BINARY", str(command))
    cell = Cell()
    monkeypatch.setattr(sys, "stderr", cell)
    assert _command.run(["fit"], stdin="in ", verbose=True) == "in fit\n" and cell == ["moe: after 5s: starts\n"]
    with pytest.raises(CommandError, match="^no such thing$"):
        _command.run(["fail"], verbose=True)
    cell.clear()
    assert _command.run(["fit"]) == "fit --quiet\n" and not cell


def test_fits_leave_no_files(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    MoERegressor().fit(*mixture())
    with pytest.raises(CommandError):
        MoERegressor(activation="nosuch").fit(*mixture())
    assert not list(tmp_path.iterdir())
