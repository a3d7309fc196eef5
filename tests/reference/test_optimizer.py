"""The reference optimizers and clipping against steps written out for single numbers."""

import dataclasses
import itertools
import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openbnns.parameters.optimizer import (
    Adam,
    Clipping,
    ClippingFunction,
    Optimizer,
    Preparation,
    Regularization,
    RMSProp,
    SGDMomentum,
)
from openbnns.reference import clipping, optimizer

Array = npt.NDArray[np.float64]
STEPS = 10
SHAPES = [(3, 4), (5,), (1, 2, 3)]


def generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng([2026, *seed])


def tensors(*seed: int) -> list[Array]:
    return [generator(*seed, k).standard_normal(shape) for k, shape in enumerate(SHAPES)]


# ---------------------------------------------------------------------------------------------------------------------
# Optimizers: the update of one number, written out, with the accumulators in a list that is changed in place


def sgd_number(o: SGDMomentum, w: float, g: float, a: list[float]) -> float:
    lr, m = o.learning_rate, o.momentum
    if m == 0:
        return w - lr * g
    old = a[0]
    if o.variant == 0:
        a[0] = m * old - lr * g
        return w + (a[0] + m * (a[0] - old) if o.nesterov else a[0])
    if o.nesterov:
        a[0] = m * old + g
        return w - lr * (m * a[0] + g)
    if o.variant == 1:
        a[0] = m * old + g
        return w - lr * a[0]
    a[0] = m * old + lr * g
    return w - a[0]


def adam_number(o: Adam, w: float, g: float, a: list[float]) -> float:
    t = o.time_step
    a[0] = o.beta1 * a[0] + (1 - o.beta1) * g
    a[1] = o.beta2 * a[1] + (1 - o.beta2) * g**2
    v = a[1]
    if o.amsgrad:
        a[2] = v = max(a[2], v)
    if o.corrected_epsilon:
        root = math.sqrt(v / (1 - o.beta2**t)) + o.epsilon
    else:
        root = (math.sqrt(v) + o.epsilon) / math.sqrt(1 - o.beta2**t)
    decay = o.learning_rate * o.preparation.regularization_scale * w if o.decoupled_decay else 0.0
    return float(w - decay - o.learning_rate * a[0] / (1 - o.beta1**t) / root)


def rms_number(o: RMSProp, w: float, g: float, a: list[float]) -> float:
    a[0] = o.alpha * a[0] + (1 - o.alpha) * g**2
    s = a[0]
    if o.centered:
        a[1] = o.alpha * a[1] + (1 - o.alpha) * g
        s -= a[1] ** 2
    move = -o.learning_rate * g / (math.sqrt(max(s, 0.0)) + o.epsilon)
    if o.momentum != 0:
        a[-1] = move = o.momentum * a[-1] + move
    return w + move


def prepared_number(p: Preparation, w: float, g: float, norm: float, global_norm: float, penalty: bool) -> float:
    """g of one number; the norms are those of its tensor and of all tensors."""
    clip = p.clipping
    before, after = (p.gradient_scale, 1.0) if p.scale_before_clip else (1.0, p.gradient_scale)
    g, norm, global_norm = before * g, abs(before) * norm, abs(before) * global_norm
    match clip.function:
        case ClippingFunction.BY_VALUE:
            g = min(max(g, clip.minimum), clip.maximum)
        case ClippingFunction.BY_NORM:
            g *= min(1.0, clip.max_norm / norm)
        case ClippingFunction.BY_GLOBAL_NORM:
            g *= min(1.0, clip.max_norm / (clip.use_norm or global_norm))
    g *= after
    if penalty and p.regularization == Regularization.L1:
        g += p.regularization_scale * ((w > 0) - (w < 0))
    if penalty and p.regularization == Regularization.L2:
        g += p.regularization_scale * w
    return g


def written_out_step(o: Any, parameters: list[Array], gradients: list[Array], accumulators: list[Array]) -> None:
    """One step, number by number, in place."""
    count, global_norm = len(parameters), math.sqrt(sum(float(v) ** 2 for g in gradients for v in g.flat))
    for k, (w, g) in enumerate(zip(parameters, gradients, strict=True)):
        norm = math.sqrt(sum(float(v) ** 2 for v in g.flat))
        mine = [accumulators[role * count + k] for role in range(o.roles)]
        for i in np.ndindex(w.shape):
            a = [float(array[i]) for array in mine]
            decoupled = isinstance(o, Adam) and o.decoupled_decay
            ready = prepared_number(o.preparation, float(w[i]), float(g[i]), norm, global_norm, not decoupled)
            rule: Any = {SGDMomentum: sgd_number, Adam: adam_number, RMSProp: rms_number}[type(o)]
            w[i] = rule(o, float(w[i]), ready, a)
            for array, value in zip(mine, a, strict=True):
                array[i] = value


