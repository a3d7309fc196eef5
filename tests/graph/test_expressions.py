"""Expressions in ``forward``: values against NumPy's float64, gradients of inputs and parameters against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from function_checks import some
from openbnns import nn
from openbnns.nn import functional as F
from openbnns.nn.recording import recorded_graph

Arrays = list[Any]


class Expressed(nn.Module):
    """A function of its inputs and of two parameters."""

    def __init__(self, body: Callable[..., Any], parameters: Arrays) -> None:
        super().__init__()
        self.body = body
        for i, array in enumerate(parameters):
            setattr(self, f"p{i}", nn.Parameter(array))

    def forward(self, *inputs: nn.Value) -> Any:
        return self.body(*inputs, *self._parameters.values())


def erf(x: Any) -> Any:
    from math import erf

    return np.vectorize(erf)(x)


def softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def differences(body: Callable[..., Any], arrays: Arrays, cotangent: Any, which: int) -> Any:
    """The gradient of the sum of ``cotangent * body`` by central differences in float64."""
    gradient = np.zeros(arrays[which].shape)
    for place in np.ndindex(*arrays[which].shape):
        values = []
        for step in (1e-5, -1e-5):
            moved = [a.astype(np.float64) for a in arrays]
            moved[which][place] += step
            values.append(float((np.asarray(body(*moved)) * cotangent).sum()))
        gradient[place] = (values[0] - values[1]) / 2e-5
    return gradient


def check(body: Callable[..., Any], oracle: Callable[..., Any], inputs: Arrays, parameters: Arrays = ()) -> None:  # type: ignore[assignment]
    net = Expressed(body, list(parameters))
    arrays = [*inputs, *parameters]
    for batch in (len(inputs[0]), 1, len(inputs[0])):  # several programs, and the first once more
        some = [x[:batch] for x in inputs]
        y = net(*some)
        expected = np.asarray(oracle(*(a.astype(np.float64) for a in [*some, *parameters])))
        assert y.shape == expected.shape
        np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-5)
    cotangent = np.random.default_rng(9).standard_normal(y.shape).astype(np.float32)
    given = net.backward(cotangent)
    gradients = [*(given if isinstance(given, tuple) else [given]), *(p.grad for p in net.parameters())]
    for i, gradient in enumerate(gradients):
        expected = differences(oracle, arrays, cotangent.astype(np.float64), i)
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(gradient, expected, rtol=2e-3, atol=2e-4 * scale, err_msg=f"operand {i}")


X = some(3, 4, 5)
POSITIVE = some(3, 4, 5, low=0.3, high=2)
CHANNELS = some(5, seed=1, low=0.5, high=1.5)
SECOND = some(3, 4, 5, seed=2)
MASK = np.random.default_rng(3).random((4, 5)) > 0.4

ONE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "negated": (lambda x: -x, lambda x: -x),
    "numbers": (lambda x: 3 - (2 * x + 1) / 4, lambda x: 3 - (2 * x + 1) / 4),
    "quotient of a number": (lambda x: 1 / (x * x + 2), lambda x: 1 / (x * x + 2)),
    "powers": (lambda x: x**2 + x**3 - x**1, lambda x: x**2 + x**3 - x),
    "used three times": (lambda x: x * x + x.exp() * x, lambda x: x * x + np.exp(x) * x),
    "exp": (lambda x: x.exp(), np.exp),
    "exp2": (F.exp2, np.exp2),
    "sin": (lambda x: np.sin(x), np.sin),
    "cos": (lambda x: x.cos(), np.cos),
    "tan": (lambda x: F.tan(x * 0.5), lambda x: np.tan(x * 0.5)),
    "asin": (lambda x: F.asin(x * 0.5), lambda x: np.arcsin(x * 0.5)),
    "acos": (lambda x: F.acos(x * 0.5), lambda x: np.arccos(x * 0.5)),
    "atan": (F.atan, np.arctan),
    "sinh": (F.sinh, np.sinh),
    "cosh": (F.cosh, np.cosh),
    "asinh": (F.asinh, np.arcsinh),
    "atanh": (lambda x: F.atanh(x * 0.5), lambda x: np.arctanh(x * 0.5)),
    "erf": (F.erf, erf),
    "tanh": (lambda x: x.tanh(), np.tanh),
    "sigmoid": (lambda x: x.sigmoid(), lambda x: 1 / (1 + np.exp(-x))),
    "silu": (F.silu, lambda x: x / (1 + np.exp(-x))),
    "mish": (F.mish, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "softplus, threshold": (
        lambda x: F.softplus(x, 2, 0.3), lambda x: np.where(2 * x > 0.3, x, np.log1p(np.exp(2 * x)) / 2),
    ),
    "softplus": (lambda x: F.softplus(x, beta=2), lambda x: np.log1p(np.exp(2 * x)) / 2),
    "gelu": (F.gelu, lambda x: x * (1 + erf(x / np.sqrt(2))) / 2),
    "tanhshrink": (F.tanhshrink, lambda x: x - np.tanh(x)),
    "glu": (lambda x: F.glu(x, dim=1), lambda x: x[:, :2] / (1 + np.exp(-x[:, 2:]))),
    "softmax of the last axis": (lambda x: x.softmax(-1), lambda x: softmax(x, -1)),
    "softmax of the first axis": (lambda x: F.softmax(x, dim=1), lambda x: softmax(x, 1)),
    "log softmax": (lambda x: F.log_softmax(x, dim=1), lambda x: np.log(softmax(x, 1))),
    "softmin": (lambda x: F.softmin(x, dim=2), lambda x: softmax(-x, 2)),
    "mean of an axis": (lambda x: x.mean(dim=1), lambda x: x.mean(1)),
    "mean of axes, kept": (lambda x: x.mean(dim=(1, 2), keepdim=True), lambda x: x.mean((1, 2), keepdims=True)),
    "mean of all": (lambda x: x.mean(), lambda x: x.mean()),
    "mean of the batch": (lambda x: x.mean(dim=0), lambda x: x.mean(0)),
    "mean of the batch, kept": (lambda x: x - x.mean(dim=0, keepdim=True), lambda x: x - x.mean(0, keepdims=True)),
    "sum": (lambda x: x.sum(dim=-1), lambda x: x.sum(-1)),
    "prod": (lambda x: x.prod(dim=1), lambda x: x.prod(1)),
    "max": (lambda x: x.max(dim=1)[0], lambda x: x.max(1)),
    "min": (lambda x: x.min(dim=2).values, lambda x: x.min(2)),
    "largest of all": (lambda x: x.max(), lambda x: x.max()),
    "logsumexp": (lambda x: x.logsumexp(dim=2), lambda x: np.log(np.exp(x).sum(2))),
    "norm": (lambda x: x.norm(dim=2), lambda x: np.sqrt((x * x).sum(2))),
    "norm 1": (lambda x: x.norm(1, dim=1), lambda x: np.abs(x).sum(1)),
    "var": (lambda x: x.var(dim=2), lambda x: x.var(2, ddof=1)),
    "std": (lambda x: x.std(dim=(1, 2), correction=0, keepdim=True), lambda x: x.std((1, 2), keepdims=True)),
    "normalize": (lambda x: F.normalize(x, dim=2), lambda x: x / np.sqrt((x * x).sum(2, keepdims=True))),
    "permute": (lambda x: x.permute(0, 2, 1), lambda x: x.transpose(0, 2, 1)),
    "transposed": (lambda x: x.transpose(1, 2) * 2, lambda x: x.transpose(0, 2, 1) * 2),
    "T": (lambda x: x.T, lambda x: x.transpose(0, 2, 1)),
    "flattened": (lambda x: x.flatten(1) * 2, lambda x: x.reshape(-1, 20) * 2),
    "viewed": (lambda x: x.view(x.size(0), 2, -1).sum(2), lambda x: x.reshape(-1, 2, 10).sum(2)),
    "unsqueezed": (lambda x: x.unsqueeze(2) * 2, lambda x: x[:, :, None] * 2),
    "last": (lambda x: x[:, -1], lambda x: x[:, -1]),
    "range": (lambda x: x[..., 2:5], lambda x: x[..., 2:5]),
    "steps": (lambda x: x[:, ::-2, 1::2], lambda x: x[:, ::-2, 1::2]),
    "new axis": (lambda x: x[:, None, 2] * x[:, :, None, 2], lambda x: x[:, None, 2] * x[:, :, None, 2]),
    "list": (lambda x: x[:, [2, 0, 2]], lambda x: x[:, [2, 0, 2]]),
    "slices that overlap": (lambda x: x[:, 1:] * x[:, :-1], lambda x: x[:, 1:] * x[:, :-1]),
    "flip": (lambda x: x.flip(1) * x, lambda x: x[:, ::-1] * x),
    "roll": (lambda x: x.roll(2, 2) * x, lambda x: np.roll(x, 2, 2) * x),
    "chunks": (lambda x: x.chunk(2, dim=1)[0] * x.chunk(2, dim=1)[1], lambda x: x[:, :2] * x[:, 2:]),
    "parts": (lambda x: x.split([1, 3, 1], dim=2)[1] ** 2, lambda x: x[..., 1:4] ** 2),
    "unbound": (lambda x: x.unbind(1)[3] * x.unbind(1)[0], lambda x: x[:, 3] * x[:, 0]),
    "cat": (lambda x: F.cat([x, x * 2, x[:, :, :1]], dim=2), lambda x: np.concatenate([x, x * 2, x[:, :, :1]], 2)),
    "stack": (lambda x: F.stack([x, -x], dim=1), lambda x: np.stack([x, -x], 1)),
    "repeat": (lambda x: x.repeat(1, 2, 3), lambda x: np.tile(x, (1, 2, 3))),
    "expand": (lambda x: x[:, :1].expand(-1, 6, -1), lambda x: np.repeat(x[:, :1], 6, 1)),
    "clamp": (lambda x: x.clamp(-0.7, 0.8), lambda x: np.clip(x, -0.7, 0.8)),
    "clamp below": (lambda x: x.clamp(min=0.1), lambda x: np.maximum(x, 0.1)),
    "where": (lambda x: F.where(MASK, x * 2, -1.0), lambda x: np.where(MASK, x * 2, -1)),
    "masked_fill": (lambda x: x.masked_fill(MASK, 0.5), lambda x: np.where(MASK, 0.5, x)),
    "triangle": (lambda x: F.tril(x), lambda x: np.tril(x)),
    "array": (lambda x: MASK.astype(np.float32) * x + np.arange(5), lambda x: MASK * x + np.arange(5)),
    "gram": (lambda x: x @ x.T, lambda x: x @ x.transpose(0, 2, 1)),
    "gram of columns": (lambda x: x.T @ x, lambda x: x.transpose(0, 2, 1) @ x),
    "attention": (
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda x: softmax(np.where(np.tril(np.ones((4, 4))) > 0, x @ x.transpose(0, 2, 1) / np.sqrt(5), -1e30), -1) @ x,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_one_value(name: str) -> None:
    check(*ONE[name], [X])


@pytest.mark.parametrize(
    ("body", "oracle"),
    [
        (lambda x: x.log(), np.log),
        (F.log2, np.log2),
        (lambda x: np.sqrt(x), np.sqrt),
        (lambda x: x.rsqrt(), lambda x: x**-0.5),
        (lambda x: x**1.7, lambda x: x**1.7),
        (lambda x: 2**x, lambda x: 2**x),
        (lambda x: x.reciprocal(), lambda x: 1 / x),
        (lambda x: F.acosh(x + 1), lambda x: np.arccosh(x + 1)),
    ],
)
def test_positive(body: Any, oracle: Any) -> None:
    check(body, oracle, [POSITIVE])


NORMS = {
    3: lambda x, axis: (np.abs(x) ** 3).sum(axis) ** (1 / 3),
    2.5: lambda x, axis: (np.abs(x) ** 2.5).sum(axis) ** 0.4,
    0.5: lambda x, axis: np.sqrt(np.abs(x)).sum(axis) ** 2,
    -1: lambda x, axis: 1 / (1 / np.abs(x)).sum(axis),
    np.inf: lambda x, axis: np.abs(x).max(axis),
    -np.inf: lambda x, axis: np.abs(x).min(axis),
    "fro": lambda x, axis: np.sqrt((x * x).sum(axis)),  # codespell:ignore fro
}


@pytest.mark.parametrize("p", NORMS)
def test_norms(p: Any, engine: str) -> None:
    for axis in (1, (1, 2), None):
        check(lambda x: x.norm(p, dim=axis), lambda x: NORMS[p](x, axis), [X])  # noqa: B023
    np.testing.assert_allclose(F.norm(X, p, 2, keepdim=True), NORMS[p](X, 2)[..., None], rtol=2e-5)


def test_the_norm_that_counts(engine: str) -> None:
    x = np.float32([[0, -2, 0.5], [0, 0, 0]])
    assert F.norm(x, 0, 1).tolist() == [2, 0] and Expressed(lambda x: 2.0 * x.norm(0, dim=-1), [])(x).tolist() == [4, 0]
    assert F.norm(x, 0) == 2 and F.norm(x, 0, 0, keepdim=True).tolist() == [[0, 1, 1]]


def test_softmax_of_a_single_number(engine: str) -> None:
    x = np.array(3, np.float32)
    for dim in (None, 0, -1):
        assert F.softmax(x, dim) == F.softmin(x, dim) == 1 and F.log_softmax(x, dim) == 0
    check(lambda x: x.sum(2) * F.softmax(x.mean(), -1), lambda x: x.sum(2), [X])


WITH_PARAMETER: dict[str, tuple[Callable[..., Any], Callable[..., Any], Arrays]] = {
    "scale": (lambda x, p: x * p, lambda x, p: x * p, [CHANNELS]),
    "scale from the left": (lambda x, p: p * x, lambda x, p: p * x, [CHANNELS]),
    "quotient": (lambda x, p: x / p, lambda x, p: x / p, [CHANNELS]),
    "power": (lambda x, p: F.exp(x) ** p, lambda x, p: np.exp(x) ** p, [CHANNELS]),
    "positions": (lambda x, p: x + p, lambda x, p: x + p, [some(1, 4, 5)]),
    "one number": (lambda x, p: x * p, lambda x, p: x * p, [np.float32(1.5)]),
    "columns": (lambda x, p: x - p, lambda x, p: x - p, [some(4, 1)]),
    "parameters alone": (lambda x, p: x * F.softmax(p, -1) + p.sum(), lambda x, p: x * softmax(p, -1) + p.sum(), [some(4, 5)]),
    "two": (lambda x, p, q: (x + p) * (q - p), lambda x, p, q: (x + p) * (q - p), [some(5), some(4, 1)]),
    "product": (lambda x, p: x @ p, lambda x, p: x @ p, [some(5, 2)]),
    "product with a transpose": (lambda x, p: x @ p.T, lambda x, p: x @ p.T, [some(2, 5)]),
    "product from the left": (lambda x, p: p @ x, lambda x, p: p @ x, [some(2, 4)]),
    "vector": (lambda x, p: x @ p, lambda x, p: x @ p, [some(5)]),
    "linear": (lambda x, p, q: F.linear(x, p, q), lambda x, p, q: x @ p.T + q, [some(3, 5), some(3)]),
    "tied": (lambda x, p: F.linear(F.tanh(F.linear(x, p)), p.T), lambda x, p: np.tanh(x @ p.T) @ p, [some(3, 5)]),
    "einsum": (
        lambda x, p: F.einsum("ntd,de->net", x, p), lambda x, p: np.einsum("ntd,de->net", x, p), [some(5, 2)]
    ),
    "einsum of three": (
        lambda x, p, q: F.einsum("n...d,de,ef->n...f", x, p, q),
        lambda x, p, q: np.einsum("ntd,de,ef->ntf", x, p, q),
        [some(5, 2), some(2, 3)],
    ),
    "class token": (
        lambda x, p: F.cat([p.expand(x.shape[0], -1, -1), x], dim=1)[:, 0] * x[:, 1],
        lambda x, p: p[0, 0] * x[:, 1],
        [some(1, 1, 5)],
    ),
    "class token without expand": (
        lambda x, p: F.cat([p, x], dim=1).mean(dim=1),
        lambda x, p: np.concatenate([np.repeat(p, len(x), 0), x], 1).mean(1),
        [some(1, 1, 5)],
    ),
    "prelu": (lambda x, p: F.prelu(x, p), lambda x, p: np.where(x > 0, x, p[:, None] * x), [some(4)]),
    "part of a parameter": (lambda x, p: x + p[1:5, :5], lambda x, p: x + p[1:5, :5], [some(6, 7)]),
    "gate": (
        lambda x, p: x * F.sigmoid(x.mean(dim=1, keepdim=True) @ p),
        lambda x, p: x / (1 + np.exp(-x.mean(1, keepdims=True) @ p)),
        [some(5, 5)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WITH_PARAMETER)
def test_parameters(name: str) -> None:
    body, oracle, parameters = WITH_PARAMETER[name]
    check(body, oracle, [X], [np.asarray(p) for p in parameters])


@pytest.mark.parametrize(
    ("body", "oracle", "other"),
    [
        (lambda a, b: a - b, lambda a, b: a - b, SECOND),
        (lambda a, b: a * b + b, lambda a, b: a * b + b, some(3, 1, 5, seed=5)),
        (lambda a, b: F.maximum(a, b), np.maximum, SECOND),
        (lambda a, b: F.minimum(a, b) / 2, lambda a, b: np.minimum(a, b) / 2, SECOND),
        (lambda a, b: a @ b, lambda a, b: a @ b, some(3, 5, 2, seed=4)),
        (lambda a, b: a @ b.T, lambda a, b: a @ b.transpose(0, 2, 1), some(3, 2, 5, seed=4)),
        (lambda a, b: F.einsum("nij,nkj->nik", a, b), lambda a, b: np.einsum("nij,nkj->nik", a, b), SECOND),
        (lambda a, b: F.lerp(a, b, 0.25), lambda a, b: a + 0.25 * (b - a), SECOND),
        (lambda a, b: F.addcmul(a, a, b), lambda a, b: a + a * b, SECOND),
        (
            lambda a, b: F.cosine_similarity(a, b, dim=2),
            lambda a, b: (a * b).sum(2) / np.sqrt((a * a).sum(2) * (b * b).sum(2)),
            SECOND,
        ),
        (lambda a, b: ((a - b) ** 2).mean(), lambda a, b: ((a - b) ** 2).mean(), SECOND),
        (lambda a, b: F.outer(a[:, 0], b[:, 0]), lambda a, b: a[:, 0, :, None] * b[:, 0, None], SECOND),
    ],
)
def test_two_values(body: Any, oracle: Any, other: Any) -> None:
    check(body, oracle, [X, other])


SUMS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Arrays, Arrays]] = {
    "relu": (lambda a, b: F.relu(a + b), lambda a, b: np.maximum(a + b, 0), [X, SECOND], []),
    "sigmoid": (lambda a, b: F.sigmoid(a - b), lambda a, b: 1 / (1 + np.exp(b - a)), [X, SECOND], []),
    "tanh, repeated": (lambda a, p: F.tanh(a - p), lambda a, p: np.tanh(a - p), [X], [CHANNELS]),
    "elu, repeated": (lambda a, p: F.elu(p + a), lambda a, p: np.where(a > -p, a + p, np.expm1(a + p)), [X], [CHANNELS]),
    "used twice": (lambda a: F.relu(a + a), lambda a: np.maximum(2 * a, 0), [X], []),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_activations_of_sums_are_one_operation(name: str) -> None:
    body, oracle, inputs, parameters = SUMS[name]
    check(body, oracle, inputs, parameters)
    net = Expressed(body, parameters).build(*([(4, 5)] * len(inputs)))
    assert len(recorded_graph(net).operations) == 1


def test_activations_that_stay_apart_from_sums() -> None:
    """A slope that the output does not tell, and a sum that is used again."""
    gelu = Expressed(lambda a, b: F.gelu(a + b), []).build((4, 5), (4, 5))
    twice = Expressed(lambda a, b: F.relu(c := a + b) * c, []).build((4, 5), (4, 5))
    assert [len(recorded_graph(net).operations) for net in (gelu, twice)] == [2, 3]


def test_detach() -> None:
    net = Expressed(lambda x: x * x.detach(), [])
    net(X)
    np.testing.assert_array_equal(net.backward(np.ones_like(X)), X)


def test_one_hot_and_embedding() -> None:
    table = some(6, 3)
    net = Expressed(lambda i, p: F.embedding(i, p) + F.one_hot(i, 6) @ p, [table])
    numbers = np.array([[1, 4], [5, 0]])
    np.testing.assert_allclose(net(numbers), 2 * table[numbers], rtol=1e-6)
    dy = some(2, 2, 3)
    net.backward(dy)
    expected = np.zeros_like(table)
    np.add.at(expected, numbers, 2 * dy)
    np.testing.assert_allclose(next(net.parameters()).grad, expected, rtol=1e-6)


def test_positions_of_extremes() -> None:
    values, places = Expressed(lambda x: tuple(x.max(dim=1)), [])(X)
    np.testing.assert_array_equal(values, X.max(1))
    np.testing.assert_array_equal(places, X.argmax(1))


def test_functions_of_arrays() -> None:
    """Outside of a network they run at once."""
    np.testing.assert_allclose(F.softmax(X, dim=1), softmax(X, 1), rtol=1e-5)
    assert F.mean(X).shape == () and F.cat([X, X], dim=2).shape == (3, 4, 10)
    with pytest.raises(TypeError, match="no array among its arguments"):
        F.exp(1.0)


def test_arithmetic_of_parameters_outside_forward() -> None:
    p = nn.Parameter(CHANNELS)
    np.testing.assert_array_equal(np.abs(p), np.abs(CHANNELS))
    np.testing.assert_array_equal(p * 2, CHANNELS * 2)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda x: x if x.sum() > 0 else -x, "cannot branch on numbers"),
        (lambda x: x * float(x.mean()), "cannot branch on numbers"),
        (lambda x: np.concatenate([x, x]), "np.concatenate does not act on a value"),
        (lambda x: x + np.ones((7,), np.float32), "do not fit together"),
        (lambda x: x + x[:, 0], "do not fit together"),
        (lambda x: x[3], "3 is out of range for axis 0"),
        (lambda x: x[:, 9], "9 is out of range for axis 1"),
        (lambda x: x[:, 3:3], "selects nothing"),
        (lambda x: x.permute(1, 0), "must name each axis"),
        (lambda x: x.mean(dim=3), "has the axes 0 to 2"),
        (lambda x: x @ np.ones((4, 2), np.float32), "columns of the first"),
        (lambda x: F.cat([x, x[:, :, :2]], dim=1), "differ in more than axis 1"),
        (lambda x: x.split([2, 2], dim=0), "do not make up axis 0"),
        (lambda x: F.einsum("nij,njk->iz", x, x.T), "must name axes of the operands"),
        (lambda x: F.einsum("nij,njk", x), "does not name 1 operand"),
        (lambda x: x + "a", "is not a tensor"),
        (lambda x: x.frobnicate(), "no 'frobnicate'"),
        (lambda x: x.gelu(), "nn.functional.gelu"),
        (lambda x: x * nn.Parameter(CHANNELS), "no module of the network holds"),
        (lambda x: F.clamp(x), "neither min nor max"),
        (lambda x: x.expand(-1, 4, 6), "cannot be repeated"),
        (lambda x: F.norm(x, "nuc"), r"norm: p is 'nuc'\. Pass a number, such as 1, 2 or float\('inf'\)"),
        (lambda x: F.norm(x, float("nan")), "norm: p is nan"),
        (lambda x: x.norm(True), "norm: p is True"),
        (lambda x: F.softmax(x.sum(), 1), "softmax: dim is 1, but .* has no axes"),
    ],
)
def test_what_cannot_be_expressed(body: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError, IndexError, AttributeError), match=message):
        Expressed(body, [])(X)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, s: F.batch_norm(x, s, s, eps=-1), r"batch_norm: eps is -1\. It must not be negative"),
        (
            lambda x, s: F.batch_norm(x, s, s, momentum=2.0),
            r"batch_norm: momentum is 2\.0\. It must be between 0 and 1",
        ),
        (lambda x, s: F.instance_norm(x, momentum=None), "instance_norm: momentum must be a number, not NoneType"),
        (lambda x, s: F.group_norm(x, 2, eps="x"), "group_norm: eps must be a number, not 'x'"),
        (lambda x, s: F.layer_norm(x, ()), "layer_norm: normalized_shape is empty"),
        (lambda x, s: F.layer_norm(x, "x"), "layer_norm: normalized_shape is 'x'. Pass an integer of at least 1"),
        (lambda x, s: F.rms_norm(x, 3, eps=-1), r"rms_norm: eps is -1\. It must not be negative"),
        (lambda x, s: F.rms_norm(x, 3, 1), r"rms_norm: weight has shape \(\), but \(3,\) is needed"),
    ],
)
def test_normalizations_check_their_arguments(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call(np.ones((2, 2, 3), np.float32), np.ones(2, np.float32))
