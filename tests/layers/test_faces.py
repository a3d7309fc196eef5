"""Both faces, one result: the Python layers give the bits of the C calls on the same cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openbnns
from cases import activation, arithmetic, convolution, fully_connected, transposed_convolution
from cases._base import native, parameters
from cases.activation import function
from helpers import Array, assert_bitwise
from openbnns import ActivationFunction, ConvolutionPadding, ConvolutionType, DescriptorType, Shape

ROLES = {
    arithmetic.S: DescriptorType.SAMPLE,
    arithmetic.P: DescriptorType.PARAMETER,
    arithmetic.C: DescriptorType.CONSTANT,
}


def arrays(case: Any) -> dict[str, Array]:
    """The case's inputs as the caller of a layer has them: float32, C order, batch in front."""
    values = {}
    for name, v in case.values().items():
        values[name] = np.ascontiguousarray(v.transpose(0, *range(v.ndim - 1, 0, -1)), np.float32)
    return values


def c_order(values: Array) -> Array:
    return np.ascontiguousarray(values.transpose(0, *range(values.ndim - 1, 0, -1)))


def compare(case: Any, y: Array, gradients: dict[str, Array]) -> None:
    expected = native(case)
    assert_bitwise(y, c_order(expected.y), f"{case.id}: y")
    assert set(gradients) == set(expected.gradients)
    for name, gradient in gradients.items():
        wanted = c_order(expected.gradients[name]).astype(np.float32)
        assert_bitwise(gradient.reshape(wanted.shape), wanted, f"{case.id}: {name}")


def train(layer: Any, case: Any, values: dict[str, Array]) -> None:
    """Forward and backward through a layer with one input; the layer is released at the end."""
    with layer:
        y = layer.apply(values["x"])
        out = None if case.activation.is_identity else y
        result = layer.apply_backward(values["x"], out, values["dy"])
        named = {"dx": result.input, "dw": result.weights, "db": result.bias}
        compare(case, y, {name: g for name, g in named.items() if g is not None})
    with pytest.raises(openbnns.LayerApplyError):
        layer.apply(values["x"])


@pytest.mark.covers("swift.FullyConnectedLayer", "swift.UnaryLayer", "swift.Layer")
@pytest.mark.parametrize("case", parameters(fully_connected.SIZES[3:9] + fully_connected.FUSED[:6]))
def test_fully_connected(case: Any) -> None:
    values = arrays(case)
    bias = values["b"][0] if case.b else None
    layer = openbnns.FullyConnectedLayer(weights=values["w"][0], bias=bias, activation=function(case.activation))
    train(layer, case, values)


CONVOLUTIONS = convolution.SHAPES[:10] + convolution.WINDOWS[:8] + convolution.GROUPS[:6] + convolution.FUSED[:6]


@pytest.mark.covers("swift.ConvolutionLayer", "swift.UnaryLayer", "swift.Layer")
@pytest.mark.parametrize("case", parameters(CONVOLUTIONS + transposed_convolution.SHAPES))
def test_convolution(case: Any) -> None:
    values = arrays(case)
    transposed = case.prefix == "tconv"
    weights = values["w"][0]
    if transposed:  # the cases have (in, out, kh, kw)
        weights = np.ascontiguousarray(weights.transpose(1, 0, 2, 3))
    if case.symmetric != (0, 0):
        padding = ConvolutionPadding.symmetric(x=case.symmetric[1], y=case.symmetric[0])
    else:
        left, right, up, down = case.pad
        padding = ConvolutionPadding.asymmetric(left=left, right=right, up=up, down=down)
    layer = openbnns.ConvolutionLayer(
        type=ConvolutionType.TRANSPOSED if transposed else ConvolutionType.STANDARD,
        input=Shape.image_chw(*case.x.size),
        output=Shape.image_chw(*case.y.size),
        weights=weights,
        bias=values["b"][0] if case.b else None,
        padding=padding,
        activation=function(case.activation),
        group_count=case.groups,
        stride=case.step[::-1],
        dilation_stride=case.dilation[::-1],
    )
    if transposed:
        with layer:
            y = layer.apply(values["x"])
            result = layer.apply_backward(values["x"], None if case.activation.is_identity else y, values["dy"])
            named = {"dx": result.input, "dw": result.weights.transpose(1, 0, 2, 3), "db": result.bias}
            compare(case, y, {name: g for name, g in named.items() if g is not None})
    else:
        train(layer, case, values)


@pytest.mark.covers("swift.ActivationLayer", "swift.UnaryLayer", "swift.Shape")
@pytest.mark.parametrize("case", parameters(activation.EVERY_FUNCTION))
def test_activation(case: Any) -> None:
    values = arrays(case)
    shape = Shape.image_chw(*case.x.size) if len(case.x.size) == 3 else Shape.vector(*case.x.size)
    layer = openbnns.ActivationLayer(function=function(case.activation), input=shape)
    y = layer.apply(values["x"])
    result = layer.apply_backward(values["x"], None, values["dy"])
    named = {"dx": result.input, "dw": result.alpha}
    compare(case, y, {name: g for name, g in named.items() if g is not None})


LAYERS = {
    1: (openbnns.UnaryArithmeticLayer, openbnns.ArithmeticUnaryFunction, ["input"]),
    2: (openbnns.BinaryArithmeticLayer, openbnns.ArithmeticBinaryFunction, ["input_a", "input_b"]),
    3: (openbnns.TernaryArithmeticLayer, openbnns.ArithmeticTernaryFunction, ["input_a", "input_b", "input_c"]),
}


@pytest.mark.covers("swift.UnaryArithmeticLayer", "swift.BinaryArithmeticLayer", "swift.TernaryArithmeticLayer")
@pytest.mark.parametrize("case", parameters(arithmetic.EVERY_FUNCTION + arithmetic.BROADCAST_EVERY_FUNCTION))
def test_arithmetic(case: Any) -> None:
    kind, functions, names = LAYERS[case.count]
    values = arrays(case)
    number = int(getattr(openbnns.capi.BNNSArithmeticFunction, f"BNNSArithmetic{case.function}"))
    chosen = next(f for f in functions if int(f.value) == number)
    options: dict[str, Any] = {"function": chosen}
    inputs = {}
    for i, name in enumerate(names):
        options[name] = case.operands[i].descriptor()
        options[f"{name}_descriptor_type"] = ROLES[case.roles[i]]
        a = values[f"a{i}"]
        inputs[name] = a if case.roles[i] == arithmetic.S else a[0]
    layer = kind(**options)
    y = layer.apply(**inputs)
    result = layer.apply_backward(**inputs, output=y, output_gradient=values["dy"])
    compare(case, y, {f"da{i}": result[i] for i in range(case.count)})


@pytest.mark.covers("swift.Error")
def test_layers_raise_where_calls_return_a_status() -> None:
    """The message of the C face in the words of the Python face, as an exception that is also a ValueError."""
    layer = openbnns.ActivationLayer(function=ActivationFunction.tanh(), input=Shape.vector(4))
    with pytest.raises(openbnns.LayerApplyError) as caught:
        layer.apply(np.zeros((2, 5), np.float32))
    assert isinstance(caught.value, openbnns.BNNSError) and isinstance(caught.value, ValueError)
    with pytest.raises(openbnns.LayerCreationError):
        openbnns.FullyConnectedLayer(weights=np.zeros((2, 3), np.float32), bias=np.zeros(3, np.float32))
