"""The code in CONTRIBUTING.md that adds an activation and an operation, in a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import openbnns

PACKAGE = Path(openbnns.__file__).parent
PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = [block.rstrip() for block in re.findall(r"^```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)]
CHECKS = """
import doctest
import sys
from pathlib import Path

import numpy as np

from openbnns import gradcheck, nn
from openbnns.nn import functional as F

finder = doctest.DocTestFinder().find(nn.Snake, "Snake", globs={})
assert doctest.DocTestRunner().run(finder[0]).failed == 0 and finder[0].examples
x = np.float32([[0.2, 0.7]])
assert np.allclose(F.snake(x, alpha=2), x + np.sin(2 * x) ** 2 / 2) and np.allclose(nn.Snake(2)(x), F.snake(x, 2))
assert np.allclose(F.logit(x), np.log(x / (1 - x)))


class Net(nn.Module):
    def forward(self, x):
        return x.logit()


net = Net().eval()
assert np.allclose(net(x), F.logit(x))
assert all(gradcheck(module, x).ok for module in (nn.Snake(), Net()))
folder = Path(sys.argv[1])
net.to_onnx(folder / "net.onnx")
assert np.allclose(nn.from_onnx(folder / "net.onnx")(x), net(x), atol=1e-6)
net.save_model(folder / "net.safetensors")
assert np.allclose(nn.load_model(folder / "net.safetensors")(x), net(x))
net.to_coreml(folder / "net.mlpackage")
assert np.allclose(nn.from_coreml(folder / "net.mlpackage").eval()(x), net(x), atol=1e-6)
"""


def block(start: str) -> str:
    (text,) = (text for text in BLOCKS if text.startswith(start))
    return text


def test_the_code_of_both_recipes_works(tmp_path: Path) -> None:
    copy = tmp_path / "copy" / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    imported = " ".join(PAGE.split("add those that are missing: `")[1].split("`")[0].split())
    to_onnx, to_core_ml = block('    "logit": lambda f').splitlines()
    for file, text in {
        "graph/functions/activations.py": f"from .elementwise import {imported}\n{block('@function')}\n__all__ += ['snake']",
        "nn/activation.py": block("class Snake"),
        "nn/__init__.py": "from .activation import Snake",
        "graph/functions/elementwise.py": f"{block('@elementwise')}\n__all__ += ['logit']",
        "interop/onnx/writers/elementwise.py": f"_FUNCTIONS |= {{{to_onnx}}}",
        "interop/coreml/exporting/positions.py": f"_FORMULAS |= {{{to_core_ml}}}",
    }.items():
        with (copy / file).open("a", encoding="utf-8") as end:
            end.write(f"\n\n{text}\n")
    done = subprocess.run(
        [sys.executable, "-c", CHECKS, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(copy.parent)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
