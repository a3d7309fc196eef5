"""LSTM under its C names."""

from __future__ import annotations

from typing import Any

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersLSTM
from ..errors import Problem, out_of_memory, record, succeeded
from ..filters.lstm import LSTM, SIZE_MAX, run_fast
from ._calls import check_filter_params

__all__ = [
    "BNNSComputeLSTMTrainingCacheCapacity",
    "BNNSDirectApplyLSTMBatchBackward",
    "BNNSDirectApplyLSTMBatchTrainingCaching",
]


def BNNSComputeLSTMTrainingCacheCapacity(layer_params: BNNSLayerParametersLSTM | Any) -> int:
    """The minimum size in bytes of a training cache for this description; 2**64 - 1 if the description is invalid.

    >>> import numpy as np
    >>> from openbnns.capi import *
    >>> any_data = BNNSNDArrayDescriptor(data=np.zeros(16, np.float32), data_type=BNNSDataTypeFloat32)
    >>> gate = BNNSLSTMGateDescriptor(iw_desc=[any_data], hw_desc=any_data)
    >>> p = BNNSLayerParametersLSTM(
    ...     input_size=2, hidden_size=3, batch_size=1, num_layers=1, seq_len=4, input_gate=gate, forget_gate=gate,
    ...     candidate_gate=gate, output_gate=gate, lstm_flags=BNNSLayerFlagsLSTMDefaultActivations,
    ... )
    >>> BNNSComputeLSTMTrainingCacheCapacity(p) > 4 * 3 * 6 * 4  # six vectors per step, and a header
    True
    """
    who = "BNNSComputeLSTMTrainingCacheCapacity"
    try:
        return succeeded(LSTM(_checked(layer_params, who, "layer_params"), None, Caller(who)).cache_bytes)
    except Problem as problem:
        record(problem)
    except MemoryError:
        record(out_of_memory(who))
    return SIZE_MAX


def BNNSDirectApplyLSTMBatchTrainingCaching(
    layer_params: BNNSLayerParametersLSTM | Any, filter_params: BNNSFilterParameters | None, training_cache_ptr: Any,
    training_cache_capacity: int,
) -> int:  # fmt: skip
    """Run an LSTM forward; intermediates go to ``training_cache_ptr``, unless it is NULL. Returns 0, or -1 on failure.

    c' = f c + i g, h' = o tanh(c'), the gates i, f, g, o from W x + U h + b; input (T, N, I), output (T, N, H).
    A descriptor without sizes stands for the packed tensor.

    >>> import numpy as np
    >>> from openbnns.capi import *
    >>> d = lambda data: BNNSNDArrayDescriptor(data=data, data_type=BNNSDataTypeFloat32)
    >>> w, x, y = np.float32([100]), np.float32([1, 1, 1]), np.zeros(3, np.float32)
    >>> gate = BNNSLSTMGateDescriptor(iw_desc=[d(w)], hw_desc=d(np.float32([0])))  # all gates open
    >>> p = BNNSLayerParametersLSTM(
    ...     input_size=1, hidden_size=1, batch_size=1, num_layers=1, seq_len=3, input_gate=gate, forget_gate=gate,
    ...     candidate_gate=gate, output_gate=gate, lstm_flags=BNNSLayerFlagsLSTMDefaultActivations,
    ...     input_descriptor=BNNSLSTMDataDescriptor(data_desc=d(x)),
    ...     output_descriptor=BNNSLSTMDataDescriptor(data_desc=d(y)),
    ... )
    >>> BNNSDirectApplyLSTMBatchTrainingCaching(p, None, None, 0)
    0
    >>> print(y.round(3))  # tanh 1, tanh 2, tanh 3
    [0.762 0.964 0.995]
    """
    who = "BNNSDirectApplyLSTMBatchTrainingCaching"
    check_filter_params(filter_params, who)
    if run_fast(layer_params, None, filter_params, training_cache_ptr, training_cache_capacity):
        return 0
    try:
        p = _checked(layer_params, who, "layer_params")
        caller = Caller(who)
        filter = LSTM(p, filter_params, caller)
        filter.forward(caller, p, training_cache_ptr, training_cache_capacity, None)
        filter.register(p, None, who)
    except Problem as problem:
        return record(problem)
    except MemoryError:
        return record(out_of_memory(who))
    return succeeded(0)


def BNNSDirectApplyLSTMBatchBackward(
    layer_params: BNNSLayerParametersLSTM | Any, layer_delta_params: BNNSLayerParametersLSTM | Any,
    filter_params: BNNSFilterParameters | None, training_cache_ptr: Any, training_cache_capacity: int,
) -> int:  # fmt: skip
    """Gradients of an LSTM.

    In ``layer_delta_params``, ``output_descriptor`` holds the output gradients; ``input_descriptor`` and the gates
    hold those to be written, as their flags say; data of NULL skips one. Without a cache the forward pass is repeated.

    >>> import numpy as np
    >>> from openbnns.capi import *
    >>> d = lambda data: BNNSNDArrayDescriptor(data=data, data_type=BNNSDataTypeFloat32)
    >>> def lstm(weights, x, y):
    ...     gate = BNNSLSTMGateDescriptor(iw_desc=[d(weights)], hw_desc=d(weights))
    ...     return BNNSLayerParametersLSTM(
    ...         input_size=1, hidden_size=1, batch_size=1, num_layers=1, seq_len=1, input_gate=gate, forget_gate=gate,
    ...         candidate_gate=gate, output_gate=gate, lstm_flags=BNNSLayerFlagsLSTMDefaultActivations,
    ...         input_descriptor=BNNSLSTMDataDescriptor(data_desc=d(x)),
    ...         output_descriptor=BNNSLSTMDataDescriptor(data_desc=d(y)),
    ...     )
    >>> p = lstm(np.float32([1]), np.float32([0]), np.zeros(1, np.float32))
    >>> dx = np.zeros(1, np.float32)
    >>> deltas = lstm(None, dx, np.float32([8]))
    >>> BNNSDirectApplyLSTMBatchBackward(p, deltas, None, None, 0), dx.tolist()  # dy o i g' = 8 / 2 / 2
    (0, [2.0])
    """
    who = "BNNSDirectApplyLSTMBatchBackward"
    check_filter_params(filter_params, who)
    if layer_delta_params is not None and run_fast(
        layer_params, layer_delta_params, filter_params, training_cache_ptr, training_cache_capacity
    ):
        return 0
    try:
        p = _checked(layer_params, who, "layer_params")
        delta = _checked(layer_delta_params, who, "layer_delta_params")
        caller = Caller(who)
        filter = LSTM(p, filter_params, caller.part("layer_params"))
        filter.backward(caller, p, delta, training_cache_ptr, training_cache_capacity, None)
        filter.register(p, delta, who)
    except Problem as problem:
        return record(problem)
    except MemoryError:
        return record(out_of_memory(who))
    return succeeded(0)


def _checked(value: Any, who: str, name: str) -> BNNSLayerParametersLSTM:
    """A copy: what is checked, run and remembered must be one and the same, even if other threads change the struct."""
    if value is None:
        raise Problem(f"{who}: {name} is NULL. Pass a BNNSLayerParametersLSTM.")
    if not isinstance(value, BNNSLayerParametersLSTM):
        raise TypeError(f"{who}: {name} must be a BNNSLayerParametersLSTM, not {type(value).__name__}.")
    return value if value.only_mine else value.copy()
