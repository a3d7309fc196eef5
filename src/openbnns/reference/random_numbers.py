"""Random numbers from counters.

The random generator is that of BNNS as far as it is known: words 4b .. 4b + 3 are the four little-endian words of the
counter b, a big-endian number of 128 bits, encrypted with AES-128 under the key of the seed's eight little-endian bytes,
twice. A fill takes the next words of this stream, so a generator is nothing but its seed and the number of words used so
far. Uniform floats are those of BNNS to the bit, as far as published captures go; see tests/filters/test_random_numbers.py.

What filters draw for themselves (dropout, Gumbel) comes from Philox 4x32 with ten rounds: word i of draw d under a seed
is a pure function of (seed, d, i). The words 4b .. 4b + 3 are the block of the counter (b, d), least significant word
first, under the key seed. In both cases nothing depends on how the work is split.

What is computed from the words uses only operations that IEEE arithmetic defines to the last bit (+ - * / sqrt and
scaling by powers of two; logarithm, sine, cosine and exponential are series of these, never fused), so a stream is the
same on every machine.
"""

from __future__ import annotations

import math
import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from ..parameters.random_numbers import Keystream, Stream
from .activation import Array

Words = npt.NDArray[np.uint64]
"""32-bit words, one in each element: products of two of them fit."""


_LOW_32: Final = np.uint64(0xFFFFFFFF)
_32: Final = np.uint64(32)


# ---------------------------------------------------------------------------------------------------------------------
# Fills


def uniform(stream: Stream, count: int, first: int = 0) -> Array:
    """Numbers first .. first + count - 1 in (0, 1): the middles of 2^23 equal cells, ((word >> 9) + 1/2) / 2^23."""
    cell: Array = (words(stream, count, first) >> np.uint64(9)).astype(np.float64)
    return (cell + 0.5) * 2.0**-23


def uniform_float(stream: Keystream, shape: tuple[int, ...], low: float, high: float) -> Array:
    """low + (high - low) u in float32, product and sum rounded once; u = word / 2^32 in float32, from 0 to 1."""
    u = _units(stream, math.prod(shape)).reshape(shape)
    with np.errstate(over="ignore"):
        span = float(np.float32(np.float32(high) - np.float32(low)))
    numbers = _fused(u, span, low) if math.isfinite(span) else low + (high - low) * u
    return np.clip(numbers, low, high)


def _units(stream: Keystream, count: int) -> Array:
    """word / 2^32 as a float32 has it: 0 to 1."""
    words = keystream_words(stream, count).astype(np.uint32).astype(np.float32)
    return words.astype(np.float64) * 2.0**-32


def _fused(u: Array, factor: float, addend: float) -> Array:
    """u * factor + addend of float32 numbers, rounded to float32 once.

    The product is exact in double; the sum is rounded to odd there, so that the second rounding is always correct.
    """
    product = u * factor
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)
    bits = total.view(np.int64)
    step = np.where((error != 0.0) & (bits & 1 == 0), np.where((error > 0.0) == (total > 0.0), 1, -1), 0)
    rounded: Array = (bits + step).view(np.float64).astype(np.float32).astype(np.float64)
    return rounded


def uniform_integer(stream: Keystream, shape: tuple[int, ...], low: int, high: int) -> npt.NDArray[np.int64]:
    """low + floor(r (high - low) / 2^64): integers from low up to high, which is excluded.

    Number i has r = words 2i (its lower half) and 2i + 1. A value's probability is off by at most 2^-64.
    """
    span = high - low
    if not 1 <= span <= 2**64:
        raise ValueError(f"random_numbers.uniform_integer: the range {low} to {high} is empty or too large.")
    pairs = keystream_words(stream, 2 * math.prod(shape)).reshape(-1, 2)
    lower, upper = pairs[:, 0], pairs[:, 1]
    if span == 2**64:
        offset = lower + (upper << _32)
    else:
        offset = _high_product(lower, upper, np.uint64(span & 0xFFFFFFFF), np.uint64(span >> 32))
    values: npt.NDArray[np.int64] = (offset + np.uint64(low % 2**64)).astype(np.int64)
    return values.reshape(shape)


def normal(stream: Keystream, shape: tuple[int, ...], mean: float, standard_deviation: float) -> Array:
    """mean + standard_deviation z, z from pairs of uniform numbers (Box and Muller).

    z_{2j} = r cos(2 pi u_{2j+1}),  z_{2j+1} = r sin(2 pi u_{2j+1}),  r = sqrt(-2 log u_{2j}),
    u = word / 2^32 in float32, or 2^-33 where that is 0
    """
    count = math.prod(shape)
    u = np.maximum(_units(stream, count + count % 2), 2.0**-33).reshape(-1, 2)
    radius = np.sqrt(-2.0 * _log(u[:, 0]))
    cosine, sine = _cosine_and_sine(u[:, 1])
    z = np.stack([radius * cosine, radius * sine], axis=1).reshape(-1)[:count]
    return mean + standard_deviation * z.reshape(shape)


