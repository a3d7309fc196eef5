"""Arguments of layers: arrays, descriptors and shapes, brought to the memory and descriptors that filters take.

A :class:`Port` is one tensor of a layer. It knows the NumPy shape of one sample, so it can tell one sample from a
batch, make arrays that were left out, and word what is wrong with an array in terms of arrays.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._plural import plural
from .._words import Caller
from ..abi.enums import BNNSDataLayout, BNNSDataType
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..abi.values import Struct
from ..errors import BNNSError, InvalidDescriptorError, Problem, as_exception
from ..tensors import buffers, descriptors, wide
from ..tensors.descriptors import LAYOUTS, View, describe
from .shape import Shape
from .types import DataLayout, DataType

__all__ = ["skip"]

TensorLike: TypeAlias = Any
"""A NumPy array (or anything with a buffer, ``__array_interface__`` or DLPack on the CPU) or a descriptor with data."""

FLOAT = np.dtype(np.float32)
_S = TypeVar("_S", bound=Struct)


class Skip(enum.Enum):
    """The type of :data:`skip`."""

    SKIP = "skip"

    def __repr__(self) -> str:
        return "openbnns.skip"


skip: Final = Skip.SKIP
"""As a gradient argument of ``apply_backward``: do not compute this gradient. Its place in the result is ``None``."""


class DataProblem(Problem):
    """A tensor without usable data; becomes an ``InvalidDescriptorError``."""


def raised(problem: Problem, family: type[BNNSError]) -> BNNSError:
    """The exception for a problem of a call."""
    return as_exception(problem, InvalidDescriptorError if isinstance(problem, DataProblem) else family)


class Delta:
    """A gradient array in the form the fast call reads: the fields of a Float32 descriptor, without their checks."""

    __slots__ = ("data", "flags", "layout", "size", "stride")
    data_type = int(BNNSDataType.BNNSDataTypeFloat32)

    def __init__(self, form: Port | Packed, data: NDArray[Any], flags: int) -> None:
        self.layout = form.layout
        self.size = form.size
        self.stride = form.stride
        self.data = data
        self.flags = flags


class Packed(NamedTuple):
    """How a packed tensor is described."""

    layout: int
    size: list[int]
    stride: list[int] = [0] * 8


class Port:
    """One tensor of a layer, from its descriptor at creation.

    ``shape`` is the NumPy shape of one sample (or of the parameter) and ``dtype`` the type that stores its elements.
    ``batched`` tensors have one sample per batch entry; an array then is one sample, or has a batch axis in front.
    """

    __slots__ = ("batched", "dense", "dtype", "layout", "shape", "size", "stride", "view")

    def __init__(
        self, descriptor: BNNSNDArrayDescriptor, *, batched: bool = True, shape: tuple[int, ...] | None = None
    ) -> None:
        self._set(descriptors.resolve(descriptor, "descriptor"), batched, shape)

    @classmethod
    def of(cls, view: View, *, batched: bool = True, shape: tuple[int, ...] | None = None) -> Port:
        """The same for a descriptor that has been resolved."""
        port = cls.__new__(cls)
        port._set(view, batched, shape)
        return port

    def _set(self, view: View, batched: bool, shape: tuple[int, ...] | None) -> None:
        self.view = view
        self.shape = view.shape if shape is None else shape
        self.batched = batched
        self.dtype = view.element.numpy
        self.layout = int(view.layout.code)
        self.size = list(view.size)
        self.stride = [0] * len(view.size)
        # Whether a C-order array has exactly this memory.
        self.dense = view.extent == view.count == view.span and not view.layout.blocked32 and self.dtype is not None

    def lead(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """The axes before those of a sample: (batch,), or none if that is all; ``None`` if a sample has another shape."""
        if shape[1:] == self.shape:
            return shape[:1]
        return () if shape == self.shape else None

    def full_shape(self, batch: int | None = None) -> tuple[int, ...]:
        """Shape of an array with this many samples; ``None`` is one sample without a batch axis."""
        return self.shape if batch is None or not self.batched else (batch, *self.shape)

    @property
    def stored(self) -> Any:
        """The type of a new array."""
        return np.bool_ if self.view.element.kind == "boolean" else self.dtype

    # Arrays.

    def check_array(self, array: NDArray[Any], who: str, *, output: bool) -> int | None:
        """Refuse an array that does not hold this tensor; gives its batch size, or ``None`` for one sample."""
        self._require_dense(who)
        assert self.dtype is not None
        if not self._holds(array.dtype):
            require_dtype(array, self.dtype, who, output=output)
        batch = self._batch_of(array.shape, who, output)
        if output:
            require_output(array, who)
        return batch

    def _require_dense(self, who: str) -> None:
        if not self.dense:
            raise Problem(
                f"{who}: this tensor was described as {describe(self.view)} with strides {self.view.strides}, which no "
                "plain array holds. Pass a BNNSNDArrayDescriptor with data, or create the layer from a packed shape."
            )

    def _holds(self, dtype: np.dtype[Any]) -> bool:
        return self.view.element.kind == "boolean" and dtype.itemsize == 1 and dtype.kind in "bui"

    def _batch_of(self, shape: tuple[int, ...], who: str, output: bool) -> int | None:
        if shape == self.shape:
            return None
        if self.batched and shape[1:] == self.shape and len(shape) > 1:
            return shape[0]
        wanted = f"{self.shape}, or {_with_batch(self.shape)} with a batch" if self.batched else f"{self.shape}"
        raise Problem(
            f"{who} has shape {shape}, but this layer expects {wanted}.", cure=self._shape_hint(shape, output)
        )

    def _shape_hint(self, shape: tuple[int, ...], output: bool) -> str:
        """The cure where only the arrangement of the axes is wrong."""
        if not output and self.batched and len(self.shape) == 3 and shape[-3:] == (*self.shape[1:], self.shape[0]):
            return "Its channels come last: pass np.moveaxis(array, -1, -3)."  # a reshape would mix the pixels up
        sample = shape[len(shape) - len(self.shape) :]
        if len(self.shape) > 1 and sample != self.shape and sorted(sample) == sorted(self.shape):
            return self._order_hint(sample)
        if _product(shape) == self.view.count:
            return f"Pass the array's .reshape({self.shape})."
        if self.batched and len(shape) > 1 and _product(shape[1:]) == self.view.count:
            return f"Pass the array's .reshape({(shape[0], *self.shape)})."
        return ""

    def _order_hint(self, sample: tuple[int, ...]) -> str:
        """The same sizes in another order; a reshape would mix the elements up."""
        code = DataLayout(BNNSDataLayout(self.view.layout.code))
        meant = Shape(self._sizes_in_order(sample), code)
        if sample == self.shape[::-1] == self.view.size:
            why = "Sizes of a Shape begin with the fastest axis, those of an array with the slowest"
        else:
            why = "Its axes are in another order"
        return f"{why}: create the layer with {meant!r}, or transpose the array."

    def _sizes_in_order(self, sample: tuple[int, ...]) -> list[int]:
        """``size[]`` of an array of this shape."""
        size = [0] * len(sample)
        for axis, n in zip(self.view.memory_axes, sample, strict=True):
            size[axis] = n
        return size

    def empty(self, batch: int | None, who: str) -> NDArray[Any]:
        """A new array for a result that was left out."""
        self._require_dense(who)
        return np.empty(self.full_shape(batch), self.stored)

    # Descriptors.

    def check_descriptor(self, descriptor: BNNSNDArrayDescriptor, who: str) -> None:
        """Refuse a descriptor whose memory is arranged in another way than this tensor's."""
        view = descriptors.resolve(descriptor, who)
        require_data(descriptor, who)
        if view.element is not self.view.element:
            raise Problem(
                f"{who}.data_type is {view.element.name}, but the layer was created with {self.view.element.name}.",
                kind=TypeError,
            )
        same = (view.layout.code, view.size, view.strides) == (self.view.layout.code, self.view.size, self.view.strides)
        if not same and not (view.packed and self.view.packed and view.count == self.view.count):
            raise Problem(
                f"{who} is {describe(view)} with strides {view.strides}, but this layer was created with "
                f"{describe(self.view)} with strides {self.view.strides} here. Describe the tensor as at creation."
            )

    def samples_in(self, descriptor: BNNSNDArrayDescriptor, who: str) -> int | None:
        """How many samples the memory of a descriptor holds; ``None`` for an address or a length that does not fit."""
        view = descriptors.resolve(descriptor, who)
        nbytes = buffers.resolve(descriptor.data, view.element, who).nbytes
        if nbytes is None:
            return None
        elements = nbytes * 8 // view.element.bits
        if elements == view.extent or elements == view.span:
            return 1
        for tail in (view.extent, view.span):  # the last sample may end with its last element
            if elements > tail and (elements - tail) % view.extent == 0:
                return 1 + (elements - tail) // view.extent
        return None

    def delta(self, value: Any, accumulate: bool) -> BNNSNDArrayDescriptor:
        """The descriptor of a gradient: the caller's own, or one for an array."""
        if isinstance(value, BNNSNDArrayDescriptor):
            return value
        return BNNSNDArrayDescriptor(
            flags=int(accumulate),
            layout=self.layout,
            size=self.size,
            data=value,
            data_type=self.view.element.code,
        )


