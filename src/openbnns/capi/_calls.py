"""How every function of the C face fails: it keeps and logs a message, returns a status code, and writes nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from .. import _strict
from .._words import Caller
from ..abi.enums import BNNSFlags
from ..abi.structs import BNNSFilterParameters
from ..errors import Problem, out_of_memory, record, succeeded
from ..filters.base import Filter
from ..filters.direct import known_calls, recorded

__all__ = ["BNNSFilter"]

BNNSFilter = Filter

_F = TypeVar("_F", bound=Filter)


def create(
    make: Callable[..., _F], who: str, layer_params: Any, struct: type[Any], filter_params: Any, *rest: Any
) -> _F | None:
    """A filter, or ``None`` with the reason kept."""
    if not is_given(layer_params, struct, who):
        return None
    check_filter_params(filter_params, who)
    try:  # on a copy: what is checked must be what is used, even if another thread changes the struct meanwhile
        params = None if filter_params is None else filter_params.copy()
        own = layer_params if layer_params.only_mine else layer_params.copy()
        return succeeded(make(own, params, Caller(who), *rest))
    except Problem as problem:
        record(_with_better_cure(problem, make, who, layer_params, rest))
    except MemoryError:
        record(out_of_memory(who))
    return None


def _with_better_cure(
    problem: Problem, make: Callable[..., Filter], who: str, layer_params: Any, rest: tuple[Any, ...]
) -> Problem:
    """The problem of a failed creation call, with a better cure if there is one."""
    from .. import diagnosis

    in_place = BNNSFilterParameters(flags=BNNSFlags.BNNSFlagsUseClientPtr)  # copies nothing, calls no allocator

    def valid(changed: Mapping[str, Any]) -> bool:
        try:
            with _strict.strict(False):
                make(diagnosis.with_descriptors(layer_params, changed), in_place, Caller(who), *rest).destroy()
        except Exception:  # any failure: this variant is not what was meant
            return False
        return True

    return diagnosis.of_creation(problem, diagnosis.descriptors_in(layer_params), valid)


def is_given(value: Any, struct: type[Any], who: str, name: str = "layer_params") -> bool:
    """True if a struct is given; if it is NULL, the reason is recorded. Anything else raises ``TypeError``."""
    if value is None:
        record(Problem(f"{who}: {name} is NULL. Pass a {struct.__name__}."))
        return False
    if not isinstance(value, struct):
        raise TypeError(f"{who}: {name} must be a {struct.__name__}, not {type(value).__name__}.")
    return True


def check_filter_params(filter_params: Any, who: str) -> None:
    """Refuse anything but a ``BNNSFilterParameters`` or NULL."""
    if filter_params is not None and not isinstance(filter_params, BNNSFilterParameters):
        raise TypeError(
            f"{who}: filter_params must be a BNNSFilterParameters or None, not {type(filter_params).__name__}."
        )


class Known:
    """A C function without a filter, whose recorded calls are repeated without checks."""

    by_name: ClassVar[dict[str, Known]] = {}

    def __init__(self, function: str, *outputs: int, **memory: Any) -> None:
        """``outputs`` are the positions of what the function writes in the keys of its calls.

        ``memory`` says which arguments describe the memory behind an address. See ``known_calls``.
        """
        self.caller, self.calls = Caller(function), known_calls(*outputs, function=function, **memory)
        self.by_name[function] = self

    def number(self) -> int:
        """The number by which C programs repeat known calls."""
        return int(self.calls.number())

    def attempt(self, key: tuple[Any, ...], work: Callable[..., None], constants: list[Any] | None = None) -> int:
        """Do the work of a call that is not known: 0, or a negative code with the reason kept."""
        try:
            recorded(self.calls, key, work, constants)
        except Problem as problem:
            return record(problem)
        except MemoryError:
            return record(out_of_memory(self.caller.function))
        return succeeded(0)


class Direct(Known):
    """The same for a function whose arguments are the keys of its calls: ``work`` takes a caller and those arguments."""

    def __init__(self, function: str, work: Callable[..., None], *outputs: int, **memory: Any) -> None:
        super().__init__(function, *outputs, **memory)
        self.work = work

    def __call__(self, *arguments: Any) -> int:
        if self.calls.run(*arguments) is not None:
            return 0
        return self.attempt(arguments, functools.partial(self.work, self.caller))


def attempt_direct(work: Callable[..., None], caller: Caller, *arguments: Any) -> int:
    """Run a function without a filter as a C call, without recording it."""
    try:
        work(caller, *arguments)
    except Problem as problem:
        return record(problem)
    except MemoryError:
        return record(out_of_memory(caller.function))
    return succeeded(0)
