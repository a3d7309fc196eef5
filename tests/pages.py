"""The pages of the documentation, and the blocks of code on them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)


def blocks(kind: str) -> list[Any]:
    """The blocks of code of this kind on all pages, each a parameter of a test: page, line of its fence, text."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in re.finditer(rf"^```{kind}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            line = text.count("\n", 0, block.start()) + 1
            found.append(pytest.param(page, line, block[1], id=f"{page.relative_to(ROOT)}:{line}"))
    return found


def run_alone(page: Path, line: int, code: str) -> None:
    """As somebody would paste it into a new session."""
    exec(compile("\n" * line + code, str(page), "exec"), {"__name__": "__main__"})
