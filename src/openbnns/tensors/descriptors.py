"""Array descriptors resolved to views: element types, data layouts, sizes and strides.

A :class:`View` is what a ``BNNSNDArrayDescriptor`` means, checked and with every default filled in. Sizes and strides are
kept in the order of ``size[]``; ``memory_axes`` lists those axes from slowest to fastest, so that a packed array is the
C-order NumPy array of shape ``view.shape``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import compat
from .._cached import cached_property
from ..abi.enums import BNNSDataLayout, BNNSDataType
from ..errors import Problem

MAX_ELEMENTS = 1 << 46
"""More elements than any machine can hold; larger sizes are mistakes (such as a negative number cast to size_t)."""


@dataclass(frozen=True)
class ElementType:
    """One BNNS element type. ``numpy`` is the storage type, or ``None`` when several values share a byte."""

    code: int
    name: str
    kind: str  # "float", "bfloat", "int", "uint", "indexed" or "boolean"
    bits: int
    numpy: np.dtype[Any] | None

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")


def _element_types() -> dict[int, ElementType]:
    storage = {
        "Float16": "f2", "Float32": "f4", "BFloat16": "u2", "Boolean": "u1", "Indexed8": "u1",
        "Int8": "i1", "Int16": "i2", "Int32": "i4", "Int64": "i8",
        "UInt8": "u1", "UInt16": "u2", "UInt32": "u4", "UInt64": "u8",
    }  # fmt: skip
    types = {}
    for member in BNNSDataType:
        name = member.name.removeprefix("BNNSDataType")
        bits = int(member) & 0xFF
        if bits == 0:  # the bare class bits are not types
            continue
        kind = {"F": "float", "B": "bfloat", "I": "int", "U": "uint"}[name[0]]
        if name.startswith("Indexed"):
            kind = "indexed"
        elif name == "Boolean":
            kind = "boolean"
        numpy_type = np.dtype(storage[name]) if name in storage else None
        types[int(member)] = ElementType(int(member), name, kind, bits, numpy_type)
    return types


ELEMENT_TYPES = _element_types()
FLOAT32 = ELEMENT_TYPES[int(BNNSDataType.BNNSDataTypeFloat32)]
BFLOAT16 = ELEMENT_TYPES[int(BNNSDataType.BNNSDataTypeBFloat16)]


@dataclass(frozen=True)
class Layout:
    """One data layout: which axis of ``size[]`` each entry of ``stride[]`` steps, and what is special about it."""

    code: int
    name: str
    stepped: tuple[int, ...]  # stride[k] steps axis size[stepped[k]]
    flipped: tuple[int, ...] = ()  # axes stored in reverse
    blocked32: bool = False  # groups of 32 output channels are interleaved
    opaque: bool = False  # sparse weights, readable only by the library

    @property
    def rank(self) -> int:
        return len(self.stepped)

    def same_as(self, other: Layout) -> bool:
        """True if both are one layout under two names, as Vector and 1DFirstMajor are."""
        return self.code == other.code or _SYNONYMS.get(self.name, self.name) == _SYNONYMS.get(other.name, other.name)


# Layouts that name their coordinates in another order than size[] lists them.
_NAMED_AXES = {"RowMajorMatrix": (1, 0), "SNE": (2, 1, 0), "NSE": (2, 1, 0), "MHA_DHK": (0, 2, 1)}

_SYNONYMS = {
    "1DFirstMajor": "Vector",
    "1DLastMajor": "Vector",
    "2DLastMajor": "ColumnMajorMatrix",
    "3DLastMajor": "ImageCHW",
}


def _layouts() -> dict[int, Layout]:
    layouts = {}
    for member in BNNSDataLayout:
        code, name = int(member), member.name.removeprefix("BNNSDataLayout")
        rank = code >> 16
        stepped = tuple(range(rank))
        if name.endswith("FirstMajor"):
            stepped = stepped[::-1]
        elif name == "MHA_DHK":
            stepped = (0, 2, 1)
        layouts[code] = Layout(
            code,
            name,
            stepped,
            flipped=(0, 1) if name.endswith("HrWr") else (),
            blocked32=name.endswith("Pack32"),
            opaque=name == "FullyConnectedSparse",
        )
    return layouts


LAYOUTS = _layouts()

PACKED_LAYOUTS = [code for code, layout in LAYOUTS.items() if not (layout.blocked32 or layout.opaque)]
"""The codes of layouts whose tensors without strides have no gaps."""


def layout_of(code: int, keras_order: bool | None = None) -> Layout:
    """The layout with this code, which must exist; ``keras_order`` is the switch that MHA_DHK depends on."""
    layout = LAYOUTS[int(code)]
    if keras_order is None:
        keras_order = compat.switches.mha_dhk_keras_order
    if layout.name == "MHA_DHK" and keras_order:
        return Layout(layout.code, layout.name, (1, 2, 0))
    return layout


@dataclass(frozen=True, eq=False)
class View:
    """A descriptor resolved: what each element is and where it lies.

    ``strides[a]`` is the distance in elements between neighbours along axis ``size[a]`` (absolute; rotated axes are
    listed in ``layout.flipped``).
    """

    layout: Layout
    element: ElementType
    size: tuple[int, ...]
    strides: tuple[int, ...]
    scale: float = 1.0
    bias: float = 0.0
    table: NDArray[np.float32] | None = None
    bias_before_scale: bool = False  # compat.switches.integer_bias_before_scale when this was resolved

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        """The key that two views of the same kind of tensor share."""
        table = None if self.table is None else self.table.tobytes()
        return (
            self.layout, self.element.code, self.size, self.strides, self.scale, self.bias, table, self.bias_before_scale,
        )  # fmt: skip

    @cached_property
    def memory_axes(self) -> tuple[int, ...]:
        """Axes of ``size`` from slowest to fastest."""
        return self.layout.stepped[::-1]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of the equivalent C-order array."""
        return tuple(self.size[a] for a in self.memory_axes)

    @cached_property
    def numbered_axes(self) -> tuple[int, ...]:
        """Axes of ``size`` as axis arguments count them: axis number n of a call is ``size[numbered_axes[n]]``.

        The numbers follow ``size[]``, but RowMajorMatrix counts rows first, although its sizes are (columns, rows): so the
        same memory has the same axis numbers as 2DFirstMajor. Arguments that are documented as bits of ``size[]`` (axes of
        softmax, quantizer, dropout) are not axis numbers.
        """
        return (1, 0) if self.layout.name == "RowMajorMatrix" else tuple(range(len(self.size)))

    @cached_property
    def numbered_shape(self) -> tuple[int, ...]:
        """Sizes in the order of axis numbers."""
        return tuple(self.size[a] for a in self.numbered_axes)

    @cached_property
    def named_axes(self) -> tuple[int, ...]:
        """Axes of ``size`` as index letters and the rows and columns of products count them.

        That is the order in which the layout names its coordinates: (row, column), (x, y, channel) for ImageCHW.
        """
        if self.layout.name.startswith("ConvolutionWeights"):
            return (3, 2, 1, 0)
        return _NAMED_AXES.get(self.layout.name) or tuple(range(len(self.size)))

    @cached_property
    def named_shape(self) -> tuple[int, ...]:
        """Sizes in the order of ``named_axes``."""
        return tuple(self.size[a] for a in self.named_axes)

    @cached_property
    def count(self) -> int:
        """Number of elements of one sample."""
        n = 1
        for s in self.size:
            n *= s
        return n

    @cached_property
    def span(self) -> int:
        """Elements from the first to the last one touched, both included."""
        if self.layout.blocked32:
            kw, kh, inputs, outputs = self.size
            return 32 * kw * kh * inputs * ((outputs + 31) // 32)
        return 1 + sum((n - 1) * stride for n, stride in zip(self.size, self.strides, strict=True))

    @cached_property
    def extent(self) -> int:
        """Distance between packed samples: the largest stride times the extent it steps."""
        if self.layout.blocked32:
            return self.span
        slowest = self.layout.stepped[-1]
        return self.strides[slowest] * self.size[slowest]

    @cached_property
    def packed(self) -> bool:
        """No gaps, no reversed axes, no interleaving: the bytes are those of the C-order array."""
        return (
            self.extent == self.count and self.span == self.count and not (self.layout.flipped or self.layout.blocked32)
        )

    @cached_property
    def canonical(self) -> bool:
        """Packed float32: kernels read and write it as it is."""
        return self.packed and self.element is FLOAT32

    @cached_property
    def overlapping(self) -> bool:
        """Some element is reached in two ways (strides smaller than what they step over)."""
        reach = 1
        for axis in self.layout.stepped:
            if self.size[axis] > 1:
                if self.strides[axis] < reach:
                    return True
                reach = self.strides[axis] * (self.size[axis] - 1) + reach
        return False

    def bytes_of(self, elements: int) -> int:
        """Bytes that hold this many consecutive elements."""
        return (elements * self.element.bits + 7) // 8

    def packed_as(self, element: ElementType) -> View:
        """The same tensor of plain elements without gaps."""
        strides = packed_strides(self.layout, self.size, (0,) * self.layout.rank)
        return View(self.layout, element, self.size, _by_size_axis(self.layout, strides))


def packed_strides(layout: Layout, size: tuple[int, ...], given: tuple[int, ...]) -> tuple[int, ...]:
    """``stride[]`` with every 0 replaced by its packed value."""
    strides: list[int] = []
    for k in range(layout.rank):
        stride = given[k]
        if stride == 0:
            stride = 1 if k == 0 else strides[k - 1] * size[layout.stepped[k - 1]]
        strides.append(stride)
    return tuple(strides)


def element_type(code: int, who: str) -> ElementType:
    """The element type with this code, or a problem that lists the choices."""
    if int(code) in ELEMENT_TYPES:
        return ELEMENT_TYPES[int(code)]
    choices = ", ".join(t.name for t in ELEMENT_TYPES.values())
    raise Problem(
        f"{who}.data_type is {int(code):#x}, which is not a BNNSDataType. Use one of BNNSDataType{{{choices}}}.",
        kind=TypeError,
    )


class _Fields(NamedTuple):
    """All that decides what a descriptor means, each field read once: another thread may change it at any time."""

    layout: int
    data_type: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    scale: float
    bias: float
    table: Any
    table_type: int
    keras_order: bool
    bias_before_scale: bool


_views: dict[tuple[Any, ...], View] = {}
_MOST_VIEWS = 512


def resolve(descriptor: Any, who: str, *, like: View | None = None, opaque: bool = False) -> View:
    """Check a ``BNNSNDArrayDescriptor`` (but not its data) and fill in every default; ``who`` names it in messages.

    ``like`` is the tensor that the descriptor is a gradient of: what its layout meant at creation still holds. With
    ``opaque`` the packed sparse layout, which only the library can read, is let through. Equal descriptors share a view.
    """
    switches, table = compat.switches, descriptor.table_data
    given = (  # _Fields, without the time that takes
        descriptor.layout, descriptor.data_type, tuple(descriptor.size), tuple(descriptor.stride),
        descriptor.data_scale, descriptor.data_bias, table, descriptor.table_data_type,
        switches.mha_dhk_keras_order, switches.integer_bias_before_scale,
    )  # fmt: skip
    if like is not None or opaque or table is not None:
        return _resolve(_Fields(*given), who, like, opaque)
    view = _views.get(given)
    if view is None:
        view = _resolve(_Fields(*given), who, None, False)
        if len(_views) >= _MOST_VIEWS:
            _views.clear()
        _views[given] = view
    return view


def _resolve(given: _Fields, who: str, like: View | None, opaque: bool) -> View:
    if int(given.layout) not in LAYOUTS:
        raise Problem(
            f"{who}.layout is {int(given.layout):#x}, which is not a BNNSDataLayout. "
            "Set it, for example to BNNSDataLayoutVector or BNNSDataLayoutImageCHW."
        )
    layout = layout_of(given.layout, given.keras_order)
    if like is not None and like.layout.code == layout.code:
        layout = like.layout
    if layout.opaque and not opaque:
        raise Problem(
            f"{who}.layout is {layout.name}, the packed form of sparse weights that only the library reads. It can be "
            "only the weights of a fully connected filter. Use a dense layout such as RowMajorMatrix."
        )
    element = element_type(given.data_type, who)
    size = given.size[: layout.rank]
    total = 1
    for k, n in enumerate(size):
        if n == 0:
            raise Problem(f"{who}.size[{k}] is 0. {layout.name} has {layout.rank} sizes, and all must be at least 1.")
        total *= n
    if total > MAX_ELEMENTS:
        raise Problem(f"{who}.size {size} has {total} elements, more than any memory holds. Check the sizes.")
    strides = _resolve_strides(given.stride[: layout.rank], layout, size, who)
    table = _resolve_table(given, element, who) if element.kind == "indexed" else None
    if not element.is_integer:
        return View(layout, element, size, strides, table=table)
    with np.errstate(over="ignore"):
        scale, bias = float(np.float32(given.scale)), float(np.float32(given.bias))
    if not (math.isfinite(scale) and math.isfinite(bias)):
        raise Problem(
            f"{who}: data_scale is {scale:g} and data_bias {bias:g}. Both must be finite; 1 and 0 leave values unchanged."
        )
    scale = scale if scale != 0.0 else 1.0
    return View(layout, element, size, strides, scale, bias, bias_before_scale=given.bias_before_scale)


def _resolve_strides(given: tuple[int, ...], layout: Layout, size: tuple[int, ...], who: str) -> tuple[int, ...]:
    if layout.blocked32 and any(given):
        raise Problem(f"{who}.stride is {given}, but {layout.name} has no strides. Leave stride at 0.")
    strides = packed_strides(layout, size, given)
    for k in range(1, layout.rank):
        if strides[k] < strides[k - 1]:
            raise Problem(
                f"{who}.stride is {given}: stride[{k}] = {strides[k]} is smaller than "
                f"stride[{k - 1}] = {strides[k - 1]}. "
                "stride[0] belongs to the fastest axis and strides may not decrease; 0 means packed."
            )
    reach = sum((size[axis] - 1) * stride for axis, stride in zip(layout.stepped, strides, strict=True))
    if max(reach, *strides) > MAX_ELEMENTS:
        raise Problem(f"{who}.stride is {given}, which reaches further than any memory. Check the strides.")
    return _by_size_axis(layout, strides)


def _by_size_axis(layout: Layout, strides: tuple[int, ...]) -> tuple[int, ...]:
    """``stride[]``, which begins with the fastest axis, in the order of ``size[]``."""
    ordered = [0] * layout.rank
    for k, axis in enumerate(layout.stepped):
        ordered[axis] = strides[k]
    return tuple(ordered)


def _resolve_table(given: _Fields, element: ElementType, who: str) -> NDArray[np.float32]:
    from .staging import read_vector

    if given.table is None:
        raise Problem(
            f"{who}.data_type is {element.name}, but it has no table_data. "
            f"Give a table of {1 << element.bits} values and its table_data_type."
        )
    entries = element_type(given.table_type, f"{who}.table_data")
    if entries.kind == "indexed":
        raise Problem(
            f"{who}.table_data_type is {entries.name}: a table cannot itself be indexed. Use Float32.", kind=TypeError
        )
    return read_vector(given.table, entries, 1 << element.bits, f"{who}.table_data")


def describe(view: View) -> str:
    """Short text for messages: ``ImageCHW size (8, 8, 3) Float32``."""
    return f"{view.layout.name} size {view.size} {view.element.name}"
