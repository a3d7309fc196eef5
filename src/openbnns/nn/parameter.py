"""What is trained, and how it may fail to fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._graph import Array


class Parameter:
    """An array that training changes. ``data`` is changed in place, ``grad`` is what the last backward pass left.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.Linear(3, 2, bias=False).build((3,), seed=0)
    >>> layer.weight
    Parameter(shape=(2, 3))
    >>> layer.weight.data[:] = 1  # in place: the layer sees it
    >>> layer(np.ones((1, 3), np.float32)).tolist()
    [[3.0, 3.0]]
    """

    __slots__ = ("_data", "_grad")

    def __init__(self, data: Any) -> None:
        self._data: Array = np.ascontiguousarray(data, np.float32)
        self._grad: Array = np.zeros_like(self._data)

    @property
    def data(self) -> Array:
        """The values. Assigning to it copies, because layers and optimizers hold this memory."""
        return self._data

    @data.setter
    def data(self, values: Any) -> None:
        self._fill(self._data, values, "data")

    @property
    def grad(self) -> Array:
        """The gradient; assigning to it copies, and None stands for zeros."""
        return self._grad

    @grad.setter
    def grad(self, values: Any) -> None:
        self._fill(self._grad, np.zeros_like(self._grad) if values is None else values, "grad")

    def _fill(self, array: Array, values: Any, name: str) -> None:
        given = as_float_array(values)
        if given.shape != array.shape:
            raise ValueError(f"Parameter.{name}: shape {given.shape} given, {array.shape} needed.")
        array[...] = given

    @property
    def requires_grad(self) -> bool:
        """Always true: what must not change is left out of the optimizer."""
        return True

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not value:
            raise AttributeError(
                "Parameter.requires_grad cannot be switched off. Give the optimizer the parameters to train, and no others: "
                "nn.Adam(network[2].parameters(), lr=0.001)."
            )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._data, dtype, copy=True) if copy else np.asarray(self._data, dtype)

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
        return f"Parameter(shape={self.shape})"


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
