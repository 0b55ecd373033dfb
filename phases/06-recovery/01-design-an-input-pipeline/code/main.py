# %% Parameters id="parameters" role="parameters"
RECORDS = 11
BATCH_SIZE = 4
SEED = 17

# %% The data id="data" role="build"
import hashlib
import struct
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np

ids = np.arange(RECORDS, dtype=np.int64)
features = (ids / 10).astype(np.float32)
labels = 2 * features - 1

# Arithmetic on the ID alone says what the label has to be: 2 * (ID / 10) - 1 = (ID - 5) / 5.
label_by_hand = [(record - 5) / 5 for record in range(RECORDS)]
np.testing.assert_allclose(labels, label_by_hand, rtol=0, atol=1e-6)
# A digest of the data depends on the dtypes, so they are fixed and not left to the platform.
assert (ids.dtype, features.dtype, labels.dtype) == (np.int64, np.float32, np.float32)


# %% The order of an epoch id="epoch-order" role="build"
def epoch_order(seed: int, epoch: int) -> np.ndarray:
    """The order in which one epoch visits the records.

    Args:
        seed: of the run, at least 0.
        epoch: counted from 0.

    Returns:
        Row numbers of the source, int64 of shape (records,), each row once.
    """
    # Seeding with the sum seed + epoch would make epoch 1 of run 17 the same as epoch 0 of run 18.
    generator = np.random.default_rng(np.random.SeedSequence([seed, epoch]))
    return generator.permutation(len(ids))


# Asking for epoch 1 in between must not move epoch 0: there is no hidden generator that advances.
first_answer = epoch_order(SEED, 0)
epoch_order(SEED, 1)
assert np.array_equal(epoch_order(SEED, 0), first_answer)
assert sorted(first_answer.tolist()) == list(range(RECORDS))


# %% One index for three arrays id="make-batches" role="build"
def take(index: np.ndarray) -> dict[str, np.ndarray]:
    """The records in some rows of the source.

    Args:
        index: row numbers, integers of shape (size,).

    Returns:
        `id`, `x` and `y` as copies, each of shape (size,) and in the order of `index`.
    """
    return {"id": ids[index], "x": features[index], "y": labels[index]}


def make_batches(
    seed: int,
    epoch: int,
    batch_size: int = BATCH_SIZE,
    drop_last: bool = False,
) -> Iterator[dict[str, np.ndarray]]:
    """The batches of one epoch, made one at a time when they are asked for.

    Args:
        seed: of the run.
        epoch: counted from 0.
        batch_size: records in a batch, at least 1.
        drop_last: leave out the records that do not fill a last batch.

    Returns:
        A generator of dicts as `take` makes them. The last one is short if the records do not
        divide evenly, unless `drop_last` leaves it out.

    Raises:
        ValueError: at the call, for a batch size that is not positive.
    """
    # In a function with `yield` this check would wait until somebody asks for the first batch.
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    order = epoch_order(seed, epoch)
    end = len(order) // batch_size * batch_size if drop_last else len(order)
    return (take(order[start : start + batch_size]) for start in range(0, end, batch_size))


for wrong_size in (0, -4):
    try:
        make_batches(SEED, 0, wrong_size)
    except ValueError:
        continue
    raise AssertionError(f"a batch size of {wrong_size} was accepted")


# %% Epoch 0, with a stopwatch around it id="batches" role="build"
start = time.perf_counter()
# A generator makes no batch until it is asked; without list() the stopwatch would miss the work.
batches = list(make_batches(SEED, 0))
elapsed = time.perf_counter() - start

seen = np.concatenate([batch["id"] for batch in batches])
print("Batch sizes:", [len(batch["id"]) for batch in batches])
print("Example order:", seen.tolist())
print("Preparation seconds (local observation only):", elapsed)

# %% The audit id="audit" role="build"
times_seen = Counter(seen.tolist())
missing = sorted(set(range(RECORDS)) - set(times_seen))
duplicated = sorted(record for record, times in times_seen.items() if times > 1)
assert not missing, f"never delivered: {missing}"
assert not duplicated, f"delivered more than once: {duplicated}"

