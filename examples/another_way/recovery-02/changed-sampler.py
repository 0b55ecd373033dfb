from contextlib import suppress

import jax.numpy as jnp


def refuses(reader, state):
    refused = True
    with suppress(ValueError):
        reader.set_state(state)
        refused = False
    return refused


def opened(**settings):
    """A new reader of the same records, and whether it refuses the snapshot."""
    reader = iter(loader_over(TutorialSource(), **settings))
    return reader, refuses(reader, snapshot)


incompatible, other_order_refused = opened(seed=OTHER_SEED)
compatible, same_order_refused = opened()
assert (other_order_refused, same_order_refused) == (True, False)
accepted = {name: jnp.array(values) for name, values in next(compatible).items()}

wider, wider_refused = opened(batch_size=BATCH_SIZE + 1)
# The position counts records: one batch has been delivered, so the next record is number BATCH_SIZE.
wider_batch = {name: values.tolist() for name, values in next(wider).items()}
by_position = grain.MapDataset.source(TutorialSource()).shuffle(seed=SEED).repeat(2)
assert wider_batch["id"] == [int(by_position[BATCH_SIZE + slot]["id"]) for slot in range(BATCH_SIZE + 1)]
print("Expected sampler compatibility rejection")
