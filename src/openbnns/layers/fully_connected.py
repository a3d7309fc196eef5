"""Fully connected layers: y = f(W x + b)."""

from __future__ import annotations

from typing import Any

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersFullyConnected, BNNSNDArrayDescriptor
from ..errors import Problem
from ..filters.fully_connected import FullyConnected
from ._ports import Port, as_array, describe_parameter, describe_sample, describe_vector, refuse_plain_sizes
from ._sparse import sparsify
from .base import client_pointer
from .convolution import ConvolutionLayer
from .shape import Shape
from .types import ActivationFunction, DataLayout

__all__ = ["FullyConnectedLayer"]


class FullyConnectedLayer(ConvolutionLayer):
    """y = f(W x + b); backward gives dx = Wᵀ dz, dW = Σₙ dzₙ xₙᵀ and db = Σₙ dzₙ with dz = dy · f'(y).

    Arrays, all float32: ``input`` (N, in) or (in,), ``output`` (N, out) or (out,), ``weights`` (out, in), ``bias``
    (out,). A sample may have any shape with that many elements: ``input=Shape.image_chw(8, 8, 4)`` takes arrays
    (N, 4, 8, 8).
    At creation ``input`` and ``output`` are shapes, descriptors or arrays (one sample or a batch), and may be left out:
    they then are vectors of the sizes that ``weights`` has.

    ``weights`` and ``bias`` are copied, unless ``filter_parameters`` has ``BNNSFlagsUseClientPtr``: then the layer
    reads the arrays at each call, so that training may change them in place.

    With ``weights_scales``, one positive number for each output, int8 weights stand for their products with these numbers;
    the input is a descriptor of Int8 or UInt8 then. Sums are those of integers, and exact.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = FullyConnectedLayer(weights=np.ones((2, 3), np.float32), bias=np.array([0, 1], np.float32))
    >>> layer.apply(np.array([[1, 2, 3]], np.float32))
    array([[6., 7.]], dtype=float32)
    >>> dx, dw, db = layer.apply_backward(input=np.float32([[1, 2, 3]]), output_gradient=np.float32([[1, 10]]))
    >>> dx.tolist(), dw.tolist(), db.tolist()
    ([[11.0, 11.0, 11.0]], [[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]], [1.0, 10.0])
    """

    sparsify = staticmethod(sparsify)

    def __init__(
        self,
        *,
        weights: Any,
        input: Any = None,
        output: Any = None,
        bias: Any = None,
        activation: ActivationFunction | None = None,
        weights_scales: Any = None,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        activation = ActivationFunction.identity() if activation is None else activation

        def make(who: Caller) -> FullyConnected:
            p = describe_fully_connected(who, who, client_pointer(filter_parameters), input, output, weights, bias)
            p.activation = activation.bnns_activation
            return FullyConnected(p, filter_parameters, who, weights_scales=weights_scales)

        self._create(make, filter_parameters, activation)
        self._summarize(activation)


def describe_fully_connected(
    who: Caller, own: Caller, in_place: bool, input: Any, output: Any, weights: Any, bias: Any
) -> BNNSLayerParametersFullyConnected:
    """The struct of a fully connected layer without its activation; in messages ``own`` names all but the samples."""
    w = describe_parameter(weights, own("w_desc"), DataLayout.MATRIX_ROW_MAJOR, "(out, in)", client_pointer=in_place)
    b = describe_vector(bias, own("bias"), "(out,)", client_pointer=in_place)
    described = isinstance(weights, BNNSNDArrayDescriptor)
    outputs, inputs = (0, 0) if described else Port(w, batched=False).shape
    x, y = flat_sample(input, who("i_desc"), inputs), flat_sample(output, who("o_desc"), outputs)
    if not described:
        check_weights(own, x, y, outputs, inputs)
    return BNNSLayerParametersFullyConnected(i_desc=x, w_desc=w, o_desc=y, bias=b)


def flat_sample(value: Any, who: str, count: int) -> BNNSNDArrayDescriptor:
    """The descriptor of an input or output of ``count`` elements, as the weights array has it; 0 if not known."""
    if value is None:
        if count == 0:
            raise Problem(f"{who} is left out, but only weights in an array tell its size. Pass Shape.vector(n).")
        return Shape.vector(count).descriptor()
    if isinstance(value, (Shape, BNNSNDArrayDescriptor)):
        return describe_sample(value, who)
    refuse_plain_sizes(value, who)
    array = as_array(value, who)
    batch = array.ndim > 1 and (count == 0 or array[0].size == count or array.size != count)
    return describe_sample(array, who, rank=array.ndim - batch)


def check_weights(who: Caller, x: BNNSNDArrayDescriptor, y: BNNSNDArrayDescriptor, outputs: int, inputs: int) -> None:
    expected = (Port(y).view.count, Port(x).view.count)
    if (outputs, inputs) != expected:
        raise Problem(
            f"{who('w_desc')} has shape {(outputs, inputs)}, but an input of {expected[1]} elements and an output of "
            f"{expected[0]} need (out, in) = {expected}.",
            cure="Pass such weights, or shapes that fit them.",
        )
