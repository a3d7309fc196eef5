"""Do the filters that move and resample tensors keep up with memory, next to PyTorch and NumPy?

Permute is compared with PyTorch's and NumPy's copies into memory that exists already; padding and resize with PyTorch's
functions.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from cases import Arrays, Calls, Case, created, describe
from harness import Ceilings, Figure, Settings
from openbnns import capi
from timing import QUIET, alternate, sampler

IMAGE = capi.BNNSDataLayoutImageCHW


def cases() -> list[Case]:
    return [
        _resize("linear", 16, 32, 64, 2, False, 1.5),
        _resize("linear, aligned", 16, 32, 64, 2, True, 1.5),
        _resize("nearest", 16, 32, 64, 2, False, 1.0),
        _resize("linear", 4, 16, 30, 3, False, 1.0),
        _padding("Reflect", "reflect", 16, 32, 64, 2, 1.0),
        _padding("Constant", "constant", 16, 32, 64, 2, 1.0),
    ]


def _image(a: Arrays, name: str) -> capi.BNNSNDArrayDescriptor:
    return describe(IMAGE, a[name].shape[:0:-1], a[name])


def _general_calls(f: Any, a: Arrays) -> Calls:
    batch = a["x"].shape[0]
    return Calls(
        f,
        partial(capi.BNNSFilterApplyBatch, f, batch, a["x"], 0, a["y"], 0),
        partial(
            capi.BNNSFilterApplyBackwardBatch,
            f,
            batch,
            None,
            0,
            _image(a, "dx"),
            0,
            None,
            0,
            _image(a, "dy"),
            0,
            None,
            None,
        ),
    )


def _resize(name: str, batch: int, channels: int, side: int, factor: int, align: bool, target: float) -> Case:
    linear = name.startswith("linear")

    def calls(a: Arrays) -> Calls:
        p = capi.BNNSLayerParametersResize(
            method=int(linear), i_desc=_image(a, "x"), o_desc=_image(a, "y"), align_corners=align
        )
        return _general_calls(created(capi.BNNSFilterCreateLayerResize(p)), a)

    def peer(torch: ModuleType) -> Any:
        mode: dict[str, Any] = {"mode": "bilinear", "align_corners": align} if linear else {"mode": "nearest"}
        return partial(torch.nn.functional.interpolate, scale_factor=factor, **mode)

    x, y = (batch, channels, side, side), (batch, channels, factor * side, factor * side)
    shape = "x".join(map(str, x))
    return Case(
        name=f"resize/{name} {factor}x of {shape}", shapes={"x": x, "y": y}, calls=calls, peer=peer,
        bytes=8.0 * (np.prod(x) + np.prod(y)), target=target, layouts=("contiguous", "channels last"),
    )  # fmt: skip


def _padding(mode: str, torch_mode: str, batch: int, channels: int, side: int, width: int, target: float) -> Case:
    def calls(a: Arrays) -> Calls:
        p = capi.BNNSLayerParametersPadding(
            i_desc=_image(a, "x"), o_desc=_image(a, "y"), padding_size=[(width, width), (width, width)],
            padding_mode=capi.BNNSPaddingMode[f"BNNSPaddingMode{mode}"],
        )  # fmt: skip
        return _general_calls(created(capi.BNNSFilterCreateLayerPadding(p)), a)

    def peer(torch: ModuleType) -> Any:
        return partial(torch.nn.functional.pad, pad=(width,) * 4, mode=torch_mode)

    x, y = (batch, channels, side, side), (batch, channels, side + 2 * width, side + 2 * width)
    shape = "x".join(map(str, x))
    return Case(
        name=f"padding/{torch_mode} {shape} by {width}", shapes={"x": x, "y": y}, calls=calls, peer=peer,
        bytes=8.0 * (np.prod(x) + np.prod(y)), target=target,
    )  # fmt: skip


# Permute against copies into given memory, by whichever of NumPy and PyTorch is faster.


def figures() -> dict[str, Callable[[Settings], Figure]]:
    return {
        name: partial(_permute, name, shape, order, share)
        for name, shape, order, share in [
            ("permute/NCHW to NHWC 32x64x56x56, best of NumPy and PyTorch / ours", (32, 64, 56, 56), (1, 2, 0), False),
            ("permute/NCHW to NHWC 32x64x56x56, share of copy bandwidth", (32, 64, 56, 56), (1, 2, 0), True),
            ("permute/NHWC to NCHW 32x56x56x64, best of NumPy and PyTorch / ours", (32, 56, 56, 64), (2, 0, 1), False),
            ("permute/matrices 8x1024x1000, best of NumPy and PyTorch / ours", (8, 1024, 1000), (1, 0), False),
        ]
    }


def _permute(name: str, shape: tuple[int, ...], order: tuple[int, ...], share: bool, settings: Settings) -> Figure:
    import torch

    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    batched = (0, *(1 + k for k in order))
    y = np.zeros([shape[k] for k in batched], np.float32)
    theirs = torch.zeros(y.shape)
    source = torch.from_numpy(x).permute(batched)
    other = np.zeros_like(y)
    layout = capi.BNNSDataLayout[f"BNNSDataLayout{len(order)}DFirstMajor"]
    p = capi.BNNSLayerParametersPermute(
        i_desc=describe(layout, x.shape[1:]), o_desc=describe(layout, y.shape[1:]), permutation=order
    )
    f = created(capi.BNNSFilterCreateLayerPermute(p))
    steps = [
        partial(capi.BNNSFilterApplyBatch, f, shape[0], x, 0, y, 0),
        partial(theirs.copy_, source),
        partial(np.copyto, other, x.transpose(batched)),
    ]
    for step in steps:
        step()
    assert np.array_equal(y, other) and np.array_equal(y, theirs.numpy())
    ceilings = Ceilings(settings.threads)
    samplers = [*map(sampler, steps), partial(ceilings.gigabytes, x.nbytes + y.nbytes)]
    (ours, torch_times, numpy_times, limits), disturbed = alternate(samplers, settings.seconds)
    note = f"others took {disturbed:.0%} of the machine" if disturbed > QUIET else ""
    judged = settings.judged and not note
    copy_share = (x.nbytes + y.nbytes) / statistics.median(ours) / 1e9 / max(limits)
    if share:
        return Figure(name, copy_share, "share", 0.6 if judged else None, note=note)
    ratios = [min(t, n) / o for o, t, n in zip(ours, torch_times, numpy_times, strict=True)]
    note = ", ".join(filter(None, [f"{copy_share:.0%} of the copy bandwidth", note]))
    target = 1.5 if judged else None
    return Figure(name, statistics.median(ratios), "x the best", target, note=note, copy_share=copy_share)
