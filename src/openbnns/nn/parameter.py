"""What is trained, and how it may fail to fit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._spelling import spelled
from ._expression import Expression, numpy_function
from ._value import Array


class Parameter(Expression):
    """An array that training changes. ``data`` is changed in place, ``grad`` is what the last backward pass left.

    ``requires_grad = False`` freezes it: no gradient is computed for it and no optimizer changes it, until it is set to
    True again. The parameters of a layer exist from its creation on, but have values only once the network is built, when
    sizes are known; assigned to another layer, they are shared by both, before or after that.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.Linear(3, 2, bias=False).build((3,), seed=0)
    >>> layer.weight
    Parameter(shape=(2, 3))
    >>> layer.weight.data[:] = 1  # in place: the layer sees it
    >>> layer(np.ones((1, 3), np.float32)).tolist()
    [[3.0, 3.0]]
    """

    __slots__ = ("_data", "_grad", "_maker", "_requires_grad")

    @spelled
    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        self.requires_grad = requires_grad
        self._set(data)

    @classmethod
    def of(cls, layer: Any, name: str) -> Parameter:
        """The parameter ``name`` of a layer that does not know its sizes yet, but will give the initial values."""
        parameter = cls.__new__(cls)
        parameter._data = parameter._grad = None
        parameter._maker, parameter._requires_grad = (layer, name), True
        return parameter

    def _set(self, data: Any) -> None:
        self._data: Array | None = np.ascontiguousarray(data, np.float32)
        self._grad: Array | None = np.zeros_like(self._data)
        self._maker: tuple[Any, str] | None = None

    @property
    def sized(self) -> bool:
        """Whether it has values, as it has once the network is built."""
        return self._data is not None

    def make(self, shape: tuple[int, ...], generator: np.random.RandomState) -> None:
        """Let the layer that it was made by give it values, if it has none yet."""
        if self._maker is not None:
            layer, name = self._maker
            self._set(layer._initial(name, shape, generator))

    @property
    def data(self) -> Array:
        """The values. Assigning to it copies, because layers and optimizers hold this memory."""
        return self._require(self._data)

    @data.setter
    def data(self, values: Any) -> None:
        self._fill(self.data, values, "data")

    @property
    def grad(self) -> Array:
        """The gradient; assigning to it copies, and None stands for zeros."""
        return self._require(self._grad)

    @grad.setter
    def grad(self, values: Any) -> None:
        self._fill(self.grad, np.zeros_like(self.grad) if values is None else values, "grad")

    def _require(self, array: Array | None) -> Array:
        if array is None:
            layer, name = self._maker or (None, "")
            raise RuntimeError(
                f"{type(layer).__name__}.{name}: has no values yet, because sizes are not known. Call build(sample_shape) of "
                "the network, or run one batch, first."
            )
        return array

    def _fill(self, array: Array, values: Any, name: str) -> None:
        given = as_float_array(values)
        if given.shape != array.shape:
            raise ValueError(f"Parameter.{name}: shape {given.shape} given, {array.shape} needed.")
        array[...] = given

    @property
    def requires_grad(self) -> bool:
        """Whether it is trained. May be changed at any time; what is frozen keeps the gradient that it had."""
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
        """In ``forward`` a value; elsewhere what NumPy makes of the numbers."""
        from ._graph import current_graph

        if current_graph() is not None:
            return numpy_function(ufunc, method)(*given, **named)
        arrays = [p.data if isinstance(p, Parameter) else p for p in given]
        return getattr(ufunc, method)(*arrays, **named)

    def reshape(self, *shape: Any) -> Any:
        """A value of other shape, in ``forward``."""
        from . import functional

        return functional.reshape(self, *shape)

    def dim(self) -> int:
        return self.data.ndim

    def numel(self) -> int:
        """The number of values, as PyTorch calls it; the same as ``size``."""
        return self.size

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def size(self) -> int:
        return int(self.data.size)

    def __repr__(self) -> str:
        shape = f"shape={self.shape}" if self.sized else "not built"
        return f"Parameter({shape}{'' if self.requires_grad else ', requires_grad=False'})"


def trainable(parameters: Iterable[Parameter]) -> list[bool]:
    """Which of these take a step: those that have values and require a gradient."""
    return [p._requires_grad and p._data is not None for p in parameters]


class Mismatch(ValueError):
    """Weights that do not fit a network; the message lists every mismatch.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> try:
    ...     nn.Linear(2).build((3,)).load_state_dict({"weight": np.zeros((2, 4)), "scale": np.zeros(2)})
    ... except nn.Mismatch as error:
    ...     print(error)
    load_state_dict: 3 mismatch(es), nothing was changed:
      weight: shape (2, 4) given, (2, 3) needed
      bias: missing
      scale: not in the network
    """


def as_float_array(value: Any) -> Array:
    """An array of ours, of NumPy or of PyTorch, as float32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value.data if isinstance(value, Parameter) else value).astype(np.float32, copy=False)
