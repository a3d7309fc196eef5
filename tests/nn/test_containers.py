"""Modules that hold modules, and modules that a network would run without holding them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from networks import Net, numbers
from openbnns import nn


def made(keep: Callable[[nn.Module], None], use: Callable[[Any, Any], Any]) -> nn.Module:
    class Hiding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4)
            keep(self)

        def forward(self, x: nn.Value) -> nn.Value:
            value: nn.Value = use(self, self.first(x))
            return value

    return Hiding()


def in_list(net: Any) -> None:
    net.layers = []
    net.layers.append(nn.Sequential(nn.ReLU(), nn.Linear(4)))


def in_tuple(net: Any) -> None:
    net.layers = ([nn.BatchNorm1d(affine=False)],)


def in_dict(net: Any) -> None:
    net._heads = {"left": nn.Linear(4)}


def put_in_forward(net: Any, x: Any) -> Any:
    net.late = nn.Linear(4)
    return net.late(x)


OUTSIDE = nn.Linear(4)


@pytest.mark.parametrize(
    ("keep", "use", "message"),
    [
        (in_list, lambda net, x: net.layers[0](x), r"Hiding\.layers is a list that holds a Linear, so the network would run "
         r"it, but neither train nor save its parameters\. Use self\.layers = nn\.ModuleList\(\[\.\.\.\]\)"),
        (in_tuple, lambda net, x: net.layers[0][0](x), r"Hiding\.layers is a tuple that holds a BatchNorm1d, .*ModuleList"),
        (in_dict, lambda net, x: net._heads["left"](x), r"Hiding\._heads is a dict that holds a Linear, .*nn\.ModuleDict"),
        (lambda net: None, lambda net, x: nn.Linear(4)(x), r"Hiding\.forward runs a Linear that was made inside forward, or "
         r"that is kept outside .* Make it in __init__ and keep it as an attribute: self\.linear = nn\.Linear"),
        (lambda net: None, lambda net, x: OUTSIDE(x), "kept outside the network"),
        (lambda net: None, put_in_forward, r"Hiding\.forward puts a new Linear into the network each time"),
    ],
)  # fmt: skip
def test_modules_that_would_be_run_but_not_trained(
    keep: Callable[[nn.Module], None], use: Callable[[Any, Any], Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        nn.Sequential(made(keep, use), nn.Linear(2)).build((3,))


def test_modules_without_parameters_may_be_made_anywhere() -> None:
    def keep(net: Any) -> None:
        net._hidden = nn.Linear(4)  # a leading underscore does not hide it
        net.twice = [net.first, net._hidden]
        net.activations = [nn.ReLU(), nn.Tanh()]

    def use(net: Any, x: Any) -> Any:
        return nn.Dropout(0.5)(net.activations[1](nn.Sequential(*net.twice)(x)))

    net = made(keep, use).build((4,), seed=0)
    assert list(net.state_dict()) == ["first.weight", "first.bias", "_hidden.weight", "_hidden.bias"]
    assert net(numbers(3, 4)).shape == (3, 4)


def test_parts_removed_or_misassigned() -> None:
    net = Net().build((4,), seed=0)
    with pytest.raises(TypeError, match=r"Net\.head is a module, but 5 is not"):
        net.head = 5  # type: ignore[assignment]
    net.head = None  # type: ignore[assignment]
    assert not [name for name in net.state_dict() if name.startswith("head")] and net.head is None
    net.head = nn.Parameter(np.zeros(3))  # type: ignore[assignment]
    assert "head" in net.state_dict()
    net.head = nn.ReLU()  # type: ignore[assignment]
    assert not [name for name in net.state_dict() if name.startswith("head")]
    del net.body[1].bias
    assert "body.1.bias" not in net.state_dict()
    with pytest.raises(AttributeError):
        del net.nothing


def test_module_list() -> None:
    layers = [nn.Linear(size) for size in (5, 6, 7)]
    held = nn.ModuleList(layers[:1])
    held += [layers[1]]
    held.append(layers[2]).extend([])
    assert list(held) == layers and len(held) == 3 and held[-1] is layers[2] and layers[1] in held
    assert isinstance(held[1:], nn.ModuleList) and list(held[1:]) == layers[1:]
    assert [name for name, _ in held[1:].named_modules()] == ["", "0", "1"]
    held.insert(1, nn.ReLU())
    assert held.pop(1).__class__ is nn.ReLU and list(held) == layers
    del held[0]
    held[0] = nn.Tanh()
    assert [name for name, _ in held.named_modules()] == ["", "0", "1"] and isinstance(held[0], nn.Tanh)
    assert len(held + [nn.ReLU()]) == 3 and len(held) == 2  # noqa: RUF005
    for bad, message in (
        (lambda: held.append(nn.ReLU), r"ModuleList\.append: the argument is .*Call it to make one"),
        (lambda: nn.ModuleList([5]), "ModuleList: part 0 is 5, which is not an nn.Module"),
        (lambda: nn.ModuleList(nn.ReLU()), "takes a list of modules, not one ReLU"),
        (lambda: held(numbers(2, 3)), "ModuleList has no forward"),
    ):
        with pytest.raises((TypeError, NotImplementedError), match=message):
            bad()
    with pytest.raises(IndexError, match="there is no module 2, as it has 2"):
        held[2]


def test_module_dict() -> None:
    held = nn.ModuleDict({"one": nn.Linear(3)})
    held["two"] = nn.ReLU()
    held.update([("three", nn.Tanh())])
    assert list(held) == list(held.keys()) == ["one", "two", "three"] and len(held) == 3 and "two" in held
    assert [type(m) for m in held.values()] == [nn.Linear, nn.ReLU, nn.Tanh] == [type(m) for _, m in held.items()]
    assert [name for name, _ in held.named_parameters()] == ["one.weight", "one.bias"]
    assert isinstance(held.pop("two"), nn.ReLU)
    del held["three"]
    assert list(held) == ["one"]
    held.clear()
    assert not len(held)
    with pytest.raises(KeyError, match=r"there is no 'one'\. It has no modules"):
        held["one"]
    with pytest.raises(ValueError, match=r"a module cannot be called 'a\.b'"):
        held["a.b"] = nn.ReLU()
    with pytest.raises(TypeError, match=r"ModuleDict: 'a' is 5, which is not an nn\.Module"):
        held["a"] = 5  # type: ignore[assignment]


def test_series_changed_after_building_run_as_they_are() -> None:
    net = nn.Sequential(nn.Sequential(nn.Linear(3)), nn.Flatten())
    x = numbers(2, 4)
    first = net(x)
    net[0].append(nn.ReLU())
    np.testing.assert_array_equal(net(x), np.maximum(first, 0))
    net[0][1] = nn.Linear(5)
    assert net(x).shape == (2, 5)
    del net[0][1]
    np.testing.assert_array_equal(net(x), first)
    tail = nn.Sequential(nn.Linear(3), nn.ReLU(), nn.Linear(2)).build((4,), seed=0)[1:]
    assert list(tail.state_dict()) == ["2.weight", "2.bias"] and tail(numbers(1, 3)).shape == (1, 2)
    assert [name for name, _ in tail.append(nn.Tanh()).named_modules()] == ["", "1", "2", "3"]
