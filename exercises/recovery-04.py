# %% [markdown]
# # Recover data position and resume
#
# > Generated from `phases/06-recovery/04-recover-data-position-and-resume/` by `make build` (`python -m publish build`). This is **your copy: edit the exercise cells**. Once you have changed it, no build overwrites it; `make reset LESSON=recovery-04` (`python -m environment publish reset recovery-04`) brings the original back and keeps yours in `backups/`.
#
# **Model, optimizer, key and reader are restored: how do you know that the next update is the one that was lost?**
#
# lesson: recovery-04
#
# 110 minutes · CPU · comes after: recovery-02 (Load, batch, and checkpoint order with Grain), recovery-03 (Save model, optimizer, and random state)
#
# Afterwards you can:
#
# - Save model, optimizer, key and reader position at one boundary, and restore all of them into fresh objects
# - Check the IDs of the next batch before the first update, instead of deriving a position from a step count
# - Tell the partial restores of a run apart by next IDs, first loss and second loss, and say which of these checks misses which fault
# - Bind a position to its data, order and batch size, and refuse a changed one before anything is consumed
# - Prove a resume in a fresh process, at every boundary, bit for bit
#
# How to work:
#
# 1. Read the lesson beside this: `phases/06-recovery/04-recover-data-position-and-resume/recovery-04.ipynb`.
# 2. Run from the top. Answer each question before you run the cell after it.
# 3. Write in the exercise cells only. The other cells are given: the check puts the lesson's own in their place. Leave the first line of each cell (`# cell: …`) where it is: by it the check finds the cell.
# 4. Before you check, restart and run all cells, and save: names that are left from an earlier run hide mistakes.
# 5. Check, in a terminal in the course's folder: `make check LESSON=recovery-04`, or without make `python -m environment graders check recovery-04`. That looks at the notebook; if you work in the script, add `FILE=exercises/recovery-04.py` behind the first, `exercises/recovery-04.py` behind the second.
# 6. Keep your evidence in `exercises/recovery-04-evidence.md`.

# %% [markdown]
# ### Parameters
#
# Given. The check also runs your code with other values than these: write their names in it, never the numbers.

# %% Parameters id="parameters" role="parameters"
# cell: parameters
SEED = 42  # of the order of the records
BATCH_SIZE = 4
COUNT = 12  # records; the reader passes over them twice
OTHER_SEED = 43  # what must be refused: differs from SEED …
OTHER_BATCH_SIZE = 3  # … and from BATCH_SIZE
BOUNDARY = 2  # updates that are complete when the run is saved
FRESH_PROCESSES = True  # False leaves out the seven child processes, and nothing else

# %% [markdown]
# ### Libraries
#
# Given: read it, and run it as it is.

# %% Libraries id="libraries" role="build"
# cell: libraries
import atexit
import hashlib
import itertools
import json
import logging
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # read when JAX is imported; children inherit it

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp

# Importing Grain 0.2.18 beside an older jaxlib warns that workers cannot be profiled. Nothing here
# profiles, so that one warning is kept quiet; later ones are not.
absl_logger = logging.getLogger("absl")
absl_logger.setLevel(logging.ERROR)
import grain.python as grain

absl_logger.setLevel(logging.WARNING)

# %% [markdown]
# ### The reader of lesson 02
#
# Given: read it, and run it as it is.

# %% The reader of lesson 02 id="reader" role="build"
# cell: reader
class TutorialSource:
    """`count` records `{"id": i, "x": i / 10, "y": 2x - 1}`: int64, float32 and float32 scalars."""

    def __init__(self, count=COUNT):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        x = np.float32(index / 10)
        return {"id": np.int64(index), "x": x, "y": np.float32(2) * x - np.float32(1)}

    def __repr__(self):
        # Grain compares this text on restore. The default one holds a memory address, which is
        # another one in every process.
        return f"TutorialSource(v1,n={self.count})"


def loader_over(source, seed=SEED, batch_size=BATCH_SIZE, drop_remainder=False):
    """A DataLoader that delivers two epochs of a source in batches, shuffled anew in each."""
    sampler = grain.IndexSampler(
        num_records=len(source),
        num_epochs=2,
        shuffle=True,
        seed=seed,
        shard_options=grain.NoSharding(),
    )
    return grain.DataLoader(
        data_source=source,
        sampler=sampler,
        operations=[grain.Batch(batch_size, drop_remainder=drop_remainder)],
        worker_count=0,
    )


def make_loader(seed=SEED, batch_size=BATCH_SIZE, count=COUNT, drop_remainder=False):
    """`loader_over` a `TutorialSource` of `count` records."""
    return loader_over(TutorialSource(count), seed, batch_size, drop_remainder)

# %% [markdown]
# ### The state of lesson 03
#
# Given: read it, and run it as it is.

# %% The state of lesson 03 id="state" role="build"
# cell: state
KEY_IMPL = "threefry2x32"
tx = optax.adam(0.05)


def initial_state():
    """The state before update 1, every leaf an array.

    params: weight and bias, float32 scalars. optimizer: Adam's count and two moments for each
    parameter. key_data: the key's two uint32 words. step: int32, completed updates.
    """
    params = {"weight": jnp.array(0.0, jnp.float32), "bias": jnp.array(0.0, jnp.float32)}
    return {
        "params": params,
        "optimizer": tx.init(params),
        "key_data": jax.random.key_data(jax.random.key(7, impl=KEY_IMPL)),
        "step": jnp.array(0, jnp.int32),
    }


