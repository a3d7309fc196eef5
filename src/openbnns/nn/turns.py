"""Turns of threads that share networks: only one thread at a time records or trains.

A network keeps gradients, and what ``backward`` needs, once. A thread that trains it has its turn from the beginning of a pass
to its end, or for a whole run. Between the passes of a user's own loop another thread may run the network; the thread that
loses its values or gradients by that gets an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import current_thread, local
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..graph.parameter import Parameter
    from .module import Module

_CURE = (
    "A network can be trained by one thread at a time. For inference call eval() first: any number of threads may run a network "
    "in that mode. To train in several threads, give each a network of its own: copy.deepcopy(network)."
)


class Worker:
    """A thread, as long as it lives: its number may be reused later."""

    def __init__(self) -> None:
        self._thread = current_thread()

    @property
    def name(self) -> str:
        return self._thread.name

    @property
    def is_gone(self) -> bool:
        """True if the thread has ended, or is one of another process, as all but one are for the child of a fork."""
        return not self._thread.is_alive()


class _Own(local):
    def __init__(self) -> None:
        self.worker = Worker()


_own = _Own()


def this_worker() -> Worker:
    """The calling thread."""
    return _own.worker


def take(module: Module, who: str) -> bool:
    """Take the turn to train a module, or raise an error; gives whether the turn has to be ended."""
    own, turns = _own.worker, module.__dict__
    if turns.get("_turn") is own:  # in a run of the same thread
        return False
    held: Worker = turns.setdefault("_turn", own)
    if held is not own and held.is_gone:
        turns["_turn"] = own
    elif held is not own:
        raise RuntimeError(f"{who}: thread {held.name!r} is training {module._who} at this moment. {_CURE}")
    return True


def end(module: Module) -> None:
    module.__dict__.pop("_turn", None)


@contextmanager
def taken(modules: Iterable[Module], who: str) -> Iterator[None]:
    """The turn to train all of these, while the block lasts."""
    ours: list[Module] = []
    try:
        for module in modules:
            if take(module, who):
                ours.append(module)
        yield
    finally:
        for module in ours:
            end(module)


# Values and gradients that another thread has overwritten.


def begin_pass(network: Any) -> None:
    """Note that the calling thread runs a network in training mode, so that the pass of any other thread cannot go backward."""
    latest, own, overtaken = network._latest, _own.worker, network._overtaken
    if overtaken:
        overtaken.pop(own, None)
    if latest is not None and latest.worker is not own:
        overtaken[latest.worker] = own.name


def require_pass(network: Any) -> None:
    """Raise an error before a backward pass if another thread has run since, and overwritten the values of this one."""
    overtaken = network._overtaken
    name = overtaken.pop(_own.worker, None) if overtaken else None
    if name is not None:
        raise RuntimeError(
            f"{type(network).__name__}.backward: thread {name!r} has run the network in training mode since this thread did, so "
            f"the values to go back from are gone. {_CURE}"
        )


def note_gradients(parameters: Iterable[Parameter]) -> None:
    """Note that the calling thread has computed these gradients; unused ones of another thread are lost."""
    own = _own.worker
    for parameter in parameters:
        writer = parameter.written_by
        if writer is own:
            continue
        if parameter.lost_by is not None and parameter.lost_by[0] is own:
            parameter.lost_by = None
        if writer is not None:
            parameter.lost_by = writer, own.name
        parameter.written_by = own


def use_gradients(parameters: Iterable[Parameter], who: str) -> None:
    """Note that the calling thread uses these gradients; refuse if others have been computed since its own."""
    own = _own.worker
    for parameter in parameters:
        lost = parameter.lost_by
        if lost is not None and lost[0] is own:
            parameter.lost_by = None
            raise RuntimeError(
                f"{who}: thread {lost[1]!r} has overwritten the gradients that this thread computed, of parameters that both "
                f"train. {_CURE}"
            )
        parameter.written_by = None
