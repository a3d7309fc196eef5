"""How long does a network take that meets a size for the first time?

A ResNet-18 is recorded, as after a change to one of its layers, and bound to batch sizes that it has not had: memory is
planned and layers are made. Processor time of one thread, the median over several sizes.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time

from harness import Figure, Settings
from openbnns.nn.recording import input_shapes, recording_of

RECORD, BIND = 150.0, 20.0  # milliseconds at most
_SIZES = range(2, 11)


def figures() -> dict[str, Callable[[Settings], Figure]]:
    """Measurements by name."""
    titles = {"record": RECORD, "bind for training": BIND, "bind for inference": BIND}
    return {f"recording/ResNet-18 {title}": partial(_figure, title=title, limit=n) for title, n in titles.items()}


def _figure(settings: Settings, *, title: str, limit: float) -> Figure:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
    from vs_pytorch.resnet18 import ResNet18

    net = ResNet18(64).build((3, 32, 32))
    net.train(title != "bind for inference")
    times = []
    for samples in _SIZES:
        if title == "record":
            net.linear = net.linear  # counts as a change
        begin = process_time()
        if title == "record":
            recording_of(net, True, input_shapes(net, samples))
        else:
            net.program(samples, training=net.training)
        times.append(1e3 * (process_time() - begin))
    return Figure(f"recording/ResNet-18 {title}", statistics.median(times), "ms", limit, at_most=True)
