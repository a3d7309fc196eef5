"""Normalization: values, moving statistics, state, memory and gradients."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from bad_calls import refused
from cases._base import Act
from cases.normalization import CASES, INFERENCE, KINDS, NormalizationCase, NormalizationRun, bounds, expected
from helpers import BFLOAT16, FLOAT32, Storage, assert_within
from openbnns import LearningPhase, NormalizationType, capi, compat
from openbnns.calls.form import form

C = NormalizationCase
ALL_GRADIENTS = ("dx", "dbeta", "dgamma")
TRAINING, INFERRING = LearningPhase.TRAINING, LearningPhase.INFERENCE


def marked(cases: list[NormalizationCase], rows: str) -> list[Any]:
    return [pytest.param(c, id=c.id, marks=pytest.mark.covers(*getattr(c, rows))) for c in cases]


# ---------------------------------------------------------------------------------------------------------------------
# Values


@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("case", marked([*CASES, *INFERENCE], "forward_rows"))
def test_forward(case: NormalizationCase, training: bool) -> None:
    values = case.values()
    truth = expected(case, values, training, gradients=False)
    run = NormalizationRun(case, values)
    y = run.forward(training)
    bound = bounds(case, values, truth | {"dx": truth["y"]})["y"]
    assert_within(y, truth["y"], bound, f"{case.id}: y")
    for ours, theirs in zip(run.moving(), truth["moving"], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6)
    for name in ("x", "beta", "gamma", *(() if training else ("mean", "variance"))):
        storage = getattr(run, name)
        if storage is not None:
            storage.assert_unchanged(name)
    run.y.assert_guards_intact("y")


@pytest.mark.parametrize("case", marked(CASES, "backward_rows"))
def test_backward(case: NormalizationCase) -> None:
    values = case.values()
    truth = expected(case, values)
    run = NormalizationRun(case, values)
    run.forward()
    run.y.elements[run.y.places] = run.y.tensor.encode(truth["y"])  # as the reference engine saw it
    gradients = run.backward()
    allowed = bounds(case, values, truth)
    for name, storage in gradients.items():
        assert_within(storage.read(), truth[name], allowed[name], f"{case.id}: {name}")
        storage.assert_guards_intact(name)
    run.dy.assert_unchanged("dy")


@pytest.mark.parametrize("case", [c for c in CASES if c.batch * np.prod(c.size) < 3000], ids=lambda c: c.id)
def test_skipped_and_accumulated(case: NormalizationCase) -> None:
    """One gradient alone is bitwise the same as among all; Accumulate adds to what was there."""
    run = NormalizationRun(case)
    run.forward()
    together = {name: s.raw() for name, s in run.backward().items()}
    for wanted in ((), ("dx",), ("dbeta",), ("dgamma",), ("dbeta", "dgamma"), ("dx", "dgamma")):
        for name, storage in run.backward(wanted).items():
            np.testing.assert_array_equal(storage.raw(), together[name])
    rng = np.random.default_rng(0)
    fresh = run.new_gradients(ALL_GRADIENTS)
    old = {name: s.tensor.rounded(rng.standard_normal(s.places.shape)) for name, s in fresh.items()}
    for name, storage in run.backward(ALL_GRADIENTS, old).items():
        plain = storage.tensor.decode(together[name]) + old[name]
        slack = (
            4e-7 * (1 + np.abs(plain) + np.abs(old[name]))
            + storage.tensor.unit(plain) * 2
            + storage.tensor.unit(old[name])
        )
        assert_within(storage.read(), plain, slack, name)


@pytest.mark.parametrize("kind", KINDS)
def test_random_configurations(kind: str) -> None:
    """Every parameter drawn at random, both directions, against the reference engine."""
    rng = np.random.default_rng(len(kind))
    for _ in range(40):
        c = int(rng.choice([1, 2, 6, 12, 17]))
        size = (c,) if rng.random() < 0.3 else (c, int(rng.integers(1, 9)), int(rng.integers(1, 12)))

        def spread(size: tuple[int, ...] = size) -> tuple[int, ...] | None:
            if rng.random() < 0.2:
                return None
            if kind != "layer" or rng.random() < 0.5:
                return ()
            return tuple(int(rng.choice([1, s])) for s in size)

        acts = (Act(), Act("RectifiedLinear"), Act("Sigmoid"), Act("GELUApproximationSigmoid"), Act("CELU", 1.3))
        case = C(
            kind, size, int(rng.integers(1, 12)), int(rng.integers(0, 3)),
            int(rng.choice([g for g in range(1, c + 1) if c % g == 0])), spread(), spread(),
            str(rng.choice(["", "m", "v", "mv"])), float(rng.random()), float(rng.choice([1e-5, 1e-2, 0.3])),
            acts[int(rng.integers(0, len(acts)))], int(rng.integers(0, 3)), bool(rng.random() < 0.3),
            client_pointer=bool(rng.random() < 0.7),
        )  # fmt: skip
        test_forward(case, True)
        test_forward(case, False)
        test_backward(case)


def trained_output(kind: str, x: np.ndarray) -> np.ndarray:
    """x normalized by its own statistics, epsilon 0; two groups where there are groups."""
    kinds = {
        "batch": NormalizationType.batch(), "instance": NormalizationType.instance(),
        "layer": NormalizationType.layer(), "group": NormalizationType.group(group_count=2),
    }  # fmt: skip
    return ob.NormalizationLayer(type=kinds[kind], input=x, epsilon=0.0).apply(x, phase=TRAINING)


@pytest.mark.parametrize("kind", KINDS)
def test_large_mean_small_variance(kind: str) -> None:
    """Mean 1e3, deviation 1e-2: the result is that of the float32 data, to float32 accuracy."""
    rng = np.random.default_rng(1)
    x = np.float32(1e3 + 1e-2 * rng.standard_normal((8, 4, 16, 16)))
    y = trained_output(kind, x)
    axes = {"batch": (0, 2, 3), "instance": (2, 3), "layer": (1, 2, 3), "group": (2, 3, 4)}[kind]
    d = x.astype(np.float64).reshape((8, 2, 2, 16, 16) if kind == "group" else x.shape)
    truth = (d - d.mean(axis=axes, keepdims=True)) / d.std(axis=axes, keepdims=True)
    assert np.abs(y - truth.reshape(y.shape)).max() < 2e-6


@pytest.mark.parametrize("kind", KINDS)
def test_few_values_far_from_the_others(kind: str) -> None:
    """Statistics do not depend on the order of values: here the first ones are all outliers."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((64, 2, 64, 64)).astype(np.float32)
    x.reshape(64, 2, -1)[..., ::512] += 1e4
    y = trained_output(kind, x)
    d = x.astype(np.float64)
    axes = {"batch": (0, 2, 3), "instance": (2, 3), "layer": (1, 2, 3), "group": (2, 3)}[kind]
    truth = (d - d.mean(axis=axes, keepdims=True)) / d.std(axis=axes, keepdims=True)
    assert np.abs(y - truth).max() < 1e-6 * np.abs(truth).max()


