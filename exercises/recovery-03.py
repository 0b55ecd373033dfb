# %% [markdown]
# # Save model, optimizer, and random state
#
# > Generated from `phases/06-recovery/03-save-model-optimizer-and-random-state/` by `make build` (`python -m publish build`). This is **your copy: edit the exercise cells**. Once you have changed it, no build overwrites it; `make reset LESSON=recovery-03` (`python -m environment publish reset recovery-03`) brings the original back and keeps yours in `backups/`.
#
# **What has to be in a checkpoint so that the next update is the one that would have come anyway?**
#
# lesson: recovery-03
#
# 100 minutes · CPU · comes after: recovery-02 (Load, batch, and checkpoint order with Grain)
#
# Afterwards you can:
#
# - List everything that the next update reads, and save it as one tree with Orbax
# - Restore into a template without values, in a fresh process, and compare the next update bit for bit
# - Tell what losing Adam's moments, the key, the cursor or the counter looks like from outside
# - Write a contract that refuses a checkpoint of another meaning and only notes a patch version
# - Say what a finished local save does not promise
#
# How to work:
#
# 1. Read the lesson beside this: `phases/06-recovery/03-save-model-optimizer-and-random-state/recovery-03.ipynb`.
# 2. Run from the top. Answer each question before you run the cell after it.
# 3. Write in the exercise cells only. The other cells are given: the check puts the lesson's own in their place. Leave the first line of each cell (`# cell: …`) where it is: by it the check finds the cell.
# 4. Before you check, restart and run all cells, and save: names that are left from an earlier run hide mistakes.
# 5. Check, in a terminal in the course's folder: `make check LESSON=recovery-03`, or without make `python -m environment graders check recovery-03`. That looks at the notebook; if you work in the script, add `FILE=exercises/recovery-03.py` behind the first, `exercises/recovery-03.py` behind the second.
# 6. Keep your evidence in `exercises/recovery-03-evidence.md`.

# %% [markdown]
# ### Parameters
#
# Given. The check also runs your code with other values than these: write their names in it, never the numbers.

# %% Parameters id="parameters" role="parameters"
# cell: parameters
SEED = 7
LEARNING_RATE = 0.05
NOISE = 0.01  # standard deviation of what is added to the targets of the short run
SAVE_AT = 3  # updates that the short run has completed when it is saved
INTERRUPT_AT = 7  # updates that the long run has completed when it is saved …
LONG_UPDATES = 20  # … and how many the uninterrupted long run makes
FRESH_PROCESS = True  # two child processes cost seconds; runs that do not need them say False

# %% [markdown]
# ### Everything the next update reads
#
# Given: read it, and run it as it is.

# %% Everything the next update reads id="state" role="build"
# cell: state
import hashlib
import importlib.metadata
import inspect
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# JAX reads its flags when it is imported, so this line has to stand before the import.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
import orbax.checkpoint as ocp

KEY_IMPL = "threefry2x32"
# Optax's defaults, written out: a default that nobody names can change without anybody noticing.
ADAM = {"b1": 0.9, "b2": 0.999, "eps": 1e-8}
tx = optax.adam(LEARNING_RATE, **ADAM)


def initial_state():
    """The state before update 1: a dict of four parts, every leaf an array.

    params: weight and bias, float32 scalars. optimizer: Adam's count and two moments for each
    parameter. key_data: the key's two uint32 words. step: int32, completed updates.
    """
    params = {"weight": jnp.array(0.0, jnp.float32), "bias": jnp.array(0.0, jnp.float32)}
    return {
        "params": params,
        "optimizer": tx.init(params),
        "key_data": jax.random.key_data(jax.random.key(SEED, impl=KEY_IMPL)),
        "step": jnp.array(0, jnp.int32),
    }

# %% [markdown]
# ### One update
#
# Given: read it, and run it as it is.

# %% One update id="update" role="build"
# cell: update
def step(state, x, y):
    """One update on all rows. Reads the state, the rows, and constants that the contract names.

    x, y: float32, shape (rows,). Returns (next state, loss); the loss is that of the parameters
    before the update.
    """
    key = jax.random.wrap_key_data(state["key_data"], impl=KEY_IMPL)
    next_key, sample_key = jax.random.split(key)
    targets = y + NOISE * jax.random.normal(sample_key, y.shape, y.dtype)

    def mean_squared_error(params):
        return jnp.mean((params["weight"] * x + params["bias"] - targets) ** 2)

    loss, gradient = jax.value_and_grad(mean_squared_error)(state["params"])
    updates, optimizer = tx.update(gradient, state["optimizer"], state["params"])
    next_state = {
        "params": optax.apply_updates(state["params"], updates),
        "optimizer": optimizer,
        "key_data": jax.random.key_data(next_key),
        "step": state["step"] + 1,
    }
    return next_state, loss

# %% [markdown]
# ### Compare bit for bit
#
# Given: read it, and run it as it is.

# %% Compare bit for bit id="bits" role="build"
# cell: bits
def named_leaves(tree):
    """The leaves of a tree as NumPy arrays, each under the path that leads to it."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def leaf_specs(tree):
    """Shape and dtype of every leaf, each under its path; a template has them too."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): (leaf.shape, str(leaf.dtype))
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def same_tree(left, right):
    """Raise AssertionError unless two trees have one structure and the same bits in every leaf."""
    if jax.tree.structure(left) != jax.tree.structure(right):
        raise AssertionError("the trees have different structures")
    there = named_leaves(right)
    for name, leaf in named_leaves(left).items():
        other = there[name]
        if leaf.dtype != other.dtype or leaf.shape != other.shape:
            raise AssertionError(f"{name}: another dtype or shape")
        # Bytes, not values: == takes 0.0 for -0.0 and never takes NaN for NaN.
        if leaf.tobytes() != other.tobytes():
            raise AssertionError(f"{name}: the bits differ")


def agree(left, right):
    """Whether same_tree finds nothing to object to."""
    try:
        same_tree(left, right)
    except AssertionError:
        return False
    return True

