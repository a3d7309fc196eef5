"""Functions that move and compare the elements of whole tensors. They have no batch: axes are NumPy axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..parameters.moves import Relation, Shuffle

AnyArray = npt.NDArray[Any]
"""An array of any type, which the result keeps."""


Booleans = npt.NDArray[np.bool_]


def transpose(x: AnyArray, axis0: int, axis1: int) -> AnyArray:
    """y = x with two axes swapped; the gradient is the same function of dy."""
    return np.ascontiguousarray(np.swapaxes(x, axis0, axis1))


def tile(x: AnyArray, out_shape: tuple[int, ...], reversed_axes: bool = False) -> AnyArray:
    """y(i_0, i_1, ...) = x(i_0 mod x.shape[0], i_1 mod x.shape[1], ...) of shape out_shape.

    With reversed_axes both tensors are read as if their sizes were listed in the opposite order: the same memory with
    shapes x.shape[::-1] and out_shape[::-1].
    """
    if reversed_axes:
        return tile(x.reshape(x.shape[::-1]), out_shape[::-1]).reshape(out_shape)
    return np.tile(x, _repeats(x.shape, out_shape))


@np.errstate(all="ignore")
def tile_backward(dy: AnyArray, in_shape: tuple[int, ...]) -> AnyArray:
    """dx(j) = sum of dy over the copies of x(j), in the shape in_shape."""
    repeats = _repeats(in_shape, dy.shape)
    copies = dy.reshape([size for pair in zip(repeats, in_shape, strict=True) for size in pair])
    return np.asarray(copies.sum(axis=tuple(range(0, copies.ndim, 2))))


def _repeats(in_shape: tuple[int, ...], out_shape: tuple[int, ...]) -> list[int]:
    fits = len(in_shape) == len(out_shape)
    if not fits or any(small < 1 or large % small for small, large in zip(in_shape, out_shape, strict=True)):
        raise ValueError(f"moves.tile: {out_shape} is not a multiple of {in_shape} in every axis.")
    return [large // small for small, large in zip(in_shape, out_shape, strict=True)]


def band_part(x: AnyArray, lower: int, upper: int) -> AnyArray:
    """x(..., i, j) if i - j <= lower and j - i <= upper, else 0; a negative bound keeps that whole triangle."""
    i, j = np.arange(x.shape[-2])[:, np.newaxis], np.arange(x.shape[-1])
    keep = ((lower < 0) | (i - j <= lower)) & ((upper < 0) | (j - i <= upper))
    return np.where(keep, x, np.zeros_like(x))


_OPERATORS: Final[dict[int, Callable[[AnyArray, AnyArray], Booleans]]] = {
    Relation.EQUAL: lambda a, b: a == b,
    Relation.LESS: lambda a, b: a < b,
    Relation.LESS_EQUAL: lambda a, b: a <= b,
    Relation.GREATER: lambda a, b: a > b,
    Relation.GREATER_EQUAL: lambda a, b: a >= b,
    Relation.NOT_EQUAL: lambda a, b: a != b,
    Relation.LOGICAL_AND: lambda a, b: (a != 0) & (b != 0),
    Relation.LOGICAL_OR: lambda a, b: (a != 0) | (b != 0),
    Relation.LOGICAL_NOT: lambda a, b: a == 0,
    Relation.LOGICAL_NAND: lambda a, b: (a == 0) | (b == 0),
    Relation.LOGICAL_NOR: lambda a, b: (a == 0) & (b == 0),
    Relation.LOGICAL_XOR: lambda a, b: (a != 0) ^ (b != 0),
}


def compare(operator: int, a: AnyArray, b: AnyArray | None = None) -> Booleans:
    """a operator b for every pair of elements of two tensors of one shape; LogicalNOT reads a only.

    The logical operators take every number but 0 as true. A comparison with NaN is false, except for NotEqual.
    """
    if operator not in _OPERATORS:
        raise ValueError(f"moves.compare: there is no operator {operator}; the operators are 0 to {max(Relation)}.")
    if operator == Relation.LOGICAL_NOT:
        b = a
    if b is None or a.shape != b.shape:
        raise ValueError(
            f"moves.compare: the operands must have one shape; got {a.shape} and {None if b is None else b.shape}."
        )
    return _OPERATORS[operator](a, b)


def shuffle(kind: int, x: AnyArray, block: int) -> AnyArray:
    """Channels to blocks of block * block pixels, or back; images (N, C, H, W), large image (N, C, H*block, W*block).

        PixelShuffle   large[n, c, h*block + i, w*block + j] = small[n, (c*block + i)*block + j, h, w]
        DepthToSpace   large[n, c, h*block + i, w*block + j] = small[n, (i*block + j)*C + c, h, w]

    PixelUnshuffle and SpaceToDepth are their inverses, which are also their gradients.
    """
    samples, channels, height, width = x.shape
    match kind:
        case Shuffle.PIXEL_SHUFFLE | Shuffle.DEPTH_TO_SPACE:
            _check_block(channels % (block * block) == 0, block, x.shape)
            channels //= block * block
            if kind == Shuffle.PIXEL_SHUFFLE:
                parts = x.reshape(samples, channels, block, block, height, width).transpose(0, 1, 4, 2, 5, 3)
            else:
                parts = x.reshape(samples, block, block, channels, height, width).transpose(0, 3, 4, 1, 5, 2)
            return np.asarray(parts.reshape(samples, channels, height * block, width * block))
        case Shuffle.PIXEL_UNSHUFFLE | Shuffle.SPACE_TO_DEPTH:
            _check_block(height % block == 0 and width % block == 0, block, x.shape)
            height, width = height // block, width // block
            parts = x.reshape(samples, channels, height, block, width, block)
            order = (0, 1, 3, 5, 2, 4) if kind == Shuffle.PIXEL_UNSHUFFLE else (0, 3, 5, 1, 2, 4)
            return np.asarray(parts.transpose(order).reshape(samples, channels * block * block, height, width))
        case _:
            raise ValueError(f"moves.shuffle: there is no kind {kind}; the kinds are 0 to {max(Shuffle)}.")


def _check_block(fits: bool, block: int, shape: tuple[int, ...]) -> None:
    if not fits:
        raise ValueError(f"moves.shuffle: images of shape {shape} do not divide into blocks of {block} x {block}.")
