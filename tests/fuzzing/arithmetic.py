"""Arithmetic of one to three operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from openbnns import capi
from openbnns.capi import BNNSArithmeticFunction, BNNSDataLayout

from .core import ANY_LAYOUT, Array, Case, Draw, Outcome, Tensor, calls, draw_activation, element, filter_parameters

CONSTANT, SAMPLE, PARAMETER = (int(role) for role in capi.BNNSDescriptorType)


def functions(*names: str) -> set[int]:
    return {int(BNNSArithmeticFunction[f"BNNSArithmetic{name}"]) for name in names}


TERNARY = functions("MultiplyAdd", "Select")
ROUNDED_QUOTIENTS = functions("FloorDivide", "TruncDivide", "TruncRemainder")
BINARY = ROUNDED_QUOTIENTS | functions(
    "Add", "Subtract", "Multiply", "Divide", "Pow", "MultiplyNoNaN", "DivideNoNaN", "Minimum", "Maximum"
)

# Where each function is tame: not near a pole or the edge of its domain.
POW, RECIPROCAL, TAN = functions("Pow"), functions("Reciprocal"), functions("Tan")
POSITIVE = POW | functions("SquareRoot", "ReciprocalSquareRoot", "Log", "Log2")
UNIT = functions("Asin", "Acos", "Atanh")
ABOVE_ONE = functions("Acosh")
NO_ZERO_DIVISOR = functions("Divide", "DivideNoNaN")
STEPS = functions("Ceil", "Floor", "Round", "Sign")
ZERO_COUNTS = functions("MultiplyNoNaN", "DivideNoNaN", "Select")


def tame(function: int, operand: int) -> Callable[[Array], Array]:
    if function in POSITIVE:
        return lambda a: np.abs(a) + np.float32(0.25) if not (function in POW and operand == 1) else a
    if function in UNIT:
        return lambda a: np.tanh(a) * np.float32(0.9)
    if function in ABOVE_ONE:
        return lambda a: np.abs(a) + np.float32(1.25)
    if function in TAN:
        return lambda a: np.tanh(a)
    if function in ROUNDED_QUOTIENTS and operand == 0:  # away from the jumps of floor and trunc: quarters over halves
        return lambda a: np.round(a) + np.float32(0.25)
    if function in ROUNDED_QUOTIENTS:
        return lambda a: np.sign(a) * np.float32(1.0) + (a == 0)
    if (function in NO_ZERO_DIVISOR and operand == 1) or function in RECIPROCAL:
        return lambda a: np.sign(a) * (np.abs(a) + np.float32(0.5)) + (a == 0).astype(np.float32)
    if function in STEPS:
        return lambda a: np.round(a) + np.float32(0.25)
    if function in ZERO_COUNTS:
        return lambda a: np.where(np.abs(a) < 0.5, np.float32(0), a)
    return lambda a: a


def operand_block(operands: Sequence[Tensor], roles: Sequence[int], y: Tensor, out_role: int) -> Any:
    """The C struct for one, two or three operands."""
    if len(operands) == 1:
        return capi.BNNSArithmeticUnary(
            in_=operands[0].descriptor, in_type=roles[0], out=y.descriptor, out_type=out_role
        )
    fields: dict[str, Any] = {"out": y.descriptor, "out_type": out_role}
    for i, (operand, role) in enumerate(zip(operands, roles, strict=True), start=1):
        fields |= {f"in{i}": operand.descriptor, f"in{i}_type": role}
    return (capi.BNNSArithmeticBinary if len(operands) == 2 else capi.BNNSArithmeticTernary)(**fields)


class Backward:
    """Request of a backward call: which gradients, set or added, where, and from which of the tensors."""

    def __init__(
        self, draw: Draw, y: Tensor, out_role: int, operands: Sequence[Tensor], roles: Sequence[int], batch: int
    ) -> None:
        self.arriving_tensor = Tensor(draw, y.layout, y.size, batch, batched=out_role == SAMPLE)
        self.arriving = self.arriving_tensor.values(draw)
        self.deltas = [
            Tensor(draw, y.layout, operand.size, batch, batched=role == SAMPLE)
            for operand, role in zip(operands, roles, strict=True)
        ]
        self.flags = [int(draw.chance(0.4)) for _ in self.deltas]
        self.skip = [draw.chance(0.2) for _ in self.deltas]
        self.give_input, self.give_output = draw.chance(0.85), draw.chance(0.85)
        self.in_place = draw.chance(0.15)
        self.batch = batch

    def run(self, out: Outcome, f: Any, inputs: list[Array], strides: list[int], y: Tensor, y_memory: Array) -> None:
        memory, wanted, wanted_strides = [], [], [t.stride for t in self.deltas]
        for k, t in enumerate(self.deltas):
            cells = out.keep(f"d{k}", t.empty())
            if self.flags[k]:
                cells[:] = 0.5
            memory.append(cells)
            wanted.append(t.at(None if self.skip[k] else cells, self.flags[k]))
        if len(inputs) == 2 and inputs[0] is inputs[1] and not any(self.skip):
            wanted[1], wanted_strides[1] = wanted[0], wanted_strides[0]
        dy = self.arriving_tensor.at(self.arriving.copy())
        if self.in_place and not self.skip[0] and self.deltas[0].length == self.arriving_tensor.length:
            memory[0][:] = self.arriving
            dy = self.arriving_tensor.at(memory[0])
        x = inputs if self.give_input else None
        forward_result = y_memory.copy() if self.give_output else None
        out.note(
            calls.BNNSArithmeticFilterApplyBackwardBatch(
                f, self.batch, len(inputs), x, strides, wanted, wanted_strides, forward_result, y.stride, dy,
                self.arriving_tensor.stride,
            )
        )  # fmt: skip


def arithmetic(draw: Draw) -> Case:
    function = int(draw.rng.integers(0, len(BNNSArithmeticFunction)))
    count = 3 if function in TERNARY else 2 if function in BINARY else 1
    layout = draw.one(ANY_LAYOUT) if draw.chance(0.3) else draw.one(["Vector", "ImageCHW", "RowMajorMatrix"])
    rank = BNNSDataLayout[f"BNNSDataLayout{layout}"] >> 16
    size = tuple(draw.size(6) if rank <= 3 else int(draw.rng.integers(1, 4)) for _ in range(rank))
    batch = draw.size(4)
    roles = [int(draw.one([CONSTANT, SAMPLE, SAMPLE, SAMPLE, PARAMETER])) for _ in range(count)]
    sizes = [tuple(1 if draw.chance(0.2) else n for n in size) for _ in range(count)]
    size = tuple(max(s[k] for s in sizes) for k in range(rank))
    out_role = SAMPLE if SAMPLE in roles or draw.chance(0.5) else PARAMETER
    operands = [
        Tensor(draw, layout, s, batch, element=element(draw), batched=role == SAMPLE)
        for s, role in zip(sizes, roles, strict=True)
    ]
    y = Tensor(draw, layout, size, batch, element=element(draw), batched=out_role == SAMPLE)
    smooth = [0, 0, 0, 0, 3, 4, 7, 17, 18, 20]
    p = capi.BNNSLayerParametersArithmetic(
        arithmetic_function=function,
        arithmetic_function_fields=operand_block(operands, roles, y, out_role),
        activation=draw_activation(draw, smooth),
    )
    data = [t.values(draw, tame(function, k)) for k, t in enumerate(operands)]
    one_tensor = count == 2 and sizes[0] == sizes[1] and roles[0] == roles[1] and draw.chance(0.15)
    backward = Backward(draw, y, out_role, operands, roles, batch)
    parameters = filter_parameters(draw)

    def run(out: Outcome) -> None:
        f = calls.BNNSFilterCreateLayerArithmetic(p, parameters)
        if not out.note(f):
            return
        inputs = [d.copy() for d in data]
        if one_tensor and operands[0].descriptor == operands[1].descriptor:
            inputs[1] = inputs[0]
        y_memory = out.keep("y", y.empty())
        strides = [t.stride for t in operands]
        if out.note(calls.BNNSArithmeticFilterApplyBatch(f, batch, count, inputs, strides, y_memory, y.stride)):
            backward.run(out, f, inputs, strides, y, y_memory)

    return f"{p!r} batch {batch} {parameters!r}", run


FAMILIES = {"arithmetic": arithmetic}
