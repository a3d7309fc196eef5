"""How C values behave in Python: enums that print their C name, structs held by value, arrays of fixed length.

`enums.py` and `structs.py` are generated on top of this module. Reading a field costs a plain slot access, because the
native core reads descriptors on every call; all conversion and checking happens when a field is written.
"""

from __future__ import annotations

import ctypes
import enum
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    NoReturn,
    SupportsIndex,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import numpy as np

from .._spelling import did_you_mean

if TYPE_CHECKING:
    from inspect import Signature


Element = TypeVar("Element")
Other = TypeVar("Other")
Read = TypeVar("Read")
Write = TypeVar("Write")
SomeStruct = TypeVar("SomeStruct", bound="Struct")
Convert = Callable[[Any], Any]


class CEnum(enum.IntEnum):
    """An enum of the C interface: an `int` that prints as its C name (format it with `:d` or `:x` for the number)."""

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else self.name


class CFlag(enum.IntFlag):
    """A bit mask of the C interface: an `int` that prints as the C names of its bits joined by `|`."""

    def __repr__(self) -> str:
        names = [bit.name for bit in type(self) if bit.name and bit & self]
        unnamed = int(self) & ~sum(int(bit) for bit in type(self))
        if unnamed or not names:
            names.append(hex(unnamed) if unnamed else "0")
        return "|".join(names)

    def __str__(self) -> str:
        return repr(self)

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else repr(self)


class FixedList(list[Element]):
    """A C array inside a struct: a list whose entries can be replaced but whose length cannot change.

    >>> from openbnns.abi.structs import BNNSNDArrayDescriptor
    >>> descriptor = BNNSNDArrayDescriptor(size=(5, 4))
    >>> descriptor.size[2] = 3
    >>> descriptor.size
    [5, 4, 3, 0, 0, 0, 0, 0]
    """

    __slots__ = ("_element",)
    __hash__ = None

    def __init__(self, entries: Iterable[Element], element: Convert) -> None:
        """Hold entries that `element`, the converter of one entry, has already checked."""
        super().__init__(entries)
        self._element = element

    @overload
    def __setitem__(self, position: SupportsIndex, value: Any) -> None: ...
    @overload
    def __setitem__(self, position: slice, value: Iterable[Any]) -> None: ...
    def __setitem__(self, position: SupportsIndex | slice, value: Any) -> None:
        if isinstance(position, slice):
            entries = [self._element(entry) for entry in value]
            wanted = len(range(*position.indices(len(self))))
            if len(entries) != wanted:
                raise ValueError(f"an array of fixed length takes {wanted} values here, got {len(entries)}")
            super().__setitem__(position, entries)
        else:
            super().__setitem__(position, self._element(value))

    def copy(self) -> FixedList[Element]:
        """A copy whose entries, where they are structs or arrays themselves, are copies too."""
        if self and type(self[0]) is int:
            return FixedList(self, self._element)
        return FixedList(map(self._element, self), self._element)

    def __reduce__(self) -> tuple[Any, ...]:
        return (list, (list(self),))  # the struct that owns the array restores its kind

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return self.__reduce__()

    def _refuse(self, *_arguments: object, **_options: object) -> NoReturn:
        raise TypeError(f"an array of fixed length ({len(self)}) cannot grow or shrink; assign to its entries instead")

    append = extend = insert = pop = remove = clear = _refuse
    __delitem__ = __iadd__ = __imul__ = _refuse


class Field(Generic[Read, Write]):
    """A field for type checkers that takes other types than it gives; not used at run time."""

    def __get__(self, instance: object, owner: type) -> Read:
        raise NotImplementedError

    def __set__(self, instance: object, value: Write) -> None:
        raise NotImplementedError


Array = Field[FixedList[Element], Sequence[Element]]
Array2D = Field[FixedList[FixedList[Element]], Sequence[Sequence[Element]]]
Nested = Field[Element, Element | None]
Short = Field[Element, Element | Other | None]  # a struct, or its first field alone


