"""Functions that select elements of whole tensors, under their C names. Descriptors carry their data."""

from __future__ import annotations

from typing import Any

from ..abi.enums import BNNSReduceFunction
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..filters import selection
from ._calls import Direct

__all__ = ["BNNSDirectApplyInTopK", "BNNSDirectApplyTopK", "BNNSGather", "BNNSGatherND", "BNNSScatter", "BNNSScatterND"]

Descriptor = BNNSNDArrayDescriptor | Any
Parameters = BNNSFilterParameters | None


_GATHER = Direct("BNNSGather", selection.gather, 3)
_SCATTER = Direct("BNNSScatter", selection.scatter, 4)
_GATHER_ND = Direct("BNNSGatherND", selection.gather_nd, 2)
_SCATTER_ND = Direct("BNNSScatterND", selection.scatter_nd, 3)
_SAMPLES: dict[str, Any] = {"batch": 2, "strides": [(3, 4), (5, 6), (7, 8)]}
_TOP_K = Direct("BNNSDirectApplyTopK", selection.top_k, 5, 7, **_SAMPLES)
_IN_TOP_K = Direct("BNNSDirectApplyInTopK", selection.in_top_k, 7, **_SAMPLES)


def BNNSGather(
    axis: int, input: Descriptor, indices: Descriptor, output: Descriptor, filter_params: Parameters = None
) -> int:
    """Pick entries along one axis: one index per entry, or one per element of the output.

    Axes are counted in the order of size[], but rows first in a RowMajorMatrix.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, index, y = np.float32([10, 20, 30]), np.int32([2, 0]), np.zeros(2, np.float32)
    >>> d = Shape.vector(2).descriptor
    >>> BNNSGather(0, Shape.vector(3).descriptor(data=x), d(BNNSDataTypeInt32, index), d(data=y)), y.tolist()
    (0, [30.0, 10.0])
    """
    return _GATHER(axis, input, indices, output, filter_params)


def BNNSScatter(
    axis: int, op: BNNSReduceFunction | int, input: Descriptor, indices: Descriptor, output: Descriptor,
    filter_params: Parameters = None,
) -> int:  # fmt: skip
    """Write (op None) or add (op Sum) entries at indices along one axis, counted as in BNNSGather; the rest is unchanged.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, index, y = np.float32([1, 5]), np.int32([2, 2]), np.float32([10, 20, 30])
    >>> d = Shape.vector(2).descriptor
    >>> target = Shape.vector(3).descriptor(data=y)
    >>> BNNSScatter(0, BNNSReduceFunctionSum, d(data=x), d(BNNSDataTypeInt32, index), target), y.tolist()
    (0, [10.0, 20.0, 36.0])
    """
    return _SCATTER(axis, op, input, indices, output, filter_params)


def BNNSGatherND(input: Descriptor, indices: Descriptor, output: Descriptor, filter_params: Parameters = None) -> int:
    """Pick elements or slices by index vectors, which the last axis of ``indices`` holds.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, index, y = np.float32([[1, 2], [3, 4]]), np.int32([[1, 0], [0, 1]]), np.zeros(2, np.float32)
    >>> m = Shape([2, 2]).descriptor
    >>> BNNSGatherND(m(data=x), m(BNNSDataTypeInt32, index), Shape.vector(2).descriptor(data=y)), y.tolist()
    (0, [3.0, 2.0])
    """
    return _GATHER_ND(input, indices, output, filter_params)


def BNNSScatterND(
    op: BNNSReduceFunction | int, input: Descriptor, indices: Descriptor, output: Descriptor,
    filter_params: Parameters = None,
) -> int:  # fmt: skip
    """Write (op None) or add (op Sum) elements or slices at the positions that index vectors name.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, index, y = np.float32([7, 8]), np.int32([[1, 0], [0, 1]]), np.zeros((2, 2), np.float32)
    >>> m = Shape([2, 2]).descriptor
    >>> source = Shape.vector(2).descriptor(data=x)
    >>> BNNSScatterND(BNNSReduceFunctionNone, source, m(BNNSDataTypeInt32, index), m(data=y)), y.tolist()
    (0, [[0.0, 8.0], [7.0, 0.0]])
    """
    return _SCATTER_ND(op, input, indices, output, filter_params)


def BNNSDirectApplyTopK(
    K: int, axis: int, batch_size: int, input: Descriptor, input_batch_stride: int, best_values: Descriptor,
    best_values_batch_stride: int, best_indices: Descriptor, best_indices_batch_stride: int,
    filter_params: Parameters = None,
) -> int:  # fmt: skip
    """The K largest values along an axis, best first, and their indices unless ``best_indices`` is NULL.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, best, where = np.float32([3, 9, 5]), np.zeros(2, np.float32), np.zeros(2, np.int32)
    >>> d = Shape.vector(2).descriptor
    >>> source = Shape.vector(3).descriptor(data=x)
    >>> BNNSDirectApplyTopK(2, 0, 1, source, 3, d(data=best), 2, d(BNNSDataTypeInt32, where), 2)
    0
    >>> best.tolist(), where.tolist()
    ([9.0, 5.0], [1, 2])
    """
    return _TOP_K(
        K, axis, batch_size, input, input_batch_stride,
        best_values, best_values_batch_stride, best_indices, best_indices_batch_stride, filter_params,
    )  # fmt: skip


def BNNSDirectApplyInTopK(
    K: int, axis: int, batch_size: int, input: Descriptor, input_batch_stride: int, test_indices: Descriptor,
    test_indices_batch_stride: int, output: Descriptor, output_batch_stride: int, filter_params: Parameters = None,
) -> int:  # fmt: skip
    """True where the value at a test index is among the K largest along an axis; ties all count.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, tested, contained = np.float32([[3, 9, 5], [3, 9, 5]]), np.int32([[2], [0]]), np.zeros((2, 1), bool)
    >>> d = Shape.vector(1).descriptor
    >>> source = Shape.vector(3).descriptor(data=x)
    >>> BNNSDirectApplyInTopK(2, 0, 2, source, 3, d(BNNSDataTypeInt32, tested), 1, d(BNNSDataTypeBoolean, contained), 1)
    0
    >>> contained.tolist()
    [[True], [False]]
    """
    return _IN_TOP_K(
        K, axis, batch_size, input, input_batch_stride,
        test_indices, test_indices_batch_stride, output, output_batch_stride, filter_params,
    )  # fmt: skip
