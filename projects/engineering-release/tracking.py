"""MLflow without its reports home: open a store, log a model, get its bytes back, let go of the files."""

from __future__ import annotations

import os

# MLflow reads these while it is imported, so they stand before that; lesson recovery-06 tells which one it obeys.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["MLFLOW_ENABLE_TELEMETRY"] = "false"
os.environ["MLFLOW_DISABLE_AGENT_HINT"] = "1"
os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
# A hint about a missing `pip` is logged as a warning; the model's requirements are given, and pip is none of them.
os.environ["MLFLOW_LOGGING_LEVEL"] = "ERROR"
# Spans are otherwise written by a thread, some time later: a script that reads them back wants them written.
os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import mlflow
from mlflow import MlflowClient
from mlflow.telemetry import get_telemetry_client

if get_telemetry_client() is not None:
    raise RuntimeError("MLflow was imported before tracking.py and reports home: import tracking first, or restart")


def sqlite_uri(database: Path) -> str:
    """The URI of a database file. With forward slashes on Windows, too, which is what a URI needs."""
    return f"sqlite:///{database.absolute().as_posix()}"


def make_empty(database: Path) -> None:
    """Make a database with MLflow's tables and nothing in them: about two seconds of migrations, worth keeping."""
    client = MlflowClient(tracking_uri=sqlite_uri(database))
    client.search_experiments()
    close_store(client)


@contextmanager
def opened(folder: Path, uri: str | None = None, empty: Path | None = None) -> Iterator[MlflowClient]:
    """A store to work in, and MLflow's own global address set to it; its files are let go of at the end.

    Args:
        folder: where the embedded database ``runs.db`` is kept, if there is no ``uri``.
        uri: of a tracking server, or of another database.
        empty: a database to begin with, from :func:`make_empty`, where two seconds matter.
    """
    if uri is None:
        folder.mkdir(parents=True, exist_ok=True)
        if empty is not None:
            shutil.copyfile(empty, folder / "runs.db")
        uri = sqlite_uri(folder / "runs.db")
    mlflow.set_tracking_uri(uri)
    client = MlflowClient(tracking_uri=uri)
    try:
        yield client
    finally:
        close_store(client)


def close_store(client: MlflowClient) -> None:
    """Close the connections that a store keeps open: Windows removes no open file."""
    # MLflow 3.16.1 offers no public way to the engines of its two stores, for runs and for the registry.
    for store in (client._tracking_client.store, client._get_registry_client().store):
        if engine := getattr(store, "engine", None):
            engine.dispose()


def new_experiment(client: MlflowClient, name: str, artifacts: Path) -> str:
    """Make an experiment and return its id. With a server, the server chooses where artifacts go."""
    remote = client.tracking_uri.startswith(("http://", "https://"))
    return client.create_experiment(name, artifact_location=None if remote else artifacts.absolute().as_uri())


def log_model(run_id: str, content: bytes) -> str:
    """Store a model with a run and call the run finished.

    Args:
        run_id: a run that is still open. The word FINISHED, which makes it eligible, is the last thing written.
        content: the bytes of the model's file.

    Returns:
        The URI of the stored model. No version is registered by this.
    """
    mlflow.set_experiment(experiment_id=mlflow.get_run(run_id).info.experiment_id)
    with tempfile.TemporaryDirectory() as folder, mlflow.start_run(run_id=run_id):
        path = Path(folder) / "model.json"
        path.write_bytes(content)
        info = mlflow.pyfunc.log_model(
            name="line",
            python_model=str(Path(__file__).with_name("line_model.py")),
            artifacts={"model": str(path)},
            input_example=[0.0, 1.0],
            # Without this MLflow starts a process to find out what the model imports.
            pip_requirements=[f"mlflow=={mlflow.__version__}"],
        )
    return info.model_uri


def fetch(name: str, version: int) -> bytes:
    """The bytes of ``model.json`` as a registered version stores them."""
    with tempfile.TemporaryDirectory() as folder:
        path = mlflow.artifacts.download_artifacts(f"models:/{name}/{version}/artifacts/model.json", dst_path=folder)
        return Path(path).read_bytes()


def reload(name: str, version: int) -> Callable[[list[float]], list[float]]:
    """A registered version, loaded from the store: its predict function."""
    return mlflow.pyfunc.load_model(f"models:/{name}/{version}").predict


def without_secrets(uri: str) -> str:
    """A URI without the user's name and password: a record is passed on."""
    parts = urlsplit(uri)
    if "@" not in parts.netloc:
        return uri
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
