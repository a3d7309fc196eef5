"""Shapes: sizes, layout and strides of one sample, without data."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

from .._spelling import CasesMeta, Members, spelled
from ..abi.enums import BNNSDataLayout, BNNSDataType
from ..abi.structs import BNNSNDArrayDescriptor
from ..errors import BNNSError, InvalidDescriptorError, Problem, as_exception
from ..tensors.descriptors import layout_of, packed_strides

_L = BNNSDataLayout


class DataLayout(Members):
    """The layouts that have a factory in `Shape`, under the same names; the value is the C constant.

    >>> from openbnns import *
    >>> DataLayout.IMAGE_CHW.rank
    3
    """

    VECTOR = _L.BNNSDataLayoutVector
    MATRIX_ROW_MAJOR = _L.BNNSDataLayoutRowMajorMatrix
    MATRIX_COLUMN_MAJOR = _L.BNNSDataLayoutColumnMajorMatrix
    MATRIX_FIRST_MAJOR = _L.BNNSDataLayout2DFirstMajor
    MATRIX_LAST_MAJOR = _L.BNNSDataLayout2DLastMajor
    IMAGE_CHW = _L.BNNSDataLayoutImageCHW
    TENSOR_3D_SNE = _L.BNNSDataLayoutSNE
    TENSOR_3D_NSE = _L.BNNSDataLayoutNSE
    CONVOLUTION_WEIGHTS_OIHW = _L.BNNSDataLayoutConvolutionWeightsOIHW
    TENSOR_3D_FIRST_MAJOR = _L.BNNSDataLayout3DFirstMajor
    TENSOR_3D_LAST_MAJOR = _L.BNNSDataLayout3DLastMajor
    TENSOR_4D_FIRST_MAJOR = _L.BNNSDataLayout4DFirstMajor
    TENSOR_4D_LAST_MAJOR = _L.BNNSDataLayout4DLastMajor
    TENSOR_5D_FIRST_MAJOR = _L.BNNSDataLayout5DFirstMajor
    TENSOR_5D_LAST_MAJOR = _L.BNNSDataLayout5DLastMajor
    TENSOR_6D_FIRST_MAJOR = _L.BNNSDataLayout6DFirstMajor
    TENSOR_6D_LAST_MAJOR = _L.BNNSDataLayout6DLastMajor
    TENSOR_7D_FIRST_MAJOR = _L.BNNSDataLayout7DFirstMajor
    TENSOR_7D_LAST_MAJOR = _L.BNNSDataLayout7DLastMajor
    TENSOR_8D_FIRST_MAJOR = _L.BNNSDataLayout8DFirstMajor
    TENSOR_8D_LAST_MAJOR = _L.BNNSDataLayout8DLastMajor

    @property
    def rank(self) -> int:
        """Number of axes."""
        return int(self.value) >> 16


_CASES = {layout.value: layout.name.lower() for layout in DataLayout}
_C_ORDER = {layout.rank: layout for layout in DataLayout if layout.name.endswith("FIRST_MAJOR")} | {
    1: DataLayout.VECTOR
}


def _error(message: str, kind: type[Exception] = ValueError) -> BNNSError:
    return as_exception(Problem(message, kind=kind), InvalidDescriptorError)


def _whole_numbers(what: str, values: Sequence[int]) -> tuple[int, ...]:
    try:
        numbers = tuple(int(operator.index(value)) for value in itertools.islice(values, 99))  # 8 at most make sense
    except (TypeError, ValueError):
        cure = ""
        if isinstance(values, tuple) and len(values) == 1 and isinstance(values[0], (tuple, list)):
            listed = ", ".join(map(repr, values[0]))
            cure = f" Pass them one by one: {listed}."
        raise _error(f"Shape: {what} must be whole numbers, got {values!r}.{cure}", TypeError) from None
    if any(number < 0 for number in numbers):
        raise _error(f"Shape: {what} must not be negative, got {numbers}.")
    return numbers


class Shape(metaclass=CasesMeta):
    """Sizes, layout and strides of one sample. Sizes are in the order of `size[]` in C, which the factory names tell.

    `Shape(sizes)` without a layout is C order, as NumPy would write the shape: a vector, or the first-major layout of
    that rank. Strides count elements, `stride[0]` belongs to the fastest axis, and 0 means packed.

    >>> from openbnns import *
    >>> image = Shape.image_chw(28, 28, 3)
    >>> image.size, image.stride, image.batch_stride
    ((28, 28, 3), (1, 28, 784), 2352)
    >>> Shape.tensor_3d_first_major(2, 3, 4).stride
    (1, 4, 12)
    >>> Shape([2, 3])
    Shape.matrix_first_major(2, 3)
    """

    __slots__ = ("_layout", "_size", "_stride")

    def __init__(
        self,
        sizes: Sequence[int],
        data_layout: DataLayout | BNNSDataLayout | None = None,
        stride: Sequence[int] | int | None = None,
    ) -> None:
        self._size = _whole_numbers("sizes", sizes)
        rank = len(self._size)
        if not 1 <= rank <= 8:
            raise _error(f"Shape: takes 1 to 8 sizes, got {rank}.")
        if data_layout is None:
            data_layout = _C_ORDER[rank]
        self._layout = data_layout.value if isinstance(data_layout, DataLayout) else _L(data_layout)
        if self._layout >> 16 != rank:
            raise _error(f"Shape: {self._layout.name} has {self._layout >> 16} axes, got {rank} sizes {self._size}.")
        self._stride = self._resolved(stride)

    def _resolved(self, stride: Sequence[int] | int | None) -> tuple[int, ...]:
        if stride is None:
            stride = ()
        given = _whole_numbers("strides", (stride,) if isinstance(stride, int) else stride)
        if len(given) > self.rank:
            raise _error(f"Shape: {len(given)} strides {given} for {self.rank} axes.")
        given += (0,) * (self.rank - len(given))
        strides = packed_strides(layout_of(self._layout), self._size, given)
        if any(later < earlier for earlier, later in itertools.pairwise(strides) if later):
            raise _error(f"Shape: strides must not decrease (stride[0] is of the fastest axis), got {strides}.")
        return strides

    @property
    def size(self) -> tuple[int, ...]:
        """Extent of every axis, in the order of the layout."""
        return self._size

    @property
    def stride(self) -> tuple[int, ...]:
        """Elements between neighbours, fastest axis first; never 0 for packed."""
        return self._stride

    @property
    def layout(self) -> BNNSDataLayout:
        """The layout as the C constant."""
        return self._layout

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self._size)

    @property
    def batch_stride(self) -> int:
        """Elements from one sample to the next: the largest stride times the extent that it steps."""
        return self._stride[-1] * self._size[layout_of(self._layout).stepped[-1]]

    @property
    def is_packed(self) -> bool:
        """True if the elements lie without gaps."""
        return self._stride == packed_strides(layout_of(self._layout), self._size, (0,) * self.rank)

    @property
    def array_shape(self) -> tuple[int, ...]:
        """Shape of the NumPy array in C order that holds the same elements; an image is (C, H, W)."""
        return tuple(self._size[axis] for axis in reversed(layout_of(self._layout).stepped))

    @spelled
    def descriptor(self, data_type: Any = BNNSDataType.BNNSDataTypeFloat32, data: Any = None) -> BNNSNDArrayDescriptor:
        """A new C descriptor of this shape, with or without data.

        >>> from openbnns import *
        >>> Shape.vector(10).descriptor()
        BNNSNDArrayDescriptor(layout=BNNSDataLayoutVector, size=[10], data_type=BNNSDataTypeFloat32)
        """
        return BNNSNDArrayDescriptor(
            layout=self._layout,
            size=self._size,
            stride=() if self.is_packed else self._stride,
            data=data,
            data_type=getattr(data_type, "value", data_type),
        )

    def __repr__(self) -> str:
        case = _CASES.get(self._layout)
        stride = "" if self.is_packed else f", stride={self._stride}"
        if case is None:
            return f"Shape({self._size}, data_layout={self._layout.name}{stride})"
        return f"Shape.{case}({', '.join(map(str, self._size))}{stride})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Shape):
            return NotImplemented
        return (self._layout, self._size, self._stride) == (other._layout, other._size, other._stride)

    def __hash__(self) -> int:
        return hash((self._layout, self._size, self._stride))

    @staticmethod
    def vector(count: int, *, stride: int | Sequence[int] | None = None) -> Shape:
        """A vector."""
        return Shape((count,), _L.BNNSDataLayoutVector, stride)

    @staticmethod
    def matrix_row_major(columns: int, rows: int, *, stride: Sequence[int] | None = None) -> Shape:
        """A matrix stored row by row: C order (rows, columns)."""
        return Shape((columns, rows), _L.BNNSDataLayoutRowMajorMatrix, stride)

    @staticmethod
    def matrix_column_major(rows: int, columns: int, *, stride: Sequence[int] | None = None) -> Shape:
        """A matrix stored column by column: C order (columns, rows)."""
        return Shape((rows, columns), _L.BNNSDataLayoutColumnMajorMatrix, stride)

    @staticmethod
    def matrix_first_major(size0: int, size1: int, *, stride: Sequence[int] | None = None) -> Shape:
        """Two axes, the first slowest: C order (size0, size1)."""
        return Shape((size0, size1), _L.BNNSDataLayout2DFirstMajor, stride)

    @staticmethod
    def matrix_last_major(size0: int, size1: int, *, stride: Sequence[int] | None = None) -> Shape:
        """Two axes, the last slowest: C order (size1, size0)."""
        return Shape((size0, size1), _L.BNNSDataLayout2DLastMajor, stride)

    @staticmethod
    def image_chw(width: int, height: int, channels: int, *, stride: Sequence[int] | None = None) -> Shape:
        """An image stored channel by channel: C order (channels, height, width)."""
        return Shape((width, height, channels), _L.BNNSDataLayoutImageCHW, stride)

    @staticmethod
    def tensor_3d_sne(embedding: int, batch: int, sequence: int, *, stride: Sequence[int] | None = None) -> Shape:
        """Sequences, time slowest: C order (sequence, batch, embedding)."""
        return Shape((embedding, batch, sequence), _L.BNNSDataLayoutSNE, stride)

    @staticmethod
    def tensor_3d_nse(embedding: int, sequence: int, batch: int, *, stride: Sequence[int] | None = None) -> Shape:
        """Sequences, batch slowest: C order (batch, sequence, embedding)."""
        return Shape((embedding, sequence, batch), _L.BNNSDataLayoutNSE, stride)

    @staticmethod
    def convolution_weights_oihw(
        width: int, height: int, inputs: int, outputs: int, *, stride: Sequence[int] | None = None
    ) -> Shape:
        """Kernels of a convolution: C order (outputs, inputs, height, width)."""
        return Shape((width, height, inputs, outputs), _L.BNNSDataLayoutConvolutionWeightsOIHW, stride)

    @staticmethod
    def tensor_3d_first_major(*sizes: int, stride: Sequence[int] | None = None) -> Shape:
        """Three axes, the first slowest: C order is the order of the sizes."""
        return Shape(sizes, _L.BNNSDataLayout3DFirstMajor, stride)

    @staticmethod
    def tensor_3d_last_major(*sizes: int, stride: Sequence[int] | None = None) -> Shape:
        """Three axes, the last slowest: C order is the reverse of the sizes."""
        return Shape(sizes, _L.BNNSDataLayout3DLastMajor, stride)

    @staticmethod
    def tensor_4d_first_major(*sizes: int, stride: Sequence[int] | None = None) -> Shape:
        """Four axes, the first slowest: C order is the order of the sizes."""
        return Shape(sizes, _L.BNNSDataLayout4DFirstMajor, stride)

    @staticmethod
    def tensor_4d_last_major(*sizes: int, stride: Sequence[int] | None = None) -> Shape:
        """Four axes, the last slowest: C order is the reverse of the sizes."""
        return Shape(sizes, _L.BNNSDataLayout4DLastMajor, stride)

    @staticmethod
    def tensor_5d_first_major(*sizes: int, stride: Sequence[int] | None = None) -> Shape:
        """Five axes, the first slowest: C order is the order of the sizes."""
        return Shape(sizes, _L.BNNSDataLayout5DFirstMajor, stride)

    @staticmethod
    def tensor_5d_last_major(*sizes: int, stride: Sequence[int] | None = None) -> Shape:
        """Five axes, the last slowest: C order is the reverse of the sizes."""
        return Shape(sizes, _L.BNNSDataLayout5DLastMajor, stride)

    @staticmethod
    def tensor_6d_first_major(*sizes: int, stride: Sequence[int] | None = None) -> Shape:
        """Six axes, the first slowest: C order is the order of the sizes."""
        return Shape(sizes, _L.BNNSDataLayout6DFirstMajor, stride)

    @staticmethod
    def tensor_6d_last_major(*sizes: int, stride: Sequence[int] | None = None) -> Shape:
        """Six axes, the last slowest: C order is the reverse of the sizes."""
        return Shape(sizes, _L.BNNSDataLayout6DLastMajor, stride)

    @staticmethod
    def tensor_7d_first_major(*sizes: int, stride: Sequence[int] | None = None) -> Shape:
        """Seven axes, the first slowest: C order is the order of the sizes."""
        return Shape(sizes, _L.BNNSDataLayout7DFirstMajor, stride)

    @staticmethod
    def tensor_7d_last_major(*sizes: int, stride: Sequence[int] | None = None) -> Shape:
        """Seven axes, the last slowest: C order is the reverse of the sizes."""
        return Shape(sizes, _L.BNNSDataLayout7DLastMajor, stride)

    @staticmethod
    def tensor_8d_first_major(*sizes: int, stride: Sequence[int] | None = None) -> Shape:
        """Eight axes, the first slowest: C order is the order of the sizes."""
        return Shape(sizes, _L.BNNSDataLayout8DFirstMajor, stride)

    @staticmethod
    def tensor_8d_last_major(*sizes: int, stride: Sequence[int] | None = None) -> Shape:
        """Eight axes, the last slowest: C order is the reverse of the sizes."""
        return Shape(sizes, _L.BNNSDataLayout8DLastMajor, stride)


for _name in [name for name in vars(Shape) if name.startswith("tensor_")]:
    setattr(
        Shape, _name.replace("_", "", 1), vars(Shape)[_name]
    )  # Swift's tensor3DFirstMajor, read as tensor3d_first_major
