"""The methods that the Swift overlay adds to a descriptor: allocation, its shape, its contents."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._spelling import spelled
from .enums import BNNSDataLayout
from .values import Struct

if TYPE_CHECKING:
    from ..layers.random_numbers import RandomGenerator
    from ..layers.shape import Shape
    from ..tensors.descriptors import View

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
        super().__init__(*ordered, **(_of_shape(**values) if "shape" in values else values))

    @classmethod
    @spelled
    def allocate_uninitialized(cls: type[Self], scalar_type: Any, shape: Shape, batch_size: int = 1) -> Self:
        """A descriptor of one sample with memory for ``batch_size`` of them; ``scalar_type`` is a DataType or NumPy's.

        >>> import numpy as np
        >>> from openbnns import *
        >>> BNNSNDArrayDescriptor.allocate_uninitialized(np.int8, Shape.vector(3), batch_size=4).data.shape
        (12,)
        """
        who = f"{cls.__name__}.allocate_uninitialized"
        return _allocate(cls, who, scalar_type, shape, batch_size, lambda memory: None)

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
        who = f"{cls.__name__}.allocate"
        ways: dict[str, tuple[Any, Callable[[NDArray[Any]], Any]]] = {
            "initializing_from": (initializing_from, lambda memory: _copy(who, memory, initializing_from)),
            "repeating": (repeating, lambda memory: memory.fill(repeating)),
            "random_in": (random_in, lambda memory: _draw(who, memory, random_in, using)),
            "random_uniform_using": (
                random_uniform_using,
                lambda memory: _generator(who, random_uniform_using).fill_uniform(memory, range),
            ),
            "random_normal_using": (
                random_normal_using,
                lambda memory: _generator(who, random_normal_using).fill_normal(memory, mean, standard_deviation),
            ),
        }
        given = [name for name, (value, _) in ways.items() if value is not None]
        if len(given) != 1:
            raise _invalid(f"{who}: give one of {', '.join(ways)}, not {len(given)} of them.")
        if scalar_type is None:
            scalar_type = getattr(initializing_from, "dtype", np.float32)
        return _allocate(cls, who, scalar_type, shape, batch_size, ways[given[0]][1])

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
        from ..errors import Problem
        from ..tensors import buffers

        who = f"{type(self).__name__}.make_array"
        if self.data is None:
            return None
        view = _view(self, f"{who}: descriptor")
        if view.element.numpy is None:
            raise _invalid(f"{who}: several {view.element.name} share a byte. Read the bytes of data instead.")
        try:
            buffer = buffers.resolve(self.data, view.element, f"{who}: data")
        except Problem as problem:
            raise _invalid(problem.message) from None
        count = _samples(who, batch_size) * view.extent
        if buffer.nbytes is not None:
            count = min(count, buffer.nbytes // view.element.numpy.itemsize)
        cells = buffers.array_at(
            buffer, 0, view.element.numpy, (count,), (view.element.numpy.itemsize,), writable=False
        )
        return np.array(cells, dtype=of)

    @property
    def shape(self) -> Shape:
        """Layout, sizes and strides of one sample.

        >>> from openbnns import *
        >>> Shape.image_chw(5, 4, 3).descriptor().shape
        Shape.image_chw(5, 4, 3)
        """
        from ..layers.shape import Shape

        view = _view(self, f"{type(self).__name__}.shape: descriptor")
        return Shape(view.size, BNNSDataLayout(view.layout.code), list(self.stride)[: len(view.size)])

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


def _of_shape(shape: Any, data_type: Any = None, data: Any = None, **others: Any) -> dict[str, Any]:
    from ..layers.shape import Shape
    from ..layers.types import DataType

    if not isinstance(shape, Shape):
        raise TypeError(
            f"BNNSNDArrayDescriptor: shape must be a Shape such as {_example(shape)}, not {type(shape).__name__}. "
            "The fields of the C struct are layout, size and stride."
        )
    if data_type is None:
        data_type = DataType.from_dtype(getattr(data, "dtype", np.float32))
    descriptor = shape.descriptor(data_type, data)
    fields = {name: getattr(descriptor, name) for name in ("layout", "size", "stride", "data", "data_type")}
    for name in fields.keys() & others.keys():
        raise TypeError(f"BNNSNDArrayDescriptor: shape says what {name} is. Give only one of them.")
    return fields | others


def _example(sizes: Any) -> str:
    """A shape of these sizes for a message, or a fixed example if they are not sizes."""
    plain = isinstance(sizes, (tuple, list)) and 0 < len(sizes) < 9 and all(isinstance(n, int) for n in sizes)
    return f"Shape({list(sizes)})" if plain else "Shape.vector(10)"


def _invalid(message: str) -> Exception:
    from ..errors import InvalidDescriptorError, Problem, as_exception

    return as_exception(Problem(message), InvalidDescriptorError)


def _view(descriptor: Any, who: str) -> View:
    from ..errors import Problem
    from ..tensors import descriptors

    try:
        return descriptors.resolve(descriptor, who)
    except Problem as problem:
        raise _invalid(problem.message) from None


def _samples(who: str, batch_size: Any) -> int:
    if isinstance(batch_size, bool) or not hasattr(batch_size, "__index__") or batch_size.__index__() < 1:
        raise _invalid(f"{who}: batch_size is {batch_size!r}, but it counts the samples. Pass 1 or more.")
    return int(batch_size.__index__())


def _allocate(
    cls: type[Self], who: str, scalar_type: Any, shape: Any, batch_size: Any, fill: Callable[[NDArray[Any]], Any]
) -> Self:
    from ..layers.shape import Shape
    from ..layers.types import DataType

    if not isinstance(shape, Shape):
        raise _invalid(f"{who}: shape must be a Shape such as {_example(shape)}, not {type(shape).__name__}.")
    kind = scalar_type
    if not isinstance(scalar_type, DataType):
        try:
            dtype = np.dtype(scalar_type)
            kind = DataType.from_dtype(np.float32 if dtype == np.float64 else dtype)
        except TypeError:
            raise _invalid(
                f"{who}: scalar_type is {scalar_type!r}, for which BNNS has no element type. Pass a DataType or np.float32."
            ) from None
    if kind.dtype is None:
        raise _invalid(
            f"{who}: scalar_type is {kind.name}, of which several share a byte. Pass the bytes as data instead."
        )
    count = shape.batch_stride * _samples(who, batch_size)
    try:
        memory = np.zeros(count, kind.dtype)
    except (MemoryError, ValueError, OverflowError):
        raise _invalid(
            f"{who}: there is no memory for {count} elements of {kind.dtype.name}. Check the sizes."
        ) from None
    fill(memory)
    make: Any = cls
    descriptor: Self = make(
        layout=shape.layout,
        size=shape.size,
        stride=() if shape.is_packed else shape.stride,
        data=memory,
        data_type=kind.value,
    )
    return descriptor


def _copy(who: str, memory: NDArray[Any], values: Any) -> None:
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "fiub":
        raise _invalid(f"{who}: initializing_from holds {numbers.dtype} items, but numbers are needed.")
    if numbers.size != memory.size:
        raise _invalid(f"{who}: initializing_from has {numbers.size} elements, but the memory holds {memory.size}.")
    memory[:] = numbers.reshape(-1)


def _draw(who: str, memory: NDArray[Any], limits: Any, generator: Any) -> None:
    try:
        low, high = (float(limit) for limit in limits)
    except (TypeError, ValueError):
        raise _invalid(f"{who}: random_in must be a pair (low, high), not {limits!r}.") from None
    memory[:] = (np.random.default_rng() if generator is None else generator).uniform(low, high, memory.size)


def _generator(who: str, generator: Any) -> RandomGenerator:
    from ..layers.random_numbers import RandomGenerator

    if not isinstance(generator, RandomGenerator):
        raise _invalid(f"{who}: a random fill takes a RandomGenerator, not {type(generator).__name__}.")
    return generator
