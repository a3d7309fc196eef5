"""Determinants and inverses in networks: formulas, gradients, and model files that other processes read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import nn
from openbnns.interop.converted.functions import Determinant, DeterminantSign, Inverse, LogDeterminant

FORMULAS: dict[Any, Any] = {
    Determinant: np.linalg.det,
    LogDeterminant: lambda x: np.linalg.slogdet(x)[1],
    DeterminantSign: lambda x: np.linalg.slogdet(x)[0],
    Inverse: np.linalg.inv,
}


class Net(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function.apply(x)


def matrices(n: int, size: int) -> Any:
    random = np.random.default_rng(10 * n + size)
    return (random.standard_normal((n, size, size)) + 2 * np.eye(size)[random.permutation(size)]).astype(np.float32)


@pytest.mark.parametrize("function", FORMULAS)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_formulas_and_gradients(function: Any, size: int) -> None:
    net, formula, x = Net(function), FORMULAS[function], matrices(6, size)
    y = net(x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(y, formula(wide), rtol=1e-4, atol=1e-5)
    random = np.random.default_rng(1)
    dy, u = random.standard_normal(y.shape).astype(np.float32), random.standard_normal(x.shape)
    gradient = net.backward(dy)
    h = 1e-6
    slope = (dy * (formula(wide + h * u) - formula(wide - h * u)) / (2 * h)).sum()
    assert (0.0 if gradient is None else float((gradient * u).sum())) == pytest.approx(slope, rel=1e-3, abs=1e-3)


def test_singular_matrices() -> None:
    x = np.ones((2, 3, 3), np.float32)
    np.testing.assert_allclose(Net(Determinant).eval()(x), 0, atol=1e-6)
    assert (Net(DeterminantSign).eval()(x) == 0).all()
    assert np.isneginf(Net(LogDeterminant).eval()(x)).all()
    with pytest.raises(ValueError, match=r"[Ss]ingular matrix"):
        Net(Inverse).eval()(x)


def test_a_model_file_in_another_process(tmp_path: Path) -> None:
    net, x = Net(Determinant).eval(), matrices(3, 4)
    y = net(x)
    net.save_model(tmp_path / "model.safetensors")
    np.save(tmp_path / "x.npy", x)
    program = "import sys, numpy as np; from openbnns import nn; print(nn.load_model(sys.argv[1])(np.load(sys.argv[2])).tolist())"
    given = [str(tmp_path / name) for name in ("model.safetensors", "x.npy")]
    done = subprocess.run([sys.executable, "-c", program, *given], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(y.tolist())
