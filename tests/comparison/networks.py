"""Record bits, memory and times of networks, as JSON: ``python -m comparison.networks [--only SUBSTRING] [--seconds S]``.

The networks are random ones, every layer of ``nn``, a ResNet and an encoder. For each there are hashes of the outputs and of
all gradients, bytes of values, and seconds to record it, of a training step and of inference; for functions seconds to record.
Times are minima of many repetitions on one thread: only their ratios to those of another build on this machine mean anything.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import inspect
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import openbnns
from every_layer import LAYERS, flat, samples_for, shapes_of, train
from network_checks import Network
from openbnns import nn
from openbnns.nn.recording import separate_graph
from random_networks import draw

RANDOM = 64
CALLS = 8  # of a function in the network that it is timed in
SHORTEST = 5e-5  # seconds that a clock measures well
SEED = 3
TIMES = ("seconds to record", "seconds of a step", "seconds of inference")


class Calls(nn.Module):
    """Several calls of a function on images."""

    def __init__(self, function: Callable[..., Any], numbers: int) -> None:
        super().__init__()
        self.function, self.numbers = function, numbers

    def forward(self, *inputs: Any) -> Any:
        return [self.function(*inputs) for _ in range(CALLS)]


def hashed(array: Any) -> str:
    """The shape, element type and bits of an array."""
    if array is None:
        return "none"
    return f"{array.dtype}{list(array.shape)} {hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]}"


def large_networks() -> Iterator[tuple[str, nn.Module, tuple[int, ...]]]:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
    from vs_pytorch.resnet18 import ResNet18

    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, 0.0, "gelu", batch_first=True), 3)
    yield "network ResNet-18", ResNet18(4), (3, 16, 16)
    yield "network encoder", encoder, (10, 16)


def networks() -> Iterator[tuple[str, nn.Module, tuple[Any, ...]]]:
    """Names, networks and arrays for them."""
    for name, net, shape in large_networks():
        yield name, net, samples_for(net.build(shape, seed=SEED))
    for number, (net, shapes) in enumerate(LAYERS):
        yield f"layer {type(net).__name__} {number}", net, samples_for(net.build(*shapes_of(shapes), seed=SEED))
    for seed in range(RANDOM):
        plan = draw(seed)
        arrays = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in plan.input_arrays()]
        yield f"random {seed}", Network(plan), tuple(arrays)


def functions() -> Iterator[tuple[str, Calls]]:
    """Every function of one or two arguments that takes images of one shape."""
    for name in nn.functional.__all__:
        function = getattr(nn.functional, name)
        parameters = list(inspect.signature(function).parameters.values())
        required = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        if required in (["input"], ["input", "other"]):
            yield f"function {name}", Calls(function, len(required))


def bits(net: nn.Module, arrays: tuple[Any, ...]) -> dict[str, str]:
    """Hashes of all that inference and a training step compute."""
    hashes = {f"inference output {i}": hashed(y) for i, y in enumerate(flat(net.eval()(*arrays)))}
    outputs, gradients, input_gradients = train(net, arrays, SEED)
    hashes |= {f"training output {i}": hashed(y) for i, y in enumerate(outputs)}
    hashes |= {f"gradient of {name}": hashed(g) for name, g in gradients.items()}
    hashes |= {f"gradient of input {i}": hashed(g) for i, g in enumerate(input_gradients)}
    return hashes | {f"state {name}": hashed(array) for name, array in net.state_dict().items()}


def fastest(step: Callable[[], Any], seconds: float) -> float:
    """The least of many repetitions that take so long together; processor time of this thread, which others do not use up."""

    def timed(count: int) -> float:
        begin = time.thread_time()
        for _ in range(count):
            step()
        return (time.thread_time() - begin) / count

    end = time.thread_time() + seconds
    count = 1 + int(SHORTEST / max(min(timed(3), timed(3), timed(3)), 1e-7))
    times = [timed(count), timed(count)]
    while time.thread_time() < end:
        times.append(timed(count))
    return min(times)


def measure(net: nn.Module, arrays: tuple[Any, ...], seconds: float) -> dict[str, Any]:
    shapes = tuple(a.shape for a in arrays)
    measured: dict[str, Any] = {"bits": bits(net, arrays)}
    training = net.train().program(shapes, training=True, input_gradients=True)
    measured[TIMES[0]] = fastest(partial(separate_graph, net, shapes, training=True), seconds)
    measured[TIMES[1]] = fastest(lambda: (training.forward(), training.backward()), seconds)
    inference = net.eval().program(shapes, training=False)
    for i, array in enumerate(arrays):
        inference.fill(i, array)
    measured[TIMES[2]] = fastest(inference.forward, seconds)
    measured["bytes"] = {"training": training.arena_bytes, "inference": inference.arena_bytes}
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="what has this in its name")
    parser.add_argument("--seconds", type=float, default=0.01, help="for each measurement")
    options = parser.parse_args()
    openbnns.set_num_threads(1)
    gc.disable()
    records: dict[str, Any] = {}
    for name, net, arrays in networks():
        if options.only in name:
            records[name] = measure(net, arrays, options.seconds)
    shape = (2, 4, 8, 8)
    for name, calls in functions():
        if options.only in name:
            try:
                record = partial(separate_graph, calls, (shape,) * calls.numbers, training=True)
                records[name] = {TIMES[0]: fastest(record, options.seconds)}
            except (ValueError, TypeError):
                continue  # it takes other arguments, or numbers of another kind
    json.dump(records, sys.stdout)


if __name__ == "__main__":
    main()
