"""Check the gradients of a layer or filter against finite differences of its formula in float64.

For a tensor t (input, weights, bias, ...), a random direction u and a random cotangent v, these two must agree:

    numeric  = <v, f(t + h u) - f(t - h u)> / 2h     f is the float64 reference forward pass
    analytic = <backward(v)_t, u>                    backward is the engine in use

Points lie away from kinks: where the slopes on both sides differ, another point is drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import engines
from .capi.structs import BNNSMHAProjectionParameters, BNNSNDArrayDescriptor
from .descriptors import View
from .engines.reference import activation as reference_activation
from .engines.reference import fused as reference_fused
from .engines.reference import loss as reference_loss
from .engines.reference import normalization as reference_normalization
from .engines.reference import pooling as reference_pooling
from .engines.reference.activation import Function as ActivationKind
from .engines.reference.arithmetic import Function as Operation
from .engines.reference.loss import Function as LossKind
from .errors import LayerApplyError, Problem, as_exception
from .filters._attention_shapes import field as attention_field
from .filters._base import Filter, UnaryFilter
from .filters._contraction import Contraction
from .filters._pooling_indices import resolve_index_type
from .filters._tensors import Caller, Operand, Parameter
from .filters.activation import ActivationFilter
from .filters.arithmetic import Arithmetic
from .filters.attention import MultiheadAttention
from .filters.dropout import Dropout
from .filters.embedding import Embedding
from .filters.fused import Fused
from .filters.loss import Loss
from .filters.lstm import LSTM
from .filters.normalization import Normalization
from .filters.pooling import Pooling
from .layers._base import Layer
from .layers.lstm import LSTMLayer
from .layers.types import LearningPhase

Array = NDArray[np.float64]

STEP = 1e-5
TOLERANCE = 2e-4
BATCH = 3
ATTEMPTS = 20


@dataclass(frozen=True)
class GradientRow:
    """One comparison: the gradient of a tensor along one direction."""

    name: str
    analytic: float
    numeric: float
    relative_error: float
    passed: bool
    note: str = ""


@dataclass(frozen=True)
class GradientReport:
    """What :func:`gradcheck` found. True in a condition when every gradient passed; prints as a table.

    >>> from openbnns import *
    >>> report = gradcheck(ActivationLayer(function=ActivationFunction.tanh(), input=Shape.vector(5)), verbose=False)
    >>> report.passed, {row.name for row in report.rows}
    (True, {'input'})
    """

    title: str
    tolerance: float
    rows: tuple[GradientRow, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether every gradient agrees with the finite differences."""
        return bool(self.rows) and all(row.passed for row in self.rows)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        width = max([len(row.name) for row in self.rows] + [8])
        lines = [f"{self.title}, tolerance {self.tolerance:g}"]
        lines.append(f"{'gradient':{width}s}  {'analytic':>13s}  {'numeric':>13s}  {'rel. error':>10s}")
        for row in self.rows:
            verdict = "ok" if row.passed else "FAILED"
            note = f"  ({row.note})" if row.note else ""
            numbers = f"{row.analytic:13.6g}  {row.numeric:13.6g}  {row.relative_error:10.2e}"
            lines.append(f"{row.name:{width}s}  {numbers}  {verdict}{note}")
        lines.append("all gradients agree" if self.passed else "GRADIENTS DISAGREE")
        return "\n".join(lines)


def gradcheck(
    layer_or_filter: Layer | Filter,
    inputs: Any = None,
    *,
    seed: int = 0,
    directions: int = 3,
    step: float | None = None,
    tolerance: float | None = None,
    engine: str | None = None,
    verbose: bool = True,
) -> GradientReport:
    """Compare every gradient of a layer, or of a filter of ``openbnns.capi``, with finite differences in float64.

    ``inputs`` is the input array, or a sequence of them for a layer with several: C order, one sample or a batch. Left
    out, suitable random inputs are drawn. Each gradient is checked along ``directions`` random directions with steps of
    ``step`` (1e-5) and passes when the relative error is at most ``tolerance`` (2e-4, which leaves room for float32).
    ``engine`` names the engine whose gradients are checked, by default the one in use. The report is printed when
    ``verbose``.

    >>> import numpy as np, openbnns
    >>> layer = openbnns.FullyConnectedLayer(weights=np.ones((2, 3), np.float32), bias=np.zeros(2, np.float32))
    >>> report = openbnns.gradcheck(layer, verbose=False)
    >>> report.passed, sorted({row.name for row in report.rows})
    (True, ['bias', 'input', 'weights'])
    """
    filter = layer_or_filter.bnns_filter if isinstance(layer_or_filter, Layer) else layer_or_filter
    name = type(layer_or_filter).__name__ if isinstance(layer_or_filter, Layer) else f"{filter.family} filter"
    with engines.engine(engine or engines.current()):
        try:
            filter.require_alive(Caller("gradcheck"))
            check = _Check(
                _LstmSubject(filter, layer_or_filter)
                if isinstance(layer_or_filter, LSTMLayer) and isinstance(filter, LSTM)
                else subject_of(filter),
                np.random.default_rng(seed),
                step or STEP,
                TOLERANCE if tolerance is None else tolerance,
            )
            rows = check.run(inputs, directions)
        except Problem as problem:
            raise as_exception(problem, LayerApplyError) from None
        report = GradientReport(f"{name} ({engines.current()} engine)", check.tolerance, tuple(rows))
    if verbose:
        print(report)
    return report


