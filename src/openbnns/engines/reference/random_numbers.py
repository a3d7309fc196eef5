"""Random numbers from a counter: Philox 4x32 with ten rounds.

Word i of draw d under a seed is a pure function of (seed, d, i): the words 4b .. 4b + 3 are the block of the counter
(b, d), least significant word first, under the key seed. Every fill takes the words 0, 1, 2, ... of a draw of its own,
so fills do not depend on how the work is split, and a generator is nothing but its seed and the number of draws so far.

What is computed from the words uses only operations that IEEE arithmetic defines to the last bit (+ - * / sqrt and
scaling by powers of two; logarithm, sine, cosine and exponential are series of these, never fused), so a stream is the
same on every machine.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from .activation import Array

Words = npt.NDArray[np.uint64]
"""32-bit words, one in each element: products of two of them fit."""

STATE_SIZE: Final = 24
"""Bytes of a saved stream."""

_STATE: Final = struct.Struct("<8sQQ")
_STATE_MARK: Final = b"philox01"
_LOW_32: Final = np.uint64(0xFFFFFFFF)
_32: Final = np.uint64(32)


@dataclass(frozen=True)
class Stream:
    """Draw number `draw` under a 64-bit seed."""

    seed: int
    draw: int = 0

    def next(self) -> Stream:
        """The stream of the following draw."""
        return Stream(self.seed, (self.draw + 1) % 2**64)

    def to_bytes(self) -> bytes:
        """STATE_SIZE bytes that restore this stream on any machine."""
        return _STATE.pack(_STATE_MARK, self.seed % 2**64, self.draw)

    @staticmethod
    def from_bytes(state: bytes) -> Stream:
        """The stream saved in the first STATE_SIZE bytes."""
        if len(state) < STATE_SIZE:
            raise ValueError(f"random_numbers: a state has {STATE_SIZE} bytes; got {len(state)}.")
        mark, seed, draw = _STATE.unpack(state[:STATE_SIZE])
        if mark != _STATE_MARK:
            raise ValueError("random_numbers: these bytes are not the saved state of a generator.")
        return Stream(seed, draw)


# ---------------------------------------------------------------------------------------------------------------------
# Fills


def uniform(stream: Stream, count: int, first: int = 0) -> Array:
    """Numbers first .. first + count - 1 in (0, 1): the middles of 2^23 equal cells, ((word >> 9) + 1/2) / 2^23."""
    cell: Array = (words(stream, count, first) >> np.uint64(9)).astype(np.float64)
    return (cell + 0.5) * 2.0**-23


def uniform_float(stream: Stream, shape: tuple[int, ...], low: float, high: float) -> Array:
    """low + (high - low) u for u of `uniform`: between low and high."""
    u = uniform(stream, math.prod(shape)).reshape(shape)
    return np.clip(low + (high - low) * u, low, high)


def uniform_integer(stream: Stream, shape: tuple[int, ...], low: int, high: int) -> npt.NDArray[np.int64]:
    """low + floor(r (high - low + 1) / 2^64): integers from low to high, both included.

    Number i has r = words 2i (its lower half) and 2i + 1. A value's probability is off by at most 2^-64.
    """
    span = high - low + 1
    if not 1 <= span <= 2**64:
        raise ValueError(f"random_numbers.uniform_integer: the range {low} to {high} is empty or too large.")
    pairs = words(stream, 2 * math.prod(shape)).reshape(-1, 2)
    lower, upper = pairs[:, 0], pairs[:, 1]
    if span == 2**64:
        offset = lower + (upper << _32)
    else:
        offset = _high_product(lower, upper, np.uint64(span & 0xFFFFFFFF), np.uint64(span >> 32))
    values: npt.NDArray[np.int64] = (offset + np.uint64(low % 2**64)).astype(np.int64)
    return values.reshape(shape)


def normal(stream: Stream, shape: tuple[int, ...], mean: float, standard_deviation: float) -> Array:
    """mean + standard_deviation z, z from pairs of uniform numbers (Box and Muller).

    z_{2j} = r cos(2 pi u_{2j+1}),  z_{2j+1} = r sin(2 pi u_{2j+1}),  r = sqrt(-2 log u_{2j}),  u = (word + 1/2) / 2^32
    """
    count = math.prod(shape)
    u = ((words(stream, count + count % 2).astype(np.float64) + 0.5) * 2.0**-32).reshape(-1, 2)
    radius = np.sqrt(-2.0 * _log(u[:, 0]))
    cosine, sine = _cosine_and_sine(u[:, 1])
    z = np.stack([radius * cosine, radius * sine], axis=1).reshape(-1)[:count]
    return mean + standard_deviation * z.reshape(shape)


@np.errstate(all="ignore")
def categorical(stream: Stream, shape: tuple[int, ...], probabilities: Array, log_probabilities: bool = False) -> Array:
    """Category numbers 0 .. K-1 as floats: the k with P_{k-1} <= u P_{K-1} < P_k, P_k = p_0 + ... + p_k.

    probabilities (..., K) hold one distribution for each place of the leading axes, or its logarithms; they need not
    add up to 1. `shape` begins with these leading axes; further axes are draws from the same distribution. u is
    (word + 1/2) / 2^32, one word for each number; the sums are taken in order.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    lead = p.shape[:-1]
    if shape[: len(lead)] != lead:
        raise ValueError(f"random_numbers.categorical: shape {shape} does not begin with {lead}, that of {p.shape}.")
    if log_probabilities:
        p = _exp(p - np.max(p, axis=-1, keepdims=True))
    limits = np.cumsum(p, axis=-1)
    if not np.all((p >= 0.0) & (limits[..., -1:] > 0.0) & (limits[..., -1:] < np.inf)):
        raise ValueError("random_numbers.categorical: probabilities must be finite, not negative and not all 0.")
    count = math.prod(shape)
    u = ((words(stream, count).astype(np.float64) + 0.5) * 2.0**-32).reshape(*lead, math.prod(shape[len(lead) :]))
    passed = limits[..., np.newaxis, :] <= (u * limits[..., -1:])[..., np.newaxis]
    return np.sum(passed, axis=-1, dtype=np.float64).reshape(shape)


