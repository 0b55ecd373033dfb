"""Warm kernels: the same as ordinary ones to whoever works in them, forked only where that is safe, and gone without a trace."""

import asyncio
import contextlib
import gc
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import types
import warnings
from importlib.metadata import EntryPoint
from pathlib import Path

import nbformat
import psutil
import pytest
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import KernelProvisionerFactory
from nbclient import NotebookClient

from graders.kernels import forkserver, imports, places, provisioner, warm
from graders.kernels.cold import KernelFailed
from graders.kernels.sandbox import TOKEN, remove, scratch
from graders.kernels.servers import Forked, ForkServer, NoFork, possible
from graders.kernels.shelf import Shelf
from graders.kernels.warm import How

pytestmark = pytest.mark.skipif(bool(possible()), reason=possible() or "kernels can be forked here")

LIBRARIES = ("numpy", "matplotlib.pyplot", "jax", "jax.numpy")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def _no_server_is_left():
    yield
    warm.close()


async def execute(kernel, source):
    """One cell's outputs, as a notebook keeps them."""
    cell = nbformat.v4.new_code_cell(textwrap.dedent(source))
    notebook = nbformat.v4.new_notebook(cells=[cell])
    client = NotebookClient(notebook, km=kernel.manager, timeout=None, allow_errors=True, store_widget_state=False)
    client.kc = kernel.client
    await asyncio.wait_for(client.async_execute_cell(cell, 0), 120)
    return cell["outputs"]


def printed(outputs):
    return "".join(one.get("text", "") for one in outputs) + "".join(str(one.get("evalue", "")) for one in outputs)


DRAIN = """
import os, resource
taken = []
try:
    while len(taken) < 100_000:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError as error:
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - len(taken), error.strerror)
"""  # how many the kernel has for itself


async def _in_kernel(cache, how, sources, modules=LIBRARIES):
    with scratch(cache) as folder:
        async with warm.kernel(folder, cache=cache, modules=modules, how=how) as kernel:
            return [_plain(await execute(kernel, source), folder) for source in sources]


def in_kernel(cache, how, *sources, modules=LIBRARIES):
    return asyncio.run(_in_kernel(cache, how, sources, modules))


def _plain(outputs, folder):
    """Outputs without what differs between any two kernels: the folder, the token, addresses, times."""
    merged, streams = [], {}
    for one in outputs:  # where a stream is cut, and which of the two comes first, is a matter of time
        if one["output_type"] == "stream":
            streams[one["name"]] = streams.get(one["name"], "") + one["text"]
        else:
            merged.append(dict(one))
    merged += [{"output_type": "stream", "name": name, "text": text} for name, text in sorted(streams.items())]
    text = json.dumps(merged, sort_keys=True, ensure_ascii=False).replace(str(folder.root), "ROOT").replace(folder.token, "TOKEN")
    text = re.sub(r"The slowest run took [^.]*[.][^.]*[.][^.]*being cached[.]..", "", text)
    text = re.sub(r"0x[0-9a-f]{6,}|ipykernel_\d+/\d+", "0x0", text)
    return json.loads(re.sub(r"[\d.]+ (ns|.s|s) ± [\d.]+ (ns|.s|s) per loop", "TIME", text))


