"""Creating a filter costs little time and memory however large the tensors are that it describes.

Every creation runs with room for a few more megabytes of address space than the process has at that point, so that a
table which grows with the image fails, or takes its time.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from openbnns import capi

LONG = 1 << 28  # 1 GB of float32
STEP = 1 << 20  # the longest stride, dilation or padding
ROOM = 8 << 20  # bytes
SECONDS = 0.5  # of processor time

LINEAR, NEAREST = capi.BNNSInterpolationMethodLinear, capi.BNNSInterpolationMethodNearest


@contextmanager
def little_memory() -> Iterator[None]:
    """Address space for ROOM more bytes."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as pages:
        size = int(pages.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def image(width: int, height: int, channels: int) -> capi.BNNSNDArrayDescriptor:
    return bn.Shape.image_chw(width, height, channels).descriptor()


def numbers(size: int) -> capi.BNNSNDArrayDescriptor:
    return bn.Shape.vector(size).descriptor(data=np.ones(size, np.float32))


def convolution(
    width: int, height: int, channels: int = 16, outputs: int = 16, *, stride: int = 1, dilation: int = 1, pad: int = 0,
    groups: int = 1, transposed: bool = False,
) -> Any:  # fmt: skip
    kernel = [min(3, size) for size in (width, height)]
    out = [
        (size + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for size, k in zip((width, height), kernel, strict=True)
    ]
    large, small = image(width, height, channels), image(*out, outputs)
    shape = (outputs, channels // groups, *kernel[::-1])
    if transposed:
        shape = (channels, outputs, *kernel[::-1])
    weights = bn.Shape.convolution_weights_oihw(*shape[::-1]).descriptor(data=np.ones(shape, np.float32))
    p = capi.BNNSLayerParametersConvolution(
        i_desc=small if transposed else large, o_desc=large if transposed else small, w_desc=weights, x_stride=stride,
        y_stride=stride, x_dilation_stride=dilation, y_dilation_stride=dilation, x_padding=pad, y_padding=pad,
        groups=groups,
    )  # fmt: skip
    if transposed:
        return capi.BNNSFilterCreateLayerTransposedConvolution(p)
    return capi.BNNSFilterCreateLayerConvolution(p)


def pooling(function: int, width: int, height: int, kernel: int = 3, stride: int = 1) -> Any:
    k = [min(kernel, size) for size in (width, height)]
    out = [(size - n) // stride + 1 for size, n in zip((width, height), k, strict=True)]
    sides = image(width, height, 2), image(*out, 2)
    if function == capi.BNNSPoolingFunctionUnMax:  # the other way round
        sides = sides[::-1]
    p = capi.BNNSLayerParametersPooling(
        i_desc=sides[0], o_desc=sides[1], pooling_function=function, k_width=k[0], k_height=k[1],
        x_stride=stride, y_stride=stride,
    )  # fmt: skip
    return capi.BNNSFilterCreateLayerPooling(p)


def resize(method: int, width: int, height: int) -> Any:
    half = [max(1, size // 2) for size in (width, height)]
    p = capi.BNNSLayerParametersResize(method=method, i_desc=image(*half, 2), o_desc=image(width, height, 2))
    return capi.BNNSFilterCreateLayerResize(p)


def normalization(kind: Any, width: int, height: int) -> Any:
    p = capi.BNNSLayerParametersNormalization(
        i_desc=image(width, height, 2), o_desc=image(width, height, 2), beta_desc=numbers(2), gamma_desc=numbers(2),
        moving_mean_desc=numbers(2), moving_variance_desc=numbers(2), momentum=0.1, epsilon=1e-5, num_groups=2,
    )  # fmt: skip
    return capi.BNNSFilterCreateLayerNormalization(kind, p)


def same_shape(create: Callable[[Any], Any], struct: Any, width: int, height: int, **fields: Any) -> Any:
    return create(struct(i_desc=image(width, height, 2), o_desc=image(width, height, 2), **fields))


def elementwise(function: Any, width: int, height: int) -> Any:
    return same_shape(
        capi.BNNSFilterCreateLayerActivation, capi.BNNSLayerParametersActivation, width, height,
        activation=capi.BNNSActivation(function=function, alpha=1.0),
    )  # fmt: skip


def padding(mode: Any, width: int, height: int) -> Any:
    sides = [[1, 1] if size > 1 else [0, 0] for size in (width, height)]
    out = [size + sum(side) for size, side in zip((width, height), sides, strict=True)]
    p = capi.BNNSLayerParametersPadding(
        i_desc=image(width, height, 2), o_desc=image(*out, 2), padding_size=[*sides, [0, 0]], padding_mode=mode
    )
    return capi.BNNSFilterCreateLayerPadding(p)


def permute(width: int, height: int) -> Any:
    p = capi.BNNSLayerParametersPermute(
        i_desc=image(width, height, 2), o_desc=image(height, width, 2), permutation=[1, 0, 2]
    )
    return capi.BNNSFilterCreateLayerPermute(p)


def arithmetic(width: int, height: int) -> Any:
    fields = capi.BNNSArithmeticBinary(
        in1=image(width, height, 2), in2=image(width, 1, 1), out=image(width, height, 2),
        in1_type=capi.BNNSSample, in2_type=capi.BNNSSample, out_type=capi.BNNSSample,
    )  # fmt: skip
    p = capi.BNNSLayerParametersArithmetic(
        arithmetic_function=capi.BNNSArithmeticAdd, arithmetic_function_fields=fields,
        activation=capi.BNNSActivation(function=capi.BNNSActivationFunctionIdentity),
    )  # fmt: skip
    return capi.BNNSFilterCreateLayerArithmetic(p)


def reduction(width: int, height: int) -> Any:
    p = capi.BNNSLayerParametersReduction(
        i_desc=image(width, height, 2), o_desc=image(1, height, 2), reduce_func=capi.BNNSReduceFunctionSum
    )
    return capi.BNNSFilterCreateLayerReduction(p)


def loss(width: int, height: int) -> Any:
    p = capi.BNNSLayerParametersLossBase(
        function=capi.BNNSLossFunctionMeanSquareError, i_desc=image(width, height, 2),
        o_desc=bn.Shape.vector(1).descriptor(), reduction=capi.BNNSLossReductionMean,
    )  # fmt: skip
    return capi.BNNSFilterCreateLayerLoss(p)


def gram(width: int, height: int) -> Any:
    p = capi.BNNSLayerParametersGram(
        i_desc=image(width, height, 2), o_desc=bn.Shape.matrix_row_major(2, 2).descriptor(), alpha=1.0
    )
    return capi.BNNSFilterCreateLayerGram(p)


def lstm_cache(**sizes: int) -> Any:
    fields = {"input_size": 1, "hidden_size": 1, "batch_size": 1, "num_layers": 1, "seq_len": 1}
    return capi.BNNSComputeLSTMTrainingCacheCapacity(capi.BNNSLayerParametersLSTM(**(fields | sizes)))


FAMILIES: dict[str, Callable[[int, int], Any]] = {
    "convolution": convolution,
    "convolution from 1 to 1": lambda w, h: convolution(w, h, 1, 1),
    "convolution from 3": lambda w, h: convolution(w, h, 3, 16),
    "convolution to 3": lambda w, h: convolution(w, h, 16, 3),
    "convolution with stride 2": lambda w, h: convolution(w, h, stride=2),
    "convolution with padding": lambda w, h: convolution(w, h, pad=1),
    "grouped convolution": lambda w, h: convolution(w, h, 4, 4, groups=2),
    "depthwise convolution": lambda w, h: convolution(w, h, 2, 2, groups=2),
    "depthwise convolution with stride 2": lambda w, h: convolution(w, h, 2, 2, groups=2, stride=2),
    "transposed convolution": lambda w, h: convolution(w, h, 2, 2, transposed=True),
    **{f"pooling {f.name}": (lambda w, h, f=f: pooling(f, w, h)) for f in capi.BNNSPoolingFunction},  # type: ignore[misc]
    "pooling of pairs": lambda w, h: pooling(capi.BNNSPoolingFunctionMax, w, h, 2, 2),
    "linear resize": lambda w, h: resize(LINEAR, w, h),
    "nearest resize": lambda w, h: resize(NEAREST, w, h),
    "batch normalization": lambda w, h: normalization(capi.BNNSBatchNorm, w, h),
    "instance normalization": lambda w, h: normalization(capi.BNNSInstanceNorm, w, h),
    "group normalization": lambda w, h: normalization(capi.BNNSGroupNorm, w, h),
    "activation": lambda w, h: elementwise(capi.BNNSActivationFunctionTanh, w, h),
    "softmax": lambda w, h: elementwise(capi.BNNSActivationFunctionSoftmax, w, h),
    "dropout": lambda w, h: same_shape(
        capi.BNNSFilterCreateLayerDropout, capi.BNNSLayerParametersDropout, w, h, rate=0.5, seed=1
    ),
    "constant padding": lambda w, h: padding(capi.BNNSPaddingModeConstant, w, h),
    "reflecting padding": lambda w, h: padding(capi.BNNSPaddingModeReflect, w, h),
    "permute": permute,
    "arithmetic": arithmetic,
    "reduction": reduction,
    "loss": loss,
    "gram": gram,
}

ABSURD: dict[str, Callable[[], Any]] = {
    "stride": lambda: convolution(STEP + 3, STEP + 3, 1, 1, stride=STEP),
    "stride of a depthwise convolution": lambda: convolution(STEP + 3, STEP + 3, 2, 2, stride=STEP, groups=2),
    "stride of a transposed convolution": lambda: convolution(STEP + 3, 9, 2, 2, stride=4096, transposed=True),
    "dilation": lambda: convolution(2 * STEP + 1, 2 * STEP + 1, 1, 1, dilation=STEP),
    "padding": lambda: convolution(4, 4, 1, 1, pad=STEP, stride=STEP),
    "channels": lambda: convolution(3, 3, STEP // 16, 1),
    "stride of pooling": lambda: pooling(capi.BNNSPoolingFunctionMax, 3, 3, 1, STEP),
    "window of pooling": lambda: pooling(capi.BNNSPoolingFunctionMax, STEP, STEP, STEP),
    "layers of an LSTM": lambda: lstm_cache(num_layers=1 << 30),
    "steps of an LSTM": lambda: lstm_cache(seq_len=1 << 40),
    "units of an LSTM": lambda: lstm_cache(hidden_size=STEP),
}


IN_PLACE = capi.BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr)
NOWHERE = 1 << 40  # the address of parameters that creation must not look at


def described(layout: int, *size: int, data: Any = None, kind: int = capi.BNNSDataTypeFloat32) -> Any:
    return capi.BNNSNDArrayDescriptor(layout=layout, size=size, data=data, data_type=kind)


def fully_connected(length: int) -> Any:
    vector, matrix = capi.BNNSDataLayoutVector, capi.BNNSDataLayoutRowMajorMatrix
    p = capi.BNNSLayerParametersFullyConnected(
        i_desc=described(vector, length), o_desc=described(vector, 8), w_desc=described(matrix, length, 8, data=NOWHERE)
    )
    return capi.BNNSFilterCreateLayerFullyConnected(p, IN_PLACE)


def embedding(length: int) -> Any:
    flat, indices = capi.BNNSDataLayout2DLastMajor, capi.BNNSDataLayoutVector
    p = capi.BNNSLayerParametersEmbedding(
        i_desc=described(indices, length, kind=capi.BNNSDataTypeInt32), o_desc=described(flat, 4, length),
        dictionary=described(flat, 4, length, data=NOWHERE),
    )  # fmt: skip
    return capi.BNNSFilterCreateLayerEmbedding(p, IN_PLACE)


def product(length: int) -> Any:
    a, b, c = (described(capi.BNNSDataLayout2DFirstMajor, *size) for size in ((length, 3), (3, 4), (length, 4)))
    p = capi.BNNSLayerParametersBroadcastMatMul(alpha=1, iA_desc=a, iB_desc=b, o_desc=c)
    return capi.BNNSFilterCreateLayerBroadcastMatMul(p, IN_PLACE)


def attention(length: int) -> Any:
    target = described(capi.BNNSDataLayout2DFirstMajor, length, 4)
    weights = described(capi.BNNSDataLayout3DFirstMajor, 4, 2, 2, data=NOWHERE)
    part = capi.BNNSMHAProjectionParameters(target_desc=target, weights=weights)
    out = described(capi.BNNSDataLayout2DFirstMajor, 4, 4, data=NOWHERE)
    p = capi.BNNSLayerParametersMultiheadAttention(
        query=part, key=part, value=part, output=capi.BNNSMHAProjectionParameters(target_desc=target, weights=out)
    )
    return capi.BNNSFilterCreateLayerMultiheadAttention(p, IN_PLACE)


def fused(length: int) -> Any:
    kernel = bn.Shape.convolution_weights_oihw(3, 1, 1, 4).descriptor(data=np.ones((4, 1, 1, 3), np.float32))
    middle = image(length - 2, 1, 4)
    first = capi.BNNSLayerParametersConvolution(i_desc=image(length, 1, 1), o_desc=middle, w_desc=kernel)
    second = capi.BNNSLayerParametersNormalization(i_desc=middle, o_desc=middle)
    return capi.BNNSFilterCreateFusedLayer(2, [capi.BNNSConvolution, capi.BNNSBatchNorm], [first, second], IN_PLACE)


@pytest.mark.parametrize("length", [1 << 24, LONG, 1 << 31])
@pytest.mark.parametrize("create", [fully_connected, embedding, product, attention, fused])
def test_long_tensors(create: Callable[[int], Any], length: int) -> None:
    costs_little(lambda: create(length), may_refuse=False)


def costs_little(create: Callable[[], Any], *, may_refuse: bool) -> None:
    create()  # modules that load at first use, and everything that is kept
    with little_memory():
        start = time.process_time()
        made = create()
        seconds = time.process_time() - start
    assert made is not None or (may_refuse and "emory" not in str(bn.last_error())), bn.last_error()
    assert seconds < SECONDS


@pytest.mark.parametrize("size", [(LONG, 1), (1, LONG), (LONG >> 4, 3), (1 << 14, 1 << 14)], ids=str)
@pytest.mark.parametrize("family", list(FAMILIES))
def test_large_images(family: str, size: tuple[int, int]) -> None:
    costs_little(lambda: FAMILIES[family](*size), may_refuse=False)


@pytest.mark.parametrize("name", list(ABSURD))
def test_absurd_settings(name: str) -> None:
    costs_little(ABSURD[name], may_refuse=True)
