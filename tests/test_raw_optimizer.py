"""Optimizer steps by number, without the interpreter: values may change from step to step, kinds may not."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import openbnns as bn
import raw
from helpers import assert_bitwise
from openbnns import capi, engines
from openbnns.capi import numbers
from raw import described, floats


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def optimizer_arrays(rng: np.random.Generator, roles: int) -> list[list[Any]]:
    sizes = [(3, 4), (5,), (1,), (2, 3, 2)]
    groups = [[floats(rng, *size) for size in sizes] for _ in range(2)]
    return [*groups, [np.abs(floats(rng, *size)) for _ in range(roles) for size in sizes]]


FIELDS: list[tuple[int, Any, int]] = [
    (1, capi.BNNSOptimizerSGDMomentumFields(learning_rate=0.1, momentum=0.9, gradient_scale=0.5, nesterov=True), 1),
    (1, capi.BNNSOptimizerSGDMomentumFields(learning_rate=0.1, gradient_scale=1), 0),
    (
        2,
        capi.BNNSOptimizerAdamFields(
            learning_rate=0.01, beta1=0.9, beta2=0.99, time_step=3, epsilon=1e-8, gradient_scale=1,
            clip_gradients=True, clip_gradients_min=-0.5, clip_gradients_max=0.75,
        ),
        2,
    ),
    (
        3,
        capi.BNNSOptimizerRMSPropFields(
            learning_rate=0.01, alpha=0.9, epsilon=1e-6, centered=True, momentum=0.5, gradient_scale=1,
            regularization_scale=0.1, regularization_func=capi.BNNSOptimizerRegularizationL2,
        ),
        3,
    ),
    (
        11,
        capi.BNNSOptimizerAdamWithClippingFields(
            learning_rate=0.01, beta1=0.9, beta2=0.99, time_step=1, epsilon=1e-8, gradient_scale=1,
            clipping_func=capi.BNNSOptimizerClippingByNorm, clip_gradients_max_norm=0.5,
        ),
        3,
    ),
]  # fmt: skip


def c_fields(fields: Any) -> bytes:
    """The struct as C lays it out: each field aligned for its type."""
    kinds = {bool: ("?", 1), float: ("f", 4)}
    packed = b""
    for name in fields._kinds:
        value = getattr(fields, name)
        letter, size = kinds.get(type(value), ("I", 4))
        packed += bytes(-len(packed) % size) + struct.pack(letter, value if letter != "I" else int(value))
    return packed + bytes(-len(packed) % 4)


@pytest.mark.parametrize(("function", "fields", "roles"), FIELDS)
def test_optimizers(function: int, fields: Any, roles: int, rng: np.random.Generator) -> None:
    engines._core.forget_optimizers()
    bn.compat.adam_epsilon_torch = False  # which drops the rules that Python keeps
    fields = fields.copy()
    step = capi.BNNSOptimizerStep
    arrays = optimizer_arrays(rng, roles)
    twins = [[array.copy() for array in group] for group in arrays]

    def given(groups: list[list[Any]]) -> list[Any]:
        return [len(groups[0]), *([described(array) for array in group] or None for group in groups), None]

    packed = np.frombuffer(c_fields(fields), np.uint8)
    assert raw.call(numbers.of_function("BNNSOptimizerStep"), function, packed, *given(arrays)) == 1, "not known"
    assert step(function, fields, *given(arrays)) == 0, bn.last_error()
    assert step(function, fields, *given(twins)) == 0
    number = numbers.of_function("BNNSOptimizerStep")
    for turn in range(3):
        if hasattr(fields, "time_step"):
            fields.time_step += 1
        packed = np.frombuffer(c_fields(fields), np.uint8)
        assert raw.call(number, function, packed, *given(arrays)) == 0
        assert step(function, fields, *given(twins)) == 0
        for group, twin in zip(arrays, twins, strict=True):
            for array, expected in zip(group, twin, strict=True):
                assert_bitwise(array, expected, f"{fields}, step {turn}")
    before = [array.copy() for group in arrays for array in group]
    w, g = arrays[0], arrays[1]
    descriptors = given(arrays)
    short = [described(array) for array in w[:1]]
    wrong: list[list[Any]] = [
        [4, None, *descriptors[2:]],
        [4, descriptors[1], None, *descriptors[3:]],
        [1, short, short, descriptors[3], None],  # shared memory
        [1, short, [described(g[1])], descriptors[3], None],  # another shape
        [1, [described(w[0], stride=[1, 8, 0, 0, 0, 0, 0, 0])], [described(g[0])], descriptors[3], None],
        [1, [None], [described(g[0])], descriptors[3], None],
        [2**40, *descriptors[1:]],
    ]
    if roles:
        wrong.append([4, *descriptors[1:3], None, None])
    for arguments in wrong:
        assert raw.call(number, function, packed, *arguments) == 1
    if hasattr(fields, "time_step"):
        fields.time_step = 0
        assert raw.call(number, function, np.frombuffer(c_fields(fields), np.uint8), *descriptors) == 1
    for array, old in zip((array for group in arrays for array in group), before, strict=True):
        assert_bitwise(array, old, "what a declined step leaves")
    with bn.engine("reference"):
        assert raw.call(number, function, packed, *descriptors) == 1