def shape_of(view: View) -> Shape:
    """The Shape of a tensor."""
    return Shape(view.size, BNNSDataLayout(view.layout.code), [view.strides[a] for a in view.layout.stepped])


def _product(shape: Sequence[int]) -> int:
    n = 1
    for size in shape:
        n *= size
    return n


def _with_batch(shape: tuple[int, ...]) -> str:
    return f"(N, {', '.join(map(str, shape))})"


def memory(value: Any) -> Any:
    """The pointer argument of a filter for a value: the memory of a descriptor, or the value itself."""
    return value.data if isinstance(value, BNNSNDArrayDescriptor) else value


class Arguments:
    """The arguments of one call: each checked against its port, and all together giving one batch size."""

    def __init__(self, who: str, batch_size: Any) -> None:
        self.who = who
        self._given = None if batch_size is None else _batch_size(batch_size, f"{who}: batch_size")
        self._counts: list[tuple[str, int | None]] = []
        self._described: list[tuple[str, Port, BNNSNDArrayDescriptor]] = []
        self.batch = 1
        self.axis: int | None = None  # length of the batch axis of new arrays; None without that axis

    def take(self, name: str, port: Port, value: TensorLike, *, output: bool = False) -> Any:
        """A checked argument: a C-contiguous array or a descriptor. An input that is not contiguous is copied."""
        who = f"{self.who}: {name}"
        if isinstance(value, BNNSNDArrayDescriptor):
            port.check_descriptor(value, who)
            if port.batched:
                self._described.append((name, port, value))
            return value
        array = as_array(value, who)
        batch = port.check_array(array, who, output=output)
        if port.batched:
            self._counts.append((name, batch))
        return array if array.flags.c_contiguous else np.ascontiguousarray(array)

    def settle(self) -> None:
        """Find the batch size that every argument agrees on."""
        given = self._given
        source = "batch_size"
        for name, batch in self._counts:
            held = 1 if batch is None else batch
            if given is None:
                given, source = held, name
            elif held != given:
                other = f"batch_size is {given}" if source == "batch_size" else f"{source} holds {given}"
                raise Problem(
                    f"{self.who}: {name} holds {plural(held, 'sample')}, but {other}. Every array of a call has the same batch "
                    "axis, and batch_size may be left out."
                )
        if given is None:
            given = self._from_descriptors()
        self.batch = given
        alone = self._given is None and all(batch is None for _, batch in self._counts) and not self._described
        self.axis = None if alone else given

    def _from_descriptors(self) -> int:
        for name, port, descriptor in self._described:
            held = port.samples_in(descriptor, f"{self.who}: {name}")
            if held is not None:
                return held
        if not self._described:
            return 1
        name, port, descriptor = self._described[0]
        raise Problem(
            f"{self.who}: batch_size cannot be inferred from {name} (an address, or memory that is not a whole number of "
            f"samples of {port.view.extent} elements). Pass batch_size."
        )


