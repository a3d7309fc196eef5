"""Schedules against PyTorch's, step for step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openbnns import nn

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")
S = torch.optim.lr_scheduler

SCHEDULES: dict[str, Callable[[Any, Any], Any]] = {
    "lambda": lambda s, o: s.LambdaLR(o, [lambda t: 1 / (1 + t), lambda t: 0.9**t]),
    "step": lambda s, o: s.StepLR(o, 4, gamma=0.3),
    "step, defaults": lambda s, o: s.StepLR(o, 7),
    "multistep": lambda s, o: s.MultiStepLR(o, [3, 9, 9, 14], gamma=0.3),
    "constant": lambda s, o: s.ConstantLR(o, factor=0.25, total_iters=6),
    "constant, defaults": lambda s, o: s.ConstantLR(o),
    "linear": lambda s, o: s.LinearLR(o, start_factor=0.1, end_factor=0.7, total_iters=8),
    "linear, defaults": lambda s, o: s.LinearLR(o),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.8),
    "polynomial": lambda s, o: s.PolynomialLR(o, total_iters=11, power=1.7),
    "polynomial, defaults": lambda s, o: s.PolynomialLR(o),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 7, eta_min=0.01),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, eta_min=0.01),
    "equal restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5),
    "one cycle": lambda s, o: s.OneCycleLR(o, 0.7, total_steps=30),
    "one cycle, maxima": lambda s, o: s.OneCycleLR(o, [0.7, 0.2], epochs=5, steps_per_epoch=6, pct_start=0.25),
    "one cycle, three phases": lambda s, o: s.OneCycleLR(
        o, 0.7, total_steps=30, anneal_strategy="linear", three_phase=True, div_factor=5, final_div_factor=50,
        base_momentum=0.7, max_momentum=0.9,
    ),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=5), s.CosineAnnealingLR(o, 10, eta_min=0.01), s.StepLR(o, 4)], [5, 15]
    ),
    "chained": lambda s, o: s.ChainedScheduler(
        [s.LinearLR(o, 0.1, total_iters=5), s.ExponentialLR(o, 0.9), s.MultiStepLR(o, [4, 12])]
    ),
}  # fmt: skip


def optimizers(**options: Any) -> tuple[Any, Any]:
    ours = [nn.Parameter(np.zeros(2)) for _ in range(2)]
    theirs = [torch.nn.Parameter(torch.zeros(2)) for _ in range(2)]
    return (
        nn.SGD([{"params": ours[:1]}, {"params": ours[1:], "lr": 0.05}], lr=0.3, **options),
        torch.optim.SGD([{"params": theirs[:1]}, {"params": theirs[1:], "lr": 0.05}], lr=0.3, **options),
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_step(name: str) -> None:
    mine, peer = optimizers(momentum=0.9)
    ours, theirs = SCHEDULES[name](nn, mine), SCHEDULES[name](S, peer)
    seen = set()
    for step in range(30):
        for own, other in zip(mine.param_groups, peer.param_groups, strict=True):
            assert own["lr"] == pytest.approx(other["lr"], rel=1e-9, abs=1e-15), f"step {step}"
            assert own["momentum"] == pytest.approx(other["momentum"], rel=1e-12)
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-9, abs=1e-15)
        seen.add(mine.param_groups[0]["lr"])
        if step < 29:
            ours.step()
            peer.step()
            theirs.step()
    assert len(seen) > 1


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_fractions_of_epochs() -> None:
    mine, peer = optimizers()
    ours, theirs = nn.CosineAnnealingWarmRestarts(mine, 2, 3), S.CosineAnnealingWarmRestarts(peer, 2, 3)
    for epoch in np.arange(0, 12, 0.3):
        ours.step(float(epoch))
        peer.step()
        theirs.step(float(epoch))
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-9)


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("kind", ["rel", "abs"])
@pytest.mark.parametrize("seed", range(3))
def test_plateau(mode: Any, kind: Any, seed: int) -> None:
    mine, peer = optimizers()
    options = {
        "factor": 0.5,
        "patience": 2,
        "threshold": 0.05,
        "threshold_mode": kind,
        "cooldown": 2,
        "min_lr": [0.01, 0.02],
    }
    ours, theirs = nn.ReduceLROnPlateau(mine, mode, **options), S.ReduceLROnPlateau(peer, mode, **options)
    values = np.random.RandomState(seed).random_sample(60) + np.linspace(1, 0, 60)
    for value in values:
        ours.step(value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs.step(value)
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-9)
        assert (ours.best, ours.num_bad_epochs, ours.cooldown_counter) == (
            theirs.best, theirs.num_bad_epochs, theirs.cooldown_counter,
        )  # fmt: skip
    assert ours.get_last_lr()[0] < 0.3
