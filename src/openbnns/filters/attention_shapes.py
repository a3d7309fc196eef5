"""The tensors of multihead attention: which axes are positions, features and heads, and whether their sizes agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import compat
from .._words import Caller
from ..abi.enums import BNNSDataLayout
from ..abi.structs import BNNSLayerParametersMultiheadAttention, BNNSNDArrayDescriptor
from ..errors import Problem
from ..parameters.attention import Sizes
from ..tensors import descriptors
from ..tensors.descriptors import View, describe

_L = BNNSDataLayout
_MATRICES = (
    _L.BNNSDataLayout2DFirstMajor, _L.BNNSDataLayout2DLastMajor, _L.BNNSDataLayoutRowMajorMatrix,
    _L.BNNSDataLayoutColumnMajorMatrix,
)  # fmt: skip
_VECTORS = (_L.BNNSDataLayoutVector, _L.BNNSDataLayout1DFirstMajor, _L.BNNSDataLayout1DLastMajor)
_LAYOUTS: dict[int, tuple[BNNSDataLayout, ...]] = {
    1: _VECTORS,
    2: _MATRICES,
    3: (_L.BNNSDataLayout3DFirstMajor, _L.BNNSDataLayout3DLastMajor, _L.BNNSDataLayoutMHA_DHK),
    4: (_L.BNNSDataLayout4DFirstMajor, _L.BNNSDataLayout4DLastMajor),
}

PARAMETERS = ("wq", "wk", "wv", "wo", "pq", "pk", "pv", "po", "bk", "bv")
"""Projections, their biases and the attention biases, in the order of the native slots."""

FIELDS: dict[str, tuple[str, str]] = {
    "wq": ("query", "weights"),
    "wk": ("key", "weights"),
    "wv": ("value", "weights"),
    "wo": ("output", "weights"),
    "pq": ("query", "bias"),
    "pk": ("key", "bias"),
    "pv": ("value", "bias"),
    "po": ("output", "bias"),
    "bk": ("key_attn_bias", ""),
    "bv": ("value_attn_bias", ""),
}
"""Where a parameter is in the struct: projection and member."""


def field(name: str) -> str:
    """``query.weights`` for ``wq``."""
    projection, member = FIELDS[name]
    return f"{projection}.{member}" if member else projection


# The letters of a tensor's axes: in logical order, as the descriptor names them, and in canonical order, as engines take them.
AXES: dict[str, tuple[str, str]] = {
    "q": ("TD", "TD"),
    "k": ("SD", "SD"),
    "v": ("SD", "SD"),
    "o": ("TD", "TD"),
    "wq": ("DKH", "HKD"),
    "wk": ("DKH", "HKD"),
    "wv": ("DVH", "HVD"),
    "wo": ("CD", "CD"),
    "pq": ("KH", "HK"),
    "pk": ("KH", "HK"),
    "pv": ("VH", "HV"),
    "po": ("D", "D"),
    "bk": ("KH", "HK"),
    "bv": ("VH", "HV"),
}

_MEANING = {
    "T": "target length",
    "S": "source length",
    "D": "d_model",
    "K": "d_key",
    "V": "d_value",
    "H": "heads",
    "C": "heads * d_value",
    "N": "batch",
}


def resolve(
    descriptor: Any, axes: str, who: str, *, like: View | None = None, layouts: tuple[BNNSDataLayout, ...] | None = None
) -> tuple[View, dict[str, int]]:
    """A descriptor as a view, and the axis of ``size[]`` of each letter."""
    if not isinstance(descriptor, BNNSNDArrayDescriptor):
        raise TypeError(f"{who} must be a BNNSNDArrayDescriptor, not {type(descriptor).__name__}.")
    view = descriptors.resolve(descriptor, who, like=like)
    allowed = layouts or _LAYOUTS[len(axes)]
    if view.layout.code not in [int(code) for code in allowed]:
        names = ", ".join(code.name.removeprefix("BNNSDataLayout") for code in allowed)
        shape = ", ".join(_MEANING[letter] for letter in axes)
        raise Problem(f"{who}.layout is {view.layout.name}, but it holds ({shape}). Use one of {names}.")
    return view, dict(zip(axes, view.numbered_axes, strict=True))


def canonical_order(axis_of: dict[str, int], canonical: str) -> tuple[int, ...]:
    return tuple(axis_of[letter] for letter in canonical)


@dataclass(frozen=True)
class AttentionTensor:
    """A tensor of the filter as described at creation; ``order`` lists the axes of ``size[]`` in canonical order."""

    view: View
    order: tuple[int, ...]


class Agreement:
    """The sizes, as tensors give them; the error for a contradiction names both tensors."""

    def __init__(self, who: Caller) -> None:
        self.who = who
        self._known: dict[str, tuple[int, str]] = {}

    def take(self, letter: str, size: int, source: str) -> None:
        known = self._known.setdefault(letter, (size, source))
        if known[0] != size:
            raise Problem(
                f"{self.who}: {source} says {_MEANING[letter]} {size}, but {known[1]} says {known[0]}. Both must be the "
                "same."
            )

    def __getitem__(self, letter: str) -> int:
        return self._known[letter][0]

    def source(self, letter: str) -> str:
        return self._known[letter][1]


def describe_tensors(p: BNNSLayerParametersMultiheadAttention, who: Caller) -> tuple[dict[str, AttentionTensor], Sizes]:
    """All tensors that the struct has, and the sizes they agree on."""
    agreement, tensors = Agreement(who), {}
    descriptions = {
        "q": (p.query.target_desc, "query.target_desc"),
        "k": (p.key.target_desc, "key.target_desc"),
        "v": (p.value.target_desc, "value.target_desc"),
        "o": (p.output.target_desc, "output.target_desc"),
    }
    for name, (projection, member) in FIELDS.items():
        holder = getattr(p, projection)
        descriptor = getattr(holder, member) if member else holder
        if name.startswith("w") or descriptor.data is not None:
            descriptions[name] = descriptor, field(name)
    for name, (descriptor, source) in descriptions.items():
        logical, canonical = AXES[name]
        view, axis_of = resolve(descriptor, logical, who(source))
        tensors[name] = AttentionTensor(view, canonical_order(axis_of, canonical))
        for position, letter in enumerate(logical):
            if letter != "C":
                size, entry = view.size[axis_of[letter]], _entry(view, axis_of[letter], position)
                agreement.take(letter, size, f"{who.name(source)}{entry}")
        if name == "wo":
            rows = view.size[axis_of["C"]]
    if compat.switches.attention_value_size_from_output:
        agreement.take("V", agreement["D"], f"{who.name('output.target_desc')} (attention_value_size_from_output)")
    if rows != agreement["H"] * agreement["V"]:
        raise Problem(
            f"{who('output.weights')} has {rows} rows, but {agreement['H']} heads ({agreement.source('H')}) times d_value "
            f"{agreement['V']} ({agreement.source('V')}) are {agreement['H'] * agreement['V']}. Row h * d_value + v "
            "belongs to component v of head h."
        )
    _check_pair(p, who)
    sizes = Sizes(
        agreement["T"], agreement["S"], agreement["D"], agreement["K"], agreement["V"], agreement["H"],
        attention_bias="bk" in tensors, zero_row=bool(p.add_zero_attn),
    )  # fmt: skip
    return tensors, sizes


def _entry(view: View, axis: int, position: int) -> str:
    return f".size[{axis}] ({describe(view)})"


def _check_pair(p: BNNSLayerParametersMultiheadAttention, who: Caller) -> None:
    given = {name: getattr(p, name).data is not None for name in ("key_attn_bias", "value_attn_bias")}
    if len(set(given.values())) == 2:
        have, lack = sorted(given, key=lambda name: not given[name])
        raise Problem(
            f"{who(have)}.data is set but {who.name(lack)}.data is {who.null}. An extra row needs both a key and a value: "
            "give both or neither."
        )


def letter_sizes(sizes: Sizes) -> dict[str, int]:
    """The size of each letter of AXES."""
    return {
        "T": sizes.target, "S": sizes.source, "D": sizes.model, "K": sizes.key, "V": sizes.value, "H": sizes.heads,
        "C": sizes.heads * sizes.value,
    }  # fmt: skip


def check_shape(view: View, axis_of: dict[str, int], sizes: dict[str, int], who: str) -> None:
    """Refuse a tensor of a call whose sizes are not the filter's."""
    for letter, axis in axis_of.items():
        if view.size[axis] != sizes[letter]:
            shape = ", ".join(f"{_MEANING[name]} {sizes[name]}" for name in axis_of)
            raise Problem(
                f"{who} is {describe(view)}, but this filter has ({shape}): size[{axis}] must be {sizes[letter]}, "
                f"not {view.size[axis]}."
            )