def split_key(key_data):
    """The key data of the next update, and the key for the noise of this one."""
    next_key, sample_key = jax.random.split(jax.random.wrap_key_data(key_data, impl=KEY_IMPL))
    return jax.random.key_data(next_key), sample_key


def step(state, x, y):
    """One update on a batch; x, y: float32, shape (records,). Returns (next state, loss).

    The loss is that of the parameters before the update.
    """
    next_key_data, sample_key = split_key(state["key_data"])
    targets = y + 0.01 * jax.random.normal(sample_key, y.shape, jnp.float32)

    def mean_squared_error(params):
        return jnp.mean((params["weight"] * x + params["bias"] - targets) ** 2)

    loss, gradient = jax.value_and_grad(mean_squared_error)(state["params"])
    updates, optimizer = tx.update(gradient, state["optimizer"], state["params"])
    next_state = {
        "params": optax.apply_updates(state["params"], updates),
        "optimizer": optimizer,
        "key_data": next_key_data,
        "step": state["step"] + 1,
    }
    return next_state, loss

# %% [markdown]
# ### Consume batches
#
# Given: read it, and run it as it is.

# %% Consume batches id="consume" role="build"
# cell: consume
def consume(state, iterator, count, update=step):
    """Take `count` batches (None: all that are left) and make one update with each.

    Returns (state, losses, orders): for each update its loss, a float, and its list of IDs.
    """
    losses, orders = [], []
    for batch in itertools.islice(iterator, count):
        state, loss = update(state, batch["x"], batch["y"])
        losses.append(float(loss))
        orders.append(batch["id"].tolist())
    return state, losses, orders


def tree_digest(tree):
    """SHA-256 over path, dtype, shape and bytes of every leaf: one flipped bit changes it."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        array = np.asarray(leaf)
        for part in (jax.tree_util.keystr(path), str(array.dtype), str(array.shape)):
            digest.update(part.encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def same_tree(left, right):
    """Raise AssertionError unless two trees have the same leaves, bit for bit."""
    if tree_digest(left) != tree_digest(right):
        raise AssertionError("the trees differ")

# %% [markdown]
# ### What a position means
#
# Given: read it, and run it as it is.

# %% What a position means id="contract" role="build"
# cell: contract
def data_digest(source):
    """SHA-256 over ID, feature and label of every record, in the source's own order."""
    digest = hashlib.sha256()
    for index in range(len(source)):
        record = source[index]
        for name in ("id", "x", "y"):
            digest.update(record[name].tobytes())
    return digest.hexdigest()


def data_contract(seed=SEED, batch_size=BATCH_SIZE, source=None):
    """What the reader and the update of this program are, for `TutorialSource()` or another.

    A position is a number of records: it means something only for this data in this order.
    """
    source = TutorialSource() if source is None else source
    return {
        "source": repr(source),
        "records": len(source),
        "data_sha256": data_digest(source),
        "seed": seed,
        "epochs": 2,
        "batch_size": batch_size,
        "drop_remainder": False,
        "update": f"adam 0.05, noise 0.01, {KEY_IMPL}, not compiled",
    }


def pack_bytes(raw, capacity=4096):
    """Bytes as two arrays of fixed shape, so that they can stand in a tree of arrays."""
    if len(raw) > capacity:
        raise ValueError(f"{len(raw)} bytes do not fit into {capacity}; give a larger capacity")
    buffer = np.zeros(capacity, np.uint8)
    buffer[: len(raw)] = np.frombuffer(raw, np.uint8)
    return {"buffer": buffer, "length": np.array(len(raw), np.int32)}


def unpack_bytes(packed):
    """The bytes that pack_bytes was given."""
    return np.asarray(packed["buffer"]).tobytes()[: int(packed["length"])]


def encode_contract(contract):
    """The contract as arrays: JSON with sorted keys, so that equal contracts have equal bytes."""
    return pack_bytes(json.dumps(contract, sort_keys=True).encode())


def validate_contract(saved, expected):
    """Raise ValueError, naming every field, unless a packed contract is the expected one."""
    found = json.loads(unpack_bytes(saved))
    names = sorted(found.keys() | expected.keys())
    changed = [
        f"{name}: saved {found.get(name)!r}, now {expected.get(name)!r}" for name in names if found.get(name) != expected.get(name)
    ]
    if changed:
        raise ValueError("the checkpoint belongs to another run: " + "; ".join(changed))

# %% [markdown]
# ### One boundary, saved and restored as one
#
# Given: read it, and run it as it is.

# %% One boundary, saved and restored as one id="boundary" role="build"
# cell: boundary
def pack_boundary(state, iterator, contract):
    """Everything that the next update reads, as one tree. Call it between two updates."""
    return {
        "training": state,
        "reader": pack_bytes(iterator.get_state()),
        "contract": encode_contract(contract),
    }


def save_boundary(path, payload):
    """Write a payload into a new folder, and return when it is there."""
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, payload)
        checkpointer.wait_until_finished()  # save() itself returns while a thread still writes


