"""Passes for inference: zeros around the images of convolutions, and factors and summands of their channels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from openbnns import nn
from openbnns.graph.operations.convolution import Convolution
from openbnns.graph.operations.node import Node
from openbnns.graph.operations.padding import Padding
from openbnns.graph.program import Program
from openbnns.nn import functional as F
from passes_for_inference import compared

Array = np.ndarray[Any, Any]


def kinds(program: Program, kind: type) -> list[Any]:
    return [one for one in program.graph.operations if isinstance(one, kind)]


def assert_close(actual: list[Array], expected: list[Array]) -> None:
    for a, b in zip(actual, expected, strict=True):
        scale = np.abs(b).max()
        assert scale > 0
        assert np.abs(a - b).max() <= 3e-6 * scale


def constant(numbers: Any) -> Array:
    """Numbers that nothing changes."""
    array = np.array(numbers, np.float32)
    array.flags.writeable = False
    return array


class Made(nn.Module):
    """A module from a function of the input."""

    def __init__(self, function: Any, **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


@pytest.mark.parametrize("seed", range(30))
def test_random_paddings_and_factors(seed: int) -> None:
    random = np.random.default_rng(seed)
    axes = 1 if random.random() < 0.2 else 2
    groups = int(random.choice([1, 1, 2, 6]))
    inputs, outputs = 6, int(random.choice([6, 12, 36]))
    kernel, stride, dilation = int(random.integers(1, 4)), int(random.integers(1, 3)), int(random.integers(1, 3))
    own = int(random.integers(0, 2))
    kind = nn.Conv1d if axes == 1 else nn.Conv2d
    bias = bool(random.random() < 0.5)
    conv = kind(inputs, outputs, kernel, stride=stride, padding=own, dilation=dilation, groups=groups, bias=bias)
    widths = [int(n) for n in random.integers(0, 4, 2 * axes)]
    one = (outputs, *(1,) * axes)
    shapes = [one, (1, *one), ()]
    steps = [
        (random.random() < 0.5, constant(random.standard_normal(shapes[random.integers(3)])))
        for _ in range(random.integers(0, 4))
    ]
    factor = nn.Parameter((0.5 + random.random(one)).astype(np.float32))

    def forward(net: Any, x: Any) -> Any:
        y = net.conv(F.pad(x, widths))
        for multiplies, number in steps:
            y = y * number if multiplies else number + y
        return F.relu(y * net.factor)

    net = Made(forward, conv=conv, factor=factor)
    x = random.standard_normal((2, inputs, *random.integers(5, 20, axes))).astype(np.float32)
    plain, folded, program = compared(net, x)
    assert_close(folded, plain)
    (convolution,) = kinds(program, Convolution)
    assert not kinds(program, Padding)
    assert convolution.computed
    assert not any(x.storage is convolution.output for one in kinds(program, Node) for x in one.inputs)
    before = net(x)
    for parameter in net.parameters():  # what is made of them follows
        parameter.data *= 2
    (changed,), _, _ = compared(net, x)
    assert_close([net(x)], [changed])
    assert np.abs(before - changed).max() > 0


def test_convolutions_share_a_padding() -> None:
    net = Made(
        lambda net, x: (net.a(p := F.pad(x, (1, 0, 2, 1))), net.b(p)), a=nn.Conv2d(3, 4, 3), b=nn.Conv2d(3, 5, 2)
    )
    plain, folded, program = compared(net, np.random.default_rng(1).standard_normal((2, 3, 7, 9)).astype(np.float32))
    assert_close(folded, plain)
    assert not kinds(program, Padding)


@pytest.mark.parametrize("case", ["ones", "mirrored", "channels", "read", "transposed"])
def test_other_paddings_stay(case: str) -> None:
    function, parts = {
        "ones": (lambda net, x: net.a(F.pad(x, (1, 1, 1, 1), value=1.0)), nn.Conv2d(3, 4, 3)),
        "mirrored": (lambda net, x: net.a(F.pad(x, (1, 1, 1, 1), mode="reflect")), nn.Conv2d(3, 4, 3)),
        "channels": (lambda net, x: net.a(F.pad(x, (1, 1, 1, 1, 0, 1))), nn.Conv2d(4, 4, 3)),
        "read": (lambda net, x: (net.a(p := F.pad(x, (1, 1, 1, 1))), p), nn.Conv2d(3, 4, 3)),
        "transposed": (lambda net, x: net.a(F.pad(x, (1, 1, 1, 1))), nn.ConvTranspose2d(3, 4, 3)),
    }[case]
    net = Made(function, a=parts)
    plain, folded, program = compared(net, np.random.default_rng(1).standard_normal((2, 3, 7, 9)).astype(np.float32))
    assert_close(folded, plain)
    assert len(kinds(program, Padding)) == 1


@pytest.mark.parametrize("case", ["pixels", "rows", "input", "read", "activated", "normalized"])
def test_other_factors_stay(case: str) -> None:
    random = np.random.default_rng(1)
    pixels, row, channel = (constant(random.standard_normal(s)) for s in ((5, 7), (7,), (4, 1, 1)))
    function = {
        "pixels": lambda net, x: net.a(x) * pixels,
        "rows": lambda net, x: net.a(x) * row,
        "input": lambda net, x: net.a(x) * F.mean(x, (1, 2, 3), keepdim=True),
        "read": lambda net, x: ((y := net.a(x)) * channel, y),
        "activated": lambda net, x: F.relu(net.a(x)) * channel,
        "normalized": lambda net, x: net.b(net.a(x)) * channel,
    }[case]
    net = Made(function, a=nn.Conv2d(3, 4, 3), b=nn.BatchNorm2d(4))
    plain, folded, program = compared(net, random.standard_normal((2, 3, 7, 9)).astype(np.float32))
    assert_close(folded, plain)
    assert len(kinds(program, Node)) == 1
    (convolution,) = kinds(program, Convolution)
    assert not convolution.computed


def test_constant_weights_of_files(tmp_path: Path) -> None:
    """Weights that a file has as constants belong to no module; their factors are folded all the same."""
    random = np.random.default_rng(3)
    w, factor = random.standard_normal((4, 3, 3, 3)), random.standard_normal((4, 1, 1))
    made = {"w": w.astype(np.float32), "factor": factor.astype(np.float32)}
    nodes = [
        onnx.helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(a)) for name, a in made.items()
    ]
    nodes += [onnx.helper.make_node("Conv", ["x", "w"], ["y"]), onnx.helper.make_node("Mul", ["y", "factor"], ["z"])]
    ports = [onnx.helper.make_tensor_value_info(name, 1, ["N", None, None, None]) for name in "xz"]
    ports[0].type.tensor_type.shape.dim[1].dim_value = 3
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", ports[:1], ports[1:])), tmp_path / "m.onnx")
    net = nn.from_onnx(tmp_path / "m.onnx")
    x = random.standard_normal((2, 3, 6, 7)).astype(np.float32)
    plain = nn.Conv2d(4, 3, bias=False).build((3, 6, 7))
    plain.weight.data[...] = made["w"]
    for _ in range(3):
        assert_close([net(x)], [plain(x) * made["factor"]])
