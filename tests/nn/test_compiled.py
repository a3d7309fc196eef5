"""Training steps as one native call: the same bits as forward, loss, backward and optimizer by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns
from openbnns import nn

Array = np.ndarray[Any, Any]
BATCH, STEPS = 9, 6


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(7, 11), nn.ReLU(), nn.Linear(11, 5), nn.Tanh(), nn.Linear(5, 3))


def with_dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(7, 16), nn.GELU(), nn.Dropout(0.4), nn.Linear(16, 3))


def normalized() -> nn.Module:
    return nn.Sequential(nn.Linear(7, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 9, 3)
    )


def recurrent() -> nn.Module:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(5, 6, batch_first=True), nn.Linear(6, 3)

        def forward(self, x: nn.Value) -> nn.Value:
            y, _ = self.lstm(x)
            return self.head(y[:, -1])

    return Last()


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (7,)),
    "dropout": (with_dropout, (7,)),
    "normalized": (normalized, (7,)),
    "convolutional": (convolutional, (1, 6, 6)),
    "recurrent": (recurrent, (4, 5)),
}
OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], nn.optimizers.Optimizer]] = {
    "sgd": lambda p: nn.SGD(p, lr=0.1),
    "momentum": lambda p: nn.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "dampened": lambda p: nn.SGD(p, lr=0.05, momentum=0.9, dampening=0.3),
    "adam": lambda p: nn.Adam(p, lr=0.01),
    "amsgrad": lambda p: nn.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: nn.AdamW(p, lr=0.01),
    "rmsprop": lambda p: nn.RMSprop(p, lr=0.01, momentum=0.5),
    "adagrad": lambda p: nn.Adagrad(p, lr=0.1),
    "decaying": lambda p: nn.Adagrad(p, lr=0.1, lr_decay=0.1),
    "adamax": lambda p: nn.Adamax(p, lr=0.01),
    "groups": lambda p: nn.Adam([{"params": p[:1], "lr": 0.02}, {"params": p[1:]}], lr=0.01),
    "clipped": lambda p: nn.SGD(p, lr=0.1, clipping=openbnns.GradientClipping.by_global_norm(threshold=0.1)),
}


def data(sample: tuple[int, ...], *, classes: int = 3) -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(3)
    return [
        (rng.standard_normal((BATCH, *sample)).astype(np.float32), rng.integers(0, classes, BATCH))
        for _ in range(STEPS)
    ]


def twins(make: Callable[[], nn.Module]) -> tuple[nn.Module, nn.Module]:
    made = []
    for _ in range(2):
        nn.manual_seed(5)
        made.append(make())
    return made[0], made[1]


def by_hand(net: nn.Module, loss: nn.losses.Loss, optimizer: Any, x: Array, y: Array, **options: Any) -> float:
    value, gradient = loss(net(x), y, **options)
    net.backward(gradient)
    optimizer.step()
    return float(value)


def assert_same(a: nn.Module, b: nn.Module) -> None:
    for (name, one), other in zip(a.state_dict().items(), b.state_dict().values(), strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)


@pytest.mark.parametrize("network", NETWORKS)
def test_steps_have_the_bits_of_those_by_hand(network: str) -> None:
    make, sample = NETWORKS[network]
    one, other = twins(make)
    batches = data(sample)
    for net in (one, other):
        net.build(sample, seed=2)
    optimizer = nn.Adam(other.parameters(), lr=0.01)
    step = one.compile_step(nn.CrossEntropyLoss(), nn.Adam(one.parameters(), lr=0.01), BATCH)
    for x, y in batches:
        assert step(x, y) == by_hand(other, nn.CrossEntropyLoss(), optimizer, x, y)
    assert_same(one, other)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("network", NETWORKS)
def test_an_epoch_has_the_bits_of_its_steps(network: str, threads: int) -> None:
    make, sample = NETWORKS[network]
    one, other = twins(make)
    batches = 4 * data(sample)  # more than native code makes at a time
    x, y = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    for net in (one, other):
        net.build(sample, seed=2)
    steps = [net.compile_step("cross_entropy", nn.Adam(net.parameters(), lr=0.01), BATCH) for net in (one, other)]
    openbnns.set_num_threads(threads)
    try:
        for _ in range(2):
            assert steps[0].epoch(x, y) == [steps[1](*batch) for batch in batches]
    finally:
        openbnns.set_num_threads(0)
    assert_same(one, other)


def test_an_epoch_of_odd_targets_samples_and_engines() -> None:
    """Epochs that native code cannot run as one: targets left out, other types, another engine; and then it can again."""
    one, other = twins(mlp)
    steps = [net.compile_step("cross_entropy", nn.Adam(net.parameters(), lr=0.01), BATCH) for net in (one, other)]
    batches = 4 * data((7,))
    x, y = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    some = y.copy()
    some[5 * BATCH + 2] = -100
    strided = np.repeat(x, 2, axis=1)[:, ::2]
    for samples, targets in ((x, y), (x, some), (x.astype(np.float64), y), (strided, y), (x, y.astype(np.uint8))):
        losses = steps[0].epoch(samples, targets)
        cut = range(0, len(x), BATCH)
        assert losses == [steps[1](samples[i : i + BATCH], targets[i : i + BATCH]) for i in cut]
    with openbnns.engine("reference"):
        assert steps[0].epoch(x, y) == [steps[1](*batch) for batch in batches]
    assert steps[0].epoch(x, y) == [steps[1](*batch) for batch in batches]
    assert_same(one, other)


@pytest.mark.parametrize("loss", ["mse", "bce_with_logits", "l1"])
def test_an_epoch_of_losses_of_numbers(loss: Any) -> None:
    one, other = twins(mlp)
    steps = [net.compile_step(loss, nn.SGD(net.parameters(), lr=0.05), BATCH) for net in (one, other)]
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20 * BATCH, 7)).astype(np.float32), rng.random((20 * BATCH, 3)).astype(np.float32)
    for _ in range(2):
        losses = steps[0].epoch(x, y)
        assert losses == [steps[1](x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, len(x), BATCH)]
    assert_same(one, other)


def test_an_epoch_is_few_native_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    net = mlp()
    step = net.compile_step("cross_entropy", nn.Adam(net.parameters()), BATCH)
    x, y = (np.concatenate(arrays) for arrays in zip(*(8 * data((7,))), strict=True))
    step.epoch(x, y)
    monkeypatch.setattr(type(step._whole), "step", None)  # which Python would call for each batch
    assert len(step.epoch(x, y)) == 8 * STEPS


def test_an_epoch_goes_on_after_a_call_that_declines() -> None:
    """In the middle of a step: Python makes the rest of it."""
    one, other = twins(mlp)
    steps = [net.compile_step("cross_entropy", nn.Adam(net.parameters(), lr=0.01), BATCH) for net in (one, other)]
    batches = 3 * data((7,))
    x, y = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    for step in steps:
        step.epoch(x, y)

    class Declines:
        """Native code that goes no further than the third call of the fifth step, once."""

        def __init__(self, replay: Any) -> None:
            self.replay, self.left = replay, True

        def run(self, first: int = 0, weights: int = 0) -> int:
            return int(self.replay.run(first, weights))

        def run_over(self, count: int, streams: Any, result: Array, results: Array) -> tuple[int, int]:
            if not self.left:
                return self.replay.run_over(count, streams, result, results)  # type: ignore[no-any-return]
            self.left = False
            parts = [(planned, given.reshape(count, -1)[:4]) for planned, given in streams]
            assert self.replay.run_over(4, parts, result, results[:4]) == (4, 0)
            for planned, given in streams:
                planned.reshape(-1)[:] = given.reshape(count, -1)[4]
            calls = plain._parts[0][1]
            for call in calls[:3]:
                call()
            return 4, 3

    plain = steps[0]._whole._plain  # type: ignore[union-attr]
    replay, calls = plain._parts[0]
    plain._parts[0] = Declines(replay), calls
    for _ in range(2):
        assert steps[0].epoch(x, y) == steps[1].epoch(x, y)
    assert_same(one, other)


def test_an_epoch_is_its_steps() -> None:
    one, other = twins(mlp)
    batches = data((7,))
    x, y = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    rest = (x[: BATCH - 1], y[: BATCH - 1])  # too few for a batch
    steps = [net.compile_step("cross_entropy", nn.Adam(net.parameters(), lr=0.01), BATCH) for net in (one, other)]
    for epoch in range(3):
        for step in steps:
            step.optimizer.learning_rate = 0.01 / (epoch + 1)
        losses = steps[0].epoch(np.concatenate([x, rest[0]]), np.concatenate([y, rest[1]]))
        assert losses == [steps[1](*batch) for batch in batches]
    assert_same(one, other)
    assert steps[0].epoch(*rest) == []
    before = one.state_dict()["0.weight"].copy()
    wrong = y.copy()
    wrong[-1] = 99
    with pytest.raises(ValueError, match="class"):
        steps[0].epoch(x, wrong)
    with pytest.raises(ValueError, match="one target per sample"):
        steps[0].epoch(x, y[1:])
    np.testing.assert_array_equal(one.state_dict()["0.weight"], before)  # nothing was trained


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_all_optimizers(name: str) -> None:
    one, other = twins(mlp)
    step_optimizer, optimizer = (OPTIMIZERS[name](list(net.parameters())) for net in (one, other))
    step = one.compile_step("cross_entropy", step_optimizer, BATCH)
    for i, (x, y) in enumerate(data((7,))):
        for each in (step_optimizer, optimizer):
            each.learning_rate = 0.01 / (i + 1)  # as schedules do
        assert step(x, y) == by_hand(other, nn.CrossEntropyLoss(), optimizer, x, y)
    assert_same(one, other)
    for mine, theirs in zip(step_optimizer.accumulators, optimizer.accumulators, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(step_optimizer.state_dict()["steps"], optimizer.state_dict()["steps"])


def test_a_step_is_one_native_call() -> None:
    net = mlp()
    step = net.compile_step("cross_entropy", nn.Adam(net.parameters()), BATCH)
    for x, y in data((7,)):
        step(x, y)
    parts = step._whole._plain._parts  # type: ignore[union-attr]
    assert [replay is not None for replay, _ in parts] == [True]


def test_settings_frozen_parameters_and_loaded_states_are_followed() -> None:
    one, other = twins(mlp)
    optimizers = [nn.Adam(net.parameters(), lr=0.01) for net in (one, other)]
    step = one.compile_step("cross_entropy", optimizers[0], BATCH)
    state: list[Any] = []
    for i, (x, y) in enumerate(data((7,))):
        for net, optimizer in zip((one, other), optimizers, strict=True):
            if i == 1:
                optimizer.param_groups[0]["weight_decay"] = 0.1
            if i == 2:
                next(iter(net.parameters())).requires_grad = False
                state.append({name: np.copy(a) for name, a in optimizer.state_dict().items()})
            if i == 4:
                next(iter(net.parameters())).requires_grad = True
            if i == 5:
                optimizer.load_state_dict(state[-1 if net is other else -2])
        assert step(x, y) == by_hand(other, nn.CrossEntropyLoss(), optimizers[1], x, y)
    assert_same(one, other)


def test_steps_by_hand_in_between() -> None:
    one, other = twins(mlp)
    optimizers = [nn.Adam(net.parameters(), lr=0.01) for net in (one, other)]
    step = one.compile_step("cross_entropy", optimizers[0], BATCH)
    for i, (x, y) in enumerate(data((7,))):
        expected = by_hand(other, nn.CrossEntropyLoss(), optimizers[1], x, y)
        got = by_hand(one, nn.CrossEntropyLoss(), optimizers[0], x, y) if i % 3 == 1 else step(x, y)
        assert got == expected
    assert_same(one, other)


def test_left_out_targets_and_weights() -> None:
    one, other = twins(mlp)
    optimizer, loss = nn.SGD(other.parameters(), lr=0.1), nn.CrossEntropyLoss(weight=[1.0, 2.0, 0.5])
    step = one.compile_step(loss, nn.SGD(one.parameters(), lr=0.1), BATCH)
    weights = np.linspace(0.1, 2, BATCH).astype(np.float32)
    for i, (x, y) in enumerate(data((7,))):
        y[i] = -100
        options = {"sample_weights": weights} if i % 2 else {}
        assert step(x, y, **options) == by_hand(other, loss, optimizer, x, y, **options)
    assert_same(one, other)


@pytest.mark.parametrize("loss", ["mse", nn.HuberLoss(), lambda out, target: ((out - target) ** 2).mean()])
def test_losses_of_numbers(loss: Any) -> None:
    net = mlp()
    step = net.compile_step(loss, nn.Adam(net.parameters(), lr=0.05), BATCH)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((BATCH, n)).astype(np.float32) for n in (7, 3))
    values = [step(x, y) for _ in range(60)]
    assert values[-1] < 0.3 * values[0]


def test_several_inputs_and_outputs() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Linear(4, 3), nn.Linear(5, 2)

        def forward(self, left: nn.Value, right: nn.Value) -> dict[str, nn.Value]:
            return {"classes": self.left(left), "numbers": self.right(right)}

    net = Two()
    losses = {"numbers": nn.MSELoss(), "classes": nn.CrossEntropyLoss()}
    step = net.compile_step(
        losses, nn.SGD(net.parameters(), lr=0.1), BATCH, loss_weights={"numbers": 0.5, "classes": 1}
    )
    rng = np.random.default_rng(0)
    x = {"right": rng.standard_normal((BATCH, 5)), "left": rng.standard_normal((BATCH, 4))}
    y = {"classes": rng.integers(0, 3, BATCH), "numbers": rng.standard_normal((BATCH, 2)).astype(np.float32)}
    out = net(**x)
    expected = (
        nn.CrossEntropyLoss()(out["classes"], y["classes"])[0] + 0.5 * nn.MSELoss()(out["numbers"], y["numbers"])[0]
    )
    assert step(x, y) == pytest.approx(expected, rel=1e-6)
    assert [step(x, y) for _ in range(20)][-1] < expected


def test_mistakes() -> None:
    net = mlp()
    step = net.compile_step("cross_entropy", nn.Adam(net.parameters()), BATCH)
    (x, y), *_ = data((7,))
    before = {name: array.copy() for name, array in net.state_dict().items()}
    with pytest.raises(ValueError, match=r"x has shape \(8, 7\), but the step is for batches of 9"):
        step(x[:8], y[:8])
    with pytest.raises(ValueError, match="class number 3 is out of range"):
        step(x, y + 3 - y)
    with pytest.raises(ValueError, match="class number -1"):
        step(x, y - y - 1)
    with pytest.raises(ValueError, match=r"built for"):
        step(np.zeros((BATCH, 6), np.float32), y)
    with pytest.raises(TypeError, match="y is <U1"):
        step(x, np.array(["a"] * BATCH))
    with pytest.raises(ValueError, match="y is left out"):
        step(x)
    for name, array in net.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    with pytest.raises(ValueError, match="compile_step: batch_size"):
        net.compile_step("mse", "adam", 0)
    with pytest.raises(ValueError, match="does not give a single number"):
        net.compile_step(nn.MSELoss(reduction="none"), "adam", 4)


def test_targets_are_checked_in_every_step() -> None:
    """Also in batches that are like those before, in whatever way class numbers are stored."""
    net, (x, y) = mlp().build((7,), seed=2), data((7,))[0]
    step = net.compile_step("cross_entropy", nn.SGD(net.parameters(), lr=0.0), BATCH)
    expected = step(x, y)
    for kind in (*"bBhHiIlLqQ", ">i8", ">u2"):
        numbers = np.zeros((2, BATCH), kind)
        numbers[:] = y
        for targets in (numbers[0], np.ascontiguousarray(numbers.T)[:, 0]):
            assert step(x, targets) == step(x, targets) == expected
            targets[4] = 3
            with pytest.raises(ValueError, match="class number 3 is out of range"):
                step(x, targets)
            if targets.dtype.kind == "i":
                targets[4] = np.iinfo(targets.dtype).min
                with pytest.raises(
                    ValueError, match=f"class number -{2 ** (8 * targets.itemsize - 1)} is out of range"
                ):
                    step(x, targets)
            targets[4] = y[4]


def test_samples_are_read_where_they_lie() -> None:
    """Without a copy once the step is one native call, and in planned memory again for samples that have to be converted."""
    one, other = twins(normalized)
    for net in (one, other):
        net.build((7,), seed=2)
    optimizer = nn.Adam(other.parameters(), lr=0.01)
    step = one.compile_step(nn.CrossEntropyLoss(), nn.Adam(one.parameters(), lr=0.01), BATCH)
    planned = None
    for i, (x, y) in enumerate(2 * data((7,))):
        given = {5: x.astype(np.float64), 7: np.asfortranarray(x)}.get(i, x)
        assert step(given, y) == by_hand(other, nn.CrossEntropyLoss(), optimizer, x, y)
        if planned is None:
            planned = one.program(BATCH, training=True).inputs[0]
        assert np.array_equal(planned, x) is (i in (0, 1, 5, 7)), i
    assert_same(one, other)


def test_a_step_goes_on_after_a_call_that_declines() -> None:
    """Work such as moving statistics is not done twice; Python finds the samples where it looks for them."""
    one, other = twins(normalized)
    for net in (one, other):
        net.build((7,), seed=2)
    optimizer = nn.Adam(other.parameters(), lr=0.01)
    step = one.compile_step(nn.CrossEntropyLoss(), nn.Adam(one.parameters(), lr=0.01), BATCH)

    class Declines:
        """Native code that makes only so many calls."""

        def __init__(self, replay: Any, most: int) -> None:
            self.replay, self.most = replay, most

        def run(self, first: int = 0, weights: int = 0) -> int:
            return int(self.replay.run(first, weights)) if first else self.most

        def redirect(self, planned: Array, given: Array) -> bool:
            if given is not planned:
                np.copyto(planned, given)
                for call in plain._parts[0][1][: self.most]:
                    call()
                planned.fill(np.nan)
            return bool(self.replay.redirect(planned, given))

    for i, (x, y) in enumerate(2 * data((7,))):
        if i == 6:
            plain = step._whole._plain  # type: ignore[union-attr]
            replay, calls = plain._parts[0]
            plain._parts[0] = Declines(replay, 4), calls
        assert step(x, y) == by_hand(other, nn.CrossEntropyLoss(), optimizer, x, y)
        if i == 6:
            np.testing.assert_array_equal(one.program(BATCH, training=True).inputs[0], x)
    assert_same(one, other)


def test_the_reference_engine_and_strict_mode_make_the_same_step() -> None:
    one, other = twins(mlp)
    steps = [net.compile_step("cross_entropy", nn.SGD(net.parameters(), lr=0.1), BATCH) for net in (one, other)]
    batches = data((7,))
    for i, (x, y) in enumerate(batches):
        value = steps[0](x, y)
        if i % 2:
            with openbnns.engine("reference"):
                assert steps[1](x, y) == pytest.approx(value, rel=1e-5)
        else:
            with openbnns.strict():
                assert steps[1](x, y) == pytest.approx(value, rel=1e-5)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(a.data, b.data, rtol=1e-4, atol=1e-6)


def test_targets_of_every_position() -> None:
    """A network may give more rows than there are samples: one for each position of a sequence, say."""
    rng = np.random.default_rng(3)
    nets = [nn.Sequential(nn.Linear(5, 3), nn.Flatten(0, 1)) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    x, y = rng.standard_normal((4, 6, 5)).astype(np.float32), rng.integers(0, 3, 24)
    optimizers = [nn.SGD(list(net.parameters()), lr=0.1) for net in nets]
    step = nets[0].compile_step("cross_entropy", optimizers[0], 4)
    for _ in range(3):
        value, gradient = nn.CrossEntropyLoss()(nets[1](x), y)
        nets[1].backward(gradient)
        optimizers[1].step()
        assert step(x, y) == value
    for ours, theirs in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        np.testing.assert_array_equal(ours.data, theirs.data)
    with pytest.raises(ValueError, match=r"targets have shape \(4,\)"):
        step(x, y[:4])
