"""Losses: how far predictions are from labels, and the gradient of that with respect to the predictions."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._plural import plural
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..errors import Problem
from ..filters.loss import Loss
from ..parameters.loss import PER_SAMPLE
from ..tensors import descriptors
from ..tensors.descriptors import FLOAT32
from ._methods import DECLARED, method
from ._ports import Port, TensorLike, as_array, describe_sample, require
from .base import InputGradient, Layer
from .shape import Shape
from .types import LossFunction, LossReduction

__all__ = ["LossLayer", "LossResult"]


class LossResult(NamedTuple):
    """The result of a loss layer: the loss, and its gradient with respect to the input (``None`` if skipped).

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
            return Loss(loss_function.bnns_layer_parameters(x, y, loss_reduction.value), filter_parameters, who)

        self._create(make, filter_parameters)
        self._summary = {
            "input": self._filter.input,
            "output": self._filter.output,
            "loss_function": loss_function,
            "loss_reduction": loss_reduction,
        }

    @method("apply_loss", returns=LossResult, leading=("input",))
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
    ) -> LossResult:
        """The loss, and its gradient as if the loss were the last layer.

        ``weights`` holds one weight per loss: per sample for softmax cross entropy, per element for all others. With
        ``broadcasts_weights`` it is one weight for everything.
        """
        raise DECLARED

    @method("apply_backward_loss", returns=InputGradient, leading=("input",))
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
    ) -> InputGradient:
        """The gradient with respect to the input, chained with the gradient of the loss.

        ``output_gradient`` has the shape of the output; a number will do where that is one value.
        """
        raise DECLARED

    # What the arguments may be besides arrays of the right shape.

    def _converted(self, caller: Caller, name: str, value: Any) -> Any:
        if name == "labels":
            self._refuse_class_numbers(caller, value)
        if name not in ("output", "output_gradient"):
            return value
        if not self._filter.reduces:  # one per sample may come as (N,) instead of (N, 1)
            if type(value) is np.ndarray and value.ndim == 1 and self._filter.per_sample:
                return value.reshape(-1, 1) if value.flags.c_contiguous else value[:, None]
        elif name == "output_gradient":
            if isinstance(value, numbers.Real) and not isinstance(value, bool):
                return np.array([value], np.float32)
            if type(value) is np.ndarray and value.shape == ():
                return value.reshape(1)
        return value

    def _refuse_class_numbers(self, caller: Caller, labels: Any) -> None:
        """Class numbers are what other libraries take."""
        shape = self._filter.input.view.shape
        if type(labels) is np.ndarray and labels.dtype.kind in "iu" and labels.ndim <= 1 and len(shape) == 1:
            raise Problem(
                f"{caller('labels')} are {labels.dtype} of shape {labels.shape}, but a loss takes a float32 value for every "
                f"input. If they are class numbers, pass np.eye({shape[0]}, dtype=np.float32)[labels].",
                kind=TypeError,
            )

    def _counted(self, who: str, value: Any, broadcasts: bool, batch: int) -> tuple[Any, int]:
        """Memory and number of the weights."""
        if value is None:
            return None, 0
        if isinstance(value, BNNSNDArrayDescriptor):
            view = descriptors.resolve(value, who)
            if view.element is not FLOAT32 or not view.packed:
                raise Problem(f"{who} must be packed Float32. Describe a Vector of Float32 without strides.")
            data, count = value.data, view.count
        else:
            array = as_array(value, who)
            if array.dtype != np.float32:
                raise Problem(
                    f"{who} is {array.dtype}, but this layer takes float32 here. Pass the array's .astype(np.float32).",
                    kind=TypeError,
                )
            data, count = np.ascontiguousarray(array), array.size
        if broadcasts and count != 1:
            raise Problem(
                f"{who} has {count} values, but broadcasts_weights asks for one weight for everything. Pass "
                "one value, or leave broadcasts_weights out."
            )
        each = self._filter.weights_per_sample
        if not broadcasts and count != batch * each:
            per = "sample" if each == 1 else "element"
            several = f"one per {per}, {batch * each} in all; or " if each else ""
            raise Problem(f"{who} has {plural(count, 'value')}. Pass {several}one value with broadcasts_weights=True.")
        return data, count


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
