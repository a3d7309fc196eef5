"""The Python face: exceptions that say what to do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from helpers import numbers
from layer_problems import dense, described, image_layer
from openbnns.capi import (
    BNNSFilterParameters,
    BNNSFlagsUseClientPtr,
)

CLIENT = BNNSFilterParameters(flags=BNNSFlagsUseClientPtr)

pytestmark = pytest.mark.usefixtures("engine")

ROLE = ob.DescriptorType


def frozen(shape: tuple[int, ...]) -> Any:
    a = np.zeros(shape, np.float32)
    a.flags.writeable = False
    return a


X, DY = numbers(5, 6), numbers(5, 4)
APPLY_MISTAKES: list[tuple[Callable[[ob.FullyConnectedLayer], Any], type[Exception], str]] = [
    (
        lambda layer: layer.apply(X.astype(np.float16)),
        TypeError,
        r"^FullyConnectedLayer\.apply: input is float16, but this layer takes float32 here\. .*\.astype\(np\.float32\)",
    ),
    (lambda layer: layer.apply([1.0] * 6), TypeError, r"apply: input is of type list.*np\.asarray\(x, np\.float32\)"),
    (lambda layer: layer.apply(None), ValueError, r"apply: input is None, but it is needed"),
    (
        lambda layer: layer.apply(numbers(5, 7)),
        ValueError,
        r"apply: input has shape \(5, 7\), but this layer expects \(6,\), or \(N, 6\) with a batch",
    ),
    (lambda layer: layer.apply(numbers(5, 2, 3)), ValueError, r"input has shape \(5, 2, 3\).*\.reshape\(\(5, 6\)\)"),
    (
        lambda layer: layer.apply(X, np.zeros((5, 3), np.float32)),
        ValueError,
        r"output has shape \(5, 3\).*expects \(4,\)",
    ),
    (
        lambda layer: layer.apply(X, np.zeros((5, 4), np.float16)),
        TypeError,
        r"output is float16, but this layer writes float32 here\. Pass np\.empty\(\(5, 4\), np\.float32\)",
    ),
    (
        lambda layer: layer.apply(X, np.zeros((4, 5), np.float32).T),
        ValueError,
        r"output of shape \(5, 4\) is not C-contiguous \(strides \(4, 20\)\), so results would be lost in a copy",
    ),
    (lambda layer: layer.apply(X, frozen((5, 4))), ValueError, r"output is read-only, but the call writes to it"),
    (
        lambda layer: layer.apply(X, np.zeros((3, 4), np.float32)),
        ValueError,
        r"output holds 3 samples, but input holds 5",
    ),
    (lambda layer: layer.apply(X, batch_size=4), ValueError, r"input holds 5 samples, but batch_size is 4"),
    (lambda layer: layer.apply(X, batch_size=-1), ValueError, r"batch_size is -1"),
    (lambda layer: layer.apply(X, batch_size=5.0), TypeError, r"batch_size must be an integer, not float"),
    (lambda layer: layer.apply(X, batch_size=True), TypeError, r"batch_size must be an integer, not bool"),
    (
        lambda layer: layer.apply_backward(X, DY),
        ValueError,
        r"^FullyConnectedLayer\.apply_backward: output_gradient is None",
    ),
    (
        lambda layer: layer.apply_backward(X, None, DY),
        ValueError,
        r"apply_backward: output is None, but the fused activation is differentiated from the forward output",
    ),
    (
        lambda layer: layer.apply_backward(None, DY, DY),
        ValueError,
        r"input is None, but the weights gradient needs the forward input\. Pass it, or no generating_weights_gradient",
    ),
    (
        lambda layer: layer.apply_backward(X, DY, DY, generating_weights_gradient=np.zeros((6, 4), np.float32)),
        ValueError,
        r"generating_weights_gradient has shape \(6, 4\), but this layer expects \(4, 6\)",
    ),
    (
        lambda layer: layer.apply_backward(X, DY, DY, generating_weights_gradient=np.zeros((6, 4), np.float32).T),
        ValueError,
        r"generating_weights_gradient of shape \(4, 6\) is not C-contiguous",
    ),
    (
        lambda layer: layer.apply_backward(X, DY, DY, generating_bias_gradient=frozen((4,))),
        ValueError,
        r"generating_bias_gradient is read-only",
    ),
    (
        lambda layer: layer.apply_backward(X, DY, DY.astype(np.float16)),
        TypeError,
        r"output_gradient is float16, but this layer takes float32",
    ),
]


@pytest.mark.parametrize(("mistake", "kind", "message"), APPLY_MISTAKES, ids=[m[2][:60] for m in APPLY_MISTAKES])
def test_mistakes_in_calls(mistake: Callable[[Any], Any], kind: type[Exception], message: str) -> None:
    layer, *_ = dense(activation=ob.ActivationFunction.tanh())
    with pytest.raises(ob.LayerApplyError, match=message) as caught:
        mistake(layer)
    assert isinstance(caught.value, kind)


def test_outputs_that_collide() -> None:
    layer, *_ = dense(inputs=4, outputs=4)
    x = numbers(4, 4)
    shared = np.zeros((4, 4), np.float32)
    with pytest.raises(
        ob.LayerApplyError, match=r"generating_input_gradient and generating_weights_gradient share memory"
    ):
        layer.apply_backward(x, None, x, shared, shared)


F = ob.ArithmeticBinaryFunction
CREATION_MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: ob.FullyConnectedLayer(weights=np.zeros((4, 6), np.complex64)),
        TypeError,
        r"^FullyConnectedLayer: weights is complex64, but layers take float32\. .*\.astype\(np\.float32\)",
    ),
    (lambda: ob.FullyConnectedLayer(weights=numbers(6)), ValueError, r"weights has shape \(6,\).*2 axes \(out, in\)"),
    (
        lambda: ob.FullyConnectedLayer(input=ob.Shape.vector(7), weights=numbers(4, 6)),
        ValueError,
        r"FullyConnectedLayer: weights has shape \(4, 6\), but an input of 7 .* need \(out, in\) = \(4, 7\)",
    ),
    (
        lambda: ob.FullyConnectedLayer(weights=numbers(4, 6), bias=numbers(5)),
        ValueError,
        r"FullyConnectedLayer: bias is Vector size \(5,\).*size 4",
    ),
    (
        lambda: ob.FullyConnectedLayer(weights=numbers(6, 4).T, filter_parameters=CLIENT),
        ValueError,
        r"weights of shape \(4, 6\) is not C-contiguous .* BNNSFlagsUseClientPtr",
    ),
    (
        lambda: ob.FullyConnectedLayer(weights=numbers(4, 6), activation="tanh"),
        TypeError,
        r"must be an ActivationFunction such as ActivationFunction\.tanh\(\), not str",
    ),
    (
        lambda: ob.FullyConnectedLayer(weights=numbers(4, 6), filter_parameters={}),
        TypeError,
        r"filter_parameters must be a BNNSFilterParameters or None, not dict",
    ),
    (
        lambda: ob.FullyConnectedLayer(weights=numbers(4, 6), activation=ob.ActivationFunction.gumbel(1.0, 0.0)),
        ValueError,
        r"Gumbel, which cannot be fused into another layer\. .* with ActivationLayer",
    ),
    (
        lambda: ob.FullyConnectedLayer(
            weights=described(ob.Shape.matrix_row_major(6, 4), numbers(4, 6)), output=ob.Shape.vector(4)
        ),
        ValueError,
        r"input is left out, but only weights in an array tell its size",
    ),
    (lambda: image_layer(input=numbers(8, 8)), ValueError, r"^ConvolutionLayer: input has shape \(8, 8\).*3 axes"),
    (
        lambda: image_layer(weights=numbers(4, 2, 3, 3)),
        ValueError,
        r"weights has shape \(4, 2, 3, 3\).*= \(4, 3, kh, kw\)",
    ),
    (lambda: image_layer(weights=numbers(4, 3, 9, 9)), ValueError, r"8 x 8 pixels .*leaves no output .* 9 x 9"),
    (
        lambda: image_layer(output=ob.Shape.image_chw(9, 6, 4)),
        ValueError,
        r"ConvolutionLayer: output width is 9, but input width 8 .* gives at most 6",
    ),
    (lambda: image_layer(group_count=2), ValueError, r"ConvolutionLayer: group_count is 2, which does not divide"),
    (lambda: image_layer(stride=(1, 1, 1)), ValueError, r"stride is \(1, 1, 1\)\. Pass \(x, y\), horizontal first"),
    (lambda: image_layer(stride=(0, 1)), ValueError, r"stride is 0\. It must be at least 1"),
    (lambda: image_layer(dilation_stride=1.5), TypeError, r"dilation_stride must be an integer, not float"),
    (
        lambda: ob.ActivationLayer(function=ob.ActivationFunction.softmax(), input=numbers(2, 3), axes=[1]),
        ValueError,
        r"axes has 1, but there are -1 to 0 \(axes of one sample, without the batch\)",
    ),
    (
        lambda: ob.ActivationLayer(function=ob.ActivationFunction.softmax(), input=ob.Shape.vector(3), axes=[2]),
        ValueError,
        r"axes has 2, but there are 0 to 1",
    ),
    (
        lambda: ob.ActivationLayer(
            function=ob.ActivationFunction.softmax(), input=ob.Shape.vector(3), output=ob.Shape.vector(4)
        ),
        ValueError,
        r"ActivationLayer: input is Vector size \(3,\) Float32 and output is Vector size \(4,\)",
    ),
    (
        lambda: ob.BinaryArithmeticLayer(input_a=ob.Shape.vector(3), input_b=ob.Shape.vector(4), function=F.ADD),
        ValueError,
        r"BinaryArithmeticLayer: operands of size \(3,\), \(4,\) do not broadcast",
    ),
    (
        lambda: ob.BinaryArithmeticLayer(
            input_a=ob.Shape.vector(3), input_b=ob.Shape.vector(2), output=ob.Shape.vector(3), function=F.ADD
        ),
        ValueError,
        r"BinaryArithmeticLayer: input_b\.size\[0\] is 2, but output\.size\[0\] is 3",
    ),
    (
        lambda: ob.BinaryArithmeticLayer(
            input_a=ob.Shape.vector(3), input_b=ob.Shape.vector(3), function=ob.ArithmeticUnaryFunction.ABS
        ),
        TypeError,
        r"function must be an ArithmeticBinaryFunction, not ArithmeticUnaryFunction",
    ),
    (
        lambda: ob.UnaryArithmeticLayer(
            input=ob.Shape.vector(3), input_descriptor_type=1, function=ob.ArithmeticUnaryFunction.ABS
        ),
        TypeError,
        r"input_descriptor_type must be a DescriptorType, not int",
    ),
    (
        lambda: ob.BinaryArithmeticLayer(
            input_a=ob.Shape.vector(3),
            input_b=ob.Shape.vector(3),
            output_descriptor_type=ROLE.PARAMETER,
            function=F.ADD,
        ),
        ValueError,
        r"output_descriptor_type is not DescriptorType.SAMPLE",
    ),
]


@pytest.mark.parametrize(("mistake", "kind", "message"), CREATION_MISTAKES, ids=[m[2][:60] for m in CREATION_MISTAKES])
def test_mistakes_at_creation(mistake: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(ob.LayerCreationError, match=message) as caught:
        mistake()
    assert isinstance(caught.value, kind)


def test_channels_last_are_moved_not_reshaped() -> None:
    layer = ob.ConvolutionLayer(
        type=ob.ConvolutionType.STANDARD, input=ob.Shape.image_chw(8, 7, 3), weights=numbers(4, 3, 3, 3)
    )
    images = numbers(2, 7, 8, 3)
    with pytest.raises(ob.LayerApplyError, match=r"channels come last: pass np\.moveaxis\(array, -1, -3\)\.$"):
        layer.apply(images)
    with pytest.raises(ob.LayerApplyError, match=r"channels come last"):
        layer.apply(images[0])
    assert layer.apply(np.moveaxis(images, -1, -3)).shape == (2, 4, 5, 6)


def test_plain_sizes_at_creation() -> None:
    weights = numbers(4, 3, 3, 3)
    wrong: Any = (3, 8, 9)
    message = r"input is the tuple \(3, 8, 9\)\. Pass Shape\.image_chw\(9, 8, 3\) for 3 channels of 8 x 9 pixels"
    with pytest.raises(ob.LayerCreationError, match=message):
        ob.ConvolutionLayer(type=ob.ConvolutionType.STANDARD, input=wrong, weights=weights)
    for wrong, cure in (([5], r"Shape\.vector\(5\)"), ([2, 3], r"Shape\(\[2, 3\]\), an array")):
        with pytest.raises(ob.LayerCreationError, match=f"input is the list .*Pass {cure}"):
            ob.ActivationLayer(function=ob.ActivationFunction.tanh(), input=wrong)


def test_parameters_are_not_attributes() -> None:
    layer = ob.FullyConnectedLayer(weights=numbers(4, 6))
    for name in ("weights", "bias"):
        with pytest.raises(
            AttributeError, match=r"^FullyConnectedLayer does not show .*UseClientPtr.*change those in place"
        ):
            setattr(layer, name, numbers(4, 6))
        assert not hasattr(layer, name)


def test_mistakes_with_operands() -> None:
    layer = ob.BinaryArithmeticLayer(input_a=ob.Shape.vector(3), input_b=ob.Shape.vector(3), function=F.MULTIPLY)
    a = numbers(2, 3)
    with pytest.raises(ob.LayerApplyError, match=r"BinaryArithmeticLayer.apply: input_b is None, but it is needed"):
        layer.apply(a)
    with pytest.raises(
        ob.LayerApplyError, match=r"apply_backward: input_b is None, but the derivative of Multiply needs"
    ):
        layer.apply_backward(a, None, None, a)
    with pytest.raises(ob.LayerApplyError, match=r"apply: input_b holds 1 sample, but input_a holds 2"):
        layer.apply(a, a[0])
    shared = np.zeros((2, 3), np.float32)
    with pytest.raises(
        ob.LayerApplyError, match=r"generating_input_a_gradient and generating_input_b_gradient share memory"
    ):
        layer.apply_backward(a, a.copy(), None, a, shared, shared)


def test_float64_arrays_where_float32_is_needed() -> None:
    layer = ob.ActivationLayer(function=ob.ActivationFunction.tanh(), input=ob.Shape.vector(3))
    if ob.current_engine() == "native":
        with pytest.raises(ob.LayerApplyError, match=r"input is float64, but this layer takes float32 here\."):
            layer.apply(np.zeros(3))
        with pytest.raises(ob.LayerApplyError, match=r"output is float64, but this layer writes float32 here\."):
            layer.apply(np.zeros(3, np.float32), np.empty(3))
        with pytest.raises(ob.LayerCreationError, match=r"weights is float64, but layers take float32\."):
            ob.FullyConnectedLayer(weights=np.ones((2, 3)))
    with ob.engine("reference"):
        with pytest.raises(ob.LayerApplyError, match=r"float16, but this layer takes .*\.astype\(np\.float32\)\.$"):
            layer.apply(np.zeros(3, np.float16))
        with pytest.raises(
            ob.LayerCreationError, match=r"weights\.data is float64, but the filter uses this memory in place"
        ):
            ob.FullyConnectedLayer(weights=np.ones((2, 3)), filter_parameters=CLIENT)
