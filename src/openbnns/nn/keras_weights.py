"""Weights of Keras models: ``.weights.h5``, ``.keras`` and the older ``.h5`` files, for layers that both have.

Files say of each layer its class and number, ``conv2d_1``, and its arrays in a fixed order. Layers of a class are matched with
layers of the same kind in the network, in their order; everything else is checked by shape. Keras has channels last, so the
features of images are in another order there, which the layer behind a ``Flatten`` has to follow.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import operations
from ._value import Array
from .files import open_regular
from .parameter import Mismatch
from .weights import DamagedFile

if TYPE_CHECKING:
    from .module import Module

SUFFIXES = (".h5", ".keras", ".hdf5")
_LARGEST = 2**40
_PARTS = {
    "forward_layer": 0,
    "backward_layer": 1,
    "query_dense": 0,
    "key_dense": 1,
    "value_dense": 2,
    "output_dense": 3,
}


@dataclass
class KerasLayer:
    """The arrays of one layer of a file, in Keras's order."""

    kind: str  # conv2d
    name: str  # conv2d_1
    arrays: list[Array] = field(default_factory=list)


def read(path: Any) -> tuple[list[KerasLayer], bool]:
    """The layers of a file that have weights, and whether their images have channels last."""
    where, last = Path(path), True
    with open_regular(where, DamagedFile) as (file, size):
        source: Any = file
        if where.suffix == ".keras":
            source, last = _archived(where, file, size)
        h5py = _h5py()
        try:
            with h5py.File(source, "r") as data:
                layers = list(_legacy(data) if _is_legacy(data) else _layers(data, (), ""))
        except (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
            raise DamagedFile(f"{where}: cannot be read as weights of Keras ({error}).") from None
    return layers, last


def _h5py() -> Any:
    try:
        return import_module("h5py")
    except ImportError as error:
        raise ImportError(f'Weights of Keras need h5py: pip install "openbnns[keras]". ({error})') from None


def _archived(path: Path, file: Any, size: int) -> tuple[Any, bool]:
    try:
        with zipfile.ZipFile(file) as archive:
            member = archive.getinfo("model.weights.h5")
            if member.file_size > 1000 * size:
                raise ValueError("it claims to be a thousand times as large as its archive")
            config = json.loads(archive.read("config.json"))
            return io.BytesIO(archive.read(member)), "channels_first" not in json.dumps(config)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, RuntimeError, NotImplementedError, EOFError) as error:
        raise DamagedFile(f"{path}: cannot be read as a .keras archive ({error}).") from None


def _numbers(dataset: Any) -> Array:
    if dataset.dtype.kind not in "fiu" or dataset.size * dataset.dtype.itemsize > _LARGEST:
        raise ValueError(f"{dataset.name} is {dataset.dtype} of shape {dataset.shape}")
    array: Array = np.asarray(dataset[()], np.float32)
    return array


def _layers(group: Any, path: tuple[str, ...], kind: str) -> Iterator[KerasLayer]:
    """Of a file as Keras 3 writes it: groups of layers with ``vars``."""
    arrays = group.get("vars")
    if arrays is not None and len(arrays) and path:
        found = [_numbers(arrays[name]) for name in sorted(arrays, key=int)]
        yield KerasLayer(f"{kind}_{_cell(found)}" if kind == "bidirectional" else kind, "/".join(path), found)
    for name in sorted(group, key=_order):
        child = group[name]
        if name in ("vars", "optimizer", "seed_generator") or not hasattr(child, "keys"):
            continue
        inside = (
            kind if name in ("cell", "layers", "forward_layer", "backward_layer") or name in _PARTS else _kind(name)
        )
        yield from _layers(child, path if name == "layers" else (*path, name), inside)


def _order(name: str) -> tuple[str, int]:
    plain = re.fullmatch(r"(.*?)(?:_(\d+))?", name)
    assert plain is not None
    place = _PARTS.get(name)
    return ("", place) if place is not None else (plain[1], int(plain[2] or 0))


def _kind(name: str) -> str:
    return _order(name)[0]


def _is_legacy(data: Any) -> bool:
    return "layer_names" in data.attrs or "model_weights" in data


def _legacy(data: Any) -> Iterator[KerasLayer]:
    """Of a file as Keras 1 and 2 write it: names in attributes."""
    group = data.get("model_weights", data)
    for layer in _texts(group.attrs["layer_names"]):
        names = _texts(group[layer].attrs["weight_names"])
        if names:
            arrays = [_numbers(group[layer][name]) for name in names]
            yield KerasLayer(
                _legacy_kind(layer, [n.rsplit("/", 1)[-1].split(":")[0] for n in names], arrays), layer, arrays
            )


def _texts(names: Any) -> list[str]:
    return [name.decode() if isinstance(name, bytes) else str(name) for name in names]


