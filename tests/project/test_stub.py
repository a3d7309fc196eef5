"""The stubs that `make stub` writes: names and arguments are those of the compiled module and of declared methods."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import openbnns
from openbnns import _core, nn
from openbnns.graph.declared_methods import DeclaredMethods

STUB = Path(openbnns.__file__).with_name("_core.pyi")


def arguments(function: ast.FunctionDef) -> list[tuple[str, str, bool]]:
    """Name, type and whether there is a default, in order; a bare `*` counts as one."""
    a = function.args
    plain = [*a.posonlyargs, *a.args]
    given = [False] * (len(plain) - len(a.defaults)) + [True] * len(a.defaults)
    listed = list(zip(plain, given, strict=True))
    if a.vararg:
        listed.append((a.vararg, False))
    listed += [(arg, default is not None) for arg, default in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    return [(arg.arg, kind(arg.annotation), default) for arg, default in listed]


def kind(annotation: ast.expr | None) -> str:
    """A type without the modules that its parts are from."""
    return "" if annotation is None else re.sub(r"\b\w+\.(?=\w)", "", ast.unparse(annotation))


def stubbed() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            names[node.name] = {
                f.name: (arguments(f), kind(f.returns)) for f in node.body if isinstance(f, ast.FunctionDef)
            }
        elif isinstance(node, ast.FunctionDef):
            names[node.name] = arguments(node), kind(node.returns)
        elif isinstance(node, ast.AnnAssign):
            names[ast.unparse(node.target)] = kind(node.annotation)
    return names


def described(function: Any) -> Any:
    """The signature that the module gives of a function of its own."""
    ((text, *_),) = function.__nb_signature__
    (node,) = ast.parse(re.sub(r"\\\d+", "...", text) + ": ...").body
    assert isinstance(node, ast.FunctionDef)
    return arguments(node), kind(node.returns)


def constant(value: object) -> str:
    return "int" if isinstance(value, int) else "object"


def compiled() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for name, value in vars(_core).items():
        if name.startswith("__"):
            continue
        if isinstance(value, type):
            names[name] = {n: described(f) for n, f in vars(value).items() if hasattr(f, "__nb_signature__")}
        else:
            names[name] = described(value) if hasattr(value, "__nb_signature__") else constant(value)
    return names


def test_the_stub_is_that_of_the_module() -> None:
    stub, module = stubbed(), compiled()
    assert sorted(stub) == sorted(module), "run `make stub`"
    for name, signature in module.items():
        assert stub[name] == signature, f"{name}: run `make stub`"


def test_the_stubs_of_both_faces_are_what_their_tool_writes() -> None:
    tool = Path(__file__).resolve().parents[2] / "tools" / "generate_stubs.py"
    subprocess.run([sys.executable, str(tool), "--check"], check=True)


def test_editors_know_the_methods_that_are_declared() -> None:
    stub = ast.parse((STUB.parent / "graph" / "declared_methods.pyi").read_text(encoding="utf-8"))
    (methods,) = (node for node in stub.body if isinstance(node, ast.ClassDef))
    known = {f.name: [arg.arg for arg in f.args.args[1:]] for f in methods.body if isinstance(f, ast.FunctionDef)}
    assert issubclass(nn.Value, DeclaredMethods)
    declared = {name: m for name, m in vars(DeclaredMethods).items() if not name.startswith("_")}
    assert known == {name: list(inspect.signature(m).parameters)[1:] for name, m in declared.items()}
