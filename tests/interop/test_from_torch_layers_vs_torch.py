"""Every module of ``torch.nn`` that ``nn.from_torch`` takes over, in random configurations."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openbnns.interop.torch._layers import KINDS
from torch_networks import T, check, floats, tokens, torch

pytestmark = pytest.mark.peers

Draw = Any  # a generator of random choices
Made = tuple[Any, tuple[Any, ...]]
LAYERS: dict[str, Callable[[Draw], Made]] = {}


class Draws:
    """Random choices of a configuration."""

    def __init__(self, name: str, number: int) -> None:
        self.rng = np.random.default_rng(zlib.crc32(name.encode()) + number)

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def one(self, *given: Any) -> Any:
        return given[self.number(0, len(given) - 1)]

    def real(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def flag(self) -> bool:
        return bool(self.number(0, 1))


def layer(*names: str) -> Any:
    def register(make: Callable[..., Made]) -> Any:
        for name in names:
            LAYERS[name] = lambda d, name=name: make(name, d)
        return make

    return register


def anywhere(d: Draws) -> Any:
    """An input of any rank."""
    return floats(*(d.number(2, 4) for _ in range(d.number(2, 4))), seed=d.number(0, 99))


@layer(
    "Identity", "ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Sigmoid", "LogSigmoid", "Tanh", "Softsign", "Tanhshrink", "Hardswish",
    "Hardsigmoid",
)  # fmt: skip
def plain(name: str, d: Draws) -> Made:
    return getattr(T, name)(), (3 * anywhere(d),)


@layer("LeakyReLU", "ELU", "CELU", "Softshrink", "Hardshrink")
def with_number(name: str, d: Draws) -> Made:
    return getattr(T, name)(d.real(0.1, 1.5)), (3 * anywhere(d),)


@layer("GELU")
def gelu(name: str, d: Draws) -> Made:
    return T.GELU(approximate=d.one("none", "tanh")), (3 * anywhere(d),)


@layer("Softplus")
def softplus(name: str, d: Draws) -> Made:
    return T.Softplus(beta=d.real(0.5, 2), threshold=d.one(20, 30, 0.5)), (3 * anywhere(d),)


@layer("Hardtanh")
def hardtanh(name: str, d: Draws) -> Made:
    return T.Hardtanh(d.real(-2, -0.5), d.real(0.5, 2), inplace=d.flag()), (3 * anywhere(d),)


@layer("Threshold")
def threshold(name: str, d: Draws) -> Made:
    return T.Threshold(d.real(-1, 1), d.real(-5, 5)), (3 * anywhere(d),)


@layer("Dropout")
def dropout(name: str, d: Draws) -> Made:
    return T.Dropout(float(d.flag()), inplace=d.flag()), (anywhere(d),)


@layer("PReLU")
def prelu(name: str, d: Draws) -> Made:
    x = anywhere(d)
    module = T.PReLU(d.one(1, x.shape[1]), init=d.real(-0.5, 0.5))
    return module, (x,)


@layer("GLU", "Softmax", "LogSoftmax", "Softmin")
def along(name: str, d: Draws) -> Made:
    shape = [2 * d.number(1, 3) for _ in range(d.number(2, 4))]
    axis = d.number(1, len(shape) - 1)
    return getattr(T, name)(dim=d.one(axis, axis - len(shape))), (floats(*shape),)


@layer("Softmax2d")
def softmax2d(name: str, d: Draws) -> Made:
    return T.Softmax2d(), (floats(3, d.number(2, 5), 3, 4),)


@layer("Linear")
def linear(name: str, d: Draws) -> Made:
    inputs = d.number(1, 7)
    shape = [d.number(2, 4) for _ in range(d.number(1, 3))]
    return T.Linear(inputs, d.number(1, 7), bias=d.flag()), (floats(*shape, inputs),)


@layer("Bilinear")
def bilinear(name: str, d: Draws) -> Made:
    a, b = d.number(1, 5), d.number(1, 5)
    return T.Bilinear(a, b, d.number(1, 5), bias=d.flag()), (floats(3, a), floats(3, b, seed=1))


@layer("LayerNorm", "RMSNorm")
def last_norm(name: str, d: Draws) -> Made:
    x = anywhere(d)
    shape = x.shape[d.number(1, x.ndim - 1) :]
    options: dict[str, Any] = {"elementwise_affine": d.flag(), "eps": d.one(1e-5, 1e-3)}
    if name == "LayerNorm":
        options["bias"] = d.flag()
    return randomized(getattr(T, name)(shape, **options)), (x,)


@layer("GroupNorm")
def group_norm(name: str, d: Draws) -> Made:
    groups = d.number(1, 3)
    channels = groups * d.number(1, 3)
    x = floats(3, channels, *(d.number(3, 5) for _ in range(d.number(1, 2))))
    return randomized(T.GroupNorm(groups, channels, eps=d.one(1e-5, 1e-3), affine=d.flag())), (x,)


@layer("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")
def channel_norm(name: str, d: Draws) -> Made:
    channels, batch = d.number(1, 4), name.startswith("Batch")
    sizes = {"1d": d.one((), (7,)) if batch else (7,), "2d": (5, 4), "3d": (3, 2, 4)}[name[-2:]]
    module = getattr(T, name)(channels, d.one(1e-5, 1e-3), d.one(0.1, 0.3), d.flag(), batch and d.flag())
    if batch and module.track_running_stats:
        module.running_mean.normal_(), module.running_var.uniform_(0.5, 2)
    return randomized(module), (floats(3, channels, *sizes),)


def randomized(module: Any) -> Any:
    """With weights other than ones and zeros."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module


