"""`make lab` in earnest: JupyterLab comes up in exercises/, with our settings, and goes away again."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest


def command(root):
    """The command line of the target, as the Makefile has it."""
    line = next(
        line
        for line in (root / "Makefile").read_text(encoding="utf-8").splitlines()
        if "jupyterlab" in line and line.startswith("\t")
    )
    return re.sub(r"^\t@?\$\(RUN\)\s+", "", line).replace("$(ARGS)", "").split()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.skipif(os.name == "nt", reason="the server is stopped by a signal here, which Windows does not have")
def test_jupyterlab_opens_the_exercises(root, tmp_path):
    port = free_port()
    words = [
        sys.executable,
        "-m",
        *command(root),
        "--no-browser",
        f"--port={port}",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=t0ken",
        "--allow-root",
    ]
    env = {
        **os.environ,
        "HOME": str(tmp_path),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "run"),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
    }
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(words, cwd=root, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

        def get(path):
            request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", headers={"Authorization": "token t0ken"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.read().decode()

        try:
            for _ in range(600):
                try:
                    get("api/status")
                    break
                except OSError:
                    assert server.poll() is None, (tmp_path / "log").read_text()
                    time.sleep(0.2)
            names = {one["name"] for one in json.loads(get("api/contents/exercises"))["content"]}
            assert {"recovery-01.ipynb", "recovery-01.py"} <= names
            page = get("lab")
            assert '"preferredPath": "exercises"' in page
            assert '"newsUrl": null' in page or "newsUrl" not in page
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=60) is not None
