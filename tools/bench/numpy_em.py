#!/usr/bin/env python3
"""Joint EM of a mixture of linear experts with a softmax gate, in numpy on one thread:
the yardstick of docs/studies/performance.md.

    numpy_em.py DATA.npy K [SEED]

Columns are the features, then the target; no intercepts. One start: regressors random
unit vectors, a gate of 0, sigma the target's standard deviation. An iteration is the
E-step, weighted least squares for every expert, sigma, and two Newton steps of the
weighted multinomial logistic regression of the gate, with its dense Hessian. It ends
when the log-likelihood's relative change is below 1e-6.

Prints the CPU seconds of the start, without those of reading, its iterations, and the
log-likelihood.
"""
import os
for name in ('OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS', 'MKL_NUM_THREADS'):
    os.environ[name] = '1'
import sys
import time

import numpy as np


def log_softmax(logits):
    top = logits.max(1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(1, keepdims=True))


def gate_step(x, r, w):
    """One Newton step of the gate w, k-1 rows, towards the responsibilities r."""
    n, d = x.shape
    rows = len(w)
    p = np.exp(log_softmax(np.column_stack([x @ w.T, np.zeros(n)])))
    score = ((r - p)[:, :-1].T @ x).ravel()
    h = np.zeros((rows * d, rows * d))
    for i in range(rows):
        for j in range(i, rows):
            block = (x * (p[:, i] * ((i == j) - p[:, j]))[:, None]).T @ x
            h[i * d:(i + 1) * d, j * d:(j + 1) * d] = block
            h[j * d:(j + 1) * d, i * d:(i + 1) * d] = block.T
    step = np.linalg.solve(h + 1e-9 * n * np.eye(len(h)), score).reshape(rows, d)
    return w + step * min(1, 5 / max(np.linalg.norm(step), 1e-300))


def em(x, y, k, rng, tolerance=1e-6, most=500):
    n, d = x.shape
    a = rng.standard_normal((k, d))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    w, variance, before = np.zeros((k - 1, d)), y.var(), -np.inf
    for iteration in range(1, most + 1):
        residuals = y[:, None] - x @ a.T
        joint = log_softmax(np.column_stack([x @ w.T, np.zeros(n)]))
        joint -= 0.5 * residuals**2 / variance + 0.5 * np.log(2 * np.pi * variance)
        top = joint.max(1, keepdims=True)
        e = np.exp(joint - top)
        total = e.sum(1, keepdims=True)
        loglik, r = float((top + np.log(total)).sum()), e / total
        for i in range(k):
            weighted = x * r[:, i:i + 1]
            a[i] = np.linalg.solve(weighted.T @ x + 1e-9 * np.eye(d), weighted.T @ y)
        variance = max(float((r * (y[:, None] - x @ a.T)**2).sum() / n), 1e-8)
        for _ in range(2):
            w = gate_step(x, r, w)
        if abs(loglik - before) / (abs(loglik) + 0.1) < tolerance:
            break
        before = loglik
    return loglik, iteration


if __name__ == '__main__':
    table = np.load(sys.argv[1])
    features, target = np.ascontiguousarray(table[:, :-1]), table[:, -1].copy()
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    began = time.process_time()
    value, iterations = em(features, target, int(sys.argv[2]), np.random.default_rng(seed))
    print(f'{time.process_time() - began:.3f} {iterations} {value:.2f}')
