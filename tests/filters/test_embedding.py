"""Embedding: both engines against loops over the definition, gradients, memory, the layer, switches and bad input."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases.embedding import CASES, INDEX_TYPES, NO_PADDING, EmbeddingCase, EmbeddingRun, rounding
from helpers import EPSILON, FLOAT32, UINT64, Storage, Tensor, assert_bitwise, assert_within, vector
from openbnns import capi, compat, engines
from openbnns.calls.form import form

APPLY = form("apply", "batch_size in in_stride out out_stride")
BACKWARD = form(
    "apply_backward",
    "batch_size in in_stride in_delta in_delta_stride out out_stride out_delta out_delta_stride weights_delta bias_delta",
)


def parameters(cases: list[EmbeddingCase], rows: str) -> list[Any]:
    return [pytest.param(case, id=case.id, marks=pytest.mark.covers(*getattr(case, rows))) for case in cases]


TRAINED = [case for case in CASES if not case.half]


# ---------------------------------------------------------------------------------------------------------------------
# Values and gradients


def test_ids_are_unique() -> None:
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", parameters(CASES, "forward_rows"))
def test_forward(case: EmbeddingCase, engine: str) -> None:
    values = case.values()
    run = EmbeddingRun(case, values)
    expected = case.expected(values)
    y = run.forward()
    assert_within(y, expected, 2 * EPSILON * np.abs(expected) + case.y.unit(expected), case.id)
    run.y.assert_guards_intact("out")
    for name in ("x", "w"):
        getattr(run, name).assert_unchanged(name)
    if not case.max_norm and not case.half:  # a lookup copies
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("case", parameters(TRAINED, "backward_rows"))
def test_backward(case: EmbeddingCase, engine: str) -> None:
    values = case.values()
    run = EmbeddingRun(case, values)
    expected, size = case.expected_gradient(values)
    bound = rounding(values["x"].size) * size
    dw = run.backward()
    assert_within(dw.read(), expected, bound, case.id)
    dw.assert_guards_intact("weights_delta")
    for name in ("x", "w", "dy"):
        getattr(run, name).assert_unchanged(name)
    old = np.float32(np.random.default_rng(3).standard_normal(expected.shape)).astype(np.float64)
    added = run.backward(old)
    assert_within(added.read(), old + expected, bound + EPSILON * (np.abs(old) + size), f"{case.id}: accumulated")
    added.assert_guards_intact("weights_delta")


@pytest.mark.parametrize("case", [c for c in TRAINED if c.batch], ids=lambda c: c.id)
def test_threads_scratch_and_calls_give_the_same_bits(case: EmbeddingCase) -> None:
    runs = []
    try:
        for threads, poison in ((1, False), (2, True), (3, False), (5, True)):
            engines._core.set_scratch_poison(poison)
            run = EmbeddingRun(case, threads=threads)
            run.forward()
            runs.append((run.y.raw(), run.backward().raw()))
    finally:
        engines._core.set_scratch_poison(False)
    for y, dw in runs[1:]:
        assert_bitwise(y, runs[0][0], f"{case.id}: out")
        assert_bitwise(dw, runs[0][1], f"{case.id}: weights_delta")


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.id.startswith("random") and not c.by_frequency], ids=lambda c: c.id
)
def test_gradcheck(case: EmbeddingCase, engine: str) -> None:
    report = ob.gradcheck(EmbeddingRun(case).filter, verbose=False, directions=1)
    assert report.passed and {row.name for row in report.rows} == {"dictionary"}, str(report)


def test_gradcheck_refuses_what_is_no_derivative() -> None:
    with pytest.raises(ob.LayerApplyError, match="divided by the number of lookups"):
        ob.gradcheck(EmbeddingRun(EmbeddingCase("frequency", by_frequency=True)).filter)


def test_backward_of_nothing_wanted(engine: str) -> None:
    run = EmbeddingRun(EmbeddingCase("nothing"))
    dx = Storage(vector(4))
    status = capi.BNNSFilterApplyBackwardBatch(
        run.filter, 3, run.x.elements, 0, dx.descriptor(), 0, None, 0, run.dy.descriptor(), 0
    )
    assert status == 0
    dx.assert_unchanged("in_delta")


def test_fast_calls_and_checked_calls_agree() -> None:
    case = EmbeddingCase("fast", 50, (33,), (20,), 6, index_type=UINT64, padding=3)
    run = EmbeddingRun(case)
    x = run.x.elements.copy()  # aligned
    assert run.filter.native(APPLY)(6, x, 0, run.y.elements, 0) == 0
    fast, dw = run.y.raw(), Storage(case.w)
    assert run.filter.native(BACKWARD)(6, x, 0, None, 0, None, 0, run.dy.descriptor(), 0, dw.descriptor(), None) == 0
    moved = np.empty(x.nbytes + 1, np.uint8)[1:]  # not aligned: only the checked call takes it
    moved[:] = x.view(np.uint8)
    assert run.filter.native(APPLY)(6, moved, 0, run.y.elements, 0) != 0
    assert capi.BNNSFilterApplyBatch(run.filter, 6, moved, 0, run.y.elements, 0) == 0
    assert_bitwise(run.y.raw(), fast, "out")
    again = Storage(case.w)
    assert capi.BNNSFilterApplyBackwardBatch(
        run.filter, 6, moved, 0, None, 0, None, 0, run.dy.descriptor(), 0, again.descriptor(), None
    ) == 0  # fmt: skip
    assert_bitwise(again.raw(), dw.raw(), "weights_delta")


@pytest.mark.parametrize("kind", ["UInt1", "UInt2", "UInt3", "UInt4", "UInt6", "Int2", "Int4"])
def test_indices_narrower_than_a_byte(kind: str, engine: str) -> None:
    bits = int(kind[-1])
    entries = 1 << (bits - (kind[0] == "I"))
    dictionary = np.arange(2.0 * entries, dtype=np.float32)
    x = np.random.default_rng(bits).integers(0, entries, 11)
    packed = np.packbits((x[:, None] >> np.arange(bits) & 1).astype(np.uint8).ravel(), bitorder="little")
    case = EmbeddingCase("narrow", entries, (2,), (11,), 1, index_type=capi.BNNSDataType[f"BNNSDataType{kind}"])
    made = case.create(case.w.descriptor(dictionary))
    y = np.empty((11, 2), np.float32)
    assert capi.BNNSFilterApply(made, packed, y) == 0, ob.last_error()
    np.testing.assert_array_equal(y, dictionary.reshape(entries, 2)[x])


def test_scale_and_bias_of_the_index_type_have_no_meaning(engine: str) -> None:
    case = EmbeddingCase("scaled")
    run = EmbeddingRun(case)
    p = capi.BNNSLayerParametersEmbedding(
        i_desc=replace(case.x, scale=3.0, bias=7.0).descriptor(), o_desc=case.y.descriptor(),
        dictionary=run.w.descriptor(), padding_idx=NO_PADDING,
    )  # fmt: skip
    made = capi.BNNSFilterCreateLayerEmbedding(p)
    before = run.forward()
    assert capi.BNNSFilterApplyBatch(made, 3, run.x.elements, 0, run.y.elements, 0) == 0
    np.testing.assert_array_equal(run.y.read(), before)


def test_the_dictionary_is_copied_or_followed(engine: str) -> None:
    for client in (True, False):
        case = EmbeddingCase(f"follow-{client}", client_pointer=client)
        run = EmbeddingRun(case)
        before = run.forward()
        run.w.elements *= 2.0
        np.testing.assert_array_equal(run.forward(), before * (2.0 if client else 1.0))


@pytest.mark.covers("embed.maxnorm")
@pytest.mark.parametrize("first", [True, False])
def test_norms_of_extreme_entries(first: bool, engine: str) -> None:
    """Huge numbers do not overflow, zeros stay zeros, NaN stays NaN; an infinite entry has no direction."""
    w = np.array([[3e38, 0, np.nan, np.inf, 1e-42], [3e38, 0, 1, 1, 1e-42]])[None]
    for p, norm in ((2.0, np.sqrt(2.0)), (1.0, 2.0), (np.inf, 1.0), (3.0, 2 ** (1 / 3))):
        case = EmbeddingCase("extreme", 5, (2,), (5,), 1, (first,) * 3, max_norm=1.0, norm_type=p)
        run = EmbeddingRun(case, {"x": np.arange(5)[None], "w": w, "dy": np.zeros((1, 2, 5))})
        y = run.forward()[0]
        np.testing.assert_allclose(y[:, 0], 1 / norm, rtol=1e-6)
        assert not y[:, 1].any()
        np.testing.assert_array_equal(y[:, 2], [np.nan, 1])
        np.testing.assert_array_equal(y[:, 3], [np.nan, 0])
        np.testing.assert_array_equal(y[:, 4], np.float32([1e-42, 1e-42]))


@pytest.mark.covers("embed.padding")
def test_a_padding_entry_of_nan_reads_as_zeros(engine: str) -> None:
    for first in (True, False):
        case = EmbeddingCase("nan", 2, (3,), (2,), 1, (first,) * 3, padding=1, max_norm=1.0)
        w = np.stack([np.full(3, 0.1), np.full(3, np.nan)], axis=-1)[None]
        run = EmbeddingRun(case, {"x": np.array([[0, 1]]), "w": w, "dy": np.ones((1, 3, 2))})
        np.testing.assert_array_equal(run.forward()[0], [[np.float32(0.1), 0]] * 3)


# ---------------------------------------------------------------------------------------------------------------------
# Switch


@pytest.mark.parametrize("client", [True, False])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_renormalization_in_place(client: bool, first: bool, padded: bool, engine: str) -> None:
    case = EmbeddingCase(
        "in-place", 9, (6,), (4,), 2, (first,) * 3, (padded, False, False), max_norm=1.2, padding=2,
        client_pointer=client,
    )  # fmt: skip
    values = case.values()
    values["x"] = np.array([[1, 1, 2, 5], [5, 0, 8, 2]])
    with compat.using(embedding_renormalize_in_place=True):
        run = EmbeddingRun(case, values)
    expected = case.expected(values)
    for _ in range(2):  # the second time nothing exceeds the norm any more
        assert_within(run.forward(), expected, 4 * EPSILON * np.abs(expected), "out")
    if not client:
        run.w.assert_unchanged("dictionary")
        return
    after = values["w"].copy()
    for entry in (0, 1, 5, 8):
        after[0][..., entry] *= case.scale(after[0][..., entry])
    assert_within(run.w.read(), after, 4 * EPSILON * np.abs(after), "dictionary")
    run.w.assert_guards_intact("dictionary")


def test_renormalization_in_place_needs_writable_memory() -> None:
    words = np.ones((3, 2), np.float32)
    words.flags.writeable = False
    client = capi.BNNSFilterParameters(flags=capi.BNNSFlags.BNNSFlagsUseClientPtr)
    with compat.using(embedding_renormalize_in_place=True):
        with pytest.raises(ob.LayerCreationError, match="read-only"):
            ob.EmbeddingLayer(input=ob.Shape.vector(1), dictionary=words, maximum_norm=1.0, filter_parameters=client)
        ob.EmbeddingLayer(input=ob.Shape.vector(1), dictionary=words, maximum_norm=1.0)


# ---------------------------------------------------------------------------------------------------------------------
# The layer


@pytest.mark.covers("swift.EmbeddingLayer")
@pytest.mark.parametrize("index", [(4,), (2, 3), (2, 1, 3, 2)])
@pytest.mark.parametrize("item", [(), (5,), (3, 2)])
def test_layer(item: tuple[int, ...], index: tuple[int, ...], engine: str) -> None:
    rng = np.random.default_rng(1)
    words = np.float32(rng.standard_normal((7, *item)))
    x = rng.integers(0, 7, (3, *index))
    layer = ob.EmbeddingLayer(input=x if len(index) > 1 else x[0], dictionary=words, padding_index=2)
    y = layer.apply(x)
    expected = np.where((x == 2).reshape(*x.shape, *[1] * len(item)), 0, words[x])
    np.testing.assert_array_equal(y, expected)
    dy = np.float32(rng.standard_normal(y.shape))
    gradient = np.zeros((7, *item))
    np.add.at(gradient, x, dy)
    gradient[2] = 0
    gradients = layer.apply_backward(input=x, output_gradient=dy)
    assert gradients.input is None and gradients.bias is None
    np.testing.assert_allclose(gradients.weights, gradient, rtol=1e-6, atol=1e-6)
    again = layer.apply_backward(x, y, dy, generating_weights_gradient=np.ones((7, *item), np.float32), accumulate=True)
    np.testing.assert_allclose(again.weights, gradient + 1, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(layer.apply(x[0]), expected[0])
    out = np.empty_like(y)
    assert layer.apply(x, out, batch_size=3) is out
    np.testing.assert_array_equal(out, expected)


@pytest.mark.covers("swift.EmbeddingLayer")
def test_layer_with_descriptors_and_options(engine: str) -> None:
    words = np.float32([[1, 2], [3, 4], [30, 40]])
    layer = ob.EmbeddingLayer(
        input=ob.Shape.vector(3), output=ob.Shape.matrix_first_major(2, 3),
        dictionary=ob.Shape.matrix_first_major(2, 3).descriptor(data=np.ascontiguousarray(words.T)),
        maximum_norm=5.0, norm_type=ob.Norm.EUCLIDEAN, scales_gradient_by_frequency=True, index_type=ob.DataType.UINT8,
    )  # fmt: skip
    x = np.array([[2, 0, 2]], np.uint8)
    np.testing.assert_allclose(layer.apply(x), [[[3, 1, 3], [4, 2, 4]]], rtol=1e-6)
    dw = layer.apply_backward(x, None, np.float32([[[1, 2, 4], [8, 16, 32]]])).weights
    np.testing.assert_array_equal(dw, [[2, 0, 2.5], [16, 0, 20]])
    assert "maximum_norm=5.0" in repr(layer)


def test_layer_takes_any_integers_it_was_made_for() -> None:
    words = np.float32(np.arange(6).reshape(3, 2))
    for kind in INDEX_TYPES:
        dtype = ob.DataType(kind).dtype
        layer = ob.EmbeddingLayer(input=np.zeros(2, dtype), dictionary=words)
        np.testing.assert_array_equal(layer.apply(np.array([[2, 1]], dtype)), words[[[2, 1]]])


# ---------------------------------------------------------------------------------------------------------------------
# Bad input


def failing(message: str, **changes: Any) -> None:
    case = EmbeddingCase("bad")
    fields = {
        "i_desc": case.x.descriptor(), "o_desc": case.y.descriptor(),
        "dictionary": case.w.descriptor(np.zeros(case.w.count, np.float32)), "padding_idx": NO_PADDING,
    }  # fmt: skip
    assert capi.BNNSFilterCreateLayerEmbedding(capi.BNNSLayerParametersEmbedding(**(fields | changes))) is None
    text = ob.last_error()
    assert text is not None and text.startswith("BNNSFilterCreateLayerEmbedding: ") and message in text, text


def test_descriptions_that_are_wrong() -> None:
    failing("indices are integers", i_desc=vector(4, data_type=FLOAT32).descriptor())
    failing("Describe an output of size (5, 4)", o_desc=vector(4).descriptor())
    last = EmbeddingCase("bad").y.layout
    failing("Describe an output of size (5, 4)", o_desc=Tensor(last, (4, 5)).descriptor())
    failing("dictionary.data is NULL", dictionary=Tensor(last, (5, 7)).descriptor())
    failing("holds 40 bytes", dictionary=Tensor(last, (5, 7)).descriptor(np.zeros(10, np.float32)))
    failing("max_norm is -1", max_norm=-1.0)
    failing("max_norm is nan", max_norm=float("nan"))
    failing("norm_type is -2", max_norm=1.0, norm_type=-2.0)
    failing("norm_type is nan", max_norm=1.0, norm_type=float("nan"))
    failing("flags is 0x2", flags=2)
    failing("dictionary.size[1] is 0", dictionary=Tensor(last, (5, 0)).descriptor(np.zeros(5, np.float32)))
    assert capi.BNNSFilterCreateLayerEmbedding(None) is None
    with pytest.raises(TypeError):
        capi.BNNSFilterCreateLayerEmbedding(capi.BNNSLayerParametersFullyConnected())


@pytest.mark.parametrize("kind", INDEX_TYPES, ids=lambda kind: kind.name)
def test_an_index_outside_the_dictionary(kind: Any, engine: str) -> None:
    """Named with its place; nothing is written."""
    case = EmbeddingCase("outside", index_type=kind, index=(2, 3), gap=2)
    limits = np.iinfo(case.x.dtype)
    for wrong in {7, int(limits.min), int(limits.max)} - set(range(7)):
        run = EmbeddingRun(case)
        run.x.elements[run.x.places[1, 0, 2]] = wrong
        dw = Storage(case.w)
        x, y = run.x, run.y
        assert capi.BNNSFilterApplyBatch(run.filter, 3, x.elements, x.stride, y.elements, y.stride) == -1
        text = ob.last_error()
        assert text is not None
        assert f"in holds the index {wrong} at sample 1, position (0, 2), but the dictionary has 7 entries" in text
        assert capi.BNNSFilterApplyBackwardBatch(
            run.filter, 3, x.elements, x.stride, None, 0, None, 0, run.dy.descriptor(), run.dy.stride, dw.descriptor()
        ) == -1  # fmt: skip
        y.assert_unchanged("out")
        dw.assert_unchanged("weights_delta")


def test_calls_that_are_wrong(engine: str) -> None:
    case = EmbeddingCase("calls")
    run, dw = EmbeddingRun(case), Storage(case.w)
    f, x, y, dy = run.filter, run.x.elements, run.y.elements, run.dy.descriptor()

    def fails(status: int, message: str) -> None:
        text = ob.last_error()
        assert status == -1 and text is not None and message in text, text
        run.y.assert_unchanged("out")
        dw.assert_unchanged("weights_delta")

    fails(capi.BNNSFilterApplyBatch(f, 3, None, 0, y, 0), "in is NULL")
    fails(capi.BNNSFilterApplyBatch(f, 3, x, 0, None, 0), "out is NULL")
    fails(capi.BNNSFilterApplyBatch(f, 4, x, 0, y, 0), "holds 48 bytes, but the call touches 64")
    fails(capi.BNNSFilterApplyBatch(f, 3, x, 0, y[:-1], 0), "out holds")
    fails(capi.BNNSFilterApplyBatch(f, 3, x.astype(np.float32), 0, y, 0), "in holds float32 items")
    fails(capi.BNNSFilterApplyBatch(f, 3, x, 0, y, 3), "samples would overwrite each other")

    def backward(x: Any, dy: Any, dw: Any) -> int:
        return capi.BNNSFilterApplyBackwardBatch(f, 3, x, 0, None, 0, None, 0, dy, 0, dw, None)

    fails(backward(None, dy, dw.descriptor()), "in is NULL, but it says which entries")
    fails(backward(x, None, dw.descriptor()), "out_delta is NULL")
    fails(backward(x, case.y.descriptor(y[:-1]), dw.descriptor()), "out_delta.data holds")
    wrong = Tensor(case.w.layout, (7, 5)).descriptor(dw.elements)
    fails(backward(x, dy, wrong), "Its gradient has the same layout and size")
    fails(backward(x, dy, case.w.descriptor(dw.elements, 2)), "weights_delta.flags is 2")
    half = EmbeddingRun(EmbeddingCase("half", half=True))
    status = capi.BNNSFilterApplyBackwardBatch(
        half.filter, 3, x, 0, None, 0, None, 0, half.dy.descriptor(), 0, dw.descriptor()
    )
    fails(status, "training works on Float32 only")
    capi.BNNSFilterDestroy(f)
    fails(capi.BNNSFilterApplyBatch(f, 3, x, 0, y, 0), "has been destroyed")


def test_layers_that_are_wrong() -> None:
    words, vec = np.zeros((7, 5), np.float32), ob.Shape.vector
    with pytest.raises(ob.LayerCreationError, match=r"EmbeddingLayer: input.data_type is Float32, but indices"):
        ob.EmbeddingLayer(input=np.zeros(4, np.float32), dictionary=words)
    with pytest.raises(ob.LayerCreationError, match=r"output has shape .*one sample of it is"):
        ob.EmbeddingLayer(input=vec(4), dictionary=words, output=np.zeros((5, 4), np.float32))
    with pytest.raises(ob.LayerCreationError, match="maximum_norm is -1"):
        ob.EmbeddingLayer(input=vec(4), dictionary=words, maximum_norm=-1.0)
    with pytest.raises(ob.LayerCreationError, match="float64, but layers take float32"):
        ob.EmbeddingLayer(input=vec(4), dictionary=words.astype(np.float64))
    with pytest.raises(ob.LayerCreationError, match="9 axes"):
        ob.EmbeddingLayer(
            input=np.zeros((1, 2, 1, 1, 1, 1, 1), np.int64), dictionary=np.zeros((2, 1, 1, 1), np.float32)
        )
    layer = ob.EmbeddingLayer(input=vec(4), dictionary=words, index_type=ob.DataType.INT32)
    with pytest.raises(ob.LayerApplyError, match="input is int64, but this layer takes int32"):
        layer.apply(np.zeros((2, 4), np.int64))
    with pytest.raises(ob.LayerApplyError, match="index 7 at sample 1, position"):
        layer.apply(np.array([[0, 0, 0, 0], [0, 0, 7, 0]], np.int32))
    with pytest.raises(ob.LayerApplyError, match="input is None, but it says which entries the gradient belongs to"):
        layer.apply_backward(None, None, np.zeros((2, 4, 5), np.float32))


def test_results_on_top_of_inputs(engine: str) -> None:
    """Memory that inputs and results share gives the same numbers as memory of their own."""
    memory = np.zeros(64, np.float32)
    case = EmbeddingCase("shared", 4, (3,), (4,), 1)
    w = memory[:12]
    for y_at, x_at in itertools.product((0, 5, 40), (0, 30)):
        memory[:] = 0
        w[:] = np.arange(12)
        x = memory[20 + x_at // 2 : 24 + x_at // 2].view(np.int32)
        x[:] = [3, 0, 1, 2]
        made = case.create(case.w.descriptor(w))
        y = memory[y_at : y_at + 12]
        assert capi.BNNSFilterApply(made, x, y) == 0, ob.last_error()
        np.testing.assert_array_equal(y.reshape(4, 3), np.arange(12).reshape(4, 3)[[3, 0, 1, 2]])
        capi.BNNSFilterDestroy(made)
