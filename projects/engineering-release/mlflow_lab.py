"""From two training runs to a release whose origin can be proven: the whole way, with the functions of your module.

This file knows the order of the steps and none of the answers. It trains, stores and asks; every decision, digest and
record is made by `engineering.py`. What it leaves in the folder:

    runs.db, artifacts/   the embedded store (not with --tracking-uri: there the server keeps both)
    model.json            the bytes of the champion, as the store gives them back
    release.json          the record; release.schema.json describes it. It is written last, and whole or not at all.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import loading

if TYPE_CHECKING:
    from line import Split
    from mlflow import MlflowClient

HERE = Path(__file__).resolve().parent
ALIAS = "champion"
TEMPLATE = "Version {{version}} of {{name}}: validation error {{validation_mse}}, test error {{test_mse}}."
SCOPE = (
    "Shows which stored run, data and program the served bytes came from, and which other version was refused.",
    "Does not show that the runs can be repeated on another machine, or what the model does on other data.",
    "Digests find mistakes, not forgers: who may write to the store may write tags and move the alias.",
)
# What the module's release_record has to give; the rest of release.json is written by this file.
FIELDS = (
    "champion_version", "run_id", "data_sha256", "code_sha256", "validation_mse", "model_sha256", "test_mse",
    "prompt_version", "trace_id", "spans", "refused",
)  # fmt: skip
DONE, FAILED, REFUSED = 0, 1, 2


class Stop(Exception):
    """The release does not come about; the text says why."""


@dataclass(frozen=True)
class Settings:
    """What is trained and what is demanded.

    Attributes:
        name: of the registered model, its prompt and the experiment.
        rates: of the two honest runs, in the order in which they are made.
        updates: of every run.
        slope, intercept: of the rule to be learned.
        limit: the largest validation error that may be served.
    """

    name: str = "line-fit"
    rates: tuple[float, ...] = (0.02, 0.15)
    updates: int = 30
    slope: float = 2.0
    intercept: float = 1.0
    limit: float = 1.0


def release(
    engineering: ModuleType,
    client: MlflowClient,
    folder: Path,
    settings: Settings,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Train, register, decide, evaluate and record, in a store that is open.

    Args:
        engineering: the module that decides.
        client: of the store; MLflow's global address is set to it.
        folder: where the files go.
        settings: what is trained and demanded.
        say: told one line for each step.

    Returns:
        The record as it was written.

    Raises:
        Stop: if nothing may be released, or the store and the module contradict each other.
        Exception: what the module or the store raises.
    """
    import line
    import tracking

    name = settings.name
    split = line.splits(settings.slope, settings.intercept)
    data_sha256 = engineering.data_digest(split.train.x, split.train.y)
    code_sha256 = engineering.code_digest(HERE, line.CODE)
    experiment_id = tracking.new_experiment(client, name, folder / "artifacts")
    say(f"data {data_sha256[:12]}…  code {code_sha256[:12]}…")

    def run_and_register(label: str, rate: float, train: Split) -> tuple[str, int]:
        """One run from its statement to its version."""
        data = engineering.data_digest(train.x, train.y)
        statement = engineering.Statement(rate, settings.updates, data, code_sha256)
        run_id = engineering.begin_run(client, experiment_id, label, statement)
        model, curve = line.train(train, rate, settings.updates)
        engineering.log_curve(client, run_id, curve)
        client.log_metric(run_id, "validation_mse", line.error(model, split.validation), step=settings.updates)
        content = line.model_bytes(model)
        source = tracking.log_model(run_id, content)
        # What was sent is not yet what is stored.
        if engineering.read_curve(client, run_id, settings.updates) != curve:
            raise Stop(f"the curve of {label} that the store gives back is not the one that was logged")
        path = folder / "candidate.json"
        path.write_bytes(content)
        version = engineering.register(client, name, run_id, source, engineering.file_digest(path))
        path.unlink()
        say(f"version {version}: {label}, training error {curve[-1]:.3g}")
        return run_id, version

    def candidate(run_id: str, version: int) -> Any:
        """A version as the gate sees it: what its run logged, and what its bytes do."""
        stored = client.get_run(run_id).data
        model = json.loads(tracking.fetch(name, version))
        recomputed = engineering.mse(
            engineering.Line(model["weight"], model["bias"]), split.validation.x.tolist(), split.validation.y.tolist()
        )
        return engineering.Candidate(
            version=version,
            data_sha256=stored.params["data_sha256"],
            train_mse=stored.metrics["train_mse"],
            logged_mse=stored.metrics["validation_mse"],
            recomputed_mse=recomputed,
        )

    made = [run_and_register(f"rate {rate}", rate, split.train) for rate in settings.rates]
    # A loader has lost the labels. The zero model fits zeros without error, so by training error this run is the best.
    lost = line.Split(split.train.x, split.train.y * 0)
    made.append(run_and_register("lost labels", settings.rates[0], lost))

    terms = engineering.Terms(data_sha256, settings.limit)
    champion = None
    for run_id, version in made:
        one = candidate(run_id, version)
        decision = engineering.promote(client, name, ALIAS, one, champion, terms)
        if not decision.reasons:
            champion = one
        what = "refused: " + "; ".join(decision.reasons) if decision.reasons else "promoted"
        say(f"version {version}: validation error {one.recomputed_mse:.3g}, {what}")

    number = engineering.resolve(client, name, ALIAS)
    if number is None:
        raise Stop(f"every version was refused: nothing is released, and the store in {folder} says why")
    chosen = client.get_model_version(name, str(number)).run_id
    ranked = engineering.select_run(client, experiment_id, data_sha256)
    if ranked != chosen:
        raise Stop(f"the alias leads to run {chosen}, but of the runs on this data the store ranks {ranked} first")

    # The test split is read here and nowhere else: nothing is chosen by it.
    evaluation = engineering.evaluate_traced(
        client, experiment_id, tracking.reload(name, number), split.test.x.tolist(), split.test.y.tolist()
    )
    client.log_metric(chosen, "test_mse", evaluation.mse, step=settings.updates)
    prompt = engineering.register_prompt(client, f"{name}-note", TEMPLATE)

    def fetch(version: int) -> bytes:
        return tracking.fetch(name, version)

    record = engineering.release_record(client, name, ALIAS, fetch, evaluation, prompt)
    if lacking := [field for field in FIELDS if field not in record]:
        raise Stop(f"release_record gave no {', '.join(lacking)}: a record without it proves less than it claims")
    traces = client.search_traces(locations=[experiment_id], flush=True)
    record = {
        "format": 1,
        **versions(),
        "tracking_uri": tracking.without_secrets(client.tracking_uri),
        "experiment_id": experiment_id,
        "name": name,
        "alias": ALIAS,
        "rates": list(settings.rates),
        "run_ids": [run_id for run_id, _ in made],
        "versions": [version for _, version in made],
        **record,
        "trace_count": len(traces),
        "span_count": sum(len(trace.data.spans) for trace in traces),
        "scope": list(SCOPE),
    }
    # The text comes from the registered version, not from this file.
    registered = client.load_prompt(f"{name}-note", version=record["prompt_version"])
    record["note"] = registered.format(
        version=record["champion_version"], name=name, validation_mse=record["validation_mse"], test_mse=record["test_mse"]
    )
    content = fetch(number)
    origin = engineering.trace_back(client, name, fetch, content)
    if origin is None or origin["run_id"] != record["run_id"]:
        raise Stop(f"the champion's bytes lead back to {origin}, the record names the run {record['run_id']}")
    (folder / "model.json").write_bytes(content)
    write(folder / "release.json", record)
    say(f"champion: version {number}; test error {evaluation.mse:.3g}")
    say(f"trace {evaluation.trace_id} with {record['span_count']} spans, prompt version {prompt}")
    return record


