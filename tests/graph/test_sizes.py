"""Sizes that remember where they come from: exact for all sizes that a free's guards allow."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from function_checks import Applied, some
from openbnns.graph.polynomials import Polynomial
from openbnns.graph.sizes import FreeSizes, Size, agree, are_at_least, bound, broadcast, expression_of, number_of
from openbnns.nn import functional as F

NAMES = ("N", "T", "H")
SIZES = st.fixed_dictionaries({name: st.integers(1, 12) for name in NAMES})
OPERATORS: list[Callable[[Any, Any], Any]] = [
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod,
]  # fmt: skip
COMPARISONS: list[Callable[[Any, Any], bool]] = [
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip

# A random program: each step makes a new number from two before it, or asks something about them.
STEPS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=12
)  # fmt: skip


def run(steps: list[tuple[int, int, int]], sizes: list[Any]) -> list[Any]:
    """Run a random program on numbers or on sizes; its comparisons decide what it does next."""
    numbers: list[Any] = [*sizes, 1, 2, 3, -2]
    answers: list[Any] = []
    for kind, i, j in steps:
        a, b = numbers[i % len(numbers)], numbers[j % len(numbers)]
        if kind < len(OPERATORS):
            try:
                numbers.append(OPERATORS[kind](a, b))
            except ZeroDivisionError:
                answers.append("division by zero")
        elif kind == 5:
            answers.append(answer := COMPARISONS[i % len(COMPARISONS)](a, b))
            numbers.append(a if answer else b)
        elif kind == 6:
            answers.append(len(range(abs(a) % 5 if a else 0)))
        elif kind == 7:
            answers.append(bool(a))
        elif kind == 8:
            numbers.append(max(a, b))
        else:
            numbers.append(abs(a))
    return [*answers, *numbers]


@given(STEPS, SIZES, SIZES)
def test_a_recording_is_right_for_all_sizes_that_its_guards_allow(
    steps: list[tuple[int, int, int]], sizes: dict[str, int], others: dict[str, int]
) -> None:
    free = FreeSizes(sizes)
    recorded = run(steps, [free.size(name) for name in NAMES])
    assert [number_of(x) if isinstance(x, Size) else x for x in recorded] == run(steps, [sizes[name] for name in NAMES])
    assert free.failing(sizes) is None
    if free.failing(others) is None:
        assert [bound([x], others)[0] if isinstance(x, Size) else x for x in recorded] == run(
            steps, [others[name] for name in NAMES]
        )


def n_and_t() -> tuple[FreeSizes, Size, Size]:
    free = FreeSizes({"N": 32, "T": 16})
    return free, free.size("N"), free.size("T")


def test_equal_expressions_are_the_same_without_a_guard() -> None:
    free, n, t = n_and_t()
    assert (n + 1) * 2 - 2 == 2 * n
    assert n * t // t == n
    assert (n * t * 8) // (n * t) == 8
    assert (4 * n) % 2 == 0
    assert (n + 3) // 2 == (n + 1) // 2 + 1
    assert 3 * n // 2 == n + n // 2
    assert n * t != n * t + 1
    assert free.guards == []


def test_what_holds_for_every_size_needs_no_guard() -> None:
    free, n, t = n_and_t()
    assert n > 0 and n >= 1 and n * t > 0 and n and not n < 1 and n != 0 and n // 2 >= 0 and n + t > 1
    assert free.guards == []


def test_guards_say_what_and_where() -> None:
    free, n, t = n_and_t()
    if t > 4:
        list(range(n))
    assert [str(guard).replace(__file__, "here") for guard in free.guards] == [
        f"4 is below T at here:{test_guards_say_what_and_where.__code__.co_firstlineno + 2}",
        f"N is 32 at here:{test_guards_say_what_and_where.__code__.co_firstlineno + 3}",
    ]
    assert free.failing({"N": 32, "T": 5}) is None
    assert free.failing({"N": 32, "T": 4}) is free.guards[0]
    assert free.failing({"N": 31, "T": 5}) is free.guards[1]
    free.place = "Reshape 'flat'"
    assert int(t) == 16
    assert str(free.guards[-1]) == "T is 16 at Reshape 'flat'"


@pytest.mark.parametrize(
    "use",
    [
        lambda n: [0] * n, lambda n: np.zeros(n), lambda n: np.arange(3) * n, lambda n: n * np.arange(3), lambda n: n / 2,
        lambda n: 1 / n, lambda n: n * 0.5, lambda n: math.sqrt(n), lambda n: {n: 1}, lambda n: f"{n:03d}", lambda n: 2**n,
        lambda n: n**7, lambda n: n == 32.0, lambda n: n < 32.5, lambda n: np.float32(n), lambda n: [*range(99)][n],
        lambda n: pow(n, 2, 7), lambda n: round(n, -1), lambda n: divmod(n, 2.0),
    ],
)  # fmt: skip
def test_whatever_needs_the_number_fixes_it(use: Callable[[Any], Any]) -> None:
    free, n, _ = n_and_t()
    given, wanted = use(n), use(32)
    assert np.array_equal(given, wanted) and type(given) is type(wanted)
    assert free.failing({"N": 31, "T": 16}) is not None
    assert free.failing({"N": 32, "T": 1}) is None


@pytest.mark.parametrize(
    "use",
    [
        lambda n: n**3, lambda n: -n, lambda n: +n, lambda n: divmod(n, 3)[0], lambda n: divmod(n, 3)[1], lambda n: round(n),
        lambda n: math.floor(n), lambda n: sum([n, n]), lambda n: math.prod([n, 3]), lambda n: np.int64(3) * n,
        lambda n: 100 // n, lambda n: 100 % n, lambda n: n - np.int32(5), lambda n: 7 - n, lambda n: abs(n),
        lambda n: divmod(100, n)[0],
    ],
)  # fmt: skip
def test_arithmetic_of_whole_numbers_keeps_the_expression(use: Callable[[Any], Any]) -> None:
    free, n, _ = n_and_t()
    kept = use(n)
    assert isinstance(kept, Size)
    for number in (1, 2, 5, 31, 32):
        assert kept.expression.value({"N": number}) == use(number)
    assert free.guards == []


def test_division_by_zero() -> None:
    free, n, _ = n_and_t()
    with pytest.raises(ZeroDivisionError):
        n // 0
    with pytest.raises(ZeroDivisionError):
        n % (n - 32)
    assert 5 // (n - 31) == 5  # N is not 31
    assert free.failing({"N": 31, "T": 16}) is not None


def test_other_types_are_not_swallowed() -> None:
    _, n, _ = n_and_t()
    with pytest.raises(TypeError):
        n + "a"
    with pytest.raises(TypeError):
        n < "a"  # noqa: B015
    assert n != "a" and n is not None and n != None  # noqa: E711


def test_shapes_are_broadcast_with_guards_where_sizes_have_to_agree() -> None:
    free, n, t = n_and_t()
    assert broadcast((n, 3), (1, 3), (3,), ()) == (n, 3)
    assert broadcast((n, 1), (t,)) == (n, t)
    assert broadcast((n * 2, 4), (2 * n, 1)) == (2 * n, 4)
    assert free.guards == []
    assert broadcast((n, 3), (32, 1)) == (n, 3)
    assert free.failing({"N": 5, "T": 16}) is not None
    assert broadcast((n, 3), (t, 3)) is None
    assert broadcast((n, 3), (4,)) is None
    assert broadcast() == ()


def test_a_size_that_is_one_is_repeated_in_this_recording_only() -> None:
    free = FreeSizes({"N": 1, "M": 5})
    n, m = free.size("N"), free.size("M")
    assert broadcast((n, 3), (m, 1)) == (m, 3)
    assert free.failing({"N": 2, "M": 5}) is not None
    assert free.failing({"N": 1, "M": 7}) is None


def test_expressions_are_shown_as_python_reads_them() -> None:
    _, n, t = n_and_t()
    sizes = {"N": 7, "T": 5}
    for size in (
        n,
        -n,
        n - t,
        2 * n * t + 3,
        3 * (n // 2),
        (n + t) // (t * 2),
        n // t // 3,
        n - 5 * (n // 5),
        -(-n // 2),
    ):
        assert eval(str(size), {}, sizes) == size.expression.value(sizes), str(size)
    assert str(Polynomial.of(0)) == "0" and str(n * 0) == "0"
    assert (n * t + 1).expression.names() == {"N", "T"} == (n // (t + 1)).expression.names()


def test_divisions_that_come_out_even_are_exact() -> None:
    """Sizes behind windows are sums, and shapes are computed by dividing products of them."""
    _, n, t = n_and_t()
    assert repr(32 * (t - 1) * n // (8 * (t - 1) * n)) == "4" and repr((n * n - t * t) // (n + t)) == "N - T"
    assert repr((2 * n + 4 * t) // (n + 2 * t)) == "2" and repr((n * n - 1) // (n - 1)) == "N + 1"
    for odd in ((n * t + n) // (t + 2), (3 * n + 3 * t) // (2 * n + 2 * t), n // (n + t)):
        assert "//" in repr(odd)


def test_the_only_number_of_a_size_that_makes_others_equal() -> None:
    _, n, t = n_and_t()
    assert (16 * n * t - 112 * n).expression.root() == ("T", 7) and (5 - n).expression.root() == ("N", 5)
    for none in (n - t, n * n - 4, 2 * t - 3, t + 4, n * t, n // 2 - 3):
        assert none.expression.root() is None, none


def test_files_have_the_only_number_that_a_check_allows() -> None:
    free = FreeSizes({"N": 4, "T": 7})
    n, t = free.size("N"), free.size("T")
    assert agree(n * t * 16, n * 112) and free.without_guards() == {"N": "N", "T": 7}
    assert str(free.guards[0]).startswith("T is 7 at ")
    other = FreeSizes({"N": 4, "T": 6})
    assert not agree(other.size("N") * other.size("T") * 16, other.size("N") * 112)
    assert other.wanted == {"T": 7} and free.wanted == {}


def test_what_files_without_guards_have_in_place_of_free_sizes() -> None:
    free = FreeSizes({"N": 4, "M": 4, "T": 6, "U": 5})
    n, m, t, _ = (free.size(name) for name in free.numbers)
    assert n == m and t // 2 > 2
    assert free.without_guards() == {"N": "N", "M": "N", "T": 6, "U": "U"}
    assert m != 3  # which fixes the other one, too
    assert free.without_guards() == {"N": 4, "M": 4, "T": 6, "U": "U"}
    assert str(expression_of(n * m + t // 4).replaced({"N": "M", "T": 9})) == "M*M + 2"


def test_checks_need_no_guard_in_files() -> None:
    """Every run of the file meets the same error; a decision about the same sizes is another matter."""
    free = FreeSizes({"N": 4, "H": 8, "W": 9})
    n, h, w = (free.size(name) for name in free.numbers)
    assert are_at_least(1, [h // 2, w // 2 - 1, 5]) and not are_at_least(6, [h, w, 5])
    assert agree(h // 4 * 4, h) and broadcast((n, h // 2 * 2, 3), (h, 3)) is not None
    assert free.without_guards() == {"N": "N", "H": "H", "W": "W"}
    assert free.failing({"N": 4, "H": 8, "W": 3}) is not None, "the recording itself holds for what was checked only"
    assert str(free.failing({"N": 4, "H": 9, "W": 9})).startswith("4*(H//4) is H")
    assert not w // 2 - 1 < 1 and w // 2 > 0  # follows from the check
    assert free.without_guards() == {"N": "N", "H": "H", "W": "W"}
    assert not w // 2 - 1 < 2  # decides something
    assert free.without_guards() == {"N": "N", "H": "H", "W": 9}
    assert not agree(n, 3) and free.without_guards()["N"] == 4, "sizes that differ do not pass a check"


def test_a_function_may_fix_a_free_size() -> None:
    """A size that is given as a number is compared with the free one, for as long as the recording is used."""

    def body(x: Any) -> Any:
        return F.layer_norm(x.transpose(0, 1), 3).transpose(0, 1)

    net, x = Applied(body).eval(), some(3, 4)
    centred = x - x.mean(0)
    np.testing.assert_allclose(net(x), centred / np.sqrt((centred**2).mean(0) + 1e-5), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"layer_norm: made for samples that end in \(3,\)"):
        net(some(2, 4))
