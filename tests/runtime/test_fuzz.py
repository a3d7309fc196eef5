"""The random cases of ``fuzz.py`` run: a few of every family, always the same ones; and the seed of a commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import fuzz

CASES = 6


@pytest.mark.parametrize("family", fuzz.FAMILIES)
def test_a_few_cases(family: str) -> None:
    for case in range(CASES):
        assert fuzz.run_case(1, case, [family]).startswith(family)


def test_most_cases_work() -> None:
    """A family whose calls all fail alike on both engines would prove nothing."""
    for name, draw_case in fuzz.hostile.ORDERLY.items():
        statuses: list[bool] = []
        for case in range(12):
            outcome = fuzz.Outcome()
            draw_case(fuzz.Draw(2, case))[1](outcome)
            statuses += outcome.statuses
        assert sum(statuses) > 0.6 * len(statuses), name


def test_the_seed_follows_from_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def revision(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567\n")

    monkeypatch.setattr(subprocess, "run", revision)
    assert fuzz.seed_of_commit() == 0x0A1B2C


def test_without_a_commit_the_seed_is_of_the_clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # there is no git
    monkeypatch.setattr(fuzz.time, "time", lambda: 1234567.0)
    assert fuzz.seed_of_commit() == 34567


def test_a_network_that_fails_is_shown_as_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "failure_of", lambda plan: "output 0: 1 instead of 2")
    monkeypatch.setattr(fuzz, "report", lambda plan: f"smallest of {plan.seed}")
    with pytest.raises(fuzz.Mismatch, match="smallest of 2000013"):
        fuzz.run_case(2, 7, ["networks"])
