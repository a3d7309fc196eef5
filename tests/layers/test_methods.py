"""The declared methods of layers: every argument of every method, taken and refused in the layer's own words."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from openbnns import LearningPhase, Shape, skip
from openbnns.layers._methods import Method

Array = Any
RANDOM = np.random.default_rng(5)


def numbers(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def _normalization(**options: Any) -> Any:
    kind = ob.NormalizationType.batch(moving_mean=np.zeros(3, np.float32), moving_variance=np.ones(3, np.float32))
    beta, gamma = numbers(3), numbers(3)
    return ob.NormalizationLayer(type=kind, input=Shape.vector(3), beta=beta, gamma=gamma, **options)


def _fused(count: int) -> Any:
    last = ob.FusedNormalizationParameters(
        type=ob.NormalizationType.batch(), beta=numbers(3), gamma=numbers(3), epsilon=1e-3
    )
    names = [("input",), ("input_a", "input_b"), ("input_a", "input_b", "input_c")][count - 1]
    shapes: dict[str, Any] = {name: Shape.vector(3) for name in names}
    first: Any = [
        ob.FusedFullyConnectedParameters(weights=numbers(3, 3), bias=numbers(3)),
        ob.FusedBinaryArithmeticParameters(function=ob.ArithmeticBinaryFunction.MULTIPLY),
        ob.FusedTernaryArithmeticParameters(function=ob.ArithmeticTernaryFunction.MULTIPLY_ADD),
    ][count - 1]
    return ob.FusedParametersLayer(**shapes, fused_layer_parameters=[first, last])


def _arithmetic(count: int) -> Any:
    names = [("input",), ("input_a", "input_b"), ("input_a", "input_b", "input_c")][count - 1]
    kind, function = [
        (ob.UnaryArithmeticLayer, ob.ArithmeticUnaryFunction.SQUARE),
        (ob.BinaryArithmeticLayer, ob.ArithmeticBinaryFunction.MULTIPLY),
        (ob.TernaryArithmeticLayer, ob.ArithmeticTernaryFunction.MULTIPLY_ADD),
    ][count - 1]
    shapes: dict[str, Any] = {name: Shape.vector(3) for name in names}
    return kind(**shapes, function=function, activation=ob.ActivationFunction.tanh())


TANH = ob.ActivationFunction.tanh()
LAYERS: dict[str, Callable[[], Any]] = {
    "activation": lambda: ob.ActivationLayer(
        function=ob.ActivationFunction.leaky_rectified_linear(alpha=0.1), input=Shape.vector(3)
    ),
    "fully connected": lambda: ob.FullyConnectedLayer(weights=numbers(2, 3), bias=numbers(2), activation=TANH),
    "convolution": lambda: ob.ConvolutionLayer(
        input=Shape.image_chw(4, 5, 2), weights=numbers(3, 2, 2, 2), bias=numbers(3)
    ),
    "pooling": lambda: ob.PoolingLayer(
        type=ob.PoolingType.max(), input=Shape.image_chw(4, 4, 2), kernel_size=2, stride=2, bias=numbers(2)
    ),
    "normalization": _normalization,
    "embedding": lambda: ob.EmbeddingLayer(input=Shape.vector(2), dictionary=numbers(4, 3)),
    "reduction": lambda: ob.ReductionLayer(
        function=ob.ReductionFunction.sum_of_squares(), input=np.zeros((1, 2, 3, 4), np.float32), axes=(1, 2)
    ),
    "dropout": lambda: ob.DropoutLayer(input=Shape.vector(3), rate=0.5, seed=3),
    "permute": lambda: ob.PermuteLayer(input=Shape([2, 3]), permutation=(1, 0)),
    "gram": lambda: ob.GramLayer(input=Shape.image_chw(2, 3, 2)),
    "product": lambda: ob.BroadcastMatrixMultiplyLayer(input_a=Shape([2, 3]), input_b=Shape([3, 4])),
    "product with weights": lambda: ob.BroadcastMatrixMultiplyLayer(
        input_a=Shape([2, 3]), input_b=numbers(3, 4), input_b_is_weights=True
    ),
    "weights times": lambda: ob.BroadcastMatrixMultiplyLayer(
        input_a=numbers(2, 3), input_a_is_weights=True, input_b=Shape([3, 4])
    ),
    "contraction": lambda: ob.TensorContractionLayer(operation="x_ij, x_kj -> g_ik", input_a=Shape([2, 3])),
    "one operand": lambda: _arithmetic(1),
    "two operands": lambda: _arithmetic(2),
    "three operands": lambda: _arithmetic(3),
    "fused": lambda: _fused(1),
    "fused arithmetic": lambda: _fused(2),
    "fused arithmetic of three": lambda: _fused(3),
}  # fmt: skip

C_WORDS = re.compile(
    r"NULL|_delta|\bin\b(?=\[| is| holds| has|,)|\binA\b|\binB\b|operand \d|BNNS\w*(Apply|Filter)|delta_parameters|training true"
)


def methods(layer: Any) -> tuple[Method, Method]:
    if isinstance(layer, ob.FusedLayer):
        return layer._apply_method.declared, layer._backward_method.declared
    return type(layer).apply.declared, type(layer).apply_backward.declared


def arguments(layer: Any, method: Method, batch: int = 4) -> dict[str, Any]:
    """Arrays for every tensor that the layer has, gradients to be made."""
    prepared, given = method.prepared(layer), {}
    for tensor in method.tensors:
        port = prepared.ports.get(tensor.name)
        if tensor.name.startswith("generating_") or port is None or (tensor.name == "output" and method.forward):
            given[tensor.name] = None
        elif port.view.element.kind == "float":
            given[tensor.name] = numbers(*port.full_shape(batch))
        else:
            given[tensor.name] = RANDOM.integers(0, 4, port.full_shape(batch)).astype(port.dtype)
    if method.chooser:
        given[method.chooser] = LearningPhase.TRAINING
    return given


def forward_and_backward(layer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of a forward call that has been made, and of the backward call that belongs to it."""
    forward, backward = methods(layer)
    first = arguments(layer, forward)
    y = layer.apply(**first)
    second = arguments(layer, backward) | {n: v for n, v in first.items() if n in backward.arguments} | {"output": y}
    if backward.prepared(layer).ports.get("output") is None:
        second["output"] = None
    return first, second


