"""Every example in the README, the docs pages and the docstrings runs, every public name has one, every link leads somewhere."""

import doctest
import enum
import functools
import importlib
import importlib.util
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest

import openbnns
from openbnns import capi, cli, compat, nn
from pages import MODULES, PAGES, ROOT, blocks, run_alone

FACES = {"openbnns": openbnns, "openbnns.capi": capi, "openbnns.nn": nn}


@functools.cache
def public_names() -> list[str]:
    """The classes and functions that users import, by full name; constants and modules have no docstring of their own."""
    names = ["openbnns.compat.using", "openbnns.datasets.load_digits"]
    for prefix, face in FACES.items():
        for name in sorted(face.__all__):
            thing = getattr(face, name)
            if callable(thing) and not isinstance(thing, (int, ModuleType)):
                names.append(f"{prefix}.{name}")
    return names


@pytest.fixture
def new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("new_folder")
@pytest.mark.parametrize(("page", "line", "code"), blocks("python"))
def test_examples_run_alone(page: Path, line: int, code: str) -> None:
    run_alone(page, line, code)


@pytest.mark.peers
@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("new_folder")
@pytest.mark.parametrize(("page", "line", "code"), blocks("py"))
def test_examples_with_other_libraries_run_alone(page: Path, line: int, code: str) -> None:
    """Examples that import PyTorch or scikit-learn."""
    run_alone(page, line, code)


def commands(code: str) -> Iterator[list[str]]:
    """The arguments of every ``openbnns`` in a block of commands."""
    for line in code.replace("\\\n", " ").splitlines():
        words = list(shlex.shlex(line, posix=True, punctuation_chars=True)) if "openbnns" in line else []
        if "openbnns" not in words or "$" in words or "pip" in words:
            continue
        given = shlex.split(line, comments=True)
        if "openbnns" in given:
            given = given[given.index("openbnns") + 1 :]
            yield given[: next((i for i, word in enumerate(given) if word in (">", "|", "&&", ";")), len(given))]


@pytest.mark.parametrize(("page", "line", "code"), blocks("sh"))
def test_commands_have_arguments_that_exist(page: Path, line: int, code: str) -> None:
    for given in commands(code):
        cli.parser_of_all().parse_args(given)


