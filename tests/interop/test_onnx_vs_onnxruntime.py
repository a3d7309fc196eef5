"""Networks from ONNX against onnxruntime, which defines the operators of its own domain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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
