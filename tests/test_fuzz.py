"""The random cases of ``fuzz.py`` run: a few of every family, always the same ones."""

from __future__ import annotations

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
