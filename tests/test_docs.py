"""Every example in the README, the docs pages and the docstrings runs, every public name has one, every link leads somewhere."""

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import openbnns
from openbnns import capi, compat, nn

ROOT = Path(__file__).parent.parent
MODULES = [  # the examples of openbnns.sklearn are run with scikit-learn, by test_vs_sklearn.py
    m.name
    for m in pkgutil.walk_packages(openbnns.__path__, "openbnns.")
    if not m.name.endswith("__main__") and not m.name.startswith("openbnns.sklearn")
]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)
FACES = {"openbnns": openbnns, "openbnns.capi": capi, "openbnns.nn": nn}


def public_names() -> list[str]:
    """The classes and functions that users import, by full name; constants and modules have no docstring of their own."""
    found = ["openbnns.compat.using", "openbnns.datasets.load_digits"]
    for prefix, face in FACES.items():
        for name in sorted(face.__all__):
            thing = getattr(face, name)
            if callable(thing) and not isinstance(thing, (int, ModuleType)):
                found.append(f"{prefix}.{name}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_run(page: Path) -> None:
    namespace: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text()):
        if "://" in target:
            continue
        linked = page.parent / target if target else page
        assert linked.exists(), f"{page.name} links to {target}, which does not exist"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
            known = {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
            assert anchor in known, f"{page.name} links to {target}#{anchor}, but there is no such heading"


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_has_an_example(name: str) -> None:
    """In its own docstring, with all imports, so that the example can be pasted."""
    place, _, last = name.rpartition(".")
    thing = getattr(importlib.import_module(place), last)
    text = thing.__dict__.get("__doc__") if inspect.isclass(thing) else thing.__doc__
    assert text, f"{name} has no docstring"
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert test.examples, f"the docstring of {name} has no example"
    said: list[str] = []
    assert doctest.DocTestRunner(verbose=False).run(test, out=said.append).failed == 0, "".join(said)


def test_every_function_is_on_a_page() -> None:
    """The page for people who come from C says for each function where it is explained."""
    page = (ROOT / "docs" / "coming_from_c.md").read_text()
    functions = [name for name in capi.__all__ if inspect.isfunction(getattr(capi, name))]
    assert len(functions) == 97
    for name in functions:
        row = re.search(rf"^\|.*`{name}`.*\]\((.*\.md)\).*\|$", page, re.MULTILINE)
        assert row, f"docs/coming_from_c.md does not list {name} with a page"
        assert name in (ROOT / "docs" / row[1]).read_text(), f"{row[1]} does not mention {name}"


def test_the_page_of_networks_names_every_module() -> None:
    page = (ROOT / "docs" / "training.md").read_text()
    modules = [
        name for name in nn.__all__ if inspect.isclass(thing := getattr(nn, name)) and issubclass(thing, nn.Module)
    ]
    assert len(modules) > 40
    assert [name for name in modules if f"`{name}" not in page] == []


def test_open_questions_name_every_switch() -> None:
    page = (ROOT / "docs" / "open_questions.md").read_text()
    assert [name for name in vars(compat.switches) if f"`{name}`" not in page] == []


def test_the_gallery_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    """tools/gallery.py writes the page, from what it has measured; every network of examples/vs_pytorch is there."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    gallery = importlib.import_module("gallery")
    rows = gallery.known()
    assert list(rows) == list(gallery.SHOWS)
    assert set(rows) == set(gallery.find_pairs())
    assert gallery.PAGE.read_text() == gallery.page(list(rows.values()))
    assert [name for name in rows if not (gallery.FOLDER / f"{name}.svg").exists()] == []
