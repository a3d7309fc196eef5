"""Schedules with PyTorch's names: values from formulas, by hand and in a trainer; states, groups, bad input."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from networks import Net, copies, problem
from openbnns import nn


def optimizer(*rates: float, **options: Any) -> nn.SGD:
    groups = [{"params": [nn.Parameter(np.zeros(2))], "lr": rate} for rate in rates or (0.5,)]
    return nn.SGD(groups, lr=0.5, **options)


def rates(schedule: Any, steps: int) -> list[list[float]]:
    measured = []
    for _ in range(steps):
        measured.append([group["lr"] for group in schedule.optimizer.param_groups])
        assert schedule.get_last_lr() == measured[-1]
        schedule.step()
    return measured


def restarts(t: int) -> float:
    """Cosines of 3, 6 and 12 steps."""
    begin, length = (0, 3) if t < 3 else (3, 6) if t < 9 else (9, 12)
    return 0.1 + 0.4 * (1 + math.cos(math.pi * (t - begin) / length)) / 2


def cycle(t: int) -> float:
    """20 steps: up from 0.08 to 2 in 5 (0 to 5), down to 0.08 / 1e4."""
    if t <= 5:
        return 2 + (0.08 - 2) / 2 * (1 + math.cos(math.pi * t / 5))
    return 8e-6 + (2 - 8e-6) / 2 * (1 + math.cos(math.pi * (t - 5) / 14))


def three_phases(t: int) -> float:
    """20 steps: up from 0.5 to 2 (0 to 4), down again (4 to 8), and to 0.005 (8 to 19), all linearly."""
    if t <= 4:
        return 0.5 + 1.5 * t / 4
    return 2 - 1.5 * (t - 4) / 4 if t <= 8 else 0.5 - 0.495 * (t - 8) / 11


FORMULAS: dict[str, tuple[Callable[[nn.Optimizer], Any], Callable[[int], float]]] = {
    "lambda": (lambda o: nn.LambdaLR(o, lambda t: 0.9**t), lambda t: 0.5 * 0.9**t),
    "step": (lambda o: nn.StepLR(o, 4, gamma=0.3), lambda t: 0.5 * 0.3 ** (t // 4)),
    "multistep": (
        lambda o: nn.MultiStepLR(o, [9, 2, 9], gamma=0.3), lambda t: 0.5 * (1 if t < 2 else 0.3 if t < 9 else 0.3**3)
    ),
    "constant": (lambda o: nn.ConstantLR(o, 0.25, total_iters=6), lambda t: 0.125 if t < 6 else 0.5),
    "linear": (
        lambda o: nn.LinearLR(o, 0.1, total_iters=8), lambda t: 0.5 * (0.1 + 0.9 * min(t, 8) / 8)
    ),
    "linear down": (
        lambda o: nn.LinearLR(o, 1.0, 0.2, total_iters=5), lambda t: 0.5 * (1 - 0.8 * min(t, 5) / 5)
    ),
    "exponential": (lambda o: nn.ExponentialLR(o, 0.8), lambda t: 0.5 * 0.8**t),
    "polynomial": (
        lambda o: nn.PolynomialLR(o, total_iters=11, power=1.7), lambda t: 0.5 * max(0.0, 1 - t / 11) ** 1.7
    ),
    "cosine": (
        lambda o: nn.CosineAnnealingLR(o, T_max=6, eta_min=0.1), lambda t: 0.1 + 0.4 * (1 + math.cos(math.pi * t / 6)) / 2
    ),
    "restarts": (lambda o: nn.CosineAnnealingWarmRestarts(o, 3, 2, eta_min=0.1), restarts),
    "equal restarts": (
        lambda o: nn.CosineAnnealingWarmRestarts(o, 4), lambda t: 0.25 * (1 + math.cos(math.pi * (t % 4) / 4))
    ),
    "one cycle": (
        lambda o: nn.OneCycleLR(o, 2.0, total_steps=20, cycle_momentum=False), cycle
    ),
    "one cycle, three phases": (
        lambda o: nn.OneCycleLR(
            o, 2.0, epochs=4, steps_per_epoch=5, pct_start=0.25, anneal_strategy="linear", div_factor=4,
            final_div_factor=100, three_phase=True, cycle_momentum=False,
        ),
        three_phases,
    ),
    "sequential": (
        lambda o: nn.SequentialLR(
            o, [nn.ConstantLR(o, 0.1, total_iters=9), nn.LinearLR(o, 0.5, total_iters=3), nn.ExponentialLR(o, 0.9)], [4, 9]
        ),
        lambda t: 0.05 if t < 4 else 0.5 * (0.5 + 0.5 * min(t - 4, 3) / 3) if t < 9 else 0.5 * 0.9 ** (t - 9),
    ),
    "chained": (
        lambda o: nn.ChainedScheduler([nn.LinearLR(o, 0.2, total_iters=4), nn.ExponentialLR(o, 0.9), nn.StepLR(o, 5)]),
        lambda t: 0.5 * (0.2 + 0.8 * min(t, 4) / 4) * 0.9**t * 0.1 ** (t // 5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_values_by_hand(name: str) -> None:
    make, formula = FORMULAS[name]
    actual = rates(make(optimizer()), 19)
    expected = [[formula(t)] for t in range(19)]
    assert len({tuple(rate) for rate in expected}) > 1
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("name", [name for name in FORMULAS if "cycle" not in name])
def test_groups_keep_their_own_first_rate(name: str) -> None:
    make, formula = FORMULAS[name]
    by_group = np.array(rates(make(optimizer(0.5, 0.125)), 15))
    np.testing.assert_allclose(by_group[:, 0], [formula(t) for t in range(15)], rtol=1e-12)
    if name not in ("cosine", "restarts"):  # which add something
        np.testing.assert_allclose(by_group[:, 1], by_group[:, 0] / 4, rtol=1e-12)
    else:
        np.testing.assert_allclose((by_group[:, 1] - 0.1) / 0.025, (by_group[:, 0] - 0.1) / 0.4, rtol=1e-9, atol=1e-12)


def test_lists_for_groups() -> None:
    both = nn.LambdaLR(optimizer(0.5, 0.25), [lambda t: 1.0, lambda t: 0.5**t])
    assert rates(both, 3) == [[0.5, 0.25], [0.5, 0.125], [0.5, 0.0625]]
    one = nn.OneCycleLR(optimizer(0.5, 0.25), [1.0, 2.0], total_steps=10, cycle_momentum=False)
    by_group = np.array(rates(one, 10))
    np.testing.assert_allclose(by_group[:, 1], 2 * by_group[:, 0])
    plateau = nn.ReduceLROnPlateau(optimizer(0.5, 0.25), factor=0.1, patience=0, min_lr=[0.0, 0.2])
    for value in (1.0, 1.0):
        plateau.step(value)
    assert plateau.get_last_lr() == pytest.approx([0.05, 0.2])


def test_one_cycle_moves_the_momentum() -> None:
    sgd = optimizer(momentum=0.9)
    schedule = nn.OneCycleLR(sgd, 1.0, total_steps=11, pct_start=0.4, anneal_strategy="linear", div_factor=10)
    moments = []
    for _ in range(11):
        moments.append(sgd.param_groups[0]["momentum"])
        assert sgd.param_groups[0].bnns.momentum == moments[-1]
        schedule.step()
    top = 0.4 * 11 - 1
    expected = [0.95 - 0.1 * t / top if t <= top else 0.85 + 0.1 * (t - top) / (10 - top) for t in range(11)]
    np.testing.assert_allclose(moments, expected, rtol=1e-12)
    with pytest.raises(ValueError, match="this is step 12, but there are 11 in all"):
        schedule.step()
    assert schedule.steps == 11
    adam = nn.Adam([nn.Parameter(np.zeros(2))], lr=0.1)
    nn.OneCycleLR(adam, 1.0, total_steps=11)
    assert adam.param_groups[0]["betas"] == pytest.approx((0.95, 0.999))


def test_fractions_of_epochs() -> None:
    schedule = nn.CosineAnnealingWarmRestarts(optimizer(), 2, 2)
    for epoch in (0.5, 1.75, 2.0, 4.5):
        schedule.step(epoch)
        begin, length = (0, 2) if epoch < 2 else (2, 4)
        expected = 0.25 * (1 + math.cos(math.pi * (epoch - begin) / length))
        assert schedule.get_last_lr() == pytest.approx([expected])


# On a plateau.


def test_plateau() -> None:
    """Patience 2 and cooldown 1, step by step."""
    sgd = optimizer()
    schedule = nn.ReduceLROnPlateau(sgd, factor=0.5, patience=2, threshold=0.1, cooldown=1, min_lr=0.1)
    values = [1.0, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    # bad:    0    1     2     3>2: reduce, cool    1    2     3>2   better, ...
    expected = [0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125, 0.125, 0.1, 0.1, 0.1, 0.1, 0.1]
    actual = []
    for value in values:
        schedule.step(np.float32(value))
        actual.append(sgd.lr)
    assert actual == pytest.approx(expected)


@pytest.mark.parametrize(
    ("mode", "kind", "better", "worse"),
    [("min", "rel", 0.89, 0.91), ("min", "abs", 0.89, 0.91), ("max", "rel", 1.11, 1.09), ("max", "abs", 1.11, 1.09)],
)
def test_what_is_better(mode: Any, kind: Any, better: float, worse: float) -> None:
    schedule = nn.ReduceLROnPlateau(optimizer(), mode, threshold=0.1, threshold_mode=kind)
    schedule.step(1.0)
    assert schedule.is_better(better) and not schedule.is_better(worse) and not schedule.is_better(math.nan)


# States.


@pytest.mark.parametrize("name", FORMULAS)
def test_going_on_from_a_state(name: str) -> None:
    make, _ = FORMULAS[name]
    whole = rates(make(optimizer()), 16)
    first = make(optimizer())
    for _ in range(7):
        first.step()
    later = make(optimizer())
    later.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert rates(later, 9) == whole[7:]


def test_a_plateau_goes_on_from_a_state() -> None:
    def run(schedule: nn.ReduceLROnPlateau, values: list[float]) -> list[float]:
        measured = []
        for value in values:
            schedule.step(value)
            measured.append(schedule.optimizer.lr)
        return measured

    values = [1.0, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.9, 0.9, 0.9]
    whole = run(nn.ReduceLROnPlateau(optimizer(), patience=1), values)
    first = nn.ReduceLROnPlateau(optimizer(), patience=1)
    run(first, values[:4])
    later = nn.ReduceLROnPlateau(optimizer(), patience=1)
    later.load_state_dict(first.state_dict())
    later.optimizer.load_state_dict(first.optimizer.state_dict())
    assert run(later, values[4:]) == whole[4:]


# In a trainer.

UNBOUND: dict[str, Callable[[], Any]] = {
    "lambda": lambda: nn.LambdaLR(lr_lambda=lambda t: 0.9**t),
    "step": lambda: nn.StepLR(step_size=4, gamma=0.3),
    "multistep": lambda: nn.MultiStepLR(milestones=[9, 2, 9], gamma=0.3),
    "constant": lambda: nn.ConstantLR(factor=0.25, total_iters=6),
    "linear": lambda: nn.LinearLR(start_factor=0.1, total_iters=8),
    "exponential": lambda: nn.ExponentialLR(gamma=0.8),
    "polynomial": lambda: nn.PolynomialLR(total_iters=11, power=1.7),
    "equal restarts": lambda: nn.CosineAnnealingWarmRestarts(T_0=4),
    "sequential": lambda: nn.SequentialLR(
        schedulers=[
            nn.ConstantLR(factor=0.1, total_iters=9), nn.LinearLR(start_factor=0.5, total_iters=3), nn.ExponentialLR(gamma=0.9),
        ],
        milestones=[4, 9],
    ),
    "chained": lambda: nn.ChainedScheduler(
        [nn.LinearLR(start_factor=0.2, total_iters=4), nn.ExponentialLR(gamma=0.9), nn.StepLR(step_size=5)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNBOUND)
def test_as_functions_of_the_step(name: str) -> None:
    _, formula = FORMULAS[name]
    schedule = UNBOUND[name]()
    np.testing.assert_allclose([0.5 * schedule(t, 100) for t in range(15)], [formula(t) for t in range(15)], rtol=1e-12)


@pytest.mark.parametrize("name", FORMULAS)
def test_made_with_the_optimizer_of_the_trainer(name: str) -> None:
    """A step by step comparison of what the trainer sets with what the schedule sets by hand."""
    make, formula = FORMULAS[name]
    x, y = problem(8)
    net = Net().build((4,), seed=0)
    sgd = nn.SGD(net.parameters(), lr=0.5)
    trainer = nn.Trainer(net, optimizer=sgd, schedule=make(sgd), batch_size=8, quiet=True)
    history = trainer.fit(x, y, epochs=12)
    np.testing.assert_allclose(
        [r["learning_rate"] for r in history], [formula(t) for t in range(12)], rtol=1e-12, atol=1e-16
    )


def test_one_cycle_takes_the_steps_and_the_rate_of_the_run() -> None:
    x, y = problem(8)
    trainer = nn.Trainer(Net(), optimizer=nn.SGD(2.0), schedule=nn.OneCycleLR(), batch_size=8, quiet=True)
    history = trainer.fit(x, y, epochs=20)
    np.testing.assert_allclose([r["learning_rate"] for r in history], [cycle(t) for t in range(20)], rtol=1e-12)


def test_training_by_hand_is_training_with_a_trainer(tmp_path: Path) -> None:
    x, y = problem(8)
    net = Net().build((4,), seed=0)
    sgd = nn.SGD(net.parameters(), lr=0.5)
    schedule = nn.SequentialLR(sgd, [nn.LinearLR(sgd, 0.1, total_iters=3), nn.CosineAnnealingLR(sgd, 5)], [3])
    order = [np.random.RandomState([0, epoch]).permutation(8) for epoch in range(8)]
    for epoch in range(8):
        _, gradient = nn.CrossEntropyLoss()(net(x[order[epoch]]), y[order[epoch]])
        net.backward(gradient)
        sgd.step()
        schedule.step()
    parts = [nn.LinearLR(start_factor=0.1, total_iters=3), nn.CosineAnnealingLR(T_max=5)]
    for out in (None, tmp_path):
        other = Net().build((4,), seed=0)
        trainer = nn.Trainer(
            other, optimizer=nn.SGD(0.5), schedule=nn.SequentialLR(schedulers=parts, milestones=[3]), batch_size=8, out=out,
            quiet=True,
        )  # fmt: skip
        if out is not None:
            trainer.fit(x, y, epochs=4)
        trainer.fit(x, y, epochs=8, resume=out is not None)
        for name, array in copies(net).items():
            np.testing.assert_allclose(other.state_dict()[name], array, rtol=1e-5, atol=1e-6)


def test_a_plateau_in_a_trainer(tmp_path: Path) -> None:
    """The loss is 0 from the start, so that no epoch is better than the one before."""
    x, y = problem(8)

    def fit(out: Path | None, epochs: int, resume: bool = False) -> list[float]:
        schedule = nn.ReduceLROnPlateau(factor=0.5, patience=1, metric="loss")
        trainer = nn.Trainer(net, optimizer=nn.SGD(0.5), schedule=schedule, batch_size=8, out=out, quiet=True)
        return [record["learning_rate"] for record in trainer.fit(x * 0, y * 0, epochs=epochs, resume=resume)]

    net = Net().build((4,), seed=0)
    net.body.requires_grad_(False)
    net.head.bias.data = [200, 0, 0]
    whole = fit(None, 9)
    assert whole == pytest.approx([0.5, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125, 0.0625, 0.0625])
    assert fit(tmp_path, 4) == whole[:4]
    assert fit(tmp_path, 9, resume=True) == whole


def test_numbers_of_steps_may_be_left_out_for_a_trainer() -> None:
    assert [nn.StepLR(gamma=0.5)(step, 17) for step in (0, 5, 6, 11, 12, 16)] == [1, 1, 0.5, 0.5, 0.25, 0.25]
    whole, half = nn.CosineAnnealingLR(), nn.CosineAnnealingLR(T_max=17)
    assert [whole(step, 17) for step in range(17)] == [half(step, 17) for step in range(17)]
    by_hand = nn.SequentialLR(optimizer(), [nn.LinearLR(total_iters=2), nn.CosineAnnealingLR()], [2])
    by_hand.step()
    with pytest.raises(
        ValueError, match=r"CosineAnnealingLR: T_max is missing, and may be left out only for a trainer"
    ):
        by_hand.step()


# Bad input.


def stepped() -> nn.StepLR:
    schedule = nn.StepLR(optimizer(), 3)
    schedule.step()
    return schedule


def with_another_group() -> None:
    sgd = optimizer()
    schedule = nn.StepLR(sgd, 3)
    sgd.add_param_group({"params": [nn.Parameter(np.zeros(2))]})
    schedule.step()


BAD: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "no optimizer": (lambda: nn.StepLR(30), TypeError, r"StepLR: the optimizer is 30\. .* by name: StepLR\(step_size=\.\.\.\)"),  # type: ignore[arg-type]
    "no optimizer behind": (
        lambda: nn.ChainedScheduler([nn.ExponentialLR(gamma=0.5)], 30), TypeError, r"ChainedScheduler\(schedulers=\.\.\.\)",  # type: ignore[arg-type]
    ),
    "missing": (lambda: nn.StepLR(optimizer()), TypeError, "StepLR: step_size is missing"),
    "step_size": (lambda: nn.StepLR(optimizer(), 0), ValueError, "step_size is 0. It must be at least 1"),
    "gamma": (lambda: nn.ExponentialLR(optimizer(), -0.1), ValueError, r"gamma is -0\.1\. It must be above 0"),
    "T_max": (lambda: nn.CosineAnnealingLR(optimizer(), 2.5), TypeError, "T_max must be a whole number"),  # type: ignore[arg-type]
    "eta_min": (lambda: nn.CosineAnnealingLR(T_max=5, eta_min=0.1), ValueError, "eta_min is a learning rate, so it needs"),
    "start_factor": (lambda: nn.LinearLR(optimizer(), 0), ValueError, "start_factor is 0. It must be above 0"),
    "too large a start": (lambda: nn.LinearLR(optimizer(), 2), ValueError, "above 0 and at most 1"),
    "factor": (lambda: nn.ConstantLR(optimizer(), 2), ValueError, "factor is 2. It must be at least 0 and at most 1"),
    "lambdas": (lambda: nn.LambdaLR(optimizer(), [abs, abs]), ValueError, "lr_lambda is a list of 2, but the"),
    "no lambda": (lambda: nn.LambdaLR(optimizer()), TypeError, "lr_lambda is None. Pass a function of the step"),
    "max_lr": (lambda: nn.OneCycleLR(optimizer(), total_steps=9), TypeError, "OneCycleLR: max_lr is missing"),
    "max_lr alone": (lambda: nn.OneCycleLR(max_lr=1.0), ValueError, "without an optimizer the maximum is the learning rate"),
    "max_lrs": (lambda: nn.OneCycleLR(optimizer(), [1, 2], 9), ValueError, "max_lr is a list of 2, but the optimizer has 1"),
    "one max_lr": (
        lambda: nn.OneCycleLR(optimizer(1, 2), [1], 9), ValueError, r"2 groups\. Pass one for all, or one each",
    ),
    "steps": (lambda: nn.OneCycleLR(optimizer(), 1.0, epochs=3), ValueError, "the number of steps is missing"),
    "strategy": (
        lambda: nn.OneCycleLR(optimizer(), 1.0, 9, anneal_strategy="cosine"), ValueError, "Use 'cos' or 'linear'",  # type: ignore[arg-type]
    ),
    "no momentum": (lambda: nn.OneCycleLR(optimizer(), 1.0, 9), ValueError, "SGD has no momentum to cycle"),
    "momentum in a trainer": (
        lambda: nn.OneCycleLR(optimizer(momentum=0.9), 1.0, 9)(0, 9), ValueError, "Pass cycle_momentum=False",
    ),
    "momentum without optimizer": (lambda: nn.OneCycleLR(cycle_momentum=True), ValueError, "Leave cycle_momentum out"),
    "step without optimizer": (lambda: nn.StepLR(step_size=3).step(), RuntimeError, "made without an optimizer, for a trainer"),
    "stepped": (lambda: stepped()(0, 9), RuntimeError, "step\\(\\) was called by hand"),
    "from 0": (
        lambda: nn.LambdaLR(optimizer(), lambda t: t / 10)(3, 9), ValueError,
        "the first learning rate is 0. For a trainer, make it without the optimizer",
    ),
    "other groups": (
        lambda: nn.CosineAnnealingLR(optimizer(0.5, 0.25), 4, eta_min=0.1)(2, 9), ValueError, "groups of parameters get dif",
    ),
    "new groups": (with_another_group, ValueError, "the optimizer has 2 groups, but had 1 when the schedule was made"),
    "state": (lambda: nn.StepLR(optimizer(), 3).load_state_dict({}), ValueError, "the state holds nothing, but base_lrs, steps"),
    "state of groups": (
        lambda: nn.StepLR(optimizer(), 3).load_state_dict({"steps": 1, "base_lrs": [1, 2]}), ValueError, "of 2 groups",
    ),
    "state of a plateau": (
        lambda: nn.ReduceLROnPlateau(optimizer()).load_state_dict({"best": 1}), ValueError, "It belongs to another schedule",
    ),
    "milestones": (
        lambda: nn.SequentialLR(schedulers=[nn.ExponentialLR(gamma=0.5)], milestones=[3]), ValueError, "1 schedules need 0",
    ),
    "order": (
        lambda: nn.SequentialLR(schedulers=[nn.ExponentialLR(gamma=0.5)] * 3, milestones=[3, 2]), ValueError, "each later",
    ),
    "parts": (lambda: nn.SequentialLR(schedulers=[], milestones=[]), ValueError, "there are no schedules"),
    "foreign parts": (lambda: nn.ChainedScheduler([abs]), TypeError, "cannot be combined with others"),  # type: ignore[list-item]
    "two optimizers": (
        lambda: nn.ChainedScheduler([nn.StepLR(optimizer(), 3), nn.StepLR(optimizer(), 3)]), ValueError, "another optimizer",
    ),
    "rates in a product": (
        lambda: nn.ChainedScheduler([nn.CosineAnnealingLR(optimizer(), 3, eta_min=0.1)]), ValueError, "of its own instead of a",
    ),
    "mode": (lambda: nn.ReduceLROnPlateau(optimizer(), "lowest"), ValueError, "mode is 'lowest'. Use 'min'"),  # type: ignore[arg-type]
    "plateau's factor": (lambda: nn.ReduceLROnPlateau(optimizer(), factor=1.0), ValueError, "above 0 and below 1"),
    "plateau in a trainer": (
        lambda: nn.Trainer(Net(), schedule=nn.ReduceLROnPlateau(optimizer()), quiet=True).fit(*problem(8), epochs=1), TypeError,
        "For a trainer leave the optimizer out",
    ),
    "plateau of nothing": (
        lambda: nn.Trainer(Net(), schedule=nn.ReduceLROnPlateau(), quiet=True).fit(*problem(8), epochs=1), ValueError,
        "it follows 'validation_loss', which the history does not have. .*Pass validation data",
    ),
    "plateau's min_lrs": (
        lambda: nn.ReduceLROnPlateau(optimizer(), min_lr=[0, 0]), ValueError, "min_lr is a list of 2, but the optimizer has 1",
    ),
    "plateau's min_lr": (lambda: nn.ReduceLROnPlateau(min_lr=0.1), ValueError, "min_lr is a learning rate, so it needs"),
    "last_epoch": (
        lambda: nn.StepLR(optimizer(), 3, last_epoch=4), TypeError, "no argument 'last_epoch'. Load the state of the schedule",  # type: ignore[call-arg]
    ),
    "misspelled": (lambda: nn.StepLR(optimizer(), stepsize=3), TypeError, "Did you mean step_size"),  # type: ignore[call-arg]
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str) -> None:
    call, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        call()
