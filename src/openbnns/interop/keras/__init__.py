"""Weights of Keras models: ``.weights.h5``, ``.keras`` and the older ``.h5`` files, for layers that both have.

Files name each layer by class and number, ``conv2d_1``, and have its arrays in a fixed order. Layers of a class are matched
with layers of the same kind in the network, in their order; everything else is checked by shape. Keras has channels last,
so the features of images are in another order there, which the layer behind a ``Flatten`` has to follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._plural import plural
from ...graph import operations
from ...graph.parameter import Mismatch
from ...nn.convolution import Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d
from ...nn.layers import Embedding, Linear
from ...nn.normalization import BatchNorm1d, BatchNorm2d, GroupNorm, LayerNorm
from ...nn.recording import recorded_graph
from ...nn.sequences import GRU, LSTM, MultiheadAttention
from . import files
from .files import KerasLayer
from .layer_arrays import (
    FORMS,
    LayerState,
    attention_arrays,
    attention_state,
    channels_first,
    channels_last,
    from_depthwise,
)

if TYPE_CHECKING:
    from ...nn.module import Module

SUFFIXES = (".h5", ".keras", ".hdf5")
_ATTENTION = ("query_dense", "key_dense", "value_dense", "output_dense")


_KINDS: dict[type, tuple[str, ...]] = {
    ConvTranspose1d: ("conv1d_transpose",),
    ConvTranspose2d: ("conv2d_transpose",),
    Conv2d: ("conv2d",),
    Conv1d: ("conv1d",),
    Linear: ("dense",),
    Embedding: ("embedding",),
    BatchNorm1d: ("batch_normalization",),
    BatchNorm2d: ("batch_normalization",),
    LayerNorm: ("layer_normalization",),
    GroupNorm: ("group_normalization",),
    LSTM: ("lstm",),
    GRU: ("gru",),
    MultiheadAttention: ("multi_head_attention",),
}
"""Classes of Keras by the class of a layer here, or its nearest base that is listed."""


def kinds_of(module: Any) -> tuple[str, ...]:
    """The classes of Keras that a layer has weights of; the first one that the file has counts."""
    kinds = next((_KINDS[base] for base in type(module).__mro__ if base in _KINDS), ())
    if kinds == ("conv2d",) and module.groups > 1:
        return ("depthwise_conv2d", *kinds)
    return tuple(f"bidirectional_{kind}" for kind in kinds) if getattr(module, "bidirectional", False) else kinds


def _matched(network: Module) -> Iterator[tuple[str, Any]]:
    """The layers of a network that Keras has, and that have weights, in the order in which they are matched."""
    return ((path, module) for path, module in network.named_modules() if kinds_of(module) and module.has_state())


def _flattened(network: Module) -> dict[int, tuple[int, ...]]:
    """Layers whose features are those of flattened images or signals, with the shape of these, channels first."""
    shapes = {}
    for operation in recorded_graph(network).operations:
        if isinstance(operation, operations.Linear):
            value = operation.inputs[0]
            if value.source is not None and value.ndim == 2 and value.storage.ndim > 2:
                shapes[id(operation.modules[0])] = tuple(map(int, value.storage.shape[1:]))
    return shapes


def _require_built(network: Module, what: str) -> None:
    if not network.built:
        raise RuntimeError(
            f"{type(network).__name__}.{what}: call build(sample_shape) first, which tells what is flattened."
        )


# From a file.


class _Matching:
    """Layers of a file, taken in their order by layers of a network."""

    def __init__(self, stored: list[KerasLayer]) -> None:
        self.left: dict[str, list[KerasLayer]] = {}
        for layer in stored:
            self.left.setdefault(layer.kind, []).append(layer)
        self.problems: list[str] = []

    def take(self, path: str, module: Any, count: int) -> list[KerasLayer]:
        kinds = kinds_of(module)
        kind = next((kind for kind in kinds if self.left.get(kind)), kinds[0])
        have = self.left.get(kind, [])
        if len(have) < count:
            self.problems.append(f"{path} ({type(module).__name__}): the file has no further layer of class {kind}")
            return []
        taken, self.left[kind] = have[:count], have[count:]
        return taken


def load_into(network: Module, path: Any, *, strict: bool = True) -> list[str]:
    """Put the weights of a file into a network; see ``Module.load``."""
    _require_built(network, "load")
    stored, last = files.read(path)
    return network.load_state_dict(_state_for(network, stored, last), strict=strict)


def _state_for(network: Module, stored: list[KerasLayer], last: bool) -> LayerState:
    """The arrays of a file under the names of a network."""
    matching = _Matching(stored)
    flat = _flattened(network) if last else {}
    state: LayerState = {}
    for path, module in _matched(network):
        start = f"{path}." if path else ""
        try:
            own = _taken(path, module, matching)
        except (Mismatch, ValueError) as error:  # arrays that are not those of such a layer
            matching.problems.append(f"{path} ({type(module).__name__}): {error}")
            continue
        if id(module) in flat and "weight" in own and own["weight"].ndim == 2:
            own["weight"] = channels_first(own["weight"], flat[id(module)])
        state |= {start + name: np.ascontiguousarray(array) for name, array in own.items()}
    left = [layer.name for layers in matching.left.values() for layer in layers]
    matching.problems += [f"{name}: no layer of the network takes it" for name in left]
    if matching.problems:
        listed = "\n  ".join(matching.problems)
        raise Mismatch(
            f"load: {plural(len(matching.problems), 'mismatch')} with the file of Keras, nothing was changed:\n  {listed}"
        )
    return state


def _taken(path: str, module: Any, matching: _Matching) -> LayerState:
    kind = kinds_of(module)[0]
    if kind.endswith(("lstm", "gru")):
        return _recurrent(path, module, matching)
    if kind == "multi_head_attention":
        parts = matching.take(path, module, 4)
        return attention_state([part.arrays for part in parts]) if parts else {}
    taken = matching.take(path, module, 1)
    if not taken:
        return {}
    if taken[0].kind == "batch_normalization" and len(taken[0].arrays) < 4:
        raise Mismatch("normalizations without center or scale have no counterpart here")
    return FORMS[taken[0].kind].state(taken[0].arrays)


def _recurrent(path: str, module: Any, matching: _Matching) -> LayerState:
    form, state = FORMS[_cell(module)], LayerState()
    taken = matching.take(path, module, module.num_layers * (2 if module.bidirectional else 1))
    for ending, layer in zip(_endings(module), taken, strict=False):
        state |= {name + ending: array for name, array in form.state(layer.arrays).items()}
    return state


def _cell(module: Any) -> str:
    return kinds_of(module)[0].rpartition("_")[2]


def _endings(module: Any) -> list[str]:
    """The endings of the names of weights, for every layer and direction."""
    directions = ("", "_reverse") if module.bidirectional else ("",)
    return [f"_l{i}{direction}" for i in range(module.num_layers) for direction in directions]


# To a file.


def save_from(network: Module, path: Any) -> list[tuple[str, str]]:
    """Write the weights of a network to a ``.weights.h5`` file, and return which layer became which of Keras."""
    if not str(path).endswith(".weights.h5"):
        raise ValueError(
            f"{path}: weights for Keras are written to files that end in .weights.h5, for model.load_weights. A .keras archive "
            "also holds the model in Keras's own classes, which only Keras can write: load the weights there, and save."
        )
    _require_built(network, "save")
    names, problems, rows = Counter[str](), [], []
    layers: list[KerasLayer] = []
    arrays, flat = network.state_dict(), _flattened(network)
    covered: set[int] = set()  # arrays, since shared ones have several names
    for module_path, module in _matched(network):
        start = f"{module_path}." if module_path else ""
        state = {name[len(start) :]: array for name, array in arrays.items() if name.startswith(start)}
        covered |= set(map(id, state.values()))
        if id(module) in flat:
            state["weight"] = channels_last(state["weight"], flat[id(module)])
        try:
            written = list(_written(module, state, names))
        except Mismatch as error:
            problems.append(f"{module_path} ({type(module).__name__}): {error}")
            continue
        layers += written
        rows.append((f"{module_path}: {type(module).__name__}", ", ".join(layer.name for layer in written)))
    problems += [f"{name}: Keras has no layer for it" for name, array in arrays.items() if id(array) not in covered]
    if problems:
        listed = "\n  ".join(problems)
        raise Mismatch(
            f"save: {path}: {plural(len(problems), 'problem')}, nothing was written:\n  {listed}\nUse .safetensors, .npz or .pt."
        )
    files.write(path, layers)
    return rows


def _written(module: Any, state: LayerState, names: Counter[str]) -> Iterator[KerasLayer]:
    """The layers of Keras that a module becomes."""

    def name(kind: str) -> str:
        names[kind] += 1
        return kind if names[kind] == 1 else f"{kind}_{names[kind] - 1}"

    kind = kinds_of(module)[0]
    if kind.endswith(("lstm", "gru")):
        cell, directions = _cell(module), ("forward_layer", "backward_layer") if module.bidirectional else ("",)
        places = []
        for _ in range(module.num_layers):
            outer = name("bidirectional" if module.bidirectional else cell)
            places += [f"{outer}/{inner}/cell" if inner else f"{outer}/cell" for inner in directions]
        for place, ending in zip(places, _endings(module), strict=True):
            own = {key.removesuffix(ending): array for key, array in state.items() if key.endswith(ending)}
            yield KerasLayer(cell, place, FORMS[cell].arrays(own))
    elif kind == "multi_head_attention":
        outer = name(kind)
        for part, arrays in zip(_ATTENTION, attention_arrays(state, module.num_heads), strict=True):
            yield KerasLayer(kind, f"{outer}/{part}", arrays)
    elif kind == "depthwise_conv2d":
        if state["weight"].shape[1] == 1:
            yield KerasLayer(kind, name(kind), from_depthwise(state, module.groups))
        else:
            yield KerasLayer("conv2d", name("conv2d"), FORMS["conv2d"].arrays(state))
    else:
        if kind == "batch_normalization" and len(state) < 4:
            raise Mismatch("Keras has no such layer without weights and moving statistics")
        yield KerasLayer(kind, name(kind), FORMS[kind].arrays(state))
