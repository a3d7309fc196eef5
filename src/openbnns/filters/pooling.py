"""Pooling: a window moves over each channel, z = pool(window) + b(c), y = f(z), and its gradients.

Windows lie as in convolution; a window must start inside the padded input, and cells outside the input count as padding.

    Max                         largest cell of the input; its position goes to ``indices``
    AverageCountIncludePadding  sum / (kernel width * kernel height)
    AverageCountExcludePadding  sum / number of cells inside the input
    L2Norm                      sqrt(sum of squares)
    UnMax                       the inverse of Max: zeros, except out(index(position)) = in(position)

    Max:      dx(winner) += dz       Average: dx(cell) += dz / divisor       L2Norm: dx(cell) += dz * x(cell) / p
    UnMax:    dx(position) = dz(index(position))                             db(c) = sum dz

Indices are row * width + column within one plane: of the input for Max, of the output for UnMax.

Shapes: x (N, C, H, W), b (C), y (N, C, H', W'); indices (N, C, H', W') for Max, (N, C, H, W) for UnMax.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import compat, engines
from .._words import Caller
from ..abi.enums import BNNSPoolingFunction
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersPooling
from ..calls.signature import Argument, Call, Need, need
from ..errors import Problem
from ..parameters.activation import IDENTITY, Activation
from ..parameters.pooling import Geometry, PoolingKind
from ..reference import pooling as reference
from ..tensors.operands import Bound, Operand
from ._activation_rules import native_activation, output_determines_slope, resolve_fused
from ._pooling_indices import INDEX_TYPES, INDICES, IndexOperand, resolve_index_type
from ._pooling_windows import check_coverage, check_windows
from ._rules import chosen
from .base import Driving, UnaryFilter
from .convolution import check_window, resolve_image, resolve_window
from .fully_connected import resolve_bias

if TYPE_CHECKING:
    from .. import _core


class Pooling(UnaryFilter):
    """A 2-D pooling filter."""

    family = "pooling"
    apply_call = "BNNSPoolingFilterApplyBatch or BNNSFilterApplyBatch"
    backward_call = "BNNSPoolingFilterApplyBackwardBatch"

    def __init__(self, p: BNNSLayerParametersPooling, filter_params: BNNSFilterParameters | None, who: Caller) -> None:
        super().__init__(filter_params, who)
        self.function = chosen(p.pooling_function, PoolingKind, "BNNSPoolingFunction", who, "pooling_function")
        x, y = resolve_image(p.i_desc, who("i_desc")), resolve_image(p.o_desc, who("o_desc"))
        if x.size[2] != y.size[2]:
            raise Problem(
                f"{who('i_desc')} has {x.size[2]} channels and {who.name('o_desc')} {y.size[2]}. Pooling keeps the channels: "
                "make them equal."
            )
        if p.k_width < 1 or p.k_height < 1:
            raise Problem(
                f"{who}: the window is {p.k_width} x {p.k_height} ({who.name('k_width x k_height')}). Both must be at least 1."
            )
        check_window(p, who)
        self.kernel, self.window = (p.k_height, p.k_width), resolve_window(p)
        large, small, roles = (y, x, ("o_desc", "i_desc")) if self.unpools else (x, y, ("i_desc", "o_desc"))
        check_windows(large, small, self.window, who, roles)
        check_coverage(large, small, self.kernel, self.window, who)
        self.input, self.output = Operand(x, x.memory_axes), Operand(y, y.memory_axes)
        self.bias = resolve_bias(self, p.bias, y.size[2], who)
        self.fused_function = int(p.activation.function)
        self.activation = resolve_fused(p.activation, who)
        self.geometry = Geometry(
            self.kernel, self.window.stride, self.window.dilation, self.window.padding, (y.size[1], y.size[0]),
            compat.switches.max_pool_padding_is_zero,
        )  # fmt: skip
        small_image = self.input if self.unpools else self.output
        self.indices: dict[Hashable, IndexOperand] = {
            kind: IndexOperand.of(small_image, element, large.size[0] * large.size[1], self.unpools)
            for kind, element in INDEX_TYPES.items()
        }
        self.build_plan()

    @property
    def unpools(self) -> bool:
        return self.function == PoolingKind.UN_MAX

    @property
    def has_indices(self) -> bool:
        return self.function in (PoolingKind.MAX, PoolingKind.UN_MAX)

    @property
    def name(self) -> str:
        return BNNSPoolingFunction(self.function).name.removeprefix("BNNSPoolingFunction")

    # The calls.

    def driving_calls(self) -> Driving:
        return (("apply_pooling", None), ("apply_backward_pooling", None)) if self.unpools else super().driving_calls()

    def declare(self, call: str, variant: Hashable) -> Call | None:
        """``variant`` is the type of the indices, ``None`` for size_t."""
        name = {"apply_pooling": "apply", "apply_backward_pooling": "apply_backward"}.get(call, call)
        plain = super().declare(name, None)
        if plain is None:
            return None
        kind = self.indices[variant] if self.has_indices else None
        needs: tuple[Need, ...] = ()
        if self.unpools:
            needs = (need(plain.results, "UnMax needs the indices that Max recorded", optional=False),)
        indices = Argument("indices", INDICES, kind, writes=not (plain.backward or self.unpools), needs=needs)
        plan = (
            self.plan
            if kind is None or kind.width == 8 or self.plan is None
            else self.make_plan(self.activation, kind.width)
        )
        return replace(plain, arguments=(*plain.arguments, indices), plan=plan)

    def choose(self, call: str, choice: Any, caller: Caller) -> Hashable:
        return resolve_index_type(choice, caller)

    def input_needs(self) -> tuple[Need, ...]:
        needs = super().input_needs()
        if self.function in (PoolingKind.MAX, PoolingKind.L2_NORM):
            because = f"the input gradient of {self.name} pooling needs the forward input"
            needs += (need({"in_delta"}, because, {"indices"} if self.function == PoolingKind.MAX else ()),)
        return needs

    # Native runs.

    def make_plan(self, f: Activation, index_bytes: int = 8) -> _core.Plan:
        kernel, stride, dilation = self.kernel, self.window.stride, self.window.dilation
        padding = (self.window.padding[0], self.window.padding[2])
        if self.unpools:  # the indices alone decide
            kernel = stride = dilation = (1, 1)
            padding = (0, 0)
        channels, in_height, in_width = self.input.shape
        _, rows, columns = self.output.shape
        stride = (stride[0] if rows > 1 else 1, stride[1] if columns > 1 else 1)  # a single window does not move
        return engines._core.pooling(
            function=self.function, channels=channels, in_height=in_height, in_width=in_width, out_height=rows,
            out_width=columns, kernel_height=kernel[0], kernel_width=kernel[1], stride_y=stride[0], stride_x=stride[1],
            dilation_y=dilation[0], dilation_x=dilation[1], pad_up=padding[0], pad_left=padding[1],
            padding_wins=self.geometry.padding_wins, wide_indices=index_bytes == 8, activation=native_activation(f),
        )  # fmt: skip

    def identity_plan(self, call: Call) -> _core.Plan:
        indices = call.by_name["indices"].tensor
        return self.make_plan(IDENTITY, indices.width if isinstance(indices, IndexOperand) else 8)

    def forward_extras(self, bound: Mapping[str, Bound]) -> dict[int, NDArray[Any]]:
        return {INDICES: bound["indices"].read(np.float32)} if self.unpools else {}

    # Reference runs.

    def run_reference(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        if call.backward or "indices" not in bound:
            super().run_reference(call, batch, bound)
            return
        x, b, places = bound["in"].read(np.float64), self.parameters64()[1], bound["indices"]
        given = places.read(np.float64) if self.unpools else None
        result, positions = reference.forward(self.function, x, b, self.activation, self.geometry, given)
        bound["out"].write(result)
        if not self.unpools:
            assert positions is not None
            places.write(positions)

    def reference_forward(
        self, x: NDArray[Any], w: NDArray[Any] | None, b: NDArray[Any] | None, f: Activation
    ) -> NDArray[Any]:
        return reference.forward(self.function, x, b, f, self.geometry)[0]

    def reference_backward(
        self, x: NDArray[Any] | None, y: NDArray[Any] | None, dy: NDArray[Any], w: NDArray[Any] | None,
        b: NDArray[Any] | None, wanted: set[str], *, indices: NDArray[np.int64] | None = None,
    ) -> dict[str, NDArray[Any]]:  # fmt: skip
        channels, height, width = self.input.shape
        z = None
        if x is not None and not output_determines_slope(self.activation):
            z = reference.forward(self.function, x, b, IDENTITY, self.geometry, indices)[0]
        return reference.backward(
            self.function,
            x,
            indices,
            y,
            dy,
            self.activation,
            self.geometry,
            (len(dy), channels, height, width),
            wanted,
            z,
        )
