"""Random numbers of the reference engine against published vectors, definitions and distributions."""

import math
import statistics
import warnings
from fractions import Fraction

import numpy as np
import pytest

from openbnns.parameters.random_numbers import STATE_SIZE, Keystream, Stream
from openbnns.reference import random_numbers

STREAM = Stream(0x299F31D0A4093822, 0x0370734413198A2E)
KEYS = Keystream(0x299F31D0A4093822, 0x0370734413198A2E)


def philox_by_definition(counter: list[int], key: list[int]) -> list[int]:
    """Ten rounds in plain integers."""
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (second >> 32) ^ counter[1] ^ key[0],
            second & 0xFFFFFFFF,
            (first >> 32) ^ counter[3] ^ key[1],
            first & 0xFFFFFFFF,
        ]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return counter


def test_philox_published_vectors() -> None:
    ones = 0xFFFFFFFF
    for counter, key, expected in [
        ([0] * 4, [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([ones] * 4, [ones, ones], [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ]:
        assert philox_by_definition(counter, key) == expected
        c0, c1, c2, c3 = (np.array([word], np.uint64) for word in counter)
        assert [int(word[0]) for word in random_numbers.philox((c0, c1, c2, c3), (key[0], key[1]))] == expected


def test_words_of_a_stream() -> None:
    words = random_numbers.words(STREAM, 22, first=4 << 40)
    for block in range(5):
        counter = [block, 1 << 8, 0x13198A2E, 0x03707344]
        assert words[4 * block : 4 * block + 4].tolist() == philox_by_definition(counter, [0xA4093822, 0x299F31D0])
    everything = random_numbers.words(STREAM, 300)
    for first in range(9):
        np.testing.assert_array_equal(random_numbers.words(STREAM, 200, first), everything[first : first + 200])
    assert random_numbers.words(STREAM, 0).shape == (0,)


@pytest.mark.parametrize(
    ("key", "plain", "cipher"),
    [  # FIPS 197, appendices B and C.1
        ("2b7e151628aed2a6abf7158809cf4f3c", "3243f6a8885a308d313198a2e0370734", "3925841d02dc09fbdc118597196a0b32"),
        ("000102030405060708090a0b0c0d0e0f", "00112233445566778899aabbccddeeff", "69c4e0d86a7b0430d8cdb78070b4c55a"),
    ],
)
def test_aes_published_vectors(key: str, plain: str, cipher: str) -> None:
    blocks = np.frombuffer(bytes.fromhex(plain) * 3, np.uint8).reshape(3, 16)
    assert random_numbers.aes128(bytes.fromhex(key), blocks).tobytes().hex() == cipher * 3


def test_words_of_a_generator() -> None:
    key = bytes.fromhex("223809a4d0319f29") * 2
    counters = [KEYS.position // 4 + block for block in range(6)]
    blocks = np.frombuffer(b"".join(n.to_bytes(16, "big") for n in counters), np.uint8).reshape(-1, 16)
    expected = np.frombuffer(random_numbers.aes128(key, blocks).tobytes(), "<u4")[KEYS.position % 4 :]
    assert random_numbers.keystream_words(KEYS, 20).tolist() == expected[:20].tolist()
    everything = random_numbers.keystream_words(Keystream(3), 300)
    for first in range(9):
        part = random_numbers.keystream_words(Keystream(3).after(first), 200)
        np.testing.assert_array_equal(part, everything[first : first + 200])
    assert random_numbers.keystream_words(KEYS, 0).shape == (0,)


def test_generators_differ_and_can_be_saved() -> None:
    assert Keystream(2**64 - 1, 2**64 - 1).after(3) == Keystream(2**64 - 1, 2)
    state = KEYS.after(1).to_bytes()
    assert len(state) == STATE_SIZE
    assert state.hex() == "6165732d63747231" + "223809a4d0319f29" + "2f8a191344737003"
    assert Keystream.from_bytes(state + b"more") == KEYS.after(1)
    assert not np.array_equal(
        random_numbers.keystream_words(Keystream(1), 8), random_numbers.keystream_words(Keystream(2), 8)
    )
    with pytest.raises(ValueError, match="a state has 24 bytes; got 23"):
        Keystream.from_bytes(state[:23])
    with pytest.raises(ValueError, match="not the saved state"):
        Keystream.from_bytes(bytes(24))


def test_uniform_numbers_of_filters() -> None:
    u = random_numbers.uniform(STREAM, 40000)
    np.testing.assert_array_equal(u, u.astype(np.float32))
    np.testing.assert_array_equal(u, [((int(word) >> 9) + 0.5) / 2**23 for word in random_numbers.words(STREAM, 40000)])


def test_uniform_floats() -> None:
    words = random_numbers.keystream_words(KEYS, 40000).tolist()
    x = random_numbers.uniform_float(KEYS, (200, 200), -2.0, 6.5)
    exact = [Fraction(float(np.float32(word))) / 2**32 * Fraction(8.5) - 2 for word in words[:2000]]
    assert x.ravel()[:2000].tolist() == [_nearest_single(value) for value in exact]
    assert x.mean() == pytest.approx(2.25, abs=0.05)
    assert x.var() == pytest.approx(8.5**2 / 12, rel=0.02)
    largest = float(np.finfo(np.float32).max)
    wide = random_numbers.uniform_float(KEYS, (99,), -largest, largest)
    assert np.all(np.isfinite(wide.astype(np.float32)))
    assert np.all(random_numbers.uniform_float(KEYS, (99,), 0.5, 0.5) == 0.5)


def _nearest_single(exact: Fraction) -> float:
    """A fraction rounded to float32, ties to even."""
    near = np.float32(float(exact))
    candidates = [near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))]
    return min((abs(Fraction(float(c)) - exact), int(c.view(np.uint32)) & 1, float(c)) for c in candidates)[2]


def test_fused_multiply_add() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        factor, addend = (float(np.float32(rng.standard_normal() * 10.0 ** rng.integers(-6, 6))) for _ in range(2))
        u = rng.random(5).astype(np.float32).astype(np.float64)
        exact = [Fraction(float(v)) * Fraction(factor) + Fraction(addend) for v in u]
        assert random_numbers._fused(u, factor, addend).tolist() == [_nearest_single(value) for value in exact]


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 2), (-3, 4), (5, 6), (-(2**63), 2**63), (-(2**63), 2**63 - 1), (0, 2**63), (-(2**40), 2**41 + 17)],
)
def test_uniform_integers(low: int, high: int) -> None:
    values = random_numbers.uniform_integer(KEYS, (50, 8), low, high)
    words = [int(word) for word in random_numbers.keystream_words(KEYS, 800)]
    expected = [low + ((a + (b << 32)) * (high - low) >> 64) for a, b in zip(words[::2], words[1::2], strict=True)]
    assert values.dtype == np.int64
    assert values.ravel().tolist() == expected
    assert low <= min(expected)
    assert max(expected) < high


