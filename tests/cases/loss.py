"""Losses: every function, reduction and form of weights, odd sizes, batch strides with gaps; and the Yolo grid."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers import EPSILON, IMAGE, VECTOR, Array, Storage, Tensor, vector
from openbnns import capi
from openbnns.capi import BNNSLossFunction, BNNSLossReductionFunction
from openbnns.parameters.loss import Loss
from openbnns.reference import loss as reference

from ._base import created, succeed

F = BNNSLossFunction
FUNCTIONS = {function.name.removeprefix("BNNSLossFunction"): function for function in F}
REDUCTIONS = {r.name.removeprefix("BNNSLossReduction"): r for r in BNNSLossReductionFunction}
PER_SAMPLE = ("SoftmaxCrossEntropy", "CosineDistance", "CategoricalCrossEntropy")
WEIGHTS = ("none", "one", "each")

STRUCTS: dict[str, type[Any]] = {
    "SoftmaxCrossEntropy": capi.BNNSLayerParametersLossSoftmaxCrossEntropy,
    "SigmoidCrossEntropy": capi.BNNSLayerParametersLossSigmoidCrossEntropy,
    "Huber": capi.BNNSLayerParametersLossHuber,
    "Yolo": capi.BNNSLayerParametersLossYolo,
}


@dataclass(frozen=True)
class LossCase:
    """One loss on one batch."""

    function: str
    reduction: str = "Mean"
    weights: str = "none"
    batch: int = 5
    x: Tensor = field(default_factory=lambda: vector(7))
    gap: int = 0  # 0: packed batches; else every batched tensor has its own batch stride
    smooth: float = 0.0
    delta: float = 0.8

    @property
    def id(self) -> str:
        layout = "" if self.x.layout == VECTOR else f"-{self.x.layout.name[14:]}"
        layout += "-strided" if self.x.stride else ""
        parts = [self.function, self.reduction, self.weights, f"{self.batch}x{self.width}{layout}"]
        parts += [f"gap{self.gap}"] * bool(self.gap) + [f"smooth{self.smooth}"] * bool(self.smooth)
        return "-".join(parts)

    @property
    def width(self) -> int:
        return self.x.count

    @property
    def per_sample(self) -> bool:
        return self.function in PER_SAMPLE

    @property
    def reduces(self) -> bool:
        return self.reduction != "None"

    @property
    def y(self) -> Tensor:
        return vector(1 if self.reduces or self.per_sample else self.width)

    @property
    def weights_size(self) -> int:
        each = self.batch * (1 if self.function == "SoftmaxCrossEntropy" else self.width)
        return {"none": 0, "one": 1, "each": each}[self.weights]

    @property
    def rows(self) -> tuple[str, ...]:
        """Scoreboard rows that hold for both directions."""
        size = {"none": "w0", "one": "w1", "each": "wbatch" if self.function == "SoftmaxCrossEntropy" else "wfull"}
        smooth = {"SoftmaxCrossEntropy": "softmax", "SigmoidCrossEntropy": "sigmoid"}
        smoothed = (f"loss.smooth.{smooth[self.function]}",) if self.smooth else ()
        return (f"loss.red.{self.reduction}", f"loss.{size[self.weights]}", "fn.BNNSFilterCreateLayerLoss", *smoothed)

    @property
    def forward_rows(self) -> tuple[str, ...]:
        return (f"loss.{self.function}.fwd", f"loss.{self.function}.indelta", "fn.BNNSLossFilterApplyBatch", *self.rows)

    @property
    def backward_rows(self) -> tuple[str, ...]:
        return (f"loss.{self.function}.bwd", "fn.BNNSLossFilterApplyBackwardBatch", *self.rows)

    @property
    def settings(self) -> Loss:
        """The same loss for the float64 functions."""
        return Loss(
            FUNCTIONS[self.function], REDUCTIONS[self.reduction],
            label_smooth=float(np.float32(self.smooth)), huber_delta=float(np.float32(self.delta)),
        )  # fmt: skip

    def create(self, threads: int = 0) -> Any:
        extra: dict[str, float] = {}
        if "smooth" in "".join(STRUCTS.get(self.function, capi.BNNSLayerParametersLossBase)._kinds):
            extra["label_smooth"] = self.smooth
        if self.function == "Huber":
            extra["huber_delta"] = self.delta
        return created(
            capi.BNNSFilterCreateLayerLoss(
                STRUCTS.get(self.function, capi.BNNSLayerParametersLossBase)(
                    function=FUNCTIONS[self.function], i_desc=self.x.descriptor(), o_desc=self.y.descriptor(),
                    reduction=REDUCTIONS[self.reduction], **extra,
                ),
                capi.BNNSFilterParameters(n_threads=threads),
            )
        )  # fmt: skip

    def values(self) -> dict[str, Array]:
        """Predictions, labels, weights and upstream gradients that float32 holds, away from kinks."""
        rng = np.random.default_rng(zlib.crc32(self.id.encode()))
        shape = (self.batch, *self.x.size)
        x, t = 1.5 * rng.standard_normal(shape), rng.uniform(0, 1, shape)
        if self.function == "Log":
            x = rng.uniform(0.05, 0.95, shape)
        elif self.function in ("Hinge", "CategoricalCrossEntropy"):
            t = rng.integers(0, 2, shape).astype(np.float64)
        elif self.function == "CosineDistance":
            axes = tuple(range(1, len(shape)))
            x, t = (v / np.sqrt(np.sum(v * v, axis=axes, keepdims=True)) for v in (x, t))
        error = x - t
        if self.function == "Huber":
            x = np.where(np.abs(np.abs(error) - self.delta) < 0.02, x + 0.05, x)
        elif self.function == "MeanAbsoluteError":
            x = np.where(np.abs(error) < 0.02, x + 0.05, x)
        elif self.function == "Hinge":
            x = np.where(np.abs((2 * t - 1) * x - 1) < 0.02, x + 0.05, x)
        w = rng.uniform(0.2, 2.0, max(self.weights_size, 1)) * rng.choice(
            [-1.0, 1.0, 1.0, 1.0], max(self.weights_size, 1)
        )
        if self.weights_size > 1:
            w[::3] = 0.0
        u = rng.standard_normal((1 if self.reduces else self.batch, *self.y.size))
        return {name: np.float32(v).astype(np.float64) for name, v in {"x": x, "t": t, "w": w, "u": u}.items()}

    # What float64 gives.

    def flat(self, values: dict[str, Array], name: str) -> Array:
        """A tensor as (batch, width) in the order of memory."""
        v = values[name]
        order = [0] + [1 + axis for axis in reversed(self.x.stepped)]
        return np.ascontiguousarray(v.transpose(order)).reshape(self.batch, -1)

    def unflat(self, v: Array) -> Array:
        """The way back."""
        sizes = [self.x.size[axis] for axis in reversed(self.x.stepped)]
        order = [0] + [1 + axis for axis in reversed(self.x.stepped)]
        return v.reshape(self.batch, *sizes).transpose(np.argsort(order))

    def given_weights(self, values: dict[str, Array]) -> Array | None:
        return values["w"] if self.weights_size else None

    def bound(self, values: dict[str, Array]) -> tuple[float, float]:
        """Rounding that float32 is allowed: of the losses (all reductions), and of their slopes.

        Losses are a few operations on numbers of the size of x, t and log(width), summed in double; the sums within a
        row are of magnitude 1 + |x| times the sum of the labels.
        """
        x, t = self.flat(values, "x"), self.flat(values, "t")
        w = np.abs(values["w"]).max() if self.weights_size else 1.0
        size = 1.0 + np.abs(x).max() + np.log(self.width)
        labels = max(1.0, np.abs(t).sum(axis=1).max()) if self.per_sample else 1.0 + np.abs(t).max()
        largest = size * labels * (size if self.function == "MeanSquareError" else 1.0)
        if self.function == "Log":
            largest *= 20.0
        plain = Loss(self.settings.function, 0)
        losses = np.abs(reference.forward(plain, x, t)).max()
        unreduced = np.empty((self.batch, 1 if self.per_sample else self.width))
        factor = abs(reference._reduction_factor(self.settings, unreduced, self.given_weights(values)))
        count = unreduced.size if self.reduces else 1
        value = 4 * EPSILON * w * factor * count * max(largest, losses)
        return value, 8 * EPSILON * w * factor * largest * max(1.0, float(np.abs(values["u"]).max()))


class LossRun:
    """A case, its filter and its memory."""

    def __init__(self, case: LossCase, values: dict[str, Array], threads: int = 0) -> None:
        self.case, gap = case, case.gap
        self.x = Storage(case.x, case.batch, gap, values["x"])
        self.t = Storage(case.x, case.batch, gap and gap + 1, values["t"])
        self.w = Storage(vector(len(values["w"])), values=values["w"][None])
        samples = 1 if case.reduces else case.batch
        self.u = Storage(case.y, samples, 0 if case.reduces else gap and gap + 3, values["u"])
        self.filter = case.create(threads)

    @property
    def inputs(self) -> dict[str, Storage]:
        return {"x": self.x, "labels": self.t, "weights": self.w, "out_delta": self.u}

    def new_gradient(self, old: Array | None = None) -> Storage:
        return Storage(self.case.x, self.case.batch, self.case.gap and self.case.gap + 2, old)

    def forward(self, gradient: bool = True, old: Array | None = None) -> tuple[Storage, Storage | None]:
        """Loss and, if wanted, its gradient, added to ``old`` if that is given."""
        case = self.case
        out = Storage(case.y, 1 if case.reduces else case.batch)
        dx = self.new_gradient(old) if gradient else None
        w = self.w.elements if case.weights_size else None
        succeed(
            capi.BNNSLossFilterApplyBatch(
                self.filter, case.batch, self.x.elements, self.x.stride, self.t.elements, self.t.stride, w,
                case.weights_size, out.elements, dx and dx.descriptor(int(old is not None)), dx.stride if dx else 0,
            )
        )  # fmt: skip
        return out, dx

    def backward(self, old: Array | None = None) -> Storage:
        case, dx = self.case, self.new_gradient(old)
        w = self.w.elements if case.weights_size else None
        succeed(
            capi.BNNSLossFilterApplyBackwardBatch(
                self.filter, case.batch, self.x.elements, self.x.stride, dx.descriptor(int(old is not None)), dx.stride,
                self.t.elements, self.t.stride, w, case.weights_size, self.u.descriptor(), self.u.stride,
            )
        )  # fmt: skip
        return dx


NAMES = [name for name in FUNCTIONS if name != "Yolo"]
SMOOTHED = ("SoftmaxCrossEntropy", "SigmoidCrossEntropy")

EVERY = [
    LossCase(name, reduction, weights, gap=3 * ((i + j + k) % 2), smooth=0.1 * (name in SMOOTHED and (j + k) % 2))
    for i, name in enumerate(NAMES)
    for j, reduction in enumerate(REDUCTIONS)
    for k, weights in enumerate(WEIGHTS)
]  # fmt: skip

SIZES = [
    LossCase(name, reduction, weights, batch, vector(width), gap)
    for name in NAMES
    for reduction, weights, batch, width, gap in [
        ("Sum", "none", 1, 1, 0), ("WeightedMean", "each", 33, 16, 0), ("Mean", "none", 4, 40, 5),
        ("None", "one", 3, 113, 0), ("NonZeroWeightMean", "each", 2, 1030, 1),
        ("Mean", "each", 70, 513, 0), ("Mean", "none", 40, 3000, 0),
    ]
]  # fmt: skip

FORMS = [
    LossCase(name, reduction, "each", 3, tensor)
    for name in ("SoftmaxCrossEntropy", "MeanSquareError", "CosineDistance")
    for reduction in ("Mean", "None")
    for tensor in (Tensor(IMAGE, (2, 3, 4)), vector(7, stride=(2,)), Tensor(IMAGE, (2, 3, 4), (1, 3, 12)))
]

CASES = EVERY + SIZES + FORMS


@dataclass(frozen=True)
class YoloCase:
    """A grid with anchors; about half of the cells hold an object."""

    rows: int = 2
    columns: int = 3
    classes: int = 4
    batch: int = 2
    anchors: tuple[float, ...] = (1.0, 1.5, 2.0, 0.75, 0.5, 0.625)
    rescore: bool = False
    delta: float = 0.6

    scales = (1.1, 0.9, 2.0, 0.5, 1.3)
    limits = (0.6, 0.15)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.batch, self.rows, self.columns, len(self.anchors) // 2, 5 + self.classes)

    @property
    def width(self) -> int:
        return int(np.prod(self.shape[1:]))

    def struct(self, **changes: Any) -> Any:
        fields: dict[str, Any] = {
            "function": F.BNNSLossFunctionYolo, "i_desc": vector(self.width).descriptor(),
            "o_desc": vector(1).descriptor(),
            "reduction": capi.BNNSLossReductionSum, "huber_delta": self.delta, "number_of_grid_columns": self.columns,
            "number_of_grid_rows": self.rows, "number_of_anchor_boxes": len(self.anchors) // 2,
            "anchor_box_size": 5 + self.classes, "rescore": self.rescore, "scale_xy": self.scales[0],
            "scale_wh": self.scales[1], "scale_object": self.scales[2], "scale_no_object": self.scales[3],
            "scale_classification": self.scales[4], "object_minimum_iou": self.limits[0],
            "no_object_maximum_iou": self.limits[1], "anchors_data": np.array(self.anchors, np.float32),
        }  # fmt: skip
        return capi.BNNSLayerParametersLossYolo(**{**fields, **changes})

    def values(self) -> tuple[Array, Array]:
        """Predictions and labels, in the shape of the grid."""
        rng = np.random.default_rng([7, self.rows, self.columns, self.classes, self.batch])
        x = rng.standard_normal(self.shape)
        one = np.zeros((*self.shape[:3], 1, self.shape[4]))
        one[..., :2] = rng.uniform(0, 1, (*self.shape[:3], 1, 2))
        one[..., 2:4] = rng.uniform(0.5, 2, (*self.shape[:3], 1, 2))
        one[..., 4] = rng.integers(0, 2, (*self.shape[:3], 1))
        if self.classes:
            one[..., 5:] = np.eye(self.classes)[rng.integers(0, self.classes, (*self.shape[:3], 1))]
        one *= one[..., 4:5]
        t = np.repeat(one, self.shape[3], axis=3)
        return np.float32(x).astype(np.float64), np.float32(t).astype(np.float64)

    def by_definition(self, x: Array, t: Array, raw: bool = False) -> tuple[float, Array, Array]:
        """Loss, gradient and role (2 object, 1 no object, 0 ignored) of every anchor: plain loops over the formula."""
        f32 = [float(np.float32(s)) for s in (*self.scales, *self.limits, self.delta)]
        s_xy, s_wh, s_object, s_none, s_class, least, most, delta = f32
        delta = delta or 1.0
        anchors = np.float32(self.anchors).astype(np.float64).reshape(-1, 2)
        loss, slopes, roles = 0.0, np.zeros(self.shape), np.zeros(self.shape[:4])
        for cell in np.ndindex(self.shape[:3]):
            overlaps = [_overlap(x[cell][a], t[cell][a], anchors[a], raw) for a in range(len(anchors))]
            for a, anchor in enumerate(anchors):
                p, g, truth = x[cell][a], slopes[cell][a], t[cell][a]
                q = 1 / (1 + np.exp(-p[4]))
                if truth[4] == 1 and (overlaps[a] >= least or a == int(np.argmax(overlaps))):
                    roles[cell][a] = 2
                    s = p[:2] if raw else 1 / (1 + np.exp(-p[:2]))
                    loss += s_xy * np.sum((s - truth[:2]) ** 2)
                    g[:2] = 2 * s_xy * (s - truth[:2]) * (1.0 if raw else s * (1 - s))
                    e = p[2:4] - np.log(truth[2:4] / anchor)
                    loss += s_wh * np.sum(np.where(abs(e) <= delta, e * e / 2, delta * (abs(e) - delta / 2)))
                    g[2:4] = s_wh * np.clip(e, -delta, delta)
                    target = overlaps[a] if self.rescore else 1.0
                    loss -= s_object * (target * np.log(q) + (1 - target) * np.log(1 - q))
                    g[4] = s_object * (q - target)
                    if self.classes:
                        soft = np.exp(p[5:]) / np.exp(p[5:]).sum()
                        loss -= s_class * np.sum(truth[5:] * np.log(soft))
                        g[5:] = s_class * (soft * truth[5:].sum() - truth[5:])
                elif overlaps[a] <= most:
                    roles[cell][a] = 1
                    loss -= s_none * np.log(1 - q)
                    g[4] = s_none * q
        return loss, slopes, roles


def _overlap(p: Array, t: Array, anchor: Array, raw: bool) -> float:
    """IOU of predicted and true box, 0 without a true one."""
    if t[4] != 1:
        return 0.0
    centre = p[:2] if raw else 1 / (1 + np.exp(-p[:2]))
    size = anchor * np.exp(p[2:4])
    sides = np.minimum(centre + size / 2, t[:2] + t[2:4] / 2) - np.maximum(centre - size / 2, t[:2] - t[2:4] / 2)
    shared = float(np.prod(np.maximum(sides, 0)))
    return shared / (float(np.prod(size)) + float(np.prod(t[2:4])) - shared)
