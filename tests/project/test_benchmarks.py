"""Output of the benchmarks: files that later runs add to, pages, and the plots of the documentation."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from benchmark_results import NAME, made_up, page, results
from pages import ROOT

SVG = "{http://www.w3.org/2000/svg}"


def test_a_run_adds_to_the_file_of_its_machine(tmp_path: Path) -> None:
    earlier, later = made_up(), results.Results(made_up().about | {"torch": "3.0"})
    later.cases.append({**earlier.cases[0], "ours": 0.5, "note": math.nan})
    later.cases.append({**earlier.cases[0], "threads": 1})
    later.figures.append({"name": "new", "value": 1.0})
    joined = later.joined(earlier)
    assert joined.about["torch"] == "3.0"
    assert [c["ours"] for c in joined.cases if c["name"] == earlier.cases[0]["name"]] == [0.5, 1e-3]
    assert len(joined.cases) == len(earlier.cases) + 1 and len(joined.figures) == len(earlier.figures) + 1
    assert len(joined.sweep) == len(earlier.sweep)
    joined.write(tmp_path / "a" / "results.json")
    read = results.Results.read(tmp_path / "a" / "results.json")
    assert (read.about, read.figures, read.sweep) == (joined.about, joined.figures, joined.sweep)
    assert read.cases[0]["note"] is None
    for name, value in (("instruction set", "avx512"), ("note", "")):
        other = results.Results(earlier.about | {name: value})
        with pytest.raises(
            ValueError, match=f"the file is about another machine: its {name} is .*, here it is '{value}'"
        ):
            other.joined(earlier)


def test_results_say_what_they_were_measured_on(monkeypatch: pytest.MonkeyPatch) -> None:
    about = results.about("under emulation")
    assert about["note"].endswith("under emulation")
    assert {"processor", "instruction set", "openbnns", "torch", "jax", "numpy", "peak", "measured"} <= set(about)
    xeon = {"processor": "Intel(R) Xeon(R) Processor @ 2.80GHz", "instruction set": "avx512"}
    assert results.file_name(xeon) == "intel-xeon-2.80ghz-avx512"
    monkeypatch.setattr(results, "_flags", lambda: {"avx512f"})
    monkeypatch.setenv("OPENBNNS_ISA", "avx2")
    assert results._limited("avx2") == "limited to avx2 on a processor that has AVX-512"
    assert results._limited("avx512") == ""
    monkeypatch.setattr(results, "_flags", set)
    assert results._limited("avx2") == ""


def test_the_page_says_what_was_measured() -> None:
    """The numbers are there; tests of the report's pages check that pages are whole, closed and readable."""
    text = page.page(made_up())
    assert NAME not in text and "quite&lt;/b&gt;" in text
    for piece in (
        "Share of peak by operands",
        "times as fast as the best peer",
        "under emulation",
        "0.50, PyTorch eager",
        "pooling/2",
        "of five seeds",
    ):
        assert piece.lower() in text.lower(), piece
    assert dict(page.summary(made_up())) == {
        "matrix products of size 512 and above, share of peak": "46\u00a0% to 90\u00a0%",
        "training steps, times as fast as the best of PyTorch, geometric mean of 2": "1.00",
        "training steps, times as fast as JAX, geometric mean of 1": "3.00",
        "inference, times as fast as onnxruntime, geometric mean of 1": "1.50",
        "training steps in bfloat16, times as fast as PyTorch under autocast, geometric mean of 1": "1.60",
        "inference in int8, times as fast as onnxruntime's quantized models, geometric mean of 1": "1.20",
        "operations, times as fast as PyTorch, geometric mean of 9": f"{(2 * 1 * 2 / 3) ** (1 / 3):.2f}",
    }


def test_parts_that_were_not_measured_are_left_out() -> None:
    nothing = results.Results(made_up().about)
    text = page.page(nothing)
    assert "Machine and versions" in text and "Training steps" not in text and "Matrix products" not in text


def test_the_picture_of_the_readme_is_shapes_and_text() -> None:
    """No HTML inside, which viewers of repositories leave out; a bar for each step that PyTorch was compared in."""
    tree = ElementTree.fromstring(page.picture(made_up()))
    assert {element.tag for element in tree.iter()} == {
        SVG + n for n in ("svg", "title", "style", "text", "rect", "path")
    }
    steps = [
        f for f in made_up().figures if f["name"].startswith("training/") and any("PyTorch" in p for p in f["peers"])
    ]
    assert len(list(tree.iter(f"{SVG}rect"))) == len(steps) > 0
    widths = [float(rect.get("width", "")) for rect in tree.iter(f"{SVG}rect")]
    ratios = [min(f["peers"].values()) / f["ours"] for f in steps]
    assert np.allclose(widths, np.divide(ratios, max(ratios)) * max(widths), atol=0.1)


def test_the_page_of_the_documentation_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    """tools/benchmark_gallery.py writes it from the files that are kept."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    gallery = importlib.import_module("benchmark_gallery")
    kept = gallery.known()
    assert gallery.PAGE.read_text() == gallery.page(kept)
    for name, measured in kept.items():
        text = gallery.pages.picture(measured)
        assert (gallery.FOLDER / f"{name}.svg").read_text() == text, f"{name}: run python tools/benchmark_gallery.py"


def test_every_benchmark_has_a_name_of_its_own() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--list"], capture_output=True, text=True, check=True
    )
    names = run.stdout.splitlines()
    assert len(names) == len(set(names)) > 200
    for part in ("sweep/4096 At Bt", "training/time of a step, MLP 64-32-10 batch 32", "inference/LeNet 28x28 batch 1"):
        assert part in names


def test_a_sweep_is_measured_and_shown(tmp_path: Path) -> None:
    """One size, with every side that is installed."""
    target = tmp_path / "found.json"
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "run.py"),
        "--only",
        "sweep/65 At",
        "--json",
        str(target),
        "--note",
        "a test",
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    measured = json.loads(target.read_text())
    assert [point["form"] for point in measured["sweep"]] == ["At B", "At Bt"]
    for point in measured["sweep"]:
        assert point["ours"] > 0 and point["ceiling"] > 0 and "numpy" in point["peers"]
        assert point["rate"] == pytest.approx(2 * 65**3 / point["ours"] / 1e9)
        assert point["share"] == pytest.approx(point["rate"] / point["ceiling"])
    assert "a test" in measured["about"]["note"] and "65 At Bt" in target.with_suffix(".html").read_text()
    assert str(target) in run.stdout
