"""Whole training steps: forward, loss, backward, Adam.

Ours against PyTorch's best of eager, channels-last and compiled, and against JAX (one jitted step whose state is donated), if it
is installed and knows the layers (jax_counterparts).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

import jax_counterparts
import memory
from harness import Ceilings, Figure, Settings, use_threads
from openbnns import nn
from timing import Step, alternate, estimate, repeat, sampler

CLASSES = 10
STEPS_OF_EPOCH = 50


def figures() -> dict[str, Callable[[Settings], Figure]]:
    """Measurements by name."""
    networks: dict[str, tuple[Any, ...]] = {
        "training/MLP 64-32-10 batch 32": (_mlp, (64,), 32, 4.0),
        "training/MLP 784-256-128-10 batch 64": (_large_mlp, (784,), 64, None),
        "training/ten layers of 32 units batch 32": (_ten_layers, (64,), 32, None),
        "training/CNN 2x(conv5x5+BN+ReLU+pool)+FC 28x28 batch 32": (_cnn, (1, 28, 28), 32, 2.5),
        "training/VGG-like 32x32 batch 32": (_vgg, (3, 32, 32), 32, 1.2),
        "training/transformer encoder layer d256 h8 ff1024 T128 batch 16": (_transformer, (128, 256), 16, 1.1),
        "training/encoder layer d128 h4 ff512 T64 batch 24": (_encoder, (64, 128), 24, None),
        "training/causal encoder layer d64 h4 ff256 T64 batch 16": (_causal, (64, 64), 16, 1.0),
        "training/GRU I64 H128 T50 batch 32": (_gru, (50, 64), 32, 1.0),
    }
    made: dict[str, Callable[[Settings], Figure]] = {
        name: partial(_step_figure, name, *arguments) for name, arguments in networks.items()
    }
    small = "training/MLP 64-32-10 batch 32"
    made["training/time of a step, MLP 64-32-10 batch 32"] = partial(_time_figure, *networks[small][:3])
    small = "training/ten layers of 32 units batch 32"
    made["training/ten layers of 32 units batch 32, against JAX"] = partial(_jax_figure, small, *networks[small])
    for name, count, size, target in (
        ("training/Adam, 10 tensors of 1 M", 10, 1_000_000, 1.0),
        ("training/Adam, 20 tensors of 1,000", 20, 1000, 5.0),
    ):
        made[name] = partial(_adam_figure, name, count, size, target)
    made["training/peak memory of the VGG-like step"] = _memory_figure
    return made


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

    use_threads(threads)
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


def _large_mlp(torch: Any) -> tuple[Any, Any]:
    def make(k: Any) -> Any:
        return k.Sequential(k.Linear(784, 256), k.ReLU(), k.Linear(256, 128), k.ReLU(), k.Linear(128, CLASSES))

    return make(nn), make(torch.nn)


def _ten_layers(torch: Any) -> tuple[Any, Any]:
    """Ten fully connected layers, so small that what is around them counts most."""

    def make(k: Any) -> Any:
        hidden = [layer for i in range(9) for layer in (k.Linear(64 if i == 0 else 32, 32), k.ReLU())]
        return k.Sequential(*hidden, k.Linear(32, CLASSES))

    return make(nn), make(torch.nn)


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
    return _encoder_pair(torch, 256, 8, 1024)


def _encoder(torch: Any) -> tuple[Any, Any]:
    return _encoder_pair(torch, 128, 4, 512)


def _encoder_pair(torch: Any, width: int, heads: int, inner: int) -> tuple[Any, Any]:
    t = torch.nn
    ours = nn.Sequential(
        nn.TransformerEncoderLayer(width, heads, inner, dropout=0.0), nn.Linear(CLASSES), nn.Flatten(0, 1)
    )
    theirs = t.Sequential(
        t.TransformerEncoderLayer(width, heads, inner, dropout=0.0, batch_first=True), t.Linear(width, CLASSES),
        t.Flatten(0, 1),
    )  # fmt: skip
    return ours, theirs


def _causal(torch: Any) -> tuple[Any, Any]:
    t = torch.nn

    class Layer(t.Sequential):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__(t.TransformerEncoderLayer(64, 4, 256, 0.0, batch_first=True), t.Linear(64, CLASSES))
            self.mask = t.Transformer.generate_square_subsequent_mask(64)

        def forward(self, x: Any) -> Any:
            return self[1](self[0](x, self.mask, is_causal=True)).flatten(0, 1)

    layer = nn.TransformerEncoderLayer(64, 4, 256, 0.0, causal=True)
    return nn.Sequential(layer, nn.Linear(64, CLASSES), nn.Flatten(0, 1)), Layer()


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


def _samples(shape: tuple[int, ...], batch: int) -> tuple[Any, Any]:
    random = np.random.RandomState(0)
    x = random.standard_normal((batch, *shape)).astype(np.float32)
    return x, random.randint(0, CLASSES, batch * shape[0] if len(shape) == 2 else batch)


def _jax_step(network: Any, x: Any, y: Any, settings: Settings) -> Step | None:
    """JAX's step from the weights of a network, None without JAX or if it does not know a layer."""
    counterpart = jax_counterparts.convert(network, x, settings.threads)
    if isinstance(counterpart, str):
        print(f"  JAX: {counterpart}")
        return None
    return counterpart.training(y, "classification", "adam", 1e-3)


