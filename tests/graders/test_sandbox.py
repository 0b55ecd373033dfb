"""What a learner's code can reach: a real kernel tries, and says how far it came. Each attempt is also made without the
layers, where it must succeed: an attempt that always fails would prove nothing.
"""

import asyncio
import json
import os
import secrets
import socket
import sys
from pathlib import Path

import psutil
import pytest
import typer

from course.schema import Limits
from graders import __main__ as commands
from graders import excess
from graders.kernels import isolation as isolation_module
from graders.kernels.cold import KernelFailed, kernel
from graders.kernels.isolation import Isolation, Mode, order, readable, survey
from graders.kernels.order import LANDLOCK, NAMESPACES, NO_NETWORK, RLIMITS, SCOPES, SECCOMP, STAGE
from graders.kernels.sandbox import scratch
from graders.program import Program, Step
from graders.run import Plan, run
from graders.verdict import Reason
from tests.conftest import ROOT

LINUX = sys.platform == "linux"
OFF = survey(Mode.OFF)
FOUND = survey()
# The layers one by one, as on machines that lack the others.
ALONE = [
    pytest.param(Isolation(layers), id=name)
    for name, layers in {
        "everything": FOUND.layers,
        "landlock": tuple(one for one in FOUND.layers if one != NAMESPACES),
        "namespaces": (NAMESPACES, RLIMITS),
    }.items()
    if set(layers) <= set(FOUND.layers) and len(layers) > 1
]
needs_layers = pytest.mark.skipif(
    NAMESPACES not in FOUND.layers or LANDLOCK not in FOUND.layers, reason=f"this machine has only: {FOUND.brief()}"
)

ATTEMPTS = """
import ctypes, glob, json, os, signal, socket, subprocess, sys
GIVEN = json.loads(GIVEN_TEXT)
outcome = {}
def attempt(name, action):
    try:
        found = action()
        outcome[name] = "done" if found is None else str(found)
    except Exception as error:
        outcome[name] = type(error).__name__
def read(path):
    with open(path, "rb") as file:
        file.read(10)
def write(path):
    with open(path, "ab"):
        pass
"""


def observe(cache, isolation, code, given=None, limits=None):
    """Run code that fills `outcome`, and give what it holds."""
    text = ATTEMPTS.replace("GIVEN_TEXT", repr(json.dumps(given or {}))) + code
    program = Program((Step("c", text, "exercise", 1, True),), {"e": 0})
    (trace,) = asyncio.run(run(program, [Plan({}, {"e": ("outcome",)})], limits or Limits(), cache, None, isolation))
    assert trace.cells[0].status == "ok", trace.cells[0]
    seen = trace.observations["e"]["outcome"]
    return {key.data: item.data for key, item in zip(seen.keys, seen.items, strict=True)}


@pytest.fixture
def secret_files(tmp_path, tiny_copy):
    """What nobody's submission may read: receipts, checks, another submission, the gradebook, the grader's own sources."""
    other = tmp_path / "class" / "Bea" / "tiny-01.ipynb"
    other.parent.mkdir(parents=True)
    other.write_text("{}", encoding="utf-8")
    book = tmp_path / "reports" / "results.sqlite"
    book.parent.mkdir()
    book.write_bytes(b"SQLite")
    lesson = tiny_copy / "phases" / "01-tiny" / "01-double"
    files = [
        lesson / "receipt.json", lesson / "lesson.toml", lesson / "code" / "main.py", other, book,
        ROOT / "phases/06-recovery/01-design-an-input-pipeline/receipt.json", ROOT / "graders" / "judge.py", ROOT / "pyproject.toml",
    ]  # fmt: skip
    assert all(file.is_file() for file in files)
    return files


READS = """
for path in GIVEN["files"]:
    attempt("read " + path, lambda: read(path))
    attempt("list " + os.path.dirname(path), lambda: os.listdir(os.path.dirname(path)))
"""


