"""Files of weights in four formats: safetensors, NumPy's, PyTorch's and Keras's."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph.tensor import Array
from ..nn.files import safetensors as weights
from ..nn.files.untrusted import NO_WEIGHTS
from ..nn.module import shared_names
from . import keras as keras_weights
from .torch import weight_files as torch_weights

if TYPE_CHECKING:
    from ..nn.module import Module


def write(path: Any, arrays: Mapping[str, Array], suffix: str | None = None) -> bool:
    """Write arrays to a file for NumPy or PyTorch, by its name or the ``suffix``; False if that is of another kind."""
    suffix = suffix or Path(path).suffix.lower()
    if suffix == ".npz":
        file = io.BytesIO()
        named: dict[str, Any] = dict(arrays)
        np.savez(file, **named)
        weights.write_atomically(path, file.getvalue())
    elif suffix in torch_weights.SUFFIXES:
        torch = _torch(suffix)
        file = io.BytesIO()
        torch.save({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}, file)
        weights.write_atomically(path, file.getvalue())
    else:
        return False
    return True


def save_from(network: Module, path: Any) -> None:
    """Write the weights of a network to a file for NumPy, PyTorch or Keras, or to one of ours; see ``Module.save``."""
    if Path(path).suffix.lower() in keras_weights.SUFFIXES:
        keras_weights.save_from(network, path)
        return
    arrays = network.state_dict()
    if not write(path, arrays):
        metadata = {other: names[0] for names in shared_names(arrays).values() for other in names[1:]}
        weights.save(path, {name: array for name, array in arrays.items() if name not in metadata}, metadata or None)


def read(path: Any) -> dict[str, Array]:
    """The arrays of a file of ours, NumPy's or PyTorch's, by name."""
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        return _numpy(Path(path))
    if suffix in torch_weights.SUFFIXES:
        return torch_weights.read(path)
    return weights.load(path)


def load_into(network: Module, path: Any, *, strict: bool) -> list[str]:
    """Put the weights of a file into a network; see ``Module.load``."""
    if Path(path).suffix.lower() in keras_weights.SUFFIXES:
        return keras_weights.load_into(network, path, strict=strict)
    return network.load_state_dict(read(path), strict=strict)


def _numpy(path: Path) -> dict[str, Array]:
    """Read an .npz file: no pickles, and no more memory than its members declare."""
    from ..nn.data.sources.array_files import read_npz

    return read_npz(path, None, None, NO_WEIGHTS)[0]


def _torch(suffix: str) -> Any:
    from .torch.errors import require_torch

    return require_torch(f"a {suffix} file")