# ---------------------------------------------------------------------------------------------------------------------
# Words


def words(stream: Stream, count: int, first: int = 0) -> Words:
    """Words first .. first + count - 1 of a draw."""
    skip = first % 4
    block = np.arange((skip + count + 3) // 4, dtype=np.uint64) + np.uint64(first // 4)
    draw, seed = stream.draw % 2**64, stream.seed % 2**64
    counter = (
        block & _LOW_32,
        block >> _32,
        np.full_like(block, draw & 0xFFFFFFFF),
        np.full_like(block, draw >> 32),
    )
    return np.stack(philox(counter, (seed & 0xFFFFFFFF, seed >> 32)), axis=1).reshape(-1)[skip : skip + count]


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[int, int]) -> tuple[Words, Words, Words, Words]:
    """Ten rounds of Philox 4x32 on many counters at once."""
    c0, c1, c2, c3 = counter
    for step in range(10):
        key0, key1 = ((key[0] + step * 0x9E3779B9) % 2**32, (key[1] + step * 0xBB67AE85) % 2**32)
        product0, product1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1 = (product1 >> _32) ^ c1 ^ np.uint64(key0), product1 & _LOW_32
        c2, c3 = (product0 >> _32) ^ c3 ^ np.uint64(key1), product0 & _LOW_32
    return c0, c1, c2, c3


def _high_product(lower: Words, upper: Words, other_lower: np.uint64, other_upper: np.uint64) -> Words:
    """The upper 64 bits of the product of two 64-bit numbers, given by their halves."""
    across, down = lower * other_upper, upper * other_lower
    middle = ((lower * other_lower) >> _32) + (across & _LOW_32) + (down & _LOW_32)
    product: Words = upper * other_upper + (across >> _32) + (down >> _32) + (middle >> _32)
    return product


# ---------------------------------------------------------------------------------------------------------------------
# Functions as series, the same to the last bit everywhere


def _series(coefficients: list[float], z: Array) -> Array:
    """c_0 + c_1 z + c_2 z^2 + ... by Horner's rule."""
    total = np.full_like(z, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * z + coefficient
    return total


_ATANH: Final = [1.0 / (2 * k + 1) for k in range(12)]
_SINE: Final = [(-1.0) ** k / math.factorial(2 * k + 1) for k in range(9)]
_COSINE: Final = [(-1.0) ** k / math.factorial(2 * k) for k in range(10)]
_EXPONENTIAL: Final = [1.0 / math.factorial(k) for k in range(15)]
_LN2: Final = 0.6931471805599453
_TWO_PI: Final = 6.283185307179586


def _log(x: Array) -> Array:
    """log x of positive x = m 2^e, with m around 1: e log 2 + 2 atanh((m-1) / (m+1))."""
    m, e = np.frexp(x)
    below = m < math.sqrt(0.5)
    m, e = np.where(below, 2.0 * m, m), np.where(below, e - 1, e)
    s = (m - 1.0) / (m + 1.0)
    return e * _LN2 + 2.0 * s * _series(_ATANH, s * s)


def _cosine_and_sine(turns: Array) -> tuple[Array, Array]:
    """cos and sin of 2 pi turns for turns in (0, 1), from the nearest quarter turn."""
    quarter = np.floor(4.0 * turns + 0.5)
    angle = _TWO_PI * (turns - quarter / 4.0)
    sine, cosine = angle * _series(_SINE, angle * angle), _series(_COSINE, angle * angle)
    place = quarter.astype(np.int64) % 4
    return (
        np.choose(place, [cosine, -sine, -cosine, sine]),
        np.choose(place, [sine, cosine, -sine, -cosine]),
    )


def _exp(x: Array) -> Array:
    """exp x = 2^n exp(x - n log 2) for x <= 0, 0 below -700; NaN stays."""
    limited = np.maximum(x, -700.0)
    n = np.rint(limited / _LN2)
    value = _series(_EXPONENTIAL, limited - n * _LN2)
    finite_n = np.where(np.isnan(n), 0.0, n).astype(np.int32)
    return np.where(x < -700.0, 0.0, np.ldexp(value, finite_n))
