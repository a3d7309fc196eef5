"""Dropout: y = x * mask / (1 - rate), dx = dy * mask / (1 - rate) with the mask of the latest forward call.

The mask is 1 with probability 1 - rate. Along the axes that the bits of ``control`` name, one decision holds for all
elements: bit d = 0, 1, 2 is the axis of ``size[d]``, bit 3 the batch. A decision is a function of the seed, the number of
the forward call and its index among the decisions, hence the same on both engines, every machine and any number of
threads; a seed of 0 stands for a random one.

Shapes: x, y, dx, dy (N, *shape) in C order.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import _strict, compat, engines
from .._plural import plural
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersDropout
from ..calls.signature import Argument, Call
from ..errors import Problem
from ..parameters.activation import IDENTITY, Activation
from ..parameters.random_numbers import Stream
from ..reference import dropout as reference
from ..reference import random_numbers
from ..tensors.operands import Bound, Operand
from ._activation_rules import as_float32
from ._rules import require_same_shape, resolve_both
from .base import UnaryFilter, W

if TYPE_CHECKING:
    from .. import _core


class Dropout(UnaryFilter):
    """A dropout filter; every forward call draws a new mask."""

    family = "dropout"
    works_in_place = True

    def __init__(self, p: BNNSLayerParametersDropout, filter_params: BNNSFilterParameters | None, who: Caller) -> None:
        super().__init__(filter_params, who)
        x, y = resolve_both(p, who)
        require_same_shape(x, y, who, "Dropout keeps the shape")
        self.rate = as_float32(p.rate)
        if not 0.0 <= self.rate < 1.0:
            raise Problem(
                f"{who('rate')} is {self.rate:g}. It is the probability of dropping an element: at least 0 and less than 1."
            )
        self.input, self.output = Operand(x, x.memory_axes), Operand(y, y.memory_axes)
        self.activation, self.fused_function = IDENTITY, 0
        self.seed = int(p.seed) or int.from_bytes(os.urandom(8), "little")
        size_axes = [1 + x.memory_axes.index(d) for d in range(x.layout.rank)]
        self.shared = reference.shared_axes(int(p.control), size_axes, compat.switches.dropout_control_reversed)
        # Forward calls so far, and the batch of the latest one; native calls count here too.
        self.state = np.zeros(2, np.uint64)
        self._awaits_backward = False  # as far as strict mode knows
        self.build_plan()

    @property
    def draws(self) -> int:
        """Forward calls so far. The next mask follows from the seed and this number, so setting it repeats a mask."""
        return int(self.state[0])

    @draws.setter
    def draws(self, number: int) -> None:
        self.state[0] = number

    # Native set-up.

    def make_plan(self, f: Activation) -> _core.Plan:
        shape = self.input.shape
        shared = [axis + 1 in self.shared for axis in range(len(shape))]
        return engines._core.dropout(
            rate=self.rate, seed=self.seed, size=shape, shared=shared, batch_shared=0 in self.shared
        )

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        before = self.state.copy()
        try:
            yield
        finally:
            self.state[:] = before

    def held_tensors(self, dtype: Any) -> dict[int, NDArray[Any]]:
        return {W: self.state}

    def fixed_addresses(self) -> list[tuple[int, int, int]] | None:
        return [(W, int(self.state.ctypes.data), self.state.nbytes)]

    def backward_arguments(self) -> tuple[Argument, ...]:
        """The forward input and output have no effect."""
        return tuple(replace(a, tensor=None) if a.name in ("in", "out") else a for a in super().backward_arguments())

    # Reference engine.

    def mask(self, batch: int, draw: int) -> NDArray[np.bool_]:
        """The decisions of forward call number ``draw``, in a shape that broadcasts against (batch, *shape)."""
        shape = reference.mask_shape((batch, *self.input.shape), self.shared)
        words = random_numbers.words(Stream(self.seed, draw), math.prod(shape))
        return reference.mask_from_uniform(words.astype(np.float64).reshape(shape) * 2.0**-32, self.rate)

    def reference_forward(
        self, x: NDArray[Any], w: NDArray[Any] | None, b: NDArray[Any] | None, f: Activation
    ) -> NDArray[Any]:
        draw = int(self.state[0])
        self.state[:] = draw + 1, len(x)
        return reference.forward(x, self.mask(len(x), draw), self.rate)

    def reference_backward(
        self, x: NDArray[Any] | None, y: NDArray[Any] | None, dy: NDArray[Any], w: NDArray[Any] | None,
        b: NDArray[Any] | None, wanted: set[str],
    ) -> dict[str, NDArray[Any]]:  # fmt: skip
        return {"dx": reference.backward(dy, self.mask(len(dy), int(self.state[0]) - 1), self.rate)}

    # Backward.

    def check(self, call: Call, caller: Caller, batch: int, bound: dict[str, Bound]) -> None:
        if _strict.active() and not call.backward and self._awaits_backward and self.rate > 0.0:
            _strict.dropout_again(caller.function)
        self._awaits_backward = not call.backward
        if not call.backward or batch == 0:
            return
        draws, latest = (int(v) for v in self.state)
        if draws == 0:
            raise Problem(
                f"{caller}: there is no mask, because the filter has not run forward. Apply it first: the gradient uses "
                "the mask of the latest forward call."
            )
        if batch != latest:
            raise Problem(
                f"{caller('batch_size')} is {batch}, but the latest forward call, whose mask is used, had "
                f"{plural(latest, 'sample')}. Pass batch_size {latest}, or apply the filter to {plural(batch, 'sample')} first."
            )
