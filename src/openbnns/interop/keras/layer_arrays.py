"""The arrays of layers, converted between Keras's order and axes and the names and axes that they have here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...graph.parameter import Mismatch
from ...graph.tensor import Array

LayerState = dict[str, Array]
Arrays = list[Array]


@dataclass(frozen=True)
class Form:
    """The conversion of a kind of layer, from Keras's arrays to a state and back."""

    state: Callable[[Arrays], LayerState]
    arrays: Callable[[LayerState], Arrays]


def _with_bias(weight: Array, arrays: Arrays) -> LayerState:
    return {"weight": weight, **({"bias": arrays[1]} if len(arrays) > 1 else {})}


def _and_bias(kernel: Array, state: LayerState) -> Arrays:
    return [kernel, state["bias"]] if "bias" in state else [kernel]


def _convolution(arrays: Arrays) -> LayerState:
    """(rows, columns, in, out) -> (out, in, rows, columns); of transposed ones, the other two change places, too."""
    kernel = arrays[0]
    _require_axes(kernel, 3, 4)
    return _with_bias(kernel.transpose(*reversed(range(kernel.ndim - 2, kernel.ndim)), *range(kernel.ndim - 2)), arrays)


def _from_convolution(state: LayerState) -> Arrays:
    weight = state["weight"]
    return _and_bias(weight.transpose(*range(2, weight.ndim), 1, 0), state)


def _depthwise(arrays: Arrays) -> LayerState:
    """(rows, columns, in, times) -> (in times, 1, rows, columns)."""
    kernel = arrays[0]
    _require_axes(kernel, 4)
    rows, columns, inputs, times = kernel.shape
    return _with_bias(kernel.transpose(2, 3, 0, 1).reshape(inputs * times, 1, rows, columns), arrays)


