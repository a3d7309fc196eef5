"""Standalone activations and element type conversion: y = f(x), dx = dy * f'(x), and the gradient of alpha.

Axis-wise functions (Softmax, LogSoftmax, GumbelMax) run jointly over the axes named by ``axis_flags``: bit d is the axis
of ``size[d]``, bit ``rank`` the batch axis, and 0 means axis 0.

Shapes: x and y (N, *shape) in C order; alpha is one value, or one per channel for PReLUPerChannel.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import engines
from .._words import Caller
from ..abi.enums import BNNSDataLayout, BNNSDataType
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersActivation, BNNSNDArrayDescriptor
from ..calls.run import run_staged
from ..calls.signature import Call, Need, need
from ..errors import Problem
from ..parameters.activation import AXIS_WISE, FROM_OUTPUT, Activation, ActivationKind
from ..reference import activation as reference
from ..tensors import staging
from ..tensors.descriptors import ELEMENT_TYPES, FLOAT32, LAYOUTS, View
from ..tensors.operands import Bound, Operand, OwnedMemory, Parameter, bind
from ._activation_rules import check_function, function_name, gradient_from_input, make_activation, native_activation
from ._rules import describe_both, resolve_both
from .base import DX, DY, GRADIENTS, UnaryFilter, W, X, Y

if TYPE_CHECKING:
    from .. import _core

_INTEGER = (ActivationKind.INTEGER_LINEAR_SATURATE, ActivationKind.INTEGER_LINEAR_SATURATE_PER_CHANNEL)
_TRAINABLE_ALPHA = (ActivationKind.LEAKY_RECTIFIED_LINEAR, ActivationKind.PRELU_PER_CHANNEL)
# Functions whose derivative the output alone determines: those that can be trained when fused, and two more.
_OUTPUT_SUFFICES = FROM_OUTPUT | {ActivationKind.SCALED_TANH, ActivationKind.RELU6}
# Functions for which that depends on alpha, which the caller may edit later.
_OUTPUT_SUFFICES_BY_ALPHA = (
    ActivationKind.LEAKY_RECTIFIED_LINEAR,
    ActivationKind.CLAMPED_LEAKY_RECTIFIED_LINEAR,
    ActivationKind.ELU,
    ActivationKind.THRESHOLD,
)
_VECTOR = LAYOUTS[int(BNNSDataLayout.BNNSDataLayoutVector)]


class AlphaValues(Parameter):
    """The values inside an activation filter that BNNSGetPointer gives access to: [alpha, beta], or one alpha per channel."""

    def __init__(self, values: NDArray[np.float32], count: int, memory: OwnedMemory) -> None:
        self.reading = lambda view: view
        self.view, self.order, self.shape = View(_VECTOR, FLOAT32, (count,), (1,)), (0,), (count,)
        self.fixed = memory.copy(values)
        self.bound = None

    def read(self, dtype: DTypeLike) -> NDArray[Any]:
        assert self.fixed is not None
        return self.fixed.astype(dtype, copy=False)


class ActivationFilter(UnaryFilter):
    """A standalone activation, also a converter between element types."""

    family = "activation"
    works_in_place = True

    def __init__(
        self, p: BNNSLayerParametersActivation, filter_params: BNNSFilterParameters | None, who: Caller
    ) -> None:
        super().__init__(filter_params, who)
        x, y = resolve_both(p, who)
        function = check_function(p.activation.function, who("activation.function"))
        self.fused_function = function
        self.activation = make_activation(function, p.activation)
        self.axes = self._resolve_axes(x, int(p.axis_flags), who)
        self._set_operands(x, y, who)
        self._set_values(x)
        if function in _INTEGER:
            self._set_integer_parameters(p.activation, x, who)
        self.seed = int.from_bytes(os.urandom(8), "little")
        self.draws = itertools.count()
        self.build_plan()

    # Creation.

    def _resolve_axes(self, x: View, flags: int, who: Caller) -> tuple[int, ...]:
        """NumPy axes of (batch, *memory order) along which an axis-wise function runs."""
        rank = x.layout.rank
        if flags >> (rank + 1):
            raise Problem(
                f"{who('axis_flags')} is {flags:#x}, but {x.layout.name} has {rank} axes (bits 0 to {rank - 1}) and the batch "
                f"(bit {rank}). Clear the other bits."
            )
        flags = flags or 1
        chosen = [1 + x.memory_axes.index(d) for d in range(rank) if flags >> d & 1]
        return tuple(sorted(([0] if flags >> rank & 1 else []) + chosen))

    def _set_operands(self, x: View, y: View, who: Caller) -> None:
        same_shape = x.layout.same_as(y.layout) and x.size == y.size
        if not same_shape and not (self.activation.function not in AXIS_WISE and x.count == y.count):
            need = (
                "the same layout and size" if self.activation.function in AXIS_WISE else "the same number of elements"
            )
            raise Problem(
                f"{describe_both(x, y, who)}. {function_name(self.activation.function)} needs {need} on both sides."
            )
        if self.activation.function == ActivationKind.PRELU_PER_CHANNEL:
            self._require_channels(x, who)
        self.input = Operand(x, x.memory_axes, flat=not same_shape)
        self.output = Operand(y, y.memory_axes, flat=not same_shape)

    def _set_values(self, x: View) -> None:
        f = self.activation
        if f.function == ActivationKind.PRELU_PER_CHANNEL:
            values = np.full(x.size[2], f.alpha, np.float32)
            self.values = AlphaValues(values, x.size[2], self.memory)
        else:
            self.values = AlphaValues(np.array([f.alpha, f.beta], np.float32), 1, self.memory)
        self.weights = self.values if f.function in _TRAINABLE_ALPHA else None

    def _set_integer_parameters(self, a: Any, x: View, who: Caller) -> None:
        if not (x.element.is_integer and self.output.view.element.is_integer):
            raise Problem(
                f"{who}: {function_name(self.activation.function)} maps integers to integers, but {who.name('i_desc')} is "
                f"{x.element.name} and {who.name('o_desc')} {self.output.view.element.name}. Use Int or UInt types on both "
                "sides.",
                kind=TypeError,
            )
        if self.activation.function == ActivationKind.INTEGER_LINEAR_SATURATE:
            self.integer = [np.array([int(v)], np.int64) for v in (a.iscale, a.ioffset, a.ishift)]
        else:
            self._require_channels(x, who)
            self.integer = [self._channel_integers(getattr(a, name), x.size[2], who, f"activation.{name}")
                            for name in ("iscale_per_channel", "ioffset_per_channel", "ishift_per_channel")]  # fmt: skip
        if any(not 0 <= int(s) < 64 for s in self.integer[2]):
            raise Problem(
                f"{who('activation.ishift')} is {self.integer[2].tolist()}. A right shift is between 0 and 63."
            )

    def _require_channels(self, x: View, who: Caller) -> None:
        if x.layout.name != "ImageCHW":
            raise Problem(
                f"{who}: {function_name(self.activation.function)} works on ImageCHW, but {who.name('i_desc')}.layout is "
                f"{x.layout.name}. Use BNNSDataLayoutImageCHW."
            )

    def _channel_integers(self, data: Any, channels: int, who: Caller, field: str) -> NDArray[np.int64]:
        if data is None:
            raise Problem(f"{who(field)} is {who.null}. Give {channels} int32 values, one per channel.")
        element = ELEMENT_TYPES[int(BNNSDataType.BNNSDataTypeInt32)]
        view = View(_VECTOR, element, (channels,), (1,))
        bound = bind(view, (0,), (channels,), who(field), data, 1, 0)
        return np.asarray(bound.read(np.int64)[0])

    def parameters(self) -> list[Parameter]:
        return [self.values] if hasattr(self, "values") else []  # creation may have failed before there were any

    # Native plan: one sample is [outer][length][inner].

    def make_plan(self, f: Activation) -> _core.Plan:
        outer, length, inner = self._block()
        return engines._core.activation(
            outer=outer,
            length=length,
            inner=inner,
            channels=self._channels(),
            activation=native_activation(f, self.seed),
        )

    def _channels(self) -> int:
        return self.input.shape[0] if self.activation.function == ActivationKind.PRELU_PER_CHANNEL else 0

    def _block(self) -> tuple[int, int, int]:
        """(outer, length, inner) around the chosen axes, if they are neighbours in memory."""
        shape = self.input.shape
        if self.activation.function not in AXIS_WISE:
            return 1, int(np.prod(shape)), 1
        first, last = self.axes[0] - 1, self.axes[-1]
        return (
            int(np.prod(shape[: max(first, 0)])),
            int(np.prod(shape[max(first, 0) : last])),
            int(np.prod(shape[last:])),
        )

    @property
    def _regular(self) -> bool:
        """True if the plan can run on the samples as they are: the chosen axes are adjacent and exclude the batch.

        GumbelMax is never regular: its kernel writes one maximum per row, and the output repeats it.
        """
        if self.activation.function == ActivationKind.GUMBEL_MAX:
            return False
        return self.activation.function not in AXIS_WISE or (
            self.axes[0] > 0 and self.axes[-1] - self.axes[0] == len(self.axes) - 1
        )

    @property
    def repeatable(self) -> bool:
        """True if a call may be recorded and repeated: nothing random, and no parameters but alpha and beta."""
        return self.activation.function not in (*_INTEGER, ActivationKind.GUMBEL, ActivationKind.GUMBEL_MAX)

    @property
    def _is_conversion(self) -> bool:
        return self.activation.function == ActivationKind.IDENTITY and not (
            self.input.view.element is self.output.view.element is FLOAT32
        )

    @property
    def _copies_integers(self) -> bool:
        """True for conversions between integer types with equal scale and bias, which need no (inexact) real numbers."""
        x, y = self.input.view, self.output.view
        both = self.activation.function == ActivationKind.IDENTITY and x.element.is_integer and y.element.is_integer
        return both and (x.scale, x.bias) == (y.scale, y.bias) and (x.bias == 0.0 or not y.bias_before_scale)

    def build_plan(self) -> None:
        if self.activation.function not in _INTEGER and not self._is_conversion and self._regular:
            super().build_plan()

    def fixed_addresses(self) -> list[tuple[int, int, int]] | None:
        assert self.values.fixed is not None and self.values.address is not None
        return [(W, self.values.address, self.values.fixed.nbytes)]

    def trains_fast(self) -> bool:
        return (
            self.activation.function not in (*_INTEGER, ActivationKind.GUMBEL_MAX) and not self.activation.right_slope
        )

    def input_needs(self) -> tuple[Need, ...]:
        from_output = self._output_suffices() and self.activation.function not in _OUTPUT_SUFFICES_BY_ALPHA
        by_value = () if from_output else (need(GRADIENTS, ""),)
        return (need({"weights_delta"}, "the gradient of alpha needs the forward input"), *by_value)

    def output_needs(self) -> tuple[Need, ...]:
        return (need(GRADIENTS, "", {"in"}),)

    def _output_suffices(self) -> bool:
        f = self.current()
        if f.function in (ActivationKind.LEAKY_RECTIFIED_LINEAR, ActivationKind.CLAMPED_LEAKY_RECTIFIED_LINEAR):
            return f.alpha > 0
        if f.function == ActivationKind.ELU:
            return f.alpha >= 0
        if f.function == ActivationKind.THRESHOLD:
            return f.beta <= f.alpha
        return f.function in _OUTPUT_SUFFICES

    # Calls.

    def current(self) -> Activation:
        """The function with the values that the caller may have edited through BNNSGetPointer."""
        values = self.values.read(np.float64)
        if self.activation.function == ActivationKind.PRELU_PER_CHANNEL:
            return Activation(
                self.activation.function, self.activation.alpha, self.activation.beta, channel_alpha=values
            )
        return Activation(
            self.activation.function, float(values[0]), float(values[1]), right_slope=self.activation.right_slope
        )

    def held_tensors(self, dtype: type[np.floating[Any]]) -> dict[int, NDArray[Any]]:
        return {W: self.values.read(dtype)}

    def run(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        if call.backward:
            super().run(call, batch, bound)
            return
        x, y = bound["in"], bound["out"]
        if self.activation.function in _INTEGER:
            y.write_integers(self._saturate(x.read_integers(), y.view))
        elif self._copies_integers:
            y.write_integers(x.read_integers())
        elif self._is_conversion:
            y.write(x.read(np.float64).reshape(y.batch, *y.shape))
        else:
            super().run(call, batch, bound)

    def run_native(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        if not call.backward and not self._regular:
            self._forward_irregular(bound["in"], bound["out"])
        elif call.backward and not self._regular and "in_delta" in bound:
            self._backward_irregular(bound)
        elif call.backward and self.activation.right_slope and "in" in bound and "in_delta" in bound:
            x, dy = bound["in"].read(np.float32), bound["out_delta"].read(np.float32)
            bound["in_delta"].write(gradient_from_input(self.activation, x, dy, self.threads))
        else:
            run_staged(self, call, call.plan, batch, bound, self.held_tensors(np.float32))

    def _saturate(self, x: NDArray[Any], view: View) -> NDArray[Any]:
        scale, offset, shift = self.integer
        low, high = staging.integer_range(view.element)
        if self.input.view.element.bits == 64:
            return self._saturate_exactly(x, low, high)
        if engines.is_native():
            return _saturate_natively(x, scale, offset, shift, low, high)
        scale, offset, shift = (v.reshape(-1, 1, 1) if v.size > 1 else v for v in self.integer)
        return reference.integer_linear_saturate(x, scale, offset, shift, low, high)

    def _saturate_exactly(self, x: NDArray[Any], low: int, high: int) -> NDArray[Any]:
        """The same in Python integers, for products that 64 bits may not hold."""
        scale, offset, shift = (v.reshape(-1, 1, 1) if v.size > 1 else v for v in self.integer)
        exact = (x.astype(object) * scale.astype(object) + offset.astype(object)) >> shift.astype(object)
        unsigned = high > np.iinfo(np.int64).max
        return np.asarray(np.clip(exact, low, high)).astype(np.uint64 if unsigned else np.int64)

    def _folded(self, a: NDArray[Any]) -> NDArray[np.float32]:
        """(rest, chosen axes) as one contiguous matrix, so that any choice of axes becomes rows."""
        rest = [k for k in range(a.ndim) if k not in self.axes]
        moved = a.transpose(*rest, *self.axes)
        length = int(np.prod([a.shape[k] for k in self.axes]))
        return np.ascontiguousarray(moved, np.float32).reshape(-1, length)

    def _unfolded(self, m: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        rest = [k for k in range(len(shape)) if k not in self.axes]
        order = [*rest, *self.axes]
        return np.asarray(m.reshape([shape[k] for k in order]).transpose(np.argsort(order)))

    def _forward_irregular(self, x: Bound, y: Bound) -> None:
        numbers = x.read(np.float32)
        rows = self._folded(numbers)
        columns = 1 if self.activation.function == ActivationKind.GUMBEL_MAX else rows.shape[1]
        result = np.empty((len(rows), columns), np.float32)
        seed = (self.seed + next(self.draws)) % (1 << 64)  # every call draws new numbers
        plan = _plan_of_rows(rows, native_activation(self.activation, seed))
        self.run_plan(plan, False, len(rows), {X: rows, W: self.values.read(np.float32), Y: result})
        y.write(self._unfolded(np.broadcast_to(result, rows.shape), numbers.shape))

    def reference_forward(
        self, x: NDArray[Any], w: NDArray[Any] | None, b: NDArray[Any] | None, f: Activation
    ) -> NDArray[Any]:
        f = self.current()
        uniform = None
        if f.function in (ActivationKind.GUMBEL, ActivationKind.GUMBEL_MAX):
            uniform = np.random.default_rng().uniform(np.nextafter(0.0, 1.0), 1.0, x.shape)
        y = reference.forward(f, x, self.axes, uniform)
        return np.broadcast_to(y, x.shape)

    def check(self, call: Call, caller: Caller, batch: int, bound: dict[str, Bound]) -> None:
        if not call.backward:
            return
        f = self.activation.function
        if f in _INTEGER or f == ActivationKind.GUMBEL_MAX:
            raise Problem(
                f"{caller}: {function_name(f)} has no gradient. It works in inference only.", unsupported=True
            )
        if "in" in bound or f == ActivationKind.GUMBEL:
            return
        if not self._output_suffices():
            raise Problem(
                f"{caller('in')} is {caller.null}, but the derivative of {function_name(f)} cannot be taken from the output. "
                "Pass the forward input."
            )
        if "out" not in bound and f not in (
            ActivationKind.IDENTITY,
            ActivationKind.LINEAR,
            ActivationKind.LINEAR_WITH_BIAS,
        ):
            raise Problem(
                f"{caller('in')} and {caller.name('out')} are both {caller.null}, but the derivative of "
                f"{function_name(f)} needs one of them. Pass the forward input."
            )

    def reference_backward(
        self, x: NDArray[Any] | None, y: NDArray[Any] | None, dy: NDArray[Any], w: NDArray[Any] | None,
        b: NDArray[Any] | None, wanted: set[str],
    ) -> dict[str, NDArray[Any]]:  # fmt: skip
        f = self.current()
        gradients: dict[str, NDArray[Any]] = {}
        if "dx" in wanted:
            gradients["dx"] = reference.backward(f, dy, x=x, y=None if x is not None else y, axes=self.axes)
        if "dw" in wanted:
            assert x is not None
            gradients["dw"] = np.atleast_1d(reference.alpha_gradient(f, x, dy))
        return gradients

    def _backward_irregular(self, bound: dict[str, Bound]) -> None:
        output_gradient = bound["out_delta"].read(np.float32)
        rows = self._folded(output_gradient)
        result = np.empty_like(rows)
        plan = _plan_of_rows(rows, native_activation(self.activation, self.seed))
        tensors: dict[int, NDArray[Any] | None] = {DY: rows, DX: result, W: self.values.read(np.float32)}
        slot, known = (X, "in") if "in" in bound else (Y, "out")
        tensors[slot] = self._folded(bound[known].read(np.float32))
        self.run_plan(plan, True, len(rows), tensors)
        bound["in_delta"].write(self._unfolded(result, output_gradient.shape))

    # BNNSGetPointer.

    def pointer(self, which: int) -> BNNSNDArrayDescriptor:
        """A Float32 Vector descriptor that aliases alpha (0) or beta (1) inside the filter."""
        assert self.values.fixed is not None
        if self.activation.function == ActivationKind.PRELU_PER_CHANNEL:
            data = self.values.fixed if which == 0 else self.values.fixed[:0]
        else:
            data = self.values.fixed[which : which + 1]
        return BNNSNDArrayDescriptor(
            layout=BNNSDataLayout.BNNSDataLayoutVector,
            size=[max(data.size, 1)],
            data=data if data.size else None,
            data_type=BNNSDataType.BNNSDataTypeFloat32,
        )


def _plan_of_rows(rows: NDArray[Any], f: _core.ActivationSpec) -> _core.Plan:
    return engines._core.activation(outer=1, length=rows.shape[1], inner=1, channels=0, activation=f)


def _saturate_natively(
    x: NDArray[Any], scale: NDArray[Any], offset: NDArray[Any], shift: NDArray[Any], low: int, high: int
) -> NDArray[np.int64]:
    """saturate((scale*x + offset) >> shift), with one triple for all or one per channel of x (N, C, H, W)."""
    x = np.ascontiguousarray(x)
    y = np.empty_like(x)
    low, high = max(low, -(1 << 63)), min(high, (1 << 63) - 1)
    parts = [(x, y, 0)]
    if len(scale) > 1:
        parts = [(x[n, c], y[n, c], c) for n in range(x.shape[0]) for c in range(x.shape[1])]
    for source, target, c in parts:
        engines._core.integer_linear_saturate(
            source.ctypes.data, target.ctypes.data, source.size, scale=int(scale[c]), offset=int(offset[c]),
            shift=int(shift[c]), low=low, high=high,
        )  # fmt: skip
    return y