def read_boundary(path):
    """The payload in a folder, its contract not looked at."""
    empty = pack_bytes(b"")
    example = {"training": initial_state(), "reader": empty, "contract": empty}
    # Shapes and dtypes alone: a value that was not read cannot stand in for one that was.
    target = jax.tree.map(ocp.utils.to_shape_dtype_struct, example)
    with ocp.StandardCheckpointer() as checkpointer:
        return checkpointer.restore(path, target)


def make_reader(contract, position=None):
    """A fresh iterator as a contract of `TutorialSource` data describes it, moved to a position."""
    loader = make_loader(contract["seed"], contract["batch_size"], contract["records"])
    iterator = iter(loader)
    if position is not None:
        iterator.set_state(position)
    return iterator


def restore_boundary(path, contract):
    """Fresh (state, iterator) at a saved boundary; ValueError if it has another contract."""
    payload = read_boundary(path)
    validate_contract(payload["contract"], contract)  # before there is an iterator to move
    return payload["training"], make_reader(contract, unpack_bytes(payload["reader"]))


def peek_ids(position, contract):
    """The IDs of the next batch, read by an iterator of its own; [] at the end of the data."""
    batch = next(make_reader(contract, position), None)
    return [] if batch is None else batch["id"].tolist()

# %% [markdown]
# ### Stop, resume, compare
#
# Given: read it, and run it as it is.

# %% Stop, resume, compare id="resume" role="build"
# cell: resume
workspace = tempfile.TemporaryDirectory(prefix="recovery-04-")
atexit.register(workspace.cleanup)
root = Path(workspace.name).resolve()  # Orbax refuses a relative path
contract = data_contract()

iterator = iter(make_loader())
state, first_losses, first_orders = consume(initial_state(), iterator, BOUNDARY)
checkpoint_path = root / f"completed_step_{BOUNDARY}"
payload = pack_boundary(state, iterator, contract)
save_boundary(checkpoint_path, payload)
promised_ids = peek_ids(iterator.get_state(), contract)

# This run goes on in memory: what it does now is what a resumed run has to do.
expected_state, expected_losses, expected_orders = consume(state, iterator, None)
assert expected_orders[0] == promised_ids  # so peeking moved nothing

restored, restored_iterator = restore_boundary(checkpoint_path, data_contract())
resumed_state, resumed_losses, resumed_orders = consume(restored, restored_iterator, None)
assert resumed_orders == expected_orders
assert resumed_losses == expected_losses
same_tree(resumed_state, expected_state)
all_orders, all_losses = first_orders + resumed_orders, first_losses + resumed_losses
print(f"IDs after step {BOUNDARY}:", resumed_orders)
print(f"Losses after step {BOUNDARY}:", resumed_losses)
print("Resumed and uninterrupted run: same IDs, same losses, same final bits")

# %% [markdown]
# ### An oracle with other arithmetic
#
# Given: read it, and run it as it is.

# %% An oracle with other arithmetic id="oracle" role="build"
# cell: oracle
def losses_by_hand(orders):
    """The losses of a run over these IDs from a fresh start: Adam's formula in NumPy and float64.

    Only the noise is drawn by JAX: nobody writes a second threefry to check the first.
    """
    params, mean, square = np.zeros(2), np.zeros(2), np.zeros(2)
    key_data, losses = initial_state()["key_data"], []
    for count, ids in enumerate(orders, 1):
        key_data, sample_key = split_key(key_data)
        drawn = jax.random.normal(sample_key, (len(ids),), jnp.float32)
        noise = 0.01 * np.asarray(drawn, np.float64)
        rows = np.stack([np.array(ids) / 10, np.ones(len(ids))])  # shape (2, records): x and 1
        residual = params @ rows - (2 * rows[0] - 1 + noise)
        losses.append(float(np.mean(residual**2)))
        gradient = 2 * rows @ residual / len(ids)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        spread = np.sqrt(square / (1 - 0.999**count)) + 1e-8
        params = params - 0.05 * mean / (1 - 0.9**count) / spread
    return losses


np.testing.assert_allclose(all_losses, losses_by_hand(all_orders), rtol=1e-4, atol=1e-6)

# Two epochs: every ID twice. And the position is a count of records, not of steps.
assert sorted(itertools.chain(*all_orders)) == sorted([*range(COUNT), *range(COUNT)])
position = json.loads(unpack_bytes(payload["reader"]))["last_seen_indices"]["0"]
assert position + 1 == sum(len(ids) for ids in first_orders)

# %% [markdown]
# ### A position without an identity
#
# Given: read it, and run it as it is.

# %% A position without an identity id="dataset-api" role="build"
# cell: dataset-api
class EditedSource(TutorialSource):
    """One label is another one; the inherited `repr` says that nothing has changed."""

    def __getitem__(self, index):
        record = super().__getitem__(index)
        return record | {"y": np.float32(0)} if record["id"] == 3 else record


class ReversedSource(TutorialSource):
    """The records from last to first, under the same `repr`."""

    def __getitem__(self, index):
        return super().__getitem__(self.count - 1 - index)


def make_dataset_iterator(seed=SEED, batch_size=BATCH_SIZE, source=None):
    """The same reader through Grain's Dataset API; its position is `{"next_index": records}`."""
    source = TutorialSource() if source is None else source
    records = grain.MapDataset.source(source).shuffle(seed=seed).repeat(2)
    # Batched after to_iter_dataset. Batched before it, the position would count batches.
    return iter(records.to_iter_dataset().batch(batch_size))


