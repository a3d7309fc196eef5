"""Elementwise arithmetic of one, two or three operands: y = f(op(a, b, c)), and the gradient of every operand.

Roles: a Sample operand has a batch axis; a Parameter is one copy for the whole batch, and its gradient is summed over the
batch; a Constant is one copy without a gradient. All operands share one layout; along an axis, sizes are equal or 1, and
the gradient of a size-1 axis is summed over that axis.

Two operands with the same data pointer are one tensor: their gradients share one buffer, which receives the sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import compat, descriptors, engines
from ..capi.enums import BNNSArithmeticFunction, BNNSDescriptorType
from ..capi.structs import (
    BNNSArithmeticBinary,
    BNNSArithmeticTernary,
    BNNSArithmeticUnary,
    BNNSFilterParameters,
    BNNSLayerParametersArithmetic,
    BNNSNDArrayDescriptor,
)
from ..engines.native import arithmetic as native
from ..engines.native._activation import gradient_from_input
from ..engines.reference import activation as reference_activation
from ..engines.reference import arithmetic as reference
from ..engines.reference.activation import AXIS_WISE
from ..engines.reference.arithmetic import NEEDS_OPERANDS, Function, Needs
from ..errors import Problem
from ._activation_rules import check_trainable, needs_input, output_determines_slope, resolve_fused
from ._base import Filter, fast_argument
from ._tensors import Bound, Caller, Operand, check_count, check_training_types, entries

if TYPE_CHECKING:
    from .. import _core

# Slots of a plan, as in core/runtime/plan.h.
A0, A1, A2, OUT, DA0, DA1, DA2, DOUT = range(8)

_TERNARY = (Function.MULTIPLY_ADD, Function.SELECT)
_BINARY = (
    Function.ADD, Function.SUBTRACT, Function.MULTIPLY, Function.DIVIDE, Function.POW, Function.MULTIPLY_NO_NAN,
    Function.DIVIDE_NO_NAN, Function.MINIMUM, Function.MAXIMUM, Function.FLOOR_DIVIDE, Function.TRUNC_DIVIDE,
    Function.TRUNC_REMAINDER,
)  # fmt: skip
_BLOCKS = {1: BNNSArithmeticUnary, 2: BNNSArithmeticBinary, 3: BNNSArithmeticTernary}

# Functions whose backward may work in place: the first group always, the second without an activation.
_IN_PLACE = (Function.ADD, Function.SUBTRACT, Function.CEIL, Function.FLOOR, Function.ROUND)
_IN_PLACE_IDENTITY = (
    Function.SQUARE_ROOT, Function.RECIPROCAL_SQUARE_ROOT, Function.TANH, Function.EXP, Function.EXP2,
)  # fmt: skip


def operand_count(function: int) -> int:
    """How many operands a function takes."""
    return 3 if function in _TERNARY else 2 if function in _BINARY else 1


def function_name(function: int) -> str:
    """``Add`` for 0."""
    return BNNSArithmeticFunction(function).name.removeprefix("BNNSArithmetic")


class Arithmetic(Filter):
    """An elementwise arithmetic filter."""

    family = "arithmetic"
    apply_call = "BNNSArithmeticFilterApplyBatch"
    backward_call = "BNNSArithmeticFilterApplyBackwardBatch"

    def __init__(
        self,
        p: BNNSLayerParametersArithmetic,
        filter_params: BNNSFilterParameters | None = None,
        who: str = "BNNSFilterCreateLayerArithmetic",
    ) -> None:
        super().__init__(filter_params, who)
        self.function = self._check_function(int(p.arithmetic_function), who)
        self.count = operand_count(self.function)
        block = self._check_block(p.arithmetic_function_fields, who)
        names = ["in"] if self.count == 1 else [f"in{i + 1}" for i in range(self.count)]
        self.roles = [self._check_role(getattr(block, f"{n}_type"), f"{who}: {n}_type") for n in names]
        self.out_role = self._check_role(block.out_type, f"{who}: out_type")
        fields = [block.in_] if self.count == 1 else [getattr(block, n) for n in names]
        self.fused_function = int(p.activation.function)
        self.activation = resolve_fused(p.activation, who)
        self.operands = [self._operand(d, f"{who}: {n}") for d, n in zip(fields, names, strict=True)]
        self.output = self._operand(block.out, f"{who}: out")
        self.defaults = [
            None if r == BNNSDescriptorType.BNNSSample else d.data for d, r in zip(fields, self.roles, strict=True)
        ]
        self._check_shapes(names, who)
        self.splits_ties = compat.switches.minmax_tie_split and self.function in (Function.MINIMUM, Function.MAXIMUM)
        self.plan: _core.Plan | None = None
        self.no_operands, self.no_strides = [None] * self.count, [0] * self.count  # what a NULL `in` stands for
        self._prepare()

    # Creation.

    def _check_function(self, function: int, who: str) -> int:
        if function not in set(Function):
            raise Problem(
                f"{who}: arithmetic_function is {function}, which is no BNNSArithmeticFunction. Use one of 0 to {max(Function)}."
            )
        return function

    def _check_block(self, block: Any, who: str) -> Any:
        expected = _BLOCKS[self.count]
        if block is None:
            raise Problem(
                f"{who}: arithmetic_function_fields is NULL. {function_name(self.function)} takes a {expected.__name__}."
            )
        if not isinstance(block, tuple(_BLOCKS.values())):
            raise TypeError(
                f"{who}: arithmetic_function_fields must be a {expected.__name__}, not {type(block).__name__}."
            )
        if not isinstance(block, expected):
            raise Problem(
                f"{who}: arithmetic_function_fields is a {type(block).__name__}, but {function_name(self.function)} has "
                f"{self.count} operand(s). Pass a {expected.__name__}."
            )
        return block

    def _check_role(self, role: Any, who: str) -> int:
        if int(role) not in set(BNNSDescriptorType):
            raise Problem(f"{who} is {int(role)}. Use BNNSConstant (0), BNNSSample (1) or BNNSParameter (2).")
        return int(role)

    def _operand(self, descriptor: BNNSNDArrayDescriptor, who: str) -> Operand:
        """In memory order; an axis-wise activation runs along the axis of size[0], which then comes last."""
        view = descriptors.resolve(descriptor, who)
        axis_wise = self.activation.function in AXIS_WISE
        return Operand(view, tuple(reversed(range(view.layout.rank))) if axis_wise else view.memory_axes)

    def _check_shapes(self, names: list[str], who: str) -> None:
        y = self.output.view
        for operand, name in zip(self.operands, names, strict=True):
            x = operand.view
            if not x.layout.same_as(y.layout):
                raise Problem(
                    f"{who}: {name}.layout is {x.layout.name} and out.layout is {y.layout.name}. All operands share one "
                    f"layout: use {y.layout.name}."
                )
            for k, (n, m) in enumerate(zip(x.size, y.size, strict=True)):
                if n not in (1, m):
                    raise Problem(
                        f"{who}: {name}.size[{k}] is {n}, but out.size[{k}] is {m}. An operand's size equals the output's, "
                        "or is 1 to be repeated."
                    )
        for k, m in enumerate(y.size):
            if all(operand.view.size[k] == 1 for operand in self.operands) and m != 1:
                raise Problem(f"{who}: out.size[{k}] is {m}, but every operand has size 1 there. Set it to 1.")
        samples = [r == BNNSDescriptorType.BNNSSample for r in self.roles]
        if any(samples) and self.out_role != BNNSDescriptorType.BNNSSample:
            raise Problem(
                f"{who}: out_type is not BNNSSample, but an operand is: the result has a batch axis. Use BNNSSample."
            )

    @property
    def batched(self) -> list[bool]:
        """Which operands have a batch axis."""
        return [r == BNNSDescriptorType.BNNSSample for r in self.roles]

    @property
    def out_batched(self) -> bool:
        return self.out_role == BNNSDescriptorType.BNNSSample

    def _prepare(self) -> None:
        if engines._core is None:
            return
        self.plan = native.plan(
            self.function, self.output.shape, [o.shape for o in self.operands], self.batched, self.activation
        )
        if not all(o.fast for o in (*self.operands, self.output)):
            return
        core, samples = engines._core, [i for i in range(self.count) if self.same_place(i)]
        may_equal = sum(1 << A0 + i for i in samples)
        inputs = [
            fast_argument(A0 + i, o, batched=self.batched[i], needed_with=1 << OUT) for i, o in enumerate(self.operands)
        ]
        output = fast_argument(OUT, self.output, output=True, batched=self.out_batched, may_equal=may_equal)
        self.fast_forward = core.FastCall(self.plan, False, [*inputs, output], [], self.threads).run_lists
        if self._trains_fast():
            self.fast_backward = core.FastCall(self.plan, True, self._backward_arguments(), [], self.threads).run_lists

    def same_place(self, i: int) -> bool:
        """Operand ``i`` has the output's shape and batch axis, so it may lie in the same memory."""
        return self.operands[i].view == self.output.view and self.batched[i] == self.out_batched

    def _trains_fast(self) -> bool:
        if self.splits_ties:
            return False
        try:
            check_trainable(self.activation, "", self.fused_function)
        except Problem:
            return False
        return output_determines_slope(self.activation)

    def _backward_arguments(self) -> list[Any]:
        gradients = 1 << DA0 | 1 << DA1 | 1 << DA2
        need_operands = 0 if NEEDS_OPERANDS[self.function] is Needs.NOTHING else gradients
        arguments = [
            fast_argument(A0 + i, o, batched=self.batched[i], needed_with=need_operands)
            for i, o in enumerate(self.operands)
        ]
        for i, o in enumerate(self.operands):
            operand = None if self.roles[i] == BNNSDescriptorType.BNNSConstant else o
            may_equal = 1 << DOUT if self.backward_in_place and self.same_place(i) else 0
            arguments.append(
                fast_argument(
                    DA0 + i, operand, output=True, descriptor=True, batched=self.batched[i], may_equal=may_equal
                )
            )
        need_output = gradients if self.activation.function else 0
        arguments.append(fast_argument(OUT, self.output, batched=self.out_batched, needed_with=need_output))
        arguments.append(
            fast_argument(DOUT, self.output, descriptor=True, batched=self.out_batched, needed_with=gradients)
        )
        return arguments

    @property
    def backward_in_place(self) -> bool:
        """Whether ``out_delta`` may lie in the same memory as an operand's gradient."""
        return self.function in _IN_PLACE or (self.function in _IN_PLACE_IDENTITY and self.activation.function == 0)

    # Forward.

    def apply_arithmetic_batch(
        self, caller: Caller, batch: Any, number_of_inputs: Any, in_: Any, in_stride: Any, out: Any, out_stride: Any
    ) -> None:
        self.require_alive(caller)
        batch = check_count(batch, caller("batch_size"))
        data, strides = self.operand_lists(caller, number_of_inputs, in_, in_stride)
        operands = [self._bind(caller, i, data[i], batch, strides[i]) for i in range(self.count)]
        self.check_same_tensors(caller, operands)
        samples = batch if self.out_batched else 1
        y = self.output.bind(caller("out"), out, samples, out_stride if self.out_batched else 0, output=True)
        for i, operand in enumerate(operands):
            in_place = self.same_place(i) and operand.same_memory(y)
            if operand.overlaps(y) and not in_place:
                raise Problem(
                    f"{caller('out')} overlaps operand {i + 1}, but in-place use needs the same address, stride and "
                    "descriptor. Use the very same buffer or separate memory."
                )
        if batch:
            self._run_forward(samples, operands, y)

    def operand_lists(self, caller: Caller, number: Any, in_: Any, in_stride: Any) -> tuple[list[Any], list[Any]]:
        if check_count(number, caller("number_of_inputs")) != self.count:
            raise Problem(
                f"{caller('number_of_inputs')} is {number}, but {function_name(self.function)} has {self.count} operand(s). "
                f"Pass {self.count}."
            )
        data = [None] * self.count if in_ is None else self.operand_list(in_, caller("in"))
        strides = [0] * self.count if in_stride is None else self.operand_list(in_stride, caller("in_stride"))
        return data, strides

    def operand_list(self, values: Any, who: str) -> list[Any]:
        values = entries(values, who, f"{self.count} operand(s)")
        if len(values) != self.count:
            raise Problem(
                f"{who} has {len(values)} entries, but {function_name(self.function)} has {self.count} operand(s). "
                f"Pass {self.count}."
            )
        return list(values)

    def _bind(self, caller: Caller, i: int, data: Any, batch: int, stride: Any) -> Bound:
        who = f"{caller('in')}[{i}]"
        data = self.defaults[i] if data is None else data
        return self.operands[i].bind(who, data, batch if self.batched[i] else 1, stride if self.batched[i] else 0)

    def check_same_tensors(self, caller: Caller, operands: list[Bound]) -> None:
        for i in range(self.count):
            for j in range(i):
                if operands[i].buffer.address != operands[j].buffer.address:
                    continue
                if operands[i].view != operands[j].view or self.roles[i] != self.roles[j]:
                    raise Problem(
                        f"{caller('in')}[{j}] and in[{i}] have the same data pointer, so they are one tensor, but their "
                        "descriptors or roles differ. Make them equal, or use separate memory."
                    )

    def _run_forward(self, samples: int, operands: list[Bound], y: Bound) -> None:
        if not engines.is_native():
            y.write(
                np.broadcast_to(self._forward64([o.read(np.float64) for o in operands]), (samples, *self.output.shape))
            )
            return
        result = y.direct()
        target = np.empty((samples, *self.output.shape), np.float32) if result is None else result
        tensors = {A0 + i: o.read(np.float32) for i, o in enumerate(operands)} | {OUT: target}
        self._run(False, samples, tensors)
        if result is None:
            y.write(target)

    def _forward64(self, operands: list[NDArray[Any]]) -> NDArray[Any]:
        return reference.forward(self.function, operands, self.activation)

    def _run(self, backward: bool, batch: int, tensors: dict[int, NDArray[Any]], accumulate: int = 0) -> None:
        places = [(slot, a.ctypes.data, a.strides[0] // a.itemsize) for slot, a in tensors.items()]
        engines._core.run(self.plan, backward, batch, places, accumulate, self.threads)

    # Backward.

    def apply_backward_arithmetic_batch(
        self, caller: Caller, batch: Any, number_of_inputs: Any, in_: Any, in_stride: Any, in_delta: Any,
        in_delta_stride: Any, out: Any, out_stride: Any, out_delta: Any, out_delta_stride: Any,
    ) -> None:  # fmt: skip
        self.require_alive(caller)
        batch = check_count(batch, caller("batch_size"))
        self._check_training_types(caller)
        data, strides = self.operand_lists(caller, number_of_inputs, in_, in_stride)
        operands = [
            None if data[i] is None and self.defaults[i] is None else self._bind(caller, i, data[i], batch, strides[i])
            for i in range(self.count)
        ]
        samples = batch if self.out_batched else 1
        out_stride, out_delta_stride = (out_stride, out_delta_stride) if self.out_batched else (0, 0)
        dy = self.output.bind_arriving(caller, out_delta, samples, out_delta_stride)
        y = None if out is None else self.output.bind(caller("out"), out, samples, out_stride)
        results = self.bind_gradients(caller, batch, in_delta, in_delta_stride)
        self._check_backward(caller, operands, y)
        self._check_overlaps(caller, operands, results, dy)
        if results:
            self._run_backward(batch, samples, operands, y, dy, results)

    def _check_training_types(self, caller: Caller) -> None:
        tensors = {f"operand {i + 1}": operand for i, operand in enumerate(self.operands)}
        check_training_types(caller, tensors | {"output": self.output})

    def bind_gradients(self, caller: Caller, batch: int, in_delta: Any, in_delta_stride: Any) -> dict[int, Bound]:
        if in_delta is None:
            raise Problem(
                f"{caller('in_delta')} is NULL. Pass {self.count} descriptors; one with NULL data is skipped."
            )
        deltas = self.operand_list(in_delta, caller("in_delta"))
        strides = (
            [0] * self.count
            if in_delta_stride is None
            else self.operand_list(in_delta_stride, caller("in_delta_stride"))
        )
        results = {}
        for i, delta in enumerate(deltas):
            if delta is None or self.roles[i] == BNNSDescriptorType.BNNSConstant:
                continue
            if not isinstance(delta, BNNSNDArrayDescriptor):
                raise TypeError(
                    f"{caller('in_delta')}[{i}] must be a BNNSNDArrayDescriptor, not {type(delta).__name__}."
                )
            if delta.data is None:
                continue
            samples, stride = (batch, strides[i]) if self.batched[i] else (1, 0)
            results[i] = self.operands[i].bind_delta(f"{caller('in_delta')}[{i}]", delta, samples, stride, output=True)
        return results

    def _check_backward(self, caller: Caller, operands: list[Bound | None], y: Bound | None) -> None:
        check_trainable(self.activation, caller.function, self.fused_function)
        identity = self.activation.function == 0
        if y is None and not identity:
            raise Problem(
                f"{caller('out')} is NULL, but the fused activation is differentiated from the forward output. "
                "Pass the output of the forward call."
            )
        missing = [i for i, o in enumerate(operands) if o is None]
        if missing and needs_input(self.activation):
            raise Problem(
                f"{caller('in')}[{missing[0]}] is NULL, but the derivative of the fused activation with alpha "
                f"{self.activation.alpha:g} cannot be taken from the output. Pass the forward inputs."
            )
        needs = NEEDS_OPERANDS[self.function]
        if missing and (needs is Needs.OPERANDS or (needs is Needs.OUTPUT and (y is None or not identity))):
            cure = " (or, without an activation, out)" if needs is Needs.OUTPUT else ""
            raise Problem(
                f"{caller('in')}[{missing[0]}] is NULL, but the derivative of {function_name(self.function)} needs its "
                f"operands{cure}. Pass the forward inputs."
            )

    def _check_overlaps(
        self, caller: Caller, operands: list[Bound | None], results: dict[int, Bound], dy: Bound
    ) -> None:
        for i, result in results.items():
            for j in (j for j in results if j < i and results[j].overlaps(result)):
                first, second = operands[j], operands[i]
                one_tensor = (
                    self.roles[i] == self.roles[j]
                    and self.operands[i].view == self.operands[j].view
                    and (first is None or second is None or first.buffer.address == second.buffer.address)
                )
                if not (one_tensor and result.same_memory(results[j])):
                    raise Problem(
                        f"{caller('in_delta')}[{j}] and in_delta[{i}] share memory, which is for operands that are one tensor "
                        "with the same data pointer. Give each its own buffer."
                    )
            if result.overlaps(dy) and not (self.backward_in_place and self.same_place(i) and result.same_memory(dy)):
                raise Problem(
                    f"{caller('in_delta')}[{i}] overlaps out_delta, but {function_name(self.function)} cannot run backward in "
                    "place here. In place: Add, Subtract, Ceil, Floor, Round; and SquareRoot, ReciprocalSquareRoot, Tanh, Exp, "
                    "Exp2 without an activation; with equal descriptors and strides. Use separate memory."
                )

    def _run_backward(
        self,
        batch: int,
        samples: int,
        operands: list[Bound | None],
        y: Bound | None,
        dy: Bound,
        results: dict[int, Bound],
    ) -> None:
        if batch == 0:
            for i, result in results.items():
                if not self.batched[i]:
                    result.write(np.zeros((1, *result.shape), np.float32))
            return
        if not engines.is_native() or self.splits_ties:
            self._run_backward_reference(operands, y, dy, results)
            return
        arriving = dy.read(np.float32)
        plan, y_numbers = self.plan, None if y is None else y.read(np.float32)
        if not output_determines_slope(self.activation) and all(o is not None for o in operands):
            arriving, plan, y_numbers = self._gradient_before_activation(samples, operands, arriving)
        tensors = {A0 + i: o.read(np.float32) for i, o in enumerate(operands) if o is not None} | {DOUT: arriving}
        if y_numbers is not None:
            tensors[OUT] = y_numbers
        self._run_gradients(plan, samples, tensors, operands, y, results)

    def _run_gradients(
        self, plan: Any, samples: int, tensors: dict[int, NDArray[Any]], operands: list[Bound | None], y: Bound | None,
        results: dict[int, Bound],
    ) -> None:  # fmt: skip
        """Run the plan's backward into the caller's memory, or into staging where that is not canonical."""
        staged, shared, accumulate = {}, {}, 0
        sources = [s for s in (*operands, y) if s is not None]
        for i, result in results.items():
            twin = next((j for j in results if j < i and results[j].same_memory(result)), None)
            if twin is not None:  # one tensor: computed apart, added up below
                shared[i] = twin
            safe = twin is None and i not in shared.values() and not any(result.overlaps(s) for s in sources)
            has_twin = any(j > i and results[j].same_memory(result) for j in results)
            target = result.direct() if safe and not has_twin else None
            if target is None:
                staged[i] = target = np.empty((result.batch, *result.shape), np.float32)
            elif result.accumulate:
                accumulate |= 1 << DA0 + i
            tensors[DA0 + i] = target
        places = [(slot, a.ctypes.data, a.strides[0] // a.itemsize) for slot, a in tensors.items()]
        engines._core.run(plan, True, samples, places, accumulate, self.threads)
        for i, twin in shared.items():
            staged[twin] = staged[twin] + staged.pop(i)
        for i, numbers in staged.items():
            results[i].write(numbers)

    def _gradient_before_activation(
        self, samples: int, operands: list[Bound | None], arriving: NDArray[Any]
    ) -> tuple[NDArray[Any], Any, NDArray[Any]]:
        """dz from z = op(operands), for an activation whose slope the output does not determine."""
        plain = native.plan(
            self.function,
            self.output.shape,
            [o.shape for o in self.operands],
            self.batched,
            reference_activation.IDENTITY,
        )
        z = np.empty((samples, *self.output.shape), np.float32)
        tensors = {A0 + i: o.read(np.float32) for i, o in enumerate(operands) if o is not None} | {OUT: z}
        places = [(slot, a.ctypes.data, a.strides[0] // a.itemsize) for slot, a in tensors.items()]
        engines._core.run(plain, False, samples, places, 0, self.threads)
        return gradient_from_input(self.activation, z, arriving, self.threads), plain, z

    def _run_backward_reference(
        self, operands: list[Bound | None], y: Bound | None, dy: Bound, results: dict[int, Bound]
    ) -> None:
        shapes = [(dy.batch if self.batched[i] else 1, *o.shape) for i, o in enumerate(self.operands)]
        numbers64 = [None if o is None else o.read(np.float64) for o in operands]
        y64, dy64 = None if y is None else y.read(np.float64), dy.read(np.float64)
        wanted = [i in results for i in range(self.count)]
        gradients = reference.backward(
            self.function, numbers64, y64, dy64, self.activation, wanted, shapes, split_ties=self.splits_ties
        )
        total: dict[int, NDArray[Any]] = {}
        for i, result in results.items():
            gradient = gradients[i]
            assert gradient is not None
            twin = next((j for j in total if results[j].same_memory(result)), None)
            total[i if twin is None else twin] = gradient if twin is None else total[twin] + gradient
        for i, numbers in total.items():
            results[i].write(numbers)
