"""Random arguments for every function of ``nn.functional``, for comparisons with PyTorch and with loops in float64.

Shapes come from a generator that changes with every third seed, all else from one that changes with every seed: calls with the
same shapes and other plain arguments follow each other, so that a program that is kept for one must not serve another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Given = tuple[tuple[Any, ...], dict[str, Any]]
SPECIAL = (np.inf, -np.inf, np.nan, -0.0, 0.0, 1e-40, -1e18, 1.0, -1.0)
WHOLE = (np.int64, np.int32, np.uint8)
LARGE = {np.int64: 2**40, np.int32: 2**30, np.uint8: 255}


class Draw:
    """Random shapes, arrays and choices; ``special`` allows numbers without finite slopes, and types other than float32."""

    def __init__(self, seed: int, special: bool = False) -> None:
        self.shapes, self.random, self.special = (
            np.random.default_rng([1, seed // 3]),
            np.random.default_rng([2, seed]),
            special,
        )

    def size(self, low: int = 1, high: int = 5) -> int:
        return int(self.shapes.integers(low, high + 1))

    def shape(self, low: int = 0, high: int = 4, empty: bool = False) -> tuple[int, ...]:
        sizes = [1, 2, 3, 5, 7, *([0] if empty and self.special else [])]
        return tuple(int(self.shapes.choice(sizes)) for _ in range(self.size(low, high)))

    def broadcast(self, count: int) -> list[tuple[int, ...]]:
        """Shapes that fit together."""
        whole = self.shape(0, 4, empty=True)
        return [
            tuple(n if self.shapes.random() < 0.7 else 1 for n in whole)[
                int(self.shapes.integers(len(whole) + 1)) if i else 0 :
            ]
            for i in range(count)
        ]

    def pick(self, *options: Any) -> Any:
        return options[int(self.random.integers(len(options)))]

    def chance(self, share: float = 0.5) -> bool:
        return bool(self.random.random() < share)

    def integer(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both possible."""
        return int(self.random.integers(low, high + 1))

    def axis(self, rank: int) -> int:
        return self.integer(-rank, rank - 1) if rank else self.pick(0, -1)

    def axes(self, rank: int) -> Any:
        """Nothing, one axis, or several in any order."""
        if rank == 0 or self.chance(0.3):
            return None
        chosen = self.random.permutation(rank)[: self.integer(1, rank)]
        return self.axis(rank) if self.chance(0.4) else tuple(int(a) - rank * self.integer(0, 1) for a in chosen)

    def laid_out(self, array: Any) -> Any:
        """The same numbers in C order, transposed, or with gaps between them."""
        layout = self.integer(0, 3)
        if layout == 1:
            return np.asfortranarray(array)
        if layout == 2 and array.ndim:
            wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
            wide[..., ::2] = array
            return wide[..., ::2]
        if layout == 3 and array.ndim:
            return np.ascontiguousarray(array[::-1])[::-1]
        return array

    def floats(self, *shape: int, low: float = -2, high: float = 2, special: bool = True) -> Any:
        x = np.asarray(self.random.uniform(low, high, shape), np.float32)
        if self.special and special and self.chance():
            x = np.where(self.random.random(shape) < 0.3, self.random.choice(SPECIAL, shape), x).astype(np.float32)
        return self.laid_out(np.asarray(x))

    def whole(self, *shape: int, low: int | None = None, high: int = 9) -> Any:
        kind = self.pick(*WHOLE)
        if low is None and self.chance(0.3):
            high = LARGE[kind]
        least = -high if low is None else low
        return self.laid_out(
            np.asarray(self.random.integers(0 if kind is np.uint8 else least, high, shape, endpoint=True), kind)
        )

    def array(self, *shape: int, low: float = -2, high: float = 2) -> Any:
        """Numbers of any type: float32, whole numbers, or booleans."""
        kind = self.integer(0, 5) if self.special else 0
        if kind < 3:
            return self.floats(*shape, low=low, high=high)
        return self.whole(*shape) if kind < 5 else self.laid_out(np.asarray(self.random.random(shape) < 0.5))

    def indices(self, limit: int, *shape: int, low: int = 0) -> Any:
        return self.laid_out(np.asarray(self.random.integers(low, limit, shape), np.int64))

    def mask(self, *shape: int) -> Any:
        return self.laid_out(np.asarray(self.random.random(shape) < 0.5))

    def number(self) -> Any:
        return self.pick(self.integer(-3, 3), round(float(self.random.uniform(-2, 2)), 2))


def given(*args: Any, **named: Any) -> Given:
    return args, named


Maker = Callable[[Draw], Given]
RANDOM = ("bernoulli", "dropout", "rand", "rand_like", "randn", "randn_like", "randperm")
"""Functions whose results are random, so that there is nothing to compare but their distribution."""
ARGUMENTS: dict[str, Maker] = {}


def arguments(*names: str) -> Callable[[Maker], Maker]:
    def register(make: Maker) -> Maker:
        ARGUMENTS.update(dict.fromkeys(names, make))
        return make

    return register


# Elementwise.

_ANY_NUMBER = (
    "abs ceil cos erf erfc exp exp2 expm1 floor frac isfinite isinf isnan logical_not neg relu relu6 selu sigmoid sign silu sin "
    "sinc sinh cosh softsign square tan tanh tanhshrink trunc asinh atan detach hardsigmoid hardswish logsigmoid mish round "
    "ones_like zeros_like"
)
_WITHIN = {
    **dict.fromkeys(("acos", "asin", "atanh"), (-0.9, 0.9)),
    **dict.fromkeys(("log", "log10", "log2", "rsqrt", "sqrt"), (0.1, 9)),
    "acosh": (1.1, 4), "log1p": (-0.9, 4), "reciprocal": (0.2, 3),
}  # fmt: skip
_ONE_NUMBER: dict[str, tuple[float, float]] = {
    "celu": (0.3, 2), "elu": (0.3, 2), "leaky_relu": (0, 1), "hardshrink": (0, 1), "softshrink": (0, 1),
}  # fmt: skip


