"""Tensors moved and compared: arrays, whose axes are NumPy axes, or descriptors, whose axes are
counted as their layout counts them: in the order of ``size[]``, but rows first for RowMajorMatrix.

An output that is left out is a new array; one that is given is written and returned. A failed call raises
:class:`openbnns.LayerApplyError` and writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import engines
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..errors import Problem
from ..filters import moves
from ._functions import function
from ._ports import TensorLike, require
from ._tensor_arguments import NAMES, PLAIN, axis_of, described, output_like, shape_of
from .types import RelationalOperator, ShuffleType

__all__ = ["compare", "copy", "copy_band_part", "shuffle", "tile", "tile_backward", "transpose"]

_TRANSPOSE_NAMES = NAMES | {"dest": "output", "axis0": "first_transpose_axis", "axis1": "second_transpose_axis"}
_BAND_PART_NAMES = NAMES | {"output": "to"}


@function(NAMES, writes="to")
def copy(
    caller: Caller,
    input: TensorLike,
    to: TensorLike | None = None,
    filter_parameters: BNNSFilterParameters | None = None,
) -> TensorLike:
    """y = x for tensors of one logical shape: layouts, strides and element types may differ.

    >>> import numpy as np
    >>> from openbnns import *
    >>> copy(np.array([[1, 2]], np.float32), np.zeros((1, 2), np.int8))
    array([[1, 2]], dtype=int8)
    """
    if filter_parameters is None and to is not None and _copied(input, to):
        return to
    x = described(caller("src"), input)
    y, result = output_like(caller("dest"), to, x, shape_of(x))
    moves.copy(caller, y, x, filter_parameters)
    return result


@function(_TRANSPOSE_NAMES, writes="output")
def transpose(
    caller: Caller,
    input: TensorLike, output: TensorLike | None = None, first_transpose_axis: int = 0, second_transpose_axis: int = 1,
    filter_parameters: BNNSFilterParameters | None = None
) -> TensorLike:  # fmt: skip
    """y = x with two axes swapped; the gradient of y, transposed the same way, is that of x.

    >>> import numpy as np
    >>> from openbnns import *
    >>> transpose(np.arange(6, dtype=np.float32).reshape(2, 3), first_transpose_axis=0, second_transpose_axis=-1)
    array([[0., 3.],
           [1., 4.],
           [2., 5.]], dtype=float32)
    """
    if filter_parameters is None and output is not None and type(input) is np.ndarray:
        axes, rank = (first_transpose_axis, second_transpose_axis), input.ndim
        within = all(type(a) is int and -rank <= a < rank for a in axes)
        if within and _copied(input.swapaxes(*axes), output):
            return output
    x = described(caller("src"), input)
    first = axis_of(caller, "axis0", first_transpose_axis, input, x)
    second = axis_of(caller, "axis1", second_transpose_axis, input, x)
    shape = list(shape_of(x))
    if max(first, second) < len(shape):
        shape[first], shape[second] = shape[second], shape[first]
    y, result = output_like(caller("dest"), output, x, shape)
    moves.transpose(caller, y, x, first, second, filter_parameters)
    return result


@function(_BAND_PART_NAMES, writes="to")
def copy_band_part(
    caller: Caller,
    input: TensorLike, to: TensorLike | None = None, lower_band_count: int | None = None,
    upper_band_count: int | None = None, filter_parameters: BNNSFilterParameters | None = None
) -> TensorLike:  # fmt: skip
    """y[..., i, j] = x[..., i, j] if i - j <= lower and j - i <= upper, else 0; ``None`` keeps the whole triangle.

    >>> import numpy as np
    >>> from openbnns import *
    >>> copy_band_part(np.ones((3, 3), np.float32), lower_band_count=0, upper_band_count=1)
    array([[1., 1., 0.],
           [0., 1., 1.],
           [0., 0., 1.]], dtype=float32)
    """
    x = described(caller("src"), input)
    y, result = output_like(caller("dest"), to, x, shape_of(x))
    lower, upper = (-1 if n is None else n for n in (lower_band_count, upper_band_count))
    moves.band_part(caller, lower, upper, x, y, filter_parameters)
    return result


@function(NAMES, writes="output", decides={"using": (RelationalOperator, "value")})
def compare(
    caller: Caller, a: TensorLike, b: TensorLike | None, using: RelationalOperator, output: TensorLike | None = None
) -> TensorLike:
    """a op b for every pair of elements, as truth values; ``RelationalOperator.NOT`` takes ``a`` alone.

    Logical operators take every number but 0 as true. A comparison with NaN is false, except for NOT_EQUAL.

    >>> import numpy as np
    >>> from openbnns import *
    >>> a, b = np.array([1, 5, 3], np.float32), np.array([2, 5, 1], np.float32)
    >>> compare(a, b, using=RelationalOperator.GREATER_EQUAL)
    array([False,  True,  True])
    """
    require(using, RelationalOperator, caller("using"), "RelationalOperator.LESS")
    left = described(caller("a"), a)
    like = int(left.layout) if isinstance(a, BNNSNDArrayDescriptor) else None
    right = None if b is None else described(caller("b"), b, like)
    y, result = output_like(caller("output"), output, left, shape_of(left), np.bool_)
    moves.compare(caller, left, right, using.value, y)
    return result


@function(NAMES, writes="output")
def tile(
    caller: Caller,
    input: TensorLike, output: TensorLike | None = None, filter_parameters: BNNSFilterParameters | None = None,
    *, repeats: Sequence[int] | None = None
) -> TensorLike:  # fmt: skip
    """y[i, j, ...] = x[i mod x.shape[0], j mod x.shape[1], ...]: copies of x side by side.

    Sizes of ``output`` are multiples of those of ``input``; without ``output``, ``repeats`` says how many copies each axis
    gets (for a descriptor, in the order of axis numbers).

    >>> import numpy as np
    >>> from openbnns import *
    >>> tile(np.array([[1, 2]], np.float32), repeats=(2, 2))
    array([[1., 2., 1., 2.],
           [1., 2., 1., 2.]], dtype=float32)
    """
    x = described(caller("input"), input)
    shape: Sequence[int] = shape_of(x)
    if output is None:
        if repeats is None or len(repeats) != len(shape) or any(n < 1 for n in repeats):
            raise Problem(
                f"{caller('output')} is left out, so repeats must hold {len(shape)} numbers of copies, not {repeats}."
            )
        shape = [n * copies for n, copies in zip(shape, repeats, strict=True)]
    y, result = output_like(caller("output"), output, x, shape)
    moves.tile(caller, x, y, filter_parameters)
    return result


@function(NAMES, writes="generating_input_gradient")
def tile_backward(
    caller: Caller,
    output_gradient: TensorLike, generating_input_gradient: TensorLike | None = None,
    filter_parameters: BNNSFilterParameters | None = None, *, input_shape: Sequence[int] | None = None
) -> TensorLike:  # fmt: skip
    """The gradient of tiling: dx = the sum of dy over all copies. ``input_shape`` is needed when dx is left out.

    >>> import numpy as np
    >>> from openbnns import *
    >>> tile_backward(np.array([[1, 2, 3], [10, 20, 30]], np.float32), input_shape=(1, 3))
    array([[11., 22., 33.]], dtype=float32)
    """
    dy = described(caller("out_delta"), output_gradient)
    if generating_input_gradient is None and input_shape is None:
        raise Problem(
            f"{caller('in_delta')} is left out, so input_shape must tell the shape of the tensor that was tiled."
        )
    shape = shape_of(dy) if input_shape is None else tuple(input_shape)
    dx, result = output_like(caller("in_delta"), generating_input_gradient, dy, shape)
    moves.tile_backward(caller, dx, dy, filter_parameters)
    return result


@function(NAMES, writes="output", decides={"type": (ShuffleType, "value")})
def shuffle(
    caller: Caller,
    type: ShuffleType, input: TensorLike, output: TensorLike | None = None,
    filter_parameters: BNNSFilterParameters | None = None, *, block_size: int | None = None
) -> TensorLike:  # fmt: skip
    """Move data between channels and blocks of b x b pixels of images (N, C, H, W).

        PIXEL_SHUFFLE    y[n, c, h*b + i, w*b + j] = x[n, (c*b + i)*b + j, h, w]
        DEPTH_TO_SPACE   y[n, c, h*b + i, w*b + j] = x[n, (i*b + j)*C + c, h, w]

    PIXEL_UNSHUFFLE and SPACE_TO_DEPTH are their inverses, and their gradients. ``block_size`` is needed when the output
    is left out.

    >>> import numpy as np
    >>> from openbnns import *
    >>> shuffle(ShuffleType.PIXEL_SHUFFLE_NCHW, np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1), block_size=2)
    array([[[[0., 1.],
             [2., 3.]]]], dtype=float32)
    """
    require(type, ShuffleType, caller("type"), "ShuffleType.PIXEL_SHUFFLE_NCHW")
    x = described(caller("input"), input)
    shape = shape_of(x) if output is not None else _shuffled_shape(caller, type, shape_of(x), block_size)
    y, result = output_like(caller("output"), output, x, shape)
    moves.shuffle(caller, type.value, x, y, filter_parameters)
    return result


def _copied(source: Any, target: Any) -> bool:
    """Copy one plain array into another; False, with nothing done, if they are not plain."""
    if type(source) is not np.ndarray or type(target) is not np.ndarray or not engines.is_native():
        return False
    fits = target.shape == source.shape and target.dtype == source.dtype and target.dtype in PLAIN
    if not fits or not 1 <= target.ndim <= 8 or target.size == 0:
        return False
    flags = target.flags
    if not (flags.c_contiguous and flags.aligned and flags.writeable and source.flags.aligned):
        return False
    if np.may_share_memory(source, target):
        return False
    engines._core.strided_copy(
        target.ctypes.data, source.ctypes.data, target.itemsize, target.shape, target.strides, source.strides, 0
    )
    return True


def _shuffled_shape(caller: Caller, kind: ShuffleType, shape: tuple[int, ...], block: Any) -> tuple[int, ...]:
    if not isinstance(block, (int, np.integer)) or block < 1:
        raise Problem(f"{caller('output')} is left out, so block_size must be the width of a block, not {block!r}.")
    if len(shape) != 4:
        raise Problem(f"{caller('input')} has {len(shape)} axes, but images (N, C, H, W) have 4.")
    block = int(block)
    n, c, h, w = shape
    if kind in (ShuffleType.PIXEL_SHUFFLE_NCHW, ShuffleType.DEPTH_TO_SPACE_NCHW):
        return n, max(1, c // (block * block)), h * block, w * block
    return n, c * block * block, max(1, h // block), max(1, w // block)
