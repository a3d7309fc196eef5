"""The base of all metrics, and two ways to accumulate them over an epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..._flags import with_flags
from ..._listing import Listed
from ..._spelling import spelled
from ...graph.tensor import Array
from ..losses import Loss
from ..nested_arrays import Key, joined, keys_of, parts_of
from ..nested_arrays import part as part_of


class Running(ABC):
    """A metric while an epoch runs. ``arrays`` is all that it has collected, for checkpoints."""

    keys: tuple[list[Key], list[Key]] | None = None
    """The keys of the parts of outputs and targets, if it keeps them."""

    @abstractmethod
    def add(self, outputs: Any, targets: Any) -> None:
        """Count a batch. The arrays are overwritten afterwards, so what is kept of them is copied."""

    @abstractmethod
    def value(self) -> float: ...

    @abstractmethod
    def arrays(self) -> dict[str, Array]: ...

    @abstractmethod
    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore what ``arrays`` returned in another process."""

    def join(self, other: Running) -> None:
        """Add what another one of the same metric has collected, on other samples. Ranks that train together need it."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot join what several ranks have collected. Give it a method join(other)."
        )


class Metric(Listed, ABC):
    """Base of the metrics. ``metric(outputs, targets)`` is its value for these arrays.

    ``output`` selects one of several outputs of a network, and the target of the same key. ``higher_is_better`` is ``None``
    if the metric does not say so itself.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.metrics.MAE()(np.float32([1, 2]), np.float32([1, 4]))
    1.0
    """

    name = ""
    higher_is_better: bool | None = True
    of_classes = False
    """True for metrics of classes or decisions, False for metrics of numbers."""
    threshold: float | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in cls.__dict__:
            cls.__init__ = with_flags(cls.__init__, spelled(cls.__init__))  # type: ignore[method-assign]

    def __init__(self, *, output: Key = None) -> None:
        self.output = output

    @abstractmethod
    def start(self, loss: Loss | None = None) -> Running:
        """Begin an epoch; the loss tells which axis lists classes (without one it is axis 1)."""

    def __call__(self, outputs: Any, targets: Any, loss: Loss | None = None) -> float:
        running = self.start(loss)
        running.add(np.asarray(outputs), np.asarray(targets))
        return running.value()

    def __repr__(self) -> str:
        """All options, so that resuming a run with other options is noticed."""
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if value is not None)
        return f"{type(self).__name__}({shown})"


class Counts(Running):
    """Numbers that are added up, in one array of float64 or int64."""

    def __init__(self, counts: Array) -> None:
        self.counts = counts

    def arrays(self) -> dict[str, Array]:
        return {"counts": self.counts}

    def join(self, other: Running) -> None:
        assert isinstance(other, Counts)
        if not self.counts.size:
            self.counts = np.array(other.counts)
        elif other.counts.size:
            self.counts = self.counts + other.counts

    def restore(self, arrays: Mapping[str, Array]) -> None:
        self.counts = counts_of(arrays, self.counts.shape).astype(self.counts.dtype)


def counts_of(arrays: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
    """The array of counts of a checkpoint. A last axis of 0 stands for outputs whose number is not known yet."""
    counts = arrays.get("counts")
    fits = (
        counts is not None
        and counts.ndim == len(shape)
        and all(m in (n, 0) for n, m in zip(counts.shape, shape, strict=True))
    )
    if counts is None or not fits:
        raise ValueError(
            f"a metric has collected {', '.join(arrays) or 'nothing'}, but counts of shape {shape} are needed"
        )
    return np.array(counts)


class Gathered(Running):
    """Outputs and targets of all samples of the epoch, for metrics that need all of them at once.

    Each may be an array or several; ``prepare`` says what to keep of a batch.
    """

    def __init__(
        self, value: Callable[[Any, Any], float], prepare: Callable[[Any, Any], tuple[Any, Any]] | None = None
    ) -> None:
        self._value, self._prepare = value, prepare
        self.keys: tuple[list[Key], list[Key]] = ([None], [None])
        self._parts: list[list[Array]] = []

    def add(self, outputs: Any, targets: Any) -> None:
        if self._prepare is not None:
            outputs, targets = self._prepare(outputs, targets)
        self.keys = keys_of(outputs), keys_of(targets)
        parts = [*parts_of(outputs), *parts_of(targets)]
        self._parts = self._parts or [[] for _ in parts]
        for kept, part in zip(self._parts, parts, strict=True):
            kept.append(np.array(part))

    def value(self) -> float:
        if not self._parts:
            return float("nan")
        whole, count = list(self.arrays().values()), len(self.keys[0])
        return self._value(joined(self.keys[0], whole[:count]), joined(self.keys[1], whole[count:]))

    def join(self, other: Running) -> None:
        assert isinstance(other, Gathered)
        if other._parts:
            self.keys = other.keys
            self._parts = self._parts or [[] for _ in other._parts]
            for kept, more in zip(self._parts, other._parts, strict=True):
                kept += more

    def arrays(self) -> dict[str, Array]:
        self._parts = [[np.concatenate(kept)] for kept in self._parts]
        return {f"part{i}": kept[0] for i, kept in enumerate(self._parts)}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        if set(arrays) != {f"part{i}" for i in range(len(arrays))}:
            raise ValueError(f"a metric has collected {', '.join(arrays)}, which it does not know")
        self._parts = [[np.array(arrays[f"part{i}"])] for i in range(len(arrays))]


class _Mean(Counts):
    """The mean of a function over batches, weighted by their numbers of samples."""

    def __init__(self, function: Callable[[Any, Any], float]) -> None:
        super().__init__(np.zeros(2))
        self._function = function

    def add(self, outputs: Any, targets: Any) -> None:
        count = len(part_of(outputs, None))
        self.counts += (float(self._function(outputs, targets)) * count, count)

    def value(self) -> float:
        return float(self.counts[0] / self.counts[1]) if self.counts[1] else float("nan")


class Custom(Metric):
    """A function (outputs, targets) -> number.

    It is called for every batch, and its values are averaged; with ``whole_epoch`` it is called once, with the outputs and
    targets of all samples. ``higher_is_better`` is for early stopping.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> worst = nn.metrics.Custom(lambda y, t: abs(y - t).max(), whole_epoch=True, higher_is_better=False)
    >>> worst(np.float32([1, 2]), np.float32([1, 5]))
    3.0
    """

    name = "custom"

    def __init__(
        self,
        function: Callable[[Any, Any], float],
        *,
        whole_epoch: bool = False,
        higher_is_better: bool | None = None,
        output: Key = None,
    ) -> None:
        super().__init__(output=output)
        if not callable(function):
            raise TypeError(f"metrics.Custom: {function!r} is called with (outputs, targets). Pass a function.")
        self.function, self.whole_epoch, self.higher_is_better = function, bool(whole_epoch), higher_is_better

    def start(self, loss: Loss | None = None) -> Running:
        if self.whole_epoch:
            return Gathered(lambda outputs, targets: float(self.function(outputs, targets)))
        return _Mean(self.function)

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return f"Custom({name}{', whole_epoch=True' if self.whole_epoch else ''})"
