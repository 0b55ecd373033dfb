"""The line as a model that MLflow can load: this file and a `model.json` are stored, and no pickle.

MLflow runs this file when the model is logged and again when it is loaded, so what a stored model does can be read.
"""

from __future__ import annotations

import json
from pathlib import Path

from mlflow.models import set_model
from mlflow.pyfunc import PythonModel, PythonModelContext


class LineModel(PythonModel):
    """Weight times x plus bias, in Python's floats."""

    def load_context(self, context: PythonModelContext) -> None:
        """Read weight and bias from the file that was stored with the model."""
        fields = json.loads(Path(context.artifacts["model"]).read_bytes())
        self.weight, self.bias = fields["weight"], fields["bias"]

    # MLflow makes the signature of the logged model from these two types.
    def predict(self, context: PythonModelContext, model_input: list[float]) -> list[float]:
        """One prediction for each input."""
        return [self.weight * x + self.bias for x in model_input]


set_model(LineModel())
