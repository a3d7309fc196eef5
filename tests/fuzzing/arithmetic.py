"""Arithmetic of one to three operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openbnns import capi
from openbnns.capi import BNNSDataLayout

from .core import ANY_LAYOUT, Array, Case, Draw, Outcome, Tensor, calls, draw_activation, element, filter_parameters

# Where each function is tame: not near a pole or the edge of its domain.
POSITIVE = {4, 5, 24, 25, 21}
UNIT = {12, 13, 20}
ABOVE_ONE = {19}
NO_ZERO = {3, 27, 35, 37, 38, 39}


def tame(function: int, operand: int) -> Callable[[Array], Array]:
    if function in POSITIVE:
        return lambda a: np.abs(a) + np.float32(0.25) if not (function == 21 and operand == 1) else a
    if function in UNIT:
        return lambda a: np.tanh(a) * np.float32(0.9)
    if function in ABOVE_ONE:
        return lambda a: np.abs(a) + np.float32(1.25)
    if function == 11:  # tan
        return lambda a: np.tanh(a)
    if function in (37, 38, 39) and operand == 0:  # away from the jumps of floor and trunc: quarters over halves
        return lambda a: np.round(a) + np.float32(0.25)
    if function in (37, 38, 39):
        return lambda a: np.sign(a) * np.float32(1.0) + (a == 0)
    if (function in NO_ZERO and operand == 1) or function == 35:
        return lambda a: np.sign(a) * (np.abs(a) + np.float32(0.5)) + (a == 0).astype(np.float32)
    if function in (6, 7, 8, 33):  # ceil, floor, round, sign: away from the jumps
        return lambda a: np.round(a) + np.float32(0.25)
    if function in (26, 27, 31):
        return lambda a: np.where(np.abs(a) < 0.5, np.float32(0), a)
    return lambda a: a


def arithmetic(draw: Draw) -> Case:
    function = int(draw.rng.integers(0, 41))
    count = 3 if function in (28, 31) else 2 if function in (0, 1, 2, 3, 21, 26, 27, 29, 30, 37, 38, 39) else 1
    layout = draw.one(ANY_LAYOUT) if draw.chance(0.3) else draw.one(["Vector", "ImageCHW", "RowMajorMatrix"])
    rank = BNNSDataLayout[f"BNNSDataLayout{layout}"] >> 16
    size = tuple(draw.size(6) if rank <= 3 else int(draw.rng.integers(1, 4)) for _ in range(rank))
    batch = draw.size(4)
    roles = [int(draw.one([0, 1, 1, 1, 2])) for _ in range(count)]
    sizes = [tuple(1 if draw.chance(0.2) else n for n in size) for _ in range(count)]
    size = tuple(max(s[k] for s in sizes) for k in range(rank))
    out_role = 1 if 1 in roles or draw.chance(0.5) else 2
    operands = [
        Tensor(draw, layout, s, batch, element=element(draw), batched=r == 1) for s, r in zip(sizes, roles, strict=True)
    ]
    y = Tensor(draw, layout, size, batch, element=element(draw), batched=out_role == 1)
    blocks: Any = {
        1: lambda: capi.BNNSArithmeticUnary(
            in_=operands[0].descriptor, in_type=roles[0], out=y.descriptor, out_type=out_role
        ),
        2: lambda: capi.BNNSArithmeticBinary(
            in1=operands[0].descriptor,
            in1_type=roles[0],
            in2=operands[1].descriptor,
            in2_type=roles[1],
            out=y.descriptor,
            out_type=out_role,
        ),
        3: lambda: capi.BNNSArithmeticTernary(
            in1=operands[0].descriptor,
            in1_type=roles[0],
            in2=operands[1].descriptor,
            in2_type=roles[1],
            in3=operands[2].descriptor,
            in3_type=roles[2],
            out=y.descriptor,
            out_type=out_role,
        ),
    }
    smooth = [0, 0, 0, 0, 3, 4, 7, 17, 18, 20]
    p = capi.BNNSLayerParametersArithmetic(
        arithmetic_function=function,
        arithmetic_function_fields=blocks[count](),
        activation=draw_activation(draw, smooth),
    )
    data = [t.values(draw, tame(function, k)) for k, t in enumerate(operands)]
    one_tensor = count == 2 and sizes[0] == sizes[1] and roles[0] == roles[1] and draw.chance(0.15)
    arriving_tensor = Tensor(draw, layout, size, batch, batched=out_role == 1)
    arriving = arriving_tensor.values(draw)
    deltas = [Tensor(draw, layout, s, batch, batched=r == 1) for s, r in zip(sizes, roles, strict=True)]
    flags = [int(draw.chance(0.4)) for _ in deltas]
    skip = [draw.chance(0.2) for _ in deltas]
    give_input, give_output = draw.chance(0.85), draw.chance(0.85)
    in_place = draw.chance(0.15)
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
        if not out.note(calls.BNNSArithmeticFilterApplyBatch(f, batch, count, inputs, strides, y_memory, y.stride)):
            return
        memory, wanted, wanted_strides = [], [], [t.stride for t in deltas]
        for k, t in enumerate(deltas):
            cells = out.keep(f"d{k}", t.empty())
            if flags[k]:
                cells[:] = 0.5
            memory.append(cells)
            wanted.append(t.at(None if skip[k] else cells, flags[k]))
        if len(inputs) == 2 and inputs[0] is inputs[1] and not any(skip):
            wanted[1], wanted_strides[1] = wanted[0], wanted_strides[0]
        dy = arriving_tensor.at(arriving.copy())
        dy_stride = arriving_tensor.stride
        if in_place and not skip[0] and deltas[0].length == arriving_tensor.length:
            memory[0][:] = arriving
            dy, dy_stride = arriving_tensor.at(memory[0]), arriving_tensor.stride
        out.note(
            calls.BNNSArithmeticFilterApplyBackwardBatch(
                f,
                batch,
                count,
                inputs if give_input else None,
                strides,
                wanted,
                wanted_strides,
                y_memory.copy() if give_output else None,
                y.stride,
                dy,
                dy_stride,
            )
        )

    return f"{p!r} batch {batch} {parameters!r}", run


FAMILIES = {"arithmetic": arithmetic}
