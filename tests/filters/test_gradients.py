"""Gradients: the native engine against the reference for every case, and the reference against finite differences.

Cotangents are random: with ones, a softmax backward that returns zeros would pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openbnns
from cases import ALL, activation, arithmetic, convolution, fully_connected, transposed_convolution
from cases._base import INFERENCE_ONLY, Act, assert_trustworthy, native, parameters, reference
from helpers import Array, Storage, assert_within, vector
from openbnns import capi

TRAINED = [case for case in ALL if case.trains]


@pytest.mark.parametrize("case", parameters(TRAINED, "backward_rows"))
def test_gradients(case: Any) -> None:
    ours, theirs = native(case), reference(case)
    assert set(ours.gradients) == set(case.gradients)
    bounds = case.backward_bounds(ours.values, case.y.decode(ours.y))
    for name, expected in theirs.gradients.items():
        assert_trustworthy(case, name, expected)
        assert_within(ours.gradients[name], expected, bounds[name], f"{case.id}: {name}")


# Finite differences of the float64 forward, through the filter: shapes, layouts and roles included.

CHECKED = [
    case
    for case in [*fully_connected.CASES, *convolution.CASES, *transposed_convolution.CASES]
    if case.trains and case.x.count * case.batch <= 3000 and case.y.count * case.batch <= 6000
][::2]


def canonical(operand: Any, values: Array) -> Array:
    """``(batch, *size)`` in the order in which the filter computes."""
    moved = values.transpose(0, *(1 + axis for axis in operand.order))
    return moved.reshape(len(values), *operand.shape)


@pytest.mark.parametrize("case", parameters(CHECKED, "backward_rows"))
def test_finite_differences(case: Any) -> None:
    """<v, F(p + hu) - F(p - hu)> / 2h = <gradient(v), u> for input, weights and bias each."""
    run, values = case.run(), case.values()
    made = run.filter
    point = {"x": canonical(made.input, values["x"]), "w": canonical(made.weights, values["w"])[0]}
    point["b"] = canonical(made.bias, values["b"])[0] if case.b else None
    rng, h = case.generator(9), 1e-6

    def forward(**changes: Array) -> Array:
        p = point | changes
        return np.asarray(made.reference_forward(p["x"], p["w"], p["b"], made.activation))

    y = forward()
    v = rng.standard_normal(y.shape)
    wanted = {"dx", "dw"} | ({"db"} if case.b else set())
    gradients = made.reference_backward(point["x"], y, v, point["w"], point["b"], wanted)
    for name in sorted(wanted):
        u = rng.standard_normal(point[name[1]].shape)
        moved = {s: forward(**{name[1]: point[name[1]] + s * h * u}) for s in (-1, 1)}
        numeric, analytic = np.vdot(v, moved[1] - moved[-1]) / (2 * h), np.vdot(gradients[name], u)
        scale = np.linalg.norm(gradients[name]) * np.linalg.norm(u)
        assert abs(numeric - analytic) <= 2e-7 * scale + 1e-6, f"{case.id}: {name}: {numeric} against {analytic}"


STANDALONE = [case for case in activation.EVERY_FUNCTION + activation.AXES if case.activation.name != "Identity"]


@pytest.mark.parametrize("case", parameters(STANDALONE, "backward_rows"))
def test_finite_differences_of_activations(case: Any) -> None:
    made, values = case.run().filter, case.values()
    x = canonical(made.input, values["x"])
    rng, h = case.generator(9), 1e-6
    v, u = rng.standard_normal(x.shape), rng.standard_normal(x.shape)
    f = made.activation
    numeric = np.vdot(
        v, made.reference_forward(x + h * u, None, None, f) - made.reference_forward(x - h * u, None, None, f)
    ) / (2 * h)
    analytic = np.vdot(made.reference_backward(x, None, v, None, None, {"dx"})["dx"], u)
    assert abs(numeric - analytic) <= 1e-6 * (1 + np.linalg.norm(v * u)), f"{case.id}: {numeric} against {analytic}"


# What may not be trained.


@pytest.mark.covers("core.act.fused_restrictions")
@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("act", [pytest.param(a, id=a.name) for a in INFERENCE_ONLY])
def test_inference_only_activations_refuse_backward(act: Act, engine: str) -> None:
    for case in (
        fully_connected.case("refused", 7, 5, 2, activation=act),
        convolution.case("refused", 2, 3, (5, 5), (3, 3), activation=act),
        arithmetic.case("refused", "Add", vector(7), vector(7), activation=act),
    ):
        run = case.run()
        with openbnns.engine(engine):
            run.forward()
            gradients = run.new_gradients()
            with pytest.raises(AssertionError, match="cannot be trained"):
                run.backward(into=gradients)
        for name, storage in gradients.items():
            storage.assert_unchanged(name)


@pytest.mark.covers("core.act.fused_restrictions")
@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("name", ["LeakyRectifiedLinear", "ClampedLeakyRectifiedLinear"])
@pytest.mark.parametrize("alpha", [0.0, -0.5])
def test_leaky_needs_a_positive_alpha_in_training(name: str, alpha: float, engine: str) -> None:
    run = fully_connected.case("refused", 7, 5, 2, activation=Act(name, alpha, 1.0)).run()
    with openbnns.engine(engine):
        run.forward()
        with pytest.raises(AssertionError, match="alpha must be above 0"):
            run.backward()


# GELUApproximationSigmoid is not one-to-one either, but BNNS lists it as possible: the larger of the two inputs counts.
NEED_INPUT = [
    *(a for a in activation.FUNCTIONS if a.name not in activation.FROM_OUTPUT | {"GELUApproximationSigmoid"}),
    Act("Threshold", 0.1, 0.6), Act("LeakyRectifiedLinear", -0.5), Act("ClampedLeakyRectifiedLinear", 0.0, 1.0),
]  # fmt: skip


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("act", [pytest.param(a, id=a.name) for a in NEED_INPUT])
def test_some_activations_need_their_input(act: Act, engine: str) -> None:
    """From the output alone the derivative is not determined."""
    case = activation.case("from-y", act, activation._shape(act), given="y")
    run = case.run()
    with openbnns.engine(engine):
        run.forward()
        with pytest.raises(AssertionError, match="Pass the forward input"):
            run.backward()


@pytest.mark.covers("core.act.fused_from_output")
@pytest.mark.parametrize("engine", ["native", "reference"])
def test_fused_slope_is_taken_from_the_given_output(engine: str) -> None:
    """Whatever `out` holds decides the derivative, not what the forward pass computed."""
    case = fully_connected.case("slope", 7, 5, 3, activation=Act("Tanh"))
    values = case.values()
    run = case.run(values)
    invented = np.float32(0.9 * np.tanh(case.generator(5).standard_normal((3, 5)))).astype(np.float64)
    run.y.write(invented)
    with openbnns.engine(engine):
        db = run.backward()["db"].read()
    assert_within(db, (values["dy"] * (1 - invented**2)).sum(axis=0)[None], 1e-6, "db")


# Ties and kinks, by definition.


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_ties_of_minimum_and_maximum_go_to_the_first(engine: str) -> None:
    a = np.array([[1.0, 2.0, 3.0, -1.0]])
    b = np.array([[1.0, 1.0, 4.0, -1.0]])
    for function, first in (("Minimum", [1, 0, 1, 1]), ("Maximum", [1, 1, 0, 1])):
        run = arithmetic.case("ties", function, vector(4), vector(4)).run(
            {"a0": a, "a1": b, "dy": np.full((1, 4), 2.0)}
        )
        with openbnns.engine(engine):
            gradients = run.backward()
        assert gradients["da0"].read().tolist() == [[2.0 * k for k in first]]
        assert gradients["da1"].read().tolist() == [[2.0 * (1 - k) for k in first]]


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("given", ["x", "y"])
def test_slopes_at_kinks(engine: str, given: str) -> None:
    """Flat pieces include their edges."""
    for act, at in [
        (Act("RectifiedLinear"), 0.0),
        (Act("Clamp", -0.5, 0.5), 0.5),
        (Act("Clamp", -0.5, 0.5), -0.5),
        (Act("ReLU6"), 6.0),
    ]:
        run = activation.case("kink", act, vector(20), given=given).run(
            {"x": np.full((1, 20), at), "dy": np.ones((1, 20))}
        )
        with openbnns.engine(engine):
            run.forward()
            assert not run.backward()["dx"].read().any(), f"{act.name} at {at} from {given}"


@pytest.mark.covers("arith.role.constant")
@pytest.mark.parametrize("engine", ["native", "reference"])
def test_constants_have_no_gradient(engine: str) -> None:
    """A Constant's gradient memory is left alone even when it is given."""
    case = arithmetic.case("constant", "Multiply", vector(7), vector(7), roles=(arithmetic.S, arithmetic.C), batch=2)
    run = case.run()
    untouched = Storage(vector(7))
    dx = Storage(vector(7), 2)
    with openbnns.engine(engine):
        run.forward()
        status = capi.BNNSArithmeticFilterApplyBackwardBatch(
            run.filter,
            2,
            2,
            [s.elements for s in run.operands],
            [0, 0],
            [dx.descriptor(), untouched.descriptor()],
            [0, 0],
            None,
            0,
            run.dy.descriptor(),
            0,
        )
    assert status == 0, openbnns.last_error()
    untouched.assert_unchanged("gradient of the constant")
    assert_within(dx.read(), run.dy.read() * run.operands[1].read(), 1e-6, "dx")
