"""Running a native plan on bound tensors: tensors that kernels cannot use in place are staged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import engines
from ..tensors.sharing import sharing

if TYPE_CHECKING:
    from ..tensors.operands import Bound
    from .signature import Argument, Call, Owner


class TrainingLost(Exception):
    """The training forward pass that a backward run needs is gone, and nothing has been written."""


def run_plan(
    plan: Any, backward: bool, batch: int, tensors: Mapping[int, NDArray[Any] | None], shared: set[int], threads: int,
    accumulate: int = 0, training: bool = False, repeatable: bool = False,
) -> bool:  # fmt: skip
    """Run a plan on arrays by slot, each sample C-contiguous. Axis 0 is the batch, but slots in ``shared`` have none.

    Gives False, and has written nothing, if the training forward that a backward run needs is gone. A ``repeatable`` run
    does the same whenever it is made on the same memory.
    """
    places = [
        (slot, a.ctypes.data, 0 if slot in shared else a.strides[0] // a.itemsize)
        for slot, a in tensors.items()
        if a is not None
    ]
    return bool(engines._core.run(plan, backward, batch, places, accumulate, threads, training, repeatable=repeatable))


def run_staged(
    filter: Owner, call: Call, plan: Any, batch: int, bound: Mapping[str, Bound], tensors: Mapping[int, NDArray[Any]],
    read: Mapping[str, NDArray[Any]] | None = None,
) -> None:  # fmt: skip
    """Run the plan of a call on its tensors and on ``tensors``, the filter's own.

    A result is written directly to the caller's memory if kernels can write there and it shares nothing that they read or
    write.
    ``read`` holds inputs whose numbers differ from what their memory says.
    """
    arrays: dict[int, NDArray[Any] | None] = dict(tensors)
    own = set(tensors) | {a.slot for a in call.arguments if not (a.batched or a.counted)}
    sources = [a for a in call.arguments if not a.writes and a.name in bound]
    for a in sources:
        numbers = None if read is None else read.get(a.name)
        arrays[a.slot] = bound[a.name].for_kernels() if numbers is None else numbers
    shared = sharing({name: bound[name] for name in call.results & bound.keys()})
    staged: dict[str, NDArray[Any]] = {}
    accumulate = 0
    for a in call.arguments:
        if not a.writes or a.name not in bound:
            continue
        result = bound[a.name]
        target = None if a.name in shared or not _is_safe(filter, a, sources, bound) else result.place_for_kernels()
        if target is None:
            if a.updates:
                target = result.for_kernels().copy()
            else:
                target = np.empty((result.batch, *result.shape), result.staged_type)
            staged[a.name] = target
        elif result.accumulate:
            accumulate |= 1 << a.slot
        arrays[a.slot] = target if a.batched else target[0]
    if not run_plan(plan, call.backward, batch, arrays, own, filter.threads, accumulate, call.training):
        raise TrainingLost
    write_results(call, staged, bound)


def write_results(call: Call, results: Mapping[str, NDArray[Any]], bound: Mapping[str, Bound]) -> None:
    """Store results; gradients of one tensor that share one place are added up."""
    total: dict[str, NDArray[Any]] = {}
    for name, numbers in results.items():
        twin = next((t for t in total if call.adds_up(t, name, bound)), None)
        if twin is None:
            total[name] = numbers
        else:
            total[twin] = total[twin] + numbers
    for name, numbers in total.items():
        bound[name].write_from_kernels(numbers)


def _is_safe(filter: Owner, a: Argument, sources: list[Argument], bound: Mapping[str, Bound]) -> bool:
    """True if the result can be written during the call without changing its inputs."""
    result = bound[a.name]
    for source in sources:
        other = bound[source.name]
        if result.overlaps(other) and not (source.name in a.may_equal and result.same_memory(other)):
            return False
    return not any(result.touches(parameter.memory) for parameter in filter.parameters())
