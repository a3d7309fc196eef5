"""The arithmetic of operations: how many of them a pass takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch

from .. import ConvolutionType, InterpolationMethod
from ..graph import operations
from ..graph.operation import Operation
from ..graph.operations import NormalizedOperation
from ..graph.sizes import bound
from ..graph.tensor import Tensor

Sizes = Mapping[str, int]
"""Numbers by the names of free sizes."""


@dataclass(frozen=True)
class Work:
    """The arithmetic operations of a forward pass: those of products, and all others.

    ``gradients`` is the arithmetic of a backward pass in multiples of the products, where it does not follow from the
    gradients that are wanted.
    """

    products: int = 0
    others: int = 0
    gradients: int | None = None

    @property
    def forward(self) -> int:
        return self.products + self.others

    def backward(self, operation: Operation, wanted: Sequence[bool]) -> int:
        """Operations of a backward pass that gives the gradients of these inputs.

        The gradient of either operand of a product is as much work as the product.
        """
        trained = any(p.requires_grad for p in operation.parameters)
        operands = int(any(wanted)) + int(trained) if operation.parameters else sum(wanted[:2])
        return self.products * (operands if self.gradients is None else self.gradients) + self.others


def element_count(value: Tensor, sizes: Sizes) -> int:
    """Elements of a value."""
    return math.prod(value.concrete(sizes))


@singledispatch
def count_work(operation: Operation, sizes: Sizes) -> Work:
    """The work of a forward pass."""
    return Work()


@count_work.register(operations.Node)
@count_work.register(operations.Dropout)
@count_work.register(operations.Prelu)
@count_work.register(operations.Forbidden)
@count_work.register(operations.Cumulative)
def _elementwise(operation: Operation, sizes: Sizes) -> Work:
    return Work(others=element_count(operation.output, sizes))


@count_work.register
def _activation(operation: operations.Activation, sizes: Sizes) -> Work:
    return Work(others=element_count(operation.output, sizes) * (5 if "softmax" in operation.function.case else 1))


@count_work.register
def _normalization(operation: operations.Normalization, sizes: Sizes) -> Work:
    return Work(others=element_count(operation.output, sizes) * (8 + _activates(operation)))


def _activates(operation: operations.Normalization | NormalizedOperation) -> bool:
    return operation.activation.case != "identity"


def _behind(operation: NormalizedOperation, results: int) -> int:
    """The work that follows the product of a layer with weights: bias, normalization, activation and pooling."""
    parts = int(operation.bias is not None) + 8 * (operation.normalization is not None) + _activates(operation)
    return results * (parts + (operation.pooling is not None))


@count_work.register
def _linear(operation: operations.Linear, sizes: Sizes) -> Work:
    results = element_count(operation.output, sizes)
    return Work(2 * results * operation.weight.shape[1], _behind(operation, results))


@count_work.register
def _convolution(operation: operations.Convolution, sizes: Sizes) -> Work:
    weight, pooling = operation.weight, operation.pooling
    results = math.prod(operation.output.concrete(sizes) if pooling is None else pooling.unpooled_shape(sizes))
    # Every element of the smaller image meets all weights of its channel.
    small = element_count(operation.inputs[0], sizes) if operation.type is ConvolutionType.TRANSPOSED else results
    return Work(2 * small * math.prod(bound(weight.shape[1:], sizes)), _behind(operation, results))


@count_work.register
def _grouped(operation: operations.GroupedTransposedConvolution, sizes: Sizes) -> Work:
    weight = operation.weight
    biased = element_count(operation.output, sizes) if operation.bias is not None else 0
    return Work(2 * element_count(operation.inputs[0], sizes) * math.prod(bound(weight.shape[1:], sizes)), biased)


@count_work.register
def _matrix_product(operation: operations.MatrixProduct, sizes: Sizes) -> Work:
    a = operation.inputs[0].concrete(sizes)
    return Work(2 * element_count(operation.output, sizes) * a[-2 if operation.transposed[0] else -1])


@count_work.register
def _contraction(operation: operations.Contraction, sizes: Sizes) -> Work:
    axes: dict[str, int] = {}
    for value, letters in zip(operation.inputs, operation.letters, strict=True):
        axes |= zip(letters, value.concrete(sizes), strict=True)
    return Work(2 * math.prod(axes.values()))


@count_work.register
def _attention(operation: operations.Attention, sizes: Sizes) -> Work:
    query = operation.output
    samples, targets, width = query.concrete(sizes)
    (source,) = bound((operation.source,), sizes)
    # Projections of queries and results, of keys and values; scores and their sums of values.
    projections = 4 * samples * width * width * (targets + source)
    scores = samples * operation.heads * targets * source
    return Work(projections + 4 * samples * targets * source * width, 5 * scores)


@count_work.register
def _heads(operation: operations.AttentionHeads, sizes: Sizes) -> Work:
    q, k, v = (part.bound(sizes) for part in operation.parts)
    scores = operation.output.concrete(sizes)[0] * q.heads * q.length * k.length
    return Work(2 * scores * (q.width + v.width), 5 * scores, gradients=2)


@count_work.register(operations.Lstm)
@count_work.register(operations.Recurrent)
def _recurrent(operation: operations.Lstm | operations.Recurrent, sizes: Sizes) -> Work:
    steps = element_count(operation.output, sizes) // operation.hidden
    gates = operation.weights[0].shape[0]
    return Work(2 * steps * sum(w.size for w in operation.weights), 3 * steps * gates)


@count_work.register(operations.Pooling)
@count_work.register(operations.MaxPoolingWithIndices)
def _pooling(operation: operations.Pooling | operations.MaxPoolingWithIndices, sizes: Sizes) -> Work:
    return Work(others=element_count(operation.output, sizes) * math.prod(operation.window.kernel))


@count_work.register
def _reduction(operation: operations.Reduction, sizes: Sizes) -> Work:
    return Work(others=element_count(operation.inputs[0], sizes))


@count_work.register
def _rotation(operation: operations.Rotate, sizes: Sizes) -> Work:
    return Work(others=3 * element_count(operation.output, sizes))


@count_work.register
def _resize(operation: operations.Resize, sizes: Sizes) -> Work:
    return Work(
        others=8 * element_count(operation.output, sizes) if operation.method is InterpolationMethod.LINEAR else 0
    )
