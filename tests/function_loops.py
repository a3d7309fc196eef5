"""Functions of ``nn.functional`` in float64 NumPy, most of them loops; nothing of them comes from the product."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Array = Any
_erf, _erfc = np.vectorize(math.erf, otypes=[float]), np.vectorize(math.erfc, otypes=[float])


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    return np.where(beta * x > threshold, x, np.log1p(np.exp(np.minimum(beta * x, threshold))) / beta)


def _softmax(x: Array, dim: int) -> Array:
    e = np.exp(x - x.max(dim, keepdims=True)) if x.ndim else np.ones(())
    return e / e.sum(dim, keepdims=True) if x.ndim else e


def _gelu(x: Array, approximate: str = "none") -> Array:
    if approximate == "tanh":
        return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
    return x * (1 + _erf(x / math.sqrt(2))) / 2


def _mask(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *x: function(*x).astype(np.float64)


ELEMENTWISE: dict[str, Callable[..., Array]] = {
    "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atan2": np.arctan2, "atanh": np.arctanh, "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh, "div": np.true_divide,
    "erf": _erf, "erfc": _erfc, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "floor": np.floor,
    "floor_divide": np.floor_divide, "fmod": np.fmod, "hypot": np.hypot, "log": np.log, "log10": np.log10,
    "log1p": np.log1p, "log2": np.log2, "logaddexp": np.logaddexp, "maximum": np.maximum, "minimum": np.minimum,
    "mul": np.multiply, "neg": np.negative, "pow": np.power, "reciprocal": np.reciprocal, "remainder": np.remainder,
    "round": np.round, "sign": np.sign, "sin": np.sin, "sinc": np.sinc, "sinh": np.sinh, "sqrt": np.sqrt, "square": np.square,
    "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc, "where": np.where,
    "eq": _mask(np.equal), "ge": _mask(np.greater_equal), "gt": _mask(np.greater), "isfinite": _mask(np.isfinite),
    "isinf": _mask(np.isinf), "isnan": _mask(np.isnan), "le": _mask(np.less_equal), "logical_and": _mask(np.logical_and),
    "logical_not": _mask(np.logical_not), "logical_or": _mask(np.logical_or), "logical_xor": _mask(np.logical_xor),
    "lt": _mask(np.less), "ne": _mask(np.not_equal),
    "add": lambda a, b, alpha=1: a + alpha * b,
    "sub": lambda a, b, alpha=1: a - alpha * b,
    "addcmul": lambda x, a, b, value=1: x + value * a * b,
    "celu": lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
    "clamp": lambda x, min=None, max=None: np.clip(x, min, max),
    "clamp_max": np.minimum,
    "clamp_min": np.maximum,
    "elu": lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x)),
    "frac": lambda x: x - np.trunc(x),
    "gelu": _gelu,
    "hardshrink": lambda x, at=0.5: np.where(np.abs(x) > at, x, 0),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "hardtanh": lambda x, low=-1.0, high=1.0: np.clip(x, low, high),
    "leaky_relu": lambda x, slope=0.01: np.where(x > 0, x, slope * x),
    "lerp": lambda a, b, w: a + w * (b - a),
    "logsigmoid": lambda x: -np.log1p(np.exp(-x)),
    "masked_fill": lambda x, mask, number: np.where(mask, number, x),
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "softplus": _softplus,
    "softshrink": lambda x, at=0.5: np.sign(x) * np.maximum(np.abs(x) - at, 0),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "tanhshrink": lambda x: x - np.tanh(x),
    "threshold": lambda x, at, number: np.where(x > at, x, number),
    "softmax": _softmax,
    "log_softmax": lambda x, dim: np.log(_softmax(x, dim)),
    "softmin": lambda x, dim: _softmax(-x, dim),
}  # fmt: skip


# Windows. Along each axis, window i begins at i * stride - padding.


def _each(given: Any, axes: int) -> tuple[int, ...]:
    return (given,) * axes if isinstance(given, int) else tuple(given)


def _cells(counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(range, counts))


def convolved(
    x: Array, w: Array, b: Array = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Array:
    axes, kernel = x.ndim - 2, w.shape[2:]
    s, d = _each(stride, axes), _each(dilation, axes)
    reach = [g * (k - 1) for g, k in zip(d, kernel, strict=True)]
    if padding == "same":
        edges = [(r // 2, r - r // 2) for r in reach]
    else:
        edges = [(p, p) for p in _each(0 if padding == "valid" else padding, axes)]
    x = np.pad(x, [(0, 0), (0, 0), *edges])
    counts = [(n - r - 1) // t + 1 for n, r, t in zip(x.shape[2:], reach, s, strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *counts))
    per, inner = w.shape[0] // groups, w.shape[1]
    for o in range(w.shape[0]):
        part = x[:, o // per * inner : (o // per + 1) * inner]
        for place in _cells(counts):
            for cell in _cells(kernel):
                at = tuple(i * t + c * g for i, t, c, g in zip(place, s, cell, d, strict=True))
                y[(slice(None), o, *place)] += part[(slice(None), slice(None), *at)] @ w[(o, slice(None), *cell)]
    return y if b is None else y + b.reshape(-1, *[1] * axes)


def transposed(
    x: Array, w: Array, b: Array = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1,
    dilation: Any = 1,
) -> Array:  # fmt: skip
    axes, kernel = x.ndim - 2, w.shape[2:]
    s, p, more, d = (_each(given, axes) for given in (stride, padding, output_padding, dilation))
    sizes = [(n - 1) * t + g * (k - 1) + 1 + m for n, t, g, k, m in zip(x.shape[2:], s, d, kernel, more, strict=True)]
    y, inner = np.zeros((x.shape[0], w.shape[1] * groups, *sizes)), x.shape[1] // groups
    for c in range(x.shape[1]):
        to = slice(c // inner * w.shape[1], (c // inner + 1) * w.shape[1])
        for place in _cells(x.shape[2:]):
            for cell in _cells(kernel):
                at = tuple(i * t + k * g for i, t, k, g in zip(place, s, cell, d, strict=True))
                y[(slice(None), to, *at)] += np.outer(x[(slice(None), c, *place)], w[(c, slice(None), *cell)])
    y = y[(..., *(slice(q, n - q) for q, n in zip(p, sizes, strict=True)))]
    return y if b is None else y + b.reshape(-1, *[1] * axes)


def _windows(
    x: Array, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> Iterator[tuple[Any, Any, int, int]]:
    """(place, the entries of its window, how many lie in the padded image, and their flat numbers there)."""
    axes = x.ndim - 2
    k, p, d = (_each(given, axes) for given in (kernel, padding, dilation))
    s = k if stride is None else _each(stride, axes)
    counts = []
    for n, a, b, c, e in zip(x.shape[2:], k, s, p, d, strict=True):
        room = n + 2 * c - e * (a - 1) - 1
        count = (-(-room // b) if ceil else room // b) + 1
        counts.append(count - 1 if ceil and (count - 1) * b >= n + c else count)  # none begins behind the image
    for place in _cells(counts):
        taken, padded = [], 0
        for cell in _cells(k):
            at = [i * b + a * e - c for i, b, a, e, c in zip(place, s, cell, d, p, strict=True)]
            padded += all(-c <= i < n + c for i, n, c in zip(at, x.shape[2:], p, strict=True))
            if all(0 <= i < n for i, n in zip(at, x.shape[2:], strict=True)):
                taken.append(at)
        yield place, taken, padded, math.prod(k)


def _gathered(x: Array, made: list[tuple[Any, Any]]) -> Array:
    """The results of all windows, each (samples, channels), in their places."""
    y = np.zeros((*x.shape[:2], *(i + 1 for i in made[-1][0])))
    for place, entries in made:
        y[(..., *place)] = entries
    return y


def _entries(x: Array, taken: Any) -> Array:
    return np.stack([x[(..., *at)] for at in taken], -1)


def max_pooled(
    x: Array, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, dilation: Any = 1,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    values, places = [], []
    for place, taken, _, _ in _windows(x, kernel_size, stride, padding, dilation, ceil_mode):
        inside = _entries(x, taken)
        values.append((place, inside.max(-1)))
        flat = np.array([np.ravel_multi_index(at, x.shape[2:]) for at in taken])
        places.append((place, flat[inside.argmax(-1)]))
    return (_gathered(x, values), _gathered(x, places)) if return_indices else _gathered(x, values)


def mean_pooled(
    x: Array, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:  # fmt: skip
    made = []
    for place, taken, padded, _ in _windows(x, kernel_size, stride, padding, 1, ceil_mode):
        made.append(
            (place, _entries(x, taken).sum(-1) / (divisor_override or (padded if count_include_pad else len(taken))))
        )
    return _gathered(x, made)


def lp_pooled(x: Array, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Array:
    """Windows that hang over are as if the others' mean filled them, which is what PyTorch computes."""
    made = []
    for place, taken, padded, whole in _windows(x, kernel_size, stride, 0, 1, ceil_mode):
        made.append((place, ((_entries(x, taken) ** norm_type).sum(-1) * whole / padded) ** (1 / norm_type)))
    return _gathered(x, made)


