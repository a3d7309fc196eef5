"""Sizes of axes that remember where they come from.

A graph is recorded by running a function once, on inputs of certain shapes. Some of their sizes are free: the batch, mostly. A
:class:`Size` is such a size, or what the function computes from it, together with its number in this recording. Arithmetic
keeps the expression. Whatever needs the plain number (``range(n)``, ``np.zeros(n)``) or a comparison (``if n > 4``) gets it and
leaves a :class:`Guard`: the recording serves only sizes for which every guard holds.

>>> from openbnns.graph.sizes import FreeSizes
>>> free = FreeSizes({"N": 32, "T": 16})
>>> n, t = free.size("N"), free.size("T")
>>> (n * t, 8), (n, -1 * t + 2 * t), n * t // n
((N*T, 8), (N, T), T)
>>> [i for i in range(t // 8)]
[0, 1]
>>> free.failing({"N": 5, "T": 16}) is None
True
>>> print(free.failing({"N": 5, "T": 24}))
(T//8) is 2 at <doctest openbnns.graph.sizes[4]>:1
"""

from __future__ import annotations

import math
import numbers
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .polynomials import Polynomial

_MOST = 4096  # numbers of a size that are looked at for one that meets a guard
_PACKAGE = str(Path(__file__).resolve().parents[1])


class Guard(NamedTuple):
    """A comparison of sizes that a recording relies on, and where in the user's code it was made."""

    left: Polynomial
    relation: str  # "==" or "<"
    right: Polynomial
    holds: bool
    place: str
    required: bool = False
    """True if any other outcome would have been an error, so that nothing else could have been recorded."""

    def is_met(self, sizes: Mapping[str, int]) -> bool:
        """True if the comparison comes out as in the recording."""
        left, right = self.left.value(sizes), self.right.value(sizes)
        return (left == right if self.relation == "==" else left < right) is self.holds

    def names(self) -> set[str]:
        """The free sizes that it compares."""
        return self.left.names() | self.right.names()

    def __str__(self) -> str:
        root = (self.left - self.right).root() if self.relation == "==" else None
        left, right = (self.left, self.right) if root is None else root
        words = {("==", True): "is", ("==", False): "is not", ("<", True): "is below", ("<", False): "is not below"}
        return f"{left} {words[self.relation, self.holds]} {right} at {self.place}"


