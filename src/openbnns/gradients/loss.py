"""Losses, in the domain of each function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import Problem
from ..filters.loss import Loss
from ..reference import loss as reference_loss
from ..reference.loss import Function as LossKind
from ._base import BATCH, CALLER, Array, Subject, Tensor, float32_numbers


class LossSubject(Subject):
    """Losses: the gradient of the predictions; labels are given or drawn, and have none."""

    inputs = ("input", "labels")

    def __init__(self, filter: Loss) -> None:
        self.filter = filter
        yolo = filter.settings.yolo
        if yolo is not None and yolo.rescore:
            raise Problem(
                "gradcheck: with rescore, Yolo takes the IOU for a constant; its gradient is not the derivative."
            )

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        shape, kind = (BATCH, self.filter.width), self.filter.function
        x, labels = random.standard_normal(shape), random.uniform(0.0, 1.0, shape)
        if kind == LossKind.LOG:
            x = random.uniform(0.1, 0.9, shape)
        elif kind in (LossKind.HINGE, LossKind.CATEGORICAL_CROSS_ENTROPY):
            labels = random.integers(0, 2, shape).astype(np.float64)
        elif kind == LossKind.YOLO:
            labels = self._boxes(random)
        return self._on_sphere({"input": float32_numbers(x), "labels": float32_numbers(labels)})

    def _boxes(self, random: np.random.Generator) -> Array:
        """One object in about half of the cells, repeated for every anchor."""
        yolo = self.filter.settings.yolo
        assert yolo is not None
        shape = (BATCH, yolo.grid_rows * yolo.grid_columns, 1, 5 + yolo.classes)
        boxes = random.uniform(0.2, 0.8, shape)
        boxes[..., 4] = random.integers(0, 2, shape[:-1])
        return np.repeat(boxes, len(yolo.anchors), axis=2).reshape(BATCH, -1)

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        if len(inputs) != 2:
            raise Problem(f"gradcheck: {len(inputs)} inputs are given, but a loss takes two: predictions and labels.")
        shape = (self.filter.width,)
        values = [np.asarray(v, np.float64).reshape(-1, *shape) for v in inputs if np.size(v) % shape[0] == 0]
        if len(values) != 2 or values[0].shape != values[1].shape:
            shapes = f"{np.shape(inputs[0])} and {np.shape(inputs[1])}"
            raise Problem(
                f"gradcheck: predictions and labels have shapes {shapes}, but one sample has {shape[0]} elements."
            )
        return self._on_sphere({"input": float32_numbers(values[0]), "labels": float32_numbers(values[1])})

    def _on_sphere(self, values: dict[str, Array]) -> dict[str, Array]:
        """The cosine distance is for unit vectors, and its gradient is taken along the sphere."""
        if self.filter.function != LossKind.COSINE_DISTANCE:
            return values
        return {name: v / np.linalg.norm(v, axis=1, keepdims=True) for name, v in values.items()}

    def parameters(self) -> dict[str, Array]:
        return {}

    def forward(self, values: dict[str, Array]) -> Array:
        tangent = not self.filter.settings.plain_cosine_gradient
        x = self._on_sphere({"input": values["input"]})["input"] if tangent else values["input"]
        return reference_loss.forward(self.filter.settings, x, values["labels"])

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, len(values["input"])
        x, labels, dx = (Tensor(f.input, batch) for _ in range(3))
        dy = Tensor(f.output, 1 if f.reduces else batch)
        dy.fill(cotangent.reshape(dy.batch, *f.output.shape))
        tensors = {
            "in": x.fill(values["input"]), "in_delta": dx.descriptor(), "labels": labels.fill(values["labels"]),
            "out_delta": dy.descriptor(),
        }  # fmt: skip
        f.perform("apply_backward_loss", CALLER, batch, {name: (t, 0) for name, t in tensors.items()})
        return {"input": dx.read()}
