"""A network as source code in any language: memory, filters, and calls of BNNS on both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...graph.tensor import Array

GROUPS = ("weights", "predict", "train", "scratch")
"""The groups of buffers; all but the weights lie one behind the other in memory that the code allocates."""


@dataclass(eq=False)
class Buffer:
    """Memory with a name. ``group`` says whose it is: ``weights`` are read from the file, ``argument`` is the caller's."""

    name: str
    group: str
    dtype: np.dtype[Any]
    count: int
    contents: Array | None = None  # of weights
    start: float = 0  # the steps between which it holds something
    end: float = 1 << 30
    offset: int = 0  # in bytes, in the memory of its group
    constant: bool = False  # an argument that is only read
    path: str = ""  # of a parameter or a buffer of the network

    @property
    def nbytes(self) -> int:
        return self.count * self.dtype.itemsize


@dataclass(frozen=True)
class BufferPlace:
    """Memory from one element of a buffer on."""

    buffer: Buffer
    offset: int = 0


@dataclass(frozen=True)
class Constant:
    """A name of the C interface, or several bits joined by ``|``."""

    names: tuple[str, ...]
    kind: str


@dataclass(frozen=True)
class Text:
    """A string."""

    text: str


@dataclass(frozen=True)
class StructValue:
    """A struct by the fields that are not zero."""

    type: str
    fields: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Address:
    """A pointer to a struct."""

    of: StructValue


@dataclass(frozen=True)
class Items:
    """A pointer to the first of several entries; ``type`` is that of an entry in C."""

    type: str
    entries: tuple[Any, ...]


@dataclass(frozen=True)
class Batch:
    """The number of samples of a call: a multiple of those in a batch of the network."""

    factor: int


@dataclass(frozen=True)
class FilterName:
    """A filter of the network."""

    name: str


@dataclass(frozen=True)
class CacheName:
    """Memory whose size BNNS tells; ``size`` stands for the size instead, ``address`` for the address of the size."""

    name: str
    size: bool = False
    address: bool = False


@dataclass
class Filter:
    """The creation of a filter."""

    name: str
    note: str  # what the user calls it
    function: str
    arguments: list[tuple[str, Any]]


@dataclass
class BNNSCall:
    """A call of BNNS with its arguments by their C names."""

    note: str
    function: str
    arguments: list[tuple[str, Any]]


@dataclass
class Cache:
    """The allocation of memory, once, of the size that ``query`` returns, or writes to its argument."""

    name: str
    query: BNNSCall
    returns: bool


@dataclass
class Copy:
    """Elements from one place to another. Strides count elements; a source of None stands for zeros."""

    note: str
    shape: tuple[int, ...]
    target: BufferPlace
    target_strides: tuple[int, ...]
    source: BufferPlace | None
    source_strides: tuple[int, ...]

    @property
    def dense(self) -> bool:
        """True if the last axis is contiguous on both sides."""
        return self.target_strides[-1] == 1 and (self.source is None or self.source_strides[-1] == 1)

    @property
    def loops(self) -> int:
        """Axes that take a loop."""
        return len(self.shape) - int(self.dense)


@dataclass
class Labels:
    """Rows of labels from class numbers: ``own`` for the class of the row, ``other`` for all others."""

    target: BufferPlace
    classes: BufferPlace
    rows: int
    width: int
    own: float
    other: float


@dataclass
class Heading:
    """A heading over the steps that follow."""

    text: str


Step = BNNSCall | Cache | Copy | Heading | Labels


@dataclass
class OptimizerStep:
    """A call of BNNSOptimizerStep. ``steps`` have been made already."""

    name: str  # of the struct with the settings
    function: Constant
    fields: StructValue
    counts: bool  # whether the settings have a time step
    epsilon: float | None  # of Adam, to be added to the corrected root
    steps: int
    parameters: list[BufferPlace]
    counts_of: list[int]
    gradients: list[BufferPlace]
    accumulators: list[BufferPlace]


@dataclass
class Program:
    """Steps of one function."""

    inputs: list[Buffer]
    outputs: list[Buffer]
    steps: list[Step] = field(default_factory=list)


@dataclass
class NetworkSource:
    """Everything that the source code of a network contains."""

    name: str
    description: list[str]
    batch: int
    filters: list[Filter]
    caches: list[str]
    buffers: list[Buffer]  # with offsets
    bytes: dict[str, int]  # by group
    predict: Program
    classes: tuple[str, ...] = ()  # what the outputs are called
    train: Program | None = None
    loss: BufferPlace | None = None
    targets: Buffer | None = None
    optimizers: list[OptimizerStep] = field(default_factory=list)

    def members(self, group: str) -> list[Buffer]:
        return [buffer for buffer in self.buffers if buffer.group == group]

    def place(self, buffer: Buffer) -> int:
        """The offset of a buffer in bytes: in the file of weights, or in memory."""
        before = () if buffer.group == "weights" else GROUPS[1 : GROUPS.index(buffer.group)]
        return sum(self.bytes[group] for group in before) + buffer.offset

    @property
    def memory(self) -> int:
        """Bytes for all buffers but the weights, at least 64."""
        return max(sum(self.bytes[group] for group in GROUPS[1:]), 64)