def _checked(name: str, steps: dict[str, Step]) -> None:
    """Take the first step of every side from the same weights: the losses must be the same."""
    losses = {side: float(step()) for side, step in steps.items()}
    for side, value in losses.items():
        if abs(losses["ours"] - value) > 1e-3 * abs(value):
            raise RuntimeError(f"{name}: the first loss is {losses['ours']}, that of {side} {value}")


def _arithmetic(network: Any, x: Any) -> int:
    """Floating-point operations of a step."""
    return sum(row.forward_flop + row.backward_flop for row in network.train().profile(x, repeats=1).rows)


def _step_figure(
    name: str, make: Any, shape: tuple[int, ...], batch: int, target: float | None, settings: Settings
) -> Figure:
    import torch

    torch.manual_seed(0)
    ours, theirs = make(torch)
    x, y = _samples(shape, batch)
    ours.build(shape)
    weights = theirs.state_dict()
    ours.load_state_dict(weights)
    jax_step = _jax_step(ours, x, y, settings)
    sides: dict[str, Step] = {} if jax_step is None else {"JAX": jax_step}
    flops = _arithmetic(ours, x)
    ours_step = _our_step(ours, x, y)
    _checked(name, {"ours": ours_step, "PyTorch": _torch_step(torch, theirs, x, y), **sides})
    steps = _variants(torch, make, weights, x, y)
    best = {form: min(repeat(step, estimate(step)) for _ in range(3)) for form, step in steps.items()}
    form = min(best, key=lambda key: best[key])
    sides = {f"PyTorch {form}": steps[form], **sides}
    samplers = [sampler(step) for step in (ours_step, *sides.values())]
    measured, _ = alternate([*samplers, Ceilings(settings.threads).gflops], max(settings.seconds, 1.0))
    mine, peer, peak = measured[0], measured[1], max(measured[-1])
    median = statistics.median(mine)
    peers = {side: statistics.median(values) for side, values in zip(sides, measured[1:], strict=False)}
    ratio = statistics.median(p / m for m, p in zip(mine, peer, strict=True))
    note = ", ".join(f"{side} {seconds * 1e3:.3f} ms" for side, seconds in {"ours": median, **peers}.items())
    share = flops / median / 1e9 / peak
    return Figure(name, ratio, "x", target, note=f"{note}, {share:.0%} of peak", ours=median, peers=peers, share=share)


def _time_figure(make: Any, shape: tuple[int, ...], batch: int, settings: Settings) -> Figure:
    """A step by itself: data in NumPy arrays, one call each, or many of an epoch in one call."""
    ours, _ = make(SimpleNamespace(nn=nn))
    x, y = _samples(shape, batch)
    many = [np.concatenate([a] * STEPS_OF_EPOCH) for a in (x, y)]
    ours.build(shape, seed=0)
    step = ours.compile_step("cross_entropy", nn.Adam(ours.parameters(), lr=1e-3), batch)
    (calls, epochs), _ = alternate(
        [sampler(lambda: step(x, y)), sampler(lambda: step.epoch(*many))], max(settings.seconds, 1.0)
    )
    note = f"fastest {min(calls) * 1e6:.1f} us; in an epoch {statistics.median(epochs) / STEPS_OF_EPOCH * 1e6:.1f} us"
    seconds = statistics.median(calls)
    name = "training/time of a step, MLP 64-32-10 batch 32"
    return Figure(name, seconds * 1e6, "us", 25.0, at_most=True, note=note, ours=seconds)


def _jax_figure(
    small: str, make: Any, shape: tuple[int, ...], batch: int, target: float | None, settings: Settings
) -> Figure:
    """Without PyTorch in the process, whose threads would only be in the way."""
    ours, _ = make(SimpleNamespace(nn=nn))
    x, y = _samples(shape, batch)
    ours.build(shape, seed=0)
    theirs = _jax_step(ours, x, y, settings)
    name = f"{small}, against JAX"
    if theirs is None:
        return Figure(name, float("nan"), "x", None, note="JAX is not installed")
    mine = _our_step(ours, x, y)
    _checked(name, {"ours": mine, "JAX": theirs})
    (own, others), _ = alternate([sampler(mine), sampler(theirs)], max(settings.seconds, 1.0))
    seconds, peer = statistics.median(own), statistics.median(others)
    ratio = statistics.median(p / m for m, p in zip(own, others, strict=True))
    note = f"ours {seconds * 1e6:.1f} us, JAX {peer * 1e6:.1f} us"
    return Figure(name, ratio, "x", 3.0, note=note, ours=seconds, peers={"JAX": peer})


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