@needs_layers
@pytest.mark.parametrize("isolation", ALONE)
def test_expected_values_and_other_peoples_work_cannot_be_read(cache, secret_files, isolation):
    given = {"files": [str(file) for file in secret_files]}
    seen = observe(cache, isolation, READS, given)
    assert len(seen) >= len(secret_files) + 5
    # The folder of the course may be there, where Python's own lies in it; nothing else of it is.
    assert seen.pop(f"list {ROOT}") in {"PermissionError", "FileNotFoundError", str([Path(sys.prefix).name])}
    assert set(seen.values()) <= {"PermissionError", "FileNotFoundError"}, seen


@pytest.mark.skipif(not LINUX, reason="it is about Linux")
def test_without_the_layers_all_of_that_can_be_read(cache, secret_files):
    seen = observe(cache, OFF, READS, {"files": [str(file) for file in secret_files]})
    assert {seen[f"read {file}"] for file in secret_files} == {"done"}


PROCESSES = """
pid = GIVEN["pid"]
for name in ("environ", "mem", "maps", "fd/0"):
    attempt(name, lambda: read(f"/proc/{pid}/{name}"))
attempt("fd", lambda: os.readlink(f"/proc/{pid}/fd/0"))
attempt("signal", lambda: os.kill(pid, 0))
attempt("parent", lambda: os.kill(os.getppid(), signal.SIGTERM) if os.getppid() != 1 else read("/proc/1/mem"))
libc = ctypes.CDLL(None, use_errno=True)
attempt("trace", lambda: None if libc.ptrace(16, pid, None, None) == 0 else 1 / 0)
"""


@needs_layers
@pytest.mark.parametrize("isolation", ALONE)
def test_the_graders_process_cannot_be_looked_into_or_signalled(cache, isolation):
    seen = observe(cache, isolation, PROCESSES, {"pid": os.getpid()})
    assert len(seen) == 8
    assert set(seen.values()) <= {"PermissionError", "FileNotFoundError", "ProcessLookupError", "ZeroDivisionError"}, seen


@pytest.mark.skipif(not LINUX, reason="it is about Linux")
def test_without_the_layers_the_grader_can_be_looked_into(cache):
    seen = observe(cache, OFF, PROCESSES.split('attempt("parent"')[0], {"pid": os.getpid()})
    assert seen["environ"] == seen["signal"] == "done"


NETWORK = """
def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(20)
        one.connect(address)
def send(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", address)
attempt("grader", lambda: connect(socket.AF_INET, ("127.0.0.1", GIVEN["port"])))
attempt("abstract", lambda: connect(socket.AF_UNIX, chr(0) + GIVEN["name"]))
attempt("outside", lambda: connect(socket.AF_INET, ("192.0.2.1", 80)))
attempt("datagram", lambda: send(("192.0.2.1", 53)))
attempt("name", lambda: socket.getaddrinfo("example.invalid", 80))
attempt("machine", lambda: socket.socket(40, socket.SOCK_STREAM).close())
"""


@pytest.fixture
def services():
    """A service of the grader's machine on its loopback, and one on an abstract socket."""
    name = f"ts-{secrets.token_hex(8)}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen()
        yield {"port": tcp.getsockname()[1], "name": name}


@needs_layers
@pytest.mark.parametrize("isolation", ALONE)
def test_nobody_is_reached_over_the_network(cache, services, isolation):
    seen = observe(cache, isolation, NETWORK, services)
    if SECCOMP not in isolation.layers:
        seen.pop("machine")
    assert "done" not in seen.values() and "TimeoutError" not in seen.values(), seen


@pytest.mark.skipif(not LINUX, reason="it is about Linux")
def test_without_the_layers_the_graders_services_are_reached(cache, services):
    seen = observe(cache, OFF, NETWORK.split('attempt("outside"')[0], services)
    assert seen == {"grader": "done", "abstract": "done"}


