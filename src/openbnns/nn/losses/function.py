"""Losses that users write as functions of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._program import Program
from .._structure import Structure
from .._value import Array, Value
from ..module import Module
from ._base import BoundLoss, Loss


class FunctionLoss(Loss):
    """Any function of outputs and targets, written with expressions, as a loss.

    It is called with what the network gives (a value, or a tuple or dictionary of values) and with the targets, and
    returns a single number, or one per sample, whose mean is trained on. Gradients follow by themselves.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> loss = nn.FunctionLoss(lambda y, t: ((y - t) ** 2).mean() + 0.5 * y.abs().sum(dim=1).mean())
    >>> value, gradient = loss(np.float32([[1, 2]]), np.float32([[1, 1]]))
    >>> value, gradient.tolist()
    (2.0, [[0.5, 1.5]])
    """

    _reductions = ("mean",)

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        if not callable(function):
            raise TypeError(f"FunctionLoss: {function!r} cannot be called. Pass a function of outputs and targets.")
        self.function = function

    def bind(self, output: Array, gradient: Array | None) -> BoundFunction:
        return self.bind_all([output], [gradient], Structure())

    def bind_all(
        self, outputs: Sequence[Array], gradients: Sequence[Array | None], structure: Structure
    ) -> BoundFunction:
        """The loss on several outputs of a network, which the function gets in the structure that ``forward`` gave."""
        return BoundFunction(self, outputs, gradients, structure)

    def check(self, output_shape: tuple[int, ...], targets: Array) -> None:
        """Targets of any shape may fit; the function says so when it is recorded."""

    def __repr__(self) -> str:
        return f"FunctionLoss({getattr(self.function, '__qualname__', repr(self.function))})"


class _Network(Module):
    """Outputs and targets in, the loss out."""

    def __init__(self, loss: FunctionLoss, structure: Structure, count: int) -> None:
        super().__init__()
        self._loss, self._form, self._count = loss, structure, count

    def forward(self, *inputs: Value) -> Value:
        from .. import functional

        who = getattr(self._loss.function, "__name__", "loss")
        result = self._loss.function(self._form.fill(inputs[: self._count]), *inputs[self._count :])
        if not isinstance(result, Value) or (result.sample and result.count != 1):
            what = f"{result.shape}" if isinstance(result, Value) else f"a {type(result).__name__}"
            raise TypeError(
                f"{who}: a loss gives one number, or one per sample, but this one gives {what}. Use mean()."
            )
        mean: Value = functional.mean(result)
        return mean


class BoundFunction(BoundLoss):
    """A loss function recorded for fixed arrays; it is built with the first targets, which tell their shape."""

    def __init__(
        self, loss: FunctionLoss, outputs: Sequence[Array], gradients: Sequence[Array | None], structure: Structure
    ) -> None:
        super().__init__(loss, gradients[0], (len(outputs[0]),))
        self._outputs, self._gradients = list(outputs), list(gradients)
        self._network = _Network(loss, structure, len(outputs))
        self._program: Program | None = None

    def take(self, targets: Array) -> None:
        if self._program is None:
            shapes = [array.shape[1:] for array in (*self._outputs, targets)]
            self._network.build(*shapes)
            wanted = any(gradient is not None for gradient in self._gradients)
            self._program = self._network.program(len(self._outputs[0]), training=wanted, input_gradients=wanted)
        self._program.fill(len(self._outputs), targets)

    def run(self, sample_weights: Array | None = None) -> float:
        if sample_weights is not None:
            raise ValueError("FunctionLoss: sample weights cannot be put into a function. Use them inside it.")
        program = self._program
        assert program is not None, "take comes first"
        for i, output in enumerate(self._outputs):
            program.fill(i, output)
        value = float(program.forward())
        self.total_weight = float(len(self._outputs[0]))
        if program.output_gradient is not None:
            program.output_gradient[...] = 1
            program.backward()
            for target, gradient in zip(self._gradients, program.input_gradients, strict=False):
                if target is not None:
                    np.copyto(target, 0 if gradient is None else gradient)
        return value
