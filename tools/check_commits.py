"""Refuse commit subjects that do not say what changed and where: ``scope: imperative summary``, at most 72 characters.

Looks at the commits since this file was added, or since a revision that is given: ``python tools/check_commits.py main``.
"""

from __future__ import annotations

import re
import subprocess
import sys

LONGEST = 72
SUBJECT = re.compile(r"[\w./ -]+: \S.*")
EMPTY_WORDS = re.compile(r"(wip|ready|fixup|squash|merge|tidy|misc|update)\b", re.IGNORECASE)


def git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout.splitlines()


def complaint(subject: str) -> str:
    """The fault of a subject; empty if it is fine."""
    if len(subject) > LONGEST:
        return f"it has {len(subject)} characters, but at most {LONGEST} are shown everywhere"
    if EMPTY_WORDS.match(subject):
        return "it says how the work went, not what changed"
    if not SUBJECT.fullmatch(subject):
        return "it has no scope. Write `scope: imperative summary`, as in `pooling: keep argmax as int32`"
    return "it ends with a full stop" if subject.endswith(".") else ""


def main(arguments: list[str]) -> int:
    base = arguments[0] if arguments else git("log", "--diff-filter=A", "--format=%H", "--", __file__)[-1]
    faults = 0
    for line in git("log", "--no-merges", "--format=%h %s", f"{base}..HEAD"):
        commit, _, subject = line.partition(" ")
        reason = complaint(subject)
        if reason:
            faults += 1
            print(f"{commit} {subject!r}: {reason}.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