SERVER = """
import threading, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
class Hello(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"hello")
    def log_message(self, *args): pass
server = HTTPServer(("127.0.0.1", 0), Hello)
threading.Thread(target=server.serve_forever, daemon=True).start()
attempt("hello", lambda: urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}").read().decode())
attempt("v6", lambda: socket.create_server(("::1", 0), family=socket.AF_INET6).close())
"""


@needs_layers
def test_a_server_of_ones_own_works(cache):
    assert observe(cache, FOUND, SERVER)["hello"] == "hello"


WRITES = """
import site, sysconfig, tempfile
purelib = sysconfig.get_paths()["purelib"]
attempt("start-up file", lambda: write(os.path.join(purelib, "planted.pth")))
attempt("sitecustomize", lambda: write(os.path.join(sysconfig.get_paths()["stdlib"], "sitecustomize.py")))
attempt("package", lambda: write(json.__file__))
attempt("scratch root", lambda: write(os.path.dirname(os.path.dirname(os.getcwd())) + "/x"))
attempt("sockets", lambda: write(os.environ["JUPYTER_RUNTIME_DIR"] + "/x"))
attempt("connection file", lambda: write(glob.glob(os.environ["JUPYTER_RUNTIME_DIR"] + "/*.json")[0]))
attempt("elsewhere", lambda: write(GIVEN["elsewhere"]))
attempt("link", lambda: (os.symlink(GIVEN["elsewhere"], "link"), write("link"))[1])
"""
MAY = """
attempt("work", lambda: write("x"))
attempt("home", lambda: write(os.path.expanduser("~/x")))
attempt("temporary", lambda: tempfile.NamedTemporaryFile().close())
attempt("null", lambda: write("/dev/null"))
attempt("move", lambda: os.rename("x", os.path.expanduser("~/y")))
from multiprocessing import shared_memory
def share():
    one = shared_memory.SharedMemory(create=True, size=100); one.close(); one.unlink()
attempt("shared memory", share)
attempt("shell", lambda: subprocess.run(["sh", "-c", "exit 3"]).returncode)
attempt("python", lambda: subprocess.run([sys.executable, "-c", "import numpy"]).returncode)
attempt("magic", lambda: get_ipython().getoutput("echo hi")[0])
"""


@needs_layers
@pytest.mark.parametrize("isolation", ALONE)
def test_only_the_scratch_folder_can_be_written(cache, tmp_path, isolation):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch()
    seen = observe(cache, isolation, WRITES + MAY, {"elsewhere": str(elsewhere)})
    allowed = ("work", "home", "temporary", "null", "move", "shared memory", "shell", "python", "magic")
    assert {name: seen.pop(name) for name in allowed} == {
        **dict.fromkeys(allowed, "done"), "shell": "3", "python": "0", "magic": "hi",
    }  # fmt: skip
    if LANDLOCK not in isolation.layers:
        # Namespaces alone show the folder of the sockets as it is; it is bounded by the watch.
        assert {seen.pop("sockets"), seen.pop("connection file")} == {"done"}
    assert set(seen.values()) <= {"PermissionError", "OSError", "FileNotFoundError"}, seen
    assert elsewhere.read_bytes() == b""


@needs_layers
def test_what_is_public_can_be_read_and_not_written(cache, tmp_path):
    file = tmp_path / "public.csv"
    file.write_text("1", encoding="utf-8")

    async def read() -> dict[str, str]:
        with scratch(cache) as folder:
            made = order(folder, Limits(), FOUND.layers, (file,))
            assert str(file) in made.readable and str(file.parent) not in made.readable
            text = isolation_module.text(made)
            (folder.root / "order.json").write_text(text, encoding="utf-8")
            program = (
                "import sys; sys.argv = ['', sys.argv[1]]; sys.path.insert(0, sys.argv[1])\n"
                "from pathlib import Path\nfrom graders.kernels.confine import confine\nfrom graders.kernels.launch import read\n"
                "import json\n"
                f"confine(read(Path({str(folder.root / 'order.json')!r}).read_text()))\n"
                "out = {}\n"
                f"out['read'] = Path({str(file)!r}).read_text()\n"
                "try:\n"
                f"    open({str(file)!r}, 'a'); out['write'] = 'done'\n"
                "except OSError as error: out['write'] = 'refused'\n"
                "print(json.dumps(out))\n"
            )
            done = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(ROOT), stdout=asyncio.subprocess.PIPE)
            out, _ = await done.communicate()
            return json.loads(out)

    assert asyncio.run(read()) == {"read": "1", "write": "refused"}


