"""Losses: how far predictions are from labels, and the gradient of that with respect to the predictions."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from .._spelling import unexpected
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..calls.form import form
from ..errors import Problem
from ..filters.loss import Loss
from ..reference.loss import PER_SAMPLE
from ..tensors import descriptors
from ..tensors.descriptors import FLOAT32
from ._base import GradientArguments, InputGradient, Layer
from ._ports import Arguments, Delta, Port, TensorLike, as_array, describe_sample, memory, require
from ._shape import Shape
from .types import LossFunction, LossReduction


class LossResult(NamedTuple):
    """What a loss layer gives: the loss, and its gradient with respect to the input (``None`` if skipped).

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = LossLayer(
    ...     input=Shape.vector(1), loss_function=LossFunction.mean_square_error(), loss_reduction=LossReduction.MEAN
    ... )
    >>> loss, gradient = layer.apply(np.float32([[3], [5]]), np.float32([[1], [1]]))
    >>> loss.tolist(), gradient.tolist()
    ([10.0], [[2.0], [4.0]])
    """

    output: Any = None
    input_gradient: Any = None


class LossLayer(Layer):
    """The loss of predictions against labels, reduced to one value or left as it is.

    ``input`` describes one sample of the predictions; labels have the same shape. ``output`` may be left out. With a
    reduction the output is an array of shape (1,). With ``LossReduction.NONE`` it holds one value per element, or per
    sample, (N, 1), for softmax and categorical cross entropy and the cosine distance.

    The formulas are on the docs page of losses.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = LossLayer(
    ...     input=Shape.vector(2),
    ...     loss_function=LossFunction.mean_square_error(),
    ...     loss_reduction=LossReduction.MEAN,
    ... )
    >>> loss, gradient = layer.apply(np.array([[3, 5]], np.float32), np.array([[1, 1]], np.float32))
    >>> loss, gradient
    (array([10.], dtype=float32), array([[2., 4.]], dtype=float32))
    >>> layer.apply_backward(np.float32([[3, 5]]), np.float32([[1, 1]]), output_gradient=np.float32([10])).input.tolist()
    [[20.0, 40.0]]
    """

    _words = Layer._words | {"out": "output", "BNNSLossFilterApplyBatch": "LossLayer.apply"}
    _names: ClassVar[dict[str, str]] = {
        "function": "loss_function",
        "reduction": "loss_reduction",
        "label_smooth": "label_smoothing",
        "number_of_grid_rows": "grid_rows_count",
        "number_of_grid_columns": "grid_column_count",
        "number_of_anchor_boxes": "anchor_box_count",
        "scale_xy": "xy_scale",
        "scale_wh": "wh_scale",
        "scale_object": "object_scale",
        "scale_no_object": "no_object_scale",
        "scale_classification": "classification_scale",
        "BNNSLossReductionSum": "LossReduction.SUM",
    }
    _filter: Loss
    _input: Port
    _output: Port

    def __init__(
        self,
        *,
        input: Any,
        output: Any = None,
        loss_function: LossFunction,
        loss_reduction: LossReduction,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        def make(who: Caller) -> Loss:
            require(loss_function, LossFunction, f"{who}: loss_function", "LossFunction.mean_square_error()")
            require(loss_reduction, LossReduction, f"{who}: loss_reduction", "LossReduction.MEAN")
            x = describe_sample(input, f"{who}: input")
            y = _describe_output(output, x, loss_function, loss_reduction, who)
            made = Loss(loss_function.bnns_layer_parameters(x, y, loss_reduction.value), filter_parameters, who)
            self._input = Port(x)
            if made.output.view.count != Port(y).view.count:  # the losses of a whole batch
                y = Shape.vector(made.output.view.count).descriptor()
            self._output = Port(y, batched=not made.reduces)
            return made

        self._create(make, filter_parameters)
        self._summary = {
            "input": self._input,
            "output": self._output,
            "loss_function": loss_function,
            "loss_reduction": loss_reduction,
        }

    # Forward.

    def apply(
        self,
        input: TensorLike,
        labels: TensorLike,
        output: TensorLike | None = None,
        weights: TensorLike | None = None,
        generating_input_gradient: Any = None,
        *,
        broadcasts_weights: bool = False,
        batch_size: int | None = None,
        accumulate: bool = False,
        **misspelled: NoReturn,
    ) -> LossResult:
        """The loss, and its gradient as if the loss were the last layer.

        ``weights`` holds one weight per loss: per sample for softmax cross entropy, per element for all others. With
        ``broadcasts_weights`` it is one weight for everything.
        """
        if misspelled:
            raise unexpected(self.apply, misspelled)
        result = self._apply_fast(
            input, labels, output, weights, generating_input_gradient, broadcasts_weights, batch_size, accumulate
        )
        if result is not None:
            return result
        return self._attempt(
            self._apply_checked, input, labels, output, weights, generating_input_gradient, broadcasts_weights,
            batch_size, accumulate,
        )  # fmt: skip

    def _apply_fast(
        self, x: Any, labels: Any, output: Any, weights: Any, gradient: Any, broadcasts: bool, batch_size: Any,
        accumulate: bool,
    ) -> LossResult | None:  # fmt: skip
        if type(x) is not np.ndarray or type(labels) is not np.ndarray:
            return None
        shape = x.shape
        if (
            shape[1:] != self._input.shape
            or labels.shape != shape
            or not (batch_size is None or (type(batch_size) is int and batch_size == shape[0]))
        ):
            return None
        count = 0
        if weights is not None:
            if type(weights) is not np.ndarray or (weights.size == 1) is not broadcasts:
                return None
            count = weights.size
        wanted = self._output.full_shape(shape[0])
        target = np.empty(wanted, np.float32) if output is None else output
        if type(target) is not np.ndarray or target.shape != wanted:
            return None
        part = self._input.quick(gradient, shape, 1 if accumulate else 0) if type(accumulate) is bool else None
        if (
            part is None
            or self._filter.native(_APPLY)(shape[0], x, 0, labels, 0, weights, count, target, part[1], 0) != 0
        ):
            return None
        return LossResult(target, part[0])

    def _apply_checked(
        self, x: Any, labels: Any, output: Any, weights: Any, gradient: Any, broadcasts: bool, batch_size: Any,
        accumulate: bool,
    ) -> LossResult:  # fmt: skip
        caller = self._apply_caller
        self._filter.require_alive(caller)
        arguments = Arguments(caller.function, batch_size)
        x = arguments.take("input", self._input, x)
        labels = arguments.take("labels", self._input, self._one_hot(caller.function, labels))
        y = None if output is None else arguments.take("output", self._output, self._column(output), output=True)
        gradients = GradientArguments(arguments, accumulate)
        gradients.take("generating_input_gradient", self._input, gradient)
        arguments.settle()
        if y is None:
            y = output = self._output.empty(arguments.axis, f"{caller.function}: output")
        w, count = self._weights(caller.function, weights, broadcasts, arguments.batch)
        delta = gradients.descriptors()[0]
        tensors = {
            "in": (memory(x), 0), "labels": (memory(labels), 0), "weights": (w, count), "out": (memory(y), 0),
            "in_delta": (delta, 0),
        }  # fmt: skip
        self._filter.perform("apply_loss", caller, arguments.batch, tensors)
        return LossResult(output, gradients.results[0])

    def _one_hot(self, who: str, labels: Any) -> Any:
        """Refuse class numbers, which other libraries take, with what to pass instead."""
        if (
            type(labels) is np.ndarray
            and labels.dtype.kind in "iu"
            and labels.ndim <= 1
            and len(self._input.shape) == 1
        ):
            raise Problem(
                f"{who}: labels are {labels.dtype} of shape {labels.shape}, but a loss takes a float32 value for every "
                f"input. If they are class numbers, pass np.eye({self._input.shape[0]}, dtype=np.float32)[labels].",
                kind=TypeError,
            )
        return labels

    def _column(self, value: Any) -> Any:
        """Losses or upstream gradients of one per sample may come as (N,) instead of (N, 1)."""
        if type(value) is np.ndarray and value.ndim == 1 and self._output.batched and self._filter.per_sample:
            return value.reshape(-1, 1) if value.flags.c_contiguous else value[:, None]
        return value

    def _weights(self, who: str, weights: Any, broadcasts: bool, batch: int) -> tuple[Any, int]:
        """Memory and number of the weights."""
        if weights is None:
            return None, 0
        if isinstance(weights, BNNSNDArrayDescriptor):
            view = descriptors.resolve(weights, f"{who}: weights")
            if view.element is not FLOAT32 or not view.packed:
                raise Problem(f"{who}: weights must be packed Float32. Describe a Vector of Float32 without strides.")
            data, count = weights.data, view.count
        else:
            array = as_array(weights, f"{who}: weights")
            if array.dtype != np.float32:
                raise Problem(
                    f"{who}: weights is {array.dtype}, but this layer takes float32 here. Pass the array's "
                    ".astype(np.float32).",
                    kind=TypeError,
                )
            data, count = np.ascontiguousarray(array), array.size
        if broadcasts and count != 1:
            raise Problem(
                f"{who}: weights has {count} values, but broadcasts_weights asks for one weight for everything. Pass "
                "one value, or leave broadcasts_weights out."
            )
        each = self._filter.weights_per_sample
        if not broadcasts and count != batch * each:
            per = "sample" if each == 1 else "element"
            several = f"one per {per}, {batch * each} in all; or " if each else ""
            raise Problem(f"{who}: weights has {count} value(s). Pass {several}one value with broadcasts_weights=True.")
        return data, count

    # Backward.

    def apply_backward(
        self,
        input: TensorLike,
        labels: TensorLike,
        output_gradient: TensorLike,
        weights: TensorLike | None = None,
        generating_input_gradient: Any = None,
        *,
        broadcasts_weights: bool = False,
        batch_size: int | None = None,
        accumulate: bool = False,
        **misspelled: NoReturn,
    ) -> InputGradient:
        """The gradient with respect to the input, chained with what arrives at the loss.

        ``output_gradient`` has the shape of the output; a number will do where that is one value.
        """
        if misspelled:
            raise unexpected(self.apply_backward, misspelled)
        upstream = self._upstream(output_gradient)
        if type(input) is np.ndarray and type(labels) is np.ndarray and weights is None:
            shape = input.shape
            fits = shape[1:] == self._input.shape and labels.shape == shape and type(accumulate) is bool
            fits = fits and (batch_size is None or (type(batch_size) is int and batch_size == shape[0]))
            if fits and type(upstream) is np.ndarray and upstream.shape == self._output.full_shape(shape[0]):
                part = self._input.quick(generating_input_gradient, shape, 1 if accumulate else 0)
                if part is not None and part[1] is not None:
                    arriving = Delta(self._output, upstream, 0)
                    run = self._filter.native(_BACKWARD)
                    if run(shape[0], input, 0, part[1], 0, labels, 0, None, 0, arriving, 0) == 0:
                        return InputGradient(part[0])
        return self._attempt(
            self._backward_checked, input, labels, upstream, weights, generating_input_gradient, broadcasts_weights,
            batch_size, accumulate,
        )  # fmt: skip

    def _upstream(self, value: Any) -> Any:
        if self._output.batched:
            return self._column(value)
        if isinstance(value, numbers.Real) and not isinstance(value, bool):
            return np.array([value], np.float32)
        if type(value) is np.ndarray and value.shape == ():
            return value.reshape(1)
        return value

    def _backward_checked(
        self, x: Any, labels: Any, upstream: Any, weights: Any, gradient: Any, broadcasts: bool, batch_size: Any,
        accumulate: bool,
    ) -> InputGradient:  # fmt: skip
        caller = self._backward_caller
        self._filter.require_alive(caller)
        arguments = Arguments(caller.function, batch_size)
        x = arguments.take("input", self._input, x)
        labels = arguments.take("labels", self._input, self._one_hot(caller.function, labels))
        dy = arguments.take("output_gradient", self._output, upstream)
        gradients = GradientArguments(arguments, accumulate)
        gradients.take("generating_input_gradient", self._input, gradient)
        arguments.settle()
        w, count = self._weights(caller.function, weights, broadcasts, arguments.batch)
        delta = gradients.descriptors()[0]
        if delta is None:
            return InputGradient(None)
        tensors = {
            "in": (memory(x), 0), "in_delta": (delta, 0), "labels": (memory(labels), 0), "weights": (w, count),
            "out_delta": (self._output.delta(dy, False), 0),
        }  # fmt: skip
        self._filter.perform("apply_backward_loss", caller, arguments.batch, tensors)
        return InputGradient(gradients.results[0])


_APPLY = form(
    "apply_loss",
    "batch_size in in_stride labels labels_stride weights weights_size out in_delta in_delta_stride",
)
_BACKWARD = form(
    "apply_backward_loss",
    "batch_size in in_stride in_delta in_delta_stride labels labels_stride weights weights_size out_delta "
    "out_delta_stride",
)


def _describe_output(
    output: Any, x: BNNSNDArrayDescriptor, function: LossFunction, reduction: LossReduction, who: Caller
) -> BNNSNDArrayDescriptor:
    """The descriptor of the losses of one sample, or of the one value that is left of them."""
    if isinstance(output, (Shape, BNNSNDArrayDescriptor)):
        described = output.descriptor() if isinstance(output, Shape) else output.copy()
        described.data = None
        return described
    single = reduction is not LossReduction.NONE or int(function.bnns_loss_function) in PER_SAMPLE
    if output is not None:
        array = as_array(output, f"{who}: output")
        if reduction is not LossReduction.NONE and array.size != 1:
            raise Problem(
                f"{who}: output has shape {array.shape}, but {reduction} gives one value. Pass an array of shape (1,)."
            )
    if single:
        return Shape.vector(1).descriptor()
    described = x.copy() if output is None else describe_sample(output, f"{who}: output", rank=len(Port(x).shape))
    described.data = None
    return described
