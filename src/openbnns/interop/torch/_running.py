"""Calls of layers on tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph import functions as F
from ...nn.module import Module
from ...nn.padding import Pad
from ..converted.tensors import ForeignTensor, Misfit
from ._layers import Kind
from .operations import Call
from .operations.layers import looked_up


def run(kind: Kind, layer: Module, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], first: bool) -> Any:
    """The results of a layer; ``first`` is PyTorch's ``batch_first`` of the module."""
    runs: Any = _RUNS[kind.runs]
    return runs(layer, call, first, *args, **kwargs)


def _plain(layer: Any, call: Call, first: bool, *inputs: Any, output_size: Any = None) -> Any:
    values = [x.elements for x in inputs if not _is_size(x)]
    size = next(filter(_is_size, inputs), output_size)
    if isinstance(layer, Pad):  # which PyTorch does with whatever axes come last
        mode: Any = layer.mode
        return F.pad(values[0], layer.padding, mode, layer.value if layer.mode == "constant" else None)
    if size is None:
        return layer(*values)
    if not type(layer).__name__.startswith("MaxUnpool"):
        raise Misfit("output_size has no counterpart here. Use output_padding")
    return layer(*values, output_size=[int(n) for n in list(size)[-(values[0].ndim - 2) :]])


def _rows(layer: Any, call: Call, first: bool, input: ForeignTensor) -> Any:
    return (
        layer(input.elements)
        if layer.padding_idx is None
        else looked_up(input.elements, layer.weight, layer.padding_idx)
    )


def _is_size(x: Any) -> bool:
    return isinstance(x, (tuple, list)) and not any(isinstance(n, ForeignTensor) for n in x)


def _bag(
    layer: Any, call: Call, first: bool, input: ForeignTensor, offsets: Any = None, per_sample_weights: Any = None
) -> Any:
    if offsets is not None or input.rank != 2:
        raise Misfit("bags must be rows (N, length) of one input, without offsets")
    if per_sample_weights is None:
        return layer(input.elements)
    return layer(input.elements, per_sample_weights.numbers)


def _turned(x: ForeignTensor, first: bool) -> Any:
    """A sequence with the samples in front of the steps."""
    if x.rank != 3:
        raise Misfit(f"a sequence without a batch, {x.shape}, has no counterpart here")
    return x.numbers if first else F.transpose(x.numbers, 0, 1)


def _sequence(layer: Any, call: Call, first: bool, input: Any, hx: Any = None) -> Any:
    lengths = order = back = None
    if isinstance(input, tuple):  # packed, perhaps in the order of the lengths, in which states are not
        input, lengths, order, back = input
        first = True
    state = None
    if hx is not None:
        state = tuple(_state(x, order) for x in hx) if isinstance(hx, (tuple, list)) else _state(hx, order)
    output, rest = layer(_turned(input, first), state, None if lengths is None else lengths.elements)
    states = [F.stack(list(each), 0) for each in (rest if len(layer.state_names) > 1 else (rest,))]
    if back is not None:
        states = [F.index_select(each, 1, back.elements) for each in states]
    output = output if first else F.transpose(output, 0, 1)
    return output, (tuple(states) if len(states) > 1 else states[0])


def _state(x: ForeignTensor, order: ForeignTensor | None) -> Any:
    """(layers, N, H) as one value (N, H) for every layer and direction."""
    if x.rank != 3:
        raise Misfit(f"an initial state is {x.shape}, but must be (layers, N, hidden)")
    return tuple(F.unbind(x.numbers if order is None else F.index_select(x.numbers, 1, order.elements), 0))


def _cell(layer: Any, call: Call, first: bool, input: ForeignTensor, hx: Any = None) -> Any:
    if hx is None:
        return layer(input.numbers)
    return layer(input.numbers, tuple(x.numbers for x in hx) if isinstance(hx, (tuple, list)) else hx.numbers)


def _attention(
    layer: Any, call: Call, first: bool, query: ForeignTensor, key: ForeignTensor, value: ForeignTensor, key_padding_mask: Any =
    None, need_weights: bool = True, attn_mask: Any = None, average_attn_weights: bool = True, is_causal: bool = False,
) -> Any:  # fmt: skip
    turned = {id(x): _turned(x, first) for x in (query, key, value)}  # the same value for what is the same tensor
    output, weights = layer(
        *(turned[id(x)] for x in (query, key, value)),
        None if key_padding_mask is None else _mask(key_padding_mask),
        need_weights=len(call.shapes) > 1,
        attn_mask=None if attn_mask is None else _mask(attn_mask),
        average_attn_weights=average_attn_weights,
    )
    return output if first else F.transpose(output, 0, 1), weights


def _mask(x: ForeignTensor) -> Any:
    return x.held if isinstance(x.held, np.ndarray) and x.constant else x.value


_RUNS = {"plain": _plain, "rows": _rows, "bag": _bag, "sequence": _sequence, "cell": _cell, "attention": _attention}
