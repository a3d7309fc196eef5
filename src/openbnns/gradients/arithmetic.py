"""Arithmetic, in the domain of each function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import Problem
from ..filters.arithmetic import Arithmetic
from ..reference.arithmetic import Function as Operation
from ._base import BATCH, CALLER, Array, Subject, Tensor, checked_input, float32_numbers

# Magnitudes of the operands of functions that are not smooth everywhere; a pair of signs, or one.
_DOMAINS: dict[int, tuple[float, float, bool]] = {
    Operation.SQUARE_ROOT: (0.3, 2.0, False),
    Operation.RECIPROCAL_SQUARE_ROOT: (0.3, 2.0, False),
    Operation.LOG: (0.3, 2.0, False),
    Operation.LOG2: (0.3, 2.0, False),
    Operation.POW: (0.3, 2.0, False),
    Operation.ACOSH: (1.2, 3.0, False),
    Operation.ASIN: (0.05, 0.8, True),
    Operation.ACOS: (0.05, 0.8, True),
    Operation.ATANH: (0.05, 0.8, True),
    Operation.TAN: (0.05, 1.0, True),
}


class ArithmeticSubject(Subject):
    """Elementwise arithmetic: operands with a batch axis, or of one copy for all samples."""

    def __init__(self, filter: Arithmetic) -> None:
        self.filter = filter
        self.inputs = ["input"] if filter.count == 1 else [f"input_{'abc'[i]}" for i in range(filter.count)]

    def _batches(self) -> list[int]:
        return [BATCH if batched else 1 for batched in self.filter.batched]

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        low, high, both_signs = _DOMAINS.get(self.filter.function, (0.3, 2.0, True))
        values = {}
        for name, operand, batch in zip(self.inputs, self.filter.operands, self._batches(), strict=True):
            magnitude = random.uniform(low, high, (batch, *operand.shape))
            sign = random.choice([-1.0, 1.0], magnitude.shape) if both_signs else 1.0
            values[name] = float32_numbers(sign * magnitude)
        return values

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        if len(inputs) != self.filter.count:
            raise Problem(f"gradcheck: {len(inputs)} inputs are given, but the filter has {self.filter.count}.")
        return {
            name: checked_input(value, operand.shape, name, batched=batched)
            for name, value, operand, batched in zip(
                self.inputs, inputs, self.filter.operands, self.filter.batched, strict=True
            )
        }

    def parameters(self) -> dict[str, Array]:
        return {}

    def forward(self, values: dict[str, Array]) -> Array:
        y = self.filter._forward64([values[name] for name in self.inputs])
        return np.broadcast_to(y, (self._samples(values), *self.filter.output.shape))

    def _samples(self, values: dict[str, Array]) -> int:
        return max(len(values[name]) for name in self.inputs) if self.filter.out_batched else 1

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, max(len(values[name]) for name in self.inputs)
        operands = [Tensor(o, len(values[name])) for name, o in zip(self.inputs, f.operands, strict=True)]
        data = [tensor.fill(values[name]) for name, tensor in zip(self.inputs, operands, strict=True)]
        y, dy = Tensor(f.output, len(cotangent)), Tensor(f.output, len(cotangent))
        dy.fill(cotangent)
        constant = [role == 0 for role in f.roles]
        gradients = [
            None if skipped else Tensor(o, tensor.batch)
            for o, tensor, skipped in zip(f.operands, operands, constant, strict=True)
        ]
        tensors: dict[str, tuple[Any, Any]] = {"in": (data, None), "out": (y.memory, 0)}
        f.perform("apply_arithmetic", CALLER, batch, tensors, f.count)
        tensors["in_delta"] = [None if g is None else g.descriptor() for g in gradients], None
        tensors["out_delta"] = dy.descriptor(), 0
        f.perform("apply_backward_arithmetic", CALLER, batch, tensors, f.count)
        return {name: g.read() for name, g in zip(self.inputs, gradients, strict=True) if g is not None}
