"""Write the tables of names of packages whose names load when first used, and their stubs, from each module's ``__all__``.

And a stub of the methods that tensors have because a function of that name is declared as elementwise.

    python tools/generate_stubs.py            write them
    python tools/generate_stubs.py --check    only say whether they are up to date (exit code 1 if not)

At run time ``openbnns/_lazy.py`` reads the tables (``_names.py``); type checkers and editors read the stubs.
"""

from __future__ import annotations

import argparse
import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "src" / "openbnns"
PACKAGES = {"capi": ("..abi.enums", "..abi.structs"), "layers": ()}
"""Each package with the modules outside it whose names it has too."""


def public_names(path: Path) -> list[str]:
    """The ``__all__`` of a module."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def entry(module: str, names: list[str]) -> list[str]:
    """The lines of a module in the table, as ruff formats them."""
    quoted = [f'"{name}"' for name in names]
    line = f'    "{module}": [{", ".join(quoted)}],'
    return [line] if len(line) <= 120 else [f'    "{module}": [', *(f"        {name}," for name in quoted), "    ],"]


def written(package: str) -> dict[Path, str]:
    """The contents of the generated files of a package."""
    folder = ROOT / package
    homes = {path.stem: names for path in sorted(folder.glob("*.py")) if (names := public_names(path))}
    table = ['"""The public names of each module; written by tools/generate_stubs.py from their ``__all__``."""', ""]
    table += ["HOMES = {", *(line for module in homes.items() for line in entry(*module)), "}", ""]
    stub = ["# Written by tools/generate_stubs.py from the __all__ of each module."]
    stub += [f"from {module} import *" for module in (*PACKAGES[package], *(f".{module}" for module in homes))] + [""]
    return {folder / "_names.py": "\n".join(table), folder / "__init__.pyi": "\n".join(stub)}


def is_method(function: ast.FunctionDef) -> bool:
    """True for an elementwise function that is a method, too."""
    return any(
        isinstance(call, ast.Call)
        and ast.unparse(call.func) == "elementwise"
        and not any(k.arg == "method" and ast.unparse(k.value) == "False" for k in call.keywords)
        for call in function.decorator_list
    )


def method(function: ast.FunctionDef) -> str:
    """An elementwise function as a method of its first operand."""
    given = function.args.args
    plain = [None] * (len(given) - len(function.args.defaults))
    parts = ["self"]
    for name, default in list(zip(given, [*plain, *function.args.defaults], strict=True))[1:]:
        kind = ast.unparse(name.annotation) if name.annotation is not None else "Any"
        kind = kind if kind == "bool" else "Any"
        parts.append(f"{name.arg}: {kind}" + ("" if default is None else f" = {ast.unparse(default)}"))
    summary = (ast.get_docstring(function) or "").split("\n\n")[0]
    return f'    def {function.name}({", ".join(parts)}) -> Tensor:\n        """{summary}"""\n'


def written_methods() -> dict[Path, str]:
    """The stub of the methods of tensors that are declared functions."""
    sources = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "graph" / "functions").glob("*.py"))]
    functions = [node for source in sources for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    text = [
        "# Written by tools/generate_stubs.py from the functions that are declared as elementwise.",
        "from typing import Any\n\nfrom .tensor import Tensor\n\nclass DeclaredMethods:",
        *(method(function) for function in sorted(functions, key=lambda f: f.name) if is_method(function)),
    ]
    return {ROOT / "graph" / "declared_methods.pyi": "\n".join(text)}


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the tables of names and the stubs of capi, layers and tensors.")
    parser.add_argument("--check", action="store_true", help="only say whether they are up to date")
    check = parser.parse_args().check
    late = False
    files = written_methods()
    for package in PACKAGES:
        files |= written(package)
    for path, text in files.items():
        name = path.relative_to(ROOT).as_posix()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            print(f"{name} is out of date; run tools/generate_stubs.py", file=sys.stderr)
            late = True
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
