"""Filters with one input: fully connected, convolutions, activations, pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openbnns import capi
from openbnns.capi import BNNSDataLayout

from .core import (
    ANY_LAYOUT,
    EVERY,
    FLOAT32,
    KERNELS,
    MATRICES,
    TRAINED,
    Array,
    Case,
    Draw,
    Outcome,
    Tensor,
    calls,
    draw_activation,
    element,
    filter_parameters,
    guarded,
    inner,
)  # fmt: skip


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
    scratch = draw.chance(0.15)  # for gradients that are not wanted, which are left out otherwise

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
            ok = out.note(calls.BNNSFilterApply(f, given, y_memory))
        else:
            ok = out.note(calls.BNNSFilterApplyBatch(f, batch, given, x.stride, y_memory, y.stride))
        if not ok or not backward:
            return
        gradients = {"dx": dx_tensor, "dw": dw_tensor, "db": db_tensor}
        descriptors = {
            name: tensor.at(target(out, name, tensor), flags[name])
            for name, tensor in gradients.items()
            if wanted[name] and tensor is not None
        }
        if scratch:
            unwanted = {name: t for name, t in gradients.items() if t is not None and not wanted[name]}
            place = np.zeros(max((t.length for t in unwanted.values()), default=0), np.float32)
            descriptors |= {name: t.at(place[: t.length], flags[name]) for name, t in unwanted.items()}
        out.note(
            calls.BNNSFilterApplyBackwardBatch(
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
        calls.BNNSFilterDestroy(f)

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
        lambda: calls.BNNSFilterCreateLayerFullyConnected(p, parameters),
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


def long_kernels(draw: Draw) -> Case:
    """Kernels over a single row, longer than most vectors, with padding at either end."""
    return _convolution(draw, transposed=draw.chance(0.2), form="long kernel")


def few_pixels(draw: Draw) -> Case:
    """Small images of many channels."""
    return _convolution(draw, transposed=draw.chance(0.2), form="few pixels")


def _convolution(draw: Draw, transposed: bool, form: str = "any") -> Case:
    width, height, batch = draw.size(12), draw.size(12), draw.size(4)
    kw, kh = int(draw.one([1, 1, 2, 3, 3, 5])), int(draw.one([1, 1, 2, 3, 3, 5]))
    groups = int(draw.one([0, 1, 1, 1, 2, 3])) if not transposed else 0
    g = max(groups, 1)
    channels_in, channels_out = g * draw.size(6), g * draw.size(6)
    if form == "long kernel":
        g, groups = 1, 0
        width, height, kw, kh = int(draw.rng.integers(60, 400)), 1, int(draw.rng.integers(60, 150)), 1
        channels_in, channels_out = int(draw.one([1, 1, 1, 2])), int(draw.rng.integers(14, 40))
    elif form == "few pixels":
        width, height = int(draw.rng.integers(1, 7)), int(draw.rng.integers(1, 18))
        g, groups = 1, 0
        channels_in, channels_out = draw.size(), int(draw.rng.integers(30, 70))
    elif not transposed and draw.chance(draw.depthwise):
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
    name = "Transposed" if transposed else ""
    return run_unary(
        draw, lambda: getattr(calls, f"BNNSFilterCreateLayer{name}Convolution")(p, parameters), x, y, w, b, batch,
        f"{p!r} {parameters!r}",
    )  # fmt: skip


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
        lambda: calls.BNNSFilterCreateLayerActivation(p, parameters),
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
        return calls.BNNSFilterCreateLayerPooling(p, parameters)

    if draw.chance(0.4):
        return run_unary(draw, create, x, y, None, b, batch, title)
    return title, _with_indices(draw, create, x, y, b, batch, function)


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
        indices = out.keep("indices", guarded(first), True)
        places = (kind, indices if give_indices else None, small.stride)
        if not out.note(
            calls.BNNSPoolingFilterApplyBatchEx(f, batch, source.copy(), x.stride, y_memory, y.stride, *places)
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
                data=out.keep("db", guarded(np.zeros(b.size, np.float32)), False),
            )  # fmt: skip
        out.note(
            calls.BNNSPoolingFilterApplyBackwardBatchEx(
                f, batch, source.copy() if give_input else None, x.stride, dx, dx_tensor.stride,
                y_memory.copy() if give_output else None, y.stride, arriving_tensor.at(arriving.copy()),
                arriving_tensor.stride, db, *places,
            )
        )  # fmt: skip

    return run


FAMILIES = {
    "fully_connected": fully_connected,
    "convolution": convolution,
    "few_pixels": few_pixels,
    "long_kernels": long_kernels,
    "transposed": transposed,
    "activation": activation,
    "pooling": pooling,
}
