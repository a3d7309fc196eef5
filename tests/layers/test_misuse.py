"""Arguments of an impossible Python type: always an OpenBNNS error that names the argument, never a stray exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns as ob
from bad_calls import refused
from helpers import ones
from openbnns import capi


def _convolution(**arguments: Any) -> Any:
    return ob.ConvolutionLayer(**{"input": ones(1, 3, 5, 5), "weights": ones(4, 3, 3, 3)} | arguments)


def _backward(**arguments: Any) -> Any:
    layer = ob.FullyConnectedLayer(weights=ones(3, 4))
    return layer.apply_backward(**{"input": ones(2, 4), "output_gradient": ones(2, 3)} | arguments)


def _loss(**arguments: Any) -> Any:
    mean = ob.LossReduction.REDUCTION_MEAN
    layer = ob.LossLayer(input=ones(2, 4), loss_function=ob.LossFunction.mean_square_error(), loss_reduction=mean)
    return layer.apply_backward(**{"input": ones(2, 4), "labels": ones(2, 4), "output_gradient": ones(1)} | arguments)


def _softmax(**arguments: Any) -> Any:
    return ob.ActivationLayer(function=ob.ActivationFunction.softmax(), input=ones(2, 3), **arguments)


def _neighbors(**arguments: Any) -> Any:
    store = ob.NearestNeighbors(5, 3, 2)
    store.append(ones(3, 3))
    return store.apply(**arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: _convolution(stride="ab"), "^ConvolutionLayer: stride must be an integer, not str"),
        (lambda: _convolution(type=ones(3)), "^ConvolutionLayer: type "),
        (lambda: _softmax(axes=1.5), "^ActivationLayer: axes must be a sequence of integers or None, not float"),
        (lambda: _backward(accumulate=ones(3)), r"^FullyConnectedLayer.apply_backward: accumulate .* shape \(3,\)"),
        (lambda: _backward(batch_size=ones(3)), "^FullyConnectedLayer.apply_backward: batch_size "),
        (lambda: _loss(accumulate=ones(0)), "^LossLayer.apply_backward: accumulate must be True or False"),
        (lambda: _loss(batch_size=ones(2)), "^LossLayer.apply_backward: batch_size "),
        (lambda: _neighbors(output_indices=3), "^NearestNeighbors.apply: output_indices must be an array"),
        (lambda: _neighbors(index=b"1"), "^NearestNeighbors.apply: index must be an integer or None, not bytes"),
        (lambda: ob.gather(ones(3, 3), np.array([1]), axis=ones(3)), "^gather: axis must be an integer, not ndarray"),
        (lambda: ob.tile(ones(3, 3), repeats=5), "^tile: repeats must be a sequence of integers or None, not int"),
        (lambda: ob.clip_by_norm("a", ones(3)), "^clip_by_norm: threshold must be a number, not str"),
        (lambda: ob.clip_by_norm(1.0, ones(3), axes=ones(2, 2)), "^clip_by_norm: axes "),
        (lambda: ob.compute_norm(ones(3), axes=object), "^compute_norm: axes must be a sequence of integers or None"),
        (lambda: ob.quantize(ones(2, 3), np.zeros((2, 3), np.int8), axis=ones(2)), "^quantize: axis "),
    ],
)
def test_the_argument_is_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ob.BNNSError, match=message) as caught:
        call()
    assert isinstance(caught.value, TypeError)


def test_a_call_that_does_not_fit_the_signature_stays_a_plain_type_error() -> None:
    with pytest.raises(TypeError, match="positional argument") as caught:
        ob.ConvolutionLayer(ones(3))  # type: ignore[misc]
    assert not isinstance(caught.value, ob.BNNSError)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: capi.BNNSClipByValue(d, d, ones(3), 1.0), "BNNSClipByValue: min_val must be a number, not ndarray"),
        (
            lambda d: capi.BNNSClipByGlobalNorm(np.float32(3), [d], 1, 1.0, 0.0),
            "BNNSClipByGlobalNorm: dest must be a list",
        ),
        (
            lambda d: capi.BNNSDirectApplyLSTMBatchTrainingCaching(
                capi.BNNSLayerParametersLSTM(),
                None,
                ones(3),
                None,  # type: ignore[arg-type]
            ),
            None,
        ),
    ],
)
def test_calls_name_the_function(call: Callable[[Any], Any], message: str | None) -> None:
    described = capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutVector, size=(3,), data=ones(3), data_type=capi.BNNSDataTypeFloat32
    )
    if message is None:
        assert call(described) == -1
        return
    with pytest.raises(TypeError, match=message):
        call(described)


class Liar(list[Any]):
    """A list that misstates its length."""

    def __len__(self) -> int:
        return 5


class Shrinking:
    """A descriptor whose memory cannot be asked for without emptying the list that it is in."""

    flags, layout, data_type = 0, capi.BNNSDataLayoutVector, capi.BNNSDataTypeFloat32
    size, stride = [3, 0, 0, 0, 0, 0, 0, 0], [0] * 8

    def __init__(self, owner: list[Any]) -> None:
        self.owner = owner

    @property
    def data(self) -> NDArray[np.float32]:
        self.owner.clear()
        return ones(3)


def _vector(data: Any) -> capi.BNNSNDArrayDescriptor:
    return capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutVector, size=(3,), data=data, data_type=capi.BNNSDataTypeFloat32
    )


def _added() -> tuple[Any, ...]:
    """An arithmetic filter that adds, and the arguments of its backward call up to its inputs' gradients."""
    fields = capi.BNNSArithmeticBinary(
        in1=_vector(None), in1_type=capi.BNNSSample, in2=_vector(None), in2_type=capi.BNNSSample, out=_vector(None),
        out_type=capi.BNNSSample,
    )  # fmt: skip
    parameters = capi.BNNSLayerParametersArithmetic(
        arithmetic_function=capi.BNNSArithmeticAdd, arithmetic_function_fields=fields
    )
    return capi.BNNSFilterCreateLayerArithmetic(parameters), 1, 2, None, None


