"""Types of whole numbers in ONNX files: which type a result has, and what becomes of numbers that it does not hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_networks import node, write
from openbnns import coreml, nn
from openbnns.interop.onnx._operator import OPERATORS

TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]
HELD_AS_NUMBERS = {  # operators whose whole numbers are float32 here
    "QuantizeLinear", "QLinearConv", "QLinearMatMul", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger", "Bernoulli",
}  # fmt: skip
OF_ATTRIBUTES = {
    "Cast", "ConstantOfShape", "EyeLike", "Multinomial", "Constant", "BlackmanWindow", "HammingWindow", "HannWindow",
    "MelWeightMatrix",
}  # fmt: skip
OF_ELEMENTS = {"SequenceAt", "ConcatFromSequence", "Optional", "OptionalGetElement", "If", "Loop", "Scan"}
EDGES = [
    0,
    1,
    2,
    3,
    5,
    7,
    100,
    127,
    128,
    200,
    255,
    256,
    1000,
    32767,
    40000,
    65535,
    70000,
    2**31 - 1,
    3 * 10**9,
    2**32 - 1,
]


def kind(dtype: str) -> int:
    number: int = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return number


def whole_types(schema: Any, name: str) -> set[str]:
    """The types of whole numbers that a parameter of a schema may be."""
    types = {entry.type_param_str: entry.allowed_type_strs for entry in schema.type_constraints}
    tensors = [one[len("tensor(") : -1] for one in types.get(name, [name]) if one.startswith("tensor(")]
    return {
        one
        for one in tensors
        if one.rstrip("0123456789") in ("int", "uint") and one not in ("int2", "int4", "uint2", "uint4")
    }


def test_types_of_results_are_those_of_the_standard() -> None:
    checked = 0
    for name, operator in OPERATORS.items():
        if not onnx.defs.has(name) or name in HELD_AS_NUMBERS | OF_ATTRIBUTES | OF_ELEMENTS:
            continue
        schema = onnx.defs.get_schema(name)
        result = schema.outputs[0].type_str
        allowed = whole_types(schema, result)
        if not allowed:
            continue
        places = [i for i, x in enumerate(schema.inputs) if x.type_str == result != "tensor(int64)"]
        if places:
            assert operator.whole_type in places, name
        else:
            assert {operator.whole_type} == allowed, name
        checked += 1
    assert checked > 70


def everything(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Numbers of a type, those at its ends among them."""
    random = np.random.RandomState(seed)
    ends = np.iinfo(dtype)
    numbers = random.randint(ends.min, int(ends.max) + 1, shape, np.int64).astype(dtype)
    small = random.rand(*shape) < 0.4
    numbers[small] = random.randint(0, 4, int(small.sum()))
    numbers.ravel()[:4] = [ends.min, ends.max, 1, ends.max - 1]
    return numbers


# By NumPy, whose integers wrap as those of C do.
FUNCTIONS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "Add": ("x z", {}, np.add), "Sub": ("x z", {}, np.subtract), "Mul": ("x z", {}, np.multiply),
    "Neg": ("x", {}, np.negative), "Abs": ("x", {}, np.abs), "Sum": ("x z x", {}, lambda x, z: x + z + x),
    "Div": ("x one", {}, lambda x, z: x), "Max": ("x z", {}, np.maximum), "Min": ("x z", {}, np.minimum),
    "Pow": ("x small", {}, lambda x, z: x ** (z & 3)), "CumSum": ("x axis", {}, lambda x, z: np.cumsum(x, 1, x.dtype)),
    "CumProd": ("x axis", {}, lambda x, z: np.cumprod(x, 1, x.dtype)),
    "ReduceSum": ("x axes", {"keepdims": 0}, lambda x, z: x.sum(1, dtype=x.dtype)),
    "ReduceProd": ("x axes", {"keepdims": 0}, lambda x, z: x.prod(1, dtype=x.dtype)),
    "ReduceSumSquare": ("x axes", {"keepdims": 0}, lambda x, z: (x * x).sum(1, dtype=x.dtype)),
    "ReduceMax": ("x axes", {"keepdims": 0}, lambda x, z: x.max(1)), "BitwiseNot": ("x", {}, np.invert),
    "BitwiseAnd": ("x z", {}, np.bitwise_and), "BitwiseOr": ("x z", {}, np.bitwise_or), "BitwiseXor": ("x z", {}, np.bitwise_xor),
    "MatMul": ("x t", {}, lambda x, z: x @ z.T), "Mod": ("x three", {}, lambda x, z: x % x.dtype.type(3)),
}  # fmt: skip
OPSETS = {"CumProd": 26}