dataset_iterator = make_dataset_iterator()
for ids in first_orders:
    assert next(dataset_iterator)["id"].tolist() == ids
saved_dataset = {"position": dataset_iterator.get_state(), "contract": contract}


def answer_of(function, *arguments):
    """The name of the exception that a call raises, or "accepted"."""
    try:
        function(*arguments)
    except ValueError:
        return "ValueError"  # also for a class of one's own made from it
    except Exception as error:
        return type(error).__name__
    return "accepted"


def attempt_seek(seek, seed=SEED, source=None):
    """What `seek` answers for a fresh Dataset iterator, and where it leaves that iterator."""
    fresh = make_dataset_iterator(seed, source=source)
    answer = answer_of(seek, fresh, saved_dataset, data_contract(seed, source=source))
    records = fresh.get_state()["next_index"]
    return {"answer": answer, "records": records, "next_ids": next(fresh)["id"].tolist()}

# %% [markdown]
# ### A torn save
#
# Given: read it, and run it as it is.

# %% A torn save id="torn-save" role="build"
# cell: torn-save
# The contract is right and both halves are whole, but they are from two different boundaries.
torn_path = Path(tempfile.mkdtemp(dir=root)) / "torn"
lagging_iterator = iter(make_loader())
next(lagging_iterator)
save_boundary(torn_path, payload | {"reader": pack_bytes(lagging_iterator.get_state())})

# What a reader of another batch size delivers at the saved position.
other_contract = data_contract(batch_size=OTHER_BATCH_SIZE)
other_ids = peek_ids(unpack_bytes(payload["reader"]), other_contract)


def attempt_resume(resume, path, batch_size, promised):
    """What `resume` gives: an exception's name, or the restored step and the next two batches."""
    try:
        state, reader = resume(path, batch_size, promised)
    except ValueError:
        return {"answer": "ValueError"}
    except Exception as error:
        return {"answer": type(error).__name__}
    next_ids = [batch["id"].tolist() for batch in itertools.islice(reader, 2)]
    return {"answer": "accepted", "step": int(state["step"]), "next_ids": next_ids}

# %% [markdown]
# ### Experiment: The reader begins again
#
# **Predict before you run.** The state after update 2 is restored, but the reader begins again. What gives the fault away?
#
# - **A** The IDs of the next batch, held against those that were due
# - **B** The loss: it jumps up, because the data do not fit the state
# - **C** An exception: the reader refuses a state that is ahead of it

# %% The reader begins again id="reader-restarted" role="experiment"
# cell: reader-restarted
_, restarted_losses, restarted_orders = consume(restored, iter(make_loader()), 1)
assert restarted_orders[0] == all_orders[0]
print("Reader restarted:", restarted_orders[0], "loss", restarted_losses[0])

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A** (right): They are those of the very first batch. The loss is a plausible number for a plausible batch, and nobody knows by heart what it should have been.
# - **B**: Every record fits every state. Other records have another loss, in either direction, and here it is the pleasant one.
# - **C**: State and reader do not know of each other. What ties them together is that they were saved at one boundary, and the comparison you make.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# The IDs of the very first batch, and a loss far below the 0.5496 that is due: -63 %. No exception, and no warning.
#
# State and reader are both valid, but they belong to different boundaries. The loss is that of other records than those that were due. It may come out higher or lower; here it is lower, and looks like progress. Two batches are now used twice, and the count of completed updates says nothing about it. The IDs say it at once.
#
# </details>

# %% [markdown]
# ### Experiment: Only the reader is restored
#
# **Predict before you run.** Now the reader is restored, and the state is a fresh one. What does a check of the next IDs report?
#
# - **A** Right IDs in this batch and in all that follow
# - **B** Wrong IDs, since the reader follows the step, which is 0
# - **C** Right IDs in the first batch, wrong ones later

# %% Only the reader is restored id="reader-restored" role="experiment"
# cell: reader-restored
lone_reader = make_reader(contract, unpack_bytes(payload["reader"]))
_, lone_losses, lone_orders = consume(initial_state(), lone_reader, 1)
assert lone_orders[0] == promised_ids
print("Only reader restored:", lone_orders[0], "loss", lone_losses[0])

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A** (right): The order depends on the reader alone. A check of the IDs cannot see that the model is untrained.
# - **B**: The reader has never heard of the step. That independence is why its position has to be saved by itself.
# - **C**: Once the position is right, the order goes on as it would have. Nothing in the model can divert it.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# The right IDs, `[4, 10, 11, 3]`, with a loss that is 21 % too high.
#
# Right IDs prove a right reader, nothing more: this model has not made a single update. The check of the IDs and the check of the losses answer different questions, and a resume needs both.
#
# </details>

# %% [markdown]
# ### Experiment: Every boundary, each in a fresh process
#
# **Predict before you run.** The run has six batches. What does a fresh process do that restores the boundary after update 6?
#
# - **A** It starts a third epoch, because the reader wraps around
# - **B** It fails: there is no next batch to restore
# - **C** It makes no update and reports the final state

