"""Recurrent layers for sequences (T, I), the batch in front: LSTM, GRU and RNN.

Parameters have the names and the memory order of PyTorch's.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, overload

import numpy as np

from ..._spelling import spelled
from ...graph import functions, operations
from ...graph.checks import check_rank, check_size, positive, probability
from ...graph.graph import current_graph
from ...graph.operations import InitialState, for_samples
from ...graph.parameter import Parameter
from ...graph.sizes import is_same_shape
from ...graph.tensor import Array, Tensor
from .. import initialisers
from ..arguments import first_may_be_omitted, optional, options
from ..module import Module
from ..recording import recording_of
from ..tuple_results import Output, Parts, States


def require_batch_first(who: str, batch_first: bool) -> None:
    if not batch_first:
        raise ValueError(f"{who}: batch_first is False, but arrays always have the batch axis in front. Leave it out.")


class Recurrent(Module):
    """The base of LSTM, GRU and RNN: parameters, layers, directions, states, lengths."""

    gates: ClassVar[int]  # rows of weights per hidden unit
    state_names: ClassVar[tuple[str, ...]]  # what cells hand on from step to step

    def _set_up(
        self, input_size: int | None, hidden_size: int, num_layers: int, bias: bool, batch_first: bool, dropout: float,
        bidirectional: bool, last_only: bool,
    ) -> None:  # fmt: skip
        """Take the arguments, and make the parameters."""
        who = type(self).__name__
        require_batch_first(who, batch_first)
        self.input_size = optional(input_size, f"{who}: input_size")
        self.hidden_size = positive(hidden_size, f"{who}: hidden_size")
        self.num_layers = positive(num_layers, f"{who}: num_layers")
        self.use_bias, self.bidirectional, self.last_only = bool(bias), bool(bidirectional), bool(last_only)
        self.dropout = probability(dropout, f"{who}: dropout")
        for layer, ending in self._cells():
            for name in self._names(layer, ending):
                setattr(self, name, Parameter.of(self, name))

    def _cells(self) -> list[tuple[int, str]]:
        """Layers and directions, in the order of PyTorch's states."""
        endings = ("", "_reverse") if self.bidirectional else ("",)
        return [(layer, ending) for layer in range(self.num_layers) for ending in endings]

    def _names(self, layer: int, ending: str) -> list[str]:
        """The parameters of one layer in one direction."""
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh") if self.use_bias else ("weight_ih", "weight_hh")
        return [f"{kind}_l{layer}{ending}" for kind in kinds]

    def _shape_of(self, name: str) -> tuple[int, ...] | None:
        rows = self.gates * self.hidden_size
        if name.startswith("bias"):
            return (rows,)
        if name.startswith("weight_hh"):
            return (rows, self.hidden_size)
        if name in ("weight_ih_l0", "weight_ih_l0_reverse"):
            return None if self.input_size is None else (rows, self.input_size)
        return (rows, self.hidden_size * (2 if self.bidirectional else 1))

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        return initialisers.fan_in_uniform(self.hidden_size)(shape, generator)

    def forward(self, input: Tensor, hx: Any = None, lengths: Any = None) -> Tensor:
        """Run the cells from the states ``hx``, zeros if left out, over ``lengths`` steps, all if left out."""
        x, who = input, type(self).__name__
        check_rank(who, x, 2, "(length, features)")
        check_size(who, "features", self.input_size, x.shape[2])
        self.input_size = int(x.shape[2])
        until = None if lengths is None else self._lengths(x, lengths)
        initial = self._initial_states(x, hx)
        finals: list[list[Tensor]] = []
        directions: list[Tensor] = []
        for number, (layer, ending) in enumerate(self._cells()):
            if ending == "":
                x = _side_by_side(directions) if directions else x
                if layer and self.dropout:
                    x = x.graph.append(operations.Dropout(x.graph, x, self.dropout))
                directions = []
            output, *states = self._direction(x, layer, ending, initial[number], until)
            directions.append(output)
            finals.append(states)
        hidden = finals[-len(directions) :]
        y = _side_by_side([states[0] for states in hidden] if self.last_only else directions)
        ends = [States(kind) for kind in zip(*finals, strict=True)]
        return Parts(y, lambda: ends[0] if len(ends) == 1 else tuple(ends))

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """In ``forward`` a value, on arrays an array; both can be unpacked.

        On arrays states are PyTorch's, (layers * directions, N, H), as given and as taken.
        """
        if current_graph() is not None:
            return super().__call__(*inputs, **named)
        bound = self._bound(inputs, named)
        given = dict(bound.arguments)
        x = given["input"] = np.asarray(given["input"])
        if given.get("hx") is not None:
            given["hx"] = self._state_arrays(given["hx"], len(x) if x.ndim else 0)
        if x.ndim == 3 and not self.built:  # else the call says what is wrong with it
            recording_of(self, self._training, (x.shape,))
        result, _ = self._call_with((), given)
        y, states = result
        stacked = [np.stack(kind) for kind in ((states,) if len(self.state_names) == 1 else states)]
        return Output.of(y, stacked[0] if len(stacked) == 1 else tuple(stacked))

    def _state_arrays(self, hx: Any, batch: int) -> Any:
        """Initial states as ``forward`` takes them: for every kind, one (N, H) per layer and direction."""
        who, names, cells, h = type(self).__name__, self.state_names, len(self._cells()), self.hidden_size
        given = (hx,) if len(names) == 1 else tuple(hx) if isinstance(hx, (tuple, list)) else ()
        if len(given) != len(names):
            raise ValueError(f"{who}: hx must be ({', '.join(names)}), two states, not a {type(hx).__name__}.")
        arrays = []
        for name, state in zip(names, given, strict=True):
            array = np.asarray(state, np.float32)
            if array.shape == (batch, h) and cells == 1:
                array = array[None]
            if array.shape not in ((cells, batch, h), (cells, 1, h), (cells, h)):
                raise ValueError(
                    f"{who}: {name} has shape {array.shape}, but ({cells}, {batch}, {h}) is needed: layers * directions, then "
                    "the batch, as such a module gives it and as in PyTorch."
                )
            shaped = np.broadcast_to(array.reshape(cells, -1, h), (cells, batch, h))
            arrays.append(tuple(np.ascontiguousarray(part) for part in shaped))
        return arrays[0] if len(arrays) == 1 else tuple(arrays)

    @spelled
    def backward(self, output_gradient: Any, *, accumulate: bool = False, input_gradient: bool = True) -> Any:
        """Go backward as other modules do; after a call on arrays, give the gradient of the output alone, or (output,
        states).

        The result is the gradient of the input, or (input, states) if states were given to begin with.
        """
        latest = self._latest
        if latest is not None and latest.structure.kind is tuple:
            output_gradient = self._all_gradients(output_gradient)
        gradients = super().backward(output_gradient, accumulate=accumulate, input_gradient=input_gradient)
        if not isinstance(gradients, tuple):
            return gradients
        x, *others = gradients
        cells, kinds = len(self._cells()), len(self.state_names)
        if len(others) < cells * kinds:  # lengths, which have no gradient
            return x
        states = [np.stack(others[kind * cells : (kind + 1) * cells]) for kind in range(kinds)]
        return x, states[0] if kinds == 1 else tuple(states)

    def _all_gradients(self, given: Any) -> Any:
        """The gradients of the output and of every state, in the structure of an unpacked result; None for zeros."""
        y, states = given if isinstance(given, tuple) else (given, None)
        kinds, cells = len(self.state_names), len(self._cells())
        each = (states,) if kinds == 1 else (None,) * kinds if states is None else tuple(states)
        parts = [(None,) * cells if kind is None else tuple(np.asarray(kind)) for kind in each]
        return y, parts[0] if kinds == 1 else tuple(parts)

    def _direction(
        self, x: Tensor, layer: int, ending: str, initial: list[InitialState], lengths: Tensor | None
    ) -> list[Tensor]:
        """Outputs and final states of one layer in one direction."""
        weights = []
        for name in self._names(layer, ending):
            shape = self._shape_of(name)
            assert shape is not None
            weights.append(self._fit(name, shape, x.graph.generator))
        operation = self._operation(x, (weights[0], weights[1]), weights[2:], bool(ending), initial, lengths)
        x.graph.append(operation)
        outputs: list[Tensor] = operation.outputs[: 1 + len(self.state_names)]
        return outputs

    def _operation(
        self, x: Tensor, weights: tuple[Parameter, Parameter], biases: list[Parameter], reverse: bool,
        initial: list[InitialState], lengths: Tensor | None,
    ) -> Any:  # fmt: skip
        """The cells of one layer in one direction."""
        raise NotImplementedError

    def _lengths(self, x: Tensor, lengths: Any) -> Tensor:
        who = type(self).__name__
        if not isinstance(lengths, Tensor) or lengths.shape not in (x.shape[:1], (x.shape[0], 1)):
            got = f"of shape {lengths.shape}" if isinstance(lengths, Tensor) else f"a {type(lengths).__name__}"
            raise ValueError(
                f"{who}: lengths must be one integer per sample, (N,), but is {got}. Make it an input of the network: "
                "def forward(self, x, lengths)."
            )
        return lengths.as_indices(f"{who}: lengths").reshape(x.shape[0])

    def _initial_states(self, x: Tensor, hx: Any) -> list[list[InitialState]]:
        """The initial states of every layer and direction, or none."""
        cells, names = len(self._cells()), self.state_names
        if hx is None:
            return [[] for _ in range(cells)]
        given = (hx,) if len(names) == 1 else tuple(hx) if isinstance(hx, (tuple, list)) else ()
        if len(given) != len(names):
            raise ValueError(f"{type(self).__name__}: hx must be ({', '.join(names)}), two states, not {hx!r}.")
        kinds = [self._one_per_cell(x, state, name) for state, name in zip(given, names, strict=True)]
        return [list(states) for states in zip(*kinds, strict=True)]

    def _one_per_cell(self, x: Tensor, state: Any, name: str) -> list[InitialState]:
        cells, h = len(self._cells()), self.hidden_size
        if isinstance(state, (tuple, list)):
            states = [x.graph.value(part) for part in state]
            if len(states) == cells and all(for_samples(part, x, (h,)) for part in states):
                return [InitialState(part, None) for part in states]
        else:
            value = x.graph.value(state)
            if cells == 1 and for_samples(value, x, (h,)):
                return [InitialState(value, None)]
            if isinstance(value, Tensor) and is_same_shape(value.shape, (cells, 1, h)):
                value = value.reshape((cells, h))
            if for_samples(value, x, (cells, h)):
                return [InitialState(value, cell) for cell in range(cells)]
        got = getattr(state, "shape", type(state).__name__)
        raise ValueError(
            f"{type(self).__name__}: {name} must be the final states of such a module, or a value (N, {cells}, {h}), "
            f"the batch in front, or without a batch axis ({cells}, {h}), but is {got}."
        )

    def extra_repr(self) -> str:
        return f"{self.input_size or '?'}, {self.hidden_size}" + options(
            self, num_layers=1, bias=True, dropout=0.0, bidirectional=False, last_only=False
        )


