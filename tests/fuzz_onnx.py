"""Damaged and hostile ONNX files: ``python tests/fuzz_onnx.py [COUNT] [SEED]``.

Every file is a small model with some bytes changed, cut off or put in, or with fields set to values that make no sense. Reading
it must give a network or one of the errors that say what is wrong, within seconds and without much memory.
"""

from __future__ import annotations

import copy
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import damaged_files
import onnx_networks
import onnxruntime_cases
from openbnns import nn

EXPECTED = (nn.onnx.OnnxError, nn.onnx.Unsupported)


def models() -> list[Any]:
    """Small models with all kinds of parts."""
    import onnx

    read = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        for net, shape in (
            (
                nn.Sequential(
                    nn.Conv2d(2, 3, padding=1), nn.BatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3)
                ),
                (1, 6, 6),
            ),
            (nn.Sequential(nn.LSTM(3, bidirectional=True), nn.Linear(2)), (4, 2)),
            (nn.Sequential(nn.Linear(8), nn.GELU(), nn.LayerNorm(), nn.Dropout(0.5), nn.Softmax()), (5, 4)),
            (nn.Sequential(nn.MultiheadAttention(4, 2)), (3, 4)),
        ):
            net.build(shape, seed=0).to_onnx(path)
            read.append(onnx.load(path))
        for write in (_branches, _loop, _quantized):
            write(path)
            read.append(onnx.load(path))
    return read


def _branches(path: Path) -> None:
    onnx_networks.branching(path, False)


def _loop(path: Path) -> None:
    onnx_networks.looping(path, "steps", True)


def _quantized(path: Path) -> None:
    next(case for case in onnxruntime_cases.CASES if case.op == "QLinearConv").write(path)


def damaged(model: Any, random: np.random.RandomState) -> bytes:
    """The bytes of a model that something is wrong with."""
    if random.rand() < 0.3:
        return damaged_files.damaged(model.SerializeToString(), random)
    changed = copy.deepcopy(model)
    for _ in range(random.randint(1, 4)):
        _change(changed, random)
    return bytes(changed.SerializeToString())


_NUMBERS = (-1, 0, 1, 2, 3, 7, 64, 2**31 - 1, 2**31, 2**40, 2**62, -(2**31), -(2**62))


def _change(model: Any, random: np.random.RandomState) -> None:
    graphs = [model.graph]
    for graph in graphs:
        graphs += [entry.g for node in graph.node for entry in node.attribute if entry.type == 5]
    graph = graphs[random.randint(len(graphs))]
    if not graph.node:
        return
    nodes, weights = list(graph.node), list(graph.initializer)
    node = nodes[random.randint(len(nodes))]
    way = random.randint(12)
    names = [name for n in nodes for name in (*n.input, *n.output)]
    number = int(_NUMBERS[random.randint(len(_NUMBERS))])
    if way == 0 and node.input:
        node.input[random.randint(len(node.input))] = names[random.randint(len(names))]
    elif way == 1 and node.input:
        del node.input[random.randint(len(node.input))]
    elif way == 2:
        node.op_type = [
            "Conv",
            "Gather",
            "Reshape",
            "LSTM",
            "Loop",
            "Slice",
            "Pad",
            "Tile",
            "Expand",
            "Resize",
            "NonZero",
        ][random.randint(11)]
    elif way == 3 and node.attribute:
        entry = node.attribute[random.randint(len(node.attribute))]
        if entry.ints:
            entry.ints[random.randint(len(entry.ints))] = number
        else:
            entry.i = number
    elif way == 4 and node.attribute:
        node.attribute[random.randint(len(node.attribute))].type = random.randint(15)
    elif way == 5 and weights:
        weight = weights[random.randint(len(weights))]
        if weight.dims:
            weight.dims[random.randint(len(weight.dims))] = number
    elif way == 6 and weights:
        weights[random.randint(len(weights))].data_type = random.randint(25)
    elif way == 7:
        shape = model.graph.input[0].type.tensor_type.shape
        shape.dim[random.randint(len(shape.dim))].dim_value = number
    elif way == 8:
        node.output[0] = names[random.randint(len(names))]
    elif way == 9:
        constants = [n for n in nodes if n.op_type == "Constant"]
        if not constants and not weights:
            return
        tensor = constants[random.randint(len(constants))].attribute[0].t if constants else weights[0]
        count = max(1, int(np.prod(tensor.dims)))
        if tensor.data_type == 7 and count < 100:
            values = np.frombuffer(tensor.raw_data, np.int64).copy()
            values[random.randint(len(values))] = number
            tensor.raw_data = values.tobytes()
    elif way == 10 and weights:
        weight = weights[random.randint(len(weights))]
        weight.data_location = 1
        entry = weight.external_data.add()
        entry.key, entry.value = (
            "location",
            ["../secret", "/etc/passwd", "model.onnx", "a/../../b", ""][random.randint(5)],
        )
    elif way == 11 and random.rand() < 0.3:
        model.opset_import[0].version = int(random.randint(0, 40))


def run(count: int, seed: int) -> dict[str, int]:
    """How many of so many damaged files gave what."""
    originals, random = models(), np.random.RandomState(seed)
    with tempfile.TemporaryDirectory() as folder:
        return damaged_files.read_many(
            Path(folder) / "model.onnx",
            lambda number: damaged(originals[number % len(originals)], random),
            nn.from_onnx,
            EXPECTED,
            count,
        )


if __name__ == "__main__":
    count, seed = (
        (int(text) for text in (*sys.argv[1:], "1000", "0")[:2]) if len(sys.argv) < 3 else map(int, sys.argv[1:3])
    )
    print(f"{count} files from seed {seed}: {run(count, seed)}")
