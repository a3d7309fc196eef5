"""Losses: unreduced losses l of predictions x against labels t, a reduction to `out`, and the gradient of `out`.

    None                out = l                              r = 1
    Sum                 out = sum l                          r = 1
    WeightedMean        out = sum l / sum W                  r = 1 / sum W             0 if the divisor is 0
    Mean                out = sum l / m                      r = 1 / m
    NonZeroWeightMean   out = sum l / count(W != 0)          r = 1 / count(W != 0)     0 if the divisor is 0

    dx = r * u * dl/dx,   u = upstream gradient of `out`, 1 in the forward call

The formulas of l are in engines/reference/loss.py and on the docs page.

Shapes: x, labels, dx (N, width); weights none, one, or one per loss (per element for the losses that have one value per
sample, but for softmax cross entropy); out (1), or with reduction None (N) or (N, width).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import _strict, compat, descriptors, engines
from ..capi.enums import BNNSDataLayout, BNNSLossFunction, BNNSLossReductionFunction
from ..capi.structs import (
    BNNSFilterParameters,
    BNNSLayerParametersLossBase,
    BNNSLayerParametersLossHuber,
    BNNSLayerParametersLossSigmoidCrossEntropy,
    BNNSLayerParametersLossSoftmaxCrossEntropy,
    BNNSLayerParametersLossYolo,
)
from ..descriptors import FLOAT32, LAYOUTS, View, describe
from ..engines.native import loss as native
from ..engines.reference import loss as reference
from ..engines.reference.loss import PER_SAMPLE, Function, Reduction
from ..errors import Problem
from ._activation_rules import as_float32
from ._base import Filter, fast_argument
from ._tensors import Bound, Caller, Operand, Parameter, bind, check_count, resolve_delta

if TYPE_CHECKING:
    from .. import _core

# Slots of a plan: LossSlot in core/kernels/kernels.h.
X, LABELS, WEIGHTS, OUT, DX, DOUT, ANCHORS = range(7)

_COUNTED = 4  # an argument followed by its number of elements, in core/bindings/fast_call.h

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
    Function.SOFTMAX_CROSS_ENTROPY: BNNSLayerParametersLossSoftmaxCrossEntropy,
    Function.SIGMOID_CROSS_ENTROPY: BNNSLayerParametersLossSigmoidCrossEntropy,
    Function.HUBER: BNNSLayerParametersLossHuber,
    Function.YOLO: BNNSLayerParametersLossYolo,
}

LOG_EPSILON = 1e-7


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
class _Inputs:
    """What a call reads, checked."""

    batch: int
    x: Bound
    labels: Bound
    weights: Bound | None


class Loss(Filter):
    """A loss filter; `settings` are its function, reduction and parameters."""

    family = "loss"
    apply_call = "BNNSLossFilterApplyBatch"
    backward_call = "BNNSLossFilterApplyBackwardBatch"

    def __init__(
        self,
        p: LossStruct,
        filter_params: BNNSFilterParameters | None = None,
        who: str = "BNNSFilterCreateLayerLoss",
    ) -> None:
        super().__init__(filter_params, who)
        self.anchors: Parameter | None = None
        self.function = self._check_function(p, who)
        self.reduction = self._check_reduction(int(p.reduction), who)
        x = self._resolve(p.i_desc, f"{who}: i_desc")
        self.width = x.count
        self.input = Operand(x, x.memory_axes, flat=True)
        self.settings = self._settings(p, who)
        self.output = self._check_output(self._resolve(p.o_desc, f"{who}: o_desc"), who)
        self.plan: _core.Plan | None = None
        self._prepare()

    def parameters(self) -> list[Parameter]:
        return [] if self.anchors is None else [self.anchors]

    # Creation.

    def _check_function(self, p: Any, who: str) -> int:
        function = int(p.function)
        if function not in set(Function):
            raise Problem(
                f"{who}: function is {function}, which is no BNNSLossFunction. Use one of 1 to {max(Function)}, for "
                "example BNNSLossFunctionMeanSquareError."
            )
        expected = _STRUCT_OF.get(function, BNNSLayerParametersLossBase)
        if type(p) is not expected:
            raise Problem(
                f"{who}: layer_params is a {type(p).__name__}, but function {function_name(function)} is described by "
                f"a {expected.__name__}. Pass that struct, or set the function that belongs to yours."
            )
        return function

    def _check_reduction(self, reduction: int, who: str) -> int:
        if reduction not in set(Reduction):
            raise Problem(
                f"{who}: reduction is {reduction}, which is no BNNSLossReductionFunction. Use None (0), Sum (1), "
                "WeightedMean (2), Mean (3) or NonZeroWeightMean (4)."
            )
        if self.function == Function.YOLO and reduction != Reduction.SUM:
            raise Problem(
                f"{who}: reduction is {reduction_name(reduction)}, but Yolo sums over everything. Use "
                "BNNSLossReductionSum."
            )
        return reduction

    def _resolve(self, descriptor: Any, who: str) -> View:
        view = descriptors.resolve(descriptor, who)
        if view.element is not FLOAT32:
            raise Problem(
                f"{who}.data_type is {view.element.name}, but losses work on Float32. Use BNNSDataTypeFloat32.",
                kind=TypeError,
            )
        return view

    def _settings(self, p: Any, who: str) -> reference.Loss:
        """The numbers of the struct, checked, and the readings in force."""
        settings = reference.Loss(
            self.function,
            self.reduction,
            log_epsilon=LOG_EPSILON,
            divide_by_classes=compat.switches.softmax_loss_class_factor,
            plain_cosine_gradient=compat.switches.cosine_gradient_plain,
        )
        if self.function in (Function.SOFTMAX_CROSS_ENTROPY, Function.SIGMOID_CROSS_ENTROPY):
            smooth = as_float32(p.label_smooth)
            if not 0.0 <= smooth <= 1.0:
                raise Problem(f"{who}: label_smooth is {smooth:g}. Smoothing lies between 0 (none) and 1.")
            if smooth == 1.0:
                _strict.full_smoothing(who)
            return replace(settings, label_smooth=smooth)
        if self.function == Function.HUBER:
            delta = as_float32(p.huber_delta)
            if not delta > 0.0:
                raise Problem(
                    f"{who}: huber_delta is {delta:g}. It is the error where the loss turns linear: use a positive one."
                )
            return replace(settings, huber_delta=delta)
        return replace(settings, **self._yolo(p, who)) if self.function == Function.YOLO else settings

    def _yolo(self, p: BNNSLayerParametersLossYolo, who: str) -> dict[str, Any]:
        rows, columns, anchors = p.number_of_grid_rows, p.number_of_grid_columns, p.number_of_anchor_boxes
        for name in ("number_of_grid_rows", "number_of_grid_columns", "number_of_anchor_boxes"):
            if getattr(p, name) < 1:
                raise Problem(f"{who}: {name} is 0. Yolo needs a grid with at least one cell and one anchor box.")
        if p.anchor_box_size < 5:
            raise Problem(
                f"{who}: anchor_box_size is {p.anchor_box_size}. A box is x, y, w, h, confidence and one value per "
                "class: at least 5."
            )
        needed = rows * columns * anchors * p.anchor_box_size
        if needed != self.width:
            raise Problem(
                f"{who}: i_desc has {self.width} elements, but the grid has {rows} rows x {columns} columns x "
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
                    f"{who}: {name} is {value:g}. Use a finite number{', 0 for 1' if name == 'huber_delta' else ''}."
                )
        delta = numbers.pop("huber_delta") or 1.0
        yolo = reference.Yolo(
            rows, columns, self._anchors(p, anchors, who), p.anchor_box_size - 5, rescore=bool(p.rescore),
            raw_centres=compat.switches.yolo_raw_coordinates, **numbers,
        )  # fmt: skip
        return {"huber_delta": delta, "yolo": yolo}

    def _anchors(self, p: BNNSLayerParametersLossYolo, count: int, who: str) -> NDArray[Any]:
        name = f"{who}: anchors_data"
        if p.anchors_data is None:
            raise Problem(f"{name} is NULL. Give {2 * count} floats: width and height of each anchor box.")
        self.anchors = Parameter(
            _vector(2 * count), (0,), name, p.anchors_data, client_pointer=self.client_pointer, memory=self.memory
        )
        values = self.anchors.read(np.float64)
        if not np.all((values > 0.0) & np.isfinite(values)):
            raise Problem(f"{name} is {values.tolist()}. Widths and heights of anchor boxes are positive.")
        return values.reshape(count, 2)

    @property
    def per_sample(self) -> bool:
        """Whether there is one loss per sample instead of one per element."""
        return self.function in PER_SAMPLE

    @property
    def losses_per_sample(self) -> int:
        """Losses of one sample that reduction None gives."""
        return 1 if self.per_sample else self.width

    @property
    def reduces(self) -> bool:
        return self.reduction != Reduction.NONE

    def _check_output(self, y: View, who: str) -> Operand:
        """What one sample (or, reduced, the call) writes to ``out``."""
        if self.reduces:
            if y.count != 1:
                raise Problem(
                    f"{who}: o_desc is {describe(y)}, but reduction {reduction_name(self.reduction)} gives one value. "
                    "Describe a Vector of size 1."
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
            f"{who}: o_desc is {describe(y)}, but {function_name(self.function)} with reduction None gives {what}. "
            f"Describe a Vector of size {each}."
        )

    def _prepare(self) -> None:
        if engines._core is None:
            return
        self.plan = native.plan(self.settings, self.width)
        fixed = []
        if self.anchors is not None:
            if self.anchors.address is None:
                return
            fixed = [(ANCHORS, self.anchors.address, self.anchors.view.count)]
        if not (self.input.fast and self.output.fast):
            return
        core = engines._core
        x = fast_argument(X, self.input, needed_with=1 << OUT | 1 << DX)
        labels = fast_argument(LABELS, self.input, needed_with=1 << OUT | 1 << DX)
        weights = core.argument(WEIGHTS, _COUNTED, True, False, False, self.weights_per_sample, 0, 0, 0, 0, [], [])
        out = fast_argument(OUT, self.output, output=True, strided=False, batched=not self.reduces, needed_with=1 << X)
        dx = fast_argument(DX, self.input, output=True, descriptor=True)
        arriving = fast_argument(DOUT, self.output, descriptor=True, batched=not self.reduces, needed_with=1 << DX)
        self.fast_forward = core.FastCall(self.plan, False, [x, labels, weights, out, dx], fixed, self.threads).run
        self.fast_backward = core.FastCall(self.plan, True, [x, dx, labels, weights, arriving], fixed, self.threads).run

    @property
    def weights_per_sample(self) -> int:
        """How many weights a sample has when there is more than one for everything; 0 if that cannot be."""
        if self.function == Function.YOLO:
            return 0
        return 1 if self.function == Function.SOFTMAX_CROSS_ENTROPY else self.width

    # Arguments of both calls.

    def _bind_inputs(
        self, caller: Caller, batch: int, in_: Any, in_stride: Any, labels: Any, labels_stride: Any, weights: Any,
        weights_size: Any,
    ) -> _Inputs:  # fmt: skip
        x = self.input.bind(caller("in"), in_, batch, in_stride)
        t = self.input.bind(caller("labels"), labels, batch, labels_stride)
        return _Inputs(batch, x, t, self._bind_weights(caller, batch, weights, weights_size))

    def _bind_weights(self, caller: Caller, batch: int, weights: Any, weights_size: Any) -> Bound | None:
        count = check_count(weights_size, caller("weights_size"))
        if count == 0:
            return None
        each = self.weights_per_sample
        if count != 1 and (each == 0 or count != batch * each):
            several = "" if each == 0 else f" or {batch * each} (one per {'sample' if each == 1 else 'element'})"
            raise Problem(
                f"{caller('weights_size')} is {count}, but {function_name(self.function)} on {batch} sample(s) of "
                f"{self.width} takes 0 (none), 1 (one for everything){several}. Pass one of these."
            )
        return bind(_vector(count), (0,), (count,), caller("weights"), weights, 1, 0)

    # Forward.

    def apply_loss_batch(
        self, caller: Caller, batch: Any, in_: Any, in_stride: Any, labels: Any, labels_stride: Any, weights: Any,
        weights_size: Any, out: Any, in_delta: Any, in_delta_stride: Any,
    ) -> None:  # fmt: skip
        self.require_alive(caller)
        batch = check_count(batch, caller("batch_size"))
        inputs = self._bind_inputs(caller, batch, in_, in_stride, labels, labels_stride, weights, weights_size)
        y = self.output.bind(caller("out"), out, 1 if self.reduces else batch, 0, output=True)
        dx = None
        if in_delta is not None:
            dx = self.input.bind_delta(caller("in_delta"), in_delta, batch, in_delta_stride, output=True)
            if dx.overlaps(y):
                raise Problem(
                    f"{caller('in_delta')}.data and out share memory, so one result would overwrite the other. Give "
                    "each its own buffer."
                )
        if batch or self.reduces:
            self._run_forward(inputs, y, dx)

    def _run_forward(self, inputs: _Inputs, y: Bound, dx: Bound | None) -> None:
        if not engines.is_native():
            settings, numbers = self._settings64(), self._read64(inputs)
            losses = reference.forward(settings, *numbers)
            gradient = None if dx is None else reference.gradient(settings, *numbers)
            y.write(losses.reshape(y.batch, *y.shape))
            if dx is not None and gradient is not None:
                dx.write(gradient)
            return
        staged = np.empty((y.batch, *y.shape), np.float32)
        gradient = self._run_native(inputs, dx, losses=staged)
        y.write(staged)
        if dx is not None and gradient is not None:
            dx.write(gradient)

    def _settings64(self) -> reference.Loss:
        """The settings with the anchors as they are now."""
        yolo = self.settings.yolo
        if yolo is None or self.anchors is None:
            return self.settings
        return replace(self.settings, yolo=replace(yolo, anchors=self.anchors.read(np.float64).reshape(-1, 2)))

    def _read64(self, inputs: _Inputs) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
        weights = None if inputs.weights is None else inputs.weights.read(np.float64)[0]
        return inputs.x.read(np.float64), inputs.labels.read(np.float64), weights

    def _run_native(
        self, inputs: _Inputs, dx: Bound | None, *, losses: NDArray[Any] | None = None, upstream: Bound | None = None
    ) -> NDArray[Any] | None:
        """Run the plan, backward if there is an upstream gradient.

        Returns the gradient if it could not be written to its place, because of its form or an overlap.
        """
        tensors = {X: inputs.x.read(np.float32), LABELS: inputs.labels.read(np.float32)}
        if losses is not None:
            tensors[OUT] = losses
        if upstream is not None:
            tensors[DOUT] = upstream.read(np.float32)
        if inputs.weights is not None:
            tensors[WEIGHTS] = inputs.weights.read(np.float32)[0]
        if self.anchors is not None:
            tensors[ANCHORS] = self.anchors.read(np.float32)
        staged, accumulate = None, 0
        if dx is not None:
            sources = [s for s in (inputs.x, inputs.labels, inputs.weights, upstream) if s is not None]
            safe = not any(dx.overlaps(s) for s in sources) and not self._touches_anchors(dx)
            target = dx.direct() if safe else None
            if target is None:
                staged = target = np.empty((dx.batch, *dx.shape), np.float32)
            elif dx.accumulate:
                accumulate = 1 << DX
            tensors[DX] = target
        strides = {slot: a.strides[0] // 4 for slot, a in tensors.items() if slot != WEIGHTS}
        count = tensors[WEIGHTS].size if WEIGHTS in tensors else 0
        strides[WEIGHTS] = 0 if count <= 1 else self.weights_per_sample
        places = [(slot, a.ctypes.data, strides[slot]) for slot, a in tensors.items()]
        engines._core.run(self.plan, upstream is not None, inputs.batch, places, accumulate, self.threads)
        return staged

    def _touches_anchors(self, dx: Bound) -> bool:
        return self.anchors is not None and dx.touches(self.anchors.memory)

    # Backward.

    def apply_backward_loss_batch(
        self, caller: Caller, batch: Any, in_: Any, in_stride: Any, in_delta: Any, in_delta_stride: Any, labels: Any,
        labels_stride: Any, weights: Any, weights_size: Any, out_delta: Any, out_delta_stride: Any,
    ) -> None:  # fmt: skip
        self.require_alive(caller)
        batch = check_count(batch, caller("batch_size"))
        inputs = self._bind_inputs(caller, batch, in_, in_stride, labels, labels_stride, weights, weights_size)
        if out_delta is None:
            raise Problem(
                f"{caller('out_delta')} is NULL. It is the gradient arriving at the loss; without one, take the "
                "gradient from in_delta of BNNSLossFilterApplyBatch."
            )
        dy = self._bind_upstream(caller, batch, out_delta, out_delta_stride)
        if in_delta is None:
            raise Problem(f"{caller('in_delta')} is NULL, but it is all that this call computes. Pass a descriptor.")
        dx = self.input.bind_delta(caller("in_delta"), in_delta, batch, in_delta_stride, output=True)
        if batch == 0:
            return
        if not engines.is_native():
            x, t, w = self._read64(inputs)
            dx.write(reference.backward(self._settings64(), x, t, dy.read(np.float64), w))
            return
        gradient = self._run_native(inputs, dx, upstream=dy)
        if gradient is not None:
            dx.write(gradient)

    def _bind_upstream(self, caller: Caller, batch: int, out_delta: Any, stride: Any) -> Bound:
        """One value when reduced; else one per loss, ``stride`` apart from sample to sample."""
        who = caller("out_delta")
        view = resolve_delta(out_delta, who, self.output.view, output=False)
        each = self.output.view.count
        samples, stride = (1, 0) if self.reduces else (batch, check_count(stride, caller("out_delta_stride")))
        if view.count != each and not self.reduces and view.count == batch * each and view.packed:  # the whole batch
            view = _vector(each)
        if view.count != each:
            what = "one value, as the loss is reduced" if self.reduces else f"{each} value(s) for one sample"
            raise Problem(
                f"{who} is {describe(view)}, but the gradient of out is {what}. Describe a Vector of size {each}."
            )
        return bind(view, view.memory_axes, self.output.shape, f"{who}.data", out_delta.data, samples, stride)