def _unary(low: float, high: float) -> Maker:
    return lambda d: given(d.array(*d.shape(empty=True), low=low, high=high))


ARGUMENTS |= {name: _unary(-3, 3) for name in _ANY_NUMBER.split()}
ARGUMENTS |= {name: _unary(*ends) for name, ends in _WITHIN.items()}


def _with_number(low: float, high: float) -> Maker:
    """An array, and a number between two ends or none."""
    return lambda d: given(d.floats(*d.shape(), low=-3, high=3), *d.pick((), (float(d.random.uniform(low, high)),)))


ARGUMENTS |= {name: _with_number(*ends) for name, ends in _ONE_NUMBER.items()}
ARGUMENTS["full_like"] = lambda d: given(d.floats(*d.shape()), d.number())


def _two(d: Draw, low: float = -2, high: float = 2) -> Given:
    a, b = (d.array(*shape, low=low, high=high) for shape in d.broadcast(2))
    which = d.integer(0, 5)
    return given(a if which else d.number(), b if which != 1 else d.number())


@arguments("mul", "maximum", "minimum", "gt", "ge", "lt", "le", "eq", "ne", "logical_and", "logical_or", "logical_xor")
def _arithmetic(d: Draw) -> Given:
    return _two(d)


@arguments("add", "sub")
def _sums(d: Draw) -> Given:
    args, _ = _two(d)
    return given(*args, **({} if d.chance() else {"alpha": d.pick(2, -3, 0.5)}))


@arguments("atan2", "logaddexp", "hypot")
def _pairs(d: Draw) -> Given:
    a, b = d.broadcast(2)
    return given(d.array(*a, low=0.2), d.array(*b, low=0.2))


@arguments("div", "remainder", "fmod", "floor_divide")
def _divided(d: Draw) -> Given:
    a, b = d.broadcast(2)
    x = d.array(*a, low=-9, high=9)
    if d.chance(0.3):
        return given(x, d.pick(3, -2, 0.7, 2.5))
    y = d.array(*b, low=0.5, high=4)
    y = (
        np.where(y == 0, y.dtype.type(1), y) if y.dtype.kind != "f" else y
    )  # division of whole numbers by 0 has no result
    return given(x if d.chance(0.8) else 7, np.asarray(d.pick(-1, 1) * y) if y.dtype == np.float32 else y)


@arguments("pow")
def _power(d: Draw) -> Given:
    a, b = d.broadcast(2)
    kind = d.integer(0, 3)
    if kind == 0:
        return given(d.array(*a), d.integer(0, 4))
    if kind == 1:
        return given(d.pick(2, 0.5, 3.0), d.floats(*b))
    if kind == 2:
        return given(d.floats(*a, low=0.2), d.pick(0.5, -1, -2.5, 1.5, -0.5, 1 / 3))
    return (
        given(d.floats(*a, low=0.2), d.floats(*b)) if d.chance(0.6) else given(d.whole(*a), d.whole(*b, low=0, high=3))
    )


@arguments("clamp", "clip")
def _clamped(d: Draw) -> Given:
    low, high = sorted(float(d.random.uniform(-2, 2)) for _ in range(2))
    ends = d.pick({"min": low}, {"max": high}, {"min": low, "max": high})
    return given(d.array(*d.shape(), low=-3, high=3), **ends)


@arguments("clamp_max", "clamp_min")
def _clamped_on_one_side(d: Draw) -> Given:
    return given(d.array(*d.shape()), d.pick(0.5, -1, 0))


@arguments("addcmul")
def _product_added(d: Draw) -> Given:
    return given(*(d.floats(*s) for s in d.broadcast(3)), **d.pick({}, {"value": 0.5}, {"value": -2}))


@arguments("lerp")
def _interpolated(d: Draw) -> Given:
    a, b, c = d.broadcast(3)
    arrays = [d.floats(*shape, special=False) for shape in (a, b, c)]
    return given(*arrays[:2], arrays[2] if d.chance() else d.pick(0.25, 0.75, 2.0))


@arguments("masked_fill")
def _filled(d: Draw) -> Given:
    whole, part = d.broadcast(2)
    return given(
        d.array(*np.broadcast_shapes(whole, part)), d.mask(*part), d.pick(0.5, -2, math.inf if d.special else 3)
    )


@arguments("where")
def _chosen(d: Draw) -> Given:
    a, b, c = d.broadcast(3)
    if not d.chance():
        return given(d.mask(*a), d.array(*b), d.array(*c))
    return given(d.mask(*a), d.floats(*b), d.number()) if d.chance() else given(d.mask(*a), d.number(), d.floats(*c))


@arguments("nan_to_num")
def _without_nan(d: Draw) -> Given:
    return given(d.array(*d.shape()), *d.pick((), (1.5,), (0.0, 5.0), (0.5, 7.0, -7.0)))


@arguments("gelu")
def _gelu(d: Draw) -> Given:
    return given(d.floats(*d.shape(), low=-4, high=4), **d.pick({}, {"approximate": "tanh"}, {"approximate": "none"}))


@arguments("glu")
def _gated(d: Draw) -> Given:
    shape = [2 * n for n in d.shape(1)]
    return given(d.floats(*shape), d.axis(len(shape)))


@arguments("hardtanh")
def _bounded(d: Draw) -> Given:
    return given(d.floats(*d.shape(), low=-3, high=3), *d.pick((), (-0.5, 0.7), (0.0, 2.0)))


@arguments("threshold")
def _threshold(d: Draw) -> Given:
    return given(d.floats(*d.shape()), d.pick(0.0, 0.5, -0.7), d.pick(0.0, 3.0, -1.0))


