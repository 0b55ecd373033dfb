"""Run notebooks with papermill: ``papermill_class.py OUT NOTEBOOK...`` writes the executed ones to the folder OUT."""

import sys
from pathlib import Path

from papermill import execute_notebook

for name in sys.argv[2:]:
    execute_notebook(name, str(Path(sys.argv[1]) / Path(name).name), cwd=str(Path(name).parent), progress_bar=False)