class Kind(NamedTuple):
    """The kind of values that a field of a struct accepts. A class body says ``alpha: float = FLOAT``."""

    convert: Convert
    """Checks a value and gives what is stored; raises TypeError or ValueError."""
    default: Any
    """The value of a field that the constructor is not given: zero, as in C."""
    initial: Callable[[], Any] | None = None
    """The maker of the initial value, a separate object for each struct; the constructor takes `None` for it."""
    is_pointer: bool = False
    """Pointers hold the object given, are shared by copies and compared by identity."""

    def zero(self) -> Any:
        """The value of the field in a new struct."""
        return self.convert(self.default) if self.initial is None else self.initial()


def _describe(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text}" if len(text) <= 40 else type(value).__name__


def integer(name: str, low: int, high: int) -> Any:
    """The kind of an integer of a C type called `name` with the range `low` to `high`."""

    def convert(value: Any) -> int:
        if type(value) is not int:
            try:
                value = int(operator.index(value))
            except TypeError:
                raise TypeError(f"expected an integer ({name}), got {_describe(value)}") from None
        if low <= value <= high:
            return cast("int", value)
        raise ValueError(f"{value} is outside the range of {name}, {low} to {high}")

    return Kind(convert, 0)


SIZE = integer("size_t", 0, 2**64 - 1)
SIGNED_SIZE = integer("ssize_t", -(2**63), 2**63 - 1)
UINT8 = integer("uint8_t", 0, 2**8 - 1)
UINT32 = integer("uint32_t", 0, 2**32 - 1)
UINT64 = integer("uint64_t", 0, 2**64 - 1)
INT32 = integer("int32_t", -(2**31), 2**31 - 1)


def _to_float(value: Any) -> float:
    """The nearest number of single precision, which is what the field of a C struct holds."""
    if type(value) is not float:
        if not (hasattr(value, "__float__") or hasattr(value, "__index__")):
            raise TypeError(f"expected a number (float), got {_describe(value)}")
        try:
            value = float(value)
        except OverflowError:
            raise ValueError("the number is too large for a float") from None
    return ctypes.c_float(value).value


def _to_bool(value: Any) -> bool:
    if isinstance(value, (int, np.bool_, np.integer)):
        return bool(value)
    raise TypeError(f"expected a bool, got {_describe(value)}")


def _to_pointer(value: Any) -> Any:
    if isinstance(value, (bool, np.bool_)):  # an int to Python, but no address; often a comparison that went astray
        raise TypeError(f"expected memory, an address or None, got {_describe(value)}")
    return value


# Any: to a type checker, a kind is the default value of its field.
FLOAT: Any = Kind(_to_float, 0.0)
SCALE: Any = Kind(_to_float, 1.0)
BOOL: Any = Kind(_to_bool, False)
POINTER: Any = Kind(_to_pointer, None, is_pointer=True)


def enumeration(enum_class: type[enum.IntEnum] | type[enum.IntFlag]) -> Any:
    """An enum field. An integer without a name stays an `int`, as C allows; creating a filter reports it."""
    members: dict[int, int] = {int(member): member for member in enum_class}
    is_mask = issubclass(enum_class, enum.IntFlag)

    def convert(value: Any) -> int:
        if type(value) is enum_class or (type(value) is int and value in members):
            return members.get(value, value)
        try:
            number = int(UINT32.convert(value))
        except TypeError:
            raise TypeError(f"expected a {enum_class.__name__}, got {_describe(value)}") from None
        return enum_class(number) if is_mask else members.get(number, number)

    return Kind(convert, 0)


def _is_sequence(value: object) -> bool:
    if isinstance(value, (str, bytes, Mapping)):
        return False
    return isinstance(value, Sequence) or (hasattr(value, "__len__") and hasattr(value, "__getitem__"))


