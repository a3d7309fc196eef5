"""Multihead attention: all thirteen gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..abi.structs import BNNSMHAProjectionParameters
from ..errors import Problem
from ..filters._attention_shapes import field as attention_field
from ..filters.attention import MultiheadAttention
from ._base import BATCH, CALLER, Array, Subject, Tensor, checked_input, random_numbers


class AttentionSubject(Subject):
    """Multihead attention: gradients of the three inputs and of every parameter, with the cache of a forward call.

    Dropout is the one that the filter's next forward call would apply, the same for every evaluation.
    """

    inputs = ("query", "key", "value")

    def __init__(self, filter: MultiheadAttention) -> None:
        self.filter, self.draw_number = filter, filter.draws
        self._names = {name: attention_field(name) for name in filter.held}

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        shapes = zip(self.inputs, "qkv", strict=True)
        return {name: random_numbers(random, (BATCH, *self.filter.operands[key].shape)) for name, key in shapes}

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        if len(inputs) != 3:
            raise Problem(f"gradcheck: {len(inputs)} inputs are given, but attention takes query, key and value.")
        values = {
            name: checked_input(value, self.filter.operands[key].shape, name)
            for name, key, value in zip(self.inputs, "qkv", inputs, strict=True)
        }
        if len({len(value) for value in values.values()}) > 1:
            raise Problem(
                "gradcheck: query, key and value have different numbers of samples. Give each the same batch."
            )
        return values

    def parameters(self) -> dict[str, Array]:
        return {self._names[name]: held.read(np.float64) for name, held in self.filter.held.items()}

    def cancelled(self, name: str, gradients: dict[str, Array]) -> float:
        """A shift of all keys changes no softmax: without appended rows the gradient of their bias is 0."""
        return float(np.linalg.norm(gradients["key.weights"])) if name == "key.bias" else 0.0

    def forward(self, values: dict[str, Array]) -> Array:
        parameters = {name: values[shown] for name, shown in self._names.items()}
        return self.filter.forward64([values[name] for name in self.inputs], parameters, self.draw_number)

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, len(values["query"])
        tensors = {name: Tensor(f.operands[key], batch) for name, key in zip(self.inputs, "qkv", strict=True)}
        data = {name: tensor.fill(values[name]) for name, tensor in tensors.items()}
        y, dy = Tensor(f.operands["o"], batch), Tensor(f.operands["o"], batch)
        dy.fill(cotangent)
        gradients = {name: Tensor(f.operands[key], batch) for name, key in zip(self.inputs, "qkv", strict=True)}
        gradients |= {self._names[name]: Tensor(held, 1) for name, held in f.held.items()}
        deltas = {name: tensor.descriptor() for name, tensor in gradients.items()}
        cache = np.zeros(f.cache_bytes(batch), np.uint8)
        f.draws = self.draw_number
        inputs = {name: (data[name], 0) for name in self.inputs} | {"key_mask": (None, 0), "output": (y.memory, 0)}
        f.perform("apply_attention", CALLER, batch, inputs | {"backprop_cache": (cache, 0)})
        f.draws = self.draw_number
        structs = {
            name: BNNSMHAProjectionParameters(
                target_desc=deltas.get(name, dy.descriptor()),
                weights=deltas[f"{name}.weights"],
                bias=deltas.get(f"{name}.bias"),
            )
            for name in (*self.inputs, "output")
        }
        given = {f"{name}_param_delta": struct for name, struct in structs.items()} | {
            "key_attn_bias_delta": deltas.get("key_attn_bias"), "value_attn_bias_delta": deltas.get("value_attn_bias"),
            "output": None, "backprop_cache_size": cache.nbytes, "backprop_cache": cache,
        }  # fmt: skip
        f.perform("apply_backward_attention", CALLER, batch, inputs | {name: (v, 0) for name, v in given.items()})
        return {name: tensor.read() for name, tensor in gradients.items()}
