"""``openbnns bench``: how fast a model, or a few usual networks, run here; beside PyTorch if it is installed."""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from .arguments import OK, Commands, add_output, count, print_json, rate

CASES: dict[str, tuple[tuple[int, ...], int]] = {
    "mlp": ((784,), 64),
    "cnn": ((3, 32, 32), 64),
    "transformer": ((32, 64), 32),
}
"""The built-in networks, with the shape of a sample and the size of a batch."""


def add(commands: Commands) -> None:
    bench = commands.add_parser(
        "bench", help="how fast a model, or a few usual networks, run here",
        description="Time inference and training steps on random samples, beside PyTorch if it is installed (same layers and "
        "weights, same batch, as many threads, in turns). Times are those of the fastest call. make bench in the repository "
        "compares every operation.",
        examples=(
            "openbnns bench                                  # mlp, cnn and transformer",
            "openbnns bench cnn --batch-size 1",
            "openbnns bench out/model.safetensors --json",
        ),
    )  # fmt: skip
    bench.add_argument(
        "what", nargs="*", metavar="WHAT", help=f"a model file, or of {', '.join(CASES)} (default: all of these)"
    )
    bench.add_argument("--batch-size", type=count, default=None, help="samples at a time (default: 64, or 32)")
    bench.add_argument("--seconds", type=rate, default=1.0, help="how long to time each of them (default: 1)")
    bench.add_argument("--threads", type=count, default=None, help="worker threads (default: one per core)")
    add_output(bench)
    bench.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from .. import get_num_threads, set_num_threads
    from ..nn.choose import nearest

    if options.threads is not None:
        set_num_threads(options.threads)
    for name in options.what:
        if name not in CASES and not Path(name).exists():
            raise ValueError(f"there is no case and no file {name!r}.{nearest(name, CASES)} Cases: {', '.join(CASES)}.")
    results = []
    if not options.quiet and not options.json:
        width = max(len(name) for name in (*(options.what or CASES), "network"))
        print(f"{'network':{width}s} {'batch':>5s}  {'inference':>12s}  {'training':>12s}  times as fast as PyTorch")
    for name in options.what or CASES:
        found = _case(name, options)
        results.append(found)
        if not options.quiet and not options.json:
            peers = [f"{found[f'{kind}_against_torch']:.2f}" for kind in ("inference", "training")
                     if f"{kind}_against_torch" in found]  # fmt: skip
            beside = " and ".join(peers) or found["without_torch"]
            print(
                f"{name:{width}s} {found['batch_size']:5d}  {1e3 * found['inference_seconds']:9.3f} ms  "
                f"{1e3 * found['training_seconds']:9.3f} ms  {beside}",
                flush=True,
            )
    busy = _busy()
    if options.json:
        print_json({"threads": get_num_threads(), "notes": [busy] if busy else [], "cases": results})
    elif busy and not options.quiet:
        print(f"Note: {busy}")
    return OK


def _busy() -> str:
    """A remark if other programs take the processor, which upsets times, those of PyTorch's threads most of all."""
    try:
        load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not on every system
        return ""
    return (
        f"the machine is busy (load {load:.1f} on {cores} cores), so that times say little." if load > cores + 1 else ""
    )


def _case(name: str, options: argparse.Namespace) -> dict[str, Any]:
    import numpy as np

    from .. import nn
    from ..nn.model_file import input_shapes

    if name in CASES:
        shape, usual = CASES[name]
        network: Any = nn.models.NAMED[name](10).build(shape, seed=0)
        task = "classification"
    else:
        network = nn.load_model(name)
        shape, usual, task = input_shapes(network)[0], 64, network.model_card.task or "regression"
    batch = options.batch_size or usual
    random = np.random.RandomState(0)
    x = random.standard_normal((batch, *shape)).astype(np.float32)
    outputs = network.eval()(x)
    y = random.randint(0, outputs.shape[1], batch) if task == "classification" else _some_like(outputs, task, random)
    rivals: dict[str, _Ours | _Torch] = {"ours": _Ours(network, x, y, task)}
    found: dict[str, Any] = {"name": name, "batch_size": batch, "parameters": sum(p.size for p in network.parameters())}
    other = _Torch.of(network, x, y, task, outputs)
    if isinstance(other, str):
        found["without_torch"] = other
    else:
        rivals["torch"] = other
        found["torch_version"] = other.version
    for kind in ("inference", "training"):
        times = _times([getattr(rival, kind)() for rival in rivals.values()], options.seconds)
        found[f"{kind}_seconds"] = times[0]
        if len(times) > 1:
            found |= {f"torch_{kind}_seconds": times[1], f"{kind}_against_torch": times[1] / times[0]}
    return found


def _some_like(outputs: Any, task: str, random: Any) -> Any:
    """Targets for outputs: labels of 0 and 1, or numbers."""
    import numpy as np

    drawn = random.standard_normal(outputs.shape).astype(np.float32)
    return (drawn > 0).astype(np.float32) if task == "multilabel" else drawn


