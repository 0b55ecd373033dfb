"""Work that misbehaves when it is run: one function a case, each putting its submissions into a class folder."""

from __future__ import annotations

from tests.faults.cells import MEAN, PAD, SCRIPT, SETUP, WRONG_MEAN, WRONG_PAD, Folder, code, notebook

FOREVER = "while True:\n    pass\n"


def x01(into: Folder) -> None:
    into.put("X01", notebook(mean=FOREVER + MEAN))


def x02(into: Folder) -> None:
    deaf = (
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True:\n"
        "    try:\n        sum(range(1000))\n    except BaseException:\n        pass\n"
    )
    into.put("X02", notebook(mean=deaf + MEAN))


def x05(into: Folder, forks: int = 60) -> None:
    """A bounded bomb: what counts is that it meets a limit or is swept away, not how large it is."""
    bomb = f"""\
import os, time
made = 0
try:
    while made < {forks}:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        made += 1
except OSError as error:
    print("stopped at", made, error)"""
    into.put("X05", notebook(before=bomb))


def x06(into: Folder, megabytes: int = 2_000) -> None:
    """Takes memory in blocks, every page touched, and no more than is said."""
    hog = f"blocks = []\nfor _ in range({megabytes // 100}):\n    blocks.append(bytearray(b'1') * (100 * 2**20))"
    into.put("X06", notebook(mean=hog))


def x07(into: Folder) -> None:
    into.put("X07", notebook(before="import os\nos._exit(0)"))


def x09(into: Folder) -> None:
    into.put("X09", notebook(mean=f"import sys\nsys.exit(0)\n\n{MEAN}"))
    into.put("X09 after", notebook(after="import sys\nsys.exit(0)"))
    into.put("X09 quit", notebook(before="quit()"))


def x11(into: Folder) -> None:
    late = """
import atexit, os, sys

def late():
    print('PASS ragged pad.last')
    sys.stdout.flush()
    os._exit(0)

atexit.register(late)
sys.excepthook = lambda *a: os._exit(0)
"""
    into.script("X11", SCRIPT.replace("mask.sum(axis=1) - 1]", "0]") + late)


def x12(into: Folder) -> None:
    forged = """\
import os, sys
for line in ['PASS ragged pad.last', 'PASS      ragged-01/pad', '{"verdict": "PASS", "score": 100}', '<testcase name="pad"/>', 'exit 0']:
    print(line)
    print(line, file=sys.stderr)
    os.write(1, (line + '\\n').encode())"""
    into.put("X12", notebook(pad=WRONG_PAD, mean=WRONG_MEAN, after=forged))


def x13(into: Folder) -> None:
    talk = """\
import threading, time

def talk():
    for k in range(20):
        time.sleep(0.05)
        print('tick', k)

threading.Thread(target=talk, daemon=True).start()"""
    into.put("X13", notebook(before=talk, after="import time\ntime.sleep(0.3)\nprint(last.tolist())"))


def x14(into: Folder) -> None:
    leave = """\
import subprocess, sys
nap = 'import time; time.sleep(60)'
subprocess.Popen([sys.executable, '-c', nap], start_new_session=True)
subprocess.Popen(['sh', '-c', f'({sys.executable} -c "{nap}" &) '], start_new_session=True)"""
    into.put("X14", notebook(before=leave))


