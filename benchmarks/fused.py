"""Does a fused chain cost little more than its first layer alone, and less than the layers one by one?

Training: statistics of the batch, forward and backward with all gradients. PyTorch runs its layers in training mode.
There is no bias before a normalization, which would take it away again.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

import convolution
from cases import Arrays, Calls, Case, created, describe, training_parameters, vector
from harness import Figure, Settings, our_step
from openbnns import capi
from timing import alternate, sampler

EPSILON = 1e-5
IMAGE = (32, 64, 56, 56)


def figures() -> dict[str, Callable[[Settings], Figure]]:
    """Measurements by name."""
    return {"fused/conv 3x3 + batch norm + relu against our bare convolution": against_bare_convolution}


def against_bare_convolution(settings: Settings) -> Figure:
    """The whole chain in units of its first layer alone, both ours, alternating."""
    steps = []
    for case in (cases()[0], convolution.cases()[0]):  # the same images and kernels
        steps.append(our_step(case.calls(case.arrays())))
    (chain, bare), _ = alternate([sampler(step) for step in steps], settings.seconds)
    ratio = statistics.median(c / b for c, b in zip(chain, bare, strict=True))
    note = f"chain {statistics.median(chain) * 1e3:.1f} ms, convolution {statistics.median(bare) * 1e3:.1f} ms"
    return Figure(next(iter(figures())), ratio, "x", 1.25, at_most=True, note=note)


def cases() -> list[Case]:
    n, c, h, w = IMAGE
    pixels = n * c * h * w
    affine: dict[str, tuple[int, ...]] = {"beta": (c,), "gamma": (c,)}
    return [
        Case(
            name="fused/conv 3x3 + batch norm + relu 32x64x56x56",
            shapes={"x": IMAGE, "w": (64, c, 3, 3), **affine, "y": IMAGE},
            calls=partial(_convolution_calls, pad=1),
            peer=partial(_convolution_peer, pad=1),
            flops=6.0 * n * h * w * 64 * c * 9,
            target=1.5,
            layouts=("contiguous", "channels last"),
        ),
        Case(
            name="fused/conv 1x1 + batch norm + relu 16x256x14x14",
            shapes={
                "x": (16, 256, 14, 14), "w": (256, 256, 1, 1), "beta": (256,), "gamma": (256,),
                "y": (16, 256, 14, 14),
            },
            calls=partial(_convolution_calls, pad=0),
            peer=partial(_convolution_peer, pad=0),
            flops=6.0 * 16 * 14 * 14 * 256 * 256,
            layouts=("contiguous", "channels last"),
        ),
        Case(
            name="fused/add + batch norm + relu 32x64x56x56",
            shapes={"a": IMAGE, "b": IMAGE, **affine, "y": IMAGE},
            calls=_add_calls,
            peer=_add_peer,
            bytes=4.0 * pixels * 8,  # a, b -> y; dy, y, h -> da, db
            target=2.0,
            layouts=("contiguous", "channels last"),
            own_gradients=True,
        ),
        Case(
            name="fused/fully connected + batch norm 32x64->32",
            shapes={"x": (32, 64), "w": (32, 64), "beta": (32,), "gamma": (32,), "y": (32, 32)},
            calls=_fully_connected_calls,
            peer=_fully_connected_peer,
            flops=6.0 * 32 * 64 * 32,
            target=5.0,
        ),
    ]  # fmt: skip


def _norm(shape: tuple[int, ...], a: Arrays, relu: bool) -> capi.BNNSLayerParametersNormalization:
    d = _sample(shape)
    activation = capi.BNNSActivationFunctionRectifiedLinear if relu else capi.BNNSActivationFunctionIdentity
    return capi.BNNSLayerParametersNormalization(
        i_desc=d, o_desc=d, beta_desc=vector(len(a["beta"]), a["beta"]), gamma_desc=vector(len(a["gamma"]), a["gamma"]),
        epsilon=EPSILON, activation=capi.BNNSActivation(function=activation),
    )  # fmt: skip


def _sample(shape: tuple[int, ...], data: Any = None) -> capi.BNNSNDArrayDescriptor:
    if len(shape) == 2:
        return vector(shape[1], data)
    return describe(capi.BNNSDataLayoutImageCHW, shape[:0:-1], data)


def _created(kind: int, first: Any, norm: Any) -> Any:
    return created(capi.BNNSFilterCreateFusedLayer(2, [kind, capi.BNNSBatchNorm], [first, norm], training_parameters()))


def _leave_out_kinks(a: Arrays) -> None:
    """No gradient arrives where ReLU has its kink: there rounding decides, differently on either side."""
    a["dy"][np.abs(a["y"]) < 1e-4] = 0


def _weighted(a: Arrays, f: Any, w: Any) -> Calls:
    batch = len(a["x"])
    deltas = [w, None, *(vector(len(a[name]), a[f"d{name}"]) for name in ("beta", "gamma"))]
    forward = partial(capi.BNNSFusedFilterApplyBatch, f, batch, a["x"], 0, a["y"], 0, True)
    backward = partial(
        capi.BNNSFusedFilterApplyBackwardBatch, f, batch, a["x"], 0, _sample(a["x"].shape, a["dx"]), 0, a["y"], 0,
        _sample(a["y"].shape, a["dy"]), 0, deltas,
    )  # fmt: skip
    return Calls(f, forward, backward)


def _convolution_calls(a: Arrays, *, pad: int) -> Calls:
    kernel = a["w"].shape[::-1]
    first = capi.BNNSLayerParametersConvolution(
        i_desc=_sample(a["x"].shape), o_desc=_sample(a["y"].shape),
        w_desc=describe(capi.BNNSDataLayoutConvolutionWeightsOIHW, kernel, a["w"]), x_padding=pad, y_padding=pad,
    )  # fmt: skip
    f = _created(capi.BNNSConvolution, first, _norm(a["y"].shape, a, relu=True))
    plain = _created(capi.BNNSConvolution, first, _norm(a["y"].shape, a, relu=False))
    capi.BNNSFusedFilterApplyBatch(plain, len(a["x"]), a["x"], 0, a["y"], 0, True)
    _leave_out_kinks(a)
    return _weighted(a, f, describe(capi.BNNSDataLayoutConvolutionWeightsOIHW, kernel, a["dw"]))


def _fully_connected_calls(a: Arrays) -> Calls:
    size = a["w"].shape[::-1]
    first = capi.BNNSLayerParametersFullyConnected(
        i_desc=vector(size[0]), o_desc=vector(size[1]),
        w_desc=describe(capi.BNNSDataLayoutRowMajorMatrix, size, a["w"]),
    )  # fmt: skip
    f = _created(capi.BNNSFullyConnected, first, _norm(a["y"].shape, a, relu=False))
    return _weighted(a, f, describe(capi.BNNSDataLayoutRowMajorMatrix, size, a["dw"]))


def _add_calls(a: Arrays) -> Calls:
    d = _sample(a["a"].shape)
    sample = capi.BNNSSample
    block = capi.BNNSArithmeticBinary(in1=d, in1_type=sample, in2=d, in2_type=sample, out=d, out_type=sample)
    first = capi.BNNSLayerParametersArithmetic(
        arithmetic_function=capi.BNNSArithmeticAdd, arithmetic_function_fields=block
    )
    f = _created(capi.BNNSArithmetic, first, _norm(a["y"].shape, a, relu=True))
    batch, shape = len(a["a"]), a["a"].shape
    plain = _created(capi.BNNSArithmetic, first, _norm(shape, a, relu=False))
    capi.BNNSFusedFilterApplyMultiInputBatch(plain, batch, 2, [a["a"], a["b"]], [0, 0], a["y"], 0, True)
    _leave_out_kinks(a)
    forward = partial(capi.BNNSFusedFilterApplyMultiInputBatch, f, batch, 2, [a["a"], a["b"]], [0, 0], a["y"], 0, True)
    deltas = [_sample(shape, a["da"]), _sample(shape, a["db"])]
    affine = [vector(len(a[name]), a[f"d{name}"]) for name in ("beta", "gamma")]
    backward = partial(
        capi.BNNSFusedFilterApplyBackwardMultiInputBatch, f, batch, 2, None, None, deltas, [0, 0], a["y"], 0,
        _sample(shape, a["dy"]), 0, affine,
    )  # fmt: skip
    return Calls(f, forward, backward)


def _convolution_peer(torch: ModuleType, *, pad: int) -> Any:
    F = torch.nn.functional

    def step(x: Any, w: Any, beta: Any, gamma: Any) -> Any:
        h = F.conv2d(x, w, padding=pad)
        return F.relu(F.batch_norm(h, None, None, gamma, beta, True, 0.1, EPSILON))

    return step


def _fully_connected_peer(torch: ModuleType) -> Any:
    F = torch.nn.functional

    def step(x: Any, w: Any, beta: Any, gamma: Any) -> Any:
        return F.batch_norm(F.linear(x, w), None, None, gamma, beta, True, 0.1, EPSILON)

    return step


def _add_peer(torch: ModuleType) -> Any:
    F = torch.nn.functional

    def step(a: Any, b: Any, beta: Any, gamma: Any) -> Any:
        return F.relu(F.batch_norm(a + b, None, None, gamma, beta, True, 0.1, EPSILON))

    return step