@layer("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
def convolution(name: str, d: Draws) -> Made:
    axes, groups, transposed = int(name[-2]), d.number(1, 2), "Transpose" in name
    inputs, outputs = groups * d.number(1, 3), groups * d.number(1, 3)
    options: dict[str, Any] = {"bias": d.flag(), "groups": groups, "dilation": d.number(1, 2)}
    options["stride"] = tuple(d.number(1, 3) for _ in range(axes))
    kernel = tuple(d.number(1, 3) for _ in range(axes))
    if transposed:
        options["padding"] = 0
        options["output_padding"] = tuple(d.number(0, max(s, options["dilation"]) - 1) for s in options["stride"])
    else:
        options["padding"] = d.number(0, 2)
        options["padding_mode"] = d.one("zeros", "reflect", "replicate", "circular")
        if d.flag():
            options |= {"padding": d.one("same", "valid"), "stride": 1}
    return getattr(T, name)(inputs, outputs, kernel, **options), (floats(3, inputs, *[9, 8, 7][:axes]),)


@layer("MaxPool1d", "MaxPool2d", "MaxPool3d")
def max_pool(name: str, d: Draws) -> Made:
    axes = int(name[-2])
    kernel = tuple(d.number(2, 3) for _ in range(axes))
    module = getattr(T, name)(
        kernel, d.one(None, 1, 2), d.number(0, 1), d.number(1, 2), ceil_mode=d.flag()
    )  # fmt: skip
    return module, (floats(3, 2, *[11, 9, 7][:axes]),)


@layer("AvgPool1d", "AvgPool2d", "AvgPool3d")
def average_pool(name: str, d: Draws) -> Made:
    axes = int(name[-2])
    extra = {"divisor_override": d.one(None, 3)} if axes > 1 else {}
    module = getattr(T, name)(d.number(2, 3), d.one(None, 1, 2), d.number(0, 1), d.flag(), d.flag(), **extra)
    return module, (floats(3, 2, *[11, 9, 7][:axes]),)


@layer("LPPool1d", "LPPool2d")
def norm_pool(name: str, d: Draws) -> Made:
    return getattr(T, name)(d.one(1, 2, 4), d.number(2, 3), d.one(None, 2)), (
        np.abs(floats(3, 2, *[11, 9][: int(name[-2])])) + 0.1,
    )


@layer(
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
)  # fmt: skip
def adaptive_pool(name: str, d: Draws) -> Made:
    axes = int(name[-2])
    sizes = (d.number(1, 5), None, 2)[:axes]
    size = d.number(1, 5) if axes == 1 else d.one(1, sizes, (3, 2, 3)[:axes])
    return getattr(T, name)(size), (floats(3, 2, *[8, 6, 5][:axes]),)


class PooledAndBack(T.Module):  # type: ignore[misc, name-defined]
    def __init__(self, axes: str, kernel: int) -> None:
        super().__init__()
        self.pool = getattr(T, f"MaxPool{axes}")(kernel, return_indices=True)
        self.back = getattr(T, f"MaxUnpool{axes}")(kernel)

    def forward(self, x: Any) -> Any:
        y, indices = self.pool(x)
        return self.back(y * 2, indices, output_size=x.size())


@layer("MaxUnpool1d", "MaxUnpool2d")
def unpool(name: str, d: Draws) -> Made:
    return PooledAndBack(name[-2:], d.number(2, 3)), (floats(3, 2, *[11, 9][: int(name[-2])]),)


@layer(
    *(f"{kind}Pad{axes}d" for kind in ("Constant", "Zero", "Reflection", "Replication", "Circular") for axes in (1, 2, 3)),
)  # fmt: skip
def padding(name: str, d: Draws) -> Made:
    axes = int(name[-2])
    low = -1 if name.startswith(("Zero", "Constant")) else 0
    sides = d.one(d.number(0, 2), tuple(d.number(low, 3) for _ in range(2 * axes)))
    extra = (d.real(-1, 1),) if name.startswith("Constant") else ()
    return getattr(T, name)(sides, *extra), (floats(3, 2, *[6, 5, 4][:axes]),)


@layer("Upsample")
def upsample(name: str, d: Draws) -> Made:
    axes = d.number(1, 3)
    mode = d.one("nearest", "nearest-exact", *{1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}[axes])
    corners = d.flag() if not mode.startswith("nearest") else None
    size = {"scale_factor": d.one(2, 1.5, 2.0)} if d.flag() else {"size": tuple(d.number(2, 9) for _ in range(axes))}
    return T.Upsample(mode=mode, align_corners=corners, **size), (floats(3, 2, *[4, 6, 3][:axes]),)


@layer("UpsamplingNearest2d", "UpsamplingBilinear2d")
def upsampling(name: str, d: Draws) -> Made:
    return getattr(T, name)(**d.one({"scale_factor": 2}, {"size": (7, 9)})), (floats(3, 2, 4, 5),)


@layer("PixelShuffle", "PixelUnshuffle", "ChannelShuffle")
def shuffle(name: str, d: Draws) -> Made:
    return getattr(T, name)(2), (floats(3, 4 * d.number(1, 2), 4, 6),)


@layer("Dropout1d", "Dropout2d")
def channel_dropout(name: str, d: Draws) -> Made:
    return getattr(T, name)(0.0), (floats(3, 4, *[6, 5][: int(name[-2])]),)


@layer("Flatten")
def flatten(name: str, d: Draws) -> Made:
    start = d.number(1, 3)
    return T.Flatten(start, d.one(-1, 3)), (floats(3, 2, 4, 5),)


@layer("Unflatten")
def unflatten(name: str, d: Draws) -> Made:
    return T.Unflatten(d.one(1, -2), d.one((2, 3), (-1, 2), (6, 1))), (floats(3, 6, 5),)


@layer("Embedding")
def embedding(name: str, d: Draws) -> Made:
    shape = d.one((3,), (3, 4), (3, 4, 2))
    return T.Embedding(9, d.number(1, 5), padding_idx=d.one(None, 0, -2)), (tokens(9, *shape),)


@layer("EmbeddingBag")
def bag(name: str, d: Draws) -> Made:
    mode = d.one("sum", "mean", "max")
    padding = None if mode == "max" else d.one(None, 2)
    return T.EmbeddingBag(9, d.number(1, 5), mode=mode, padding_idx=padding), (tokens(9, 3, 4),)


@layer("LSTM", "GRU", "RNN")
def recurrent(name: str, d: Draws) -> Made:
    options: dict[str, Any] = {"num_layers": d.number(1, 2), "bias": d.flag(), "bidirectional": d.flag()}
    if name == "RNN":
        options["nonlinearity"] = d.one("tanh", "relu")
    return OutputAndStates(getattr(T, name)(3, 4, batch_first=d.flag(), **options)), (floats(3, 5, 3),)


class OutputAndStates(T.Module):  # type: ignore[misc, name-defined]
    """The output and the states, whose batch is brought to the front."""

    def __init__(self, rnn: Any) -> None:
        super().__init__()
        self.rnn = rnn

    def forward(self, x: Any) -> Any:
        y, states = self.rnn(x if self.rnn.batch_first else x.transpose(0, 1))
        states = states if isinstance(states, tuple) else (states,)
        y = y if self.rnn.batch_first else y.transpose(0, 1)
        again, _ = self.rnn(x if self.rnn.batch_first else x.transpose(0, 1), states if len(states) > 1 else states[0])
        return (
            y,
            [s.transpose(0, 1) for s in states],
            again.mean() if False else again.sum(dim=2).mean(dim=int(self.rnn.batch_first)),
        )


@layer("LSTMCell", "GRUCell", "RNNCell")
def cell(name: str, d: Draws) -> Made:
    options = {"nonlinearity": d.one("tanh", "relu")} if name == "RNNCell" else {}
    return Stepping(getattr(T, name)(3, 4, bias=d.flag(), **options)), (floats(3, 5, 3),)


class Stepping(T.Module):  # type: ignore[misc, name-defined]
    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Any) -> Any:
        state = None
        outputs = []
        for t in range(x.size(1)):
            state = self.cell(x[:, t], state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(outputs, dim=1)


@layer("MultiheadAttention")
def attention(name: str, d: Draws) -> Made:
    options = {"bias": d.flag(), "add_bias_kv": d.flag(), "add_zero_attn": d.flag(), "batch_first": d.flag()}
    if d.flag():
        options |= {"kdim": 5, "vdim": 6}
    module = T.MultiheadAttention(8, d.one(2, 4), **options)
    key = floats(3, 6, module.kdim, seed=1)
    value = floats(3, 6, module.vdim, seed=2)
    return Attending(module, d.flag(), d.one(None, "bool", "float")), (floats(3, 4, 8), key, value)


class Attending(T.Module):  # type: ignore[misc, name-defined]
    def __init__(self, attention: Any, average: bool, mask: str | None) -> None:
        super().__init__()
        self.attention, self.average, self.mask = attention, average, mask

    def forward(self, query: Any, key: Any, value: Any) -> Any:
        mask = None
        if self.mask is not None:
            mask = torch.triu(torch.ones(query.size(1), key.size(1), dtype=torch.bool), 2)
        if self.mask == "float":
            mask = torch.zeros(mask.shape, dtype=query.dtype).masked_fill(mask, -2.0)
        turn = (lambda x: x) if self.attention.batch_first else (lambda x: x.transpose(0, 1))
        y, weights = self.attention(
            turn(query), turn(key), turn(value), attn_mask=mask, average_attn_weights=self.average
        )
        return turn(y), weights


# Losses, which are looked into.


class Losing(T.Module):  # type: ignore[misc, name-defined]
    """A loss of what a layer makes of its input."""

    def __init__(self, loss: Any, width: int) -> None:
        super().__init__()
        self.layer, self.loss = T.Linear(width, width), loss

    def forward(self, x: Any, *targets: Any) -> Any:
        y = self.layer(x)
        if isinstance(self.loss, T.CrossEntropyLoss | T.NLLLoss) and y.dim() > 2:
            y = y.movedim(-1, 1)
        if isinstance(self.loss, T.NLLLoss):
            y = y.log_softmax(1)
        if isinstance(self.loss, T.BCELoss):
            y = y.sigmoid()
        return self.loss(y, *(target.to(y.dtype) if target.dtype == torch.int32 else target for target in targets))


def numbers_loss(name: str, d: Draws) -> tuple[Any, Any]:
    options: dict[str, Any] = {"reduction": d.one("mean", "sum", "none")}
    shape = (4, d.number(2, 5), 3)[d.number(0, 1) :]
    target = floats(4, *shape[1:], seed=d.number(1, 9))
    if name in ("SmoothL1Loss", "HuberLoss"):
        options["beta" if name == "SmoothL1Loss" else "delta"] = d.real(0.3, 2)
    elif name == "KLDivLoss":
        options |= {"log_target": d.flag(), "reduction": d.one("batchmean", "sum", "none")}
        target = target if options["log_target"] else np.abs(target) + 0.1
    elif name.startswith("BCE"):
        target = 1 / (1 + np.exp(-target))
        options["weight"] = d.one(None, torch.rand(shape[-1]))
        if name == "BCEWithLogitsLoss":
            options["pos_weight"] = d.one(None, torch.rand(shape[-1]) + 0.5)
    elif name == "PoissonNLLLoss":
        target = (np.abs(target) * 3).round().astype(np.int32)
        options |= {"full": d.flag(), "log_input": True}
    elif name in ("SoftMarginLoss", "HingeEmbeddingLoss"):
        target = np.where(target > 0, 1, -1).astype(np.int32)
        if name == "HingeEmbeddingLoss":
            options["margin"] = d.real(0.3, 2)
    elif name == "MultiLabelSoftMarginLoss":
        target = (target > 0).astype(np.int32)
    return Losing(getattr(T, name)(**options), shape[-1]), (floats(*(4, *shape[1:])), target)


def class_loss(name: str, d: Draws) -> tuple[Any, Any]:
    classes, places = d.number(2, 5), [d.number(2, 4) for _ in range(d.number(0, 2))]
    options: dict[str, Any] = {"reduction": d.one("mean", "sum", "none"), "weight": d.one(None, torch.rand(classes))}
    target = tokens(classes, 4, *places, seed=d.number(1, 99))
    if d.flag():
        options["ignore_index"] = d.one(-100, 0)
        target = np.where(floats(*target.shape) > 1, options["ignore_index"], target)
        target.flat[0] = 1
    if name == "CrossEntropyLoss":
        options["label_smoothing"] = d.one(0.0, 0.1)
    return Losing(getattr(T, name)(**options), classes), (floats(4, *places, classes), target)


LOSSES = {
    **dict.fromkeys(("CrossEntropyLoss", "NLLLoss"), class_loss),
    **dict.fromkeys(
        ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "KLDivLoss", "BCELoss", "BCEWithLogitsLoss", "PoissonNLLLoss",
         "SoftMarginLoss", "HingeEmbeddingLoss", "MultiLabelSoftMarginLoss"),
        numbers_loss,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_random_losses(name: str) -> None:
    for number in range(4):
        torch.manual_seed(number)
        module, inputs = LOSSES[name](name, Draws(name, number))
        try:
            check(module, *inputs, seed=number)
        except Exception as error:
            raise AssertionError(f"{module.loss} on {[x.shape for x in inputs]}, draw {number}: {error}") from error


def test_every_kind_is_tried() -> None:
    assert set(LAYERS) == set(KINDS)


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_random_configurations(name: str) -> None:
    for number in range(4):
        torch.manual_seed(number)
        module, inputs = LAYERS[name](Draws(name, number))
        if number % 2 and type(module) is getattr(T, name):
            module = T.Sequential(T.Sequential(module)) if len(inputs) == 1 else module
        try:
            check(module, *inputs, seed=number)
        except Exception as error:
            raise AssertionError(f"{module} on {[x.shape for x in inputs]}: {error}") from error
