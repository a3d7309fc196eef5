"""Operators of ai.onnx.ml against onnxruntime, which most of their models are run with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from classical_models import random_models
from openbnns import nn

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("seed", range(40))
def test_random_models(seed: int, tmp_path: Path) -> None:
    import onnxruntime

    for title, made, x in random_models(np.random.RandomState(seed)):
        onnx.save(made, tmp_path / "m.onnx")
        session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
        actual = nn.from_onnx(tmp_path / "m.onnx")(x)
        for y, expected in zip(
            actual if isinstance(actual, tuple) else (actual,), session.run(None, {"x": x}), strict=True
        ):
            np.testing.assert_allclose(y, expected, 1e-4, 1e-5, err_msg=title)