# %% [markdown]
# ### The contract
#
# Given: read it, and run it as it is.

# %% The contract id="contract" role="build"
# cell: contract
def pack_bytes(raw, capacity=4096):
    """Bytes as two arrays of fixed shape, so that they can stand in a tree of arrays."""
    if len(raw) > capacity:
        raise ValueError(f"{len(raw)} bytes do not fit into {capacity}; give a larger capacity")
    buffer = np.zeros(capacity, np.uint8)
    buffer[: len(raw)] = np.frombuffer(raw, np.uint8)
    return {"buffer": buffer, "length": np.array(len(raw), np.int32)}


def unpack_bytes(packed):
    """The bytes that pack_bytes was given."""
    buffer, length = np.asarray(packed["buffer"], np.uint8), int(packed["length"])
    if not 0 <= length <= buffer.size:
        raise ValueError(f"a length of {length} in a buffer of {buffer.size} bytes")
    return buffer[:length].tobytes()


def package_versions():
    """The versions of the distributions that take part in an update or in saving it."""
    names = ("jax", "jaxlib", "numpy", "optax", "orbax-checkpoint")
    return {name: importlib.metadata.version(name) for name in names}


def data_digest(*arrays):
    """SHA-256 over dtype, shape and bytes of each array in turn."""
    digest = hashlib.sha256()
    for array in map(np.asarray, arrays):
        for part in (str(array.dtype).encode(), str(array.shape).encode(), array.tobytes()):
            digest.update(part)
    return digest.hexdigest()


def make_contract(x, y, **terms):
    """What the arrays of a checkpoint mean: the constants an update reads that are no leaf.

    The text of the program is not among them. terms: what another run than the short one has instead, or besides.
    """
    return {
        "schema": 1,
        "optimizer": {"name": "adam", **ADAM},
        "learning_rate": LEARNING_RATE,
        "noise": NOISE,
        "key_impl": KEY_IMPL,
        "threefry_partitionable": bool(jax.config.jax_threefry_partitionable),
        "sampler": "all rows in every update",
        "data_sha256": data_digest(x, y),
        "versions": package_versions(),
        **terms,
    }


def encode_contract(contract):
    """The contract as arrays: JSON with sorted keys, so that equal contracts have equal bytes."""
    return pack_bytes(json.dumps(contract, sort_keys=True).encode())


def validate_contract(saved, expected):
    """Compare a checkpoint's packed contract with the contract of this program.

    Returns notes to log: one for each package that differs in its patch version alone.
    Raises ValueError, naming every field, if anything else differs.
    """
    found = json.loads(unpack_bytes(saved))
    notes, changed = [], []
    for name in sorted((found.keys() | expected.keys()) - {"versions"}):
        if name not in found or name not in expected or found[name] != expected[name]:
            changed.append(f"{name}: saved {found.get(name)!r}, now {expected.get(name)!r}")
    before, now = found.get("versions", {}), expected.get("versions", {})
    for package in sorted(before.keys() | now.keys()):
        old, new = before.get(package, "absent"), now.get(package, "absent")
        told = f"{package}: saved with {old}, now {new}"
        # 0.9.2 and 0.9.3 agree in the first two numbers: only the patch version is another.
        if old.split(".")[:2] != new.split(".")[:2]:
            changed.append(told)
        elif old != new:
            notes.append(told)
    if changed:
        raise ValueError("the checkpoint was made under another contract: " + "; ".join(changed))
    return notes

# %% [markdown]
# ### Write and read a checkpoint
#
# Given: read it, and run it as it is.

# %% Write and read a checkpoint id="checkpoint" role="build"
# cell: checkpoint
def template_of(tree):
    """Shape, dtype and placement of every leaf, without values that could pass for read ones."""
    return jax.tree.map(ocp.utils.to_shape_dtype_struct, tree)


def write_checkpoint(path, payload):
    """Save a tree of arrays into the new folder `path`, and return when it is there."""
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, payload)
        checkpointer.wait_until_finished()  # save() itself returns while a thread still writes


def read_checkpoint(path, training_template):
    """The payload saved at `path`: {"training": state, "contract": packed contract}."""
    target = {"training": training_template, "contract": template_of(encode_contract({}))}
    with ocp.StandardCheckpointer() as checkpointer:
        return checkpointer.restore(path, target=target)


def stored_specs(path):
    """The leaf_specs of the saved training state, from Orbax's metadata; reads no array."""
    with ocp.StandardCheckpointer() as checkpointer:
        return leaf_specs(checkpointer.metadata(path).item_metadata.tree["training"])

# %% [markdown]
# ### Save after three updates, restore
#
# Given: read it, and run it as it is.

# %% Save after three updates, restore id="save" role="build"
# cell: save
workspace = tempfile.TemporaryDirectory(prefix="recovery-03-")
root = Path(workspace.name).resolve()  # Orbax refuses a relative path


def new_path(name):
    """A path that is not taken. Orbax never overwrites, and a notebook's cells are run again."""
    return Path(tempfile.mkdtemp(dir=root)) / name


x = jnp.array([0.0, 0.5, 1.0], jnp.float32)
y = 2 * x - 1
contract = make_contract(x, y)
template = template_of(initial_state())

state = initial_state()
for _ in range(SAVE_AT):
    state, _ = step(state, x, y)

checkpoint_path = root / f"step_{SAVE_AT}"
payload = {"training": state, "contract": encode_contract(contract)}
write_checkpoint(checkpoint_path, payload)

restored = read_checkpoint(checkpoint_path, template)
validate_contract(restored["contract"], contract)
same_tree(state, restored["training"])
print("Restored step:", int(restored["training"]["step"]))
print("Optimizer count:", int(restored["training"]["optimizer"][0].count))

# %% [markdown]
# ### The next update, three times
#
# Given: read it, and run it as it is.

