"""Every layer of ``nn`` once, with options that are not the usual ones, and samples for it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

import openbnns
from openbnns import nn
from openbnns.nn import functional as F
from openbnns.nn.recording import recorded_graph

Array = np.ndarray

image, sequence, vector, signal, volume = (2, 8, 8), (5, 8), (8,), (2, 9), (2, 4, 5, 6)

AF = openbnns.ActivationFunction

# Every layer once, with options that are not the usual ones, and the shapes of samples it takes.
LAYERS: list[tuple[nn.Module, Any]] = [
    (nn.Linear(3), vector), (nn.Linear(8, 3, False), vector),
    (nn.Conv3d(2, 3, (2, 3, 2), stride=(1, 2, 1), padding=1), volume), (nn.ConvTranspose3d(2, 3, 2, stride=2), volume),
    (nn.MaxPool3d(2), volume), (nn.AvgPool3d(2, padding=1), volume), (nn.AdaptiveAvgPool3d((2, 1, 3)), volume),
    (nn.AdaptiveMaxPool3d(2), volume), (nn.BatchNorm3d(2), volume), (nn.InstanceNorm3d(2), volume),
    (nn.ConstantPad3d(1, 0.5), volume), (nn.ZeroPad3d(1), volume), (nn.ReflectionPad3d(1), volume),
    (nn.ReplicationPad3d(1), volume), (nn.CircularPad3d(1), volume),
    (nn.Conv2d(4, 3, stride=2, padding=1, groups=2, bias=False), image), (nn.Conv2d(2, 4, (3, 2), 1, "same"), image),
    (nn.Conv2d(4, 3, padding=1, padding_mode="reflect"), image), (nn.Conv1d(4, 3, dilation=2), signal),
    (nn.ConvTranspose2d(3, 2, stride=2, output_padding=1), image), (nn.ConvTranspose1d(3, 2), signal),
    (nn.MaxPool2d(3, 2, 1), image), (nn.AvgPool2d(2, ceil_mode=True), image), (nn.MaxPool1d(2), signal),
    (nn.AvgPool1d(2, count_include_pad=False, padding=1), signal), (nn.LPPool2d(2, 2), image), (nn.LPPool1d(3, 2), signal),
    (nn.AdaptiveAvgPool2d((2, 3)), image), (nn.AdaptiveMaxPool2d(2), image), (nn.AdaptiveAvgPool1d(3), signal),
    (nn.AdaptiveMaxPool1d(3), signal), (nn.GlobalAvgPool2d(), image), (nn.BatchNorm2d(eps=1e-3, momentum=0.3), image),
    (nn.BatchNorm1d(affine=False), vector), (nn.InstanceNorm2d(affine=True), image), (nn.InstanceNorm1d(), signal),
    (nn.LayerNorm(8, eps=1e-3), sequence), (nn.GroupNorm(2, 2), image), (nn.RMSNorm(8), sequence),
    (nn.Dropout(0.3), vector), (nn.Dropout2d(0.3), image), (nn.Dropout1d(), signal), (nn.Flatten(), image),
    (nn.Flatten(2), image), (nn.Unflatten(1, (2, 4)), vector), (nn.Reshape(4, 2), vector), (nn.Reshape(-1, 4), vector),
    (nn.Identity(), vector), (nn.Activation(AF.elu(alpha=0.5)), vector), (nn.Activation(AF.clamp(bounds=(-1, 2))), vector),
    (nn.ELU(0.5), vector), (nn.LeakyReLU(0.2), vector), (nn.PReLU(2), image), (nn.GLU(1), vector), (nn.GELU("tanh"), vector),
    (nn.Threshold(0.1, 20), vector), (nn.Hardtanh(-2, 2), vector), (nn.Softshrink(0.3), vector), (nn.CELU(0.5), vector),
    (nn.Softmax(1), vector), (nn.LogSoftmax(-1), vector), (nn.Softmin(1), vector), (nn.Softmax2d(), image),
    (nn.Softplus(2, 10), vector), (nn.ReLU(), vector), (nn.ReLU6(), vector), (nn.SiLU(), vector), (nn.Mish(), vector),
    (nn.Sigmoid(), vector), (nn.LogSigmoid(), vector), (nn.Tanh(), vector), (nn.Tanhshrink(), vector),
    (nn.Softsign(), vector), (nn.Hardswish(), vector), (nn.Hardsigmoid(), vector), (nn.Hardshrink(0.2), vector),
    (nn.SELU(), vector), (nn.ZeroPad2d((1, 2, 0, 1)), image), (nn.ReflectionPad2d(1), image),
    (nn.ReplicationPad1d((1, 2)), signal), (nn.CircularPad2d(1), image), (nn.ConstantPad2d(1, 0.5), image),
    (nn.ConstantPad1d(2, -1.0), signal), (nn.ZeroPad1d(1), signal), (nn.ReflectionPad1d(1), signal),
    (nn.ReplicationPad2d(1), image), (nn.CircularPad1d(1), signal), (nn.Upsample(scale_factor=2, mode="bilinear"), image),
    (nn.UpsamplingNearest2d(scale_factor=2), image), (nn.UpsamplingBilinear2d((16, 12)), image),
    (nn.PixelShuffle(2), (4, 3, 3)), (nn.PixelUnshuffle(2), image), (nn.ChannelShuffle(2), (4, 3, 3)),
    (nn.Unfold((3, 2), stride=2), image), (nn.Fold((4, 3), (1, 2), padding=(0, 1)), (4, 16)),
    (nn.LocalResponseNorm(2, 0.1), image), (nn.Bilinear(8, 8, 3), (vector, vector)), (nn.Embedding(9, 4, padding_idx=2), (3,)),
    (nn.EmbeddingBag(9, 4, mode="sum"), (3,)), (nn.LSTM(6, num_layers=2, bidirectional=True, batch_first=True), sequence),
    (nn.GRU(6, batch_first=True, last_only=True), sequence), (nn.RNN(6, nonlinearity="relu", batch_first=True), sequence),
    (nn.LSTMCell(8, 4), vector), (nn.GRUCell(8, 4, bias=False), vector), (nn.RNNCell(8, 4), vector),
    (nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True, causal=True), (sequence, sequence, sequence)),
    (nn.TransformerEncoderLayer(8, 2, 16, 0.1, "gelu", norm_first=True, batch_first=True), sequence),
    (nn.TransformerEncoderLayer(8, 2, 16, activation=F.silu, batch_first=True), sequence),
    (nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, norm=nn.LayerNorm(8)), sequence),
    (nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), (sequence, sequence)),
    (nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 2), (sequence, sequence)),
    (nn.Transformer(8, 2, 1, 1, 16, batch_first=True), (sequence, sequence)),
    (nn.SinusoidalEncoding(8), sequence), (nn.LearnedEncoding(12, 8), sequence), (nn.RotaryEncoding(8), (2, 5, 8)),
    (nn.Residual(nn.Linear(8), nn.ReLU()), vector), (nn.Residual(nn.Linear(5), shortcut=nn.Linear(5)), vector),
    (nn.Residual(nn.Sequential(nn.Linear(8))), vector), (nn.Add(nn.Linear(3), nn.Linear(3)), vector),
    (nn.Concatenate(nn.Conv2d(2, 1), nn.Identity(), axis=-1), (2, 8, 8)), (nn.Add(), (vector, vector)),
    (nn.Sequential(OrderedDict(first=nn.Linear(4), act=nn.ReLU(), last=nn.Linear(2))), vector),
    (nn.models.transformer(3), (1, 8, 8)), (nn.models.cnn(3), (1, 8, 8)), (nn.models.mlp(3), vector),
]  # fmt: skip


def shapes_of(shape: Any) -> list[tuple[int, ...]]:
    return list(shape) if isinstance(shape[0], tuple) else [shape]


def samples_for(net: nn.Module, count: int = 3, seed: int = 0) -> tuple[Array, ...]:
    random = np.random.RandomState(seed)
    return tuple(
        random.randint(0, 5, (count, *v.shape[1:])) if v.dtype.kind == "i"
        else random.standard_normal((count, *v.shape[1:])).astype(np.float32)
        for v in recorded_graph(net).inputs
    )  # fmt: skip


def flat(outputs: Any) -> list[Array]:
    from openbnns.graph.structure import flatten

    return list(flatten(outputs)[0])


Array = np.ndarray


def train(net: nn.Module, x: Any, seed: int) -> tuple[list[Array], dict[str, Array], list[Any]]:
    """Outputs of a training pass, the gradients of all parameters and of the inputs for random cotangents."""
    program = net.train().program(tuple(a.shape for a in x), training=True, input_gradients=True)
    program.seed(5, seed)
    for i, array in enumerate(x):
        program.fill(i, array)
    program.forward()
    random = np.random.RandomState(seed)
    program.fill_gradients([random.standard_normal(y.shape).astype(np.float32) for y in program.outputs])
    outputs = [np.array(y) for y in program.outputs]
    program.backward()
    gradients = {name: np.array(p.grad) for name, p in net.named_parameters() if p.used and p.requires_grad}
    return outputs, gradients, [None if g is None else np.array(g) for g in program.input_gradients]


def assert_same(one: nn.Module, other: nn.Module, *batches: Any) -> None:
    """Both compute the same, bit for bit, at inference and in training, and end with the same state."""
    for number, x in enumerate(batches):
        one.eval(), other.eval()
        for a, b in zip(flat(one(*x)), flat(other(*x)), strict=True):
            np.testing.assert_array_equal(a, b)
        (ya, ga, da), (yb, gb, db) = (train(net, x, number) for net in (one, other))
        assert ga.keys() == gb.keys()
        pairs = [*zip(ya, yb, strict=True), *((ga[n], gb[n]) for n in ga), *zip(da, db, strict=True)]
        for a, b in pairs:
            np.testing.assert_array_equal(a, b)
    assert one.state_dict().keys() == other.state_dict().keys()
    for name, array in one.state_dict().items():
        np.testing.assert_array_equal(array, other.state_dict()[name])
