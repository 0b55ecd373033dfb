"""Fork servers that fail, stop or die cost nobody a verdict; and a library that is put away looks like one that was never imported."""

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import time
from dataclasses import replace

import psutil
import pytest

from course.errors import CourseError
from course.schema import Limits
from graders import run as running
from graders.check import Desk, Settings, check
from graders.kernels import cold, forkserver, provisioner, servers, warm
from graders.kernels.cold import KernelFailed
from graders.kernels.sandbox import scratch
from graders.kernels.servers import Forked, ForkServer, NoFork, possible
from graders.kernels.warm import How
from graders.program import Program, Step
from graders.verdict import Reason, Verdict
from tests.conftest import reference_answers

pytestmark = pytest.mark.skipif(bool(possible()), reason=possible() or "kernels can be forked here")


@pytest.fixture(scope="module", autouse=True)
def _no_server_is_left():
    yield
    warm.close()


@pytest.fixture
def server(tmp_path):
    """Start a fork server: ``server("module", …)``; modules may lie in the test's own folder."""
    with contextlib.ExitStack() as stack:

        def start(*modules):
            made = ForkServer(modules, {**os.environ, "PYTHONPATH": str(tmp_path)}, tmp_path)
            stack.callback(made.close)
            return made

        yield start


async def forked(made, folder):
    """A kernel of this server."""
    arguments = ("-f", str(folder / "k.json"), "--HistoryManager.enabled=False")
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        return await made.fork(forkserver.Task(arguments, dict(os.environ), str(folder)), (nothing, nothing, nothing))
    finally:
        os.close(nothing)


async def lives(made, folder, process):
    """Whether this process is still the server's, and forks."""
    one = await forked(made, folder)
    reached = await one.reachable()
    one.kill()
    await one.ended()
    one.release()
    return reached and made.process is process and process.poll() is None


def descriptors(process):
    return {int(one) for one in os.listdir(f"/proc/{process.pid}/fd")}


FAILING = """
import errno, os
forks, failed = os.fork, []

def fork():
    if not failed:
        failed.append(True)
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return forks()

os.fork = fork
"""


def test_a_fork_that_fails_is_refused_and_the_next_one_is_not(server, tmp_path):
    (tmp_path / "failing.py").write_text(FAILING, encoding="utf-8")
    made = server("failing")

    async def main():
        await made.ready()
        process = made.process
        with pytest.raises(NoFork, match=f"no process can be forked: .*{os.strerror(errno.EAGAIN)}"):
            await forked(made, tmp_path)
        return await lives(made, tmp_path, process)

    assert asyncio.run(main())


@pytest.mark.parametrize("spare", [0, 1, 3])
def test_a_server_without_descriptors_refuses_and_lives_on(server, tmp_path, spare):
    """A request brings four descriptors with it."""
    made = server()

    async def main():
        await made.ready()
        process = made.process
        usual = psutil.Process(process.pid).rlimit(psutil.RLIMIT_NOFILE)
        taken = descriptors(process)
        free = [number for number in range(64) if number not in taken]
        psutil.Process(process.pid).rlimit(psutil.RLIMIT_NOFILE, (free[spare], usual[1]))
        with pytest.raises(NoFork):
            await forked(made, tmp_path)
        psutil.Process(process.pid).rlimit(psutil.RLIMIT_NOFILE, usual)
        alive = await lives(made, tmp_path, process)
        until = time.monotonic() + 30
        while descriptors(process) != taken and time.monotonic() < until:
            await asyncio.sleep(0.01)
        assert descriptors(process) == taken
        return alive

    assert asyncio.run(main())


@pytest.mark.parametrize(
    "modules",
    [
        tuple(f"gone_with_{number:04}_the_last_update_of_a_library" for number in range(1300)),
        tuple(f"wordy{number}" for number in range(8)),
    ],
    ids=["many", "wordy"],
)
def test_what_cannot_be_imported_keeps_no_server_from_forking(server, tmp_path, modules):
    for name in modules if modules[0].startswith("wordy") else ():
        (tmp_path / f"{name}.py").write_text("raise ImportError('a word ' * 10_000)", encoding="utf-8")
    made = server(*modules)

    async def main():
        await made.ready()
        return await lives(made, tmp_path, made.process)

    assert asyncio.run(main())
    assert made.left_out and set(made.left_out) <= set(modules)
    assert all("Error: " in why for why in made.left_out.values())