# %% The next update, three times id="replay" role="build"
# cell: replay
expected_next, expected_loss = step(state, x, y)
restored_next, restored_loss = step(restored["training"], x, y)
same_tree(expected_next, restored_next)
same_tree(expected_loss, restored_loss)


def adam_by_hand(training, x, targets):
    """Adam's published formula in NumPy and float64, fed with restored leaves. Returns params."""
    memory = training["optimizer"][0]
    count = int(memory.count) + 1
    x, targets = np.asarray(x, np.float64), np.asarray(targets, np.float64)
    params = {name: float(leaf) for name, leaf in training["params"].items()}
    residual = params["weight"] * x + params["bias"] - targets
    gradient = {"weight": np.mean(2 * residual * x), "bias": np.mean(2 * residual)}
    moved = {}
    for name, value in params.items():
        mean = 0.9 * float(memory.mu[name]) + 0.1 * gradient[name]
        square = 0.999 * float(memory.nu[name]) + 0.001 * gradient[name] ** 2
        corrected = (mean / (1 - 0.9**count)) / (np.sqrt(square / (1 - 0.999**count)) + 1e-8)
        moved[name] = value - LEARNING_RATE * corrected
    return moved


restored_key = jax.random.wrap_key_data(restored["training"]["key_data"], impl=KEY_IMPL)
_, sample_key = jax.random.split(restored_key)
noisy_targets = y + NOISE * jax.random.normal(sample_key, y.shape, y.dtype)
by_hand = adam_by_hand(restored["training"], x, noisy_targets)
# Restored leaves by hand against the leaves in memory by Optax: a restored leaf that is wrong
# would spoil only one side.
oracle_gap = max(abs(by_hand[name] - float(expected_next["params"][name])) for name in by_hand)
assert oracle_gap < 1e-5
both_agree = agree((expected_next, expected_loss), (restored_next, restored_loss))
print("Next update and loss agree, bit for bit:", both_agree)

# %% [markdown]
# ### A longer run, interrupted
#
# Given: read it, and run it as it is.

# %% A longer run, interrupted id="long-run" role="build"
# cell: long-run
LONG_BATCH, LONG_NOISE = 4, 0.04
long_x = np.linspace(-1, 1, 24, dtype=np.float32)
long_y = 2 * long_x - 1
long_tx = optax.scale_by_adam(**ADAM)  # Adam without a rate: the loop below owns the rate


def long_state():
    """As initial_state, and one leaf more: cursor, int32, the number of batches taken."""
    start = initial_state()
    start["optimizer"] = long_tx.init(start["params"])
    return {**start, "cursor": jnp.array(0, jnp.int32)}


