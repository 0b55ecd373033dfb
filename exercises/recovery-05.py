# %% [markdown]
# # Asynchronous checkpoints and failure boundaries
#
# > Generated from `phases/06-recovery/05-asynchronous-checkpoints-and-failure-boundaries/` by `make build` (`python -m publish build`). This is **your copy: edit the exercise cells**. Once you have changed it, no build overwrites it; `make reset LESSON=recovery-05` (`python -m environment publish reset recovery-05`) brings the original back and keeps yours in `backups/`.
#
# **A save was requested while the run went on computing, and then the process died: which checkpoint may the next process believe?**
#
# lesson: recovery-05
#
# 90 minutes · CPU · comes after: recovery-04 (Recover data position and resume)
#
# Afterwards you can:
#
# - Tell a save that was requested, completed, verified and published apart, and say which of them recovery may use
# - Compute on while a writer lives, and surface its failure before anything is announced
# - Say what a killed or terminated process leaves behind, and what recovery selects
# - Tell bytes that changed from a state that was never whole, and name the check that finds each
# - Choose how often to save from what a save costs and how often a run fails
#
# How to work:
#
# 1. Read the lesson beside this: `phases/06-recovery/05-asynchronous-checkpoints-and-failure-boundaries/recovery-05.ipynb`.
# 2. Run from the top. Answer each question before you run the cell after it.
# 3. Write in the exercise cells only. The other cells are given: the check puts the lesson's own in their place. Leave the first line of each cell (`# cell: …`) where it is: by it the check finds the cell.
# 4. Before you check, restart and run all cells, and save: names that are left from an earlier run hide mistakes.
# 5. Check, in a terminal in the course's folder: `make check LESSON=recovery-05`, or without make `python -m environment graders check recovery-05`. That looks at the notebook; if you work in the script, add `FILE=exercises/recovery-05.py` behind the first, `exercises/recovery-05.py` behind the second.
# 6. Keep your evidence in `exercises/recovery-05-evidence.md`.

# %% [markdown]
# ### Parameters
#
# Given. The check also runs your code with other values than these: write their names in it, never the numbers.

# %% Parameters id="parameters" role="parameters"
# cell: parameters
WEIGHTS = 1024  # float32 numbers in the state
FIRST_STEP = 1  # the step that is published; the next one is saved and left unpublished
DELTA = 0.25  # what one update adds to every weight: a multiple of 1/8, which float32 adds exactly
SEED = 5  # order of the proposals, place of the sabotage, drill payload

# The drills start processes, kill them, and restore a damaged checkpoint a hundred times. They
# show facts about the machine and the libraries that no exercise depends on: the grader's
# repeated runs switch them off.
DRILLS = True
FLIPS = 120  # single-bit trials on the array payload
INDEX_FLIPS = 20  # and on the file in which the reader looks the arrays up
FLIP_WEIGHTS = 4096  # their payload: noise, because trained weights do not compress well either
MANAGER_MB = (80, 8)  # one process for each size is killed while Orbax writes that much

CHECKPOINT_SECONDS = 60.0  # cadence: what one checkpoint costs the run that waits for it
BLOCKED_SECONDS = 5.0  # the part of it that an asynchronous save still blocks
FAILURE_SECONDS = 4 * 3600.0  # mean time between failures

# %% [markdown]
# ### The state and its update
#
# Given: read it, and run it as it is.

# %% The state and its update id="state" role="build"
# cell: state
import jax
import jax.numpy as jnp
import numpy as np


def transition(state):
    """One update: every weight grows by DELTA, the step counter by one. Returns a new state."""
    return {"weight": state["weight"] + DELTA, "step": state["step"] + 1}


def same_bits(left, right):
    """Whether two trees of arrays agree in structure, dtype, shape and every bit."""

    def plain(tree):
        arrays = jax.tree.map(np.asarray, tree)
        return jax.tree.map(lambda one: (str(one.dtype), one.shape, one.tobytes()), arrays)

    return plain(left) == plain(right)


def by_hand(step):
    """The weight after `step` updates, from the closed form and in NumPy: the oracle."""
    return (np.arange(WEIGHTS, dtype=np.float64) + DELTA * step).astype(np.float32)


state = {"weight": jnp.arange(WEIGHTS, dtype=jnp.float32), "step": jnp.asarray(0, jnp.int32)}

saved = state
for _ in range(FIRST_STEP):
    saved = transition(saved)
assert np.array_equal(saved["weight"], by_hand(FIRST_STEP))

# %% [markdown]
# ### Publish, and find what was published
#
# Given: read it, and run it as it is.

# %% Publish, and find what was published id="protocol" role="build"
# cell: protocol
import hashlib
import json
import os
import tempfile
from pathlib import Path

# Removed when the object goes, at the latest when Python ends.
scratch = tempfile.TemporaryDirectory(prefix="recovery-05-", ignore_cleanup_errors=True)
root = Path(scratch.name).resolve()
manifest = root / "LATEST.json"


def reach(point):
    """A failpoint: a named place where a drill may stop its own process. Here it does nothing."""


def folder_digest(path):
    """SHA-256 over each file of a folder: its relative name, its length, its bytes."""
    digest = hashlib.sha256()
    files = [file for file in path.rglob("*") if file.is_file()]
    for file in sorted(files, key=lambda one: one.relative_to(path).as_posix()):
        raw = file.read_bytes()
        digest.update(f"{file.relative_to(path).as_posix()}\0{len(raw)}\0".encode())
        digest.update(raw)
    return digest.hexdigest()


def preflight(path):
    """What must hold before a checkpoint is announced. Returns its digest and writes nothing.

    Raises FileNotFoundError for a folder that is not there under its final name, or is empty.
    """
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"{path.name}: no finished checkpoint of that name")
    if not any(file.is_file() for file in path.rglob("*")):
        raise FileNotFoundError(f"{path.name}: the folder holds no file")
    return folder_digest(path)


def published(folder):
    """The records of a folder's manifest, oldest announcement first; none without a manifest."""
    file = Path(folder) / "LATEST.json"
    return json.loads(file.read_text(encoding="utf-8"))["accepted"] if file.exists() else []


