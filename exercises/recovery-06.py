# %% [markdown]
# # Track experiments and lineage with MLflow
#
# > Generated from `phases/06-recovery/06-track-experiments-and-lineage-with-mlflow/` by `make build` (`python -m publish build`). This is **your copy: edit the exercise cells**. Once you have changed it, no build overwrites it; `make reset LESSON=recovery-06` (`python -m environment publish reset recovery-06`) brings the original back and keeps yours in `backups/`.
#
# **Which run made this file, from which data, with which code, and may it be used?**
#
# lesson: recovery-06
#
# 70 minutes · CPU · comes after: recovery-05 (Asynchronous checkpoints and failure boundaries)
#
# Afterwards you can:
#
# - Decide from two runs' stored statements whether their results may be compared
# - Give data and code an identity, and say what it does not cover
# - Set up a database and a deliberate place for artifacts, and let go of both in the right order
# - Take a metric at a stated boundary and know what the store makes of repeated points
# - Read back, recompute and refuse before trusting a ranking
#
# How to work:
#
# 1. Read the lesson beside this: `phases/06-recovery/06-track-experiments-and-lineage-with-mlflow/recovery-06.ipynb`.
# 2. Run from the top. Answer each question before you run the cell after it.
# 3. Write in the exercise cells only. The other cells are given: the check puts the lesson's own in their place. Leave the first line of each cell (`# cell: …`) where it is: by it the check finds the cell.
# 4. Before you check, restart and run all cells, and save: names that are left from an earlier run hide mistakes.
# 5. Check, in a terminal in the course's folder: `make check LESSON=recovery-06`, or without make `python -m environment graders check recovery-06`. That looks at the notebook; if you work in the script, add `FILE=exercises/recovery-06.py` behind the first, `exercises/recovery-06.py` behind the second.
# 6. Keep your evidence in `exercises/recovery-06-evidence.md`.

# %% [markdown]
# ### Parameters
#
# Given. The check also runs your code with other values than these: write their names in it, never the numbers.

# %% Parameters id="parameters" role="parameters"
# cell: parameters
RATES = (0.02, 0.15)
UPDATES = 30
SLOPE = 2.0
INTERCEPT = 1.0
VALIDATION_LIMIT = 1e-3

# %% [markdown]
# ### MLflow, with its reports home switched off
#
# Given: read it, and run it as it is.

# %% MLflow, with its reports home switched off id="setup" role="build"
# cell: setup
import os

# MLflow starts its usage reports while it is imported, so the switches have to stand before that.
# Version 3.16.1 obeys the first line. The second is a name that some instructions give instead;
# 3.16.1 does not read it, so alone it would leave the reports on.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["MLFLOW_ENABLE_TELEMETRY"] = "false"
os.environ["MLFLOW_DISABLE_AGENT_HINT"] = "1"
os.environ["MLFLOW_LOGGING_LEVEL"] = "WARNING"

import atexit
import hashlib
import itertools
import json
import math
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.telemetry import get_telemetry_client

# Setting a switch and being switched off are two things: ask the library.
assert get_telemetry_client() is None, "MLflow was imported earlier: restart the kernel"

# %% [markdown]
# ### Three splits and their identity
#
# Given: read it, and run it as it is.

# %% Three splits and their identity id="data" role="build"
# cell: data
def target(inputs):
    """The rule to be learned: SLOPE * inputs + INTERCEPT, in float32 and without noise."""
    return np.float32(SLOPE) * inputs + np.float32(INTERCEPT)


x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0], dtype=np.float32)
vx = np.array([-1.5, -0.5, 0.5, 1.5], dtype=np.float32)
tx = np.array([-1.25, -0.25, 0.75, 1.75], dtype=np.float32)
y, vy, ty = target(x), target(vx), target(tx)
# Training, choosing and judging need records that the step before has not seen.
assert len({*x.tolist(), *vx.tolist(), *tx.tolist()}) == len(x) + len(vx) + len(tx)


