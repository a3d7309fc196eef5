"""Normalization of images and vectors."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from .._spelling import unexpected
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersNormalization, BNNSNDArrayDescriptor
from ..calls.form import form
from ..errors import Problem
from ..filters.normalization import Normalization
from ._base import BACKWARD_NAMES, UnaryLayer, client_pointer, port_of
from ._ports import (
    Arguments,
    Port,
    TensorLike,
    as_array,
    describe_parameter,
    describe_sample,
    memory,
    require,
    struct_of,
)
from .types import ActivationFunction, DataLayout, LearningPhase, NormalizationType


class NormalizationGradients(NamedTuple):
    """What the backward pass of a normalization gives; ``None`` where a gradient was skipped or does not exist.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = NormalizationLayer(
    ...     type=NormalizationType.batch(), input=Shape.vector(1), gamma=np.float32([1]), beta=np.float32([0]), epsilon=0
    ... )
    >>> y = layer.apply(np.float32([[1], [3]]), phase=LearningPhase.TRAINING)
    >>> dx, dbeta, dgamma = layer.apply_backward(output=y, output_gradient=np.float32([[5], [7]]))
    >>> dbeta.tolist(), dgamma.tolist()
    ([12.0], [2.0])
    """

    input: Any = None
    beta: Any = None
    gamma: Any = None


def names_of_type(argument: str) -> dict[str, str]:
    """Where constructors have fields of C that belong to the type of a normalization, given as this argument."""
    return {
        "moving_mean_desc": f"moving_mean of {argument}", "moving_variance_desc": f"moving_variance of {argument}",
        "num_groups": f"group_count of {argument}", "normalization_axis": f"normalization_axis of {argument}",
    }  # fmt: skip


class NormalizationLayer(UnaryLayer):
    """Normalization: xhat = (x - mean) / sqrt(variance + epsilon), output = activation(gamma * xhat + beta).

    Arrays, all float32: ``input`` and ``output`` (N, C, H, W) or (N, C), also without the batch axis N. ``beta`` and
    ``gamma`` have one value per channel, (C,), but for ``NormalizationType.layer``: there they have the shape of one
    sample, (C, H, W), or of its last axes, with size 1 along axes on which they are constant. They may be left out (0 and
    1). ``type`` holds the moving statistics (C,) of ``batch`` and ``instance``, which training updates in place:
    moving = momentum * moving + (1 - momentum) * current.

    ``apply`` with ``phase=LearningPhase.TRAINING`` keeps a copy of its input and its statistics; ``apply_backward``
    belongs to the latest such call and must see the same batch.

    >>> import numpy as np
    >>> from openbnns import *
    >>> from openbnns import Shape
    >>> layer = NormalizationLayer(type=NormalizationType.layer(normalization_axis=0), input=Shape.vector(4), epsilon=0)
    >>> layer.apply(np.float32([[1, 2, 3, 4]]), phase=LearningPhase.INFERENCE).round(4)
    array([[-1.3416, -0.4472,  0.4472,  1.3416]], dtype=float32)
    >>> y = layer.apply(np.float32([[1, 2, 3, 4]]), phase=LearningPhase.TRAINING)
    >>> layer.apply_backward(output=y, output_gradient=np.float32([[0, 1, 0, 0]])).input.round(4)
    array([[-0.3578,  0.6261, -0.1789, -0.0894]], dtype=float32)
    """

    _words: ClassVar[dict[str, str]] = UnaryLayer._words | {
        "moving_mean_desc": "moving_mean of type",
        "moving_variance_desc": "moving_variance of type",
        "beta_delta": "generating_beta_gradient",
        "gamma_delta": "generating_gamma_gradient",
        "BNNSNormalizationFilterApplyBatch with training = true": "apply with phase=LearningPhase.TRAINING",
    }
    _names: ClassVar[dict[str, str]] = {"beta_desc": "beta", "gamma_desc": "gamma"} | names_of_type("type")
    _weights_argument = "generating_gamma_gradient"
    _bias_argument = "generating_beta_gradient"
    _filter: Normalization

    def __init__(
        self,
        *,
        type: NormalizationType,
        input: Any,
        output: Any = None,
        beta: Any = None,
        gamma: Any = None,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        activation: ActivationFunction | None = None,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        activation = ActivationFunction.identity() if activation is None else activation

        def make(who: Caller) -> Normalization:
            require(type, NormalizationType, f"{who}: type", "NormalizationType.batch()")
            x = describe_sample(input, f"{who}: input")
            y = _like(x) if output is None else describe_sample(output, f"{who}: output")
            in_place = client_pointer(filter_parameters)
            b, g = (
                _parameter(v, f"{who}: {n}", type, Port(x), in_place) for v, n in ((beta, "beta"), (gamma, "gamma"))
            )
            mean, variance = (
                None
                if v is None
                else describe_parameter(v, f"{who}: {n}", DataLayout.VECTOR, "(C,)", client_pointer=True)
                for v, n in ((type.moving_mean, "moving_mean"), (type.moving_variance, "moving_variance"))
            )
            parameters = struct_of(
                BNNSLayerParametersNormalization, who, i_desc=x, o_desc=y, beta_desc=b, gamma_desc=g,
                moving_mean_desc=mean, moving_variance_desc=variance, momentum=momentum, epsilon=epsilon,
                activation=activation.bnns_activation, num_groups=type.group_count,
                normalization_axis=type.normalization_axis,
            )  # fmt: skip
            made = Normalization(parameters, filter_parameters, who, type.bnns_filter_type)
            self._input, self._output = Port(x), Port(y)
            self._bias, self._weights = _parameter_port(b, beta), _parameter_port(g, gamma)
            return made

        self._create(make, filter_parameters, activation)
        self._summary = {
            "type": type,
            "input": self._input,
            "beta": self._bias,
            "gamma": self._weights,
            "momentum": momentum,
            "epsilon": epsilon,
            "activation": activation if activation.case != "identity" else None,
        }

    def apply(  # type: ignore[override]
        self,
        input: TensorLike,
        output: TensorLike | None = None,
        *,
        phase: LearningPhase,
        batch_size: int | None = None,
        **misspelled: NoReturn,
    ) -> TensorLike:
        """Run the layer forward, for training or for inference.

        ``input`` is one sample or a batch. ``output`` is written and returned; when left out it is a new array. It may
        be ``input``.
        """
        if misspelled:
            raise unexpected(self.apply, misspelled)
        if type(input) is np.ndarray and type(phase) is LearningPhase:
            shape = input.shape
            lead = self._input.lead(shape, batch_size)
            if lead is not None:
                target = np.empty(shape, self._output.dtype) if output is None else output
                if type(target) is np.ndarray and target.shape == shape:
                    run = self._filter.native(_APPLY[phase])
                    if run(lead[0] if lead else 1, input, 0, target, 0) == 0:
                        return target
        return self._attempt(self._apply_in_phase, input, output, phase, batch_size)

    def _apply_in_phase(self, input: Any, output: Any, phase: Any, batch_size: Any) -> TensorLike:
        caller = self._apply_caller
        self._filter.require_alive(caller)
        if not isinstance(phase, LearningPhase):
            raise Problem(
                f"{caller.function}: phase must be LearningPhase.TRAINING or LearningPhase.INFERENCE, not "
                f"{type(phase).__name__}.",
                kind=TypeError,
            )
        arguments = Arguments(caller.function, batch_size)
        x = arguments.take("input", self._input, input)
        y = None if output is None else arguments.take("output", self._output, output, output=True)
        arguments.settle()
        if y is None:
            y = output = self._output.empty(arguments.axis, f"{caller.function}: output")
        tensors = {"in": (memory(x), 0), "out": (memory(y), 0)}
        self._filter.perform("apply_normalization", caller, arguments.batch, tensors, phase.is_training)
        return output

    def apply_backward(
        self,
        input: TensorLike | None = None,
        output: TensorLike | None = None,
        output_gradient: TensorLike | None = None,
        generating_input_gradient: Any = None,
        generating_beta_gradient: Any = None,
        generating_gamma_gradient: Any = None,
        *,
        batch_size: int | None = None,
        accumulate: bool = False,
        **misspelled: NoReturn,
    ) -> NormalizationGradients:
        """Run the layer backward: the gradients with respect to input, beta and gamma, those of the parameters summed.

        Follows an ``apply`` with ``phase=LearningPhase.TRAINING`` on the same batch. ``input`` has no effect, because that
        call kept it; ``output`` is needed with an activation. ``output_gradient`` arrives from the next layer.
        """
        if misspelled:
            raise unexpected(self.apply_backward, misspelled)
        dx, dgamma, dbeta = self._backward(
            input, output, output_gradient, batch_size, accumulate, generating_input_gradient, generating_gamma_gradient,
            generating_beta_gradient,
        )  # fmt: skip
        return NormalizationGradients(dx, dbeta, dgamma)

    def _run_backward(self, caller: Caller, batch: int, x: Any, dx: Any, y: Any, dy: Any, dw: Any, db: Any) -> None:
        tensors = {
            "in_delta": (dx, 0), "out": (y, 0), "out_delta": (dy, 0), "beta_delta": (db, 0), "gamma_delta": (dw, 0),
        }  # fmt: skip
        self._filter.perform("apply_backward_normalization", caller, batch, tensors)

    def _run_backward_fast(self, batch: int, x: Any, dx: Any, y: Any, dy: Any, dw: Any, db: Any) -> Any:
        return self._filter.native(_BACKWARD)(batch, dx, 0, y, 0, dy, 0, db, dw)


_APPLY = {
    phase: form("apply_normalization", "batch_size in in_stride out out_stride", phase.is_training)
    for phase in LearningPhase
}
_BACKWARD = form(
    "apply_backward_normalization",
    "batch_size in_delta in_delta_stride out out_stride out_delta out_delta_stride beta_delta gamma_delta",
)
NormalizationLayer._backward_caller = Caller(
    "NormalizationLayer.apply_backward",
    BACKWARD_NAMES | {"beta_delta": "generating_beta_gradient", "gamma_delta": "generating_gamma_gradient"},
)


def _like(x: BNNSNDArrayDescriptor) -> BNNSNDArrayDescriptor:
    """The output of a layer that was given only an input: packed, of the same element type."""
    return BNNSNDArrayDescriptor(layout=x.layout, size=list(x.size), data_type=x.data_type)


def _parameter(value: Any, who: str, type: NormalizationType, x: Port, in_place: bool) -> BNNSNDArrayDescriptor | None:
    """beta or gamma; an absent one may be a descriptor without data, as in Swift."""
    if value is None or (isinstance(value, BNNSNDArrayDescriptor) and value.data is None):
        return None
    if isinstance(value, BNNSNDArrayDescriptor) or type.case != "layer" or len(x.shape) == 1:
        return describe_parameter(value, who, DataLayout.VECTOR, "(C,)", client_pointer=in_place)
    array = as_array(value, who)
    if array.ndim < 3 and array.flags.c_contiguous:
        array = array.reshape((1,) * (3 - array.ndim) + array.shape)
    return describe_parameter(array, who, DataLayout.IMAGE_CHW, "(C, H, W)", client_pointer=in_place)


def _parameter_port(descriptor: BNNSNDArrayDescriptor | None, value: Any) -> Port | None:
    """Gradients of an array have its own shape, also where the descriptor has more axes."""
    if descriptor is None or isinstance(value, BNNSNDArrayDescriptor):
        return port_of(descriptor)
    return Port(descriptor, batched=False, shape=as_array(value, "parameter").shape)
