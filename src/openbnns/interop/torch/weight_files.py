"""Weights of PyTorch: ``.pt`` and ``.pth`` files with a ``state_dict``, read without PyTorch and without running any code.

A file is a zip archive: ``data.pkl``, a pickle that describes the dictionary, and the numbers in ``data/0``, ``data/1``
and so on. The pickle is not loaded but followed, operation by operation: dictionaries, lists, tuples and numbers are made,
tensors are noted, and whatever else it asks for becomes a thing with a name that does nothing.
"""

from __future__ import annotations

import math
import pickletools
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...graph.tensor import Array
from ...nn.files.safetensors import DamagedFile
from ...nn.files.untrusted import DAMAGED_ARCHIVE, NO_WEIGHTS, Budget, DataError, open_regular

SUFFIXES = (".pt", ".pth")
_TYPES = {
    "FloatStorage": "f4", "DoubleStorage": "f8", "HalfStorage": "f2", "BFloat16Storage": "u2", "LongStorage": "i8",
    "IntStorage": "i4", "ShortStorage": "i2", "CharStorage": "i1", "ByteStorage": "u1", "BoolStorage": "u1",
}  # fmt: skip
_CHECKPOINTS = ("state_dict", "model_state_dict", "model")
_LARGEST_PICKLE = 2**24  # a few hundred bytes describe a tensor
_MOST_AXES = 64 if int(np.__version__.split(".")[0]) >= 2 else 32
_VALUES = {
    "BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
}  # fmt: skip
_DAMAGE: tuple[type[Exception], ...] = (
    *DAMAGED_ARCHIVE,
    IndexError,
    TypeError,
    AttributeError,
    OverflowError,
    MemoryError,
)
"""Errors of zipfile and pickletools for damaged files."""


@dataclass(frozen=True)
class _Thing:
    """An object that a pickle names, or would make by a call."""

    name: str


@dataclass(frozen=True)
class _Storage:
    """The numbers of tensors: a file in the archive."""

    kind: str
    key: str


@dataclass(frozen=True)
class _StoredTensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read(path: Any) -> dict[str, Array]:
    """The tensors of a ``state_dict``, or of a checkpoint that has one, by name, as float32."""
    where = Path(path)
    with open_regular(where, DamagedFile) as (file, size):
        if file.read(1) == b"\x80":
            raise DamagedFile(
                f"{where}: is a file of PyTorch before 1.6, or a pickle, neither of which is read. Load it in PyTorch, and save "
                "its state_dict() with torch.save."
            )
        try:
            with zipfile.ZipFile(file) as archive:
                return _Reading(where, archive, Budget(where, size, None, NO_WEIGHTS)).state()
        except (DamagedFile, DataError) as error:
            raise DamagedFile(str(error)) from None
        except _DAMAGE as error:
            what = f"{type(error).__name__}: {str(error)[:200]}"
            raise DamagedFile(f"{where}: cannot be read as weights of PyTorch ({what}).") from None


