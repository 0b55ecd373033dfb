# %% Constants and libraries id="setup" role="parameters"
import io
import os
import pathlib

import matplotlib.pyplot as plt
import numpy as np

STUDENT = "reference"
COUNT = 11
BATCH = 4
SEED = 0
RATE = 0.1


# %% One step of gradient descent id="step" role="exercise"
def step(w, x, y, rate):
    """The weights after one step, and the loss before it."""
    # BEGIN SOLUTION: go against the gradient
    residual = x @ w - y
    gradient = 2.0 * x.T @ residual / len(y)
    return w - rate * gradient, np.mean(residual**2)
    # END SOLUTION


# %% Thirty steps id="train" role="build"
w = np.zeros(3)
losses = []
for turn in range(30):
    w, loss = step(w, x, y, RATE)
    losses.append(float(loss))
    if turn % 10 == 0:
        print(f"step {turn:2d} loss {losses[-1]:.5f}")
