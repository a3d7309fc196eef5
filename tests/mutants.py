"""Plant one fault after the other in a copy of the package, and see that tests find it: ``python tests/mutants.py [WORD...]``.

A fault that no test finds ends the run with status 1; words select the faults whose description or file has them. All faults are
of a kind that was once made, or nearly. Add one where a test is expected to notice something, and see that it does.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import openbnns

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(openbnns.__file__).parent
EVERY = "tests/graph/test_every_function.py"


class Mutant(NamedTuple):
    fault: str
    file: str
    right: str
    wrong: str
    tests: str
    """Arguments of pytest: tests of ``make test`` that take seconds, at least one of which must fail."""


WINDOW, NORMS, KEPT, DECLARED, ELEMENTWISE = (
    f"graph/{name}.py"
    for name in (
        "operations/window",
        "functions/normalizations",
        "functions/on_arrays",
        "declared",
        "functions/elementwise",
    )
)
MUTANTS = [
    Mutant(
        "the odd element of padding 'same' in front", WINDOW,
        "return (total // 2, total - total // 2) if behind else (total - total // 2, total // 2)",
        "return (total - total // 2, total // 2) if behind else (total // 2, total - total // 2)",
        f"{EVERY} -k conv2d",
    ),
    Mutant(
        "a pooling window that begins in the padding behind the image", WINDOW,
        "if self.ceil and behind + s > extent and (count - 1) * s >= n + front:", "if False:",
        f"{EVERY} -k pool",
    ),
    Mutant(
        "poolings without dilation", WINDOW,
        "return _across(self.dilation)", "return _across((1,) * len(self.dilation))",
        f"{EVERY} -k pool",
    ),
    Mutant(
        "convolutions of ONNX without dilation", "interop/onnx/operators/windows.py",
        "return Window.of(call.op, given, strides, padding, dilations, ceil, image)",
        "return Window.of(call.op, given, strides, padding, 1, ceil, image)",
        "tests/interop/test_onnx_node_tests.py",
    ),
    Mutant(
        "an axis that fits only in this recording, without a guard", "graph/sizes.py",
        "return free.is_equal(expression_of(left), expression_of(right), required=True)", "return True",
        "tests/graph/test_sizes.py",
    ),
    Mutant(
        "a free size compared by form, where a model may fix it", NORMS,
        "if x.ndim < len(shape) or x.shape[x.ndim - len(shape) :] != shape:",
        "if x.ndim < len(shape) or not is_same_shape(x.shape[x.ndim - len(shape) :], shape):",
        "tests/graph/test_sizes.py",
    ),
    Mutant(
        "the formulas of GELU swapped in Core ML", "interop/coreml/activation_rows.py",
        '"gelu", {"mode": "EXACT"}),\n    row("gelu", "gelu_approximation", {"mode": "TANH_APPROXIMATION"}',
        '"gelu", {"mode": "TANH_APPROXIMATION"}),\n    row("gelu", "gelu_approximation", {"mode": "EXACT"}',
        "tests/graph/test_builder.py -k gelu",
    ),
    Mutant(
        "the formulas of GELU swapped in ONNX", "interop/onnx/rows.py",
        '{"approximate": "none"}), row("Gelu", "gelu_approximation", {"approximate": "tanh"}',
        '{"approximate": "tanh"}), row("Gelu", "gelu_approximation", {"approximate": "none"}',
        "tests/interop/test_onnx_in.py -k gelu",
    ),
    Mutant(
        "whole numbers beside floats stay whole", DECLARED,
        "return any(map(_is_of_integers, given)) and all(map(_joins_integers, given))", "return any(map(_is_of_integers, given))",
        f"{EVERY} -k whole_numbers",
    ),
    Mutant(
        "a slope with the wrong sign", ELEMENTWISE,
        "slopes=(lambda y, x: 1 / (1 + x),)", "slopes=(lambda y, x: 1 / (1 - x),)",
        f"{EVERY} -k log1p",
    ),
    Mutant(
        "a kept program that ignores plain arguments", KEPT,
        "noted += (kind, x if exact else repr(x))", "noted += (kind,)",
        f"{EVERY} -k plain_argument",
    ),
    Mutant(
        "a kept program that takes -0.0 for 0.0", KEPT,
        "exact = kind is not float or (x and x == x)", "exact = True",
        f"{EVERY} -k plain_argument",
    ),
]  # fmt: skip


def run(mutant: Mutant, folder: Path) -> bool:
    """True if a test fails with the fault."""
    path = folder / PACKAGE.name / mutant.file
    text = path.read_text(encoding="utf-8")
    assert text.count(mutant.right) == 1, f"{mutant.file} has {text.count(mutant.right)} times: {mutant.right}"
    path.write_text(text.replace(mutant.right, mutant.wrong), encoding="utf-8")
    started = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:scoreboard-recorder",
        *shlex.split(mutant.tests),
    ]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False
    )
    path.write_text(text, encoding="utf-8")
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("FAILED")]
    seen = done.returncode == 1 and bool(failed)
    print(
        f"{'seen' if seen else 'NOT SEEN'} in {time.perf_counter() - started:3.0f} s: {mutant.fault}: {' '.join(failed)}",
        flush=True,
    )
    if not seen and done.returncode not in (0, 1):
        print(done.stdout[-2000:], done.stderr[-2000:])
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    words = parser.parse_args().words
    chosen = [m for m in MUTANTS if not words or any(word in m.fault + m.file for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(PACKAGE, Path(folder) / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
        seen = [run(mutant, Path(folder)) for mutant in chosen]
    print(f"{sum(seen)} of {len(seen)} faults seen")
    sys.exit(not all(seen))


if __name__ == "__main__":
    main()
