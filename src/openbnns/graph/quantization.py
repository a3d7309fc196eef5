"""Graphs for inference on bytes: ranges of values from samples, and operations on bytes in place of those on float32."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from .calls import in_turn
from .operation import Operation
from .operations.activation import IDENTITY
from .operations.convolution import Convolution
from .operations.node import Node
from .operations.pooling import Pooling
from .operations.quantized import (
    UINT8,
    FromBytes,
    PoolingOfBytes,
    QuantizedConvolution,
    QuantizedLinear,
    QuantizedOperation,
    Scaling,
    SumOfBytes,
    ToBytes,
    is_largest,
    is_sum,
    weights_of,
)
from .program import Program
from .tensor import FLOAT32, Array, Tensor

_BINS = 2048  # of the histogram of a value
_CLIPPED = np.linspace(1.0, 0.4, 25)  # shares of the range that are tried
_LONGEST_SUM = 65536  # of products of bytes


def candidates(operations: Iterable[Operation]) -> list[Operation]:
    """The operations whose products can be those of bytes, in their order."""
    listed = []
    for operation in operations:
        given = weights_of(operation)
        if given is not None and 0 < given[0][0].size <= _LONGEST_SUM and operation.inputs[0].dtype == FLOAT32:
            listed.append(operation)
    return listed


class Ranges:
    """The ranges and histograms of a graph's values on samples."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._values = {v.storage for op in operations if _is_read(op) for v in (*op.inputs, *op.outputs)}
        self._values = {v for v in self._values if v.dtype == FLOAT32 and v.leaf is None}
        self._ends: dict[Tensor, tuple[float, float]] = {}
        self._counts: dict[Tensor, Array] = {}
        self._scalings: dict[Tensor, Scaling] = {}

    def collect(self, runs: Callable[[], Iterable[Program]]) -> None:
        """Run programs, each ready to run on some of the samples, twice."""
        for observe in (self._find_ends, self._count):
            for program in runs():
                self._run(program, observe)

    def _run(self, program: Program, observe: Callable[[Tensor, Array], None]) -> None:
        seen: set[Tensor] = set()

        def look(values: Sequence[Tensor]) -> None:
            for value in {v.storage for v in values} & self._values - seen:
                seen.add(value)
                observe(value, program.arrays([value])[0])

        program.graph.read_arrays()
        for operation, calls in program.forward_calls:
            look(operation.inputs)
            in_turn(calls)
            look(operation.outputs)

    def _find_ends(self, value: Tensor, numbers: Array) -> None:
        ends = float(numbers.min(initial=0)), float(numbers.max(initial=0))
        if not np.isfinite(ends).all():
            raise FloatingPointError("a value inside the network is not finite on these samples")
        low, high = self._ends.get(value, (0.0, 0.0))
        self._ends[value] = min(low, ends[0]), max(high, ends[1])

    def _count(self, value: Tensor, numbers: Array) -> None:
        counts, _ = np.histogram(numbers.astype(np.float64), bins=_BINS, range=self._ends[value])
        self._counts[value] = self._counts.get(value, 0) + counts

    def share(self, source: Tensor, result: Tensor) -> None:
        """Let a value share the scaling of the value whose elements it shows."""
        self._scalings[result] = self.scaling(source)

    def scaling(self, value: Tensor) -> Scaling:
        """The bytes for a value: with the least mean square error, of a few ranges."""
        known = self._scalings.get(value)
        if known is None:
            low, high = self._ends[value]
            middles = low + (high - low) * (np.arange(_BINS) + 0.5) / _BINS
            counts = self._counts[value]

            def error(share: float) -> float:
                tried = Scaling.of(share * low, share * high)
                return float(counts @ (tried.decode(tried.encode(middles)) - middles) ** 2)

            share = min(_CLIPPED, key=error) if counts.sum() else 1.0
            known = self._scalings[value] = Scaling.of(share * low, share * high)
        return known


def _is_read(operation: Operation) -> bool:
    return weights_of(operation) is not None or is_sum(operation) or is_largest(operation)


