"""The ranks of a distributed run, and how each of them spent its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..._plural import plural
from ...distributed.rank_times import EXPLANATION, KINDS, rank_section
from ..charts import bars
from ..markup import Cell, Panel, Section, folded, join, sentence_list, table, tag
from ..numbers import percent, seconds

_BARS = 32


def rank_sections(
    history: Sequence[Mapping[str, Any]], baseline: Sequence[Mapping[str, Any]] | None = None
) -> list[Section]:
    """For ``sections`` of :func:`write`; empty for a run that was not distributed.

    ``baseline`` is the history of the same training on one rank.
    """
    found = rank_section(history, baseline)
    if found is None:
        return []
    ordered = sorted(found.ranks, key=lambda rank: rank.waited)  # the slowest waits least
    shown = sorted(ordered[:_BARS], key=lambda rank: rank.rank)
    rows = [
        (f"{rank.rank} {rank.host}", [getattr(rank, kind) for kind in KINDS], seconds(rank.total)) for rank in shown
    ]
    note = f"The {len(shown)} slowest of {len(found.ranks)} ranks" if len(shown) < len(found.ranks) else ""
    times = [
        [
            Cell(f"{rank.rank} {rank.host}, {plural(rank.threads, 'thread')}", rank.rank),
            *(Cell(seconds(getattr(rank, kind)), getattr(rank, kind)) for kind in KINDS),
            Cell(percent(rank.computed / rank.total if rank.total else 0.0), rank.computed / (rank.total or 1.0)),
        ]
        for rank in found.ranks
    ]
    listed = table(("rank", *KINDS, "share computing"), times)
    panels = [
        Panel(
            "How the ranks worked together", join(sentence_list(found.sentences), tag("p", EXPLANATION, class_="hint"))
        ),
        Panel(
            "Time of each rank",
            join(bars(("rank", "", "time"), rows, KINDS, caption=note), folded("As a table", listed)),
        ),
    ]
    return [Section("ranks", "Ranks", panels)]
