"""Counts what was checked against what, and writes the tables of docs/evidence.md.

    python tools/evidence.py --count             count again, in an environment with all peers: some minutes
    python tools/evidence.py                     the page only, from the counts that are kept

Counts are kept in docs/evidence.json. Run it at the top of a checkout.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
BEGIN, END = "<!-- written by tools/evidence.py -->", "<!-- end -->"
PAGE, KEPT = ROOT / "docs" / "evidence.md", ROOT / "docs" / "evidence.json"


@dataclass(frozen=True)
class Row:
    """One kind of evidence."""

    checked: str
    against: str
    command: str
    unit: str = "tests"
    files: tuple[str, ...] = ()
    """Patterns of test files, whose tests are counted."""
    count: Callable[[], int] | None = None
    """Counts something else than tests."""


def capabilities() -> int:
    import scoreboard

    return len(scoreboard.read_rows())


def observed_values() -> int:
    return len(json.loads((TESTS / "data" / "observed_cases.json").read_text(encoding="utf-8"))["cases"])


def hostile_calls() -> int:
    return sum(
        map(int, re.findall(r"fuzz_c\.py --calls (\d+)", (ROOT / "tools" / "sanitize.sh").read_text(encoding="utf-8")))
    )


def damaged_files() -> int:
    import damaged_files

    return max(
        p.default
        for _, function in inspect.getmembers(damaged_files, inspect.isfunction)
        for name, p in inspect.signature(function).parameters.items()
        if name == "count" and isinstance(p.default, int)
    )


def examples() -> int:
    """Blocks of Python on the pages, and examples in docstrings."""
    import doctest
    import importlib

    import pages

    tests_by_module = [doctest.DocTestFinder().find(importlib.import_module(name)) for name in pages.MODULES]
    return len(pages.blocks("python")) + sum(bool(test.examples) for tests in tests_by_module for test in tests)


def random_networks() -> int:
    text = (TESTS / "graph" / "test_random_networks.py").read_text(encoding="utf-8")
    (number,) = re.findall(r"^NETWORKS = (\d+)$", text, re.MULTILINE)
    return int(number)


def operator_tests() -> int:
    """The number of ONNX's own operator tests that pass."""
    run = subprocess.run(
        [sys.executable, str(TESTS / "onnx_node_tests.py")], capture_output=True, text=True, check=False, cwd=ROOT
    )
    (passed,) = re.findall(r"^([\d,]+) of [\d,]+", run.stdout, re.MULTILINE)
    return int(passed.replace(",", ""))


OWN = {
    "scoreboard": Row(
        "every capability of classic BNNS, on [the scoreboard](scoreboard.md)",
        "a test that claims it by name; `make test` fails if one has none",
        "make scoreboard", "capabilities", count=capabilities,
    ),
    "values": Row(
        "results of the kernels, for every instruction set",
        "the reference engine: float64 NumPy, written from the formulas",
        "make test", files=("test_values.py", "test_element_types.py", "test_layouts.py"),
    ),
    "gradients": Row(
        "every gradient of every family, on both engines",
        "finite differences with random cotangents",
        "openbnns check", files=("test_gradients.py", "test_gradcheck.py"),
    ),
    "networks": Row(
        "random networks: outputs, every gradient, steps of every optimizer, inference, compiled forms, two threads",
        "a float64 autograd written for the tests, which shares no code with the library",
        "make test", "networks, and others in each `make fuzz`", count=random_networks,
    ),
    "reference": Row(
        "the reference engine", "definitions and finite differences", "make test", files=("reference/test_*[!h].py",),
    ),
    "contract": Row(
        "rules that hold for every family: linear in the output gradient, the same bits twice and on any number of "
        "threads, batches equal single samples, inputs unchanged, guard bytes intact",
        "the declaration of the family's calls",
        "make test", files=("test_contract*.py", "runtime/test_threads.py", "test_buffers.py"),
    ),
    "errors": Row(
        "bad input: the message, and that no output has changed",
        "a pattern for each message",
        "make test", files=("test_*errors*.py", "test_misuse.py", "test_mistakes.py"),
    ),
    "hostile": Row(
        "the C library under AddressSanitizer and UndefinedBehaviorSanitizer, its threads under ThreadSanitizer; with "
        "AVX-512 and AVX2",
        "random hostile calls",
        "make sanitize", "calls", count=hostile_calls,
    ),
    "damaged": Row(
        "damaged ONNX, `.mlmodel`, model, safetensors and `.npz` files",
        "an error that names the file, in bounded time and memory",
        "make test-peers", "files of each kind", count=damaged_files,
    ),
    "resume": Row(
        "interrupted runs", "the weights of runs without a break, bit by bit",
        "make test", files=("test_resume*.py", "test_checkpoint_files.py"),
    ),
    "examples": Row(
        "examples on the pages and in docstrings", "they run alone, as pasted",
        "make test", "examples", count=examples,
    ),
}  # fmt: skip
"""Compared with what we meant."""