def data_digest(inputs, targets):
    """SHA-256 of the bytes of the inputs followed by those of the targets, as 64 hex digits."""
    return hashlib.sha256(np.asarray(inputs).tobytes() + np.asarray(targets).tobytes()).hexdigest()


data_hash = data_digest(x, y)

# %% [markdown]
# ### The model, one update and the identity of its program
#
# Given: read it, and run it as it is.

# %% The model, one update and the identity of its program id="model" role="build"
# cell: model
def objective(p, inputs, targets):
    """Mean squared error of a line.

    Args:
        p: `weight` and `bias`, float32 scalars.
        inputs, targets: float32 of shape (records,).
    """
    return jnp.mean((p["weight"] * inputs + p["bias"] - targets) ** 2)


@jax.jit
def update(p, rate):
    """One full-batch gradient step on the training split; x and y are constants of the program."""
    gradient = jax.grad(objective)(p, x, y)
    return jax.tree.map(lambda value, slope: value - rate * slope, p, gradient)


start = {"weight": jnp.float32(0.0), "bias": jnp.float32(0.0)}
# The traced program names operations, shapes and dtypes, but not the values of x and y: the data
# has an identity of its own. Editing a comment leaves it alone; editing the arithmetic does not.
# Without colors: in a notebook or a terminal str() adds escape codes, a script in a pipe gets none,
# and one update would have two identities.
program = jax.make_jaxpr(update)(start, 0.0).pretty_print(use_color=False).encode()
code_hash = hashlib.sha256(program).hexdigest()

# %% [markdown]
# ### A database and a place for files
#
# Given: read it, and run it as it is.

# %% A database and a place for files id="store" role="build"
# cell: store
workspace = tempfile.TemporaryDirectory(prefix="tracking-")
folder = Path(workspace.name)
database = folder / "runs.db"
# as_posix() writes forward slashes on Windows too, which is what a URI needs.
tracking_uri = f"sqlite:///{database.as_posix()}"
client = MlflowClient(tracking_uri=tracking_uri)
artifacts = (folder / "artifacts").as_uri()
experiment_id = client.create_experiment("line-fit", artifact_location=artifacts)


def close_store(client, workspace):
    """Close the database's connections, then remove the folder: Windows keeps an open file."""
    # MLflow 3.16.1 offers no public way to its SQLAlchemy engine.
    client._tracking_client.store.engine.dispose()
    workspace.cleanup()


# At the end of the process and not of the script: an exercise may still want to ask the store.
atexit.register(close_store, client, workspace)

# %% [markdown]
# ### What a run says before, and what it says after
#
# Given: read it, and run it as it is.

# %% What a run says before, and what it says after id="recording" role="build"
# cell: recording
def begin_run(name, rate, data_sha256):
    """Open a run and write down what it is going to be, before its first update.

    Args:
        name: for people; it identifies nothing.
        rate: the learning rate.
        data_sha256: digest of the data the run is going to be fitted to.

    Returns:
        The id of the run.
    """
    run_id = client.create_run(experiment_id, run_name=name).info.run_id
    tags = {
        "data_sha256": data_sha256,
        "code_sha256": code_hash,
        "jax": jax.__version__,
        "backend": jax.default_backend(),
        "metric_boundary": "after update",
    }
    client.log_batch(
        run_id,
        params=[Param("rate", str(rate)), Param("updates", str(UPDATES))],
        tags=[RunTag(key, value) for key, value in tags.items()],
    )
    store_bytes(run_id, "program.txt", program)
    return run_id


def store_bytes(run_id, name, content):
    """Copy bytes to the run's artifacts; as bytes, since text mode may change line ends."""
    path = Path(tempfile.mkdtemp(dir=folder)) / name
    path.write_bytes(content)
    client.log_artifact(run_id, str(path))


def model_bytes(p):
    """The model as the bytes of a JSON file: equal models give equal bytes."""
    fields = {
        "weight": float(p["weight"]),
        "bias": float(p["bias"]),
        "preprocessing": "none: float32 inputs as they are",
    }
    return json.dumps(fields, sort_keys=True).encode()