class _Reading:
    def __init__(self, path: Path, archive: zipfile.ZipFile, budget: Budget) -> None:
        self.path, self.archive, self.budget = path, archive, budget
        names = [name for name in archive.namelist() if name.endswith("data.pkl")]
        if not names:
            raise ValueError("there is no data.pkl in it")
        self.folder = min(names, key=len).removesuffix("data.pkl")
        order = self.folder + "byteorder"
        self.order = ">" if order in archive.namelist() and self._member(order, 16) == b"big" else "<"
        self._storages: dict[_Storage, Array] = {}

    def _member(self, name: str, most: int | None = None) -> bytes:
        info = self.archive.getinfo(name)
        if most is not None and info.file_size > most:
            raise ValueError(f"{name} has {info.file_size} bytes, but at most {most} are read")
        self.budget.take(info.file_size)
        return self.archive.read(info)

    def state(self) -> dict[str, Array]:
        held = followed(self._member(f"{self.folder}data.pkl", _LARGEST_PICKLE))
        if isinstance(held, Mapping) and not any(isinstance(one, _StoredTensor) for one in held.values()):
            held = next((held[key] for key in _CHECKPOINTS if isinstance(held.get(key), Mapping)), held)
        if not isinstance(held, Mapping):
            raise DamagedFile(
                f"{self.path}: holds a {_named(held)}, not a state_dict. Save torch.save(module.state_dict(), path)."
            )
        others = [f"{name} is a {_named(one)}" for name, one in held.items() if not isinstance(one, _StoredTensor)]
        if others:
            raise DamagedFile(
                f"{self.path}: holds no state_dict, since {', '.join(others[:3])}{' ...' * (len(others) > 3)}. Save "
                "torch.save(module.state_dict(), path)."
            )
        return {str(name): self._array(tensor, f"{self.path}: {name}") for name, tensor in held.items()}

    def _array(self, tensor: _StoredTensor, who: str) -> Array:
        numbers = self._numbers(tensor.storage)
        shape, strides = tensor.shape, tensor.strides
        sizes = (tensor.offset, *shape, *strides)
        fits = len(shape) == len(strides) <= _MOST_AXES and all(type(n) is int and 0 <= n < 2**62 for n in sizes)
        last = tensor.offset + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=False)) if fits else 0
        if not fits or (0 not in shape and last >= len(numbers)):
            raise DamagedFile(
                f"{who}: {len(numbers)} numbers do not hold a tensor of shape {shape}. The file is damaged."
            )
        self.budget.take(4 * math.prod(shape))
        if 0 in shape:
            return np.zeros(shape, np.float32)
        view = np.lib.stride_tricks.as_strided(
            numbers[tensor.offset :], shape, tuple(numbers.itemsize * stride for stride in strides), writeable=False
        )
        return view.astype(np.float32)

    def _numbers(self, storage: _Storage) -> Array:
        if storage not in self._storages:
            if storage.kind not in _TYPES:
                raise ValueError(f"numbers of type {storage.kind} are not known, only {', '.join(_TYPES)}")
            data = self._member(f"{self.folder}data/{storage.key}")
            dtype = np.dtype(self.order + _TYPES[storage.kind])
            numbers: Array = np.frombuffer(data, dtype, len(data) // dtype.itemsize)
            if storage.kind == "BFloat16Storage":
                numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
            self._storages[storage] = numbers
        return self._storages[storage]


def _named(value: Any) -> str:
    return value.name if isinstance(value, _Thing) else type(value).__name__


# Pickles.


def followed(data: bytes) -> Any:
    """The object that a pickle describes; nothing that it names is imported or called."""
    machine = _Machine()
    for operation, argument, _ in pickletools.genops(data):
        if operation.name == "STOP":
            return machine.stack.pop()
        if operation.name in _VALUES:
            machine.stack.append(argument)
        else:
            step = getattr(machine, f"on_{operation.name.lower()}", None)
            if step is None:
                raise ValueError(f"its pickle has an operation {operation.name}")
            step(argument)
    raise ValueError("its pickle does not end")


_MARK = object()


@dataclass
class _Machine:
    """The operations of pickles that describe states, by their names in ``pickletools``."""

    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def _marked(self) -> list[Any]:
        """The objects pushed since the last mark, removed from the stack."""
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _MARK:
                entries = self.stack[place + 1 :]
                del self.stack[place:]
                return entries
        raise ValueError("its pickle has no mark")

    def _last(self, count: int) -> tuple[Any, ...]:
        if len(self.stack) < count:
            raise ValueError("its pickle takes more than it has")
        entries = tuple(self.stack[-count:])
        del self.stack[-count:]
        return entries

    def on_proto(self, _: Any) -> None:
        """The version of the pickle, which does not matter."""

    on_frame = on_proto

    def on_mark(self, _: Any) -> None:
        self.stack.append(_MARK)

    def on_none(self, _: Any) -> None:
        self.stack.append(None)

    def on_newtrue(self, _: Any) -> None:
        self.stack.append(True)

    def on_newfalse(self, _: Any) -> None:
        self.stack.append(False)

    def on_empty_dict(self, _: Any) -> None:
        self.stack.append({})

    def on_empty_list(self, _: Any) -> None:
        self.stack.append([])

    def on_empty_tuple(self, _: Any) -> None:
        self.stack.append(())

    def on_tuple(self, _: Any) -> None:
        self.stack.append(tuple(self._marked()))

    def on_tuple1(self, _: Any) -> None:
        self.stack.append(self._last(1))

    def on_tuple2(self, _: Any) -> None:
        self.stack.append(self._last(2))

    def on_tuple3(self, _: Any) -> None:
        self.stack.append(self._last(3))

    def on_dict(self, _: Any) -> None:
        entries = self._marked()
        self.stack.append(dict(zip(entries[::2], entries[1::2], strict=True)))

    def on_list(self, _: Any) -> None:
        self.stack.append(self._marked())

    def on_setitem(self, _: Any) -> None:
        self._set(list(self._last(2)))

    def on_setitems(self, _: Any) -> None:
        self._set(self._marked())

    def _set(self, entries: list[Any]) -> None:
        if isinstance(self.stack[-1], dict):
            self.stack[-1].update(zip(entries[::2], entries[1::2], strict=True))

    def on_append(self, _: Any) -> None:
        self._extend(list(self._last(1)))

    def on_appends(self, _: Any) -> None:
        self._extend(self._marked())

    def _extend(self, entries: list[Any]) -> None:
        if isinstance(self.stack[-1], list):
            self.stack[-1].extend(entries)

    def on_memoize(self, _: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def on_put(self, number: Any) -> None:
        self.memo[int(number)] = self.stack[-1]

    on_binput = on_long_binput = on_put

    def on_get(self, number: Any) -> None:
        self.stack.append(self.memo[int(number)])

    on_binget = on_long_binget = on_get

    def on_pop(self, _: Any) -> None:
        self.stack.pop()

    def on_global(self, name: Any) -> None:
        module, _, last = str(name).partition(" ")
        self.stack.append(_Thing(f"{module}.{last}"))

    def on_stack_global(self, _: Any) -> None:
        self.stack.append(_Thing(".".join(map(str, self._last(2)))))

    def on_binpersid(self, _: Any) -> None:
        (given,) = self._last(1)
        word, kind, key, *_rest = given
        if word != "storage" or not isinstance(kind, _Thing) or not isinstance(key, str):
            raise ValueError("its pickle points to something other than numbers")
        self.stack.append(_Storage(kind.name.rpartition(".")[2], key))

    def on_reduce(self, _: Any) -> None:
        function, given = self._last(2)
        self.stack.append(_called(_named(function), given))

    def on_newobj(self, _: Any) -> None:
        kind, _given = self._last(2)
        self.stack.append(_Thing(_named(kind)))

    def on_build(self, _: Any) -> None:
        """The attributes of an object: of a ``state_dict``, the versions of its modules."""
        self._last(1)


def _called(function: str, given: Any) -> Any:
    """The result of a call in a pickle, for the functions that make tensors."""
    if function == "collections.OrderedDict":
        return dict(*given)
    if function in ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor"):
        storage, offset, shape, strides = given[:4]
        if not isinstance(storage, _Storage):
            raise ValueError("its pickle has a tensor without numbers")
        return _StoredTensor(storage, offset, tuple(shape), tuple(strides))
    if function in ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state", "torch.Size"):
        return given[0]
    return _Thing(function)
