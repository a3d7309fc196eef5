"""Standalone activations: all functions, from input and from output, axes, alpha gradients, memory."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from helpers import (
    EPSILON,
    FIRST_MAJOR_2D,
    FLOAT32,
    IMAGE,
    INT8,
    INT16,
    INT32,
    ROW_MAJOR,
    UINT8,
    Array,
    Tensor,
    image,
    packed,
    vector,
)  # fmt: skip
from openbnns import ActivationFunction, capi

from ._base import INFERENCE_ONLY, TRAINABLE, Act, UnaryCase, UnaryRun, Values, act_rows

# Functions whose derivative the output alone determines.
FROM_OUTPUT = frozenset(act.name for act in TRAINABLE) - {"GELUApproximationSigmoid"} | {
    "Identity",
    "ScaledTanh",
    "ReLU6",
}
AXIS_WISE = ("Softmax", "LogSoftmax")
TINY = 2.0**-126  # results below the normal range may be rounded to zero

# Where formulas add terms of opposite sign, rounding is relative to those terms and not to their difference.
CANCELLING = {
    "GELUApproximation",
    "GELU",
    "GELUApproximationSigmoid",
    "TanhShrink",
    "SoftShrink",
    "HardSigmoid",
    "LinearWithBias",
    "HardSwish",
    "GELUApproximation2",
    "SiLU",
}


@dataclass(frozen=True)
class ActivationCase(UnaryCase):
    """y = f(x). ``given`` says what backward is handed: x, y or both."""

    x: Tensor = field(default_factory=lambda: vector(1))
    axis_flags: int = 0
    given: str = "x"
    spread: float = 1.5

    @property
    def reductions(self) -> dict[str, int]:
        return {"y": 1, "dx": 1, "dw": self.batch * self.x.count, "db": 1}

    @property
    def gradients(self) -> tuple[str, ...]:
        trains_alpha = self.activation.name in ("LeakyRectifiedLinear", "PReLUPerChannel") and "x" in self.given
        return ("dx", "dw") if trains_alpha else ("dx",)

    @property
    def forward_rows(self) -> tuple[str, ...]:
        return (*act_rows(self.activation, "fwd"), "fn.BNNSFilterCreateLayerActivation", *self.rows)

    @property
    def backward_rows(self) -> tuple[str, ...]:
        alpha = {"LeakyRectifiedLinear": ("act.alpha_grad.leaky",), "PReLUPerChannel": ("act.alpha_grad.prelu",)}
        trained = alpha[self.activation.name] if "dw" in self.gradients else ()
        return (*act_rows(self.activation, "bwd"), *trained, *self.rows)

    def gradient_tensor(self, name: str) -> Tensor:
        if name == "dw":
            return vector(self.x.size[2] if self.activation.name == "PReLUPerChannel" else 1)
        return packed(self.x) if self.packed_deltas else self.x

    def parameters(self, i_data: Any = None, o_data: Any = None) -> capi.BNNSLayerParametersActivation:
        return capi.BNNSLayerParametersActivation(
            i_desc=self.x.descriptor(i_data), o_desc=self.y.descriptor(o_data), activation=self.activation.struct,
            axis_flags=self.axis_flags,
        )  # fmt: skip

    def create(self, w: Any, b: Any, threads: int) -> Any:
        return capi.BNNSFilterCreateLayerActivation(self.parameters(), self.filter_parameters(threads))

    def values(self, seed: int = 0) -> dict[str, Array]:
        rng = self.generator(seed)
        x = self.x.rounded(self.spread * rng.standard_normal((self.batch, *self.x.size)))
        dy = np.float32(rng.standard_normal((self.batch, *self.y.size))).astype(np.float64)
        return {"x": x, "dy": dy}

    def run(self, values: Values | None = None, threads: int = 0, batch: int | None = None) -> ActivationRun:
        case = self if batch is None else replace(self, batch=batch)
        return ActivationRun(case, case.values() if values is None else values, threads)

    # Bounds: a few units in the last place of the result, or of the terms that it is the difference of.

    @property
    def axes(self) -> tuple[int, ...]:
        """NumPy axes of (batch, *size) that an axis-wise function runs over."""
        rank = len(self.x.size)
        chosen = [1 + d for d in range(rank) if (self.axis_flags or 1) >> d & 1]
        return tuple(([0] if self.axis_flags >> rank & 1 else []) + chosen)

    def forward_bound(self, values: Values, y: Array) -> Array:
        x = np.abs(values["x"])
        x = x if self.x.size == self.y.size else np.full(y.shape, x.max())
        bound = 4 * EPSILON * np.abs(y)
        if self.activation.name in CANCELLING:
            bound = bound + 4 * EPSILON * (x + abs(self.activation.alpha) + abs(self.activation.beta))
        if self.activation.name in AXIS_WISE:  # exp and log of a sum; x - max x is rounded before exp
            reach = np.max(x, axis=self.axes, keepdims=True)
            bound = (
                2 * EPSILON * (np.abs(y) * (2 + 0.5 * np.sqrt(self._length)) + reach * (y if self._is_softmax else 1.0))
            )
        return bound + self.y.unit(y) + TINY

    def backward_bounds(self, values: Values, y: Array) -> dict[str, Array]:
        dy = np.abs(values["dy"])
        if self.activation.name in AXIS_WISE:
            wide = 1 + np.sqrt(self._length) / 8
            if "x" in self.given:  # y is computed anew from x
                wide = wide + np.max(np.abs(values["x"]), axis=self.axes, keepdims=True) / 2
            if self._is_softmax:
                dx = wide * y * (dy + np.sum(dy * y, axis=self.axes, keepdims=True))
            else:
                dx = dy + wide * np.exp(y) * np.sum(dy, axis=self.axes, keepdims=True)
        else:
            dx = dy if self.x.size == self.y.size else np.full(values["x"].shape, dy.max())
        bounds = {"dx": 4 * EPSILON * dx + TINY}
        if "dw" in self.gradients:
            terms = np.abs(values["x"] * values["dy"])
            total = (
                terms.sum(axis=(0, 1, 2))[None]
                if self.activation.name == "PReLUPerChannel"
                else terms.sum().reshape(1, 1)
            )
            bounds["dw"] = self._rounding("dw") * total
        return bounds

    @property
    def _is_softmax(self) -> bool:
        return self.activation.name == "Softmax"

    @property
    def _length(self) -> float:
        """Elements that an axis-wise function sums."""
        return float(np.prod([(self.batch, *self.x.size)[a] for a in self.axes]))


class ActivationRun(UnaryRun):
    """A standalone activation and its memory."""

    def given(self) -> tuple[Any, Any]:
        given = self.case.given  # type: ignore[attr-defined]
        return self.x.elements if "x" in given else None, self.y.elements if "y" in given else None


def case(name: str, act: Act, tensor: Tensor, **options: Any) -> ActivationCase:
    options.setdefault("y", tensor)
    return ActivationCase(f"act-{name}", activation=act, x=tensor, **options)


FUNCTIONS = (Act(), *TRAINABLE, *INFERENCE_ONLY, Act("GELUApproximation2"))


def _shape(act: Act) -> Tensor:
    return image(5, 7, 13) if act.name == "PReLUPerChannel" else vector(113)


EVERY_FUNCTION = [case(f"{act.name}-from-x", act, _shape(act), batch=5) for act in FUNCTIONS]
FROM_Y = [
    case(f"{act.name}-from-y", act, _shape(act), batch=2, given="y", gap=3 * (k % 2))
    for k, act in enumerate(FUNCTIONS) if act.name in FROM_OUTPUT
]  # fmt: skip

SIZES = [
    case(f"{act.name}-{size}-n{batch}", act, vector(size), batch=batch, given="xy")
    for act in (
        Act("Tanh"),
        Act("RectifiedLinear"),
        Act("Softmax"),
        Act("LogSoftmax"),
        Act("LeakyRectifiedLinear", 0.2),
    )
    for size, batch in [(1, 1), (1, 33), (7, 5), (17, 2), (1000, 33)]
    if not (act.name in AXIS_WISE and size == 1)
] + [
    case("Softmax-one", Act("Softmax"), vector(1), batch=5, mostly_zero=frozenset({"dx"})),
    case("LogSoftmax-one", Act("LogSoftmax"), vector(1), batch=5, mostly_zero=frozenset({"y", "dx"})),
    case("Sigmoid-large", Act("Sigmoid"), vector(40001), batch=3),
    case("LeakyRectifiedLinear-large", Act("LeakyRectifiedLinear", 0.2), vector(40001), batch=3),
    case("PReLU-large", Act("PReLUPerChannel", 0.3), image(17, 40, 43), batch=5),
    case("Softmax-large", Act("Softmax"), image(7, 64, 113), batch=5),
    case("wide-range", Act("Sigmoid"), vector(113), batch=2, spread=20.0),
    case("wide-range-Softmax", Act("Softmax"), vector(113), batch=5, spread=20.0, mostly_zero=frozenset({"y", "dx"})),
]

# Bits of axis_flags: 0 to 2 are width, height and channels, 3 is the batch.
AXES = [
    case(
        f"{act.name}-axes-{flags:04b}",
        act,
        image(3, 5, 7),
        batch=4,
        axis_flags=flags,
        given="y" if flags % 2 else "x",
        couples_samples=bool(flags & 8),
        rows=("act.axis_flags",),
    )
    for act in (Act("Softmax"), Act("LogSoftmax"))
    for flags in (0b0001, 0b0010, 0b0100, 0b0011, 0b0110, 0b0101, 0b0111, 0b1000, 0b1001, 0b1010, 0b1111)
] + [
    case(
        "Softmax-vector-batch-axis",
        Act("Softmax"),
        vector(7),
        batch=5,
        axis_flags=0b10,
        couples_samples=True,
        rows=("act.axis_flags",),
    ),
    case("Softmax-rows", Act("Softmax"), Tensor(ROW_MAJOR, (7, 5)), batch=2, axis_flags=0b10, rows=("act.axis_flags",)),
    case(
        "Softmax-first-major",
        Act("Softmax"),
        Tensor(FIRST_MAJOR_2D, (7, 5)),
        batch=2,
        axis_flags=0b01,
        rows=("act.axis_flags",),
    ),
    case(
        "Softmax-channels-large",
        Act("Softmax"),
        image(32, 24, 40),
        batch=5,
        axis_flags=0b0100,
        rows=("act.axis_flags",),
    ),
]

MEMORY = [
    case("gaps", Act("Tanh"), vector(17), batch=5, gap=3),
    case("padded", Act("Sigmoid"), image(3, 5, 7, stride=(1, 9, 60)), batch=2, gap=5),
    case("padded-apart", Act("Sigmoid"), vector(13, stride=(3,)), y=vector(13, stride=(2,)), batch=2),
    case("padded-packed-deltas", Act("ELU", 0.9), image(3, 5, 7, stride=(1, 9, 60)), batch=2, packed_deltas=True),
    case("padded-softmax", Act("Softmax"), image(3, 5, 7, stride=(2, 20, 120)), batch=2, axis_flags=0b0010, gap=2,
         rows=("act.axis_flags",)),
    case("padded-PReLU", Act("PReLUPerChannel", 0.3), image(3, 5, 7, stride=(1, 8, 50)), batch=5, gap=2),
    case("image-to-vector", Act("Tanh"), image(2, 3, 5), y=vector(30), batch=2),
    case("half", Act("Tanh"), vector(17, data_type=capi.BNNSDataType.BNNSDataTypeFloat16), batch=2, trains=False),
    case("bfloat-to-half", Act("Sigmoid"), vector(17, data_type=capi.BNNSDataType.BNNSDataTypeBFloat16),
         y=vector(17, data_type=capi.BNNSDataType.BNNSDataTypeFloat16), batch=2, trains=False),
]  # fmt: skip

# Identity between element types converts.
_I8, _U8 = {"data_type": INT8, "scale": 0.05, "bias": 0.25}, {"data_type": UINT8, "scale": 0.02, "bias": -1.0}
CONVERSIONS = [
    case(
        f"convert-{name}",
        Act(),
        vector(113, **source),
        y=vector(113, **target),
        batch=2,
        trains=False,
        rows=("act.convert",),
    )
    for name, source, target in [
        ("float-to-int32", {}, {"data_type": INT32}),
        ("float-to-int8", {}, _I8),
        ("int8-to-float", _I8, {}),
        ("uint8-to-int16", _U8, {"data_type": INT16, "scale": 0.001}),
        ("half-to-float", {"data_type": capi.BNNSDataType.BNNSDataTypeFloat16}, {}),
        ("float-to-half", {}, {"data_type": capi.BNNSDataType.BNNSDataTypeFloat16}),
        ("bfloat-to-float", {"data_type": capi.BNNSDataType.BNNSDataTypeBFloat16}, {}),
        ("float-to-bfloat", {}, {"data_type": capi.BNNSDataType.BNNSDataTypeBFloat16}),
    ]
] + [
    case(
        "convert-image",
        Act(),
        image(3, 5, 7, stride=(1, 9, 60), **_I8),
        y=Tensor(IMAGE, (7, 5, 3), data_type=FLOAT32),
        batch=2,
        trains=False,
        rows=("act.convert",),
    )
]

CASES = EVERY_FUNCTION + FROM_Y + SIZES + AXES + MEMORY + CONVERSIONS


def snake(name: str) -> str:
    """``LogSoftmax`` to ``log_softmax``, ``ReLU6`` to ``relu6``."""
    for word in ("ReLU", "GELU", "SELU", "CELU", "ELU", "SiLU"):
        name = re.sub(f"(?<![A-Z]){word}", word.capitalize(), name)
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def function(act: Act) -> ActivationFunction:
    """The Python face's name for an activation."""
    make = getattr(ActivationFunction, {"PReLUPerChannel": "prelu_per_channel"}.get(act.name, snake(act.name)))
    if act.name == "Clamp":
        return make((act.alpha, act.beta))
    count = len(inspect.signature(make).parameters)
    return make(*(act.alpha, act.beta)[:count])
