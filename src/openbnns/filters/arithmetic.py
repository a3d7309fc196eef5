"""Elementwise arithmetic of one, two or three operands: y = f(op(a, b, c)), and the gradient of every operand.

Roles: a Sample operand has a batch axis; a Parameter is one copy for the whole batch, and its gradient is summed over the
batch; a Constant is one copy without a gradient. All operands share one layout; along an axis, sizes are equal or 1, and
the gradient of a size-1 axis is summed over that axis.

Two operands with the same data pointer are one tensor: their gradients share one buffer, which receives the sum.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import compat, engines
from .._plural import plural
from .._words import Caller
from ..abi.enums import BNNSArithmeticFunction, BNNSDescriptorType
from ..abi.structs import (
    BNNSArithmeticBinary,
    BNNSArithmeticTernary,
    BNNSArithmeticUnary,
    BNNSFilterParameters,
    BNNSLayerParametersArithmetic,
    BNNSNDArrayDescriptor,
)
from ..calls.run import run_plan, run_staged, write_results
from ..calls.signature import Argument, Call, ListOf, Need, need
from ..errors import Problem
from ..parameters.activation import AXIS_WISE, IDENTITY, Activation
from ..parameters.arithmetic import NEEDS_OPERANDS, ArithmeticKind, Needs
from ..reference import arithmetic as reference
from ..tensors import descriptors
from ..tensors.operands import Bound, Operand, check_count
from ._activation_rules import (
    check_trainable,
    gradient_from_input,
    native_activation,
    needs_input,
    output_determines_slope,
    resolve_fused,
)
from ._rules import chosen
from .base import OUTPUT_GRADIENT, Driving, Filter

if TYPE_CHECKING:
    from .. import _core

# Slots of a plan, as in core/runtime/plan.h.
A0, A1, A2, OUT, DA0, DA1, DA2, DOUT = range(8)

_TERNARY = (ArithmeticKind.MULTIPLY_ADD, ArithmeticKind.SELECT)
_BINARY = (
    ArithmeticKind.ADD, ArithmeticKind.SUBTRACT, ArithmeticKind.MULTIPLY, ArithmeticKind.DIVIDE, ArithmeticKind.POW,
    ArithmeticKind.MULTIPLY_NO_NAN, ArithmeticKind.DIVIDE_NO_NAN, ArithmeticKind.MINIMUM, ArithmeticKind.MAXIMUM,
    ArithmeticKind.FLOOR_DIVIDE, ArithmeticKind.TRUNC_DIVIDE, ArithmeticKind.TRUNC_REMAINDER,
)  # fmt: skip
_BLOCKS: dict[int, type[Any]] = {1: BNNSArithmeticUnary, 2: BNNSArithmeticBinary, 3: BNNSArithmeticTernary}


def operand_count(function: int) -> int:
    """How many operands a function takes."""
    return 3 if function in _TERNARY else 2 if function in _BINARY else 1


def block_of(function: int) -> type[Any] | None:
    """The struct that holds the operands of a function; ``None`` for a function that does not exist."""
    return _BLOCKS[operand_count(function)] if function in set(ArithmeticKind) else None


def function_name(function: int) -> str:
    """``Add`` for 0."""
    return BNNSArithmeticFunction(function).name.removeprefix("BNNSArithmetic")


class Arithmetic(Filter):
    """An elementwise arithmetic filter."""

    family = "arithmetic"
    apply_call = "BNNSArithmeticFilterApplyBatch"
    backward_call = "BNNSArithmeticFilterApplyBackwardBatch"

    def __init__(
        self, p: BNNSLayerParametersArithmetic, filter_params: BNNSFilterParameters | None, who: Caller
    ) -> None:
        super().__init__(filter_params, who)
        self.function = chosen(
            p.arithmetic_function, ArithmeticKind, "BNNSArithmeticFunction", who, "arithmetic_function"
        )
        self.count = operand_count(self.function)
        block = self._check_block(p.arithmetic_function_fields, who)
        names = ["in"] if self.count == 1 else [f"in{i + 1}" for i in range(self.count)]
        self.roles = [self._check_role(getattr(block, f"{n}_type"), who(f"{n}_type")) for n in names]
        self.out_role = self._check_role(block.out_type, who("out_type"))
        fields = [block.in_] if self.count == 1 else [getattr(block, n) for n in names]
        self.fused_function = int(p.activation.function)
        self.activation = resolve_fused(p.activation, who)
        self.operands = [self._operand(d, who(n)) for d, n in zip(fields, names, strict=True)]
        self.output = self._operand(block.out, who("out"))
        self.defaults = [
            None if r == BNNSDescriptorType.BNNSSample else d.data for d, r in zip(fields, self.roles, strict=True)
        ]
        self._check_shapes(names, who)
        self.splits_ties = compat.switches.minmax_tie_split and self.function in (
            ArithmeticKind.MINIMUM,
            ArithmeticKind.MAXIMUM,
        )
        self.plan: _core.Plan | None = None
        if engines._core is not None:
            self.plan = self._make_plan(self.activation)

    # Creation.

    def _check_block(self, block: Any, who: Caller) -> Any:
        expected = _BLOCKS[self.count]
        if block is None:
            raise Problem(
                f"{who('arithmetic_function_fields')} is {who.null}. {function_name(self.function)} takes a {expected.__name__}."
            )
        if not isinstance(block, tuple(_BLOCKS.values())):
            raise TypeError(
                f"{who('arithmetic_function_fields')} must be a {expected.__name__}, not {type(block).__name__}."
            )
        if not isinstance(block, expected):
            raise Problem(
                f"{who('arithmetic_function_fields')} is a {type(block).__name__}, but {function_name(self.function)} has "
                f"{plural(self.count, 'operand')}. Pass a {expected.__name__}."
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

    def _check_shapes(self, names: list[str], who: Caller) -> None:
        y = self.output.view
        for operand, name in zip(self.operands, names, strict=True):
            x = operand.view
            if not x.layout.same_as(y.layout):
                raise Problem(
                    f"{who(name)}.layout is {x.layout.name} and {who.name('out')}.layout is {y.layout.name}. All operands "
                    f"share one layout: use {y.layout.name}."
                )
            for k, (n, m) in enumerate(zip(x.size, y.size, strict=True)):
                if n not in (1, m):
                    raise Problem(
                        f"{who(name)}.size[{k}] is {n}, but {who.name('out')}.size[{k}] is {m}. An operand's size equals the "
                        "output's, or is 1 to be repeated."
                    )
        for k, m in enumerate(y.size):
            if all(operand.view.size[k] == 1 for operand in self.operands) and m != 1:
                raise Problem(f"{who('out.size')}[{k}] is {m}, but every operand has size 1 there. Set it to 1.")
        samples = [r == BNNSDescriptorType.BNNSSample for r in self.roles]
        if any(samples) and self.out_role != BNNSDescriptorType.BNNSSample:
            raise Problem(
                f"{who('out_type')} is not {who.name('BNNSSample')}, but an operand is: the result has a batch axis. Use "
                f"{who.name('BNNSSample')}."
            )

    @property
    def batched(self) -> list[bool]:
        """Which operands have a batch axis."""
        return [r == BNNSDescriptorType.BNNSSample for r in self.roles]

    @property
    def out_batched(self) -> bool:
        return self.out_role == BNNSDescriptorType.BNNSSample

    def same_place(self, i: int) -> bool:
        """True if operand ``i`` has the output's shape and batch axis, so that it may share the output's memory."""
        return self.operands[i].view == self.output.view and self.batched[i] == self.out_batched

    def _trains_fast(self) -> bool:
        if self.splits_ties:
            return False
        try:
            check_trainable(self.activation, "", self.fused_function)
        except Problem:
            return False
        return output_determines_slope(self.activation)

    def _make_plan(self, f: Activation) -> _core.Plan:
        return engines._core.arithmetic(
            function=self.function, operands=self.count, rank=len(self.output.shape), size=self.output.shape,
            operand_size=[o.shape for o in self.operands], batched=self.batched, activation=native_activation(f),
        )  # fmt: skip

    def fixed_addresses(self) -> list[tuple[int, int, int]] | None:
        return []

    # The calls.

    def driving_calls(self) -> Driving:
        return ("apply_arithmetic", self.count), ("apply_backward_arithmetic", self.count)

    def declare(self, call: str, variant: Hashable) -> Call | None:
        if variant not in (None, self.count):
            return None
        lists = {"in": self.operand_list()}
        if call == "apply_arithmetic":
            in_place = frozenset(f"in[{i}]" for i in range(self.count) if self.same_place(i))
            out = Argument(
                "out", OUT, self.output, writes=True, required=True, batched=self.out_batched, may_equal=in_place
            )
            return Call((*self.operand_arguments(required=True), out), plan=self.plan, lists=lists)
        if call == "apply_backward_arithmetic":
            cure = f"Pass {self.count} descriptors; one without data is skipped."
            trained = {f"in[{i}]": operand for i, operand in enumerate(self.operands)}
            return Call(
                self._backward_arguments(), backward=True, takes_fast=self._trains_fast(), plan=self.plan,
                trained=trained | {"output": self.output}, lists=lists | {"in_delta": replace(lists["in"], required=cure)},
            )  # fmt: skip
        return None

    def operand_list(self) -> ListOf:
        return ListOf(f"{function_name(self.function)} has {plural(self.count, 'operand')}")

    def operand_arguments(self, *, required: bool, needs: tuple[Need, ...] = ()) -> list[Argument]:
        """The operands of a call."""
        return [
            Argument(
                f"in[{i}]", A0 + i, operand, batched=self.batched[i], required=required, needs=needs,
                default=self.defaults[i],
            )
            for i, operand in enumerate(self.operands)
        ]  # fmt: skip

    def gradient_arguments(self, output_gradient: str) -> list[Argument]:
        """The gradients of the operands; those of constants have no effect."""
        arguments = []
        for i, operand in enumerate(self.operands):
            constant = self.roles[i] == BNNSDescriptorType.BNNSConstant
            may_equal = {f"in_delta[{j}]" for j in range(self.count) if j != i and self._may_be_one(i, j)}
            if self.backward_in_place and self.same_place(i):
                may_equal.add(output_gradient)
            arguments.append(
                Argument(
                    f"in_delta[{i}]", DA0 + i, None if constant else operand, writes=True,
                    gradient_of=f"in[{i}]", described=True, batched=self.batched[i], skips_null_data=True,
                    may_equal=frozenset(may_equal),
                )
            )  # fmt: skip
        return arguments

    def _may_be_one(self, i: int, j: int) -> bool:
        """True if two operands may be one tensor, whose gradients add up."""
        return self.roles[i] == self.roles[j] and self.operands[i].view == self.operands[j].view

    def _backward_arguments(self) -> tuple[Argument, ...]:
        gradients = [f"in_delta[{i}]" for i in range(self.count)]
        by_value = () if NEEDS_OPERANDS[self.function] is Needs.NOTHING else (need(gradients, ""),)
        of_output: tuple[Need, ...] = ()
        if self.activation.function:
            because = "the fused activation is differentiated from the forward output"
            of_output = (need(gradients, because, optional=False),)
        return (
            Argument(
                "out_delta", DOUT, self.output, gradient_of="out", described=True, batched=self.out_batched, required=True,
                purpose=OUTPUT_GRADIENT,
            ),
            *self.operand_arguments(required=False, needs=by_value),
            Argument("out", OUT, self.output, batched=self.out_batched, needs=of_output),
            *self.gradient_arguments("out_delta"),
        )  # fmt: skip

    def choose(self, call: str, choice: Any, caller: Caller) -> Hashable:
        if call in ("apply_arithmetic", "apply_backward_arithmetic"):
            self.check_number(caller, choice)
        return None

    def check_number(self, caller: Caller, number: Any) -> None:
        """Refuse a call for another number of operands."""
        if check_count(number, caller("number_of_inputs")) != self.count:
            raise Problem(
                f"{caller('number_of_inputs')} is {number}, but {function_name(self.function)} has "
                f"{plural(self.count, 'operand')}. Pass {self.count}."
            )

    @property
    def backward_in_place(self) -> bool:
        """True if an operand's gradient may be written over ``out_delta``."""
        needs = NEEDS_OPERANDS[self.function]
        return needs is Needs.NOTHING or (needs is Needs.OUTPUT and self.activation.function == 0)

    # Rules that no record holds.

    def check(self, call: Call, caller: Caller, batch: int, bound: dict[str, Bound]) -> None:
        operands = [bound.get(f"in[{i}]") for i in range(self.count)]
        if call.backward:
            self._check_needed(caller, operands, bound.get("out"))
            return
        self.check_same_tensors(caller, [o for o in operands if o is not None])

    def check_same_tensors(self, caller: Caller, operands: list[Bound]) -> None:
        for i in range(self.count):
            for j in range(i):
                if operands[i].buffer.address != operands[j].buffer.address:
                    continue
                if operands[i].view != operands[j].view or self.roles[i] != self.roles[j]:
                    raise Problem(
                        f"{caller(f'in[{j}]')} and {caller.name(f'in[{i}]')} have the same data pointer, so they are one "
                        "tensor, but their descriptors or roles differ. Make them equal, or use separate memory."
                    )

    def _forward64(self, operands: list[NDArray[Any]]) -> NDArray[Any]:
        return reference.forward(self.function, operands, self.activation)

    def _check_needed(self, caller: Caller, operands: list[Bound | None], y: Bound | None) -> None:
        check_trainable(self.activation, caller.function, self.fused_function)
        identity = self.activation.function == 0
        missing = [i for i, o in enumerate(operands) if o is None]
        if missing and needs_input(self.activation):
            raise Problem(
                f"{caller(f'in[{missing[0]}]')} is {caller.null}, but the derivative of the fused activation with alpha "
                f"{self.activation.alpha:g} cannot be taken from the output. Pass the forward inputs."
            )
        needs = NEEDS_OPERANDS[self.function]
        if missing and (needs is Needs.OPERANDS or (needs is Needs.OUTPUT and (y is None or not identity))):
            cure = f" (or, without an activation, {caller.name('out')})" if needs is Needs.OUTPUT else ""
            raise Problem(
                f"{caller(f'in[{missing[0]}]')} is {caller.null}, but the derivative of {function_name(self.function)} needs "
                f"its operands{cure}. Pass the forward inputs."
            )

    # Runs.

    def run(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        samples = batch if self.out_batched else 1
        if call.backward and self.splits_ties:
            self.run_reference(call, samples, bound)
        else:
            super().run(call, samples, bound)

    def run_native(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        plan, read = call.plan, {}
        operands = {A0 + i: bound[f"in[{i}]"] for i in range(self.count) if f"in[{i}]" in bound}
        if call.backward and not output_determines_slope(self.activation) and len(operands) == self.count:
            # dz from z = op(operands), for an activation whose slope the output does not determine
            plan, z = self._make_plan(IDENTITY), np.empty((batch, *self.output.shape), np.float32)
            shared = {slot for slot in operands if not self.batched[slot - A0]}
            tensors = {slot: operand.read(np.float32) for slot, operand in operands.items()} | {OUT: z}
            run_plan(plan, False, batch, tensors, shared, self.threads)
            dy = bound["out_delta"].read(np.float32)
            read = {"out_delta": gradient_from_input(self.activation, z, dy, self.threads), "out": z}
        run_staged(self, call, plan, batch, bound, {}, read)

    def run_reference(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        numbers = [bound[f"in[{i}]"].read(np.float64) if f"in[{i}]" in bound else None for i in range(self.count)]
        if not call.backward:
            known = [n for n in numbers if n is not None]
            bound["out"].write(np.broadcast_to(self._forward64(known), (batch, *self.output.shape)))
            return
        shapes = [(batch if self.batched[i] else 1, *o.shape) for i, o in enumerate(self.operands)]
        wanted = [f"in_delta[{i}]" in bound for i in range(self.count)]
        y = bound["out"].read(np.float64) if "out" in bound else None
        gradients = reference.backward(
            self.function, numbers, y, bound["out_delta"].read(np.float64), self.activation, wanted, shapes,
            split_ties=self.splits_ties,
        )  # fmt: skip
        results = {f"in_delta[{i}]": g for i, g in enumerate(gradients) if g is not None and wanted[i]}
        write_results(call, results, bound)
