"""The hosts, cores and threads of the ranks of a job, and warnings if there are too many threads."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .. import runtime
from .._plural import plural
from .._table import Table
from ..distributed.communicator import own_cores


class RankPlace(NamedTuple):
    """The place of one rank. ``cores`` are the numbers of the cores that it may use, which not every system reports."""

    host: str
    cores: frozenset[int]
    present: int  # cores of the host
    threads: int


def own_place() -> RankPlace:
    """The place of this process."""
    return RankPlace(platform.node(), own_cores(), os.cpu_count() or 1, runtime.get_num_threads())


def spans(numbers: Iterable[int]) -> str:
    """Numbers in few characters.

    >>> spans({0, 1, 2, 3, 8, 10, 11})
    '0-3,8,10-11'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, span)) for span in runs)


def table(places: Sequence[RankPlace]) -> Table:
    """A row for each rank.

    >>> print(table([RankPlace("node1", frozenset({0, 1}), 4, 2), RankPlace("node1", frozenset({2, 3}), 4, 2)]))
    rank  host   affinity  cores  of  threads
    ----  -----  --------  -----  --  -------
    0     node1  0-1           2   4        2
    1     node1  2-3           2   4        2
    """
    rows = [
        (str(rank), place.host, spans(place.cores), str(len(place.cores)), str(place.present), str(place.threads))
        for rank, place in enumerate(places)
    ]
    return Table(("rank", "host", "affinity", "cores", "of", "threads"), rows, words=3)


def in_words(places: Sequence[RankPlace]) -> str:
    """The layout in a few words.

    >>> in_words([RankPlace("node1", frozenset({0, 1}), 2, 1)] * 2)
    '2 ranks on 1 host, 1 thread each'
    """
    hosts = len({place.host for place in places})
    threads = sorted({place.threads for place in places})
    each = f"{threads[0]} to {threads[-1]} threads" if len(threads) > 1 else plural(threads[0], "thread")
    return f"{plural(len(places), 'rank')} on {plural(hosts, 'host')}, {each}{' each' if len(places) > 1 else ''}"


def warnings(places: Sequence[RankPlace]) -> list[str]:
    """Warnings about slow ranks on a host: more threads than cores, or cores that no rank may use.

    >>> for line in warnings([RankPlace("node1", frozenset({0}), 8, 2)] * 2):
    ...     print(line.split(". ")[0])
    node1: ranks 0 and 1 run 4 threads on 1 core
    node1: its ranks may use 1 of 8 cores
    """
    lines = []
    for host in dict.fromkeys(place.host for place in places):
        here = {rank: place for rank, place in enumerate(places) if place.host == host}
        lines += _crowded(host, here)
        used = frozenset[int]().union(*(place.cores for place in here.values()))
        present = max(place.present for place in here.values())
        if len(used) < present:
            lines.append(
                f"{host}: its ranks may use {len(used)} of {present} cores. If that is not meant, start them without "
                "binding, or bind them to more cores."
            )
    return lines


def _crowded(host: str, here: dict[int, RankPlace]) -> list[str]:
    """Groups of ranks that share cores and have more threads than these."""
    groups: list[tuple[frozenset[int], list[int]]] = []
    for rank, place in here.items():
        cores, members = place.cores, [rank]
        for group in [group for group in groups if group[0] & cores]:
            groups.remove(group)
            cores, members = cores | group[0], group[1] + members
        groups.append((cores, members))
    lines = []
    for cores, members in groups:
        threads = sum(here[rank].threads for rank in members)
        if threads > len(cores):
            names = f"rank {members[0]} runs" if len(members) == 1 else f"ranks {_list(members)} run"
            lines.append(
                f"{host}: {names} {threads} threads on {plural(len(cores), 'core')}. Start fewer ranks per host, use fewer "
                "threads (OPENBNNS_NUM_THREADS), or bind ranks to different cores."
            )
    return lines


def _list(ranks: Sequence[int]) -> str:
    if len(ranks) == 2:
        return f"{ranks[0]} and {ranks[1]}"
    return spans(ranks)
