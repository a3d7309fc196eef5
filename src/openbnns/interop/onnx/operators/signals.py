"""Fourier transforms of signals."""

from __future__ import annotations

from ....graph.sizes import is_same
from ....graph.tensor import Tensor
from ....nn import functional as F
from ...converted.tensors import ForeignTensor, Misfit
from .. import _numpy
from .._call import Call
from ..tensor import constant_of, plain_numbers
from ._registry import operator

SIGNALS = "signals"


@operator(SIGNALS, "DFT")
def transform(
    call: Call, x: ForeignTensor, length: ForeignTensor | None = None, axis: ForeignTensor | None = None
) -> ForeignTensor:
    """Transform real numbers (..., 1) or complex ones (..., 2) along an axis."""
    given = call.integer("axis", 1) if call.opset < 20 else -2
    place = x.axis(given if axis is None else int(constant_of(axis, "axis").item()))
    count = None if length is None else (plain_numbers(length, "dft_length") or [0])[0]
    inverse, half = bool(call.integer("inverse", 0)), bool(call.integer("onesided", 0))
    if place == x.rank - 1 or not (is_same(x.shape[-1], 1) or is_same(x.shape[-1], 2)):
        raise Misfit(f"{x.shape} must end in real numbers, or in real and imaginary parts, behind the axis {place}")
    value = x.numbers
    if half and inverse:
        return ForeignTensor(F.unsqueeze(F.irfft(_complex(value), count, place), -1))
    if half and is_same(x.shape[-1], 1):
        return ForeignTensor(F.rfft(value.reshape(x.shape[:-1]), count, place))
    whole = (F.ifft if inverse else F.fft)(_complex(value), count, place)
    return ForeignTensor(F.narrow(whole, place, 0, whole.shape[place] // 2 + 1) if half else whole)


def _complex(value: Tensor) -> Tensor:
    """Real numbers with imaginary parts, which are 0."""
    if is_same(value.shape[-1], 2):
        return value
    paired: Tensor = F.cat([value, F.mul(value, 0.0)], -1)
    return paired


@operator(SIGNALS, "STFT")
def short_transform(
    call: Call,
    x: ForeignTensor,
    step: ForeignTensor,
    window: ForeignTensor | None = None,
    length: ForeignTensor | None = None,
) -> ForeignTensor:
    """Transform frames of a signal (N, T, 1) or (N, T, 2), one behind the other."""
    stride = (plain_numbers(step, "frame_step") or [0])[0]
    size = int(window.shape[0]) if window is not None else 0
    size = size if length is None else (plain_numbers(length, "frame_length") or [0])[0]
    half = bool(call.integer("onesided", 1))
    if x.rank not in (2, 3) or stride < 1 or size < 1 or (window is not None and window.shape != (size,)):
        raise Misfit(f"frames of {size}, {stride} apart, have no counterpart for {x.shape}")
    value = x.numbers if x.rank == 3 else F.unsqueeze(x.numbers, -1)
    frames = value.unfold(1, size, stride)  # (N, frames, 1 or 2, size)
    frames = frames if window is None else F.mul(frames, window.numbers)
    if half and is_same(value.shape[-1], 1):
        return ForeignTensor(F.rfft(F.squeeze(frames, 2), None, 2))
    whole = F.fft(_complex(F.transpose(frames, 2, 3)), None, 2)
    return ForeignTensor(F.narrow(whole, 2, 0, size // 2 + 1) if half else whole)


@operator(SIGNALS, "MelWeightMatrix")
def mel_matrix(
    call: Call,
    bands: ForeignTensor,
    length: ForeignTensor,
    rate: ForeignTensor,
    low: ForeignTensor,
    high: ForeignTensor,
) -> ForeignTensor:
    call.ignored("output_datatype")
    return ForeignTensor(
        _numpy.compute(call, [constant_of(x, "a setting") for x in (bands, length, rate, low, high)])[0]
    )


@operator(SIGNALS, "HannWindow", "HammingWindow", "BlackmanWindow")
def window_of(call: Call, size: ForeignTensor) -> ForeignTensor:
    call.ignored("output_datatype")
    return ForeignTensor(_numpy.compute(call, [constant_of(size, "size")])[0])
