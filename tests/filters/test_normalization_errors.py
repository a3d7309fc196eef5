"""Normalization called wrongly: a message, -1, nothing written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from bad_calls import refused
from cases._base import Act, created
from cases.normalization import NormalizationCase, NormalizationRun, expected
from helpers import FLOAT16, FLOAT32, Storage, assert_within, image, vector
from openbnns import capi

C = NormalizationCase
ALL_GRADIENTS = ("dx", "dbeta", "dgamma")


def struct(**changes: Any) -> capi.BNNSLayerParametersNormalization:
    sample = image(6, 4, 5).descriptor()
    return capi.BNNSLayerParametersNormalization(**{"i_desc": sample, "o_desc": sample, "num_groups": 3, **changes})


def ones(count: int, **options: Any) -> Any:
    t = vector(count, **options)
    return t.descriptor(np.ones(t.span, t.dtype))


SHARED = np.ones(8, np.float32)
BAD_CREATIONS: list[tuple[int, Any, str]] = [
    (2, None, "layer_params is NULL"),
    (0, struct(), "normType is 0. Use BNNSBatchNorm"),
    (6, struct(), "normType is 6"),
    (2, struct(i_desc=capi.BNNSNDArrayDescriptor()), "i_desc.layout is 0x0"),
    (2, struct(i_desc=capi.BNNSNDArrayDescriptor(layout=capi.BNNSDataLayoutRowMajorMatrix, size=[3, 4],
                                                 data_type=FLOAT32)), "i_desc.layout is RowMajorMatrix. Normalizations take"),
    (2, struct(o_desc=image(6, 4, 4).descriptor()), "i_desc is .* and o_desc .* keeps the dimensions"),
    (2, struct(o_desc=vector(120).descriptor()), "keeps the dimensions"),
    (2, struct(beta_desc=ones(5)), "beta_desc is .*one value for each of the 6 channels. Describe a Vector of size 6"),
    (3, struct(gamma_desc=image(6, 4, 5).descriptor(np.ones(120, np.float32))), "gamma_desc is ImageCHW"),
    (5, struct(gamma_desc=ones(3)), "gamma_desc"),
    (2, struct(gamma_desc=vector(6).descriptor(np.ones(5, np.float32))), "gamma_desc.data holds 20 bytes"),
    (4, struct(gamma_desc=ones(4)), "have the dimensions of a sample"),
    (4, struct(beta_desc=image(2, 4, 5).descriptor(np.ones(40, np.float32))), "beta_desc is .*dimensions of a sample"),
    (2, struct(moving_mean_desc=ones(5)), "moving_mean_desc is .*6 channels"),
    (3, struct(moving_variance_desc=ones(7)), "moving_variance_desc is .*6 channels"),
    (2, struct(moving_mean_desc=ones(6, data_type=FLOAT16)), "moving statistics are Float32"),
    (2, struct(moving_mean_desc=vector(6).descriptor(SHARED), moving_variance_desc=vector(6).descriptor(SHARED[1:])),
     "moving_mean_desc and moving_variance_desc share memory"),
    (5, struct(num_groups=4), "num_groups is 4, but the 6 channels.*divisor of 6"),
    (5, struct(num_groups=0), "num_groups is 0"),
    (4, struct(normalization_axis=3), "normalization_axis is 3. Use 0"),
    (2, struct(epsilon=-1e-3), "epsilon is -0.001"),
    (2, struct(epsilon=np.nan), "epsilon is nan"),
    (2, struct(momentum=1.5), "momentum is 1.5"),
    (3, struct(momentum=np.nan), "momentum is nan"),
    (2, struct(activation=Act("Softmax").struct), "Softmax, but the activation of a normalization is elementwise"),
    (4, struct(activation=Act("LogSoftmax").struct), "LogSoftmax, but"),
    (2, struct(activation=Act("Gumbel").struct), "Gumbel, which cannot be fused"),
    (2, struct(activation=capi.BNNSActivation(function=99)), "activation.function is 99"),
]  # fmt: skip


@pytest.mark.covers("fn.BNNSFilterCreateLayerNormalization")
@pytest.mark.parametrize(("kind", "parameters", "message"), BAD_CREATIONS, ids=[m for *_, m in BAD_CREATIONS])
def test_bad_creation(kind: int, parameters: Any, message: str) -> None:
    refused(capi.BNNSFilterCreateLayerNormalization(kind, parameters), message)


def test_unused_settings_do_not_matter() -> None:
    """Groups, axis and momentum belong to some kinds only."""
    odd = {"num_groups": 77, "normalization_axis": 9}
    for kind in (capi.BNNSBatchNorm, capi.BNNSInstanceNorm):
        assert capi.BNNSFilterCreateLayerNormalization(kind, struct(**odd))
    assert capi.BNNSFilterCreateLayerNormalization(capi.BNNSLayerNorm, struct(num_groups=77, momentum=9.0))
    assert capi.BNNSFilterCreateLayerNormalization(capi.BNNSGroupNorm, struct(normalization_axis=9, momentum=-1.0))


@pytest.mark.covers("fn.BNNSNormalizationFilterApplyBatch", "fn.BNNSNormalizationFilterApplyBackwardBatch")
def test_bad_calls(engine: str) -> None:
    run = NormalizationRun(C("batch", (6, 4, 5), activation=Act("Tanh")))
    f, x, y = run.filter, run.x.elements, run.y.elements
    run.forward()
    run.y.before = run.y.memory.copy()
    d = run.new_gradients(ALL_GRADIENTS)
    dx, db, dg = (d[name].descriptor() for name in ALL_GRADIENTS)
    dy = run.dy.descriptor()
    apply, back = capi.BNNSNormalizationFilterApplyBatch, capi.BNNSNormalizationFilterApplyBackwardBatch
    calls: list[tuple[Any, str]] = [
        (lambda: apply(None, 4, x, 0, y, 0, True), "filter is NULL"),
        (lambda: apply(f, 4, None, 0, y, 0, True), "in is NULL"),
        (lambda: apply(f, 4, x, 0, None, 0, False), "out is NULL"),
        (lambda: apply(f, 5, x, 0, y, 0, True), "in holds 1920 bytes, but the call touches 2400"),
        (lambda: apply(f, 4, x, 0, y[:-1], 0, True), "out holds"),
        (lambda: apply(f, 4, x, 0, y, 7, True), "out_stride is 7, but one sample spans 120"),
        (lambda: apply(f, -1, x, 0, y, 0, True), "batch_size is -1"),
        (lambda: back(f, 4, dx, 0, y, 0, None, 0, db, dg), "out_delta is NULL"),
        (lambda: back(f, 4, dx, 0, None, 0, dy, 0, db, dg), "out is NULL, but the fused activation"),
        (lambda: back(f, 2, dx, 0, y, 0, dy, 0, db, dg), "latest training forward had 4"),
        (lambda: back(f, 4, dx, 0, y, 0, dy, 0, vector(5).descriptor(y), dg), "beta_delta is Vector size .5"),
        (lambda: back(f, 4, dx, 0, y, 0, dy, 0, db, image(6, 4, 5).descriptor(y)), "gamma_delta is ImageCHW"),
        (lambda: back(f, 4, vector(120).descriptor(y), 0, y, 0, dy, 0, db, dg), "in_delta is Vector"),
        (lambda: back(f, 4, image(6, 4, 5, data_type=FLOAT16).descriptor(np.zeros(480, np.float16)), 0, y, 0, dy, 0, db, dg),
         "in_delta.data_type is Float16, but training works on Float32 or BFloat16"),
        (lambda: back(f, 4, d["dx"].descriptor(3), 0, y, 0, dy, 0, db, dg), "in_delta.flags is 3"),
        (lambda: back(f, 4, image(6, 4, 5).descriptor(), 0, y, 0, dy, 0, db, dg), "in_delta.data is NULL"),
    ]  # fmt: skip
    for call, message in calls:
        refused(call(), message)
        for storage in (run.x, run.y, run.dy, *d.values()):
            storage.assert_unchanged(message)
    for call in (
        lambda: apply(f, 4, x, 0, y, 0, "yes"), lambda: apply(f, 1.5, x, 0, y, 0, True),
        lambda: back(f, 4, dx, 0, y, 0, "dy", 0, db, dg), lambda: capi.BNNSFilterCreateLayerNormalization("batch", struct()),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            call()


def test_calls_of_other_families() -> None:
    run = NormalizationRun(C("batch"))
    f, x, y = run.filter, run.x.elements, run.y.elements
    refused(capi.BNNSFilterApply(f, x, y), "Use BNNSNormalizationFilterApplyBatch")
    assert capi.BNNSFilterApplyBatch(f, 4, x, 0, y, 0) == -1
    refused(
        capi.BNNSFilterApplyBackwardBatch(f, 4, x, 0, None, 0, y, 0, run.dy.descriptor(), 0, None, None),
        "Use BNNSNormalizationFilterApplyBackwardBatch",
    )
    run.y.assert_unchanged("y")
    other = created(
        capi.BNNSFilterCreateLayerActivation(
            capi.BNNSLayerParametersActivation(
                i_desc=vector(3).descriptor(), o_desc=vector(3).descriptor(), activation=Act("Tanh").struct
            )
        )
    )
    refused(
        capi.BNNSNormalizationFilterApplyBatch(other, 1, x, 0, y, 0, True),
        "does not drive a filter of family activation",
    )
    assert (
        capi.BNNSNormalizationFilterApplyBackwardBatch(other, 1, None, 0, None, 0, run.dy.descriptor(), 0, None, None)
        == -1
    )
    capi.BNNSFilterDestroy(f)
    refused(capi.BNNSNormalizationFilterApplyBatch(f, 4, x, 0, y, 0, True), "has been destroyed")


def test_activations_that_do_not_train() -> None:
    run = NormalizationRun(C("batch", activation=Act("SiLU")))
    run.forward()
    dx = run.new_gradients(("dx",))["dx"]
    code = capi.BNNSNormalizationFilterApplyBackwardBatch(
        run.filter, 4, dx.descriptor(), 0, run.y.elements, 0, run.dy.descriptor(), 0, None, None
    )
    assert code == -1 and "SiLU cannot be trained" in (ob.last_error() or "")
    dx.assert_unchanged("dx")


def test_only_float_types_train() -> None:
    run = NormalizationRun(C("batch", x_type=FLOAT16))
    run.forward()
    dx = Storage(image(3, 4, 5), 4)
    code = capi.BNNSNormalizationFilterApplyBackwardBatch(
        run.filter, 4, dx.descriptor(), 0, None, 0, run.dy.descriptor(), 0, None, None
    )
    assert code == -1 and "input is Float16, but training works on Float32 or BFloat16" in (ob.last_error() or "")


def test_gradients_of_absent_parameters(engine: str) -> None:
    """Absent beta and gamma have the gradients of 0 and 1."""
    case = C("batch")
    values = case.values() | {"beta": np.zeros((1, 3)), "gamma": np.ones((1, 3))}
    want = expected(case, values)
    run = NormalizationRun(replace(case, beta=None, gamma=None), values)
    run.forward()
    for name, storage in run.backward().items():
        assert_within(storage.read(), want[name], 1e-5 * (1 + np.abs(want[name])), name)


@pytest.mark.parametrize("flags", [0, 1])
@pytest.mark.parametrize(
    ("kind", "layout", "size"),
    [
        ("layer", "ImageCHW", (4, 1, 1)), ("layer", "ImageCHW", (1, 3, 2)), ("layer", "ImageCHW", (1, 1, 1)),
        ("layer", "Vector", (4,)), ("group", "ImageCHW", (1, 1, 2)), ("instance", "ImageCHW", (1, 1, 2)),
    ],
)  # fmt: skip
def test_gradients_of_absent_parameters_in_every_shape(
    kind: str, layout: str, size: tuple[int, ...], flags: int, engine: str
) -> None:
    """Where the shape has one value along an axis, the gradient is the sum along it."""
    draw = np.random.default_rng(3)
    x, dy = (draw.standard_normal((3, 2, 3, 4)).astype(np.float32) for _ in range(2))
    image = capi.BNNSNDArrayDescriptor(layout=capi.BNNSDataLayoutImageCHW, size=(4, 3, 2), data_type=FLOAT32.value)
    normalization = capi.BNNSFilterCreateLayerNormalization(
        {"layer": capi.BNNSLayerNorm, "group": capi.BNNSGroupNorm, "instance": capi.BNNSInstanceNorm}[kind],
        capi.BNNSLayerParametersNormalization(i_desc=image, o_desc=image, epsilon=1e-3, num_groups=1),
        None,
    )
    assert capi.BNNSNormalizationFilterApplyBatch(normalization, 3, x, 0, np.empty_like(x), 0, True) == 0
    xhat = np.empty_like(x)
    assert capi.BNNSNormalizationFilterApplyBatch(normalization, 3, x, 0, xhat, 0, True) == 0
    arriving = image.copy()
    arriving.data = dy
    parameter_gradients = [np.ones(size[::-1], np.float32) for _ in range(2)]
    deltas = [
        capi.BNNSNDArrayDescriptor(
            layout=capi.BNNSDataLayout[f"BNNSDataLayout{layout}"],
            size=size,
            data_type=FLOAT32.value,
            data=g,
            flags=flags,
        )
        for g in parameter_gradients
    ]
    code = capi.BNNSNormalizationFilterApplyBackwardBatch(normalization, 3, None, 0, None, 0, arriving, 0, *deltas)
    assert code == 0, ob.last_error()
    shape = (1,) * (3 - len(size)) + size[::-1]
    for gradient, terms in zip(parameter_gradients, (dy, dy * xhat), strict=True):
        want = terms.sum(0, np.float64)
        axes = tuple(axis for axis, n in enumerate(shape) if n == 1)
        want = want.sum(axes, keepdims=True) + flags
        np.testing.assert_allclose(gradient.reshape(shape), want, atol=2e-6)
    deltas[0].size = (3, *size[1:])
    code = capi.BNNSNormalizationFilterApplyBackwardBatch(normalization, 3, None, 0, None, 0, arriving, 0, *deltas)
    assert code == -1 and "beta_delta is" in (ob.last_error() or "")
