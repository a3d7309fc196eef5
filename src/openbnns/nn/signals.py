"""SIGINT and SIGTERM while a network is trained."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class StopRequest:
    """A request to stop: set once a signal has arrived, with the signal's name."""

    requested = False
    signal_name = ""


@contextmanager
def deferred_signals() -> Iterator[StopRequest]:
    """SIGINT and SIGTERM wait for the end of a step; a second SIGINT does not."""
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: Any) -> None:
        if stop.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.requested, stop.signal_name = True, signal.Signals(number).name

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
