"""LSTM: layers of cells run along a sequence, in one direction or in both. Formulas: docs/filters/lstm.md.

Sizes: T steps (seq_len), N batch, I input, H hidden, L layers, R directions. The training cache begins with a header
that identifies the description it was filled for, followed by what the native kernels keep.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import compat, engines
from .._words import Caller, Named
from ..abi.enums import BNNSLayerFlags
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersLSTM
from ..errors import Problem
from ..parameters.activation import Activation, ActivationKind
from ..parameters.lstm import DEFAULT_ACTIVATIONS, Activations
from ..parameters.lstm import GATES as LSTM_GATES
from ..parameters.random_numbers import Stream
from ..reference import lstm as reference
from ..reference.random_numbers import uniform
from ..tensors import buffers
from ..tensors.buffers import Buffer
from ..tensors.descriptors import FLOAT32, MAX_ELEMENTS
from ..tensors.operands import Bound
from ..tensors.sharing import check_sharing, sharing
from ._activation_rules import as_float32, native_activation, native_slope, resolve_fused
from .base import Filter
from .lstm_tensors import (
    C0,
    CN,
    FIRST_GATE,
    GATES,
    H0,
    HN,
    NAMES,
    W0,
    W1,
    B,
    LSTMTensor,
    P,
    Sizes,
    U,
    X,
    Y,
    absent,
    descriptors_of,
    direct,
    gate_tensor,
    is_empty,
    leave_out_unused,
    read,
    read_batch_sizes,
    resolve,
)

if TYPE_CHECKING:
    from .. import _core

SIZE_MAX = 2**64 - 1
_SEED = 0x4C53544D  # of the dropout masks

_HEADER = struct.Struct("<5Q")  # LstmCacheHeader in core/kernels/lstm/shape.h
_MAGIC = 0x31656863614D5453
_SCALARS = ("input_size", "hidden_size", "batch_size", "num_layers", "seq_len", "dropout", "lstm_flags")
_OUTPUTS = (Y, HN, CN)


if engines._core is not None:
    compat.on_change.append(engines._core.forget_lstm)


_draws = itertools.count(1)  # needs no lock, which a child of fork could find taken


def next_draw() -> int:
    """The number of the next dropout mask: one per training call. Calls without a cache use mask 0."""
    return next(_draws) if engines._core is None else engines._core.next_lstm_draw()


@dataclass(frozen=True)
class _Cache:
    """Memory of the training cache; ``staged`` is a copy, if the memory is not aligned for floats."""

    buffer: Buffer
    staged: NDArray[np.float32] | None

    @property
    def address(self) -> int:
        return self.buffer.address if self.staged is None else int(self.staged.ctypes.data)


class LSTM(Filter):
    """An LSTM as described by one parameter struct; each call uses the memory of the struct that it is given."""

    family = "LSTM"
    apply_call = "BNNSDirectApplyLSTMBatchTrainingCaching"
    backward_call = "BNNSDirectApplyLSTMBatchBackward"

    def __init__(self, p: BNNSLayerParametersLSTM, filter_params: BNNSFilterParameters | None, who: Caller) -> None:
        super().__init__(filter_params, who)
        self.variant = variant(self.rounds_products)
        self.sizes = _sizes(p, who)
        self.dropout = _dropout(p, who)
        self.activations = _activations(p, who)
        self.batch_sizes = read_batch_sizes(
            p.sequence_descriptor, self.sizes.steps, self.sizes.batch, who, "sequence_descriptor"
        )
        described = descriptors_of(p)
        self.first_layers = tuple(_first_layers(self.sizes, described, gate) for gate in range(len(GATES)))
        self.shapes = self.sizes.shapes(self.first_layers)
        self.signature = self._signature()
        self.plan: _core.LstmPlan | None = None
        if engines._core is not None:
            self.plan = self._make_plan()

    def _make_plan(self) -> _core.LstmPlan:
        s, given = self.sizes, self.activations
        if given is None:
            gate, cell = Activation(ActivationKind.SIGMOID), Activation(ActivationKind.TANH)
            given = (gate, gate, cell, gate, cell)
        return engines._core.lstm(
            steps=s.steps, batch=s.batch, inputs=s.inputs, hidden=s.hidden, layers=s.layers, directions=s.directions,
            first_layers=self.first_layers, default_activations=self.activations is None,
            activation=[native_activation(f) for f in given], slope=[native_slope(f) for f in given],
            dropout=self.dropout, batch_sizes=self.batch_sizes or [], bfloat16=self.rounds_products,
            signature=self.signature,
        )  # fmt: skip

    def _signature(self) -> int:
        """A number that almost certainly differs between descriptions with different caches."""
        text = repr((self.sizes, self.first_layers, self.activations, self.dropout, self.batch_sizes))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")

    @property
    def cache_bytes(self) -> int:
        """The minimum size of a training cache."""
        return _HEADER.size if self.plan is None else int(self.plan.cache_bytes())

    # Tensors of a call.

    def _resolve(self, index: int, descriptor: Any, who: str) -> LSTMTensor:
        return resolve(descriptor, self.shapes[index], f"{who}{NAMES[index]}")

    def _inputs(self, p: BNNSLayerParametersLSTM, who: Named) -> dict[int, Bound]:
        """Everything that both forward and backward calls read."""
        bound: dict[int, Bound] = {}
        for index, descriptor in enumerate(descriptors_of(p)):
            if index in _OUTPUTS or 0 in self.shapes[index]:
                continue
            name = _data_of(who, index)
            if descriptor.data is None:
                if self._is_needed(index):
                    raise Problem(f"{name} is {name.null}, but this LSTM needs it. {self._use_of(index)}")
                continue
            bound[index] = self._resolve(index, descriptor, who).bind(name, descriptor.data)
        return bound

    def _is_needed(self, index: int) -> bool:
        return index == X or (index >= FIRST_GATE and (index - FIRST_GATE) % 5 in (W0, W1, U))

    def _use_of(self, index: int) -> str:
        if index >= FIRST_GATE and (index - FIRST_GATE) % 5 == W1:
            width = self.sizes.directions * self.sizes.hidden
            return (
                f"It holds the input weights of layers 1 to {self.sizes.layers - 1}, which read {width} values; "
                f"iw_desc[0] is for {self.sizes.inputs}."
            )
        return f"Point it to a tensor of shape {list(self.shapes[index])}."

    # Forward.

    def forward(
        self, caller: Caller, p: BNNSLayerParametersLSTM, cache: Any, capacity: Any, stream: Stream | None
    ) -> None:
        """Write outputs and final states, and the cache if there is one; ``stream`` fixes the mask of the dropout."""
        who = caller("")
        inputs = self._inputs(p, who)
        outputs: dict[int, Bound] = {}
        for index, descriptor in enumerate(descriptors_of(p)):
            if index in _OUTPUTS and descriptor.data is not None:
                tensor = self._resolve(index, descriptor, who)
                outputs[index] = tensor.bind(_data_of(who, index), descriptor.data, output=True)
        check_sharing(caller, _by_name(outputs), who)
        memory = self._bind_cache(caller, cache, capacity, [*inputs.values(), *outputs.values()], output=True)
        if stream is None:
            stream = Stream(_SEED, 0 if memory is None else next_draw())
        if engines.is_native():
            self._forward_native(inputs, outputs, memory, stream)
        else:
            self._forward_reference(inputs, outputs, memory, stream)
        if memory is not None and memory.staged is not None:
            ctypes.memmove(memory.buffer.address, memory.address, self.cache_bytes)

    def _forward_native(
        self, inputs: dict[int, Bound], outputs: dict[int, Bound], memory: _Cache | None, stream: Stream
    ) -> None:
        arrays = {index: read(bound, np.float32) for index, bound in inputs.items()}
        staged, shared = {}, sharing(outputs)
        for index, bound in outputs.items():
            unsafe = index in shared or any(bound.overlaps(source) for source in inputs.values())
            target = None if unsafe else direct(bound)
            if target is None:
                staged[index] = target = np.empty(bound.shape, np.float32)
            arrays[index] = target
        self._run(False, arrays, {}, 0, memory, stream)
        for index, numbers in staged.items():
            outputs[index].write(numbers[None])

    def _run(
        self, backward: bool, tensors: dict[int, NDArray[Any]], gradients: dict[int, NDArray[Any]], accumulate: int,
        memory: _Cache | None, stream: Stream,
    ) -> None:  # fmt: skip
        addresses, gradient_addresses = (
            [arrays[index].ctypes.data if index in arrays else 0 for index in range(len(NAMES))]
            for arrays in (tensors, gradients)
        )
        assert self.plan is not None
        engines._core.run_lstm(
            self.plan, backward, addresses, gradient_addresses, accumulate,
            cache=0 if memory is None else memory.address, seed=stream.seed, draw=stream.draw, threads=self.threads,
        )  # fmt: skip

    def _forward_reference(
        self, inputs: dict[int, Bound], outputs: dict[int, Bound], memory: _Cache | None, stream: Stream
    ) -> None:
        result = self.reference_forward({index: read(bound, np.float64) for index, bound in inputs.items()}, stream)
        for index, numbers in ((Y, result.y), (HN, result.h), (CN, result.c)):
            if index in outputs:
                outputs[index].write(numbers[None])
        if memory is not None:  # the reference engine repeats the forward pass; nothing else is kept
            header = _HEADER.pack(_MAGIC, self.signature, stream.seed, stream.draw, 0)
            ctypes.memmove(memory.address, header, len(header))

    def reference_forward(self, arrays: dict[int, NDArray[Any]], stream: Stream) -> reference.Result:
        """The float64 formulas on arrays by tensor number."""
        return reference.forward(
            arrays[X], self._stack(arrays), arrays.get(H0), arrays.get(C0), self._reference_activations,
            self._reference_dropout(stream), self.batch_sizes,
        )  # fmt: skip

    @property
    def _reference_activations(self) -> Activations:
        return DEFAULT_ACTIVATIONS if self.activations is None else Activations(*self.activations)

    def _reference_dropout(self, stream: Stream) -> reference.Dropout | None:
        t, n, _, h, layers, r = self.sizes.numbers()
        if self.dropout == 0.0 or layers == 1:
            return None
        shape = (layers - 1, t, n, r * h)
        return reference.Dropout(self.dropout, uniform(stream, math.prod(shape)).reshape(shape) >= self.dropout)

    def _stack(self, arrays: dict[int, NDArray[Any]]) -> list[list[reference.Cell]]:
        def gate(number: int, layer: int, direction: int) -> reference.Gate:
            piece, at = self._piece(number, layer)
            parts = [arrays.get(gate_tensor(number, tensor)) for tensor in (U, P, B)]
            u, p, b = (None if part is None else part[layer, direction] for part in parts)
            assert u is not None
            return reference.Gate(arrays[piece][at, direction], u, p, b)

        return [
            [reference.Cell(*(gate(g, layer, r) for g in range(4))) for r in range(self.sizes.directions)]
            for layer in range(self.sizes.layers)
        ]

    def _piece(self, gate: int, layer: int) -> tuple[int, int]:
        """Which tensor holds the input weights of a layer, and at which index."""
        first = self.first_layers[gate]
        return (gate_tensor(gate, W0), layer) if layer < first else (gate_tensor(gate, W1), layer - first)

    # Fast calls.

    def register(self, p: BNNSLayerParametersLSTM, delta: BNNSLayerParametersLSTM | None, who: str) -> None:
        """Let later calls with equal structs skip the checks, provided that no tensor needs staging."""
        core = engines._core
        if core is None or not engines.is_native() or self.batch_sizes is not None:
            return
        nbytes = []
        missing = absent(p)
        for struct_, ignored in ((p, () if delta is None else _OUTPUTS), (delta, ())):
            for index, descriptor in enumerate([] if struct_ is None else descriptors_of(struct_)):
                unused = index in missing and descriptor.data is not None and is_empty(descriptor.data)
                if descriptor.data is None or 0 in self.shapes[index] or index in ignored or unused:
                    nbytes.append(0)
                    continue
                if not self._resolve(index, descriptor, who).plain:
                    return
                nbytes.append(4 * math.prod(self.shapes[index]))
        key = core.lstm_key(p, delta, self.variant)
        if key is not None and self.plan is not None and self.variant == variant(self.rounds_products):
            core.register_lstm(key, self.plan, nbytes)

    # The cache.

    def _bind_cache(
        self, caller: Caller, cache: Any, capacity: Any, others: Sequence[Bound], *, output: bool
    ) -> _Cache | None:
        if cache is None:
            return None
        who = caller("training_cache_ptr")
        needed = self.cache_bytes
        if isinstance(capacity, (bool, np.bool_)) or not isinstance(capacity, (int, np.integer)):
            raise TypeError(f"{caller('training_cache_capacity')} must be an integer, not {type(capacity).__name__}.")
        if capacity < needed:
            raise Problem(
                f"{caller('training_cache_capacity')} is {int(capacity)} bytes, but this LSTM needs {needed}. Ask "
                "BNNSComputeLSTMTrainingCacheCapacity and pass a buffer of that size."
            )
        buffer = _bytes_of(cache, who)
        buffers.require_bytes(buffer, needed, who, "the training cache")
        if output:
            buffers.require_writable(buffer, who)
        stretch = (buffer.address, needed)
        if any(bound.touches(stretch) for bound in others):
            raise Problem(f"{who} shares memory with a tensor of the call. Give the cache its own buffer.")
        if buffer.address % 4 == 0:
            return _Cache(buffer, None)
        staged = np.zeros(needed // 4 + 1, np.float32)
        if not output:
            ctypes.memmove(staged.ctypes.data, buffer.address, needed)
        return _Cache(buffer, staged)

    def _read_header(self, caller: Caller, memory: _Cache) -> Stream:
        """The dropout mask of the forward call, after checking that the cache belongs to this description."""
        magic, signature, seed, draw, _ = _HEADER.unpack(ctypes.string_at(memory.address, _HEADER.size))
        who = caller("training_cache_ptr")
        if magic != _MAGIC:
            raise Problem(
                f"{who} does not hold a training cache. Pass the buffer that the forward call "
                f"({caller.name('BNNSDirectApplyLSTMBatchTrainingCaching')}) has filled, or {caller.null} to repeat the "
                "forward pass."
            )
        if signature != self.signature:
            raise Problem(
                f"{who} holds the cache of another LSTM: sizes, activations, dropout or batch sizes differ from those of "
                f"this call. Pass the cache of the forward call that belongs to it, or {caller.null}."
            )
        return Stream(seed, draw)

    # Backward.

    def backward(
        self, caller: Caller, p: BNNSLayerParametersLSTM, delta: BNNSLayerParametersLSTM, cache: Any, capacity: Any,
        stream: Stream | None,
    ) -> None:  # fmt: skip
        """Write the gradients that ``delta`` has memory for."""
        _check_same(p, delta, caller)
        who, delta_who = caller("layer_params."), caller("layer_delta_params.")
        inputs = self._inputs(p, who)
        for index, bound in inputs.items():
            _require_float32(bound, f"{who}{NAMES[index]}")
        missing = absent(p)
        output_gradients, results = self._bind_deltas(delta, delta_who, missing)
        leave_out_unused(results, missing, [*inputs.values(), *output_gradients.values()])
        check_sharing(caller, _by_name(results), delta_who)
        memory = self._bind_cache(
            caller, cache, capacity, [*inputs.values(), *output_gradients.values(), *results.values()], output=False
        )
        if memory is not None:
            stream = self._read_header(caller, memory)
        elif stream is None:
            stream = Stream(_SEED)
        if not results:
            return
        if engines.is_native():
            self._backward_native(inputs, output_gradients, results, memory, stream)
        else:
            self._backward_reference(inputs, output_gradients, results, stream)

    def _bind_deltas(
        self, delta: BNNSLayerParametersLSTM, who: Named, missing: set[int]
    ) -> tuple[dict[int, Bound], dict[int, Bound]]:
        """The gradients that are read (of the outputs), and the gradients to be written."""
        output_gradients: dict[int, Bound] = {}
        results: dict[int, Bound] = {}
        for index, descriptor in enumerate(descriptors_of(delta)):
            if descriptor.data is None or 0 in self.shapes[index] or (index in missing and is_empty(descriptor.data)):
                continue
            name, output = f"{who}{NAMES[index]}", index not in _OUTPUTS
            if output and int(descriptor.flags) not in (0, 1):
                raise Problem(
                    f"{name}.flags is {int(descriptor.flags)}. Use BNNSNDArrayFlagBackpropSet (0) or "
                    "BNNSNDArrayFlagBackpropAccumulate (1)."
                )
            bound = self._resolve(index, descriptor, who).bind(
                _data_of(who, index), descriptor.data, output=output, flags=int(descriptor.flags)
            )
            _require_float32(bound, name)
            (results if output else output_gradients)[index] = bound
        if not output_gradients:
            raise Problem(
                f"{who}output_descriptor has no data, so there is no output gradient. Point data_desc, hidden_desc or "
                "cell_state_desc to the gradient of the output, of the final hidden or of the final cell state."
            )
        return output_gradients, results

    def _backward_native(
        self, inputs: dict[int, Bound], output_gradients: dict[int, Bound], results: dict[int, Bound], memory: _Cache | None,
        stream: Stream,
    ) -> None:  # fmt: skip
        tensors = {index: read(bound, np.float32) for index, bound in inputs.items()}
        gradients = {index: read(bound, np.float32) for index, bound in output_gradients.items()}
        sources, shared = [*inputs.values(), *output_gradients.values()], sharing(results)
        staged, accumulate = {}, 0
        for index, bound in results.items():
            unsafe = index in shared or any(bound.overlaps(source) for source in sources)
            target = None if unsafe else direct(bound)
            if target is None:
                staged[index] = target = np.empty(bound.shape, np.float32)
            elif bound.accumulate:
                accumulate |= 1 << index
            gradients[index] = target
        self._run(True, tensors, gradients, accumulate, memory, stream)
        for index, numbers in staged.items():
            results[index].write(numbers[None])

    def _backward_reference(
        self, inputs: dict[int, Bound], output_gradients: dict[int, Bound], results: dict[int, Bound], stream: Stream
    ) -> None:
        arrays = {index: read(bound, np.float64) for index, bound in inputs.items()}
        gradients = {index: read(bound, np.float64) for index, bound in output_gradients.items()}
        computed = self.reference_backward(arrays, gradients, stream)
        for index, bound in results.items():
            bound.write(computed[index][None])

    def reference_backward(
        self, arrays: dict[int, NDArray[Any]], output_gradients: dict[int, NDArray[Any]], stream: Stream
    ) -> dict[int, NDArray[Any]]:
        """All gradients by tensor number."""
        forward = self.reference_forward(arrays, stream)
        wanted = frozenset({"dx", "dh0", "dc0", "dw", "du", "dp", "db"})
        d = reference.backward(
            self._stack(arrays), forward.cache, wanted, output_gradients.get(Y), output_gradients.get(HN),
            output_gradients.get(CN), self._reference_activations,
        )  # fmt: skip
        assert d.dx is not None and d.dh0 is not None and d.dc0 is not None
        gradients = {X: d.dx, H0: d.dh0, C0: d.dc0}
        for gate, name in enumerate(LSTM_GATES):
            for tensor in range(5):
                gradients[gate_tensor(gate, tensor)] = np.zeros(self.shapes[gate_tensor(gate, tensor)])
            for layer in range(self.sizes.layers):
                piece, at = self._piece(gate, layer)
                for r in range(self.sizes.directions):
                    parts = d.gates[layer][r][name]
                    gradients[piece][at, r] = parts["dw"]
                    for tensor, key in ((U, "du"), (P, "dp"), (B, "db")):
                        gradients[gate_tensor(gate, tensor)][layer, r] = parts[key]
        return gradients


def variant(rounds: bool = False) -> int:
    """The settings that affect the meaning of a struct without being in it: the switch for kinks, rounding to bfloat16."""
    return int(compat.switches.kink_derivative_from_right) + 2 * rounds


def run_fast(
    p: Any, delta: Any, filter_params: BNNSFilterParameters | None, cache: Any, capacity: Any, rounds: bool = False
) -> bool:
    """Run a call whose description has been seen before; ``False`` if it has to be checked first."""
    if engines._core is None or not isinstance(p, BNNSLayerParametersLSTM) or capacity is None:
        return False
    threads, draw = 0, 0
    if filter_params is not None:
        if filter_params.alloc_memory is not None or filter_params.free_memory is not None:
            return False
        threads = min(int(filter_params.n_threads), 256)
    if delta is None and cache is not None and p.dropout:
        draw = next_draw()
    done: int = engines._core.fast_lstm(p, delta, cache, capacity, variant(rounds), _SEED, draw, threads)
    return done == 0


def _sizes(p: BNNSLayerParametersLSTM, who: Caller) -> Sizes:
    for name in _SCALARS[:5]:
        if getattr(p, name) < 1:
            raise Problem(f"{who(name)} is 0. Every size of an LSTM is at least 1.")
    flags = int(p.lstm_flags)
    known = int(BNNSLayerFlags.BNNSLayerFlagsLSTMBidirectional | BNNSLayerFlags.BNNSLayerFlagsLSTMDefaultActivations)
    if flags & ~known:
        raise Problem(
            f"{who('lstm_flags')} is {flags:#x}. Use BNNSLayerFlagsLSTMBidirectional (1), "
            "BNNSLayerFlagsLSTMDefaultActivations (2) or both."
        )
    directions = 2 if flags & int(BNNSLayerFlags.BNNSLayerFlagsLSTMBidirectional) else 1
    sizes = Sizes(p.seq_len, p.batch_size, p.input_size, p.hidden_size, p.num_layers, directions)
    t, n, i, h, layers, r = sizes.numbers()
    largest = max(i, r * h) * h * layers * r * 4, t * n * (i + layers * r * h * 8)
    if max(largest) > MAX_ELEMENTS:
        raise Problem(f"{who}: the sizes {sizes.numbers()} need more memory than any machine has. Check them.")
    return sizes


def _dropout(p: BNNSLayerParametersLSTM, who: Caller) -> float:
    rate = as_float32(p.dropout)
    if not 0.0 <= rate < 1.0:
        raise Problem(
            f"{who('dropout')} is {rate:g}. It is the share of values dropped between layers: 0 (none) to below 1."
        )
    return rate if p.num_layers > 1 else 0.0


def _activations(p: BNNSLayerParametersLSTM, who: Caller) -> tuple[Activation, ...] | None:
    """The activations of the gates and of the cell state; ``None`` for the defaults."""
    if int(p.lstm_flags) & int(BNNSLayerFlags.BNNSLayerFlagsLSTMDefaultActivations):
        return None
    gates = tuple(resolve_fused(getattr(p, name).activation, who, f"{name}.activation") for name in GATES)
    functions = (*gates, resolve_fused(p.hidden_activation, who, "hidden_activation"))
    usual = DEFAULT_ACTIVATIONS
    default = (usual.input, usual.forget, usual.candidate, usual.output, usual.hidden)
    same = all(f.function == d.function for f, d in zip(functions, default, strict=True))
    return None if same else functions


def _first_layers(sizes: Sizes, described: list[Any], gate: int) -> int:
    """How many layers have their input weights in iw_desc[0]: all of them if every layer's input is as wide as the first."""
    if sizes.layers == 1 or sizes.directions * sizes.hidden != sizes.inputs:
        return 1
    first, second = described[gate_tensor(gate, W0)], described[gate_tensor(gate, W1)]
    if second.data is None:
        return sizes.layers
    if sizes.inputs != sizes.hidden:
        return 1
    one = (1, sizes.directions, sizes.hidden, sizes.inputs)
    sized = any(first.size) and int(first.layout) != 0
    try:
        resolve(first, (sizes.layers, *one[1:]), "")
    except Problem:
        return 1 if sized else sizes.layers
    return sizes.layers


