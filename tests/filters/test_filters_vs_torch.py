"""Cross-check with PyTorch where it defines the same thing: values, gradients, and a short training curve.

Runs with ``-m peers`` only (``make test-peers``), which has PyTorch installed. PyTorch computes in float64, so its
result is the truth; ours may differ by the bound of the case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from autograd import leaf
from cases import activation, arithmetic, convolution, fully_connected, transposed_convolution
from cases._base import Act, native, parameters, succeed
from helpers import IOHRWR, Array, Storage, assert_within, image, vector
from openbnns import capi

pytestmark = pytest.mark.peers

F = torch.nn.functional

# Activations by their names in PyTorch; x is (batch, *C order).
ACTIVATIONS: dict[str, Callable[[Any, Act], Any]] = {
    "Identity": lambda x, a: x * 1.0,
    "RectifiedLinear": lambda x, a: F.relu(x),
    "LeakyRectifiedLinear": lambda x, a: F.leaky_relu(x, a.alpha),
    "Sigmoid": lambda x, a: torch.sigmoid(x),
    "Tanh": lambda x, a: torch.tanh(x),
    "ScaledTanh": lambda x, a: a.alpha * torch.tanh(a.beta * x),
    "Abs": lambda x, a: torch.abs(x),
    "Linear": lambda x, a: a.alpha * x,
    "Clamp": lambda x, a: torch.clamp(x, a.alpha, a.beta),
    "Softmax": lambda x, a: F.softmax(x, -1),
    "HardSigmoid": lambda x, a: torch.clamp(a.alpha * x + a.beta, 0, 1),
    "Softplus": lambda x, a: a.alpha * F.softplus(a.beta * x),
    "Softsign": lambda x, a: F.softsign(x),
    "ELU": lambda x, a: F.elu(x, a.alpha),
    "ClampedLeakyRectifiedLinear": lambda x, a: torch.clamp(F.leaky_relu(x, a.alpha), max=a.beta),
    "LinearWithBias": lambda x, a: a.alpha * x + a.beta,
    "LogSoftmax": lambda x, a: F.log_softmax(x, -1),
    "LogSigmoid": lambda x, a: F.logsigmoid(x),
    "SELU": lambda x, a: F.selu(x),
    "CELU": lambda x, a: F.celu(x, a.alpha),
    "HardShrink": lambda x, a: F.hardshrink(x, a.alpha),
    "SoftShrink": lambda x, a: F.softshrink(x, a.alpha),
    "TanhShrink": lambda x, a: F.tanhshrink(x),
    "Threshold": lambda x, a: F.threshold(x, a.alpha, a.beta),
    "HardSwish": lambda x, a: F.hardswish(x),
    "GELUApproximation2": lambda x, a: F.hardswish(x),
    "GELUApproximation": lambda x, a: F.gelu(x, approximate="tanh"),
    "SiLU": lambda x, a: F.silu(x),
    "ReLU6": lambda x, a: F.relu6(x),
    "Erf": lambda x, a: torch.erf(x),
    "GELU": lambda x, a: F.gelu(x),
    "GELUApproximationSigmoid": lambda x, a: x * torch.sigmoid(1.702 * x),
}


def as_float32(act: Act) -> Act:
    """Parameters as the C struct holds them."""
    return Act(act.name, float(np.float32(act.alpha)), float(np.float32(act.beta)))


def c_order(values: Array) -> Array:
    """``(batch, *size)`` with ``size[0]`` fastest, as PyTorch wants it; its own inverse."""
    return np.ascontiguousarray(values.transpose(0, *range(values.ndim - 1, 0, -1)))


def compare(case: Any, y: Any, leaves: dict[str, Any], back: dict[str, Callable[[Array], Array]]) -> None:
    """Our output and gradients against PyTorch's; ``back`` turns its gradients into ours."""
    ours = native(case)
    expected = back["y"](y.detach().numpy())
    assert_within(case.y.decode(ours.y), expected, case.forward_bound(ours.values, expected) * 1.5, f"{case.id}: y")
    if not case.trains:
        return
    y.backward(torch.tensor(back["dy"](ours.values["dy"])))
    bounds = case.backward_bounds(ours.values, expected)
    for name in case.gradients:
        gradient = back[name](leaves[name].grad.numpy())
        room = 4 * bounds[name]  # ours starts from a rounded output
        assert_within(ours.gradients[name], gradient, room + 1e-6 * np.abs(gradient).max(), f"{case.id}: {name}")


