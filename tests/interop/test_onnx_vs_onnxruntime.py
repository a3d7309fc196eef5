"""Networks from ONNX against onnxruntime, which defines the operators of its own domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_networks import node, write
from onnxruntime_cases import CASES, Case, check
from openbnns import nn

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_operators(case: Case, tmp_path: Path) -> None:
    import onnxruntime

    path = case.write(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = [np.asarray(y) for y in session.run(None, case.inputs)]
    check(nn.from_onnx(path, batch_axis=None), case, expected)


@pytest.mark.parametrize("seed", range(60))
def test_windows_that_hang_over(seed: int, tmp_path: Path) -> None:
    """Random poolings with ceil_mode, read, and written for the sizes that stay free."""
    import onnxruntime

    def run(path: Path, x: Any) -> Any:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return session.run(None, {session.get_inputs()[0].name: x})[0]

    random = np.random.RandomState(seed)
    op = str(random.choice(["MaxPool", "AveragePool", "LpPool"]))
    kernel, strides = random.randint(1, 5, 2), random.randint(1, 5, 2)
    pads = random.randint(0, np.tile(kernel, 2)) if seed % 2 else np.zeros(4, np.int64)
    sizes = [int(n) for n in random.randint(4, 11, 2)]
    free = [("H", "W"), ("H", sizes[1]), tuple(sizes)][seed % 3]
    options = {"kernel_shape": kernel.tolist(), "strides": strides.tolist(), "pads": pads.tolist(), "ceil_mode": 1}
    if op == "AveragePool":
        options["count_include_pad"] = int(random.randint(2))
    path = write(tmp_path / "read.onnx", [node(op, "x", "y", **options)], {"x": ["N", 2, *free]}, ["y"], opset=22)
    x = random.standard_normal((2, 2, *sizes)).astype(np.float32)
    net, expected = nn.from_onnx(path), run(path, x)
    np.testing.assert_allclose(net(x), expected, 1e-5, 1e-6)
    try:
        net.to_onnx(tmp_path / "written.onnx")
    except nn.onnx.Unsupported as error:
        assert "Use ceil_mode=False" in str(error) and seed % 3 < 2
    else:
        np.testing.assert_allclose(run(tmp_path / "written.onnx", x), expected, 1e-5, 1e-6)
