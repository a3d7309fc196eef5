"""A network card with a limit, in place of one: messages arrive when the bytes before them and their own could have passed.

Unlike namespaces with a limit (two_hosts.py), this costs the ranks no time for a network stack: the card would do that work.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from openbnns.distributed import exchange
from openbnns.distributed.exchange import Swap

_TAG = 1 << 14  # of the messages that say when the others arrive


class LimitedSwap(Swap):
    """Messages that leave a rank one after the other, ``rate`` bytes per second; receivers are told when they will arrive."""

    rate = 1e9
    free_at = 0.0  # when the card of this rank has sent all that it was given

    def __init__(self, mpi: Any, comm: Any) -> None:
        super().__init__(mpi, comm)
        self._bytes: dict[int, int] = {}
        self._arrivals: dict[int, Any] = {}
        self._departures: dict[int, Any] = {}

    def send(self, array: Any, rank: int, tag: int = 0) -> None:
        if rank not in self._departures:
            self._bytes[rank], self._departures[rank] = 0, np.zeros(1)
            super().send(self._departures[rank], rank, _TAG)
        self._bytes[rank] += array.nbytes
        super().send(array, rank, tag)

    def receive(self, array: Any, rank: int, tag: int = 0) -> None:
        if rank not in self._arrivals:
            self._arrivals[rank] = np.zeros(1)
            super().receive(self._arrivals[rank], rank, _TAG)
        super().receive(array, rank, tag)

    def start(self) -> Swap:
        cls = LimitedSwap
        for rank, count in self._bytes.items():
            cls.free_at = max(cls.free_at, perf_counter()) + count / self.rate
            self._departures[rank][0] = cls.free_at
        self._here = False
        return super().start()

    def Test(self) -> bool:
        self._here = self._here or super().Test()
        times = [*self._departures.values(), *self._arrivals.values()]
        return self._here and perf_counter() >= max((float(t[0]) for t in times), default=0.0)

    def Wait(self) -> None:
        while not self.Test():
            pass


def limit(bytes_per_second: float) -> None:
    """From now on, exchanges by messages have such a card. The clocks of the ranks have to be one: they are on one machine."""
    LimitedSwap.rate = bytes_per_second
    exchange.Swap = LimitedSwap  # type: ignore[misc]
