"""Convolution: cross-correlation with stride, dilation, padding and groups, and its gradients.

With X = sx*x + dlx*kx - left and Y = sy*y + dly*ky - up:

    z(o,y,x)       = b(o) + sum_{i,ky,kx} w(o,i,ky,kx) * in(i,Y,X)        y = f(z), 0 outside the input
    dx(i,Y,X)      = sum over (o,y,x,ky,kx) that meet (Y,X) of w(o,i,ky,kx) * dz(o,y,x)
    dw(o,i,ky,kx)  = sum_n sum_{y,x} dz_n(o,y,x) * in_n(i,Y,X)
    db(o)          = sum_n sum_{y,x} dz_n(o,y,x)

Shapes: x (N, I, H, W), w (O, I/groups, KH, KW), b (O), y (N, O, H', W').
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from .. import _strict, compat, engines
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersConvolution
from ..errors import Problem
from ..parameters.activation import Activation
from ..parameters.convolution import Geometry
from ..reference import convolution as reference
from ..tensors import descriptors, stored
from ..tensors.descriptors import View, describe
from ..tensors.operands import Operand
from ._activation_rules import native_activation, resolve_fused
from .base import UnaryFilter
from .fully_connected import bias_view, native_scales, resolve_bias, resolve_scales, scaled

if TYPE_CHECKING:
    from .. import _core

# Axes (output channel, input channel, ky, kx) of size[] in each kernel layout.
KERNEL_AXES = {
    "ConvolutionWeightsOIHW": (3, 2, 1, 0),
    "ConvolutionWeightsOIHrWr": (3, 2, 1, 0),
    "ConvolutionWeightsIOHrWr": (2, 3, 1, 0),
    "ConvolutionWeightsOIHW_Pack32": (3, 2, 1, 0),
}


@dataclass(frozen=True)
class Window:
    """How a kernel moves over an image: vertical value first."""

    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]  # up, down, left, right

    def extent(self, kernel: int, axis: int) -> int:
        """Rows (axis 0) or columns (axis 1) that a dilated kernel covers."""
        return self.dilation[axis] * (kernel - 1) + 1

    def positions(self, size: int, kernel: int, axis: int) -> int:
        """How many windows fit, at most; 0 when the kernel is larger than the padded image."""
        room = size + self.padding[2 * axis] + self.padding[2 * axis + 1] - self.extent(kernel, axis)
        return room // self.stride[axis] + 1 if room >= 0 else 0


_WINDOW_FIELDS = ("x_stride", "y_stride", "x_dilation_stride", "y_dilation_stride", "x_padding", "y_padding")
_LARGEST_VALUE = 1 << 20


def check_window(p: Any, who: Caller) -> None:
    """Refuse values larger than any image needs, such as a negative number cast to size_t."""
    values = {name: getattr(p, name) for name in _WINDOW_FIELDS} | {f"pad[{k}]": v for k, v in enumerate(p.pad)}
    values |= {name: getattr(p, name) for name in ("k_width", "k_height") if hasattr(p, name)}
    for name, value in values.items():
        if value > _LARGEST_VALUE:
            raise Problem(
                f"{who(name)} is {value}, which is more than any image has. Use a value up to {_LARGEST_VALUE}."
            )


def resolve_window(p: Any) -> Window:
    """Stride, dilation and padding of a convolution or pooling description, with defaults in place of zeros."""
    if p.x_padding > 0 or p.y_padding > 0:
        padding = (p.y_padding, p.y_padding, p.x_padding, p.x_padding)
    else:
        left, right, up, down = p.pad
        padding = (up, down, left, right)
    return Window(
        (max(p.y_stride, 1), max(p.x_stride, 1)),
        (max(p.y_dilation_stride, 1), max(p.x_dilation_stride, 1)),
        padding,
    )


def resolve_image(descriptor: Any, who: str) -> View:
    """An image stack of a convolution or pooling description."""
    view = descriptors.resolve(descriptor, who)
    if view.layout.name != "ImageCHW":
        raise Problem(
            f"{who}.layout is {view.layout.name}. Images are ImageCHW with size = (width, height, channels): "
            "use BNNSDataLayoutImageCHW."
        )
    return view


def check_output_size(
    large: View, small: View, kernel: tuple[int, int], window: Window, who: Caller, roles: tuple[str, str]
) -> None:
    """One window per pixel of ``small`` must fit on ``large``; ``roles`` names their descriptors."""
    for axis, name in ((0, "height"), (1, "width")):
        size, got = large.size[1 - axis], small.size[1 - axis]
        most = window.positions(size, kernel[axis], axis)
        before, after = window.padding[2 * axis], window.padding[2 * axis + 1]
        rule = (
            f"{who.name(roles[0])} {name} {size} with padding {before} + {after}, a kernel of {kernel[axis]} "
            f"(dilation {window.dilation[axis]}) and stride {window.stride[axis]}"
        )
        if most == 0:
            raise Problem(
                f"{who}: {rule} leaves no room for a single window. Use a larger image, more padding or a smaller kernel."
            )
        if got > most:
            raise Problem(
                f"{who(roles[1])} {name} is {got}, but {rule} gives at most {most}. Set {who.name(roles[1])}.size[{1 - axis}] "
                f"to {most}, or change padding or stride."
            )
        if got < most and not who.wants_results:
            _strict.narrow_output(str(who(roles[1])), name, got, most)
        exact = window.stride[axis] * (got - 1) + window.extent(kernel[axis], axis) == size + before + after
        if compat.switches.convolution_exact_size and not exact:
            raise Problem(
                f"{who}: {rule} leaves a remainder with {who.name(roles[1])} {name} {got}, which "
                "compat.switches.convolution_exact_size forbids. Change the sizes or switch it off."
            )


class KernelFilter(UnaryFilter):
    """The base of convolution and its adjoint, transposed convolution."""

    window: Window
    kernel: tuple[int, int]
    groups = 1
    exact: bool  # plain sums only, as the accuracy setting at creation demands
    weights_scales: NDArray[Any] | None = None  # one for each output channel, of weights of Int8
    _formulas: tuple[Callable[..., NDArray[Any]], Callable[..., dict[str, NDArray[Any]]]]  # forward and backward

    def _finish(self, p: BNNSLayerParametersConvolution, who: Caller) -> None:
        """Set up bias, activation and plan, once tensors and window are known."""
        channels, *image = self.output.shape
        self.bias = resolve_bias(self, p.bias, channels, who, stored=self.output.stored)
        self.fused_function = int(p.activation.function)
        self.activation = resolve_fused(p.activation, who)
        self.geometry = Geometry(
            self.window.stride, self.window.dilation, self.window.padding, self.groups, (image[0], image[1])
        )
        self.exact = engines.accuracy() == engines.EXACT
        self.build_plan()

    def native_plan(self, make: Callable[..., _core.Plan], x: Operand, y: Operand, f: Activation) -> _core.Plan:
        """A plan with the window of this filter, for a convolution from x to y."""
        (stride_y, stride_x), (dilation_y, dilation_x) = self.window.stride, self.window.dilation
        w, b = self.weights, self.bias
        return make(
            in_channels=x.shape[0], in_height=x.shape[1], in_width=x.shape[2],
            out_channels=y.shape[0], out_height=y.shape[1], out_width=y.shape[2],
            kernel_height=self.kernel[0], kernel_width=self.kernel[1], stride_y=stride_y, stride_x=stride_x,
            dilation_y=dilation_y, dilation_x=dilation_x, pad_up=self.window.padding[0], pad_left=self.window.padding[2],
            groups=self.groups, exact=self.exact, bfloat16=self.rounds_products, activation=native_activation(f),
            x=stored.native_element_of(x), w=stored.native_element_of(w), b=stored.native_element_of(b),
            y=stored.native_element_of(y), w_scales=native_scales(self.weights_scales),
        )  # fmt: skip

    def reference_forward(
        self, x: NDArray[Any], w: NDArray[Any] | None, b: NDArray[Any] | None, f: Activation
    ) -> NDArray[Any]:
        return self._formulas[0](x, w if w is None else scaled(w, self.weights_scales), b, f, self.geometry)

    def reference_backward(
        self, x: NDArray[Any] | None, y: NDArray[Any] | None, dy: NDArray[Any], w: NDArray[Any] | None,
        b: NDArray[Any] | None, wanted: set[str],
    ) -> dict[str, NDArray[Any]]:  # fmt: skip
        image, z = self.input.shape[1:], self.reference_z(x, w, b)
        return self._formulas[1](x, y, dy, w, self.activation, self.geometry, wanted, image, z=z)


class Convolution(KernelFilter):
    """A 2-D convolution filter."""

    _formulas = (reference.forward, reference.backward)

    family = "convolution"

    def __init__(
        self,
        p: BNNSLayerParametersConvolution,
        filter_params: BNNSFilterParameters | None,
        who: Caller,
        *,
        weights_scales: Any = None,
    ) -> None:
        super().__init__(filter_params, who)
        x, y = resolve_image(p.i_desc, who("i_desc")), resolve_image(p.o_desc, who("o_desc"))
        w = descriptors.resolve(p.w_desc, who("w_desc"))
        check_window(p, who)
        self.window = resolve_window(p)
        self.groups = max(p.groups, 1)
        axes = kernel_axes(w, who)
        self.kernel = (w.size[axes[2]], w.size[axes[3]])
        self._check_channels(x, y, w, axes, who)
        check_output_size(x, y, self.kernel, self.window, who, ("i_desc", "o_desc"))
        bias = bias_view(p.bias, y.size[2], who)
        as_stored = stored.takes((x, w), (y, *([] if bias is None else [bias])))
        self.input = Operand(x, x.memory_axes, stored=as_stored)
        self.output = Operand(y, y.memory_axes, stored=as_stored)
        self.weights = self.hold(w, axes, who("w_desc.data"), p.w_desc.data, stored=as_stored)
        products = w.count // y.size[2]
        self.weights_scales = resolve_scales(weights_scales, x, w, products, y.size[2], who)
        self._finish(p, who)

    def _check_channels(self, x: View, y: View, w: View, axes: tuple[int, int, int, int], who: Caller) -> None:
        channels_in, channels_out = x.size[2], y.size[2]
        if channels_in % self.groups or channels_out % self.groups:
            raise Problem(
                f"{who('groups')} is {self.groups}, which does not divide the {channels_in} input channels and "
                f"{channels_out} output channels. Both must be multiples of {who.name('groups')}."
            )
        if self.groups > 1 and w.layout.name != "ConvolutionWeightsOIHW":
            raise Problem(
                f"{who('w_desc.layout')} is {w.layout.name}, but grouped convolution takes ConvolutionWeightsOIHW only.",
                unsupported=True,
            )
        per_group = f" / {self.groups} groups" if self.groups > 1 else ""
        check_kernel_channels(
            w, axes, (channels_out, channels_in // self.groups), (channels_out, channels_in), who, per_group
        )

    def make_plan(self, f: Activation) -> _core.Plan:
        return self.native_plan(engines._core.convolution, self.input, self.output, f)


def check_kernel_channels(
    w: View, axes: tuple[int, ...], expected: tuple[int, int], images: tuple[int, int], who: Caller, per_group: str = ""
) -> None:
    """Refuse kernels whose numbers of output and input channels differ from those of the images."""
    got = (w.size[axes[0]], w.size[axes[1]])
    if got != expected:
        size = f"{who.name('w_desc')}.size"
        raise Problem(
            f"{who('w_desc')} is {describe(w)}, that is {got[0]} output and {got[1]} input channels, but "
            f"{who.name('o_desc')} has {images[0]} and {who.name('i_desc')} {images[1]}{per_group}.",
            cure=f"Set {size}[{axes[0]}] to {expected[0]} and {size}[{axes[1]}] to {expected[1]}.",
        )


def kernel_axes(w: View, who: Caller) -> tuple[int, int, int, int]:
    """Axes of a kernel's size[] in the order output channel, input channel, row, column."""
    if w.layout.name not in KERNEL_AXES:
        raise Problem(
            f"{who('w_desc.layout')} is {w.layout.name}. Kernels are ConvolutionWeightsOIHW (size = kernel width, kernel "
            "height, input channels, output channels), OIHrWr, IOHrWr or OIHW_Pack32."
        )
    return KERNEL_AXES[w.layout.name]
