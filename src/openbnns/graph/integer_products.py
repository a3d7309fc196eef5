"""Products of quantized numbers with constant whole numbers on the kernels for bytes; a pass for inference.

Graphs compute with quantized numbers q and w in float32, so that they have gradients. Where q is known to be a whole number
of 8 bits, and w one that nothing changes,

    s (q - z) @ (t w) = ((q - z) @ w) * (s t)

is a product of bytes, with exact sums. The zero point z may be computed by the run; the scales s and t follow the product, so
that t may be a parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .. import ActivationFunction, ReductionFunction
from .operation import Operation
from .operations.activation import IDENTITY, Activation
from .operations.node import Node
from .operations.products import MatrixProduct
from .operations.quantized import UINT8, QuantizedLinear, Scaling, ToBytes
from .operations.reduction import Reduction
from .parameter import Parameter
from .passes import drop_unused
from .sizes import is_same_shape
from .tensor import Array, Tensor

_LONGEST_SUM = 65536  # of products of bytes in int32
_ONE = ActivationFunction.linear(1.0)
_LEAST_SIZE = 64  # of a matrix that is worth it


class _Steps(NamedTuple):
    """Whole numbers from ``low`` to ``low + 255``, their zero point, and the factor behind, if any."""

    value: Tensor
    low: int
    zero: Tensor | int
    scale: float | None


class _Weights(NamedTuple):
    """``matrix + offset``, inputs first, of int8; ``scale`` is one number, or one for each output."""

    matrix: Array
    offset: int
    scale: Tensor | float | None


def integer_products(operations: Sequence[Operation], outputs: Sequence[Tensor]) -> list[Operation]:
    """Put products of bytes in the place of those of quantized numbers."""
    producers = _Producers(operations)
    stored: dict[tuple[Tensor, int], Tensor] = {}
    done: list[Operation] = []
    for operation in operations:
        if isinstance(operation, MatrixProduct) and operation.alpha == 1 and not operation.transposed[0]:
            weights = producers.weights(operation.inputs[1], operation.transposed[1])
            steps = producers.steps(operation.inputs[0]) if weights is not None else None
            if steps is not None and weights is not None:
                done += _product(steps, weights, operation, stored)
                continue
        done.append(operation)
    return drop_unused(done, outputs) if stored else done


class _Producers:
    """Facts about values that follow from the operations behind them."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._made_by = {output: operation for operation in operations for output in operation.outputs}

    def _without_ones(self, value: Tensor) -> Tensor:
        """A value without factors of 1 behind it."""
        made = self._made_by.get(value.storage)
        while isinstance(made, Activation) and made.function == _ONE:
            value = made.inputs[0]
            made = self._made_by.get(value.storage)
        return value

    def _maker(self, value: Tensor) -> Operation | None:
        """The operation that makes a value, apart from factors of 1."""
        return self._made_by.get(self._without_ones(value).storage)

    def _arithmetic(self, value: Tensor, name: str) -> Node | None:
        """The operation that makes a value, if it is plain arithmetic with this function."""
        made = self._maker(value)
        plain = isinstance(made, Node) and made.name == name and made.activation is IDENTITY
        return made if plain else None  # type: ignore[return-value]

    def _activation(self, value: Tensor, case: str) -> Activation | None:
        """The operation that makes a value, if it is this function of one value."""
        made = self._maker(value)
        return made if isinstance(made, Activation) and made.function.case == case else None

    def _scaled(self, value: Tensor) -> tuple[Tensor, Tensor | float | None]:
        """The operand of a multiplication and its factor; the value itself if it is not a product."""
        linear = self._activation(value, "linear")
        if linear is not None:
            return linear.inputs[0], linear.function.alpha
        made = self._arithmetic(value, "mul")
        return (made.inputs[0], _plain(made.inputs[1])) if made is not None else (value, None)

    def _shifted(self, value: Tensor) -> tuple[Tensor, Tensor | float]:
        """The operand of a subtraction and its subtrahend; the value itself and 0 if it is not a difference."""
        linear = self._activation(value, "linear_with_bias")
        if linear is not None and linear.function.alpha == 1:
            return linear.inputs[0], -linear.function.beta
        made = self._arithmetic(value, "sub")
        return (made.inputs[0], _plain(made.inputs[1])) if made is not None else (value, 0.0)

    def _taken_apart(self, value: Tensor) -> tuple[Tensor, Tensor | float, Tensor | float | None]:
        """x, z and s of a value s (x - z); s is None for a factor of 1."""
        made = self._maker(value)
        if isinstance(made, Node) and made.name == "sub" and made.activation.case == "linear":
            return made.inputs[0], _plain(made.inputs[1]), made.activation.alpha
        given, scale = self._scaled(value)
        return *self._shifted(given), scale

    def steps(self, value: Tensor) -> _Steps | None:
        """The quantized numbers that a value stands for."""
        whole, zero, scale = self._taken_apart(value)
        low = self._least(whole)
        if low is None or isinstance(scale, Tensor) or not is_same_shape(whole.shape, value.shape):
            return None
        if isinstance(zero, Tensor):
            return _Steps(whole, low, zero, scale) if zero.ndim == 0 and self._least(zero) is not None else None
        return _Steps(whole, low, int(zero), scale) if zero.is_integer() and 0 <= zero - low <= 255 else None

    def _least(self, value: Tensor) -> int | None:
        """The least of the 256 whole numbers to which a value is limited; None if it is not."""
        made = self._maker(value)
        if isinstance(made, Activation):
            function, is_whole = made.function, self._whole(made.inputs[0])
        elif isinstance(made, Node):
            sums = made.name in ("add", "sub")
            function, is_whole = made.activation, sums and all(map(self._whole, made.inputs))
        else:
            return None
        if function.case != "clamp" or not is_whole:
            return None
        low, high = function.bounds
        return int(low) if float(low).is_integer() and high - low == 255 else None

    def _whole(self, value: Tensor) -> bool:
        """True if all numbers of a value are whole."""
        number = _constant(value)
        if number is not None:
            return _is_whole(number)
        if self._arithmetic(value, "round") is not None or self._least(value) is not None:
            return True
        shifted = self._activation(value, "linear_with_bias")
        if shifted is not None:
            function = shifted.function
            return function.alpha == 1 and float(function.beta).is_integer() and self._whole(shifted.inputs[0])
        made = self._arithmetic(value, "add")
        return made is not None and all(map(self._whole, made.inputs))

    def weights(self, value: Tensor, transposed: bool) -> _Weights | None:
        """The whole numbers of 8 bits that a matrix stands for."""
        whole, zero, scale = self._taken_apart(value)
        whole = self._without_ones(whole)
        numbers, points = _constant(whole), _constant(zero) if isinstance(zero, Tensor) else np.float32(zero)
        if numbers is None or points is None or value.ndim != 2 or not is_same_shape(whole.shape, value.shape):
            return None
        matrix = numbers.reshape(value.concrete({})) - points
        matrix = matrix.T if transposed else matrix
        inputs, outputs = matrix.shape
        if isinstance(scale, Tensor):
            leaf = scale.storage.leaf
            of_outputs = scale.shape == ((outputs, 1) if transposed else (outputs,))
            if not isinstance(leaf, (Parameter, np.ndarray)) or not (of_outputs or scale.ndim == 0):
                return None
            scale = Tensor(scale.graph, (outputs,), source=scale) if of_outputs else scale
        if not 0 < inputs <= _LONGEST_SUM or matrix.size < _LEAST_SIZE:
            return None
        if not _is_whole(matrix) or matrix.max() - matrix.min() > 255:
            return None
        offset = int(max(matrix.max() - 127, 0) or min(matrix.min() + 128, 0))
        return _Weights((matrix - offset).astype(np.int8), offset, scale)


