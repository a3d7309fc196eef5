"""The native call of a declared call: arguments in the form that kernels want are checked in constant time and run.

Anything else is declined silently; the caller then goes through Python, which knows every rule and words every message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .. import engines
from ..tensors.descriptors import FLOAT32, packed_strides
from ..tensors.operands import Operand
from .form import Arguments, Choosing, Form

if TYPE_CHECKING:
    from .signature import Argument, Call, Owner

# Kinds of arguments, as in core/bindings/fast_call.h.
_BUFFER, _DESCRIPTOR, _IGNORED, _REFUSED, _COUNTED = range(5)


def declined(*_: Any) -> int:
    """The native call of a filter that has none."""
    return 1


def number_of(run: Any) -> int:
    """The number by which C programs know a native call (core/bindings/raw.h); 0 if there is none."""
    return 0 if run is declined else int(run.__self__.number())


def end_calls(calls: dict[Any, Any]) -> None:
    """Drop native calls: those in progress end first, and those made later through a kept reference are declined."""
    for run in calls.values():
        if run is not declined:
            run.__self__.end()
    calls.clear()


def native_call(filter: Owner, arguments: Arguments) -> Any:
    """A function that runs a public call of a filter natively; it returns 0, or 1 when it declines."""
    if isinstance(arguments, Form):
        call = filter.declared(arguments.call, arguments.variant)
        return declined if call is None else fast_call(filter, call, arguments)
    if isinstance(arguments, Choosing):
        choices = [(values, _object(filter.native(form))) for values, form in arguments.choices()]
        known = [(values, call) for values, call in choices if call is not None]
        return engines._core.Variants(list(arguments.places), known).run if known else declined
    calls = {cached: _object(filter.native(form)) for cached, form in arguments.forms.items()}
    if not any(calls.values()):
        return declined
    place = arguments.names.index
    return engines._core.Selected(
        count=len(arguments.names),
        absent=[place(name) for name in arguments.absent],
        cache=place(arguments.cache),
        size=place(f"{arguments.cache}_size"),
        pointer=arguments.pointer,
        bytes_per_sample=arguments.sample_bytes(filter),
        without=(arguments.picks(arguments.forms[False]), calls[False]),
        with_=(arguments.picks(arguments.forms[True]), calls[True]),
    ).run


def _object(run: Any) -> Any:
    """The native call behind what runs it."""
    return None if run is declined else run.__self__


def fast_call(filter: Owner, call: Call, form: Form) -> Any:
    """A function that runs ``call`` natively with arguments in the order of ``form``; it returns 0, or 1 when it declines."""
    core, plan, fixed = engines._core, call.plan, filter.fixed_addresses()
    if core is None or plan is None or fixed is None or not call.takes_fast:
        return declined
    if call.backward and any(t is not None and t.view.element is not FLOAT32 for t in call.trained.values()):
        return declined
    given = {name for name, _ in form.tensors}
    for a in call.arguments:
        if a.name.partition("[")[0] not in given:
            if a.required or a.needs:
                return declined
        elif isinstance(a.tensor, Operand) and not a.described and not a.tensor.fast:
            return declined
    slots = {a.name: a.slot for a in call.arguments}
    specifications, lengths = [], []
    for name, stride in form.tensors:
        listed = [] if name in call.by_name else call.items(name)
        taken = listed or [call.by_name[name]] if listed or name in call.by_name else []
        specifications += [_specification(call, a, bool(stride), slots) for a in taken] or [_ignored(bool(stride))]
        lengths.append(len(listed) if listed else -1)
    lists = lengths if any(length >= 0 for length in lengths) else []
    return core.FastCall(
        plan, call.backward, specifications, fixed, filter.threads, call.training, form.batched, lists
    ).run


def _bits(names: Iterable[str], slots: Mapping[str, int]) -> int:
    return sum(1 << slots[name] for name in names if name in slots)


def _ignored(strided: bool) -> Any:
    return engines._core.argument(slot=0, kind=_IGNORED, strided=strided, batched=False)


def _specification(call: Call, a: Argument, strided: bool, slots: Mapping[str, int]) -> Any:
    if a.tensor is None:
        return _ignored(strided)
    view = a.tensor.view
    needs = [need for need in a.needs if need.results & call.results]
    needed_for = {result for need in needs for result in need.results}
    unless = frozenset.intersection(*(need.unless for need in needs)) if needs else frozenset()
    if a.required:
        needed_for |= call.results - {a.name}
    common: dict[str, Any] = {
        "slot": a.slot, "strided": strided, "batched": a.batched, "needed_with": _bits(needed_for, slots),
        "unless": _bits(unless, slots), "optional_data": a.skips_null_data,
    }  # fmt: skip
    staged = a.described and not (view.packed and a.tensor.order == view.memory_axes)  # a gradient
    if staged or not a.native:
        return engines._core.argument(kind=_REFUSED, **common)  # NULL is still seen, and may be what a rule asks for
    return engines._core.argument(
        kind=_COUNTED if a.counted else _DESCRIPTOR if a.described else _BUFFER,
        output=a.writes,
        count=view.count,
        may_equal=_bits((a.may_equal - call.results) | a.adds_up_with, slots),  # two results in one place need a sum
        layout=view.layout.code,
        size=list(view.size),
        stride=list(packed_strides(view.layout, view.size, (0,) * view.layout.rank)),
        **common,
        **a.tensor.native_items(a.writes),
    )