class FreeSizes:
    """The free sizes of one run of a function, and the guards that the run left.

    ``place`` says where guards come from, if not from the line of the user's code that runs: the operation of a file.
    ``computed`` are the names of sizes that are known only while the graph runs, in the order in which they become known.
    ``wanted`` are numbers of free sizes with which checks would not have failed, and ``only`` those that others have left.
    ``unequal`` are sizes that failed to be equal without a number for it. ``outer`` are the sizes around those of a graph
    inside of an operation.
    """

    def __init__(self, numbers: Mapping[str, int], outer: FreeSizes | None = None) -> None:
        self.numbers, self.outer = dict(numbers), outer
        self.guards: list[Guard] = []
        self.place: str | None = None
        self.computed: list[str] = []
        self.wanted: dict[str, int] = {}
        self.only: dict[str, int] = {}
        self.unequal: list[tuple[Polynomial, Polynomial]] = []
        self._known: dict[tuple[Polynomial, str], Guard] = {}  # of comparisons with 0
        self._above: dict[Polynomial, int] = {}  # the least that guards leave to sums without a constant term
        self._all_computed: set[str] = set() if outer is None else outer._all_computed

    def inner(self, numbers: Mapping[str, int] | None = None) -> FreeSizes:
        """Sizes for a graph inside of an operation: those known here, perhaps with other numbers, and guards of its own."""
        made = FreeSizes(self.numbers | dict(numbers or {}), self)
        made.place = self.place
        return made

    def here(self, size: AnySize) -> AnySize:
        """A size of the graph around this one, or of one inside of it, as one of these."""
        return sized(self, expression_of(size))

    def serve(self, numbers: Mapping[str, int]) -> bool:
        """True if the guards up to here, and those around them, are met by other numbers."""
        return self.failing(numbers) is None and (self.outer is None or self.outer.serve(numbers))

    def size(self, name: str) -> Size:
        """The free size of this name."""
        return Size(self, Polynomial.of(name))

    def computed_size(self, number: int) -> AnySize:
        """A size, or any other whole number, that a run computes; in this recording it is ``number``.

        Free sizes are at least 1: a smaller number is one that the recording relies on.
        """
        name = f"U{len(self.computed)}"
        while name in self.numbers or name in self._all_computed:
            name += "_"
        self.computed.append(name)
        self._all_computed.add(name)
        self.numbers[name] = number
        place, size = self.place or _users_line(), Polynomial.of(name)
        if number < 1:
            self.guards.append(Guard(size, "==", Polynomial.of(number), True, place))
            return number
        # A file need not hold this one: the nodes for some entries compute what there is to compute of none as well.
        self.guards.append(Guard(size, "<", Polynomial.of(1), False, place, required=True))
        return self.size(name)

    def is_less(self, left: Polynomial, right: Polynomial, *, required: bool = False) -> bool:
        """Compare two sizes, with a guard unless the result is the same for all; ``required`` if it must be False."""
        difference = left - right
        least, greatest = difference.least(), (-difference).least()
        if least is not None and least >= 0:
            return False
        if greatest is not None and greatest > 0:
            return True
        # Known because of a guard up to here, which holds wherever the recording serves.
        if self._least(difference) >= 0:
            return False
        if self._least(-difference) > 0:
            return True
        holds = self._guarded(left, "<", right, required)
        known = -difference - Polynomial.of(1) if holds else difference
        key = known.without_constant()
        self._above[key] = max(-known.at_zero, self._above.get(key, -known.at_zero))
        return holds

    def _least(self, size: Polynomial) -> float:
        """A number that it is never below because of a guard; minus infinity if there is none."""
        return self._above.get(size.without_constant(), -math.inf) + size.at_zero

    def is_equal(self, left: Polynomial, right: Polynomial, *, required: bool = False) -> bool:
        """Compare two sizes, with a guard unless the result is the same for all; ``required`` if the other one is an error."""
        difference = left - right
        if difference.constant is not None:
            return difference.constant == 0
        if any(bound is not None and bound > 0 for bound in (difference.least(), (-difference).least())):
            return False
        return self._guarded(left, "==", right, required)

    def _guarded(self, left: Polynomial, relation: str, right: Polynomial, required: bool) -> bool:
        difference = left - right
        known = self._known.get((difference, relation))
        if known is None or (known.required and not required):
            number = difference.value(self.numbers)
            holds = number == 0 if relation == "==" else number < 0
            known = Guard(left, relation, right, holds, self.place or _users_line(), required)
            self._known[difference, relation] = known
            self.guards.append(known)
        return known.holds

    def deciding(self) -> Guard | None:
        """The first guard on numbers that only a run knows which a file would have to hold; None if there is none."""
        fixed = {name for name, known in self.without_guards().items() if isinstance(known, int)} & self._all_computed
        return next((guard for guard in self.guards if guard.names() & fixed and not guard.required), None)

    def failing(self, sizes: Mapping[str, int]) -> Guard | None:
        """The first guard that other sizes do not meet; None if the recording serves them.

        Guards of computed sizes that are not known yet do not count.
        """
        known = (g for g in self.guards if g.names() <= sizes.keys()) if self.computed else self.guards
        return next((guard for guard in known if not guard.is_met(sizes)), None)

    def without_guards(self, *, but_equalities: bool = False) -> dict[str, str | int]:
        """By name, the replacement of each free size in a file that cannot hold guards, so that all guards are met.

        A size stays free if no guard names it, and has the name of another one that it must equal; any other is fixed to
        its number in this recording. Guards of what is required need not be held, since running the file fails as well, but
        a size of which only one number is possible has that number in the file. With ``but_equalities`` sizes that only an
        equality names stay free, for a file that makes sure of it.
        """
        same = {name: name for name in self.numbers}
        order = {name: number for number, name in enumerate(same)}  # in which they become known
        fixed: set[str] = set()
        for guard in self.guards:
            ends = str(guard.left), str(guard.right)
            equality = guard.relation == "==" and guard.holds
            root = (guard.left - guard.right).root() if equality else None
            if root is not None:
                fixed.add(root[0])
            elif equality and ends[0] in same and ends[1] in same:
                one, other = sorted((same[end] for end in ends), key=order.__getitem__)
                same = {name: one if known == other else known for name, known in same.items()}
            elif not guard.required and not (equality and but_equalities):
                fixed |= guard.names()
        fixed = {same[name] for name in fixed}
        return {name: self.numbers[known] if known in fixed else known for name, known in same.items()}

    def assumptions(self) -> list[Polynomial]:
        """Expressions that are 0 if all guards are met, but for those without which running fails anyway."""
        known = self.without_guards(but_equalities=True)
        equal = [Polynomial.of(name) - Polynomial.of(by) for name, by in known.items() if name != by]
        equal += [g.left - g.right for g in self.guards if g.relation == "==" and g.holds and not g.required]
        return list(dict.fromkeys(equal))

    def other_numbers(self) -> Iterator[dict[str, int]]:
        """Numbers of single free sizes with which sizes would be equal that are not, for the latest comparison first."""
        compared = [(guard.left, guard.right) for guard in self.guards if guard.relation == "==" and not guard.holds]
        for left, right in reversed([*compared, *self.unequal]):
            names = (left - right).names()
            for name in [] if names & self._all_computed else sorted(names):
                number = self._equalizing(left - right, name)
                if number is not None:
                    yield {name: number}

    def _equalizing(self, difference: Polynomial, name: str) -> int | None:
        """The number of a free size, close to the one that it has, with which a difference is 0."""
        now = self.numbers[name]
        for number in sorted(range(1, _MOST), key=lambda n: abs(n - now)):
            with suppress(ZeroDivisionError):
                if difference.value(self.numbers | {name: number}) == 0:
                    return number
        return None


