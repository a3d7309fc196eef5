"""Inference of whole networks: ours, compiled and by a plain call, against onnxruntime and PyTorch.

    python benchmarks/inference.py [--batches 1,64] [--only NAME] [--threads 2] [--seconds 1.5]

needs torch, onnx and onnxruntime. Weights are PyTorch's, exported to ONNX; results are compared before they are timed. All
sides take turns in one process, and the minimum of each counts.

OPENBNNS_ISA=avx2 limits our side only: onnxruntime takes the best instructions of the CPU and has no switch for that, so that
on a CPU with AVX-512 the ratio is that of AVX2 to AVX-512.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import openbnns
from harness import Figure, Settings, use_threads
from openbnns import nn
from timing import SETTLE, Step, alternate, estimate

CLASSES = 10
TOLERANCE = 1e-4  # largest difference, as a fraction of the largest value


def mlp(torch: Any) -> tuple[Any, Any]:
    t = torch.nn
    theirs = t.Sequential(t.Linear(784, 256), t.ReLU(), t.Linear(256, 128), t.ReLU(), t.Linear(128, CLASSES))
    ours = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, CLASSES))
    return ours, theirs


def lenet(torch: Any) -> tuple[Any, Any]:
    def make(k: Any) -> Any:
        return k.Sequential(
            k.Conv2d(1, 6, 5, padding=2), k.ReLU(), k.MaxPool2d(2), k.Conv2d(6, 16, 5), k.ReLU(), k.MaxPool2d(2),
            k.Flatten(), k.Linear(400, 120), k.ReLU(), k.Linear(120, 84), k.ReLU(), k.Linear(84, CLASSES),
        )  # fmt: skip

    return make(nn), make(torch.nn)


def vgg(torch: Any) -> tuple[Any, Any]:
    def make(k: Any) -> Any:
        return k.Sequential(
            k.Conv2d(3, 64, 3, padding=1), k.ReLU(), k.Conv2d(64, 64, 3, padding=1), k.ReLU(), k.MaxPool2d(2),
            k.Conv2d(64, 128, 3, padding=1), k.ReLU(), k.Conv2d(128, 128, 3, padding=1), k.ReLU(), k.MaxPool2d(2),
            k.Flatten(), k.Linear(8192, CLASSES),
        )  # fmt: skip

    return make(nn), make(torch.nn)


def resnet(torch: Any) -> tuple[Any, Any]:
    """ResNet-18 for images of 32 x 32: no pooling at the start."""

    def make(k: Any) -> Any:
        class Block(k.Module):  # type: ignore[misc,name-defined]
            def __init__(self, inputs: int, outputs: int, stride: int) -> None:
                super().__init__()
                self.conv1 = k.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
                self.bn1, self.relu = k.BatchNorm2d(outputs), k.ReLU()
                self.conv2 = k.Conv2d(outputs, outputs, 3, padding=1, bias=False)
                self.bn2 = k.BatchNorm2d(outputs)
                self.down = None
                if stride > 1 or inputs != outputs:
                    conv = k.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
                    self.down = k.Sequential(conv, k.BatchNorm2d(outputs))

            def forward(self, x: Any) -> Any:
                y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
                return self.relu(y + (x if self.down is None else self.down(x)))

        blocks = [Block(a, b, s) for a, b, s in _STAGES]
        return k.Sequential(
            k.Conv2d(3, 64, 3, padding=1, bias=False), k.BatchNorm2d(64), k.ReLU(), *blocks,
            k.AvgPool2d(4), k.Flatten(), k.Linear(512, CLASSES),
        )  # fmt: skip

    return make(nn), make(torch.nn)


_STAGES = [
    (64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1),
]  # fmt: skip


def lstm(torch: Any) -> tuple[Any, Any]:
    def make(k: Any, **options: Any) -> Any:
        class Reader(k.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.lstm, self.head = k.LSTM(64, 128, batch_first=True), k.Linear(128, CLASSES)

            def forward(self, x: Any) -> Any:
                return self.head(self.lstm(x)[0][:, -1])

        return Reader()

    return make(nn), make(torch.nn)


def transformer(torch: Any) -> tuple[Any, Any]:
    """Two encoder layers: d 128, 4 heads, feed-forward 512."""

    def make(k: Any) -> Any:
        class Encoder(k.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.first, self.second = (k.TransformerEncoderLayer(128, 4, 512, 0.1, batch_first=True) for _ in "12")
                self.head = k.Linear(128, CLASSES)

            def forward(self, x: Any) -> Any:
                return self.head(self.second(self.first(x)))

        return Encoder()

    return make(nn), make(torch.nn)


NETWORKS: dict[str, tuple[Callable[[Any], tuple[Any, Any]], tuple[int, ...]]] = {
    "MLP 784-256-128-10": (mlp, (784,)),
    "LeNet 28x28": (lenet, (1, 28, 28)),
    "VGG-like 32x32": (vgg, (3, 32, 32)),
    "ResNet-18 32x32": (resnet, (3, 32, 32)),
    "LSTM I64 H128 T50": (lstm, (50, 64)),
    "encoder 2 x d128 h4 ff512 T64": (transformer, (64, 128)),
}


def _session(torch: Any, network: Any, x: Any, threads: int) -> Any:
    """onnxruntime on the exported network."""
    import onnxruntime

    file = io.BytesIO()
    torch.onnx.export(network, (torch.from_numpy(x),), file, opset_version=17, dynamo=False, input_names=["x"])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])


def _sides(torch: Any, make: Any, shape: tuple[int, ...], batch: int, threads: int) -> dict[str, Step]:
    """The step of each side; raises an error unless all results are the same."""
    torch.manual_seed(0)
    random = np.random.RandomState(0)
    ours, theirs = make(torch)
    theirs.eval()
    with torch.no_grad():
        for name, buffer in theirs.named_buffers():  # of a network that has been trained a little
            if name.endswith(("running_mean", "running_var")):
                buffer.copy_(torch.from_numpy(0.1 + 0.9 * random.random_sample(tuple(buffer.shape))))
    x = random.standard_normal((batch, *shape)).astype(np.float32)
    ours.build(shape)
    ours.load_state_dict(theirs.state_dict())
    ours.eval()
    compiled, session = ours.compile_inference(batch), _session(torch, theirs, x, threads)
    tensor = torch.from_numpy(x)

    def run_torch() -> Any:
        with torch.inference_mode():
            return theirs(tensor)

    sides: dict[str, Step] = {
        "onnxruntime": lambda: session.run(None, {"x": x})[0],
        "compiled": lambda: compiled(x),
        "call": lambda: ours(x),
        "PyTorch": run_torch,
    }
    expected = np.asarray(run_torch())
    for side, run in sides.items():
        error = float(np.abs(np.asarray(run()) - expected).max() / np.abs(expected).max())
        if not error < TOLERANCE:
            raise RuntimeError(f"{side} is off by {error:.1e}")
    return sides


def _fastest(step: Step) -> Callable[[], float]:
    """Measures the fastest of some calls, once the other sides' threads sleep and its own are awake."""
    count = estimate(step)

    def sample() -> float:
        time.sleep(SETTLE)
        for _ in range(1 + count // 20):
            step()
        best = math.inf
        for _ in range(count):
            began = time.perf_counter()
            step()
            best = min(best, time.perf_counter() - began)
        return best

    return sample


def _measure(sides: dict[str, Step], seconds: float) -> tuple[dict[str, float], float]:
    """Best time of each side, and how much other processes disturbed."""
    values, disturbance = alternate([_fastest(run) for run in sides.values()], seconds)
    return {name: min(times) for name, times in zip(sides, values, strict=True)}, disturbance


def figures() -> dict[str, Callable[[Settings], Figure]]:
    """Measurements by name."""
    return {f"inference/{name} batch {batch}": partial(_figure, name, batch) for name in NETWORKS for batch in (1, 64)}


def _figure(name: str, batch: int, settings: Settings) -> Figure:
    import torch

    best, _ = _measure(_sides(torch, *NETWORKS[name], batch, settings.threads), settings.seconds)
    ours, peers = best["compiled"], {side: best[side] for side in ("onnxruntime", "PyTorch")}
    note = ", ".join(f"{side} {1e6 * seconds:.1f} us" for side, seconds in {"ours": ours, **peers}.items())
    return Figure(
        f"inference/{name} batch {batch}", peers["onnxruntime"] / ours, "x", 1.0, note=note, ours=ours, peers=peers
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", default="1,64")
    parser.add_argument("--only", default="", help="networks with this in their name")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=1.5, help="for each network and batch size")
    given = parser.parse_args()
    import torch

    use_threads(given.threads)
    print(
        f"{openbnns.runtime.config()['instruction set']}, {given.threads} threads; ratios are times of onnxruntime over ours"
    )
    print(f"{'network':32s}{'batch':>6s}{'ort us':>10s}{'compiled':>10s}{'call':>10s}{'PyTorch':>10s}"
          f"{'ratio':>8s}{'of call':>8s}{'others':>8s}")  # fmt: skip
    ratios: dict[str, list[float]] = {"compiled": [], "call": []}
    for name, (make, shape) in NETWORKS.items():
        if given.only not in name:
            continue
        for batch in map(int, given.batches.split(",")):
            best, disturbance = _measure(_sides(torch, make, shape, batch, given.threads), given.seconds)
            gains = {side: best["onnxruntime"] / best[side] for side in ratios}
            for side, ratio in gains.items():
                ratios[side].append(ratio)
            times = "".join(f"{1e6 * best[side]:10.1f}" for side in ("onnxruntime", "compiled", "call", "PyTorch"))
            print(
                f"{name:32s}{batch:6d}{times}{gains['compiled']:8.2f}{gains['call']:8.2f}{disturbance:8.0%}", flush=True
            )
    for side, values in ratios.items():
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(
            f"{side}: {mean:.2f} in the geometric mean, {sum(values) / len(values):.2f} in the mean, least {min(values):.2f}"
        )


if __name__ == "__main__":
    main()