def is_one_function(act: Act) -> bool:
    return act.name in ACTIVATIONS


LINEAR = [
    c for c in fully_connected.SIZES + fully_connected.LAYOUTS + fully_connected.FUSED if is_one_function(c.activation)
]


@pytest.mark.parametrize("case", parameters(LINEAR))
def test_fully_connected(case: Any) -> None:
    values, act = case.values(), as_float32(case.activation)
    row_major = case.w.layout == fully_connected.ROW_MAJOR
    turn = (lambda w: w.T) if row_major else (lambda w: w)  # RowMajorMatrix lists columns first
    w, x = leaf(turn(values["w"][0])), leaf(values["x"])
    b = leaf(values["b"][0]) if case.b else None
    y = ACTIVATIONS[act.name](F.linear(x, w, b), act)
    same = {"y": np.asarray, "dy": np.asarray, "dx": np.asarray, "dw": lambda g: turn(g)[None], "db": lambda g: g[None]}
    compare(case, y, {"dx": x, "dw": w, "db": b}, same)


def kernel(case: Any, w: Array) -> Array:
    """(O, I, KH, KW) from the order of size[]; its own inverse for OIHW, and for IOHrWr with O and I exchanged."""
    moved = w.transpose(3, 2, 1, 0)
    return moved.transpose(1, 0, 2, 3) if case.w.layout == IOHRWR else moved


def kernel_back(case: Any, w: Array) -> Array:
    moved = w.transpose(1, 0, 2, 3) if case.w.layout == IOHRWR else w
    return moved.transpose(3, 2, 1, 0)[None]


CONVOLUTIONS = [
    c for c in convolution.SHAPES + convolution.WINDOWS + convolution.GROUPS + convolution.LAYOUTS + convolution.FUSED
    if is_one_function(c.activation)
]  # fmt: skip


def padded(case: Any, x: Any) -> Any:
    """The input with the case's padding written out."""
    if case.symmetric != (0, 0):
        return F.pad(x, (case.symmetric[1],) * 2 + (case.symmetric[0],) * 2)
    return F.pad(x, case.pad)  # left, right, up, down, as PyTorch orders them


@pytest.mark.parametrize("case", parameters(CONVOLUTIONS))
def test_convolution(case: Any) -> None:
    values, act = case.values(), as_float32(case.activation)
    x, w = leaf(c_order(values["x"])), leaf(kernel(case, values["w"][0]))
    b = leaf(values["b"][0]) if case.b else None
    z = F.conv2d(padded(case, x), w, b, stride=case.step, dilation=case.dilation, groups=case.groups)
    z = z[:, :, : case.y.size[1], : case.y.size[0]]
    back = {"y": c_order, "dy": c_order, "dx": c_order, "dw": lambda g: kernel_back(case, g), "db": lambda g: g[None]}
    compare(case, ACTIVATIONS[act.name](z, act), {"dx": x, "dw": w, "db": b}, back)


TRANSPOSED = [
    c for c in transposed_convolution.CASES if c.w.layout == IOHRWR and is_one_function(c.activation) and c.y.is_plain
]  # fmt: skip


@pytest.mark.parametrize("case", parameters(TRANSPOSED))
def test_transposed_convolution(case: Any) -> None:
    """Weights (I, O, KH, KW) of ConvTranspose2d are stored as they are and described by IOHrWr."""
    values, act = case.values(), as_float32(case.activation)
    # IOHrWr: size is (KW, KH, O, I), and the stored order is reversed along both kernel axes.
    stored = values["w"][0][::-1, ::-1].transpose(3, 2, 1, 0)
    x, w = leaf(c_order(values["x"])), leaf(np.ascontiguousarray(stored))
    b = leaf(values["b"][0]) if case.b else None
    left, _, up, _ = (case.symmetric[1],) * 2 + (case.symmetric[0],) * 2 if case.symmetric != (0, 0) else case.pad
    full = F.conv_transpose2d(x, w, None, stride=case.step, dilation=case.dilation)
    wide = F.pad(full, (0, 8, 0, 8))  # room for output pixels that nothing falls on
    height, width = case.y.size[1], case.y.size[0]
    z = wide[:, :, up : up + height, left : left + width]
    z = z if b is None else z + b[:, None, None]
    back = {
        "y": c_order, "dy": c_order, "dx": c_order, "db": lambda g: g[None],
        "dw": lambda g: g.transpose(3, 2, 1, 0)[::-1, ::-1][None],
    }  # fmt: skip
    compare(case, ACTIVATIONS[act.name](z, act), {"dx": x, "dw": w, "db": b}, back)


