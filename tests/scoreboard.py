"""The scoreboard: how many rows of coverage.csv the tests prove.

    python tests/scoreboard.py              table per family of the last run
    python tests/scoreboard.py --open       and the rows that are not proven
    python tests/scoreboard.py --check      fail unless the last full run proves every row

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
RECORD = HERE.parent / ".scoreboard.json"


class Row(NamedTuple):
    """One capability of classic BNNS."""

    id: str
    family: str


def read_rows() -> list[Row]:
    """All rows of coverage.csv."""
    with COVERAGE.open(newline="", encoding="utf-8") as file:
        lines = csv.DictReader(file)
        return [Row(line["id"], line["family"]) for line in lines]


def load(path: Path | None = None) -> dict[str, Any]:
    """The results of the last runs: ``{"full_run": bool, "tests": {test: {"rows": [...], "outcome": ...}}}``."""
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


def check(data: dict[str, Any], rows: list[Row]) -> tuple[int, str]:
    """Exit status and message of ``--check``."""
    if not data["full_run"]:
        return 2, "No full run on record, so nothing was compared. Run `make test` first."
    states = outcomes(data)
    unproven = {row.id: states.get(row.id, "no test claims it") for row in rows if states.get(row.id) != "passed"}
    if unproven:
        return 1, "\n".join(
            [f"Not proven, {len(unproven)} of {len(rows)} rows:", *(f"  {k}: {v}" for k, v in unproven.items())]
        )
    return 0, f"All {len(rows)} rows are proven."


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Rows of coverage.csv that the tests prove.")
    parser.add_argument("--open", action="store_true", help="list the rows that are not proven")
    parser.add_argument("--check", action="store_true", help="fail unless every row is proven")
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
    if options.check:
        status, message = check(data, rows)
        print("\n" + message)
        return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
