"""The Python face: activations, arithmetic, and layers with two inputs."""

from typing import Any

import numpy as np
import pytest

import openbnns as ob
from helpers import numbers
from layer_problems import close, described
from openbnns import skip
from openbnns.calls.signature import Argument, Call
from openbnns.filters.base import Filter
from openbnns.layers import BinaryLayer
from openbnns.tensors.descriptors import resolve
from openbnns.tensors.operands import Bound, Operand

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.usefixtures("engine")


# ---------------------------------------------------------------------------------------------------------------------
# Activation


def softmax(x: Array, axes: tuple[int, ...]) -> Array:
    e = np.exp(x.astype(np.float64) - x.max(axes, keepdims=True))
    return e / e.sum(axes, keepdims=True)


@pytest.mark.parametrize(
    ("axes", "numpy_axes"), [(None, (-1,)), ([-1], (-1,)), ([0], (1,)), ([0, 1, 2], (1, 2, 3)), ([0, 2], (1, 3))]
)
def test_axes_of_arrays_are_numpy_axes_of_one_sample(axes: list[int] | None, numpy_axes: tuple[int, ...]) -> None:
    x = numbers(2, 3, 4, 5)
    layer = ob.ActivationLayer(function=ob.ActivationFunction.softmax(), input=x, axes=axes)
    y = layer.apply(x)
    close(y, softmax(x, numpy_axes))
    dy = numbers(*x.shape, seed=2)
    close(layer.apply_backward(x, y, dy).input, y * (dy - (dy * y).sum(numpy_axes, keepdims=True)))


@pytest.mark.parametrize(
    ("axes", "numpy_axes"), [(None, (3,)), ([0], (3,)), ([2], (1,)), ([3], (0,)), ([0, 1], (2, 3))]
)
def test_axes_of_shapes_are_those_of_size(axes: list[int] | None, numpy_axes: tuple[int, ...]) -> None:
    x = numbers(2, 3, 4, 5)
    layer = ob.ActivationLayer(function=ob.ActivationFunction.softmax(), input=ob.Shape.image_chw(5, 4, 3), axes=axes)
    close(layer.apply(x), softmax(x, numpy_axes))


def test_default_axis_of_arrays_with_many_axes_is_the_last() -> None:
    x = numbers(2, 3, 2, 2, 4)
    layer = ob.ActivationLayer(function=ob.ActivationFunction.softmax(), input=x)
    close(layer.apply(x), softmax(x, (-1,)))


def test_alpha_is_trained_and_can_be_edited() -> None:
    x, dy = numbers(4, 5), numbers(4, 5, seed=2)
    layer = ob.ActivationLayer(
        function=ob.ActivationFunction.leaky_rectified_linear(alpha=0.25), input=ob.Shape.vector(5)
    )
    y = layer.apply(x)
    dx, alpha = layer.apply_backward(x, y, dy)
    close(dx, np.where(x >= 0, dy, 0.25 * dy))
    close(alpha, [(dy * x)[x < 0].sum()], 1e-4)
    assert layer.apply_backward(x, y, dy, generating_alpha_gradient=skip).alpha is None
    assert layer.alpha is not None
    layer.alpha[...] = 0.5
    close(layer.apply(x), np.where(x >= 0, x, 0.5 * x))

    per_channel = ob.ActivationLayer(
        function=ob.ActivationFunction.prelu_per_channel(), input=ob.Shape.image_chw(4, 4, 3)
    )
    assert per_channel.alpha is not None
    assert per_channel.alpha.shape == (3,)
    assert per_channel.beta is None
    images = numbers(2, 3, 4, 4)
    gradient = per_channel.apply_backward(images, None, images, skip).alpha
    close(gradient, np.where(images < 0, images * images, 0).sum((0, 2, 3)), 1e-4)


def test_functions_without_alpha_refuse_its_gradient() -> None:
    layer = ob.ActivationLayer(function=ob.ActivationFunction.tanh(), input=ob.Shape.vector(3))
    x = numbers(2, 3)
    with pytest.raises(ob.LayerApplyError, match=r"generating_alpha_gradient is given, but .* no gradient of alpha"):
        layer.apply_backward(x, None, x, skip, np.zeros(1, np.float32))
    with pytest.raises(ValueError, match=r"ActivationLayer.apply_backward: input and output are both None"):
        layer.apply_backward(None, None, x)


