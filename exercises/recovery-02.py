# %% [markdown]
# # Load, batch, and checkpoint order with Grain
#
# > Generated from `phases/06-recovery/02-load-batch-and-prefetch-with-grain/` by `make build` (`python -m publish build`). This is **your copy: edit the exercise cells**. Once you have changed it, no build overwrites it; `make reset LESSON=recovery-02` (`python -m environment publish reset recovery-02`) brings the original back and keeps yours in `backups/`.
#
# **A run is stopped between two batches: what has to be saved so that the next read, and not only the seed, is the same?**
#
# lesson: recovery-02
#
# 75 minutes · CPU · comes after: recovery-01 (Design an input pipeline)
#
# Afterwards you can:
#
# - Build source, sampler and batches with Grain, and audit what an epoch delivers
# - Save a reader's position, restore it into a fresh reader, and prove the next read instead of trusting a seed
# - Say where an epoch ends inside a stream of batches, and what happens to the remainder
# - Say which changes of the pipeline a saved position notices, and which it accepts in silence
# - Tell records that were read from records that were delivered, with threads and with worker processes
# - Divide records among hosts, and check that the shares are disjoint and complete in the run itself
#
# How to work:
#
# 1. Read the lesson beside this: `phases/06-recovery/02-load-batch-and-prefetch-with-grain/recovery-02.ipynb`.
# 2. Run from the top. Answer each question before you run the cell after it.
# 3. Write in the exercise cells only. The other cells are given: the check puts the lesson's own in their place. Leave the first line of each cell (`# cell: …`) where it is: by it the check finds the cell.
# 4. Before you check, restart and run all cells, and save: names that are left from an earlier run hide mistakes.
# 5. Check, in a terminal in the course's folder: `make check LESSON=recovery-02`, or without make `python -m environment graders check recovery-02`. That looks at the notebook; if you work in the script, add `FILE=exercises/recovery-02.py` behind the first, `exercises/recovery-02.py` behind the second.
# 6. Keep your evidence in `exercises/recovery-02-evidence.md`.

# %% [markdown]
# ### Parameters
#
# Given. The check also runs your code with other values than these: write their names in it, never the numbers.

# %% Parameters id="parameters" role="parameters"
# cell: parameters
SEED = 42
OTHER_SEED = 99  # of the sampler that has to be refused; must differ from SEED
BATCH_SIZE = 4
COUNT = 12
UNEVEN_COUNT = 13  # records of the second source; batches of four leave a remainder
HOST_RECORDS = 11
WORKERS = 2  # worker processes in their experiment; 0 leaves that experiment out

# %% [markdown]
# ### Libraries
#
# Given: read it, and run it as it is.

# %% Libraries id="libraries" role="build"
# cell: libraries
import json
import logging
import multiprocessing
import subprocess
import sys
import tempfile
import time
from itertools import islice, zip_longest
from pathlib import Path

import cloudpickle
import numpy as np

# Importing Grain 0.2.18 beside an older jaxlib warns that workers cannot be profiled. Nothing here
# profiles, so warnings are kept quiet during this import and no longer.
logging.disable(logging.WARNING)
import grain.python as grain

logging.disable(logging.NOTSET)

# %% [markdown]
# ### The source
#
# Given: read it, and run it as it is.

# %% The source id="source" role="build"
# cell: source
class TutorialSource:
    """Records that can be read at any index, in any order, any number of times.

    Record i is `{"id": i, "x": i / 10, "y": 2x - 1}`: int64, float32 and float32 scalars.

    Args:
        count: how many records there are.
    """

    def __init__(self, count=COUNT):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        x = np.float32(index / 10)
        return {"id": np.int64(index), "x": x, "y": np.float32(2) * x - np.float32(1)}

    def __repr__(self):
        # Grain stores this text in a checkpoint and compares it on restore: it has to name
        # everything that decides which record an index means, and no memory address.
        return f"TutorialSource(v1,n={self.count})"

# %% [markdown]
# ### Sampler and batches
#
# Given: read it, and run it as it is.

# %% Sampler and batches id="loader" role="build"
# cell: loader
def loader_over(
    source,
    seed=SEED,
    batch_size=BATCH_SIZE,
    drop_remainder=False,
    worker_count=0,
    read_options=None,
):
    """A DataLoader that delivers two epochs of any source, shuffled anew in each.

    Args:
        source: has `__len__`, `__getitem__` and `__repr__`.
        seed: of the order; at least 0 and below 2**32.
        batch_size: records in a batch.
        drop_remainder: leave out a last batch that is not full.
        worker_count: processes that read; 0 reads in this one.
        read_options: threads and buffer for reading ahead; None takes Grain's own choice.

    Returns:
        An iterable. Each `iter(...)` of it is a reader that starts at the first batch.
    """
    sampler = grain.IndexSampler(num_records=len(source), num_epochs=2, shuffle=True, seed=seed)
    return grain.DataLoader(
        data_source=source,
        sampler=sampler,
        operations=[grain.Batch(batch_size=batch_size, drop_remainder=drop_remainder)],
        worker_count=worker_count,
        read_options=read_options,
    )