# %% Every boundary, each in a fresh process id="fresh-processes" role="experiment"
# cell: fresh-processes
LONG_BOUNDARY = 7  # of the 20 updates that 40 records give, in batches of 4
CHILD = """
import json, sys, cloudpickle
function, jobs = cloudpickle.load(sys.stdin.buffer)
print(json.dumps([function(*job) for job in jobs]))
"""


def long_contract():
    """The contract of the longer run."""
    return data_contract(batch_size=4, source=TutorialSource(40))


def resume_report(path, make_contract):
    """Restore a boundary, run to the end of the data, and report in plain numbers and text."""
    state, reader = restore_boundary(path, make_contract())
    start = int(state["step"])
    state, losses, orders = consume(state, reader, None)
    return {
        "pid": os.getpid(),
        "start": start,
        "losses": losses,
        "orders": orders,
        "digest": tree_digest(state),
    }


def in_fresh_process(jobs):
    """A `resume_report` of each job, made in one new Python process.

    The process is sent code and paths. It shares no live object with this one.
    """
    finished = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=cloudpickle.dumps((resume_report, jobs)),
        capture_output=True,
        check=False,
        timeout=120,
    )
    if finished.returncode:
        raise RuntimeError(finished.stderr.decode(errors="replace")[-2000:])
    return json.loads(finished.stdout.splitlines()[-1])


long_reader = make_reader(long_contract())
long_state, _, _ = consume(initial_state(), long_reader, LONG_BOUNDARY)
folder = Path(tempfile.mkdtemp(dir=root))
long_path = folder / f"long_step_{LONG_BOUNDARY}"
save_boundary(long_path, pack_boundary(long_state, long_reader, long_contract()))
long_final, long_losses, long_orders = consume(long_state, long_reader, None)

fresh_steps, long_equal = [], 0
if FRESH_PROCESSES:
    walking, walker = initial_state(), iter(make_loader())
    jobs = []  # one list for each process
    for completed in range(len(all_losses) + 1):  # before the first update … after the last
        path = folder / f"completed_step_{completed}"
        save_boundary(path, pack_boundary(walking, walker, contract))
        jobs.append([(path, data_contract)])
        walking, _, _ = consume(walking, walker, 1)
    # Most of a process's time goes into imports and the first update, so the first one takes the
    # longer run along: its shapes are the same, and what was compiled serves both.
    jobs[0].append((long_path, long_contract))
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:  # each needs about 400 MB
        reports = list(pool.map(in_fresh_process, jobs))
    long_report = reports[0].pop()
    for completed, (report,) in enumerate(reports):
        assert report["pid"] != os.getpid()
        assert report["start"] == completed
        assert report["orders"] == all_orders[completed:]
        assert report["losses"] == all_losses[completed:]
        assert report["digest"] == tree_digest(expected_state)
        fresh_steps.append(completed)
    assert len({report["pid"] for (report,) in reports}) == len(reports)
    assert long_report["orders"] == long_orders
    assert long_report["digest"] == tree_digest(long_final)
    pairs = zip(long_report["losses"], long_losses, strict=True)
    long_equal = sum(found == wanted for found, wanted in pairs)
    assert long_equal == len(long_losses)
print("Fresh processes, bit-equal from steps:", fresh_steps)
print("Longer run, bit-equal resumed updates:", long_equal)

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: The sampler was told two epochs. The position after the last record is a position like any other, and it was saved.
# - **B**: Restoring moves a position; it reads no batch. Only asking for the next one would end the iteration.
# - **C** (right): The end is a boundary too. A resume script that is started once too often has to do nothing, and to do it without an error.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# All seven boundaries, 0 to 6, and 13 of the 13 updates of the longer run. The cell takes several seconds: seven processes import JAX, Grain and Orbax anew. With `FRESH_PROCESSES = False` it does everything else and leaves the processes out.
#
# A restore in the process that saved can lean on what is still in memory. Here only a folder crosses the border, and IDs, losses and the digest of the final state agree without tolerance. The two ends matter: after step 0 the saved position lies before the first record, and after step 6 there is nothing left, which has to mean zero updates and not another epoch. The longer run crosses from its first epoch into its second while it is being resumed.
#
# </details>

# %% [markdown]
# ### Experiment: Sixteen partial restores
#
# **Predict before you run.** Four parts can be kept or lost, which makes 15 faulty restores. How many of them does a check of the next IDs find?
#
# - **A** All 15: every fault shows in the data sooner or later
# - **B** 4: one for each part, lost by itself
# - **C** 8: the cursor lost, each of the others kept or not

# %% Sixteen partial restores id="sixteen" role="experiment"
# cell: sixteen
PARTS = ("model", "moments", "key", "cursor")
LEAVES = {"model": "params", "moments": "optimizer", "key": "key_data"}
long_payload = read_boundary(long_path)


def percent_off(losses, wanted):
    """How far each loss is from the wanted one, in percent of it."""
    return [100 * (loss / right - 1) for loss, right in zip(losses, wanted, strict=True)]


def resume_without(lost):
    """Resume the longer run with the parts in `lost` as they are at the start of a run."""
    state, fresh = dict(long_payload["training"]), initial_state()
    for part in lost:
        if part in LEAVES:
            state[LEAVES[part]] = fresh[LEAVES[part]]
    place = None if "cursor" in lost else unpack_bytes(long_payload["reader"])
    _, losses, orders = consume(state, make_reader(long_contract(), place), len(long_losses))
    return {
        "right_ids": orders[0] == long_orders[0],
        "losses": losses,
        "off": percent_off(losses, long_losses),
        "same_bits": [loss == right for loss, right in zip(losses, long_losses, strict=True)],
    }


