"""The fused layers against layers that are not fused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from differences import normalized
from helpers import Array, assert_bitwise, assert_within
from openbnns import compat
from openbnns.layers.normalization import NormalizationLayer

F32 = np.float32


# ---------------------------------------------------------------------------------------------------------------------
# Classes


def parameters_of(layer: str, **more: Any) -> Any:
    return getattr(ob, f"Fused{layer}Parameters")(**more)


def arrays(*shapes: tuple[int, ...], seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(F32) for shape in shapes]


def batch_norm(channels: int, **more: Any) -> Any:
    beta, gamma = arrays((channels,), (channels,), seed=9)
    more = {"type": ob.NormalizationType.batch(), "beta": beta, "gamma": gamma, "momentum": 0.9, "epsilon": 1e-3} | more
    return parameters_of("Normalization", **more)


def central(forward: Callable[..., Array], tensors: list[Array], dy: Array, k: int, u: Array) -> float:
    h = 1e-5
    moved = [[t.astype(np.float64) + (s * h * u if i == k else 0) for i, t in enumerate(tensors)] for s in (1, -1)]
    return float(np.vdot(dy, forward(*moved[0]) - forward(*moved[1]))) / (2 * h)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.covers("swift.FusedLayer", "swift.FusedParametersLayer")
def test_arithmetic_layers(count: int, engine: str) -> None:
    """One, two and three inputs by name and by position, against the formula and its differences."""
    shape = (5, 6, 4, 3)
    inputs = arrays(*[shape] * count, seed=count)
    (dy,) = arrays(shape, seed=7)
    functions = [
        (ob.ArithmeticUnaryFunction.SQUARE, lambda a: a * a),
        (ob.ArithmeticBinaryFunction.MULTIPLY, lambda a, b: a * b),
        (ob.ArithmeticTernaryFunction.MULTIPLY_ADD, lambda a, b, c: a * b + c),
    ]
    function, op = functions[count - 1]
    norm = batch_norm(6, activation=ob.ActivationFunction.tanh())
    names = ["input"] if count == 1 else [f"input_{'abc'[i]}" for i in range(count)]
    first = parameters_of(("UnaryArithmetic", "BinaryArithmetic", "TernaryArithmetic")[count - 1], function=function)
    layer = ob.FusedParametersLayer(**dict(zip(names, inputs, strict=True)), fused_layer_parameters=[first, norm])

    def forward(*values: Array) -> Array:
        beta, gamma = values[count:] if len(values) > count else (norm.beta, norm.gamma)
        return np.tanh(normalized(op(*values[:count]), beta, gamma))

    named = dict(zip(names, inputs, strict=True))
    y = layer.apply(**named, phase=ob.LearningPhase.TRAINING)
    assert_within(y, forward(*inputs).astype(F32), 1e-5, "y")
    result = layer.apply_backward(**named, output=y, output_gradient=dy)
    assert result._fields == (*names, "parameters") and len(result.parameters) == 2
    tensors = [*inputs, norm.beta, norm.gamma]
    for k, gradient in enumerate([*result[:-1], *result.parameters]):
        u = np.random.default_rng(k).standard_normal(tensors[k].shape)
        numeric = central(forward, tensors, dy, k, u)
        assert abs(np.vdot(gradient, u) - numeric) <= 1e-3 * max(1.0, float(np.linalg.norm(gradient * u))), k

    target = np.empty_like(y)
    assert layer.apply(*inputs, target, phase=ob.LearningPhase.TRAINING) is target
    given = [np.full(t.shape, 2, F32) for t in tensors]
    again = layer.apply_backward(*inputs, target, dy, *given[:count], given[count:], accumulate=True)
    for mine, before in zip((*again[:-1], *again.parameters), (*result[:-1], *result.parameters), strict=True):
        assert_within(mine, before + 2, 1e-5, "accumulated")
    assert all(a is b for a, b in zip((*again[:-1], *again.parameters), given, strict=True))
    skipped = layer.apply_backward(
        *inputs, output=target, output_gradient=dy, generating_parameter_gradients=[ob.skip, None]
    )
    assert skipped.parameters[0] is None
    assert_within(skipped.parameters[1], result.parameters[1], 1e-6, "gamma alone")


def test_roles_in_classes(engine: str) -> None:
    """A parameter's gradient is summed over the batch, a constant has none."""
    a, b = arrays((5, 6, 4, 3), (6, 4, 3))
    c = np.ones((6, 1, 1), F32)
    first = parameters_of(
        "TernaryArithmetic", input_a_descriptor_type=ob.DescriptorType.SAMPLE,
        input_b_descriptor_type=ob.DescriptorType.PARAMETER, input_c_descriptor_type=ob.DescriptorType.CONSTANT,
        output_descriptor_type=ob.DescriptorType.SAMPLE, function=ob.ArithmeticTernaryFunction.MULTIPLY_ADD,
    )  # fmt: skip
    layer = ob.FusedParametersLayer(
        input_a=ob.Shape.image_chw(3, 4, 6), input_b=ob.Shape.image_chw(3, 4, 6), input_c=ob.Shape.image_chw(1, 1, 6),
        output=ob.Shape.image_chw(3, 4, 6), fused_layer_parameters=[first, batch_norm(6)],
    )  # fmt: skip
    y = layer.apply(input_a=a, input_b=b, input_c=c, phase=ob.LearningPhase.TRAINING)
    (dy,) = arrays(y.shape, seed=3)
    result = layer.apply_backward(input_a=a, input_b=b, input_c=c, output=y, output_gradient=dy)
    assert result.input_a.shape == a.shape and result.input_b.shape == b.shape and result.input_c is None
    assert_within((result.input_b * b).sum(), (result.input_a * a).sum(), 1e-2, "a da and b db are the same sum")