def _entries(value: Any, length: int, element: Convert) -> list[Any]:
    """Up to `length` entries of a sequence, each converted."""
    if not isinstance(value, (tuple, list)) and not _is_sequence(value):
        raise TypeError(f"expected a sequence of up to {length} entries, got {_describe(value)}")
    if len(value) > length:
        raise ValueError(f"takes at most {length} entries, got {len(value)}")
    entries: list[Any] = []
    try:
        for entry in value:
            entries.append(element(entry))
    except (TypeError, ValueError) as error:
        raise type(error)(f"entry {len(entries)}: {error}") from None
    return entries


def array(element: Kind, length: int) -> Any:
    """A C array of integers, or of such arrays: takes any sequence up to `length`; the rest is zero."""
    is_nested = element.initial is not None
    zeros = (0,) * length

    def convert(value: Any) -> FixedList[Any]:
        if type(value) is tuple and not value and not is_nested:
            return FixedList(zeros, element.convert)
        if type(value) is FixedList and value._element is element.convert and len(value) == length:
            return value.copy()
        entries = _entries(value, length, element.convert)
        missing = length - len(entries)
        if element.initial is not None:
            entries.extend(element.initial() for _ in range(missing))
        else:
            entries.extend(zeros[:missing])
        return FixedList(entries, element.convert)

    return Kind(convert, (), lambda: convert(()))


def structure(struct_class: type[Struct], first: type[enum.IntEnum] | None = None) -> Any:
    """A struct inside a struct: by value, as in C, so what is stored is a copy.

    As in an initializer of C, a constant of ``first``, the enum that the struct begins with, stands for the struct with
    nothing else set: ``.activation = BNNSActivationFunctionTanh``.
    """

    def convert(value: Any) -> Struct:
        if isinstance(value, struct_class):
            return value.copy()
        if first is not None and type(value) is first:
            return struct_class(value)
        name = struct_class.__name__
        hint = f"; {name}() is the empty one" if value is None else ""
        raise TypeError(f"expected a {name}, got {_describe(value)}{hint}")

    return Kind(convert, None, struct_class)


def _brief(value: object, is_pointer: bool) -> str:
    """A field's value for `repr`: pointers to memory are described, not printed."""
    if isinstance(value, FixedList):
        used = max((position + 1 for position, entry in enumerate(value) if _is_set(entry)), default=0)
        return "[" + ", ".join(_brief(entry, False) for entry in value[:used]) + "]"
    if type(value) is float:
        return str(np.float32(value))  # the fewest digits that give the same number of single precision
    if not is_pointer or isinstance(value, (str, bytes, Struct)):
        return repr(value)
    if isinstance(value, int):
        return hex(value)
    if isinstance(value, np.ndarray):
        return f"<{value.dtype} array {value.shape}>"
    return f"<{type(value).__name__}>"


def _is_set(entry: object) -> bool:
    if isinstance(entry, FixedList):
        return any(map(_is_set, entry))
    return entry != type(entry)()


def _same_pointer(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, (int, str, bytes)) and type(one) is type(other) and bool(one == other))


class StructClass(type):
    """The metaclass of structs: the fields that a body lists as ``name: type = KIND`` become slots."""

    _kinds: Mapping[str, Kind]

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> StructClass:
        kinds = {field: kind for field, kind in body.items() if isinstance(kind, Kind)}
        if kinds:
            body = {key: value for key, value in body.items() if key not in kinds}
            body |= {"__slots__": tuple(kinds), "_kinds": kinds}
        return super().__new__(cls, name, bases, body)

    @property
    def __signature__(cls) -> Signature:
        """Signature of the constructor, for `help` and editors."""
        from inspect import Parameter, Signature

        hints = get_type_hints(cls)
        takes = {name: get_args(hint)[1] if get_origin(hint) is Field else hint for name, hint in hints.items()}
        fields = cls._kinds.items()
        return Signature(
            [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD, default=k.default, annotation=takes[n]) for n, k in fields]
        )


