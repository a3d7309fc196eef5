"""Parameters that several layers share, before and after a network is built."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from networks import changed, copies, numbers
from openbnns import nn
from openbnns.files import safetensors as weights


class Tied(nn.Module):
    """A language model whose last layer has the weights of the first."""

    def __init__(self, order: str = "out from emb", tie: bool = True) -> None:
        super().__init__()
        self.emb, self.mix, self.out = nn.Embedding(11, 6), nn.Linear(6), nn.Linear(11, bias=False)
        if tie:
            self.tie(order)

    def tie(self, order: str = "out from emb") -> None:
        if order == "out from emb":
            self.out.weight = self.emb.weight
        else:
            self.emb.weight = self.out.weight

    def forward(self, x: nn.Value) -> nn.Value:
        value: nn.Value = self.out(nn.Tanh()(self.mix(self.emb(x))))
        return value


TOKENS = np.random.RandomState(5).randint(0, 11, (4, 7))


def test_sharing_before_and_after_building_is_the_same() -> None:
    early, late = Tied().build((7,), seed=0), Tied(tie=False).build((7,), seed=0)
    late.tie()
    late.load_state_dict(early.state_dict())
    dy = numbers(4, 7, 11)
    for net in (early, late):
        assert net.out.weight is net.emb.weight
        assert [name for name, _ in net.named_parameters()] == ["emb.weight", "mix.weight", "mix.bias"]
        assert list(net.state_dict()) == ["emb.weight", "mix.weight", "mix.bias", "out.weight"]
        assert net.state_dict()["out.weight"] is net.state_dict()["emb.weight"]
        net(TOKENS)
        net.backward(dy)
    np.testing.assert_array_equal(early(TOKENS), late(TOKENS))
    np.testing.assert_array_equal(early.emb.weight.grad, late.emb.weight.grad)
    apart = Tied(tie=False).build((7,), seed=0)
    apart.load_state_dict(early.state_dict())
    apart(TOKENS)
    apart.backward(dy)
    np.testing.assert_allclose(
        early.emb.weight.grad, apart.emb.weight.grad + apart.out.weight.grad, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("order", ["out from emb", "emb from out"])
def test_shared_parameters_begin_as_the_layer_they_come_from_has_them(order: str) -> None:
    net = Tied(order).build((7,), seed=0)
    spread = float(net.emb.weight.data.std())
    bound = 1 / np.sqrt(6)
    if order == "out from emb":
        assert spread > 0.8  # standard normal
    else:
        assert abs(net.emb.weight.data).max() <= bound and spread > bound / 3


def test_shared_parameters_train_as_one() -> None:
    net = Tied()
    optimizer = nn.Adam(net.parameters(), lr=0.05)
    trainer = nn.Trainer(net, nn.CrossEntropyLoss(dim=-1), optimizer, quiet=True)
    history = trainer.fit(np.tile(TOKENS, (8, 1)), np.tile(TOKENS, (8, 1)), epochs=20)
    assert history[-1]["accuracy"] > 0.9 and net.out.weight is net.emb.weight
    assert len(optimizer.accumulators) == 2 * 3


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
@pytest.mark.parametrize("built", [False, True])
def test_copies_share_what_is_shared(duplicate: Callable[[Tied], Tied], built: bool) -> None:
    net = Tied()
    if built:
        net.build((7,), seed=0)
    twin = duplicate(net)
    assert twin.out.weight is twin.emb.weight and twin.emb.weight is not net.emb.weight
    twin.build((7,), seed=0)
    net.build((7,), seed=0)
    np.testing.assert_array_equal(twin(TOKENS), net(TOKENS))


def test_shared_parameters_in_files(tmp_path: Path) -> None:
    path = tmp_path / "tied.safetensors"
    net, other, apart = Tied().build((7,), seed=0), Tied().build((7,), seed=1), Tied(tie=False).build((7,), seed=2)
    net.save(path)
    arrays, metadata = weights.decode(path.read_bytes(), str(path))
    assert sorted(arrays) == ["emb.weight", "mix.bias", "mix.weight"] and metadata == {"out.weight": "emb.weight"}
    assert other.load(path) == [] and other.out.weight is other.emb.weight
    np.testing.assert_array_equal(other(TOKENS), net(TOKENS))
    with pytest.raises(nn.Mismatch, match=r"out\.weight: missing"):
        apart.load(path)
    for name in ("emb.weight", "out.weight"):  # either name will do
        state = {key: value + 1 for key, value in net.state_dict().items() if key not in ("emb.weight", "out.weight")}
        other.load_state_dict({**state, name: np.full((11, 6), 3.0)})
        assert (other.emb.weight.data == 3).all()
    before = copies(other)
    with pytest.raises(
        nn.Mismatch, match=r"emb\.weight and out\.weight: one shared parameter of the network, but diff"
    ):
        other.load_state_dict(apart.state_dict())
    assert not changed(other, before)


def test_a_shared_layer_stands_under_both_names() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Sequential(nn.Linear(4), nn.BatchNorm1d())
            self.two = self.one

        def forward(self, x: nn.Value) -> nn.Value:
            value: nn.Value = self.two(self.one(x))
            return value

    net = Twice().build((4,), seed=0)
    names = ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"]
    assert list(net.state_dict()) == [f"{side}.{name}" for side in ("one", "two") for name in names]
    assert [name for name, _ in net.named_parameters()] == [f"one.{name}" for name in names[:4]]
    assert [name for name, _ in net.named_modules()] == ["", "one", "one.0", "one.1"]
    assert len(list(net.named_buffers())) == 2
    twin = Twice().build((4,), seed=1)
    twin.load_state_dict(net.state_dict())
    x = numbers(5, 4)
    np.testing.assert_array_equal(net(x), twin(x))


def test_shared_parameters_must_fit() -> None:
    net = nn.Sequential(nn.Linear(4), nn.Linear(5))
    net[1].weight = net[0].weight
    with pytest.raises(ValueError, match=r"Linear\.weight: has shape \(4, 3\), but \(5, 4\) is needed here"):
        net.build((3,))
    layer = nn.Linear(3, 2)
    layer.weight = None
    with pytest.raises(ValueError, match=r"Linear\.weight: is None\. Assign an nn\.Parameter of shape \(2, 3\)"):
        layer.build((3,))


def test_parameters_set_before_building_leave_the_others_alone() -> None:
    layer, norm = nn.Linear(3, 2), nn.BatchNorm1d(2)
    layer.weight, norm.weight = nn.Parameter(np.ones((2, 3))), nn.Parameter([2.0, 3.0])
    net = nn.Sequential(layer, norm).build((3,), seed=0)
    assert sorted(net.state_dict()) == [
        "0.bias", "0.weight", "1.bias", "1.running_mean", "1.running_var", "1.weight",
    ]  # fmt: skip
    assert (layer.weight.data == 1).all() and norm.weight.data.tolist() == [2.0, 3.0]
