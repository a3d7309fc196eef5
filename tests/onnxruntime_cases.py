"""Operators of onnxruntime, and quantized ones: small models, and what they compute as a formula in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

RANDOM = np.random.RandomState(1)
MICROSOFT = "com.microsoft"


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def whole(*shape: int, kind: Any = np.uint8) -> Any:
    limits = np.iinfo(kind)
    return RANDOM.randint(limits.min, limits.max + 1, shape).astype(kind)


@dataclass
class Case:
    """One node. ``inputs`` are those of the model, ``weights`` its initializers; ``order`` names them for the node."""

    op: str
    order: str
    inputs: dict[str, Any]
    weights: dict[str, Any]
    formula: Callable[..., Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: str = "y"
    domain: str = MICROSOFT
    kind: int = TensorProto.FLOAT
    kinds: dict[str, int] = field(default_factory=dict)  # of other results
    steps: float = 0.0  # that results of whole numbers may differ by
    error: float = 2e-5
    trains: bool = True

    def __str__(self) -> str:
        return self.op

    def write(self, path: Path) -> Path:
        inner = [name if name != "_" else "" for name in self.order.split()]
        outputs = [name if name != "_" else "" for name in self.outputs.split()]
        node = helper.make_node(self.op, inner, outputs, name="node", domain=self.domain, **self.attributes)
        kinds = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in self.inputs.items()}
        graph = helper.make_graph(
            [node], "graph",
            [helper.make_tensor_value_info(name, kinds[name], x.shape) for name, x in self.inputs.items()],
            [helper.make_tensor_value_info(name, self.kinds.get(name, self.kind), None) for name in outputs if name],
            [onnx.numpy_helper.from_array(np.asarray(x), name) for name, x in self.weights.items()],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)])
        model.ir_version = 8
        path.write_bytes(model.SerializeToString())
        return path

    def expected(self) -> list[Any]:
        result = self.formula(**self.inputs, **self.weights)
        return list(result) if isinstance(result, tuple) else [result]


def erf(x: Any) -> Any:
    return np.vectorize(math.erf)(x)


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def fast_gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normalized(x: Any, eps: float = 1e-5) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def rms(x: Any, eps: float = 1e-5) -> Any:
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + eps)


def convolved(x: Any, w: Any) -> Any:
    """A convolution with padding 1."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64))


def steps(x: Any, scale: Any, zero: Any) -> Any:
    """Numbers as whole ones around a zero point."""
    limits = np.iinfo(np.asarray(zero).dtype)
    return np.clip(np.rint(x / scale) + zero.astype(int), limits.min, limits.max)


def real(x: Any, scale: Any, zero: Any) -> Any:
    return (x.astype(np.float64) - np.asarray(zero).astype(int)) * scale


def heads(x: Any, count: int) -> Any:
    n, t, width = x.shape
    return x.reshape(n, t, count, width // count).transpose(0, 2, 1, 3)


def together(x: Any) -> Any:
    n, h, t, width = x.shape
    return x.transpose(0, 2, 1, 3).reshape(n, t, h * width)


def attend(q: Any, k: Any, v: Any, added: Any = 0.0) -> Any:
    return softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1]) + added) @ v


def own_attention(count: int, causal: bool = False) -> Any:
    def formula(x: Any, w: Any, b: Any, mask: Any = None, past: Any = None) -> Any:
        q, k, v = (heads(part, count) for part in np.split(x @ w + b, 3, -1))
        before = 0
        if past is not None:
            before = past.shape[3]
            k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
        added: Any = 0.0
        if mask is not None and mask.ndim == 1:
            added = np.where(np.arange(k.shape[2]) < mask[:, None], 0, -10000.0)[:, None, None]
        elif mask is not None:
            added = (1.0 - mask)[:, None, None] * -10000.0
        if causal:
            added = added + np.where(np.arange(q.shape[2])[:, None] + before < np.arange(k.shape[2]), -np.inf, 0)
        return (together(attend(q, k, v, added)), *([] if past is None else [np.stack([k, v])]))

    return formula