def finish_run(run_id, p, curve, validation_mse):
    """Store model and metrics, and only then call the run finished.

    Args:
        p: the model after the last update.
        curve: training MSE after update 1, 2, ..., as floats.
        validation_mse: of `p`, on the validation split.
    """
    content = model_bytes(p)
    store_bytes(run_id, "model.json", content)
    client.set_tag(run_id, "model_sha256", hashlib.sha256(content).hexdigest())
    now = int(time.time() * 1000)
    points = [Metric("train_mse", value, now, step) for step, value in enumerate(curve, start=1)]
    points.append(Metric("validation_mse", float(validation_mse), now, len(curve)))
    client.log_batch(run_id, metrics=points)
    client.set_terminated(run_id, status="FINISHED")

# %% [markdown]
# ### Two runs
#
# Given: read it, and run it as it is.

# %% Two runs id="training" role="build"
# cell: training
def train(rate):
    """UPDATES steps from the zero model: the model, and the training MSE after each update."""
    p, curve = start, []
    for _ in range(UPDATES):
        p = update(p, rate)
        # float() waits for the device, so the number exists before anything is written down.
        curve.append(float(objective(p, x, y)))
    return p, curve


models, curves, validation, run_ids = {}, {}, {}, {}
for rate in RATES:
    run_ids[rate] = begin_run(f"rate {rate}", rate, data_hash)
    models[rate], curves[rate] = train(rate)
    validation[rate] = float(objective(models[rate], vx, vy))
    finish_run(run_ids[rate], models[rate], curves[rate], validation[rate])


def closed_form(rate, updates):
    """Validation MSE after some updates, by hand: no JAX, no loop, no rounding to float32.

    The inputs are centered, so weight and bias do not meet: an update multiplies the error of the
    weight by 1 - 2 * rate * mean(x**2), that of the bias by 1 - 2 * rate.
    """
    weight_error = SLOPE * (1 - 4 * rate) ** updates
    bias_error = INTERCEPT * (1 - 2 * rate) ** updates
    return 1.25 * weight_error**2 + bias_error**2


for rate in RATES:
    by_hand = closed_form(rate, UPDATES)
    assert math.isclose(validation[rate], by_hand, rel_tol=1e-3, abs_tol=1e-8), (rate, by_hand)
print("Validation MSE by learning rate:", validation)

# %% [markdown]
# ### Read it all back
#
# Given: read it, and run it as it is.

# %% Read it all back id="read-back" role="build"
# cell: read-back
def fetch_bytes(run_id, name):
    """One artifact of a run, downloaded into a new folder: what a colleague would get."""
    path = client.download_artifacts(run_id, name, tempfile.mkdtemp(dir=folder))
    return Path(path).read_bytes()


def mse_by_hand(model, inputs, targets):
    """Mean squared error in plain Python floats. `model` holds `weight` and `bias`."""
    pairs = zip(inputs.tolist(), targets.tolist(), strict=True)
    errors = [model["weight"] * one + model["bias"] - wanted for one, wanted in pairs]
    return sum(error**2 for error in errors) / len(errors)


TRAIN_ROWS = "SELECT value FROM metrics WHERE run_uuid = ? AND key = 'train_mse' ORDER BY step"
histories = {}
for rate, run_id in run_ids.items():
    points = sorted(client.get_metric_history(run_id, "train_mse"), key=lambda one: one.step)
    histories[rate] = [one.value for one in points]
    assert [one.step for one in points] == list(range(1, UPDATES + 1))
    assert histories[rate] == curves[rate]
    assert client.get_run(run_id).data.tags["data_sha256"] == data_hash
    # The same rows without MLflow: a second reader of the file, which may not write.
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as reader:
        rows = reader.execute(TRAIN_ROWS, (run_id,)).fetchall()
    assert [value for (value,) in rows] == curves[rate]

