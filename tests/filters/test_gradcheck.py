"""gradcheck accepts right gradients of every family and refuses wrong ones."""

from typing import Any

import numpy as np
import pytest

import openbnns as ob
from helpers import numbers
from openbnns import capi
from openbnns._words import Caller
from openbnns.capi import BNNSNDArrayDescriptor
from openbnns.filters.base import UnaryFilter
from openbnns.parameters.activation import IDENTITY
from openbnns.reference import fully_connected
from openbnns.tensors import descriptors
from openbnns.tensors.operands import Operand, Parameter

AF = ob.ActivationFunction


pytestmark = pytest.mark.usefixtures("engine")


def dense(**options: Any) -> ob.FullyConnectedLayer:
    return ob.FullyConnectedLayer(weights=numbers(5, 7), bias=numbers(5), **options)


@pytest.mark.parametrize("function", [AF.identity(), AF.tanh(), AF.rectified_linear(), AF.softmax(), AF.elu(alpha=0.7)])
def test_fully_connected(function: AF) -> None:
    report = ob.gradcheck(dense(activation=function), verbose=False)
    assert report.passed, str(report)
    assert {row.name for row in report.rows} == {"input", "weights", "bias"}
    assert len(report.rows) == 9


@pytest.mark.parametrize("kind", list(ob.ConvolutionType))
def test_convolution(kind: ob.ConvolutionType) -> None:
    transposed = kind is ob.ConvolutionType.TRANSPOSED
    layer = ob.ConvolutionLayer(
        type=kind,
        input=ob.Shape.image_chw(6, 5, 4),
        weights=numbers(2, 4, 3, 3) if transposed else numbers(6, 2, 3, 3),
        bias=numbers(2 if transposed else 6),
        group_count=1 if transposed else 2,
        stride=(2, 1),
        padding=ob.ConvolutionPadding.symmetric(x=1, y=1),
        activation=AF.sigmoid(),
    )
    assert ob.gradcheck(layer, verbose=False), str(ob.gradcheck(layer, verbose=False))


@pytest.mark.parametrize(
    "function",
    [
        AF.tanh(), AF.gelu(), AF.silu(), AF.hard_swish(), AF.softplus(), AF.leaky_rectified_linear(alpha=0.2),
        AF.prelu_per_channel(alpha=0.3), AF.softmax(), AF.log_softmax(), AF.threshold(alpha=0.1, beta=0.0), AF.abs(),
    ],
    ids=repr,
)  # fmt: skip
def test_activation(function: AF) -> None:
    layer = ob.ActivationLayer(function=function, input=ob.Shape.image_chw(4, 3, 2))
    report = ob.gradcheck(layer, verbose=False)
    assert report.passed, str(report)
    trains_alpha = function.case in ("leaky_rectified_linear", "prelu_per_channel")
    assert {row.name for row in report.rows} == ({"input", "alpha"} if trains_alpha else {"input"})


@pytest.mark.parametrize("function", list(ob.ArithmeticUnaryFunction))
def test_unary_arithmetic(function: ob.ArithmeticUnaryFunction) -> None:
    report = ob.gradcheck(ob.UnaryArithmeticLayer(input=ob.Shape.vector(6), function=function), verbose=False)
    assert report.passed, str(report)


@pytest.mark.parametrize("function", list(ob.ArithmeticBinaryFunction))
def test_binary_arithmetic(function: ob.ArithmeticBinaryFunction) -> None:
    layer = ob.BinaryArithmeticLayer(
        input_a=ob.Shape([2, 3]),
        input_b=ob.Shape([1, 3]),
        input_b_descriptor_type=ob.DescriptorType.PARAMETER,
        function=function,
    )
    report = ob.gradcheck(layer, verbose=False)
    assert report.passed, str(report)
    assert {row.name for row in report.rows} == {"input_a", "input_b"}


