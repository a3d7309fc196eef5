"""Complex numbers: a last axis of two, the real and the imaginary part, and Fourier transforms to and from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....nn import functional as F
from ...converted.tensors import ForeignTensor, Misfit
from ._registry import FUNCTIONS, Call, operation, plain

COMPLEX = "complex numbers"


def _parts(x: Any) -> tuple[Any, Any]:
    """Real and imaginary part; None for that of a real number."""
    if not isinstance(x, ForeignTensor):
        number = plain(x, "a number")
        return (number.real, number.imag) if isinstance(number, complex) else (number, None)
    if x.kind != "c":
        return x.broadcast, None
    return F.select(x.value, -1, 0), F.select(x.value, -1, 1)


def _pairs(x: ForeignTensor) -> Any:
    """A tensor as complex numbers."""
    return x.value if x.kind == "c" else F.stack([x.numbers, F.zeros_like(x.numbers)], -1)


def _transform(x: Any, kind: str, sizes: Sequence[Any], axes: Sequence[int], norm: Any) -> Any:
    """A transform along several axes, of which the last is halved by those of real numbers."""
    inverse, real = "i" in kind.replace("fft", ""), "r" in kind
    steps = list(zip(sizes, axes, strict=True))
    inner = F.ifft if inverse else F.fft
    if real and not inverse:
        x = F.rfft(x, steps[-1][0], steps[-1][1], norm)
        steps.pop()
    last = steps.pop() if real and inverse else None
    for n, axis in steps:
        x = inner(x, n, axis, norm)
    return x if last is None else F.irfft(x, last[0], last[1], norm)


def _fourier(kind: str, axes: int | None) -> Any:
    def handler(
        call: Call, input: ForeignTensor, s: Any = None, dim: Any = None, norm: Any = None, *, n: Any = None
    ) -> Any:
        rank = input.rank - (input.kind == "c")
        sizes = s if n is None else n
        sizes = sizes if sizes is None or isinstance(sizes, (tuple, list)) else (sizes,)
        chosen: Any = dim if dim is None or isinstance(dim, (tuple, list)) else (dim,)
        if chosen is None:
            chosen = range(-(axes or (rank if sizes is None else len(sizes))), 0)
        if kind == "rfft" and input.kind == "c":
            raise Misfit("a transform of real numbers gets complex ones")
        x = input.numbers if kind == "rfft" else _pairs(input)
        known = [None] * len(chosen) if sizes is None else [None if m == -1 else m for m in sizes]
        return _transform(x, kind, known, [int(axis) % rank for axis in chosen], norm)

    return handler


for _kind in ("fft", "ifft", "rfft", "irfft"):
    for _ending, _count in (("", 1), ("2", 2), ("n", None)):
        operation(COMPLEX, f"fft.{_kind}{_ending}")(_fourier(_kind, _count))


@operation(COMPLEX, "real")
def real(call: Call, input: ForeignTensor) -> Any:
    return _parts(input)[0] if input.kind == "c" else input


@operation(COMPLEX, "imag")
def imag(call: Call, input: ForeignTensor) -> Any:
    return _parts(input)[1]


@operation(COMPLEX, "view_as_real", "view_as_complex")
def pairs(call: Call, input: ForeignTensor) -> Any:
    return input.value


@operation(COMPLEX, "complex")
def complex_of(call: Call, real: ForeignTensor, imag: ForeignTensor) -> Any:
    return F.stack([real.numbers, imag.numbers], -1)


@operation(COMPLEX, "polar")
def polar(call: Call, abs: ForeignTensor, angle: ForeignTensor) -> Any:
    length, turn = abs.numbers, angle.numbers
    return F.stack([F.mul(length, F.cos(turn)), F.mul(length, F.sin(turn))], -1)


@operation(COMPLEX, "conj", "conj_physical", "resolve_conj")
def conj(call: Call, input: ForeignTensor) -> Any:
    if input.kind != "c" or call.name == "resolve_conj":
        return input
    first, second = _parts(input)
    return F.stack([first, F.neg(second)], -1)


@operation(COMPLEX, "angle")
def angle(call: Call, input: ForeignTensor) -> Any:
    first, second = _parts(input)
    return F.atan2(second, first)


def _absolute(call: Call, input: ForeignTensor) -> Any:
    return F.norm(input.value, 2, -1)


def _sum(function: Any, swapped: bool = False) -> Any:
    def handler(call: Call, input: Any, other: Any) -> Any:
        (a, b), (c, d) = (_parts(x) for x in ((other, input) if swapped else (input, other)))
        first = function(a, c)
        second = function(0.0 if b is None else b, 0.0 if d is None else d)
        return F.stack([first, F.expand(second, *first.shape)], -1)

    return handler


def _product(call: Call, input: Any, other: Any) -> Any:
    (a, b), (c, d) = _parts(input), _parts(other)
    if d is None:
        return F.stack([F.mul(a, c), F.mul(b, c)], -1)
    if b is None:
        return F.stack([F.mul(a, c), F.mul(a, d)], -1)
    return F.stack([F.sub(F.mul(a, c), F.mul(b, d)), F.add(F.mul(a, d), F.mul(b, c))], -1)


OF_COMPLEX: dict[str, Any] = {
    **{name: FUNCTIONS[name] for name in FUNCTIONS if FUNCTIONS[name].__module__ == __name__},
    **dict.fromkeys(("abs", "absolute", "__abs__"), _absolute),
    **dict.fromkeys(("add", "add_", "__add__", "__radd__", "__iadd__"), _sum(F.add)),
    **dict.fromkeys(("sub", "sub_", "subtract", "__sub__", "__isub__"), _sum(F.sub)),
    "__rsub__": _sum(F.sub, swapped=True),
    **dict.fromkeys(("mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__"), _product),
}
"""Functions of complex numbers, by name."""