def test_lists_that_misstate_their_length() -> None:
    fields = capi.BNNSOptimizerSGDMomentumFields(learning_rate=1, gradient_scale=1)
    step = capi.BNNSOptimizerStep
    weights = ones(3)
    for liar in (Liar([_vector(weights)]), Liar()):
        with pytest.raises((TypeError, IndexError)):
            step(capi.BNNSOptimizerFunctionSGDMomentum, fields, 5, liar, liar)
    assert (weights == 1).all()
    x, indices, y = _vector(ones(3)), _vector(np.int32([2, 0, 1])), _vector(ones(3))
    indices.data_type = capi.BNNSDataTypeInt32
    for given in (indices, indices, Liar([1]), Liar()):  # twice a call that works, so that it is known
        if given is indices:
            assert capi.BNNSGather(0, x, indices, y, None) == 0
        else:
            with pytest.raises(TypeError, match="BNNSGather: indices must be a BNNSNDArrayDescriptor"):
                capi.BNNSGather(0, x, given, y, None)
    dx = [_vector(ones(3)), _vector(ones(3))]
    assert capi.BNNSArithmeticFilterApplyBackwardBatch(*_added(), dx, [0, 0], None, 0, _vector(ones(3)), 0) == 0
    call = (*_added(), Liar(dx), Liar([0, 0]), None, 0, _vector(ones(3)), 0)
    assert capi.BNNSArithmeticFilterApplyBackwardBatch(*call) in (0, -1)


def test_lists_that_change_while_they_are_read() -> None:
    tensors: list[Any] = []
    tensors += [Shrinking(tensors), _vector(ones(3))]
    fields = capi.BNNSOptimizerSGDMomentumFields(learning_rate=1, gradient_scale=1)
    step = (capi.BNNSOptimizerFunctionSGDMomentum, fields, 2, tensors, [_vector(ones(3))] * 2)
    refused(capi.BNNSOptimizerStep(*step), "parameters has 0 entries")
    tensors += [Shrinking(tensors), _vector(ones(3))]
    call = (*_added(), tensors, [0, 0], None, 0, _vector(ones(3)), 0)
    assert capi.BNNSArithmeticFilterApplyBackwardBatch(*call) in (0, -1)
    assert not tensors