def _batch_size(value: Any, who: str) -> int:
    try:
        number = int(operator.index(value))
    except TypeError:
        raise Problem(f"{who} must be an integer, not {type(value).__name__}.", kind=TypeError) from None
    if isinstance(value, (bool, np.bool_)):
        raise Problem(f"{who} must be an integer, not bool.", kind=TypeError)
    if number < 0:
        raise Problem(f"{who} is {number}. Pass the number of samples, 0 or more.")
    return number


def as_array(value: Any, who: str) -> NDArray[Any]:
    """A NumPy view of memory that the caller owns, never a copy."""
    if type(value) is np.ndarray:
        return value
    if value is None:
        raise Problem(f"{who} is None, but it is needed. Pass an array or a descriptor with data.")
    if isinstance(value, Shape):
        raise DataProblem(f"{who} is a Shape, which has no data. Pass an array or a descriptor with data.")
    try:
        return buffers.as_array(value, who)
    except TypeError:
        raise Problem(
            f"{who} is of type {type(value).__name__}, which has no memory to use. Pass a NumPy array, e.g. "
            "np.asarray(x, np.float32), or a BNNSNDArrayDescriptor.",
            kind=TypeError,
        ) from None


def exact_array(value: Any, shape: tuple[int, ...], who: str, *, output: bool = False) -> NDArray[Any]:
    """A C-contiguous float32 array of this very shape; an input is copied if it is not contiguous."""
    array = as_array(value, who)
    require_dtype(array, FLOAT, who, output=output)
    if array.shape != shape:
        cure = f" Pass np.empty({shape}, np.float32)." if output else ""
        raise Problem(f"{who} has shape {array.shape}, but this layer expects {shape}.{cure}")
    if output:
        require_output(array, who)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def parameter_array(value: Any, shape: tuple[int, ...], who: str, *, client_pointer: bool) -> NDArray[Any]:
    """A parameter that a layer holds as a float32 array of this very shape: the caller's own, or a copy."""
    array = as_array(value, who)
    if client_pointer:
        require_in_place(array, who)
    array = exact_array(array, shape, who)
    return array if client_pointer else array.astype(wide.number_type() if wide.is_wide(array.dtype) else array.dtype)


