"""LSTM under its C names."""

from __future__ import annotations

from typing import Any

from ..errors import Problem, record
from ..filters._tensors import Caller
from ..filters.lstm import LSTM, SIZE_MAX, run_fast
from ._calls import check_filter_params, out_of_memory
from .structs import BNNSFilterParameters, BNNSLayerParametersLSTM


def BNNSComputeLSTMTrainingCacheCapacity(layer_params: BNNSLayerParametersLSTM | Any) -> int:
    """The least size in bytes of a training cache for this description; 2**64 - 1 if the description is wrong."""
    who = "BNNSComputeLSTMTrainingCacheCapacity"
    try:
        return LSTM(_checked(layer_params, who, "layer_params"), None, who).cache_bytes
    except Problem as problem:
        record(problem)
    except MemoryError:
        record(out_of_memory(who))
    return SIZE_MAX


def BNNSDirectApplyLSTMBatchTrainingCaching(
    layer_params: BNNSLayerParametersLSTM | Any, filter_params: BNNSFilterParameters | None, training_cache_ptr: Any,
    training_cache_capacity: int,
) -> int:  # fmt: skip
    """Run an LSTM forward; intermediates go to ``training_cache_ptr``, unless it is NULL. Returns 0, or -1 on failure."""
    who = "BNNSDirectApplyLSTMBatchTrainingCaching"
    check_filter_params(filter_params, who)
    if run_fast(layer_params, None, filter_params, training_cache_ptr, training_cache_capacity):
        return 0
    try:
        p = _checked(layer_params, who, "layer_params")
        filter = LSTM(p, filter_params, who)
        filter.forward(Caller(who), p, training_cache_ptr, training_cache_capacity, None)
        filter.register(p, None, who)
    except Problem as problem:
        return record(problem)
    except MemoryError:
        return record(out_of_memory(who))
    return 0


def BNNSDirectApplyLSTMBatchBackward(
    layer_params: BNNSLayerParametersLSTM | Any, layer_delta_params: BNNSLayerParametersLSTM | Any,
    filter_params: BNNSFilterParameters | None, training_cache_ptr: Any, training_cache_capacity: int,
) -> int:  # fmt: skip
    """Gradients of an LSTM.

    In ``layer_delta_params``, ``output_descriptor`` holds the gradients that arrive; ``input_descriptor`` and the gates
    hold those to be written, as their flags say; data of NULL skips one. Without a cache the forward pass is repeated.
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
        filter = LSTM(p, filter_params, f"{who}: layer_params")
        filter.backward(Caller(who), p, delta, training_cache_ptr, training_cache_capacity, None)
        filter.register(p, delta, who)
    except Problem as problem:
        return record(problem)
    except MemoryError:
        return record(out_of_memory(who))
    return 0


def _checked(value: Any, who: str, name: str) -> BNNSLayerParametersLSTM:
    if value is None:
        raise Problem(f"{who}: {name} is NULL. Pass a BNNSLayerParametersLSTM.")
    if not isinstance(value, BNNSLayerParametersLSTM):
        raise TypeError(f"{who}: {name} must be a BNNSLayerParametersLSTM, not {type(value).__name__}.")
    return value