@arguments("softplus")
def _softplus(d: Draw) -> Given:
    return given(d.floats(*d.shape(), low=-4, high=4), *d.pick((), (2.0,), (0.5, 0.3)))


@arguments("prelu")
def _prelu(d: Draw) -> Given:
    shape = d.shape(2, 4)
    return given(d.floats(*shape), d.floats(shape[1] if d.shapes.random() < 0.5 else 1, low=0, high=1, special=False))


@arguments("softmax", "log_softmax", "softmin")
def _along_an_axis(d: Draw) -> Given:
    shape = d.shape(0)
    return given(d.floats(*shape, low=-5, high=5), dim=d.axis(len(shape)))


# Reductions, order and products.


@arguments("sum", "prod", "amax", "amin")
def _reduced(d: Draw) -> Given:
    shape = d.shape()
    return given(d.array(*shape), **({} if d.chance(0.2) else {"dim": d.axes(len(shape)), "keepdim": d.chance()}))


@arguments("mean", "logsumexp", "any", "all")
def _reduced_in_floats(d: Draw) -> Given:
    shape = d.shape()
    return given(d.floats(*shape), dim=d.axes(len(shape)), keepdim=d.chance())


@arguments("max", "min", "argmax", "argmin")
def _extreme(d: Draw) -> Given:
    shape = d.shape()
    return given(d.array(*shape), **({} if d.chance(0.3) else {"dim": d.axis(len(shape)), "keepdim": d.chance()}))


@arguments("var", "std")
def _spread(d: Draw) -> Given:
    shape = tuple(n + 1 for n in d.shape(1))
    return given(d.floats(*shape), dim=d.axes(len(shape)), correction=d.integer(0, 1), keepdim=d.chance())


@arguments("norm")
def _norm(d: Draw) -> Given:
    shape = d.shape()
    p = d.pick(2, 1, 0, 3, 0.5, -1, math.inf, -math.inf)
    return given(d.floats(*shape, special=False), p, dim=d.axes(len(shape)), keepdim=d.chance())


@arguments("normalize")
def _normalized(d: Draw) -> Given:
    shape = d.shape(2)
    return given(d.floats(*shape, special=False), d.pick(2.0, 1.0, 3.0), d.axis(len(shape)))


@arguments("cosine_similarity")
def _cosine(d: Draw) -> Given:
    shape = d.shape(1)
    return given(d.floats(*shape), d.floats(*shape), d.axis(len(shape)))


@arguments("pairwise_distance")
def _distance(d: Draw) -> Given:
    shape = d.shape(1, 2)
    return given(d.floats(*shape), d.floats(*shape), d.pick(2.0, 1.0, 3.0), keepdim=d.chance())


@arguments("cdist")
def _distances(d: Draw) -> Given:
    lead, width = d.shape(0, 2), d.size()
    return given(
        d.floats(*lead, d.size(), width, special=False),
        d.floats(*lead, d.size(), width, special=False),
        d.pick(2.0, 1.0, 3.0),
    )


@arguments("cumsum", "cumprod")
def _cumulative(d: Draw) -> Given:
    shape = d.shape(1)
    return given(d.array(*shape), d.axis(len(shape)))


@arguments("sort", "argsort")
def _sorted(d: Draw) -> Given:
    shape = d.shape(1)
    return given(d.array(*shape), d.axis(len(shape)), d.chance(), stable=True)


@arguments("topk")
def _largest(d: Draw) -> Given:
    shape, axis = d.shape(1), None
    axis = d.axis(len(shape))
    return given(_distinct(d, shape), d.integer(1, shape[axis]), axis, d.chance())


def _distinct(d: Draw, shape: tuple[int, ...]) -> Any:
    """Numbers that all differ: PyTorch does not say which of equal ones topk names."""
    places = d.random.permutation(math.prod(shape)).reshape(shape)
    return d.laid_out(places + d.pick(0, 2**23) if d.special and d.chance() else (places / 3).astype(np.float32))


@arguments("trace")
def _trace(d: Draw) -> Given:
    return given(d.array(d.size(), d.size()))


@arguments("diff")
def _differences(d: Draw) -> Given:
    shape = [n + 2 for n in d.shape(1, 3)]
    axis = d.axis(len(shape))
    more = {
        key: d.floats(*(1 if i == axis % len(shape) else n for i, n in enumerate(shape)))
        for key in ("prepend", "append")
        if d.chance(0.3)
    }
    return given(d.array(*shape) if not more else d.floats(*shape), d.integer(1, 2), axis, **more)


@arguments("matmul")
def _product(d: Draw) -> Given:
    n, k, m = d.size(), d.size(), d.size()
    lead, other = d.broadcast(2)[:2] if d.shapes.random() < 0.6 else ((), ())
    lead, other = (tuple(n or 2 for n in s)[-2:] for s in (lead, other))
    form = int(d.shapes.integers(7))
    if form == 0:
        return given(d.floats(k, special=False), d.floats(*other, k, m, special=False))
    if form == 1:
        return given(d.floats(*lead, n, k, special=False), d.floats(k, special=False))
    if form == 2:
        return given(d.floats(k, special=False), d.floats(k, special=False))
    return given(d.floats(*lead, n, k, special=False), d.floats(*other, k, m, special=False))


@arguments("bmm")
def _batches(d: Draw) -> Given:
    b, n, k, m = (d.size() for _ in range(4))
    return given(d.floats(b, n, k, special=False), d.floats(b, k, m, special=False))


@arguments("outer")
def _outer(d: Draw) -> Given:
    return given(d.floats(d.size()), d.floats(d.size()))


