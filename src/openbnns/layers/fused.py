"""Fused layers: a convolution, fully connected or arithmetic layer and what follows it, run as one.

A layer made of ``fused_layer_parameters`` chains

* a convolution, transposed convolution or fully connected layer, then a normalization or a quantization;
* arithmetic of one, two or three operands, then a normalization.

Gradients of parameters come as one list, in this order, ``None`` where the layer has no such parameter:

* weights, bias, beta, gamma;
* beta, gamma after arithmetic, whose operands have gradients of their own.

``apply(..., phase=LearningPhase.TRAINING)`` must come before ``apply_backward``, on the same batch: it keeps the
statistics of the batch. The list given as ``generating_parameter_gradients`` has one entry per parameter: an array or
descriptor to write to, ``None`` to have one made, or ``skip`` (or a descriptor without data) to leave it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._spelling import did_you_mean
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..calls.form import Form, form
from ..errors import BNNSError, LayerApplyError, Problem, as_exception
from ..filters.fused import Fused
from ._base import APPLY_NAMES, BACKWARD_NAMES, CREATION_NAMES, GradientArguments, Layer, reworded
from ._fused_chain import Chain, describe_chain
from ._fused_parameters import (
    FusableLayerParameters,
    FusedConvolutionParameters,
    FusedFullyConnectedParameters,
    FusedNormalizationParameters,
)
from ._ports import Arguments, Delta, TensorLike, common_lead, memory, require, skip
from .arithmetic import OPERAND_NAMES
from .convolution import WINDOW_NAMES, ConvolutionLayer
from .normalization import NormalizationLayer, names_of_type
from .types import ActivationFunction, ConvolutionPadding, LearningPhase, NormalizationType


class FusedGradients(NamedTuple):
    """What the backward pass of a fused layer with one input gives.

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
    """What the backward pass of a fused layer with two inputs gives.

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
    """What the backward pass of a fused layer with three inputs gives.

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
_RESULTS: dict[int, Any] = {1: FusedGradients, 2: FusedGradients2, 3: FusedGradients3}
_PARAMETERS = "generating_parameter_gradients"


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
    _words: ClassVar[dict[str, str]] = Layer._words | {
        "delta_parameters": _PARAMETERS,
        "training true": "phase=LearningPhase.TRAINING",
        "training false": "phase=LearningPhase.INFERENCE",
    }
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
        names = {"delta_parameters": _PARAMETERS}
        cls._apply_caller = Caller(f"{cls.__name__}.apply", APPLY_NAMES)
        cls._backward_caller = Caller(f"{cls.__name__}.apply_backward", BACKWARD_NAMES | names)

    def _build(
        self, inputs: list[Any], output: Any, layers: Sequence[FusableLayerParameters],
        filter_parameters: BNNSFilterParameters | None,
    ) -> None:  # fmt: skip
        self._inputs = _INPUT_NAMES[len(inputs)]
        self._gradient_names = tuple(f"generating_{name}_gradient" for name in self._inputs)

        def make(who: Caller) -> Fused:
            chain = describe_chain(inputs, self._inputs, output, layers, filter_parameters, who)
            made = Fused(chain.kinds, chain.layers, filter_parameters, who)
            self._set_ports(chain)
            return made

        self._create(make, filter_parameters)
        self._arithmetic = self._filter.is_arithmetic
        self._forms = _forms(len(inputs)) if self._arithmetic else _SINGLE
        self._packed: Any = (0,) * len(inputs) if self._arithmetic else 0  # the batch strides of every call
        self._summary = {**dict(zip(self._inputs, self._ports, strict=True)), "output": self._output}
        self._summary["fused_layer_parameters"] = _Names([type(layer).__name__ for layer in layers])

    def _set_ports(self, chain: Chain) -> None:
        self._ports, self._output, self._slots = chain.inputs, chain.output, chain.slots
        self._constant = chain.constant

    def _exception(self, problem: Problem, family: type[BNNSError]) -> BNNSError:
        words = dict(self._words)
        for i, (name, gradient) in enumerate(zip(self._inputs, self._gradient_names, strict=True)):
            words |= {f"in[{i}]": name, f"input[{i}]": name, f"operand {i + 1}": name, f"input {i + 1}": name}
            words |= {f"in_delta[{i}]": gradient, f"generating_input_gradient[{i}]": gradient}
        words |= dict.fromkeys(("BNNSFusedFilterApplyBatch", "BNNSFusedFilterApplyMultiInputBatch"), "apply")
        words["BNNSFusedFilterApplyBatch or BNNSFusedFilterApplyMultiInputBatch"] = "apply"
        problem = reworded(problem, words)
        return super()._exception(problem, family)

    def _sorted(
        self, tensors: tuple[Any, ...], names: tuple[str, ...], named: dict[str, Any], caller: Caller
    ) -> list[Any]:
        """Values of ``names`` from those given by position and by name; ``None`` where one is left out."""
        if not named and len(tensors) == len(names):
            return list(tensors)
        unknown = [name for name in named if name not in names]
        twice = [name for name in names[: len(tensors)] if named.get(name) is not None]
        if len(tensors) > len(names) or unknown or twice:
            got = ", ".join([*("a tensor" for _ in tensors), *named])
            options = (*names, "batch_size", "phase", "accumulate")
            hint = did_you_mean(unknown[0], options) if unknown else ""
            problem = Problem(
                f"{caller.function} of this layer takes {', '.join(names)}, each once, by position or by name; got {got}.{hint}",
                kind=TypeError,
            )
            raise as_exception(problem, LayerApplyError)
        return [*tensors, *(named.get(name) for name in names[len(tensors) :])]

    # Forward.

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
        *inputs, output = self._sorted(tensors, (*self._inputs, "output"), named, self._apply_caller)
        if isinstance(phase, LearningPhase):
            lead = common_lead(self._ports, inputs, batch_size)
            if lead is not None:
                shape = lead + self._output.shape
                target = np.empty(shape, self._output.dtype) if output is None else output
                if (
                    type(target) is np.ndarray
                    and target.shape == shape
                    and self._filter.native(self._forms[phase])(
                        lead[0] if lead else 1, self._data(inputs), self._packed, target, 0
                    )
                    == 0
                ):
                    return target
        return self._attempt(self._apply_checked, inputs, output, phase, batch_size)

    def _data(self, inputs: list[Any]) -> Any:
        return inputs if self._arithmetic else inputs[0]

    def _apply_checked(self, inputs: list[Any], output: Any, phase: Any, batch_size: Any) -> TensorLike:
        caller = self._apply_caller
        self._filter.require_alive(caller)
        require(phase, LearningPhase, f"{caller.function}: phase")
        arguments = Arguments(caller.function, batch_size)
        given = self._take_inputs(arguments, inputs, needed=True)
        y = None if output is None else arguments.take("output", self._output, output, output=True)
        arguments.settle()
        if y is None:
            y = output = self._output.empty(arguments.axis, f"{caller.function}: output")
        data, training = [memory(v) for v in given], phase.is_training
        tensors = {"in": (self._data(data), self._packed), "out": (memory(y), 0)}
        call, choice = ("apply_fused", training)
        if self._arithmetic:
            call, choice = "apply_fused_multi_input", (len(data), training)
        self._filter.perform(call, caller, arguments.batch, tensors, choice)
        return output

    def _take_inputs(self, arguments: Arguments, inputs: list[Any], *, needed: bool) -> list[Any]:
        """The checked inputs; one that may be left out, because creation gave it memory, stays ``None``."""
        return [
            None if value is None and (default is not None or not needed) else arguments.take(name, port, value)
            for name, port, value, default in zip(self._inputs, self._ports, inputs, self._filter.defaults, strict=True)
        ]

    # Backward.

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
        names = (*self._inputs, "output", "output_gradient", *self._gradient_names, _PARAMETERS)
        values = self._sorted(tensors, names, named, self._backward_caller)
        count = len(self._inputs)
        inputs, (y, dy), wanted = values[:count], values[count : count + 2], values[count + 2 :]
        gradients, parameters = wanted[:-1], wanted[-1]
        results = self._backward_fast(inputs, y, dy, gradients, parameters, batch_size, accumulate)
        if results is None:
            results = self._attempt(
                self._backward_checked, inputs, y, dy, gradients, parameters, batch_size, accumulate
            )
        return _RESULTS[count](*results[:count], results[count:])

    def _parameter_list(self, parameters: Any, who: str) -> list[Any]:
        """One entry per slot."""
        slots = len(self._slots)
        if parameters is None:
            return [None] * slots
        if parameters is skip:
            return [skip] * slots
        order = ", ".join(self._slots)
        if isinstance(parameters, np.ndarray) or not isinstance(parameters, Sequence):
            raise Problem(
                f"{who} must be a list with one entry for each of {order}, not {type(parameters).__name__}.",
                kind=TypeError,
            )
        if len(parameters) != slots:
            raise Problem(
                f"{who} has {len(parameters)} entries, but this chain has {slots} parameter gradients, in the order {order}. "
                "Pass skip for one that is not wanted."
            )
        return [skip if _has_no_data(value) else value for value in parameters]

    def _backward_fast(
        self, inputs: list[Any], y: Any, dy: Any, gradients: list[Any], parameters: Any, batch_size: Any,
        accumulate: bool,
    ) -> list[Any] | None:  # fmt: skip
        """The gradients if every argument is an array of the expected shape; ``None`` if the full checks are needed."""
        if type(dy) is not np.ndarray or type(accumulate) is not bool:
            return None
        lead, flags = self._output.lead(dy.shape, batch_size), 1 if accumulate else 0
        if lead is None:
            return None
        if not (y is None or (type(y) is np.ndarray and y.shape == dy.shape)):
            return None
        for port, value in zip(self._ports, inputs, strict=True):
            if value is not None and not (type(value) is np.ndarray and value.shape == port.full_shape(*lead)):
                return None
        if parameters is None or parameters is skip:
            parameters = [parameters] * len(self._slots)
        elif type(parameters) not in (list, tuple) or len(parameters) != len(self._slots):
            return None
        results, deltas = [], []
        places = [
            *((None if c else p, g) for p, g, c in zip(self._ports, gradients, self._constant, strict=True)),
            *zip(self._slots.values(), parameters, strict=True),
        ]
        for place, value in places:
            if place is None:
                if value is not None and value is not skip:
                    return None
                part: tuple[Any, Delta | None] | None = (None, None)
            else:
                part = place.quick(value, place.full_shape(*lead), flags)
            if part is None:
                return None
            results.append(part[0])
            deltas.append(part[1])
        count = len(inputs)
        of_inputs: Any = deltas[:count] if self._arithmetic else deltas[0]
        declined = self._filter.native(self._forms[None])(
            lead[0] if lead else 1, self._data(inputs), self._packed, of_inputs, self._packed, y, 0,
            Delta(self._output, dy, 0), 0, deltas[count:],
        )  # fmt: skip
        return None if declined else results

    def _backward_checked(
        self, inputs: list[Any], y: Any, dy: Any, gradients: list[Any], parameters: Any, batch_size: Any,
        accumulate: bool,
    ) -> list[Any]:  # fmt: skip
        caller = self._backward_caller
        self._filter.require_alive(caller)
        parameters = self._parameter_list(parameters, f"{caller.function}: {_PARAMETERS}")
        arguments = Arguments(caller.function, batch_size)
        given = self._take_inputs(arguments, inputs, needed=False)
        y = None if y is None else arguments.take("output", self._output, y)
        dy = arguments.take("output_gradient", self._output, dy)
        taken = GradientArguments(arguments, accumulate)
        for name, port, value, constant in zip(
            self._gradient_names, self._ports, gradients, self._constant, strict=True
        ):
            taken.take(name, None if constant else port, skip if _has_no_data(value) else value)
        for i, ((name, slot), value) in enumerate(zip(self._slots.items(), parameters, strict=True)):
            taken.take(f"{_PARAMETERS}[{i}] ({name})", slot, value)
        arguments.settle()
        deltas, count = taken.descriptors(), len(inputs)
        tensors: dict[str, tuple[Any, Any]] = {
            "in": (self._data([memory(v) for v in given]), self._packed), "in_delta": (self._data(deltas[:count]), self._packed),
            "out": (memory(y), 0), "out_delta": (self._output.delta(dy, False), 0), "delta_parameters": (deltas[count:], None),
        }  # fmt: skip
        if self._arithmetic:
            self._filter.perform("apply_backward_fused_multi_input", caller, arguments.batch, tensors, count)
        else:
            self._filter.perform("apply_backward_fused", caller, arguments.batch, tensors)
        return taken.results


_APPLY = "batch_size in in_stride out out_stride"
_BACKWARD = (
    "batch_size in in_stride in_delta in_delta_stride out out_stride out_delta out_delta_stride delta_parameters"
)
_SINGLE: dict[LearningPhase | None, Form] = {
    **{phase: form("apply_fused", _APPLY, phase.is_training) for phase in LearningPhase},
    None: form("apply_backward_fused", _BACKWARD),
}


def _forms(count: int) -> dict[LearningPhase | None, Form]:
    """Forms of the calls with ``count`` operands: forward in each phase, and backward."""
    return {
        **{phase: form("apply_fused_multi_input", _APPLY, (count, phase.is_training)) for phase in LearningPhase},
        None: form("apply_backward_fused_multi_input", _BACKWARD, count),
    }


def _has_no_data(value: Any) -> bool:
    return isinstance(value, BNNSNDArrayDescriptor) and value.data is None


class _Names(list[str]):
    """Prints without quotes."""

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
