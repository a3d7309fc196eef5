"""Functions of ``openbnns.capi`` that drive a filter, made from their signatures and the records of filters.

    @drives("apply")
    def BNNSFilterApply(filter: BNNSFilter | None, in_: Any, out: Any) -> int:
        '''Run a single-input filter on one sample.'''
        return DECLARED

Such a function tries the filter's native call first, and otherwise makes the call with all checks. It returns 0, or a
negative code with the reason kept for ``last_error``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _strict
from .._words import Caller
from ..calls.fast import declined
from ..calls.form import Arguments, Choosing, Selecting, form
from ..errors import Problem, out_of_memory, record, succeeded
from ..filters.base import Filter

if TYPE_CHECKING:
    from .. import diagnosis
    from ..calls.binding import Given

DECLARED = 0
"""The return value in the body of a declared function. The body runs only to check arguments against the signature."""

DRIVERS: dict[str, list[tuple[Callable[..., int], tuple[str, ...]]]] = {}
"""The functions that make each call of a filter, each with its arguments that are not tensors."""

_Callable = TypeVar("_Callable", bound=Callable[..., int])
_ABSENT: Any = object()


def drives(
    call: str,
    *,
    chooses: str | tuple[str, ...] = (),
    among: Sequence[Hashable] = (),
    selecting: Callable[[Sequence[str]], Selecting] | None = None,
) -> Callable[[_Callable], _Callable]:
    """Turn a signature into a function of the C face that makes the named call of its filter.

    ``chooses`` are arguments that are not tensors but select a variant of the call, as ``training`` does; ``among`` lists
    the choices that may have a native call, as tuples where several arguments choose. ``selecting``, for a function with
    more arguments than its native calls, says from the argument names which of them to pass on.
    """

    def decorate(function: _Callable) -> _Callable:
        entry = _Entry(function, call, (chooses,) if isinstance(chooses, str) else chooses, among, selecting)
        made = functools.wraps(function)(_function(entry))
        made.number = entry.number  # type: ignore[attr-defined]
        DRIVERS.setdefault(call, []).append((made, entry.chooses))
        return made  # type: ignore[return-value]

    return decorate


class _Entry:
    """One function: its parameters, and how its messages name them."""

    def __init__(
        self,
        function: Callable[..., int],
        call: str,
        chooses: tuple[str, ...],
        among: Sequence[Hashable],
        selecting: Callable[[Sequence[str]], Selecting] | None,
    ) -> None:
        code = function.__code__
        self.function, self.call = function, call
        self.python_names = code.co_varnames[: code.co_argcount]  # a C name that Python reserves ends in _
        defaults = function.__defaults__ or ()
        self.defaults: dict[str, Any] = dict(
            zip(self.python_names[code.co_argcount - len(defaults) :], defaults, strict=True)
        )
        self.names = [name.rstrip("_") for name in self.python_names]
        self.chooses = chooses
        order = tuple(name for name in self.names[1:] if name not in chooses)
        plain = form(call, order)
        self.tensors = plain.tensors
        self.caller = Caller(function.__name__)
        self.arguments: Arguments = plain
        if chooses:
            forms = {choice: form(call, order, choice) for choice in among}
            self.arguments = Choosing(forms, [self.names.index(name) - 1 for name in chooses])
        elif selecting is not None:
            self.arguments = selecting(self.names[1:])

    def number(self, filter: Filter) -> int:
        """The number by which C programs run this function on a filter; 0 if it always goes through Python."""
        return filter.number(self.arguments)

    def in_order(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any] | None:
        """All arguments after the filter, in order; ``None`` if they do not match the signature."""
        names = self.python_names[1:]
        if not named.keys() <= set(names[len(arguments) :]):
            return None
        values = {**self.defaults, **dict(zip(names, arguments, strict=False)), **named}
        return [values[name] for name in names] if len(values) == len(names) else None

    def checked(self, filter: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> int:
        """The call with every check."""
        given = arguments if filter is _ABSENT else (filter, *arguments)
        self.function(*given, **named)  # raises TypeError for arguments that do not match
        values = {**self.defaults, **dict(zip(self.python_names, given, strict=False)), **named}
        by_name = {name.rstrip("_"): value for name, value in values.items()}
        tensors = {name: (by_name[name], by_name[stride] if stride else 0) for name, stride in self.tensors}
        choices = tuple(by_name[name] for name in self.chooses)
        choice = choices if len(choices) > 1 else choices[0] if choices else None
        batch, single = by_name.get("batch_size", 1), "batch_size" not in by_name
        return perform(by_name[self.names[0]], self.call, self.caller, batch, tensors, choice, single=single)


def perform(
    filter: Any, call: str, caller: Caller, batch: Any, tensors: Given, choice: Any = None, *, single: bool = False
) -> int:
    """Make a call of a filter with every check, as a C function does; ``single``: the call takes a single sample."""
    try:
        _require_filter(filter, caller.function)
        if _strict.active():
            given = [t for t in _with_samples(filter, call, caller, tensors, choice) if t.data is not None]
            if single:
                _strict.batch_in_single_call(caller.function, [t for t in given if not t.described])
            else:
                _strict.stride_zero(caller.function, batch, given)
                _strict.overlapping_samples(caller.function, batch, given)
        filter.perform(call, caller, batch, tensors, choice)
    except Problem as problem:
        if not isinstance(filter, Filter):
            return record(problem)
        from .. import diagnosis  # only here, when a call has failed

        return record(diagnosis.of_call(problem, batch, _with_samples(filter, call, caller, tensors, choice)))
    except MemoryError:
        return record(out_of_memory(caller.function))
    return succeeded(0)


def _require_filter(filter: Any, who: str) -> None:
    if filter is None:
        raise Problem(
            f"{who}: filter is NULL. Its creation failed or was skipped: check the creation call and its message."
        )
    if not isinstance(filter, Filter):
        raise TypeError(f"{who}: filter must be a BNNSFilter, not {type(filter).__name__}.")


def _with_samples(filter: Filter, call: str, caller: Caller, tensors: Given, choice: Any) -> list[diagnosis.Given]:
    """The tensors of a call that have one sample per entry of the batch, with what was passed for them."""
    from .. import diagnosis

    try:
        record = filter.declared(call, filter.choose(call, choice, caller))
    except (Problem, TypeError):  # the call itself reports it
        return []
    given = []
    for name, (data, stride) in tensors.items():
        argument = None if record is None else record.by_name.get(name)
        if argument is not None and argument.tensor is not None and argument.batched and argument.strided:
            given.append(diagnosis.Given(name, argument.tensor.view, data, stride))
    return given


def _function(entry: _Entry) -> Callable[..., int]:
    given, checked = entry.arguments, entry.checked

    def call(filter: Any = _ABSENT, /, *arguments: Any, **named: Any) -> int:
        try:
            run = filter.fast[given]  # an exception that is not raised costs nothing, and this is the hot path
        except (KeyError, AttributeError):
            run = filter.prepare(given) if isinstance(filter, Filter) else declined
        if not named:
            if run(*arguments) == 0:
                return 0
        elif (ordered := entry.in_order(arguments, named)) is not None and run(*ordered) == 0:
            return 0
        return checked(filter, arguments, named)

    return call
