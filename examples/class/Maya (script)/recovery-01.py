# %% [markdown]
# # Design an input pipeline
#
# > Generated from `phases/06-recovery/01-design-an-input-pipeline/` by `make build` (`python -m publish build`). This is **your copy: edit the exercise cells**. Once you have changed it, no build overwrites it; `make reset LESSON=recovery-01` (`python -m environment publish reset recovery-01`) brings the original back and keeps yours in `backups/`.
#
# **Eleven examples, batches of four: what becomes of the last three, and how would you know?**
#
# lesson: recovery-01
#
# 70 minutes · CPU · comes after: phase 05 (Neural network training)
#
# Afterwards you can:
#
# - Build a deterministic, batched host input pipeline whose order is a function of seed and epoch, and audit it
# - Tell membership, order, feature/label alignment and final-batch policy apart, and check each by itself
# - Keep a statistic right after padding, with a mask and the number of real observations
# - Say what a data-set digest covers, and why a new reading order does not change it
# - Say what a preparation timing does and does not measure
#
# How to work:
#
# 1. Read the lesson beside this: `phases/06-recovery/01-design-an-input-pipeline/recovery-01.ipynb`.
# 2. Run from the top. Answer each question before you run the cell after it.
# 3. Write in the exercise cells only. The other cells are given: the check puts the lesson's own in their place. Leave the first line of each cell (`# cell: …`) where it is: by it the check finds the cell.
# 4. Before you check, restart and run all cells, and save: names that are left from an earlier run hide mistakes.
# 5. Check, in a terminal in the course's folder: `make check LESSON=recovery-01`, or without make `python -m environment graders check recovery-01`. That looks at the notebook; if you work in the script, add `FILE=exercises/recovery-01.py` behind the first, `exercises/recovery-01.py` behind the second.
# 6. Keep your evidence in `exercises/recovery-01-evidence.md`.

# %% [markdown]
# ### Parameters
#
# Given. The check also runs your code with other values than these: write their names in it, never the numbers.

# %% Parameters id="parameters" role="parameters"
# cell: parameters
RECORDS = 11
BATCH_SIZE = 4
SEED = 17

# %% [markdown]
# ### The data
#
# Given: read it, and run it as it is.

# %% The data id="data" role="build"
# cell: data
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

# %% [markdown]
# ### The order of an epoch
#
# Given: read it, and run it as it is.

# %% The order of an epoch id="epoch-order" role="build"
# cell: epoch-order
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

# %% [markdown]
# ### One index for three arrays
#
# Given: read it, and run it as it is.

# %% One index for three arrays id="make-batches" role="build"
# cell: make-batches
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

# %% [markdown]
# ### Epoch 0, with a stopwatch around it
#
# Given: read it, and run it as it is.

# %% Epoch 0, with a stopwatch around it id="batches" role="build"
# cell: batches
start = time.perf_counter()
# A generator makes no batch until it is asked; without list() the stopwatch would miss the work.
batches = list(make_batches(SEED, 0))
elapsed = time.perf_counter() - start

seen = np.concatenate([batch["id"] for batch in batches])
print("Batch sizes:", [len(batch["id"]) for batch in batches])
print("Example order:", seen.tolist())
print("Preparation seconds (local observation only):", elapsed)

# %% [markdown]
# ### The audit
#
# Given: read it, and run it as it is.

# %% The audit id="audit" role="build"
# cell: audit
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

# %% [markdown]
# ### A digest of the source
#
# Given: read it, and run it as it is.

# %% A digest of the source id="fingerprint" role="build"
# cell: fingerprint
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

# %% [markdown]
# ### Figure: Example ID against position in the shuffled epoch
#
# **Predict before you run.** Eleven examples in batches of four, positions counted from 0. Where does the short final batch begin?
#
# - **A** At position 7
# - **B** At position 8
# - **C** At position 9

# %% Where each example stands id="order-plot" role="figure"
# cell: order-plot
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

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: Position 7 is the last one of the second batch, which holds positions 4 to 7. The boundary lies behind it.
# - **B** (right): Two full batches use positions 0 to 7, so the third begins at 2 · 4 = 8 and holds what is left.
# - **C**: The ninth example opens the short batch, but the ninth example stands at position 8, because counting begins at 0. This slip of one costs a resumed run a record.
#
# </details>
#
# <details>
# <summary>How to read the figure</summary>
#
# Read from left to right: that is the order of delivery, and the number above a point is its ID. Each position holds one point, and each height from 0 to 10 occurs once: nothing is missing or doubled. The dashed lines are the batch boundaries; the group to the right of the second one is the short batch. In the code, position `p` and height `seen[p]` are one element of the concatenated batch IDs. The plot checks order and membership by eye. It shows no pairing of features with labels and no speed.
#
# </details>