KERNEL = """
import resource
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    if libc.syscall(number, *args) == -1:
        raise OSError(ctypes.get_errno(), "refused")
attempt("namespace", lambda: None if libc.unshare(0x10000000) == 0 else 1 / 0)
attempt("mount", lambda: None if libc.mount(b"none", b"/", None, 1 << 18, None) == 0 else 1 / 0)
attempt("chroot", lambda: os.chroot("."))
attempt("keys", lambda: call(250, 0, -3, 0))
attempt("rings", lambda: call(425, 1, None))
attempt("root", lambda: os.setuid(0))
attempt("more memory", lambda: resource.setrlimit(resource.RLIMIT_DATA, (-1, -1)))
attempt("capabilities", lambda: [line.split()[1] for line in open("/proc/self/status") if line.startswith(("CapEff", "CapBnd"))])
outcome["core"] = str(resource.getrlimit(resource.RLIMIT_CORE))
outcome["descriptors"] = json.dumps(sorted(os.readlink(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{one}")))
"""


@needs_layers
def test_the_kernel_is_asked_for_nothing_dangerous(cache):
    seen = observe(cache, FOUND, KERNEL)
    assert (seen.pop("core"), set(seen.pop("capabilities").strip("[]'").split("', '"))) == ("(0, 0)", {"0" * 16})
    open_files = json.loads(seen.pop("descriptors"))
    outside = [one for one in open_files if not one.startswith(("socket:", "pipe:", "anon_inode:", "/dev/", "/proc/"))]
    assert all(one.endswith(("/kernel.log", "/kernel.log (deleted)", "(unreachable)")) or "kernel.log" in one for one in outside), (
        outside
    )
    assert set(seen.values()) <= {"PermissionError", "OSError", "ZeroDivisionError", "ValueError"}, seen


@needs_layers
@pytest.mark.parametrize("isolation", ALONE)
def test_nothing_outlives_the_kernel(cache, isolation):
    """A child in a session of its own, and an orphan that has cleared its environment and lets go of everything."""
    mark = f"mark-{secrets.token_hex(8)}"
    code = f"""
program = [sys.executable, "-c", "import time; time.sleep(300)", {mark!r}]
subprocess.Popen(program, start_new_session=True)
orphan = f"import os, subprocess, sys; subprocess.Popen({{program!r}}, env={{{{}}}}, start_new_session=True); os._exit(0)"
subprocess.run([sys.executable, "-c", orphan])
attempt("both", lambda: None)
"""
    assert observe(cache, isolation, code) == {"both": "done"}
    assert not [one for one in psutil.process_iter() if mark in " ".join(_command(one))]


