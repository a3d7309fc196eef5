"""Transposed convolution: the adjoint of a convolution, which enlarges an image.

The layer is an ordinary correlation over the input with stride - 1 zeros between its pixels. In scatter form, with
v(i,o,ky,kx) = w(o, i, KH-1-ky, KW-1-kx):

    z(o, sy*y + dly*ky - up, sx*x + dlx*kx - left) += v(i,o,ky,kx) * in(i,y,x)        out = f(z + b)
    dx(i,y,x)     = sum_{o,ky,kx} v(i,o,ky,kx) * dz(o,Y,X)
    dv(i,o,ky,kx) = sum_n sum_{y,x} in_n(i,y,x) * dz_n(o,Y,X)
    db(o)         = sum_n sum dz_n(o)

So the weights of PyTorch's ConvTranspose2d, stored (I, O, KH, KW), are described by ConvolutionWeightsIOHrWr.

Shapes: x (N, I, H, W), v (I, O, KH, KW), b (O), y (N, O, H', W') with H' + up + down = sy*(H - 1) + dly*(KH - 1) + 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .. import compat, engines
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersConvolution
from ..errors import Problem
from ..parameters.activation import Activation
from ..reference import convolution as reference
from ..tensors import descriptors
from ..tensors.descriptors import View
from ..tensors.operands import Operand
from ._rules import require_float32
from .convolution import (
    KernelFilter,
    check_kernel_channels,
    check_output_size,
    check_window,
    kernel_axes,
    resolve_image,
    resolve_window,
)

if TYPE_CHECKING:
    from .. import _core


def _rotated(view: View) -> View:
    """The kernel turned by 180 degrees: layouts that store it unrotated are read in reverse, and vice versa."""
    flipped = () if view.layout.flipped else (0, 1)
    return replace(view, layout=replace(view.layout, flipped=flipped))


def _as_stored(view: View) -> View:
    return view


class TransposedConvolution(KernelFilter):
    """A 2-D transposed convolution filter (Float32, no groups)."""

    _formulas = (reference.transposed_forward, reference.transposed_backward)

    family = "transposed convolution"

    def __init__(
        self, p: BNNSLayerParametersConvolution, filter_params: BNNSFilterParameters | None, who: Caller
    ) -> None:
        super().__init__(filter_params, who)
        x, y = resolve_image(p.i_desc, who("i_desc")), resolve_image(p.o_desc, who("o_desc"))
        w = descriptors.resolve(p.w_desc, who("w_desc"))
        self._check_supported(p, {"i_desc": x, "o_desc": y, "w_desc": w}, who)
        check_window(p, who)
        self.window = resolve_window(p)
        out_axis, in_axis, row_axis, column_axis = kernel_axes(w, who)
        self.kernel = (w.size[row_axis], w.size[column_axis])
        channels = (y.size[2], x.size[2])
        check_kernel_channels(w, (out_axis, in_axis), channels, channels, who)
        check_output_size(y, x, self.kernel, self.window, who, ("o_desc", "i_desc"))
        self.input, self.output = Operand(x, x.memory_axes), Operand(y, y.memory_axes)
        self.weights = self.hold(
            w, (in_axis, out_axis, row_axis, column_axis), who("w_desc.data"), p.w_desc.data,
            reading=_as_stored if compat.switches.transposed_kernel_scatter else _rotated,
        )  # fmt: skip
        self._finish(p, who)

    def _check_supported(self, p: BNNSLayerParametersConvolution, views: dict[str, View], who: Caller) -> None:
        if p.groups > 1:
            raise Problem(
                f"{who('groups')} is {p.groups}, but transposed convolution has no groups. Set {who.name('groups')} to 1, and "
                "make one layer for each group.",
                unsupported=True,
            )
        for name, view in views.items():
            require_float32(view, who(name), "transposed convolution works on", unsupported=True)

    def make_plan(self, f: Activation) -> _core.Plan:
        # The native plan is named after the convolution whose adjoint it is: from the large image to the small one.
        return self.native_plan(engines._core.transposed_convolution, self.output, self.input, f)
