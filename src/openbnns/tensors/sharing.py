"""Results of one call that share memory; docs/descriptors.md has the rule.

In C such a call runs: programs point all results that they do not want at one place, and BNNS lets them. What the shared
memory holds afterwards is unspecified; everything else is right, because these results are computed elsewhere and written
one after the other. Strict mode warns. The Python classes refuse the call, because they leave out what is not wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from .. import _strict
from .._words import Caller
from ..errors import Problem
from .operands import Bound

Key = TypeVar("Key")


def sharing(results: Mapping[Key, Bound]) -> dict[Key, Key]:
    """Every result that shares memory with another one, and one that it shares it with."""
    holders: dict[Key, Key] = {}
    keys, reach, furthest = list(results), 0, -1  # where results end so far, and which one ends there
    for begin, end, i in sorted(
        (r.buffer.address, r.buffer.address + r.nbytes, i) for i, r in enumerate(results.values())
    ):
        if begin == end:
            continue
        if begin < reach:
            holders.setdefault(keys[furthest], keys[i])
            holders[keys[i]] = keys[furthest]
        if end > reach:
            reach, furthest = end, i
    return holders


def check_sharing(caller: Caller, results: Mapping[str, Bound], who: str | None = None) -> None:
    """Object to results by name that share memory; ``who`` comes before the first name of a message."""
    if is_checked(caller):
        for first, second in sharing(results).items():
            object_to_sharing(caller, f"{caller('') if who is None else who}{first}", second)


def is_checked(caller: Caller) -> bool:
    """True if anyone objects to results that share memory."""
    return caller.wants_results or _strict.active()


def object_to_sharing(caller: Caller, first: str, second: str) -> None:
    """Refuse two results in one place if both are wanted; otherwise warn in strict mode."""
    if caller.wants_results:
        raise Problem(
            f"{first} and {second} share memory, so one result would overwrite the other. Give each its own buffer."
        )
    _strict.shared_results(first, second)
