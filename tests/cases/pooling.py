"""Pooling: every function, windows of all kinds, indices of every type or none, fused activations, element types."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from helpers import BFLOAT16, EPSILON, FLOAT16, INT8, INT16, INT32, UINT8, Array, Storage, Tensor, image, vector
from openbnns import capi

from ._base import INFERENCE_ONLY, LIPSCHITZ, TRAINABLE, Act, UnaryCase, UnaryRun, Values, act_rows, succeed
from .convolution import positions

Pair = tuple[int, int]

INDEX_TYPES: dict[str, tuple[Any, Any]] = {
    "size_t": (None, np.uint64),
    "u32": (capi.BNNSDataTypeUInt32, np.uint32),
    "u64": (capi.BNNSDataTypeUInt64, np.uint64),
}
NO_CELL = -1


class IndexMemory:
    """Memory for the indices of a batch, of the form of ``tensor``, with guards and gaps that must stay as they are."""

    guard = 64

    def __init__(self, tensor: Tensor, batch: int, gap: int, kind: str, *, misaligned: int = 0) -> None:
        self.data_type, dtype = INDEX_TYPES[kind]
        self.stride = tensor.extent + gap if gap else 0
        step = self.stride or tensor.extent
        self.places = step * np.arange(batch).reshape(-1, 1, 1, 1) + tensor.places
        width = np.dtype(dtype).itemsize
        count = (batch - 1) * step + tensor.span if batch else 0
        self.memory = np.full(2 * self.guard + misaligned + count * width, 0xA5, np.uint8)
        start = self.guard + misaligned
        self.elements = self.memory[start : start + count * width].view(dtype)
        self.before = self.memory.copy()

    def write(self, values: Array) -> None:
        self.elements[self.places] = values.astype(np.int64).astype(self.elements.dtype)
        self.before = self.memory.copy()

    def read(self) -> Array:
        """Positions in the order of ``size[]``, -1 for none."""
        raw = self.elements[self.places]
        return np.where(raw == np.iinfo(raw.dtype).max, np.int64(NO_CELL), raw.astype(np.int64))

    def assert_unchanged(self, name: str) -> None:
        assert np.array_equal(self.memory, self.before), f"{name} was changed"

    def assert_guards_intact(self, name: str) -> None:
        now, before = self.memory.copy(), self.before.copy()
        start = self.elements.ctypes.data - self.memory.ctypes.data
        for copy in (now, before):
            copy[start : start + self.elements.nbytes].view(self.elements.dtype)[self.places] = 0
        assert np.array_equal(now, before), f"{name}: wrote outside its elements"


@dataclass(frozen=True)
class PoolingCase(UnaryCase):
    """y = f(pool(x) + b); pairs are (vertical, horizontal), ``pad`` is (left, right, up, down)."""

    x: Tensor = field(default_factory=lambda: image(1, 1, 1))
    function: str = "Max"
    kernel: Pair = (1, 1)
    step: Pair = (1, 1)
    dilation: Pair = (1, 1)
    symmetric: Pair = (0, 0)  # y_padding, x_padding
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    index: str = ""  # a key of INDEX_TYPES, or none
    generic: bool = False  # through the calls of all filters

    @property
    def unpools(self) -> bool:
        return self.function == "UnMax"

    @property
    def large(self) -> Tensor:
        return self.y if self.unpools else self.x

    @property
    def small(self) -> Tensor:
        return self.x if self.unpools else self.y

    @property
    def edges(self) -> tuple[int, int, int, int]:
        """Padding up, down, left and right."""
        if self.symmetric != (0, 0):
            return (self.symmetric[0], self.symmetric[0], self.symmetric[1], self.symmetric[1])
        return (self.pad[2], self.pad[3], self.pad[0], self.pad[1])

    @property
    def overhangs(self) -> bool:
        fits = [
            positions(self.large.size[1 - axis], *self.edges[2 * axis : 2 * axis + 2], self.kernel[axis], self.step[axis],
                      self.dilation[axis])
            for axis in (0, 1)
        ]  # fmt: skip
        return not self.unpools and (self.y.size[1] > fits[0] or self.y.size[0] > fits[1])

    # Scoreboard.

    @property
    def _feature_rows(self) -> tuple[str, ...]:
        features = {
            "padding": self.edges != (0, 0, 0, 0),
            "dilation": self.dilation != (1, 1),
            "overhang": self.overhangs,
            "generic_apply": self.generic,
            f"idx_{self.index}": bool(self.index),
        }
        used = tuple(f"pool.{name}" for name, on in features.items() if on)
        return ("fn.BNNSFilterCreateLayerPooling", *used, *self.rows)

    def _call_row(self, name: str) -> tuple[str, ...]:
        if self.generic:
            return ()
        return (f"fn.{name}{'Ex' if self.index in ('u32', 'u64') else ''}",)

    @property
    def forward_rows(self) -> tuple[str, ...]:
        fused = () if self.trains else act_rows(self.activation, "fwd")
        call = self._call_row("BNNSPoolingFilterApplyBatch")
        return (f"pool.{self.function}.fwd", *call, *fused, *self._feature_rows)

    @property
    def backward_rows(self) -> tuple[str, ...]:
        fused = () if self.activation.is_identity else ("pool.act_bwd", *act_rows(self.activation, "fused"))
        bias = ("pool.bias_grad",) if self.b else ()
        again = ("pool.no_indices",) if self.function == "Max" and not self.index else ()
        call = self._call_row("BNNSPoolingFilterApplyBackwardBatch")
        return (f"pool.{self.function}.bwd", *call, *fused, *bias, *again, *self._feature_rows)

    # The filter.

    def struct(self, b: Any = None, **changes: Any) -> capi.BNNSLayerParametersPooling:
        fields: dict[str, Any] = {
            "i_desc": self.x.descriptor(), "o_desc": self.y.descriptor(), "activation": self.activation.struct,
            "bias": self.b.descriptor(b) if self.b else capi.BNNSNDArrayDescriptor(),
            "pooling_function": getattr(capi, f"BNNSPoolingFunction{self.function}"),
            "k_width": self.kernel[1], "k_height": self.kernel[0], "x_stride": self.step[1], "y_stride": self.step[0],
            "x_dilation_stride": self.dilation[1], "y_dilation_stride": self.dilation[0],
            "x_padding": self.symmetric[1], "y_padding": self.symmetric[0], "pad": self.pad,
        }  # fmt: skip
        return capi.BNNSLayerParametersPooling(**{**fields, **changes})

    def create(self, w: Any, b: Any, threads: int) -> Any:
        return capi.BNNSFilterCreateLayerPooling(self.struct(b), self.filter_parameters(threads))

    def values(self, seed: int = 0) -> dict[str, Array]:
        values = super().values(seed)
        if self.unpools:  # positions in the planes of the output, each one once
            width, height, channels = self.x.size
            plane = self.y.size[0] * self.y.size[1]
            rng = self.generator(100 + seed)
            order = rng.permuted(np.tile(np.arange(plane), (self.batch, channels, 1)), axis=2)[:, :, : width * height]
            values["indices"] = order.reshape(self.batch, channels, height, width).transpose(0, 3, 2, 1)
        return values

    def run(self, values: Values | None = None, threads: int = 0, batch: int | None = None) -> PoolingRun:
        case = self if batch is None else replace(self, batch=batch)
        return PoolingRun(case, case.values() if values is None else values, threads)

    # Bounds: K cells are summed in a window, and a cell meets `overlap` windows.

    @property
    def reductions(self) -> dict[str, int]:
        cells = self.kernel[0] * self.kernel[1]
        return {"y": cells, "dx": cells, "db": self.batch * self.y.size[0] * self.y.size[1]}

    @property
    def overlap(self) -> int:
        if self.unpools:
            return 1
        return int(np.prod([-(-k // s) for k, s in zip(self.kernel, self.step, strict=True)]))

    def _largest(self, values: Values) -> float:
        cells = self.reductions["y"] if self.function == "L2Norm" else 1
        bias = float(np.abs(values["b"]).max()) if self.b else 0.0
        return float(np.abs(values["x"]).max()) * float(np.sqrt(cells)) + bias

    def forward_bound(self, values: Values, y: Array) -> Array:
        z = self._largest(values)
        rounding = EPSILON * (2.0 + np.sqrt(self.reductions["y"])) * z
        if not self.activation.is_identity:
            rounding = LIPSCHITZ * rounding + 4 * EPSILON * (np.abs(y) + z)
        return np.broadcast_to(rounding, y.shape) + self.y.unit(y)

    def backward_bounds(self, values: Values, y: Array) -> dict[str, Array]:
        dz = float(np.abs(values["dy"]).max())
        if not self.activation.is_identity:
            dz *= 2 * LIPSCHITZ + (self.y.size[0] if "oftmax" in self.activation.name else 0)
        if self.activation.name == "GELUApproximationSigmoid":  # from z, computed anew
            dz *= 1.0 + self._largest(values)
        cells = self.reductions["dx"]
        bounds = {"dx": np.full(values["x"].shape, EPSILON * (4.0 + cells) * dz * self.overlap)}
        if self.b:
            count = self.reductions["db"]
            bounds["db"] = np.full((1, *self.b.size), EPSILON * (4.0 + np.sqrt(count)) * dz * count)
        return bounds


class PoolingRun(UnaryRun):
    """A case, its filter and its memory, with indices."""

    case: PoolingCase

    def __init__(self, case: PoolingCase, values: Values, threads: int = 0) -> None:
        super().__init__(case, values, threads)
        self.indices: IndexMemory | None = None
        if case.index:
            self.indices = IndexMemory(case.small, case.batch, case.gap and case.gap + 5, case.index)
            if case.unpools:
                self.indices.write(values["indices"])

    @property
    def inputs(self) -> dict[str, Any]:
        if self.case.unpools:
            return {**super().inputs, "indices": self.indices}
        return super().inputs

    def _index_arguments(self) -> tuple[tuple[Any, ...], str]:
        """The last arguments of a pooling call, and the end of its name."""
        if self.indices is None:
            return (None, 0), ""
        given = (self.indices.elements, self.indices.stride)
        kind = self.indices.data_type
        return (given, "") if kind is None else ((kind, *given), "Ex")

    def forward(self, batch: int | None = None) -> Array:
        if self.case.generic:
            return super().forward(batch)
        places, suffix = self._index_arguments()
        succeed(
            getattr(capi, f"BNNSPoolingFilterApplyBatch{suffix}")(
                self.filter, self.case.batch if batch is None else batch, self.x.elements, self.x.stride,
                self.y.elements, self.y.stride, *places,
            )
        )  # fmt: skip
        if self.indices is not None:
            self.indices.assert_guards_intact("indices")
            if not self.case.unpools:
                self.indices.before = self.indices.memory.copy()
        return self.y.raw()

    def given(self) -> tuple[Any, Any]:
        """``in`` only where it is needed, so that the calls that do without it are tested as such."""
        case = self.case
        from_indices = case.function == "UnMax" or (case.function == "Max" and case.index)
        needless = from_indices or case.function.startswith("Average")
        needs_x = not needless or case.activation.name in ("GELUApproximationSigmoid", "Threshold", "HardShrink")
        return (
            self.x.elements if needs_x or case.generic else None,
            None if case.activation.is_identity else self.y.elements,
        )

    def backward(
        self,
        wanted: Collection[str] | None = None,
        old: Values | None = None,
        into: dict[str, Storage] | None = None,
        batch: int | None = None,
    ) -> dict[str, Storage]:
        if self.case.generic:
            return super().backward(wanted, old, into, batch)
        result = self.new_gradients(wanted, old) if into is None else into
        described = {name: storage.descriptor(int(old is not None)) for name, storage in result.items()}
        x, y = self.given()
        places, suffix = self._index_arguments()
        succeed(
            getattr(capi, f"BNNSPoolingFilterApplyBackwardBatch{suffix}")(
                self.filter, self.case.batch if batch is None else batch, x, self.x.stride, described.get("dx"),
                result["dx"].stride if "dx" in result else 0, y, self.y.stride, self.dy.descriptor(), self.dy.stride,
                described.get("db"), *places,
            )
        )  # fmt: skip
        if self.indices is not None:
            self.indices.assert_unchanged("indices")
        return result


def case(
    name: str,
    function: str,
    channels: int,
    size: Pair,
    kernel: Pair,
    *,
    batch: int = 1,
    bias: bool = False,
    more: Pair = (0, 0),
    in_options: dict[str, Any] | None = None,
    out_options: dict[str, Any] | None = None,
    **options: Any,
) -> PoolingCase:
    """Pooling of an image of ``size`` (height, width), for UnMax back to it; ``more`` windows than fit inside."""
    made = PoolingCase(
        f"pool-{name}", x=image(channels, *size), y=image(channels, *size), function=function, kernel=kernel, batch=batch,
        **options,
    )  # fmt: skip
    small = [
        positions(size[axis], *made.edges[2 * axis : 2 * axis + 2], kernel[axis], made.step[axis], made.dilation[axis])
        + more[axis]
        for axis in (0, 1)
    ]
    sizes = [small, size] if made.unpools else [size, small]
    sparse = {"Max": {"dx"}, "UnMax": {"y"}}.get(function, set())
    return replace(
        made,
        x=image(channels, *sizes[0], **(in_options or {})),
        y=image(channels, *sizes[1], **(out_options or {})),
        b=options.get("b", vector(channels) if bias else None),
        mostly_zero=made.mostly_zero | sparse,
    )


AVERAGES = ("AverageCountIncludePadding", "AverageCountExcludePadding", "Average")
WINDOWED = ("Max", *AVERAGES, "L2Norm")

# name, channels, size, kernel, and what else
WINDOWS: tuple[tuple[str, int, Pair, Pair, dict[str, Any]], ...] = (
    ("pixel", 1, (1, 1), (1, 1), {}),
    ("1x1", 3, (5, 7), (1, 1), {"batch": 2}),
    ("2x2", 5, (8, 10), (2, 2), {"step": (2, 2), "batch": 3, "bias": True}),
    ("2x2-odd", 3, (17, 35), (2, 2), {"step": (2, 2), "batch": 2}),
    ("2x2-wide", 2, (4, 113), (2, 2), {"step": (2, 2), "batch": 2, "bias": True}),
    ("2x2-dense", 3, (6, 7), (2, 2), {"batch": 2}),
    ("3x3-resnet", 4, (17, 19), (3, 3), {"step": (2, 2), "symmetric": (1, 1), "batch": 2, "bias": True}),
    ("3x3", 2, (7, 33), (3, 3), {"symmetric": (1, 1), "batch": 2}),
    ("3x2-uneven", 3, (13, 17), (3, 2), {"step": (3, 1), "batch": 2}),
    ("stride-over-kernel", 2, (13, 17), (2, 2), {"step": (4, 3), "batch": 2, "mostly_zero": frozenset({"dx"})}),
    ("stride-3", 2, (14, 20), (3, 3), {"step": (3, 3), "batch": 2}),
    ("dilated", 3, (13, 11), (3, 3), {"dilation": (2, 2), "batch": 2}),
    ("dilated-uneven", 2, (19, 17), (3, 2), {"dilation": (3, 4), "step": (2, 1), "pad": (1, 2, 0, 3), "batch": 2}),
    ("asymmetric", 3, (7, 5), (3, 3), {"pad": (1, 0, 2, 0), "batch": 2, "bias": True}),
    ("asymmetric-strided", 2, (9, 12), (2, 3), {"pad": (0, 2, 1, 0), "step": (2, 2), "batch": 2}),
    ("overhang", 3, (7, 9), (3, 3), {"step": (2, 2), "more": (1, 1), "batch": 2}),
    ("overhang-padded", 2, (6, 5), (3, 2), {"step": (2, 2), "symmetric": (1, 1), "more": (1, 0), "batch": 2, "bias": True}),
    ("overhang-whole-image", 2, (3, 4), (5, 6), {"more": (4, 5), "batch": 2}),
    ("all-in-padding", 2, (3, 4), (2, 2), {"symmetric": (3, 3), "batch": 2, "bias": True,
                                           "mostly_zero": frozenset({"y"})}),
    ("global", 9, (7, 7), (7, 7), {"batch": 3, "bias": True}),
    ("global-wide", 2, (40, 60), (40, 60), {"batch": 2}),
    ("1x7", 2, (3, 17), (1, 7), {"batch": 2}),
    ("7x1", 2, (17, 3), (7, 1), {"step": (2, 1), "batch": 2}),
    ("many-planes", 40, (4, 4), (2, 2), {"step": (2, 2), "batch": 33}),
    ("3x3-alexnet", 3, (14, 75), (3, 3), {"step": (2, 2), "batch": 2}),
    ("3x3-one-side", 2, (9, 40), (3, 3), {"pad": (1, 0, 0, 1), "step": (2, 2), "batch": 2, "bias": True}),
)  # fmt: skip

SHAPES = [
    case(f"{function}-{name}", function, channels, size, kernel, index=index, **options)
    for function in WINDOWED
    for k, (name, channels, size, kernel, options) in enumerate(WINDOWS)
    if function != "Average" or k in (2, 6, 13)
    for index in ((list(INDEX_TYPES)[k % 3],) if function == "Max" else ("",))
]

NO_INDICES = [
    case(f"recomputed-{name}", "Max", channels, size, kernel, **options)
    for name, channels, size, kernel, options in WINDOWS
]

UNMAX = [
    case(f"UnMax-{name}", "UnMax", channels, size, kernel, index=list(INDEX_TYPES)[k % 3], **options)
    for k, (name, channels, size, kernel, options) in enumerate(WINDOWS)
    if "more" not in options and name != "all-in-padding"
]  # fmt: skip

GENERIC = [
    case(
        f"generic-{function}",
        function,
        3,
        (7, 9),
        (3, 3),
        step=(2, 2),
        symmetric=(1, 1),
        batch=3,
        bias=True,
        generic=True,
    )
    for function in WINDOWED
]

INDEXED = [
    case(f"{function}-with-{kind}", function, 3, (6, 8), (2, 2), step=(2, 2), batch=3, index=kind, bias=True)
    for function in ("Max", "UnMax", "L2Norm", "AverageCountExcludePadding")
    for kind in INDEX_TYPES
]

MEMORY = [
    case("gaps", "Max", 3, (7, 9), (3, 3), step=(2, 2), batch=5, gap=3, index="u32"),
    case("gaps-fused", "AverageCountIncludePadding", 3, (7, 9), (2, 2), batch=5, gap=7, activation=Act("Tanh"), bias=True),
    case("gaps-2x2", "Max", 3, (8, 10), (2, 2), step=(2, 2), batch=5, gap=1, index="size_t"),
    case("gaps-UnMax", "UnMax", 3, (8, 10), (2, 2), step=(2, 2), batch=5, gap=2, index="u64", bias=True),
    case("gaps-recomputed", "Max", 3, (7, 9), (3, 3), batch=5, gap=3, activation=Act("Sigmoid")),
    *(
        case(
            f"padded-images-{function}{index}", function, 3, (6, 8), (2, 2), step=(2, 2), batch=2, gap=3, index=index,
            in_options={"stride": (1, 9, 80)}, out_options={"stride": (2, 17, 160)}, bias=True,
        )
        for function, index in (("Max", "size_t"), ("Max", "u32"), ("UnMax", "u32"), ("L2Norm", ""))
    ),
    case(
        "padded-images-packed-deltas", "Max", 3, (6, 8), (2, 2), step=(2, 2), batch=2, index="u64", packed_deltas=True,
        in_options={"stride": (1, 9, 80)}, out_options={"stride": (1, 6, 40)}, activation=Act("Tanh"),
    ),
    case("padded-bias", "Max", 4, (5, 6), (2, 2), b=vector(4, stride=(3,)), index="size_t"),
    case("copied-bias", "L2Norm", 4, (5, 6), (2, 2), bias=True, client_pointer=False),
]  # fmt: skip

_INTEGERS: dict[Any, dict[str, float]] = {
    INT8: {"scale": 0.03, "bias": 0.1}, UINT8: {"scale": 0.02, "bias": -2.0}, INT16: {"scale": 0.001}, INT32: {"scale": 0.01},
}  # fmt: skip
TYPES = [
    case(
        f"{function}-{kind.name[12:]}-{index}", function, 3, (6, 8), (2, 2), step=(2, 2), batch=2, trains=False, index=index,
        in_options={"data_type": kind, **_INTEGERS.get(kind, {})},
        out_options={"data_type": kind, **_INTEGERS.get(kind, {})}, bias=True,
    )
    for function, index in (
        ("Max", "u32"), ("Max", ""), ("UnMax", "size_t"), ("AverageCountIncludePadding", ""),
        ("AverageCountExcludePadding", ""), ("L2Norm", ""),
    )
    for kind in (FLOAT16, BFLOAT16, INT8, UINT8, INT16, INT32)
    if not (function == "Max" and not index and kind != INT8)
]  # fmt: skip

_FUSED_KINDS = (("Max", ""), ("AverageCountIncludePadding", ""), ("Max", "u32"), ("L2Norm", ""), ("UnMax", "size_t"))
FUSED = [
    case(
        f"fused-{function}{index}-{act.name}", function, 3, (8, 10), (2, 2), step=(2, 2), batch=2, activation=act, index=index,
        bias=(k + j) % 3 != 1, mostly_zero=frozenset({"y", "dx"}),
    )
    for k, act in enumerate(TRAINABLE)
    for j, (function, index) in enumerate(_FUSED_KINDS)
    if (k + j) % 2 == 0 or act.name in ("RectifiedLinear", "Tanh", "Softmax", "GELUApproximationSigmoid")
] + [
    case(f"inference-{act.name}", "Max", 3, (8, 9), (2, 2), batch=2, activation=act, trains=False, index="u64")
    for act in INFERENCE_ONLY
]  # fmt: skip

CASES = [*SHAPES, *NO_INDICES, *UNMAX, *GENERIC, *INDEXED, *MEMORY, *TYPES, *FUSED]


def simple(function: str = "Max", index: str = "size_t", **options: Any) -> PoolingCase:
    options = {"step": (2, 2), "batch": 1} | options
    return case("simple", function, options.pop("channels", 1), options.pop("size", (4, 4)),
                options.pop("kernel", (2, 2)), index=index, **options)  # fmt: skip


def c_order(values: Array) -> Array:
    return np.ascontiguousarray(values.transpose(0, 3, 2, 1), np.float32)