def test_one_value_per_set(engine: str) -> None:
    """A set of one value has variance 0: y = beta, dx = 0."""
    x = np.float32([[1.0, -2.0, 3.0]])
    beta = np.float32([0.1, 0.2, 0.3])
    for kind in (NormalizationType.batch(), NormalizationType.instance()):
        layer = ob.NormalizationLayer(type=kind, input=x, beta=beta, epsilon=0.1)
        np.testing.assert_allclose(layer.apply(x, phase=TRAINING)[0], beta, rtol=1e-6)
        gradients = layer.apply_backward(output_gradient=np.float32([[1.0, 2.0, 3.0]]))
        np.testing.assert_array_equal(gradients.input, 0.0)
        np.testing.assert_allclose(gradients.beta, [1.0, 2.0, 3.0])


def test_nan_stays_in_its_set() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5, 5)).astype(np.float32)
    x[1, 2, 3, 3] = np.nan
    y = ob.NormalizationLayer(type=NormalizationType.batch(), input=x).apply(x, phase=TRAINING)
    assert np.isnan(y[:, 2]).all() and np.isfinite(np.delete(y, 2, axis=1)).all()
    y = ob.NormalizationLayer(type=NormalizationType.layer(), input=x).apply(x, phase=TRAINING)
    assert np.isnan(y[1]).all() and np.isfinite(y[[0, 2]]).all()


# ---------------------------------------------------------------------------------------------------------------------
# Moving statistics


