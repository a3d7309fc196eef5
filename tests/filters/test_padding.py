"""Padding beyond its case table: by definition, bit patterns of every type, the layer and bad input."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases import padding as cases
from cases._base import created, parameters, succeed
from cases.padding import MODES, case, float_bits
from cases.permute import FIRST_MAJOR, LAST_MAJOR
from helpers import EPSILON, FLOAT16, FLOAT32, IMAGE, VECTOR, Array, Tensor, assert_within, vector
from openbnns import capi

NUMPY_MODES = {"Constant": "constant", "Reflect": "reflect", "Symmetric": "symmetric"}


def padded(mode: str, x: Array, pairs: Any, value: Any) -> Array:
    options = {"constant_values": value} if mode == "Constant" else {}
    return np.pad(x, [(0, 0), *pairs], mode=NUMPY_MODES[mode], **options)


def check(c: Any) -> None:
    """Forward by NumPy's pad; backward by adding dy at the index that NumPy's pad copied from."""
    values = c.values()
    run = c.run(values)
    run.forward()
    np.testing.assert_array_equal(run.y.read(), padded(c.mode, values["x"], c.pairs, 0.625))
    places = np.arange(c.x.count).reshape(1, *c.x.size)
    source = padded(c.mode, places, c.pairs, -1)[0].ravel()
    expected, magnitude = np.zeros((c.batch, c.x.count)), np.zeros((c.batch, c.x.count))
    kept = source >= 0
    for n in range(c.batch):
        np.add.at(expected[n], source[kept], values["dy"][n].ravel()[kept])
        np.add.at(magnitude[n], source[kept], np.abs(values["dy"][n].ravel()[kept]))
    shape = (c.batch, *c.x.size)
    bound = 3 * EPSILON * magnitude.reshape(shape)
    assert_within(run.backward()["dx"].read(), expected.reshape(shape), bound, c.id)


@pytest.mark.parametrize("c", [*parameters([c for c in cases.EVERY_MODE if c.trains], "backward_rows")])
def test_by_definition(c: Any, engine: str) -> None:
    check(c)


@pytest.mark.parametrize("seed", range(60))
def test_random_configurations(seed: int, engine: str) -> None:
    rng = np.random.default_rng(seed)
    rank, mode = int(rng.integers(1, 6)), MODES[rng.integers(3)]
    most = {1: 300, 2: 20, 3: 8, 4: 5, 5: 4}[rank]
    size = tuple(int(n) for n in rng.integers(1, most + 1, rank))
    layout = VECTOR if rank == 1 else [FIRST_MAJOR, LAST_MAJOR][rng.integers(2)][rank]
    pairs = []
    for n in size:
        limit = {"Constant": 5, "Reflect": n - 1, "Symmetric": n}[mode]
        chosen = rng.integers(0, min(limit, 6) + 1, 2) if rng.random() < 0.7 else (0, 0)
        pairs.append((int(chosen[0]), int(chosen[1])))
    check(
        case(
            f"random-{seed}",
            mode,
            Tensor(layout, size),
            tuple(pairs),
            int(rng.integers(1, 4)),
            gap=int(rng.integers(0, 3)),
        )
    )


@pytest.mark.covers("pad.Constant.fwd", "pad.Reflect.fwd", "pad.Symmetric.fwd")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "name", ["Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Float16", "Float32"]
)
def test_every_bit_of_every_type(name: str, mode: str, engine: str) -> None:
    """Elements move as they are stored, and the border holds the leading bytes of the pattern."""
    kind, dtype, pattern = capi.BNNSDataType[f"BNNSDataType{name}"], np.dtype(name.lower()), 0x8123C0FE
    bits = np.random.default_rng(4).integers(0, 256, 2 * 15 * dtype.itemsize, np.uint8)
    stored = bits.view(f"u{dtype.itemsize}").reshape(2, 3, 5)
    value = pattern & ((1 << 8 * min(dtype.itemsize, 4)) - 1)
    pairs = ((1, 2), (2, 1))
    expected = padded(mode, stored, pairs, value)
    y = np.zeros_like(expected)
    d = [capi.BNNSNDArrayDescriptor(layout=FIRST_MAJOR[2], size=a.shape[1:], data_type=kind) for a in (stored, y)]
    p = capi.BNNSLayerParametersPadding(
        i_desc=d[0], o_desc=d[1], padding_size=pairs, padding_mode=capi.BNNSPaddingMode[f"BNNSPaddingMode{mode}"],
        padding_value=pattern,
    )  # fmt: skip
    made = created(capi.BNNSFilterCreateLayerPadding(p))
    succeed(capi.BNNSFilterApplyBatch(made, 2, stored.view(dtype), 0, y.view(dtype), 0))
    np.testing.assert_array_equal(y, expected)


@pytest.mark.covers("pad.Constant.bwd", "pad.Reflect.bwd", "pad.Symmetric.bwd")
@pytest.mark.parametrize("mode", MODES)
def test_gradients_agree_with_finite_differences(mode: str, engine: str) -> None:
    c = case("check", mode, Tensor(IMAGE, (4, 3, 2)), ((2, 3), (1, 2), (1, 0)))
    assert ob.gradcheck(created(c.create(None, None, 0)), verbose=False).passed


# ---------------------------------------------------------------------------------------------------------------------
# The layer


@pytest.mark.covers("swift.PaddingLayer", "swift.UnaryLayer", "pad.Constant.fwd", "pad.Reflect.bwd")
def test_layer(engine: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    pairs = [(1, 0), (2, 3), (0, 4)]
    for mode, name, value in [
        (ob.PaddingMode.constant_scalar(2.5), "Constant", 2.5),
        (ob.PaddingMode.constant_bit_pattern(float_bits(-1.5)), "Constant", -1.5),
        (ob.PaddingMode.symmetric(), "Symmetric", 0),
    ]:
        layer = ob.PaddingLayer(input=x, mode=mode, size=pairs)
        np.testing.assert_array_equal(layer.apply(x), padded(name, x, pairs, value))
        np.testing.assert_array_equal(layer.apply(x[1]), padded(name, x, pairs, value)[1])
    layer = ob.PaddingLayer(
        input=ob.Shape.image_chw(5, 4, 3), output=ob.Shape.image_chw(8, 5, 3), mode=ob.PaddingMode.reflect(),
        size=[(1, 2), (0, 1), (0, 0)],
    )  # fmt: skip
    y = layer.apply(x)
    np.testing.assert_array_equal(y, padded("Reflect", x, [(0, 0), (0, 1), (1, 2)], 0))
    dx = layer.apply_backward(output_gradient=np.ones_like(y)).input
    assert dx.sum() == y.size
    half = np.float16([[1, 2], [3, 4]])
    layer = ob.PaddingLayer(input=half, mode=ob.PaddingMode.constant_scalar(0.5), size=[(1, 1)])
    np.testing.assert_array_equal(layer.apply(half), np.pad(half, [(0, 0), (1, 1)], constant_values=0.5))


# ---------------------------------------------------------------------------------------------------------------------
# Bad input

GOOD: dict[str, Any] = {
    "i_desc": vector(4).descriptor(), "o_desc": vector(7).descriptor(), "padding_size": ((1, 2),), "padding_mode": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    "changes, pattern",
    [
        ({"padding_mode": 3}, r"padding_mode is 3, which is not a BNNSPaddingMode"),
        ({"padding_size": ((4, 0),), "o_desc": vector(8).descriptor()},
         r"padding_size\[0\] is \(4, 0\), but Reflect mirrors at most 3 of the 4 elements of i_desc\.size\[0\]"),
        ({"padding_size": ((0, 5),), "o_desc": vector(9).descriptor(), "padding_mode": 2}, r"Symmetric mirrors at most 4"),
        ({"padding_size": ((2**63, 0),), "padding_mode": 0}, r"padded by .* gives .*Set o_desc\.size"),
        ({"o_desc": vector(8).descriptor()}, r"i_desc size \(4,\) padded by \[\(1, 2\)\] gives \(7,\)\. Set o_desc\.size"),
        ({"o_desc": Tensor(IMAGE, (7, 1, 1)).descriptor()}, r"Both sides need the same layout"),
        ({"o_desc": vector(7, data_type=FLOAT16).descriptor()}, r"give both the same data_type"),
        ({"i_desc": capi.BNNSNDArrayDescriptor(data_type=FLOAT32)}, r"i_desc\.layout is 0x0"),
    ],
    ids=lambda v: v[:24] if isinstance(v, str) else "",
)  # fmt: skip
def test_bad_descriptions(changes: dict[str, Any], pattern: str, engine: str) -> None:
    assert capi.BNNSFilterCreateLayerPadding(capi.BNNSLayerParametersPadding(**(GOOD | changes))) is None
    message = str(ob.last_error())
    assert message.startswith("BNNSFilterCreateLayerPadding: ") and re.search(pattern, message), message


def test_layer_errors(engine: str) -> None:
    x, mode = np.zeros((2, 3), np.float32), ob.PaddingMode.reflect()
    for options, kind, pattern in [
        ({"mode": mode, "size": [(3, 0)]}, ValueError, "Reflect mirrors at most 2 of the 3"),
        ({"mode": mode, "size": [(-1, 0)]}, ValueError, "are not negative"),
        ({"mode": mode, "size": [1]}, TypeError, r"sequence of \(before, after\) pairs"),
        ({"mode": mode, "size": []}, ValueError, "one sample has 0 axes"),
        ({"mode": 1, "size": [(1, 0)]}, TypeError, "mode must be a PaddingMode"),
        ({"mode": mode, "size": [(1, 0)], "output": ob.Shape.vector(9)}, ValueError, r"Set output.size to \(4,\)"),
        ({"mode": mode, "size": [(2**64, 0)]}, ValueError, "PaddingLayer: "),
        ({"mode": ob.PaddingMode.constant_bit_pattern(2**40), "size": [(1, 0)]}, ValueError, "PaddingLayer: "),
    ]:
        with pytest.raises(kind, match=pattern) as caught:
            ob.PaddingLayer(input=x, **options)
        assert isinstance(caught.value, ob.LayerCreationError)