CELLS = {
    "who": "import sys, os, signal, warnings, threading, logging\nprint(__name__, sys.argv, sys.path, sys.flags, sys.modules['__main__'])",
    "modules": "print(sorted(set(sys.modules) - {'gc'}))",
    "environment": f"print(sorted((k, v) for k, v in os.environ.items() if k != {TOKEN!r}))\n"
    "import ctypes\nprint(ctypes.CDLL(None).getenv(b'SERVER') or 'unset')",
    "folders": "import tempfile, pathlib\nprint(os.getcwd(), pathlib.Path.home(), tempfile.gettempdir(), os.listdir('.'))",
    "filters": "print(warnings.filters)",
    "signals": "print([(s.name, signal.getsignal(s)) for s in signal.Signals], signal.pthread_sigmask(signal.SIG_BLOCK, []))",
    "threads": "print(sorted(one.name for one in threading.enumerate()))",
    "session": "print(os.getsid(0) == os.getpgid(0), os.umask(0o22), os.nice(0))",
    "hash": "print(hash('text'), sorted({'a', 'b', 'c'}, key=hash))",
    "stdin": "import io\nprint(repr(os.read(0, 10)))\ninput('name?')",
    "magics": "%pwd",
    "timeit": "%timeit -n 2 -r 2 sum([1])",
    "capture": "%%capture kept\nprint('hidden')",
    "captured": "print(kept.stdout)",
    "writefile": "%%writefile data.txt\nx",
    "shell": "!echo from a shell; cat data.txt\nlines = !echo a b\nprint(lines)",
    # What is written past Python comes by another thread, and may come after the cell.
    "raw": "import time\nos.write(1, b'raw\\n'); time.sleep(1)",
    "raw error": "os.write(2, b'error\\n'); time.sleep(1)",
    "rich": "from IPython.display import HTML, Markdown, display\ndisplay(HTML('<b>x</b>'), Markdown('*y*'))\n"
    "h = display('first', display_id='d')\nh.update('second')\n[1, 2]",
    "comm": "from comm import create_comm\nprint(create_comm(target_name='t').target_name)",
    "error": "def f(x):\n    return 1 / x\nf(0)",
    "syntax": "x = = 1",
    "warning": "warnings.warn('careful')",
    "not yet": "print([one for one in ('numpy', 'jax', 'matplotlib', 'scipy') if one in sys.modules])",
    "settings": "os.environ['JAX_ENABLE_X64'] = '1'\nos.environ['JAX_DEFAULT_MATMUL_PRECISION'] = 'highest'\n"
    "pathlib.Path('matplotlibrc').write_text('lines.linewidth: 7')\nos.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=3'",
    "jax": "import jax, jax.numpy as jnp\nprint(jnp.arange(3.0).dtype, jax.config.values, jax.devices())\n"
    "print(jax.jit(lambda x: (x @ x).sum())(jnp.eye(50) * 0.1), jax.random.normal(jax.random.key(3), (2,)))",
    "numpy": "import numpy as np\nprint(np.random.default_rng(3).random(), (np.arange(40000.0).reshape(200, 200) @ np.eye(200)).sum())\n"
    "np.random.seed(3)\nprint(np.random.random(), np.__file__, np.__spec__.name, type(np.__spec__.loader), type(np.__loader__))",
    "figure": "import matplotlib.pyplot as plt, matplotlib as mpl, hashlib\nfigure, axes = plt.subplots()\naxes.plot([1, 3, 2])\n"
    "figure.savefig('f.png')\nprint(hashlib.sha256(pathlib.Path('f.png').read_bytes()).hexdigest(), mpl.get_configdir(), mpl.get_cachedir(),\n"
    "    mpl.rcParams['lines.linewidth'], mpl.get_backend(), mpl.style.USER_LIBRARY_PATHS)",
    "inline": "%matplotlib inline\nplt.plot([1, 2]);",
    "logging": "print([(type(one).__name__, one.stream is sys.stderr) for ref in logging._handlerList if hasattr(one := ref(), 'stream')])",
    "library": "logging.getLogger('jax').warning('said by a library')",
    "import environment": f"print(sorted((k, v) for k, v in os.environ.items() if k != {TOKEN!r}))",
    "subprocess": "import subprocess\nprint(subprocess.run([sys.executable, '-c', 'import os; print(os.getcwd(), os.environ[\"HOME\"])'],\n"
    "    capture_output=True, text=True))",
    "processes": "import multiprocessing as mp\nfor kind in ('fork', 'spawn', 'forkserver'):\n"
    "    with mp.get_context(kind).Pool(1) as pool:\n        print(kind, pool.map(abs, [-1, -2]))",
    "pool": "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as pool:\n    print(list(pool.map(abs, [-1, -2])))",
    "asyncio": "import asyncio\nawait asyncio.sleep(0)\nprint(await asyncio.to_thread(abs, -3))",
    "pickle": "import pickle\nprint(pickle.loads(pickle.dumps(np.arange(3))), pickle.loads(pickle.dumps(np.float32)))",
    "exit": "get_ipython().ask_exit = lambda: print('no')\nquit()",
}  # fmt: skip


@pytest.fixture(scope="module")
def both(cache):
    cold = in_kernel(cache, How.COLD, *CELLS.values())
    warmed = in_kernel(cache, How.WARM, *CELLS.values())
    return {name: (one, other) for name, one, other in zip(CELLS, cold, warmed, strict=True)}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_gives_the_same(both, name):
    cold, warmed = both[name]
    assert warmed == cold
    assert "error" not in {one["output_type"] for one in warmed} or name in {"error", "syntax", "stdin"}, warmed


