"""Arguments of an impossible Python type: always an OpenBNNS error that names the argument, never a stray exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns as ob
from openbnns import capi


def ones(*shape: int) -> NDArray[np.float32]:
    return np.ones(shape, np.float32)


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
