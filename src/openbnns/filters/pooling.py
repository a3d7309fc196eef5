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

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import compat, engines
from ..capi.enums import BNNSDataType, BNNSPoolingFunction
from ..capi.structs import BNNSFilterParameters, BNNSLayerParametersPooling
from ..descriptors import ELEMENT_TYPES, View
from ..engines.native import pooling as native
from ..engines.reference import pooling as reference
from ..engines.reference.activation import Activation
from ..engines.reference.pooling import NO_CELL, Function
from ..errors import Problem
from ._activation_rules import resolve_fused
from ._base import DB, DX, DY, X, Y, B, UnaryFilter
from ._tensors import Bound, Caller, Operand, bind, check_count
from .convolution import Window, check_window, resolve_image, resolve_window
from .fully_connected import resolve_bias

if TYPE_CHECKING:
    from .. import _core

_UINT32 = ELEMENT_TYPES[int(BNNSDataType.BNNSDataTypeUInt32)]
_UINT64 = ELEMENT_TYPES[int(BNNSDataType.BNNSDataTypeUInt64)]
INDICES = 8
"""Slot of the indices in a plan."""


class Pooling(UnaryFilter):
    """A 2-D pooling filter."""

    family = "pooling"
    backward_call = "BNNSPoolingFilterApplyBackwardBatch"

    def __init__(
        self,
        p: BNNSLayerParametersPooling,
        filter_params: BNNSFilterParameters | None = None,
        who: str = "BNNSFilterCreateLayerPooling",
    ) -> None:
        super().__init__(filter_params, who)
        self.function = int(p.pooling_function)
        if self.function not in set(Function):
            raise Problem(f"{who}: pooling_function is {self.function}, which is no BNNSPoolingFunction (0 to {max(Function)}).")
        x, y = resolve_image(p.i_desc, f"{who}: i_desc"), resolve_image(p.o_desc, f"{who}: o_desc")
        if x.size[2] != y.size[2]:
            raise Problem(f"{who}: i_desc has {x.size[2]} channels and o_desc {y.size[2]}. Pooling keeps the channels: make them equal.")
        if p.k_width < 1 or p.k_height < 1:
            raise Problem(f"{who}: the window is {p.k_width} x {p.k_height} (k_width x k_height). Both must be at least 1.")
        check_window(p, who)
        self.kernel, self.window = (p.k_height, p.k_width), resolve_window(p)
        large, small, roles = (y, x, ("o_desc", "i_desc")) if self.unpools else (x, y, ("i_desc", "o_desc"))
        _check_windows(large, small, self.window, who, roles)
        self.input, self.output = Operand(x, x.memory_axes), Operand(y, y.memory_axes)
        self.bias = resolve_bias(self, p.bias, y.size[2], who)
        self.fused_function = int(p.activation.function)
        self.activation = resolve_fused(p.activation, who)
        self.geometry = reference.Geometry(
            self.kernel, self.window.stride, self.window.dilation, self.window.padding, (y.size[1], y.size[0]),
            compat.switches.max_pool_padding_is_zero,
        )  # fmt: skip
        self.index_per_sample = compat.switches.max_pool_index_per_sample
        self.prepare()

    @property
    def unpools(self) -> bool:
        return self.function == Function.UN_MAX

    @property
    def name(self) -> str:
        return BNNSPoolingFunction(self.function).name.removeprefix("BNNSPoolingFunction")

    def make_plan(self, f: Activation) -> _core.Plan:
        return native.plan(
            self.function, self.input.shape, self.output.shape, self.kernel, self.window.stride, self.window.dilation,
            (self.window.padding[0], self.window.padding[2]), self.geometry.padding_wins, True, f,
        )  # fmt: skip

    def prepare(self) -> None:
        if self.unpools:  # every call needs indices, which the general fast call does not know
            if engines._core is not None:
                self.plan = self.make_plan(self.activation)
            return
        super().prepare()

    # Indices.

    def _bind_indices(self, caller: Caller, data: Any, element: Any, batch: int, stride: Any, *, output: bool) -> Bound | None:
        """Indices have the dimensions and strides of the smaller map."""
        if data is None:
            if self.unpools:
                raise Problem(f"{caller('indices')} is NULL, but UnMax needs the indices that Max recorded. Pass them.")
            return None
        if self.function not in (Function.MAX, Function.UN_MAX):
            return None
        operand = self.input if self.unpools else self.output
        view = replace(operand.view, element=element, scale=1.0, bias=0.0, table=None)
        return bind(view, operand.order, operand.shape, caller("indices"), data, batch, stride, output=output)

    def _read_indices(self, caller: Caller, indices: Bound | None) -> NDArray[np.uint64] | None:
        """Plane positions of a batch, checked."""
        if indices is None:
            return None
        raw = indices.read_integers().view(np.uint64)
        values = raw
        _, height, width = self.output.shape if self.unpools else self.input.shape
        plane = np.uint64(height * width)
        if self.index_per_sample:
            values = values - plane * np.arange(values.shape[1], dtype=np.uint64)[None, :, None, None]
        outside = values >= plane
        if not self.unpools:
            no_cell = raw == (1 << indices.view.element.bits) - 1
            outside &= ~no_cell
            values = np.where(no_cell, np.uint64((1 << 64) - 1), values)
        if outside.any():
            n, c, row, column = (int(v) for v in np.argwhere(outside)[0])
            raise Problem(
                f"{caller('indices')} holds {int(values[n, c, row, column])} at sample {n}, channel {c}, row {row}, column "
                f"{column}, but a plane has positions 0 to {int(plane) - 1}. Pass the indices of the matching Max forward call."
            )
        return values

    def _write_indices(self, indices: Bound, values: NDArray[np.int64]) -> None:
        stored = values.astype(np.int64)
        if self.index_per_sample:
            _, height, width = self.input.shape
            offsets = height * width * np.arange(values.shape[1], dtype=np.int64)[None, :, None, None]
            stored = np.where(stored == NO_CELL, stored, stored + offsets)
        limit = np.uint64((1 << indices.view.element.bits) - 1)
        indices.write_unsigned(np.minimum(stored.view(np.uint64), limit))

    # Forward.

    def apply_batch(self, caller: Caller, batch: Any, in_: Any, in_stride: Any, out: Any, out_stride: Any) -> None:
        self.apply_pooling_batch(caller, batch, in_, in_stride, out, out_stride, None, None, 0)

    def apply_pooling_batch(
        self, caller: Caller, batch: Any, in_: Any, in_stride: Any, out: Any, out_stride: Any, index_type: Any, indices: Any,
        idx_stride: Any,
    ) -> None:  # fmt: skip
        """Forward, recording (Max) or consuming (UnMax) indices; ``index_type`` is ``None`` for size_t."""
        self.require_alive(caller)
        batch = check_count(batch, caller("batch_size"))
        element = resolve_index_type(index_type, caller)
        x = self.input.bind(caller("in"), in_, batch, in_stride)
        y = self.output.bind(caller("out"), out, batch, out_stride, output=True)
        places = self._bind_indices(caller, indices, element, batch, idx_stride, output=not self.unpools)
        if batch == 0:
            return
        given = self._read_indices(caller, places) if self.unpools else None
        if places is None and not self.unpools:
            self.run_forward(x, y)
            return
        assert places is not None
        if engines.is_native():
            winners = self._forward_native(x, y, given)
        else:
            b = None if self.bias is None else self.bias.read(np.float64)
            signed = None if given is None else given.astype(np.int64)
            result, found = reference.forward(self.function, x.read(np.float64), b, self.activation, self.geometry, signed)
            y.write(result)
            winners = found
        if not self.unpools and winners is not None:
            self._write_indices(places, winners)

    def _forward_native(self, x: Bound, y: Bound, given: NDArray[np.uint64] | None) -> NDArray[np.int64] | None:
        places = np.ascontiguousarray(given) if given is not None else np.empty((x.batch, *self.output.shape), np.uint64)
        direct = None if y.overlaps(x) else y.direct()
        result = np.empty((x.batch, *self.output.shape), np.float32) if direct is None else direct
        bias = None if self.bias is None else self.bias.read(np.float32)
        self._run_plan(self.plan, False, x.batch, {X: x.read(np.float32), B: bias, Y: result, INDICES: places})
        if direct is None:
            y.write(result)
        return places.view(np.int64)

    def reference_forward(
        self, x: NDArray[Any], w: NDArray[Any] | None, b: NDArray[Any] | None, f: Activation
    ) -> NDArray[Any]:
        return reference.forward(self.function, x, b, f, self.geometry)[0]

    # Backward.

    def apply_backward_batch(
        self, caller: Caller, batch: Any, in_: Any, in_stride: Any, in_delta: Any, in_delta_stride: Any, out: Any,
        out_stride: Any, out_delta: Any, out_delta_stride: Any, weights_delta: Any, bias_delta: Any, context: Any = None,
    ) -> None:  # fmt: skip
        self.apply_backward_pooling_batch(
            caller, batch, in_, in_stride, in_delta, in_delta_stride, out, out_stride, out_delta, out_delta_stride,
            bias_delta, None, None, 0,
        )  # fmt: skip

    def apply_backward_pooling_batch(
        self, caller: Caller, batch: Any, in_: Any, in_stride: Any, in_delta: Any, in_delta_stride: Any, out: Any,
        out_stride: Any, out_delta: Any, out_delta_stride: Any, bias_delta: Any, index_type: Any, indices: Any,
        idx_stride: Any,
    ) -> None:  # fmt: skip
        """Gradients of input and bias; winners come from ``indices`` if given, else they are found again in ``in_``."""
        self.require_alive(caller)
        count = check_count(batch, caller("batch_size"))
        element = resolve_index_type(index_type, caller)
        bound = self._bind_indices(caller, indices, element, count, idx_stride, output=False)
        places = self._read_indices(caller, bound) if count else None
        super().apply_backward_batch(
            caller, count, in_, in_stride, in_delta, in_delta_stride, out, out_stride, out_delta, out_delta_stride,
            None, bias_delta, places,
        )  # fmt: skip

    # In the methods below ``context`` holds the checked indices of the call, or None.

    def check_backward(
        self, caller: Caller, x: Bound | None, y: Bound | None, wanted: set[str], context: Any = None
    ) -> None:
        super().check_backward(caller, x, y, wanted)
        needs_input = self.function == Function.L2_NORM or (self.function == Function.MAX and context is None)
        if "dx" in wanted and x is None and needs_input:
            cure = "Pass it, or the indices of the forward call." if self.function == Function.MAX else "Pass it."
            raise Problem(f"{caller('in')} is NULL, but the input gradient of {self.name} pooling needs the forward input. {cure}")

    def extra_tensors(self, context: Any) -> dict[int, NDArray[Any] | None]:
        return {INDICES: None if context is None else np.ascontiguousarray(context)}

    def reference_backward(
        self, x: NDArray[Any] | None, y: NDArray[Any] | None, dy: NDArray[Any], w: NDArray[Any] | None,
        b: NDArray[Any] | None, wanted: set[str], context: Any = None,
    ) -> dict[str, NDArray[Any]]:  # fmt: skip
        places = None if context is None else context.astype(np.int64)
        channels, height, width = self.input.shape
        return reference.backward(
            self.function, x, places, y, dy, self.activation, self.geometry, (dy.shape[0], channels, height, width), wanted,
            z=self.reference_z(x, w, b) if not self.unpools else None,
        )  # fmt: skip

    def _backward_arguments(self) -> list[Any]:
        gradients = 1 << DX | 1 << DB
        needs_input = 1 << DX if self.function in (Function.MAX, Function.L2_NORM) else 0
        return [
            self._argument(X, self.input, needed_with=needs_input),
            self._argument(DX, self.input, output=True, descriptor=True),
            self._argument(Y, self.output, needed_with=gradients if self.activation.function else 0),
            self._argument(DY, self.output, descriptor=True, needed_with=gradients),
            self._argument(6, None, batched=False),
            self._argument(DB, self.bias, output=True, descriptor=True, batched=False),
        ]


