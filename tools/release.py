"""What a release must be, before and after it is built; see `make release`.

python tools/release.py check               clean tree, entry with a date in the changelog, one version everywhere
python tools/release.py check --tagged v1.2.3   the same for a tag that exists
python tools/release.py tag                 set the tag; publishing is the workflow's task once the tag is pushed
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["check", "tag"])
    parser.add_argument("--tagged", default=None, metavar="TAG", help="the tag that is to be published")
    options = parser.parse_args()
    name = f"v{version()}"
    problems = find_problems(options.tagged)
    if problems:
        raise SystemExit("\n".join(f"release: {problem}" for problem in problems))
    if options.step == "tag":
        git("tag", "--annotate", name, "--message", f"OpenBNNS {version()}")
        print(f"Tagged {name}. To publish it: git push origin {name}")
    else:
        print(f"{name} can be released.")


def find_problems(tagged: str | None) -> list[str]:
    """Everything that stands in the way."""
    name, problems = f"v{version()}", []
    if changed := git("status", "--porcelain"):
        problems.append(f"the tree is not clean; commit or remove:\n{changed}")
    if not re.search(rf"^## {re.escape(version())} \(\d{{4}}-\d\d-\d\d\)$", text("CHANGELOG.md"), re.MULTILINE):
        problems.append(f"CHANGELOG.md has no heading `## {version()} (YYYY-MM-DD)`; name the release and its day")
    for heading in re.findall(r"^## .*unreleased.*$", text("CHANGELOG.md"), re.MULTILINE | re.IGNORECASE):
        problems.append(f"CHANGELOG.md has a part `{heading}`; move it to that of {version()}")
    if f"version: {version()}\n" not in text("CITATION.cff"):
        problems.append(f"CITATION.cff has another version than src/openbnns/__init__.py, which has {version()}")
    if tagged and tagged != name:
        problems.append(f"the tag is {tagged}, but src/openbnns/__init__.py has the version {version()}")
    if not tagged and git("tag", "--list", name):
        problems.append(f"{name} exists already; give src/openbnns/__init__.py the next version")
    return problems


def version() -> str:
    """The one in ``src/openbnns/__init__.py``, which all others come from."""
    for statement in ast.parse(text("src/openbnns/__init__.py")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__version__":
            return str(ast.literal_eval(statement.value))
    raise SystemExit("release: src/openbnns/__init__.py has no __version__")


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.rstrip()


if __name__ == "__main__":
    main()
