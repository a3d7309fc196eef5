"""Resized images: upsampling, downsampling and pixel shuffle."""

from __future__ import annotations

from collections.abc import Sequence

from ... import InterpolationMethod, ResizeLayer, Shape, ShuffleType, shuffle
from ..calls import Calls, PlanCall
from ..operation import Operation
from ..sizes import AnySize
from ..tensor import Array, Tensor


class Resize(Operation):
    """Nearest or linear; the position of a pixel follows from the sizes alone."""

    is_pure = True
    keeps_inputs = False

    def __init__(self, x: Tensor, output_shape: Sequence[AnySize], linear: bool, align_corners: bool) -> None:
        self.method = InterpolationMethod.LINEAR if linear else InterpolationMethod.NEAREST_NEIGHBOR
        self.align_corners = align_corners
        super().__init__([x], Tensor(x.graph, output_shape))

    def _layer(self, x: Array, y: Array) -> ResizeLayer:
        shapes = x.shape[1:], y.shape[1:]
        layer: ResizeLayer = self.made(
            shapes,
            lambda: ResizeLayer(
                interpolation_method=self.method,
                input=Shape(shapes[0]),
                output=Shape(shapes[1]),
                aligns_corners=self.align_corners,
            ),
        )
        return layer

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return PlanCall(self._layer(x[0], y).apply, x[0], y)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        return PlanCall(self._layer(x[0], dy).apply_backward, None, None, dy, dx[0])


class PixelShuffle(Operation):
    """Channels (C r², H, W) as blocks of r x r pixels (C, H r, W r), or with ``back`` the other way."""

    is_pure = True
    keeps_inputs = False

    def __init__(self, x: Tensor, output_shape: Sequence[AnySize], back: bool) -> None:
        ways = (ShuffleType.PIXEL_SHUFFLE_NCHW, ShuffleType.PIXEL_UNSHUFFLE_NCHW)
        self.way, self.other_way = ways[::-1] if back else ways
        super().__init__([x], Tensor(x.graph, output_shape))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return PlanCall(shuffle, self.way, x[0], y)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        assert dx[0] is not None
        return PlanCall(shuffle, self.other_way, dy, dx[0])