def resolve_index_type(index_type: Any, caller: Caller) -> Any:
    """Element type of the indices: size_t when not named, else UInt32 or UInt64."""
    if index_type is None:
        return _UINT64
    for element in (_UINT32, _UINT64):
        if int(index_type) == element.code:
            return element
    raise Problem(
        f"{caller('indices_data_type')} is {int(index_type):#x}. Indices are BNNSDataTypeUInt32 or BNNSDataTypeUInt64.",
        kind=TypeError,
    )


def _check_windows(large: View, small: View, window: Window, who: str, roles: tuple[str, str]) -> None:
    """Every window must start inside the padded image."""
    for axis, name in ((0, "height"), (1, "width")):
        padded = large.size[1 - axis] + window.padding[2 * axis] + window.padding[2 * axis + 1]
        most = (padded - 1) // window.stride[axis] + 1
        if small.size[1 - axis] > most:
            raise Problem(
                f"{who}: {roles[1]} {name} is {small.size[1 - axis]}, but {roles[0]} {name} {large.size[1 - axis]} with padding "
                f"{window.padding[2 * axis]} + {window.padding[2 * axis + 1]} and stride {window.stride[axis]} has room for "
                f"the start of {most} windows. Set {roles[1]}.size[{1 - axis}] to at most {most}."
            )
