"""Layers against PyTorch in float64: outputs and all gradients, for all their options and odd sizes."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from openbnns import nn

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")
T = torch.nn

Case = tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]


def case(name: str, *given: Any, shape: tuple[int, ...], **named: Any) -> Case:
    """A layer of that name, here and in PyTorch, and the shape of its samples."""
    return name, given, named, shape


CONVOLUTIONS = [
    case("Conv1d", 3, 4, 3, shape=(3, 11)),
    case("Conv1d", 4, 6, 4, 2, 3, 2, 2, False, shape=(4, 13)),
    case("Conv1d", 3, 5, 4, padding="same", shape=(3, 9)),
    case("Conv1d", 3, 5, 4, padding="valid", shape=(3, 9)),
    case("Conv1d", 3, 5, 3, padding=2, padding_mode="reflect", shape=(3, 7)),
    case("Conv1d", 3, 5, 5, padding=3, padding_mode="circular", stride=2, shape=(3, 7)),
    case("Conv1d", 6, 6, 3, padding=1, groups=6, shape=(6, 8)),
    case("Conv2d", 3, 4, 3, shape=(3, 7, 9)),
    case("Conv2d", 3, 4, (4, 2), padding="same", dilation=(1, 3), shape=(3, 7, 9)),
    case("Conv2d", 4, 6, (3, 2), (2, 1), (1, 2), (2, 1), 2, False, shape=(4, 8, 7)),
    case("Conv2d", 3, 4, 3, padding=(2, 1), padding_mode="reflect", shape=(3, 5, 6)),
    case("Conv2d", 3, 4, 3, padding=(2, 4), padding_mode="replicate", shape=(3, 5, 4)),
    case("Conv2d", 3, 4, 3, padding=(0, 3), padding_mode="circular", dilation=2, shape=(3, 6, 5)),
    case("Conv2d", 3, 4, (2, 4), padding="same", padding_mode="reflect", shape=(3, 6, 5)),
    case("ConvTranspose1d", 3, 4, 3, shape=(3, 6)),
    case("ConvTranspose1d", 4, 6, 3, 3, 1, 2, 2, True, 2, shape=(4, 6)),
    case("ConvTranspose2d", 3, 4, 3, shape=(3, 5, 4)),
    case("ConvTranspose2d", 3, 4, (3, 2), (2, 3), (1, 0), (1, 2), shape=(3, 5, 4)),
    case("ConvTranspose2d", 4, 6, 3, 2, 1, 1, 2, shape=(4, 5, 4)),
    case("ConvTranspose2d", 4, 4, 3, stride=1, output_padding=2, dilation=3, groups=4, bias=False, shape=(4, 5, 4)),
    case("ConvTranspose2d", 3, 4, 3, stride=1, output_padding=2, dilation=3, shape=(3, 5, 4)),
]

POOLINGS = [
    case("MaxPool1d", 3, shape=(3, 11)),
    case("MaxPool1d", 3, 2, 1, 2, ceil_mode=True, shape=(3, 12)),
    case("MaxPool2d", 2, ceil_mode=True, shape=(3, 7, 9)),
    case("MaxPool2d", (3, 2), (2, 1), (1, 1), (1, 2), shape=(3, 8, 7)),
    case("MaxPool2d", 3, 2, 1, 2, False, True, shape=(2, 10, 9)),
    case("MaxPool2d", 2, 3, ceil_mode=True, shape=(3, 7, 8)),
    case("AvgPool1d", 3, 2, 1, True, True, shape=(3, 12)),
    case("AvgPool1d", 3, 2, 1, False, False, shape=(3, 12)),
    case("AvgPool2d", 3, 2, 1, True, True, shape=(3, 8, 7)),
    case("AvgPool2d", 3, 2, 1, True, False, shape=(3, 8, 7)),
    case("AvgPool2d", (3, 2), 2, 0, True, True, 5, shape=(3, 8, 7)),
    case("AvgPool2d", 3, 2, 1, False, False, 4, shape=(3, 8, 7)),
    case("AvgPool2d", 2, 3, ceil_mode=True, shape=(3, 7, 8)),
    case("AdaptiveAvgPool1d", 5, shape=(3, 12)),
    case("AdaptiveAvgPool1d", 4, shape=(3, 12)),
    case("AdaptiveAvgPool2d", 1, shape=(3, 7, 9)),
    case("AdaptiveAvgPool2d", (3, 4), shape=(3, 7, 9)),
    case("AdaptiveAvgPool2d", (None, 3), shape=(3, 7, 9)),
    case("AdaptiveAvgPool2d", 9, shape=(3, 4, 5)),
    case("AdaptiveMaxPool1d", 5, shape=(3, 12)),
    case("AdaptiveMaxPool2d", (3, 4), shape=(3, 7, 9)),
    case("AdaptiveMaxPool2d", (7, 3), shape=(3, 7, 9)),
    case("LPPool1d", 2, 3, 2, shape=(3, 9)),
    case("LPPool2d", 2, 3, shape=(3, 7, 9)),
    case("LPPool2d", 1, (2, 3), 2, shape=(3, 7, 9)),
    case("LPPool2d", 4, (2, 3), 2, shape=(3, 7, 9)),
    case("LPPool2d", 2, 3, 2, True, shape=(3, 8, 10)),
]

SHAPES = [
    case("ZeroPad1d", (2, 1), shape=(3, 5)),
    case("ZeroPad2d", (2, 1, 0, 3), shape=(3, 5, 4)),
    case("ZeroPad2d", (-1, 2, 1, -2), shape=(3, 5, 4)),
    case("ConstantPad1d", (2, 1), 3.5, shape=(3, 5)),
    case("ConstantPad2d", 2, -1.25, shape=(3, 5, 4)),
    case("ReflectionPad1d", (4, 2), shape=(3, 5)),
    case("ReflectionPad2d", (3, 2, 1, 4), shape=(3, 5, 4)),
    case("ReplicationPad1d", (7, 2), shape=(3, 5)),
    case("ReplicationPad2d", (3, 2, 6, 0), shape=(3, 5, 4)),
    case("CircularPad1d", (5, 2), shape=(3, 5)),
    case("CircularPad2d", (3, 2, 1, 4), shape=(3, 5, 4)),
    case("Upsample", 7, shape=(3, 5)),
    case("Upsample", scale_factor=2, shape=(3, 5, 4)),
    case("Upsample", scale_factor=(1.7, 2.3), shape=(3, 5, 4)),
    case("Upsample", scale_factor=1.7, recompute_scale_factor=True, shape=(3, 5, 4)),
    case("Upsample", (3, 9), mode="nearest-exact", shape=(3, 5, 4)),
    case("Upsample", 7, mode="linear", shape=(3, 5)),
    case("Upsample", scale_factor=2, mode="bilinear", shape=(3, 5, 4)),
    case("Upsample", scale_factor=1.7, mode="bilinear", shape=(3, 5, 4)),
    case("Upsample", scale_factor=0.6, mode="bilinear", shape=(3, 9, 7)),
    case("Upsample", scale_factor=1.7, mode="bilinear", recompute_scale_factor=True, shape=(3, 5, 4)),
    case("Upsample", (7, 3), mode="bilinear", align_corners=True, shape=(3, 5, 4)),
    case("Upsample", (7, 11), mode="bicubic", shape=(3, 5, 4)),
    case("Upsample", (7, 11), mode="bicubic", align_corners=True, shape=(3, 5, 4)),
    case("Upsample", scale_factor=1.7, mode="bicubic", shape=(3, 5, 4)),
    case("Upsample", (7, 11, 2), mode="trilinear", shape=(3, 5, 4, 3)),
    case("Upsample", scale_factor=1.7, mode="trilinear", shape=(3, 5, 4, 3)),
    case("Upsample", scale_factor=1.7, mode="nearest", shape=(3, 5, 4, 3)),
    case("UpsamplingNearest2d", scale_factor=3, shape=(3, 5, 4)),
    case("UpsamplingBilinear2d", (8, 9), shape=(3, 5, 4)),
    case("PixelShuffle", 3, shape=(18, 5, 4)),
    case("Unfold", 2, shape=(3, 5, 4)),
    case("Unfold", (3, 2), (1, 2), (1, 0), (2, 1), shape=(3, 5, 4)),
    case("Fold", (5, 4), 2, shape=(12, 12)),
    case("Fold", (5, 4), (3, 2), (1, 2), (1, 0), (2, 1), shape=(12, 6)),
    case("PixelUnshuffle", 2, shape=(3, 6, 4)),
    case("ChannelShuffle", 3, shape=(6, 5, 4)),
    case("Flatten", 2, shape=(3, 5, 4)),
    case("Flatten", 1, 2, shape=(3, 5, 4)),
    case("Unflatten", 1, (2, 3), shape=(6, 5, 4)),
]

NORMALIZATIONS = [
    case("BatchNorm1d", 5, shape=(5,)),
    case("BatchNorm1d", 3, 1e-3, 0.3, shape=(3, 7)),
    case("BatchNorm1d", 3, affine=False, shape=(3, 7)),
    case("BatchNorm2d", 3, track_running_stats=False, shape=(3, 7, 2)),
    case("InstanceNorm1d", 3, affine=True, shape=(3, 7)),
    case("InstanceNorm2d", 3, shape=(3, 7, 2)),
    case("GroupNorm", 2, 6, shape=(6, 7)),
    case("GroupNorm", 3, 6, 1e-3, False, shape=(6, 4, 3)),
    case("LayerNorm", (4, 3), shape=(5, 4, 3)),
    case("LayerNorm", (5, 4, 3), 1e-3, False, shape=(5, 4, 3)),
    case("LayerNorm", 3, 1e-5, True, False, shape=(5, 4, 3)),
    case("RMSNorm", 7, shape=(5, 7)),
    case("LocalResponseNorm", 3, shape=(5, 7)),
    case("LocalResponseNorm", 4, 0.9, 0.4, 0.7, shape=(7, 3, 2)),
    case("LocalResponseNorm", 9, 0.9, 1.0, 2.0, shape=(5, 3, 2, 2)),
    case("RMSNorm", (4, 3), 1e-3, shape=(5, 4, 3)),
    case("RMSNorm", 3, elementwise_affine=False, shape=(5, 3)),
]

ACTIVATIONS = [
    case("PReLU", shape=(5, 4)),
    case("PReLU", 5, 0.1, shape=(5,)),
    case("PReLU", 5, shape=(5, 4)),
    case("PReLU", 5, shape=(5, 4, 3)),
    case("CELU", 1.7, shape=(5, 4)),
    case("Threshold", 0.3, -1.5, shape=(5, 4)),
    case("Hardtanh", -0.4, 0.7, shape=(5, 4)),
    case("Hardshrink", 0.3, shape=(5, 4)),
    case("Softshrink", 0.3, shape=(5, 4)),
    case("Tanhshrink", shape=(5, 4)),
    case("Softplus", 2.5, shape=(5, 4)),
    case("Mish", shape=(5, 4)),
    case("GLU", shape=(5, 4)),
    case("GLU", 1, shape=(6, 4)),
    case("Softmax", 1, shape=(5, 4, 3)),
    case("Softmax", -2, shape=(5, 4, 3)),
    case("LogSoftmax", 1, shape=(5, 4)),
    case("Softmin", 2, shape=(5, 4, 3)),
    case("Softmax2d", shape=(5, 4, 3)),
]

CASES = [*CONVOLUTIONS, *POOLINGS, *SHAPES, *NORMALIZATIONS, *ACTIVATIONS]


def name_of(given: Case) -> str:
    name, arguments, options, shape = given
    shown = [*map(repr, arguments), *(f"{k}={v!r}" for k, v in options.items())]
    return f"{name}({', '.join(shown)}) on {shape}"


def close(ours: Any, theirs: Any, what: str, bound: float = 3e-6) -> None:
    expected = theirs.detach().numpy()
    assert ours.shape == expected.shape, what
    scale = max(float(np.abs(expected).max(initial=0)), 0.05)
    assert np.abs(ours - expected).max(initial=0) <= bound * scale, what


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize("given", CASES, ids=name_of)
def test_layers(given: Case) -> None:
    name, arguments, options, shape = given
    random = np.random.RandomState(zlib.crc32(name_of(given).encode()) % 2**31)
    ours, theirs = getattr(nn, name)(*arguments, **options), getattr(T, name)(*arguments, **options).double()
    state = {key: value for key, value in theirs.state_dict().items() if value.dtype.is_floating_point}
    for value in state.values():
        value.copy_(torch.tensor(np.abs(random.standard_normal(value.shape)) + 0.1))
    assert not state or list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)
    x = random.standard_normal((4, *shape)).astype(np.float32)
    if name.startswith("LPPool") and arguments[0] != 2:
        x = np.abs(x) + 0.1
    tx = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    y, ty = ours(x), theirs(tx)
    close(y, ty, "output")
    assert np.abs(y).max() > 0
    dy = random.standard_normal(y.shape).astype(np.float32)
    dx = ours.backward(dy)
    ty.backward(torch.tensor(dy, dtype=torch.float64))
    close(dx, tx.grad, "input gradient", 1e-5)
    gradients = dict(theirs.named_parameters())
    assert [path for path, _ in ours.named_parameters()] == list(gradients)
    for path, parameter in ours.named_parameters():
        close(parameter.grad, gradients[path].grad, path, 1e-5)
    if not any("running" in key for key in state):  # moving variances differ by n / (n - 1)
        close(ours.eval()(x), theirs.eval()(tx), "output at inference")


@pytest.mark.parametrize(
    ("mode", "padding_idx", "weighted"),
    [
        ("sum", None, False),
        ("sum", 2, False),
        ("sum", None, True),
        ("mean", None, False),
        ("mean", 2, False),
        ("max", None, False),
    ],
)
def test_bags_of_rows(mode: Any, padding_idx: int | None, weighted: bool) -> None:
    random = np.random.RandomState(3)
    ours = nn.EmbeddingBag(6, 5, mode=mode, padding_idx=padding_idx)
    theirs = T.EmbeddingBag(6, 5, mode=mode, padding_idx=padding_idx).double()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    bags = random.randint(0, 6, (7, 4))
    bags[0] = 2 if padding_idx is not None else bags[0]
    weights = random.standard_normal(bags.shape).astype(np.float32)
    tw = torch.tensor(weights, dtype=torch.float64, requires_grad=True)
    given = {"per_sample_weights": tw} if weighted else {}
    ty = theirs(torch.tensor(bags), **given)
    y = ours(bags, weights) if weighted else ours(bags)
    close(y, ty, "output")
    dy = random.standard_normal(y.shape).astype(np.float32)
    dx = ours.backward(dy)
    ty.backward(torch.tensor(dy, dtype=torch.float64))
    close(ours.weight.grad, theirs.weight.grad, "weight")
    if weighted:
        close(dx[1], tw.grad, "weights of the rows")


@pytest.mark.parametrize(("lead", "bias"), [((), True), ((3,), False), ((2, 3), True)])
def test_bilinear(lead: tuple[int, ...], bias: bool) -> None:
    random = np.random.RandomState(3)
    ours, theirs = nn.Bilinear(4, 5, 3, bias), T.Bilinear(4, 5, 3, bias).double()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    a, b = (random.standard_normal((6, *lead, n)).astype(np.float32) for n in (4, 5))
    ta, tb = (torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in (a, b))
    y, ty = ours(a, b), theirs(ta, tb)
    close(y, ty, "output")
    dy = random.standard_normal(y.shape).astype(np.float32)
    da, db = ours.backward(dy)
    ty.backward(torch.tensor(dy, dtype=torch.float64))
    close(da, ta.grad, "first input")
    close(db, tb.grad, "second input")
    for path, parameter in theirs.named_parameters():
        close(dict(ours.named_parameters())[path].grad, parameter.grad, path)


class Unpooled(nn.Module):
    def __init__(self, name: str, arguments: tuple[Any, ...], size: Any) -> None:
        super().__init__()
        self.pool = getattr(nn, f"MaxPool{name}")(*arguments, return_indices=True)
        self.back, self.size = getattr(nn, f"MaxUnpool{name}")(*arguments), size

    def forward(self, x: nn.Value) -> Any:
        values, indices = self.pool(x)
        return self.back(values, indices, output_size=self.size) + x, indices


@pytest.mark.parametrize(
    ("name", "arguments", "shape", "size"),
    [
        ("2d", (2,), (3, 6, 8), None),
        ("2d", ((3, 2), (2, 2), (1, 0)), (3, 7, 8), None),
        ("2d", (2, 2), (3, 7, 9), (7, 9)),
        ("1d", (3,), (3, 12), None),
        ("1d", (3, 2), (3, 12), (12,)),
    ],
)
def test_unpooling(name: str, arguments: tuple[Any, ...], shape: tuple[int, ...], size: Any) -> None:
    random = np.random.RandomState(7)
    x = random.standard_normal((4, *shape)).astype(np.float32)
    ours = Unpooled(name, arguments, size)
    pool = getattr(T, f"MaxPool{name}")(*arguments, return_indices=True)
    back = getattr(T, f"MaxUnpool{name}")(*arguments)
    tx = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    values, places = pool(tx)
    ty = back(values, places, output_size=size) + tx
    y, indices = ours(x)
    np.testing.assert_array_equal(indices, places.numpy())
    close(y, ty, "output")
    dy = random.standard_normal(y.shape).astype(np.float32)
    ty.backward(torch.tensor(dy, dtype=torch.float64))
    close(ours.backward((dy, None)), tx.grad, "input gradient")
