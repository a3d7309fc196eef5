"""Comparisons, masks, arithmetic of whole numbers, and lookups: functions of elements that no layer computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....graph.declared import OPERATIONS
from ....graph.operation import Convert
from ....graph.operations import CustomFunction, Node
from ....graph.operations.indexing import AddEntries, PutAlong, Range, Take, TakeAlong
from ....graph.operations.reduction import Cumulative, Sort
from ....graph.sizes import is_same
from ....graph.tensor import FLOAT32, Tensor
from ...converted import functions
from ...onnx.tensor import ByNumpy
from ..names import ARITHMETIC, COMPARISONS, LOGIC, UNARY
from .elementwise import activated
from .program_builder import ProgramBuilder, Refused, Value, array_of, rank_of, writes


def _truncated(b: ProgramBuilder, x: Value) -> Value:
    return b("mul", x=b("sign", x=x), y=b("floor", x=b("abs", x=x)))


def _hypotenuse(b: ProgramBuilder, x: Value, y: Value) -> Value:
    return b("sqrt", x=b("add", x=b("square", x=x), y=b("square", x=y)))


def _log_add_exp(b: ProgramBuilder, x: Value, y: Value) -> Value:
    apart = b("mul", x=b("abs", x=b("sub", x=x, y=y)), y=np.float32(-1))
    return b("add", x=b("maximum", x=x, y=y), y=b("softplus", x=apart))


def _quotient(b: ProgramBuilder, x: Value, y: Value) -> Value:
    """A quotient of whole numbers, rounded towards zero."""
    signs = b("mul", x=b("sign", x=x), y=b("sign", x=y))
    return b("mul", x=signs, y=b("floor_div", x=b("abs", x=x), y=b("abs", x=y)))


_FORMULAS: dict[str, Callable[..., Value]] = {
    "trunc": _truncated,
    "frac": lambda b, x: b("sub", x=x, y=_truncated(b, x)),
    "log1p": lambda b, x: b("log", x=b("add", x=x, y=np.float32(1))),
    "expm1": lambda b, x: b("sub", x=b("exp", x=x), y=np.float32(1)),
    "log10": lambda b, x: b("mul", x=b("log", x=x), y=np.float32(1 / math.log(10))),
    "erfc": lambda b, x: b("sub", x=np.float32(1), y=b("erf", x=x)),
    "isnan": lambda b, x: b("not_equal", x=x, y=x),
    "hypot": _hypotenuse,
    "logaddexp": _log_add_exp,
    "trunc_divide": _quotient,
    "log": lambda b, x: b("log", x=x),
    "log2": lambda b, x: b("mul", x=b("log", x=x), y=np.float32(1 / math.log(2))),
    "neg": lambda b, x: b("mul", x=x, y=np.int32(-1) if _kind(x) == "i" else np.float32(-1)),
    "reciprocal": lambda b, x: b("real_div", x=np.float32(1), y=x),
    "rsqrt": lambda b, x: b("real_div", x=np.float32(1), y=b("sqrt", x=x)),
    "multiply_add": lambda b, x, y, z: b("add", x=b("mul", x=x, y=y), y=z),
    "where": lambda b, c, x, y: b("select", cond=_flag(b, c), **dict(zip("ab", _alike(b, [x, y]), strict=True))),
}


def _kind(x: Value) -> str:
    """The kind of a value: f for floats, i for whole numbers, b for booleans."""
    held = array_of(x)
    return str(x.tensor.kind) if held is None else held.dtype.kind


def _flag(b: ProgramBuilder, x: Value) -> Value:
    """A mask, which networks have as numbers, as booleans."""
    whole = array_of(x) is None and x.tensor.kind == "i"
    return b("not_equal", x=x, y=np.int32(0) if whole else np.float32(0))


def _numbers(b: ProgramBuilder, flags: Value, wanted: Tensor) -> Value:
    """Booleans as the numbers that a network has for masks."""
    return b.floats(flags) if wanted.dtype == FLOAT32 else b("cast", x=flags, dtype="int32")


def _alike(b: ProgramBuilder, operands: list[Value]) -> list[Value]:
    """Operands of one kind: floats, if one of them is."""
    kinds = [_kind(x) for x in operands]
    if len(set(kinds)) == 1:
        return operands
    return [b.floats(x) if kind != "f" else x for x, kind in zip(operands, kinds, strict=True)]


def _function(b: ProgramBuilder, name: str, operands: list[Value], wanted: Tensor) -> Value:
    if all(array_of(x) is not None for x in operands):
        operands[0] = b("identity", x=operands[0])
    if name == "logical_not":
        return _numbers(b, b("logical_not", x=_flag(b, operands[0])), wanted)
    if name in LOGIC:
        x, y = (_flag(b, operand) for operand in operands)
        return _numbers(b, b(LOGIC[name], x=x, y=y), wanted)
    if name in COMPARISONS:
        x, y = _alike(b, operands)
        return _numbers(b, b(COMPARISONS[name], x=x, y=y), wanted)
    if name in ARITHMETIC:
        x, y = _alike(b, operands)
        return b(ARITHMETIC[name], x=x, y=y)
    if name in UNARY:
        return b(name, x=operands[0])
    if name not in _FORMULAS:
        raise Refused(f"there is no function {name} in Core ML")
    y = _FORMULAS[name](b, *operands)
    return _numbers(b, y, wanted) if OPERATIONS[name].is_mask else y


_ALONG_AXES = {"sum": "reduce_sum", "prod": "reduce_prod", "amax": "reduce_max", "amin": "reduce_min"}


@writes(Node)
def _node(b: ProgramBuilder, op: Node) -> None:
    if op.name == "cumsum":
        b.set(op.output, b("cumsum", x=b.computed(op.inputs[0]), axis=op.attributes[0]))
        return
    if op.name in _ALONG_AXES:
        axes, keep = op.attributes
        b.set(op.output, b(_ALONG_AXES[op.name], x=b.computed(op.inputs[0]), axes=list(axes), keep_dims=keep))
        return
    y = _function(b, op.name, [b.get(value) for value in op.inputs], op.output)
    b.set(op.output, activated(b, y, op.activation))


@writes(Convert)
def _convert(b: ProgramBuilder, op: Convert) -> None:
    b.set(op.output, _converted(b, b.computed(op.inputs[0]), op.output))


def _converted(b: ProgramBuilder, x: Value, wanted: Tensor) -> Value:
    return b.floats(x) if wanted.dtype == FLOAT32 else b("cast", x=x, dtype="int32")


@writes(CustomFunction)
def _custom(b: ProgramBuilder, op: CustomFunction) -> None:
    kind, inputs = op.function, op.inputs
    if kind is functions.Forbid:
        allowed = _flag(b, b.get(inputs[0]))
        b.set(op.output, b("select", cond=allowed, a=np.float32(0), b=np.float32(-np.inf)))
    elif kind is ByNumpy:
        b.set(op.output, _node_again(b, op))
    else:
        raise Refused(f"{op.name} is written in NumPy, which no program can hold")


def _node_again(b: ProgramBuilder, op: CustomFunction) -> Value:
    """A node of the ONNX model that the network was read from."""
    recipe, values = op.arguments[-1], iter(op.inputs)
    node = recipe.call.op
    given = [b.get(next(values)) if isinstance(x.held, Tensor) else np.asarray(x.held) for x in recipe.tensors if x]
    if node == "Cast" and recipe.is_own:
        return _in_type(b, b.computed(op.inputs[0]), recipe.types[0])
    options = recipe.call.node.attributes
    if node == "Gather":
        return b("gather", x=given[0], indices=given[1], axis=int(options.get("axis", 0)))
    if node == "Transpose":
        return b("transpose", x=given[0], perm=list(options.get("perm", range(rank_of(given[0]))[::-1])))
    if node == "Expand":
        zero = np.float32(0) if op.output.dtype == FLOAT32 else np.int32(0)
        return b("add", x=b("fill", shape=b.sizes(op.output.shape), value=zero), y=given[0])
    if node == "ScatterElements" and options.get("reduction", "none") in ("none", b"none"):
        data, indices, updates = given
        axis = int(options.get("axis", 0))
        return b("scatter_along_axis", data=data, indices=indices, updates=updates, axis=axis, mode="update")
    raise Refused(f"the node {node} of ONNX is not written for whole numbers or masks")


def _in_type(b: ProgramBuilder, x: Value, dtype: np.dtype[Any]) -> Value:
    """Numbers as whole numbers of a type, whose lowest bits are kept; Core ML computes with 32."""
    if dtype.itemsize > 2:
        if dtype != np.int32:
            raise Refused(f"{dtype} is not among the types that Core ML computes with")
        return b("cast", x=x, dtype="int32")
    count = 2 ** (8 * dtype.itemsize)
    least = np.int32(0 if dtype.kind == "u" else -count // 2)
    from_least = b("mod", x=b("sub", x=b("cast", x=x, dtype="int32"), y=least), y=np.int32(count))
    return b("add", x=from_least, y=least)


@writes(Range)
def _range(b: ProgramBuilder, op: Range) -> None:
    (count,) = b.numbers(op.output.shape, "a range of numbers is written for known sizes")
    start, step = (n if isinstance(n, float) else b.numbers([n], "a range begins at a known number")[0]
                   for n in (op.start, op.step))  # fmt: skip
    kind = np.float32 if op.output.dtype == FLOAT32 else np.int32
    b.set(op.output, (start + step * np.arange(count)).astype(kind))


@writes(Take)
def _take(b: ProgramBuilder, op: Take) -> None:
    x, indices = (b.get(value) for value in op.inputs)
    b.set(op.output, b("gather", x=x, indices=indices, axis=op.axis))


@writes(TakeAlong)
def _take_along(b: ProgramBuilder, op: TakeAlong) -> None:
    x, indices = op.inputs
    if not all(is_same(n, m) for i, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True)) if i != op.axis):
        raise Refused("its indices are for a part of the other axes. Slice them before")
    b.set(op.output, b("gather_along_axis", x=b.get(x), indices=b.get(indices), axis=op.axis))


@writes(PutAlong)
def _put_along(b: ProgramBuilder, op: PutAlong) -> None:
    x, indices, source = op.inputs
    if [b.size(n) for n in indices.shape] != [b.size(n) for n in source.shape]:
        raise Refused("only a part of what is put is used. Slice it before, or pass batch_size")
    data = b.get(x)
    given = {"indices": b.get(indices), "updates": b.get(source)}
    mode = "add" if op.adds else "update"
    b.set(op.output, b("scatter_along_axis", data=data, axis=op.axis, mode=mode, **given))


@writes(AddEntries)
def _add_entries(b: ProgramBuilder, op: AddEntries) -> None:
    source, indices = op.inputs
    zeros = b("fill", shape=b.sizes(op.output.shape), value=np.float32(0))
    given = {"indices": b.get(indices), "updates": b.get(source)}
    b.set(op.output, b("scatter", data=zeros, axis=op.axis, mode="add", **given))


@writes(Cumulative)
def _cumulative(b: ProgramBuilder, op: Cumulative) -> None:
    if op.product:
        raise Refused("there are no cumulative products in Core ML")
    b.set(op.output, b("cumsum", x=b.get(op.inputs[0]), axis=op.axis))


@writes(Sort)
def _sort(b: ProgramBuilder, op: Sort) -> None:
    (count,) = b.numbers([op.output.shape[op.axis]], "numbers are sorted along an axis of a known size")
    variables = b(
        "topk", x=b.get(op.inputs[0]), k=np.int32(count), axis=op.axis, ascending=not op.descending, outputs=2
    )
    for value, var in zip(op.outputs, variables, strict=True):
        b.set(value, var)
