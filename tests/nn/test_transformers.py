"""Transformers and encodings of positions: values and gradients by the formulas, masks, names, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from attention_formulas import attention, softmax
from helpers import numbers
from openbnns import nn

N, T, S, D, HEADS, WIDE = 3, 5, 7, 6, 2, 11
F = nn.functional


def normalized(x: Any, p: Any, name: str) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * p[f"{name}.weight"] + p.get(f"{name}.bias", 0)


def feed(x: Any, p: Any, activation: str, start: str) -> Any:
    h = x @ p[f"{start}linear1.weight"].T + p.get(f"{start}linear1.bias", 0)
    if activation == "gelu":
        erf = np.vectorize(math.erf)
        h = 0.5 * h * (1 + erf(h / np.sqrt(2)))
    else:
        h = np.maximum(h, 0) if activation == "relu" else np.tanh(h)
    return h @ p[f"{start}linear2.weight"].T + p.get(f"{start}linear2.bias", 0)


def layer(x: Any, p: Any, added: list[Any], memory: Any, options: Any, start: str = "") -> Any:
    """An encoder layer, or with ``memory`` a decoder layer; ``added`` are the masks of their attentions."""
    before, activation = options.get("norm_first", False), options.get("activation", "relu")
    parts = [lambda z: attention(z, z, z, p, HEADS, added[0], start=f"{start}self_attn.")[0]]
    if memory is not None:
        parts.append(lambda z: attention(z, memory, memory, p, HEADS, added[1], start=f"{start}multihead_attn.")[0])
    parts.append(lambda z: feed(z, p, "tanh" if callable(activation) else activation, start))
    for i, part in enumerate(parts):
        name = f"{start}norm{i + 1}"
        x = x + part(normalized(x, p, name)) if before else normalized(x + part(x), p, name)
    return x


def check(net: Any, inputs: list[Any], floats: int, formula: Any) -> None:
    """``formula`` of the first inputs and the parameters, all float64."""
    net.build(*(array.shape[1:] for array in inputs), seed=1)
    for i, parameter in enumerate(net.parameters()):
        parameter.data = parameter.data + numbers(*parameter.shape, seed=30 + i) * 0.1
    y = net(*inputs)
    names = [str(i) for i in range(floats)]
    wide = {name: array.astype(np.float64) for name, array in zip(names, inputs, strict=False)}
    wide |= {name: parameter.data.astype(np.float64) for name, parameter in net.named_parameters()}
    expected = formula(wide)
    np.testing.assert_allclose(y, expected, rtol=3e-5, atol=3e-5)
    random = np.random.default_rng(5)
    dy = random.standard_normal(y.shape).astype(np.float32)
    gradients = net.backward(dy)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    ours = dict(zip(names, gradients, strict=False)) | {name: q.grad for name, q in net.named_parameters()}
    for name in wide:
        along, step = random.standard_normal(wide[name].shape), 1e-6
        ahead, back = (formula(wide | {name: wide[name] + sign * step * along}) for sign in (1, -1))
        slope = np.vdot(dy, ahead - back) / (2 * step)
        size = np.linalg.norm(ours[name]) * np.linalg.norm(along)
        assert abs(np.vdot(ours[name], along) - slope) <= 5e-5 * size + 5e-5, name


CAUSAL = np.triu(np.full((T, T), -np.inf), 1)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"norm_first": True, "activation": "gelu"},
    {"activation": nn.functional.tanh, "bias": False},
    {"norm_first": True, "activation": nn.Tanh()},
]


class Called(nn.Module):
    """A module called with masks, and with the inputs behind ``count`` by these names."""

    def __init__(self, module: Any, names: tuple[str, ...] = (), **given: Any) -> None:
        super().__init__()
        self.module, self.names, self.given = module, names, given

    def forward(self, *inputs: Any) -> Any:
        count = len(inputs) - len(self.names)
        return self.module(*inputs[:count], **dict(zip(self.names, inputs[count:], strict=True)), **self.given)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=", ".join)
def test_encoder_layers(options: dict[str, Any], causal: bool) -> None:
    net = nn.TransformerEncoderLayer(D, HEADS, WIDE, 0.0, causal=causal, **options)
    added = np.broadcast_to(CAUSAL if causal else np.zeros((T, T)), (N, HEADS, T, T))
    check(net, [numbers(N, T, D)], 1, lambda p: layer(p["0"], p, [added], None, options))


@pytest.mark.parametrize("options", OPTIONS, ids=", ".join)
def test_decoder_layers(options: dict[str, Any]) -> None:
    """With a mask of every kind."""
    padding = np.random.default_rng(1).random((N, S)) < 0.3
    scores = numbers(T, S, seed=2)
    module = nn.TransformerDecoderLayer(D, HEADS, WIDE, 0.0, **options)
    net = Called(module, ("memory_key_padding_mask",), tgt_is_causal=True, memory_mask=scores)
    masks = [
        np.broadcast_to(CAUSAL, (N, HEADS, T, T)),
        np.broadcast_to(scores + np.where(padding, -np.inf, 0)[:, None, None], (N, HEADS, T, S)),
    ]

    def formula(p: Any) -> Any:
        return layer(p["0"], p, masks, p["1"], options, "module.")

    check(net, [numbers(N, T, D), numbers(N, S, D, seed=1), padding], 2, formula)


def test_transformer() -> None:
    """Two layers each, all masks: names of parameters, order of masks, norms behind the stacks."""
    source, target = np.zeros((N, S), np.bool_), np.zeros((N, T), np.bool_)
    source[:, 5:], target[1, 4:] = True, True
    module = nn.Transformer(D, HEADS, 2, 2, WIDE, 0.0, norm_first=True)
    names = ("src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask")
    mask = module.generate_square_subsequent_mask(T)
    np.testing.assert_array_equal(mask, CAUSAL)
    net = Called(module, names, tgt_mask=mask)

    def added(padding: Any, rows: int) -> Any:
        return np.broadcast_to(np.where(padding, -np.inf, 0)[:, None, None], (N, HEADS, rows, padding.shape[1]))

    def formula(p: Any) -> Any:
        memory, y = p["0"], p["1"]
        for i in range(2):
            memory = layer(memory, p, [added(source, S)], None, {"norm_first": True}, f"module.encoder.layers.{i}.")
        memory = normalized(memory, p, "module.encoder.norm")
        for i in range(2):
            masks = [CAUSAL + added(target, T), added(source, T)]
            y = layer(y, p, masks, memory, {"norm_first": True}, f"module.decoder.layers.{i}.")
        return normalized(y, p, "module.decoder.norm")

    check(net, [numbers(N, S, D), numbers(N, T, D, seed=1), source, target, source], 2, formula)


def test_layers_of_a_stack_have_their_own_weights() -> None:
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, HEADS, WIDE), 3).build((T, D), seed=0)
    weights = [one.linear1.weight.data for one in net.layers]
    assert len({id(one) for one in weights}) == 3 and not np.array_equal(weights[0], weights[1])
    assert len(list(net.parameters())) == 3 * 12


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.TransformerEncoderLayer(6, 2, activation="sine"), "activation is 'sine'. Use 'relu', 'gelu'"),
        (lambda: nn.TransformerDecoderLayer(6, 2, batch_first=False), "TransformerDecoderLayer: batch_first is False"),
        (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2), 0), "num_layers is 0"),
        (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer, 2), "which is not an nn.Module"),
        (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2).build((5, 6)), 2), "is built already"),
        (lambda: nn.LearnedEncoding(0), "max_len is 0"),
        (lambda: nn.RotaryEncoding(8, base=0), "RotaryEncoding: base is 0"),
        (lambda: nn.LearnedEncoding(3, 6)(numbers(N, T, D)), "sequences have 5 positions, but max_len is 3"),
        (lambda: nn.SinusoidalEncoding(8)(numbers(N, T, D)), "made for 8 features, but its input has 6"),
        (lambda: nn.RotaryEncoding(8)(numbers(N, T, D)), "dim is 8, but it must be even and at most the 6 features"),
        (lambda: nn.RotaryEncoding()(numbers(N, T, 5)), "dim is 5, but it must be even"),
        (lambda: nn.RotaryEncoding()(numbers(N, T)), r"needs samples \(..., length, features\)"),
    ],
)
def test_bad_arguments(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


# Positions.


@pytest.mark.parametrize("width", [1, 5, 6])
def test_sinusoidal_encodings(width: int) -> None:
    x = numbers(N, T, width)
    expected = x.astype(np.float64)
    for t in range(T):
        for j in range(width):
            angle = t / 10000 ** ((j - j % 2) / width)
            expected[:, t, j] += np.cos(angle) if j % 2 else np.sin(angle)
    net = nn.SinusoidalEncoding(width)
    np.testing.assert_allclose(net(x), expected, rtol=1e-6, atol=1e-6)
    dy = numbers(N, T, width, seed=1)
    np.testing.assert_array_equal(net.backward(dy), dy)


def test_learned_encodings() -> None:
    check(nn.LearnedEncoding(9, D), [numbers(N, T, D)], 1, lambda p: p["0"] + p["weight"][:T])
    net = nn.LearnedEncoding(9, D, dropout=0.5)
    assert (net(numbers(N, T, D)) == 0).any()
    net(numbers(N, T, D))
    net.backward(numbers(N, T, D, seed=1))
    assert not net.weight.grad[T:].any()


def rotated(x: Any, dim: int, base: float, interleaved: bool, offset: int) -> Any:
    y = x.astype(np.complex128)
    for t in range(x.shape[-2]):
        for i in range(dim // 2):
            a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + dim // 2)
            turned = (x[..., t, a] + 1j * x[..., t, b]) * np.exp(1j * (t + offset) / base ** (2 * i / dim))
            y[..., t, a], y[..., t, b] = turned.real, turned.imag
    return y.real


@pytest.mark.parametrize("dim", [None, 4])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("shape", [(N, T, D), (N, HEADS, T, D)])
def test_rotary_encodings(shape: tuple[int, ...], interleaved: bool, dim: int | None) -> None:
    net = nn.RotaryEncoding(dim, 100.0, interleaved=interleaved, offset=3)
    options = (dim or D, 100.0, interleaved, 3)
    x, other = numbers(*shape), numbers(*shape, seed=1)
    y, z = net(x, other)
    np.testing.assert_allclose(y, rotated(x, *options), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(z, rotated(other, *options), rtol=1e-5, atol=1e-6)
    dy = numbers(*shape, seed=2)
    dx, _ = net.backward((dy, dy))
    along = numbers(*shape, seed=3)
    assert abs(np.vdot(dx, along) - np.vdot(dy, rotated(along, *options))) < 1e-4
    np.testing.assert_allclose(nn.RotaryEncoding(dim, 100.0, interleaved=interleaved, offset=3)(x), y)


def test_rotary_attention_sees_distances_alone() -> None:
    """Products of query and key do not change when both move, and the whole is differentiable."""
    q, k = numbers(N, T, D), numbers(N, T, D, seed=1)
    q[:], k[:] = q[:, :1], k[:, :1]  # the same content everywhere
    y, z = nn.RotaryEncoding(interleaved=True)(q, k)
    products = y @ z.swapaxes(1, 2)
    for t in range(T - 1):
        np.testing.assert_allclose(products[:, t + 1, 1:], products[:, t, :-1], rtol=1e-4, atol=1e-5)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rotary = nn.RotaryEncoding()

        def forward(self, q: Any, k: Any, v: Any) -> Any:
            q, k = self.rotary(q, k)
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def formula(p: Any) -> Any:
        q, k = (rotated(p[name], D, 10000.0, False, 0) for name in "01")
        return softmax(q @ k.swapaxes(1, 2) / np.sqrt(D) + CAUSAL) @ p["2"]

    check(Block(), [numbers(N, T, D, seed=i) for i in range(3)], 3, formula)