def two(function: Any) -> Any:
    def formula(a: Any, sa: Any, za: Any, b: Any, sb: Any, zb: Any, sy: Any, zy: Any) -> Any:
        return steps(function(real(a, sa, za), real(b, sb, zb)), sy, zy)

    return formula


def one(function: Any) -> Any:
    return lambda x, sx, zx, sy, zy: steps(function(real(x, sx, zx)), sy, zy)


def rotated(interleaved: bool) -> Any:
    def formula(x: Any, p: Any, c: Any, s: Any) -> Any:
        y, half = heads(x, 2), c.shape[1]
        a, b = (y[..., ::2], y[..., 1::2]) if interleaved else (y[..., :half], y[..., half:])
        cos, sin = c[p][:, None], s[p][:, None]
        parts = [a * cos - b * sin, a * sin + b * cos]
        return together(np.stack(parts, -1).reshape(y.shape) if interleaved else np.concatenate(parts, -1))

    return formula


def grouped(count: int, fewer: int, rotary: bool) -> Any:
    def formula(q: Any, k: Any, v: Any, pk: Any, pv: Any, n: Any, t: Any, c: Any = None, s: Any = None) -> Any:
        a, b, d, before = heads(q, count), heads(k, fewer), heads(v, fewer), pk.shape[2]
        if rotary:
            half, cos, sin = c.shape[1], c[before : before + q.shape[1]], s[before : before + q.shape[1]]
            a, b = (
                np.concatenate(
                    [x[..., :half] * cos - x[..., half:] * sin, x[..., :half] * sin + x[..., half:] * cos], -1
                )
                for x in (a, b)
            )
        b, d = np.concatenate([pk, b], 2), np.concatenate([pv, d], 2)
        hidden = np.where(np.arange(a.shape[2])[:, None] + before < np.arange(b.shape[2]), -np.inf, 0)
        return together(attend(a, *(np.repeat(x, count // fewer, 1) for x in (b, d)), hidden)), b, d

    return formula


def embedded(ids: Any, seg: Any, w: Any, p: Any, s: Any, g: Any, b: Any, mask: Any) -> Any:
    x = w[ids] + p[: ids.shape[1]] + s[seg]
    return normalized(x, 1e-12) * g + b, mask.sum(1)


def lstm(x: Any, w: Any, r: Any, b: Any, sw: Any, zw: Any, sr: Any, zr: Any) -> Any:
    weight, recurrent = real(w[0], sw[0], zw[0]), real(r[0], sr[0], zr[0])
    h = c = np.zeros((x.shape[1], recurrent.shape[0]))
    rows = []
    for step in x:
        i, o, f, g = np.split(step @ weight + h @ recurrent + b[0].reshape(2, -1).sum(0), 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        rows.append(h)
    return np.stack(rows)[:, None]


def packed(numbers: Any, bits: int) -> Any:
    parts = numbers.reshape(*numbers.shape[:-1], -1, 8 // bits).astype(np.uint8)
    return np.bitwise_or.reduce([parts[..., i] << (bits * i) for i in range(8 // bits)]).astype(np.uint8)


def few_bits(bits: int, zeros: bool) -> Case:
    n, blocks, size = 6, 3, 16
    numbers, scales = RANDOM.randint(0, 2**bits, (n, blocks, size)), np.abs(floats(n, blocks)) / 2**bits
    shift = RANDOM.randint(0, 2**bits, (n, 4)) if zeros else np.full((n, 4), 2 ** (bits - 1))
    matrix = ((numbers - shift[:, :blocks, None]) * scales[..., None]).reshape(n, -1)[:, :40]
    weights = {"w": packed(numbers, bits), "s": scales.reshape(-1).astype(np.float32)}
    weights |= {"z": packed(shift, bits)[:, : -(-blocks * bits // 8)].reshape(-1)} if zeros else {}
    return Case(
        "MatMulNBits", "x w s z" if zeros else "x w s", {"x": floats(2, 5, 40)}, weights, lambda x, **_: x @ matrix.T,
        {"K": 40, "N": n, "bits": bits, "block_size": size}, error=2e-4,
    )  # fmt: skip


S, Z = np.float32, np.array
U8, I8 = TensorProto.UINT8, TensorProto.INT8


def cases() -> list[Case]:
    """All of them, on the same numbers every time."""
    RANDOM.seed(1)
    add_two = {
        "sa": S(0.02),
        "za": Z(120, np.uint8),
        "sb": S(0.05),
        "zb": Z(3, np.uint8),
        "sy": S(0.06),
        "zy": Z(7, np.uint8),
    }
    map_one = {"sx": S(0.03), "zx": Z(128, np.uint8), "sy": S(0.02), "zy": Z(100, np.uint8)}
    two_of = {"a": whole(2, 3, 5), "b": whole(3, 5)}
    order_two, order_one = "a sa za b sb zb sy zy", "x sx zx sy zy"
    conv = {"w": floats(4, 3, 3, 3), "b": floats(4)}
    attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    own = {"w": 0.3 * floats(6, 12), "b": floats(12)}
    eight = {"sx": S(0.02), "zx": Z(110, np.uint8), "sy": S(0.4), "zy": Z(90, np.uint8)}
    relu = lambda x: np.maximum(x, 0)  # noqa: E731
    return [
        Case("FusedConv", "x w b", {"x": floats(2, 3, 6, 5)}, conv,
             lambda x, w, b: relu(convolved(x, w) + b[:, None, None]), {**attributes, "activation": "Relu"}),
        Case("FusedConv", "x w b z", {"x": floats(2, 3, 6, 5), "z": floats(2, 4, 6, 5)}, conv,
             lambda x, w, b, z: relu(convolved(x, w) + b[:, None, None] + z), {**attributes, "activation": "Relu"}),
        Case("FusedConv", "x w b", {"x": floats(2, 3, 6, 5)}, conv,
             lambda x, w, b: (lambda y: np.where(y > 0, y, 0.2 * y))(convolved(x, w) + b[:, None, None]),
             {**attributes, "activation": "LeakyRelu", "activation_params": [0.2]}),
        Case("FusedConv", "x w b", {"x": floats(2, 3, 6, 5)}, conv,
             lambda x, w, b: np.clip(convolved(x, w) + b[:, None, None], -1, 2),
             {**attributes, "activation": "Clip", "activation_params": [-1.0, 2.0]}),
        Case("FusedGemm", "x w b", {"x": floats(5, 3)}, {"w": floats(4, 3), "b": floats(4)},
             lambda x, w, b: relu(0.5 * x @ w.T + b), {"transB": 1, "alpha": 0.5, "activation": "Relu"}),
        Case("FusedMatMul", "a b", {"a": floats(2, 3, 4), "b": floats(2, 5, 4)}, {},
             lambda a, b: 0.25 * a @ b.transpose(0, 2, 1), {"alpha": 0.25, "transB": 1}),
        Case("FusedMatMul", "a b", {"a": floats(2, 4, 3), "b": floats(2, 4, 5)}, {},
             lambda a, b: a.transpose(0, 2, 1) @ b, {"transA": 1}),
        Case("FusedMatMul", "a b", {"a": floats(3, 2, 4), "b": floats(2, 4, 5)}, {},
             lambda a, b: a.transpose(1, 0, 2) @ b, {"transBatchA": 1}),
        Case("Gelu", "x", {"x": floats(3, 7)}, {}, gelu),
        Case("BiasGelu", "x b", {"x": floats(3, 7)}, {"b": floats(7)}, lambda x, b: gelu(x + b)),
        Case("FastGelu", "x b", {"x": floats(3, 7)}, {"b": floats(7)}, lambda x, b: fast_gelu(x + b)),
        Case("FastGelu", "x", {"x": floats(3, 7)}, {}, fast_gelu),
        Case("QuickGelu", "x", {"x": floats(3, 7)}, {}, lambda x: x * sigmoid(1.3 * x), {"alpha": 1.3}),
        Case("SimplifiedLayerNormalization", "x w", {"x": floats(3, 4, 7)}, {"w": floats(7)},
             lambda x, w: rms(x, 1e-4) * w, {"epsilon": 1e-4, "axis": -1}, domain=""),
        Case("SkipLayerNormalization", "x s g b c", {"x": floats(3, 4, 8), "s": floats(3, 4, 8)},
             {"g": floats(8), "b": floats(8), "c": floats(8)},
             lambda x, s, g, b, c: (normalized(x + s + c) * g + b, x + s + c), {"epsilon": 1e-5}, "y _ _ z"),
        Case("SkipLayerNormalization", "x s g", {"x": floats(3, 4, 8), "s": floats(3, 4, 8)}, {"g": floats(8)},
             lambda x, s, g: normalized(x + s, 1e-12) * g),
        Case("SkipSimplifiedLayerNormalization", "x s g", {"x": floats(3, 4, 8), "s": floats(3, 4, 8)}, {"g": floats(8)},
             lambda x, s, g: (rms(x + s) * g, x + s), {"epsilon": 1e-5}, "y _ _ z"),
        Case("EmbedLayerNormalization", "ids seg w p s g b mask",
             {"ids": RANDOM.randint(0, 9, (3, 5)).astype(np.int32), "seg": RANDOM.randint(0, 2, (3, 5)).astype(np.int32),
              "mask": np.array([[1] * 5, [1] * 3 + [0] * 2, [1] + [0] * 4], np.int32)},
             {"w": floats(9, 8), "p": floats(6, 8), "s": floats(2, 8), "g": floats(8), "b": floats(8)}, embedded,
             outputs="y counts", kinds={"counts": TensorProto.INT32}),
        Case("Attention", "x w b", {"x": floats(2, 5, 6)}, own, own_attention(2), {"num_heads": 2}),
        Case("Attention", "x w b mask", {"x": floats(2, 5, 6), "mask": np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32)}, own,
             own_attention(2), {"num_heads": 2}),
        Case("Attention", "x w b mask", {"x": floats(2, 5, 6), "mask": np.array([3, 5], np.int32)}, own, own_attention(2),
             {"num_heads": 2}),
        Case("Attention", "x w b _ past", {"x": floats(2, 5, 6), "past": floats(2, 2, 2, 3, 2)}, own, own_attention(2, True),
             {"num_heads": 2, "unidirectional": 1}, "y present"),
        Case("MultiHeadAttention", "q k v b", {"q": floats(2, 4, 6), "k": floats(2, 5, 6), "v": floats(2, 5, 6)},
             {"b": floats(18)},
             lambda q, k, v, b: together(attend(*(heads(x + c, 3) for x, c in zip((q, k, v), np.split(b, 3), strict=True)))),
             {"num_heads": 3}),
        Case("MultiHeadAttention", "q k v _ mask bias",
             {"q": floats(2, 4, 6), "k": floats(2, 5, 6), "v": floats(2, 5, 6), "bias": floats(1, 3, 4, 5),
              "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)}, {},
             lambda q, k, v, bias, mask: together(
                 attend(*(heads(x, 3) for x in (q, k, v)), bias + (1.0 - mask)[:, None, None] * -10000.0)),
             {"num_heads": 3}),
        Case("RotaryEmbedding", "x p c s", {"x": floats(2, 4, 12), "p": np.array([[0, 1, 2, 3], [4, 5, 6, 7]])},
             {"c": floats(8, 3), "s": floats(8, 3)}, rotated(False), {"num_heads": 2}),
        Case("RotaryEmbedding", "x p c s", {"x": floats(2, 4, 12), "p": np.array([[0, 1, 2, 3], [4, 5, 6, 7]])},
             {"c": floats(8, 3), "s": floats(8, 3)}, rotated(True), {"num_heads": 2, "interleaved": 1}),
        *(
            Case("GroupQueryAttention", f"q k v pk pv n t {'c s' if turns else ''}",
                 {"q": floats(samples, length, 64), "k": floats(samples, length, 32), "v": floats(samples, length, 32),
                  "pk": floats(samples, 2, past, 16), "pv": floats(samples, 2, past, 16)},
                 {"n": np.full(samples, past + length - 1, np.int32), "t": np.int32(past + length)}
                 | ({"c": floats(16, 8), "s": floats(16, 8)} if turns else {}),
                 grouped(4, 2, turns), {"num_heads": 4, "kv_num_heads": 2, "do_rotary": int(turns)}, "y pk2 pv2")
            for samples, length, past, turns in ((2, 1, 5, False), (1, 3, 4, True))
        ),
        few_bits(4, False), few_bits(4, True), few_bits(8, False),
        Case("DynamicQuantizeMatMul", "a b s z", {"a": floats(3, 6)},
             {"b": whole(6, 4), "s": S([0.01]), "z": Z([130], np.uint8)},
             lambda a, b, s, z: (lambda scale, zero: (steps(a, scale, zero) - zero) * scale @ real(b, s, z))(
                 *(lambda low, high: ((high - low) / 255, np.rint(-low / (high - low) * 255).astype(np.uint8)))(
                     min(a.min(), 0), max(a.max(), 0))), error=1e-4, trains=False),
        Case("MatMulIntegerToFloat", "a b sa sb za zb c", {"a": whole(3, 6)},
             {"b": whole(6, 4, kind=np.int8), "sa": S(0.02), "sb": np.abs(floats(4)) / 50, "za": Z(100, np.uint8),
              "zb": Z(0, np.int8), "c": floats(4)},
             lambda a, b, sa, sb, za, zb, c: real(a, sa, za) @ real(b, sb, zb) + c, trains=False, error=1e-4),
        Case("DynamicQuantizeLSTM", "x w r b _ _ _ _ sw zw sr zr", {"x": floats(5, 2, 3)},
             {"w": whole(1, 3, 16), "r": whole(1, 4, 16), "b": floats(1, 32), "sw": S([0.01]), "zw": Z([128], np.uint8),
              "sr": S([0.01]), "zr": Z([128], np.uint8)}, lstm, {"hidden_size": 4}, error=3e-2, trains=False),
        Case("QAttention", "x w b sx sw _ zx zw", {"x": whole(2, 5, 6)},
             {"w": whole(6, 12), "b": floats(12), "sx": S(0.01), "sw": S(0.005), "zx": Z(128, np.uint8), "zw": Z(120, np.uint8)},
             lambda x, w, b, sx, sw, zx, zw: own_attention(2)(real(x, sx, zx), real(w, sw, zw), b), {"num_heads": 2},
             trains=False),
        Case("QLinearConv", "x sx zx w sw zw sy zy b", {"x": whole(2, 3, 6, 5)},
             {"w": whole(4, 3, 3, 3, kind=np.int8), "sw": np.abs(floats(4)) / 100, "zw": np.zeros(4, np.int8),
              "b": RANDOM.randint(-3000, 3000, 4).astype(np.int32), **eight},
             lambda x, sx, zx, w, sw, zw, sy, zy, b: steps(
                 (convolved(x.astype(int) - zx, w) + b[:, None, None]) * (sx * sw)[:, None, None], sy, zy),
             attributes, domain="", kind=U8, steps=1),
        Case("QLinearMatMul", "x sx zx w sw zw sy zy", {"x": whole(3, 6)},
             {"w": whole(6, 4), "sw": S(0.03), "zw": Z(99, np.uint8), **eight},
             lambda x, sx, zx, w, sw, zw, sy, zy: steps(real(x, sx, zx) @ real(w, sw, zw), sy, zy),
             domain="", kind=U8, steps=1),
        Case("QGemm", "x sx zx w sw zw b sy zy", {"x": whole(3, 6)},
             {"w": whole(4, 6, kind=np.int8), "sw": np.abs(floats(4)) / 50, "zw": np.zeros(4, np.int8),
              "b": RANDOM.randint(-3000, 3000, 4).astype(np.int32), **eight},
             lambda x, sx, zx, w, sw, zw, b, sy, zy: steps(((x.astype(int) - zx) @ w.T.astype(int) + b) * sx * sw, sy, zy),
             {"transB": 1}, kind=U8, steps=1),
        Case("ConvInteger", "x w z", {"x": whole(2, 3, 6, 5)}, {"w": whole(4, 3, 3, 3), "z": Z(7, np.uint8)},
             lambda x, w, z: convolved(x.astype(int) - z, w), attributes, domain="", kind=TensorProto.INT32, trains=False),
        Case("MatMulInteger", "x w z v", {"x": whole(3, 6)}, {"w": whole(6, 4), "z": Z(7, np.uint8), "v": Z(9, np.uint8)},
             lambda x, w, z, v: (x.astype(int) - z) @ (w.astype(int) - v), domain="", kind=TensorProto.INT32, trains=False),
        Case("QLinearAdd", order_two, two_of, add_two, two(np.add), kind=U8, steps=1),
        Case("QLinearMul", order_two, two_of, add_two, two(np.multiply), kind=U8, steps=1),
        Case("QLinearSigmoid", order_one, {"x": whole(3, 7)}, map_one, one(sigmoid), kind=U8, steps=1),
        Case("QLinearLeakyRelu", order_one, {"x": whole(3, 7)}, map_one, one(lambda x: np.where(x > 0, x, 0.1 * x)),
             {"alpha": 0.1}, kind=U8, steps=1),
        Case("QLinearGlobalAveragePool", order_one, {"x": whole(2, 3, 5, 4)}, map_one,
             one(lambda x: x.mean((2, 3), keepdims=True)), {"channels_last": 0}, kind=U8, steps=1),
        Case("QLinearAveragePool", order_one, {"x": whole(2, 3, 6, 4)}, map_one,
             one(lambda x: x.reshape(2, 3, 3, 2, 2, 2).mean((3, 5))), {"kernel_shape": [2, 2], "strides": [2, 2]}, kind=U8,
             steps=1),
        Case("QLinearSoftmax", order_one, {"x": whole(3, 7)}, {**map_one, "sy": S(1 / 256), "zy": Z(0, np.uint8)},
             one(softmax), {"axis": -1, "opset": 13}, kind=U8, steps=1),
        Case("QLinearConcat", "sy zy a sa za b sb zb", {"a": whole(2, 3), "b": whole(2, 4)}, add_two,
             lambda a, b, sa, za, sb, zb, sy, zy: steps(np.concatenate([real(a, sa, za), real(b, sb, zb)], 1), sy, zy),
             {"axis": 1}, kind=U8, steps=1),
        Case("DynamicQuantizeLinear", "x", {"x": floats(3, 7)}, {},
             lambda x: (lambda scale, zero: (steps(x, scale, zero), scale, zero))(
                 *(lambda low, high: ((high - low) / 255, np.rint(-low / (high - low) * 255).astype(np.uint8)))(
                     min(x.min(), 0), max(x.max(), 0))), domain="", kind=U8, outputs="y s z", steps=1,
             kinds={"s": TensorProto.FLOAT}),
    ]  # fmt: skip


CASES = cases()


def check(net: Any, case: Case, expected: list[Any]) -> None:
    outputs = net(*case.inputs.values())
    for y, wanted in zip(outputs if isinstance(outputs, tuple) else [outputs], expected, strict=True):
        assert y.shape == wanted.shape
        if case.steps and y.ndim:  # a half may be rounded either way
            difference = np.abs(y - wanted.astype(np.float64))
            assert difference.max() <= case.steps and (difference > 0).mean() < 0.1 and len(np.unique(y)) > 3
        else:
            np.testing.assert_allclose(y, wanted, case.error, case.error)
