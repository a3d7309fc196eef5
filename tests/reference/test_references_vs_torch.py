"""The reference engine against PyTorch in float64, where PyTorch defines the same thing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autograd import close, differentiate
from openbnns.parameters.activation import FROM_OUTPUT, IDENTITY, Activation
from openbnns.parameters.activation import ActivationKind as A
from openbnns.parameters.arithmetic import ArithmeticKind as Op
from openbnns.parameters.convolution import Geometry
from openbnns.parameters.loss import Loss, Reduction
from openbnns.parameters.loss import LossKind as L
from openbnns.parameters.pooling import Geometry as PoolingGeometry
from openbnns.parameters.pooling import PoolingKind as P
from openbnns.reference import activation, arithmetic, convolution, loss, pooling

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.peers


ACTIVATIONS = {
    "relu": (Activation(A.RECTIFIED_LINEAR), F.relu),
    "leaky": (Activation(A.LEAKY_RECTIFIED_LINEAR, 0.2), lambda x: F.leaky_relu(x, 0.2)),
    "sigmoid": (Activation(A.SIGMOID), torch.sigmoid),
    "tanh": (Activation(A.TANH), torch.tanh),
    "abs": (Activation(A.ABS), torch.abs),
    "clamp": (Activation(A.CLAMP, -1.0, 2.0), lambda x: F.hardtanh(x, -1.0, 2.0)),
    "gelu tanh": (
        Activation(A.GELU_APPROXIMATION, np.sqrt(2 / np.pi), 0.044715),
        lambda x: F.gelu(x, approximate="tanh"),
    ),
    "hard sigmoid": (Activation(A.HARD_SIGMOID, 1 / 6, 0.5), F.hardsigmoid),
    "softplus": (Activation(A.SOFTPLUS, 1 / 0.7, 0.7), lambda x: F.softplus(x, 0.7, 1e9)),
    "softsign": (Activation(A.SOFTSIGN), F.softsign),
    "elu": (Activation(A.ELU, 1.3), lambda x: F.elu(x, 1.3)),
    "log sigmoid": (Activation(A.LOG_SIGMOID), F.logsigmoid),
    "selu": (Activation(A.SELU), F.selu),
    "celu": (Activation(A.CELU, 2.0), lambda x: F.celu(x, 2.0)),
    "hard shrink": (Activation(A.HARD_SHRINK, 0.9), lambda x: F.hardshrink(x, 0.9)),
    "soft shrink": (Activation(A.SOFT_SHRINK, 0.9), lambda x: F.softshrink(x, 0.9)),
    "tanh shrink": (Activation(A.TANH_SHRINK), F.tanhshrink),
    "threshold": (Activation(A.THRESHOLD, 0.5, 0.2), lambda x: F.threshold(x, 0.5, 0.2)),
    "hard swish": (Activation(A.HARD_SWISH), F.hardswish),
    "silu": (Activation(A.SILU), F.silu),
    "relu6": (Activation(A.RELU6), F.relu6),
    "erf": (Activation(A.ERF), torch.erf),
    "gelu": (Activation(A.GELU), F.gelu),
    "softmax": (Activation(A.SOFTMAX), lambda x: F.softmax(x, -1)),
    "log softmax": (Activation(A.LOG_SOFTMAX), lambda x: F.log_softmax(x, -1)),
}


@pytest.mark.parametrize(("f", "theirs"), ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_activation(f: Activation, theirs: Callable[[Any], Any]) -> None:
    x = np.random.default_rng(1).uniform(-6, 8, (5, 7, 9))
    y, dy, (dx,) = differentiate(theirs, 2, x)
    close(activation.forward(f, x), y)
    # PyTorch rounds the slope 1/6 of its hard sigmoid to float32.
    close(activation.backward(f, dy, x=x), dx, rtol=1e-7 if f.function == A.HARD_SIGMOID else 1e-11)
    if f.function in FROM_OUTPUT:
        np.testing.assert_allclose(activation.backward(f, dy, y=y), dx, rtol=1e-6, atol=1e-9)


def test_prelu() -> None:
    rng = np.random.default_rng(3)
    x, alpha = rng.standard_normal((3, 5, 4, 2)), rng.standard_normal(5)
    y, dy, (dx, d_alpha) = differentiate(F.prelu, 4, x, alpha)
    f = Activation(A.PRELU_PER_CHANNEL, channel_alpha=alpha)
    close(activation.forward(f, x), y)
    close(activation.backward(f, dy, x=x), dx)
    close(activation.alpha_gradient(f, x, dy), d_alpha)


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"),
    [
        ((1, 1), (0, 0), (1, 1), 1),
        ((2, 3), (1, 2), (1, 1), 1),
        ((1, 2), (4, 3), (2, 3), 2),
        ((3, 1), (0, 1), (1, 2), 4),
    ],
)
def test_convolution(stride: Any, padding: Any, dilation: Any, groups: int) -> None:
    rng = np.random.default_rng(5)
    x, w, b = rng.standard_normal((3, 4, 9, 11)), rng.standard_normal((8, 4 // groups, 3, 2)), rng.standard_normal(8)
    y, dy, (dx, dw, db) = differentiate(
        lambda x, w, b: F.conv2d(x, w, b, stride, padding, dilation, groups), 6, x, w, b
    )
    up, left = padding
    g = Geometry(stride, dilation, (up, up, left, left), groups, y.shape[2:])
    close(convolution.forward(x, w, b, IDENTITY, g), y)
    ours = convolution.backward(x, y, dy, w, IDENTITY, g, {"dx", "dw", "db"}, (9, 11))
    close(ours["dx"], dx)
    close(ours["dw"], dw)
    close(ours["db"], db)


@pytest.mark.parametrize(
    ("stride", "padding", "output_padding", "dilation"),
    [
        ((1, 1), (0, 0), (0, 0), (1, 1)),
        ((2, 3), (1, 0), (0, 0), (1, 1)),
        ((2, 2), (1, 1), (1, 0), (2, 1)),
        ((3, 1), (2, 3), (2, 0), (1, 3)),
    ],
)
def test_transposed_convolution(stride: Any, padding: Any, output_padding: Any, dilation: Any) -> None:
    rng = np.random.default_rng(7)
    x, v, b = rng.standard_normal((3, 4, 5, 6)), rng.standard_normal((4, 3, 3, 4)), rng.standard_normal(3)
    y, dy, (dx, dv, db) = differentiate(
        lambda x, v, b: F.conv_transpose2d(x, v, b, stride, padding, output_padding, 1, dilation), 8, x, v, b
    )
    up, left = padding
    g = Geometry(stride, dilation, (up, up, left, left), 1, y.shape[2:])
    close(convolution.transposed_forward(x, v, b, IDENTITY, g), y)
    ours = convolution.transposed_backward(x, y, dy, v, IDENTITY, g, {"dx", "dw", "db"}, (5, 6))
    close(ours["dx"], dx)
    close(ours["dw"], dv)
    close(ours["db"], db)


UNARY = {
    Op.SQUARE_ROOT: torch.sqrt,
    Op.RECIPROCAL_SQUARE_ROOT: torch.rsqrt,
    Op.SIN: torch.sin,
    Op.COS: torch.cos,
    Op.TAN: torch.tan,
    Op.ASIN: torch.asin,
    Op.ACOS: torch.acos,
    Op.ATAN: torch.atan,
    Op.SINH: torch.sinh,
    Op.COSH: torch.cosh,
    Op.TANH: torch.tanh,
    Op.ASINH: torch.asinh,
    Op.ACOSH: lambda x: torch.acosh(x + 1),
    Op.ATANH: torch.atanh,
    Op.EXP: torch.exp,
    Op.EXP2: torch.exp2,
    Op.LOG: torch.log,
    Op.LOG2: torch.log2,
    Op.ABS: torch.abs,
    Op.SIGN: torch.sign,
    Op.NEGATE: torch.neg,
    Op.RECIPROCAL: torch.reciprocal,
    Op.SQUARE: torch.square,
    Op.ERF: torch.erf,
    Op.CEIL: torch.ceil,
    Op.FLOOR: torch.floor,
    Op.ROUND: torch.round,
}


@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.name.lower())
def test_unary_arithmetic(op: Op) -> None:
    x = np.random.default_rng(9).uniform(0.05, 0.95, (3, 7))
    y, dy, (dx,) = differentiate(UNARY[op], 10, x)
    operand = x + 1 if op == Op.ACOSH else x
    close(arithmetic.forward(op, [operand], IDENTITY), y)
    close(arithmetic.backward(op, [operand], y, dy, IDENTITY, (True,))[0], dx)


BINARY = {
    Op.ADD: torch.add,
    Op.SUBTRACT: torch.sub,
    Op.MULTIPLY: torch.mul,
    Op.DIVIDE: torch.div,
    Op.POW: torch.pow,
    Op.MINIMUM: torch.minimum,
    Op.MAXIMUM: torch.maximum,
    Op.FLOOR_DIVIDE: lambda a, b: torch.div(a, b, rounding_mode="floor"),
    Op.TRUNC_DIVIDE: lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    Op.TRUNC_REMAINDER: torch.fmod,
}


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name.lower())
def test_binary_arithmetic(op: Op) -> None:
    rng = np.random.default_rng(11)
    a, b = rng.uniform(0.2, 5, (3, 4, 5)), rng.uniform(0.3, 3, (1, 4, 1))
    y, dy, (da, db) = differentiate(BINARY[op], 12, a, b)
    close(arithmetic.forward(op, [a, b], IDENTITY), y)
    ours = arithmetic.backward(op, [a, b], y, dy, IDENTITY, (True, True))
    close(ours[0], da)
    close(ours[1], db)


@pytest.mark.parametrize(("dilation", "out_size"), [(1, (5, 6)), (2, (4, 5))])
def test_max_pooling(dilation: int, out_size: tuple[int, int]) -> None:
    x = np.random.default_rng(13).standard_normal((3, 4, 9, 11))
    indices = np.zeros(0)

    def theirs(x: Any) -> Any:
        nonlocal indices
        y, places = F.max_pool2d(x, 3, 2, 1, dilation, return_indices=True)
        indices = places.numpy()
        return y

    y, dy, (dx,) = differentiate(theirs, 14, x)
    g = PoolingGeometry((3, 3), (2, 2), (dilation, dilation), (1, 1, 1, 1), out_size)
    ours, places = pooling.forward(P.MAX, x, None, IDENTITY, g)
    np.testing.assert_array_equal(ours, y)
    np.testing.assert_array_equal(places, indices)
    close(pooling.backward(P.MAX, x, None, None, dy, IDENTITY, g, x.shape, {"dx"})["dx"], dx)


def test_un_max_pooling() -> None:
    rng = np.random.default_rng(19)
    x, indices = rng.standard_normal((1, 2, 1, 3)), np.array([[[[5, 0, 7]], [[11, 3, 2]]]])
    y, dy, (dx,) = differentiate(lambda x: F.max_unpool2d(x, torch.tensor(indices), 2), 20, x)
    g = PoolingGeometry((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (2, 6))
    close(pooling.forward(P.UN_MAX, x, None, IDENTITY, g, indices)[0], y)
    close(pooling.backward(P.UN_MAX, None, indices, None, dy, IDENTITY, g, x.shape, {"dx"})["dx"], dx)


@pytest.mark.parametrize("include", [True, False])
def test_average_pooling(include: bool) -> None:
    x = np.random.default_rng(15).standard_normal((3, 4, 9, 11))
    y, dy, (dx,) = differentiate(lambda x: F.avg_pool2d(x, 3, 2, 1, False, include), 16, x)
    kind = P.AVERAGE_COUNT_INCLUDE_PADDING if include else P.AVERAGE_COUNT_EXCLUDE_PADDING
    g = PoolingGeometry((3, 3), (2, 2), (1, 1), (1, 1, 1, 1), (5, 6))
    close(pooling.forward(kind, x, None, IDENTITY, g)[0], y)
    close(pooling.backward(kind, None, None, None, dy, IDENTITY, g, x.shape, {"dx"})["dx"], dx)


LOSSES = {
    L.SOFTMAX_CROSS_ENTROPY: lambda x, t, r: F.cross_entropy(x, t, reduction=r, label_smoothing=0.1),
    L.SIGMOID_CROSS_ENTROPY: lambda x, t, r: F.binary_cross_entropy_with_logits(x, 0.9 * t + 0.05, reduction=r),
    L.MEAN_SQUARE_ERROR: lambda x, t, r: F.mse_loss(x, t, reduction=r),
    L.HUBER: lambda x, t, r: F.huber_loss(x, t, reduction=r, delta=0.8),
    L.MEAN_ABSOLUTE_ERROR: lambda x, t, r: F.l1_loss(x, t, reduction=r),
}


@pytest.mark.parametrize(
    ("reduction", "name"), [(Reduction.NONE, "none"), (Reduction.SUM, "sum"), (Reduction.MEAN, "mean")]
)
@pytest.mark.parametrize("function", LOSSES, ids=lambda function: function.name.lower())
def test_loss(function: L, reduction: Reduction, name: str) -> None:
    rng = np.random.default_rng(17)
    x, labels = rng.standard_normal((5, 7)), np.eye(7)[rng.integers(0, 7, 5)]
    value, upstream, (dx,) = differentiate(lambda x: LOSSES[function](x, torch.tensor(labels), name), 18, x)
    settings = Loss(function, reduction, label_smooth=0.1, huber_delta=0.8)
    close(loss.forward(settings, x, labels), value)
    close(loss.backward(settings, x, labels, upstream), dx)
