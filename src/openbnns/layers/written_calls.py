"""Calls of layers as the calls of C functions that do the same, for those who write programs.

A layer is a filter, and a method a call of it: which C function that is, and which array each of its arguments, follows from
the record that the filter has of the call (:mod:`._methods`). Nothing is run.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..abi.enums import BNNSDataLayout, BNNSLayerFlags
from ..abi.structs import (
    BNNSLayerParametersLSTM,
    BNNSMHAProjectionParameters,
    BNNSNDArrayDescriptor,
)
from ..filters.lstm_tensors import GATES
from ._methods import Prepared, Role
from ._ports import skip
from .attention import GRADIENTS, MultiheadAttentionLayer, adding, descriptor_of, joined
from .base import Layer
from .fused import FusedLayer
from .lstm import SIDES, WEIGHTS, LSTMLayer
from .types import LearningPhase

Array = NDArray[Any]

PARAMETERS: dict[str, tuple[str, ...]] = {
    "BNNSFilterApplyBatch": ("filter", "batch_size", "in", "in_stride", "out", "out_stride"),
    "BNNSFilterApplyTwoInputBatch": (
        "filter", "batch_size", "inA", "inA_stride", "inB", "inB_stride", "out", "out_stride",
    ),
    "BNNSFilterApplyBackwardBatch": (
        "filter", "batch_size", "in", "in_stride", "in_delta", "in_delta_stride", "out", "out_stride", "out_delta",
        "out_delta_stride", "weights_delta", "bias_delta",
    ),
    "BNNSFilterApplyBackwardTwoInputBatch": (
        "filter", "batch_size", "inA", "inA_stride", "inA_delta", "inA_delta_stride", "inB", "inB_stride", "inB_delta",
        "inB_delta_stride", "out", "out_stride", "out_delta", "out_delta_stride", "weights_delta", "bias_delta",
    ),
    "BNNSFusedFilterApplyBatch": ("filter", "batch_size", "in", "in_stride", "out", "out_stride", "training"),
    "BNNSFusedFilterApplyBackwardBatch": (
        "filter", "batch_size", "in", "in_stride", "in_delta", "in_delta_stride", "out", "out_stride", "out_delta",
        "out_delta_stride", "delta_parameters",
    ),
    "BNNSArithmeticFilterApplyBatch": (
        "filter", "batch_size", "number_of_inputs", "in", "in_stride", "out", "out_stride",
    ),
    "BNNSArithmeticFilterApplyBackwardBatch": (
        "filter", "batch_size", "number_of_inputs", "in", "in_stride", "in_delta", "in_delta_stride", "out", "out_stride",
        "out_delta", "out_delta_stride",
    ),
    "BNNSNormalizationFilterApplyBatch": ("filter", "batch_size", "in", "in_stride", "out", "out_stride", "training"),
    "BNNSNormalizationFilterApplyBackwardBatch": (
        "filter", "batch_size", "in_delta", "in_delta_stride", "out", "out_stride", "out_delta", "out_delta_stride",
        "beta_delta", "gamma_delta",
    ),
    "BNNSPoolingFilterApplyBatch": (
        "filter", "batch_size", "in", "in_stride", "out", "out_stride", "indices", "idx_stride",
    ),
    "BNNSPoolingFilterApplyBackwardBatch": (
        "filter", "batch_size", "in", "in_stride", "in_delta", "in_delta_stride", "out", "out_stride", "out_delta",
        "out_delta_stride", "bias_delta", "indices", "idx_stride",
    ),
    "BNNSLossFilterApplyBatch": (
        "filter", "batch_size", "in", "in_stride", "labels", "labels_stride", "weights", "weights_size", "out", "in_delta",
        "in_delta_stride",
    ),
}  # fmt: skip
"""The C functions that run filters on batches, with their arguments."""

_CALLS = dict(
    zip(
        (
            "apply", "apply_two_input", "apply_backward", "apply_backward_two_input", "apply_fused", "apply_backward_fused",
            "apply_arithmetic", "apply_backward_arithmetic", "apply_normalization", "apply_backward_normalization",
            "apply_pooling", "apply_backward_pooling", "apply_loss",
        ),
        PARAMETERS,
        strict=True,
    )
)  # fmt: skip
"""Calls that filters declare, and the functions that make them."""


class NotWritten(Exception):
    """The reason why a call of a layer is not a call of a C function."""


class Cache(Enum):
    """Memory that BNNS says the size of, as an argument."""

    MEMORY = "where it is"
    SIZE = "its size"
    SIZE_ADDRESS = "where its size is"


@dataclass
class WrittenCall:
    """A C function and its arguments by name.

    An argument is a filter, an array for the address of its memory, a struct for the address of a copy of it, a list for the
    address of its first entry, a number, None for NULL, or a ``Cache``. ``writes`` are the arrays that the call writes.
    """

    function: str
    arguments: list[tuple[str, Any]]
    writes: list[Array] = field(default_factory=list)
    cache: Array | None = None  # the array that stands for the cache in Python
    query: WrittenCall | None = None  # the call that tells the size of the cache
    query_returns: bool = False  # whether it returns the size, or writes it


def written_call(
    layer: Layer, method: str, given: tuple[Any, ...], named: Mapping[str, Any], before: WrittenCall | None = None
) -> WrittenCall:
    """The call that a method of a layer makes on these arrays; ``before`` is the training forward of an attention layer."""
    if isinstance(layer, LSTMLayer):
        return (_lstm_forward if method == "apply" else _lstm_backward)(layer, *given, **named)
    if isinstance(layer, MultiheadAttentionLayer):
        if method == "apply":
            return _attention_forward(layer, *given, **named)
        assert before is not None
        return _attention_backward(layer, before, *given, **named)
    options = dict(named)
    if isinstance(layer, FusedLayer):
        declared = layer._apply_method if method == "apply" else layer._backward_method
        kept: dict[str, Any] = {"batch_size": None} if method == "apply" else {"batch_size": None, "accumulate": False}
        kept |= {key: options.pop(key) for key in ("phase", "batch_size", "accumulate") if key in options}
        given, options = tuple(layer._sorted(given, declared, options)), kept
    else:
        declared = getattr(type(layer), method)
    bound = inspect.signature(declared.declared.function).bind(layer, *given, **options)
    bound.apply_defaults()
    return _Declared(layer, declared.declared.prepared(layer), bound.arguments).call()


class _Declared:
    """A declared method."""

    def __init__(self, layer: Any, prepared: Prepared, values: Mapping[str, Any]) -> None:
        self._layer, self._prepared = layer, prepared
        declared = prepared.method
        if prepared.call not in _CALLS:
            raise NotWritten(f"the call {prepared.call!r} of {type(layer).__name__} has no form in source code")
        if values.get("accumulate"):
            raise NotWritten("gradients that are added to others have no form in source code")
        shapes = [None if (x := values[name]) is None else x.shape for name in declared.leading]
        key = tuple(shape is not None and shape for shape in shapes) if len(shapes) > 1 else shapes[0]
        settled = prepared.settle(key)
        if settled is None:
            raise NotWritten(f"{type(layer).__name__} takes arrays of these shapes in Python only")
        self._samples = settled[0]
        self._training = getattr(values.get(declared.chooser), "is_training", None)
        self._tensors: dict[str, Any] = {}  # by C name
        self._strides: dict[str, int] = {}
        self._writes: list[Array] = []
        for t in declared.tensors:
            c_name, value = prepared.names[t.name], values[t.name]
            if t.role is Role.GRADIENTS:
                self._take_list(t.name, c_name, value)
                continue
            self._take(t, c_name, value)
        for c_name, attribute in declared.passes.items():
            if getattr(layer, attribute) is not None:
                raise NotWritten("indices of maxima have no form in source code")
            self._tensors[c_name], self._strides[c_name] = None, 0

    def _take(self, t: Any, c_name: str, value: Any) -> None:
        port = self._prepared.ports[t.name]
        if value is None or value is skip or port is None:
            if value is None and t.role is Role.GRADIENT and port is not None:
                raise NotWritten(f"{t.name} is made anew at each call")
            self._tensors[c_name], self._strides[c_name] = None, 0
            return
        array = _packed(value)
        if t.role in (Role.OUTPUT, Role.GRADIENT):
            self._writes.append(array)
        described = t.role in (Role.GRADIENT, Role.OUTPUT_GRADIENT)
        self._tensors[c_name] = _delta(port, array) if described else array
        self._strides[c_name] = math.prod(port.shape) if port.batched else 0

    def _take_list(self, name: str, c_name: str, value: Any) -> None:
        ports = self._prepared.lists[name]
        given = [skip] * len(ports) if value is None or value is skip else value
        deltas: list[Any] = []
        for entry, (_, port) in zip(given, ports, strict=True):
            wanted = not (entry is None or entry is skip or port is None)
            deltas.append(_delta(port, _packed(entry)) if wanted else None)
            if wanted:
                self._writes.append(entry)
        self._tensors[c_name] = deltas

    def call(self) -> WrittenCall:
        function = _CALLS[self._prepared.call]
        arguments = [(name, self._argument(name)) for name in PARAMETERS[function]]
        return WrittenCall(function, arguments, self._writes)

    def _argument(self, name: str) -> Any:
        if name == "filter":
            return self._layer.bnns_filter
        if name == "batch_size":
            return self._samples
        if name == "training":
            return bool(self._training)
        if name == "number_of_inputs":
            return len(self._entries("in"))
        if name == "weights_size":
            return 0
        if name.endswith("_stride"):
            tensor = "indices" if name == "idx_stride" else name.removesuffix("_stride")
            entries = self._entries(tensor)
            return [self._strides[entry] for entry in entries] if entries else self._strides.get(tensor, 0)
        if name in self._tensors:
            return self._tensors[name]
        return [self._tensors[entry] for entry in self._entries(name)] or None

    def _entries(self, name: str) -> list[str]:
        """The entries of an argument that is an array."""
        return [entry for entry in self._tensors if entry.startswith(f"{name}[")]


def _delta(port: Any, array: Array) -> BNNSNDArrayDescriptor:
    return BNNSNDArrayDescriptor(layout=port.layout, size=port.size, data=array, data_type=int(port.view.element.code))


def _packed(array: Any) -> Array:
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
        raise NotWritten("it reads memory with gaps, which layers do in Python only")
    return array


# LSTM.


def _lstm_forward(
    layer: LSTMLayer, x: Array, initial_hidden: Array | None = None, initial_cell: Array | None = None, *, output: Array,
    final_hidden: Array, final_cell: Array, phase: LearningPhase, cache: Array | None = None,
) -> WrittenCall:  # fmt: skip
    read = (x, initial_hidden, initial_cell)
    written = [output, final_hidden, final_cell]
    params = _lstm_params(layer, x, read, written)
    arguments: list[tuple[str, Any]] = [("layer_params", params), ("filter_params", layer._filter_parameters)]
    function = "BNNSDirectApplyLSTMBatchTrainingCaching"
    if phase is not LearningPhase.TRAINING or cache is None:
        return WrittenCall(
            function, [*arguments, ("training_cache_ptr", None), ("training_cache_capacity", 0)], written
        )
    arguments += [("training_cache_ptr", Cache.MEMORY), ("training_cache_capacity", Cache.SIZE)]
    query = WrittenCall("BNNSComputeLSTMTrainingCacheCapacity", [("layer_params", params)])
    return WrittenCall(function, arguments, written, cache, query, query_returns=True)


def _lstm_backward(
    layer: LSTMLayer, x: Array, initial_hidden: Array | None = None, initial_cell: Array | None = None, *,
    output_gradient: Array | None, final_hidden_gradient: Array | None, final_cell_gradient: Array | None, cache: Array,
    **generating: Any,
) -> WrittenCall:  # fmt: skip
    results = {
        name.removeprefix("generating_").removesuffix("_gradient"): None if array is None or array is skip else array
        for name, array in generating.items()
    }
    gradients = layer._make((*x.shape[:2], 0.0, 0, None, None), "")
    arriving = (output_gradient, final_hidden_gradient, final_cell_gradient)
    leaving = (results.get("input"), results.get("initial_hidden"), results.get("initial_cell"))
    gradients.fill(_sides("output", arriving) | _sides("input", leaving))
    gradients.fill_gates({name: results.get(name) for name in WEIGHTS})
    arguments = [
        ("layer_params", _lstm_params(layer, x, (x, initial_hidden, initial_cell), ())),
        ("layer_delta_params", _with_shapes(gradients.params)),
        ("filter_params", layer._filter_parameters),
        ("training_cache_ptr", Cache.MEMORY),
        ("training_cache_capacity", Cache.SIZE),
    ]
    writes = [array for array in results.values() if array is not None]
    return WrittenCall("BNNSDirectApplyLSTMBatchBackward", arguments, writes, cache)


def _sides(side: str, arrays: Any) -> dict[str, Any]:
    return {f"{side}_descriptor.{name}": array for name, array in zip(SIDES, arrays, strict=False)}


def _lstm_params(layer: LSTMLayer, x: Array, read: Any, written: Any) -> BNNSLayerParametersLSTM:
    if layer._dropout:
        raise NotWritten("dropout between the layers of one LSTM call draws numbers that differ from call to call")
    description = layer._make((*x.shape[:2], 0.0, None, None, None), "")
    description.fill(_sides("input", read) | _sides("output", written))
    return _with_shapes(description.params)


_FIRST_MAJOR = {3: BNNSDataLayout.BNNSDataLayout3DFirstMajor, 4: BNNSDataLayout.BNNSDataLayout4DFirstMajor}


def _with_shapes(p: BNNSLayerParametersLSTM) -> BNNSLayerParametersLSTM:
    """The struct with layouts and sizes of all tensors, which our library can do without."""
    directions = 2 if int(p.lstm_flags) & int(BNNSLayerFlags.BNNSLayerFlagsLSTMBidirectional) else 1
    layers, hidden, batch = p.num_layers, p.hidden_size, p.batch_size
    shapes: list[tuple[BNNSNDArrayDescriptor, tuple[int, ...]]] = [
        (p.input_descriptor.data_desc, (p.seq_len, batch, p.input_size)),
        (p.output_descriptor.data_desc, (p.seq_len, batch, directions, hidden)),
    ]
    for side in (p.input_descriptor, p.output_descriptor):
        shapes += [(d, (layers, directions, batch, hidden)) for d in (side.hidden_desc, side.cell_state_desc)]
    for name in GATES:
        gate = getattr(p, name)
        shapes += [
            (gate.iw_desc[0], (1, directions, hidden, p.input_size)), (gate.hw_desc, (layers, directions, hidden, hidden)),
            (gate.iw_desc[1], (layers - 1, directions, hidden, directions * hidden)),
            (gate.cw_desc, (layers, directions, hidden, hidden)), (gate.b_desc, (layers, directions, hidden)),
        ]  # fmt: skip
    for descriptor, sizes in shapes:
        if descriptor.data is None:
            descriptor.layout, descriptor.size, descriptor.data_type = 0, (), 0
        else:
            descriptor.layout, descriptor.size = _FIRST_MAJOR[len(sizes)], sizes
    return p


# Attention.


def _inputs(query: Array, key: Array, value: Array) -> list[tuple[str, Array]]:
    return [("query", query), ("key", key), ("value", value)]


def _attention_forward(
    layer: MultiheadAttentionLayer, query: Array, key: Array, value: Array, output: Array, *,
    key_padding_mask: Array | None, attn_mask: Array | None, is_causal: bool, phase: LearningPhase, cache: Array | None = None,
) -> WrittenCall:  # fmt: skip
    if key_padding_mask is not None:
        raise NotWritten("masks of keys that differ from batch to batch are made in Python")
    added = joined(attn_mask, query.shape[-2], key.shape[-2]) if is_causal else attn_mask
    filter = layer.filter_for(query.shape[-2], key.shape[-2])
    arguments: list[tuple[str, Any]] = [("F", filter), ("batch_size", len(query))]
    for name, array in _inputs(query, key, value):
        arguments += [(name, array), (f"{name}_stride", math.prod(array.shape[1:]))]
        if name == "key":
            arguments += [("key_mask", None), ("key_mask_stride", 0)]
    arguments += [
        ("output", output),
        ("output_stride", math.prod(output.shape[1:])),
        ("add_to_attention", adding(added)),
    ]
    rest: list[tuple[str, Any]] = [("workspace_size", None), ("workspace", None)]
    function = "BNNSApplyMultiheadAttention"
    if phase is not LearningPhase.TRAINING or cache is None:
        no_cache: list[tuple[str, Any]] = [("backprop_cache_size", None), ("backprop_cache", None)]
        return WrittenCall(function, [*arguments, *no_cache, *rest], [output])
    arguments.append(("backprop_cache_size", Cache.SIZE_ADDRESS))
    query_call = WrittenCall(function, [*arguments, ("backprop_cache", None), *rest])
    return WrittenCall(function, [*arguments, ("backprop_cache", Cache.MEMORY), *rest], [output], cache, query_call)


def _attention_backward(
    layer: MultiheadAttentionLayer,
    before: WrittenCall,
    dy: Array,
    dq: Any,
    dk: Any,
    dv: Any,
    gradients: dict[str, Array],
) -> WrittenCall:
    unknown = sorted(set(gradients) - set(GRADIENTS))
    if unknown:
        raise NotWritten(f"there is no gradient of {unknown[0]} in BNNS")
    forward = dict(before.arguments)
    targets: list[Any] = []
    for given in (dq, dk, dv):  # None: the sum with the one before it
        targets.append(None if given is skip else targets[-1] if given is None else given)

    def described(name: str) -> BNNSNDArrayDescriptor | None:
        array = gradients.get(name)
        return None if array is None else descriptor_of(layer._forms[name].layout, layer._forms[name].size, array)

    def projection(name: str, target: Array | None) -> BNNSMHAProjectionParameters | None:
        members = {member: described(f"{name}_{member}") for member in ("weights", "bias")}
        if target is not None:
            form = layer._target(target, 0)
            members["target_desc"] = descriptor_of(form.layout, form.size, target)
        given = {member: value for member, value in members.items() if value is not None}
        return BNNSMHAProjectionParameters(**given) if given else None

    arguments: list[tuple[str, Any]] = [("F", forward["F"]), ("batch_size", forward["batch_size"])]
    for name, target in zip(("query", "key", "value"), targets, strict=True):
        arguments += [(name, forward[name]), (f"{name}_stride", forward[f"{name}_stride"])]
        if name == "key":
            arguments += [("key_mask", None), ("key_mask_stride", 0)]
        arguments.append((f"{name}_param_delta", projection(name, target)))
    arguments += [
        ("add_to_attention", forward["add_to_attention"]), ("key_attn_bias_delta", described("key_attention_bias")),
        ("value_attn_bias_delta", described("value_attention_bias")), ("output", None), ("output_stride", 0),
        ("output_param_delta", projection("output", dy)), ("backprop_cache_size", Cache.SIZE),
        ("backprop_cache", Cache.MEMORY), ("workspace_size", None), ("workspace", None),
    ]  # fmt: skip
    writes = [target for target in targets if target is not None] + list(gradients.values())
    return WrittenCall("BNNSApplyMultiheadAttentionBackward", arguments, writes, before.cache)
