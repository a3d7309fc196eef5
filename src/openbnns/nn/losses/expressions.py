"""Losses that are functions of values: what ``nn.functional`` computes, as objects. Gradients follow from the functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ...graph import functions
from ...graph.tensor import Array, Tensor
from ..module import Module
from ._base import BoundLoss, Loss, LossAndGradient, Reduction, as_weights, require_finite
from .elementwise import broadcast, number, require_signs
from .loss_program import LossProgram

_KEPT = 4  # shapes of outputs and targets that a loss stays recorded for


class ExpressionLoss(Loss):
    """The base of these losses, of one output or several, with targets or without."""

    def expression(self, *values: Tensor) -> Any:
        """The losses before reduction, of outputs and targets."""
        raise NotImplementedError

    def shape_of_losses(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the losses before reduction, from that of the first output."""
        return shape

    def bind(self, output: Any, gradient: Any) -> BoundLoss:
        """``output`` and ``gradient`` are tuples of arrays if there are several outputs."""
        if isinstance(output, np.ndarray):
            return BoundExpression(self, [output], [gradient])
        return BoundExpression(self, list(output), [None] * len(output) if gradient is None else list(gradient))

    def __call__(self, output: Any, targets: Any, *, sample_weights: Any = None) -> tuple[Any, Array]:
        """The loss and its gradient with respect to ``output``."""
        value, (gradient,) = self._computed([output], np.asarray(targets), sample_weights)
        return LossAndGradient((value, gradient))

    def _computed(
        self, given: Sequence[Any], targets: Array | None, sample_weights: Any
    ) -> tuple[Any, tuple[Any, ...]]:
        """The loss, and its gradients with respect to the outputs."""
        outputs = [np.ascontiguousarray(array, np.float32) for array in given]
        shapes = tuple(array.shape for array in outputs)
        single = len(outputs) == 1
        self.check(shapes[0] if single else shapes, targets)  # type: ignore[arg-type]
        self.check_output(outputs[0] if single else tuple(outputs))  # type: ignore[arg-type]
        weights = None
        if sample_weights is not None:
            weights = self.check_sample_weights(sample_weights, self.shape_of_losses(shapes[0]))
        form = (shapes, None if targets is None else (targets.shape, targets.dtype.kind), *self._options())
        bound: BoundExpression | None = self._layers.pop(form, None)
        if bound is None:
            held = [np.empty(shape, np.float32) for shape in shapes]
            bound = BoundExpression(self, held, [np.empty_like(array) for array in held])
        for array, target in zip(outputs, bound.outputs, strict=True):
            np.copyto(target, array)
        bound.take(targets)
        value: Any = bound.run(weights)
        if self.reduction == "none":
            value = bound.losses.copy()
        gradients = tuple(np.array(gradient) for gradient in bound.gradients)
        self._layers[form] = bound
        while len(self._layers) > _KEPT:
            self._layers.pop(next(iter(list(self._layers))), None)  # unless another thread was faster
        return value, gradients

    def _options(self) -> list[Any]:
        """The options with which an expression was recorded, to be compared with those of later calls."""
        held = {name: value for name, value in vars(self).items() if name not in ("_layers", "_shown")}
        return [value.tobytes() if isinstance(value, np.ndarray) else value for value in held.values()]


class _Expression(Module):
    """A loss before reduction as a network that takes outputs and targets."""

    def __init__(self, loss: ExpressionLoss) -> None:
        super().__init__()
        self._loss = loss

    def forward(self, *values: Tensor) -> Any:
        return self._loss.expression(*values)


class BoundExpression(BoundLoss):
    """An expression recorded for fixed arrays, when the first targets tell their shape."""

    def __init__(self, loss: ExpressionLoss, outputs: Sequence[Array], gradients: Sequence[Array | None]) -> None:
        super().__init__(loss, gradients[0], loss.shape_of_losses(outputs[0].shape))
        self.outputs, self.gradients = list(outputs), list(gradients)
        self._expression = _Expression(loss)
        self._program: LossProgram | None = None

    def take(self, targets: Array | None) -> None:
        labels = [] if targets is None else [targets]
        if self._program is None:
            self._program = LossProgram(self._expression, self.outputs, self.gradients, labels)
        for i, array in enumerate(labels):
            self._program.take(i, array)

    def _compute(self, losses: Array) -> None:
        losses[...] = self._recorded().forward()

    def _scale_gradient(self, factor: Any) -> None:
        self._recorded().backward(factor)

    def _recorded(self) -> LossProgram:
        assert self._program is not None, "take comes first"
        return self._program


# Losses of one output.


