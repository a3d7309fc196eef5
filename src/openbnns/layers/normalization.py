"""Normalization of images and vectors."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersNormalization, BNNSNDArrayDescriptor
from ..filters.normalization import Normalization
from ._methods import DECLARED, method
from ._ports import Port, TensorLike, as_array, describe_parameter, describe_sample, describe_vector, require, struct_of
from .base import UnaryLayer, client_pointer
from .types import ActivationFunction, DataLayout, LearningPhase, NormalizationType

__all__ = ["NormalizationGradients", "NormalizationLayer"]


class NormalizationGradients(NamedTuple):
    """The gradients of a normalization; ``None`` where a gradient was skipped or does not exist.

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
        "moving_mean_desc": f"{argument}.moving_mean", "moving_variance_desc": f"{argument}.moving_variance",
        "num_groups": f"{argument}.group_count", "normalization_axis": f"{argument}.normalization_axis",
    }  # fmt: skip


class NormalizationLayer(UnaryLayer):
    """Normalization: xhat = (x - mean) / sqrt(variance + epsilon), output = activation(gamma * xhat + beta).

    Arrays, all float32: ``input`` and ``output`` (N, C, H, W) or (N, C), also without the batch axis N. ``beta`` and
    ``gamma`` have one value per channel, (C,), except for ``NormalizationType.layer``: there they have the shape of one
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

    _names: ClassVar[dict[str, str]] = {"beta_desc": "beta", "gamma_desc": "gamma"} | names_of_type("type")
    _training_call = "apply with phase=LearningPhase.TRAINING"
    _filter: Normalization

    def __init__(
        self,
        *,
        type: NormalizationType,
        input: Any,
        output: Any = None,
        beta: Any = None,
        gamma: Any = None,
        momentum: float = 0.0,
        epsilon: float = 1e-5,
        activation: ActivationFunction | None = None,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        activation = ActivationFunction.identity() if activation is None else activation

        def make(who: Caller) -> Normalization:
            x = describe_sample(input, f"{who}: input")
            y = _like(x) if output is None else describe_sample(output, f"{who}: output")
            p = describe_normalization(
                who, client_pointer(filter_parameters), x, y, type, beta, gamma, momentum, epsilon, activation
            )
            return Normalization(p, filter_parameters, who, type.bnns_filter_type)

        self._create(make, filter_parameters, activation)
        self._array_shapes = shapes_of_arrays(beta=beta, gamma=gamma)
        self._summary = {
            "type": type,
            "input": self._filter.input,
            "beta": self._filter.beta,
            "gamma": self._filter.gamma,
            "momentum": momentum,
            "epsilon": epsilon,
            "activation": activation if activation.case != "identity" else None,
        }

    @method("apply_normalization", chooses=("phase", LearningPhase))
    def apply(  # type: ignore[override]
        self,
        input: TensorLike,
        output: TensorLike | None = None,
        *,
        phase: LearningPhase,
        batch_size: int | None = None,
    ) -> TensorLike:
        """Run the layer forward, for training or for inference.

        ``input`` is one sample or a batch. ``output`` is written and returned; when left out it is a new array. It may
        be ``input``.
        """
        raise DECLARED

    @method(
        "apply_backward_normalization", returns=NormalizationGradients, generating_beta_gradient="beta_delta",
        generating_gamma_gradient="gamma_delta",
    )  # fmt: skip
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
    ) -> NormalizationGradients:
        """Run the layer backward: the gradients with respect to input, beta and gamma, those of the parameters summed.

        Follows an ``apply`` with ``phase=LearningPhase.TRAINING`` on the same batch. ``input`` has no effect, because that
        call kept it; ``output`` is needed with an activation. ``output_gradient`` comes from the next layer.
        """
        raise DECLARED

    def _choice(self, call: str, chosen: Any) -> Any:
        return None if chosen is None else chosen.is_training


def _like(x: BNNSNDArrayDescriptor) -> BNNSNDArrayDescriptor:
    """The output of a layer that was given only an input: packed, of the same element type."""
    return BNNSNDArrayDescriptor(layout=x.layout, size=list(x.size), data_type=x.data_type)


def describe_normalization(
    who: Caller, in_place: bool, x: BNNSNDArrayDescriptor, y: BNNSNDArrayDescriptor, type: Any, beta: Any, gamma: Any,
    momentum: Any, epsilon: Any, activation: Any,
) -> BNNSLayerParametersNormalization:  # fmt: skip
    """The struct of a normalization."""
    require(type, NormalizationType, who("type"), "NormalizationType.batch()")
    require(activation, ActivationFunction, who("activation"), "ActivationFunction.tanh()")
    b, g = (
        _parameter(value, who(name), type, Port(x), in_place)
        for value, name in ((beta, "beta_desc"), (gamma, "gamma_desc"))
    )
    mean, variance = (
        describe_vector(value, who(name), "(C,)", client_pointer=True)
        for value, name in ((type.moving_mean, "moving_mean_desc"), (type.moving_variance, "moving_variance_desc"))
    )
    return struct_of(
        BNNSLayerParametersNormalization, who, i_desc=x, o_desc=y, beta_desc=b, gamma_desc=g, moving_mean_desc=mean,
        moving_variance_desc=variance, momentum=momentum, epsilon=epsilon, activation=activation.bnns_activation,
        num_groups=type.group_count, normalization_axis=type.normalization_axis,
    )  # fmt: skip


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


def shapes_of_arrays(**parameters: Any) -> dict[str, tuple[int, ...]]:
    """Gradients of an array have its own shape, also where the filter's tensor has more axes."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return {
        name: as_array(value, name).shape
        for name, value in given.items()
        if not isinstance(value, BNNSNDArrayDescriptor)
    }