def batch_rows(cursor):
    """Row numbers of batch `cursor`: int64, shape (LONG_BATCH,). Every epoch has its own order."""
    epoch, place = divmod(cursor, len(long_x) // LONG_BATCH)
    order = np.random.default_rng([SEED, epoch]).permutation(len(long_x))
    return order[place * LONG_BATCH : (place + 1) * LONG_BATCH]


def constant_rate(completed):
    """The rate of an update after so many completed ones."""
    return LEARNING_RATE


def warm_up_rate(completed):
    """The same after ten updates; before that, a part of it that grows by a tenth."""
    return LEARNING_RATE * min(1.0, (completed + 1) / 10)


@jax.jit
def long_update(state, x, y, rate):
    """One update on one batch, compiled. Returns (next state, loss before the update)."""
    key = jax.random.wrap_key_data(state["key_data"], impl=KEY_IMPL)
    next_key, sample_key = jax.random.split(key)
    targets = y + LONG_NOISE * jax.random.normal(sample_key, y.shape, y.dtype)

    def mean_squared_error(params):
        return jnp.mean((params["weight"] * x + params["bias"] - targets) ** 2)

    loss, gradient = jax.value_and_grad(mean_squared_error)(state["params"])
    direction, optimizer = long_tx.update(gradient, state["optimizer"])
    next_state = {
        "params": jax.tree.map(lambda p, d: p - rate * d, state["params"], direction),
        "optimizer": optimizer,
        "key_data": jax.random.key_data(next_key),
        "step": state["step"] + 1,
        "cursor": state["cursor"] + 1,
    }
    return next_state, loss


def continue_run(state, updates, rate_of):
    """Make so many updates. Returns (state, losses: float32, shape (updates,))."""
    losses = np.zeros(updates, np.float32)
    # JAX compiles anew for arrays that are bound to a device, as restored ones are. Binding all
    # of them here lets a fresh and a restored state run the same compiled program.
    state = jax.device_put(state, jax.local_devices()[0])
    for number in range(updates):
        rows = batch_rows(int(state["cursor"]))
        rate = np.float32(rate_of(int(state["step"])))
        state, losses[number] = long_update(state, long_x[rows], long_y[rows], rate)
    return state, losses


def long_contract(x, y, rate_of):
    """The contract of the long run. Its order of rows comes from SEED, so SEED is a term here."""
    sampler = f"batches of {LONG_BATCH}, order default_rng([{SEED}, epoch])"
    return make_contract(x, y, noise=LONG_NOISE, sampler=sampler, rate=rate_of.__name__)


long_template = template_of(long_state())
LEFT = LONG_UPDATES - INTERRUPT_AT
uninterrupted, long_path = {}, {}
for rate_of in (constant_rate, warm_up_rate):
    halfway, _ = continue_run(long_state(), INTERRUPT_AT, rate_of)
    long_path[rate_of] = new_path(f"step_{INTERRUPT_AT}")
    terms = encode_contract(long_contract(long_x, long_y, rate_of))
    write_checkpoint(long_path[rate_of], {"training": halfway, "contract": terms})
    uninterrupted[rate_of] = continue_run(halfway, LEFT, rate_of)

# %% [markdown]
# ### What a restarted program may have changed
#
# Given: read it, and run it as it is.

# %% What a restarted program may have changed id="changes" role="build"
# cell: changes
def with_version(package, version):
    """The contract of a program that runs with another version of one package."""
    return {**contract, "versions": {**contract["versions"], package: version}}


major, minor = contract["versions"]["optax"].split(".")[:2]
patched = with_version("optax", f"{major}.{minor}.99")
other_series = with_version("optax", f"{major}.{int(minor) + 1}.0")


def verdict(expected):
    """What validate_contract says of the saved contract: its notes, or its exception's name."""
    try:
        return validate_contract(payload["contract"], expected)
    except ValueError as error:
        return type(error).__name__


changed_terms = {
    "optimizer": {**contract["optimizer"], "b1": 0.8},
    "learning_rate": 2 * LEARNING_RATE,
    "noise": 2 * NOISE,
    "key_impl": "rbg",
    "threefry_partitionable": not contract["threefry_partitionable"],
    "sampler": "another order",
    "data_sha256": data_digest(x, -y),
}
refused_terms = []
for term, value in changed_terms.items():
    if verdict({**contract, term: value}) == "ValueError":
        refused_terms.append(term)
assert refused_terms == list(changed_terms)
assert verdict(contract) == []
assert len(verdict(patched)) == 1
assert verdict(other_series) == "ValueError"
other_rate = {**contract, "learning_rate": changed_terms["learning_rate"]}
other_data = {**contract, "data_sha256": changed_terms["data_sha256"]}


def with_weight(shape, dtype):
    """The template of a program whose weight has another shape or dtype."""
    weight = jax.ShapeDtypeStruct(shape, dtype, sharding=template["params"]["weight"].sharding)
    return {**template, "params": {**template["params"], "weight": weight}}


half_template = with_weight((), jnp.float16)
reshaped_template = with_weight((1,), jnp.float32)

# Two states that are almost `state`: one bit of the key, the last digits of one moment.
first_word = state["key_data"][0]
flipped = {**state, "key_data": state["key_data"].at[0].set(first_word ^ np.uint32(1))}
memory, *others = state["optimizer"]
moved_mean = {**memory.mu, "weight": memory.mu["weight"] + np.float32(1e-7)}
nudged = {**state, "optimizer": (memory._replace(mu=moved_mean), *others)}

# %% [markdown]
# ### A job that starts from files
#
# Given: read it, and run it as it is.

# %% A job that starts from files id="child-program" role="build"
# cell: child-program
CHILD_START = f'''"""A training job that starts from nothing but files."""
import hashlib, importlib.metadata, json, os, sys
from pathlib import Path
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp

SEED, LEARNING_RATE, NOISE, KEY_IMPL = {SEED!r}, {LEARNING_RATE!r}, {NOISE!r}, {KEY_IMPL!r}
LONG_BATCH, LONG_NOISE, ADAM = {LONG_BATCH!r}, {LONG_NOISE!r}, {ADAM!r}
tx, long_tx = optax.adam(LEARNING_RATE, **ADAM), optax.scale_by_adam(**ADAM)
'''

CHILD_END = """
job = json.loads(Path("job.json").read_text())
data = np.load("data.npz", allow_pickle=False)
x, y = jnp.asarray(data["x"]), jnp.asarray(data["y"])
long_x, long_y = data["long_x"], data["long_y"]

saved = read_checkpoint(job["short"], template_of(initial_state()))
resumed = read_checkpoint(job["long"], template_of(long_state()))
refused = ""
try:
    validate_contract(saved["contract"], make_contract(x, y))
    validate_contract(resumed["contract"], long_contract(long_x, long_y, constant_rate))
except ValueError as error:
    refused = str(error)  # a real job stops here; this one goes on, to show what would come of it
next_state, loss = step(saved["training"], x, y)
end, losses = continue_run(resumed["training"], job["updates"], constant_rate)

seen = {"restored": saved["training"], "next": next_state, "loss": loss}
seen |= {"end": end, "losses": losses}
np.savez("arrays.npz", **named_leaves(seen))
Path("report.json").write_text(json.dumps({"pid": os.getpid(), "refused": refused}))
"""

CHILD_FUNCTIONS = (
    *(initial_state, step, named_leaves, pack_bytes, unpack_bytes, package_versions, data_digest),
    *(make_contract, encode_contract, validate_contract, template_of, read_checkpoint),
    *(long_state, batch_rows, constant_rate, long_update, continue_run, long_contract),
)


def run_child(name, **environment):
    """Run the job in a process of its own, which has ended and was waited for on return.

    The job's text is the source of the functions above, so that no second version can drift.
    Returns its report, with the arrays that it computed under "leaves".
    """
    folder = new_path(name)
    folder.mkdir()
    program = "\n\n".join([CHILD_START, *map(inspect.getsource, CHILD_FUNCTIONS), CHILD_END])
    (folder / "resume.py").write_text(program, encoding="utf-8")
    np.savez(folder / "data.npz", x=x, y=y, long_x=long_x, long_y=long_y)
    job = {"short": str(checkpoint_path), "long": str(long_path[constant_rate]), "updates": LEFT}
    (folder / "job.json").write_text(json.dumps(job))

    command = [sys.executable, "resume.py"]
    settings = {**os.environ, **environment}
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, timeout=50)
    if done.returncode:
        last_words = done.stderr.decode(errors="replace")[-2000:]
        raise RuntimeError(f"the child ended with {done.returncode}: {last_words}")
    with np.load(folder / "arrays.npz", allow_pickle=False) as arrays:
        leaves = dict(arrays)
    return {**json.loads((folder / "report.json").read_text()), "leaves": leaves}

# %% [markdown]
# ### Experiment: Model only
#
# **Predict before you run.** Parameters, key and step are restored; Adam begins anew with `tx.init`. What of the next update is the same as in the uninterrupted run?
#
# - **A** Loss and parameters: Adam's memory fades within a few updates anyway.
# - **B** Nothing: the wrong optimizer changes the loss as well.
# - **C** The loss, but not the parameters after it: only the move differs.

