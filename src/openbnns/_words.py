"""The words of a face: who was called, and what it calls its arguments."""

from __future__ import annotations

from collections.abc import Mapping


class Caller:
    """A public call, for messages. Names are those of C; another face gives its own for some or all of them.

    ``caller("in")`` begins a message: ``BNNSFilterApply: in``, or ``PoolingLayer.apply: input``. Within a sentence,
    ``caller.name("out")`` is the name alone, and ``caller.null`` what stands for "not there".
    """

    __slots__ = ("function", "names", "null")

    def __init__(self, function: str, names: Mapping[str, str] | None = None, *, null: str = "NULL") -> None:
        self.function, self.names, self.null = function, names or {}, null

    def __call__(self, argument: str) -> str:
        return f"{self.function}: {self.name(argument)}"

    def __str__(self) -> str:
        return self.function

    def name(self, argument: str) -> str:
        """What this face calls an argument; an element of a list goes by the name of the list."""
        found = self.names.get(argument)
        if found is not None:
            return found
        head, bracket, index = argument.partition("[")
        return self.names.get(head, head) + bracket + index
