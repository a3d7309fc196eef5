"""Losses as expressions, with PyTorch's names and arguments: a number, or with ``reduction="none"`` one per element.

:mod:`openbnns.nn.losses` holds the same as objects, each on a loss layer; these are for losses made of several parts.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from .. import operations
from ..parameter import Parameter
from ..sizes import AnySize, is_same_shape
from ..tensor import Array, Tensor
from .activations import log_softmax, relu, softplus
from .base import TensorLike, function, numbers, value
from .elementwise import (
    abs,
    add,
    as_numbers,
    clamp,
    detach,
    div,
    eq,
    exp,
    ge,
    gt,
    log,
    lt,
    minimum,
    mul,
    neg,
    sqrt,
    square,
    sub,
    where,
)  # fmt: skip
from .indexing import gather, one_hot
from .reductions import amax, cumprod, mean, pairwise_distance, sum
from .shapes import permute, unsqueeze

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy",
    "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss",
    "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss",
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
def margin_ranking_loss(
    input1: TensorLike, input2: TensorLike, target: TensorLike, margin: float = 0.0, *, reduction: Reduction = "mean"
) -> Any:
    """max(0, margin - target (input1 - input2)): the first is to be larger where the target is 1, smaller where it is -1."""
    losses = clamp(sub(float(margin), mul(target, sub(input1, input2))), min=0.0)
    return _reduced(losses, reduction, "margin_ranking_loss")


@function
def triplet_margin_loss(
    anchor: TensorLike, positive: TensorLike, negative: TensorLike, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False, *, reduction: Reduction = "mean",
) -> Any:  # fmt: skip
    """max(0, margin + d(anchor, positive) - d(anchor, negative)), with the p-norms of the differences along the last axis.

    With ``swap`` the negative is as far away as it is from the nearer of both others.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> anchor, near, far = np.float32([[0, 0]]), np.float32([[0, 1]]), np.float32([[1.5, 0]])
    >>> round(float(nn.functional.triplet_margin_loss(anchor, near, far)), 4)
    0.5
    """
    if not margin > 0:
        raise ValueError(f"triplet_margin_loss: margin is {margin}. It must be above 0.")
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduced(clamp(add(sub(near, far), float(margin)), min=0.0), reduction, "triplet_margin_loss")


@function
def soft_margin_loss(input: TensorLike, target: TensorLike, *, reduction: Reduction = "mean") -> Any:
    """log(1 + exp(-target input)), for targets of 1 and -1; without overflow."""
    return _reduced(softplus(neg(mul(input, target))), reduction, "soft_margin_loss")


@function
def multilabel_soft_margin_loss(
    input: TensorLike, target: TensorLike, weight: TensorLike = None, *, reduction: Reduction = "mean"
) -> Any:
    """The binary cross entropy of scores, through a sigmoid, times ``weight``; each sample's mean over the last axis."""
    x = numbers(input, "multilabel_soft_margin_loss")
    if not x.ndim:
        raise ValueError(
            "multilabel_soft_margin_loss: input is a single number, but needs an axis of classes, the last."
        )
    losses = sub(softplus(x), mul(x, target))
    losses = losses if weight is None else mul(losses, weight)
    return _reduced(mean(losses, x.ndim - 1), reduction, "multilabel_soft_margin_loss")


@function
def multi_margin_loss(
    input: TensorLike, target: TensorLike, p: int = 1, margin: float = 1.0, weight: Array | None = None, *,
    reduction: Reduction = "mean",
) -> Any:  # fmt: skip
    """Σ max(0, margin - input[target] + input[i])^p / classes over all other classes i, for scores (N, classes).

    ``target`` are class numbers (N,), p is 1 or 2, and ``weight`` is an array of one factor per class for the losses of the
    samples that belong to it.
    """
    who = "multi_margin_loss"
    x, places = numbers(input, who), value(target, who).as_indices(who)
    if p not in (1, 2):
        raise ValueError(f"{who}: p is {p}. Use 1 or 2.")
    if x.ndim != 2 or not is_same_shape(places.shape, x.shape[:1]):
        raise ValueError(f"{who}: input {x.shape} and target {places.shape} must be (N, classes) and (N,).")
    labels = one_hot(places, int(x.shape[1]))
    behind = relu(add(sub(x, sum(mul(x, labels), 1, True)), float(margin)))
    losses = mean(mul(sub(1.0, labels), behind if p == 1 else square(behind)), 1)
    if weight is not None:
        factors = _looked_up(places, _weights(weight, x.shape[1], who)[:, None])
        losses = mul(losses, factors.reshape(losses.shape))
    return _reduced(losses, reduction, who)


