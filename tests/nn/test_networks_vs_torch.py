"""Networks against PyTorch: same weights, same outputs, gradients and ten-step training curves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openbnns import nn

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")
T = torch.nn


class TorchResidual(T.Module):
    def __init__(self, *body: Any) -> None:
        super().__init__()
        self.body = T.Sequential(*body)

    def forward(self, x: Any) -> Any:
        return x + self.body(x)


class TorchLstm(T.Module):
    """The outputs of an LSTM, without its states."""

    def __init__(self, *sizes: int, **options: Any) -> None:
        super().__init__()
        self.cells = T.LSTM(*sizes, batch_first=True, **options)

    def forward(self, x: Any) -> Any:
        return self.cells(x)[0]


class TorchLastOutputs(TorchLstm):
    """The last outputs of each direction of an LSTM."""

    def forward(self, x: Any) -> Any:
        hidden = self.cells(x)[1][0]
        return torch.cat([hidden[0], hidden[1]], -1)


class Lstm(nn.Module):
    def __init__(self, *sizes: int, **options: Any) -> None:
        super().__init__()
        self.cells = nn.LSTM(*sizes, **options)

    def forward(self, x: Any) -> Any:
        return self.cells(x)


PAIRS: dict[str, Any] = {
    "lstm": lambda: (
        nn.Sequential(Lstm(6, num_layers=2), nn.Flatten(), nn.Linear(3)),
        T.Sequential(TorchLstm(5, 6, num_layers=2), T.Flatten(), T.Linear(42, 3)),
        (7, 5),
    ),
    "lstm, both directions": lambda: (
        nn.Sequential(Lstm(6, num_layers=2, bidirectional=True), nn.Flatten(), nn.Linear(3)),
        T.Sequential(TorchLstm(5, 6, num_layers=2, bidirectional=True), T.Flatten(), T.Linear(84, 3)),
        (7, 5),
    ),
    "last outputs of both directions": lambda: (
        nn.Sequential(Lstm(4, bidirectional=True, last_only=True, bias=False), nn.Linear(3)),
        T.Sequential(TorchLastOutputs(5, 4, bidirectional=True, bias=False), T.Linear(8, 3)),
        (6, 5),
    ),
    "transformer": lambda: (
        nn.Sequential(
            nn.Linear(8), nn.TransformerEncoderLayer(8, 2, 16, 0.0),
            nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", norm_first=True),
            nn.Flatten(), nn.Linear(3),
        ),
        T.Sequential(
            T.Linear(4, 8), T.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True),
            T.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True, norm_first=True), T.Flatten(), T.Linear(56, 3),
        ),
        (7, 4),
    ),
    "mlp": lambda: (
        nn.Sequential(nn.Linear(32), nn.ReLU(), nn.LayerNorm(), nn.Linear(10)),
        T.Sequential(T.Linear(20, 32), T.ReLU(), T.LayerNorm(32), T.Linear(32, 10)),
        (20,),
    ),
    "batch norm": lambda: (
        nn.Sequential(nn.Linear(16), nn.BatchNorm1d(), nn.ReLU(), nn.Linear(3)),
        T.Sequential(T.Linear(5, 16), T.BatchNorm1d(16), T.ReLU(), T.Linear(16, 3)),
        (5,),
    ),
    "cnn": lambda: (
        nn.Sequential(
            nn.Conv2d(8, 3, padding=1, bias=False), nn.BatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 3, stride=2),
            nn.GroupNorm(3), nn.SiLU(), nn.Residual(nn.Conv2d(6, 3, padding=1), nn.InstanceNorm2d(affine=True), nn.Tanh()),
            nn.ConvTranspose2d(4, 2, stride=2), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(10),
        ),
        T.Sequential(
            T.Conv2d(3, 8, 3, padding=1, bias=False), T.BatchNorm2d(8), T.ReLU(), T.MaxPool2d(2), T.Conv2d(8, 6, 3, stride=2),
            T.GroupNorm(3, 6), T.SiLU(), TorchResidual(T.Conv2d(6, 6, 3, padding=1), T.InstanceNorm2d(6, affine=True), T.Tanh()),
            T.ConvTranspose2d(6, 4, 2, stride=2), T.GELU(), T.AvgPool2d(2), T.Flatten(), T.Linear(36, 10),
        ),
        (3, 16, 16),
    ),
    "layer norm of images": lambda: (
        nn.Sequential(nn.Conv2d(4, 3), nn.LayerNorm((4, 4, 4)), nn.Flatten(), nn.Linear(2)),
        T.Sequential(T.Conv2d(1, 4, 3), T.LayerNorm((4, 4, 4)), T.Flatten(), T.Linear(64, 2)),
        (1, 6, 6),
    ),
}  # fmt: skip


def tensor(array: Any, grad: bool = False) -> Any:
    return torch.tensor(np.ascontiguousarray(array), requires_grad=grad)


def close(ours: Any, theirs: Any, what: str) -> None:
    theirs = theirs.detach().numpy()
    scale = max(float(np.abs(theirs).max()), 0.05)  # a bias before a normalization has no gradient but rounding
    assert np.abs(ours - theirs).max() <= 3e-5 * scale, what


@pytest.mark.parametrize("name", PAIRS)
def test_values_and_gradients(name: str) -> None:
    torch.manual_seed(1)
    ours, theirs, shape = PAIRS[name]()
    ours.build(shape, seed=0)
    ours.load_state_dict(theirs.state_dict())
    random = np.random.RandomState(2)
    x = random.standard_normal((7, *shape)).astype(np.float32)
    tx = tensor(x, grad=True)
    y, ty = ours(x), theirs(tx)
    close(y, ty, "output")
    dy = random.standard_normal(y.shape).astype(np.float32)
    dx = ours.backward(dy)
    ty.backward(tensor(dy))
    close(dx, tx.grad, "input gradient")
    gradients = dict(theirs.named_parameters())
    for path, parameter in ours.named_parameters():
        close(parameter.grad, gradients[path].grad, path)
    close(ours.eval()(x), theirs.eval()(tx), "output at inference") if "norm" not in name and name != "cnn" else None


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_ten_steps_of_training(name: str, optimizer: str) -> None:
    torch.manual_seed(3)
    ours, theirs, shape = PAIRS[name]()
    ours.build(shape, seed=0)
    ours.load_state_dict(theirs.state_dict())
    classes = theirs(torch.zeros(2, *shape)).shape[1]
    random = np.random.RandomState(4)
    x = random.standard_normal((16, *shape)).astype(np.float32)
    labels = random.randint(0, classes, 16)
    if optimizer == "sgd":
        mine: nn.Optimizer = nn.SGD(0.05, 0.9)
        peer = torch.optim.SGD(theirs.parameters(), 0.05, 0.9)
    else:
        # Where a gradient is nearly zero, as that of a bias before a normalization, Adam turns rounding into steps.
        mine, peer = nn.Adam(1e-3, eps=1e-4), torch.optim.Adam(theirs.parameters(), 1e-3, eps=1e-4)
    ours.load_state_dict(theirs.state_dict())
    mine.attach(ours.parameters())
    loss = nn.CrossEntropyLoss()
    curves: list[list[float]] = [[], []]
    for _ in range(10):
        value, gradient = loss(ours(x), labels)
        ours.backward(gradient)
        mine.step()
        peer.zero_grad()
        theirs_loss = T.functional.cross_entropy(theirs(tensor(x)), tensor(labels))
        theirs_loss.backward()
        peer.step()
        curves[0].append(value)
        curves[1].append(float(theirs_loss.detach()))
    np.testing.assert_allclose(curves[0], curves[1], rtol=2e-3, atol=2e-4)
    assert curves[0][-1] < curves[0][0]
