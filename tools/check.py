"""Run linters, type checks and formatters, for ``make check`` and pre-commit: ``python tools/check.py [CHECK...]``.

All checks run by default; ``--fix`` repairs what can be repaired.

Every check goes over the whole repository, with the tools of the environment that runs this.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ["src", "tests", "benchmarks", "examples", "tools"]
TEXTS = ["src", "core", "docs", "tests", "examples", "changes", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
ISSUE_FORMS = [".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/request.yml"]


def c_sources() -> list[str]:
    folders = [ROOT / "core", ROOT / "examples", ROOT / "tests" / "c"]
    return [
        str(path) for folder in folders for ending in ("cpp", "c", "h") for path in sorted(folder.rglob(f"*.{ending}"))
    ]


def workflows() -> list[str]:
    return [str(path) for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))]


def schema(name: str, files: Sequence[str]) -> list[str]:
    return ["check-jsonschema", "--builtin-schema", f"vendor.{name}", *files]


CHECKS = {
    "ruff": [["ruff", "check", *PYTHON]],
    "ruff-format": [["ruff", "format", "--check", *PYTHON]],
    "mypy": [["mypy"]],
    "clang-format": [["clang-format", "--dry-run", "-Werror", *c_sources()]],
    "codespell": [["codespell", *TEXTS]],
    "schemas": [
        schema("github-workflows", workflows()),
        schema("github-issue-forms", ISSUE_FORMS),
        schema("citation-file-format", ["CITATION.cff"]),
    ],
}
FIXES = [["ruff", "check", "--fix", *PYTHON], ["ruff", "format", *PYTHON], ["clang-format", "-i", *c_sources()]]


def run(command: Sequence[str]) -> bool:
    """True if a program of this environment finds nothing wrong."""
    program = Path(sys.executable).parent / command[0]
    return subprocess.run([str(program), *command[1:]], cwd=ROOT, check=False).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"one of {', '.join(CHECKS)}")
    parser.add_argument("--fix", action="store_true", help="repair what can be repaired")
    options = parser.parse_args()
    if unknown := set(options.checks) - set(CHECKS):
        parser.error(f"unknown checks: {', '.join(sorted(unknown))}. Use {', '.join(CHECKS)}.")
    names = options.checks or list(CHECKS)
    if options.fix:
        failed = [command[0] for command in FIXES if not run(command)]
    else:
        failed = [name for name in names if not all(map(run, CHECKS[name]))]
    if failed:
        raise SystemExit(f"Failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
