"""Memory that a filter uses in place cannot be resized while the filter lives: the filter has its address."""

from __future__ import annotations

import array
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns as bn
from helpers import ones
from openbnns import Shape, capi
from openbnns.capi import BNNSFilterDestroy, BNNSFilterParameters

IN_PLACE = BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr)
Made = tuple[Any, list[NDArray[Any]]]


def fully_connected() -> Made:
    w, b = ones(3, 4), ones(3)
    p = capi.BNNSLayerParametersFullyConnected(
        i_desc=Shape.vector(4).descriptor(), o_desc=Shape.vector(3).descriptor(),
        w_desc=Shape.matrix_row_major(4, 3).descriptor(data=w), bias=Shape.vector(3).descriptor(data=b),
    )  # fmt: skip
    return capi.BNNSFilterCreateLayerFullyConnected(p, IN_PLACE), [w, b]


def convolution() -> Made:
    w, b = ones(2, 3, 3, 3), ones(2)
    layer = bn.ConvolutionLayer(input=Shape.image_chw(5, 5, 3), weights=w, bias=b, filter_parameters=IN_PLACE)
    return layer._filter, [w, b]


def normalization() -> Made:
    beta, gamma, mean, variance = ones(2), ones(2), ones(2), ones(2)
    layer = bn.NormalizationLayer(
        type=bn.NormalizationType.batch(mean, variance), input=Shape.vector(2), beta=beta, gamma=gamma,
        filter_parameters=IN_PLACE,
    )  # fmt: skip
    return layer._filter, [beta, gamma, mean, variance]


def moving_statistics() -> Made:
    """Moving statistics are the caller's without the flag, too."""
    mean, variance = ones(2), ones(2)
    return bn.NormalizationLayer(
        type=bn.NormalizationType.batch(mean, variance), input=Shape.vector(2)
    )._filter, [mean, variance]  # fmt: skip


def fused() -> Made:
    w, beta, gamma = ones(3, 4), ones(3), ones(3)
    layer = bn.FusedFullyConnectedNormalizationLayer(
        input=Shape.vector(4), fully_connected_weights=w, normalization=bn.NormalizationType.layer(0),
        normalization_beta=beta, normalization_gamma=gamma, normalization_epsilon=1e-5, filter_parameters=IN_PLACE,
    )  # fmt: skip
    return layer._filter, [w, beta, gamma]


def embedding() -> Made:
    words = ones(5, 3)
    return bn.EmbeddingLayer(input=Shape.vector(2), dictionary=words, filter_parameters=IN_PLACE)._filter, [words]


def pooling() -> Made:
    b = ones(2)
    layer = bn.PoolingLayer(
        type=bn.PoolingType.max(), input=Shape.image_chw(4, 4, 2), output=Shape.image_chw(3, 3, 2), bias=b, kernel_size=2,
        filter_parameters=IN_PLACE,
    )  # fmt: skip
    return layer._filter, [b]


def sparse() -> Made:
    """Packed sparse weights are the caller's memory, too."""
    packed = np.zeros(12, np.float32)
    out = capi.BNNSNDArrayDescriptor(data=packed, data_type=capi.BNNSDataTypeFloat32)
    indices = Shape([2, 2]).descriptor(capi.BNNSDataTypeInt32, np.array([[0, 1], [3, 2]], np.int32))
    status = capi.BNNSNDArrayFullyConnectedSparsifySparseCOO(
        Shape.matrix_row_major(4, 3).descriptor(), indices, Shape.vector(2).descriptor(data=ones(2)), out, None, 1,
        None, 0, None,
    )  # fmt: skip
    assert status == 0, bn.last_error()
    p = capi.BNNSLayerParametersFullyConnected(
        i_desc=Shape.vector(4).descriptor(), o_desc=Shape.vector(3).descriptor(), w_desc=out
    )
    return capi.BNNSFilterCreateLayerFullyConnected(p, IN_PLACE), [packed]


MAKERS: list[Callable[[], Made]] = [
    fully_connected, convolution, normalization, moving_statistics, fused, embedding, pooling, sparse
]  # fmt: skip


def resize(memory: NDArray[Any]) -> None:
    memory.resize(memory.size * 1000, refcheck=False)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_arrays_keep_their_size_while_a_filter_uses_them(make: Callable[[], Made]) -> None:
    filter, arrays = make()
    assert filter is not None, bn.last_error()
    for memory in arrays:
        with pytest.raises(ValueError, match="cannot resize an array that references or is referenced"):
            resize(memory)
    filter.destroy()
    for memory in arrays:
        resize(memory)


def test_arrays_are_free_after_a_filter_is_collected() -> None:
    filter, arrays = fully_connected()
    del filter
    gc.collect()
    for memory in arrays:
        resize(memory)


def test_the_owner_of_a_view_keeps_its_size() -> None:
    everything = ones(100)
    w = everything[4:16].reshape(3, 4)
    layer = bn.FullyConnectedLayer(input=Shape.vector(4), output=Shape.vector(3), weights=w, filter_parameters=IN_PLACE)
    with pytest.raises(ValueError, match="cannot resize"):
        resize(everything)
    assert layer.apply(ones(4)).tolist() == [4, 4, 4]
    layer._filter.destroy()
    resize(everything)


def test_copied_weights_may_be_resized() -> None:
    w = ones(3, 4)
    layer = bn.FullyConnectedLayer(input=Shape.vector(4), output=Shape.vector(3), weights=w)
    resize(w)
    assert layer.apply(ones(4)).tolist() == [4, 4, 4]


@pytest.mark.parametrize("memory", [bytearray(48), array.array("f", [1.0] * 12)], ids=["bytearray", "array"])
def test_other_memory_keeps_its_size(memory: Any) -> None:
    p = capi.BNNSLayerParametersFullyConnected(
        i_desc=Shape.vector(4).descriptor(), o_desc=Shape.vector(3).descriptor(),
        w_desc=Shape.matrix_row_major(4, 3).descriptor(data=memory),
    )  # fmt: skip
    filter = capi.BNNSFilterCreateLayerFullyConnected(p, IN_PLACE)
    with pytest.raises(BufferError):
        memory.extend(memory)
    BNNSFilterDestroy(filter)
    memory.extend(memory)