def _cell(arrays: list[Array]) -> str:
    """Which recurrent layer has these arrays, by its number of gates."""
    recurrent = arrays[1] if len(arrays) > 1 and arrays[1].ndim == 2 else np.zeros((1, 1))
    return {4: "lstm", 3: "gru"}.get(recurrent.shape[1] // max(recurrent.shape[0], 1), "simple_rnn")


def _legacy_kind(layer: str, names: list[str], arrays: list[Array]) -> str:
    if "recurrent_kernel" in names:
        return _cell(arrays)
    if "moving_mean" in names:
        return "batch_normalization"
    if "embeddings" in names:
        return "embedding"
    if "depthwise_kernel" in names:
        return "depthwise_conv2d"
    if "gamma" in names or "beta" in names:
        return "group_normalization" if "group" in layer else "layer_normalization"
    transposed = "_transpose" if "transpose" in layer else ""
    return {2: "dense", 3: f"conv1d{transposed}", 4: f"conv2d{transposed}"}.get(arrays[0].ndim, _kind(layer))


# From Keras's arrays to those of a layer.

State = dict[str, Array]


def _with_bias(weight: Array, arrays: list[Array]) -> State:
    return {"weight": weight, **({"bias": arrays[1]} if len(arrays) > 1 else {})}


def _convolution(arrays: list[Array]) -> State:
    """(rows, columns, in, out) -> (out, in, rows, columns); of transposed ones, the other two change places, too."""
    kernel = arrays[0]
    return _with_bias(kernel.transpose(*reversed(range(kernel.ndim - 2, kernel.ndim)), *range(kernel.ndim - 2)), arrays)


def _depthwise(arrays: list[Array]) -> State:
    kernel = arrays[0]
    rows, columns, inputs, times = kernel.shape
    return _with_bias(kernel.transpose(2, 3, 0, 1).reshape(inputs * times, 1, rows, columns), arrays)


def _normalization(names: tuple[str, ...]) -> Callable[[list[Array]], State]:
    return lambda arrays: dict(zip(names, arrays, strict=False))


def _lstm(arrays: list[Array]) -> State:
    kernel, recurrent, *bias = arrays
    state = {"weight_ih": kernel.T, "weight_hh": recurrent.T}
    if bias:
        state |= {"bias_ih": bias[0], "bias_hh": np.zeros_like(bias[0])}
    return state


def _gru(arrays: list[Array]) -> State:
    """Keras has the update gate first, and with ``reset_after`` two biases."""
    kernel, recurrent, *bias = arrays
    order = np.concatenate([np.arange(len(recurrent)) + len(recurrent) * gate for gate in (1, 0, 2)])
    state = {"weight_ih": kernel.T[order], "weight_hh": recurrent.T[order]}
    if bias:
        if bias[0].ndim != 2:
            raise Mismatch(
                "a GRU without reset_after multiplies other numbers than ours; train it with reset_after=True"
            )
        state |= {"bias_ih": bias[0][0][order], "bias_hh": bias[0][1][order]}
    return state


_PLAIN: dict[str, Callable[[list[Array]], State]] = {
    "dense": lambda arrays: _with_bias(arrays[0].T, arrays),
    "conv1d": _convolution,
    "conv2d": _convolution,
    "conv1d_transpose": _convolution,
    "conv2d_transpose": _convolution,
    "depthwise_conv2d": _depthwise,
    "batch_normalization": _normalization(("weight", "bias", "running_mean", "running_var")),
    "layer_normalization": _normalization(("weight", "bias")),
    "group_normalization": _normalization(("weight", "bias")),
    "embedding": _normalization(("weight",)),
}


def kinds_of(module: Any) -> tuple[str, ...]:
    """The classes of Keras that a layer has weights of; the first one that the file has counts."""
    from . import convolution, layers, normalization, sequences

    if isinstance(module, convolution.ConvTranspose1d):
        return ("conv1d_transpose",)
    if isinstance(module, convolution.ConvTranspose2d):
        return ("conv2d_transpose",)
    if isinstance(module, convolution.Conv2d):
        return ("depthwise_conv2d", "conv2d") if module.groups > 1 else ("conv2d",)
    if isinstance(module, convolution.Conv1d):
        return ("conv1d",)
    if isinstance(module, layers.Linear):
        return ("dense",)
    if isinstance(module, layers.Embedding):
        return ("embedding",)
    if isinstance(module, (normalization.BatchNorm1d, normalization.BatchNorm2d)):
        return ("batch_normalization",)
    if isinstance(module, normalization.LayerNorm):
        return ("layer_normalization",)
    if isinstance(module, normalization.GroupNorm):
        return ("group_normalization",)
    if isinstance(module, sequences.LSTM):
        return ("bidirectional_lstm",) if module.bidirectional else ("lstm",)
    if isinstance(module, sequences.GRU):
        return ("bidirectional_gru",) if module.bidirectional else ("gru",)
    if isinstance(module, sequences.MultiheadAttention):
        return ("multi_head_attention",)
    return ()


class _Matching:
    """Layers of a file, taken in their order by layers of a network."""

    def __init__(self, found: list[KerasLayer]) -> None:
        self.left: dict[str, list[KerasLayer]] = {}
        for layer in found:
            self.left.setdefault(layer.kind, []).append(layer)
        self.problems: list[str] = []
        self.table: list[tuple[str, str]] = []

    def take(self, path: str, module: Any, count: int) -> list[KerasLayer]:
        kinds = kinds_of(module)
        kind = next((kind for kind in kinds if self.left.get(kind)), kinds[0])
        have = self.left.get(kind, [])
        if len(have) < count:
            self.problems.append(f"{path} ({type(module).__name__}): the file has no further layer of class {kind}")
            return []
        taken, self.left[kind] = have[:count], have[count:]
        self.table.append((path, ", ".join(layer.name for layer in taken)))
        return taken


def state_for(network: Module, found: list[KerasLayer], channels_last: bool) -> State:
    """The arrays of a file under the names of a network."""
    matching = _Matching(found)
    flat = _flattened(network) if channels_last else {}
    state: State = {}
    for path, module in network.named_modules():
        if not kinds_of(module):
            continue
        start = f"{path}." if path else ""
        try:
            own = _of_module(path, module, matching)
        except Mismatch as error:
            matching.problems.append(f"{path} ({type(module).__name__}): {error}")
            continue
        if id(module) in flat and "weight" in own and own["weight"].ndim == 2:
            own["weight"] = _channels_first(own["weight"], flat[id(module)])
        state |= {start + name: np.ascontiguousarray(array) for name, array in own.items()}
    left = [layer.name for layers in matching.left.values() for layer in layers]
    matching.problems += [f"{name}: no layer of the network takes it" for name in left]
    if matching.problems:
        listed = "\n  ".join(matching.problems)
        raise Mismatch(
            f"load: {len(matching.problems)} mismatch(es) with the file of Keras, nothing was changed:\n  {listed}"
        )
    return state


def _of_module(path: str, module: Any, matching: _Matching) -> State:
    kind = kinds_of(module)[0]
    if kind.endswith(("lstm", "gru")):
        return _recurrent(path, module, matching)
    if kind == "multi_head_attention":
        return _attention(matching.take(path, module, 4))
    taken = matching.take(path, module, 1)
    if not taken:
        return {}
    state = _PLAIN[taken[0].kind](taken[0].arrays)
    if taken[0].kind == "batch_normalization" and len(taken[0].arrays) < 4:
        raise Mismatch("normalizations without center or scale have no counterpart here")
    return state


def _recurrent(path: str, module: Any, matching: _Matching) -> State:
    directions = 2 if module.bidirectional else 1
    convert = _lstm if type(module).__name__ == "LSTM" else _gru
    state: State = {}
    for i, layer in enumerate(matching.take(path, module, module.num_layers * directions)):
        ending = f"_l{i // directions}" + ("_reverse" if i % directions else "")
        state |= {name + ending: array for name, array in convert(layer.arrays).items()}
    return state


def _attention(parts: list[KerasLayer]) -> State:
    """Kernels of query, key and value are (features, heads, width), that of the output (heads, width, features)."""
    if not parts:
        return {}
    rows = [part.arrays[0].reshape(len(part.arrays[0]), -1).T for part in parts[:3]]
    last = parts[3].arrays[0]
    state = {"in_proj_weight": np.concatenate(rows), "out_proj.weight": last.reshape(-1, last.shape[-1]).T}
    if all(len(part.arrays) > 1 for part in parts):
        state |= {
            "in_proj_bias": np.concatenate([part.arrays[1].reshape(-1) for part in parts[:3]]),
            "out_proj.bias": parts[3].arrays[1],
        }
    return state


def _flattened(network: Module) -> dict[int, tuple[int, ...]]:
    """Layers whose features are those of flattened images or signals, with the shape of these, channels first."""
    assert network._graph is not None
    found = {}
    for operation in network._graph.operations:
        if isinstance(operation, operations.Linear):
            value = operation.inputs[0]
            if value.source is not None and len(value.sample) == 1 and len(value.storage.sample) > 1:
                found[id(operation.modules[0])] = value.storage.sample
    return found


def _channels_first(weight: Array, shape: tuple[int, ...]) -> Array:
    """Columns of a matrix from the order (height, width, channels) to (channels, height, width)."""
    if weight.shape[1] != int(np.prod(shape)):
        return weight
    apart = weight.reshape(-1, *shape[1:], shape[0])
    return np.moveaxis(apart, -1, 1).reshape(weight.shape)


def load_into(network: Module, path: Any, *, strict: bool = True) -> list[str]:
    """Put the weights of a file into a network; see ``Module.load``."""
    if network._graph is None:
        raise RuntimeError(
            f"{type(network).__name__}.load: call build(sample_shape) first, which tells what is flattened."
        )
    found, last = read(path)
    return network.load_state_dict(state_for(network, found, last), strict=strict)
