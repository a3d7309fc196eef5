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


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """The rooms that a module imports from when it is loaded or type-checked, each with the line that does."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or id(node) in inside or node.level == 0:
            continue
        above = parts[: len(parts) - node.level]
        target = [*above, *(node.module or "").split(".")] if node.module else [*above]
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