@pytest.mark.parametrize(
    ("kind", "axes"),
    [
        pytest.param("batch", (0, 2, 3), marks=pytest.mark.covers("norm.batch.moving")),
        pytest.param("instance", (2, 3), marks=pytest.mark.covers("norm.instance.moving")),
    ],
)
@pytest.mark.parametrize("torch_sense", [False, True])
def test_moving_statistics_by_definition(kind: str, axes: tuple[int, ...], torch_sense: bool, engine: str) -> None:
    rng = np.random.default_rng(3)
    mean, variance = np.zeros(3, np.float32), np.ones(3, np.float32)
    want_mean, want_variance = mean.astype(np.float64), variance.astype(np.float64)
    make = NormalizationType.batch if kind == "batch" else NormalizationType.instance
    with compat.using(moving_statistics_torch=torch_sense):
        layer = ob.NormalizationLayer(
            type=make(moving_mean=mean, moving_variance=variance), input=ob.Shape.image_chw(5, 4, 3), momentum=0.75
        )
    keep = 0.25 if torch_sense else 0.75
    for _ in range(3):
        x = np.float32(2 + 3 * rng.standard_normal((6, 3, 4, 5)))
        layer.apply(x, phase=TRAINING)
        d = x.astype(np.float64)
        count = np.prod([d.shape[a] for a in axes])
        current = d.var(axis=axes) * (count / (count - 1) if torch_sense else 1)
        want_mean = keep * want_mean + (1 - keep) * d.mean(axis=axes).reshape(-1, 3).mean(axis=0)
        want_variance = keep * want_variance + (1 - keep) * current.reshape(-1, 3).mean(axis=0)
    np.testing.assert_allclose(mean, want_mean, rtol=1e-6)
    np.testing.assert_allclose(variance, want_variance, rtol=1e-6)
    before = mean.copy()
    y = layer.apply(x, phase=INFERRING)
    shaped = [v.astype(np.float64).reshape(3, 1, 1) for v in (mean, variance)]
    np.testing.assert_allclose(y, (x - shaped[0]) / np.sqrt(shaped[1] + np.float32(1e-5)), rtol=2e-6, atol=2e-6)
    np.testing.assert_array_equal(mean, before)


def test_moving_statistics_belong_to_the_caller() -> None:
    """They are results, so they are updated in the caller's memory without BNNSFlagsUseClientPtr too."""
    run = NormalizationRun(C("batch", moving="mv", client_pointer=False))
    before = run.moving()
    run.forward()
    assert all(np.all(a != b) for a, b in zip(run.moving(), before, strict=True))
    run.mean.elements[:] = 100.0  # type: ignore[union-attr]
    assert run.forward(training=False).max() < 0  # and read from there


def test_read_only_moving_statistics(engine: str) -> None:
    mean, variance = np.zeros(3, np.float32), np.ones(3, np.float32)
    mean.flags.writeable = variance.flags.writeable = False
    x = np.ones((2, 3), np.float32)
    layer = ob.NormalizationLayer(
        type=NormalizationType.batch(moving_mean=mean, moving_variance=variance), input=x, epsilon=0
    )
    np.testing.assert_array_equal(layer.apply(x, phase=INFERRING), x)
    with pytest.raises(ob.LayerApplyError, match=r"type\.moving_mean.*is read-only"):
        layer.apply(x, phase=TRAINING)


# ---------------------------------------------------------------------------------------------------------------------
# State: what backward belongs to


@pytest.mark.parametrize("kind", KINDS)
def test_backward_needs_a_training_forward(kind: str, engine: str) -> None:
    run = NormalizationRun(C(kind, groups=3))
    into = run.new_gradients(ALL_GRADIENTS)

    def fails(batch: int, message: str) -> None:
        code = capi.BNNSNormalizationFilterApplyBackwardBatch(
            run.filter, batch, into["dx"].descriptor(), 0, None, 0, run.dy.descriptor(), 0, into["dbeta"].descriptor(),
            into["dgamma"].descriptor(),
        )  # fmt: skip
        refused(code, message)
        for name, storage in into.items():
            storage.assert_unchanged(name)

    fails(4, "there was no training forward.*BNNSNormalizationFilterApplyBatch with training = true")
    run.forward(training=False)
    fails(4, "there was no training forward")
    run.forward()
    fails(3, r"batch_size is 3, but the latest training forward had 4 samples")
    run.backward()
    first = {name: s.raw() for name, s in run.backward().items()}  # a second time
    run.forward(training=False)  # an inference in between changes nothing
    for name, storage in run.backward().items():
        np.testing.assert_array_equal(storage.raw(), first[name])


