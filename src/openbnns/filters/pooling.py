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

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import compat, engines
from ..capi.enums import BNNSPoolingFunction
from ..capi.structs import BNNSFilterParameters, BNNSLayerParametersPooling
from ..engines.native import pooling as native
from ..engines.reference import pooling as reference
from ..engines.reference.activation import IDENTITY, Activation
from ..engines.reference.pooling import Function
from ..errors import Problem
from ._activation_rules import output_determines_slope, resolve_fused
from ._base import DB, DW, DX, DY, B, UnaryFilter, X, Y, declined
from ._pooling_indices import INDEX_BYTES, INDICES, IndexRules, resolve_index_type
from ._pooling_windows import check_effort, check_windows
from ._tensors import Bound, Caller, Operand, check_count
from .convolution import check_window, resolve_image, resolve_window
from .fully_connected import resolve_bias

if TYPE_CHECKING:
    from .. import _core


class Pooling(UnaryFilter):
    """A 2-D pooling filter."""

    family = "pooling"
    apply_call = "BNNSPoolingFilterApplyBatch or BNNSFilterApplyBatch"
    backward_call = "BNNSPoolingFilterApplyBackwardBatch"

    def __init__(
        self,
        p: BNNSLayerParametersPooling,
        filter_params: BNNSFilterParameters | None = None,
        who: str = "BNNSFilterCreateLayerPooling",
    ) -> None:
        self._fast_calls: dict[tuple[bool, int | None], Any] = {}
        super().__init__(filter_params, who)
        self.function = int(p.pooling_function)
        if self.function not in set(Function):
            raise Problem(
                f"{who}: pooling_function is {self.function}, which is no BNNSPoolingFunction (0 to {max(Function)})."
            )
        x, y = resolve_image(p.i_desc, f"{who}: i_desc"), resolve_image(p.o_desc, f"{who}: o_desc")
        if x.size[2] != y.size[2]:
            raise Problem(
                f"{who}: i_desc has {x.size[2]} channels and o_desc {y.size[2]}. Pooling keeps the channels: make them equal."
            )
        if p.k_width < 1 or p.k_height < 1:
            raise Problem(
                f"{who}: the window is {p.k_width} x {p.k_height} (k_width x k_height). Both must be at least 1."
            )
        check_window(p, who)
        self.kernel, self.window = (p.k_height, p.k_width), resolve_window(p)
        large, small, roles = (y, x, ("o_desc", "i_desc")) if self.unpools else (x, y, ("i_desc", "o_desc"))
        check_windows(large, small, self.window, who, roles)
        check_effort(large, small, self.kernel, self.window, who)
        self.input, self.output = Operand(x, x.memory_axes), Operand(y, y.memory_axes)
        self.bias = resolve_bias(self, p.bias, y.size[2], who)
        self.fused_function = int(p.activation.function)
        self.activation = resolve_fused(p.activation, who)
        self.geometry = reference.Geometry(
            self.kernel, self.window.stride, self.window.dilation, self.window.padding, (y.size[1], y.size[0]),
            compat.switches.max_pool_padding_is_zero,
        )  # fmt: skip
        self.indices = IndexRules(
            self.input if self.unpools else self.output,
            large.size[0] * large.size[1],
            self.unpools,
            compat.switches.max_pool_index_per_sample,
        )
        self.prepare()

    @property
    def unpools(self) -> bool:
        return self.function == Function.UN_MAX

    @property
    def has_indices(self) -> bool:
        return self.function in (Function.MAX, Function.UN_MAX)

    @property
    def name(self) -> str:
        return BNNSPoolingFunction(self.function).name.removeprefix("BNNSPoolingFunction")

    # Native set-up.

    def make_plan(self, f: Activation, index_bytes: int = 8) -> _core.Plan:
        kernel, stride, dilation = self.kernel, self.window.stride, self.window.dilation
        padding = (self.window.padding[0], self.window.padding[2])
        if self.unpools:  # the indices say everything
            kernel = stride = dilation = (1, 1)
            padding = (0, 0)
        _, rows, columns = self.output.shape
        stride = (stride[0] if rows > 1 else 1, stride[1] if columns > 1 else 1)  # one window takes no step
        return native.plan(
            self.function, self.input.shape, self.output.shape, kernel, stride, dilation, padding, self.geometry.padding_wins,
            index_bytes == 8, f,
        )  # fmt: skip

    def prepare(self) -> None:
        if self.unpools:  # every call needs indices, which the general fast calls do not know
            if engines._core is not None:
                self.plan = self.make_plan(self.activation)
            return
        super().prepare()

    def destroy(self) -> None:
        super().destroy()
        self._fast_calls.clear()

    def fast_pooling(self, backward: bool, index_type: Any = None) -> Any:
        """The fast call with indices of this type, made when first asked for."""
        if index_type is not None and not isinstance(index_type, int):
            return declined
        found = self._fast_calls.get((backward, index_type))
        return found if found is not None else self._make_fast(backward, index_type)

    def _make_fast(self, backward: bool, index_type: int | None) -> Any:
        width, core = INDEX_BYTES.get(index_type), engines._core
        if width is None or not self.alive or not self.indices.fit(width):
            return declined
        fixed, run = self._fixed_addresses() if core is not None else None, declined
        simple = self.input.fast and self.output.fast and not self.indices.per_sample
        if fixed is not None and simple and (self.trains_fast() or not backward):
            plan = self.plan if width == 8 else self.make_plan(self.activation, width)
            arguments = self._backward_pooling_arguments(width) if backward else self._forward_arguments(width)
            run = core.FastCall(plan, backward, arguments, fixed, self.threads).run
        self._fast_calls[backward, index_type] = run
        return run

    def _index_argument(self, width: int, *, output: bool, needed_with: int) -> Any:
        if not self.has_indices:
            return self._argument(INDICES, None)
        return self.indices.argument(width, output=output, needed_with=needed_with if self.unpools else 0)

    def _forward_arguments(self, width: int) -> list[Any]:
        return [
            self._argument(X, self.input, needed_with=1 << Y),
            self._argument(Y, self.output, output=True, needed_with=1 << INDICES),
            self._index_argument(width, output=not self.unpools, needed_with=1 << Y),
        ]

    def _backward_arguments(self) -> list[Any]:
        x, dx, y, dy, db = self._gradient_arguments(unless=0)
        return [x, dx, y, dy, self._argument(DW, None, batched=False), db]

    def _backward_pooling_arguments(self, width: int) -> list[Any]:
        indices = self._index_argument(width, output=False, needed_with=1 << DX | 1 << DB)
        return [*self._gradient_arguments(unless=1 << INDICES if self.has_indices else 0), indices]

    def _gradient_arguments(self, unless: int) -> list[Any]:
        gradients = 1 << DX | 1 << DB
        needs_input = 1 << DX if self.function in (Function.MAX, Function.L2_NORM) else 0
        return [
            self._argument(X, self.input, needed_with=needs_input, unless=unless),
            self._argument(DX, self.input, output=True, descriptor=True),
            self._argument(Y, self.output, needed_with=gradients if self.activation.function else 0),
            self._argument(DY, self.output, descriptor=True, needed_with=gradients),
            self._argument(DB, self.bias, output=True, descriptor=True, batched=False),
        ]

    # Forward.

    def _bind_indices(
        self, caller: Caller, data: Any, index_type: Any, batch: int, stride: Any, *, output: bool
    ) -> Bound | None:
        element = resolve_index_type(index_type, caller)
        if not self.has_indices:
            return None
        if data is None:
            if self.unpools:
                raise Problem(f"{caller('indices')} is NULL, but UnMax needs the indices that Max recorded. Pass them.")
            return None
        return self.indices.bind(caller, data, element, batch, stride, output=output)

    def apply_batch(self, caller: Caller, batch: Any, in_: Any, in_stride: Any, out: Any, out_stride: Any) -> None:
        self.apply_pooling_batch(caller, batch, in_, in_stride, out, out_stride, None, None, 0)

    def apply_pooling_batch(
        self, caller: Caller, batch: Any, in_: Any, in_stride: Any, out: Any, out_stride: Any, index_type: Any, indices: Any,
        idx_stride: Any,
    ) -> None:  # fmt: skip
        """Forward, recording (Max) or consuming (UnMax) indices; ``index_type`` is ``None`` for size_t."""
        self.require_alive(caller)
        batch = check_count(batch, caller("batch_size"))
        x = self.input.bind(caller("in"), in_, batch, in_stride)
        y = self.output.bind(caller("out"), out, batch, out_stride, output=True)
        places = self._bind_indices(caller, indices, index_type, batch, idx_stride, output=not self.unpools)
        if batch == 0:
            return
        if places is None:
            self.run_forward(x, y)
        elif self.unpools:
            self._run_forward_indexed(x, y, self.indices.read(caller, places))
        elif y.overlaps(places):
            raise Problem(
                f"{caller('out')} and {caller.names.get('indices', 'indices')} share memory. Give each its own buffer."
            )
        else:
            self.indices.write(places, self._run_forward_indexed(x, y, None))

    def _run_forward_indexed(self, x: Bound, y: Bound, given: NDArray[np.uint64] | None) -> NDArray[Any]:
        """Forward with the indices of UnMax, or giving those of Max."""
        if not engines.is_native():
            b = self._parameters(np.float64)[1]
            result, found = reference.forward(
                self.function, x.read(np.float64), b, self.activation, self.geometry, _signed(given)
            )
            assert found is not None
            y.write(result)
            return found
        places = np.empty((x.batch, *self.output.shape), np.uint64) if given is None else np.ascontiguousarray(given)
        direct = None if y.overlaps(x) or self._touches_parameters(y) else y.direct()
        numbers = np.empty((x.batch, *self.output.shape), np.float32) if direct is None else direct
        tensors = {X: x.read(np.float32), B: self._parameters(np.float32)[1], Y: numbers, INDICES: places}
        self._run_plan(self.plan, False, x.batch, tensors)
        if direct is None:
            y.write(numbers)
        return places

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
        bound = self._bind_indices(caller, indices, index_type, count, idx_stride, output=False)
        places = None if bound is None else self.indices.read(caller, bound)
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
            raise Problem(
                f"{caller('in')} is NULL, but the input gradient of {self.name} pooling needs the forward input. {cure}"
            )

    def extra_tensors(self, context: Any) -> dict[int, NDArray[Any] | None]:
        return {INDICES: None if context is None else np.ascontiguousarray(context)}

    def forward_tensors(self, context: Any) -> dict[int, NDArray[Any] | None]:
        return self.extra_tensors(context) if self.unpools else {}

    def reference_backward(
        self, x: NDArray[Any] | None, y: NDArray[Any] | None, dy: NDArray[Any], w: NDArray[Any] | None,
        b: NDArray[Any] | None, wanted: set[str], context: Any = None,
    ) -> dict[str, NDArray[Any]]:  # fmt: skip
        channels, height, width = self.input.shape
        z = None
        if x is not None and not output_determines_slope(self.activation):
            z = reference.forward(self.function, x, b, IDENTITY, self.geometry, _signed(context))[0]
        return reference.backward(
            self.function, x, _signed(context), y, dy, self.activation, self.geometry,
            (dy.shape[0], channels, height, width), wanted, z,
        )  # fmt: skip


def _signed(indices: NDArray[np.uint64] | None) -> NDArray[np.int64] | None:
    """Positions as the reference engine takes them, with -1 for all bits set."""
    return None if indices is None else indices.view(np.int64)
