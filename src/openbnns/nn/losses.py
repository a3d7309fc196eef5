"""Losses of networks, each on a LossLayer. All give the mean over the batch.

``targets`` are as in PyTorch: class numbers for :class:`CrossEntropyLoss`, or arrays of the network's output shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import LossFunction, LossLayer, LossReduction, Shape
from .._spelling import spelled
from ._value import Array

_MOST_ROWS = 256


class BoundLoss:
    """A loss on fixed arrays: ``take`` fills the labels, ``run`` gives the loss and writes the gradient."""

    def __init__(self, loss: Loss, output: Array, gradient: Array | None) -> None:
        self._output, self._target = output, gradient
        axis = loss.class_axis(output.ndim)
        self._axis = None if axis in (None, output.ndim - 1) else axis  # classes that have to be moved to the end
        width = int(np.prod(output.shape[1:], dtype=np.int64)) if axis is None else output.shape[axis]
        if self._axis is None:
            self._rows = output.reshape(-1, width)
            self._gradient: Any = None if gradient is None else gradient.reshape(-1, width)
        else:
            self._rows = np.empty((output.size // width, width), np.float32)
            self._gradient = None if gradient is None else np.empty_like(self._rows)
        self.labels = np.zeros_like(self._rows)
        self.program: Any = None  # whose output this is
        self._value = np.empty(1, np.float32)
        layer = LossLayer(
            input=Shape.vector(width), loss_function=loss.function(), loss_reduction=LossReduction.REDUCTION_MEAN
        )
        self._apply: Callable[..., object] = layer.apply
        self._take = loss.fill
        if self._gradient is None:
            from ..layers import skip

            self._gradient = skip

    def take(self, targets: Array) -> None:
        """Write the labels of a batch."""
        if self._axis is not None and targets.ndim == self._output.ndim:
            targets = np.moveaxis(targets, self._axis, -1)
        self._take(self.labels, targets)

    def run(self) -> float:
        """The loss of the output for these labels; its gradient goes to the gradient array."""
        if self._axis is None:
            self._apply(self._rows, self.labels, self._value, None, self._gradient)
            return float(self._value[0])
        moved = np.moveaxis(self._output, self._axis, -1)
        self._rows.reshape(moved.shape)[...] = moved
        self._apply(self._rows, self.labels, self._value, None, self._gradient)
        if self._target is not None:
            np.moveaxis(self._target, self._axis, -1)[...] = self._gradient.reshape(moved.shape)
        return float(self._value[0])


class LossAndGradient(tuple[float, Array]):
    """What calling a loss gives: PyTorch's gives a tensor with a graph, this one says what to do instead."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"A loss gives the pair (value, gradient), which has no {name!r}: no graph of tensors is kept. Write\n"
            "    value, gradient = criterion(network(x), targets)\n    network.backward(gradient)\n    optimizer.step()\n"
            "or let nn.Trainer do it."
        )