class Subject(ABC):
    """What gradcheck needs to know about a family of filters. Values are float64 arrays by name, batch axis first."""

    inputs: Sequence[str]
    floor: float = 0.0
    """Share of the largest gradient below which one counts as zero: a bias before a normalization has no effect, and
    what float32 makes of its gradient is rounding."""

    @abstractmethod
    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        """Random inputs in the domain of the function."""

    @abstractmethod
    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        """The caller's inputs, checked."""

    @abstractmethod
    def parameters(self) -> dict[str, Array]:
        """Weights and the like as they are now."""

    @abstractmethod
    def forward(self, values: dict[str, Array]) -> Array:
        """The float64 reference."""

    @abstractmethod
    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        """The gradients that the engine in use computes in float32, by name."""

    def cancelled(self, name: str, gradients: dict[str, Array]) -> float:
        """Size of the terms of a gradient that cancel by nature, which leave rounding errors of that size."""
        return 0.0


class _Check:
    """One run of gradcheck."""

    def __init__(self, subject: Subject, random: np.random.Generator, step: float, tolerance: float) -> None:
        self.subject, self.random, self.step, self.tolerance = subject, random, step, tolerance

    def run(self, inputs: Any, directions: int) -> list[GradientRow]:
        if inputs is not None:
            fixed = self.subject.given(inputs if isinstance(inputs, (list, tuple)) else [inputs])
        rows: dict[str, list[GradientRow]] = {}
        for _ in range(directions):
            for attempt in range(ATTEMPTS):
                values = (fixed if inputs is not None else self.subject.draw(self.random)) | self.subject.parameters()
                found = self._compare(values)
                if inputs is not None or not any(row.note for row in found) or attempt == ATTEMPTS - 1:
                    break
            for row in found:
                rows.setdefault(row.name, []).append(row)
        return [row for group in rows.values() for row in group]

    def _compare(self, values: dict[str, Array]) -> list[GradientRow]:
        y = self.subject.forward(values)
        v = _float32_numbers(self.random.standard_normal(y.shape))
        gradients = self.subject.backward(values, v)
        least = self.subject.floor * max((float(np.linalg.norm(g)) for g in gradients.values()), default=0.0)
        return [self._row(name, values, y, v, gradients, least) for name in gradients]

    def _row(
        self, name: str, values: dict[str, Array], y: Array, v: Array, gradients: dict[str, Array], least: float
    ) -> GradientRow:
        gradient = gradients[name]
        u = self.random.standard_normal(values[name].shape)
        h = self.step

        def along(distance: float) -> Array:
            return self.subject.forward(values | {name: values[name] + distance * u})

        after, before = along(h), along(-h)
        numeric = float(np.vdot(v, after - before)) / (2 * h)
        analytic = float(np.vdot(gradient, u))
        # Rounding in float32 is relative to the terms of the sum, not to a result in which they may cancel.
        terms = max(self.subject.cancelled(name, gradients), least)
        scale = max(abs(numeric), abs(analytic), float(np.linalg.norm(gradient * u)), terms)
        error = abs(analytic - numeric) / scale if scale > 0 else abs(analytic - numeric)
        slopes = [float(np.vdot(v, after - y)) / h, float(np.vdot(v, y - before)) / h]
        bend = abs(slopes[0] - slopes[1])
        note = "kink: the slopes on both sides differ" if not bend <= 1e-2 * (scale + h) + 1e3 * h * scale else ""
        return GradientRow(name, analytic, numeric, error, bool(error <= self.tolerance), note)


def _float32_numbers(values: NDArray[Any]) -> Array:
    """Values that float32 holds exactly, so that the engine and the reference work at the same point."""
    return np.asarray(values, np.float32).astype(np.float64)


# Memory for tensors of any layout.


class _Tensor:
    """Memory of an operand in the layout its filter expects."""

    def __init__(self, operand: Operand | Parameter, batch: int) -> None:
        self.operand, self.batch, view = operand, batch, operand.view
        self.memory = np.zeros(view.bytes_of((batch - 1) * view.extent + view.span), np.uint8)

    def fill(self, values: Array) -> np.ndarray[Any, Any]:
        assert isinstance(self.operand, Operand)
        self.operand.bind("gradcheck", self.memory, self.batch, 0, output=True).write(values)
        return self.memory

    def descriptor(self) -> BNNSNDArrayDescriptor:
        return _describe(self.operand.view, self.memory)

    def read(self) -> Array:
        if isinstance(self.operand, Operand):
            return self.operand.bind("gradcheck", self.memory, self.batch, 0).read(np.float64)
        values: Array = self.operand.bind_delta("gradcheck", self.descriptor()).read(np.float64)[0]
        return values