def _check_same(p: BNNSLayerParametersLSTM, delta: BNNSLayerParametersLSTM, caller: Caller) -> None:
    for name in _SCALARS:
        here, there = getattr(p, name), getattr(delta, name)
        if there not in (0, here):
            raise Problem(
                f"{caller('layer_delta_params')}.{name} is {there}, but layer_params.{name} is {here}. Both structs describe "
                "the same LSTM: copy its sizes and flags (or leave them 0)."
            )


def _require_float32(bound: Bound, name: str) -> None:
    if bound.view.element.code != FLOAT32.code:
        raise Problem(
            f"{name}.data_type is {bound.view.element.name}, but training works on Float32. Use BNNSDataTypeFloat32.",
            kind=TypeError,
        )


def _data_of(who: Named, index: int) -> Named:
    """The memory of a tensor of the struct that ``who`` names."""
    return Named(f"{who}{NAMES[index]}.data", who.null)


def _by_name(tensors: dict[int, Bound]) -> dict[str, Bound]:
    return {NAMES[index]: bound for index, bound in tensors.items()}


def _bytes_of(cache: Any, who: str) -> Buffer:
    """Memory of any item type."""
    if isinstance(cache, (int, np.integer)) and not isinstance(cache, bool):
        return buffers.resolve(cache, FLOAT32, who)
    array = buffers.as_array(cache, who)
    if not array.flags.c_contiguous:
        raise Problem(f"{who} is not C-contiguous. Pass a flat buffer, e.g. np.empty(capacity, np.uint8).")
    return Buffer(int(array.ctypes.data), array.nbytes, bool(array.flags.writeable), array)