ranked = client.search_runs(
    [experiment_id],
    filter_string="attributes.status = 'FINISHED'",
    order_by=["metrics.validation_mse ASC"],
)
chosen_id = ranked[0].info.run_id
assert chosen_id == run_ids[min(validation, key=validation.get)]
chosen_model = json.loads(fetch_bytes(chosen_id, "model.json"))
assert abs(chosen_model["weight"] - SLOPE) < 1e-3
assert abs(chosen_model["bias"] - INTERCEPT) < 1e-3
recomputed = mse_by_hand(chosen_model, vx, vy)
logged = ranked[0].data.metrics["validation_mse"]
assert math.isclose(recomputed, logged, rel_tol=1e-5, abs_tol=1e-6)
verified = f"Verified {UPDATES} logged steps per run"
print(f"{verified}; selected and reloaded the better validation candidate.")

# %% [markdown]
# ### May these two be compared, and may this one go out?
#
# Given: read it, and run it as it is.

# %% May these two be compared, and may this one go out? id="gate" role="build"
# cell: gate
def statement(run_id):
    """What a run says it was: its params, and its tags without MLflow's own and without results."""
    data = client.get_run(run_id).data
    results = ("model_sha256", "release")
    tags = {name: value for name, value in data.tags.items() if name not in results}
    return data.params | {name: tags[name] for name in tags if not name.startswith("mlflow.")}


def differences(first_id, second_id):
    """The names of the params and tags in which the statements of two runs differ."""
    first, second = statement(first_id), statement(second_id)
    return {name for name in first | second if first.get(name) != second.get(name)}


def refusals(run_id):
    """Why a run may not be released, from what the store gives back; an empty list lets it pass."""
    run = client.get_run(run_id)
    reasons = []
    if run.info.status != "FINISHED":
        return ["not finished"]
    if run.data.tags.get("data_sha256") != data_hash:
        reasons.append("other data")
    if run.data.tags.get("code_sha256") != code_hash:
        reasons.append("other code")
    recomputed = mse_by_hand(json.loads(fetch_bytes(run_id, "model.json")), vx, vy)
    logged = run.data.metrics.get("validation_mse", math.nan)
    # float32 keeps about seven digits, so a large loss may differ by more than a small one.
    if not math.isclose(recomputed, logged, rel_tol=1e-5, abs_tol=1e-6):
        reasons.append("metric and model disagree")
    # Written as `not ... <=`, because a NaN compares False with everything and must not pass.
    if not recomputed <= VALIDATION_LIMIT:
        reasons.append("validation above the limit")
    return reasons


assert differences(*run_ids.values()) == {"rate"}
assert refusals(chosen_id) == []
client.set_tag(chosen_id, "release", "accepted")
# The test split is read here for the first and last time: nothing is chosen by it.
test_mse = mse_by_hand(chosen_model, tx, ty)
client.log_metric(chosen_id, "test_mse", test_mse, step=UPDATES)

# %% [markdown]
# ### Figure: Training error of two learning rates, as stored
#
# **Predict before you run.** Both runs make 30 updates on noise-free data. What do their training errors look like on a logarithmic axis?
#
# - **A** Both fall, then both flatten at a common floor
# - **B** The larger rate overshoots and swings up and down
# - **C** Both fall almost straight, with different slopes

# %% Both curves, as stored id="curves" role="figure"
# cell: curves
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
styles = itertools.cycle([("tab:blue", "-", "o"), ("tab:orange", "--", "s")])
for (rate, history), (color, line, marker) in zip(histories.items(), styles, strict=False):
    axes.plot(
        range(1, len(history) + 1),
        history,
        color=color,
        linestyle=line,
        marker=marker,
        markersize=4,
        label=f"rate {rate}",
    )
