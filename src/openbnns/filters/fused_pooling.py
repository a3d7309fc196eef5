"""A fused chain followed by max pooling as one native plan, for networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .. import engines
from .base import DB, DW, DX, DY, X, Y
from .fused import DBETA, DGAMMA, Fused

_BUFFER = 0  # kind of an argument, as in core/bindings/fast_call.h
_GRADIENTS = {"weights": DW, "bias": DB, "beta": DBETA, "gamma": DGAMMA}


class PooledCalls(NamedTuple):
    """Native calls on packed float32 arrays: 0 when done, 1 when declined."""

    plan: Any  # keeps the latest training forward
    inference: Callable[..., int]  # (batch, x, y)
    training: Callable[..., int]
    backward: Callable[..., int]  # (batch, x, dy, dx, gradients of the parameters that the chain has); None: not wanted


def pooled_calls(f: Fused) -> PooledCalls | None:
    """The chain followed by max pooling over adjacent windows of 2 x 2 pixels; ``None`` if there is no such plan."""
    core, fixed, backward = engines._core, f.fixed_addresses(), f.declared("apply_backward_fused")
    if f.plan is None or fixed is None or backward is None or not backward.takes_fast or not f.inputs[0].fast:
        return None
    plan = core.pooled(f.plan)
    if plan is None:
        return None
    channels, height, width = f.output.shape

    def argument(slot: int, count: int, **options: Any) -> Any:
        return core.argument(slot=slot, kind=_BUFFER, count=count, **options)

    x, y = f.inputs[0].view.count, channels * (height // 2) * (width // 2)
    gradients = {_GRADIENTS[name]: p for name, p in f.slots.items() if p is not None}
    everything = sum(1 << slot for slot in (DX, *gradients))
    forward = [argument(X, x), argument(Y, y, output=True)]
    arguments = [
        argument(X, x, needed_with=1 << DW),
        argument(DY, y, needed_with=everything),
        argument(DX, x, output=True),
        *(argument(slot, p.view.count, batched=False, output=True) for slot, p in gradients.items()),
    ]
    return PooledCalls(
        plan,
        core.FastCall(plan, False, forward, fixed, f.threads).run,
        core.FastCall(plan, False, forward, fixed, f.threads, True).run,
        core.FastCall(plan, True, arguments, fixed, f.threads).run,
    )
