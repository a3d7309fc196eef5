"""Prepare, check, describe and tag a release; see `make release`.

python tools/release.py prepare             0.2.0.dev0 becomes 0.2.0 everywhere, and CHANGELOG.md has the fragments of changes/
python tools/release.py check               clean tree, entry with a date in the changelog, one version everywhere
python tools/release.py check --tagged v1.2.3   the same for a tag that exists
python tools/release.py rehearse            prepare and check in a clone of the latest commit: can it be released?
python tools/release.py notes               print the changelog of this version, for the page of the release
python tools/release.py tag                 set the tag; publishing is the workflow's task once the tag is pushed
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = "src/openbnns/__init__.py"
ASSIGNMENT = r'^__version__ = "(.*)"$'
RELEASE = {
    "CITATION.cff": r"^version: (\S+)$",
    "README.md": r"/releases/expanded_assets/v(\S+)",
    "docs/install.md": r"/releases/expanded_assets/v(\S+)",
}
"""Where files state the latest release; while the next one is in development, ``VERSION`` is ahead of them."""
SECTION = re.compile(r"^## (?P<version>\S+) \((?P<date>.*?)\)\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["prepare", "check", "rehearse", "notes", "tag"])
    parser.add_argument("--tagged", default=None, metavar="TAG", help="the tag that is to be published")
    options = parser.parse_args()
    if options.step == "prepare":
        return prepare()
    if options.step == "rehearse":
        return rehearse()
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


def prepare() -> None:
    """Turn the version in development into that of the release, and fold the fragments into the changelog."""
    release = version().partition(".dev")[0]
    for path, pattern in {VERSION: ASSIGNMENT, **RELEASE}.items():
        words = re.sub(pattern, lambda match: match[0].replace(match[1], release), text(path), flags=re.MULTILINE)
        (ROOT / path).write_text(words, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "towncrier", "build", "--yes", "--version", release], cwd=ROOT, check=True)


def rehearse() -> None:
    """Check the latest commit in a clone, where the version is prepared first if it is in development."""
    with tempfile.TemporaryDirectory() as folder:
        git("clone", "--quiet", str(ROOT), folder)
        tool = [sys.executable, "tools/release.py"]
        steps = [[*tool, "check"]]
        if ".dev" in version():
            person = ["-c", "user.name=OpenBNNS", "-c", "user.email="]
            steps = [[*tool, "prepare"], ["git", *person, "commit", "--quiet", "--all", "--message=release"], *steps]
        for step in steps:
            if failed := subprocess.run(step, cwd=folder, check=False).returncode:
                raise SystemExit(failed)


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
    if ".dev" in version():
        problems.append(f"{version()} is in development; `python tools/release.py prepare` names the release")
    if changed := git("status", "--porcelain"):
        problems.append(f"the tree is not clean; commit or remove:\n{changed}")
    entry = section(text("CHANGELOG.md"))
    if entry is None or not re.fullmatch(r"\d{4}-\d\d-\d\d", entry["date"]):
        problems.append(f"CHANGELOG.md has no heading `## {version()} (YYYY-MM-DD)`; name the release and its day")
    if left := sorted(path.name for path in (ROOT / "changes").glob("*") if path.name != "README.md"):
        problems.append(f"changes/ has {', '.join(left)}; move them into the section of {version()} in CHANGELOG.md")
    for path, pattern in RELEASE.items():
        stated = re.findall(pattern, text(path), re.MULTILINE)
        if set(stated) != {version()}:
            problems.append(f"{path} states version {' and '.join(stated) or 'nowhere'}, but {VERSION} has {version()}")
    if tagged and tagged != name:
        problems.append(f"the tag is {tagged}, but {VERSION} has the version {version()}")
    if not tagged and git("tag", "--list", name):
        problems.append(f"{name} exists already; give {VERSION} the next version, such as 0.2.0.dev0")
    return problems


def section(changelog: str) -> re.Match[str] | None:
    """The part of this version in the text of a changelog."""
    return next((match for match in SECTION.finditer(changelog) if match["version"] == version()), None)


def version() -> str:
    """The one in ``src/openbnns/__init__.py``, which all others come from."""
    assignment = re.search(ASSIGNMENT, text(VERSION), re.MULTILINE)
    if assignment is None:
        raise SystemExit(f"release: {VERSION} has no __version__")
    return assignment[1]


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.rstrip()


if __name__ == "__main__":
    main()
