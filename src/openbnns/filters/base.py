"""The filter contract: create, apply, apply backward, destroy.

A filter is made once from a checked description and then applied to memory that the caller owns. It declares its calls
(:mod:`openbnns.calls`). A call first tries the native path, built from the declaration, for arguments already in the form
that kernels take; :meth:`Filter.perform` handles everything else, knows every rule and words every message.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import _strict, engines
from .._words import Caller, Named
from ..abi.enums import BNNSFlags
from ..abi.structs import BNNSFilterParameters
from ..calls.binding import Given, bind
from ..calls.fast import declined, end_calls, native_call, number_of
from ..calls.form import Arguments
from ..calls.run import TrainingLost, run_plan, run_staged
from ..calls.signature import Argument, Call, Need, need
from ..errors import Problem
from ..parameters.activation import IDENTITY, Activation, ActivationKind
from ..tensors.descriptors import FLOAT32, View
from ..tensors.operands import Bound, Operand, OwnedMemory, Parameter, check_batch
from ._activation_rules import check_trainable, function_name, gradient_from_input, needs_input, output_determines_slope

if TYPE_CHECKING:
    from .. import _core

# Slots of a plan with one input, as in core/runtime/plan.h.
X, W, B, Y, DX, DY, DW, DB = range(8)
PARAMETER_SLOTS = {W, B, DW, DB}

Driving = tuple[tuple[str, Any], tuple[str, Any] | None] | None
"""Forward and backward call of a filter: the name of each, and what chooses its variant."""

_DEFAULTS = BNNSFilterParameters()
_ROOM = 1 << 16  # bytes, far more than a native call takes


_SomeFilter = TypeVar("_SomeFilter", bound="Filter")

_kept_descriptions: ContextVar[bool] = ContextVar("openbnns.kept_descriptions", default=False)


@contextmanager
def keeping_descriptions() -> Iterator[None]:
    """While this lasts, filters keep the structs that they are made from, for those who write them down."""
    token = _kept_descriptions.set(True)
    try:
        yield
    finally:
        _kept_descriptions.reset(token)


class Filter:
    """Base of all filters: lifetime, threads, ownership of constants, and the calls that it declares.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(2).descriptor()
    >>> f = BNNSFilterCreateLayerActivation(BNNSLayerParametersActivation(i_desc=v, o_desc=v))
    >>> isinstance(f, BNNSFilter), f.family  # applied by BNNSFilterApply and its relatives
    (True, 'activation')
    """

    family = "filter"
    apply_call = "BNNSFilterApply or BNNSFilterApplyBatch"
    backward_call = "BNNSFilterApplyBackwardBatch"

    description: tuple[Any, ...] | None = None
    """The arguments that it was made from, in a block of :func:`keeping_descriptions`; other filters do not keep them."""

    def __new__(cls: type[_SomeFilter], *given: Any, **_named: Any) -> _SomeFilter:
        made = super().__new__(cls)
        if _kept_descriptions.get():
            made.description = given
        return made

    def __init__(self, filter_params: BNNSFilterParameters | None, who: Caller) -> None:
        p = filter_params if filter_params is not None else _DEFAULTS
        self.client_pointer = bool(int(p.flags) & BNNSFlags.BNNSFlagsUseClientPtr)
        self.threads = min(int(p.n_threads), 256)
        self.memory = OwnedMemory(p.alloc_memory, p.free_memory, who)
        self.rounds_products = (
            engines.arithmetic().precision == engines.BFLOAT16
        )  # their operands, where that is faster
        self.alive = True
        self.fast: dict[Arguments, Any] = {}  # native calls, made when first asked for
        self._declared: dict[tuple[str, Hashable], Call | None] = {}

    def __repr__(self) -> str:
        return f"<BNNSFilter {self.family}{'' if self.alive else ', destroyed'}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("BNNSFilter: a filter cannot be copied or pickled. Create another one with the same arguments.")

    def __del__(self, interpreter_ends: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the interpreter's end, modules may be empty already: free-threaded Pythons keep what threads have used longer.
        if getattr(self, "alive", False) and not interpreter_ends():
            self.destroy()

    def destroy(self) -> None:
        """Release everything the filter holds; later calls fail cleanly."""
        self.alive = False
        self._end_calls()
        for parameter in self.parameters():
            parameter.release()
        self.memory.release()

    def require_alive(self, caller: Caller) -> None:
        if not self.alive:
            raise Problem(f"{caller}: the filter has been destroyed. Create a new one, or destroy it later.")
        if self.memory.in_float64 and engines.is_native():
            raise Problem(
                f"{caller}: the filter was created in a block of float64_memory, so its parameters are float64, which the "
                "native engine does not read. Create a new one after the block."
            )
        if _strict.active():
            for parameter in self.parameters():
                parameter.check_copy()

    def hold(self, view: View, order: tuple[int, ...], who: Named, data: Any, **options: Any) -> Parameter:
        """A parameter: copied now, or read at each call where the filter uses the caller's memory."""
        return Parameter(
            view, order, who, data, **{"client_pointer": self.client_pointer, "memory": self.memory, **options}
        )

    # What a family provides.

    def parameters(self) -> list[Parameter]:
        """Weights, bias and the like, which the filter holds from creation on."""
        return []

    def declare(self, call: str, variant: Hashable) -> Call | None:
        """The record of a call by name; ``None`` for one that does not drive this filter."""
        return None

    def refusal(self, call: str, caller: Caller) -> Problem:
        """The problem to report for a call that does not drive this filter."""
        use = self.backward_call if call.startswith("apply_backward") else self.apply_call
        return Problem(f"{caller} does not drive a filter of family {self.family}. Use {use}.")

    def driving_calls(self) -> Driving:
        """The forward call of this filter and the backward call that belongs to it; ``None`` if none is declared."""
        return None

    def keep_weights(self) -> None:
        """Let native code keep what it makes of the weights, which stay as they are now until this is called again."""

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """A context whose calls leave the filter's state as it was: moving statistics and the random stream."""
        yield

    def choose(self, call: str, choice: Any, caller: Caller) -> Hashable:
        """The variant of a call that an argument chooses, checked."""
        return None

    def check(self, call: Call, caller: Caller, batch: int, bound: dict[str, Bound]) -> None:
        """Check the rules of a family that are not in the record."""

    def fixed_addresses(self) -> list[tuple[int, int, int]] | None:
        """Slot, address and bytes of the parameters, or ``None`` when one of them must be staged at each call."""
        return None

    def run_native(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        """Compute the results of a checked call by the native plan."""
        raise NotImplementedError

    def run_reference(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        """Compute the results of a checked call by the formulas, in float64."""
        raise NotImplementedError

    # Calls.

    def declared(self, call: str, variant: Hashable = None) -> Call | None:
        """The record of a call, made when first asked for."""
        key = (call, variant)
        try:
            return self._declared[key]
        except KeyError:
            return self._declared.setdefault(key, self.declare(call, variant))  # that of the first thread that asks

    def redeclare(self) -> None:
        """Have all calls declared again at their next use, because something in their records has changed."""
        self._end_calls()

    def _end_calls(self) -> None:
        end_calls(self.fast)
        self._declared.clear()

    def native(self, arguments: Arguments) -> Any:
        """The native call for such arguments, which returns 0 when done and another number when it declines."""
        return self.fast.get(arguments) or self.prepare(arguments)

    def prepare(self, arguments: Arguments) -> Any:
        """The native call for such arguments, or one that declines everything."""
        if not self.alive or self.memory.in_float64:
            return declined
        try:
            bytearray(_ROOM)  # nanobind aborts the process when it cannot allocate: fail here first
            run = self.fast.setdefault(arguments, native_call(self, arguments))  # that of the first thread that asks
        except MemoryError:  # the checked call will report it
            return declined
        return run

    def number(self, arguments: Arguments) -> int:
        """The number by which C programs run the native call (core/bindings/raw.h), 0 if there is none."""
        return number_of(self.native(arguments))

    def perform(self, name: str, caller: Caller, batch: Any, given: Given, choice: Any = None) -> None:
        """Make a call with every check; on failure, raise :class:`Problem` before anything is written."""
        self.require_alive(caller)
        variant = self.choose(name, choice, caller)
        call = self.declared(name, variant)
        if call is None:
            raise self.refusal(name, caller)
        count = check_batch(batch, caller)
        bound = bind(call, caller, count, given)
        self.check(call, caller, count, bound)
        if not call.results & bound.keys():
            return
        if count == 0:
            self.run_empty(call, bound)
            return
        try:
            self.run(call, count, bound)
        except TrainingLost:
            raise Problem(
                f"{caller}: another thread has begun a training forward on this filter, and what the gradients need is gone. "
                "Train a filter on one thread at a time, or give each thread its own filter."
            ) from None

    def run_empty(self, call: Call, bound: dict[str, Bound]) -> None:
        """The results of a batch without samples: gradients that are sums over it are zero."""
        for name in call.results & bound.keys():
            if call.backward and not call.by_name[name].batched:
                bound[name].write(np.zeros((1, *bound[name].shape), np.float32))

    def run(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        """Compute the results of a checked call on the engine in use."""
        (self.run_native if engines.is_native() else self.run_reference)(call, batch, bound)


def addresses_of(held: Mapping[int, Parameter]) -> list[tuple[int, int, int]] | None:
    """Slot, address and bytes of parameters by slot, or ``None`` when one of them must be staged at each call."""
    fixed = []
    for slot, parameter in held.items():
        if parameter.address is None:
            return None
        fixed.append((slot, parameter.address, parameter.memory[1]))
    return fixed


OUTPUT_GRADIENT = "it is the gradient of the output, which is always needed. Pass its descriptor."
GRADIENTS = {"in_delta": "dx", "weights_delta": "dw", "bias_delta": "db"}
"""Results of a backward call, and what the formulas call them."""


class UnaryFilter(Filter):
    """A filter with one input: y = f(layer(x; w, b)), and its gradients.

    A family sets the operands, parameters and activation, makes the native plan, and provides the reference formulas.
    """

    input: Operand
    output: Operand
    weights: Parameter | None = None
    bias: Parameter | None = None
    activation: Activation
    fused_function: int
    works_in_place = False  # kernels allow out == in and in_delta == out_delta
    plan: _core.Plan | None = None

    def parameters(self) -> list[Parameter]:
        return [p for p in (self.weights, self.bias) if p is not None]

    # What a family provides.

    def make_plan(self, f: Activation) -> _core.Plan:
        raise NotImplementedError

    def reference_forward(
        self, x: NDArray[Any], w: NDArray[Any] | None, b: NDArray[Any] | None, f: Activation
    ) -> NDArray[Any]:
        raise NotImplementedError

    def reference_backward(
        self, x: NDArray[Any] | None, y: NDArray[Any] | None, dy: NDArray[Any], w: NDArray[Any] | None,
        b: NDArray[Any] | None, wanted: set[str],
    ) -> dict[str, NDArray[Any]]:  # fmt: skip
        """Gradients by the names of the formulas; other inputs of a family's call come by name."""
        raise NotImplementedError

    def build_plan(self) -> None:
        """Make the native plan; called once by the family's constructor."""
        if engines._core is not None:
            self.plan = self.make_plan(self.activation)
        if not self.client_pointer:
            self.keep_weights()

    def keep_weights(self) -> None:
        if self.plan is not None:
            self.plan.keep_weights(True)

    def pass_on_floats(self) -> None:
        """Write float32, whatever the type of the output is: as a layer of a chain that computes in float32."""
        if self.output.stored:
            self.output = replace(self.output, stored=False)
            self.build_plan()

    # The calls.

    def driving_calls(self) -> Driving:
        return ("apply", None), ("apply_backward", None)

    def declare(self, call: str, variant: Hashable) -> Call | None:
        if call == "apply":
            return Call(self.forward_arguments(), plan=self.plan)
        if call == "apply_backward":
            trained = {"input": self.input, "output": self.output, "weights": self.weights, "bias": self.bias}
            return Call(
                self.backward_arguments(), backward=True, takes_fast=self.trains_fast(), plan=self.plan, trained=trained
            )
        return None

    def forward_arguments(self) -> tuple[Argument, ...]:
        in_place = frozenset({"in"} if self.works_in_place else ())
        return (
            Argument("in", X, self.input, required=True),
            Argument("out", Y, self.output, writes=True, required=True, may_equal=in_place),
        )

    def backward_arguments(self) -> tuple[Argument, ...]:
        in_place = frozenset({"out_delta", "in", "out"} if self.works_in_place else ())
        return (
            Argument(
                "out_delta", DY, self.output, gradient_of="out", described=True, required=True, purpose=OUTPUT_GRADIENT
            ),
            Argument("in", X, self.input, needs=self.input_needs()),
            Argument("out", Y, self.output, needs=self.output_needs()),
            Argument("in_delta", DX, self.input, writes=True, gradient_of="in", described=True, may_equal=in_place),
            *(
                Argument(f"{name}_delta", slot, p, writes=True, gradient_of=name, described=True, batched=False)
                for name, slot, p in (("weights", DW, self.weights), ("bias", DB, self.bias))
            ),
        )

    def input_needs(self) -> tuple[Need, ...]:
        """Why a backward call may need the forward input."""
        needs = [need({"weights_delta"}, "the weights gradient needs the forward input")]
        if needs_input(self.activation):
            because = (
                f"the derivative of {function_name(self.fused_function)} with alpha {self.activation.alpha:g} cannot be "
                "taken from the output"
            )
            needs.append(need(GRADIENTS, because, optional=False))
        return tuple(needs)

    def output_needs(self) -> tuple[Need, ...]:
        """Why a backward call may need the forward output."""
        if self.activation.function == ActivationKind.IDENTITY:
            return ()
        because = "the fused activation is differentiated from the forward output"
        return (need(GRADIENTS, because, optional=False),)

    def trains_fast(self) -> bool:
        """True if native code may run backward calls without checks of the activation and the parameters."""
        if any(parameter.view.element is not FLOAT32 for parameter in self.parameters()):
            return False
        try:
            check_trainable(self.activation, "", self.fused_function)
        except Problem:
            return False
        return output_determines_slope(self.activation)

    def fixed_addresses(self) -> list[tuple[int, int, int]] | None:
        held = {W: self.weights, B: self.bias}
        return addresses_of({slot: parameter for slot, parameter in held.items() if parameter is not None})

    def check(self, call: Call, caller: Caller, batch: int, bound: dict[str, Bound]) -> None:
        if call.backward:
            check_trainable(self.activation, caller.function, self.fused_function)

    # Native runs.

    def held_tensors(self, dtype: type[np.floating[Any]]) -> dict[int, NDArray[Any]]:
        """The filter's own tensors of a run, by slot."""
        held = {W: self.weights, B: self.bias}
        return {slot: parameter.read(dtype) for slot, parameter in held.items() if parameter is not None}

    def kernel_tensors(self) -> dict[int, NDArray[Any]]:
        """The same as native plans take them."""
        if not self.input.stored:
            return self.held_tensors(np.float32)
        held = {W: self.weights, B: self.bias}
        return {slot: parameter.for_kernels() for slot, parameter in held.items() if parameter is not None}

    def run_native(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        plan, read = call.plan, {}
        if call.backward and "in" in bound and not output_determines_slope(self.activation):
            plan = self.identity_plan(call)
            read["out_delta"] = self.slope_from_input(plan, batch, bound)
        run_staged(self, call, plan, batch, bound, self.kernel_tensors(), read)

    def slope_from_input(self, plan: _core.Plan, batch: int, bound: Mapping[str, Bound]) -> NDArray[Any]:
        """dz = dy * f'(z), with z recomputed from the forward input by the plan without an activation."""
        z = np.empty((batch, *self.output.shape), np.float32)
        tensors = {X: bound["in"].read(np.float32), Y: z, **self.held_tensors(np.float32), **self.forward_extras(bound)}
        self.run_plan(plan, False, batch, tensors)
        return gradient_from_input(self.activation, z, bound["out_delta"].read(np.float32), self.threads)

    def identity_plan(self, call: Call) -> _core.Plan:
        """The plan of a call without an activation."""
        return self.make_plan(IDENTITY)

    def forward_extras(self, bound: Mapping[str, Bound]) -> dict[int, NDArray[Any]]:
        """Further tensors of a backward call that are needed to recompute z."""
        return {}

    def run_plan(
        self, plan: Any, backward: bool, batch: int, tensors: Mapping[int, NDArray[Any] | None], *,
        repeatable: bool = False,
    ) -> None:  # fmt: skip
        """Run a plan on float32 arrays, each sample C-contiguous, axis 0 the batch (parameters have none).

        A ``repeatable`` run is all that the call does, on the memory that it was given.
        """
        run_plan(plan, backward, batch, tensors, PARAMETER_SLOTS, self.threads, repeatable=repeatable)

    # Reference runs.

    def parameters64(self) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Weights and bias in float64."""
        held = self.held_tensors(np.float64)
        return held.get(W), held.get(B)

    def run_reference(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        w, b = self.parameters64()
        x, y, dy = (bound[name].read(np.float64) if name in bound else None for name in ("in", "out", "out_delta"))
        if not call.backward:
            assert x is not None
            bound["out"].write(self.reference_forward(x, w, b, self.activation))
            return
        assert dy is not None
        wanted = {short: bound[name] for name, short in GRADIENTS.items() if name in bound}
        others = {
            a.name: bound[a.name].read(np.float64)
            for a in call.arguments
            if not a.writes and a.name in bound and a.name not in ("in", "out", "out_delta")
        }
        gradients = self.reference_backward(x, y, dy, w, b, set(wanted), **others)
        for short, result in wanted.items():
            numbers = np.asarray(gradients[short])
            result.write(numbers if short == "dx" else numbers[None])

    def reference_z(
        self, x: NDArray[Any] | None, w: NDArray[Any] | None, b: NDArray[Any] | None
    ) -> NDArray[Any] | None:
        """The pre-activation value, where the derivative of f cannot be taken from the output."""
        if x is None or output_determines_slope(self.activation):
            return None
        return self.reference_forward(x, w, b, IDENTITY)