class Size:
    """A size of an axis while a graph is recorded: an expression in free sizes, and its ``number`` in this recording.

    It does what an ``int`` does. Reading :attr:`number` leaves no guard, so it must not decide what is recorded.
    """

    __slots__ = ("expression", "free")

    def __init__(self, free: FreeSizes, expression: Polynomial) -> None:
        self.free, self.expression = free, expression

    def names(self) -> set[str]:
        """The free sizes that it depends on."""
        return self.expression.names()

    @property
    def number(self) -> int:
        return self.expression.value(self.free.numbers)

    # Arithmetic that keeps the expression.

    def __add__(self, other: Any) -> Any:
        return self._with(other, operator.add)

    def __radd__(self, other: Any) -> Any:
        return self._with(other, operator.add, reverse=True)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, operator.sub, reverse=True)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, operator.mul)

    def __rmul__(self, other: Any) -> Any:
        return self._with(other, operator.mul, reverse=True)

    def __floordiv__(self, other: Any) -> Any:
        return self._with(other, operator.floordiv)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with(other, operator.floordiv, reverse=True)

    def __mod__(self, other: Any) -> Any:
        return self._with(other, operator.mod)

    def __rmod__(self, other: Any) -> Any:
        return self._with(other, operator.mod, reverse=True)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __neg__(self) -> Any:
        return self._with(-1, operator.mul)

    def __pos__(self) -> Size:
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    __trunc__ = __floor__ = __ceil__ = __pos__

    def __round__(self, digits: int | None = None) -> Any:
        return self if digits is None or digits >= 0 else round(int(self), digits)

    def _with(self, other: Any, operation: Callable[[Any, Any], Any], reverse: bool = False) -> Any:
        if isinstance(other, numbers.Integral):
            left, right = self.expression, expression_of(other)
            if reverse:
                left, right = right, left
            by = operation in (operator.floordiv, operator.mod)
            if by and self.free.is_equal(right, Polynomial.of(0), required=True):
                raise ZeroDivisionError("integer division or modulo by zero")
            return sized(self.free, operation(left, right))
        return self._as_number(other, operation, reverse)

    # Whatever needs the plain number fixes it.

    def __index__(self) -> int:
        number = self.number
        self.free.is_equal(self.expression, Polynomial.of(number))
        return number

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __complex__(self) -> complex:
        return complex(self.__index__())

    def __hash__(self) -> int:
        return hash(self.__index__())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.__index__(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **named: Any) -> Any:
        operation = _UFUNCS.get(ufunc) if method == "__call__" and not named else None
        if operation is not None and all(isinstance(x, numbers.Integral) for x in given):
            left, right = (x if isinstance(x, Size) else int(x) for x in given)
            return operation(left, right)
        return getattr(ufunc, method)(*(int(x) if isinstance(x, Size) else x for x in given), **named)

    def __truediv__(self, other: Any) -> Any:
        return self._as_number(other, operator.truediv)

    def __rtruediv__(self, other: Any) -> Any:
        return self._as_number(other, operator.truediv, reverse=True)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is None and isinstance(other, int) and 0 <= other <= 4:
            result: Any = 1
            for _ in range(other):
                result = self * result
            return result
        return pow(int(self), other, modulus)

    def __rpow__(self, other: Any) -> Any:
        return self._as_number(other, operator.pow, reverse=True)

    def _as_number(self, other: Any, operation: Callable[[Any, Any], Any], reverse: bool = False) -> Any:
        if isinstance(other, Size):
            other = int(other)
        elif not isinstance(other, numbers.Number):
            return NotImplemented  # a tensor or an array, which has an operation of its own
        return operation(other, int(self)) if reverse else operation(int(self), other)

    # Comparisons fix how they come out.

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, numbers.Integral):
            return isinstance(other, (float, complex, np.generic)) and bool(self.__index__() == other)
        return self.free.is_equal(self.expression, expression_of(other))

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, operator.lt)

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, operator.gt)

    def __le__(self, other: Any) -> Any:
        return self._compared(other, operator.le)

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, operator.ge)

    def _compared(self, other: Any, relation: Callable[[Any, Any], bool]) -> Any:
        if not isinstance(other, numbers.Integral):
            return relation(self.__index__(), other) if isinstance(other, numbers.Number) else NotImplemented
        mine, its, is_less = self.expression, expression_of(other), self.free.is_less
        if relation in (operator.lt, operator.ge):
            return is_less(mine, its) is (relation is operator.lt)
        return is_less(its, mine) is (relation is operator.gt)

    def __bool__(self) -> bool:
        return not self.free.is_equal(self.expression, Polynomial.of(0))

    def __repr__(self) -> str:
        return str(self.expression)

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else repr(self)


