"""Record the operator cases of coremltools' test suite: ``python tools/record_coreml_cases.py [--most N] [--out FOLDER]``.

Its tests of ML-program operations build a program, convert it, and compare what a Mac predicts with expected outputs. Elsewhere
they stop before the prediction. This runs them with a plugin for pytest that keeps, at that point, the program, the inputs and
the expected outputs. Needs coremltools, pytest, pillow, scipy and torch in the environment that runs it, and openbnns on its
path.

Tests differ in parameters by the thousand, so at most ``--most`` sets of parameters of one test are taken, evenly out of all, and
two for each value of a parameter that chooses the operation.

Writes ``cases.json.xz`` (list of cases: test, operations, tolerances, text of the program, calls with the places of arrays),
``arrays.bin.xz`` (their bytes) and ``weight.bin.xz`` (the constants of all programs, as a weight file). ``tests/coreml_cases.py``
reads them.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import logging
import lzma
import os
import re
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from openbnns.interop import coreml
from openbnns.interop.coreml.blobs import BlobWriter
from openbnns.interop.coreml.elements import ELEMENTS

MODES = "mode", "op_name"
"""Parameters that choose what a test does, so that cases with each of their values are taken."""
MOST_BYTES = 40_000
"""Cases with larger arrays, inputs, outputs and constants together, are left out."""


class Recorder:
    """The plugin: chooses tests, and keeps what they would compare."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.weights = io.BytesIO()
        self.blobs = BlobWriter(self.weights)
        self.arrays = bytearray()
        self.places: dict[bytes, int] = {}
        self.cases: list[dict[str, Any]] = []
        self.left_out: Counter[str] = Counter()
        self.test = ""
        self._texts: dict[str, dict[str, Any]] = {}
        self._latest: tuple[Any, dict[str, Any] | None] = (None, None)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        groups: dict[str, list[Any]] = {}
        modes: dict[tuple[str, ...], list[Any]] = {}
        for item in items:
            given = item.callspec.params if hasattr(item, "callspec") else {}
            if getattr(given.get("backend"), "backend", "") != "mlprogram":
                continue
            test = item.nodeid.split("[")[0]
            groups.setdefault(test, []).append(item)
            mode = tuple(str(given[name]) for name in MODES if name in given)
            if mode:
                modes.setdefault((test, *mode), []).append(item)
        # float32 first: float16 programs differ by casts, and their tolerances are wide.
        chosen = [item for group in groups.values() for item in _sample(group, self.most, max(1, self.most // 4))]
        chosen += [item for group in modes.values() for item in _sample(group, 2, 1)]
        items[:] = dict.fromkeys(chosen)

    def pytest_runtest_setup(self, item: Any) -> None:
        self.test = item.nodeid.split("/tests/")[-1]
        np.random.seed(int.from_bytes(hashlib.sha256(self.test.encode()).digest()[:4], "little"))
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.manual_seed(0)

    # What takes the place of the comparison.

    def compare(
        self, mlmodel: Any, input_key_values: Any, expected_outputs: Any, dtype: str = "fp32", atol: float = 1e-4,
        rtol: float = 1e-5, also_compare_shapes: bool = True, state: Any = None, allow_mismatch_ratio: float = 0.0,
    ) -> None:  # fmt: skip
        if expected_outputs is None or allow_mismatch_ratio:
            self.left_out["no expected outputs"] += 1
            return
        if dtype == "fp16":  # as the suite does
            atol, rtol = max(atol * 100, 0.5), max(rtol * 100, 0.05)
        try:
            self._keep(mlmodel, input_key_values, expected_outputs, float(atol), float(rtol))
        except _LeftOut as reason:
            self.left_out[str(reason)] += 1

    def _keep(self, mlmodel: Any, inputs: Any, expected: Any, atol: float, rtol: float) -> None:
        model = _read(mlmodel)
        program = model.program
        if program is None or list(program.functions) != ["main"]:
            raise _LeftOut("not one function")
        function = program.functions["main"]
        program.attributes.clear()  # versions and dates
        arrays: dict[str, Any] = {}
        for port in function.inputs:
            if isinstance(port.type, coreml.StateType):
                continue
            assert isinstance(port.type, coreml.TensorType)
            if port.name not in inputs or not isinstance(inputs[port.name], (np.ndarray, np.generic, int, float)):
                raise _LeftOut("inputs that are images or have other names")
            dtype = ELEMENTS[port.type.element].numpy
            given = np.asarray(inputs[port.name])
            arrays[port.name] = given.astype(dtype).reshape(given.shape or [1] * len(port.type.shape or ()))
        results = {}
        for name, value in expected.items():
            plain = re.sub(r"\W", "_", name)
            if plain not in function.block.outputs:
                raise _LeftOut("outputs with other names")
            if not isinstance(value, (np.ndarray, np.generic, int, float, bool)):
                value = getattr(value, "numpy", lambda: None)()
            if value is None or np.asarray(value).dtype.kind not in "fiub":
                raise _LeftOut("outputs that are not arrays")
            result = np.asarray(value)
            if result.dtype == np.float16:  # which is how exactly it is known, whatever the program computes in
                rtol = max(rtol, 2.0**-10)
            results[plain] = result.astype({"f8": "f4", "i8": "i4"}.get(result.dtype.str[1:], result.dtype.str))
        constants = sum(
            held.value.nbytes
            for operation in function.walk()
            for held in (*operation.attributes.values(), *(a for several in operation.inputs.values() for a in several))
            if isinstance(held, coreml.Constant) and isinstance(held.value, np.ndarray) and held.value.dtype.kind != "O"
        )
        if constants + sum(array.nbytes for array in (*arrays.values(), *results.values())) > MOST_BYTES:
            raise _LeftOut("large arrays")
        call = {"inputs": self._stored(arrays), "outputs": self._stored(results)}
        same, case = self._latest
        if same is mlmodel and case is not None:
            case["calls"].append(call)
            return
        text = coreml.render(program, self.blobs)
        if text in self._texts:  # the same program, out of other parameters
            raise _LeftOut("the program of another case")
        case = {
            "test": self.test,
            "operations": sorted({operation.type for operation in function.walk()} - {"const"}),
            "atol": atol,
            "rtol": rtol,
            "program": text,
            "calls": [call],
        }
        self._texts[text] = case
        self._latest = mlmodel, case
        self.cases.append(case)

    def _stored(self, arrays: dict[str, Any]) -> dict[str, Any]:
        described = {}
        for name, array in arrays.items():
            data = np.ascontiguousarray(array).tobytes()
            key = hashlib.sha256(data).digest()
            if key not in self.places:
                self.places[key] = len(self.arrays)
                self.arrays += data
            described[name] = [array.dtype.str, list(array.shape), self.places[key]]
        return described

    def write(self, folder: Path) -> None:
        self.blobs.close()
        folder.mkdir(parents=True, exist_ok=True)
        index = json.dumps(self.cases, separators=(",", ":")).encode()
        for name, data in (("cases.json", index), ("arrays.bin", self.arrays), ("weight.bin", self.weights.getvalue())):
            (folder / f"{name}.xz").write_bytes(lzma.compress(bytes(data), preset=9 | lzma.PRESET_EXTREME))


class _LeftOut(Exception):
    """Why a comparison does not become a case."""


def _sample(items: list[Any], exact: int, rounded: int) -> list[Any]:
    """So many tests in float32, and so many in float16, evenly out of all."""
    chosen = []
    for precision, most in (("fp32", exact), ("fp16", rounded)):
        of = [item for item in items if item.callspec.params["backend"].precision == precision]
        chosen += of if len(of) <= most else [of[i * len(of) // most] for i in range(most)]
    return chosen


def _read(mlmodel: Any) -> coreml.Model:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.mlpackage"
        mlmodel.save(str(path))
        return coreml.read(path)  # what is mapped stays readable when its file is gone


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the operator cases of coremltools' test suite.")
    parser.add_argument("--most", type=int, default=9, help="sets of parameters of one test")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).resolve().parents[1] / "tests" / "data" / "coreml_cases"
    )
    parser.add_argument("--only", default="", help="words that pytest's -k takes")
    options = parser.parse_args()
    os.environ.update(PYMIL_TEST_TARGETS="mlprogram", INCLUDE_MIL_FP32_UNIT_TESTS="1", RUN_BACKWARD_COMPATIBILITY="1")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    import coremltools as ct
    import pytest
    from coremltools.converters.mil import testing_utils

    recorder = Recorder(options.most)
    testing_utils.compare_backend = recorder.compare  # before the tests import it
    ct.models.MLModel.make_state = lambda self: object()
    ct.models.utils._macos_version = lambda: (26, 0)  # so that tests of newer opsets are not skipped
    suite = Path(ct.__file__).parent / "converters" / "mil" / "mil" / "ops" / "tests"
    arguments = ["-q", "-p", "no:cacheprovider", "--tb=line", "-W", "ignore", str(suite)]
    pytest.main([*arguments, *(["-k", options.only] if options.only else [])], plugins=[recorder])
    recorder.write(options.out)
    kinds = Counter(kind for case in recorder.cases for kind in case["operations"])
    print(f"{len(recorder.cases)} cases over {len(kinds)} operations; left out: {dict(recorder.left_out)}")


if __name__ == "__main__":
    main()
