"""Allocation, reading and shapes of descriptors, which their methods of the Swift overlay look up here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..abi.enums import BNNSDataLayout
from ..errors import InvalidDescriptorError, Problem, as_exception
from ..tensors import buffers, descriptors
from .random_numbers import RandomGenerator
from .shape import Shape
from .types import DataType


def allocate_uninitialized(cls: type[Any], scalar_type: Any, shape: Any, batch_size: Any) -> Any:
    """A descriptor of a class with memory that holds zeros."""
    who = f"{cls.__name__}.allocate_uninitialized"
    return _allocate(cls, who, scalar_type, shape, batch_size, lambda memory: None)


def allocate(
    cls: type[Any], shape: Any, batch_size: Any, initializing_from: Any, repeating: Any, random_in: Any,
    random_uniform_using: Any, random_normal_using: Any, range: Any, mean: float, standard_deviation: float, using: Any,
    scalar_type: Any,
) -> Any:  # fmt: skip
    """A descriptor of a class with memory that is filled in one of five ways."""
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


def make_array(descriptor: Any, of: Any, batch_size: Any) -> NDArray[Any] | None:
    """A flat copy of the elements in the order of memory; None without data."""
    who = f"{type(descriptor).__name__}.make_array"
    if descriptor.data is None:
        return None
    view = _view(descriptor, f"{who}: descriptor")
    if view.element.numpy is None:
        raise _invalid(f"{who}: several {view.element.name} share a byte. Read the bytes of data instead.")
    try:
        buffer = buffers.resolve(descriptor.data, view.element, f"{who}: data")
    except Problem as problem:
        raise _invalid(problem.message) from None
    count = _samples(who, batch_size) * view.extent
    if buffer.nbytes is not None:
        count = min(count, buffer.nbytes // view.element.numpy.itemsize)
    cells = buffers.array_at(buffer, 0, view.element.numpy, (count,), (view.element.numpy.itemsize,), writable=False)
    return np.array(cells, dtype=of)


def shape_of(descriptor: Any) -> Shape:
    """Layout, sizes and strides of one sample."""
    view = _view(descriptor, f"{type(descriptor).__name__}.shape: descriptor")
    return Shape(view.size, BNNSDataLayout(view.layout.code), list(descriptor.stride)[: len(view.size)])


def fields_of_shape(shape: Any, data_type: Any = None, data: Any = None, **others: Any) -> dict[str, Any]:
    """The fields of a descriptor of this shape, and any others."""
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
    return as_exception(Problem(message), InvalidDescriptorError)


def _view(descriptor: Any, who: str) -> descriptors.View:
    try:
        return descriptors.resolve(descriptor, who)
    except Problem as problem:
        raise _invalid(problem.message) from None


def _samples(who: str, batch_size: Any) -> int:
    if isinstance(batch_size, bool) or not hasattr(batch_size, "__index__") or batch_size.__index__() < 1:
        raise _invalid(f"{who}: batch_size is {batch_size!r}, but it counts the samples. Pass 1 or more.")
    return int(batch_size.__index__())


def _allocate(
    cls: type[Any], who: str, scalar_type: Any, shape: Any, batch_size: Any, fill: Callable[[NDArray[Any]], Any]
) -> Any:
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
    descriptor: Any = make(
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
    from .random_numbers import RandomGenerator

    if not isinstance(generator, RandomGenerator):
        raise _invalid(f"{who}: a random fill takes a RandomGenerator, not {type(generator).__name__}.")
    return generator