def test_ternary_arithmetic_with_a_constant() -> None:
    layer = ob.TernaryArithmeticLayer(
        input_a=ob.Shape.vector(4),
        input_b=ob.Shape.vector(4),
        input_b_descriptor_type=ob.DescriptorType.CONSTANT,
        input_c=ob.Shape.vector(4),
        function=ob.ArithmeticTernaryFunction.MULTIPLY_ADD,
    )
    report = ob.gradcheck(layer, [numbers(2, 4), numbers(4), numbers(2, 4, seed=1)], verbose=False)
    assert report.passed, str(report)
    assert {row.name for row in report.rows} == {"input_a", "input_c"}


def test_a_bias_that_a_normalization_takes_away() -> None:
    """Its gradient is zero but for the rounding of terms that cancel; a wrong one of their size would be found."""
    norm = ob.FusedNormalizationParameters(
        type=ob.NormalizationType.batch(), beta=numbers(4), gamma=numbers(4, seed=1), momentum=0.9, epsilon=1e-3,
        activation=AF.tanh(),
    )  # fmt: skip
    first = ob.FusedFullyConnectedParameters(weights=numbers(4, 2), bias=numbers(4, seed=2))
    layer = ob.FusedParametersLayer(
        input=ob.Shape.vector(2), output=ob.Shape.vector(4), fused_layer_parameters=[first, norm]
    )
    for seed in range(40):
        report = ob.gradcheck(layer, seed=seed, directions=1, verbose=False)
        assert report.passed, str(report)


def test_filters_of_the_c_face_with_strides() -> None:
    def vector(n: int, stride: int) -> BNNSNDArrayDescriptor:
        return BNNSNDArrayDescriptor(
            layout=capi.BNNSDataLayoutVector, size=[n], stride=[stride], data_type=capi.BNNSDataTypeFloat32
        )

    weights = BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutColumnMajorMatrix,
        size=[4, 5],
        data=numbers(5, 4),
        data_type=capi.BNNSDataTypeFloat32,
    )
    filter = capi.BNNSFilterCreateLayerFullyConnected(
        capi.BNNSLayerParametersFullyConnected(i_desc=vector(5, 3), w_desc=weights, o_desc=vector(4, 2))
    )
    assert filter is not None
    report = ob.gradcheck(filter, verbose=False)
    assert report.passed, str(report)
    assert "fully connected filter" in str(report)


def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = fully_connected.backward

    def wrong(*arguments: Any, **options: Any) -> dict[str, Any]:
        gradients = right(*arguments, **options)
        gradients["dw"] = gradients["dw"] * 1.01
        return gradients

    monkeypatch.setattr(fully_connected, "backward", wrong)
    report = ob.gradcheck(dense(), engine="reference", verbose=False)
    assert not report.passed
    assert not report
    assert {row.name for row in report.rows if not row.passed} == {"weights"}
    assert "FAILED" in str(report)
    assert "GRADIENTS DISAGREE" in str(report)


def test_a_gradient_of_zeros_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = fully_connected.backward

    def wrong(*arguments: Any, **options: Any) -> dict[str, Any]:
        return {name: 0 * value for name, value in right(*arguments, **options).items()}

    monkeypatch.setattr(fully_connected, "backward", wrong)
    report = ob.gradcheck(dense(activation=AF.softmax()), engine="reference", verbose=False)
    assert all(row.relative_error == 1 for row in report.rows)


def test_report_is_printed_and_repeats(capsys: pytest.CaptureFixture[str], engine: str) -> None:
    first = ob.gradcheck(dense(), seed=3)
    printed = capsys.readouterr().out
    assert printed.startswith(f"FullyConnectedLayer ({engine} engine), tolerance 0.0002\ngradient")
    assert printed.endswith("all gradients agree\n")
    assert ob.gradcheck(dense(), seed=3, verbose=False) == first
    assert ob.gradcheck(dense(), seed=4, verbose=False) != first


def test_given_inputs_at_a_kink_are_noted() -> None:
    layer = ob.ActivationLayer(function=AF.rectified_linear(), input=ob.Shape.vector(3))
    report = ob.gradcheck(layer, np.zeros((2, 3), np.float32), verbose=False)
    assert all(row.note.startswith("kink") for row in report.rows)