@pytest.fixture
def killed(monkeypatch):
    """Kill the server of a kernel at a cell: ``killed(text, nth)``, at the nth run of a cell with this text, before it or in it."""

    def kill(text, nth=1, *, before=False):
        seen = []
        ordinary = running.Session._cell

        async def cell(self, index, source, *, told):
            if text in source:
                seen.append(self.kernel.manager.provisioner.server.process.pid)
                if len(seen) == nth and before:
                    os.kill(seen[-1], signal.SIGKILL)
                    await self.kernel.ended()
                elif len(seen) == nth:
                    asyncio.get_running_loop().call_later(0.3, os.kill, seen[-1], signal.SIGKILL)
            return await ordinary(self, index, source, told=told)

        monkeypatch.setattr(running.Session, "_cell", cell)
        return seen

    return kill


@pytest.mark.parametrize(("nth", "when"), [(1, "N == 3"), (2, "N != 3")], ids=["base", "variant"])
def test_a_server_that_dies_decides_nothing(tiny, hand_in, cache, killed, nth, when):
    answers = reference_answers(tiny)
    answers["double"] = f"import time\nif {when}: time.sleep(60)\n{answers['double']}"
    file = hand_in(tiny, answers)

    async def main():
        desk = Desk(tiny, Settings(7, cache, how=How.WARM))
        try:
            await desk.draws()
            seen = killed("time.sleep(60)", nth)
            lost = await check(desk, "Ana", file, "one")
            assert len(seen) == nth
            return lost, await check(desk, "Bo", hand_in(tiny, reference_answers(tiny), "Bo"), "other")
        finally:
            await desk.close()

    lost, after = asyncio.run(main())
    assert {(one.verdict, one.reason) for one in lost.exercises} == {(Verdict.ERROR, Reason.INTERNAL)}, lost
    assert all("has ended in mid-run; grade again" in one.message for one in lost.exercises)
    assert after.verdict is Verdict.PASS, after


def test_a_kernel_that_is_killed_alone_is_a_loss(tiny, hand_in, cache):
    """The server lives: it is the submission's own doing."""
    answers = reference_answers(tiny)
    file = hand_in(tiny, {**answers, "double": f"{answers['double']}\nimport os\nos.kill(os.getpid(), 9)"})

    async def main():
        desk = Desk(tiny, Settings(7, cache, how=How.WARM))
        try:
            return await check(desk, "Ana", file, "one")
        finally:
            await desk.close()

    found = asyncio.run(main())
    assert (found.exercises[0].verdict, found.exercises[0].reason) == (Verdict.FAIL, Reason.DIED), found


def test_a_draw_whose_server_died_is_drawn_again(tiny, cache, killed):
    async def main():
        desk = Desk(tiny, Settings(7, cache, how=How.WARM))
        seen = killed("plt.subplots", before=True)
        with pytest.raises(KernelFailed, match="in mid-run"):
            await desk.draws()
        kept = await desk.draws()
        assert desk.draws().result() is kept
        return seen, kept, desk.drawn

    seen, kept, drawn = asyncio.run(main())
    assert len(set(seen)) == 2 and [set(one) for one in kept] == [set(plan.probes) for plan in drawn]


def test_a_draw_that_the_lesson_is_to_blame_for_is_not_drawn_again(tiny, cache):
    async def main():
        desk = Desk(tiny, Settings(7, cache))
        desk.drawn = tuple(replace(plan, parameters={"N": 0}) for plan in desk.drawn)
        first = desk.draws()
        with pytest.raises(CourseError, match="does not run through"):
            await first
        return desk.draws() is first

    assert asyncio.run(main())


@pytest.fixture
def stopped():
    """Stop a process; it is ended with the test."""
    with contextlib.ExitStack() as stack:

        def stop(process):
            def end():
                process.kill()
                process.wait()

            process.send_signal(signal.SIGSTOP)
            stack.callback(end)

        yield stop
        stack.close()
        warm.close()


def _server():
    (served,) = warm._SERVERS.known.values()
    return served.server