def test_uniform_integers_reach_every_value() -> None:
    values = random_numbers.uniform_integer(KEYS, (70000,), -3, 4)
    counts = np.bincount(values + 3)
    assert len(counts) == 7
    np.testing.assert_allclose(counts, 10000, rtol=0.05)
    with pytest.raises(ValueError, match="the range 3 to 3 is empty"):
        random_numbers.uniform_integer(KEYS, (1,), 3, 3)


def test_normal_numbers() -> None:
    z = random_numbers.normal(KEYS, (301, 133), 0.0, 1.0)
    u = np.float32(random_numbers.keystream_words(KEYS, z.size + 1)).astype(np.float64) / 2.0**32
    radius, angle = np.sqrt(-2 * np.log(u[::2])), 2 * np.pi * u[1::2]
    expected = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()[: z.size]
    np.testing.assert_allclose(z.ravel(), expected, rtol=1e-11, atol=1e-14)
    assert z.mean() == pytest.approx(0.0, abs=0.02)
    assert z.std() == pytest.approx(1.0, abs=0.02)
    exact = statistics.NormalDist()
    for limit in (-2.0, -1.0, 0.0, 0.5, 1.5, 2.5):
        assert np.mean(z < limit) == pytest.approx(exact.cdf(limit), abs=0.01)
    np.testing.assert_array_equal(random_numbers.normal(KEYS, (7,), 3.0, 0.5), 3.0 + 0.5 * z.ravel()[:7])
    assert random_numbers.normal(KEYS, (0, 3), 0.0, 1.0).shape == (0, 3)