def _side_by_side(values: list[Tensor]) -> Tensor:
    joined: Tensor = functions.cat(values, -1)
    return joined


class LSTM(Recurrent):
    """Layers of LSTM cells: (T, I) -> (T, H), or with ``last_only`` what they end with, (H,).

    Gates stand in the order input, forget, cell, output. Parameters are ``weight_ih_l0`` (4 H, I), ``weight_hh_l0``
    (4 H, H), ``bias_ih_l0`` and ``bias_hh_l0`` (4 H,), and so on for further layers.

    In ``forward`` of a module the result is the output, and can be unpacked as in PyTorch: ``x = self.lstm(x)``,
    ``x, (h, c) = self.lstm(x)``, ``h[-1]``. ``self.lstm(x, (h, c))`` begins with given states, else they are zero.
    ``self.lstm(x, lengths=lengths)``, where ``lengths`` is an input of integers, one per sample, runs over the first steps of
    every sample alone, as PyTorch does with ``pack_padded_sequence``: outputs behind the end are zero, and final states are
    those of the last step that counts. On arrays all of this is the same: ``y, (h, c) = lstm(x, (h, c), lengths)``, with states
    (layers * directions, N, H).

    ``bidirectional`` adds cells that run from the last step to the first, with parameters ``weight_ih_l0_reverse`` and so
    on: outputs stand side by side, (T, 2 H), and further layers see both. With ``last_only`` the result is what each
    direction ends with. ``dropout`` acts between layers, in training.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.LSTM(3, 5, num_layers=2)(np.zeros((4, 7, 3), np.float32)).shape  # (N, T, I) -> (N, T, H)
    (4, 7, 5)
    >>> nn.LSTM(5, bidirectional=True)(np.zeros((4, 7, 3), np.float32)).shape
    (4, 7, 10)
    >>> class Classifier(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.lstm, self.linear = nn.LSTM(3, 5), nn.Linear(5, 2)
    ...     def forward(self, x, lengths):
    ...         output, (h, c) = self.lstm(x, lengths=lengths)
    ...         return self.linear(h[-1])
    >>> Classifier()(np.zeros((4, 7, 3), np.float32), np.array([7, 1, 4, 3])).shape
    (4, 2)
    """

    gates = 4
    state_names = ("h_0", "c_0")

    @overload
    def __init__(
        self, hidden_size: int, *, num_layers: int = 1, bias: bool = True,
        batch_first: bool = True, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, last_only: bool = False,
    ) -> None: ...  # fmt: skip

    @overload
    def __init__(
        self, input_size: int | None, hidden_size: int, num_layers: int = 1,
        bias: bool = True, batch_first: bool = True, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, *,
        last_only: bool = False,
    ) -> None: ...  # fmt: skip

    @first_may_be_omitted
    def __init__(
        self, input_size: int | None, hidden_size: int, num_layers: int = 1,
        bias: bool = True, batch_first: bool = True, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, *,
        last_only: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_up(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, last_only)
        if proj_size:
            raise ValueError(
                f"LSTM: proj_size is {proj_size}, but BNNS has no LSTM with projections. Leave it out, and put nn.Linear behind "
                "the LSTM."
            )

    def _operation(
        self, x: Tensor, weights: tuple[Parameter, Parameter], biases: list[Parameter], reverse: bool,
        initial: list[InitialState], lengths: Tensor | None,
    ) -> Any:  # fmt: skip
        return operations.Lstm(x.graph, x, weights, biases, reverse=reverse, initial=initial, lengths=lengths)


class GRU(Recurrent):
    """Layers of gated recurrent units: (T, I) -> (T, H), or with ``last_only`` what they end with, (H,).

        r, z = sigmoid(W x + b + U h + b'),   n = tanh(W x + b + r * (U h + b')),   h' = (1 - z) * n + z * h

    Gates stand in the order r, z, n. Parameters, layers, directions, dropout, states and lengths are as those of
    :class:`LSTM`, with one state in place of two: ``x, h = self.gru(x)``, ``self.gru(x, h)``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.GRU(3, 5, bidirectional=True)(np.zeros((4, 7, 3), np.float32)).shape  # (N, T, I) -> (N, T, 2 H)
    (4, 7, 10)
    >>> net = nn.Sequential(nn.GRU(3, 5, num_layers=2, last_only=True), nn.Linear(2))
    >>> net(np.zeros((4, 7, 3), np.float32)).shape
    (4, 2)
    """

    gates = 3
    state_names = ("h_0",)

    @overload
    def __init__(
        self, hidden_size: int, *, num_layers: int = 1, bias: bool = True,
        batch_first: bool = True, dropout: float = 0.0, bidirectional: bool = False, last_only: bool = False,
    ) -> None: ...  # fmt: skip

    @overload
    def __init__(
        self, input_size: int | None, hidden_size: int, num_layers: int = 1,
        bias: bool = True, batch_first: bool = True, dropout: float = 0.0, bidirectional: bool = False, *,
        last_only: bool = False,
    ) -> None: ...  # fmt: skip

    @first_may_be_omitted
    def __init__(
        self, input_size: int | None, hidden_size: int, num_layers: int = 1,
        bias: bool = True, batch_first: bool = True, dropout: float = 0.0, bidirectional: bool = False, *,
        last_only: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_up(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, last_only)

    def _operation(
        self, x: Tensor, weights: tuple[Parameter, Parameter], biases: list[Parameter], reverse: bool,
        initial: list[InitialState], lengths: Tensor | None,
    ) -> Any:  # fmt: skip
        return operations.Recurrent(
            x.graph, x, "gru", weights, biases, reverse=reverse, initial=initial, lengths=lengths
        )


class RNN(Recurrent):
    """Layers of plain recurrent cells, h' = f(W x + b + U h + b'), f being tanh or ReLU: (T, I) -> (T, H).

    Parameters, layers, directions, dropout, states and lengths are as those of :class:`LSTM`, with one state in place of
    two: ``x, h = self.rnn(x)``, ``self.rnn(x, h)``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.RNN(3, 5, nonlinearity="relu")(np.zeros((4, 7, 3), np.float32)).shape
    (4, 7, 5)
    """

    gates = 1
    state_names = ("h_0",)

    @overload
    def __init__(
        self, hidden_size: int, *, num_layers: int = 1, nonlinearity: Literal["tanh", "relu"] = "tanh", bias: bool = True,
        batch_first: bool = True, dropout: float = 0.0, bidirectional: bool = False, last_only: bool = False,
    ) -> None: ...  # fmt: skip

    @overload
    def __init__(
        self, input_size: int | None, hidden_size: int, num_layers: int = 1, nonlinearity: Literal["tanh", "relu"] = "tanh",
        bias: bool = True, batch_first: bool = True, dropout: float = 0.0, bidirectional: bool = False, *,
        last_only: bool = False,
    ) -> None: ...  # fmt: skip

    @first_may_be_omitted
    def __init__(
        self, input_size: int | None, hidden_size: int, num_layers: int = 1, nonlinearity: Literal["tanh", "relu"] = "tanh",
        bias: bool = True, batch_first: bool = True, dropout: float = 0.0, bidirectional: bool = False, *,
        last_only: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_up(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, last_only)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: nonlinearity is {nonlinearity!r}. Use 'tanh' or 'relu'.")
        self.nonlinearity = nonlinearity

    def _operation(
        self, x: Tensor, weights: tuple[Parameter, Parameter], biases: list[Parameter], reverse: bool,
        initial: list[InitialState], lengths: Tensor | None,
    ) -> Any:  # fmt: skip
        return operations.Recurrent(
            x.graph, x, self.nonlinearity, weights, biases, reverse=reverse, initial=initial, lengths=lengths
        )

    def extra_repr(self) -> str:
        return super().extra_repr() + options(self, nonlinearity="tanh")


class _Cell(Module):
    """One step of one layer: a sequence of length 1."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1

    @overload
    def __init__(self, hidden_size: int, *, bias: bool = True) -> None: ...

    @overload
    def __init__(self, input_size: int | None, hidden_size: int, bias: bool = True) -> None: ...

    @first_may_be_omitted
    def __init__(self, input_size: int | None, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
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
        super().__init__(input_size, hidden_size, bias)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNNCell: nonlinearity is {nonlinearity!r}. Use 'tanh' or 'relu'.")
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Any = None) -> Tensor:
        return self._step(input, hx)[0]

    def _operation(
        self, x: Tensor, weights: tuple[Parameter, Parameter], biases: list[Parameter], initial: list[InitialState]
    ) -> Any:
        return operations.Recurrent(x.graph, x, self.nonlinearity, weights, biases, initial=initial)

    def extra_repr(self) -> str:
        return super().extra_repr() + options(self, nonlinearity="tanh")