# Descriptions at creation.


def data_type(array: NDArray[Any], who: str) -> DataType:
    """The BNNS type of an array's elements."""
    try:
        return DataType.from_dtype(array.dtype)
    except TypeError:
        raise Problem(
            f"{who} is {array.dtype}, but layers take float32. Pass the array's .astype(np.float32).",
            kind=TypeError,
        ) from None


def struct_of(kind: type[_S], who: Caller, **fields: Any) -> _S:
    """A parameter struct; a value that its field cannot hold is the caller's mistake."""
    try:
        return kind(**fields)
    except (TypeError, ValueError, OverflowError):
        for name, value in fields.items():
            field = kind._kinds[name]
            if value is None and field.initial is not None:
                continue
            try:
                field.convert(value)
            except (TypeError, ValueError, OverflowError) as error:
                kind_of = TypeError if isinstance(error, TypeError) else ValueError
                raise Problem(f"{who(name)}: {error}.", kind=kind_of) from None
        raise


def check_filter_parameters(value: Any, who: Caller) -> None:
    if value is not None and not isinstance(value, BNNSFilterParameters):
        raise Problem(
            f"{who}: filter_parameters must be a BNNSFilterParameters or None, not {type(value).__name__}.",
            kind=TypeError,
        )


def require_data(descriptor: BNNSNDArrayDescriptor, who: str) -> None:
    if descriptor.data is None:
        raise DataProblem(f"{who}.data is None. Give the descriptor memory, or pass an array.")