# Membership says nothing about pairs. What a feature and a label should be follows from the ID.
for batch in batches:
    records = batch["id"].tolist()
    feature_by_hand = [record / 10 for record in records]
    np.testing.assert_allclose(batch["x"], feature_by_hand, rtol=0, atol=1e-6)
    np.testing.assert_allclose(batch["y"], [label_by_hand[i] for i in records], rtol=0, atol=1e-6)


# %% A digest of the source id="fingerprint" role="build"
def dataset_digest(x: np.ndarray, y: np.ndarray) -> str:
    """A SHA-256 digest that names these features and labels in this order.

    Args:
        x: features.
        y: labels.

    Returns:
        64 hexadecimal digits. They depend on dtype, shape and bytes of both arrays.
    """
    digest = hashlib.sha256()
    for array in (np.asarray(x), np.asarray(y)):
        # The same bytes can be four float32 or two float64: without dtype and shape both agree.
        digest.update(str(array.dtype).encode())
        digest.update(str(array.shape).encode())
        # Little-endian and row by row, however this machine or this array keeps them in memory.
        little_endian = array.astype(array.dtype.newbyteorder("<"))
        digest.update(little_endian.tobytes(order="C"))
    return digest.hexdigest()


fingerprint = dataset_digest(features, labels)

# The same bytes once more from the standard library: "<" is little-endian, "f" a float of 4 bytes.
header = f"float32({RECORDS},)".encode()
by_struct = hashlib.sha256()
for column in (features, labels):
    by_struct.update(header + struct.pack(f"<{RECORDS}f", *column.tolist()))
assert by_struct.hexdigest() == fingerprint
print("Dataset SHA256:", fingerprint)

# %% Where each example stands id="order-plot" role="figure"
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
axes.plot(range(RECORDS), seen, linestyle="none", marker="o", markersize=8, color="tab:blue")
for position, record in enumerate(seen.tolist()):
    axes.annotate(str(record), (position, record), (0, 8), textcoords="offset points", ha="center")
# Position 3 belongs to batch 0 and position 4 to batch 1, so their separator stands at 3.5.
for boundary in range(BATCH_SIZE, RECORDS, BATCH_SIZE):
    axes.axvline(boundary - 0.5, linestyle="--", color="dimgray")
axes.set_xticks(range(RECORDS))
axes.set_yticks(ids)
axes.set_ylim(-0.8, RECORDS + 0.2)
axes.set_xlabel("position in the shuffled epoch")
axes.set_ylabel("example ID")
axes.set_title(f"Seed {SEED}, epoch 0, batches of {BATCH_SIZE}")

# %% The next epoch id="epoch-one" role="experiment"
next_epoch = np.concatenate([batch["id"] for batch in make_batches(SEED, 1)])
assert sorted(next_epoch.tolist()) == list(range(RECORDS))
# Only the reading order is new: nothing has touched the source.
assert dataset_digest(features, labels) == fingerprint
print("Epoch one order:", next_epoch.tolist())

# %% What a dropped batch leaves out id="drop-last" role="experiment"
whole_batches = make_batches(SEED, 0, drop_last=True)
kept = [record for batch in whole_batches for record in batch["id"].tolist()]
omitted = sorted(set(range(RECORDS)) - set(kept))
# The remainder of a division knows how many, but only the IDs say which.
assert len(omitted) == RECORDS % BATCH_SIZE
print("Omitted IDs:", omitted)

# %% Pad and mask the last batch id="make-it-yours" role="exercise"
last = batches[-1]["y"]  # SOLUTION: the labels of the last batch
empty_slots = BATCH_SIZE - len(last)  # SOLUTION: how many slots of a full batch they leave empty
padded_labels = np.pad(last, (0, empty_slots))  # SOLUTION: the labels, then zeros
mask = (np.arange(BATCH_SIZE) < len(last)).astype(np.float32)  # SOLUTION: 1 real, 0 padding
unmasked = padded_labels.mean()  # SOLUTION: the mean over all slots, padding included
masked = (padded_labels * mask).sum() / mask.sum()  # SOLUTION: from padded_labels and mask

