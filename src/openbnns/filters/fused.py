"""Fused filters: a first layer, then a normalization or a quantization of its output, run as one.

    first layer h                                       then            slots of delta_parameters
    convolution, transposed, fully connected            normalization   weights, bias, beta, gamma
    arithmetic of one, two or three operands            normalization   beta, gamma
    convolution, transposed, fully connected            quantization    no gradient

    y = f(gamma*hhat + beta),  hhat = (h - mean)/sqrt(variance + epsilon),  h = first(inputs)
    dbeta, dgamma, dh           gradients of the normalization, from dy, y and what the training forward kept
    dx, dw, db or da, db, dc    gradients of the first layer, with dh as its output gradient

A training forward keeps h and its statistics; a backward call belongs to the latest training forward and has the same
batch. Shapes are those of the layers: see their own pages.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import engines
from .._plural import plural
from .._words import Caller
from ..abi.structs import BNNSFilterParameters
from ..calls.run import run_staged, write_results
from ..calls.signature import Argument, Call, ListOf, Need, need
from ..errors import Problem
from ..parameters.activation import ActivationKind
from ..parameters.arithmetic import NEEDS_OPERANDS, Needs
from ..reference import fused as reference
from ..reference import normalization
from ..reference.normalization import Moving, NormalizedArrays
from ..tensors.operands import Bound, Operand, Parameter
from ._activation_rules import check_trainable, function_name, native_slope
from .arithmetic import A0, DA0, DOUT, OUT, Arithmetic
from .arithmetic import function_name as arithmetic_name
from .base import DB, DW, DX, DY, OUTPUT_GRADIENT, B, Driving, Filter, W, X, Y, addresses_of
from .convolution import Convolution
from .fully_connected import FullyConnected
from .fused_chain import make_layers
from .normalization import Normalization
from .transposed_convolution import TransposedConvolution

if TYPE_CHECKING:
    from .. import _core

# Slots beyond those of the first layer: FusedSlot in core/kernels/fused/shape.h.
BETA, GAMMA, DBETA, DGAMMA, MOVING_MEAN, MOVING_VARIANCE, BOUNDARY, BOUNDARY_GRADIENT = range(8, 16)

_SLOTS = {"weights": (W, DW), "bias": (B, DB), "beta": (BETA, DBETA), "gamma": (GAMMA, DGAMMA)}
assert (A0, OUT, DA0) == (X, Y, DX)

_BOUNDARY = Caller("fused filter")("boundary")  # named in no message: its memory is the filter's
_SINGLE = "BNNSFusedFilterApplyBatch"
_MULTI = "BNNSFusedFilterApplyMultiInputBatch"
_SINGLE_BACKWARD = "BNNSFusedFilterApplyBackwardBatch"
_MULTI_BACKWARD = "BNNSFusedFilterApplyBackwardMultiInputBatch"


@dataclass(frozen=True)
class Trained:
    """The latest training forward: its batch, the engine that ran it, and what the reference engine keeps."""

    batch: int
    engine: str
    state: NormalizedArrays | None = None
    h: NDArray[Any] | None = None


class Fused(Filter):
    """Two layers as one filter."""

    family = "fused"

    def __init__(
        self,
        kinds: list[int],
        layers: list[Any],
        filter_params: BNNSFilterParameters | None,
        who: Caller,
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
        self.trained: Trained | None = None  # None while the native plan keeps it
        self.plan: _core.Plan | None = None
        if engines._core is not None and self.normalization is not None:
            self.plan = self._make_plan(self.normalization)

    def keep_weights(self) -> None:
        self.first.keep_weights()

    def destroy(self) -> None:
        super().destroy()
        self.trained, self.plan = None, None
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
        """The form of the gradient in a slot; ``None`` for a bias that the layer does not have."""
        parameter = self.slots[name]
        return self.norm.gradient_form(parameter) if name in ("beta", "gamma") else parameter

    @property
    def runs_natively(self) -> bool:
        """True if the native plan computes this chain; only the reference engine halves ties of Minimum and Maximum."""
        return engines.is_native() and not (isinstance(self.first, Arithmetic) and self.first.splits_ties)

    @property
    def is_arithmetic(self) -> bool:
        return isinstance(self.first, Arithmetic)

    def parameters(self) -> list[Parameter]:
        if not hasattr(self, "last"):  # creation has failed before there were any
            return []
        return [p for p in (*self.slots.values(), *self.moving) if p is not None]

    def _held(self) -> dict[int, Parameter]:
        """The parameters by slot of the plan."""
        held = {_SLOTS[name][0]: p for name, p in self.slots.items()}
        held |= dict(zip((MOVING_MEAN, MOVING_VARIANCE), self.moving, strict=False))
        return {slot: p for slot, p in held.items() if p is not None}

    def _make_plan(self, n: Normalization) -> _core.Plan:
        assert self.first.plan is not None
        shape = engines._core.NormalizationShape(**n.native_shape())
        return engines._core.fused(
            first=self.first.plan,
            arithmetic=self.is_arithmetic,
            normalization=shape,
            activation=native_slope(n.activation),
        )

    def fixed_addresses(self) -> list[tuple[int, int, int]] | None:
        return addresses_of(self._held())

    # The calls.

    def driving_calls(self) -> Driving:
        count = len(self.inputs)
        if not self.is_arithmetic:
            return ("apply_fused", True), None if self.normalization is None else ("apply_backward_fused", None)
        return ("apply_fused_multi_input", (count, True)), ("apply_backward_fused_multi_input", count)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        with self.last.unchanged():
            yield

    def declare(self, call: str, variant: Hashable) -> Call | None:
        """``variant``: whether a forward call trains, or (operands, training); the number of operands of a backward call."""
        single = call in ("apply_fused", "apply_backward_fused")
        if not (single or call in ("apply_fused_multi_input", "apply_backward_fused_multi_input")):
            return None
        if (len(self.inputs) != 1) if single else not self.is_arithmetic:
            return None
        number, training = variant if isinstance(variant, tuple) else (variant, variant is True)
        if not single and number != len(self.inputs):
            return None
        if call.startswith("apply_backward"):
            return self._declare_backward(single)
        ties = isinstance(self.first, Arithmetic) and self.first.splits_ties
        out = Argument("out", Y, self.output, writes=True, required=True)
        return Call(
            (*self._inputs(single, required=True), out),
            training=training,
            takes_fast=not ties and (not training or self._trains_fast()),
            plan=self.plan,
            lists=self._lists("in") if not single else {},
        )

    def _lists(self, *names: str) -> dict[str, ListOf]:
        assert isinstance(self.first, Arithmetic)
        return dict.fromkeys(names, self.first.operand_list())

    def _trains_fast(self) -> bool:
        n = self.normalization
        return n is not None and self.first.activation.function == ActivationKind.IDENTITY and n._moving_is_writable()

    def _inputs(self, single: bool, *, required: bool, needs: tuple[Need, ...] = ()) -> list[Argument]:
        if isinstance(self.first, Arithmetic):
            arguments = self.first.operand_arguments(required=required, needs=needs)
            return [replace(arguments[0], name="in")] if single else arguments
        return [Argument("in", X, self.inputs[0], required=required, needs=needs)]

    def _declare_backward(self, single: bool) -> Call | None:
        n = self.normalization
        if n is None:
            return None
        first = self.first
        parameters = [f"delta_parameters[{i}]" for i in range(len(self.slots))]
        if isinstance(first, Arithmetic):
            gradients = first.gradient_arguments("")
            of_inputs = [replace(g, name="in_delta", gradient_of="in") for g in gradients] if single else gradients
            needs = () if NEEDS_OPERANDS[first.function] is not Needs.OPERANDS else (
                need([g.name for g in of_inputs], f"the derivative of {arithmetic_name(first.function)} needs its operands",
                     optional=False),
            )  # fmt: skip
        else:
            of_inputs = [Argument("in_delta", DX, self.inputs[0], writes=True, gradient_of="in", described=True)]
            needs = (need(parameters[:1], "the weights gradient needs the forward input"),)
        results = [*(g.name for g in of_inputs), *parameters]
        because = "the fused activation is differentiated from the forward output"
        of_output = (need(results, because, optional=False),) if n.activation.function else ()
        order = ", ".join(self.slots)
        lists = {
            "delta_parameters": ListOf(f"this chain has {len(self.slots)} parameter gradients, in the order {order}")
        }
        if not single:
            lists |= self._lists("in") | {"in_delta": replace(self._lists("in")["in"], required=(
                f"Pass {len(self.inputs)} descriptors; one without data is skipped."))}  # fmt: skip
        return Call(
            (
                Argument(
                    "out_delta", DOUT if self.is_arithmetic else DY, self.output, gradient_of="out", described=True,
                    required=True, purpose=OUTPUT_GRADIENT,
                ),
                *self._inputs(single, required=False, needs=needs),
                Argument("out", Y, self.output, needs=of_output),
                *of_inputs,
                *(
                    Argument(
                        name, _SLOTS[slot][1], self.gradient_form(slot), writes=True, gradient_of=slot, described=True,
                        batched=False, skips_null_data=True, note=f"This is the gradient of {slot}; the order is {order}.",
                    )
                    for name, slot in zip(parameters, self.slots, strict=True)
                ),
            ),
            backward=True,
            takes_fast=self._differentiates_fast(n),
            plan=self.plan,
            trained=self._trained_tensors(),
            lists=lists,
        )  # fmt: skip

    def _differentiates_fast(self, n: Normalization) -> bool:
        try:
            check_trainable(n.activation, "", n.fused_function)
        except Problem:
            return False
        ties = isinstance(self.first, Arithmetic) and self.first.splits_ties
        return not ties and self._trains_fast()

    def _trained_tensors(self) -> dict[str, Any]:
        tensors: dict[str, Any] = {f"in[{i}]" if self.is_arithmetic else "in": o for i, o in enumerate(self.inputs)}
        return tensors | {"layer boundary": self.last.input, "output": self.output, **self.slots}

    def choose(self, call: str, choice: Any, caller: Caller) -> Hashable:
        if "fused" not in call:
            return None
        backward, single = call.startswith("apply_backward"), not call.endswith("multi_input")
        number, training = (choice, None) if backward or single else choice
        if not single and isinstance(self.first, Arithmetic):
            self.first.check_number(caller, number)
        if backward:
            return None if single else len(self.inputs)
        flag = _check_flag(choice if single else training, caller("training"))
        return flag if single else (len(self.inputs), flag)

    def refusal(self, call: str, caller: Caller) -> Problem:
        backward = call.startswith("apply_backward")
        if call in ("apply_fused", "apply_backward_fused") and len(self.inputs) > 1:
            return Problem(
                f"{caller}: this filter starts with arithmetic of {len(self.inputs)} operands, and the call has one input. Use "
                f"{_MULTI_BACKWARD if backward else _MULTI}."
            )
        if call in ("apply_fused_multi_input", "apply_backward_fused_multi_input") and not self.is_arithmetic:
            return Problem(
                f"{caller} is for filters that start with arithmetic; this one starts with a {self.first.family} layer, which "
                f"has one input. Use {_SINGLE_BACKWARD if backward else _SINGLE}."
            )
        if backward and "fused" in call and self.normalization is None:
            return Problem(
                f"{caller}: a chain that ends in a quantization has no gradient, because rounding has none. Train the chain "
                "with a normalization, or the first layer alone.",
                unsupported=True,
            )
        return super().refusal(call, caller)

    # Rules that no record holds.

    def check(self, call: Call, caller: Caller, batch: int, bound: dict[str, Bound]) -> None:
        if call.backward:
            self._check_inner_activation(caller)
            check_trainable(self.norm.activation, caller.function, self.norm.fused_function)
            self._require_training_forward(caller, batch)
            return
        if isinstance(self.first, Arithmetic):
            self.first.check_same_tensors(caller, [bound[name] for name in self._input_names(bound)])
        if self.normalization is None:
            assert not isinstance(self.last, Normalization)
            self.last.check_batch(caller, batch)
        elif call.training:
            self._check_inner_activation(caller)
            self.norm.require_writable_moving(caller)

    def _input_names(self, bound: dict[str, Bound]) -> list[str]:
        names = ["in"] if "in" in bound else [f"in[{i}]" for i in range(len(self.inputs))]
        return [name for name in names if name in bound]

    def _check_inner_activation(self, caller: Caller) -> None:
        """In training only the last layer may have an activation."""
        f = self.first.activation
        if f.function != ActivationKind.IDENTITY:
            raise Problem(
                f"{caller.function}: the first layer of the chain has the activation {function_name(f.function)}, but in "
                "training every layer except the last must have the Identity activation. Put the activation on the last "
                "layer, or run for inference."
            )

    # Forward runs.

    def run_empty(self, call: Call, bound: dict[str, Bound]) -> None:
        super().run_empty(call, bound)
        if call.training and self.normalization is not None:
            self._keep(Trained(0, engines.current()))

    def _keep(self, trained: Trained) -> None:
        self.trained = trained
        if self.plan is not None:
            self.plan.forget()

    def run(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        if self.normalization is None:
            self._quantize(batch, bound)
        elif self.runs_natively:
            self.run_native(call, batch, bound)
        else:
            self.run_reference(call, batch, bound)

    def _quantize(self, batch: int, bound: dict[str, Bound]) -> None:
        """y = quantize(first(x)), through memory of the boundary's type."""
        assert not isinstance(self.first, Arithmetic) and not isinstance(self.last, Normalization)
        view = self.first.output.view
        boundary = np.empty(view.bytes_of((batch - 1) * view.extent + view.span), np.uint8)
        middle = self.first.output.bind(_BOUNDARY, boundary, batch, 0, output=True)
        forward = self.first.declared("apply")
        assert forward is not None
        self.first.run(forward, batch, {"in": bound["in"], "out": middle})
        self.last.convert(self.last.input.bind(_BOUNDARY, boundary, batch, 0), bound["out"])

    def run_native(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        parameters = self._held()
        held = {slot: p.for_kernels() for slot, p in parameters.items()}
        moving = {} if call.backward else {s: held[s].copy() for s in (MOVING_MEAN, MOVING_VARIANCE) if s in held}
        run_staged(self, call, call.plan, batch, bound, held | moving)
        if call.training:
            for slot, values in moving.items():
                parameters[slot].write(values)

    def run_reference(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        if call.backward:
            self._run_backward_reference(call, self._require_training_forward(Caller(""), batch), bound)
            return
        state, h = self._run_forward_reference(batch, bound, call.training)
        if call.training:
            self._keep(Trained(batch, engines.current(), state, h))

    def _run_forward_reference(
        self, batch: int, bound: dict[str, Bound], training: bool
    ) -> tuple[NormalizedArrays | None, NDArray[Any] | None]:
        n, y = self.norm, bound["out"]
        first, numbers = self.reference_first(), [bound[name].read(np.float64) for name in self._input_names(bound)]
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
        """The first layer in the form that the reference engine takes, with its current parameters."""
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

    # Backward runs.

    def _require_training_forward(self, caller: Caller, batch: int) -> Trained:
        trained = self.trained
        native_batch = 0 if self.plan is None else self.plan.trained_batch()
        if native_batch > 0:
            trained = Trained(native_batch, engines.NATIVE)
        if trained is None:
            raise Problem(
                f"{caller.function}: there has been no training forward on this filter, whose statistics the gradients need. "
                f"Call {caller.training_call or f'{self.apply_call} with training true'} on the same batch first."
            )
        if trained.batch != batch:
            raise Problem(
                f"{caller('batch_size')} is {batch}, but the latest training forward had {plural(trained.batch, 'sample')}. Run "
                "forward and backward on the same batch."
            )
        if trained.engine != engines.current():
            raise Problem(
                f"{caller.function}: the latest training forward ran on the {trained.engine} engine, the backward call on the "
                f"{engines.current()} engine. Run both on the same engine."
            )
        return trained

    def _run_backward_reference(self, call: Call, trained: Trained, bound: dict[str, Bound]) -> None:
        n = self.norm
        assert trained.state is not None
        count, slots = len(self.inputs), len(self.slots)
        single = "in" in bound or "in_delta" in bound
        names = ["in"] if single else [f"in[{i}]" for i in range(count)]
        deltas = ["in_delta"] if single else [f"in_delta[{i}]" for i in range(count)]
        parameters = [f"delta_parameters[{i}]" for i in range(slots)]
        of_inputs, of_parameters = reference.backward(
            self.reference_first(),
            n.settings,
            trained.state,
            [bound[name].read(np.float64) if name in bound else None for name in names],
            *n._parameters64(),
            bound["out"].read(np.float64) if "out" in bound else None,
            bound["out_delta"].read(np.float64),
            n.activation,
            [name in bound for name in deltas],
            [name in bound for name in parameters],
            [(trained.batch if b else 1, *o.shape) for o, b in zip(self.inputs, self.batched, strict=True)],
            trained.h,
        )
        results = zip((*deltas, *parameters), (*of_inputs, *of_parameters), strict=True)
        write_results(call, {name: np.asarray(gradient) for name, gradient in results if name in bound}, bound)


def _check_flag(value: Any, who: str) -> bool:
    """A C ``bool`` argument."""
    if not isinstance(value, (bool, int, np.bool_, np.integer)):
        raise TypeError(f"{who} must be a bool, not {type(value).__name__}.")
    return bool(value)
