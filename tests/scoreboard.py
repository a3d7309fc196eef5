"""The scoreboard: how many rows of coverage.csv the tests prove.

    python tests/scoreboard.py              table per family of the last run
    python tests/scoreboard.py --open       and the rows that are not proven
    python tests/scoreboard.py --check      fail if a row of scoreboard_passed.txt is no longer proven
    python tests/scoreboard.py --update     write that list, and docs/scoreboard.md, anew from the last full run

A row passes when at least one test claims it and every claiming test passed, on every instruction set that was run.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
COVERAGE = HERE / "coverage.csv"
PASSED_BEFORE = HERE / "scoreboard_passed.txt"
RECORD = HERE.parent / ".scoreboard.json"
PAGE = HERE.parent / "docs" / "scoreboard.md"


class Row(NamedTuple):
    """One capability of classic BNNS."""

    id: str
    family: str
    capability: str = ""
    function: str = ""  # or struct, of C


def read_rows() -> list[Row]:
    """All rows of coverage.csv."""
    with COVERAGE.open(newline="", encoding="utf-8") as file:
        lines = csv.DictReader(file)
        return [Row(line["id"], line["family"], line["capability"], line["c_function_or_struct"]) for line in lines]


def load(path: Path | None = None) -> dict[str, Any]:
    """What the last runs left: ``{"full_run": bool, "tests": {test: {"rows": [...], "outcome": ...}}}``."""
    path = path or RECORD
    if not path.exists():
        return {"full_run": False, "tests": {}}
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def record(tests: dict[str, dict[str, Any]], partial: str, path: Path | None = None) -> None:
    """Keep the outcomes of a run: all of them after a full run, else beside what earlier runs left."""
    path = path or RECORD
    if partial:
        if not tests:
            return
        data = load(path)
        data["tests"].update(tests)
        data["partial_since"] = [*data.get("partial_since", []), partial][-5:]
    else:
        data = {"full_run": True, "tests": tests, "partial_since": []}
    path.write_text(json.dumps(data, indent=0, sort_keys=True) + "\n", encoding="utf-8")


def outcomes(data: dict[str, Any]) -> dict[str, str]:
    """``passed``, ``failed`` or ``open`` for every claimed row; open means that a claiming test was skipped."""
    result: dict[str, str] = {}
    rank = {"passed": 0, "open": 1, "failed": 2}
    for test in data["tests"].values():
        for row in test["rows"]:
            result[row] = max(result.get(row, "passed"), test["outcome"], key=rank.__getitem__)
    return result


def table(rows: list[Row], states: dict[str, str]) -> str:
    """One line per family: rows, claimed, passed, open."""
    families = list(dict.fromkeys(row.family for row in rows))
    lines = [("family", "rows", "claimed", "passed", "open")]
    total = [0, 0, 0]
    for family in families:
        ids = [row.id for row in rows if row.family == family]
        claimed, passed = sum(i in states for i in ids), sum(states.get(i) == "passed" for i in ids)
        lines.append((family, str(len(ids)), str(claimed), str(passed), str(len(ids) - passed)))
        total = [total[0] + len(ids), total[1] + claimed, total[2] + passed]
    lines.append(("total", str(total[0]), str(total[1]), str(total[2]), str(total[0] - total[2])))
    widths = [max(len(line[k]) for line in lines) for k in range(5)]
    return "\n".join(
        "  ".join(
            text.rjust(width) if k else text.ljust(width)
            for k, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def page(rows: list[Row], passed: set[str]) -> str:
    """The page of the docs: every capability by family, and whether tests prove it."""
    text = [
        "# Scoreboard",
        "",
        f"{len(passed)} of {len(rows)} capabilities of classic BNNS are proven by tests. This page is written by",
        "`python tests/scoreboard.py --update` from a run of the whole suite; a test claims a row by its name.",
    ]
    for family in dict.fromkeys(row.family for row in rows):
        members = [row for row in rows if row.family == family]
        count = sum(row.id in passed for row in members)
        text += [
            "",
            f"## {family}: {count} of {len(members)}",
            "",
            "| row | capability | in C | proven |",
            "|---|---|---|---|",
        ]
        for row in members:
            capability = row.capability.replace("|", "\\|")
            text.append(f"| `{row.id}` | {capability} | {row.function} | {'yes' if row.id in passed else 'no'} |")
    return "\n".join(text) + "\n"


def read_passed(path: Path | None = None) -> list[str]:
    """Rows that have passed before."""
    path = path or PASSED_BEFORE
    return path.read_text(encoding="utf-8").split() if path.exists() else []


def check(data: dict[str, Any], expected: list[str]) -> tuple[int, str]:
    """Exit status and message of ``--check``."""
    if not data["full_run"]:
        return 2, "No full run on record, so nothing was compared. Run `make test` first."
    states = outcomes(data)
    lost = [row for row in expected if states.get(row) != "passed"]
    if lost:
        lines = "\n".join(f"  {row}: {states.get(row, 'no test claims it')}" for row in lost)
        return 1, f"{len(lost)} row(s) that passed before are lost:\n{lines}"
    new = sum(state == "passed" for state in states.values()) - len(expected)
    hint = f"; {new} new, keep them with `python tests/scoreboard.py --update`" if new > 0 else ""
    return 0, f"All {len(expected)} rows that passed before still pass{hint}."


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Rows of coverage.csv that the tests prove.")
    parser.add_argument("--open", action="store_true", help="list the rows that are not proven")
    parser.add_argument("--check", action="store_true", help="fail if a row that passed before is lost")
    parser.add_argument("--update", action="store_true", help="rewrite the list of rows that have passed")
    options = parser.parse_args(arguments)
    rows, data = read_rows(), load()
    states = outcomes(data)
    print(table(rows, states))
    if not data["full_run"]:
        print("\nThis is the record of partial runs; `make test` makes a full one.")
    elif data["partial_since"]:
        print(f"\nUpdated since the last full run by: {'; '.join(data['partial_since'])}")
    if options.open:
        print(
            "\n"
            + "\n".join(f"{row.id}: {states.get(row.id, 'no test')}" for row in rows if states.get(row.id) != "passed")
        )
    if options.update:
        if not data["full_run"]:
            print("\nNo full run on record: the list is left as it is.")
            return 2
        passed = sorted(row for row, state in states.items() if state == "passed")
        PASSED_BEFORE.write_text("\n".join(passed) + "\n", encoding="utf-8")
        PAGE.write_text(page(rows, set(passed)), encoding="utf-8")
        print(f"\n{PASSED_BEFORE.name}: {len(passed)} rows.")
    if options.check:
        status, message = check(data, read_passed())
        print("\n" + message)
        return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
