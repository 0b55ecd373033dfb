"""Cases that only a kernel with limits survives unharmed: memory, processes, signals. Bounded, so that none can harm the machine.

They are run by the parts of the grader themselves, with limits that are far below what the work asks for.
"""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from course.catalogue import load
from graders.check import Desk, Settings, check
from graders.kernels.isolation import survey
from graders.kernels.order import NAMESPACES, RLIMITS, SCOPES
from tests.faults import running
from tests.faults.cells import MEAN, Folder, notebook
from tests.faults.table import rows

pytestmark = [
    pytest.mark.lessons,
    pytest.mark.skipif(os.name != "posix", reason="this platform has no limits for processes"),
]
# Of a machine that others use as well: nothing here may take more than this.
BOUNDS = {"memory_mb": 700, "processes": 30, "scratch_mb": 60, "file_mb": 40, "output_mb": 4, "open_files": 256}


@pytest.fixture
def judged(ragged, tmp_path):
    def of(path: Path):
        settings = Settings(5, ragged / ".cache", cell_seconds=20, total_seconds=90, more=BOUNDS)

        async def run():
            desk = Desk(load(ragged).lesson("ragged-01"), settings)
            try:
                return await check(desk, path.parent.name, path, path.name)
            finally:
                await desk.close()

        return asyncio.run(run())

    return of


def right(result, learner):
    (row,) = [one for one in rows("limits") if one.learner == learner]
    for name, allowed in row.verdicts.items():
        (found,) = [one for one in result.exercises if one.exercise == name]
        assert (found.verdict.value, found.reason.value if found.reason else "") in allowed, result
    messages = " ".join(one.message for one in result.exercises)
    assert all(word in messages for word in row.says), messages


def needs(*layers):
    missing = [layer for layer in layers if layer not in survey().layers]
    if missing:
        pytest.skip(f"this machine has no {', '.join(missing)}")


def test_a_fork_bomb(judged, tmp_path):
    running.x05(Folder(tmp_path))
    right(judged(tmp_path / "X05" / "ragged-01.ipynb"), "X05")


def test_a_memory_hog(judged, tmp_path):
    needs(RLIMITS)
    running.x06(Folder(tmp_path), megabytes=1_500)
    right(judged(tmp_path / "X06" / "ragged-01.ipynb"), "X06")


def test_a_signal_to_the_parent(judged, tmp_path):
    """The parent of the learner's process is not the grader, so that the grader is there to say something afterwards."""
    needs(*([NAMESPACES] if NAMESPACES in survey().layers else [SCOPES]))
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("SIGTERM"))
    try:
        running.x44(Folder(tmp_path))
        right(judged(tmp_path / "X44" / "ragged-01.ipynb"), "X44")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not heard


@pytest.mark.parametrize(
    ("code", "reason", "said"),
    [
        ("import numpy as np\nhuge = np.ones((40, 10**7))", "memory", "needed more than"),
        ("text = 'x'\nwhile len(text) < 2 * 10**9:\n    text += text", "memory", "needed more than"),
        ("import subprocess, sys\nkids = [subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)']) for _ in range(60)]\nimport time\ntime.sleep(15)", "resource-limit", "processes"),
        ("with open('big', 'wb') as file:\n    for _ in range(100):\n        file.write(bytes(10**6))", "resource-limit", "MB"),
        ("for n in range(100):\n    with open(f'f{n}', 'wb') as file:\n        file.write(bytes(10**6))\nimport time\ntime.sleep(5)", "resource-limit", "MB"),
        ("held = [open('/dev/null') for _ in range(1000)]", "resource-limit", "files open"),
        ("while True:\n    print('x' * 1000)", "output-limit", "printed more than"),
        ("import sys\nwhile True:\n    sys.stderr.write('x' * 1000)", "output-limit", "printed more than"),
    ],
    ids=["array", "text", "processes", "one-file", "many-files", "descriptors", "stdout", "stderr"],
)  # fmt: skip
def test_more_of_the_kind(judged, tmp_path, code, reason, said):
    needs(RLIMITS)
    path = Folder(tmp_path).put("Kim", notebook(mean=f"{code}\n\n{MEAN}"))
    result = judged(path)
    pad, mean = result.exercises
    assert pad.verdict == "PASS", result
    assert (mean.verdict, mean.reason) == ("FAIL", reason), result
    assert said in mean.message


@pytest.mark.parametrize(
    "code",
    [
        "import os, shutil\nshutil.rmtree(os.getcwd())",
        "import os, signal\nos.kill(0, signal.SIGKILL)",
        "import os, signal\nos.killpg(os.getpgid(os.getppid()), signal.SIGTERM)",
        "import ctypes\nctypes.string_at(0)",
        "import os\nos.closerange(0, 256)",
        "import resource\nresource.setrlimit(resource.RLIMIT_STACK, (4096, 4096))\ndef down(n):\n    return down(n + 1)\nimport sys\nsys.setrecursionlimit(10**8)\ndown(0)",
    ],
    ids=["cwd", "group", "parents-group", "segfault", "descriptors", "stack"],
)  # fmt: skip
def test_what_ends_a_kernel_ends_nothing_else(judged, tmp_path, code):
    needs(*([NAMESPACES] if NAMESPACES in survey().layers else [SCOPES]))
    began = time.monotonic()
    path = Folder(tmp_path).put("Kim", notebook(after=code))
    result = judged(path)
    assert time.monotonic() - began < 110
    assert {one.verdict.value for one in result.exercises} <= {"PASS", "FAIL", "TIMEOUT"}, result
    honest = judged(Folder(tmp_path).put("Ana", notebook()))
    assert [one.verdict for one in honest.exercises] == ["PASS", "PASS"], honest