def publish(path, step):
    """Announce a finished checkpoint in the manifest beside it. Returns the new record.

    Only one process at a time may publish in a folder: nothing here locks it.
    """
    path = Path(path)
    record = {"step": int(step), "path": path.name, "sha256": preflight(path)}
    older = [one for one in published(path.parent) if one["path"] != path.name]
    reach("before the manifest")
    pending = path.parent / "LATEST.pending"
    with open(pending, "w", encoding="utf-8") as file:
        json.dump({"format": 1, "accepted": [*older, record]}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    reach("before the rename")
    os.replace(pending, path.parent / "LATEST.json")  # readers see the old file or the new one
    return record


def accepted(folder=None):
    """The newest published record whose folder still has the published digest.

    Its "path" is absolute. Raises LookupError when no record holds.
    """
    folder = root if folder is None else Path(folder)
    for record in reversed(published(folder)):
        path = folder / record["path"]
        if path.is_dir() and folder_digest(path) == record["sha256"]:
            return {**record, "path": str(path)}
    raise LookupError(f"{folder.name}: no published checkpoint holds")

# %% [markdown]
# ### Save, compute on, wait, verify, publish
#
# Given: read it, and run it as it is.

# %% Save, compute on, wait, verify, publish id="async-save" role="build"
# cell: async-save
import atexit

import orbax.checkpoint as ocp

checkpointer = ocp.AsyncCheckpointer(ocp.StandardCheckpointHandler())
atexit.register(checkpointer.close)

first_path, live_path = root / f"step_{FIRST_STEP}", root / f"step_{FIRST_STEP + 1}"

checkpointer.save(first_path, args=ocp.args.StandardSave(saved))  # requested
live = transition(saved)  # the writer may still be at work: it has its own copy of `saved`
checkpointer.wait_until_finished()  # completed, or the writer's exception is raised here
restored = checkpointer.restore(first_path, args=ocp.args.StandardRestore(saved))
assert same_bits(restored, saved)  # verified: read back from the disk, not from memory
publish(first_path, FIRST_STEP)  # published: from here on recovery may rely on it

assert np.array_equal(restored["weight"], by_hand(FIRST_STEP))
print(f"Accepted {accepted()['step']}, live {int(live['step'])}")

# The next step is saved and completed, and that is all: nobody verified or announced it.
checkpointer.save(live_path, args=ocp.args.StandardSave(live))
checkpointer.wait_until_finished()
assert live_path.is_dir()
print(f"An unpublished step {int(live['step'])} exists; recovery selects {accepted()['step']}")

# %% [markdown]
# ### Failures on purpose: processes and reports
#
# Given: read it, and run it as it is.

# %% Failures on purpose: processes and reports id="children" role="build"
# cell: children
import gc
import inspect
import logging
import subprocess
import sys
import threading
from contextlib import contextmanager

CHILD_SECONDS = 50  # no child may outlive this, whatever goes wrong


def outcome(function, *arguments, **keywords):
    """What a call returns, or the name of the exception it raises."""
    try:
        return function(*arguments, **keywords)
    except FileNotFoundError:
        return "FileNotFoundError"  # also for a class of one's own made from it
    except Exception as error:
        return type(error).__name__


@contextmanager
def quiet():
    """Keep the libraries' reports of failures that a drill provokes off the screen."""
    hook, loggers = sys.unraisablehook, [logging.getLogger(one) for one in ("absl", "asyncio")]
    levels = [logger.level for logger in loggers]
    sys.unraisablehook = lambda unraisable: None
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        gc.collect()  # abandoned coroutines report when they are collected: let it be now
        sys.unraisablehook = hook
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def write_arrays(path, arrays):
    """One .npy file for each array, in order, with a failpoint before each."""
    path.mkdir()
    for number, (name, array) in enumerate(arrays.items()):
        reach(f"before array {number}")
        with open(path / f"{name}.npy", "wb") as file:
            np.save(file, array)
            file.flush()
            os.fsync(file.fileno())


def read_arrays(path):
    """What `write_arrays` wrote, as a dict of NumPy arrays."""
    return {file.stem: np.load(file) for file in sorted(path.glob("*.npy"))}


def numpy_run(name):
    """A new folder in which step FIRST_STEP is written by `write_arrays` and published."""
    folder = root / name
    folder.mkdir()
    path = folder / f"step_{FIRST_STEP}"
    write_arrays(path, {"weight": by_hand(FIRST_STEP), "step": np.int32(FIRST_STEP)})
    publish(path, FIRST_STEP)
    return folder


# A child needs NumPy and the functions above, not JAX: it starts in a fraction of a second. Its
# `reach` says where it is and stands still until the parent decides; it ends if the parent dies.
CHILD_HEAD = """
import hashlib, json, os, shutil, signal, sys
from pathlib import Path
import numpy as np

def stand_still(where):
    try:
        print(where, flush=True)
        answer = sys.stdin.readline()
    except OSError:
        answer = ""
    if not answer:
        os._exit(1)  # the parent is gone: end at once, threads included

def reach(point):
    if point == stop_at:
        stand_still(point)
"""


def write_script(name, body):
    """Write a child's script: the source of the protocol's own functions, then `body`."""
    shared = (folder_digest, preflight, published, publish, write_arrays)
    script = root / f"{name}.py"
    sources = [CHILD_HEAD, *(inspect.getsource(function) for function in shared), body]
    script.write_text("\n\n".join(sources), encoding="utf-8")
    return script


@contextmanager
def child(script, *arguments):
    """A process of its own that is dead and reaped when the block ends, however it ends."""
    command = [sys.executable, str(script), *map(str, arguments)]
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    options["env"] = {**os.environ, "JAX_PLATFORMS": "cpu"}
    with (
        open(script.with_suffix(".log"), "ab") as log,
        subprocess.Popen(command, stderr=log, **options) as process,
    ):
        deadline = threading.Timer(CHILD_SECONDS, process.kill)
        deadline.start()
        try:
            yield process
        finally:
            deadline.cancel()
            process.kill()  # does nothing to a process that was reaped before


def hear(process):
    """The next line a child says. Raises RuntimeError if it ended without saying one."""
    line = process.stdout.readline().strip()
    if not line:
        log = Path(process.args[1]).with_suffix(".log")
        said = log.read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"the child ended without a word:\n{said}")
    return line

# %% [markdown]
# ### Experiment: A writer held at its gate
#
# **Predict before you run.** save() has returned and three more updates are computed, while the writer is held just before it gives the folder its final name. What will the folder hold when the writer may go on?
#
# - **A** The state after the three updates, since it is written last
# - **B** A mixture, depending on how far the writer had got
# - **C** The state as it was when save() was called

