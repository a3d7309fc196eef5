"""Filters of the C interface and calls of them, as values in source code: from native plans and their arrays."""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ... import engines
from ...abi.enums import BNNSDataLayout, BNNSDataType, BNNSFilterType
from ...abi.structs import BNNSNDArrayDescriptor, FixedList, Struct
from ...filters.activation import ActivationFilter
from ...filters.arithmetic import Arithmetic
from ...filters.attention import MultiheadAttention
from ...filters.base import Filter as BNNSFilter
from ...filters.base import Y
from ...filters.contraction import TensorContraction
from ...filters.convolution import Convolution
from ...filters.dropout import Dropout
from ...filters.embedding import Embedding
from ...filters.fully_connected import FullyConnected
from ...filters.fused import Fused
from ...filters.loss import Loss
from ...filters.matmul import BroadcastMatMul
from ...filters.normalization import Normalization
from ...filters.padding import Padding
from ...filters.permute import Permute
from ...filters.pooling import Pooling
from ...filters.reduction import Reduction
from ...filters.resize import Resize
from ...filters.transposed_convolution import TransposedConvolution
from ...graph.calls import in_turn
from ...graph.operations import KeepingPlan, LatestAttention
from ...graph.tensor import Array
from ...layers.base import Layer
from ...layers.written_calls import Cache as CachePart
from ...layers.written_calls import NotWritten, WrittenCall, written_call
from .code_memory import Places
from .code_parts import (
    Address,
    Batch,
    BNNSCall,
    BufferPlace,
    Cache,
    CacheName,
    Constant,
    Copy,
    Filter,
    FilterName,
    Items,
    Step,
    StructValue,
    Text,
)
from .errors import Refused

# Fields that name a layer's function, which are written even if their number is 0.
_ALWAYS_SAID = {"arithmetic_function", "pooling_function", "reduce_func", "reduction", "padding_mode", "method"}

Find = Callable[[Array], BufferPlace]


def struct_value(struct: Struct, find: Find) -> StructValue:
    """The fields of a struct that are not zero; ``find`` says where the memory lies that it points to."""
    zero = type(struct)()
    fields = []
    for attribute, kind in struct._kinds.items():
        value, name = getattr(struct, attribute), attribute.rstrip("_")  # that of C, where Python has a keyword
        if kind.is_pointer:
            if value is not None:
                fields.append((name, _pointer(value, find)))
        elif value != getattr(zero, attribute) or (isinstance(value, enum.IntEnum) and name in _ALWAYS_SAID):
            fields.append((name, _value(value, find)))
    return StructValue(type(struct).__name__, tuple(fields))


def _value(value: Any, find: Find) -> Any:
    if isinstance(value, Struct):
        return struct_value(value, find)
    if isinstance(value, FixedList):
        return tuple(_value(entry, find) for entry in value)
    if isinstance(value, enum.IntFlag):
        return Constant(tuple(bit.name for bit in type(value) if bit.name and bit & value), type(value).__name__)
    if isinstance(value, enum.IntEnum):
        return Constant((value.name,), type(value).__name__)
    if isinstance(value, (bool, int, float)):
        return value
    raise Refused(f"a value of type {type(value).__name__} has no place in source code")


def _pointer(value: Any, find: Find) -> Any:
    if isinstance(value, Struct):
        return Address(struct_value(value, find))
    if isinstance(value, np.ndarray):
        return find(value)
    if isinstance(value, (str, bytes)):
        return Text(value if isinstance(value, str) else value.decode())
    raise Refused(f"a pointer to {type(value).__name__} has no place in source code")


def vector(place: BufferPlace, count: int) -> StructValue:
    """A descriptor of elements side by side."""
    layout, kind = BNNSDataLayout.BNNSDataLayoutVector, BNNSDataType.BNNSDataTypeFloat32
    return StructValue(
        BNNSNDArrayDescriptor.__name__,
        (
            ("layout", Constant((layout.name,), "BNNSDataLayout")),
            ("size", (count, 0, 0, 0, 0, 0, 0, 0)),
            ("data", place),
            ("data_type", Constant((kind.name,), "BNNSDataType")),
        ),
    )


