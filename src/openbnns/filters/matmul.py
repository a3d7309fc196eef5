"""Broadcast matrix products: C = alpha op(A) op(B), plus the previous C if beta is 1.

op is the identity or the transpose of the last two named axes. The axes in front of them are matched from the back; a
missing one or one of size 1 is repeated, and its gradient is summed.

    dA = alpha dC op(B)^T, transposed back if transA;  dB = alpha op(A)^T dC, likewise

Shapes: A (..., m, k), or (..., k, m) if transposed; B (..., k, n) or (..., n, k); C (..., m, n). An operand that is weights
is one copy for the whole batch, and its gradient is summed over the batch. A quadratic product multiplies op_a(A) by
op_b(A): one input, whose gradient is the sum of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from numpy.typing import NDArray

from .. import compat
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersBroadcastMatMul, BNNSNDArrayDescriptor
from ..calls.form import form
from ..errors import Problem
from ..parameters.matmul import Product
from ..reference import matmul as reference
from ..tensors import stored
from ..tensors.descriptors import FLOAT32, View, describe, resolve
from .contraction import Contraction

# Indices of a product, as the native plan numbers them: rows, columns, the summed one, and the leading axes from the back.
_ROW, _COLUMN, _SUM, _LEADING = 0, 1, 2, 3


class BroadcastMatMul(Contraction):
    """A matrix product with two inputs, with one input and weights, or of one input with itself."""

    family = "broadcast matmul"

    def __init__(
        self, p: BNNSLayerParametersBroadcastMatMul, filter_params: BNNSFilterParameters | None, who: Caller
    ) -> None:
        super().__init__(filter_params, who, p.alpha, p.beta)
        self._check_roles(p, who)
        self.self_contraction = bool(p.quadratic)
        self.a_is_weights = bool(p.a_is_weights)
        a = self.resolve(p.iA_desc, who("iA_desc"))
        b = a if p.quadratic else self.resolve(p.iB_desc, who("iB_desc"))
        y = self.resolve(p.o_desc, who("o_desc"))
        _refuse_mixed_halves([a, b, y], who)
        self.as_stored = stored.takes([a, b], [y])
        self.product = Product(bool(p.transA), bool(p.transB), self.alpha, bool(p.quadratic))
        a_indices, b_indices, y_indices = product_indices(a, b, y, self.product, who)
        self.output = self.operand(y)
        if p.a_is_weights:  # the input comes first in `indices`
            self.input = self.operand(b)
            self.weights = self.parameter(a, p.iA_desc, who, "iA_desc")
            self.set_up([b_indices, a_indices], y_indices)
            return
        self.input = self.operand(a)
        if p.b_is_weights and not p.quadratic:
            self.weights = self.parameter(b, p.iB_desc, who, "iB_desc")
        elif not p.quadratic:
            self.second = self.operand(b)
        self.set_up([a_indices, b_indices], y_indices)

    def _check_roles(self, p: BNNSLayerParametersBroadcastMatMul, who: Caller) -> None:
        if p.quadratic and p.a_is_weights:
            raise Problem(
                f"{who('quadratic')} and {who.name('a_is_weights')} are both set, so there is no input. Clear one of them: "
                f"{who.name('quadratic')} multiplies the input by itself."
            )
        if p.a_is_weights and p.b_is_weights:
            raise Problem(
                f"{who('a_is_weights')} and {who.name('b_is_weights')} are both set, so there is no input. Set at most one "
                "of them."
            )

    def _in_order(self, tensors: Sequence[Any]) -> tuple[Any, Any]:
        """The operands as A and B."""
        if self.product.quadratic:
            return tensors[0], None
        return (tensors[1], tensors[0]) if self.a_is_weights else (tensors[0], tensors[1])

    def forward64(self, tensors: list[NDArray[Any]], previous: NDArray[Any] | None) -> NDArray[Any]:
        a, b = self._in_order(tensors)
        c = reference.forward(a, b, self.product)
        c = c.reshape(c.shape[0], *self.output.view.named_shape)
        return c if previous is None else previous + c

    def backward64(
        self, tensors: list[NDArray[Any]], dy: NDArray[Any], wanted: list[bool]
    ) -> Sequence[NDArray[Any] | None]:
        a, b = self._in_order(tensors)
        names = {name for name, want in zip(("da", "db"), self._in_order(wanted), strict=True) if want}
        rank = max(a.ndim, a.ndim if b is None else b.ndim)
        dy = dy.reshape(dy.shape[0], *(1,) * (rank - dy.ndim), *dy.shape[1 + max(0, dy.ndim - rank) :])
        gradients = reference.backward(a, b, dy, self.product, names)
        da, db = gradients.get("da"), gradients.get("db")
        return [db, da] if self.a_is_weights else [da, db][: len(tensors)]


def product_indices(a: View, b: View, y: View, p: Product, who: Caller) -> tuple[list[int], list[int], list[int]]:
    """The index of every named axis of A, B and C, after checking that their sizes match."""
    shapes = {}
    for name, view in (("iA_desc", a), ("iB_desc", b), ("o_desc", y)):
        shapes[name] = view.named_shape
        if len(shapes[name]) < 2:
            raise Problem(
                f"{who(name)} is {describe(view)}, but a matrix product needs rows and columns. Describe a matrix (a row "
                "is (1, n), a column (n, 1))."
            )
    a_shape, b_shape, y_shape = shapes.values()
    b_name = "iA_desc" if p.quadratic else "iB_desc"
    rows, a_sum = a_shape[-2:][::-1] if p.transpose_a else a_shape[-2:]
    b_sum, columns = b_shape[-2:][::-1] if p.transpose_b else b_shape[-2:]
    if a_sum != b_sum:
        raise Problem(
            f"{who}: {_read(a_shape, p.transpose_a)} of {who.name('iA_desc')} has {a_sum} columns, but "
            f"{_read(b_shape, p.transpose_b)} of {who.name(b_name)} has {b_sum} rows. Make them equal, or change "
            f"{who.name('transA')} or {who.name('transB')}."
        )
    leading = _leading(a_shape[:-2], b_shape[:-2], b_name, who)
    expected = (*leading, rows, columns)
    if _without_leading_ones(y_shape) != _without_leading_ones(expected):
        raise Problem(
            f"{who('o_desc')} has rows, columns and leading axes {y_shape}, but the product of {a_shape} and {b_shape}"
            f"{_transposes(p)} has {expected}. Set {who.name('o_desc.size')} accordingly."
        )
    a_matrix = [_SUM, _ROW] if p.transpose_a else [_ROW, _SUM]
    b_matrix = [_COLUMN, _SUM] if p.transpose_b else [_SUM, _COLUMN]
    return (
        _leading_indices(a_shape) + a_matrix,
        _leading_indices(b_shape) + b_matrix,
        [*_leading_indices(y_shape), _ROW, _COLUMN],
    )


def _leading_indices(shape: tuple[int, ...]) -> list[int]:
    return [_LEADING + k for k in reversed(range(len(shape) - 2))]


def _leading(a: tuple[int, ...], b: tuple[int, ...], b_name: str, who: Caller) -> tuple[int, ...]:
    """The leading axes of the output."""
    rank = max(len(a), len(b))
    full_a, full_b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    for k, (n, m) in enumerate(zip(full_a, full_b, strict=True)):
        if n != m and 1 not in (n, m):
            raise Problem(
                f"{who}: the leading axes of {who.name('iA_desc')} are {a} and those of {who.name(b_name)} {b}: {n} and {m}, "
                f"axis {rank - k} in front of the matrix, do not match. Compared from the back, sizes must be equal, or one "
                "of them 1 or missing."
            )
    return tuple(max(n, m) for n, m in zip(full_a, full_b, strict=True))


def _without_leading_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    return shape


def _read(shape: tuple[int, ...], transpose: bool) -> str:
    matrix = f"the {shape[-2]} x {shape[-1]} matrix"
    return f"the transpose of {matrix}" if transpose else matrix


def _transposes(p: Product) -> str:
    named = [name for name, transpose in (("A", p.transpose_a), ("B", p.transpose_b)) if transpose]
    return f" with {' and '.join(named)} transposed" if named else ""


def _refuse_mixed_halves(views: Sequence[View], who: Caller) -> None:
    a, b, y = views
    elements = {a.element.name, b.element.name}
    if compat.switches.matmul_refuses_mixed_halves and elements == {"Float16", "BFloat16"} and y.element is FLOAT32:
        raise Problem(
            f"{who}: the operands are {a.element.name} and {b.element.name} and the result Float32, which macOS 15 refuses "
            "(compat.matmul_refuses_mixed_halves). Give both operands one type.",
            kind=TypeError,
            unsupported=True,
        )


# Without a filter.


@lru_cache(maxsize=64)
def _direct_filter(
    a: View, b: View, y: View, indices: tuple[tuple[int, ...], ...], p: Product, threads: int
) -> BroadcastMatMul:
    """The filter behind a direct product of matching tensors; kept, because direct calls repeat."""
    made = BroadcastMatMul.__new__(BroadcastMatMul)
    Contraction.__init__(made, BNNSFilterParameters(n_threads=threads), _NO_CALLER, p.alpha, 0.0)
    made.product, made.a_is_weights, made.as_stored = p, False, stored.takes([a, b], [y])
    made.input, made.second, made.output = made.operand(a), made.operand(b), made.operand(y)
    made.set_up(indices[:2], indices[2])
    return made


_NO_CALLER = Caller("")  # for checks that cannot fail
_DIRECT = {"iA_desc": "inputA", "iB_desc": "inputB", "o_desc": "output"}


def direct_names(names: Mapping[str, str]) -> dict[str, str]:
    """Names for a product without a filter, where the fields of the struct are arguments, which go by ``names``."""
    return {**names, **{field: names.get(argument, argument) for field, argument in _DIRECT.items()}}


def direct_filter(
    caller: Caller, trans_a: bool, trans_b: bool, alpha: float, descriptors: Sequence[Any],
    filter_params: BNNSFilterParameters | None,
) -> BroadcastMatMul:  # fmt: skip
    """Check the descriptors of a direct product, but not their data."""
    views = []
    for name, descriptor in zip(_DIRECT, descriptors, strict=True):
        if descriptor is None:
            raise Problem(f"{caller(name)} is {caller.null}. Pass a BNNSNDArrayDescriptor.")
        if not isinstance(descriptor, BNNSNDArrayDescriptor):
            raise TypeError(f"{caller(name)} must be a BNNSNDArrayDescriptor, not {type(descriptor).__name__}.")
        view = resolve(descriptor, caller(name))
        if view.element.kind not in ("float", "bfloat"):
            raise Problem(
                f"{caller(name)}.data_type is {view.element.name}, but matrix products are floating point. Use "
                "BNNSDataTypeFloat32, Float16 or BFloat16.",
                kind=TypeError,
            )
        views.append(view)
    _refuse_mixed_halves(views, caller)
    threads = 0 if filter_params is None else min(int(filter_params.n_threads), 256)
    product = Product(bool(trans_a), bool(trans_b), float(alpha))
    try:
        indices = product_indices(views[0], views[1], views[2], product, caller)
    except Problem as problem:
        from .. import diagnosis  # only here, when a call has failed

        tensors = {caller.name(name): d for name, d in zip(_DIRECT, descriptors, strict=True)}

        def valid(changed: Mapping[str, Any]) -> bool:
            try:
                a, b, y = (resolve(d, "") for d in (tensors | dict(changed)).values())
                product_indices(a, b, y, product, caller)
            except Problem:
                return False
            return True

        raise diagnosis.of_creation(problem, tensors, valid) from None
    return _direct_filter(*views, tuple(map(tuple, indices)), product, threads)


def multiply(
    caller: Caller, trans_a: bool, trans_b: bool, alpha: float, descriptors: Sequence[Any],
    filter_params: BNNSFilterParameters | None,
) -> None:  # fmt: skip
    """output = alpha op(A) op(B), on the memory that the descriptors point to."""
    made = direct_filter(caller, trans_a, trans_b, alpha, descriptors, filter_params)
    a, b, y = (descriptor.data for descriptor in descriptors)
    if made.native(_APPLY)(a, b, y) == 0:
        return
    names = {
        argument: f"{caller.name(field)}.data" for argument, field in zip(("inA", "inB", "out"), _DIRECT, strict=True)
    }
    caller = Caller(caller.function, names, null=caller.null)
    made.perform("apply_two_input", caller, 1, {"inA": (a, 0), "inB": (b, 0), "out": (y, 0)})


_APPLY = form("apply_two_input", "inA inB out")