def _plain(value: Tensor) -> Tensor | float:
    """The number of a value that is one constant number."""
    number = _constant(value)
    return float(number.item()) if number is not None and value.ndim == 0 else value


def _constant(value: Tensor) -> Array | None:
    """The numbers of a value that nothing can write to."""
    leaf = value.storage.leaf
    if not isinstance(leaf, np.ndarray) or leaf.flags.writeable:
        return None
    return None if isinstance(leaf.base, np.ndarray) and leaf.base.flags.writeable else leaf


def _is_whole(numbers: Array) -> bool:
    return bool(np.isfinite(numbers).all() and (numbers == np.rint(numbers)).all())


def _product(
    steps: _Steps, weights: _Weights, operation: MatrixProduct, stored: dict[tuple[Tensor, int], Tensor]
) -> list[Operation]:
    """The operations that compute the output of a product."""
    graph, y = operation.output.graph, operation.output
    made: list[Operation] = []
    key = steps.value.storage, steps.low
    if key not in stored:
        stored[key] = Tensor(graph, steps.value.shape, UINT8)
        converting = ToBytes(steps.value, Scaling(1.0, -steps.low))
        converting.outputs = [stored[key]]
        made.append(converting)
    known = steps.zero if isinstance(steps.zero, int) else 0
    sums = Tensor(graph, y.shape)
    scaling = Scaling(1.0, known - steps.low)
    made.append(
        QuantizedLinear(stored[key], scaling, sums, None, np.ascontiguousarray(weights.matrix.T), None, IDENTITY)
    )

    def computed(name: str, *operands: Tensor) -> Tensor:
        made.append(Node(name, operands))
        return made[-1].output

    if weights.offset:
        made.append(Reduction(steps.value, ReductionFunction.sum(), (steps.value.ndim - 1,), True))
        offset = ActivationFunction.linear_with_bias(weights.offset, -weights.offset * known * len(weights.matrix))
        made.append(Activation(graph, made[-1].output, offset))
        sums = computed("add", sums, made[-1].output)
    if isinstance(steps.zero, Tensor):
        totals = weights.matrix.sum(0, dtype=np.int64) + weights.offset * len(weights.matrix)
        totals = totals.astype(np.float32)
        shift = computed("mul", graph.own_constant(totals), steps.zero)
        sums = computed("sub", sums, shift)

    def scaled(value: Tensor, scale: float | None) -> Tensor:
        if scale is not None:
            made.append(Activation(graph, value, ActivationFunction.linear(scale)))
        return value if scale is None else made[-1].output

    if isinstance(weights.scale, Tensor):
        computed("mul", sums, scaled(weights.scale, steps.scale))
    else:
        scaled(scaled(sums, weights.scale), steps.scale)
    made[-1].outputs = [y]
    for one in made:
        one.modules, one.functions, one.trains = operation.modules, operation.functions, operation.trains
    return made
