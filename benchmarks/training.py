"""Whole training steps: forward, loss, backward, Adam; ours against PyTorch's best of eager, channels-last and compiled."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import memory
from harness import Figure, Settings
from openbnns import nn
from timing import Step, alternate, estimate, repeat, sampler

CLASSES = 10


def figures() -> dict[str, Callable[[Settings], Figure]]:
    """Measurements by name."""
    networks: dict[str, tuple[Any, ...]] = {
        "training/MLP 64-32-10 batch 32": (_mlp, (64,), 32, 4.0),
        "training/CNN 2x(conv5x5+BN+ReLU+pool)+FC 28x28 batch 32": (_cnn, (1, 28, 28), 32, 2.5),
        "training/VGG-like 32x32 batch 32": (_vgg, (3, 32, 32), 32, 1.2),
        "training/transformer encoder layer d256 h8 ff1024 T128 batch 16": (_transformer, (128, 256), 16, 1.1),
        "training/causal encoder layer d64 h4 ff256 T64 batch 16": (_causal, (64, 64), 16, 1.0),
        "training/GRU I64 H128 T50 batch 32": (_gru, (50, 64), 32, 1.0),
    }
    found: dict[str, Callable[[Settings], Figure]] = {
        name: partial(_step_figure, name, *arguments) for name, arguments in networks.items()
    }
    for name, count, size, target in (
        ("training/Adam, 10 tensors of 1 M", 10, 1_000_000, 1.0),
        ("training/Adam, 20 tensors of 1,000", 20, 1000, 5.0),
    ):
        found[name] = partial(_adam_figure, name, count, size, target)
    found["training/peak memory of the VGG-like step"] = _memory_figure
    return found


def _memory_figure(settings: Settings) -> Figure:
    """Resident memory that three steps add at their peak, each side in an interpreter of its own."""
    sides = {}
    for side in ("ours", "torch"):
        command = [sys.executable, __file__, side, str(settings.threads)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        sides[side] = float(run.stdout.split()[-1]) / 1e6
    note = f"ours {sides['ours']:.0f} MB, PyTorch eager {sides['torch']:.0f} MB"
    name = "training/peak memory of the VGG-like step"
    return Figure(name, sides["ours"] / sides["torch"], "x", 0.7, at_most=True, note=note)


def _peak_of_steps(side: str, threads: int) -> int:
    """Bytes, beyond what was resident once both libraries and the network were there."""
    import torch

    import openbnns

    torch.set_num_threads(threads)
    openbnns.set_num_threads(threads)
    random = np.random.RandomState(0)
    x = random.standard_normal((32, 3, 32, 32)).astype(np.float32)
    y = random.randint(0, CLASSES, 32)
    ours, theirs = _vgg(torch)
    ours.build(x.shape[1:])
    before = memory._reset_peak()
    step = _our_step(ours, x, y) if side == "ours" else _torch_step(torch, theirs, x, y)
    for _ in range(3):
        step()
    return memory._peak() - before


def _mlp(torch: Any) -> tuple[Any, Any]:
    t = torch.nn
    ours = nn.Sequential(nn.Linear(32), nn.ReLU(), nn.Linear(CLASSES))
    return ours, t.Sequential(t.Linear(64, 32), t.ReLU(), t.Linear(32, CLASSES))


def _cnn(torch: Any) -> tuple[Any, Any]:
    t = torch.nn
    ours = nn.Sequential(
        nn.Conv2d(16, 5, padding=2), nn.BatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 5, padding=2), nn.BatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(CLASSES),
    )  # fmt: skip
    theirs = t.Sequential(
        t.Conv2d(1, 16, 5, padding=2), t.BatchNorm2d(16), t.ReLU(), t.MaxPool2d(2),
        t.Conv2d(16, 32, 5, padding=2), t.BatchNorm2d(32), t.ReLU(), t.MaxPool2d(2), t.Flatten(), t.Linear(1568, CLASSES),
    )  # fmt: skip
    return ours, theirs


def _vgg(torch: Any) -> tuple[Any, Any]:
    t = torch.nn
    ours = nn.Sequential(
        nn.Conv2d(64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(CLASSES),
    )  # fmt: skip
    theirs = t.Sequential(
        t.Conv2d(3, 64, 3, padding=1), t.ReLU(), t.Conv2d(64, 64, 3, padding=1), t.ReLU(), t.MaxPool2d(2),
        t.Conv2d(64, 128, 3, padding=1), t.ReLU(), t.Conv2d(128, 128, 3, padding=1), t.ReLU(), t.MaxPool2d(2),
        t.Flatten(), t.Linear(8192, CLASSES),
    )  # fmt: skip
    return ours, theirs


def _transformer(torch: Any) -> tuple[Any, Any]:
    t = torch.nn
    ours = nn.Sequential(
        nn.TransformerEncoderLayer(256, 8, dim_feedforward=1024, dropout=0.0), nn.Linear(CLASSES), nn.Flatten(0, 1)
    )
    theirs = t.Sequential(
        t.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True), t.Linear(256, CLASSES), t.Flatten(0, 1)
    )
    return ours, theirs


def _causal(torch: Any) -> tuple[Any, Any]:
    t = torch.nn

    class Layer(t.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.out = t.TransformerEncoderLayer(64, 4, 256, 0.0, batch_first=True), t.Linear(64, CLASSES)
            self.mask = t.Transformer.generate_square_subsequent_mask(64)

        def forward(self, x: Any) -> Any:
            return self.out(self.layer(x, self.mask, is_causal=True)).flatten(0, 1)

    class Ours(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.out = nn.TransformerEncoderLayer(64, 4, 256, 0.0), nn.Linear(64, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.out(self.layer(x, is_causal=True)).flatten(0, 1)

    return Ours(), Layer()


def _gru(torch: Any) -> tuple[Any, Any]:
    t = torch.nn

    class Tagger(t.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.gru, self.out = t.GRU(64, 128, batch_first=True), t.Linear(128, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.out(self.gru(x)[0]).flatten(0, 1)

    class Ours(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru, self.out = nn.GRU(64, 128), nn.Linear(128, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.out(self.gru(x)[0]).flatten(0, 1)

    return Ours(), Tagger()


def _our_step(network: Any, x: Any, y: Any) -> Step:
    network.build(x.shape[1:])
    step = network.compile_step("cross_entropy", nn.Adam(network.parameters(), lr=1e-3), len(x))
    return lambda: step(x, y)


def _torch_step(
    torch: Any, network: Any, x: Any, y: Any, *, channels_last: bool = False, compiled: bool = False
) -> Step:
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    if channels_last:
        network, x = network.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(network.parameters(), 1e-3, fused=True)
    run = torch.compile(network) if compiled else network
    criterion = torch.nn.functional.cross_entropy

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        scores = run(x)
        loss = criterion(scores, y)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def _variants(torch: Any, make: Any, weights: dict[str, Any], x: Any, y: Any) -> dict[str, Step]:
    """PyTorch's step in every form that works here, all from the same weights."""
    forms: dict[str, dict[str, bool]] = {"eager": {}, "compiled": {"compiled": True}}
    if x.ndim == 4:
        forms["channels last"] = {"channels_last": True}
        forms["compiled, channels last"] = {"channels_last": True, "compiled": True}
    steps = {}
    for name, options in forms.items():
        network = make(torch)[1]
        network.load_state_dict(weights)
        step = _torch_step(torch, network, x, y, **options)
        try:
            step()
        except Exception as error:  # a compiler that is not there
            print(f"  PyTorch {name}: not available ({type(error).__name__})")
            continue
        steps[name] = step
    return steps


