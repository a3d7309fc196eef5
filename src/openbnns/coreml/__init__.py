"""Core ML models on any machine, as coremltools spells it: ``MLModel(path).predict({"x": array})``.

A program that predicts with coremltools on a Mac does so everywhere with one changed import::

    import openbnns.coreml as ct

    model = ct.models.MLModel("model.mlpackage")
    outputs = model.predict({"x": x})
"""

import sys as _sys

from ..interop.coreml import CoreMLError
from ..interop.coreml.network import from_coreml
from .compute_units import ComputeUnit
from .inspection import Inspection, inspect
from .model import CompiledMLModel, MLModel, MLState

models = _sys.modules[__name__]
"""coremltools has its model at ``coremltools.models.MLModel``."""

__all__ = [
    "CompiledMLModel",
    "CoreMLError",
    "ComputeUnit",
    "Inspection",
    "MLModel",
    "MLState",
    "from_coreml",
    "inspect",
    "models",
]
