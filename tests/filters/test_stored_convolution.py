"""Convolutions on Float16, BFloat16 and bytes: kernels read and write them as they are stored.

The oracle sums what the stored numbers stand for, tap by tap, in float64, or in integers: sums of bytes are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import openbnns
from helpers import (
    BFLOAT16,
    EPSILON,
    FLOAT16,
    FLOAT32,
    INT8,
    INT32,
    IOHRWR,
    OIHRWR,
    OIHW,
    PACK32,
    UINT8,
    Array,
    Storage,
    Tensor,
    assert_bitwise,
    assert_within,
    image,
    packed,
    vector,
)
from openbnns import capi
from openbnns.capi import BNNSDataLayout
from stored_tensors import BYTES, FLOATS, names, nothing_converted_in_python, stored

Pair = tuple[int, int]


@dataclass(frozen=True)
class Window:
    """A convolution: pairs are (vertical, horizontal), ``pad`` is (left, right, up, down)."""

    name: str
    inputs: tuple[int, int, int]  # channels, height, width
    outputs: int
    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1
    batch: int = 2

    @property
    def image(self) -> Pair:
        left, right, up, down = self.pad
        sizes = zip(self.inputs[1:], ((up, down), (left, right)), self.kernel, self.stride, self.dilation, strict=True)
        height, width = ((n + sum(p) - d * (k - 1) - 1) // s + 1 for n, p, k, s, d in sizes)
        return height, width

    @property
    def products(self) -> int:
        return self.inputs[0] // self.groups * self.kernel[0] * self.kernel[1]

    def sums(self, x: Array, w: Array) -> Array:
        """x (N, C, H, W) by w (O, C / groups, KH, KW), zeros around the image."""
        left, right, up, down = self.pad
        x = np.pad(x, ((0, 0), (0, 0), (up, down), (left, right)))
        (height, width), group = self.image, self.outputs // self.groups
        y = np.zeros((len(x), self.outputs, height, width), np.result_type(x, w))
        for ky in range(self.kernel[0]):
            for kx in range(self.kernel[1]):
                top, start = ky * self.dilation[0], kx * self.dilation[1]
                rows = slice(top, top + (height - 1) * self.stride[0] + 1, self.stride[0])
                columns = slice(start, start + (width - 1) * self.stride[1] + 1, self.stride[1])
                for g in range(self.groups):
                    mine = slice(g * group, (g + 1) * group)
                    read = slice(g * w.shape[1], (g + 1) * w.shape[1])
                    cells = x[:, read, rows, columns].reshape(len(x), w.shape[1], -1)
                    y[:, mine] += (w[mine, :, ky, kx] @ cells).reshape(len(x), group, height, width)
        return y


WINDOWS = (
    Window("few channels", (3, 9, 11), 5, (3, 3), pad=(1, 1, 1, 1)),
    Window("one pixel", (5, 1, 1), 3, (1, 1)),
    Window("tiles", (40, 20, 21), 48, (3, 3), pad=(1, 1, 1, 1)),
    Window("tiles of five", (32, 18, 16), 32, (5, 5), pad=(2, 2, 2, 2)),
    Window("blocks", (70, 9, 7), 37, (2, 3), (2, 1), (1, 2), (2, 0, 1, 3), batch=3),
    Window("short rows", (33, 4, 3), 40, (3, 3), pad=(1, 1, 1, 1), batch=5),
    Window("mostly padding", (24, 3, 3), 20, (3, 3), (2, 2), (1, 1), (5, 4, 6, 5)),
    Window("pointwise", (64, 16, 17), 50, (1, 1)),
    Window("strided points", (20, 5, 5), 24, (1, 1), (2, 2)),
    Window("groups", (36, 8, 8), 20, (3, 3), pad=(1, 0, 0, 1), groups=2),
    Window("depthwise", (17, 10, 9), 17, (3, 3), pad=(1, 1, 1, 1), groups=17),
    Window("depthwise, small", (48, 7, 7), 48, (3, 3), pad=(1, 1, 1, 1), groups=48),
    Window("depthwise, two each", (16, 8, 8), 32, (5, 5), (2, 2), pad=(2, 1, 2, 2), groups=16),
    Window("depthwise, large", (9, 20, 20), 9, (17, 17), pad=(8, 8, 8, 8), groups=9),
    Window("depthwise, large image", (5, 131, 140), 5, (3, 3), (2, 2), pad=(1, 1, 1, 1), groups=5),
    Window("covering", (6, 7, 5), 9, (7, 5)),
    Window("covering all rows", (6, 7, 15), 9, (7, 3), pad=(1, 2, 0, 0)),
    Window("one column", (12, 30, 1), 6, (3, 1), pad=(0, 0, 1, 1)),
    Window("weights in parts", (300, 6, 6), 230, (3, 3), pad=(1, 1, 1, 1)),
    Window("groups in parts", (384, 5, 5), 384, (5, 5), pad=(2, 2, 2, 2), groups=6, batch=1),
    Window("huge stride", (20, 5, 5), 3, (3, 3), (40, 40), pad=(30, 30, 30, 30)),
    Window("tiles, odd sizes", (37, 13, 11), 35, (3, 3), pad=(2, 1, 0, 2), batch=3),
    Window("tiles in part", (31, 9, 30), 17, (3, 3), pad=(0, 0, 2, 1)),
    Window("tiles, dilated", (40, 14, 14), 40, (3, 3), (1, 1), (2, 1), (1, 1, 2, 2)),
    Window("pointwise, groups", (39, 23, 12), 24, (1, 1), groups=3),
    Window("tiles, groups", (64, 14, 14), 64, (3, 3), pad=(1, 1, 1, 1), groups=2),
    Window("depthwise, long rows", (5, 30, 37), 5, (3, 3), pad=(1, 1, 1, 1), groups=5),
    Window("depthwise, every other", (6, 29, 34), 12, (3, 3), (2, 2), pad=(0, 1, 1, 0), groups=6),
    Window("depthwise, every other row", (4, 18, 25), 4, (3, 3), (2, 1), pad=(2, 0, 2, 1), groups=4, batch=1),
    Window("depthwise, dilated", (4, 12, 40), 4, (3, 3), (1, 1), (1, 3), (3, 2, 1, 1), groups=4),
    Window("depthwise, dilated and strided", (4, 7, 51), 8, (3, 3), (1, 2), (1, 3), (3, 2, 1, 1), groups=4),
    Window("depthwise, five", (6, 21, 37), 6, (5, 5), (1, 2), pad=(2, 2, 2, 2), groups=6),
    Window("depthwise, flat", (7, 3, 50), 7, (1, 5), pad=(2, 2, 0, 0), groups=7),
    Window("depthwise, even", (3, 11, 23), 3, (2, 4), (2, 1), pad=(1, 2, 1, 0), groups=3),
    Window("depthwise, mostly padding", (3, 2, 3), 3, (3, 3), pad=(9, 11, 4, 5), groups=3),
    Window("depthwise, no padding", (3, 12, 40), 3, (3, 3), groups=3, batch=1),
    Window("depthwise, square", (5, 28, 28), 5, (3, 3), pad=(1, 1, 1, 1), groups=5),
    Window("depthwise, fourteen", (6, 14, 14), 12, (3, 3), pad=(1, 1, 1, 1), groups=6),
    Window("depthwise, padded on the right", (3, 3, 9), 3, (3, 3), pad=(0, 30, 0, 5), groups=3),
    Window("depthwise, rows apart", (4, 25, 67), 4, (3, 7), (3, 2), (2, 1), pad=(3, 3, 2, 2), groups=4),
    Window("tiles, many channels", (260, 14, 14), 272, (3, 3), pad=(1, 1, 1, 1), batch=3),
    Window("few channels, wide", (3, 21, 39), 67, (7, 7), (2, 2), pad=(3, 2, 3, 3)),
    Window("few channels, two groups", (10, 9, 23), 46, (2, 3), dilation=(3, 2), pad=(2, 3, 1, 0), groups=2, batch=3),
    Window("few channels, points", (7, 12, 20), 33, (1, 1)),
)
WIDE = WINDOWS[-3:]  # rows of few channels


class Layer:
    """A convolution filter with random weights, and what it computes."""

    def __init__(
        self, window: Window, types: Any, *, scales: dict[str, Pair | tuple[float, float]] | None = None, client: bool = False,
        activation: str = "Identity", threads: int = 0, weights_layout: BNNSDataLayout = OIHW, gaps: bool = False,
    ) -> None:  # fmt: skip
        self.window = window
        given: dict[str, Any] = {"x": (0.0, 0.0), "w": (0.0, 0.0), "y": (0.0, 0.0)} | (scales or {})
        x, w, b, y = types
        channels, height, width = window.inputs

        def options(name: str, data_type: Any) -> dict[str, Any]:
            return {"data_type": data_type, "scale": given[name][0], "bias": given[name][1]}

        stride = (2, 2 * width + 3) if gaps else ()
        self.x = image(channels, height, width, stride=stride, **options("x", x))
        self.y = image(
            window.outputs, *window.image, stride=(1, window.image[1] + 2) if gaps else (), **options("y", y)
        )
        self.rng = np.random.default_rng([*window.inputs, window.outputs])
        maps = (channels // window.groups, window.outputs)
        shape = (*window.kernel[::-1], *(maps[::-1] if weights_layout == IOHRWR else maps))
        self.w = Tensor(weights_layout, shape, **options("w", w))
        self.weights = self._fill(Storage(self.w))
        self.bias = None if b is None else self._fill(Storage(vector(window.outputs, data_type=b)))
        left, right, up, down = window.pad
        self.parameters = capi.BNNSLayerParametersConvolution(
            i_desc=self.x.descriptor(), o_desc=self.y.descriptor(), w_desc=self.weights.descriptor(),
            bias=capi.BNNSNDArrayDescriptor() if self.bias is None else self.bias.descriptor(),
            activation=capi.BNNSActivation(function=getattr(capi, f"BNNSActivationFunction{activation}")),
            x_stride=window.stride[1], y_stride=window.stride[0], x_dilation_stride=window.dilation[1],
            y_dilation_stride=window.dilation[0], pad=[left, right, up, down], groups=window.groups,
        )  # fmt: skip
        self.filter = capi.BNNSFilterCreateLayerConvolution(
            self.parameters,
            capi.BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr if client else 0, n_threads=threads),
        )
        assert self.filter is not None, openbnns.last_error()

    def _fill(self, storage: Storage) -> Storage:
        storage.elements[storage.places] = stored(self.rng, storage.tensor, storage.batch, *storage.tensor.size)
        storage.before = storage.memory.copy()
        return storage

    def input(self, gap: int = 0) -> Storage:
        return self._fill(Storage(self.x, self.window.batch, gap))

    def apply(self, x: Storage, gap: int = 0) -> Storage:
        y = Storage(self.y, x.batch, gap)
        status = capi.BNNSFilterApplyBatch(self.filter, x.batch, x.elements, x.stride, y.elements, y.stride)
        assert status == 0, openbnns.last_error()
        x.assert_unchanged("input")
        y.assert_guards_intact("output")
        return y

    def kernels(self, values: Array) -> Array:
        """The weights (O, C / groups, KH, KW)."""
        return values[0].T.swapaxes(0, 1) if self.w.layout == IOHRWR else values[0].T

    def sums(self, x: Storage) -> tuple[Array, Array]:
        """conv(x, w) + b, and the sum of the magnitudes of its terms, both in the order of size[]."""
        w = self.kernels(self.weights.read())
        b = np.zeros(self.window.outputs) if self.bias is None else self.bias.read()[0]
        read = x.read().transpose(0, 3, 2, 1)
        exact = self.window.sums(read, w) + b[:, None, None]
        magnitude = self.window.sums(np.abs(read), np.abs(w)) + np.abs(b)[:, None, None]
        return exact.transpose(0, 3, 2, 1), magnitude.transpose(0, 3, 2, 1)

    def bound(self, exact: Array, magnitude: Array) -> Array:
        """Rounding of sums in float32, with what the transforms of small kernels add, and of the result."""
        terms = self.window.products + 4
        if self.window.name.startswith("tiles"):
            terms = 8 * terms
        return EPSILON / 2 * terms * magnitude + self.y.unit(exact) / 2 * 1.01


def name_of(window: Window) -> str:
    return window.name


@pytest.mark.parametrize("client", [False, True])
@pytest.mark.parametrize("window", WINDOWS, ids=name_of)
@pytest.mark.parametrize("types", FLOATS, ids=names)
def test_floats(types: Any, window: Window, client: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer(window, types, client=client, scales={"x": (0.25, -3.0), "w": (0.125, 0.5)})
    x = layer.input()
    with nothing_converted_in_python(monkeypatch):
        y = layer.apply(x)
        again = layer.apply(x)  # with weights that were packed by the first call
    exact, magnitude = layer.sums(x)
    assert_within(y.read(), exact, layer.bound(exact, magnitude), "y")
    assert_bitwise(again.raw(), y.raw(), "the second call")


@pytest.mark.parametrize("width", [14, 28, 34])
@pytest.mark.parametrize(("data_type", "nan"), [(FLOAT16, 0x7C01), (BFLOAT16, 0x7F81)], ids=["Float16", "BFloat16"])
def test_depthwise_windows_keep_nan_to_themselves(data_type: Any, nan: int, width: int) -> None:
    window = Window("depthwise", (3, 9, width), 3, (3, 3), pad=(1, 1, 1, 1), groups=3)
    layer = Layer(window, (data_type, data_type, None, data_type))
    x = layer.input()
    before = layer.apply(x).read()
    for column in (0, width // 2, width - 1):
        numbers, place = x.elements.view(np.uint16), x.places[1, column, 4, 2]
        old, numbers[place] = int(numbers[place]), nan
        x.before = x.memory.copy()
        after = layer.apply(x).read()
        numbers[place] = old
        meets = np.zeros(after.shape, bool)
        meets[1, max(0, column - 1) : column + 2, 3:6, 2] = True
        assert np.array_equal(np.isnan(after), meets) and np.array_equal(after[~meets], before[~meets])


@pytest.mark.parametrize("client", [False, True])
@pytest.mark.parametrize("window", WINDOWS, ids=name_of)
@pytest.mark.parametrize("types", BYTES, ids=names)
def test_bytes_are_exact(types: Any, window: Window, client: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer(window, (*types, INT32, INT32), client=client)
    x = layer.input()
    with nothing_converted_in_python(monkeypatch):
        y, again = layer.apply(x).raw(), layer.apply(x).raw()
    assert layer.bias is not None
    read, w = (t.raw().astype(np.int64) for t in (x, layer.weights))
    expected = (
        window.sums(read.transpose(0, 3, 2, 1), layer.kernels(w)) + layer.bias.raw().astype(np.int64)[0][:, None, None]
    )
    assert np.array_equal(y, expected.transpose(0, 3, 2, 1)) and np.array_equal(again, y)


@pytest.mark.parametrize("types", BYTES, ids=names)
@pytest.mark.parametrize("beyond", [False, True])
def test_the_largest_sums_are_exact(types: Any, beyond: bool) -> None:
    """Kernels of 3 x 3 with so many channels that sums have just less than 28 bits, and more."""
    limits = [np.iinfo(t) for t in (Tensor(OIHW, (1, 1, 1, 1), data_type=t).dtype for t in types)]
    most = [max(-limit.min, limit.max) for limit in limits]
    channels = 2**27 // (9 * most[0] * most[1]) + beyond
    window = Window("largest sums", (channels, 6, 8), 18, (3, 3), pad=(1, 1, 1, 1), batch=6)
    layer = Layer(window, (*types, None, INT32), client=True)
    x = layer.input()
    rng = np.random.default_rng(channels)
    ends = [(limit.min, limit.max) for limit in limits]
    for xs, ws in ((ends[0][:1], ends[1][:1]), (ends[0][1:], ends[1][1:]), (ends[0][:1], ends[1][1:]), ends):
        for storage, numbers in ((x, xs), (layer.weights, ws)):
            storage.elements[storage.places] = rng.choice(numbers, storage.elements[storage.places].shape)
            storage.before = storage.memory.copy()
        read, w = (t.raw().astype(np.int64) for t in (x, layer.weights))
        expected = window.sums(read.transpose(0, 3, 2, 1), layer.kernels(w)).transpose(0, 3, 2, 1)
        assert np.array_equal(layer.apply(x).raw(), expected)


@pytest.mark.parametrize("window", WINDOWS, ids=name_of)
@pytest.mark.parametrize("types", BYTES, ids=names)
def test_bytes_with_scale_and_bias(types: Any, window: Window) -> None:
    """Outside the image values are 0, whatever the bias: sums are within the rounding of the result."""
    layer = Layer(window, (*types, FLOAT32, FLOAT32), scales={"x": (0.1, 0.3), "w": (0.013, -0.7)})
    x = layer.input()
    exact, magnitude = layer.sums(x)
    assert_within(layer.apply(x).read(), exact, EPSILON / 2 * 1.0001 * np.abs(exact) + 2.0**-44 * magnitude, "y")


@pytest.mark.parametrize("data_type", [INT8, UINT8, INT32])
@pytest.mark.parametrize("window", [WINDOWS[0], WINDOWS[4], WINDOWS[10]], ids=name_of)
def test_results_of_bytes_round_and_saturate(window: Window, data_type: Any) -> None:
    """Powers of 2 as scales: every sum, ties included, is exact in float64."""
    scales = {"x": (0.5, 0.25), "w": (0.125, 0.0), "y": (4.0, -6.0)}
    layer = Layer(window, (INT8, INT8, None, data_type), scales=scales)
    x = layer.input()
    exact, _ = layer.sums(x)
    assert np.array_equal(layer.apply(x).raw(), layer.y.encode(exact))


@pytest.mark.parametrize("data_type", [INT8, UINT8])
@pytest.mark.parametrize("types", BYTES, ids=names)
@pytest.mark.parametrize("window", [*(WINDOWS[i] for i in (0, 2, 7, 10, 26, 27)), *WIDE], ids=name_of)
def test_results_in_the_middle_between_integers_are_even(window: Window, types: Any, data_type: Any) -> None:
    """Results are thirds of sums times a power of 2, which no binary number is: single precision would not tell."""
    halves = 3 * 2 ** (5 + window.products.bit_length() // 2)
    layer = Layer(window, (*types, None, data_type), scales={"x": (0.5, 0.0), "w": (2.0, 0.0), "y": (halves, 0.0)})
    x = layer.input()
    read, w = (t.raw().astype(np.int64) for t in (x, layer.weights))
    sums = window.sums(read.transpose(0, 3, 2, 1), layer.kernels(w)).transpose(0, 3, 2, 1)
    whole, rest = np.divmod(sums, halves)
    assert (2 * rest == halves).any()
    nearest = whole + ((2 * rest > halves) | ((2 * rest == halves) & (whole % 2 == 1)))
    limits = np.iinfo(layer.y.dtype)
    assert np.array_equal(layer.apply(x).raw(), np.clip(nearest, limits.min, limits.max))


@pytest.mark.parametrize("data_type", [INT8, UINT8])
@pytest.mark.parametrize("window", [*(WINDOWS[i] for i in (2, 7, 26)), WIDE[0]], ids=name_of)
def test_results_of_bytes_are_the_nearest(window: Window, data_type: Any) -> None:
    """With scales and biases of any kind, among them such that sums and biases are large and cancel."""
    for x_bias, y_scale, y_bias in ((0.0, 0.0137, 0.0), (0.31, 0.11, -1.7), (1e3, 7.7, 2.5e4), (0.0, 1e-30, 0.0)):
        scales = {"x": (0.013, x_bias), "w": (0.0171, 0.0), "y": (y_scale, y_bias)}
        layer = Layer(window, (UINT8, INT8, FLOAT32, data_type), scales=scales)
        x = layer.input()
        exact, magnitude = layer.sums(x)
        limits = np.iinfo(layer.y.dtype)
        scale, bias = (np.float64(np.float32(number)) for number in (y_scale, y_bias))
        quotient = (exact - bias) / scale
        wanted, got = np.clip(np.rint(quotient), limits.min, limits.max), layer.apply(x).raw().astype(np.float64)
        close = np.abs(np.abs(quotient - np.floor(quotient)) - 0.5) < 2.0**-40 * (magnitude + abs(bias)) / scale
        assert np.array_equal(got[~close], wanted[~close]) and close.mean() < 0.01 + (y_scale < 1e-20)


@pytest.mark.parametrize("function", ["RectifiedLinear", "Tanh", "Softmax"])
@pytest.mark.parametrize(
    "types", [FLOATS[0], (BFLOAT16, BFLOAT16, None, FLOAT32), (INT8, INT8, None, UINT8)], ids=names
)
@pytest.mark.parametrize("window", [*(WINDOWS[i] for i in (0, 2, 4, 7, 10, 15, 16, 17)), WIDE[1]], ids=name_of)
def test_activations_see_floats(window: Window, types: Any, function: str) -> None:
    scales = {"x": (0.01, 0.0), "w": (0.01, 0.0), "y": (1 / 255, 0.0)}
    layer = Layer(window, types, scales=scales, activation=function)
    x = layer.input()
    z, magnitude = layer.sums(x)
    if function == "Softmax":  # along the rows of the image
        e = np.exp(z - z.max(1, keepdims=True))
        expected = e / e.sum(1, keepdims=True)
    else:
        expected = np.tanh(z) if function == "Tanh" else np.maximum(z, 0)
    bound = EPSILON * 8 * (window.products + 20) * (magnitude + 1)
    expected_stored = layer.y.rounded(expected) if layer.y.is_integer else expected
    steps = layer.y.unit(expected)  # a result may be rounded to the next step
    assert_within(layer.apply(x).read(), expected_stored, bound + steps * (1.0 if layer.y.is_integer else 0.51), "y")


@pytest.mark.parametrize("layout", [OIHRWR, IOHRWR, PACK32])
@pytest.mark.parametrize(
    "types", [FLOATS[0], (UINT8, INT8, None, INT32), (FLOAT32, BFLOAT16, None, FLOAT32)], ids=names
)
def test_layouts_and_strides(types: Any, layout: BNNSDataLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps between samples are native; other layouts are moved, but not converted."""
    window = WINDOWS[4]
    for client, gaps in ((False, False), (True, True)):
        layer = Layer(window, types, weights_layout=layout, client=client, gaps=gaps)
        x = layer.input(gap=3)
        with nothing_converted_in_python(monkeypatch):
            y = layer.apply(x, gap=2)
        exact, magnitude = layer.sums(x)
        assert_within(y.read(), exact, layer.bound(exact, magnitude) * (not layer.y.is_integer), "y")


