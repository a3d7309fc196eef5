"""Files of Keras: ``.weights.h5`` and ``.keras`` of Keras 3, and the older ``.h5`` files, as layers with arrays."""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ...graph.tensor import Array
from ...nn.files.safetensors import DamagedFile, write_atomically
from ...nn.files.untrusted import NO_WEIGHTS, Budget, DataError, open_regular

_MOST_LAYERS = 100_000
_DEEPEST = 50
_PARTS = {
    "forward_layer": 0,
    "backward_layer": 1,
    "query_dense": 0,
    "key_dense": 1,
    "value_dense": 2,
    "output_dense": 3,
}
"""Layers inside of layers, in the order in which their weights are taken."""
_DAMAGE = (
    OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError, OverflowError, MemoryError, EOFError, IndexError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Errors of h5py and zipfile for damaged files; RuntimeError includes NotImplementedError and RecursionError."""


@dataclass
class KerasLayer:
    """The arrays of one layer of a file, in Keras's order."""

    kind: str  # conv2d
    name: str  # conv2d_1
    arrays: list[Array] = field(default_factory=list)


def read(path: Any) -> tuple[list[KerasLayer], bool]:
    """The layers of a file that have weights, and whether their images have channels last."""
    where = Path(path)
    h5py = _h5py()
    with open_regular(where, DamagedFile) as (file, size):
        budget, last = Budget(where, size, None, NO_WEIGHTS), True
        try:
            source: Any = file
            if where.suffix.lower() == ".keras":
                source, last = _archived(file, budget)
            with h5py.File(source, "r") as data:
                stored = _legacy(data, budget) if _is_legacy(data) else _layers(data, budget, (), "")
                layers = list(stored)
        except DataError as error:
            raise DamagedFile(str(error)) from None
        except _DAMAGE as error:
            kind = "a .keras archive" if where.suffix.lower() == ".keras" else "weights of Keras"
            raise DamagedFile(f"{where}: cannot be read as {kind} ({_short(error)}).") from None
    return layers, last


def write(path: Any, layers: Sequence[KerasLayer]) -> None:
    """Write layers to a ``.weights.h5`` file, as Keras 3 does for models that are a list or a graph of layers."""
    memory = io.BytesIO()
    with _h5py().File(memory, "w") as data:
        for layer in layers:
            group = data.create_group(f"layers/{layer.name}/vars")
            for i, array in enumerate(layer.arrays):
                group.create_dataset(str(i), data=np.ascontiguousarray(array, np.float32))
    write_atomically(path, memory.getvalue())


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"


def _h5py() -> Any:
    try:
        return import_module("h5py")
    except ImportError as error:
        raise ImportError(f'Weights of Keras need h5py: pip install "openbnns[keras]". ({error})') from None


def _archived(file: Any, budget: Budget) -> tuple[Any, bool]:
    with zipfile.ZipFile(file) as archive:
        members = [archive.getinfo(name) for name in ("model.weights.h5", "config.json")]
        for member in members:
            budget.take(member.file_size)
        weights, config = (archive.read(member) for member in members)
        return io.BytesIO(weights), "channels_first" not in json.dumps(json.loads(config))


def _numbers(dataset: Any, budget: Budget) -> Array:
    """An array; the sizes that the file claims are counted before memory is taken for them."""
    if dataset.dtype.kind not in "fiu":
        raise ValueError(f"{dataset.name} is {dataset.dtype} of shape {dataset.shape}")
    budget.take(dataset.size * max(dataset.dtype.itemsize, 4))
    array: Array = np.asarray(dataset[()], np.float32)
    return array


def _layers(group: Any, budget: Budget, path: tuple[str, ...], kind: str) -> Iterator[KerasLayer]:
    """The layers of a file as Keras 3 writes it: groups of layers with ``vars``."""
    if len(path) > _DEEPEST:  # a group that holds itself has no end
        raise ValueError(f"groups are nested more than {_DEEPEST} deep")
    arrays = group.get("vars")
    if arrays is not None and len(arrays) and path:
        weights = [_numbers(arrays[name], budget) for name in sorted(arrays, key=int)]
        yield KerasLayer(f"{kind}_{cell_of(weights)}" if kind == "bidirectional" else kind, "/".join(path), weights)
    for name in sorted(group, key=_order):
        child = group[name]
        if name in ("vars", "optimizer", "seed_generator") or not hasattr(child, "keys"):
            continue
        inside = (
            kind if name in ("cell", "layers", "forward_layer", "backward_layer") or name in _PARTS else _kind(name)
        )
        yield from _layers(child, budget, path if name == "layers" else (*path, name), inside)


def _order(name: str) -> tuple[str, int]:
    plain = re.fullmatch(r"(.*?)(?:_(\d{1,9}))?", name, re.DOTALL)
    assert plain is not None
    place = _PARTS.get(name)
    return ("", place) if place is not None else (plain[1], int(plain[2] or 0))


def _kind(name: str) -> str:
    return _order(name)[0]


def _is_legacy(data: Any) -> bool:
    return "layer_names" in data.attrs or "model_weights" in data


def _legacy(data: Any, budget: Budget) -> Iterator[KerasLayer]:
    """The layers of a file as Keras 1 and 2 write it: names in attributes."""
    group = data.get("model_weights", data)
    for layer in _texts(group.attrs["layer_names"]):
        names = _texts(group[layer].attrs["weight_names"])
        if names:
            arrays = [_numbers(group[layer][name], budget) for name in names]
            yield KerasLayer(
                _legacy_kind(layer, [n.rsplit("/", 1)[-1].split(":")[0] for n in names], arrays), layer, arrays
            )


def _texts(names: Any) -> list[str]:
    if len(names) > _MOST_LAYERS:
        raise ValueError(f"there are {len(names)} names in a list")
    return [name.decode() if isinstance(name, bytes) else str(name) for name in names]


def cell_of(arrays: list[Array]) -> str:
    """The kind of recurrent layer that has these arrays, by its number of gates."""
    recurrent = arrays[1] if len(arrays) > 1 and arrays[1].ndim == 2 else np.zeros((1, 1))
    return {4: "lstm", 3: "gru"}.get(recurrent.shape[1] // max(recurrent.shape[0], 1), "simple_rnn")


def _legacy_kind(layer: str, names: list[str], arrays: list[Array]) -> str:
    if "recurrent_kernel" in names:
        return cell_of(arrays)
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
