"""Complex numbers: a last axis of two, the real and the imaginary part, and Fourier transforms to and from them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ....graph import functions as F
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
    return F.stack([F.expand(part.numbers, *call.shape) for part in (real, imag)], -1)


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


@operation(COMPLEX, "cfloat")
def cfloat(call: Call, input: ForeignTensor) -> Any:
    return _pairs(input)


@operation(COMPLEX, "angle")
def angle(call: Call, input: ForeignTensor) -> Any:
    first, second = _parts(input)
    return F.atan2(F.zeros_like(first) if second is None else second, first)


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


def _quotient(call: Call, input: Any, other: Any) -> Any:
    (a, b), (c, d) = _parts(input), _parts(other)
    if d is None:
        return F.stack([F.div(a, c), F.div(b, c)], -1)
    size = F.add(F.square(c), F.square(d)) if not isinstance(c, float) else c * c + d * d
    b = 0.0 if b is None else b
    first, second = F.add(F.mul(a, c), F.mul(b, d)), F.sub(F.mul(b, c), F.mul(a, d))
    return F.stack([F.div(first, size), F.div(second, size)], -1)


def _exponential(call: Call, input: ForeignTensor) -> Any:
    first, second = _parts(input)
    size = F.exp(first)
    return F.stack([F.mul(size, F.cos(second)), F.mul(size, F.sin(second))], -1)


def _cast(call: Call, input: ForeignTensor, *options: Any, **named: Any) -> Any:
    if call.kinds[0] != "c":
        raise Misfit("complex numbers become real ones in it. Use torch.view_as_real, .real or .imag")
    return _pairs(input)


# Functions that do the same to both parts, and products of them.


def _mapped(given: Any, change: Any) -> Any:
    """Arguments with something else in place of tensors."""
    if isinstance(given, ForeignTensor):
        return change(given)
    if isinstance(given, (tuple, list)):
        return type(given)(_mapped(part, change) for part in given)
    if isinstance(given, dict):
        return {name: _mapped(part, change) for name, part in given.items()}
    return given


def _tensors(given: Any) -> list[ForeignTensor]:
    operands: list[ForeignTensor] = []
    _mapped(given, operands.append)
    return operands


def _part(x: ForeignTensor, number: int) -> ForeignTensor:
    """The real or the imaginary part of a tensor; whole numbers and masks say where, and belong to both."""
    if x.kind == "c":
        return ForeignTensor(F.select(x.value, -1, number), "f")
    return ForeignTensor(F.zeros_like(x.numbers), "f") if number and x.kind == "f" else x


def _flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def _joined(call: Call, parts: list[Any]) -> Any:
    """Complex numbers from the results for both parts."""
    pairs = []
    for shape, *both in zip(call.shapes, *map(_flat, parts), strict=True):
        held = [x.numbers if isinstance(x, ForeignTensor) else ForeignTensor(x).numbers for x in both]
        pairs.append(F.stack([F.expand(x, *shape) for x in held], -1))
    return tuple(pairs) if len(pairs) > 1 else pairs[0]


def _by_parts(name: str) -> Any:
    """A linear function: the same for the real and for the imaginary part."""

    def handler(call: Call, *args: Any, **named: Any) -> Any:
        inner = Call(call.name, call.shapes, tuple("f" if kind == "c" else kind for kind in call.kinds))
        runs = []
        for number in (0, 1):
            given = _mapped((args, named), lambda x, number=number: _part(x, number))
            runs.append(FUNCTIONS[name](inner, *_values(name, given[0], number), **given[1]))
        return _joined(call, runs)

    return handler


def _values(name: str, args: Sequence[Any], number: int) -> list[Any]:
    """Arguments with the part of a number that is written somewhere."""
    places = {"where": (1, 2), "masked_fill": (2,), "masked_fill_": (2,), "__setitem__": (2,), "fill_": (0,)}.get(
        name, ()
    )
    return [
        (x.imag if number else x.real) if i in places and isinstance(x, (int, float, complex)) else x
        for i, x in enumerate(args)
    ]


def _by_products(name: str) -> Any:
    """A function that is linear in each of its tensors: all products of parts, of which two imaginary ones make minus one."""

    def handler(call: Call, *args: Any, **named: Any) -> Any:
        inner = Call(call.name, call.shapes, ("f",))
        count = sum(x.kind == "c" for x in _tensors((args, named)))
        sums: list[Any] = [None, None]
        for choice in itertools.product((0, 1), repeat=count):
            numbers = iter(choice)
            given = _mapped((args, named), lambda x, numbers=numbers: _part(x, next(numbers)) if x.kind == "c" else x)
            term, turns = FUNCTIONS[name](inner, *given[0], **given[1]), sum(choice)
            term = F.neg(term) if turns % 4 > 1 else term
            sums[turns % 2] = term if sums[turns % 2] is None else F.add(sums[turns % 2], term)
        return F.stack(sums, -1)

    return handler


_LINEAR = (
    "reshape", "view", "view_as", "reshape_as", "flatten", "unflatten", "squeeze", "unsqueeze", "ravel", "contiguous", "clone",
    "detach", "permute", "transpose", "swapaxes", "swapdims", "t", "T", "mT", "movedim", "moveaxis", "expand", "expand_as",
    "broadcast_to", "repeat", "tile", "repeat_interleave", "__getitem__", "__setitem__", "split", "split_with_sizes", "chunk",
    "tensor_split", "unbind", "narrow", "select", "index_select", "flip", "roll", "diagonal", "diag_embed", "trace", "diff",
    "unfold", "tril", "triu", "cat", "concat", "concatenate", "stack", "sum", "mean", "cumsum", "neg", "negative", "__neg__",
    "where", "masked_fill", "masked_fill_", "copy_", "fill_", "zero_", "gather", "take_along_dim", "scatter_add", "index_add",
    "F.pad", "constant_pad_nd",
)  # fmt: skip
_MULTILINEAR = ("matmul", "mm", "bmm", "mv", "dot", "__matmul__", "__rmatmul__", "einsum", "outer", "ger")

OF_COMPLEX: dict[str, Any] = {
    **{name: FUNCTIONS[name] for name in FUNCTIONS if FUNCTIONS[name].__module__ == __name__},
    **dict.fromkeys(("abs", "absolute", "__abs__"), _absolute),
    **dict.fromkeys(("add", "add_", "__add__", "__radd__", "__iadd__"), _sum(F.add)),
    **dict.fromkeys(("sub", "sub_", "subtract", "__sub__", "__isub__"), _sum(F.sub)),
    "__rsub__": _sum(F.sub, swapped=True),
    **dict.fromkeys(("mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__"), _product),
    **dict.fromkeys(("div", "div_", "divide", "true_divide", "__truediv__", "__itruediv__"), _quotient),
    **dict.fromkeys(("__rtruediv__", "__rdiv__"), lambda call, input, other: _quotient(call, other, input)),
    "reciprocal": lambda call, input: _quotient(call, 1.0, input),
    "exp": _exponential,
    **dict.fromkeys(("to", "type", "cfloat"), _cast),
    **{name: _by_parts(name) for name in _LINEAR},
    **{name: _by_products(name) for name in _MULTILINEAR},
}
"""Functions of complex numbers, by name."""
