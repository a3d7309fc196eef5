"""The filter contract: create, apply, apply backward, destroy.

A filter is made once from a checked description and then applied to memory that the caller owns. Two ways lead in: the
*fast call*, native code that takes arguments already in the form kernels want, and the methods here, which know every
rule, stage every layout and type, and word every message. Each call tries the first and falls back to the second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from .. import _strict, engines
from ..capi.enums import BNNSFlags
from ..capi.structs import BNNSFilterParameters
from ..descriptors import FLOAT32, packed_strides
from ..engines.native._activation import gradient_from_input
from ..engines.reference.activation import IDENTITY, Activation, Function
from ..errors import Problem
from ._activation_rules import check_trainable, function_name, needs_input, output_determines_slope
from ._tensors import Bound, Caller, Operand, OwnedMemory, Parameter, check_count, check_training_types

if TYPE_CHECKING:
    from .. import _core

# Slots of a plan with one input, as in core/runtime/plan.h.
X, W, B, Y, DX, DY, DW, DB = range(8)

# Kinds of arguments of a fast call, as in core/bindings/fast_call.h.
_BUFFER, _DESCRIPTOR, _IGNORED, _REFUSED = range(4)


def declined(*_: Any) -> int:
    """Stands in for a fast call that this filter does not have."""
    return 1


def fast_argument(
    slot: int,
    operand: Operand | Parameter | None,
    *,
    output: bool = False,
    descriptor: bool = False,
    strided: bool = True,
    batched: bool = True,
    needed_with: int = 0,
    unless: int = 0,
    may_equal: int = 0,
) -> Any:
    """What a fast call expects of one argument; ``operand`` is ``None`` for an argument without effect."""
    if operand is None:
        return engines._core.argument(slot, _IGNORED, strided, batched, False, 0, 0, 0, 0, 0, [], [])
    view = operand.view
    if not (view.packed and operand.order == view.memory_axes):  # a gradient that has to be staged
        return engines._core.argument(slot, _REFUSED, strided, batched, False, 0, 0, 0, 0, 0, [], [])
    strides = packed_strides(view.layout, view.size, (0,) * view.layout.rank)
    kind = _DESCRIPTOR if descriptor else _BUFFER
    return engines._core.argument(
        slot, kind, strided, batched, output, view.count, needed_with, unless, may_equal,
        view.layout.code, list(view.size), list(strides),
    )  # fmt: skip


def forward_lost(filter: Filter) -> Problem:
    """The problem of a backward call between whose checks and work another thread has trained the filter."""
    return Problem(
        f"{filter.backward_call}: another thread has begun a training forward on this filter, and what the gradients need "
        "is gone. Train a filter on one thread at a time, or give each thread a filter of its own."
    )


class Filter:
    """Base of all filters: lifetime, threads, ownership of constants.

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

    def __init__(self, filter_params: BNNSFilterParameters | None, who: str) -> None:
        p = filter_params if filter_params is not None else BNNSFilterParameters()
        self.client_pointer = bool(int(p.flags) & BNNSFlags.BNNSFlagsUseClientPtr)
        self.threads = min(int(p.n_threads), 256)
        self.memory = OwnedMemory(p.alloc_memory, p.free_memory, who)
        self.alive = True
        self.fast_forward: Any = declined
        self.fast_backward: Any = declined

    def __repr__(self) -> str:
        return f"<BNNSFilter {self.family}{'' if self.alive else ', destroyed'}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("BNNSFilter: a filter cannot be copied or pickled. Create another one with the same arguments.")

    def __del__(self) -> None:
        if getattr(self, "alive", False):
            self.destroy()

    def destroy(self) -> None:
        """Release everything the filter holds; later calls fail cleanly."""
        self.alive = False
        self.fast_forward = self.fast_backward = declined
        for parameter in self.parameters():
            parameter.release()
        self.memory.release()

    def parameters(self) -> list[Parameter]:
        """Weights, bias and the like, which the filter holds from creation on."""
        return []

    def require_alive(self, caller: Caller) -> None:
        if not self.alive:
            raise Problem(f"{caller.function}: the filter has been destroyed. Create a new one, or destroy it later.")
        if _strict.active():
            for parameter in self.parameters():
                parameter.check_copy()

    def _wrong_call(self, caller: Caller, use: str) -> Problem:
        return Problem(f"{caller.function} does not drive a filter of family {self.family}. Use {use}.")

    # The calls that a family does not implement answer with the name of the call that fits.

    def _no_apply(self, caller: Caller, *arguments: Any, **options: Any) -> None:
        self.require_alive(caller)
        raise self._wrong_call(caller, self.apply_call)

    def _no_backward(self, caller: Caller, *arguments: Any, **options: Any) -> None:
        self.require_alive(caller)
        raise self._wrong_call(caller, self.backward_call)

    apply_batch = apply_two_input_batch = apply_pooling_batch = apply_loss_batch = _no_apply
    apply_fused_batch = apply_fused_multi_input_batch = apply_normalization_batch = _no_apply
    apply_attention = apply_arithmetic_batch = _no_apply
    apply_backward_batch = apply_backward_two_input_batch = apply_backward_pooling_batch = _no_backward
    apply_backward_permute_batch = apply_backward_loss_batch = apply_backward_fused_batch = _no_backward
    apply_backward_fused_multi_input_batch = apply_backward_normalization_batch = _no_backward
    apply_backward_attention = apply_backward_arithmetic_batch = _no_backward


