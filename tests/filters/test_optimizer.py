"""BNNSOptimizerStep: both engines against formulas written out, shapes, memory, mistakes."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from bad_calls import refused
from helpers import EPSILON, FLOAT16, IMAGE, OIHRWR, OIHW, PACK32, ROW_MAJOR, VECTOR, Storage, Tensor, vector
from openbnns import capi, compat
from optimizer_formulas import ADAM, FUNCTIONS, SGD, roles_of, written_out

RMS = [f for f in FUNCTIONS if "RMS" in f.name]


def struct_of(function: int) -> Any:
    base = "SGDMomentum" if function in SGD else "Adam" if function in ADAM else "RMSProp"
    clipping = "WithClipping" if capi.BNNSOptimizerFunction(function).name.endswith("WithClipping") else ""
    return getattr(capi, f"BNNSOptimizer{base}{clipping}Fields")


def random_fields(function: int, rng: np.random.Generator, **fixed: Any) -> Any:
    """Every field drawn at random."""
    struct = struct_of(function)
    values: dict[str, Any] = {
        "learning_rate": rng.uniform(0.001, 0.2),
        "gradient_scale": rng.choice([1.0, rng.uniform(-2, 2)]),
        "regularization_scale": rng.uniform(-0.1, 0.3),
        "regularization_func": int(rng.integers(3)),
        "clip_gradients": bool(rng.integers(2)),
        "clipping_func": int(rng.integers(4)),
        "clip_gradients_min": -rng.uniform(0, 1),
        "clip_gradients_max": rng.uniform(0, 1),
        "clip_gradients_max_norm": rng.uniform(0.1, 8),
        "clip_gradients_use_norm": rng.choice([0.0, rng.uniform(0.5, 9)]),
        "momentum": rng.choice([0.0, rng.uniform(0.1, 0.99)]),
        "nesterov": bool(rng.integers(2)),
        "sgd_momentum_variant": int(rng.integers(3)),
        "beta1": rng.uniform(0, 0.95),
        "beta2": rng.uniform(0.5, 0.999),
        "time_step": float(rng.integers(1, 50)),
        "epsilon": 10.0 ** rng.uniform(-6, -1),
        "alpha": rng.uniform(0.1, 0.99),
        "centered": bool(rng.integers(2)),
    } | fixed
    return struct(**{name: value for name, value in values.items() if name in struct._kinds})


TENSORS = [
    vector(7),
    Tensor(ROW_MAJOR, (5, 3)),
    Tensor(IMAGE, (4, 3, 2)),
    vector(1),
    Tensor(OIHW, (3, 3, 2, 5)),
    vector(133),
]


def arrays(rng: np.random.Generator, roles: int, tensors: list[Tensor]) -> tuple[list[Any], list[Any], list[Any]]:
    w = [rng.standard_normal(t.size).astype(np.float32) for t in tensors]
    g = [(2 * rng.standard_normal(t.size)).astype(np.float32) for t in tensors]
    states = [np.zeros(t.size, np.float32) for _ in range(roles) for t in tensors]
    return w, g, states


def step(function: int, p: Any, w: list[Storage], g: list[Storage], states: list[Storage], **options: Any) -> int:
    return capi.BNNSOptimizerStep(
        function, p, len(w), [s.descriptor() for s in w], [s.descriptor() for s in g],
        [s.descriptor() for s in states] or None, **options,
    )  # fmt: skip


def run_steps(function: int, p: Any, seed: int, steps: int = 10, tensors: list[Tensor] = TENSORS) -> None:
    """Some steps against the formulas, with fresh gradients in each; memory beside the tensors stays untouched."""
    rng = np.random.default_rng(seed)
    roles = roles_of(function, p)
    w, _, states = arrays(rng, roles, tensors)
    ours = [Storage(t, values=a[None]) for t, a in zip(tensors, w, strict=True)]
    kept = [Storage(tensors[i % len(tensors)], values=a[None]) for i, a in enumerate(states)]
    exact, exact_states = [a.astype(np.float64) for a in w], [a.astype(np.float64) for a in states]
    for number in range(steps):
        _, g, _ = arrays(rng, 0, tensors)
        theirs = [Storage(t, values=a[None]) for t, a in zip(tensors, g, strict=True)]
        assert step(function, p, ours, theirs, kept) == 0, bn.last_error()
        written_out(function, p, exact, [a.astype(np.float64) for a in g], exact_states)
        for name, group in (("w", ours), ("state", kept)):
            for i, s in enumerate(group):
                s.assert_guards_intact(f"{name} {i}")
        for s in theirs:
            s.assert_unchanged("gradient")
        if hasattr(p, "time_step"):
            p.time_step += 1
        # Rounding adds up; where a root is close to 0 it is magnified by 1 / epsilon.
        slack = 100 * EPSILON * (number + 1)
        for actual, wanted in zip([*ours, *kept], [*exact, *exact_states], strict=True):
            np.testing.assert_allclose(
                actual.read()[0], wanted, rtol=slack, atol=slack * max(1.0, np.abs(wanted).max())
            )


ENGINES = ["native", "reference"]


def rows(function: int) -> Any:
    name = capi.BNNSOptimizerFunction(function).name.removeprefix("BNNSOptimizerFunction")
    marks = pytest.mark.covers(f"opt.{name}", "opt.accum_order", "fn.BNNSOptimizerStep")
    return pytest.param(function, id=name, marks=marks)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("function", [rows(f) for f in FUNCTIONS])
def test_random_settings(function: int, seed: int, engine: str) -> None:
    rng = np.random.default_rng([int(function), seed])
    p = random_fields(function, rng)
    if function in RMS and p.centered:
        p.epsilon, p.alpha = 0.1, 0.5  # the difference of two float32 numbers under the root
    run_steps(function, p, seed, steps=4)


@pytest.mark.parametrize(
    ("variant", "nesterov"),
    [
        pytest.param(v, n, marks=pytest.mark.covers(f"opt.sgd.v{v}.{'nesterov' if n else 'plain'}"))
        for v, n in itertools.product(range(3), [False, True])
    ],
)
def test_momentum_variants(variant: int, nesterov: bool, engine: str) -> None:
    for function in SGD:
        p = struct_of(function)(
            learning_rate=0.1, momentum=0.8, gradient_scale=1.0, nesterov=nesterov, sgd_momentum_variant=variant
        )
        run_steps(function, p, variant)


@pytest.mark.parametrize(
    ("centered", "momentum"),
    [
        (False, 0.0),
        pytest.param(True, 0.0, marks=pytest.mark.covers("opt.rms.centered")),
        pytest.param(False, 0.6, marks=pytest.mark.covers("opt.rms.momentum")),
        pytest.param(True, 0.6, marks=pytest.mark.covers("opt.rms.centered", "opt.rms.momentum")),
    ],
)
def test_rmsprop_forms(centered: bool, momentum: float, engine: str) -> None:
    p = capi.BNNSOptimizerRMSPropFields(
        learning_rate=0.01, alpha=0.7, epsilon=0.05, centered=centered, momentum=momentum, gradient_scale=1.0
    )
    run_steps(capi.BNNSOptimizerFunctionRMSProp, p, 3)


@pytest.mark.parametrize("scale_first", [False, True])
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(i, marks=pytest.mark.covers(f"opt.clip.{n}", "opt.gradscale"), id=n)
        for i, n in enumerate(["None", "ByValue", "ByNorm", "ByGlobalNorm"])
    ],
)
def test_clipping(kind: int, scale_first: bool, engine: str) -> None:
    for function, use_norm in itertools.product([7, 8, 9, 10, 11, 12], [0.0, 7.0]):
        rng = np.random.default_rng(function)
        p = random_fields(
            function, rng, clipping_func=kind, clip_gradients_max_norm=1.5, clip_gradients_use_norm=use_norm,
            gradient_scale=-2.5, epsilon=0.01, centered=False,
        )  # fmt: skip
        with bn.engine(engine), compat.using(optimizer_scale_before_clip=scale_first):
            run_steps(function, p, function, steps=3)


@pytest.mark.parametrize(
    "kind",
    [pytest.param(i, marks=pytest.mark.covers(f"opt.reg.{n}"), id=n) for i, n in enumerate(["None", "L1", "L2"])],
)
def test_regularization(kind: int, engine: str) -> None:
    for function in FUNCTIONS:
        p = random_fields(
            function, np.random.default_rng(function), regularization_func=kind, regularization_scale=0.4, epsilon=0.1,
            centered=False,
        )  # fmt: skip
        run_steps(function, p, function, steps=2)


def test_penalty_at_zero_and_special_values() -> None:
    w = np.array([0.0, -0.0, 2.0, -3.0, np.nan], np.float32)
    p = capi.BNNSOptimizerSGDMomentumFields(
        learning_rate=1.0, gradient_scale=1.0, regularization_scale=0.5, regularization_func=1
    )
    g = np.zeros(5, np.float32)
    assert capi.BNNSOptimizerStep(1, p, 1, [described(w)], [described(g)]) == 0
    np.testing.assert_array_equal(w, [0.0, 0.0, 1.5, -2.5, np.nan])
    w = np.ones(4, np.float32)
    p = capi.BNNSOptimizerAdamFields(
        learning_rate=0.1, beta1=0.9, beta2=0.99, time_step=1, epsilon=0.0, gradient_scale=1
    )
    states = [np.zeros(4, np.float32) for _ in range(2)]
    g = np.array([np.nan, 1e25, 1e-25, 3.0], np.float32)
    assert capi.BNNSOptimizerStep(2, p, 1, [described(w)], [described(g)], [described(s) for s in states]) == 0
    assert np.isnan(w[0])
    assert w[1] == 1.0  # v overflows: m / inf
    np.testing.assert_allclose(w[3], 0.9, rtol=1e-6)


def test_epsilon_of_pytorch() -> None:
    p = capi.BNNSOptimizerAdamFields(
        learning_rate=0.1, beta1=0.9, beta2=0.99, time_step=1, epsilon=1.0, gradient_scale=1.0
    )
    for engine in ENGINES:
        for torch_form, expected in [
            (False, -0.1 * math.sqrt(0.01) / 0.1 * 0.2 / (math.sqrt(0.04) + 1)),
            (True, -0.2 / 3),
        ]:
            w, g, states = np.zeros(1, np.float32), np.full(1, 2.0, np.float32), np.zeros((2, 1), np.float32)
            with bn.engine(engine), compat.using(adam_epsilon_torch=torch_form):
                assert (
                    capi.BNNSOptimizerStep(2, p, 1, [described(w)], [described(g)], [described(s) for s in states]) == 0
                )
            np.testing.assert_allclose(w, [expected], rtol=1e-5)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_same_bits_for_any_number_of_threads(function: int) -> None:
    tensors = [vector(50_000), vector(3), vector(16_385), vector(16_384)]
    p = random_fields(
        function, np.random.default_rng(5), clipping_func=3, clip_gradients_use_norm=0.0, clip_gradients=True
    )
    results = []
    for threads in (1, 2, 3, 8):
        rng = np.random.default_rng(6)
        w, g, states = arrays(rng, roles_of(function, p), tensors)
        parameters = capi.BNNSFilterParameters(n_threads=threads)
        assert capi.BNNSOptimizerStep(
            function, p, 4, *[[described(a) for a in group] for group in (w, g, states)], parameters
        ) == 0  # fmt: skip
        results.append(np.concatenate([*w, *states]))
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


TINY = np.finfo(np.float32).tiny  # the smallest normal number


def fading(function: int, threads: int, steps: int) -> tuple[list[Any], list[Any]]:
    """Parameters that have had no gradient for long: their accumulators, and with a penalty they, fade away."""
    rng = np.random.default_rng(int(function))
    p = random_fields(
        function, rng, gradient_scale=1.0, clip_gradients=False, clipping_func=0, regularization_func=2,
        regularization_scale=1e-4, momentum=0.5, beta1=0.5, beta2=0.6, alpha=0.5, nesterov=False, epsilon=1e-8,
    )  # fmt: skip
    sizes = [1, 7, 113, 16_385]  # with vectors that are not full
    w = [(rng.standard_normal(n) * 10.0 ** rng.uniform(-44, -20, n)).astype(np.float32) for n in sizes]
    g = [np.where(rng.random(n) < 0.5, 0.0, rng.standard_normal(n) * 10.0 ** rng.uniform(-44, -18, n)) for n in sizes]
    states = [
        np.abs(rng.standard_normal(n) * 10.0 ** rng.uniform(-44, -36, n)).astype(np.float32)
        for _ in range(roles_of(function, p))
        for n in sizes
    ]
    lists = [[described(np.asarray(a, np.float32)) for a in group] for group in (w, g, states)]
    parameters = capi.BNNSFilterParameters(n_threads=threads)
    for _ in range(steps):
        assert capi.BNNSOptimizerStep(function, p, len(sizes), *lists, parameters) == 0, bn.last_error()
    return [d.data for d in lists[0]], [d.data for d in lists[2]]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_step_leaves_subnormal_numbers(function: int) -> None:
    w, states = fading(function, 1, 3)
    for name, group in (("w", w), ("state", states)):
        for i, array in enumerate(group):
            low = (array != 0) & (np.abs(array) < TINY)
            assert not low.any(), f"{name} {i}: {array[low][:5]}"
            assert array.size < 9 or (array != 0).any()  # what is normal stays
    for threads in (2, 5):
        others, other_states = fading(function, threads, 3)
        for one, other in zip([*w, *states], [*others, *other_states], strict=True):
            np.testing.assert_array_equal(one, other)
    w, states = fading(function, 1, 1)
    with bn.engine("reference"):
        exact, exact_states = fading(function, 1, 1)
    for one, other in zip([*w, *states], [*exact, *exact_states], strict=True):
        # m below the smallest normal number moves a weight by no more than so much over epsilon.
        np.testing.assert_allclose(one, other, rtol=100 * EPSILON, atol=8 * TINY / 1e-8)


@pytest.mark.parametrize("function", [*ADAM, *RMS])
def test_an_epsilon_of_nothing_keeps_subnormal_numbers(function: int) -> None:
    """The root of v is all that m is divided by: 0 in its place would give infinity."""
    p = random_fields(
        function, np.random.default_rng(0), learning_rate=1e-3, gradient_scale=1.0, clip_gradients=False,
        clipping_func=0, regularization_func=0, momentum=0.0, beta1=0.5, beta2=0.5, alpha=0.5, epsilon=0.0,
        centered=False, time_step=1.0,
    )  # fmt: skip
    w, g = np.zeros(19, np.float32), np.full(19, 1e-20, np.float32)  # whose square is about 1e-40
    states = [np.zeros(19, np.float32) for _ in range(roles_of(function, p))]
    assert capi.BNNSOptimizerStep(function, p, 1, [described(w)], [described(g)], [described(s) for s in states]) == 0
    step = -1e-3 / math.sqrt(0.5) if function in RMS else -1e-3
    np.testing.assert_allclose(w, step, rtol=1e-3)


def test_other_arithmetic_keeps_subnormal_numbers() -> None:
    """The calling thread and the workers are as they were after a step."""
    p = capi.BNNSOptimizerSGDMomentumFields(learning_rate=1.0, gradient_scale=1.0)
    w, g = np.ones(50_000, np.float32), np.ones(50_000, np.float32)
    assert capi.BNNSOptimizerStep(1, p, 1, [described(w)], [described(g)]) == 0
    assert np.float32(1e-30) * np.float32(1e-10) != 0
    x = np.full((4, 200_000), 1e-40, np.float32)
    layer = bn.ActivationLayer(function=bn.ActivationFunction.linear(alpha=0.5), input=bn.Shape.vector(200_000))
    assert np.all(layer.apply(x) > 0)


def described(a: Any, **changes: Any) -> capi.BNNSNDArrayDescriptor:
    fields = {"layout": VECTOR, "size": (a.size,), "data": a, "data_type": capi.BNNSDataTypeFloat32} | changes
    return capi.BNNSNDArrayDescriptor(**fields)


# ---------------------------------------------------------------------------------------------------------------------
# Memory


def test_forms_of_memory() -> None:
    """Addresses, raw bytes, memory off its alignment, other layouts: all the same numbers."""
    p = capi.BNNSOptimizerSGDMomentumFields(learning_rate=0.5, momentum=0.5, gradient_scale=1.0)
    start, gradient = np.arange(6, dtype=np.float32), np.array([1, -1, 2, -2, 3, -3], np.float32)
    expected = start - 0.5 * gradient
    for change in ("address", "bytes", "unaligned", "layout", "reversed", "packed"):
        w, g, v = start.copy(), gradient.copy(), np.zeros(6, np.float32)
        d = [described(a) for a in (w, g, v)]
        if change == "address":
            d[0].data, d[2].data = int(w.ctypes.data), int(v.ctypes.data)
        elif change == "bytes":
            d[0].data = w.view(np.uint8)
        elif change == "unaligned":
            raw = np.zeros(25, np.uint8)
            raw[1:] = w.view(np.uint8)
            d[0].data = raw[1:]
        elif change == "layout":
            d[1].layout, d[1].size = ROW_MAJOR, (3, 2)
        elif change == "reversed":
            for each in d:
                each.layout, each.size = OIHRWR, (3, 2, 1, 1)
        else:
            d[0].stride = (1,)
        assert capi.BNNSOptimizerStep(1, p, 1, [d[0]], (d[1],), [d[2]]) == 0, bn.last_error()
        result = raw[1:].copy().view(np.float32) if change == "unaligned" else w
        np.testing.assert_array_equal(result, expected, err_msg=change)
        np.testing.assert_array_equal(v, -0.5 * gradient, err_msg=change)


def test_longer_lists_and_nothing_to_do() -> None:
    w, g = np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)
    p = capi.BNNSOptimizerSGDMomentumFields(learning_rate=1.0, gradient_scale=1.0)
    assert capi.BNNSOptimizerStep(1, p, 1, [described(a) for a in w], [described(a) for a in g]) == 0
    np.testing.assert_array_equal(w, [[0, 0, 0], [1, 1, 1]])
    assert capi.BNNSOptimizerStep(1, p, 0, [], [], None) == 0


BAD_FIELDS = [
    (2, {"time_step": 0.0}, "time_step is 0, but steps count from 1"),
    (2, {"time_step": math.nan}, "time_step is nan"),
    (2, {"beta1": 1.0}, "beta1 is 1, but BNNSOptimizerFunctionAdam needs a number from 0 to below 1"),
    (4, {"beta2": -0.1}, "beta2 is -0.1"),
    (2, {"epsilon": -1.0}, "epsilon is -1"),
    (2, {"learning_rate": math.nan}, "learning_rate is nan"),
    (1, {"learning_rate": math.inf}, "learning_rate is inf"),
    (1, {"momentum": -0.5}, "momentum is -0.5"),
    (1, {"sgd_momentum_variant": 3}, "sgd_momentum_variant is 3"),
    (1, {"regularization_func": 7}, "regularization_func is 7"),
    (1, {"gradient_scale": math.nan}, "gradient_scale is nan"),
    (1, {"clip_gradients": True, "clip_gradients_min": 1.0, "clip_gradients_max": -1.0}, "clip_gradients_min is 1"),
    (1, {"clip_gradients": True, "clip_gradients_min": math.nan}, "clip_gradients_min is nan"),
    (3, {"alpha": 1.5}, "alpha is 1.5"),
    (7, {"clipping_func": 4}, "clipping_func is 4"),
    (8, {"clipping_func": 2, "clip_gradients_max_norm": -1.0}, "clip_gradients_max_norm is -1"),
    (9, {"clipping_func": 3, "clip_gradients_use_norm": math.nan}, "clip_gradients_use_norm is nan"),
]


@pytest.mark.parametrize(("function", "changes", "message"), BAD_FIELDS)
def test_bad_fields_change_nothing(function: int, changes: dict[str, Any], message: str, engine: str) -> None:
    good = {
        "learning_rate": 0.1, "beta1": 0.9, "beta2": 0.9, "time_step": 1.0, "epsilon": 0.1, "alpha": 0.9, "momentum": 0.9,
        "gradient_scale": 1.0, "clip_gradients_max_norm": 1.0,
    }  # fmt: skip
    struct = struct_of(function)
    p = struct(**{k: v for k, v in (good | changes).items() if k in struct._kinds})
    rng = np.random.default_rng(0)
    w, g, states = arrays(rng, 2, TENSORS[:2])
    before = [a.copy() for a in (*w, *states)]
    groups = [[described(a) for a in group] for group in (w, g, states)]
    refused(capi.BNNSOptimizerStep(function, p, 2, *groups), re.escape(message))
    for a, b in zip((*w, *states), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_ignored_fields_are_not_judged() -> None:
    w, g, states = arrays(np.random.default_rng(0), 2, TENSORS[:1])
    groups = [[described(a) for a in group] for group in (w, g, states)]
    p = capi.BNNSOptimizerAdamFields(
        learning_rate=0.1, beta1=0.9, beta2=0.9, time_step=1, gradient_scale=1.0, regularization_func=9,
        clip_gradients_min=5.0, clip_gradients_max=-5.0,
    )  # fmt: skip
    assert capi.BNNSOptimizerStep(capi.BNNSOptimizerFunctionAdamW, p, 1, *groups) == 0


def test_gradient_on_its_parameter(engine: str) -> None:
    """It is read before the parameter is written."""
    p = capi.BNNSOptimizerSGDMomentumFields(learning_rate=0.5, gradient_scale=1)
    memory = np.arange(6, dtype=np.float32)
    w, g = described(memory[:4]), described(memory[2:])
    assert capi.BNNSOptimizerStep(capi.BNNSOptimizerFunctionSGDMomentum, p, 1, [w], [g], None) == 0, bn.last_error()
    assert memory.tolist() == [-1, -0.5, 0, 0.5, 4, 5]


def test_bad_tensors_change_nothing(engine: str) -> None:
    p = capi.BNNSOptimizerAdamFields(
        learning_rate=0.1, beta1=0.9, beta2=0.9, time_step=1, epsilon=0.1, gradient_scale=1
    )
    memory = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    before = memory.copy()
    locked = np.zeros(4, np.float32)
    locked.flags.writeable = False

    def good() -> dict[str, list[Any]]:
        cells = [memory[4 * i : 4 * i + 4] for i in range(8)]
        d = [described(c) for c in cells]
        return {"parameters": d[:2], "gradients": d[2:4], "accumulators": d[4:]}

    def case(name: str, index: int, **changes: Any) -> Any:
        lists = good()
        for key, value in changes.items():
            setattr(lists[name][index], key, value)
        return lists

    cases: list[tuple[Any, str]] = [
        (case("parameters", 1, data=None), r"parameters\[1\].data is NULL"),
        (case("gradients", 0, data=None), r"gradients\[0\].data is NULL"),
        (case("gradients", 1, size=(3,)), r"gradients\[1\] is Vector size \(3,\).*parameters\[1\] is Vector size \(4,\)"),
        (case("accumulators", 3, size=(5,)), r"accumulators\[3\]"),
        (case("accumulators", 0, size=(500,), data=memory[:4]), "holds 16 bytes"),
        (case("parameters", 0, data_type=FLOAT16), "Float16, but training works on Float32"),
        (case("parameters", 0, layout=0), "layout is 0x0"),
        (case("parameters", 0, layout=PACK32, size=(1, 1, 1, 4)), "packed tensors"),
        (case("parameters", 0, size=(0,)), r"size\[0\] is 0"),
        (case("parameters", 0, size=(2,), stride=(2,)), "optimizers work on packed tensors"),
        (case("parameters", 0, data=locked), "read-only"),
        (case("accumulators", 2, data=locked), "read-only"),
        (case("parameters", 1, data=memory[2:6]), "share memory"),
        (case("accumulators", 1, data=memory[16:20]), "share memory"),
        (case("gradients", 0, data=np.zeros(4, np.float16)), "holds float16 items"),
        (good() | {"accumulators": None}, r"accumulators is NULL, but this step needs 4 \(2 for each of 2 parameters"),
        (good() | {"gradients": None}, "gradients is NULL"),
        (good() | {"accumulators": good()["accumulators"][:3]}, "accumulators has 3 entries, but this step needs 4"),
        (good() | {"gradients": [None, None]}, r"gradients\[0\] is NULL"),
    ]  # fmt: skip
    for lists, message in cases:
        assert capi.BNNSOptimizerStep(2, p, 2, **lists) == -1, message
        assert bn.last_error() is not None
        import re

        assert re.search(message, str(bn.last_error())), bn.last_error()
        np.testing.assert_array_equal(memory, before)
    assert capi.BNNSOptimizerStep(2, p, -1, **good()) == -1
    refused(capi.BNNSOptimizerStep(13, p, 2, **good()), "function is 13")
    refused(capi.BNNSOptimizerStep(1, p, 2, **good()), "reads a BNNSOptimizerSGDMomentumFields")
    assert capi.BNNSOptimizerStep(2, None, 2, **good()) == -1
    np.testing.assert_array_equal(memory, before)
    for bad in (
        good() | {"parameters": [memory[:4]] * 2},
        good() | {"parameters": 3},
        good() | {"gradients": "ab"},
    ):
        with pytest.raises(TypeError):
            capi.BNNSOptimizerStep(2, p, 2, **bad)
    with pytest.raises(TypeError):
        capi.BNNSOptimizerStep(2, capi.BNNSFilterParameters(), 2, **good())
    with pytest.raises(TypeError):
        capi.BNNSOptimizerStep(2, p, 2.0, **good())  # type: ignore[arg-type]
    np.testing.assert_array_equal(memory, before)
    assert capi.BNNSOptimizerStep(2, p, 2, **good()) == 0
