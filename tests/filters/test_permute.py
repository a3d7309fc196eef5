"""Permute: the reference engine; by definition for every type, its own backward call, the layer and bad input."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from bad_calls import refused
from cases import permute as cases
from cases._base import created, parameters, succeed
from cases.permute import FIRST_MAJOR, case
from differences import assert_adjoint, generator
from helpers import FIRST_MAJOR_2D, FLOAT16, IMAGE, ROW_MAJOR, Storage, Tensor, vector
from openbnns import capi
from openbnns.reference import permute as reference


@pytest.mark.parametrize("permutation", list(itertools.permutations(range(3))))
def test_reference(permutation: tuple[int, ...]) -> None:
    x = generator(3).standard_normal((2, 3, 5))
    y = reference.forward(x, permutation)
    assert y.shape == tuple(x.shape[axis] for axis in permutation)
    for index in np.ndindex(y.shape):
        source = [0, 0, 0]
        for k, axis in enumerate(permutation):
            source[axis] = index[k]
        assert y[index] == x[tuple(source)]
    np.testing.assert_array_equal(reference.backward(y, permutation), x)
    assert_adjoint(lambda x: reference.forward(x, permutation), lambda v: reference.backward(v, permutation), x.shape)


def test_reference_measured_and_empty() -> None:
    np.testing.assert_array_equal(
        reference.forward(np.arange(1.0, 7).reshape(2, 3), (1, 0)).ravel(), [1, 4, 2, 5, 3, 6]
    )
    np.testing.assert_array_equal(
        reference.backward(np.arange(1.0, 7).reshape(3, 2), (1, 0)).ravel(), [1, 3, 5, 2, 4, 6]
    )
    assert reference.forward(np.zeros((0, 3, 2)), (0, 2, 1)).shape == (0, 2, 3)
    for wrong in [(0, 0, 1), (0, 1), (0, 1, 3)]:
        with pytest.raises(ValueError, match="is not a permutation of the 3 axes"):
            reference.forward(np.zeros((2, 3, 4)), wrong)


@pytest.mark.covers("permute.fwd", "permute.bwd", "fn.BNNSPermuteFilterApplyBackwardBatch")
@pytest.mark.parametrize("c", parameters([c for c in cases.CASES if c.trains]))
def test_by_definition(c: Any, engine: str) -> None:
    """(batch, *size) arrays are transposed, nothing else; the own backward call gives the bits of the general one."""
    values = c.values()
    run = c.run(values)
    order = (0, *(1 + k for k in c.permutation))
    run.forward()
    np.testing.assert_array_equal(run.y.read(), values["x"].transpose(order))
    expected = values["dy"].transpose(np.argsort(order))
    np.testing.assert_array_equal(run.backward()["dx"].read(), expected)
    for flags in (0, 1):
        dx = Storage(c.gradient_tensor("dx"), c.batch, c.gap and c.gap + 2, np.ones_like(values["x"]))
        succeed(
            capi.BNNSPermuteFilterApplyBackwardBatch(
                run.filter, c.batch, dx.descriptor(flags), dx.stride, run.dy.descriptor(), run.dy.stride
            )
        )
        np.testing.assert_array_equal(dx.read(), np.float32(expected) + np.float32(flags))
        dx.assert_guards_intact("dx")


@pytest.mark.covers("permute.fwd")
@pytest.mark.parametrize("name", ["Int8", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Boolean"])
def test_every_bit_of_every_type(name: str, engine: str) -> None:
    kind = capi.BNNSDataType[f"BNNSDataType{name}"]
    dtype = np.dtype("u1" if name == "Boolean" else name.lower())
    bits = np.random.default_rng(4).integers(0, 256, 2 * 20 * 19 * 18 * dtype.itemsize, np.uint8)
    x = bits.view(dtype).reshape(2, 20, 19, 18)
    for permutation in itertools.permutations(range(3)):
        y = np.zeros_like(x.transpose(0, *(1 + k for k in permutation)), order="C")
        d = [capi.BNNSNDArrayDescriptor(layout=FIRST_MAJOR[3], size=a.shape[1:], data_type=kind) for a in (x, y)]
        made = created(
            capi.BNNSFilterCreateLayerPermute(
                capi.BNNSLayerParametersPermute(i_desc=d[0], o_desc=d[1], permutation=permutation)
            )
        )
        succeed(capi.BNNSFilterApplyBatch(made, 2, x, 0, y, 0))
        np.testing.assert_array_equal(y, x.transpose(0, *(1 + k for k in permutation)))


def test_elements_narrower_than_a_byte(engine: str) -> None:
    kind = capi.BNNSDataType.BNNSDataTypeUInt4
    d = [capi.BNNSNDArrayDescriptor(layout=FIRST_MAJOR_2D, size=size, data_type=kind) for size in ((3, 5), (5, 3))]
    numbers = np.random.default_rng(1).integers(0, 16, (3, 5))

    def pack(values: Any) -> Any:
        flat = [*values.ravel().tolist(), 0]
        return np.uint8([flat[2 * i] | flat[2 * i + 1] << 4 for i in range(8)])

    y = np.zeros(8, np.uint8)
    p = capi.BNNSLayerParametersPermute(i_desc=d[0], o_desc=d[1], permutation=(1, 0))
    succeed(capi.BNNSFilterApply(created(capi.BNNSFilterCreateLayerPermute(p)), pack(numbers), y))
    np.testing.assert_array_equal(y, pack(numbers.T))


@pytest.mark.parametrize("seed", range(60))
def test_random_configurations(seed: int, engine: str) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 7))
    most = {1: 500, 2: 90, 3: 30, 4: 12, 5: 6, 6: 4}[rank]
    size = tuple(int(n) for n in rng.integers(1, most + 1, rank))
    permutation = tuple(int(k) for k in rng.permutation(rank))
    layout = vector(1).layout if rank == 1 else [cases.FIRST_MAJOR, cases.LAST_MAJOR][rng.integers(2)][rank]
    stride = (int(rng.integers(1, 3)),) if rng.random() < 0.3 else ()
    c = case(
        f"random-{seed}",
        Tensor(layout, size, stride),
        permutation,
        int(rng.integers(1, 4)),
        gap=int(rng.integers(0, 3)),
    )
    values = c.values()
    run = c.run(values)
    run.forward()
    order = (0, *(1 + k for k in permutation))
    np.testing.assert_array_equal(run.y.read(), values["x"].transpose(order))
    np.testing.assert_array_equal(run.backward()["dx"].read(), values["dy"].transpose(np.argsort(order)))
    run.y.assert_guards_intact("y")


@pytest.mark.covers("permute.bwd")
def test_gradients_agree_with_finite_differences(engine: str) -> None:
    c = case("check", Tensor(IMAGE, (4, 3, 2)), (2, 0, 1))
    assert ob.gradcheck(created(c.create(None, None, 0)), verbose=False).passed


# ---------------------------------------------------------------------------------------------------------------------
# The layer


@pytest.mark.covers("swift.PermuteLayer", "swift.UnaryLayer", "permute.fwd", "permute.bwd")
@pytest.mark.parametrize("permutation", [(0, 2, 1), (2, 0, 1), (-1, 0, 1), (1, -1, 0)])
def test_layer_on_arrays(permutation: tuple[int, ...], engine: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    wanted = x.transpose(0, *(1 + k % 3 for k in permutation))
    with ob.PermuteLayer(input=x, permutation=permutation) as layer:
        y = layer.apply(x)
        np.testing.assert_array_equal(y, wanted)
        np.testing.assert_array_equal(layer.apply(x[0]), wanted[0])
        np.testing.assert_array_equal(layer.apply(np.asfortranarray(x)), wanted)
        np.testing.assert_array_equal(layer.apply_backward(output_gradient=y).input, x)
        dx = np.ones_like(x)
        layer.apply_backward(x, y, y, generating_input_gradient=dx, accumulate=True)
        np.testing.assert_array_equal(dx, x + 1)


def test_layer_on_shapes(engine: str) -> None:
    """Swift's axes are positions in size[]."""
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    layer = ob.PermuteLayer(
        input=ob.Shape.image_chw(5, 4, 3), output=ob.Shape.image_chw(3, 5, 4), permutation=[2, 0, 1]
    )
    np.testing.assert_array_equal(layer.apply(x), x.transpose(0, 2, 3, 1))
    matrix = ob.PermuteLayer(input=ob.Shape.matrix_row_major(5, 4), permutation=[1, 0])
    np.testing.assert_array_equal(matrix.apply(x[:, 0]), x[:, 0].transpose(0, 2, 1))