@pytest.mark.parametrize(
    ("op", "dtype"),
    [(op, dtype) for op in FUNCTIONS for dtype in TYPES if dtype in whole_types(onnx.defs.get_schema(op), "T")],
)
def test_whole_numbers_wrap(op: str, dtype: str, tmp_path: Path) -> None:
    """Read, saved, and written and read again; a following operator sees what has wrapped."""
    inputs, attributes, formula = FUNCTIONS[op]
    x, z = everything(dtype, (3, 5)), everything(dtype, (3, 5), 1)
    weights = {
        "axis": np.array(1), "axes": np.array([1]), "one": np.ones((), dtype), "three": np.full((), 3, dtype),
        "half": np.full((), 2, dtype),
    }  # fmt: skip
    steps = [node(op, inputs, "y", **attributes), node("Div", "y half", "half_of_it")]
    if op == "Pow":
        steps = [node("BitwiseAnd", "z three", "small"), *steps]
    if op == "MatMul":
        steps = [node("Transpose", "z", "t", perm=[1, 0]), *steps]
    kinds = dict.fromkeys(["x", "z", "y", "half_of_it"], kind(dtype))
    path = write(
        tmp_path / "a.onnx", steps, {"x": [3, 5], "z": [3, 5]}, ["y", "half_of_it"], weights, OPSETS.get(op, 21), kinds
    )
    with np.errstate(all="ignore"):
        expected = formula(x, z)
        following = np.trunc(expected.astype(np.float64) / 2)
    net = nn.from_onnx(path, batch_axis=None)
    net(x, z)
    net.save_model(tmp_path / "a.safetensors")
    networks = [net, nn.load_model(tmp_path / "a.safetensors")]
    if op == "CumProd":
        with pytest.raises(nn.onnx.Unsupported, match="the function cumprod of whole numbers has no form in ONNX"):
            net.to_onnx(tmp_path / "b.onnx")
    else:
        net.to_onnx(tmp_path / "b.onnx")
        networks.append(nn.from_onnx(tmp_path / "b.onnx", batch_axis=None))
    for one in networks:
        y, half = one(x, z)
        np.testing.assert_array_equal(y, expected.astype(np.int64))
        np.testing.assert_array_equal(half, following)


@pytest.mark.parametrize("dtype", [name for name in TYPES if name.startswith("u")])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_bits_are_shifted(direction: str, dtype: str, tmp_path: Path) -> None:
    x, places = everything(dtype, (2, 6)), np.arange(6).astype(dtype)
    steps = [node("BitShift", "x places", "y", direction=direction)]
    kinds = dict.fromkeys("xy", kind(dtype))
    path = write(tmp_path / "a.onnx", steps, {"x": ["N", 6]}, ["y"], {"places": places}, kinds=kinds)
    net = nn.from_onnx(path)
    net.to_onnx(tmp_path / "b.onnx")
    expected = np.left_shift(x, places) if direction == "LEFT" else np.right_shift(x, places)
    for one in (net, nn.from_onnx(tmp_path / "b.onnx")):
        np.testing.assert_array_equal(one(x), expected)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("source", [*TYPES, "int64", "float32", "bool"])
def test_conversions_keep_the_lowest_bits(source: str, dtype: str, tmp_path: Path) -> None:
    numbers = np.array([*EDGES, *(-n for n in EDGES)])
    if source == "float32":
        ends = np.iinfo(dtype if np.dtype(dtype).itemsize > 2 else "int32")
        numbers = np.float32([n + 0.75 for n in numbers if max(ends.min, -(2**31)) < n < ends.max - 200])
    x = numbers.astype(source)
    steps = [node("Cast", "x", "y", to=kind(dtype)), node("Cast", "y", "z", to=kind("float32"))]
    path = write(tmp_path / "a.onnx", steps, {"x": ["N"]}, ["y", "z"], kinds={"x": kind(source), "y": kind(dtype)})
    net = nn.from_onnx(path)
    net(x)
    net.to_onnx(tmp_path / "b.onnx")
    expected = x.astype(np.int64).astype(dtype)
    for one in (net, nn.from_onnx(tmp_path / "b.onnx")):
        y, z = one(x)
        np.testing.assert_array_equal(y, expected.astype(np.int64))
        np.testing.assert_array_equal(z, expected.astype(np.float32))


