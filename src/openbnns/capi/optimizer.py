"""Optimizers under their C name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._words import Caller
from ..abi.enums import BNNSOptimizerFunction
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..errors import Problem, out_of_memory, record, succeeded
from ..filters import optimizer as rules
from ._calls import check_filter_params

__all__ = ["BNNSOptimizerStep"]

_STRUCTS = tuple(set(rules.STRUCTS.values()))

_CALLER = Caller(rules.C_FACE)


def BNNSOptimizerStep(
    function: BNNSOptimizerFunction | int, OptimizerAlgFields: rules.Fields | Any, number_of_parameters: int,
    parameters: Sequence[BNNSNDArrayDescriptor] | Any, gradients: Sequence[BNNSNDArrayDescriptor] | Any,
    accumulators: Sequence[BNNSNDArrayDescriptor | None] | None = None,
    filter_params: BNNSFilterParameters | None = None,
) -> int:  # fmt: skip
    """Update parameters in place by one step of an optimizer.

    Accumulators have the shapes of the parameters, start at zero, and are listed by role, then by parameter: all first
    moments, then all second moments. The struct is read at every call, so the learning rate may change freely; the
    caller adds 1 to ``time_step`` after each step. On failure nothing has changed.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> w, g, m = np.float32([1, 2]), np.float32([1, -1]), np.zeros(2, np.float32)
    >>> v = Shape.vector(2).descriptor
    >>> sgd = BNNSOptimizerSGDMomentumFields(learning_rate=0.5, momentum=0.5, gradient_scale=1)
    >>> for _ in range(2):
    ...     status = BNNSOptimizerStep(BNNSOptimizerFunctionSGDMomentum, sgd, 1, [v(data=w)], [v(data=g)], [v(data=m)])
    >>> status, w.tolist()
    (0, [-0.25, 3.25])
    """
    who = _CALLER.function
    if isinstance(function, bool) or not isinstance(function, (int, np.integer)):
        raise TypeError(f"{who}: function must be a BNNSOptimizerFunction, not {type(function).__name__}.")
    if OptimizerAlgFields is not None and type(OptimizerAlgFields) not in _STRUCTS:
        names = ", ".join(sorted(struct.__name__ for struct in _STRUCTS))
        raise TypeError(f"{who}: OptimizerAlgFields must be one of {names}, not {type(OptimizerAlgFields).__name__}.")
    if filter_params is not None:
        check_filter_params(filter_params, who)
    threads = 0 if filter_params is None else min(int(filter_params.n_threads), 256)
    try:
        rules.check_function(int(function), OptimizerAlgFields, _CALLER)
        rule = rules.read_rule(int(function), OptimizerAlgFields, _CALLER)
        t = rules.time_step(OptimizerAlgFields, _CALLER)
        if not rules.run_fast(rule, t, number_of_parameters, parameters, gradients, accumulators, threads):
            rules.run_checked(_CALLER, rule, t, number_of_parameters, parameters, gradients, accumulators, threads)
    except Problem as problem:
        return record(problem)
    except MemoryError:
        return record(out_of_memory(who))
    return succeeded(0)