def _times(functions: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """The fastest call of each, over about so many seconds each; they take turns, so that all see the same machine."""
    best = [math.inf] * len(functions)
    for function in functions:
        function()
    end, rounds = time.perf_counter() + seconds * len(functions), 0
    while time.perf_counter() < end or rounds < 3:
        rounds += 1
        for i, function in enumerate(functions):
            for _ in range(5):
                began = time.perf_counter()
                function()
                best[i] = min(best[i], time.perf_counter() - began)
    return best


class _Ours:
    """A network of this library, as a trainer and ``predict`` run it."""

    def __init__(self, network: Any, x: Any, y: Any, task: str) -> None:
        self._network, self._x, self._y, self._task = network, x, y, task

    def inference(self) -> Callable[[], object]:
        self._network.eval()
        return lambda: self._network.run(self._x)

    def training(self) -> Callable[[], object]:
        from .. import nn

        self._network.train()
        loss = {"classification": nn.CrossEntropyLoss, "multilabel": nn.BCEWithLogitsLoss}.get(self._task, nn.MSELoss)()
        step = self._network.compile_step(loss, nn.SGD(list(self._network.parameters()), lr=1e-4), len(self._x))
        return lambda: step(self._x, self._y)


class _Torch:
    """The same network in PyTorch."""

    def __init__(self, torch: Any, network: Any, x: Any, y: Any, task: str) -> None:
        self._torch, self._network, self._task = torch, network, task
        self._x, self._y = torch.from_numpy(x), torch.from_numpy(y)
        self.version = str(torch.__version__)

    @classmethod
    def of(cls, network: Any, x: Any, y: Any, task: str, outputs: Any) -> _Torch | str:
        """It, or why there is none."""
        try:
            torch = import_module("torch")
        except ImportError:
            return "PyTorch is not installed"
        import numpy as np

        from .. import get_num_threads

        modules = [_torch_module(layer, torch) for layer in network] if hasattr(network, "__iter__") else [None]
        if any(module is None for module in modules):
            return "not compared: a layer is not in the list of this command"
        torch.set_num_threads(get_num_threads())
        net = torch.nn.Sequential(*modules)
        net.load_state_dict(network.to_torch_state_dict())
        net.eval()
        with torch.no_grad():
            theirs = net(torch.from_numpy(x)).numpy()
        error = float(np.abs(theirs - outputs).max() / max(1e-6, np.abs(outputs).max()))
        if error > 1e-3:
            return f"not compared: its outputs differ by {error:.1e}"
        return cls(torch, net, x, y, task)

    def inference(self) -> Callable[[], object]:
        self._network.eval()

        def infer() -> None:
            with self._torch.no_grad():
                self._network(self._x)

        return infer

    def training(self) -> Callable[[], object]:
        self._network.train()
        functions = self._torch.nn.functional
        losses = {"classification": functions.cross_entropy, "multilabel": functions.binary_cross_entropy_with_logits}
        loss = losses.get(self._task, functions.mse_loss)
        optimizer = self._torch.optim.SGD(self._network.parameters(), lr=1e-4)

        def step() -> None:
            optimizer.zero_grad()
            loss(self._network(self._x), self._y).backward()
            optimizer.step()

        return step


def _torch_module(layer: Any, torch: Any) -> Any:
    """The module of PyTorch that does the same, None if this command does not know it."""
    from .. import nn

    t = torch.nn
    if isinstance(layer, nn.Linear):
        return t.Linear(layer.in_features, layer.out_features, layer.use_bias)
    if isinstance(layer, nn.Conv2d) and layer.padding_mode == "zeros":
        return t.Conv2d(layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding,
                        layer.dilation, layer.groups, layer.use_bias)  # fmt: skip
    if type(layer) is nn.BatchNorm2d:
        return t.BatchNorm2d(dict(layer.named_buffers())["running_mean"].shape[0])
    if type(layer) is nn.MaxPool2d:
        return t.MaxPool2d(layer.kernel_size, layer.stride, layer.padding)
    plain = {
        "Flatten": t.Flatten,
        "ReLU": t.ReLU,
        "Tanh": t.Tanh,
        "GELU": t.GELU,
        "Sigmoid": t.Sigmoid,
        "Identity": t.Identity,
    }
    if type(layer) is nn.Dropout:
        return t.Dropout(layer.p)
    if type(layer).__name__ == "Rows":
        return t.Identity()
    if type(layer) is nn.TransformerEncoderLayer:
        return t.TransformerEncoderLayer(
            layer.linear1.in_features, layer.self_attn.num_heads, layer.linear1.out_features, 0.1, batch_first=True
        )
    made = plain.get(type(layer).__name__)
    return None if made is None else made()