def test_soft_shrink_at_its_kinks() -> None:
    """The slope is 0 there, as PyTorch has it, whether it is taken from the input or from the output."""
    edge = np.float32(0.6)
    x = np.float32([edge, -edge, np.nextafter(edge, np.float32(1)), -np.nextafter(edge, np.float32(1)), 0] * 9)
    layer = ob.ActivationLayer(
        function=ob.ActivationFunction.soft_shrink(alpha=float(edge)), input=ob.Shape.vector(len(x))
    )
    y, dy = layer.apply(x), np.full(len(x), 2, np.float32)
    expected = np.float32([0, 0, 2, 2, 0] * 9)
    for given in ({"input": x}, {"output": y}, {"input": x, "output": y}):
        np.testing.assert_array_equal(layer.apply_backward(**given, output_gradient=dy).input, expected)


def test_activation_works_in_place() -> None:
    x = numbers(4, 5)
    expected = np.tanh(x)
    layer = ob.ActivationLayer(function=ob.ActivationFunction.tanh(), input=ob.Shape.vector(5))
    assert layer.apply(x, x) is x
    close(x, expected)


def test_apply_activation_and_conversion() -> None:
    x = numbers(2, 6)
    close(ob.apply_activation(ob.ActivationFunction.sigmoid(), x), 1 / (1 + np.exp(-x)))
    close(ob.apply_activation(ob.ActivationFunction.softmax(), x, axes=[0]), softmax(x, (1,)))
    half = np.empty((2, 6), np.float16)
    assert ob.apply_activation(ob.ActivationFunction.identity(), x, half) is half
    np.testing.assert_array_equal(half, x.astype(np.float16))
    close(ob.apply_activation(ob.ActivationFunction.identity(), half, np.empty((2, 6), np.float32)), half)
    descriptor = described(ob.Shape.vector(6), x)
    close(ob.apply_activation(ob.ActivationFunction.abs(), descriptor, batch_size=2), np.abs(x))
    with pytest.raises(ob.LayerApplyError, match=r"apply_activation: input is Vector size \(6,\)"):
        ob.apply_activation(ob.ActivationFunction.abs(), x, np.empty((2, 5), np.float32))


# ---------------------------------------------------------------------------------------------------------------------
# Arithmetic


ROLE = ob.DescriptorType


def test_unary_arithmetic() -> None:
    x = np.abs(numbers(3, 4)) + 0.5
    layer = ob.UnaryArithmeticLayer(input=x, output=x, function=ob.ArithmeticUnaryFunction.LOG)
    y = layer.apply(x)
    close(y, np.log(x))
    close(layer.apply_backward(x, y, x).input, np.ones((3, 4)))
    close(layer.apply(x[0]), np.log(x[0]))


def test_binary_arithmetic_with_a_parameter() -> None:
    a, b = numbers(5, 3, 4), numbers(4)
    layer = ob.BinaryArithmeticLayer(
        input_a=a,
        input_a_descriptor_type=ROLE.SAMPLE,
        input_b=b,
        input_b_descriptor_type=ROLE.PARAMETER,
        output=a,
        function=ob.ArithmeticBinaryFunction.MULTIPLY,
        activation=ob.ActivationFunction.tanh(),
    )
    y = layer.apply(input_a=a, input_b=b)
    close(y, np.tanh(a * b))
    dy = numbers(5, 3, 4, seed=2)
    dz = dy * (1 - y * y)
    da, db = layer.apply_backward(input_a=a, input_b=b, output=y, output_gradient=dy)
    close(da, dz * b)
    close(db, (dz * a).sum((0, 1)), 1e-4)
    given = np.full(4, 3, np.float32)
    result = layer.apply_backward(a, b, y, dy, skip, given, accumulate=True)
    assert result.input_a is None
    close(given, (dz * a).sum((0, 1)) + 3, 1e-4)


def test_operands_given_at_creation_may_be_left_out_of_calls() -> None:
    b = numbers(4)
    layer = ob.BinaryArithmeticLayer(
        input_a=ob.Shape.vector(4),
        input_b=b,
        input_b_descriptor_type=ROLE.CONSTANT,
        function=ob.ArithmeticBinaryFunction.ADD,
    )
    a = numbers(3, 4)
    close(layer.apply(a), a + b)
    b += 1
    close(layer.apply(a), a + b)
    result = layer.apply_backward(a, b, None, a)
    close(result.input_a, a)
    assert result.input_b is None
    with pytest.raises(
        ob.LayerApplyError, match=r"generating_input_b_gradient is given, but .* no gradient of input b"
    ):
        layer.apply_backward(a, b, None, a, skip, np.zeros(4, np.float32))


