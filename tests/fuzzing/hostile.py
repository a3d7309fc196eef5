"""Calls with garbage: any clean answer will do, but no crash, no stray exception, nothing written beyond the outputs."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

import openbnns
from openbnns import capi
from openbnns.capi import BNNSDataLayout, BNNSDataType

from . import arithmetic, attention, layers, lstm, shapes, tensors, training
from .core import GUARD, PATTERN, Case, Draw, Mismatch, Outcome, calls, filter_parameters

ORDERLY: dict[str, Callable[[Draw], Case]] = {
    **layers.FAMILIES,
    **arithmetic.FAMILIES,
    **shapes.FAMILIES,
    **training.FAMILIES,
    **attention.FAMILIES,
    **lstm.FAMILIES,
    **tensors.FAMILIES,
}
"""Families whose cases are meant to work."""


def garbage_number(draw: Draw) -> int:
    return int(
        draw.one(
            [0, 1, 2, 3, 5, 7, 8, 16, 255, 2**16, 2**20, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 1]
        )
    )


def garbage_struct(draw: Draw, struct: type[Any], depth: int = 0) -> Any:
    """A struct with some fields at random; sizes are small often enough to get past the first checks."""
    value = struct()
    for name, kind in struct._kinds.items():
        if draw.chance(0.25):
            continue
        current = getattr(value, name)
        try:
            if kind.is_pointer:
                setattr(value, name, garbage_pointer(draw, name))
            elif hasattr(type(current), "_kinds"):
                setattr(value, name, garbage_struct(draw, type(current), depth + 1))
            elif isinstance(current, list):
                pick = (lambda: int(draw.rng.integers(1, 5))) if draw.chance(0.8) else (lambda: garbage_number(draw))
                setattr(value, name, [pick() for _ in range(int(draw.rng.integers(0, len(current) + 1)))])
            elif name == "layout":
                setattr(value, name, int(draw.one(list(BNNSDataLayout))) if draw.chance(0.9) else garbage_number(draw))
            elif name.endswith("data_type"):
                setattr(value, name, int(draw.one(list(BNNSDataType))) if draw.chance(0.9) else garbage_number(draw))
            elif isinstance(current, float):
                setattr(
                    value, name, float(draw.one([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e300, 1e-300, 0.5]))
                )
            else:
                setattr(value, name, int(draw.rng.integers(0, 42)) if draw.chance(0.7) else garbage_number(draw))
        except (ValueError, TypeError):  # outside the field's type: stays zero
            continue
    return value


def garbage_pointer(draw: Draw, name: str) -> Any:
    """Never an address, which is trusted by design; anything else goes."""
    if name in ("alloc_memory", "free_memory"):
        return None
    if name == "arithmetic_function_fields":
        return garbage_struct(
            draw, draw.one([capi.BNNSArithmeticUnary, capi.BNNSArithmeticBinary, capi.BNNSArithmeticTernary])
        )
    length = int(draw.one([0, 1, 3, 16, 100, 1000, 5000]))
    return draw.one(
        [
            None,
            bytearray(length),
            bytes(length),
            np.zeros(length, np.float32),
            np.zeros(length),
            np.zeros(length, np.int8),
            np.zeros(length, np.float32)[::2],
            np.full(length, np.nan, np.float32),
            np.zeros(length + 1, np.uint8)[1:],
            "x",
            0,
            -8,
            2**63,
        ]
    )


CREATORS = [
    (capi.BNNSFilterCreateLayerFullyConnected, (capi.BNNSLayerParametersFullyConnected,)),
    (capi.BNNSFilterCreateLayerConvolution, (capi.BNNSLayerParametersConvolution,)),
    (capi.BNNSFilterCreateLayerTransposedConvolution, (capi.BNNSLayerParametersConvolution,)),
    (capi.BNNSFilterCreateLayerActivation, (capi.BNNSLayerParametersActivation,)),
    (capi.BNNSFilterCreateLayerArithmetic, (capi.BNNSLayerParametersArithmetic,)),
    (capi.BNNSFilterCreateLayerPooling, (capi.BNNSLayerParametersPooling,)),
    (
        capi.BNNSFilterCreateConvolutionLayer,
        (capi.BNNSImageStackDescriptor, capi.BNNSImageStackDescriptor, capi.BNNSConvolutionLayerParameters),
    ),
    (
        capi.BNNSFilterCreateFullyConnectedLayer,
        (capi.BNNSVectorDescriptor, capi.BNNSVectorDescriptor, capi.BNNSFullyConnectedLayerParameters),
    ),
    (
        capi.BNNSFilterCreateVectorActivationLayer,
        (capi.BNNSVectorDescriptor, capi.BNNSVectorDescriptor, capi.BNNSActivation),
    ),
]


def good_filter(draw: Draw) -> Any:
    """A filter that works, to be called with garbage: the first thing that a case of its family creates."""
    family = draw.one([f for name, f in ORDERLY.items() if name not in ("optimizer", "lstm", "tensors")])
    made: list[Any] = []

    class Catch(Outcome):
        def note(self, status: Any) -> bool:
            made.append(status)
            return False

    family(draw)[1](Catch())
    return made[0]


class Garbage:
    """Arguments at random for the calls of one filter."""

    def __init__(self, draw: Draw, f: Any) -> None:
        self.draw, self.filter = draw, f

    def descriptor(self) -> Any:
        return None if self.draw.chance(0.2) else garbage_struct(self.draw, capi.BNNSNDArrayDescriptor)

    def pointer(self) -> Any:
        return garbage_pointer(self.draw, "")

    def number(self) -> int:
        return 0 if self.draw.chance(0.5) else int(self.draw.one([1, 2, 3, -1, garbage_number(self.draw)]))

    def batch(self) -> int:
        return int(self.draw.one([1, 1, 2, 3, self.number()]))

    def many(self, make: Callable[[], Any], count: int) -> list[Any]:
        return [make() for _ in range(count % 5)]

    def apply(self) -> Any:
        return capi.BNNSFilterApply(self.filter, self.pointer(), self.pointer())

    def apply_batch(self) -> Any:
        return capi.BNNSFilterApplyBatch(
            self.filter, self.batch(), self.pointer(), self.number(), self.pointer(), self.number()
        )

    def apply_backward(self) -> Any:
        pairs = [v for make in (self.pointer, self.descriptor) * 2 for v in (make(), self.number())]
        return capi.BNNSFilterApplyBackwardBatch(
            self.filter, self.batch(), *pairs, self.descriptor(), self.descriptor()
        )

    def apply_arithmetic(self) -> Any:
        n = int(self.draw.one([1, 2, 3, self.number()]))
        inputs, strides = self.many(self.pointer, n), self.many(self.number, n)
        return capi.BNNSArithmeticFilterApplyBatch(
            self.filter, self.batch(), n, inputs, strides, self.pointer(), self.number()
        )

    def apply_arithmetic_backward(self) -> Any:
        n = int(self.draw.one([1, 2, 3, self.number()]))
        inputs, strides = self.many(self.pointer, n), self.many(self.number, n)
        deltas, delta_strides = self.many(self.descriptor, n), self.many(self.number, n)
        rest = (self.pointer(), self.number(), self.descriptor(), self.number())
        return capi.BNNSArithmeticFilterApplyBackwardBatch(
            self.filter, self.batch(), n, inputs, strides, deltas, delta_strides, *rest
        )

    def direct_activation(self) -> Any:
        p = garbage_struct(self.draw, capi.BNNSLayerParametersActivation)
        return capi.BNNSDirectApplyActivationBatch(p, None, self.batch(), self.number(), self.number())

    def apply_pooling(self) -> Any:
        pairs = [v for _ in range(3) for v in (self.pointer(), self.number())]
        if self.draw.chance(0.5):
            return capi.BNNSPoolingFilterApplyBatch(self.filter, self.batch(), *pairs)
        kind = garbage_number(self.draw) if self.draw.chance(0.3) else 0x40020
        return capi.BNNSPoolingFilterApplyBatchEx(self.filter, self.batch(), *pairs[:4], kind, *pairs[4:])

    def apply_pooling_backward(self) -> Any:
        pairs = [v for make in (self.pointer, self.descriptor) * 2 for v in (make(), self.number())]
        return capi.BNNSPoolingFilterApplyBackwardBatch(
            self.filter, self.batch(), *pairs, self.descriptor(), self.pointer(), self.number()
        )

    def get_pointer(self) -> Any:
        return capi.BNNSGetPointer(self.filter, self.number())

    def data_size(self) -> Any:
        return capi.BNNSNDArrayGetDataSize(self.descriptor())

    def allocation_size(self) -> Any:
        return capi.BNNSTensorGetAllocationSize(garbage_struct(self.draw, capi.BNNSTensor))

    def destroy(self) -> Any:
        return capi.BNNSFilterDestroy(self.filter)


def hostile(draw: Draw) -> Case:
    """Garbage in structs or arguments: any status will do, but no crash and no exception other than TypeError."""

    def run(_: Outcome) -> None:
        if draw.chance(0.5):
            create, structs = draw.one(CREATORS)
            arguments = [garbage_struct(draw, s) for s in structs]
            f = _attempt(lambda: create(*arguments, filter_parameters(draw)))
        else:
            f = good_filter(draw)
        if f is not None and not isinstance(f, capi.BNNSFilter):
            raise Mismatch(f"a creator gave {f!r}")
        garbage = Garbage(draw, f)
        calls = [
            garbage.apply,
            garbage.apply_batch,
            garbage.apply_backward,
            garbage.apply_arithmetic,
            garbage.apply_arithmetic_backward,
            garbage.apply_pooling,
            garbage.apply_pooling_backward,
            garbage.direct_activation,
            garbage.get_pointer,
            garbage.data_size,
            garbage.allocation_size,
            garbage.destroy,
        ]
        for _again in range(4):
            _attempt(draw.one(calls))

    return "hostile", run


class Mutating:
    """A stand-in for openbnns.capi: functions get their arguments with something changed in one or two of them."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw

    def __getattr__(self, name: str) -> Any:
        real = getattr(openbnns.capi, name)
        if not isinstance(real, FunctionType) or name.endswith("Destroy"):
            return real

        def call(*arguments: Any) -> Any:
            changed = list(arguments)
            count = int(self.draw.one([0, 1, 1, 2]))
            for k in self.draw.rng.permutation(len(changed))[:count]:  # each once: a NULL must not become an address
                changed[k] = self.change(changed[k])
            result = _attempt(lambda: real(*changed))
            return -1 if result is None and "Create" not in name else result

        return call

    def change(self, value: Any) -> Any:
        """Something like ``value``, but wrong in one place."""
        draw = self.draw
        if isinstance(value, int):
            return int(draw.one([value + 1, max(value - 1, 0), -value, 2 * value, garbage_number(draw)]))
        if isinstance(value, np.ndarray):
            with np.errstate(invalid="ignore"):  # garbage may hold signaling NaNs
                wide = value.astype(np.float64)
            return draw.one([
                value[:-1], value[: value.size // 2], value[1:], value[::2], wide, None,
                np.ascontiguousarray(value).view(np.uint8)[1:-3], garbage_pointer(draw, ""),
            ])  # fmt: skip
        if isinstance(value, list):
            if value and draw.chance(0.8):
                k = int(draw.rng.integers(len(value)))
                return [*value[:k], self.change(value[k]), *value[k + 1 :]]
            return draw.one([value[1:], [*value, *value], None])
        if isinstance(value, openbnns.capi.BNNSFilter) or not hasattr(value, "_kinds"):
            return None
        return self.change_field(value)

    def change_field(self, struct: Any) -> Any:
        copy = struct.copy()
        name = self.draw.one(list(copy._kinds))
        old = getattr(copy, name)
        new = self.change(old) if isinstance(old, (list, np.ndarray)) or hasattr(old, "_kinds") else old
        if isinstance(old, float):
            new = float(self.draw.one([0.0, -1.0, np.nan, np.inf, 1e300]))
        elif isinstance(old, int):
            new = self.change(int(old))
        elif old is None:
            new = garbage_pointer(self.draw, name)
        try:
            setattr(copy, name, new)
        except (TypeError, ValueError):  # the field's own type forbids it
            return struct
        return copy


def mutated(draw: Draw) -> Case:
    """A case of any family with a few wrong arguments: clean answers, and nothing written outside the outputs."""
    family = draw.one(list(ORDERLY.values()))

    def run(out: Outcome) -> None:
        title, call = family(draw)
        calls.behind = Mutating(draw)
        try:
            call(out)
        finally:
            calls.behind = capi
        for name, memory, _ in out.memory:
            guards = np.concatenate([memory[:GUARD], memory[-GUARD:]])
            expected = np.full_like(guards, PATTERN) if guards.dtype == np.float32 else None
            intact = (guards == expected).all() if expected is not None else (guards.view(np.uint8) == 0xA5).all()
            if not intact:
                raise Mismatch(f"{name}: guards were overwritten\n  {title}")

    return "mutated", run


def _attempt(call: Callable[[], Any]) -> Any:
    """A TypeError is a fair answer to an impossible Python type; anything else that escapes is a bug."""
    try:
        return call()
    except TypeError as error:
        if "BNNS" not in str(error):
            raise
        return None


FAMILIES = {"hostile": hostile, "mutated": mutated}
