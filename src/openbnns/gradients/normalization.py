"""Normalizations in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import Problem
from ..filters.normalization import Normalization
from ..reference import normalization as reference_normalization
from ._base import BATCH, CALLER, Array, Subject, Tensor, checked_input, random_numbers


class NormalizationSubject(Subject):
    """Normalizations in training. The moving statistics, which a training forward updates, are put back afterwards."""

    inputs = ("input",)

    def __init__(self, filter: Normalization) -> None:
        self.filter = filter

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        # Statistics bend the function on the scale of the deviation within a set, here 1: steps of 1e-5 are far below.
        return {"input": random_numbers(random, (BATCH, *self.filter.input.shape))}

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        if len(inputs) != 1:
            raise Problem(f"gradcheck: {len(inputs)} inputs are given, but a normalization has one.")
        return {"input": checked_input(inputs[0], self.filter.input.shape, "input")}

    def parameters(self) -> dict[str, Array]:
        tensors = {"beta": self.filter.beta, "gamma": self.filter.gamma}
        return {name: tensor.read(np.float64) for name, tensor in tensors.items() if tensor is not None}

    def forward(self, values: dict[str, Array]) -> Array:
        f = self.filter
        beta, gamma = (None if values.get(name) is None else f.as_reference(values[name]) for name in ("beta", "gamma"))
        return reference_normalization.training_forward(f.settings, values["input"], beta, gamma, f.activation)[0]

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, len(values["input"])
        x, y, dy = Tensor(f.input, batch), Tensor(f.output, batch), Tensor(f.output, batch)
        x.fill(values["input"])
        dy.fill(cotangent)
        gradients = {"input": Tensor(f.input, batch)}
        for name, parameter in (("beta", f.beta), ("gamma", f.gamma)):
            if parameter is not None:
                gradients[name] = Tensor(parameter, 1)
        deltas = {name: tensor.descriptor() for name, tensor in gradients.items()}
        with f.moving_kept():
            forward = {"in": (x.memory, 0), "out": (y.memory, 0)}
            f.perform("apply_normalization", CALLER, batch, forward, True)
        tensors = {
            "in_delta": deltas["input"], "out": y.memory, "out_delta": dy.descriptor(), "beta_delta": deltas.get("beta"),
            "gamma_delta": deltas.get("gamma"),
        }  # fmt: skip
        f.perform("apply_backward_normalization", CALLER, batch, {name: (t, 0) for name, t in tensors.items()})
        return {name: tensor.read() for name, tensor in gradients.items()}
