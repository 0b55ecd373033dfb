"""Serve one model whose digest is known: GET /ready and POST /predict, on loopback.

The module decides (`load_line`, `parse_request`, `predict`); this file keeps the connection: it bounds what is read, turns a
refusal into an answer with a status and JSON, and lets requests in flight finish when it is told to stop.

It is built on Starlette and uvicorn, which MLflow brings along. FastAPI would check requests by itself, and how that is done
is what this project is about: its default turns the text "3" and the value true into numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import loading
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

HERE = Path(__file__).resolve().parent
MAX_BYTES = 16_384
MAX_VALUES = 64
BODY_SECONDS = 10
GRACE_SECONDS = 10
STOPPED, FAILED, BAD_ARGUMENTS, MODEL_REFUSED = 0, 1, 2, 3


@dataclass(frozen=True)
class Served:
    """What is served, and what of it every answer says.

    Attributes:
        model: as the module read it.
        sha256: digest of its bytes.
        version: its number in the registry, if a release record gave one.
    """

    model: Any
    sha256: str
    version: int | None

    @property
    def origin(self) -> dict[str, Any]:
        """Enough to find the run, the data and the program in the release record."""
        return {"model_sha256": self.sha256, "version": self.version}


def application(engineering: ModuleType, served: Served, max_bytes: int = MAX_BYTES, max_values: int = MAX_VALUES) -> Starlette:
    """The web application.

    Args:
        engineering: the module that decides.
        served: the model.
        max_bytes: how large a request's body may be.
        max_values: how many values it may hold.
    """

    async def ready(request: Request) -> Response:
        return JSONResponse({"ready": True, **served.origin})

    async def predict(request: Request) -> Response:
        inputs = engineering.parse_request(await body_of(request, max_bytes), max_values)
        return JSONResponse({"y": engineering.predict(served.model, inputs), **served.origin})

    return Starlette(
        routes=[Route("/ready", ready, methods=["GET"]), Route("/predict", predict, methods=["POST"])],
        exception_handlers={
            engineering.RequestRefused: refused,
            HTTPException: http_error,
            ClientDisconnect: gone,
            Exception: fault,
        },
    )


async def body_of(request: Request, most: int) -> bytes:
    """The body of a request; refused as soon as it is too large, whatever length it claims, or too slow."""
    found = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                found += chunk
                if len(found) > most:
                    raise HTTPException(413, f"the body is larger than {most} bytes")
    except TimeoutError:
        raise HTTPException(408, f"the body did not come within {BODY_SECONDS} s") from None
    return bytes(found)


def answer(status: int, error: str, headers: Any = None) -> Response:
    """An error as JSON, whoever found it."""
    return JSONResponse({"error": error, "status": status}, status, headers)


async def refused(request: Request, error: Exception) -> Response:
    """The module refuses the request."""
    return answer(getattr(error, "status", 400), str(error))


async def http_error(request: Request, error: Exception) -> Response:
    """No such path or method, or a body that this file refuses."""
    assert isinstance(error, HTTPException)
    return answer(error.status_code, error.detail, error.headers)


async def gone(request: Request, error: Exception) -> Response:
    """The client has left; nobody reads this."""
    return answer(400, "the request was not sent to its end")


async def fault(request: Request, error: Exception) -> Response:
    """Anything else is a fault on this side. The traceback goes to stderr, not to a stranger."""
    return answer(500, "the service failed at this request")


class Server(uvicorn.Server):
    """Says where it listens, as soon as it does: a line of JSON on stdout."""

    def __init__(self, config: uvicorn.Config, told: dict[str, Any]) -> None:
        super().__init__(config)
        self.told = told

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        print(json.dumps({"event": "listening", **self.told}), flush=True)


def serve(app: Callable[..., Awaitable[None]], host: str, port: int, told: dict[str, Any]) -> None:
    """Serve until a signal says to stop; then no new connection is taken, and requests in flight are answered."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(STOPPED)

    # uvicorn stops in good order and then raises the signal again for whoever handled it before: us.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listener:
        config = uvicorn.Config(
            app,
            # The same parser and loop on every machine, whatever else is installed there.
            http="h11",
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            limit_concurrency=128,
        )
        where = {"host": host, "port": listener.getsockname()[1]}
        Server(config, {**where, **told}).run(sockets=[listener])


def chosen(given: argparse.Namespace) -> tuple[Path, str, int | None]:
    """Model file, digest and version from the command line. Raises ValueError with what to mend."""
    if given.release is None:
        if given.model is None:
            raise ValueError("name the model with --model, or a record with --release")
        return given.model, given.sha256, None
    try:
        record = json.loads(given.release.read_text(encoding="utf-8"))
        digest, version = record["model_sha256"], record["champion_version"]
    except OSError as error:
        raise ValueError(f"{given.release} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{given.release} is no release record: {error!r}") from None
    return given.model or given.release.with_name("model.json"), digest, version


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="service.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""\
exit codes:
  0  stopped by SIGTERM or Ctrl-C, after the requests in flight
  1  your module raised while it was loaded or read the model
  2  wrong arguments, or a port that is taken
  3  the model is refused: another digest than was released, or no model

example:
  python service.py --release runs/release/release.json --port 8000
  curl -d '{"x": [0.5, 2]}' http://127.0.0.1:8000/predict
""",
    )
    parser.add_argument("--model", type=Path, metavar="FILE", help="model.json; the one beside the record if absent")
    digest = parser.add_mutually_exclusive_group(required=True)
    digest.add_argument("--sha256", metavar="DIGEST", help="what the model's bytes must have")
    digest.add_argument("--release", type=Path, metavar="FILE", help="a release.json that names the digest")
    parser.add_argument("--implementation", metavar="WHICH", help="starter, solution or the path of a module")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on; loopback if absent")
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes any free one and prints it")
    parser.add_argument("--max-values", type=int, default=MAX_VALUES, metavar="N", help=f"in one request ({MAX_VALUES})")
    parser.add_argument("--max-bytes", type=int, default=MAX_BYTES, metavar="N", help=f"of one body ({MAX_BYTES})")
    given = parser.parse_args(arguments)
    try:
        model, sha256, version = chosen(given)
        path = loading.find(given.implementation, HERE)
    except (ValueError, FileNotFoundError) as error:
        return _ended(BAD_ARGUMENTS, error)
    try:
        engineering = loading.load(path)
    except (Exception, SystemExit) as error:
        return _ended(FAILED, loading.told(error, path))
    try:
        served = Served(engineering.load_line(model, sha256), sha256, version)
    except engineering.ModelRefused as error:
        return _ended(MODEL_REFUSED, error)
    except (Exception, SystemExit) as error:
        return _ended(FAILED, loading.told(error, path))
    app = application(engineering, served, given.max_bytes, given.max_values)
    try:
        serve(app, given.host, given.port, served.origin)
    except (OSError, OverflowError) as error:
        return _ended(BAD_ARGUMENTS, f"cannot listen on {given.host}:{given.port}: {error}")
    return STOPPED


def _ended(code: int, why: object) -> int:
    print(f"service: {why}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