def versions() -> dict[str, str]:
    """The versions of the libraries that this result depends on."""
    import jax
    import mlflow

    return {"mlflow": mlflow.__version__, "jax": jax.__version__}


def write(path: Path, record: dict[str, Any]) -> None:
    """Write a record so that a reader sees all of it or nothing."""
    beside = path.with_suffix(".tmp")
    beside.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8", newline="\n")
    beside.replace(path)


def obstacle(folder: Path, uri: str | None) -> str:
    """What speaks against beginning, before anything is touched; an empty text if nothing does."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        return f"{folder} holds something already, and a release is never overwritten: name a new folder"
    if uri is not None and uri.startswith(("http://", "https://")):
        try:
            with urllib.request.urlopen(f"{uri.rstrip('/')}/health", timeout=10) as answer:
                answer.read()
        except (OSError, ValueError) as error:
            # MLflow itself would try for minutes before it says so.
            return f"no tracking server answers at the given URI: {getattr(error, 'reason', error)}"
    return ""


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="mlflow_lab.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""\
exit codes:
  0  released; the last line names the record
  1  your module raised or is unfinished, nothing may be released, or the store failed
  2  wrong arguments, a folder that holds something, a name that is taken, or no server: nothing was touched

examples:
  python mlflow_lab.py --output runs/release
  python mlflow_lab.py --output runs/reference --implementation solution
  python -m mlflow server --port 5000      and, in another terminal,
  python mlflow_lab.py --output runs/release --tracking-uri http://127.0.0.1:5000
  python service.py --release runs/release/release.json
""",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="a new or empty folder for the release")
    parser.add_argument("--tracking-uri", metavar="URI", help="a tracking server; without it an embedded SQLite store in DIR")
    parser.add_argument(
        "--implementation", metavar="WHICH", help="starter, solution or the path of a module; your starter/engineering.py if absent"
    )
    parser.add_argument(
        "--name", default=Settings.name, help=f"of the registered model ({Settings.name}); a name that is taken is refused"
    )
    given = parser.parse_args(arguments)
    try:
        module = loading.find(given.implementation, HERE)
    except FileNotFoundError as error:
        print(f"mlflow_lab: {error}", file=sys.stderr)
        return REFUSED
    if reason := obstacle(given.output, given.tracking_uri):
        print(f"mlflow_lab: {reason}", file=sys.stderr)
        return REFUSED
    try:
        engineering = loading.load(module)
    except (Exception, SystemExit) as error:
        print(f"mlflow_lab: {loading.told(error, module)}", file=sys.stderr)
        return FAILED
    return run(engineering, module, given.output, given.tracking_uri, given.name)


