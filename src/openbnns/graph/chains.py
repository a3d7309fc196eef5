"""Elementwise operations that follow each other as one; a pass for inference.

Formulas that models spell out, such as GELU by the error function, and the rounding of quantized numbers are many passes
over memory with hardly any arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence

from .operation import Operation
from .operations.chain import Chain, can_join
from .sizes import is_same_shape
from .tensor import Tensor


class _Growing:
    """A chain that others may still join: no other operation has read its results yet."""

    def __init__(self, place: int, operation: Operation) -> None:
        self.members = [operation]
        self.place = place  # of the latest member, where the chain will run
        self.ends = False

    def takes(self, operation: Operation) -> bool:
        made = {member.output.storage: member.output for member in self.members}
        inner = [x for x in operation.inputs if x.storage in made]
        return (
            not self.ends
            and is_same_shape(self.members[0].output.shape, operation.output.shape)
            and all(is_same_shape(x.shape, made[x.storage].shape) for x in inner)
        )


def join_elementwise(operations: Sequence[Operation], outputs: Sequence[Tensor]) -> list[Operation]:
    """Put chains in the place of elementwise operations that read each other's results.

    A chain runs where its last member was. So it ends as soon as an operation that is not in it reads one of its results.
    """
    chains: dict[Tensor, _Growing] = {}  # by results
    settled: set[Tensor] = set()  # results of constants and parameters only, which programs compute once
    grown: list[_Growing] = []
    for place, operation in enumerate(operations):
        if all(x.storage.leaf is not None or x.storage in settled for x in operation.inputs):
            settled.update(operation.outputs)
            continue
        read = list(dict.fromkeys(chains[x.storage] for x in operation.inputs if x.storage in chains))
        joined = None
        if can_join(operation):
            joined = next((chain for chain in reversed(read) if chain.takes(operation)), None)
            if joined is None:
                joined = _Growing(place, operation)
                grown.append(joined)
            else:
                joined.members.append(operation)
                joined.place = place
            chains[operation.output] = joined
        for chain in read:
            chain.ends = chain.ends or chain is not joined
    return _joined(operations, outputs, [chain for chain in grown if len(chain.members) > 1])


def _joined(operations: Sequence[Operation], outputs: Sequence[Tensor], chains: list[_Growing]) -> list[Operation]:
    readers: dict[Tensor, int] = {}
    for value in [*outputs, *(x for operation in operations for x in operation.inputs)]:
        readers[value.storage] = readers.get(value.storage, 0) + 1
    members = {id(member) for chain in chains for member in chain.members}
    at = {chain.place: chain.members for chain in chains}
    done: list[Operation] = []
    for place, operation in enumerate(operations):
        if place in at:
            if results := _read_outside(at[place], readers):  # or nothing reads any of them
                done.append(Chain(at[place], results))
        elif id(operation) not in members:
            done.append(operation)
    return done


def _read_outside(members: Sequence[Operation], readers: dict[Tensor, int]) -> list[Tensor]:
    inside: dict[Tensor, int] = {}
    for member in members:
        for x in member.inputs:
            inside[x.storage] = inside.get(x.storage, 0) + 1
    results = [member.output for member in members]
    return [y for y in results if readers.get(y, 0) > inside.get(y, 0)]