class Loss:
    """Base of the losses.

    ``loss(y, targets)`` gives the mean over the batch and its gradient with respect to y.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> net, loss = nn.Linear(1), nn.MSELoss()
    >>> y = net(np.float32([[1], [2]]))
    >>> value, gradient = loss(y, np.float32([[3], [5]]))
    >>> dx = net.backward(gradient)  # and net.weight.grad, net.bias.grad
    >>> gradient.shape, dx.shape
    ((2, 1), (2, 1))
    """

    classes = False  # targets are class numbers

    def class_axis(self, rank: int) -> int | None:
        """The axis of an output of so many axes, with the batch in front, that lists the classes; None: there are none."""
        return None

    def function(self) -> LossFunction:
        raise NotImplementedError

    def fill(self, labels: Array, targets: Array) -> None:
        """Write targets into the label array (rows, width)."""
        np.copyto(labels, targets.reshape(labels.shape), casting="unsafe")

    def bind(self, output: Array, gradient: Array | None) -> BoundLoss:
        """The loss on fixed arrays: the network's output, and where the gradient goes, if anywhere."""
        return BoundLoss(self, output, gradient)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in cls.__dict__:
            cls.__init__ = spelled(cls.__init__)  # type: ignore[method-assign]

    def __call__(self, output: Any, targets: Any) -> tuple[float, Array]:
        """The loss and its gradient with respect to ``output``."""
        y = np.ascontiguousarray(output, np.float32)
        gradient = np.empty_like(y)
        bound = self.bind(y, gradient)
        self.check(y.shape, np.asarray(targets))
        bound.take(np.asarray(targets))
        return LossAndGradient((bound.run(), gradient))

    def check(self, output_shape: tuple[int, ...], targets: Array) -> None:
        """Refuse targets that do not fit the output of the network; both with a batch axis."""
        who = type(self).__name__
        if targets.shape != output_shape:
            raise ValueError(
                f"{who}: targets have shape {targets.shape}, but the network gives {output_shape}. They must agree."
            )
        if not np.isfinite(targets).all():
            where = np.argwhere(~np.isfinite(targets))[0]
            raise ValueError(
                f"{who}: targets contain {targets[tuple(where)]} at {tuple(map(int, where))}. Leave such samples out."
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class CrossEntropyLoss(Loss):
    """Softmax cross entropy of scores (N, classes) or (N, classes, ...) against class numbers (N,) or (N, ...).

    Classes stand on axis 1, as in PyTorch: scores of images are (N, classes, height, width). ``dim=-1`` takes them from the
    last axis instead: sequences that end in ``nn.Linear`` give (N, length, classes). Targets in the shape of the scores are
    probabilities of the classes, one-hot for instance.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.CrossEntropyLoss()(np.zeros((1, 4), np.float32), np.array([2]))
    >>> round(value, 4), gradient.tolist()
    (1.3863, [[0.25, 0.25, -0.75, 0.25]])
    >>> nn.CrossEntropyLoss()(np.zeros((1, 4), np.float32), np.float32([[0, 0.5, 0.5, 0]]))[1].tolist()
    [[0.25, -0.25, -0.25, 0.25]]
    """

    classes = True

    def __init__(self, label_smoothing: float = 0.0, *, dim: int = 1) -> None:
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(
                f"CrossEntropyLoss: label_smoothing is {label_smoothing}. It must be at least 0 and below 1."
            )
        if dim not in (1, -1):
            raise ValueError(
                f"CrossEntropyLoss: dim is {dim}. Classes stand on axis 1, or with dim=-1 on the last one."
            )
        self.label_smoothing, self.dim = float(label_smoothing), int(dim)
        self._rows = np.eye(0, dtype=np.float32)  # the labels of every class, where these are few

    def class_axis(self, rank: int) -> int | None:
        if rank < 2:
            raise ValueError(
                "CrossEntropyLoss: scores have one axis, but need a batch axis and classes: (N, classes). Pass scores[None]."
            )
        return self.dim % rank

    def function(self) -> LossFunction:
        return LossFunction.softmax_cross_entropy(label_smoothing=self.label_smoothing)

    def fill(self, labels: Array, targets: Array) -> None:
        if targets.dtype.kind == "f" or targets.size != len(labels):
            super().fill(labels, targets)
            return
        width = labels.shape[1]
        if width > _MOST_ROWS or targets.dtype == np.uint64:  # which take() refuses
            labels.fill(0.0)
            labels[np.arange(len(labels)), targets.reshape(-1)] = 1.0
            return
        if len(self._rows) != width:
            self._rows = np.eye(width, dtype=np.float32)
        self._rows.take(targets.reshape(-1), 0, labels)  # one call: between layers, little of NumPy is in the caches

    def check(self, output_shape: tuple[int, ...], targets: Array) -> None:
        axis = self.class_axis(len(output_shape))
        assert axis is not None
        classes, needed = output_shape[axis], (*output_shape[:axis], *output_shape[axis + 1 :])
        if targets.shape == output_shape and (targets.dtype.kind == "f" or classes > 1):
            super().check(output_shape, targets)
            return
        if targets.shape != needed:
            hint = ""
            if len(output_shape) > 2 and targets.shape in (output_shape[:-1], (output_shape[0], *output_shape[2:])):
                hint = f" If classes stand on {'the last axis' if self.dim == 1 else 'axis 1'}, use dim={-self.dim}."
            raise ValueError(
                f"CrossEntropyLoss: targets have shape {targets.shape}, but scores {output_shape} with classes on axis {axis} "
                f"need class numbers of shape {needed}, or probabilities in their own shape.{hint}"
            )
        if targets.dtype.kind not in "iu":
            raise TypeError(f"CrossEntropyLoss: targets are {targets.dtype}. Pass class numbers as integers.")
        if targets.size and not (targets.min() >= 0 and targets.max() < classes):
            worst = targets.min() if targets.min() < 0 else targets.max()
            raise ValueError(
                f"CrossEntropyLoss: class number {int(worst)} is out of range, because the network gives scores of classes 0 "
                f"to {classes - 1}."
            )

    def __repr__(self) -> str:
        shown = [f"label_smoothing={self.label_smoothing:g}"] if self.label_smoothing else []
        return f"CrossEntropyLoss({', '.join(shown + ['dim=-1'] * (self.dim < 0))})"


class MSELoss(Loss):
    """mean (y - t)².

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.MSELoss()(np.float32([[1], [5]]), np.float32([[1], [1]]))
    >>> value, gradient.tolist()
    (8.0, [[0.0], [4.0]])
    """

    def function(self) -> LossFunction:
        return LossFunction.mean_square_error()


class L1Loss(Loss):
    """mean |y - t|.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.L1Loss()(np.float32([[1], [5]]), np.float32([[0], [7]]))
    >>> value, gradient.tolist()
    (1.5, [[0.5], [-0.5]])
    """

    def function(self) -> LossFunction:
        return LossFunction.mean_absolute_error()


class HuberLoss(Loss):
    """Quadratic within ``delta`` of the target, linear beyond.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.HuberLoss(1.0)(np.float32([[0.5], [9]]), np.float32([[0], [0]]))
    >>> value, gradient.tolist()
    (4.3125, [[0.25], [0.5]])
    """

    def __init__(self, delta: float = 1.0) -> None:
        if not delta > 0:
            raise ValueError(f"HuberLoss: delta is {delta}. It must be above 0.")
        self.delta = float(delta)

    def function(self) -> LossFunction:
        return LossFunction.huber(huber_delta=self.delta)

    def __repr__(self) -> str:
        return f"HuberLoss(delta={self.delta:g})"


class BCEWithLogitsLoss(Loss):
    """Binary cross entropy of sigmoid(y) against targets between 0 and 1.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.BCEWithLogitsLoss()(np.float32([[0], [100]]), np.float32([[1], [1]]))
    >>> round(value, 4), gradient.tolist()
    (0.3466, [[-0.25], [0.0]])
    """

    def function(self) -> LossFunction:
        return LossFunction.sigmoid_cross_entropy()


NAMED: dict[str, type[Loss]] = {
    "cross_entropy": CrossEntropyLoss,
    "mse": MSELoss,
    "l1": L1Loss,
    "huber": HuberLoss,
    "bce_with_logits": BCEWithLogitsLoss,
}
