"""Types of few bits that NumPy does not have: the numbers that their bits stand for, and how others are rounded to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...graph.tensor import Array


@dataclass(frozen=True)
class SmallFloat:
    """A type with a sign, an exponent and a fraction of so many bits.

    ``special`` says which codes are not finite: "none", "nan" (all bits of exponent and fraction set), "both" (the largest
    exponent, as in larger types) or "zero" (the code of minus zero, which is NaN).
    """

    exponent: int
    fraction: int
    bias: int
    special: str

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def numbers(self) -> Array:
        """The number that every code stands for."""
        codes = np.arange(2**self.bits)
        sign = np.where(codes >> (self.bits - 1), -1.0, 1.0)
        power = codes >> self.fraction & 2**self.exponent - 1
        part = codes & 2**self.fraction - 1
        size = np.ldexp(
            np.where(power > 0, 2**self.fraction, 0) + part, np.maximum(power, 1) - self.bias - self.fraction
        )
        numbers = sign * size
        if self.special == "zero":
            numbers[2 ** (self.bits - 1)] = np.nan
        elif self.special == "nan":
            numbers[codes & 2 ** (self.bits - 1) - 1 == 2 ** (self.bits - 1) - 1] = np.nan
        elif self.special == "both":
            last = power == 2**self.exponent - 1
            numbers[last] = np.where(part[last], np.nan, sign[last] * np.inf)
        return np.asarray(numbers, np.float32)

    def rounded(self, x: Array, saturate: bool = True) -> Array:
        """The nearest numbers of the type, those with an even fraction at ties; what is too large becomes the largest one, or
        what the type has for it."""
        largest = float(np.nanmax(np.where(np.isfinite(self.numbers), self.numbers, np.nan)))
        wide = np.asarray(x, np.float64)
        _, power = np.frexp(wide)
        step = np.ldexp(1.0, np.maximum(power - 1, 1 - self.bias) - self.fraction)
        with np.errstate(invalid="ignore"):
            near = np.where(np.isfinite(wide), np.rint(wide / step) * step, wide)
            if saturate or self.special == "none":
                near = np.clip(near, -largest, largest)
            else:
                over = np.abs(near) > largest
                near = np.where(over, np.copysign(np.inf if self.special == "both" else np.nan, near), near)
        return near.astype(np.float32)


SMALL_FLOATS = {
    17: SmallFloat(4, 3, 7, "nan"), 18: SmallFloat(4, 3, 8, "zero"), 19: SmallFloat(5, 2, 15, "both"),
    20: SmallFloat(5, 2, 16, "zero"), 23: SmallFloat(2, 1, 1, "none"),
}  # fmt: skip
"""By ONNX's numbers of types: FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ, FLOAT4E2M1."""

SMALL_INTEGERS = {21: (4, False), 22: (4, True), 25: (2, False), 26: (2, True)}
"""The bits of whole numbers, and True if they have a sign: UINT4, INT4, UINT2, INT2."""

POWERS_OF_TWO = 24
"""FLOAT8E8M0, which holds nothing but an exponent: a type of scales."""

SMALL_TYPES = {*SMALL_FLOATS, *SMALL_INTEGERS, POWERS_OF_TWO}


def bits_of(kind: int) -> int:
    """How many bits a number of a small type has."""
    if kind in SMALL_INTEGERS:
        return SMALL_INTEGERS[kind][0]
    return SMALL_FLOATS[kind].bits if kind in SMALL_FLOATS else 8


def limits_of(kind: int) -> tuple[int, int]:
    """The least and the largest whole number of a small type."""
    bits, signed = SMALL_INTEGERS[kind]
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


def unpacked(raw: Array, kind: int, count: int) -> Array:
    """The numbers that bytes hold, of which the lowest bits are the first number: whole ones in bytes, others in float32."""
    bits = bits_of(kind)
    codes = np.stack([raw >> shift & 2**bits - 1 for shift in range(0, 8, bits)], axis=-1).reshape(-1)[:count]
    if kind in SMALL_FLOATS:
        return np.asarray(SMALL_FLOATS[kind].numbers[codes])
    if kind == POWERS_OF_TWO:
        return np.asarray(
            np.where(codes == 255, np.float32(np.nan), np.ldexp(np.float32(1), codes.astype(np.int32) - 127))
        )
    half = np.uint8(2 ** (bits - 1))
    signed = SMALL_INTEGERS[kind][1]
    return np.asarray((codes ^ half).astype(np.int8) - np.int8(half)) if signed else codes
