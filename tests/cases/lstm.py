"""LSTMs: sizes, layers, directions, peepholes, activations, dropout, packed sequences, layouts, in random combinations.

Tensors are known by their number in :data:`NAMES`; arrays have the shape that memory has, (T, N, I) and so on.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers import FLOAT16, FLOAT32, Array, Storage, Tensor, assert_within
from openbnns import capi
from openbnns.capi import BNNSDataLayout
from openbnns.parameters.activation import Activation
from openbnns.parameters.lstm import DEFAULT_ACTIVATIONS, Activations
from openbnns.parameters.lstm import GATES as LSTM_GATES
from openbnns.reference import lstm as reference

from ._base import Act, succeed

X, H0, C0, Y, HN, CN = range(6)
W0, W1, U, P, B = range(5)
GATES = ("input_gate", "forget_gate", "candidate_gate", "output_gate")
OUTPUTS = (Y, HN, CN)
CUSTOM = (Act("HardSigmoid", 0.2, 0.5), Act("Softmax"), Act("Softsign"), Act("Sigmoid"), Act("ELU", 0.8))
SMOOTH = (Act("Sigmoid"), Act("Softmax"), Act("GELU"), Act("ScaledTanh", 1.1, 0.7), Act("SiLU"))


def gate_tensor(gate: int, tensor: int) -> int:
    return 6 + 5 * gate + tensor


ALL_TENSORS = range(26)
RESULTS = tuple(i for i in ALL_TENSORS if i not in OUTPUTS)


@dataclass(frozen=True)
class LstmCase:
    """One LSTM. ``layout`` is how tensors are described: first, last, joined, blank (sizes left 0), sne or nse."""

    id: str
    steps: int = 4
    batch: int = 3
    inputs: int = 5
    hidden: int = 6
    layers: int = 1
    directions: int = 1
    peepholes: tuple[bool, bool, bool, bool] = (False,) * 4
    bias: tuple[bool, bool, bool, bool] = (True,) * 4
    states: tuple[bool, bool] = (True, True)
    activations: tuple[Act, ...] | None = None
    dropout: float = 0.0
    batch_sizes: tuple[int, ...] | None = None
    layout: str = "first"
    strided: bool = False
    one_piece: bool = False  # iw_desc[0] holds the input weights of all layers

    @property
    def first_layers(self) -> int:
        return self.layers if self.one_piece else 1

    @property
    def rows(self) -> tuple[str, ...]:
        table = {
            "lstm.cell": self.steps == 1, "lstm.seq": self.steps > 1, "lstm.stack": self.layers > 1,
            "lstm.bidir": self.directions > 1, "lstm.peep": any(self.peepholes), "lstm.bias": any(self.bias),
            "lstm.acts": self.activations is not None, "lstm.defacts": self.activations is None,
            "lstm.dropout": self.dropout > 0, "lstm.packed": self.batch_sizes is not None,
            "lstm.states": any(self.states),
        }  # fmt: skip
        return (*(row for row, here in table.items() if here), "fn.BNNSDirectApplyLSTMBatchTrainingCaching")

    @property
    def backward_rows(self) -> tuple[str, ...]:
        names = ("dx", "dh0", "dc0", "dW_input", "dW_hidden", "db")
        more = ("lstm.bwd.dW_cell",) if any(self.peepholes) else ()
        return (*(f"lstm.bwd.{name}" for name in names), *more, "fn.BNNSDirectApplyLSTMBatchBackward")

    def shape(self, index: int) -> tuple[int, ...]:
        layers, r, n, h = self.layers, self.directions, self.batch, self.hidden
        if index == X:
            return (self.steps, n, self.inputs)
        if index == Y:
            return (self.steps, n, r, h)
        if index < 6:
            return (layers, r, n, h)
        shapes = {W0: (self.first_layers, r, h, self.inputs), W1: (layers - self.first_layers, r, h, r * h)}
        tensor = (index - 6) % 5
        return shapes.get(tensor, (layers, r, h, h) if tensor != B else (layers, r, h))

    def has(self, index: int) -> bool:
        """True if the LSTM has this tensor as an input."""
        if index < 6:
            return index == X or (index in (H0, C0) and self.states[index - H0])
        gate, tensor = divmod(index - 6, 5)
        return {P: self.peepholes[gate], B: self.bias[gate], W1: self.layers > self.first_layers}.get(tensor, True)

    def values(self, seed: int = 0) -> dict[int, Array]:
        """Inputs by tensor number, and under 100 + number the gradients that arrive."""
        rng = np.random.default_rng([zlib.crc32(self.id.encode()), seed])
        values: dict[int, Array] = {}
        for index in ALL_TENSORS:
            gain = 1.2 if self.activations is None else 0.6  # unbounded functions must not grow from step to step
            scale = 1.0 if index < 6 else gain / np.sqrt(self.shape(index)[-1])
            numbers = np.float32(scale * rng.standard_normal(self.shape(index)))
            if self.has(index):
                values[index] = numbers.astype(np.float64)
        for index in OUTPUTS:
            values[100 + index] = np.float32(rng.standard_normal(self.shape(index))).astype(np.float64)
        return values

    # The oracle.

    def stack(self, values: dict[int, Array]) -> list[list[reference.Cell]]:
        def gate(g: int, layer: int, r: int) -> reference.Gate:
            first = layer < self.first_layers
            w = values[gate_tensor(g, W0 if first else W1)][layer if first else layer - self.first_layers, r]
            u, p, b = (values.get(gate_tensor(g, t)) for t in (U, P, B))
            assert u is not None
            return reference.Gate(
                w, u[layer, r], None if p is None else p[layer, r], None if b is None else b[layer, r]
            )

        return [
            [reference.Cell(*(gate(g, layer, r) for g in range(4))) for r in range(self.directions)]
            for layer in range(self.layers)
        ]

    @property
    def oracle_activations(self) -> Activations:
        if self.activations is None:
            return DEFAULT_ACTIVATIONS
        activations = []
        for act in self.activations:
            made = act.struct
            activations.append(
                Activation(int(made.function), float(np.float32(act.alpha)), float(np.float32(act.beta)))
            )
        return Activations(*activations)

    def expected(self, values: dict[int, Array], keep: Array | None = None) -> reference.Result:
        dropout = None if keep is None else reference.Dropout(float(np.float32(self.dropout)), keep)
        return reference.forward(
            values[X], self.stack(values), values.get(H0), values.get(C0), self.oracle_activations, dropout,
            self.batch_sizes,
        )  # fmt: skip

    def expected_gradients(
        self, values: dict[int, Array], arriving: Collection[int] = OUTPUTS, keep: Array | None = None
    ) -> dict[int, Array]:
        wanted = frozenset({"dx", "dh0", "dc0", "dw", "du", "dp", "db"})
        dy, dh, dc = (values[100 + i] if i in arriving else None for i in OUTPUTS)
        cache = self.expected(values, keep).cache
        d = reference.backward(self.stack(values), cache, wanted, dy, dh, dc, self.oracle_activations)
        assert d.dx is not None and d.dh0 is not None and d.dc0 is not None
        gradients = {X: d.dx, H0: d.dh0, C0: d.dc0}
        for g, name in enumerate(LSTM_GATES):
            for tensor, key in ((W0, "dw"), (W1, "dw"), (U, "du"), (P, "dp"), (B, "db")):
                layers = range(self.first_layers) if tensor == W0 else range(self.layers)
                if tensor == W1:
                    layers = range(self.first_layers, self.layers)
                parts = [[d.gates[layer][r][name][key] for r in range(self.directions)] for layer in layers]
                if parts:
                    gradients[gate_tensor(g, tensor)] = np.array(parts)
        return gradients

    # Memory.

    def tensor(self, index: int, data_type: Any = FLOAT32) -> Tensor:
        shape = self.shape(index)
        if self.layout == "joined" and index >= 6:
            shape = (shape[0] * shape[1], *shape[2:])
        elif self.layout in ("joined", "sne", "nse") and index == Y:
            shape = (*shape[:2], shape[2] * shape[3])
        layout: Any = BNNSDataLayout[f"BNNSDataLayout{len(shape)}DFirstMajor"]
        if self.layout in ("sne", "nse") and index in (X, Y):
            layout = BNNSDataLayout.BNNSDataLayoutSNE if self.layout == "sne" else BNNSDataLayout.BNNSDataLayoutNSE
            shape = shape if self.layout == "sne" else (shape[1], shape[0], shape[2])
        elif self.layout == "last":
            layout = BNNSDataLayout[f"BNNSDataLayout{len(shape)}DLastMajor"]
        size = shape if layout.name.endswith("FirstMajor") else shape[::-1]
        stride: tuple[int, ...] = ()
        if self.strided:
            reach, steps = 2, []
            for n in shape[::-1]:
                steps.append(reach)
                reach = reach * n + 3
            stride = tuple(steps)
        return Tensor(layout, size, stride, data_type)


class Memory:
    """Memory of one tensor, written and read in the shape that the LSTM gives it."""

    def __init__(self, case: LstmCase, index: int, values: Array | None = None, data_type: Any = FLOAT32) -> None:
        self.case, self.index = case, index
        self.tensor = case.tensor(index, data_type)
        self.storage = Storage(self.tensor)
        if values is not None:
            self.storage.write(self._to_size(values)[None])

    def _axes(self, array: Array) -> Array:
        return array if self.tensor.layout.name.endswith("FirstMajor") else array.transpose(range(array.ndim)[::-1])

    def _to_size(self, values: Array) -> Array:
        if self.case.layout == "nse" and self.index in (X, Y):
            values = np.swapaxes(values.reshape(*values.shape[:2], -1), 0, 1)
        size = self.tensor.size
        memory = size if self.tensor.layout.name.endswith("FirstMajor") else size[::-1]
        return self._axes(values.reshape(memory))

    def read(self) -> Array:
        values = self._axes(self.storage.read()[0])
        if self.case.layout == "nse" and self.index in (X, Y):
            values = np.swapaxes(values, 0, 1)
        return values.reshape(self.case.shape(self.index))

    def descriptor(self, flags: int = 0) -> capi.BNNSNDArrayDescriptor:
        made = self.storage.descriptor(flags)
        if self.case.layout == "blank":
            return capi.BNNSNDArrayDescriptor(flags=flags, data=made.data, data_type=made.data_type)
        if self.case.layout == "zeros":
            made.size = [0] * 8
        return made


def params(case: LstmCase, tensors: dict[int, Any]) -> capi.BNNSLayerParametersLSTM:
    """The struct with these descriptors by tensor number."""
    none = capi.BNNSNDArrayDescriptor

    def at(index: int) -> Any:
        return tensors.get(index) or none()

    sides = [
        capi.BNNSLSTMDataDescriptor(data_desc=at(i), hidden_desc=at(i + 1), cell_state_desc=at(i + 2)) for i in (X, Y)
    ]
    acts = [Act()] * 5 if case.activations is None else case.activations
    gates = {
        name: capi.BNNSLSTMGateDescriptor(
            iw_desc=(at(gate_tensor(g, W0)), at(gate_tensor(g, W1))), hw_desc=at(gate_tensor(g, U)),
            cw_desc=at(gate_tensor(g, P)), b_desc=at(gate_tensor(g, B)), activation=acts[g].struct,
        )
        for g, name in enumerate(GATES)
    }  # fmt: skip
    sequence = none()
    if case.batch_sizes is not None:
        sequence = capi.BNNSNDArrayDescriptor(
            layout=capi.BNNSDataLayoutVector, size=(case.steps,), data=np.array(case.batch_sizes, np.int32),
            data_type=capi.BNNSDataTypeInt32,
        )  # fmt: skip
    return capi.BNNSLayerParametersLSTM(
        input_size=case.inputs, hidden_size=case.hidden, batch_size=case.batch, num_layers=case.layers,
        seq_len=case.steps, dropout=case.dropout, lstm_flags=(case.directions - 1) + 2 * (case.activations is None),
        sequence_descriptor=sequence, input_descriptor=sides[0], output_descriptor=sides[1],
        hidden_activation=acts[4].struct, **gates,
    )  # fmt: skip


class LstmRun:
    """A case and its memory."""

    def __init__(
        self, case: LstmCase, values: dict[int, Array] | None = None, threads: int = 0, half: Collection[int] = ()
    ) -> None:
        self.case, self.values = case, case.values() if values is None else values
        self.threads = capi.BNNSFilterParameters(n_threads=threads) if threads else None
        self.memory = {
            i: Memory(case, i, v, FLOAT16 if i in half else FLOAT32) for i, v in self.values.items() if i < 100
        }
        self.outputs = {i: Memory(case, i) for i in OUTPUTS}
        described = {i: m.descriptor() for i, m in (self.memory | self.outputs).items()}
        self.params = params(case, described)
        self.cache: Array | None = None

    def forward(self, cached: bool = True) -> dict[int, Array]:
        capacity = 0
        if cached:
            capacity = capi.BNNSComputeLSTMTrainingCacheCapacity(self.params)
            self.cache = np.full(capacity, 0xA5, np.uint8)
        succeed(
            capi.BNNSDirectApplyLSTMBatchTrainingCaching(
                self.params, self.threads, self.cache if cached else None, capacity
            )
        )
        return {i: m.read() for i, m in self.outputs.items()}

    def backward(
        self, wanted: Collection[int] = RESULTS, arriving: Collection[int] = OUTPUTS, cached: bool = True,
        old: dict[int, Array] | None = None,
    ) -> dict[int, Memory]:  # fmt: skip
        wanted = [i for i in wanted if 0 not in self.case.shape(i)]
        results = {i: Memory(self.case, i, None if old is None else old[i]) for i in wanted}
        coming = {i: Memory(self.case, i, self.values[100 + i]) for i in arriving}
        described = {i: m.descriptor(int(old is not None)) for i, m in results.items()}
        delta = params(self.case, described | {i: m.descriptor() for i, m in coming.items()})
        cache = self.cache if cached else None
        succeed(
            capi.BNNSDirectApplyLSTMBatchBackward(
                self.params, delta, self.threads, cache, 0 if cache is None else cache.nbytes
            )
        )
        for m in coming.values():
            m.storage.assert_unchanged("arriving gradient")
        return results


def tolerance(expected: Array, terms: float = 1.0) -> float:
    """Rounding of float32, relative to the largest value."""
    largest = float(np.abs(expected).max(initial=0.0))
    return 2e-6 * (2.0 + 0.3 * float(np.sqrt(terms))) * max(largest, 0.05)


ALL4, NONE4 = (True,) * 4, (False,) * 4

SHAPES = [
    LstmCase("one-step", 1, 1, 3, 2, layout="blank"),
    LstmCase("one-of-everything", 1, 1, 1, 1, bias=NONE4, states=(False, False)),
    LstmCase("sequence", 7, 5, 13, 17),
    LstmCase("sequence-16", 6, 3, 16, 32, states=(False, True)),
    LstmCase("no-bias", 5, 2, 4, 9, bias=NONE4, states=(True, False)),
    LstmCase("some-bias", 5, 2, 4, 9, bias=(True, False, True, False)),
    LstmCase("stack", 5, 4, 6, 11, layers=3),
    LstmCase("stack-one-piece", 5, 4, 11, 11, layers=3, one_piece=True),
    LstmCase("stack-two-pieces-bidirectional", 5, 4, 12, 6, layers=2, directions=2),
    LstmCase("stack-one-piece-bidirectional", 5, 4, 12, 6, layers=3, directions=2, one_piece=True),
    LstmCase("bidirectional", 6, 3, 5, 7, directions=2),
    LstmCase("stack-bidirectional", 4, 3, 5, 7, layers=3, directions=2, states=(False, False)),
    LstmCase("peepholes", 5, 3, 4, 7, peepholes=ALL4),
    LstmCase("peepholes-some", 5, 3, 4, 7, layers=2, peepholes=(True, False, False, True)),
    LstmCase("custom", 5, 3, 4, 7, activations=CUSTOM),
    LstmCase("custom-smooth", 5, 3, 4, 7, layers=2, directions=2, activations=SMOOTH, peepholes=ALL4),
    LstmCase("dropout", 5, 3, 4, 7, layers=3, dropout=0.4),
    LstmCase("dropout-bidirectional", 5, 3, 4, 7, layers=2, directions=2, dropout=0.3),
    LstmCase("packed", 5, 4, 3, 6, batch_sizes=(4, 3, 3, 1, 1)),
    LstmCase("packed-uneven", 5, 4, 3, 6, layers=2, directions=2, batch_sizes=(2, 4, 0, 3, 1)),
    LstmCase("packed-custom", 5, 4, 3, 6, layers=2, directions=2, activations=CUSTOM, peepholes=ALL4,
             batch_sizes=(4, 4, 2, 2, 0), states=(False, False)),
    LstmCase("wide", 3, 33, 40, 70, layers=2, directions=2),
    LstmCase("packed-wide", 4, 33, 19, 21, layers=2, directions=2, batch_sizes=(33, 30, 1, 14), states=(False, False)),
    LstmCase("large", 4, 37, 65, 130, layers=1),
]  # fmt: skip

LAYOUTS = [
    LstmCase(f"layout-{layout}{'-strided' if strided else ''}", 4, 3, 5, 6, 2, 2, ALL4, layout=layout, strided=strided)
    for layout in ("first", "last", "joined", "blank", "zeros", "sne", "nse")
    for strided in (False, True)
    if not (strided and layout == "blank")
]


def _random(number: int) -> LstmCase:
    rng = np.random.default_rng([23, number])
    steps, batch, layers = int(rng.integers(1, 8)), int(rng.integers(1, 20)), int(rng.integers(1, 4))
    pick = lambda share: tuple(bool(v) for v in rng.random(4) < share)  # noqa: E731
    packed = rng.random() < 0.3
    sizes = tuple(int(n) for n in rng.integers(0, batch + 1, steps)) if packed else None
    return LstmCase(
        f"random-{number}", steps, batch, int(rng.integers(1, 40)), int(rng.integers(1, 40)), layers,
        int(rng.integers(1, 3)), pick(0.7) if rng.random() < 0.4 else NONE4, pick(0.7),
        (bool(rng.integers(0, 2)), bool(rng.integers(0, 2))),
        (None, None, CUSTOM, SMOOTH)[rng.integers(0, 4)], float(rng.choice([0.0, 0.0, 0.5])), sizes,
        ("first", "last", "joined", "blank", "zeros", "sne", "nse")[rng.integers(0, 7)], False,
    )  # fmt: skip


RANDOM = [_random(number) for number in range(36)]
CASES = SHAPES + LAYOUTS + RANDOM


def compare_outputs(case: LstmCase, outputs: dict[int, Array], values: dict[int, Array], keep: Array | None) -> None:
    expected = case.expected(values, keep)
    for index, numbers in ((Y, expected.y), (HN, expected.h), (CN, expected.c)):
        assert_within(outputs[index], numbers, tolerance(numbers, case.hidden + case.inputs), f"{case.id}: {index}")


def compare_gradients(case: LstmCase, actual: dict[int, Memory], expected: dict[int, Array]) -> None:
    for index, memory in actual.items():
        bound = tolerance(expected[index], case.steps * (case.batch + case.hidden))
        assert_within(memory.read(), expected[index], bound, f"{case.id}: gradient {index}")
        memory.storage.assert_guards_intact(f"gradient {index}")
