"""How fast is inference on bytes, next to onnxruntime's statically quantized model and to ours in float32?

Our networks are exported to ONNX and quantized by ``onnxruntime.quantization.quantize_static`` on the same samples, with scales
per channel, in both of its forms; the faster one counts. The differences of outputs from float32 are compared, too, and the
accuracy on the digits over several seeds.

python benchmarks/quantized_inference.py            all of them, on two threads
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from harness import Figure, Settings, use_threads
from inference import resnet, vgg
from openbnns import _core, datasets, nn
from timing import QUIET, Step, alternate, sampler

CLASSES = 10
SAMPLES = 64  # for calibration
LARGEST_DIFFERENCE = 0.1
SEEDS = 5
LOST = 0.5  # per cent of accuracy, at most
Made = tuple[Any, tuple[int, ...]]


def mlp() -> Made:
    layers = nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, CLASSES)
    return nn.Sequential(*layers), (256, 784)


def encoder() -> Made:
    layers = [nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True) for _ in range(2)]
    return nn.Sequential(*layers), (16, 64, 256)


def images(make: Callable[[Any], tuple[Any, Any]]) -> Made:
    import torch

    return make(torch)[0], (32, 3, 32, 32)


NETWORKS: dict[str, Callable[[], Made]] = {
    "MLP 784-1024-1024-10 batch 256": mlp,
    "two encoder layers d256 h4 ff1024 T64 batch 16": encoder,
    "VGG-like 32x32 batch 32": partial(images, vgg),
    "ResNet-18 32x32 batch 32": partial(images, resnet),
}


def figures() -> dict[str, Callable[[Settings], Figure]]:
    if not _core.multiplies_bytes():
        return {}
    measured: dict[str, Callable[[Settings], Figure]] = {
        f"int8/{name}": partial(_inference, f"int8/{name}", make) for name, make in NETWORKS.items()
    }
    measured["int8/accuracy on the digits"] = _digits
    return measured


def _inference(name: str, make: Callable[[], Made], settings: Settings) -> Figure:
    network, shape = make()
    random = np.random.default_rng(0)
    x = random.standard_normal(shape, dtype=np.float32)
    samples = random.standard_normal((SAMPLES, *shape[1:]), dtype=np.float32)
    network.build(shape[1:], seed=1).eval()
    use_threads(settings.threads)
    exact = network.compile_inference(shape[0])
    ours = network.compile_inference(shape[0], precision="int8", calibration=samples, float32_layers="none")
    steps: dict[str, Step] = {"ours": lambda: ours(x), "float32": lambda: exact(x)}
    steps |= _sessions(network, x, samples, settings.threads)
    wanted = exact(x)
    lost = {side: float(np.linalg.norm(step() - wanted) / np.linalg.norm(wanted)) for side, step in steps.items()}
    for side, difference in lost.items():
        if not difference < LARGEST_DIFFERENCE:
            raise AssertionError(f"{name}: outputs of {side} differ from those in float32 by {difference:.2%}")
    times, disturbed = alternate([sampler(step) for step in steps.values()], settings.seconds)
    medians = dict(zip(steps, map(statistics.median, times), strict=True))
    peer = min(("QDQ", "QOperator"), key=medians.__getitem__)
    column = list(steps).index(peer)
    ratio = statistics.median(b / a for a, b in zip(times[0], times[column], strict=True))
    note = f"ours {medians['ours'] * 1e3:.2f} ms ({lost['ours']:.1%} off), onnxruntime {peer} "
    note += f"{medians[peer] * 1e3:.2f} ms ({lost[peer]:.1%} off), ours in float32 {medians['float32'] * 1e3:.2f} ms"
    if disturbed > QUIET:
        note += f", others took {disturbed:.0%} of the machine"
    target = 1.0 if settings.judged and disturbed <= QUIET else None
    return Figure(
        name, ratio, "x onnxruntime", target, note=note, ours=medians["ours"], peers={"onnxruntime": medians[peer]}
    )


def _sessions(network: Any, x: Any, samples: Any, threads: int) -> dict[str, Step]:
    """onnxruntime's quantized models of both forms, by name."""
    import onnxruntime
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self, name: str) -> None:
            whole = len(samples) // len(x) * len(x) or len(samples)
            batches = np.split(samples[:whole], max(1, whole // len(x)))
            self._left = iter([{name: np.resize(batch, x.shape)} for batch in batches])

        def get_next(self) -> Any:
            return next(self._left, None)

    def session(path: Path) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    made: dict[str, Step] = {}
    with tempfile.TemporaryDirectory() as folder:
        exported = Path(folder) / "network.onnx"
        network.to_onnx(exported)
        name = session(exported).get_inputs()[0].name
        for form in ("QDQ", "QOperator"):
            path = Path(folder) / f"{form}.onnx"
            quantization.quantize_static(
                exported, path, Reader(name), quant_format=quantization.QuantFormat[form], per_channel=True,
                activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8,
            )  # fmt: skip
            run = session(path).run
            made[form] = lambda run=run: run(None, {name: x})[0]  # type: ignore[misc]
    return made


def _digits(settings: Settings) -> Figure:
    """The per cent of accuracy that is lost, in the mean over seeds."""
    use_threads(settings.threads)
    x, y, test_x, test_y = datasets.load_digits()
    x, test_x = x.reshape(-1, 1, 8, 8), test_x.reshape(-1, 1, 8, 8)
    accuracies: dict[str, list[float]] = {"float32": [], "int8": []}
    for seed in range(SEEDS):
        net = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(24, 3), nn.ReLU(), nn.Flatten(),
            nn.Linear(48), nn.ReLU(), nn.Linear(CLASSES),
        )  # fmt: skip
        nn.Trainer(net, "cross_entropy", nn.Adam(2e-3), batch_size=64, seed=seed, quiet=True).fit(x, y, epochs=12)
        exact = net.compile_inference(len(test_x))
        quantized = net.compile_inference(len(test_x), precision="int8", calibration=x[:200])
        for name, infer in (("float32", exact), ("int8", quantized)):
            accuracies[name].append(float((infer(test_x).argmax(1) == test_y).mean()))
    means = {name: statistics.mean(values) for name, values in accuracies.items()}
    note = f"{SEEDS} seeds: float32 {means['float32']:.4f}, int8 {means['int8']:.4f}"
    lost = 100 * (means["float32"] - means["int8"])
    return Figure("int8/accuracy on the digits", lost, "per cent lost", LOST, at_most=True, note=note)


if __name__ == "__main__":
    for name, measure in figures().items():
        figure = measure(Settings())
        print(f"{name:40s} {figure.value:5.2f} {figure.unit}    {figure.note}")
