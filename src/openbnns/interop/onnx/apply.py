"""ONNX's operators on tensors, for files and for other formats: constants are folded, all else is recorded."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ..._plural import plural
from ...graph.sizes import Size
from ...graph.tensor import Array
from ..converted.tensors import ForeignTensor, Misfit
from . import operators  # noqa: F401  (which fill the table)
from ._call import Call, as_declared
from ._file import NEWEST, Node, type_number
from ._numpy import compute, frozen
from ._operator import OPERATORS, Operator
from .tensor import by_numpy, constant_of


def apply(
    op: str, *tensors: ForeignTensor | None, outputs: int = 1, freed: Mapping[int, Size] | None = None, cells: Any = None,
    **attributes: Any,
) -> Any:  # fmt: skip
    """The result of an operator of the newest version, or a tuple of ``outputs`` if there are several.

    ``freed`` are sizes that are free here though a file has one number for them, by that number; ``cells`` are the weights of
    recurrent cells, one :class:`~openbnns.interop.onnx.operators.cells.Cells` for each direction.
    """
    given = list(tensors)
    while given and given[-1] is None:
        given.pop()
    held = {name: tuple(value) if isinstance(value, list) else value for name, value in attributes.items()}
    node = Node("", op, ("x",) * len(given), tuple(map(str, range(outputs))), held, 0)
    results = result_of(Call(node, NEWEST, freed or {}, cells), given)
    return results[0] if outputs == 1 else results[:outputs]


def result_of(call: Call, tensors: Sequence[ForeignTensor | None]) -> tuple[ForeignTensor, ...]:
    """The results of an operator on tensors: folded, computed in NumPy, or recorded."""
    operator, tensors = OPERATORS[call.op], list(tensors)
    _require(call, tensors)
    for place in operator.shaping:
        x = tensors[place] if place < len(tensors) else None
        if x is not None and not x.constant:
            tensors[place] = ForeignTensor(constant_of(x, f"input {place}"))
    given = [x for x in tensors if x is not None]
    if operator.compute is not None and _is_folded(operator, given):
        folded = _folded(operator, call, [None if x is None else x.held for x in tensors])
        return _under_types(operator, call, tensors, tuple(map(ForeignTensor, folded)))
    changing = {x.kind for x in given if not x.constant}
    of_numbers = any(x.kind == "f" for x in given[:3])  # that whole numbers or a mask choose from
    whole = changing and changing <= {"i", "b"} and not of_numbers
    if operator.compute is not None and whole and not operator.records_whole:
        return by_numpy(call, tensors)
    results = operator.record(call, *tensors)
    return _under_types(operator, call, tensors, results if isinstance(results, tuple) else (results,))


def _under_types(
    operator: Operator, call: Call, tensors: Sequence[ForeignTensor | None], results: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Results under the types that ONNX gives to whole numbers, which keep the lowest bits of what is too large for them."""
    if call.node.graphs:
        ports = call.node.graphs[0].outputs[-len(results) :]
        return tuple(map(as_declared, ports, results))
    rule = operator.whole_type
    if rule is None or not results or results[0].kind != "i":
        return results
    if isinstance(rule, int):
        x = tensors[rule] if rule < len(tensors) else None
        if x is None or x.kind != "i":
            return results
        wanted = x.whole_type
    else:
        wanted = np.dtype(rule if isinstance(rule, str) else rule(call))
    first = results[0]
    if operator.wraps and not first.constant and not np.can_cast(first.whole_type, wanted):
        node = Node("", "Cast", ("x",), ("y",), {"to": type_number(wanted)}, 0)
        first = by_numpy(replace(call, node=node), [first])[0]
    return (first.under_type(wanted), *results[1:])


def _is_folded(operator: Operator, given: Sequence[ForeignTensor]) -> bool:
    return all(x.constant and (operator.folds_sizes or x.held.dtype != object) for x in given)


def _folded(operator: Operator, call: Call, arrays: list[Array | None]) -> tuple[Array, ...]:
    """The results of an operator on constants; arrays that others may hold stay as they are."""
    results = compute(operator.compute, call, arrays)
    for result in results:
        if result.base is None and not any(result is array for array in arrays):
            frozen(result)
    return results


@cache
def _arity(op: str) -> tuple[int, float, tuple[int, ...]]:
    """The least and largest numbers of an operator's inputs, and which of the first must not be left out."""
    parameters = list(inspect.signature(OPERATORS[op].record).parameters.values())[1:]
    any_number = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    named = [p for p in parameters if p.kind is not p.VAR_POSITIONAL] or parameters
    there = tuple(i for i, p in enumerate(named) if p.default is p.empty and "None" not in str(p.annotation))
    return sum(p.default is p.empty for p in named), float("inf") if any_number else float(len(named)), there


def _require(call: Call, tensors: Sequence[ForeignTensor | None]) -> None:
    least, most, there = _arity(call.op)
    if len(tensors) < least or len(tensors) > most or any(tensors[i] is None for i in there):
        raise Misfit(f"has {plural(len(tensors), 'input')}, or one of them left out, but needs {least}")
