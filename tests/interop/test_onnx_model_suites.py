"""The models that the package onnx carries as tests: operators and layers of PyTorch in version 6, sequences, classifiers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from openbnns import nn

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
# Those that do not pass, by the beginnings of their names, and why.
KNOWN = {
    "test_operator_add": "numbers of float64 beyond those of float32, which networks compute with",
    "test_gradient_of_": "asks for gradients by an operator of ai.onnx.preview.training",
    "test_strnorm_": "texts",
    "test_sequence_model8": "an input without samples",
}
LARGE = ("alexnet", "vgg19", "zfnet512", "densenet121", "resnet50", "inception_v2")


def tensors(folder: Path, kind: str, ports: Any) -> list[Any]:
    """The stored tensors of a test, as far as there are any, and sequences of them."""
    made = []
    for i, port in enumerate(ports):
        file = folder / f"{kind}_{i}.pb"
        if not file.exists():
            break
        if port.type.HasField("tensor_type"):
            made.append(numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes())))
        else:
            made.append(numpy_helper.to_list(onnx.SequenceProto.FromString(file.read_bytes())))
    return made


def cases() -> list[Any]:
    folders = [
        f for suite in ("pytorch-operator", "pytorch-converted", "simple") for f in sorted((DATA / suite).iterdir())
    ]
    return [pytest.param(f, id=f.name) for f in folders if not any(map(f.name.startswith, KNOWN))]


@pytest.mark.parametrize("folder", cases())
def test_models_of_suites(folder: Path) -> None:
    model = onnx.load(folder / "model.onnx")
    weights = {tensor.name for tensor in model.graph.initializer}
    net = nn.from_onnx(folder / "model.onnx", batch_axis=None)
    runs = sorted(folder.glob("test_data_set_*"))
    assert runs
    for run in runs:
        given = tensors(run, "input", model.graph.input)
        ports = zip(given, model.graph.input, strict=False)
        outputs = net(*(x for x, port in ports if port.name not in weights))
        expected = tensors(run, "output", model.graph.output)
        for y, wanted in zip(outputs if isinstance(outputs, tuple) else (outputs,), expected, strict=True):
            np.testing.assert_allclose(y, wanted, 1e-3, 1e-5)


SMALL = [path for path in sorted((DATA / "light").glob("*.onnx")) if not any(name in path.name for name in LARGE)]


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_classifiers_with_equal_weights(path: Path) -> None:
    model = onnx.load(path)
    weights = {tensor.name for tensor in model.graph.initializer}
    (port,) = [port for port in model.graph.input if port.name not in weights]
    shape = [axis.dim_value for axis in port.type.tensor_type.shape.dim]
    x = (np.arange(np.prod(shape)).reshape(shape) / np.prod(shape)).astype(np.float32)
    expected = numpy_helper.to_array(
        onnx.TensorProto.FromString(path.with_name(f"{path.stem}_output_0.pb").read_bytes())
    )
    np.testing.assert_allclose(nn.from_onnx(path)(x), expected, 1e-3, 1e-5)