def separate(first: Any, x: Array, norm: Any, dy: Array) -> tuple[Array, list[Array]]:
    """The two layers one after the other, through their own classes."""
    last = NormalizationLayer(
        type=norm.type, input=first.apply(x), output=first.apply(x), beta=norm.beta, gamma=norm.gamma,
        momentum=norm.momentum, epsilon=norm.epsilon, activation=norm.activation,
    )  # fmt: skip
    h = first.apply(x)
    y = last.apply(h, phase=ob.LearningPhase.TRAINING)
    back = last.apply_backward(output=y, output_gradient=dy)
    inner = first.apply_backward(input=x, output=h, output_gradient=back.input)
    return y, [inner.input, inner.weights, inner.bias, back.beta, back.gamma]


TYPES = [
    ob.NormalizationType.batch(), ob.NormalizationType.instance(), ob.NormalizationType.group(group_count=2),
    ob.NormalizationType.layer(normalization_axis=1),
]  # fmt: skip


@pytest.mark.parametrize("kind, type", [
    pytest.param(kind, type, id=f"{kind}-{type.case}")
    for kind in ("conv", "tconv", "fc", "conv class", "fc class")
    for type in TYPES
    if not (kind.startswith("fc") and type.case == "instance")  # of vectors: gives beta, whatever comes in
])  # fmt: skip
@pytest.mark.covers(
    "fused.convnorm_class", "fused.fcnorm_class", "swift.FusedConvolutionNormalizationLayer",
    "swift.FusedFullyConnectedNormalizationLayer",
)  # fmt: skip
def test_a_chain_is_its_layers(kind: str, type: Any, engine: str) -> None:
    """Fused classes give what the layers give one by one."""
    flat = kind.startswith("fc")
    x, w, b = arrays((7, 5), (6, 5), (6,)) if flat else arrays((4, 3, 6, 5), (6, 3, 3, 2), (6,))
    beta, gamma = arrays((6,), (6,), seed=5)
    if type.case == "layer":
        shape = (6,) if flat else (6, 1, 1)
        beta, gamma = beta.reshape(shape), gamma.reshape(shape)
    norm = batch_norm(6, type=type, beta=beta, gamma=gamma, activation=ob.ActivationFunction.rectified_linear())
    padding = ob.ConvolutionPadding.symmetric(x=1, y=1)
    options = {"stride": (2, 1), "dilation_stride": (1, 2), "padding": padding}
    if flat:
        first: Any = ob.FullyConnectedLayer(weights=w, bias=b)
    else:
        convolution_type = ob.ConvolutionType.TRANSPOSED if kind == "tconv" else ob.ConvolutionType.STANDARD
        first = ob.ConvolutionLayer(type=convolution_type, input=x, weights=w, bias=b, **options)
    affine = {
        "normalization": type, "normalization_beta": beta, "normalization_gamma": gamma, "normalization_momentum": 0.9,
        "normalization_epsilon": 1e-3, "normalization_activation": norm.activation,
    }  # fmt: skip
    if kind == "conv class":
        named = {f"convolution_{name}": value for name, value in {"weights": w, "bias": b, **options}.items()}
        layer: Any = ob.FusedConvolutionNormalizationLayer(input=x, output=first.apply(x), **named, **affine)
    elif kind == "fc class":
        layer = ob.FusedFullyConnectedNormalizationLayer(
            input=ob.Shape.vector(5), output=ob.Shape.vector(6), fully_connected_weights=w, fully_connected_bias=b,
            **affine,
        )  # fmt: skip
    elif flat:
        layer = ob.FusedParametersLayer(
            input=ob.Shape.vector(5), fused_layer_parameters=[parameters_of("FullyConnected", weights=w, bias=b), norm]
        )
    else:
        p = parameters_of("Convolution", type=convolution_type, weights=w, bias=b, group_size=1, **options)
        layer = ob.FusedParametersLayer(input=x, output=first.apply(x), fused_layer_parameters=[p, norm])
    (dy,) = arrays(first.apply(x).shape, seed=8)
    expected_y, expected = separate(first, x, norm, dy)
    y = layer.apply(x, phase=ob.LearningPhase.TRAINING)
    assert_within(y, expected_y, 2e-5, "y")
    result = layer.apply_backward(x, expected_y, dy)
    for name, mine, theirs in zip(
        ("x", "w", "b", "beta", "gamma"), (result.input, *result.parameters), expected, strict=True
    ):
        assert_within(mine, theirs, 2e-4 * max(1.0, float(np.abs(theirs).max())), name)
    inference = layer.apply(x)
    assert inference.shape == y.shape
    assert "fused_layer_parameters=[Fused" in repr(layer)