def test_the_commands_of_the_tutorial_run(new_folder: Path) -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text()
    (block,) = re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    program = new_folder / "openbnns"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m openbnns "$@"\n')
    program.chmod(0o755)
    paths = {"PATH": f"{new_folder}{os.pathsep}{os.environ['PATH']}"}
    paths["PYTHONPATH"] = str(Path(openbnns.__file__).parents[1])
    run = subprocess.run(
        ["bash", "-eu", "-c", block], env={**os.environ, **paths}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    answers = (new_folder / "answers.csv").read_text().splitlines()
    assert len(answers) == 4
    assert all(re.search("Barolo|Grignolino|Barbera", line) for line in answers[1:])
    assert (new_folder / "wine" / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text()):
        if "://" in target:
            address = urlsplit(target)
            assert address.scheme == "https" and "." in address.netloc, f"{page.name}: {target} is not an address"
            continue
        linked = page.parent / target if target else page
        assert linked.exists(), f"{page.name} links to {target}, which does not exist"
        if anchor and linked.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
            known = {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
            assert anchor in known, f"{page.name} links to {target}#{anchor}, but there is no such heading"


OWN_PAGES = [page for page in PAGES if page == ROOT / "README.md" or "docs" in page.parts]


@pytest.mark.parametrize("page", OWN_PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_code_is_narrow(page: Path) -> None:
    """At most 80 columns, so that nothing is cut off beside the navigation of the site, and little on a phone."""
    fenced, wide = False, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif (fenced or line.startswith("    ")) and len(line) > 80:
            wide.append(f"{page.name}:{number}: {line}")
    assert not fenced and wide == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


OTHER_ENGLISH = re.compile(
    r"\b(?:(?:general|initial|normal|optim|organ|quant|real|recogn|special|standard|summar|synchron|vector)is(?:e|ed|es|ing|ation|er|ers)"
    r"|(?:behavi|col|fav|hon|neighb)or(?:s|ed)?|centers?)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_are_british_with_ize(page: Path) -> None:
    """CONTRIBUTING.md says so; names in code are what they are."""
    prose = re.sub(r"^```.*?^```$|`[^`]*`|\]\([^)]*\)|<[^>]*>", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert OTHER_ENGLISH.findall(prose) == []


def with_examples() -> list[str]:
    """The modules whose text has examples; to look into all of them takes longer than to run them."""
    specs = {name: importlib.util.find_spec(name) for name in MODULES}
    return [
        name
        for name, spec in specs.items()
        if spec and str(spec.origin).endswith(".py") and ">>>" in Path(str(spec.origin)).read_text("utf-8")
    ]


@pytest.mark.parametrize("name", with_examples())
def test_examples_in_docstrings_run(name: str) -> None:
    """Examples of public names run alone, below."""
    module = importlib.import_module(name)
    known = {text_of(public) for public in public_names()}
    for test in doctest.DocTestFinder().find(module):
        if test.examples and test.docstring not in known:
            assert doctest.DocTestRunner(verbose=False).run(test).failed == 0, test.name


@functools.cache
def text_of(name: str) -> str | None:
    """The docstring of a public name itself, not of a base class."""
    place, _, last = name.rpartition(".")
    thing = getattr(importlib.import_module(place), last)
    text: str | None = thing.__dict__.get("__doc__") if inspect.isclass(thing) else thing.__doc__
    return text


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_has_an_example(name: str) -> None:
    """In its own docstring, with all imports, so that the example can be pasted."""
    text = text_of(name)
    assert text, f"{name} has no docstring"
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert test.examples, f"the docstring of {name} has no example"
    said: list[str] = []
    assert doctest.DocTestRunner(verbose=False).run(test, out=said.append).failed == 0, "".join(said)


def test_every_function_is_on_a_page() -> None:
    """The page for people who come from C says for each function where it is explained."""
    page = (ROOT / "docs" / "coming_from_c.md").read_text()
    functions = [name for name in capi.__all__ if inspect.isfunction(getattr(capi, name))]
    assert len(functions) == 97 + 42 + 10
    for name in functions:
        if name.endswith("_v2"):
            assert getattr(capi, name) is getattr(capi, name.removesuffix("_v2"))
            continue
        row = re.search(rf"^\|.*`{name}`.*\]\((.*\.md)\).*\|$", page, re.MULTILINE)
        assert row, f"docs/coming_from_c.md does not list {name} with a page"
        assert name in (ROOT / "docs" / row[1]).read_text(), f"{row[1]} does not mention {name}"


def test_the_page_of_layers_names_every_module() -> None:
    page = (ROOT / "docs" / "layers.md").read_text()
    modules = [
        name for name in nn.__all__ if inspect.isclass(thing := getattr(nn, name)) and issubclass(thing, nn.Module)
    ]
    assert len(modules) > 40
    assert [name for name in modules if f"`{name}" not in page] == []


def test_the_list_of_filters_links_to_every_family() -> None:
    page = (ROOT / "docs" / "filters.md").read_text()
    families = sorted(path.name for path in (ROOT / "docs" / "filters").glob("*.md"))
    assert [name for name in families if f"](filters/{name})" not in page] == []


def test_open_questions_name_every_switch() -> None:
    page = (ROOT / "docs" / "open_questions.md").read_text()
    assert [name for name in vars(compat.switches) if f"`{name}`" not in page] == []


def test_the_reference_has_every_public_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make docs` writes it from tools/docs_site/layout.py. Members of enums stand with their enum, modules have pages."""
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "docs_site"))
    pages = importlib.import_module("layout").pages()
    assert len({page.uri for page in pages}) == len(pages)
    assert [page.uri for page in pages if not page.entries] == []
    shown = {(page.face, entry.name) for page in pages for entry in page.entries}
    for prefix, face in FACES.items():
        short = prefix.rpartition(".")[2]
        for name in face.__all__:
            thing = getattr(face, name)
            known = isinstance(thing, (ModuleType, enum.Enum)) or (short, name) in shown
            assert known, f"{prefix}.{name} is on no page"


def test_the_gallery_shows_every_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of examples/vs_pytorch has its source and its picture on the page."""
    monkeypatch.syspath_prepend(str(ROOT))
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    for name in importlib.import_module("examples.vs_pytorch.pair").find_pairs():
        assert f"examples/vs_pytorch/{name}.py)" in page and f"(gallery/{name}.svg)" in page, name


def test_results_of_third_party_models_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are some for each model of the list; a model that does less than before is found."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "models"))
    check, zoo = importlib.import_module("check"), importlib.import_module("zoo")
    kept = json.loads(check.KEPT.read_text(encoding="utf-8"))
    assert list(kept["models"]) == [model.name for model in zoo.ZOO]
    one = next(iter(kept["models"].values()))
    assert check.lost({"passed": ["opens"]}, one) == [stage for stage in one["passed"] if stage != "opens"]
    assert check.lost(one, {}) == check.lost(one, one) == []
    assert f"{len(zoo.ZOO)} third-party models" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_pages_name_the_opsets_that_are_read() -> None:
    from openbnns.interop.onnx import _file

    for page, text in (("README.md", "opsets {} to {}"), ("docs/onnx.md", "models of opset {} to {} and")):
        assert text.format(_file.OLDEST, _file.NEWEST) in (ROOT / page).read_text(encoding="utf-8")


def test_the_page_counts_layers_of_older_networks() -> None:
    from openbnns.interop.coreml.mlmodel.program import LAYERS

    page = (ROOT / "docs" / "core_ml.md").read_text(encoding="utf-8")
    assert f"more than {len(LAYERS) // 10 * 10} kinds of layers" in page
