#!/usr/bin/env python3
"""T4 = E[Q4(y)S4(z)], z = U'x, in numpy on one thread: the yardstick of docs/studies/performance.md.

One transform of y less its mean, the projection, the products of all pairs of columns, and
one matrix product of them with themselves times the transform. Prints the least CPU nanoseconds a row of five runs, for n, d and k of
BenchmarkFourthCPU in host/tensor.
"""
import os
for name in ('OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS', 'MKL_NUM_THREADS'):
    os.environ[name] = '1'
import time

import numpy as np

rng = np.random.default_rng(1)
for n, d, k in ((10_000, 10, 3), (1_000_000, 10, 3), (50_000, 50, 10)):
    x, y, u = rng.standard_normal((n, d)), rng.standard_normal(n), rng.standard_normal((d, k))
    first, second = np.triu_indices(k)
    times, best = max(1, 200_000 // n), float('inf')
    for _ in range(5):
        began = time.process_time()
        for _ in range(times):
            q = (y * y - 6) * y * y
            q -= q.mean()
            z = x @ u
            pairs = z[:, first] * z[:, second]
            two, four = q @ pairs / n, (pairs * q[:, None]).T @ pairs / n
        best = min(best, (time.process_time() - began) / times / n)
    print(f'k = {k}, d = {d}, n = {n}: {best * 1e9:.1f} ns a row')
