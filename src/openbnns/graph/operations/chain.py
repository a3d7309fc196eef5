"""Elementwise operations one after the other, as one pass over memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import engines
from ...tensors.stored import native_element, native_uint8
from ..calls import Call, Calls, PlanCall, listed
from ..operation import Operation
from ..tensor import FLOAT32, Array, Tensor
from .activation import IDENTITY, Activation, is_elementwise
from .base import Sizes, merged_axes
from .moves import Detach
from .node import Node
from .quantized import ToBytes

_AXES = 3  # of native chains
_ROOMS = 63  # of values that are not in memory


def can_join(operation: Operation) -> bool:
    """True for an elementwise operation on float32 whose result has the shape of its operands together."""
    if isinstance(operation, Activation):
        elementwise = is_elementwise(operation.function)
    else:
        native = isinstance(operation, Node) and operation.function is not None
        elementwise = native or isinstance(operation, (Detach, ToBytes))
    return elementwise and all(x.dtype == FLOAT32 for x in operation.inputs)


class Chain(Operation):
    """Elementwise operations in their order, whose results all have one shape.

    Native code computes them piece by piece: results that only the chain itself reads never reach memory. ``outputs`` are
    the others. Bits are those of the operations by themselves.
    """

    is_pure = True

    def __init__(self, members: Sequence[Operation], outputs: Sequence[Tensor]) -> None:
        self.members = list(members)
        made = {member.output.storage for member in members}
        read = [x for member in members for x in member.inputs if x.storage not in made]
        super().__init__(list({_key(x): x for x in read}.values()), outputs)
        self.modules = [module for member in members for module in member.modules]
        self.functions = [function for member in members for function in member.functions]

    def forward_all(self, x: list[Array], y: list[Array], training: bool) -> Calls:
        shapes = merged_axes([a.shape for a in x], y[0].shape)
        whole = shapes.pop()
        plain = all(a.flags.c_contiguous and a.dtype == FLOAT32 for a in x)
        if not engines.is_native() or not plain or len(whole) > _AXES:
            return self._one_by_one(x, y, training)
        numbers = {_key(value): i for i, value in enumerate([*self.inputs, *self.outputs])}
        steps, rooms = self._steps(numbers)
        if rooms > _ROOMS:
            return self._one_by_one(x, y, training)
        front = (1,) * (_AXES - len(whole))
        strides = [n for shape in [*shapes, *[whole] * len(y)] for n in _strides(front + shape)]
        return PlanCall(engines._core.run_chain, [*x, *y], len(x), [*front, *whole], strides, steps, rooms)

    def _steps(self, numbers: dict[Any, int]) -> tuple[list[Any], int]:
        """The steps of a native chain, and how many values live at the same time that are not in memory."""
        first = len(numbers)
        last = {_key(value): i for i, member in enumerate(self.members) for value in member.inputs}
        steps, free, rooms = [], list[int](), 0
        for i, member in enumerate(self.members):
            result = _key(member.output)
            if result not in numbers:
                if not free:
                    free.append(first + rooms)
                    rooms += 1
                numbers[result] = free.pop()
            operands = [numbers[_key(x)] for x in member.inputs]
            steps.append(_step(member, operands, numbers[result]))
            done = {_key(x) for x in [*member.inputs, member.output]}
            free += [numbers[key] for key in done if numbers[key] >= first and last.get(key, i) <= i]
        return steps, rooms

    def _one_by_one(self, x: list[Array], y: list[Array], training: bool) -> list[Call]:
        arrays = {_key(value): array for value, array in zip([*self.inputs, *self.outputs], [*x, *y], strict=True)}
        number = np.result_type(*(a.dtype for a in [*x, *y] if a.dtype.kind == "f"))  # float64 on the reference engine
        calls: list[Call] = []
        for member in self.members:
            result = _key(member.output)
            if result not in arrays:
                arrays[result] = np.empty(y[0].shape, number)
            calls += listed(member.forward([arrays[_key(v)] for v in member.inputs], arrays[result], training))
        return calls


def _key(value: Tensor) -> Any:
    """The same for one value in one shape; comparing the sizes themselves would leave guards."""
    return value.storage, tuple(map(str, value.shape))


def _strides(shape: Sizes) -> list[int]:
    """Elements from one index to the next along each axis; 0 for axes of size 1."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step if size > 1 else 0)
        step *= size
    return strides[::-1]


def _step(member: Operation, operands: list[int], result: int) -> Any:
    number, function, element = -1, IDENTITY, native_element(None)
    if isinstance(member, Node) and member.function is not None:
        number, function = int(member.function.value), member.activation
    elif isinstance(member, Activation):
        function = member.function
    elif isinstance(member, ToBytes):
        element = native_uint8(member.scaling.scale, member.scaling.bias)
    with np.errstate(over="ignore"):  # bounds beyond float32 become infinite
        alpha, beta = np.array([function.alpha, function.beta]).astype(np.float32).tolist()
    spec = engines._core.ActivationSpec(function=int(function.function), alpha=alpha, beta=beta, seed=0)
    given = (operands + 2 * operands[:1])[:3]  # functions of fewer repeat the first
    return engines._core.ChainStep(function=number, operands=given, result=result, activation=spec, element=element)