def test_what_the_cells_show_is_not_empty(both):
    assert "ZeroDivisionError" in json.dumps(both["error"][1]) and "StdinNotImplemented" in json.dumps(both["stdin"][1])
    assert "float64" in printed(both["jax"][1]) and "CpuDevice(id=2)" in printed(both["jax"][1])
    assert printed(both["not yet"][1]) == "[]\n"
    assert re.search("^[0-9a-f]{64} ROOT/s/h/matplotlib ROOT/s/h/matplotlib 7.0 agg", printed(both["figure"][1]))
    assert "text/html" in json.dumps(both["rich"][1])


@pytest.mark.lessons
def test_mlflow_says_as_much_as_its_environment_asks_for(cache):
    source = "import os\n{}\nimport mlflow, logging\nprint(logging.getLogger('mlflow').level, logging.getLogger('alembic').level)"
    for line in ("os.environ['MLFLOW_LOGGING_LEVEL'] = 'ERROR'", ""):
        cold = in_kernel(cache, How.COLD, source.format(line))
        assert in_kernel(cache, How.WARM, source.format(line), modules=("mlflow",)) == cold
        assert printed(cold[0]) == ("40 40\n" if line else "20 30\n")


def test_a_learners_own_file_hides_a_library(cache):
    source = "import pathlib, sys\npathlib.Path('jax.py').write_text('here = 1')\nimport jax\nprint(jax.here, jax.__file__, 'numpy' in sys.modules)"
    for how in (How.COLD, How.WARM):
        assert printed(in_kernel(cache, how, source)[0]) == "1 ROOT/s/w/jax.py False\n"


def test_two_kernels_draw_different_numbers(cache):
    source = (
        "import random, numpy, os, uuid, tempfile, multiprocessing\n"
        "print([random.random(), numpy.random.random(), uuid.uuid4().hex, tempfile.mktemp(), bytes(multiprocessing.current_process().authkey)])"
    )
    one, other = (printed(in_kernel(cache, How.WARM, source)[0]) for _ in range(2))
    kept = [left for left, right in zip(one.split(", "), other.split(", "), strict=True) if left == right]
    assert kept == []


def test_an_interrupt_ends_a_cell_and_not_the_kernel(cache):
    async def main():
        with scratch(cache) as folder:
            async with warm.kernel(folder, cache=cache, modules=LIBRARIES, how=How.WARM) as kernel:
                running = asyncio.ensure_future(execute(kernel, "print('begun', flush=True)\nwhile True: pass"))
                await asyncio.sleep(0.5)
                await kernel.manager.interrupt_kernel()
                outputs = await running
                assert await kernel.manager.is_alive()
                return outputs, await execute(kernel, "print('on')")

    outputs, after = asyncio.run(main())
    assert outputs[-1]["ename"] == "KeyboardInterrupt" and printed(after) == "on\n"


@pytest.mark.parametrize(
    ("code", "status"), [("os._exit(7)", 7), ("os.kill(os.getpid(), 9)", -9), ("os.kill(os.getpid(), 11)", -11)]
)
def test_an_exit_is_told(cache, code, status):
    async def main():
        with scratch(cache) as folder:
            async with warm.kernel(folder, cache=cache, modules=LIBRARIES, how=How.WARM) as kernel:
                process = kernel.manager.provisioner.process
                kernel.client.execute(f"import os; {code}")
                seen = await asyncio.wait_for(process.ended(), 60)
                assert not await kernel.manager.is_alive()
                return seen, process.poll(), await kernel.end()

    assert asyncio.run(main()) == (status, status, status)


def test_a_kernel_holds_nothing_of_the_server(cache):
    source = """
        import os, socket, sys
        kinds = []
        for one in os.listdir('/proc/self/fd'):
            try:
                with socket.socket(fileno=os.dup(int(one))) as s:
                    kinds.append(s.type)
            except OSError:
                pass
        frames, frame = [], sys._getframe()
        while frame:
            frames.append(frame); frame = frame.f_back
        held = [name for one in frames for name, value in one.f_locals.items() if type(value).__name__ in ('Server', 'Task', 'Order')]
        print(sorted(set(kinds)), held, [one for one in sys.modules if one.startswith('graders')])
    """
    assert printed(in_kernel(cache, How.WARM, source)[0]) == "[<SocketKind.SOCK_STREAM: 1>] [] []\n"


