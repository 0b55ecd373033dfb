"""What goes wrong with JAX, MLflow, Grain and matplotlib: one function a case, each for the second lesson of the course."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from tests.faults.cells import Folder, notebook

STORE = "import mlflow\nmlflow.set_tracking_uri('sqlite:///mlflow.db')\nmlflow.set_experiment('ragged')\n"


def e03(into: Folder) -> None:
    log = "with mlflow.start_run():\n    for i in range(3):\n        mlflow.log_metric('loss', i, step=i)"
    into.put("E03", notebook(run=STORE + log))
    into.put("E03 too", notebook(run=STORE + log))


def e04(into: Folder) -> None:
    into.put("E04", notebook(run=STORE))
    with closing(sqlite3.connect(into.root / "E04" / "mlflow.db")) as database:
        database.execute("create table alembic_version (version_num varchar(32) not null)")
        database.execute("insert into alembic_version values ('ffffffffffff')")
        database.commit()


def e05(into: Folder) -> None:
    made = notebook(run=STORE + "mlflow.start_run()\n1 / 0")
    again = notebook(run="with mlflow.start_run():\n    mlflow.log_metric('loss', 0.3)\nok = True")["cells"][-1]
    made["cells"].append({**again, "id": "again"})
    into.put("E05", made)


def e06(into: Folder) -> None:
    search = """\
for name, v in [('a', 0.5), ('b', float('nan')), ('c', 0.3), ('d', None), ('e', float('inf')), ('f', -1e9)]:
    with mlflow.start_run(run_name=name):
        if v is not None:
            mlflow.log_metric('loss', v)
names = lambda df: list(df['tags.mlflow.runName'])
best = names(mlflow.search_runs(order_by=['metrics.loss ASC']))
below = names(mlflow.search_runs(filter_string='metrics.loss < 1'))
typo = names(mlflow.search_runs(order_by=['metrics.lsos ASC']))"""
    into.put("E06", notebook(run=STORE + search))


def e08(into: Folder) -> None:
    watch = "import socket\nheard = []\nreal = socket.getaddrinfo\nsocket.getaddrinfo = lambda host, *a, **k: (heard.append(str(host)), real(host, *a, **k))[1]\n"
    log = "import time\nwith mlflow.start_run():\n    mlflow.log_metric('loss', 0.5)\ntime.sleep(3)\nheard = [h for h in heard if 'telemetry' in h]\nassert not heard, heard"
    into.put("E08", notebook(run=watch + STORE + log))


def e10(into: Folder) -> None:
    fork = """\
import os, signal
import jax, jax.numpy as jnp
print(jnp.ones(3) + 1)
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    jax.jit(lambda a: (a @ a.T).sum())(jnp.ones((300, 300))).block_until_ready()
    os._exit(0)
status = os.waitpid(pid, 0)[1]"""
    into.put("E10", notebook(run=fork))


def e11(into: Folder) -> None:
    late = "import os, jax\nn1 = len(jax.devices('cpu'))\nos.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=4'\nn2 = len(jax.devices('cpu'))"
    into.put("E11", notebook(run=late))
    typo = "import os\nos.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_cuont=4'\nimport jax\njax.devices()"
    into.put("E11 typo", notebook(before=typo, run="pass"))


def e12(into: Folder) -> None:
    switch = "import jax, jax.numpy as jnp\na = jnp.arange(3.0)\njax.config.update('jax_enable_x64', True)\nb = jnp.arange(3.0)\nprint(a.dtype, b.dtype, (a + b).dtype)\nx64_mean = float(b.mean())"
    into.put("E12", notebook(run=switch))


def e13(into: Folder) -> None:
    cache = """\
import jax, jax.numpy as jnp
jax.config.update('jax_compilation_cache_dir', 'jaxcache')
jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)
jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)
print(jax.jit(lambda a: (a * 2).sum())(jnp.arange(1000.0)))"""
    into.put("E13", notebook(run=cache))


def e18(into: Folder) -> None:
    restore = """\
import grain

class Source:
    def __len__(self):
        return 20
    def __getitem__(self, i):
        return i

def fresh():
    return iter(grain.MapDataset.source(Source()).shuffle(seed=3).batch(4).to_iter_dataset())

it = fresh()
first = [next(it).tolist() for _ in range(2)]
state = it.get_state()
rest = [b.tolist() for b in it]
again = fresh()
again.set_state(state)
assert [b.tolist() for b in again] == rest
seen = sorted(v for b in first + rest for v in b)"""
    into.put("E18", notebook(run=restore))


def e19(into: Folder) -> None:
    plot = "import matplotlib\nprint(matplotlib.get_cachedir())\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.title('\\u4e2d \\u03b1')"
    into.put("E19", notebook(run=plot))


def e20(into: Folder) -> None:
    start = "import jax, jax.numpy as jnp\nf = jax.jit(lambda a: jnp.linalg.svd(a)[1].sum())\nassert float(f(jnp.eye(50))) == 50.0"
    into.put("E20", notebook(run=start))


CASES = {name.upper(): made for name, made in dict(globals()).items() if name[:1] == "e" and name[1:].isdigit()}
