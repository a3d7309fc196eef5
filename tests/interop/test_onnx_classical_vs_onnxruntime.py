"""Operators of ai.onnx.ml against onnxruntime, which most of their models are run with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from classical_models import newer_trees, random_models, samples
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


@pytest.mark.parametrize("seed", range(60))
def test_newer_trees(seed: int, tmp_path: Path) -> None:
    """Also written and read again."""
    import onnxruntime

    random = np.random.RandomState(seed)
    made = newer_trees(random, int(random.randint(1, 4)), aggregate_function=int(random.randint(4)))
    onnx.save(made, tmp_path / "m.onnx")
    x = np.round(samples(random, 50))  # onnxruntime rounds what it looks up in sets
    x[random.rand(*x.shape) < 0.2] = np.nan
    net = nn.from_onnx(tmp_path / "m.onnx")
    actual = net(x)
    net.to_onnx(tmp_path / "written.onnx")
    np.testing.assert_array_equal(nn.from_onnx(tmp_path / "written.onnx")(x), actual)
    for name in ("m.onnx", "written.onnx"):
        session = onnxruntime.InferenceSession(tmp_path / name, providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(actual, session.run(None, {"x": x})[0], 1e-5, 1e-5, err_msg=name)
