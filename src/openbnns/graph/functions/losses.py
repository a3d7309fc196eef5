"""Losses as expressions, with PyTorch's names and arguments: a number, or with ``reduction="none"`` one per element.

:mod:`openbnns.nn.losses` holds the same as objects, each on a loss layer; these are for losses made of several parts.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .. import operations
from ..parameter import Parameter
from ..sizes import AnySize
from ..tensor import Array, Tensor
from .activations import log_softmax, relu, softplus
from .base import TensorLike, function, numbers, value
from .elementwise import abs, add, clamp, detach, div, eq, exp, log, mul, neg, sqrt, square, sub, where
from .reductions import mean, sum
from .shapes import permute

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy",
    "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "mse_loss", "nll_loss", "smooth_l1_loss",
]  # fmt: skip

Reduction = Literal["none", "sum", "mean"]


def _reduced(losses: Tensor, reduction: str, who: str) -> Any:
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f"{who}: reduction is {reduction!r}. Use 'none', 'sum' or 'mean'.")
    return losses if reduction == "none" else mean(losses) if reduction == "mean" else sum(losses)


@function
def mse_loss(input: TensorLike, target: TensorLike, *, reduction: Reduction = "mean") -> Any:
    """(input - target)².

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.mse_loss(np.float32([[1, 3]]), np.float32([[0, 1]])).tolist()
    2.5
    """
    return _reduced(square(sub(input, target)), reduction, "mse_loss")


@function
def l1_loss(input: TensorLike, target: TensorLike, *, reduction: Reduction = "mean") -> Any:
    """|input - target|."""
    return _reduced(abs(sub(input, target)), reduction, "l1_loss")


def _huber(input: TensorLike, target: TensorLike, delta: float, who: str) -> Any:
    if not delta > 0:
        raise ValueError(f"{who}: the bound between square and line is {delta}. It must be above 0.")
    error = abs(sub(input, target))
    near = clamp(error, max=float(delta))
    return add(mul(square(near), 0.5), mul(sub(error, near), float(delta)))


@function
def huber_loss(input: TensorLike, target: TensorLike, *, reduction: Reduction = "mean", delta: float = 1.0) -> Any:
    """Half the squared error up to ``delta``, a line behind it."""
    return _reduced(_huber(input, target, delta, "huber_loss"), reduction, "huber_loss")


@function
def smooth_l1_loss(input: TensorLike, target: TensorLike, *, reduction: Reduction = "mean", beta: float = 1.0) -> Any:
    """The Huber loss divided by ``beta``."""
    return _reduced(div(_huber(input, target, beta, "smooth_l1_loss"), float(beta)), reduction, "smooth_l1_loss")


@function
def binary_cross_entropy(
    input: TensorLike, target: TensorLike, weight: TensorLike = None, *, reduction: Reduction = "mean"
) -> Any:
    """-target log(input) - (1 - target) log(1 - input) of probabilities; logarithms end at -100.

    The gradient of the input is (input - target) / max(input (1 - input), 1e-12), which is finite at 0 and 1 as well.
    """
    x, t = numbers(input, "binary_cross_entropy"), numbers(target, "binary_cross_entropy")
    fixed = detach(x)
    yes = mul(t, clamp(log(fixed), min=-100.0))
    losses = neg(add(yes, mul(sub(1.0, t), clamp(log(sub(1.0, fixed)), min=-100.0))))
    slope = div(sub(fixed, detach(t)), clamp(mul(fixed, sub(1.0, fixed)), min=1e-12))
    losses = add(losses, mul(sub(x, fixed), slope))  # which adds 0, and the gradient: that of log is infinite at 0
    return _reduced(losses if weight is None else mul(losses, weight), reduction, "binary_cross_entropy")


@function
def binary_cross_entropy_with_logits(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike = None,
    *,
    reduction: Reduction = "mean",
    pos_weight: TensorLike = None,
) -> Any:
    """The same of scores, through a sigmoid; ``pos_weight`` multiplies what targets of 1 cost."""
    x, t = numbers(input, "binary_cross_entropy_with_logits"), numbers(target, "binary_cross_entropy_with_logits")
    if pos_weight is None:
        losses = sub(softplus(x), mul(x, t))
    else:
        factor = add(mul(sub(pos_weight, 1.0), t), 1.0)
        losses = add(mul(sub(1.0, t), x), mul(factor, softplus(neg(x))))
    losses = losses if weight is None else mul(losses, weight)
    return _reduced(losses, reduction, "binary_cross_entropy_with_logits")


@function
def kl_div(
    input: TensorLike, target: TensorLike, *, reduction: Literal["none", "sum", "mean", "batchmean"] = "mean",
    log_target: bool = False,
) -> Any:  # fmt: skip
    """target (log(target) - input), where the input is a logarithm, and with ``log_target`` the target too."""
    x, t = numbers(input, "kl_div"), numbers(target, "kl_div")
    losses = mul(exp(t), sub(t, x)) if log_target else mul(t, sub(log(clamp(t, min=1e-37)), x))
    if reduction == "batchmean":
        return mean(sum(losses, tuple(range(1, losses.ndim))) if losses.ndim > 1 else losses)
    return _reduced(losses, reduction, "kl_div")


@function
def hinge_embedding_loss(
    input: TensorLike, target: TensorLike, *, margin: float = 1.0, reduction: Reduction = "mean"
) -> Any:
    """The input where the target is 1, max(0, margin - input) where it is -1."""
    x, t = numbers(input, "hinge_embedding_loss"), numbers(target, "hinge_embedding_loss")
    near, far = mul(add(t, 1.0), 0.5), mul(sub(1.0, t), 0.5)
    return _reduced(add(mul(near, x), mul(far, relu(sub(margin, x)))), reduction, "hinge_embedding_loss")


@function
def cosine_embedding_loss(
    input1: TensorLike, input2: TensorLike, target: TensorLike, *, margin: float = 0.0, reduction: Reduction = "mean"
) -> Any:
    """1 - cos of the last axes where the target is 1, max(0, cos - margin) where it is -1."""
    a, t = numbers(input1, "cosine_embedding_loss"), numbers(target, "cosine_embedding_loss")
    b, last = numbers(input2, "cosine_embedding_loss"), a.ndim - 1
    squares = mul(
        *(add(sum(square(v), last), 1e-12) for v in (a, b))
    )  # as in PyTorch: finite slopes for vectors of zeros
    cosine = div(sum(mul(a, b), last), sqrt(squares))
    near, far = mul(add(t, 1.0), 0.5), mul(sub(1.0, t), 0.5)
    losses = add(mul(near, sub(1.0, cosine)), mul(far, relu(sub(cosine, margin))))
    return _reduced(losses, reduction, "cosine_embedding_loss")


@function
def nll_loss(
    input: TensorLike, target: TensorLike, weight: Array | None = None, *, ignore_index: int | None = None,
    reduction: Reduction = "mean",
) -> Any:  # fmt: skip
    """-input at the class of the target, of logarithms of probabilities (N, classes, ...) and class numbers (N, ...).

    ``weight`` is an array of one factor per class; targets of the class ``ignore_index`` do not count. A mean is over the
    weights of the targets.
    """
    x = numbers(input, "nll_loss")
    return _of_classes(x, target, weight, ignore_index, reduction, 0.0, "nll_loss")


@function
def cross_entropy(
    input: TensorLike, target: TensorLike, weight: Array | None = None, *, ignore_index: int | None = None,
    reduction: Reduction = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Softmax cross entropy of scores (N, classes, ...) and class numbers (N, ...), or probabilities like the scores.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> round(float(nn.functional.cross_entropy(np.zeros((1, 4), np.float32), np.array([2]))), 4)
    1.3863
    """
    who = "cross_entropy"
    x = numbers(input, who)
    if x.ndim < 2:
        raise ValueError(f"{who}: input {x.shape} has no axis of classes, which is axis 1.")
    scores, t = log_softmax(x, 1), value(target, who)
    if t.ndim < x.ndim:
        return _of_classes(scores, t, weight, ignore_index, reduction, label_smoothing, who)
    classes = x.shape[1]
    labels = add(mul(numbers(t, who), 1.0 - label_smoothing), label_smoothing / classes)
    if weight is not None:
        labels = mul(labels, _weights(weight, classes, who).reshape(-1, *[1] * (x.ndim - 2)))
    return _reduced(neg(sum(mul(labels, scores), 1)), reduction, who)


