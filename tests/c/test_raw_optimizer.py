"""Optimizer steps by number, without the interpreter: values may change from step to step, kinds may not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openbnns as bn
import raw
from helpers import assert_bitwise
from openbnns import capi, engines
from openbnns.capi import numbers
from raw import described
from raw_problems import FIELDS, c_fields, optimizer_arrays


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


def changed(fields: Any, names: str, factor: float) -> Any:
    """The same kind of optimizer with other values."""
    other = fields.copy()
    for name in names.split():
        if hasattr(other, name):
            setattr(other, name, float(np.float32(getattr(other, name) * factor)))
    return other


VALUES = (
    "learning_rate momentum beta1 beta2 alpha epsilon gradient_scale regularization_scale clip_gradients_min "
    "clip_gradients_max clip_gradients_max_norm clip_gradients_use_norm"
)
MORE: list[tuple[int, Any, int]] = [
    *((1, capi.BNNSOptimizerSGDMomentumFields(
        learning_rate=0.1, momentum=0.75, gradient_scale=0.5, nesterov=nesterov, sgd_momentum_variant=variant), 1)
      for variant in range(3) for nesterov in (False, True)),
    (4, capi.BNNSOptimizerAdamFields(
        learning_rate=0.01, beta1=0.5, beta2=0.75, time_step=2, epsilon=1e-8, gradient_scale=0.5,
        regularization_scale=0.25), 2),
    (7, capi.BNNSOptimizerSGDMomentumWithClippingFields(
        learning_rate=0.1, momentum=0.5, gradient_scale=2.0, clipping_func=capi.BNNSOptimizerClippingByGlobalNorm,
        clip_gradients_max_norm=0.5, clip_gradients_use_norm=3.0), 1),
]  # fmt: skip


@pytest.mark.parametrize("scale_first", (False, True))
@pytest.mark.parametrize(("function", "fields", "roles"), FIELDS + MORE)
def test_a_schedule_stays_in_native_code(
    function: int, fields: Any, roles: int, scale_first: bool, rng: np.random.Generator
) -> None:
    """All values change at every step, as Python would see them if it were asked; choices are those of the first one."""
    bn.compat.optimizer_scale_before_clip = scale_first  # which drops what is known
    try:
        arrays = optimizer_arrays(rng, roles)
        twins = [[array.copy() for array in group] for group in arrays]

        def given(groups: list[list[Any]]) -> list[Any]:
            return [len(groups[0]), *([described(array) for array in group] or None for group in groups), None]

        fields = changed(fields, VALUES, 1.0)
        for groups in (arrays, twins):
            assert capi.BNNSOptimizerStep(function, fields, *given(groups)) == 0, bn.last_error()
        number = numbers.of_function("BNNSOptimizerStep")
        for turn in range(1, 6):
            other = changed(fields, VALUES, 1.0 - 0.07 * turn)
            if hasattr(other, "time_step"):
                other.time_step = fields.time_step + turn
            assert raw.call(number, function, np.frombuffer(c_fields(other), np.uint8), *given(arrays)) == 0
            assert capi.BNNSOptimizerStep(function, other, *given(twins)) == 0, bn.last_error()
            for group, twin in zip(arrays, twins, strict=True):
                for array, expected in zip(group, twin, strict=True):
                    assert_bitwise(array, expected, f"{other}, step {turn}")
        assert numbers.of_function("BNNSOptimizerStep") == number, "nothing was dropped"
    finally:
        bn.compat.optimizer_scale_before_clip = False


@pytest.mark.parametrize(("function", "fields", "roles"), FIELDS + MORE)
def test_values_that_python_refuses_are_declined(
    function: int, fields: Any, roles: int, rng: np.random.Generator
) -> None:
    arrays = optimizer_arrays(rng, roles)
    given = [len(arrays[0]), *([described(array) for array in group] or None for group in arrays), None]
    assert capi.BNNSOptimizerStep(function, fields.copy(), *given) == 0, bn.last_error()
    number = numbers.of_function("BNNSOptimizerStep")
    before = [array.copy() for group in arrays for array in group]
    refused = 0
    for name in (*VALUES.split(), "time_step"):
        for value in (float("nan"), float("inf"), -1.0, 1.0, -float("inf")):
            if not hasattr(fields, name) or getattr(fields, name) == 0.0:
                continue
            other = fields.copy()
            setattr(other, name, value)
            packed = np.frombuffer(c_fields(other), np.uint8)
            if capi.BNNSOptimizerStep(function, other, *given) != 0:
                refused += 1
                assert raw.call(number, function, packed, *given) == 1, (name, value)
            for place, old in zip((array for group in arrays for array in group), before, strict=True):
                place[...] = old
    assert refused >= 5
