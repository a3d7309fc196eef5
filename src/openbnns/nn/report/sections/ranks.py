"""How the ranks of a distributed run spent their time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...distributed.rank_times import rank_section
from ..markup import Markup, Panel, Section


def rank_sections(
    history: Sequence[Mapping[str, Any]], baseline: Sequence[Mapping[str, Any]] | None = None
) -> list[Section]:
    """The section about ranks, if a run had several; ``baseline`` is the history of the same training on one rank."""
    found = rank_section(history, baseline)
    if found is None:
        return []
    return [Section("ranks", found.title, [Panel("Computing, waiting and sending", Markup(found.html), wide=True)])]
