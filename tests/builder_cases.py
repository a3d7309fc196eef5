"""Every operation of the builder of graphs once or more, with its result in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from openbnns.interop.coreml.builder import EPSILON

X = np.random.default_rng(0).uniform(-2, 2, (2, 3, 5)).astype(np.float32)

Y = np.random.default_rng(1).uniform(0.5, 2, (2, 3, 5)).astype(np.float32)

POSITIVE = {"acosh": Y + 1, "log": Y, "sqrt": Y, "rsqrt": Y, "reciprocal": Y, "log_sum": Y}

INSIDE = {"acos", "asin", "atanh"}

erf = np.vectorize(math.erf, otypes=[np.float32])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


Case = tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]

UNARY: dict[str, Case] = {
    **{
        name: (lambda t, name=name: getattr(t, name)(), getattr(np, numpy))  # type: ignore[misc]
        for name, numpy in {
            "abs": "abs", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
            "atanh": "arctanh", "ceil": "ceil", "cos": "cos", "cosh": "cosh", "exp": "exp", "exp2": "exp2",
            "floor": "floor", "round": "round", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
        }.items()
    },
    "erf": (lambda t: t.erf(), erf),
    "log": (lambda t: t.log(), lambda x: np.log(x + EPSILON)),
    "reciprocal": (lambda t: t.reciprocal(), lambda x: 1 / (x + EPSILON)),
    "rsqrt": (lambda t: t.rsqrt(epsilon=0.5), lambda x: 1 / np.sqrt(x + 0.5)),
    "clip": (lambda t: t.clip(to=(-1, 0.5)), lambda x: np.clip(x, -1, 0.5)),
    "threshold": (lambda t: t.threshold(to=0.25), lambda x: np.maximum(x, 0.25)),
    "cast": (lambda t: t.cast(to=np.int32), lambda x: x.astype(np.int32)),
    "cumulative_sum": (lambda t: t.cumulative_sum(axis=1), lambda x: x.cumsum(1)),
    "relu": (lambda t: t.relu(), lambda x: np.maximum(x, 0)),
    "relu6": (lambda t: (t * 5).relu6(), lambda x: np.clip(x * 5, 0, 6)),
    "leaky_relu": (lambda t: t.leaky_relu(alpha=0.1), lambda x: np.where(x > 0, x, 0.1 * x)),
    "clamped_relu": (
        lambda t: t.clamped_relu(alpha=0.1, beta=1),
        lambda x: np.minimum(1, np.where(x >= 0, x, 0.1 * x)),
    ),
    "thresholded_relu": (lambda t: t.thresholded_relu(alpha=0.5), lambda x: np.where(x >= 0.5, x, 0)),
    "elu": (lambda t: t.elu(alpha=0.7), lambda x: np.where(x > 0, x, 0.7 * np.expm1(x))),
    "prelu": (
        lambda t: t.prelu(alpha=[0.1, 0.2, 0.3]),
        lambda x: np.where(x > 0, x, x * np.float32([0.1, 0.2, 0.3])[:, None]),
    ),
    "sigmoid": (lambda t: t.sigmoid(), sigmoid),
    "hard_sigmoid": (lambda t: t.hard_sigmoid(alpha=0.4, beta=0.3), lambda x: np.clip(0.4 * x + 0.3, 0, 1)),
    "hard_swish": (lambda t: t.hard_swish(), lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "silu": (lambda t: t.silu(), lambda x: x * sigmoid(x)),
    "softplus": (lambda t: t.softplus(alpha=2), lambda x: 2 * np.log1p(np.exp(x))),
    "softsign": (lambda t: t.softsign(), lambda x: x / (1 + np.abs(x))),
    "scaled_tanh": (lambda t: t.scaled_tanh(alpha=1.5, beta=0.5), lambda x: 1.5 * np.tanh(0.5 * x)),
    "gelu": (lambda t: t.gelu(), lambda x: x * (1 + erf(x / math.sqrt(2))) / 2),
    "gelu_tanh_approximation": (
        lambda t: t.gelu_tanh_approximation(),
        lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "gelu_sigmoid_approximation": (lambda t: t.gelu_sigmoid_approximation(), lambda x: x * sigmoid(1.702 * x)),
    "softmax": (lambda t: t.softmax(axis=-1), softmax),
    "log_softmax": (lambda t: t.log_softmax(axis=-1), lambda x: np.log(softmax(x))),
    "sum": (lambda t: t.sum(axes=[1], keep_dimensions=True), lambda x: x.sum(1, keepdims=True)),
    "mean": (lambda t: t.mean(axes=[0, 2], keep_dimensions=False), lambda x: x.mean((0, 2))),
    "product": (lambda t: t.product(axes=[2], keep_dimensions=False), lambda x: x.prod(2)),
    "minimum": (lambda t: t.minimum(axes=[2], keep_dimensions=False), lambda x: x.min(2)),
    "maximum": (lambda t: t.maximum(axes=[2], keep_dimensions=False), lambda x: x.max(2)),
    "l1_norm": (lambda t: t.l1_norm(axes=[1], keep_dimensions=False), lambda x: np.abs(x).sum(1)),
    "l2_norm": (lambda t: t.l2_norm(axes=[1], keep_dimensions=False), lambda x: np.sqrt((x * x).sum(1))),
    "log_sum": (lambda t: t.log_sum(axes=[1], keep_dimensions=False), lambda x: np.log(x.sum(1))),
    "log_sum_exp": (lambda t: t.log_sum_exp(axes=[1], keep_dimensions=False), lambda x: np.log(np.exp(x).sum(1))),
    "sum_of_squares": (lambda t: t.sum_of_squares(axes=[1], keep_dimensions=False), lambda x: (x * x).sum(1)),
    "arg_max": (lambda t: t.arg_max(axis=2, keep_dimension=False), lambda x: x.argmax(2)),
    "arg_min": (lambda t: t.arg_min(axis=2, keep_dimension=True), lambda x: x.argmin(2)[..., None]),
    "arg_sort": (lambda t: t.arg_sort(axis=2, sort_order="ascending"), lambda x: x.argsort(2)),
    "top_k": (lambda t: t.top_k(2, axis=2, find_largest=True)[0], lambda x: -np.sort(-x, 2)[..., :2]),
    "gather": (lambda t: t.gather(indices=[2, 0], axis=1), lambda x: x[:, [2, 0]]),
    "gather_along_axis": (
        lambda t: t.gather_along_axis(indices=np.zeros((2, 1, 5), np.int32) + 1, axis=1),
        lambda x: x[:, 1:2],
    ),
    "gather_nd": (lambda t: t.gather_nd(indices=[[0, 1], [1, 2]]), lambda x: x[[0, 1], [1, 2]]),
    "scatter": (
        lambda t: t.scatter(updates=np.ones((2, 1, 5)), indices=[1], mode="update", axis=1),
        lambda x: np.concatenate([x[:, :1], np.ones((2, 1, 5)), x[:, 2:]], 1),
    ),
    "scatter_along_axis": (
        lambda t: t.scatter_along_axis(updates=np.ones((2, 1, 5)), indices=np.ones((2, 1, 5)), mode="add", axis=1),
        lambda x: x + np.float32([0, 1, 0])[:, None],
    ),
    "scatter_nd": (
        lambda t: t.scatter_nd(updates=np.ones((1, 3, 5)), indices=[[1]], mode="multiply"),
        lambda x: x,
    ),
    "reshape": (lambda t: t.reshape(to=[5, -1]), lambda x: x.reshape(5, -1)),
    "transpose": (lambda t: t.transpose(axes=[2, 0, 1]), lambda x: x.transpose(2, 0, 1)),
    "squeeze": (lambda t: t[:1].squeeze(axis=0), lambda x: x[0]),
    "unsqueeze": (lambda t: t.unsqueeze(axis=1), lambda x: x[:, None]),
    "tensor_shape": (lambda t: t.tensor_shape(), lambda x: np.array(x.shape)),
    "pad": (lambda t: t.pad(7.0, padding=[0, 0, 1, 0, 0, 2]), lambda x: np.pad(x, ((0, 0), (1, 0), (0, 2)), constant_values=7)),
    "pad reflection": (
        lambda t: t.pad("reflection", padding=[0, 0, 0, 0, 2, 1]),
        lambda x: np.pad(x, ((0, 0), (0, 0), (2, 1)), "reflect"),
    ),
    "slice": (lambda t: t[1, ::2, -3:], lambda x: x[1, ::2, -3:]),
    "index from the end": (lambda t: t[..., -1], lambda x: x[..., -1]),
    "linear": (lambda t: t.linear(weight=Y[0], bias=[1, 2, 3]), lambda x: x @ Y[0].T + np.float32([1, 2, 3])),
    "matmul": (
        lambda t: t.matmul(other=Y, transpose_other=True, bias=1),
        lambda x: x @ Y.transpose(0, 2, 1) + 1,
    ),
    "fma": (lambda t: t.fma(y=Y, z=2), lambda x: x * Y + 2),
    "max": (lambda t: t.max(y=0.5), lambda x: np.maximum(x, 0.5)),
    "min": (lambda t: t.min(y=Y), lambda x: np.minimum(x, Y)),
    "pow": (lambda t: t.abs().pow(y=Y), lambda x: np.abs(x) ** Y),
    "arithmetic": (lambda t: 2 - (1 + t) * Y / (t * t + 1) - 3 * t, lambda x: 2 - (1 + x) * Y / (x * x + 1) - 3 * x),
    "quotient": (lambda t: 1 / (t * t + 1) - [1, 2, 3, 4, 5], lambda x: 1 / (x * x + 1) - np.arange(1, 6)),
    "mod": (lambda t: t.abs() % 0.75, lambda x: np.abs(x) % np.float32(0.75)),
    "comparisons": (
        lambda t: ((t < 0) | (t >= 1)) ^ ((t > -1) & ~(t <= -1.5)),
        lambda x: ((x < 0) | (x >= 1)) ^ ((x > -1) & ~(x <= -1.5)),
    ),
    "equality": (lambda t: (t.round() == 0) & (t.ceil() != 1), lambda x: (np.round(x) == 0) & (np.ceil(x) != 1)),
    "batch_norm": (
        lambda t: t.batch_norm(mean=[1, 2, 3], variance=[4, 5, 6], weight=[1, 2, 3], bias=[0, 1, 0], epsilon=1e-3),
        lambda x: (
            (x - np.float32([1, 2, 3])[:, None]) / np.sqrt(np.float32([4, 5, 6]) + 1e-3)[:, None] * np.float32([1, 2, 3])[:, None]
            + np.float32([0, 1, 0])[:, None]
        ),
    ),
    "instance_norm": (
        lambda t: t.instance_norm(epsilon=1e-3),
        lambda x: (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + 1e-3),
    ),
    "layer_norm": (
        lambda t: t.layer_norm(weight=[1, 2, 3, 4, 5], bias=[1, 1, 1, 1, 1], axes=[2], epsilon=1e-3),
        lambda x: (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + 1e-3) * np.arange(1, 6) + 1,
    ),
    "channel_norm": (
        lambda t: t.channel_norm(weight=[1, 2, 3], bias=[1, 0, 1], epsilon=1e-3),
        lambda x: (
            (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-3) * np.float32([1, 2, 3])[:, None]
            + np.float32([1, 0, 1])[:, None]
        ),
    ),
    "rms_norm": (
        lambda t: t.rms_norm(scale=[1, 2, 3, 4, 5], epsilon=1e-3),
        lambda x: x / np.sqrt((x * x).mean(2, keepdims=True) + 1e-3) * np.arange(1, 6),
    ),
    "l2_norm of all": (
        lambda t: t.l2_norm(epsilon=1e-3),
        lambda x: x / np.sqrt((x * x).sum(keepdims=True) + 1e-3),
    ),
    "pooling": (
        lambda t: t.pooling("max", kernel_size=[3], strides=[2]),
        lambda x: np.stack([x[..., 0:3].max(-1), x[..., 2:5].max(-1)], -1),
    ),
    "average": (
        lambda t: t.pooling("average", kernel_size=[2], strides=[2], padding=[1, 0], include_padding=False),
        lambda x: np.stack([x[..., 0], x[..., 1:3].mean(-1), x[..., 3:5].mean(-1)], -1),
    ),
    "conv": (
        lambda t: t.conv(weight=Y[:, :, :1], strides=[2], bias=[1, 2], padding="valid"),
        lambda x: np.einsum("ncl,oc->nol", x, Y[:, :, 0])[..., ::2] + np.float32([1, 2])[:, None],
    ),
    "conv_transpose": (
        lambda t: t.conv_transpose(weight=Y[0, :, None, :1], strides=[1], output_padding_values=[0]),
        lambda x: np.einsum("ncl,co->nol", x, Y[0, :, :1]),
    ),
}  # fmt: skip

CASES = [(name, (2, 3, 5)) for name in UNARY]
