"""The pooling layer: the filter in Python, its arguments and its messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases import pooling as cases
from cases._base import native
from cases.pooling import PoolingCase, c_order
from helpers import Array, assert_bitwise
from openbnns import capi

P = ob.PoolingType


def layer_type(c: PoolingCase, places: Array | None) -> ob.PoolingType:
    """The type of a case as Python has it."""
    dilation = {"x_dilation_stride": c.dilation[1], "y_dilation_stride": c.dilation[0]}
    if c.function in ("Max", "UnMax"):
        name = "max" if c.function == "Max" else "un_max"
        return getattr(P, f"{name}_ex" if c.index in ("u32", "u64") else name)(places, **dilation)
    if c.function == "L2Norm":
        return P.l2_norm()
    return P.average(count_includes_padding=c.function != "AverageCountExcludePadding")


def layer_of(c: PoolingCase, values: dict[str, Array], places: Array | None) -> ob.PoolingLayer:
    from cases.activation import function

    left, right, up, down = c.pad
    padding = ob.ConvolutionPadding.asymmetric(left, right, up, down)
    if c.symmetric != (0, 0):
        padding = ob.ConvolutionPadding.symmetric(x=c.symmetric[1], y=c.symmetric[0])
    return ob.PoolingLayer(
        type=layer_type(c, places), input=ob.Shape.image_chw(*c.x.size), output=ob.Shape.image_chw(*c.y.size),
        bias=np.float32(values["b"][0]) if c.b else None, activation=function(c.activation),
        kernel_size=c.kernel[::-1], stride=c.step[::-1], padding=padding,
    )  # fmt: skip


IN_LAYERS = [
    c for c in [*cases.SHAPES, *cases.UNMAX, *cases.NO_INDICES, *cases.FUSED, *cases.INDEXED]
    if c.trains and (c.dilation == (1, 1) or c.function in ("Max", "UnMax"))
]  # fmt: skip


@pytest.mark.covers("swift.PoolingLayer")
@pytest.mark.parametrize("c", IN_LAYERS, ids=lambda c: c.id)
def test_layer_is_the_filter(c: PoolingCase) -> None:
    expected = native(c)
    values = dict(expected.values)
    width, height, channels = c.small.size
    dtype = np.uint32 if c.index == "u32" else np.uint64
    places = np.full((c.batch, channels, height, width), 77, dtype) if c.index else None
    if c.unpools:
        assert places is not None
        places[:] = values["indices"].transpose(0, 3, 2, 1)
    x, dy = c_order(values["x"]), c_order(values["dy"])
    with layer_of(c, values, places) as layer:
        y = layer.apply(x)
        assert_bitwise(y, c_order(expected.y), "y")
        gradients = layer.apply_backward(x, y, dy)
        assert_bitwise(gradients.input, c_order(expected.gradients["dx"]), "dx")
        if c.b:
            assert_bitwise(gradients.bias, np.float32(expected.gradients["db"][0]), "db")
        else:
            assert gradients.bias is None
        old = np.ones_like(x)
        again = layer.apply_backward(x, y, dy, old, ob.skip, accumulate=True)
        assert again.input is old and again.bias is None
        np.testing.assert_allclose(old, gradients.input + 1, rtol=1e-5, atol=1e-5)
        assert layer.apply_backward(x, y, dy, ob.skip).input is None
        target = np.empty_like(y)
        assert layer.apply(x, target, batch_size=c.batch) is target
    with pytest.raises(ob.LayerApplyError, match="has been destroyed"):
        layer.apply(x)


@pytest.mark.covers("swift.PoolingLayer")
def test_layer_infers_its_output(engine: str) -> None:
    """The floor rule of PyTorch, and back."""
    for size, kernel, step, pad, out in [
        (7, 3, 2, 1, 4),
        (8, 3, 2, 1, 4),
        (8, 2, 2, 0, 4),
        (9, 2, 3, 0, 3),
        (5, 5, 1, 0, 1),
    ]:
        padding = ob.ConvolutionPadding.symmetric(x=pad, y=pad)
        layer = ob.PoolingLayer(
            type=P.average(), input=ob.Shape.image_chw(size, size, 2), kernel_size=kernel, stride=step, padding=padding
        )
        assert layer.apply(np.ones((2, size, size), np.float32)).shape == (2, out, out)
    back = ob.PoolingLayer(
        type=P.un_max(np.zeros((1, 2, 4, 4), np.uint64)),
        input=ob.Shape.image_chw(4, 4, 2),
        kernel_size=(3, 2),
        stride=2,
    )
    assert back.apply(np.ones((1, 2, 4, 4), np.float32)).shape == (1, 2, 8, 9)


@pytest.mark.covers("swift.PoolingLayer")
def test_layer_forms_of_arguments(engine: str) -> None:
    x = np.random.default_rng(1).standard_normal((3, 2, 4, 6)).astype(np.float32)
    signed, narrow = np.full((4, 2, 2, 3), -5, np.int64), np.zeros(3 * 12, np.uint32)
    described = capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutImageCHW,
        size=(3, 2, 2),
        data=np.zeros(36, np.uint32),
        data_type=capi.BNNSDataTypeUInt32,
    )
    types = [
        P.max(),
        P.max(signed),
        P.max(np.zeros(36, np.uint64)),
        P.max_ex(narrow),
        P.max_ex(described),
        P.max_ex(None),
    ]
    layers = [ob.PoolingLayer(type=t, input=x, kernel_size=(2, 2), stride=(2, 2)) for t in types]
    ys = [layer.apply(x) for layer in layers]
    dy = np.random.default_rng(2).standard_normal(ys[0].shape).astype(np.float32)
    gradients = [layer.apply_backward(x, None, dy).input for layer in layers]
    for y, dx in zip(ys, gradients, strict=True):
        assert_bitwise(y, ys[0], "y")
        assert_bitwise(dx, gradients[0], "dx")
    np.testing.assert_array_equal(signed[:3].reshape(-1), narrow)
    np.testing.assert_array_equal(described.data, narrow)
    assert np.all(signed[3] == -5)  # room for more samples than were applied
    single = layers[1].apply(x[1])
    assert_bitwise(single, ys[0][1], "one sample")
    assert_bitwise(layers[1].apply_backward(output_gradient=dy[1]).input, gradients[0][1], "one sample backward")
    spaced = np.repeat(x, 2, axis=3)[..., ::2]
    assert_bitwise(layers[3].apply(spaced), ys[0], "a strided input")
    memory = np.zeros((3, 2, 4, 6), np.float32)
    into = ob.Shape.image_chw(6, 4, 2).descriptor(data=memory)
    layers[0].apply_backward(ob.Shape.image_chw(6, 4, 2).descriptor(data=x), None, dy, into)
    assert_bitwise(memory, gradients[0], "descriptors")
    assert repr(layers[1]).startswith("PoolingLayer(type=PoolingType.max(indices=<int64 array (4, 2, 2, 3)>")
    assert ob.gradcheck(layers[1], verbose=False)


def test_layer_errors(engine: str) -> None:
    def make(**changes: Any) -> ob.PoolingLayer:
        fields: dict[str, Any] = {"type": P.max(), "input": ob.Shape.image_chw(6, 4, 2), "kernel_size": 2, "stride": 2}
        return ob.PoolingLayer(**{**fields, **changes})

    wrong = ob.Shape.image_chw(6, 4, 3)
    image_2x3 = {"layout": capi.BNNSDataLayoutImageCHW, "data_type": capi.BNNSDataTypeUInt32}
    bad: list[tuple[dict[str, Any], str]] = [
        ({"type": "max"}, r"type must be a PoolingType such as PoolingType.max\(\), not str"),
        ({"type": P.un_max()}, r"indices of un_max is None, but un_max needs"),
        ({"type": P.max(np.zeros((1, 2, 2, 3)))}, r"indices of max is float64, but indices are uint64"),
        ({"type": P.max(np.zeros((1, 2, 2, 3), np.uint32))}, r"is uint32, but indices are uint64"),
        ({"type": P.max_ex(np.zeros((1, 2, 2, 3), np.uint16))}, r"is uint16, but indices are uint32 or uint64"),
        ({"type": P.max(np.zeros((1, 2, 3, 2), np.uint64))}, r"has shape \(1, 2, 3, 2\), .* pass \(N, 2, 2, 3\)"),
        ({"type": P.max(np.zeros(13, np.uint64))}, r"has shape \(13,\)"),
        ({"type": P.max(np.zeros((1, 2, 2, 6), np.uint64)[..., ::2])}, r"must be C-contiguous"),
        ({"type": P.max(capi.BNNSNDArrayDescriptor())}, r"indices of max is a descriptor.*max_ex"),
        ({"type": P.max_ex(capi.BNNSNDArrayDescriptor(size=(3, 2, 2), **image_2x3))}, r"max_ex.data is None"),
        ({"type": P.max_ex(capi.BNNSNDArrayDescriptor(size=(2, 3, 2), data=np.zeros(12, np.uint32), **image_2x3))},
         r"indices have the dimensions and strides of the smaller"),
        ({"type": P.max(x_dilation_stride=0)}, r"dilation stride of type is 0"),
        ({"output": wrong}, r"input has 2 channels and output 3"),
        ({"output": ob.Shape.image_chw(4, 2, 2)}, r"output width is 4, but input width 6 .* room for the start of 3 windows"),
        ({"kernel_size": 0}, r"kernel_size is 0. It must be at least 1"),
        ({"kernel_size": (2, 2, 2)}, r"kernel_size is \(2, 2, 2\)"),
        ({"kernel_size": 9}, r"leaves no output with windows of 9 x 9"),
        ({"stride": 0}, r"stride is 0"),
        ({"bias": np.zeros(3, np.float32)}, r"bias is Vector size \(3,\)"),
        ({"activation": "relu"}, r"activation must be an ActivationFunction"),
        ({"input": np.zeros((2, 2), np.float32)}, r"input has shape \(2, 2\), but one sample has 3 axes"),
    ]  # fmt: skip
    for changes, message in bad:
        with pytest.raises(ob.BNNSError, match=message):
            make(**changes)
    x = np.zeros((3, 2, 4, 6), np.float32)
    small = make(type=P.max(np.zeros((2, 2, 2, 3), np.uint64)))
    plain, fused = make(), make(activation=ob.ActivationFunction.tanh())
    dy = np.ones((3, 2, 2, 3), np.float32)
    calls: list[tuple[Any, str]] = [
        (lambda: small.apply(x), r"indices holds 192 bytes, but the call touches 288"),
        (lambda: plain.apply(x[:, :1]), r"input has shape \(3, 1, 4, 6\)"),
        (lambda: plain.apply(x.astype(np.float16)), r"input is float16"),
        (lambda: plain.apply_backward(None, None, dy), r"input is None, but the input gradient of Max pooling needs the forward"),
        (lambda: fused.apply_backward(x, None, dy), r"output is None, but the fused activation"),
        (lambda: plain.apply_backward(x, None, None), r"output_gradient is None"),
        (lambda: plain.apply_backward(x, None, dy, None, np.zeros(2, np.float32)), r"no gradient of bias"),
    ]  # fmt: skip
    for call, message in calls:
        with pytest.raises(ob.LayerApplyError, match=message):
            call()
