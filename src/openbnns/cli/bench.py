"""``openbnns bench``: how fast a model, or a few usual networks, run here; beside PyTorch if it is installed."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
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
        description="Time inference and training steps on random samples, beside PyTorch if it is installed (same layers, same "
        "batch, as many threads). make bench in the repository compares every operation.",
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
    bench.add_argument("--seconds", type=rate, default=1.0, help="how long to time each (default: 1)")
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
        print(f"{'network':24s} {'batch':>5s}  {'inference':>12s}  {'training':>12s}  against PyTorch")
    for name in options.what or CASES:
        found = _case(name, options)
        results.append(found)
        if not options.quiet and not options.json:
            peers = [f"{found[f'{kind}_against_torch']:.2f} x" for kind in ("inference", "training")
                     if f"{kind}_against_torch" in found]  # fmt: skip
            beside = " and ".join(peers) or found["without_torch"]
            print(
                f"{name:24s} {found['batch_size']:5d}  {1e3 * found['inference_seconds']:9.3f} ms  "
                f"{1e3 * found['training_seconds']:9.3f} ms  {beside}",
                flush=True,
            )
    if options.json:
        print_json({"threads": get_num_threads(), "cases": results})
    return OK


def _case(name: str, options: argparse.Namespace) -> dict[str, Any]:
    import numpy as np

    from .. import nn
    from ..nn.model_file import input_shapes

    if name in CASES:
        shape, usual = CASES[name]
        network: Any = nn.models.NAMED[name](10).build(shape, seed=0)
    else:
        network = nn.load_model(name)
        shape, usual = input_shapes(network)[0], 64
    batch = options.batch_size or usual
    random = np.random.RandomState(0)
    x = random.standard_normal((batch, *shape)).astype(np.float32)
    outputs = network.eval()(x).shape[1]
    y = random.randint(0, outputs, batch)
    found: dict[str, Any] = {"name": name, "batch_size": batch, "parameters": sum(p.size for p in network.parameters())}
    found["inference_seconds"] = _time(lambda: network.run(x), options.seconds)
    network.train()
    loss, optimizer = nn.CrossEntropyLoss(), nn.SGD(list(network.parameters()), lr=1e-4)

    def step() -> None:
        _, gradient = loss(network.run(x), y)
        network.backward(gradient, input_gradient=False)
        optimizer.step()

    found["training_seconds"] = _time(step, options.seconds)
    return found | _torch(network, x, y, found, options.seconds)


def _time(function: Callable[[], object], seconds: float) -> float:
    """The median time of a call, over about so many seconds."""
    function()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2]


def _torch(network: Any, x: Any, y: Any, ours: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The same network in PyTorch, if it can be made from the same layers."""
    try:
        torch = import_module("torch")
    except ImportError:
        return {"without_torch": "PyTorch is not installed"}
    from .. import get_num_threads

    modules = [_torch_module(layer, torch) for layer in network] if hasattr(network, "__iter__") else [None]
    if any(module is None for module in modules):
        return {"without_torch": "not compared: a layer is not in the list of this command"}
    torch.set_num_threads(get_num_threads())
    net = torch.nn.Sequential(*modules)
    net.load_state_dict(network.to_torch_state_dict(), strict=False)
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)

    def infer() -> None:
        with torch.no_grad():
            net(inputs)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), targets).backward()
        optimizer.step()

    net.eval()
    times = {"inference": _time(infer, seconds)}
    net.train()
    times["training"] = _time(step, seconds)
    found: dict[str, Any] = {"torch_version": torch.__version__}
    for kind, value in times.items():
        found |= {f"torch_{kind}_seconds": value, f"{kind}_against_torch": value / ours[f"{kind}_seconds"]}
    return found


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
