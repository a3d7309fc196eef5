"""LSTM, GRU and RNN of nn against PyTorch's: same weights, same outputs, states and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers import numbers
from openbnns import nn

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")

N, T = 7, 9
LENGTHS = np.array([9, 1, 4, 9, 2, 1, 8])


class Net(nn.Module):
    """A layer that takes states and lengths as inputs of the network, and gives all that it has."""

    def __init__(self, layer: Any, packed: bool) -> None:
        super().__init__()
        self.layer, self.packed = layer, packed

    def forward(self, x: Any, *more: Any) -> Any:
        rest = list(more)
        lengths = rest.pop() if self.packed else None
        hx = None if not rest else rest[0] if len(rest) == 1 else tuple(rest)
        y, final = self.layer(x, hx, lengths=lengths)
        return y, final


def close(ours: Any, theirs: Any, what: str) -> None:
    theirs = theirs.detach().numpy() if torch.is_tensor(theirs) else theirs
    scale = max(float(np.abs(theirs).max()), 0.05)
    assert np.abs(ours - theirs).max() <= 3e-5 * scale, what


@pytest.mark.parametrize("sizes", [(3, 5), (16, 16), (7, 37)], ids=str)
@pytest.mark.parametrize(
    "options",
    [{}, {"bias": False}, {"num_layers": 3}, {"bidirectional": True}, {"num_layers": 2, "bidirectional": True}],
    ids=str,
)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN", "ReLU"])
def test_recurrent(kind: str, states: bool, packed: bool, options: dict[str, Any], sizes: tuple[int, int]) -> None:
    if kind == "ReLU":
        kind, options = "RNN", {**options, "nonlinearity": "relu"}
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(*sizes, batch_first=True, **options)
    cells = (2 if options.get("bidirectional") else 1) * options.get("num_layers", 1)
    count = 2 if kind == "LSTM" else 1
    x = numbers(N, T, sizes[0], seed=1)
    starts = [numbers(N, cells, sizes[1], seed=2 + i) for i in range(count)] if states else []
    inputs = [x, *starts, *([LENGTHS] if packed else [])]
    layer = getattr(nn, kind)(*sizes, **options)
    net = Net(layer, packed)
    net.build(*(array.shape[1:] for array in inputs))
    layer.load_state_dict(theirs.state_dict())
    y, final = net(*inputs)
    ends = list(final) if count == 2 else [final]

    leaves = [torch.tensor(array, requires_grad=True) for array in [x, *starts]]
    hx = tuple(leaf.transpose(0, 1) for leaf in leaves[1:])
    given = leaves[0]
    if packed:
        given = torch.nn.utils.rnn.pack_padded_sequence(given, torch.tensor(LENGTHS), True, enforce_sorted=False)
    result, states_after = theirs(given, (hx if count == 2 else hx[0]) if states else None)
    if packed:
        result, _ = torch.nn.utils.rnn.pad_packed_sequence(result, True, total_length=T)
    after = list(states_after) if count == 2 else [states_after]
    close(y, result, "output")
    for ours, other in zip(ends, after, strict=True):
        close(np.stack(ours), other, "state")

    d = [numbers(*tensor.shape, seed=10 + i) for i, tensor in enumerate([result, *after])]
    torch.autograd.backward([result, *after], [torch.tensor(array) for array in d])
    arriving = [tuple(array) for array in d[1:]]
    gradients = net.backward((d[0], tuple(arriving) if count == 2 else arriving[0]))
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    for i, leaf in enumerate(leaves):
        close(gradients[i], leaf.grad, f"gradient of input {i}")
    for name, parameter in theirs.named_parameters():
        close(layer._parameters[name].grad, parameter.grad, name)


@pytest.mark.parametrize("kind", ["GRU", "RNN"])
def test_twenty_steps_of_training(kind: str) -> None:
    """The loss follows PyTorch's within 1e-4."""
    torch.manual_seed(0)
    theirs = torch.nn.Sequential(getattr(torch.nn, kind)(8, 16, num_layers=2, batch_first=True), torch.nn.Linear(16, 4))
    ours = nn.Sequential(getattr(nn, kind)(8, 16, num_layers=2), nn.Linear(16, 4)).build((T, 8))
    ours.load_state_dict(theirs.state_dict())
    x, target = numbers(32, T, 8, seed=1), np.random.default_rng(2).integers(0, 4, (32, T))
    adam, other = nn.Adam(ours.parameters(), lr=1e-2), torch.optim.Adam(theirs.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss(dim=-1)
    for _ in range(20):
        loss, gradient = criterion(ours(x), target)
        ours.backward(gradient)
        adam.step()
        y = theirs[1](theirs[0](torch.tensor(x))[0])
        expected = torch.nn.functional.cross_entropy(y.reshape(-1, 4), torch.tensor(target.reshape(-1)))
        other.zero_grad()
        expected.backward()
        other.step()
        assert abs(loss - expected.item()) <= 1e-4 * abs(expected.item())
