"""The cost of a call, the cost of an import, and the size of the package."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import convolution
import fully_connected
import openbnns
from cases import Case
from harness import Figure, Settings
from openbnns import Shape, capi, nn
from timing import alternate, repeat, sampler

IMPORT = "import time, numpy; start = time.perf_counter(); import openbnns; print(time.perf_counter() - start)"


def figures() -> dict[str, Callable[[Settings], Figure]]:
    """Measurements by name."""
    measurements: dict[str, Callable[[Settings], Figure]] = {
        "overhead/apply of a 1x8 -> 8 layer": apply,
        "overhead/import beyond NumPy": import_time,
        "overhead/installed size": installed_size,
    }
    for name in _direct_calls():
        measurements[f"overhead/{name} of 32x64"] = partial(repeated_call, name=name)
    for name in _class_calls():
        measurements[f"overhead/{name}"] = partial(class_call, name=name)
    for name in _function_calls():
        measurements[f"overhead/{name} on small arrays"] = partial(function_call, name=name)
    for case in (fully_connected.cases()[1], convolution.cases()[0]):
        measurements[f"overhead/create {case.name}"] = partial(creation, case=case)
    return measurements


def apply(settings: Settings) -> Figure:
    """One forward call against the bare matrix product in NumPy, without bias."""
    arrays = fully_connected.cases()[0].arrays()
    x, w, y = arrays["x"], arrays["w"], arrays["y"]
    f = fully_connected.calls(arrays).filter
    product = np.empty_like(y)
    transposed = np.ascontiguousarray(w.T)
    sides = (partial(capi.BNNSFilterApply, f, x, y), partial(np.matmul, x, transposed, out=product))
    (ours, numpy), _ = alternate([sampler(step) for step in sides], settings.seconds)
    ratio = statistics.median(o / n for o, n in zip(ours, numpy, strict=True))
    note = f"ours {statistics.median(ours) * 1e9:.0f} ns, np.matmul {statistics.median(numpy) * 1e9:.0f} ns"
    return Figure("overhead/apply of a 1x8 -> 8 layer", ratio, "x np.matmul", 4.0, at_most=True, note=note)


def _direct_calls() -> dict[str, Callable[[], int]]:
    """Functions without a filter on small matrices, as code in C calls them again and again."""
    rng = np.random.default_rng(0)
    x, y, rows = (
        rng.standard_normal((32, 64), dtype=np.float32),
        np.empty((32, 64), np.float32),
        np.arange(32)[::-1].copy(),
    )
    turned, sums = np.empty((64, 32), np.float32), np.empty((32, 1), np.float32)
    source, target, index = Shape([32, 64]).descriptor(data=x), Shape([32, 64]).descriptor(data=y), Shape([32])
    places = index.descriptor(capi.BNNSDataTypeInt64, rows)
    reduction = capi.BNNSLayerParametersReduction(
        i_desc=source, o_desc=Shape([32, 1]).descriptor(data=sums), reduce_func=capi.BNNSReduceFunctionSum
    )
    return {
        "BNNSCopy": partial(capi.BNNSCopy, target, source),
        "BNNSTranspose": partial(capi.BNNSTranspose, Shape([64, 32]).descriptor(data=turned), source, 0, 1),
        "BNNSGather": partial(capi.BNNSGather, 0, source, places, target),
        "BNNSDirectApplyReduction": partial(capi.BNNSDirectApplyReduction, reduction),
    }


def repeated_call(settings: Settings, *, name: str) -> Figure:
    """Time of a call that has been made before."""
    call = _direct_calls()[name]
    if call() != 0:
        raise RuntimeError(str(openbnns.last_error()))
    times = [repeat(call, 1000) for _ in range(5)]
    return Figure(f"overhead/{name} of 32x64", statistics.median(times) * 1e6, "us")


def _class_calls() -> dict[str, Callable[[], object]]:
    """Layer classes on little data, with results in new arrays."""
    rng = np.random.default_rng(0)

    def numbers(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        return rng.standard_normal(shape, dtype=np.float32)

    a, b = numbers(10, 6), numbers(6, 10)
    dense = openbnns.FullyConnectedLayer(weights=numbers(8, 8))
    lstm = openbnns.LSTMLayer(input_weights=numbers(4, 1, 32, 32), hidden_weights=numbers(4, 1, 1, 32, 32))
    sample, sequence, arriving = numbers(8), numbers(16, 1, 32), numbers(16, 1, 1, 32)

    def train() -> None:
        cache = lstm.apply(sequence, phase=openbnns.LearningPhase.TRAINING).cache
        lstm.apply_backward(sequence, output_gradient=arriving, cache=cache)

    return {
        "FullyConnectedLayer on a sample of 8, without a batch axis": partial(dense.apply, sample),
        "LSTMLayer on 16 steps of 32, both ways": train,
        "apply_matrix_multiplication 10x6 by 6x10": partial(openbnns.apply_matrix_multiplication, a, b),
    }


def class_call(settings: Settings, *, name: str) -> Figure:
    """Time of a call of the Python face."""
    call = _class_calls()[name]
    call()
    return Figure(f"overhead/{name}", statistics.median(repeat(call, 200) for _ in range(5)) * 1e6, "us")


def _function_calls() -> dict[str, Callable[[], object]]:
    """Functions of ``nn.functional`` on small arrays, outside of networks."""
    rng, F = np.random.default_rng(0), nn.functional

    def numbers(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        return rng.standard_normal(shape, dtype=np.float32)

    x, weight, image, kernels, bias = (
        numbers(8, 16),
        numbers(16, 8),
        numbers(1, 3, 8, 8),
        numbers(4, 3, 3, 3),
        numbers(4),
    )
    return {
        "F.add": partial(F.add, x, numbers(8, 16)),
        "F.relu": partial(F.relu, x),
        "F.softmax": partial(F.softmax, x, -1),
        "F.matmul": partial(F.matmul, x, weight),
        "F.layer_norm": partial(F.layer_norm, x, 16, numbers(16), numbers(16)),
        "F.conv2d": partial(F.conv2d, image, kernels, bias, padding=1),
    }


def function_call(settings: Settings, *, name: str) -> Figure:
    """Time of a function by the program that the first call has kept."""
    call = _function_calls()[name]
    call()
    time = min(repeat(call, 200) for _ in range(25))
    limit = 10.0 if name == "F.conv2d" else 5.0
    return Figure(f"overhead/{name} on small arrays", time * 1e6, "us", limit, at_most=True)


def import_time(settings: Settings) -> Figure:
    """Median over fresh interpreters in which NumPy is already imported; sources are compiled, as once installed."""
    count = 5 if settings.seconds < 1 else 11
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = bytecode
        runs = [float(_output(IMPORT, environment)) for _ in range(count + 1)][1:]  # the first compiles
    note = f"fastest {min(runs) * 1e3:.1f} ms of {count}"
    return Figure("overhead/import beyond NumPy", statistics.median(runs) * 1e3, "ms", 10.0, at_most=True, note=note)


def _output(program: str, environment: dict[str, str]) -> str:
    """The output of a program in a fresh interpreter."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, check=True, text=True, env=environment).stdout