axes.set_yscale("log")
axes.set_xlabel("completed updates")
axes.set_ylabel("training MSE after the update")
axes.set_title("Read back from the tracking store")
axes.grid(visible=True, alpha=0.3)
axes.legend()

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: A floor needs noise in the targets, or float32 running out of digits. There is no noise here, and 30 updates are too few for the second.
# - **B**: Its factors are 1 - 4 * 0.15 = 0.4 for the weight and 1 - 2 * 0.15 = 0.7 for the bias: both positive and below one. An error would change its sign above rate 0.25 and grow above 0.5.
# - **C** (right): Each update multiplies the errors of weight and bias by fixed factors, so the logarithm falls by nearly the same amount each time, and the rate sets the slope.
#
# </details>
#
# <details>
# <summary>How to read the figure</summary>
#
# The horizontal axis counts completed updates, so its first point is update 1 and not the zero model. A straight line on a logarithmic axis is an error that is multiplied by one factor each time. Rate 0.15 is straight once the weight's error is gone: what is left is the bias, whose square shrinks by 0.7² = 0.49 an update. The line of rate 0.02 is bent as long as weight and bias both count (factors 0.92² and 0.96²). The points are those the store gave back, not the lists in memory.
#
# </details>

# %% [markdown]
# ### Experiment: The stored comparison
#
# **Predict before you run.** Rate 0.15 ends with a far lower validation error than rate 0.02 after 30 updates. Which sentence do the two runs support?
#
# - **A** With this data, program and budget, 0.15 ended lower
# - **B** A larger learning rate is the better choice for this model
# - **C** Rate 0.02 converges to a worse line than rate 0.15

# %% The stored comparison id="stored-comparison" role="experiment"
# cell: stored-comparison
stored = {}
for rate, run_id in run_ids.items():
    stored[rate] = client.get_run(run_id).data.metrics["validation_mse"]
assert stored == validation
print("Validation difference:", stored[RATES[0]] - stored[RATES[1]])

# How long would the other rate need to come as far? By hand, without training it.
other = max(stored, key=stored.get)
goal = closed_form(min(stored, key=stored.get), UPDATES)
updates_needed = next(count for count in itertools.count(1) if closed_form(other, count) <= goal)
assert updates_needed > UPDATES

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A** (right): That is what was held fixed and what was varied. The budget belongs in the sentence, as the closed form shows.
# - **B**: Two rates at one budget say nothing about a third rate. At 0.55 the weight's factor is 1 - 2.2 = -1.2, and the error grows without end.
# - **C**: Both rates lead to the same line. The smaller one has not arrived yet: its error still shrinks by the same factor with each update.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# The stored values equal those in memory, and the difference is positive, 0.11994461664726686: rate 0.15 has the lower validation error after 30 updates. By the closed form the smaller rate would come equally far after 263 updates.
#
# The store supports one sentence: with this data, this program and 30 updates, rate 0.15 ended lower. It is a comparison of two configurations at one budget. It ranks neither learning rates nor optimizers in general; with a budget of a few hundred updates both models would pass the same limit.
#
# </details>

# %% [markdown]
# ### Experiment: What the store refuses, keeps and forgets
#
# **Predict before you run.** A metric is logged at steps 1, 2, 2, 1 with the values 0.5, 0.4, 0.3, 0.9, in this order. What does the run show as its value?
#
# - **A** 0.9, because it was logged last
# - **B** 0.3, because it is the later one at the highest step
# - **C** 0.4, because step 2 is already taken when 0.3 arrives

# %% What the store refuses, keeps and forgets id="store-rules" role="experiment"
# cell: store-rules
# A run of its own in an experiment of its own, so that no search meets it.
rules_id = client.create_experiment("rules", artifact_location=(folder / "rules").as_uri())
rules_run = client.create_run(rules_id).info.run_id

client.log_param(rules_run, "rate", 0.02)
client.log_param(rules_run, "rate", 0.02)
try:
    client.log_param(rules_run, "rate", 0.03)
except MlflowException as error:
    changed_param = error.error_code
else:
    raise AssertionError("a logged parameter was changed")

arrivals = [(1, 0.5), (2, 0.4), (2, 0.3), (1, 0.9)]
for moment, (step, value) in enumerate(arrivals):
    client.log_metric(rules_run, "repeated", value, timestamp=1000 + moment, step=step)