class SoftMarginLoss(ExpressionLoss):
    """log(1 + exp(-t y)), for targets of 1 and -1.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.SoftMarginLoss()(np.float32([[0], [0]]), np.float32([[1], [-1]]))
    >>> round(value, 4), gradient.tolist()
    (0.6931, [[-0.25], [0.25]])
    """

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)

    def check(self, output_shape: tuple[int, ...], targets: Array) -> None:
        super().check(output_shape, targets)
        require_signs("SoftMarginLoss", targets)

    def expression(self, *values: Tensor) -> Any:
        y, t = values
        return functions.soft_margin_loss(y, t, reduction="none")


class PoissonNLLLoss(ExpressionLoss):
    """exp(y) - t y, for counts t and logarithms y of their expected values; with ``log_input=False`` y - t log(y + eps).

    That is -log of the probability of t but for what does not depend on y, log(t!), which ``full`` adds by Stirling's
    formula where t is above 1.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.PoissonNLLLoss()(np.float32([[0], [0]]), np.float32([[1], [3]]))
    >>> value, gradient.tolist()
    (1.0, [[0.0], [-1.0]])
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, *, eps: float = 1e-8, reduction: Reduction = "mean"
    ) -> None:
        self.log_input, self.full = bool(log_input), bool(full)
        self.eps = number("PoissonNLLLoss: eps", eps)
        shown: dict[str, Any] = {} if log_input else {"log_input": False}
        shown |= {"full": True} if full else {}
        super().__init__(reduction, **shown, **({} if eps == 1e-8 else {"eps": self.eps}))

    def check_output(self, output: Array) -> None:
        if not self.log_input and output.size and output.min() < 0:
            raise ValueError(
                f"PoissonNLLLoss: the output contains {output.min():g}, but with log_input=False it must be expected counts, at "
                "least 0. Put nn.Softplus() at the end of the network, or take its output for logarithms: log_input=True."
            )

    def expression(self, *values: Tensor) -> Any:
        y, t = values
        return functions.poisson_nll_loss(y, t, self.log_input, self.full, eps=self.eps, reduction="none")


class MultiLabelSoftMarginLoss(ExpressionLoss):
    """Each sample's mean over the last axis of the binary cross entropies of sigmoid(y) and targets between 0 and 1.

    ``weight`` is one factor per class. The losses before reduction have no axis of classes; otherwise this is
    :class:`BCEWithLogitsLoss`.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> loss = nn.MultiLabelSoftMarginLoss(reduction="none")
    >>> losses, gradient = loss(np.float32([[0, 100]]), np.float32([[1, 1]]))
    >>> losses.round(4), gradient.tolist()
    (array([0.3466], dtype=float32), [[-0.25, 0.0]])
    """

    def __init__(self, weight: Any = None, *, reduction: Reduction = "mean") -> None:
        self.weight = None if weight is None else as_weights("MultiLabelSoftMarginLoss: weight", weight)
        super().__init__(reduction, **({} if self.weight is None else {"weight": self.weight}))

    def check(self, output_shape: tuple[int, ...], targets: Array) -> None:
        if len(output_shape) < 2:
            raise ValueError(
                f"MultiLabelSoftMarginLoss: the output has shape {output_shape}, but must be (N, classes)."
            )
        super().check(output_shape, targets)
        if self.weight is not None:
            broadcast("MultiLabelSoftMarginLoss: weight", self.weight, output_shape)

    def shape_of_losses(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[:-1]

    def expression(self, *values: Tensor) -> Any:
        y, t = values
        return functions.multilabel_soft_margin_loss(y, t, self.weight, reduction="none")


class MultiMarginLoss(ExpressionLoss):
    """Σ max(0, margin - y[t] + y[i])^p / classes over all classes i but t, for scores y (N, classes) and class numbers t.

    ``p`` is 1 or 2. ``weight`` is one number per class, for the samples that belong to it; the mean divides by the number of
    samples, whatever their classes.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.MultiMarginLoss()(np.float32([[2, 1.5, 0, 0]]), np.array([0]))
    >>> value, gradient.tolist()
    (0.125, [[-0.25, 0.25, 0.0, 0.0]])
    """

    classes = True

    def __init__(
        self, p: Literal[1, 2] = 1, margin: float = 1.0, weight: Any = None, *, reduction: Reduction = "mean"
    ) -> None:
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: p is {p}. Use 1 or 2.")
        self.p, self.margin = p, number("MultiMarginLoss: margin", margin)
        self.weight = None if weight is None else as_weights("MultiMarginLoss: weight", weight)
        shown: dict[str, Any] = {} if p == 1 else {"p": p}
        shown |= {} if self.margin == 1.0 else {"margin": self.margin}
        super().__init__(reduction, **shown, **({} if self.weight is None else {"weight": self.weight}))

    def class_axis(self, rank: int) -> int:
        return 1

    def check(self, output_shape: tuple[int, ...], targets: Array) -> None:
        who = "MultiMarginLoss"
        if len(output_shape) != 2:
            raise ValueError(f"{who}: the output has shape {output_shape}, but must be (N, classes).")
        samples, classes = output_shape
        if self.weight is not None and self.weight.shape != (classes,):
            raise ValueError(
                f"{who}: weight has shape {self.weight.shape}, but the network gives scores of {classes} classes. Pass one "
                "number per class."
            )
        if targets.shape != (samples,):
            raise ValueError(
                f"{who}: targets have shape {targets.shape}, but scores {output_shape} need class numbers of shape "
                f"{(samples,)}."
            )
        _require_classes(who, targets, 0, classes)

    def shape_of_losses(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[:1]

    def expression(self, *values: Tensor) -> Any:
        y, t = values
        return functions.multi_margin_loss(y, t, self.p, self.margin, self.weight, reduction="none")


class MultiLabelMarginLoss(ExpressionLoss):
    """Σ max(0, 1 - y[j] + y[i]) / classes over the classes j of a sample and all others i, for scores y (N, classes).

    Targets (N, classes) list the classes of each sample, as class numbers that end at the first -1.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.MultiLabelMarginLoss()(np.float32([[2, 1.5, 0, 0]]), np.array([[0, 3, -1, -1]]))
    >>> value, gradient.tolist()
    (1.0, [[-0.25, 0.5, 0.25, -0.5]])
    """

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)

    def check(self, output_shape: tuple[int, ...], targets: Array) -> None:
        if len(output_shape) != 2:
            raise ValueError(f"MultiLabelMarginLoss: the output has shape {output_shape}, but must be (N, classes).")
        self._require_shape(output_shape, targets)
        _require_classes("MultiLabelMarginLoss", targets, -1, output_shape[1])

    def shape_of_losses(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[:1]

    def expression(self, *values: Tensor) -> Any:
        y, t = values
        return functions.multilabel_margin_loss(y, t, reduction="none")


def _require_classes(who: str, targets: Array, least: int, classes: int) -> None:
    if targets.dtype.kind not in "iu":
        raise TypeError(f"{who}: targets are {targets.dtype}. Pass class numbers as integers.")
    if targets.size and not (targets.min() >= least and targets.max() < classes):
        worst = targets.min() if targets.min() < least else targets.max()
        end = " -1 ends the list of a sample." if least < 0 else ""
        raise ValueError(
            f"{who}: class number {int(worst)} is out of range, because the network gives scores of classes 0 to "
            f"{classes - 1}.{end}"
        )


# Losses of several outputs, which give a tuple of gradients.


class MarginRankingLoss(ExpressionLoss):
    """max(0, margin - t (a - b)): output a is to be larger than b where the target is 1, smaller where it is -1.

    ``loss(a, b, targets)`` gives the loss and the pair of gradients.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> a, b = np.float32([[3], [1]]), np.float32([[4], [5]])
    >>> value, (da, db) = nn.MarginRankingLoss()(a, b, np.float32([[1], [1]]))
    >>> value, da.tolist(), db.tolist()
    (2.5, [[-0.5], [-0.5]], [[0.5], [0.5]])
    """

    of_several = "margin_ranking_loss(*outputs, targets)"

    def __init__(self, margin: float = 0.0, *, reduction: Reduction = "mean") -> None:
        self.margin = number("MarginRankingLoss: margin", margin)
        super().__init__(reduction, **({"margin": self.margin} if self.margin else {}))

    def check(self, output_shape: Any, targets: Array) -> None:
        """``output_shape`` is the pair of the shapes of both outputs."""
        first, second = output_shape
        if first != second or targets.shape != first:
            raise ValueError(
                f"MarginRankingLoss: the outputs have shapes {first} and {second}, the targets {targets.shape}. They must agree."
            )
        require_signs("MarginRankingLoss", targets)

    def __call__(  # type: ignore[override]
        self, output1: Any, output2: Any, targets: Any, *, sample_weights: Any = None
    ) -> tuple[Any, Any]:
        """The loss, and the pair of its gradients with respect to both outputs."""
        return LossAndGradient(self._computed([output1, output2], np.asarray(targets), sample_weights))

    def expression(self, *values: Tensor) -> Any:
        a, b, t = values
        return functions.margin_ranking_loss(a, b, t, self.margin, reduction="none")


class TripletMarginLoss(ExpressionLoss):
    """max(0, margin + d(a, p) - d(a, n)) of an anchor a, a positive p and a negative n, with d the p-norm of the difference.

    ``loss(anchor, positive, negative)`` gives the loss and the gradients of all three; norms are along the last axis, of
    differences to which ``eps`` is added. With ``swap`` the negative is as far away as it is from the nearer of both others.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> anchor, near, far = np.float32([[0, 0]]), np.float32([[0, 1]]), np.float32([[1.5, 0]])
    >>> value, gradients = nn.TripletMarginLoss()(anchor, near, far)
    >>> round(value, 4), [g.round(4).tolist() for g in gradients]
    (0.5, [[[1.0, -1.0]], [[-0.0, 1.0]], [[-1.0, 0.0]]])
    """

    of_several = "triplet_margin_loss(*outputs)"

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        *,
        reduction: Reduction = "mean",
    ) -> None:
        self.margin, self.p = number("TripletMarginLoss: margin", margin), float(p)
        self.eps, self.swap = number("TripletMarginLoss: eps", eps), bool(swap)
        if self.margin <= 0:
            raise ValueError(f"TripletMarginLoss: margin is {margin}. It must be above 0.")
        shown: dict[str, Any] = {} if self.margin == 1.0 else {"margin": self.margin}
        shown |= {} if self.p == 2.0 else {"p": self.p}
        shown |= {} if self.eps == 1e-6 else {"eps": self.eps}
        super().__init__(reduction, **shown, **({"swap": True} if swap else {}))

    def check(self, output_shape: Any, targets: Array | None) -> None:
        """``output_shape`` are the shapes of the three outputs; there are no targets."""
        first = output_shape[0]
        if any(shape != first for shape in output_shape) or len(first) < 2:
            raise ValueError(
                f"TripletMarginLoss: anchor, positive and negative have shapes {', '.join(map(str, output_shape))}. All must be "
                "(N, features)."
            )

    def shape_of_losses(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[:-1]

    def __call__(  # type: ignore[override]
        self, anchor: Any, positive: Any, negative: Any, *, sample_weights: Any = None
    ) -> tuple[Any, Any]:
        """The loss, and its gradients with respect to the three outputs."""
        return LossAndGradient(self._computed([anchor, positive, negative], None, sample_weights))

    def expression(self, *values: Tensor) -> Any:
        anchor, positive, negative = values
        return functions.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, reduction="none"
        )


class GaussianNLLLoss(ExpressionLoss):
    """(log v + (y - t)² / v) / 2 of an expected value y and a variance v, as a network that knows its uncertainty gives them.

    ``loss(y, targets, v)`` gives the loss and the pair of the gradients of y and v. The variance is an array in the shape of y,
    whose last axis may be 1 or left out, or a number. It counts as at least ``eps``; its gradient is that of a variance of
    ``eps`` there. ``full`` adds log(2 π) / 2.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> y, v = np.float32([[1], [2]]), np.float32([[1], [4]])
    >>> value, (dy, dv) = nn.GaussianNLLLoss()(y, np.float32([[1], [4]]), v)
    >>> round(value, 4), dy.tolist(), dv.tolist()
    (0.5966, [[0.0], [-0.25]], [[0.25], [0.0]])
    """

    of_several = "gaussian_nll_loss(outputs[0], targets, outputs[1])"

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: Reduction = "mean") -> None:
        self.full, self.eps = bool(full), number("GaussianNLLLoss: eps", eps)
        if self.eps <= 0:
            raise ValueError(f"GaussianNLLLoss: eps is {eps}. It must be above 0.")
        shown: dict[str, Any] = {"full": True} if full else {}
        super().__init__(reduction, **shown, **({} if eps == 1e-6 else {"eps": self.eps}))

    def check(self, output_shape: Any, targets: Array) -> None:
        """``output_shape`` is the pair of the shapes of y and of the variance."""
        mean, variance = output_shape
        if variance not in (mean, mean[:-1], (*mean[:-1], 1)) or not variance:
            raise ValueError(
                f"GaussianNLLLoss: the variance has shape {variance}, but the output {mean}. Pass one for each element, one for "
                "each row, or a number."
            )
        self._require_shape(mean, targets)
        require_finite("GaussianNLLLoss: targets", targets, "Leave such samples out.")

    def check_output(self, output: Any) -> None:
        variance = output[1]
        if variance.size and variance.min() < 0:
            raise ValueError(
                f"GaussianNLLLoss: the variance contains {variance.min():g}. It must be at least 0: put nn.Softplus() behind "
                "that output of the network, or compute exp() of it."
            )

    def __call__(  # type: ignore[override]
        self, output: Any, targets: Any, var: Any, *, sample_weights: Any = None
    ) -> tuple[Any, Any]:
        """The loss, and the pair of its gradients with respect to the output and the variance."""
        if np.ndim(var) == 0:
            var = np.full(np.shape(output), var, np.float32)
        return LossAndGradient(self._computed([output, var], np.asarray(targets), sample_weights))

    def expression(self, *values: Tensor) -> Any:
        mean, variance, targets = values
        return functions.gaussian_nll_loss(mean, targets, variance, self.full, self.eps, reduction="none")
