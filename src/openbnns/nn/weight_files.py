"""Files of weights by their kinds: ours, NumPy's, PyTorch's and Keras's."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import keras_weights, weights
from ._value import Array

if TYPE_CHECKING:
    from .module import Module

_TORCH = (".pt", ".pth")


def write(path: Any, arrays: Mapping[str, Array], suffix: str | None = None) -> bool:
    """Write arrays to a file for NumPy or PyTorch, by its name or the ``suffix``; False if that is of another kind."""
    suffix = suffix or Path(path).suffix.lower()
    if suffix == ".npz":
        file = io.BytesIO()
        named: dict[str, Any] = dict(arrays)
        np.savez(file, **named)
        weights.write_atomically(path, file.getvalue())
    elif suffix in _TORCH:
        torch = _torch(suffix)
        file = io.BytesIO()
        torch.save({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}, file)
        weights.write_atomically(path, file.getvalue())
    elif suffix in keras_weights.SUFFIXES:
        raise ValueError(f"{path}: files of Keras can be read, but are not written. Use .safetensors, .npz or .pt.")
    else:
        return False
    return True


def read(path: Any) -> dict[str, Array]:
    """The arrays of a file of ours, NumPy's or PyTorch's, by name."""
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        return _numpy(Path(path))
    if suffix in _TORCH:
        return _tensors(path)
    return weights.load(path)


def load_into(network: Module, path: Any, *, strict: bool) -> list[str]:
    """Put the weights of a file into a network; see ``Module.load``."""
    if Path(path).suffix.lower() in keras_weights.SUFFIXES:
        return keras_weights.load_into(network, path, strict=strict)
    return network.load_state_dict(read(path), strict=strict)


def _numpy(path: Path) -> dict[str, Array]:
    """Never a pickle, and no more memory than the members say that they have."""
    from ._readers import read_npz

    _, names = read_npz(path, (), None)
    arrays, _ = read_npz(path, names, None)
    return arrays


def _torch(suffix: str) -> Any:
    from .pytorch.errors import require_torch

    return require_torch(f"a {suffix} file")


def _tensors(path: Any) -> dict[str, Array]:
    torch = _torch(Path(path).suffix)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)  # tensors and plain values, never code
    except OSError:
        raise
    except Exception as error:  # of many kinds: pickle, zip, PyTorch's own
        raise weights.DamagedFile(f"{path}: cannot be read as weights of PyTorch ({error}).") from None
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]  # a checkpoint
    if not isinstance(state, Mapping) or not all(hasattr(tensor, "detach") for tensor in state.values()):
        raise weights.DamagedFile(
            f"{path}: holds a {type(state).__name__}, not a state_dict. Save torch.save(module.state_dict(), path)."
        )
    return {str(name): tensor.detach().float().numpy() for name, tensor in state.items()}
