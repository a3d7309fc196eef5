"""Results that are values and can be unpacked like PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from ..graph import functions
from ..graph.tensor import Array, Tensor


class Parts(Tensor):
    """The output of a module that PyTorch returns as the first part of a tuple.

    It is used as the output itself, ``x = self.lstm(x)``, or unpacked, ``x, (h, c) = self.lstm(x)``; ``[0]`` is the
    output and ``[1]`` the rest. All other indices are those of the output.
    """

    def __init__(self, output: Tensor, rest: Callable[[], Any]) -> None:
        super().__init__(output.graph, output.shape, source=output)
        self._rest = cache(rest)  # recorded only if it is asked for

    def __iter__(self) -> Iterator[Any]:
        assert self.source is not None
        return iter((self.source, self._rest()))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int):
            return tuple(self)[index]
        assert self.source is not None
        return self.source[index]


_NOTHING = object()


class Output(np.ndarray[Any, np.dtype[Any]]):
    """The same for arrays: the output of a module, with what PyTorch returns beside it."""

    _rest: Any = _NOTHING  # what is computed from it is an array and nothing else

    @classmethod
    def of(cls, output: Array, rest: Any) -> Output:
        made = output.view(cls)
        made._rest = rest
        return made

    def __iter__(self) -> Iterator[Any]:
        return super().__iter__() if self._rest is _NOTHING else iter((self.view(np.ndarray), self._rest))

    def __len__(self) -> int:
        return super().__len__() if self._rest is _NOTHING else 2

    def __getitem__(self, index: Any) -> Any:
        if self._rest is not _NOTHING and isinstance(index, int):
            return tuple(self)[index]
        return self.view(np.ndarray)[index]

    def __reduce__(self) -> Any:
        return self.view(np.ndarray).__reduce__()


class States(tuple[Tensor, ...]):
    """The states of all layers and directions of a recurrent module, one value (N, H) each, in PyTorch's order.

    Where PyTorch has an array (layers * directions, N, H), ``states[-1]`` is the same value, as are ``squeeze(0)`` of one
    layer, and ``transpose(0, 1)`` (N, layers * directions, H), the batch in front.
    """

    @property
    def shape(self) -> tuple[Any, ...]:
        """(layers * directions, N, H)"""
        return (len(self), *self[0].shape)

    def squeeze(self, dim: int = 0) -> Tensor:
        """The state of a module with one layer and one direction."""
        if dim not in (0, -3) or len(self) != 1:
            raise ValueError(
                f"squeeze: dim is {dim}, but the states have shape {self.shape}. Take one of them, states[-1], or all with the "
                "batch in front, states.transpose(0, 1)."
            )
        return self[0]

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """All states side by side with the batch in front, (N, layers * directions, H)."""
        if {dim0 % 3, dim1 % 3} != {0, 1}:
            raise ValueError(
                f"transpose: dims are {dim0} and {dim1}, but only 0 and 1 are possible: the batch comes first."
            )
        joined: Tensor = functions.stack(self, 1)
        return joined

    def permute(self, *dims: int) -> Tensor:
        """``permute(1, 0, 2)`` is ``transpose(0, 1)``."""
        order = tuple(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
        if order != (1, 0, 2):
            raise ValueError(f"permute: dims are {order}, but only (1, 0, 2) is possible: the batch comes first.")
        return self.transpose(0, 1)