def from_depthwise(state: LayerState, inputs: int) -> Arrays:
    """``inputs`` is the number of channels, which the weight does not tell."""
    weight = state["weight"]
    apart = weight.reshape(inputs, len(weight) // inputs, *weight.shape[2:])
    return _and_bias(apart.transpose(2, 3, 0, 1), state)


def _named(*names: str) -> Form:
    """Arrays as they are, in this order; the last ones may be missing."""
    return Form(
        lambda arrays: dict(zip(names, arrays, strict=False)), lambda state: [state[n] for n in names if n in state]
    )


def _lstm(arrays: Arrays) -> LayerState:
    kernel, recurrent, *bias = arrays
    state = {"weight_ih": kernel.T, "weight_hh": recurrent.T}
    if bias:
        state |= {"bias_ih": bias[0], "bias_hh": np.zeros_like(bias[0])}
    return state


def _from_lstm(state: LayerState) -> Arrays:
    """Arrays with one bias, as in Keras, which is the sum of ours."""
    bias = [state["bias_ih"] + state["bias_hh"]] if "bias_ih" in state else []
    return [state["weight_ih"].T, state["weight_hh"].T, *bias]


def _gates(hidden: int) -> Array:
    """The order of a GRU's rows in Keras, the update gate first; the same exchange leads back."""
    return np.concatenate([np.arange(hidden) + hidden * gate for gate in (1, 0, 2)])


def _gru(arrays: Arrays) -> LayerState:
    """The state of a GRU with ``reset_after``, which has two biases in Keras."""
    kernel, recurrent, *bias = arrays
    order = _gates(len(recurrent))
    if kernel.shape[1:] != order.shape or recurrent.shape[1:] != order.shape:
        raise Mismatch(f"kernels of shapes {kernel.shape} and {recurrent.shape} are not those of a GRU")
    state = {"weight_ih": kernel.T[order], "weight_hh": recurrent.T[order]}
    if bias:
        if bias[0].shape != (2, len(order)):
            raise Mismatch(
                "a GRU without reset_after multiplies other numbers than ours; train it with reset_after=True"
            )
        state |= {"bias_ih": bias[0][0][order], "bias_hh": bias[0][1][order]}
    return state


def _from_gru(state: LayerState) -> Arrays:
    order = _gates(state["weight_hh"].shape[1])
    bias = [np.stack([state["bias_ih"][order], state["bias_hh"][order]])] if "bias_ih" in state else []
    return [state["weight_ih"][order].T, state["weight_hh"][order].T, *bias]


def _require_axes(kernel: Array, *counts: int) -> None:
    if kernel.ndim not in counts:
        raise Mismatch(f"a kernel of shape {kernel.shape} does not have {' or '.join(map(str, counts))} axes")


def _dense(arrays: Arrays) -> LayerState:
    _require_axes(arrays[0], 2)
    return _with_bias(arrays[0].T, arrays)


_CONVOLUTION = Form(_convolution, _from_convolution)
_GAMMA_AND_BETA = _named("weight", "bias")
FORMS: dict[str, Form] = {
    "dense": Form(_dense, lambda state: _and_bias(state["weight"].T, state)),
    "conv1d": _CONVOLUTION,
    "conv2d": _CONVOLUTION,
    "conv1d_transpose": _CONVOLUTION,
    "conv2d_transpose": _CONVOLUTION,
    "depthwise_conv2d": Form(_depthwise, lambda state: from_depthwise(state, len(state["weight"]))),
    "batch_normalization": _named("weight", "bias", "running_mean", "running_var"),
    "layer_normalization": _GAMMA_AND_BETA,
    "group_normalization": _GAMMA_AND_BETA,
    "embedding": _named("weight"),
    "lstm": Form(_lstm, _from_lstm),
    "gru": Form(_gru, _from_gru),
}
"""Conversions by Keras's class."""


def attention_state(parts: list[Arrays]) -> LayerState:
    """The state of attention, from query, key, value (features, heads, width) and output (heads, width, features) kernels."""
    for part in parts:
        _require_axes(part[0], 3)
    last = parts[3][0]
    rows = [part[0].reshape(len(part[0]), -1).T for part in parts[:3]]
    if len({row.shape for row in rows}) > 1:
        raise Mismatch("query, key and value have different widths")
    state = {"in_proj_weight": np.concatenate(rows), "out_proj.weight": last.reshape(-1, last.shape[-1]).T}
    if all(len(part) > 1 for part in parts):
        state |= {
            "in_proj_bias": np.concatenate([part[1].reshape(-1) for part in parts[:3]]),
            "out_proj.bias": parts[3][1],
        }
    return state


def attention_arrays(state: LayerState, heads: int) -> list[Arrays]:
    """The four parts in Keras's order."""
    if "in_proj_weight" not in state or "bias_k" in state:
        raise Mismatch(
            "attention with different widths of key and value, or with learned keys, has no counterpart in Keras"
        )
    weights = np.split(state["in_proj_weight"], 3)
    width, features = len(weights[0]) // heads, weights[0].shape[1]
    parts = [[weight.T.reshape(features, heads, width)] for weight in weights]
    out = state["out_proj.weight"]
    parts.append([out.T.reshape(heads, width, len(out))])
    if "in_proj_bias" in state:
        for part, bias in zip(parts, np.split(state["in_proj_bias"], 3), strict=False):
            part.append(bias.reshape(heads, width))
        parts[3].append(state["out_proj.bias"])
    return parts


def channels_first(weight: Array, shape: tuple[int, ...]) -> Array:
    """Columns of a matrix from the order (height, width, channels) to (channels, height, width)."""
    if weight.shape[1] != int(np.prod(shape)):
        return weight
    apart = weight.reshape(-1, *shape[1:], shape[0])
    return np.moveaxis(apart, -1, 1).reshape(weight.shape)


def channels_last(weight: Array, shape: tuple[int, ...]) -> Array:
    """The way back."""
    return np.moveaxis(weight.reshape(-1, *shape), 1, -1).reshape(weight.shape)
