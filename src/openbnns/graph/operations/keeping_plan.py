"""Layers that normalize, on memory of the network.

A training forward keeps the numbers that it normalizes. The gradients of the layer follow from these, and so does its
result, which can be computed once more instead of being kept, too. A layer by itself keeps these numbers in memory of its
own, which nothing else can use; here the network decides where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from ... import _strict, engines
from ...calls.run import run_plan
from ...errors import LayerApplyError
from ...filters.base import DY, Y
from ..calls import Call, Calls, PlanCall
from ..tensor import FLOAT32, Array

ArraysBySlot = Mapping[int, Array | None]  # arrays by slot of a plan

CHEAP = {"identity", "rectified_linear", "leaky_rectified_linear", "clamp"}
"""Activations that are part of the loops of a normalization, so that computing them again takes less than reading them."""


class KeepingPlan:
    """A plan of a layer on arrays of a network; ``kept`` is the slot of what a training forward keeps.

    In strict mode, and on the reference engine, the layer runs by itself: ``by_layer`` gives the call.
    """

    def __init__(self, who: str, layer: Any, own: Iterable[Array | None], kept: int, *, pooled: bool = False) -> None:
        """``own`` are parameters and moving statistics of the layer; ``pooled``: the plan has a pooling behind the layer."""
        f = layer.bnns_filter
        places = {array.ctypes.data: array for array in own if array is not None}
        fixed = None if f.plan is None else f.fixed_addresses()
        if fixed is None or any(address not in places for _, address, _ in fixed):  # not where the network has them
            self.plan, fixed = None, []
        else:
            self.plan = engines._core.pooled(f.plan) if pooled else f.plan
        self._repeated = None if self.plan is None else engines._core.repeated(self.plan)
        self._shared = {slot: places[address] for slot, address, _ in fixed}
        self._who, self._kept, self._threads = who, kept, f.threads
        self._result: Array | None = None  # the result of the latest training forward, if the layer ran by itself

    def forward(self, tensors: ArraysBySlot, by_layer: Callable[[], Call], training: bool) -> Calls:
        return PlanCall(self._forward, {**self._shared, **tensors}, by_layer, training)

    def _forward(self, tensors: ArraysBySlot, by_layer: Callable[[], Call], training: bool) -> None:
        if self._takes(tensors) and not _strict.active():
            self._run(self.plan, False, tensors, training=training)
            return
        if training and self.plan is not None:
            self.plan.forget()  # in case it is not that of the layer
        by_layer()()
        if training:
            self._result = np.array(tensors[Y])

    def repeat(self, tensors: ArraysBySlot) -> Calls:
        """A call that writes the result of the latest training forward again, bit for bit."""
        return PlanCall(self._repeat, {**self._shared, **tensors})

    def _repeat(self, tensors: ArraysBySlot) -> None:
        if not (self._takes(tensors) and self._go_on(self._repeated, False, tensors)):
            target = tensors[Y]
            assert target is not None
            np.copyto(target, self._result_of_layer(target.shape))

    def backward(self, tensors: ArraysBySlot, parameters: Collection[int], by_layer: Callable[[Array], Call]) -> Calls:
        """``parameters`` are slots of gradients without a batch; ``by_layer`` gets the result of the training forward."""
        return PlanCall(self._backward, {**self._shared, **tensors}, parameters, by_layer)

    def _backward(self, tensors: ArraysBySlot, parameters: Collection[int], by_layer: Callable[[Array], Call]) -> None:
        if not (self._takes(tensors) and self._go_on(self.plan, True, tensors, parameters)):
            arriving = tensors[DY]
            assert arriving is not None
            by_layer(self._result_of_layer(arriving.shape))()

    def _takes(self, tensors: ArraysBySlot) -> bool:
        return (
            engines.is_native()
            and self.plan is not None
            and all(array is None or array.dtype == FLOAT32 for array in tensors.values())
        )

    def _go_on(self, plan: Any, backward: bool, tensors: ArraysBySlot, parameters: Collection[int] = ()) -> bool:
        """Run from what a training forward of the network kept, or else one of the layer by itself; False if neither is."""
        own = {slot: array for slot, array in tensors.items() if slot != self._kept}
        return self._run(plan, backward, tensors, parameters) or self._run(plan, backward, own, parameters)

    def _run(
        self, plan: Any, backward: bool, tensors: ArraysBySlot, parameters: Collection[int] = (), training: bool = False
    ) -> bool:
        shared = self._shared.keys() | set(parameters)
        batch = next(len(array) for slot, array in tensors.items() if array is not None and slot not in shared)
        return run_plan(plan, backward, batch, tensors, shared, self._threads, training=training, repeatable=True)

    def _result_of_layer(self, shape: tuple[int, ...]) -> Array:
        natively = self.plan is not None and self.plan.trained_batch() > 0
        if natively or self._result is None or self._result.shape != shape:
            raise LayerApplyError(
                f"{self._who}: the latest training forward was of another batch, or on another engine, than this backward call "
                f"of {shape[0]} samples. Run both on the same batch and engine."
            )
        return self._result
