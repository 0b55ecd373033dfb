import jax.numpy as jnp

batch = batches[0]
wrong_labels = jnp.flip(jnp.asarray(batch["y"]))


def aligned(x, y):
    return all(abs(float(b) - (2 * float(a) - 1)) < 1e-4 for a, b in zip(x, y))


def realign(mixed):
    rows = [list(ids).index(one) for one in mixed["id"]]
    return {"id": ids[rows], "x": features[rows].astype("float64"), "y": labels[rows].tolist()}


fixed = realign({"id": batch["id"], "x": batch["x"], "y": wrong_labels})
edited_id = batch["id"][0]
edited_features = features.copy()
edited_features[edited_id] += np.float32(1)
edited_labels = 2 * edited_features - 1
edited_digest = dataset_digest(edited_features, edited_labels)