# %% [markdown]
# ### Experiment: The next epoch
#
# **Predict before you run.** The same seed, but epoch 1 instead of epoch 0. What do you expect of the IDs?
#
# - **A** The same order, because the seed is the same
# - **B** Another selection, so that some IDs may come twice
# - **C** The same IDs, each once, in another order

# %% The next epoch id="epoch-one" role="experiment"
# cell: epoch-one
next_epoch = np.concatenate([batch["id"] for batch in make_batches(SEED, 1)])
assert sorted(next_epoch.tolist()) == list(range(RECORDS))
# Only the reading order is new: nothing has touched the source.
assert dataset_digest(features, labels) == fingerprint
print("Epoch one order:", next_epoch.tolist())

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: The epoch is part of what seeds the generator. If it were not, every epoch would show the records in one fixed order.
# - **B**: That would be drawing with replacement. A permutation rearranges the records and cannot repeat one.
# - **C** (right): A permutation changes the order alone, and the pair of seed and epoch picks another permutation.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# Eleven IDs, each once, in another order than in epoch 0: `[4, 0, 5, 10, 6, 2, 1, 9, 7, 3, 8]`. The digest is the same as before, and the assertion on the sorted IDs passes silently.
#
# Order and membership are separate facts: the first changed, the second did not. Because the order is computed from seed and epoch, epoch 1 can be had without running epoch 0 first. A resumed run needs exactly that.
#
# </details>

# %% [markdown]
# ### Experiment: What a dropped batch leaves out
#
# **Predict before you run.** With `drop_last=True` in epoch 0, which records are left out?
#
# - **A** The ones at the end of the shuffled order
# - **B** The ones with the highest IDs: 8, 9 and 10
# - **C** Nobody can say, because the shuffle is random

# %% What a dropped batch leaves out id="drop-last" role="experiment"
# cell: drop-last
whole_batches = make_batches(SEED, 0, drop_last=True)
kept = [record for batch in whole_batches for record in batch["id"].tolist()]
omitted = sorted(set(range(RECORDS)) - set(kept))
# The remainder of a division knows how many, but only the IDs say which.
assert len(omitted) == RECORDS % BATCH_SIZE
print("Omitted IDs:", omitted)

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A** (right): Batches are cut from the shuffled order, so the tail of that order does not fill a batch.
# - **B**: Those stand at the end of the source. The batches are cut after the shuffle, so the tail of the order counts.
# - **C**: The order is a function of seed and epoch. Whoever knows both can name the records before the run.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# Three IDs, named one by one: `[2, 3, 5]`. They are the ones at the end of the shuffled order, printed here in ascending order. The other 8 records are kept. Epoch 1 would omit `[3, 7, 8]`.
#
# The remainder of a division tells how many records are dropped; the IDs tell which. Each epoch drops the tail of its own order. With one fixed order the same records would never be seen, and no shape and no loss curve would mention it.
#
# </details>

# %% [markdown]
# ### Make it yours: pad and mask the last batch
#
# `make-it-yours` · 2 points
#
# A compiled step wants batches of one shape. Fill the labels of the last batch up to `BATCH_SIZE` slots with zeros, build a float32 `mask` that says which slots are real, and take two means: `unmasked` over all slots, and `masked` over the real labels, computed from `padded_labels` and `mask` alone. First derive both by hand from the printed order: the label of record $i$ is $(i-5)/5$. Your code must also hold for other numbers of records and other batch sizes, a full last batch included.
#
# What it trains:
#
# - Keep a statistic right after padding, with a mask and the number of real observations
#
# How to go about it:
#
# 1. Write the IDs of the last batch down, and their labels beside them. Work out both means on paper.
# 2. Take the labels of the last batch from `batches`; the number of slots they leave empty follows from `BATCH_SIZE`.
# 3. Append that many zeros. Number the slots 0, 1, 2, …, and decide from the slot number, not from the label, which slots are real.
# 4. Compute `masked` without looking at `last` again: inside a compiled step only the padded array and the mask are there.
#
# <details>
# <summary>Hint 1</summary>
#
# Which slots are real depends on where they stand, not on what they hold. For the mean, ask what the numerator adds up and what the denominator counts; only one of the two is wrong in the plain mean.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `np.pad(values, (0, n))` appends n zeros. `np.arange(BATCH_SIZE) < len(last)` is True for the real slots; turn it into float32. The mask itself can do the counting: its sum is the number of real labels.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% Pad and mask the last batch id="make-it-yours" role="exercise"
# cell: make-it-yours
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

