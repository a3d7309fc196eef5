"""Attention, transformers and rotary encodings of nn against PyTorch's: same weights, same outputs and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers import numbers
from openbnns import nn

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")

N, T, S, D, HEADS = 3, 5, 7, 12, 3


def padding(*shape: int, seed: int = 0) -> Any:
    mask = np.random.default_rng(seed).random(shape) < 0.4
    mask[..., 1] = False
    return mask


class Called(nn.Module):
    """A module called with constants, and with inputs behind ``count`` by these names."""

    def __init__(self, module: Any, names: tuple[str, ...], constants: dict[str, Any]) -> None:
        super().__init__()
        self.module, self.names, self.constants = module, names, constants

    def forward(self, *inputs: Any) -> Any:
        count = len(inputs) - len(self.names)
        result = self.module(*inputs[:count], **dict(zip(self.names, inputs[count:], strict=True)), **self.constants)
        return tuple(result) if self.constants.get("need_weights") else result


def close(ours: Any, theirs: Any, what: str) -> None:
    theirs = theirs.detach().numpy()
    scale = max(float(np.abs(theirs).max()), 0.05)
    assert np.abs(ours - theirs).max() <= 3e-5 * scale, what


def compare(ours: Any, theirs: Any, inputs: list[Any], constants: dict[str, Any], masks: dict[str, Any]) -> None:
    """``masks`` are inputs of our network, ``constants`` are not."""
    net = Called(ours, tuple(masks), constants)
    net.build(*(array.shape[1:] for array in [*inputs, *masks.values()]))
    ours.load_state_dict(theirs.state_dict())
    result = net(*inputs, *masks.values())
    leaves = [torch.tensor(array, requires_grad=True) for array in inputs]
    named = {
        name: torch.tensor(value) if isinstance(value, np.ndarray) else value
        for name, value in {**constants, **masks}.items()
    }
    expected = theirs(*leaves, **named)
    several = constants.get("need_weights", False)
    y = list(result) if several else [result]
    other = [part for part in expected if part is not None] if isinstance(expected, tuple) else [expected]
    d = [numbers(*part.shape, seed=9 + i) for i, part in enumerate(other)]
    for one, two in zip(y, other, strict=True):
        close(one, two, "output")
    torch.autograd.backward(other, [torch.tensor(array) for array in d])
    gradients = net.backward(tuple(d) if several else d[0])
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    for i, leaf in enumerate(leaves):
        close(gradients[i], leaf.grad, f"gradient of input {i}")
    grads = {name: parameter.grad for name, parameter in ours.named_parameters()}
    for name, parameter in theirs.named_parameters():
        close(grads[name], parameter.grad, name)


MASKS: dict[str, Any] = {
    "none": ({}, {}),
    "flags": ({"attn_mask": padding(T, S)}, {}),
    "numbers": ({"attn_mask": numbers(T, S, seed=2)}, {}),
    "keys": ({}, {"key_padding_mask": padding(N, S, seed=4)}),
    "flags and keys": ({"attn_mask": padding(T, S)}, {"key_padding_mask": padding(N, S, seed=4)}),
}
LAYERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "rows": {"add_bias_kv": True, "add_zero_attn": True},
    "widths": {"kdim": 4, "vdim": 5},
    "widths and rows": {"vdim": 4, "add_bias_kv": True, "add_zero_attn": True},
}


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("options", LAYERS)
@pytest.mark.parametrize("mask", MASKS)
def test_attention(mask: str, options: str, average: bool, need_weights: bool) -> None:
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(D, HEADS, batch_first=True, **LAYERS[options])
    ours = nn.MultiheadAttention(D, HEADS, **LAYERS[options])
    inputs = [numbers(N, T, D, seed=1), numbers(N, S, ours.kdim, seed=2), numbers(N, S, ours.vdim, seed=3)]
    constants, given = MASKS[mask]
    constants = {**constants, "need_weights": need_weights, "average_attn_weights": average}
    compare(ours, theirs, inputs, constants, given)


def test_masks_for_every_sample_and_head() -> None:
    """PyTorch's (N * heads, T, S), which is (N, heads, T, S) as an input here."""
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(D, HEADS, batch_first=True)
    net = Called(nn.MultiheadAttention(D, HEADS), ("attn_mask",), {"need_weights": False})
    mask = padding(N, HEADS, T, S, seed=5)
    inputs = [numbers(N, T, D, seed=1), numbers(N, S, D, seed=2), numbers(N, S, D, seed=3)]
    net.build(*(array.shape[1:] for array in [*inputs, mask]))
    net.module.load_state_dict(theirs.state_dict())
    expected, _ = theirs(*map(torch.tensor, inputs), attn_mask=torch.tensor(mask.reshape(-1, T, S)))
    close(net(*inputs, mask), expected, "output")


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_encoder_and_decoder_layers(activation: str, norm_first: bool, bias: bool) -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"activation": activation, "norm_first": norm_first, "bias": bias}
    theirs = torch.nn.TransformerEncoderLayer(D, HEADS, 17, 0.0, batch_first=True, **options)
    ours = nn.TransformerEncoderLayer(D, HEADS, 17, 0.0, **options)
    x, memory = numbers(N, T, D, seed=1), numbers(N, S, D, seed=2)
    causal = np.triu(np.ones((T, T), np.bool_), 1)
    compare(
        ours, theirs, [x], {"src_mask": causal}, {"src_key_padding_mask": padding(N, T) & ~np.eye(N, T, dtype=bool)}
    )
    theirs = torch.nn.TransformerDecoderLayer(D, HEADS, 17, 0.0, batch_first=True, **options)
    ours = nn.TransformerDecoderLayer(D, HEADS, 17, 0.0, **options)
    masks = {"memory_key_padding_mask": padding(N, S, seed=1)}
    compare(ours, theirs, [x, memory], {"tgt_mask": causal}, masks)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [False, True])