def _step_figure(name: str, make: Any, shape: tuple[int, ...], batch: int, target: float, settings: Settings) -> Figure:
    import torch

    torch.manual_seed(0)
    random = np.random.RandomState(0)
    ours, theirs = make(torch)
    x = random.standard_normal((batch, *shape)).astype(np.float32)
    y = random.randint(0, CLASSES, batch * shape[0] if len(shape) == 2 else batch)
    ours.build(shape)
    weights = theirs.state_dict()
    ours.load_state_dict(weights)
    ours_step = _our_step(ours, x, y)
    check = _torch_step(torch, theirs, x, y)
    first = (ours_step(), check())
    if abs(first[0] - first[1]) > 1e-3 * abs(first[1]):
        raise RuntimeError(f"{name}: the first loss is {first[0]}, PyTorch's {first[1]}")
    steps = _variants(torch, make, weights, x, y)
    best = {form: min(repeat(step, estimate(step)) for _ in range(3)) for form, step in steps.items()}
    form = min(best, key=lambda key: best[key])
    (mine, peer), _ = alternate([sampler(ours_step), sampler(steps[form])], max(settings.seconds, 1.0))
    ratio = statistics.median(p / m for m, p in zip(mine, peer, strict=True))
    note = f"ours {statistics.median(mine) * 1e3:.3f} ms, PyTorch {form} {statistics.median(peer) * 1e3:.3f} ms"
    return Figure(name, ratio, "x", target, note=note)


def _adam_figure(name: str, count: int, size: int, target: float, settings: Settings) -> Figure:
    import torch

    random = np.random.RandomState(0)
    parameters = [nn.Parameter(random.standard_normal(size)) for _ in range(count)]
    peers = [torch.from_numpy(p.data.copy()).requires_grad_() for p in parameters]
    for parameter, peer in zip(parameters, peers, strict=True):
        parameter.grad[...] = random.standard_normal(size)
        peer.grad = torch.from_numpy(parameter.grad.copy())
    mine = nn.Adam(1e-3)
    mine.attach(parameters)
    theirs = torch.optim.Adam(peers, 1e-3, fused=True)
    (ours, torches), _ = alternate([sampler(mine.step), sampler(theirs.step)], settings.seconds)
    ratio = statistics.median(t / o for o, t in zip(ours, torches, strict=True))
    note = f"ours {statistics.median(ours) * 1e6:.0f} us, PyTorch fused {statistics.median(torches) * 1e6:.0f} us"
    return Figure(name, ratio, "x", target, note=note)


if __name__ == "__main__":
    print(_peak_of_steps(sys.argv[1], int(sys.argv[2])))
