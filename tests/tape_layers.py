"""Functions, layers, losses and optimizers on the tensors of ``tape.py``, each written from its formula.

Functions have PyTorch's names and arguments. Layers get their parameters by PyTorch's names, their options and whether they
are in training mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tape import Array, Tensor, cat, elementwise, placed, tensor

__all__ = ["LAYERS", "LOSSES", "OPTIMIZERS", "Layer", "cat"]

# Elementwise functions.


def exp(x: Tensor) -> Tensor:
    y = np.exp(x.data)
    return elementwise(x, y, y)


def log(x: Tensor) -> Tensor:
    return elementwise(x, np.log(x.data), 1 / x.data)


def sqrt(x: Tensor) -> Tensor:
    return x**0.5


def square(x: Tensor) -> Tensor:
    return x * x


def sin(x: Tensor) -> Tensor:
    return elementwise(x, np.sin(x.data), np.cos(x.data))


def cos(x: Tensor) -> Tensor:
    return elementwise(x, np.cos(x.data), -np.sin(x.data))


def tanh(x: Tensor) -> Tensor:
    y = np.tanh(x.data)
    return elementwise(x, y, 1 - y * y)


def sigmoid(x: Tensor) -> Tensor:
    return (tanh(x * 0.5) + 1.0) * 0.5


def piecewise(x: Tensor, ends: Sequence[float], parts: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
    """The first function up to the first end, and so on; at an end the derivative is that of the part before it."""
    which = np.searchsorted(ends, x.data)
    total = tensor(np.zeros(x.shape))
    for i, part in enumerate(parts):
        inside = which == i
        # Other elements take the place of an end, so that no part sees what it is not for.
        total = total + part(where(inside, x, tensor(ends[min(i, len(ends) - 1)]))) * inside
    total.kink = min(total.kink, *(_least(np.abs(x.data - end)) for end in ends))
    return total


def _least(distances: Array) -> float:
    """The smallest distance that is not zero: who is right at a kink stays there."""
    apart = distances[distances > 0]
    return float(apart.min()) if apart.size else np.inf


def _zero(x: Tensor) -> Tensor:
    return x * 0.0


def relu(x: Tensor) -> Tensor:
    return piecewise(x, [0.0], [_zero, lambda x: x])


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    return piecewise(x, [0.0], [lambda x: x * negative_slope, lambda x: x])


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    return piecewise(x, [0.0], [lambda x: (exp(x) - 1.0) * alpha, lambda x: x])


def hardtanh(x: Tensor) -> Tensor:
    return piecewise(x, [-1.0, 1.0], [lambda x: _zero(x) - 1.0, lambda x: x, lambda x: _zero(x) + 1.0])


def relu6(x: Tensor) -> Tensor:
    return piecewise(x, [0.0, 6.0], [_zero, lambda x: x, lambda x: _zero(x) + 6.0])


def hardsigmoid(x: Tensor) -> Tensor:
    return piecewise(x, [-3.0, 3.0], [_zero, lambda x: x * (1 / 6) + 0.5, lambda x: _zero(x) + 1.0])


def hardswish(x: Tensor) -> Tensor:
    return x * hardsigmoid(x)


def softshrink(x: Tensor) -> Tensor:
    return piecewise(x, [-0.5, 0.5], [lambda x: x + 0.5, _zero, lambda x: x - 0.5])


def abs(x: Tensor) -> Tensor:
    return relu(x) + relu(-x)


def silu(x: Tensor) -> Tensor:
    return x * sigmoid(x)


def softplus(x: Tensor) -> Tensor:
    s = np.tanh(x.data / 2) / 2 + 0.5
    return elementwise(x, np.logaddexp(0, x.data), s)


def logsigmoid(x: Tensor) -> Tensor:
    return -softplus(-x)


def mish(x: Tensor) -> Tensor:
    return x * tanh(softplus(x))


def softsign(x: Tensor) -> Tensor:
    return elementwise(x, x.data / (1 + np.abs(x.data)), (1 + np.abs(x.data)) ** -2)


def gelu(x: Tensor) -> Tensor:
    cdf = np.vectorize(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)), otypes=[float])(x.data)
    return elementwise(x, x.data * cdf, cdf + x.data * np.exp(-x.data * x.data / 2) / math.sqrt(2 * math.pi))


# Functions of several elements or tensors.


def where(mask: Any, a: Any, b: Any) -> Tensor:
    chosen = mask if isinstance(mask, Tensor) else Tensor(np.asarray(mask, np.float64))
    return tensor(a) * chosen + tensor(b) * (1 - chosen)


def maximum(a: Tensor, b: Tensor) -> Tensor:
    """Where both are equal, each has half of the gradient, as in PyTorch; ``nn`` gives it to the first: that is a kink."""
    result = stack([a, b], 0).amax(0)
    result.kink = min(result.kink, float(np.abs(a.data - b.data).min()))
    return result


def minimum(a: Tensor, b: Tensor) -> Tensor:
    return -maximum(-a, -b)


def stack(parts: Sequence[Tensor], dim: int) -> Tensor:
    return cat([part.unsqueeze(dim) for part in parts], dim)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


def logsumexp(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    top = x.data.max(dim, keepdims=True)
    kept = log(exp(x - top).sum(dim, True)) + top
    return kept if keepdim else kept.squeeze(dim)


def log_softmax(x: Tensor, dim: int) -> Tensor:
    return x - logsumexp(x, dim, True)


def softmax(x: Tensor, dim: int) -> Tensor:
    return exp(log_softmax(x, dim))


def pad(x: Tensor, sizes: Sequence[int], value: float = 0.0) -> Tensor:
    """PyTorch's order: both ends of the last axis first."""
    shape, key = list(x.shape), [slice(None)] * x.ndim
    for i in range(len(sizes) // 2):
        axis, before = x.ndim - 1 - i, sizes[2 * i]
        key[axis] = slice(before, before + x.shape[axis])
        shape[axis] += before + sizes[2 * i + 1]
    return placed(x, shape, tuple(key), value)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    y = x @ weight.transpose(0, 1)
    return y if bias is None else y + bias


def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
    if is_causal:
        scores = scores + np.triu(np.full(scores.shape[-2:], -1e30), 1)
    return softmax(scores, -1) @ v


# Layers.

Parameters = dict[str, Tensor]
Layer = Callable[..., Tensor]


def _linear(p: Parameters, o: dict[str, Any], x: Tensor, training: bool) -> Tensor:
    return linear(x, p["weight"], p.get("bias"))


def _windows(x: Tensor, kernel: Sequence[int], stride: Sequence[int]) -> Tensor:
    """(N, C, H, W) to (N, C, output rows, output columns, kernel rows, kernel columns)."""
    rows, columns = (
        np.arange((size - k) // s + 1)[:, None] * s + np.arange(k)
        for size, k, s in zip(x.shape[2:], kernel, stride, strict=True)
    )
    return x[:, :, rows[:, None, :, None], columns[None, :, None, :]]


def _convolution(x: Tensor, weight: Tensor, stride: Sequence[int], groups: int) -> Tensor:
    """Without padding; weight (O, C / groups, kernel rows, kernel columns)."""
    outputs, _, *kernel = weight.shape
    windows = _windows(x, kernel, stride)
    samples, _, rows, columns, *_ = windows.shape
    taken = windows.reshape(samples, groups, x.shape[1] // groups, rows, columns, *kernel)
    matrix = taken.permute(0, 1, 3, 4, 2, 5, 6).reshape(samples, groups, rows * columns, -1)
    weights = weight.reshape(1, groups, outputs // groups, -1).transpose(2, 3)
    y = (matrix @ weights).transpose(2, 3)
    return y.reshape(samples, outputs, rows, columns)


def _convolution2d(p: Parameters, o: dict[str, Any], x: Tensor, training: bool) -> Tensor:
    edge = o.get("padding", 0)
    stride = o.get("stride", 1)
    y = _convolution(pad(x, [edge] * 4), p["weight"], (stride, stride), o.get("groups", 1))
    return y + p["bias"].reshape(1, -1, 1, 1) if "bias" in p else y


def _convolution1d(p: Parameters, o: dict[str, Any], x: Tensor, training: bool) -> Tensor:
    edge = o.get("padding", 0)
    x = pad(x, [edge] * 2).unsqueeze(2)
    y = _convolution(x, p["weight"].unsqueeze(2), (1, o.get("stride", 1)), o.get("groups", 1)).squeeze(2)
    return y + p["bias"].reshape(1, -1, 1) if "bias" in p else y


def _transposed2d(p: Parameters, o: dict[str, Any], x: Tensor, training: bool) -> Tensor:
    """A convolution of the input with zeros between its elements, by weights (C, O, rows, columns) turned around."""
    stride, edge, kernel = o.get("stride", 1), o.get("padding", 0), p["weight"].shape[2]
    sizes = [(n - 1) * stride + 1 for n in x.shape[2:]]
    spread = placed(x, (*x.shape[:2], *sizes), (..., slice(None, None, stride), slice(None, None, stride)))
    turned = p["weight"].flip(2, 3).transpose(0, 1)
    y = _convolution(pad(spread, [kernel - 1] * 4), turned, (1, 1), 1)
    y = y[:, :, edge : y.shape[2] - edge, edge : y.shape[3] - edge]
    return y + p["bias"].reshape(1, -1, 1, 1) if "bias" in p else y


def _max_pool2d(p: Parameters, o: dict[str, Any], x: Tensor, training: bool) -> Tensor:
    """The maximum; the first of equally large elements has the gradient."""
    kernel, stride, edge = o["kernel_size"], o.get("stride", o["kernel_size"]), o.get("padding", 0)
    windows = _windows(pad(x, [edge] * 4, -1e30), (kernel, kernel), (stride, stride)).flatten(4)
    first = np.expand_dims(windows.data.argmax(4), 4)
    result = Tensor(
        np.take_along_axis(windows.data, first, 4).squeeze(4),
        [(windows, lambda dy: np.expand_dims(dy, 4) * (np.arange(windows.shape[4]) == first))],
    )
    result.kink = min(result.kink, windows.detach().amax(4).kink)
    return result


def _average_pool2d(p: Parameters, o: dict[str, Any], x: Tensor, training: bool) -> Tensor:
    kernel, stride, edge = o["kernel_size"], o.get("stride", o["kernel_size"]), o.get("padding", 0)
    return _windows(pad(x, [edge] * 4), (kernel, kernel), (stride, stride)).mean((4, 5))


def _normalized(x: Tensor, dim: Sequence[int], eps: float) -> Tensor:
    return (x - x.mean(dim, True)) / sqrt(x.var(dim, 0, True) + eps)


def _scaled(x: Tensor, p: Parameters, shape: Sequence[int]) -> Tensor:
    if "weight" in p:
        x = x * p["weight"].reshape(*shape)
    return x + p["bias"].reshape(*shape) if "bias" in p else x


def _batch_norm(p: Parameters, o: dict[str, Any], x: Tensor, training: bool, statistics: dict[str, Array]) -> Tensor:
    """In training mode ``statistics`` are moved, by the biased variance, as BNNS has it."""
    axes, shape = [axis for axis in range(x.ndim) if axis != 1], (1, -1, *[1] * (x.ndim - 2))
    if training:
        mean, var, momentum = x.data.mean(tuple(axes)), x.data.var(tuple(axes)), o.get("momentum", 0.1)
        for name, new in (("running_mean", mean), ("running_var", var)):
            statistics[name] = (1 - momentum) * statistics[name] + momentum * new
        y = _normalized(x, axes, o["eps"])
    else:
        mean, var = (statistics[name].reshape(shape) for name in ("running_mean", "running_var"))
        y = (x - mean) * (var + o["eps"]) ** -0.5
    return _scaled(y, p, shape)


def _layer_norm(p: Parameters, o: dict[str, Any], x: Tensor, training: bool) -> Tensor:
    shape = o["normalized_shape"]
    return _scaled(_normalized(x, range(-len(shape), 0), o["eps"]), p, shape)


def _group_norm(p: Parameters, o: dict[str, Any], x: Tensor, training: bool) -> Tensor:
    groups = x.reshape(x.shape[0], o["num_groups"], -1)
    return _scaled(_normalized(groups, [2], o["eps"]).reshape(*x.shape), p, (1, -1, *[1] * (x.ndim - 2)))


def _rms_norm(p: Parameters, o: dict[str, Any], x: Tensor, training: bool) -> Tensor:
    return _scaled(x / sqrt(square(x).mean(-1, True) + o["eps"]), p, o["normalized_shape"])


def _prelu(p: Parameters, o: dict[str, Any], x: Tensor, training: bool) -> Tensor:
    slope = p["weight"]
    return relu(x) - relu(-x) * (slope if slope.shape == (1,) else slope.reshape(1, -1, *[1] * (x.ndim - 2)))


def _attention(p: Parameters, o: dict[str, Any], x: Tensor, training: bool) -> Tensor:
    """Self-attention."""
    samples, length, width = x.shape
    heads = [
        part.reshape(samples, length, o["num_heads"], -1).transpose(1, 2)
        for part in linear(x, p["in_proj_weight"], p.get("in_proj_bias")).chunk(3, -1)
    ]
    y = scaled_dot_product_attention(*heads).transpose(1, 2).reshape(samples, length, width)
    return linear(y, p["out_proj.weight"], p.get("out_proj.bias"))


def _recurrent(cell: Callable[..., list[Tensor]], states: int) -> Layer:
    def run(p: Parameters, o: dict[str, Any], x: Tensor, training: bool) -> Tensor:
        """All hidden states, (N, T, H)."""
        state = [tensor(np.zeros((x.shape[0], o["hidden_size"])))] * states
        outputs = []
        for t in range(x.shape[1]):
            from_input = linear(x[:, t], p["weight_ih_l0"], p["bias_ih_l0"])
            state = cell(from_input, linear(state[0], p["weight_hh_l0"], p["bias_hh_l0"]), *state)
            outputs.append(state[0])
        return stack(outputs, 1)

    return run


def _lstm(a: Tensor, b: Tensor, h: Tensor, c: Tensor) -> list[Tensor]:
    i, f, g, o = (a + b).chunk(4, 1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return [sigmoid(o) * tanh(c), c]


def _gru(a: Tensor, b: Tensor, h: Tensor) -> list[Tensor]:
    (ra, za, na), (rb, zb, nb) = a.chunk(3, 1), b.chunk(3, 1)
    z, n = sigmoid(za + zb), tanh(na + sigmoid(ra + rb) * nb)
    return [(1.0 - z) * n + z * h]


def _rnn(a: Tensor, b: Tensor, h: Tensor) -> list[Tensor]:
    return [tanh(a + b)]


def _embedding(p: Parameters, o: dict[str, Any], x: Tensor, training: bool) -> Tensor:
    return p["weight"][x.data.astype(np.int64)]


def _dropout(p: Parameters, o: dict[str, Any], x: Tensor, training: bool) -> Tensor:
    assert not training or o["p"] == 0.0  # what is drawn is not comparable
    return x


LAYERS: dict[str, Layer] = {
    "Linear": _linear, "Conv2d": _convolution2d, "Conv1d": _convolution1d, "ConvTranspose2d": _transposed2d,
    "MaxPool2d": _max_pool2d, "AvgPool2d": _average_pool2d, "BatchNorm1d": _batch_norm, "BatchNorm2d": _batch_norm,
    "LayerNorm": _layer_norm, "GroupNorm": _group_norm, "RMSNorm": _rms_norm, "PReLU": _prelu,
    "MultiheadAttention": _attention, "LSTM": _recurrent(_lstm, 2), "GRU": _recurrent(_gru, 1), "RNN": _recurrent(_rnn, 1),
    "Embedding": _embedding, "Dropout": _dropout,
}  # fmt: skip


# Losses: elements first, and then their reduction.


def _cross_entropy(y: Tensor, target: Array, label_smoothing: float = 0.0) -> Tensor:
    logs = log_softmax(y, 1)
    classes = y.shape[1]
    one_hot = np.moveaxis(np.eye(classes)[target], -1, 1)
    return (logs * -(one_hot * (1 - label_smoothing) + label_smoothing / classes)).sum(1)


def _nll(y: Tensor, target: Array) -> Tensor:
    return (y * -np.moveaxis(np.eye(y.shape[1])[target], -1, 1)).sum(1)


def _smooth(y: Tensor, target: Array, beta: float) -> Tensor:
    d = y - target
    return piecewise(abs(d), [beta], [lambda x: x * x * (0.5 / beta), lambda x: x - 0.5 * beta])


LOSSES: dict[str, Callable[..., Tensor]] = {
    "MSELoss": lambda y, t: square(y - t),
    "L1Loss": lambda y, t: abs(y - t),
    "SmoothL1Loss": lambda y, t, beta: _smooth(y, t, beta),
    "HuberLoss": lambda y, t, delta: _smooth(y, t, delta) * delta,
    "BCEWithLogitsLoss": lambda y, t: softplus(y) - y * t,
    "BCELoss": lambda y, t: -(log(y) * t + log(1.0 - y) * (1 - t)),
    "KLDivLoss": lambda y, t: (np.log(t) - y) * t,
    "HingeEmbeddingLoss": lambda y, t, margin: where(t > 0, y, relu(margin - y)),
    "CrossEntropyLoss": _cross_entropy,
    "NLLLoss": _nll,
}


# Optimizers: a step for one parameter, from its gradient g, its state s and the number t of the step.

State = dict[str, Array]


def _sgd(w: Array, g: Array, s: State, t: int, o: dict[str, Any]) -> Array:
    g = g + o.get("weight_decay", 0.0) * w
    momentum = o.get("momentum", 0.0)
    s["v"] = g if t == 1 else momentum * s["v"] + g
    return w - o["lr"] * (g + momentum * s["v"] if o.get("nesterov") else s["v"])


def _adam(w: Array, g: Array, s: State, t: int, o: dict[str, Any]) -> Array:
    g = g + o.get("weight_decay", 0.0) * w
    one, two = 0.9, 0.999
    s["m"] = one * s.get("m", 0 * w) + (1 - one) * g
    s["v"] = two * s.get("v", 0 * w) + (1 - two) * g * g
    v = s["v"]
    if o.get("amsgrad"):
        v = s["top"] = np.maximum(s.get("top", 0 * w), v)
    return w - o["lr"] * (s["m"] / (1 - one**t)) / (np.sqrt(v / (1 - two**t)) + o["eps"])


def _adamw(w: Array, g: Array, s: State, t: int, o: dict[str, Any]) -> Array:
    return _adam(w - o["lr"] * o["weight_decay"] * w, g, s, t, {**o, "weight_decay": 0.0})


def _rmsprop(w: Array, g: Array, s: State, t: int, o: dict[str, Any]) -> Array:
    g = g + o.get("weight_decay", 0.0) * w
    s["v"] = 0.99 * s.get("v", 0 * w) + 0.01 * g * g
    average = s["v"]
    if o.get("centered"):
        s["g"] = 0.99 * s.get("g", 0 * w) + 0.01 * g
        average = average - s["g"] ** 2
    s["b"] = o.get("momentum", 0.0) * s.get("b", 0 * w) + g / (np.sqrt(average) + o["eps"])
    return w - o["lr"] * s["b"]


def _adagrad(w: Array, g: Array, s: State, t: int, o: dict[str, Any]) -> Array:
    g = g + o.get("weight_decay", 0.0) * w
    s["v"] = s.get("v", 0 * w) + g * g
    return w - o["lr"] * g / (np.sqrt(s["v"]) + o["eps"])


def _adamax(w: Array, g: Array, s: State, t: int, o: dict[str, Any]) -> Array:
    g = g + o.get("weight_decay", 0.0) * w
    s["m"] = 0.9 * s.get("m", 0 * w) + 0.1 * g
    s["u"] = np.maximum(0.999 * s.get("u", 0 * w), np.abs(g) + o["eps"])
    return w - o["lr"] / (1 - 0.9**t) * s["m"] / s["u"]


OPTIMIZERS: dict[str, Callable[..., Array]] = {
    "SGD": _sgd, "Adam": _adam, "AdamW": _adamw, "RMSprop": _rmsprop, "Adagrad": _adagrad, "Adamax": _adamax,
}  # fmt: skip