# ---------------------------------------------------------------------------------------------------------------------
# Bad input

GOOD = {
    "i_desc": Tensor(IMAGE, (5, 4, 3)).descriptor(), "o_desc": Tensor(IMAGE, (3, 5, 4)).descriptor(),
    "permutation": (2, 0, 1),
}  # fmt: skip


@pytest.mark.parametrize(
    "changes, pattern",
    [
        ({"permutation": (2, 0, 2)}, r"permutation is \(2, 0, 2\), but ImageCHW has the axes 0 to 2\. Name each exactly once"),
        ({"permutation": (2, 0, 3)}, r"Name each exactly once"),
        ({"permutation": ()}, r"permutation is \(0, 0, 0\)"),
        ({"permutation": (2, 1, 0)}, r"gives \(3, 4, 5\)\. Set o_desc\.size to \(3, 4, 5\)"),
        ({"o_desc": Tensor(IMAGE, (5, 4, 3)).descriptor()}, r"\(2, 0, 1\) of i_desc size \(5, 4, 3\) gives \(3, 5, 4\)"),
        ({"o_desc": Tensor(FIRST_MAJOR[3], (3, 5, 4)).descriptor()}, r"Both sides need the same layout"),
        ({"o_desc": Tensor(IMAGE, (3, 5, 4), data_type=FLOAT16).descriptor()}, r"give both the same data_type"),
        ({"i_desc": capi.BNNSNDArrayDescriptor()}, r"i_desc\.layout is 0x0"),
    ],
    ids=lambda v: v[:24] if isinstance(v, str) else "",
)  # fmt: skip
def test_bad_descriptions(changes: dict[str, Any], pattern: str, engine: str) -> None:
    assert capi.BNNSFilterCreateLayerPermute(capi.BNNSLayerParametersPermute(**(GOOD | changes))) is None
    message = str(ob.last_error())
    assert message.startswith("BNNSFilterCreateLayerPermute: ") and re.search(pattern, message), message