def test_functions_by_series() -> None:
    """As accurate as a few units in the last place, and fixed to the bit: these numbers must never change."""
    u = np.concatenate([(np.arange(0, 2**32, 65537 * 7) + 0.5) / 2.0**32, [2.0**-33, 0.5, 1 - 2.0**-33, 0.125]])
    np.testing.assert_allclose(random_numbers._log(u), np.log(u), rtol=4e-15)
    cosine, sine = random_numbers._cosine_and_sine(u)
    np.testing.assert_allclose(cosine**2 + sine**2, 1.0, rtol=1e-14)
    np.testing.assert_allclose(cosine, np.cos(2 * np.pi * u), atol=2e-15)
    np.testing.assert_allclose(sine, np.sin(2 * np.pi * u), atol=2e-15)
    x = np.linspace(-690, 0, 1001)
    np.testing.assert_allclose(random_numbers._exp(x), np.exp(x), rtol=2e-13)
    np.testing.assert_array_equal(random_numbers._exp(np.array([-701.0, -np.inf, 0.0])), [0, 0, 1])


UNIFORM_BITS = ["0x1.b3c8b80000000p-2", "0x1.6d00000000000p-12", "-0x1.9e73380000000p-3", "-0x1.d0b33c0000000p-2"]
NORMAL_BITS = ["-0x1.a551f7767fc51p-1", "-0x1.d7cc0b2e053d0p-11", "-0x1.918eace465c27p-3", "0x1.577762e8d41efp+0"]
INTEGERS = [348049548, -453808728420, 931185419533, -758822298785]
CATEGORIES = [3, 2, 2, 1, 3, 3, 3, 1, 3, 3, 3, 2]


def test_streams_are_the_same_on_every_machine() -> None:
    stream = Keystream(2024, 7)
    uniform = random_numbers.uniform_float(stream, (4,), -1.0, 1.0)
    assert [float(value).hex() for value in uniform] == UNIFORM_BITS
    assert [float(value).hex() for value in random_numbers.normal(stream, (4,), 0.0, 1.0)] == NORMAL_BITS
    assert random_numbers.uniform_integer(stream, (4,), -(10**12), 10**12 + 1).tolist() == INTEGERS
    logs = np.array([[-2.0, -1.5, -1.0, -0.75]])
    assert random_numbers.categorical(stream, (1, 12), logs, log_probabilities=True).tolist() == [CATEGORIES]


def test_categories() -> None:
    p = np.array([[0.5, 0.0, 1.5, 2.0], [0.0, 0.0, 0.0, 3.0], [1.0, 0.0, 0.0, 0.0]])
    drawn = random_numbers.categorical(KEYS, (3, 40, 500), p)
    assert np.all(drawn[1] == 3.0)
    assert np.all(drawn[2] == 0.0)
    counts = np.bincount(drawn[0].astype(int).ravel(), minlength=4) / 20000
    np.testing.assert_allclose(counts, [0.125, 0.0, 0.375, 0.5], atol=0.015)
    u = np.float32(random_numbers.keystream_words(KEYS, 60000)) / 2.0**32
    expected = [0 if v < 0.125 else 2 if v < 0.5 else 3 for v in u[:20000]]
    np.testing.assert_array_equal(drawn[0].ravel(), expected)
    with np.errstate(divide="ignore"):
        logs = np.log(p) - 12.0
    np.testing.assert_array_equal(random_numbers.categorical(KEYS, (3, 40, 500), logs, True), drawn)
    assert random_numbers.categorical(KEYS, (3,), p).shape == (3,)
    assert random_numbers.categorical(KEYS, (0, 5), p[:0]).shape == (0, 5)


@pytest.mark.parametrize("bad", [[0.0, 0.0], [-1.0, 2.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_categories_refuse(bad: list[float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="must be finite, not negative and not all 0"):
            random_numbers.categorical(KEYS, (1, 3), np.array([bad]))
        if 0 not in bad and -1.0 not in bad:
            with pytest.raises(ValueError, match="must be finite, not negative and not all 0"):
                random_numbers.categorical(KEYS, (1, 3), np.array([bad]), log_probabilities=True)
        with pytest.raises(ValueError, match="must be finite, not negative and not all 0"):
            random_numbers.categorical(KEYS, (1, 3), np.full((1, 2), -np.inf), log_probabilities=True)
    with pytest.raises(ValueError, match=r"shape \(2, 3\) does not begin with \(1,\)"):
        random_numbers.categorical(KEYS, (2, 3), np.ones((1, 2)))
