"""Checks of where pooling windows lie on an image."""

from __future__ import annotations

from .._words import Caller
from ..errors import Problem
from ..tensors.descriptors import View
from .convolution import Window


def check_windows(large: View, small: View, window: Window, who: Caller, roles: tuple[str, str]) -> None:
    """Every window must start inside the padded image."""
    for axis, name in ((0, "height"), (1, "width")):
        padded = large.size[1 - axis] + window.padding[2 * axis] + window.padding[2 * axis + 1]
        most = (padded - 1) // window.stride[axis] + 1
        if small.size[1 - axis] > most:
            raise Problem(
                f"{who(roles[1])} {name} is {small.size[1 - axis]}, but {who.name(roles[0])} {name} {large.size[1 - axis]} with "
                f"padding {window.padding[2 * axis]} + {window.padding[2 * axis + 1]} and stride {window.stride[axis]} has room "
                f"for the start of {most} windows. Set {who.name(roles[1])}.size[{1 - axis}] to at most {most}."
            )


def check_coverage(large: View, small: View, kernel: tuple[int, int], window: Window, who: Caller) -> None:
    """Refuse windows that cover far more cells than the images have, such as with a padding of a million."""
    strides, reach = 1, 1
    for axis in (0, 1):
        padding = window.padding[2 * axis] + window.padding[2 * axis + 1]
        strides *= window.stride[axis] if small.size[1 - axis] > 1 else 1
        reach *= large.size[1 - axis] + padding + window.extent(kernel[axis], axis)
    plane = 4 * large.size[0] * large.size[1]
    for value, most, what in (
        (kernel[0] * kernel[1], plane + (1 << 22), "the window has {} cells"),
        (strides, 1 << 20, f"{who.name('x_stride')} * {who.name('y_stride')} is {{}}"),
        (reach, plane + (1 << 28), "windows, padding and dilation cover {} cells"),
    ):
        if value > most:
            raise Problem(
                f"{who}: {what.format(value)}, more than the {most} that pooling can handle here. Use a smaller one.",
                unsupported=True,
            )
