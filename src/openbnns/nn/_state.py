"""The weights of a network: as arrays by name, and in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .._plural import plural
from ..graph.parameter import Mismatch, Parameter, as_float_array
from ..graph.tensor import Array
from ._tree import Tree


class State(Tree):
    """The parameters and buffers of a module and its parts, as arrays."""

    def state_dict(self) -> dict[str, Array]:
        """All parameters and buffers by path. The arrays are those of the network, not copies.

        What is shared stands under every one of its paths, as in PyTorch, with one array for all of them.
        """
        self._require_built("state_dict")
        return {path: one.data if isinstance(one, Parameter) else one for path, one in self._named_state()}

    def _named_state(self) -> Iterator[tuple[str, Parameter | Array]]:
        """All parameters and buffers under every one of their paths."""
        for path, module in self._paths():
            start = f"{path}." if path else ""
            yield from ((start + name, parameter) for name, parameter in module._parameters.items())
            yield from ((start + name, array) for name, array in module._buffers.items())

    def load_state_dict(self, arrays: Mapping[str, Any], *, strict: bool = True) -> list[str]:
        """Take over weights by path; they are copied. A PyTorch ``state_dict`` of the same network fits as it is.

        Every mismatch is listed at once, and then nothing is changed. With ``strict=False`` missing and unknown names
        are allowed; they are returned. Of the names of a shared parameter one is enough.
        """
        if not isinstance(arrays, Mapping):
            hint = " Pass its state_dict()." if isinstance(arrays, Tree) else ""
            raise TypeError(f"load_state_dict: takes arrays by name, not a {type(arrays).__name__}.{hint}")
        self._require_built("load_state_dict")
        own = dict(self._named_state())
        shared = shared_names(own)
        given = {name: as_float_array(array) for name, array in arrays.items() if not _is_counter(name)}
        for name, array in given.items():
            if array.shape == () and name in own and own[name].shape == (1,):
                given[name] = array.reshape(1)  # a parameter that is a number has an axis here, and none in PyTorch
        unfit = [
            f"{name}: shape {given[name].shape} given, {own[name].shape} needed"
            for name in own
            if name in given and given[name].shape != own[name].shape
        ]
        unfit += [
            f"{' and '.join(same)}: one shared parameter of the network, but different values given"
            for same in ([name for name in names if name in given] for names in shared.values())
            if any(not np.array_equal(given[same[0]], given[name], equal_nan=True) for name in same[1:])
        ]
        names = [
            f"{name}: missing" for name, array in own.items() if not any(same in given for same in shared[id(array)])
        ]
        names += [f"{name}: not in the network" for name in given if name not in own]
        if unfit or (strict and names):
            wrong = unfit + (names if strict else [])
            raise Mismatch(
                f"load_state_dict: {plural(len(wrong), 'mismatch')}, nothing was changed:\n  " + "\n  ".join(wrong)
            )
        for name, target in own.items():
            if name not in given:
                continue
            if isinstance(target, Parameter):
                target.data = given[name]
            else:
                target[...] = given[name]
        return names

    def save(self, path: Any) -> None:
        """Write all weights to a ``.safetensors`` file; or to one for NumPy, PyTorch or Keras, if its name ends in ``.npz``,
        ``.pt`` or ``.weights.h5``.

        What is shared is written once to a ``.safetensors`` file, under its first name; the metadata names it for every other
        one, as ``safetensors.torch.save_model`` does. The others have it under every name.
        """
        from ..interop import weight_files
        from .files.safetensors import save

        own: Any = self  # every state is a module
        if weight_files.save_from(own, path):
            return
        arrays = self.state_dict()
        metadata = {other: names[0] for names in shared_names(arrays).values() for other in names[1:]}
        save(path, {name: array for name, array in arrays.items() if name not in metadata}, metadata or None)

    def load(self, path: Any, *, strict: bool = True) -> list[str]:
        """Read weights from a file; see :meth:`load_state_dict`.

        ``.safetensors`` files may be ours or PyTorch's, ``.npz`` NumPy's, ``.pt`` and ``.pth`` PyTorch's (its
        ``state_dict``), ``.keras``, ``.weights.h5`` and ``.h5`` those of Keras, whose layers are matched in their order.
        """
        from ..interop import weight_files

        own: Any = self  # every state is a module
        return weight_files.load_into(own, path, strict=strict)

    def _require_built(self, what: str) -> None:
        if any(module._lazy() for module in self.modules()):
            raise RuntimeError(
                f"{type(self).__name__}.{what}: sizes are not known yet. Give layers their input sizes, call "
                "build(sample_shape), or run one batch first."
            )

    def _lazy(self) -> bool:
        """True if parameters or buffers are still to be made."""
        return any(not p.sized for p in self._parameters.values())

    def _has_state(self) -> bool:
        """True if the module itself, without its submodules, has parameters or buffers."""
        return bool(self._parameters or self._buffers) or self._lazy()


def shared_names(state: Mapping[str, object]) -> dict[int, list[str]]:
    """The names of every array or parameter of a network; several where it is shared."""
    names: dict[int, list[str]] = {}
    for name, one in state.items():
        names.setdefault(id(one), []).append(name)
    return names


def _is_counter(name: str) -> bool:
    """PyTorch counts the batches a normalization has seen; nothing here depends on it."""
    return name.rsplit(".", 1)[-1] == "num_batches_tracked"
