"""How fast are forward calls on Float16, BFloat16 and Int8, next to ours on Float32, and to PyTorch's on the same type?

Input, weights and output have the type, the bias is Float32. Filters own their weights, so that packed ones are kept from call
to call, but for layers that say so: there they stay in the caller's memory and may change at any time.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cases import created, describe, training_parameters, vector
from harness import Figure, Settings
from openbnns import _core, capi
from timing import QUIET, Step, alternate, sampler

TYPES = {"Float32": np.float32, "Float16": np.float16, "BFloat16": np.uint16, "Int8": np.int8}
HALF_TARGET, FEW_ROWS_TARGET = 0.9, 1.5  # of Float16 and BFloat16: bound by arithmetic, and by reading weights
VNNI_TARGET, INT8_TARGET = 1.5, 1.0

# batch, inputs, outputs
LAYERS = (
    (64, 512, 512),
    (512, 1024, 1024),
    (129, 785, 1001),
    (8, 1024, 1024),
    (1, 512, 512),
    (1, 1024, 1024),
    (1, 4096, 4096),
)
# batch, input channels, height and width, output channels, kernel, stride, padding, groups
CONVOLUTIONS = (
    (8, 64, 56, 64, 3, 1, 1, 1),
    (8, 256, 14, 256, 3, 1, 1, 1),
    (8, 512, 7, 512, 3, 1, 1, 1),
    (8, 64, 56, 128, 3, 2, 1, 1),
    (8, 64, 56, 256, 1, 1, 0, 1),
    (8, 3, 64, 64, 7, 2, 3, 1),
    (8, 128, 28, 128, 3, 1, 1, 128),
)
CALLERS = (LAYERS[0], LAYERS[-1], CONVOLUTIONS[1])  # with weights in the caller's memory, too


@dataclass(frozen=True)
class Forward:
    """A forward call: shapes of its tensors, the filter on them, and PyTorch's function of input, weights and bias."""

    name: str
    shapes: dict[str, tuple[int, ...]]
    filter: Callable[..., Any]  # of arrays by name, of what describes one, and of filter parameters
    peer: Callable[[Any], Callable[..., Any]]

    @property
    def batch(self) -> int:
        return self.shapes["x"][0]


def figures() -> dict[str, Callable[[Settings], Figure]]:
    calls = [(_layer(*size), size) for size in LAYERS] + [(_convolution(*size), size) for size in CONVOLUTIONS]
    return {
        name: partial(_measure, name, call, kind, callers)
        for call, size in calls
        for callers in ((False, True) if size in CALLERS else (False,))
        for kind in TYPES
        if kind != "Float32"
        for name in [f"element types/{kind} {call.name}{', weights of the caller' if callers else ''}"]
    }


def _layer(batch: int, inputs: int, outputs: int) -> Forward:
    def make(a: dict[str, Any], describe: Callable[..., Any], parameters: Any) -> Any:
        layer = capi.BNNSLayerParametersFullyConnected(
            i_desc=describe(capi.BNNSDataLayoutVector, (inputs,)), o_desc=describe(capi.BNNSDataLayoutVector, (outputs,)),
            w_desc=describe(capi.BNNSDataLayoutRowMajorMatrix, (inputs, outputs), a["w"]), bias=vector(outputs, a["b"]),
        )  # fmt: skip
        return capi.BNNSFilterCreateLayerFullyConnected(layer, parameters)

    shapes = {"x": (batch, inputs), "w": (outputs, inputs), "b": (outputs,), "y": (batch, outputs)}
    return Forward(f"{batch}x{inputs} -> {outputs}", shapes, make, lambda torch: torch.nn.functional.linear)


