"""The ranks of a distributed run: how each of them spent its time, and how well the run scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._plural import plural
from ..charts import bars
from ..markup import Cell, Panel, Section, folded, join, sentence_list, table, tag
from ..number_text import percent, seconds

KINDS = ("computed", "waited", "sent")
"""The kinds of time that a rank spends."""

_NOTABLE = 0.05  # share of the time of the steps for which the others wait for a slow rank


@dataclass(frozen=True)
class RankTimes:
    """Seconds of one rank in all steps of the epochs in question."""

    rank: int
    host: str
    threads: int
    computed: float
    waited: float
    sent: float

    @property
    def total(self) -> float:
        return self.computed + self.waited + self.sent


@dataclass(frozen=True)
class RankSection:
    """The section of a report about ranks."""

    ranks: list[RankTimes]
    efficiency: float
    """Time computing / (computing + waiting + sending), over all ranks."""
    slowest: RankTimes | None
    """The rank that others waited for, if that is worth speaking of."""
    speedup: float | None
    """Time of an epoch on one rank / time of an epoch here, if a run on one rank is given."""
    sentences: list[str]


def rank_section(
    history: Sequence[Mapping[str, Any]], baseline: Sequence[Mapping[str, Any]] | None = None
) -> RankSection | None:
    """The section of a report about ranks; None for a run that was not distributed.

    ``baseline`` is the history of the same training on one rank. A run that was resumed on another number of ranks has several
    layouts; the section is about the last one.

    >>> ranks = {"computed_seconds": [6.0, 8.0], "waited_seconds": [2.0, 0.0], "sent_seconds": [2.0, 2.0]}
    >>> record = {"epoch": 1, "seconds": 10.5, "ranks": {**ranks, "hosts": ["a", "b"], "threads": [4, 4]}}
    >>> section = rank_section([record], baseline=[{"epoch": 1, "seconds": 16.8}])
    >>> section.efficiency, section.slowest.rank, round(section.speedup, 2)
    (0.7, 1, 1.6)
    >>> for sentence in section.sentences:
    ...     print(sentence)
    2 ranks on 2 hosts spent 70.0% of their steps computing, 10.0% waiting for other ranks and 20.0% sending gradients.
    Rank 1 on b is the slowest: the other ranks waited for it 2.0 s each, 20.0% of their steps.
    An epoch takes 10.50 s, and 16.80 s on one rank: 1.60 times as fast, an efficiency of 80.0%.
    """
    used = _last_layout(history)
    if not used:
        return None
    ranks = _sum(used)
    times = {kind: sum(getattr(rank, kind) for rank in ranks) for kind in KINDS}
    whole = sum(times.values()) or 1.0
    slowest = _slowest(ranks)
    speedup = None if not baseline else _epoch(baseline) / (_epoch(used) or 1.0)
    sentences = _sentences(used, len(history), ranks, {kind: t / whole for kind, t in times.items()}, slowest)
    if speedup is not None and baseline:
        sentences.append(
            f"An epoch takes {_epoch(used):.2f} s, and {_epoch(baseline):.2f} s on one rank: {speedup:.2f} times as fast, an "
            f"efficiency of {speedup / len(ranks):.1%}."
        )
    return RankSection(ranks, times["computed"] / whole, slowest, speedup, sentences)


EXPLANATION = (
    "Computing is all of a step but messages: data, forward and backward passes, optimizer. Sending is to sum gradients and to "
    "pass them on; of the time for which ranks are blocked by messages it is, in each step, that of the rank which was blocked "
    "least. Waiting is the rest of that time: for other ranks. Validation and checkpoints do not count."
)


def _last_layout(history: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The epochs at the end that all had the ranks of the last one."""
    places: list[Mapping[str, Any]] = []
    for record in reversed(history):
        hosts = record.get("ranks", {}).get("hosts")
        if hosts is None or (places and hosts != places[0]["ranks"]["hosts"]):
            break
        places.append(record)
    return places[::-1]