@arguments("linear")
def _linear(d: Draw) -> Given:
    n, m = d.size(), d.size()
    bias = [d.floats(m, special=False)] if d.shapes.random() < 0.6 else []
    return given(d.floats(*d.shape(0, 3), n, special=False), d.floats(m, n, special=False), *bias)


@arguments("einsum")
def _einsum(d: Draw) -> Given:
    sizes = {letter: d.size() for letter in "bijk"}
    equation = ("bij,bjk->bik", "ij,kj->ik", "bij->ji", "i,j->ij", "bij,j->bi", "bij,bij->b", "bijk,kj->bi")[
        d.size(0, 6)
    ]
    operands = (
        d.floats(*(sizes[letter] for letter in part), special=False) for part in equation.split("->")[0].split(",")
    )
    return given(equation, *operands)


@arguments("cross")
def _cross(d: Draw) -> Given:
    shape = list(d.shape(1, 3))
    axis = int(d.shapes.integers(len(shape)))
    shape[axis] = 3
    return given(d.floats(*shape), d.floats(*shape), dim=axis)


@arguments("scaled_dot_product_attention")
def _attention(d: Draw) -> Given:
    lead, t, s, e = d.shape(1, 2), d.size(), d.size(), d.size()
    q, k, v = (d.floats(*lead, n, e, special=False) for n in (t, s, s))
    seen = d.mask(t, s)
    seen[:, 0] = True  # a row that sees nothing has no result
    named = d.pick(
        {}, {"is_causal": True}, {"attn_mask": seen}, {"attn_mask": d.floats(t, s, special=False)}, {"scale": 0.3}
    )
    return given(q, k, v, **named)


# Shapes, arrangements and indices.


@arguments("permute")
def _permuted(d: Draw) -> Given:
    shape = d.shape(1)
    return given(d.array(*shape), tuple(int(i) for i in d.random.permutation(len(shape))))


@arguments("transpose", "swapdims", "Tensor.swapaxes", "movedim", "moveaxis")
def _swapped(d: Draw) -> Given:
    shape = d.shape(1)
    return given(d.array(*shape), d.axis(len(shape)), d.axis(len(shape)))


@arguments("flatten")
def _flattened(d: Draw) -> Given:
    shape = d.shape(1)
    first, last = sorted(d.integer(0, len(shape) - 1) for _ in range(2))
    return given(d.array(*shape), first, last)


@arguments("unflatten")
def _unflattened(d: Draw) -> Given:
    shape = list(d.shape(1, 3))
    axis, parts = int(d.shapes.integers(len(shape))), (d.size(1, 3), d.size(1, 3))
    shape[axis] = math.prod(parts)
    return given(d.array(*shape), axis, parts if d.chance() else (-1, parts[1]))


@arguments("reshape", "Tensor.view")
def _reshaped(d: Draw) -> Given:
    shape = d.shape(1)
    count = math.prod(shape)
    return given(
        np.ascontiguousarray(d.array(*shape)),
        d.pick((count,), (-1,), (1, count, 1), tuple(reversed(shape)), (*shape[1:], shape[0])),
    )


@arguments("squeeze")
def _squeezed(d: Draw) -> Given:
    shape = d.shape(1)
    return given(d.array(*shape), *([] if d.chance(0.4) else [d.axis(len(shape))]))


@arguments("unsqueeze")
def _unsqueezed(d: Draw) -> Given:
    shape = d.shape(0)
    return given(d.array(*shape), d.integer(-len(shape) - 1, len(shape)))


@arguments("expand")
def _expanded(d: Draw) -> Given:
    shape = d.shape(1, 3)
    wide = (d.size(), *(d.size() if n == 1 else n for n in shape))
    return given(d.array(*shape), *d.pick(wide, (wide[0], *(-1 for _ in shape))))


@arguments("repeat")
def _repeated(d: Draw) -> Given:
    shape = d.shape(0, 3)
    return given(d.array(*shape), *(d.integer(1, 3) for _ in range(len(shape) + d.integer(0 if shape else 1, 1))))


@arguments("repeat_interleave")
def _each_repeated(d: Draw) -> Given:
    shape = d.shape(1)
    return given(d.array(*shape), d.integer(1, 3), *([] if d.chance(0.3) else [d.axis(len(shape))]))


@arguments("flip")
def _flipped(d: Draw) -> Given:
    shape = d.shape(1)
    axes = d.axes(len(shape))
    return given(d.array(*shape), (0,) if axes is None else axes if isinstance(axes, tuple) else (axes,))


@arguments("roll")
def _rolled(d: Draw) -> Given:
    shape = d.shape(1)
    axes = d.axes(len(shape))
    shifts = tuple(d.integer(-4, 4) for _ in axes) if isinstance(axes, tuple) else d.integer(-4, 4)
    return given(d.array(*shape), shifts, axes)


@arguments("rot90")
def _rotated(d: Draw) -> Given:
    shape = d.shape(2)
    axes = d.random.permutation(len(shape))[:2]
    return given(d.array(*shape), d.integer(-2, 5), [int(a) for a in axes])


@arguments("tril", "triu")
def _triangle(d: Draw) -> Given:
    return given(d.array(*d.shape(2)), d.integer(-3, 3))


@arguments("diagonal")
def _diagonal(d: Draw) -> Given:
    shape = tuple(n + 2 for n in d.shape(2))
    a, b = (int(i) for i in d.random.permutation(len(shape))[:2])
    return given(d.array(*shape), d.integer(-2, 2), a, b)


@arguments("diag_embed")
def _embedded(d: Draw) -> Given:
    shape = d.shape(1, 3)
    a, b = (int(i) for i in d.random.permutation(len(shape) + 1)[:2])
    return given(d.array(*shape), d.integer(-2, 2), a, b)


