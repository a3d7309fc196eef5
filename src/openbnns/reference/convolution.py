"""Convolution (cross-correlation: the kernel is not flipped) and its transpose.

Both directions see the image through windows. `frame` lays the image into the smallest rectangle that all windows
together touch, zeros around it; the cells that kernel tap (ky, kx) meets are then one strided slice of that frame:

    frame[Y, X] = image[Y - up, X - left],   tap(ky, kx)[y, x] = frame[sy*y + dly*ky, sx*x + dlx*kx]

`unframe` is the adjoint of `frame`. Convolution gathers taps, its transpose scatters into them, and the backward of
either is the forward of the other. Padding below and to the right never needs to be named: whatever a window touches
outside the image is zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

import numpy as np

from ..parameters.activation import Activation
from ..parameters.convolution import Geometry, Size
from . import activation
from .activation import Array


@np.errstate(all="ignore")
def forward(x: Array, w: Array, b: Array | None, f: Activation, g: Geometry) -> Array:
    """z(o,y,x) = b(o) + sum_{i,ky,kx} w(o,i,ky,kx) in(i, sy*y + dly*ky - up, sx*x + dlx*kx - left); y = f(z).

    x (N, I, H, W), w (O, I/groups, KH, KW), b (O,) or None, y (N, O, *out_size). Output channel o belongs to group
    o // (O/groups) and reads that group's input channels. An axis-wise f runs along the last axis.
    """
    windows = frame(x, g.out_size, w.shape[2:], g)
    z = _correlate(windows, w, g.out_size, g)
    return activation.forward(f, _add_bias(z, b))


@np.errstate(all="ignore")
def backward(
    x: Array | None,
    y: Array | None,
    dy: Array,
    w: Array,
    f: Activation,
    g: Geometry,
    wanted: Set[str],
    in_size: Size,
    z: Array | None = None,
) -> dict[str, Array]:
    """The wanted gradients among {"dx", "dw", "db"} of `forward`; in_size is (H, W) of x, which is read for dw only.

    dz = dy f'(z)         from y, or from z where it is given and y does not determine the derivative
    dx(i,Y,X) = sum of w(o,i,ky,kx) dz(o,y,x) over all windows and taps that met (Y,X)
    dw(o,i,ky,kx) = sum_n sum_{y,x} dz(o,y,x) in(i,Y,X)
    db(o) = sum_n sum_{y,x} dz(o,y,x)
    """
    dz = activation.fused_backward(f, dy, y, z)
    gradients: dict[str, Array] = {}
    if "dx" in wanted:
        gradients["dx"] = unframe(_spread(dz, w, g), in_size, g)
    if "dw" in wanted:
        if x is None:
            raise ValueError("convolution.backward: dw needs the input x; got None.")
        gradients["dw"] = _correlate_images(dz, frame(x, g.out_size, w.shape[2:], g), w.shape, g)
    if "db" in wanted:
        gradients["db"] = np.sum(dz, axis=(0, 2, 3))
    return gradients


@np.errstate(all="ignore")
def transposed_forward(x: Array, v: Array, b: Array | None, f: Activation, g: Geometry) -> Array:
    """z(o, sy*y + dly*ky - up, sx*x + dlx*kx - left) += v(i,o,ky,kx) in(i,y,x); y = f(z + b).

    x (N, I, h, w), v (I, O, KH, KW), b (O,) or None, y (N, O, *out_size). What falls outside the output is dropped;
    output pixels that nothing falls on hold f(b).
    """
    _refuse_groups(g)
    z = unframe(_spread(x, v, g), g.out_size, g)
    return activation.forward(f, _add_bias(z, b))


@np.errstate(all="ignore")
def transposed_backward(
    x: Array | None,
    y: Array | None,
    dy: Array,
    v: Array,
    f: Activation,
    g: Geometry,
    wanted: Set[str],
    in_size: Size,
    z: Array | None = None,
) -> dict[str, Array]:
    """The wanted gradients among {"dx", "dw", "db"} of `transposed_forward`; in_size is (h, w) of x, read for dw only.

    dz = dy f'(z)
    dx(i,y,x) = sum_{o,ky,kx} v(i,o,ky,kx) dz(o,Y,X),  Y = sy*y + dly*ky - up, X likewise: a convolution
    dw(i,o,ky,kx) = sum_n sum_{y,x} in(i,y,x) dz(o,Y,X), in the form of v
    db(o) = sum_n sum_{Y,X} dz(o,Y,X)
    """
    _refuse_groups(g)
    dz = activation.fused_backward(f, dy, y, z)
    gradients: dict[str, Array] = {}
    if wanted & {"dx", "dw"}:
        windows = frame(dz, in_size, v.shape[2:], g)
    if "dx" in wanted:
        gradients["dx"] = _correlate(windows, v, in_size, g)
    if "dw" in wanted:
        if x is None:
            raise ValueError("convolution.transposed_backward: dw needs the input x; got None.")
        gradients["dw"] = _correlate_images(x, windows, v.shape, g)
    if "db" in wanted:
        gradients["db"] = np.sum(dz, axis=(0, 2, 3))
    return gradients


# ---------------------------------------------------------------------------------------------------------------------
# Windows; `windows` is how many there are (vertical, horizontal), `kernel` is (KH, KW)


def frame(image: Array, windows: Size, kernel: tuple[int, ...], g: Geometry, fill: float = 0.0) -> Array:
    """The rectangle that all windows touch, holding `image` (N, C, H, W) where they overlap and `fill` elsewhere."""
    height, width = _frame_size(windows, kernel, g)
    up, _, left, _ = g.padding
    framed = np.full((*image.shape[:2], height, width), fill)
    rows, columns = _overlap(height, up, image.shape[2]), _overlap(width, left, image.shape[3])
    framed[:, :, up : up + rows, left : left + columns] = image[:, :, :rows, :columns]
    return framed


def unframe(framed: Array, size: Size, g: Geometry) -> Array:
    """The image of the given size inside the frame: the adjoint of `frame`, zero where no window reaches."""
    up, _, left, _ = g.padding
    image = np.zeros(framed.shape[:2] + size)
    rows, columns = _overlap(framed.shape[2], up, size[0]), _overlap(framed.shape[3], left, size[1])
    image[:, :, :rows, :columns] = framed[:, :, up : up + rows, left : left + columns]
    return image


def taps(framed: Array, windows: Size, kernel: tuple[int, ...], g: Geometry) -> Iterator[tuple[int, int, Array]]:
    """(ky, kx, view of the cells that this tap meets, one per window), row by row through the kernel."""
    for ky in range(kernel[0]):
        for kx in range(kernel[1]):
            top, left = g.dilation[0] * ky, g.dilation[1] * kx
            rows = slice(top, top + g.stride[0] * (windows[0] - 1) + 1, g.stride[0])
            columns = slice(left, left + g.stride[1] * (windows[1] - 1) + 1, g.stride[1])
            yield ky, kx, framed[:, :, rows, columns]


def _frame_size(windows: Size, kernel: tuple[int, ...], g: Geometry) -> Size:
    height, width = (g.stride[k] * (windows[k] - 1) + g.dilation[k] * (kernel[k] - 1) + 1 for k in (0, 1))
    return height, width


def _overlap(framed: int, before: int, image: int) -> int:
    """How many of `image` cells lie in a frame of `framed` cells that starts `before` cells ahead of the image."""
    return max(0, min(image, framed - before))


# ---------------------------------------------------------------------------------------------------------------------
# The three products. Each is one matrix product per tap, sample and group; kernels are (A, B/groups, KH, KW), where
# A is the number of channels of the windows' side (one pixel per window) and B that of the framed image.


def _correlate(framed: Array, kernel: Array, windows: Size, g: Geometry) -> Array:
    """(N, A, *windows): sum over taps of kernel (A, B) times cells (B)."""
    samples, channels = len(framed), kernel.shape[0]
    result = np.zeros((samples, g.groups, channels // g.groups, windows[0] * windows[1]))
    grouped = _by_group(kernel, g)
    for ky, kx, cells in taps(framed, windows, kernel.shape[2:], g):
        result += grouped[..., ky, kx] @ _pixels_by_group(cells, g)
    return result.reshape((samples, channels, *windows))


def _spread(pixels: Array, kernel: Array, g: Geometry) -> Array:
    """The adjoint of `_correlate`: (N, B, *frame) from pixels (N, A, *windows)."""
    samples, _, *window_counts = pixels.shape
    windows = (window_counts[0], window_counts[1])
    framed = np.zeros((samples, kernel.shape[1] * g.groups, *_frame_size(windows, kernel.shape[2:], g)))
    grouped = _by_group(kernel, g).swapaxes(1, 2)
    for ky, kx, cells in taps(framed, windows, kernel.shape[2:], g):
        cells += (grouped[..., ky, kx] @ _pixels_by_group(pixels, g)).reshape(cells.shape)
    return framed


def _correlate_images(pixels: Array, framed: Array, kernel_shape: tuple[int, ...], g: Geometry) -> Array:
    """The gradient of the kernel in either direction: sum over samples and windows of pixel (A) times cell (B)."""
    gradient = np.zeros(kernel_shape)
    grouped = _by_group(gradient, g)
    windows = (pixels.shape[2], pixels.shape[3])
    left = _pixels_by_group(pixels, g)
    for ky, kx, cells in taps(framed, windows, kernel_shape[2:], g):
        grouped[..., ky, kx] = np.sum(left @ _pixels_by_group(cells, g).swapaxes(2, 3), axis=0)
    return gradient


def _by_group(kernel: Array, g: Geometry) -> Array:
    """(groups, A/groups, B/groups, KH, KW), a view."""
    return kernel.reshape((g.groups, kernel.shape[0] // g.groups, *kernel.shape[1:]))


def _pixels_by_group(image: Array, g: Geometry) -> Array:
    """(N, groups, C/groups, pixels)."""
    samples, channels, height, width = image.shape
    return image.reshape(samples, g.groups, channels // g.groups, height * width)


def _add_bias(z: Array, b: Array | None) -> Array:
    return z if b is None else z + b[:, np.newaxis, np.newaxis]


def _refuse_groups(g: Geometry) -> None:
    if g.groups != 1:
        raise ValueError(f"convolution: a transposed convolution has no groups; got groups = {g.groups}.")
