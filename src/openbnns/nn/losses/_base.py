"""The base of all losses: reduction, sample weights, and the memory of a loss that is computed repeatedly.

A loss of an output first has a value for every element, or for every row of scores: the losses before reduction. The result
is their weighted sum, divided by a total.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ... import LossFunction, LossLayer, LossReduction, Shape, compat
from ..._flags import with_flags
from ..._listing import Listed
from ..._spelling import nearest, spelled
from ...graph.calls import PlanCall
from ...graph.tensor import Array

Reduction = Literal["none", "sum", "mean"]
BNNSReduction = Literal["none", "sum", "mean", "weighted_mean", "non_zero_weight_mean"]


class LossAndGradient(tuple[Any, Any]):
    """The loss and its gradient. Attributes of PyTorch's result, a tensor with a graph, raise an error that says what to do."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"A loss gives the pair (value, gradient), which has no {name!r}: no graph of tensors is kept. Write\n"
            "    value, gradient = criterion(network(x), targets)\n    network.backward(gradient)\n    optimizer.step()\n"
            "or let nn.Trainer do it."
        )


class BoundLoss:
    """A loss on fixed arrays: ``take`` reads targets, ``run`` gives the loss and writes the gradient.

    A subclass computes the losses before reduction and the gradient of their sum (``_compute``), and where it can, both
    reduced at once (``_reduce``).
    """

    _reduces = False  # whether there is a _reduce

    def __init__(self, loss: Loss, gradient: Any, shape: tuple[int, ...]) -> None:
        """``shape`` is that of the losses before reduction."""
        self.loss, self.shape, self.count = loss, shape, math.prod(shape)
        self.program: Any = None  # the program that computes the output
        self.total_weight = 0.0  # what the last run divided by: 1 for a sum
        self._has_gradient = gradient is not None
        self._weights: Array | None = None  # the factors of the losses, in their shape
        self._counted: Array | None = None  # weights that a mean divides by, in their shape; None: all are 1
        self._losses: Array | None = None
        self._products: Array | None = None

    def take(self, targets: Array) -> None:
        """Read the targets of a batch, which ``Loss.check`` accepts: they are not looked at again here."""
        raise NotImplementedError

    def weigh(self, targets: Array, sample_weights: Array | None = None) -> float:
        """The divisor of a mean over these targets: 1 for a sum. Overwrites the targets of the last ``take``."""
        self.take(targets)
        return self._total(sample_weights)

    def plain_call(self) -> PlanCall | None:
        """The native call that is equivalent to ``run`` for plain targets, see ``is_plain``; None if there is none."""
        return None

    def is_plain(self) -> bool:
        """True if ``run()`` for the targets that were taken last is the plain call."""
        return False

    def run(self, sample_weights: Array | None = None, total: float | None = None) -> float:
        """The loss of the output for these targets; its gradient goes to the gradient array.

        With reduction "none" it is the sum of the losses, which are in ``losses``.
        ``sample_weights`` is float32, one per sample (N,) or, for losses with several positions, per position (N, ...).
        A mean divides by ``total`` if that is given: the targets are then a part of a larger batch, and so is the loss.
        """
        loss = self.loss
        self.total_weight = total = self._total(sample_weights) if total is None else total
        factor = loss._scale / total if total else 0.0
        if self._reduces and sample_weights is None and self._weights is None and loss.reduction != "none":
            return self._reduce(factor)
        if self._losses is None:
            self._losses = np.empty(self.shape, np.float32)
        self._compute(self._losses)
        weights = self._combined(sample_weights)
        if weights is not None:
            self._losses *= weights
        value = factor * float(self._losses.sum(dtype=np.float64))
        if factor != 1.0:
            if loss.reduction == "none":
                self._losses *= factor
            if weights is not None:
                weights *= factor
        if self._has_gradient:
            self._scale_gradient(factor if weights is None else weights)
        return value

    @property
    def losses(self) -> Array:
        """With reduction "none", the losses of the last run, in memory that the next run overwrites."""
        return np.asarray(self._losses)

    def _reduce(self, factor: float) -> float:
        """The sum of the losses times ``factor``; the gradient of that is written."""
        raise NotImplementedError

    def _compute(self, losses: Array) -> None:
        """Write the losses and the gradient of their sum."""
        raise NotImplementedError

    def _scale_gradient(self, factor: Any) -> None:
        """Multiply the gradient by a number, or by one for each loss, and bring it to where it is wanted."""
        raise NotImplementedError

    def _total(self, samples: Array | None) -> float:
        """The divisor of the sum of the losses."""
        reduction, counted = self.loss.reduction, self._counted
        if self.loss.is_sum:
            return 1.0
        if reduction == "mean" and self.loss._mean_counts_all:
            return float(self.count)
        if samples is not None and reduction == "non_zero_weight_mean":
            return float(np.count_nonzero(samples) * self.count // samples.size)
        unit = self.shape[0] if reduction == "batchmean" else self.count
        if counted is None:
            return float(unit) if samples is None else float(samples.sum(dtype=np.float64)) * (unit / samples.size)
        if samples is None:
            return float(counted.sum(dtype=np.float64))
        return float(np.multiply(counted, self._spread(samples), out=self._buffer()).sum(dtype=np.float64))

    def _combined(self, samples: Array | None) -> Array | None:
        """The weights of the losses, in memory that may be changed."""
        if samples is None:
            if self._weights is None:
                return None
            np.copyto(self._buffer(), self._weights)
        elif self._weights is None:
            np.copyto(self._buffer(), self._spread(samples))
        else:
            np.multiply(self._weights, self._spread(samples), out=self._buffer())
        return self._buffer()

    def _buffer(self) -> Array:
        if self._products is None:
            self._products = np.empty(self.shape, np.float32)
        return self._products

    def _spread(self, samples: Array) -> Array:
        return samples.reshape(samples.shape + (1,) * (len(self.shape) - samples.ndim))


class Loss(Listed):
    """Base of the losses.

    ``loss(y, targets)`` gives the loss and its gradient with respect to y, as a pair. ``reduction`` combines the losses of
    all elements or positions: to their "mean", or their "sum"; with "none" they stay an array, and the gradient is that of
    their sum. ``sample_weights`` are factors of the losses of the samples, (N,), or of single positions, (N, ...); a mean
    then divides by the sum of these weights.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> net, loss = nn.Linear(1), nn.MSELoss()
    >>> y = net(np.float32([[1], [2]]))
    >>> value, gradient = loss(y, np.float32([[3], [5]]))
    >>> dx = net.backward(gradient)  # and net.weight.grad, net.bias.grad
    >>> gradient.shape, dx.shape
    ((2, 1), (2, 1))
    >>> nn.MSELoss(reduction="none")(np.float32([[1], [5]]), np.float32([[1], [2]]))[0].tolist()
    [[0.0], [9.0]]
    >>> nn.MSELoss()(np.float32([[1], [5]]), np.float32([[1], [2]]), sample_weights=[1, 2])[0]
    6.0
    """

    classes = False  # targets are class numbers
    of_several = ""  # the same as a function of the outputs of a network, if there are several
    reduction: str
    _reductions: tuple[str, ...] = ("none", "sum", "mean")
    _mean_counts_all = False  # whether a mean divides by the number of losses, whatever their weights
    _scale = 1.0  # a factor of all losses

    def __init__(self, reduction: str = "mean", **shown: Any) -> None:
        """``shown`` are the other options that a loss was made with, for its repr."""
        if reduction not in self._reductions:
            hint = nearest(reduction, self._reductions) if isinstance(reduction, str) else ""
            raise ValueError(
                f"{type(self).__name__}: reduction is {reduction!r}.{hint} Use one of {', '.join(self._reductions)}."
            )
        self.reduction, self._shown = reduction, shown
        self._layers: dict[Any, Any] = {}  # and whatever else is made once for a size

    @property
    def is_sum(self) -> bool:
        """True if the loss of a batch is a sum over its samples, not a mean."""
        return self.reduction in ("none", "sum")

    def class_axis(self, rank: int) -> int | None:
        """The axis of an output of so many axes, with the batch in front, that lists the classes; None: there are none."""
        return None

    def bind(self, output: Array, gradient: Array | None) -> BoundLoss:
        """The loss on fixed arrays: the network's output, and where the gradient goes, if anywhere."""
        raise NotImplementedError

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in cls.__dict__:
            cls.__init__ = with_flags(cls.__init__, spelled(cls.__init__))  # type: ignore[method-assign]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_layers": {}}

    @spelled
    def __call__(self, output: Any, targets: Any, *, sample_weights: Any = None) -> tuple[Any, Array]:
        """The loss and its gradient with respect to ``output``."""
        y = np.ascontiguousarray(output, np.float32)
        gradient = np.empty_like(y)
        given = np.asarray(targets)
        self.check(y.shape, given)
        self.check_output(y)
        bound = self.bind(y, gradient)
        weights = None if sample_weights is None else self.check_sample_weights(sample_weights, bound.shape)
        bound.take(given)
        value = bound.run(weights)
        return LossAndGradient((bound.losses.copy() if self.reduction == "none" else value, gradient))

    def check(self, output_shape: tuple[int, ...], targets: Array) -> None:
        """Raise an error for targets that do not fit the output of the network; both have a batch axis."""
        self._require_shape(output_shape, targets)
        require_finite(f"{type(self).__name__}: targets", targets, "Leave such samples out.")

    def _require_shape(self, shape: tuple[int, ...], targets: Array) -> None:
        if targets.shape != shape:
            cure = "They must agree."
            if targets.shape[:1] == shape[:1] and targets.size == math.prod(shape):
                cure = f"Pass targets.reshape({', '.join(map(str, (-1, *shape[1:])))})."
            raise ValueError(
                f"{type(self).__name__}: targets have shape {targets.shape}, but the network gives {shape}. {cure}"
            )

    def check_output(self, output: Array) -> None:
        """Raise an error for an output that the loss is not defined for."""

    def check_sample_weights(self, weights: Any, shape: tuple[int, ...]) -> Array:
        """Weights as ``BoundLoss.run`` takes them; ``shape`` is that of the losses before reduction."""
        who = f"{type(self).__name__}: sample_weights"
        array = np.asarray(weights)
        if array.ndim < 1 or array.shape != shape[: array.ndim]:
            several = f", or per position, {shape}" if len(shape) > 1 else ""
            raise ValueError(f"{who} have shape {array.shape}. Pass one per sample, ({shape[0]},){several}.")
        return as_weights(who, array)

    def __repr__(self) -> str:
        shown = [f"{name}={text(value)}" for name, value in self._shown.items()]
        shown += [f"reduction={self.reduction!r}"] * (self.reduction != "mean")
        return f"{type(self).__name__}({', '.join(shown)})"


def text(value: Any) -> str:
    """A value in a repr: numbers short, arrays whole or, if they are long, by a checksum."""
    if isinstance(value, np.ndarray):
        if value.size <= 16:
            return repr(value.tolist())
        return f"<{value.size} numbers, crc32 {zlib.crc32(np.ascontiguousarray(value).tobytes()):08x}>"
    return f"{value:g}" if isinstance(value, float) else repr(value)


def require_finite(who: str, array: Array, cure: str) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        where = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(f"{who} contain {array[tuple(where)]} at {tuple(map(int, where))}. {cure}")


def as_weights(who: str, values: Any) -> Array:
    """Numbers that are not negative, as float32."""
    array = np.asarray(values.detach().cpu().numpy() if hasattr(values, "detach") else values)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{who} are {array.dtype}. Pass numbers.")
    require_finite(who, array, "Weights are finite.")
    if array.size and array.min() < 0:
        raise ValueError(f"{who} contain {array.min():g}. Weights are at least 0.")
    return np.ascontiguousarray(array, np.float32)


def rows_of(shape: Sequence[int]) -> int:
    """Elements of one sample."""
    return math.prod(shape[1:])


_NONE, _SUM, _MEAN = LossReduction.NONE, LossReduction.SUM, LossReduction.REDUCTION_MEAN


class NativeBound(BoundLoss):
    """Rows (samples, or positions with scores of classes) and their labels, in the shape of a LossLayer."""

    _reduces = True
    loss: NativeLoss

    def __init__(self, loss: NativeLoss, output: Array, gradient: Array | None) -> None:
        axis = loss.class_axis(output.ndim)
        shape = output.shape if axis is None else (*output.shape[:axis], *output.shape[axis + 1 :])
        super().__init__(loss, gradient, shape if loss.is_reduced_by is None else output.shape[:1])
        self.output, self._target = output, gradient
        self._axis = None if axis in (None, output.ndim - 1) else axis  # classes that have to be moved to the end
        width = rows_of(output.shape) if axis is None else output.shape[axis]
        if self._axis is None:
            self._rows = output.reshape(-1, width)
            self._gradient: Any = None if gradient is None else gradient.reshape(-1, width)
        else:
            self._rows = np.empty((output.size // width, width), np.float32)
            self._gradient = None if gradient is None else np.empty_like(self._rows)
        self.labels = np.zeros_like(self._rows)
        self._value, self._factor = np.empty(1, np.float32), np.empty(1, np.float32)
        self._one_per_row = axis is not None
        if loss.is_reduced_by is None:
            natural = loss.layer(width, _SUM if loss.reduction == "sum" else _MEAN)
            self._natural = 1.0 if loss.reduction == "sum" else 1.0 / max(self.count, 1)
        else:
            natural, self._natural = loss.layer(width, loss.is_reduced_by), 1.0
        self._apply = natural.apply
        if self._gradient is None:
            from ...layers import skip

            self._gradient = skip

    def take(self, targets: Array) -> None:
        if self._axis is not None and targets.ndim == self.output.ndim:
            targets = np.moveaxis(targets, self._axis, -1)
        self.loss.fill(self, targets)

    def plain_call(self) -> PlanCall | None:
        if self._axis is not None or self.loss.reduction == "none":
            return None
        return PlanCall(self._apply, self._rows, self.labels, self._value, None, self._gradient)

    def is_plain(self) -> bool:
        self.total_weight = total = self._total(None)
        return self._weights is None and total != 0.0 and self.loss._scale / total == self._natural

    def for_batches(self, count: int) -> Any:
        """A loss like this one that reads the targets of several batches at once into ``labels``, one after the other."""
        batch, *sample = self.output.shape
        return self.loss.bind(np.empty((count * batch, *sample), np.float32), None)

    @property
    def counts_alike(self) -> bool:
        """True if all targets that were taken last have the same weight."""
        return self._weights is None and self._counted is None

    @property
    def value_array(self) -> Array:
        """The array to which the plain call writes the loss."""
        return self._value

    def _reduce(self, factor: float) -> float:
        if self._axis is not None:
            self._move_in()
        if factor == self._natural:
            self._apply(self._rows, self.labels, self._value, None, self._gradient)
        else:
            self._factor[0] = factor
            layer = self.loss.layer(self._rows.shape[1], _SUM)
            layer.apply(self._rows, self.labels, self._value, self._factor, self._gradient, broadcasts_weights=True)
        if self._axis is not None:
            self._move_out()
        return float(self._value[0])

    def _compute(self, losses: Array) -> None:
        if self._axis is not None:
            self._move_in()
        reduction = self.loss.is_reduced_by
        width = self._rows.shape[1]
        if reduction is None:
            out = losses.reshape(-1, 1 if self._one_per_row else width)
            self.loss.layer(width, _NONE).apply(self._rows, self.labels, out, None, self._gradient)
            return
        for i in range(len(self._rows)):  # a loss that is always reduced, sample by sample
            row = slice(i, i + 1)
            gradient = self._gradient[row] if self._has_gradient else self._gradient
            self._apply(self._rows[row], self.labels[row], losses[row], None, gradient)

    def _scale_gradient(self, factor: Any) -> None:
        per_row = self._one_per_row or self.loss.is_reduced_by is not None
        if isinstance(factor, float):
            if factor != 1.0:
                self._gradient *= factor
        else:
            self._gradient *= factor.reshape(-1, 1) if per_row else factor.reshape(self._gradient.shape)
        if self._axis is not None:
            self._move_out()

    def _move_in(self) -> None:
        moved = np.moveaxis(self.output, self._axis or 0, -1)
        self._rows.reshape(moved.shape)[...] = moved

    def _move_out(self) -> None:
        if self._target is not None:
            moved = np.moveaxis(self._target, self._axis or 0, -1)
            moved[...] = self._gradient.reshape(moved.shape)


class NativeLoss(Loss):
    """A loss that BNNS has, or that differs from one by a factor."""

    is_reduced_by: LossReduction | None = None  # the one reduction that BNNS has for it, if there is no choice

    def function(self) -> LossFunction:
        """The loss of BNNS."""
        raise NotImplementedError

    def fill(self, bound: NativeBound, targets: Array) -> None:
        """Write targets into the labels of a bound loss (rows, width)."""
        np.copyto(bound.labels, targets.reshape(bound.labels.shape), casting="unsafe")

    def bind(self, output: Array, gradient: Array | None) -> BoundLoss:
        return NativeBound(self, output, gradient)

    def layer(self, width: int, reduction: LossReduction) -> LossLayer:
        """The layer of this size, made once and shared by all bound losses."""
        switches = compat.switches
        key = (
            width, reduction, switches.softmax_loss_class_factor, switches.cosine_gradient_plain,
            switches.yolo_raw_coordinates,
        )  # fmt: skip
        layer: LossLayer | None = self._layers.get(key)
        if layer is None:
            layer = LossLayer(input=Shape.vector(width), loss_function=self.function(), loss_reduction=reduction)
            self._layers[key] = layer
        return layer
