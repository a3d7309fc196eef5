"""Work in several threads that start at once."""

from __future__ import annotations

import threading
from collections.abc import Callable


def together(
    work: Callable[[int], None], count: int, meanwhile: Callable[[], None] | None = None
) -> list[BaseException]:
    """Call ``work`` with its number in so many threads, and ``meanwhile`` again and again in another; gives what work raised."""
    failures: list[BaseException] = []
    start, done = threading.Barrier(count), threading.Event()

    def guarded(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:
            failures.append(error)

    def disturb() -> None:
        while meanwhile is not None and not done.wait(0.001):
            meanwhile()

    workers = [threading.Thread(target=guarded, args=(k,), name=f"worker {k}") for k in range(count)]
    other = threading.Thread(target=disturb)
    for thread in (*workers, other):
        thread.start()
    for thread in workers:
        thread.join()
    done.set()
    other.join()
    return failures


def require(failures: list[BaseException]) -> None:
    """Raise the first error, where the test can fail."""
    if failures:
        raise failures[0]
