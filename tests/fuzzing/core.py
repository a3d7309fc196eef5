"""Parts of every family of random cases: choices, memory with guards, and the comparison of two outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import openbnns
from openbnns import capi
from openbnns.capi import BNNSDataLayout, BNNSDataType

Array = NDArray[Any]
GUARD = 16
PATTERN = np.float32(-12345.678)

MATRICES = ("RowMajorMatrix", "ColumnMajorMatrix", "2DFirstMajor", "2DLastMajor")
KERNELS = (
    "ConvolutionWeightsOIHW",
    "ConvolutionWeightsOIHrWr",
    "ConvolutionWeightsIOHrWr",
    "ConvolutionWeightsOIHW_Pack32",
)
ANY_LAYOUT = [m.name.removeprefix("BNNSDataLayout") for m in BNNSDataLayout if "Sparse" not in m.name]
FLOAT32 = BNNSDataType.BNNSDataTypeFloat32
STORED = {"Float16": "f2", "BFloat16": "u2", "Int8": "i1", "UInt8": "u1", "Int16": "i2", "Int32": "i4"}
PLACES = STORED | {"Boolean": "?", "Int64": "i8", "UInt32": "u4", "UInt64": "u8"}


class Mismatch(AssertionError):
    """The engines disagree, or memory was written that should not have been."""


class Draw:
    """Choices of one case."""

    elements: Sequence[str] = ("Float32",) * 12 + tuple(STORED)  # of tensors that may have any
    depthwise = 0.1  # of all convolutions

    def __init__(self, seed: int, case: int) -> None:
        self.rng = np.random.default_rng([seed, case])

    def one(self, choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def size(self, most: int = 9) -> int:
        """Mostly small; sometimes around the widths of vectors and tiles."""
        if self.chance(0.15):
            return int(self.one([1, 15, 16, 17, 31, 32, 33, 47, 64, 65]))
        return int(self.rng.integers(1, most + 1))

    def function(self, choices: list[int]) -> int:
        """An activation function."""
        return int(self.one(choices))

    def floats(self, *shape: int) -> Array:
        return self.rng.standard_normal(shape).astype(np.float32)


class Tensor:
    """Memory for a batch of one descriptor: guards around it, gaps where strides ask for them."""

    def __init__(
        self,
        draw: Draw,
        layout: str,
        size: tuple[int, ...],
        batch: int,
        *,
        element: str = "Float32",
        padded: bool | None = None,
        batched: bool = True,
    ) -> None:
        self.layout, self.size, self.element = layout, size, element
        fields: dict[str, Any] = {}
        if element in STORED and element not in ("Float16", "BFloat16"):
            fields = {"data_scale": 0.25, "data_bias": float(draw.one([0.0, 0.5]))}
        rank = BNNSDataLayout[f"BNNSDataLayout{layout}"] >> 16
        stride: list[int] = []
        if padded is None:
            padded = draw.chance(0.2)
        if padded and not layout.endswith("Pack32"):
            stride = [int(draw.one([0, 1, 2]))]
            previous, stepped = stride[0] or 1, _stepped(layout, rank)
            for k in range(1, rank):
                packed = previous * size[stepped[k - 1]]
                previous = packed + int(draw.one([0, 0, 1, 5]))
                stride.append(0 if previous == packed and draw.chance(0.5) else previous)
        self.descriptor = capi.BNNSNDArrayDescriptor(
            layout=BNNSDataLayout[f"BNNSDataLayout{layout}"],
            size=size,
            stride=stride,
            data_type=BNNSDataType[f"BNNSDataType{element}"],
            **fields,
        )
        self.width = (int(self.descriptor.data_type) & 0xFF) // 8
        probe = self.descriptor.copy()
        probe.data = 4096
        self.span = capi.BNNSNDArrayGetDataSize(probe) // self.width
        extent = self._extent(rank)
        self.batch = batch if batched else 1
        self.stride = 0
        if batched and draw.chance(0.3):
            self.stride = max(extent, self.span) + int(draw.one([0, 1, 3]))
        self.length = (max(self.batch, 1) - 1) * (self.stride or extent) + self.span

    def _extent(self, rank: int) -> int:
        if self.layout.endswith("Pack32"):
            return self.span
        stepped, step = _stepped(self.layout, rank), 1
        for k in range(rank):
            given = self.descriptor.stride[k]
            step = given or (1 if k == 0 else step * self.size[stepped[k - 1]])
        return step * self.size[stepped[-1]]

    def values(self, draw: Draw, transform: Callable[[Array], Array] = lambda a: a) -> Array:
        """Random contents of the whole stretch, gaps included."""
        numbers = transform(draw.floats(self.length))
        if self.element == "Float32":
            return numbers
        if self.element == "Float16":
            return numbers.astype(np.float16)
        if self.element == "BFloat16":
            return (numbers.view(np.uint32) >> 16).astype(np.uint16)
        return (4 * numbers).clip(0 if self.element.startswith("U") else -100, 100).astype(STORED[self.element])

    def empty(self) -> Array:
        """Output memory filled with a pattern, guards on both sides."""
        dtype = np.dtype(PLACES.get(self.element, "f4"))
        memory = np.zeros(self.length + 2 * GUARD, dtype)
        memory.view(np.uint8)[:] = 0xA5
        if self.element == "Float32":
            memory[:] = PATTERN
        return memory

    def at(self, memory: Any, flags: int = 0) -> capi.BNNSNDArrayDescriptor:
        d: capi.BNNSNDArrayDescriptor = self.descriptor.copy()
        d.data, d.flags = memory, flags
        return d


def _stepped(layout: str, rank: int) -> list[int]:
    axes = list(range(rank))
    if layout.endswith("FirstMajor"):
        return axes[::-1]
    return [0, 2, 1] if layout == "MHA_DHK" else axes


def inner(memory: Array) -> Array:
    """The part of an output between its guards."""
    return memory[GUARD:-GUARD]


class Outcome:
    """Outcome of a case on one engine: status and message of every call, and all memory written."""

    def __init__(self) -> None:
        self.statuses: list[Any] = []
        self.messages: list[str | None] = []
        self.memory: list[tuple[str, Array, bool]] = []

    def note(self, status: Any) -> bool:
        ok = status == 0 if isinstance(status, int) else status is not None
        self.statuses.append(ok)
        self.messages.append(None if ok else openbnns.last_error())
        return ok

    def keep(self, name: str, memory: Array, exact: bool = False) -> Array:
        self.memory.append((name, memory, exact))
        return inner(memory)


# How far float32 may stray from float64: per family, relative to the largest number in a result.
TOLERANCE = 3e-4


def compare(native: Outcome, reference: Outcome) -> None:
    if native.statuses != reference.statuses or native.messages != reference.messages:
        raise Mismatch(
            f"status: native {native.statuses} {native.messages}, reference {reference.statuses} {reference.messages}"
        )
    for (name, a, exact), (_, b, _) in zip(native.memory, reference.memory, strict=True):
        if exact:
            if a.tobytes() != b.tobytes():
                raise Mismatch(f"{name}: bytes differ at {np.flatnonzero(a.view(np.uint8) != b.view(np.uint8))[:8]}")
            continue
        if a.dtype != np.float32:
            _compare_rounded(name, a, b)
            continue
        untouched = b == PATTERN
        if ((a == PATTERN) != untouched).any():
            places = np.flatnonzero((a == PATTERN) != untouched)[:8]
            raise Mismatch(f"{name}: written where it should not be, or not written, at {places}")
        x, y = a[~untouched].astype(np.float64), b[~untouched].astype(np.float64)
        finite = np.isfinite(y) & (np.abs(y) < 1e30)
        if (np.isnan(x) != np.isnan(y)).any():
            raise Mismatch(f"{name}: NaN in one engine only")
        x, y = x[finite], y[finite]
        if x.size and not np.isfinite(x).all():
            raise Mismatch(f"{name}: infinite in the native engine only")
        scale = max(1.0, float(np.abs(y).max())) if y.size else 1.0
        if x.size and float(np.abs(x - y).max()) > TOLERANCE * scale:
            k = int(np.abs(x - y).argmax())
            raise Mismatch(f"{name}: native {x[k]!r}, reference {y[k]!r} (largest {scale:g})")


@np.errstate(invalid="ignore")
def _compare_rounded(name: str, a: Array, b: Array) -> None:
    """Outputs of narrow types: one step apart where a value lies between two."""
    if a.dtype == np.uint16:
        x, y = ((codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for codes in (a, b))
        ok = np.abs(x - y) <= 0.02 * np.abs(y) + 1e-2
    elif a.dtype == np.float16:
        x, y = a.astype(np.float64), b.astype(np.float64)
        ok = np.abs(x - y) <= 5e-3 * np.abs(y) + 1e-3
    else:
        x, y = a.astype(np.float64), b.astype(np.float64)
        ok = np.abs(x - y) <= 1
    ok |= (x == y) | (np.isnan(x) & np.isnan(y))
    if not ok.all():
        k = int(np.flatnonzero(~ok)[0])
        raise Mismatch(f"{name}: native {x[k]!r}, reference {y[k]!r} at {k}")


class Calls:
    """The functions of openbnns.capi; ``behind`` may be exchanged for something that spoils their arguments."""

    def __init__(self) -> None:
        self.behind: Any = capi

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


calls = Calls()

# A configuration in words, and what to run on an engine.
Case = tuple[str, Callable[[Outcome], None]]
TRAINED = [0, 0, 0, 1, 3, 4, 7, 15, 16, 17, 18, 20, 21, 11, 22, 23, 24, 27, 28, 35, 2, 19, 8, 25, 26]
EVERY = [f for f in range(36) if f not in (9, 10, 13, 14)]


def draw_activation(draw: Draw, choices: list[int]) -> capi.BNNSActivation:
    alpha, beta = draw.one([(0.5, 1.5), (1.0, 1.0), (0.25, 2.0), (-0.5, 0.5), (0.0, 1.0), (0.7, 0.1)])
    function = draw.function(choices)
    if (
        function == capi.BNNSActivationFunctionCELU
    ):  # with a negative alpha it grows like exp and overflows float32 first
        alpha = abs(alpha)
    return capi.BNNSActivation(function=function, alpha=alpha, beta=beta)


def filter_parameters(draw: Draw) -> capi.BNNSFilterParameters | None:
    if draw.chance(0.3):
        return None
    return capi.BNNSFilterParameters(flags=int(draw.chance(0.5)), n_threads=int(draw.one([0, 0, 1, 2, 3])))


def element(draw: Draw) -> str:
    return str(draw.one(draw.elements))


def guarded(values: Array) -> Array:
    """The values between guards."""
    memory = np.zeros(values.size + 2 * GUARD, values.dtype)
    memory.view(np.uint8)[:] = 0xA5
    if values.dtype == np.float32:
        memory[:] = PATTERN
    inner(memory)[:] = values
    return memory


def result(tensor: Tensor, out: Outcome, name: str, flags: int) -> Any:
    """The descriptor of a gradient to be written, in guarded memory."""
    memory = tensor.empty()
    if flags:
        memory[GUARD:-GUARD] = 0.5
    return tensor.at(out.keep(name, memory), flags)
