"""Batches of samples: where they come from, in which order, and their way to the network.

A source (arrays in memory, rows of files, or any iterable) gives the batches of an epoch by its number, from any batch on, and
always the same ones: that is what makes a run resumable. The order of arrays is a permutation that follows from the seed and the
number of the epoch alone. A stream of batches checks and transforms them, and reads ahead in a thread where that pays.
"""

from __future__ import annotations

import inspect
import queue
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..files.untrusted import DataError
from ..graph.tensor import Array
from . import transforms
from .data.dataset import Batches, check_parts, is_mapped, require_finite
from .data.sources import BlockRows
from .nested_arrays import Key, called, joined, keys_of, parts_of
from .transforms import Draws

Span = tuple[int, int]
"""A half-open range of samples: its first position, and the position behind its last."""


def cut(count: int, parts: int) -> list[Span]:
    """``count`` things cut into ``parts`` spans whose lengths differ by at most one; with too few things some are empty.

    >>> cut(10, 4)
    [(0, 2), (2, 5), (5, 7), (7, 10)]
    """
    return [(count * i // parts, count * (i + 1) // parts) for i in range(parts)]


def shuffled(random: np.random.RandomState, count: int, rows: Array | None) -> Array:
    """A random order of this many samples, or of these rows."""
    order: Array = random.permutation(count if rows is None else rows)
    return order


class BlockOrder:
    """A random order of samples stored in blocks that needs few blocks at a time. Indexed by spans within a batch.

    The blocks are shuffled, and so are the samples within each window, a run of consecutive blocks. This
    sequence is cut into streams, as many as a batch has shards, and shard s of every batch takes the next samples of
    stream s. So a rank reads the blocks of its shards alone, and a batch has samples of as many windows as there are shards.
    The blocks in memory, on all ranks together, are ``window``, or one for each stream if there are more of those.
    """

    def __init__(
        self,
        random: np.random.RandomState,
        rows: Array | None,
        ends: Array,
        *,
        window: int,
        streams: int,
        batch_size: int,
    ) -> None:
        """``ends`` are the ends of the blocks; ``rows``, in ascending order, are the samples to use, if not all."""
        count = int(ends[-1]) if rows is None else len(rows)
        borders = np.concatenate([[0], ends if rows is None else np.searchsorted(rows, ends)])
        filled = np.flatnonzero(np.diff(borders))
        filled = filled[random.permutation(len(filled))]
        self._order, done = np.empty(count, np.int64), 0
        together = max(1, window // streams)
        for first in range(0, len(filled), together):
            start = done
            for block in filled[first : first + together]:
                low, high = int(borders[block]), int(borders[block + 1])
                self._order[done : done + high - low] = np.arange(low, high) if rows is None else rows[low:high]
                done += high - low
            random.shuffle(self._order[start:done])
        self._count, self._batch_size = count, batch_size
        batches, rest = divmod(count, batch_size)
        self._spans, self._last = cut(batch_size, streams), cut(rest, streams)
        taken = [batches * _span_length(a) + _span_length(b) for a, b in zip(self._spans, self._last, strict=True)]
        self._starts = np.concatenate([[0], np.cumsum(taken)]).tolist()

    def __getitem__(self, span: slice) -> Array:
        """The samples at some positions of one batch."""
        batch, first = divmod(span.start, self._batch_size)
        last = first + span.stop - span.start
        pieces = []
        spans = self._spans if (batch + 1) * self._batch_size <= self._count else self._last
        for stream, (low, high) in enumerate(spans):
            a, b = max(low, first), min(high, last)
            if a < b:
                start = self._starts[stream] + batch * _span_length(self._spans[stream]) - low
                pieces.append(self._order[start + a : start + b])
        return np.concatenate(pieces)


def _span_length(span: Sequence[int]) -> int:
    return span[1] - span[0]


class Batch(NamedTuple):
    """Samples and targets, each a list of arrays with the batch axis in front."""

    x: list[Array]
    y: list[Array]
    weights: Array | None
    """The weights of the samples, if they have any."""
    numbers: Array
    """The numbers of the samples, from which everything random about a sample follows."""

    @property
    def size(self) -> int:
        return len(self.numbers)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the samples, with their number."""
        return tuple(array.shape for array in self.x)

    def part(self, start: int, end: int) -> Batch:
        """Some of the samples."""
        weights = None if self.weights is None else self.weights[start:end]
        return Batch([a[start:end] for a in self.x], [a[start:end] for a in self.y], weights, self.numbers[start:end])


class BatchParts(NamedTuple):
    """BatchParts of a batch of ``size`` samples; None for those that are empty."""

    size: int
    batches: list[Batch | None]


Cut = Callable[[int, int], Sequence[tuple[int, int]]]
"""(number of a batch in its epoch, its samples) -> the spans of the parts that are wanted."""


class Source(ABC):
    """A source of batches. ``x_keys`` and ``y_keys`` are the keys of the parts of samples and targets."""

    x_keys: list[Key]
    y_keys: list[Key]
    batches: int
    """The number of batches in an epoch."""
    checked = False
    """True if all data have been checked in advance, so that batches need no checks."""
    waits = False
    """True if batches do not come from memory, so that it pays to read ahead."""

    @abstractmethod
    def epoch(self, number: int, first: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, without those before ``first``."""

    @abstractmethod
    def parts(self, number: int, first: int, cut: Cut) -> Iterator[BatchParts]:
        """The same batches, of each only the parts that ``cut`` gives."""

    @property
    @abstractmethod
    def sizes(self) -> list[int]:
        """Sizes of batches, as far as they are known, the usual one first."""

    @property
    @abstractmethod
    def arrays(self) -> tuple[list[Array], list[Array]]:
        """The samples and targets that identify the data in a checkpoint."""

    def first(self) -> Batch:
        """The first batch of the first epoch."""
        batches = self.epoch(0)
        try:
            return next(batches)
        finally:
            batches.close()  # type: ignore[attr-defined]


class ArraySource(Source):
    """Batches of arrays, or of rows that are indexed like them, shuffled if there is a seed.

    ``rows`` are the samples to take, if not all. Each batch will be cut into so many ``shards``.
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        who: str,
        *,
        batch_size: int,
        seed: int | None = None,
        weights: Array | None = None,
        rows: Array | None = None,
        shards: int = 1,
    ) -> None:
        self.x_keys, self.y_keys = keys_of(x), keys_of(y)
        self.x, self.y = check_parts(x, y, who)
        self.weights, self.rows = weights, rows
        self.batch_size, self._seed, self._shards = batch_size, seed, shards
        parts: list[Any] = [*self.x, *self.y]
        self._blocks = [part for part in parts if isinstance(part, BlockRows)]
        self.samples = len(self.x[0]) if rows is None else len(rows)
        self.batches = -(-self.samples // batch_size)
        self.waits = any(map(is_mapped, [*self.x, *self.y]))
        self.checked = not self.waits

    def part(self, rows: Array, *, shuffled: bool, batch_size: int) -> ArraySource:
        """Some of the samples."""
        source = ArraySource.__new__(ArraySource)
        source.__dict__.update(self.__dict__)
        source.rows, source.samples, source.batch_size = rows, len(rows), batch_size
        source.batches = -(-source.samples // batch_size)
        source._seed = self._seed if shuffled else None
        return source

    def whole(self) -> Batch:
        """All samples of the arrays."""
        return Batch(self.x, self.y, self.weights, np.arange(len(self.x[0])))

    def epoch(self, number: int, first: int = 0) -> Iterator[Batch]:
        order = self._order(number)
        for start in range(first * self.batch_size, self.samples, self.batch_size):
            yield self._batch(order, start, min(start + self.batch_size, self.samples))

    def parts(self, number: int, first: int, cut: Cut) -> Iterator[BatchParts]:
        order = self._order(number)
        for index in range(first, self.batches):
            start = index * self.batch_size
            size = min(self.batch_size, self.samples - start)
            spans = cut(index, size)
            yield BatchParts(size, [self._batch(order, start + a, start + b) if a < b else None for a, b in spans])

    def _order(self, number: int) -> Array | BlockOrder | None:
        """The order of the samples in an epoch; None if they are not reordered."""
        if self._seed is None:
            return self.rows
        # RandomState, because its streams never change between versions of NumPy.
        random = np.random.RandomState([self._seed, number])
        if not self._blocks:
            return shuffled(random, self.samples, self.rows)
        for part in self._blocks:
            part.keep(self._shards)
        blocks, size = self._blocks[0], self.batch_size
        return BlockOrder(random, self.rows, blocks.ends, window=blocks.window, streams=self._shards, batch_size=size)

    def _batch(self, order: Array | BlockOrder | None, start: int, end: int) -> Batch:
        chosen: Any = slice(start, end) if order is None else order[start:end]
        weights = None if self.weights is None else self.weights[chosen]
        numbers = np.arange(start, end) if order is None else chosen
        return Batch([a[chosen] for a in self.x], [a[chosen] for a in self.y], weights, numbers)

    @property
    def sizes(self) -> list[int]:
        return [min(self.samples, self.batch_size), self.samples % self.batch_size or self.batch_size]

    @property
    def arrays(self) -> tuple[list[Array], list[Array]]:
        return self.x, [*self.y, *([] if self.weights is None else [self.weights])]


class IterableSource(Source):
    """Batches (x, y) or (x, y, weights) from anything that can be iterated once per epoch.

    A function is called for every epoch, with its number from 0 if it takes an argument. A torch ``DataLoader`` draws from
    generators that are set from the seed and the epoch while it is read, and put back after each batch.
    """

    waits = True

    def __init__(
        self,
        batches: Any,
        who: str,
        *,
        seed: int = 0,
        say: Callable[[str], None] = lambda text: None,
        targets: bool = True,
    ) -> None:
        """Without ``targets``, for losses that need none, batches may be samples alone: x, (x,) or (x, None)."""
        self._batches, self._who, self._seed, self._targets = batches, who, seed, targets
        self._open = self._opener()
        self._first: Batch | None = None
        self._first = self.first()
        self.x_keys, self.y_keys = self._keys
        length = _length(batches)
        if length is None:
            say(
                f"{who}: the batches have no len(), so they are read once to count them. nn.data.Batches(function, count) tells "
                "their number."
            )
            length = sum(1 for _ in self._checked(0, None))
        self.batches = length

    @property
    def sizes(self) -> list[int]:
        assert self._first is not None
        return [self._first.size]

    @property
    def arrays(self) -> tuple[list[Array], list[Array]]:
        assert self._first is not None
        return self._first.x, self._first.y

    def _opener(self) -> Callable[[int], Iterator[Any]]:
        batches, who = self._batches, self._who
        torch = sys.modules.get("torch.utils.data")
        if torch is not None and isinstance(batches, torch.DataLoader):
            self.waits = False  # it has workers of its own, and its generators are shared with this thread
            return lambda epoch: _read_loader(batches, self._seed, epoch)
        if isinstance(batches, Batches):
            make = self._calling(batches.function)
            return lambda epoch: islice(make(epoch), batches.count)
        if hasattr(batches, "__iter__"):
            if iter(batches) is batches:
                raise DataError(
                    f"{who}: x is a {type(batches).__name__} that can be read only once, but every epoch reads it anew. Pass the "
                    "function that makes it (without calling it), or a list of batches."
                )
            return lambda epoch: iter(batches)
        if not callable(batches):
            raise DataError(
                f"{who}: y is missing, and x is a {type(batches).__name__}, which gives no batches. Pass x and y, or an "
                "iterable of batches (x, y)."
            )
        return self._calling(batches)

    @staticmethod
    def _calling(function: Callable[..., Any]) -> Callable[[int], Iterator[Any]]:
        positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        takes_epoch = any(p.kind in positional for p in inspect.signature(function).parameters.values())
        return lambda epoch: iter(function(epoch) if takes_epoch else function())

    def epoch(self, number: int, first: int = 0) -> Iterator[Batch]:
        expected = self.batches if self._first is not None else None
        for index, batch in enumerate(self._checked(number, expected)):
            if index >= first:
                yield batch

    def parts(self, number: int, first: int, cut: Cut) -> Iterator[BatchParts]:
        with closing(self.epoch(number, first)) as batches:  # type: ignore[type-var]
            for index, batch in enumerate(batches, first):
                yield BatchParts(batch.size, [batch.part(a, b) if a < b else None for a, b in cut(index, batch.size)])

    def _checked(self, number: int, expected: int | None) -> Iterator[Batch]:
        """All batches of an epoch, each like the first one ever."""
        seen, batches, iterator = 0, 0, self._open(number)
        try:
            for item in iterator:
                who = f"{self._who}: batch {batches + 1} of epoch {number + 1}"
                if batches == expected:
                    raise DataError(f"{who} is one too many: len() says that there are {expected}.")
                batch = self._batch(item, who, seen)
                seen, batches = seen + batch.size, batches + 1
                yield batch
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()
        if expected not in (None, batches) or not batches:
            told = "at least one is needed" if expected is None else f"len() says that there are {expected}"
            raise DataError(f"{self._who}: epoch {number + 1} gave {batches} batches, but {told}.")

    def _batch(self, item: Any, who: str, seen: int) -> Batch:
        if not self._targets and (not isinstance(item, (tuple, list)) or len(item) == 1):
            item = (item[0] if isinstance(item, (tuple, list)) else item, None)
        if not isinstance(item, (tuple, list)) or len(item) not in (2, 3) or (self._targets and item[1] is None):
            raise DataError(f"{who} is a {type(item).__name__}. Give (x, y) or (x, y, sample_weights) for every batch.")
        x, y = check_parts(item[0], item[1], who)
        keys = keys_of(item[0]), keys_of(item[1])
        if self._first is None:
            self._keys = keys
        else:
            x = self._in_first_order("x", keys[0], x, who)
            y = self._in_first_order("y", keys[1], y, who)
        weights = None if len(item) == 2 else check_weights(item[2], len(x[0]), who)
        return Batch(x, y, weights, np.arange(seen, seen + len(x[0])))

    def _in_first_order(self, name: str, keys: list[Key], parts: list[Array], who: str) -> list[Array]:
        """The parts in the order of the first batch; raises an error if keys or numbers of axes differ."""
        assert self._first is not None
        before, firsts = (self._keys[0], self._first.x) if name == "x" else (self._keys[1], self._first.y)
        by_key = dict(zip(keys, parts, strict=True))
        if set(by_key) != set(before):
            raise DataError(
                f"{who}: {name} has parts {keys}, but in the first batch {before}. Give the same in every batch."
            )
        for key, first in zip(before, firsts, strict=True):
            if by_key[key].ndim != first.ndim:
                raise DataError(
                    f"{who}: {called(name, key)} has shape {by_key[key].shape}, but in the first batch {first.shape}. Sizes may "
                    "differ from batch to batch, the number of axes may not."
                )
        return [by_key[key] for key in before]


def _length(batches: Any) -> int | None:
    try:
        return len(batches)
    except TypeError:
        return None


def _read_loader(loader: Any, seed: int, epoch: int) -> Iterator[Any]:
    """The batches of a torch DataLoader. Its random numbers follow from seed and epoch; afterwards its generators are
    restored."""
    torch = sys.modules["torch"]
    owners = (loader, loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None))
    own = [g for g in (getattr(owner, "generator", None) for owner in owners) if g is not None]
    generators = list({id(g): g for g in (torch.default_generator, *own)}.values())
    word = int(np.random.RandomState([seed, epoch]).randint(2**31))
    ours = [torch.Generator().manual_seed(word).get_state() for _ in generators]

    def with_ours(call: Callable[[], Any]) -> Any:
        theirs = [g.get_state() for g in generators]
        for generator, state in zip(generators, ours, strict=True):
            generator.set_state(state)
        try:
            return call()
        finally:
            ours[:] = [g.get_state() for g in generators]
            for generator, state in zip(generators, theirs, strict=True):
                generator.set_state(state)

    iterator = with_ours(lambda: iter(loader))
    end = object()
    while (item := with_ours(lambda: next(iterator, end))) is not end:
        yield _as_tuples(item)


def _as_tuples(item: Any) -> Any:
    """Lists as tuples, all the way down: a DataLoader makes lists of the tuples of a data set."""
    if isinstance(item, (list, tuple)):
        return tuple(map(_as_tuples, item))
    return item


def check_weights(weights: Any, count: int, who: str) -> Array:
    """The weights of samples as float32; raises an error if they do not fit or are invalid."""
    array = np.asarray(weights)
    if array.dtype.kind not in "fiub" or array.shape != (count,):
        raise DataError(
            f"{who}: sample_weights are {array.dtype} of shape {array.shape}, but {count} samples need one number each: shape "
            f"({count},)."
        )
    array = array.astype(np.float32)
    require_finite(array, f"{who}: sample_weights")
    if array.min() < 0 or not array.any():
        which = f"{array.min():g} at {int(array.argmin())}" if array.min() < 0 else "0 for all samples"
        raise DataError(f"{who}: sample_weights are {which}. Weights must be at least 0, and some of them above 0.")
    return array


_Item = TypeVar("_Item")

AHEAD = 2  # batches that are read ahead by default


class BatchStream:
    """A source with the transforms that are applied to its batches, and how many of them are read in advance.

    ``first`` is the first batch, whose shapes the network is built for. ``arrange`` and ``require`` come before the first epoch.
    """

    def __init__(
        self,
        source: Source,
        changes: Sequence[transforms.TransformFunction] = (),
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
        """Reorder the parts of samples and targets like the inputs and outputs of the network."""
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

    def parts(self, number: int, first: int, cut: Cut) -> Iterator[BatchParts]:
        """The batches of an epoch, without those before ``first``, of each only the parts that ``cut`` gives."""
        parts = self._parts_prepared(self.source.parts(number, first, cut), number)
        return read_ahead(parts, self.ahead) if self.ahead else parts

    def _parts_prepared(self, given: Iterator[BatchParts], epoch: int) -> Iterator[BatchParts]:
        with closing(given):  # type: ignore[type-var]
            for size, batches in given:
                yield BatchParts(size, [None if batch is None else self._prepared(batch, epoch) for batch in batches])

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
        """The batch as float32; raises an error if anything in it is not finite."""
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
            by_key = dict(zip(keys_of(value), parts_of(value), strict=True))
            if set(by_key) != set(keys):
                raise ValueError(
                    f"Trainer: transforms give {name} with parts {list(by_key)}, but in the first batch {keys}."
                )
            both.append([np.asarray(by_key[key]) for key in keys])
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
    """The same items, up to ``count`` of them prepared ahead by a thread. Its errors are raised where the items would
    come."""
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