# %% A writer held at its gate id="gate" role="experiment"
# cell: gate
# Orbax calls this function after the last array is written and before the folder gets its final
# name. Waiting in it holds the writer there, for as long as this cell wants to look around.
gate = threading.Event()
held = ocp.AsyncCheckpointer(
    ocp.StandardCheckpointHandler(),
    async_options=ocp.options.AsyncOptions(
        post_finalization_callback=gate.wait,
        create_directories_asynchronously=False,  # so that the first look finds a folder
    ),
)
held_path = root / "held"


def look(moment):
    """What can be seen of the held save now."""
    return {
        "moment": moment,
        "folders": sorted(one.name for one in root.glob("held*")),
        "completed": held_path.is_dir(),
        "published": held_path.name in manifest.read_text(encoding="utf-8"),
    }


try:
    held.save(held_path, args=ocp.args.StandardSave(live))
    ledger = [look("save() returned")]
    too_early = outcome(publish, held_path, FIRST_STEP + 1)
    ahead = live
    for _ in range(3):
        ahead = transition(ahead)
    assert np.array_equal(ahead["weight"], by_hand(FIRST_STEP + 4))
    ledger.append(look("three updates later"))
finally:
    gate.set()  # whatever happened above, no thread may be left waiting
    held.wait_until_finished()
ledger.append(look("the wait returned"))
in_held = held.restore(held_path, args=ocp.args.StandardRestore(live))
held.close()

completed = [one["completed"] for one in ledger]
assert same_bits(in_held, live)  # the three updates did not leak into what was being written
assert completed == [False, False, True]
assert not any(one["published"] for one in ledger)
assert too_early == "FileNotFoundError"
print(f"Updates while the writer was held: 3; completed at the three looks: {completed}")

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: The writer does not read the variable when it gets to it: the arrays were copied before save() returned, and a JAX array never changes in place.
# - **B**: That would be a torn save. It is what a writer without its own copy of mutable arrays would produce; Orbax copies first, and the cell compares every bit.
# - **C** (right): save() blocks for exactly that: until the state is copied. Everything afterwards happens in the background on the copy.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# At the first two looks there is one folder with a temporary name, nothing is completed and nothing published, although the three updates are done; announcing the save is refused with a FileNotFoundError. Once the gate is open and the wait has returned, the folder has its final name and holds the state of the request, not of the updates made since. It is still not published: nobody did it.
#
# The return of save() is a receipt for a request. Orbax has its own copy of the state by then, and a JAX array never changes in place, so the run may go on; but which bytes are on the disk, and under which name, is known only after the wait. Completion and publication are different events, and the second is yours.
#
# </details>

# %% [markdown]
# ### Experiment: A writer that fails in the background
#
# **Predict before you run.** The writer of a save fails in its thread. The loop waits, catches the exception, logs it, and waits once more. What does the second wait do?
#
# - **A** It returns as after a good save
# - **B** It raises the same exception again
# - **C** It tries the write again

# %% A writer that fails in the background id="background-failure" role="experiment"
# cell: background-failure
def broken_disk():
    """A finalization callback that fails as a full disk would."""
    raise OSError("no space left on device (a drill)")


failing = ocp.AsyncCheckpointer(
    ocp.StandardCheckpointHandler(),
    async_options=ocp.options.AsyncOptions(post_finalization_callback=broken_disk),
)
failing_path = root / "failing"
with quiet():
    requested = outcome(failing.save, failing_path, args=ocp.args.StandardSave(live))
    waits = [outcome(failing.wait_until_finished) for _ in range(2)]
    failing.close()
announced = outcome(publish, failing_path, FIRST_STEP + 1)

assert requested is None  # the request itself went well
assert waits[0] == "OSError"
assert announced == "FileNotFoundError"
assert accepted()["step"] == FIRST_STEP
print(f"Background failure raised by the two waits: {waits}; accepted stays {accepted()['step']}")

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A** (right): The exception was given to the first wait. Whoever decides by the second one alone announces a checkpoint that does not exist, unless something looks at the disk.
# - **B**: It would be safer so. Orbax hands the exception over once and then forgets it; its source says that this is deliberate.
# - **C**: There is no retry: the copy is gone with the failed save. A new save has to be requested, with the state as it is by then.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# save() returns as if nothing were wrong. The first wait raises the writer's OSError; the second returns quietly. No folder has the final name, the announcement is refused, and recovery still selects step 1.
#
# In Orbax 0.12.8 a background failure surfaces once, in the next wait. A loop that catches it for a log line and waits again finds nothing; so does one that only asks at the end of the run. The announcement must follow a wait that did not raise, and the preflight is the second line of defense: it looks at the disk.
#
# </details>

# %% [markdown]
# ### Experiment: SIGKILL at four points of a save
#
# **Predict before you run.** A writer is killed when all arrays of step 2 and the complete new manifest are on the disk, but the manifest still bears the name LATEST.pending. What should recovery select?
#
# - **A** Step 1: the announcement did not take place
# - **B** Step 2: everything that belongs to it is there
# - **C** Neither: the folder is inconsistent and a person must look

# %% SIGKILL at four points of a save id="failpoints" role="experiment"
# cell: failpoints
WRITER = """
folder, step, delta, stop_at = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
path = folder / f"step_{step + 1}"
if path.exists():
    shutil.rmtree(path)  # left by a killed writer, never announced: nobody may rely on it
weight = np.load(folder / f"step_{step}" / "weight.npy") + np.float32(delta)
write_arrays(path, {"weight": weight, "step": np.int32(step + 1)})
publish(path, step + 1)
print("published", flush=True)
"""
FAILPOINTS = ("before array 0", "before array 1", "before the manifest", "before the rename")

