"""Writes the stubs of packages whose names load when first used, from the tables in their ``__init__.py``.

    python tools/generate_stubs.py            write them
    python tools/generate_stubs.py --check    only say whether they are up to date (exit code 1 if not)

Type checkers and editors read the stubs; at run time ``openbnns/_lazy.py`` reads the tables.
"""

from __future__ import annotations

import argparse
import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("capi", "layers")


def stub(source: str) -> str:
    """The stub of a package whose source calls ``attach``."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    attach = next(call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "_attach")
    homes: dict[str, list[str]] = ast.literal_eval(attach.args[1])
    tables = next((ast.literal_eval(k.value) for k in attach.keywords if k.arg == "tables"), ())
    lines = ["# Written by tools/generate_stubs.py from __init__.py; edit that, not this file."]
    lines += [f"from .{table} import *" for table in tables]
    for module, names in homes.items():
        lines += [f"from .{module} import (", *(f"    {name} as {name}," for name in names), ")"]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the stubs of capi and layers from their __init__.py.")
    parser.add_argument("--check", action="store_true", help="only say whether they are up to date")
    check = parser.parse_args().check
    late = False
    for package in PACKAGES:
        path = ROOT / "src" / "openbnns" / package / "__init__.pyi"
        text = stub(path.with_suffix(".py").read_text(encoding="utf-8"))
        if path.read_text(encoding="utf-8") == text:
            continue
        if check:
            print(f"{package}/__init__.pyi is out of date; run tools/generate_stubs.py", file=sys.stderr)
            late = True
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {package}/__init__.pyi")
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