def check_steps(o: Any, steps: int = STEPS) -> None:
    """Some steps against the written-out form; inputs stay unchanged."""
    parameters = tensors(0)
    accumulators = [np.zeros(shape) for _ in range(o.roles) for shape in SHAPES]
    expected, expected_accumulators = [w.copy() for w in parameters], [a.copy() for a in accumulators]
    for t in range(1, steps + 1):
        if isinstance(o, Adam):
            o = replace(o, time_step=float(t))
        gradients = tensors(1, t)
        before = [array.copy() for array in (*parameters, *gradients, *accumulators)]
        given = (*parameters, *gradients, *accumulators)
        parameters, accumulators = optimizer.step(o, parameters, gradients, accumulators)
        for array, copy in zip(given, before, strict=True):
            np.testing.assert_array_equal(array, copy)
        written_out_step(o, expected, gradients, expected_accumulators)
    for actual, wanted in zip((*parameters, *accumulators), (*expected, *expected_accumulators), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-11, atol=1e-14)


SGD_FORMS = [
    SGDMomentum(0.1, momentum, nesterov, variant)
    for momentum, nesterov, variant in itertools.product([0.0, 0.9], [False, True], [0, 1, 2])
]
ADAM_FORMS = [
    Adam(
        0.05,
        0.8,
        0.95,
        1e-2,
        amsgrad=amsgrad,
        decoupled_decay=decoupled,
        corrected_epsilon=corrected,
        preparation=Preparation(regularization=Regularization.L2, regularization_scale=0.1),
    )
    for amsgrad, decoupled, corrected in itertools.product([False, True], repeat=3)
]
RMS_FORMS = [
    RMSProp(0.05, 0.9, 1e-2, centered, momentum) for centered, momentum in itertools.product([False, True], [0.0, 0.7])
]
ALL_FORMS: list[Optimizer] = [*SGD_FORMS, *ADAM_FORMS, *RMS_FORMS]
ONE_OF_EACH = [SGD_FORMS[-1], ADAM_FORMS[0], ADAM_FORMS[-1], RMS_FORMS[-1]]


def form_name(form: Any) -> str:
    """The class and what differs from its defaults, but for the numbers that all cases share."""
    shared = {"learning_rate", "beta1", "beta2", "epsilon", "alpha", "preparation"}
    changed = [
        f"{f.name}={getattr(form, f.name):g}"
        for f in dataclasses.fields(form)
        if f.name not in shared and getattr(form, f.name) != f.default
    ]
    return " ".join([type(form).__name__, *changed])


@pytest.mark.parametrize("o", ALL_FORMS, ids=form_name)
def test_steps(o: Any) -> None:
    check_steps(o)


CLIPPINGS = [
    Clipping(),
    Clipping(ClippingFunction.BY_VALUE, minimum=-0.4, maximum=0.7),
    Clipping(ClippingFunction.BY_NORM, max_norm=1.5),
    Clipping(ClippingFunction.BY_GLOBAL_NORM, max_norm=2.5),
    Clipping(ClippingFunction.BY_GLOBAL_NORM, max_norm=2.5, use_norm=9.0),
    Clipping(ClippingFunction.BY_GLOBAL_NORM, max_norm=2.5, use_norm=2.0),
]


@pytest.mark.parametrize("scale_before_clip", [False, True])
@pytest.mark.parametrize("regularization", list(Regularization))
@pytest.mark.parametrize("rule", CLIPPINGS, ids=form_name)
@pytest.mark.parametrize("o", ONE_OF_EACH, ids=lambda o: type(o).__name__)
def test_preparation(o: Any, rule: Clipping, regularization: Regularization, scale_before_clip: bool) -> None:
    preparation = Preparation(1.7, rule, regularization, 0.3, scale_before_clip)
    check_steps(replace(o, preparation=preparation), steps=3)


def test_order_of_clip_and_scale() -> None:
    w, g = [np.zeros(2)], [np.array([1.0, -0.2])]
    clip = Clipping(ClippingFunction.BY_VALUE, -0.5, 0.5)
    first = optimizer.prepare(Preparation(2.0, clip), w, g)
    last = optimizer.prepare(Preparation(2.0, clip, scale_before_clip=True), w, g)
    np.testing.assert_array_equal(first[0], [1.0, -0.4])
    np.testing.assert_array_equal(last[0], [0.5, -0.4])


