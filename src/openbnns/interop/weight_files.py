"""Files of weights: safetensors, and NumPy's .npz."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._elsewhere import FILES, refuse_file
from ..files import safetensors as weights
from ..files.untrusted import NO_WEIGHTS
from ..graph.tensor import Array
from ..nn.module import shared_names

if TYPE_CHECKING:
    from ..nn.module import Module


def write(path: Any, arrays: Mapping[str, Array], suffix: str | None = None) -> bool:
    """Write arrays to a file for NumPy, if its name or ``suffix`` says so; False if that is of another kind."""
    if (suffix or Path(path).suffix.lower()) != ".npz":
        return False
    file = io.BytesIO()
    named: dict[str, Any] = dict(arrays)
    np.savez(file, **named)
    weights.write_atomically(path, file.getvalue())
    return True


def save_from(network: Module, path: Any) -> None:
    """Write the weights of a network to a file for NumPy, or to one of ours; see ``Module.save``."""
    if Path(path).suffix.lower() in FILES:
        raise ValueError(
            f"{path}: weights are written as .safetensors, which safetensors.torch.load_file reads, or as .npz."
        )
    arrays = network.state_dict()
    if not write(path, arrays):
        metadata = {other: names[0] for names in shared_names(arrays).values() for other in names[1:]}
        weights.save(path, {name: array for name, array in arrays.items() if name not in metadata}, metadata or None)


def read(path: Any) -> dict[str, Array]:
    """The arrays of a .safetensors or .npz file, by name."""
    refuse_file(path)
    return _numpy(Path(path)) if Path(path).suffix.lower() == ".npz" else weights.load(path)


def load_into(network: Module, path: Any, *, strict: bool) -> list[str]:
    """Put the weights of a file into a network; see ``Module.load``."""
    return network.load_state_dict(read(path), strict=strict)


def _numpy(path: Path) -> dict[str, Array]:
    """Read an .npz file: no pickles, and no more memory than its members declare."""
    from ..nn.data.sources.array_files import read_npz

    return read_npz(path, None, None, NO_WEIGHTS)[0]