assert np.shape(padded_labels) == (BATCH_SIZE,), "padded_labels needs one entry for each slot"
assert np.shape(mask) == (BATCH_SIZE,), "mask needs one entry for each slot"
# BEGIN REFERENCE: plain Python on the labels before they were padded
real_labels = last.tolist()
assert abs(masked - sum(real_labels) / len(real_labels)) < 1e-6
assert abs(unmasked - sum(real_labels) / BATCH_SIZE) < 1e-6
# END REFERENCE

# %% What changes the digest id="fingerprint-meaning" role="exercise"
same = dataset_digest(features.copy(), labels.copy())  # SOLUTION: the digest of a copy of both
reversed_digest = dataset_digest(features[::-1], labels[::-1])  # SOLUTION: digest of both reversed
changed_labels = np.where(ids == 0, -labels, labels)  # SOLUTION: one label changed, `labels` intact
changed_digest = dataset_digest(features, changed_labels)  # SOLUTION: the digest with that label

epoch_one = list(make_batches(SEED, 1))
# BEGIN SOLUTION: rebuilt_x, rebuilt_y: what epoch_one delivered, in the order of its IDs again
by_id = np.argsort(np.concatenate([one["id"] for one in epoch_one]))
rebuilt_x = np.concatenate([one["x"] for one in epoch_one])[by_id]
rebuilt_y = np.concatenate([one["y"] for one in epoch_one])[by_id]
# END SOLUTION
rebuilt_digest = dataset_digest(rebuilt_x, rebuilt_y)  # SOLUTION: the digest of what you rebuilt

# BEGIN REFERENCE: the order of delivery is no property of the source
assert rebuilt_digest == fingerprint
assert dataset_digest(features, labels) == fingerprint
# END REFERENCE
if same == fingerprint and fingerprint not in (reversed_digest, changed_digest):
    print("Copy preserves fingerprint; reordered source and edited labels invalidate it.")
else:
    print("Not shown yet: a copy should keep the digest, the two other sources should not.")

# %% Reject a mismatch, repair the indexing id="shuffle-mismatch" role="exercise"
batch = batches[0]
wrong_labels = batch["y"][::-1]  # SOLUTION: the labels of `batch` in reverse, `batch` as before


def aligned(x, y):
    """Whether each label belongs to its feature: True or False.

    Args:
        x: features of shape (size,).
        y: labels of shape (size,).
    """
    # Rounding to float32 costs about a millionth; labels of neighboring IDs are 0.2 apart.
    return bool(np.allclose(y, 2 * x - 1, rtol=0, atol=1e-5))  # SOLUTION: y = 2x - 1 in every row


def realign(mixed):
    """The batch of the same IDs with its features and labels read from the source again.

    Args:
        mixed: a batch whose `id` can be trusted and whose `x` and `y` cannot.
    """
    return take(mixed["id"])  # SOLUTION: a dict of id, x and y


fixed = realign({"id": batch["id"], "x": batch["x"], "y": wrong_labels})

# A source in which one record, feature and label, was replaced by another that fits y = 2x - 1.
edited_id = batch["id"][0]
edited_features = np.where(ids == edited_id, features + 1, features)  # SOLUTION: its feature + 1
edited_labels = 2 * edited_features - 1  # SOLUTION: its label fits again, all others are as before
edited_digest = dataset_digest(edited_features, edited_labels)  # SOLUTION: of this source
# BEGIN REFERENCE: which alarm hears which fault, and the labels by hand
assert aligned(batch["x"], batch["y"])
assert not aligned(batch["x"], wrong_labels)
assert dataset_digest(features, labels) == fingerprint
assert aligned(edited_features, edited_labels)
assert edited_digest != fingerprint
by_hand = [label_by_hand[record] for record in fixed["id"].tolist()]
np.testing.assert_allclose(fixed["y"], by_hand, rtol=0, atol=1e-6)
# END REFERENCE

# %% The end of the run id="done" role="build"
print("PASS: recovery-01")