def test_what_a_kernel_forks_carries_the_token_of_its_run(cache):
    """By which its processes are found, though the system shows the environment with which the server was started."""

    async def main():
        with scratch(cache) as folder:
            async with warm.kernel(folder, cache=cache, modules=LIBRARIES, how=How.WARM) as kernel:
                await execute(kernel, "import os, time\nif os.fork() == 0: time.sleep(600)")
                found = kernel.watch.running()
                assert len(found) == 2
                return {one.environ()[TOKEN] for one in found}, folder.token

    tokens, token = asyncio.run(main())
    assert tokens == {token}


def _server_file(folder, name, source):
    (folder / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")


@pytest.fixture
def server(tmp_path):
    """Start a fork server: ``server("module", …)``; modules may lie in the test's own folder."""
    with contextlib.ExitStack() as stack:

        def start(*modules):
            environment = {**os.environ, "PYTHONPATH": str(tmp_path), "JAX_PLATFORMS": "cpu"}
            made = ForkServer(modules, environment, tmp_path)
            stack.callback(made.close)
            return made

        yield start


async def _fork(made, folder):
    arguments = ("-f", str(folder / "k.json"), "--HistoryManager.enabled=False")
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        return await made.fork(forkserver.Task(arguments, dict(os.environ), str(folder)), (nothing, nothing, nothing))
    finally:
        os.close(nothing)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True, name='busy').start()",
            r"another thread \(busy\)",
        ),
        ("import jax; jax.devices()", "JAX backend has been started"),
    ],
    ids=["thread", "backend"],
)
def test_a_module_with_which_no_fork_would_be_safe_is_left_out(server, tmp_path, source, message):
    _server_file(tmp_path, "spoiling", source)
    made = server("json", "spoiling", "no_such_module")
    asyncio.run(made.ready())
    assert re.search(message, made.left_out["spoiling"]) and "ModuleNotFoundError" in made.left_out["no_such_module"]
    assert "json" not in made.left_out


@pytest.mark.parametrize(
    ("modules", "start", "message"),
    [
        (
            (),
            "import threading\ndef start(): threading.Thread(target=threading.Event().wait, daemon=True).start()",
            "another thread",
        ),
        (("jax",), "import jax\ndef start(): jax.devices()", "JAX backend has been started"),
    ],
    ids=["thread", "backend"],
)
def test_a_fork_that_has_become_unsafe_is_refused(server, tmp_path, modules, start, message):
    _server_file(tmp_path, "later", f"import os\n{start}\nos.register_at_fork(after_in_parent=start)")
    made = server(*modules, "later")

    async def main():
        first = await _fork(made, tmp_path)
        with pytest.raises(NoFork, match=message):
            await _fork(made, tmp_path)
        first.kill()
        await first.ended()
        first.release()

    asyncio.run(main())
    assert made.left_out == {}


def test_without_a_server_there_is_no_fork(server, tmp_path):
    made = server()

    async def main():
        await made.ready()
        made.process.kill()
        made.process.wait()
        with pytest.raises(NoFork, match=r"has ended|cannot be reached"):
            await _fork(made, tmp_path)

    asyncio.run(main())
    assert not made.alive


def test_where_fork_is_unsafe_an_ordinary_kernel_is_used(cache, monkeypatch):
    monkeypatch.setattr(warm, "possible", lambda: "not on this system")

    async def main(how):
        with scratch(cache) as folder:
            async with warm.kernel(folder, cache=cache, how=how) as kernel:
                return type(kernel.manager.provisioner.process), printed(await execute(kernel, "print(1)"))

    assert asyncio.run(main(How.AUTO)) == (subprocess.Popen, "1\n")
    with pytest.raises(KernelFailed, match=r"no kernel can be forked: not on this system; try --kernel auto"):
        asyncio.run(main(How.WARM))