def quantized(
    operations: Sequence[Operation], outputs: Sequence[Tensor], chosen: Collection[Operation], ranges: Ranges
) -> list[Operation]:
    """The operations with those that are ``chosen``, of the candidates, on bytes.

    Sums and maximum poolings between them work on bytes as well. Values that both kinds of operations read
    are converted.
    """
    return _Rewriting(operations, outputs, chosen, ranges).operations


class _Rewriting:
    def __init__(
        self, operations: Sequence[Operation], outputs: Sequence[Tensor], chosen: Collection[Operation], ranges: Ranges
    ) -> None:
        self.operations: list[Operation] = []
        self._chosen, self._ranges = set(chosen), ranges
        self._readers: dict[Tensor, list[Operation | None]] = {v.storage: [None] for v in outputs}  # None: the caller
        for operation in operations:
            for value in operation.inputs:
                self._readers.setdefault(value.storage, []).append(operation)
        self._takers = self._find_takers(operations)
        self._bytes: dict[Tensor, Tensor] = {}  # values as bytes, by their storage
        self._floats: set[Tensor] = set()  # of these, those that are float32 as well
        for operation in operations:
            self._take(operation)
        for value in outputs:
            self._as_floats(value.storage)

    def _find_takers(self, operations: Sequence[Operation]) -> set[Operation]:
        """The operations that work on bytes: those between products only if all they read are bytes in any case."""
        takers: set[Operation] = set()
        made: set[Tensor] = set()
        for operation in operations:
            between = is_sum(operation) or is_largest(operation)
            if operation in self._chosen or (between and all(v.storage in made for v in operation.inputs)):
                takers.add(operation)
                made.update(operation.outputs)
        return takers

    def _take(self, operation: Operation) -> None:
        if operation not in self._takers:
            for value in operation.inputs:
                self._as_floats(value.storage)
            self.operations.append(operation)
            return
        read = operation.inputs[: 2 if is_sum(operation) else 1]
        given, scalings = [self._as_bytes(v) for v in read], [self._ranges.scaling(v.storage) for v in read]
        y = operation.output
        if operation in self._chosen and not all(reader in self._takers for reader in self._readers.get(y, [None])):
            self._append(self._product(operation, given[0], scalings[0], y, None), operation)
            return
        stored = self._bytes[y] = Tensor(y.graph, y.shape, UINT8)
        if isinstance(operation, Pooling):
            self._ranges.share(read[0].storage, y)
            self._append(PoolingOfBytes(given[0], stored, operation), operation)
        elif isinstance(operation, Node):
            both = scalings[0], scalings[1]
            self._append(SumOfBytes(given[0], given[1], both, stored, self._ranges.scaling(y)), operation)
        else:
            result = self._ranges.scaling(y)
            self._append(self._product(operation, given[0], scalings[0], stored, result), operation)

    def _product(
        self, operation: Operation, x: Tensor, scaling: Scaling, y: Tensor, result: Scaling | None
    ) -> QuantizedOperation:
        given = weights_of(operation)
        assert given is not None
        described = (x, scaling, y, result, *given, getattr(operation, "activation", IDENTITY))
        if isinstance(operation, Convolution):
            return QuantizedConvolution(*described, options=operation.options)
        return QuantizedLinear(*described)

    def _append(self, made: Operation, instead: Operation) -> None:
        made.modules, made.functions = instead.modules, instead.functions
        for value in made.outputs:
            value.producer = made
        self.operations.append(made)

    def _as_bytes(self, value: Tensor) -> Tensor:
        storage = value.storage
        if storage not in self._bytes:
            made = ToBytes(storage, self._ranges.scaling(storage))
            self._bytes[storage] = made.output
            self._floats.add(storage)
            made.output.producer = made
            self.operations.append(made)
        stored = self._bytes[storage]
        return stored if value is storage else Tensor(value.graph, value.shape, source=stored)

    def _as_floats(self, storage: Tensor) -> None:
        if storage in self._bytes and storage not in self._floats:
            self._floats.add(storage)
            made = FromBytes(self._bytes[storage], self._ranges.scaling(storage), storage)
            storage.producer = made
            self.operations.append(made)