def bits(result: Any) -> list[bytes | None]:
    if isinstance(result, (tuple, list)):
        return [b for part in result for b in bits(part)]
    return [None if result is None else np.asarray(result).tobytes()]


@pytest.mark.parametrize("name", LAYERS)
def test_signatures_are_those_of_the_documentation(name: str) -> None:
    layer = LAYERS[name]()
    for call in (layer.apply, layer.apply_backward):
        parameters = inspect.signature(call).parameters
        assert "misspelled" not in parameters and "self" not in parameters
        assert inspect.getdoc(call)


@pytest.mark.parametrize("name", LAYERS)
def test_the_two_ways_of_a_call_give_the_same(name: str) -> None:
    """Arrays go to native code at once, strided inputs through the checks."""
    layer = LAYERS[name]()
    forward, backward = methods(layer)
    first, second = forward_and_backward(layer)

    def copied(values: dict[str, Any]) -> dict[str, Any]:
        def strided(value: Any) -> Any:
            if type(value) is not np.ndarray or value.ndim == 0:
                return value
            wide = np.zeros((*value.shape, 2), value.dtype)
            wide[..., 0] = value
            return wide[..., 0]

        return {n: strided(v) for n, v in values.items()}

    if name != "dropout":  # which draws anew at each call
        assert bits(layer.apply(**first)) == bits(layer.apply(**copied(first)))
    assert bits(layer.apply_backward(**second)) == bits(layer.apply_backward(**copied(second)))
    assert forward.prepared(layer).sizes and backward.prepared(layer).sizes  # the shapes have been looked up


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_written_added_and_left_out(name: str) -> None:
    layer = LAYERS[name]()
    _, backward = methods(layer)
    _, second = forward_and_backward(layer)
    plain = layer.apply_backward(**second)
    wanted = [t.name for t in backward.tensors if t.name.startswith("generating_")]
    for field, argument in zip(plain._fields, backward.result_names, strict=True):
        if argument is None:
            assert getattr(plain, field) is None
            continue
        made = getattr(plain, field)
        if isinstance(made, list):
            own: Any = [None if g is None else np.full_like(g, 2) for g in made]
            added = getattr(layer.apply_backward(**second | {argument: own}, accumulate=True), field)
            for one, two, old in zip(added, own, made, strict=True):
                assert one is two
                if old is not None:
                    np.testing.assert_allclose(one, 2 + old, rtol=1e-6)
            continue
        if made is None:
            with pytest.raises(ob.LayerApplyError, match=rf"{argument} is given, but this layer has no gradient of"):
                layer.apply_backward(**second | {argument: numbers(3)})
            continue
        own = np.full_like(made, 2)
        result = layer.apply_backward(**second | {argument: own}, accumulate=True)
        assert getattr(result, field) is own
        np.testing.assert_allclose(own, 2 + made, rtol=1e-6)
        others = [n for n in wanted if n != argument]
        alone = layer.apply_backward(**second | dict.fromkeys(others, skip))
        assert bits(getattr(alone, field)) == bits(made)
        assert all(
            value is None or not any(b for b in bits(value)) for f, value in alone._asdict().items() if f != field
        )


