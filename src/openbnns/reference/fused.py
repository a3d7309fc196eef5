"""Fused chains: a first layer, then a normalization or a quantization of its output.

    first layer                                         then            backward, slots of the parameter gradients
    convolution, transposed, fully connected            normalization   weights, bias, beta, gamma
    arithmetic of one, two or three operands            normalization   beta, gamma
    convolution, transposed, fully connected            quantization    none

Every function below is the composition of the functions of the two layers. `inputs` is a list: the operands of an
arithmetic layer, one array for the others. In training the first layer has the Identity activation.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np

from ..parameters.activation import IDENTITY, Activation, ActivationKind
from ..parameters.convolution import Geometry, Size
from ..parameters.normalization import Normalization
from . import arithmetic, convolution, fully_connected, normalization
from .activation import Array
from .normalization import UNTRACKED, Moving, NormalizedArrays


@dataclass(frozen=True)
class Convolution:
    """weights w (O, I/groups, KH, KW), or if transposed v (I, O, KH, KW); bias (O,) or None."""

    weights: Array
    bias: Array | None
    geometry: Geometry
    transposed: bool = False
    f: Activation = IDENTITY


@dataclass(frozen=True)
class FullyConnected:
    """weights (out, in); bias (out,) or None."""

    weights: Array
    bias: Array | None
    f: Activation = IDENTITY


@dataclass(frozen=True)
class Arithmetic:
    """A function of ArithmeticKind; split_ties as in arithmetic.backward."""

    function: int
    f: Activation = IDENTITY
    split_ties: bool = False


Weighted = Convolution | FullyConnected
FirstLayer = Weighted | Arithmetic
Gradients = list[Array | None]


def parameter_slots(first: FirstLayer) -> tuple[str, ...]:
    """The names of the parameter gradients of a chain that ends in a normalization, in their order."""
    return ("beta", "gamma") if isinstance(first, Arithmetic) else ("weights", "bias", "beta", "gamma")


def training_forward(
    first: FirstLayer,
    n: Normalization,
    inputs: Sequence[Array],
    beta: Array | None,
    gamma: Array | None,
    f: Activation,
    moving: Moving = UNTRACKED,
    samples: int | None = None,
) -> tuple[Array, NormalizedArrays, Moving]:
    """y = f(normalize(first(inputs))), the state for `backward`, and the moving statistics after this call.

    `samples` is the size of the batch, for arithmetic of which no operand has a batch axis of that size.
    """
    _refuse_activation(first)
    return normalization.training_forward(n, first_forward(first, inputs, samples), beta, gamma, f, moving)


def inference_forward(
    first: FirstLayer,
    n: Normalization,
    inputs: Sequence[Array],
    beta: Array | None,
    gamma: Array | None,
    f: Activation,
    moving: Moving = UNTRACKED,
    samples: int | None = None,
) -> Array:
    """y = f(normalize(first(inputs))) as normalization.inference_forward has it."""
    return normalization.inference_forward(n, first_forward(first, inputs, samples), beta, gamma, f, moving)


def backward(
    first: FirstLayer,
    n: Normalization,
    state: NormalizedArrays,
    inputs: Sequence[Array | None],
    beta: Array | None,
    gamma: Array | None,
    y: Array | None,
    dy: Array,
    f: Activation,
    wanted_inputs: Sequence[bool],
    wanted_parameters: Sequence[bool],
    shapes: Sequence[tuple[int, ...]] | None = None,
    h: Array | None = None,
) -> tuple[Gradients, Gradients]:
    """The gradients of the inputs, and those of the parameters in the order of `parameter_slots`; None if not wanted.

        dz, dbeta, dgamma, dh       normalization.backward of y = f(normalize(h))
        dx..., dw, db               backward of h = first(inputs) with dh for its output gradient

    An input is read for the gradient of the weights and for arithmetic whose derivative needs it. The shape of an input
    that is None comes from `shapes`. `h`, the forward result of the first layer, is for arithmetic whose derivative can
    be taken from it.
    """
    _refuse_activation(first)
    slots = parameter_slots(first)
    if len(wanted_parameters) != len(slots):
        raise ValueError(
            f"fused.backward: this chain has {len(slots)} parameter gradients, {', '.join(slots)}; "
            f"got {len(wanted_parameters)}."
        )
    asked = {slot for slot, wanted in zip(slots, wanted_parameters, strict=True) if wanted}
    reaches_first = any(wanted_inputs) or bool(asked & {"weights", "bias"})
    last_wanted = {f"d{slot}" for slot in asked & {"beta", "gamma"}} | ({"dx"} if reaches_first else set())
    last = normalization.backward(n, state, beta, gamma, y, dy, f, last_wanted)

    input_gradients: Gradients = [None] * len(inputs)
    parameter_gradients = {"beta": last.get("dbeta"), "gamma": last.get("dgamma")}
    if reaches_first:
        input_gradients, of_first = _first_backward(first, inputs, last["dx"], wanted_inputs, asked, shapes, h)
        parameter_gradients |= of_first
    return input_gradients, [parameter_gradients.get(slot) for slot in slots]


# ---------------------------------------------------------------------------------------------------------------------
# The first layer


def first_forward(first: FirstLayer, inputs: Sequence[Array], samples: int | None = None) -> Array:
    """h = first(inputs), the input of the second layer."""
    match first:
        case Arithmetic():
            h = arithmetic.forward(first.function, inputs, first.f)
            return h if samples is None else np.broadcast_to(h, (samples, *h.shape[1:]))
        case FullyConnected():
            return fully_connected.forward(inputs[0], first.weights, first.bias, first.f)
        case Convolution():
            forward = convolution.transposed_forward if first.transposed else convolution.forward
            return forward(inputs[0], first.weights, first.bias, first.f, first.geometry)


def _first_backward(
    first: FirstLayer,
    inputs: Sequence[Array | None],
    dh: Array,
    wanted_inputs: Sequence[bool],
    asked: Set[str],
    shapes: Sequence[tuple[int, ...]] | None,
    h: Array | None,
) -> tuple[Gradients, dict[str, Array | None]]:
    """The gradients of the inputs, and those of weights and bias if they are wanted."""
    if isinstance(first, Arithmetic):
        split = first.split_ties
        return arithmetic.backward(first.function, inputs, h, dh, IDENTITY, wanted_inputs, shapes, split), {}
    wanted = {
        name
        for name, is_wanted in (("dx", wanted_inputs[0]), ("dw", "weights" in asked), ("db", "bias" in asked))
        if is_wanted
    }
    x = inputs[0]
    if isinstance(first, FullyConnected):
        gradients = fully_connected.backward(
            x, None, dh.reshape(len(dh), len(first.weights)), first.weights, IDENTITY, wanted
        )
    else:
        backward = convolution.transposed_backward if first.transposed else convolution.backward
        size = _image_size(x, shapes)
        gradients = backward(x, None, dh, first.weights, IDENTITY, first.geometry, wanted, size)
    return [gradients.get("dx")], {"weights": gradients.get("dw"), "bias": gradients.get("db")}


def _image_size(x: Array | None, shapes: Sequence[tuple[int, ...]] | None) -> Size:
    if x is not None:
        return x.shape[2], x.shape[3]
    if shapes is None:
        raise ValueError("fused.backward: a convolution needs its input or its input's shape; got neither.")
    return shapes[0][2], shapes[0][3]


def _refuse_activation(first: FirstLayer) -> None:
    if first.f.function != ActivationKind.IDENTITY:
        raise ValueError(
            "fused: in training only the last layer has an activation; the first layer has function "
            f"{first.f.function} instead of Identity."
        )