@pytest.mark.parametrize(
    "types", [FLOATS[0], FLOATS[1], (INT8, INT8, None, INT8), (UINT8, UINT8, None, FLOAT32)], ids=names
)
@pytest.mark.parametrize("window", [*(WINDOWS[i] for i in (0, 2, 4, 7, 9, 10, 14, 18, 21, 26, 27)), *WIDE], ids=name_of)
def test_any_number_of_threads_gives_the_same_bits(types: Any, window: Window) -> None:
    window = replace(window, batch=7)
    results = []
    for threads in (1, 2, 5):
        layer = Layer(window, types, threads=threads, scales={"x": (0.5, 3.0)})
        results.append(layer.apply(layer.input()).raw())
    for other in results[1:]:
        assert_bitwise(other, results[0], "y")


@pytest.mark.parametrize("types", [FLOATS[0], (INT8, INT8, INT32, INT8)], ids=names)
@pytest.mark.parametrize("window", [WINDOWS[2], WINDOWS[10]], ids=name_of)
def test_a_batch_in_parts_equals_its_samples(types: Any, window: Window) -> None:
    """Many samples are converted block by block."""
    layer = Layer(replace(window, batch=120), types)
    x = layer.input()
    y = layer.apply(x).raw()
    single = Storage(layer.x, 1)
    for n in (0, 53, 54, 119):
        single.elements[:] = x.elements[n * layer.x.extent : (n + 1) * layer.x.extent]
        single.before = single.memory.copy()
        alone = Layer(window, types).apply(single).raw()[0]
        if types[0] == INT8:
            assert np.array_equal(alone, y[n])
        else:
            assert_within(layer.y.decode(alone), layer.y.decode(y[n]), 0.05, "y")