def require_contiguous(array: NDArray[Any], who: str, lost: str = "results") -> None:
    """Refuse an output that would have to be copied."""
    if not array.flags.c_contiguous:
        raise Problem(
            f"{who} of shape {array.shape} is not C-contiguous (strides {array.strides}), so {lost} would be lost in a copy. "
            f"Pass a C-contiguous array, e.g. np.empty({array.shape}, np.{array.dtype.name})."
        )


def require_output(array: NDArray[Any], who: str) -> None:
    """Refuse an array that results cannot be written to."""
    require_contiguous(array, who)
    if not array.flags.writeable:
        raise Problem(f"{who} is read-only, but the call writes to it. Pass a writable array.")


def require_dtype(array: NDArray[Any], dtype: np.dtype[Any], who: str, *, output: bool = False) -> None:
    """Refuse an array of another element type."""
    if array.dtype != dtype and not (dtype == FLOAT and wide.is_wide(array.dtype)):
        cure = f"np.empty({array.shape}, np.{dtype.name})" if output else f"the array's .astype(np.{dtype.name})"
        verb = "writes" if output else "takes"
        raise Problem(
            f"{who} is {array.dtype}, but this layer {verb} {dtype.name} here. Pass {cure}.",
            kind=TypeError,
        )


def require_in_place(array: NDArray[Any], who: str) -> None:
    """Refuse a parameter that would have to be copied although the layer is to use the caller's memory."""
    if not array.flags.c_contiguous:
        raise Problem(
            f"{who} of shape {array.shape} is not C-contiguous (strides {array.strides}), so the layer cannot use it in "
            "place as BNNSFlagsUseClientPtr asks. Pass a C-contiguous array."
        )


def require(value: Any, kind: type[Any], what: str, example: str = "") -> None:
    """Refuse a value that is not a ``kind``, an enum or a choice. A factory without parentheses is a common mistake."""
    if isinstance(value, kind):
        return
    article, such_as = "an" if kind.__name__[0] in "AEIOU" else "a", f" such as {example}" if example else ""
    got, hint, name = type(value).__name__, "", getattr(value, "__name__", "")
    if name and getattr(kind, name, None) is value:
        got, hint = "its factory", f" Call it: {kind.__name__}.{name}(...)."
    raise Problem(f"{what} must be {article} {kind.__name__}{such_as}, not {got}.{hint}", kind=TypeError)


def layout_like(shape: tuple[int, ...]) -> DataLayout:
    """How a sample in an array is described: vector, image (C, H, W), or C order of any other rank."""
    if len(shape) == 3:
        return DataLayout.IMAGE_CHW
    return first_major(shape)


def first_major(shape: tuple[int, ...]) -> DataLayout:
    """The layout whose ``size[]`` is the NumPy shape."""
    return DataLayout(Shape([1] * len(shape)).layout)


def sample_rank(rank: int) -> int:
    """Axes of one sample in an array, where nothing else determines them.

    (n,) and (C, H, W) are one sample, (N, n) and (N, C, H, W) a batch; beyond that the first axis is the batch.
    """
    return {1: 1, 2: 1, 3: 3, 4: 3}.get(rank, rank - 1)


def descriptor_for(
    shape: tuple[int, ...], layout: DataLayout | int, kind: DataType = DataType.FLOAT32, data: Any = None
) -> BNNSNDArrayDescriptor:
    """A descriptor of the packed C-order array ``shape``, its axes put into the order of the layout."""
    code = int(layout.value if isinstance(layout, DataLayout) else layout)
    size = [0] * len(shape)
    for axis, n in zip(reversed(LAYOUTS[code].stepped), shape, strict=True):
        size[axis] = n
    return BNNSNDArrayDescriptor(layout=code, size=size, data=data, data_type=kind.value)


