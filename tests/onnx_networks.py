"""Networks that become ONNX files, with the shapes of their samples; and what ONNX says that a file computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from openbnns import nn
from openbnns.nn import functional as F
from openbnns.nn.recording import recorded_graph


class Residual(nn.Module):
    """Branches, broadcasting, parts, reductions, parameters of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv1d(3, 4, 3, padding=1), nn.Linear(4, 2)
        self.scale = nn.Parameter(np.linspace(0.5, 1.5, 4).astype(np.float32)[:, None])
        self.prelu = nn.PReLU(4)

    def forward(self, x: Any) -> Any:
        y = self.prelu(self.first(x) * self.scale)
        a, b = F.split(y, 2, dim=1)
        y = F.cat([F.tanh(a) + 0.5, F.maximum(b, a / 3.0)], dim=1)
        y = y[:, :, 1:-1:2] - F.mean(y, dim=(1, 2), keepdim=True)
        weights = F.softmax(y, dim=1)
        pooled = F.sum(weights * F.exp(-F.square(y)), dim=2)
        return self.last(F.normalize(pooled) + F.rsqrt(F.abs(pooled) + 1.0))


class Attending(nn.Module):
    """Attention of queries, keys and values that come out of one product, with and without a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        q, k, v = F.split(self.qkv(x), 8, dim=2)
        q, k, v = (F.transpose(y.reshape(x.shape[0], 5, 2, 4), 1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(F.transpose(y, 1, 2).reshape(x.shape[0], 5, 8))


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.place = nn.Embedding(11, 6), nn.SinusoidalEncoding(6)
        self.rms, self.last = nn.RMSNorm(6), nn.Linear(6, 3, bias=False)

    def forward(self, tokens: Any) -> Any:
        return self.last(self.rms(self.place(self.table(tokens)))).mean(1)


class States(nn.Module):
    """Recurrent layers with states and lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru, self.rnn = (
            nn.LSTM(3, 4, bidirectional=True),
            nn.GRU(8, 5),
            nn.RNN(5, 5),
        )

    def forward(self, x: Any, lengths: Any) -> Any:
        y, (h, _) = self.lstm(x, lengths=lengths)
        y, last = self.gru(y)
        y, _ = self.rnn(y, last)
        return y, h[-1]


def _sequential(*layers: nn.Module) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(*layers)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Dropout(0.3), nn.Linear(9, 3), nn.LogSoftmax()), (7,)),
    "convolution": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, groups=2),
            nn.GroupNorm(2, 4), nn.SiLU(), nn.AvgPool2d(2, padding=1), nn.Flatten(), nn.Linear(3),
        ),
        (2, 19, 17),
    ),
    "transposed": (
        lambda: nn.Sequential(
            nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1), nn.InstanceNorm2d(4), nn.LeakyReLU(0.2),
            nn.ConvTranspose2d(4, 2, 2, stride=2, bias=False), nn.Upsample(scale_factor=2), nn.PixelUnshuffle(2),
            nn.PixelShuffle(2), nn.ReflectionPad2d(1), nn.Upsample((9, 7), mode="bilinear"), nn.Sigmoid(),
        ),
        (3, 4, 5),
    ),
    "grouped": (
        lambda: nn.Sequential(nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, groups=2), nn.Conv2d(6, 4, 3, groups=2)),
        (4, 5, 6),
    ),
    "pooling": (
        lambda: nn.Sequential(
            nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.AvgPool2d(2, 2, ceil_mode=True), nn.LPPool2d(2, 2, 1),
            nn.AdaptiveAvgPool2d((2, 3)), nn.Dropout2d(0.5), nn.GlobalAvgPool2d(),
        ),
        (3, 22, 21),
    ),
    "activations": (
        lambda: nn.Sequential(
            nn.Linear(6, 6), nn.GELU(), nn.GELU("tanh"), nn.ELU(), nn.SELU(), nn.CELU(0.7), nn.Hardswish(), nn.Hardsigmoid(),
            nn.Softplus(2.0), nn.Softsign(), nn.Tanhshrink(), nn.LogSigmoid(), nn.Mish(), nn.ReLU6(), nn.Hardtanh(-0.5, 2.0),
            nn.Softshrink(0.01), nn.Hardshrink(0.02), nn.Threshold(0.05, 0.01), nn.GLU(),
        ),
        (6,),
    ),
    "expressions": (Residual, (3, 9)),
    "transformer": (
        lambda: nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1), nn.LayerNorm(8), nn.Linear(3)), (5, 8),
    ),
    "attention": (Attending, (5, 8)),
    "tokens": (Tokens, (7,)),
    "recurrent": (States, ((6, 3), ())),
    "lstm": (lambda: nn.Sequential(nn.LSTM(3, 4, num_layers=2, dropout=0.2), nn.Linear(2)), (6, 3)),
}  # fmt: skip


