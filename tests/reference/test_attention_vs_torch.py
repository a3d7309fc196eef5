"""Attention, LSTM, products and embedding of the reference engine against PyTorch in float64."""

import math
from typing import Any

import numpy as np
import pytest

from autograd import close, leaf
from openbnns.parameters.attention import Options
from openbnns.parameters.contraction import parse
from openbnns.parameters.embedding import Embedding
from openbnns.parameters.lstm import GATES
from openbnns.parameters.matmul import Product
from openbnns.reference import attention, contraction, embedding, gram, lstm, matmul
from openbnns.reference.attention import GRADIENTS, Parameters
from openbnns.reference.lstm import Cell, Dropout, Gate

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.peers


def generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng([2025, *seed])


# ---------------------------------------------------------------------------------------------------------------------
# Attention against nn.MultiheadAttention (d_key = d_value = D / H)

N, T, S, D, H = 3, 5, 4, 6, 2
MASKS = {
    "none": (False, None),
    "keys": (True, None),
    "added (T, S)": (False, (T, S)),
    "added (N, H, T, S)": (True, (N, H, T, S)),
    "boolean (T, S)": (True, "boolean"),
}


def by_head(matrix: Any) -> Any:
    """(D, K, H) from PyTorch's (H*K, D)."""
    return matrix.detach().numpy().reshape(H, D // H, D).transpose(2, 1, 0).copy()


def bias_by_head(vector: Any) -> Any:
    """(K, H) from PyTorch's H*K values."""
    return vector.detach().numpy().reshape(H, D // H).T.copy()


@pytest.mark.parametrize("zero_row", [False, True])
@pytest.mark.parametrize("attention_bias", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS.keys())
def test_multihead_attention(masks: Any, bias: bool, attention_bias: bool, zero_row: bool) -> None:
    torch.manual_seed(1)
    layer = torch.nn.MultiheadAttention(
        D, H, bias=bias, add_bias_kv=attention_bias, add_zero_attn=zero_row, batch_first=True, dtype=torch.float64
    )
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    rng = generator(1)
    q, k, v = rng.standard_normal((N, T, D)), rng.standard_normal((N, S, D)), rng.standard_normal((N, S, D))
    with_keys, added_shape = masks
    key_mask = rng.random((N, S)) < 0.4
    key_mask[:, 0] = False
    if added_shape == "boolean":
        added: Any = rng.random((T, S)) < 0.4
        added[:, 0] = False
    else:
        added = None if added_shape is None else rng.standard_normal(added_shape)

    leaves = [leaf(array) for array in (q, k, v)]
    torch_added = None if added is None else torch.tensor(added.reshape(-1, T, S) if added.ndim == 4 else added)
    torch_keys: Any = None
    if with_keys:
        torch_keys = torch.tensor(key_mask)
        if torch_added is not None and torch_added.dtype != torch.bool:  # PyTorch wants both masks of one type
            torch_keys = torch.zeros(N, S, dtype=torch.float64).masked_fill_(torch_keys, -math.inf)
    expected, _ = layer(*leaves, key_padding_mask=torch_keys, attn_mask=torch_added)
    do = rng.standard_normal((N, T, D))
    expected.backward(torch.tensor(do))

    w = layer.in_proj_weight.reshape(3, D, D)
    p = layer.in_proj_bias.reshape(3, D) if bias else [None] * 3
    parameters = Parameters(
        *(by_head(w[i]) for i in range(3)),
        layer.out_proj.weight.detach().numpy().T,
        *(None if p[i] is None else bias_by_head(p[i]) for i in range(3)),
        layer.out_proj.bias.detach().numpy() if bias else None,
        *((bias_by_head(layer.bias_k), bias_by_head(layer.bias_v)) if attention_bias else (None, None)),
    )
    output, cache = attention.forward(q, k, v, parameters, Options(zero_row), key_mask if with_keys else None, added)
    close(output, expected)
    wanted = GRADIENTS if attention_bias else GRADIENTS - {"dbk", "dbv"}
    gradients = attention.backward(q, k, v, parameters, cache, do, wanted)
    for name, tensor in zip("qkv", leaves, strict=True):
        close(gradients[f"d{name}"], tensor.grad)
    dw = layer.in_proj_weight.grad.reshape(3, D, D)
    for i, name in enumerate("qkv"):
        close(gradients[f"dw{name}"], by_head(dw[i]))
        if bias:
            close(gradients[f"dp{name}"], bias_by_head(layer.in_proj_bias.grad.reshape(3, D)[i]))
    close(gradients["dwo"], layer.out_proj.weight.grad.T)
    if bias:
        close(gradients["dpo"], layer.out_proj.bias.grad)
    if attention_bias:
        close(gradients["dbk"], bias_by_head(layer.bias_k.grad))
        close(gradients["dbv"], bias_by_head(layer.bias_v.grad))


def test_scaled_dot_product_attention_with_different_key_and_value_sizes() -> None:
    """d_key 3, d_value 5; projections and dropout by hand, as torch cannot be given its mask."""
    rng, key, value = generator(2), 3, 5
    names = {
        "q": (N, T, D), "k": (N, S, D), "v": (N, S, D),
        "wq": (D, key, H), "wk": (D, key, H), "wv": (D, value, H), "wo": (H * value, D),
        "pq": (key, H), "pk": (key, H), "pv": (value, H), "po": (D,),
    }  # fmt: skip
    arrays = {name: rng.standard_normal(shape) for name, shape in names.items()}
    added, keep, do = rng.standard_normal((H, T, S)), rng.random((N, H, T, S)) < 0.7, rng.standard_normal((N, T, D))
    parameters = Parameters(**{name: array for name, array in arrays.items() if len(name) == 2})

    def project(t: dict[str, Any], name: str) -> Any:
        return torch.einsum("nld,dkh->nhlk", t[name], t[f"w{name}"]) + t[f"p{name}"].T[:, None, :]

    for dropout in (0.0, 0.3):
        t = {name: leaf(array) for name, array in arrays.items()}
        heads = [project(t, name) for name in "qkv"]
        if dropout == 0.0:
            mixed = F.scaled_dot_product_attention(*heads, attn_mask=torch.tensor(added))
        else:
            scores = heads[0] @ heads[1].transpose(2, 3) / math.sqrt(key) + torch.tensor(added)
            mixed = torch.softmax(scores, -1) * torch.tensor(keep) / (1 - dropout) @ heads[2]
        expected = mixed.transpose(1, 2).reshape(N, T, H * value) @ t["wo"] + t["po"]
        expected.backward(torch.tensor(do))
        inputs = arrays["q"], arrays["k"], arrays["v"]
        output, cache = attention.forward(
            *inputs, parameters, Options(dropout=dropout), add_to_attention=added, keep=keep
        )
        close(output, expected)
        gradients = attention.backward(*inputs, parameters, cache, do, {f"d{name}" for name in names})
        for name, tensor in t.items():
            close(gradients[f"d{name}"], tensor.grad)


def test_fully_masked_row_is_nan_in_both() -> None:
    """nn.functional's plain formula: softmax of nothing but -inf."""
    scores = torch.full((1, 3), -math.inf, dtype=torch.float64)
    assert torch.isnan(torch.softmax(scores, -1)).all()
    one = np.ones((1, 1, 1))
    parameters = Parameters(one, one, one, one[0])
    masked = np.ones((1, 3), dtype=np.bool_)
    source = np.ones((1, 3, 1))
    assert np.isnan(attention.forward(one, source, source, parameters, Options(), masked)[0]).all()


# ---------------------------------------------------------------------------------------------------------------------
# LSTM against nn.LSTM


def gates_of(layer: Any, index: int, direction: int, gradient: bool = False) -> dict[str, tuple[Any, Any, Any]]:
    """W, U, b of every gate from PyTorch's stacked parameters; b is b_ih + b_hh, whose gradients are equal."""
    suffix = f"l{index}" + "_reverse" * direction
    hidden = layer.hidden_size

    def values(name: str) -> Any:
        parameter = getattr(layer, f"{name}_{suffix}")
        return (parameter.grad if gradient else parameter).detach().numpy()

    w, u = values("weight_ih"), values("weight_hh")
    b = values("bias_ih") if gradient else values("bias_ih") + values("bias_hh")
    parts = [slice(k * hidden, (k + 1) * hidden) for k in range(4)]
    return {name: (w[part], u[part], b[part]) for name, part in zip(GATES, parts, strict=True)}


@pytest.mark.parametrize("lengths", [None, (6, 6, 3, 1)], ids=["full", "packed"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_lstm(layers: int, bidirectional: bool, lengths: tuple[int, ...] | None) -> None:
    torch.manual_seed(2)
    steps, batch, inputs, hidden, directions = 6, 4, 5, 3, 1 + bidirectional
    layer = torch.nn.LSTM(inputs, hidden, layers, bidirectional=bidirectional, dtype=torch.float64)
    rng = generator(3)
    states = (layers, directions, batch, hidden)
    x, h0, c0 = rng.standard_normal((steps, batch, inputs)), rng.standard_normal(states), rng.standard_normal(states)
    tx, th, tc = leaf(x), leaf(h0), leaf(c0)

    def flat(state: Any) -> Any:
        return state.reshape(layers * directions, batch, hidden)

    if lengths is None:
        batch_sizes = None
        expected, (h, c) = layer(tx, (flat(th), flat(tc)))
    else:
        packed = torch.nn.utils.rnn.pack_padded_sequence(tx, torch.tensor(lengths))
        batch_sizes = packed.batch_sizes.tolist()
        out, (h, c) = layer(packed, (flat(th), flat(tc)))
        expected, _ = torch.nn.utils.rnn.pad_packed_sequence(out)
    dy, dh, dc = (rng.standard_normal(shape) for shape in ((steps, batch, directions, hidden), states, states))
    torch.autograd.backward(
        [expected, h, c],
        [torch.tensor(dy).reshape(expected.shape), flat(torch.tensor(dh)), flat(torch.tensor(dc))],
    )

    stack = [
        [
            Cell(**{name: Gate(w, u, None, b) for name, (w, u, b) in gates_of(layer, index, direction).items()})
            for direction in range(directions)
        ]
        for index in range(layers)
    ]
    result = lstm.forward(x, stack, h0, c0, batch_sizes=batch_sizes)
    close(result.y, expected.reshape(result.y.shape))
    close(result.h, h.reshape(states))
    close(result.c, c.reshape(states))
    gradients = lstm.backward(stack, result.cache, {"dx", "dh0", "dc0", "dw", "du", "db"}, dy, dh, dc)
    close(gradients.dx, tx.grad)
    close(gradients.dh0, th.grad)
    close(gradients.dc0, tc.grad)
    for index in range(layers):
        for direction in range(directions):
            for name, parts in gates_of(layer, index, direction, gradient=True).items():
                part_gradients = gradients.gates[index][direction][name]
                for kind, part in zip(("dw", "du", "db"), parts, strict=True):
                    close(part_gradients[kind], part)


def test_lstm_with_peepholes_and_dropout_by_autograd() -> None:
    """Two layers, both directions, written out in torch with peepholes and a given dropout mask."""
    rng, steps, batch, hidden, rate = generator(4), 4, 3, 2, 0.4
    keep = rng.random((1, steps, batch, 2 * hidden)) >= rate
    x = rng.standard_normal((steps, batch, 5))
    arrays = [
        [
            {
                name: [rng.standard_normal(s) for s in ((hidden, width), (hidden, hidden), (hidden, hidden), (hidden,))]
                for name in GATES
            }
            for _ in range(2)
        ]
        for width in (5, 2 * hidden)
    ]
    leaves = [[{name: [leaf(a) for a in gate] for name, gate in cell.items()} for cell in cells] for cells in arrays]
    tx = leaf(x)

    def run(cell: Any, sequence: Any, reverse: bool) -> Any:
        h = c = torch.zeros(batch, hidden, dtype=torch.float64)
        out: list[Any] = [None] * steps
        for t in reversed(range(steps)) if reverse else range(steps):

            def z(name: str, look: Any, t: int = t, h: Any = h) -> Any:
                w, u, p, b = cell[name]
                return sequence[t] @ w.T + h @ u.T + look @ p.T + b

            i, f, g = torch.sigmoid(z("input", c)), torch.sigmoid(z("forget", c)), torch.tanh(z("candidate", c))
            c = f * c + i * g
            h = torch.sigmoid(z("output", c)) * torch.tanh(c)
            out[t] = h
        return torch.stack(out)

    sequence = tx
    for index, cells in enumerate(leaves):
        if index > 0:
            sequence = sequence * torch.tensor(keep[index - 1]) / (1 - rate)
        sequence = torch.cat([run(cell, sequence, k == 1) for k, cell in enumerate(cells)], dim=-1)
    dy = rng.standard_normal((steps, batch, 2, hidden))
    sequence.backward(torch.tensor(dy).reshape(sequence.shape))

    stack = [[Cell(**{name: Gate(*gate) for name, gate in cell.items()}) for cell in cells] for cells in arrays]
    result = lstm.forward(x, stack, dropout=Dropout(rate, keep))
    close(result.y, sequence.reshape(dy.shape))
    gradients = lstm.backward(stack, result.cache, {"dx", "dw", "du", "dp", "db"}, dy)
    close(gradients.dx, tx.grad)
    for index, cells in enumerate(leaves):
        for k, cell in enumerate(cells):
            for name, gate in cell.items():
                for kind, tensor in zip(("dw", "du", "dp", "db"), gate, strict=True):
                    close(gradients.gates[index][k][name][kind], tensor.grad)


# ---------------------------------------------------------------------------------------------------------------------
# Products and embedding


@pytest.mark.parametrize(
    ("text", "equation", "shapes"),
    [
        ("a_ijp, b_ijq -> o_pq", "nijp,nijq->npq", [(3, 2, 5, 4), (3, 2, 5, 7)]),
        ("a_*ik, b_*jk -> c_*ij", "nsik,nsjk->nsij", [(2, 3, 2, 5), (2, 3, 4, 5)]),
        ("a_*ik, b_*kj -> c_*ij", "nrsik,nskj->nrsij", [(2, 6, 3, 2, 5), (2, 3, 5, 4)]),
        ("a_ij, b_kl -> c_k", "nij,nkl->nk", [(2, 3, 2), (2, 5, 4)]),
        ("a_iij, b_ji -> c_j", "niij,nji->nj", [(2, 4, 4, 3), (2, 3, 4)]),
        ("a_ij -> c_ji", "nij->nji", [(2, 3, 4)]),
    ],
)
def test_contraction_is_einsum(text: str, equation: str, shapes: list[tuple[int, ...]]) -> None:
    rng, expression = generator(5), parse(text)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    leaves = [leaf(array) for array in arrays]
    expected = 0.5 * torch.einsum(equation, *leaves)
    out = contraction.forward(expression, arrays, 0.5)
    close(out, expected)
    dy = rng.standard_normal(out.shape)
    expected.backward(torch.tensor(dy))
    for gradient, tensor in zip(
        contraction.backward(expression, arrays, dy, [True] * len(arrays), 0.5), leaves, strict=True
    ):
        close(gradient, tensor.grad)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_matmul(transpose_a: bool, transpose_b: bool) -> None:
    rng, p = generator(6), Product(transpose_a, transpose_b, 1.5)
    a = rng.standard_normal((2, 4, 5, 3) if transpose_a else (2, 4, 3, 5))
    b = rng.standard_normal((1, 1, 7, 5) if transpose_b else (1, 1, 5, 7))
    ta, tb = leaf(a), leaf(b)
    expected = 1.5 * (ta.mT if transpose_a else ta) @ (tb.mT if transpose_b else tb)
    dc = rng.standard_normal((2, 4, 3, 7))
    expected.backward(torch.tensor(dc))
    close(matmul.forward(a, b, p), expected)
    gradients = matmul.backward(a, b, dc, p, {"da", "db"})
    close(gradients["da"], ta.grad)
    close(gradients["db"], tb.grad)


def test_gram() -> None:
    rng = generator(7)
    x, dg = rng.standard_normal((2, 5, 3, 4)), rng.standard_normal((2, 5, 5))
    tx = leaf(x)
    expected = 0.3 * torch.einsum("nfij,ncij->nfc", tx, tx)
    expected.backward(torch.tensor(dg))
    close(gram.forward(x, 0.3), expected)
    close(gram.backward(x, dg, 0.3), tx.grad)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.5, math.inf])
@pytest.mark.parametrize("frequency", [False, True])
@pytest.mark.parametrize("padding", [None, 2])
def test_embedding(padding: int | None, frequency: bool, p: float) -> None:
    """PyTorch renormalizes in place, and adds 1e-7 to the norm that it divides by."""
    rng = generator(8)
    indices, dy = rng.integers(0, 9, (3, 4)), rng.standard_normal((3, 4, 5))
    dictionary = 3.0 * rng.standard_normal((9, 5))
    if padding is not None:
        dictionary[padding] = 0.0
    weights = torch.tensor(dictionary)
    with torch.no_grad():
        F.embedding(torch.tensor(indices), weights, padding, max_norm=1.5, norm_type=p)
    weights.requires_grad_()
    expected = F.embedding(torch.tensor(indices), weights, padding, scale_grad_by_freq=frequency)
    expected.backward(torch.tensor(dy))

    e = Embedding(padding, 1.5, p, frequency, renormalize_in_place=True)
    close(embedding.forward(indices, dictionary, e), expected, rtol=1e-6)
    close(dictionary, weights, rtol=1e-6)
    close(embedding.backward(indices, dy, 9, e), weights.grad)
