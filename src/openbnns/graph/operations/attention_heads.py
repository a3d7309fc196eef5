"""Attention heads: means of values, weighted by how queries fit keys; and rotary position embeddings.

The formulas are in float64: P = softmax of the rows of scale Q Kᵀ + X, O = (P F) V, with F of dropout (None: 1).
Q (N, H, T, K), K (N, H, S, K), V (N, H, S, V), X (T, S) or (H, T, S), F (N, H, T, S). A row of X that is all -infinity
makes a row of NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ... import engines
from ...parameters.random_numbers import Stream
from ...reference.random_numbers import uniform
from ..calls import Calls, NumpyCall, PlanCall
from ..graph import Graph
from ..operation import Operation
from ..sizes import AnySize, bound, is_same, product
from ..tensor import Array, Tensor
from .moves import Permute, Split
from .random_numbers import draw_number

# AttentionHeadsSlot.
_Q, _K, _V, _O, _LSE, _ADDED, _DO, _DQ, _DK, _DV, _COUNTER, _DRAWN = range(12)
_SEED = 1


@dataclass(frozen=True)
class Part:
    """Rows of all heads inside the samples of a value: where they begin, and the steps from head to head and row to row."""

    value: Tensor
    heads: AnySize
    length: AnySize  # rows of a head
    width: AnySize
    first: AnySize
    head: AnySize
    row: AnySize

    def bound(self, sizes: Mapping[str, int]) -> BoundPart:
        """The part with numbers for its sizes."""
        numbers = bound((self.heads, self.length, self.width, self.first, self.head, self.row), sizes)
        part = BoundPart(math.prod(self.value.concrete(sizes)[1:]), *numbers)
        last = part.first + (part.heads - 1) * part.head + (part.length - 1) * part.row + part.width
        if min(numbers) < 0 or min(numbers[:3]) < 1 or last > part.sample:
            raise ValueError(f"attention: {part} is not inside the samples of a value {self.value.shape}.")
        return part


@dataclass(frozen=True)
class BoundPart:
    """The same in numbers; ``sample`` is the step from sample to sample."""

    sample: int
    heads: int
    length: int
    width: int
    first: int
    head: int
    row: int

    @property
    def steps(self) -> list[int]:
        return [self.sample, self.head, self.row]

    def address(self, array: Array) -> int:
        return int(array.ctypes.data) + 4 * self.first

    def view(self, array: Array) -> Array:
        """(samples, heads, length, width) on the memory of an array."""
        flat = array.reshape(-1)[self.first :]
        samples = array.size // self.sample
        steps = [array.itemsize * step for step in (*self.steps, 1)]
        return as_strided(flat, (samples, self.heads, self.length, self.width), steps)


def part_of(value: Tensor) -> Part:
    """The heads of (samples, ..., length, width). Of those that are permuted, they are read where they come from."""
    length, width = value.shape[-2:]
    heads = product(value.shape[1:-2])
    producer = value.producer
    if isinstance(producer, Permute) and producer.order == (0, 2, 1, 3):
        return Part(producer.inputs[0], heads, length, width, 0, width, heads * width)
    return Part(value, heads, length, width, 0, width if is_same(heads, 1) else length * width, width)


def parts_of(values: Sequence[Tensor]) -> list[Part]:
    """The heads of query, key and value. The three parts of a tensor along its features are read where they come from."""
    parts = [part_of(value) for value in values]
    owners = [part.value.storage for part in parts]
    split = owners[0].producer
    if not isinstance(split, Split) or len(split.outputs) != 3 or split.axis != 2:
        return parts
    whole = split.inputs[0]
    if {id(owner) for owner in owners} != {id(output) for output in split.outputs}:
        return parts
    row = product(whole.shape[2:])
    inner = product(whole.shape[3:])
    for part, owner in zip(parts, owners, strict=True):
        by_position = is_same(part.head, part.width) and is_same(part.length, whole.shape[1])
        if (
            not by_position
            or not is_same(part.value.shape[0], whole.shape[0])
            or not is_same(part.value.count, owner.count)
        ):
            return parts
    starts = dict(zip(map(id, split.outputs), np.cumsum([0, *split.sizes]).tolist(), strict=False))
    return [
        Part(whole, p.heads, p.length, p.width, starts[id(owner)] * inner, p.head, row)
        for p, owner in zip(parts, owners, strict=True)
    ]


class AttentionHeads(Operation):
    """softmax(scale q kᵀ + mask) v of every head -> rows of v's width, in the order of q; and a number for each row.

    ``added`` is a mask for all samples, (T, S) or (heads, T, S): numbers to add to the scores, or true where a score does
    not count. ``causal`` lets positions see those up to their own. What is masked behind the last score that counts in a
    row is not computed. Dropout of the weights acts in training.
    """

    keeps_output = True

    def __init__(
        self, graph: Graph, parts: Sequence[Part], scale: float, added: Array | None, causal: bool, dropout: float
    ) -> None:
        self.parts, self.scale, self.added, self.causal, self.dropout = list(parts), scale, added, causal, dropout
        q, _, v = self.parts
        self.random = dropout > 0
        self.counter = np.zeros(1, np.int64)  # the number of the next draw
        if self.random:
            self.counter[0] = graph.generator.randint(2**31)
        shared = len({id(part.value) for part in parts}) == 1 and len({part.first for part in parts}) == 3
        self.by_position = is_same(q.head, q.width) and not is_same(q.row, q.width)  # (T, heads, V), else (heads, T, V)
        sample = (q.length, q.heads, v.width) if self.by_position else (q.heads, q.length, v.width)
        samples = q.value.shape[0]
        output = Tensor(graph, (samples, *sample))
        steps = (v.width, q.heads * v.width) if self.by_position else (q.length * v.width, v.width)
        self.result = Part(output, q.heads, q.length, v.width, 0, *steps)
        inputs = [q.value] if shared else [part.value for part in parts]
        super().__init__(inputs, [output, Tensor(graph, (samples, q.heads, q.length))])

    def prepare(self) -> None:
        self.rounds = engines.arithmetic().precision == engines.BFLOAT16  # operands of products

    def reseed(self, seed: int, step: int, index: int) -> None:
        self.counter[0] = draw_number(seed, step, index)

    def _plan(self, parts: Mapping[int, BoundPart]) -> Any:
        q, k, v, o = (parts[slot] for slot in (_Q, _K, _V, _O))
        return self.made(
            (q, k, v),
            lambda: engines._core.attention_heads(
                target=q.length, source=k.length, key=q.width, value=v.width, heads=q.heads, scale=self.scale,
                causal=self.causal, dropout=self.dropout, seed=_SEED, q_steps=q.steps, k_steps=k.steps, v_steps=v.steps,
                o_steps=o.steps, bfloat16=self.rounds,
            ),
        )  # fmt: skip

    def _parts(self) -> dict[int, BoundPart]:
        """The parts in the arrays of the program being made, by slot."""
        q, k, v, o = (part.bound(self.bound_sizes) for part in (*self.parts, self.result))
        mask = None if self.added is None else self.added.shape
        fits = q.heads == k.heads == v.heads and q.width == k.width and k.length == v.length
        if not fits or (mask is not None and mask not in ((q.length, k.length), (q.heads, q.length, k.length))):
            raise ValueError(f"attention: heads of {q}, {k} and {v} with a mask {mask} do not fit together.")
        return {_Q: q, _K: k, _V: v, _O: o, _DQ: q, _DK: k, _DV: v, _DO: o}

    def _each(self, arrays: Sequence[Any]) -> list[Any]:
        """One entry for each of query, key and value."""
        return list(arrays) * (3 // len(arrays))

    def forward_all(self, x: list[Array], y: list[Array], training: bool) -> Calls:
        self._drawn = np.zeros(1, np.int64)  # belongs to the program being made, whose backward pass comes next
        return PlanCall(self._run, False, self._parts(), self._tensors(x, y), training)

    def backward_all(
        self, x: list[Array], y: list[Array], dy: list[Array | None], dx: list[Array | None], dp: list[Array | None]
    ) -> Calls:
        tensors = self._tensors(x, y) | {_DO: dy[0]}
        tensors |= {
            slot: array for slot, array in zip((_DQ, _DK, _DV), self._each(dx), strict=True) if array is not None
        }
        return PlanCall(self._run, True, self._parts(), tensors, True)

    def _tensors(self, x: list[Array], y: list[Array]) -> dict[int, Any]:
        tensors = dict(zip((_Q, _K, _V), self._each(x), strict=True)) | {_O: y[0], _LSE: y[1]}
        if self.added is not None:
            tensors[_ADDED] = self.added
        if self.random:
            tensors |= {_COUNTER: self.counter, _DRAWN: self._drawn}
        return tensors

    def _run(self, backward: bool, parts: dict[int, BoundPart], tensors: dict[int, Array], training: bool) -> None:
        if not engines.is_native():
            self._run_formulas(
                backward, {s: parts[s].view(a) for s, a in tensors.items() if s in parts}, tensors, training
            )
            return
        places = [
            (slot, parts[slot].address(array) if slot in parts else int(array.ctypes.data), 0)
            for slot, array in tensors.items()
        ]
        boolean, head_stride = 0, 0
        if self.added is not None:
            boolean = int(self.added.dtype == np.bool_)
            head_stride = self.added[0].size if self.added.ndim == 3 else 0
        batch = tensors[_LSE].size // (parts[_Q].heads * parts[_Q].length)
        engines._core.run(
            self._plan(parts), backward, batch, places, training=training, extra=[boolean, head_stride], repeatable=True
        )

    def _run_formulas(self, backward: bool, views: dict[int, Array], tensors: dict[int, Array], training: bool) -> None:
        q, k, v = (views[slot].astype(np.float64) for slot in (_Q, _K, _V))
        shape = (*q.shape[:-1], k.shape[-2])
        factor = None
        if self.random and training:
            if not backward:
                tensors[_DRAWN][0] = self.counter[0]
                self.counter += 1
            numbers = uniform(Stream(_SEED, int(tensors[_DRAWN][0])), int(np.prod(shape)))
            factor = (numbers >= np.float32(self.dropout)).reshape(shape) / (1 - float(np.float32(self.dropout)))
        added = np.zeros(shape[-2:])
        if self.added is not None:
            added = (
                np.where(self.added, -np.inf, 0.0) if self.added.dtype == np.bool_ else self.added.astype(np.float64)
            )
        if self.causal:
            added = added + np.where(np.triu(np.ones(shape[-2:]), 1), -np.inf, 0.0)
        if not backward:
            views[_O][...], _, lse = attend(q, k, v, self.scale, added, factor)
            tensors[_LSE][...] = lse.reshape(tensors[_LSE].shape)
            return
        gradients = attend_backward(q, k, v, self.scale, added, factor, views[_DO].astype(np.float64))
        for slot, gradient in zip((_DQ, _DK, _DV), gradients, strict=True):
            if slot in views:
                views[slot][...] = gradient


@np.errstate(all="ignore")
def attend(
    q: Array, k: Array, v: Array, scale: float, added: Array, factor: Array | None
) -> tuple[Array, Array, Array]:
    """O, P, and the logarithm of the sum of exponentials of every row."""
    scores = q @ k.swapaxes(-1, -2) * scale + added
    largest = scores.max(-1, keepdims=True)
    exponentials = np.exp(scores - np.where(np.isneginf(largest), 0, largest))
    total = exponentials.sum(-1, keepdims=True)
    p = exponentials / total
    return (p if factor is None else p * factor) @ v, p, (largest + np.log(total))[..., 0]


@np.errstate(all="ignore")
def attend_backward(
    q: Array, k: Array, v: Array, scale: float, added: Array, factor: Array | None, do: Array
) -> tuple[Array, Array, Array]:
    """Gradients of Q, K and V: dV = (P F)ᵀ dO, dP = F (dO Vᵀ), dS = P (dP - Σ dP P) scale, dQ = dS K, dK = dSᵀ Q."""
    p = attend(q, k, v, scale, added, factor)[1]
    f = 1.0 if factor is None else factor
    dv = (p * f).swapaxes(-1, -2) @ do
    dp = do @ v.swapaxes(-1, -2) * f
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale
    return ds @ k, ds.swapaxes(-1, -2) @ q, dv


class Rotate(Operation):
    """Rotation of pairs of the first 2 p features of (..., T, D) by angles (T, p); the other features stay as they are.

    Pairs are (i, i + p), or with ``interleaved`` (2 i, 2 i + 1). The gradient is turned back by the same angles.
    """

    keeps_inputs = False

    def __init__(self, x: Tensor, angles: Array, interleaved: bool) -> None:
        pairs = angles.shape[1]
        cosine, sine = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        self.whole, self.sine = 2 * pairs, sine
        if interleaved:
            self.cosine, self.halves = np.repeat(cosine, 2, 1), (slice(0, self.whole, 2), slice(1, self.whole, 2))
        else:
            self.cosine, self.halves = np.tile(cosine, 2), (slice(0, pairs), slice(pairs, self.whole))
        super().__init__([x], Tensor(x.graph, x.shape))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return self._turning(x[0], y, self.sine)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        assert dx[0] is not None
        return self._turning(dy, dx[0], -self.sine)

    def _turning(self, x: Array, y: Array, sine: Array) -> Calls:
        a, b = (x[..., half] for half in self.halves)
        to_a, to_b = (y[..., half] for half in self.halves)
        turned, rest = slice(0, self.whole), slice(self.whole, None)
        part = np.empty(a.shape, x.dtype)

        def call() -> None:
            np.multiply(x[..., turned], self.cosine, out=y[..., turned])
            np.multiply(b, sine, out=part)
            np.subtract(to_a, part, out=to_a)
            np.multiply(a, sine, out=part)
            np.add(to_b, part, out=to_b)
            np.copyto(y[..., rest], x[..., rest])

        return NumpyCall(call)