def test_what_is_no_list_is_refused_unread() -> None:
    normalization = {"normalization": ob.NormalizationType.batch(), "normalization_epsilon": 0.0}
    layer = ob.FusedFullyConnectedNormalizationLayer(fully_connected_weights=ones(1, 1), **normalization)
    x = ones(2, 1)
    layer.apply(x, phase=ob.LearningPhase.TRAINING)
    dy = capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutVector, size=(1,), data=ones(2), data_type=capi.BNNSDataTypeFloat32
    )
    call = (layer.bnns_filter, 2, x, 0, None, 0, None, 0, dy, 0)
    for wrong in (np.int64(3), 1.5, iter([None] * 4), memoryview(b"abcd"), np.array(3)):
        with pytest.raises(TypeError, match="BNNSFusedFilterApplyBackwardBatch: delta_parameters must be a list of"):
            capi.BNNSFusedFilterApplyBackwardBatch(*call, wrong)
    refused(capi.BNNSFusedFilterApplyBackwardBatch(*call, range(10**9)), "delta_parameters has 1,000,000,000 entries")


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: ob.ActivationFunction.clamp(6), TypeError, r"^ActivationFunction.clamp: bounds must be a pair \(low, high\)"),
        (lambda: ob.ActivationFunction.clamp((1, "a")), TypeError, "^ActivationFunction.clamp: bounds must be a number"),
        (lambda: ob.GradientClipping.by_value(0.5), TypeError, "^GradientClipping.by_value: bounds must be a pair"),
        (lambda: ob.GradientClipping.by_value((1, 0)), ValueError, "^GradientClipping.by_value: bounds 1.0 to 0.0 are empty"),
        (lambda: ob.AdamOptimizer().zero_accumulators(3), TypeError, "^AdamOptimizer.zero_accumulators: parameters must be"),
        (lambda: ob.AdamOptimizer().zero_accumulators([3]), TypeError, "^AdamOptimizer.zero_accumulators: parameters is of"),
        (lambda: ob.AdamOptimizer().step(range(10**9), []), ValueError, "^AdamOptimizer.step: parameters has more than"),
        (lambda: ob.NearestNeighbors("a", 2, 1), TypeError, "^NearestNeighbors: capacity must be an integer"),
        (lambda: ob.NearestNeighbors(3, 2, 1.5), TypeError, "^NearestNeighbors: neighbor_count must be an integer"),
        (lambda: ob.DataType.from_dtype(print), TypeError, "^DataType.from_dtype: dtype must be a NumPy type"),
        (lambda: ob.Shape(range(10**9)), ValueError, "^Shape: takes 1 to 8 sizes"),
        (lambda: _convolution(stride=range(10**9)), ValueError, "^ConvolutionLayer: stride is range"),
        (lambda: ob.compute_norm(ones(3), axes=range(10**9)), ValueError, "^compute_norm: axes has 1"),
        (lambda: ob.FullyConnectedLayer(weights=ones(0, 3)), ValueError, r"^FullyConnectedLayer: weights has the shape \(0, 3\)"),
        (lambda: ob.ReductionLayer(function=ob.ReductionFunction.sum(), input=ones(0), output=ones(1)), ValueError,
         r"^ReductionLayer: input has the shape \(0,\) without elements"),
        (lambda: ob.UnaryArithmeticLayer(input=np.float32(3), function=ob.ArithmeticUnaryFunction.ABS), ValueError,
         r"^UnaryArithmeticLayer: input has shape \(\)"),
        (lambda: ob.BinaryArithmeticLayer(input_a=ones(2), input_b=ones(0), function=ob.ArithmeticBinaryFunction.ADD),
         ValueError, r"^BinaryArithmeticLayer: input_b has shape \(0,\)"),
        (lambda: ob.FusedFullyConnectedNormalizationLayer(
            fully_connected_weights=3, normalization=ob.NormalizationType.batch(), normalization_epsilon=0.0), TypeError,
         "^FusedFullyConnectedNormalizationLayer: fully_connected_weights is of type int"),
        (lambda: ob.FusedFullyConnectedNormalizationLayer(
            fully_connected_weights=ones(2, 2), normalization=3, normalization_epsilon=0.0), TypeError,  # type: ignore[arg-type]
         "^FusedFullyConnectedNormalizationLayer: normalization must be a NormalizationType such as .*, not int"),
        (lambda: ob.FusedFullyConnectedNormalizationLayer(
            fully_connected_weights=ones(2, 2), normalization=ob.NormalizationType.batch(), normalization_epsilon=-1.0),
         ValueError, "^FusedFullyConnectedNormalizationLayer: normalization_epsilon is -1"),
        (lambda: ob.FusedConvolutionNormalizationLayer(
            input=ones(1, 4, 4), convolution_weights=ones(2, 1, 3, 3), convolution_stride="ab",  # type: ignore[arg-type]
            normalization=ob.NormalizationType.batch(), normalization_epsilon=0.0), TypeError,
         "^FusedConvolutionNormalizationLayer: convolution_stride must be an integer"),
    ],
)  # fmt: skip
def test_messages_name_arguments_as_the_call_does(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_top_k_names_its_strides() -> None:
    x, best = _vector(ones(3)), _vector(np.zeros(3, np.int32))
    best.data_type = capi.BNNSDataTypeInt32
    with pytest.raises(TypeError, match="BNNSDirectApplyTopK: input_batch_stride must be an integer, not str"):
        capi.BNNSDirectApplyTopK(3, 0, 1, x, "a", _vector(ones(3)), 0, best, 0, None)  # type: ignore[arg-type]
    assert capi.BNNSDirectApplyTopK(3, 0, 2, x, 3, _vector(ones(6)), 3, best, 1, None) == -1


@pytest.mark.parametrize("wrong", [np.zeros(3, object), np.array([None])])
def test_attention_takes_no_objects_for_memory(wrong: Any) -> None:
    layer = ob.MultiheadAttentionLayer(4, 2)
    x, y = ones(8, 4), ones(8, 4)
    call = (layer.bnns_filter, 1, x, 0, x, 0, None, 0, x, 0, y, 0, None)
    refused(capi.BNNSApplyMultiheadAttention(*call, None, None, None, wrong), "workspace holds object items")
