"""Scores of more than two axes, and normalizations of single values: what is refused and what is not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from helpers import Array
from networks import Net, changed, copies, numbers, problem
from openbnns import nn

# Scores of more than two axes.


def softmax(y: Array, axis: int) -> Array:
    powers = np.exp(y - y.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


@pytest.mark.parametrize("shape", [(3, 4, 4), (4, 4, 4, 4), (2, 5, 3, 4)])
def test_classes_stand_on_axis_1(shape: tuple[int, ...], engine: str) -> None:
    """Also where all sizes are equal, so that only the rule distinguishes classes from positions."""
    y = numbers(*shape)
    targets = np.random.RandomState(1).randint(0, shape[1], (shape[0], *shape[2:]))
    wanted = np.moveaxis(np.eye(shape[1], dtype=np.float32)[targets], -1, 1)
    chances = softmax(y.astype(np.float64), 1)
    for given in (targets, targets.astype(np.uint8), wanted):
        value, gradient = nn.CrossEntropyLoss()(y, given)
        assert value == pytest.approx(-(wanted * np.log(chances)).sum(1).mean(), rel=1e-5)
        np.testing.assert_allclose(gradient, (chances - wanted) / targets.size, rtol=1e-4, atol=1e-7)
    last, moved = nn.CrossEntropyLoss(dim=-1)(np.moveaxis(y, 1, -1), targets)
    assert last == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(np.moveaxis(moved, -1, 1), gradient, rtol=1e-4, atol=1e-7)


def test_scores_that_do_not_fit_targets() -> None:
    y = numbers(2, 5, 3)
    with pytest.raises(
        ValueError,
        match=r"scores \(2, 5, 3\) with classes on axis 1 need class numbers of shape \(2, 3\), or probabilities in their "
        r"own shape\. If classes stand on the last axis, use dim=-1",
    ):
        nn.CrossEntropyLoss()(y, np.zeros((2, 5), np.int64))
    with pytest.raises(ValueError, match=r"classes on axis 2 need .* \(2, 5\).* If classes stand on axis 1, use dim=1"):
        nn.CrossEntropyLoss(dim=-1)(y, np.zeros((2, 3), np.int64))
    with pytest.raises(
        ValueError, match="class number 5 is out of range, because the network gives scores of classes 0 to 4"
    ):
        nn.CrossEntropyLoss()(y, np.full((2, 3), 5))
    with pytest.raises(ValueError, match=r"scores have one axis, but need a batch axis and classes"):
        nn.CrossEntropyLoss()(numbers(4), np.array(1))
    with pytest.raises(ValueError, match=r"dim is 2\. Classes stand on axis 1, or with dim=-1 on the last one"):
        nn.CrossEntropyLoss(dim=2)
    assert repr(nn.CrossEntropyLoss(label_smoothing=0.1, dim=-1)) == "CrossEntropyLoss(label_smoothing=0.1, dim=-1)"


@pytest.mark.parametrize("dim", [1, -1])
def test_the_trainer_and_its_accuracy_follow_the_loss(dim: int) -> None:
    """The class of a position is that of its largest input; all axes have the same size."""
    x = np.random.RandomState(0).random_sample((40, 4, 4)).astype(np.float32)
    y = x.argmax(dim)
    if dim == 1:
        net = nn.Sequential(nn.Reshape(4, 4, 1), nn.Conv2d(4, 1), nn.Reshape(4, 4))
    else:
        net = nn.Sequential(nn.Linear(4))
    trainer = nn.Trainer(net, nn.CrossEntropyLoss(dim=dim), nn.Adam(0.05), quiet=True)
    history = trainer.fit(x, y, epochs=60)
    assert history[-1]["accuracy"] > 0.9
    assert trainer.evaluate(x, y)["accuracy"] == pytest.approx((net(x).argmax(dim) == y).mean())


# Normalizations of single values.


@pytest.mark.parametrize(
    ("layer", "shape", "batch", "message"),
    [
        (lambda: nn.BatchNorm1d(), (5,), 1, r"BatchNorm1d: there is one value per channel in training, as the input is of "
         r"shape \(1, 5\).*batches of at least two samples, or eval\(\)"),
        (lambda: nn.BatchNorm2d(), (5, 1, 1), 1, "BatchNorm2d: there is one value per channel in training"),
        (lambda: nn.BatchNorm1d(track_running_stats=False), (5,), 1, "BatchNorm1d: there is one value per channel in training"),
        (lambda: nn.Sequential(nn.Linear(4), nn.BatchNorm1d(), nn.ReLU()), (3,), 1, "BatchNorm1d: there is one value"),
        (lambda: nn.Sequential(nn.Conv2d(4, 3), nn.BatchNorm2d()), (2, 3, 3), 1, "BatchNorm2d: there is one value"),
        (lambda: nn.InstanceNorm2d(), (5, 1, 1), 7, "InstanceNorm2d: there is one value per channel in training.*more than one "
         "pixel"),
        (lambda: nn.GroupNorm(5), (5, 1, 1), 1, "GroupNorm: there is one value per group"),
        (lambda: nn.GroupNorm(5), (5,), 1, "GroupNorm: there is one value per group"),
    ],
)  # fmt: skip
def test_single_values_are_not_normalized(
    layer: Callable[[], nn.Module], shape: tuple[int, ...], batch: int, message: str
) -> None:
    net = layer().build(shape, seed=0)
    before = copies(net)
    with pytest.raises(ValueError, match=message):
        net(numbers(batch, *shape))
    assert not changed(net, before)


def test_single_values_that_pytorch_normalizes_as_well() -> None:
    assert nn.BatchNorm1d().build((5,)).eval()(numbers(1, 5)).shape == (1, 5)
    assert nn.InstanceNorm2d(track_running_stats=True).build((5, 1, 1)).eval()(numbers(1, 5, 1, 1)).shape == (
        1,
        5,
        1,
        1,
    )
    assert nn.BatchNorm2d()(numbers(1, 5, 1, 2)).shape == (1, 5, 1, 2)
    assert nn.GroupNorm(5)(numbers(2, 5, 1, 1)).shape == (2, 5, 1, 1)
    assert nn.LayerNorm()(numbers(1, 1)).shape == (1, 1)
    for make in (nn.BatchNorm2d, nn.InstanceNorm2d):  # statistics of the batch itself at inference
        with pytest.raises(ValueError, match=r"Norm2d: there is one value per channel, as"):
            make(track_running_stats=False).eval()(numbers(1, 5, 1, 1))


def test_a_last_batch_of_one_sample_is_found_before_the_first_step() -> None:
    x, y = problem(33)
    net = Net().build((4,), seed=0)
    before = copies(net)
    with pytest.raises(
        ValueError, match=r"33 samples in batches of 16 leave 1 for the last one.*BatchNorm1d.*another batch_s"
    ):
        nn.Trainer(net, batch_size=16, quiet=True).fit(x, y, epochs=1)
    assert not changed(net, before)
