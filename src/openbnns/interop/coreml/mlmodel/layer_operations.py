"""Layers of neural networks of the old kind as operations of ML programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...protobuf import Message
from .program import Text, Value, Writer, layer
from .refusal import Refused
from .weights import numbers_of as weight

_CHANNELS, _ROWS, _COLUMNS = -3, -2, -1
_ASYMMETRY = (Text("same"), Text("same_lower"))


def _pair(m: Message, number: int, default: int = 1) -> list[int]:
    return m.integers(number) or [default, default]


def _borders(m: Message, number: int = 1) -> list[int]:
    """Rows in front and behind, then columns."""
    edges = [n for e in m.message(number).messages(10, "an edge") for n in (e.integer(1), e.integer(2))]
    if len(edges) not in (0, 4):
        raise m.damage(f"its padding is {edges}")
    return edges or [0, 0, 0, 0]


def _padding(m: Message, valid: int, same: int) -> dict[str, Value]:
    if m.has(same):
        return {"pad_type": _ASYMMETRY[m.message(same).integer(1) == 1], "pad": _ints([0] * 4)}
    return {"pad_type": Text("custom"), "pad": _ints(_borders(m.message(valid)))}


def _ints(values: Any) -> Any:
    return np.asarray(values, np.int32)


_MOST_PLACES = 2**26


def _along(numbers: Any) -> Any:
    """Numbers of channels, to be computed with (..., C, H, W)."""
    return numbers.reshape(-1, 1, 1)


# Convolutions, products and tables.


@layer(convolution=100)
def _convolution(w: Writer, m: Message, xs: list[Value]) -> Value:
    outputs, each, groups = m.integer(1), m.integer(2), m.integer(10, 1) or 1
    kernel, transposed = _pair(m, 20, 3), bool(m.integer(60))
    if len(xs) > 1:
        held: Value = xs[1]
    elif transposed:
        held = weight(m, 90, (each, outputs // groups, *kernel))
    else:
        held = weight(m, 90, (outputs, each, *kernel))
    options = {
        "weight": held, "strides": _ints(_pair(m, 30)), "dilations": _ints(_pair(m, 40)), "groups": np.int32(groups),
        "bias": weight(m, 91, (outputs,)) if m.integer(70) else None, **_padding(m, 50, 51),
    }  # fmt: skip
    if not transposed:
        return w("conv", x=xs[0], **options)
    shape = _ints([1, outputs, *m.integers(100)]) if m.integers(100) else None
    return w("conv_transpose", x=xs[0], output_shape=shape, **options)


@layer(convolution3d=1471)
def _convolution3d(w: Writer, m: Message, xs: list[Value]) -> Value:
    outputs, inputs, groups = m.integer(1), m.integer(2), m.integer(10, 1) or 1
    kernel, strides, dilations = ([m.integer(n + i, 1) or 1 for i in range(3)] for n in (20, 31, 40))
    transposed = bool(m.integer(86))
    shape = (inputs, outputs // groups, *kernel) if transposed else (outputs, inputs // groups, *kernel)
    options = {
        "weight": weight(m, 60, shape), "strides": _ints(strides), "dilations": _ints(dilations),
        "groups": np.int32(groups), "bias": weight(m, 61, (outputs,)) if m.integer(50) else None,
        "pad_type": (Text("custom"), Text("valid"), Text("same"))[m.integer(70)],
        "pad": _ints([m.integer(n) for n in range(80, 86)]) if m.integer(70) == 0 else _ints([0] * 6),
    }  # fmt: skip
    if not transposed:
        return w("conv", x=xs[0], **options)
    whole = _ints([1, outputs, *m.integers(87)]) if m.integers(87) else None
    return w("conv_transpose", x=xs[0], output_shape=whole, **options)


@layer(innerProduct=140)
def _inner_product(w: Writer, m: Message, xs: list[Value]) -> Value:
    inputs, outputs = m.integer(1), m.integer(2)
    bias = weight(m, 21, (outputs,)) if m.integer(10) else None
    return w("linear", x=xs[0], weight=weight(m, 20, (outputs, inputs)), bias=bias)


@layer(batchedMatmul=1045)
def _matmul(w: Writer, m: Message, xs: list[Value]) -> Value:
    first, second = bool(m.integer(1)), bool(m.integer(2))
    if len(xs) > 1:
        return w("matmul", x=xs[0], y=xs[1], transpose_x=first, transpose_y=second)
    inputs, outputs = m.integer(5), m.integer(6)
    bias = weight(m, 9, (outputs,)) if m.integer(7) else None
    x = w("matmul", x=xs[0], y=weight(m, 8, (inputs, outputs)), transpose_x=first, transpose_y=False)
    return x if bias is None else w("add", x=x, y=bias)


@layer(embeddingND=1040)
def _embedding(w: Writer, m: Message, xs: list[Value]) -> Value:
    count, width = m.integer(1), m.integer(2)
    table = np.ascontiguousarray(weight(m, 20, (width, count)).T)
    if m.integer(3):
        table = table + weight(m, 21, (width,))
    indices = w("squeeze", x=w.whole(xs[0]), axes=_ints([-1]), element="int32")
    return w("gather", x=table, indices=indices, axis=np.int32(0))


# Pooling and resizing.


@layer(pooling=120)
def _pooling(w: Writer, m: Message, xs: list[Value]) -> Value:
    kind = m.integer(1)
    if m.integer(60):
        name = ("reduce_max", "reduce_mean", "reduce_l2_norm")[kind]
        return w(name, x=xs[0], axes=_ints([_ROWS, _COLUMNS]), keep_dims=True)
    options = {"kernel_sizes": _ints(_pair(m, 10, 3)), "strides": _ints(_pair(m, 20)), "ceil_mode": m.has(32)}
    if m.has(32):
        rows, columns = (m.message(32).integers(10) or [0, 0])[:2]
        options |= {"pad_type": Text("custom"), "pad": _ints([rows, rows, columns, columns])}
    else:
        options |= _padding(m, 30, 31)
    if kind == 1:
        options["exclude_padding_from_average"] = bool(m.integer(50))
    return w(("max_pool", "avg_pool", "l2_pool")[kind], x=xs[0], **options)


@layer(pooling3d=1465)
def _pooling3d(w: Writer, m: Message, xs: list[Value]) -> Value:
    options = {
        "kernel_sizes": _ints([m.integer(n) for n in (2, 3, 4)]), "strides": _ints([m.integer(n, 1) or 1 for n in (5, 6, 7)]),
        "pad_type": (Text("custom"), Text("valid"), Text("same"))[m.integer(15)],
        "pad": _ints([m.integer(n) if m.integer(15) == 0 else 0 for n in range(8, 14)]), "ceil_mode": False,
    }  # fmt: skip
    if m.integer(1):
        options["exclude_padding_from_average"] = bool(m.integer(14))
    return w(("max_pool", "avg_pool")[m.integer(1)], x=xs[0], **options)


@layer(globalPooling3d=1466)
def _global_pooling3d(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w(("reduce_max", "reduce_mean")[m.integer(1)], x=xs[0], axes=_ints([-3, -2, -1]), keep_dims=True)


@layer(upsample=210)
def _upsample(w: Writer, m: Message, xs: list[Value]) -> Value:
    times: list[float] = [*m.integers(1)] or [float(n) for n in m.floats(7)] or [1, 1]
    rows, columns = (np.float32(n) if isinstance(n, float) else np.int32(n) for n in times)
    sizes: dict[str, Any] = {"scale_factor_height": rows, "scale_factor_width": columns}
    if m.integer(5) == 0:
        return w("upsample_nearest_neighbor", x=xs[0], **sizes)
    if m.integer(6) == 0:
        raise Refused("enlarging in the mode DEFAULT is not supported.")
    aligned = m.integer(6) == 1
    return w("upsample_bilinear", x=xs[0], align_corners=aligned, half_pixel_centers=not aligned, **sizes)


_SAMPLING = tuple(map(Text, ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS")))


@layer(resizeBilinear=211)
def _resize(w: Writer, m: Message, xs: list[Value]) -> Value:
    rows, columns = map(np.int32, _pair(m, 1))
    mode = _SAMPLING[m.message(2).integer(1)]
    return w("resize_bilinear", x=xs[0], target_size_height=rows, target_size_width=columns, sampling_mode=mode)


# Normalizations.


@layer(batchnorm=160)
def _batchnorm(w: Writer, m: Message, xs: list[Value]) -> Value:
    count = m.integer(1)
    settings: dict[str, Any] = {
        "gamma": weight(m, 15, (count,)) if m.has(15) else None, "beta": weight(m, 16, (count,)) if m.has(16) else None,
        "epsilon": np.float32(m.number(10) or 1e-5),
    }  # fmt: skip
    if m.integer(5) or m.integer(6):
        if not m.integer(6):
            raise Refused("normalization by the statistics of a batch is not supported.")
        return w("instance_norm", x=xs[0], **settings)
    return w("batch_norm", x=xs[0], mean=weight(m, 17, (count,)), variance=weight(m, 18, (count,)), **settings)


@layer(mvn=165)
def _mvn(w: Writer, m: Message, xs: list[Value]) -> Value:
    axes = _ints([_CHANNELS, _ROWS, _COLUMNS] if m.integer(1) else [_ROWS, _COLUMNS])
    if m.integer(2):
        return w("layer_norm", x=xs[0], axes=axes, epsilon=np.float32(m.number(3) or 1e-5))
    return w("sub", x=xs[0], y=w("reduce_mean", x=xs[0], axes=axes, keep_dims=True))


@layer(layerNormalization=1350)
def _layer_norm(w: Writer, m: Message, xs: list[Value]) -> Value:
    shape = m.integers(1)
    return w(
        "layer_norm", x=xs[0], axes=_ints(range(-len(shape), 0)), epsilon=np.float32(m.number(2) or 1e-5),
        gamma=weight(m, 3, shape) if m.has(3) else None, beta=weight(m, 4, shape) if m.has(4) else None,
    )  # fmt: skip


@layer(l2normalize=170)
def _l2_norm(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("l2_norm", x=xs[0], epsilon=np.float32(m.number(1) or 1e-6))


@layer(lrn=180)
def _lrn(w: Writer, m: Message, xs: list[Value]) -> Value:
    alpha, beta, k = np.float32(m.number(1)), np.float32(m.number(2)), np.float32(m.number(4))
    return w("local_response_norm", x=xs[0], size=np.int32(m.integer(3)), alpha=alpha, beta=beta, k=k)


@layer(softmax=175)
def _softmax(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("softmax", x=xs[0], axis=np.int32(_CHANNELS))


@layer(softmaxND=950)
def _softmax_along(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("softmax", x=xs[0], axis=np.int32(m.signed(1)))


# Functions of single numbers.

_ACTIVATIONS = {
    5: ("linear_activation", "alpha beta"), 10: ("relu", ""), 15: ("leaky_relu", "alpha"),
    20: ("thresholded_relu", "alpha"), 30: ("tanh", ""), 31: ("scaled_tanh", "alpha beta"), 40: ("sigmoid", ""),
    41: ("sigmoid_hard", "alpha beta"), 50: ("elu", "alpha"), 60: ("softsign", ""), 70: ("softplus", ""),
}  # fmt: skip


@layer(activation=130)
def _activation(w: Writer, m: Message, xs: list[Value]) -> Value:
    number = next(iter(m.fields), 0)
    p = m.message(number)
    if number == 25:
        slopes = p.message(1).floats(1)
        if slopes.size == 1:
            return w("leaky_relu", x=xs[0], alpha=np.float32(slopes[0]))
        return w("prelu", x=xs[0], alpha=slopes)
    if number == 71:
        alpha, beta = p.message(1).floats(1), p.message(2).floats(1)
        return w("softplus_parametric", x=xs[0], alpha=alpha, beta=beta)
    if number not in _ACTIVATIONS:
        raise Refused(f"the activation with number {number} is not supported.")
    kind, names = _ACTIVATIONS[number]
    values: dict[str, Any] = {name: np.float32(p.number(i)) for i, name in enumerate(names.split(), 1)}
    return w(kind, x=xs[0], **values)


@layer(unary=220)
def _unary(w: Writer, m: Message, xs: list[Value]) -> Value:
    kind, alpha, epsilon = m.integer(1), np.float32(m.number(2)), np.float32(m.number(3) or 1e-6)
    shift, scale, x = m.number(4), m.number(5, 1.0), xs[0]
    x = x if scale == 1 else w("mul", x=x, y=np.float32(scale))
    x = x if shift == 0 else w("add", x=x, y=np.float32(shift))
    if kind == 3:
        return w("pow", x=x, y=alpha)
    if kind == 7:
        return w("maximum", x=x, y=alpha)
    if kind in (1, 2, 5):
        added = np.float32(m.number(3)) if kind == 5 else epsilon
        return w({1: "rsqrt", 2: "inverse", 5: "log"}[kind], x=x, epsilon=added)
    return w({0: "sqrt", 4: "exp", 6: "abs"}[kind], x=x)


def _alike(kind: str) -> Any:
    def write(w: Writer, m: Message, xs: list[Value]) -> Value:
        return w(kind, x=xs[0])

    return write


for _kind, _number in {
    "ceil": 665, "floor": 670, "sign": 680, "round": 685, "exp2": 700, "sin": 710, "cos": 715, "tan": 720, "asin": 730,
    "acos": 735, "atan": 740, "sinh": 750, "cosh": 755, "tanh": 760, "atanh": 780, "erf": 790,
}.items():  # fmt: skip
    layer(**{_kind: _number})(_alike(_kind))

_GELU = tuple(map(Text, ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")))


@layer(gelu=795)
def _gelu(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("gelu", x=xs[0], mode=_GELU[m.integer(1)])


@layer(clip=660)
def _clip(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("clip", x=xs[0], alpha=np.float32(m.number(1)), beta=np.float32(m.number(2)))


@layer(clampedReLU=1460)
def _clamped(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("clamped_relu", x=xs[0], alpha=np.float32(m.number(1)), beta=np.float32(m.number(2)))


# Functions of two numbers.


def _joined(kind: str, alone: bool = False) -> Any:
    def write(w: Writer, m: Message, xs: list[Value]) -> Value:
        if len(xs) == 1 and alone:
            return w(kind, x=xs[0], y=np.float32(m.number(1)))
        y = xs[0]
        for x in xs[1:]:
            y = w(kind, x=y, y=x)
        return y

    return write


layer(add=230)(_joined("add", True))
layer(multiply=231)(_joined("mul", True))
layer(max=260, maxBroadcastable=875)(_joined("maximum"))
layer(min=261, minBroadcastable=870)(_joined("minimum"))
layer(modBroadcastable=865)(_joined("mod"))
layer(addBroadcastable=880)(_joined("add"))
layer(powBroadcastable=885)(_joined("pow"))
layer(divideBroadcastable=890)(_joined("real_div"))
layer(floorDivBroadcastable=895)(_joined("floor_div"))
layer(multiplyBroadcastable=900)(_joined("mul"))
layer(subtractBroadcastable=905)(_joined("sub"))


@layer(average=240)
def _average(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("mul", x=_joined("add")(w, m, xs), y=np.float32(1 / len(xs)))


def _compared(kind: str, number: int) -> Any:
    def write(w: Writer, m: Message, xs: list[Value]) -> Value:
        other = xs[1] if len(xs) > 1 else np.float32(m.number(number))
        return w.floats(w(kind, x=xs[0], y=other, element="bool"))

    return write


layer(equal=815)(_compared("equal", 1))
layer(notEqual=820)(_compared("not_equal", 1))
layer(lessThan=825)(_compared("less", 2))
layer(lessEqual=827)(_compared("less_equal", 2))
layer(greaterThan=830)(_compared("greater", 2))
layer(greaterEqual=832)(_compared("greater_equal", 2))


def _logical(kind: str) -> Any:
    def write(w: Writer, m: Message, xs: list[Value]) -> Value:
        held = {name: w.truth(x) for name, x in zip("xy", xs, strict=False)}
        return w.floats(w(kind, element="bool", **held))

    return write


layer(logicalOr=840)(_logical("logical_or"))
layer(logicalXor=845)(_logical("logical_xor"))
layer(logicalNot=850)(_logical("logical_not"))
layer(logicalAnd=855)(_logical("logical_and"))


@layer(scale=245)
def _scale(w: Writer, m: Message, xs: list[Value]) -> Value:
    y = w("mul", x=xs[0], y=_channel_numbers(m, 1, 2))
    return w("add", x=y, y=_channel_numbers(m, 4, 5)) if m.integer(3) else y


@layer(bias=250)
def _bias(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("add", x=xs[0], y=_channel_numbers(m, 1, 2))


def _channel_numbers(m: Message, shape_number: int, number: int) -> Any:
    shape = m.integers(shape_number) or [1]
    array = weight(m, number, shape)
    return _along(array) if array.ndim == 1 else array


# Sums and other reductions.


def _reduced(kind: str) -> Any:
    def write(w: Writer, m: Message, xs: list[Value]) -> Value:
        axes = None if m.integer(3) else _ints(m.signed_integers(1))
        return w(kind, x=xs[0], axes=axes, keep_dims=bool(m.integer(2)))

    return write


for _kind, _number in {
    "l1_norm": 1250, "l2_norm": 1255, "max": 1260, "min": 1265, "sum": 1270, "prod": 1275, "mean": 1280, "log_sum": 1285,
    "sum_square": 1290, "log_sum_exp": 1295,
}.items():  # fmt: skip
    layer(**{f"reduce_{_kind}": _number})(_reduced(f"reduce_{_kind}"))

_REDUCTIONS = ("sum", "mean", "prod", "log_sum", "sum_square", "l1_norm", "l2_norm", "max", "min")
_REDUCED_AXES = ([-3, -2, -1], [-2, -1], [-3], [-2], [-1])


@layer(reduce=280)
def _reduce(w: Writer, m: Message, xs: list[Value]) -> Value:
    axes, mode = _REDUCED_AXES[m.integer(3)], m.integer(1)
    if mode == 9:
        if len(axes) > 1:
            raise Refused("the place of the largest number is looked for along one axis only.")
        return w.floats(w("reduce_argmax", x=xs[0], axis=np.int32(axes[0]), keep_dims=True, element="int32"))
    return w(f"reduce_{_REDUCTIONS[mode]}", x=xs[0], axes=_ints(axes), keep_dims=True)


def _place(kind: str) -> Any:
    def write(w: Writer, m: Message, xs: list[Value]) -> Value:
        place = w(kind, x=xs[0], axis=np.int32(m.signed(1)), keep_dims=not m.integer(2), element="int32")
        return w.floats(place)

    return write


layer(argMin=1020)(_place("reduce_argmin"))
layer(argMax=1025)(_place("reduce_argmax"))


@layer(topK=1015)
def _top(w: Writer, m: Message, xs: list[Value]) -> Value:
    if len(xs) > 1 and isinstance(xs[1], str):
        raise Refused("a number of entries that is computed is not supported.")
    count = np.int32(np.asarray(xs[1]).item() if len(xs) > 1 else m.integer(2))
    values, places = w("topk", outputs=2, x=xs[0], k=count, axis=np.int32(m.signed(1)), ascending=bool(m.integer(3)))
    w.set_element(places, "int32")
    return values, w.floats(places)


@layer(argSort=1461)
def _argsort(w: Writer, m: Message, xs: list[Value]) -> Value:
    ascending = not m.integer(2)
    return w.floats(w("argsort", x=xs[0], axis=np.int32(m.signed(1)), ascending=ascending, element="int32"))


@layer(cumSum=1455)
def _cumsum(w: Writer, m: Message, xs: list[Value]) -> Value:
    if len(xs) > 1 and isinstance(xs[1], str):
        raise Refused("an axis that is computed is not supported.")
    axis = np.int32(np.asarray(xs[1]).item() if len(xs) > 1 else m.signed(1))
    return w("cumsum", x=xs[0], axis=axis, exclusive=bool(m.integer(2)), reverse=bool(m.integer(3)))


# Shapes.


@layer(transpose=985, permute=310)
def _transpose(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("transpose", x=xs[0], perm=_ints(m.integers(1)))


@layer(concat=320)
def _concat(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("concat", values=xs, axis=np.int32(-5 if m.integer(100) else _CHANNELS), interleave=False)


@layer(concatND=980)
def _concat_along(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("concat", values=xs, axis=np.int32(m.signed(1)), interleave=bool(m.integer(2)))


@layer(stack=925)
def _stack(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("stack", values=xs, axis=np.int32(m.signed(1)))


@layer(split=330)
def _split(w: Writer, m: Message, xs: list[Value]) -> Value:
    count = m.integer(1)
    return w("split", outputs=count, x=xs[0], num_splits=np.int32(count), axis=np.int32(_CHANNELS))


@layer(splitND=975)
def _split_along(w: Writer, m: Message, xs: list[Value]) -> Value:
    sizes, count = m.integers(3), m.integer(2)
    parts = {"split_sizes": _ints(sizes)} if sizes else {"num_splits": np.int32(count)}
    return w("split", outputs=len(sizes) or count, x=xs[0], axis=np.int32(m.signed(1)), **parts)


@layer(squeeze=1120)
def _squeeze(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("squeeze", x=xs[0], axes=None if m.integer(2) else _ints(m.signed_integers(1)))


@layer(expandDims=1125)
def _expand_dims(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("expand_dims", x=xs[0], axes=_ints(m.signed_integers(1)))


@layer(flatten=301)
def _flatten(w: Writer, m: Message, xs: list[Value]) -> Value:
    x = w("transpose", x=xs[0], perm=_ints([0, 2, 3, 1])) if m.integer(1) == 1 else xs[0]
    return w("reshape", x=x, shape=_ints([0, -1, 1, 1]))


@layer(flattenTo2D=1130)
def _flatten_to_two(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("flatten2d", x=xs[0], axis=np.int32(m.signed(1)))


@layer(reshapeStatic=1140, rankPreservingReshape=1150)
def _reshape(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("reshape", x=xs[0], shape=_ints(m.signed_integers(1)))


@layer(reshapeDynamic=1145)
def _reshape_to(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("reshape", x=xs[0], shape=w.whole(xs[1]))


@layer(reshapeLike=1135)
def _reshape_like(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("reshape", x=xs[0], shape=w("shape", x=xs[1], element="int32"))


@layer(getShape=1065)
def _shape(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w.floats(w("shape", x=xs[0], element="int32"))


@layer(tile=920)
def _tile(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("tile", x=xs[0], reps=w.whole(xs[1]) if len(xs) > 1 else _ints(m.integers(1)))


@layer(reorganizeData=345)
def _reorganize(w: Writer, m: Message, xs: list[Value]) -> Value:
    size, mode = np.int32(m.integer(2)), m.integer(1)
    if mode == 2:
        return w("pixel_shuffle", x=xs[0], upscale_factor=size)
    return w(("space_to_depth", "depth_to_space")[mode], x=xs[0], block_size=size)


@layer(padding=200)
def _pad(w: Writer, m: Message, xs: list[Value]) -> Value:
    mode = Text("reflect" if m.has(2) else "replicate" if m.has(3) else "constant")
    return w("pad", x=xs[0], pad=_ints(_borders(m, 10)), mode=mode, constant_val=np.float32(m.message(1).number(1)))


@layer(constantPad=1155)
def _constant_pad(w: Writer, m: Message, xs: list[Value]) -> Value:
    if m.integer(3):
        raise Refused("padding to a given size is not supported.")
    amounts = w.whole(xs[1]) if len(xs) > 1 else _ints(m.integers(2))
    return w("pad", x=xs[0], pad=amounts, mode=Text("constant"), constant_val=np.float32(m.number(1)))


@layer(crop=190)
def _crop(w: Writer, m: Message, xs: list[Value]) -> Value:
    if len(xs) > 1:
        raise Refused("cutting to the size of another input is not supported.")
    edges = _borders(m)
    return w("crop", x=xs[0], crop_height=_ints(edges[:2]), crop_width=_ints(edges[2:]))


@layer(reverse=960)
def _reverse(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("reverse", x=xs[0], axes=_ints([i for i, chosen in enumerate(m.integers(1)) if chosen]))


@layer(reverseSeq=965)
def _reverse_sequence(w: Writer, m: Message, xs: list[Value]) -> Value:
    axes: dict[str, Any] = {"batch_axis": np.int32(m.signed(1)), "seq_axis": np.int32(m.signed(2))}
    return w("reverse_sequence", x=xs[0], lengths=w.whole(xs[1]), **axes)


@layer(slidingWindows=1005)
def _windows(w: Writer, m: Message, xs: list[Value]) -> Value:
    size, step = np.int32(m.integer(2)), np.int32(m.integer(3, 1) or 1)
    return w("sliding_windows", x=xs[0], axis=np.int32(m.signed(1)), size=size, stride=step)


def _masks(m: Message, numbers: dict[str, int], count: int) -> dict[str, Any]:
    return {name: np.array(m.integers(n) or [0] * count, bool) for name, n in numbers.items()}


@layer(sliceStatic=995)
def _slice(w: Writer, m: Message, xs: list[Value]) -> Value:
    begin, end = m.signed_integers(1), m.signed_integers(3)
    masks = _masks(m, {"begin_mask": 2, "end_mask": 4, "squeeze_mask": 6}, len(begin))
    stride = _ints(m.signed_integers(5) or [1] * len(begin))
    return w("slice_by_index", x=xs[0], begin=_ints(begin), end=_ints(end), stride=stride, **masks)


@layer(sliceDynamic=1000)
def _slice_at(w: Writer, m: Message, xs: list[Value]) -> Value:
    begin, end = w.whole(xs[1]), w.whole(xs[2]) if len(xs) > 2 else _ints(m.signed_integers(3))
    count = max(len(m.integers(n)) for n in (2, 4, 5))
    if len(xs) > 4 or not count:
        raise Refused("masks that are computed are not supported.")
    masks = _masks(m, {"begin_mask": 2, "end_mask": 4, "squeeze_mask": 6}, count)
    stride = w.whole(xs[3]) if len(xs) > 3 else _ints(m.signed_integers(5) or [1] * count)
    return w("slice_by_index", x=xs[0], begin=begin, end=end, stride=stride, **masks)


@layer(slice=350)
def _slice_of_axis(w: Writer, m: Message, xs: list[Value]) -> Value:
    begin, end, step, axis = m.signed(1), m.signed(2), m.integer(3, 1) or 1, np.int32(m.integer(4) - 3)
    if begin >= 0 and 0 < end <= _MOST_PLACES:
        return w("gather", x=xs[0], indices=_ints(range(begin, end, step)), axis=axis)
    # Places from the end of an axis, of arrays whose rank is not known here.
    sizes = w("shape", x=xs[0], element="int32")
    size = w("gather", x=sizes, indices=_ints([axis]), axis=np.int32(0), element="int32")
    size = w("squeeze", x=size, element="int32")
    first, last = (n if n >= 0 else w("add", x=size, y=np.int32(n), element="int32") for n in (begin, end))
    last = size if end == 0 else last
    first, last = (np.int32(n) if isinstance(n, int) else n for n in (first, last))
    places = w("range_1d", start=first, end=last, step=np.int32(step), element="int32")
    return w("gather", x=xs[0], indices=places, axis=axis)


# Gathering and scattering.

_MODES = tuple(map(Text, ("update", "add", "sub", "mul", "div", "max", "min")))


@layer(gather=930)
def _gather(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("gather", x=xs[0], indices=w.whole(xs[1]), axis=np.int32(m.signed(1)))


@layer(gatherND=940)
def _gather_nd(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("gather_nd", x=xs[0], indices=w.whole(xs[1]))


@layer(gatherAlongAxis=952)
def _gather_along(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("gather_along_axis", x=xs[0], indices=w.whole(xs[1]), axis=np.int32(m.signed(1)))


@layer(scatter=935)
def _scatter(w: Writer, m: Message, xs: list[Value]) -> Value:
    return _scattered(w, "scatter", xs, {"axis": np.int32(m.signed(1)), "mode": _MODES[m.integer(2)]})


@layer(scatterAlongAxis=954)
def _scatter_along(w: Writer, m: Message, xs: list[Value]) -> Value:
    return _scattered(w, "scatter_along_axis", xs, {"axis": np.int32(m.signed(1)), "mode": _MODES[m.integer(2)]})


@layer(scatterND=945)
def _scatter_nd(w: Writer, m: Message, xs: list[Value]) -> Value:
    return _scattered(w, "scatter_nd", xs, {"mode": _MODES[m.integer(1)]})


def _scattered(w: Writer, kind: str, xs: list[Value], options: dict[str, Value]) -> Value:
    return w(kind, data=xs[0], indices=w.whole(xs[1]), updates=xs[2], **options)


@layer(whereNonZero=1313)
def _non_zero(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w.floats(w("non_zero", x=xs[0], element="int32"))


@layer(whereBroadcastable=1330)
def _where(w: Writer, m: Message, xs: list[Value]) -> Value:
    condition, yes, no = xs
    return w("select", cond=w.truth(condition), a=yes, b=no)


@layer(oneHot=1450)
def _one_hot(w: Writer, m: Message, xs: list[Value]) -> Value:
    if len(xs) > 1:
        raise Refused("settings that are computed are not supported.")
    values: dict[str, Any] = {"on_value": np.float32(m.number(3, 0.0)), "off_value": np.float32(m.number(4))}
    size = np.int32(m.integer(1))
    return w("one_hot", indices=w.whole(xs[0]), one_hot_vector_size=size, axis=np.int32(m.signed(2)), **values)


@layer(matrixBandPart=1315)
def _band(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("band_part", x=xs[0], lower=np.int32(m.signed(1)), upper=np.int32(m.signed(2)))


@layer(lowerTriangular=1320)
def _lower(w: Writer, m: Message, xs: list[Value]) -> Value:
    k = m.signed(1)
    if k >= 0:
        return w("band_part", x=xs[0], lower=np.int32(-1), upper=np.int32(k))
    rest = w("band_part", x=xs[0], lower=np.int32(-k - 1), upper=np.int32(-1))
    return w("sub", x=xs[0], y=rest)


@layer(upperTriangular=1325)
def _upper(w: Writer, m: Message, xs: list[Value]) -> Value:
    k = m.signed(1)
    if k <= 0:
        return w("band_part", x=xs[0], lower=np.int32(-k), upper=np.int32(-1))
    rest = w("band_part", x=xs[0], lower=np.int32(-1), upper=np.int32(k - 1))
    return w("sub", x=xs[0], y=rest)


@layer(NonMaximumSuppression=1400)
def _suppression(w: Writer, m: Message, xs: list[Value]) -> Value:
    if len(xs) > 2:
        raise Refused("settings that are computed are not supported.")
    boxes, scores, places, count = w(
        "non_maximum_suppression", outputs=4, boxes=xs[0], scores=xs[1], iou_threshold=np.float32(m.number(1)),
        score_threshold=np.float32(m.number(2)), max_boxes=np.int32(m.integer(3)), per_class_suppression=bool(m.integer(4)),
    )  # fmt: skip
    w.set_element(places, "int32")
    w.set_element(count, "int32")
    return boxes, scores, w.floats(places), w.floats(count)


# Constants.


@layer(loadConstant=290)
def _load_constant(w: Writer, m: Message, xs: list[Value]) -> Value:
    return weight(m, 2, (1, *m.integers(1)))


@layer(loadConstantND=1070)
def _load_any_constant(w: Writer, m: Message, xs: list[Value]) -> Value:
    return weight(m, 2, m.integers(1))


@layer(fillStatic=1085)
def _fill(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("fill", shape=_ints(m.integers(2)), value=np.float32(m.number(1)))


@layer(fillDynamic=1090)
def _fill_to(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("fill", shape=w.whole(xs[0]), value=np.float32(m.number(1)))


@layer(fillLike=1080)
def _fill_like(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("fill_like", ref_tensor=xs[0], value=np.float32(m.number(1)))


@layer(broadcastToStatic=1105)
def _broadcast(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("add", x=xs[0], y=w("fill", shape=_ints(m.integers(1)), value=np.float32(0)))


@layer(broadcastToDynamic=1110)
def _broadcast_to(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("add", x=xs[0], y=w("fill", shape=w.whole(xs[1]), value=np.float32(0)))


@layer(broadcastToLike=1100)
def _broadcast_like(w: Writer, m: Message, xs: list[Value]) -> Value:
    return w("add", x=xs[0], y=w("fill_like", ref_tensor=xs[1], value=np.float32(0)))


@layer(rangeStatic=635)
def _range(w: Writer, m: Message, xs: list[Value]) -> Value:
    start, end, step = m.number(2), m.number(1), m.number(3) or 1.0
    count = (end - start) / step
    if not count <= _MOST_PLACES:
        raise m.damage(f"it gives {count:g} numbers, more than {_MOST_PLACES}")
    return np.arange(start, end, step).astype(np.float32)


@layer(rangeDynamic=640)
def _range_to(w: Writer, m: Message, xs: list[Value]) -> Value:
    start, step = np.float32(m.number(2)), np.float32(m.number(3) or 1)
    given = dict(zip(("end", "start", "step"), map(w.scalar, xs), strict=False))
    return w("range_1d", **{"start": start, "step": step, **given})


# Recurrent cells, along sequences (T, N, I, 1, 1).

_CELL_ACTIVATIONS: dict[int, tuple[str, tuple[float, ...]]] = {
    5: ("linear", (1, 0)), 10: ("relu", ()), 30: ("tanh", ()), 31: ("tanh", (1, 1)), 40: ("sigmoid", ()),
    41: ("sigmoid_hard", (0.2, 0.5)),
}  # fmt: skip
"""By number: the name, and the only settings that cells of programs have."""


def _cell_activations(messages: list[Message], defaults: list[str]) -> list[Text]:
    names = []
    for message in messages:
        number = next(iter(message.fields), 0)
        if number not in _CELL_ACTIVATIONS:
            raise Refused(f"cells with the activation of number {number} are not supported.")
        name, settings = _CELL_ACTIVATIONS[number]
        held = message.message(number)
        given = [held.number(i) for i, _ in enumerate(settings, 1)]
        if held.fields and not np.allclose(given, settings, atol=1e-6):
            raise Refused(f"cells with the activation {name} of {given} are not supported, only of {list(settings)}.")
        names.append(name)
    return list(map(Text, names or defaults))


def _gates(m: Message, numbers: list[int], shape: tuple[int, ...]) -> Any:
    return np.concatenate([weight(m, number, shape) for number in numbers])


def _lstm_weights(m: Message, inputs: int, cells: int, params: Message, suffix: str) -> dict[str, Any]:
    held = {
        f"weight_ih{suffix}": _gates(m, [1, 2, 4, 3], (cells, inputs)),
        f"weight_hh{suffix}": _gates(m, [20, 21, 23, 22], (cells, cells)),
    }
    bias = _gates(m, [40, 41, 43, 42], (cells,)) if params.integer(20) else np.zeros(4 * cells, np.float32)
    if params.integer(30):
        bias[cells : 2 * cells] += 1
    held[f"bias{suffix}"] = bias
    if params.integer(40):
        held[f"peephole{suffix}"] = _gates(m, [60, 61, 62], (cells,))
    return held


@layer(uniDirectionalLSTM=420, biDirectionalLSTM=430)
def _lstm(w: Writer, m: Message, xs: list[Value]) -> Value:
    inputs, cells, params, parts = m.integer(1), m.integer(2), m.message(15), m.messages(20, "weights")
    if params.integer(50):
        raise Refused("cells whose input and forget gates are one are not supported.")
    ways = len(parts)
    acts = _cell_activations(m.messages(10), ["sigmoid", "tanh", "tanh"])
    if ways > 1 and acts != _cell_activations(m.messages(11), ["sigmoid", "tanh", "tanh"]):
        raise Refused("cells of two directions with different activations are not supported.")
    settings: dict[str, Any] = dict(zip(("recurrent_activation", "cell_activation", "activation"), acts, strict=False))
    settings["direction"] = Text("bidirectional" if ways > 1 else "reverse" if m.integer(100) else "forward")
    settings["output_sequence"] = bool(params.integer(10))
    settings["clip"] = np.float32(params.number(60)) if params.number(60) else None
    for part, suffix in zip(parts, ("", "_back"), strict=False):
        settings |= _lstm_weights(part, inputs, cells, params, suffix)
    x = _sequence(w, xs[0])
    states = [_state(w, one, cells) for one in xs[1:]] or [_zeros(w, x, cells) for _ in range(2 * ways)]
    first, second = ([states[0], states[2]], [states[1], states[3]]) if ways > 1 else ([states[0]], [states[1]])
    begin = {"initial_h": _side_by_side(w, first), "initial_c": _side_by_side(w, second)}
    y, h, c = w("lstm", outputs=3, x=x, **begin, **settings)
    ends = [part for way in zip(*(_apart(w, one, ways) for one in (h, c)), strict=True) for part in way]
    return (_with_image_axes(w, y), *(_as_state(w, one) for one in ends))


@layer(gru=410)
def _gru(w: Writer, m: Message, xs: list[Value]) -> Value:
    inputs, cells = m.integer(1), m.integer(2)
    acts = _cell_activations(m.messages(10), ["sigmoid", "tanh"])
    x = _sequence(w, xs[0])
    y, h = w(
        "gru", outputs=2, x=x, initial_h=_state(w, xs[1], cells) if len(xs) > 1 else _zeros(w, x, cells),
        weight_ih=_gates(m, [31, 32, 30], (cells, inputs)), weight_hh=_gates(m, [51, 52, 50], (cells, cells)),
        bias=_gates(m, [71, 72, 70], (cells,)) if m.integer(20) else None, recurrent_activation=acts[0],
        activation=acts[1], output_sequence=bool(m.integer(15)),
        direction=Text("reverse" if m.integer(100) else "forward"),
    )  # fmt: skip
    return _with_image_axes(w, y), _as_state(w, h)


@layer(simpleRecurrent=400)
def _recurrent(w: Writer, m: Message, xs: list[Value]) -> Value:
    inputs, cells = m.integer(1), m.integer(2)
    x = _sequence(w, xs[0])
    y, h = w(
        "rnn", outputs=2, x=x, initial_h=_state(w, xs[1], cells) if len(xs) > 1 else _zeros(w, x, cells),
        weight_ih=weight(m, 30, (cells, inputs)), weight_hh=weight(m, 31, (cells, cells)),
        bias=weight(m, 32, (cells,)) if m.integer(20) else None,
        activation=_cell_activations(m.messages(10), ["tanh"])[0], output_sequence=bool(m.integer(15)),
        direction=Text("reverse" if m.integer(100) else "forward"),
    )  # fmt: skip
    return _with_image_axes(w, y), _as_state(w, h)


def _sequence(w: Writer, x: Value) -> Value:
    return w("squeeze", x=x, axes=_ints([-2, -1]))


def _state(w: Writer, state: Value, cells: int) -> Value:
    return w("reshape", x=state, shape=_ints([-1, cells]))


def _zeros(w: Writer, x: Value, cells: int) -> Value:
    """A state of zeros for as many samples as a sequence has."""
    samples = w("gather", x=w("shape", x=x, element="int32"), indices=_ints([1]), axis=np.int32(0), element="int32")
    shape = w("concat", values=[samples, _ints([cells])], axis=np.int32(0), interleave=False, element="int32")
    return w("fill", shape=shape, value=np.float32(0))


def _side_by_side(w: Writer, states: list[Value]) -> Value:
    return states[0] if len(states) == 1 else w("concat", values=states, axis=np.int32(1), interleave=False)


def _apart(w: Writer, state: Value, ways: int) -> tuple[Value, ...]:
    if ways == 1:
        return (state,)
    parts: tuple[Value, ...] = w("split", outputs=ways, x=state, num_splits=np.int32(ways), axis=np.int32(1))
    return parts


def _with_image_axes(w: Writer, y: Value) -> Value:
    return w("expand_dims", x=y, axes=_ints([-2, -1]))


def _as_state(w: Writer, h: Value) -> Value:
    return w("expand_dims", x=h, axes=_ints([0, -2, -1]))
