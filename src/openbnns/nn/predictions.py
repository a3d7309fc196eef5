"""Predictions of a network, with the names and units of the data it was trained on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._listing import of_module as _of_module
from .._plural import plural
from ..graph.sizes import Size
from ..graph.tensor import Array
from .recording import recording_of

if TYPE_CHECKING:
    from .module import Module

_SHOWN = 10  # samples in a repr
BATCH = 256  # samples at a time


@dataclass(frozen=True, repr=False)
class Predictions:
    """The predictions of a network for some samples; ``np.asarray`` of it gives the main result.

    * classification: ``labels``, the names of the classes or their numbers, and ``probabilities`` (N, classes);
    * several labels per sample: ``labels`` (N, classes) of booleans, and ``probabilities`` (N, classes);
    * regression: ``values``, in the units of the data;
    * a network that does not know its task: ``values``, which are its ``outputs``. Where these are a dictionary, a tuple or a
      list, ``predictions["name"]`` is one of a dictionary, and ``predictions[i]`` has the entries of sample i of all.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> net = nn.Linear(2, 2, bias=False)
    >>> net.weight.data[:] = [[1, 0], [0, 1]]
    >>> found = nn.Predictions.of(net(np.float32([[3, 1]])), "classification", ("cat", "dog"))
    >>> found.labels.tolist(), [f"{p:.2f}" for p in found.probabilities[0]]
    (['cat'], ['0.88', '0.12'])
    """

    outputs: Any
    """The outputs as the network gives them."""
    task: str | None = None
    classes: tuple[str, ...] = ()
    probabilities: Array | None = None
    labels: Array | None = None
    values: Any = None

    @classmethod
    def of(
        cls,
        outputs: Any,
        task: str | None = None,
        classes: Sequence[str] = (),
        *,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> Predictions:
        """Make predictions from the outputs of a network: scores of classes, scores of labels, or standardized numbers."""
        names = tuple(classes)
        if task == "classification":
            chances = _softmax(outputs)
            best = np.argmax(outputs, axis=1)  # not of probabilities, which rounding may make equal
            return cls(outputs, task, names, chances, np.array(names)[best] if names else best)
        if task == "multilabel":
            return cls(outputs, task, names, _sigmoid(outputs), np.asarray(outputs) > 0)
        if task == "regression":
            scaled = np.asarray(outputs, np.float64)
            if mean is not None and std is not None:
                scaled = scaled * np.asarray(std) + np.asarray(mean)
            values = scaled.astype(np.float32)
            return cls(
                outputs, task, names, values=values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
            )
        return cls(outputs, task, names, values=outputs)

    def some(self, rows: Array) -> Predictions:
        """The entries of some samples, by number."""
        parts = (self.outputs, self.probabilities, self.labels, self.values)
        outputs, probabilities, labels, values = (None if part is None else _rows(part, rows) for part in parts)
        return Predictions(outputs, self.task, self.classes, probabilities, labels, values)

    @property
    def confidence(self) -> Array | None:
        """The probability of the class that was chosen; None if there are no classes."""
        return None if self.probabilities is None or self.task != "classification" else self.probabilities.max(axis=1)

    @property
    def _main(self) -> Any:
        return self.labels if self.labels is not None else self.values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if isinstance(self._main, (dict, tuple, list)):
            first = next(iter(self._main)) if isinstance(self._main, dict) else 0
            raise TypeError(
                f"Predictions: the network gives a {type(self._main).__name__} of outputs, not one array. Take one: "
                f"predictions.outputs[{first!r}]."
            )
        return np.array(self._main, dtype, copy=True) if copy else np.asarray(self._main, dtype)

    def __len__(self) -> int:
        return len(next(_arrays(self._main)))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        return self._main[index] if isinstance(index, str) else _rows(self._main, index)

    def __eq__(self, other: object) -> Any:
        return np.asarray(self) == np.asarray(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if isinstance(self._main, (dict, tuple, list)):
            named = self._main.items() if isinstance(self._main, dict) else enumerate(self._main)
            lines = [f"  {name}: {', '.join(str(array.shape) for array in _arrays(part))}" for name, part in named]
            return f"Predictions of {len(self)} sample{'s' if len(self) != 1 else ''}, outputs:\n" + "\n".join(lines)
        lines = []
        for i in range(min(len(self), _SHOWN)):
            chosen = self[i]
            if self.task == "classification":
                assert self.confidence is not None
                lines.append(f"  {chosen}  {self.confidence[i]:.1%}")
            elif self.task == "multilabel":
                names = [self.classes[j] if self.classes else str(j) for j in np.flatnonzero(chosen)]
                lines.append(f"  {', '.join(names) or '(none)'}")
            else:
                lines.append(f"  {chosen}")
        more = f"\n  ... {len(self) - _SHOWN} more" if len(self) > _SHOWN else ""
        return f"Predictions of {len(self)} sample{'s' if len(self) != 1 else ''}:\n" + "\n".join(lines) + more


def _arrays(outputs: Any) -> Iterator[Array]:
    """The arrays in outputs as a network gives them."""
    if isinstance(outputs, (dict, tuple, list)):
        for part in outputs.values() if isinstance(outputs, dict) else outputs:
            yield from _arrays(part)
    else:
        yield np.asarray(outputs)


def _rows(outputs: Any, index: Any) -> Any:
    """The entries of some samples in all outputs."""
    if isinstance(outputs, dict):
        return {name: _rows(part, index) for name, part in outputs.items()}
    if isinstance(outputs, (tuple, list)):
        return type(outputs)(_rows(part, index) for part in outputs)
    return np.asarray(outputs)[index]


def _softmax(scores: Array) -> Array:
    shifted = np.exp(np.asarray(scores, np.float64) - np.max(scores, axis=1, keepdims=True))
    shares: Array = (shifted / shifted.sum(axis=1, keepdims=True)).astype(np.float32)
    return shares


def _sigmoid(scores: Array) -> Array:
    with np.errstate(over="ignore"):  # which gives 0, as it should
        return (1 / (1 + np.exp(-np.asarray(scores, np.float64)))).astype(np.float32)


def run_all(network: Module, arrays: Sequence[Array], batch_size: int = BATCH) -> Any:
    """The outputs of a network for all samples in inference mode, in batches, as its ``forward`` gives them.

    Networks that take a certain number of samples at a time get no more of them.
    """
    batch_size = min(batch_size, network._most_samples or batch_size)
    starts = range(0, len(arrays[0]), batch_size)
    pieces = [network._infer([array[start : start + batch_size] for array in arrays]) for start in starts]
    structure, outputs = pieces[0]
    if len(pieces) == 1:
        return structure.fill(outputs)
    counts = [min(batch_size, len(arrays[0]) - start) for start in starts]
    joined = []
    pairs = _pairs_of_samples(network, [array[:batch_size] for array in arrays])
    for number, parts in enumerate(zip(*(outputs for _, outputs in pieces), strict=True)):
        if pairs[number] or any(part.shape[:1] != (count,) for part, count in zip(parts, counts, strict=True)):
            problem = "which depends on all of them" if pairs[number] else "not an entry for each"
            shape, count = parts[0].shape, counts[0]
            cure = "Call" if network._most_samples else f"Pass batch_size={len(arrays[0])}, or call"
            raise ValueError(
                f"{type(network).__name__}.predict: output {number} has shape {shape} for {plural(count, 'sample')}, {problem}, "
                f"so batches cannot be joined. {cure} the network with each batch."
            )
        joined.append(np.concatenate(parts))
    return structure.fill(joined)


def _pairs_of_samples(network: Module, batch: Sequence[Array]) -> list[bool]:
    """True for outputs whose axes beside the first depend on the number of samples, too, such as similarities (N, N)."""
    graph = recording_of(network, False, tuple(array.shape for array in batch)).graph
    count = graph.inputs[0].shape[0]
    names = count.names() if isinstance(count, Size) else set()
    return [any(isinstance(n, Size) and n.names() & names for n in value.shape[1:]) for value in graph.outputs]


__all__ = ["Predictions"]

__dir__ = _of_module(__name__)
