"""``nn.from_torch`` where there is no PyTorch: what it says, what is listed, and that nothing is imported before it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openbnns import nn
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