def make(name: str) -> tuple[nn.Module, list[Any]]:
    """A network with weights, and a batch for it."""
    build, shapes = NETWORKS[name]
    shapes = shapes if shapes and isinstance(shapes[0], tuple) else (shapes,)
    net = build().build(*shapes, seed=1)
    random = np.random.RandomState(0)
    samples = []
    for value in recorded_graph(net).inputs:  # type: ignore[union-attr]
        whole = value.dtype == np.int64
        samples.append(
            random.randint(1, 6, (3, *value.shape[1:])) if whole else random.standard_normal((3, *value.shape[1:]))
        )
    for _, part in net.named_state():
        if isinstance(part, np.ndarray) and part.ndim == 1:  # moving statistics as after some training
            part[...] = random.rand(*part.shape) + 0.5
    return net.eval(), [x if x.dtype == np.int64 else x.astype(np.float32) for x in samples]


def as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


BEYOND_REFERENCE = {"grouped", "recurrent"}
"""Operators that ONNX's own evaluator computes wrongly: transposed convolutions in groups, sequences of different lengths."""


def by_reference(path: Path, samples: list[Any]) -> list[Any]:
    """Outputs of ONNX's own evaluator."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(path))
    return evaluator.run(None, dict(zip(evaluator.input_names, samples, strict=True)))  # type: ignore[no-any-return]


FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64

RANDOM = np.random.RandomState(0)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def write(
    path: Path, nodes: list[Any], inputs: dict[str, Any], outputs: list[str], weights: dict[str, Any] | None = None,
    opset: int = 21, kinds: dict[str, int] | None = None,
) -> Path:  # fmt: skip
    """A model of these nodes; shapes of inputs may have names."""
    kinds = kinds or {}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, kinds.get(name, FLOAT), shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, kinds.get(name, FLOAT), None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 10
    path.write_bytes(model.SerializeToString())
    return path


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), name=f"{op}_{outputs.split()[0]}", **attributes)


BOOL, FLOAT, INT64 = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT64


def info(name: str, kind: int = FLOAT, shape: Any = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def graph(nodes: list[Any], outputs: list[Any], inputs: Any = (), weights: dict[str, Any] | None = None) -> Any:
    """A branch, or the body of a loop."""
    arrays = [onnx.numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    return helper.make_graph(nodes, "inner", list(inputs), outputs, arrays)


def branching(path: Path, same: bool, state: str = "w") -> Path:
    """x w or x w_ and a sum, by the sign of the sum of all; with ``same`` both have the same shape."""
    then = graph([node("MatMul", "x w", "a"), node("Tanh", "a", "t")], [info("t")], weights={"w": floats(3, 4)})
    other = [node("MatMul", f"x {state}", "b"), node("Mul", "b two", "e")]
    if not same:
        other[-1] = node("Concat", "b b", "e", axis=0)
    nodes = [
        node("ReduceSum", "x", "s", keepdims=0), node("Greater", "s zero", "c"),
        node("If", "c", "y", then_branch=then, else_branch=graph(other, [info("e")], weights={"w": floats(3, 4)})),
    ]  # fmt: skip
    return write(path, nodes, {"x": ["N", 3]}, ["y"], {"zero": np.float32(0), "two": np.float32(2)})


def looping(path: Path, steps: Any, condition: bool, given: dict[str, Any] | None = None) -> Any:
    """x w, tanh, again and again; the norm of each step is kept. With a condition it ends when the norm is below 1.

    Gives a function that computes the same: the evaluator of ONNX makes rows of norms that are single numbers.
    """
    body = [
        node("MatMul", "h w", "p"), node("Tanh", "p", "g"), node("ReduceSumSquare", "g", "n", keepdims=0),
        node("Greater", "n one", "goes_on") if condition else node("Identity", "before", "goes_on"),
    ]  # fmt: skip
    inner = graph(
        body, [info("goes_on", BOOL), info("g"), info("n", FLOAT, [])],
        [info("i", INT64, []), info("before", BOOL, []), info("h")], {"one": np.float32(1)},
    )  # fmt: skip
    nodes = [node("Loop", f"{steps} yes x", "y norms", body=inner), node("ReduceSum", "norms", "z", keepdims=0)]
    held = {"w": 0.3 * floats(3, 3), "yes": np.array(True), "four": np.int64(4)} | (given or {})
    inputs: dict[str, Any] = {"x": ["N", 3]} | ({"steps": []} if steps == "steps" else {})
    write(path, nodes, inputs, ["y", "norms", "z"], held, kinds={"steps": INT64})

    def compute(x: Any, count: Any = 4) -> Any:
        norms: list[Any] = []
        for _ in range(int(count)):
            x = np.tanh(x @ held["w"])
            norms.append(np.square(x).sum())
            if condition and norms[-1] <= 1:
                break
        return x, np.float32(norms), np.sum(norms)

    return compute
