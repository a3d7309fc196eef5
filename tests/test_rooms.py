"""The order of the packages: each imports only from those below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import openbnns

ROOT = Path(openbnns.__file__).parent

# From the ground up; rooms on one line do not know each other.
ORDER = [
    {"_cached", "_core", "_lazy", "_spelling"},
    {"engines"},
    {"errors", "_words", "_strict", "compat"},
    {"abi"},
    {"tensors"},
    {"parameters"},
    {"reference"},
    {"calls"},
    {"filters"},
    {"diagnosis", "runtime"},
    {"capi", "layers"},
    {"gradients", "datasets", "clib"},
    {"nn"},
    {"cli"},
    {"__main__"},
]
# The methods that Swift gives a descriptor take and make Shapes; they look up when they are called.
EXCEPT = {"abi/memory.py"}
FLOOR = {room: floor for floor, rooms in enumerate(ORDER) for room in rooms}


def absolute(parts: tuple[str, ...], node: ast.ImportFrom) -> list[str]:
    """Where a module below openbnns imports from."""
    return [*parts[: len(parts) - node.level], *(node.module.split(".") if node.module else [])]


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """The rooms that a module imports from when it is loaded or type-checked, each with the line that does."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or id(node) in inside or node.level == 0:
            continue
        target = absolute(parts, node)
        for name in [target[0]] if target else [alias.name for alias in node.names]:
            yield name, f"{'/'.join(parts)}.py line {node.lineno}: {name}"


def test_every_room_has_its_floor() -> None:
    rooms = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert rooms - {"__init__", "examples"} == set(FLOOR) - {"_core"}


def test_imports_go_down() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        if path.relative_to(ROOT).as_posix() in EXCEPT:
            continue
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for target, line in imports(path):
            if room in FLOOR and target in FLOOR and target != room and FLOOR[target] >= FLOOR[room]:
                wrong.append(line)
    assert not wrong


def private(path: Path) -> Iterator[str]:
    """Imports, wherever they stand, of what has a leading underscore in a package that the module is not in."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.level == 0:
            continue
        for alias in node.names:
            target = [*absolute(parts, node), alias.name]
            for depth, name in enumerate(target):
                if name.startswith("_") and not name.startswith("__") and tuple(target[:depth]) != parts[:depth]:
                    yield f"{'/'.join(parts)}.py line {node.lineno}: {'.'.join(target)}"


def test_an_underscore_means_private_to_the_package() -> None:
    wrong = [line for path in sorted(ROOT.rglob("*.py*")) if path.suffix in (".py", ".pyi") for line in private(path)]
    assert not wrong
