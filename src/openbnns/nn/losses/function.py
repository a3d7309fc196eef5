"""Losses that users write as functions of values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._spelling import spelled
from ...graph import functions
from ...graph.sizes import Size, product
from ...graph.structure import Structure, flatten
from ...graph.tensor import Array, Tensor
from ..module import Module
from ..nested_arrays import Key, called, joined, keys_of, parts_of
from ._base import BoundLoss, Loss, LossAndGradient
from .loss_program import LossProgram

_KEPT = 4  # forms of outputs and targets that a function stays recorded for


class FunctionLoss(Loss):
    """Any function of outputs and targets, written with expressions, as a loss.

    It is called with the network's output (a value, or tuples and dictionaries of values, nested or not) and with the
    targets, one array or several in any structure, and returns a single number, or one per sample, whose mean is trained
    on. Gradients are derived automatically, one for each output. A function of one argument needs no targets. Like
    ``forward``, the function is recorded once, not run at every call: a number that changes from step to step is passed
    with the targets.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> loss = nn.FunctionLoss(lambda y, t: ((y - t) ** 2).mean() + 0.5 * y.abs().sum(dim=1).mean())
    >>> value, gradient = loss(np.float32([[1, 2]]), np.float32([[1, 1]]))
    >>> value, gradient.tolist()
    (2.0, [[0.5, 1.5]])
    >>> far = nn.FunctionLoss(lambda outputs, t: ((outputs[0] - t) ** 2).mean() - outputs[1].mean())
    >>> value, (first, second) = far((np.float32([[1]]), np.float32([[2, 3]])), np.float32([[0]]))
    >>> value, first.tolist(), second.tolist()
    (-1.5, [[2.0]], [[-0.5, -0.5]])
    """

    _reductions = ("mean",)

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        if not callable(function):
            raise TypeError(f"FunctionLoss: {function!r} cannot be called. Pass a function of outputs and targets.")
        self.function = function
        least, most = _positional(function)
        if least > 2 or most < 1:
            raise TypeError(
                f"FunctionLoss: {self._name} takes {least if least > 2 else 'no'} arguments, but it is called with outputs and "
                "targets, or with outputs alone. Put what else it needs into a closure or a class."
            )
        self.takes_targets, self.needs_targets = most > 1, least > 1

    @property
    def _name(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def bind(self, output: Array, gradient: Array | None) -> BoundFunction:
        return self.bind_all([output], [gradient], Structure(), len(output))

    def bind_all(
        self, outputs: Sequence[Array], gradients: Sequence[Array | None], structure: Structure, samples: int
    ) -> BoundFunction:
        """The loss on the outputs of a network for so many samples; the function gets them in the structure of ``forward``."""
        return BoundFunction(self, outputs, gradients, structure, samples)

    @spelled
    def __call__(self, output: Any, targets: Any = None, *, sample_weights: Any = None) -> tuple[Any, Any]:
        """The loss and its gradient with respect to ``output``, in the structure that ``output`` has."""
        given, structure = flatten(output)
        outputs, labels, keys = list(map(np.asarray, given)), list(map(np.asarray, parts_of(targets))), keys_of(targets)
        _check_samples(outputs, labels, keys)
        form = (structure, tuple(keys), *((array.shape, array.dtype.kind) for array in (*outputs, *labels)))
        bound: BoundFunction | None = self._layers.pop(form, None)
        if bound is None:
            held = [np.empty(array.shape, np.float32) for array in outputs]
            bound = self.bind_all(held, [np.empty_like(array) for array in held], structure, len(held[0]))
        for array, held_array in zip(outputs, bound.outputs, strict=True):
            np.copyto(held_array, array, casting="unsafe")
        bound.take_all(labels, keys)
        value = bound.run(sample_weights)
        self._layers[form] = bound
        while len(self._layers) > _KEPT:
            self._layers.pop(next(iter(list(self._layers))), None)  # unless another thread was faster
        return LossAndGradient((value, structure.fill(np.array(gradient) for gradient in bound.gradients)))

    def check(self, output_shape: tuple[int, ...], targets: Array) -> None:
        """Targets of any shape may fit; the function says so when it is recorded."""

    def __repr__(self) -> str:
        return f"FunctionLoss({getattr(self.function, '__qualname__', type(self.function).__name__)})"


def _check_samples(outputs: Sequence[Array], targets: Sequence[Array], keys: Sequence[Key]) -> None:
    counts = {array.shape[:1] for array in (*outputs, *targets)}
    if len(counts) != 1 or () in counts:
        shapes = ", ".join(str(array.shape) for array in outputs)
        known = ", ".join(
            f"the {called('targets', key)} {array.shape}" for key, array in zip(keys, targets, strict=True)
        )
        raise ValueError(
            f"FunctionLoss: the outputs have shape {shapes}, {known}. All have one entry per sample, on the first axis."
        )


def _positional(function: Callable[..., Any]) -> tuple[int, float]:
    """The numbers of arguments that a function takes by position, at least and at most."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some functions of C do not tell
        return 2, 2
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    by_position = [p for p in parameters if p.kind in kinds]
    least = sum(p.default is inspect.Parameter.empty for p in by_position)
    several = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    return least, float("inf") if several else len(by_position)


