"""The section on ranks of a report, from invented histories; mpi/test_mpi_cli.py has those of real jobs."""

from __future__ import annotations

from typing import Any

import pytest

from openbnns.report.sections.ranks import KINDS, rank_section


def record(epoch: int, times: list[tuple[float, float, float]], seconds: float, hosts: str = "") -> dict[str, Any]:
    columns = {f"{kind}_seconds": list(column) for kind, column in zip(KINDS, zip(*times, strict=True), strict=True)}
    names = [f"{hosts}node{i}" for i in range(len(times))]
    ranks = {**columns, "hosts": names, "threads": [2] * len(times)}
    return {"epoch": epoch, "seconds": seconds, "phase_seconds": {"validation": 0.5}, "ranks": ranks}


def test_a_run_that_was_not_distributed_has_no_section() -> None:
    assert rank_section([]) is None
    assert rank_section([{"epoch": 1, "seconds": 1.0}]) is None


def test_times_are_sums_over_epochs() -> None:
    section = rank_section([record(1, [(3, 0, 1), (1, 2, 1)], 4.5), record(2, [(3, 0, 1), (1, 2, 1)], 4.5)])
    assert section is not None
    assert [(r.computed, r.waited, r.sent, r.total) for r in section.ranks] == [(6, 0, 2, 8), (2, 4, 2, 8)]
    assert section.efficiency == 0.5 and section.speedup is None
    assert section.slowest is section.ranks[0]
    assert "Rank 0 on node0 is the slowest: the other ranks waited for it 4.0 s each, 50.0%" in section.sentences[1]


def test_ranks_that_wait_little_have_no_slowest() -> None:
    section = rank_section([record(1, [(9.7, 0.3, 0), (9.9, 0.1, 0), (9.6, 0.4, 0)], 10)])
    assert section is not None and section.slowest is None and len(section.sentences) == 1
    alone = rank_section([record(1, [(1, 0, 0)], 2)])
    assert alone is not None and alone.efficiency == 1 and alone.slowest is None


def test_speed_is_measured_against_one_rank_without_validation() -> None:
    """By medians of epochs, so that a slow first one does not count."""
    run = [record(1, [(1, 0, 0)] * 4, 9.5), *(record(i, [(1, 0, 0)] * 4, 2.5) for i in (2, 3))]
    one = [{"epoch": i, "seconds": 6.5, "phase_seconds": {"validation": 0.5}} for i in (1, 2, 3, 4)]
    section = rank_section(run, one)
    assert section is not None and section.speedup == pytest.approx(3.0)
    assert (
        "An epoch takes 2.00 s, and 6.00 s on one rank: 3.00 times as fast, an efficiency of 75.0%."
        in section.sentences
    )


def test_a_run_resumed_elsewhere_is_described_by_its_last_ranks() -> None:
    run = [record(1, [(5, 0, 0)] * 4, 9), record(2, [(1, 1, 0)] * 2, 9, "x"), record(3, [(1, 1, 0)] * 2, 9, "x")]
    section = rank_section(run)
    assert section is not None and [r.computed for r in section.ranks] == [2, 2]
    assert "These are epochs 2 to 3; earlier ones ran on other ranks." in section.sentences
