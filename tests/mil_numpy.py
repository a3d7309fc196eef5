"""ML programs in NumPy: reads a package back with coremltools and evaluates the operations that our packages have."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])


def load(path: Path) -> Any:
    """The program of a package, and what the package says about it."""
    import coremltools as ct
    from coremltools.converters.mil.frontend.milproto.load import load as load_program

    model = ct.models.MLModel(str(path), skip_model_load=True)
    spec = model.get_spec()
    program = load_program(spec, specification_version=spec.specificationVersion, file_weights_dir=model.weights_dir)
    return program, spec


def run(path: Path, **inputs: np.ndarray) -> dict[str, Any]:
    """The outputs of a package for these inputs, by name."""
    program, _ = load(path)
    function = program.functions["main"]
    values: dict[int, Any] = {id(var): inputs[name] for name, var in function.inputs.items()}
    results = _evaluate(function, values)
    return {var.name: result for var, result in zip(function.outputs, results, strict=True)}


def _evaluate(block: Any, values: dict[int, Any]) -> list[Any]:
    """The outputs of a block; ``values`` holds its inputs, and what stands before it."""

    def value(given: Any) -> Any:
        if isinstance(given, (tuple, list)):
            return [value(entry) for entry in given]
        return values.get(id(given), given.val)

    for op in block.operations:
        if op.op_type == "const":
            values[id(op.outputs[0])] = op.outputs[0].val
            continue
        arguments = {name: value(given) for name, given in op.inputs.items() if given is not None}
        if op.op_type == "while_loop":
            results = _repeated(op, arguments["loop_vars"], values)
        else:
            results = OPERATIONS[op.op_type](**arguments)
        for var, result in zip(op.outputs, results if isinstance(results, tuple) else (results,), strict=True):
            values[id(var)] = result
    return [value(var) for var in block.outputs]


def _repeated(loop: Any, state: list[Any], values: dict[int, Any]) -> tuple[Any, ...]:
    """The values with which a loop ends."""
    condition, body = loop.blocks

    def run(block: Any) -> list[Any]:
        return _evaluate(block, values | {id(var): one for var, one in zip(block.inputs, state, strict=True)})

    while bool(np.all(run(condition)[0])):
        state = run(body)
    return tuple(state)


def _pad(pad: Any, axes: int) -> list[tuple[int, int]]:
    numbers = [int(n) for n in pad]
    return [(numbers[2 * i], numbers[2 * i + 1]) for i in range(axes)]


def _windows(x: np.ndarray, kernel: Any, strides: Any, dilations: Any) -> np.ndarray:
    """(N, C, positions..., window...)"""
    axes = x.ndim - 2
    reach = [(int(k) - 1) * int(d) + 1 for k, d in zip(kernel, dilations, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(2, 2 + axes)))
    steps = tuple(slice(None, None, int(s)) for s in strides)
    gaps = tuple(slice(None, None, int(d)) for d in dilations)
    return view[(slice(None), slice(None), *steps, *gaps)]


def conv(x: Any, weight: Any, strides: Any, pad: Any, dilations: Any, groups: Any, bias: Any = None, **_: Any) -> Any:
    axes = x.ndim - 2
    wide = np.pad(x, [(0, 0), (0, 0), *_pad(pad, axes)])
    parts = []
    for part, kernel in zip(np.split(wide, groups, 1), np.split(weight, groups, 0), strict=True):
        windows = _windows(part, weight.shape[2:], strides, dilations)
        contracted = [1, *range(windows.ndim - axes, windows.ndim)]
        y = np.tensordot(windows.astype(np.float64), kernel.astype(np.float64), (contracted, [*range(1, kernel.ndim)]))
        parts.append(np.moveaxis(y, -1, 1))
    y = np.concatenate(parts, 1)
    return (y if bias is None else y + bias.reshape(-1, *[1] * axes)).astype(x.dtype)


def conv_transpose(
    x: Any, weight: Any, strides: Any, pad: Any, dilations: Any, groups: Any, bias: Any = None, **_: Any
) -> Any:
    axes = x.ndim - 2
    sizes = [
        (n - 1) * int(s) + (k - 1) * int(d) + 1
        for n, s, k, d in zip(x.shape[2:], strides, weight.shape[2:], dilations, strict=True)
    ]
    y = np.zeros((len(x), weight.shape[1] * groups, *sizes), np.float64)
    for g, (part, kernel) in enumerate(zip(np.split(x, groups, 1), np.split(weight, groups, 0), strict=True)):
        channels = slice(g * weight.shape[1], (g + 1) * weight.shape[1])
        for place in np.ndindex(*weight.shape[2:]):
            spread = tuple(
                slice(p * int(d), p * int(d) + (n - 1) * int(s) + 1, int(s))
                for p, d, n, s in zip(place, dilations, x.shape[2:], strides, strict=True)
            )
            y[(slice(None), channels, *spread)] += np.moveaxis(
                np.tensordot(part.astype(np.float64), kernel[(slice(None), slice(None), *place)], ([1], [0])), -1, 1
            )
    cut = tuple(slice(a, n - e) for (a, e), n in zip(_pad(pad, axes), sizes, strict=True))
    y = y[(slice(None), slice(None), *cut)]
    return (y if bias is None else y + bias.reshape(-1, *[1] * axes)).astype(x.dtype)


def _pool(x: Any, kernel: Any, strides: Any, pad: Any, fill: float) -> Any:
    axes = x.ndim - 2
    wide = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *_pad(pad, axes)], constant_values=fill)
    return _windows(wide, kernel, strides, [1] * axes), tuple(range(-axes, 0))


def max_pool(x: Any, kernel_sizes: Any, strides: Any, pad: Any, **_: Any) -> Any:
    windows, axes = _pool(x, kernel_sizes, strides, pad, -np.inf)
    return windows.max(axes).astype(x.dtype)


def avg_pool(x: Any, kernel_sizes: Any, strides: Any, pad: Any, exclude_padding_from_average: Any, **_: Any) -> Any:
    windows, axes = _pool(x, kernel_sizes, strides, pad, 0)
    if not exclude_padding_from_average:
        return windows.mean(axes).astype(x.dtype)
    counted, _ = _pool(np.ones_like(x), kernel_sizes, strides, pad, 0)
    return (windows.sum(axes) / counted.sum(axes)).astype(x.dtype)


def batch_norm(x: Any, mean: Any, variance: Any, gamma: Any, beta: Any, epsilon: Any) -> Any:
    shape = (-1, *[1] * (x.ndim - 2))
    scale = gamma / np.sqrt(variance + epsilon)
    return ((x - mean.reshape(shape)) * scale.reshape(shape) + beta.reshape(shape)).astype(x.dtype)


def _normal(x: Any, axes: tuple[int, ...], epsilon: Any) -> Any:
    wide = x.astype(np.float64)
    return (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + epsilon)


def layer_norm(x: Any, axes: Any, epsilon: Any, gamma: Any = None, beta: Any = None) -> Any:
    y = _normal(x, tuple(int(axis) for axis in axes), epsilon)
    y = y if gamma is None else y * gamma
    return (y if beta is None else y + beta).astype(x.dtype)


def instance_norm(x: Any, gamma: Any, beta: Any, epsilon: Any) -> Any:
    shape = (-1, *[1] * (x.ndim - 2))
    return (_normal(x, tuple(range(2, x.ndim)), epsilon) * gamma.reshape(shape) + beta.reshape(shape)).astype(x.dtype)


def softmax(x: Any, axis: Any) -> Any:
    grown = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return (grown / grown.sum(axis, keepdims=True)).astype(x.dtype)


def slice_by_index(
    x: Any,
    begin: Any,
    end: Any,
    stride: Any = None,
    begin_mask: Any = None,
    end_mask: Any = None,
    squeeze_mask: Any = None,
) -> Any:
    index: list[Any] = []
    for i in range(x.ndim):
        first, step = int(begin[i]), 1 if stride is None else int(stride[i])
        if squeeze_mask is not None and squeeze_mask[i]:
            index.append(first)
            continue
        start = None if begin_mask is not None and begin_mask[i] else first
        stop = None if end_mask is not None and end_mask[i] else int(end[i])
        index.append(slice(start, stop, step))
    return x[tuple(index)]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm(
    x: Any, initial_h: Any, initial_c: Any, weight_ih: Any, weight_hh: Any, bias: Any, direction: Any, **_: Any
) -> Any:
    h, c = initial_h.astype(np.float64), initial_c.astype(np.float64)
    outputs = np.empty((*x.shape[:2], h.shape[1]))
    steps = range(len(x))
    for place, t in enumerate(reversed(steps) if direction == "reverse" else steps):
        i, f, o, g = np.split(x[t] @ weight_ih.T.astype(np.float64) + h @ weight_hh.T + bias, 4, 1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        outputs[place] = h  # in the order in which the steps are seen
    return outputs.astype(x.dtype), h.astype(x.dtype), c.astype(x.dtype)


def gelu(x: Any, mode: Any) -> Any:
    if mode == "EXACT":
        return (0.5 * x * (1 + _erf(x / math.sqrt(2)))).astype(x.dtype)
    return (0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))).astype(x.dtype)


def pad(x: Any, pad: Any, mode: Any, constant_val: Any = 0) -> Any:
    widths = _pad(pad, len(pad) // 2)
    widths = [(0, 0)] * (x.ndim - len(widths)) + widths
    return np.pad(x, widths, constant_values=constant_val) if mode == "constant" else np.pad(x, widths, mode=mode)


def pixel_shuffle(x: Any, upscale_factor: Any) -> Any:
    r = int(upscale_factor)
    n, c, h, w = x.shape
    return x.reshape(n, c // r**2, r, r, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // r**2, h * r, w * r)


def pixel_unshuffle(x: Any, downscale_factor: Any) -> Any:
    r = int(downscale_factor)
    n, c, h, w = x.shape
    return x.reshape(n, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4).reshape(n, c * r**2, h // r, w // r)


def upsample_nearest_neighbor(x: Any, scale_factor_height: Any, scale_factor_width: Any) -> Any:
    return x.repeat(int(scale_factor_height), -2).repeat(int(scale_factor_width), -1)


def resize_bilinear(x: Any, target_size_height: Any, target_size_width: Any, sampling_mode: Any) -> Any:
    for axis, m in ((-2, int(target_size_height)), (-1, int(target_size_width))):
        n, i = x.shape[axis], np.arange(m)
        if sampling_mode == "UNALIGN_CORNERS":
            grid = i * (n / m) + 0.5 * (n / m) - 0.5
        else:
            assert sampling_mode == "ALIGN_CORNERS"
            grid = i * ((n - 1) / (m - 1)) if m > 1 else np.array([(n - 1) / 2])
        grid = np.minimum(n - 1, np.maximum(0, grid))
        low = np.floor(grid).astype(int)
        t = (grid - low).reshape(-1, *[1] * (-1 - axis))
        x = ((1 - t) * x.take(low, axis) + t * x.take(np.minimum(low + 1, n - 1), axis)).astype(x.dtype)
    return x


def scatter(data: Any, indices: Any, updates: Any, axis: Any, mode: Any, **_: Any) -> Any:
    assert mode == "update" and axis == 0
    written = data.copy()
    written[indices] = updates
    return written


def classify(probabilities: Any, classes: Any) -> Any:
    flat = np.asarray(probabilities).reshape(-1)
    names = [getattr(name, "val", name) for name in classes]
    return names[int(flat.argmax())], dict(zip(names, flat.tolist(), strict=True))


def cast(x: Any, dtype: Any) -> Any:
    return x.astype({"fp32": np.float32, "fp16": np.float16, "int32": np.int32, "bool": np.bool_}[str(dtype)])


def _reduced(function: Any) -> Any:
    def call(x: Any, axes: Any, keep_dims: Any) -> Any:
        return function(x.astype(np.float64), tuple(int(a) for a in axes), bool(keep_dims)).astype(x.dtype)

    return call


def _like(function: Any) -> Any:
    return lambda x, **options: np.asarray(function(x, **options)).astype(np.asarray(x).dtype)


OPERATIONS: dict[str, Any] = {
    "conv": conv, "conv_transpose": conv_transpose, "max_pool": max_pool, "avg_pool": avg_pool, "batch_norm": batch_norm,
    "layer_norm": layer_norm, "instance_norm": instance_norm, "softmax": softmax, "slice_by_index": slice_by_index,
    "lstm": lstm, "gelu": gelu, "pad": pad, "pixel_shuffle": pixel_shuffle, "pixel_unshuffle": pixel_unshuffle,
    "upsample_nearest_neighbor": upsample_nearest_neighbor, "resize_bilinear": resize_bilinear, "scatter": scatter,
    "classify": classify, "cast": cast,
    "linear": lambda x, weight, bias: (x @ weight.T + bias).astype(x.dtype),
    "matmul": lambda x, y, transpose_x=False, transpose_y=False: (np.swapaxes(x, -1, -2) if transpose_x else x)
    @ (np.swapaxes(y, -1, -2) if transpose_y else y),
    "reshape": lambda x, shape: x.reshape([int(n) for n in shape]),
    "transpose": lambda x, perm: x.transpose([int(n) for n in perm]),
    "concat": lambda values, axis, **_: np.concatenate(values, int(axis)),
    "split": lambda x, split_sizes, axis, **_: tuple(np.split(x, np.cumsum(split_sizes)[:-1], int(axis))),
    "gather": lambda x, indices, axis, **_: np.take(x, indices, int(axis)),
    "expand_dims": lambda x, axes: np.expand_dims(x, tuple(int(a) for a in axes)),
    "squeeze": lambda x, axes: np.squeeze(x, tuple(int(a) for a in axes)),
    "tile": lambda x, reps: np.tile(x, [int(n) for n in reps]),
    "shape": lambda x: np.array(x.shape, np.int32),
    "fill": lambda shape, value: np.full([int(n) for n in shape], value),
    "fill_like": lambda ref_tensor, value: np.full(np.shape(ref_tensor), value),
    "reverse": lambda x, axes: np.flip(x, [int(a) for a in axes]), "identity": lambda x: x, "less": lambda x, y: x < y,
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "real_div": lambda x, y: x / y,
    "pow": lambda x, y: x**y, "minimum": lambda x, y: np.minimum(x, y), "maximum": lambda x, y: np.maximum(x, y),
    "not_equal": lambda x, y: x != y, "select": lambda cond, a, b: np.where(cond, a, b),
    "relu": _like(lambda x: np.maximum(x, 0)), "relu6": _like(lambda x: np.clip(x, 0, 6)), "sigmoid": _like(_sigmoid),
    "tanh": _like(np.tanh), "softsign": _like(lambda x: x / (1 + np.abs(x))), "silu": _like(lambda x: x * _sigmoid(x)),
    "erf": _like(_erf), "abs": _like(np.abs), "exp": _like(np.exp), "log": lambda x, **_: np.log(x), "sqrt": _like(np.sqrt),
    "square": _like(np.square), "sin": _like(np.sin), "cos": _like(np.cos), "sign": _like(np.sign), "floor": _like(np.floor),
    "ceil": _like(np.ceil), "softplus": _like(lambda x: np.logaddexp(0, x)),
    "leaky_relu": _like(lambda x, alpha: np.where(x > 0, x, alpha * x)),
    "elu": _like(lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))),
    "clip": _like(lambda x, alpha, beta: np.clip(x, alpha, beta)),
    "linear_activation": _like(lambda x, alpha, beta: alpha * x + beta),
    "scaled_tanh": _like(lambda x, alpha, beta: alpha * np.tanh(beta * x)),
    "sigmoid_hard": _like(lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1)),
    "reduce_sum": _reduced(lambda x, axes, keep: x.sum(axes, keepdims=keep)),
    "reduce_mean": _reduced(lambda x, axes, keep: x.mean(axes, keepdims=keep)),
    "reduce_max": _reduced(lambda x, axes, keep: x.max(axes, keepdims=keep)),
    "reduce_min": _reduced(lambda x, axes, keep: x.min(axes, keepdims=keep)),
    "reduce_l2_norm": _reduced(lambda x, axes, keep: np.sqrt((x**2).sum(axes, keepdims=keep))),
    "reduce_sum_square": _reduced(lambda x, axes, keep: (x**2).sum(axes, keepdims=keep)),
    "reduce_log_sum_exp": _reduced(lambda x, axes, keep: np.log(np.exp(x).sum(axes, keepdims=keep))),
}  # fmt: skip
