"""Checks at creation that several families share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._words import Caller
from ..errors import Problem
from ..tensors.descriptors import FLOAT32, View, describe, resolve


def chosen(value: Any, members: Iterable[int], enum: str, who: Caller, field: str, use: str = "") -> int:
    """The number of an enum member, checked; ``use`` tells the reader of the message which members there are."""
    number, known = int(value), set(members)
    if number not in known:
        use = use or f"one of {min(known)} to {max(known)}"
        raise Problem(f"{who(field)} is {number}, which is not a {enum}. Use {use}.")
    return number


def resolve_both(p: Any, who: Caller) -> tuple[View, View]:
    """Input and output of a description."""
    return resolve(p.i_desc, who("i_desc")), resolve(p.o_desc, who("o_desc"))


def describe_both(x: View, y: View, who: Caller) -> str:
    """The beginning of a message about an input and an output that do not match."""
    return f"{who('i_desc')} is {describe(x)} and {who.name('o_desc')} is {describe(y)}"


def require_same_layout(x: View, y: View, who: Caller) -> None:
    if not x.layout.same_as(y.layout):
        raise Problem(
            f"{who('i_desc')} is {x.layout.name} and {who.name('o_desc')} is {y.layout.name}. Both sides need the same layout."
        )


def require_same_shape(x: View, y: View, who: Caller, rule: str) -> None:
    """Refuse an input and an output of different dimensions; ``rule`` says what needs them equal."""
    if not x.layout.same_as(y.layout) or x.size != y.size:
        raise Problem(f"{describe_both(x, y, who)}. {rule}: make them equal.")


def require_float32(view: View, subject: str, works: str, *, unsupported: bool = False) -> None:
    """Refuse other element types; ``works`` is subject and verb of the message, such as "losses work on"."""
    if view.element is not FLOAT32:
        raise Problem(
            f"{subject}.data_type is {view.element.name}, but {works} Float32 only. Use BNNSDataTypeFloat32.",
            kind=TypeError,
            unsupported=unsupported,
        )
