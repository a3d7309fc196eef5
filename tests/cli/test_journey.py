"""The journey of docs/in_and_out.md, from the ONNX file to the printed predictions of the C program and to Core ML."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns
from openbnns import nn
from openbnns.datasets import load_digits
from pages import ROOT

COUNT = 20  # images that the page classifies


def block(kind: str) -> str:
    """The one block of this kind in the journey."""
    _, journey = (ROOT / "docs" / "in_and_out.md").read_text().split("\n## A journey\n")
    (code,) = re.findall(rf"^```{kind}\n(.*?)^```$", journey, re.DOTALL | re.MULTILINE)
    return code


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the Python code of the page has run, with ``main.c``, and commands that are strict."""
    journey_folder = tmp_path_factory.mktemp("journey")
    before = Path.cwd()
    os.chdir(journey_folder)
    try:
        exec(compile(block("python"), "docs/in_and_out.md", "exec"), {"__name__": "__main__"})
    finally:
        os.chdir(before)
    (journey_folder / "main.c").write_text(block("c"))
    for name, command in {
        "openbnns": f"{shlex.quote(sys.executable)} -m openbnns",
        "cc": "gcc -Wall -Wextra -Werror",
    }.items():
        (journey_folder / "bin").mkdir(exist_ok=True)
        program = journey_folder / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o755)
    return journey_folder


def run(command: str, folder: Path) -> str:
    """The output of a command of the page."""
    paths = {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(openbnns.__file__).parents[1]),
    }
    done = subprocess.run(
        ["bash", "-eu", "-c", command], cwd=folder, env=os.environ | paths, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def scores(folder: Path) -> np.ndarray:
    """Scores of the network for the images that the page classifies, one at a time as the C program has them."""
    net = nn.load_model(folder / "digits.safetensors").eval()
    outputs: Any = np.concatenate([net(image[None]) for image in load_digits()[2][:COUNT]])
    assert (outputs.argmax(1) == load_digits()[3][:COUNT]).mean() > 0.8  # it has learned something
    assert len(set(outputs.argmax(1))) > 5
    return outputs


def test_the_c_program_prints_what_the_network_says(folder: Path, scores: np.ndarray) -> None:
    printed = run(block("sh").splitlines()[1], folder).splitlines()
    assert printed == [f"{row.argmax()} {row.max():.6f}" for row in scores]


@pytest.mark.peers
def test_the_package_of_core_ml_says_the_same(folder: Path, scores: np.ndarray) -> None:
    import mil_numpy

    run(block("sh").splitlines()[0], folder)
    package = folder / "digits.mlpackage"
    _, spec = mil_numpy.load(package)
    (given,) = spec.description.input
    for image, row in zip(load_digits()[2], scores, strict=False):
        outputs = mil_numpy.run(package, **{given.name: image[None]})
        assert outputs["classLabel"] == str(row.argmax())
        grown = np.exp(row.astype(np.float64) - row.max())
        probabilities = outputs[spec.description.predictedProbabilitiesName]
        np.testing.assert_allclose(list(probabilities.values()), grown / grown.sum(), atol=1e-5)