# %% Model only id="model-only" role="experiment"
# cell: model-only
model_only = dict(restored["training"])
model_only["optimizer"] = tx.init(model_only["params"])
model_only_next, model_only_loss = step(model_only, x, y)

assert agree(model_only_loss, expected_loss)  # the loss is taken before Adam has a say
assert not agree(model_only_next["params"], expected_next["params"])
print("Model-only checkpoint gives another Adam update")

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: The factor 0.9 forgets slowly, and at count 1 the bias correction is another one as well. The very next update differs.
# - **B**: The loss is computed from the parameters before they are moved; the optimizer has no part in it.
# - **C** (right): Right: gradient and loss come from what was restored, the move from what was not.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# The loss of the next update is the same to the last bit (`True`), the parameters after it are not: the weight becomes 0.199069544672966 instead of 0.19857126474380493, and Adam's count is 1.
#
# A restored model predicts as before, and its first loss is right. What is lost shows only in how the optimizer answers to the gradient. So compare the state after the update; a right prediction or a right loss is no evidence that the optimizer came back.
#
# </details>

# %% [markdown]
# ### Experiment: The random stream reset
#
# **Predict before you run.** Everything is restored, but the key is made again from its seed. What changes in update 4?
#
# - **A** The noise in its targets and with it the loss; later keys as well.
# - **B** Nothing: with the same seed JAX gives the same numbers.
# - **C** Only the updates after it: update 4 has its own noise already.

# %% The random stream reset id="reset-key" role="experiment"
# cell: reset-key
reset_key = dict(restored["training"])
reset_key["key_data"] = initial_state()["key_data"]
reset_next, reset_loss = step(reset_key, x, y)

# One rounded number could agree by chance; the loss together with every moment cannot.
seen_by_reset = (reset_loss, reset_next["optimizer"])
assert not agree(seen_by_reset, (expected_loss, expected_next["optimizer"]))
assert not agree(reset_next["key_data"], expected_next["key_data"])
print("Reset key changes the noisy objective")

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A** (right): The key is read before the loss is, so this one shows at once. The continuation differs too, since each key comes from the one before.
# - **B**: It gives the same numbers from the beginning. Update 4 needs the fourth draw of the stream, not the first again.
# - **C**: No noise is kept in advance. It is drawn inside the update, from the key that the state holds.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# The loss becomes 0.5684608817100525 instead of 0.5680127143859863, and the key for the update after it is another one.
#
# The seed is not the random state. Setting the seed again hands out the noise of update 1 a second time, and every later key follows from the wrong one. In a model with dropout or augmentation the same mistake repeats masks and crops that were used already.
#
# </details>

# %% [markdown]
# ### Experiment: What each omission costs
#
# **Predict before you run.** A resumed run is accepted if its first loss is within 10 percent of the expected one. Which of the damaged restores does this check reject: moments, key, cursor, counter?
#
# - **A** All four: each of them is a serious fault.
# - **B** Key and cursor: both change what the loss is taken of.
# - **C** The moments only: a weaker optimizer gives a larger loss.
# - **D** The cursor only: the others change the first loss by less, or not at all.

# %% What each omission costs id="omissions" role="experiment"
# cell: omissions
def resume_without(leaf, rate_of):
    """Restore the long run, put one part back to its beginning, make the updates that are left."""
    saved = read_checkpoint(long_path[rate_of], long_template)
    validate_contract(saved["contract"], long_contract(long_x, long_y, rate_of))
    training = dict(saved["training"])
    if leaf is not None:
        training[leaf] = long_state()[leaf]
    return continue_run(training, LEFT, rate_of)


cases = {
    "nothing": (None, constant_rate),
    "moments": ("optimizer", constant_rate),
    "key": ("key_data", constant_rate),
    "cursor": ("cursor", constant_rate),
    "counter": ("step", constant_rate),
    "counter, warm-up": ("step", warm_up_rate),
}
cost, change = {}, {}
for name, (leaf, rate_of) in cases.items():
    whole_state, whole_losses = uninterrupted[rate_of]
    end, losses = resume_without(leaf, rate_of)
    change[name] = 100 * (losses.astype(np.float64) / whole_losses - 1)  # percent, by update
    differ = np.flatnonzero(losses != whole_losses)
    cost[name] = {
        "first loss, percent": float(change[name][0]),
        "first other loss at": INTERRUPT_AT + 1 + int(differ[0]) if differ.size else "never",
        "weight at the end": float(end["params"]["weight"] - whole_state["params"]["weight"]),
        "passes 10 percent": bool(abs(change[name][0]) < 10),
        "same state": agree(end, whole_state),
    }

assert cost["nothing"]["same state"]
for name in ("moments", "counter", "counter, warm-up"):
    assert cost[name]["first loss, percent"] == 0
assert cost["counter"]["first other loss at"] == "never"
assert not any(cost[name]["same state"] for name in cases if name != "nothing")

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: Serious is not the same as visible in one number. Moments and counter do not enter the first loss at all.
# - **B**: Both change the loss, but the noise is small beside the residuals, so the key changes it by less than the tolerance.
# - **C**: The moments cannot be seen in a loss that is taken before the parameters move.
# - **D** (right): Another batch has quite another loss. Everything else slips through, and with other rows even the cursor could.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# Restored whole, the run ends in the same state to the last bit. Each omission ends in another one; the table below has the numbers. Yet a check that lets the first loss differ by 10 percent accepts `['nothing', 'moments', 'key', 'counter', 'counter, warm-up']`: all but the lost cursor.
#
# An equal first loss proves nothing, and a nearly equal one less. Of the six restores only one gives back the uninterrupted run (`['nothing']`). A lost counter at a constant rate leaves every number right except itself, until somebody adds a schedule, an evaluation every thousand updates, or a file name with the step in it.
#
# </details>

