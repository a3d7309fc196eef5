"""The optimizer classes: the steps of the C function, accumulators, settings and mistakes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from helpers import VECTOR
from openbnns import capi
from optimizer_formulas import written_out

SETTINGS: list[tuple[Any, dict[str, Any]]] = [
    (bn.SGDMomentumOptimizer, {}),
    (bn.SGDMomentumOptimizer, {"momentum": 0.8, "uses_nesterov_momentum": True}),
    (bn.SGDMomentumOptimizer, {"momentum": 0.8, "uses_nestrov_momentum": True,
                               "sgd_momentum_variant": bn.SGDMomentumVariant.VARIANT_2}),
    (bn.SGDMomentumOptimizer, {"clips_gradients_to": (-0.5, 0.25)}),
    (bn.SGDMomentumOptimizer, {"momentum": 0.5, "gradient_clipping": bn.GradientClipping.by_norm(threshold=0.5)}),
    (bn.AdamOptimizer, {"clips_gradients_to": (-0.5, 0.5), "regularization_scale": 0.01,
                        "regularization_function": bn.RegularizationFunction.L2}),
    (bn.AdamOptimizer, {"uses_ams_grad": True, "beta1": 0.5}),
    (bn.AdamOptimizer, {"gradient_clipping": bn.GradientClipping.by_global_norm(threshold=0.7)}),
    (bn.AdamOptimizer, {"gradient_clipping": bn.GradientClipping.by_global_norm(threshold=0.7, global_norm=3.0),
                        "uses_amsgrad": True}),
    (bn.AdamWOptimizer, {"weight_decay": 0.2}),
    (bn.AdamWOptimizer, {"weight_decay": 0.2, "uses_ams_grad": True,
                         "gradient_clipping": bn.GradientClipping.by_value(bounds=(-1, 1))}),
    (bn.RMSPropOptimizer, {"epsilon": 0.1}),
    (bn.RMSPropOptimizer, {"epsilon": 0.1, "centered": True, "momentum": 0.5, "gradient_scale": 2.0}),
    (bn.RMSPropOptimizer, {"regularization_function": bn.RegularizationFunction.L1, "regularization_scale": 0.1,
                           "gradient_clipping": bn.GradientClipping.none()}),
]  # fmt: skip


@pytest.mark.parametrize("described_tensors", [False, True])
@pytest.mark.parametrize("which", range(len(SETTINGS)))
def test_classes(which: int, described_tensors: bool, engine: str) -> None:
    kind, settings = SETTINGS[which]
    optimizer = kind(learning_rate=0.05, **settings)
    function = int(optimizer.bnns_optimizer_function)
    shapes = [(3, 4), (5,), (2, 3, 1, 2), ()] if not described_tensors else [(3, 4), (5,)]
    rng = np.random.default_rng(which)
    w = [np.asarray(rng.standard_normal(s), np.float32) for s in shapes]
    states = optimizer.zero_accumulators(w)
    assert len(states) == len(w) * optimizer.accumulator_count_multiplier
    exact, exact_states = [a.astype(np.float64) for a in w], [a.astype(np.float64) for a in states]
    for _ in range(4):
        g = [np.asarray(rng.standard_normal(s), np.float32) for s in shapes]
        p = optimizer.bnns_fields
        tensors = [[flat(a) for a in group] if described_tensors else group for group in (w, g, states)]
        optimizer.step(*tensors)
        exact = [np.atleast_1d(a) for a in exact]
        exact_states = [np.atleast_1d(a) for a in exact_states]
        written_out(function, p, exact, [np.atleast_1d(a.astype(np.float64)) for a in g], exact_states)
        if hasattr(optimizer, "time_step"):
            optimizer.time_step += 1
        optimizer.learning_rate *= 0.9
    for a, b in zip((*w, *states), (*exact, *exact_states), strict=True):
        np.testing.assert_allclose(np.atleast_1d(a), b, rtol=1e-4, atol=1e-5)


def flat(a: Any) -> capi.BNNSNDArrayDescriptor:
    layout = {1: VECTOR, 2: capi.BNNSDataLayout2DFirstMajor}[a.ndim]
    return capi.BNNSNDArrayDescriptor(layout=layout, size=a.shape, data=a, data_type=capi.BNNSDataTypeFloat32)


def test_functions_and_attributes_of_classes() -> None:
    f = capi.BNNSOptimizerFunction
    norm = bn.GradientClipping.by_norm(threshold=1.0)
    assert bn.AdamOptimizer(0.1).bnns_optimizer_function == f.BNNSOptimizerFunctionAdam
    assert bn.AdamOptimizer(0.1, uses_ams_grad=True).bnns_optimizer_function == f.BNNSOptimizerFunctionAdamAMSGrad
    assert bn.AdamWOptimizer(0.1).bnns_optimizer_function == f.BNNSOptimizerFunctionAdamWWithClipping
    rms = bn.RMSPropOptimizer(0.1, centered=True, momentum=0.1, gradient_clipping=norm)
    assert rms.bnns_optimizer_function == f.BNNSOptimizerFunctionRMSPropWithClipping
    assert rms.accumulator_count_multiplier == 3
    rms.centered = False
    assert rms.accumulator_count_multiplier == 2
    assert "centered=False" in repr(rms)
    assert bn.SGDMomentumOptimizer(0.1).accumulator_count_multiplier == 0
    with pytest.raises(bn.OptimizerStepError, match="both given"):
        bn.AdamOptimizer(0.1, clips_gradients_to=(-1, 1), gradient_clipping=norm)
    for name, value in [("learning_rate", "fast"), ("beta1", None), ("uses_ams_grad", 1), ("gradient_clipping", 3),
                        ("clips_gradients_to", 1.0), ("regularization_function", 2)]:  # fmt: skip
        with pytest.raises(bn.OptimizerStepError, match=f"AdamOptimizer: {name} must be") as caught:
            bn.AdamOptimizer(**({"learning_rate": 0.1} | {name: value}))
        assert isinstance(caught.value, TypeError)


def test_bad_steps_of_classes(engine: str) -> None:
    optimizer = bn.AdamOptimizer(0.1)
    w = [np.ones((2, 3), np.float32), np.ones(4, np.float32)]
    g, states = [np.ones_like(a) for a in w], optimizer.zero_accumulators(w)
    locked = np.zeros(4, np.float32)
    locked.flags.writeable = False
    cases = [
        ((w, g[:1], states), "2 parameters, but 1 gradients", ValueError),
        ((w, g, states[:3]), r"accumulators has 3 entries, but 2 parameters need 4 \(2 for each", ValueError),
        ((w, g, ()), "accumulators has 0 entries", ValueError),
        ((w, [g[0].T, g[1]], states), r"gradients\[0\] has shape \(3, 2\), but parameters\[0\] has \(2, 3\)", ValueError),
        ((w, [g[0], g[1].astype(np.float64)], states), r"gradients\[1\] is float64", TypeError),
        (([w[0], np.ones(8, np.float32)[::2]], g, states), r"parameters\[1\] of shape \(4,\) is not C-contiguous", ValueError),
        (([w[0], locked], g, states), "read-only", ValueError),
        (([w[0], w[1]], g, [*states[:3], states[1]]), "share memory", ValueError),
        (([w[0], None], g, states), r"parameters\[1\] is None", ValueError),
        ((w[0], g, states), "must be a list", TypeError),
        ((w, g, states, 3), "filter_parameters must be", TypeError),
    ]  # fmt: skip
    for arguments, message, kind in cases:
        with pytest.raises(bn.OptimizerStepError, match=message) as caught:
            optimizer.step(*arguments)
        assert isinstance(caught.value, kind)
    for name, value in [("time_step", 0), ("beta1", 1.0), ("epsilon", math.nan)]:
        broken = bn.AdamOptimizer(0.1)
        setattr(broken, name, value)
        with pytest.raises(bn.OptimizerStepError, match=name):
            broken.step(w, g, states)
    with pytest.raises(bn.InvalidDescriptorError, match="data is None"):
        optimizer.step([bn.Shape.vector(4).descriptor()], [g[1]], states[1::2])
    for a in (*w, *g):
        assert np.all(a == 1.0)
    for a in states:
        assert not a.any()
    optimizer.step(w, [g[0].T.copy().T, g[1]], states)  # a gradient that is not contiguous is copied
    assert np.all(w[0] < 1.0)


def test_empty_arrays() -> None:
    optimizer = bn.AdamOptimizer(0.1)
    w = [np.ones(2, np.float32), np.ones((0, 3), np.float32)]
    states = optimizer.zero_accumulators(w)
    for engine in ("native", "reference"):
        with bn.engine(engine):
            optimizer.step(w, [np.ones_like(a) for a in w], states)
            optimizer.step([], [], [])
    assert np.all(w[0] < 1.0)


def test_hyperparameters_that_do_not_exist_are_refused() -> None:
    optimizer = bn.AdamOptimizer(learning_rate=0.1)
    for name in ("lr", "learning_rat"):
        with pytest.raises(
            AttributeError, match=rf"AdamOptimizer has no '{name}'\. Its hyperparameters are beta1.* learning_rate"
        ):
            setattr(optimizer, name, 0.5)
    optimizer.time_step += 1
    assert optimizer.time_step == 2 and optimizer.learning_rate == 0.1