def make_loader(
    seed=SEED,
    batch_size=BATCH_SIZE,
    count=COUNT,
    drop_remainder=False,
    worker_count=0,
):
    """`loader_over` a `TutorialSource` of `count` records."""
    source = TutorialSource(count)
    return loader_over(source, seed, batch_size, drop_remainder, worker_count)


# Without threads a reader reads a record when it is asked for a batch, and not before.
SERIAL = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)

# %% [markdown]
# ### The first batch
#
# Given: read it, and run it as it is.

# %% The first batch id="first-batch" role="build"
# cell: first-batch
def batch_ids(batch):
    """The IDs of a batch as a list of Python integers."""
    return batch["id"].tolist()


def stream_ids(batches):
    """The IDs of all batches, in the order of delivery."""
    return [record for batch in batches for record in batch_ids(batch)]


loader = make_loader()
iterator = iter(loader)
first_batch = next(iterator)
print("First IDs:", batch_ids(first_batch))

# A shuffle that moved labels and features apart would keep every shape: the ID is the witness.
by_hand = [(record - 5) / 5 for record in batch_ids(first_batch)]
np.testing.assert_allclose(first_batch["y"], by_hand, rtol=0, atol=1e-6)
dtypes = {name: values.dtype.name for name, values in first_batch.items()}
assert dtypes == {"id": "int64", "x": "float32", "y": "float32"}

# %% [markdown]
# ### Snapshot, then one more read
#
# Given: read it, and run it as it is.

# %% Snapshot, then one more read id="snapshot" role="build"
# cell: snapshot
snapshot = iterator.get_state()
second_batch = next(iterator)
print("Next IDs:", batch_ids(second_batch))
print("Iterator state bytes:", len(snapshot))

# Opened here to look inside. A program hands the bytes back unread: their form is Grain's own.
state_inside = json.loads(snapshot)
assert state_inside["last_seen_indices"] == {"0": BATCH_SIZE - 1}
assert state_inside["data_source"] == repr(TutorialSource(COUNT))
state_inside  # a notebook shows the value in which a cell ends

# %% [markdown]
# ### Restore the next read
#
# Given: read it, and run it as it is.

# %% Restore the next read id="restore" role="build"
# cell: restore
def same_batch(left, right):
    """Whether two batches agree in every field: dtype, shape and every value, with no tolerance."""
    if left.keys() != right.keys():
        return False
    pairs = [(left[name], right[name]) for name in left]
    return all(one.dtype == other.dtype and np.array_equal(one, other) for one, other in pairs)


restored_iterator = iter(make_loader())
restored_iterator.set_state(snapshot)
replayed_batch = next(restored_iterator)
assert same_batch(replayed_batch, second_batch)

# One equal batch could be luck: from the snapshot to the end nothing may differ from a reader
# that never stopped.
uninterrupted = list(make_loader())
resumed = iter(make_loader())
resumed.set_state(snapshot)
for expected_batch, resumed_batch in zip(uninterrupted[1:], resumed, strict=True):
    assert same_batch(expected_batch, resumed_batch)
print("Restored next batch matches")

# %% [markdown]
# ### Experiment: A fresh reader of the same loader
#
# **Predict before you run.** One batch and then a second were read from `iterator`. What does `next(iter(loader))` deliver, from the very same `loader`?
#
# - **A** The third batch, because the loader has delivered two
# - **B** The first batch once more, because a new reader starts over
# - **C** Some other batch, because a new reader shuffles anew

# %% A fresh reader of the same loader id="fresh-iterator" role="experiment"
# cell: fresh-iterator
restarted_batch = next(iter(loader))
assert same_batch(restarted_batch, first_batch)
assert batch_ids(restarted_batch) != batch_ids(second_batch)
print("Same seed restarts; it does not resume")

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: The loader has delivered nothing: the reader `iterator` has. A loader does not know its readers.
# - **B** (right): `iter` makes a new reader with a position of its own, and that begins at 0.
# - **C**: The order depends on the seed and the epoch alone. A new reader computes the same one.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# The fresh reader delivers the first IDs again, `[8, 6, 7, 9]`, and not the next ones, `[0, 5, 1, 2]`.
#
# The loader is a recipe, and a reader made from it stands at position 0. The seed fixes which order it is; how far the run had come is nowhere in it. A restart that sets the seed and nothing else trains on these records once more and looks healthy.
#
# </details>

# %% [markdown]
# ### Experiment: Audit both epochs
#
# **Predict before you run.** Twelve records, two epochs, one seed given to the sampler. What do you expect of the second epoch?
#
# - **A** The same order as the first, because there is only one seed
# - **B** Another order, in which a record may be missing or come twice
# - **C** The same records as in the first, each once, in another order

# %% Audit both epochs id="epoch-audit" role="experiment"
# cell: epoch-audit
stream = stream_ids(make_loader())
one_epoch, second_epoch = stream[:COUNT], stream[COUNT:]
for epoch in (one_epoch, second_epoch):
    assert sorted(epoch) == list(range(COUNT)), "a record is missing or was delivered twice"