numbers.Integral.register(Size)

# Operators for NumPy's scalars on the left of a size.
_UFUNCS: dict[Any, Callable[[Any, Any], Any]] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.floor_divide: operator.floordiv,
    np.remainder: operator.mod, np.equal: operator.eq, np.not_equal: operator.ne, np.less: operator.lt,
    np.less_equal: operator.le, np.greater: operator.gt, np.greater_equal: operator.ge,
}  # fmt: skip

AnySize = int | Size
Shape = tuple[AnySize, ...]


def expression_of(size: Any) -> Polynomial:
    """The expression that a size or a number is."""
    return size.expression if isinstance(size, Size) else Polynomial.of(int(size))


def sized(free: FreeSizes, expression: Polynomial) -> AnySize:
    """A size for an expression; a number if it is the same for all free sizes."""
    number = expression.constant
    return Size(free, expression) if number is None else number


def number_of(size: AnySize) -> int:
    """The number of a size in its recording, without a guard."""
    return size.number if isinstance(size, Size) else int(size)


def bound(shape: Sequence[AnySize], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The numbers of a shape for these free sizes."""
    return tuple(size.expression.value(sizes) if isinstance(size, Size) else size for size in shape)


def product(sizes: Iterable[AnySize]) -> AnySize:
    """The product of sizes: the number of elements of a shape."""
    result: AnySize = 1
    for size in sizes:
        result = size * result if isinstance(size, Size) else result * size
    return result


def is_same(left: AnySize, right: AnySize) -> bool:
    """True if two sizes are equal for all free sizes; leaves no guard."""
    if type(left) is int and type(right) is int:
        return left == right
    return expression_of(left) == expression_of(right)


def agree(left: AnySize, right: AnySize) -> bool:
    """True if two sizes are equal in this recording. For checks: sizes that differ must lead to an error."""
    if left is right or is_same(left, right):
        return True
    free = left.free if isinstance(left, Size) else right.free if isinstance(right, Size) else None
    if free is None or number_of(left) != number_of(right):
        wish_equal(left, right)
        return left == right
    if (root := (expression_of(left) - expression_of(right)).root()) is not None:
        free.only.setdefault(*root)
    return free.is_equal(expression_of(left), expression_of(right), required=True)


def wish_equal(left: AnySize, right: AnySize) -> None:
    """Note the number of a free size with which two sizes that differ would be equal, if there is one."""
    free = left.free if isinstance(left, Size) else right.free if isinstance(right, Size) else None
    if free is not None:
        root = (expression_of(left) - expression_of(right)).replaced(free.only).root()
        if root is not None:
            free.wanted.setdefault(*root)
        else:
            free.unequal.append((expression_of(left), expression_of(right)))


def are_at_least(least: int, sizes: Iterable[AnySize]) -> bool:
    """True if no size is below a number in this recording. For checks: smaller sizes must lead to an error."""
    return not any(
        size.free.is_less(size.expression, Polynomial.of(least), required=True)
        if isinstance(size, Size)
        else size < least
        for size in sizes
    )


def is_plain(shape: Sequence[AnySize]) -> bool:
    """True if no size is free."""
    return not any(isinstance(size, Size) for size in shape)


def is_same_shape(left: Sequence[AnySize], right: Sequence[AnySize]) -> bool:
    """True if two shapes are equal for all free sizes; leaves no guard."""
    return len(left) == len(right) and all(map(is_same, left, right))


def broadcast(*shapes: Sequence[AnySize]) -> Shape | None:
    """The shape that all of these have when axes of size 1 are repeated, matched from the last axis; None if there is none.

    A 1 that is a plain number is repeated; sizes that have to be equal, or that are 1 in this recording, leave a guard.
    """
    with_axes = [shape for shape in shapes if len(shape)]
    if len(with_axes) == 1:
        return tuple(with_axes[0])
    rank = max(map(len, with_axes), default=0)
    result: list[AnySize] = []
    for axis in range(-rank, 0):
        common: AnySize = 1
        for size in (shape[axis] for shape in with_axes if len(shape) >= -axis):
            if isinstance(size, int) and size == 1:
                continue
            if isinstance(common, int) and common == 1:
                common = size
            elif agree(common, size) or size == 1:
                continue
            elif common == 1:
                common = size
            else:
                return None
        result.append(common)
    return tuple(result)


def _users_line() -> str:
    """The line of code outside this package that is running."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
