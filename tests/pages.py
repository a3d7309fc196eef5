"""The pages of the documentation, and the blocks of code on them."""

from __future__ import annotations

import pkgutil
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import openbnns

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)
MODULES = [  # the examples of openbnns.sklearn are run with scikit-learn, by test_estimators_vs_sklearn.py
    m.name
    for m in pkgutil.walk_packages(openbnns.__path__, "openbnns.")
    if not m.name.endswith("__main__") and not m.name.startswith("openbnns.sklearn")
]


def blocks(kind: str) -> list[Any]:
    """The blocks of code of this kind on all pages, each a parameter of a test: page, line of its fence, text."""
    parameters = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in re.finditer(rf"^```{kind}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            line = text.count("\n", 0, block.start()) + 1
            parameters.append(pytest.param(page, line, block[1], id=f"{page.relative_to(ROOT)}:{line}"))
    return parameters


def run_alone(page: Path, line: int, code: str) -> None:
    """Run it as if pasted into a new session."""
    exec(compile("\n" * line + code, str(page), "exec"), {"__name__": "__main__"})


class Cells(HTMLParser):
    """The texts of a page, by tag; fails where tags do not close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1], data))
