"""The contract of test_contract.py for the cases of twelve families, whose shapes reach every kernel, within their bounds.

Scratch memory is filled with NaN for the whole module, so that relying on what it held shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns
from cases import ALL, activation
from cases._base import Results, native, parameters, succeed
from helpers import EPSILON, Array, Storage, assert_bitwise, assert_within
from openbnns import capi

pytestmark = pytest.mark.usefixtures("poisoned_scratch")


@pytest.mark.parametrize("case", parameters(ALL))
@pytest.mark.covers(
    "core.grad.accumulate", "core.grad.batch_sum", "core.grad.null_skip", "core.grad.set", "core.params.threads"
)
def test_a_case(case: Any) -> None:
    """One test for all of the contract, because finding the bounds takes longer than the calls."""
    expected = native(case)
    run = case.run(expected.values)
    _only_results_are_written(case, run)
    bounds = case.backward_bounds(expected.values, case.y.decode(expected.y)) if case.trains else {}
    if case.trains:
        _is_linear(case, run, expected)
        _accumulates(case, run, expected, bounds)
        _gradients_may_be_left_out(case, run, expected)
    _threads_change_nothing(case, expected)
    if case.batch > 1 and not case.couples_samples:
        _a_batch_is_its_samples(case, expected, bounds)


def _only_results_are_written(case: Any, run: Any) -> None:
    run.forward()
    run.y.assert_guards_intact("y")
    for name, storage in run.inputs.items():
        storage.assert_unchanged(name)
    run.y.before = run.y.memory.copy()
    ones = {name: np.ones_like(storage.read()) for name, storage in run.new_gradients().items()} if case.trains else {}
    for old in (None, ones) if case.trains else ():
        gradients = run.backward(old=old)
        for name, storage in (run.inputs | {"y": run.y}).items():
            storage.assert_unchanged(name)
        for name, storage in gradients.items():
            storage.assert_guards_intact(name)
            assert np.isfinite(storage.read()).all(), f"{name}: uninitialised memory, or a gap that was read"


def _is_linear(case: Any, run: Any, expected: Results) -> None:
    """Zero gives zero, doubling dy doubles every bit, and a sum of two gives the sum of the gradients."""
    dy, other, y = expected.values["dy"], case.values(seed=1)["dy"], run.y.read()
    first = run.backward()
    run.dy.write(np.zeros_like(dy))
    for name, storage in run.backward().items():
        assert not storage.read().any(), f"{name} of zero"
    run.dy.write(2.0 * dy)
    for name, storage in run.backward().items():
        doubled, twice = storage.raw(), np.float32(2.0) * first[name].raw()
        normal = np.abs(twice) >= 2.0**-120  # products of smaller ones are rounded twice
        assert_bitwise(doubled[normal], twice[normal], f"{name} of 2 dy")
    run.dy.write(other)
    second = run.backward()
    total = np.float32(dy + other).astype(np.float64)
    run.dy.write(total)
    magnitude = np.abs(dy) + np.abs(other) + np.abs(total)
    bounds = case.backward_bounds({**expected.values, "dy": np.float32(magnitude).astype(np.float64)}, y)
    for name, storage in run.backward().items():
        assert_within(storage.read(), first[name].read() + second[name].read(), bounds[name], f"{name} of a sum")
    run.dy.write(dy)


def _accumulates(case: Any, run: Any, expected: Results, bounds: Mapping[str, Array]) -> None:
    rng = case.generator(3)
    old = {name: np.float32(rng.standard_normal(g.shape)).astype(np.float64) for name, g in expected.gradients.items()}
    for name, storage in run.backward(old=old).items():
        total = old[name] + expected.gradients[name]
        room = 2 * bounds[name] + 2 * EPSILON * (np.abs(old[name]) + np.abs(expected.gradients[name]))
        assert_within(storage.read(), total, room, f"{name} accumulated")


def _gradients_may_be_left_out(case: Any, run: Any, expected: Results) -> None:
    for name in case.gradients if len(case.gradients) > 1 else ():
        for wanted in ([name], [other for other in case.gradients if other != name]):
            for given, storage in run.backward(wanted).items():
                assert_bitwise(storage.read(), expected.gradients[given], f"{given} of {wanted}")


def _threads_change_nothing(case: Any, expected: Results) -> None:
    """With 1, 3 and 64 threads as with the usual number, and twice on one filter."""
    for threads in (1, 3, 64):
        run = case.run(expected.values, threads)
        for _ in range(2 if threads == 3 else 1):
            assert_bitwise(run.forward(), expected.y, f"y with {threads} threads")
            for name, storage in (run.backward() if case.trains else {}).items():
                assert_bitwise(storage.read(), expected.gradients[name], f"{name} with {threads} threads")


def _a_batch_is_its_samples(case: Any, whole: Results, bounds: Mapping[str, Array]) -> None:
    values, y, single = whole.values, case.y.decode(whole.y), replace(case, batch=1)
    forward = case.forward_bound(values, y)
    sums: dict[str, Any] = {}
    for n in range(case.batch):
        run = single.run({name: v[n : n + 1] if len(v) == case.batch else v for name, v in values.items()})
        run.forward()
        sample = y[n : n + 1] if len(y) == case.batch else y
        assert_within(run.y.read(), sample, 2 * forward[n : n + 1], f"y[{n}]")
        if not case.trains:
            continue
        run.y.write(y[n : n + 1])
        for name, storage in run.backward().items():
            gradient = storage.read()
            if len(whole.gradients[name]) == case.batch:
                expected, bound = whole.gradients[name][n : n + 1], bounds[name][n : n + 1]
                assert_within(gradient, expected, 2 * bound, f"{name}[{n}]")
            else:
                sums[name] = sums.get(name, 0.0) + gradient
    for name, total in sums.items():
        assert_within(total, whole.gradients[name], 2 * bounds[name], f"sum of {name}")


# An activation may work in place.


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("case", parameters(activation.EVERY_FUNCTION + activation.AXES))
def test_activations_in_place(case: Any, engine: str) -> None:
    run = case.run()
    memory = Storage(case.x, case.batch, case.gap, run.x.read())
    with openbnns.engine(engine):
        expected = run.forward()
        gradients = run.backward()
        succeed(capi.BNNSFilterApplyBatch(run.filter, case.batch, memory.elements, 0, memory.elements, 0))
        assert_bitwise(memory.raw(), expected, "y onto x")
        x, y = run.given()
        dx = run.dy.descriptor()
        succeed(
            capi.BNNSFilterApplyBackwardBatch(
                run.filter,
                case.batch,
                x,
                run.x.stride,
                dx,
                run.dy.stride,
                y,
                run.y.stride,
                dx,
                run.dy.stride,
                None,
                None,
            )
        )
    assert_bitwise(run.dy.raw(), gradients["dx"].raw(), "dx onto dy")
