"""ONNX's own tests of single operators, run on networks that ``nn.from_onnx`` makes: ``python tests/onnx_node_tests.py``.

ONNX ships one small model with inputs and outputs for every way in which an operator is used. A test counts if all operators of
its model are among ``nn.onnx.supported()``, and if its tensors are numbers, whole numbers or booleans. A network needs weights
where the tests have inputs, so what a layer takes as weights, sizes or settings becomes an initializer with the values of the
test.
"""

from __future__ import annotations

import copy
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openbnns import nn

# Inputs that are weights or settings by their nature, by operator; all that are not numbers are settings anyway, unless the
# operator computes with them.
WEIGHTS = {
    "Conv": (1, 2), "ConvTranspose": (1, 2), "LSTM": (1, 2, 3, 7), "GRU": (1, 2, 3), "RNN": (1, 2, 3), "Resize": (1, 2, 3),
    "Clip": (1, 2), "Pad": (1, 2, 3), "Dropout": (1, 2), "OneHot": (1, 2), "MaxUnpool": (2,), "CumSum": (1,),
    "Range": (0, 1, 2), "ConstantOfShape": (0,),
}  # fmt: skip


# Tests that do not pass, by how their names begin, and why.
KNOWN = {
    "test_bernoulli": "random numbers, which other programs draw differently",
    "test_batchnorm_example_training_mode": "results of training: statistics of the batch",
    "test_batchnorm_epsilon_training_mode": "results of training: statistics of the batch",
    "test_training_dropout": "results of training: random numbers, and masks of them",
    "test_col2im_5d": "columns of volumes",
    "test_resize_downsample_scales_linear_align_corners": "corners of a length that is not rounded; onnxruntime's is, as ours",
    "test_resize_downsample_scales_cubic_align_corners": "corners of a length that is not rounded; onnxruntime's is, as ours",
}


@dataclass
class Case:
    name: str
    model: Any
    inputs: list[Any]
    outputs: list[Any]


def cases() -> Iterator[Case]:
    """The cases that count."""
    import onnx
    from onnx.backend.test.case.node import collect_testcases

    supported = {name for names in nn.onnx.supported().values() for name in names}
    with warnings.catch_warnings(), np.errstate(all="ignore"):  # of the making of the tests
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    for case in collected:
        model = case.model
        if model is None or not case.data_sets:
            continue
        ops = {node.op_type for node in model.graph.node}
        if not ops <= supported or any(node.domain not in ("", "ai.onnx") for node in model.graph.node):
            continue
        version = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
        inputs, outputs = case.data_sets[0]
        arrays = [*inputs, *outputs]
        if version < 13 or not all(isinstance(x, (np.ndarray, np.generic)) for x in arrays):
            continue
        kinds = {info.type.tensor_type.elem_type for info in (*model.graph.input, *model.graph.output)}
        if not kinds <= _NUMBERS(onnx):
            continue
        yield Case(case.name, model, list(inputs), list(outputs))


def _NUMBERS(onnx: Any) -> set[int]:
    kinds = onnx.TensorProto
    return {
        kinds.FLOAT, kinds.DOUBLE, kinds.FLOAT16, kinds.BFLOAT16, kinds.INT64, kinds.INT32, kinds.INT16, kinds.INT8,
        kinds.UINT8, kinds.UINT16, kinds.UINT32, kinds.UINT64, kinds.BOOL,
    }  # fmt: skip


def run(case: Case, folder: Path) -> None:
    """Raise an error for what is wrong."""
    ways = [_settings(case, weights=False), _settings(case, weights=True)]
    if all(np.asarray(x).dtype.kind in "iu" and np.size(x) == 1 for x in case.inputs):
        ways.append({info.name for info in case.model.graph.input})  # sizes, from which everything follows
    for way in ways[:-1]:
        try:
            _try(case, folder, way)
            return
        except (nn.onnx.Unsupported, ValueError):
            pass
    _try(case, folder, ways[-1])


def _settings(case: Case, *, weights: bool) -> set[str]:
    """Inputs that become initializers: settings, and with ``weights`` everything but the first input."""
    graph = case.model.graph
    names = [info.name for info in graph.input]
    if weights:
        return set(names[1:])
    taken = set()
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name in names and place in WEIGHTS.get(node.op_type, ()):
                taken.add(name)
            if name in names and place and names.index(name) and case.inputs[names.index(name)].dtype.kind in "iub":
                computed = node.op_type in nn.onnx.supported()["masks and types"] + nn.onnx.supported()["arithmetic"]
                if not computed and node.op_type not in ("Gather", "GatherElements", "Attention", "MaxUnpool"):
                    taken.add(name)
    return taken


def _try(case: Case, folder: Path, settings: set[str]) -> None:
    import onnx

    model = copy.deepcopy(case.model)
    kept = []
    for info, array in zip(list(model.graph.input), case.inputs, strict=True):
        if info.name in settings:
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), info.name))
            model.graph.input.remove(info)
        else:
            kept.append(np.asarray(array, np.float32 if str(np.asarray(array).dtype) == "bfloat16" else None))
    if not kept:  # a network has an input, even if nothing depends on it
        model.graph.input.append(onnx.helper.make_tensor_value_info("unused", onnx.TensorProto.FLOAT, [1]))
        kept.append(np.zeros(1, np.float32))
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    shapes = {info.name: x.shape for info, x in zip(model.graph.input, kept, strict=True)}
    network = nn.from_onnx(path, batch_axis=None, input_shapes=shapes)
    outputs = network(*kept)
    results = outputs if isinstance(outputs, tuple) else (outputs,)
    for y, expected in zip(results, case.outputs, strict=True):
        want = np.asarray(expected).astype(np.float64)
        got = np.asarray(y, np.float64)
        if got.shape != want.shape:
            raise AssertionError(f"shape {got.shape}, not {want.shape}")
        small = str(np.asarray(expected).dtype) in ("float16", "bfloat16")
        np.testing.assert_allclose(got, want, 1e-2 if small else 1e-3, 1e-2 if small else 1e-5)  # ONNX's own is 1e-3


def is_known(name: str) -> bool:
    return name.startswith(tuple(KNOWN))


def main() -> int:
    passed, failed, reasons = 0, [], Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            try:
                run(case, Path(folder))
                passed += 1
            except Exception as error:
                failed.append((case.name, type(error).__name__, " ".join(str(error).split())[:220]))
                reasons[type(error).__name__] += 1
    for name, kind, text in failed:
        print(f"{name}: {kind}: {text}")
    total = passed + len(failed)
    print(f"{passed} of {total} node tests of supported operators pass ({100 * passed / total:.1f} %)", dict(reasons))
    return 1 if any(not is_known(name) for name, _, _ in failed) else 0


if __name__ == "__main__":
    sys.exit(main())
