"""The form of a public call: which tensors it takes, in which order, each with its stride or without."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

_COUNT = "weights_size"  # of the weights of a loss: it stands where another tensor has its stride


class Form:
    """The arguments of a public call after its filter. Forms are compared by identity: see :func:`form`.

    ``call`` names the call that a filter declares (``"apply"``, ``"apply_backward_pooling"``); ``variant`` is a choice
    that the filter declares apart, such as training or the type of indices.
    """

    __slots__ = ("batched", "call", "tensors", "variant")

    def __init__(self, call: str, parameters: tuple[str, ...], variant: Hashable) -> None:
        self.call, self.variant = call, variant
        self.batched = "batch_size" in parameters
        tensors: list[tuple[str, str]] = []
        for name in parameters:
            if name.endswith("_stride") or name == _COUNT:
                tensors[-1] = (tensors[-1][0], name)
            elif name != "batch_size":
                tensors.append((name, ""))
        self.tensors = tuple(tensors)  # each with the name of its stride, empty if it has none

    def __repr__(self) -> str:
        names = " ".join(f"{tensor} {stride}".strip() for tensor, stride in self.tensors)
        return f"Form({self.call}: {names}{'' if self.variant is None else f', variant={self.variant!r}'})"


_forms: dict[tuple[str, tuple[str, ...], Hashable], Form] = {}


def form(call: str, parameters: str | Sequence[str], variant: Hashable = None) -> Form:
    """The form with these parameters, the same object for the same words.

    >>> form("apply", "batch_size in in_stride out out_stride").tensors
    (('in', 'in_stride'), ('out', 'out_stride'))
    """
    names = tuple(parameters.split() if isinstance(parameters, str) else parameters)
    key = (call, names, variant)
    return _forms.get(key) or _forms.setdefault(key, Form(*key))


class Choosing:
    """The arguments of a public call of which some, at ``places``, choose the form of the others."""

    __slots__ = ("forms", "places")

    def __init__(self, forms: Mapping[Hashable, Form], places: Sequence[int]) -> None:
        self.forms, self.places = forms, places

    def choices(self) -> list[tuple[list[int], Form]]:
        """The values of the choosing arguments, and what they choose."""
        return [(list(map(int, c if isinstance(c, tuple) else (c,))), form) for c, form in self.forms.items()]


class Selecting:
    """The arguments of a public call that takes more than its native calls.

    ``names`` are all arguments after the filter, ``absent`` those that must be NULL in a simple call. The presence of
    ``cache`` selects the form; ``pointer`` is the type that points to its size, ``None`` if the size itself is passed, and
    ``sample_bytes`` gives the bytes that a filter keeps there per sample. A form names ``members`` of structs, which are in
    the order of C, as ``query_param_delta.weights``.
    """

    __slots__ = ("absent", "cache", "forms", "members", "names", "pointer", "sample_bytes")

    def __init__(
        self, names: Sequence[str], absent: Sequence[str], cache: str, pointer: type | None,
        sample_bytes: Callable[[Any], int], members: Sequence[str], forms: Mapping[bool, Form],
    ) -> None:  # fmt: skip
        self.names, self.absent, self.cache, self.pointer = names, absent, cache, pointer
        self.sample_bytes, self.members, self.forms = sample_bytes, members, forms

    def picks(self, form: Form) -> list[tuple[int, int]]:
        """The values to pass on: the position of an argument, and the number of its member, -1 for the argument itself."""
        places = []
        for name in ("batch_size", *(name for pair in form.tensors for name in pair if name)):
            owner, _, member = name.partition(".")
            places.append((self.names.index(owner), self.members.index(member) if member else -1))
        return places


Arguments = Form | Choosing | Selecting
"""The arguments of a public call after its filter. All of them are compared by identity."""