subsets = [lost for size in range(5) for lost in itertools.combinations(PARTS, size)]
table = {lost: resume_without(lost) for lost in subsets}

assert all(table[()]["same_bits"])
for lost, row in table.items():
    kept_moments = tuple(part for part in lost if part != "moments")
    assert row["losses"][0] == table[kept_moments]["losses"][0]  # Adam moves after the loss
    assert row["right_ids"] or "cursor" in lost

faults = [row for lost, row in table.items() if lost]
found_by = {
    "next IDs": sum(not row["right_ids"] for row in faults),
    "first loss within 10 %": sum(abs(row["off"][0]) > 10 for row in faults),
    "first loss": sum(not row["same_bits"][0] for row in faults),
    "two losses": sum(not all(row["same_bits"][:2]) for row in faults),
}
print("Faults found of 15:", ", ".join(f"{check} {count}" for check, count in found_by.items()))

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: IDs come from the reader. A model, a key or a moment that is lost changes no ID, at no time.
# - **B**: Only one part moves the IDs. But it can be lost alone or together with any of the others.
# - **C** (right): Three other parts give two to the third power, eight, combinations with a lost cursor. The other seven have right IDs.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# All sixteen restores run to the end without an exception. Of the 15 faulty ones, the next IDs find those without the cursor. The first loss finds more of them, and more when its bits are compared than within 10 %; the bits of two losses find all.
#
# No single number stands for a right restore. IDs see the cursor and only the cursor. A tolerance lets faults through, and even the bits of the first loss do not see every part: the figure shows which. And a loss that differs does not say why: several faults have nearly the same first loss. Compare the restored parts themselves with what was saved, and keep the next IDs and two losses as the test that looks from outside.
#
# </details>

# %% [markdown]
# ### Figure: Sixteen restores of one boundary, update by update
#
# **Predict before you run.** A run is restored after update 7 without one of its four parts: model, moments, key, cursor. Which missing part cannot be seen in the first resumed loss, not even in its last bit?
#
# - **A** The key: the noise it draws is only a hundredth
# - **B** The moments: they are read after the loss is computed
# - **C** The cursor: every batch is drawn from the same records

# %% What each omission looks like id="sixteen-figure" role="figure"
# cell: sixteen-figure
import matplotlib.pyplot as plt

# Shades: 0 the same bits, 1 within 10 %, 2 further off. Rows: restores; columns: updates.
shades = np.array([np.where(row["same_bits"], 0, np.where(np.abs(row["off"]) <= 10, 1, 2)) for row in table.values()])
figure, axes = plt.subplots(figsize=(8.8, 5.6), layout="constrained", facecolor="white")
axes.imshow(shades, cmap="Greys", vmin=0, vmax=2.6, aspect="auto")
updates = range(LONG_BOUNDARY + 1, LONG_BOUNDARY + 1 + len(long_losses))
axes.set_xticks(range(len(long_losses)), updates)
axes.set_yticks(range(len(table)), [" + ".join(lost) or "nothing" for lost in table])
axes.set(xlabel="update", ylabel="lost in the restore")
for number, row in enumerate(table.values()):
    axes.axhline(number - 0.5, color="black", linewidth=0.4)
    ids = "right IDs" if row["right_ids"] else "wrong IDs"
    note = f"{ids}, first loss {row['off'][0]:+.1f} %"
    axes.text(len(long_losses) - 0.3, number, note, va="center", fontsize=8)
axes.set_title("white: the same bits, light: within 10 %, dark: further off", fontsize=10)

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: Small is not nothing. Other noise gives other targets, and the loss differs in its third digit here. A tolerance hides that; the bits do not.
# - **B** (right): The loss of an update depends on parameters, batch and noise. Adam's memory acts on what happens afterwards, so the second loss is the first that can show it.
# - **C**: The batches come from the same source, but they are other records. That moves the loss a lot, and not always upwards.
#
# </details>
#
# <details>
# <summary>How to read the figure</summary>
#
# Each row is one restore of the boundary after update 7, with the named parts set back to the beginning; each column is one of the 13 resumed updates. White means that the loss has the same bits as in the uninterrupted run, light that it is within 10 % of it, dark that it is further off. Read the first column alone, as a check of the first loss would: two faults are light there, and one is white. Then read the notes on the right. The rows with wrong IDs are exactly those without the cursor, and where the model is kept their first loss is, in this run, lower than the right one. In the code a cell is `row["same_bits"][k]` and `row["off"][k]` of one entry of `table`. The shades belong to this small regression. How much a lost part costs depends on the run. Whether the first loss can show it depends on one thing: is the part read before the loss is computed, or after?
#
# </details>

# %% [markdown]
# ### Experiment: Five changed inputs, three gates
#
# **Predict before you run.** A position is set on a reader whose source has one edited label and the same `repr`. Who notices?
#
# - **A** Neither of Grain's two interfaces, and no check of IDs
# - **B** The `DataLoader`: it validates the source that it is given
# - **C** A check of the next IDs: the edited record has another

