"""The tensors of an LSTM: their places in the struct, their shapes, and how missing sizes are filled in.

Memory has a fixed order whatever the layout: input [T][N][I], output [T][N][R][H], states [L][R][N][H], weights
[L][R][H][in], bias [L][R][H]. A descriptor may join neighbouring axes, and leave sizes (or everything but data and its
type) at 0. One layout is an exception: NSE has the batch first, [N][T][...].
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._words import Caller, Named
from ..abi.enums import BNNSDataLayout
from ..abi.structs import BNNSNDArrayDescriptor
from ..errors import Problem
from ..tensors import descriptors, staging
from ..tensors.descriptors import View, describe
from ..tensors.operands import Bound, bind

GATES = ("input_gate", "forget_gate", "candidate_gate", "output_gate")
_SIDES = ("data_desc", "hidden_desc", "cell_state_desc")
_GATE_TENSORS = ("iw_desc[0]", "iw_desc[1]", "hw_desc", "cw_desc", "b_desc")

# In the order of LstmTensor in core/kernels/lstm/shape.h.
NAMES: tuple[str, ...] = (
    *(f"input_descriptor.{side}" for side in _SIDES),
    *(f"output_descriptor.{side}" for side in _SIDES),
    *(f"{gate}.{tensor}" for gate in GATES for tensor in _GATE_TENSORS),
)
X, H0, C0, Y, HN, CN, FIRST_GATE = range(7)
W0, W1, U, P, B = range(5)

_NSE = int(BNNSDataLayout.BNNSDataLayoutNSE)


def gate_tensor(gate: int, tensor: int) -> int:
    """Number of a gate's tensor."""
    return FIRST_GATE + gate * len(_GATE_TENSORS) + tensor


def descriptors_of(p: Any) -> list[BNNSNDArrayDescriptor]:
    """The descriptors of a BNNSLayerParametersLSTM in the order of NAMES."""
    descriptors = []
    for side in (p.input_descriptor, p.output_descriptor):
        descriptors += [side.data_desc, side.hidden_desc, side.cell_state_desc]
    for name in GATES:
        gate = getattr(p, name)
        descriptors += [gate.iw_desc[0], gate.iw_desc[1], gate.hw_desc, gate.cw_desc, gate.b_desc]
    return descriptors