if DRILLS:
    writer = write_script("writer", WRITER)
    killed = {}
    for number, point in enumerate(FAILPOINTS):
        folder = numpy_run(f"killed_{number}")
        with child(writer, folder, FIRST_STEP, DELTA, point) as process:
            assert hear(process) == point
            process.kill()  # SIGKILL: no handler, no finally, no atexit runs in the child
            code = process.wait()  # minus the signal's number; Windows, which has none, says 1
        assert code != 0
        unfinished = folder / f"step_{FIRST_STEP + 1}"
        killed[point] = {
            "exit": code,
            "accepted": accepted(folder)["step"],
            "left": sorted(file.name for file in unfinished.iterdir()),
            "pending": (folder / "LATEST.pending").exists(),
        }
    # The last folder holds everything but the rename. The same writer, started again and left
    # alone, must cope with what it finds there.
    with child(writer, folder, FIRST_STEP, DELTA, "nowhere") as process:
        assert hear(process) == "published"
        assert process.wait() == 0
    finished = accepted(folder)["step"]
    assert np.array_equal(read_arrays(unfinished)["weight"], by_hand(FIRST_STEP + 1))
    after_kill = [one["accepted"] for one in killed.values()]
    assert after_kill == [FIRST_STEP] * 4
    assert finished == FIRST_STEP + 1
    print(f"SIGKILL at four points: accepted {after_kill}; started again, not killed: {finished}")

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A** (right): One update is lost and nothing is guessed. Losing what was not announced is the price that was agreed on when the cadence was chosen.
# - **B**: You know that because you chose the failpoint. A reader that finds LATEST.pending cannot tell whether it is complete or was cut off in the middle, and a rule that guesses will be wrong some day.
# - **C**: Nothing that was published has changed: step 1 and LATEST.json are as they were. Recovery without a person is the point of the protocol.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# After each of the four kills recovery selects step 1, whether the folder of step 2 was empty, held one array or both, and even with the finished manifest lying beside it as LATEST.pending. The same writer, started again in the last of these folders and left alone, publishes step 2.
#
# There is one instant at which step 2 begins to exist for recovery, the rename, and no point before it is special. What a kill leaves behind is debris to be removed by the next attempt, not evidence to be weighed. A loader that takes the highest folder name would have taken an empty folder, half a state, and two complete ones that nobody vouched for.
#
# </details>

# %% [markdown]
# ### Experiment: SIGTERM in the middle of an update
#
# **Predict before you run.** SIGTERM arrives when the weights of an update are changed and the step counter is not. The handler saves at once, publishes with a digest, and exits with code 0. What does recovery make of it?
#
# - **A** It accepts the step and repeats half an update
# - **B** The digest does not match, so it goes back
# - **C** Nothing was saved: a handler cannot write files

# %% SIGTERM in the middle of an update id="sigterm" role="experiment"
# cell: sigterm
import signal

TRAINER = """
folder, step, delta, manner = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
stop_at, start, stop_requested = None, step, False
weight = np.load(folder / f"step_{step}" / "weight.npy")

def save():
    path = folder / f"step_{step}"
    write_arrays(path, {"weight": weight, "step": np.int32(step)})
    publish(path, step)

def save_at_once(number, frame):
    save()
    sys.exit(0)

def remember(number, frame):
    global stop_requested
    stop_requested = True
    os.write(1, b"noted\\n")

handlers = {"no handler": signal.SIG_DFL, "in the handler": save_at_once, "boundary": remember}
signal.signal(signal.SIGTERM, handlers[manner])
while True:
    weight = weight + np.float32(delta)  # first half of an update
    if step == start + 1:
        stand_still("half an update is done")
    step += 1  # second half
    if stop_requested:  # a boundary: weight and step belong together
        save()
        sys.exit(0)  # not before the write is published
"""
MANNERS = ("no handler", "in the handler", "boundary")

if DRILLS and os.name != "posix":
    # Windows sends no SIGTERM to another process: send_signal(SIGTERM) is TerminateProcess there,
    # which no handler sees. A console run is asked to stop with CTRL_BREAK_EVENT instead.
    terminated = None
    print("SIGTERM drill skipped: on this system no handler sees a process being terminated")
elif DRILLS:
    trainer = write_script("trainer", TRAINER)
    terminated = {}
    for number, manner in enumerate(MANNERS):
        folder = numpy_run(f"terminated_{number}")
        with child(trainer, folder, FIRST_STEP, DELTA, manner) as process:
            assert hear(process) == "half an update is done"
            process.send_signal(signal.SIGTERM)
            if manner == "boundary":
                assert hear(process) == "noted"  # the flag is up; now the update may go on
                process.stdin.write("go on\n")
                process.stdin.flush()
            code = process.wait()
        record = accepted(folder)
        arrays = read_arrays(Path(record["path"]))
        terminated[manner] = {
            "exit": code,
            "accepted": record["step"],
            "whole": bool(np.array_equal(arrays["weight"], by_hand(int(arrays["step"])))),
        }
    stopped_at = [one["accepted"] for one in terminated.values()]
    whole = [one["whole"] for one in terminated.values()]
    assert [one["exit"] for one in terminated.values()] == [-signal.SIGTERM, 0, 0]
    assert stopped_at == [FIRST_STEP, FIRST_STEP + 1, FIRST_STEP + 2]
    assert whole == [True, False, True]
    print("SIGTERM without handler, in the handler, at the boundary:", end=" ")
    print(f"accepted {stopped_at}, whole {whole}")

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A** (right): Weights and counter disagree by half an update, and nothing that looks at bytes can see it. Only a check of the meaning does: here, the closed form of the weights.
# - **B**: The digest was computed from exactly these bytes, so it matches. It can find a change after the write, never a mistake before it.
# - **C**: A Python handler runs between two instructions of the main program and may do what Python can. That is why the mistake is possible.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# Without a handler the process dies of the signal and recovery has step 1. With a save inside the handler it ends with exit code 0 and a published step 2, whose weights already hold half of the update to step 3. With a flag that is looked at between updates it ends with exit code 0 and a whole step 3. The three exit codes: `[-15, 0, 0]`. On Windows the drill is skipped: nothing there delivers a SIGTERM to a handler.
#
# A signal arrives anywhere, also between two statements that belong together. The handler should note it and nothing else; the loop acts at the next place where the state is whole, and exits after the write has been published. The digest accepts the broken step: it vouches for the bytes that were written, not for what they mean.
#
# </details>

# %% [markdown]
# ### Experiment: One flipped bit
#
# **Predict before you run.** One bit of the file that holds the compressed weights is flipped on the disk. What does a plain Orbax restore do in most of the trials?
#
# - **A** It raises: the file is compressed, so a flip breaks the stream
# - **B** It raises: a checkpoint library checks its files
# - **C** It returns weights that are wrong, without an error

