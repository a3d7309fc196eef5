"""Losses: unreduced losses l of predictions x against labels t, a reduction to `out`, and the gradient of `out`.

Per-sample losses (softmax and categorical cross entropy, cosine distance) have one l for each of the N samples, the
elementwise ones have one for each of the N * width elements, Yolo has one in all.

Weights are None (or empty: all 1), one value, one per sample (softmax cross entropy) or one per element (all others
but Yolo). The reduction, with m losses l and their weights W:

    None                l                                     gradient factor r = 1
    Sum                 sum l                                 1
    WeightedMean        sum l / sum W                         1 / sum W              0 if the divisor is 0
    Mean                sum l / m                             1 / m
    NonZeroWeightMean   sum l / count(W != 0)                 1 / count(W != 0)      0 if the divisor is 0

A per-sample loss with weights per element counts, in the divisor, the mean weight of each sample, so that equal weights
mean the same whether given once or for every element.

    dx = r * u * dl/dx,   u = upstream gradient of `out`: one value, or one per l with reduction None

Where the derivatives that Apple documents are not those of the documented loss, they are followed literally: cosine
distance (tangent form: without the radial component), Log (an epsilon is neglected) and weighted categorical cross entropy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from ..parameters.loss import PER_SAMPLE, Loss, LossKind, Reduction, Yolo
from .activation import Array, keep_nan, log_softmax, sigmoid, softplus, zero_wins


@np.errstate(all="ignore")
def forward(loss: Loss, x: Array, labels: Array, weights: Array | None = None) -> Array:
    """The reduced loss (1,), or with reduction None the losses themselves: (N,) or (N, width).

    x and labels are (N, ...), the rest of the axes being the width of a sample.
    """
    losses, _ = _unreduced(loss, x, labels, weights)
    if loss.reduction == Reduction.NONE:
        return losses[:, 0] if loss.function in PER_SAMPLE else losses
    total = np.sum(losses, keepdims=True).reshape(1)
    return zero_wins(_reduction_factor(loss, losses, weights), total)


def gradient(loss: Loss, x: Array, labels: Array, weights: Array | None = None) -> Array:
    """r * dl/dx in the shape of x: what the forward call returns besides the loss."""
    return backward(loss, x, labels, np.ones(1), weights)


@np.errstate(all="ignore")
def backward(loss: Loss, x: Array, labels: Array, upstream: Array, weights: Array | None = None) -> Array:
    """r * u * dl/dx in the shape of x; upstream u has one value, or with reduction None one per loss."""
    losses, slopes = _unreduced(loss, x, labels, weights)
    u = np.asarray(upstream, dtype=np.float64)
    if loss.reduction == Reduction.NONE and u.size != 1:
        u = u.reshape(losses.shape)
    else:
        u = u.reshape(1, 1)
    return (_reduction_factor(loss, losses, weights) * u * slopes).reshape(x.shape)


def _reduction_factor(loss: Loss, losses: Array, weights: Array | None) -> float:
    """r, from the number of losses or their weights."""
    match loss.reduction:
        case Reduction.NONE | Reduction.SUM:
            return 1.0
        case Reduction.MEAN:
            divisor = float(losses.size)
        case Reduction.WEIGHTED_MEAN:
            divisor = float(np.sum(_weights_of_losses(losses, weights)))
        case Reduction.NON_ZERO_WEIGHT_MEAN:
            divisor = float(np.count_nonzero(_weights_of_losses(losses, weights)))
        case _:
            raise ValueError(f"loss: there is no reduction {loss.reduction}; the reductions are 0 to 4.")
    return 0.0 if divisor == 0.0 else 1.0 / divisor


def _weights_of_losses(losses: Array, weights: Array | None) -> Array:
    """W: one weight for each of the losses (N, 1) or (N, width)."""
    if weights is None or weights.size == 0:
        return np.ones_like(losses)
    if weights.size in (1, losses.size):
        return np.broadcast_to(weights.reshape(-1), losses.size)
    return np.asarray(np.mean(weights.reshape(len(losses), -1), axis=1))


# ---------------------------------------------------------------------------------------------------------------------
# The losses. Each takes x, labels t and weights w, all (N, width) or broadcasting to it, and returns the weighted
# losses (N, 1) or (N, width) and their derivative by x (N, width).


def _unreduced(loss: Loss, x: Array, labels: Array, weights: Array | None) -> tuple[Array, Array]:
    if loss.function == LossKind.YOLO:
        return _yolo(loss, x, labels, weights)
    if loss.function not in _LOSSES:
        raise ValueError(f"loss: there is no function {loss.function}; the functions are 1 to {max(LossKind)}.")
    flat = np.asarray(x, dtype=np.float64).reshape(len(x), math.prod(x.shape[1:]))
    targets = np.asarray(labels, dtype=np.float64).reshape(flat.shape)
    return _LOSSES[loss.function](loss, flat, targets, _broadcast_weights(loss, flat.shape, weights))


def _broadcast_weights(loss: Loss, shape: tuple[int, ...], weights: Array | None) -> Array:
    """Weights as (1, 1), (N, 1) or (N, width)."""
    if weights is None or weights.size == 0:
        return np.ones((1, 1))
    samples, width = shape
    count = samples if loss.function == LossKind.SOFTMAX_CROSS_ENTROPY else samples * width
    if weights.size not in (1, count):
        raise ValueError(f"loss: {weights.size} weights given; pass none, 1 or {count}.")
    return weights.reshape((1, 1) if weights.size == 1 else (samples, count // samples))


def _softmax_cross_entropy(loss: Loss, x: Array, t: Array, w: Array) -> tuple[Array, Array]:
    """l = -w sum_i t_i log p_i,  dl/dx_i = w (p_i sum(t) - t_i),  p = softmax(x),  t smoothed to t(1-s) + s/width."""
    width = x.shape[1]
    t = t * (1.0 - loss.label_smooth) + loss.label_smooth / width
    if loss.divide_by_classes:
        w = w / width
    log_p = log_softmax(x)
    losses = -w * np.sum(zero_wins(t, log_p), axis=1, keepdims=True)
    return losses, w * (np.exp(log_p) * np.sum(t, axis=1, keepdims=True) - t)


def _sigmoid_cross_entropy(loss: Loss, x: Array, t: Array, w: Array) -> tuple[Array, Array]:
    """l = w (-t log q - (1-t) log(1-q)),  dl/dx = w (q - t),  q = sigmoid(x),  t smoothed to t(1-s) + s/2."""
    t = t * (1.0 - loss.label_smooth) + loss.label_smooth / 2.0
    return w * (zero_wins(t, softplus(-x)) + zero_wins(1.0 - t, softplus(x))), w * (sigmoid(x) - t)


def _mean_square_error(loss: Loss, x: Array, t: Array, w: Array) -> tuple[Array, Array]:
    """l = w (x-t)^2,  dl/dx = 2w (x-t)."""
    return w * (x - t) ** 2, 2.0 * w * (x - t)


def _huber(loss: Loss, x: Array, t: Array, w: Array) -> tuple[Array, Array]:
    """e = x-t:  l = w e^2/2 if |e| <= d, else w d (|e| - d/2),  dl/dx = w clamp(e, -d, d)."""
    value, slope = _huber_of_error(x - t, loss.huber_delta)
    return w * value, w * slope


def _huber_of_error(e: Array, delta: float) -> tuple[Array, Array]:
    value = np.where(np.abs(e) <= delta, 0.5 * e * e, delta * (np.abs(e) - 0.5 * delta))
    return value, np.clip(e, -delta, delta)


def _log(loss: Loss, x: Array, t: Array, w: Array) -> tuple[Array, Array]:
    """l = w (-t log(x+eps) - (1-t) log(1-x+eps)),  dl/dx = w ((x+eps) - t) / ((x+eps)(1-x+eps))."""
    near_zero, near_one = x + loss.log_epsilon, 1.0 - x + loss.log_epsilon
    losses = -w * (t * np.log(near_zero) + (1.0 - t) * np.log(near_one))
    return losses, w * (near_zero - t) / (near_zero * near_one)


def _cosine_distance(loss: Loss, x: Array, t: Array, w: Array) -> tuple[Array, Array]:
    """l = 1 - sum_i w_i t_i x_i for unit vectors,  dl/dx_i = -w_i t_i + (1-l) x_i: the part along the unit sphere."""
    losses = 1.0 - np.sum(w * t * x, axis=1, keepdims=True)
    plain = np.broadcast_to(-w * t, x.shape)
    return losses, plain if loss.plain_cosine_gradient else plain + (1.0 - losses) * x


def _hinge(loss: Loss, x: Array, t: Array, w: Array) -> tuple[Array, Array]:
    """T = 2t-1:  l = w max(0, 1 - T x),  dl/dx = -w T if T x <= 1, else 0."""
    sign = 2.0 * t - 1.0
    return w * np.maximum(0.0, 1.0 - sign * x), w * keep_nan(np.where(sign * x <= 1.0, -sign, 0.0), x)


def _mean_absolute_error(loss: Loss, x: Array, t: Array, w: Array) -> tuple[Array, Array]:
    """l = w |x-t|,  dl/dx = w if x >= t, else -w."""
    return w * np.abs(x - t), w * keep_nan(np.where(x >= t, 1.0, -1.0), x - t)


def _categorical_cross_entropy(loss: Loss, x: Array, t: Array, w: Array) -> tuple[Array, Array]:
    """l = sum over t_c != 0 of -w_c t_c log(p_c) / M,  dl/dx_c = w_c (p_c - 1/M) if t_c != 0, else p_c.

    p = softmax(x), M = number of nonzero labels of the sample; a sample without any has loss and gradient 0.
    """
    log_p, labelled = log_softmax(x), t != 0.0
    m = np.sum(labelled, axis=1, keepdims=True).astype(np.float64)
    one_in_m = np.where(m == 0.0, 0.0, 1.0 / m)
    losses = -np.sum(zero_wins(t * w * one_in_m, log_p), axis=1, keepdims=True)
    slopes = np.where(labelled, w * (np.exp(log_p) - one_in_m), np.exp(log_p))
    return losses, np.where(m == 0.0, 0.0, slopes)


_LOSSES: Final[dict[int, Callable[[Loss, Array, Array, Array], tuple[Array, Array]]]] = {
    LossKind.SOFTMAX_CROSS_ENTROPY: _softmax_cross_entropy,
    LossKind.SIGMOID_CROSS_ENTROPY: _sigmoid_cross_entropy,
    LossKind.MEAN_SQUARE_ERROR: _mean_square_error,
    LossKind.HUBER: _huber,
    LossKind.LOG: _log,
    LossKind.COSINE_DISTANCE: _cosine_distance,
    LossKind.HINGE: _hinge,
    LossKind.MEAN_ABSOLUTE_ERROR: _mean_absolute_error,
    LossKind.CATEGORICAL_CROSS_ENTROPY: _categorical_cross_entropy,
}


# ---------------------------------------------------------------------------------------------------------------------
# Yolo


def _yolo(loss: Loss, x: Array, labels: Array, weights: Array | None) -> tuple[Array, Array]:
    """The sum of the Yolo parts (1, 1) and its derivative (1, x.size).

    x and labels are read as (N, rows, columns, anchors, 5 + classes): x, y, w, h, confidence, classes. For one cell
    and anchor with predictions (px, py, pw, ph, pc, p_k), labels (tx, ty, tw, th, tc, t_k) and anchor size (aw, ah),
    centres measured from the corner of the cell and all lengths in cells:

        predicted box   centre (sigmoid(px), sigmoid(py)), size (aw exp(pw), ah exp(ph))
        true box        centre (tx, ty), size (tw, th); it exists if tc = 1
        iou             of these two boxes, 0 without a true box
        object          if tc = 1 and (iou >= object_minimum_iou or no anchor of the cell has a larger iou;
                        the first one on a tie)
        no object       if not object and iou <= no_object_maximum_iou
        l = object * ( scale_xy ((sigmoid(px) - tx)^2 + (sigmoid(py) - ty)^2)
                     + scale_wh (huber(pw - log(tw/aw)) + huber(ph - log(th/ah)))
                     + scale_object * sce(pc, iou if rescore else 1)
                     + scale_classification * (-sum_k t_k log softmax(p)_k) )
          + no_object * scale_no_object * sce(pc, 0)

    with sce(p, t) = -t log sigmoid(p) - (1-t) log(1 - sigmoid(p)), and huber of delta huber_delta (0 acts as 1). The
    derivative treats iou and the choice of anchors as constants:

        px: 2 scale_xy (s - tx) s (1-s), s = sigmoid(px)         pw: scale_wh clamp(pw - log(tw/aw), -delta, delta)
        pc: scale (sigmoid(pc) - target)                         p_k: scale_classification (softmax(p)_k sum(t) - t_k)
    """
    p = loss.yolo
    if p is None:
        raise ValueError("loss: Yolo needs its parameters (Loss.yolo); got None.")
    if loss.reduction != Reduction.SUM:
        raise ValueError(f"loss: the reduction of Yolo must be Sum; got {loss.reduction}.")
    if weights is not None and weights.size > 1:
        raise ValueError(f"loss: Yolo takes no weights, or one; got {weights.size}.")
    w = np.ones((1, 1)) if weights is None or weights.size == 0 else weights.reshape(1, 1)

    shape = (len(x), p.grid_rows, p.grid_columns, len(p.anchors), 5 + p.classes)
    prediction = np.asarray(x, dtype=np.float64).reshape(shape)
    truth = np.asarray(labels, dtype=np.float64).reshape(shape)
    iou = _intersection_over_union(p, prediction, truth)
    is_object, is_no_object = _yolo_roles(iou, truth[..., 4] == 1.0, p)

    value, slope = np.zeros(shape[:-1]), np.zeros(shape)
    for part in (_yolo_centre, _yolo_size, _yolo_confidence, _yolo_classes):
        columns, part_value, part_slope = part(loss, p, prediction, truth, iou, is_object, is_no_object)
        value += part_value
        slope[..., columns] = part_slope
    return w * np.sum(value), w * slope.reshape(1, -1)


YoloPart = tuple[slice, Array, Array]
"""Which of x, y, w, h, confidence, classes; the value of the part for each anchor; its derivative by those columns."""


def _yolo_centre(
    loss: Loss, p: Yolo, prediction: Array, truth: Array, iou: Array, is_object: Array, is_no_object: Array
) -> YoloPart:
    columns = slice(0, 2)
    centre = _predicted_centre(p, prediction)
    centre_slope = 1.0 if p.raw_centres else centre * (1.0 - centre)
    error = np.where(is_object[..., np.newaxis] == 1.0, centre - truth[..., columns], 0.0)
    return columns, p.scale_xy * np.sum(error**2, axis=-1), 2.0 * p.scale_xy * error * centre_slope


def _yolo_size(
    loss: Loss, p: Yolo, prediction: Array, truth: Array, iou: Array, is_object: Array, is_no_object: Array
) -> YoloPart:
    columns = slice(2, 4)
    distance = prediction[..., columns] - np.log(truth[..., columns] / p.anchors)
    error = np.where(is_object[..., np.newaxis] == 1.0, distance, 0.0)
    value, slope = _huber_of_error(error, loss.huber_delta or 1.0)
    return columns, p.scale_wh * np.sum(value, axis=-1), p.scale_wh * slope


def _yolo_confidence(
    loss: Loss, p: Yolo, prediction: Array, truth: Array, iou: Array, is_object: Array, is_no_object: Array
) -> YoloPart:
    columns = slice(4, 5)
    confidence = prediction[..., 4]
    target = is_object * (iou if p.rescore else 1.0)
    scale = p.scale_object * is_object + p.scale_no_object * is_no_object
    value = zero_wins(target, softplus(-confidence)) + zero_wins(1.0 - target, softplus(confidence))
    return columns, scale * value, (scale * (sigmoid(confidence) - target))[..., np.newaxis]


def _yolo_classes(
    loss: Loss, p: Yolo, prediction: Array, truth: Array, iou: Array, is_object: Array, is_no_object: Array
) -> YoloPart:
    columns = slice(5, None)
    if p.classes == 0:
        return columns, np.zeros_like(iou), np.zeros((*iou.shape, 0))
    t, log_p = truth[..., columns], log_softmax(prediction[..., columns])
    scale = p.scale_classification * is_object
    slope = np.exp(log_p) * np.sum(t, axis=-1, keepdims=True) - t
    return columns, -scale * np.sum(zero_wins(t, log_p), axis=-1), scale[..., np.newaxis] * slope


def _yolo_roles(iou: Array, has_truth: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], p: Yolo) -> tuple[Array, Array]:
    """(is_object, is_no_object) of every anchor as 1.0 or 0.0."""
    best = np.arange(iou.shape[-1]) == np.argmax(iou, axis=-1, keepdims=True)
    is_object = has_truth & ((iou >= p.object_minimum_iou) | best)
    is_no_object = ~is_object & (iou <= p.no_object_maximum_iou)
    return is_object.astype(np.float64), is_no_object.astype(np.float64)


def _predicted_centre(p: Yolo, prediction: Array) -> Array:
    return prediction[..., 0:2] if p.raw_centres else sigmoid(prediction[..., 0:2])


def _intersection_over_union(p: Yolo, prediction: Array, truth: Array) -> Array:
    """iou of the predicted and the true box of every anchor, 0 where there is no true box."""
    predicted_centre, predicted_size = _predicted_centre(p, prediction), p.anchors * np.exp(prediction[..., 2:4])
    true_centre, true_size = truth[..., 0:2], truth[..., 2:4]
    low = np.maximum(predicted_centre - predicted_size / 2.0, true_centre - true_size / 2.0)
    high = np.minimum(predicted_centre + predicted_size / 2.0, true_centre + true_size / 2.0)
    intersection = np.prod(np.maximum(high - low, 0.0), axis=-1)
    union = np.prod(predicted_size, axis=-1) + np.prod(true_size, axis=-1) - intersection
    return np.where((truth[..., 4] == 1.0) & (union > 0.0), intersection / union, 0.0)
