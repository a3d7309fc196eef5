"""Trainable parameters."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, Protocol

import numpy as np

from .. import engines
from .._listing import public
from .._spelling import spelled
from .seeds import next_seed
from .tensor import FUNCTIONS, Array, Expression, Tensor, numpy_function, recorded_graph

making = RLock()
"""A lock for recording graphs, making programs and giving parameters their values: networks may share modules, which store
sizes then, and operations hold what belongs to the program that is being made."""
if hasattr(os, "register_at_fork"):  # forks wait for it, so that no child inherits it locked
    os.register_at_fork(before=making.acquire, after_in_parent=making.release, after_in_child=making.release)


class ParameterMaker(Protocol):
    """A layer that gives a parameter its shape, once that is known, and its initial values."""

    _budget: Any  # what all parameters of a network may take of the memory; None for no limit

    def _shape_of(self, name: str) -> tuple[int, ...] | None: ...

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Any: ...


class Parameter(Expression):
    """An array that training changes. ``data`` is changed in place, ``grad`` is what the last backward pass left.

    ``requires_grad = False`` freezes it: no gradient is computed for it and no optimizer changes it, until it is set to
    True again. The parameters of a layer exist from its creation on. They have values as soon as their sizes are known:
    at once if all sizes of the layer were given, else when the network is built. Assigned to another layer, they are shared
    by both, before or after that.

    Initial values are drawn when they are first read, or when a network is built with them. Values that were read or set
    stay as they are: a seed of ``build`` or of a trainer decides all others, and :func:`openbnns.nn.manual_seed` those that
    are read before.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.Linear(3, 2, bias=False)
    >>> layer.weight
    Parameter(shape=(2, 3))
    >>> layer.weight.data[:] = 1  # in place: the layer sees it
    >>> layer(np.ones((1, 3), np.float32)).tolist()
    [[3.0, 3.0]]
    """

    # _data is for our own modules, which never write to it, but for optimizers (note_step). Others get ``data``: as long as
    # that array lives, or a view of it, it may be written to at any time. _writes counts how often that may have begun.
    __slots__ = (
        "_data",
        "_grad",
        "_held",
        "_maker",
        "_requires_grad",
        "_seed",
        "_shared",
        "_shown",
        "_writes",
        "lost_by",
        "used",
        "written_by",
    )  # fmt: skip

    @spelled
    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        self.requires_grad = requires_grad
        self._grad: Array | None = None
        self._maker: tuple[ParameterMaker, str] | None = (
            None  # the layer that gives initial values and shape, and our name in it
        )
        self._seed = 0
        self._untouched()
        self.used = True  # whether a network that was built computes with it, so that optimizers may change it
        self._set(data)

    @classmethod
    @spelled
    def owning(cls, data: Array, requires_grad: bool = True) -> Parameter:
        """A parameter on an array that nothing else reads or writes, so that every write is seen."""
        parameter = cls(data, requires_grad)
        parameter._shared = False
        return parameter

    @classmethod
    def of(cls, layer: ParameterMaker, name: str) -> Parameter:
        """The parameter ``name`` of a layer, which gives the shape, maybe later, and the initial values."""
        parameter = cls.__new__(cls)
        parameter._data = parameter._grad = None
        parameter._maker, parameter._requires_grad = (layer, name), True
        parameter._seed, parameter.used = next_seed(), False
        parameter._untouched()
        return parameter

    def _untouched(self) -> None:
        self._writes, self._shared = 0, True
        self._held: weakref.ref[Any] | None = None  # what lives as long as there is a view of ``data``
        self._shown: weakref.ref[Any] | None = None  # the array that ``data`` gave last
        # The thread whose gradient no step has used yet, and one that has lost its gradient to another.
        self.written_by: object | None = None
        self.lost_by: tuple[object, str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _KEPT}

    def __copy__(self) -> Parameter:
        self._shared = True  # with the copy
        twin = type(self).__new__(type(self))
        twin.__setstate__(self.__getstate__())
        return twin

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._untouched()
        for name, value in state.items():
            setattr(self, name, value)

    def _set(self, data: Any, *, shared: bool = True) -> None:
        """``shared``: the array may be in use elsewhere, too."""
        try:
            self._data: Array | None = np.asarray(data, np.float32, order="C")
        except (TypeError, ValueError) as error:
            raise TypeError(f"Parameter: takes an array of numbers, not a {type(data).__name__} ({error}).") from None
        self._shared, self._held, self._shown = shared, None, None
        self._writes += 1
        if self._grad is not None and self._grad.shape != self._data.shape:
            self._grad = None
        self._maker = None

    @property
    def sized(self) -> bool:
        """True if its shape is known."""
        return self._known_shape() is not None

    def _known_shape(self) -> tuple[int, ...] | None:
        if self._data is not None:
            return self._data.shape
        assert self._maker is not None
        layer, name = self._maker
        return layer._shape_of(name)

    def make(self, shape: tuple[int, ...], generator: np.random.RandomState | None = None) -> None:
        """Let the layer draw the values, if there are none yet, from this generator or else from a new one."""
        if self._maker is None:
            return
        with making:
            if self._maker is not None:  # no other thread was faster
                layer, name = self._maker
                if layer._budget is not None:
                    layer._budget.take(shape, f"{type(layer).__name__}.{name}")
                made = layer._initial(name, shape, generator or np.random.RandomState(self._seed))
                self._set(np.array(made, np.float32, order="C"), shared=False)

    def reseed(self, generator: np.random.RandomState) -> None:
        """Set the generator for values that are not drawn yet."""
        self._seed = int(generator.randint(2**32, dtype=np.uint32))

    @property
    def data(self) -> Array:
        """The values. Assigning to it copies, because layers and optimizers hold this memory."""
        array = None if self._shown is None else self._shown()
        return self._show() if array is None else array

    @data.setter
    def data(self, values: Any) -> None:
        given = self._fitting(values, "data")
        if self._data is None:
            self._set(given.copy(), shared=False)
        else:
            self._data[...] = given
            self._writes += 1

    def _show(self) -> Array:
        """A new array on the memory of the values, of which we know as long as it lives."""
        with making:  # if two threads made an array each, only one of them would be known
            array: Array | None = None if self._shown is None else self._shown()
            if array is not None:
                return array
            if self._held is not None and self._held() is not None:
                self._shared = True  # there is still a view of the memory, but not through this array
            held: Any = self.array.view()
            # Every view of this array, however it is made, has its memory from `held`, and keeps it alive.
            array = np.asarray(memoryview(held))
            self._held, self._shown = weakref.ref(held), weakref.ref(array)
            self._writes += 1
        return array

    @property
    def array(self) -> Array:
        """The values, for code that only reads them, or that reports its writes (:func:`note_step`)."""
        if self._data is None:
            self.make(self.shape)
        assert self._data is not None
        return self._data

    @property
    def grad(self) -> Array:
        """The gradient; assigning to it copies, and None stands for zeros."""
        if self._grad is None or self._grad.shape != self.shape:
            self._grad = np.zeros(self.shape, np.float32 if self._data is None else self._data.dtype)
        return self._grad

    @grad.setter
    def grad(self, values: Any) -> None:
        self.grad[...] = 0 if values is None else self._fitting(values, "grad")

    def bind_grad(self, memory: Array | None) -> None:
        """Let the gradient lie in this memory from here on, or None to give back what it has."""
        self._grad = memory

    def _fitting(self, values: Any, name: str) -> Array:
        given = as_float_array(values)
        if given.shape != self.shape:
            raise ValueError(f"Parameter.{name}: shape {given.shape} given, {self.shape} needed.")
        return given

    @contextmanager
    def apart(self, dtype: type[np.floating[Any]] = np.float32) -> Iterator[None]:
        """In the block, ``grad`` is another array, and so is ``data`` if it is to have another type."""
        before, seen = (self.array, self._grad), (self._held, self._shown, self._shared)
        self._data, self._grad = self.array.astype(dtype, copy=False), None
        other = self._data is not before[0]
        if other:
            self._held, self._shown, self._shared = None, None, True
        try:
            yield
        finally:
            self._data, self._grad = before
            if other:
                self._held, self._shown, self._shared = seen
            self._writes += 1

    @property
    def requires_grad(self) -> bool:
        """True if it is trained. May be changed at any time; a frozen parameter keeps the gradient that it had."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"Parameter.requires_grad must be True or False, not {value!r}.")
        self._requires_grad = bool(value)

    @spelled
    def requires_grad_(self, requires_grad: bool = True) -> Parameter:
        """Set ``requires_grad``; gives the parameter itself."""
        self.requires_grad = requires_grad
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.data, dtype, copy=True) if copy else np.asarray(self.data, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **named: Any) -> Any:
        """In ``forward`` a value; elsewhere the result of NumPy."""
        if _recording():
            return numpy_function(ufunc, method)(*given, **named)
        arrays = [p.data if isinstance(p, Parameter) else p for p in given]
        return getattr(ufunc, method)(*arrays, **named)

    def __bool__(self) -> bool:
        if self.size == 1 and not _recording():
            return bool(self.data.reshape(())[()])
        raise TypeError(
            f"{self!r} is neither true nor false. Use `is not None` to see whether a layer has a parameter, "
            "and (p.data > 0).any() or the like for its values, outside of forward()."
        )

    def _number(self, kind: type) -> Any:
        if _recording():
            self._refuse()
        if self.size != 1:
            raise TypeError(f"{self!r} is not one number. Take one of its values, such as p.data[0], or p.data.mean().")
        return kind(self.data.reshape(())[()])

    def __float__(self) -> float:
        number: float = self._number(float)
        return number

    def __int__(self) -> int:
        number: int = self._number(int)
        return number

    def item(self) -> float:
        """The value of a parameter with one."""
        return float(self)

    def _compared(self, name: str, other: Any) -> Any:
        """In ``forward`` a mask; elsewhere the result of NumPy."""
        if _recording() or isinstance(other, Tensor):
            return super()._compared(name, other)
        return _COMPARISONS[name](self.data, other.data if isinstance(other, Parameter) else other)

    def __eq__(self, other: object) -> Any:
        """Compare with numbers, arrays and values as ``<`` does; two parameters are equal only if they are the same."""
        if isinstance(other, (Tensor, bool, int, float, np.number, np.ndarray)):
            return self._compared("eq", other)
        return NotImplemented

    def __ne__(self, other: object) -> Any:
        if isinstance(other, (Tensor, bool, int, float, np.number, np.ndarray)):
            return self._compared("ne", other)
        return NotImplemented

    __hash__ = object.__hash__

    def numpy(self) -> Array:
        """The values, as PyTorch calls it; the same memory as ``data``."""
        return self.data

    def tolist(self) -> Any:
        """The values as numbers and lists."""
        return self.data.tolist()

    def __setitem__(self, key: Any, values: Any) -> None:
        if _recording():
            self._refuse()
        self.data[key] = values.data if isinstance(values, Parameter) else values

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"{self!r} is a single number, which has no length.")
        return self.shape[0]

    def __dir__(self) -> list[str]:
        return public(super().__dir__(), _UNLISTED)

    def reshape(self, *shape: Any) -> Any:
        """A value of other shape, in ``forward``."""
        return FUNCTIONS["reshape"](self, *shape)

    def dim(self) -> int:
        """The number of axes."""
        return self.data.ndim

    def numel(self) -> int:
        """The number of values, as PyTorch calls it; the same as ``size``."""
        return self.size

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes, once they are known."""
        shape = self._known_shape()
        if shape is None:
            assert self._maker is not None
            layer, name = self._maker
            raise RuntimeError(
                f"{type(layer).__name__}.{name}: has no values yet, because sizes are not known. Give the layer its input size, "
                "call build(sample_shape) of the network, or run one batch, first."
            )
        return shape

    @property
    def size(self) -> int:
        """The number of values."""
        return math.prod(self.shape)

    def __repr__(self) -> str:
        shape = f"shape={self.shape}" if self.sized else "not built"
        return f"Parameter({shape}{'' if self.requires_grad else ', requires_grad=False'})"


_COMPARISONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip

_UNLISTED = ("array", "bind_grad", "lost_by", "make", "of", "reseed", "sized", "used", "written_by")
"""Attributes for modules of this package only, which listings for users leave out."""

_KEPT = ("_data", "_grad", "_maker", "_requires_grad", "_seed", "_shared", "used")
"""Attributes that are copied with a parameter; memory that was shared counts as shared in the copy, too."""

_step = 0
"""The number of the latest step by which an optimizer may have changed parameters, of any network. No two have the same.
It is not used without the compiled core."""


def note_step() -> None:
    """Note that an optimizer has written to the arrays of its parameters, maybe not to all of them.

    Call it after the last write, never before: meanwhile another thread may run the network and keep what it makes of
    half-written parameters. It keeps that under the number of the step before, which ends here.
    """
    global _step
    if engines._core is not None:
        _step = engines._core.new_weights_version()


def version_of(parameters: Iterable[Parameter]) -> tuple[int, int] | None:
    """A version that changes with every write to any of these; None while writes cannot be seen."""
    total = 0
    for parameter in parameters:  # of every call of a network, so that a method of each would count
        if parameter._shared or (parameter._held is not None and parameter._held() is not None):
            return None
        total += parameter._writes
    return _step, total


def _recording() -> bool:
    return recorded_graph.get() is not None


def requiring_gradients(parameters: Iterable[Parameter]) -> tuple[bool, ...]:
    """True for each of these that requires a gradient."""
    return tuple([p._requires_grad for p in parameters])


def trainable(parameters: Iterable[Parameter]) -> list[bool]:
    """True for each parameter that takes a step: a network uses it, and it requires a gradient."""
    return [p._requires_grad and p.used for p in parameters]


class Mismatch(ValueError):
    """Weights that do not fit a network; the message lists every mismatch.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> try:
    ...     nn.Linear(2).build((3,)).load_state_dict({"weight": np.zeros((2, 4)), "scale": np.zeros(2)})
    ... except nn.Mismatch as error:
    ...     print(error)
    load_state_dict: 3 mismatches, nothing was changed:
      weight: shape (2, 4) given, (2, 3) needed
      bias: missing
      scale: not in the network
    """


def as_float_array(value: Any) -> Array:
    """An array or parameter, NumPy's, PyTorch's or of this library, as float32; complex numbers are pairs on a last axis."""
    if isinstance(value, Parameter):
        value = value.data
    elif hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if "bfloat16" in str(value.dtype) else value).numpy()  # NumPy has no bfloat16
    array = np.asarray(value)
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    return array.astype(np.float32, copy=False)
