"""Copy, transpose, tile and its gradient, shuffle, band part and comparisons of whole tensors.

Descriptors bring their data, nothing is kept, and everything is checked before anything is written. Elements move as
they are; between different types they are converted by the usual rules (rounded to nearest, saturated).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from .. import compat, engines
from .._words import Caller
from ..abi.enums import BNNSDataLayout
from ..abi.structs import BNNSNDArrayDescriptor
from ..calls.signature import Call
from ..errors import Problem
from ..parameters.activation import IDENTITY, Activation
from ..parameters.moves import Relation, Shuffle
from ..parameters.reduction import ReductionKind
from ..reference import moves as reference
from ..tensors.descriptors import View, describe
from ..tensors.operands import Bound, integer, resolve_delta
from ._rules import describe_both
from .base import UnaryFilter, X, Y
from .direct import (
    aligned,
    axis_number,
    contiguous,
    copy_elements,
    is_plain_integer,
    ordered,
    store,
    stored_as,
    tensor,
    threads_of,
)

if TYPE_CHECKING:
    from .. import _core


_FOUR_AXES = int(BNNSDataLayout.BNNSDataLayout4DFirstMajor)
_MATRICES = (
    int(BNNSDataLayout.BNNSDataLayoutRowMajorMatrix),
    int(BNNSDataLayout.BNNSDataLayoutColumnMajorMatrix),
)


def copy(caller: Caller, dest: Any, src: Any, filter_params: Any) -> None:
    """y = x, element by element; axes with the same number correspond."""
    threads = threads_of(caller, filter_params)
    x, y = tensor(caller, "src", src), tensor(caller, "dest", dest, output=True)
    if x.view.numbered_shape != y.view.numbered_shape:
        raise Problem(
            f"{caller('dest')} is {describe(y.view)}, logically {y.view.numbered_shape}, but {caller.name('src')} is "
            f"{describe(x.view)}, logically {x.view.numbered_shape}. Describe both with the same logical shape."
        )
    source = stored_as(aligned(x, y), y.view)
    store(y, lambda target: copy_elements(target, source, threads), (x,))


def transpose(caller: Caller, dest: Any, src: Any, axis0: Any, axis1: Any, filter_params: Any) -> None:
    """y = x with two axes swapped."""
    threads = threads_of(caller, filter_params)
    x, y = tensor(caller, "src", src), tensor(caller, "dest", dest, output=True)
    first, second = axis_number(caller, "axis0", axis0, x.view), axis_number(caller, "axis1", axis1, x.view)
    swapped = list(x.view.numbered_axes)
    swapped[first], swapped[second] = swapped[second], swapped[first]
    shape = tuple(x.view.size[a] for a in swapped)
    if y.view.numbered_shape != shape:
        size = tuple(shape[n] for n in x.view.numbered_axes)  # in the layout of x
        raise Problem(
            f"{caller('dest')} is {describe(y.view)}, but {caller.name('src')} is {describe(x.view)}: with axes {first} and "
            f"{second} swapped, its size is {size}."
        )
    source = stored_as(ordered(x, tuple(swapped[y.view.numbered_axes.index(a)] for a in y.order)), y.view)
    store(y, lambda target: copy_elements(target, source, threads), (x,))


# ---------------------------------------------------------------------------------------------------------------------
# Filters that move elements


def require_same_type(x: View, y: View, who: Caller, verb: str) -> None:
    """Elements that are moved keep their type."""
    if (x.element, x.scale, x.bias) != (y.element, y.scale, y.bias):
        raise Problem(
            f"{describe_both(x, y, who)}. {verb} moves elements as they are stored: give both the same data_type, data_scale and "
            "data_bias.",
            kind=TypeError,
        )


class MovingFilter(UnaryFilter):
    """Every output element is a copy of an input element, or a constant."""

    activation = IDENTITY
    fused_function = 0

    def make_item_plan(self, item_bytes: int) -> _core.Plan:
        """The plan for elements of this many bytes; those of 4 bytes are floats."""
        raise NotImplementedError

    def make_plan(self, f: Activation) -> _core.Plan:
        return self.make_item_plan(4)

    def move(self, stored: NDArray[Any]) -> NDArray[Any]:
        """The forward pass of the reference engine on stored elements of any type."""
        raise NotImplementedError

    def reference_forward(
        self, x: NDArray[Any], w: NDArray[Any] | None, b: NDArray[Any] | None, f: Activation
    ) -> NDArray[Any]:
        return self.move(x)

    def run(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        if call.backward:
            super().run(call, batch, bound)
            return
        x, y = bound["in"], bound["out"]
        stored = x.read_raw()
        if not engines.is_native():
            y.write_raw(self.move(stored))
            return
        target = None if y.overlaps(x) else y.direct_raw()
        result = np.empty((batch, *self.output.shape), stored.dtype) if target is None else target
        plan = self.plan if stored.itemsize == 4 else self.make_item_plan(stored.itemsize)
        self.run_plan(plan, False, batch, {X: stored, Y: result})
        if target is None:
            y.write_raw(result)


# ---------------------------------------------------------------------------------------------------------------------
# Tile


def tile(caller: Caller, input: Any, output: Any, filter_params: Any) -> None:
    """y(i...) = x(i mod x.size, ...) for every axis of size[]."""
    threads = threads_of(caller, filter_params)
    x, y = tensor(caller, "input", input), tensor(caller, "output", output, output=True)
    _check_multiple(caller, "input", x, "output", y)
    if compat.switches.tile_reversed_axes and x.view.layout is y.view.layout and _tiles_reversed(x.view.layout.name):
        source = contiguous(stored_as(x, y.view), threads)[0]
        store(y, lambda target: _tile_reversed(target, source, threads), (x,), packed=True)
        return
    source = stored_as(ordered(x, y.order), y.view)[0]
    store(y, lambda target: _repeat(target[0], source, threads), (x,))


def _repeat(target: NDArray[Any], source: NDArray[Any], threads: int) -> None:
    if not engines.is_native():
        target[...] = reference.tile(source, target.shape)
        return
    copies, once = [], []
    for large, small in zip(target.shape, source.shape, strict=True):
        copies.append(large // small)
        once.append(small)
    shape = [n for pair in zip(copies, once, strict=True) for n in pair]
    # Axis d becomes (copy, place): the copies lie small * stride apart in the target, and on top of each other in x.
    to = [s for n, stride in zip(source.shape, target.strides, strict=True) for s in (n * stride, stride)]
    start = [s for stride in source.strides for s in (0, stride)]
    engines._core.strided_copy(target.ctypes.data, source.ctypes.data, target.itemsize, shape, to, start, threads)


def _tiles_reversed(layout: str) -> bool:
    """True if macOS 15 reads the sizes of this layout in reverse; those of LastMajor layouts it reads as they are."""
    return layout == "RowMajorMatrix" or layout.endswith("FirstMajor")


def _tile_reversed(target: NDArray[Any], source: NDArray[Any], threads: int) -> None:
    """The same memory with all sizes in the opposite order, as seen on macOS 15."""
    _repeat(target[0].reshape(target.shape[:0:-1]), source.reshape(source.shape[::-1]), threads)


def tile_backward(caller: Caller, in_delta: Any, out_delta: Any, filter_params: Any) -> None:
    """dx = the sum of dy over all copies."""
    threads = threads_of(caller, filter_params)
    for name, descriptor, output in (("in_delta", in_delta, True), ("out_delta", out_delta, False)):
        if isinstance(descriptor, BNNSNDArrayDescriptor):
            view = tensor(caller, name, descriptor, output=output).view
            resolve_delta(descriptor, caller(name), view, output=output)
    dx, dy = tensor(caller, "in_delta", in_delta, output=True), tensor(caller, "out_delta", out_delta)
    _check_multiple(caller, "in_delta", dx, "out_delta", dy)
    dy = ordered(dy, dx.order)
    if not engines.is_native():
        dx.write(reference.tile_backward(dy.read(np.float64)[0], dx.shape)[np.newaxis])
        return
    gradient = dy.read(np.float32)
    target = None if dx.overlaps(dy) else dx.direct()
    result = np.empty((1, *dx.shape), np.float32) if target is None else target
    size = [n for large, small in zip(dy.shape, dx.shape, strict=True) for n in (large // small, small)]
    plan = engines._core.reduction(
        function=int(ReductionKind.SUM), rank=len(size), size=size, inside=[True, False] * len(dx.shape), epsilon=0.0,
        wide_positions=False, position_modulus=0,
    )  # fmt: skip
    accumulate = 1 << Y if target is not None and dx.accumulate else 0
    engines._core.run(plan, False, 1, [(X, gradient.ctypes.data, 0), (Y, result.ctypes.data, 0)], accumulate, threads)
    if target is None:
        dx.write(result)


def _check_multiple(caller: Caller, small_name: str, small: Bound, large_name: str, large: Bound) -> None:
    sizes = small.view.size, large.view.size
    if len(sizes[0]) != len(sizes[1]) or any(b % a for a, b in zip(*sizes, strict=True)):
        raise Problem(
            f"{caller(large_name)} is {describe(large.view)}, but {caller.name(small_name)} is "
            f"{describe(small.view)}. Every size of the tiled tensor is a multiple of the other's, axis by axis of size[]."
        )


# ---------------------------------------------------------------------------------------------------------------------
# Shuffle, band part


def shuffle(caller: Caller, kind: Any, input: Any, output: Any, filter_params: Any) -> None:
    """Channels to blocks of pixels or back; see reference.shuffle. Images (N, C, H, W)."""
    threads = threads_of(caller, filter_params)
    kind = integer(kind, caller("type"))
    if kind not in set(Shuffle):
        raise Problem(f"{caller('type')} is {kind}, which is not a BNNSShuffleType. Use 0 to {max(Shuffle)}.")
    x, y = tensor(caller, "input", input), tensor(caller, "output", output, output=True)
    for name, bound in (("input", x), ("output", y)):
        if bound.view.layout.code != _FOUR_AXES:
            raise Problem(
                f"{caller(name)} is {describe(bound.view)}, but shuffling works on images [N, C, H, W]: use "
                "BNNSDataLayout4DFirstMajor."
            )
    enlarges = kind in (Shuffle.PIXEL_SHUFFLE, Shuffle.DEPTH_TO_SPACE)
    small, large = (x.shape, y.shape) if enlarges else (y.shape, x.shape)
    block = large[2] // small[2]
    fits = small[0] == large[0] and block >= 1 and small[1] == large[1] * block * block
    if not fits or large[2:] != (small[2] * block, small[3] * block):
        raise Problem(
            f"{caller('output')} has size {y.shape}, but input has {x.shape}. With blocks of b x b pixels the image of "
            "b*b times the channels has 1/b of the height and of the width."
        )
    source = stored_as(x, y.view)[0]

    def work(target: NDArray[Any]) -> None:
        if not engines.is_native():
            target[0] = reference.shuffle(kind, source, block)
            return
        pictures = (source, target[0]) if enlarges else (target[0], source)
        small_part, large_part = _channel_blocks(pictures[0], kind, block), _pixel_blocks(pictures[1], block)
        to, start = (large_part, small_part) if enlarges else (small_part, large_part)
        copy_elements(to, start, threads)

    store(y, work, (x,))


def _channel_blocks(image: NDArray[Any], kind: int, block: int) -> NDArray[Any]:
    """(N, C*b*b, H, W) as (N, C, H, i, W, j), a view."""
    n, channels, height, width = image.shape
    sn, sc, sh, sw = image.strides
    count = channels // (block * block)
    if kind in (Shuffle.PIXEL_SHUFFLE, Shuffle.PIXEL_UNSHUFFLE):  # channel (c*b + i)*b + j
        c, i, j = block * block * sc, block * sc, sc
    else:  # channel (i*b + j)*C + c
        c, i, j = sc, block * count * sc, count * sc
    return as_strided(image, (n, count, height, block, width, block), (sn, c, sh, i, sw, j))


def _pixel_blocks(image: NDArray[Any], block: int) -> NDArray[Any]:
    """(N, C, H*b, W*b) as (N, C, H, i, W, j), a view."""
    n, channels, height, width = image.shape
    sn, sc, sh, sw = image.strides
    shape = (n, channels, height // block, block, width // block, block)
    return as_strided(image, shape, (sn, sc, block * sh, sh, block * sw, sw))


def band_part(caller: Caller, num_lower: Any, num_upper: Any, input: Any, output: Any, filter_params: Any) -> None:
    """y(i, j) = x(i, j) if i - j <= lower and j - i <= upper, else 0; j is the fastest axis, i the next one."""
    threads = threads_of(caller, filter_params)
    lower, upper = (integer(n, caller(m)) for n, m in ((num_lower, "num_lower"), (num_upper, "num_upper")))
    x, y = tensor(caller, "input", input), tensor(caller, "output", output, output=True)
    if not x.view.layout.same_as(y.view.layout) or x.view.size != y.view.size or len(x.shape) < 2:
        raise Problem(
            f"{caller('output')} is {describe(y.view)} and input is {describe(x.view)}. Give both the same layout and "
            "size, of two axes or more."
        )
    for name, bound in (("input", x), ("output", y)):
        if not bound.view.packed:
            raise Problem(
                f"{caller(name)} has strides {bound.view.strides}, but bands are cut from packed tensors only. Set its "
                "stride to 0."
            )
    if compat.switches.band_part_refuses_matrices and x.view.layout.code in _MATRICES:
        raise Problem(
            f"{caller('input')} is {describe(x.view)}, which gives garbage on macOS 15. Use BNNSDataLayout2DFirstMajor.",
            unsupported=True,
        )
    source = contiguous(stored_as(x, y.view), threads)[0]
    rows, columns = x.shape[-2:]
    matrices = math.prod(x.shape[:-2])
    lower, upper = max(-1, min(lower, rows)), max(-1, min(upper, columns))  # no more than the matrix has

    def work(target: NDArray[Any]) -> None:
        if not engines.is_native():
            target[0] = reference.band_part(source, lower, upper)
            return
        engines._core.band_part(
            target.itemsize, matrices=matrices, rows=rows, columns=columns, lower=lower, upper=upper,
            x=source.ctypes.data, y=target.ctypes.data, threads=threads,
        )  # fmt: skip

    store(y, work, () if x.same_memory(y) else (x,), packed=True)


# ---------------------------------------------------------------------------------------------------------------------
# Compare

# Every operator as one of six (numbered as Comparison in core/kernels/moves/shape.h), with operands exchanged or not and the
# result inverted or not.
_EQUAL, _GREATER, _GREATER_EQUAL, _AND, _OR, _XOR = range(6)
_COMPARISONS: dict[int, tuple[int, bool, bool]] = {
    Relation.EQUAL: (_EQUAL, False, False),
    Relation.NOT_EQUAL: (_EQUAL, False, True),
    Relation.LESS: (_GREATER, True, False),
    Relation.LESS_EQUAL: (_GREATER_EQUAL, True, False),
    Relation.GREATER: (_GREATER, False, False),
    Relation.GREATER_EQUAL: (_GREATER_EQUAL, False, False),
    Relation.LOGICAL_AND: (_AND, False, False),
    Relation.LOGICAL_OR: (_OR, False, False),
    Relation.LOGICAL_NOT: (_AND, False, True),
    Relation.LOGICAL_NAND: (_AND, False, True),
    Relation.LOGICAL_NOR: (_OR, False, True),
    Relation.LOGICAL_XOR: (_XOR, False, False),
}
_TYPES = {"float32": 0, "float64": 1, "int64": 2, "uint8": 3}


def compare(caller: Caller, in0: Any, in1: Any, op: Any, out: Any) -> None:
    """y = a op b, element by element of size[]; LogicalNOT takes in0 alone."""
    operator = integer(op, caller("op"))
    if operator not in _COMPARISONS:
        raise Problem(f"{caller('op')} is {operator}, which is not a BNNSRelationalOperator. Use 0 to {max(Relation)}.")
    a = tensor(caller, "in0", in0)
    b = a if operator == Relation.LOGICAL_NOT else tensor(caller, "in1", in1)
    y = tensor(caller, "out", out, output=True)
    if y.view.element.kind != "boolean":
        raise Problem(
            f"{caller('out')}.data_type is {y.view.element.name}, but comparisons give truth values. Use "
            "BNNSDataTypeBoolean.",
            kind=TypeError,
        )
    for name, bound in (("in1", b), ("out", y)):
        if bound.view.size != a.view.size:
            raise Problem(
                f"{caller(name)} is {describe(bound.view)}, but {caller.name('in0')} is {describe(a.view)}. "
                "Give all the same size."
            )
    logical = Relation.LOGICAL_AND <= operator <= Relation.LOGICAL_XOR
    left, right = _comparable(a, ordered(b, a.order), logical)

    def work(target: NDArray[Any]) -> None:
        if not engines.is_native():
            target[...] = reference.compare(operator, left, right)
            return
        run_comparison(operator, left, right, target)

    store(ordered(y, a.order), work, (a, b), packed=True)


def run_comparison(operator: int, left: NDArray[Any], right: NDArray[Any], target: NDArray[Any]) -> None:
    """Compare C-contiguous arrays of one type, all of one size, on the native engine."""
    operation, exchanged, inverted = _COMPARISONS[operator]
    p, q = (right, left) if exchanged else (left, right)
    engines._core.compare(
        _TYPES[p.dtype.name], operation, inverted, p.ctypes.data, q.ctypes.data, target.ctypes.data, p.size, 0
    )


def _comparable(a: Bound, b: Bound, logical: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both operands in one type that holds all their values: float32, int64, uint8 (truth values) or float64."""
    views = a.view, b.view
    if all(v.element.kind in ("float", "bfloat") for v in views):
        return np.ascontiguousarray(a.read(np.float32)), np.ascontiguousarray(b.read(np.float32))
    if all(v.element.kind == "boolean" for v in views):
        left, right = ((bound.read_raw() != 0).view(np.uint8) for bound in (a, b))
        return left, right
    if all(is_plain_integer(v) for v in views):
        left, right = a.read_integers(), b.read_integers()
        if left.dtype == right.dtype:
            return _signed(left, logical), _signed(right, logical)
    return np.ascontiguousarray(a.read(np.float64)), np.ascontiguousarray(b.read(np.float64))


def _signed(numbers: NDArray[Any], logical: bool) -> NDArray[Any]:
    """int64 in the same order; for logical operators, with 0 in the same places."""
    if numbers.dtype == np.int64 or logical:
        return np.ascontiguousarray(numbers).view(np.int64)
    return np.ascontiguousarray(numbers ^ np.uint64(1 << 63)).view(np.int64)
