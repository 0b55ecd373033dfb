"""Submissions that misbehave, each put at the start of an exercise whose answer is right, with what has to come of it."""

from dataclasses import dataclass, field

from graders.verdict import Reason, Verdict

RIGHT = "\n\ndef scaled(values, factor):\n    return [factor * value for value in values]"


@dataclass(frozen=True)
class Hostile:
    """One of them.

    Attributes:
        code: what it does before it answers.
        verdict, reason: of the exercise.
        says: what the message holds.
        notice: what a notice holds.
        limits: instead of the lesson's.
        before: the verdict of the exercise before it.
        needs: layers without which it is another case.
    """

    code: str
    verdict: Verdict = Verdict.PASS
    reason: Reason | None = None
    says: str = ""
    notice: str = ""
    limits: dict[str, int] = field(default_factory=dict)
    seconds: float = 20
    before: Verdict = Verdict.PASS
    needs: tuple[str, ...] = ()


def fails(code: str, reason: Reason, says: str, **more: object) -> Hostile:
    return Hostile(code, Verdict.FAIL, reason, says, **more)  # type: ignore[arg-type]


SLEEPER = "[sys.executable, '-c', 'import time; time.sleep(90)']"
CASES = {
    # Time.
    "loop": Hostile("while True: pass", Verdict.TIMEOUT, Reason.TIMEOUT, "ran longer than 6 s", seconds=6),
    "loop that swallows interrupts": Hostile(
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        Verdict.TIMEOUT, Reason.TIMEOUT, "ran longer than 6 s", seconds=6,
    ),
    "signals ignored": Hostile(
        "import signal, time\nfor one in ('INT', 'TERM', 'HUP'): signal.signal(getattr(signal, 'SIG' + one), signal.SIG_IGN)\ntime.sleep(60)\ntime.sleep(60)",
        Verdict.TIMEOUT, Reason.TIMEOUT, "ran longer than 6 s", seconds=6,
    ),
    "blocked C code": Hostile(
        "import ctypes\nctypes.PyDLL(None).sleep(60)", Verdict.TIMEOUT, Reason.TIMEOUT, "ran longer than 6 s", seconds=6
    ),
    "repr without end": Hostile(
        "class Slow:\n    def __repr__(self):\n        while True: pass\ndisplay(Slow())", Verdict.TIMEOUT, Reason.TIMEOUT, "ran longer than 6 s", seconds=6
    ),
    # The end of the kernel.
    "exit 0": fails("import os; os._exit(0)", Reason.DIED, "the kernel exited (status 0) in cell"),
    "segfault": fails("import ctypes; ctypes.string_at(0)", Reason.DIED, "(SIGSEGV)"),
    "abort": fails("import os; os.abort()", Reason.DIED, "(SIGABRT)"),
    "kills itself": fails("import os; os.kill(os.getpid(), 9)", Reason.DIED, "(SIGKILL)"),
    "kills its group": fails("import os, time; os.killpg(0, 9); time.sleep(30)", Reason.DIED, "the kernel exited", before=Verdict.PASS),
    "kills everybody": Hostile("import os\ntry: os.kill(-1, 9)\nexcept OSError: pass", needs=("namespaces",)),
    "kills its parent": Hostile("import os\ntry: os.kill(os.getppid(), 15)\nexcept OSError: pass", needs=("namespaces",)),
    "says why": fails("import os; os.write(2, b'')\nopen('/proc/1/fd/2', 'w') if False else None\nos._exit(7)", Reason.DIED, "(status 7"),
    # Limits.
    "memory, bit by bit": fails(
        "import numpy as np\nheld = []\nwhile True: held.append(np.ones(12_500_000))", Reason.MEMORY, "needed more than 800 MB of memory",
        limits={"memory_mb": 800},
    ),
    "memory, at once": fails(
        "import numpy as np\nheld = np.ones(10**12)", Reason.MEMORY, "needed more than 800 MB of memory", limits={"memory_mb": 800}
    ),
    "memory error that is caught": Hostile(
        "import numpy as np\ntry: np.ones(10**13)\nexcept MemoryError: pass", limits={"memory_mb": 800}
    ),
    "memory of children": fails(
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time; held = bytearray(900_000_000); time.sleep(30)'])",
        Reason.MEMORY, "needed more than 800 MB", limits={"memory_mb": 800},
    ),
    "fork bomb": fails(
        "import os, time\nfor _ in range(300):\n    if os.fork() == 0:\n        time.sleep(60)\n        os._exit(0)\ntime.sleep(30)",
        Reason.RESOURCE_LIMIT, "more than 40 processes", limits={"processes": 40},
    ),
    "fork bomb without bound": fails(
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", Reason.RESOURCE_LIMIT, "more than 40 processes",
        limits={"processes": 40},
    ),
    "file": fails(
        "with open('large', 'wb') as file:\n    while True: file.write(bytes(1_000_000))", Reason.RESOURCE_LIMIT, "a file of more than 20 MB",
        limits={"file_mb": 20},
    ),
    "disk": fails(
        "for number in range(1000):\n    with open(str(number), 'wb') as file: file.write(bytes(5_000_000))\nimport time; time.sleep(10)",
        Reason.RESOURCE_LIMIT, "filled its folder: 50 MB", limits={"scratch_mb": 50},
    ),
    "descriptors": fails(
        "held = []\nwhile True: held.append(open('/dev/null'))", Reason.RESOURCE_LIMIT, "more than 256 files open", limits={"open_files": 256}
    ),
    "flood": fails("import itertools\nfor k in itertools.count():\n    print('x' * 1000)", Reason.OUTPUT_LIMIT, "printed more than 8 MB", limits={"output_mb": 8}),
    "flood on descriptor 1": fails(
        "import os\nwhile True: os.write(1, b'x' * 10_000)", Reason.OUTPUT_LIMIT, "printed more than 8 MB", limits={"output_mb": 8}
    ),
    "much output": Hostile("for _ in range(5_000): print('x' * 1000)", notice="printed more than is kept"),
    "huge message": fails("raise ValueError('x' * 20_000_000)", Reason.RAISED, "ValueError: xxx"),
    # What is left behind, and what is planted.
    "child in a session of its own": Hostile(
        f"import subprocess, sys\nsubprocess.Popen({SLEEPER}, start_new_session=True)", notice="still running at the end"
    ),
    "child that holds the pipes": Hostile(f"import subprocess, sys\nsubprocess.Popen({SLEEPER}, stdout=1, stderr=2)", notice="still running at the end"),
    "orphan without environment": Hostile(
        "import os, time\nif os.fork() == 0:\n    if os.fork() == 0:\n        os.setsid()\n        os.execve('/bin/sleep', ['sleep', '90'], {})\n    os._exit(0)\nos.wait()\ntime.sleep(0.3)",
        notice="still running at the end",
    ),
    "modules in the folder": Hostile(
        "for name in ('numpy', 'json', 'sitecustomize', 'conftest', 'nbclient'):\n    open(name + '.py', 'w').write('raise SystemExit')"
    ),
    "start-up file for the next": Hostile(
        "import os\nfolder = os.path.expanduser('~/.ipython/profile_default/startup')\nos.makedirs(folder, exist_ok=True)\nopen(folder + '/a.py', 'w').write('raise SystemExit')\n"
        "os.makedirs(os.environ['IPYTHONDIR'] + '/profile_default/startup', exist_ok=True)\n"
        "open(os.environ['IPYTHONDIR'] + '/profile_default/startup/a.py', 'w').write('raise SystemExit')"
    ),
    "path configuration": fails("import site\nopen(site.getsitepackages()[0] + '/a.pth', 'w')", Reason.RAISED, "stopped with", needs=("landlock",)),
    # The way of the values.
    "numpy.testing replaced": Hostile("import numpy.testing\nnumpy.testing.assert_allclose = numpy.testing.assert_equal = print"),
    # It stays for the runs under other parameters, in the same kernel.
    # What it leaves in the kernel spoils the later runs there; each of them is right in a kernel of its own.
    "input transformer": Hostile("get_ipython().input_transformers_cleanup.append(lambda lines: ['pass\\n'])"),
    "repr that raises": Hostile("class Bad:\n    def __repr__(self): raise SystemExit\nbad = Bad()\nbad"),
    "widgets": Hostile("from comm import create_comm\none = create_comm(target_name='jupyter.widget', data={'state': {}})\none.send({'method': 'update'})"),
    "raw bytes": Hostile("import os\nos.write(1, b'\\xff\\xfe\\nPASS      tiny-01/function\\n')\nos.write(2, b'\\xff')"),
}  # fmt: skip
# One of each kind, for every test run; the others take minutes.
FIRST = (
    "loop that swallows interrupts", "segfault", "exit 0", "kills everybody", "memory, bit by bit", "memory, at once", "fork bomb without bound",
    "file", "disk", "descriptors", "flood on descriptor 1", "orphan without environment", "modules in the folder", "raw bytes",
)  # fmt: skip
# An answer that is an object of the learner's, which pickle would run: data is all that leaves.
PICKLED = (
    "class Bomb:\n    def __reduce__(self): return (open, ('unpickled', 'w'))\n\ndef scaled(values, factor):\n    return Bomb()"
)
HUGE_REPR = "class Huge(list):\n    def __repr__(self): return 'x' * 100_000_000\n\ndef scaled(values, factor):\n    return Huge()"
