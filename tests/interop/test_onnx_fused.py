"""Operators of onnxruntime, and quantized ones, against formulas in NumPy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import openbnns
from onnxruntime_cases import CASES, Case, check
from openbnns import nn


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_formulas(case: Case, tmp_path: Path) -> None:
    net = nn.from_onnx(case.write(tmp_path / "m.onnx"), batch_axis=None)
    check(net, case, case.expected())


@pytest.mark.parametrize("case", [c for c in CASES if c.trains and not c.steps], ids=lambda case: case.op)
def test_gradients(case: Case, tmp_path: Path) -> None:
    net = nn.from_onnx(case.write(tmp_path / "m.onnx"), batch_axis=None).train()
    assert openbnns.gradcheck(net, *case.inputs.values(), verbose=False).passed


def test_samples_of_different_lengths_are_refused(tmp_path: Path) -> None:
    case = next(c for c in CASES if c.op == "GroupQueryAttention")
    ends = case.weights["n"]
    net = nn.from_onnx(
        replace(case, weights=case.weights | {"n": ends - np.int32([0, 1])}).write(tmp_path / "m.onnx"), batch_axis=None
    )
    with pytest.raises(ValueError, match=r"seqlens_k is \[5, 4\] for 6 keys"):
        net(*case.inputs.values())
