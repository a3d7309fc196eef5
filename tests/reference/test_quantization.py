"""Quantization of the reference engine against its definition."""

import warnings

import numpy as np
import pytest

from differences import generator, normal
from openbnns.reference import quantization
from openbnns.reference.quantization import Quantizer

RANGES = {f"{name}{bits}": (name, bits) for name in ("int", "uint") for bits in (1, 2, 4, 8, 16, 32, 64)}


def bounds(name: str, bits: int) -> tuple[int, int]:
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if name == "int" else (0, (1 << bits) - 1)


@pytest.mark.parametrize(("name", "bits"), RANGES.values(), ids=RANGES)
def test_quantize_saturates_and_rounds_ties_to_even(name: str, bits: int) -> None:
    low, high = bounds(name, bits)
    values = [-np.inf, -1e30, -(2.0**63), -300.5, -2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5, 127.5, 254.5]
    values += [1e9 + 0.5, 2.0**62, 2.0**63, 2.0**63 + 4096.0, 2.0**64, 1e30, np.inf, float(low), float(high)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = quantization.quantize(Quantizer(), np.array([*values, np.nan]), low, high)
    for value, got in zip(values, y[:-1].tolist(), strict=True):
        exact = (low if value < 0 else high) if np.isinf(value) else round(value)  # Python rounds ties to even
        assert got == min(max(exact, low), high), value
    assert y[-1] == 0


def test_quantize_observed_values() -> None:
    q = Quantizer(np.array([0.5]), np.array([1.0]))
    np.testing.assert_array_equal(quantization.quantize(q, np.array([0.0, 2.0, 4.0, 6.0]), -128, 127), [1, 2, 3, 4])
    np.testing.assert_array_equal(quantization.dequantize(q, np.array([1, 2, 3, 4], np.int8)), [0, 2, 4, 6])


@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("given", ["both", "scale", "bias", "neither"])
def test_quantization_by_definition(axis: int | None, given: str) -> None:
    shape = (3, 2, 5, 4)
    count = 1 if axis is None else shape[axis]
    scale, bias = generator(110).uniform(2, 40, count), 5.0 * normal(111, count)
    q = Quantizer(scale if given in ("both", "scale") else None, bias if given in ("both", "bias") else None, axis)
    x = 3.0 * normal(112, *shape)
    y = quantization.quantize(q, x, -50, 60)
    back = quantization.dequantize(q, y)
    assert y.dtype == np.int64
    for k in np.ndindex(shape):
        index = 0 if axis is None else k[axis]
        s, b = (1.0 if q.scale is None else scale[index]), (0.0 if q.bias is None else bias[index])
        assert y[k] == min(max(round(s * x[k] + b), -50), 60)
        assert back[k] == (int(y[k]) - b) / s
        if -50 < y[k] < 60:
            assert abs(back[k] - x[k]) <= 0.5 / s + 1e-12


def test_quantization_borders() -> None:
    assert quantization.quantize(Quantizer(np.ones(3), None, 1), np.zeros((0, 3)), 0, 255).shape == (0, 3)
    assert quantization.dequantize(Quantizer(np.ones(0), None, 0), np.zeros((0, 3))).shape == (0, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = quantization.dequantize(Quantizer(np.array([0.0])), np.array([1, -1, 0]))
    np.testing.assert_array_equal(values, [np.inf, -np.inf, np.nan])
    largest = quantization.dequantize(Quantizer(), np.array([2**64 - 1], np.uint64))
    np.testing.assert_array_equal(largest, [2.0**64])
    with pytest.raises(ValueError, match=r"scale has 2 values; x of shape \(2, 3\) needs 3 values along axis 1"):
        quantization.quantize(Quantizer(np.ones(2), None, 1), np.zeros((2, 3)), 0, 255)
    with pytest.raises(ValueError, match=r"bias has 2 values; .* needs one value"):
        quantization.dequantize(Quantizer(None, np.ones(2)), np.zeros((2, 3)))