def installed_size(settings: Settings) -> Figure:
    """Everything in the package's folder: what the wheel unpacks to, and the bytecode that pip adds to it."""
    kinds = {".so": "core", ".py": "sources", ".pyi": "stubs", ".gz": "data", ".pyc": "bytecode"}
    sizes: dict[str, float] = defaultdict(float)
    for path in Path(openbnns.__file__).parent.rglob("*"):
        if path.is_file():
            sizes[kinds.get(path.suffix, "others")] += path.stat().st_size / 1e6
    total, bytecode = sum(sizes.values()), sizes.pop("bytecode", 0.0)
    parts = ", ".join(f"{kind} {size:.2f}" for kind, size in sorted(sizes.items(), key=lambda part: -part[1]))
    note = f"the wheel unpacks to {total - bytecode:.2f} ({parts}), pip's bytecode adds {bytecode:.2f}"
    return Figure("overhead/installed size", total, "MB", 5.0, at_most=True, note=note)


def creation(settings: Settings, *, case: Case) -> Figure:
    """Time to create a filter, apart from applying it."""
    arrays = case.arrays()
    times = [repeat(partial(case.calls, arrays), 20) for _ in range(5)]
    return Figure(f"overhead/create {case.name}", statistics.median(times) * 1e6, "us", note="filter and descriptors")
