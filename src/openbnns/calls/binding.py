"""Binding the arguments of a call: memory, types and room of each, and what the record says about them together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._plural import plural
from ..errors import Problem
from ..tensors.descriptors import describe
from ..tensors.operands import Bound, Operand, Parameter, check_stride, check_training_types, entries, keep_apart
from ..tensors.sharing import is_checked, object_to_sharing, sharing

if TYPE_CHECKING:
    from .._words import Caller
    from .signature import Argument, Call, ListOf

Given = Mapping[str, tuple[Any, Any]]
"""The memory or descriptor, and the batch stride, that a caller passed for each tensor."""


def bind(call: Call, caller: Caller, batch: int, given: Given) -> dict[str, Bound]:
    """The tensors of a call that are there, checked; raises :class:`Problem` for what breaks a rule of the record."""
    if call.backward:
        check_training_types(caller, call.trained, call.trained_elements)
    bound: dict[str, Bound] = {}
    given = _spread(call, caller, given) if call.lists else given
    for argument in call.arguments:
        data, stride = given.get(argument.name, (None, 0))
        try:
            result = _bind_one(argument, caller, batch, argument.default if data is None else data, stride)
        except Problem as problem:
            if argument.note:
                problem.cure = f"{problem.cure} {argument.note}" if problem.cure else argument.note
            raise
        if result is not None:
            bound[argument.name] = result
    _require_needed(call, caller, bound)
    if is_checked(caller):
        _check_sharing(call, caller, bound)
    return bound


def _spread(call: Call, caller: Caller, given: Given) -> Given:
    """The tensors of a call whose lists are taken apart."""
    spread = dict(given)
    for name, rule in call.lists.items():
        values, strides = spread.pop(name, (None, 0))
        items = call.items(name)
        if values is None and rule.required:
            raise Problem(f"{caller(name)} is {caller.null}. {rule.required}")
        values = _entries(values, caller(name), rule, len(items), None)
        strides = _entries(strides if strides != 0 else None, caller(f"{name}_stride"), rule, len(items), 0)
        spread |= {item.name: (v, s) for item, v, s in zip(items, values, strides, strict=True)}
    return spread


def _entries(values: Any, who: str, rule: ListOf, count: int, missing: Any) -> Any:
    if values is None:
        return [missing] * count
    values = entries(values, who, plural(count, "entry"))
    if len(values) != count:
        raise Problem(f"{who} has {plural(len(values), 'entry')}, but {rule.rule}. Pass {count}.")
    return values


def _bind_one(argument: Argument, caller: Caller, batch: int, data: Any, stride: Any) -> Bound | None:
    tensor, who = argument.tensor, caller(argument.name)
    if tensor is None:
        return None
    if argument.counted:
        assert isinstance(tensor, Operand)
        return tensor.bind_counted(caller, argument.name, data, batch, stride)
    if data is None or (argument.skips_null_data and getattr(data, "data", data) is None):
        if argument.required:
            purpose = argument.purpose or f"this call needs it. Pass the memory of {describe(tensor.view)}."
            raise Problem(f"{who} is {caller.null}, but {purpose}")
        return None
    if isinstance(tensor, Parameter):
        return tensor.bind_delta(who, data, argument.elements)
    samples, step = (batch, check_stride(stride, caller(argument.stride))) if argument.batched else (1, 0)
    if argument.described:
        bound = tensor.bind_delta(who, data, samples, step, output=argument.writes, elements=argument.elements)
    else:
        bound = tensor.bind(who, data, samples, step, output=argument.writes)
    if argument.writes:
        keep_apart(bound, caller(argument.stride))
    return bound


def _require_needed(call: Call, caller: Caller, bound: Mapping[str, Bound]) -> None:
    for argument in call.arguments:
        if argument.name in bound:
            continue
        for need in argument.needs:
            wanted = need.results & bound.keys()
            if need.because and wanted and not need.unless & bound.keys():
                raise Problem(need.message(caller, argument.name, wanted))


def _check_sharing(call: Call, caller: Caller, bound: Mapping[str, Bound]) -> None:
    """Object to results in one place, but for gradients of one tensor, which add up there."""
    results = {a.name: bound[a.name] for a in call.arguments if a.writes and a.name in bound}
    for first, second in sharing(results).items():
        if not call.adds_up(first, second, bound):
            object_to_sharing(caller, caller(first), caller.name(second))