@dataclass_transform()
class Struct(metaclass=StructClass):
    """Base of the C structs: fields in C order, all zero unless given, checked when written, copied by value.

    Fields are given by name, or without names in C order, as an initializer in braces does.

    `==` compares field by field; pointers are equal when they hold the same object or the same address. Structs can
    change, so they cannot be keys of a dictionary.

    >>> from openbnns.capi import *
    >>> p = BNNSLayerParametersActivation(activation=BNNSActivation(alpha=2))
    >>> a = p.activation.copy()
    >>> p.activation.alpha = 3  # nested structs belong to their struct
    >>> a.alpha, a == BNNSActivation(alpha=2)
    (2.0, True)
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    only_mine: ClassVar[bool] = False
    """True if only the call that it is passed to can change it, so that no copy is needed."""
    _kinds: ClassVar[Mapping[str, Kind]] = {}
    _plan: ClassVar[tuple[tuple[str, Callable[[Any, Any], None], Convert, Any, Callable[[], Any] | None], ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "_kinds" in cls.__dict__:
            cls._plan = tuple(
                (name, cls.__dict__[name].__set__, kind.convert, kind.zero(), kind.initial)
                for name, kind in cls._kinds.items()
            )

    def __init__(self, *ordered: Any, **values: Any) -> None:
        if ordered:
            values |= self._named(ordered, values)
        name = ""
        try:
            for name, write, convert, zero, initial in self._plan:
                if name in values:
                    value = values.pop(name)
                    write(self, initial() if value is None and initial is not None else convert(value))
                else:
                    write(self, zero if initial is None else initial())
        except (TypeError, ValueError) as error:
            raise self._explained(name, error) from None
        if values:
            unknown = next(iter(values))
            hint = did_you_mean(unknown, self._kinds) or f" Its fields are {', '.join(self._kinds)}."
            raise TypeError(f"{type(self).__name__}: there is no field {unknown!r}.{hint}")

    def __setattr__(self, name: str, value: object) -> None:
        kind = self._kinds.get(name)
        if kind is None:
            hint = did_you_mean(name, self._kinds) or f" Its fields are {', '.join(self._kinds)}."
            raise AttributeError(f"{type(self).__name__}: there is no field {name!r}.{hint}")
        try:
            object.__setattr__(self, name, kind.convert(value))
        except (TypeError, ValueError) as error:
            raise self._explained(name, error) from None

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name}: the fields of a struct cannot be deleted")

    def _explained(self, name: str, error: Exception) -> Exception:
        return type(error)(f"{type(self).__name__}.{name}: {error}")

    def _named(self, ordered: tuple[Any, ...], values: Mapping[str, Any]) -> dict[str, Any]:
        """Values given in C order, under the names of their fields."""
        who, known = type(self).__name__, list(self._kinds)
        if len(ordered) > len(known):
            raise TypeError(f"{who} has {len(known)} fields, but {len(ordered)} values are given")
        named = dict(zip(known, ordered, strict=False))
        twice = [name for name in named if name in values]
        if twice:
            raise TypeError(f"{who}.__init__() got multiple values for argument {twice[0]!r}")
        return named

    def copy(self: SomeStruct) -> SomeStruct:
        """Copy as `b = a` does in C: nested structs and arrays are copied, pointers still point to the same memory."""
        duplicate = object.__new__(type(self))
        for name, write, _, _, initial in self._plan:
            value = getattr(self, name)
            write(duplicate, value if initial is None else value.copy())
        return duplicate

    __copy__ = copy

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(self._same_field(name, other) for name in self._kinds)

    def _same_field(self, name: str, other: object) -> bool:
        mine, theirs = getattr(self, name), getattr(other, name)
        return _same_pointer(mine, theirs) if self._kinds[name].is_pointer else bool(mine == theirs)

    def __repr__(self) -> str:
        zero = type(self)()
        shown = (
            f"{name}={_brief(getattr(self, name), kind.is_pointer)}"
            for name, kind in self._kinds.items()
            if not self._same_field(name, zero)
        )
        return f"{type(self).__name__}({', '.join(shown)})"