STANDALONE = [c for c in activation.EVERY_FUNCTION if is_one_function(c.activation)]


@pytest.mark.parametrize("case", parameters(STANDALONE))
def test_activation(case: Any) -> None:
    act = as_float32(case.activation)
    x = leaf(c_order(case.values()["x"]))
    leaves = {"dx": x}
    if act.name == "LeakyRectifiedLinear":  # its alpha trains, as the weight of PReLU
        leaves["dw"] = leaf(np.array([act.alpha]))
        y = F.prelu(x, leaves["dw"])
    else:
        y = ACTIVATIONS[act.name](x, act)
    compare(case, y, leaves, {"y": c_order, "dy": c_order, "dx": c_order, "dw": lambda g: g[None]})


def test_prelu() -> None:
    case = activation.case("torch", Act("PReLUPerChannel", 0.25), image(5, 7, 3), batch=4)
    x, alpha = leaf(c_order(case.values()["x"])), leaf(np.full(5, 0.25))
    compare(
        case,
        F.prelu(x, alpha),
        {"dx": x, "dw": alpha},
        {"y": c_order, "dy": c_order, "dx": c_order, "dw": lambda g: g[None]},
    )


@pytest.mark.parametrize("flags", range(1, 16))
@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
def test_softmax_axes(name: str, flags: int) -> None:
    """Bits choose width, height, channels and batch; several are taken jointly."""
    case = activation.case(f"torch-{flags}", Act(name), image(3, 4, 5), batch=6, axis_flags=flags)
    x = leaf(c_order(case.values()["x"]))
    axes = [axis for bit, axis in ((1, 3), (2, 2), (4, 1), (8, 0)) if flags & bit]
    y = x - torch.logsumexp(x, dim=axes, keepdim=True)
    y = torch.exp(y) if name == "Softmax" else y
    compare(case, y, {"dx": x}, {"y": c_order, "dy": c_order, "dx": c_order})


UNARY = {
    "SquareRoot": torch.sqrt,
    "ReciprocalSquareRoot": torch.rsqrt,
    "Ceil": torch.ceil,
    "Floor": torch.floor,
    "Round": torch.round,
    "Sin": torch.sin,
    "Cos": torch.cos,
    "Tan": torch.tan,
    "Asin": torch.asin,
    "Acos": torch.acos,
    "Atan": torch.atan,
    "Sinh": torch.sinh,
    "Cosh": torch.cosh,
    "Tanh": torch.tanh,
    "Asinh": torch.asinh,
    "Acosh": torch.acosh,
    "Atanh": torch.atanh,
    "Exp": torch.exp,
    "Exp2": torch.exp2,
    "Log": torch.log,
    "Log2": torch.log2,
    "Abs": torch.abs,
    "Sign": torch.sign,
    "Negate": torch.neg,
    "Reciprocal": torch.reciprocal,
    "Square": torch.square,
    "Erf": torch.erf,
}
OTHERS = {
    "Add": torch.add, "Subtract": torch.sub, "Multiply": torch.mul, "Divide": torch.div, "Pow": torch.pow,
    "Minimum": torch.minimum, "Maximum": torch.maximum, "TruncRemainder": torch.fmod,
    "MultiplyAdd": lambda a, b, c: a * b + c, "Select": lambda a, b, c: torch.where(a != 0, b, c),
    "FloorDivide": lambda a, b: torch.floor(a / b), "TruncDivide": lambda a, b: torch.trunc(a / b),
}  # fmt: skip

ELEMENTWISE = [
    c
    for c in arithmetic.EVERY_FUNCTION
    + arithmetic.BROADCAST_EVERY_FUNCTION
    + arithmetic.ROLES
    + arithmetic.BROADCASTS
    + arithmetic.SHARED
    if c.function in UNARY | OTHERS and c.y_role == arithmetic.S and c.activation.is_identity
]


