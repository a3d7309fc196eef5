"""Fused layers: a convolution, fully connected or arithmetic layer and what follows it, run as one.

A layer made of ``fused_layer_parameters`` chains

* a convolution, transposed convolution or fully connected layer, then a normalization or a quantization;
* arithmetic of one, two or three operands, then a normalization.

Gradients of parameters come as one list, in this order, ``None`` where the layer has no such parameter:

* weights, bias, beta, gamma;
* beta, gamma after arithmetic, whose operands have separate gradients.

``apply(..., phase=LearningPhase.TRAINING)`` must come before ``apply_backward``, on the same batch: it keeps the
statistics of the batch. The list given as ``generating_parameter_gradients`` has one entry per parameter: an array or
descriptor to write to, ``None`` to have one made, or ``skip`` (or a descriptor without data) to leave it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from .._spelling import did_you_mean
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..errors import LayerApplyError, Problem, as_exception
from ..filters.fused import Fused
from ._fused_chain import describe_chain
from ._fused_parameters import (
    FusableLayerParameters,
    FusedConvolutionParameters,
    FusedFullyConnectedParameters,
    FusedNormalizationParameters,
)
from ._methods import DECLARED, method
from ._ports import TensorLike, skip
from .arithmetic import OPERAND_NAMES
from .base import CREATION_NAMES, Layer
from .convolution import WINDOW_NAMES, ConvolutionLayer
from .normalization import NormalizationLayer, names_of_type
from .types import ActivationFunction, ConvolutionPadding, LearningPhase, NormalizationType

__all__ = [
    "FusedConvolutionNormalizationLayer",
    "FusedFullyConnectedNormalizationLayer",
    "FusedGradients",
    "FusedGradients2",
    "FusedGradients3",
    "FusedLayer",
    "FusedParametersLayer",
]


class FusedGradients(NamedTuple):
    """The gradients of a fused layer with one input.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = FusedFullyConnectedNormalizationLayer(
    ...     fully_connected_weights=np.float32([[2]]), normalization=NormalizationType.batch(), normalization_epsilon=0
    ... )
    >>> x = np.float32([[1], [3]])
    >>> y = layer.apply(x, phase=LearningPhase.TRAINING)
    >>> gradients = layer.apply_backward(input=x, output=y, output_gradient=x)
    >>> gradients.input.shape, len(gradients.parameters)  # weights, bias, beta, gamma
    ((2, 1), 4)
    """

    input: Any = None
    parameters: Any = None


class FusedGradients2(NamedTuple):
    """The gradients of a fused layer with two inputs.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = FusedParametersLayer(
    ...     input_a=Shape.vector(1),
    ...     input_b=Shape.vector(1),
    ...     fused_layer_parameters=[
    ...         FusedBinaryArithmeticParameters(function=ArithmeticBinaryFunction.ADD),
    ...         FusedNormalizationParameters(type=NormalizationType.batch(), beta=np.float32([0]), epsilon=1),
    ...     ],
    ... )
    >>> x = np.float32([[1], [3]])
    >>> y = layer.apply(x, x, phase=LearningPhase.TRAINING)
    >>> layer.apply_backward(input_a=x, input_b=x, output=y, output_gradient=x).parameters[0].tolist()  # of beta
    [4.0]
    """

    input_a: Any = None
    input_b: Any = None
    parameters: Any = None


class FusedGradients3(NamedTuple):
    """The gradients of a fused layer with three inputs.

    >>> import numpy as np
    >>> from openbnns import *
    >>> v = Shape.vector(1)
    >>> layer = FusedParametersLayer(
    ...     input_a=v, input_b=v, input_c=v,
    ...     fused_layer_parameters=[
    ...         FusedTernaryArithmeticParameters(function=ArithmeticTernaryFunction.MULTIPLY_ADD),
    ...         FusedNormalizationParameters(type=NormalizationType.batch(), gamma=np.float32([1]), epsilon=0),
    ...     ],
    ... )
    >>> x, dy = np.float32([[1], [3]]), np.float32([[5], [7]])
    >>> y = layer.apply(x, x, x, phase=LearningPhase.TRAINING)
    >>> gradients = layer.apply_backward(input_a=x, input_b=x, input_c=x, output=y, output_gradient=dy)
    >>> gradients.parameters[1].tolist()  # of gamma
    [2.0]
    """

    input_a: Any = None
    input_b: Any = None
    input_c: Any = None
    parameters: Any = None


_INPUT_NAMES = {1: ("input",), 2: ("input_a", "input_b"), 3: ("input_a", "input_b", "input_c")}


class FusedLayer(Layer):
    """Base of the fused layers.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = FusedFullyConnectedNormalizationLayer(
    ...     fully_connected_weights=np.float32([[2]]), normalization=NormalizationType.batch(), normalization_epsilon=0
    ... )
    >>> isinstance(layer, FusedLayer), layer.apply(np.float32([[1], [3]]), phase=LearningPhase.TRAINING).tolist()
    (True, [[-1.0], [1.0]])
    """

    _filter: Fused
    _names: ClassVar[dict[str, str]] = (
        WINDOW_NAMES
        | OPERAND_NAMES
        | NormalizationLayer._names
        | {"layer_params": "fused_layer_parameters", "groups": "group_size"}
    )
    _part_names: ClassVar[tuple[dict[str, str], ...]] = ()  # of a constructor that has no list of layers

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        parts = {
            f"layer_params[{i}]": Caller(cls._name(), CREATION_NAMES | cls._names | names, null="None")
            for i, names in enumerate(cls._part_names)
        }
        cls._creation_caller = Caller(cls._name(), CREATION_NAMES | cls._names, null="None", parts=parts)

    _training_call = "apply with phase=LearningPhase.TRAINING"
    _apply_method: Any
    _backward_method: Any

    def _build(
        self, inputs: list[Any], output: Any, layers: Sequence[FusableLayerParameters],
        filter_parameters: BNNSFilterParameters | None,
    ) -> None:  # fmt: skip
        self._inputs = _INPUT_NAMES[len(inputs)]

        def make(who: Caller) -> Fused:
            chain = describe_chain(inputs, self._inputs, output, layers, filter_parameters, who)
            self._array_shapes = chain.shapes
            return Fused(chain.kinds, chain.layers, filter_parameters, who)

        self._create(make, filter_parameters)
        self._apply_method, self._backward_method = _METHODS[len(inputs)]
        self._summary = {**dict(zip(self._inputs, self._filter.inputs, strict=True)), "output": self._filter.output}
        self._summary["fused_layer_parameters"] = _Names([type(layer).__name__ for layer in layers])

    def _sorted(self, tensors: tuple[Any, ...], method: Any, named: dict[str, Any]) -> Sequence[Any]:
        """The tensors of a method from those given by position and by name; ``None`` where one is left out."""
        names = method.declared.tensor_names
        if not named and len(tensors) == len(names):
            return tensors
        unknown = [name for name in named if name not in names]
        twice = [name for name in names[: len(tensors)] if named.get(name) is not None]
        if len(tensors) > len(names) or unknown or twice:
            got = ", ".join([*("a tensor" for _ in tensors), *named])
            options = (*names, "batch_size", "phase", "accumulate")
            hint = did_you_mean(unknown[0], options) if unknown else ""
            problem = Problem(
                f"{self._call_name(method.declared.name)} of this layer takes {', '.join(names)}, each once, by position or by "
                f"name; got {got}.{hint}",
                kind=TypeError,
            )
            raise as_exception(problem, LayerApplyError)
        return [*tensors, *(named.get(name) for name in names[len(tensors) :])]

    # Calls, which take as many inputs as the first layer has.

    def apply(
        self,
        *tensors: TensorLike,
        phase: LearningPhase = LearningPhase.INFERENCE,
        batch_size: int | None = None,
        **named: TensorLike,
    ) -> TensorLike:
        """Run the layer forward: ``apply(input, output)``, or ``apply(input_a, input_b, output)``, and so on.

        ``output`` is written and returned; when left out it is a new array. In training the statistics are those of
        this batch, the moving ones are updated, and what ``apply_backward`` needs is kept.
        """
        values = self._sorted(tensors, self._apply_method, named)
        return self._apply_method(self, *values, phase=phase, batch_size=batch_size)

    def apply_backward(
        self, *tensors: Any, batch_size: int | None = None, accumulate: bool = False, **named: Any
    ) -> Any:
        """Run the layer backward, after ``apply`` in training on the same batch.

        By position or by name: the inputs, ``output``, ``output_gradient``, one ``generating_..._gradient`` per input
        (``generating_input_gradient``, or ``generating_input_a_gradient`` and so on) and
        ``generating_parameter_gradients``, a list. ``output`` is needed with an activation, an input for the gradient
        of weights or where the derivative of arithmetic needs it. The result has one field per input, and
        ``parameters``.
        """
        values = self._sorted(tensors, self._backward_method, named)
        return self._backward_method(self, *values, batch_size=batch_size, accumulate=accumulate)

    def _choice(self, call: str, chosen: Any) -> Any:
        training = None if chosen is None else chosen.is_training
        if not call.endswith("multi_input"):
            return training
        return len(self._inputs) if chosen is None else (len(self._inputs), training)

    def _entries_of(self, name: str) -> list[str]:
        return list(self._filter.slots)

    def _converted(self, caller: Caller, name: str, value: Any) -> Any:
        return skip if isinstance(value, BNNSNDArrayDescriptor) and value.data is None else value


# The methods for one, two and three inputs.


@method("apply_fused", chooses=("phase", LearningPhase), name="apply", leading=("input",))
def _apply_one(
    self: FusedLayer, input: TensorLike, output: TensorLike, *, phase: LearningPhase, batch_size: int | None
) -> TensorLike:
    raise DECLARED


@method(
    "apply_fused_multi_input", chooses=("phase", LearningPhase), name="apply", leading=("input_a", "input_b"),
    input_a="in[0]", input_b="in[1]",
)  # fmt: skip
def _apply_two(
    self: FusedLayer, input_a: TensorLike, input_b: TensorLike, output: TensorLike, *, phase: LearningPhase,
    batch_size: int | None,
) -> TensorLike:  # fmt: skip
    raise DECLARED


@method(
    "apply_fused_multi_input", chooses=("phase", LearningPhase), name="apply", leading=("input_a", "input_b", "input_c"),
    input_a="in[0]", input_b="in[1]", input_c="in[2]",
)  # fmt: skip
def _apply_three(
    self: FusedLayer, input_a: TensorLike, input_b: TensorLike, input_c: TensorLike, output: TensorLike, *,
    phase: LearningPhase, batch_size: int | None,
) -> TensorLike:  # fmt: skip
    raise DECLARED


@method("apply_backward_fused", returns=FusedGradients, name="apply_backward")
def _backward_one(
    self: FusedLayer, input: Any, output: Any, output_gradient: Any, generating_input_gradient: Any,
    generating_parameter_gradients: Any, *, batch_size: int | None, accumulate: bool,
) -> FusedGradients:  # fmt: skip
    raise DECLARED


@method(
    "apply_backward_fused_multi_input", returns=FusedGradients2, name="apply_backward", input_a="in[0]", input_b="in[1]",
    generating_input_a_gradient="in_delta[0]", generating_input_b_gradient="in_delta[1]",
)  # fmt: skip
def _backward_two(
    self: FusedLayer, input_a: Any, input_b: Any, output: Any, output_gradient: Any, generating_input_a_gradient: Any,
    generating_input_b_gradient: Any, generating_parameter_gradients: Any, *, batch_size: int | None, accumulate: bool,
) -> FusedGradients2:  # fmt: skip
    raise DECLARED


@method(
    "apply_backward_fused_multi_input", returns=FusedGradients3, name="apply_backward", input_a="in[0]", input_b="in[1]",
    input_c="in[2]", generating_input_a_gradient="in_delta[0]", generating_input_b_gradient="in_delta[1]",
    generating_input_c_gradient="in_delta[2]",
)  # fmt: skip
def _backward_three(
    self: FusedLayer, input_a: Any, input_b: Any, input_c: Any, output: Any, output_gradient: Any,
    generating_input_a_gradient: Any, generating_input_b_gradient: Any, generating_input_c_gradient: Any,
    generating_parameter_gradients: Any, *, batch_size: int | None, accumulate: bool,
) -> FusedGradients3:  # fmt: skip
    raise DECLARED


_METHODS: dict[int, tuple[Any, Any]] = {
    1: (_apply_one, _backward_one),
    2: (_apply_two, _backward_two),
    3: (_apply_three, _backward_three),
}


class _Names(list[str]):
    """Text whose repr has no quotes."""

    def __repr__(self) -> str:
        return f"[{', '.join(self)}]"


class FusedParametersLayer(FusedLayer):
    """A chain of layers given by their parameters.

    ``FusedParametersLayer(input=...)`` for one input; ``input_a=`` and ``input_b=``, and ``input_c=``, for arithmetic of
    two and three operands. Inputs and ``output`` are shapes, descriptors or arrays (one sample or a batch);
    ``output`` may be left out unless the chain ends in a quantization.

    >>> import numpy as np, openbnns
    >>> from openbnns import *
    >>> from openbnns import LearningPhase, NormalizationType
    >>> layer = FusedParametersLayer(
    ...     input_a=openbnns.Shape.vector(2),
    ...     input_b=openbnns.Shape.vector(2),
    ...     fused_layer_parameters=[
    ...         openbnns.FusedBinaryArithmeticParameters(function=openbnns.ArithmeticBinaryFunction.ADD),
    ...         openbnns.FusedNormalizationParameters(
    ...             type=NormalizationType.batch(), beta=np.zeros(2, np.float32), gamma=np.ones(2, np.float32), epsilon=1e-5
    ...         ),
    ...     ],
    ... )
    >>> a, b = np.array([[1, 2], [2, 3]], np.float32), np.array([[0, 0], [1, 1]], np.float32)
    >>> layer.apply(a, b, phase=LearningPhase.TRAINING).round(3)
    array([[-1., -1.],
           [ 1.,  1.]], dtype=float32)
    >>> gradients = layer.apply_backward(output_gradient=np.array([[1, 0], [0, 2]], np.float32))
    >>> beta, gamma = gradients.parameters
    >>> beta
    array([1., 2.], dtype=float32)
    """

    def __init__(
        self,
        *,
        input: Any = None,
        input_a: Any = None,
        input_b: Any = None,
        input_c: Any = None,
        output: Any = None,
        fused_layer_parameters: Sequence[FusableLayerParameters],
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        inputs = self._given_inputs(input, [input_a, input_b, input_c])
        self._build(inputs, output, fused_layer_parameters, filter_parameters)

    def _given_inputs(self, single: Any, several: list[Any]) -> list[Any]:
        present = [value is not None for value in several]
        if single is not None and not any(present):
            return [single]
        if single is None and present in ([True, True, False], [True, True, True]):
            return [value for value in several if value is not None]
        problem = Problem(
            f"{self._name()}: give input, or input_a and input_b, or input_a, input_b and input_c: one for each input of "
            "the first layer.",
            kind=TypeError,
        )
        raise as_exception(problem, self._creation_error)


def _prefixed(prefix: str, fields: Mapping[str, str]) -> dict[str, str]:
    """Arguments that begin with the name of the layer they are for, by what the layer itself and C call them."""
    return {name: f"{prefix}_{word}" for field, word in fields.items() for name in (field, word)}


_KERNEL = {
    "w_desc": "weights",
    "bias": "bias",
    "stride": "stride",
    "dilation_stride": "dilation_stride",
    "padding": "padding",
}
_NORMALIZATION = names_of_type("normalization") | {"type": "normalization"} | _prefixed(
    "normalization",
    {"beta_desc": "beta", "gamma_desc": "gamma", "momentum": "momentum", "epsilon": "epsilon", "activation": "activation"},
)  # fmt: skip


class FusedConvolutionNormalizationLayer(FusedLayer):
    """A convolution followed by a normalization with its activation. Parameter gradients: weights, bias, beta, gamma.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = FusedConvolutionNormalizationLayer(
    ...     input=Shape.image_chw(3, 1, 1), convolution_weights=np.float32([[[[1, 1]]]]),
    ...     normalization=NormalizationType.instance(), normalization_beta=np.float32([0]), normalization_epsilon=0,
    ... )
    >>> x = np.float32([[[[1, 2, 5]]]])
    >>> y = layer.apply(x, phase=LearningPhase.TRAINING)
    >>> y.tolist()
    [[[[-1.0, 1.0]]]]
    >>> dy = np.float32([[[[1, 2]]]])
    >>> dw, db, dbeta, dgamma = layer.apply_backward(input=x, output=y, output_gradient=dy).parameters
    >>> dbeta.tolist()
    [3.0]
    """

    _part_names = (_prefixed("convolution", ConvolutionLayer._names | _KERNEL), _NORMALIZATION)

    def __init__(
        self,
        *,
        input: Any,
        output: Any = None,
        convolution_weights: Any,
        convolution_bias: Any = None,
        convolution_stride: Sequence[int] | int = (1, 1),
        convolution_dilation_stride: Sequence[int] | int = (1, 1),
        convolution_padding: ConvolutionPadding | None = None,
        normalization: NormalizationType,
        normalization_beta: Any = None,
        normalization_gamma: Any = None,
        normalization_momentum: float = 0.0,
        normalization_epsilon: float,
        normalization_activation: ActivationFunction | None = None,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        first = FusedConvolutionParameters(
            weights=convolution_weights,
            bias=convolution_bias,
            stride=convolution_stride,
            dilation_stride=convolution_dilation_stride,
            padding=ConvolutionPadding.zero() if convolution_padding is None else convolution_padding,
        )
        last = FusedNormalizationParameters(
            type=normalization,
            beta=normalization_beta,
            gamma=normalization_gamma,
            momentum=normalization_momentum,
            epsilon=normalization_epsilon,
            activation=ActivationFunction.identity() if normalization_activation is None else normalization_activation,
        )
        self._build([input], output, [first, last], filter_parameters)


class FusedFullyConnectedNormalizationLayer(FusedLayer):
    """A fully connected layer followed by a normalization with its activation. Parameter gradients: weights, bias, beta,
    gamma.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = FusedFullyConnectedNormalizationLayer(
    ...     fully_connected_weights=np.float32([[2]]), normalization=NormalizationType.batch(),
    ...     normalization_gamma=np.float32([1]), normalization_epsilon=0,
    ... )
    >>> x = np.float32([[1], [3]])
    >>> y = layer.apply(x, phase=LearningPhase.TRAINING)
    >>> dy = np.float32([[5], [7]])
    >>> dw, db, dbeta, dgamma = layer.apply_backward(input=x, output=y, output_gradient=dy).parameters
    >>> dgamma.tolist()
    [2.0]
    """

    _part_names = (_prefixed("fully_connected", {"w_desc": "weights", "bias": "bias"}), _NORMALIZATION)

    def __init__(
        self,
        *,
        input: Any = None,
        output: Any = None,
        fully_connected_weights: Any,
        fully_connected_bias: Any = None,
        normalization: NormalizationType,
        normalization_beta: Any = None,
        normalization_gamma: Any = None,
        normalization_momentum: float = 0.0,
        normalization_epsilon: float,
        normalization_activation: ActivationFunction | None = None,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        first = FusedFullyConnectedParameters(weights=fully_connected_weights, bias=fully_connected_bias)
        last = FusedNormalizationParameters(
            type=normalization,
            beta=normalization_beta,
            gamma=normalization_gamma,
            momentum=normalization_momentum,
            epsilon=normalization_epsilon,
            activation=ActivationFunction.identity() if normalization_activation is None else normalization_activation,
        )
        self._build([input], output, [first, last], filter_parameters)