def bad_values(value: Any) -> list[Any]:
    vector = Shape.vector(3).descriptor()
    given = [None, "text", 7, numbers(9, 9, 9, 9, 9), np.zeros(3, np.complex64), vector, object()]
    if type(value) is np.ndarray:
        given += [value.astype(np.float64), value[:-1], value[..., :-1], value[:0]]
    return given


@pytest.mark.parametrize("name", LAYERS)
def test_messages_have_the_words_of_the_layer(name: str) -> None:
    """Whatever is wrong with an argument, no message tells of C names, and every message tells who failed."""
    layer = LAYERS[name]()
    first, second = forward_and_backward(layer)
    said = 0
    for call, given in ((layer.apply, first), (layer.apply_backward, second)):
        for argument, value in given.items():
            for bad in bad_values(value):
                for options in ({}, {"batch_size": 4}):
                    try:
                        call(**given | {argument: bad}, **options)
                    except (ob.BNNSError, TypeError) as error:
                        said += 1
                        assert not C_WORDS.search(str(error)), f"{argument}={bad!r}: {error}"
                        assert str(error).startswith(f"{type(layer).__name__}.{call.__name__}"), str(error)
    assert said > 20


@pytest.mark.parametrize("name", LAYERS)
def test_misspelled_and_missing_arguments(name: str) -> None:
    layer = LAYERS[name]()
    with pytest.raises(TypeError, match=r"outputGradient.*Did you mean output_gradient"):
        layer.apply_backward(outputGradient=numbers(3))
    layer.destroy()
    first = arguments(layer, methods(layer)[0])
    with pytest.raises(ob.LayerApplyError, match=r"\.apply: the filter has been destroyed"):
        layer.apply(**first)


def test_a_layer_forgets_shapes_that_are_many() -> None:
    layer = LAYERS["fully connected"]()
    for batch in range(1, 600):
        layer.apply(numbers(batch, 3))
    assert len(type(layer).apply.declared.prepared(layer).sizes) <= 256


def test_a_lost_training_forward_names_the_method() -> None:
    layer = _normalization()
    with pytest.raises(
        ob.LayerApplyError, match=r"apply_backward: .*call apply with phase=LearningPhase\.TRAINING on this"
    ):
        layer.apply_backward(output=numbers(4, 3), output_gradient=numbers(4, 3))
