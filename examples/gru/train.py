"""Trains a gated recurrent unit on adding, with gates of 0 and 1: python3 train.py OUT.npz [UNITS]

Inputs are x_t ~ N(0, I_4). The network is to say at every step the sum of two numbers: x1 at the
last step at which x3 was above 1/2, and x2 at the last step at which x4 was. It has 8 hidden
units, or UNITS, in PyTorch's convention,

    r, z = gates,  n = tanh(W x + b + r*(U h + c)),  h' = (1 - z)*n + z*h

and a linear readout. Gates are 1 where their predictor is above 0, else 0; their gradient is that of
the logistic function (straight-through). A penalty, EVEN*(share - 1/2)^2 of every gate, keeps them switching: a
gate that hardly does shows little of its unit. At the end the predictors are multiplied by SHARP, so that a
library's logistic gates are 0 or 1 too. Needs numpy alone; everything random is of SEED.
"""
import sys
import numpy as np

SEED, I, T, BATCH, UPDATES, EVEN, SHARP = 1, 4, 30, 64, 2000, .1, 2.0 ** 20
H = int(sys.argv[2]) if len(sys.argv) > 2 else 8
rng = np.random.default_rng(SEED)
p = {
    "weight_ih_l0": rng.normal(size=(3 * H, I)) / 2, "weight_hh_l0": rng.normal(size=(3 * H, H)) / np.sqrt(H),
    "bias_ih_l0": np.zeros(3 * H), "bias_hh_l0": np.zeros(3 * H),
    "out": rng.normal(size=H) / np.sqrt(H), "out_bias": np.zeros(()),
}
R, Z, N = slice(0, H), slice(H, 2 * H), slice(2 * H, 3 * H)
logistic = lambda v: 1 / (1 + np.exp(-np.clip(v, -40, 40)))


def task(x):
    """The targets of inputs of shape (T, BATCH, I), and from which step on there are any."""
    first, second, out = np.zeros(x.shape[1]), np.zeros(x.shape[1]), np.empty(x.shape[:2])
    for t, v in enumerate(x):
        first = np.where(v[:, 2] > .5, v[:, 0], first)
        second = np.where(v[:, 3] > .5, v[:, 1], second)
        out[t] = first + second
    return out


def forward(x):
    h, steps = np.zeros((x.shape[1], H)), []
    for v in x:
        a = v @ p["weight_ih_l0"].T + p["bias_ih_l0"]
        b = h @ p["weight_hh_l0"].T + p["bias_hh_l0"]
        eta = a + b
        r, z = (eta[:, R] > 0) * 1., (eta[:, Z] > 0) * 1.
        n = np.tanh(a[:, N] + r * b[:, N])
        steps.append((v, h, eta, b[:, N], r, z, n))
        h = (1 - z) * n + z * h
    return steps, h


def gradient(x, y):
    """The mean squared error, and its derivatives."""
    steps, last = forward(x)
    states = np.array([s[1] for s in steps[1:]] + [last])
    off = states @ p["out"] + p["out_bias"] - y
    g = {k: np.zeros_like(v) for k, v in p.items()}
    scale = 2 / off.size
    g["out"], g["out_bias"] = scale * np.einsum("tbh,tb->h", states, off), scale * off.sum()
    dh = np.zeros_like(last)
    gates = np.array([s[2][:, :2 * H] > 0 for s in steps])
    uneven = 2 * EVEN * (gates.mean((0, 1)) - .5) / (len(steps) * len(last))
    for t in reversed(range(len(steps))):
        v, h, eta, b, r, z, n = steps[t]
        dh = dh + scale * off[t][:, None] * p["out"]
        dn = dh * (1 - z) * (1 - n * n)
        soft = logistic(eta)
        through = soft * (1 - soft)
        da = np.concatenate([(dn * b + uneven[R]) * through[:, R], (dh * (h - n) + uneven[Z]) * through[:, Z], dn], axis=1)
        db = da.copy()
        db[:, N] = dn * r
        g["weight_ih_l0"] += da.T @ v
        g["bias_ih_l0"] += da.sum(0)
        g["weight_hh_l0"] += db.T @ h
        g["bias_hh_l0"] += db.sum(0)
        dh = dh * z + db @ p["weight_hh_l0"]
    return (off ** 2).mean(), g


mean, square = {k: np.zeros_like(v) for k, v in p.items()}, {k: np.zeros_like(v) for k, v in p.items()}
for step in range(1, UPDATES + 1):
    x = rng.normal(size=(T, BATCH, I))
    loss, g = gradient(x, task(x))
    size = np.sqrt(sum((v ** 2).sum() for v in g.values()))
    rate = .01 * (1 - step / UPDATES) + 1e-4
    for k in p:  # Adam, the gradient's norm held to 1
        d = g[k] * min(1, 1 / size)
        mean[k] = .9 * mean[k] + .1 * d
        square[k] = .999 * square[k] + .001 * d * d
        p[k] = p[k] - rate * (mean[k] / (1 - .9 ** step)) / (np.sqrt(square[k] / (1 - .999 ** step)) + 1e-8)
    if step % 500 == 0:
        print(f"update {step}: mean squared error {loss:.4f}, of guessing the mean {task(x).var():.4f}")

print("shares of open gates", np.round(np.array([s[2][:, :2 * H] > 0 for s in forward(x)[0]]).mean((0, 1)), 2))
for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
    p[name][:2 * H] *= SHARP
np.savez(sys.argv[1], **{k: v for k, v in p.items() if not k.startswith("out")})