def test_other_systems_are_known_to_be_unsafe(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    assert "Linux only" in possible()
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delattr("os.pidfd_open")
    assert "Linux 5.3" in possible()


PARENT = """
import asyncio, os, sys, threading
sys.path.insert(0, {root!r})
from pathlib import Path
from graders.kernels import warm
from graders.kernels.sandbox import scratch

async def main():
    with scratch(Path({cache!r})) as folder:
        async with warm.kernel(folder, cache=Path({cache!r}), how=warm.How.WARM) as kernel:
            kernel.client.execute("import os\\nif os.fork() == 0:\\n    os.setsid()\\n    while True: pass")
            await asyncio.sleep(1)
            (served,) = warm._SERVERS.known.values()
            print(served.server.process.pid, *[one.pid for one in kernel.watch.running()], folder.root, flush=True)
            await asyncio.sleep(600)
run = lambda: asyncio.run(main())
{start}
"""


@pytest.mark.parametrize("start", ["run()", "t = threading.Thread(target=run); t.start(); t.join()"], ids=["main", "thread"])
def test_the_server_and_its_kernels_end_with_whoever_started_it(cache, tmp_path, start):
    code = PARENT.format(root=str(ROOT), cache=str(cache), start=start)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=tmp_path) as parent:
        *pids, folder = parent.stdout.readline().split()
        parent.send_signal(signal.SIGKILL)
    left = [psutil.Process(int(pid)) for pid in pids if psutil.pid_exists(int(pid))]
    _, alive = psutil.wait_procs(left, timeout=30)
    assert len(pids) == 3 and alive == []
    assert Path(folder).name.startswith("ts-")  # named so that the next grader knows whose it was
    remove(Path(folder))


