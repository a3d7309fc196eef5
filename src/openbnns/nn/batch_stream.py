"""Batches on their way from a source to the network: checked, transformed, and read ahead in a thread where that pays."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeVar

import numpy as np

from ..graph.tensor import Array
from . import transforms
from .batches import ArraySource, Batch, Cut, Parts, Source
from .data.dataset import require_finite
from .nested_arrays import called, joined, keys_of, parts_of
from .transforms import Draws

_Item = TypeVar("_Item")

AHEAD = 2  # batches that are read in advance, unless told otherwise


class Feed:
    """A source with the transforms that are applied to its batches, and how many of them are read in advance.

    ``first`` is the first batch, whose shapes the network is built for. ``arrange`` and ``require`` come before the first epoch.
    """

    def __init__(
        self,
        source: Source,
        changes: Sequence[transforms.Function] = (),
        *,
        seed: int,
        training: bool,
        ahead: int | None = None,
    ) -> None:
        self.source, self.changes = source, list(changes)
        self.ahead = ahead if ahead is not None else (AHEAD if source.waits else 0)
        self._seed, self._training = seed, training
        self._check: Callable[[Batch], None] | None = None
        self._order: tuple[list[int], list[int]] | None = None  # the order of the parts, if it is changed
        given = source.first()
        self.x_keys, self.y_keys = source.x_keys, source.y_keys
        if changes:
            x, y = self._change(self._narrowed(given), 0)
            self.x_keys, self.y_keys = keys_of(x), keys_of(y)
        self.first = self._prepared(given, 0)
        self.shapes = {key: array.shape[1:] for key, array in zip(self.x_keys, self.first.x, strict=True)}
        # Whether transforms leave the targets, which may have been checked in advance, as they are.
        self._same_targets = all(a is b for a, b in zip(given.y, self.first.y, strict=False))

    def arrange(self, x: list[int], y: list[int]) -> None:
        """Give samples and targets in this order of their parts: that of the inputs and outputs of the network."""
        if x != sorted(x) or y != sorted(y):
            self._order = x, y
            self.first = self._arranged(self.first)

    def require(self, check: Callable[[Batch], None]) -> None:
        """Check targets: all of them now where that is possible, else batch by batch."""
        if self.source.checked and isinstance(self.source, ArraySource) and self._same_targets:
            whole = self.source.whole()
            check(whole if self._order is None else self._arranged(whole))
            return
        check(self.first)
        self._check = check

    def epoch(self, number: int, first: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, without those before ``first``."""
        batches = self.source.epoch(number, first)
        if self.changes or self._order is not None or not self.source.checked:
            batches = self._all_prepared(batches, number)
        return read_ahead(batches, self.ahead) if self.ahead else batches

    def parts(self, number: int, first: int, cut: Cut) -> Iterator[Parts]:
        """The batches of an epoch, without those before ``first``, of each only the parts that ``cut`` gives."""
        parts = self._parts_prepared(self.source.parts(number, first, cut), number)
        return read_ahead(parts, self.ahead) if self.ahead else parts

    def _parts_prepared(self, given: Iterator[Parts], epoch: int) -> Iterator[Parts]:
        with closing(given):  # type: ignore[type-var]
            for size, batches in given:
                yield Parts(size, [None if batch is None else self._prepared(batch, epoch) for batch in batches])

    def _all_prepared(self, batches: Iterator[Batch], epoch: int) -> Iterator[Batch]:
        with closing(batches):  # type: ignore[type-var]
            for batch in batches:
                yield self._prepared(batch, epoch)

    def _prepared(self, batch: Batch, epoch: int) -> Batch:
        if not self.source.checked:
            batch = self._narrowed(batch)
        if self.changes:
            batch = self._changed(batch, epoch)
        if self._order is not None:
            batch = self._arranged(batch)
        if self._check is not None:
            self._check(batch)
        return batch

    def _arranged(self, batch: Batch) -> Batch:
        assert self._order is not None
        x, y = self._order
        return batch._replace(x=[batch.x[i] for i in x], y=[batch.y[i] for i in y])

    def _narrowed(self, batch: Batch) -> Batch:
        """The batch as float32, refused if anything in it is not finite."""
        with np.errstate(over="ignore"):  # what becomes infinite is refused with its place
            x, y = ([_float32(array) for array in parts] for parts in (batch.x, batch.y))
        for name, keys, parts in (("x", self.source.x_keys, x), ("y", self.source.y_keys, y)):
            for key, array in zip(keys, parts, strict=True):
                require_finite(
                    array, f"Trainer: {called(name, key)}, in the batch with sample {batch.numbers[0]} first,"
                )
        return batch._replace(x=x, y=y)

    def _change(self, batch: Batch, epoch: int) -> tuple[Any, Any]:
        def draws(position: int) -> Draws:
            return Draws(self._seed, epoch, batch.numbers, stream=position, training=self._training)

        x, y = joined(self.source.x_keys, batch.x), joined(self.source.y_keys, batch.y)
        return transforms.apply(self.changes, x, y, draws)

    def _changed(self, batch: Batch, epoch: int) -> Batch:
        """The batch after all transforms, with its parts in the order that they had in the first batch."""
        both = []
        for name, value, keys in zip("xy", self._change(batch, epoch), (self.x_keys, self.y_keys), strict=True):
            found = dict(zip(keys_of(value), parts_of(value), strict=True))
            if set(found) != set(keys):
                raise ValueError(
                    f"Trainer: transforms give {name} with parts {list(found)}, but in the first batch {keys}."
                )
            both.append([np.asarray(found[key]) for key in keys])
            for array in both[-1]:
                if array.ndim < 1 or len(array) != batch.size or array.dtype.kind not in "fiub":
                    raise ValueError(
                        f"Trainer: transforms give {name} as {array.dtype} of shape {array.shape} for {batch.size} samples. Give "
                        "one entry of numbers for each sample."
                    )
        return batch._replace(x=both[0], y=both[1])


def _float32(array: Array) -> Array:
    return np.ascontiguousarray(array, np.float32) if array.dtype.kind == "f" else np.asarray(array)


class _Ended:
    """The end of what a thread reads, or the error that ended it."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def read_ahead(items: Iterator[_Item], count: int) -> Iterator[_Item]:
    """The same items, of which a thread makes up to ``count`` in advance. Its errors are raised where the items would come."""
    waiting: queue.Queue[Any] = queue.Queue(count)
    ended = threading.Event()

    def put(item: Any) -> bool:
        while not ended.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def read() -> None:
        error: BaseException | None = None
        try:
            for item in items:
                if not put(item):
                    break
        except BaseException as caught:
            error = caught
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
        put(_Ended(error))

    thread = threading.Thread(target=read, name="openbnns read ahead", daemon=True)
    thread.start()
    try:
        while True:
            item = waiting.get()
            if isinstance(item, _Ended):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        ended.set()
        thread.join(10)