def test_both_engines_agree() -> None:
    for types in (*FLOATS, *((*pair, None, FLOAT32) for pair in BYTES)):
        layer = Layer(WINDOWS[4], types, scales={"x": (0.25, 1.0), "w": (0.5, 1.0)})
        x = layer.input()
        native = layer.apply(x).read()
        with openbnns.engine("reference"):
            reference = layer.apply(x).read()
        exact, magnitude = layer.sums(x)
        assert_within(native, reference, layer.bound(exact, magnitude) + layer.y.unit(reference) * 1.01, "y")


@pytest.mark.parametrize("types", [*FLOATS, (INT8, UINT8, None, FLOAT32)], ids=names)
@pytest.mark.parametrize("window", [WINDOWS[i] for i in (0, 2, 4, 7, 10, 18)], ids=name_of)
def test_weights_of_the_caller_may_change(window: Window, types: Any) -> None:
    """Forms of the weights that a filter keeps of its own are made of the caller's in every call."""
    layer = Layer(window, types, client=True)
    x = layer.input()
    before = layer.apply(x).raw()
    layer._fill(layer.weights)
    exact, magnitude = layer.sums(x)
    after = layer.apply(x)
    assert_within(after.read(), exact, layer.bound(exact, magnitude), "y")
    assert not np.array_equal(after.raw(), before)