# %% One flipped bit id="flipped-bits" role="experiment"
# cell: flipped-bits
def flip(file, bit):
    """Flip one bit of a file; the same call again mends it."""
    raw = bytearray(file.read_bytes())
    raw[bit // 8] ^= 1 << (bit % 8)
    file.write_bytes(raw)


def restore_outcome(path, expected):
    """What Orbax alone makes of a folder: "right", "wrong" without an error, or "raised"."""
    try:
        found = checkpointer.restore(path, args=ocp.args.StandardRestore(expected))
    except Exception:
        return "raised"
    return "right" if same_bits(found, expected) else "wrong"


if DRILLS:
    folder = root / "flips"
    folder.mkdir()
    noise = np.random.default_rng(SEED).normal(size=FLIP_WEIGHTS).astype(np.float32)
    tree = {"weight": jnp.asarray(noise), "step": jnp.asarray(2, jnp.int32)}
    for step in (1, 2):
        checkpointer.save(folder / f"step_{step}", args=ocp.args.StandardSave(tree))
        checkpointer.wait_until_finished()
        publish(folder / f"step_{step}", step)
    path = folder / "step_2"
    files = [one for one in path.rglob("*") if one.is_file()]
    payload = max(files, key=lambda one: one.stat().st_size)  # the compressed weights
    index = path / "manifest.ocdbt"  # where the reader begins
    picks = np.random.default_rng(SEED)

    def some_bits(file, count):
        return [(file, int(bit)) for bit in picks.permutation(8 * file.stat().st_size)[:count]]

    flips = {payload: [], index: []}
    steps_after_flip = set()
    with quiet():
        for file, bit in some_bits(payload, FLIPS) + some_bits(index, INDEX_FLIPS):
            flip(file, bit)
            steps_after_flip.add(accepted(folder)["step"])
            flips[file].append(restore_outcome(path, tree))
            flip(file, bit)
        raw = payload.read_bytes()
        payload.write_bytes(raw[: len(raw) // 2])
        truncated = restore_outcome(path, tree)
        payload.unlink()
        deleted = restore_outcome(path, tree)
        payload.write_bytes(raw)

    assert steps_after_flip == {1}  # the digest refused each of them
    assert accepted(folder)["step"] == 2  # and takes the mended folder again
    silent = flips[payload].count("wrong")
    assert silent > FLIPS // 2
    assert truncated == deleted == "raised"
    print(f"One flipped bit in step 2: the digest refuses it, back to {max(steps_after_flip)}")
    print(f"Orbax alone: {silent} of {FLIPS} flipped bits restored wrong and without an error")

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: A flip in the stream's structure does break it, and that happens. But nearly every bit belongs to the code of some byte: the decoder reads another byte, soon finds its place again, and has no checksum that would object.
# - **B**: It checks its index. For the array chunk nothing in these versions does, which is why this was worth measuring.
# - **C** (right): Often a single weight differs, sometimes hundreds do, by a little or by a factor of 2 to a high power. Nothing in the restore says so.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# The digest refuses step 2 for each flipped bit and recovery goes back to step 1; with the bit mended it takes step 2 again. Orbax alone returns other weights without any error for nearly all flips in the array payload. Flips in the index file raise, and so do a truncated and a deleted payload.
#
# In these versions the index carries checksums and the compressed array chunk does not, so a silent change of the largest files stays silent. That is a finding about versions, not a law; the digest makes it irrelevant for what was published. It costs one reading of every byte.
#
# </details>

# %% [markdown]
# ### Experiment: A manager killed while it saves
#
# **Predict before you run.** A CheckpointManager is in the middle of saving step 2. What does its latest_step() say, and what does a new process say after this one is killed?
#
# - **A** 1 now, and 1 afterwards, since only the rename counts
# - **B** 2 now, and 1 afterwards, since the two mean different things
# - **C** 2 now, and 2 afterwards, since all bytes were written

# %% A manager killed while it saves id="manager-killed" role="experiment"
# cell: manager-killed
from contextlib import ExitStack

SAVER = """
import threading, time
import orbax.checkpoint as ocp

folder, megabytes = Path(sys.argv[1]), int(sys.argv[2])
hold, written = threading.Event(), threading.Event()

def at_the_end_of_the_write():
    written.set()
    hold.wait(40)

options = ocp.CheckpointManagerOptions(
    async_options=ocp.options.AsyncOptions(post_finalization_callback=at_the_end_of_the_write)
)
manager = ocp.CheckpointManager(folder, options=options)
hold.set()  # step 1 passes
manager.save(1, args=ocp.args.StandardSave({"weight": np.zeros(4, np.float32)}))
manager.wait_until_finished()
hold.clear()  # step 2 is held
written.clear()
weight = np.random.default_rng(0).random(megabytes * 250_000, dtype=np.float32)
began = time.perf_counter()
manager.save(2, args=ocp.args.StandardSave({"weight": weight}))
returned = time.perf_counter() - began
still_writing = not written.is_set()
if not written.wait(40):
    os._exit(1)
report = {
    "returned": returned, "written": time.perf_counter() - began, "early": still_writing,
    "folders": sorted(os.listdir(folder)), "latest": manager.latest_step(),
}
manager.reload()  # forget the list in memory, look at the disk
report["reloaded"] = manager.latest_step()
stand_still(json.dumps(report))
"""

if DRILLS:
    saver = write_script("saver", SAVER)
    folders = [root / f"manager_{megabytes}" for megabytes in MANAGER_MB]
    with ExitStack() as stack:  # they start together: most of their time is spent importing
        savers = [
            stack.enter_context(child(saver, folder, megabytes)) for folder, megabytes in zip(folders, MANAGER_MB, strict=True)
        ]
        manager_reports = [json.loads(hear(process)) for process in savers]
        for process in savers:
            process.kill()
        manager_exits = [process.wait() for process in savers]
    says = [report["latest"] for report in manager_reports]
    found = []
    for folder in folders:
        with ocp.CheckpointManager(folder) as manager:  # another process than the one that saved
            found.append(manager.latest_step())
    assert says == [2] * len(folders)
    assert [report["reloaded"] for report in manager_reports] == [1] * len(folders)
    assert found == [1] * len(folders)
    print(f"Manager before the kill says {says}; a new one afterwards says {found}")

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: That would be a statement about the disk. The saving manager answers from its list in memory, and the request for step 2 is already in it.
# - **B** (right): The same method answers two questions: what have I been asked to keep, and what is finished on the disk?
# - **C**: All bytes were written, under a temporary name. A new manager does not count such a folder, and rightly so: it cannot know whether it is complete.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# save() of 80 MB returns long before the write has ended, and the folder shows step 2 under a temporary name. Asked for its latest step, the saving manager says 2. After the SIGKILL, a new manager in another process says 1, for 80 MB and for 8 MB.
#
# latest_step() of the manager that saves counts what it has been asked for; latest_step() of a new one counts what has a final name. A log line made from the first is a promise. All bytes were written when the process died, and they counted for nothing: only the rename was missing.
#
# </details>

# %% [markdown]
# ### Experiment: What a manager keeps
#
# **Predict before you run.** A manager keeps the two checkpoints with the smallest loss; steps 0 to 3 have the losses .5, .1, .4, .9. The run crashes after step 3. From which step does it resume?
#
# - **A** 2: the newest of those that were kept
# - **B** 1: the best one of those that were kept
# - **C** 3: the newest is always kept for recovery

# %% What a manager keeps id="retention" role="experiment"
# cell: retention
if DRILLS:
    small = {"weight": jnp.zeros(4)}
    options = ocp.CheckpointManagerOptions(save_interval_steps=3, max_to_keep=2)
    with ocp.CheckpointManager(root / "interval", options=options) as manager:
        for step in range(8):
            manager.save(step, args=ocp.args.StandardSave(small))
        manager.wait_until_finished()
        kept_by_interval = list(manager.all_steps())

    losses = [0.5, 0.1, 0.4, 0.9]
    best = {}
    for mode in ("min", "max"):
        options = ocp.CheckpointManagerOptions(max_to_keep=2, best_fn=lambda metrics: metrics["loss"], best_mode=mode)
        with ocp.CheckpointManager(root / f"best_{mode}", options=options) as manager:
            for step, loss in enumerate(losses):
                arguments = ocp.args.StandardSave(small)
                manager.save(step, args=arguments, metrics={"loss": loss})
            manager.wait_until_finished()
            best[mode] = {
                "kept": list(manager.all_steps()),
                "latest": manager.latest_step(),
                "best": manager.best_step(),
            }
    # The oracle: the two smallest losses, found by sorting.
    assert best["min"]["kept"] == sorted(np.argsort(losses)[:2].tolist())
    print(f"Interval 3, two kept, steps 0 to 7: {kept_by_interval}")
    print(f"Smallest loss, two kept, of {losses}: {best['min']}")

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A** (right): latest_step() is the latest kept. One step is lost here; in a long run with a noisy loss it may be thousands.
# - **B**: best_step() is 1. A resume asks for the latest, and those are two methods.
# - **C**: Nothing in these options keeps the newest. Step 3 has the largest loss and was deleted.
#
# </details>
#
# <details>
# <summary>What to expect, and what it means</summary>
#
# With an interval of 3 and two to keep, steps 3 and 6 of 0 to 7 remain; the final step was never saved. With the smallest loss as the measure, the kept steps are 1 and 2 of the losses .5, .1, .4, .9: the best is 1, and the latest kept is 2, although the run had reached 3. With the default mode, which looks for the largest value, the two worst remain.
#
# Retention by quality is made for choosing a model, not for resuming a run: it may delete the newest state. A run that needs both keeps two sets. And a measure has a direction; nothing warns if it is the wrong one.
#
# </details>

# %% [markdown]
# ### Figure: What saving too often and too rarely costs
#
# **Predict before you run.** A save stops the run for 60 s and it fails every 4 h on average. An asynchronous save of the same state stops it for 5 s only, though the write still takes 60 s. What happens to the interval that wastes least?
#
# - **A** It stays the same: the write takes 60 s
# - **B** It becomes about twelve times shorter
# - **C** It becomes about three and a half times shorter

# %% How often to save id="cadence" role="figure"
# cell: cadence
import matplotlib.pyplot as plt


def waste(interval, blocked, lag=0.0):
    """Expected fraction of time that checkpoints and failures cost, to first order.

    interval: seconds of work between two saves; blocked: seconds a save stops the work;
    lag: seconds from the request of a save until it counts.
    """
    return blocked / interval + (interval / 2 + lag) / FAILURE_SECONDS


def exact_waste(interval, blocked):
    """The same for exponential failures, without the approximation: elapsed / useful - 1."""
    elapsed = FAILURE_SECONDS * np.expm1((interval + blocked) / FAILURE_SECONDS)
    return elapsed / interval - 1


seconds = np.arange(60, 20_001)
by_formula = float(np.sqrt(2 * CHECKPOINT_SECONDS * FAILURE_SECONDS))
by_search = int(seconds[np.argmin(waste(seconds, CHECKPOINT_SECONDS))])
by_exact_search = int(seconds[np.argmin(exact_waste(seconds, CHECKPOINT_SECONDS))])
assert abs(by_search - by_formula) <= 1

async_search = int(seconds[np.argmin(waste(seconds, BLOCKED_SECONDS, CHECKPOINT_SECONDS))])
synchronous = float(waste(by_search, CHECKPOINT_SECONDS))
asynchronous = float(waste(async_search, BLOCKED_SECONDS, CHECKPOINT_SECONDS))

drawn = np.geomspace(seconds[0], seconds[-1], 200)
figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
axis.plot(
    drawn,
    100 * waste(drawn, CHECKPOINT_SECONDS),
    label=f"the run waits {CHECKPOINT_SECONDS:g} s",
)
axis.plot(
    drawn,
    100 * waste(drawn, BLOCKED_SECONDS, CHECKPOINT_SECONDS),
    "--",
    label=f"the run waits {BLOCKED_SECONDS:g} s, the write takes {CHECKPOINT_SECONDS:g} s",
)
least = [100 * synchronous, 100 * asynchronous]
axis.plot([by_search, async_search], least, "o", color="C3", label="least")
axis.set(xscale="log", ylim=(0, 40), xlabel="seconds of work between two saves", ylabel="waste, %")
axis.legend()
percent = 100 * synchronous
print(f"Interval: formula {by_formula:.1f} s, search {by_search} s, waste {percent:.1f} %")

# %% [markdown]
# <details>
# <summary>Your prediction: what each answer tells</summary>
#
# - **A**: The length of the write delays when a save counts, and that adds the same at every interval. What moves the minimum is what the run pays for each save, and that fell from 60 s to 5 s.
# - **B**: The minimum lies where two costs balance, and the interval enters both: it follows the square root of the blocked time, not the blocked time.
# - **C** (right): The best interval goes with the square root of the blocked seconds, and the square root of 12 is 3.46. It must stay longer than the write itself, or the next save waits for the one before.
#
# </details>
#
# <details>
# <summary>How to read the figure</summary>
#
# Read each curve from right to left: saving more often first pays, because less work is lost at a failure, until the saves themselves cost more than they rescue. The bottoms are flat: being wrong by a factor of two about the interval costs far less than being at either end. The dashed curve is lower and its dot lies further left, at 379 s with 3.1 %, because an asynchronous save stops the run for a shorter time; on the right, where failures decide, the kind of save hardly matters. Both are calculations from three assumed numbers, not measurements of a run.
#
# </details>

# %% [markdown]
# ### Material for the exercises
#
# Given: read it, and run it as it is.

# %% Material for the exercises id="material" role="build"
# cell: material
import shutil


def fresh(name):
    """A new empty folder; a cell that runs twice gets two of them."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=root))


def rehearse(announce):
    """Let a function decide four proposals in a copy of the run, in an order that SEED shuffles.

    Returns its decisions with what each proposal was, and the steps published in the end.
    """
    copy = fresh("rehearsal")
    for name in (first_path.name, live_path.name):
        shutil.copytree(root / name, copy / name)
    publish(copy / first_path.name, FIRST_STEP)
    next_step = FIRST_STEP + 1
    nudged = {**live, "weight": jnp.nextafter(live["weight"], jnp.inf)}
    proposals = {
        "right": (copy / live_path.name, next_step, live),
        "last bit of each weight differs": (copy / live_path.name, next_step, nudged),
        "folder of the step before": (copy / first_path.name, next_step, live),
        "label seven too high": (copy / live_path.name, next_step + 7, live),
    }
    names = [list(proposals)[at] for at in np.random.default_rng(SEED).permutation(4)]
    decisions = [(name, outcome(announce, *proposals[name])) for name in names]
    return decisions, [record["step"] for record in published(copy)]


MODEL_FILES = ("weight.npy", "step.npy")


def try_promotions(promote):
    """Let a function move a registry's SERVING.json to five versions, one after the other.

    Returns for each version: its name, the exception's name or "promoted", which version is
    served afterwards, whether the pointer's bytes changed, and which other files lie about.
    """
    registry = fresh("registry")
    first = f"v{FIRST_STEP}"
    for number in range(4):
        arrays = {"weight": by_hand(number)[:16] + SEED % 97, "step": np.int32(number)}
        write_arrays(registry / f"v{FIRST_STEP + number}", arrays)
    (registry / f"v{FIRST_STEP + 2}" / "step.npy").unlink()  # an upload that broke off
    pointer = registry / "SERVING.json"
    digest = folder_digest(registry / first)
    pointer.write_text(json.dumps({"version": first, "sha256": digest}), encoding="utf-8")

    seen = []
    order = np.random.default_rng(SEED).permutation([1, 2, 3, 8, 9]).tolist()
    for version in [f"v{FIRST_STEP + number}" for number in order]:
        before = pointer.read_bytes()
        result = outcome(promote, registry, version)
        result = result if isinstance(result, str) and result.endswith("Error") else "promoted"
        serving = json.loads(pointer.read_text(encoding="utf-8"))
        sound = (registry / str(serving["version"])).is_dir() and (
            serving["sha256"] == folder_digest(registry / str(serving["version"]))
        )
        others = sorted(one.name for one in registry.iterdir() if one.is_file() and one != pointer)
        changed = pointer.read_bytes() != before
        seen.append((version, result, serving["version"], sound, changed, others))
    return seen


def sabotage():
    """Folders with three published steps each, and what was done to them: name -> folder."""
    gallery, noise = fresh("sabotage"), np.random.default_rng(SEED)
    first, middle, newest = range(FIRST_STEP, FIRST_STEP + 3)
    untouched = gallery / "untouched"
    untouched.mkdir()
    for step in (first, middle, newest):
        arrays = {"weight": noise.normal(size=64).astype(np.float32), "step": np.int32(step)}
        write_arrays(untouched / f"step_{step}", arrays)
        publish(untouched / f"step_{step}", step)

    def copy(name):
        return Path(shutil.copytree(untouched, gallery / name))

    def weight(folder, step):
        return folder / f"step_{step}" / "weight.npy"

    def spoil(file):
        """Flip a bit of one of the weights: the file can still be read."""
        raw = bytearray(file.read_bytes())
        raw[-4 * int(noise.integers(1, 65)) + 2] ^= 0x40
        file.write_bytes(raw)

    for name, steps in {
        "newest flipped": [newest],
        "two flipped": [middle, newest],
        "all flipped": [first, middle, newest],
    }.items():
        folder = copy(name)
        for step in steps:
            spoil(weight(folder, step))
    file = weight(copy("newest truncated"), newest)
    file.write_bytes(file.read_bytes()[:-9])
    weight(copy("newest without its weight"), newest).unlink()
    shutil.rmtree(copy("newest folder gone") / f"step_{newest}")
    folder = copy("unpublished step")
    shutil.copytree(folder / f"step_{newest}", folder / f"step_{newest + 1}")

    for name, manifest_text in {
        "manifest torn": (untouched / "LATEST.json").read_text(encoding="utf-8")[:-40],
        "manifest of another kind": "[]",
    }.items():
        (copy(name) / "LATEST.json").write_text(manifest_text, encoding="utf-8")
    (copy("manifest gone") / "LATEST.json").unlink()

    records = published(untouched)
    without_digest = [*records[:2], {"step": newest, "path": f"step_{newest}"}]
    relabeled = [*records, {**records[0], "step": newest + 4}]
    for name, changed in {
        "newest record without digest": without_digest,
        "first folder under a newer label": relabeled,
    }.items():
        text = json.dumps({"format": 1, "accepted": changed})
        (copy(name) / "LATEST.json").write_text(text, encoding="utf-8")
    text = json.dumps({"format": 1, "accepted": relabeled})
    (copy("pending left over") / "LATEST.pending").write_text(text, encoding="utf-8")
    return {folder.name: folder for folder in sorted(gallery.iterdir())}


def survey(load):
    """What a loader makes of each folder: (step, sum of its weights), None, or an error's name."""
    seen = {}
    for name, folder in sabotage().items():
        found = outcome(load, folder)
        if isinstance(found, dict):
            weight = np.asarray(found["weight"], dtype=np.float64)
            found = (int(found["step"]), float(weight.sum()))
        seen[name] = found
    return seen

# %% [markdown]
# ### Make it yours: Verify, then publish
#
# `make-it-yours` · 2 points
#
# Step 2 is complete on the disk, and nobody has vouched for it. Write `announce(path, step, expected)`: it reads the folder back, and publishes it as `step` only if what it
# read is bit for bit `expected` and the step stored in it is `step`. It returns True if it published and False if it did not; then the manifest must be as before. `rehearse` lets your
# function decide four proposals in a copy of the run: the right one, one whose expected weights differ in the last bit, one that names the folder of the step before, and one with the wrong label.
#
# What it trains:
#
# - Tell a save that was requested, completed, verified and published apart, and say which of them recovery may use
# - Tell bytes that changed from a state that was never whole, and name the check that finds each
#
# How to go about it:
#
# 1. Restore `path` with the checkpointer as in the block that saves; `expected` may serve as the target.
# 2. Compare what came from the disk with `expected` by the function that looks at bits.
# 3. Compare the step that is stored in the folder with the label under which it shall be announced.
# 4. Publish only when both comparisons hold, and return the decision.
#
# <details>
# <summary>Hint 1</summary>
#
# There are three things that must agree: the bytes on the disk, the state you expect, and the label. Each pair of them can disagree while another pair agrees.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# With `found = checkpointer.restore(path, args=ocp.args.StandardRestore(expected))`, the conditions are `same_bits(found, expected)` and `int(found["step"]) == step`. Only then call `publish(path, step)`.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% Verify, then publish id="make-it-yours" role="exercise"
# cell: make-it-yours
def announce(path, step, expected):
    """Publish `path` as `step` if what is on the disk is bit for bit `expected` and of that step.

    Returns True if it was published and False if not; then the manifest is as it was before.
    """
    ...  # TODO: read the folder back, decide, publish only if both conditions hold


decisions, steps_published = rehearse(announce)

# %% [markdown]
# ### Transfer: A missing target is refused
#
# `missing-target` · 1 point
#
# A registry of models has a pointer too: `SERVING.json` names the version that is served, `{"version": …, "sha256": …}`, with the digest of the version's folder. Write `promote(registry,
# version)`, which moves the pointer; `registry` is the `Path` of a folder. If the version's folder or one of the files in `MODEL_FILES` is missing, it raises FileNotFoundError, and the registry is byte for byte as it was: the pointer
# unchanged, and no other file lying about. `try_promotions` tries five versions on a registry; two of them do not exist, and one upload broke off halfway.
#
# What it trains:
#
# - Tell a save that was requested, completed, verified and published apart, and say which of them recovery may use
# - Say what a killed or terminated process leaves behind, and what recovery selects
#
# How to go about it:
#
# 1. List what must be true of `registry / version` before anything is written.
# 2. Check all of it first; raise FileNotFoundError for the first thing that is missing.
# 3. Write the new pointer under another name in the same folder.
# 4. Replace the old pointer by it in one step, as `publish` does.
#
# <details>
# <summary>Hint 1</summary>
#
# The order is the exercise: what happens to the pointer if the check comes after the write? And which folder exists although it is not a complete model?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Loop over `MODEL_FILES` with `(registry / version / name).is_file()` and raise if one is missing. Then write the JSON text, with `preflight(registry / version)` as the digest, to `registry / "SERVING.pending"`, and `os.replace` it onto `registry / "SERVING.json"`.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% A missing target is refused id="missing-target" role="exercise"
# cell: missing-target
def promote(registry, version):
    """Let registry/SERVING.json name another version: {"version": …, "sha256": …}.

    Raises FileNotFoundError, and leaves SERVING.json as it is, unless registry/version is a
    folder with each of MODEL_FILES in it.
    """
    ...  # TODO: check everything first; then pending file and replace


promotions = try_promotions(promote)

# %% [markdown]
# ### Challenge: A loader that survives
#
# `sabotage` · 3 points
#
# `sabotage` makes folders in which steps were published by the protocol and then somebody was at work: bits flipped, files cut or removed, manifests torn, records relabeled, leftovers of killed
# writers added. Write `load(folder)`, with a `Path`: it returns the arrays (`read_arrays`) of the newest *published* step whose folder still has the recorded digest and whose stored `step` is the recorded one, or None
# if there is none. It does not raise for any of them. `accepted` in the lesson is not enough: find out which folders it gets wrong, or raises for.
#
# What it trains:
#
# - Say what a killed or terminated process leaves behind, and what recovery selects
# - Tell bytes that changed from a state that was never whole, and name the check that finds each
#
# How to go about it:
#
# 1. Run `{name: outcome(accepted, folder) for name, folder in sabotage().items()}` and explain each answer.
# 2. Read the manifest; decide what a manifest that cannot be read means for recovery.
# 3. Go through the records from the newest to the oldest, and let every doubt about one of them lead to the next.
# 4. Check the digest before you read the arrays, and the stored step after it.
#
# <details>
# <summary>Hint 1</summary>
#
# There are three layers, and each can be damaged alone: the manifest, a record in it, the folder the record names. A damage of one record must not keep you from the next; a damage of the manifest leaves nothing to believe.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `try: records = list(reversed(published(folder)))`, and None for OSError, ValueError, LookupError or TypeError. For each record, again in a `try`: if `folder_digest(folder / record["path"]) == record["sha256"]`, read the arrays and return them if `int(arrays["step"]) == record["step"]`; otherwise go on.
#
# </details>
#
# Write in the cell below: put your code where it says `...`, and take the `TODO` away.

# %% A loader that survives id="sabotage" role="exercise"
# cell: sabotage
def load(folder):
    """The arrays of the newest published step that is still what was published, or None.

    A step counts if its folder has the recorded digest and the `step` stored in it is the
    recorded one. A damaged record or manifest counts as none: it is no reason to raise.
    """
    ...  # TODO: the newest record that holds in every respect, or None


loaded = survey(load)

# %% [markdown]
# ### Close
#
# Given. Its line says that the run has reached its end. Whether your answers are right, only the check says.

# %% Close id="close" role="build"
# cell: close
checkpointer.wait_until_finished()
print("PASS: recovery-05")
