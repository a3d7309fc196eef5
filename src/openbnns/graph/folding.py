"""Zeros before a convolution, and factors and summands of channels behind it, folded into it; passes for inference.

Exporters write paddings that differ from one side to the other as operations of their own, and normalizations of another
framework as a multiplication and an addition.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import ConvolutionType
from .operation import Operation
from .operations.activation import IDENTITY
from .operations.convolution import Convolution
from .operations.node import Node
from .operations.padding import Padding
from .parameter import Parameter
from .passes import drop_unused
from .program import is_settled
from .sizes import is_plain, is_same_shape
from .tensor import Tensor


def pad_in_windows(operations: Sequence[Operation], outputs: Sequence[Tensor]) -> list[Operation]:
    """Let convolutions add the zeros themselves that a padding puts around images."""
    paddings = {one.output: one for one in operations if isinstance(one, Padding) and _surrounds_images(one)}
    done = list(operations)
    for place, operation in enumerate(operations):
        if isinstance(operation, Convolution) and operation.type is ConvolutionType.STANDARD:
            x = operation.inputs[0]
            padding = paddings.get(x.storage)
            if padding is not None and is_same_shape(x.shape, x.storage.shape):
                done[place] = operation.padded(padding.inputs[0], padding.widths[2:])
    return drop_unused(done, outputs) if paddings else done


def _surrounds_images(padding: Padding) -> bool:
    return padding.is_zero and not any(map(any, padding.widths[:2]))


def fold_channel_factors(operations: Sequence[Operation], outputs: Sequence[Tensor]) -> list[Operation]:
    """Multiply the weights of a convolution by what its result is multiplied by, if that is known before the run.

    The same with sums, for its bias. A product of weights is made once and not in every run.
    """
    readers: dict[Tensor, int] = {}
    for value in [*outputs, *(x for operation in operations for x in operation.inputs)]:
        readers[value.storage] = readers.get(value.storage, 0) + 1
    settled: set[Tensor] = set()
    places: dict[Tensor, int] = {}  # of convolutions, by results
    done: list[list[Operation]] = []
    for operation in operations:
        made: list[Operation] | None = None
        if isinstance(operation, Node) and operation.name in ("add", "mul"):
            for x, factor in (operation.inputs, operation.inputs[::-1]):
                place = places.get(x.storage)
                if place is not None and readers[x.storage] == 1 and _is_known(factor, settled):
                    made = _folded(done[place][-1], operation, x, factor)
                    if made is not None:
                        done[place][-1:] = made
                        places[operation.output] = place
                        break
        if made is not None:
            continue
        if operation.is_pure and all(_is_known(x, settled) for x in operation.inputs):
            settled.update(operation.outputs)
        if isinstance(operation, Convolution):
            places[operation.output] = len(done)
        done.append([operation])
    return [one for several in done for one in several]


def _is_known(value: Tensor, settled: set[Tensor]) -> bool:
    return value.storage in settled or is_settled(value.storage.leaf)


def _folded(convolution: Operation, following: Node, x: Tensor, factor: Tensor) -> list[Operation] | None:
    """The operations that make new weights, and the convolution with them in the place of both; None if that is not the same."""
    assert isinstance(convolution, Convolution)
    y = convolution.output
    if (
        convolution.type is not ConvolutionType.STANDARD
        or convolution.normalization is not None
        or convolution.activation is not IDENTITY
        or not is_same_shape(x.shape, y.shape)
        or not is_same_shape(following.output.shape, y.shape)
        or not _is_per_channel(factor, y)
    ):
        return None
    graph = y.graph
    weight, bias = (  # those of constants belong to the operation alone
        graph.parameter(v, own=False) if isinstance(v, Parameter) else v for v in (convolution.weight, convolution.bias)
    )
    made: list[Operation] = []

    def computed(name: str, *operands: Tensor) -> Tensor:
        made.append(Node(name, operands))
        return made[-1].output

    each = factor.reshape((int(factor.count),))
    if following.name == "mul":
        weight = computed("mul", weight, factor.reshape((int(factor.count), *(1,) * (weight.ndim - 1))))
        bias = None if bias is None else computed("mul", bias, each)
    else:
        bias = graph.own_constant(np.zeros(weight.shape[0], np.float32)) if bias is None else bias
        bias = computed("add", bias, each)
    result = convolution.with_weights(weight, bias)
    result.activation, result.outputs = following.activation, following.outputs
    for one in made:
        one.modules, one.functions = convolution.modules, convolution.functions
    result.modules = convolution.modules + following.modules
    result.functions = convolution.functions + following.functions
    return [*made, result]


def _is_per_channel(factor: Tensor, y: Tensor) -> bool:
    """True for one number, and for one for each entry of axis 1."""
    shape = (1,) * (y.ndim - factor.ndim) + tuple(factor.shape)
    return is_plain(shape) and is_same_shape((*shape[:1], *shape[2:]), (1,) * (y.ndim - 1))