def _describe(view: View, memory: NDArray[Any]) -> BNNSNDArrayDescriptor:
    stride = () if view.layout.blocked32 else [view.steps[axis] for axis in view.layout.stepped]
    return BNNSNDArrayDescriptor(
        layout=view.layout.code, size=view.size, stride=stride, data=memory, data_type=view.element.code
    )


def _checked_input(value: Any, shape: tuple[int, ...], name: str, *, batched: bool = True) -> Array:
    array = np.asarray(value, np.float64)
    if array.shape == shape:
        array = array[None]
    elif not batched or array.shape[1:] != shape:
        raise Problem(
            f"gradcheck: {name} has shape {array.shape}, but one sample is {shape}"
            f"{', and a batch has one more axis in front' if batched else ''}."
        )
    return _float32_numbers(array)


def _random_numbers(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return _float32_numbers(random.standard_normal(shape))


_CALLER = Caller("gradcheck", {"in": "input", "out": "output"})


class _UnarySubject(Subject):
    """Filters with one input and optional weights and bias."""

    inputs = ("input",)

    def __init__(self, filter: UnaryFilter) -> None:
        self.filter = filter

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        return {"input": _random_numbers(random, (BATCH, *self.filter.input.shape))}

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        if len(inputs) != 1:
            raise Problem(f"gradcheck: {len(inputs)} inputs are given, but a {self.filter.family} filter has one.")
        return {"input": _checked_input(inputs[0], self.filter.input.shape, "input")}

    def parameters(self) -> dict[str, Array]:
        tensors = {"weights": self.filter.weights, "bias": self.filter.bias}
        return {name: tensor.read(np.float64) for name, tensor in tensors.items() if tensor is not None}

    def forward(self, values: dict[str, Array]) -> Array:
        return self.filter.reference_forward(
            values["input"], values.get("weights"), values.get("bias"), self.filter.activation
        )

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, len(values["input"])
        x, y, dy = _Tensor(f.input, batch), _Tensor(f.output, batch), _Tensor(f.output, batch)
        x.fill(values["input"])
        dy.fill(cotangent.reshape(batch, *f.output.shape))
        gradients = {"input": _Tensor(f.input, batch)}
        for name, parameter in (("weights", f.weights), ("bias", f.bias)):
            if parameter is not None:
                gradients[name] = _Tensor(parameter, 1)
        deltas = {name: tensor.descriptor() for name, tensor in gradients.items()}
        f.apply_batch(_CALLER, batch, x.memory, 0, y.memory, 0)
        f.apply_backward_batch(
            _CALLER, batch, x.memory, 0, deltas["input"], 0, y.memory, 0, dy.descriptor(), 0, deltas.get("weights"),
            deltas.get("bias"),
        )  # fmt: skip
        return {name: tensor.read() for name, tensor in gradients.items()}


class _ActivationSubject(_UnarySubject):
    """Standalone activations, whose one parameter is alpha."""

    filter: ActivationFilter

    def __init__(self, filter: ActivationFilter) -> None:
        super().__init__(filter)
        if filter.activation.function in (ActivationKind.GUMBEL, ActivationKind.GUMBEL_MAX):
            raise Problem("gradcheck: the Gumbel functions draw random numbers at each call; there is no one gradient.")

    def parameters(self) -> dict[str, Array]:
        return {} if self.filter.weights is None else {"alpha": self.filter.weights.read(np.float64)[self._alpha]}

    @property
    def _alpha(self) -> slice:
        """Where alpha lies among the values of the filter."""
        return slice(None) if self.filter.activation.function == ActivationKind.PRELU_PER_CHANNEL else slice(0, 1)

    def forward(self, values: dict[str, Array]) -> Array:
        f = self.filter.current()
        if "alpha" in values:
            alpha = values["alpha"]
            f = replace(f, alpha=float(alpha[0])) if f.channel_alpha is None else replace(f, channel_alpha=alpha)
        return reference_activation.forward(f, values["input"], self.filter.axes)

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        gradients = super().backward(values, cotangent)
        return {"alpha" if name == "weights" else name: gradient for name, gradient in gradients.items()}


class _UnMaxSubject(_UnarySubject):
    """UnMax, whose indices are drawn: every input goes to a position of its own."""

    filter: Pooling

    def __init__(self, filter: Pooling) -> None:
        super().__init__(filter)
        channels, height, width = filter.input.shape
        if height * width > filter.indices.plane:
            raise Problem("gradcheck: there are more inputs than positions, so that some overwrite others.")
        random = np.random.default_rng(0)
        planes = np.tile(np.arange(filter.indices.plane, dtype=np.uint64), (channels, 1))
        self.places = random.permuted(planes, axis=1)[:, : height * width].reshape(1, channels, height, width)

    def _places(self, batch: int) -> NDArray[np.uint64]:
        return np.repeat(self.places, batch, axis=0)

    def forward(self, values: dict[str, Array]) -> Array:
        f, x = self.filter, values["input"]
        indices = self._places(len(x)).astype(np.int64)
        return reference_pooling.forward(f.function, x, values.get("bias"), f.activation, f.geometry, indices)[0]

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, len(values["input"])
        x, y, dy = _Tensor(f.input, batch), _Tensor(f.output, batch), _Tensor(f.output, batch)
        x.fill(values["input"])
        dy.fill(cotangent)
        gradients = {"input": _Tensor(f.input, batch)}
        if f.bias is not None:
            gradients["bias"] = _Tensor(f.bias, 1)
        deltas = {name: tensor.descriptor() for name, tensor in gradients.items()}
        memory = np.zeros(batch * f.input.view.extent, np.uint64)
        bound = f.indices.bind(_CALLER, memory, resolve_index_type(None, _CALLER), batch, 0, output=True)
        f.indices.write(bound, self._places(batch))
        f.apply_pooling_batch(_CALLER, batch, x.memory, 0, y.memory, 0, None, memory, 0)
        f.apply_backward_pooling_batch(
            _CALLER, batch, x.memory, 0, deltas["input"], 0, y.memory, 0, dy.descriptor(), 0, deltas.get("bias"), None,
            memory, 0,
        )  # fmt: skip
        return {name: tensor.read() for name, tensor in gradients.items()}


def _pooling_subject(filter: Pooling) -> Subject:
    return _UnMaxSubject(filter) if filter.unpools else _UnarySubject(filter)


# Magnitudes of the operands of functions that are not smooth everywhere; a pair of signs, or one.
_DOMAINS: dict[int, tuple[float, float, bool]] = {
    Operation.SQUARE_ROOT: (0.3, 2.0, False),
    Operation.RECIPROCAL_SQUARE_ROOT: (0.3, 2.0, False),
    Operation.LOG: (0.3, 2.0, False),
    Operation.LOG2: (0.3, 2.0, False),
    Operation.POW: (0.3, 2.0, False),
    Operation.ACOSH: (1.2, 3.0, False),
    Operation.ASIN: (0.05, 0.8, True),
    Operation.ACOS: (0.05, 0.8, True),
    Operation.ATANH: (0.05, 0.8, True),
    Operation.TAN: (0.05, 1.0, True),
}


class _ArithmeticSubject(Subject):
    """Elementwise arithmetic: operands with a batch axis, or of one copy for all samples."""

    def __init__(self, filter: Arithmetic) -> None:
        self.filter = filter
        self.inputs = ["input"] if filter.count == 1 else [f"input_{'abc'[i]}" for i in range(filter.count)]

    def _batches(self) -> list[int]:
        return [BATCH if batched else 1 for batched in self.filter.batched]

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        low, high, both_signs = _DOMAINS.get(self.filter.function, (0.3, 2.0, True))
        values = {}
        for name, operand, batch in zip(self.inputs, self.filter.operands, self._batches(), strict=True):
            magnitude = random.uniform(low, high, (batch, *operand.shape))
            sign = random.choice([-1.0, 1.0], magnitude.shape) if both_signs else 1.0
            values[name] = _float32_numbers(sign * magnitude)
        return values

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        if len(inputs) != self.filter.count:
            raise Problem(f"gradcheck: {len(inputs)} inputs are given, but the filter has {self.filter.count}.")
        return {
            name: _checked_input(value, operand.shape, name, batched=batched)
            for name, value, operand, batched in zip(
                self.inputs, inputs, self.filter.operands, self.filter.batched, strict=True
            )
        }

    def parameters(self) -> dict[str, Array]:
        return {}

    def forward(self, values: dict[str, Array]) -> Array:
        y = self.filter._forward64([values[name] for name in self.inputs])
        return np.broadcast_to(y, (self._samples(values), *self.filter.output.shape))

    def _samples(self, values: dict[str, Array]) -> int:
        return max(len(values[name]) for name in self.inputs) if self.filter.out_batched else 1

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, max(len(values[name]) for name in self.inputs)
        operands = [_Tensor(o, len(values[name])) for name, o in zip(self.inputs, f.operands, strict=True)]
        data = [tensor.fill(values[name]) for name, tensor in zip(self.inputs, operands, strict=True)]
        y, dy = _Tensor(f.output, len(cotangent)), _Tensor(f.output, len(cotangent))
        dy.fill(cotangent)
        constant = [role == 0 for role in f.roles]
        gradients = [
            None if skipped else _Tensor(o, tensor.batch)
            for o, tensor, skipped in zip(f.operands, operands, constant, strict=True)
        ]
        zeros = [0] * f.count
        f.apply_arithmetic_batch(_CALLER, batch, f.count, data, zeros, y.memory, 0)
        f.apply_backward_arithmetic_batch(
            _CALLER, batch, f.count, data, zeros, [None if g is None else g.descriptor() for g in gradients], zeros,
            y.memory, 0, dy.descriptor(), 0,
        )  # fmt: skip
        return {name: g.read() for name, g in zip(self.inputs, gradients, strict=True) if g is not None}


class _ContractionSubject(Subject):
    """Matrix products, tensor contractions and Gram matrices, with one input, one and weights, or two."""

    def __init__(self, filter: Contraction) -> None:
        self.filter = filter
        self.operands = [filter.input] if filter.second is None else [filter.input, filter.second]
        self.inputs = ["input"] if filter.second is None else ["input_a", "input_b"]

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        return {
            name: _random_numbers(random, (BATCH, *o.shape)) for name, o in zip(self.inputs, self.operands, strict=True)
        }

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        if len(inputs) != len(self.inputs):
            raise Problem(f"gradcheck: {len(inputs)} inputs are given, but the filter has {len(self.inputs)}.")
        return {
            name: _checked_input(value, operand.shape, name)
            for name, value, operand in zip(self.inputs, inputs, self.operands, strict=True)
        }

    def parameters(self) -> dict[str, Array]:
        return {} if self.filter.weights is None else {"weights": self.filter.weights.read(np.float64)}

    def forward(self, values: dict[str, Array]) -> Array:
        tensors = [values[name] for name in self.inputs]
        if "weights" in values:
            tensors.append(values["weights"][None])
        return self.filter.reference_values(tensors)

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, len(cotangent)
        data = [_Tensor(o, batch).fill(values[name]) for name, o in zip(self.inputs, self.operands, strict=True)]
        dy = _Tensor(f.output, batch)
        dy.fill(cotangent)
        gradients = {name: _Tensor(o, batch) for name, o in zip(self.inputs, self.operands, strict=True)}
        if f.weights is not None:
            gradients["weights"] = _Tensor(f.weights, 1)
        deltas = {name: tensor.descriptor() for name, tensor in gradients.items()}
        arriving = dy.descriptor()
        if f.second is None:
            weights = deltas.get("weights")
            f.apply_backward_batch(_CALLER, batch, data[0], 0, deltas["input"], 0, None, 0, arriving, 0, weights, None)
        else:
            f.apply_backward_two_input_batch(
                _CALLER, batch, data[0], 0, deltas["input_a"], 0, data[1], 0, deltas["input_b"], 0, None, 0, arriving, 0,
                None, None,
            )  # fmt: skip
        return {name: tensor.read() for name, tensor in gradients.items()}


class _LossSubject(Subject):
    """Losses: the gradient of the predictions; labels are given or drawn, and have none."""

    inputs = ("input", "labels")

    def __init__(self, filter: Loss) -> None:
        self.filter = filter
        yolo = filter.settings.yolo
        if yolo is not None and yolo.rescore:
            raise Problem(
                "gradcheck: with rescore, Yolo takes the IOU for a constant; its gradient is not the derivative."
            )

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        shape, kind = (BATCH, self.filter.width), self.filter.function
        x, labels = random.standard_normal(shape), random.uniform(0.0, 1.0, shape)
        if kind == LossKind.LOG:
            x = random.uniform(0.1, 0.9, shape)
        elif kind in (LossKind.HINGE, LossKind.CATEGORICAL_CROSS_ENTROPY):
            labels = random.integers(0, 2, shape).astype(np.float64)
        elif kind == LossKind.YOLO:
            labels = self._boxes(random)
        return self._on_sphere({"input": _float32_numbers(x), "labels": _float32_numbers(labels)})

    def _boxes(self, random: np.random.Generator) -> Array:
        """One object in about half of the cells, repeated for every anchor."""
        yolo = self.filter.settings.yolo
        assert yolo is not None
        shape = (BATCH, yolo.grid_rows * yolo.grid_columns, 1, 5 + yolo.classes)
        boxes = random.uniform(0.2, 0.8, shape)
        boxes[..., 4] = random.integers(0, 2, shape[:-1])
        return np.repeat(boxes, len(yolo.anchors), axis=2).reshape(BATCH, -1)

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        if len(inputs) != 2:
            raise Problem(f"gradcheck: {len(inputs)} inputs are given, but a loss takes two: predictions and labels.")
        shape = (self.filter.width,)
        values = [np.asarray(v, np.float64).reshape(-1, *shape) for v in inputs if np.size(v) % shape[0] == 0]
        if len(values) != 2 or values[0].shape != values[1].shape:
            shapes = f"{np.shape(inputs[0])} and {np.shape(inputs[1])}"
            raise Problem(
                f"gradcheck: predictions and labels have shapes {shapes}, but one sample has {shape[0]} elements."
            )
        return self._on_sphere({"input": _float32_numbers(values[0]), "labels": _float32_numbers(values[1])})

    def _on_sphere(self, values: dict[str, Array]) -> dict[str, Array]:
        """The cosine distance is for unit vectors, and its gradient is taken along the sphere."""
        if self.filter.function != LossKind.COSINE_DISTANCE:
            return values
        return {name: v / np.linalg.norm(v, axis=1, keepdims=True) for name, v in values.items()}

    def parameters(self) -> dict[str, Array]:
        return {}

    def forward(self, values: dict[str, Array]) -> Array:
        tangent = not self.filter.settings.plain_cosine_gradient
        x = self._on_sphere({"input": values["input"]})["input"] if tangent else values["input"]
        return reference_loss.forward(self.filter.settings, x, values["labels"])

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, len(values["input"])
        x, labels, dx = (_Tensor(f.input, batch) for _ in range(3))
        dy = _Tensor(f.output, 1 if f.reduces else batch)
        dy.fill(cotangent.reshape(dy.batch, *f.output.shape))
        f.apply_backward_loss_batch(
            _CALLER, batch, x.fill(values["input"]), 0, dx.descriptor(), 0, labels.fill(values["labels"]), 0, None, 0,
            dy.descriptor(), 0,
        )  # fmt: skip
        return {"input": dx.read()}


class _DropoutSubject(_UnarySubject):
    """Dropout with the mask of one forward call, which every evaluation repeats."""

    filter: Dropout

    def __init__(self, filter: Dropout) -> None:
        super().__init__(filter)
        self.draw_number = int(filter.state[0])

    def forward(self, values: dict[str, Array]) -> Array:
        self.filter.state[0] = self.draw_number
        return super().forward(values)

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        self.filter.state[0] = self.draw_number
        return super().backward(values, cotangent)


class _EmbeddingSubject(Subject):
    """Embeddings: the gradient of the dictionary; indices are given or drawn, and have none."""

    inputs = ("indices",)

    def __init__(self, filter: Embedding) -> None:
        self.filter = filter
        if filter.settings.scale_by_frequency:
            raise Problem("gradcheck: a gradient divided by the number of lookups is not the derivative.")

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        shape = (BATCH, *self.filter.input.shape)
        return {"indices": random.integers(0, self.filter.entries, shape).astype(np.float64)}

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        if len(inputs) != 1:
            raise Problem(f"gradcheck: {len(inputs)} inputs are given, but an embedding has one: the indices.")
        return {"indices": _checked_input(inputs[0], self.filter.input.shape, "indices")}

    def parameters(self) -> dict[str, Array]:
        """The dictionary; scaled as it would be read, since the scale of a maximum norm is not differentiated."""
        return {"dictionary": self.filter.weights.read(np.float64)}

    def forward(self, values: dict[str, Array]) -> Array:
        return self.filter.look_up(values["indices"].astype(np.int64), values["dictionary"], limited=False)

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, len(values["indices"])
        x, dy, dw = _Tensor(f.input, batch), _Tensor(f.output, batch), _Tensor(f.weights, 1)
        f.input.bind("gradcheck", x.memory, batch, 0, output=True).write_integers(values["indices"].astype(np.int64))
        dy.fill(cotangent)
        f.apply_backward_batch(_CALLER, batch, x.memory, 0, None, 0, None, 0, dy.descriptor(), 0, dw.descriptor(), None)
        return {"dictionary": dw.read()}


class _NormalizationSubject(Subject):
    """Normalizations in training. The moving statistics, which a training forward updates, are put back afterwards."""

    inputs = ("input",)

    def __init__(self, filter: Normalization) -> None:
        self.filter = filter

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        # Statistics bend the function on the scale of the deviation within a set, here 1: steps of 1e-5 are far below.
        return {"input": _random_numbers(random, (BATCH, *self.filter.input.shape))}

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        if len(inputs) != 1:
            raise Problem(f"gradcheck: {len(inputs)} inputs are given, but a normalization has one.")
        return {"input": _checked_input(inputs[0], self.filter.input.shape, "input")}

    def parameters(self) -> dict[str, Array]:
        tensors = {"beta": self.filter.beta, "gamma": self.filter.gamma}
        return {name: tensor.read(np.float64) for name, tensor in tensors.items() if tensor is not None}

    def forward(self, values: dict[str, Array]) -> Array:
        f = self.filter
        beta, gamma = (None if values.get(name) is None else f.as_reference(values[name]) for name in ("beta", "gamma"))
        return reference_normalization.training_forward(f.settings, values["input"], beta, gamma, f.activation)[0]

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, len(values["input"])
        x, y, dy = _Tensor(f.input, batch), _Tensor(f.output, batch), _Tensor(f.output, batch)
        x.fill(values["input"])
        dy.fill(cotangent)
        gradients = {"input": _Tensor(f.input, batch)}
        for name, parameter in (("beta", f.beta), ("gamma", f.gamma)):
            if parameter is not None:
                gradients[name] = _Tensor(parameter, 1)
        deltas = {name: tensor.descriptor() for name, tensor in gradients.items()}
        with f.moving_kept():
            f.apply_normalization_batch(_CALLER, batch, x.memory, 0, y.memory, 0, True)
        f.apply_backward_normalization_batch(
            _CALLER, batch, deltas["input"], 0, y.memory, 0, dy.descriptor(), 0, deltas.get("beta"), deltas.get("gamma")
        )
        return {name: tensor.read() for name, tensor in gradients.items()}


class _FusedSubject(Subject):
    """Fused chains in training: statistics of the batch, so that samples depend on each other."""

    floor = 1e-3

    def __init__(self, filter: Fused) -> None:
        if filter.normalization is None:
            raise Problem("gradcheck: a chain that ends in a quantization has no gradient.")
        self.filter, self.norm = filter, filter.normalization
        count = len(filter.inputs)
        self.inputs = ["input"] if count == 1 else [f"input_{'abc'[i]}" for i in range(count)]
        self.first = _ArithmeticSubject(filter.first) if isinstance(filter.first, Arithmetic) else None

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        if self.first is not None:
            return self.first.draw(random)
        return {"input": _random_numbers(random, (BATCH, *self.filter.inputs[0].shape))}

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        if self.first is not None:
            return self.first.given(inputs)
        if len(inputs) != 1:
            raise Problem(f"gradcheck: {len(inputs)} inputs are given, but the first layer has one.")
        return {"input": _checked_input(inputs[0], self.filter.inputs[0].shape, "input")}

    def parameters(self) -> dict[str, Array]:
        return {name: p.read(np.float64) for name, p in self.filter.slots.items() if p is not None}

    def _batch(self, values: dict[str, Array]) -> int:
        return max(len(values[name]) for name in self.inputs)

    def forward(self, values: dict[str, Array]) -> Array:
        first, batch = self.filter.reference_first(), self._batch(values)
        if not isinstance(first, reference_fused.Arithmetic):
            first = replace(first, weights=values["weights"], bias=values.get("bias"))
        h = reference_fused.first_forward(first, [values[name] for name in self.inputs], batch)
        return reference_normalization.training_forward(
            self.norm.settings, h.reshape(batch, *self.norm.input.shape), self._affine(values, "beta"),
            self._affine(values, "gamma"), self.norm.activation,
        )[0]  # fmt: skip

    def _affine(self, values: dict[str, Array], name: str) -> Array | None:
        return self.norm.as_reference(values[name]) if name in values else None

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, self._batch(values)
        operands = [_Tensor(o, len(values[name])) for name, o in zip(self.inputs, f.inputs, strict=True)]
        data = [tensor.fill(values[name]) for name, tensor in zip(self.inputs, operands, strict=True)]
        y, dy = _Tensor(f.output, batch), _Tensor(f.output, batch)
        dy.fill(cotangent)
        constant = [role == 0 for role in f.first.roles] if isinstance(f.first, Arithmetic) else [False]
        gradients = {
            name: _Tensor(o, tensor.batch)
            for name, o, tensor, skipped in zip(self.inputs, f.inputs, operands, constant, strict=True)
            if not skipped
        }
        gradients |= {name: _Tensor(p, 1) for name, p in f.slots.items() if p is not None}
        deltas = {name: tensor.descriptor() for name, tensor in gradients.items()}
        slots, of_inputs = [deltas.get(name) for name in f.slots], [deltas.get(name) for name in self.inputs]
        rest = (y.memory, 0, dy.descriptor(), 0, slots)
        if self.first is not None:
            count, zeros = len(data), [0] * len(data)
            with self.norm.moving_kept():
                f.apply_fused_multi_input_batch(_CALLER, batch, count, data, zeros, y.memory, 0, True)
            f.apply_backward_fused_multi_input_batch(_CALLER, batch, count, data, zeros, of_inputs, zeros, *rest)
        else:
            with self.norm.moving_kept():
                f.apply_fused_batch(_CALLER, batch, data[0], 0, y.memory, 0, True)
            f.apply_backward_fused_batch(_CALLER, batch, data[0], 0, of_inputs[0], 0, *rest)
        return {name: tensor.read() for name, tensor in gradients.items()}


class _AttentionSubject(Subject):
    """Multihead attention: gradients of the three inputs and of every parameter, with the cache of a forward call.

    Dropout is the one that the filter's next forward call would apply, the same for every evaluation.
    """

    inputs = ("query", "key", "value")

    def __init__(self, filter: MultiheadAttention) -> None:
        self.filter, self.draw_number = filter, filter.draws
        self._names = {name: attention_field(name) for name in filter.held}

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        shapes = zip(self.inputs, "qkv", strict=True)
        return {name: _random_numbers(random, (BATCH, *self.filter.operands[key].shape)) for name, key in shapes}

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        if len(inputs) != 3:
            raise Problem(f"gradcheck: {len(inputs)} inputs are given, but attention takes query, key and value.")
        values = {
            name: _checked_input(value, self.filter.operands[key].shape, name)
            for name, key, value in zip(self.inputs, "qkv", inputs, strict=True)
        }
        if len({len(value) for value in values.values()}) > 1:
            raise Problem(
                "gradcheck: query, key and value have different numbers of samples. Give each the same batch."
            )
        return values

    def parameters(self) -> dict[str, Array]:
        return {self._names[name]: held.read(np.float64) for name, held in self.filter.held.items()}

    def cancelled(self, name: str, gradients: dict[str, Array]) -> float:
        """A shift of all keys changes no softmax: without appended rows the gradient of their bias is 0."""
        return float(np.linalg.norm(gradients["key.weights"])) if name == "key.bias" else 0.0

    def forward(self, values: dict[str, Array]) -> Array:
        parameters = {name: values[shown] for name, shown in self._names.items()}
        return self.filter.forward64([values[name] for name in self.inputs], parameters, self.draw_number)

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, len(values["query"])
        tensors = {name: _Tensor(f.operands[key], batch) for name, key in zip(self.inputs, "qkv", strict=True)}
        data = {name: tensor.fill(values[name]) for name, tensor in tensors.items()}
        y, dy = _Tensor(f.operands["o"], batch), _Tensor(f.operands["o"], batch)
        dy.fill(cotangent)
        gradients = {name: _Tensor(f.operands[key], batch) for name, key in zip(self.inputs, "qkv", strict=True)}
        gradients |= {self._names[name]: _Tensor(held, 1) for name, held in f.held.items()}
        deltas = {name: tensor.descriptor() for name, tensor in gradients.items()}
        cache = np.zeros(f.cache_bytes(batch), np.uint8)
        f.draws = self.draw_number
        f.apply_attention(
            _CALLER, batch, data["query"], 0, data["key"], 0, None, 0, data["value"], 0, y.memory, 0, None, None, cache,
            None, None,
        )  # fmt: skip
        f.draws = self.draw_number
        structs = {
            name: BNNSMHAProjectionParameters(
                target_desc=deltas.get(name, dy.descriptor()),
                weights=deltas[f"{name}.weights"],
                bias=deltas.get(f"{name}.bias"),
            )
            for name in (*self.inputs, "output")
        }
        f.apply_backward_attention(
            _CALLER, batch, data["query"], 0, structs["query"], data["key"], 0, None, 0, structs["key"], data["value"], 0,
            structs["value"], None, deltas.get("key_attn_bias"), deltas.get("value_attn_bias"), None, 0,
            structs["output"], cache.nbytes, cache, None, None,
        )  # fmt: skip
        return {name: tensor.read() for name, tensor in gradients.items()}


class _LstmSubject(Subject):
    """LSTMs: sequence, initial states and weights; what arrives is the gradient of outputs and final states.

    Dropout has a mask of its own for every check, the same in both passes.
    """

    inputs = ("input",)

    def __init__(self, filter: LSTM, layer: LSTMLayer) -> None:
        self.filter, self.layer = filter, layer
        self._seed = 0

    def _shape(self) -> tuple[int, ...]:
        return (4, BATCH, self.layer.input_size)

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        self._seed += 1
        return self._with_states(_random_numbers(random, self._shape()), random)

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        x = np.asarray(inputs[0], np.float64)
        if len(inputs) != 1 or x.ndim != 3 or x.shape[2] != self.layer.input_size:
            raise Problem(f"gradcheck: pass one array (T, N, {self.layer.input_size}), the input of the LSTM.")
        return self._with_states(_float32_numbers(x), np.random.default_rng(0))

    def _with_states(self, x: Array, random: np.random.Generator) -> dict[str, Array]:
        states = (self.layer.num_layers, self.layer.directions, x.shape[1], self.layer.hidden_size)
        return {
            "input": x,
            "initial_hidden": _random_numbers(random, states),
            "initial_cell": _random_numbers(random, states),
        }

    def parameters(self) -> dict[str, Array]:
        return {name: array.astype(np.float64) for name, array in self.layer._weights.items()}

    def forward(self, values: dict[str, Array]) -> Array:
        return self.layer.reference_outputs(values, self._seed)

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        x, h, c = (values[name].astype(np.float32) for name in ("input", "initial_hidden", "initial_cell"))
        cache = self.layer.apply(x, h, c, phase=LearningPhase.TRAINING, seed=self._seed).cache
        outputs = (*x.shape[:2], self.layer.directions, self.layer.hidden_size)
        dy, dh, dc = np.split(cotangent.astype(np.float32), np.cumsum([int(np.prod(outputs)), h.size]))
        gradients = self.layer.apply_backward(
            x, h, c, output_gradient=dy.reshape(outputs), final_hidden_gradient=dh.reshape(h.shape),
            final_cell_gradient=dc.reshape(h.shape), cache=cache,
        )  # fmt: skip
        return {name: np.asarray(g, np.float64) for name, g in gradients._asdict().items() if g is not None}


SUBJECTS: dict[type[Filter], Callable[[Any], Subject]] = {
    Arithmetic: _ArithmeticSubject,
    Fused: _FusedSubject,
    Dropout: _DropoutSubject,
    Embedding: _EmbeddingSubject,
    Loss: _LossSubject,
    Normalization: _NormalizationSubject,
    MultiheadAttention: _AttentionSubject,
    ActivationFilter: _ActivationSubject,
    Contraction: _ContractionSubject,
    Pooling: _pooling_subject,
    UnaryFilter: _UnarySubject,
}
"""How to check each family; a filter uses the entry of its nearest base class."""


def subject_of(filter: Filter) -> Subject:
    """The subject of a filter's family."""
    for kind in type(filter).__mro__:
        if kind in SUBJECTS:
            return SUBJECTS[kind](filter)
    raise Problem(f"gradcheck: a filter of family {filter.family} cannot be checked yet.", unsupported=True)
