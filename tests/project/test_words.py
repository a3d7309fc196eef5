"""Docstrings, comments and messages are in plain English, as far as a test can tell."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "src" / "openbnns"
FOLDERS = (PACKAGE, *(REPOSITORY / name for name in ("benchmarks", "examples", "tests", "tools")))
FILES = [path for folder in FOLDERS for path in sorted(folder.rglob("*.py")) if path != Path(__file__)]

# A docstring begins with a noun, "True if" or an imperative verb, not with a clause or a fragment of one: "Return the sum" or
# "The sum", not "Returns the sum". These verbs are no plurals of nouns.
VERBS = (
    "Adds|Asks|Belongs|Brings|Chooses|Collects|Compares|Computes|Converts|Exits|Finds|Follows|Gives|Keeps|Lets|Makes|Prints|"
    "Puts|Raises|Reads|Returns|Says|Sends|Shows|Stands|Takes|Tells|Wraps|Writes"
)
OPENINGS = re.compile(rf"(?:What|Whether|Of|Those|Whose|{VERBS})\b")

PHRASES = {
    r"(?<!here )\b(?:is|are|was|were) no (?!longer\b|more\b)": "write `is not a ...`",
    r"\bone's own\b": "write `custom` or `your own`",
    r"\b(?:does|do|did|will|would) not do\b(?! \w)": "say what is wrong: `is too small`",
    r"\b(?:no|any|some|every)body\b|\b[Ww]hoever\b": "name the thing, or use the passive",
    r"\b(?:him|her|one)self\b": "write `you` or name the thing",
}


VAGUE = re.compile(r"found\d*")
"""Names that say nothing of what they hold: a result has a name of its own, in tests `actual` beside `expected`."""


HOMES = {
    "Function": {"graph/numpy_function.py", "interop/coreml/program.py"},
    "Tensor": {"graph/tensor.py", "interop/coreml/builder.py"},
    "Operator": {"interop/onnx/_operator.py"},
    "Place": {"interop/coreml/program.py", "interop/torch/errors.py"},
    "Preparation": {"parameters/optimizer.py"},
    "State": {"interop/coreml/execution.py"},
}
"""The files that may define a class of this name. More than one: ML programs and Swift's builder have names of their own, and a
place is a line of source code in both."""


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Strings that are statements, with their lines: docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def complaints(path: Path) -> list[str]:
    """The faults of a file."""
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(REPOSITORY).as_posix()
    faults = [
        f"{name}, line {line}: a docstring begins with {opening[0]!r}"
        for line, docstring in docstrings(text)
        if (opening := OPENINGS.match(docstring))
    ]
    # Texts go on in the next line, where quotes or a # may come between two words.
    joined = re.sub(r"""(?<=\w) ?["']?\n +(?:[fr]*["']|# ?)?(?=\w)""", " ", text)
    for phrase, advice in PHRASES.items():
        for match in re.finditer(phrase, joined):
            around = joined[max(0, match.start() - 30) : match.end() + 30].replace("\n", " ")
            faults.append(f"{name}: ... {around} ...: {advice}")
    return faults


def names(text: str) -> Iterator[tuple[int, str]]:
    """Names that are bound or passed, with their lines: of variables, arguments, attributes, imports and exceptions."""
    for node in ast.walk(ast.parse(text)):
        for field in ("id", "arg", "attr", "asname", "name"):
            if isinstance(name := getattr(node, field, None), str):
                yield getattr(node, "lineno", 0), name


def test_texts_are_plain() -> None:
    assert len(FILES) > 700
    assert not [complaint for path in FILES for complaint in complaints(path)]


def test_names_say_what_they_hold() -> None:
    for path in FILES:
        vague = [place for place in names(path.read_text(encoding="utf-8")) if VAGUE.fullmatch(place[1])]
        assert not vague, f"{path.relative_to(REPOSITORY)}: {vague}: name the thing, or `actual` beside `expected`"


SOURCE_FILE = re.compile(r"(?<![-./\w])[a-z_][\w/]*\.(?:py|cpp)\b(?!\()")
"""The name of a file of source code, with folders before it or without."""


def comments(text: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Comments of Python and C++, and docstrings of Python without their examples, with their lines."""
    if suffix != ".py":
        for number, line in enumerate(text.splitlines(), 1):
            yield number, line.partition("//")[2]
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for number, docstring in docstrings(text):
        yield number, re.sub(r"^ *(?:>>>|\.\.\.) .*", "", docstring, flags=re.MULTILINE)


def test_files_that_comments_name_exist() -> None:
    core = REPOSITORY / "core"
    folders = (PACKAGE, core, *(REPOSITORY / name for name in ("benchmarks", "docs", "examples", "tests", "tools")))
    existing = [
        file.relative_to(REPOSITORY).as_posix().split("/") for folder in folders for file in folder.rglob("*.*")
    ]
    names = {"/".join(parts[k:]) for parts in existing for k in range(len(parts))}
    stale = [
        f"{path.relative_to(REPOSITORY)}, line {line}: {name}"
        for path in [*FILES, *core.rglob("*.cpp"), *core.rglob("*.h")]
        if SOURCE_FILE.search(text := path.read_text(encoding="utf-8"))
        for line, comment in comments(text, path.suffix)
        for name in SOURCE_FILE.findall(comment)
        if name not in names
    ]
    assert not stale, "these comments name files that do not exist"


def test_words_have_one_meaning() -> None:
    """Classes, aliases and type variables; a leading underscore does not make another word of it."""
    homes: dict[str, set[str]] = {name: set() for name in HOMES}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            targets = node.targets if isinstance(node, ast.Assign) else []
            defined = [target.id for target in targets if isinstance(target, ast.Name)]
            defined += [node.name] if isinstance(node, ast.ClassDef) else []
            for name in {name.lstrip("_") for name in defined} & homes.keys():
                homes[name].add(path.relative_to(PACKAGE).as_posix())
    assert homes == HOMES