@arguments("cat", "concat")
def _joined(d: Draw) -> Given:
    shape = list(d.shape(1))
    axis, count = int(d.shapes.integers(len(shape))), d.size(1, 3)
    sizes = [[d.size() if i == axis else n for i, n in enumerate(shape)] for _ in range(count)]
    make = d.whole if d.special and d.chance() else d.floats
    return given([make(*s) for s in sizes], axis - d.pick(0, len(shape)))


@arguments("stack")
def _stacked(d: Draw) -> Given:
    shape = d.shape(0, 3)
    make = d.whole if d.special and d.chance() else d.floats
    return given([make(*shape) for _ in range(d.size(1, 3))], d.integer(-len(shape) - 1, len(shape)))


@arguments("chunk")
def _chunks(d: Draw) -> Given:
    shape = d.shape(1)
    return given(d.array(*shape), d.integer(1, 4), d.axis(len(shape)))


@arguments("split")
def _split(d: Draw) -> Given:
    shape = d.shape(1)
    axis = d.axis(len(shape))
    first = d.integer(1, shape[axis])
    rest = shape[axis] - first
    return given(d.array(*shape), first if d.chance() or not rest else [first, rest], axis)


@arguments("tensor_split")
def _split_evenly(d: Draw) -> Given:
    shape = tuple(n + 4 for n in d.shape(1))
    return given(d.array(*shape), d.pick(1, 2, 3, [1, 3], [2]), d.axis(len(shape)))


@arguments("unbind")
def _unbound(d: Draw) -> Given:
    shape = d.shape(1)
    return given(d.array(*shape), d.axis(len(shape)))


@arguments("meshgrid")
def _grid(d: Draw) -> Given:
    return given(*(d.floats(d.size()) for _ in range(d.size(2, 3))), indexing=d.pick("ij", "xy"))


@arguments("narrow")
def _narrowed(d: Draw) -> Given:
    shape = d.shape(1)
    axis = d.axis(len(shape))
    start = d.integer(0, shape[axis] - 1)
    return given(d.array(*shape), axis, start, d.integer(1, shape[axis] - start))


@arguments("select")
def _selected(d: Draw) -> Given:
    shape = d.shape(1)
    axis = d.axis(len(shape))
    return given(d.array(*shape), axis, d.integer(-shape[axis], shape[axis] - 1))


@arguments("index_select")
def _entries(d: Draw) -> Given:
    shape = d.shape(1)
    axis = int(d.shapes.integers(len(shape)))
    return given(d.array(*shape), axis, d.indices(shape[axis], d.size()))


@arguments("index")
def _indexed(d: Draw) -> Given:
    shape, rows = tuple(n + 2 for n in d.shape(3, 4)), d.indices(3, 2).tolist()
    rest = (Ellipsis, slice(1, None))
    return given(
        d.floats(*shape), d.pick(1, -1, slice(None, None, 2), rest, (slice(None), [2, 0]), (slice(1, 3), None, 0), rows)
    )


@arguments("gather")
def _gathered(d: Draw) -> Given:
    shape = d.shape(1)
    axis = int(d.shapes.integers(len(shape)))
    return given(
        d.array(*shape), axis, d.indices(shape[axis], *(d.size() if i == axis else n for i, n in enumerate(shape)))
    )


@arguments("take_along_dim")
def _taken(d: Draw) -> Given:
    shape = d.shape(1)
    axis = int(d.shapes.integers(len(shape)))
    return given(
        d.array(*shape), d.indices(shape[axis], *(d.size() if i == axis else n for i, n in enumerate(shape))), axis
    )


@arguments("scatter")
def _scattered(d: Draw) -> Given:
    shape = d.shape(1)
    axis = int(d.shapes.integers(len(shape)))
    order = np.argsort(d.random.random(shape), axis)
    places = d.laid_out(
        np.take(order, range(d.integer(1, shape[axis])), axis)
    )  # of several for one place, PyTorch takes any
    return given(d.floats(*shape), axis, places, d.floats(*places.shape) if d.chance(0.7) else 0.5)


@arguments("scatter_add")
def _scattered_sums(d: Draw) -> Given:
    shape = d.shape(1)
    axis = int(d.shapes.integers(len(shape)))
    places = d.indices(shape[axis], *(d.size() if i == axis else n for i, n in enumerate(shape)))
    return given(d.floats(*shape, special=False), axis, places, d.floats(*places.shape, special=False))


@arguments("index_add")
def _added_entries(d: Draw) -> Given:
    shape, count = d.shape(1), d.size()
    axis = int(d.shapes.integers(len(shape)))
    source = d.floats(*(count if i == axis else n for i, n in enumerate(shape)), special=False)
    return given(
        d.floats(*shape, special=False), axis, d.indices(shape[axis], count), source, **d.pick({}, {"alpha": 0.5})
    )


@arguments("embedding")
def _rows(d: Draw) -> Given:
    rows = d.size(2)
    return given(
        d.indices(rows, *d.shape(1, 3)), d.floats(rows, d.size(), special=False), **d.pick({}, {"padding_idx": 1})
    )


@arguments("one_hot")
def _one_hot(d: Draw) -> Given:
    return given(d.indices(4, *d.shape(1, 3)), d.integer(4, 6))


@arguments("arange")
def _counted(d: Draw) -> Given:
    return given(*d.pick((5,), (2, 9), (2, 9, 3), (9, 2, -3), (0.5, 2.1, 0.25), (3.0,)))


@arguments("full")
def _full(d: Draw) -> Given:
    return given(d.shape(1), d.pick(1.5, -2.0))


@arguments("ones", "zeros")
def _constant(d: Draw) -> Given:
    return given(*d.shape(1))


# Transforms of pairs (real, imaginary).