def test_powers_of_whole_numbers_are_exact(tmp_path: Path) -> None:
    """Beyond what doubles hold; below one nothing is left, but of 1 and -1."""
    base, exponents = np.array([3, 7, -2, 1, -1, -1, 2, 5]), np.array([39, 22, 63, -3, -3, -2, -1, 0])
    kinds = dict.fromkeys("xey", kind("int64"))
    path = write(tmp_path / "a.onnx", [node("Pow", "x e", "y")], {"x": ["N"], "e": ["N"]}, ["y"], kinds=kinds)
    expected = [3**39, 7**22, -(2**63), 1, -1, 1, 0, 1]
    np.testing.assert_array_equal(nn.from_onnx(path)(base, exponents), np.array(expected, np.int64))


def test_loops_keep_the_types_of_their_states(tmp_path: Path) -> None:
    """A sum of bytes that wraps in every step, unrolled and as a loop in a file."""
    helper, byte = onnx.helper, kind("uint8")
    body = helper.make_graph(
        [node("Add", "s x", "t"), node("Identity", "c", "d")], "body",
        [helper.make_tensor_value_info(name, number, shape) for name, number, shape in
         (("i", kind("int64"), []), ("c", kind("bool"), []), ("s", byte, [3]))],
        [helper.make_tensor_value_info(name, number, shape) for name, number, shape in
         (("d", kind("bool"), []), ("t", byte, [3]))],
    )  # fmt: skip
    steps = [node("Loop", "n going x", "y", body=body), node("Div", "y two", "z")]
    weights = {"n": np.array(5), "going": np.array(True), "two": np.uint8(2)}
    kinds = dict.fromkeys("xyz", byte)
    path = write(tmp_path / "a.onnx", steps, {"x": [3]}, ["y", "z"], weights, kinds=kinds)
    x = np.uint8([50, 200, 255])
    net = nn.from_onnx(path, batch_axis=None)
    net(x)
    net.to_onnx(tmp_path / "b.onnx")
    for one in (net, nn.from_onnx(tmp_path / "b.onnx", batch_axis=None)):
        y, z = one(x)
        np.testing.assert_array_equal(y, [300 % 256, 1200 % 256, 1530 % 256])
        np.testing.assert_array_equal(z, np.array([300 % 256, 1200 % 256, 1530 % 256]) // 2)


CORE_ML = {
    name: FUNCTIONS[name] for name in ("Add", "Mul", "Neg", "Abs", "Max", "Mod", "CumSum", "ReduceSum", "ReduceProd")
}
CORE_ML["Div"] = ("x z", {}, lambda x, z: np.trunc(x / z.astype(np.float64)).astype(x.dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32"])
@pytest.mark.parametrize("op", CORE_ML)
def test_whole_numbers_wrap_in_core_ml(op: str, dtype: str, tmp_path: Path) -> None:
    """Numbers of 32 bits hold there what 8 or 16 bits do not; results of int32 stay within it here."""
    if dtype not in whole_types(onnx.defs.get_schema(op), "T"):
        return
    inputs, attributes, formula = CORE_ML[op]
    x, z = everything(dtype, (3, 5)), everything(dtype, (3, 5), 1)
    if dtype == "int32":
        x, z = (
            np.random.RandomState(i).randint(*((-20, 20), (-(2**24) - 9, 2**24 + 9))[op == "Div"], (3, 5))
            for i in (0, 1)
        )
        x, z = x.astype(dtype), z.astype(dtype)
    z[z == 0] = 3
    weights = {"axis": np.array(1), "axes": np.array([1]), "three": np.full((), 3, dtype)}
    path = write(
        tmp_path / "a.onnx", [node(op, inputs, "y", **attributes)], {"x": [3, 5], "z": [3, 5]}, ["y"], weights, 21,
        dict.fromkeys("xzy", kind(dtype)),
    )  # fmt: skip
    net = nn.from_onnx(path, batch_axis=None)
    net(x, z)
    net.to_coreml(tmp_path / "a.mlpackage")
    with np.errstate(all="ignore"):
        expected = formula(x, z)
    (y,) = coreml.MLModel(tmp_path / "a.mlpackage").predict({"x": x.astype(np.int32), "z": z.astype(np.int32)}).values()
    np.testing.assert_array_equal(y, expected)


def test_types_that_core_ml_lacks_are_refused(tmp_path: Path) -> None:
    kinds = dict.fromkeys("xy", kind("uint32"))
    net = nn.from_onnx(write(tmp_path / "a.onnx", [node("Add", "x x", "y")], {"x": ["N", 3]}, ["y"], kinds=kinds))
    net(np.ones((2, 3), np.uint32))
    with pytest.raises(ValueError, match="uint32 is not among the types that Core ML computes with"):
        net.to_coreml(tmp_path / "a.mlpackage")
