"""The table of operations of ML programs, and the complete inputs of operations."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coreml_programs
from coreml_programs import count_bound
from openbnns.interop import coreml
from openbnns.interop.coreml.elements import ELEMENTS
from openbnns.interop.coreml.operation_rules import Input
from openbnns.interop.coreml.operation_table import OPERATIONS

ROOT = Path(__file__).resolve().parents[2]
FACTS = {
    entry["name"]: entry for entry in json.loads((ROOT / "tools/facts/mil_operations.json").read_text())["operations"]
}


def test_the_table_is_that_of_the_facts() -> None:
    tool = ROOT / "tools" / "generate_coreml_operations.py"
    subprocess.run([sys.executable, str(tool), "--check"], check=True)
    assert len(OPERATIONS) == len(FACTS) == 169
    assert list(OPERATIONS) == list(FACTS)


@pytest.mark.parametrize("name", FACTS)
def test_inputs_have_known_types_and_possible_defaults(name: str) -> None:
    for inputs in OPERATIONS[name].forms.values():
        assert len({given.name for given in inputs}) == len(inputs)
        for given in inputs:
            assert set(given.types) <= set(ELEMENTS)
            assert given.optional or given.default is None
            value = given.default
            if isinstance(value, str):
                assert given.types == ("string",)
            elif isinstance(value, bool):
                assert given.types == ("bool",)
            elif isinstance(value, float):
                assert "fp32" in given.types


def bound(line: str, inputs: str = "tensor<fp16, [2, 3, 8, 8]> x", opset: str = "ios17") -> dict[str, Any]:
    """The inputs of the last operation of a program."""
    text = f"program(1.3) {{ func main<{opset}>({inputs}) {{\n{line}\n}} -> (x); }}"
    function = coreml.parse(text).functions["main"]
    scope = coreml.Scope.of(function)
    for operation in function.block.operations[:-1]:
        coreml.bind(operation, scope)
        scope.add(operation)
    return coreml.bind(function.block.operations[-1], scope)


def test_defaults_depend_on_other_inputs() -> None:
    row = "[[1, 2, 3], [4, 5, 6], [7, 8, 9]]"
    filters = ", ".join([f"[{row}, {row}, {row}]"] * 4)
    w = f"tensor<fp16, [4, 3, 3, 3]> w = const()[val = tensor<fp16, [4, 3, 3, 3]>([{filters}])];\n"
    inputs = bound(w + "tensor<fp16, [2, 4, 6, 6]> y = conv(weight = w, x = x);")
    assert list(inputs) == ["x", "weight", "bias", "strides", "pad_type", "pad", "dilations", "groups"]
    assert inputs["x"] == coreml.Reference("x", coreml.TensorType("fp16", (2, 3, 8, 8)))
    assert inputs["weight"].array.shape == (4, 3, 3, 3)
    assert inputs["bias"] is None
    assert inputs["strides"].array.tolist() == [1, 1] and inputs["pad"].array.tolist() == [0, 0, 0, 0]
    assert inputs["pad_type"].python == "valid" and inputs["groups"].python == 1
    assert bound("tensor<fp16, [2, 3, 8, 8]> y = layer_norm(x = x);")["axes"].array.tolist() == [0, 1, 2, 3]
    linear = bound("fp16 y = linear(x = x, weight = tensor<fp16, [2, 1]>([[1], [2]]));")
    assert linear["bias"].array.dtype == np.float16 and linear["bias"].array.tolist() == [0, 0]
    boxes = bound("fp16 y = crop_resize(x = x, boxes = tensor<fp16, [2, 4]>([[0, 0, 1, 1], [0, 0, 1, 1]]));")
    assert boxes["box_indices"].array.tolist() == [0, 1]


def test_numbers_have_the_type_of_what_they_are_computed_with() -> None:
    assert bound("fp16 y = rsqrt(x = x);")["epsilon"].type == coreml.TensorType("fp16", ())
    epsilon = bound("fp32 y = rsqrt(x = x);", "tensor<fp32, [2]> x")["epsilon"]
    assert epsilon.type == coreml.TensorType("fp32", ()) and epsilon.array == np.float32(1e-12)


def test_older_opsets_have_other_inputs() -> None:
    line = "fp16 y = crop_resize(x = x, {} = tensor<fp16, [1, 4]>([[0, 0, 1, 1]]));"
    assert "roi" in bound(line.format("roi"), opset="ios16")
    assert "box_indices" in bound(line.format("boxes"), opset="ios17")
    with pytest.raises(
        coreml.CoreMLError, match=r"model.mil:2:1: crop_resize 'y' has an input 'roi', but crop_resize takes x, boxes"
    ):
        bound(line.format("roi"), opset="ios17")
    old = "tensor<fp16, [3]> w = constexpr_lut_to_dense()[indices = tensor<uint8, [1]>([6]), lut = tensor<fp16, [2]>([1, 2]), shape = tensor<uint32, [1]>([3])];"  # noqa: E501
    assert bound(old, opset="ios16")["shape"].array.tolist() == [3]


def test_inputs_that_take_several_values() -> None:
    inputs = bound("fp16 y = concat(values = (x, x), axis = int32(0));")
    assert [value.name for value in inputs["values"]] == ["x", "x"]
    assert inputs["interleave"].python is False
    assert len(bound("fp16 y = stack(values = x, axis = int32(0));")["values"]) == 1


def test_every_operation_of_the_sample_programs() -> None:
    for text in (coreml_programs.OLD, coreml_programs.NEW):
        for function in coreml.parse(text).functions.values():
            assert count_bound(function.block, coreml.Scope.of(function)) > 0


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("fp16 y = relux(x = x);", r"relux 'y': there is no operation 'relux'. Did you mean relu"),
        ("fp16 y = relu();", "relu 'y' needs the input 'x'"),
        ("fp16 y = relu(x = x, alpha = x);", "relu 'y' has an input 'alpha', but relu takes x"),
        ("fp16 y = relu(x = (x, x));", "the input x has 2 values, but takes one"),
        ("fp16 y = relu(x = int32(1));", r"the input x is tensor<int32, \[\]>, but must be one of fp16, fp32"),
        ("fp16 y = softmax(x = x, axis = n);", "the input axis must be a constant, but 'n' is computed"),
        ("fp16 y = relu(x = x) { } -> ();", "relu 'y' has 1 blocks, but relu takes 0"),
        ("fp16 y = cond(pred = bool(true));", "cond 'y' has 0 blocks, but cond takes 2"),
        ("fp16 y = conv(x = l, weight = fp16(1));", "the input x is list"),
    ],
)
def test_errors_name_the_operation_and_its_place(line: str, reason: str) -> None:
    with pytest.raises(coreml.CoreMLError, match=rf"model\.mil:2:1: .*{reason}"):
        bound(line, "tensor<fp16, [2]> x, int32 n, list<fp16, 2> l")


def test_weights_out_of_tables_count_as_constants() -> None:
    indices = "tensor<uint1, [4, 1]>([[0], [1], [0], [1]])"
    table = f"constexpr_lut_to_dense(indices = {indices}, lut = tensor<fp16, [1, 1, 2, 1]>([[[[1], [2]]]]))"
    h = "tensor<fp16, [1, 1]>([[0]])"
    lstm = f"lstm(x = x, initial_h = {h}, initial_c = {h}, weight_ih = w, weight_hh = w)"
    inputs = bound(f"tensor<fp16, [4, 1]> w = {table};\nfp16 y = {lstm};", opset="ios18")
    assert inputs["weight_ih"] == coreml.Reference("w", coreml.TensorType("fp16", (4, 1)), from_constants=True)


def test_inputs_are_described_in_order() -> None:
    assert [given.name for given in OPERATIONS["gather"].inputs("ios17")][:2] == ["x", "indices"]
    assert all(isinstance(given, Input) for given in OPERATIONS["gather"].inputs("ios99"))
