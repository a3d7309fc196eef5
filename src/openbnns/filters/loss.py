"""Losses: unreduced losses l of predictions x against labels t, a reduction to `out`, and the gradient of `out`.

    None                out = l                              r = 1
    Sum                 out = sum l                          r = 1
    WeightedMean        out = sum l / sum W                  r = 1 / sum W             0 if the divisor is 0
    Mean                out = sum l / m                      r = 1 / m
    NonZeroWeightMean   out = sum l / count(W != 0)          r = 1 / count(W != 0)     0 if the divisor is 0

    dx = r * u * dl/dx,   u = upstream gradient of `out`, 1 in the forward call

The formulas of l are in reference/loss.py and on the docs page.

Shapes: x, labels, dx (N, width); weights none, one, or one per loss (per element for the losses that have one value per
sample, except for softmax cross entropy); out (1), or with reduction None (N) or (N, width).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import _strict, compat, engines
from .._plural import plural
from .._words import Caller, Named
from ..abi.enums import BNNSDataLayout, BNNSLossFunction, BNNSLossReductionFunction
from ..abi.structs import (
    BNNSFilterParameters,
    BNNSLayerParametersLossBase,
    BNNSLayerParametersLossHuber,
    BNNSLayerParametersLossSigmoidCrossEntropy,
    BNNSLayerParametersLossSoftmaxCrossEntropy,
    BNNSLayerParametersLossYolo,
)
from ..calls.run import run_staged
from ..calls.signature import Argument, Call
from ..errors import Problem
from ..parameters.loss import PER_SAMPLE, LossKind, Reduction, Yolo
from ..parameters.loss import Loss as LossSettings
from ..reference import loss as reference
from ..tensors import descriptors
from ..tensors.descriptors import FLOAT32, LAYOUTS, ElementType, View, describe
from ..tensors.operands import Bound, Operand, Parameter, bind, check_count, resolve_delta
from ._activation_rules import as_float32
from ._rules import chosen, require_float32
from .base import Driving, Filter

if TYPE_CHECKING:
    from .. import _core

# Slots of a plan: LossSlot in core/kernels/loss/shape.h.
X, LABELS, WEIGHTS, OUT, DX, DOUT, ANCHORS = range(7)

LossStruct = (
    BNNSLayerParametersLossBase
    | BNNSLayerParametersLossSoftmaxCrossEntropy
    | BNNSLayerParametersLossSigmoidCrossEntropy
    | BNNSLayerParametersLossHuber
    | BNNSLayerParametersLossYolo
)
STRUCTS: tuple[type[Any], ...] = LossStruct.__args__
"""The structs that describe a loss."""

_STRUCT_OF: dict[int, type[Any]] = {
    LossKind.SOFTMAX_CROSS_ENTROPY: BNNSLayerParametersLossSoftmaxCrossEntropy,
    LossKind.SIGMOID_CROSS_ENTROPY: BNNSLayerParametersLossSigmoidCrossEntropy,
    LossKind.HUBER: BNNSLayerParametersLossHuber,
    LossKind.YOLO: BNNSLayerParametersLossYolo,
}

LOG_EPSILON = 1e-7


def struct_of(function: int) -> type[Any]:
    """The struct that describes a loss of this function."""
    return _STRUCT_OF.get(function, BNNSLayerParametersLossBase)


def function_name(function: int) -> str:
    """``Huber`` for 4."""
    return BNNSLossFunction(function).name.removeprefix("BNNSLossFunction")


def reduction_name(reduction: int) -> str:
    """``WeightedMean`` for 2."""
    return BNNSLossReductionFunction(reduction).name.removeprefix("BNNSLossReduction")


def _vector(count: int) -> View:
    """A packed Float32 vector."""
    return View(LAYOUTS[int(BNNSDataLayout.BNNSDataLayoutVector)], FLOAT32, (count,), (1,))


@dataclass(frozen=True)
class LossWeights(Operand):
    """Weights of a loss: none, one for everything, or as many per sample as ``view`` has elements."""

    function: int = 0

    def bind_counted(self, caller: Caller, name: str, data: Any, batch: int, count: Any) -> Bound | None:
        number = check_count(count, caller("weights_size"))
        if number == 0:
            return None
        each = self.view.count
        if number != 1 and (each == 0 or number != batch * each):
            several = "" if each == 0 else f" or {batch * each} (one per {'sample' if each == 1 else 'element'})"
            raise Problem(
                f"{caller('weights_size')} is {number}, but {function_name(self.function)} on {plural(batch, 'sample')} takes 0 "
                f"(none), 1 (one for everything){several}. Pass one of these."
            )
        b = bind(_vector(number), (0,), (number,), caller(name), data, 1, 0)
        return BoundWeights(b.view, b.buffer, b.batch, b.stride, b.order, b.shape, samples=batch)


@dataclass(frozen=True)
class BoundWeights(Bound):
    """Weights of one call."""

    samples: int = 1

    def read(self, dtype: DTypeLike) -> NDArray[Any]:
        """One row per sample; the same row for all samples if there is one weight for everything."""
        values = super().read(dtype)[0]
        if len(values) == 1:
            return np.broadcast_to(values, (max(self.samples, 1), 1))
        return np.asarray(values.reshape(self.samples, -1))


@dataclass(frozen=True)
class _Upstream(Operand):
    """The output gradient of a loss: one value when reduced, else one per loss of a sample or of the whole batch."""

    reduced: bool = False

    def bind_delta(
        self, who: Named, descriptor: Any, batch: int, stride: int, *, output: bool = False,
        elements: tuple[ElementType, ...] = (FLOAT32,),
    ) -> Bound:  # fmt: skip
        view, each = resolve_delta(descriptor, who, self.view, output=False), self.view.count
        if view.count != each and not self.reduced and view.count == batch * each and view.packed:
            view = _vector(each)
        if view.count != each:
            what = "one value, as the loss is reduced" if self.reduced else f"{plural(each, 'value')} for one sample"
            raise Problem(
                f"{who} is {describe(view)}, but the gradient of out is {what}. Describe a Vector of size {each}."
            )
        return bind(view, view.memory_axes, self.shape, who.field("data"), descriptor.data, batch, stride)


class Loss(Filter):
    """A loss filter; `settings` are its function, reduction and parameters."""

    family = "loss"
    apply_call = "BNNSLossFilterApplyBatch"
    backward_call = "BNNSLossFilterApplyBackwardBatch"

    def __init__(self, p: LossStruct, filter_params: BNNSFilterParameters | None, who: Caller) -> None:
        super().__init__(filter_params, who)
        self.anchors: Parameter | None = None
        self.function = self._check_function(p, who)
        self.reduction = self._check_reduction(int(p.reduction), who)
        x = self._resolve(p.i_desc, who("i_desc"))
        self.width = x.count
        self.input = Operand(x, x.memory_axes, flat=True)
        self.settings = self._settings(p, who)
        self.output = self._check_output(self._resolve(p.o_desc, who("o_desc")), who)
        self.plan: _core.Plan | None = None
        if engines._core is not None:
            self.plan = self._make_plan()

    def _make_plan(self) -> _core.Plan:
        s, p = self.settings, self.settings.yolo
        yolo = None
        if p is not None:
            yolo = engines._core.YoloShape(
                cells=p.grid_rows * p.grid_columns, anchors=len(p.anchors), box_size=5 + p.classes, scale_xy=p.scale_xy,
                scale_wh=p.scale_wh, scale_object=p.scale_object, scale_no_object=p.scale_no_object,
                scale_classification=p.scale_classification, object_minimum_iou=p.object_minimum_iou,
                no_object_maximum_iou=p.no_object_maximum_iou, rescore=p.rescore, raw_centres=p.raw_centres,
            )  # fmt: skip
        return engines._core.loss(
            function=int(s.function), reduction=int(s.reduction), width=self.width, label_smooth=s.label_smooth,
            huber_delta=s.huber_delta, log_epsilon=s.log_epsilon, divide_by_classes=s.divide_by_classes,
            plain_cosine_gradient=s.plain_cosine_gradient, yolo=yolo,
        )  # fmt: skip

    def parameters(self) -> list[Parameter]:
        return [] if self.anchors is None else [self.anchors]

    # Creation.

    def _check_function(self, p: Any, who: Caller) -> int:
        known = f"one of 1 to {max(LossKind)}, for example BNNSLossFunctionMeanSquareError"
        function = chosen(p.function, LossKind, "BNNSLossFunction", who, "function", known)
        expected = struct_of(function)
        if type(p) is not expected:
            raise Problem(
                f"{who}: layer_params is a {type(p).__name__}, but {who.name('function')} {function_name(function)} is described "
                f"by a {expected.__name__}. Pass that struct, or set the function that belongs to yours."
            )
        return function

    def _check_reduction(self, reduction: int, who: Caller) -> int:
        known = "None (0), Sum (1), WeightedMean (2), Mean (3) or NonZeroWeightMean (4)"
        chosen(reduction, Reduction, "BNNSLossReductionFunction", who, "reduction", known)
        if self.function == LossKind.YOLO and reduction != Reduction.SUM:
            raise Problem(
                f"{who('reduction')} is {reduction_name(reduction)}, but Yolo sums over everything. Use "
                f"{who.name('BNNSLossReductionSum')}."
            )
        return reduction

    def _resolve(self, descriptor: Any, who: str) -> View:
        view = descriptors.resolve(descriptor, who)
        require_float32(view, who, "losses work on")
        return view

    def _settings(self, p: Any, who: Caller) -> LossSettings:
        """The numbers of the struct, checked, and the options in force."""
        settings = LossSettings(
            self.function,
            self.reduction,
            log_epsilon=LOG_EPSILON,
            divide_by_classes=compat.switches.softmax_loss_class_factor,
            plain_cosine_gradient=compat.switches.cosine_gradient_plain,
        )
        if self.function in (LossKind.SOFTMAX_CROSS_ENTROPY, LossKind.SIGMOID_CROSS_ENTROPY):
            smooth = as_float32(p.label_smooth)
            if not 0.0 <= smooth <= 1.0:
                raise Problem(f"{who('label_smooth')} is {smooth:g}. Smoothing lies between 0 (none) and 1.")
            if smooth == 1.0:
                _strict.full_smoothing(who("label_smooth"))
            return replace(settings, label_smooth=smooth)
        if self.function == LossKind.HUBER:
            delta = as_float32(p.huber_delta)
            if not delta > 0.0:
                raise Problem(
                    f"{who('huber_delta')} is {delta:g}. It is the error where the loss turns linear: use a positive one."
                )
            return replace(settings, huber_delta=delta)
        return replace(settings, **self._yolo(p, who)) if self.function == LossKind.YOLO else settings

    def _yolo(self, p: BNNSLayerParametersLossYolo, who: Caller) -> dict[str, Any]:
        rows, columns, anchors = p.number_of_grid_rows, p.number_of_grid_columns, p.number_of_anchor_boxes
        for name in ("number_of_grid_rows", "number_of_grid_columns", "number_of_anchor_boxes"):
            if getattr(p, name) < 1:
                raise Problem(f"{who(name)} is 0. Yolo needs a grid with at least one cell and one anchor box.")
        if p.anchor_box_size < 5:
            raise Problem(
                f"{who('anchor_box_size')} is {p.anchor_box_size}. A box is x, y, w, h, confidence and one value per "
                "class: at least 5."
            )
        needed = rows * columns * anchors * p.anchor_box_size
        if needed != self.width:
            raise Problem(
                f"{who('i_desc')} has {self.width} elements, but the grid has {rows} rows x {columns} columns x "
                f"{anchors} anchors x {p.anchor_box_size} values. Describe {needed} elements."
            )
        numbers = {
            name: as_float32(getattr(p, name))
            for name in (
                "scale_xy", "scale_wh", "scale_object", "scale_no_object", "scale_classification", "object_minimum_iou",
                "no_object_maximum_iou", "huber_delta",
            )
        }  # fmt: skip
        for name, value in numbers.items():
            if not math.isfinite(value) or (name == "huber_delta" and value < 0.0):
                raise Problem(
                    f"{who(name)} is {value:g}. Use a finite number{', 0 for 1' if name == 'huber_delta' else ''}."
                )
        delta = numbers.pop("huber_delta") or 1.0
        yolo = Yolo(
            rows, columns, self._anchors(p, anchors, who), p.anchor_box_size - 5, rescore=bool(p.rescore),
            raw_centres=compat.switches.yolo_raw_coordinates, **numbers,
        )  # fmt: skip
        return {"huber_delta": delta, "yolo": yolo}

    def _anchors(self, p: BNNSLayerParametersLossYolo, count: int, who: Caller) -> NDArray[Any]:
        name = who("anchors_data")
        if p.anchors_data is None:
            raise Problem(f"{name} is {who.null}. Give {2 * count} floats: width and height of each anchor box.")
        self.anchors = self.hold(_vector(2 * count), (0,), name, p.anchors_data)
        values = self.anchors.read(np.float64)
        if not np.all((values > 0.0) & np.isfinite(values)):
            raise Problem(f"{name} is {values.tolist()}. Widths and heights of anchor boxes are positive.")
        return values.reshape(count, 2)

    @property
    def per_sample(self) -> bool:
        """True if there is one loss per sample instead of one per element."""
        return self.function in PER_SAMPLE

    @property
    def losses_per_sample(self) -> int:
        """Losses of one sample that reduction None gives."""
        return 1 if self.per_sample else self.width

    @property
    def reduces(self) -> bool:
        return self.reduction != Reduction.NONE

    def _check_output(self, y: View, who: Caller) -> Operand:
        """The operand that one sample (or, reduced, the call) writes to ``out``."""
        if self.reduces:
            if y.count != 1:
                raise Problem(
                    f"{who('o_desc')} is {describe(y)}, but {who.name('reduction')} {reduction_name(self.reduction)} gives "
                    "one value. Describe a Vector of size 1."
                )
            return Operand(y, y.memory_axes, flat=True)
        each = self.losses_per_sample
        if y.count == each:
            return Operand(y, y.memory_axes, flat=True)
        if y.count % each == 0 and y.packed:  # the losses of a whole batch
            return Operand(_vector(each), (0,), flat=True)
        each_element = f"one loss for each of the {self.width} elements of a sample"
        what = "one loss per sample" if self.per_sample else each_element
        raise Problem(
            f"{who('o_desc')} is {describe(y)}, but {function_name(self.function)} with {who.name('reduction')} None gives "
            f"{what}. Describe a Vector of size {each}."
        )

    def fixed_addresses(self) -> list[tuple[int, int, int]] | None:
        if self.anchors is None:
            return []
        return None if self.anchors.address is None else [(ANCHORS, *self.anchors.memory)]

    @property
    def weights_per_sample(self) -> int:
        """Weights per sample, where a call has more than one for everything; 0 if it cannot have more."""
        if self.function == LossKind.YOLO:
            return 0
        return 1 if self.function == LossKind.SOFTMAX_CROSS_ENTROPY else self.width

    # The calls.

    def driving_calls(self) -> Driving:
        return ("apply_loss", None), ("apply_backward_loss", None)

    def declare(self, call: str, variant: Hashable) -> Call | None:
        x = Argument("in", X, self.input, required=True)
        labels = Argument("labels", LABELS, self.input, required=True)
        each = LossWeights(_vector(self.weights_per_sample), (0,), function=self.function)
        weights = Argument("weights", WEIGHTS, each, batched=False, counted=True)
        gradient = Argument("in_delta", DX, self.input, writes=True, gradient_of="in", described=True)
        if call == "apply_loss":
            out = Argument("out", OUT, self.output, writes=True, required=True, batched=not self.reduces, strided=False)
            return Call((x, labels, weights, out, gradient), plan=self.plan)
        if call == "apply_backward_loss":
            upstream = Argument(
                "out_delta", DOUT, _Upstream(self.output.view, self.output.order, True, self.reduces), gradient_of="out",
                described=True, batched=not self.reduces, required=True, purpose=_OUTPUT_GRADIENT,
            )  # fmt: skip
            needed = replace(gradient, required=True, purpose="it is all that this call computes. Pass a descriptor.")
            return Call((x, labels, weights, upstream, needed), backward=True, plan=self.plan)
        return None

    # Runs.

    def run_empty(self, call: Call, bound: dict[str, Bound]) -> None:
        if not call.backward and self.reduces:  # the sum over nothing
            self.run(call, 0, bound)

    def run_native(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        held = {} if self.anchors is None else {ANCHORS: self.anchors.read(np.float32)}
        run_staged(self, call, call.plan, batch, bound, held)

    def check(self, call: Call, caller: Caller, batch: int, bound: dict[str, Bound]) -> None:
        if caller.wants_results or not _strict.active():
            return  # networks leave samples out in this way
        if self.function == LossKind.SOFTMAX_CROSS_ENTROPY and "labels" in bound:
            empty = int((bound["labels"].read(np.float64).reshape(batch, -1) == 0).all(axis=1).sum()) if batch else 0
            if empty:
                _strict.labels_of_nothing(caller.function, empty, batch)

    def run_reference(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        settings, weights = self._settings64(), bound.get("weights")
        x, t = bound["in"].read(np.float64), bound["labels"].read(np.float64)
        w = None if weights is None else Bound.read(weights, np.float64)[0]
        if call.backward:
            bound["in_delta"].write(reference.backward(settings, x, t, bound["out_delta"].read(np.float64), w))
            return
        y, dx = bound["out"], bound.get("in_delta")
        losses = reference.forward(settings, x, t, w)
        gradient = None if dx is None else reference.gradient(settings, x, t, w)
        y.write(losses.reshape(y.batch, *y.shape))
        if dx is not None and gradient is not None:
            dx.write(gradient)

    def _settings64(self) -> LossSettings:
        """The settings with the anchors as they are now."""
        yolo = self.settings.yolo
        if yolo is None or self.anchors is None:
            return self.settings
        return replace(self.settings, yolo=replace(yolo, anchors=self.anchors.read(np.float64).reshape(-1, 2)))


_OUTPUT_GRADIENT = (
    "it is the gradient of the loss; if there is none, take the gradient from in_delta of BNNSLossFilterApplyBatch."
)
