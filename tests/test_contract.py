"""What every filter promises, for every case: purity, linearity, repeatability, flags, memory it may touch.

Scratch memory is filled with NaN for the whole module, so that relying on what it held shows.
"""

from __future__ import annotations

import array
import ctypes
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns
from cases import (
    ALL,
    activation,
    arithmetic,
    convolution,
    fully_connected,
    padding,
    permute,
    pooling,
    resize,
    transposed_convolution,
)
from cases._base import Act, native, parameters, succeed
from helpers import EPSILON, Storage, assert_bitwise, assert_within, image, vector
from openbnns import capi, engines

TRAINED = [case for case in ALL if case.trains]


@pytest.fixture(autouse=True, scope="module")
def poisoned_scratch() -> Iterator[None]:
    engines._core.set_scratch_poison(True)
    yield
    engines._core.set_scratch_poison(False)


def trained(case: Any, values: Any = None, threads: int = 0, **options: Any) -> tuple[Any, dict[str, Storage]]:
    """A run after forward and backward, with its gradients."""
    run = case.run(values, threads)
    run.forward()
    return run, run.backward(**options)


# Purity: nothing but the results is written.


@pytest.mark.parametrize("case", parameters(ALL))
def test_inputs_and_guards_are_left_alone(case: Any) -> None:
    run = case.run()
    run.forward()
    run.y.assert_guards_intact("y")
    for name, storage in run.inputs.items():
        storage.assert_unchanged(name)
    if not case.trains:
        return
    run.y.before = run.y.memory.copy()
    for old in (None, {name: np.ones_like(storage.read()) for name, storage in run.new_gradients().items()}):
        gradients = run.backward(old=old)
        for name, storage in (run.inputs | {"y": run.y}).items():
            storage.assert_unchanged(name)
        for name, storage in gradients.items():
            storage.assert_guards_intact(name)
            assert np.isfinite(storage.read()).all(), (
                f"{name} is not finite: uninitialised memory, or a gap that was read"
            )


# Linearity in dy.


@pytest.mark.parametrize("case", parameters(TRAINED))
def test_backward_of_zero_is_zero(case: Any) -> None:
    values = case.values()
    _, gradients = trained(case, {**values, "dy": np.zeros_like(values["dy"])})
    for name, storage in gradients.items():
        assert not storage.read().any(), f"{case.id}: {name}"


@pytest.mark.parametrize("case", parameters(TRAINED))
def test_backward_is_linear(case: Any) -> None:
    """Doubling dy doubles every bit; a sum of two gives the sum of the gradients."""
    values = case.values()
    other = case.values(seed=1)["dy"]
    run, first = trained(case, values)
    y = run.y.read()
    run.dy.write(2.0 * values["dy"])
    for name, storage in run.backward().items():
        doubled, expected = storage.raw(), np.float32(2.0) * first[name].raw()
        normal = np.abs(expected) >= 2.0**-120  # products of smaller ones are rounded twice
        assert_bitwise(doubled[normal], expected[normal], f"{case.id}: {name} of 2 dy")
    run.dy.write(other)
    second = run.backward()
    total = np.float32(values["dy"] + other).astype(np.float64)
    run.dy.write(total)
    magnitude = np.abs(values["dy"]) + np.abs(other) + np.abs(total)
    bounds = case.backward_bounds({**values, "dy": np.float32(magnitude).astype(np.float64)}, y)
    for name, storage in run.backward().items():
        assert_within(
            storage.read(), first[name].read() + second[name].read(), bounds[name], f"{case.id}: {name} of a sum"
        )


# Repeatability.


@pytest.mark.parametrize("case", parameters(ALL))
@pytest.mark.covers("core.params.threads")
def test_repeats_and_threads_give_the_same_bits(case: Any) -> None:
    """Twice on one filter, and with 1, 2 and 3 threads."""
    expected = native(case)
    for threads in (0, 1, 2, 3):
        run = case.run(expected.values, threads)
        for _ in range(2 if threads == 0 else 1):
            assert_bitwise(run.forward(), expected.y, f"{case.id}: y with {threads} threads")
            for name, storage in (run.backward() if case.trains else {}).items():
                assert_bitwise(storage.read(), expected.gradients[name], f"{case.id}: {name} with {threads} threads")