assert one_epoch != second_epoch, "the second epoch was not shuffled anew"
print("Each epoch covers all", "twelve" if COUNT == 12 else COUNT, "IDs")

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: The shuffle also uses the number of the epoch; otherwise every epoch would show the records in one order.
# - **B**: An epoch does not draw from what is left over. It is a whole permutation of its own.
# - **C** (right): Each epoch is a permutation of all records, and another one for each epoch.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# Each half of the stream, sorted, is 0, 1, …, 11. After the first two batches epoch 0 goes on with `[4, 10, 11, 3]`; epoch 1 is `[2, 0, 11, 1, 5, 7, 6, 8, 4, 3, 10, 9]`.
#
# Coverage is a statement about IDs, so it is checked with IDs. The number of batches would be right as well if one record came twice and another never. Both epochs hold the same records in two orders, and both orders follow from the one seed.
#
# </details>

# %% [markdown]
# ### Thirteen records
#
# Given: read it, and run it as it is.

# %% Thirteen records id="uneven" role="build"
# cell: uneven
uneven_batches = [batch_ids(batch) for batch in make_loader(count=UNEVEN_COUNT)]
without_remainder = make_loader(count=UNEVEN_COUNT, drop_remainder=True)
full_batches = [batch_ids(batch) for batch in without_remainder]
# Grain's DataLoader batches the whole stream, so what remains is the remainder of both epochs.
full, remainder = divmod(2 * UNEVEN_COUNT, BATCH_SIZE)
uneven_sizes = [len(batch) for batch in uneven_batches]
assert uneven_sizes == [BATCH_SIZE] * full + ([remainder] if remainder else [])
assert full_batches == uneven_batches[:full]

