"""The methods that the Swift overlay adds to a descriptor: allocation, its shape, its contents.

They make shapes and take random generators, which are above; ``layers/descriptor_memory.py`` holds what they do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import NDArray

from .._spelling import spelled
from .values import Struct

if TYPE_CHECKING:
    from ..layers.shape import Shape

Self = TypeVar("Self", bound="DescriptorMemory")


class DescriptorMemory(Struct):
    """Allocation and reading, as in Swift's ``BNNSNDArrayDescriptor``. Memory is a NumPy array, freed automatically."""

    __slots__ = ()
    data: Any  # fields of the descriptor
    stride: Any

    def __init__(self, *ordered: Any, **values: Any) -> None:
        """The fields; or, as in Swift, ``shape`` with ``data_type`` or ``data``, whose type is then that of its elements.

        >>> import numpy as np
        >>> from openbnns import *
        >>> BNNSNDArrayDescriptor(data=np.zeros(3, np.int8), shape=Shape.vector(3)).data_type
        BNNSDataTypeInt8
        """
        if "shape" in values:
            from ..layers.descriptor_memory import fields_of_shape

            values = fields_of_shape(**values)
        super().__init__(*ordered, **values)

    @classmethod
    @spelled
    def allocate_uninitialized(cls: type[Self], scalar_type: Any, shape: Shape, batch_size: int = 1) -> Self:
        """A descriptor of one sample with memory for ``batch_size`` of them; ``scalar_type`` is a DataType or NumPy's.

        >>> import numpy as np
        >>> from openbnns import *
        >>> BNNSNDArrayDescriptor.allocate_uninitialized(np.int8, Shape.vector(3), batch_size=4).data.shape
        (12,)
        """
        from ..layers import descriptor_memory

        descriptor: Self = descriptor_memory.allocate_uninitialized(cls, scalar_type, shape, batch_size)
        return descriptor

    @classmethod
    @spelled
    def allocate(
        cls: type[Self],
        *,
        shape: Shape,
        batch_size: int = 1,
        initializing_from: Any = None,
        repeating: Any = None,
        random_in: Any = None,
        random_uniform_using: Any = None,
        random_normal_using: Any = None,
        range: Any = (0.0, 1.0),
        mean: float = 0.0,
        standard_deviation: float = 1.0,
        using: Any = None,
        scalar_type: Any = None,
    ) -> Self:
        """A descriptor of one sample with memory for ``batch_size`` of them, filled in one of five ways.

        * ``initializing_from``: all elements, in the order of memory; an array keeps its type, numbers become float32
        * ``repeating``: one number everywhere
        * ``random_in``: uniform numbers in (low, high), from ``using``, a NumPy generator
        * ``random_uniform_using``: a :class:`openbnns.RandomGenerator`, uniform in ``range``
        * ``random_normal_using``: one, normal with ``mean`` and ``standard_deviation``

        >>> from openbnns import *
        >>> image = BNNSNDArrayDescriptor.allocate(initializing_from=[1, 2, 3, 4], shape=Shape.image_chw(2, 1, 2))
        >>> image.make_array(), image.data_size
        (array([1., 2., 3., 4.], dtype=float32), 16)
        >>> BNNSNDArrayDescriptor.allocate(repeating=7, shape=Shape.vector(2), batch_size=2).data
        array([7., 7., 7., 7.], dtype=float32)
        """
        from ..layers import descriptor_memory

        descriptor: Self = descriptor_memory.allocate(
            cls, shape, batch_size, initializing_from, repeating, random_in, random_uniform_using, random_normal_using,
            range, mean, standard_deviation, using, scalar_type,
        )  # fmt: skip
        return descriptor

    def deallocate(self) -> None:
        """Release the memory: data becomes NULL. Memory without another owner is freed.

        >>> from openbnns import *
        >>> d = BNNSNDArrayDescriptor.allocate(repeating=0, shape=Shape.vector(2))
        >>> d.deallocate()
        >>> d.data is None
        True
        """
        self.data = None

    @spelled
    def make_array(self, of: Any = None, batch_size: int = 1) -> NDArray[Any] | None:
        """A flat copy of the elements in the order of memory, gaps included; ``None`` without data.

        ``of`` is a NumPy type to convert to; by default it is that of the descriptor.

        >>> import numpy as np
        >>> from openbnns import *
        >>> d = Shape.matrix_row_major(2, 1).descriptor(data=np.float32([[1, 2], [3, 4]]))
        >>> d.make_array(batch_size=2)
        array([1., 2., 3., 4.], dtype=float32)
        """
        from ..layers import descriptor_memory

        return descriptor_memory.make_array(self, of, batch_size)

    @property
    def shape(self) -> Shape:
        """Layout, sizes and strides of one sample.

        >>> from openbnns import *
        >>> Shape.image_chw(5, 4, 3).descriptor().shape
        Shape.image_chw(5, 4, 3)
        """
        from ..layers import descriptor_memory

        return descriptor_memory.shape_of(self)

    @property
    def data_size(self) -> int:
        """Bytes from the first to the last element of one sample; 0 without data.

        >>> from openbnns import *
        >>> Shape.vector(3).descriptor().data_size
        0
        """
        from ..capi.utility import BNNSNDArrayGetDataSize

        descriptor: Any = self
        return BNNSNDArrayGetDataSize(descriptor)
