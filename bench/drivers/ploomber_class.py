"""Run notebooks with ploomber-engine, all in this process: ``ploomber_class.py OUT NOTEBOOK...``."""

import sys
from pathlib import Path

import nbformat
from ploomber_engine.ipython import PloomberClient

for name in sys.argv[2:]:
    executed = PloomberClient.from_path(name, progress_bar=False).execute()
    nbformat.write(executed, Path(sys.argv[1]) / Path(name).name)
