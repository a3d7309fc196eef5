"""Quantization: y = saturate(round(scale*x + bias)) to integers, and back: y = (x - bias) / scale.

The scale multiplies on the way to integers. Scale and bias are one value each, or vectors along one axis, which a single
bit of ``axis_mask`` names: bit d is the axis of ``size[d]``, bit ``rank`` the batch; 0 means one value. NULL data stands
for scale 1 or bias 0. ``data_scale`` and ``data_bias`` of input and output are ignored. There is no gradient.

Shapes: x and y (N, *shape) in C order; scale and bias (1), or as long as their axis.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import engines
from .._words import Caller, Named
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersQuantization
from ..calls.signature import Argument, Call
from ..errors import Problem
from ..parameters.quantization import QuantizerKind
from ..reference import quantization as reference
from ..tensors import descriptors, staging
from ..tensors.descriptors import FLOAT32, View, describe
from ..tensors.operands import Bound, Operand, Parameter
from ._rules import chosen, describe_both
from .base import B, Driving, Filter, W, X, Y

BATCH = 0  # axis of (N, *shape)

# NumPy types by the numbers of NumberType in core/kernels/quantization/shape.h.
_NUMBER_TYPES = {
    np.dtype(name): k for k, name in enumerate(("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"))
}


class Quantization(Filter):
    """A quantizer or dequantizer, created for one direct call or as the last layer of a fused filter."""

    family = "quantization"
    apply_call = "BNNSDirectApplyQuantizer"
    backward_call = "BNNSDirectApplyQuantizer, which has no gradient"

    scale: Parameter | None = None
    bias: Parameter | None = None

    def __init__(
        self,
        p: BNNSLayerParametersQuantization,
        filter_params: BNNSFilterParameters | None,
        who: Caller,
        *,
        direct: bool = False,
    ) -> None:
        """``direct``: for one call, which may read scale and bias where they are."""
        super().__init__(filter_params, who)
        self.client_pointer |= direct
        known = "BNNSQuantizerFunctionQuantize (0) or BNNSQuantizerFunctionDequantize (1)"
        self.function = chosen(p.function, QuantizerKind, "BNNSQuantizerFunction", who, "function", known)
        x, y = _plain(p.i_desc, who("i_desc")), _plain(p.o_desc, who("o_desc"))
        self._check_types(y, who)
        self.axis = _resolve_axis(x, int(p.axis_mask), who)
        self._set_operands(x, y, who)
        self.scale = self._vector(p.scale, who("scale"))
        self.bias = self._vector(p.bias, who("bias"))

    @property
    def quantizes(self) -> bool:
        return self.function == QuantizerKind.QUANTIZE

    def parameters(self) -> list[Parameter]:
        return [p for p in (self.scale, self.bias) if p is not None]

    # Creation.

    def _check_types(self, y: View, who: Caller) -> None:
        if self.quantizes and not y.element.is_integer:
            raise Problem(
                f"{who('o_desc.data_type')} is {y.element.name}, but Quantize gives integers. Use an Int or UInt type.",
                kind=TypeError,
            )
        if not self.quantizes and y.element.kind not in ("float", "bfloat"):
            raise Problem(
                f"{who('o_desc.data_type')} is {y.element.name}, but Dequantize gives real numbers. Use Float32, Float16 or "
                "BFloat16.",
                kind=TypeError,
            )

    def _set_operands(self, x: View, y: View, who: Caller) -> None:
        same = x.layout.same_as(y.layout) and x.size == y.size
        varies_inside = self.axis is not None and self.axis != BATCH
        if not same and (varies_inside or x.count != y.count):
            need = "the same layout and size" if varies_inside else "the same number of elements"
            raise Problem(f"{describe_both(x, y, who)}. Both sides need {need}.")
        self.input = Operand(x, x.memory_axes, flat=not same)
        self.output = Operand(y, y.memory_axes, flat=not same)

    def _vector(self, descriptor: Any, who: Named) -> Parameter | None:
        """scale or bias; ``None`` when its data is NULL."""
        if descriptor.data is None:
            return None
        view = descriptors.resolve(descriptor, who)
        if len(view.size) != 1:
            raise Problem(f"{who} is {describe(view)}. Describe a Vector: one value, or one per index of the axis.")
        if self.axis != BATCH:  # the length of the batch is known when it is applied
            self._check_length(view, who, 1 if self.axis is None else self.input.shape[self.axis - 1])
        return self.hold(view, (0,), who.field("data"), descriptor.data)

    def _check_length(self, view: View, who: str, length: int) -> None:
        if view.size[0] != length:
            where = {None: "no axis is named", BATCH: "they vary along the batch"}.get(
                self.axis, "they vary along an axis"
            )
            raise Problem(f"{who} has {view.size[0]} values, but {where}: {length} expected. Set its size to {length}.")

    # Calls.

    def driving_calls(self) -> Driving:
        return ("apply", None), None

    def declare(self, call: str, variant: Hashable) -> Call | None:
        if call != "apply":
            return None
        x, y = Argument("in", X, self.input, required=True), Argument("out", Y, self.output, writes=True, required=True)
        return Call((x, y))

    def check(self, call: Call, caller: Caller, batch: int, bound: dict[str, Bound]) -> None:
        self.check_batch(caller, batch)

    def run(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        self.convert(bound["in"], bound["out"])

    def check_batch(self, caller: Caller, batch: int) -> None:
        """Refuse a batch that scale or bias, which vary along it, do not fit."""
        if self.axis == BATCH:
            for name, parameter in (("scale", self.scale), ("bias", self.bias)):
                if parameter is not None:
                    self._check_length(parameter.view, caller(name), batch)

    def convert(self, x: Bound, y: Bound) -> None:
        """Convert checked memory."""
        if not x.view.element.is_integer:
            numbers = x.read(np.float32)
        elif x.view.element.numpy is None:
            numbers = x.read_integers().reshape(x.batch, *x.shape)
        else:
            numbers = x.read_raw()
        self.run_array(numbers.copy() if y.overlaps(x) else numbers, y)

    def run_array(self, x: NDArray[Any], y: Bound) -> None:
        """Convert x (N, *shape), float32, float64 or integers, each sample C-contiguous, into checked memory."""
        x = x.reshape(len(x), *y.shape)
        if not engines.is_native():
            self._run_reference(x, y)
            return
        scale, bias = self._vectors(x.shape, np.float32)
        bounds = staging.integer_range(y.view.element) if self.quantizes else None
        target = None if any(y.touches(p.memory) for p in self.parameters()) else y.direct_raw()
        if target is not None and (self.quantizes or y.view.element is FLOAT32):
            self._run_native(x, target, scale, bias, bounds)
            return
        stored = y.view.element.numpy or np.dtype(np.int16)
        result = np.empty(x.shape, stored if self.quantizes else np.float32)
        self._run_native(x, result, scale, bias, bounds)
        y.write(result)

    def _run_native(
        self, x: NDArray[Any], y: NDArray[Any], scale: NDArray[Any] | None, bias: NDArray[Any] | None,
        bounds: tuple[int, int] | None,
    ) -> None:  # fmt: skip
        """Quantize x (N, *shape) to integers y within ``bounds``, or dequantize to float32 without them.

        scale and bias hold one value each, or one per index of the axis.
        """
        shape, axis = x.shape[1:], self.axis
        outer, length = (math.prod(shape[: axis - 1]), shape[axis - 1]) if axis else (1, 1)
        low, high = bounds or (0, 0)
        plan = engines._core.quantization(
            dequantizes=bounds is None, x_type=_NUMBER_TYPES[x.dtype], y_type=_NUMBER_TYPES[y.dtype], outer=outer,
            length=length, inner=math.prod(shape[axis or 0 :]), per_sample=axis == BATCH, low=float(low), high=float(high),
        )  # fmt: skip
        places = [(X, x.ctypes.data, x.strides[0] // x.itemsize), (Y, y.ctypes.data, y.strides[0] // y.itemsize)]
        places += [(slot, a.ctypes.data, 0) for slot, a in ((W, scale), (B, bias)) if a is not None]
        engines._core.run(plan, False, len(x), places, 0, self.threads)

    def _vectors(self, shape: tuple[int, ...], dtype: Any) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Scale and bias; with an axis, both are vectors along it or both are ``None``."""
        scale = self.scale.read(dtype) if self.scale is not None else None
        bias = self.bias.read(dtype) if self.bias is not None else None
        if self.axis is not None and (scale is None) != (bias is None):
            length = shape[self.axis]
            scale = np.ones(length, dtype) if scale is None else scale
            bias = np.zeros(length, dtype) if bias is None else bias
        return scale, bias

    def _run_reference(self, x: NDArray[Any], y: Bound) -> None:
        scale, bias = self._vectors(x.shape, np.float64)
        q = reference.Quantizer(scale, bias, self.axis)
        if self.quantizes:
            low, high = staging.integer_range(y.view.element)
            y.write(reference.quantize(q, x.astype(np.float64), low, high))
        else:
            y.write(reference.dequantize(q, x))


def _plain(descriptor: Any, who: str) -> View:
    """A tensor whose stored integers are its values."""
    return replace(descriptors.resolve(descriptor, who), scale=1.0, bias=0.0, bias_before_scale=False)


def _resolve_axis(x: View, mask: int, who: Caller) -> int | None:
    """The axis of (N, *shape) that scale and bias vary along, or ``None``."""
    if mask == 0:
        return None
    rank = x.layout.rank
    bit = mask.bit_length() - 1
    if mask != 1 << bit or bit > rank:
        raise Problem(
            f"{who('axis_mask')} is {mask:#x}. Set one bit: 0 to {rank - 1} for an axis of {x.layout.name}, {rank} for the "
            "batch, or none for one scale and bias."
        )
    return BATCH if bit == rank else 1 + x.memory_axes.index(bit)