history = sorted(client.get_metric_history(rules_run, "repeated"), key=lambda one: one.timestamp)
kept = [(one.step, one.value) for one in history]
latest = client.get_run(rules_run).data.metrics["repeated"]
assert kept == arrivals

for _ in range(2):
    client.log_metric(rules_run, "twice", 0.5, timestamp=1000, step=1)
twice_kept = len(client.get_metric_history(rules_run, "twice"))

client.set_terminated(rules_run)
client.log_metric(rules_run, "late", 1.0, step=1)
late = client.get_run(rules_run).data.metrics["late"]

{"changed param": changed_param, "kept": kept, "latest": latest, "twice": twice_kept, "late": late}

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: Arrival decides only between points of the same step. A job that is resumed at an earlier step would otherwise replace the newest value by an old one.
# - **B** (right): The highest step wins, and among its points the one with the later timestamp. The history still holds all four.
# - **C**: Params are refused a second value, metrics are not: both points of step 2 are kept.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# The changed param raises with the code `'INVALID_PARAMETER_VALUE'`. All four points stay, `[(1, 0.5), (2, 0.4), (2, 0.3), (1, 0.9)]`, and the run's value, its `latest`, is 0.3. Of the doubled point 1 row is left, because MLflow's table has key, timestamp, step and value in its primary key. The finished run accepts a late metric and stores 1.0.
#
# Params are written once; metrics are an append-only list in which `latest` means the highest step, not the newest message; equal rows collapse; and `FINISHED` is a word, not a lock. A resumed job that logs step 1 again cannot spoil `latest`, but its curve has two values there. Recorded with MLflow 3.16.1 and SQLite.
#
# </details>

# %% [markdown]
# ### Make it yours: A third run, perfect and wrong
#
# `make-it-yours` · 2 points
#
# A loader lost the labels: every training target became zero. The zero model fits such targets without error, so its training MSE is 0 at each of its updates, lower than that of any honest run. Log it as a third run, and let the store show why the smallest training loss alone selects no release.
# `bad_validation` is the zero model's MSE on the validation split, `lost_hash` the identity of the data it was really fitted to. Complete `first_by(metric)`, which returns the run id that the store ranks first by a metric. `decision` is the gate's list of reasons for the run with the smallest training error.
#
# What it trains:
#
# - Read back, recompute and refuse before trusting a ranking
# - Decide from two runs' stored statements whether their results may be compared
#
# How to go about it:
#
# 1. `objective` takes any inputs and targets. Use those of the validation split, which came through a loader that works.
# 2. `data_digest` wants what went into the fit: the inputs, and the targets that were delivered.
# 3. In `first_by`, search this experiment's finished runs, ordered by the metric, smallest first; return the id of the first one.
# 4. Give the gate the run that training error puts first, and look at its reasons before you read on.
#
# <details>
# <summary>Hint 1</summary>
#
# The cell `read-back` ranks by validation error. Only the name of the metric differs here.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `client.search_runs([experiment_id], filter_string=…, order_by=[f"metrics.{metric} ASC"])` gives runs in order; a run's id is `run.info.run_id`. `refusals` takes such an id.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% The third run: a model that learned from lost labels id="make-it-yours" role="exercise"
# cell: make-it-yours
# A loader has lost the labels and delivers zeros. The zero model fits them perfectly from the
# start, its gradient is zero, and training leaves it where it is.
lost_y = np.zeros_like(y)
zero = dict(start)
lost_curve = [float(objective(zero, x, lost_y))] * UPDATES

bad_validation = ...  # TODO: its MSE on the validation split
lost_hash = ...  # TODO: the identity of the data it was fitted to
assert bad_validation is not ..., "fill the first blank before a run is opened"
assert lost_hash is not ..., "fill the second blank before a run is opened"

zero_run = begin_run("lost labels", RATES[0], lost_hash)
finish_run(zero_run, zero, lost_curve, bad_validation)


def first_by(metric):
    """The id of the finished run of this experiment with the smallest stored value of a metric."""
    ...  # TODO: ask the store, and return the id of the run it puts first