def test_whole_transformers(norm_first: bool) -> None:
    """With the names of all parameters."""
    torch.manual_seed(0)
    options: dict[str, Any] = {"dropout": 0.0, "norm_first": norm_first}
    theirs = torch.nn.Transformer(D, HEADS, 2, 2, 17, batch_first=True, **options)
    ours = nn.Transformer(D, HEADS, 2, 2, 17, **options)
    source, target = numbers(N, S, D, seed=1), numbers(N, T, D, seed=2)
    masks = {"src_key_padding_mask": padding(N, S), "memory_key_padding_mask": padding(N, S)}
    compare(
        ours,
        theirs,
        [source, target],
        {"tgt_mask": torch.nn.Transformer.generate_square_subsequent_mask(T).numpy()},
        masks,
    )


def test_stacks() -> None:
    torch.manual_seed(0)
    T_ = torch.nn
    theirs = T_.TransformerEncoder(
        T_.TransformerEncoderLayer(D, HEADS, 17, 0.0, batch_first=True), 3, T_.LayerNorm(D), enable_nested_tensor=False
    )
    ours = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, HEADS, 17, 0.0), 3, nn.LayerNorm(D))
    compare(ours, theirs, [numbers(N, T, D, seed=1)], {}, {})


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_encodings(interleaved: bool) -> None:
    """By complex numbers, as Llama's first program has it, or with halves, as the one of Hugging Face."""
    x = torch.tensor(numbers(N, HEADS, T, D), requires_grad=True)
    frequencies = 1.0 / (10000.0 ** (torch.arange(0, D, 2).float() / D))
    angles = torch.outer(torch.arange(T).float(), frequencies)
    if interleaved:
        pairs = torch.view_as_complex(x.reshape(N, HEADS, T, D // 2, 2))
        expected = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(3)
    else:
        both = torch.cat([angles, angles], -1)
        half = torch.cat([-x[..., D // 2 :], x[..., : D // 2]], -1)
        expected = x * both.cos() + half * both.sin()
    net = nn.RotaryEncoding(D, interleaved=interleaved)
    dy = numbers(N, HEADS, T, D, seed=1)
    close(net(x.detach().numpy()), expected, "output")
    expected.backward(torch.tensor(dy))
    close(net.backward(dy), x.grad, "gradient")
