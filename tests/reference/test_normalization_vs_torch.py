"""The reference engine's normalization, fused chains and quantization against PyTorch in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autograd import close, differentiate
from openbnns.parameters.activation import IDENTITY, Activation
from openbnns.parameters.activation import ActivationKind as A
from openbnns.parameters.arithmetic import ArithmeticKind as Op
from openbnns.parameters.convolution import Geometry
from openbnns.parameters.normalization import Kind, Normalization
from openbnns.reference import dropout, fused, normalization, quantization
from openbnns.reference.normalization import Moving

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.peers

EPSILON = 1e-3
IMAGE, VECTOR = (4, 6, 5, 7), (9, 6)

ACTIVATIONS: dict[str, tuple[Activation, Callable[[Any], Any]]] = {
    "identity": (IDENTITY, lambda z: z),
    "relu": (Activation(A.RECTIFIED_LINEAR), F.relu),
    "elu": (Activation(A.ELU, 1.3), lambda z: F.elu(z, 1.3)),
    "gelu": (Activation(A.GELU), F.gelu),
}
activations = pytest.mark.parametrize(("f", "theirs"), ACTIVATIONS.values(), ids=ACTIVATIONS)


def normal(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def layer_norm(axis: int) -> Callable[[Any, Any, Any], Any]:
    return lambda x, g, b: F.layer_norm(x, x.shape[1 + axis :], None, None, EPSILON) * g + b


# Ours, PyTorch's function of (x, gamma, beta), and the shapes of x and of the parameters.
NORMALIZATIONS: dict[str, tuple[Normalization, Callable[[Any, Any, Any], Any], tuple[int, ...], tuple[int, ...]]] = {
    "batch": (
        Normalization(Kind.BATCH, EPSILON),
        lambda x, g, b: F.batch_norm(x, None, None, g, b, True, 0.1, EPSILON),
        IMAGE,
        (6,),
    ),
    "batch of vectors": (
        Normalization(Kind.BATCH, EPSILON),
        lambda x, g, b: F.batch_norm(x, None, None, g, b, True, 0.1, EPSILON),
        VECTOR,
        (6,),
    ),
    "instance": (
        Normalization(Kind.INSTANCE, EPSILON),
        lambda x, g, b: F.instance_norm(x, None, None, g, b, True, 0.1, EPSILON),
        IMAGE,
        (6,),
    ),
    "layer 0": (
        Normalization(Kind.LAYER, EPSILON),
        lambda x, g, b: F.layer_norm(x, x.shape[1:], g, b, EPSILON),
        IMAGE,
        (6, 5, 7),
    ),
    "layer 1": (Normalization(Kind.LAYER, EPSILON, axis=1), layer_norm(1), IMAGE, (6, 5, 7)),
    "layer 2": (Normalization(Kind.LAYER, EPSILON, axis=2), layer_norm(2), IMAGE, (6, 5, 7)),
    "layer 0, one value per column": (Normalization(Kind.LAYER, EPSILON), layer_norm(0), IMAGE, (1, 1, 7)),
    "layer of vectors": (
        Normalization(Kind.LAYER, EPSILON),
        lambda x, g, b: F.layer_norm(x, x.shape[1:], g, b, EPSILON),
        VECTOR,
        (6,),
    ),
    "group": (
        Normalization(Kind.GROUP, EPSILON, groups=3),
        lambda x, g, b: F.group_norm(x, 3, g, b, EPSILON),
        IMAGE,
        (6,),
    ),
    "group of vectors": (
        Normalization(Kind.GROUP, EPSILON, groups=2),
        lambda x, g, b: F.group_norm(x, 2, g, b, EPSILON),
        VECTOR,
        (6,),
    ),
}
kinds = pytest.mark.parametrize(("n", "normalize", "shape", "size"), NORMALIZATIONS.values(), ids=NORMALIZATIONS)


@kinds
@activations
def test_normalization(
    n: Normalization,
    normalize: Callable[[Any, Any, Any], Any],
    shape: tuple[int, ...],
    size: tuple[int, ...],
    f: Activation,
    theirs: Callable[[Any], Any],
) -> None:
    x, gamma, beta = normal(1, *shape) + 0.5, normal(2, *size), normal(3, *size)
    y, dy, (dx, dgamma, dbeta) = differentiate(lambda x, g, b: theirs(normalize(x, g, b)), 4, x, gamma, beta)
    ours, state, _ = normalization.training_forward(n, x, beta, gamma, f)
    close(ours, y)
    close(normalization.inference_forward(n, x, beta, gamma, f), y)
    gradients = normalization.backward(n, state, beta, gamma, ours, dy, f, {"dx", "dbeta", "dgamma"})
    close(gradients["dx"], dx)
    close(gradients["dbeta"], dbeta)
    close(gradients["dgamma"], dgamma)


@pytest.mark.parametrize("kind", [Kind.BATCH, Kind.INSTANCE], ids=lambda kind: kind.name.lower())
def test_moving_statistics(kind: Kind) -> None:
    """Three training steps with the update as PyTorch has it, then inference."""
    layer = (torch.nn.BatchNorm2d if kind == Kind.BATCH else torch.nn.InstanceNorm2d)(
        6, EPSILON, 0.3, affine=True, track_running_stats=True, dtype=torch.float64
    )
    n = Normalization(kind, EPSILON, momentum=0.3, torch_moving=True)
    gamma, beta, moving = layer.weight.detach().numpy(), layer.bias.detach().numpy(), Moving(np.zeros(6), np.ones(6))
    for step in range(3):
        x = normal(5 + step, *IMAGE) + step
        y, _, moving = normalization.training_forward(n, x, beta, gamma, IDENTITY, moving)
        close(y, layer(torch.tensor(x)).detach().numpy())
        close(moving.mean, layer.running_mean.numpy())
        close(moving.variance, layer.running_var.numpy())
    layer.eval()
    x = normal(9, *IMAGE)
    close(normalization.inference_forward(n, x, beta, gamma, IDENTITY, moving), layer(torch.tensor(x)).detach().numpy())


CONVOLUTION = Geometry((2, 1), (1, 2), (1, 1, 2, 2), 2, (3, 6))
TRANSPOSED = Geometry((2, 1), (1, 1), (1, 1, 0, 0), 1, (8, 8))

# The first layer, and PyTorch's function of (x, w, b).
WEIGHTED: dict[str, tuple[fused.Weighted, Callable[[Any, Any, Any], Any], tuple[int, ...]]] = {
    "convolution": (
        fused.Convolution(normal(10, 6, 2, 3, 3), normal(11, 6), CONVOLUTION),
        lambda x, w, b: F.conv2d(x, w, b, (2, 1), (1, 2), (1, 2), 2),
        (3, 4, 6, 6),
    ),
    "transposed": (
        fused.Convolution(normal(12, 4, 6, 2, 3), normal(13, 6), TRANSPOSED, transposed=True),
        lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 1), (1, 0)),
        (3, 4, 5, 6),
    ),
    "fully connected": (fused.FullyConnected(normal(14, 6, 8), normal(15, 6)), F.linear, (9, 8)),
}


@pytest.mark.parametrize(("first", "linear", "shape"), WEIGHTED.values(), ids=WEIGHTED)
@pytest.mark.parametrize("name", ["batch", "layer 0", "group"])
@activations
def test_fused_weighted(
    first: fused.Weighted,
    linear: Callable[[Any, Any, Any], Any],
    shape: tuple[int, ...],
    name: str,
    f: Activation,
    theirs: Callable[[Any], Any],
) -> None:
    n, normalize, _, _ = NORMALIZATIONS[name]
    x = normal(16, *shape)
    size = fused.first_forward(first, [x]).shape[1:] if name == "layer 0" else (6,)
    gamma, beta = normal(17, *size), normal(18, *size)
    y, dy, (dx, dw, db, dgamma, dbeta) = differentiate(
        lambda x, w, b, g, beta: theirs(normalize(linear(x, w, b), g, beta)),
        19, x, first.weights, first.bias, gamma, beta,
    )  # fmt: skip
    ours, state, _ = fused.training_forward(first, n, [x], beta, gamma, f)
    close(ours, y)
    inputs, parameters = fused.backward(first, n, state, [x], beta, gamma, ours, dy, f, [True], [True] * 4)
    for got, expected in zip(inputs + parameters, (dx, dw, db, dbeta, dgamma), strict=True):
        close(got, expected)


@pytest.mark.parametrize("name", ["batch", "instance", "layer 1", "group"])
@activations
def test_fused_arithmetic(name: str, f: Activation, theirs: Callable[[Any], Any]) -> None:
    n, normalize, _, size = NORMALIZATIONS[name]
    a, b, c = normal(20, *IMAGE), normal(21, 1, 6, 1, 7), normal(22, 4, 6, 5, 1)
    gamma, beta = normal(23, *size), normal(24, *size)
    for op, operands, function in (
        (Op.TANH, [a], torch.tanh),
        (Op.ADD, [a, b], lambda a, b: a + b),
        (Op.MULTIPLY_ADD, [a, b, c], lambda a, b, c: a * b + c),
    ):
        first = fused.Arithmetic(op)
        y, dy, (dgamma, dbeta, *expected) = differentiate(
            lambda g, beta, *x, function=function: theirs(normalize(function(*x), g, beta)), 25, gamma, beta, *operands
        )
        ours, state, _ = fused.training_forward(first, n, operands, beta, gamma, f)
        close(ours, y)
        wanted = [True] * len(operands)
        inputs, parameters = fused.backward(first, n, state, operands, beta, gamma, ours, dy, f, wanted, [True, True])
        for got, want in zip(inputs + parameters, (*expected, dbeta, dgamma), strict=True):
            close(got, want)


def test_dropout() -> None:
    """PyTorch's own mask, read off its output."""
    x = normal(26, 50, 7)
    y, dy, (dx,) = differentiate(lambda x: F.dropout(x, 0.3), 27, x)
    mask = y != 0.0
    close(dropout.forward(x, mask, 0.3), y)
    close(dropout.backward(dy, mask, 0.3), dx)


@pytest.mark.parametrize(("low", "high"), [(-128, 127), (0, 255), (-8, 7)])
def test_quantize_and_back_per_channel(low: int, high: int) -> None:
    """PyTorch divides by its scale, so ours is the reciprocal; powers of two make both exact, ties included.

    It rounds before it adds the zero point, which makes no difference to a tie if the zero point is even.
    """
    x = np.round(normal(28, 3, 4, 5) * 64) / 16
    step, zero = np.array([0.125, 0.5, 0.0625, 0.25]), np.array([0, 4, 6, 2])
    theirs = torch.fake_quantize_per_channel_affine(
        torch.tensor(x).float(), torch.tensor(step).float(), torch.tensor(zero).int(), 1, low, high
    )
    q = quantization.Quantizer(1.0 / step, zero.astype(np.float64), axis=1)
    np.testing.assert_array_equal(quantization.dequantize(q, quantization.quantize(q, x, low, high)), theirs.numpy())