# %% [markdown]
# ### Figure: Loss after a partial restore, against the uninterrupted run
#
# **Predict before you run.** Four runs are restored after update 7, each without one part: Adam's moments, the key, the data cursor, or the counter that a warm-up schedule reads. In which of them is the loss of update 8 exactly that of the uninterrupted run?
#
# - **A** In none of them: each lacks something that training needs.
# - **B** Without the moments, and without the counter: both act later.
# - **C** Without the moments only: a counter decides which batch comes.
# - **D** Without the key only: 0.04 of noise is too little to matter.

# %% Losses after a partial restore id="omission-losses" role="figure"
# cell: omission-losses
fig, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
updates = np.arange(INTERRUPT_AT + 1, LONG_UPDATES + 1)
styles = {
    "nothing": ("k-", ""),
    "moments": ("C0-", "o"),
    "key": ("C1--", "s"),
    "cursor": ("C3:", "^"),
    "counter, warm-up": ("C2-.", "D"),
}
for name, (line, marker) in styles.items():
    # One decimal: what the last digits of float32 do is not the subject of a plot.
    percent = np.round(change[name], 1)
    ax.plot(updates, percent, line, marker=marker, fillstyle="none", label=f"lost: {name}")
# Linear within ±1 %, so that exactly zero has a place; logarithmic beyond.
ax.set_yscale("symlog", linthresh=1)
marks = [-100, -10, -1, 0, 1, 10, 100]
ax.set_yticks(marks, [str(mark) for mark in marks])
ax.set_xticks(updates)
ax.set_xlabel(f"update (restored after update {INTERRUPT_AT})")
ax.set_ylabel("loss against the uninterrupted run, %")
ax.legend(fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.2))
ax.grid(alpha=0.3)

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: Each lacks something that the update needs, but the loss is only one part of an update, and not every missing part is read before it.
# - **B** (right): Both are read after the gradient, when the parameters are moved. The loss of update 8 depends on parameters, batch and noise, and those are all there.
# - **C**: In this run a cursor decides which batch comes, and the counter only the rate. If one number did both jobs in your loop, losing it would show at once.
# - **D**: Little is not nothing: other noise gives another loss in the first digits, here by some percent. Only a part that is not read at all can leave the loss exactly the same.
#
# </details>
#
# <details>
# <summary>How to read the figure</summary>
#
# Read the column above update 8 first. Two of the four damaged runs stand there at exactly zero: the loss of an update is taken before the optimizer moves anything, so whatever only the optimizer reads cannot show in it. The run that lost its key even has a *lower* first loss than the uninterrupted one. Then follow the black line: zero at all thirteen updates, and that is the only line a restored run may have. The line of a lost counter at a constant rate is left out, since it would lie on the black one. How far a damaged line strays is a property of this small fixture; that it strays is not.
#
# </details>

# %% [markdown]
# ### Experiment: A small nudge, two comparisons
#
# **Predict before you run.** One of Adam's moments is moved by 1e-7, which is less than one part in a million of its value. Who notices: `allclose` with tolerances of 1e-6, or the comparison of bits?
#
# - **A** Both: 1e-7 is larger than the spacing of float32 numbers there.
# - **B** The comparison of bits only: any other number has other bits.
# - **C** Neither: float32 cannot hold so small a change.

# %% A small nudge, two comparisons id="nudge" role="experiment"
# cell: nudge
tolerance_accepts_nudge = all(
    np.allclose(one, other, rtol=1e-6, atol=1e-6)
    for one, other in zip(jax.tree.leaves(nudged), jax.tree.leaves(state), strict=True)
)
bits_accept_nudge = agree(nudged, state)
assert tolerance_accepts_nudge
assert not bits_accept_nudge

# The same formula, run operation by operation and as one compiled program.
compiled_next, compiled_loss = jax.jit(step)(restored["training"], x, y)
compiled_agrees = agree((compiled_next, compiled_loss), (expected_next, expected_loss))
both = (compiled_next["params"], expected_next["params"])
gaps = jax.tree.map(lambda one, other: abs(float(one - other)), *both)
compiled_gap = max(gaps.values())
assert compiled_gap < 1e-6

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: It is larger than that spacing, which is why the bits differ. The tolerance asks something else: whether the difference is below 1e-6.
# - **B** (right): The moment is another number, and the tolerance was made to overlook that.
# - **C**: float32 carries about seven digits of a value, so near 0.2 it tells numbers apart that differ by 1.5e-8.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# `allclose` with tolerances of 1e-6 accepts the nudged state (`True`), the comparison of bits does not (`False`). Do the compiled and the uncompiled update agree to the last bit? On the recording machine: `False`, and the parameters differ by 1.5e-08 at most. This is a local observation; another processor may give another answer.
#
# Saving and restoring copies bytes, and nothing in between rounds. So for a restore the honest tolerance is zero: a check that can fail at the last bit need not argue how much damage is harmless. But equal bits can only be asked of *one program*: compile the same formula differently, on another processor or with another compiler version, and the last digits are free to differ. Choose a tolerance for that case, declare it, and test that it can fail.
#
# </details>

# %% [markdown]
# ### Experiment: What Orbax refuses
#
# **Predict before you run.** The template asks for float16 where float32 was saved. What does `StandardCheckpointer.restore` do?
#
# - **A** It raises, as it does for another shape.
# - **B** It ignores the template and returns float32.
# - **C** It returns float16, without a word.

# %% What Orbax refuses id="refusals" role="experiment"
# cell: refusals
one_leaf, two_leaves = new_path("one_leaf"), new_path("two_leaves")
value = jnp.array([1.0, 0.1], jnp.float32)
write_checkpoint(one_leaf, {"value": value})
write_checkpoint(two_leaves, {"value": value, "words": np.array([4_000_000_000, 7], np.uint32)})


def restore_as(path, **leaves):
    """What restoring into a template of (shape, dtype) gives: the tree, or its exception's name."""
    target = {}
    for name, (shape, dtype) in leaves.items():
        target[name] = jax.ShapeDtypeStruct(shape, dtype, sharding=value.sharding)
    try:
        with ocp.StandardCheckpointer() as checkpointer:
            return checkpointer.restore(path, target=target)
    except Exception as error:  # whatever it is: its kind is the observation
        return type(error).__name__


