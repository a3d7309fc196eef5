"""Write the tables of names of packages whose names load when first used, and their stubs, from each module's ``__all__``.

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


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the tables of names and the stubs of capi and layers.")
    parser.add_argument("--check", action="store_true", help="only say whether they are up to date")
    check = parser.parse_args().check
    late = False
    for path, text in [file for package in PACKAGES for file in written(package).items()]:
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