def _spectrum(d: Draw, pairs: bool, axes: int) -> Given:
    shape = tuple(n + 2 for n in d.shape(axes, 3))
    x = d.floats(*shape, *([2] if pairs else []), special=False)
    rank, norm = len(shape), d.pick({}, {"norm": "ortho"}, {"norm": "forward"}, {"norm": "backward"})
    if axes == 1:
        return given(x, n=d.pick(None, 4, 7), dim=int(d.shapes.integers(rank)), **norm)
    return given(x, s=d.pick(None, (3, 4), (6, 5)), dim=d.pick((-2, -1), (0, 1)) if not pairs else (0, 1), **norm)


ARGUMENTS |= {name: lambda d: _spectrum(d, pairs=True, axes=1) for name in ("fft", "ifft", "irfft")}
ARGUMENTS |= {name: lambda d: _spectrum(d, pairs=True, axes=2) for name in ("fft2", "ifft2", "irfft2")}
ARGUMENTS["rfft"] = lambda d: _spectrum(d, pairs=False, axes=1)
ARGUMENTS["rfft2"] = lambda d: _spectrum(d, pairs=False, axes=2)


# Windows.


def _image(d: Draw, axes: int, channels: int, least: int) -> Any:
    return d.floats(d.size(1, 3), channels, *(least + d.size(0, 5) for _ in range(axes)), special=False)


def _each(d: Draw, axes: int, low: int, high: int) -> Any:
    """One number, or one for each axis."""
    return d.integer(low, high) if d.chance(0.4) else tuple(d.integer(low, high) for _ in range(axes))


def _convolution(d: Draw, axes: int) -> Given:
    groups, inner, outer = d.size(1, 3), d.size(1, 2), d.size(1, 3)
    kernel = tuple(d.size(1, 3 if axes == 3 else 4) for _ in range(axes))
    x, w = _image(d, axes, groups * inner, 8), d.floats(groups * outer, inner, *kernel, special=False)
    bias = [d.floats(groups * outer, special=False)] if d.shapes.random() < 0.6 else [None]
    padding = d.pick("same", "same", "valid", _each(d, axes, 0, 3), _each(d, axes, 0, 3))
    stride = 1 if padding == "same" else _each(d, axes, 1, 3)
    return given(x, w, *bias, stride=stride, padding=padding, dilation=_each(d, axes, 1, 2), groups=groups)


def _transposed(d: Draw, axes: int) -> Given:
    groups, inner, outer = d.size(1, 3), d.size(1, 2), d.size(1, 2)
    kernel = tuple(d.size(1, 3) for _ in range(axes))
    x, w = _image(d, axes, groups * inner, 2), d.floats(groups * inner, outer, *kernel, special=False)
    bias = [d.floats(groups * outer, special=False)] if d.shapes.random() < 0.6 else [None]
    stride = tuple(d.integer(1, 3) for _ in range(axes))
    more = tuple(d.integer(0, s - 1) for s in stride)
    padding = _each(d, axes, 0, 1) if min(kernel) > 1 else 0
    return given(
        x, w, *bias, stride=stride, padding=padding, output_padding=more, groups=groups, dilation=_each(d, axes, 1, 2)
    )