FOREIGN = {
    "observed": Row(
        "results through Python and through the C library, on both engines",
        "values that were seen on Apple's hardware or printed in Apple's documentation",
        "make test", "input and output pairs", count=observed_values,
    ),
    "programs": Row(
        "C and Swift programs written for BNNS", "their expectations, and the same calls in Python",
        "make test-c", files=("test_ported_programs.py", "c/test_programs.py", "test_clib_*.py"),
    ),
    "torch": Row(
        "filters, layers, losses, optimizers, schedules, whole networks", "PyTorch: values, gradients, training steps",
        "make test-peers", files=("test_*vs_torch*.py", "test_examples_vs_pytorch.py"),
    ),
    "onnx_nodes": Row(
        "networks from ONNX files", "ONNX's own tests of single operators",
        "python tests/onnx_node_tests.py", "of its tests pass", count=operator_tests,
    ),
    "onnx": Row(
        "networks as ONNX files and back", "onnxruntime, within 1e-5", "make test-peers", files=("test_onnx_*.py",),
    ),
    "weights": Row(
        "weights from and to other programs", "PyTorch: the same bits",
        "make test-peers", files=("test_weight_files.py",),
    ),
    "core_ml": Row(
        "Core ML packages, read back by coremltools", "an evaluation of their operations in NumPy",
        "make test-peers", files=("test_core_ml.py", "test_mlmodel.py"),
    ),
    "sklearn": Row(
        "estimators and metrics", "scikit-learn: its `check_estimator`, scores of its networks, its metrics",
        "make test-peers", files=("test_*vs_sklearn.py",),
    ),
    "browser": Row(
        "the report and this site, from phone to wide screen", "Chromium and axe-core: errors, cut-off text, accessibility",
        "make test-report", files=("*_in_chromium.py",),
    ),
}  # fmt: skip
"""Compared with what others made."""


def files_of(row: Row) -> list[str]:
    """The test files that a row names, by the end of their path, relative to the folder of tests."""
    known = [path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py")]
    return [name for name in known if any(Path(name).match(pattern) for pattern in row.files)]


def tests_by_file(names: list[str]) -> Counter[str]:
    """Tests in these files, both without and with peers."""
    counts: Counter[str] = Counter()
    for which in ("not peers", "peers"):
        pytest = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", which, "-p", "no:cacheprovider"]
        run = subprocess.run(
            [*pytest, *(f"tests/{name}" for name in names)], capture_output=True, text=True, check=True, cwd=ROOT
        )
        counts.update(
            line.partition("::")[0].removeprefix("tests/") for line in run.stdout.splitlines() if "::" in line
        )
    return counts


def counted() -> dict[str, int]:
    """The numbers of all rows, by name."""
    rows = {**OWN, **FOREIGN}
    tests = tests_by_file(sorted({file for row in rows.values() for file in files_of(row)}))
    return {
        name: row.count() if row.count else sum(tests[file] for file in files_of(row)) for name, row in rows.items()
    }


def section(kept: dict[str, Any]) -> str:
    """The part of the page that has numbers: comparisons with the work of others first."""
    lines = [BEGIN, "| checked | against | how many | command |", "|---|---|---|---|"]
    lines += [
        f"| {row.checked} | {row.against} | {kept['counts'][name]:,} {row.unit} | `{row.command}` |"
        for name, row in {**FOREIGN, **OWN}.items()
    ]
    return "\n".join([*lines, "", f"Counted on {kept['date']} by `python tools/evidence.py --count`.", END])


def page(text: str, kept: dict[str, Any]) -> str:
    """The page with these numbers."""
    before, _, rest = text.partition(BEGIN)
    return before + section(kept) + rest.partition(END)[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--count", action="store_true", help="count again, with everything that make test-peers installs"
    )
    if parser.parse_args().count:
        sys.path.insert(0, str(TESTS))
        kept = {"date": time.strftime("%Y-%m-%d"), "counts": counted()}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), kept), encoding="utf-8")


if __name__ == "__main__":
    main()