@np.errstate(all="ignore")
def categorical(
    stream: Keystream, shape: tuple[int, ...], probabilities: Array, log_probabilities: bool = False
) -> Array:
    """Category numbers 0 .. K-1 as floats: the k with P_{k-1} <= u P_{K-1} < P_k, P_k = p_0 + ... + p_k.

    probabilities (..., K) hold one distribution for each place of the leading axes, or its logarithms; they need not
    add up to 1. `shape` begins with these leading axes; further axes are draws from the same distribution. u is
    word / 2^32 in float32, below 1, one word for each number; the sums are taken in order.
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
    u = np.minimum(_units(stream, count), 1.0 - 2.0**-33).reshape(*lead, math.prod(shape[len(lead) :]))
    passed = limits[..., np.newaxis, :] <= (u * limits[..., -1:])[..., np.newaxis]
    return np.sum(passed, axis=-1, dtype=np.float64).reshape(shape)


# ---------------------------------------------------------------------------------------------------------------------
# Words


def keystream_words(stream: Keystream, count: int) -> Words:
    """The next `count` words of a generator."""
    skip = stream.position % 4
    block = np.arange((skip + count + 3) // 4, dtype=np.uint64) + np.uint64(stream.position // 4)
    counters = np.zeros((block.size, 16), np.uint8)
    counters[:, 8:] = block.astype(">u8").view(np.uint8).reshape(-1, 8)
    key = struct.pack("<Q", stream.seed % 2**64) * 2
    return aes128(key, counters).view("<u4").reshape(-1)[skip : skip + count].astype(np.uint64)


def aes128(key: bytes, blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Blocks (n, 16) encrypted with AES-128 (FIPS 197). Byte 4c + r of a block is row r, column c of its state."""
    keys = _round_keys(key)
    state = blocks ^ keys[0]
    for number in range(1, 11):
        state = _SUBSTITUTES[state][:, _SHIFTED]
        if number < 10:
            column = state.reshape(-1, 4, 4)
            every = np.bitwise_xor.reduce(column, axis=2, keepdims=True)
            # 2 a_r + 3 a_{r+1} + a_{r+2} + a_{r+3} = a_r + (sum of all) + 2 (a_r + a_{r+1})
            state = (column ^ every ^ _DOUBLES[column ^ np.roll(column, -1, axis=2)]).reshape(-1, 16)
        state = state ^ keys[number]
    return np.ascontiguousarray(state)


def _doubled(a: int) -> int:
    """2 a in the field of 2^8 elements."""
    return (a << 1) ^ (0x11B if a & 0x80 else 0)


def _substitutes() -> list[int]:
    """The S-box: the inverse in the field, then a map that is linear over its bits."""
    table, a, inverse = [0x63] * 256, 1, 1
    for _ in range(255):  # a goes through all powers of 3, and inverse through those of 1/3
        a ^= _doubled(a)
        for shift in (1, 2, 4):
            inverse ^= inverse << shift & 0xFF
        inverse ^= 0x09 if inverse & 0x80 else 0
        turned = [(inverse << shift | inverse >> (8 - shift)) & 0xFF for shift in range(5)]
        table[a] = turned[0] ^ turned[1] ^ turned[2] ^ turned[3] ^ turned[4] ^ 0x63
    return table


_SUBSTITUTES: Final = np.array(_substitutes(), np.uint8)
_DOUBLES: Final = np.array([_doubled(a) for a in range(256)], np.uint8)
_SHIFTED: Final = [(5 * i) % 16 for i in range(16)]
"""Row r of the state moves r columns to the left."""


def _round_keys(key: bytes) -> npt.NDArray[np.uint8]:
    """The eleven round keys (11, 16)."""
    columns, constant = [list(key[4 * i : 4 * i + 4]) for i in range(4)], 1
    for i in range(4, 44):
        column = columns[i - 1]
        if i % 4 == 0:
            column = [int(_SUBSTITUTES[b]) for b in (*column[1:], column[0])]
            column[0] ^= constant
            constant = _doubled(constant)
        columns.append([a ^ b for a, b in zip(columns[i - 4], column, strict=True)])
    return np.array(columns, np.uint8).reshape(11, 16)


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
