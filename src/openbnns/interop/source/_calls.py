"""The calls that a program makes of layers, as calls of BNNS.

``layers/written_calls.py`` says which C function a method of a layer calls. What networks do besides calling layers is to
copy arrays; everything else is refused.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ... import engines
from ...abi.structs import Struct
from ...filters.base import Filter as BNNSFilter
from ...filters.base import Y
from ...graph.calls import in_turn
from ...graph.operations import KeepingPlan, LatestAttention
from ...graph.tensor import Array
from ...layers.base import Layer
from ...layers.written_calls import Cache as CachePart
from ...layers.written_calls import NotWritten, WrittenCall, written_call
from ._filters import Filters
from ._places import Places
from ._program_text import Address, Batch, Cache, CacheName, Call, Copy, FilterName, Items, Place, Step
from ._structs import struct_value
from .errors import Refused

_IN_PYTHON = "is computed by Python code, not by calls of BNNS"
_ENTRIES = {"in": "const void *", "in_stride": "const size_t", "in_delta_stride": "const size_t"}


class Tracer:
    """Turns calls of a program into steps; ``batch`` is that of the network."""

    def __init__(self, places: Places, filters: Filters, batch: int) -> None:
        self.places, self.filters, self.batch = places, filters, batch
        self.note = ""  # what the user calls the layer at work
        self.caches: dict[int, str] = {}  # names, by the arrays that stand for them
        self._latest: dict[int, WrittenCall] = {}  # the latest calls of attention layers in training

    def steps(self, call: Any) -> list[Step]:
        """The steps of a call of a program."""
        if not isinstance(call, partial):
            raise Refused(_IN_PYTHON)
        function, given, named = call.func, call.args, call.keywords
        if function is in_turn:
            return [step for part in given[0] for step in self.steps(part)]
        if function is (np.copyto if engines._core is None else engines._core.copy_array):
            return self.copies(*given)
        owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
        if isinstance(owner, KeepingPlan):
            by_layer = given[1] if name == "_forward" else given[2]
            return self.steps(by_layer() if name == "_forward" else by_layer(given[0][Y]))
        if isinstance(owner, LatestAttention):
            return self.steps(given[0])
        if isinstance(owner, Layer):
            try:
                written = written_call(owner, name, given, named, self._latest.get(id(owner)))
            except NotWritten as reason:
                raise Refused(str(reason)) from None
            if written.cache is not None and written.query is not None:
                self._latest[id(owner)] = written
            return self._written(written)
        raise Refused(_IN_PYTHON)

    # Calls of layers.

    def _written(self, call: WrittenCall) -> list[Step]:
        steps: list[Step] = []
        if call.cache is not None and call.query is not None:
            name = self.caches[id(call.cache)] = self.places.name("caches", self.places.step)
            steps.append(Cache(name, self._call(call.query, name), call.query_returns))
        name = "" if call.cache is None else self.caches[id(call.cache)]
        return [*steps, self._call(call, name)]

    def _call(self, call: WrittenCall, cache: str) -> Call:
        writes = {id(array) for array in call.writes}
        arguments = [
            (name, self._batch(value) if name == "batch_size" else self._value(name, value, writes, cache))
            for name, value in call.arguments
        ]
        for array in call.writes:
            self.places.find(array, written=True)
        return Call(self.note, call.function, arguments)

    def _value(self, name: str, value: Any, writes: set[int], cache: str) -> Any:
        if isinstance(value, BNNSFilter):
            return FilterName(self.filters.name(value, self.note))
        if isinstance(value, np.ndarray):
            return self.places.find(value, written=id(value) in writes)
        if isinstance(value, Struct):
            return Address(struct_value(value, self._reading))
        if isinstance(value, list):
            entries = tuple(self._value(name, entry, writes, cache) for entry in value)
            return Items(_ENTRIES.get(name, "BNNSNDArrayDescriptor *"), entries)
        if isinstance(value, CachePart):
            return CacheName(cache, size=value is CachePart.SIZE, address=value is CachePart.SIZE_ADDRESS)
        return value

    def _reading(self, array: Array) -> Place:
        return self.places.find(array)

    def _batch(self, samples: int) -> int | Batch:
        """A number of samples, by that of the network where it is a multiple of it."""
        return Batch(samples // self.batch) if self.batch > 1 and samples % self.batch == 0 else samples

    # Copies.

    def copies(self, target: Array, source: Array) -> list[Step]:
        """A copy from one array to another."""
        if 0 in target.shape:
            return []
        source = np.broadcast_to(source, target.shape)
        to = self.places.find(target, written=True)
        if not any(source.strides) and not source.reshape(-1)[:1].any() and isinstance(source.base, np.ndarray):
            return [Copy(self.note, *_merged(target, target, to, None))]
        if source.dtype != target.dtype:
            raise Refused(f"it converts {source.dtype} to {target.dtype}, {_IN_PYTHON}")
        return [Copy(self.note, *_merged(target, source, to, self.places.find(source)))]


def _merged(target: Array, source: Array, to: Any, start: Any) -> tuple[Any, ...]:
    """Shape, places and strides of a copy, with neighbouring axes made one where that is possible."""
    size = target.itemsize
    axes = [
        (n, t // size, s // size)
        for n, t, s in zip(target.shape, target.strides, source.strides, strict=True)
        if n != 1
    ]
    joined: list[tuple[int, int, int]] = []
    for n, t, s in axes:
        if joined and joined[-1][1:] == (t * n, s * n):
            joined[-1] = (joined[-1][0] * n, t, s)
        else:
            joined.append((n, t, s))
    joined = joined or [(1, 1, 1)]
    shape, of_target, of_source = (tuple(column) for column in zip(*joined, strict=True))
    return shape, to, of_target, start, of_source