def _sum(records: Sequence[Mapping[str, Any]]) -> list[RankTimes]:
    last = records[-1]["ranks"]
    return [
        RankTimes(
            rank,
            host,
            threads,
            *(sum(record["ranks"][f"{kind}_seconds"][rank] for record in records) for kind in KINDS),
        )
        for rank, (host, threads) in enumerate(zip(last["hosts"], last["threads"], strict=True))
    ]


def _slowest(ranks: Sequence[RankTimes]) -> RankTimes | None:
    """The rank that waited least, if the others waited notably for it."""
    first, *others = sorted(ranks, key=lambda rank: rank.waited)
    if not others or _mean([rank.waited for rank in others]) < _NOTABLE * _mean([rank.total for rank in others]):
        return None
    return first


def _epoch(history: Sequence[Mapping[str, Any]]) -> float:
    """Median seconds of an epoch, without validation."""
    times = sorted(r["seconds"] - r.get("phase_seconds", {}).get("validation", 0.0) for r in history)
    middle = len(times) // 2
    return float(times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _sentences(
    used: Sequence[Mapping[str, Any]],
    epochs: int,
    ranks: Sequence[RankTimes],
    shares: Mapping[str, float],
    slowest: RankTimes | None,
) -> list[str]:
    hosts = len({rank.host for rank in ranks})
    names = f"{len(ranks)} {'rank' if len(ranks) == 1 else 'ranks'} on {hosts} {'host' if hosts == 1 else 'hosts'}"
    told = [
        f"{names} spent {shares['computed']:.1%} of their steps computing, {shares['waited']:.1%} waiting for other ranks and "
        f"{shares['sent']:.1%} sending gradients."
    ]
    if slowest is not None:
        others = [rank for rank in ranks if rank is not slowest]
        waited, total = _mean([rank.waited for rank in others]), _mean([rank.total for rank in others])
        told.append(
            f"Rank {slowest.rank} on {slowest.host} is the slowest: the other ranks waited for it {waited:.1f} s each, "
            f"{waited / total:.1%} of their steps."
        )
    if len(used) < epochs:
        told.append(f"These are epochs {used[0]['epoch']} to {used[-1]['epoch']}; earlier ones ran on other ranks.")
    return told


_BARS = 32


def rank_sections(
    history: Sequence[Mapping[str, Any]], baseline: Sequence[Mapping[str, Any]] | None = None
) -> list[Section]:
    """For ``sections`` of :func:`write`; empty for a run that was not distributed.

    ``baseline`` is the history of the same training on one rank.
    """
    measured = rank_section(history, baseline)
    if measured is None:
        return []
    ordered = sorted(measured.ranks, key=lambda rank: rank.waited)  # the slowest waits least
    shown = sorted(ordered[:_BARS], key=lambda rank: rank.rank)
    rows = [
        (f"{rank.rank} {rank.host}", [getattr(rank, kind) for kind in KINDS], seconds(rank.total)) for rank in shown
    ]
    note = f"The {len(shown)} slowest of {len(measured.ranks)} ranks" if len(shown) < len(measured.ranks) else ""
    times = [
        [
            Cell(f"{rank.rank} {rank.host}, {plural(rank.threads, 'thread')}", rank.rank),
            *(Cell(seconds(getattr(rank, kind)), getattr(rank, kind)) for kind in KINDS),
            Cell(percent(rank.computed / rank.total if rank.total else 0.0), rank.computed / (rank.total or 1.0)),
        ]
        for rank in measured.ranks
    ]
    listed = table(("rank", *KINDS, "share computing"), times)
    panels = [
        Panel(
            "How the ranks worked together",
            join(sentence_list(measured.sentences), tag("p", EXPLANATION, class_="hint")),
        ),
        Panel(
            "Time of each rank",
            join(bars(("rank", "", "time"), rows, KINDS, caption=note), folded("As a table", listed)),
        ),
    ]
    return [Section("ranks", "Ranks", panels)]
