"""Functions that move and compare the elements of whole tensors, under their C names. Descriptors carry their data."""

from __future__ import annotations

from typing import Any

from ..abi.enums import BNNSRelationalOperator, BNNSShuffleType
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..filters import moves
from ._calls import Direct

__all__ = [
    "BNNSBandPart",
    "BNNSCompareTensor",
    "BNNSCopy",
    "BNNSShuffle",
    "BNNSTile",
    "BNNSTileBackward",
    "BNNSTranspose",
]

Descriptor = BNNSNDArrayDescriptor | Any
Parameters = BNNSFilterParameters | None


_COPY = Direct("BNNSCopy", moves.copy, 0)
_TRANSPOSE = Direct("BNNSTranspose", moves.transpose, 0)
_COMPARE_TENSOR = Direct("BNNSCompareTensor", moves.compare, 3)
_TILE = Direct("BNNSTile", moves.tile, 1)
_TILE_BACKWARD = Direct("BNNSTileBackward", moves.tile_backward, 0)
_SHUFFLE = Direct("BNNSShuffle", moves.shuffle, 2)
_BAND_PART = Direct("BNNSBandPart", moves.band_part, 3)


def BNNSCopy(dest: Descriptor, src: Descriptor, filter_params: Parameters = None) -> int:
    """Copy a tensor to another of the same logical shape; layouts, strides and types may differ.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, y = np.float32([[1, 2], [3, 4]]), np.zeros(4, np.float32)
    >>> source, target = Shape.matrix_row_major(2, 2), Shape.matrix_column_major(2, 2)
    >>> BNNSCopy(target.descriptor(data=y), source.descriptor(data=x)), y.tolist()
    (0, [1.0, 3.0, 2.0, 4.0])
    """
    return _COPY(dest, src, filter_params)


def BNNSTranspose(dest: Descriptor, src: Descriptor, axis0: int, axis1: int, filter_params: Parameters = None) -> int:
    """Copy with two axes swapped; its gradient is the same swap.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, y = np.float32([[1, 2, 3], [4, 5, 6]]), np.zeros((3, 2), np.float32)
    >>> source, target = Shape([2, 3]).descriptor(data=x), Shape([3, 2]).descriptor(data=y)
    >>> BNNSTranspose(target, source, 0, 1), y.tolist()
    (0, [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]])
    """
    return _TRANSPOSE(dest, src, axis0, axis1, filter_params)


def BNNSCompareTensor(in0: Descriptor, in1: Descriptor, op: BNNSRelationalOperator | int, out: Descriptor) -> int:
    """Compare elements, or combine truth values, into a Boolean tensor of the same size.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> a, b, y = np.float32([1, 2, 3]), np.float32([3, 2, 1]), np.zeros(3, bool)
    >>> d = Shape.vector(3).descriptor
    >>> BNNSCompareTensor(d(data=a), d(data=b), BNNSRelationalOperatorLess, d(BNNSDataTypeBoolean, y)), y.tolist()
    (0, [True, False, False])
    """
    return _COMPARE_TENSOR(in0, in1, op, out)


def BNNSTile(input: Descriptor, output: Descriptor, filter_params: Parameters = None) -> int:
    """Repeat a tensor along its axes: every size of the output is a multiple of the input's.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, y = np.float32([1, 2]), np.zeros(6, np.float32)
    >>> BNNSTile(Shape.vector(2).descriptor(data=x), Shape.vector(6).descriptor(data=y)), y.tolist()
    (0, [1.0, 2.0, 1.0, 2.0, 1.0, 2.0])
    """
    return _TILE(input, output, filter_params)


def BNNSTileBackward(in_delta: Descriptor, out_delta: Descriptor, filter_params: Parameters = None) -> int:
    """Gradient of tiling: the sum over all copies.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> dx, dy = np.zeros(2, np.float32), np.float32([1, 2, 3, 4, 5, 6])
    >>> BNNSTileBackward(Shape.vector(2).descriptor(data=dx), Shape.vector(6).descriptor(data=dy)), dx.tolist()
    (0, [9.0, 12.0])
    """
    return _TILE_BACKWARD(in_delta, out_delta, filter_params)


def BNNSShuffle(
    type: BNNSShuffleType | int, input: Descriptor, output: Descriptor, filter_params: Parameters = None
) -> int:
    """Move data between channels and blocks of pixels of 4DFirstMajor images [N, C, H, W].

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, y = np.float32([[[[1]], [[2]], [[3]], [[4]]]]), np.zeros((1, 1, 2, 2), np.float32)
    >>> d = lambda a: Shape(a.shape).descriptor(data=a)
    >>> BNNSShuffle(BNNSShuffleTypePixelShuffleNCHW, d(x), d(y)), y.tolist()  # 4 channels to one of 2x2 pixels
    (0, [[[[1.0, 2.0], [3.0, 4.0]]]])
    """
    return _SHUFFLE(type, input, output, filter_params)


def BNNSBandPart(
    num_lower: int, num_upper: int, input: Descriptor, output: Descriptor, filter_params: Parameters = None
) -> int:
    """Keep a diagonal band of every matrix of the two fastest axes and zero the rest; negative keeps the triangle.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x = np.ones((3, 3), np.float32)
    >>> d = Shape([3, 3]).descriptor(data=x)
    >>> BNNSBandPart(0, -1, d, d), x.tolist()
    (0, [[1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    """
    return _BAND_PART(num_lower, num_upper, input, output, filter_params)