def test_penalties() -> None:
    w, g = [np.array([-2.0, 0.0, 3.0])], [np.zeros(3)]
    for regularization, expected in [(0, [0, 0, 0]), (1, [-0.5, 0, 0.5]), (2, [-1, 0, 1.5])]:
        preparation = Preparation(regularization=regularization, regularization_scale=0.5)
        np.testing.assert_array_equal(optimizer.prepare(preparation, w, g)[0], expected)
        np.testing.assert_array_equal(optimizer.prepare(preparation, w, g, penalize=False)[0], [0, 0, 0])


def test_measured_steps() -> None:
    (w,), accumulators = optimizer.step(
        SGDMomentum(0.1), [np.array([1.0, 2.0, 3.0, 4.0])], [np.array([0.5, -1.0, 2.0, 0.0])]
    )
    np.testing.assert_allclose(w, [0.95, 2.1, 2.8, 4.0])
    assert accumulators == []
    o, parameters, velocity = SGDMomentum(0.1, 0.9, variant=1), [np.array([10.0])], [np.zeros(1)]
    for w_expected, v_expected in [(9.8, 2.0), (9.42, 3.8)]:
        parameters, velocity = optimizer.step(o, parameters, [np.array([2.0])], velocity)
        np.testing.assert_allclose([parameters[0][0], velocity[0][0]], [w_expected, v_expected])


def test_first_adam_step_by_hand() -> None:
    g = np.array([2.0])
    (w,), (m, v) = optimizer.step(Adam(0.1, epsilon=1.0), [np.zeros(1)], [g], [np.zeros(1), np.zeros(1)])
    np.testing.assert_allclose([m[0], v[0]], [0.2, 0.004])
    np.testing.assert_allclose(w, -0.1 * math.sqrt(0.001) / 0.1 * 0.2 / (math.sqrt(0.004) + 1.0))
    (w,), _ = optimizer.step(Adam(0.1, epsilon=1.0, corrected_epsilon=True), [np.zeros(1)], [g], [np.zeros(1)] * 2)
    np.testing.assert_allclose(w, [-0.1 * 2.0 / (2.0 + 1.0)])


def test_constant_gradient_in_centered_rmsprop_stays_finite() -> None:
    o, parameters = RMSProp(0.1, 0.5, 1e-8, centered=True), [np.zeros(3)]
    accumulators = [np.zeros(3), np.zeros(3)]
    for _ in range(100):
        parameters, accumulators = optimizer.step(o, parameters, [np.array([0.1, 1 / 3, 0.7])], accumulators)
    assert np.all(np.isfinite(parameters[0]))


def test_special_values_and_nothing_to_do() -> None:
    for o in ALL_FORMS:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            gradient = np.array([np.nan, np.inf, 1e200, 0.0])
            (w,), accumulators = optimizer.step(o, [np.ones(4)], [gradient], [np.zeros(4)] * o.roles)
            assert np.isnan(w[0])
            assert np.isfinite(w[3])
            assert len(accumulators) == o.roles
            assert optimizer.step(o, [], [], []) == ([], [])
            (empty,), _ = optimizer.step(o, [np.zeros((0, 3))], [np.zeros((0, 3))], [np.zeros((0, 3))] * o.roles)
            assert empty.shape == (0, 3)


def test_optimizer_errors() -> None:
    w = [np.zeros(2), np.zeros(3)]
    with pytest.raises(
        ValueError, match=r"2 parameters need 2 gradients and 4 accumulators \(2 for each\); got 2 and 2"
    ):
        optimizer.step(Adam(0.1), w, w, w)
    with pytest.raises(ValueError, match="got 1 and 0"):
        optimizer.step(SGDMomentum(0.1), w, w[:1])
    with pytest.raises(ValueError, match="no SGD momentum variant 3"):
        optimizer.step(SGDMomentum(0.1, 0.9, variant=3), w, w, w)
    with pytest.raises(ValueError, match="no clipping 4"):
        optimizer.step(SGDMomentum(0.1, preparation=Preparation(clipping=Clipping(4))), w, w)
    with pytest.raises(ValueError, match="no regularization 3"):
        optimizer.step(SGDMomentum(0.1, preparation=Preparation(regularization=3)), w, w)


# ---------------------------------------------------------------------------------------------------------------------
# Clipping and norms


