"""Random calls of every family, native against reference, and hostile ones that must never crash: ``make fuzz``.

    python tests/fuzz.py --seconds 60            # random cases until the time is up
    python tests/fuzz.py --seed 7 --case 1234    # one case again, as a failure prints it

Every case draws all its choices from (seed, case) alone. A configuration is created on both engines from the same
memory; status and message must agree, and so must every number written, within rounding. Outputs lie in memory with
gaps and guards, which must come back unchanged. A hostile case fills structs and arguments with garbage; it may fail
in any clean way. The case under way is kept in a file, so that a crash can be told, too.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
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


class Mismatch(AssertionError):
    """The engines disagree, or memory was written that should not have been."""


class Draw:
    """Choices of one case."""

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
        dtype = np.dtype(STORED.get(self.element, "f4"))
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
    """What one engine made of a case: status and message of every call, and all memory written."""

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


# ---------------------------------------------------------------------------------------------------------------------
# The families. Each function draws a configuration and returns what to run on an engine.

Case = tuple[str, Callable[[Outcome], None]]
TRAINED = [0, 0, 0, 1, 3, 4, 7, 15, 16, 17, 18, 20, 21, 11, 22, 23, 24, 27, 28, 35, 2, 19, 8, 25, 26]
EVERY = [f for f in range(36) if f not in (9, 10, 13, 14)]


def draw_activation(draw: Draw, choices: list[int]) -> capi.BNNSActivation:
    alpha, beta = draw.one([(0.5, 1.5), (1.0, 1.0), (0.25, 2.0), (-0.5, 0.5), (0.0, 1.0), (0.7, 0.1)])
    function = int(draw.one(choices))
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
    return str(draw.one(["Float32"] * 12 + list(STORED)))


def run_unary(
    draw: Draw,
    create: Callable[[], Any],
    x: Tensor,
    y: Tensor,
    w: Tensor | None,
    b: Tensor | None,
    batch: int,
    title: str,
    *,
    may_be_in_place: bool = False,
    exact: bool = False,
) -> Case:
    """Forward, then backward with a random choice of gradients, flags and missing inputs."""
    source = x.values(draw)
    arriving_tensor = Tensor(draw, y.layout, y.size, batch)
    arriving = arriving_tensor.values(draw)
    dx_tensor = Tensor(draw, x.layout, x.size, batch)
    wanted = {
        "dx": draw.chance(0.8),
        "dw": w is not None and draw.chance(0.7),
        "db": b is not None and draw.chance(0.7),
    }
    flags = {name: int(draw.chance(0.4)) for name in wanted}
    give_input, give_output = draw.chance(0.85), draw.chance(0.85)
    dw_tensor = None if w is None else Tensor(draw, w.layout, w.size, 1, batched=False)
    db_tensor = None if b is None else Tensor(draw, b.layout, b.size, 1, batched=False, padded=False)
    in_place = may_be_in_place and draw.chance(0.2) and x.length == y.length and x.stride == y.stride
    backward = draw.chance(0.8)
    start = draw.floats(1)[0]
    single = batch == 1 and draw.chance(0.3)

    def target(out: Outcome, name: str, tensor: Tensor) -> Array:
        memory = tensor.empty()
        if flags.get(name) and tensor.element == "Float32":
            inner(memory)[:] = start
        return out.keep(name, memory, exact)

    def run(out: Outcome) -> None:
        f = create()
        if not out.note(f):
            return
        y_memory = target(out, "y", y)
        given = source.copy()
        if in_place and y.element == x.element:
            y_memory[:] = given
            given = y_memory
        if single:
            ok = out.note(capi.BNNSFilterApply(f, given, y_memory))
        else:
            ok = out.note(capi.BNNSFilterApplyBatch(f, batch, given, x.stride, y_memory, y.stride))
        if not ok or not backward:
            return
        gradients = {"dx": dx_tensor, "dw": dw_tensor, "db": db_tensor}
        descriptors = {
            name: tensor.at(target(out, name, tensor), flags[name])
            for name, tensor in gradients.items()
            if wanted[name] and tensor is not None
        }
        out.note(
            capi.BNNSFilterApplyBackwardBatch(
                f,
                batch,
                source.copy() if give_input else None,
                x.stride,
                descriptors.get("dx"),
                dx_tensor.stride,
                y_memory.copy() if give_output else None,
                y.stride,
                arriving_tensor.at(arriving.copy()),
                arriving_tensor.stride,
                descriptors.get("dw"),
                descriptors.get("db"),
            )
        )
        capi.BNNSFilterDestroy(f)

    return title, run


def fully_connected(draw: Draw) -> Case:
    inputs, outputs, batch = draw.size(), draw.size(), draw.size(5)
    layout = draw.one(MATRICES)
    size = (inputs, outputs) if layout == "RowMajorMatrix" else (outputs, inputs)
    x = Tensor(draw, "Vector", (inputs,), batch, element=element(draw))
    y = Tensor(draw, "Vector", (outputs,), batch, element=element(draw))
    w = Tensor(draw, layout, size, 1, element=element(draw), batched=False)
    b = Tensor(draw, "Vector", (outputs,), 1, batched=False) if draw.chance(0.7) else None
    p = capi.BNNSLayerParametersFullyConnected(
        i_desc=x.descriptor,
        w_desc=w.at(w.values(draw)),
        o_desc=y.descriptor,
        activation=draw_activation(draw, TRAINED + EVERY),
    )
    if b is not None:
        p.bias = b.at(b.values(draw))
    parameters = filter_parameters(draw)
    return run_unary(
        draw,
        lambda: capi.BNNSFilterCreateLayerFullyConnected(p, parameters),
        x,
        y,
        w,
        b,
        batch,
        f"{p!r} {parameters!r}",
    )


def window(draw: Draw, size: int, kernel: int) -> tuple[int, int, int, int, int]:
    """stride, dilation, padding before and after, output size."""
    stride, dilation = int(draw.one([1, 1, 2, 3])), int(draw.one([1, 1, 1, 2]))
    before, after = int(draw.one([0, 0, 1, 2])), int(draw.one([0, 0, 1, 2]))
    room = size + before + after - (dilation * (kernel - 1) + 1)
    out = max(room // stride + 1 if room >= 0 else 1, 1)
    return stride, dilation, before, after, max(out - int(draw.chance(0.1)), 1)


def convolution(draw: Draw) -> Case:
    return _convolution(draw, transposed=False)


def transposed(draw: Draw) -> Case:
    return _convolution(draw, transposed=True)


def _convolution(draw: Draw, transposed: bool) -> Case:
    width, height, batch = draw.size(12), draw.size(12), draw.size(4)
    kw, kh = int(draw.one([1, 1, 2, 3, 3, 5])), int(draw.one([1, 1, 2, 3, 3, 5]))
    groups = int(draw.one([0, 1, 1, 1, 2, 3])) if not transposed else 0
    g = max(groups, 1)
    channels_in, channels_out = g * draw.size(6), g * draw.size(6)
    if not transposed and draw.chance(0.1):  # depthwise
        groups = g = channels_in
        channels_out = channels_in * int(draw.one([1, 1, 2]))
    sx, dlx, left, right, ow = window(draw, width, kw)
    sy, dly, up, down, oh = window(draw, height, kh)
    layout = draw.one(KERNELS) if draw.chance(0.4) else KERNELS[0]
    large, small = (width, height, channels_in), (ow, oh, channels_out)
    i, o = channels_in // g, channels_out
    if transposed:
        i, o = channels_out, channels_in
    size = (kw, kh, o, i) if layout == "ConvolutionWeightsIOHrWr" else (kw, kh, i, o)
    kind = (lambda: "Float32") if transposed else (lambda: element(draw))
    a = Tensor(draw, "ImageCHW", large, batch, element=kind())
    c = Tensor(draw, "ImageCHW", small, batch, element=kind())
    x, y = (c, a) if transposed else (a, c)
    w = Tensor(draw, layout, size, 1, element=kind(), batched=False)
    b = Tensor(draw, "Vector", (o,), 1, batched=False) if draw.chance(0.6) else None
    p = capi.BNNSLayerParametersConvolution(
        i_desc=x.descriptor,
        w_desc=w.at(w.values(draw)),
        o_desc=y.descriptor,
        activation=draw_activation(draw, TRAINED),
        x_stride=sx,
        y_stride=sy,
        x_dilation_stride=dlx,
        y_dilation_stride=dly,
        groups=groups,
        pad=(left, right, up, down),
    )
    if left == right and up == down and draw.chance(0.5):
        p.pad, p.x_padding, p.y_padding = (0, 0, 0, 0), left, up
    if b is not None:
        p.bias = b.at(b.values(draw))
    parameters = filter_parameters(draw)
    create = capi.BNNSFilterCreateLayerTransposedConvolution if transposed else capi.BNNSFilterCreateLayerConvolution
    return run_unary(draw, lambda: create(p, parameters), x, y, w, b, batch, f"{p!r} {parameters!r}")


def activation(draw: Draw) -> Case:
    layout = draw.one(ANY_LAYOUT) if draw.chance(0.5) else draw.one(["Vector", "ImageCHW"])
    rank = BNNSDataLayout[f"BNNSDataLayout{layout}"] >> 16
    size = tuple(draw.size(3 if rank > 3 else 7) if rank <= 4 else int(draw.rng.integers(1, 4)) for _ in range(rank))
    batch = draw.size(4)
    x = Tensor(draw, layout, size, batch, element=element(draw))
    y = Tensor(draw, layout, size, batch, element=element(draw))
    a = draw_activation(draw, EVERY)
    p = capi.BNNSLayerParametersActivation(
        i_desc=x.descriptor, o_desc=y.descriptor, activation=a, axis_flags=int(draw.rng.integers(0, 1 << (rank + 1)))
    )
    if draw.chance(0.5):
        p.axis_flags = 0
    w = None
    if a.function == 2 and draw.chance(0.5):
        w = Tensor(draw, "Vector", (1,), 1, batched=False, padded=False)
    if a.function == 29 and layout == "ImageCHW":
        w = Tensor(draw, "Vector", (size[2],), 1, batched=False, padded=False)
    parameters = filter_parameters(draw)
    return run_unary(
        draw,
        lambda: capi.BNNSFilterCreateLayerActivation(p, parameters),
        x,
        y,
        w,
        None,
        batch,
        f"{p!r} {parameters!r}",
        may_be_in_place=True,
    )


def pooling(draw: Draw) -> Case:
    """Every function with padding, dilation and a bias, through the general calls or with indices of either width."""
    width, height, channels, batch = draw.size(12), draw.size(12), draw.size(5), draw.size(4)
    kw, kh = int(draw.one([1, 2, 2, 3])), int(draw.one([1, 2, 2, 3]))
    sx, dlx, left, right, ow = window(draw, width, kw)
    sy, dly, up, down, oh = window(draw, height, kh)
    function = int(draw.one(list(capi.BNNSPoolingFunction)))
    sizes = [(width, height, channels), (ow, oh, channels)]
    if function == capi.BNNSPoolingFunctionUnMax:
        sizes.reverse()
    x = Tensor(draw, "ImageCHW", sizes[0], batch, element=element(draw))
    y = Tensor(draw, "ImageCHW", sizes[1], batch, element=element(draw))
    b = Tensor(draw, "Vector", (channels,), 1, batched=False) if draw.chance(0.5) else None
    p = capi.BNNSLayerParametersPooling(
        i_desc=x.descriptor,
        o_desc=y.descriptor,
        activation=draw_activation(draw, TRAINED),
        pooling_function=function,
        k_width=kw,
        k_height=kh,
        x_stride=sx,
        y_stride=sy,
        x_dilation_stride=dlx,
        y_dilation_stride=dly,
        pad=(left, right, up, down),
    )
    if b is not None:
        p.bias = b.at(b.values(draw))
    parameters = filter_parameters(draw)
    title = f"{p!r} {parameters!r}"

    def create() -> Any:
        return capi.BNNSFilterCreateLayerPooling(p, parameters)

    if draw.chance(0.4):
        return run_unary(draw, create, x, y, None, b, batch, title)
    return title, _with_indices(draw, create, x, y, b, batch, function)


def _guarded(values: Array) -> Array:
    """The values between guards."""
    memory = np.zeros(values.size + 2 * GUARD, values.dtype)
    memory.view(np.uint8)[:] = 0xA5
    if values.dtype == np.float32:
        memory[:] = PATTERN
    inner(memory)[:] = values
    return memory


def _with_indices(
    draw: Draw, create: Callable[[], Any], x: Tensor, y: Tensor, b: Tensor | None, batch: int, function: int
) -> Callable[[Outcome], None]:
    """Forward and backward of pooling with indices; those of UnMax are drawn, now and then outside their plane."""
    small, large = (x, y) if function == capi.BNNSPoolingFunctionUnMax else (y, x)
    wide, plane = draw.chance(0.5), large.size[0] * large.size[1]
    kind = capi.BNNSDataTypeUInt64 if wide else capi.BNNSDataTypeUInt32
    span = small.length
    first = draw.rng.integers(0, plane, span).astype(np.uint64 if wide else np.uint32)
    if draw.chance(0.1):
        first[int(draw.rng.integers(span))] = draw.one([plane, plane + 1, 2**32 - 1])
    give_input, give_output, give_indices = draw.chance(0.7), draw.chance(0.85), draw.chance(0.9)
    source, arriving_tensor, dx_tensor = x.values(draw), *(Tensor(draw, t.layout, t.size, batch) for t in (y, x))
    arriving = arriving_tensor.values(draw)
    flag, want_bias = int(draw.chance(0.4)), b is not None and draw.chance(0.7)

    def run(out: Outcome) -> None:
        f = create()
        if not out.note(f):
            return
        y_memory = out.keep("y", y.empty(), False)
        indices = out.keep("indices", _guarded(first), True)
        places = (kind, indices if give_indices else None, small.stride)
        if not out.note(
            capi.BNNSPoolingFilterApplyBatchEx(f, batch, source.copy(), x.stride, y_memory, y.stride, *places)
        ):
            return
        dx_memory = dx_tensor.empty()
        if flag:
            inner(dx_memory)[:] = 0.5
        dx = dx_tensor.at(out.keep("dx", dx_memory, False), flag)
        db = None
        if want_bias and b is not None:
            db = capi.BNNSNDArrayDescriptor(
                layout=capi.BNNSDataLayoutVector, size=b.size, data_type=FLOAT32,
                data=out.keep("db", _guarded(np.zeros(b.size, np.float32)), False),
            )  # fmt: skip
        out.note(
            capi.BNNSPoolingFilterApplyBackwardBatchEx(
                f, batch, source.copy() if give_input else None, x.stride, dx, dx_tensor.stride,
                y_memory.copy() if give_output else None, y.stride, arriving_tensor.at(arriving.copy()),
                arriving_tensor.stride, db, *places,
            )
        )  # fmt: skip

    return run


# Where each function is tame: not near a pole or the edge of its domain.
POSITIVE = {4, 5, 24, 25, 21}
UNIT = {12, 13, 20}
ABOVE_ONE = {19}
NO_ZERO = {3, 27, 35, 37, 38, 39}


def tame(function: int, operand: int) -> Callable[[Array], Array]:
    if function in POSITIVE:
        return lambda a: np.abs(a) + np.float32(0.25) if not (function == 21 and operand == 1) else a
    if function in UNIT:
        return lambda a: np.tanh(a) * np.float32(0.9)
    if function in ABOVE_ONE:
        return lambda a: np.abs(a) + np.float32(1.25)
    if function == 11:  # tan
        return lambda a: np.tanh(a)
    if function in (37, 38, 39) and operand == 0:  # away from the jumps of floor and trunc: quarters over halves
        return lambda a: np.round(a) + np.float32(0.25)
    if function in (37, 38, 39):
        return lambda a: np.sign(a) * np.float32(1.0) + (a == 0)
    if (function in NO_ZERO and operand == 1) or function == 35:
        return lambda a: np.sign(a) * (np.abs(a) + np.float32(0.5)) + (a == 0).astype(np.float32)
    if function in (6, 7, 8, 33):  # ceil, floor, round, sign: away from the jumps
        return lambda a: np.round(a) + np.float32(0.25)
    if function in (26, 27, 31):
        return lambda a: np.where(np.abs(a) < 0.5, np.float32(0), a)
    return lambda a: a


def arithmetic(draw: Draw) -> Case:
    function = int(draw.rng.integers(0, 41))
    count = 3 if function in (28, 31) else 2 if function in (0, 1, 2, 3, 21, 26, 27, 29, 30, 37, 38, 39) else 1
    layout = draw.one(ANY_LAYOUT) if draw.chance(0.3) else draw.one(["Vector", "ImageCHW", "RowMajorMatrix"])
    rank = BNNSDataLayout[f"BNNSDataLayout{layout}"] >> 16
    size = tuple(draw.size(6) if rank <= 3 else int(draw.rng.integers(1, 4)) for _ in range(rank))
    batch = draw.size(4)
    roles = [int(draw.one([0, 1, 1, 1, 2])) for _ in range(count)]
    sizes = [tuple(1 if draw.chance(0.2) else n for n in size) for _ in range(count)]
    size = tuple(max(s[k] for s in sizes) for k in range(rank))
    out_role = 1 if 1 in roles or draw.chance(0.5) else 2
    operands = [
        Tensor(draw, layout, s, batch, element=element(draw), batched=r == 1) for s, r in zip(sizes, roles, strict=True)
    ]
    y = Tensor(draw, layout, size, batch, element=element(draw), batched=out_role == 1)
    blocks: Any = {
        1: lambda: capi.BNNSArithmeticUnary(
            in_=operands[0].descriptor, in_type=roles[0], out=y.descriptor, out_type=out_role
        ),
        2: lambda: capi.BNNSArithmeticBinary(
            in1=operands[0].descriptor,
            in1_type=roles[0],
            in2=operands[1].descriptor,
            in2_type=roles[1],
            out=y.descriptor,
            out_type=out_role,
        ),
        3: lambda: capi.BNNSArithmeticTernary(
            in1=operands[0].descriptor,
            in1_type=roles[0],
            in2=operands[1].descriptor,
            in2_type=roles[1],
            in3=operands[2].descriptor,
            in3_type=roles[2],
            out=y.descriptor,
            out_type=out_role,
        ),
    }
    smooth = [0, 0, 0, 0, 3, 4, 7, 17, 18, 20]
    p = capi.BNNSLayerParametersArithmetic(
        arithmetic_function=function,
        arithmetic_function_fields=blocks[count](),
        activation=draw_activation(draw, smooth),
    )
    data = [t.values(draw, tame(function, k)) for k, t in enumerate(operands)]
    one_tensor = count == 2 and sizes[0] == sizes[1] and roles[0] == roles[1] and draw.chance(0.15)
    arriving_tensor = Tensor(draw, layout, size, batch, batched=out_role == 1)
    arriving = arriving_tensor.values(draw)
    deltas = [Tensor(draw, layout, s, batch, batched=r == 1) for s, r in zip(sizes, roles, strict=True)]
    flags = [int(draw.chance(0.4)) for _ in deltas]
    skip = [draw.chance(0.2) for _ in deltas]
    give_input, give_output = draw.chance(0.85), draw.chance(0.85)
    in_place = draw.chance(0.15)
    parameters = filter_parameters(draw)

    def run(out: Outcome) -> None:
        f = capi.BNNSFilterCreateLayerArithmetic(p, parameters)
        if not out.note(f):
            return
        inputs = [d.copy() for d in data]
        if one_tensor and operands[0].descriptor == operands[1].descriptor:
            inputs[1] = inputs[0]
        y_memory = out.keep("y", y.empty())
        strides = [t.stride for t in operands]
        if not out.note(capi.BNNSArithmeticFilterApplyBatch(f, batch, count, inputs, strides, y_memory, y.stride)):
            return
        memory, wanted, wanted_strides = [], [], [t.stride for t in deltas]
        for k, t in enumerate(deltas):
            cells = out.keep(f"d{k}", t.empty())
            if flags[k]:
                cells[:] = 0.5
            memory.append(cells)
            wanted.append(t.at(None if skip[k] else cells, flags[k]))
        if len(inputs) == 2 and inputs[0] is inputs[1] and not any(skip):
            wanted[1], wanted_strides[1] = wanted[0], wanted_strides[0]
        dy = arriving_tensor.at(arriving.copy())
        dy_stride = arriving_tensor.stride
        if in_place and not skip[0] and deltas[0].length == arriving_tensor.length:
            memory[0][:] = arriving
            dy, dy_stride = arriving_tensor.at(memory[0]), arriving_tensor.stride
        out.note(
            capi.BNNSArithmeticFilterApplyBackwardBatch(
                f,
                batch,
                count,
                inputs if give_input else None,
                strides,
                wanted,
                wanted_strides,
                y_memory.copy() if give_output else None,
                y.stride,
                dy,
                dy_stride,
            )
        )

    return f"{p!r} batch {batch} {parameters!r}", run


# ---------------------------------------------------------------------------------------------------------------------
# Hostile calls


def garbage_number(draw: Draw) -> int:
    return int(
        draw.one(
            [0, 1, 2, 3, 5, 7, 8, 16, 255, 2**16, 2**20, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 1]
        )
    )


def garbage_struct(draw: Draw, struct: type[Any], depth: int = 0) -> Any:
    """A struct with some fields at random; sizes are small often enough to get past the first checks."""
    value = struct()
    for name, kind in struct._kinds.items():
        if draw.chance(0.25):
            continue
        current = getattr(value, name)
        try:
            if kind.is_pointer:
                setattr(value, name, garbage_pointer(draw, name))
            elif hasattr(type(current), "_kinds"):
                setattr(value, name, garbage_struct(draw, type(current), depth + 1))
            elif isinstance(current, list):
                pick = (lambda: int(draw.rng.integers(1, 5))) if draw.chance(0.8) else (lambda: garbage_number(draw))
                setattr(value, name, [pick() for _ in range(int(draw.rng.integers(0, len(current) + 1)))])
            elif name == "layout":
                setattr(value, name, int(draw.one(list(BNNSDataLayout))) if draw.chance(0.9) else garbage_number(draw))
            elif name.endswith("data_type"):
                setattr(value, name, int(draw.one(list(BNNSDataType))) if draw.chance(0.9) else garbage_number(draw))
            elif isinstance(current, float):
                setattr(
                    value, name, float(draw.one([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e300, 1e-300, 0.5]))
                )
            else:
                setattr(value, name, int(draw.rng.integers(0, 42)) if draw.chance(0.7) else garbage_number(draw))
        except (ValueError, TypeError):  # outside the field's type: stays zero
            continue
    return value


def garbage_pointer(draw: Draw, name: str) -> Any:
    """Never an address, which is trusted by design; anything else goes."""
    if name in ("alloc_memory", "free_memory"):
        return None
    if name == "arithmetic_function_fields":
        return garbage_struct(
            draw, draw.one([capi.BNNSArithmeticUnary, capi.BNNSArithmeticBinary, capi.BNNSArithmeticTernary])
        )
    length = int(draw.one([0, 1, 3, 16, 100, 1000, 5000]))
    return draw.one(
        [
            None,
            bytearray(length),
            bytes(length),
            np.zeros(length, np.float32),
            np.zeros(length),
            np.zeros(length, np.int8),
            np.zeros(length, np.float32)[::2],
            np.full(length, np.nan, np.float32),
            np.zeros(length + 1, np.uint8)[1:],
            "x",
            0,
            -8,
            2**63,
        ]
    )


CREATORS = [
    (capi.BNNSFilterCreateLayerFullyConnected, (capi.BNNSLayerParametersFullyConnected,)),
    (capi.BNNSFilterCreateLayerConvolution, (capi.BNNSLayerParametersConvolution,)),
    (capi.BNNSFilterCreateLayerTransposedConvolution, (capi.BNNSLayerParametersConvolution,)),
    (capi.BNNSFilterCreateLayerActivation, (capi.BNNSLayerParametersActivation,)),
    (capi.BNNSFilterCreateLayerArithmetic, (capi.BNNSLayerParametersArithmetic,)),
    (capi.BNNSFilterCreateLayerPooling, (capi.BNNSLayerParametersPooling,)),
    (
        capi.BNNSFilterCreateConvolutionLayer,
        (capi.BNNSImageStackDescriptor, capi.BNNSImageStackDescriptor, capi.BNNSConvolutionLayerParameters),
    ),
    (
        capi.BNNSFilterCreateFullyConnectedLayer,
        (capi.BNNSVectorDescriptor, capi.BNNSVectorDescriptor, capi.BNNSFullyConnectedLayerParameters),
    ),
    (
        capi.BNNSFilterCreateVectorActivationLayer,
        (capi.BNNSVectorDescriptor, capi.BNNSVectorDescriptor, capi.BNNSActivation),
    ),
]


def good_filter(draw: Draw) -> Any:
    """A filter that works, to be called with garbage: the first thing that a case of its family creates."""
    family = draw.one([fully_connected, convolution, transposed, activation, arithmetic, pooling])
    made: list[Any] = []

    class Catch(Outcome):
        def note(self, status: Any) -> bool:
            made.append(status)
            return False

    family(draw)[1](Catch())
    return made[0]


class Garbage:
    """Arguments at random for the calls of one filter."""

    def __init__(self, draw: Draw, f: Any) -> None:
        self.draw, self.filter = draw, f

    def descriptor(self) -> Any:
        return None if self.draw.chance(0.2) else garbage_struct(self.draw, capi.BNNSNDArrayDescriptor)

    def pointer(self) -> Any:
        return garbage_pointer(self.draw, "")

    def number(self) -> int:
        return 0 if self.draw.chance(0.5) else int(self.draw.one([1, 2, 3, -1, garbage_number(self.draw)]))

    def batch(self) -> int:
        return int(self.draw.one([1, 1, 2, 3, self.number()]))

    def many(self, make: Callable[[], Any], count: int) -> list[Any]:
        return [make() for _ in range(count % 5)]

    def apply(self) -> Any:
        return capi.BNNSFilterApply(self.filter, self.pointer(), self.pointer())

    def apply_batch(self) -> Any:
        return capi.BNNSFilterApplyBatch(
            self.filter, self.batch(), self.pointer(), self.number(), self.pointer(), self.number()
        )

    def apply_backward(self) -> Any:
        pairs = [v for make in (self.pointer, self.descriptor) * 2 for v in (make(), self.number())]
        return capi.BNNSFilterApplyBackwardBatch(
            self.filter, self.batch(), *pairs, self.descriptor(), self.descriptor()
        )

    def apply_arithmetic(self) -> Any:
        n = int(self.draw.one([1, 2, 3, self.number()]))
        inputs, strides = self.many(self.pointer, n), self.many(self.number, n)
        return capi.BNNSArithmeticFilterApplyBatch(
            self.filter, self.batch(), n, inputs, strides, self.pointer(), self.number()
        )

    def apply_arithmetic_backward(self) -> Any:
        n = int(self.draw.one([1, 2, 3, self.number()]))
        inputs, strides = self.many(self.pointer, n), self.many(self.number, n)
        deltas, delta_strides = self.many(self.descriptor, n), self.many(self.number, n)
        rest = (self.pointer(), self.number(), self.descriptor(), self.number())
        return capi.BNNSArithmeticFilterApplyBackwardBatch(
            self.filter, self.batch(), n, inputs, strides, deltas, delta_strides, *rest
        )

    def direct_activation(self) -> Any:
        p = garbage_struct(self.draw, capi.BNNSLayerParametersActivation)
        return capi.BNNSDirectApplyActivationBatch(p, None, self.batch(), self.number(), self.number())

    def apply_pooling(self) -> Any:
        pairs = [v for _ in range(3) for v in (self.pointer(), self.number())]
        if self.draw.chance(0.5):
            return capi.BNNSPoolingFilterApplyBatch(self.filter, self.batch(), *pairs)
        kind = garbage_number(self.draw) if self.draw.chance(0.3) else 0x40020
        return capi.BNNSPoolingFilterApplyBatchEx(self.filter, self.batch(), *pairs[:4], kind, *pairs[4:])

    def apply_pooling_backward(self) -> Any:
        pairs = [v for make in (self.pointer, self.descriptor) * 2 for v in (make(), self.number())]
        return capi.BNNSPoolingFilterApplyBackwardBatch(
            self.filter, self.batch(), *pairs, self.descriptor(), self.pointer(), self.number()
        )

    def get_pointer(self) -> Any:
        return capi.BNNSGetPointer(self.filter, self.number())

    def data_size(self) -> Any:
        return capi.BNNSNDArrayGetDataSize(self.descriptor())

    def allocation_size(self) -> Any:
        return capi.BNNSTensorGetAllocationSize(garbage_struct(self.draw, capi.BNNSTensor))

    def destroy(self) -> Any:
        return capi.BNNSFilterDestroy(self.filter)


def hostile(draw: Draw) -> Case:
    """Garbage in structs or arguments: any status will do, but no crash and no exception other than TypeError."""

    def run(_: Outcome) -> None:
        if draw.chance(0.5):
            create, structs = draw.one(CREATORS)
            arguments = [garbage_struct(draw, s) for s in structs]
            f = _attempt(lambda: create(*arguments, filter_parameters(draw)))
        else:
            f = good_filter(draw)
        if f is not None and not isinstance(f, capi.BNNSFilter):
            raise Mismatch(f"a creator gave {f!r}")
        garbage = Garbage(draw, f)
        calls = [
            garbage.apply,
            garbage.apply_batch,
            garbage.apply_backward,
            garbage.apply_arithmetic,
            garbage.apply_arithmetic_backward,
            garbage.apply_pooling,
            garbage.apply_pooling_backward,
            garbage.direct_activation,
            garbage.get_pointer,
            garbage.data_size,
            garbage.allocation_size,
            garbage.destroy,
        ]
        for _again in range(4):
            _attempt(draw.one(calls))

    return "hostile", run


class Mutating:
    """Stands in for openbnns.capi: functions get their arguments with something changed in one or two of them."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw

    def __getattr__(self, name: str) -> Any:
        real = getattr(openbnns.capi, name)
        if not isinstance(real, FunctionType) or ("Apply" not in name and "Create" not in name):
            return real

        def call(*arguments: Any) -> Any:
            changed = list(arguments)
            count = int(self.draw.one([0, 1, 1, 2]))
            for k in self.draw.rng.permutation(len(changed))[:count]:  # each once: a NULL must not become an address
                changed[k] = self.change(changed[k])
            result = _attempt(lambda: real(*changed))
            return -1 if result is None and "Apply" in name else result

        return call

    def change(self, value: Any) -> Any:
        """Something like ``value``, but wrong in one place."""
        draw = self.draw
        if isinstance(value, int):
            return int(draw.one([value + 1, max(value - 1, 0), -value, 2 * value, garbage_number(draw)]))
        if isinstance(value, np.ndarray):
            return draw.one([
                value[:-1], value[: value.size // 2], value[1:], value[::2], value.astype(np.float64), None,
                np.ascontiguousarray(value).view(np.uint8)[1:-3], garbage_pointer(draw, ""),
            ])  # fmt: skip
        if isinstance(value, list):
            if value and draw.chance(0.8):
                k = int(draw.rng.integers(len(value)))
                return [*value[:k], self.change(value[k]), *value[k + 1 :]]
            return draw.one([value[1:], [*value, *value], None])
        if isinstance(value, openbnns.capi.BNNSFilter) or not hasattr(value, "_kinds"):
            return None
        return self.change_field(value)

    def change_field(self, struct: Any) -> Any:
        copy = struct.copy()
        name = self.draw.one(list(copy._kinds))
        old = getattr(copy, name)
        new = self.change(old) if isinstance(old, (list, np.ndarray)) or hasattr(old, "_kinds") else old
        if isinstance(old, float):
            new = float(self.draw.one([0.0, -1.0, np.nan, np.inf, 1e300]))
        elif isinstance(old, int):
            new = self.change(int(old))
        elif old is None:
            new = garbage_pointer(self.draw, name)
        try:
            setattr(copy, name, new)
        except (TypeError, ValueError):  # the field's own type forbids it
            return struct
        return copy


def mutated(draw: Draw) -> Case:
    """A case of any family with a few wrong arguments: clean answers, and nothing written outside the outputs."""
    family = draw.one([fully_connected, convolution, transposed, activation, arithmetic, pooling])

    def run(out: Outcome) -> None:
        global capi
        title, call = family(draw)
        capi = Mutating(draw)
        try:
            call(out)
        finally:
            capi = openbnns.capi
        for name, memory, _ in out.memory:
            guards = np.concatenate([memory[:GUARD], memory[-GUARD:]])
            expected = np.full_like(guards, PATTERN) if guards.dtype == np.float32 else None
            intact = (guards == expected).all() if expected is not None else (guards.view(np.uint8) == 0xA5).all()
            if not intact:
                raise Mismatch(f"{name}: guards were overwritten\n  {title}")

    return "mutated", run


def _attempt(call: Callable[[], Any]) -> Any:
    """A TypeError is a fair answer to an impossible Python type; anything else that escapes is a bug."""
    try:
        return call()
    except TypeError as error:
        if "BNNS" not in str(error):
            raise
        return None


# ---------------------------------------------------------------------------------------------------------------------
# The loop

sys.modules.setdefault("fuzz", sys.modules[__name__])  # run as a program, this module is __main__
import fuzz_training  # noqa: E402 (it needs what is defined above)

FAMILIES = {
    "fully_connected": fully_connected,
    "convolution": convolution,
    "transposed": transposed,
    "activation": activation,
    "arithmetic": arithmetic,
    "pooling": pooling,
    **fuzz_training.FAMILIES,
    "hostile": hostile,
    "mutated": mutated,
}


def run_case(seed: int, case: int, families: list[str]) -> str:
    """Run one case on both engines; gives what was run, raises on any difference."""
    name = families[case % len(families)]
    if name in ("hostile", "mutated"):
        for engine in ("native", "reference"):
            with openbnns.engine(engine):
                FAMILIES[name](Draw(seed, case))[1](Outcome())
        return name
    outcomes = []
    title = ""
    for engine in ("native", "reference"):
        title, run = FAMILIES[name](Draw(seed, case))
        outcome = Outcome()
        with openbnns.engine(engine):
            run(outcome)
        outcomes.append(outcome)
    try:
        compare(*outcomes)
    except Mismatch as error:
        raise Mismatch(f"{error}\n  {title}") from None
    return f"{name}: {title}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on (default 60)")
    parser.add_argument("--seed", type=int, default=None, help="of all cases (default: from the clock)")
    parser.add_argument("--case", type=int, default=None, help="run this case only, and say what it is")
    parser.add_argument(
        "--family", choices=sorted(FAMILIES), action="append", help="only these families; may be repeated"
    )
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    options = parser.parse_args()
    warnings.simplefilter("error")
    logging.getLogger("openbnns").setLevel(logging.CRITICAL)
    families = options.family or list(FAMILIES)
    seed = options.seed if options.seed is not None else int(time.time()) % 100000
    again = f"python tests/fuzz.py --seed {seed}" + "".join(f" --family {f}" for f in options.family or [])
    if options.case is not None:
        print(run_case(seed, options.case, families))
        return 0
    note = Path(tempfile.gettempdir()) / f"openbnns-fuzz-{seed}.txt"
    with note.open("w", encoding="utf-8") as under_way:
        faulthandler.enable()
        print(f"seed {seed}; after a crash, {note} holds the line that reproduces it", flush=True)
        failures, case, end = 0, 0, time.monotonic() + options.seconds
        while time.monotonic() < end:
            under_way.seek(0)
            under_way.write(f"{again} --case {case}   \n")
            under_way.flush()
            try:
                run_case(seed, case, families)
            except Exception as error:
                failures += 1
                print(f"FAILED: {type(error).__name__}: {error}\n  reproduce: {again} --case {case}", flush=True)
                if not options.keep_going:
                    break
            case += 1
    note.unlink()
    print(f"{case} cases, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
