"""The line fit of lesson recovery-06: three splits, gradient descent in JAX, and the bytes of a model.

This is the program whose runs are to be told apart. It decides nothing about a release.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

# The files that decide which model comes out of a run: their bytes are the identity of the code.
CODE = ("line.py", "line_model.py")


@dataclass(frozen=True)
class Split:
    """Inputs and targets, float32 of shape (records,)."""

    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Splits:
    """One split to fit, one to choose by, one to judge the choice. No input is in two of them."""

    train: Split
    validation: Split
    test: Split


def splits(slope: float, intercept: float) -> Splits:
    """The rule slope * x + intercept at thirteen inputs, without noise."""

    def at(*inputs: float) -> Split:
        x = np.array(inputs, dtype=np.float32)
        return Split(x, np.float32(slope) * x + np.float32(intercept))

    return Splits(
        train=at(-2.0, -1.0, 0.0, 1.0, 2.0),
        validation=at(-1.5, -0.5, 0.5, 1.5),
        test=at(-1.25, -0.25, 0.75, 1.75),
    )


def objective(p: Mapping[str, jax.Array], x: np.ndarray, y: np.ndarray) -> jax.Array:
    """Mean squared error of a line, a float32 scalar."""
    return jnp.mean((p["weight"] * x + p["bias"] - y) ** 2)


@jax.jit
def update(p: Mapping[str, jax.Array], rate: float, x: np.ndarray, y: np.ndarray) -> Mapping[str, jax.Array]:
    """One full-batch gradient step."""
    gradient = jax.grad(objective)(p, x, y)
    return jax.tree.map(lambda value, slope: value - rate * slope, p, gradient)


def train(split: Split, rate: float, updates: int) -> tuple[dict[str, float], list[float]]:
    """Fit a line, beginning at zero.

    Returns:
        Weight and bias, and the training error after update 1, 2, and so on.
    """
    p: Mapping[str, jax.Array] = {"weight": jnp.float32(0.0), "bias": jnp.float32(0.0)}
    curve = []
    for _ in range(updates):
        p = update(p, rate, split.x, split.y)
        # float() waits for the device: JAX returns before a result is computed.
        curve.append(float(objective(p, split.x, split.y)))
    return {name: float(value) for name, value in p.items()}, curve


def error(model: Mapping[str, float], split: Split) -> float:
    """The same mean squared error as JAX computes it for a finished model."""
    return float(objective({name: jnp.float32(value) for name, value in model.items()}, split.x, split.y))


def model_bytes(model: Mapping[str, float]) -> bytes:
    """A model as the bytes of its file: equal models give equal bytes."""
    return json.dumps({"weight": model["weight"], "bias": model["bias"]}, sort_keys=True).encode()
