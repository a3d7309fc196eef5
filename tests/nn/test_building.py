"""Layers that know their sizes have parameters from the start, and seeds give the values that they always gave."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import Array
from networks import copies, numbers
from openbnns import nn


def sized() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 5 * 6, 7), nn.LayerNorm(7)
    )  # fmt: skip


def lazy() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(4, 3, padding=1), nn.BatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.Linear(7), nn.LayerNorm()
    )


SHAPE = (2, 5, 6)


# The seed decides.


def test_seeds_give_the_same_values_whether_sizes_were_given_or_not() -> None:
    """Values are those of build(seed=): drawn one after the other, in the order of the layers."""
    random = np.random.RandomState(3)
    bound = 1 / np.sqrt(2 * 3 * 3)
    expected = [random.uniform(-bound, bound, shape).astype(np.float32) for shape in ((4, 2, 3, 3), (4,))]
    bound = 1 / np.sqrt(120)
    expected += [random.uniform(-bound, bound, shape).astype(np.float32) for shape in ((7, 120), (7,))]
    for make in (sized, lazy):
        net = make().build(SHAPE, seed=3)
        for array, name in zip(expected, ("0.weight", "0.bias", "4.weight", "4.bias"), strict=True):
            np.testing.assert_array_equal(net.state_dict()[name], array)


def test_the_seed_of_a_trainer_decides_what_nobody_has_looked_at() -> None:
    x, y = numbers(12, *SHAPE), np.arange(12) % 7
    results = []
    for make in (lazy, sized, sized):
        net = make()
        optimizer = nn.Adam(net.parameters(), lr=1e-3)
        assert all(p.requires_grad for p in optimizer.parameters)
        nn.Trainer(net, optimizer=optimizer, seed=5, quiet=True).fit(x, y, epochs=2)
        results.append(copies(net))
    for other in results[1:]:
        for name, array in results[0].items():
            np.testing.assert_array_equal(array, other[name], err_msg=name)


@pytest.mark.parametrize(
    "look",
    [
        lambda net: repr(net), lambda net: [p.shape for p in net.parameters()], lambda net: net.zero_grad(),
        lambda net: sum(p.numel() + p.size for p in net.parameters()), lambda net: net.requires_grad_(),
        lambda net: nn.SGD(net.parameters(), lr=0.1).zero_grad(), lambda net: [p.grad for p in net.parameters()],
        lambda net: nn.Adam(net.parameters(), lr=0.1).state_dict(),
    ],
)  # fmt: skip
def test_sizes_may_be_looked_at_without_fixing_values(look: Callable[[nn.Sequential], Any]) -> None:
    net = sized()
    look(net)
    wanted = lazy().build(SHAPE, seed=1).state_dict()
    for name, array in net.build(SHAPE, seed=1).state_dict().items():
        np.testing.assert_array_equal(array, wanted[name], err_msg=name)


def test_values_that_were_seen_or_set_stay() -> None:
    net = sized()
    seen = net[0].weight.data
    before = seen.copy()
    net[0].bias.data[...] = 3
    net[4].bias.data = np.full(7, 2.0)
    net.build(SHAPE, seed=1)
    assert net[0].weight.data is seen
    np.testing.assert_array_equal(seen, before)
    assert (net[0].bias.data == 3).all() and (net[4].bias.data == 2).all()
    first = np.random.RandomState(1).uniform(-1 / np.sqrt(120), 1 / np.sqrt(120), (7, 120)).astype(np.float32)
    np.testing.assert_array_equal(net[4].weight.data, first)  # the first that is still to be drawn


def test_values_seen_do_not_depend_on_the_order_of_looking() -> None:
    values = []
    for order in ((0, 4), (4, 0)):
        nn.manual_seed(11)
        net = sized()
        for index in order:
            net[index].weight.data  # noqa: B018
        values.append(copies(net))
    nn.manual_seed(11)
    values.append(copies(sized().build(SHAPE)))  # and building without a seed gives what was to be seen
    for other in values[1:]:
        for name, array in values[0].items():
            np.testing.assert_array_equal(array, other[name], err_msg=name)
    assert not np.array_equal(values[0]["0.weight"], sized().state_dict()["0.weight"])


def test_manual_seed_makes_lazy_networks_repeatable() -> None:
    outputs = []
    for _ in range(2):
        nn.manual_seed(4)
        outputs.append(nn.Sequential(nn.Linear(5), nn.Dropout(0.5), nn.Linear(3))(np.ones((8, 4), np.float32)))
    np.testing.assert_array_equal(*outputs)
    for wrong in (-1, 2**32):
        with pytest.raises(ValueError, match="manual_seed: seed is"):
            nn.manual_seed(wrong)
    with pytest.raises(TypeError, match="manual_seed: seed must be a whole number"):
        nn.manual_seed(0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
@pytest.mark.parametrize("seen", [False, True])
def test_copies_have_the_same_values(duplicate: Callable[[nn.Sequential], nn.Sequential], seen: bool) -> None:
    net = sized()
    if seen:
        net.state_dict()
    twin = duplicate(net)
    for name, array in net.state_dict().items():
        np.testing.assert_array_equal(array, twin.state_dict()[name], err_msg=name)
        assert array is not twin.state_dict()[name]


# Weights before a batch.


def test_weights_before_the_first_batch(tmp_path: Path) -> None:
    net, other = sized(), sized()
    names = ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "4.weight", "4.bias",
             "5.weight", "5.bias"]  # fmt: skip
    assert list(net.state_dict()) == names
    assert repr(net[0].weight) == "Parameter(shape=(4, 2, 3, 3))" and net[0].weight.size == 72
    net.save(tmp_path / "net.safetensors")
    assert other.load(tmp_path / "net.safetensors") == []
    x = numbers(3, *SHAPE)
    np.testing.assert_array_equal(net.eval()(x), other.eval()(x))
    with pytest.raises(nn.Mismatch, match=r"4\.weight: shape \(1, 1\) given, \(7, 120\) needed"):
        sized().load_state_dict({**net.state_dict(), "4.weight": np.zeros((1, 1))})
    with pytest.raises(ValueError, match=r"Parameter\.data: shape \(3,\) given, \(4,\) needed"):
        sized()[0].bias.data = np.zeros(3)


def test_what_is_not_loaded_follows_the_seed() -> None:
    net = sized()
    missing = net.load_state_dict({"0.weight": np.ones((4, 2, 3, 3))}, strict=False)
    assert len(missing) == 9 and (net[0].weight.data == 1).all()
    net.build(SHAPE, seed=1)
    bias = np.random.RandomState(1).uniform(-1 / np.sqrt(18), 1 / np.sqrt(18), 4).astype(np.float32)
    np.testing.assert_array_equal(net[0].bias.data, bias)


def test_sizes_that_are_not_given_are_still_to_be_found() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(2))
    with pytest.raises(
        RuntimeError, match=r"state_dict: sizes are not known yet\. Give layers their input sizes, call build"
    ):
        net.state_dict()
    with pytest.raises(RuntimeError, match="load_state_dict: sizes are not known yet"):
        net.load_state_dict({})
    with pytest.raises(RuntimeError, match=r"Linear\.bias: has no values yet"):
        net[1].bias.data  # noqa: B018
    assert net[0].weight.data.shape == (4, 3)
    assert nn.BatchNorm2d()._lazy() and not nn.BatchNorm2d(3)._lazy()


def test_a_size_may_change_until_values_are_there() -> None:
    layer = nn.Linear(3, 2)
    layer.out_features = 5
    assert layer.weight.shape == (5, 3) and layer(np.ones((1, 3), np.float32)).shape == (1, 5)


def test_what_forward_does_not_use_is_saved_but_not_trained() -> None:
    class Spare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.spare = nn.Linear(4, 3), nn.Linear(3, 3)

        def forward(self, x: nn.Value) -> nn.Value:
            value: nn.Value = self.used(x)
            return value

    x, y = numbers(20, 4), np.arange(20) % 3
    states = []
    for _ in range(2):
        net = Spare()
        optimizer = nn.AdamW(net.parameters(), lr=0.1, weight_decay=0.5)
        trainer = nn.Trainer(net, optimizer=optimizer, quiet=True, seed=2)
        trainer.fit(x, y, epochs=1)
        before = copies(net)
        trainer.fit(x, y, epochs=3)
        for name in ("spare.weight", "spare.bias"):
            np.testing.assert_array_equal(net.state_dict()[name], before[name])
        assert not np.array_equal(net.state_dict()["used.weight"], before["used.weight"])
        states.append(copies(net))
    for name, array in states[0].items():
        np.testing.assert_array_equal(array, states[1][name], err_msg=name)


def test_parameters_that_forward_reads_itself_follow_the_seed() -> None:
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(4, 3)

        def forward(self, x: nn.Value) -> tuple[nn.Value, nn.Value]:
            return x, x.graph.parameter(self.table.weight)

    net = Reads().build((3,), seed=9)
    wanted = np.random.RandomState(9).standard_normal((4, 3)).astype(np.float32)
    np.testing.assert_array_equal(net(np.ones((1, 3), np.float32))[1], wanted)


# Signatures.


def values(layer: nn.Module, names: tuple[str, ...]) -> list[Any]:
    return [getattr(layer, name) for name in names]


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (lambda: nn.Conv2d(8, 3), (None, 8, (3, 3), (1, 1))),
        (lambda: nn.Conv2d(4, 8, 3), (4, 8, (3, 3), (1, 1))),
        (lambda: nn.Conv2d(4, 8, 3, 2), (4, 8, (3, 3), (2, 2))),
        (lambda: nn.Conv2d(None, 8, 3, 2), (None, 8, (3, 3), (2, 2))),
        (lambda: nn.Conv2d(8, kernel_size=3, stride=2), (None, 8, (3, 3), (2, 2))),
        (lambda: nn.Conv2d(4, 8, kernel_size=3), (4, 8, (3, 3), (1, 1))),
        (lambda: nn.Conv2d(8, 3, in_channels=4), (4, 8, (3, 3), (1, 1))),
        (lambda: nn.Conv2d(out_channels=8, kernel_size=(3, 1)), (None, 8, (3, 1), (1, 1))),
        (lambda: nn.Conv2d(kernel_size=3, in_channels=4, out_channels=8), (4, 8, (3, 3), (1, 1))),
        (lambda: nn.Conv1d(4, 8, 3, 2), (4, 8, (3,), (2,))),
        (lambda: nn.ConvTranspose1d(8, 3), (None, 8, (3,), (1,))),
    ],
)
def test_sizes_of_convolutions(layer: Callable[[], nn.Module], expected: tuple[Any, ...]) -> None:
    assert tuple(values(layer(), ("in_channels", "out_channels", "kernel_size", "stride"))) == expected


def test_sizes_of_linear_layers() -> None:
    for layer, expected in (
        (nn.Linear(3), (None, 3, True)), (nn.Linear(2, 3), (2, 3, True)), (nn.Linear(2, 3, False), (2, 3, False)),
        (nn.Linear(3, in_features=2), (2, 3, True)), (nn.Linear(out_features=3, bias=False), (None, 3, False)),
    ):  # fmt: skip
        assert tuple(values(layer, ("in_features", "out_features", "use_bias"))) == expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: nn.Conv2d(8),
            r"Conv2d takes \(out_channels, kernel_size\) or \(in_channels, out_channels, kernel_size\)\.",
        ),
        (lambda: nn.Linear(1, 2, True, 3), r"Linear takes \(out_features\) or \(in_features, out_features\)\."),
        (lambda: nn.Conv2d(4, 8, 3, 2, stride=1), "stride is given twice: by position and by name"),
        (lambda: nn.Conv2d(8, 3, strid=2), r"Conv2d: there is no argument 'strid'\. Did you mean stride\?"),
        (lambda: nn.Linear(3, biass=False), r"Linear: there is no argument 'biass'\. Did you mean bias\?"),
    ],
)
def test_arguments_that_do_not_fit(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize("name", nn.__all__)
def test_signatures_show_real_names(name: str) -> None:
    """Names in help() and editors: no bundles of arguments, but for layers that take any number of things."""
    kind = getattr(nn, name)
    if not inspect.isclass(kind) or not issubclass(kind, nn.Module):
        return
    bundles = [p for p in inspect.signature(kind).parameters.values() if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    takes_many = ("Sequential", "Add", "Concatenate", "Residual", "Reshape")
    assert not bundles or name in takes_many


def test_signature_of_a_convolution() -> None:
    shown = list(inspect.signature(nn.Conv2d).parameters)
    assert shown == [
        "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "bias", "padding_mode",
        "weight_init", "bias_init",
    ]  # fmt: skip


# What a normalization may be fused with.


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.Sequential(nn.Linear(6), nn.BatchNorm2d()), (3, 4, 5)),
        (lambda: nn.Sequential(nn.Linear(6), nn.BatchNorm1d()), (3, 5)),
        (lambda: nn.Sequential(nn.Linear(6), nn.InstanceNorm1d()), (3, 5)),
    ],
)
def test_channels_behind_a_linear_layer(make: Callable[[], nn.Sequential], shape: tuple[int, ...]) -> None:
    net = make().build(shape, seed=0)
    x = numbers(4, *shape)
    y = net(x)
    z = x @ net[0].weight.data.T + net[0].bias.data
    axes: Any = (0, *range(2, z.ndim)) if "Batch" in repr(net[1]) else tuple(range(2, z.ndim))
    wanted: Array = (z - z.mean(axes, keepdims=True)) / np.sqrt(z.var(axes, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


# What follows parameters from before they are built.


def test_averages_begin_when_the_network_is_built() -> None:
    """Also where only some sizes are known before, and without fixing values that a seed is to decide."""
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(3))
    ema = nn.EMA(net, decay=0.5)
    net.build((4,), seed=3)
    wanted = nn.Sequential(nn.Linear(5), nn.Tanh(), nn.Linear(3)).build((4,), seed=3).state_dict()
    for name, array in net.state_dict().items():
        np.testing.assert_array_equal(array, wanted[name], err_msg=name)
    ema.update()
    net[0].weight.data += 2
    ema.update()
    with ema.applied():
        np.testing.assert_allclose(net[0].weight.data, wanted["0.weight"] + 1, rtol=1e-5)
    assert nn.utils.clip_grad_norm_(nn.Linear(3, 2).parameters(), 1.0) == 0.0
