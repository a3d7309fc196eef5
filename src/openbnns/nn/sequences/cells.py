"""Single steps of recurrent layers, for networks with their own loop over steps."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, overload

import numpy as np

from ...graph import operations
from ...graph.operations.states import InitialState, for_samples
from ...graph.parameter import Parameter
from ...graph.tensor import Array, Tensor
from .. import initialisers
from .._checks import check_rank, check_size, optional, positive
from .._tree import options
from ..choose import first_may_be_omitted
from ..module import Module


class _Cell(Module):
    """One step of one layer: a sequence of length 1."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1

    def _set_up(self, input_size: int | None, hidden_size: int, bias: bool) -> None:
        who = type(self).__name__
        self.input_size = optional(input_size, f"{who}: input_size")
        self.hidden_size = positive(hidden_size, f"{who}: hidden_size")
        self.use_bias = bool(bias)
        for name in self._names():
            setattr(self, name, Parameter.of(self, name))

    def _names(self) -> list[str]:
        return ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if self.use_bias else [])]

    def _shape_of(self, name: str) -> tuple[int, ...] | None:
        rows = self.gates * self.hidden_size
        if name == "weight_ih":
            return None if self.input_size is None else (rows, self.input_size)
        return (rows, self.hidden_size) if name == "weight_hh" else (rows,)

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        return initialisers.fan_in_uniform(self.hidden_size)(shape, generator)

    def _step(self, input: Tensor, given: Any) -> list[Tensor]:
        """The states after the step."""
        who = type(self).__name__
        check_rank(who, input, 1, "(features,)")
        check_size(who, "features", self.input_size, input.shape[1])
        self.input_size = int(input.shape[1])
        weights = []
        for name in self._names():
            shape = self._shape_of(name)
            assert shape is not None
            weights.append(self._fit(name, shape, input.graph.generator))
        x = input.reshape(input.shape[0], 1, self.input_size)
        operation = self._operation(x, (weights[0], weights[1]), weights[2:], self._states(input, given))
        x.graph.append(operation)
        after: list[Tensor] = operation.outputs[1 : 1 + self.states]
        return after

    def _states(self, x: Tensor, given: Any) -> list[InitialState]:
        if given is None:
            return []
        states = [x.graph.value(state) for state in (given if self.states > 1 else (given,))]
        for state in states:
            if not isinstance(state, Tensor) or not for_samples(state, x, (self.hidden_size,)):
                got = getattr(state, "shape", type(state).__name__)
                raise ValueError(
                    f"{type(self).__name__}: a state must be a value (N, {self.hidden_size}), as the step before gave it, but is "
                    f"{got}."
                )
        return [InitialState(state, None) for state in states]

    def _operation(
        self, x: Tensor, weights: tuple[Parameter, Parameter], biases: list[Parameter], initial: list[InitialState]
    ) -> Any:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"{self.input_size or '?'}, {self.hidden_size}" + options(self, bias=True)


class LSTMCell(_Cell):
    """One step of an LSTM: input (I,) and the states of the step before -> (h, c), each (H,).

    Parameters are ``weight_ih`` (4 H, I), ``weight_hh`` (4 H, H), ``bias_ih`` and ``bias_hh`` (4 H,); states are zero if left
    out. :class:`LSTM` runs whole sequences faster.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> class Pairs(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.cell = nn.LSTMCell(3, 5)
    ...     def forward(self, x):
    ...         h, c = self.cell(x[:, 0])
    ...         h, c = self.cell(x[:, 1], (h, c))
    ...         return h
    >>> Pairs()(np.zeros((4, 2, 3), np.float32)).shape
    (4, 5)
    """

    gates = 4
    states = 2

    @overload
    def __init__(self, hidden_size: int, *, bias: bool = True) -> None: ...

    @overload
    def __init__(self, input_size: int | None, hidden_size: int, bias: bool = True) -> None: ...

    @first_may_be_omitted
    def __init__(self, input_size: int | None, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        self._set_up(input_size, hidden_size, bias)

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor]:
        if hx is not None and not (isinstance(hx, (tuple, list)) and len(hx) == 2):
            raise ValueError("LSTMCell: hx must be (h, c), the states of the step before.")
        h, c = self._step(input, hx)
        return h, c

    def _operation(
        self, x: Tensor, weights: tuple[Parameter, Parameter], biases: list[Parameter], initial: list[InitialState]
    ) -> Any:
        return operations.Lstm(x.graph, x, weights, biases, initial=initial)


class GRUCell(_Cell):
    """One step of a GRU: input (I,) and the state of the step before -> h (H,). Formula and gates are those of :class:`GRU`.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.GRUCell(3, 5)(np.zeros((4, 3), np.float32), np.zeros((4, 5), np.float32)).shape
    (4, 5)
    """

    gates = 3

    @overload
    def __init__(self, hidden_size: int, *, bias: bool = True) -> None: ...

    @overload
    def __init__(self, input_size: int | None, hidden_size: int, bias: bool = True) -> None: ...

    @first_may_be_omitted
    def __init__(self, input_size: int | None, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        self._set_up(input_size, hidden_size, bias)

    def forward(self, input: Tensor, hx: Any = None) -> Tensor:
        return self._step(input, hx)[0]

    def _operation(
        self, x: Tensor, weights: tuple[Parameter, Parameter], biases: list[Parameter], initial: list[InitialState]
    ) -> Any:
        return operations.Recurrent(x.graph, x, "gru", weights, biases, initial=initial)


class RNNCell(_Cell):
    """One step of an RNN: input (I,) and the state of the step before -> h (H,).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.RNNCell(3, 5, nonlinearity="relu")(np.zeros((4, 3), np.float32)).shape
    (4, 5)
    """

    gates = 1

    @overload
    def __init__(
        self, hidden_size: int, *, bias: bool = True, nonlinearity: Literal["tanh", "relu"] = "tanh"
    ) -> None: ...

    @overload
    def __init__(
        self,
        input_size: int | None,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
    ) -> None: ...

    @first_may_be_omitted
    def __init__(
        self,
        input_size: int | None,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
    ) -> None:
        super().__init__()
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNNCell: nonlinearity is {nonlinearity!r}. Use 'tanh' or 'relu'.")
        self.nonlinearity = nonlinearity
        self._set_up(input_size, hidden_size, bias)

    def forward(self, input: Tensor, hx: Any = None) -> Tensor:
        return self._step(input, hx)[0]

    def _operation(
        self, x: Tensor, weights: tuple[Parameter, Parameter], biases: list[Parameter], initial: list[InitialState]
    ) -> Any:
        return operations.Recurrent(x.graph, x, self.nonlinearity, weights, biases, initial=initial)

    def extra_repr(self) -> str:
        return super().extra_repr() + options(self, nonlinearity="tanh")