def _traces(cache):
    """What there is of processes, descriptors, threads and folders, here and in the server."""
    gc.collect()
    (served,) = warm._SERVERS.known.values()
    process = psutil.Process(served.server.process.pid)
    return {
        "descriptors": sorted(os.readlink(f"/proc/self/fd/{one}").split(":")[0] for one in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{one}")),
        "server's descriptors": process.num_fds(),
        "server's processes": process.children(recursive=True),
        "server's threads": process.num_threads(),
        "processes": len(psutil.Process().children(recursive=True)),
        "threads": sorted(one.name for one in threading.enumerate()),
        "folders": sorted(path.name for path in Path(tempfile.gettempdir()).glob(f"ts-*-{os.getpid()}-*")),
    }  # fmt: skip


async def _forks(cache, times):
    before, memory = None, 0
    for number in range(times + 3):
        with scratch(cache) as folder:
            async with warm.kernel(folder, cache=cache, modules=("json",), how=How.WARM) as kernel:
                if number % 10 == 0:
                    assert printed(await execute(kernel, "print('here')")) == "here\n"
        if number == 2:  # pools of threads and sockets are made at first use
            (served,) = warm._SERVERS.known.values()
            before, memory = _traces(cache), psutil.Process(served.server.process.pid).memory_info().rss
    assert _traces(cache) == before
    assert psutil.Process(served.server.process.pid).memory_info().rss < memory * 1.2


@pytest.mark.parametrize("times", [20, pytest.param(1000, marks=pytest.mark.endurance)])
def test_many_forks_leave_nothing(cache, times):
    warm.close()
    asyncio.run(_forks(cache, times))


def test_servers_that_are_not_used_make_room(cache):
    warm.close()

    async def main():
        started = []
        for name in ("json", "csv", "html", "wave", "bz2"):
            with scratch(cache) as folder:
                async with warm.kernel(folder, cache=cache, modules=(name,), how=How.WARM):
                    started += [one.server.process for one in warm._SERVERS.known.values() if one.server.process not in started]
            assert len(warm._SERVERS.known) <= warm.MAX_SERVERS
        return started

    started = asyncio.run(main())
    assert [one.poll() is None for one in started] == [False, False, True, True, True]


class _Specs(KernelSpecManager):
    spec = None

    def get_kernel_spec(self, kernel_name):
        return self.spec


@pytest.mark.parametrize(
    ("command", "forked"),
    [
        ([sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], True),
        ([sys.executable, "-I", "-m", "ipykernel_launcher", "-f", "{connection_file}"], False),
    ],
    ids=["forked", "with options"],
)
def test_jupyter_finds_it_by_its_name(monkeypatch, tmp_path, command, forked):
    entry = EntryPoint(provisioner.NAME, "graders.kernels.provisioner:WarmProvisioner", KernelProvisionerFactory.GROUP_NAME)
    monkeypatch.setitem(KernelProvisionerFactory.instance().provisioners, provisioner.NAME, entry)
    monkeypatch.setattr(provisioner, "_SERVERS", {})
    metadata = {"kernel_provisioner": {"provisioner_name": provisioner.NAME, "config": {"modules": ["json"]}}}
    specs = _Specs()
    specs.spec = KernelSpec(argv=command, display_name="warm", language="python", metadata=metadata)

    async def ask(manager):
        client = manager.client()
        client.start_channels()
        await client.wait_for_ready(timeout=60)
        reply = await client.execute(
            "import os", user_expressions={"pid": "os.getpid()", "at": "os.getcwd()"}, reply=True, timeout=60
        )
        client.stop_channels()
        return [one["data"]["text/plain"] for one in reply["content"]["user_expressions"].values()]

    async def main():
        manager = AsyncKernelManager(kernel_spec_manager=specs)
        await manager.start_kernel(cwd=str(tmp_path))
        assert isinstance(manager.provisioner.process, Forked) is forked
        pid, folder = await ask(manager)
        assert folder == repr(str(tmp_path)) and int(pid) == manager.provisioner.pid
        await manager.restart_kernel()
        assert (await ask(manager))[0] != pid and await manager.is_alive()
        last = manager.provisioner.pid
        await manager.shutdown_kernel()
        assert not manager.has_kernel and not psutil.pid_exists(last)

    asyncio.run(main())
    for one in provisioner._SERVERS.values():
        one.close()


def test_the_entry_point_names_the_class():
    import tomllib

    entries = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("entry-points", {})
    module, _, name = entries["jupyter_client.kernel_provisioners"][provisioner.NAME].partition(":")
    assert getattr(importlib.import_module(module), name) is provisioner.WarmProvisioner


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A shelf with two small packages: ``upper_ts`` imports ``lower_ts``."""
    (tmp_path / "upper_ts").mkdir()
    _server_file(
        tmp_path / "upper_ts",
        "__init__",
        "import lower_ts\nimport os, warnings\nos.environ['UPPER_TS'] = 'set'\nfrom . import part\nwarnings.simplefilter('ignore', EncodingWarning)",
    )
    _server_file(tmp_path / "upper_ts", "part", "number = 3")
    _server_file(tmp_path, "lower_ts", "number = 2")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("UPPER_TS", "before")
    made = Shelf()
    with warnings.catch_warnings():
        monkeypatch.delenv("UPPER_TS")
        with made.collect():
            importlib.import_module("upper_ts")
        os.environ.pop("UPPER_TS")
        made.hide()
        yield made
        sys.meta_path.remove(made)
    for name in ("upper_ts", "upper_ts.part", "lower_ts"):
        sys.modules.pop(name, None)


def test_a_package_comes_back_with_what_it_needs_and_what_it_did(shelf):
    first = shelf.modules["upper_ts"]
    assert not {"upper_ts", "upper_ts.part", "lower_ts"} & set(sys.modules) and "UPPER_TS" not in os.environ
    assert not any(one[2] is EncodingWarning and one[0] == "ignore" for one in warnings.filters[:1])
    upper = importlib.import_module("upper_ts")
    assert upper is first and {"upper_ts.part", "lower_ts"} <= set(sys.modules)
    assert os.environ["UPPER_TS"] == "set" and warnings.filters[0][:3] == ("ignore", None, EncodingWarning)
    assert upper.__spec__.loader is upper.__loader__ and upper.__spec__.loader.get_source("upper_ts").startswith("import lower_ts")
    assert importlib.import_module("upper_ts.part").number == 3
    assert importlib.reload(upper) is upper


def test_a_module_comes_back_alone(shelf):
    assert importlib.import_module("lower_ts").number == 2
    assert "upper_ts" not in sys.modules


def test_a_file_of_that_name_that_comes_first_hides_it(shelf, tmp_path, monkeypatch):
    (tmp_path / "first").mkdir()
    _server_file(tmp_path / "first", "lower_ts", "number = 'mine'")
    monkeypatch.syspath_prepend(str(tmp_path / "first"))
    assert importlib.import_module("lower_ts").number == "mine"
    assert importlib.import_module("upper_ts").lower_ts.number == 2


def test_kept_paths_are_put_right():
    class Kept:
        attribute = "/old/a"

        def __init__(self):
            self.own = Path("/old/b")

    module = types.ModuleType("kept_ts")
    module.__dict__.update(
        text="/old", more=["/old/c", ("/old/d", 1)], table={"x": {"y": "/old/e"}}, Kept=Kept, one=Kept(), other="/new", loop=[]
    )
    module.loop.append(module.loop)
    sys.modules["kept_ts"] = module
    try:
        found = places.find("/old")
    finally:
        del sys.modules["kept_ts"]
    for place in found:
        place.move("/old", "/new")
    assert (module.text, module.more, module.table) == ("/new", ["/new/c", ("/new/d", 1)], {"x": {"y": "/new/e"}})
    assert (Kept.attribute, module.one.own, module.other) == ("/new/a", Path("/new/b"), "/new")
    assert places.find("/no such folder anywhere") == []


def test_what_programs_import_is_read_and_not_imported():
    sources = [
        "import json.decoder as d, no_such_thing\nfrom importlib import machinery, no_such_thing\nfrom . import near",
        "def f():\n    from collections import abc, OrderedDict\nimport sys",
        "import = broken",
        "\0",
    ]
    assert imports.imported(sources) == (
        "collections",
        "collections.abc",
        "importlib",
        "importlib.machinery",
        "json.decoder",
        "sys",
    )


def test_what_a_run_had_loaded_is_remembered_for_exactly_its_program(tmp_path):
    program, other = ["import json", "x = 1"], ["import json", "x = 2"]
    assert imports.needed(program, tmp_path) == ("json",)
    imports.remember(program, tmp_path, f"json zipfile __main__ graders.run graders_probe html.parser a-b ../c {'x' * 10**6}")
    assert imports.needed(program, tmp_path) == ("json", "zipfile", "html.parser")
    assert imports.needed(other, tmp_path) == ("json",)
    assert [path.suffix for path in (tmp_path / "modules").iterdir()] == [".txt"]


def test_a_server_that_finds_no_end_of_spoiling_modules_gives_up(server, tmp_path, monkeypatch):
    monkeypatch.setattr("graders.kernels.servers.MAX_STARTS", 2)
    for number in range(3):
        _server_file(
            tmp_path, f"spoiling{number}", "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
        )
    made = server("spoiling0", "spoiling1", "spoiling2")
    with pytest.raises(NoFork, match="another thread"):
        asyncio.run(made.ready())
    assert set(made.left_out) == {"spoiling0"} and not made.alive


def test_a_process_with_a_thread_is_unsafe_to_fork():
    # In a process of its own: other tests may have left a thread or a backend in this one.
    code = (
        "import threading\nfrom graders.kernels import forkserver\nassert forkserver.unsafe() == ''\n"
        "stop = threading.Event()\nthreading.Thread(target=stop.wait, name='a reader').start()\n"
        "print(forkserver.unsafe())\nstop.set()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "a reader" in done.stdout


def test_a_message_of_a_kernel_that_is_too_long_is_no_hang(server, tmp_path):
    made = server()

    async def main():
        environment = {"X": "y" * 3_000_000}
        with pytest.raises(NoFork, match="cannot be reached"):
            await made.fork(forkserver.Task((), environment, str(tmp_path)), (0, 1, 2))

    asyncio.run(main())


def test_waiting_outside_of_an_event_loop(server, tmp_path):
    made = server()
    forked = asyncio.run(_fork(made, tmp_path))
    with pytest.raises(subprocess.TimeoutExpired):
        forked.wait(timeout=0.1)
    forked.terminate()
    assert forked.wait(timeout=60) == -signal.SIGTERM
    assert psutil.Process(forked.pid).status() == psutil.STATUS_ZOMBIE  # its number is nobody else's yet
    forked.release()
    until = time.monotonic() + 30
    while psutil.pid_exists(forked.pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert not psutil.pid_exists(forked.pid)


def test_a_kernel_has_its_own_descriptors_before_the_first_cell(cache):
    found = [
        [printed(one) for one in in_kernel(cache, how, DRAIN, "print('after')", "print(len(taken) > 100)", modules=())]
        for how in (How.COLD, How.WARM) * 3
    ]
    own, *later = found[0]
    assert own.endswith("Too many open files\n") and later == ["after\n", "True\n"]
    # One that was opened later would be missing, or not, by chance, and some kernels would abort.
    assert found == [found[0]] * 6
