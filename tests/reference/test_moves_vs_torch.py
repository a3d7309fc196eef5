"""The reference tensor functions and optimizers against PyTorch in float64, where it defines the same thing."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autograd import close, differentiate
from openbnns.parameters.crop_resize import Box, Sampling, Settings
from openbnns.parameters.moves import Shuffle
from openbnns.parameters.optimizer import Adam, Preparation, Regularization, RMSProp, SGDMomentum
from openbnns.parameters.padding import Mode
from openbnns.parameters.reduction import ReductionKind as R
from openbnns.parameters.resize import Method
from openbnns.reference import (
    clipping,
    crop_resize,
    moves,
    nearest_neighbors,
    optimizer,
    padding,
    permute,
    reduction,
    resize,
    selection,
)

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.peers


def generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng([2027, *seed])


# ---------------------------------------------------------------------------------------------------------------------
# Filters


def test_permute() -> None:
    x, order = generator(2).standard_normal((2, 3, 4, 5)), (0, 3, 1, 2)
    y, dy, (dx,) = differentiate(lambda x: x.permute(order), 1, x)
    close(permute.forward(x, order), y)
    close(permute.backward(dy, order), dx)


@pytest.mark.parametrize("mode", [Mode.CONSTANT, Mode.REFLECT])
def test_padding(mode: Mode) -> None:
    x, widths = generator(3).standard_normal((2, 3, 5, 4)), ((0, 0), (0, 0), (4, 1), (2, 3))
    name = {Mode.CONSTANT: "constant", Mode.REFLECT: "reflect"}[mode]
    y, dy, (dx,) = differentiate(lambda x: F.pad(x, (2, 3, 4, 1), mode=name), 1, x)
    close(padding.forward(mode, x, widths), y)
    close(padding.backward(mode, dy, widths), dx)


@pytest.mark.parametrize("size", [(10, 8), (20, 12), (7, 9), (3, 2), (5, 1), (1, 4), (2, 17)])
@pytest.mark.parametrize("align_corners", [False, True])
def test_linear_resize(size: tuple[int, int], align_corners: bool) -> None:
    x = generator(4).standard_normal((2, 3, 5, 4))
    y, dy, (dx,) = differentiate(
        lambda x: F.interpolate(x, size=size, mode="bilinear", align_corners=align_corners), 1, x
    )
    close(resize.forward(Method.LINEAR, x, (2, 3, *size), align_corners), y)
    close(resize.backward(Method.LINEAR, dy, x.shape, align_corners), dx)


@pytest.mark.parametrize("size", [(12, 8), (18, 12), (3, 2), (2, 1), (6, 8)])
def test_nearest_resize(size: tuple[int, int]) -> None:
    x = generator(5).standard_normal((2, 3, 6, 4))
    y, dy, (dx,) = differentiate(lambda x: F.interpolate(x, size=size, mode="nearest"), 1, x)
    close(resize.forward(Method.NEAREST, x, (2, 3, *size)), y)
    close(resize.backward(Method.NEAREST, dy, x.shape), dx)


AXES = (1, 3)
REDUCTIONS = {
    R.MAX: lambda x: torch.amax(x, AXES, keepdim=True),
    R.MIN: lambda x: torch.amin(x, AXES, keepdim=True),
    R.MEAN: lambda x: torch.mean(x, AXES, keepdim=True),
    R.SUM: lambda x: torch.sum(x, AXES, keepdim=True),
    R.SUM_SQUARE: lambda x: torch.sum(x * x, AXES, keepdim=True),
    R.SUM_LOG: lambda x: torch.sum(torch.log(x + 0.1), AXES, keepdim=True),
    R.L1_NORM: lambda x: torch.linalg.vector_norm(x, 1, AXES, keepdim=True),
    R.L2_NORM: lambda x: torch.linalg.vector_norm(x, 2, AXES, keepdim=True),
    R.LOG_SUM_EXP: lambda x: torch.logsumexp(x, AXES, keepdim=True),
    R.LOG_SUM: lambda x: torch.log(torch.sum(x, AXES, keepdim=True)),
    R.PRODUCT: lambda x: torch.prod(torch.prod(x, 3, keepdim=True), 1, keepdim=True),
}


@pytest.mark.parametrize("function", list(REDUCTIONS))
def test_reduction(function: R) -> None:
    x = generator(6).uniform(0.2, 2.0, (2, 3, 4, 5))
    y, dy, (dx,) = differentiate(REDUCTIONS[function], 1, x)
    close(reduction.forward(function, x, AXES, epsilon=0.1), y)
    close(reduction.backward(function, x, dy, AXES, {"dx"}, epsilon=0.1)["dx"], dx)


def test_product_with_zeros() -> None:
    x = np.array([[1.5, 0.0, 2.0], [0.0, 0.0, 3.0], [2.0, 3.0, 4.0]])
    y, dy, (dx,) = differentiate(lambda x: torch.prod(x, 1, keepdim=True), 1, x)
    close(reduction.forward(R.PRODUCT, x, (1,)), y)
    close(reduction.backward(R.PRODUCT, x, dy, (1,), {"dx"})["dx"], dx)


def test_positions_and_truth() -> None:
    x = generator(7).integers(-2, 3, (4, 5, 3)).astype(np.float64)
    t = torch.tensor(x)
    close(reduction.forward(R.ARG_MAX, x, (1, 2))[:, 0, 0], t.reshape(4, 15).numpy().argmax(1))
    close(reduction.forward(R.LOGICAL_OR, x, (1,)), torch.any(t != 0, 1, keepdim=True).double().numpy())
    close(reduction.forward(R.LOGICAL_AND, x, (2,)), torch.all(t != 0, 2, keepdim=True).double().numpy())


@pytest.mark.parametrize("function", [R.SUM, R.MEAN, R.SUM_SQUARE, R.L1_NORM, R.L2_NORM, R.LOG_SUM_EXP, R.LOG_SUM])
def test_weighted_reduction(function: R) -> None:
    def formula(x: Any, w: Any) -> Any:
        summand = {R.SUM_SQUARE: x * x, R.L1_NORM: abs(x), R.L2_NORM: x * x, R.LOG_SUM_EXP: torch.exp(x)}
        total = torch.sum(w * summand.get(function, x), AXES, keepdim=True)
        if function == R.MEAN:
            return total / 15
        if function == R.L2_NORM:
            return torch.sqrt(total)
        return torch.log(total) if function in (R.LOG_SUM, R.LOG_SUM_EXP) else total

    x, w = generator(8).uniform(0.2, 2.0, (2, 3, 4, 5)), generator(9).uniform(0.5, 1.5, (1, 3, 4, 5))
    y, dy, (dx, dw) = differentiate(formula, 1, x, w)
    close(reduction.forward(function, x, AXES, w), y)
    gradients = reduction.backward(function, x, dy, AXES, {"dx", "dw"}, w)
    close(gradients["dx"], dx)
    close(gradients["dw"], dw)


@pytest.mark.parametrize("sampling", list(Sampling))
def test_crop_resize_samples_like_a_grid(sampling: Sampling) -> None:
    """PyTorch samples at given positions; the positions are those of the reference."""
    x, boxes, size = generator(10).standard_normal((2, 3, 6, 7)), np.array([[0.5, 1.0, 4.0, 5.5]]), (4, 3)
    settings = Settings(sampling, Box.CORNERS_HEIGHT_FIRST)
    rows = crop_resize._positions(settings, boxes[:, 0], boxes[:, 2], size[0])[0]
    columns = crop_resize._positions(settings, boxes[:, 1], boxes[:, 3], size[1])[0]
    vertical, horizontal = np.meshgrid(2 * rows / 5 - 1, 2 * columns / 6 - 1, indexing="ij")
    grid = torch.tensor(np.stack([horizontal, vertical], axis=-1)).expand(2, -1, -1, -1)
    y, dy, (dx,) = differentiate(lambda x: F.grid_sample(x, grid, align_corners=True), 1, x)
    close(crop_resize.forward(settings, x, boxes, size)[0], y, 1e-10)
    close(crop_resize.backward(settings, dy[np.newaxis], boxes, x.shape), dx, 1e-10)


# ---------------------------------------------------------------------------------------------------------------------
# Direct functions


def test_tile_and_bands() -> None:
    x = generator(11).standard_normal((2, 3, 4))
    y, dy, (dx,) = differentiate(lambda x: torch.tile(x, (2, 1, 3)), 1, x)
    close(moves.tile(x, (4, 3, 12)), y)
    close(moves.tile_backward(dy, x.shape), dx)
    for lower, upper in itertools.product([0, 1, 2], repeat=2):
        close(moves.band_part(x, lower, upper), torch.tril(torch.triu(torch.tensor(x), -lower), upper).numpy())


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_top_k(axis: int) -> None:
    x = generator(12).standard_normal((4, 5, 6))
    values, indices = torch.topk(torch.tensor(x), 3, dim=axis)
    best, at = selection.top_k(x, 3, axis)
    close(best, values.numpy())
    np.testing.assert_array_equal(at, indices.numpy())


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_and_scatter(axis: int) -> None:
    rng = generator(13)
    x, old, indices = rng.standard_normal((4, 4, 4)), rng.standard_normal((4, 4, 4)), rng.integers(0, 4, (4, 4, 4))
    t, places = torch.tensor(x), torch.tensor(indices)
    close(selection.gather(x, indices, axis), torch.gather(t, axis, places).numpy())
    close(selection.scatter(R.SUM, x, indices, old, axis), torch.tensor(old).scatter_add(axis, places, t).numpy())
    line = indices[0, 0]
    close(selection.gather(x, line, axis), torch.index_select(t, axis, torch.tensor(line)).numpy())
    close(
        selection.scatter(R.SUM, x, line, old, axis), torch.tensor(old).index_add(axis, torch.tensor(line), t).numpy()
    )


def test_shuffle() -> None:
    x = generator(14).standard_normal((2, 18, 4, 5))
    y = F.pixel_shuffle(torch.tensor(x), 3)
    close(moves.shuffle(Shuffle.PIXEL_SHUFFLE, x, 3), y.numpy())
    close(moves.shuffle(Shuffle.PIXEL_UNSHUFFLE, y.numpy(), 3), F.pixel_unshuffle(y, 3).numpy())


def test_norms_and_clipping() -> None:
    x = generator(15).standard_normal((3, 4, 5))
    y, dy, (dx,) = differentiate(lambda x: torch.linalg.vector_norm(x, dim=(0, 2)), 1, x)
    close(clipping.norm(x, (0, 2)), y)
    close(clipping.norm_backward(x, y, dy, (0, 2)), dx)
    leaves = [torch.zeros(shape, dtype=torch.float64, requires_grad=True) for shape in [(3, 4), (7,)]]
    gradients = [generator(16, k).standard_normal(tuple(leaf.shape)) for k, leaf in enumerate(leaves)]
    for leaf, gradient in zip(leaves, gradients, strict=True):
        leaf.grad = torch.tensor(gradient)
    total = torch.nn.utils.clip_grad_norm_(leaves, 1.5)
    assert clipping.global_norm(gradients) == pytest.approx(float(total))
    for leaf, clipped in zip(leaves, clipping.clip_by_global_norm(gradients, 1.5), strict=True):
        close(clipped, leaf.grad.numpy(), 1e-6)  # PyTorch adds 1e-6 to the norm


def test_nearest_neighbours() -> None:
    samples = generator(17).standard_normal((20, 3))
    distances, indices = torch.topk(torch.cdist(torch.tensor(samples), torch.tensor(samples)), 5, largest=False)
    at, far = nearest_neighbors.find(samples, 5)
    np.testing.assert_array_equal(at, indices.numpy())
    np.testing.assert_allclose(far, distances.numpy(), atol=1e-6)


# ---------------------------------------------------------------------------------------------------------------------
# Optimizers

DECAY = Preparation(regularization=Regularization.L2, regularization_scale=0.1)
OPTIMIZERS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "sgd": (SGDMomentum(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "momentum": (SGDMomentum(0.1, 0.9, variant=1), lambda p: torch.optim.SGD(p, 0.1, 0.9)),
    "nesterov 1": (SGDMomentum(0.1, 0.9, True, 1), lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True)),
    "nesterov 2": (SGDMomentum(0.1, 0.9, True, 2), lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True)),
    "variant 0": (SGDMomentum(0.1, 0.9), lambda p: torch.optim.SGD(p, 0.1, 0.9)),
    "variant 2": (SGDMomentum(0.1, 0.9, variant=2), lambda p: torch.optim.SGD(p, 0.1, 0.9)),
    "decay": (
        SGDMomentum(0.1, 0.9, variant=1, preparation=DECAY),
        lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.1),
    ),
    "adam": (
        Adam(0.05, 0.8, 0.95, 1e-2, corrected_epsilon=True),
        lambda p: torch.optim.Adam(p, 0.05, (0.8, 0.95), 1e-2),
    ),
    "adam without epsilon": (Adam(0.05, 0.8, 0.95, 0.0), lambda p: torch.optim.Adam(p, 0.05, (0.8, 0.95), 0.0)),
    "adam decay": (
        Adam(0.05, 0.8, 0.95, 1e-2, corrected_epsilon=True, preparation=DECAY),
        lambda p: torch.optim.Adam(p, 0.05, (0.8, 0.95), 1e-2, weight_decay=0.1),
    ),
    "amsgrad": (
        Adam(0.05, 0.8, 0.5, 1e-2, corrected_epsilon=True, amsgrad=True),
        lambda p: torch.optim.Adam(p, 0.05, (0.8, 0.5), 1e-2, amsgrad=True),
    ),
    "adamw": (
        Adam(0.05, 0.8, 0.95, 1e-2, corrected_epsilon=True, decoupled_decay=True, preparation=DECAY),
        lambda p: torch.optim.AdamW(p, 0.05, (0.8, 0.95), 1e-2, weight_decay=0.1),
    ),
    "adamw amsgrad": (
        Adam(0.05, 0.8, 0.5, 1e-2, corrected_epsilon=True, decoupled_decay=True, amsgrad=True, preparation=DECAY),
        lambda p: torch.optim.AdamW(p, 0.05, (0.8, 0.5), 1e-2, weight_decay=0.1, amsgrad=True),
    ),
    **{
        f"rmsprop {centered} {momentum}": (
            RMSProp(0.05, 0.9, 1e-2, centered, momentum, DECAY),
            lambda p, centered=centered, momentum=momentum: torch.optim.RMSprop(  # type: ignore[misc]
                p, 0.05, 0.9, 1e-2, weight_decay=0.1, centered=centered, momentum=momentum
            ),
        )
        for centered, momentum in itertools.product([False, True], [0.0, 0.7])
    },
}


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_ten_steps(name: str) -> None:
    o, create = OPTIMIZERS[name]
    parameters = [generator(18, k).standard_normal(shape) for k, shape in enumerate([(3, 4), (5,)])]
    leaves = [torch.tensor(w, requires_grad=True) for w in parameters]
    theirs = create(leaves)
    accumulators = [np.zeros(w.shape) for _ in range(o.roles) for w in parameters]
    for t in range(1, 11):
        gradients = [generator(19, t, k).standard_normal(w.shape) for k, w in enumerate(parameters)]
        for leaf, gradient in zip(leaves, gradients, strict=True):
            leaf.grad = torch.tensor(gradient)
        theirs.step()
        if isinstance(o, Adam):
            o = replace(o, time_step=float(t))
        parameters, accumulators = optimizer.step(o, parameters, gradients, accumulators)
        for w, leaf in zip(parameters, leaves, strict=True):
            close(w, leaf.detach().numpy())
