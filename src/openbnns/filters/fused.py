"""Fused filters: a first layer, then a normalization or a quantization of what it gives, run as one.

    first layer h                                       then            slots of delta_parameters
    convolution, transposed, fully connected            normalization   weights, bias, beta, gamma
    arithmetic of one, two or three operands            normalization   beta, gamma
    convolution, transposed, fully connected            quantization    no gradient

    y = f(gamma*hhat + beta),  hhat = (h - mean)/sqrt(variance + epsilon),  h = first(inputs)
    dbeta, dgamma, dh           gradients of the normalization, from dy, y and what the training forward kept
    dx, dw, db or da, db, dc    gradients of the first layer with dh arriving at it

A training forward keeps h and its statistics; a backward call is for the latest of them, with the same batch.
Shapes are those of the layers: see their own pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import buffers, engines
from ..capi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..engines.reference import fused as reference
from ..engines.reference import normalization
from ..engines.reference.activation import Function as ActivationKind
from ..engines.reference.arithmetic import NEEDS_OPERANDS, Needs
from ..engines.reference.normalization import Moving, State
from ..errors import Problem
from . import _fused_native as native
from ._activation_rules import check_trainable, function_name
from ._base import Filter, declined
from ._fused_chain import make_layers
from ._tensors import Bound, Caller, Operand, Parameter, check_count, check_training_types, entries
from .arithmetic import Arithmetic
from .arithmetic import function_name as arithmetic_name
from .convolution import Convolution
from .fully_connected import FullyConnected
from .normalization import Normalization
from .transposed_convolution import TransposedConvolution

if TYPE_CHECKING:
    from .. import _core

_SINGLE = "BNNSFusedFilterApplyBatch"
_MULTI = "BNNSFusedFilterApplyMultiInputBatch"
_SINGLE_BACKWARD = "BNNSFusedFilterApplyBackwardBatch"
_MULTI_BACKWARD = "BNNSFusedFilterApplyBackwardMultiInputBatch"


@dataclass(frozen=True)
class Trained:
    """The latest training forward: its batch, the engine that ran it, and what the reference engine keeps."""

    batch: int
    engine: str
    state: State | None = None
    h: NDArray[Any] | None = None


class Fused(Filter):
    """Two layers as one filter."""

    family = "fused"

    def __init__(
        self,
        kinds: list[int],
        layers: list[Any],
        filter_params: BNNSFilterParameters | None = None,
        who: str = "BNNSFilterCreateFusedLayer",
    ) -> None:
        super().__init__(filter_params, who)
        self.first, self.last = make_layers(kinds, layers, filter_params, who)
        if isinstance(self.first, Arithmetic):
            self.inputs, self.batched, self.defaults = self.first.operands, self.first.batched, self.first.defaults
        else:
            self.inputs, self.batched, self.defaults = [self.first.input], [True], [None]
        self.output: Operand = self.last.output
        self.apply_call = f"{_SINGLE} or {_MULTI}" if len(self.inputs) == 1 else _MULTI
        self.backward_call = f"{_SINGLE_BACKWARD} or {_MULTI_BACKWARD}" if len(self.inputs) == 1 else _MULTI_BACKWARD
        if not isinstance(self.first, Arithmetic):
            self.apply_call, self.backward_call = _SINGLE, _SINGLE_BACKWARD
        self.trained: Trained | None = None  # unless the native plan has it
        self.fast_inference: Any = declined
        self.no_operands, self.no_strides = [None] * len(self.inputs), [0] * len(self.inputs)
        self.no_parameters = [None] * len(self.slots)
        self.plan: _core.Plan | None = None
        if engines._core is not None and self.normalization is not None:
            self.plan = native.make_plan(self)
            native.prepare_fast_calls(self)

    def destroy(self) -> None:
        super().destroy()
        self.fast_inference, self.trained, self.plan = declined, None, None
        for layer in (getattr(self, "first", None), getattr(self, "last", None)):
            if layer is not None:
                layer.destroy()

    # What the chain is made of.

    @property
    def normalization(self) -> Normalization | None:
        """The last layer, unless it is a quantization."""
        return self.last if isinstance(self.last, Normalization) else None

    @property
    def weights(self) -> Parameter | None:
        return None if isinstance(self.first, Arithmetic) else self.first.weights

    @property
    def bias(self) -> Parameter | None:
        return None if isinstance(self.first, Arithmetic) else self.first.bias

    @property
    def moving(self) -> list[Parameter | None]:
        """Moving mean and variance, which a training forward updates."""
        return (
            [] if self.normalization is None else [self.normalization.moving_mean, self.normalization.moving_variance]
        )

    @property
    def slots(self) -> dict[str, Parameter | None]:
        """The parameters that ``delta_parameters`` has places for, in order."""
        if self.normalization is None:
            return {}
        own = {"beta": self.normalization.beta, "gamma": self.normalization.gamma}
        return own if isinstance(self.first, Arithmetic) else {"weights": self.weights, "bias": self.bias, **own}

    def gradient_form(self, name: str) -> Operand | Parameter | None:
        """What the gradient in a slot looks like; ``None`` for a bias that is not there."""
        parameter = self.slots[name]
        return self.norm.gradient_form(parameter) if name in ("beta", "gamma") else parameter

    @property
    def runs_natively(self) -> bool:
        """Whether the compiled plan computes this chain; halved ties of Minimum and Maximum are the reference's."""
        return engines.is_native() and not (isinstance(self.first, Arithmetic) and self.first.splits_ties)

    @property
    def is_arithmetic(self) -> bool:
        return isinstance(self.first, Arithmetic)

    # Fast calls: True when done.

    def takes_inputs(self, number: Any) -> bool:
        """Whether a multi-input call with this many inputs may take the fast way."""
        return self.is_arithmetic and type(number) is int and number == len(self.inputs)

    def forward_fast(self, training: Any, batch: Any, in_: Any, in_stride: Any, out: Any, out_stride: Any) -> bool:
        """Run arguments that are already in the form of the kernels; strides of operands come as lists with them."""
        if training is False:
            return bool(self.fast_inference(batch, in_, in_stride, out, out_stride) == 0)
        return training is True and bool(self.fast_forward(batch, in_, in_stride, out, out_stride) == 0)

    def backward_fast(
        self, batch: Any, in_: Any, in_stride: Any, in_delta: Any, in_delta_stride: Any, out: Any, out_stride: Any,
        out_delta: Any, out_delta_stride: Any, delta_parameters: Any,
    ) -> bool:  # fmt: skip
        """The same for a backward call; declined unless it belongs to the latest training forward."""
        if delta_parameters is None:
            delta_parameters = self.no_parameters
        elif type(delta_parameters) not in (list, tuple) or len(delta_parameters) != len(self.slots):
            return False
        if in_ is None and self.is_arithmetic and type(in_delta) in (list, tuple):
            in_, in_stride = self.no_operands, self.no_strides
        return bool(
            self.fast_backward(
                batch, in_, in_stride, in_delta, in_delta_stride, out, out_stride, out_delta, out_delta_stride,
                *delta_parameters,
            ) == 0
        )  # fmt: skip

    # Forward.

    def apply_fused_batch(
        self, caller: Caller, batch: Any, in_: Any, in_stride: Any, out: Any, out_stride: Any, training: Any
    ) -> None:
        self.require_alive(caller)
        self._require_single(caller, _MULTI)
        self._apply(caller, batch, [in_], [in_stride], [caller("in")], out, out_stride, training)

    def apply_fused_multi_input_batch(
        self, caller: Caller, batch: Any, number_of_inputs: Any, in_: Any, in_stride: Any, out: Any, out_stride: Any,
        training: Any,
    ) -> None:  # fmt: skip
        self.require_alive(caller)
        first = self._require_arithmetic(caller, _SINGLE)
        data, strides = first.operand_lists(caller, number_of_inputs, in_, in_stride)
        names = [f"{caller('in')}[{i}]" for i in range(first.count)]
        self._apply(caller, batch, data, strides, names, out, out_stride, training)

    def _require_single(self, caller: Caller, use: str) -> None:
        if len(self.inputs) > 1:
            raise Problem(
                f"{caller.function}: this filter starts with arithmetic of {len(self.inputs)} operands, and the call has one "
                f"input. Use {use}."
            )

    def _require_arithmetic(self, caller: Caller, use: str) -> Arithmetic:
        if not isinstance(self.first, Arithmetic):
            raise Problem(
                f"{caller.function} is for filters that start with arithmetic; this one starts with a {self.first.family} "
                f"layer, which has one input. Use {use}."
            )
        return self.first

    def _apply(
        self, caller: Caller, batch: Any, data: Sequence[Any], strides: Sequence[Any], names: list[str], out: Any,
        out_stride: Any, training: Any,
    ) -> None:  # fmt: skip
        batch = check_count(batch, caller("batch_size"))
        is_training = _check_flag(training, caller("training"))
        inputs = [self._bind_input(i, name, data[i], batch, strides[i], needed=True) for i, name in enumerate(names)]
        operands = [bound for bound in inputs if bound is not None]
        if isinstance(self.first, Arithmetic):
            self.first.check_same_tensors(caller, operands)
        y = self.output.bind(caller("out"), out, batch, out_stride, output=True)
        if self.normalization is None:
            self._quantize(caller, batch, operands[0], y)
            return
        if is_training:
            self._check_inner_activation(caller)
            self._require_writable_moving(caller)
        self._run_forward(batch, operands, y, is_training)

    def _bind_input(self, i: int, who: str, data: Any, batch: int, stride: Any, *, needed: bool) -> Bound | None:
        data = self.defaults[i] if data is None else data
        if data is None and not needed:
            return None
        samples, step = (batch, stride) if self.batched[i] else (1, 0)
        return self.inputs[i].bind(who, data, samples, step)

    def _check_inner_activation(self, caller: Caller) -> None:
        """In training only the last layer may have an activation."""
        f = self.first.activation
        if f.function != ActivationKind.IDENTITY:
            raise Problem(
                f"{caller.function}: the first layer of the chain has the activation {function_name(f.function)}, but in "
                "training every layer except the last must have the Identity activation. Put the activation on the last "
                "layer, or run with training false."
            )

    def _require_writable_moving(self, caller: Caller) -> None:
        """Training updates the moving statistics."""
        for name, moving in zip(("moving_mean_desc", "moving_variance_desc"), self.moving, strict=True):
            if moving is not None and moving.bound is not None:
                buffers.require_writable(moving.bound.buffer, f"{caller.function}: {name}.data of the filter")

    def _quantize(self, caller: Caller, batch: int, x: Bound, y: Bound) -> None:
        """y = quantize(first(x)), through memory of the boundary's type."""
        assert not isinstance(self.first, Arithmetic) and not isinstance(self.last, Normalization)
        self.last.check_batch(caller, batch)
        if batch == 0:
            return
        view = self.first.output.view
        boundary = np.empty(view.bytes_of((batch - 1) * view.extent + view.span), np.uint8)
        self.first.run_forward(x, self.first.output.bind("boundary", boundary, batch, 0, output=True))
        self.last.run(self.last.input.bind("boundary", boundary, batch, 0), y)

    def _run_forward(self, batch: int, inputs: list[Bound], y: Bound, training: bool) -> None:
        if batch and self.runs_natively:
            native.forward(self, batch, inputs, y, training)
            return
        state = h = None
        if batch:
            state, h = self._run_forward_reference(batch, inputs, y, training)
        if training:
            self.trained = Trained(batch, engines.current(), state, h)
            if self.plan is not None:
                self.plan.forget()

    def _run_forward_reference(
        self, batch: int, inputs: list[Bound], y: Bound, training: bool
    ) -> tuple[State | None, NDArray[Any] | None]:
        n = self.norm
        first, numbers = self.reference_first(), [x.read(np.float64) for x in inputs]
        h = reference.first_forward(first, numbers, batch).reshape(batch, *n.input.shape)
        beta, gamma = n._parameters64()
        moving = Moving(*(None if m is None else m.read(np.float64).reshape(-1) for m in self.moving))
        if not training:
            y.write(normalization.inference_forward(n.settings, h, beta, gamma, n.activation, moving))
            return None, None
        result, state, moved = normalization.training_forward(n.settings, h, beta, gamma, n.activation, moving)
        y.write(result)
        for parameter, values in ((n.moving_mean, moved.mean), (n.moving_variance, moved.variance)):
            if parameter is not None and values is not None:
                parameter.write(values.reshape(parameter.shape))
        return state, h

    @property
    def norm(self) -> Normalization:
        """The last layer, which must be a normalization."""
        assert isinstance(self.last, Normalization)
        return self.last

    def reference_first(self) -> reference.FirstLayer:
        """The first layer as the reference engine takes it, with the parameters of the moment."""
        first = self.first
        if isinstance(first, Arithmetic):
            return reference.Arithmetic(first.function, first.activation, first.splits_ties)
        assert first.weights is not None
        w = first.weights.read(np.float64)
        b = None if first.bias is None else first.bias.read(np.float64)
        if isinstance(first, FullyConnected):
            return reference.FullyConnected(w, b, first.activation)
        transposed = isinstance(first, TransposedConvolution)
        assert isinstance(first, (Convolution, TransposedConvolution))
        return reference.Convolution(w, b, first.geometry, transposed, first.activation)

    # Backward.

    def apply_backward_fused_batch(
        self, caller: Caller, batch: Any, in_: Any, in_stride: Any, in_delta: Any, in_delta_stride: Any, out: Any,
        out_stride: Any, out_delta: Any, out_delta_stride: Any, delta_parameters: Any,
    ) -> None:  # fmt: skip
        self.require_alive(caller)
        self._require_single(caller, _MULTI_BACKWARD)
        batch = self._check_backward_call(caller, batch)
        results: dict[str, Bound] = {}
        if in_delta is not None and not self._is_constant_input():
            samples, stride = (batch, in_delta_stride) if self.batched[0] else (1, 0)
            results["in0"] = self.inputs[0].bind_delta(caller("in_delta"), in_delta, samples, stride, output=True)
        self._backward(
            caller, batch, [in_], [in_stride], [caller("in")], results, out, out_stride, out_delta, out_delta_stride,
            delta_parameters,
        )  # fmt: skip

    def _is_constant_input(self) -> bool:
        return isinstance(self.first, Arithmetic) and self.first.roles[0] == 0

    def apply_backward_fused_multi_input_batch(
        self, caller: Caller, batch: Any, number_of_inputs: Any, in_: Any, in_stride: Any, in_delta: Any,
        in_delta_stride: Any, out: Any, out_stride: Any, out_delta: Any, out_delta_stride: Any, delta_parameters: Any,
    ) -> None:  # fmt: skip
        self.require_alive(caller)
        first = self._require_arithmetic(caller, _SINGLE_BACKWARD)
        batch = self._check_backward_call(caller, batch)
        data, strides = first.operand_lists(caller, number_of_inputs, in_, in_stride)
        found = first.bind_gradients(caller, batch, in_delta, in_delta_stride)
        results = {f"in{i}": bound for i, bound in found.items()}
        names = [f"{caller('in')}[{i}]" for i in range(first.count)]
        self._backward(
            caller, batch, data, strides, names, results, out, out_stride, out_delta, out_delta_stride, delta_parameters
        )

    def _check_backward_call(self, caller: Caller, batch: Any) -> int:
        """What does not depend on the memory of the call."""
        count = check_count(batch, caller("batch_size"))
        if self.normalization is None:
            raise Problem(
                f"{caller.function}: a chain that ends in a quantization has no gradient, because rounding has none. Train the "
                "chain with a normalization, or the first layer alone.",
                unsupported=True,
            )
        self._check_inner_activation(caller)
        check_trainable(self.normalization.activation, caller.function, self.normalization.fused_function)
        tensors: dict[str, Any] = {f"input {i + 1}": o for i, o in enumerate(self.inputs)}
        tensors |= {"layer boundary": self.last.input, "output": self.output, **self.slots}
        check_training_types(caller, tensors)
        return count

    def _backward(
        self, caller: Caller, batch: int, data: Sequence[Any], strides: Sequence[Any], names: list[str],
        results: dict[str, Bound], out: Any, out_stride: Any, out_delta: Any, out_delta_stride: Any,
        delta_parameters: Any,
    ) -> None:  # fmt: skip
        dy = self.output.bind_arriving(caller, out_delta, batch, out_delta_stride)
        y = None if out is None else self.output.bind(caller("out"), out, batch, out_stride)
        inputs = [self._bind_input(i, name, data[i], batch, strides[i], needed=False) for i, name in enumerate(names)]
        results |= self._bind_parameter_gradients(caller, delta_parameters)
        self._check_given(names, inputs, caller, y, results)
        self._check_collisions(caller, inputs, results)
        trained = self._require_training_forward(caller, batch)
        if results:
            self._run_backward(trained, inputs, y, dy, results)

    def _bind_parameter_gradients(self, caller: Caller, deltas: Any) -> dict[str, Bound]:
        """The wanted ones of ``delta_parameters``; NULL, or a descriptor without data, is not wanted."""
        if deltas is None:
            return {}
        who, order = caller("delta_parameters"), ", ".join(self.slots)
        deltas = entries(deltas, who, f"descriptors for {order}")
        if len(deltas) != len(self.slots):
            raise Problem(
                f"{who} has {len(deltas)} entries, but this chain has {len(self.slots)} parameter gradients, in the order "
                f"{order}. Pass NULL for one that is not wanted."
            )
        results: dict[str, Bound] = {}
        for i, (delta, name) in enumerate(zip(deltas, self.slots, strict=True)):
            if delta is None:
                continue
            if not isinstance(delta, BNNSNDArrayDescriptor):
                raise TypeError(f"{who}[{i}] must be a BNNSNDArrayDescriptor or None, not {type(delta).__name__}.")
            parameter, own = self.slots[name], name in ("weights", "bias")
            if delta.data is None or (own and parameter is None):  # a bias that is not there has no gradient
                continue
            try:
                if own and parameter is not None:
                    results[name] = parameter.bind_delta(f"{who}[{i}]", delta)
                else:
                    results[name] = self.norm.bind_gradient(f"{who}[{i}]", delta, parameter)
            except Problem as problem:
                note = f"This is the gradient of {name}; the order is {order}."
                problem.cure = f"{problem.cure} {note}" if problem.cure else note
                raise
        return results

    def _check_given(
        self, names: list[str], inputs: list[Bound | None], caller: Caller, y: Bound | None, results: dict[str, Bound]
    ) -> None:
        """Refuse a call that lacks what its gradients need."""
        if y is None and self.norm.activation.function != ActivationKind.IDENTITY:
            raise Problem(
                f"{caller('out')} is NULL, but the fused activation is differentiated from the forward output. "
                "Pass the output of the forward call."
            )
        missing = [name for name, bound in zip(names, inputs, strict=True) if bound is None]
        if not missing:
            return
        if "weights" in results:
            raise Problem(
                f"{missing[0]} is NULL, but the weights gradient needs the forward input. Pass it, or NULL for the weights in "
                "delta_parameters."
            )
        operand_gradients = any(name.startswith("in") for name in results)
        function = self.first.function if isinstance(self.first, Arithmetic) else None
        if operand_gradients and function is not None and NEEDS_OPERANDS[function] is Needs.OPERANDS:
            raise Problem(
                f"{missing[0]} is NULL, but the derivative of {arithmetic_name(function)} needs its operands. Pass the "
                "forward inputs."
            )

    def _argument_of(self, result: str) -> str:
        if result.startswith("in"):
            return f"in_delta[{result[2:]}]" if self.is_arithmetic else "in_delta"
        return f"delta_parameters[{list(self.slots).index(result)}] ({result})"

    def _check_collisions(self, caller: Caller, inputs: list[Bound | None], results: dict[str, Bound]) -> None:
        names = list(results)
        for i, first in enumerate(names):
            for second in names[:i]:
                if results[first].overlaps(results[second]) and not self._are_twins(first, second, inputs, results):
                    raise Problem(
                        f"{caller.function}: {self._argument_of(second)} and {self._argument_of(first)} share memory, so one "
                        "gradient would overwrite the other. Give each its own buffer."
                    )

    def _are_twins(self, a: str, b: str, inputs: list[Bound | None], results: dict[str, Bound]) -> bool:
        """Operands that are one tensor share one gradient, which receives the sum."""
        if not (isinstance(self.first, Arithmetic) and a.startswith("in") and b.startswith("in")):
            return False
        i, j = int(a[2:]), int(b[2:])
        one, other = inputs[i], inputs[j]
        return (
            self.first.roles[i] == self.first.roles[j]
            and self.inputs[i].view == self.inputs[j].view
            and (one is None or other is None or one.buffer.address == other.buffer.address)
            and results[a].same_memory(results[b])
        )

    def _require_training_forward(self, caller: Caller, batch: int) -> Trained:
        trained = self.trained
        if self.plan is not None and self.plan.trained_batch() > 0:
            trained = Trained(self.plan.trained_batch(), engines.NATIVE)
        if trained is None:
            raise Problem(
                f"{caller.function}: there has been no training forward on this filter, whose statistics the gradients need. "
                f"Call {self.apply_call} with training true on the same batch first."
            )
        if trained.batch != batch:
            raise Problem(
                f"{caller('batch_size')} is {batch}, but the latest training forward had {trained.batch} samples. Run forward "
                "and backward on the same batch."
            )
        if trained.engine != engines.current():
            raise Problem(
                f"{caller.function}: the latest training forward ran on the {trained.engine} engine, the backward call on the "
                f"{engines.current()} engine. Run both on the same engine."
            )
        return trained

    def _run_backward(
        self, trained: Trained, inputs: list[Bound | None], y: Bound | None, dy: Bound, results: dict[str, Bound]
    ) -> None:
        if trained.batch == 0:  # sums over no samples
            for name, result in results.items():
                if not (name.startswith("in") and self.batched[int(name[2:])]):
                    result.write(np.zeros((1, *result.shape), np.float32))
        elif self.runs_natively:
            native.backward(self, trained.batch, inputs, y, dy, results)
        else:
            self._run_backward_reference(trained, inputs, y, dy, results)

    def _run_backward_reference(
        self, trained: Trained, inputs: list[Bound | None], y: Bound | None, dy: Bound, results: dict[str, Bound]
    ) -> None:
        n = self.norm
        assert trained.state is not None
        shapes = [(trained.batch if b else 1, *o.shape) for o, b in zip(self.inputs, self.batched, strict=True)]
        of_inputs, of_parameters = reference.backward(
            self.reference_first(),
            n.settings,
            trained.state,
            [None if x is None else x.read(np.float64) for x in inputs],
            *n._parameters64(),
            None if y is None else y.read(np.float64),
            dy.read(np.float64),
            n.activation,
            [f"in{i}" in results for i in range(len(inputs))],
            [name in results for name in self.slots],
            shapes,
            trained.h,
        )
        gradients = {f"in{i}": g for i, g in enumerate(of_inputs)} | dict(zip(self.slots, of_parameters, strict=True))
        self.write_gradients({name: np.asarray(gradients[name]) for name in results}, results)

    def write_gradients(self, gradients: dict[str, NDArray[Any]], results: dict[str, Bound]) -> None:
        """Store gradients; operands that are one tensor get their sum."""
        total: dict[str, NDArray[Any]] = {}
        for name, numbers in gradients.items():
            twin = next((t for t in total if results[t].same_memory(results[name])), None)
            if twin is None:
                total[name] = numbers
            else:
                total[twin] = total[twin] + numbers
        for name, numbers in total.items():
            result = results[name]
            result.write(numbers.reshape(result.batch, *result.shape))


def _check_flag(value: Any, who: str) -> bool:
    """A C ``bool`` argument."""
    if not isinstance(value, (bool, int, np.bool_, np.integer)):
        raise TypeError(f"{who} must be a bool, not {type(value).__name__}.")
    return bool(value)