def test_weights_are_kept_in_their_type() -> None:
    layer = Layer(WINDOWS[18], (FLOAT16, INT8, FLOAT16, FLOAT16))
    assert layer.filter.weights.memory[1] == 300 * 230 * 9 and layer.filter.bias.memory[1] == 2 * 230


@pytest.mark.parametrize("client", [False, True])
@pytest.mark.parametrize("types", [(FLOAT16, FLOAT16, FLOAT16, FLOAT32), (INT8, UINT8, None, FLOAT32)], ids=names)
def test_a_chain_with_a_normalization_reads_stored_types(
    types: Any, client: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = Layer(WINDOWS[4], types, client=client)
    x = layer.input()
    h = layer.apply(x).read()
    norm = capi.BNNSLayerParametersNormalization(i_desc=layer.y.descriptor(), o_desc=layer.y.descriptor(), epsilon=1e-3)
    flags = capi.BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr if client else 0)
    kinds = [capi.BNNSConvolution, capi.BNNSBatchNorm]
    chain = capi.BNNSFilterCreateFusedLayer(2, kinds, [layer.parameters, norm], flags)
    assert chain is not None, openbnns.last_error()
    y = Storage(layer.y, x.batch)
    with nothing_converted_in_python(monkeypatch):
        assert capi.BNNSFusedFilterApplyBatch(chain, x.batch, x.elements, 0, y.elements, 0, True) == 0
    mean, variance = h.mean((0, 1, 2)), h.var((0, 1, 2))
    np.testing.assert_allclose(y.read(), (h - mean) / np.sqrt(variance + 1e-3), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("types", [FLOATS[0], (INT8, INT8, INT32, BFLOAT16)], ids=names)
def test_a_chain_with_a_quantization_reads_stored_types(types: Any) -> None:
    layer = Layer(WINDOWS[4], types)
    x = layer.input()
    h, scale = layer.apply(x).read(), np.array([0.25], np.float32)
    y = replace(packed(layer.y), data_type=INT8)
    quantization = capi.BNNSLayerParametersQuantization(
        function=capi.BNNSQuantizerFunctionQuantize, i_desc=layer.y.descriptor(), o_desc=y.descriptor(),
        scale=vector(1).descriptor(scale),
    )  # fmt: skip
    kinds = [capi.BNNSConvolution, capi.BNNSQuantization]
    chain = capi.BNNSFilterCreateFusedLayer(2, kinds, [layer.parameters, quantization], None)
    assert chain is not None, openbnns.last_error()
    out = Storage(y, x.batch)
    assert capi.BNNSFusedFilterApplyBatch(chain, x.batch, x.elements, 0, out.elements, 0, False) == 0
    assert np.array_equal(out.raw(), np.clip(np.rint(h * 0.25), -128, 127))