wrong_shape = restore_as(one_leaf, value=((3,), jnp.float32))
one_too_many = restore_as(one_leaf, value=((2,), jnp.float32), extra=((), jnp.int32))
one_too_few = restore_as(two_leaves, value=((2,), jnp.float32))
cast = restore_as(two_leaves, value=((2,), jnp.float16), words=((2,), jnp.int8))
other_capacity = template_of(pack_bytes(b"", capacity=64))
with ocp.StandardCheckpointer() as checkpointer:
    no_template = checkpointer.restore(checkpoint_path)["training"]["optimizer"]
    target = {"training": template, "contract": other_capacity}
    numpy_leaf = checkpointer.restore(checkpoint_path, target=target)["contract"]["buffer"]
assert cast["value"].dtype == np.float16
assert cast["words"].dtype == np.int8

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: Shape and structure are compared. The dtype of the template is taken as what you want to have.
# - **B**: The template decides the dtype of what comes back; that is how a checkpoint is read at lower precision on purpose.
# - **C** (right): The values are rounded to what float16 can hold. Integers are cast the same way, so that a key can turn into another key.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# Another shape: `'ValueError'`. A leaf that the checkpoint does not have: `'ValueError'`. A leaf that the template does not have: `'ValueError'`. Another dtype: no exception. [1.0, 0.1] comes back as float16 `[1.0, 0.0999755859375]`, and the key words [4000000000, 7] as int8 `[0, 7]`. Of a NumPy leaf not even the shape is compared: asked for 64 bytes, the contract's buffer comes back with its 4096. Without any template the two parts of Adam's state come back as `['dict', 'NoneType']`, not as the named tuples that `tx.update` reads. Observed with orbax-checkpoint `'0.12.8'`.
#
# Orbax guards the structure and leaves the dtype to you: the template is a request, and a request for float16 is honored. Compare what is *stored* with what you ask for before you read; after reading, the answer has the dtype that you asked for and looks right. Not shown here: other handlers, sharded arrays, other versions.
#
# </details>

# %% [markdown]
# ### Experiment: A fresh process
#
# **Predict before you run.** Two children restore the same checkpoint. The second is started with `JAX_THREEFRY_PARTITIONABLE` the other way round. What is different in it?
#
# - **A** The key words that it reads from the checkpoint.
# - **B** Nothing: a key's two words determine every number drawn from it.
# - **C** The restored leaves are the same, the noise of the next update is not.

# %% A fresh process id="fresh-process" role="experiment"
# cell: fresh-process
def parts(leaves, *names):
    """Those leaves whose path begins with one of the names."""
    return {path: leaf for path, leaf in leaves.items() if path.split("/")[0] in names}


if FRESH_PROCESS:
    short = {"restored": state, "next": expected_next, "loss": expected_loss}
    end, losses = uninterrupted[constant_rate]
    here = named_leaves({**short, "end": end, "losses": losses})
    fresh = run_child("same_settings")
    other_setting = str(int(not contract["threefry_partitionable"]))
    other_fresh = run_child("other_settings", JAX_THREEFRY_PARTITIONABLE=other_setting)
    assert fresh["pid"] != os.getpid()
    assert fresh["refused"] == ""
    same_tree(fresh["leaves"], here)
    same_tree(parts(other_fresh["leaves"], "restored"), parts(here, "restored"))
    assert "threefry_partitionable" in other_fresh["refused"]

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: Reading is copying: all leaves arrive unchanged. What changes is what is made of them.
# - **B**: They do so together with the rule that turns words into numbers, and this switch is a part of the rule.
# - **C** (right): Same words, another way of drawing from them. Only the contract, which names the switch, can notice that before the update.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# The child runs in a process of its own (`True`). All 30 arrays that it reports, the thirteen losses up to update 20 among them, have the parent's bits: `True`. The second child restores the same bits as well (`True`), but its next loss is 0.5802439451217651 instead of 0.5680127143859863. Its contract says why: `'threefry_partitionable: saved True, now False'`.
#
# A restore inside the process that saved can be right for the wrong reason: a global, a cache or an object that still holds the old value. A process that was started from files alone has no such help. And the second child shows why arrays are not enough: every leaf came back, and still the run would have been another one, since the meaning of the two key words depends on a switch that stands in no leaf. Not shown: another machine, another processor, another version of a library.
#
# </details>

# %% [markdown]
# ### Make it yours: Save two updates later
#
# `make-it-yours` · 2 points
#
# Make two more updates from `state`, save the result with its contract at `later_path`, read it back with `template`, and show that the next update of what you read is, bit for bit, the one that would have come anyway. Fill `later` (a state), `recovered` (the payload that was read), `notes` (what `validate_contract` returns for its contract), `without_stop` and `after_restore` (each the pair that `step` returns) and `same_next` (True or False). It has to hold for any `SAVE_AT`.
#
# What it trains:
#
# - List everything that the next update reads, and save it as one tree with Orbax
# - Restore into a template without values, in a fresh process, and compare the next update bit for bit
#
# How to go about it:
#
# 1. Begin at `state`, which is given, and apply `step` twice. Keep the state, leave the loss.
# 2. A payload is a dict with the keys "training" and "contract"; `payload` in the lesson is one. `write_checkpoint` wants a path that does not exist, and `later_path` is one.
# 3. Read with `read_checkpoint(later_path, template)`, then hold its contract against `contract`; the notes are what that returns.
# 4. Make the next update twice: once from `later`, once from what was read. Compare the two results with `agree`.
#
# <details>
# <summary>Hint 1</summary>
#
# Two states must stay apart here: the one in memory and the one that went through the file. Only the second may enter `after_restore`.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# A loop of two `later, _ = step(later, x, y)` gives `later`; `{"training": later, "contract": encode_contract(contract)}` is what is written; `recovered["training"]` is what the update after the restore begins with.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% Make it yours: two updates later id="make-it-yours" role="exercise"
# cell: make-it-yours
later_path = new_path(f"step_{SAVE_AT + 2}")