# %% [markdown]
# ### Transfer: what changes the digest, and what does not
#
# `fingerprint-meaning` · 2 points
#
# Take the digest of four sources: `same`, of a copy of features and labels; `reversed_digest`, of the records in reverse order, each feature still with its label; `changed_digest`, of the features with `changed_labels`, in which exactly one label differs while `labels` itself stays as it is; and `rebuilt_digest`, of what epoch 1 delivered, brought back into the order of its IDs. Then say in one sentence of your evidence why a new iterator order is not a changed source.
#
# What it trains:
#
# - Say what a data-set digest covers, and why a new reading order does not change it
# - Tell membership, order, feature/label alignment and final-batch policy apart, and check each by itself
#
# How to go about it:
#
# 1. Call `dataset_digest` on copies. The function should not care where in memory the values stand.
# 2. Reverse both arrays. If you reverse one of them you have made another task, not another order.
# 3. Make an array of labels with one changed value, and be sure that it is not `labels` under a second name.
# 4. Concatenate the IDs, features and labels of the batches in `epoch_one`. Find the index that sorts the IDs, and use this one index for both arrays.
#
# <details>
# <summary>Hint 1</summary>
#
# An assignment such as `b = a` copies nothing. And `np.argsort` returns an index: an index that sorts the IDs also brings everything else that was delivered with them back home.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `a[::-1]` reverses an array, `a.copy()` gives you one that you may change. With `order = np.argsort(all_ids)`, both `all_x[order]` and `all_y[order]` stand in the order of the source; digest those two.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% What changes the digest id="fingerprint-meaning" role="exercise"
# cell: fingerprint-meaning
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

# %% [markdown]
# ### Challenge: reject a mismatch, repair the indexing
#
# `shuffle-mismatch` · 3 points
#
# Break a batch the way a separate shuffle does: `wrong_labels` are the labels of `batch` in reverse, `batch` itself untouched. Write `aligned(x, y)`, which decides from the rule y = 2x − 1 whether every row is a pair; it has to reject a single pair of exchanged labels in a large batch. Write `realign(mixed)`, which trusts nothing but the IDs of a batch and reads features and labels from the source again. Last, edit a copy of the source: the record `edited_id` gets a feature higher by one and the label that fits it, all others stay. Predict before you run: which of the two alarms, alignment check and digest, hears which of the two faults?
#
# What it trains:
#
# - Tell membership, order, feature/label alignment and final-batch policy apart, and check each by itself
# - Build a deterministic, batched host input pipeline whose order is a function of seed and epoch, and audit it
# - Say what a data-set digest covers, and why a new reading order does not change it
#
# How to go about it:
#
# 1. Reverse the labels into a new array or a view; writing into `batch["y"]` would damage what `batches` holds.
# 2. In `aligned`, compare row by row and return one True or False for all rows. Leave room for rounding in the sixth decimal place, not more.
# 3. In `realign`, use one index for everything. In this source a record's ID is the number of its row.
# 4. For the edited source change the feature of one record in a copy, then make the labels fit. Take its digest.
# 5. Try both alarms on both faults, and write down the four answers.
#
# <details>
# <summary>Hint 1</summary>
#
# A sum, a mean, a sorted list and a shape are all the same before and after labels trade places. Only a comparison that keeps row with row can notice. And a repair that undoes one known exchange does not help against the next one.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `np.allclose(a, b, rtol=0, atol=1e-5)` compares two arrays row by row and answers once; one of the two is what the rule makes of `x`. The lesson already has a function that turns an index into a batch. `np.where(ids == edited_id, a, b)` takes `a` for one record and `b` for all others.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% Reject a mismatch, repair the indexing id="shuffle-mismatch" role="exercise"
# cell: shuffle-mismatch
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

# %% [markdown]
# ### The end of the run
#
# Given. Its line says that the run has reached its end. Whether your answers are right, only the check says.

# %% The end of the run id="done" role="build"
# cell: done
print("PASS: recovery-01")
