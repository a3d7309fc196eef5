"""Fused chains in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import Problem
from ..filters.arithmetic import Arithmetic
from ..filters.fused import Fused
from ..reference import fused as reference_fused
from ..reference import normalization as reference_normalization
from ._base import BATCH, CALLER, Array, Subject, Tensor, checked_input, random_numbers
from .arithmetic import ArithmeticSubject


class FusedSubject(Subject):
    """Fused chains in training: statistics of the batch, so that samples depend on each other."""

    floor = 1e-3

    def __init__(self, filter: Fused) -> None:
        if filter.normalization is None:
            raise Problem("gradcheck: a chain that ends in a quantization has no gradient.")
        self.filter, self.norm = filter, filter.normalization
        count = len(filter.inputs)
        self.inputs = ["input"] if count == 1 else [f"input_{'abc'[i]}" for i in range(count)]
        self.first = ArithmeticSubject(filter.first) if isinstance(filter.first, Arithmetic) else None

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        if self.first is not None:
            return self.first.draw(random)
        return {"input": random_numbers(random, (BATCH, *self.filter.inputs[0].shape))}

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        if self.first is not None:
            return self.first.given(inputs)
        if len(inputs) != 1:
            raise Problem(f"gradcheck: {len(inputs)} inputs are given, but the first layer has one.")
        return {"input": checked_input(inputs[0], self.filter.inputs[0].shape, "input")}

    def parameters(self) -> dict[str, Array]:
        return {name: p.read(np.float64) for name, p in self.filter.slots.items() if p is not None}

    def _batch(self, values: dict[str, Array]) -> int:
        return max(len(values[name]) for name in self.inputs)

    def forward(self, values: dict[str, Array]) -> Array:
        first, batch = self.filter.reference_first(), self._batch(values)
        if not isinstance(first, reference_fused.Arithmetic):
            first = replace(first, weights=values["weights"], bias=values.get("bias"))
        h = reference_fused.first_forward(first, [values[name] for name in self.inputs], batch)
        return reference_normalization.training_forward(
            self.norm.settings, h.reshape(batch, *self.norm.input.shape), self._affine(values, "beta"),
            self._affine(values, "gamma"), self.norm.activation,
        )[0]  # fmt: skip

    def _affine(self, values: dict[str, Array], name: str) -> Array | None:
        return self.norm.as_reference(values[name]) if name in values else None

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, self._batch(values)
        operands = [Tensor(o, len(values[name])) for name, o in zip(self.inputs, f.inputs, strict=True)]
        data = [tensor.fill(values[name]) for name, tensor in zip(self.inputs, operands, strict=True)]
        y, dy = Tensor(f.output, batch), Tensor(f.output, batch)
        dy.fill(cotangent)
        constant = [role == 0 for role in f.first.roles] if isinstance(f.first, Arithmetic) else [False]
        gradients = {
            name: Tensor(o, tensor.batch)
            for name, o, tensor, skipped in zip(self.inputs, f.inputs, operands, constant, strict=True)
            if not skipped
        }
        gradients |= {name: Tensor(p, 1) for name, p in f.slots.items() if p is not None}
        deltas = {name: tensor.descriptor() for name, tensor in gradients.items()}
        slots, of_inputs = [deltas.get(name) for name in f.slots], [deltas.get(name) for name in self.inputs]
        forward: dict[str, tuple[Any, Any]] = {"in": (data, None), "out": (y.memory, 0)}
        backward = forward | {"in_delta": (of_inputs, None), "out_delta": (dy.descriptor(), 0)}
        backward["delta_parameters"] = (slots, None)
        calls: tuple[tuple[str, Any], tuple[str, Any]] = ("apply_fused", True), ("apply_backward_fused", None)
        if self.first is not None:
            calls = ("apply_fused_multi_input", (len(data), True)), ("apply_backward_fused_multi_input", len(data))
        else:
            forward["in"] = backward["in"] = (data[0], 0)
            backward["in_delta"] = (of_inputs[0], 0)
        with self.norm.moving_kept():
            f.perform(calls[0][0], CALLER, batch, forward, calls[0][1])
        f.perform(calls[1][0], CALLER, batch, backward, calls[1][1])
        return {name: tensor.read() for name, tensor in gradients.items()}
