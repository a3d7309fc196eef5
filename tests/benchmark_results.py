"""Made-up results of benchmarks, for the tests of their page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import page
import results

SIZES = (64, 127, 512, 1025, 4096)
FORMS = ("A B", "A Bt", "At B", "At Bt")
NAME = 'a network with <b>quite</b> a long name & "quotes"'


def made_up() -> results.Results:
    about = {
        "processor": "Some CPU @ 2.00GHz", "cores": "2", "instruction set": "avx2", "system": "Linux 6",
        "note": "under emulation", "openbnns": "1.0", "torch": "2.0", "jax": "none", "onnxruntime": "1.0", "numpy": "2.0",
        "python": "3.12", "peak": "a loop", "measured": "2026-01-02",
    }  # fmt: skip
    return results.Results(about, _cases(), _figures(), _sweep())


def write_page(path: Path) -> None:
    page.write(made_up(), path)


def _cases() -> list[dict[str, Any]]:
    return [
        {
            "name": f"{family}/{i}", "threads": 2, "ours": 1e-3 * (i + 1), "torch": 2e-3, "ratio": 2 / (i + 1), "rate": 50.0 + i,
            "rate_unit": "GFLOP/s", "share": 0.5, "ceiling": 100.0 * (family != "pooling"), "wrong": "",
        }
        for family in ("convolution", "pooling", "fully connected")
        for i in range(3)
    ]  # fmt: skip


def _figures() -> list[dict[str, Any]]:
    common: dict[str, Any] = {"unit": "x", "target": None, "at_most": False, "note": "", "passed": None, "share": 0.4}
    steps = [
        {**common, "name": f"training/{NAME}", "value": 2.0, "ours": 1e-3, "peers": {"PyTorch channels last": 2e-3, "JAX": 3e-3}},
        {**common, "name": "training/other", "value": 0.5, "ours": 4e-5, "peers": {"PyTorch eager": 2e-5}, "share": None},
        {**common, "name": "inference/one", "value": 1.5, "ours": 4e-6, "peers": {"onnxruntime": 6e-6, "PyTorch": 2e-5}},
    ]  # fmt: skip
    steps += [
        {**common, "name": "bfloat16/step", "value": 1.6, "ours": 1e-3, "peers": {"PyTorch": 1.6e-3}, "share": None},
        {**common, "name": "int8/network", "value": 1.2, "ours": 1e-3, "peers": {"onnxruntime": 1.2e-3}, "share": None},
    ]
    plain = {**common, "ours": None, "peers": {}, "share": None}
    return [
        *steps,
        {**plain, "name": "overhead/call", "value": 0.6, "unit": "us", "target": 1.0, "at_most": True, "passed": True},
        {**plain, "name": "int8/accuracy", "value": 0.1, "unit": "per cent lost", "note": "of five seeds"},
        {**plain, "name": "training/not measured", "value": None},
    ]


def _sweep() -> list[dict[str, Any]]:
    return [
        {
            "name": f"sweep/{size} {form}", "threads": threads, "size": size, "form": form, "ours": 1e-9 * size**2,
            "peers": {"torch": 1.1e-9 * size**2, "numpy": 1.3e-9 * size**2}, "rate": 90.0, "ceiling": 100.0,
            "share": 0.4 + size / 8192, "disturbance": 0.0,
        }
        for threads in (1, 2)
        for size in SIZES
        for form in FORMS
    ]  # fmt: skip