@function
def multilabel_margin_loss(input: TensorLike, target: TensorLike, *, reduction: Reduction = "mean") -> Any:
    """Σ max(0, 1 - input[j] + input[i]) / classes over the classes j of a sample and all others i, for scores (N, classes).

    ``target`` (N, classes) lists the classes of each sample, as numbers that end at the first -1.
    """
    who = "multilabel_margin_loss"
    x, given = numbers(input, who), value(target, who).as_indices(who)
    if x.ndim != 2 or not is_same_shape(given.shape, x.shape):
        raise ValueError(f"{who}: input {x.shape} and target {given.shape} must both be (N, classes).")
    listed = cumprod(as_numbers(ge(given, 0)), 1)
    places = where(lt(given, 0), 0.0, given).long()
    labels = mul(one_hot(places, int(x.shape[1])), unsqueeze(listed, 2))
    behind = relu(add(sub(unsqueeze(x, 1), unsqueeze(gather(x, 1, places), 2)), 1.0))
    counted = mul(unsqueeze(listed, 2), sub(1.0, amax(labels, 1, True)))
    return _reduced(mean(sum(mul(counted, behind), 1), 1), reduction, who)


@function
def poisson_nll_loss(
    input: TensorLike, target: TensorLike, log_input: bool = True, full: bool = False, *, eps: float = 1e-8,
    reduction: Reduction = "mean",
) -> Any:  # fmt: skip
    """-log of the probability of a count under a Poisson distribution, less what does not depend on the input.

    The input is the logarithm of the rate, exp(input) - target input, or with ``log_input=False`` the rate: input - target
    log(input + eps). ``full`` adds Stirling's formula for log(target!), where the target is above 1.
    """
    x, t = numbers(input, "poisson_nll_loss"), numbers(target, "poisson_nll_loss")
    losses = sub(exp(x), mul(t, x)) if log_input else sub(x, mul(t, log(add(x, float(eps)))))
    if full:
        count = clamp(t, min=1.0)
        factorial = add(sub(mul(count, log(count)), count), mul(log(mul(count, 2 * math.pi)), 0.5))
        losses = add(losses, where(gt(t, 1), factorial, 0.0))
    return _reduced(losses, reduction, "poisson_nll_loss")


@function
def gaussian_nll_loss(
    input: TensorLike, target: TensorLike, var: TensorLike, full: bool = False, eps: float = 1e-6, *,
    reduction: Reduction = "mean",
) -> Any:  # fmt: skip
    """(log(var) + (input - target)² / var) / 2, for a normal distribution with this mean and variance.

    ``var`` is a number, or has the input's shape, where its last axis may be 1 or left out. It counts as at least ``eps``,
    but its gradient is that of a variance of ``eps`` there, not 0. ``full`` adds log(2 π) / 2.
    """
    who = "gaussian_nll_loss"
    if not eps > 0:
        raise ValueError(f"{who}: eps is {eps}. It must be above 0.")
    x, v = numbers(input, who), numbers(var, who)
    if v.ndim and v.ndim == x.ndim - 1 and is_same_shape(v.shape, x.shape[:-1]):
        v = unsqueeze(v, v.ndim)
    fixed = detach(v)
    v = add(sub(v, fixed), clamp(fixed, min=float(eps)))
    losses = mul(add(log(v), div(square(sub(x, target)), v)), 0.5)
    return _reduced(add(losses, math.log(2 * math.pi) / 2) if full else losses, reduction, who)


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
