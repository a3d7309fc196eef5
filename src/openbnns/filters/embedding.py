"""Embedding: each index is replaced by the entry of a dictionary that it names.

    out(item, pos) = dictionary(item, in(pos))                0 where in(pos) is the padding index
    d_dictionary(item, v) = sum over positions with in(pos) = v of d_out(item, pos), over the whole batch

With a maximum norm, an entry whose p-norm exceeds it is scaled down to it as it is read; the gradient is that of the
scaled entry. Scaled by frequency, the gradient of an entry is divided by the number of its lookups in the call.

Sizes in the order of size[]: dictionary (item..., entries), indices (index...), output (item..., index...).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import buffers, compat, descriptors, engines
from ..capi.enums import BNNSEmbeddingFlags
from ..capi.structs import BNNSFilterParameters, BNNSLayerParametersEmbedding
from ..descriptors import FLOAT32, View, describe
from ..engines.native import embedding as native
from ..engines.reference import embedding as reference
from ..engines.reference.activation import IDENTITY
from ..errors import Problem
from ._activation_rules import as_float32
from ._base import DW, DX, DY, B, UnaryFilter, W, X, Y, fast_argument
from ._tensors import Bound, Caller, Operand, Parameter, check_count, check_training_types

if TYPE_CHECKING:
    from .. import _core

_BUFFER = 0  # kind of a fast argument, as in core/bindings/fast_call.h
_WIDE = 8  # bytes of an index that has been staged


class Embedding(UnaryFilter):
    """A dictionary lookup."""

    family = "embedding"

    def __init__(
        self,
        p: BNNSLayerParametersEmbedding,
        filter_params: BNNSFilterParameters | None = None,
        who: str = "BNNSFilterCreateLayerEmbedding",
    ) -> None:
        super().__init__(filter_params, who)
        x = _resolve_indices(p, who)
        y = descriptors.resolve(p.o_desc, f"{who}: o_desc")
        w = descriptors.resolve(p.dictionary, f"{who}: dictionary")
        _check_sizes(x, y, w, who)
        # Memory is [item][entries] and [item][index] where the entries run fastest, else [entries][item], [index][item].
        self.item_major = all(view.layout.stepped[0] == len(view.size) - 1 for view in (w, y)) and len(w.size) > 1
        self.input, self.output = Operand(x, self._order(x)), Operand(y, self._order(y))
        self.entries = w.size[-1]
        self.settings = _settings(p, self.entries, who)
        name, data = f"{who}: dictionary.data", p.dictionary.data
        self.weights: Parameter = Parameter(
            w, self._order(w), name, data, client_pointer=self.client_pointer, memory=self.memory
        )
        if self._renormalizes and self.client_pointer:
            buffers.require_writable(self.weights._bound.buffer, name)
        self.activation, self.fused_function = IDENTITY, 0
        self.prepare()

    def _order(self, view: View) -> tuple[int, ...]:
        axes = tuple(range(len(view.size)))
        return axes if self.item_major else axes[::-1]

    @property
    def positions(self) -> int:
        """Indices of one sample."""
        return self.input.view.count

    @property
    def _renormalizes(self) -> bool:
        """Whether a lookup changes the dictionary."""
        return self.settings.renormalize_in_place and self.settings.max_norm != 0.0

    # Native set-up.

    def _make_plan(self, index_bytes: int) -> _core.Plan:
        item = self.weights.view.count // self.entries
        return native.plan(
            self.settings, self.positions, self.entries, item, index_bytes=index_bytes, item_major=self.item_major
        )

    def prepare(self) -> None:
        if engines._core is None:
            return
        self.plan = self._make_plan(_WIDE)
        fixed, element = self._fixed_addresses(), self.input.view.element
        packed = self.input.view.packed and self.input.order == self.input.view.memory_axes
        if fixed is None or not packed or not self.output.fast or element.bits not in (32, 64) or self._renormalizes:
            return
        core, plan = engines._core, self._make_plan(element.bits // 8)
        indices = core.argument(
            X, _BUFFER, True, True, False, self.positions, 1 << Y | 1 << DW, 0, 0, 0, [], [], element.bits // 8,
            self.entries, False, element.kind == "int",
        )  # fmt: skip
        ignored = [fast_argument(slot, None, strided=slot != B) for slot in (DX, Y, B)]
        dy = fast_argument(DY, self.output, descriptor=True, needed_with=1 << DW)
        dw = fast_argument(DW, self.weights, output=True, descriptor=True, strided=False, batched=False)
        forward = [indices, fast_argument(Y, self.output, output=True)]
        self.fast_forward = core.FastCall(plan, False, forward, fixed, self.threads).run
        if self.weights.view.element is FLOAT32:
            backward = [indices, ignored[0], ignored[1], dy, dw, ignored[2]]
            self.fast_backward = core.FastCall(plan, True, backward, fixed, self.threads).run

    # Forward.

    def apply_batch(self, caller: Caller, batch: Any, in_: Any, in_stride: Any, out: Any, out_stride: Any) -> None:
        self.require_alive(caller)
        batch = check_count(batch, caller("batch_size"))
        x = self.input.bind(caller("in"), in_, batch, in_stride)
        y = self.output.bind(caller("out"), out, batch, out_stride, output=True)
        indices = self._read_indices(caller, x)
        if batch == 0:
            return
        if not engines.is_native():
            dictionary = self.weights.read(np.float64)
            result = self.look_up(indices, dictionary)
            if self._renormalizes:
                self.weights.write(dictionary)
            y.write(result)
            return
        dictionary = self.weights.read(np.float32)
        direct = None if self._touches_parameters(y) or y.overlaps(x) else y.direct()
        result = np.empty((batch, *self.output.shape), np.float32) if direct is None else direct
        self._run_plan(self.plan, False, batch, {X: indices, W: dictionary, Y: result})
        if self._renormalizes and self.weights.address is None:
            self.weights.write(dictionary)
        if direct is None:
            y.write(result)

    def _read_indices(self, caller: Caller, x: Bound) -> NDArray[np.int64]:
        """The indices of a batch (N, *index), each of which names an entry."""
        if x.batch == 0:
            return np.empty((0, *self.input.shape), np.int64)
        found = x.read_integers()
        outside = (found < 0) | (found >= self.entries) if found.dtype.kind == "i" else found >= np.uint64(self.entries)
        if outside.any():
            where = tuple(int(k) for k in np.argwhere(outside)[0])
            sample, place = where[0], where[1:]
            position = [0] * len(place)
            for axis, k in zip(self.input.order, place, strict=True):
                position[axis] = k
            raise Problem(
                f"{caller('in')} holds the index {int(found[where])} at sample {sample}, position "
                f"{tuple(position)}, but the dictionary has {self.entries} entries. Pass indices from 0 to "
                f"{self.entries - 1}."
            )
        return np.ascontiguousarray(found).view(np.int64)

    def look_up(
        self, indices: NDArray[Any], dictionary: NDArray[np.float64], *, limited: bool = True
    ) -> NDArray[np.float64]:
        """The output by the reference engine; without the limit of the norms if ``limited`` is false."""
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
        """The reverse of the above."""
        if not self.item_major:
            return dy
        rank = self.input.view.layout.rank
        return np.moveaxis(dy, range(dy.ndim - rank, dy.ndim), range(1, 1 + rank))

    # Backward.

    def apply_backward_batch(
        self, caller: Caller, batch: Any, in_: Any, in_stride: Any, in_delta: Any, in_delta_stride: Any, out: Any,
        out_stride: Any, out_delta: Any, out_delta_stride: Any, weights_delta: Any, bias_delta: Any, context: Any = None,
    ) -> None:  # fmt: skip
        """The gradient of the dictionary; indices have none, so ``in_delta`` is ignored, as are ``out`` and the bias."""
        self.require_alive(caller)
        batch = check_count(batch, caller("batch_size"))
        self._check_training_types(caller)
        dy = self.output.bind_arriving(caller, out_delta, batch, out_delta_stride)
        if in_ is None:
            raise Problem(
                f"{caller('in')} is NULL, but it says which entries the gradient belongs to. Pass the indices."
            )
        x = self.input.bind(caller("in"), in_, batch, in_stride)
        dw = None if weights_delta is None else self.weights.bind_delta(caller("weights_delta"), weights_delta)
        indices = self._read_indices(caller, x)
        if dw is None:
            return
        if batch == 0:  # sums over no samples
            dw.write(np.zeros((1, *dw.shape), np.float32))
        elif not engines.is_native():
            gradient = self._reference_backward(indices, dy.read(np.float64))
            dw.write(gradient[None])
        else:
            self._run_backward_native(batch, x, indices, dy, dw)

    def _run_backward_native(self, batch: int, x: Bound, indices: NDArray[Any], dy: Bound, dw: Bound) -> None:
        direct = None if dw.overlaps(dy) or dw.overlaps(x) else dw.direct()
        result = np.empty(dw.shape, np.float32) if direct is None else direct[0]
        accumulate = 1 << DW if direct is not None and dw.accumulate else 0
        self._run_plan(self.plan, True, batch, {X: indices, DY: dy.read(np.float32), DW: result}, accumulate)
        if direct is None:
            dw.write(result[None])

    def _reference_backward(self, indices: NDArray[Any], dy: NDArray[Any]) -> NDArray[Any]:
        gradient = reference.backward(indices, self._to_reference(dy), self.entries, self.settings)
        return np.moveaxis(gradient, 0, -1) if self.item_major else gradient

    def _check_training_types(self, caller: Caller) -> None:
        check_training_types(caller, {"output": self.output, "dictionary": self.weights})


def _resolve_indices(p: BNNSLayerParametersEmbedding, who: str) -> View:
    view = descriptors.resolve(p.i_desc, f"{who}: i_desc")
    if not view.element.is_integer:
        raise Problem(
            f"{who}: i_desc.data_type is {view.element.name}, but indices are integers. Use BNNSDataTypeInt32 or another "
            "integer type.",
            kind=TypeError,
        )
    return view


def _check_sizes(x: View, y: View, w: View, who: str) -> None:
    item = w.size[:-1]
    if y.size != item + x.size:
        raise Problem(
            f"{who}: o_desc is {describe(y)}, but dictionary {describe(w)} holds {w.size[-1]} entries of item shape {item} "
            f"and i_desc has the shape {x.size}. Describe an output of size {item + x.size}: the item shape, then the "
            "index shape."
        )
    for name, view in (("dictionary", w), ("o_desc", y), ("i_desc", x)):
        if view.layout.flipped or view.layout.blocked32:
            raise Problem(
                f"{who}: {name}.layout is {view.layout.name}, which is for convolution weights. Use a layout such as "
                "BNNSDataLayout2DLastMajor."
            )


def _settings(p: BNNSLayerParametersEmbedding, entries: int, who: str) -> reference.Embedding:
    """The numbers of the struct, checked."""
    flags = int(p.flags)
    if flags & ~int(BNNSEmbeddingFlags.BNNSEmbeddingFlagScaleGradientByFrequency):
        raise Problem(f"{who}: flags is {flags:#x}. Use 0 or BNNSEmbeddingFlagScaleGradientByFrequency (1).")
    max_norm, norm_type = as_float32(p.max_norm), as_float32(p.norm_type)
    if not max_norm >= 0.0:
        raise Problem(f"{who}: max_norm is {max_norm:g}. It is the largest norm of an entry; 0 sets no limit.")
    if max_norm != 0.0 and not norm_type >= 0.0:
        raise Problem(
            f"{who}: norm_type is {norm_type:g}. It is the p of the norm: use p > 0, infinity, or 0 for p = 2."
        )
    return reference.Embedding(
        padding_index=p.padding_idx if p.padding_idx < entries else None,
        max_norm=0.0 if math.isinf(max_norm) else max_norm,
        norm_type=norm_type if norm_type > 0.0 else 2.0,
        scale_by_frequency=bool(flags),
        renormalize_in_place=compat.switches.embedding_renormalize_in_place,
    )