def test_backward_on_the_other_engine() -> None:
    run = NormalizationRun(C("batch"))
    into = run.new_gradients(("dx",))
    for here, there in (("native", "reference"), ("reference", "native")):
        with ob.engine(here):
            run.forward()
        with ob.engine(there):
            arguments = (run.filter, 4, into["dx"].descriptor(), 0, None, 0, run.dy.descriptor(), 0, None, None)
            assert capi.BNNSNormalizationFilterApplyBackwardBatch(*arguments) == -1
        assert "ran on the other engine" in (ob.last_error() or "")


def test_input_may_be_overwritten_after_forward(engine: str) -> None:
    run = NormalizationRun(C("batch", (3, 5, 7)))
    run.forward()
    before = {name: s.raw() for name, s in run.backward().items()}
    run.x.elements[:] = np.nan
    for name, storage in run.backward().items():
        np.testing.assert_array_equal(storage.raw(), before[name])


def test_two_threads_on_one_filter_do_not_crash() -> None:
    """A mistake, but a safe one: batches of different sizes train one filter at once."""
    layer = ob.NormalizationLayer(type=NormalizationType.batch(), input=ob.Shape.image_chw(8, 8, 16))

    def work(batch: int) -> None:
        x = np.ones((batch, 16, 8, 8), np.float32)
        for _ in range(60):
            layer.apply(x, phase=TRAINING)
            with contextlib.suppress(ob.LayerApplyError):  # where the other thread's forward came between
                layer.apply_backward(output_gradient=x)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 40)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


# ---------------------------------------------------------------------------------------------------------------------
# In place, threads, the two ways in


@pytest.mark.covers("norm.inplace")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_in_place(kind: str, strided: bool, training: bool, engine: str) -> None:
    for size in ((3, 5, 7), (9,), (6, 2, 2)):
        case = C(kind, size, groups=3, strided=strided, gap=2, activation=Act("Tanh"))
        apart, together = NormalizationRun(case), NormalizationRun(case)
        np.testing.assert_array_equal(together.forward(training, in_place=True), apart.forward(training))
        if not training:
            continue
        gradients = apart.backward()
        dx = Storage(apart.dy.tensor, case.batch, case.gap + 3, apart.dy.read())  # over the arriving gradient
        apart.dy = dx
        apart.backward(("dx",), into={"dx": dx})
        np.testing.assert_array_equal(dx.raw(), gradients["dx"].raw())


@pytest.mark.parametrize(
    "case",
    [
        C("batch", (6, 40, 41), 8), C("batch", (3, 150, 130), 2), C("batch", (300,), 500), C("group", (8, 20, 21), 12, groups=4),
        C("group", (4, 100, 99), 1, groups=2), C("layer", (64, 9, 9), 30), C("layer", (64, 9, 9), 30, axis=1),
        C("layer", (700,), 300), C("instance", (16, 16, 17), 12), C("batch", (6, 40, 41), 8, activation=Act("Tanh")),
        C("batch", (40, 14, 14), 9), C("batch", (90, 7, 7), 33, activation=Act("RectifiedLinear")), C("batch", (700,), 70),
        C("batch", (5, 3, 3), 900, activation=Act("RectifiedLinear")), C("group", (32, 10, 10), 20, groups=8),
        C("batch", (130, 5, 5), 20, activation=Act("Tanh")), C("layer", (33, 5, 7), 40, beta=(33, 1, 1), axis=1),
        C("batch", (600,), 400), C("batch", (2100,), 150, activation=Act("Tanh")), C("batch", (3, 20, 20), 700),
        C("batch", (1001,), 3500, activation=Act("RectifiedLinear")), C("group", (16, 230, 240), 4, groups=4),
    ],
    ids=lambda c: c.id,
)  # fmt: skip
def test_threads_do_not_change_results(case: NormalizationCase) -> None:
    values = case.values()
    truth = expected(case, values)
    results = []
    for threads in (1, 2, 3, 5):
        run = NormalizationRun(case, values, threads)
        y = run.forward()
        results.append({"y": y} | {name: s.raw() for name, s in run.backward().items()})
    for name, ours in results[0].items():
        assert_within(np.float64(ours), truth[name], bounds(case, values, truth)[name], name)
        for other in results[1:]:
            np.testing.assert_array_equal(other[name], ours)


@pytest.mark.parametrize("case", [C(k, s, groups=3, activation=a, moving="mv") for k in KINDS for s in ((3, 5, 7), (6,))
                                  for a in (Act(), Act("Tanh"))], ids=lambda c: c.id)  # fmt: skip
