"""Fully connected layers: y = f(W x + b).

Gradients: dx = W^T dz, dW = sum_n dz_n x_n^T, db = sum_n dz_n, with dz = dy * f'(y).

Shapes: x (N, inputs), W (outputs, inputs), b (outputs), y (N, outputs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import engines
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersFullyConnected
from ..calls.signature import Call
from ..errors import Problem
from ..parameters.activation import Activation
from ..reference import fully_connected as reference
from ..tensors import descriptors, stored
from ..tensors.descriptors import View, describe
from ..tensors.operands import Bound, Operand, Parameter
from ._activation_rules import native_activation, resolve_fused
from ._rules import resolve_both
from .base import UnaryFilter
from .sparse import dense_view

if TYPE_CHECKING:
    from .. import _core

# Axes (output, input) of size[] in each weights layout.
_LONGEST_EXACT_SUM = 65536  # products, as in core/gemm/stored_product.h
_WEIGHT_AXES = {"RowMajorMatrix": (1, 0), "ColumnMajorMatrix": (0, 1), "2DFirstMajor": (0, 1), "2DLastMajor": (0, 1)}


class FullyConnected(UnaryFilter):
    """A matrix-vector filter over flat inputs and outputs."""

    family = "fully connected"

    def __init__(
        self,
        p: BNNSLayerParametersFullyConnected,
        filter_params: BNNSFilterParameters | None,
        who: Caller,
        *,
        weights_scales: Any = None,
    ) -> None:
        super().__init__(filter_params, who)
        x, y = resolve_both(p, who)
        weights = who("w_desc")
        packed = dense_view(p.w_desc, weights)
        self.sparse = packed is not None
        w, values = packed or (descriptors.resolve(p.w_desc, weights), p.w_desc.data)
        self.inputs, self.outputs = x.count, y.count
        axes = self._check_weights(w, who)
        bias = bias_view(p.bias, self.outputs, who)
        as_stored = stored.takes((x, w), (y, *([] if bias is None else [bias])))
        self.input = Operand(x, x.memory_axes, flat=True, stored=as_stored)
        self.output = Operand(y, y.memory_axes, flat=True, stored=as_stored)
        self.weights = self.hold(w, axes, weights.field("data"), values, stored=as_stored)
        self.bias = resolve_bias(self, p.bias, self.outputs, who, stored=as_stored)
        self.weights_scales = resolve_scales(weights_scales, x, w, self.inputs, self.outputs, who)
        self.fused_function = int(p.activation.function)
        self.activation = resolve_fused(p.activation, who)
        self.build_plan()

    def _check_weights(self, w: View, who: Caller) -> tuple[int, int]:
        if w.layout.name not in _WEIGHT_AXES:
            raise Problem(
                f"{who('w_desc.layout')} is {w.layout.name}. Fully connected weights are RowMajorMatrix (size = inputs, "
                "outputs), ColumnMajorMatrix, 2DFirstMajor or 2DLastMajor (size = outputs, inputs)."
            )
        axes = _WEIGHT_AXES[w.layout.name]
        got = (w.size[axes[0]], w.size[axes[1]])
        if got != (self.outputs, self.inputs):
            expected = [0, 0]
            expected[axes[0]], expected[axes[1]] = self.outputs, self.inputs
            raise Problem(
                f"{who('w_desc')} is {describe(w)}, that is {got[0]} outputs x {got[1]} inputs, but {who.name('i_desc')} has "
                f"{self.inputs} elements and {who.name('o_desc')} {self.outputs}.",
                cure=f"Set {who.name('w_desc')}.size to {tuple(expected)} for {w.layout.name}.",
            )
        return axes

    def trains_fast(self) -> bool:
        return not self.sparse and super().trains_fast()

    def check(self, call: Call, caller: Caller, batch: int, bound: dict[str, Bound]) -> None:
        if call.backward and self.sparse:
            raise Problem(
                f"{caller}: the weights are FullyConnectedSparse, which run forward only. Train with dense weights, and "
                "pack them afterwards.",
                unsupported=True,
            )
        super().check(call, caller, batch, bound)

    def make_plan(self, f: Activation) -> _core.Plan:
        x, w, b, y = map(stored.native_element_of, (self.input, self.weights, self.bias, self.output))
        return engines._core.fully_connected(
            inputs=self.inputs, outputs=self.outputs, x=x, w=w, b=b, y=y, bfloat16=self.rounds_products,
            w_scales=native_scales(self.weights_scales), activation=native_activation(f),
        )  # fmt: skip

    def reference_forward(
        self, x: NDArray[Any], w: NDArray[Any] | None, b: NDArray[Any] | None, f: Activation
    ) -> NDArray[Any]:
        assert w is not None
        return reference.forward(x, scaled(w, self.weights_scales), b, f)

    def reference_backward(
        self, x: NDArray[Any] | None, y: NDArray[Any] | None, dy: NDArray[Any], w: NDArray[Any] | None,
        b: NDArray[Any] | None, wanted: set[str],
    ) -> dict[str, NDArray[Any]]:  # fmt: skip
        assert w is not None
        return reference.backward(x, y, dy, w, self.activation, wanted, z=self.reference_z(x, w, b))


def resolve_scales(given: Any, x: View, w: View, products: int, outputs: int, who: Caller) -> NDArray[Any] | None:
    """The scales of int8 weights, one for each output (channel); ``products`` are those of a sum."""
    if given is None:
        return None
    scales = np.array(given, np.float32)
    if scales.shape != (outputs,) or not (np.isfinite(scales) & (scales > 0)).all():
        raise Problem(
            f"{who('weights_scales')} has shape {scales.shape}, but one positive number for each of the {outputs} outputs is "
            "needed. Pass such a vector."
        )
    if x.element.name not in ("Int8", "UInt8") or w.element.name != "Int8" or w.bias:
        raise Problem(
            f"{who('weights_scales')} needs an input of Int8 or UInt8 and weights of Int8 without data_bias, but the input is "
            f"{x.element.name} and the weights are {w.element.name}{f' with data_bias {w.bias:g}' if w.bias else ''}. Leave it "
            "out, and multiply the weights.",
            kind=TypeError,
        )
    if products > _LONGEST_EXACT_SUM:
        raise Problem(
            f"{who('weights_scales')} is for exact sums of at most {_LONGEST_EXACT_SUM} products, but a sum has {products}. "
            "Leave it out, and use weights of Float32.",
            unsupported=True,
        )
    return scales


def native_scales(scales: NDArray[Any] | None) -> bytes:
    """The scales as native plans take them."""
    return b"" if scales is None else scales.tobytes()


def scaled(w: NDArray[Any], scales: NDArray[Any] | None) -> NDArray[Any]:
    """Weights multiplied by the scales of their outputs, which the first axis counts."""
    return w if scales is None else w * scales.reshape(-1, *(1,) * (w.ndim - 1))


def resolve_bias(
    owner: UnaryFilter, descriptor: Any, count: int, who: Caller, *, stored: bool = False
) -> Parameter | None:
    """The bias of a layer: one value per output (channel), absent when its data is NULL."""
    view = bias_view(descriptor, count, who)
    if view is None:
        return None
    return owner.hold(view, (0,), who("bias").field("data"), descriptor.data, stored=stored)


def bias_view(descriptor: Any, count: int, who: Caller) -> View | None:
    """The view that the descriptor of a bias describes; ``None`` without data."""
    if descriptor.data is None:
        return None
    bias = who("bias")
    view = descriptors.resolve(descriptor, bias)
    if view.count != count or len(view.size) != 1:
        raise Problem(
            f"{bias} is {describe(view)}, but there is one value per output. Describe a Vector of size {count}."
        )
    return view
