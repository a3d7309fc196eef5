"""Every module has its own mode: parts in inference mode of a network in training, and the other way around."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from helpers import Array
from networks import numbers
from openbnns import nn

F = nn.functional


def test_modes_are_set_as_in_pytorch() -> None:
    net = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Dropout()), nn.ReLU())
    assert all(module.training for module in net.modules())
    net[0].eval()
    assert [module.training for module in net.modules()] == [True, False, False, False, True]
    net.train()
    assert all(module.training for module in net.modules())
    net.eval()
    net[0][1].training = True  # type: ignore[index]
    assert [path for path, module in net.named_modules() if module.training] == ["0.1"]
    assert not copy.deepcopy(net).training
    assert pickle.loads(pickle.dumps(net))[0][1].training
    with pytest.raises(TypeError, match=r"Sequential\.training .*True or False"):
        net.training = "yes"  # type: ignore[assignment]


# Batch normalization.


def normalized(x: Array, norm: nn.BatchNorm1d, weight: Array | None, bias: Array | None) -> Array:
    """By the running statistics, in float64."""
    shape = (-1, *(1,) * (x.ndim - 2))
    mean, variance = (np.asarray(a, np.float64).reshape(shape) for a in (norm.running_mean, norm.running_var))
    y = (x - mean) / np.sqrt(variance + norm.eps)
    if weight is not None:
        y = y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "features": (lambda: nn.BatchNorm1d(5), (5,)),
    "signal": (lambda: nn.BatchNorm1d(5), (5, 7)),
    "image": (lambda: nn.BatchNorm2d(5), (5, 3, 4)),
    "image without weights": (lambda: nn.BatchNorm2d(5, affine=False), (5, 3, 4)),
    "instance": (lambda: nn.InstanceNorm2d(5, affine=True, track_running_stats=True), (5, 3, 4)),
}


@pytest.mark.parametrize("behind", [None, nn.ReLU, nn.Tanh])
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_through_a_frozen_normalization(name: str, behind: Any, engine: str) -> None:
    """Gradients of y = (x - mean) / sqrt(var + eps) w + b with numbers for mean and var, by formulas in float64."""
    make, sample = LAYERS[name]
    norm = make()
    norm.running_mean[...], norm.running_var[...] = numbers(5, seed=1), 0.5 + numbers(5, seed=2) ** 2
    if norm.affine:
        norm.weight.data[...], norm.bias.data[...] = numbers(5, seed=3), numbers(5, seed=4)
    before = [norm.running_mean.copy(), norm.running_var.copy()]
    net = nn.Sequential(norm, *([] if behind is None else [behind()])).build(sample, seed=0).train()
    norm.eval()
    x, dy = numbers(6, *sample, seed=5), numbers(6, *sample, seed=6)
    y, dx = net(x), net.backward(dy)

    weight, bias = (norm.weight.data, norm.bias.data) if norm.affine else (None, None)
    plain = normalized(x.astype(np.float64), norm, weight, bias)
    result, slope = plain, np.ones_like(plain)
    if behind is nn.ReLU:
        result, slope = np.maximum(plain, 0), plain > 0
    elif behind is nn.Tanh:
        result, slope = np.tanh(plain), 1 - np.tanh(plain) ** 2
    g = dy * slope
    axes = (0, *range(2, x.ndim))
    shape = (-1, *(1,) * (x.ndim - 2))
    factor = 1 / np.sqrt(norm.running_var.astype(np.float64) + norm.eps)
    np.testing.assert_allclose(y, result, rtol=2e-5, atol=2e-6)
    whole = factor if weight is None else factor * weight
    np.testing.assert_allclose(dx, g * whole.reshape(shape), rtol=2e-5, atol=2e-6)
    if norm.affine:
        np.testing.assert_allclose(norm.bias.grad, g.sum(axes), rtol=2e-5, atol=1e-5)
        hat = normalized(x.astype(np.float64), norm, None, None)
        np.testing.assert_allclose(norm.weight.grad, (g * hat).sum(axes), rtol=2e-5, atol=1e-5)
    np.testing.assert_array_equal(norm.running_mean, before[0])
    np.testing.assert_array_equal(norm.running_var, before[1])


def convolutions() -> Any:
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 3),
    ).build((2, 6, 6), seed=1)
    net[1].running_mean[...], net[1].running_var[...] = numbers(4, seed=2), 0.5 + numbers(4, seed=3) ** 2
    return net


def test_a_training_network_with_all_of_its_special_parts_frozen_is_the_network_in_inference() -> None:
    net, x = convolutions(), numbers(5, 2, 6, 6, seed=4)
    expected = net.eval()(x)
    net.train()
    net[1].eval()
    net[3].eval()
    np.testing.assert_allclose(net(x), expected, rtol=1e-5, atol=1e-6)
    assert net.backward(numbers(5, 3)) is not None
    np.testing.assert_allclose(net[1].running_mean, numbers(4, seed=2))
    assert bn.gradcheck(net, x).passed
    net.train()
    assert np.abs(net(x) - expected).max() > 1e-2
    assert np.abs(net[1].running_mean - numbers(4, seed=2)).max() > 1e-3


def test_one_of_two_uses_of_a_kind_is_frozen() -> None:
    net = nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(3)).build((3,), seed=0).train()
    net[0].eval()
    net(numbers(8, 3) + 5)
    assert not net[0].running_mean.any()  # type: ignore[union-attr]
    assert net[1].running_mean.all()  # type: ignore[union-attr]


def test_running_statistics_that_are_not_kept_are_those_of_the_batch_in_any_mode() -> None:
    net = nn.Sequential(nn.BatchNorm1d(3, track_running_stats=False)).build((3,), seed=0).train()
    x, dy = numbers(8, 3), numbers(8, 3, seed=1)
    y, dx = net(x), net.backward(dy)
    net[0].eval()
    np.testing.assert_array_equal(net(x), y)
    np.testing.assert_array_equal(net.backward(dy), dx)


def test_statistics_loaded_later_are_seen() -> None:
    net = nn.Sequential(nn.BatchNorm1d(3)).build((3,), seed=0).train()
    net[0].eval()
    x = numbers(4, 3)
    net(x)
    state = {name: array.copy() for name, array in net.state_dict().items()}
    state["0.running_mean"] += 2
    net.load_state_dict(state)
    np.testing.assert_allclose(net(x), (x - 2) / np.sqrt(1 + 1e-5), rtol=1e-5, atol=1e-6)


# Dropout.


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.5)

    def forward(self, x: Any) -> Any:
        return self.attention(x, x, x)


class Heads(nn.Module):
    def forward(self, x: Any) -> Any:
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)


class Functional(nn.Module):
    def forward(self, x: Any) -> Any:
        return F.dropout(x, 0.5)


class Asking(nn.Module):
    def forward(self, x: Any) -> Any:
        return F.dropout(x, 0.5, self.training)


DROPPING: dict[str, Callable[[], Any]] = {
    "dropout": lambda: nn.Dropout(0.5),
    "dropout of channels": lambda: nn.Dropout1d(0.5),
    "attention": Attending,
    "heads": Heads,
    "function": Functional,
    "mode asked for": Asking,
    "encoder": lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5),
    "lstm": lambda: nn.LSTM(8, 8, num_layers=2, dropout=0.5),
}


@pytest.mark.parametrize("name", DROPPING)
def test_a_part_that_drops(name: str, engine: str) -> None:
    net = nn.Sequential(DROPPING[name](), nn.Tanh()).build((6, 8), seed=0)
    x, dy = numbers(3, 6, 8), numbers(3, 6, 8, seed=1)
    plain = net.eval()(x)
    net.train()
    assert not np.array_equal(net(x), net(x))
    net[0].eval()
    np.testing.assert_allclose(net(x), plain, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(net(x), net(x))
    before = net.backward(dy)
    net(x)
    np.testing.assert_array_equal(net.backward(dy), before)
    if name == "dropout":
        np.testing.assert_allclose(before, dy * (1 - plain**2), rtol=1e-5, atol=1e-6)
    # The other way around: the network has no backward pass, but the part drops.
    net.eval()
    net[0].train()
    assert not np.array_equal(net(x), net(x))
    with pytest.raises(RuntimeError, match="there is no forward pass in training mode"):
        net.backward(dy)
    np.testing.assert_array_equal(net.eval()(x), plain)


def test_a_normalization_that_trains_in_a_network_that_does_not() -> None:
    for net in (nn.Sequential(nn.BatchNorm1d(3)), nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.ReLU())):
        net.build((3,), seed=0)
        x = numbers(8, 3) * 3 + 1
        twin = copy.deepcopy(net).train()
        expected = twin(x)
        net.eval()
        norm = next(module for module in net if isinstance(module, nn.BatchNorm1d))
        norm.train()
        np.testing.assert_allclose(net(x), expected, rtol=1e-5, atol=1e-6)
        assert norm.running_mean is not None and norm.running_mean.all()


def test_forward_may_ask_for_the_mode() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2, bias=False)

        def forward(self, x: Any) -> Any:
            y = self.linear(x)
            return (y, 2 * y) if self.training else y

    net, x = Twice().build((2,), seed=0).eval(), numbers(3, 2)
    y = net(x)
    for _ in range(2):
        first, second = net.train()(x)
        np.testing.assert_array_equal(first, y)
        np.testing.assert_array_equal(second, 2 * y)
        np.testing.assert_allclose(
            net.backward((first, second)), (first + 2 * second) @ net.linear.weight.data, rtol=1e-5
        )
        np.testing.assert_array_equal(net.eval()(x), y)
    assert len(net._recordings) == 2


# Who sets modes, and who does not.


class Tuned(nn.Sequential):
    """Its normalization is never trained, as people write it for PyTorch."""

    def train(self, mode: bool = True) -> Tuned:
        super().train(mode)
        self[1].eval()
        return self


def tuned(kind: type[nn.Sequential] = Tuned) -> Any:
    return kind(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)).build((3,), seed=0)


def with_trainer(net: Any, x: Array, y: Array) -> None:
    nn.Trainer(net, "mse", nn.SGD(0.1), quiet=True).fit(x, y, epochs=2, validation=(x, y))


def with_compiled_step(net: Any, x: Array, y: Array) -> None:
    step = net.compile_step("mse", nn.SGD(0.1), 8)
    for _ in range(3):
        step(x[:8], y[:8])


def with_own_loop(net: Any, x: Array, y: Array) -> None:
    sgd, loss = nn.SGD(net.parameters(), lr=0.1), nn.MSELoss()
    for _ in range(3):
        _, gradient = loss(net(x), y)
        net.backward(gradient)
        sgd.step()


WAYS = [with_trainer, with_compiled_step, with_own_loop]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", ["eval() of the part", "train() overridden", "train() overridden in a part"])
def test_whatever_trains_leaves_a_frozen_part_as_it_is(way: Any, how: str) -> None:
    x, y = numbers(16, 3) + 1, numbers(16, 2, seed=1)
    whole = net = tuned(nn.Sequential if how.startswith("eval") else Tuned)
    if how == "train() overridden in a part":
        whole = nn.Sequential(net).build((3,))
    whole.train()
    net[1].eval()
    before = net[0].weight.data.copy()
    way(whole, x, y)
    assert whole.training and not net[1].training
    assert not net[1].running_mean.any()
    assert np.abs(net[0].weight.data - before).max() > 1e-4
    assert np.abs(net[1].weight.grad).max() > 0  # frozen statistics, but trained weights, as in PyTorch
    net[1].train()
    way(whole, x, y)
    assert net[1].running_mean.all()


@pytest.mark.parametrize("way", [with_trainer, with_compiled_step])
def test_a_network_in_inference_mode_is_trained_as_after_train(way: Any) -> None:
    """As before, neither a trainer nor a compiled step needs train(); what it would do counts, and modes stay as they are."""
    x, y = numbers(16, 3) + 1, numbers(16, 2, seed=1)
    plain, special = tuned(nn.Sequential).eval(), tuned().eval()
    for net in (plain, special):
        way(net, x, y)
        assert not any(module.training for module in net.modules())
    assert plain[1].running_mean.all()
    assert not special[1].running_mean.any()


def test_predictions_and_measures_are_in_inference_mode() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)).build((3,), seed=0)
    x, y = numbers(16, 3), numbers(16, 2, seed=1)
    expected = net.eval()(x)
    for freeze in (False, True):
        net.train()
        if freeze:
            net[1].eval()
        np.testing.assert_allclose(net.predict(x).values, expected, rtol=1e-5, atol=1e-6)
        trainer = nn.Trainer(net, "mse", quiet=True)
        np.testing.assert_allclose(trainer.predict(x), expected, rtol=1e-5, atol=1e-6)
        assert trainer.evaluate(x, y)["loss"] == pytest.approx(float(((expected - y) ** 2).mean()), rel=1e-5)
        np.testing.assert_allclose(net.compile_inference(16)(x), expected, rtol=1e-5, atol=1e-6)
        assert not net[1].running_mean.any()  # type: ignore[union-attr]


def test_a_frozen_part_is_still_the_layer_in_tables_and_files(tmp_path: Any) -> None:
    net = convolutions()
    whole, lines = str(net.summary()), net.profile(numbers(4, 2, 6, 6), repeats=1)
    assert "Conv2d + BatchNorm2d" in whole and lines.training
    net[1].eval()
    assert str(net.summary()) == whole
    net(numbers(4, 2, 6, 6))
    assert str(net.summary()) == whole
    assert "BatchNorm2d" in str(net.profile(numbers(4, 2, 6, 6), repeats=1))
    net.save_model(tmp_path / "frozen.safetensors")
    loaded = nn.load_model(tmp_path / "frozen.safetensors")
    np.testing.assert_allclose(loaded.eval()(numbers(4, 2, 6, 6)), net.eval()(numbers(4, 2, 6, 6)), rtol=1e-6)


def test_a_run_with_a_frozen_part_is_not_resumed_without_it(tmp_path: Any) -> None:
    x, y = numbers(16, 3) + 1, numbers(16, 2, seed=1)

    def run(epochs: int, *, frozen: bool, resume: bool = False) -> Any:
        net = tuned(nn.Sequential)
        if frozen:
            net[1].eval()
        nn.Trainer(net, "mse", nn.SGD(0.1), quiet=True, out=tmp_path / "run").fit(x, y, epochs=epochs, resume=resume)
        return net

    run(1, frozen=True)
    with pytest.raises(nn.checkpoints.CheckpointError, match="parts in inference mode"):
        run(2, frozen=False, resume=True)
    resumed = run(2, frozen=True, resume=True)
    assert not resumed[1].running_mean.any()


def test_random_numbers_follow_from_the_seed_in_any_modes() -> None:
    def results() -> list[Array]:
        net = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(6), nn.Dropout(0.5)).build((6,), seed=3).train()
        x, outputs = numbers(4, 6), []
        for mode in (True, False, True, False):
            net[1].train(mode)
            outputs += [net(x), net(x)]
        return outputs

    first, second = results(), results()
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len({(array == 0).tobytes() for array in first}) == len(first)