def test_broadcast_images_and_inferred_output() -> None:
    a, b = numbers(2, 3, 4, 5), numbers(3, 1, 1)
    layer = ob.BinaryArithmeticLayer(
        input_a=ob.Shape.image_chw(5, 4, 3),
        input_b=ob.Shape.image_chw(1, 1, 3),
        input_b_descriptor_type=ROLE.PARAMETER,
        function=ob.ArithmeticBinaryFunction.SUBTRACT,
    )
    y = layer.apply(a, b)
    close(y, a - b)
    close(layer.apply_backward(a, b, y, a).input_b, -a.sum((0, 2, 3)).reshape(3, 1, 1), 1e-4)


def test_ternary_arithmetic() -> None:
    a, b, c = numbers(3, 4), numbers(3, 4, seed=1), numbers(4)
    layer = ob.TernaryArithmeticLayer(
        input_a=a, input_b=b, input_c=c, input_c_descriptor_type=ROLE.PARAMETER, output=a,
        function=ob.ArithmeticTernaryFunction.MULTIPLY_ADD,
    )  # fmt: skip
    y = layer.apply(a, b, c)
    close(y, a * b + c)
    da, db, dc = layer.apply_backward(a, b, c, y, a)
    close(da, a * b)
    close(db, a * a)
    close(dc, a.sum(0))


def test_arithmetic_of_one_tensor_with_itself() -> None:
    x = numbers(3, 4)
    layer = ob.BinaryArithmeticLayer(input_a=x, input_b=x, output=x, function=ob.ArithmeticBinaryFunction.MULTIPLY)
    close(layer.apply(x, x), x * x)
    da, db = layer.apply_backward(x, x, None, np.ones_like(x))
    close(da + db, 2 * x)


@pytest.mark.parametrize("rank", range(1, 9))
def test_arithmetic_of_every_rank(rank: int) -> None:
    sample = ob.Shape([2] * rank)
    x = numbers(3, *[2] * rank)
    layer = ob.UnaryArithmeticLayer(input=sample, function=ob.ArithmeticUnaryFunction.SQUARE)
    close(layer.apply(x), x * x)


# ---------------------------------------------------------------------------------------------------------------------
# Two-input base


class DotFilter(Filter):
    """y = a b, elementwise, to drive the base class."""

    family = "dot"

    def declare(self, call: str, variant: Any) -> Call | None:
        v = Operand(resolve(ob.Shape.vector(4).descriptor(), "v"), (0,))
        inputs = Argument("inA", 0, v), Argument("inB", 1, v)
        if call == "apply_two_input":
            return Call((*inputs, Argument("out", 2, v, writes=True, required=True)))
        gradients = (Argument(f"{name}_delta", 4, v, writes=True, described=True) for name in ("inA", "inB"))
        arriving = Argument("out_delta", 3, v, described=True, required=True)
        return Call((*inputs, arriving, *gradients), backward=True)

    def run(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        a, b = (bound[name].read(np.float32) for name in ("inA", "inB"))
        if not call.backward:
            bound["out"].write(a * b)
            return
        dy = bound["out_delta"].read(np.float32)
        for result, other in (("inA_delta", b), ("inB_delta", a)):
            if result in bound:
                bound[result].write(dy * other)


class DotLayer(BinaryLayer):
    def __init__(self) -> None:
        self._summary = {}
        self._create(lambda who: DotFilter(None, who), None)


def test_binary_layer() -> None:
    layer, a, b = DotLayer(), numbers(3, 4), numbers(3, 4, seed=1)
    y = layer.apply(a, b)
    close(y, a * b)
    result = layer.apply_backward(a, b, y, a, generating_input_b_gradient=skip)
    close(result.input_a, a * b)
    assert result.input_b is None
    layer.destroy()
    with pytest.raises(ob.LayerApplyError, match=r"DotLayer.apply: the filter has been destroyed"):
        layer.apply(a, b)