@pytest.mark.parametrize("case", parameters(ELEMENTWISE))
def test_arithmetic(case: Any) -> None:
    values = case.values()
    operands = [leaf(values[f"a{i}"]) for i in range(case.count)]
    used = [operands[0], operands[0], *operands[2:]] if case.shared else operands
    y = (UNARY | OTHERS)[case.function](*used)
    y = torch.broadcast_to(y, (case.batch, *case.y.size)) * 1.0
    ours = native(case)
    expected = y.detach().numpy()
    assert_within(case.y.decode(ours.y), expected, case.forward_bound(values, expected), f"{case.id}: y")
    if not y.requires_grad:
        return
    y.backward(torch.tensor(values["dy"]))
    bounds = case.backward_bounds(values, expected)
    for name in case.gradients:
        gradient = operands[int(name[2])].grad
        gradient = np.zeros_like(ours.gradients[name]) if gradient is None else gradient.numpy()
        assert_within(ours.gradients[name], gradient, bounds[name] * 1.5, f"{case.id}: {name}")


# A ten-step training curve: conv 3x3 + ReLU, conv 2x2 stride 2 + tanh, fully connected; squared error, plain descent.


class Layer:
    """A filter with its memory: output, gradients, and parameters that descent changes in place."""

    def __init__(self, case: Any, w: Array, b: Array) -> None:
        self.case = case
        self.w, self.b = Storage(case.w, values=w[None]), Storage(case.b, values=b[None])
        self.filter = case.create(self.w.elements, self.b.elements, 0)
        self.y, self.dx = Storage(case.y, case.batch), Storage(case.x, case.batch)
        self.dw, self.db = Storage(case.w), Storage(case.b)

    def forward(self, x: Any) -> Any:
        self.x = x
        succeed(capi.BNNSFilterApplyBatch(self.filter, self.case.batch, x, 0, self.y.elements, 0))
        return self.y.elements

    def backward(self, dy: Any) -> Any:
        out = None if self.case.activation.is_identity else self.y.elements
        succeed(
            capi.BNNSFilterApplyBackwardBatch(
                self.filter, self.case.batch, self.x, 0, self.dx.descriptor(), 0, out, 0, self.case.y.descriptor(dy), 0,
                self.dw.descriptor(), self.db.descriptor(),
            )
        )  # fmt: skip
        return self.dx.elements

    def descend(self, rate: float) -> None:
        for parameter, gradient in ((self.w, self.dw), (self.b, self.db)):
            parameter.elements[:] -= np.float32(rate) * gradient.elements


def test_training_curve() -> None:
    rng = np.random.default_rng(3)
    batch, rate = 16, 0.05
    cases = [
        convolution.case(
            "curve-1", 1, 8, (10, 10), (3, 3), symmetric=(1, 1), batch=batch, activation=Act("RectifiedLinear")
        ),
        convolution.case("curve-2", 8, 6, (10, 10), (2, 2), step=(2, 2), batch=batch, activation=Act("Tanh")),
        fully_connected.case("curve-3", 150, 4, batch, x=vector(150)),
    ]
    start = [(c.values()["w"][0], c.values()["b"][0]) for c in cases]
    layers = [Layer(c, w, b) for c, (w, b) in zip(cases, start, strict=True)]
    x = np.float32(rng.standard_normal((batch, 1, 10, 10)))
    target = np.float32(rng.standard_normal((batch, 4)))

    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 6, 2, stride=2), torch.nn.Tanh(),
        torch.nn.Flatten(), torch.nn.Linear(150, 4),
    )  # fmt: skip
    with torch.no_grad():
        for module, case, (w, b) in zip((net[0], net[2], net[5]), cases, start, strict=True):
            plain = kernel(case, w) if w.ndim == 4 else w.T
            module.weight.copy_(torch.tensor(np.ascontiguousarray(plain), dtype=torch.float32))
            module.bias.copy_(torch.tensor(b, dtype=torch.float32))
    descent = torch.optim.SGD(net.parameters(), lr=rate)

    ours, theirs = [], []
    for _ in range(10):
        y = x.reshape(-1)
        for layer in layers:
            y = layer.forward(y)
        difference = y.reshape(batch, 4) - target
        ours.append(float(np.mean(difference**2)))
        dy = np.float32(2.0 / difference.size) * difference.reshape(-1)
        for layer in reversed(layers):
            dy = layer.backward(dy)
        for layer in layers:
            layer.descend(rate)

        loss = F.mse_loss(net(torch.tensor(x)), torch.tensor(target))
        theirs.append(float(loss.detach()))
        descent.zero_grad()
        loss.backward()
        descent.step()
    np.testing.assert_allclose(ours, theirs, rtol=2e-6)
    assert ours[-1] < 0.9 * ours[0]
