import jax.numpy as jnp

# What to expect, without any reader: a shuffled source can be asked for single positions.
order = grain.MapDataset.source(TutorialSource()).shuffle(seed=SEED).repeat(2)
rows = [order[position] for position in range(2 * BATCH_SIZE, 3 * BATCH_SIZE)]
by_position = {name: [row[name].item() for row in rows] for name in ("id", "x", "y")}

later = iter(make_loader())
consumed = list(islice(later, 2))
later_state = later.get_state()
expected_third = by_position
assert batch_ids(next(later)) == by_position["id"]

new_iterator = iter(loader_over(TutorialSource(COUNT)))
new_iterator.set_state(bytes(later_state))
replayed_third = {name: jnp.asarray(values) for name, values in next(new_iterator).items()}

assert np.shape(replayed_third["id"]) == np.shape(expected_third["id"])