@dataclass(frozen=True)
class Sizes:
    """T, N, I, H, L, R."""

    steps: int
    batch: int
    inputs: int
    hidden: int
    layers: int
    directions: int

    def numbers(self) -> tuple[int, ...]:
        return self.steps, self.batch, self.inputs, self.hidden, self.layers, self.directions

    def shapes(self, first_layers: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The shape of every tensor; (0, ...) where there is none."""
        t, n, i, h, layers, r = self.numbers()
        states = (layers, r, n, h)
        shapes: list[tuple[int, ...]] = [(t, n, i), states, states, (t, n, r, h), states, states]
        for first in first_layers:
            shapes += [(first, r, h, i), (layers - first, r, h, r * h)]
            shapes += [(layers, r, h, h), (layers, r, h, h), (layers, r, h)]
        return shapes


@dataclass(frozen=True)
class LSTMTensor:
    """One tensor as described: ``order`` lists the axes of size[] so that memory has the order of ``shape``."""

    view: View
    order: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def plain(self) -> bool:
        """Packed float32 in the order of ``shape``: kernels use the memory as it is."""
        return self.view.canonical and self.order == self.view.memory_axes

    def bind(self, who: Named, data: Any, *, output: bool = False, flags: int = 0) -> Bound:
        return bind(self.view, self.order, self.shape, who, data, 1, 0, output=output, flags=flags)


def direct(bound: Bound) -> NDArray[Any] | None:
    """The memory of an output in its shape, if kernels may write it as it is."""
    array = staging.direct(bound.view, bound.buffer, 1, bound.stride, bound.order)
    return None if array is None else array[0].reshape(bound.shape)


def read(bound: Bound, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    return np.ascontiguousarray(bound.read(dtype)[0])


def resolve(descriptor: Any, shape: tuple[int, ...], who: str) -> LSTMTensor:
    """The tensor of this shape that a descriptor describes, with the sizes that it leaves out filled in."""
    code = int(descriptor.layout)
    if code == 0 and not any(descriptor.size) and not any(descriptor.stride):
        code = int(BNNSDataLayout[f"BNNSDataLayout{len(shape)}DFirstMajor"])
    if code not in descriptors.LAYOUTS:
        descriptors.resolve(descriptor, who)  # raises the problem
    layout = descriptors.layout_of(code)
    if layout.flipped or layout.blocked32 or layout.opaque:
        raise Problem(f"{who}.layout is {layout.name}, which is for other layers. Use one such as 4DFirstMajor.")
    axes = layout.stepped[::-1]
    batch_first = code == _NSE and len(shape) >= 3 and not who.endswith(("hidden_desc", "cell_state_desc"))
    wanted = (shape[1], shape[0], *shape[2:]) if batch_first else shape
    size = list(descriptor.size)
    given = [size[axis] for axis in axes]
    filled = _fill(given, wanted)
    if filled is None:
        best = _arranged(axes, next(_joined(wanted, len(axes)), wanted))
        raise Problem(
            f"{who} is {layout.name} size {tuple(size[: layout.rank])}, but the sizes of the LSTM make it {list(wanted)} in "
            f"the order of memory. Set size to {best}, or leave its entries at 0."
        )
    for axis, n in zip(axes, filled, strict=True):
        size[axis] = n
    view = descriptors.resolve(_with(descriptor, code, size), who)
    order = (1, 2, 0) if batch_first else view.memory_axes
    return LSTMTensor(view, order, shape)


def _fill(given: list[int], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The sizes, in the order of memory, that agree with those given; 0 agrees with anything."""
    for candidate in _joined(shape, len(given)):
        if all(g in (0, n) for g, n in zip(given, candidate, strict=True)):
            return candidate
    return None


def _joined(shape: tuple[int, ...], rank: int) -> Iterator[tuple[int, ...]]:
    """Every way to write the shape with ``rank`` axes: neighbours joined, or axes of size 1 prepended."""
    shape = (1,) * (rank - len(shape)) + shape
    for cuts in itertools.combinations(range(1, len(shape)), rank - 1):
        edges = (0, *cuts, len(shape))
        yield tuple(math.prod(shape[a:b]) for a, b in itertools.pairwise(edges))


def _arranged(axes: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes in the order of memory as size[] has them."""
    return tuple(n for _, n in sorted(zip(axes, sizes, strict=False)))


def _with(d: Any, layout: int, size: list[int]) -> BNNSNDArrayDescriptor:
    return BNNSNDArrayDescriptor(
        flags=d.flags, layout=layout, size=size, stride=list(d.stride), data=d.data, data_type=d.data_type,
        table_data=d.table_data, table_data_type=d.table_data_type, data_scale=d.data_scale, data_bias=d.data_bias,
    )  # fmt: skip


def read_batch_sizes(descriptor: Any, steps: int, batch: int, caller: Caller, field: str) -> tuple[int, ...] | None:
    """The number of samples of every step, or ``None`` if every step has all samples."""
    if descriptor.data is None:
        return None
    who = caller(field)
    view = descriptors.resolve(descriptor, who)
    if not view.element.is_integer:
        raise Problem(
            f"{who}.data_type is {view.element.name}, but batch sizes are integers. Use BNNSDataTypeInt32.",
            kind=TypeError,
        )
    if view.count != steps:
        raise Problem(
            f"{who} is {describe(view)}, but it lists the batch size of each of the {steps} steps ({caller.name('seq_len')})."
        )
    bound = bind(view, view.memory_axes, view.shape, who.field("data"), descriptor.data, 1, 0)
    sizes = [int(n) for n in bound.read_integers().reshape(-1)]
    for t, n in enumerate(sizes):
        if not 0 <= n <= batch:
            raise Problem(
                f"{who} gives step {t} a batch of {n}, but {caller.name('batch_size')} is {batch}. Use 0 to {batch}."
            )
    return tuple(sizes)


def absent(p: Any) -> set[int]:
    """Peepholes and biases that the LSTM does not have."""
    tensors = descriptors_of(p)
    optional = (gate_tensor(gate, tensor) for gate in range(len(GATES)) for tensor in (P, B))
    return {index for index in optional if tensors[index].data is None}


def is_empty(data: Any) -> bool:
    try:
        return memoryview(data).nbytes == 0
    except (TypeError, ValueError):  # an address, or no plain buffer
        return False


def leave_out_unused(results: dict[int, Bound], missing: set[int], sources: list[Bound]) -> None:
    """Drop gradients of missing parameters whose memory also belongs to another tensor of the call.

    Callers without peepholes or biases point the descriptors of these gradients to any memory at hand, the same for all.
    Such a gradient is of no use, and writing it would overwrite the other tensor. In separate memory it is computed.
    """
    shared = [
        index
        for index in missing & results.keys()
        if any(results[index].overlaps(b) for b in (*sources, *(r for i, r in results.items() if i != index)))
    ]
    for index in shared:
        del results[index]
