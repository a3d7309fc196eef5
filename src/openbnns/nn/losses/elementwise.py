"""Losses of every element of an output, against targets in its shape."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from ... import LossFunction
from ...graph.tensor import Array
from ._base import BoundLoss, Loss, LossAndGradient, NativeBound, NativeLoss, Reduction, as_weights


class MSELoss(NativeLoss):
    """(y - t)².

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.MSELoss()(np.float32([[1], [5]]), np.float32([[1], [1]]))
    >>> value, gradient.tolist()
    (8.0, [[0.0], [4.0]])
    """

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)

    def function(self) -> LossFunction:
        return LossFunction.mean_square_error()


class HuberLoss(NativeLoss):
    """(y - t)² / 2 within ``delta`` of the target, delta (|y - t| - delta / 2) beyond.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.HuberLoss(delta=1.0)(np.float32([[0.5], [9]]), np.float32([[0], [0]]))
    >>> value, gradient.tolist()
    (4.3125, [[0.25], [0.5]])
    """

    def __init__(self, *, reduction: Reduction = "mean", delta: float = 1.0) -> None:
        if not delta > 0:
            raise ValueError(f"HuberLoss: delta is {delta}. It must be above 0.")
        self.delta = float(delta)
        super().__init__(reduction, delta=self.delta)

    def function(self) -> LossFunction:
        return LossFunction.huber(huber_delta=self.delta)


class BCEWithLogitsLoss(NativeLoss):
    """Binary cross entropy of q = sigmoid(y) against targets t between 0 and 1: w (-p t log q - (1 - t) log(1 - q)).

    ``weight`` w broadcasts to the output, and so does ``pos_weight`` p: one number per class on the last axis, for
    instance. The mean divides by the number of elements, whatever their weights.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.BCEWithLogitsLoss()(np.float32([[0], [100]]), np.float32([[1], [1]]))
    >>> round(value, 4), gradient.tolist()
    (0.3466, [[-0.25], [0.0]])
    >>> nn.BCEWithLogitsLoss(pos_weight=[3])(np.float32([[0], [0]]), np.float32([[1], [0]]))[1].tolist()
    [[-0.75], [0.25]]
    """

    def __init__(self, weight: Any = None, *, reduction: Reduction = "mean", pos_weight: Any = None) -> None:
        self.weight = None if weight is None else as_weights("BCEWithLogitsLoss: weight", weight)
        self.pos_weight = None if pos_weight is None else as_weights("BCEWithLogitsLoss: pos_weight", pos_weight)
        given = {"weight": self.weight, "pos_weight": self.pos_weight}
        super().__init__(reduction, **{name: value for name, value in given.items() if value is not None})

    def function(self) -> LossFunction:
        return LossFunction.sigmoid_cross_entropy()

    def check(self, output_shape: tuple[int, ...], targets: Array) -> None:
        super().check(output_shape, targets)
        for name, value in self._shown.items():
            if name in ("weight", "pos_weight"):
                broadcast(f"BCEWithLogitsLoss: {name}", value, output_shape)

    def bind(self, output: Array, gradient: Array | None) -> BoundLoss:
        return _BoundLogits(self, output, gradient)

    def fill(self, bound: NativeBound, targets: Array) -> None:
        super().fill(bound, targets)
        if isinstance(bound, _BoundLogits) and bound.positive is not None:
            bound.share_out()


class _BoundLogits(NativeBound):
    """With p as the weight of positives, w (p t A + (1 - t) B) = v (s A + (1 - s) B) for v = w (p t + 1 - t), s = w p t /
    v."""

    def __init__(self, loss: BCEWithLogitsLoss, output: Array, gradient: Array | None) -> None:
        super().__init__(loss, output, gradient)
        shape = output.shape
        self._given = None if loss.weight is None else broadcast("BCEWithLogitsLoss: weight", loss.weight, shape)
        self.positive: Array | None = None
        if loss.pos_weight is not None:
            self.positive = broadcast("BCEWithLogitsLoss: pos_weight", loss.pos_weight, shape)
            self._weights = np.empty(shape, np.float32)
        elif self._given is not None:
            self._weights = self._given

    def share_out(self) -> None:
        """Rewrite labels and element weights so that they include p."""
        t, v = self.labels.reshape(self.shape), self._weights
        assert self.positive is not None and v is not None
        np.subtract(1.0, t, out=v)
        t *= self.positive
        v += t
        np.divide(t, v, out=t, where=v != 0.0)
        if self._given is not None:
            v *= self._given


# Losses with PyTorch's meaning that BNNS lacks, or has with another one at some points.


class ElementBound(BoundLoss):
    """A loss that is written in NumPy, on memory of its own."""

    loss: ElementLoss

    def __init__(self, loss: ElementLoss, output: Array, gradient: Array | None) -> None:
        super().__init__(loss, gradient, output.shape)
        self.output, self.gradient = output, gradient
        self.targets, self.work = np.zeros(output.shape, np.float32), np.empty(output.shape, np.float32)

    def take(self, targets: Array) -> None:
        np.copyto(self.targets, targets, casting="unsafe")

    @np.errstate(all="ignore")
    def _compute(self, losses: Array) -> None:
        self.loss.compute(self.output, self.targets, losses, self.gradient, self.work)

    def _scale_gradient(self, factor: Any) -> None:
        if not isinstance(factor, float) or factor != 1.0:
            self.gradient *= factor


class ElementLoss(Loss):
    """Base of these losses."""

    def bind(self, output: Array, gradient: Array | None) -> BoundLoss:
        return ElementBound(self, output, gradient)

    def compute(self, y: Array, t: Array, losses: Array, gradient: Array | None, work: Array) -> None:
        """Write the losses and, if wanted, their derivatives; ``work`` is memory of the same shape."""
        raise NotImplementedError


class L1Loss(ElementLoss):
    """|y - t|. The gradient at y = t is 0, as in PyTorch; that of BNNS's mean_absolute_error is 1.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.L1Loss()(np.float32([[1], [5]]), np.float32([[0], [7]]))
    >>> value, gradient.tolist()
    (1.5, [[0.5], [-0.5]])
    """

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)

    def compute(self, y: Array, t: Array, losses: Array, gradient: Array | None, work: Array) -> None:
        np.subtract(y, t, out=work)
        np.absolute(work, out=losses)
        if gradient is not None:
            np.sign(work, out=gradient)


class SmoothL1Loss(Loss):
    """(y - t)² / (2 beta) within ``beta`` of the target, |y - t| - beta / 2 beyond: a Huber loss divided by beta.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.SmoothL1Loss(beta=0.5)(np.float32([[0.25], [9]]), np.float32([[0], [0]]))
    >>> value, gradient.tolist()
    (4.40625, [[0.25], [0.5]])
    """

    def __init__(self, *, reduction: Reduction = "mean", beta: float = 1.0) -> None:
        if not 0 <= beta < math.inf:
            raise ValueError(f"SmoothL1Loss: beta is {beta}. It must be at least 0.")
        self.beta = float(beta)
        super().__init__(reduction, **({"beta": self.beta} if beta != 1.0 else {}))
        self._inner: Loss = HuberLoss(reduction=reduction, delta=beta) if beta else L1Loss(reduction=reduction)
        self._inner._scale = 1.0 / self.beta if beta else 1.0

    def bind(self, output: Array, gradient: Array | None) -> BoundLoss:
        return self._inner.bind(output, gradient)


class BCELoss(ElementLoss):
    """Binary cross entropy of probabilities y against targets t between 0 and 1: w (-t log y - (1 - t) log(1 - y)).

    Logarithms count as at least -100, as in PyTorch; BNNS's log adds 1e-7 instead. ``weight`` w broadcasts to the output;
    the mean divides by the number of elements. :class:`BCEWithLogitsLoss`, without a sigmoid before it, is more accurate.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.BCELoss()(np.float32([[0.5], [0.75]]), np.float32([[1], [1]]))
    >>> round(value, 4), gradient.round(4).tolist()
    (0.4904, [[-1.0], [-0.666700005531311]])
    """

    def __init__(self, weight: Any = None, *, reduction: Reduction = "mean") -> None:
        self.weight = None if weight is None else as_weights("BCELoss: weight", weight)
        super().__init__(reduction, **({} if self.weight is None else {"weight": self.weight}))

    def check(self, output_shape: tuple[int, ...], targets: Array) -> None:
        super().check(output_shape, targets)
        if self.weight is not None:
            broadcast("BCELoss: weight", self.weight, output_shape)

    def check_output(self, output: Array) -> None:
        if output.size and not (output.min() >= 0.0 and output.max() <= 1.0):
            raise ValueError(
                f"BCELoss: the output goes from {output.min():g} to {output.max():g}, but it must be probabilities. Put "
                "nn.Sigmoid() at the end of the network, or use nn.BCEWithLogitsLoss without it."
            )

    def bind(self, output: Array, gradient: Array | None) -> BoundLoss:
        bound = ElementBound(self, output, gradient)
        bound._weights = None if self.weight is None else broadcast("BCELoss: weight", self.weight, output.shape)
        return bound

    def compute(self, y: Array, t: Array, losses: Array, gradient: Array | None, work: Array) -> None:
        np.log(y, out=losses)
        np.maximum(losses, -100.0, out=losses)
        losses *= t
        np.negative(y, out=work)
        np.log1p(work, out=work)
        np.maximum(work, -100.0, out=work)
        if gradient is not None:  # its memory is free until it is written
            np.subtract(t, 1.0, out=gradient)
            work *= gradient
        else:
            work *= t - 1.0
        np.subtract(work, losses, out=losses)
        if gradient is not None:
            np.subtract(1.0, y, out=work)
            work *= y
            np.maximum(work, 1e-12, out=work)
            np.subtract(y, t, out=gradient)
            gradient /= work


class KLDivLoss(ElementLoss):
    """t (log t - y) of log-probabilities y against probabilities t, or with ``log_target`` against their logarithms.

    The divergence of distributions is their sum over the classes: ``reduction="batchmean"`` divides the sum of all
    by the number of samples; "mean" divides by the number of elements, as in PyTorch.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> loss = nn.KLDivLoss(reduction="batchmean")
    >>> value, gradient = loss(np.log(np.float32([[0.5, 0.5]])), np.float32([[0.25, 0.75]]))
    >>> round(value, 4), gradient.tolist()
    (0.1308, [[-0.25, -0.75]])
    """

    _reductions = ("none", "sum", "mean", "batchmean")

    def __init__(
        self, *, reduction: Literal["none", "sum", "mean", "batchmean"] = "mean", log_target: bool = False
    ) -> None:
        self.log_target = bool(log_target)
        super().__init__(reduction, **({"log_target": True} if log_target else {}))

    def check(self, output_shape: tuple[int, ...], targets: Array) -> None:
        if self.log_target:
            self._require_shape(output_shape, targets)
            if np.isnan(targets).any() or np.isposinf(targets).any():
                raise ValueError("KLDivLoss: targets contain NaN or infinity. Pass logarithms of probabilities.")
            return
        super().check(output_shape, targets)

    def compute(self, y: Array, t: Array, losses: Array, gradient: Array | None, work: Array) -> None:
        if self.log_target:
            np.exp(t, out=work)
            np.subtract(t, y, out=losses)
            losses[work == 0.0] = 0.0  # also where the logarithm is -inf
            losses *= work
        else:
            np.copyto(work, t)
            np.log(t, out=losses)
            losses[t == 0.0] = 0.0
            losses -= y
            losses *= t
            losses[t == 0.0] = 0.0
        if gradient is not None:
            np.negative(work, out=gradient)


class HingeEmbeddingLoss(ElementLoss):
    """y where the target is 1, max(0, margin - y) where it is -1. BNNS's hinge is another loss, :class:`BNNSLoss`.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.HingeEmbeddingLoss()(np.float32([3, 0.25, 2]), np.array([1, -1, -1]))
    >>> value, gradient.round(4).tolist()
    (1.25, [0.33329999446868896, -0.33329999446868896, 0.0])
    """

    def __init__(self, margin: float = 1.0, *, reduction: Reduction = "mean") -> None:
        self.margin = number("HingeEmbeddingLoss: margin", margin)
        super().__init__(reduction, **({"margin": self.margin} if self.margin != 1.0 else {}))

    def check(self, output_shape: tuple[int, ...], targets: Array) -> None:
        super().check(output_shape, targets)
        require_signs("HingeEmbeddingLoss", targets)

    def compute(self, y: Array, t: Array, losses: Array, gradient: Array | None, work: Array) -> None:
        positive = t > 0
        np.subtract(self.margin, y, out=work)
        np.maximum(work, 0.0, out=losses)
        np.copyto(losses, y, where=positive)
        if gradient is not None:
            np.copyto(gradient, np.where(work >= 0.0, np.float32(-1.0), np.float32(0.0)))
            np.copyto(gradient, 1.0, where=positive)


class CosineEmbeddingLoss(Loss):
    """1 - cos(a, b) where the target is 1, max(0, cos - margin) where it is -1, for outputs a and b (N, features).

    ``loss(a, b, targets)`` gives the loss and the pair of gradients. BNNS's distance of unit vectors is one
    of :class:`BNNSLoss`.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> a, b = np.float32([[1, 0], [3, 4]]), np.float32([[0, 2], [3, 4]])
    >>> value, (da, db) = nn.CosineEmbeddingLoss()(a, b, np.array([1, -1]))
    >>> value, da.tolist(), db.tolist()
    (1.0, [[0.0, -0.5], [0.0, 0.0]], [[-0.25, 0.0], [0.0, 0.0]])
    """

    of_several = "cosine_embedding_loss(*outputs, targets)"

    def __init__(self, margin: float = 0.0, *, reduction: Reduction = "mean") -> None:
        self.margin = number("CosineEmbeddingLoss: margin", margin)
        if not -1.0 <= self.margin <= 1.0:
            raise ValueError(f"CosineEmbeddingLoss: margin is {margin}. It must be between -1 and 1, as a cosine is.")
        super().__init__(reduction, **({"margin": self.margin} if self.margin else {}))

    def check(self, output_shape: Any, targets: Array) -> None:
        """``output_shape`` is the pair of the shapes of both outputs."""
        first, second = output_shape
        if first != second or len(first) != 2:
            raise ValueError(
                f"CosineEmbeddingLoss: the outputs have shapes {first} and {second}. Both must be (N, features)."
            )
        if targets.shape != first[:1]:
            raise ValueError(
                f"CosineEmbeddingLoss: targets have shape {targets.shape}. Pass 1 or -1 for each pair: {first[:1]}."
            )
        require_signs("CosineEmbeddingLoss", targets)

    def bind(self, output: Any, gradient: Any) -> BoundLoss:
        """``output`` and ``gradient`` are pairs of arrays."""
        return _BoundCosine(self, output, gradient)

    def __call__(  # type: ignore[override]
        self, output1: Any, output2: Any, targets: Any, *, sample_weights: Any = None
    ) -> tuple[Any, Any]:
        """The loss, and the pair of its gradients with respect to both outputs."""
        pair = tuple(np.ascontiguousarray(output, np.float32) for output in (output1, output2))
        given = np.asarray(targets)
        self.check(tuple(a.shape for a in pair), given)
        gradients = tuple(np.empty_like(a) for a in pair)
        bound = self.bind(pair, gradients)
        weights = None if sample_weights is None else self.check_sample_weights(sample_weights, bound.shape)
        bound.take(given)
        value = bound.run(weights)
        return LossAndGradient((bound.losses.copy() if self.reduction == "none" else value, gradients))


class _BoundCosine(BoundLoss):
    loss: CosineEmbeddingLoss

    def __init__(self, loss: CosineEmbeddingLoss, output: Any, gradient: Any) -> None:
        super().__init__(loss, gradient, output[0].shape[:1])
        self._pair, self._gradients = output, gradient
        self._targets = np.zeros(self.shape, np.float32)
        self._slopes = np.empty(self.shape)

    def take(self, targets: Array) -> None:
        np.copyto(self._targets, targets, casting="unsafe")

    def _compute(self, losses: Array) -> None:
        a, b = self._pair
        tiny = 1e-12  # as in PyTorch, so that a zero has a cosine
        product = np.einsum("ij,ij->i", a, b, dtype=np.float64)
        aa = np.einsum("ij,ij->i", a, a, dtype=np.float64) + tiny
        bb = np.einsum("ij,ij->i", b, b, dtype=np.float64) + tiny
        length = np.sqrt(aa * bb)
        cosine = product / length
        same = self._targets > 0
        beyond = cosine - self.loss.margin
        losses[...] = np.where(same, 1.0 - cosine, np.maximum(beyond, 0.0))
        if self._has_gradient:
            slope = np.where(same, -1.0, np.where(beyond >= 0.0, 1.0, 0.0))
            for mine, other, square, target in zip((a, b), (b, a), (aa, bb), self._gradients, strict=True):
                np.multiply(other, (slope / length)[:, None], out=target, casting="unsafe")
                target -= mine * (slope * cosine / square)[:, None].astype(np.float32)

    def _scale_gradient(self, factor: Any) -> None:
        for gradient in self._gradients:
            gradient *= factor if isinstance(factor, float) else factor[:, None]


def broadcast(who: str, values: Array, shape: tuple[int, ...]) -> Array:
    """Weights in the shape of an output."""
    try:
        return np.ascontiguousarray(np.broadcast_to(values, shape))
    except ValueError:
        raise ValueError(
            f"{who} has shape {values.shape}, which does not broadcast to the output, {shape}. Pass one number, one per "
            f"element, or one per class on the last axis, ({shape[-1]},)."
        ) from None


def number(who: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{who} must be a number, not {value!r}.")
    if not math.isfinite(value):
        raise ValueError(f"{who} is {value}. It must be finite.")
    return float(value)


def require_signs(who: str, targets: Array) -> None:
    if not (np.abs(targets) == 1).all():
        wrong = targets[np.abs(targets) != 1].flat[0]
        raise ValueError(f"{who}: targets contain {wrong}. Pass 1 for what belongs together and -1 for what does not.")
