#!/usr/bin/env python3
"""T2 = E[Q2(y)(xx' - I)] in numpy on one thread: the yardstick of docs/studies/performance.md.

One transform of y, the columns times it, one matrix product. Prints the least CPU
nanoseconds a row of five runs, for n and d of BenchmarkSecondCPU in host/tensor.
"""
import os
for name in ('OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS', 'MKL_NUM_THREADS'):
    os.environ[name] = '1'
import time

import numpy as np

rng = np.random.default_rng(1)
for n, d in ((10_000, 10), (1_000_000, 10), (100_000, 50)):
    x, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    times, best = max(1, 2_000_000 // n), float('inf')
    for _ in range(5):
        began = time.process_time()
        for _ in range(times):
            q = y * y - 1
            t2 = (x * q[:, None]).T @ x / n - np.eye(d) * q.mean()
        best = min(best, (time.process_time() - began) / times / n)
    print(f'd = {d}, n = {n}: {best * 1e9:.1f} ns a row')