def test_measured_clipping() -> None:
    np.testing.assert_array_equal(clipping.clip_by_value(np.array([-2, -0.5, 0.5, 3]), -1.0, 1.0), [-1, -0.5, 0.5, 1])
    np.testing.assert_allclose(clipping.clip_by_norm(np.array([3.0, 4.0]), 2.5), [1.5, 2])
    np.testing.assert_array_equal(clipping.clip_by_norm(np.array([3.0, 4.0]), 10.0), [3, 4])
    pair = [np.array([3.0, 4.0]), np.array([12.0])]
    for use_norm, expected in [(0.0, [1.5, 2, 6]), (26.0, [0.75, 1, 3])]:
        np.testing.assert_allclose(np.concatenate(clipping.clip_by_global_norm(pair, 6.5, use_norm)), expected)
    assert clipping.global_norm(pair) == 13.0


def test_measured_norms() -> None:
    x = np.array([[3.0, 4.0], [12.0, 5.0]])
    np.testing.assert_allclose(clipping.norm(x, (0,)), [12.369317, 6.4031243], rtol=1e-7)
    np.testing.assert_allclose(clipping.norm(x, (1,)), [5, 13])
    for axes in (None, (0, 1), (-1, 0)):
        everything = clipping.norm(x, axes)
        assert everything.shape == (1,)
        np.testing.assert_allclose(everything, [math.sqrt(194)])
    dx = clipping.norm_backward(np.array([3.0, 4.0]), np.array([5.0]), np.array([2.0]))
    np.testing.assert_allclose(dx, [1.2, 1.6])


@pytest.mark.parametrize("axes", [None, (0,), (1,), (-1,), (0, 2), (2, 1), (0, 1, 2)])
def test_norm_gradient(axes: tuple[int, ...] | None) -> None:
    x, h = generator(2).standard_normal((3, 4, 5)), 1e-6
    y = clipping.norm(x, axes)
    np.testing.assert_allclose(y.ravel(), np.atleast_1d(np.sqrt((x**2).sum(axis=axes))).ravel())
    for seed in range(3):
        u, v = generator(3, seed).standard_normal(x.shape), generator(4, seed).standard_normal(y.shape)
        difference = (clipping.norm(x + h * u, axes) - clipping.norm(x - h * u, axes)) / (2 * h)
        dx = clipping.norm_backward(x, y, v, axes)
        assert dx.shape == x.shape
        assert np.vdot(dx, u) == pytest.approx(np.vdot(v, difference), rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("axes", [None, (0,), (1,), (0, 2)])
def test_clip_by_norm_of_slices(axes: tuple[int, ...] | None) -> None:
    x = generator(5).standard_normal((3, 4, 5)) * np.array([0.1, 1.0, 3.0])[:, None, None]
    limit = float(np.median(clipping.norm(x, axes)))
    y = clipping.clip_by_norm(x, limit, axes)
    before, after = clipping.norm(x, axes), clipping.norm(y, axes)
    np.testing.assert_allclose(after, np.minimum(before, limit))
    ratio = y / x
    kept = np.broadcast_to(ratio.min(axis=axes, keepdims=True), x.shape)
    np.testing.assert_allclose(ratio, kept, rtol=1e-12)


def test_clipping_of_special_values() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zero = np.zeros((2, 2))
        for limit in (0.0, 1.0):
            np.testing.assert_array_equal(clipping.clip_by_norm(zero, limit), zero)
            np.testing.assert_array_equal(clipping.clip_by_global_norm([zero], limit)[0], zero)
        np.testing.assert_array_equal(clipping.clip_by_norm(np.ones(4), 0.0), np.zeros(4))
        assert np.all(np.isnan(clipping.clip_by_norm(np.array([np.nan, 1.0]), 1.0)))
        assert np.isnan(clipping.clip_by_value(np.array([np.nan]), 0.0, 1.0))[0]
        np.testing.assert_array_equal(clipping.clip_by_value(np.array([np.inf, -np.inf]), 0.0, 1.0), [1, 0])
        x = np.array([[0.0, 0.0], [0.0, 2.0]])
        y = clipping.norm(x, (1,))
        np.testing.assert_array_equal(clipping.norm_backward(x, y, np.full(2, 3.0), (1,)), [[0, 0], [0, 3]])
        assert clipping.clip_by_norm(np.zeros((0, 3)), 1.0, (1,)).shape == (0, 3)
        assert clipping.clip_by_global_norm([], 1.0) == []
