"""Elementwise functions in files: written to ONNX, where onnx's own evaluator computes them, and to Core ML and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from function_checks import Applied
from function_loops import ELEMENTWISE, LOOPS
from onnx_networks import by_reference
from openbnns.coreml import MLModel
from openbnns.graph.declared import OPERATIONS
from openbnns.interop.onnx.errors import Unsupported
from openbnns.nn import functional as F

NAMES = sorted({*OPERATIONS} & {*ELEMENTWISE})
NOT_IN_ONNX = {"atan2"}
NOT_IN_CORE_ML = {"acosh", "asinh", "atan2", "fmod", "isfinite", "isinf", "sinc"}


def applied(name: str) -> tuple[Any, list[Any], Any]:
    """A function as a network, its inputs, and their result in float64."""
    random, start = np.random.default_rng(0), 1 if name == "acosh" else 0
    inputs = [start + random.uniform(0.3, 0.9, (2, 3)).astype(np.float32) for _ in OPERATIONS[name].kinds]
    net = Applied(getattr(F, name)).eval()
    net(*inputs)
    return net, inputs, LOOPS[name](*(x.astype(np.float64) for x in inputs))


@pytest.mark.parametrize("name", NAMES)
def test_written_to_onnx(name: str, tmp_path: Path) -> None:
    net, inputs, expected = applied(name)
    if name in NOT_IN_ONNX:
        with pytest.raises(Unsupported, match=f"{name} has no form in ONNX"):
            net.to_onnx(tmp_path / "n.onnx")
        return
    net.to_onnx(tmp_path / "n.onnx")
    (actual,) = by_reference(tmp_path / "n.onnx", inputs)
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_written_to_core_ml(name: str, tmp_path: Path) -> None:
    net, inputs, expected = applied(name)
    if name in NOT_IN_CORE_ML:
        with pytest.raises(ValueError, match=f"there is no function {name} in Core ML"):
            net.to_coreml(tmp_path / "n.mlpackage")
        return
    model = MLModel(net.to_coreml(tmp_path / "n.mlpackage").path)
    (actual,) = model.predict(dict(zip(model.input_description, inputs, strict=True))).values()
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=1e-6)