@pytest.mark.parametrize("case", parameters([case for case in ALL if case.batch > 1 and not case.couples_samples]))
@pytest.mark.covers("core.grad.batch_sum")
def test_a_batch_is_its_samples(case: Any) -> None:
    """Samples one at a time give the batch; gradients of parameters add up."""
    whole = native(case)
    values, y = whole.values, case.y.decode(whole.y)
    single = replace(case, batch=1)
    bounds = case.backward_bounds(values, y) if case.trains else {}
    forward = case.forward_bound(values, y)
    sums: dict[str, Any] = {}
    for n in range(case.batch):
        part = {name: v[n : n + 1] if len(v) == case.batch else v for name, v in values.items()}
        run = single.run(part)
        run.forward()
        assert_within(
            run.y.read(), y[n : n + 1] if len(y) == case.batch else y, 2 * forward[n : n + 1], f"{case.id}: y[{n}]"
        )
        if not case.trains:
            continue
        run.y.write(y[n : n + 1])
        for name, storage in run.backward().items():
            gradient = storage.read()
            if len(whole.gradients[name]) == case.batch:
                expected, bound = whole.gradients[name][n : n + 1], bounds[name][n : n + 1]
                assert_within(gradient, expected, 2 * bound, f"{case.id}: {name}[{n}]")
            else:
                sums[name] = sums.get(name, 0.0) + gradient
    for name, total in sums.items():
        assert_within(total, whole.gradients[name], 2 * bounds[name], f"{case.id}: sum of {name}")


# Flags and missing gradients.


@pytest.mark.parametrize("case", parameters(TRAINED))
@pytest.mark.covers("core.grad.accumulate", "core.grad.set")
def test_accumulate_adds_to_what_was_there(case: Any) -> None:
    expected = native(case)
    run = case.run(expected.values)
    run.forward()
    rng = case.generator(3)
    old = {name: np.float32(rng.standard_normal(g.shape)).astype(np.float64) for name, g in expected.gradients.items()}
    bounds = case.backward_bounds(expected.values, case.y.decode(expected.y))
    for name, storage in run.backward(old=old).items():
        total = old[name] + expected.gradients[name]
        room = 2 * bounds[name] + 2 * EPSILON * (np.abs(old[name]) + np.abs(expected.gradients[name]))
        assert_within(storage.read(), total, room, f"{case.id}: {name}")


@pytest.mark.parametrize("case", parameters([case for case in TRAINED if len(case.gradients) > 1]))
@pytest.mark.covers("core.grad.null_skip")
def test_one_gradient_alone_is_the_same(case: Any) -> None:
    expected = native(case)
    run = case.run(expected.values)
    run.forward()
    for name in case.gradients:
        assert_bitwise(run.backward([name])[name].read(), expected.gradients[name], f"{case.id}: {name} alone")
        others = [other for other in case.gradients if other != name]
        for other, storage in run.backward(others).items():
            assert_bitwise(storage.read(), expected.gradients[other], f"{case.id}: {other} without {name}")


