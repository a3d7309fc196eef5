"""The words of a face: who was called, and what it calls its arguments."""

from __future__ import annotations

from collections.abc import Mapping


class Named(str):
    """The beginning of a message: who was called, and an argument or field; ``null`` is the face's word for NULL."""

    null: str

    def __new__(cls, text: str, null: str) -> Named:
        made = super().__new__(cls, text)
        made.null = null
        return made

    def field(self, name: str) -> Named:
        """A field of this argument."""
        return Named(f"{self}.{name}", self.null)


class Caller:
    """A public call, for messages. Names are those of C; another face gives its own for some or all of them.

    ``caller("in")`` begins a message: ``BNNSFilterApply: in``, or ``PoolingLayer.apply: input``. Within a sentence,
    ``caller.name("out")`` is the name alone, and ``caller.null`` is the word for NULL. Names are arguments, fields of
    their structs, and anything else that a cure tells the user to write, such as functions and constants. ``training_call``
    is how a face makes the forward call of a training step, if not by the C call with ``training`` set.

    >>> c, python = Caller("BNNSFilterCreateLayerPooling"), Caller("PoolingLayer", {"i_desc": "input"}, null="None")
    >>> c("i_desc.size[0]"), python("i_desc.size[0]")
    ('BNNSFilterCreateLayerPooling: i_desc.size[0]', 'PoolingLayer: input.size[0]')
    """

    __slots__ = ("function", "names", "null", "parts", "training_call")

    def __init__(
        self, function: str, names: Mapping[str, str] | None = None, *, null: str = "NULL",
        parts: Mapping[str, Caller] | None = None, training_call: str = "",
    ) -> None:  # fmt: skip
        self.function, self.names, self.null, self.parts = function, names or {}, null, parts or {}
        self.training_call = training_call

    def __call__(self, argument: str) -> Named:
        return Named(f"{self.function}: {self.name(argument)}", self.null)

    def __str__(self) -> str:
        return self.function

    @property
    def wants_results(self) -> bool:
        """True if every result that a call is given memory for is wanted: in Python, where all others are left out.

        C programs must often point results that they do not want somewhere.
        """
        return self.null == "None"

    def name(self, argument: str) -> str:
        """This face's name for an argument; list elements and fields use the name of the argument that they belong to."""
        end = len(argument) if self.names else 0  # C calls everything by its own name
        while end > 0:
            written = self.names.get(argument[:end])
            if written is not None:
                return written + argument[end:]
            end = max(argument.rfind(".", 0, end), argument.rfind("[", 0, end))
        return argument

    def part(self, argument: str) -> Caller:
        """Who speaks about the fields of an argument that is a struct, such as one layer of a fused one."""
        caller = self.parts.get(argument)
        return Caller(self(argument), self.names, null=self.null) if caller is None else caller