def test_quantization_in_classes(engine: str) -> None:
    x, w, b = arrays((3, 5), (6, 5), (6,))
    y = np.empty((3, 6), np.int8)
    layer = ob.FusedParametersLayer(
        input=ob.Shape.vector(5), output=y,
        fused_layer_parameters=[
            parameters_of("FullyConnected", weights=w, bias=b),
            parameters_of("Quantization", axis=0, scale=np.arange(10, 16, dtype=F32), bias=np.ones(6, F32)),
        ],
    )  # fmt: skip
    assert layer.apply(x, y) is y
    h = ob.FullyConnectedLayer(weights=w, bias=b).apply(x)
    assert np.array_equal(y, np.clip(np.rint(h.astype(np.float64) * np.arange(10, 16) + 1), -128, 127))
    with pytest.raises(ob.LayerApplyError, match="has no gradient"):
        layer.apply_backward(x, output_gradient=y)
    whole = np.rint(3 * arrays((3, 5))[0])
    layer = ob.FusedParametersLayer(
        input=ob.Shape.vector(5), output=ob.Shape.vector(6),
        fused_layer_parameters=[
            parameters_of("FullyConnected", weights=np.rint(4 * w)), parameters_of("Dequantization", scale=np.full(1, 8, F32)),
        ],
    )  # fmt: skip
    assert_bitwise(layer.apply(whole), whole @ np.rint(4 * w).T / 8, "dequantized")


