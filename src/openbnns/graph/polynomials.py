"""Whole numbers that depend on free sizes: sums, products and floor divisions of names such as N and T.

A polynomial has one form: terms in order, each a coefficient and the factors that it multiplies. So two expressions that are
equal for all sizes because of the rules of arithmetic are the same polynomial: ``(N + 1) * 2 - 2`` is ``2*N``. Free sizes are at
least 1, which decides many comparisons without knowing them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True)
class Quotient:
    """A floor division that does not come out even for all sizes."""

    dividend: Polynomial
    divisor: Polynomial

    def __str__(self) -> str:
        return f"({_enclosed(self.dividend)}//{_enclosed(self.divisor)})"


Factor = str | Quotient
"""The name of a free size, or a quotient."""

Factors = tuple[Factor, ...]


@dataclass(frozen=True)
class Polynomial:
    """A sum of ``terms``: factors, sorted, and by what number they are multiplied; no two have the same factors."""

    terms: tuple[tuple[Factors, int], ...]

    @staticmethod
    def of(value: int | str) -> Polynomial:
        """A number, or the free size of that name."""
        if isinstance(value, str):
            return Polynomial((((value,), 1),))
        return Polynomial((((), value),) if value else ())

    @property
    def constant(self) -> int | None:
        """The number that it is for all sizes, if it is one."""
        if not self.terms:
            return 0
        factors, number = self.terms[0]
        return number if len(self.terms) == 1 and not factors else None

    @property
    def at_zero(self) -> int:
        """The term that is a number alone: the value if all factors are 0."""
        return sum(number for factors, number in self.terms if not factors)

    def without_constant(self) -> Polynomial:
        """The same without that term."""
        return Polynomial(tuple(term for term in self.terms if term[0]))

    def __add__(self, other: Polynomial) -> Polynomial:
        return _sum([*self.terms, *other.terms])

    def __neg__(self) -> Polynomial:
        return Polynomial(tuple((factors, -number) for factors, number in self.terms))

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        return _sum(
            (tuple(sorted((*left, *right), key=str)), a * b) for left, a in self.terms for right, b in other.terms
        )

    def __floordiv__(self, divisor: Polynomial) -> Polynomial:
        """The quotient, rounded down. The divisor is not 0 for any sizes that are used."""
        exact = _exactly_divided(self, divisor) if len(divisor.terms) > 1 else None
        if exact is not None:
            return exact
        whole: list[tuple[Factors, int]] = []
        rest: list[tuple[Factors, int]] = []
        for factors, number in self.terms:
            quotient, remainder = _divided(factors, number, divisor)
            whole += quotient
            rest += remainder
        left = Polynomial(tuple(rest))
        if left.constant is not None and divisor.constant is not None:
            whole.append(((), left.constant // divisor.constant))
        elif rest:
            whole.append(((Quotient(left, divisor),), 1))
        return _sum(whole)

    def __mod__(self, divisor: Polynomial) -> Polynomial:
        return self - divisor * (self // divisor)

    def value(self, sizes: Mapping[str, int]) -> int:
        """The number that it is for these sizes."""
        return sum(number * prod(_factor_value(factor, sizes) for factor in factors) for factors, number in self.terms)

    def least(self) -> int | None:
        """A number that it is never below, whatever the free sizes; None if none is known."""
        total = 0
        for factors, number in self.terms:
            bounds = [_factor_least(factor) for factor in factors]
            if number < 0 and bounds:
                return None
            if any(bound is None for bound in bounds):
                return None
            total += number * prod(bound for bound in bounds if bound is not None)
        return total

    def replaced(self, by: Mapping[str, str | int]) -> Polynomial:
        """The same with other names, or numbers, in place of free sizes."""
        total = Polynomial.of(0)
        for factors, number in self.terms:
            term = Polynomial.of(number)
            for factor in factors:
                if isinstance(factor, str):
                    term *= Polynomial.of(by.get(factor, factor))
                else:
                    term *= factor.dividend.replaced(by) // factor.divisor.replaced(by)
            total += term
        return total

    def root(self) -> tuple[str, int] | None:
        """A free size and the one number of it that makes this 0, whatever the others; None if there is none.

        ``16*N*T - 112*N`` is 0 if T is 7.
        """
        for name in sorted(self.names()):
            times = _sum((_without(factors, name), number) for factors, number in self.terms if name in factors)
            rest = _sum((factors, number) for factors, number in self.terms if name not in factors)
            if times.terms and name not in times.names() | rest.names():
                quotient = _exactly_divided(-rest, times)
                if quotient is not None and quotient.constant is not None and quotient.constant > 0:
                    return name, quotient.constant
        return None

    def names(self) -> set[str]:
        """The free sizes that it depends on."""
        names: set[str] = set()
        for factors, _ in self.terms:
            for factor in factors:
                names |= {factor} if isinstance(factor, str) else factor.dividend.names() | factor.divisor.names()
        return names

    def __str__(self) -> str:
        text = ""
        for factors, number in self.terms:
            shown = "*".join([*([str(abs(number))] if abs(number) != 1 or not factors else []), *map(str, factors)])
            text += (" - " if number < 0 else " + ") + shown if text else ("-" if number < 0 else "") + shown
        return text or "0"


def _sum(terms: Iterable[tuple[Factors, int]]) -> Polynomial:
    """Terms with the same factors joined, in the order in which they are shown: numbers last."""
    totals: dict[Factors, int] = {}
    for factors, number in terms:
        totals[factors] = totals.get(factors, 0) + number
    kept = [(factors, number) for factors, number in totals.items() if number]
    return Polynomial(tuple(sorted(kept, key=lambda term: (-len(term[0]), list(map(str, term[0]))))))


Terms = list[tuple[Factors, int]]


def _divided(factors: Factors, number: int, divisor: Polynomial) -> tuple[Terms, Terms]:
    """The part of a term that a divisor divides for all sizes, divided, and the rest of the term."""
    if len(divisor.terms) == 1:
        (by, count), others = divisor.terms[0], list(factors)
        for factor in by:
            if factor not in others:
                return [], [(factors, number)]
            others.remove(factor)
        quotient, remainder = divmod(number, count)
        return [(tuple(others), quotient)], [(factors, remainder)] if remainder else []
    return [], [(factors, number)]


_MOST_STEPS = 64  # of a long division; sizes of networks take a few


def _exactly_divided(dividend: Polynomial, divisor: Polynomial) -> Polynomial | None:
    """The polynomial that the divisor is multiplied by in the dividend, found by long division; None if there is none."""
    (by, count), whole = divisor.terms[0], Polynomial.of(0)
    for _ in range(_MOST_STEPS):
        if not dividend.terms:
            return whole
        factors, number = dividend.terms[0]
        others = list(factors)
        if number % count or any(by.count(factor) > factors.count(factor) for factor in by):
            return None
        for factor in by:
            others.remove(factor)
        step = Polynomial(((tuple(others), number // count),))
        whole, dividend = whole + step, dividend - step * divisor
    return None


def _without(factors: Factors, name: str) -> Factors:
    """The factors without the first that is this name."""
    at = factors.index(name)
    return (*factors[:at], *factors[at + 1 :])


def _factor_value(factor: Factor, sizes: Mapping[str, int]) -> int:
    if isinstance(factor, str):
        return sizes[factor]
    return factor.dividend.value(sizes) // factor.divisor.value(sizes)


def _factor_least(factor: Factor) -> int | None:
    if isinstance(factor, str):
        return 1
    dividend, divisor = factor.dividend.least(), factor.divisor.least()
    return 0 if dividend is not None and dividend >= 0 and divisor is not None and divisor > 0 else None


def _enclosed(polynomial: Polynomial) -> str:
    text = str(polynomial)
    simple = len(polynomial.terms) == 1 and "*" not in text and not text.startswith("-")
    return text if simple else f"({text})"