def refuse_plain_sizes(value: Any, who: str) -> None:
    """Sizes that stand for a tensor at creation: a list does not say in which order they come, a Shape does."""
    if isinstance(value, int) and not isinstance(value, bool):
        raise Problem(
            f"{who} is the number {value}. Pass Shape.vector({value}), an array or a descriptor.", kind=TypeError
        )
    if not isinstance(value, (tuple, list)) or not value or not all(isinstance(n, int) for n in value):
        return
    cure = {
        1: "Shape.vector({0})",
        3: "Shape.image_chw({2}, {1}, {0}) for {0} channels of {1} x {2} pixels",
    }.get(len(value), f"Shape({list(value)})").format(*value)
    raise Problem(
        f"{who} is the {type(value).__name__} {value}. Pass {cure}, an array or a descriptor.", kind=TypeError
    )


def _filled(shape: tuple[int, ...], who: str) -> tuple[int, ...]:
    if 0 in shape:
        raise Problem(
            f"{who} has the shape {shape} without elements. Every axis but that of the batch is at least 1 long."
        )
    return shape


def describe_sample(value: Any, who: str, *, rank: int | None = None) -> BNNSNDArrayDescriptor:
    """The descriptor of one sample from a shape, a descriptor, or an array that stands for a sample or a batch.

    ``rank`` is the number of axes of a sample, where it is known; otherwise it follows from :func:`sample_rank`.
    """
    if isinstance(value, Shape):
        return value.descriptor()
    if isinstance(value, BNNSNDArrayDescriptor):
        descriptors.resolve(value, who)  # here, where it still has a name
        return value.copy()  # ports and filters must see one and the same
    refuse_plain_sizes(value, who)
    array = as_array(value, who)
    if rank is None:
        rank = sample_rank(array.ndim)
    if array.ndim not in (rank, rank + 1) or not 1 <= rank <= 8:
        raise Problem(
            f"{who} has shape {array.shape}, but one sample has {rank} axes here, and a batch one more in front. Pass "
            "such an array, a Shape or a descriptor."
        )
    shape = _filled(array.shape[array.ndim - rank :], who)
    return descriptor_for(shape, layout_like(shape), data_type(array, who))


def describe_c_order(value: Any, who: str, rank: int) -> BNNSNDArrayDescriptor:
    """The same, but axes of an array are listed in C order: ``size[]`` of its descriptor is the NumPy shape."""
    if isinstance(value, (Shape, BNNSNDArrayDescriptor)):
        return describe_sample(value, who)
    refuse_plain_sizes(value, who)
    array = as_array(value, who)
    if not 1 <= rank <= 8 or array.ndim not in (rank, rank + 1):
        raise Problem(
            f"{who} has shape {array.shape}, but one sample has {rank} axes here, and a batch one more in front. Pass such "
            "an array, a Shape or a descriptor."
        )
    shape = _filled(array.shape[array.ndim - rank :], who)
    return descriptor_for(shape, first_major(shape), data_type(array, who))


def describe_parameter(
    value: Any, who: str, layout: DataLayout | int, axes: str, *, client_pointer: bool
) -> BNNSNDArrayDescriptor:
    """The descriptor, with data, of a parameter; ``axes`` names those of an array, e.g. ``"(out, in)"``."""
    if isinstance(value, BNNSNDArrayDescriptor):
        if value.data is None:
            raise DataProblem(f"{who}.data is None. A parameter needs values at creation: give the descriptor memory.")
        descriptors.resolve(value, who, opaque=True)
        return value.copy()
    array = as_array(value, who)
    kind = data_type(array, who)
    rank = LAYOUTS[int(layout.value if isinstance(layout, DataLayout) else layout)].rank
    if array.ndim != rank:
        raise Problem(f"{who} has shape {array.shape}, but an array of {rank} axes {axes} is expected.")
    if client_pointer:
        require_in_place(array, who)
    return descriptor_for(_filled(array.shape, who), layout, kind, np.ascontiguousarray(array))


def describe_vector(value: Any, who: str, axes: str, *, client_pointer: bool) -> BNNSNDArrayDescriptor | None:
    """The same for a vector that may be left out, such as a bias."""
    if value is None:
        return None
    return describe_parameter(value, who, DataLayout.VECTOR, axes, client_pointer=client_pointer)