def _weights(weight: Any, number: AnySize, who: str) -> Array:
    classes = int(number)
    array: Array = np.ones(classes, np.float32) if weight is None else np.asarray(weight, np.float32)
    if array.shape != (classes,):
        raise ValueError(f"{who}: weight has shape {array.shape}, but there are {classes} classes. Pass one for each.")
    return array


def _of_classes(
    scores: Tensor, target: TensorLike, weight: Any, ignored: int | None, reduction: str, smoothing: float, who: str
) -> Any:
    """Losses of scores and class numbers: the labels of every class are rows of a table."""
    if scores.ndim < 2:
        raise ValueError(f"{who}: input {scores.shape} has no axis of classes, which is axis 1.")
    if not 0 <= smoothing < 1:
        raise ValueError(f"{who}: label_smoothing is {smoothing}. It must be at least 0 and below 1.")
    classes, numbers_ = scores.shape[1], value(target, who).as_indices(who)
    if numbers_.ndim != scores.ndim - 1:
        raise ValueError(f"{who}: targets {numbers_.shape} do not name a class for each position of {scores.shape}.")
    weights = _weights(weight, classes, who)
    table = (1 - smoothing) * np.diag(weights) + smoothing / classes * weights
    counted = weights.copy()
    if ignored is not None and not 0 <= ignored < classes:  # such as -100: a class behind the others
        numbers_ = where(eq(numbers_, ignored), float(classes), numbers_).long()
        table, counted, ignored = np.pad(table, ((0, 1), (0, 0))), np.pad(counted, (0, 1)), int(classes)
    if ignored is not None:
        table[ignored], counted[ignored] = 0, 0
    labels = _looked_up(numbers_, table)
    axes = [0, labels.ndim - 1, *range(1, labels.ndim - 1)]
    losses = neg(sum(mul(permute(labels, axes), scores), 1))
    if reduction == "mean" and not (counted == 1).all():
        return div(sum(losses), sum(_looked_up(numbers_, counted[:, None])))
    return _reduced(losses, reduction, who)


def _looked_up(indices: Tensor, table: Array) -> Tensor:
    rows = Parameter(table, requires_grad=False)
    return indices.graph.append(operations.Embedding(indices.graph, indices, rows, None))
