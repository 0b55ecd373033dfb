# %% Constants and libraries id="setup" role="parameters"
import io
import os
import pathlib

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

STUDENT = "reference"
COUNT = 11
BATCH = 4
SEED = 0
RATE = 0.1


# %% A small data set id="data" role="exercise"
def make_data(seed, count):
    """Examples of shape (count, 3) and their targets: linear, with a little noise."""
    # BEGIN SOLUTION: draw x, then y from it
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, 3)).astype(np.float32)
    y = x @ np.array([1.5, -2.0, 0.5], dtype=np.float32) + 0.01 * generator.normal(size=count).astype(np.float32)
    return x, y.astype(np.float32)
    # END SOLUTION


x, y = make_data(SEED, COUNT)
print("shapes", x.shape, y.shape)
print("first", np.round(x[0], 4))

# %% What the data must be id="data-test" role="build"
assert x.shape == (COUNT, 3), x.shape
assert y.shape == (COUNT,), y.shape
assert x.dtype == y.dtype == np.float32
np.testing.assert_array_equal(x, make_data(SEED, COUNT)[0])
assert not np.allclose(x, make_data(SEED + 1, COUNT)[0])


# %% Shuffled batches id="batches" role="exercise"
def batches(count, size, seed):
    """Row numbers in a shuffled order, in batches; each row once."""
    # BEGIN SOLUTION: shuffle, then cut
    order = np.random.default_rng(seed).permutation(count)
    return [order[start : start + size] for start in range(0, count, size)]
    # END SOLUTION


cut = batches(COUNT, BATCH, SEED)
for number, rows in enumerate(cut):
    print("batch", number, rows.tolist())

# %% What the batches must be id="batches-test" role="build"
assert [len(rows) for rows in cut] == [min(BATCH, COUNT - start) for start in range(0, COUNT, BATCH)]
assert sorted(np.concatenate(cut).tolist()) == list(range(COUNT))
assert any(one.tolist() != other.tolist() for one, other in zip(cut, batches(COUNT, BATCH, SEED + 1)))


# %% One step of gradient descent id="step" role="exercise"
def loss_of(w, x, y):
    """Mean squared error."""
    return jnp.mean((x @ w - y) ** 2)


@jax.jit
def step(w, x, y, rate):
    """The weights after one step, and the loss before it."""
    # BEGIN SOLUTION: go against the gradient
    loss, gradient = jax.value_and_grad(loss_of)(w, x, y)
    return w - rate * gradient, loss
    # END SOLUTION


# %% Thirty steps id="train" role="build"
w = jnp.zeros(3)
losses = []
for turn in range(30):
    w, loss = step(w, x, y, RATE)
    losses.append(float(loss))
    if turn % 10 == 0:
        print(f"step {turn:2d} loss {losses[-1]:.5f}")

# %% What the training must give id="train-test" role="build"
assert len(losses) == 30
assert losses[-1] < 0.5 * losses[0], losses
np.testing.assert_allclose(np.asarray(w), [1.5, -2.0, 0.5], atol=2)

# %% One figure id="figure" role="build"
figure, axes = plt.subplots(figsize=(4, 3))
axes.plot(losses)
axes.set_xlabel("step")
axes.set_ylabel("loss")
axes.set_yscale("log")
# Drawn here by everybody, so that it does not depend on the tool whether a figure is rendered.
figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")
plt.close(figure)
print(f"finished {STUDENT} {losses[-1]:.5g}")
if "BENCH_MARKS" in os.environ:
    pathlib.Path(os.environ["BENCH_MARKS"], STUDENT).write_text(f"{losses[-1]:.5g}")
