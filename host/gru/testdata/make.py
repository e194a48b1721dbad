# Writes the layers of this folder and what they do to a sequence, from the formulas of
# the libraries' documentation: python3 make.py
import json
import numpy as np

I, H, T = 3, 4, 20
rng = np.random.default_rng(1)
sigma = lambda v: 1 / (1 + np.exp(-v))
x = rng.standard_normal((T, I))

def run(step):
    h, out = np.zeros(H), []
    for v in x:
        h = step(v, h)
        out.append(h)
    return np.array(out)

# torch.nn.GRU: weight_ih (W_ir|W_iz|W_in) is 3H×I, weight_hh 3H×H, biases 3H.
torch = {
    "encoder.weight_ih_l0": rng.standard_normal((3 * H, I)),
    "encoder.weight_hh_l0": rng.standard_normal((3 * H, H)),
    "encoder.bias_ih_l0": rng.standard_normal(3 * H),
    "encoder.bias_hh_l0": rng.standard_normal(3 * H),
}

def torch_step(v, h):
    wi, wh, bi, bh = torch.values()
    i, r_ = wi @ v + bi, wh @ h + bh
    r = sigma(i[:H] + r_[:H])
    z = sigma(i[H:2 * H] + r_[H:2 * H])
    n = np.tanh(i[2 * H:] + r * r_[2 * H:])
    return (1 - z) * n + z * h

# keras.layers.GRU: kernel (z|r|h) is I×3H, recurrent_kernel H×3H, bias 2×3H or 3H.
keras = {
    "gru/gru_cell/kernel": rng.standard_normal((I, 3 * H)),
    "gru/gru_cell/recurrent_kernel": rng.standard_normal((H, 3 * H)),
    "gru/gru_cell/bias": rng.standard_normal((2, 3 * H)),
}
before = {
    "kernel": rng.standard_normal((I, 3 * H)),
    "recurrent_kernel": rng.standard_normal((H, 3 * H)),
    "bias": rng.standard_normal(3 * H),
}

def keras_after(v, h):
    k, rk, b = keras.values()
    i, r_ = v @ k + b[0], h @ rk + b[1]
    z = sigma(i[:H] + r_[:H])
    r = sigma(i[H:2 * H] + r_[H:2 * H])
    hh = np.tanh(i[2 * H:] + r * r_[2 * H:])
    return z * h + (1 - z) * hh

def keras_before(v, h):
    k, rk, b = before.values()
    i = v @ k + b
    z = sigma(i[:H] + h @ rk[:, :H])
    r = sigma(i[H:2 * H] + h @ rk[:, H:2 * H])
    hh = np.tanh(i[2 * H:] + (r * h) @ rk[:, 2 * H:])
    return z * h + (1 - z) * hh

def safetensors(path, arrays):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, a in arrays.items():
        b = np.ascontiguousarray(a, "<f8").tobytes()
        header[name] = {"dtype": "F64", "shape": list(a.shape), "data_offsets": [len(data), len(data) + len(b)]}
        data += b
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)

np.savez("torch.npz", **torch)
safetensors("torch.safetensors", torch)
np.savez_compressed("keras.npz", **keras)
np.savez("keras-before.npz", **before)
np.savez("sequences.npz", x=x, torch=run(torch_step), keras=run(keras_after), before=run(keras_before))
