"""The signature of a call of a filter: the record from which checks, binding, staging and messages follow.

Tensors go by their C names (``in``, ``out_delta``, ``in_delta[1]``), whatever a face calls them.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .._cached import cached_property
from ..tensors.descriptors import FLOAT32, ElementType

if TYPE_CHECKING:
    from .._words import Caller
    from ..tensors.operands import Bound, Operand, Parameter
    from .form import Arguments


class Owner(Protocol):
    """The part of a filter that running a call needs."""

    threads: int

    def parameters(self) -> Iterable[Parameter]:
        """The parameters that it holds, which every call reads."""

    def fixed_addresses(self) -> list[tuple[int, int, int]] | None:
        """Slot, address and bytes of each; ``None`` where one must be staged at each call."""

    def declared(self, call: str, variant: Hashable = None) -> Call | None:
        """The record of a call; ``None`` for one that does not drive this filter."""

    def native(self, arguments: Arguments) -> Any:
        """A function that runs such arguments natively."""


@dataclass(frozen=True)
class Need:
    """A tensor without which some results cannot be computed: which results, and why, as a clause that names no argument.

    ``unless`` lists tensors that make up for its absence. Where values decide, the clause is empty: native code then
    declines, and the family checks.
    """

    results: frozenset[str]
    because: str
    unless: frozenset[str] = frozenset()
    optional: bool = True  # the message suggests leaving out the results

    def message(self, caller: Caller, name: str, wanted: Collection[str]) -> str:
        cure = "Pass it"
        if self.unless:
            cure += f", or the {' or '.join(caller.name(other) for other in sorted(self.unless))} of the forward call"
        if self.optional and len(wanted) == 1:
            cure += f", or no {caller.name(next(iter(wanted)))}"
        return f"{caller(name)} is {caller.null}, but {self.because}. {cure}."


def need(results: Collection[str], because: str, unless: Collection[str] = (), *, optional: bool = True) -> Need:
    """A :class:`Need` from any collections of names."""
    return Need(frozenset(results), because, frozenset(unless), optional)


@dataclass(frozen=True)
class Argument:
    """One tensor of a call, as the filter that is called expects it.

    ``tensor`` is what the memory must hold; ``None`` for an argument that this filter accepts and ignores.
    """

    name: str
    slot: int  # in the native plan
    tensor: Operand | Parameter | None
    writes: bool = False
    gradient_of: str = ""  # a tensor of the forward call, or a parameter: whose gradient it is
    described: bool = False  # comes as a descriptor, as gradients do; otherwise as plain memory
    batched: bool = True  # one sample per entry of the batch; otherwise one for all
    strided: bool = True  # comes with a batch stride, in calls on a batch
    counted: bool = False  # followed by its number of elements where others have a stride; 0 is none
    required: bool = False  # the call makes no sense without it
    purpose: str = ""  # what a required one is for, as a clause, and what to do
    skips_null_data: bool = False  # a descriptor without data counts as absent
    needs: tuple[Need, ...] = ()
    updates: bool = False  # the plan adds to what a result holds
    may_equal: frozenset[str] = frozenset()  # tensors that may lie in the very same memory
    adds_up_with: frozenset[str] = frozenset()  # results in the very same memory, which the native plan adds up itself
    native: bool = True  # otherwise native code takes NULL only
    elements: tuple[ElementType, ...] = (FLOAT32,)  # types that a described tensor may have
    default: Any = None  # memory that NULL stands for
    note: str = ""  # what to add to a message about it

    @property
    def stride(self) -> str:
        """The name of its batch stride: ``in_stride``, or ``in_stride[0]`` of an entry of a list."""
        name, bracket, index = self.name.partition("[")
        return f"{_STRIDES.get(name, name)}_stride{bracket}{index}"


_STRIDES = {"indices": "idx"}


@dataclass(frozen=True)
class ListOf:
    """An argument that comes as a list of tensors."""

    rule: str  # why it has the length that it has, as a clause: "Add has 2 operands"
    required: str = ""  # what to do about NULL where that does not stand for a list of NULLs


@dataclass(frozen=True)
class Call:
    """A call of one filter: its tensors, and the settings of the native plan."""

    arguments: tuple[Argument, ...]
    backward: bool = False
    training: bool = False
    takes_fast: bool = True  # native code may run it without the checks of Python
    plan: Any = None  # the native plan, if it is not the filter's
    trained: Mapping[str, Any] = field(default_factory=dict)  # tensors whose types must suit training, by name
    trained_elements: tuple[ElementType, ...] = (FLOAT32,)

    @cached_property
    def by_name(self) -> dict[str, Argument]:
        return {argument.name: argument for argument in self.arguments}

    lists: Mapping[str, ListOf] = field(default_factory=dict)  # arguments that come as lists of tensors

    def items(self, name: str) -> list[Argument]:
        """The tensors of an argument that comes as a list."""
        return [argument for argument in self.arguments if argument.name.startswith(f"{name}[")]

    def adds_up(self, first: str, second: str, bound: Mapping[str, Bound]) -> bool:
        """True if two results in one place are gradients of one tensor, which gets their sum."""
        if first not in self.by_name[second].may_equal or not bound[first].same_memory(bound[second]):
            return False
        one, other = (bound.get(self.by_name[name].gradient_of) for name in (first, second))
        return one is None or other is None or one.buffer.address == other.buffer.address

    @cached_property
    def results(self) -> frozenset[str]:
        """Names of what the call writes."""
        return frozenset(a.name for a in self.arguments if a.writes and a.tensor is not None)