# %% Five changed inputs, three gates id="changed-inputs" role="experiment"
# cell: changed-inputs
changed_inputs = {
    "seed": {"seed": OTHER_SEED},
    "longer": {"source": TutorialSource(COUNT + 8)},
    "edited": {"source": EditedSource()},
    "reversed": {"source": ReversedSource()},
    "batch size": {"batch_size": OTHER_BATCH_SIZE},
}
answers = {"DataLoader": {}, "Dataset API": {}, "contract": {}}
silent_ids = {}  # what comes next where nobody objects
for name, change in changed_inputs.items():
    loader_iterator = iter(loader_over(**{"source": TutorialSource()} | change))
    moved_iterator = make_dataset_iterator(**change)
    answers["DataLoader"][name] = answer_of(loader_iterator.set_state, unpack_bytes(payload["reader"]))
    answers["Dataset API"][name] = answer_of(moved_iterator.set_state, saved_dataset["position"])
    answers["contract"][name] = answer_of(validate_contract, payload["contract"], data_contract(**change))
    silent_ids[name] = next(moved_iterator)["id"].tolist()
refused = {gate: sum(answer != "accepted" for answer in given.values()) for gate, given in answers.items()}
assert refused["contract"] == len(changed_inputs)
assert answer_of(validate_contract, payload["contract"], data_contract()) == "accepted"
print("Refused of 5 changed inputs:", ", ".join(f"{gate} {n}" for gate, n in refused.items()))

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A** (right): Neither reads the data. Whether the contents are still the same can be known only from a digest, or from a version that someone guarantees.
# - **B**: It validates the text that the source prints about itself. This source tells an old story.
# - **C**: The label was edited, not the order. Every ID stands where it should.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# The `DataLoader` accepts `['edited', 'reversed', 'batch size']`, the Dataset API accepts all five, the contract none. What comes next where nobody objects: `{'seed': [4, 3, 10, 9], 'longer': [4, 10, 12, 3], 'edited': [4, 10, 11, 3], 'reversed': [7, 1, 0, 8], 'batch size': [4, 10, 11]}`.
#
# The `DataLoader` compares two texts, the `repr` of its sampler and of its source. The seed and the number of records stand in them; the contents of a record and the batch size do not. The Dataset API compares nothing: its position is a number. Look at the IDs for the edited source and for batch size three: each of them is a right ID at a right place. IDs alone find neither fault, and that is why the contract holds a digest of the data and the batch size.
#
# </details>

# %% [markdown]
# ### Experiment: Another program for the same update
#
# **Predict before you run.** The whole run is made again with `jax.jit(step)` instead of `step`: same state, same batches, same key. Are the losses bit-equal?
#
# - **A** Yes: compiling changes the speed of a function, not its result
# - **B** Not necessarily; they agree to about seven digits
# - **C** No: a compiled function draws other noise from the same key

# %% Another program for the same update id="compiled" role="experiment"
# cell: compiled
_, compiled_losses, _ = consume(initial_state(), iter(make_loader()), None, jax.jit(step))
compiled_off = max(map(abs, percent_off(compiled_losses, all_losses)))
assert compiled_off < 0.1

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: It keeps the mathematics. Rounding depends on the order of operations, and that is what a compiler may change.
# - **B** (right): float32 has about seven digits. Whether the last bit moves depends on the machine and the version, so no assertion here relies on it.
# - **C**: The random bits of a threefry key follow from its algorithm, compiled or not. What is left is rounding.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# No printed line. In the recorded run, the losses of the compiled update are up to 1e-05 % away from those of the update as written: the last digit of a float32.
#
# State and data were right, and still the bits are not the same, because the compiler may fuse and reorder arithmetic. Bit-for-bit means the same program in the same versions on the same kind of device. That is why the contract names the update. A run that changes it on purpose needs a declared tolerance, and a look at which of the fifteen faults this tolerance would let through.
#
# </details>

# %% [markdown]
# ### Make it yours: stop after one batch
#
# `make-it-yours` · 2 points
#
# Interrupt the run earlier. Make one update, save that boundary in a folder of its own (`early_path`), restore it into objects that did not exist before (`early_restored`, `early_reader`), and run to the end of the data: `early_final`, `early_losses`, `early_orders`. Then compare with the uninterrupted run, bit for bit: `all_orders` and `all_losses` hold all of it, `expected_state` is where it ended. Before you run, write down how many batches must be left. Your code is also run with other seeds, record counts and batch sizes.
#
# What it trains:
#
# - Save model, optimizer, key and reader position at one boundary, and restore all of them into fresh objects
# - Prove a resume in a fresh process, at every boundary, bit for bit
#
# How to go about it:
#
# 1. Take one batch with `consume`, and save before anything else touches the iterator.
# 2. `pack_boundary` takes state, iterator and contract; `save_boundary` writes what it returns.
# 3. Restore from the folder. Nothing that you go on with may be an object that you saved from.
# 4. Let `consume` take whatever is left. A count that you work out yourself would hide a position that is off by one.
# 5. Compare IDs, losses and final state with the uninterrupted run. Which slice of it is yours?
#
# <details>
# <summary>Hint 1</summary>
#
# Everything you need stands in the blocks "One boundary" and "Stop, resume, compare": only the number of batches and the folder are other ones. Look at what `restore_boundary` returns, and at what `None` means to `consume`.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `restore_boundary(early_path, data_contract())` gives a state and a reader that is already at its place; do not make another reader. The uninterrupted run without its first batch is `all_orders[1:]`.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% Make it yours: stop after one batch id="make-it-yours" role="exercise"
# cell: make-it-yours
early_path = Path(tempfile.mkdtemp(dir=root)) / "after_one_batch"  # new when the cell runs again
early_iterator = iter(make_loader())
early_state = ...  # TODO: after one batch
...  # TODO: save this boundary at `early_path`
...  # TODO: restore it as `early_restored` and `early_reader`, objects of their own
...  # TODO: run to the end of the data: `early_final`, `early_losses`, `early_orders`

