#!/usr/bin/env python3
"""Fits scikit-learn's network with one hidden layer, one start by L-BFGS on one thread: kinds.sh calls it.

    kinds.py DATA.csv UNITS

Units are sigmoids, with biases and output weights that are free. Prints the seconds of the processor, without reading,
the iterations, and the root mean square of the residuals.
"""
import os
for name in ('OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS', 'MKL_NUM_THREADS'):
    os.environ[name] = '1'
import sys
import time

import numpy as np
from sklearn.neural_network import MLPRegressor

data = np.loadtxt(sys.argv[1], delimiter=',', skiprows=1)
x, y = data[:, :-1], data[:, -1]
network = MLPRegressor(int(sys.argv[2]), activation='logistic', solver='lbfgs', alpha=0, max_iter=5000, max_fun=10**6,
                       tol=1e-9, random_state=1)
begun = time.process_time()
network.fit(x, y)
seconds = time.process_time() - begun
print(f'{seconds:.3f} {network.n_iter_} {np.sqrt(np.mean((y - network.predict(x)) ** 2)):.5f}')