def test_where_the_server_does_not_answer_an_ordinary_kernel_is_used(cache, monkeypatch, stopped):
    monkeypatch.setattr(servers, "FORK_SECONDS", 0.5)
    warm.close()

    async def kind(how):
        with scratch(cache) as folder:
            async with warm.kernel(folder, cache=cache, how=how) as kernel:
                return type(kernel.manager.provisioner.process)

    async def main():
        # The time that its imports take is none that it does not answer.
        assert await kind(How.AUTO) is Forked
        process = _server().process
        stopped(process)
        async with asyncio.timeout(60):
            assert await kind(How.AUTO) is subprocess.Popen
        assert not _server().alive
        process.kill()  # who waits for its end would be a test of patience
        assert await kind(How.AUTO) is Forked
        process = _server().process
        stopped(process)
        with pytest.raises(KernelFailed, match="does not answer; try --kernel auto"):
            await kind(How.WARM)

    asyncio.run(main())


def test_imports_that_do_not_end_are_not_waited_for(tmp_path, server, monkeypatch):
    monkeypatch.setattr(servers, "READY_SECONDS", 0.5)
    (tmp_path / "endless.py").write_text("import time\nwhile True: time.sleep(1)\n")
    made = server("endless")
    made.start()
    process = made.process
    with pytest.raises(NoFork, match=r"has imported libraries for 0\.5 s"):
        asyncio.run(made.ready())
    # It was ended at once, since it had forked nothing: by itself it ends with status 0.
    assert process.returncode == -signal.SIGKILL and not made.alive
    other = server("endless")
    other.start()
    process = other.process
    other.close()
    assert process.returncode == -signal.SIGKILL


def test_a_kernel_ends_though_its_server_does_not_say_so(cache, monkeypatch, stopped):
    monkeypatch.setattr(cold, "END_SECONDS", 0.5)
    monkeypatch.setattr(provisioner, "END_SECONDS", 0.5)
    warm.close()

    async def main():
        with scratch(cache) as folder:
            async with asyncio.timeout(60):
                async with warm.kernel(folder, cache=cache, how=How.WARM) as kernel:
                    pid = kernel.manager.provisioner.pid
                    stopped(_server().process)
        return psutil.pid_exists(pid) and psutil.Process(pid).status()

    assert asyncio.run(main()) in {False, psutil.STATUS_ZOMBIE}


# What can be asked about a module before it is imported.
ASKED = (
    "list(find_spec('xmlrpc').submodule_search_locations) == [os.path.dirname(find_spec('xmlrpc').origin)]",
    "find_spec('xmlrpc').has_location",
    "find_spec('xmlrpc').origin",
    "find_spec('xmlrpc').parent",
    "find_spec('wave').submodule_search_locations",
    "find_spec('wave').has_location",
    "find_spec('wave').cached",
    "find_spec('wave').loader.get_source('wave')[:20]",
    "find_spec('wave').loader.get_filename('wave')",
    "find_spec('wave').loader.is_package('wave')",
    "pkgutil.get_data('xmlrpc', '__init__.py').decode()",
    "list(find_spec('kiwisolver').submodule_search_locations)",
    "find_spec('kiwisolver').loader.get_source('kiwisolver')[:20]",
    "[one for one in ('wave', 'kiwisolver') if one in sys.modules]",
    "hasattr(find_spec('wave').loader, 'no_such_thing')",
    "__import__('wave').__spec__.origin == find_spec('wave').origin",
)


def test_a_module_that_is_put_away_is_found_like_one_that_was_never_imported(cache):
    source = "import os, pkgutil, sys\nfrom importlib.util import find_spec"
    program = Program((Step("c0", source, "exercise", 1, True),), {"e": 0})
    seen = {}
    for how in (How.COLD, How.WARM):
        plan = running.Plan({}, {"e": ASKED})
        limits = Limits(cell_seconds=30, total_seconds=60)
        modules = ("wave", "xmlrpc.client", "kiwisolver")
        (trace,) = asyncio.run(running.run(program, [plan], limits, cache, how=how, modules=modules))
        seen[how] = trace.observations["e"]
    assert seen[How.WARM] == seen[How.COLD]
    assert not [text for text, value in seen[How.COLD].items() if value.kind == "raised"]
    (hidden,) = (value for text, value in seen[How.WARM].items() if text.startswith("[one for one"))
    assert hidden.items == ()
