# %% Parameters id="parameters" role="parameters"
SEED = 42
OTHER_SEED = 99  # of the sampler that has to be refused; must differ from SEED
BATCH_SIZE = 4
COUNT = 12
UNEVEN_COUNT = 13  # records of the second source; batches of four leave a remainder
HOST_RECORDS = 11
WORKERS = 2  # worker processes in their experiment; 0 leaves that experiment out

# %% Libraries id="libraries" role="build"
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


# %% The source id="source" role="build"
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


# %% Sampler and batches id="loader" role="build"
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


# %% The first batch id="first-batch" role="build"
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

# %% Snapshot, then one more read id="snapshot" role="build"
snapshot = iterator.get_state()
second_batch = next(iterator)
print("Next IDs:", batch_ids(second_batch))
print("Iterator state bytes:", len(snapshot))

# Opened here to look inside. A program hands the bytes back unread: their form is Grain's own.
state_inside = json.loads(snapshot)
assert state_inside["last_seen_indices"] == {"0": BATCH_SIZE - 1}
assert state_inside["data_source"] == repr(TutorialSource(COUNT))
state_inside  # a notebook shows the value in which a cell ends


# %% Restore the next read id="restore" role="build"
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

# %% A fresh reader of the same loader id="fresh-iterator" role="experiment"
restarted_batch = next(iter(loader))
assert same_batch(restarted_batch, first_batch)
assert batch_ids(restarted_batch) != batch_ids(second_batch)
print("Same seed restarts; it does not resume")

# %% Audit both epochs id="epoch-audit" role="experiment"
stream = stream_ids(make_loader())
one_epoch, second_epoch = stream[:COUNT], stream[COUNT:]
for epoch in (one_epoch, second_epoch):
    assert sorted(epoch) == list(range(COUNT)), "a record is missing or was delivered twice"
assert one_epoch != second_epoch, "the second epoch was not shuffled anew"
print("Each epoch covers all", "twelve" if COUNT == 12 else COUNT, "IDs")

# %% Thirteen records id="uneven" role="build"
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

# %% Where batches and epochs meet id="read-order" role="figure"
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


# %% What the source is asked for id="read-ahead" role="experiment"
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


# %% One cursor, four sources id="changed-source" role="experiment"
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


# %% The same reader, and a fresh one id="same-object" role="experiment"
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


# %% Two hosts, eleven records id="two-hosts" role="experiment"
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

# %% A process of its own id="own-process" role="build"
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


# %% Worker processes, and their state restored id="worker-processes" role="experiment"
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


# %% Two helpers for the exercises id="helpers" role="build"
def ids_after(state):
    """The IDs that a reader made by `make_loader()` delivers next from a saved state on."""
    reader = iter(make_loader())
    reader.set_state(state)
    return batch_ids(next(reader))


class BrokenReader:
    """A reader whose restore fails for a reason that has nothing to do with the data's order."""

    def set_state(self, state):
        raise OSError("the disk that holds the state is gone")


# %% Replay the third batch id="make-it-yours" role="exercise"
later = iter(make_loader())
# BEGIN SOLUTION: let `later` deliver two batches
for _ in range(2):
    next(later)
# END SOLUTION
later_state = later.get_state()  # SOLUTION: the position of `later` after these two batches
expected_third = next(later)  # SOLUTION: the batch that `later` delivers third
new_iterator = iter(make_loader())  # SOLUTION: a reader that has not delivered anything yet
# BEGIN SOLUTION: bring `new_iterator` to the saved position
new_iterator.set_state(later_state)
# END SOLUTION
replayed_third = next(new_iterator)  # SOLUTION: the batch that `new_iterator` delivers from there

assert np.shape(replayed_third["id"]) == np.shape(expected_third["id"])
# BEGIN REFERENCE: a reader that never stops knows the third batch without any state
assert same_batch(replayed_third, expected_third)
whole_order = stream_ids(make_loader())
assert batch_ids(expected_third) == whole_order[2 * BATCH_SIZE : 3 * BATCH_SIZE]
# END REFERENCE

# %% Replay across the end of the epoch id="boundary-replay" role="exercise"
boundary = iter(make_loader())
# BEGIN SOLUTION: let `boundary` deliver every batch that lies wholly in the first epoch
for _ in range(COUNT // BATCH_SIZE):
    next(boundary)
# END SOLUTION
boundary_state = boundary.get_state()  # SOLUTION: its position there
expected = next(boundary)  # SOLUTION: the batch with the first record of the second epoch
# BEGIN SOLUTION: replay: the same batch, delivered by a new reader at boundary_state
new_reader = iter(make_loader())
new_reader.set_state(boundary_state)
replay = next(new_reader)
# END SOLUTION
second_epoch_ids = replay["id"][COUNT % BATCH_SIZE :]  # SOLUTION: its IDs from the second epoch

assert np.shape(replay["id"]) == np.shape(expected["id"])
# BEGIN REFERENCE: cut out of what a reader delivers that never stops
assert same_batch(replay, expected)
epoch_start = stream_ids(make_loader())[COUNT:]
assert second_epoch_ids.tolist() == epoch_start[: len(second_epoch_ids)]
# END REFERENCE
print("Next-epoch IDs replayed:", batch_ids(replay))


# %% Refuse a changed sampler id="changed-sampler" role="exercise"
def refuses(reader, state):
    """Whether `reader` refuses `state` because it belongs to another order of the data.

    A reader that accepts the state stands at its position from then on. Any other fault is not
    a refusal, and comes through as the exception it is.
    """
    # BEGIN SOLUTION: True or False
    try:
        reader.set_state(state)
    except ValueError:
        return True
    return False
    # END SOLUTION


incompatible = iter(make_loader(seed=OTHER_SEED))  # SOLUTION: a reader in the order of OTHER_SEED
compatible = iter(make_loader())  # SOLUTION: a new reader, made like the one of `snapshot`
assert refuses(incompatible, snapshot) is True
assert refuses(compatible, snapshot) is False
accepted = next(compatible)  # SOLUTION: the batch that `compatible` delivers now

wider = iter(make_loader(batch_size=BATCH_SIZE + 1))
wider_refused = refuses(wider, snapshot)  # SOLUTION: is a larger batch size refused?
wider_batch = next(wider)  # SOLUTION: the batch that `wider` delivers after it was given `snapshot`
# BEGIN REFERENCE: the state counts records, so no record is lost and none comes twice
assert same_batch(accepted, second_batch)
assert not wider_refused
assert batch_ids(wider_batch) == stream_ids(make_loader())[BATCH_SIZE : 2 * BATCH_SIZE + 1]
# END REFERENCE
print("Expected sampler compatibility rejection")

# %% The end of the run id="done" role="build"
print("PASS: recovery-02")