_CREATION: dict[type[BNNSFilter], str] = {
    ActivationFilter: "BNNSFilterCreateLayerActivation",
    Arithmetic: "BNNSFilterCreateLayerArithmetic",
    BroadcastMatMul: "BNNSFilterCreateLayerBroadcastMatMul",
    Convolution: "BNNSFilterCreateLayerConvolution",
    Dropout: "BNNSFilterCreateLayerDropout",
    Embedding: "BNNSFilterCreateLayerEmbedding",
    FullyConnected: "BNNSFilterCreateLayerFullyConnected",
    Loss: "BNNSFilterCreateLayerLoss",
    MultiheadAttention: "BNNSFilterCreateLayerMultiheadAttention",
    Normalization: "BNNSFilterCreateLayerNormalization",
    Padding: "BNNSFilterCreateLayerPadding",
    Permute: "BNNSFilterCreateLayerPermute",
    Pooling: "BNNSFilterCreateLayerPooling",
    Reduction: "BNNSFilterCreateLayerReduction",
    Resize: "BNNSFilterCreateLayerResize",
    TensorContraction: "BNNSFilterCreateLayerTensorContraction",
    TransposedConvolution: "BNNSFilterCreateLayerTransposedConvolution",
}


class Filters:
    """The filters that calls have used so far, in that order."""

    def __init__(self, places: Places) -> None:
        self.made: list[Filter] = []
        self.step = ""  # what to call the next one
        self._names: dict[int, str] = {}
        self._places = places
        self._held: list[BNNSFilter] = []  # kept alive, because they are known by identity

    def name(self, filter: BNNSFilter, note: str) -> str:
        """The name of a filter, whose creation is added to the code at its first use."""
        if id(filter) not in self._names:
            arguments = self._arguments(filter)
            name = self._places.name("filters", self.step)
            self._names[id(filter)] = name
            self._held.append(filter)
            self.made.append(Filter(name, note, *arguments))
        return self._names[id(filter)]

    def _arguments(self, filter: BNNSFilter) -> tuple[str, list[tuple[str, Any]]]:
        if filter.description is None:
            raise Refused(f"a filter of family {filter.family} was made before it could be written down")
        if isinstance(filter, Fused):
            kinds, layers, settings = filter.description[:3]
            types = tuple(Constant((BNNSFilterType(kind).name,), "BNNSFilterType") for kind in kinds)
            structs = tuple(Address(struct_value(layer, self._places.find)) for layer in layers)
            return "BNNSFilterCreateFusedLayer", [
                ("number_of_fused_filters", len(kinds)),
                ("filter_type", Items("const BNNSFilterType", types)),
                ("layer_params", Items("const void *", structs)),
                ("filter_params", _settings(settings, self._places)),
            ]
        struct, settings = filter.description[:2]
        if type(filter) is Normalization:
            return "BNNSFilterCreateLayerNormalization", [
                ("normType", Constant((BNNSFilterType(filter.kind).name,), "BNNSFilterType")),
                ("layer_params", Address(struct_value(struct, self._places.find))),
                ("filter_params", _settings(settings, self._places)),
            ]
        if type(filter) not in _CREATION:
            raise Refused(f"filters of family {filter.family} have no form in source code")
        return _CREATION[type(filter)], [
            ("layer_params", Address(struct_value(struct, self._places.find))),
            ("filter_params", _settings(settings, self._places)),
        ]


def _settings(given: Any, places: Places) -> Any:
    return None if given is None else Address(struct_value(given, places.find))


_IN_PYTHON = "is computed by Python code, not by calls of BNNS"
_ENTRIES = {"in": "const void *", "in_stride": "const size_t", "in_delta_stride": "const size_t"}


class Tracer:
    """The steps of source code for the calls of a program; ``batch`` is that of the network."""

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

    def _call(self, call: WrittenCall, cache: str) -> BNNSCall:
        writes = {id(array) for array in call.writes}
        arguments = [
            (name, self._batch(value) if name == "batch_size" else self._value(name, value, writes, cache))
            for name, value in call.arguments
        ]
        for array in call.writes:
            self.places.find(array, written=True)
        return BNNSCall(self.note, call.function, arguments)

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

    def _reading(self, array: Array) -> BufferPlace:
        return self.places.find(array)

    def _batch(self, samples: int) -> int | Batch:
        """A number of samples, as a multiple of the network's batch where it is one."""
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
