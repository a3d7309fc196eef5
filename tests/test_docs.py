"""Every Python example in the README and the docs pages runs, page by page."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import openbnns

ROOT = Path(__file__).parent.parent
MODULES = [m.name for m in pkgutil.walk_packages(openbnns.__path__, "openbnns.") if not m.name.endswith("__main__")]
WITH_EXAMPLES = {"capi._values", "layers.types", "layers._shape", "layers._payloads", "layers._activation_function"}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_run(page: Path) -> None:
    namespace: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
    assert result.attempted > 0 or name.removeprefix("openbnns.") not in WITH_EXAMPLES
