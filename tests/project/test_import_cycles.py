"""Import cycles: modules that need each other, directly or through others."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import openbnns

ROOT = Path(openbnns.__file__).parent
LARGEST = 5  # modules in a cycle

# Methods of one line that look up what they do in a room above theirs when they are called.
UPWARD = {
    ("abi.memory", "layers.descriptor_memory"),  # what Swift adds to descriptors
    ("abi.memory", "capi.utility"),
}

# Rooms whose larger cycles are still to be cut. Take a room out of this list when it is done.
UNFINISHED = ("nn",)

Imports = Mapping[str, set[str]]


def modules() -> dict[str, Path]:
    """The modules of the package by their names below it; the package itself is ""."""
    names = {}
    for path in sorted(ROOT.rglob("*.py")):
        *folders, name = path.relative_to(ROOT).with_suffix("").parts
        names[".".join(folders if name == "__init__" else [*folders, name])] = path
    return names


def imported(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules that one imports: at load, for type checkers, or in a function."""
    parts = name.split(".") if name else []
    package = parts if path.name == "__init__.py" else parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            home = [*package[: len(package) - node.level + 1], *(node.module.split(".") if node.module else [])]
            for alias in node.names:
                module = ".".join([*home, alias.name])
                yield module if module in known else ".".join(home)


@cache
def imports() -> Imports:
    known = modules()
    graph = {name: set(imported(name, path, known)) - {name} for name, path in known.items()}
    for module, target in UPWARD:
        graph[module].discard(target)
    return graph


def reachable(graph: Imports, start: str) -> set[str]:
    """The modules that one imports, directly or through others."""
    met: set[str] = set()
    left = [start]
    while left:
        for target in graph.get(left.pop(), set()) - met:
            met.add(target)
            left.append(target)
    return met


def cycles(graph: Imports) -> list[list[str]]:
    """Groups of modules of which each imports all others, directly or through others; the largest first."""
    below = {name: reachable(graph, name) for name in graph}
    groups = {tuple(sorted({name, *(n for n in below[name] if name in below[n])})) for name in graph}
    return sorted((list(group) for group in groups if len(group) > 1), key=len, reverse=True)


def is_unfinished(cycle: list[str], room: str) -> bool:
    return any(name == room or name.startswith(f"{room}.") for name in cycle)


def test_cycles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert cycles(graph) == [["a", "b", "c"], ["d", "e"]]


def test_no_cycle_is_large() -> None:
    large = [cycle for cycle in cycles(imports()) if len(cycle) > LARGEST]
    assert [cycle for cycle in large if not any(is_unfinished(cycle, room) for room in UNFINISHED)] == []


def test_unfinished_rooms_have_something_to_do() -> None:
    large = [cycle for cycle in cycles(imports()) if len(cycle) > LARGEST]
    done = [room for room in UNFINISHED if not any(is_unfinished(cycle, room) for cycle in large)]
    assert done == [], f"take {done} out of UNFINISHED"


def test_upward_references_exist() -> None:
    known = modules()
    assert [pair for pair in sorted(UPWARD) if pair[1] not in imported(pair[0], known[pair[0]], known)] == []
