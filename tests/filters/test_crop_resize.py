"""Crop-resize: both calls and the class against loops over the formulas, boxes inside and outside, bad input."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from bad_calls import refused
from cases.permute import FIRST_MAJOR, LAST_MAJOR
from helpers import (
    EPSILON,
    FLOAT16,
    FLOAT32,
    IMAGE,
    LAST_MAJOR_2D,
    Array,
    Storage,
    Tensor,
    assert_bitwise,
    assert_within,
    vector,
)
from openbnns import capi, compat

SAMPLING = ("Default", "AlignCorners", "UnalignCorners", "StrictAlignCorners", "OffsetCorners")
BOXES = ("CornersHeightFirst", "CornersWidthFirst", "CenterSizeHeightFirst", "CenterSizeWidthFirst")


def offsets(mode: str, length: float, n: int, plain: bool = False) -> list[float]:
    """p(i) as the documentation words it, each limited to the box."""
    extent = length if plain else length + 1
    result = []
    for i in range(n):
        match mode:
            case "Default":
                p = i * (extent - extent / n) / (n - 1) if n > 1 else 0.0
            case "AlignCorners":
                p = i * length / (n - 1) if n > 1 else length / 2
            case "StrictAlignCorners":
                p = i * length / (n - 1) if n > 1 else 0.0
            case "UnalignCorners":
                p = (i + 0.5) * extent / n - 0.5
            case _:
                p = (i + 0.5) * max(1.0, length) / n
        result.append(min(max(p, min(0.0, length)), max(0.0, length)))
    return result


class Problem:
    """Images, boxes and crops, with the weights of every crop found by loops."""

    def __init__(
        self, seed: int = 0, sampling: str = "Default", box: str = BOXES[0], plain: bool = False, **options: Any
    ) -> None:
        rng = np.random.default_rng(seed)
        self.images, self.channels = options.pop("images", 2), options.pop("channels", 3)
        self.image, self.size = options.pop("image", (9, 11)), options.pop("size", (4, 5))
        self.settings = {"normalized": False, "scale": 1.0, "outside": -3.5} | options
        self.sampling, self.box = sampling, box
        count = 5
        low = rng.uniform(-2, 5, (count, 2))
        pairs = np.stack([low, low + rng.uniform(0.1, 6, (count, 2))], 1)  # (B, start/end, y/x) in pixels
        if "Center" in box:
            pairs = np.stack([pairs.mean(1), pairs[:, 1] - pairs[:, 0]], 1)
        if self.settings["normalized"]:
            pairs = pairs / np.array(self.image)
        pairs = pairs / self.settings["scale"]
        self.boxes = np.float32(pairs[:, :, ::-1] if "Width" in box else pairs).reshape(count, 4)
        self.x = np.float32(rng.standard_normal((self.images, self.channels, *self.image)))
        self.dy = np.float32(rng.standard_normal((count, self.images, self.channels, *self.size)))
        self.matrix, self.inside = self._weights(plain)

    def _weights(self, plain: bool) -> tuple[Array, Array]:
        """(B, h, w, H, W) and whether each of (B, h, w) lies inside."""
        height, width = self.image
        rows, columns = self.size
        matrix, inside = (
            np.zeros((len(self.boxes), rows, columns, height, width)),
            np.zeros((len(self.boxes), rows, columns), bool),
        )
        for b, numbers in enumerate(self.boxes.astype(np.float64)):
            pairs = numbers.reshape(2, 2) * float(np.float32(self.settings["scale"]))
            pairs = pairs[:, ::-1] if "Width" in self.box else pairs
            pairs = pairs * np.array(self.image) if self.settings["normalized"] else pairs
            if "Center" in self.box:
                pairs = np.array([pairs[0] - pairs[1] / 2, pairs[0] + pairs[1] / 2])
            (top, left), (bottom, right) = pairs
            for r, p in enumerate(offsets(self.sampling, bottom - top, rows, plain)):
                for c, q in enumerate(offsets(self.sampling, right - left, columns, plain)):
                    y, x = top + p, left + q
                    if not (0 <= y <= height - 1 and 0 <= x <= width - 1):
                        continue
                    inside[b, r, c] = True
                    y0, x0 = int(np.floor(y)), int(np.floor(x))
                    for yy, v in ((y0, 1 - (y - y0)), (min(y0 + 1, height - 1), y - y0)):
                        for xx, h in ((x0, 1 - (x - x0)), (min(x0 + 1, width - 1), x - x0)):
                            matrix[b, r, c, yy, xx] += v * h
        return matrix, inside

    @property
    def parameters(self) -> capi.BNNSLayerParametersCropResize:
        return capi.BNNSLayerParametersCropResize(
            normalized_coordinates=self.settings["normalized"], spatial_scale=self.settings["scale"],
            extrapolation_value=self.settings["outside"],
            sampling_mode=capi.BNNSLinearSamplingMode[f"BNNSLinearSampling{self.sampling}"],
            box_coordinate_mode=capi.BNNSBoxCoordinateMode[f"BNNS{self.box}"], method=capi.BNNSInterpolationMethodLinear,
        )  # fmt: skip

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        height, width = self.image
        images = Tensor(LAST_MAJOR[4], (width, height, self.channels, self.images))
        crops = Tensor(LAST_MAJOR[5], (*self.size[::-1], self.channels, self.images, len(self.boxes)))
        return images, Tensor(LAST_MAJOR_2D, (4, len(self.boxes))), crops

    def expected(self) -> tuple[Array, Array]:
        y = np.einsum("brchw,nkhw->bnkrc", self.matrix, self.x.astype(np.float64))
        y = np.where(self.inside[:, None, None], y, self.settings["outside"])
        arriving = self.dy * self.inside[:, None, None]
        return y, np.einsum("brchw,bnkrc->nkhw", self.matrix, arriving.astype(np.float64))

    def check(self) -> None:
        images, roi, crops = self.tensors
        y, dx = self.expected()
        got = np.full(y.shape, np.nan, np.float32)
        boxes = roi.descriptor(self.boxes)
        assert capi.BNNSCropResize(self.parameters, images.descriptor(self.x), boxes, crops.descriptor(got)) == 0, (
            ob.last_error()
        )
        assert_within(got, y, 3e-6 * (1 + np.abs(y)), "y")
        for flags in (0, 1):
            gradient = np.full(dx.shape, np.nan if flags == 0 else 2.0, np.float32)
            status = capi.BNNSCropResizeBackward(
                self.parameters, images.descriptor(gradient, flags), boxes, crops.descriptor(self.dy)
            )
            assert status == 0, ob.last_error()
            assert_within(gradient, dx + 2.0 * flags, 1e-5 * (1 + np.abs(dx)), f"dx, flags {flags}")


@pytest.mark.parametrize(
    "sampling, box",
    [
        pytest.param(s, b, marks=pytest.mark.covers(
            f"crop.sampling.{s}", f"crop.box.{b}", "direct.cropresize", "direct.cropresize.bwd", "fn.BNNSCropResize",
            "fn.BNNSCropResizeBackward",
        ))
        for s, b in itertools.product(SAMPLING, BOXES)
    ],
)  # fmt: skip
def test_by_definition(sampling: str, box: str, engine: str) -> None:
    for seed, options in enumerate(
        [{}, {"normalized": True, "scale": 0.5}, {"size": (1, 1)}, {"size": (7, 2), "scale": 2.0}, {"image": (1, 1)}]
    ):
        Problem(seed, sampling, box, **options).check()


@pytest.mark.parametrize("sampling", SAMPLING)
def test_plain_extent(sampling: str, engine: str) -> None:
    """The other interpretation takes L for L + 1."""
    with compat.using(crop_resize_plain_extent=True):
        Problem(3, sampling, plain=True).check()


@pytest.mark.parametrize("seed", range(30))
def test_random_configurations(seed: int, engine: str) -> None:
    rng = np.random.default_rng(seed)
    Problem(
        seed, SAMPLING[rng.integers(5)], BOXES[rng.integers(4)], normalized=bool(rng.integers(2)),
        scale=float(rng.uniform(0.3, 3)), outside=float(rng.standard_normal()), images=int(rng.integers(1, 4)),
        channels=int(rng.integers(1, 5)), image=tuple(int(n) for n in rng.integers(1, 14, 2)),
        size=tuple(int(n) for n in rng.integers(1, 9, 2)),
    ).check()  # fmt: skip


@pytest.mark.covers("direct.cropresize", "direct.cropresize.bwd")
def test_layouts_strides_and_types(engine: str) -> None:
    """FirstMajor layouts, gaps and float16 give the same numbers."""
    p = Problem(1, "AlignCorners", BOXES[0])
    y, dx = p.expected()
    images, roi, crops = p.tensors
    padded = Storage(Tensor(images.layout, images.size, (1, 14, 140, 500)), 1, 0, p.x.transpose(3, 2, 1, 0)[None])
    target = Storage(Tensor(crops.layout, crops.size, (2, 11, 50, 170, 400)), 1)
    boxes = roi.descriptor(p.boxes)
    assert capi.BNNSCropResize(p.parameters, padded.descriptor(), boxes, target.descriptor()) == 0, ob.last_error()
    assert_within(target.read()[0].transpose(4, 3, 2, 1, 0), y, 3e-6 * (1 + np.abs(y)), "strided")
    target.assert_guards_intact("y")
    gradient = Storage(padded.tensor, 1)
    assert capi.BNNSCropResizeBackward(p.parameters, gradient.descriptor(), boxes, crops.descriptor(p.dy)) == 0
    assert_within(gradient.read()[0].transpose(3, 2, 1, 0), dx, 1e-5 * (1 + np.abs(dx)), "strided dx")
    gradient.assert_guards_intact("dx")

    got = np.empty(y.shape, np.float32)
    first = [
        capi.BNNSNDArrayDescriptor(layout=FIRST_MAJOR[a.ndim], size=a.shape, data=a, data_type=FLOAT32)
        for a in (p.x, p.boxes, got)
    ]
    assert capi.BNNSCropResize(p.parameters, *first) == 0, ob.last_error()
    assert_within(got, y, 3e-6 * (1 + np.abs(y)), "first major")

    half = np.float16(p.x)
    small = np.empty(y.shape, np.float16)
    d = [Tensor(t.layout, t.size, data_type=FLOAT16).descriptor(a) for t, a in ((images, half), (crops, small))]
    assert capi.BNNSCropResize(p.parameters, d[0], boxes, d[1]) == 0, ob.last_error()
    assert_within(small.astype(np.float64), y, 4e-3 * (1 + np.abs(y)), "half")


def test_threads_give_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 8, 40, 50)).astype(np.float32)
    boxes = rng.uniform(0, 30, (20, 4)).astype(np.float32)
    dy = rng.standard_normal((20, 3, 8, 14, 14)).astype(np.float32)
    layer = ob.CropResizeLayer(box_coordinate_mode=ob.BoxCoordinateMode.CENTER_SIZE_HEIGHT_FIRST)
    results = []
    for threads in (1, 2, 3):
        options = capi.BNNSFilterParameters(n_threads=threads)
        y = layer.apply(x, boxes, output_size=(14, 14), filter_parameters=options)
        results.append((y, layer.apply_backward(boxes, dy, input_size=(40, 50), filter_parameters=options)))
    for y, dx in results[1:]:
        assert_bitwise(y, results[0][0], "y")
        assert_bitwise(dx, results[0][1], "dx")


def test_special_numbers(engine: str) -> None:
    """NaN in an image shows where it is sampled, never where the position lies outside."""
    x = np.full((1, 1, 3, 3), np.nan, np.float32)
    layer = ob.CropResizeLayer(extrapolation_value=7.0, sampling_mode=ob.LinearSamplingMode.ALIGN_CORNERS)
    y = layer.apply(x, np.float32([[-2, 0, 0, 0]]), output_size=(3, 1))
    np.testing.assert_array_equal(y.ravel(), [7, 7, np.nan])


# ---------------------------------------------------------------------------------------------------------------------
# The class


@pytest.mark.covers("swift.CropResizeLayer")
def test_layer(engine: str) -> None:
    p = Problem(2, "UnalignCorners", "CenterSizeWidthFirst", normalized=True, scale=0.5)
    y, dx = p.expected()
    layer = ob.CropResizeLayer(
        coordinates_are_normalized=True, spatial_scale=0.5, extrapolation_value=-3.5,
        sampling_mode=ob.LinearSamplingMode.UNALIGN_CORNERS,
        box_coordinate_mode=ob.BoxCoordinateMode.CENTER_SIZE_WIDTH_FIRST,
    )  # fmt: skip
    made = layer.apply(p.x, p.boxes, output_size=p.size)
    assert_within(made, y, 3e-6 * (1 + np.abs(y)), "y")
    given = np.empty_like(made)
    assert layer.apply(p.x, p.boxes, given) is given
    assert_bitwise(given, made, "given")
    gradient = layer.apply_backward(p.boxes, p.dy, input_size=p.image)
    assert_within(gradient, dx, 1e-5 * (1 + np.abs(dx)), "dx")
    held = np.ones_like(gradient)
    assert layer.apply_backward(p.boxes, p.dy, held, accumulate=True) is held
    np.testing.assert_allclose(held, gradient + 1, atol=4 * EPSILON * np.abs(dx).max() + 1e-6)
    assert "CropResizeLayer(" in repr(layer)


# ---------------------------------------------------------------------------------------------------------------------
# Bad input


def good() -> dict[str, Any]:
    p = Problem(0)
    images, roi, crops = p.tensors
    return {
        "layer_params": p.parameters, "input": images.descriptor(p.x), "roi": roi.descriptor(p.boxes),
        "output": crops.descriptor(np.full(p.dy.shape, 5, np.float32)),
    }  # fmt: skip


def changed(**changes: Any) -> Any:
    p = Problem(0).parameters
    for name, value in changes.items():
        setattr(p, name, value)
    return p


BAD: list[tuple[dict[str, Any], str]] = [
    ({"input": None}, r"input is NULL, but this call needs it"),
    ({"roi": None}, r"roi is NULL"),
    ({"output": None}, r"output is NULL"),
    ({"layer_params": None}, r"layer_params is NULL"),
    ({"layer_params": changed(sampling_mode=5)}, r"sampling_mode is 5, which is not a BNNSLinearSamplingMode"),
    ({"layer_params": changed(box_coordinate_mode=4)}, r"box_coordinate_mode is 4, which is not a BNNSBoxCoordinateMode"),
    ({"layer_params": changed(spatial_scale=float("inf"))}, r"spatial_scale is inf"),
    ({"input": Tensor(IMAGE, (11, 9, 3)).descriptor(np.zeros(297, "f4"))}, r"input is ImageCHW .*Use BNNSDataLayout4DLastMajor"),
    ({"roi": Tensor(LAST_MAJOR_2D, (5, 4)).descriptor(np.zeros(20, "f4"))}, r"roi is .*A box is four numbers"),
    ({"roi": Tensor(LAST_MAJOR_2D, (4, 6)).descriptor(np.zeros(24, "f4"))}, r"there are 6 boxes"),
    ({"roi": Tensor(LAST_MAJOR_2D, (4, 5)).descriptor(np.full(20, np.nan, "f4"))}, r"roi holds a box with NaN"),
    ({"roi": Tensor(LAST_MAJOR_2D, (4, 5)).descriptor(np.zeros(19, "f4"))}, r"roi\.data holds 76 bytes"),
    ({"roi": vector(4).descriptor(np.zeros(4, "f4"))}, r"roi is Vector"),
    ({"output": Tensor(LAST_MAJOR[5], (5, 4, 3, 2, 4)).descriptor(np.zeros(600, "f4"))}, r"channels 3, images 2 and boxes 5"),
    ({"output": Tensor(LAST_MAJOR[5], (5, 4, 3, 2, 5)).descriptor(np.zeros(599, "f4"))}, r"output\.data holds"),
    ({"output": Tensor(LAST_MAJOR[5], (5, 4, 3, 2, 5)).descriptor(None)}, r"output\.data is NULL"),
    ({"output": Tensor(LAST_MAJOR[5], (5, 4, 3, 2, 5)).descriptor(bytes(2400))}, r"output\.data is read-only"),
]  # fmt: skip


@pytest.mark.parametrize("changes, pattern", BAD, ids=lambda v: v[:24] if isinstance(v, str) else "")
def test_bad_input(changes: dict[str, Any], pattern: str, engine: str) -> None:
    arguments = good() | changes
    out = good()["output"] if "output" in changes else arguments["output"]
    assert capi.BNNSCropResize(**arguments) == -1
    message = str(ob.last_error())
    assert message.startswith("BNNSCropResize: ") and re.search(pattern, message), message
    assert (out.data == 5).all()


def test_bad_backward(engine: str) -> None:
    g = good()
    dx = g["input"].copy()
    dx.data = np.full(g["input"].data.shape, 5, np.float32)
    arguments = {"layer_params": g["layer_params"], "in_delta": dx, "roi": g["roi"], "out_delta": g["output"]}
    flagged = dx.copy()
    flagged.flags = 2
    half = dx.copy()
    half.data_type, half.data = FLOAT16, np.zeros(dx.data.shape, np.float16)
    for changes, pattern in [
        ({"in_delta": None}, "in_delta is NULL"),
        ({"out_delta": None}, "out_delta is NULL"),
        ({"in_delta": flagged}, "in_delta.flags is 2"),
        ({"in_delta": half}, "training works on Float32"),
    ]:
        refused(capi.BNNSCropResizeBackward(**(arguments | changes)), re.escape(pattern))
        assert (dx.data == 5).all()
    with pytest.raises(TypeError, match="layer_params must be"):
        capi.BNNSCropResizeBackward(3, dx, g["roi"], g["output"])
    with pytest.raises(TypeError, match="in_delta must be a BNNSNDArrayDescriptor"):
        capi.BNNSCropResizeBackward(**(arguments | {"in_delta": 3}))


def test_layer_errors(engine: str) -> None:
    with pytest.raises(ob.LayerCreationError, match="sampling_mode must be a LinearSamplingMode"):
        ob.CropResizeLayer(sampling_mode=1)  # type: ignore[arg-type]
    with pytest.raises(ob.LayerCreationError, match="spatial_scale is nan"):
        ob.CropResizeLayer(spatial_scale=float("nan"))
    x, boxes, layer = np.zeros((1, 1, 3, 3), np.float32), np.zeros((2, 4), np.float32), ob.CropResizeLayer()
    for call, kind, pattern in [
        (lambda: layer.apply(x, boxes), ValueError, "output_size is None and so is output"),
        (lambda: layer.apply(x, boxes, output_size=3), TypeError, r"must be \(height, width\)"),
        (lambda: layer.apply(x, boxes, output_size=(0, 3)), ValueError, "Both must be at least 1"),
        (lambda: layer.apply(x[0], boxes, output_size=(2, 2)), ValueError, "input has shape"),
        (lambda: layer.apply(x, boxes[0], output_size=(2, 2)), ValueError, "region_of_interest has shape"),
        (lambda: layer.apply(x, boxes, np.zeros((2, 1, 1, 3, 2), "f4").swapaxes(3, 4)), ValueError, "not C-contiguous"),
        (lambda: layer.apply(x.astype(complex), boxes, output_size=(2, 2)), TypeError, "input is complex128"),
        (lambda: layer.apply_backward(boxes, np.zeros((2, 1, 1, 2, 2), "f4")), ValueError, "input_size is None"),
    ]:
        with pytest.raises(kind, match=pattern) as caught:
            call()
        assert isinstance(caught.value, ob.LayerApplyError)


def test_choices_are_names_of_the_layer_as_in_swift() -> None:
    assert ob.CropResizeLayer.LinearSamplingMode is ob.LinearSamplingMode
    assert ob.CropResizeLayer.BoxCoordinateMode is ob.BoxCoordinateMode