FAMILIES = [
    fully_connected.case("contract", 17, 13, 3, activation=Act("Tanh")),
    convolution.case("contract", 4, 5, (7, 9), (3, 3), batch=3, activation=Act("Tanh")),
    convolution.case("contract-depthwise", 4, 4, (7, 9), (3, 3), groups=4, batch=3),
    transposed_convolution.case("contract", 4, 5, (4, 5), (3, 3), batch=3),
    activation.case("contract", Act("LeakyRectifiedLinear", 0.2), vector(17), batch=3, given="xy"),
    activation.case("contract-softmax", Act("Softmax"), image(3, 4, 5), batch=3, axis_flags=0b0101),
    pooling.case("contract", "Max", 4, (7, 9), (3, 3), step=(2, 2), batch=3, bias=True, generic=True),
    permute.case("contract", image(4, 3, 5), (2, 0, 1), batch=3),
    padding.case("contract", "Reflect", image(4, 3, 5), ((1, 2), (2, 0), (0, 1)), batch=3),
    resize.case("contract", "Linear", image(4, 3, 5), (10, 7, 4), batch=3),
    arithmetic.case("contract", "Multiply", vector(17), vector(17), batch=3, roles=(arithmetic.S, arithmetic.P)),
]


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("case", parameters(FAMILIES))
def test_no_gradient_at_all_is_fine(case: Any, engine: str) -> None:
    run = case.run()
    with openbnns.engine(engine):
        run.forward()
        run.backward([])


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("case", parameters(FAMILIES))
def test_an_empty_batch(case: Any, engine: str) -> None:
    """Outputs with a batch axis stay as they are; sums over no samples are zero, or what they were if accumulated."""
    run = case.run()
    batched = {name for name, storage in run.new_gradients().items() if storage.batch == case.batch}
    ones = {name: np.ones_like(storage.read()) for name, storage in run.new_gradients().items()}
    with openbnns.engine(engine):
        run.forward(batch=0)
        run.y.assert_unchanged("y")
        for name, storage in run.backward(batch=0).items():
            if name in batched:
                storage.assert_unchanged(name)
            else:
                assert not storage.read().any(), name
        for name, storage in run.backward(old=ones, batch=0).items():
            assert np.all(storage.read() == 1), name


# Memory in any form.


