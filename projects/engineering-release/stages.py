# %% Parameters id="parameters" role="parameters"
SEED = 6  # decides orders, values and names of everything that is asked
SLOPE = 2.0
INTERCEPT = 1.0
RATES = (0.02, 0.15)
UPDATES = 30
MAX_VALUES = 16  # how many values a request may hold

# %% The module, and how it is asked id="setup" role="build"
# ruff: noqa: E402 - imports follow code here: MLflow only once tracking.py has switched its reports off
import atexit
import gc
import hashlib
import http.client
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

here = Path(__file__).resolve().parent if "__file__" in globals() else Path.cwd()
# One kernel makes several runs, each in a folder of its own: nothing may come from the run before.
for name in ("loading", "tracking", "line", "mlflow_lab", "engineering"):
    sys.modules.pop(name, None)
sys.path[:] = [str(here), *(place for place in sys.path if not (Path(place) / "mlflow_lab.py").is_file())]

import loading

path = loading.find(None, here)
engineering: Any = None
broken = ""
try:
    engineering = loading.load(path)
except (Exception, SystemExit) as error:
    broken = loading.told(error, path)


class Answers:
    """What the module answered in a stage, each question on its own: one that raised raises again when it is looked at."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.given: dict[str, Any] = {}

    def question(self, asks: Callable[[], Any]) -> Callable[[], Any]:
        """Ask at once, under the name of the function."""
        try:
            if broken:
                raise RuntimeError(broken)
            self.given[asks.__name__] = asks()
        except (Exception, SystemExit) as error:
            said = broken or loading.told(error, path)
            self.given[asks.__name__] = RuntimeError(said)
            print(f"{self.stage}, {asks.__name__}: {said}")
        return asks

    def __getitem__(self, name: str) -> Any:
        if isinstance(self.given[name], RuntimeError):
            raise self.given[name]
        return self.given[name]

    def close(self) -> None:
        """Say how many questions have an answer. Whether it is right is said elsewhere."""
        answered = sum(not isinstance(one, RuntimeError) for one in self.given.values())
        print(f"{self.stage}: {answered} of {len(self.given)} questions answered")


def refusal(call: Callable[[], Any]) -> Any:
    """The name of the exception with which a call is refused, or what it gave. A stub is no refusal."""
    try:
        return call()
    except NotImplementedError:
        raise
    except Exception as error:
        return type(error).__name__


def sha256(content: bytes) -> str:
    """The digest of bytes, 64 hex digits."""
    return hashlib.sha256(content).hexdigest()


# %% A store for each stage id="store" role="build"
import line
import mlflow_lab
import tracking
from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

workspace = Path(tempfile.mkdtemp(prefix="engineering-"))
atexit.register(shutil.rmtree, workspace, ignore_errors=True)

# A new database takes two seconds of migrations. One is made for all runs of this process, and copied.
empty = Path(os.environ.get("ENGINEERING_EMPTY_STORE", ""))
if not empty.is_file():
    kept = tempfile.mkdtemp(prefix="engineering-")
    atexit.register(shutil.rmtree, kept, ignore_errors=True)
    empty = Path(kept) / "empty.db"
    tracking.make_empty(empty)
    os.environ["ENGINEERING_EMPTY_STORE"] = str(empty)
    # The libraries stay; the collector need not look through a quarter of a million objects again and again.
    gc.freeze()


def store_of(stage: str) -> Any:
    """An embedded store of its own for a stage; a context that gives its client."""
    return tracking.opened(workspace / stage, empty=empty)


def new_run(client: MlflowClient, experiment_id: str, label: str, moment: int = 1000, **params: str) -> str:
    """A run that this file makes, without the module."""
    run_id = client.create_run(experiment_id, start_time=moment, run_name=label).info.run_id
    if params:
        client.log_batch(run_id, params=[Param(key, value) for key, value in params.items()])
    return run_id


def label_of(client: MlflowClient, run_id: Any) -> str:
    """The name of a run: ids differ each time."""
    try:
        return str(client.get_run(run_id).info.run_name)
    except MlflowException:
        return f"no run: {run_id!r}"


# %% Stage 1: identity id="identity" role="stage"
identity = Answers("identity")
chance = random.Random(f"identity/{SEED}")
data = line.splits(SLOPE, INTERCEPT).train
with store_of("identity") as client:
    experiment = client.create_experiment("identity", artifact_location=(workspace / "identity" / "a").as_uri())

    @identity.question
    def digests() -> dict[str, str]:
        joined = np.concatenate([data.x, data.y])
        table = np.stack([data.x, data.y], axis=1)
        long = np.arange(2000, dtype=np.float32) + np.float32(chance.randrange(1000))
        edited = long.copy()
        edited[chance.randrange(500, 1500)] += 1
        return {
            "inputs and targets": engineering.data_digest(data.x, data.y),
            "the border moved": engineering.data_digest(joined[:4], joined[4:]),
            "wider floats": engineering.data_digest(data.x.astype(np.float64), data.y),
            "another shape": engineering.data_digest(joined.reshape(2, 5)),
            "a column of a table": engineering.data_digest(table[:, 1]),
            "two thousand values": engineering.data_digest(long),
            "one of them edited": engineering.data_digest(edited),
        }

    # Line ends of two kinds, and bytes that are no text.
    contents = {
        "model.bin": bytes(chance.randrange(256) for _ in range(40)) + b"\r\n\xff\n",
        "b.py": f"B = {chance.random()}\n".encode(),
        "a.py": f"A = {chance.random()}\r\nshared = 1\n".encode(),
    }
    for folder in ("here", "there", "moved"):
        (workspace / folder).mkdir()
        for file, content in contents.items():
            (workspace / folder / file).write_bytes(content)
    (workspace / "moved" / "a.py").write_bytes(contents["a.py"].removesuffix(b"shared = 1\n"))
    (workspace / "moved" / "b.py").write_bytes(b"shared = 1\n" + contents["b.py"])

    @identity.question
    def files() -> dict[str, str]:
        places = {"here": "model.bin", "there": "model.bin", "moved": "a.py"}
        return {folder: engineering.file_digest(workspace / folder / file) for folder, file in places.items()}

    @identity.question
    def programs() -> dict[str, str]:
        return {
            "in one order": engineering.code_digest(workspace / "here", ["b.py", "a.py"]),
            "in another": engineering.code_digest(workspace / "here", ["a.py", "b.py"]),
            "in another folder": engineering.code_digest(workspace / "there", ["b.py", "a.py"]),
            "a line moved to the next file": engineering.code_digest(workspace / "moved", ["b.py", "a.py"]),
            "one file": engineering.code_digest(workspace / "here", ["a.py"]),
        }

    @identity.question
    def statement() -> dict[str, Any]:
        said = engineering.Statement(RATES[0], UPDATES, sha256(data.x.tobytes()), sha256(contents["a.py"]))
        run = client.get_run(engineering.begin_run(client, experiment, "stated", said))
        after = {}
        for key in ("rate", "updates", "data_sha256", "code_sha256"):
            try:
                client.log_param(run.info.run_id, key, "changed")
                after[key] = "changed"
            except MlflowException as error:
                after[key] = error.error_code
        return {
            "params": run.data.params,
            "boundary": run.data.tags.get("metric_boundary"),
            "status": run.info.status,
            "when it is changed": after,
        }

    @identity.question
    def logged() -> dict[str, np.ndarray]:
        run_id = new_run(client, experiment, "logged")
        engineering.log_curve(client, run_id, [chance.random() for _ in range(UPDATES)])
        found = sorted((point.step, point.value) for point in client.get_metric_history(run_id, "train_mse"))
        return {"steps": np.array([step for step, _ in found]), "values": np.array([value for _, value in found])}

    # A run that was killed and resumed: some steps twice, and nobody promises the order in which points arrive.
    killed = chance.randrange(8, UPDATES - 2)
    steps = [*range(1, killed + 1), *range(killed - chance.randrange(2, 6), UPDATES + 1)]
    points = [(1000 + moment, step, chance.random()) for moment, step in enumerate(steps)]
    chance.shuffle(points)

    def run_with(points: list[tuple[int, int, float]]) -> str:
        run_id = new_run(client, experiment, "points")
        client.log_batch(run_id, metrics=[Metric("train_mse", value, moment, step) for moment, step, value in points])
        return run_id

    @identity.question
    def curve() -> np.ndarray:
        return np.array(engineering.read_curve(client, run_with(points), UPDATES))

    @identity.question
    def gaps() -> dict[str, Any]:
        lost = chance.randrange(2, UPDATES)
        kinds = {
            "one step lost": [point for point in points if point[1] != lost],
            "shorter than claimed": [point for point in points if point[1] != UPDATES],
            "counted from zero": [(moment, step - 1, value) for moment, step, value in points],
            "longer than claimed": [*points, (5000, UPDATES + 1, 0.5)],
        }

        def read(some: list[tuple[int, int, float]]) -> str:
            return f"{len(engineering.read_curve(client, run_with(some), UPDATES))} values"

        return {kind: refusal(lambda some=some: read(some)) for kind, some in kinds.items()}

    # What the store itself makes of repeated steps: measured for the guide.
    repeated = run_with([(1000, 1, 0.5), (1001, 2, 0.4), (1002, 2, 0.3), (1003, 1, 0.9)])
    kept_points = sorted((one.timestamp, one.step, one.value) for one in client.get_metric_history(repeated, "train_mse"))
    latest = client.get_run(repeated).data.metrics["train_mse"]
identity.close()

# %% Stage 2: release id="release" role="stage"
release = Answers("release")
chance = random.Random(f"release/{SEED}")
good_data, other_data = sha256(f"good {SEED}".encode()), sha256(f"other {SEED}".encode())
with store_of("release") as client:
    experiment = client.create_experiment("release", artifact_location=(workspace / "release" / "a").as_uri())

    @release.question
    def errors() -> list[float]:
        split = line.splits(SLOPE, INTERCEPT)
        lines = [engineering.Line(chance.uniform(-3, 3), chance.uniform(-3, 3)) for _ in range(3)]
        parts = (split.train, split.validation, split.test)
        return [engineering.mse(one, part.x.tolist(), part.y.tolist()) for one in lines for part in parts]

    # What each run logged, and why it is or is not the one. The errors rank them differently by each metric.
    unit = chance.uniform(0.01, 0.1)
    histories = [
        ("best", good_data, "FINISHED", {"train_mse": 4, "validation_mse": 3, "test_mse": 4}),
        ("overfitted", good_data, "FINISHED", {"train_mse": 1, "validation_mse": 6, "test_mse": 6}),
        ("lucky in the test", good_data, "FINISHED", {"train_mse": 5, "validation_mse": 5, "test_mse": 1}),
        ("failed", good_data, "FAILED", {"train_mse": 4, "validation_mse": 2, "test_mse": 3}),
        ("on other data", other_data, "FINISHED", {"train_mse": 3, "validation_mse": 1, "test_mse": 2}),
        ("without error", good_data, "FINISHED", {"train_mse": 3, "test_mse": 3}),
    ]
    chance.shuffle(histories)
    # The newest is the one that diverged: what takes the first that comes takes this one.
    histories.append(("diverged", good_data, "FINISHED", dict.fromkeys(("train_mse", "validation_mse", "test_mse"), math.nan)))

    def world(histories: list[Any]) -> str:
        place = client.create_experiment(f"runs-{chance.random()}", artifact_location=(workspace / "release" / "a").as_uri())
        for number, (label, digest, status, metrics) in enumerate(histories):
            run_id = new_run(client, place, label, 1000 + number, data_sha256=digest)
            client.log_batch(run_id, metrics=[Metric(key, value * unit, 1000, UPDATES) for key, value in metrics.items()])
            client.set_terminated(run_id, status)
        return place

    @release.question
    def selected() -> dict[str, Any]:
        nobody = [one for one in histories if one[0] in {"failed", "on other data", "without error", "diverged"}]
        # Stable: all in their order, but the overfitted one the newest.
        sound = sorted(histories, key=lambda one: one[0] == "overfitted")
        return {
            "of all": label_of(client, engineering.select_run(client, world(histories), good_data)),
            "of all, the newest one sound": label_of(client, engineering.select_run(client, world(sound), good_data)),
            "of those on other data": label_of(client, engineering.select_run(client, world(histories), other_data)),
            "of none that counts": refusal(lambda: label_of(client, engineering.select_run(client, world(nobody), good_data))),
        }

    @release.question
    def registered() -> dict[str, Any]:
        runs = {label: new_run(client, experiment, label) for label in "ab"}
        bytes_of = {label: sha256(f"{label} {chance.random()}".encode()) for label in ("first", "second", "third")}
        wanted = [("a", "first"), ("b", "second"), ("a", "first"), ("a", "third"), ("b", "first")]
        source = (workspace / "release" / "model").as_uri()
        returned = [engineering.register(client, "line", runs[run], source, bytes_of[some]) for run, some in wanted]
        stored = sorted(client.search_model_versions("name = 'line'"), key=lambda one: int(one.version))
        return {
            "returned": returned,
            "stored": [(label_of(client, one.run_id), one.tags.get("model_sha256")) for one in stored],
        }

    def candidate(version: int, error: float, **other: Any) -> Any:
        fields = {"data_sha256": good_data, "train_mse": error / 2, "logged_mse": error, "recomputed_mse": error, **other}
        return engineering.Candidate(version=version, **fields)

    @release.question
    def gate() -> dict[str, str]:
        limit, low = chance.uniform(0.5, 2), chance.uniform(0.1, 0.4)
        terms = engineering.Terms(good_data, limit)
        champion = candidate(1, low)
        cases = {
            "the first, good": (candidate(2, low), None),
            "the first, at the limit": (candidate(2, limit), None),
            "the first, above it": (candidate(2, limit * 1.01), None),
            "better": (candidate(2, low * 0.9), champion),
            "equal": (candidate(2, low), champion),
            "worse": (candidate(2, low * 1.1), champion),
            "worse, but perfect in training": (candidate(2, low * 1.1, train_mse=0.0), champion),
            "better, though not in training": (candidate(2, low * 0.9, train_mse=low * 5), champion),
            "on other data": (candidate(2, low / 2, data_sha256=other_data), champion),
            "logged better than it is": (candidate(2, low * 1.1, logged_mse=low * 0.9), champion),
            "logged in float32": (candidate(2, low * 0.9, logged_mse=low * 0.9 * (1 + 3e-6)), champion),
            "not a number": (candidate(2, math.nan), champion),
            "not a number, the first": (candidate(2, math.nan), None),
            "only logged as not a number": (candidate(2, low * 0.9, logged_mse=math.nan), champion),
        }
        said = {case: engineering.refusals(one, present, terms) or ("none: promoted",) for case, (one, present) in cases.items()}
        reasons = sorted({reason for some in said.values() for reason in some})
        return {reason: " | ".join(case for case, some in said.items() if reason in some) for reason in reasons}

    def versions_of(model: str, count: int) -> None:
        client.create_registered_model(model)
        for _ in range(count):
            client.create_model_version(model, (workspace / "release" / "model").as_uri())

    @release.question
    def resolved() -> list[Any]:
        versions_of("resolve", 5)
        found = [engineering.resolve(client, "resolve", "champion")]
        for version in chance.sample(range(1, 5), 3):
            client.set_registered_model_alias("resolve", "champion", str(version))
            found.append(engineering.resolve(client, "resolve", "champion"))
        return found

    @release.question
    def promoted() -> dict[str, Any]:
        start = chance.uniform(0.3, 0.6)
        line_up = [
            candidate(1, 5.0),
            candidate(2, start),
            candidate(3, start * 1.2),
            candidate(4, start * 0.5),
            candidate(5, start * 0.4, data_sha256=other_data),
            candidate(6, math.nan),
        ]
        versions_of("promote", len(line_up))
        told, stored, champions, aliases = [], [], [], []
        for one in line_up:
            alias = client.get_registered_model("promote").aliases.get("champion")
            present = line_up[int(alias) - 1] if alias else None
            decision = engineering.promote(client, "promote", "champion", one, present, engineering.Terms(good_data, 1.0))
            told.append(f"{decision.version}: {'; '.join(sorted(decision.reasons))}")
            refused = client.get_model_version("promote", str(one.version)).tags.get("refused", "").split("; ")
            stored.append("the same" if sorted(refused) == sorted(decision.reasons or ("",)) else "; ".join(refused))
            champions.append(decision.champion or 0)
            aliases.append(int(client.get_registered_model("promote").aliases.get("champion", 0)))
        return {
            "reasons": told,
            "reasons in the store": stored,
            "champions": np.array(champions),
            "alias in the store": np.array(aliases),
        }


release.close()

# %% Stage 3: record id="record" role="stage"
record = Answers("record")
chance = random.Random(f"record/{SEED}")
lab_curves: dict[str, list[float]] = {}
lab_errors: dict[str, float] = {}
lab_refused: dict[str, str] = {}
with store_of("record") as client:
    experiment = client.create_experiment("record", artifact_location=(workspace / "record" / "a").as_uri())

    @record.question
    def prompts() -> dict[str, Any]:
        texts = [f"{{{{name}}}} of {chance.random()}" for _ in range(3)]
        order = [0, 0, 1, 0, 2, 1]
        given = [engineering.register_prompt(client, "note", texts[number]) for number in order]
        stored = sorted(client.search_prompt_versions("note"), key=lambda one: int(one.version))
        return {"returned": given, "stored": [one.template for one in stored]}

    def spans_of(trace: Any) -> list[dict[str, Any]]:
        names = {span.span_id: span.name for span in trace.data.spans}
        return sorted(
            (
                {"name": one.name, "under": names.get(one.parent_id), "inputs": one.inputs, "outputs": one.outputs}
                for one in trace.data.spans
            ),
            key=lambda span: (span["name"], str(span)),
        )

    weight, bias = chance.uniform(1, 3), chance.uniform(-1, 1)
    test = line.splits(SLOPE, INTERCEPT).test

    @record.question
    def evaluated() -> dict[str, Any]:
        place = client.create_experiment("evaluated")
        calls = []

        def model(inputs: list[float]) -> list[float]:
            calls.append(len(inputs))
            return [weight * x + bias for x in inputs]

        done = engineering.evaluate_traced(client, place, model, test.x.tolist(), test.y.tolist())
        traces = client.search_traces(locations=[place], flush=True)
        return {
            "error": done.mse,
            "calls of the model": calls,
            "traces": [one.info.trace_id == done.trace_id for one in traces],
            "spans": [spans_of(one) for one in traces],
            "states": [str(one.info.state.value) for one in traces],
        }

    @record.question
    def interrupted() -> dict[str, Any]:
        place = client.create_experiment("interrupted")

        def model(inputs: list[float]) -> list[float]:
            raise ZeroDivisionError("the model broke")

        raised = refusal(lambda: engineering.evaluate_traced(client, place, model, test.x.tolist(), test.y.tolist()))
        traces = client.search_traces(locations=[place], flush=True)
        return {
            "raised": raised,
            "traces": [sorted(span.name for span in one.data.spans) for one in traces],
            "states": [str(one.info.state.value) for one in traces],
        }

    # A registry with a history: five versions, of which two were refused; the alias leads to one in the middle.
    stored = {version: json.dumps({"weight": chance.random(), "bias": version}).encode() for version in range(1, 6)}
    # The fourth is the second once more; the fifth claims the bytes of the first, and holds its own.
    stored[4] = stored[2]
    claimed = {**{version: sha256(content) for version, content in stored.items()}, 5: sha256(stored[1])}
    champion = chance.choice((2, 3))
    refused = {1: "error above the limit", 5: "fitted to other data; not better than the champion"}
    client.create_registered_model("history")
    labels = [f"run {chance.randrange(10**6)}" for _ in stored]
    for version, label in zip(stored, labels, strict=True):
        digest = {"data_sha256": sha256(f"data {label}".encode()), "code_sha256": sha256(f"code {label}".encode())}
        run_id = new_run(client, experiment, label, **digest)
        client.log_metric(run_id, "validation_mse", chance.random(), step=UPDATES)
        client.log_metric(run_id, "train_mse", chance.random(), step=UPDATES)
        tags = {"model_sha256": claimed[version], **({"refused": refused[version]} if version in refused else {})}
        client.create_model_version("history", (workspace / "record" / "model").as_uri(), run_id=run_id, tags=tags)
    # A trace of another program: its names must come from the store.
    root = client.start_trace("judge", experiment_id=experiment)
    for label in [f"step {chance.randrange(1000)}" for _ in range(2)]:
        client.end_span(root.trace_id, client.start_span(label, root.trace_id, root.span_id).span_id)
    client.end_trace(root.trace_id)

    def as_text(refused: list[dict[str, Any]]) -> str:
        return " | ".join(f"{one['version']}: {'; '.join(sorted(one['reasons']))}" for one in refused)

    def written(alias: str, fetch: Callable[[int], bytes] = stored.__getitem__) -> dict[str, Any]:
        error, prompt = chance.random(), chance.randrange(2, 9)
        done = engineering.release_record(client, "history", alias, fetch, engineering.Evaluation(error, root.trace_id), prompt)
        return {field: done.get(field, "is missing") for field in mlflow_lab.FIELDS}

    @record.question
    def fields() -> dict[str, Any]:
        client.set_registered_model_alias("history", "champion", str(champion))
        found = written("champion")
        found["run_id"] = label_of(client, found["run_id"])
        found["trace_id"] = found["trace_id"] == root.trace_id
        found["spans"] = sorted(found["spans"])
        return {**found, "refused": as_text(found["refused"])}

    @record.question
    def contradictions() -> dict[str, Any]:
        client.set_registered_model_alias("history", "impostor", "5")
        client.set_registered_model_alias("history", "swapped", str(champion))
        swapped = {**stored, champion: stored[champion] + b" "}
        return {
            "no such alias": refusal(lambda: sorted(written("nobody"))[:0]),
            "other bytes than its tag says": refusal(lambda: sorted(written("impostor"))[:0]),
            "bytes swapped afterwards": refusal(lambda: sorted(written("swapped", swapped.__getitem__))[:0]),
        }

    @record.question
    def origins() -> dict[str, Any]:
        def origin(content: bytes) -> Any:
            found = engineering.trace_back(client, "history", stored.__getitem__, content)
            return found and {**found, "run_id": label_of(client, found["run_id"])}

        return {
            "of the third": origin(stored[3]),
            "of bytes that two versions hold": origin(stored[2]),
            "of bytes that one holds and another claims": origin(stored[1]),
            "of the claimant's own": origin(stored[5]),
            "of one byte more": origin(stored[3] + b"\n"),
        }

    @record.question
    def lab() -> dict[str, Any]:
        folder = workspace / "record" / "lab"
        folder.mkdir()
        settings = mlflow_lab.Settings(rates=RATES, updates=UPDATES, slope=SLOPE, intercept=INTERCEPT)
        mlflow_lab.release(engineering, client, folder, settings)
        found = json.loads((folder / "release.json").read_bytes())
        models = {sha256(tracking.fetch("line-fit", version)): f"of version {version}" for version in found["versions"]}
        for run_id in found["run_ids"]:
            one = client.get_run(run_id)
            lab_curves[one.info.run_name] = [
                point.value for point in sorted(client.get_metric_history(run_id, "train_mse"), key=lambda point: point.step)
            ]
            lab_errors[one.info.run_name] = one.data.metrics["validation_mse"]
        for one in client.search_model_versions("name = 'line-fit'"):
            lab_refused[label_of(client, one.run_id)] = one.tags.get("refused", "")
        run = client.get_run(found["run_id"])
        return {
            "runs": [label_of(client, run_id) for run_id in found["run_ids"]],
            "versions": found["versions"],
            "champion_version": found["champion_version"],
            "alias in the store": int(client.get_registered_model("line-fit").aliases["champion"]),
            "run_id": run.info.run_name,
            "data_sha256": found["data_sha256"],
            "code_sha256": {run.data.params.get("code_sha256"): "of its run"}.get(found["code_sha256"]),
            "model_sha256": models.get(found["model_sha256"]),
            "model.json": models.get(sha256((folder / "model.json").read_bytes())),
            "validation_mse": found["validation_mse"],
            "test_mse": found["test_mse"],
            "refused": as_text(found["refused"]),
            "prompt_version": found["prompt_version"],
            "spans": sorted(found["spans"]),
            "counts": [found["trace_count"], found["span_count"]],
        }


record.close()

# %% Stage 4: service id="service" role="stage"
service = Answers("service")
chance = random.Random(f"service/{SEED}")
place = workspace / "service"
place.mkdir()
weight, bias = chance.uniform(-3, 3), chance.uniform(-3, 3)
good = line.model_bytes({"weight": weight, "bias": bias})


def file_with(content: bytes) -> Path:
    """A new file that holds these bytes."""
    handle, made = tempfile.mkstemp(suffix=".json", dir=place)
    os.write(handle, content)
    os.close(handle)
    return Path(made)


@service.question
def loaded() -> dict[str, Any]:
    def load(content: bytes, digest: str | None = None) -> Any:
        read = refusal(lambda: engineering.load_line(file_with(content), sha256(content) if digest is None else digest))
        return read if isinstance(read, str) else [read.weight, read.bias]

    number = str(chance.randrange(2, 9))
    texts = {
        "a weight that is a text": '{"weight": "%s", "bias": 1.0}',
        "a weight that is true": '{"weight": true, "bias": %s}',
        "a bias that is not a number": '{"weight": %s, "bias": NaN}',
        "a weight beyond all floats": '{"weight": %s' + "0" * 400 + ', "bias": 1}',
        "no bias": '{"weight": %s}',
        "a list": "[%s, 1]",
        "no JSON": "weight: %s",
    }
    return {
        "the released one": load(good),
        "whole numbers": load(f'{{"weight": {number}, "bias": 0}}'.encode()),
        "edited afterwards": load(good.replace(b"}", b" }"), sha256(good)),
        "the beginning of the digest": load(good, sha256(good)[:12]),
        "no digest": load(good, ""),
        "no file": refusal(lambda: engineering.load_line(place / "nowhere.json", sha256(good))),
        **{what: load((text % number).encode()) for what, text in texts.items()},
    }


def bodies() -> dict[str, bytes]:
    """Requests of every kind, good and bad."""
    few = [round(chance.uniform(-9, 9), 3) for _ in range(3)]
    cases: dict[str, Any] = {
        "three values": few,
        "whole numbers": [chance.randrange(-9, 9), 0],
        "as many as allowed": [chance.randrange(9) for _ in range(MAX_VALUES)],
        "the largest value": [1e6, -1e6],
        "one too many": [chance.randrange(9) for _ in range(MAX_VALUES + 1)],
        "too many texts": ["a"] * (MAX_VALUES + 1),
        "none": [],
        "true": [few[0], True],
        "a text": [few[0], "3"],
        "null": [None],
        "a list in the list": [[few[0]]],
        "a number alone": few[0],
        "beyond the largest": [few[0], 1e6 + 1],
    }
    texts = {
        "NaN": b'{"x": [1.5, NaN]}',
        "Infinity": b'{"x": [-Infinity]}',
        "a float beyond all floats": b'{"x": [1e999]}',
        "a whole number beyond all floats": b'{"x": [1' + b"0" * 400 + b"]}",
        "another key": b'{"y": [1.5]}',
        "a key too many": b'{"x": [1.5], "rate": 0.1}',
        "a list": b"[1.5]",
        "empty": b"",
        "half of it": b'{"x": [1.5',
        "not UTF-8": b'{"x": [1.5], "\xff": 1}',
        "very deep": b"[" * 8000,
    }
    return {**{what: json.dumps({"x": value}).encode() for what, value in cases.items()}, **texts}


asked_bodies = bodies()


@service.question
def parsed() -> dict[str, Any]:
    def parse(body: bytes) -> tuple[Any, Any]:
        try:
            return 200, engineering.parse_request(body, MAX_VALUES)
        except engineering.RequestRefused as error:
            return error.status, None

    heard = {}
    for what, body in asked_bodies.items():
        one = refusal(lambda body=body: parse(body))
        heard[what] = one if isinstance(one, tuple) else (one, None)
    # Which requests get which status, and all values that are taken, in the order of the requests.
    found: dict[str, Any] = {"values": np.array([value for _, some in heard.values() for value in some or ()], dtype=np.float64)}
    for status in sorted({str(status) for status, _ in heard.values()}):
        found[status] = ", ".join(what for what, (got, _) in heard.items() if str(got) == status)
    return found


@service.question
def predicted() -> list[float]:
    return engineering.predict(engineering.Line(weight, bias), [chance.uniform(-5, 5) for _ in range(4)])


@contextmanager
def started(model: Path, digest: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The service in a process of its own: its port, or 0 if it has ended before it listened."""
    words = [sys.executable, str(here / "service.py"), "--model", str(model), "--sha256", digest, "--port", "0"]
    words += ["--implementation", str(path), "--max-values", str(MAX_VALUES)]
    process = subprocess.Popen(words, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # Whatever happens, it does not live longer than this.
    watch = threading.Timer(45, process.kill)
    watch.start()
    try:
        port = 0
        assert process.stdout is not None
        for text in process.stdout:
            # The module may print something of its own before.
            with suppress(ValueError, TypeError, KeyError):
                port = json.loads(text)["port"]
                break
        yield port, process
    finally:
        process.terminate()
        process.communicate()
        watch.cancel()


def answered(port: int, body: bytes, method: str = "POST", target: str = "/predict") -> tuple[int, Any]:
    """One request in a connection of its own: status and JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, target, body or None)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


@service.question
def impostor() -> dict[str, Any]:
    with started(file_with(good.replace(b"}", b" }")), sha256(good)) as (port, process):
        if port:
            return {"listens": True, "says": answered(port, b"", "GET", "/ready")[0]}
        said = process.communicate()[1].strip()
    # Only a refusal is an answer: a module that is broken has ended for another reason.
    if process.returncode != 3:
        raise RuntimeError(said)
    return {"listens": False, "exit code": process.returncode}


@service.question
def conversation() -> dict[str, Any]:
    order = list(asked_bodies)
    chance.shuffle(order)
    heard = {}
    with started(file_with(good), sha256(good)) as (port, process):
        if not port:
            raise RuntimeError(process.communicate()[1].strip())
        ready, before = answered(port, b"", "GET", "/ready")
        for what in order:
            status, said = answered(port, asked_bodies[what])
            heard[what] = (status, said.get("y"))
        # After all that it still answers, and rightly.
        status, after = answered(port, asked_bodies["three values"])
    statuses = sorted(Counter(str(status) for status, _ in heard.values()).items())
    answers = [value for what in ("three values", "the largest value") for value in heard[what][1] or ()]
    return {
        "ready": ready,
        "says which model": [one["model_sha256"] == sha256(good) for one in (before, after)],
        "at the end": [status, *after["y"]],
        "statuses": dict(statuses),
        "answers": np.array(answers, dtype=np.float64),
    }


service.close()

# %% Training error and the gate id="decisions" role="figure"
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.0), layout="constrained")
looks = [("tab:blue", "-", "o"), ("tab:orange", "--", "s"), ("tab:gray", ":", "^")]
for (label, values), (color, style, marker) in zip(lab_curves.items(), looks, strict=False):
    # A logarithmic axis cannot show zero; the third run's training error is exactly that.
    if min(values) > 0:
        left.plot(range(1, len(values) + 1), values, color=color, linestyle=style, marker=marker, markersize=3, label=label)
left.set_yscale("log")
left.set_xlabel("completed updates")
left.set_ylabel("training MSE after the update")
left.set_title("What the runs logged")
if lab_curves:
    left.legend()
for row, ((label, value), (color, _, marker)) in enumerate(zip(lab_errors.items(), looks, strict=False)):
    right.plot([value], [row], color=color, marker=marker, markersize=10, linestyle="none", label=label)
    verdict = "refused" if lab_refused[label] else "promoted"
    right.annotate(verdict, (value, row), xytext=(0, 12), textcoords="offset points", ha="center")
right.axvline(mlflow_lab.Settings.limit, color="black", linewidth=1)
right.set_xscale("log")
right.set_yticks(range(len(lab_errors)), list(lab_errors))
right.set_ylim(-0.5, len(lab_errors) - 0.3)
right.set_xlim(1e-11, 1e3)
right.set_xlabel("validation MSE")
right.set_title("What the gate decided")

# %% The end id="end" role="build"
print("Everything has been asked; what the answers are worth is said by: make check PROJECT=engineering-release")