...  # TODO: later: the state two updates after `state`
...  # TODO: save `later` and the packed contract at later_path
recovered = ...  # TODO: the payload, read back
notes = ...  # TODO: validate_contract's answer
without_stop = ...  # TODO: the next update as if nothing had been interrupted
after_restore = ...  # TODO: the next update of what was read
same_next = ...  # TODO: are both results the same, bit for bit?

moved_on = int(after_restore[0]["step"]) - int(later["step"])
assert moved_on == 1, "what was read is not at the step of `later`"

# %% [markdown]
# ### Transfer: Show what a weights-only checkpoint loses
#
# `weights-only` · 2 points
#
# A checkpoint in a colleague's format holds parameters, key and step, but nothing of the optimizer; on loading, Adam begins anew. `saved` is the whole state as read. Make `weights_only`, the state that this format would give back, without changing `saved`. Then fill `full_count` and `weights_only_count` (Adam's count after the next update), `weights_only_move` (how far that update moved weight and bias, by the given `move`), and `predicted_move`: the one number that Adam's formula gives for the length of the first move of a fresh Adam, written without looking at the result.
#
# What it trains:
#
# - Tell what losing Adam's moments, the key, the cursor or the counter looks like from outside
#
# How to go about it:
#
# 1. Copy the dict before you change it: `saved` is needed whole for `full_next`.
# 2. A new Adam state for given parameters is what `tx.init` returns.
# 3. The count stands in the first part of the optimizer's state; the lesson prints one.
# 4. For `predicted_move` put t = 1 and zero moments into the formula of the lesson, and leave the small epsilon out. What remains of the gradient?
#
# <details>
# <summary>Hint 1</summary>
#
# `saved` is read again below, so the new Adam belongs into a copy. And for the prediction: at t = 1 Adam has seen one gradient, and its two corrections were made for exactly this case. What do they leave of the factors 0.1 and 0.001?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `dict(saved, optimizer=…)` is a new dict that shares every part but one. m/(1-0.9) is g and v/(1-0.999) is g², so the quotient m̂/√v̂ is g/|g|: plus or minus one. What is left is the factor in front of it, which is a parameter of this lesson.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% Transfer: weights only id="weights-only" role="exercise"
# cell: weights-only
saved = read_checkpoint(checkpoint_path, template)["training"]


def move(before, after):
    """How far an update moved weight and bias: two numbers, not negative."""
    return [abs(float(after["params"][n] - before["params"][n])) for n in ("weight", "bias")]


weights_only = ...  # TODO: saved, with a fresh Adam

full_next, full_loss = step(saved, x, y)
weights_only_next, weights_only_loss = step(weights_only, x, y)

full_count = ...  # TODO: Adam's count in full_next
...  # TODO: weights_only_count: Adam's count in weights_only_next
full_move = move(saved, full_next)
weights_only_move = ...  # TODO: as full_move, other run
predicted_move = ...  # TODO: one number, from Adam's formula at count 1, eps ignored

print(f"Adam counts after the next update: {full_count} against {weights_only_count}")

# %% [markdown]
# ### Challenge: Refuse what does not fit, notice one bit
#
# `refuse-changed-contract` · 3 points
#
# Write the two functions that stand between a file and a resumed run. `admit(path, expected, template)` returns the training state saved at `path`, or raises ValueError if the contract is another (a patch version aside) or if the *stored* leaves are not the template's in name, shape and dtype. `differing_leaves(left, right)` returns the paths, as `named_leaves` gives them, of all leaves that are not the same in two trees to the last bit: one flipped bit of a key is a difference, and so is a moment moved by 1e-7.
#
# What it trains:
#
# - Write a contract that refuses a checkpoint of another meaning and only notes a patch version
# - Restore into a template without values, in a fresh process, and compare the next update bit for bit
#
# How to go about it:
#
# 1. The given `stored_specs(path)` and `leaf_specs(template)` describe what there is and what is asked for, in the same form.
# 2. Try `admit(checkpoint_path, contract, half_template)` early: Orbax would return an answer here, and you must not.
# 3. For the contract use `validate_contract`, which knows what is only worth a note.
# 4. `differing_leaves` compares dtype, shape and bytes of two arrays, for the paths of both trees; a path that only one of them has is a difference as well.
#
# <details>
# <summary>Hint 1</summary>
#
# What was restored has the dtype that the template asked for, so a comparison after reading finds nothing. And a tolerance that is relative makes room for a change by one in a key word of two thousand million.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `admit`: if `stored_specs(path) != leaf_specs(template)`, raise ValueError; then read; then `validate_contract(read["contract"], expected)`; then return `read["training"]`. `differing_leaves`: two dicts from `named_leaves`, a loop over all their keys, `tobytes()` beside `dtype` and `shape`.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% Challenge: refuse a changed contract id="refuse-changed-contract" role="exercise"
# cell: refuse-changed-contract
def admit(path, expected, template):
    """The training state saved at `path`, for a program with this contract and this template.

    Raises ValueError if the saved contract is not the expected one (a patch version aside), or if
    the leaves that stand in the checkpoint are not the template's in name, shape and dtype.
    """
    ...  # TODO: refuse what does not fit, return what does


def differing_leaves(left, right):
    """The paths of the leaves that are not the same in both trees, to the last bit."""
    ...  # TODO: list the paths, as named_leaves gives them


try:
    admit(checkpoint_path, other_rate, template)
except ValueError:
    print("Expected changed configuration rejection")
if differing_leaves(state, flipped):
    print("Expected exact key-data mismatch")

# %% [markdown]
# ### Done
#
# Given. Its line says that the run has reached its end. Whether your answers are right, only the check says.

# %% Done id="done" role="build"
# cell: done
print("PASS: recovery-03")
