"""How the windows of a convolution lie on an image."""

from __future__ import annotations

from dataclasses import dataclass

Size = tuple[int, int]


@dataclass(frozen=True)
class Geometry:
    """How windows lie on an image. Pairs are (vertical, horizontal), padding is (up, down, left, right).

    out_size is the size of the layer's output image: one window per output pixel in a convolution, the image that windows
    scatter into in a transposed one. It may be smaller than the input allows (a remainder is left over).
    """

    stride: Size
    dilation: Size
    padding: tuple[int, int, int, int]
    groups: int
    out_size: Size
