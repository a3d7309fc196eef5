"""Samples of images between pixels, reversed sequences, determinants, and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph.numpy_function import Function
from ....graph.tensor import FLOAT32, Tensor
from ...converted.functions import Determinant
from ...converted.sampling import sampled_at
from ...converted.tensors import ForeignTensor, Misfit
from .._call import Call
from .._file import numpy_type
from .._numpy import limited
from .._operator import operator
from ..tensor import plain_numbers

SAMPLES = "samples of images"
RANDOM = "random numbers"


@operator(SAMPLES, "GridSample")
def grid_sample(call: Call, x: ForeignTensor, grid: ForeignTensor) -> ForeignTensor:
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(call.text("mode", "linear"), call.text("mode", "linear"))
    edges, corners = call.text("padding_mode", "zeros"), bool(call.integer("align_corners", 0))
    return ForeignTensor(sampled_at(x, grid, mode, edges, corners))


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
    moved = F.movedim(x.elements, (batch, time), (0, 1))
    samples, steps = moved.shape[:2]
    counts = lengths.numbers.reshape((samples, 1))
    numbers = F.arange(steps).float().reshape((1, steps))
    inside = F.gt(counts, numbers)
    turned = F.sub(F.sub(counts, 1.0), numbers)
    places = F.add(numbers, F.mul(inside, F.sub(turned, numbers))).long()
    places = places.reshape((samples, steps, *[1] * (x.rank - 2)))
    return ForeignTensor(F.movedim(F.take_along_dim(moved, places, 1), (0, 1), (batch, time)), x.kind)


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


def _type_of_classes(call: Call) -> str:
    return str(numpy_type(call.integer("dtype", 6)))


@operator(RANDOM, "Multinomial", whole_type=_type_of_classes, ignores=("seed",))
def multinomial(call: Call, x: ForeignTensor) -> ForeignTensor:
    """Numbers of classes, drawn by logarithms of probabilities (N, classes)."""
    count = call.integer("sample_size", 1)
    if x.rank != 2 or count < 1:
        raise Misfit(f"{count} samples cannot be drawn from {x.shape}")
    samples, classes = x.shape
    uniform = F.clamp(F.rand(samples, count, classes), 1e-20, 1.0)
    noise = F.neg(F.log(F.clamp(F.neg(F.log(uniform)), 1e-20, 1e20)))
    return ForeignTensor(F.argmax(F.add(noise, x.numbers.reshape((samples, 1, classes))), 2), "i")
