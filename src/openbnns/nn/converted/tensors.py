"""Tensors of other libraries as values here, whatever axis their batch is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import functional as F
from .._graph import current_graph
from .._value import FLOAT32, BatchSize, Value
from ..parameter import Parameter
from .functions import AsNumbers
from .sizes import SampleNumbers, Size, batch_axis


class Misfit(ValueError):
    """What an operation cannot do with its arguments; whoever runs the steps adds where."""


class Tensor:
    """``held`` is a value, parameter or array: that of PyTorch with the batch, axis ``batch``, moved to the front.

    A tensor that is the same for all samples may have a batch in PyTorch and none in ``held``. ``shape`` is PyTorch's, with a
    ``Size`` for the batch. ``kind`` is "f" for numbers, "i" for whole numbers and "b" for booleans.
    """

    def __init__(self, held: Any, shape: tuple[Any, ...], kind: str = "f") -> None:
        self.held, self.shape, self.kind = held, shape, kind
        self.batch = batch_axis(shape)
        found = tuple(held.sample if isinstance(held, Value) else held.shape)
        if found != self.rest or (isinstance(held, Value) and held.rows not in (0, self.rows)):
            raise Misfit(f"its result is {getattr(held, 'shape', found)} here, but {shape} in PyTorch")

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def rows(self) -> int:
        """The length of the batch axis per sample, or 0 without one."""
        return 0 if self.batch is None else int(self.shape[self.batch].rows)

    @property
    def rest(self) -> tuple[int, ...]:
        """All sizes but that of the batch."""
        return tuple(n for n in self.shape if not isinstance(n, Size))

    @property
    def value(self) -> Value:
        """As a value; arrays and parameters become one."""
        if isinstance(self.held, Value):
            return self.held
        if isinstance(self.held, SampleNumbers):
            raise Misfit(
                "a constant is not the same for all samples of a batch. Numbers of samples, torch.arange(N), can do nothing but "
                "pick all of them, x[torch.arange(N), i]"
            )
        graph = current_graph()
        assert graph is not None
        found: Value = graph.value(self.held)
        return found

    @property
    def numbers(self) -> Value:
        """As a value to compute with."""
        value = self.value
        if value.dtype == FLOAT32:
            return value
        if isinstance(value.leaf, np.ndarray):
            return value.graph.constant(value.leaf.astype(np.float32))
        result: Value = AsNumbers.apply(value)
        return result

    @property
    def same_for_all(self) -> bool:
        """Whether it has a batch in PyTorch, but the same entries for all samples."""
        return self.batch is not None and not (isinstance(self.held, Value) and self.held.rows)

    @property
    def batched(self) -> Value:
        """As a value with the batch in front, copied for every sample if need be."""
        value = self.numbers
        if self.batch is None or value.rows:
            return value
        result: Value = F.expand(value, BatchSize(self.rows), *[-1] * len(value.sample))
        return result

    @property
    def array(self) -> Any:
        """The numbers of a constant."""
        if isinstance(self.held, np.ndarray):
            return self.held
        raise Misfit("an argument must be a constant, but is computed with")

    def axis(self, dim: int) -> int:
        """Which axis of ``held`` an axis of PyTorch's tensor is."""
        if not -self.rank <= dim < self.rank:
            raise Misfit(f"there is no axis {dim} in {self.shape}")
        dim %= self.rank
        if self.batch is None:
            return dim
        first = 0 if self.same_for_all else 1
        if dim == self.batch:
            if not first:
                raise Misfit("the batch of a tensor that is the same for all samples cannot be computed over")
            return 0
        return dim + first if dim < self.batch else dim - 1 + first

    def aligned(self, shape: tuple[Any, ...]) -> Value:
        """As an operand of an elementwise operation whose result has this shape in PyTorch."""
        value, batch, missing = self.numbers, batch_axis(shape), len(shape) - self.rank
        if batch is None:
            return value
        if self.batch is None:
            own = batch - missing  # our axis that meets the batch of the result
            if own < 0:
                return value
            if self.shape[own] != 1:
                raise Misfit(f"{self.shape} meets the batch of {shape} with an axis that is no batch")
            return value.reshape(tuple(n for axis, n in enumerate(self.shape) if axis != own))
        if self.batch + missing != batch or self.shape[self.batch] != shape[batch]:
            raise Misfit(f"{self.shape} has its batch elsewhere than {shape}")
        if value.rows and missing:
            return value.reshape((value.shape[0], *[1] * missing, *value.sample))
        return value


def sizes(shape: tuple[Any, ...]) -> list[Any]:
    """A shape of PyTorch with the batch in front, as values take it."""
    batch = batch_axis(shape)
    rest: list[Any] = [n for n in shape if not isinstance(n, Size)]
    return rest if batch is None else [BatchSize(shape[batch].rows), *rest]


def reshaped(x: Tensor, shape: tuple[Any, ...]) -> Any:
    """The elements of ``x`` in a shape of PyTorch, in PyTorch's order."""
    before, after = batch_axis(x.shape), batch_axis(shape)
    if (before is None) != (after is None):
        raise Misfit(f"{x.shape} cannot become {shape}: the batch stays an axis of its own")
    if before is None or after is None:
        held = x.held
        return held.reshape(shape) if isinstance(held, np.ndarray) else x.value.reshape(tuple(shape))
    front, new_front = math.prod(x.shape[:before]), math.prod(shape[:after])
    if front != new_front:
        raise Misfit(f"{x.shape} cannot become {shape}: axes in front of the batch would be mixed with it")
    if x.same_for_all:
        if x.rows != shape[after].rows:
            raise Misfit(f"{x.shape} cannot become {shape}: the batch stays an axis of its own")
        held = x.held if isinstance(x.held, np.ndarray) else x.value
        return held.reshape(tuple(n for n in shape if not isinstance(n, Size)))
    value, rows, new_rows = x.value, x.rows, shape[after].rows
    if rows == new_rows or front == 1:
        return value.reshape(tuple(sizes(shape)))
    # (N rows, front, rest) -> (N, front, rows rest) -> (N, front, new rows, rest) -> (N new rows, front, rest)
    rest = math.prod(x.shape[before + 1 :])
    apart = F.permute(value.reshape((BatchSize(1), rows, front, rest)), 0, 2, 1, 3)
    new_rest = rows * rest // new_rows
    joined = F.permute(apart.reshape((BatchSize(1), front, new_rows, new_rest)), 0, 2, 1, 3)
    return joined.reshape(tuple(sizes(shape)))


def tensors(given: Sequence[Any]) -> list[Tensor]:
    """Those among some arguments that are tensors."""
    return [x for x in given if isinstance(x, Tensor)]


def held_parameter(given: Any) -> Any:
    """What layers take as weights: a parameter, an array or None."""
    if given is None:
        return None
    if isinstance(given, Tensor) and isinstance(given.held, (Parameter, np.ndarray)):
        return given.held
    raise Misfit("weights must be parameters or constants of the module as they are, but are computed")


def as_parameter(given: Any) -> Parameter | None:
    """Weights as the parameter that a layer holds: one of the network, or of numbers that are not trained."""
    if given is None:
        return None
    if not isinstance(given, Parameter):
        return Parameter(given, requires_grad=False)
    graph = current_graph()
    assert graph is not None
    graph.parameter(given)  # refuses those that the network does not know of
    return given
