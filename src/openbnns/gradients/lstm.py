"""LSTM layers, whose calls take structs and declare no tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import Problem
from ..layers.base import Layer
from ..layers.lstm import LSTMLayer
from ..layers.types import LearningPhase
from ._base import BATCH, Array, Subject, float32_numbers
from ._random import Random


class LstmSubject(Subject):
    """LSTMs: sequence, initial states and weights; the cotangent is that of outputs and final states.

    Every check has its own dropout mask, the same in both passes.
    """

    of_layer = True

    def __init__(self, layer: LSTMLayer) -> None:
        self.layer = layer
        self._seed = 0

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        self._seed += 1
        return self._with_states(random.standard_normal((4, BATCH, self.layer.input_size)), random)

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        x = np.asarray(inputs[0], np.float64)
        if len(inputs) != 1 or x.ndim != 3 or x.shape[2] != self.layer.input_size:
            raise Problem(f"gradcheck: pass one array (T, N, {self.layer.input_size}), the input of the LSTM.")
        return self._with_states(x, np.random.default_rng(0))

    def _with_states(self, x: Array, random: np.random.Generator) -> dict[str, Array]:
        shape = (self.layer.num_layers, self.layer.directions, x.shape[1], self.layer.hidden_size)
        states = {name: float32_numbers(random.standard_normal(shape)) for name in ("initial_hidden", "initial_cell")}
        return {"input": float32_numbers(x), **states}

    def parameters(self) -> dict[str, Array]:
        return {name: array.astype(np.float64) for name, array in self.layer.held_weights.items()}

    def forward(self, values: dict[str, Array]) -> Array:
        return self.layer.reference_outputs(values, self._seed)

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        x, h, c = (values[name].astype(np.float32) for name in ("input", "initial_hidden", "initial_cell"))
        cache = self.layer.apply(x, h, c, phase=LearningPhase.TRAINING, seed=self._seed).cache
        outputs = (*x.shape[:2], self.layer.directions, self.layer.hidden_size)
        dy, dh, dc = np.split(cotangent.astype(np.float32), np.cumsum([int(np.prod(outputs)), h.size]))
        gradients = self.layer.apply_backward(
            x, h, c, output_gradient=dy.reshape(outputs), final_hidden_gradient=dh.reshape(h.shape),
            final_cell_gradient=dc.reshape(h.shape), cache=cache,
        )  # fmt: skip
        return {name: np.asarray(g, np.float64) for name, g in gradients._asdict().items() if g is not None}


SUBJECT = LstmSubject


def random_layer(random: Random) -> Layer:
    (hidden, inputs), directions = random.sizes(1, 5), random.size(1, 2)
    return LSTMLayer(
        input_weights=random.numbers(4, directions, hidden, inputs),
        hidden_weights=random.numbers(4, 1, directions, hidden, hidden),
        bias=random.numbers(4, 1, directions, hidden),
    )
