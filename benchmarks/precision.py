"""How much faster is training in bfloat16, and does it cost accuracy?

Steps of forward, loss, backward and Adam, with products in bfloat16: against PyTorch's under ``autocast``, channels last for
images, and against ours in float32, from the same weights. And over several seeds in both the accuracy on the digits, and the
loss of three networks of ``examples/vs_pytorch`` on samples that were not trained on.

python benchmarks/precision.py            all of them, on two threads
python benchmarks/precision.py accuracy   those with this in their names
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from harness import Figure, Settings, use_threads
from openbnns import _core, datasets, nn
from timing import QUIET, Step, alternate, sampler

CLASSES = 10
SEEDS = 5
NETWORKS = (
    "MLP 784-1024-1024-10 batch 256",
    "encoder d512 h8 ff2048 T128 batch 16",
    "VGG-like 48 to 96 batch 48",
    "ResNet-18 32x32 batch 32",
    "encoder d256 h4 ff512 T512 batch 4",
    "LSTM 256 T64 batch 64",
)
EXAMPLES = {
    "lenet": (300, {}),
    "vit_tiny": (120, {"image": 16, "width": 96, "depth": 3}),
    "unet": (80, {"image": 32, "width": 16}),
}
"""Networks of ``examples/vs_pytorch``: steps, and sizes other than those of the benchmarks there."""


def figures() -> dict[str, Callable[[Settings], Figure]]:
    if not _core.multiplies_bfloat16():
        return {}
    makers = zip(NETWORKS, (_mlp, _encoder, _vgg, _resnet, _long_encoder, _lstm), strict=True)
    made: dict[str, Callable[[Settings], Figure]] = {
        f"bfloat16/{name}": partial(_step, f"bfloat16/{name}", make) for name, make in makers
    }
    made["bfloat16/accuracy on the digits"] = _digits
    for name in EXAMPLES:
        made[f"bfloat16/accuracy of {name}"] = partial(_example, name)
    return made


def _step(name: str, make: Callable[[Any], tuple[Any, tuple[int, ...]]], settings: Settings) -> Figure:
    import torch

    torch.manual_seed(0)
    network, shape = make(torch)
    random = np.random.default_rng(0)
    x, y = random.standard_normal(shape, dtype=np.float32), random.integers(0, CLASSES, shape[0])
    use_threads(settings.threads)
    ours_rounded, half = _ours(network, x, y, "bfloat16")
    ours_float32, whole = _ours(network, x, y, "float32")
    steps = {
        "ours": ours_rounded,
        "float32": ours_float32,
        "PyTorch": _theirs(torch, network, x, y),
    }
    losses = {side: float(step()) for side, step in steps.items()}
    for side, loss in losses.items():
        if abs(loss - losses["float32"]) > 0.02 * abs(losses["float32"]):
            raise AssertionError(f"{name}: the first loss of {side} is {loss}, that in float32 {losses['float32']}")
    times, disturbed = alternate([sampler(step) for step in steps.values()], settings.seconds)
    ours, float32, theirs = map(statistics.median, times)
    ratio = statistics.median(b / a for a, b in zip(times[0], times[2], strict=True))
    note = f"ours {ours * 1e3:.1f} ms, PyTorch {theirs * 1e3:.1f} ms, "
    note += f"ours in float32 {float32 * 1e3:.1f} ms ({float32 / ours:.2f}), "
    note += f"values take {half / 1e6:.1f} MB, in float32 {whole / 1e6:.1f} MB ({half / whole:.2f})"
    target = 1.0 if settings.judged and disturbed <= QUIET else None
    if disturbed > QUIET:
        note += f", others took {disturbed:.0%} of the machine"
    return Figure(name, ratio, "x PyTorch", target, note=note, ours=ours, peers={"PyTorch": theirs})


def _ours(network: Any, x: Any, y: Any, precision: Any) -> tuple[Step, int]:
    """A step, and the bytes of memory for values and their gradients."""
    import torch

    copied = nn.from_torch(network, torch.from_numpy(x)).train()
    step = copied.compile_step("cross_entropy", nn.Adam(lr=1e-4), len(x), precision=precision)
    return lambda: step(x, y), copied.program(len(x), training=True).arena_bytes


def _theirs(torch: Any, network: Any, x: Any, y: Any) -> Step:
    samples, targets = torch.from_numpy(x), torch.from_numpy(y)
    if x.ndim == 4:
        network, samples = (part.to(memory_format=torch.channels_last) for part in (network, samples))
    optimizer = torch.optim.Adam(network.parameters(), 1e-4, fused=True)

    def step() -> float:
        with torch.autocast("cpu", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(network(samples), targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def _mlp(torch: Any) -> tuple[Any, tuple[int, ...]]:
    t = torch.nn
    layers = t.Linear(784, 1024), t.ReLU(), t.Linear(1024, 1024), t.ReLU(), t.Linear(1024, CLASSES)
    return t.Sequential(*layers), (256, 784)


def _encoder(torch: Any) -> tuple[Any, tuple[int, ...]]:
    return _encoder_of(torch, 512, 8, 2048), (16, 128, 512)


def _long_encoder(torch: Any) -> tuple[Any, tuple[int, ...]]:
    return _encoder_of(torch, 256, 4, 512), (4, 512, 256)


def _encoder_of(torch: Any, width: int, heads: int, hidden: int) -> Any:
    t = torch.nn

    class Encoder(t.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = t.TransformerEncoderLayer(width, heads, hidden, dropout=0.0, batch_first=True)
            self.out = t.Linear(width, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.out(self.layer(x).mean(1))

    return Encoder()


def _lstm(torch: Any) -> tuple[Any, tuple[int, ...]]:
    t = torch.nn

    class Sequence(t.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = t.LSTM(64, 256, batch_first=True)
            self.out = t.Linear(256, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.out(self.layer(x)[0].mean(1))

    return Sequence(), (64, 64, 64)


def _vgg(torch: Any) -> tuple[Any, tuple[int, ...]]:
    t = torch.nn
    channels = (3, 48, 64, 80, 96)
    layers = [
        layer for c, k in pairwise(channels) for layer in (t.Conv2d(c, k, 3, padding=1), t.ReLU(), t.MaxPool2d(2))
    ]
    return t.Sequential(*layers, t.Flatten(), t.Linear(4 * channels[-1], CLASSES)), (48, 3, 32, 32)


def _resnet(torch: Any) -> tuple[Any, tuple[int, ...]]:
    t = torch.nn

    class Block(t.Module):  # type: ignore[misc,name-defined]
        def __init__(self, c: int, k: int, stride: int) -> None:
            super().__init__()
            self.first = t.Sequential(t.Conv2d(c, k, 3, stride, 1, bias=False), t.BatchNorm2d(k), t.ReLU())
            self.second = t.Sequential(t.Conv2d(k, k, 3, 1, 1, bias=False), t.BatchNorm2d(k))
            self.shortcut = t.Sequential()
            if c != k:
                self.shortcut = t.Sequential(t.Conv2d(c, k, 1, stride, bias=False), t.BatchNorm2d(k))

        def forward(self, x: Any) -> Any:
            return torch.relu(self.second(self.first(x)) + self.shortcut(x))

    blocks = [Block(64, 64, 1), Block(64, 64, 1)]
    for k in (128, 256, 512):
        blocks += [Block(k // 2, k, 2), Block(k, k, 1)]
    stem = t.Conv2d(3, 64, 3, 1, 1, bias=False), t.BatchNorm2d(64), t.ReLU()
    return t.Sequential(*stem, *blocks, t.AdaptiveAvgPool2d(1), t.Flatten(), t.Linear(512, CLASSES)), (32, 3, 32, 32)


def _digits(settings: Settings) -> Figure:
    """The difference of the mean accuracies, in standard deviations over seeds."""
    use_threads(settings.threads)
    x, y, test_x, test_y = datasets.load_digits()
    accuracies: dict[str, list[float]] = {"float32": [], "bfloat16": []}
    for seed in range(SEEDS):
        for precision, values in accuracies.items():
            net = nn.Sequential(nn.Flatten(), nn.Linear(256), nn.ReLU(), nn.Linear(256), nn.ReLU(), nn.Linear(CLASSES))
            trainer = nn.Trainer(
                net, optimizer=nn.Adam(2e-3), batch_size=64, seed=seed, quiet=True, precision=precision
            )  # type: ignore[arg-type]
            trainer.fit(x, y, epochs=15)
            values.append(trainer.evaluate(test_x, test_y)["accuracy"])
    return _lost("bfloat16/accuracy on the digits", accuracies)


def _example(name: str, settings: Settings) -> Figure:
    """The same of losses, with the sign turned."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from examples.vs_pytorch.pair import find_pairs

    use_threads(settings.threads)
    pair, (steps, other_sizes) = find_pairs()[name], EXAMPLES[name]
    sizes = replace(pair.full, **other_sizes)
    tested = pair.batch(replace(sizes, batch=256), np.random.RandomState(0), held_out=True)
    losses: dict[str, list[float]] = {"float32": [], "bfloat16": []}
    for seed in range(SEEDS):
        for precision, values in losses.items():
            nn.manual_seed(seed)
            side = pair.ours(sizes)
            nn.Trainer(side.net, quiet=True, precision=precision)  # type: ignore[arg-type]
            random = np.random.RandomState(seed)
            for _ in range(steps):
                side.step(*pair.batch(sizes, random))
            x, y = tested
            values.append(-float(side.criterion(side.net.eval()(x), y)[0]))
    return _lost(f"bfloat16/accuracy of {name}", losses)


def _lost(name: str, values: dict[str, list[float]]) -> Figure:
    """How much smaller values are in bfloat16, in standard deviations over seeds."""
    means = {precision: statistics.mean(given) for precision, given in values.items()}
    spread = max(statistics.stdev(given) for given in values.values())
    note = f"{SEEDS} seeds: float32 {means['float32']:.4f}, bfloat16 {means['bfloat16']:.4f}, spread {spread:.4f}"
    lost = (means["float32"] - means["bfloat16"]) / spread
    return Figure(name, lost, "standard deviations lost", 1.0, at_most=True, note=note)


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    for name, measure in figures().items():
        if chosen in name:
            figure = measure(Settings())
            print(f"{name:45s} {figure.value:5.2f} {figure.unit}    {figure.note}", flush=True)
