"""Resize beyond its case table: by definition, types, switches, the layer and bad input."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from bad_calls import refused
from cases import resize as cases
from cases._base import created, parameters, succeed
from cases.permute import FIRST_MAJOR, LAST_MAJOR
from cases.resize import case
from helpers import FLOAT16, IMAGE, VECTOR, Array, Tensor, assert_within, vector
from openbnns import capi, compat


def weights(method: str, align: bool, n_in: int, n_out: int, asymmetric: bool = False) -> Array:
    """The matrix (n_out, n_in) of one axis, entry by entry."""
    matrix = np.zeros((n_out, n_in))
    for i in range(n_out):
        if n_in == n_out:
            matrix[i, i] = 1
            continue
        if method == "Nearest":
            matrix[i, i * n_in // n_out] = 1
            continue
        if align:
            position = i * (n_in - 1) / (n_out - 1) if n_out > 1 else 0.0
        else:
            position = i * n_in / n_out if asymmetric else (i + 0.5) * n_in / n_out - 0.5
        position = min(max(position, 0.0), n_in - 1.0)
        low = int(np.floor(position))
        matrix[i, low] += 1 - (position - low)
        matrix[i, min(low + 1, n_in - 1)] += position - low
    return matrix


def check(c: Any, asymmetric: bool = False) -> None:
    """y = x times one matrix per axis, dx = dy times their transposes."""
    values = c.values()
    y, dx = values["x"], values["dy"]
    for axis, (n_in, n_out) in enumerate(zip(c.x.size, c.y.size, strict=True), 1):
        m = weights(c.method, c.align, n_in, n_out, asymmetric)
        y = np.moveaxis(np.tensordot(m, y, (1, axis)), 0, axis)
        dx = np.moveaxis(np.tensordot(m.T, dx, (1, axis)), 0, axis)
    run = c.run(values)
    run.forward()
    assert_within(run.y.read(), y, c.forward_bound(values, y) + 1e-6, f"{c.id}: y")
    bound = 1e-6 * (1 + np.abs(dx)) * c.reductions["dx"]
    assert_within(run.backward()["dx"].read(), dx, bound, f"{c.id}: dx")
    run.y.assert_guards_intact("y")


@pytest.mark.parametrize("c", parameters([c for c in cases.CASES if c.trains], "backward_rows"))
def test_by_definition(c: Any, engine: str) -> None:
    check(c)


@pytest.mark.parametrize("seed", range(80))
def test_random_configurations(seed: int, engine: str) -> None:
    rng = np.random.default_rng(seed)
    rank, method = int(rng.integers(1, 6)), ("Nearest", "Linear")[rng.integers(2)]
    most = {1: 200, 2: 30, 3: 12, 4: 6, 5: 4}[rank]
    size = [int(n) for n in rng.integers(1, most + 1, rank)]
    changed = rng.permutation(rank)[: 2 if method == "Linear" else int(rng.integers(0, rank + 1))]
    out = [int(rng.integers(1, 2 * most + 1)) if d in changed else n for d, n in enumerate(size)]
    layout = VECTOR if rank == 1 else [FIRST_MAJOR, LAST_MAJOR][rng.integers(2)][rank]
    check(
        case(f"random-{seed}", method, Tensor(layout, tuple(size)), tuple(out), int(rng.integers(1, 4)),
             align=bool(rng.integers(2)), gap=int(rng.integers(0, 3)))
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_many_small_planes(seed: int, engine: str) -> None:
    """Planes that are worked on side by side, in whole vectors of them or not."""
    rng = np.random.default_rng(seed)
    size, out = ([int(n) for n in rng.integers(1, 17, 2)] for _ in range(2))
    planes = int(rng.choice([3, 4, 7, 8, 15, 16, 17, 35]))
    check(
        case(f"planes-{seed}", ("Nearest", "Linear")[seed % 2], Tensor(FIRST_MAJOR[3], (planes, *size)), (planes, *out),
             int(rng.integers(1, 4)), align=bool(rng.integers(2)), gap=int(rng.choice([0, 0, 3])))
    )  # fmt: skip


@pytest.mark.covers("resize.Linear.fwd", "resize.Linear.bwd")
def test_asymmetric_positions(engine: str) -> None:
    """The other interpretation leaves the half-pixel shift out."""
    for size in ((10, 8, 3), (2, 2, 3)):
        with compat.using(resize_asymmetric=True):
            check(case(f"asymmetric-{size[0]}", "Linear", Tensor(IMAGE, (5, 4, 3)), size), asymmetric=True)


@pytest.mark.covers("resize.Nearest.fwd")
@pytest.mark.parametrize("name", ["Int8", "UInt16", "Int32", "Int64", "UInt64", "Float16"])
def test_nearest_keeps_every_bit(name: str, engine: str) -> None:
    kind, dtype = capi.BNNSDataType[f"BNNSDataType{name}"], np.dtype(name.lower())
    stored = (
        np.random.default_rng(4).integers(0, 256, 2 * 3 * 5 * 4 * dtype.itemsize, np.uint8).view(f"u{dtype.itemsize}")
    )
    x = stored.reshape(2, 3, 5, 4)
    for size in ((6, 5, 8), (3, 10, 4), (1, 2, 2), (3, 5, 4)):
        y = np.zeros((2, *size), x.dtype)
        d = [capi.BNNSNDArrayDescriptor(layout=FIRST_MAJOR[3], size=a.shape[1:], data_type=kind) for a in (x, y)]
        made = created(
            capi.BNNSFilterCreateLayerResize(capi.BNNSLayerParametersResize(method=0, i_desc=d[0], o_desc=d[1]))
        )
        succeed(capi.BNNSFilterApplyBatch(made, 2, x.view(dtype), 0, y.view(dtype), 0))
        picks = [np.arange(n) * m // n for n, m in zip(size, x.shape[1:], strict=True)]
        np.testing.assert_array_equal(y, x[:, picks[0]][:, :, picks[1]][:, :, :, picks[2]])


def test_special_numbers(engine: str) -> None:
    """Products follow IEEE arithmetic: an infinite cell of weight 0 gives NaN; Nearest copies it."""
    x = np.float32([1, np.inf, 2, np.nan])
    y = np.zeros(8, np.float32)
    for method, expected in ((0, np.repeat(x, 2)), (1, None)):
        p = capi.BNNSLayerParametersResize(method=method, i_desc=vector(4).descriptor(), o_desc=vector(8).descriptor())
        succeed(capi.BNNSFilterApply(created(capi.BNNSFilterCreateLayerResize(p)), x, y))
        if expected is not None:
            np.testing.assert_array_equal(y, expected)
        else:
            assert np.isnan(y[0]) and np.isinf(y[1:5]).all() and np.isnan(y[5:]).all()


@pytest.mark.covers("resize.Nearest.bwd", "resize.Linear.bwd", "resize.align")
@pytest.mark.parametrize("method, align", [("Nearest", False), ("Linear", False), ("Linear", True)])
def test_gradients_agree_with_finite_differences(method: str, align: bool, engine: str) -> None:
    c = case("check", method, Tensor(IMAGE, (4, 3, 2)), (9, 7, 2), align=align)
    assert ob.gradcheck(created(c.create(None, None, 0)), verbose=False).passed


# ---------------------------------------------------------------------------------------------------------------------
# The layer


@pytest.mark.covers("swift.ResizeLayer", "swift.UnaryLayer", "resize.align")
def test_layer(engine: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    for method, name in (
        (ob.InterpolationMethod.NEAREST_NEIGHBOR, "Nearest"),
        (ob.InterpolationMethod.LINEAR, "Linear"),
    ):
        for align in (False, True):
            rows, columns = weights(name, align, 4, 8), weights(name, align, 5, 15)
            for given in (ob.Shape.image_chw(5, 4, 3), x):
                layer = ob.ResizeLayer(
                    interpolation_method=method, input=given, output=ob.Shape.image_chw(15, 8, 3), aligns_corners=align
                )
                y = layer.apply(x)
                np.testing.assert_allclose(y, np.einsum("ih,nchw,jw->ncij", rows, x, columns), atol=1e-5)
                dx = layer.apply_backward(x, y, y).input
                np.testing.assert_allclose(dx, np.einsum("ih,ncij,jw->nchw", rows, y, columns), atol=1e-4)


# ---------------------------------------------------------------------------------------------------------------------
# Bad input


@pytest.mark.parametrize(
    "changes, pattern",
    [
        ({"method": 2}, r"method is 2, which is not a BNNSInterpolationMethod"),
        ({"o_desc": Tensor(IMAGE, (10, 8, 6)).descriptor()}, r"differ along 3 axes\. Linear resizes at most two"),
        ({"o_desc": Tensor(FIRST_MAJOR[3], (5, 4, 3)).descriptor()}, r"Both sides need the same layout"),
        ({"o_desc": Tensor(IMAGE, (0, 4, 3)).descriptor()}, r"o_desc\.size\[0\] is 0"),
        ({"i_desc": capi.BNNSNDArrayDescriptor()}, r"i_desc\.layout is 0x0"),
    ],
    ids=lambda v: v[:24] if isinstance(v, str) else "",
)
def test_bad_descriptions(changes: dict[str, Any], pattern: str, engine: str) -> None:
    good = {
        "method": 1,
        "i_desc": Tensor(IMAGE, (5, 4, 3)).descriptor(),
        "o_desc": Tensor(IMAGE, (10, 8, 3)).descriptor(),
    }
    assert capi.BNNSFilterCreateLayerResize(capi.BNNSLayerParametersResize(**(good | changes))) is None
    message = str(ob.last_error())
    assert message.startswith("BNNSFilterCreateLayerResize: ") and re.search(pattern, message), message


def test_long_axes(engine: str) -> None:
    """Positions of very long axes are not computed before there is memory for them."""
    huge = capi.BNNSLayerParametersResize(
        method=1, i_desc=vector(1 << 44).descriptor(), o_desc=vector(1 << 45).descriptor()
    )
    made = created(capi.BNNSFilterCreateLayerResize(huge))
    assert capi.BNNSFilterApply(made, np.zeros(4, np.float32), np.zeros(8, np.float32)) == -1
    n = (1 << 19) + 3
    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    p = capi.BNNSLayerParametersResize(method=0, i_desc=vector(n).descriptor(), o_desc=vector(2 * n).descriptor())
    made, y, dx = created(capi.BNNSFilterCreateLayerResize(p)), np.zeros(2 * n, np.float32), np.zeros(n, np.float32)
    succeed(capi.BNNSFilterApply(made, x, y))
    np.testing.assert_array_equal(y, np.repeat(x, 2))
    d = [vector(n).descriptor(dx), vector(2 * n).descriptor(y)]
    succeed(capi.BNNSFilterApplyBackwardBatch(made, 1, None, 0, d[0], 0, None, 0, d[1], 0))
    np.testing.assert_array_equal(dx, 2 * x)


def test_training_is_float32(engine: str) -> None:
    made = created(case("half", "Linear", vector(4, data_type=FLOAT16), (8,)).create(None, None, 0))
    d = [vector(n).descriptor(np.zeros(n, np.float32)) for n in (4, 8)]
    refused(
        capi.BNNSFilterApplyBackwardBatch(made, 1, None, 0, d[0], 0, None, 0, d[1], 0), "training works on Float32 only"
    )


def test_layer_errors(engine: str) -> None:
    shape = ob.Shape.image_chw(5, 4, 3)
    for options, kind, pattern in [
        (
            {"interpolation_method": 1, "output": shape},
            TypeError,
            "interpolation_method must be an InterpolationMethod",
        ),
        ({"output": ob.Shape.image_chw(6, 5, 4)}, ValueError, "at most two"),
        ({"output": ob.Shape.vector(7)}, ValueError, "the same layout"),
    ]:
        with pytest.raises(kind, match=pattern) as caught:
            ob.ResizeLayer(**({"interpolation_method": ob.InterpolationMethod.LINEAR, "input": shape} | options))
        assert isinstance(caught.value, ob.LayerCreationError)
