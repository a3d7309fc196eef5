"""Training against PyTorch: optimizers, frozen and shared parameters, losses, and what both refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import Array
from networks import numbers
from openbnns import nn

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")
T = torch.nn
F = torch.nn.functional


def tensor(array: Any) -> Any:
    return torch.tensor(np.ascontiguousarray(array))


# Optimizers.

OPTIMIZERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "adam": (nn.Adam, torch.optim.Adam, {}),
    "adam, large eps": (nn.Adam, torch.optim.Adam, {"eps": 0.1}),
    "adam, huge eps": (nn.Adam, torch.optim.Adam, {"eps": 10.0}),
    "adam, betas": (nn.Adam, torch.optim.Adam, {"betas": (0.5, 0.9), "eps": 1e-3}),
    "adam, decay": (nn.Adam, torch.optim.Adam, {"weight_decay": 0.1, "eps": 1e-4}),
    "adam, amsgrad": (nn.Adam, torch.optim.Adam, {"amsgrad": True, "eps": 1e-2, "betas": (0.9, 0.9)}),
    "adamw": (nn.AdamW, torch.optim.AdamW, {}),
    "adamw, all": (nn.AdamW, torch.optim.AdamW, {"weight_decay": 0.3, "amsgrad": True, "eps": 1e-2, "betas": (0.8, 0.9)}),
    "sgd": (nn.SGD, torch.optim.SGD, {}),
    "sgd, decay": (nn.SGD, torch.optim.SGD, {"weight_decay": 0.2}),
    "sgd, momentum": (nn.SGD, torch.optim.SGD, {"momentum": 0.9}),
    "sgd, nesterov": (nn.SGD, torch.optim.SGD, {"momentum": 0.8, "nesterov": True, "weight_decay": 0.1}),
    "sgd, dampening": (nn.SGD, torch.optim.SGD, {"momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
    "sgd, maximize": (nn.SGD, torch.optim.SGD, {"momentum": 0.5, "maximize": True, "weight_decay": 5.0}),
    "adamw, maximize": (nn.AdamW, torch.optim.AdamW, {"maximize": True, "weight_decay": 0.3}),
    "adagrad": (nn.Adagrad, torch.optim.Adagrad, {}),
    "adagrad, all": (
        nn.Adagrad, torch.optim.Adagrad,
        {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.1, "eps": 1e-3},
    ),
    "adamax": (nn.Adamax, torch.optim.Adamax, {}),
    "adamax, all": (nn.Adamax, torch.optim.Adamax, {"betas": (0.5, 0.9), "eps": 1e-2, "weight_decay": 0.1}),
    "rmsprop": (nn.RMSprop, torch.optim.RMSprop, {}),
    "rmsprop, large eps": (nn.RMSprop, torch.optim.RMSprop, {"eps": 0.5, "alpha": 0.9, "weight_decay": 0.1}),
    "rmsprop, centered": (nn.RMSprop, torch.optim.RMSprop, {"centered": True, "eps": 1e-3, "alpha": 0.8}),
    "rmsprop, momentum": (nn.RMSprop, torch.optim.RMSprop, {"momentum": 0.9, "eps": 1e-2}),
    "rmsprop, all": (
        nn.RMSprop, torch.optim.RMSprop, {"momentum": 0.7, "centered": True, "weight_decay": 0.1, "eps": 1e-2, "alpha": 0.9},
    ),
}  # fmt: skip

RATES: dict[str, Callable[[int], float]] = {
    "constant": lambda i: 0.01,
    "warm-up from 0 and cosine": lambda i: 0.02 * min(i / 20, 1) * (0.5 + 0.5 * math.cos(math.pi * i / 199)),
    "with rests": lambda i: 0.0 if i % 7 in (0, 3) else 0.01 * (1 + i % 3),
}


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_two_hundred_steps(name: str, rate: str) -> None:
    """Least squares with noise: gradients depend on where the steps have led."""
    make, peer_of, options = OPTIMIZERS[name]
    ours = [nn.Parameter(numbers(7, 5, seed=1)), nn.Parameter(numbers(5, seed=2))]
    theirs = [T.Parameter(tensor(p.data)) for p in ours]
    mine, peer = make(ours, lr=0.01, **options), peer_of(theirs, lr=0.01, **options)
    a, b = numbers(30, 7, seed=3), numbers(30, 5, seed=4)
    for i in range(200):
        mine.lr = peer.param_groups[0]["lr"] = RATES[rate](i)
        scale = 10.0 ** (-3 * (i % 50) / 50)  # so that roots pass by eps on the way
        for w, bias in ((ours[0].data, ours[1].data), (theirs[0].detach().numpy(), theirs[1].detach().numpy())):
            wide = w.astype(np.float64)
            error = scale * (a @ wide + bias - b) / 30
            gradients = (a.T @ error).astype(np.float32), error.sum(0).astype(np.float32)
            if w is ours[0].data:
                ours[0].grad, ours[1].grad = gradients
            else:
                theirs[0].grad, theirs[1].grad = map(tensor, gradients)
        mine.step()
        peer.step()
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.data, q.detach().numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [2.0, 1.0, math.inf])
def test_clipping_by_hand(kind: float) -> None:
    for limit in (0.5, 100.0):
        ours = [nn.Parameter(numbers(4, 3)), nn.Parameter(numbers(5))]
        theirs = [T.Parameter(tensor(p.data)) for p in ours]
        for i, (p, q) in enumerate(zip(ours, theirs, strict=True)):
            p.grad, q.grad = numbers(*p.shape, seed=i), tensor(numbers(*p.shape, seed=i))
        norm = T.utils.clip_grad_norm_(theirs, limit, norm_type=kind)
        assert nn.utils.clip_grad_norm_(ours, limit, norm_type=kind) == pytest.approx(norm.item(), rel=1e-6)
        T.utils.clip_grad_value_(theirs, 0.2)
        nn.utils.clip_grad_value_(ours, 0.2)
        for p, q in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(p.grad, q.grad.numpy(), rtol=1e-6)


def test_two_hundred_steps_of_a_network() -> None:
    theirs = T.Sequential(T.Linear(6, 12), T.Tanh(), T.Linear(12, 4))
    ours = nn.Sequential(nn.Linear(12), nn.Tanh(), nn.Linear(4)).build((6,), seed=0)
    ours.load_state_dict(theirs.state_dict())
    mine = nn.AdamW(ours.parameters(), lr=0.003, weight_decay=0.1, eps=1e-6)
    peer = torch.optim.AdamW(theirs.parameters(), lr=0.003, weight_decay=0.1, eps=1e-6)
    x, y = numbers(64, 6), np.random.RandomState(1).randint(0, 4, 64)
    for _ in range(200):
        _, gradient = nn.CrossEntropyLoss()(ours(x), y)
        ours.backward(gradient)
        mine.step()
        peer.zero_grad()
        F.cross_entropy(theirs(tensor(x)), tensor(y)).backward()
        peer.step()
    for name, array in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[name], array.numpy(), rtol=0, atol=1e-5, err_msg=name)


def test_groups() -> None:
    ours, theirs = [nn.Parameter(numbers(4, seed=i)) for i in range(2)], []
    theirs = [T.Parameter(tensor(p.data)) for p in ours]

    def groups(p: Any) -> Any:
        return [{"params": p[:1], "lr": 0.1, "weight_decay": 0.5}, {"params": p[1:], "momentum": 0.5}]

    mine = nn.SGD(groups(ours), lr=0.05, momentum=0.9)
    peer = torch.optim.SGD(groups(theirs), lr=0.05, momentum=0.9)
    for i in range(20):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = numbers(4, seed=50 + i)
            q.grad = tensor(p.grad)
        mine.step()
        peer.step()
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.data, q.detach().numpy(), rtol=1e-5, atol=1e-6)


# Frozen parameters.


def pair() -> tuple[nn.Sequential, Any]:
    ours = nn.Sequential(
        nn.Conv2d(4, 3, padding=1), nn.BatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(5, 3), nn.Tanh(), nn.Flatten(),
        nn.Linear(6), nn.LayerNorm(), nn.Linear(3),
    ).build((2, 12, 12), seed=0)  # fmt: skip
    torch.manual_seed(4)
    theirs = T.Sequential(
        T.Conv2d(2, 4, 3, padding=1), T.BatchNorm2d(4), T.ReLU(), T.MaxPool2d(2), T.Conv2d(4, 5, 3), T.Tanh(), T.Flatten(),
        T.Linear(80, 6), T.LayerNorm(6), T.Linear(6, 3),
    )  # fmt: skip
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


PLANS: dict[str, Callable[[int], list[int]]] = {
    "head only": lambda i: [9],
    "head, then more": lambda i: [9] if i < 5 else [7, 8, 9] if i < 12 else [4, 7, 8, 9],
    "taking turns": lambda i: [9, 0] if i % 2 else [1, 7],
    "norms only": lambda i: [1, 8],
}


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("plan", PLANS)
def test_fine_tuning(plan: str, clip: float | None, optimizer: str) -> None:
    ours, theirs = pair()
    start = {name: array.clone() for name, array in theirs.state_dict().items()}
    if optimizer == "sgd":
        mine: nn.Optimizer = nn.SGD(ours.parameters(), lr=0.05, momentum=0.9, weight_decay=0.1)
        peer: Any = torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=0.9, weight_decay=0.1)
    else:
        mine = nn.AdamW(ours.parameters(), lr=0.003, eps=1e-4)
        peer = torch.optim.AdamW(theirs.parameters(), lr=0.003, eps=1e-4)
    if clip is not None:
        from openbnns import GradientClipping

        mine.clip(GradientClipping.by_global_norm(clip))
    x, y = numbers(16, 2, 12, 12), np.random.RandomState(1).randint(0, 3, 16)
    trained: set[int] = set()
    for i in range(20):
        trained |= set(PLANS[plan](i))
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            one.requires_grad_(place in PLANS[plan](i))
            other.requires_grad_(place in PLANS[plan](i))
        value, gradient = nn.CrossEntropyLoss()(ours(x), y)
        ours.backward(gradient, input_gradient=False)
        mine.step()
        peer.zero_grad()
        loss = F.cross_entropy(theirs(tensor(x)), tensor(y))
        loss.backward()
        if clip is not None:
            T.utils.clip_grad_norm_([p for p in theirs.parameters() if p.grad is not None], clip)
        peer.step()
        assert value == pytest.approx(loss.item(), rel=1e-4, abs=1e-5)
    weights = ours.state_dict()
    for name, array in theirs.state_dict().items():
        if "num_batches" in name:
            continue
        if name.endswith("running_var"):  # ours is the biased variance
            assert not np.array_equal(weights[name], start[name].numpy())
            continue
        np.testing.assert_allclose(weights[name], array.numpy(), rtol=1e-4, atol=2e-5, err_msg=name)
        if int(name.split(".")[0]) not in trained and "running" not in name:
            np.testing.assert_array_equal(weights[name], start[name].numpy(), err_msg=name)


def test_fine_tuning_with_the_trainer() -> None:
    ours, theirs = pair()
    x, y = numbers(16, 2, 12, 12), np.random.RandomState(1).randint(0, 3, 16)
    nn.Trainer(ours, "cross_entropy", nn.Adam(ours[9].parameters(), lr=0.01), batch_size=16, quiet=True).fit(
        x, y, epochs=20
    )
    peer = torch.optim.Adam(theirs[9].parameters(), lr=0.01)
    for _ in range(20):
        peer.zero_grad()
        F.cross_entropy(theirs(tensor(x)), tensor(y)).backward()
        peer.step()
    for name, array in theirs.state_dict().items():
        if "num_batches" not in name and not name.endswith("running_var"):
            np.testing.assert_allclose(ours.state_dict()[name], array.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


# Shared parameters.


class Model(nn.Module):
    def __init__(self, order: str) -> None:
        super().__init__()
        self.emb, self.mix, self.out = nn.Embedding(13, 8), nn.LSTM(8, 8), nn.Linear(8, 13)
        if order == "out from emb":
            self.out.weight = self.emb.weight
        else:
            self.emb.weight = self.out.weight

    def forward(self, x: nn.Value) -> nn.Value:
        value: nn.Value = self.out(self.mix(self.emb(x)))
        return value


class TorchModel(T.Module):
    def __init__(self, order: str) -> None:
        super().__init__()
        self.emb, self.mix, self.out = T.Embedding(13, 8), T.LSTM(8, 8, batch_first=True), T.Linear(8, 13)
        if order == "out from emb":
            self.out.weight = self.emb.weight
        else:
            self.emb.weight = self.out.weight

    def forward(self, x: Any) -> Any:
        return self.out(self.mix(self.emb(x))[0])


@pytest.mark.parametrize("order", ["out from emb", "emb from out"])
def test_a_language_model_with_shared_weights(order: str) -> None:
    torch.manual_seed(2)
    ours, theirs = Model(order), TorchModel(order)
    mine = nn.Adam(ours.parameters(), lr=0.01)  # before sizes are known
    ours.build((9,), seed=0)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    ours.load_state_dict(theirs.state_dict())
    peer = torch.optim.Adam(theirs.parameters(), lr=0.01)
    x = np.random.RandomState(0).randint(0, 13, (6, 10))
    criterion = nn.CrossEntropyLoss(dim=-1)
    for _ in range(20):
        value, gradient = criterion(ours(x[:, :-1]), x[:, 1:])
        ours.backward(gradient)
        mine.step()
        peer.zero_grad()
        loss = F.cross_entropy(theirs(tensor(x[:, :-1])).flatten(0, 1), tensor(x[:, 1:]).flatten())
        loss.backward()
        peer.step()
        assert value == pytest.approx(loss.item(), rel=1e-4)
    for name, array in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[name], array.numpy(), rtol=1e-3, atol=2e-5, err_msg=name)


def test_shared_weights_in_files_of_both(tmp_path: Path) -> None:
    files = pytest.importorskip("safetensors.torch")
    ours, theirs = Model("out from emb").build((9,), seed=0), TorchModel("out from emb")
    ours.save(tmp_path / "ours.safetensors")
    assert files.load_model(theirs, tmp_path / "ours.safetensors") == (set(), [])
    for name, array in theirs.state_dict().items():
        np.testing.assert_array_equal(ours.state_dict()[name], array.numpy(), err_msg=name)
    other = TorchModel("out from emb")
    files.save_model(other, str(tmp_path / "theirs.safetensors"))
    assert ours.load(tmp_path / "theirs.safetensors") == []
    for name, array in other.state_dict().items():
        np.testing.assert_array_equal(ours.state_dict()[name], array.numpy(), err_msg=name)


# Lists of modules.


def test_names_in_lists_and_dictionaries() -> None:
    def make(lib: Any) -> Any:
        class Net(lib.Module):  # type: ignore[name-defined, misc]
            def __init__(self) -> None:
                super().__init__()
                self.layers = lib.ModuleList([lib.Linear(4, 4), lib.BatchNorm1d(4)])
                self.layers.extend([lib.ReLU(), lib.Linear(4, 4)])
                self.layers.insert(1, lib.Linear(4, 4))
                self.heads = lib.ModuleDict({"a": lib.Linear(4, 2), "b": lib.Linear(4, 2)})
                self.heads.pop("a")
                self.tail = lib.Sequential(lib.ReLU(), lib.Linear(2, 3), lib.Tanh(), lib.Linear(3, 2))[1:]
                del self.layers[0]
                self.layers[0] = lib.Linear(4, 4, bias=False)

            def forward(self, x: Any) -> Any:
                for layer in self.layers:
                    x = layer(x)
                return self.tail(self.heads["b"](x))

        return Net()

    ours, theirs = make(nn).build((4,), seed=0), make(T)
    names = [name for name in theirs.state_dict() if "num_batches" not in name]
    assert list(ours.state_dict()) == names
    assert [name for name, _ in ours.named_modules()] == [name for name, _ in theirs.named_modules()]
    ours.load_state_dict(theirs.state_dict())
    x = numbers(5, 4)
    np.testing.assert_allclose(ours(x), theirs(tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5)


# Losses.

SHAPES = [(5, 4), (3, 4, 4), (4, 4, 4, 4), (2, 5, 3, 4), (2, 3, 4, 5, 6)]


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("kind", ["numbers", "probabilities"])
@pytest.mark.parametrize("shape", SHAPES)
def test_cross_entropy(shape: tuple[int, ...], kind: str, smoothing: float) -> None:
    """Also with equal sizes on all axes, where only the rule distinguishes classes from positions."""
    y = numbers(*shape)
    targets: Array = np.random.RandomState(1).randint(0, shape[1], (shape[0], *shape[2:]))
    if kind == "probabilities":
        targets = F.softmax(tensor(numbers(*shape, seed=2)), 1).numpy()
    value, gradient = nn.CrossEntropyLoss(label_smoothing=smoothing)(y, targets)
    scores = tensor(y).requires_grad_()
    loss = F.cross_entropy(scores, tensor(targets), label_smoothing=smoothing)
    loss.backward()
    assert value == pytest.approx(loss.item(), rel=1e-5)
    np.testing.assert_allclose(gradient, scores.grad.numpy(), rtol=1e-4, atol=1e-7)
    if kind == "numbers":
        last, moved = nn.CrossEntropyLoss(label_smoothing=smoothing, dim=-1)(np.moveaxis(y, 1, -1), targets)
        assert last == pytest.approx(value, rel=1e-6)
        np.testing.assert_allclose(np.moveaxis(moved, -1, 1), gradient, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("shape", [(5,), *SHAPES])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss", "binary_cross_entropy_with_logits"])
def test_losses_of_elements(name: str, shape: tuple[int, ...]) -> None:
    ours: dict[str, nn.Loss] = {
        "mse_loss": nn.MSELoss(), "l1_loss": nn.L1Loss(), "huber_loss": nn.HuberLoss(delta=0.3),
        "binary_cross_entropy_with_logits": nn.BCEWithLogitsLoss(),
    }  # fmt: skip
    y, targets = numbers(*shape), np.random.RandomState(1).random_sample(shape).astype(np.float32)
    value, gradient = ours[name](y, targets)
    scores = tensor(y).requires_grad_()
    options = {"delta": 0.3} if name == "huber_loss" else {}
    loss = getattr(F, name)(scores, tensor(targets), **options)
    loss.backward()
    assert value == pytest.approx(loss.item(), rel=1e-5)
    np.testing.assert_allclose(gradient, scores.grad.numpy(), rtol=1e-4, atol=1e-7)


def test_training_on_scores_of_images() -> None:
    """Classes, height and width of the same size, through the trainer and its accuracy."""
    theirs = T.Sequential(T.Conv2d(1, 4, 3, padding=1), T.Tanh(), T.Conv2d(4, 4, 1))
    ours = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 4, 1)).build((1, 4, 4), seed=0)
    ours.load_state_dict(theirs.state_dict())
    x, y = numbers(8, 1, 4, 4), np.random.RandomState(1).randint(0, 4, (8, 4, 4))
    trainer = nn.Trainer(ours, "cross_entropy", nn.Adam(0.01), batch_size=8, quiet=True)
    history = trainer.fit(x, y, epochs=10)
    peer = torch.optim.Adam(theirs.parameters(), lr=0.01)
    for record in history:
        peer.zero_grad()
        scores = theirs(tensor(x))
        loss = F.cross_entropy(scores, tensor(y))
        loss.backward()
        peer.step()
        assert record["loss"] == pytest.approx(loss.item(), rel=1e-4)
        assert record["accuracy"] == pytest.approx((scores.argmax(1) == tensor(y)).float().mean().item(), abs=1e-6)


# Normalizations of single values.


NORMALIZED = [
    (kind, image)
    for kind in ("batch", "instance", "group", "groups", "layer")
    for image in (None, (1, 1), (1, 2))
    if image or kind != "instance"  # which has another class for these in PyTorch
]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("tracked", [True, False])
@pytest.mark.parametrize(("kind", "image"), NORMALIZED)
def test_single_values_are_refused_alike(
    kind: str, tracked: bool, image: tuple[int, int] | None, batch: int, training: bool
) -> None:
    shape = (4, *(image or ()))

    def make(lib: Any) -> Any:
        if kind in ("batch", "instance"):
            names = {"batch": "BatchNorm2d" if image else "BatchNorm1d", "instance": "InstanceNorm2d"}
            return getattr(lib, names[kind])(4, track_running_stats=tracked)
        if kind == "layer":
            return lib.LayerNorm(shape[-1])
        return lib.GroupNorm(4 if kind == "groups" else 2, 4)

    def accepts(run: Callable[[], Any]) -> bool:
        try:
            run()
        except ValueError as error:
            assert "value per" in str(error) or "spatial element" in str(error)
            return False
        return True

    ours, theirs = make(nn).train(training), make(T).train(training)
    x = numbers(batch, *shape)
    assert accepts(lambda: ours(x)) == accepts(lambda: theirs(tensor(x)))
