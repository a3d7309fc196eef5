"""Check, describe and tag a release; see `make release`.

python tools/release.py gather              move the fragments of changes/ into CHANGELOG.md, under the version and today's date
python tools/release.py check               clean tree, entry with a date in the changelog, one version everywhere
python tools/release.py check --tagged v1.2.3   the same for a tag that exists
python tools/release.py notes               print the changelog of this version, for the page of the release
python tools/release.py tag                 set the tag; publishing is the workflow's task once the tag is pushed
"""

from __future__ import annotations

import argparse
import ast
import datetime
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("added", "changed", "removed", "fixed")
FRAGMENTS = "changes"
SECTION = re.compile(r"^## (?P<version>\S+) \((?P<date>.*?)\)\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["gather", "check", "notes", "tag"])
    parser.add_argument("--tagged", default=None, metavar="TAG", help="the tag that is to be published")
    options = parser.parse_args()
    if options.step == "gather":
        return gather()
    if options.step == "notes":
        return print(notes())
    name = f"v{version()}"
    problems = find_problems(options.tagged)
    if problems:
        raise SystemExit("\n".join(f"release: {problem}" for problem in problems))
    if options.step == "tag":
        git("tag", "--annotate", name, "--message", f"OpenBNNS {version()}")
        print(f"Tagged {name}. To publish it: git push origin {name}")
    else:
        print(f"{name} can be released.")
    return None


def gather() -> None:
    """Write the section of this version from the fragments, and remove these."""
    by_kind: dict[str, list[str]] = {}
    for path in fragments():
        kind = path.name.partition("-")[0]
        if kind not in KINDS:
            raise SystemExit(
                f"release: {path.relative_to(ROOT)} has to begin with one of {', '.join(KINDS)}, and a dash"
            )
        by_kind.setdefault(kind, []).append(path.read_text(encoding="utf-8").strip())
    if not by_kind:
        raise SystemExit(f"release: {FRAGMENTS}/ has no fragments; {FRAGMENTS}/README.md says what they are")
    changelog = text("CHANGELOG.md")
    if section(changelog):
        raise SystemExit(
            f"release: CHANGELOG.md has {version()} already; give src/openbnns/__init__.py the next version"
        )
    parts = [f"## {version()} ({datetime.date.today()})"]
    parts += [f"### {kind.capitalize()}\n\n" + "\n".join(by_kind[kind]) for kind in KINDS if kind in by_kind]
    title, rest = changelog.split("\n", 1)
    (ROOT / "CHANGELOG.md").write_text(title + "\n\n" + "\n\n".join(parts) + "\n" + rest, encoding="utf-8")
    for path in fragments():
        path.unlink()
    print(f"CHANGELOG.md has {version()}. Read it, set the version in CITATION.cff, and commit.")


def notes() -> str:
    entry = section(text("CHANGELOG.md"))
    if entry is None:
        raise SystemExit(
            f"release: CHANGELOG.md has no heading `## {version()} (YYYY-MM-DD)`; name the release and its day"
        )
    return entry["text"].strip()


def find_problems(tagged: str | None) -> list[str]:
    """Everything that stands in the way."""
    name, problems = f"v{version()}", []
    if changed := git("status", "--porcelain"):
        problems.append(f"the tree is not clean; commit or remove:\n{changed}")
    entry = section(text("CHANGELOG.md"))
    if entry is None or not re.fullmatch(r"\d{4}-\d\d-\d\d", entry["date"]):
        problems.append(f"CHANGELOG.md has no heading `## {version()} (YYYY-MM-DD)`; name the release and its day")
    if left := fragments():
        names = ", ".join(path.name for path in left)
        problems.append(f"{FRAGMENTS}/ has {names}; `python tools/release.py gather` moves them into CHANGELOG.md")
    if f"version: {version()}\n" not in text("CITATION.cff"):
        problems.append(f"CITATION.cff has another version than src/openbnns/__init__.py, which has {version()}")
    for page in ("README.md", "docs/install.md"):
        if f"/releases/expanded_assets/{name}" not in text(page):
            problems.append(
                f"{page} does not install the wheels of {name}, by REPOSITORY/releases/expanded_assets/{name}"
            )
    if tagged and tagged != name:
        problems.append(f"the tag is {tagged}, but src/openbnns/__init__.py has the version {version()}")
    if not tagged and git("tag", "--list", name):
        problems.append(f"{name} exists already; give src/openbnns/__init__.py the next version")
    return problems


def fragments() -> list[Path]:
    return sorted(path for path in (ROOT / FRAGMENTS).glob("*.md") if path.name != "README.md")


def section(changelog: str) -> re.Match[str] | None:
    """The part of this version in the text of a changelog."""
    return next((match for match in SECTION.finditer(changelog) if match["version"] == version()), None)


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