class Squared(UnaryFilter):
    """A family that only this test knows: y = w x^2, with one weight for each element."""

    family = "squared"

    def __init__(self, right: bool) -> None:
        super().__init__(None, Caller("Squared"))
        self.right, view = right, descriptors.resolve(ob.Shape.vector(5).descriptor(), "Squared")
        self.input = self.output = Operand(view, view.memory_axes)
        self.weights = Parameter(
            view, view.memory_axes, "Squared", numbers(5), client_pointer=False, memory=self.memory
        )
        self.activation, self.fused_function = IDENTITY, 0

    def reference_forward(self, x: Any, w: Any, b: Any, f: Any) -> Any:
        return w * x * x

    def reference_backward(self, x: Any, y: Any, dy: Any, w: Any, b: Any, wanted: set[str]) -> dict[str, Any]:
        return {"dx": (2 if self.right else 1.9) * w * x * dy, "dw": np.sum(dy * x * x, axis=0)}

    def input_needs(self) -> Any:
        return ()


@pytest.mark.parametrize("right", [True, False])
def test_a_new_family_is_checked_from_its_declaration(right: bool) -> None:
    report = ob.gradcheck(Squared(right), engine="reference", verbose=False)
    assert {row.name for row in report.rows} == {"input", "weights"}
    assert {row.name for row in report.rows if not row.passed} == (set() if right else {"input"})


def test_the_filter_is_left_as_it_was() -> None:
    """Moving statistics, weights, and the masks that dropout draws next."""
    layers: list[Any] = [
        ob.DropoutLayer(input=ob.Shape.vector(64), rate=0.5, seed=9),
        ob.NormalizationLayer(type=ob.NormalizationType.batch(), input=ob.Shape.image_chw(3, 4, 2), momentum=0.5),
        dense(activation=AF.tanh()),
    ]
    for layer in layers:
        x = numbers(3, *layer.bnns_filter.input.shape)
        fresh = [p.read(np.float64).copy() for p in layer.bnns_filter.parameters()]
        draws = getattr(layer.bnns_filter, "draws", None)
        assert ob.gradcheck(layer, x, verbose=False)
        assert getattr(layer.bnns_filter, "draws", None) == draws
        for before, parameter in zip(fresh, layer.bnns_filter.parameters(), strict=True):
            np.testing.assert_array_equal(parameter.read(np.float64), before)


def test_inputs_of_different_batches() -> None:
    layer = ob.BinaryArithmeticLayer(
        input_a=ob.Shape.vector(4), input_b=ob.Shape.vector(4), function=ob.ArithmeticBinaryFunction.ADD
    )
    with pytest.raises(ob.LayerApplyError, match=r"different numbers of samples \(input_a 2, input_b 3\)"):
        ob.gradcheck(layer, [numbers(2, 4), numbers(3, 4)])


def test_mistakes() -> None:
    wrong: Any
    for wrong in (5, None, ob.FullyConnectedLayer):
        name = "the class FullyConnectedLayer" if isinstance(wrong, type) else type(wrong).__name__
        with pytest.raises(TypeError, match=rf"gradcheck: a layer, a filter .* a network, .* is needed, not {name}"):
            ob.gradcheck(wrong)
    with pytest.raises(ob.LayerApplyError, match=r"gradcheck: input has shape \(2, 6\), but one sample is \(7,\)"):
        ob.gradcheck(dense(), numbers(2, 6))
    with pytest.raises(ob.LayerApplyError, match=r"gradcheck: 2 inputs are given"):
        ob.gradcheck(dense(), [numbers(2, 7), numbers(2, 7)])
    with pytest.raises(ob.LayerApplyError, match=r"cannot be trained"):
        ob.gradcheck(dense(activation=AF.silu()))
    with pytest.raises(ob.LayerApplyError, match=r"draw new random numbers"):
        ob.gradcheck(ob.ActivationLayer(function=AF.gumbel(alpha=0.5, beta=0.1), input=ob.Shape.vector(3)))
    with pytest.raises(ob.LayerApplyError, match=r"has been destroyed"), dense() as layer:
        layer.destroy()
        ob.gradcheck(layer)