def _command(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_a_kernel_that_cannot_be_confined_is_not_run(cache):
    """The grader's fault, said as such: never a run with less than what the report will say."""

    async def start():
        with scratch(cache) as folder:
            (folder.root / STAGE).rmdir()
            async with kernel(folder, None, Isolation((NAMESPACES, LANDLOCK, RLIMITS))):
                pass

    if NAMESPACES in FOUND.layers:
        with pytest.raises(KernelFailed, match=r"did not start: .*No such file"):
            asyncio.run(start())


def test_what_is_missing_is_named(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(isolation_module, "_trial", lambda layers: "Operation not permitted" if NAMESPACES in layers else "")
        survey.cache_clear()
        found = survey()
    survey.cache_clear()  # what is remembered must be of this machine again
    if LINUX:
        assert NAMESPACES not in found.layers and NO_NETWORK in found.layers
        assert "namespaces (Operation not permitted)" in found.missing
        assert found.brief().endswith("without namespaces (Operation not permitted)")
    assert not survey(Mode.REQUIRE).missing or survey().missing


def test_a_course_inside_a_readable_folder_stays_hidden(tmp_path):
    for name in ("python/lib", "python/share/course/phases", "python/share/other"):
        (tmp_path / name).mkdir(parents=True)
    shown = set(isolation_module._without(tmp_path / "python", tmp_path / "python/share/course"))
    assert shown == {tmp_path / "python/lib", tmp_path / "python/share/other"}
    assert not any(ROOT.is_relative_to(path) for path in readable())


@pytest.mark.skipif(not LINUX, reason="it is about Linux")
def test_every_layer_is_explained():
    assert set(isolation_module.TOLD) == {NAMESPACES, NO_NETWORK, LANDLOCK, SCOPES, SECCOMP, RLIMITS}
    told = FOUND.told()
    assert len(told) == len(isolation_module.EVERYWHERE) + len(FOUND.layers)
    assert Path(isolation_module.LAUNCHER).is_file()


def test_require_refuses_to_run_with_less(monkeypatch, capsys):
    lacking = Isolation((RLIMITS,), ("namespaces (Operation not permitted)",))
    monkeypatch.setattr(commands, "survey_isolation", lambda mode: lacking)
    with pytest.raises(typer.Exit) as ended, commands._spoken():
        commands._settings(1, ROOT, None, None, None, Mode.REQUIRE)
    assert ended.value.exit_code == 3
    assert "nothing was run" in (said := capsys.readouterr().err) and "namespaces (Operation not permitted)" in said
    assert commands._settings(1, ROOT, None, None, ["memory_mb=900"], Mode.AUTO).isolation == lacking


@pytest.mark.parametrize("given", ["memory=900", "memory_mb=1", "memory_mb", "memory_mb=-5", "cell_seconds=1"])
def test_a_limit_that_is_none_is_refused(given, capsys):
    with pytest.raises(typer.Exit) as ended, commands._spoken():
        commands._settings(1, ROOT, None, None, [given], Mode.OFF)
    assert ended.value.exit_code == 2 and given in capsys.readouterr().err


def test_limits_are_those_of_the_option_else_of_the_lesson(tiny):
    settings = commands._settings(1, ROOT, None, 7.0, ["file_mb=20", "processes=5"], Mode.OFF)
    found = settings.limits(tiny)
    assert (found.file_mb, found.processes, found.total_seconds, found.cell_seconds) == (20, 5, 7.0, 10)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("MemoryError: ", Reason.MEMORY), ("_ArrayMemoryError: Unable to allocate 8 TiB", Reason.MEMORY),
        ("XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory", Reason.MEMORY), ("OSError: [Errno 12] Cannot allocate memory", Reason.MEMORY),
        ("OSError: [Errno 28] No space left on device", Reason.RESOURCE_LIMIT), ("OSError: [Errno 27] File too large", Reason.RESOURCE_LIMIT),
        ("OSError: [Errno 24] Too many open files: 'x'", Reason.RESOURCE_LIMIT), ("RuntimeError: can't start new thread", Reason.RESOURCE_LIMIT),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", Reason.RESOURCE_LIMIT),
        ("ValueError: MemoryError is a word", None), ("FileNotFoundError: [Errno 2] No such file or directory: 'x'", None),
        ("PermissionError: [Errno 13] Permission denied: 'x'", None), ("OSError: [Errno 11] Resource temporarily unavailable", None),
    ],
)  # fmt: skip
def test_exceptions_of_the_limits_are_told_from_others(error, reason):
    found = excess.raised(error, "cell 3", Limits(file_mb=21))
    assert (found and found[0]) == reason
    assert found is None or found[1].startswith("cell 3 ")
