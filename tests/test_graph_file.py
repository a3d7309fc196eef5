"""Networks that are written as what they record, and read without any of their classes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import nn
from openbnns.nn import graph_file, model_file
from test_model_file import LAYERS, flat, samples_for, shapes_of

Array = np.ndarray


def by_graph(net: nn.Module, path: Path, monkeypatch: pytest.MonkeyPatch) -> nn.Module:
    """A network once more, from what it records, though it could be made from its layers."""

    def refuse(_: Any) -> Any:
        raise model_file.CannotDescribe("it shall not")

    with monkeypatch.context() as patched:
        patched.setattr(model_file, "_description", refuse)
        net.save_model(path)
    return nn.load_model(path)


def train(net: nn.Module, x: Any, seed: int) -> tuple[list[Array], dict[str, Array], list[Any]]:
    """Outputs of a training pass, the gradients of all parameters and of the inputs for random cotangents."""
    program = net.train().program(tuple(a.shape for a in x), training=True, input_gradients=True)
    program.seed(5, seed)
    for i, array in enumerate(x):
        program.fill(i, array)
    program.forward()
    random = np.random.RandomState(seed)
    program.fill_gradients([random.standard_normal(y.shape).astype(np.float32) for y in program.outputs])
    outputs = [np.array(y) for y in program.outputs]
    program.backward()
    gradients = {name: np.array(p.grad) for name, p in net.named_parameters() if p.used and p.requires_grad}
    return outputs, gradients, [None if g is None else np.array(g) for g in program.input_gradients]


def assert_same(one: nn.Module, other: nn.Module, *batches: Any) -> None:
    """Both compute the same, bit for bit, at inference and in training, and end with the same state."""
    for number, x in enumerate(batches):
        one.eval(), other.eval()
        for a, b in zip(flat(one(*x)), flat(other(*x)), strict=True):
            np.testing.assert_array_equal(a, b)
        (ya, ga, da), (yb, gb, db) = (train(net, x, number) for net in (one, other))
        assert ga.keys() == gb.keys()
        pairs = [*zip(ya, yb, strict=True), *((ga[n], gb[n]) for n in ga), *zip(da, db, strict=True)]
        for a, b in pairs:
            np.testing.assert_array_equal(a, b)
    assert one.state_dict().keys() == other.state_dict().keys()
    for name, array in one.state_dict().items():
        np.testing.assert_array_equal(array, other.state_dict()[name])


@pytest.mark.parametrize(
    ("module", "shape"), LAYERS, ids=lambda x: type(x).__name__ if isinstance(x, nn.Module) else ""
)
def test_every_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: nn.Module, shape: Any) -> None:
    net = copy.deepcopy(module).build(*shapes_of(shape), seed=3)
    again = by_graph(net, tmp_path / "m.safetensors", monkeypatch)
    assert isinstance(again, graph_file.RecordedNetwork)
    assert_same(net, again, samples_for(net, 3), samples_for(net, 5, 1))


class Functions(nn.Module):
    """Functions of values that are operations of their own, on numbers and on integers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(np.random.RandomState(0).standard_normal((9, 4)).astype(np.float32))
        self.kernel = nn.Parameter(np.random.RandomState(1).standard_normal((3, 1, 2, 3)).astype(np.float32))

    def forward(self, x: Any, ids: Any) -> Any:
        F = nn.functional
        kept, half = ids != 3, ids * 0.5
        rows = F.embedding(ids[:, 1:], self.table.tanh()) * kept[:, 1:, None] + half[:, 1:, None]
        order = x.sum((1, 2)).argsort()
        images = F.conv2d(x[:, None], self.kernel / self.kernel.norm(), padding=(0, 1))
        mixed = F.where(x > 0, x.cumsum(1), x % 0.7) + F.scatter_add(
            x, 1, (ids[:, :1, None] % 2).long().expand(-1, 1, 4), x[:, :1]
        )
        spectrum = F.irfft(F.rfft(x, dim=1), n=x.shape[1], dim=1) * F.arange(x.shape[0])[:, None, None]
        best = x.topk(2, 1)
        return (
            rows,
            images.mean((2, 3))[order],
            mixed + spectrum,
            best.values,
            best.indices,
            F.atan2(x, 1.5).diagonal(0, 1, 2),
        )


def test_functions_of_values(tmp_path: Path) -> None:
    random = np.random.RandomState(4)
    batches = [(random.standard_normal((n, 5, 4)).astype(np.float32), random.randint(0, 9, (n, 6))) for n in (3, 5)]
    net = Functions()
    net(*batches[0])
    net.save_model(tmp_path / "m.safetensors")
    assert_same(net, nn.load_model(tmp_path / "m.safetensors"), *batches)
