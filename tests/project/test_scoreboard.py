"""The scoreboard itself: what a run leaves behind, and when a row counts as proven."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import scoreboard

TEST = {"rows": ["conv.fwd", "conv.stride"], "outcome": "passed"}


def test_a_row_passes_when_all_its_tests_do() -> None:
    tests = {"a": TEST, "b": {"rows": ["conv.fwd"], "outcome": "failed"}, "c": {"rows": ["fc.fwd"], "outcome": "open"}}
    states = scoreboard.outcomes({"tests": tests})
    assert states == {"conv.fwd": "failed", "conv.stride": "passed", "fc.fwd": "open"}


def test_a_partial_run_keeps_what_others_found(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    scoreboard.record({"a": TEST, "b": {"rows": ["fc.fwd"], "outcome": "passed"}}, "", record)
    assert scoreboard.load(record)["full_run"]
    scoreboard.record({"b": {"rows": ["fc.fwd"], "outcome": "failed"}}, "-k something", record)
    data = scoreboard.load(record)
    assert data["full_run"] and data["partial_since"] == ["-k something"]
    assert scoreboard.outcomes(data) == {"conv.fwd": "passed", "conv.stride": "passed", "fc.fwd": "failed"}
    scoreboard.record({"b": {"rows": ["fc.fwd"], "outcome": "passed"}}, "", record)
    assert scoreboard.outcomes(scoreboard.load(record)) == {"fc.fwd": "passed"}


def test_check_demands_every_row(tmp_path: Path) -> None:
    rows = [row for row in scoreboard.read_rows() if row.id in ("conv.fwd", "fc.fwd")]
    assert scoreboard.check(scoreboard.load(tmp_path / "missing"), rows)[0] == 2
    data = {"full_run": True, "tests": {"a": TEST}, "partial_since": []}
    assert scoreboard.check(data, rows[:1]) == (0, "All 1 rows are proven.")
    status, message = scoreboard.check(data, rows)
    assert status == 1 and "fc.fwd: no test claims it" in message


def test_the_table_counts_every_row() -> None:
    rows = scoreboard.read_rows()
    last = scoreboard.table(rows, {"conv.fwd": "passed", "fc.fwd": "failed"}).splitlines()[-1].split()
    assert last == ["total", "769", "2", "1", "768"]


def test_an_unknown_row_is_an_error(tmp_path: Path) -> None:
    """A claim that coverage.csv does not have stops the run."""
    here = Path(__file__).parents[1]
    (tmp_path / "conftest.py").write_text((here / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "test_it.py").write_text(
        'import pytest\n@pytest.mark.covers("conv.forward")\ndef test_it(): pass\n', encoding="utf-8"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    covers: rows\n    peers: peers\n", encoding="utf-8")
    paths = os.pathsep.join([str(here), *(str(Path(place).resolve()) for place in sys.path if place)])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4, done.stdout + done.stderr
    assert "claims rows that tests/coverage.csv does not have: conv.forward" in done.stdout + done.stderr
