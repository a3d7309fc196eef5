"""Cures that fit: what a failed call meant is found by looking for a change that makes it valid."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns as ob
from bad_calls import refused
from helpers import ones
from openbnns import Shape, capi

Make = Callable[..., Any]
IMAGE, MATRIX = Shape.image_chw, Shape.matrix_row_major


def vector(count: int, data: Any = None) -> capi.BNNSNDArrayDescriptor:
    return Shape.vector(count).descriptor(data=data)


def fully_connected(i: int = 6, o: int = 4, w: tuple[int, int] = (6, 4)) -> Any:
    weights = MATRIX(*w).descriptor(data=ones(4, 6))
    return capi.BNNSFilterCreateLayerFullyConnected(
        capi.BNNSLayerParametersFullyConnected(i_desc=vector(i), w_desc=weights, o_desc=vector(o))
    )


def convolution(
    i: Sequence[int] = (7, 5, 3), o: Sequence[int] = (5, 3, 2), w: Sequence[int] = (3, 3, 3, 2), stride: Any = ()
) -> Any:
    kernels = capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutConvolutionWeightsOIHW,
        size=w,
        stride=stride,
        data=ones(54),
        data_type=capi.BNNSDataTypeFloat32,
    )
    return capi.BNNSFilterCreateLayerConvolution(
        capi.BNNSLayerParametersConvolution(
            i_desc=IMAGE(*i).descriptor(), w_desc=kernels, o_desc=IMAGE(*o).descriptor()
        )
    )


def pooling(i: Sequence[int] = (8, 6, 3), o: Sequence[int] = (4, 3, 3)) -> Any:
    return capi.BNNSFilterCreateLayerPooling(
        capi.BNNSLayerParametersPooling(
            i_desc=IMAGE(*i).descriptor(),
            o_desc=IMAGE(*o).descriptor(),
            pooling_function=capi.BNNSPoolingFunctionMax,
            k_width=2,
            k_height=2,
            x_stride=2,
            y_stride=2,
        )
    )


def activation(i: Any = None, o: Any = None) -> Any:
    return capi.BNNSFilterCreateLayerActivation(
        capi.BNNSLayerParametersActivation(
            i_desc=i or vector(4), o_desc=o or vector(4), activation=capi.BNNSActivation()
        )
    )


def normalization(i: Sequence[int] = (4, 3, 2), o: Sequence[int] = (4, 3, 2)) -> Any:
    two = {f"{name}_desc": vector(2, ones(2)) for name in ("beta", "gamma", "moving_mean", "moving_variance")}
    return capi.BNNSFilterCreateLayerNormalization(
        capi.BNNSBatchNorm,
        capi.BNNSLayerParametersNormalization(
            i_desc=IMAGE(*i).descriptor(), o_desc=IMAGE(*o).descriptor(), epsilon=1e-5, momentum=0.9, **two
        ),
    )


def product(a: Sequence[int] = (3, 2), b: Sequence[int] = (5, 3), o: Sequence[int] = (5, 2)) -> Any:
    return capi.BNNSFilterCreateLayerBroadcastMatMul(
        capi.BNNSLayerParametersBroadcastMatMul(
            alpha=1, iA_desc=MATRIX(*a).descriptor(), iB_desc=MATRIX(*b).descriptor(), o_desc=MATRIX(*o).descriptor()
        )
    )


def attention(reverse: Sequence[int] = (), o: Sequence[int] = (4, 5)) -> Any:
    sizes = [(4, 5), (4, 7), (4, 7), tuple(o)]
    targets = [MATRIX(*(s[::-1] if k in reverse else s)).descriptor() for k, s in enumerate(sizes)]
    weights = [Shape.tensor_3d_first_major(4, 2, 2).descriptor(data=ones(16)) for _ in range(3)]
    parts = [
        capi.BNNSMHAProjectionParameters(t, w)
        for t, w in zip(targets, [*weights, MATRIX(4, 4).descriptor(data=ones(16))], strict=True)
    ]
    return capi.BNNSFilterCreateLayerMultiheadAttention(
        capi.BNNSLayerParametersMultiheadAttention(query=parts[0], key=parts[1], value=parts[2], output=parts[3])
    )


def test_the_filters_can_be_made() -> None:
    for make in (fully_connected, convolution, pooling, activation, normalization, product, attention):
        assert make() is not None, ob.last_error()


EXCHANGED = r"i_desc and o_desc look exchanged: the call is valid with "


@pytest.mark.parametrize(
    ("create", "cure"),
    [
        # Input and output in each other's place.
        (lambda: fully_connected(4, 6), EXCHANGED + r"i_desc\.size \(6,\) and o_desc\.size \(4,\)\."),
        (lambda: convolution((5, 3, 2), (7, 5, 3)), EXCHANGED + r"i_desc\.size \(7, 5, 3\) and o_desc\.size \(5, 3, 2\)\.$"),
        (lambda: pooling((4, 3, 3), (8, 6, 3)), EXCHANGED + r"i_desc\.size \(8, 6, 3\) and o_desc\.size \(4, 3, 3\)\.$"),
        (lambda: product((5, 3), (3, 2)), r"iA_desc and iB_desc look exchanged: .*iA_desc\.size \(3, 2\) and iB_desc"),
        # Image sizes, rows and columns in the wrong order.
        (lambda: convolution((3, 5, 7), (2, 3, 5)), r"i_desc and o_desc look reversed \(ImageCHW has \(width, height, ch.*"
         r"valid with i_desc\.size \(7, 5, 3\) and o_desc\.size \(5, 3, 2\)\.$"),
        (lambda: convolution((3, 5, 7), (2, 3, 5), (2, 3, 3, 3)), r"i_desc, w_desc and o_desc look reversed .* "
         r"w_desc\.size \(3, 3, 3, 2\) and o_desc"),
        (lambda: convolution(w=(2, 3, 3, 3)), r"w_desc look reversed \(ConvolutionWeightsOIHW has \(kernel width, .*"),
        (lambda: convolution(o=(2, 3, 5)), r"The sizes of o_desc look reversed .* with o_desc\.size \(5, 3, 2\)\.$"),
        (lambda: convolution((5, 7, 3)), r"Width and height of i_desc look exchanged .* with i_desc\.size \(7, 5, 3\)\. Or: "
         r"Width and height of o_desc .* with o_desc\.size \(3, 5, 2\)\.$"),
        (lambda: pooling((3, 6, 8), (3, 3, 4)), r"i_desc and o_desc look reversed .* i_desc\.size \(8, 6, 3\) and o_desc"),
        (lambda: pooling(o=(3, 4, 3)), r"Width and height of o_desc look exchanged .* with o_desc\.size \(4, 3, 3\)\.$"),
        (lambda: normalization((2, 3, 4), (2, 3, 4)), r"i_desc and o_desc look reversed .* i_desc\.size \(4, 3, 2\) and o_d"),
        (lambda: product((2, 3), (3, 5), (2, 5)), r"iA_desc, iB_desc and o_desc look reversed \(RowMajorMatrix has \(columns"),
        (lambda: product(o=(2, 5)), r"o_desc look reversed .* valid with o_desc\.size \(5, 2\)\.$"),
        (lambda: attention(reverse=range(4)), r"query\.target_desc, key\.target_desc, value\.target_desc and output\.target_de"
         r"sc look reversed .*query\.target_desc\.size \(4, 5\), key\.target_desc\.size \(4, 7\)"),
        (lambda: attention(reverse=[3]), r"The sizes of output\.target_desc look reversed .*\.size \(4, 5\)\.$"),
        # One descriptor that the others contradict.
        (lambda: fully_connected(o=5), r"All but o_desc fit together: the call is valid with o_desc\.size \(4,\)\.$"),
        (lambda: fully_connected(i=5), r"All but i_desc fit together: the call is valid with i_desc\.size \(6,\)\.$"),
        (lambda: fully_connected(w=(8, 3)), r"but i_desc has 6 elements and o_desc 4\. Set w_desc\.size to \(6, 4\)"),
        (lambda: convolution(o=(5, 3, 3)), r"All but o_desc fit together: the call is valid with o_desc\.size \(5, 3, 2\)\.$"),
        # Strides in bytes.
        (lambda: convolution(stride=(4, 12, 36, 108)), r"but the call touches .*The strides of w_desc look like bytes, but "
         r"strides count elements \(w_desc\.stride \(1, 3, 9, 27\)\)"),
    ],
)  # fmt: skip
def test_creation_says_what_would_be_valid(create: Make, cure: str) -> None:
    refused(create(), cure)


def both(batch: int, *tensors: tuple[NDArray[Any], int], swap: tuple[int, int] | None, scale: int) -> list[Any]:
    """Memory and strides of a call, two buffers exchanged or all strides multiplied."""
    memory = [t[0] for t in tensors]
    if swap is not None:
        memory[swap[0]], memory[swap[1]] = memory[swap[1]], memory[swap[0]]
    return [batch, *(value for m, t in zip(memory, tensors, strict=True) for value in (m, t[1] * scale))]


def apply_calls(swap: tuple[int, int] | None = None, scale: int = 1) -> dict[str, Callable[[], int]]:
    def call(function: Any, made: Any, *tensors: Any, end: Sequence[Any] = ()) -> Callable[[], int]:
        places = swap if swap is not None and max(swap) < len(tensors) else (0, len(tensors) - 1) if swap else None
        return lambda: function(made, *both(5, *tensors, swap=places, scale=scale), *end)

    def attend() -> int:
        q, k, v, y = ones(5, 5, 4), ones(5, 7, 4), ones(5, 7, 4), ones(5, 5, 4)
        if swap:
            q, k = k, q
        return capi.BNNSApplyMultiheadAttention(
            attention(),
            5,
            q,
            20 * scale,
            k,
            28 * scale,
            None,
            0,
            v,
            28 * scale,
            y,
            20 * scale,
            None,
            None,
            None,
            None,
            None,
        )

    return {
        "fully connected": call(capi.BNNSFilterApplyBatch, fully_connected(), (ones(5, 6), 6), (ones(5, 4), 4)),
        "convolution": call(capi.BNNSFilterApplyBatch, convolution(), (ones(5, 105), 105), (ones(5, 30), 30)),
        "pooling": call(capi.BNNSPoolingFilterApplyBatch, pooling(), (ones(5, 144), 144), (ones(5, 36), 36), end=(None, 0)),
        "product": call(capi.BNNSFilterApplyTwoInputBatch, product(), (ones(5, 6), 6), (ones(5, 15), 15), (ones(5, 10), 10)),
        "attention": attend,
    } | ({} if swap else {  # the same number of elements on both sides: nothing tells them apart
        "activation": call(capi.BNNSFilterApplyBatch, activation(), (ones(5, 4), 4), (ones(5, 4), 4)),
        "normalization": call(
            capi.BNNSNormalizationFilterApplyBatch, normalization(), (ones(5, 24), 24), (ones(5, 24), 24), end=(True,)
        ),
    })  # fmt: skip


@pytest.mark.parametrize("family", apply_calls())
def test_batch_strides_in_bytes(family: str) -> None:
    assert apply_calls()[family]() == 0, ob.last_error()
    assert apply_calls(scale=4)[family]() == -1
    said = ob.last_error() or ""
    assert "look like bytes, but strides count elements. Pass " in said
    assert said.endswith(", or 0 for packed samples.")
    assert "larger buffer" not in said


@pytest.mark.parametrize("family", apply_calls(swap=(0, 1)))
def test_memory_in_each_others_place(family: str) -> None:
    assert apply_calls(swap=(0, 1))[family]() == -1
    said = ob.last_error() or ""
    assert " look exchanged: what is passed as " in said
    assert "larger buffer" not in said


def test_gradients_in_each_others_place() -> None:
    f, x = fully_connected(), ones(5, 6)
    dx, dy = vector(6, ones(5, 6)), vector(4, ones(5, 4))
    refused(
        capi.BNNSFilterApplyBackwardBatch(f, 5, x, 6, dy, 4, None, 0, dx, 6), "in_delta and out_delta look exchanged"
    )
    refused(
        capi.BNNSFilterApplyBackwardBatch(f, 5, x, 24, dx, 24, None, 0, dy, 16),
        "Pass in_stride 6, in_delta_stride 6 and out_delta_stride 4",
    )


def test_strides_inside_a_sample_in_bytes() -> None:
    f = activation(IMAGE(4, 3, 2, stride=(4, 16, 48)).descriptor(), IMAGE(4, 3, 2).descriptor())
    refused(
        capi.BNNSFilterApply(f, ones(24), ones(24)),
        re.escape("(4, 16, 48) along the axes of size[]. The stride of a descriptor counts"),
    )


def test_buffers_that_are_just_too_small_stay_too_small() -> None:
    """Nothing is said to be exchanged or in bytes unless it then fits exactly."""
    f = fully_connected()
    for x, y, strides in [
        (ones(29), ones(20), (6, 4)),  # one element is missing
        (ones(5, 5), ones(100), (6, 4)),  # a large output could hold the input, but not by design
        (ones(5 * 24), ones(6 * 4), (24, 4)),  # one sample of 24 is missing for a batch of 6
    ]:
        batch = 6 if strides[0] == 24 else 5
        assert capi.BNNSFilterApplyBatch(f, batch, x, strides[0], y, strides[1]) == -1
        assert (ob.last_error() or "").endswith("Pass a larger buffer.")


def test_nothing_is_written_while_looking_for_a_cure() -> None:
    f = normalization()
    x, y = ones(5, 24), np.full((5, 24), 7, np.float32)
    assert capi.BNNSNormalizationFilterApplyBatch(f, 5, x, 96, y, 96, True) == -1
    assert (x == 1).all()
    assert (y == 7).all()


def test_allocators_are_not_called_while_looking_for_a_cure() -> None:
    memory, calls = ctypes.create_string_buffer(1 << 16), []

    def allocate(place: Any, alignment: int, size: int) -> int:
        calls.append(size)
        place[0] = (ctypes.addressof(memory) + 63) // 64 * 64
        return 0

    params = capi.BNNSFilterParameters(alloc_memory=allocate, free_memory=lambda address: None)
    weights = MATRIX(6, 4).descriptor(data=ones(4, 6))
    p = capi.BNNSLayerParametersFullyConnected(i_desc=vector(4), w_desc=weights, o_desc=vector(6))
    refused(capi.BNNSFilterCreateLayerFullyConnected(p, params), "look exchanged")
    assert calls == [64]  # the probe of the call that failed


# The classes.


@pytest.mark.parametrize(
    ("create", "cure"),
    [
        (lambda: ob.FullyConnectedLayer(weights=ones(4, 6), input=Shape.vector(4), output=Shape.vector(6)),
         r"input and output look exchanged: the call is valid with input=Shape\.vector\(6\) and output=Shape\.vector\(4\)\.$"),
        (lambda: ob.FullyConnectedLayer(weights=ones(4, 6), input=Shape.vector(6), output=Shape.vector(5)),
         r"All but output fit together: the call is valid with output=Shape\.vector\(4\)\.$"),
        (lambda: ob.ConvolutionLayer(weights=ones(2, 3, 3, 3), input=IMAGE(3, 5, 7)),
         r"The sizes of input look reversed .* input=Shape\.image_chw\(7, 5, 3\)\.$"),
        (lambda: ob.ConvolutionLayer(weights=ones(2, 3, 3, 3), input=IMAGE(7, 5, 3), output=IMAGE(5, 3, 3)),
         r"All but output fit together: the call is valid with output=Shape\.image_chw\(5, 3, 2\)\.$"),
        (lambda: ob.ConvolutionLayer(weights=ones(2, 3, 3, 3), input=IMAGE(5, 3, 2), output=IMAGE(7, 5, 3)),
         r"input and output look exchanged: .* input=Shape\.image_chw\(7, 5, 3\) and output="),
        (lambda: ob.PoolingLayer(type=ob.PoolingType.max(), input=IMAGE(3, 6, 8), output=IMAGE(3, 3, 4), kernel_size=2,
                                 stride=2), r"The sizes of input and output look reversed .* input=Shape\.image_chw\(8, 6, 3\)"),
        (lambda: ob.NormalizationLayer(type=ob.NormalizationType.batch(), input=IMAGE(2, 3, 4), beta=ones(2), gamma=ones(2),
                                       epsilon=1e-5), r"The sizes of input look reversed .*image_chw\(4, 3, 2\)\.$"),
        (lambda: ob.BroadcastMatrixMultiplyLayer(input_a=MATRIX(5, 3), input_b=MATRIX(3, 2), output=MATRIX(5, 2)),
         r"input_a and input_b look exchanged: the call is valid with input_a=Shape\.matrix_row_major\(3, 2\) and input_b="),
    ],
)  # fmt: skip
def test_layers_say_what_would_be_valid(create: Make, cure: str) -> None:
    with pytest.raises(ob.LayerCreationError, match=cure):
        create()


def test_arrays_in_each_others_place() -> None:
    dense = ob.FullyConnectedLayer(weights=ones(4, 6))
    with pytest.raises(ob.LayerApplyError, match=r"input and output look exchanged: output has shape \(5, 6\)\."):
        dense.apply(ones(5, 4), ones(5, 6))
    with pytest.raises(ob.LayerApplyError, match="input and output look exchanged"):
        dense.apply_backward(input=ones(5, 4), output=ones(5, 6), output_gradient=ones(5, 4))
    with pytest.raises(ob.LayerApplyError, match="output_gradient and generating_input_gradient look exchanged"):
        dense.apply_backward(ones(5, 6), output_gradient=ones(5, 6), generating_input_gradient=ones(5, 4))
    product = ob.BroadcastMatrixMultiplyLayer(input_a=MATRIX(3, 2), input_b=MATRIX(5, 3), output=MATRIX(5, 2))
    with pytest.raises(ob.LayerApplyError, match="input_a and input_b look exchanged"):
        product.apply(ones(4, 3, 5), ones(4, 2, 3))


def test_axes_in_another_order_are_not_reshaped() -> None:
    """A reshape would run, and mix up the pixels."""
    layer = ob.ConvolutionLayer(weights=ones(2, 3, 3, 3), input=IMAGE(7, 5, 3))
    for shape, cure in [
        ((2, 3, 7, 5), r"axes are in another order: create the layer with Shape\.image_chw\(5, 7, 3\), or transpose"),
        (
            (2, 7, 5, 3),
            r"Sizes of a Shape begin with the fastest axis, .* with Shape\.image_chw\(3, 5, 7\), or transpose",
        ),
        ((2, 5, 7, 3), r"Its channels come last: pass np\.moveaxis\(array, -1, -3\)\.$"),
        ((2, 105), r"Pass the array's \.reshape\(\(2, 3, 5, 7\)\)\.$"),
    ]:
        with pytest.raises(ob.LayerApplyError, match=cure):
            layer.apply(ones(*shape))


def test_products_of_whole_matrices() -> None:
    a, b, c = ones(2, 3), ones(3, 5), ones(2, 5)
    described = [MATRIX(*x.shape).descriptor(data=x) for x in (a, b, c)]  # (rows, columns): the wrong way round
    refused(
        capi.BNNSMatMul(False, False, 1.0, *described, None, None),
        re.escape("inputA, inputB and output look reversed (RowMajorMatrix has (columns, rows))"),
    )
    with pytest.raises(ob.LayerApplyError, match="input_a and input_b look exchanged"):
        ob.apply_matrix_multiplication(MATRIX(5, 3).descriptor(data=b), MATRIX(3, 2).descriptor(data=a),
                                       output=MATRIX(5, 2).descriptor(data=c))  # fmt: skip
