"""Fused chains on the native engine: staging of checked memory, and the fast calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import engines
from ..descriptors import FLOAT32
from ..engines.native.fused import BETA, DBETA, DGAMMA, GAMMA, MOVING_MEAN, MOVING_VARIANCE, plan
from ..engines.reference.arithmetic import NEEDS_OPERANDS, Needs
from ..errors import Problem
from ._activation_rules import check_trainable
from ._base import DB, DW, DX, DY, B, W, X, Y, declined, fast_argument, forward_lost
from ._tensors import Bound, Parameter
from .arithmetic import A0, DA0, DOUT, OUT, Arithmetic

if TYPE_CHECKING:
    from .. import _core
    from .fused import Fused


class PooledCalls(NamedTuple):
    """Fast calls on packed float32 arrays: 0 when done, 1 when declined."""

    inference: Callable[..., int]  # (batch, x, y)
    training: Callable[..., int]
    backward: Callable[..., int]  # (batch, x, dy, dx, gradients of the parameters that the chain has); None: not wanted


_PARAMETERS = {"weights": (W, DW), "bias": (B, DB), "beta": (BETA, DBETA), "gamma": (GAMMA, DGAMMA)}
assert (A0, OUT, DA0) == (X, Y, DX)


def make_plan(f: Fused) -> _core.Plan:
    """The native plan of the whole chain."""
    n = f.norm
    shapes = (n.image, n._spread_shape(n.beta), n._spread_shape(n.gamma))
    return plan(f.first.plan, f.is_arithmetic, n.settings, *shapes, n.activation, n.slope_from_input)


def _output_gradient_slot(f: Fused) -> int:
    return DOUT if f.is_arithmetic else DY


def _run(
    f: Fused,
    backward: bool,
    batch: int,
    tensors: dict[int, NDArray[Any]],
    *,
    accumulate: int = 0,
    training: bool = False,
) -> None:
    """Run the plan on float32 arrays, each sample C-contiguous, axis 0 the batch; parameters have none."""
    shared = set() if f.is_arithmetic else {W, B, DW, DB}  # in arithmetic these are operands
    shared |= {BETA, GAMMA, DBETA, DGAMMA, MOVING_MEAN, MOVING_VARIANCE}
    places = [(slot, a.ctypes.data, 0 if slot in shared else a.strides[0] // a.itemsize) for slot, a in tensors.items()]
    if not engines._core.run(f.plan, backward, batch, places, accumulate, f.threads, training):
        raise forward_lost(f)


def _parameter_values(f: Fused) -> dict[int, NDArray[Any]]:
    return {_PARAMETERS[name][0]: p.read(np.float32) for name, p in f.slots.items() if p is not None}


def _moving(f: Fused) -> list[tuple[int, Parameter]]:
    return [(slot, p) for slot, p in zip((MOVING_MEAN, MOVING_VARIANCE), f.moving, strict=True) if p is not None]


def _touches_parameters(f: Fused, result: Bound) -> bool:
    """Whether a result lies in memory that the kernel reads parameters from."""
    held = [p for p in (*f.slots.values(), *f.moving) if p is not None]
    return any(result.touches(p.memory) for p in held)


def forward(f: Fused, batch: int, inputs: list[Bound], y: Bound, training: bool) -> None:
    """Run forward on checked memory."""
    tensors = {X + i: x.read(np.float32) for i, x in enumerate(inputs)} | _parameter_values(f)
    moving = [(slot, p, np.array(p.read(np.float32))) for slot, p in _moving(f)]
    tensors |= {slot: numbers for slot, _, numbers in moving}
    target = y.direct()
    if target is None or any(y.overlaps(x) for x in inputs) or _touches_parameters(f, y):
        result = np.empty((batch, *f.output.shape), np.float32)
        _run(f, False, batch, tensors | {Y: result}, training=training)
        y.write(result)
    else:
        _run(f, False, batch, tensors | {Y: target}, training=training)
    for _, parameter, numbers in moving if training else ():
        parameter.write(numbers)


def backward(
    f: Fused, batch: int, inputs: list[Bound | None], y: Bound | None, dy: Bound, results: dict[str, Bound]
) -> None:
    """Run backward into the caller's memory, or into staging where that is not canonical or is read as well."""
    tensors = {X + i: x.read(np.float32) for i, x in enumerate(inputs) if x is not None} | _parameter_values(f)
    tensors[_output_gradient_slot(f)] = dy.read(np.float32)
    if y is not None:
        tensors[Y] = y.read(np.float32)
    sources = [t for t in (*inputs, y, dy) if t is not None]
    staged: dict[str, NDArray[Any]] = {}
    accumulate = 0
    for name, result in results.items():
        slot = DX + int(name[2:]) if name.startswith("in") else _PARAMETERS[name][1]
        alone = sum(result.same_memory(other) for other in results.values()) == 1
        safe = alone and not any(result.overlaps(s) for s in sources) and not _touches_parameters(f, result)
        target = result.direct() if safe else None
        if target is None:
            staged[name] = target = np.empty((result.batch, *result.shape), np.float32)
        elif result.accumulate:
            accumulate |= 1 << slot
        tensors[slot] = target
    _run(f, True, batch, tensors, accumulate=accumulate)
    f.write_gradients(staged, results)


