"""How layers run on tensors whose batch may be any axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..converted.sizes import Size
from ..converted.tensors import Misfit, Tensor
from ..module import Module
from ._layers import Kind
from .operations import FUNCTIONS, Call
from .operations.layers import batch_first


def run(kind: Kind, layer: Module, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], first: bool) -> Any:
    """The results of a layer; ``first`` is PyTorch's ``batch_first`` of the module."""
    runs: Any = _RUNS[kind.runs]
    return runs(layer, call, first, *args, **kwargs)


def _each(layer: Any, call: Call, first: bool, input: Tensor) -> Any:
    random = getattr(layer, "p", 0)  # a dropout draws for every sample
    return layer(input.batched if random else input.numbers)


def _last(layer: Any, call: Call, first: bool, input: Tensor) -> Any:
    shape = getattr(layer, "normalized_shape", (0,))
    if input.batch is not None and input.batch >= input.rank - len(shape):
        raise Misfit(f"the batch of {input.shape} is an axis of the features")
    return layer(input.numbers)


def _axis(layer: Any, call: Call, first: bool, input: Tensor) -> Any:
    if input.batch == 0 and not input.same_for_all:
        return layer(input.numbers)
    name = {"GLU": "F.glu", "Softmax": "F.softmax", "LogSoftmax": "F.log_softmax", "Softmin": "F.softmin"}
    return FUNCTIONS[name[type(layer).__name__]](call, input, layer.dim)


def _first(layer: Any, call: Call, first: bool, *inputs: Any, output_size: Any = None) -> Any:
    values = [x.value if x.kind != "f" else batch_first(x) for x in inputs if isinstance(x, Tensor)]
    size = next((x for x in inputs if isinstance(x, (tuple, list))), output_size)
    if size is None:
        return layer(*values)
    if not type(layer).__name__.startswith("MaxUnpool"):
        raise Misfit("output_size has no counterpart here. Use output_padding")
    return layer(*values, output_size=[n for n in size if not isinstance(n, Size)])


def _lookup(layer: Any, call: Call, first: bool, input: Tensor) -> Any:
    return layer(input.value)


def _bag(
    layer: Any, call: Call, first: bool, input: Tensor, offsets: Any = None, per_sample_weights: Any = None
) -> Any:
    if offsets is not None or input.rank != 2 or input.batch != 0:
        raise Misfit("bags must be rows (N, length) of one input, without offsets")
    if per_sample_weights is None:
        return layer(input.value)
    return layer(input.value, batch_first(per_sample_weights))


def _sequence(layer: Any, call: Call, first: bool, input: Tensor, hx: Any = None) -> Any:
    _check_layout(input, first)
    state = None
    if hx is not None:
        state = tuple(map(_state, hx)) if isinstance(hx, (tuple, list)) else _state(hx)
    result = layer(input.batched, state)
    output, rest = result
    states = [each.transpose(0, 1) for each in (rest if len(layer.state_names) > 1 else (rest,))]
    return output, (tuple(states) if len(states) > 1 else states[0])


def _state(x: Tensor) -> Any:
    """(layers, N, H), the batch in front here; what is the same for all samples has none."""
    if x.batch != 1 or x.rank != 3:
        raise Misfit(f"an initial state is {x.shape}, but must be (layers, N, hidden)")
    return x.numbers


def _check_layout(x: Tensor, first: bool) -> None:
    if x.rank != 3:
        raise Misfit(f"a sequence without a batch, {x.shape}, has no counterpart here")
    if x.batch != (0 if first else 1):
        raise Misfit(
            f"batch_first={first}, but the batch of {x.shape} is axis {x.batch}: the module runs over the samples of the batch. "
            f"Make it with batch_first={not first}"
        )


def _cell(layer: Any, call: Call, first: bool, input: Tensor, hx: Any = None) -> Any:
    if hx is None:
        return layer(batch_first(input))
    state = tuple(x.numbers for x in hx) if isinstance(hx, (tuple, list)) else hx.numbers
    return layer(batch_first(input), state)


def _attention(
    layer: Any, call: Call, first: bool, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Any = None,
    need_weights: bool = True, attn_mask: Any = None, average_attn_weights: bool = True, is_causal: bool = False,
) -> Any:  # fmt: skip
    for x in (query, key, value):
        _check_layout(x, first)
    batched = {id(x): x.batched for x in (query, key, value)}  # the same value for what is the same tensor
    padding = None if key_padding_mask is None else _mask(key_padding_mask)
    mask = None if attn_mask is None else _mask(attn_mask)
    result = layer(
        *(batched[id(x)] for x in (query, key, value)),
        padding,
        need_weights=len(call.shapes) > 1,
        attn_mask=mask,
        average_attn_weights=average_attn_weights,
    )
    output, weights = result
    return output, weights


def _mask(x: Tensor) -> Any:
    if x.batch not in (None, 0):
        raise Misfit(f"a mask {x.shape} has its batch at axis {x.batch}, but must have it in front")
    return x.held if isinstance(x.held, np.ndarray) else x.value


_RUNS = {
    "each": _each, "last": _last, "axis": _axis, "first": _first, "lookup": _lookup, "bag": _bag, "sequence": _sequence,
    "cell": _cell, "attention": _attention,
}  # fmt: skip