def forms(values: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Float32 values as every kind of buffer that a caller may hold."""
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    floats = (ctypes.c_float * flat.size)(*flat.tolist())
    keep = flat.copy()
    return {
        "address": (keep.ctypes.data, keep),
        "numpy": flat.copy(),
        "shaped numpy": flat.copy().reshape(values.shape),
        "bytearray": bytearray(flat.tobytes()),
        "memoryview": memoryview(bytearray(flat.tobytes())),
        "float memoryview": memoryview(flat.copy()),
        "array": array.array("f", flat.tolist()),
        "ctypes": floats,
        "uint8 numpy": flat.copy().view(np.uint8),
    }


def as_floats(memory: Any) -> np.ndarray[Any, Any]:
    return np.frombuffer(memory, np.float32)


FORMS = list(forms(np.zeros(1)))


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", parameters([c for c in FAMILIES if not c.id.startswith("arith")]))
def test_any_buffer_will_do(case: Any, form: str, engine: str) -> None:
    """Inputs, outputs, weights and gradients as any object with memory, or as plain addresses."""
    values = case.values()
    run = case.run(values)
    with openbnns.engine(engine):
        run.forward()
        expected = run.backward()
        made = {
            name: forms(run_values)[form]
            for name, run_values in {
                "x": run.x.elements,
                "y": np.zeros_like(run.y.elements),
                "dy": run.dy.elements,
                "w": run.w.elements if run.w else np.zeros(1),
                "b": run.b.elements if run.b else np.zeros(1),
                **{n: np.zeros_like(s.elements) for n, s in expected.items()},
            }.items()
        }
        keep = {name: memory[1] if form == "address" else memory for name, memory in made.items()}
        given = {name: memory[0] if form == "address" else memory for name, memory in made.items()}
        other = case.create(given["w"] if run.w else None, given["b"] if run.b else None, 0)
        succeed(capi.BNNSFilterApplyBatch(other, case.batch, given["x"], 0, given["y"], 0))
        delta = {name: case.gradient_tensor(name).descriptor(given[name]) for name in expected}
        succeed(
            capi.BNNSFilterApplyBackwardBatch(
                other,
                case.batch,
                given["x"],
                0,
                delta["dx"],
                0,
                given["y"],
                0,
                case.y.descriptor(given["dy"]),
                0,
                delta.get("dw"),
                delta.get("db"),
            )
        )
    assert_bitwise(as_floats(keep["y"]), run.y.elements, "y")
    for name, storage in expected.items():
        assert_bitwise(as_floats(keep[name]), storage.elements, name)


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("form", FORMS)
def test_any_buffer_will_do_for_arithmetic(form: str, engine: str) -> None:
    case = FAMILIES[-1]
    run = case.run()
    with openbnns.engine(engine):
        run.forward()
        expected = run.backward()
        arrays = {"a0": run.operands[0].elements, "a1": run.operands[1].elements, "dy": run.dy.elements}
        arrays |= {"y": np.zeros_like(run.y.elements), **{n: np.zeros_like(s.elements) for n, s in expected.items()}}
        made = {name: forms(a)[form] for name, a in arrays.items()}
        keep = {name: memory[1] if form == "address" else memory for name, memory in made.items()}
        given = {name: memory[0] if form == "address" else memory for name, memory in made.items()}
        succeed(
            capi.BNNSArithmeticFilterApplyBatch(run.filter, 3, 2, [given["a0"], given["a1"]], [0, 0], given["y"], 0)
        )
        deltas = [vector(17).descriptor(given["da0"]), vector(17).descriptor(given["da1"])]
        succeed(
            capi.BNNSArithmeticFilterApplyBackwardBatch(
                run.filter, 3, 2, (given["a0"], given["a1"]), (0, 0), deltas, (0, 0), given["y"], 0,
                vector(17).descriptor(given["dy"]), 0,
            )
        )  # fmt: skip
    assert_bitwise(as_floats(keep["y"]), run.y.elements, "y")
    for name, storage in expected.items():
        assert_bitwise(as_floats(keep[name]), storage.elements, name)


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("case", parameters([c for c in FAMILIES if not c.id.startswith("arith")]))
def test_read_only_and_strided_arrays(case: Any, engine: str) -> None:
    """Inputs may be read-only, outputs not; an array with gaps of its own is refused, never copied in secret."""
    run = case.run()
    x, y = run.x.elements.copy(), run.y.elements.copy()
    x.flags.writeable = False
    with openbnns.engine(engine):
        expected = run.forward()
        succeed(capi.BNNSFilterApplyBatch(run.filter, case.batch, x, 0, y, 0))
        assert_bitwise(y[run.y.places], expected, "y of a read-only input")
        succeed(capi.BNNSFilterApplyBatch(run.filter, case.batch, bytes(x), 0, y, 0))
        frozen = y.copy()
        frozen.flags.writeable = False
        assert capi.BNNSFilterApplyBatch(run.filter, case.batch, x, 0, frozen, 0) == -1
        assert "read-only" in str(openbnns.last_error())
        spaced = np.full(2 * y.size, 7.0, np.float32)
        assert capi.BNNSFilterApplyBatch(run.filter, case.batch, x, 0, spaced[::2], 0) == -1
        assert "not C-contiguous" in str(openbnns.last_error())
        assert np.all(spaced == 7.0)
        assert capi.BNNSFilterApplyBatch(run.filter, case.batch, np.repeat(x, 2)[::2], 0, y, 0) == -1
        assert "not C-contiguous" in str(openbnns.last_error())


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("case", parameters(FAMILIES))
def test_a_short_buffer_is_refused_before_anything_is_written(case: Any, engine: str) -> None:
    run = case.run()
    with openbnns.engine(engine):
        run.forward()
        run.y.before = run.y.memory.copy()
        for storage in (run.y, run.operands[0] if hasattr(run, "operands") else run.x):
            whole = storage.elements
            storage.elements = whole[:-1]
            with pytest.raises(AssertionError, match="Pass a larger buffer"):
                run.forward()
            storage.elements = whole
        run.y.assert_unchanged("y")
        for name in case.gradients:
            gradients = run.new_gradients()
            whole = gradients[name].elements
            gradients[name].elements = whole[:-1]
            with pytest.raises(AssertionError, match="Pass a larger buffer"):
                run.backward(into=gradients)
            gradients[name].elements = whole
            for other, storage in gradients.items():
                storage.assert_unchanged(other)


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
