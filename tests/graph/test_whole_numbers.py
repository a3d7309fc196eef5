"""Masks, whole numbers and lookups that native code computes are those of NumPy, and need no Python in a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns
from openbnns import engines, nn
from openbnns.graph.calls import by_element, gathering, mixed_arithmetic, scattering
from openbnns.nn import functional as F
from openbnns.nn.recording import recording_of

LOGIC: dict[str, Callable[..., Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip
WHOLE: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod,
    "divide": lambda a, b: np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b),
}  # fmt: skip
UNARY: dict[str, Callable[..., Any]] = {
    "logical_not": np.logical_not, "convert": np.asarray, "int32": np.asarray, "isnan": np.isnan,
}  # fmt: skip


def numbers(random: np.random.RandomState, shape: tuple[int, ...], dtype: Any) -> Any:
    x = np.asarray(random.randint(-4, 5, shape), dtype)
    if dtype == np.float32 and random.randint(2):
        x = np.asarray(x + random.choice([0, 0.25, -0.75], shape), dtype)
    return x


def shapes(random: np.random.RandomState) -> list[tuple[int, ...]]:
    """Shapes of two operands that broadcast, and that of the result."""
    full = tuple(int(n) for n in random.choice([1, 2, 3, 7, 33], random.randint(0, 6)))
    parts = [tuple(n if random.randint(3) else 1 for n in full)[random.randint(0, len(full) + 1) :] for _ in range(2)]
    return [*parts, np.broadcast_shapes(*parts)]


@pytest.mark.parametrize("seed", range(60))
def test_any_types_and_shapes(seed: int) -> None:
    random = np.random.RandomState(seed)
    for name, function in [*LOGIC.items(), *WHOLE.items(), *UNARY.items()]:
        a_shape, b_shape, y_shape = shapes(random)
        types = [np.int64] * 3 if name in WHOLE else [[np.float32, np.int64][i] for i in random.randint(2, size=3)]
        if name in ("remainder", "fmod") and random.randint(2):
            types = [np.float32] * 3
        given = [numbers(random, a_shape, types[0]), numbers(random, b_shape, types[1])]
        if name in WHOLE and types[0] == np.int64 and name not in ("add", "sub", "mul", "maximum", "minimum"):
            given[1][given[1] == 0] = 3
        if name in UNARY:
            given, y_shape = given[:1], a_shape
        y = np.full(y_shape, 77, types[2])
        call = by_element(y, name, function, *given)
        assert call.func is mixed_arithmetic
        call()
        with np.errstate(all="ignore"):
            expected = np.asarray(function(*given)).astype(types[2])
        np.testing.assert_array_equal(y, expected, f"{name} of {given}")


def test_many_elements_are_the_same_with_any_number_of_threads() -> None:
    random = np.random.RandomState(0)
    a, b = numbers(random, (7, 40_001), np.int64), numbers(random, (7, 1), np.float32)
    results = []
    try:
        for threads in (1, 3):
            openbnns.set_num_threads(threads)
            y = np.zeros(a.shape, np.float32)
            by_element(y, "le", np.less_equal, a, b)()
            results.append(y)
    finally:
        openbnns.set_num_threads(0)
    np.testing.assert_array_equal(results[0], a <= b)
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [("floor_divide", [7, -7], [2, 0]), ("remainder", [7, 3], [0, 2]), ("convert", [1.5, np.nan], None),
     ("convert", [2e19], None), ("int32", [1, 3e9], None)],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:invalid value")
def test_numbers_without_a_result_are_left_to_numpy(name: str, a: list[Any], b: list[Any] | None) -> None:
    given = [np.asarray(a, np.int64 if b else np.float32), *([] if b is None else [np.asarray(b, np.int64)])]
    y = np.full(len(a), 77, np.int64)
    assert not engines._core.mixed_arithmetic(name, y, given[0], given[-1])
    assert (y == 77).all()
    by_element(y, name, WHOLE.get(name, np.asarray), *given)()
    assert (y != 77).all()


def test_the_smallest_number_divided_by_minus_one_wraps() -> None:
    least = np.full(1, np.iinfo(np.int64).min)
    for name, expected in (("divide", least[0]), ("floor_divide", least[0]), ("remainder", 0), ("fmod", 0)):
        y = np.full(1, 77)
        assert engines._core.mixed_arithmetic(name, y, least, np.full(1, -1))
        assert y[0] == expected


def test_arrays_that_do_not_fit_are_refused() -> None:
    x, y = np.zeros(3, np.int64), np.zeros(3, np.int64)
    with pytest.raises(ValueError, match="do not broadcast to the target"):
        engines._core.mixed_arithmetic("add", y, x, np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="there is no function 'plus'"):
        engines._core.mixed_arithmetic("plus", y, x, x)
    with pytest.raises(TypeError, match="float32 or int64 are expected"):
        engines._core.mixed_arithmetic("add", y, x, np.zeros(3))
    with pytest.raises(TypeError, match="arithmetic takes and gives int64"):
        engines._core.mixed_arithmetic("add", y, x, np.zeros(3, np.float32))


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_plain_numbers_keep_their_fractions(name: str) -> None:
    class Compared(nn.Module):
        def forward(self, x: Any) -> Any:
            return getattr(F, name)(x, 0.5), getattr(F, name)(-0.75, x)

    x = np.random.default_rng(0).integers(-4, 5, (3, 7)).astype(np.float32) / 4
    net = Compared().eval()
    for _ in range(3):
        right, left = net(x)
        np.testing.assert_array_equal(right, LOGIC[name](x, 0.5))
        np.testing.assert_array_equal(left, LOGIC[name](-0.75, x))


@pytest.mark.parametrize("seed", range(30))
def test_lookups(seed: int) -> None:
    random = np.random.RandomState(seed)
    whole = random.standard_normal(random.randint(1, 6, 3)).astype(np.float32)
    axis = random.randint(3)
    n = whole.shape[axis]
    low = -n if seed % 3 == 0 else 0  # numbers from the end are left to NumPy
    in_a_row = random.randint(low, n, random.randint(1, 9))
    y = np.zeros((*whole.shape[:axis], len(in_a_row), *whole.shape[axis + 1 :]), np.float32)
    gathering(y, whole, in_a_row, axis, lambda: np.take(whole, in_a_row, axis, y))()
    np.testing.assert_array_equal(y, np.take(whole, in_a_row, axis))


@pytest.mark.parametrize("seed", range(40))
def test_scattered_elements(seed: int) -> None:
    """The last of several elements for one place stays, or all of them are added."""
    random = np.random.RandomState(seed)
    shape, axis = random.randint(1, 6, 3), int(random.randint(3))
    dtype, adds = (np.float32, np.int64)[random.randint(2)], bool(random.randint(2))
    whole = random.randint(-9, 10, shape).astype(dtype)
    count = [random.randint(1, 9) if a == axis else n for a, n in enumerate(shape)]
    if random.rand() < 0.2:
        count[(axis + 1) % 3] = 1  # fewer than the whole has there: left to NumPy
    part = random.randint(-9, 10, count).astype(dtype)
    n, fallen = shape[axis], []
    indices = random.randint(-n if seed % 4 == 0 else 0, n, count)
    expected = whole.copy()
    for place in np.ndindex(*count):
        to = (*place[:axis], indices[place], *place[axis + 1 :])
        expected[to] = part[place] + (expected[to] if adds else 0)

    def in_numpy() -> None:
        fallen.append(True)
        np.copyto(y, expected)

    y = whole.copy()
    call = scattering(y, part, indices, axis, in_numpy, adds=adds)
    call()
    np.testing.assert_array_equal(y, expected)
    alike = all(a == axis or m == k for a, (m, k) in enumerate(zip(shape, count, strict=True)))
    assert bool(fallen) == (indices.min() < 0 or not alike or (adds and dtype == np.int64))


@pytest.mark.parametrize("adds", [False, True])
def test_scattering_refuses_numbers_that_name_no_entry(adds: bool) -> None:
    class Scattered(nn.Module):
        def forward(self, x: Any, numbers: Any) -> Any:
            return (F.scatter_add if adds else F.scatter)(x, 1, numbers, x * 2.0)

    net, x = Scattered().eval(), np.float32([[1, 2, 3], [4, 5, 6]])
    for _ in range(3):
        y = net(x, np.array([[1, 1, 0], [2, 0, 2]]))
        expected = [[7, 8, 3], [14, 5, 26]] if adds else [[6, 4, 3], [10, 5, 12]]
        np.testing.assert_array_equal(y, expected)
    with pytest.raises(IndexError, match="axis 1 has 3 entries, so 3 is out of range"):
        net(x, np.array([[1, 1, 0], [3, 0, 2]]))


class Masked(nn.Module):
    """Numbers up to a length, picked, reversed and looked up."""

    def forward(self, x: Any, lengths: Any) -> Any:
        places = F.arange(x.shape[1])
        inside = F.lt(places, lengths.reshape((-1, 1)))
        order = F.where(inside, lengths.reshape((-1, 1)).float() - 1.0 - places, places.float()).long()
        turned = F.gather(x, 1, order)
        return turned * inside, F.index_select(x, 1, np.array([0, 2, 1, 2]))


def test_a_network_of_masks_and_lookups_needs_no_python() -> None:
    random = np.random.RandomState(1)
    x, lengths = random.standard_normal((2, 6)).astype(np.float32), np.array([4, 6])
    net = Masked().eval()
    for _ in range(3):
        turned, picked = net(x, lengths)
    for row, length, given in zip(turned, lengths, x, strict=True):
        np.testing.assert_array_equal(row, np.r_[given[:length][::-1], np.zeros(6 - length, np.float32)])
    np.testing.assert_array_equal(picked, x[:, [0, 2, 1, 2]])
    program = recording_of(net, False, (x.shape, lengths.shape)).lend((x.shape, lengths.shape))
    program.inputs[0][...], program.inputs[1][...] = x, lengths
    program.forward()
    program.forward()
    assert {row.kind for row in program.timed()} <= {"native", "settled"}, program.timed()
