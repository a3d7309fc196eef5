"""LSTM: layers, directions, peepholes, biases, states, activations, packed sequences, with and without a cache."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from openbnns import capi

from .core import GUARD, Array, Case, Draw, Outcome, calls, draw_activation, filter_parameters, guarded

GATES = ("input_gate", "forget_gate", "candidate_gate", "output_gate")
SIDES = ("data_desc", "hidden_desc", "cell_state_desc")
FLAG_BOTH = int(capi.BNNSLayerFlagsLSTMBidirectional)
FLAG_DEFAULT = int(capi.BNNSLayerFlagsLSTMDefaultActivations)
TAME = [3, 4, 4, 15, 17]  # values stay small along the sequence: Sigmoid, Tanh, HardSigmoid, Softsign


class Cells:
    """One configuration, its values by name and which of its gradients are asked for."""

    def __init__(self, draw: Draw) -> None:
        self.inputs, self.hidden, self.batch = draw.size(5), draw.size(5), draw.size(4)
        self.layers, self.steps, self.directions = draw.size(3), draw.size(6), int(draw.one([1, 1, 2]))
        self.layers, self.steps = min(self.layers, 3), min(self.steps, 8)
        if draw.chance(0.2):
            self.inputs = self.hidden
        self.flags = FLAG_BOTH * (self.directions == 2) | FLAG_DEFAULT * draw.chance(0.5)
        self.described = draw.chance(0.5)
        states = (self.layers, self.directions, self.batch, self.hidden)
        self.shapes: dict[str, tuple[int, ...]] = {
            "input_descriptor.data_desc": (self.steps, self.batch, self.inputs),
            "output_descriptor.data_desc": (self.steps, self.batch, self.directions, self.hidden),
        }
        for side in ("input_descriptor", "output_descriptor"):
            self.shapes |= {f"{side}.{name}": states for name in SIDES[1:]}
        self._draw_gates(draw)
        self.present = {name: draw.chance(0.7) for name in self.shapes if name.endswith(SIDES[1:])}
        self.wanted = {name: draw.chance(0.8) for name in self.shapes}
        self.accumulates = {name: draw.chance(0.4) for name in self.shapes}
        self.values = {name: draw.floats(*shape) for name, shape in self.shapes.items()}
        for name, values in self.values.items():  # weights as large as those of a network: larger ones make chaos
            values *= 0.5 if "gate" not in name else np.float32(0.7 / np.sqrt(values.shape[-1]))
        self.arriving = {n: draw.floats(*s) for n, s in self.shapes.items() if n.startswith("output_descriptor")}
        self.activations = [draw_activation(draw, TAME) for _ in range(5)]
        self.steps_of_batch: Array | None = None
        if draw.chance(0.2):  # packed: how many samples take part in every step
            counts = np.sort(draw.rng.integers(1, self.batch + 1, self.steps))[::-1]
            counts[0] = self.batch
            self.steps_of_batch = counts.astype(np.int64)
        self.scratch: Array | None = None  # where gradients go that are not wanted, if they are not left out
        if draw.chance(0.2):
            self.scratch = np.zeros(max(map(math.prod, self.shapes.values())), np.float32)

    def _draw_gates(self, draw: Draw) -> None:
        layers, r, h = self.layers, self.directions, self.hidden
        one_array = self.inputs == h and r == 1  # layers alike: one array for all of them
        first = (layers if one_array else 1, r, h, self.inputs)
        parts: dict[str, tuple[int, ...]] = {"iw0": first, "hw_desc": (layers, r, h, h)}
        if layers > 1 and not one_array:
            parts["iw1"] = (layers - 1, r, h, r * h)
        if draw.chance(0.7):
            parts["b_desc"] = (layers, r, h)
        if draw.chance(0.4):
            parts["cw_desc"] = (layers, r, h, h)
        self.shapes |= {f"{gate}.{part}": shape for gate in GATES for part, shape in parts.items()}

    def describe(self, name: str, data: Any, flags: int = 0) -> capi.BNNSNDArrayDescriptor:
        """A packed tensor; without sizes, which then follow from those of the LSTM, or with them."""
        shape = self.shapes[name]
        fields: dict[str, Any] = {}
        if self.described:
            fields = {"layout": capi.BNNSDataLayout[f"BNNSDataLayout{len(shape)}DFirstMajor"], "size": shape}
        return capi.BNNSNDArrayDescriptor(data=data, data_type=capi.BNNSDataTypeFloat32, flags=flags, **fields)

    def struct(self, descriptors: dict[str, capi.BNNSNDArrayDescriptor]) -> capi.BNNSLayerParametersLSTM:
        nothing = capi.BNNSNDArrayDescriptor()
        p = capi.BNNSLayerParametersLSTM(
            input_size=self.inputs, hidden_size=self.hidden, batch_size=self.batch, num_layers=self.layers,
            seq_len=self.steps, lstm_flags=self.flags, hidden_activation=self.activations[4],
        )  # fmt: skip
        if self.steps_of_batch is not None:
            p.sequence_descriptor = capi.BNNSNDArrayDescriptor(
                layout=capi.BNNSDataLayoutVector, size=(self.steps,), data_type=capi.BNNSDataTypeInt64,
                data=self.steps_of_batch,
            )  # fmt: skip
        for side in ("input_descriptor", "output_descriptor"):
            tensors = {name: descriptors.get(f"{side}.{name}", nothing) for name in SIDES}
            setattr(p, side, capi.BNNSLSTMDataDescriptor(**tensors))
        for gate, activation in zip(GATES, self.activations, strict=False):
            get = {
                part: descriptors.get(f"{gate}.{part}", nothing)
                for part in ("iw0", "iw1", "hw_desc", "cw_desc", "b_desc")
            }
            inputs = (get.pop("iw0"), get.pop("iw1"))
            setattr(p, gate, capi.BNNSLSTMGateDescriptor(iw_desc=inputs, activation=activation, **get))
        return p

    def forward(self, out: Outcome) -> capi.BNNSLayerParametersLSTM:
        """The values of a forward call; outputs lie in guarded memory."""
        descriptors = {}
        for name, shape in self.shapes.items():
            if not self.present.get(name, True):
                continue
            data: Any = self.values[name].copy()
            if name.startswith("output_descriptor"):
                data = out.keep(name, guarded(np.zeros(math.prod(shape), np.float32)))
            descriptors[name] = self.describe(name, data)
        return self.struct(descriptors)

    def backward(self, out: Outcome) -> capi.BNNSLayerParametersLSTM:
        """The output gradients, and memory for the gradients."""
        descriptors = {}
        for name, shape in self.shapes.items():
            if not self.wanted[name]:
                if self.scratch is not None and name not in self.arriving:
                    descriptors[name] = self.describe(name, self.scratch[: math.prod(shape)])
                continue
            if name in self.arriving:
                descriptors[name] = self.describe(name, self.arriving[name].copy())
                continue
            memory = guarded(np.full(math.prod(shape), 0.5, np.float32))
            out.keep(f"gradient of {name}", memory)
            descriptors[name] = self.describe(name, memory[GUARD:-GUARD], int(self.accumulates[name]))
        return self.struct(descriptors)


def lstm(draw: Draw) -> Case:
    """Forward, then backward from the cache or by running forward again."""
    cells, parameters, with_cache = Cells(draw), filter_parameters(draw), draw.chance(0.6)

    def run(out: Outcome) -> None:
        p = cells.forward(out)
        size = calls.BNNSComputeLSTMTrainingCacheCapacity(p)
        cache = np.zeros(size, np.uint8) if with_cache and size < 2**30 else None
        capacity = 0 if cache is None else cache.size
        if not out.note(calls.BNNSDirectApplyLSTMBatchTrainingCaching(p, parameters, cache, capacity)):
            return
        out.note(calls.BNNSDirectApplyLSTMBatchBackward(p, cells.backward(out), parameters, cache, capacity))

    hidden = {"values": ..., "arriving": ..., "scratch": cells.scratch is not None}
    return f"{cells.__dict__ | hidden!r} {parameters!r}", run


FAMILIES = {"lstm": lstm}
