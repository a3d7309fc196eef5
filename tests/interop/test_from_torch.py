"""``nn.from_torch`` where there is no PyTorch: what it says, what is listed, and that nothing is imported before it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import nn
from openbnns.graph.polynomials import Polynomial
from openbnns.interop.torch._steps import Trials
from openbnns.interop.torch._supported import table

PAGE = Path(__file__).parents[2] / "docs" / "from_torch.md"


@pytest.fixture
def _no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.mark.usefixtures("_no_torch")
@pytest.mark.parametrize(
    "call",
    [
        lambda: nn.from_torch(None, None),
        lambda: nn.to_torch_state_dict(nn.Linear(3, 2)),
        lambda: nn.Linear(3, 2).to_torch_state_dict(),
    ],
)
def test_without_pytorch(call: Any) -> None:
    with pytest.raises(ImportError, match=r"torch\w* needs PyTorch, .*pip install torch.*safetensors"):
        call()


def test_nothing_is_imported_before_it_is_used() -> None:
    program = (
        "import sys; from openbnns import nn; print('openbnns.interop.torch' in sys.modules, 'from_torch' in dir(nn)); "
    )
    program += "nn.from_torch; print('openbnns.interop.torch' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True", "False"]


def test_the_documentation_lists_what_is_supported() -> None:
    assert table() in PAGE.read_text(encoding="utf-8"), f"docs/from_torch.md should have this table:\n{table()}"


def test_layers_have_pytorchs_names() -> None:
    for name in nn.pytorch.supported()["modules"]:
        assert hasattr(nn, name.removeprefix("nn."))


def test_expressions_in_free_sizes() -> None:
    random = np.random.default_rng(0)
    for _ in range(500):
        names = list("NEHW"[: random.integers(1, 5)])
        trials = Trials.of({name: int(random.integers(2, 30)) for name in names})
        assert len(trials.sizes) == len(names) + 2
        sizes = [Polynomial.of(name) for name in names]
        a, b = (sizes[i] for i in random.integers(0, len(sizes), 2))
        linear = Polynomial.of(int(random.integers(-9, 10)))
        for size in sizes:
            linear += size * Polynomial.of(int(random.integers(-4, 9)))
        for wanted in (linear, a * b * Polynomial.of(int(random.integers(1, 9))), a * a - a):
            numbers = [wanted.value(run) for run in trials.sizes]
            assert trials.expression(numbers) == wanted
            numbers[-1] += 1
            assert trials.expression(numbers) is None
    assert Trials.of({"N": 2, "E": 3}).expression([2**2, 2**3, 2**2, 2**5]) is None