by_training = first_by("train_mse")
by_validation = first_by("validation_mse")
decision = ...  # TODO: what the gate says of the run with the best training
client.set_tag(by_training, "release", "refused" if decision else "accepted")
print("Wrong zero model validation MSE:", bad_validation)

# %% [markdown]
# ### Transfer: One target, another data set
#
# `changed-target` · 1 point
#
# A label is corrected: the target at position 2 (that of x = 0) becomes 0.5 larger. Make the corrected targets `changed_y` and their identity `changed_hash`, together with the unchanged inputs. The original `y` has to stay as it is, because runs already refer to it.
#
# What it trains:
#
# - Give data and code an identity, and say what it does not cover
#
# How to go about it:
#
# 1. Begin with a copy: assigning an array to a second name copies nothing.
# 2. Change one element, and keep the dtype.
# 3. Hash the inputs and the new targets in the order that `data_digest` expects.
#
# <details>
# <summary>Hint 1</summary>
#
# After your cell, `data_digest(x, y)` must still be `data_hash`, and `changed_y.dtype` must still be float32.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `y.copy()` gives an array of its own with the same dtype; then add to the element at index 2 in place.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% One changed target id="changed-target" role="exercise"
# cell: changed-target
# The target at position 2 (that of x = 0) turns out to be 0.5 too low.
...  # TODO: changed_y: the corrected targets; y stays as it is
changed_hash = ...  # TODO: the identity of x with the corrected targets
assert changed_hash != data_hash
print("Changed target changes dataset identity.")

# %% [markdown]
# ### Challenge: From a file back to its run
#
# `lineage` · 2 points
#
# Somebody hands you the bytes of a `model.json`. Complete `trace_back(content)`: it names the run that made exactly these bytes, with its rate and the identities of its data and its code. It returns `None` for bytes that no run stores, even if they hold the same numbers. A run `claimant` has been planted in the store: it bears the right `model_sha256` tag but stores another model. It must not be believed.
#
# What it trains:
#
# - Give data and code an identity, and say what it does not cover
# - Read back, recompute and refuse before trusting a ranking
#
# How to go about it:
#
# 1. Every run made by `finish_run` has a tag `model_sha256`. Search for the digest of the bytes in hand.
# 2. A tag is a claim. For each run that makes it, download what it stores and compare the bytes.
# 3. Params come back as text: turn the rate into a number.
# 4. Decide what to return if no run passes both tests.
#
# <details>
# <summary>Hint 1</summary>
#
# `search_runs` filters by tags: `tags.some_name = 'some text'`. Expect two runs for the bytes in hand, and look at both.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Loop over the runs found; return the dict for the first one where `fetch_bytes(run.info.run_id, "model.json") == content`; after the loop return `None`.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% From a file back to its run id="lineage" role="exercise"
# cell: lineage
# Somebody hands you the bytes of a model.json. A second run claims to have made it, but holds
# another model: a copied tag, an overwritten file.
handed_over = fetch_bytes(chosen_id, "model.json")
claimed = hashlib.sha256(handed_over).hexdigest()
claimant = begin_run("claimant", RATES[0], data_hash)
store_bytes(claimant, "model.json", model_bytes({"weight": -SLOPE, "bias": -INTERCEPT}))
client.set_tag(claimant, "model_sha256", claimed)
client.set_terminated(claimant)


def trace_back(content):
    """Which run of this experiment made these bytes?

    Args:
        content: of a file that is said to be a model.

    Returns:
        None if no run stores exactly these bytes as its model.json, else a dict with `run_name`
        (text), `rate` (a number), `data_sha256` and `code_sha256` (the tags of the run).
    """
    ...  # TODO: find the runs that claim these bytes, and believe only what they store


origin = trace_back(handed_over)

# %% [markdown]
# ### The end
#
# Given. Its line says that the run has reached its end. Whether your answers are right, only the check says.

# %% The end id="end" role="build"
# cell: end
print("PASS: recovery-06")