class _Network(Module):
    """The loss as a network: takes outputs and targets, gives the loss."""

    def __init__(self, loss: FunctionLoss, structure: Structure, count: int, keys: Sequence[Key]) -> None:
        super().__init__()
        self._loss, self._form, self._count, self._keys = loss, structure, count, list(keys)

    def forward(self, *inputs: Tensor) -> Tensor:
        loss = self._loss
        given = [self._form.fill(inputs[: self._count])]
        if loss.takes_targets and (self._keys or loss.needs_targets):
            given.append(joined(self._keys, inputs[self._count :]))
        result = loss.function(*given)
        if not isinstance(result, Tensor) or not _is_loss(result):
            what = f"{result.shape}" if isinstance(result, Tensor) else f"a {type(result).__name__}"
            raise TypeError(
                f"{loss._name}: a loss gives one number, or one per sample, but this one gives {what}. Use mean()."
            )
        mean: Tensor = functions.mean(result)
        return mean


def _is_loss(result: Tensor) -> bool:
    """True for one number, or one for each sample."""
    return product(result.shape[1:] if result.shape and isinstance(result.shape[0], Size) else result.shape) == 1


class BoundFunction(BoundLoss):
    """A loss function recorded for fixed arrays; it is built with the first targets, which tell their shape.

    It reads outputs and writes gradients in place.
    """

    def __init__(
        self,
        loss: FunctionLoss,
        outputs: Sequence[Array],
        gradients: Sequence[Array | None],
        structure: Structure,
        samples: int,
    ) -> None:
        super().__init__(loss, gradients[0], (samples,))
        self._function, self._structure, self._samples = loss, structure, samples
        self.outputs, self.gradients = list(outputs), list(gradients)
        self._program: LossProgram | None = None

    def take(self, targets: Array) -> None:
        self.take_all([targets], [None])

    def take_all(self, targets: Sequence[Array], keys: Sequence[Key]) -> None:
        """Read the targets of a batch, which belong to these keys."""
        if self._program is None:
            network = _Network(self._function, self._structure, len(self.outputs), keys)
            self._program = LossProgram(network, self.outputs, self.gradients, targets)
        for i, (array, key) in enumerate(zip(targets, keys, strict=True)):
            wanted = self._program.shape_of_target(i)
            if array.shape != wanted:  # which NumPy might broadcast
                raise ValueError(
                    f"{self._function!r}: {called('targets', key)} has shape {array.shape}, but had {wanted} before. All "
                    "batches need targets of one shape."
                )
            self._program.take(i, array)

    def _total(self, samples: Array | None) -> float:
        return float(self._samples)

    def run(self, sample_weights: Array | None = None, total: float | None = None) -> float:
        if sample_weights is not None:
            raise ValueError("FunctionLoss: sample weights cannot be put into a function. Use them inside it.")
        own = self._total(None)
        share = 1.0 if total is None else own / total
        assert self._program is not None, "take comes first"
        value = float(self._program.forward()) * share
        self.total_weight = own if total is None else total
        self._program.backward(share)
        return value
