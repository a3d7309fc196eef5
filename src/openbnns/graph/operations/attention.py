"""Multihead attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import LearningPhase, MultiheadAttentionLayer
from ..calls import Call, Calls, NumpyCall, PlanCall
from ..graph import Graph
from ..operation import Operation
from ..parameter import Parameter
from ..sizes import is_same
from ..tensor import FLOAT32, Array, Tensor
from .base import IN_PLACE, wanted
from .random_numbers import draw_number


class Attention(Operation):
    """query (T, D), key and value (S, D) -> (T, D). ``weights`` are those of MultiheadAttentionLayer, by name.

    Several of them may lie in one parameter, as PyTorch's three input projections do: ``pieces`` gives for every
    parameter the names of its equal parts along the first axis. ``key_mask`` (S,) holds integers, other than 0 for keys
    to ignore. ``added`` are masks of scores, (T, S), (H, T, S) or with a batch axis; integers other than 0 forbid, floats
    are constants to add.
    """

    def __init__(
        self, graph: Graph, inputs: list[Tensor], heads: int, pieces: list[tuple[Parameter, tuple[str, ...]]],
        dropout: float, causal: bool, *, add_zero_attn: bool = False, key_mask: Tensor | None = None,
        added: Sequence[Tensor] = (),
    ) -> None:  # fmt: skip
        self.heads, self.pieces, self.dropout, self.causal = heads, pieces, dropout, causal
        self.add_zero_attn, self.key_mask, self.added = add_zero_attn, key_mask, list(added)
        self.random = dropout > 0
        query = inputs[0]
        unique = list({id(v): v for v in inputs}.values())
        self.places = [next(i for i, known in enumerate(unique) if known is v) for v in inputs]
        self.source = inputs[1].shape[1]
        masks = [*([] if key_mask is None else [key_mask]), *self.added]
        super().__init__([*unique, *masks], Tensor(graph, query.shape), [parameter for parameter, _ in pieces])

    layer: Any

    def prepare(self) -> None:
        given: dict[str, Array] = {}
        for parameter, names in self.pieces:
            given |= _parts(parameter.array, names)
        self.layer = MultiheadAttentionLayer(
            int(self.output.shape[-1]),
            self.heads,
            dropout=self.dropout,
            bias="query_bias" in given,
            add_bias_kv="key_attention_bias" in given,
            add_zero_attn=self.add_zero_attn,
            seed=1,
            parameters=given,
            filter_parameters=IN_PLACE,
        )

    def reseed(self, seed: int, step: int, index: int) -> None:
        self.layer.draws = draw_number(seed, step, index)

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        query, key, value = (x[place] for place in self.places)
        phase = LearningPhase.TRAINING if training else LearningPhase.INFERENCE
        masks = x[len(x) - len(self.added) - (self.key_mask is not None) :]
        ignored = None
        if self.key_mask is not None:
            ignored = np.empty(key.shape[:2], np.bool_)
            number, masks = masks[0], masks[1:]
        score_mask = self._score_mask(masks, (len(query), self.heads, query.shape[1], key.shape[1]))
        run: Any = PlanCall(
            self.layer.apply, query, key, value, y, key_padding_mask=ignored, attn_mask=score_mask.array,
            is_causal=self.causal, phase=phase,
        )  # fmt: skip
        if training:
            cache = np.empty(self.layer.cache_bytes(query.shape[1], key.shape[1], len(y)) // 4, np.float32)
            # Belongs to the program being made, whose backward pass comes next.
            self._latest = LatestAttention(self.layer)
            run = PlanCall(self._latest.forward, PlanCall(run, cache=cache))
        if ignored is None and score_mask.fixed:
            return run  # type: ignore[no-any-return]

        def prepare() -> None:
            if ignored is not None:
                np.not_equal(number, 0, out=ignored)
            score_mask.refresh()

        return [NumpyCall(prepare), run]

    def _score_mask(self, masks: list[Array], scores: tuple[int, ...]) -> _ScoreMask:
        shaped = []
        for value, array in zip(self.added, masks, strict=True):
            if value.ndim == 3 and is_same(value.shape[0], self.heads * self.output.shape[0]) and self.heads > 1:
                array = array.reshape(scores)  # as PyTorch has it
            elif value.ndim == 3 and is_same(value.shape[0], self.output.shape[0]):
                array = array[:, None]
            shaped.append((array, isinstance(value.storage.leaf, np.ndarray)))
        return _ScoreMask(shaped, self.heads)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        gradients: dict[str, Array] = {}
        for (_, names), gradient in zip(self.pieces, dp, strict=True):
            if gradient is not None:
                gradients |= _parts(gradient, names)
        targets = [wanted(dx[place]) for place in self.places]
        for i in (1, 2):  # None: what is read again has its gradient summed into that of the place before
            if self.places[i] == self.places[i - 1] and dx[self.places[i]] is not None:
                targets[i] = None
        return PlanCall(self._latest.backward, PlanCall(self.layer.apply_backward, dy, *targets, gradients))


class LatestAttention:
    """The latest training forward of one program, where several use the layer."""

    def __init__(self, layer: Any) -> None:
        self._layer, self._call = layer, None

    def forward(self, run: Call) -> None:
        run()
        self._call = self._layer.latest

    def backward(self, run: Call) -> None:
        self._layer.latest = self._call
        run()


class _ScoreMask:
    """All masks of scores as one array for the layer: true where a target may not look, or numbers to add."""

    def __init__(self, parts: list[tuple[Array, bool]], heads: int) -> None:
        self._parts = [array for array, _ in parts]
        flags = all(array.dtype != FLOAT32 for array in self._parts)
        self.array: Array | None = None
        self.fixed = all(constant and array.dtype != FLOAT32 for array, constant in parts)
        if not parts:
            return
        if len(parts) == 1 and parts[0][1] and not flags:  # a constant, or a buffer, is read where it lies
            self.array, self.fixed = self._parts[0], True
            return
        shape = np.broadcast_shapes(*(array.shape for array in self._parts))
        if len(shape) > 2:
            shape = (*shape[:-3], heads, *shape[-2:])
        self.array = np.empty(shape, np.bool_ if flags else np.float32)
        if self.fixed:
            self._fill(self.array)

    def refresh(self) -> None:
        if not self.fixed and self.array is not None:
            self._fill(self.array)

    def _fill(self, result: Array) -> None:
        result.fill(0)
        for part in self._parts:
            if part.dtype == FLOAT32:
                np.add(result, part, out=result)
            else:
                np.copyto(result, True if result.dtype == np.bool_ else -np.inf, where=part != 0)


class Forbidden(Operation):
    """Integers -> 0 where they are 0, and minus infinity elsewhere: a mask to be added to scores."""

    keeps_inputs = False

    def __init__(self, x: Tensor) -> None:
        super().__init__([x], Tensor(x.graph, x.shape, FLOAT32))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        def call() -> None:
            y.fill(0)
            np.copyto(y, -np.inf, where=x[0] != 0)

        return NumpyCall(call)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        return []  # integers have no gradient


def _parts(array: Array, names: tuple[str, ...]) -> dict[str, Array]:
    rows = len(array) // len(names)
    parts = {name: array[i * rows : (i + 1) * rows] for i, name in enumerate(names)}
    return {name: part.reshape(-1) if name.endswith("_bias") else part for name, part in parts.items()}
