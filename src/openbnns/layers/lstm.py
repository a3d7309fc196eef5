"""LSTM on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import engines
from .._spelling import spelled
from .._words import Caller
from ..abi.enums import BNNSDataLayout, BNNSDataType, BNNSLayerFlags
from ..abi.structs import (
    BNNSFilterParameters,
    BNNSLayerParametersLSTM,
    BNNSLSTMDataDescriptor,
    BNNSLSTMGateDescriptor,
    BNNSNDArrayDescriptor,
)
from ..errors import Problem
from ..filters.lstm import LSTM, next_draw, run_fast, variant
from ..filters.lstm_tensors import C0, GATES, H0, W0, W1, B, P, U, X, gate_tensor
from ..parameters.random_numbers import Stream
from ._functions import call
from ._misuse import flag
from ._ports import as_array, exact_array, parameter_array, require, skip
from .base import Layer, client_pointer
from .types import ActivationFunction, LearningPhase

__all__ = ["LSTMGradients", "LSTMLayer", "LSTMResult"]

WEIGHTS = {
    "input_weights": W0,
    "deep_input_weights": W1,
    "hidden_weights": U,
    "peephole_weights": P,
    "bias": B,
}
SIDES = ("data_desc", "hidden_desc", "cell_state_desc")
_KEPT = 32  # kinds of calls whose descriptions are kept


class LSTMResult(NamedTuple):
    """The result of :meth:`LSTMLayer.apply`: outputs (T, N, R, H), final states (L, R, N, H), and the training cache.

    >>> import numpy as np
    >>> from openbnns import *
    >>> w, u = np.ones((4, 1, 5, 2), np.float32), np.ones((4, 1, 1, 5, 5), np.float32)
    >>> layer = LSTMLayer(input_weights=w, hidden_weights=u)
    >>> output, hidden, cell, cache = layer.apply(np.zeros((3, 7, 2), np.float32))
    >>> output.shape, hidden.shape, cell.shape
    ((3, 7, 1, 5), (1, 1, 7, 5), (1, 1, 7, 5))
    """

    output: Any
    hidden: Any
    cell: Any
    cache: Any = None


class LSTMGradients(NamedTuple):
    """The result of :meth:`LSTMLayer.apply_backward`; ``None`` where a gradient was skipped or does not exist.

    >>> import numpy as np
    >>> from openbnns import *
    >>> w = np.ones((4, 1, 1, 1), np.float32)  # (gates, directions, H, I)
    >>> layer = LSTMLayer(input_weights=w, hidden_weights=w.reshape(4, 1, 1, 1, 1))
    >>> x = np.zeros((3, 1, 1), np.float32)  # (T, N, I)
    >>> y = layer.apply(x, phase=LearningPhase.TRAINING)
    >>> gradients = layer.apply_backward(x, output_gradient=np.ones_like(y.output), cache=y.cache)
    >>> gradients.input.shape, gradients.hidden_weights.shape, gradients.bias
    ((3, 1, 1), (4, 1, 1, 1, 1), None)
    """

    input: Any = None
    initial_hidden: Any = None
    initial_cell: Any = None
    input_weights: Any = None
    deep_input_weights: Any = None
    hidden_weights: Any = None
    peephole_weights: Any = None
    bias: Any = None


# The names of arguments in C, and in this layer.
_NAMES = {
    "training_cache_ptr": "cache", "training_cache_capacity": "cache", "layer_delta_params.": "", "layer_params.": "",
    "BNNSDirectApplyLSTMBatchTrainingCaching": "apply with phase=LearningPhase.TRAINING",
}  # fmt: skip


class LSTMLayer(Layer):
    """Layers of LSTM cells run along a sequence, in one direction or in both.

    Sizes: T steps, N batch, I inputs, H hidden, L layers, R directions (2: the second runs from the last step to the
    first). Arrays, all float32; the first axis of weights is the gate, in the order input, forget, candidate, output:

    * ``input_weights`` (4, R, H, I) of layer 0, ``deep_input_weights`` (4, L - 1, R, H, R * H) of the layers above it
    * ``hidden_weights`` (4, L, R, H, H), ``bias`` (4, L, R, H) or ``None``
    * ``peephole_weights`` (4, L, R, H, H), which multiply the cell state, or ``None``

    ``activations`` are those of the four gates and of the cell state: five functions, by default sigmoid, sigmoid, tanh,
    sigmoid and tanh. ``dropout`` acts between layers, in training. :meth:`from_pytorch` takes the weights of an
    ``nn.LSTM``. Weights are copied, unless ``filter_parameters`` has ``BNNSFlagsUseClientPtr``.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = LSTMLayer(input_weights=np.ones((4, 1, 2, 3), np.float32), hidden_weights=np.zeros((4, 1, 1, 2, 2), np.float32))
    >>> layer.apply(np.zeros((5, 1, 3), np.float32)).output.shape
    (5, 1, 1, 2)
    >>> x, dy = np.zeros((5, 1, 3), np.float32), np.ones((5, 1, 1, 2), np.float32)
    >>> cache = layer.apply(x, phase=LearningPhase.TRAINING).cache
    >>> layer.apply_backward(x, output_gradient=dy, cache=cache).input_weights.shape
    (4, 1, 2, 3)
    """

    _names: ClassVar[dict[str, str]] = {
        **{f"{gate}.activation": f"activations[{g}]" for g, gate in enumerate(GATES)},
        "hidden_activation": "activations[4]",
        "seq_len": "steps",
        "batch_size": "batch",
        "sequence_descriptor": "batch_sizes",
    }
    _filter: LSTM

    def __init__(
        self,
        *,
        input_weights: Any,
        hidden_weights: Any,
        bias: Any = None,
        deep_input_weights: Any = None,
        peephole_weights: Any = None,
        activations: Sequence[ActivationFunction] | None = None,
        dropout: float = 0.0,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        self._filter_parameters = filter_parameters
        self._activations = activations
        self._dropout = dropout
        self._arithmetic = engines.arithmetic()  # of all filters that calls make
        self.held_weights: dict[str, NDArray[np.float32]] = {}  # what calls use: copies, or the arrays given
        self._kept: dict[tuple[Any, ...], list[_Description]] = {}
        given = {
            "input_weights": input_weights, "deep_input_weights": deep_input_weights, "hidden_weights": hidden_weights,
            "peephole_weights": peephole_weights, "bias": bias,
        }  # fmt: skip

        def make(who: Caller) -> LSTM:
            self._take_weights(given, who, client_pointer(filter_parameters))
            if activations is not None and not (
                len(activations) == 5 and all(isinstance(f, ActivationFunction) for f in activations)
            ):
                raise Problem(
                    f"{who}: activations must be five ActivationFunctions, of the input, forget, candidate and output gate "
                    "and of the cell state.",
                    kind=TypeError,
                )
            return LSTM(self._params(1, 1), filter_parameters, who)

        self._create(make, filter_parameters)
        self._summary = {
            "input_size": self.input_size, "hidden_size": self.hidden_size, "num_layers": self.num_layers,
            "directions": self.directions, "bias": bias is not None or None,
            "peepholes": peephole_weights is not None or None, "dropout": dropout or None,
        }  # fmt: skip

    @classmethod
    def from_pytorch(cls, state: Mapping[str, Any], **options: Any) -> LSTMLayer:
        """A layer with the weights of ``torch.nn.LSTM``: its ``state_dict()``, of tensors on the CPU or arrays.

        The two biases of PyTorch are added up. ``proj_size`` has no counterpart here.
        """
        arrays = {
            name: np.asarray(as_array(value, f"from_pytorch: {name}"), np.float32) for name, value in state.items()
        }
        if "weight_ih_l0" not in arrays or any("weight_hr" in name for name in arrays):
            raise ValueError("LSTMLayer.from_pytorch: state must be that of an nn.LSTM without proj_size.")
        ends = ["", "_reverse"] if "weight_ih_l0_reverse" in arrays else [""]
        layers = sum(name.startswith("weight_ih_l") and not name.endswith("_reverse") for name in arrays)

        def gather(kind: str, which: range) -> NDArray[np.float32]:
            """(4, layers, R, H, ...)"""
            parts = [[arrays[f"{kind}_l{layer}{end}"] for end in ends] for layer in which]
            joined = np.array([[part.reshape(4, -1, *part.shape[1:]) for part in row] for row in parts], np.float32)
            return np.ascontiguousarray(np.moveaxis(joined, 2, 0))

        every = range(layers)
        bias = None
        if "bias_ih_l0" in arrays:
            bias = gather("bias_ih", every) + gather("bias_hh", every)
        return cls(
            input_weights=gather("weight_ih", range(1))[:, 0],
            deep_input_weights=gather("weight_ih", range(1, layers)) if layers > 1 else None,
            hidden_weights=gather("weight_hh", every),
            bias=bias,
            **options,
        )

    def _take_weights(self, given: dict[str, Any], who: Caller, in_place: bool) -> None:
        arrays = {name: as_array(value, f"{who}: {name}") for name, value in given.items() if value is not None}
        for name in ("input_weights", "hidden_weights"):
            if name not in arrays:
                raise Problem(f"{who}: {name} is None, but it is needed.")
        first, hidden = arrays["input_weights"], arrays["hidden_weights"]
        if first.ndim != 4 or first.shape[0] != 4 or first.shape[1] not in (1, 2):
            raise Problem(f"{who}: input_weights has shape {first.shape}, but (4, R, H, I) with R 1 or 2 is expected.")
        _, self.directions, self.hidden_size, self.input_size = first.shape
        self.num_layers = hidden.shape[1] if hidden.ndim == 5 else 1
        r, h, layers = self.directions, self.hidden_size, self.num_layers
        shapes = {
            "input_weights": first.shape, "deep_input_weights": (4, layers - 1, r, h, r * h),
            "hidden_weights": (4, layers, r, h, h), "peephole_weights": (4, layers, r, h, h), "bias": (4, layers, r, h),
        }  # fmt: skip
        if layers > 1 and "deep_input_weights" not in arrays:
            raise Problem(f"{who}: deep_input_weights is None, but hidden_weights has {layers} layers. Pass them.")
        if layers == 1:
            arrays.pop("deep_input_weights", None)
        for name, array in arrays.items():
            self.held_weights[name] = parameter_array(array, shapes[name], f"{who}: {name}", client_pointer=in_place)

    # Structs for a call.

    def _params(
        self, steps: int, batch: int, *, dropout: float | None = None, batch_sizes: Any = None, flags: int = 0
    ) -> BNNSLayerParametersLSTM:
        """The weights, and other tensors without data yet; those of gradients have flags."""
        defaults = 0 if self._activations is not None else int(BNNSLayerFlags.BNNSLayerFlagsLSTMDefaultActivations)
        both = int(BNNSLayerFlags.BNNSLayerFlagsLSTMBidirectional) if self.directions == 2 else 0
        p = BNNSLayerParametersLSTM(
            input_size=self.input_size, hidden_size=self.hidden_size, batch_size=batch, num_layers=self.num_layers,
            seq_len=steps, dropout=self._dropout if dropout is None else dropout, lstm_flags=defaults | both,
        )  # fmt: skip
        for side in ("input_descriptor", "output_descriptor"):
            setattr(p, side, BNNSLSTMDataDescriptor(**{name: _describe(None, flags) for name in SIDES}))
        for g, name in enumerate(GATES):
            setattr(p, name, self._gate(g, flags))
        if self._activations is not None:
            p.hidden_activation = self._activations[4].bnns_activation
        if batch_sizes is not None:
            sizes = np.asarray(batch_sizes, np.int64)
            p.sequence_descriptor = BNNSNDArrayDescriptor(
                layout=BNNSDataLayout.BNNSDataLayoutVector, size=(max(sizes.size, 1),), data=np.ascontiguousarray(sizes),
                data_type=BNNSDataType.BNNSDataTypeInt64,
            )  # fmt: skip
        return p

    def _gate(self, g: int, flags: int) -> BNNSLSTMGateDescriptor:
        part = {name: _describe(array[g], flags) for name, array in self.held_weights.items()}
        first = part["input_weights"]  # of layer 0 only
        first.layout = BNNSDataLayout.BNNSDataLayout4DFirstMajor
        first.size = (1, self.directions, self.hidden_size, self.input_size)
        gate = BNNSLSTMGateDescriptor(
            iw_desc=(first, part.get("deep_input_weights", BNNSNDArrayDescriptor())), hw_desc=part["hidden_weights"],
            cw_desc=part.get("peephole_weights"), b_desc=part.get("bias"),
        )  # fmt: skip
        if self._activations is not None:
            gate.activation = self._activations[g].bnns_activation
        return gate

    def _take(
        self, steps: int, batch: int, dropout: float, batch_sizes: Any, flags: int | None, who: str
    ) -> _Description:
        """The description of a call, or with flags of its gradients, to be given back after it.

        One of an earlier call is used again if there is one: to make it takes longer than a short sequence.
        """
        sizes = None if batch_sizes is None else tuple(np.asarray(batch_sizes, np.int64).ravel().tolist())
        key = (steps, batch, dropout, flags, sizes, variant(self._filter.rounds_products))
        kept = self._kept.get(key)
        try:
            return kept.pop() if kept else self._make(key, who)
        except IndexError:  # another thread was faster
            return self._make(key, who)

    def _make(self, key: tuple[Any, ...], who: str) -> _Description:
        steps, batch, dropout, flags, batch_sizes, _ = key
        p = self._params(steps, batch, dropout=dropout, batch_sizes=batch_sizes, flags=flags or 0)
        filter = self._filter
        if flags is None:
            with engines.using_arithmetic(self._arithmetic):
                filter = LSTM(p, self._filter_parameters, Caller(who, self._creation_caller.names, null="None"))
        return _Description(key, p, filter)

    def _give_back(self, description: _Description) -> None:
        description.fill({})
        if description.key[3] is not None:
            description.fill_gates({})
        if len(self._kept) >= _KEPT and description.key not in self._kept:
            self._kept.clear()
        self._kept.setdefault(description.key, []).append(description)

    def _sequence(self, input: Any, who: str) -> NDArray[Any]:
        x = as_array(input, f"{who}: input")
        if x.ndim != 3 or x.shape[2] != self.input_size or 0 in x.shape:
            raise Problem(
                f"{who}: input has shape {x.shape}, but (T, N, {self.input_size}) is expected. Steps come first: with samples "
                "first, pass its .transpose(1, 0, 2)."
            )
        return exact_array(x, x.shape, f"{who}: input")

    # Forward.

    @call(_NAMES)
    def apply(
        self,
        caller: Caller,
        input: Any,
        initial_hidden: Any = None,
        initial_cell: Any = None,
        *,
        output: Any = None,
        final_hidden: Any = None,
        final_cell: Any = None,
        batch_sizes: Any = None,
        phase: LearningPhase = LearningPhase.INFERENCE,
        cache: Any = None,
        seed: int | None = None,
    ) -> LSTMResult:
        """Run forward on ``input`` (T, N, I) from the initial states (L, R, N, H), zeros if left out.

        With ``phase=LearningPhase.TRAINING`` dropout acts and the cache that the backward pass reads is kept: in
        ``cache`` (:meth:`cache_bytes` of uint8) or a new array. ``seed`` fixes what is dropped. ``batch_sizes`` lists for
        every step how many samples take part, the first ones.
        """
        who = caller.function
        self._filter.require_alive(caller)
        require(phase, LearningPhase, f"{who}: phase")
        x = self._sequence(input, who)
        steps, batch = x.shape[:2]
        states = (self.num_layers, self.directions, batch, self.hidden_size)
        outputs = (steps, batch, self.directions, self.hidden_size)
        given = (
            ("output", output, outputs),
            ("final_hidden", final_hidden, states),
            ("final_cell", final_cell, states),
        )
        y, hn, cn = (
            np.empty(shape, np.float32) if value is None else exact_array(value, shape, f"{who}: {name}", output=True)
            for name, value, shape in given
        )
        tensors = {
            "input_descriptor.data_desc": x,
            "input_descriptor.hidden_desc": _optional(initial_hidden, states, f"{who}: initial_hidden"),
            "input_descriptor.cell_state_desc": _optional(initial_cell, states, f"{who}: initial_cell"),
            "output_descriptor.data_desc": y,
            "output_descriptor.hidden_desc": hn,
            "output_descriptor.cell_state_desc": cn,
        }
        trains = phase is LearningPhase.TRAINING
        dropout = self._dropout if trains else 0.0
        description = self._take(steps, batch, dropout, batch_sizes, None, who)
        description.fill(tensors)
        p, filter = description.params, description.filter
        if not trains:
            cache, capacity, stream = None, 0, None
        else:
            cache = np.empty(filter.cache_bytes, np.uint8) if cache is None else as_array(cache, f"{who}: cache")
            capacity = cache.nbytes
            stream = Stream(_LAYER_SEED, next_draw()) if seed is None else Stream(int(seed))
        rounds = filter.rounds_products
        if dropout or not run_fast(p, None, self._filter_parameters, cache, capacity, rounds):
            filter.forward(caller, p, cache, capacity, stream)
            if not dropout:
                filter.register(p, None, who)
        self._give_back(description)
        return LSTMResult(y, hn, cn, cache)

    @spelled
    def cache_bytes(self, steps: int, batch: int, batch_sizes: Any = None) -> int:
        """The size of a training cache for sequences of this length and number."""
        return self._attempt(
            lambda: LSTM(self._params(steps, batch, batch_sizes=batch_sizes), None, self._creation_caller).cache_bytes
        )

    def reference_outputs(self, values: Mapping[str, NDArray[np.float64]], seed: int) -> NDArray[np.float64]:
        """Outputs and final states one after the other, by the float64 formulas in a training call with this seed."""
        filter = LSTM(self._params(*values["input"].shape[:2]), self._filter_parameters, self._creation_caller)
        arrays = {X: values["input"], H0: values["initial_hidden"], C0: values["initial_cell"]}
        for g in range(len(GATES)):
            for name, tensor in WEIGHTS.items():
                if name in values:
                    part = values[name][g]
                    arrays[gate_tensor(g, tensor)] = part[None] if name == "input_weights" else part
        result = filter.reference_forward(arrays, Stream(seed))
        return np.concatenate([result.y.ravel(), result.h.ravel(), result.c.ravel()])

    # Backward.

    @call(_NAMES)
    def apply_backward(
        self,
        caller: Caller,
        input: Any,
        initial_hidden: Any = None,
        initial_cell: Any = None,
        *,
        output_gradient: Any = None,
        final_hidden_gradient: Any = None,
        final_cell_gradient: Any = None,
        cache: Any = None,
        batch_sizes: Any = None,
        accumulate: bool = False,
        generating_input_gradient: Any = None,
        generating_initial_hidden_gradient: Any = None,
        generating_initial_cell_gradient: Any = None,
        generating_input_weights_gradient: Any = None,
        generating_deep_input_weights_gradient: Any = None,
        generating_hidden_weights_gradient: Any = None,
        generating_peephole_weights_gradient: Any = None,
        generating_bias_gradient: Any = None,
    ) -> LSTMGradients:
        """Run backward from the gradients of outputs and final states, any of which may be left out.

        ``input``, initial states and ``batch_sizes`` are those of the forward call, and ``cache`` is what it kept.
        Without a cache the forward pass is repeated, as one without dropout. A gradient argument is an array to write
        to, ``None`` for a new one, or ``skip``.
        """
        given = {
            "input": generating_input_gradient,
            "initial_hidden": generating_initial_hidden_gradient,
            "initial_cell": generating_initial_cell_gradient,
            "input_weights": generating_input_weights_gradient,
            "deep_input_weights": generating_deep_input_weights_gradient,
            "hidden_weights": generating_hidden_weights_gradient,
            "peephole_weights": generating_peephole_weights_gradient,
            "bias": generating_bias_gradient,
        }
        arriving = {
            "output_gradient": output_gradient, "final_hidden_gradient": final_hidden_gradient,
            "final_cell_gradient": final_cell_gradient,
        }  # fmt: skip
        who = caller.function
        self._filter.require_alive(caller)
        x = self._sequence(input, who)
        steps, batch = x.shape[:2]
        states = (self.num_layers, self.directions, batch, self.hidden_size)
        tensors = {
            "input_descriptor.data_desc": x,
            "input_descriptor.hidden_desc": _optional(initial_hidden, states, f"{who}: initial_hidden"),
            "input_descriptor.cell_state_desc": _optional(initial_cell, states, f"{who}: initial_cell"),
        }
        outputs = (steps, batch, self.directions, self.hidden_size)
        if all(value is None for value in arriving.values()):
            raise Problem(
                f"{who}: there is no output gradient. Pass output_gradient, final_hidden_gradient or final_cell_gradient."
            )
        coming = {
            f"output_descriptor.{side}": _optional(value, outputs if side == "data_desc" else states, f"{who}: {name}")
            for side, (name, value) in zip(SIDES, arriving.items(), strict=True)
        }
        shapes = {"input": x.shape, "initial_hidden": states, "initial_cell": states} | {
            name: array.shape for name, array in self.held_weights.items()
        }
        results = {name: self._result(name, value, shapes, accumulate, who) for name, value in given.items()}
        sides = zip(SIDES, ("input", "initial_hidden", "initial_cell"), strict=True)
        leaving = {f"input_descriptor.{side}": results[name] for side, name in sides}
        weights = {name: results[name] for name in WEIGHTS}
        data = None if cache is None else as_array(cache, f"{who}: cache")
        capacity = 0 if data is None else data.nbytes
        dropout = 0.0 if data is None else self._dropout
        description = self._take(steps, batch, dropout, batch_sizes, None, who)
        description.fill(tensors)
        gradients = self._take(steps, batch, dropout, batch_sizes, int(flag(accumulate)), who)
        gradients.fill(coming | leaving)
        gradients.fill_gates(weights)
        p, delta, filter = description.params, gradients.params, description.filter
        if not run_fast(p, delta, self._filter_parameters, data, capacity, filter.rounds_products):
            filter.backward(caller, p, delta, data, capacity, None)
            filter.register(p, delta, who)
        self._give_back(description)
        self._give_back(gradients)
        return LSTMGradients(**results)

    def _result(
        self, name: str, value: Any, shapes: Mapping[str, tuple[int, ...]], accumulate: bool, who: str
    ) -> NDArray[Any] | None:
        if value is skip or (value is None and name not in shapes):
            return None
        if name not in shapes:
            raise Problem(f"{who}: generating_{name}_gradient is given, but this layer has no {name}. Leave it out.")
        if value is None:
            make = np.zeros if accumulate else np.empty
            return make(shapes[name], np.float32)
        return exact_array(value, shapes[name], f"{who}: generating_{name}_gradient", output=True)


class _Description(NamedTuple):
    """The struct of a call, whose tensors are filled in, and its filter."""

    key: tuple[Any, ...]
    params: BNNSLayerParametersLSTM
    filter: LSTM

    def fill(self, tensors: Mapping[str, Any]) -> None:
        """``tensors`` by the names of the struct."""
        for side in ("input_descriptor", "output_descriptor"):
            described = getattr(self.params, side)
            for name in SIDES:
                getattr(described, name).data = tensors.get(f"{side}.{name}")

    def fill_gates(self, weights: Mapping[str, Any]) -> None:
        for g, name in enumerate(GATES):
            gate = getattr(self.params, name)
            descriptors = (*gate.iw_desc, gate.hw_desc, gate.cw_desc, gate.b_desc)
            for part, descriptor in zip(WEIGHTS, descriptors, strict=True):
                array = weights.get(part)
                descriptor.data = None if array is None else array[g]


def _optional(value: Any, shape: tuple[int, ...], who: str) -> NDArray[Any] | None:
    return None if value is None else exact_array(value, shape, who)


_LAYER_SEED = 0x4C617965  # of the masks that layers draw


def _describe(data: Any, flags: int = 0) -> BNNSNDArrayDescriptor:
    """A descriptor whose sizes follow from those of the LSTM."""
    return BNNSNDArrayDescriptor(flags=flags, data=data, data_type=BNNSDataType.BNNSDataTypeFloat32)
