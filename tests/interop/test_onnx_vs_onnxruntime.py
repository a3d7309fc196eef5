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


@pytest.mark.parametrize("seed", range(80))
def test_whole_numbers_of_files(seed: int, tmp_path: Path) -> None:
    """Random chains of operators on whole numbers of one type, and conversions between types, of those that onnxruntime has."""
    import onnx
    import onnxruntime

    random = np.random.RandomState(seed)
    dtype = np.dtype(str(random.choice(["int32", "int32", "uint8", "int8", "int64"])))
    arithmetic = ["Add", "Sub", "Mul", "Mod", "Max", "Min"] if dtype.itemsize > 2 else []
    logic = ["BitwiseAnd", "BitwiseOr", "BitwiseXor"]
    ends = np.iinfo(dtype)
    weights = {"three": np.full((), 3, dtype), "axis": np.array(1)}
    kinds = {"x": onnx.helper.np_dtype_to_tensor_dtype(dtype)}
    kinds["z"] = kinds["x"]
    steps, names = [], ["x", "z"]
    for step in range(8):
        op, a, b = str(random.choice([*arithmetic, *logic, "Cast", "BitwiseNot"])), *random.choice(names, 2)
        name = f"t{step}"
        if op == "Cast":
            other = str(random.choice(["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"]))
            steps.append(node("Cast", a, f"c{step}", to=onnx.helper.np_dtype_to_tensor_dtype(np.dtype(other))))
            steps.append(node("Cast", f"c{step}", name, to=kinds["x"]))
        elif op == "BitwiseNot":
            steps.append(node(op, a, name))
        else:
            steps.append(node(op, f"{a} {'three' if op == 'Mod' else b}", name))
        names.append(name)
    kinds |= dict.fromkeys(names, kinds["x"])
    path = write(tmp_path / "read.onnx", steps, {"x": ["N", 6], "z": ["N", 6]}, names[2:], weights, kinds=kinds)
    x, z = (random.randint(ends.min, ends.max, (4, 6), np.int64).astype(dtype) for _ in range(2))
    x[0], z[0, :3] = random.randint(0, 4, 6), [ends.min, ends.max, ends.max - 1]
    net = nn.from_onnx(path)
    net(x, z)
    net.to_onnx(tmp_path / "written.onnx")
    for file, given in ((path, (x, z)), (tmp_path / "written.onnx", (x.astype(np.int64), z.astype(np.int64)))):
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        expected = session.run(None, dict(zip([one.name for one in session.get_inputs()], given, strict=True)))
        for y, one in zip(net(x, z), expected, strict=True):
            np.testing.assert_array_equal(y, one.astype(np.int64))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(
    ("op", "inputs", "most"),
    [
        ("ReduceSum", "x axis", 2**28),
        ("ReduceProd", "x axis", 70),
        ("CumSum", "x one", 2**31 - 1),
        ("MatMul", "x t", 2**31 - 1),
    ],
)
def test_sums_and_products_of_whole_numbers(op: str, inputs: str, most: int, dtype: str, tmp_path: Path) -> None:
    """Beyond what float32 holds. Sums over axes stay within the type: onnxruntime stops at its ends, where NumPy wraps."""
    import onnx
    import onnxruntime

    kinds = dict.fromkeys("xyt", onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    steps = [node("Transpose", "x", "t", perm=[1, 0]), node(op, inputs, "y")]
    weights = {"axis": np.array([1]), "one": np.array(1)}
    path = write(tmp_path / "a.onnx", steps, {"x": [3, 5]}, ["y"], weights, kinds=kinds)
    x = np.random.RandomState(0).randint(-most, most, (3, 5), np.int64).astype(dtype)
    (expected,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_array_equal(nn.from_onnx(path, batch_axis=None)(x), expected)