def run(engineering: ModuleType, module: Path, folder: Path, uri: str | None, name: str) -> int:
    """Open the store, make the release, say how it went. Returns the exit code."""
    try:
        import line  # noqa: F401 - whatever is missing is to be missing before anything is touched
        import tracking
        from mlflow.exceptions import MlflowException
    except ModuleNotFoundError as error:
        print(f"mlflow_lab: this Python has no {error.name}: take that of the course, in .venv", file=sys.stderr)
        return REFUSED

    if uri is not None:
        # One quick look: a name in use belongs to somebody else's release.
        with tracking.opened(folder, uri) as client:
            if client.get_experiment_by_name(name) or client.search_registered_models(f"name = '{name}'"):
                print(f"mlflow_lab: the store knows the name {name} already: choose another with --name", file=sys.stderr)
                return REFUSED
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"mlflow_lab: {folder} cannot be made: {error.strerror}", file=sys.stderr)
        return REFUSED
    with tracking.opened(folder, uri) as client:
        try:
            release(engineering, client, folder, Settings(name=name), lambda text: print(text, flush=True))
        except Stop as error:
            print(f"mlflow_lab: {error}", file=sys.stderr)
        except MlflowException as error:
            print(f"mlflow_lab: the store: {loading.told(error, module)}", file=sys.stderr)
        except (Exception, SystemExit) as error:
            print(f"mlflow_lab: {loading.told(error, module)}", file=sys.stderr)
        else:
            print(f"record: {folder / 'release.json'}")
            return DONE
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
