"""Fourier transforms of signals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph.sizes import is_same
from ....graph.tensor import Array, Tensor
from ...converted.tensors import ForeignTensor, Misfit
from .._call import Call
from .._numpy import compute, limited
from .._operator import OPERATORS, add, operator
from ..tensor import constant_of, plain_numbers

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


def _of_settings(call: Call, *given: ForeignTensor) -> Any:
    """A constant, made from numbers that must be known."""
    body = OPERATORS[call.op].compute
    return ForeignTensor(compute(body, call, [constant_of(x, "a setting") for x in given])[0])


def _mel_weights(call: Call, bands: Array, length: Array, rate: Array, low: Array, high: Array) -> Any:
    """Triangles over the bins of a Fourier transform, whose corners are evenly spaced in mel."""
    count, bins = int(bands.item()), int(length.item()) // 2 + 1
    limited((bins, count))
    ends = 2595 * np.log10(1 + np.array([low.item(), high.item()], np.float64) / 700)
    mels = ends[0] + np.arange(count + 2) * ((ends[1] - ends[0]) / (count + 2))
    corners = ((length.item() + 1) * (700 * (10 ** (mels / 2595) - 1)) / rate.item()).astype(np.int64)
    result = np.zeros((bins, count), np.float32)
    for band, (left, middle, right) in enumerate(zip(corners, corners[1:], corners[2:], strict=False)):
        if middle == left:
            result[middle, band] = 1
        else:
            result[left : middle + 1, band] = np.arange(middle - left + 1) / (middle - left)
        if right > middle:
            result[middle:right, band] = (right - np.arange(middle, right)) / (right - middle)
    return result


add(SIGNALS, "MelWeightMatrix", _of_settings, compute=_mel_weights, records_whole=True, ignores=("output_datatype",))

_WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0), "HammingWindow": (25 / 46, 21 / 46, 0.0), "BlackmanWindow": (0.42, 0.5, 0.08),
}  # fmt: skip


def _window(call: Call, size: Array) -> Any:
    """a - b cos(t) + c cos(2 t) for t around a circle."""
    (count,) = limited([int(size.item())])
    turn = 2 * np.pi * np.arange(count) / max(1, count if call.integer("periodic", 1) else count - 1)
    a, b, c = _WINDOWS[call.op]
    return (a - b * np.cos(turn) + c * np.cos(2 * turn)).astype(np.float32)


for _name in _WINDOWS:
    add(SIGNALS, _name, _of_settings, compute=_window, records_whole=True, ignores=("output_datatype",))
