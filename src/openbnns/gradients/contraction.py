"""Matrix products, tensor contractions and Gram matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import Problem
from ..filters._contraction import Contraction
from ._base import BATCH, CALLER, Array, Subject, Tensor, checked_input, random_numbers


class ContractionSubject(Subject):
    """Matrix products, tensor contractions and Gram matrices, with one input, one and weights, or two."""

    def __init__(self, filter: Contraction) -> None:
        self.filter = filter
        self.operands = [filter.input] if filter.second is None else [filter.input, filter.second]
        self.inputs = ["input"] if filter.second is None else ["input_a", "input_b"]

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        return {
            name: random_numbers(random, (BATCH, *o.shape)) for name, o in zip(self.inputs, self.operands, strict=True)
        }

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        if len(inputs) != len(self.inputs):
            raise Problem(f"gradcheck: {len(inputs)} inputs are given, but the filter has {len(self.inputs)}.")
        return {
            name: checked_input(value, operand.shape, name)
            for name, value, operand in zip(self.inputs, inputs, self.operands, strict=True)
        }

    def parameters(self) -> dict[str, Array]:
        return {} if self.filter.weights is None else {"weights": self.filter.weights.read(np.float64)}

    def forward(self, values: dict[str, Array]) -> Array:
        tensors = [values[name] for name in self.inputs]
        if "weights" in values:
            tensors.append(values["weights"][None])
        return self.filter.reference_values(tensors)

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, len(cotangent)
        data = [Tensor(o, batch).fill(values[name]) for name, o in zip(self.inputs, self.operands, strict=True)]
        dy = Tensor(f.output, batch)
        dy.fill(cotangent)
        gradients = {name: Tensor(o, batch) for name, o in zip(self.inputs, self.operands, strict=True)}
        if f.weights is not None:
            gradients["weights"] = Tensor(f.weights, 1)
        deltas = {name: tensor.descriptor() for name, tensor in gradients.items()}
        arriving = dy.descriptor()
        if f.second is None:
            weights = deltas.get("weights")
            tensors = {"in": data[0], "in_delta": deltas["input"], "out_delta": arriving, "weights_delta": weights}
            call = "apply_backward"
        else:
            tensors = {"inA": data[0], "inA_delta": deltas["input_a"], "inB": data[1], "inB_delta": deltas["input_b"]}
            tensors["out_delta"], call = arriving, "apply_backward_two_input"
        f.perform(call, CALLER, batch, {name: (value, 0) for name, value in tensors.items()})
        return {name: tensor.read() for name, tensor in gradients.items()}