def test_bad_arguments_of_classes(engine: str) -> None:
    x, w, b = arrays((4, 5), (6, 5), (6,))
    fc, norm = parameters_of("FullyConnected", weights=w, bias=b), batch_norm(6)
    vector5 = ob.Shape.vector(5)

    def refused(pattern: str, kind: type[Exception] = ob.LayerCreationError, **more: Any) -> None:
        with pytest.raises(kind, match=pattern):
            ob.FusedParametersLayer(**({"input": vector5, "fused_layer_parameters": [fc, norm]} | more))

    refused(
        "FusedNormalizationParameters -> FusedFullyConnectedParameters is not supported",
        fused_layer_parameters=[norm, fc],
    )
    refused("chain of no layers", fused_layer_parameters=[])
    refused("must be a list", TypeError, fused_layer_parameters=fc)
    refused(r"fused_layer_parameters\[1\] is of type int", TypeError, fused_layer_parameters=[fc, 3])
    refused("give input, or input_a and input_b", TypeError, input=None)
    refused("give input", TypeError, input_a=vector5)
    refused(
        "2 inputs are given, but FusedFullyConnectedParameters takes 1", input=None, input_a=vector5, input_b=vector5
    )
    refused("weights has shape", input=ob.Shape.vector(4))
    refused("output is left out", fused_layer_parameters=[fc, parameters_of("Quantization")])
    refused(
        "axis is 5", fused_layer_parameters=[fc, parameters_of("Quantization", axis=5)], output=np.zeros(6, np.int8)
    )
    refused("type must be a NormalizationType", TypeError, fused_layer_parameters=[fc, batch_norm(6, type="batch")])
    refused("beta", fused_layer_parameters=[fc, batch_norm(5)])
    refused("filter_parameters must be", TypeError, filter_parameters=3)

    layer = ob.FusedParametersLayer(input=vector5, fused_layer_parameters=[fc, norm])
    y = np.full((4, 6), 7, F32)
    with pytest.raises(ob.LayerApplyError, match=r"no training forward.*phase=LearningPhase.TRAINING"):
        layer.apply_backward(x, y, y)
    with pytest.raises(TypeError, match=r"phase must be LearningPhase.INFERENCE or LearningPhase.TRAINING"):
        layer.apply(x, phase=True)
    with pytest.raises(TypeError, match="takes input, output, each once"):
        layer.apply(x, y, y)
    with pytest.raises(TypeError, match="got a tensor, input_a"):
        layer.apply(x, input_a=x)
    with pytest.raises(ob.LayerApplyError, match="input has shape"):
        layer.apply(x[:, :4])
    layer.apply(x, phase=ob.LearningPhase.TRAINING)
    with pytest.raises(ob.LayerApplyError, match=r"has 3 entries, but this layer has 4.*weights, bias, beta, gamma"):
        layer.apply_backward(x, y, y, generating_parameter_gradients=[None] * 3)
    with pytest.raises(ob.LayerApplyError, match=r"generating_parameter_gradients\[0\] \(weights\) has shape \(6,\)"):
        layer.apply_backward(x, y, y, generating_parameter_gradients=[b, w, b, b])
    with pytest.raises(ob.LayerApplyError, match="input is None, but the weights gradient"):
        layer.apply_backward(output=y, output_gradient=y)
    with pytest.raises(ob.LayerApplyError, match=r"batch_size is 3|holds 3|had 4 samples"):
        layer.apply_backward(x[:3], y[:3], y[:3])
    assert (y == 7).all()
    layer.destroy()
    with pytest.raises(ob.LayerApplyError, match="destroyed"):
        layer.apply(x)


# ---------------------------------------------------------------------------------------------------------------------
# Readings, threads, speed paths


def test_kinks_and_ties_by_compat(engine: str) -> None:
    """The switches that concern the layers hold inside a chain as well."""
    a = np.array([[1, 2, 3, 0]], F32).repeat(3, axis=0)
    for split, share in ((False, 1.0), (True, 0.5)):
        with compat.using(minmax_tie_split=split):
            first = parameters_of("BinaryArithmetic", function=ob.ArithmeticBinaryFunction.MAX)
            layer = ob.FusedParametersLayer(
                input_a=ob.Shape.vector(4), input_b=ob.Shape.vector(4), fused_layer_parameters=[first, batch_norm(4)]
            )
            x = a + np.arange(3, dtype=F32)[:, None] ** 2
            layer.apply(x, x.copy(), phase=ob.LearningPhase.TRAINING)
            (dy,) = arrays((3, 4), seed=2)
            result = layer.apply_backward(x, x.copy(), output_gradient=dy)
            total = result.input_a + result.input_b
            np.testing.assert_allclose(result.input_a, share * total, atol=1e-6)
            assert np.abs(total).max() > 1e-3


def test_parameters_can_be_changed_as_in_swift() -> None:
    """Swift sets the axis of a quantization as a property; its initializer does not take it."""
    quantization = ob.FusedQuantizationParameters(scale=np.float32([1, 10]), bias=None)
    quantization.axis = 0
    layer = ob.FusedParametersLayer(
        input=ob.Shape.vector(2),
        output=np.empty((1, 2), np.int8),
        fused_layer_parameters=[ob.FusedFullyConnectedParameters(weights=np.eye(2, dtype=np.float32)), quantization],
    )
    assert layer.apply(np.float32([[3, 4]])).tolist() == [[3, 40]]
