"""Embedding: each index is replaced by the entry of a dictionary that it names.

    out(item, pos) = dictionary(item, in(pos))                0 where in(pos) is the padding index
    d_dictionary(item, v) = sum over positions with in(pos) = v of d_out(item, pos), over the whole batch

With a maximum norm, an entry whose p-norm exceeds it is scaled down to it as it is read; the gradient is that of the
scaled entry. Scaled by frequency, the gradient of an entry is divided by the number of its lookups in the call.

Sizes in the order of size[]: dictionary (item..., entries), indices (index...), output (item..., index...).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import compat, engines
from .._words import Caller, Named
from ..abi.enums import BNNSEmbeddingFlags
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersEmbedding
from ..calls.run import run_staged
from ..calls.signature import Argument, Call
from ..errors import Problem
from ..parameters.activation import IDENTITY
from ..parameters.embedding import Embedding as EmbeddingSettings
from ..reference import embedding as reference
from ..tensors import buffers, descriptors
from ..tensors.descriptors import View, describe
from ..tensors.operands import Bound, Operand, Parameter, bind
from ._activation_rules import as_float32
from .base import UnaryFilter, W

if TYPE_CHECKING:
    from .. import _core


@dataclass(frozen=True)
class Indices(Operand):
    """The input of an embedding: integers of any type, each of which names an entry."""

    entries: int = 0

    @property
    def width(self) -> int:
        """Bytes of an index in the form that kernels take; other types are staged as 64-bit integers."""
        return self.view.element.bits // 8 if self.view.element.bits in (32, 64) else 8

    @property
    def fast(self) -> bool:
        return self.view.packed and self.order == self.view.memory_axes and self.view.element.bits == 8 * self.width

    def native_items(self, writes: bool) -> dict[str, Any]:
        signed = self.view.element.kind == "int"
        return {"index_bytes": self.width, "index_limit": self.entries, "index_signed": signed}

    def bind(self, who: Named, data: Any, batch: int, stride: int, *, output: bool = False) -> BoundIndices:
        b = bind(self.view, self.order, self.shape, who, data, batch, stride)
        bound = BoundIndices(b.view, b.buffer, b.batch, b.stride, b.order, b.shape)
        return replace(bound, values=bound.checked(who, self))


@dataclass(frozen=True)
class BoundIndices(Bound):
    """The indices of one call."""

    values: NDArray[Any] | None = None

    def read(self, dtype: DTypeLike) -> NDArray[Any]:
        """The indices in the form that kernels take, or as 64-bit integers for the reference engine (float64)."""
        assert self.values is not None
        return self.values.astype(np.int64) if dtype == np.float64 else self.values

    def checked(self, who: str, expected: Indices) -> NDArray[Any]:
        """A copy of the indices of a batch (N, *index), after checking that each names an entry."""
        if self.batch == 0:
            return np.empty((0, *self.shape), np.int64)
        indices, entries = self.read_integers(), expected.entries
        outside = (indices < 0) | (indices >= entries) if indices.dtype.kind == "i" else indices >= np.uint64(entries)
        if outside.any():
            where = tuple(int(k) for k in np.argwhere(outside)[0])
            position = [0] * (len(where) - 1)
            for axis, k in zip(self.order, where[1:], strict=True):
                position[axis] = k
            raise Problem(
                f"{who} holds the index {int(indices[where])} at sample {where[0]}, position {tuple(position)}, but the "
                f"dictionary has {entries} entries. Pass indices from 0 to {entries - 1}."
            )
        return np.ascontiguousarray(indices.astype(f"i{expected.width}"))


class Embedding(UnaryFilter):
    """A dictionary lookup."""

    family = "embedding"
    input: Indices
    weights: Parameter

    def __init__(
        self, p: BNNSLayerParametersEmbedding, filter_params: BNNSFilterParameters | None, who: Caller
    ) -> None:
        super().__init__(filter_params, who)
        x = _resolve_indices(p, who)
        y = descriptors.resolve(p.o_desc, who("o_desc"))
        w = descriptors.resolve(p.dictionary, who("dictionary"))
        _check_sizes(x, y, w, who)
        # Memory is [item][entries] and [item][index] where the entries run fastest, else [entries][item], [index][item].
        self.item_major = all(view.layout.stepped[0] == len(view.size) - 1 for view in (w, y)) and len(w.size) > 1
        self.entries = w.size[-1]
        self.input, self.output = Indices(x, self._order(x), False, self.entries), Operand(y, self._order(y))
        self.settings = _settings(p, self.entries, who)
        name = who("dictionary.data")
        self.weights = self.hold(w, self._order(w), name, p.dictionary.data)
        if self._renormalizes and self.client_pointer:
            buffers.require_writable(self.weights._bound.buffer, name)
        self.activation, self.fused_function = IDENTITY, 0
        self.build_plan()

    def _order(self, view: View) -> tuple[int, ...]:
        axes = tuple(range(len(view.size)))
        return axes if self.item_major else axes[::-1]

    @property
    def positions(self) -> int:
        """Indices of one sample."""
        return self.input.view.count

    @property
    def _renormalizes(self) -> bool:
        """True if a lookup changes the dictionary."""
        return self.settings.renormalize_in_place and self.settings.max_norm != 0.0

    # The calls.

    def _make_plan(self) -> _core.Plan:
        e = self.settings
        return engines._core.embedding(
            positions=self.positions, entries=self.entries, item=self.weights.view.count // self.entries,
            index_bytes=self.input.width, item_major=self.item_major,
            padding=-1 if e.padding_index is None else e.padding_index, max_norm=e.max_norm, norm_type=e.norm_type or 2.0,
            by_frequency=e.scale_by_frequency, renormalizes_in_place=e.renormalize_in_place,
        )  # fmt: skip

    def build_plan(self) -> None:
        if engines._core is not None:
            self.plan = self._make_plan()

    def declare(self, call: str, variant: Hashable) -> Call | None:
        plain = super().declare(call, variant)
        if plain is None or not plain.backward:
            return None if plain is None else replace(plain, takes_fast=not self._renormalizes)
        trained = {"output": self.output, "dictionary": self.weights}
        return replace(plain, takes_fast=plain.takes_fast and not self._renormalizes, trained=trained)

    def backward_arguments(self) -> tuple[Argument, ...]:
        """The gradient of the dictionary. Indices have none: ``in_delta`` has no effect, nor do ``out`` and a bias."""
        known = {a.name: a for a in super().backward_arguments()}
        indices = replace(
            known["in"],
            required=True,
            needs=(),
            purpose="it says which entries the gradient belongs to. Pass the indices.",
        )
        unused = [replace(known[name], tensor=None) for name in ("in_delta", "out", "bias_delta")]
        return (known["out_delta"], indices, known["weights_delta"], *unused)

    def run_native(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        held = {} if call.backward else self.held_tensors(np.float32)
        run_staged(self, call, call.plan, batch, bound, held)
        if not call.backward and self._renormalizes and self.weights.address is None:
            self.weights.write(held[W])

    def run_reference(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        indices = bound["in"].read(np.float64)
        if call.backward:
            bound["weights_delta"].write(self.reference_gradient(indices, bound["out_delta"].read(np.float64))[None])
            return
        dictionary = self.weights.read(np.float64)
        bound["out"].write(self.look_up(indices, dictionary))
        if self._renormalizes:
            self.weights.write(dictionary)

    def look_up(
        self, indices: NDArray[Any], dictionary: NDArray[np.float64], *, limited: bool = True
    ) -> NDArray[np.float64]:
        """The output by the reference engine; norms are not limited if ``limited`` is false."""
        settings = self.settings if limited else replace(self.settings, max_norm=0.0)
        return self._from_reference(reference.forward(indices, self._entries_first(dictionary), settings))

    def _entries_first(self, dictionary: NDArray[Any]) -> NDArray[Any]:
        """(entries, *item), a view."""
        return np.moveaxis(dictionary, -1, 0) if self.item_major else dictionary

    def _from_reference(self, out: NDArray[Any]) -> NDArray[Any]:
        """(N, *index, *item) as (N, *item, *index) where the item comes first."""
        if not self.item_major:
            return out
        rank = self.input.view.layout.rank
        return np.moveaxis(out, range(1, 1 + rank), range(out.ndim - rank, out.ndim))

    def _to_reference(self, dy: NDArray[Any]) -> NDArray[Any]:
        """The reverse of :meth:`_from_reference`."""
        if not self.item_major:
            return dy
        rank = self.input.view.layout.rank
        return np.moveaxis(dy, range(dy.ndim - rank, dy.ndim), range(1, 1 + rank))

    def reference_gradient(self, indices: NDArray[Any], dy: NDArray[Any]) -> NDArray[Any]:
        """The gradient of the dictionary by the reference engine."""
        gradient = reference.backward(indices, self._to_reference(dy), self.entries, self.settings)
        return np.moveaxis(gradient, 0, -1) if self.item_major else gradient


def _resolve_indices(p: BNNSLayerParametersEmbedding, who: Caller) -> View:
    view = descriptors.resolve(p.i_desc, who("i_desc"))
    if not view.element.is_integer:
        raise Problem(
            f"{who('i_desc.data_type')} is {view.element.name}, but indices are integers. Use "
            f"{who.name('BNNSDataTypeInt32')} or another integer type.",
            kind=TypeError,
        )
    return view


def _check_sizes(x: View, y: View, w: View, who: Caller) -> None:
    item = w.size[:-1]
    if y.size != item + x.size:
        raise Problem(
            f"{who('o_desc')} is {describe(y)}, but dictionary {describe(w)} holds {w.size[-1]} entries of item shape {item} "
            f"and {who.name('i_desc')} has the shape {x.size}. Describe an output of size {item + x.size}: the item shape, "
            "then the index shape."
        )
    for name, view in (("dictionary", w), ("o_desc", y), ("i_desc", x)):
        if view.layout.flipped or view.layout.blocked32:
            raise Problem(
                f"{who(name)}.layout is {view.layout.name}, which is for convolution weights. Use a layout such as "
                "BNNSDataLayout2DLastMajor."
            )


def _settings(p: BNNSLayerParametersEmbedding, entries: int, who: Caller) -> EmbeddingSettings:
    """The numbers of the struct, checked."""
    flags = int(p.flags)
    if flags & ~int(BNNSEmbeddingFlags.BNNSEmbeddingFlagScaleGradientByFrequency):
        raise Problem(f"{who('flags')} is {flags:#x}. Use 0 or BNNSEmbeddingFlagScaleGradientByFrequency (1).")
    max_norm, norm_type = as_float32(p.max_norm), as_float32(p.norm_type)
    if not max_norm >= 0.0:
        raise Problem(f"{who('max_norm')} is {max_norm:g}. It is the largest norm of an entry; 0 sets no limit.")
    if max_norm != 0.0 and not norm_type >= 0.0:
        raise Problem(
            f"{who('norm_type')} is {norm_type:g}. It is the p of the norm: use p > 0, infinity, or 0 for p = 2."
        )
    return EmbeddingSettings(
        padding_index=p.padding_idx if p.padding_idx < entries else None,
        max_norm=0.0 if math.isinf(max_norm) else max_norm,
        norm_type=norm_type if norm_type > 0.0 else 2.0,
        scale_by_frequency=bool(flags),
        renormalize_in_place=compat.switches.embedding_renormalize_in_place,
    )