def test_bad_calls(engine: str) -> None:
    made = created(capi.BNNSFilterCreateLayerPermute(capi.BNNSLayerParametersPermute(**GOOD)))
    dx = Storage(Tensor(IMAGE, (5, 4, 3)), 2)
    dy = Storage(Tensor(IMAGE, (3, 5, 4)), 2, 0, np.ones((2, 3, 5, 4)))
    good = {
        "filter": made, "batch_size": 2, "in_delta": dx.descriptor(), "in_delta_stride": 0, "out_delta": dy.descriptor(),
        "out_delta_stride": 0,
    }  # fmt: skip
    short = Tensor(IMAGE, (5, 4, 3)).descriptor(np.zeros(119, np.float32))
    other = created(ob.DropoutLayer(input=ob.Shape.vector(4), rate=0.5).bnns_filter)
    for changes, pattern in [
        ({"in_delta": None}, r"in_delta is NULL, but it is all that this call computes"),
        ({"out_delta": None}, r"out_delta is NULL"),
        ({"in_delta": short}, r"in_delta\.data holds 476 bytes"),
        ({"in_delta": dy.descriptor()}, r"in_delta is ImageCHW size \(3, 5, 4\), but this filter's tensor is"),
        ({"in_delta": dx.descriptor(2)}, r"in_delta\.flags is 2"),
        ({"batch_size": 3}, r"holds \d+ bytes"),
        ({"batch_size": -1}, r"batch_size is -1"),
        ({"in_delta_stride": 59}, r"in_delta_stride is 59"),
        ({"filter": None}, r"filter is NULL"),
        ({"filter": other}, r"does not drive a filter of family dropout\. Use BNNSFilterApplyBackwardBatch"),
    ]:
        refused(capi.BNNSPermuteFilterApplyBackwardBatch(**(good | changes)), pattern)
        dx.assert_unchanged("dx")
    assert capi.BNNSPermuteFilterApplyBackwardBatch(**good) == 0, ob.last_error()
    capi.BNNSFilterDestroy(made)
    assert capi.BNNSPermuteFilterApplyBackwardBatch(**good) == -1


def test_layer_errors(engine: str) -> None:
    x = np.zeros((2, 3, 4), np.float32)
    for options, kind, pattern in [
        (
            {"input": x, "permutation": (0, 0)},
            ValueError,
            r"permutation is \(0, 0\), but the input has the axes 0 to 1",
        ),
        ({"input": x, "permutation": (0, 2)}, ValueError, "Name each exactly once"),
        ({"input": x, "permutation": (0,)}, ValueError, "one sample has 1 axes here"),
        ({"input": x, "permutation": "ab"}, TypeError, "must be a sequence of whole numbers"),
        ({"input": x, "permutation": 3}, TypeError, "must be a sequence of whole numbers"),
        (
            {"input": ob.Shape.matrix_row_major(3, 4), "permutation": (0, 1, 2)},
            ValueError,
            "has 3 entries, but the input has 2",
        ),
        ({"input": x, "permutation": (1, 0), "output": x}, ValueError, r"Set output.size to \(4, 3\)"),
        ({"input": x.astype(np.complex64), "permutation": (1, 0)}, TypeError, "input is complex64"),
    ]:
        with pytest.raises(kind, match=pattern) as caught:
            ob.PermuteLayer(**options)
        assert isinstance(caught.value, ob.LayerCreationError)


def test_row_major_counts_columns_first(engine: str) -> None:
    c = case("rows", Tensor(ROW_MAJOR, (7, 4)), (1, 0), batch=1)
    run = c.run()
    run.forward()
    np.testing.assert_array_equal(run.y.elements.reshape(7, 4), run.x.elements.reshape(4, 7).T)


def test_gradient_with_gaps_is_still_required(engine: str) -> None:
    """A described gradient that native code does not take as it lies is needed all the same."""
    x, y = Tensor(FIRST_MAJOR_2D, (2, 3)), Tensor(FIRST_MAJOR_2D, (3, 2), (0, 5))
    p = capi.BNNSLayerParametersPermute(i_desc=x.descriptor(), o_desc=y.descriptor(), permutation=[1, 0])
    f = created(capi.BNNSFilterCreateLayerPermute(p))
    dx = np.full(6, 7, np.float32)
    assert capi.BNNSPermuteFilterApplyBackwardBatch(f, 1, x.descriptor(dx), 0, None, 0) == -1
    assert re.search("out_delta is NULL", ob.last_error() or "")
    assert (dx == 7).all()
