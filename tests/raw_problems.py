"""Calls by number: functions without a filter, and optimizers, with arguments for them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from openbnns import capi
from raw import described, floats


def index(rng: np.random.Generator, size: int, limit: int) -> Any:
    return rng.permutation(limit)[:size].astype(np.int32)


# Name, what makes the arguments (arrays stand for descriptors), and the place of the result among them.
FUNCTIONS: list[tuple[str, Callable[..., list[Any]], int]] = [
    ("BNNSCopy", lambda r: [floats(r, 3, 5), floats(r, 3, 5), None], 0),
    ("BNNSTranspose", lambda r: [floats(r, 5, 3), floats(r, 3, 5), 0, 1, None], 0),
    (
        "BNNSCompareTensor",
        lambda r: [floats(r, 7), floats(r, 7), int(capi.BNNSRelationalOperatorLess), np.zeros(7, np.bool_)],
        3,
    ),
    ("BNNSTile", lambda r: [floats(r, 2, 3), floats(r, 4, 9), None], 1),
    ("BNNSTileBackward", lambda r: [floats(r, 2, 3), floats(r, 4, 9), None], 0),
    ("BNNSBandPart", lambda r: [1, -1, floats(r, 4, 6), floats(r, 4, 6), None], 3),
    ("BNNSGather", lambda r: [1, floats(r, 4, 6), index(r, 3, 6), floats(r, 4, 3), None], 3),
    ("BNNSScatter", lambda r: [1, 6, floats(r, 4, 3), index(r, 3, 6), floats(r, 4, 6), None], 4),
    ("BNNSGatherND", lambda r: [floats(r, 6, 4), index(r, 3, 6).reshape(3, 1), floats(r, 3, 4), None], 2),
    ("BNNSScatterND", lambda r: [15, floats(r, 3, 4), index(r, 3, 6).reshape(3, 1), floats(r, 6, 4), None], 3),
    (
        "BNNSShuffle",
        lambda r: [int(capi.BNNSShuffleTypePixelShuffleNCHW), floats(r, 1, 4, 2, 3), floats(r, 1, 1, 4, 6), None],
        2,
    ),
    ("BNNSClipByValue", lambda r: [floats(r, 9), floats(r, 9), -0.5, 0.25], 0),
    ("BNNSClipByNorm", lambda r: [floats(r, 9), floats(r, 9), 0.5, 0], 0),
    ("BNNSComputeNorm", lambda r: [floats(r, 1), floats(r, 9), int(capi.BNNSL2Norm), 1], 0),
    ("BNNSMatMul", lambda r: [False, True, 0.5, floats(r, 4, 3), floats(r, 5, 3), floats(r, 4, 5), None, None], 5),
    (
        "BNNSDirectApplyBroadcastMatMul",
        lambda r: [False, False, 2.0, floats(r, 4, 3), floats(r, 3, 5), floats(r, 4, 5), None],
        5,
    ),
]  # fmt: skip


def given(arguments: list[Any], address: bool) -> list[Any]:
    return [described(a, address) if isinstance(a, np.ndarray) else a for a in arguments]


Described = Callable[..., Any]

SAMPLES, LENGTH = 3, 6

LEAKY = int(capi.BNNSActivationFunctionLeakyRectifiedLinear)


def batch(rng: np.random.Generator, stride: int = LENGTH, dtype: Any = np.float32) -> Any:
    """Memory of a batch of vectors."""
    return (4 * rng.normal(size=SAMPLES * stride)).astype(dtype)


def vector(of: Described, memory: Any, size: int = LENGTH) -> Any:
    """The first sample of a batch."""
    sample = of(memory[:size])
    if sample.data is not None and not isinstance(sample.data, int):
        sample.data = memory
    return sample


def activation(of: Described, x: Any, y: Any, function: int = LEAKY, **fields: Any) -> Any:
    chosen = capi.BNNSActivation(function=function, alpha=0.5, beta=0.25)
    return capi.BNNSLayerParametersActivation(
        i_desc=vector(of, x), o_desc=vector(of, y), activation=chosen, axis_flags=1, **fields
    )


def quantizer(of: Described, x: Any, y: Any, scale: Any, bias: Any, **fields: Any) -> Any:
    fields |= {name: of(array) for name, array in (("scale", scale), ("bias", bias)) if array is not None}
    return capi.BNNSLayerParametersQuantization(i_desc=vector(of, x), o_desc=vector(of, y), **fields)


def reduction(of: Described, x: Any, y: Any, w: Any, function: str) -> Any:
    fields = {} if w is None else {"w_desc": of(w)}
    kind = getattr(capi, f"BNNSReduceFunction{function}")
    return capi.BNNSLayerParametersReduction(i_desc=of(x), o_desc=of(y), reduce_func=kind, epsilon=0.125, **fields)


def address(of: Described, array: Any) -> Any:
    """The argument for a plain pointer."""
    return array.ctypes.data if isinstance(of(array).data, int) else array


WITH_MEMORY: list[tuple[str, str, Callable[..., list[Any]], Callable[..., list[Any]]]] = [
    ("BNNSDirectApplyActivationBatch", "batch", lambda r: [batch(r), batch(r)],
     lambda of, x, y: [activation(of, x, y), None, SAMPLES, LENGTH, LENGTH]),
    ("BNNSDirectApplyActivationBatch", "packed", lambda r: [batch(r), batch(r)],
     lambda of, x, y: [activation(of, x, y), None, SAMPLES, 0, 0]),
    ("BNNSDirectApplyActivationBatch", "gaps", lambda r: [batch(r, 8), batch(r, 9)],
     lambda of, x, y: [activation(of, x, y), None, SAMPLES, 8, 9]),
    ("BNNSDirectApplyActivationBatch", "in place", lambda r: [batch(r)],
     lambda of, x: [activation(of, x, x), None, SAMPLES, LENGTH, LENGTH]),
    ("BNNSDirectApplyActivationBatch", "softmax", lambda r: [batch(r), batch(r)],
     lambda of, x, y: [activation(of, x, y, int(capi.BNNSActivationFunctionSoftmax)), None, SAMPLES, LENGTH, LENGTH]),
    ("BNNSDirectApplyQuantizer", "quantize", lambda r: [batch(r), batch(r, dtype=np.int8), floats(r, 1), floats(r, 1)],
     lambda of, *arrays: [quantizer(of, *arrays, function=0), None, SAMPLES, LENGTH, LENGTH]),
    ("BNNSDirectApplyQuantizer", "by axis", lambda r: [batch(r), batch(r, 7, np.int8), floats(r, LENGTH)],
     lambda of, x, y, s: [quantizer(of, x, y, s, s, function=0, axis_mask=1), None, SAMPLES, LENGTH, 7]),
    ("BNNSDirectApplyQuantizer", "dequantize", lambda r: [batch(r, dtype=np.int8), batch(r), floats(r, 1)],
     lambda of, x, y, s: [quantizer(of, x, y, s, None, function=1), None, SAMPLES, LENGTH, LENGTH]),
    ("BNNSDirectApplyReduction", "Sum", lambda r: [floats(r, 3, 5), floats(r, 3, 1)],
     lambda of, x, y: [reduction(of, x, y, None, "Sum"), None]),
    ("BNNSDirectApplyReduction", "weighted", lambda r: [floats(r, 3, 5), floats(r, 3, 1), floats(r, 3, 5)],
     lambda of, x, y, w: [reduction(of, x, y, w, "SumSquare"), None]),
    ("BNNSDirectApplyReduction", "ArgMax", lambda r: [floats(r, 3, 5), np.zeros((3, 1), np.int64)],
     lambda of, x, y: [reduction(of, x, y, None, "ArgMax"), None]),
    ("BNNSDirectApplyTopK", "int32", lambda r: [batch(r), batch(r, 2), batch(r, 2, np.int32)],
     lambda of, x, v, i: [2, 0, SAMPLES, vector(of, x), LENGTH, vector(of, v, 2), 2, vector(of, i, 2), 0, None]),
    ("BNNSDirectApplyTopK", "int64", lambda r: [floats(r, 4, 6), floats(r, 2, 6), np.zeros((2, 6), np.int64)],
     lambda of, x, v, i: [2, 0, 1, of(x), 0, of(v), 0, of(i), 0, None]),
    ("BNNSDirectApplyTopK", "values alone", lambda r: [batch(r), batch(r, 2)],
     lambda of, x, v: [2, 0, SAMPLES, vector(of, x), LENGTH, vector(of, v, 2), 2, None, 0, None]),
    ("BNNSDirectApplyInTopK", "int32", lambda r: [batch(r), index(r, SAMPLES, LENGTH), np.zeros(SAMPLES, np.bool_)],
     lambda of, x, i, y: [2, 0, SAMPLES, vector(of, x), LENGTH, vector(of, i, 1), 1, vector(of, y, 1), 1, None]),
    ("BNNSComputeNormBackward", "rows", lambda r: [floats(r, 4, 6), floats(r, 4, 6), 2 + floats(r, 4), floats(r, 4)],
     lambda of, x, dx, y, dy: [address(of, x), of(dx), address(of, y), of(dy), int(capi.BNNSL2Norm), 2]),
    ("BNNSComputeNormBackward", "added", lambda r: [floats(r, 4, 6), floats(r, 4, 6), 2 + floats(r, 4), floats(r, 4)],
     lambda of, x, dx, y, dy: [address(of, x), of(dx, flags=1), address(of, y), of(dy), int(capi.BNNSL2Norm), 2]),
]  # fmt: skip


def held(array: Any, **fields: Any) -> Any:
    return described(array, **fields)


def optimizer_arrays(rng: np.random.Generator, roles: int) -> list[list[Any]]:
    sizes = [(3, 4), (5,), (1,), (2, 3, 2)]
    groups = [[floats(rng, *size) for size in sizes] for _ in range(2)]
    return [*groups, [np.abs(floats(rng, *size)) for _ in range(roles) for size in sizes]]


FIELDS: list[tuple[int, Any, int]] = [
    (1, capi.BNNSOptimizerSGDMomentumFields(learning_rate=0.1, momentum=0.9, gradient_scale=0.5, nesterov=True), 1),
    (1, capi.BNNSOptimizerSGDMomentumFields(learning_rate=0.1, gradient_scale=1), 0),
    (
        2,
        capi.BNNSOptimizerAdamFields(
            learning_rate=0.01, beta1=0.9, beta2=0.99, time_step=3, epsilon=1e-8, gradient_scale=1,
            clip_gradients=True, clip_gradients_min=-0.5, clip_gradients_max=0.75,
        ),
        2,
    ),
    (
        3,
        capi.BNNSOptimizerRMSPropFields(
            learning_rate=0.01, alpha=0.9, epsilon=1e-6, centered=True, momentum=0.5, gradient_scale=1,
            regularization_scale=0.1, regularization_func=capi.BNNSOptimizerRegularizationL2,
        ),
        3,
    ),
    (
        11,
        capi.BNNSOptimizerAdamWithClippingFields(
            learning_rate=0.01, beta1=0.9, beta2=0.99, time_step=1, epsilon=1e-8, gradient_scale=1,
            clipping_func=capi.BNNSOptimizerClippingByNorm, clip_gradients_max_norm=0.5,
        ),
        3,
    ),
]  # fmt: skip


def c_fields(fields: Any) -> bytes:
    """The struct as C lays it out: each field aligned for its type."""
    kinds = {bool: ("?", 1), float: ("f", 4)}
    packed = b""
    for name in fields._kinds:
        value = getattr(fields, name)
        letter, size = kinds.get(type(value), ("I", 4))
        packed += bytes(-len(packed) % size) + struct.pack(letter, value if letter != "I" else int(value))
    return packed + bytes(-len(packed) % 4)