def adaptive(reduce: Callable[..., Array]) -> Callable[..., Array]:
    def pooled(x: Array, output_size: Any) -> Array:
        sizes = _each(output_size, x.ndim - 2)
        y = np.zeros((*x.shape[:2], *sizes))
        for place in _cells(sizes):
            part = tuple(
                slice(i * n // m, -(-(i + 1) * n // m)) for i, n, m in zip(place, x.shape[2:], sizes, strict=True)
            )
            y[(..., *place)] = reduce(x[(..., *part)], tuple(range(2, x.ndim)))
        return y

    return pooled


def unpooled(x: Array, indices: Array, kernel_size: int) -> Array:
    y = np.zeros((*x.shape[:2], *(n * kernel_size for n in x.shape[2:])))
    for n, c in _cells(x.shape[:2]):
        for place in _cells(x.shape[2:]):
            y[n, c].flat[indices[(n, c, *place)]] = x[(n, c, *place)]
    return y


def _patches(
    shape: Sequence[int], kernel: Any, dilation: Any, padding: Any, stride: Any
) -> Iterator[tuple[int, int, int, int]]:
    """(cell, window, row, column) of all windows of an image, in the padded one."""
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (_each(g, 2) for g in (kernel, dilation, padding, stride))
    rows, columns = (
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(shape, (kh, kw), (dh, dw), (ph, pw), (sh, sw), strict=True)
    )
    for i, j, k, l in _cells((kh, kw, rows, columns)):  # noqa: E741
        yield i * kw + j, k * columns + l, k * sh + i * dh, l * sw + j * dw


def unfolded(x: Array, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Array:
    ph, pw = _each(padding, 2)
    cells = list(_patches(x.shape[2:], kernel_size, dilation, padding, stride))
    y = np.zeros((*x.shape[:2], max(c[0] for c in cells) + 1, max(c[1] for c in cells) + 1))
    x = np.pad(x, [(0, 0), (0, 0), (ph, ph), (pw, pw)])
    for cell, window, row, column in cells:
        y[:, :, cell, window] = x[:, :, row, column]
    return y.reshape(y.shape[0], -1, y.shape[-1])


def folded(x: Array, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Array:
    (height, width), (ph, pw) = _each(output_size, 2), _each(padding, 2)
    x = x.reshape(x.shape[0], -1, math.prod(_each(kernel_size, 2)), x.shape[-1])
    y = np.zeros((*x.shape[:2], height + 2 * ph, width + 2 * pw))
    for cell, window, row, column in _patches((height, width), kernel_size, dilation, padding, stride):
        y[:, :, row, column] += x[:, :, cell, window]
    return y[:, :, ph : ph + height, pw : pw + width]


def response_normalized(x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Array:
    y = np.zeros_like(x)
    for c in range(x.shape[1]):
        near = x[:, max(0, c - size // 2) : c + (size - 1) // 2 + 1]
        y[:, c] = x[:, c] / (k + alpha / size * (near**2).sum(1)) ** beta
    return y


# Norms, resizing, padding, shuffles.


def _standard(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + eps)


def _per_channel(y: Array, weight: Array, bias: Array) -> Array:
    shape = (-1, *[1] * (y.ndim - 2))
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def layer_norm(x: Array, shape: Any, weight: Array = None, bias: Array = None, eps: float = 1e-5) -> Array:
    y = _standard(x, tuple(range(x.ndim - len(shape), x.ndim)), eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def rms_norm(x: Array, shape: Any, weight: Array = None, eps: float = 2.0**-23) -> Array:
    y = x / np.sqrt((x**2).mean(tuple(range(x.ndim - len(shape), x.ndim)), keepdims=True) + eps)
    return y if weight is None else y * weight


def group_norm(x: Array, groups: int, weight: Array = None, bias: Array = None, eps: float = 1e-5) -> Array:
    y = np.zeros_like(x)
    for part in np.split(np.arange(x.shape[1]), groups):
        y[:, part] = _standard(x[:, part], tuple(range(1, x.ndim)), eps)
    return _per_channel(y, weight, bias)


def batch_norm(
    x: Array, mean: Any, variance: Any, weight: Array = None, bias: Array = None, eps: float = 1e-5
) -> Array:
    return _per_channel(_standard(x, (0, *range(2, x.ndim)), eps), weight, bias)


def instance_norm(
    x: Array, mean: Any, variance: Any, weight: Array = None, bias: Array = None, eps: float = 1e-5
) -> Array:
    return _per_channel(_standard(x, tuple(range(2, x.ndim)), eps), weight, bias)


def _cubic(t: float, a: float = -0.75) -> float:
    t = abs(t)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * (t**3 - 5 * t**2 + 8 * t - 4) if t < 2 else 0.0


def _along(x: Array, axis: int, m: int, ratio: float, mode: str, aligned: bool) -> Array:
    """One axis sampled at m places; ``ratio`` is the distance of samples in entries of the input."""
    n, parts = x.shape[axis], []
    entry = lambda i: np.take(x, min(max(i, 0), n - 1), axis)  # noqa: E731
    for j in range(m):
        if mode.startswith("nearest"):  # PyTorch computes places in float32
            shift = 0.5 if mode == "nearest-exact" else 0.0
            parts.append(entry(int(np.floor(np.float32(j + shift) * np.float32(ratio)))))
            continue
        at = j * (n - 1) / max(m - 1, 1) if aligned else (j + 0.5) * ratio - 0.5
        if mode != "bicubic":
            at = max(at, 0.0) if not aligned else at
            i = math.floor(at)
            parts.append((1 - at + i) * entry(i) + (at - i) * entry(i + 1))
        else:
            i = math.floor(at)
            parts.append(sum(_cubic(at - k) * entry(k) for k in range(i - 1, i + 3)))
    return np.stack(parts, axis)


def interpolated(
    x: Array, size: Any = None, scale_factor: float | None = None, mode: str = "nearest", align_corners: bool = False,
    recompute_scale_factor: bool = False,
) -> Array:  # fmt: skip
    image = x.shape[2:]
    factors = (scale_factor,) * len(image)
    sizes = (
        _each(size, len(image))
        if size is not None
        else [math.floor(n * f) for n, f in zip(image, factors, strict=True)]
    )
    for axis, (n, m, f) in enumerate(zip(image, sizes, factors, strict=True)):
        ratio = n / m if f is None or recompute_scale_factor else 1 / f
        x = _along(x, axis + 2, m, ratio, mode, align_corners)
    return x


def padded(x: Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Array:
    for i in range(0, len(pad), 2):
        axis = x.ndim - 1 - i // 2
        n, front, behind = x.shape[axis], pad[i], pad[i + 1]
        parts = []
        for j in range(-front, n + behind):
            if mode == "constant":
                inside = 0 <= j < n
                parts.append(
                    np.take(x, j if inside else 0, axis) if inside else np.full(np.take(x, 0, axis).shape, value or 0.0)
                )
                continue
            k = {
                "reflect": -j if j < 0 else 2 * (n - 1) - j if j >= n else j,
                "replicate": min(max(j, 0), n - 1),
                "circular": j % n,
            }[mode]
            parts.append(np.take(x, k, axis))
        x = np.stack(parts, axis)
    return x


def pixel_shuffled(x: Array, r: int) -> Array:
    n, c, h, w = x.shape
    y = np.zeros((n, c // (r * r), h * r, w * r))
    for k, i, j in _cells((c // (r * r), r, r)):
        y[:, k, i::r, j::r] = x[:, k * r * r + i * r + j]
    return y


def pixel_unshuffled(x: Array, r: int) -> Array:
    n, c, h, w = x.shape
    y = np.zeros((n, c * r * r, h // r, w // r))
    for k, i, j in _cells((c, r, r)):
        y[:, k * r * r + i * r + j] = x[:, k, i::r, j::r]
    return y


def channel_shuffled(x: Array, groups: int) -> Array:
    per = x.shape[1] // groups
    return np.stack([x[:, c % groups * per + c // groups] for c in range(x.shape[1])], 1)


# Reductions and products.


def _axes(dim: Any) -> Any:
    return tuple(dim) if isinstance(dim, list) else dim


def _reduction(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda x, dim=None, keepdim=False: function(x, axis=_axes(dim) if x.ndim else None, keepdims=keepdim)


def _log_sum_exp(x: Array, axis: Any, keepdims: bool) -> Array:
    return np.log(np.exp(x).sum(axis=axis, keepdims=keepdims))


def attention(
    q: Array, k: Array, v: Array, attn_mask: Any = None, is_causal: bool = False, scale: float | None = None
) -> Array:
    scores = q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    return _softmax(scores, -1) @ v


LOOPS: dict[str, Callable[..., Any]] = {
    **ELEMENTWISE,
    **{f"conv{axes}d": convolved for axes in (1, 2, 3)},
    **{f"conv_transpose{axes}d": transposed for axes in (1, 2, 3)},
    **{f"max_pool{axes}d": max_pooled for axes in (1, 2, 3)},
    **{f"avg_pool{axes}d": mean_pooled for axes in (1, 2, 3)},
    **{f"lp_pool{axes}d": lp_pooled for axes in (1, 2)},
    **{f"adaptive_avg_pool{axes}d": adaptive(np.mean) for axes in (1, 2, 3)},
    **{f"adaptive_max_pool{axes}d": adaptive(np.max) for axes in (1, 2, 3)},
    **{f"max_unpool{axes}d": unpooled for axes in (1, 2)},
    "unfold": unfolded, "fold": folded, "local_response_norm": response_normalized, "layer_norm": layer_norm,
    "rms_norm": rms_norm, "group_norm": group_norm, "batch_norm": batch_norm, "instance_norm": instance_norm,
    "interpolate": interpolated, "pad": padded, "pixel_shuffle": pixel_shuffled, "pixel_unshuffle": pixel_unshuffled,
    "channel_shuffle": channel_shuffled, "sum": _reduction(np.sum), "prod": _reduction(np.prod), "mean": _reduction(np.mean),
    "amax": _reduction(np.max), "amin": _reduction(np.min), "logsumexp": _reduction(_log_sum_exp), "cumsum": np.cumsum,
    "cumprod": np.cumprod, "matmul": np.matmul, "bmm": np.matmul, "outer": np.outer, "einsum": np.einsum,
    "linear": lambda x, w, b=0.0: x @ w.T + b, "scaled_dot_product_attention": attention,
    "permute": np.transpose, "transpose": np.swapaxes, "flip": np.flip, "roll": np.roll, "stack": np.stack,
    "cat": lambda parts, dim=0: np.concatenate(parts, dim), "tril": np.tril, "triu": np.triu, "diff": np.diff,
    "index_select": lambda x, dim, index: np.take(x, index, dim),
    "gather": lambda x, dim, index: np.take_along_axis(x, index, dim),
    "sort": lambda x, dim, down, stable: _sorted(x, dim, down),
    "cross": lambda a, b, dim: np.cross(a, b, axis=dim),
}  # fmt: skip


def _sorted(x: Array, dim: int, down: bool) -> tuple[Array, Array]:
    order = np.argsort(-x if down else x, dim, kind="stable")
    return np.take_along_axis(x, order, dim), order
