"""Filters that move, combine or look up numbers: permute, padding, resize, reduction, Gram, matrix product, embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from openbnns import capi
from openbnns.capi import BNNSDataLayout

from .core import ANY_LAYOUT, Case, Draw, Outcome, Tensor, calls, element, filter_parameters, result
from .layers import run_unary

LAYOUTS = [name for name in ANY_LAYOUT if not name.startswith(("Convolution", "MHA"))]


def some_shape(draw: Draw) -> tuple[str, tuple[int, ...]]:
    layout = draw.one(LAYOUTS) if draw.chance(0.5) else draw.one(["Vector", "ImageCHW", "2DFirstMajor"])
    rank = BNNSDataLayout[f"BNNSDataLayout{layout}"] >> 16
    most = {1: 9, 2: 7, 3: 5, 4: 4}.get(rank, 2)
    return layout, tuple(int(draw.rng.integers(1, most + 1)) for _ in range(rank))


def unary(draw: Draw, creator: str, p: Any, x: Tensor, y: Tensor, batch: int, w: Tensor | None = None) -> Case:
    parameters = filter_parameters(draw)
    return run_unary(
        draw, lambda: getattr(calls, creator)(p, parameters), x, y, w, None, batch, f"{p!r} {parameters!r}"
    )


def permute(draw: Draw) -> Case:
    layout, size = some_shape(draw)
    batch, order = draw.size(4), [int(k) for k in draw.rng.permutation(len(size))]
    kind = element(draw)
    x = Tensor(draw, layout, size, batch, element=kind)
    y = Tensor(draw, layout, tuple(size[k] for k in order), batch, element=kind)
    values, dx, dy = x.values(draw), Tensor(draw, layout, size, batch), Tensor(draw, layout, y.size, batch)
    arriving, flags, parameters = dy.values(draw), int(draw.chance(0.4)), filter_parameters(draw)
    p = capi.BNNSLayerParametersPermute(i_desc=x.descriptor, o_desc=y.descriptor, permutation=order)

    def run(out: Outcome) -> None:
        f = calls.BNNSFilterCreateLayerPermute(p, parameters)
        if not out.note(f):
            return
        target = out.keep("y", y.empty(), True)
        out.note(calls.BNNSFilterApplyBatch(f, batch, values.copy(), x.stride, target, y.stride))
        gradient = result(dx, out, "dx", flags)
        out.note(
            calls.BNNSPermuteFilterApplyBackwardBatch(f, batch, gradient, dx.stride, dy.at(arriving.copy()), dy.stride)
        )

    return f"{p!r} {parameters!r}", run


def padding(draw: Draw) -> Case:
    layout, size = some_shape(draw)
    batch, mode = draw.size(4), draw.one(list(capi.BNNSPaddingMode))
    most = {capi.BNNSPaddingModeReflect: -1, capi.BNNSPaddingModeSymmetric: 0}
    pairs = [[int(draw.rng.integers(0, max(n + most.get(mode, 2), 0) + 1)) for _ in range(2)] for n in size]
    if draw.chance(0.05):
        pairs[0][0] += 3
    if len(size) > 4:
        pairs = [[min(k, 1) for k in pair] for pair in pairs]
    kind = element(draw)
    x = Tensor(draw, layout, size, batch, element=kind)
    wider = tuple(n + sum(pair) for n, pair in zip(size, pairs, strict=True))
    y = Tensor(draw, layout, wider, batch, element=kind)
    p = capi.BNNSLayerParametersPadding(
        i_desc=x.descriptor, o_desc=y.descriptor, padding_size=pairs, padding_mode=mode,
        padding_value=int(np.float32(draw.one([0.0, 1.5])).view(np.uint32)),
    )  # fmt: skip
    return unary(draw, "BNNSFilterCreateLayerPadding", p, x, y, batch)


def resize(draw: Draw) -> Case:
    layout, size = some_shape(draw)
    batch, linear = draw.size(4), draw.chance(0.5)
    axes = [int(k) for k in draw.rng.permutation(len(size))[: 2 if linear else 3]]
    large = tuple(n * int(draw.one([1, 2, 3])) if axis in axes else n for axis, n in enumerate(size))
    sizes = [size, large] if draw.chance(0.6) else [large, size]
    x, y = (Tensor(draw, layout, s, batch, element=element(draw)) for s in sizes)
    p = capi.BNNSLayerParametersResize(
        method=capi.BNNSInterpolationMethodLinear if linear else capi.BNNSInterpolationMethodNearest,
        i_desc=x.descriptor, o_desc=y.descriptor, align_corners=draw.chance(0.4),
    )  # fmt: skip
    return unary(draw, "BNNSFilterCreateLayerResize", p, x, y, batch)


def reduction(draw: Draw) -> Case:
    layout, size = some_shape(draw)
    batch = draw.size(4)
    smaller = tuple(1 if draw.chance(0.5) else n for n in size)
    x, y = Tensor(draw, layout, size, batch), Tensor(draw, layout, smaller, batch)
    w = Tensor(draw, layout, size, 1, batched=False) if draw.chance(0.4) else None
    tame = [f for f in capi.BNNSReduceFunction if "Log" not in f.name or "Logical" in f.name or "Exp" in f.name]
    p = capi.BNNSLayerParametersReduction(i_desc=x.descriptor, o_desc=y.descriptor, reduce_func=draw.one(tame))
    if w is not None:
        p.w_desc = w.at(w.values(draw))
    return unary(draw, "BNNSFilterCreateLayerReduction", p, x, y, batch, w)


def gram(draw: Draw) -> Case:
    size, batch = (draw.size(6), draw.size(6), draw.size(6)), draw.size(4)
    x = Tensor(draw, "ImageCHW", size, batch)
    y = Tensor(draw, draw.one(["2DFirstMajor", "2DLastMajor", "RowMajorMatrix"]), (size[2], size[2]), batch)
    p = capi.BNNSLayerParametersGram(alpha=draw.one([1.0, -0.3]), i_desc=x.descriptor, o_desc=y.descriptor)
    return unary(draw, "BNNSFilterCreateLayerGram", p, x, y, batch)


def product(draw: Draw) -> Case:
    """A matrix product with weights on either side."""
    rows, inner, columns, batch = draw.size(7), draw.size(7), draw.size(7), draw.size(3)
    flip_a, flip_b, weights_first = draw.chance(0.4), draw.chance(0.4), draw.chance(0.4)
    order = draw.one(["2DFirstMajor", "2DLastMajor"])
    a_size = (inner, rows) if flip_a else (rows, inner)
    b_size = (columns, inner) if flip_b else (inner, columns)
    a = Tensor(draw, order, a_size, batch, batched=not weights_first)
    b = Tensor(draw, order, b_size, batch, batched=weights_first)
    y = Tensor(draw, order, (rows, columns), batch)
    x, w = (b, a) if weights_first else (a, b)
    held = w.at(w.values(draw))
    p = capi.BNNSLayerParametersBroadcastMatMul(
        alpha=draw.one([1.0, 0.5]), beta=draw.one([0.0, 0.0, 1.0]), transA=flip_a, transB=flip_b,
        a_is_weights=weights_first, b_is_weights=not weights_first,
        iA_desc=held if weights_first else a.descriptor, iB_desc=b.descriptor if weights_first else held,
        o_desc=y.descriptor,
    )  # fmt: skip
    return unary(draw, "BNNSFilterCreateLayerBroadcastMatMul", p, x, y, batch, w)


def embedding(draw: Draw) -> Case:
    """Entries of a dictionary, and its gradient; now and then with an index that is not there."""
    width, entries, positions, batch = draw.size(), draw.size(), draw.size(6), draw.size(3)
    table = Tensor(draw, "2DLastMajor", (width, entries), 1, batched=False)
    y = Tensor(draw, "2DLastMajor", (width, positions), batch)
    kinds = {"Int32": np.int32, "UInt8": np.uint8, "Int64": np.int64}
    kind = draw.one(list(kinds))
    x = Tensor(draw, "Vector", (positions,), batch, element=kind)
    places = draw.rng.integers(0, entries, x.length).astype(kinds[kind])
    if draw.chance(0.05):
        places[int(draw.rng.integers(places.size))] = entries
    p = capi.BNNSLayerParametersEmbedding(
        flags=int(draw.chance(0.3)), i_desc=x.descriptor, o_desc=y.descriptor, dictionary=table.at(table.values(draw)),
        padding_idx=draw.one([entries, 0, entries - 1]), max_norm=draw.one([0.0, 0.8]),
        norm_type=draw.one([0.0, 1.0, 2.0, np.inf]),
    )  # fmt: skip
    arriving, flags, parameters = y.values(draw), int(draw.chance(0.4)), filter_parameters(draw)

    def run(out: Outcome) -> None:
        f = calls.BNNSFilterCreateLayerEmbedding(p, parameters)
        if not out.note(f):
            return
        target = out.keep("y", y.empty())
        out.note(calls.BNNSFilterApplyBatch(f, batch, places, x.stride, target, y.stride))
        gradient = result(table, out, "gradient of the dictionary", flags)
        out.note(
            calls.BNNSFilterApplyBackwardBatch(
                f, batch, places, x.stride, None, 0, None, 0, y.at(arriving.copy()), y.stride, gradient, None
            )
        )

    return f"{p!r} {parameters!r}", run


FAMILIES = {
    "permute": permute,
    "padding": padding,
    "resize": resize,
    "reduction": reduction,
    "gram": gram,
    "product": product,
    "embedding": embedding,
}