class UnaryFilter(Filter):
    """A filter with one input: y = f(layer(x; w, b)), and its gradients.

    A family sets the operands, parameters and activation, makes the native plan, and names the reference functions.
    """

    input: Operand
    output: Operand
    weights: Parameter | None = None
    bias: Parameter | None = None
    activation: Activation
    fused_function: int
    standalone = False  # an activation of its own, which has its input at hand
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
        b: NDArray[Any] | None, wanted: set[str], context: Any = None,
    ) -> dict[str, NDArray[Any]]:  # fmt: skip
        raise NotImplementedError

    def check_backward(
        self, caller: Caller, x: Bound | None, y: Bound | None, wanted: set[str], context: Any = None
    ) -> None:
        """Refuse a backward call that lacks what its gradients need."""
        check_trainable(self.activation, caller.function, self.fused_function)
        if "dw" in wanted and x is None:
            raise Problem(
                f"{caller('in')} is NULL, but the weights gradient needs the forward input. Pass it, or no weights_delta."
            )
        if y is None and self.activation.function != Function.IDENTITY:
            raise Problem(
                f"{caller('out')} is NULL, but the fused activation is differentiated from the forward output. "
                "Pass the output of the forward call."
            )
        if x is None and needs_input(self.activation):
            raise Problem(
                f"{caller('in')} is NULL, but the derivative of {function_name(self.fused_function)} with alpha "
                f"{self.activation.alpha:g} cannot be taken from the output. Pass the forward input."
            )

    def extra_tensors(self, context: Any) -> dict[int, NDArray[Any] | None]:
        """What else a backward run of this family needs; ``context`` is what its own call passed along."""
        return {}

    def forward_tensors(self, context: Any) -> dict[int, NDArray[Any] | None]:
        """What else a forward run needs that a backward call makes to find z again."""
        return {}

    # Native set-up.

    def prepare(self) -> None:
        """Build the native plan and the fast calls; called once by the family's constructor."""
        if engines._core is None:
            return
        self.plan = self.make_plan(self.activation)
        fixed = self._fixed_addresses()
        if fixed is None or not (self.input.fast and self.output.fast):
            return
        core = engines._core
        forward = [self._argument(X, self.input, needed_with=1 << Y), self._argument(Y, self.output, output=True)]
        self.fast_forward = core.FastCall(self.plan, False, forward, fixed, self.threads).run
        if self.trains_fast():
            self.fast_backward = core.FastCall(self.plan, True, self._backward_arguments(), fixed, self.threads).run

    def trains_fast(self) -> bool:
        """Whether backward calls may skip the checks of the slow path."""
        if any(parameter.view.element is not FLOAT32 for parameter in self.parameters()):
            return False
        try:
            check_trainable(self.activation, "", self.fused_function)
        except Problem:
            return False
        return output_determines_slope(self.activation)

    def reference_z(
        self, x: NDArray[Any] | None, w: NDArray[Any] | None, b: NDArray[Any] | None
    ) -> NDArray[Any] | None:
        """The pre-activation value, where the derivative of f cannot be taken from the output."""
        if x is None or output_determines_slope(self.activation):
            return None
        return self.reference_forward(x, w, b, IDENTITY)

    def _fixed_addresses(self) -> list[tuple[int, int, int]] | None:
        """Slot, address and size of the parameters, or ``None`` when one of them must be staged at each call."""
        fixed = []
        for slot, parameter in ((W, self.weights), (B, self.bias)):
            if parameter is not None:
                if parameter.address is None:
                    return None
                fixed.append((slot, parameter.address, parameter.view.count))
        return fixed

    def _argument(
        self, slot: int, operand: Operand | Parameter | None, *, output: bool = False, descriptor: bool = False,
        batched: bool = True, needed_with: int = 0, unless: int = 0,
    ) -> Any:  # fmt: skip
        may_equal = {Y: 1 << X, DX: 1 << DY | 1 << X | 1 << Y}.get(slot, 0) if self.works_in_place else 0
        return fast_argument(
            slot, operand, output=output, descriptor=descriptor, strided=batched, batched=batched, needed_with=needed_with,
            unless=unless, may_equal=may_equal,
        )  # fmt: skip

    def _backward_arguments(self) -> list[Any]:
        gradients = 1 << DX | 1 << DW | 1 << DB
        weights_need_input = 1 << DW
        return [
            self._argument(X, self.input, needed_with=weights_need_input),
            self._argument(DX, self.input, output=True, descriptor=True),
            self._argument(Y, self.output, needed_with=gradients if self.activation.function else 0),
            self._argument(DY, self.output, descriptor=True, needed_with=gradients),
            self._argument(DW, self.weights, output=True, descriptor=True, batched=False),
            self._argument(DB, self.bias, output=True, descriptor=True, batched=False),
        ]

    # Forward.

    def apply_batch(self, caller: Caller, batch: Any, in_: Any, in_stride: Any, out: Any, out_stride: Any) -> None:
        self.require_alive(caller)
        batch = check_count(batch, caller("batch_size"))
        x = self.input.bind(caller("in"), in_, batch, in_stride)
        y = self.output.bind(caller("out"), out, batch, out_stride, output=True)
        if batch:
            self.run_forward(x, y)

    def run_forward(self, x: Bound, y: Bound) -> None:
        if not engines.is_native():
            w, b = self._parameters(np.float64)
            y.write(self.reference_forward(x.read(np.float64), w, b, self.activation))
            return
        w, b = self._parameters(np.float32)
        numbers = x.read(np.float32)
        result = y.direct()
        if result is None or self._conflicts(y, x) or self._touches_parameters(y):
            result = np.empty((x.batch, *self.output.shape), np.float32)
            self._run_plan(self.plan, False, x.batch, {X: numbers, W: w, B: b, Y: result})
            y.write(result)
        else:
            self._run_plan(self.plan, False, x.batch, {X: numbers, W: w, B: b, Y: result})

    def _parameters(self, dtype: type[np.floating[Any]]) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        w = self.weights.read(dtype) if self.weights is not None else None
        b = self.bias.read(dtype) if self.bias is not None else None
        return w, b

    def _run_plan(
        self,
        plan: _core.Plan | None,
        backward: bool,
        batch: int,
        tensors: dict[int, NDArray[Any] | None],
        accumulate: int = 0,
    ) -> None:
        """Run a plan on float32 arrays, each sample C-contiguous, axis 0 the batch (parameters have none)."""
        places = [
            (slot, a.ctypes.data, a.strides[0] // a.itemsize if slot not in (W, B, DW, DB) else 0)
            for slot, a in tensors.items()
            if a is not None
        ]
        engines._core.run(plan, backward, batch, places, accumulate, self.threads)

    # Backward.

    def apply_backward_batch(
        self, caller: Caller, batch: Any, in_: Any, in_stride: Any, in_delta: Any, in_delta_stride: Any, out: Any,
        out_stride: Any, out_delta: Any, out_delta_stride: Any, weights_delta: Any, bias_delta: Any, context: Any = None,
    ) -> None:  # fmt: skip
        self.require_alive(caller)
        batch = check_count(batch, caller("batch_size"))
        self._check_training_types(caller)
        dy = self.output.bind_arriving(caller, out_delta, batch, out_delta_stride)
        x = None if in_ is None else self.input.bind(caller("in"), in_, batch, in_stride)
        y = None if out is None else self.output.bind(caller("out"), out, batch, out_stride)
        results: dict[str, Bound] = {}
        if in_delta is not None:
            results["dx"] = self.input.bind_delta(caller("in_delta"), in_delta, batch, in_delta_stride, output=True)
        if weights_delta is not None and self.weights is not None:
            results["dw"] = self.weights.bind_delta(caller("weights_delta"), weights_delta)
        if bias_delta is not None and self.bias is not None:
            results["db"] = self.bias.bind_delta(caller("bias_delta"), bias_delta)
        self.check_backward(caller, x, y, set(results), context)
        refuse_colliding_outputs(caller, results)
        if results:
            self.run_backward(batch, x, y, dy, results, context)

    def _check_training_types(self, caller: Caller) -> None:
        tensors = {"input": self.input, "output": self.output, "weights": self.weights, "bias": self.bias}
        check_training_types(caller, tensors)

    def run_backward(
        self, batch: int, x: Bound | None, y: Bound | None, dy: Bound, results: dict[str, Bound], context: Any = None
    ) -> None:
        if batch == 0:  # sums over no samples
            for name in results.keys() & {"dw", "db"}:
                results[name].write(np.zeros((1, *results[name].shape), np.float32))
            return
        if not engines.is_native():
            self._run_backward_reference(x, y, dy, results, context)
            return
        w, b = self._parameters(np.float32)
        sources = [t for t in (x, y, dy) if t is not None]
        tensors: dict[int, NDArray[Any] | None] = {
            X: None if x is None else x.read(np.float32),
            Y: None if y is None else y.read(np.float32),
            DY: dy.read(np.float32),
            W: w,
            B: b,
            **self.extra_tensors(context),
        }
        plan = self.plan
        if x is not None and not self.standalone and not output_determines_slope(self.activation):
            plan = self.make_plan(IDENTITY)
            z = np.empty((batch, *self.output.shape), np.float32)
            self._run_plan(plan, False, batch, {X: tensors[X], W: w, B: b, Y: z, **self.forward_tensors(context)})
            tensors[DY] = gradient_from_input(self.activation, z, dy.read(np.float32), self.threads)
        staged: dict[str, NDArray[Any]] = {}
        accumulate = 0
        for name, slot in (("dx", DX), ("dw", DW), ("db", DB)):
            result = results.get(name)
            if result is None:
                continue
            unsafe = any(self._conflicts(result, s) for s in sources) or self._touches_parameters(result)
            target = None if unsafe else result.direct()
            if target is None:
                staged[name] = target = np.empty((result.batch, *result.shape), np.float32)
            elif result.accumulate:
                accumulate |= 1 << slot
            tensors[slot] = target if name == "dx" else target[0]
        self._run_plan(plan, True, batch, tensors, accumulate)
        for name, numbers in staged.items():
            results[name].write(numbers)

    def _conflicts(self, result: Bound, source: Bound) -> bool:
        if not result.overlaps(source):
            return False
        return not (self.works_in_place and result.same_memory(source))

    def _touches_parameters(self, result: Bound) -> bool:
        """Whether a result lies in memory that the kernel reads weights from."""
        return any(result.touches(parameter.memory) for parameter in self.parameters())

    def _run_backward_reference(
        self, x: Bound | None, y: Bound | None, dy: Bound, results: dict[str, Bound], context: Any
    ) -> None:
        w, b = self._parameters(np.float64)
        gradients = self.reference_backward(
            None if x is None else x.read(np.float64),
            None if y is None else y.read(np.float64),
            dy.read(np.float64),
            w,
            b,
            set(results),
            context,
        )
        for name, result in results.items():
            numbers = gradients[name]
            result.write(numbers if name == "dx" else np.asarray(numbers)[None])


def refuse_colliding_outputs(caller: Caller, results: dict[str, Bound]) -> None:
    """Two results in one place would overwrite each other."""
    arguments = {
        "dx": "in_delta", "dw": "weights_delta", "db": "bias_delta", "dbeta": "beta_delta", "dgamma": "gamma_delta",
    }  # fmt: skip
    names = list(results)
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            if results[first].overlaps(results[second]):
                raise Problem(
                    f"{caller(arguments[first])} and {caller.names.get(arguments[second], arguments[second])} share memory, "
                    "so one gradient would overwrite the other. Give each its own buffer."
                )
