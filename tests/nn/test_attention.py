"""MultiheadAttention of nn: values, weights and gradients by the formulas, masks of all kinds, errors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import openbnns
from attention_formulas import attention
from helpers import numbers
from openbnns import nn
from openbnns.nn.recording import recorded_graph

N, T, S, D, HEADS = 3, 5, 7, 6, 2
F = nn.functional


def flags(*shape: int, seed: int = 0) -> Any:
    """Some true, but never a whole row, of two masks together neither."""
    mask = np.random.default_rng(seed).random(shape) < 0.4
    mask[..., 2] = False
    return mask


class Attention(nn.Module):
    """An attention whose masks are constants, or inputs behind query, key and value."""

    def __init__(self, layer: Any, constants: dict[str, Any], inputs: tuple[str, ...], **options: Any) -> None:
        super().__init__()
        self.layer, self.constants, self.inputs, self.options = layer, constants, inputs, options

    def forward(self, query: Any, key: Any, value: Any, *masks: Any) -> Any:
        given = {name: mask * 1.5 if name == "score" else mask for name, mask in zip(self.inputs, masks, strict=True)}
        if "score" in given:
            given["attn_mask"] = given.pop("score")
        y, weights = self.layer(query, key, value, **self.constants, **given, **self.options)
        return y, weights


FORBID = np.float64(-np.inf)
MASKS: dict[str, Any] = {
    "none": ({}, {}),
    "flags": ({"attn_mask": flags(T, S)}, {}),
    "flags per head": ({"attn_mask": flags(HEADS, T, S, seed=1)}, {}),
    "numbers": ({"attn_mask": numbers(T, S, seed=2)}, {}),
    "numbers per head": ({"attn_mask": numbers(HEADS, T, S, seed=3)}, {}),
    "causal": ({"is_causal": True}, {}),
    "causal and numbers": ({"is_causal": True, "attn_mask": numbers(T, S, seed=3)}, {}),
    "keys": ({}, {"key_padding_mask": flags(N, S, seed=4)}),
    "keys and numbers": ({"attn_mask": numbers(T, S, seed=5)}, {"key_padding_mask": flags(N, S, seed=4)}),
    "flags as input": ({}, {"attn_mask": flags(N, T, S, seed=6)}),
    "flags per head as input": (
        {},
        {"attn_mask": flags(N, HEADS, T, S, seed=7), "key_padding_mask": flags(N, S, seed=8)},
    ),
    "numbers as value": ({}, {"score": numbers(N, HEADS, T, S, seed=9)}),
    "numbers as value, causal": ({"is_causal": True}, {"score": numbers(N, T, S, seed=9)}),
}
LAYERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "rows": {"add_bias_kv": True, "add_zero_attn": True},
    "zero row": {"add_zero_attn": True},
    "widths": {"kdim": 4, "vdim": 3},
    "widths and rows": {"kdim": 4, "add_bias_kv": True, "add_zero_attn": True},
}


def as_added(name: str, mask: Any) -> Any:
    """A mask as numbers (N, heads, T, S)."""
    if name == "is_causal":
        return np.broadcast_to(np.where(np.triu(np.ones((T, S)), 1), FORBID, 0), (N, HEADS, T, S))
    array = np.asarray(mask)
    array = np.where(array, FORBID, 0) if array.dtype == np.bool_ else array.astype(np.float64)
    if name == "score":
        array = array * 1.5
    if name == "key_padding_mask":
        array = array[:, None, None]
    elif array.shape == (N, T, S):
        array = array[:, None]
    return np.broadcast_to(array, (N, HEADS, T, S))


@pytest.mark.parametrize("options", LAYERS)
@pytest.mark.parametrize("mask", MASKS)
def test_formulas(mask: str, options: str) -> None:
    check_formulas(mask, options)


@pytest.mark.parametrize("mask", ["none", "flags per head as input", "numbers as value, causal"])
def test_formulas_on_the_reference_engine(mask: str) -> None:
    with openbnns.engine("reference"):
        check_formulas(mask, "rows")


def check_formulas(mask: str, options: str) -> None:
    """Values, and gradients along a random direction against differences of the formula."""
    constants, given = MASKS[mask]
    layer = nn.MultiheadAttention(D, HEADS, **LAYERS[options])
    net = Attention(layer, constants, tuple(given), average_attn_weights=False)
    arrays: dict[str, Any] = {
        "query": numbers(N, T, D, seed=10),
        "key": numbers(N, S, layer.kdim, seed=11),
        "value": numbers(N, S, layer.vdim, seed=12),
    }
    inputs = [*arrays.values(), *given.values()]
    net.build(*(array.shape[1:] for array in inputs), seed=1)
    for i, (name, parameter) in enumerate(layer.named_parameters()):
        parameter.data = numbers(*parameter.shape, seed=20 + i) * 0.5
        arrays[name] = parameter.data
    if "score" in given:
        arrays["score"] = given["score"]
    y, weights = net(*inputs)

    def formula(values: dict[str, Any]) -> tuple[Any, Any]:
        masks = {**constants, **given, **({"score": values["score"]} if "score" in given else {})}
        added: Any = sum((as_added(name, array) for name, array in masks.items()), np.zeros((N, HEADS, T, S)))
        rows = (values["query"], values["key"], values["value"])
        return attention(*rows, values, HEADS, added, zero=layer.add_zero_attn)

    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    expected = formula(wide)
    np.testing.assert_allclose(y, expected[0], rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(weights, expected[1], rtol=2e-5, atol=2e-6)

    random = np.random.default_rng(4)
    cotangents = [random.standard_normal(array.shape).astype(np.float32) for array in expected]
    gradients = net.backward(tuple(cotangents))
    ours: dict[str, Any] = dict(zip(["query", "key", "value", *given], gradients, strict=True))
    ours |= {name: parameter.grad for name, parameter in layer.named_parameters()}
    for name in wide:
        along, step = random.standard_normal(wide[name].shape), 1e-6
        ahead, back = (formula(wide | {name: wide[name] + sign * step * along}) for sign in (1, -1))
        slope = sum(np.vdot(c, a - b) for c, a, b in zip(cotangents, ahead, back, strict=True)) / (2 * step)
        size = np.linalg.norm(ours[name]) * np.linalg.norm(along)
        assert abs(np.vdot(ours[name], along) - slope) <= 3e-5 * size + 2e-5, name


@pytest.mark.parametrize("options", ["plain", "rows"])
def test_the_output_alone(options: str) -> None:
    """Outputs and gradients are the same with and without weights, which are recorded on demand."""

    class Alone(nn.Module):
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            return self.layer(x)

    layer = nn.MultiheadAttention(D, HEADS, **LAYERS[options])
    net = Alone(layer)
    x, dy = numbers(N, T, D), numbers(N, T, D, seed=1)
    y, dx = net(x), net.backward(dy)
    assert len(recorded_graph(net).operations) == 1
    grads = [parameter.grad.copy() for parameter in layer.parameters()]
    both = Attention(layer, {}, ())
    ours, weights = both(x, x, x)
    np.testing.assert_allclose(ours, y, rtol=1e-5, atol=1e-6)
    assert weights.shape == (N, T, T + (2 if options == "rows" else 0))
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    parts = both.backward((dy, None))
    np.testing.assert_allclose(sum(parts), dx, rtol=1e-4, atol=1e-5)
    for parameter, gradient in zip(layer.parameters(), grads, strict=True):
        np.testing.assert_allclose(parameter.grad, gradient, rtol=1e-4, atol=1e-5)


def test_weights_are_not_made_if_they_are_not_needed() -> None:
    net = Attention(nn.MultiheadAttention(D, HEADS), {}, (), need_weights=False)
    with pytest.raises(TypeError, match="returned a NoneType"):
        net(numbers(N, T, D), numbers(N, S, D), numbers(N, S, D))


@pytest.mark.parametrize("options", ["plain", "rows", "widths"])
@pytest.mark.parametrize("mask", ["none", "causal", "flags", "flags per head", "keys"])
def test_arrays_are_taken_apart(mask: str, options: str) -> None:
    """A call on arrays gives what a network does, and goes back through its output. There are as many samples as heads."""
    masks = {name: given for part in MASKS[mask] for name, given in part.items()}
    layer = nn.MultiheadAttention(D, HEADS, **LAYERS[options])
    given = numbers(2, T, D), numbers(2, S, layer.kdim, seed=1), numbers(2, S, layer.vdim, seed=2)
    masks = {name: array[:2] if name == "key_padding_mask" else array for name, array in masks.items()}
    net = Attention(layer, {name: masks[name] for name in masks if name != "key_padding_mask"}, (*MASKS[mask][1],))
    y, weights = layer(*given, **masks)
    dy = numbers(2, T, D, seed=3)
    dx = layer.backward(dy)[:3]
    gradients = [p.grad.copy() for p in layer.parameters()]
    expected, theirs = net(*given, *(masks[name] for name in MASKS[mask][1]))
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(weights, theirs, rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(dx, net.backward((dy, None))[:3], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    for parameter, gradient in zip(layer.parameters(), gradients, strict=True):
        np.testing.assert_allclose(parameter.grad, gradient, rtol=1e-4, atol=1e-5)
    heads = layer(*given, **masks, average_attn_weights=False)[1]
    np.testing.assert_allclose(heads.mean(1), weights, rtol=1e-5, atol=1e-6)
    alone, nothing = layer(*given, **masks, need_weights=False)
    assert nothing is None
    np.testing.assert_array_equal(alone, layer(*given, **masks)[0])


def test_forms_of_masks_on_arrays() -> None:
    layer, x = nn.MultiheadAttention(D, HEADS), numbers(N, T, D)
    mask, keys = flags(N, HEADS, T, T), flags(N, T, seed=1)
    mask[..., 0] = keys[..., 0] = False
    expected = layer(x, attn_mask=mask, key_padding_mask=keys)
    for given in (mask.reshape(N * HEADS, T, T), np.where(mask, -np.inf, 0), mask.astype(int)):
        y, weights = layer(x, attn_mask=given, key_padding_mask=np.where(keys, np.float32(-np.inf), np.float32(0)))
        np.testing.assert_array_equal(y, expected[0])
        np.testing.assert_array_equal(weights, expected[1])
    ahead = np.triu(np.ones((T, T), np.bool_), 1)
    np.testing.assert_allclose(layer(x, attn_mask=ahead)[0], layer(x, is_causal=True)[0], rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"attn_mask has numbers to add besides 0 and -inf.*Pass booleans"):
        layer(x, attn_mask=numbers(T, T))
    with pytest.raises(ValueError, match=r"attn_mask is \(N, 9, 9\), but \(5, 5\)"):
        layer(x, attn_mask=np.zeros((9, 9), np.bool_))


def test_weights_on_arrays_follow_the_layer() -> None:
    """Other weights, other sizes, copies, and dropout, of which they know nothing."""
    layer = nn.MultiheadAttention(D, HEADS, dropout=0.5)
    x = numbers(2, T, D)
    _, before = layer(x)
    np.testing.assert_array_equal(layer(x)[1], before)
    assert [name for name, _ in layer.named_modules()] == ["", "out_proj"]
    assert layer.training
    for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        np.testing.assert_array_equal(copied(x)[1], before)
    layer.in_proj_weight.data = layer.in_proj_weight.data * 2
    after = layer(x)[1]
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_allclose(layer(x[:1])[1], after[:1], rtol=1e-5, atol=1e-6)
    assert (layer(x) * 2).shape == (2, T, D)  # an array like any other


def test_a_learned_mask() -> None:
    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = nn.MultiheadAttention(D, HEADS)
            self.table = nn.Parameter(numbers(HEADS, T, T, seed=3))

        def forward(self, x: Any) -> Any:
            return self.attn(x, attn_mask=self.table)

    net = Biased()
    x, dy = numbers(N, T, D), numbers(N, T, D, seed=1)
    net(x)
    net.backward(dy)
    p = {name: q.data.astype(np.float64) for name, q in net.attn.named_parameters()}
    along, step = numbers(HEADS, T, T, seed=4).astype(np.float64), 1e-6
    wide = x.astype(np.float64)
    ahead, back = (
        attention(wide, wide, wide, p, HEADS, np.tile(net.table.data + sign * step * along, (N, 1, 1, 1)))[0]
        for sign in (1, -1)
    )
    slope = np.vdot(dy, ahead - back) / (2 * step)
    assert abs(np.vdot(net.table.grad, along) - slope) < 1e-4 * np.abs(net.table.grad).sum()


def test_masks_that_several_layers_share() -> None:
    """One input serves two layers, and a constant two batch sizes."""

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.MultiheadAttention(D, HEADS), nn.MultiheadAttention(D, HEADS)

        def forward(self, x: Any, padding: Any) -> Any:
            return self.two(self.one(x, key_padding_mask=padding), key_padding_mask=padding)

    net = Two()
    x, padding = numbers(N, T, D), flags(N, T)
    y = net(x, padding)
    for n in range(N):  # what is ignored does not matter, and every sample has its own mask
        x[n, padding[n]] = 9
    again = net(x, padding)
    np.testing.assert_allclose(again[~padding], y[~padding], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(net(x[:1], padding[:1]), again[:1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", ["plain", "widths"])
def test_dropout(options: str) -> None:
    layer = nn.MultiheadAttention(D, HEADS, dropout=0.5, **LAYERS[options])
    given = numbers(N, T, D), numbers(N, S, layer.kdim), numbers(N, S, layer.vdim)
    assert not np.array_equal(layer(*given), layer(*given))
    layer.eval()
    np.testing.assert_array_equal(layer(*given), layer(*given))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.MultiheadAttention(7, 2), "2 heads do not divide embed_dim 7"),
        (lambda: nn.MultiheadAttention(8, 2, dropout=1.5), "MultiheadAttention: dropout is 1.5"),
        (lambda: nn.MultiheadAttention(8, 2, kdim=0), "MultiheadAttention: kdim is 0"),
        (lambda: nn.MultiheadAttention(8, 2, batch_first=False), "batch_first is False"),
    ],
)
def test_bad_arguments(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


X, Y = numbers(N, T, D), numbers(N, S, D)


@pytest.mark.parametrize(
    ("options", "inputs", "error", "message"),
    [
        (
            {"attn_mask": np.zeros((S, T), np.bool_)},
            (X, Y, Y),
            ValueError,
            r"attn_mask is \(7, 5\), but \(5, 7\), \(2, 5, 7\)",
        ),
        ({"attn_mask": [[0]]}, (X, Y, Y), TypeError, "attn_mask is a list"),
        (
            {"key_padding_mask": np.zeros(T, np.bool_)},
            (X, Y, Y),
            ValueError,
            r"key_padding_mask is \(5,\), but \(N, 7\)",
        ),
        ({}, (X, Y, X), ValueError, "key and value the same length"),
        ({}, (X, Y, numbers(N, S, 4)), ValueError, "made for 6 features, but its input has 4"),
    ],
)
def test_bad_calls(options: Any, inputs: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        Attention(nn.MultiheadAttention(D, HEADS), options, ())(*inputs)


def test_two_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match="takes one input, or query, key and value"):
        nn.MultiheadAttention(D, HEADS)(X, Y)


def test_numbers_for_a_mask_that_is_an_input() -> None:
    net = Attention(nn.MultiheadAttention(D, HEADS), {}, ("attn_mask",))
    with pytest.raises(ValueError, match=r"input 3 is float32, .* takes whole numbers from it: .* booleans for a mask"):
        net(X, Y, Y, numbers(N, T, S))
