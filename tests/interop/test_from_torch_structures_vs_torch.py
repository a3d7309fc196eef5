"""``nn.from_torch`` of modules that take tuples, lists and dictionaries of tensors: values, gradients, training and files."""

from __future__ import annotations

import copy
import pickle
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import nn
from torch_networks import T, floats, tokens, torch

pytestmark = pytest.mark.peers

Pair = namedtuple("Pair", "left right")


def as_tensors(value: Any) -> Any:
    """The same structure with tensors, whose gradients are wanted, in place of arrays."""
    if isinstance(value, dict):
        return {name: as_tensors(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        parts = [as_tensors(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return torch.tensor(value, requires_grad=value.dtype.kind == "f")


def leaves(value: Any) -> list[Any]:
    if isinstance(value, (dict, tuple, list)):
        return [x for part in (value.values() if isinstance(value, dict) else value) for x in leaves(part)]
    return [value]


class Batch(T.Module):  # type: ignore[misc, name-defined]
    """A model of text with a dictionary for a batch, as trainers hand it over, which it takes apart."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = T.Embedding(11, 6), T.Linear(6, 3)

    def forward(self, batch: Any) -> Any:
        mask = batch.pop("mask")[..., None]
        x = self.table(batch["ids"]) * mask
        return {"scores": self.out(x.sum(1) / mask.sum(1)), "norm": x.flatten(1).norm(dim=1)}


class Pyramid(T.Module):  # type: ignore[misc, name-defined]
    """A neck of a detector, which takes a list of feature maps."""

    def __init__(self) -> None:
        super().__init__()
        self.lateral = T.ModuleList([T.Conv2d(n, 4, 1) for n in (2, 3)])

    def forward(self, maps: Any, scale: Any) -> Any:
        high, low = (layer(x) for layer, x in zip(self.lateral, maps, strict=True))
        return [low, high + T.functional.interpolate(low, scale_factor=2) * scale[:, None, None, None]]


class Named(T.Module):  # type: ignore[misc, name-defined]
    """Two towers whose inputs have names, and lie deeper."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = T.Linear(4, 5), T.Linear(3, 5)

    def forward(self, pair: Any, extra: Any) -> Any:
        return torch.tanh(self.left(pair.left)) @ self.right(pair.right["x"][0]).T + extra[1].sum(1)


class Everything(T.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.parts = T.ModuleDict({name: T.Linear(3, 2) for name in "ab"})

    def forward(self, **inputs: Any) -> Any:
        return sum(self.parts[name](x) for name, x in inputs["features"].items()) * inputs["weight"]


def batch_of(n: int) -> Any:
    return (
        {"ids": tokens(11, n, 5, seed=n), "mask": np.maximum(floats(n, 5, seed=n) > 0, [1, 0, 0, 0, 0]).astype("f")},
    )


def maps_of(n: int) -> Any:
    return [floats(n, 2, 8, 8, seed=n), floats(n, 3, 4, 4, seed=n + 1)], floats(n, seed=n + 2)


def pair_of(n: int) -> Any:
    return Pair(floats(n, 4, seed=n), {"x": (floats(n, 3, seed=n + 1),)}), [floats(n, 2), floats(n, 6, seed=n + 2)]


CASES = {"dictionary": (Batch, batch_of), "list": (Pyramid, maps_of), "named tuple": (Named, pair_of)}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    kind, samples = CASES[name]
    module = kind()
    example = samples(2)
    if name == "named tuple":  # as a call that names its arguments
        net = nn.from_torch(module, dict(zip(("pair", "extra"), example, strict=True)))
    else:
        net = nn.from_torch(module, example)
    for n in (1, 4, 7):
        x = samples(n)
        given = as_tensors(x)
        inputs = leaves(given)  # before forward takes them apart
        expected = leaves(module(*given))
        results = net(*x)
        cotangents = [floats(*y.shape, seed=i) for i, y in enumerate(expected)]
        for ours, theirs in zip(leaves(results), expected, strict=True):
            np.testing.assert_allclose(ours, theirs.detach(), rtol=1e-4, atol=1e-5)
        module.zero_grad()
        torch.autograd.backward(expected, [torch.tensor(c) for c in cotangents])
        shaped = dict(zip(results, cotangents, strict=True)) if isinstance(results, dict) else cotangents
        gradients = net.backward(shaped if isinstance(results, (dict, list)) else cotangents[0])
        for ours, x_theirs in zip(gradients, inputs, strict=True):
            if x_theirs.requires_grad:
                wanted = np.zeros(x_theirs.shape) if x_theirs.grad is None else x_theirs.grad
                np.testing.assert_allclose(
                    np.zeros(x_theirs.shape) if ours is None else ours, wanted, rtol=1e-3, atol=1e-4
                )
        for (path, p), q in zip(net.named_parameters(), module.parameters(), strict=True):
            np.testing.assert_allclose(p.grad, q.grad, rtol=1e-3, atol=1e-4, err_msg=path)
    x = samples(3)
    y = leaves(net.eval()(*x))
    net.save_model(tmp_path / "model.safetensors")
    net.to_onnx(tmp_path / "model.onnx")
    read = nn.load_model(tmp_path / "model.safetensors")
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), read):
        for a, b in zip(leaves(twin(*x)), y, strict=True):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(leaves(nn.from_onnx(tmp_path / "model.onnx")(*leaves(x))), y, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_dictionary_in_predict_and_trainer(tmp_path: Path) -> None:
    class Scores(Batch):
        def forward(self, batch: Any) -> Any:
            return super().forward(batch)["scores"]

    torch.manual_seed(0)
    module = Scores()
    net = nn.from_torch(module, batch_of(2))
    (x,), y = batch_of(12), tokens(3, 12)
    theirs = torch.optim.SGD(module.parameters(), lr=0.2)
    values = []
    for _ in range(4):
        theirs.zero_grad()
        loss = T.functional.cross_entropy(module(as_tensors(x)), torch.tensor(y))
        loss.backward()
        theirs.step()
        values.append(loss.item())
    trainer = nn.Trainer(net, "cross_entropy", nn.SGD(lr=0.2), batch_size=12, quiet=True, out=tmp_path)
    trainer.fit(x, y, epochs=4)  # the entries of the only argument
    np.testing.assert_allclose([epoch["loss"] for epoch in trainer.history], values, rtol=1e-4)
    expected = net.eval()(x)
    for samples in (x, (x,), {"batch": x}):
        np.testing.assert_array_equal(np.asarray(net.predict(samples)), expected)
        np.testing.assert_array_equal(trainer.predict(samples), expected)
    np.testing.assert_array_equal(net(**x), expected)
    np.testing.assert_array_equal(net(*x.values()), expected)
    with pytest.raises(
        TypeError, match=r"Scores: batch is a dictionary with 'ids', but must be a dictionary with 'ids', 'mask'"
    ):
        net({"ids": x["ids"]})
    with pytest.raises(
        TypeError, match=r"Trainer\.predict: x has parts 'ids', .*It takes batch \(a dictionary with 'ids', 'mask'\)"
    ):
        trainer.predict({"ids": x["ids"]})


def test_arguments_that_forward_collects() -> None:
    module = Everything()
    example = {"weight": floats(2, 1), "features": {name: floats(2, 3) for name in "ab"}}
    net = nn.from_torch(module, example)
    x = {"features": {"b": floats(5, 3, seed=1), "a": floats(5, 3, seed=2)}, "weight": floats(5, 1, seed=3)}
    expected = module(**as_tensors(x)).detach()
    np.testing.assert_allclose(net(**x), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.asarray(net.predict(x)), expected, rtol=1e-5, atol=1e-6)


def test_as_a_part_of_another_network() -> None:
    module = Batch()
    inner = nn.from_torch(module, batch_of(2)).eval()

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, ids: Any, mask: Any) -> Any:
            return self.inner(batch={"mask": mask, "ids": ids})["scores"] * 2

    (x,) = batch_of(4)
    expected = module(as_tensors(x))["scores"].detach() * 2
    np.testing.assert_allclose(Around().eval()(x["ids"], x["mask"]), expected, rtol=1e-5, atol=1e-6)


def test_refused() -> None:
    with pytest.raises(
        ValueError, match=r"3, 2 samples \(batch\['ids'\] 3, batch\['mask'\] 2\)\. Pass the same number"
    ):
        nn.from_torch(Batch(), ({"ids": tokens(11, 3, 5), "mask": floats(2, 5)},))
    with pytest.raises(ValueError, match=r"Batch\.forward does not take them: .*pass a tuple with it: \(example,\)"):
        nn.from_torch(Batch(), batch_of(2)[0])
    net = nn.from_torch(Batch(), batch_of(2))
    with pytest.raises(
        ValueError, match=r"Batch: batch\['mask'\] has shape \(3, 4\), but the module was recorded on \(N, 5\)"
    ):
        net({"ids": tokens(11, 3, 5), "mask": floats(3, 4)})