# The batch that holds the end of the first epoch and the beginning of the second.
straddling_batch = uneven_batches[UNEVEN_COUNT // BATCH_SIZE]
dropped_ids = [record for batch in uneven_batches[full:] for record in batch]

# In the Dataset API the order of the calls decides: here each epoch ends with a batch of its own.
per_epoch = grain.MapDataset.source(TutorialSource(UNEVEN_COUNT)).shuffle(seed=SEED)
per_epoch = per_epoch.batch(BATCH_SIZE).repeat(2)
per_epoch_sizes = [len(batch["id"]) for batch in per_epoch]
assert stream_ids(per_epoch) == stream_ids(make_loader(count=UNEVEN_COUNT)), "another order"

# %% [markdown]
# ### Figure: Where batches and epochs meet, for 12 and for 13 records
#
# **Predict before you run.** Thirteen records, two epochs, batches of four from Grain's DataLoader. How many records does the last batch hold?
#
# - **A** One, because each epoch leaves 13 − 3 · 4 = 1 over
# - **B** Two, because the stream of 26 leaves 26 − 6 · 4 = 2 over
# - **C** Four, because the loader fills the last batch up

# %% Where batches and epochs meet id="read-order" role="figure"
# cell: read-order
import matplotlib.pyplot as plt

figure, panels = plt.subplots(2, 1, figsize=(8, 6.4), layout="constrained")
for panel, epoch_size in zip(panels, (COUNT, UNEVEN_COUNT), strict=True):
    batches = list(make_loader(count=epoch_size))
    sizes = [len(batch["id"]) for batch in batches]
    order = np.concatenate([batch["id"] for batch in batches])
    positions = np.arange(len(order))
    looks = (
        ("epoch 0", slice(0, epoch_size), {"marker": "o", "color": "tab:blue"}),
        ("epoch 1", slice(epoch_size, None), {"marker": "s", "color": "dimgray", "mfc": "none"}),
    )
    for label, part, look in looks:
        panel.plot(positions[part], order[part], linestyle="none", label=label, **look)
    # Between the last position of a batch and the first of the next one.
    for edge in np.cumsum(sizes)[:-1] - 0.5:
        panel.axvline(edge, linestyle=":", color="dimgray")
    panel.axvline(epoch_size - 0.5, linewidth=2.5, color="tab:orange", label="end of epoch 0")
    panel.set_title(f"{epoch_size} records, batches of {BATCH_SIZE}, the last one of {sizes[-1]}")
    panel.set_ylabel("example ID")
    panel.set_xticks(positions[::2])
panels[-1].set_xlabel("position in the stream of two epochs")
panels[0].legend(loc="upper center", bbox_to_anchor=(0.5, 1.32), ncols=3, frameon=False)

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: That holds where each epoch is batched by itself. The DataLoader batches the stream of both epochs, so the single record of epoch 0 is filled up with three of epoch 1.
# - **B** (right): Batches are cut from the stream, and the stream does not stop where an epoch ends. The remainder is that of 26.
# - **C**: Nothing is filled up: Grain pads only when told to. Without `drop_remainder` the last batch is simply short.
#
# </details>
#
# <details>
# <summary>How to read the figure</summary>
#
# Read from left to right: that is the order of delivery. In the upper panel the thick line lies between positions 11 and 12, where a batch ends as well; each epoch is three whole batches. In the lower panel it lies between positions 12 and 13, inside the batch at positions 12 to 15. The circle and one of the squares in this batch have the same height: the record that ends epoch 0 comes again early in epoch 1, so the batch `[11, 2, 0, 11]` holds it twice, and one update reads it twice. The remainder appears once, at the end of the stream: with $n$ records, two epochs and batches of $B$ the last batch holds $2n \bmod B$ records, or $B$ where that is 0. With 13 records the sizes are `[4, 4, 4, 4, 4, 4, 2]`, and `drop_remainder=True` drops `[9, 7]` at the very end, not a record of each epoch. In the code a column of the figure is one element of `order`; the plot shows order and membership, not speed.
#
# </details>

# %% [markdown]
# ### Experiment: What the source is asked for
#
# **Predict before you run.** Twelve records, two epochs, default options, `worker_count=0`. A reader has delivered one batch of four. How many records has it asked the source for, a moment later?
#
# - **A** Four: without workers a record is read when it is needed
# - **B** Eight: it keeps one batch ready
# - **C** All 24: something in it reads on while nobody asks

# %% What the source is asked for id="read-ahead" role="experiment"
# cell: read-ahead
class CountingSource(TutorialSource):
    """A source that notes which index was asked for."""

    def __init__(self, count=COUNT):
        super().__init__(count)
        self.asked = []

    def __getitem__(self, index):
        # Reading threads come here at the same time. `+= 1` could lose a count, append cannot.
        self.asked.append(int(index))
        return super().__getitem__(index)


def read_and_delivered(read_options, patience=10.0):
    """How many records were read, and how many the state counts, when one batch was delivered.

    Args:
        read_options: for the loader.
        patience: seconds to wait for threads that still read. Without threads nothing follows.
    """
    source = CountingSource()
    reader = iter(loader_over(source, read_options=read_options))
    next(reader)
    deadline = time.monotonic() + patience
    while read_options is None and len(source.asked) < 2 * COUNT and time.monotonic() < deadline:
        time.sleep(0.01)
    # The state names the last position that was delivered, and positions begin at 0.
    delivered = json.loads(reader.get_state())["last_seen_indices"]["0"] + 1
    return len(source.asked), delivered


ahead_read, ahead_delivered = read_and_delivered(None)
serial_read, serial_delivered = read_and_delivered(SERIAL)
assert serial_read == serial_delivered == ahead_delivered == BATCH_SIZE
assert ahead_read > ahead_delivered
{"ahead": (ahead_read, ahead_delivered), "serial": (serial_read, serial_delivered)}

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: No worker does not mean no thread. Reading is serial only when threads and buffer are set to 0, as in `SERIAL`.
# - **B**: The buffer is counted in records before they are batched, and by default it holds 500.
# - **C** (right): The buffer is larger than the stream, so the threads read on to its end. The state knows of none of this: it counts what was delivered.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# With Grain's default options 24 records were read and 4 delivered; without threads 4 were read. The state counts the delivered ones in both cases.
#
# Threads read ahead even with `worker_count=0`, here both epochs to the end. The position is the one of the consumer, so a restore reads again what was read and not delivered, and nothing is lost. The price is that a side effect in the source, such as a counter or a log line, says nothing about what the model saw.
#
# </details>

# %% [markdown]
# ### Experiment: One cursor, four sources
#
# **Predict before you run.** A position was saved over 12 records. It is restored over the same records in reverse order, by a class that inherited its `__repr__`. What does the DataLoader do?
#
# - **A** It refuses, because the first restored record differs
# - **B** It accepts, and the right records come, by the IDs in the state
# - **C** It accepts, and delivers other records without a word

# %% One cursor, four sources id="changed-source" role="experiment"
# cell: changed-source
class ReversedSource(TutorialSource):
    """The same records, the last one first. It inherits `__repr__`, and with it a false name."""

    def __getitem__(self, index):
        return super().__getitem__(len(self) - 1 - index)


class NamedReversedSource(ReversedSource):
    """The same under a name of its own."""

    def __repr__(self):
        return f"ReversedSource(v1,n={self.count})"


def dataset_reader(source):
    """Grain's other API: a shuffled source without end, read record by record, then batched."""
    dataset = grain.MapDataset.source(source).shuffle(seed=SEED).repeat()
    return iter(dataset.to_iter_dataset(SERIAL).batch(BATCH_SIZE))


def answer(reader, state):
    """The IDs that `reader` delivers next from `state` on, or the sentence in which it refuses."""
    try:
        reader.set_state(state)
    except ValueError as error:
        return str(error).partition(".")[0]
    return batch_ids(next(reader))


reader = dataset_reader(TutorialSource())
# Two spellings of one shuffle: the Dataset API delivers what the DataLoader delivers.
assert batch_ids(next(reader)) == batch_ids(first_batch)
for _ in range(6):
    next(reader)
cursor = reader.get_state()
assert cursor == {"next_index": 7 * BATCH_SIZE}, "seven batches, counted in records"

changed_sources = {
    "same": TutorialSource(),
    "longer": TutorialSource(COUNT + 5),
    "reversed, own name": NamedReversedSource(),
    "reversed, old name": ReversedSource(),
}
dataset_answers, loader_answers = {}, {}
for name, source in changed_sources.items():
    dataset_answers[name] = answer(dataset_reader(source), cursor)
    loader_answers[name] = answer(iter(loader_over(source)), snapshot)
# A refusal is a sentence, an acceptance is a list of IDs.
assert all(isinstance(one, list) for one in dataset_answers.values())
assert isinstance(loader_answers["longer"], str)
assert isinstance(loader_answers["reversed, own name"], str)
assert loader_answers["same"] == batch_ids(second_batch)
# Under the old name nothing is refused, and every ID is the mirror image of the right one.
assert loader_answers["reversed, old name"] == [COUNT - 1 - one for one in batch_ids(second_batch)]
{"Dataset": dataset_answers, "DataLoader": loader_answers}

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: It never compares records. At the restore it has not read any.
# - **B**: No ID is in the state. It holds a position, and position and source together make a record.
# - **C** (right): Sampler and source have the names they had. What the names stand for has changed, and nobody asked.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# The Dataset cursor `{'next_index': 28}` is accepted for all four sources: the right next batch is `[11, 2, 10, 1]`, the longer source delivers `[9, 16, 7, 11]` and the reversed one `[0, 9, 1, 10]`, under either name. The DataLoader refuses the longer source (`'Sampler in checkpoint does not match dataloader sampler'`) and the reversed one under its own name (`'DataSource in checkpoint does not match datasource in dataloader'`). It accepts the reversed one under the old name and delivers `[11, 6, 10, 9]` instead of `[0, 5, 1, 2]`.
#
# The Dataset API saves a position and trusts you with the rest. The DataLoader saves names beside it and compares names, so it is as watchful as the text that `__repr__` returns. Neither looks at a record. Whoever needs to know that the data are the same saves a digest of the data.
#
# </details>

# %% [markdown]
# ### Experiment: The same reader, and a fresh one
#
# **Predict before you run.** A source without a `__repr__` of its own. Its state is restored, first into the very reader that saved it, then into a fresh reader over a fresh, equal source. What happens?
#
# - **A** Both accept: the records, the seed and the batch size are equal
# - **B** Both refuse, because a source without a name cannot be checked
# - **C** The first accepts, the second refuses: it has another object

# %% The same reader, and a fresh one id="same-object" role="experiment"
# cell: same-object
class UnnamedSource(TutorialSource):
    """The same records, but `__repr__` is the one that every Python object has by itself."""

    __repr__ = object.__repr__


unnamed_reader = iter(loader_over(UnnamedSource()))
next(unnamed_reader)
unnamed_state = unnamed_reader.get_state()
into_the_same = answer(unnamed_reader, unnamed_state)
into_a_fresh_one = answer(iter(loader_over(UnnamedSource())), unnamed_state)
assert into_the_same == batch_ids(second_batch)
assert isinstance(into_a_fresh_one, str)
{"the same reader": into_the_same, "a fresh one": into_a_fresh_one}

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: Equal for us. Grain compares the text of `repr(source)`, and in it stands the address of one particular object.
# - **B**: Every Python object has a name, if a poor one. The reader that saved it still finds the same text.
# - **C** (right): The name is a memory address, which agrees with itself and with no other object. The first test would have kept this fault hidden until the crash.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# The reader that made the state takes it back and delivers the right batch. A fresh reader over the same records refuses: `'DataSource in checkpoint does not match datasource in dataloader'`.
#
# Python's own `__repr__` names a memory address. Restored into the object that saved, the address agrees and the test passes; after a crash there is no such object. A test of a restore has to make everything anew, as the process after the crash will.
#
# </details>

# %% [markdown]
# ### Experiment: Two hosts, eleven records
#
# **Predict before you run.** Eleven records, two hosts, `drop_remainder=False`, one epoch. How many records do the two loaders deliver together?
#
# - **A** Eleven: the shares are six and five
# - **B** Ten: each host stops after five records
# - **C** Twelve: the shorter share is filled up by a repeat

# %% Two hosts, eleven records id="two-hosts" role="experiment"
# cell: two-hosts
HOSTS = 2


def host_loader(host, num_epochs):
    """What one of two hosts reads, record by record.

    Args:
        host: 0 or 1.
        num_epochs: None for a stream without end.
    """
    shard = grain.ShardOptions(shard_index=host, shard_count=HOSTS, drop_remainder=False)
    sampler = grain.IndexSampler(
        num_records=HOST_RECORDS,
        num_epochs=num_epochs,
        shuffle=True,
        seed=SEED,
        shard_options=shard,
    )
    source = TutorialSource(HOST_RECORDS)
    return grain.DataLoader(data_source=source, sampler=sampler, read_options=SERIAL)


def host_share(host):
    """How many of the records belong to a host: the first hosts take one of the remainder each."""
    return HOST_RECORDS // HOSTS + (host < HOST_RECORDS % HOSTS)


shards = []
for host in range(HOSTS):
    share = islice(host_loader(host, None), host_share(host))
    shards.append([int(record["id"]) for record in share])
assert set(shards[0]).isdisjoint(shards[1])
assert sorted(shards[0] + shards[1]) == list(range(HOST_RECORDS))

# The same hosts, asked for exactly one epoch.
one_epoch_reads = [[int(record["id"]) for record in host_loader(host, 1)] for host in range(HOSTS)]
never_read = sorted(set(range(HOST_RECORDS)) - set(one_epoch_reads[0] + one_epoch_reads[1]))

# In the Dataset API a shard is a slice, taken after the shuffle of all records.
shuffled = grain.MapDataset.source(TutorialSource(HOST_RECORDS)).shuffle(seed=SEED)
slices = [[int(record["id"]) for record in shuffled[host::HOSTS]] for host in range(HOSTS)]
assert [len(part) for part in slices] == [host_share(host) for host in range(HOSTS)]
assert sorted(slices[0] + slices[1]) == list(range(HOST_RECORDS))
{"shares": shards, "one epoch": one_epoch_reads, "never read": never_read, "slices": slices}

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: The shares are, and `drop_remainder=False` says so. What the loaders deliver is another question, and the answer is a record short.
# - **B** (right): The number of reads is 11 // 2 for each host. It is the same arithmetic as a dropped remainder, at a place where nobody asked for it.
# - **C**: That is what some other libraries do to keep hosts in step. Here nothing is repeated within one epoch.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# The shares are `[4, 1, 2, 3, 0, 5]` and `[10, 7, 8, 9, 6]`: six and five, disjoint and complete. Asked for one epoch, the loaders deliver `[5, 5]` records, and record 5 is delivered by nobody. Slices of a shuffled Dataset give `[8, 7, 0, 1, 4, 3]` and `[6, 9, 5, 2, 10]`, complete again.
#
# The division is right and the loop over it is not: in Grain 0.2.18 a DataLoader with a finite number of epochs stops after the total divided by the number of hosts, rounded down. With an endless sampler, or with slices, the sixth record of host 0 is delivered. Then, however, the hosts have different numbers of records, and a step that waits for all of them needs an agreed number of batches.
#
# </details>

# %% [markdown]
# ### A process of its own
#
# Given: read it, and run it as it is.

# %% A process of its own id="own-process" role="build"
# cell: own-process
LAUNCHER = '''\
"""Run the pickled function in the file argv[1] and print what it returns as JSON."""
import json
import pathlib
import signal
import sys

import cloudpickle

if __name__ == "__main__":  # a worker imports this file too, and must not start the job again
    # End in order when asked to: multiprocessing then stops the workers as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    job = cloudpickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
    print(json.dumps(job()))
'''


def run_as_script(job, patience=150.0):
    """Run a function in a new Python process and return its JSON result.

    Args:
        job: a function without arguments; it is sent by value, with the names it uses.
        patience: seconds after which the process is ended.

    Raises:
        RuntimeError: with the end of its error output, if the process fails.
        subprocess.TimeoutExpired: if it takes too long.
    """
    with tempfile.TemporaryDirectory() as folder:
        script, pickled = Path(folder, "launcher.py"), Path(folder, "job.pickle")
        script.write_text(LAUNCHER, encoding="utf-8")
        pickled.write_bytes(cloudpickle.dumps(job))
        process = subprocess.Popen(
            [sys.executable, str(script), str(pickled)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            printed, complaints = process.communicate(timeout=patience)
        finally:
            # After a normal end this does nothing; after a time-out or Ctrl-C it cleans up.
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    if process.returncode:
        raise RuntimeError(f"the process failed:\n{complaints[-2000:]}")
    return json.loads(printed)

# %% [markdown]
# ### Experiment: Worker processes, and their state restored
#
# **Predict before you run.** Two worker processes instead of none, everything else equal. What becomes of the first batch, `[8, 6, 7, 9]`?
#
# - **A** It stays: the sampler fixes the order, and workers only help with reading
# - **B** It depends on the run: the quicker of the two workers delivers first
# - **C** It becomes positions 0, 2, 4 and 6 of the stream, in every run

# %% Worker processes, and their state restored id="worker-processes" role="experiment"
# cell: worker-processes
def read_with_workers():
    """Read to the end with worker processes, then once more from a snapshot on the way."""
    reader = iter(make_loader(worker_count=WORKERS))
    # One more than a full round: the snapshot has to say whose turn it is.
    before = [batch_ids(next(reader)) for _ in range(WORKERS + 1)]
    state = reader.get_state()
    after = [batch_ids(batch) for batch in reader]

    restored = iter(make_loader(worker_count=WORKERS))
    restored.set_state(state)
    replayed = [batch_ids(batch) for batch in restored]
    return {
        "before": before,
        "after": after,
        "replayed": replayed,
        "state": state.decode(),
        "left": len(multiprocessing.active_children()),
    }


def deal(order, workers):
    """The batches that some workers make of an order, and the order in which they are delivered.

    Position p belongs to worker p % workers. Each worker batches its own positions; then the
    workers are asked in turn. Plain Python, to check Grain against.
    """
    hands = [order[worker::workers] for worker in range(workers)]
    batches = []
    for hand in hands:
        starts = range(0, len(hand), BATCH_SIZE)
        batches.append([hand[start : start + BATCH_SIZE] for start in starts])
    return [batch for turn in zip_longest(*batches) for batch in turn if batch]


# Starting the processes takes seconds, so a run with WORKERS = 0 goes without them.
worker_run = run_as_script(read_with_workers) if WORKERS else None
if worker_run:
    assert worker_run["before"] + worker_run["after"] == deal(stream, WORKERS)
    assert worker_run["replayed"] == worker_run["after"]
    assert worker_run["left"] == 0, "a worker process was left running"
    # The state of two workers is no state for a reader without any.
    assert isinstance(answer(iter(make_loader()), worker_run["state"].encode()), str)
worker_run

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: The sampler fixes the order of positions. Which positions make up a batch is decided where the batching happens, and that is inside the workers.
# - **B**: The workers are asked strictly in turn. If the first is slow, the consumer waits, so the order is the same in every run.
# - **C** (right): Worker 0 takes the even positions and fills its batches from them; worker 1 delivers the odd ones next.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# The first three batches are `[[8, 7, 0, 1], [6, 9, 5, 2], [4, 11, 2, 11]]`: not one of them is a batch of the serial reader. After the snapshot, the restored reader with new processes delivers `[[10, 3, 0, 1], [5, 6, 4, 10], [7, 8, 3, 9]]`, which is what the first one delivered. The state holds the last position of each worker, `{'0': 14, '1': 7}`, and names worker 0 as the last one asked.
#
# Workers take the positions of the stream in turn, and each makes batches of its own share. So the number of workers belongs to the order of the data, like the seed. Grain knows that: a reader with another number of workers refuses the state. Starting processes costs seconds here; with twelve tiny records that is all cost and no gain, and nothing was measured.
#
# </details>

# %% [markdown]
# ### Two helpers for the exercises
#
# Given: read it, and run it as it is.

# %% Two helpers for the exercises id="helpers" role="build"
# cell: helpers
def ids_after(state):
    """The IDs that a reader made by `make_loader()` delivers next from a saved state on."""
    reader = iter(make_loader())
    reader.set_state(state)
    return batch_ids(next(reader))


class BrokenReader:
    """A reader whose restore fails for a reason that has nothing to do with the data's order."""

    def set_state(self, state):
        raise OSError("the disk that holds the state is gone")

# %% [markdown]
# ### Make it yours: consume two batches, replay the third
#
# `make-it-yours` · 2 points
#
# Let a reader called `later` deliver two batches. Save its position as `later_state`, then let it deliver a third batch, `expected_third`. Make a reader `new_iterator` that has nothing in common with `later` but the way it was made, bring it to the saved position, and let it deliver `replayed_third`. Before you run it, write down which IDs you expect. Your code must also hold for other seeds, batch sizes and numbers of records.
#
# What it trains:
#
# - Save a reader's position, restore it into a fresh reader, and prove the next read instead of trusting a seed
# - Build source, sampler and batches with Grain, and audit what an epoch delivers
#
# How to go about it:
#
# 1. Take the IDs you expect from `one_epoch` in the audit of both epochs: two batches are gone, which are next?
# 2. Each `next(later)` delivers one batch. Mind the order of the lines: the position changes with every `next`.
# 3. Make `new_iterator` as a process would that was started after a crash: nothing of `later` is left but the bytes.
# 4. Restore before the first `next`. `set_state` returns nothing; it changes the reader.
#
# <details>
# <summary>Hint 1</summary>
#
# A state describes the moment at which it was taken. Which moment has to be restored so that the next read is the third batch, and has your reader delivered anything it should not have by then?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The order of events: `next`, `next`, `get_state`, `next` on the one reader; `iter(make_loader())`, `set_state`, `next` on the other.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% Replay the third batch id="make-it-yours" role="exercise"
# cell: make-it-yours
later = iter(make_loader())
...  # TODO: let `later` deliver two batches
later_state = ...  # TODO: the position of `later` after these two batches
expected_third = ...  # TODO: the batch that `later` delivers third
new_iterator = ...  # TODO: a reader that has not delivered anything yet
...  # TODO: bring `new_iterator` to the saved position
replayed_third = ...  # TODO: the batch that `new_iterator` delivers from there

assert np.shape(replayed_third["id"]) == np.shape(expected_third["id"])

# %% [markdown]
# ### Transfer: replay across the end of an epoch
#
# `boundary-replay` · 2 points
#
# Now the position lies at the end of an epoch. Let a reader `boundary` deliver every batch that lies wholly in the first epoch, and no more. Save `boundary_state`. The next batch, `expected`, holds the first record of the second epoch; deliver it again from a new reader as `replay`. Then name the part of it that is new: `second_epoch_ids`, those of its IDs that belong to the second epoch, in the order of delivery. With 12 records and batches of four that is the whole batch; with 13 and five it is not, and your code has to know why.
#
# What it trains:
#
# - Save a reader's position, restore it into a fresh reader, and prove the next read instead of trusting a seed
# - Say where an epoch ends inside a stream of batches, and what happens to the remainder
#
# How to go about it:
#
# 1. Draw the positions 0, 1, 2, … in a row, cut them into batches, and mark where the epoch ends. Do it for 12 and 4, then for 13 and 5.
# 2. How many batches lie wholly to the left of the mark? Write it with COUNT and BATCH_SIZE.
# 3. Save the position there, deliver the next batch, and replay it with a new reader that is given the position.
# 4. How many records of the batch lie to the left of the mark? Those are the old ones.
#
# <details>
# <summary>Hint 1</summary>
#
# Two numbers answer everything: how often the batch size goes into an epoch, and what is left over. One of them says how long to read, the other where to cut. Both come from one division.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `COUNT // BATCH_SIZE` whole batches belong to the first epoch. The batch after them begins with `COUNT % BATCH_SIZE` records of the first epoch, which may be none; everything behind these is the second.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% Replay across the end of the epoch id="boundary-replay" role="exercise"
# cell: boundary-replay
boundary = iter(make_loader())
...  # TODO: let `boundary` deliver every batch that lies wholly in the first epoch
boundary_state = ...  # TODO: its position there
expected = ...  # TODO: the batch with the first record of the second epoch
...  # TODO: replay: the same batch, delivered by a new reader at boundary_state
second_epoch_ids = ...  # TODO: its IDs from the second epoch

assert np.shape(replay["id"]) == np.shape(expected["id"])
print("Next-epoch IDs replayed:", batch_ids(replay))

# %% [markdown]
# ### Challenge: refuse a changed sampler, and find what is not refused
#
# `changed-sampler` · 3 points
#
# Write `refuses(reader, state)`: True if the reader refuses the state as one of another order, which Grain reports as a ValueError, and False if it accepts it. Every other exception is a fault of another kind and must come through. Make `incompatible`, a reader in the order of the seed OTHER_SEED, and `compatible`, made like the reader of `snapshot`; the first must refuse `snapshot`, and the second must deliver the right batch, `accepted`, after it has taken it. Then give the same state to `wider`, whose batches hold one record more: predict whether it refuses, store the answer in `wider_refused`, and store the batch that it delivers in `wider_batch`. Explain in your evidence which unit the position is counted in, and what your own checkpoint has to check therefore.
#
# What it trains:
#
# - Say which changes of the pipeline a saved position notices, and which it accepts in silence
# - Save a reader's position, restore it into a fresh reader, and prove the next read instead of trusting a seed
#
# How to go about it:
#
# 1. Try `set_state` with a wrong seed by hand first, and read the whole message: it says what is compared.
# 2. In `refuses`, catch the one exception that means a refusal. Ask yourself what your function would answer for a missing file.
# 3. `refuses` changes a reader that accepts. So after `refuses(compatible, snapshot)` the reader already stands where it should.
# 4. For `wider`, write down the IDs for both possibilities, a position in records and a position in batches, and let the run decide.
#
# <details>
# <summary>Hint 1</summary>
#
# A test that takes every exception for a refusal passes for the wrong reasons: a misspelled name would be a refusal, too. And for the larger batches, look into the state: is the batch size in it?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Put `reader.set_state(state)` alone into a `try`, and name after `except` the one exception that the task names. There are two ways out of the function, and each returns its own answer. Restore `compatible` and `wider` through `refuses`, then read exactly one batch from each.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% Refuse a changed sampler id="changed-sampler" role="exercise"
# cell: changed-sampler
def refuses(reader, state):
    """Whether `reader` refuses `state` because it belongs to another order of the data.

    A reader that accepts the state stands at its position from then on. Any other fault is not
    a refusal, and comes through as the exception it is.
    """
    ...  # TODO: True or False


incompatible = ...  # TODO: a reader in the order of OTHER_SEED
compatible = ...  # TODO: a new reader, made like the one of `snapshot`
assert refuses(incompatible, snapshot) is True
assert refuses(compatible, snapshot) is False
accepted = ...  # TODO: the batch that `compatible` delivers now

wider = iter(make_loader(batch_size=BATCH_SIZE + 1))
wider_refused = ...  # TODO: is a larger batch size refused?
wider_batch = ...  # TODO: the batch that `wider` delivers after it was given `snapshot`
print("Expected sampler compatibility rejection")

# %% [markdown]
# ### The end of the run
#
# Given. Its line says that the run has reached its end. Whether your answers are right, only the check says.

# %% The end of the run id="done" role="build"
# cell: done
print("PASS: recovery-02")