def x15(into: Folder) -> None:
    into.script(
        "X15", f"{SCRIPT}\nimport subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    )


def x17(into: Folder) -> None:
    into.put("X17", notebook(mean=f"import itertools\nfor k in itertools.count():\n    print('x' * 1000)\n\n{MEAN}"))
    into.put("X17 finite", notebook(before="for k in range(50_000):\n    print('x' * 1000)"))


def x18(into: Folder) -> None:
    odd = r"'nul \x00 bell \x07 bs \x08 esc \x1b[31mred\x1b[0m del \x7f nonchar \ufffe'"
    into.put("X18", notebook(before=f"print({odd})"))
    into.put("X18 raise", notebook(mean=r"raise ValueError('bad \x00 \x1b[31m ]]> & < \ufffe')" + f"\n\n{MEAN}"))


def x19(into: Folder) -> None:
    into.put("X19", notebook(before=r"import os; os.write(1, b'\xff\xfe\x80 raw \xe9\n')"))
    into.script("X19 script", SCRIPT + "\nimport sys\nsys.stdout.buffer.write(b'\\xff\\xfe\\x80 raw\\n')\n")


def x20(into: Folder) -> None:
    bang = notebook(before="!false")
    bang["cells"].insert(2, code("out = !exit 3\nout"))
    into.put("X20 bang", bang)
    into.put("X20 bash", notebook(before="%%bash\nexit 3"))
    into.put("X20 time", notebook(mean=f"%%time\nraise ValueError('inside %%time')\n{MEAN}"))


def x21(into: Folder) -> None:
    made = notebook(before="%timeit -n2 -r2 sum(range(100))", after="%%time\nmasked_mean(padded_labels, mask)")
    made["cells"].insert(2, code("%%capture kept\nprint('hidden')"))
    into.put("X21", made)


def x22(into: Folder) -> None:
    made = notebook(pad=WRONG_PAD)
    made["cells"].append(code("assert last.tolist() == [2, 5, 4], last", tags=("ex:check", "raises-exception")))
    made["metadata"] |= {"allow_errors": True, "execution": {"allow_errors": True, "timeout": 100_000}}
    into.put("X22", made)
    answer = notebook()
    answer["cells"][1] = code("raise NotImplementedError", "pad", tags=("raises-exception",))
    into.put("X22 answer", answer)


def x24(into: Folder) -> None:
    patch = """\
import builtins
import numpy as np, numpy.testing as t
t.assert_allclose = t.assert_array_equal = t.assert_equal = lambda *a, **k: None
np.allclose = np.array_equal = np.array_equiv = lambda *a, **k: True
builtins.abs = lambda v: 0
builtins.print = lambda *a, **k: None"""
    into.put("X24", notebook(before=patch, mean=WRONG_MEAN))


BOOM = """\
class Boom:
    def __reduce__(self):
        import os
        return (os.system, ('echo unpickled > unpickled.marker',))

last = Boom()"""


def x26(into: Folder) -> None:
    into.put("X26", notebook(after=BOOM))
    into.put("X26 own cell", notebook(pad=f"{PAD}\n{BOOM}"))


def x28(into: Folder) -> None:
    look = """\
import pathlib, sys
words = ('solution', 'held', 'hidden', 'receipt', 'answer')
found = []
for root in {pathlib.Path.cwd(), *pathlib.Path.cwd().parents, *map(pathlib.Path, sys.path)}:
    try:
        found += [p for p in root.glob('*') if any(w in p.name.lower() for w in words)]
    except OSError:
        pass
print(found)
text = found[0].read_text()
"""
    into.put("X28", notebook(mean=look + MEAN))


LOOK_BACK = """\
import gc, re, sys

def masked_mean(x, m):
    for text in reversed(get_ipython().user_ns.get('In', [])):
        hit = re.search(r'masked_mean\\(.*?\\)\\s*(?:-|==|,)\\s*([0-9./]+)', text)
        if hit:
            a, _, b = hit.group(1).partition('/')
            return float(a) / float(b or 1)
    f = sys._getframe(1)
    while f:
        for k, v in {**f.f_globals, **f.f_locals}.items():
            if 'expect' in str(k).lower() or 'want' in str(k).lower():
                return v
        f = f.f_back
    for o in gc.get_objects():
        if isinstance(o, dict) and 'expected' in o:
            return o['expected']
    return 0.0"""


def x29(into: Folder) -> None:
    into.put("X29", notebook(after=LOOK_BACK))
    into.put("X29 own cell", notebook(mean=f"{MEAN}\n\n{LOOK_BACK}"))


def x30(into: Folder) -> None:
    reach = """\
import socket
for where in [('192.0.2.1', 80), ('example.invalid', 443)]:
    try:
        socket.create_connection(where, timeout=1).close()
        print('connected', where)
    except OSError as error:
        print(type(error).__name__, error)"""
    into.put("X30", notebook(before=reach))


def x33(into: Folder) -> None:
    into.put("X33", notebook(pad=WRONG_PAD, mean=WRONG_MEAN))
    into.put("X33", "print('PASS ragged pad.last')\n", "conftest.py")
    into.put("X33", "def loads(s):\n    return {'verdict': 'PASS'}\nload = dumps = dump = loads\n", "json.py")
    into.put("X33", "def allclose(*a, **k):\n    return True\narray_equal = allclose\n", "numpy.py")
    into.put("X33", "open('sitecustomize.marker', 'w').write('ran')\n", "sitecustomize.py")
    into.put("X33", "[pytest]\naddopts = --co -q\n", "pytest.ini")


def x34(into: Folder) -> None:
    deaf = """\
import signal, time
for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(s, signal.SIG_IGN)
end = time.time() + 60
while time.time() < end:
    time.sleep(1)
"""
    into.script("X34", deaf)


def x35(into: Folder) -> None:
    drain = """\
import os
fds = []
try:
    while len(fds) < 100_000:
        fds.append(os.open('/dev/null', os.O_RDONLY))
except OSError as error:
    print(len(fds), error)"""
    into.put("X35", notebook(before=drain))


def x37(into: Folder) -> None:
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show(block=True)"
    into.put("X37", notebook(before=plot))
    into.script("X37 script", f"{SCRIPT}\n{plot}\n")
    tk = "import matplotlib\nmatplotlib.use('TkAgg', force=True)\nimport matplotlib.pyplot as plt\nplt.figure()\n\n"
    into.put("X37 tk", notebook(mean=tk + MEAN))


def x38(into: Folder) -> None:
    talk = """\
import comm
c = comm.create_comm(target_name='jupyter.widget', data={'state': {'_model_name': 'IntProgressModel'}, 'buffer_paths': []},
                     metadata={'version': '2.1.0'})
c.send({'method': 'update', 'state': {'value': 3}})
c.send({'method': 'custom', 'content': {'ask': 'state'}})"""
    into.put("X38", notebook(before=talk))


def x40(into: Folder) -> None:
    into.put("X40", notebook(mean=f"raise KeyboardInterrupt\n\n{MEAN}"))
    into.script("X40 script", "raise KeyboardInterrupt\n")


def x43(into: Folder) -> None:
    slow = "class Slow:\n    def __repr__(self):\n        while True:\n            pass\nprint(Slow())\n\n"
    into.put("X43", notebook(mean=slow + MEAN))
    bad = "class Bad:\n    def __repr__(self):\n        raise RuntimeError('no repr')\nx = Bad()\nlast = [x]"
    into.put("X43 raises", notebook(after=bad))
    into.put("X43 own cell", notebook(pad=f"{PAD}\n{bad}"))
    into.put("X43 huge", notebook(mean=f"raise ValueError('x' * 20_000_000)\n\n{MEAN}"))


def x44(into: Folder) -> None:
    shoot = """\
import os, signal
os.kill(os.getppid(), signal.SIGTERM)
try:
    os.kill(-1, 0)
except OSError as error:
    print(error)"""
    into.put("X44", notebook(before=shoot))


def x45(into: Folder) -> None:
    made = notebook(pad=WRONG_PAD, mean=WRONG_MEAN)
    hook = "ip = get_ipython()\nip.input_transformers_cleanup.append(lambda lines: ['pass\\n'])\nip.events.register('pre_run_cell', lambda info: None)"
    made["cells"] += [code(hook), code("assert last.tolist() == [2, 5, 4]", tags=("ex:check",))]
    into.put("X45", made)


def x46(into: Folder) -> None:
    plant = """\
import pathlib, site
home = pathlib.Path.home()
for d in [home / '.ipython/profile_default/startup', pathlib.Path(site.getusersitepackages()), home / '.config/matplotlib']:
    try:
        d.mkdir(parents=True, exist_ok=True)
        (d / '00-plant.py').write_text('import numpy as np\\nlast = np.array([2, 5, 4])\\npadded_labels = mask = last\\nmasked_mean = lambda x, m: 19 / 6\\n')
        (d / 'usercustomize.py').write_text('PLANTED = 1\\n')
    except OSError as error:
        print(error)"""
    into.put("X46", notebook(before=plant))
    cells = [code(SETUP, "setup"), code("print('nothing done')", "pad")]
    into.put("X46 next", {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


CASES = {name.upper(): made for name, made in dict(globals()).items() if name[:1] == "x" and name[1:3].isdigit()}