def _convolution(n: int, c: int, size: int, k: int, kernel: int, stride: int, pad: int, groups: int) -> Forward:
    def make(a: dict[str, Any], describe: Callable[..., Any], parameters: Any) -> Any:
        image = capi.BNNSDataLayoutImageCHW
        layer = capi.BNNSLayerParametersConvolution(
            i_desc=describe(image, (size, size, c)), o_desc=describe(image, (out, out, k)), bias=vector(k, a["b"]),
            w_desc=describe(capi.BNNSDataLayoutConvolutionWeightsOIHW, a["w"].shape[::-1], a["w"]),
            x_stride=stride, y_stride=stride, x_padding=pad, y_padding=pad, groups=groups,
        )  # fmt: skip
        return capi.BNNSFilterCreateLayerConvolution(layer, parameters)

    out = (size + 2 * pad - kernel) // stride + 1
    shapes = {"x": (n, c, size, size), "w": (k, c // groups, kernel, kernel), "b": (k,), "y": (n, k, out, out)}
    name = f"{n}x{c}x{size}x{size} -> {k}, {kernel}x{kernel}"
    name += (f" stride {stride}" if stride > 1 else "") + (f" in {groups} groups" if groups > 1 else "")
    return Forward(
        name, shapes, make, lambda torch: partial(torch.nn.functional.conv2d, stride=stride, padding=pad, groups=groups)
    )


def _elements(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Any:
    """Random stored numbers."""
    if kind == "Int8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    values = rng.standard_normal(shape).astype(np.float32)
    return (values.view(np.uint32) >> 16).astype(np.uint16) if kind == "BFloat16" else values.astype(TYPES[kind])


def _our_step(call: Forward, kind: str, callers: bool) -> Step:
    rng = np.random.default_rng(1)
    a = {name: _elements(rng, "Float32" if name == "b" else kind, shape) for name, shape in call.shapes.items()}

    def described(layout: int, size: tuple[int, ...], data: Any = None) -> capi.BNNSNDArrayDescriptor:
        of_type = describe(layout, size, data)
        of_type.data_type, of_type.data_scale = getattr(capi, f"BNNSDataType{kind}"), 1 / 64
        return of_type

    parameters = training_parameters() if callers else capi.BNNSFilterParameters()
    f = created(call.filter(a, described, parameters))
    return partial(capi.BNNSFilterApplyBatch, f, call.batch, a["x"], 0, a["y"], 0)


def _torch_step(call: Forward, kind: str, threads: int) -> Step | None:
    """The same in PyTorch, if it is installed; it has no such layers of Int8."""
    try:
        import torch
    except ImportError:
        return None
    if kind == "Int8":
        return None
    torch.set_num_threads(threads)
    function = call.peer(torch)
    x, w, b = (torch.randn(call.shapes[name]).to(getattr(torch, kind.lower())) for name in "xwb")

    def step() -> Any:
        with torch.inference_mode():
            return function(x, w, b)

    return step


def _target(call: Forward, kind: str) -> float:
    if kind == "Int8":
        cpu = Path("/proc/cpuinfo")
        flags = cpu.read_text() if cpu.exists() else ""
        vnni = {"avx512": "avx512_vnni", "avx2": "avx_vnni"}.get(_core.instruction_set(), "none")
        return VNNI_TARGET if vnni in flags else INT8_TARGET
    return FEW_ROWS_TARGET if call.batch == 1 else HALF_TARGET


def _measure(name: str, call: Forward, kind: str, callers: bool, settings: Settings) -> Figure:
    """Seconds on Float32 / on the type."""
    peer = _torch_step(call, kind, settings.threads)
    steps = [_our_step(call, kind, callers), _our_step(call, "Float32", callers), *([peer] if peer else [])]
    times, disturbed = alternate([sampler(step) for step in steps], settings.seconds)
    ratio = statistics.median(b / a for a, b in zip(times[0], times[1], strict=True))
    ours, float32, *torch = map(statistics.median, times)
    note = f"ours {ours * 1e6:.1f} us, Float32 {float32 * 1e6:.1f} us"
    if torch:
        note += f", PyTorch {torch[0] * 1e6:.1f} us ({torch[0] / ours:.2f})"
    if disturbed > QUIET:
        note += f", others took {disturbed:.0%} of the machine"
    target = _target(call, kind) if settings.judged and disturbed <= QUIET else None
    return Figure(name, ratio, "x Float32", target, note=note)
