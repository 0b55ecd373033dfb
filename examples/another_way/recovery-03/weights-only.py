import math

saved = read_checkpoint(checkpoint_path, template)["training"]


def stretch(before, after):
    """The distance in weight and bias, in float64."""
    start, end = (np.array([one["params"]["weight"], one["params"]["bias"]], np.float64) for one in (before, after))
    return np.abs(end - start)


# Adam begins with zeros everywhere, its count included.
weights_only = {name: part for name, part in saved.items() if name != "optimizer"}
weights_only["optimizer"] = jax.tree.map(jnp.zeros_like, saved["optimizer"])

(full_next, full_loss), (weights_only_next, weights_only_loss) = (step(one, x, y) for one in (saved, weights_only))
full_count = full_next["optimizer"][0].count
weights_only_count = optax.tree_utils.tree_get(weights_only_next["optimizer"], "count")
full_move = stretch(saved, full_next)
weights_only_move = stretch(saved, weights_only_next)


def first_move(gradient, decay=0.9, decay_of_squares=0.999):
    """Adam's formula at count 1 with zero moments; eps ignored."""
    mean = (1 - decay) * gradient / (1 - decay)
    square = (1 - decay_of_squares) * gradient**2 / (1 - decay_of_squares)
    return LEARNING_RATE * mean / math.sqrt(square)


predicted_move = first_move(gradient=3.0)
assert math.isclose(predicted_move, first_move(gradient=0.001))  # the size of the gradient does not matter
