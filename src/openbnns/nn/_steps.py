"""Calls that a program makes again and again, native ones in one crossing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .. import _strict, engines

Call = Callable[[], object]
Stream = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]

_RECORDINGS = 8  # of one list of calls


class Chain(tuple[Call, ...]):
    """Calls made one after the other, as one.

    >>> Chain([lambda: print("copied"), lambda: print("added")])()
    copied
    added
    """

    def __call__(self) -> None:
        for call in self:
            call()


class Steps:
    """Calls that are made one after the other, again and again on the same memory.

    The first time, native code keeps what each call did; from then on, native calls that follow each other are one. Only
    a ``partial`` may be kept, whose arguments stay the same: what it does must be no more than one native call on
    ``lasting`` arrays.
    """

    def __init__(self, lasting: list[object]) -> None:
        self.calls: list[Call] = []
        self._lasting = lasting
        self._parts: list[tuple[Any, list[Call]]] = []  # native calls as a replay, others with None
        self._left = _RECORDINGS
        self._again = True  # whether to record the next time
        self._planned: Any = None  # what is read from elsewhere

    def run(self, weights: int = 0) -> None:
        """Make the calls. ``weights`` is a version of all parameters, by which native code knows what it has made of them.

        It comes from ``_core.new_weights_version``, and is another one as soon as any parameter may have changed; 0 says
        nothing.
        """
        if self._planned is not None:
            self._parts[0][0].redirect(self._planned, self._planned)
            self._planned = None
        if self._again and self._left > 0 and _is_native():
            self._record()
        elif not self._parts:
            for call in self.calls:
                call()
        elif not self._replay(weights):
            self._again = _is_native()

    def run_on(self, planned: np.ndarray[Any, Any], given: np.ndarray[Any, Any], weights: int = 0) -> None:
        """Make the calls with ``given`` in place of ``planned``, an array like it that they only read."""
        replay, calls = self._parts[0] if len(self._parts) == 1 else (None, [])
        if replay is not None and not self._again and replay.redirect(planned, given):
            self._planned = planned
            done = replay.run(0, weights)
            if done < len(calls):  # a call has declined, and what Python does now is on the planned memory
                np.copyto(planned, given)
                self._go_on(replay, calls, done, weights)
                self._again = _is_native()
        else:
            np.copyto(planned, given)
            self.run(weights)

    @property
    def is_one(self) -> bool:
        """Whether the calls are one native call by now."""
        return len(self._parts) == 1 and self._parts[0][0] is not None and not self._again

    def run_over(self, streams: Sequence[Stream], result: np.ndarray[Any, Any], results: np.ndarray[Any, Any]) -> int:
        """If ``is_one``: make the calls once for each of the ``results``; gives for how many of them that was done.

        A stream is ``(planned, given)``: the i-th time the calls use the i-th part of ``given``, as large as ``planned``, which
        they only read, in its place. What is in ``result`` then becomes the i-th of the results.
        """
        replay, calls = self._parts[0]
        done, made = replay.run_over(len(results), streams, result, results)
        if not made:
            return int(done)
        for planned, given in streams:  # a call has declined
            planned.reshape(-1)[:] = given.reshape(len(results), -1)[done]
        self._go_on(replay, calls, made)
        self._again = _is_native()
        results[done] = result.reshape(results[done].shape)
        return int(done + 1)

    def _replay(self, weights: int = 0) -> bool:
        """Whether no native call has declined."""
        declined = False
        for replay, calls in self._parts:
            done = 0 if replay is None else replay.run(0, weights)
            if done < len(calls):  # the native call has declined, or there is none
                declined = declined or replay is not None
                self._go_on(replay, calls, done, weights)
        return not declined

    def _go_on(self, replay: Any, calls: list[Call], done: int, weights: int = 0) -> None:
        """Make the calls that are not done yet, one that has declined first."""
        while done < len(calls):
            calls[done]()
            done = done + 1 if replay is None else replay.run(done + 1, weights)

    def _record(self) -> None:
        """Make the calls and keep what they do; what is not known yet may be the second time."""
        first, self._left = self._left == _RECORDINGS, self._left - 1
        calls = list(_flat(self.calls))
        parts: list[tuple[Any, list[Call]]] = []
        missed = False
        for call in calls:
            replay = parts[-1][0] if parts else None
            if isinstance(call, partial):
                if replay is not None and replay.add(call):
                    parts[-1][1].append(call)
                    continue
                if replay is None:
                    replay = engines._core.Replay(self._lasting)
                    if replay.add(call):
                        parts.append((replay, [call]))
                        continue
                missed = True
            else:
                call()
            parts.append((None, [call]))
        self._parts, self._again = parts, first and missed


def _is_native() -> bool:
    return engines.is_native() and not _strict.active()


def _flat(calls: Iterable[Call]) -> Iterator[Call]:
    for call in calls:
        if isinstance(call, Chain):
            yield from _flat(call)
        else:
            yield call


def arrays(given: object) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays among the arguments of calls, which stay the same."""
    if isinstance(given, np.ndarray):
        yield given
    elif isinstance(given, partial):
        yield from arrays((given.args, given.keywords))
    elif isinstance(given, Mapping):
        yield from arrays(tuple(given.values()))
    elif isinstance(given, (list, tuple)):
        for entry in given:
            yield from arrays(entry)
