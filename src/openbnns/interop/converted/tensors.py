"""Tensors of other libraries as values here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...graph import functions as F
from ...graph.graph import current_graph
from ...graph.parameter import Parameter
from ...graph.sizes import AnySize, Shape, is_plain, is_same, is_same_shape, product
from ...graph.tensor import FLOAT32, INT64, Tensor, equal_here, filled


class Misfit(ValueError):
    """An error for arguments that an operation cannot take; the network's message adds the place."""


NODE_ERRORS = (
    Misfit,
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    AssertionError,
    MemoryError,
)
"""The errors that a malformed node of a file may raise while it is recorded."""


class ForeignTensor:
    """``held`` is a value, a parameter or an array; free sizes that are computed with stand in an array of objects.

    ``kind`` is "f" for numbers, "i" for whole numbers and "b" for booleans. ``shape`` is given for a tensor that is repeated
    along axes of which ``held`` has one entry. ``whole_type`` is the type that whole numbers have in the file: values hold them
    in 64 bits, and arrays in this type.
    """

    def __init__(
        self, held: Any, kind: str | None = None, shape: Shape | None = None, whole_type: np.dtype[Any] = INT64
    ) -> None:
        self.held = held
        self.kind = kind or ("f" if isinstance(held, Parameter) else kind_of(held.dtype))
        has_type = isinstance(held, np.ndarray) and held.dtype.kind in "iu"
        self.whole_type: np.dtype[Any] = held.dtype if has_type else whole_type
        self.shape: tuple[Any, ...] = tuple(held.shape) if shape is None else tuple(shape)
        self._is_repeated = shape is not None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def constant(self) -> bool:
        """True if all its numbers are known, or are sizes."""
        return isinstance(self.held, np.ndarray) and not self._is_repeated

    @property
    def value(self) -> Tensor:
        """As a value; arrays and parameters become one."""
        if self._is_repeated:
            repeated: Tensor = F.expand(self.whole if self.kind == "i" else self.broadcast, *self.shape)
            return repeated
        if isinstance(self.held, Tensor):
            return self.held
        graph = current_graph()
        assert graph is not None
        if self.constant and self.held.dtype == object:
            parts = [F.mul(graph.own_constant(np.ones((), np.float32)), n) for n in self.held.ravel()]
            sizes: Tensor = F.stack(parts).reshape(self.shape)
            return sizes
        tensor: Tensor = graph.value(self.held)
        return tensor

    @property
    def numbers(self) -> Tensor:
        """As a value to compute with."""
        return F.expand(self.broadcast, *self.shape) if self._is_repeated else self.broadcast

    @property
    def broadcast(self) -> Tensor:
        """As a value for elementwise operations with others: not repeated."""
        value = ForeignTensor(self.held, self.kind).value if self._is_repeated else self.value
        if value.dtype == FLOAT32:
            return value
        if isinstance(value.leaf, np.ndarray):
            return value.graph.own_constant(value.leaf.astype(np.float32))
        result: Tensor = value.float()
        return result

    @property
    def whole(self) -> Tensor:
        """As a value of whole numbers for elementwise operations with others: not repeated."""
        value = ForeignTensor(self.held, self.kind).value if self._is_repeated else self.value
        return value if value.dtype.kind == "i" else value.long()

    @property
    def elements(self) -> Tensor:
        """As a value of its own kind, to be moved, or to look something up."""
        if self.kind == "f":
            return self.numbers
        return self.whole if self.kind == "i" and not self._is_repeated else self.value

    def replaced(self, value: Callable[[Tensor], Tensor], size: Callable[[AnySize], AnySize]) -> ForeignTensor:
        """The same on another value, and with other sizes, in the graph that is being recorded."""
        held = self.held
        if isinstance(held, Tensor):
            held = value(held)
        elif isinstance(held, np.ndarray) and held.dtype == object:
            held = sizes_array(list(map(size, held.ravel()))).reshape(held.shape)
        shape = tuple(map(size, self.shape)) if self._is_repeated else None
        return ForeignTensor(held, self.kind, shape, self.whole_type)

    def under_type(self, whole_type: np.dtype[Any]) -> ForeignTensor:
        """Whole numbers that this type holds, as numbers of this type."""
        if self.kind != "i" or self.whole_type == whole_type:
            return self
        held = self.held
        if isinstance(held, np.ndarray) and held.dtype != object:
            held = held.astype(whole_type)
            held.flags.writeable = False
        return ForeignTensor(held, self.kind, self.shape if self._is_repeated else None, whole_type)

    @property
    def array(self) -> Any:
        """The numbers of a constant."""
        if self.constant:
            return self.held
        raise Misfit("an argument must be a constant, but is computed with")

    def axis(self, dim: int) -> int:
        """The axis that a number means, counted from the first."""
        if not -self.rank <= dim < self.rank:
            raise Misfit(f"there is no axis {dim} in {self.shape}")
        return dim % self.rank


class TensorList(Sequence[ForeignTensor]):
    """Tensors in a row whose number is known: a sequence of ONNX, a list of Core ML."""

    kind = "list"
    constant = False

    def __init__(self, tensors: Iterable[ForeignTensor]) -> None:
        self._tensors = tuple(tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __getitem__(self, index: Any) -> Any:
        return self._tensors[index]


def without_elements(x: Any) -> Any:
    """A tensor that has no elements as a constant, which needs no computing; any other as it is."""
    if not isinstance(x, ForeignTensor) or x.constant or not any(isinstance(n, int) and n == 0 for n in x.shape):
        return x
    dtype: Any = {"f": np.float32, "i": x.whole_type, "b": np.bool_}[x.kind]
    return ForeignTensor(np.zeros([int(n) for n in x.shape], dtype), x.kind)


def kind_of(dtype: np.dtype[Any]) -> str:
    """ "f" for numbers, "i" for whole numbers and sizes, "b" for booleans."""
    return "b" if dtype == np.bool_ else "f" if dtype.kind == "f" else "i"


def sizes_array(sizes: Sequence[Any]) -> Any:
    """Sizes as an array: of whole numbers, or of objects if some are free."""
    if is_plain(sizes):
        return np.array(sizes, np.int64)
    array = np.empty(len(sizes), object)
    for i, n in enumerate(sizes):  # one by one, so that NumPy does not ask for their numbers
        array[i] = n
    return array


def reshaped(x: ForeignTensor, sizes: Sequence[Any]) -> Any:
    """The elements in another shape, in which one size may be -1."""
    count = product(x.shape)
    shape = filled(sizes, count, is_same) or filled(sizes, count, equal_here)
    if shape is None:
        raise Misfit(f"{x.shape} has another number of elements than {tuple(sizes)}")
    if x.constant:
        return x.held.reshape(tuple(map(int, shape)))
    value = x.value
    return value if is_same_shape(shape, value.shape) else Tensor(value.graph, shape, source=value)


def optional_numbers(given: ForeignTensor | None) -> Tensor | None:
    """An optional argument of a function as a value to compute with."""
    return None if given is None else given.numbers


def held_parameter(given: Any) -> Any:
    """Weights as layers take them: a parameter, an array or None."""
    if given is None:
        return None
    if isinstance(given, ForeignTensor) and isinstance(given.held, (Parameter, np.ndarray)):
        return given.held
    raise Misfit("weights must be parameters or constants of the module as they are, but are computed")