def _pooled(d: Draw, axes: int, kind: str) -> Given:
    kernel = tuple(d.size(1, 4) for _ in range(axes))
    x = _image(d, axes, d.size(1, 3), 8)
    padding = tuple(d.integer(0, k // 2) for k in kernel)
    named: dict[str, Any] = {"stride": d.pick(None, _each(d, axes, 1, 4)), "padding": padding, "ceil_mode": d.chance()}
    if kind == "max":
        named |= {"dilation": _each(d, axes, 1, 2), "return_indices": axes < 3 and d.chance(0.3)}
    elif axes == 1:
        named |= {"count_include_pad": d.chance()}
    else:
        named |= {"count_include_pad": d.chance(), "divisor_override": d.pick(None, None, 3)}
    return given(
        x,
        kernel[0] if axes == 1 else kernel,
        **{k: v[0] if axes == 1 and isinstance(v, tuple) else v for k, v in named.items()},
    )


def _lp_pooled(d: Draw, axes: int) -> Given:
    kernel = tuple(d.size(1, 3) for _ in range(axes))
    x = np.abs(_image(d, axes, 2, 6)) + np.float32(0.1)
    stride = d.pick(None, d.integer(1, 3))
    return given(x, d.pick(1.0, 2.0, 3.0), kernel[0] if axes == 1 else kernel, stride=stride, ceil_mode=d.chance())


def _unpooled(d: Draw, axes: int) -> Given:
    sizes = [d.size(1, 4) for _ in range(axes)]
    count = math.prod(sizes)
    x = d.floats(2, 3, *sizes, special=False)
    places = np.stack([d.random.permutation(count * 2**axes)[:count] for _ in range(6)]).reshape(x.shape)
    return given(x, d.laid_out(places), 2)


for _axes in (1, 2, 3):
    ARGUMENTS[f"conv{_axes}d"] = lambda d, axes=_axes: _convolution(d, axes)
    ARGUMENTS[f"conv_transpose{_axes}d"] = lambda d, axes=_axes: _transposed(d, axes)
    ARGUMENTS[f"max_pool{_axes}d"] = lambda d, axes=_axes: _pooled(d, axes, "max")
    ARGUMENTS[f"avg_pool{_axes}d"] = lambda d, axes=_axes: _pooled(d, axes, "avg")
    for _kind in ("avg", "max"):
        ARGUMENTS[f"adaptive_{_kind}_pool{_axes}d"] = lambda d, axes=_axes: given(
            _image(d, axes, 2, 3), _each(d, axes, 1, 5)
        )
    if _axes < 3:
        ARGUMENTS[f"lp_pool{_axes}d"] = lambda d, axes=_axes: _lp_pooled(d, axes)
        ARGUMENTS[f"max_unpool{_axes}d"] = lambda d, axes=_axes: _unpooled(d, axes)


@arguments("unfold")
def _unfolded(d: Draw) -> Given:
    return given(_image(d, 2, 2, 5), _each(d, 2, 1, 3), _each(d, 2, 1, 2), _each(d, 2, 0, 2), _each(d, 2, 1, 2))


@arguments("fold")
def _folded(d: Draw) -> Given:
    size, kernel, stride, padding, dilation = (
        [d.size(low, high) for _ in range(2)] for low, high in ((5, 8), (1, 3), (1, 2), (0, 1), (1, 2))
    )
    counts = [
        (n + 2 * p - g * (k - 1) - 1) // s + 1
        for n, k, s, p, g in zip(size, kernel, stride, padding, dilation, strict=True)
    ]
    x = d.floats(2, 3 * math.prod(kernel), math.prod(counts), special=False)
    return given(x, *map(tuple, (size, kernel)), dilation=tuple(dilation), padding=tuple(padding), stride=tuple(stride))


@arguments("local_response_norm")
def _response(d: Draw) -> Given:
    return given(
        _image(d, d.size(1, 2), d.size(1, 6), 2), d.integer(1, 5), **d.pick({}, {"alpha": 0.5, "beta": 0.6, "k": 2.0})
    )


# Norms, resizing, padding, shuffles.


@arguments("layer_norm", "rms_norm")
def _over_last_axes(d: Draw) -> Given:
    shape = tuple(n + 1 for n in d.shape(1))
    count = int(d.shapes.integers(1, len(shape) + 1))
    return given(
        d.floats(*shape, special=False), shape[-count:], *_scales(d, shape[-count:], 1), **d.pick({}, {"eps": 1e-3})
    )


def _scales(d: Draw, shape: tuple[int, ...], most: int) -> list[Any]:
    return [d.floats(*shape, special=False) for _ in range(int(d.shapes.integers(most + 1)))]


ARGUMENTS["layer_norm"] = lambda d: _with_bias(d, _over_last_axes(d))


def _with_bias(d: Draw, drawn: Given) -> Given:
    (x, shape, *weight), named = drawn
    return given(
        x, shape, *weight, *([d.floats(*shape, special=False)] if weight and d.shapes.random() < 0.7 else []), **named
    )


@arguments("group_norm")
def _groups(d: Draw) -> Given:
    groups, each = d.size(1, 3), d.size(1, 3)
    x = d.floats(d.size(1, 3), groups * each, *(n + 1 for n in d.shape(1, 3)), special=False)
    return given(x, groups, *_scales(d, (groups * each,), 2), **d.pick({}, {"eps": 1e-2}))


@arguments("batch_norm", "instance_norm")
def _channels(d: Draw) -> Given:
    channels = d.size(1, 4)
    x = d.floats(d.size(2, 4), channels, *(n + 1 for n in d.shape(1, 3)), special=False)
    return given(x, None, None, *_scales(d, (channels,), 2), **d.pick({}, {"eps": 1e-2}))


@arguments("interpolate")
def _resized(d: Draw) -> Given:
    axes = d.size(1, 3)
    linear = {1: "linear", 2: "bilinear", 3: "trilinear"}[axes]
    mode = d.pick("nearest", "nearest-exact", linear, linear, *(["bicubic"] if axes == 2 else []))
    aligned = {} if mode.startswith("nearest") else {"align_corners": d.chance()}
    if d.chance():
        return given(_image(d, axes, 2, 2), size=_each(d, axes, 1, 9), mode=mode, **aligned)
    factor = d.pick(2, 1.7, 0.6, 3.0)
    return given(
        _image(d, axes, 2, 2), scale_factor=factor, mode=mode, **aligned, **d.pick({}, {"recompute_scale_factor": True})
    )


@arguments("pad")
def _padded(d: Draw) -> Given:
    mode, axes = d.pick("constant", "reflect", "replicate", "circular"), d.size(1, 3)
    x = _image(d, axes, 2, 3)
    if mode == "constant":
        return given(
            x, [d.integer(-1, 3) for _ in range(2 * d.integer(1, x.ndim - 2))], mode, d.pick(None, 1.5, -math.inf)
        )
    return given(x, [d.integer(0, 2) for _ in range(2 * axes)], mode)


@arguments("pixel_shuffle")
def _shuffled(d: Draw) -> Given:
    r = d.size(1, 3)
    return given(d.floats(2, d.size(1, 2) * r * r, d.size(), d.size()), r)


@arguments("pixel_unshuffle")
def _unshuffled(d: Draw) -> Given:
    r = d.size(1, 3)
    return given(d.floats(2, d.size(1, 2), r * d.size(), r * d.size()), r)


@arguments("channel_shuffle")
def _channels_shuffled(d: Draw) -> Given:
    groups = d.size(1, 3)
    return given(d.floats(2, groups * d.size(1, 3), *d.shape(2, 2)), groups)  # PyTorch takes images alone


# Losses.


def _reduction(d: Draw) -> dict[str, Any]:
    return d.pick({}, {"reduction": "none"}, {"reduction": "sum"}, {"reduction": "mean"})


@arguments(
    "mse_loss",
    "l1_loss",
    "huber_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "hinge_embedding_loss",
    "poisson_nll_loss",
)
def _two_tensors(d: Draw) -> Given:
    shape = d.shape(1, 3)
    return given(d.floats(*shape, special=False), d.floats(*shape, special=False), **_reduction(d))


def _extended(
    name: str, options: Callable[[Draw], dict[str, Any]], target: Callable[[Draw, Any], Any] | None = None
) -> None:
    """The arguments of a loss with options of its own, or with other targets."""
    plain = ARGUMENTS[name]

    def make(d: Draw) -> Given:
        (y, t), named = plain(d)
        return given(y, t if target is None else target(d, t), **named, **options(d))

    ARGUMENTS[name] = make


def _signs(d: Draw, t: Any) -> Any:
    return np.where(t < 0, -1, 1).astype(np.int64 if d.special else np.float32)


_extended("huber_loss", lambda d: d.pick({}, {"delta": 0.7}, {"delta": 2.0}))
_extended("smooth_l1_loss", lambda d: d.pick({}, {"beta": 0.4}, {"beta": 2.0}))
_extended("soft_margin_loss", lambda d: {}, lambda d, t: np.sign(t) + np.float32(0))
_extended(
    "hinge_embedding_loss",
    lambda d: d.pick({}, {"margin": 0.5}),
    lambda d, t: np.where(t < 0, -1, 1).astype(np.float32),
)
_extended(
    "poisson_nll_loss", lambda d: d.pick({}, {"full": True}, {"log_input": True}), lambda d, t: np.floor(np.abs(t) * 3)
)


@arguments("binary_cross_entropy", "binary_cross_entropy_with_logits")
def _binary(d: Draw) -> Given:
    shape = d.shape(1, 3)
    y, t = (d.floats(*shape, low=0.05, high=0.95, special=False) for _ in range(2))
    return given(y, t, **_reduction(d), **d.pick({}, {"weight": d.floats(*shape, low=0.1, special=False)}))


@arguments("kl_div")
def _divergence(d: Draw) -> Given:
    shape, logs = d.shape(1, 3), d.chance()
    y, t = (d.floats(*shape, low=0.05, high=0.95, special=False) for _ in range(2))
    return given(
        np.log(y), np.log(t) if logs else t, log_target=logs, **d.pick({"reduction": "batchmean"}, _reduction(d))
    )


@arguments("gaussian_nll_loss")
def _gaussian(d: Draw) -> Given:
    shape = d.shape(1, 3)
    y, t = (d.floats(*shape, special=False) for _ in range(2))
    return given(y, t, d.floats(*shape, low=0.1, special=False), **d.pick({}, {"full": True}), **_reduction(d))


@arguments("cross_entropy", "nll_loss")
def _classes(d: Draw) -> Given:
    count, classes, behind = d.size(1, 4), d.size(2, 5), d.shape(0, 2)
    t = d.indices(classes, count, *behind)
    t.flat[0] = 0  # which is not left out: a mean of nothing is NaN
    weight = {"weight": d.floats(classes, low=0.2, special=False)} if d.chance(0.4) else {}
    return given(
        d.floats(count, classes, *behind, special=False),
        t,
        **weight,
        **d.pick({}, {"ignore_index": 1}),
        **_reduction(d),
    )


@arguments("multi_margin_loss")
def _margins(d: Draw) -> Given:
    count, classes = d.size(1, 4), d.size(2, 5)
    named = d.pick({}, {"p": 2}, {"margin": 0.6}, {"weight": d.floats(classes, low=0.2, special=False)})
    return given(d.floats(count, classes, special=False), d.indices(classes, count), **named, **_reduction(d))


@arguments("multilabel_margin_loss")
def _labels(d: Draw) -> Given:
    count, classes = d.size(1, 4), d.size(2, 5)
    order = np.stack([d.random.permutation(classes) for _ in range(count)])
    t = np.where(np.arange(classes) < d.integer(1, classes), order, -1)
    return given(d.floats(count, classes, special=False), t, **_reduction(d))


@arguments("multilabel_soft_margin_loss")
def _soft_labels(d: Draw) -> Given:
    count, classes = d.size(1, 4), d.size(2, 5)
    t = d.mask(count, classes).astype(np.float32)
    weight = {"weight": d.floats(classes, low=0.2, special=False)} if d.chance(0.4) else {}
    return given(d.floats(count, classes, special=False), t, **weight, **_reduction(d))


@arguments("cosine_embedding_loss")
def _cosines(d: Draw) -> Given:
    count, width = d.size(1, 4), d.size(2, 5)
    a, b = (d.floats(count, width, special=False) for _ in range(2))
    return given(a, b, _signs(d, d.floats(count, special=False)), **d.pick({}, {"margin": 0.3}), **_reduction(d))


@arguments("margin_ranking_loss")
def _ranks(d: Draw) -> Given:
    shape = d.shape(1, 2)
    a, b = (d.floats(*shape, special=False) for _ in range(2))
    return given(a, b, _signs(d, d.floats(*shape, special=False)), **d.pick({}, {"margin": 0.3}), **_reduction(d))


@arguments("triplet_margin_loss")
def _triplets(d: Draw) -> Given:
    count, width = d.size(1, 4), d.size(2, 5)
    parts = (d.floats(count, width, special=False) for _ in range(3))
    return given(*parts, **d.pick({}, {"p": 1.0}, {"swap": True}, {"margin": 0.4}), **_reduction(d))


# Methods of tensors without a function.


@arguments("Tensor.t", "Tensor.T")
def _matrix(d: Draw) -> Given:
    return given(d.array(d.size(), d.size()))


@arguments("Tensor.mT")
def _matrices(d: Draw) -> Given:
    return given(d.array(*d.shape(2)))


@arguments("Tensor.unfold")
def _windows(d: Draw) -> Given:
    shape = tuple(n + 3 for n in d.shape(1, 3))
    return given(d.floats(*shape), d.axis(len(shape)), d.integer(1, 3), d.integer(1, 3))


@arguments("Tensor.float", "Tensor.contiguous", "Tensor.clone")
def _converted(d: Draw) -> Given:
    return given(d.array(*d.shape()))


@arguments("Tensor.long", "Tensor.int", "Tensor.bool")
def _to_whole(d: Draw) -> Given:
    return given(d.floats(*d.shape(), special=False))


@arguments("Tensor.view_as", "Tensor.expand_as")
def _like_another(d: Draw) -> Given:
    shape = d.shape(1)
    return given(d.floats(*shape), d.floats(*shape))
