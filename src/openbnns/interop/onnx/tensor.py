"""Operands of ONNX's operators: constants, whole numbers, weights; and operators that are computed in NumPy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...files import memory_limit
from ...graph.calls import Calls, by_element, computing, copying, scattering
from ...graph.graph import current_graph
from ...graph.numpy_function import Function
from ...graph.sizes import Shape, Size, bound, broadcast, product
from ...graph.tensor import FLOAT32, INT64, Array, Tensor
from ..converted.control import read_numbers, sized_by_data
from ..converted.registry import Handler
from ..converted.tensors import ForeignTensor, Misfit, kind_of, sizes_array
from ._call import Call
from ._numpy import compute
from ._operator import OPERATORS

_PUT_ALONG = "put along"


def constant_of(x: ForeignTensor | None, what: str) -> Any:
    """The numbers of an input that must be known; None if it is left out. Whole numbers that a run computes are read."""
    if x is None:
        return None
    if x.constant:
        return x.held
    read = sizes_array(read_numbers(x, what))
    return read.reshape([int(n) for n in x.shape])


def numbers_of(x: ForeignTensor | None, what: str) -> list[Any] | None:
    """Whole numbers, some of which may be free sizes."""
    array = constant_of(x, what)
    if array is None:
        return None
    if array.dtype.kind not in "iuO":
        raise Misfit(f"{what} must be whole numbers, not {array.dtype}")
    return [n if isinstance(n, Size) else int(n) for n in array.ravel()]


def plain_numbers(x: ForeignTensor | None, what: str) -> list[int] | None:
    """Whole numbers; free sizes among them are fixed."""
    numbers = numbers_of(x, what)
    return None if numbers is None else [int(n) for n in numbers]


def broadcast_shape(shapes: Sequence[Sequence[Any]]) -> Shape:
    """The shape of the result of an operation element by element."""
    shape = broadcast(*shapes)
    if shape is None:
        raise Misfit(f"{' and '.join(map(str, shapes))} do not fit together")
    return shape


def check_memory(shape: Shape) -> None:
    """Raise an error for a tensor that takes too much memory even for the smallest free sizes."""
    ones: defaultdict[str, int] = defaultdict(lambda: 1)
    count = product(max(1, n) for n in bound(shape, ones))
    memory_limit.check(4 * int(count), f"a tensor of shape {shape}", Misfit)


# Whole numbers and masks.


class ByNumpy(Function):
    """An operator in NumPy, through which no gradient goes back."""

    is_pure = True

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Any:
        *arrays, recipe = given
        return recipe.run(arrays)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None,) * len(ctx.needs_input_grad)

    @classmethod
    def _acts_by_element(cls, arguments: Sequence[Any]) -> bool:
        call = arguments[-1].call
        return OPERATORS[call.op].by_element and call.op not in ("CumSum", "Hardmax", "Trilu")

    @classmethod
    def native_call(cls, given: Sequence[Any], target: Array) -> Calls | None:
        *arrays, recipe = given
        native: Calls | None = recipe.native_call(arrays, target)
        return native

    @classmethod
    def _outputs(cls, arguments: list[Any], inputs: list[Tensor]) -> tuple[list[Tensor], bool]:
        """The shapes of results: those of the operands if they are elementwise; others are found by trial runs."""
        recipe, graph = arguments[-1], inputs[0].graph
        if OPERATORS[recipe.call.op].by_element:
            computed = cls.trial(arguments, graph.sizes.numbers)
            shape = broadcast_shape([x.shape for x in recipe.tensors if x is not None])
            return [Tensor(graph, shape, FLOAT32 if computed.dtype.kind == "f" else INT64)], False
        try:
            return super()._outputs(arguments, inputs)
        except (Misfit, ValueError, IndexError):  # of a trial: other operands are for the sizes of this recording alone
            for size in {str(n): n for x in inputs for n in x.shape if isinstance(n, Size)}.values():
                int(size)
            computed = cls.trial(arguments, graph.sizes.numbers)
            listed = computed if isinstance(computed, tuple) else (computed,)
            outputs = [Tensor(graph, one.shape, FLOAT32 if one.dtype.kind == "f" else INT64) for one in listed]
            return outputs, isinstance(computed, tuple)

    @classmethod
    def trial(cls, arguments: list[Any], sizes: Mapping[str, int], fill: Callable[..., Any] = np.ones) -> Any:
        """The results for ones; for zeros if these cannot be, since they may be indices of axes of size 1."""
        try:
            return super().trial(arguments, sizes, fill)
        except (Misfit, IndexError):
            if fill is np.zeros:
                raise
            return super().trial(arguments, sizes, np.zeros)


class Recipe:
    """A node that acts on arrays in place of its tensors, except for constants."""

    def __init__(self, call: Call, tensors: Sequence[ForeignTensor | None], body: Handler | None) -> None:
        self.call, self.tensors = call, [None if x is None else _settled(x) for x in tensors]
        self.body = OPERATORS[call.op].compute if body is None else body
        self.types: list[np.dtype[Any]] = []

    @property
    def is_own(self) -> bool:
        """True if the function of the operator itself computes it, rather than one for a part of the node."""
        return self.body is OPERATORS[self.call.op].compute

    @property
    def values(self) -> list[Tensor]:
        return [x.value for x in self.tensors if x is not None and not x.constant]

    def run(self, arrays: Sequence[Any]) -> Any:
        given = iter(arrays)
        held = [None if x is None else x.held if x.constant else _typed(next(given), x) for x in self.tensors]
        results = compute(self.body, self.call, held)
        self.types = [y.dtype for y in results]
        return results if len(results) > 1 else results[0]

    def native_call(self, arrays: Sequence[Array], target: Array) -> Calls | None:
        """A native call that stores the result, for elements that are moved and for functions of whole numbers; else None."""
        operator, given = OPERATORS[self.call.op], iter(arrays)
        if not self.is_own or any(x is None for x in self.tensors):
            return None
        held = [x.held if x.constant else next(given) for x in self.tensors if x is not None]
        name = operator.native if isinstance(operator.native, str) else operator.native(self.call)
        if name == _PUT_ALONG and all(x.dtype == np.int64 for x in held):
            base, indices, updates = held
            axis = self.call.integer("axis", 0) % max(1, base.ndim)
            in_numpy = computing(target, lambda: compute(self.body, self.call, held)[0])
            return [copying(target, base), scattering(target, updates, indices, axis, in_numpy)]
        if name and held[0].dtype in (np.int64, np.float32):
            formula = partial(compute, self.body, self.call)
            return by_element(target, name, lambda x: formula([x, *held[1:]])[0], held[0])
        if operator.moves and len(arrays) == 1 and arrays[0] is held[0] and held[0].dtype == np.int64:
            (moved,) = compute(self.body, self.call, held)
            if np.may_share_memory(moved, held[0]):  # it is a view, whatever the numbers are
                return copying(target, moved)
        return None


def _settled(x: ForeignTensor) -> ForeignTensor:
    """A constant with numbers in place of free sizes."""
    return ForeignTensor(np.array(x.held.tolist(), np.int64)) if x.constant and x.held.dtype == object else x


def _typed(array: Any, x: ForeignTensor) -> Any:
    """The elements of a tensor in the type that the file has for them; numbers have 32 bits."""
    if x.kind == "f":
        return array
    return array != 0 if x.kind == "b" else array.astype(x.whole_type, copy=False)


def by_numpy(
    call: Call, tensors: Sequence[ForeignTensor | None], body: Handler | None = None
) -> tuple[ForeignTensor, ...]:
    """The results of a node that is computed in NumPy, by its operator unless a body is given."""
    recipe = Recipe(call, tensors, body)
    for value in recipe.values:
        check_memory(value.shape)
    assert current_graph() is not None
    made = ByNumpy.apply(*recipe.values, recipe)
    outputs = made if isinstance(made, tuple) else (made,)
    typed = zip(outputs, recipe.types, strict=True)
    return tuple(ForeignTensor(y, kind_of(dtype), whole_type=dtype) for y, dtype in typed)


def by_data(
    call: Call, tensors: Sequence[ForeignTensor | None], shapes: Sequence[Sequence[Any]], kind: str = "i", body: Handler | None =
    None,
) -> tuple[ForeignTensor, ...]:  # fmt: skip
    """Whole numbers, or others, that a node gives in NumPy, where text in the shapes names sizes that depend on numbers."""
    recipe = Recipe(call, tensors, body)
    return sized_by_data(ByNumpy, *recipe.values, recipe, shapes=shapes, kinds=kind * len(shapes))