# %% [markdown]
# ### Transfer: a position that knows its data
#
# `refuse-other-data` · 2 points
#
# Grain's Dataset API sets any position on any iterator. Write `seek(iterator, saved, contract)`, which does not: it moves the fresh `iterator` to `saved["position"]` only if `saved["contract"]` is the `contract` of the data behind it. For another seed (`OTHER_SEED`), and for data with another digest (`EditedSource`), it raises `ValueError` before anything is consumed: the iterator then still stands at its first record. Say in your evidence why comparing `repr` would not have been enough.
#
# What it trains:
#
# - Bind a position to its data, order and batch size, and refuse a changed one before anything is consumed
# - Check the IDs of the next batch before the first update, instead of deriving a position from a step count
#
# How to go about it:
#
# 1. Decide first what has to be equal. Both contracts are plain dictionaries.
# 2. Decide next in which order you compare and move. A refusal must leave no trace.
# 3. Raise an exception that names what changed. A return value of False is forgotten by the first caller who is in a hurry.
# 4. Try it with `attempt_seek(seek)`, with `attempt_seek(seek, OTHER_SEED)` and with `attempt_seek(seek, SEED, EditedSource())`, and read where each left its iterator.
#
# <details>
# <summary>Hint 1</summary>
#
# A contract that is compared in part is a contract with holes: ask which field alone tells the edited source from the original. And ask where the iterator stands when your function gives up.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Two dictionaries compare with `!=`, field by field if you want to name what changed. Only the last line of the function may call `iterator.set_state(...)`.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% Transfer: a position that knows its data id="refuse-other-data" role="exercise"
# cell: refuse-other-data
def seek(iterator, saved, contract):
    """Move a fresh Dataset API iterator to a saved position, or refuse.

    `saved` holds "position", for `iterator.set_state`, and "contract", a dictionary as
    `data_contract` makes it. `contract` is that of the data behind `iterator`. If the two
    contracts differ, raise ValueError and leave the iterator where it is.
    """
    ...  # TODO: refuse, or move

# %% [markdown]
# ### Challenge: refuse the batch size, then check the next IDs
#
# `refuse-batch-size` · 3 points
#
# Write `checked_resume(path, batch_size, promised)`. It returns the state and the reader of a saved boundary, and it refuses with `ValueError` for two reasons: the boundary was saved with another batch size, or the next batch would not hold the IDs `promised`. Two cases show why one reason is not enough. A reader of `OTHER_BATCH_SIZE` at the saved position delivers `other_ids`; if these were promised, the IDs agree and only the contract can refuse. And the checkpoint at `torn_path` has the right contract, but its reader lags behind its state; there only the IDs can refuse. The reader that you return has delivered nothing yet.
#
# What it trains:
#
# - Check the IDs of the next batch before the first update, instead of deriving a position from a step count
# - Bind a position to its data, order and batch size, and refuse a changed one before anything is consumed
# - Save model, optimizer, key and reader position at one boundary, and restore all of them into fresh objects
#
# How to go about it:
#
# 1. Make the contract of the run that wants to resume: this program's, with the batch size that was asked for.
# 2. Let a restore that compares contracts do the first refusal. It must also work if the promised IDs would fit.
# 3. Find out the next IDs without taking them from the reader that you return.
# 4. Compare all of them, and the number of them, with what was promised.
# 5. Try `attempt_resume(checked_resume, checkpoint_path, BATCH_SIZE, promised_ids)`, then the two refusals. `next_ids` shows the two batches that your reader delivers.
#
# <details>
# <summary>Hint 1</summary>
#
# `data_contract` takes a batch size, and a reader tells its position without moving. Looking at a batch consumes it, so someone else has to look.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `restore_boundary(path, expected)` refuses and restores in one call. `peek_ids(position, expected)` reads with an iterator of its own: give it the position of the reader that you are about to return.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% Challenge: refuse the batch size, then check the IDs id="refuse-batch-size" role="exercise"
# cell: refuse-batch-size
def checked_resume(path, batch_size, promised):
    """(state, reader) of a saved boundary, for a run that was promised the IDs of its next batch.

    Raise ValueError if the boundary was saved with another batch size, or if the next batch would
    not hold the IDs `promised`. The reader that is returned has delivered nothing yet.
    """
    ...  # TODO: two reasons to refuse, and nothing consumed

# %% [markdown]
# ### Done
#
# Given. Its line says that the run has reached its end. Whether your answers are right, only the check says.

# %% Done id="done" role="build"
# cell: done
print("PASS: recovery-04")