# Fast calls.


def prepare_fast_calls(f: Fused) -> None:
    """Forward in training and in inference, and backward, for arguments that are already as the kernels want them."""
    fixed = _fixed_addresses(f)
    if (
        fixed is None
        or not all(o.fast for o in (*f.inputs, f.output))
        or (isinstance(f.first, Arithmetic) and f.first.splits_ties)
    ):
        return
    core = engines._core
    inputs = [
        fast_argument(X + i, o, batched=batched, needed_with=1 << Y)
        for i, (o, batched) in enumerate(zip(f.inputs, f.batched, strict=True))
    ]
    arguments = [*inputs, fast_argument(Y, f.output, output=True)]
    f.fast_inference = core.FastCall(f.plan, False, arguments, fixed, f.threads).run_lists
    if f.first.activation.function != 0 or not f.norm._moving_is_writable():
        return
    f.fast_forward = core.FastCall(f.plan, False, arguments, fixed, f.threads, True).run_lists
    try:
        check_trainable(f.norm.activation, "", f.norm.fused_function)
    except Problem:
        return
    if any(p is not None and p.view.element is not FLOAT32 for p in f.slots.values()):
        return
    f.fast_backward = core.FastCall(f.plan, True, _backward_arguments(f), fixed, f.threads).run_lists


def pooled_calls(f: Fused) -> PooledCalls | None:
    """The chain with the maximum of 2 x 2 pixels, side by side, behind it; ``None`` where there is no such plan."""
    core, fixed = engines._core, _fixed_addresses(f)
    if f.plan is None or fixed is None or f.fast_backward is declined:
        return None
    plan = core.pooled(f.plan)
    if plan is None:
        return None
    channels, height, width = f.output.shape

    def argument(slot: int, count: int, *, batched: bool = True, output: bool = False, needed_with: int = 0) -> Any:
        return core.argument(slot, 0, False, batched, output, count, needed_with, 0, 0, 0, [], [])

    x, y = f.inputs[0].view.count, channels * (height // 2) * (width // 2)
    gradients = {_PARAMETERS[name][1]: p for name, p in f.slots.items() if p is not None}
    everything = sum(1 << slot for slot in (DX, *gradients))
    forward = [argument(X, x), argument(Y, y, output=True)]
    backward = [
        argument(X, x, needed_with=1 << DW),
        argument(DY, y, needed_with=everything),
        argument(DX, x, output=True),
        *(argument(slot, p.view.count, batched=False, output=True) for slot, p in gradients.items()),
    ]
    return PooledCalls(
        core.FastCall(plan, False, forward, fixed, f.threads).run,
        core.FastCall(plan, False, forward, fixed, f.threads, True).run,
        core.FastCall(plan, True, backward, fixed, f.threads).run,
    )


def _fixed_addresses(f: Fused) -> list[tuple[int, int, int]] | None:
    """Slot, address and size of everything that is the same at every call; ``None`` if something must be staged."""
    held = {_PARAMETERS[name][0]: p for name, p in f.slots.items() if p is not None}
    fixed = []
    for slot, parameter in (held | dict(_moving(f))).items():
        if parameter.address is None:
            return None
        fixed.append((slot, parameter.address, parameter.view.count))
    return fixed


def _backward_arguments(f: Fused) -> list[Any]:
    input_gradients = sum(1 << DX + i for i in range(len(f.inputs)))
    parameter_gradients = sum(1 << _PARAMETERS[name][1] for name in f.slots)
    everything = input_gradients | parameter_gradients
    if isinstance(f.first, Arithmetic):
        needs_input = input_gradients if NEEDS_OPERANDS[f.first.function] is Needs.OPERANDS else 0
        constant = [role == 0 for role in f.first.roles]
    else:
        needs_input, constant = 1 << DW, [False]
    arguments = [
        fast_argument(X + i, o, batched=batched, needed_with=needs_input)
        for i, (o, batched) in enumerate(zip(f.inputs, f.batched, strict=True))
    ]
    for i, (o, batched) in enumerate(zip(f.inputs, f.batched, strict=True)):
        operand = None if constant[i] else o
        arguments.append(fast_argument(DX + i, operand, output=True, descriptor=True, batched=batched))
    needs_output = everything if f.norm.activation.function else 0
    arguments.append(fast_argument(Y, f.output, needed_with=needs_output))
    arguments.append(fast_argument(_output_gradient_slot(f), f.output, descriptor=True, needed_with=everything))
    arguments += [
        fast_argument(
            _PARAMETERS[name][1], f.gradient_form(name), output=True, descriptor=True, strided=False, batched=False
        )
        for name in f.slots
    ]
    return arguments