def test_fast_call_is_the_slow_call(case: NormalizationCase) -> None:
    assert ob.engines._core is not None
    fast, slow = NormalizationRun(case), NormalizationRun(case)
    training = form("apply_normalization", "batch_size in in_stride out out_stride", True)
    backward = form(
        "apply_backward_normalization", "batch_size in_delta in_delta_stride out out_stride out_delta out_delta_stride"
    )
    assert fast.filter.native(training)(case.batch, fast.x.elements, 0, fast.y.elements, 0) == 0
    dx = fast.new_gradients(("dx",))["dx"].descriptor()
    y = None if case.activation.is_identity else fast.y.elements
    assert fast.filter.native(backward)(case.batch, dx, 0, y, 0, fast.dy.descriptor(), 0) == 0
    ob.engines._core.set_fast_calls(False)
    try:
        slow.forward()
        np.testing.assert_array_equal(fast.y.raw(), slow.y.raw())
        want = {name: s.raw() for name, s in slow.backward().items()}
        inferred = slow.forward(training=False)
    finally:
        ob.engines._core.set_fast_calls(True)
    for name, storage in fast.backward().items():
        np.testing.assert_array_equal(storage.raw(), want[name])
    np.testing.assert_array_equal(fast.forward(training=False), inferred)
    np.testing.assert_array_equal(fast.moving(), slow.moving())


def test_ownership(engine: str) -> None:
    """Copied parameters keep their values; the caller's own are read at each call."""
    for client_pointer in (False, True):
        run = NormalizationRun(C("batch", client_pointer=client_pointer))
        before = run.forward(False)
        run.gamma.elements[:] = 0  # type: ignore[union-attr]
        run.beta.elements[:] = 7  # type: ignore[union-attr]
        after = run.forward(False)
        if client_pointer:
            np.testing.assert_array_equal(after, 7.0)
        else:
            np.testing.assert_array_equal(after, before)


# ---------------------------------------------------------------------------------------------------------------------
# Gradients against finite differences


@pytest.mark.parametrize(
    "activation", [Act(), Act("Tanh"), Act("Sigmoid"), Act("GELUApproximationSigmoid")], ids=lambda a: a.name
)
@pytest.mark.parametrize("size", [(3, 4, 5), (6,), (6, 2, 2)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_gradcheck(kind: str, size: tuple[int, ...], activation: Act, engine: str) -> None:
    case = C(kind, size, 5, axis=1, groups=3, activation=activation, moving="mv", epsilon=0.05)
    run = NormalizationRun(case)
    before = run.moving()
    report = ob.gradcheck(run.filter, verbose=False, tolerance=5e-4)
    assert report.passed, str(report)
    assert {row.name for row in report.rows} == {"input", "beta", "gamma"}
    np.testing.assert_array_equal(run.moving(), before)


def test_gradcheck_finds_a_wrong_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    run = NormalizationRun(C("batch"))
    original = type(run.filter).perform

    def wrong(self: Any, name: str, caller: Any, batch: Any, given: Any, choice: Any = None) -> None:
        original(self, name, caller, batch, given, choice)
        if "in_delta" in given:
            given["in_delta"][0].data.view(np.float32)[:] *= 1.01

    monkeypatch.setattr(type(run.filter), "perform", wrong)
    assert not ob.gradcheck(run.filter, verbose=False).passed


def test_kink_switch() -> None:
    """With the slope of RectifiedLinear at 0 taken from the right, dead outputs at exactly 0 pass their gradient."""
    x = np.float32([[1.0], [-1.0], [0.0]])
    slopes = []
    for right in (False, True):
        with compat.using(kink_derivative_from_right=right):
            layer = ob.NormalizationLayer(
                type=NormalizationType.batch(), input=x, beta=np.zeros(1, np.float32), epsilon=0,
                activation=ob.ActivationFunction.rectified_linear(),
            )  # fmt: skip
        y = layer.apply(x, phase=TRAINING)
        slopes.append(layer.apply_backward(None, y, np.float32([[1.0], [1.0], [1.0]])).beta[0])
    assert slopes == [1.0, 2.0]


def test_bfloat16_deltas_are_rounded_results() -> None:
    case = C("batch", (3, 5, 7), delta_type=BFLOAT16)
    values = case.values()
    short, plain = NormalizationRun(case, values), NormalizationRun(replace(case, delta_type=FLOAT32), values)
    short.forward()
    plain.forward()
    a, b = short.backward()["dx"], plain.backward()["dx"]
    np.testing.assert_array_equal(a.raw(), a.tensor.encode(b.read()))
