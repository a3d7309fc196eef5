"""Samples of images between pixels, entries in another order, and random numbers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ....graph.sizes import AnySize, product
from ....graph.tensor import FLOAT32, Tensor
from ....nn import functional as F
from ....nn.function import Function
from ...converted.functions import Compare
from ...converted.tensors import ForeignTensor, Misfit
from .._call import Call
from .._numpy import limited
from .._operator import operator
from ..tensor import plain_numbers

SAMPLES = "samples of images"
RANDOM = "random numbers"

Taps = list[tuple[Tensor, Any]]
"""Positions along an axis, and what their pixels are multiplied with."""


@operator(SAMPLES, "GridSample")
def grid_sample(call: Call, x: ForeignTensor, grid: ForeignTensor) -> ForeignTensor:
    """Pixels of images (N, C, ...) at places (N, ..., axes) from -1 to 1, the last axis first."""
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(call.text("mode", "linear"), call.text("mode", "linear"))
    edges, corners = call.text("padding_mode", "zeros"), bool(call.integer("align_corners", 0))
    axes = x.rank - 2
    if mode not in ("linear", "nearest", "cubic") or edges not in ("zeros", "border", "reflection"):
        raise Misfit(f"mode={mode!r} with padding_mode={edges!r} has no counterpart here")
    if not 1 <= axes <= 3 or grid.rank != x.rank or grid.shape[-1] != axes or (mode == "cubic" and axes > 2):
        raise Misfit(f"a grid {grid.shape} does not fit {x.shape}")
    samples, channels, *image = x.shape
    sizes, places = [int(n) for n in image], grid.shape[1:-1]
    along = []
    for axis, n in enumerate(sizes):
        numbers = F.select(grid.numbers, grid.rank - 1, axes - 1 - axis).reshape((samples, product(places)))
        if corners:
            numbers = F.mul(F.add(numbers, 1.0), (n - 1) / 2)
        else:
            numbers = F.sub(F.mul(F.add(numbers, 1.0), n / 2), 0.5)
        along.append(_taps(numbers, n, mode, edges, corners))
    flat = x.numbers.reshape((samples, channels, product(image)))
    total: Any = None
    for taps in itertools.product(*along):
        index: Any = None
        factor: Any = None
        for (position, part), n in zip(taps, sizes, strict=True):
            index = position if index is None else F.add(F.mul(index, float(n)), position)
            factor = part if factor is None else factor if part is None else F.mul(factor, part)
        pixels = _pixels(flat, index, channels)
        part = pixels if factor is None else F.mul(pixels, F.unsqueeze(factor, 1))
        total = part if total is None else F.add(total, part)
    return ForeignTensor(total.reshape((samples, channels, *places)))


def _pixels(flat: Tensor, index: Tensor, channels: AnySize) -> Tensor:
    samples, count = index.shape
    places = F.expand(F.detach(index).long().reshape((samples, 1, count)), samples, channels, count)
    pixels: Tensor = F.gather(flat, 2, places)
    return pixels


def _taps(numbers: Tensor, n: int, mode: str, edges: str, corners: bool) -> Taps:
    """The pixels along an axis that a place is between."""
    if mode != "cubic":
        numbers = _inside(numbers, n, edges, corners)
    if mode == "nearest":
        return [_tap(F.round(numbers), n, edges, corners, None)]
    first = F.detach(F.floor(numbers))
    rest = F.sub(numbers, first)
    if mode == "linear":
        parts: list[tuple[int, Any]] = [(0, F.sub(1.0, rest)), (1, rest)]
    else:
        parts = [(i - 1, _cubic(rest, i)) for i in range(4)]
    return [_tap(F.add(first, float(i)) if i else first, n, edges, corners, part) for i, part in parts]


def _cubic(t: Tensor, number: int) -> Tensor:
    """The weight of one of four pixels around a place, with a = -0.75."""
    a = -0.75
    distance = [F.add(t, 1.0), t, F.sub(1.0, t), F.sub(2.0, t)][number]
    square = F.square(distance)
    cube = F.mul(square, distance)
    if number in (1, 2):
        near: Tensor = F.add(F.sub(F.mul(cube, a + 2), F.mul(square, a + 3)), 1.0)
        return near
    far: Tensor = F.sub(F.add(F.sub(F.mul(cube, a), F.mul(square, 5 * a)), F.mul(distance, 8 * a)), 4 * a)
    return far


def _tap(position: Tensor, n: int, edges: str, corners: bool, factor: Any) -> tuple[Tensor, Any]:
    position = F.detach(position)
    if edges == "zeros":
        there = F.mul(
            Compare.apply(position, np.float32(0), "ge").float(),
            Compare.apply(position, np.float32(n - 1), "le").float(),
        )
        factor = there if factor is None else F.mul(factor, there)
    else:
        position = _inside(position, n, edges, corners)
    return F.clamp(position, 0.0, float(n - 1)), factor


def _inside(numbers: Tensor, n: int, edges: str, corners: bool) -> Tensor:
    """Places outside of an axis, moved into it."""
    if edges == "zeros":
        return numbers
    if edges == "reflection":
        low, high = (0.0, n - 1.0) if corners else (-0.5, n - 0.5)
        span = high - low
        if not span:
            return F.mul(numbers, 0.0)  # type: ignore[no-any-return]
        away = F.abs(F.sub(numbers, low))
        turns = F.detach(F.floor(F.div(away, span)))
        rest = F.sub(away, F.mul(turns, span))
        odd = F.detach(F.sub(turns, F.mul(F.floor(F.div(turns, 2.0)), 2.0)))
        numbers = F.add(F.add(rest, low), F.mul(odd, F.sub(high - low, F.mul(rest, 2.0))))
    clamped: Tensor = F.clamp(numbers, 0.0, float(n - 1))
    return clamped


class RegionAlign(Function):
    """Means, or maxima, of samples in the cells of boxes; gradients go to the images."""

    is_pure = True

    @staticmethod
    def forward(ctx: Any, x: Any, boxes: Any, images: Any, options: Any) -> Any:
        high, wide = options["size"]
        ctx.save_for_backward(x, boxes, images)
        ctx.options = options
        y = np.zeros((len(boxes), x.shape[1], high, wide), x.dtype)
        for number, (box, image) in enumerate(zip(boxes, images, strict=True)):
            rows, columns, weights = _cells(box, x.shape[2:], options)
            pixels = x[int(image)][:, rows, columns] * weights  # (C, high, wide, samples, 4)
            y[number] = pixels.max((-1, -2)) if options["mode"] == "max" else pixels.sum(-1).mean(-1)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        x, boxes, images = ctx.saved_tensors
        dx = np.zeros_like(x)
        for number, (box, image) in enumerate(zip(boxes, images, strict=True)):
            rows, columns, weights = _cells(box, x.shape[2:], ctx.options)
            pixels = x[int(image)][:, rows, columns] * weights
            if ctx.options["mode"] == "max":
                part = (pixels == pixels.max((-1, -2), keepdims=True)) * weights
                part = part / np.maximum(
                    1, (pixels == pixels.max((-1, -2), keepdims=True)).sum((-1, -2), keepdims=True)
                )
            else:
                part = np.broadcast_to(weights / weights.shape[-2], pixels.shape)
            places: Any = (slice(None), rows, columns)
            np.add.at(dx[int(image)], places, part * dy[number][..., None, None])
        return dx, None, None, None

    @classmethod
    def _outputs(cls, arguments: list[Any], inputs: list[Tensor]) -> tuple[list[Tensor], bool]:
        x, boxes, _, options = arguments
        return [Tensor(x.graph, (boxes.shape[0], x.shape[1], *options["size"]), FLOAT32)], False


_MOST_SAMPLES = 1024  # of one cell of a box, along an axis


def _cells(box: Any, image: Any, options: Any) -> tuple[Any, Any, Any]:
    """Rows, columns and weights (high, wide, samples, 4) of the pixels around the samples of a box."""
    along = []
    shift = 0.5 if options["half"] else 0.0
    for (start, end), cells, n in zip(((box[1], box[3]), (box[0], box[2])), options["size"], image, strict=True):
        first, last = start * options["scale"] - shift, end * options["scale"] - shift
        length = last - first if options["half"] else max(last - first, 1.0)
        count = options["samples"] or int(min(max(np.ceil(length / cells), 1), _MOST_SAMPLES))
        places = first + (np.arange(cells * count) + 0.5) * length / (cells * count)
        there = (places >= -1) & (places <= n)
        places = np.maximum(places, 0)
        low = np.minimum(places.astype(np.int64), n - 1)
        high = np.minimum(low + 1, n - 1)
        rest = np.where(low >= n - 1, 0, places - low)
        along.append([a.reshape(cells, count) for a in (low, high, (1 - rest) * there, rest * there)])
    (top, bottom, up, down), (left, right, near, far) = along
    counts = top.shape[1], left.shape[1]

    def pairs(rows: Any, columns: Any) -> tuple[Any, Any]:
        """Both along all samples of all cells: (high, wide, samples)."""
        shape = (*options["size"], *counts)
        r = np.broadcast_to(rows[:, None, :, None], shape).reshape(*options["size"], -1)
        return r, np.broadcast_to(columns[None, :, None, :], shape).reshape(*options["size"], -1)

    corners = [pairs(a, b) for a in (top, bottom) for b in (left, right)]
    weights = [np.multiply(*pairs(a, b)) for a in (up, down) for b in (near, far)]
    return np.stack([r for r, _ in corners], -1), np.stack([c for _, c in corners], -1), np.stack(weights, -1)


@operator(SAMPLES, "RoiAlign", settings=(1, 2))
def region_align(call: Call, x: ForeignTensor, boxes: ForeignTensor, images: ForeignTensor) -> ForeignTensor:
    mode = call.text("coordinate_transformation_mode", "half_pixel" if call.opset >= 16 else "output_half_pixel")
    options: dict[str, Any] = {
        "size": (call.integer("output_height", 1), call.integer("output_width", 1)), "mode": call.text("mode", "avg"),
        "samples": call.integer("sampling_ratio", 0), "scale": call.number("spatial_scale", 1.0),
        "half": mode == "half_pixel",
    }  # fmt: skip
    if x.rank != 4 or boxes.rank != 2 or boxes.shape[1] != 4 or min(options["size"]) < 1:
        raise Misfit(f"boxes {boxes.shape} for {x.shape} have no counterpart here")
    if options["mode"] not in ("avg", "max") or not 0 <= options["samples"] <= _MOST_SAMPLES:
        raise Misfit(f"mode={options['mode']!r} with {options['samples']} samples has no counterpart here")
    return ForeignTensor(RegionAlign.apply(x.numbers, F.detach(boxes.numbers), images.numbers, options))


@operator(SAMPLES, "Col2Im")
def columns_to_image(call: Call, x: ForeignTensor, image: ForeignTensor, block: ForeignTensor) -> ForeignTensor:
    size, kernel = plain_numbers(image, "image_shape") or [], plain_numbers(block, "block_shape") or []
    axes = len(size)
    step, spread = call.integers("strides", [1] * axes), call.integers("dilations", [1] * axes)
    pads = call.integers("pads", [0] * 2 * axes)
    if axes != 2 or len(kernel) != 2 or pads[:2] != pads[2:]:
        raise Misfit("columns become images of two axes, with as much padding behind as in front")
    return ForeignTensor(F.fold(x.numbers, tuple(size), tuple(kernel), tuple(spread), pads[:2], tuple(step)))


@operator(SAMPLES, "ReverseSequence")
def reverse_sequence(call: Call, x: ForeignTensor, lengths: ForeignTensor) -> ForeignTensor:
    """The first entries of every sample, as many as it has, in reverse."""
    batch, time = x.axis(call.integer("batch_axis", 1)), x.axis(call.integer("time_axis", 0))
    if batch == time or x.rank < 2 or lengths.rank != 1:
        raise Misfit(f"{x.shape} has no two axes {batch} and {time}, or there is not one length for each sample")
    moved = F.movedim(x.numbers, (batch, time), (0, 1))
    samples, steps = moved.shape[:2]
    counts = lengths.numbers.reshape((samples, 1))
    numbers = F.arange(steps).float().reshape((1, steps))
    inside = Compare.apply(counts, numbers, "gt").float()
    turned = F.sub(F.sub(counts, 1.0), numbers)
    places = F.add(numbers, F.mul(inside, F.sub(turned, numbers))).long()
    places = places.reshape((samples, steps, *[1] * (x.rank - 2)))
    return ForeignTensor(F.movedim(F.take_along_dim(moved, places, 1), (0, 1), (batch, time)))


class Determinant(Function):
    """Determinants of square matrices."""

    is_pure = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return np.linalg.det(x).astype(x.dtype)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        """Cofactors; those of U diag s V are det(U V) times the products of all other s."""
        (x,) = ctx.saved_tensors
        u, s, v = np.linalg.svd(x.astype(np.float64))
        others = np.stack([np.delete(s, i, -1).prod(-1) for i in range(s.shape[-1])], -1)
        sign = np.linalg.det(u) * np.linalg.det(v)
        cofactors = (u * others[..., None, :]) @ v * sign[..., None, None]
        return (cofactors * np.asarray(dy)[..., None, None]).astype(x.dtype)

    @classmethod
    def _outputs(cls, arguments: list[Any], inputs: list[Tensor]) -> tuple[list[Tensor], bool]:
        return [Tensor(inputs[0].graph, inputs[0].shape[:-2], FLOAT32)], False


@operator(SAMPLES, "Det")
def determinant(call: Call, x: ForeignTensor) -> ForeignTensor:
    if x.rank < 2 or x.shape[-1] != x.shape[-2]:
        raise Misfit(f"{x.shape} is not made of square matrices")
    return ForeignTensor(Determinant.apply(x.numbers))


# Random numbers, which every pass draws anew.


@operator(RANDOM, "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", ignores=("seed", "dtype"))
def random(call: Call, x: ForeignTensor | None = None) -> ForeignTensor:
    shape = limited(call.integers("shape")) if x is None else x.shape
    if "Normal" in call.op:
        mean, spread = call.number("mean", 0.0), call.number("scale", 1.0)
        return ForeignTensor(F.add(F.mul(F.randn(*shape), spread), mean))
    low, high = call.number("low", 0.0), call.number("high", 1.0)
    return ForeignTensor(F.add(F.mul(F.rand(*shape), high - low), low))


@operator(RANDOM, "Bernoulli", ignores=("seed", "dtype"))
def bernoulli(call: Call, x: ForeignTensor) -> ForeignTensor:
    return ForeignTensor(F.bernoulli(x.numbers))


@operator(RANDOM, "Multinomial", ignores=("seed", "dtype"))
def multinomial(call: Call, x: ForeignTensor) -> ForeignTensor:
    """Numbers of classes, drawn by logarithms of probabilities (N, classes)."""
    count = call.integer("sample_size", 1)
    if x.rank != 2 or count < 1:
        raise Misfit(f"{count} samples cannot be drawn from {x.shape}")
    samples, classes = x.shape
    uniform = F.clamp(F.rand(samples, count, classes), 1e-20, 1.0)
    noise = F.neg(F.log(F.clamp(F.neg(F.log(uniform)), 1e-20, 1e20)))
    return ForeignTensor(F.argmax(F.add(noise, x.numbers.reshape((samples, 1, classes))), 2), "i")
